//! The `wallfinder` binary: flags, orchestration, exit codes. Everything else is in the
//! crates beside it.

#![forbid(unsafe_code)]

mod body;
mod commands;
mod exit;
mod flags;
mod given;
mod interrupt;
mod listening;
mod messages;
mod output;
mod placement;
mod present;
mod reach;
mod secrets;
mod session;
mod stand;
mod target;
mod tls;

use std::process::ExitCode;

use clap::Parser;

use crate::flags::Flags;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().as_deref() == Some(wallfinder_testbed::child::SUBCOMMAND.as_ref()) {
        return become_child(words);
    }
    output::guard_panics();
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
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
    match commands::dispatch(flags.command) {
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
