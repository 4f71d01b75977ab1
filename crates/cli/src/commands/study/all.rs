//! `study run all`: every built-in study, one after another, each in a process of its own: what one did to this
//! process, its processors and its secrets, is not the next one's.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;
use std::{io, thread};

use rustix::process::{Pid, Signal, kill_process};
use wallfinder_report::number;
use wallfinder_study::builtin;
use wallfinder_sys::{process, signal};

use crate::exit::Failed;
use crate::flags::StudyRunFlags;
use crate::interrupt::Interrupts;
use crate::present::Presenter;

/// What stands in the place of a study's name.
pub(super) const NAME: &str = "all";

/// Runs them all with all of their parts. One that fails leaves the others running, and is told of at the end.
pub(super) fn run(flags: &StudyRunFlags) -> Result<(), Failed> {
    let output = &flags.output;
    if !flags.with.is_empty() || output.output.is_some() || output.name.is_some() {
        return Err(Failed::usage(
            "all studies have all of their parts, and each its own record: leave out --with, -o and --name",
        ));
    }
    let mut presenter = Presenter::new(output.quiet, output.ascii);
    let mut studies = Vec::new();
    for builtin in builtin::ALL {
        let study = builtin.study().map_err(Failed::usage)?;
        studies.push((
            builtin.name,
            study.duration(flags.size).0,
            study
                .parts()
                .into_iter()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        ));
    }
    let lasts = |from: usize| -> u64 { studies[from..].iter().map(|(_, ns, _)| ns).sum() };
    // What was measured before is not known here.
    let about = if flags.resume { "at the most" } else { "about" };
    presenter.say(&format!(
        "all: {} studies, {about} {}",
        studies.len(),
        number::length(lasts(0))
    ));
    let program = std::env::current_exe().map_err(Failed::run)?;
    let interrupts = Interrupts::catch();
    signal::catch_hang_ups();
    let mut failed = Vec::new();
    for (nth, (name, _, parts)) in studies.iter().enumerate() {
        presenter.say(&format!(
            "{name}: study {} of {}, {about} {} left",
            nth + 1,
            studies.len(),
            number::length(lasts(nth))
        ));
        let mut command = Command::new(&program);
        let given = std::env::args_os().skip(1);
        // Whoever interrupts this process interrupts it through us, and once.
        command.args(words(given, name, parts)?).process_group(0);
        let child = process::end_with_this_thread(&mut command).spawn();
        let status = ended(child.map_err(Failed::run)?).map_err(Failed::run)?;
        match (interrupts.came(), status.code()) {
            (Some((code, _)), _) => return Err(Failed::with_code(code, resumed(name))),
            (None, Some(0)) => {}
            (None, Some(1..128)) => failed.push(*name),
            (None, _) => return Err(Failed::run(resumed(name))),
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failed::run(format!(
            "not all of it went well: {}",
            failed.join(", ")
        ))),
    }
}

/// Waits for a study, and passes interrupts on to it. Where that fails it is ended.
fn ended(mut child: Child) -> io::Result<ExitStatus> {
    let status = watched(&mut child);
    if status.is_err() {
        let _ = tell(&child, Signal::TERM);
        let _ = child.wait();
    }
    status
}

fn watched(child: &mut Child) -> io::Result<ExitStatus> {
    let mut told = 0;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let came = signal::interrupts();
        if came > told {
            told = came;
            tell(child, Signal::INT)?;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Sends a signal to a child that was not waited for, so that its number is no other's.
fn tell(child: &Child, signal: Signal) -> io::Result<()> {
    Ok(kill_process(Pid::from_child(child), signal)?)
}

fn resumed(name: &str) -> String {
    format!("{name} was cut short: the same command with --resume goes on there")
}

/// This command line for one of the studies.
fn words(
    given: impl Iterator<Item = OsString>,
    name: &str,
    parts: &[String],
) -> Result<Vec<OsString>, Failed> {
    let mut words: Vec<OsString> = given.collect();
    let mut all = words.iter_mut().filter(|word| *word == NAME);
    match (all.next(), all.next()) {
        (Some(word), None) => *word = name.into(),
        _ => {
            let message = "`all` stands twice: write a folder of that name as ./all";
            return Err(Failed::usage(message));
        }
    }
    if !parts.is_empty() {
        words.extend(["--with".into(), parts.join(",").into()]);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(given: &str, parts: &[&str]) -> Result<String, Failed> {
        let given = given.split(' ').map(OsString::from);
        let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
        let words = words(given, "lock", &parts)?;
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        Ok(words.join(" "))
    }

    #[test]
    fn a_study_is_run_by_the_command_line_of_all_with_its_name_and_its_parts() {
        let of = |given, parts: &[&str]| rewritten(given, parts).unwrap();
        assert_eq!(
            of("study run --size=demo all --resume --env A=all", &[]),
            "study run --size=demo lock --resume --env A=all"
        );
        assert_eq!(
            of("study run all -q", &["anomalies", "depth"]),
            "study run lock -q --with anomalies,depth"
        );
        let twice = rewritten("study run all --runs all", &[]);
        assert!(twice.unwrap_err().message.contains("twice"));
    }
}
