//! What an agent is asked for whichever role its host has: to watch, to pace, to squeeze.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wallfinder_model::experiment::{Neighbour, OutOfReach, Squeeze};
use wallfinder_model::telemetry::{HostSummary, Sample, Telemetry};
use wallfinder_model::{Caveat, Wall};
use wallfinder_probe::sample::Setup;
use wallfinder_protocol::{
    Answer, Ask, Check as FarCheck, LeverAt, LeversOrder, ProcessTimes, Role, Welcome,
};
use wallfinder_sys::clock;
use wallfinder_testbed::error::TestbedError;
use wallfinder_testbed::squeeze::{Check, Lever, Reach};

use crate::apart::is_of;
use crate::channel::{Channel, HostError};
use crate::{Agent, Joint, PaceOf, Sampling};

/// Another host, in a role.
#[derive(Debug, Clone)]
pub(crate) struct Far {
    pub(crate) channel: Arc<Channel>,
    pub(crate) welcome: Welcome,
    pub(crate) role: Role,
}

impl Far {
    pub(crate) fn of(agent: &Agent, role: Role) -> Far {
        Far {
            channel: agent.channel(),
            welcome: agent.welcome().clone(),
            role,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.channel.host()
    }

    /// Something was asked that the agent could not tell: said once, and the run goes on without.
    pub(crate) fn told<T>(&self, what: &str, answer: Result<T, HostError>) -> Option<T> {
        answer
            .inspect_err(|error| tracing::warn!(%error, what, "not known of another host"))
            .ok()
    }

    /// What is said of the host beside its telemetry.
    fn summary(&self) -> HostSummary {
        let offset = self.channel.offset();
        HostSummary {
            name: self.channel.host().to_owned(),
            cores: Vec::new(),
            clock_offset_ns: offset.map(|offset| offset.ns),
            clock_error_ns: offset.map(|offset| offset.error_ns),
            round_trip_ns: self.channel.round_trip().map(|trip| trip.as_nanos() as u64),
            observer_cpu_ns: 0,
        }
    }

    /// Watches the role; `peer` is the address of the other.
    pub(crate) fn watch(
        &self,
        setup: &Setup,
        peer: Option<IpAddr>,
    ) -> Result<Box<dyn Sampling>, String> {
        let paced = setup.paced_cpus.iter().flatten().flatten().copied();
        let watch = Ask::Watch {
            role: self.role,
            tick_ns: match setup.marks_only {
                true => 0,
                false => setup.tick.as_nanos() as u64,
            },
            peer,
            port: setup.port,
            pin: setup.pin,
            under_quota: setup.under_quota,
            paced: paced.collect(),
        };
        match self.channel.call(watch) {
            Ok(Answer::Watching { zero_ns }) => Ok(Box::new(Watching {
                far: self.clone(),
                zero_ns,
                with_ticks: !setup.marks_only,
                stepped_before: self.channel.stepped_ns().len(),
                lost: None,
            })),
            Ok(other) => Err(self.channel.strange(&other).to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// CPU time of each of its processes; empty where it cannot be told.
    pub(crate) fn times(&self) -> ProcessTimes {
        match self.told("times", self.channel.call(Ask::Times)) {
            Some(Answer::Times(times)) => times,
            _ => ProcessTimes::default(),
        }
    }

    pub(crate) fn pace(&self, cpus: Vec<u32>) -> PaceOf {
        let watched = self.channel.order(Ask::Pace { cpus });
        let channel = self
            .told("pace", watched)
            .map(|()| Arc::clone(&self.channel));
        Box::new(move |from_ns, to_ns| {
            let channel = channel.as_ref()?;
            let offset = channel.offset()?;
            let within = Ask::PaceWithin {
                from_ns: offset.there(from_ns),
                to_ns: offset.there(to_ns),
            };
            match channel.call(within) {
                Ok(Answer::Pace { ns }) => ns,
                _ => None,
            }
        })
    }

    pub(crate) fn neighbours(
        &self,
        cpus: &[u32],
        known: Vec<u32>,
        cores_min: f64,
    ) -> Vec<Neighbour> {
        let answer = self.channel.call(Ask::Neighbours {
            cpus: cpus.to_vec(),
            known,
            cores_min,
        });
        match self.told("neighbours", answer) {
            Some(Answer::Neighbours(neighbours)) => neighbours,
            _ => Vec::new(),
        }
    }

    /// Puts up the levers of the role.
    pub(crate) fn levers(&self, order: LeversOrder) -> Reach {
        let mut reach = Reach::default();
        let is_own = |squeeze: Squeeze| is_of(squeeze, self.role);
        match self.channel.call(Ask::Levers(order)) {
            Ok(Answer::Levers {
                levers,
                out_of_reach: missing,
                way_out_bits,
            }) => {
                match self.role {
                    Role::Server => reach.downlink_bits = way_out_bits,
                    Role::Client => reach.uplink_bits = way_out_bits,
                    Role::Backend => {}
                }
                let together = Arc::new(Together {
                    channel: Arc::clone(&self.channel),
                    checks: Mutex::default(),
                });
                let far = levers.into_iter().enumerate().map(|(at, lever)| {
                    let far = FarLever {
                        is_first: at == 0,
                        lever,
                        together: Arc::clone(&together),
                    };
                    Box::new(far) as Box<dyn Lever>
                });
                reach.levers.extend(far);
                let missing = missing.into_iter().filter(|out| is_own(out.squeeze));
                let missing = missing.map(|out| OutOfReach {
                    why: format!("{}: {}", self.name(), out.why),
                    ..out
                });
                reach.out_of_reach.extend(missing);
            }
            other => {
                let why = match other {
                    Ok(strange) => self.channel.strange(&strange).to_string(),
                    Err(error) => error.to_string(),
                };
                let of_backend = |squeeze: Squeeze| {
                    squeeze.wall() == Wall::Backend && self.role != Role::Backend
                };
                // The engine slows its own workers down.
                let by_engine = |squeeze: Squeeze| squeeze == Squeeze::ClientSpeed;
                let all = Squeeze::ALL.into_iter().filter(|squeeze| {
                    is_own(*squeeze) && !of_backend(*squeeze) && !by_engine(*squeeze)
                });
                let all = all.map(|squeeze| OutOfReach {
                    squeeze,
                    why: why.clone(),
                });
                reach.out_of_reach.extend(all);
            }
        }
        reach
    }
}

/// A role that an agent watches. Instants are by its watch's own axis.
struct Watching {
    far: Far,
    /// By the agent's monotonic clock.
    zero_ns: u64,
    with_ticks: bool,
    /// How often a clock had stood still before.
    stepped_before: usize,
    /// Why nothing more is known.
    lost: Option<String>,
}

/// What is asked of the agent about spans of its watch.
fn summarised(far: &Far, from_ns: i64, to_ns: i64) -> Telemetry {
    let spans = vec![(from_ns, to_ns)];
    let answer = far.channel.call(Ask::Summarise { spans });
    let mut telemetry = match far.told("telemetry", answer) {
        Some(Answer::Telemetry(of)) => of.into_iter().next().unwrap_or_default(),
        _ => Telemetry::default(),
    };
    let host = Some(HostSummary {
        observer_cpu_ns: telemetry.observer_cpu_ns,
        ..far.summary()
    });
    match far.role {
        Role::Server => telemetry.server_host = host,
        Role::Client => telemetry.client_host = host,
        Role::Backend => {}
    }
    telemetry
}

impl Watching {
    fn samples(&self) -> Vec<Sample> {
        let mut samples: Vec<Sample> = Vec::new();
        loop {
            let from = samples.len();
            match self.far.channel.call(Ask::Samples { from }) {
                Ok(Answer::Samples {
                    samples: next,
                    more,
                }) if !next.is_empty() => {
                    samples.extend(next);
                    if !more {
                        return samples;
                    }
                }
                _ => return samples,
            }
        }
    }

    /// Now on the watch's axis, as well as the clocks' offset tells.
    fn now_ns(&self) -> i64 {
        let now_ns = clock::monotonic_ns();
        let there_ns = self.far.channel.offset();
        let there_ns = there_ns.map_or(now_ns, |offset| offset.there(now_ns));
        there_ns as i64 - self.zero_ns as i64
    }
}

impl Sampling for Watching {
    fn count_from(&mut self, zero_ns: u64) -> i64 {
        let Some(offset) = self.far.channel.offset() else {
            return 0;
        };
        let zero_ns = offset.there(zero_ns);
        let later = self.far.channel.call(Ask::CountFrom { zero_ns });
        match self.far.told("the axis of a watch", later) {
            Some(Answer::Later { ns }) => {
                self.zero_ns = zero_ns;
                ns
            }
            _ => 0,
        }
    }

    fn mark(&mut self, name: &str) -> i64 {
        let asked = self.far.channel.call(Ask::Mark {
            name: name.to_owned(),
        });
        let lost = match asked {
            Ok(Answer::Marked { at_ns }) => return at_ns,
            Ok(other) => self.far.channel.strange(&other),
            Err(error) => error,
        };
        self.lost.get_or_insert(lost.to_string());
        self.now_ns()
    }

    fn find_server_again(&self) {
        let asked = self.far.channel.order(Ask::FindAgain);
        self.far.told("the server, once more", asked);
    }

    fn latest(&self) -> Option<Sample> {
        self.far.channel.latest()
    }

    fn summarise(&self, from_ns: i64, to_ns: i64) -> Telemetry {
        summarised(&self.far, from_ns, to_ns)
    }

    fn stop(self: Box<Self>) -> Joint {
        let ended = self.far.channel.call(Ask::Unwatch);
        let mut gaps = match self.far.told("the end of a watch", ended) {
            Some(Answer::Unwatched { gaps }) => gaps,
            _ => Vec::new(),
        };
        gaps.extend(self.lost.as_ref().map(|why| Caveat::WatchLost {
            role: self.far.role.to_string(),
            why: why.to_string(),
        }));
        let stepped = self.far.channel.stepped_ns();
        let stepped = stepped.into_iter().skip(self.stepped_before);
        gaps.extend(stepped.map(|by_ns| Caveat::HostClockMoved {
            host: self.far.name().to_string(),
            by_ns: by_ns.unsigned_abs(),
        }));
        let samples = match self.with_ticks {
            true => self.samples(),
            false => Vec::new(),
        };
        let far = self.far;
        Joint::new(samples, gaps, move |from_ns, to_ns| {
            summarised(&far, from_ns, to_ns)
        })
    }
}

/// Levers of one host, whose windows begin and end together.
struct Together {
    channel: Arc<Channel>,
    checks: Mutex<HashMap<Squeeze, FarCheck>>,
}

impl Together {
    fn checks(&self) -> MutexGuard<'_, HashMap<Squeeze, FarCheck>> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        if let Err(error) = self.channel.order(Ask::Release) {
            tracing::warn!(%error, "levers of another host end by their lease");
        }
    }
}

/// A lever on another host.
struct FarLever {
    /// The one that speaks for all.
    is_first: bool,
    lever: LeverAt,
    together: Arc<Together>,
}

impl FarLever {
    fn failed(&self, error: HostError) -> TestbedError {
        TestbedError::Failed {
            doing: format!("squeeze {} on {}", self.lever.squeeze.label(), error.host),
            why: error.why,
        }
    }
}

impl Lever for FarLever {
    fn squeeze(&self) -> Squeeze {
        self.lever.squeeze
    }

    fn how(&self) -> String {
        format!("{} of {}", self.lever.how, self.together.channel.host())
    }

    fn retained_min(&self) -> f64 {
        self.lever.retained_min
    }

    fn set(&mut self, retained: f64) -> Result<(), TestbedError> {
        let settings = vec![(self.lever.squeeze, retained)];
        let set = self.together.channel.order(Ask::Set { settings });
        set.map_err(|error| self.failed(error))
    }

    fn follow(&mut self, _: &[u32]) -> Result<(), TestbedError> {
        // By its own process ids, which nobody here knows.
        let squeeze = self.lever.squeeze;
        let followed = self.together.channel.order(Ask::Follow { squeeze });
        followed.map_err(|error| self.failed(error))
    }

    fn begin_window(&mut self) {
        if self.is_first {
            // One that did not begin has no check at its end.
            let _ = self.together.channel.order(Ask::BeginWindow);
        }
    }

    fn end_window(&mut self) -> Check {
        if self.is_first {
            let mut checks = self.together.checks();
            checks.clear();
            match self.together.channel.call(Ask::EndWindow) {
                Ok(Answer::Checks(all)) => checks.extend(all),
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "squeezes were not checked"),
            }
        }
        let check = self.together.checks().remove(&self.lever.squeeze);
        check.map_or_else(
            || Check {
                text: "its host did not say whether it was in force".to_owned(),
                ..Check::default()
            },
            |check| Check {
                retained: check.retained,
                in_force: check.in_force,
                text: check.text,
            },
        )
    }
}
