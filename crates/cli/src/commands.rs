//! The commands, one file each.

mod ab;
mod calibrate;
mod compare;
mod doctor;
mod find;
mod load;
mod record;
mod study;

use crate::exit::Failed;
use crate::flags::{Command, SchemaOf};
use crate::output;

/// Runs the command asked for.
pub(crate) fn dispatch(command: Command) -> Result<(), Failed> {
    match command {
        Command::Run(flags) => load::run(flags),
        Command::Ramp(flags) => load::ramp(flags),
        Command::Find(flags) => find::find(&flags),
        Command::Ab(flags) => ab::ab(&flags),
        Command::Study(flags) => study::dispatch(flags.command),
        Command::Judge(flags) => record::judge(&flags),
        Command::Report(flags) => record::report(&flags),
        Command::Compare(flags) => compare::compare(&flags),
        Command::Calibrate(flags) => calibrate::calibrate(&flags),
        Command::Doctor(flags) => doctor::doctor(&flags),
        Command::Schema(flags) => match flags.of {
            SchemaOf::Study => output::put(&study::schema_text(), None),
            SchemaOf::Record => output::put(&wallfinder_report::json::schema_text(), None),
        },
    }
}
