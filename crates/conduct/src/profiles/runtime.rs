//! What a server's own runtime tells of it, over HTTP: every kind of every process, all asked for
//! at once.

use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wallfinder_judge::profile::{self, Rules};
use wallfinder_model::profile::{Profile, ProfileKind, Profiles, Reading};
use wallfinder_probe::parse::pprof;
use wallfinder_probe::profiles::{NoProfile, fetch, fetch_trace};

use super::keep::Keep;
use super::{ProfileOrder, Side};
use crate::ConductError;

/// The length of a trace, in seconds: it has every event, some hundred MB in a minute.
const TRACE_SECONDS: u64 = 1;

/// A profile's bytes, on their way.
type Answer = JoinHandle<Result<Vec<u8>, NoProfile>>;

/// Profiles that a runtime was asked for.
#[derive(Debug)]
pub(super) struct Asked {
    /// By kind, the processes in their order.
    kinds: Vec<(ProfileKind, Vec<Answer>)>,
    traces: Vec<Answer>,
}

impl Asked {
    /// Asks every process for every kind.
    pub(super) fn of(order: &ProfileOrder, seconds: u64) -> Asked {
        let ask = |kind: ProfileKind, address: SocketAddr| {
            thread::spawn(move || match kind {
                // Moments: in the middle, and at the end.
                ProfileKind::Goroutine => {
                    thread::sleep(Duration::from_secs(seconds) / 2);
                    fetch(address, kind, 0)
                }
                ProfileKind::Heap => {
                    thread::sleep(Duration::from_secs(seconds));
                    fetch(address, kind, 0)
                }
                _ => fetch(address, kind, seconds),
            })
        };
        let all = |kind: &ProfileKind| {
            let addresses = order.addresses.iter();
            (
                *kind,
                addresses.map(|address| ask(*kind, *address)).collect(),
            )
        };
        let trace = |address: &SocketAddr| {
            let address = *address;
            thread::spawn(move || fetch_trace(address, TRACE_SECONDS))
        };
        Asked {
            kinds: order.kinds.iter().map(all).collect(),
            traces: match order.trace {
                true => order.addresses.iter().map(trace).collect(),
                false => Vec::new(),
            },
        }
    }

    /// Waits for the answers, keeps them as they came, and reads them.
    pub(super) fn finish(
        self,
        keep: Keep<'_>,
        rules: &Rules,
        profiles: &mut Profiles,
    ) -> Result<(), ConductError> {
        debug_assert!(keep.side == Side::Server, "drivers are not asked");
        for (kind, answers) in self.kinds {
            let reading = read(keep, kind, answers, rules, profiles)?;
            profiles.readings.extend(reading);
        }
        for (process, trace) in self.traces.into_iter().enumerate() {
            match arrived(trace) {
                Ok(bytes) => profiles.files.extend(keep.trace(process, &bytes)?),
                Err(why) => profiles.missing.push(format!("trace: {why}")),
            }
        }
        Ok(())
    }
}

fn arrived(answer: Answer) -> Result<Vec<u8>, String> {
    match answer.join() {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("who asked for it gave up".into()),
    }
}

/// Keeps and reads the profiles of one kind; `None` where none came.
fn read(
    keep: Keep<'_>,
    kind: ProfileKind,
    answers: Vec<Answer>,
    rules: &Rules,
    profiles: &mut Profiles,
) -> Result<Option<Reading>, ConductError> {
    let several = answers.len() > 1;
    let mut whole: Vec<Profile> = Vec::new();
    for (process, answer) in answers.into_iter().enumerate() {
        let bytes = match arrived(answer) {
            Ok(bytes) => bytes,
            Err(why) => {
                profiles.missing.push(format!("{}: {why}", kind.label()));
                continue;
            }
        };
        let file = keep.profile(kind, several.then_some(process), &bytes)?;
        profiles.files.extend(file);
        match pprof::profile(&bytes) {
            Ok(profile) => whole.push(profile),
            Err(why) => profiles.missing.push(format!("{}: {why}", kind.label())),
        }
    }
    let merged = match profile::merge(whole) {
        Ok(Some(merged)) => merged,
        Ok(None) => return Ok(None),
        Err(unlike) => {
            profiles.missing.push(format!("{}: {unlike}", kind.label()));
            return Ok(None);
        }
    };
    profiles.files.extend(keep.folded(kind, &merged)?);
    Ok(Some(profile::read(kind, &merged, rules)))
}
