//! The `wallfinder` binary: flags, orchestration, exit codes. Everything else is in the
//! crates beside it.

#![forbid(unsafe_code)]

mod bench;
mod body;
mod commands;
mod exchange;
mod exit;
mod flags;
mod given;
mod help;
mod hub;
mod interrupt;
mod job;
mod listening;
mod log;
mod messages;
mod mix;
mod once;
mod order;
mod output;
mod placement;
mod present;
mod reach;
mod resolve;
mod secrets;
mod session;
mod set_up;
mod squeezing;
mod target;
mod testbed;
mod tls;

use std::process::ExitCode;

use clap::FromArgMatches;

use crate::flags::Flags;

/// `0.1.0`; of `make build` with the revision of the sources, `0.1.0+26ff8c9f`.
const VERSION: &str = match option_env!("WALLFINDER_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().as_deref() == Some(wallfinder_testbed::child::SUBCOMMAND.as_ref()) {
        return become_child(words);
    }
    output::guard_panics();
    wallfinder_sys::signal::heed_interrupts();
    let parsed = help::command(std::env::args_os()).try_get_matches();
    let parsed = parsed.and_then(|matches| Ok((Flags::from_arg_matches(&matches)?, matches)));
    let (flags, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version are no failures, and go to standard output.
            let code = if error.use_stderr() {
                exit::BAD_ARGUMENTS
            } else {
                0
            };
            match error.use_stderr() {
                true => output::tell(&error.render().to_string()),
                false => drop(error.print()),
            }
            return ExitCode::from(code);
        }
    };
    let own = matches.subcommand().map_or(&matches, |(_, own)| own);
    let ran =
        log::start(flags.general.verbose).and_then(|()| commands::dispatch(flags.command, own));
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            if !failed.message.is_empty() {
                output::complain(&failed.message);
            }
            ExitCode::from(failed.code)
        }
    }
}

/// Becomes a subject or a driver that ends with the process that started it.
fn become_child(words: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    match wallfinder_testbed::child::enter(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error.to_string());
            ExitCode::from(exit::COULD_NOT_RUN)
        }
    }
}
