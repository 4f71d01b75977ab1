//! The command line that makes a foreign load generator hold a given load.
//!
//! What each tool can hold differs; what it cannot is an error with the reason, never a
//! load that is only nearly the one asked for.

use wallfinder_model::{Arrival, Load, Nanos};
use wallfinder_testbed::scratch::Scratch;
use wallfinder_wire::Exchange;
use wallfinder_wire::mix::Protocol;

/// Pipelining for wrk: the request, repeated. wrk counts the answers by itself.
const WRK_PIPELINE: &str = "\
init = function(args)
  local depth = tonumber(args[1])
  local one = wrk.format()
  local all = {}
  for i = 1, depth do all[i] = one end
  batch = table.concat(all)
end
request = function() return batch end
";

/// The command for `program`, as a shell splits words, with `{url}` for the target, or `{address}`.
/// `arguments` are added before the target; `scratch` is where a tool is given what it needs as a
/// file. echo-client leaves the warm-up out of its window; the others load for as long as both
/// take, and report all of it.
pub fn driver_command(
    program: &str,
    arguments: &[String],
    load: &Load,
    request: &Exchange,
    scratch: &Scratch,
) -> Result<String, String> {
    let (connections, depth) = (load.connections, load.in_flight_per_connection);
    let seconds = (load.stop.after.as_secs_f64() + load.warmup.as_secs_f64())
        .ceil()
        .max(1.0);
    let Arrival::Closed { think } = load.arrival else {
        return Err(format!("{program} is run as a closed loop alone"));
    };
    if think.0 > 0 {
        return Err(format!("{program} knows no think time"));
    }
    let name = program.rsplit('/').next().unwrap_or(program);
    let sends = request.body_bytes() > 0 || !request.header_names().is_empty();
    if sends && arguments.is_empty() {
        return Err(format!(
            "{name} does not know what to send: the driver's `arguments` have to tell it of header \
             fields and messages"
        ));
    }
    let clients = connections.saturating_mul(depth);
    let more = wallfinder_testbed::command::join(arguments);
    match (name, request) {
        ("autocannon", Exchange::Http1(_)) => Ok(format!(
            "{program} -c {connections} -p {depth} -d {seconds} {more} {{url}}"
        )),
        ("wrk", Exchange::Http1(_)) if depth == 1 => Ok(format!(
            "{program} -t1 -c{connections} -d{seconds}s --latency {more} {{url}}"
        )),
        ("wrk", Exchange::Http1(_)) => {
            let script = scratch
                .write("wrk-pipeline.lua", WRK_PIPELINE.as_bytes())
                .map_err(|error| format!("wrk's script cannot be written: {error}"))?;
            let script = wallfinder_testbed::command::join(&[script.display().to_string()]);
            Ok(format!(
                "{program} -t1 -c{connections} -d{seconds}s --latency -s {script} {more} {{url}} -- {depth}"
            ))
        }
        ("h2load", Exchange::Http1(_)) => Ok(format!(
            "{program} --h1 -t1 -c{connections} -m{depth} -D{seconds} {more} {{url}}"
        )),
        ("h2load", Exchange::Http2(_)) => Ok(format!(
            "{program} -t1 -c{connections} -m{depth} -D{seconds} {more} {{url}}"
        )),
        ("oha", Exchange::Http1(_)) if depth == 1 => Ok(format!(
            "{program} --no-tui -c {connections} -z {seconds}s {more} {{url}}"
        )),
        ("oha", Exchange::Http1(_)) => Err("oha does not pipeline".to_owned()),
        ("oha", Exchange::Http2(_)) => Ok(format!(
            "{program} --no-tui --http2 -c {connections} -p {depth} -z {seconds}s {more} {{url}}"
        )),
        ("fortio", Exchange::Http1(_) | Exchange::Http2(_)) if depth > 1 => {
            Err("fortio has one request at a time on a connection of HTTP".to_owned())
        }
        ("fortio", Exchange::Http1(_)) => Ok(format!(
            "{program} load -qps 0 -c {connections} -t {seconds}s {more} {{url}}"
        )),
        ("fortio", Exchange::Http2(_)) => Ok(format!(
            "{program} load -h2 -qps 0 -c {connections} -t {seconds}s {more} {{url}}"
        )),
        ("fortio", Exchange::Grpc(_)) => {
            Err("fortio calls the health check or its own ping, and no method of ours".to_owned())
        }
        ("ghz", Exchange::Grpc(call)) => {
            let method = wallfinder_testbed::command::join(&[call.path.trim_start_matches('/')]);
            // Without a word it breaks off what is under way at its end, and counts that as failed.
            Ok(format!(
                "{program} --insecure --call {method} --connections {connections} -c {clients} \
                 -z {seconds}s --duration-stop wait {more} {{address}}"
            ))
        }
        ("echo-client", Exchange::Http2(_)) => Err("echo-client's HTTP is HTTP/1.1".to_owned()),
        ("echo-client", Exchange::Http1(_) | Exchange::Framed(_)) if depth > 1 => Err(
            "echo-client has one request at a time on a connection, except over gRPC".to_owned(),
        ),
        ("echo-client", _) => {
            let millis = |span: Nanos| span.0.div_ceil(1_000_000);
            let stop = match load.stop.requests {
                Some(requests) => {
                    format!(
                        "--requests {}",
                        requests.div_ceil(u64::from(clients.max(1)))
                    )
                }
                None => format!("--duration {}ms", millis(load.stop.after)),
            };
            let warmup = match load.warmup {
                Nanos(0) => String::new(),
                span => format!("--warmup {}ms", millis(span)),
            };
            let sharing = match depth {
                1 => String::new(),
                depth => format!("--clients-per-channel {depth}"),
            };
            Ok(format!(
                "{program} {more} --clients {clients} {sharing} {warmup} {stop} {{url}}"
            ))
        }
        ("autocannon" | "wrk" | "h2load" | "oha" | "ghz" | "fortio", _) => {
            Err(format!("{name} is not run over {}", protocol(request)))
        }
        _ => Err(format!(
            "how to make {program} hold a given load is not known; name it with --driver"
        )),
    }
}

/// What is spoken, in words.
fn protocol(request: &Exchange) -> &'static str {
    match request {
        Exchange::Mix(mix) => match mix.protocol {
            Protocol::Http1 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2",
            Protocol::Grpc => "gRPC",
        },
        Exchange::Http1(_) => "HTTP/1.1",
        Exchange::Http2(_) => "HTTP/2",
        Exchange::Framed(_) => "a plain stream",
        Exchange::Grpc(_) => "gRPC",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wallfinder_model::{Rate, Stop};
    use wallfinder_testbed::driver::DriverSpec;
    use wallfinder_wire::{Request, framed, grpc};

    fn load(depth: u32) -> Load {
        Load {
            in_flight_per_connection: depth,
            warmup: Nanos::from_millis(500),
            stop: Stop {
                after: Nanos::from_secs(3),
                requests: None,
            },
            ..Load::closed(50)
        }
    }

    fn get() -> Request {
        Request::get("127.0.0.1:9", "/x")
    }

    fn call() -> Exchange {
        Exchange::Grpc(grpc::Request::unary("127.0.0.1:9", "/a.B/C", b"hello"))
    }

    fn message() -> Exchange {
        Exchange::Framed(framed::Request {
            format: "u32be".parse().unwrap(),
            message: b"hello".to_vec(),
        })
    }

    fn command(program: &str, told: &[&str], request: &Exchange, load: &Load) -> Option<String> {
        let arguments: Vec<String> = told.iter().map(|word| (*word).to_owned()).collect();
        let scratch = Scratch::new(None).unwrap();
        let made = driver_command(program, &arguments, load, request, &scratch);
        made.ok()
    }

    /// The load as the command's own flags have it.
    fn understood(command: &str) -> Load {
        DriverSpec::parse(command).expect(command).load()
    }

    #[test]
    fn each_tool_is_told_the_same_load() {
        let (http1, http2) = (Exchange::Http1(get()), Exchange::Http2(get()));
        let proto = ["--proto", "a.proto"];
        for (program, told, request, depth) in [
            ("autocannon", &[][..], &http1, 100),
            ("wrk", &[], &http1, 1),
            ("h2load", &[], &http1, 100),
            ("h2load", &[], &http2, 8),
            ("oha", &[], &http1, 1),
            ("oha", &[], &http2, 8),
            ("fortio", &[], &http1, 1),
            ("fortio", &[], &http2, 1),
            ("ghz", &proto, &call(), 8),
        ] {
            let made = command(program, told, request, &load(depth));
            let command = made.expect(program);
            let load = understood(&command);
            assert_eq!(load.connections, 50, "{command}");
            assert_eq!(load.in_flight_per_connection, depth, "{command}");
            assert_eq!(load.stop.after, Nanos::from_secs(4), "{command}");
            assert!(!load.arrival.is_open(), "{command}");
        }
    }

    #[test]
    fn a_script_is_where_nobody_else_can_have_put_it() {
        use std::os::unix::fs::MetadataExt;
        let http1 = Exchange::Http1(get());
        let scratch = Scratch::new(None).unwrap();
        for _ in 0..2 {
            let made = driver_command("wrk", &[], &load(8), &http1, &scratch).unwrap();
            let words = wallfinder_testbed::command::split(&made).unwrap();
            let at = words.iter().position(|word| word == "-s").unwrap();
            let script = std::path::Path::new(&words[at + 1]);
            assert_eq!(script.parent(), Some(scratch.path()));
            let mode = |path| std::fs::symlink_metadata(path).unwrap().mode() & 0o777;
            assert_eq!((mode(script), mode(scratch.path())), (0o600, 0o700));
            assert_eq!(std::fs::read_to_string(script).unwrap(), WRK_PIPELINE);
        }
    }

    #[test]
    fn the_protocol_is_the_steps_and_no_other() {
        let (http1, http2) = (Exchange::Http1(get()), Exchange::Http2(get()));
        let words = |program: &str, told: &[&str], request: &Exchange| {
            let command = command(program, told, request, &load(1)).expect(program);
            let words = command.split_whitespace().map(str::to_owned);
            words.collect::<Vec<String>>()
        };
        let has = |words: &[String], word: &str| words.iter().any(|given| given == word);
        assert!(has(&words("h2load", &[], &http1), "--h1"));
        assert!(!has(&words("h2load", &[], &http2), "--h1"));
        assert!(has(&words("oha", &[], &http2), "--http2"));
        assert!(has(&words("fortio", &[], &http2), "-h2"));
        assert!(!has(&words("fortio", &[], &http1), "-h2"));
        let ghz = words("ghz", &["--proto", "a.proto"], &call());
        assert!(has(&ghz, "a.B/C") && has(&ghz, "{address}"), "{ghz:?}");
        // What a tool does not speak, or would speak without being told what.
        for (program, told, request) in [
            ("wrk", &[][..], &http2),
            ("autocannon", &[], &http2),
            ("ghz", &[], &http1),
            ("ghz", &[], &call()),
            ("fortio", &["-ping"], &call()),
            ("h2load", &["-d", "x"], &call()),
            ("oha", &["-d", "x"], &message()),
            ("echo-client", &["rest"], &http2),
            ("h2load", &[], &Exchange::Http2(get().header("a", "b"))),
            ("curl", &[], &http1),
        ] {
            assert_eq!(command(program, told, request, &load(1)), None, "{program}");
        }
        for program in ["oha", "fortio"] {
            assert_eq!(command(program, &[], &http1, &load(2)), None, "{program}");
        }
        let mut open = load(1);
        open.arrival = Arrival::Constant { rate: Rate(5.0) };
        assert_eq!(command("wrk", &[], &http1, &open), None);
    }

    #[test]
    fn the_echos_client_leaves_the_warm_up_out_of_its_window() {
        let of_echo = |protocol: &str, request: &Exchange, load: &Load| {
            let told = understood(&command("echo-client", &[protocol], request, load)?);
            let held = (told.connections, told.in_flight_per_connection);
            Some((held, told.stop, told.warmup))
        };
        let (stop, warmup) = (load(1).stop, load(1).warmup);
        let tcp = of_echo("tcp", &message(), &load(1));
        assert_eq!(tcp, Some(((50, 1), stop, warmup)));
        let grpc = of_echo("grpc", &call(), &load(8));
        assert_eq!(grpc, Some(((50, 8), stop, warmup)));
        assert_eq!(of_echo("tcp", &message(), &load(8)), None);
        let mut counted = load(1);
        counted.stop.requests = Some(50_000);
        let (_, told, after) = of_echo("tcp", &message(), &counted).unwrap();
        assert_eq!((told.requests, told.after), (Some(50_000), Nanos(0)));
        assert_eq!(after, warmup);
        let cold = Load {
            warmup: Nanos(0),
            ..load(1)
        };
        let made = command("echo-client", &["tcp"], &message(), &cold);
        let command = made.unwrap();
        assert!(!command.contains("--warmup"), "{command}");
    }
}
