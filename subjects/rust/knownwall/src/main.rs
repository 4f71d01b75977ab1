//! `knownwall`: a server whose wall is dialled in. See `--help`.
//!
//! Standard output carries one line, once it listens; everything else goes to standard
//! error. Exit codes: 1 could not run, 2 bad arguments; a server ends by a signal.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use knownwall::background;
use knownwall::options::{NoServer, Options, USAGE};
use knownwall::serve::serve;
use subject::follow_starter;

fn main() -> ExitCode {
    if let Err(error) = follow_starter() {
        eprintln!("knownwall: the kernel will not tie this process to its starter: {error}");
        return ExitCode::FAILURE;
    }
    match Options::parse(std::env::args().skip(1)) {
        Ok(options) => match serve(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("knownwall: {}:{}: {error}", options.host, options.port);
                ExitCode::FAILURE
            }
        },
        Err(NoServer::Help) => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        Err(NoServer::Version) => {
            println!("knownwall {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Err(NoServer::Burn) => background::burn(),
        Err(NoServer::Mistake(mistake)) => {
            eprintln!("knownwall: {mistake}\nTry 'knownwall --help'.");
            ExitCode::from(2)
        }
    }
}
