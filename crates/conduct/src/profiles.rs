//! The profiles of a window: asked for when it opens, all kinds at once, and read when they
//! have come.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wallfinder_judge::profile::{self, Rules};
use wallfinder_model::profile::{Profile, ProfileKind, Profiles, Reading};
use wallfinder_model::telemetry::FamilySummary;
use wallfinder_model::{Nanos, Step};
use wallfinder_probe::discover::Family;
use wallfinder_probe::parse::pprof;
use wallfinder_probe::profiles::{NoProfile, fetch, fetch_trace};
use wallfinder_probe::stacks::{Setup, Stacks};
use wallfinder_probe::waits::Waits;
use wallfinder_stage::squeeze;

use crate::ConductError;

/// What is to be profiled within a window.
#[derive(Debug, Clone)]
pub struct ProfileOrder {
    /// Where processes offer profiles; those of several are merged.
    pub addresses: Vec<SocketAddr>,
    /// The record's folder: `profiles/` and `stacks/` are made in it.
    pub folder: PathBuf,
    /// Which.
    pub kinds: Vec<ProfileKind>,
    /// Whether the kernel samples the server's stacks as well.
    pub stacks: bool,
    /// Whether the kernel tells where the server's threads wait, in the window's first second.
    pub waits: bool,
    /// Whether to keep the runtime's trace of the window's first second as well.
    pub trace: bool,
    /// What names of functions say.
    pub rules: Rules,
}

/// A stack and its answer, as bytes.
type Answer = JoinHandle<Result<Vec<u8>, NoProfile>>;

/// Profiles that are on their way.
#[derive(Debug)]
pub(crate) struct Capture<'o> {
    order: &'o ProfileOrder,
    seconds: u64,
    processes: u32,
    /// By kind, the processes in their order.
    asked: Vec<(ProfileKind, Vec<Answer>)>,
    traces: Vec<Answer>,
    /// Stacks, or why there are none.
    stacks: Option<Result<Stacks, String>>,
    /// Waits, or why there are none.
    waits: Option<Result<Waits, String>>,
}

/// How long waits are watched: every switch is a record.
const WAITS_FOR: Duration = Duration::from_secs(1);

/// The length of a trace, in seconds: it has every event, some hundred MB in a minute.
const TRACE_SECONDS: u64 = 1;

impl<'o> Capture<'o> {
    /// Asks every process for every kind. Windows of profiles are whole seconds.
    pub(crate) fn start(
        order: &'o ProfileOrder,
        window: Nanos,
        server: Option<&Family>,
    ) -> Capture<'o> {
        let seconds = (window.0 / 1_000_000_000).max(1);
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
        Capture {
            order,
            seconds,
            processes: match (order.addresses.len(), server) {
                (0, Some(family)) => family.pids.len() as u32,
                (addresses, _) => addresses as u32,
            },
            asked: order.kinds.iter().map(all).collect(),
            traces: match order.trace {
                true => order.addresses.iter().map(trace).collect(),
                false => Vec::new(),
            },
            stacks: order
                .stacks
                .then(|| Stacks::start(setup(server)?).map_err(|why| why.to_string())),
            waits: order
                .waits
                .then(|| Waits::start(setup(server)?, WAITS_FOR).map_err(|why| why.to_string())),
        }
    }

    /// The window has closed: stacks are sampled no more.
    pub(crate) fn close(&self) {
        if let Some(Ok(stacks)) = &self.stacks {
            stacks.end();
        }
        if let Some(Ok(waits)) = &self.waits {
            waits.end();
        }
    }

    /// Waits for the answers, keeps them as they came, and reads them beside what telemetry
    /// says of the step. Profiles of a window that was broken off are not waited for.
    pub(crate) fn finish(self, step: &Step, was_stopped: bool) -> Result<Profiles, ConductError> {
        let stacks = self.stacks.map(|stacks| {
            let sampled = stacks.and_then(|stacks| stacks.stop().map_err(|why| why.to_string()));
            sampled.map(|sampled| (sampled.profile, sampled.lost))
        });
        let waits = self.waits.map(|waits| {
            let waited = waits.and_then(|waits| waits.stop().map_err(|why| why.to_string()));
            waited.map(|waited| (waited.profile, waited.lost))
        });
        let mut profiles = Profiles {
            window_ns: self.seconds * 1_000_000_000,
            processes: self.processes,
            answered: step.throughput * self.seconds as f64,
            ..Profiles::default()
        };
        if was_stopped {
            profiles.missing.push("the window was broken off".into());
            return Ok(profiles);
        }
        let keep = Keep {
            folder: &self.order.folder,
            step: step.index,
        };
        for (kind, answers) in self.asked {
            let reading = read(&keep, kind, answers, &self.order.rules, &mut profiles)?;
            profiles.readings.extend(reading);
        }
        for (process, trace) in self.traces.into_iter().enumerate() {
            let name = format!("profiles/{}-trace-{process}.out", step.index);
            match arrived(trace) {
                Ok(bytes) => profiles.files.push(keep.write(&name, &bytes)?),
                Err(why) => profiles.missing.push(format!("trace: {why}")),
            }
        }
        let by_the_kernel = [
            (ProfileKind::Stacks, "samples", stacks),
            (ProfileKind::Waits, "switches", waits),
        ];
        for (kind, records, taken) in by_the_kernel {
            match taken {
                Some(Ok((profile, lost))) => {
                    profiles.files.push(keep.folded(kind, &profile)?);
                    let reading = profile::read(kind, &profile, &self.order.rules);
                    profiles.readings.push(reading);
                    if lost > 0 {
                        let lost = format!("{}: {lost} {records} were lost", kind.label());
                        profiles.missing.push(lost);
                    }
                }
                Some(Err(why)) => profiles.missing.push(why),
                None => {}
            }
        }
        if let Some(cpu) = profiles.of_cpu()
            && let Some(server) = &step.telemetry.server
            && step.telemetry.window_ns > 0
        {
            let cores = server.cpu_ns as f64 / step.telemetry.window_ns as f64;
            let beside = profile::reconcile(cpu, cores, machine_cores(server));
            profiles.reconciliation = beside;
        }
        Ok(profiles)
    }
}

/// Whose stacks the kernel is to take.
fn setup(server: Option<&Family>) -> Result<Setup, String> {
    let pids = server.map_or(&[][..], |family| &family.pids);
    if pids.is_empty() {
        return Err("the server's processes are not seen, so their stacks are not".into());
    }
    Ok(Setup {
        cpus: squeeze::cpus_of(pids),
        pids: pids.to_vec(),
    })
}

/// Processors in use among those that the server may use, interrupts and others included.
fn machine_cores(server: &FamilySummary) -> Option<f64> {
    let cpus = server.cpus_allowed.len();
    (cpus > 0).then_some(server.cpus_busy * cpus as f64)
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
    keep: &Keep<'_>,
    kind: ProfileKind,
    answers: Vec<Answer>,
    rules: &Rules,
    profiles: &mut Profiles,
) -> Result<Option<Reading>, ConductError> {
    let several = answers.len() > 1;
    let mut whole: Vec<Profile> = Vec::new();
    for (process, answer) in answers.into_iter().enumerate() {
        let name = match several {
            true => format!("profiles/{}-{}-{process}.pb.gz", keep.step, kind.label()),
            false => format!("profiles/{}-{}.pb.gz", keep.step, kind.label()),
        };
        let bytes = match arrived(answer) {
            Ok(bytes) => bytes,
            Err(why) => {
                profiles.missing.push(format!("{}: {why}", kind.label()));
                continue;
            }
        };
        profiles.files.push(keep.write(&name, &bytes)?);
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
    profiles.files.push(keep.folded(kind, &merged)?);
    Ok(Some(profile::read(kind, &merged, rules)))
}

/// Where profiles of a step are kept.
struct Keep<'k> {
    folder: &'k Path,
    step: u32,
}

impl Keep<'_> {
    /// Keeps stacks as folded lines, and gives the file's name.
    fn folded(&self, kind: ProfileKind, profile: &Profile) -> Result<String, ConductError> {
        let name = format!("stacks/{}-{}.folded", self.step, kind.label());
        self.write(&name, profile::folded(kind, profile).as_bytes())
    }

    /// Writes a file beside the record, and gives its name there.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<String, ConductError> {
        let path = self.folder.join(name);
        let folder = path.parent().unwrap_or(self.folder);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, bytes))
            .map_err(|error| ConductError::Profiles(format!("{}: {error}", path.display())))?;
        Ok(name.to_owned())
    }
}
