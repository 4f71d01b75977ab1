//! The flags. Parsed and checked here, before anything is touched.

use std::net::IpAddr;
use std::num::NonZero;
use std::thread::available_parallelism;

use crate::answer::Kind;
use crate::credit::{self, Policy};
use crate::grpc::Windows;

/// What `--help` prints.
pub const USAGE: &str = "\
Usage: echo-rs [flags]

The Go subject `echo` without a garbage collector: gives each payload back with the
server's own timestamp, over a plain stream, HTTP/1.1 or gRPC.

  --protocol NAME        tcp (each message behind its length, 4 bytes, big-endian),
                         rest (POST /echo) or grpc (wallfinder.echo.Echo/Call) (default tcp)
  --host ADDRESS         where to listen (default 127.0.0.1)
  --port N               0 takes a free one, and the start-up line says which (default 8084)
  --answer KIND          echo, ack (no data) or a number of bytes (default echo)
  --credit BYTES         grant credit: so much may a connection send unread (tcp;
                         docs/framed-credit.md)
  --credit-shared BYTES  grant credit: so much may all connections send unanswered (tcp)
  --threads N            event loops; connections are dealt out in turn
                         (default: as many as processors it may run on)
  --window BYTES         flow control of a stream (default 1048576; grpc)
  --connection-window BYTES  of a connection (default 1048576; grpc)
  --version              print versions and exit
  --help                 print this and exit
";

const THREADS_MAX: u32 = 1024;
const WINDOW_MIN: u32 = 65_535;
const WINDOW_MAX: u32 = 1 << 30;

/// What the messages travel in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Length and message.
    Tcp,
    /// HTTP/1.1.
    Rest,
    /// HTTP/2.
    Grpc,
}

impl Protocol {
    /// As on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Rest => "rest",
            Protocol::Grpc => "grpc",
        }
    }
}

/// The command line, checked.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the messages travel in.
    pub protocol: Protocol,
    /// Where it listens.
    pub host: IpAddr,
    /// 0: a free one.
    pub port: u16,
    /// What is given back.
    pub answer: Kind,
    /// How clients are granted what they send.
    pub credit: Policy,
    /// Event loops.
    pub threads: u32,
    /// Of gRPC.
    pub windows: Windows,
}

/// Why there is nothing to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoServer {
    /// `--help`.
    Help,
    /// `--version`.
    Version,
    /// What is wrong with the command line.
    Mistake(String),
}

impl Options {
    /// Reads the words after the program. Both `--flag value` and `--flag=value` will do.
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Options, NoServer> {
        let mut options = Options {
            protocol: Protocol::Tcp,
            host: IpAddr::from([127, 0, 0, 1]),
            port: 8084,
            answer: Kind::parse("echo").map_err(NoServer::Mistake)?,
            credit: Policy::Silent,
            threads: available_parallelism().map_or(1, NonZero::get) as u32,
            windows: Windows::default(),
        };
        let (mut windowed, mut credited) = (None, None);
        let mut args = args;
        while let Some(word) = args.next() {
            let (flag, attached) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            match flag {
                "--help" | "-h" => return Err(NoServer::Help),
                "--version" => return Err(NoServer::Version),
                _ => {}
            }
            if !FLAGS.contains(&flag) {
                return Err(mistake(format!("there is no flag `{flag}`")));
            }
            let value = attached
                .or_else(|| args.next())
                .ok_or_else(|| mistake(format!("{flag} lacks its value")))?;
            let wrong = |why: &str| mistake(format!("{flag} {value}: {why}"));
            let number = |least: u32, most: u32| {
                let number = value.parse().ok();
                let number = number.filter(|number| (least..=most).contains(number));
                number
                    .ok_or_else(|| wrong(&format!("must be a whole number from {least} to {most}")))
            };
            match flag {
                "--protocol" => {
                    let known = [Protocol::Tcp, Protocol::Rest, Protocol::Grpc];
                    let found = known.into_iter().find(|known| known.name() == value);
                    options.protocol =
                        found.ok_or_else(|| wrong("must be one of tcp, rest, grpc"))?;
                }
                "--host" => {
                    options.host = value.parse().map_err(|_| wrong("must be an IP address"))?;
                }
                "--port" => options.port = number(0, u32::from(u16::MAX))? as u16,
                "--answer" => options.answer = Kind::parse(&value).map_err(|why| wrong(&why))?,
                "--credit" | "--credit-shared" => {
                    let bytes = number(1, credit::BYTES_MAX)?;
                    options.credit = match flag {
                        "--credit" => Policy::Window(bytes),
                        _ => Policy::shared(bytes),
                    };
                    if credited.is_some_and(|other| other != flag) {
                        let both = "--credit and --credit-shared both grant credit: give one";
                        return Err(mistake(both.to_owned()));
                    }
                    credited = FLAGS.into_iter().find(|known| *known == flag);
                }
                "--threads" => options.threads = number(1, THREADS_MAX)?,
                "--window" => {
                    options.windows.stream = number(WINDOW_MIN, WINDOW_MAX)?;
                    windowed = Some("--window");
                }
                _ => {
                    options.windows.connection = number(WINDOW_MIN, WINDOW_MAX)?;
                    windowed = Some("--connection-window");
                }
            }
        }
        match (windowed, credited) {
            (Some(flag), _) if options.protocol != Protocol::Grpc => {
                Err(mistake(format!("{flag} needs --protocol grpc")))
            }
            (_, Some(flag)) if options.protocol != Protocol::Tcp => {
                Err(mistake(format!("{flag} needs --protocol tcp")))
            }
            _ => Ok(options),
        }
    }
}

/// Those that take a value.
const FLAGS: [&str; 9] = [
    "--protocol",
    "--host",
    "--port",
    "--answer",
    "--credit",
    "--credit-shared",
    "--threads",
    "--window",
    "--connection-window",
];

fn mistake(why: String) -> NoServer {
    NoServer::Mistake(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, NoServer> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_are_read() {
        let options = parse("--protocol grpc --port=0 --answer ack --threads 3 --window 70000");
        let options = options.unwrap();
        assert_eq!((options.protocol, options.port), (Protocol::Grpc, 0));
        assert_eq!((options.threads, options.windows.stream), (3, 70_000));
        assert_eq!(options.answer.to_string(), "ack");
        assert_eq!(parse("").unwrap().host, IpAddr::from([127, 0, 0, 1]));
        assert_eq!(parse("--help").unwrap_err(), NoServer::Help);
        let credit = parse("--credit-shared 5").unwrap().credit;
        assert_eq!(credit.to_string(), "5 for all");
    }

    #[test]
    fn mistakes_are_named() {
        for (line, says) in [
            ("--protocol udp", "tcp, rest, grpc"),
            ("--answer all", "echo, ack or a number"),
            ("--port 65536", "from 0 to 65535"),
            ("--threads 0", "from 1"),
            ("--credit 0", "from 1"),
            ("--credit 1 --credit-shared 1", "give one"),
            ("--credit 1 --protocol rest", "needs --protocol tcp"),
            ("--host nowhere", "IP address"),
            ("--window 70000", "needs --protocol grpc"),
            ("--window 100 --protocol grpc", "from 65535"),
            ("--port", "lacks its value"),
            ("now", "no flag `now`"),
        ] {
            match parse(line) {
                Err(NoServer::Mistake(said)) => assert!(said.contains(says), "{line}: {said}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn every_flag_is_in_the_usage() {
        for flag in FLAGS {
            assert!(USAGE.contains(&format!("  {flag} ")), "{flag}");
        }
    }
}
