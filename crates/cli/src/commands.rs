//! The commands, one file each.

mod ab;
mod agent;
mod bytes;
mod calibrate;
mod compare;
mod doctor;
mod dry_run;
mod find;
mod hosts;
mod hub;
mod lab;
mod lift;
mod load;
mod packaged;
pub(crate) mod profile;
mod record;
mod running;
mod samples;
mod study;
mod traffic;

use clap::ArgMatches;
use wallfinder_scenario::check::check;
use wallfinder_testbed::subject::Subject;

use crate::exit::Failed;
use crate::flags::{Command, SchemaOf};
use crate::job::Job;
use crate::resolve::{self, Resolved};
use crate::{output, secrets};

/// Runs the command asked for. `matches` are those of its own flags.
pub(crate) fn dispatch(command: Command, matches: &ArgMatches) -> Result<(), Failed> {
    match command {
        Command::Run(flags) => on(resolve::run(&flags, matches)?, load::run),
        Command::Ramp(flags) => on(resolve::ramp(&flags, matches)?, load::ramp),
        Command::Find(flags) if flags.dry_run => {
            on(resolve::find(&flags, matches)?, dry_run::dry_run)
        }
        Command::Find(flags) => on(resolve::find(&flags, matches)?, find::find),
        Command::Ab(flags) => on(resolve::ab(&flags, matches)?, ab::ab),
        Command::Profile(flags) => on(resolve::profile(&flags, matches)?, profile::profile),
        Command::Bytes(flags) => match resolve::bytes(&flags, matches)? {
            printed if printed.is_printed => print(&printed),
            resolved => bytes::bytes(&resolved.scenario, &resolved.around),
        },
        Command::Study(flags) => study::dispatch(flags.command),
        Command::Pprof(flags) => profile::pprof(&flags),
        Command::Judge(flags) => record::judge(&flags),
        Command::Report(flags) => record::report(&flags),
        Command::Compare(flags) => compare::compare(&flags),
        Command::Samples(flags) => samples::samples(&flags),
        Command::Calibrate(flags) => calibrate::calibrate(&flags),
        Command::Doctor(flags) => doctor::doctor(&flags),
        Command::Agent(flags) => agent::agent(&flags),
        Command::Lab(flags) => lab::lab(&flags.command),
        Command::Hub(flags) => hub::hub(&flags),
        Command::Hosts(flags) => hosts::hosts(&flags),
        Command::Completions { shell } => packaged::completions(shell),
        Command::Man { folder } => packaged::man(&folder),
        Command::Traffic(flags) => traffic::traffic(&flags.from),
        Command::Schema(flags) => {
            // Written from the types by a test of the house.
            let schema = match flags.of {
                SchemaOf::Study => include_str!("../../../schemas/study.json"),
                SchemaOf::Scenario => include_str!("../../../schemas/scenario.json"),
                SchemaOf::Traffic => include_str!("../../../schemas/traffic.json"),
                SchemaOf::Record => include_str!("../../../schemas/record-2.json"),
            };
            output::put(schema, None)
        }
    }
}

/// Runs a command on its scenario, or prints that.
fn on(resolved: Resolved, run: fn(&Job) -> Result<(), Failed>) -> Result<(), Failed> {
    if resolved.is_printed {
        return print(&resolved);
    }
    run(&resolved.job()?)
}

fn print(
    Resolved {
        scenario, around, ..
    }: &Resolved,
) -> Result<(), Failed> {
    check(scenario).map_err(|fault| around.fault(&fault))?;
    let shown = secrets::shown_scenario(scenario);
    output::put(&wallfinder_scenario::file::written(&shown), None)
}

/// What ran: the tool, and the subject where one was started.
pub(crate) fn note_versions(
    environment: &mut wallfinder_model::Environment,
    subject: Option<&Subject>,
) {
    let versions = &mut environment.versions;
    versions.insert("wallfinder".into(), crate::VERSION.into());
    if let Some(version) = subject.and_then(Subject::version) {
        versions.insert("subject".into(), version.to_owned());
    }
}
