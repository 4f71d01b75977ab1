//! `echo-rs`: the echo without a garbage collector. See `--help`.
//!
//! Standard output carries one line, once it listens; everything else goes to standard
//! error. Exit codes: 1 could not run, 2 bad arguments; a server ends by a signal.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use echo_rs::announce;
use echo_rs::options::{NoServer, Options, USAGE};
use echo_rs::serve::serve;

fn main() -> ExitCode {
    if let Err(error) = subject::follow_starter() {
        eprintln!("echo-rs: the kernel will not tie this process to its starter: {error}");
        return ExitCode::FAILURE;
    }
    match Options::parse(std::env::args().skip(1)) {
        Ok(options) => match serve(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("echo-rs: {}:{}: {error}", options.host, options.port);
                ExitCode::FAILURE
            }
        },
        Err(NoServer::Help) => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        Err(NoServer::Version) => {
            let versions: Vec<String> = announce::versions()
                .map(|(name, version)| format!("{name} {version}"))
                .collect();
            println!("{}", versions.join(", "));
            ExitCode::SUCCESS
        }
        Err(NoServer::Mistake(mistake)) => {
            eprintln!("echo-rs: {mistake}\nTry 'echo-rs --help'.");
            ExitCode::from(2)
        }
    }
}
