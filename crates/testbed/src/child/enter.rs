//! Inside the child, before it becomes the program asked for.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use wallfinder_sys::namespace::enter_netns;

use super::{GUARD, environment, guard, keeper, run_as};
use crate::{cpu_stealer, lab};

/// Why the child did not become the program.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    /// Called with other words than the parent writes.
    #[error("this subcommand is internal: {0}")]
    BadArgs(String),
    /// The process that asked for it is gone.
    #[error("the process that started this one is gone")]
    ParentGone,
    /// The kernel refused.
    #[error("could not {doing}: {error}")]
    Os {
        /// What.
        doing: &'static str,
        /// In its words.
        error: io::Error,
    },
    /// The kernel refused something about a place.
    #[error("could not {doing} {}: {error}", path.display())]
    At {
        /// What.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// In its words.
        error: io::Error,
    },
}

/// Arranges the child's end, place and user, and becomes the program: on success this does not
/// return, except for the keeper, a guard, the CPU stealer and the relay, whose work is done when it does.
/// `args` are those after [`SUBCOMMAND`](super::SUBCOMMAND).
pub fn enter(args: impl IntoIterator<Item = OsString>) -> Result<(), EnterError> {
    let args: Vec<OsString> = args.into_iter().collect();
    if let Some((first, rest)) = args.split_first()
        && first == GUARD
    {
        return guard::guard(rest);
    }
    let args = Args::parse(args)?;
    if args.keep {
        keeper::keep();
        return Ok(());
    }
    let os = |doing| {
        move |errno| EnterError::Os {
            doing,
            error: io::Error::from(errno),
        }
    };
    let follow_parent = || {
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(os("follow the parent"))?;
        // A parent that died before the line above sends nothing any more.
        let parent = getppid().map(|pid| pid.as_raw_pid());
        match args.parent.is_some() && parent != args.parent {
            true => Err(EnterError::ParentGone),
            false => Ok(()),
        }
    };
    follow_parent()?;
    if args.stealer {
        let cpus: Vec<u32> = args.cpus.iter().map(|cpu| *cpu as u32).collect();
        cpu_stealer::steal(&cpus, args.seed);
        return Ok(());
    }
    if let (true, Some(netns)) = (args.relay, &args.netns) {
        into_netns(netns)?;
        lab::relay(Duration::from_nanos(args.delay_ns), args.room);
        return Ok(());
    }
    for cgroup in &args.cgroups {
        // 0: the process that writes.
        std::fs::write(cgroup.join("cgroup.procs"), "0").map_err(|error| EnterError::At {
            doing: "join the control group",
            path: cgroup.clone(),
            error,
        })?;
    }
    if let Some(netns) = &args.netns {
        into_netns(netns)?;
    }
    if !args.cpus.is_empty() {
        let mut set = CpuSet::new();
        for cpu in args.cpus.iter().copied() {
            if cpu >= CpuSet::MAX_CPU {
                return Err(EnterError::BadArgs(format!("there is no processor {cpu}")));
            }
            set.set(cpu);
        }
        sched_setaffinity(None, &set).map_err(os("run on the processors asked for"))?;
    }
    let (program, words) = args
        .command
        .split_first()
        .ok_or_else(|| EnterError::BadArgs("no program".into()))?;
    if let Some((uid, gid, groups)) = &args.user {
        run_as::drop_to(*uid, *gid, groups).map_err(os("become the user asked for"))?;
        // The kernel forgets it with every change of the user.
        follow_parent()?;
    }
    let error = Command::new(program)
        .args(words)
        .env_clear()
        .envs(std::env::vars_os().filter_map(environment::taken))
        .exec();
    Err(EnterError::At {
        doing: "execute",
        path: program.into(),
        error,
    })
}

fn into_netns(netns: &Path) -> Result<(), EnterError> {
    enter_netns(netns).map_err(|error| EnterError::At {
        doing: "enter the network namespace",
        path: netns.to_owned(),
        error,
    })
}

#[derive(Debug, Default)]
struct Args {
    keep: bool,
    stealer: bool,
    seed: u64,
    relay: bool,
    delay_ns: u64,
    room: [usize; 2],
    parent: Option<i32>,
    cpus: Vec<usize>,
    netns: Option<PathBuf>,
    cgroups: Vec<PathBuf>,
    /// Its number, its group's, and all of its groups'.
    user: Option<(u32, u32, Vec<u32>)>,
    command: Vec<OsString>,
}

impl Args {
    fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Args, EnterError> {
        let bad = |why: &str| EnterError::BadArgs(why.to_owned());
        let mut parsed = Args::default();
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let mut value = || {
                let value = args.next().and_then(|value| value.into_string().ok());
                value.ok_or_else(|| bad("a value is missing"))
            };
            match arg.to_str() {
                Some("--keep") => parsed.keep = true,
                Some("--cpu-stealer") => parsed.stealer = true,
                Some("--relay") => parsed.relay = true,
                Some("--delay-ns") => {
                    let delay_ns = value()?.parse();
                    parsed.delay_ns = delay_ns.map_err(|_| bad("--delay-ns takes a number"))?;
                }
                Some("--room") => {
                    let room = value()?;
                    let room: Result<Vec<usize>, _> = room.split(',').map(str::parse).collect();
                    let room = room.ok().and_then(|room| room.try_into().ok());
                    parsed.room = room.ok_or_else(|| bad("--room takes two numbers"))?;
                }
                Some("--seed") => {
                    let seed = value()?.parse();
                    parsed.seed = seed.map_err(|_| bad("--seed takes a number"))?;
                }
                Some("--parent") => {
                    let pid = value()?.parse().map_err(|_| bad("--parent takes a pid"))?;
                    parsed.parent = Some(pid);
                }
                Some("--cpus") => {
                    let cpus = value()?;
                    let cpus: Result<_, _> = cpus.split(',').map(str::parse).collect();
                    parsed.cpus = cpus.map_err(|_| bad("--cpus takes numbers with commas"))?;
                }
                Some("--user") => {
                    let numbers = value()?;
                    let numbers: Result<Vec<u32>, _> = numbers.split(',').map(str::parse).collect();
                    parsed.user = match numbers.as_deref() {
                        Ok([uid, gid, groups @ ..]) => Some((*uid, *gid, groups.to_vec())),
                        _ => return Err(bad("--user takes a user, a group, and groups")),
                    };
                }
                Some("--netns") => {
                    let path = args.next().ok_or_else(|| bad("a value is missing"))?;
                    parsed.netns = Some(path.into());
                }
                Some("--cgroup") => {
                    let path = args.next().ok_or_else(|| bad("a value is missing"))?;
                    parsed.cgroups.push(path.into());
                }
                Some("--") => {
                    parsed.command = args.collect();
                    return Ok(parsed);
                }
                _ => return Err(bad("an unknown argument")),
            }
        }
        if parsed.keep || parsed.stealer || (parsed.relay && parsed.netns.is_some()) {
            Ok(parsed)
        } else {
            Err(bad("no `--` before the program"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Args, EnterError> {
        Args::parse(args.iter().map(OsString::from))
    }

    #[test]
    fn arguments_reach_the_program_untouched() {
        let args = parse(&[
            "--parent", "7", "--cpus", "0,3", "--", "a", "--", "--cpus", "",
        ]);
        let args = args.expect("fine");
        assert_eq!((args.parent, args.cpus), (Some(7), vec![0, 3]));
        assert_eq!(args.command, ["a", "--", "--cpus", ""]);
        let args = parse(&["--user", "7,8,8,9", "--", "a"]).expect("fine");
        assert_eq!(args.user, Some((7, 8, vec![8, 9])));
        for bad in [
            &["a"][..],
            &["--cpus", "0"],
            &["--cpus", "x", "--", "a"],
            &["--cpus"],
            &["--parent", "-", "--", "a"],
            &["--user", "1", "--", "a"],
            &["--user", "1,x", "--", "a"],
            &["--relay"],
            &["--relay", "--netns", "/x", "--room", "1"],
            &[],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
