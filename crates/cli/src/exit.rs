//! How a command ends: its exit code, and what is said on standard error.

use std::fmt;

/// Could not run.
pub(crate) const COULD_NOT_RUN: u8 = 1;
/// Bad arguments or study.
pub(crate) const BAD_ARGUMENTS: u8 = 2;
/// A threshold was breached.
pub(crate) const THRESHOLD: u8 = 3;
/// `--require` did not hold.
pub(crate) const REQUIREMENT: u8 = 4;

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed {
    /// Exit code.
    pub(crate) code: u8,
    /// What to say; empty: everything is said already.
    pub(crate) message: String,
}

/// What is wrong with a file, with the lines that it is about, as the error's own report draws them.
pub(crate) fn in_file(error: &wallfinder_scenario::FileError) -> Failed {
    let mut drawn = String::new();
    let theme = miette::GraphicalTheme::unicode_nocolor();
    let handler = miette::GraphicalReportHandler::new_themed(theme);
    match handler.render_report(&mut drawn, error) {
        Ok(()) => Failed::usage(format!("{error}\n{drawn}")),
        Err(_) => Failed::usage(error),
    }
}

impl Failed {
    pub(crate) fn usage(message: impl fmt::Display) -> Failed {
        Failed {
            code: BAD_ARGUMENTS,
            message: message.to_string(),
        }
    }

    pub(crate) fn run(message: impl fmt::Display) -> Failed {
        Failed {
            code: COULD_NOT_RUN,
            message: message.to_string(),
        }
    }

    pub(crate) fn with_code(code: u8, message: impl fmt::Display) -> Failed {
        Failed {
            code,
            message: message.to_string(),
        }
    }
}
