//! The commands, one file each.

mod ab;
mod bytes;
mod calibrate;
mod compare;
mod doctor;
mod find;
mod lift;
mod load;
mod profile;
mod record;
mod samples;
mod study;

use wallfinder_testbed::subject::Subject;

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
        Command::Bytes(flags) => bytes::bytes(&flags),
        Command::Study(flags) => study::dispatch(flags.command),
        Command::Profile(flags) => profile::profile(*flags),
        Command::Pprof(flags) => profile::pprof(&flags),
        Command::Judge(flags) => record::judge(&flags),
        Command::Report(flags) => record::report(&flags),
        Command::Compare(flags) => compare::compare(&flags),
        Command::Samples(flags) => samples::samples(&flags),
        Command::Calibrate(flags) => calibrate::calibrate(&flags),
        Command::Doctor(flags) => doctor::doctor(&flags),
        Command::Schema(flags) => match flags.of {
            SchemaOf::Study => output::put(&study::schema_text(), None),
            SchemaOf::Record => output::put(&wallfinder_report::json::schema_text(), None),
        },
    }
}

/// What ran: the tool, and the subject where one was started.
pub(crate) fn note_versions(
    environment: &mut wallfinder_model::Environment,
    subject: Option<&Subject>,
) {
    let versions = &mut environment.versions;
    versions.insert("wallfinder".into(), env!("CARGO_PKG_VERSION").into());
    if let Some(version) = subject.and_then(Subject::version) {
        versions.insert("subject".into(), version.to_owned());
    }
}
