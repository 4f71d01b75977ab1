//! Which resource each pair of squeezes speaks for.
//!
//! Speed and capacity of the same processors together tell a parallel CPU wall (both move
//! it), a serial section or a neighbour (speed alone) and a quota (capacity alone) apart.

use wallfinder_model::experiment::{Experiment, Squeeze};
use wallfinder_model::telemetry::ThreadShare;
use wallfinder_model::verdict::Verdict;
use wallfinder_model::{Step, Wall};

use super::gates::Gates;
use super::readings::{Answer, Reading, Readings};
use crate::caveats;
use crate::finite::positive;
use crate::words::{percent, trimmed};

/// Cores of somebody else from which they count as a neighbour.
const NEIGHBOUR_MIN: f64 = 0.05;
/// A quota that holds a group up in this share of its periods is the limit.
const THROTTLED: f64 = 0.5;
/// A thread this busy is hot.
const THREAD_HOT: f64 = 0.90;
/// Busy share of its processors from which a server may lack what neighbours have.
const CROWDED: f64 = 0.9;
/// Cores that one thread at a time uses at most, with helpers such as collectors.
pub(super) const ONE_THREAD_MAX: f64 = 1.35;
/// Cores that others use under the load, from which they may be what its processors lack.
const OTHERS_MIN: f64 = 0.25;
/// What a serial section is made of where no thread is hot: who looks inside may know more.
pub(super) const ONE_AT_A_TIME: &str =
    "no thread is full, so one runs at a time: a lock with work inside";

/// All that a decision is made from.
pub(super) struct Case<'c> {
    pub(super) step: &'c Step,
    pub(super) experiment: &'c Experiment,
    pub(super) observed: &'c Verdict,
    pub(super) readings: &'c Readings,
    pub(super) gates: &'c Gates,
    /// Who had the processors, where neither side used anything of them to speak of.
    pub(super) others: Option<String>,
}

/// A resource that a squeeze names.
#[derive(Clone)]
pub(super) struct Claim<'c> {
    pub(super) wall: Wall,
    /// The squeeze that names it.
    pub(super) reading: &'c Reading,
    /// Why it is not beyond doubt, where it is not.
    pub(super) doubt: Option<&'static str>,
    pub(super) detail: Option<String>,
}

impl<'c> Case<'c> {
    pub(super) fn get(&self, squeeze: Squeeze) -> Option<&'c Reading> {
        self.readings.get(squeeze)
    }

    /// Every resource that is named by its squeeze.
    pub(super) fn claims(&self) -> Vec<Claim<'c>> {
        let simple = [
            (Squeeze::Downlink, Wall::Downlink),
            (Squeeze::Uplink, Wall::Uplink),
            (Squeeze::BackendSpeed, Wall::Backend),
        ];
        let mut claims: Vec<Claim> = [self.server(), self.client()]
            .into_iter()
            .flatten()
            .collect();
        for (squeeze, wall) in simple {
            let named = self.get(squeeze).filter(|reading| reading.names());
            claims.extend(named.map(|reading| {
                let names = &self.experiment.setting.backends;
                let detail = (wall == Wall::Backend && !names.is_empty()).then(|| names.join(", "));
                claim(wall, reading, detail)
            }));
        }
        claims
    }

    /// Processors that the server may use, where that is known.
    pub(super) fn server_cpus(&self) -> usize {
        let stated = self.experiment.setting.server_cpus.len();
        let seen = self.step.telemetry.server.as_ref();
        if stated > 0 {
            stated
        } else {
            seen.map_or(0, |family| family.cpus_allowed.len())
        }
    }

    fn server(&self) -> Option<Claim<'c>> {
        let speed = self.get(Squeeze::ServerSpeed);
        let capacity = self.get(Squeeze::ServerCapacity);
        match (speed, capacity) {
            (Some(speed), Some(capacity)) if speed.names() => Some(if capacity.names() {
                claim(Wall::ServerCpu, speed, None)
            } else if self.answers_no(capacity) {
                self.speed_alone(speed)
            } else {
                self.by_telemetry(speed)
            }),
            (Some(speed), None) if speed.names() => Some(self.by_telemetry(speed)),
            (speed, Some(capacity)) if capacity.names() => self.server_quota(speed, capacity),
            _ => None,
        }
    }

    /// Whether capacity is nothing that the server lacks. Of several processors that are nearly full a
    /// quota costs a part of its dose, which is no slack.
    fn answers_no(&self, capacity: &Reading) -> bool {
        match self.server_cpus() {
            1 => capacity.answer() == Answer::No,
            _ => capacity.slack(),
        }
    }

    /// The server answers speed and not capacity.
    fn speed_alone(&self, speed: &'c Reading) -> Claim<'c> {
        let neighbours: Vec<String> = self
            .experiment
            .setting
            .neighbours
            .iter()
            .filter(|neighbour| neighbour.cores >= NEIGHBOUR_MIN)
            .map(|neighbour| {
                format!(
                    "{} with {} cores",
                    neighbour.name,
                    trimmed(neighbour.cores, 2)
                )
            })
            .collect();
        if !neighbours.is_empty() && self.is_crowded() {
            let detail = format!("neighbour on its processors: {}", neighbours.join(", "));
            return claim(Wall::ServerCpu, speed, Some(detail));
        }
        let family = self.step.telemetry.server.as_ref();
        let others = family.map_or(0.0, caveats::neighbour_cores);
        if self.server_cpus() > 1 && others >= OTHERS_MIN && self.is_crowded() {
            let detail = format!(
                "others used {} cores of its processors under the load",
                trimmed(others, 2)
            );
            return claim(Wall::ServerCpu, speed, Some(detail)).doubted(
                "whose work fills its processors was not squeezed apart: --backend-pid names a process \
                 that works for it",
            );
        }
        match self.server_cpus() {
            0 => {
                let why = "how many processors the server may use is not known";
                claim(Wall::ServerCpu, speed, None).doubted(why)
            }
            1 => {
                let odd = "its one processor answers speed and not a quota, which is odd";
                claim(Wall::ServerCpu, speed, Some(odd.to_owned()))
                    .doubted("its two squeezes contradict each other")
            }
            _ => self.serial(speed),
        }
    }

    /// Whether neighbours can be what keeps the server from more of its processors: those are full, and
    /// no thread of its own has all that one thread can have.
    fn is_crowded(&self) -> bool {
        let family = self.step.telemetry.server.as_ref();
        let busy = family.and_then(|family| positive(family.cpus_busy));
        let full = busy.is_none_or(|busy| busy >= CROWDED);
        self.server_cpus() == 1 || (full && self.hot_thread().is_none())
    }

    fn hot_thread(&self) -> Option<&'c ThreadShare> {
        let family = self.step.telemetry.server.as_ref()?;
        let hottest = family.hottest_thread.as_ref();
        hottest.filter(|thread| thread.share >= THREAD_HOT)
    }

    /// Cores that the server's threads used together.
    fn used(&self) -> Option<f64> {
        let family = self.step.telemetry.server.as_ref()?;
        positive(family.cpu_ns as f64 / self.step.telemetry.window_ns as f64)
    }

    fn serial(&self, speed: &'c Reading) -> Claim<'c> {
        if let Some(used) = self.used().filter(|used| *used > ONE_THREAD_MAX) {
            let detail = format!(
                "about {used:.0} run at a time: as many as its runtime or its workers are, or connections \
                 that are spread unevenly over them"
            );
            return claim(Wall::ServerSerial, speed, Some(detail));
        }
        let detail = match self.hot_thread() {
            Some(thread) => format!(
                "one hot thread: `{}` is {} busy",
                thread.name,
                percent(thread.share)
            ),
            None => ONE_AT_A_TIME.to_owned(),
        };
        claim(Wall::ServerSerial, speed, Some(detail))
    }

    /// Speed moves it, and capacity could not be squeezed: with more than one processor
    /// only telemetry tells all of them from one hot thread.
    fn by_telemetry(&self, speed: &'c Reading) -> Claim<'c> {
        if self.server_cpus() == 1 {
            return claim(Wall::ServerCpu, speed, None);
        }
        let why = "what its capacity is worth was not squeezed, or is not known, so telemetry alone \
                   tells all of its processors from one thread";
        if self.observed.wall == Wall::ServerSerial {
            return self.serial(speed).doubted(why);
        }
        claim(Wall::ServerCpu, speed, None).doubted(why)
    }

    /// The server answers capacity and not speed.
    fn server_quota(&self, speed: Option<&'c Reading>, capacity: &'c Reading) -> Option<Claim<'c>> {
        if speed.is_none_or(|speed| speed.has_share()) {
            let why = "its speed was not squeezed, or answers too little to be called slack";
            return Some(claim(Wall::ServerCpu, capacity, None).doubted(why));
        }
        let family = self.step.telemetry.server.as_ref();
        let quota = self
            .experiment
            .setting
            .server_quota_cores
            .or(family.and_then(|family| family.quota_cores));
        let throttled = family.map_or(0.0, |family| family.throttled_share);
        if let Some(quota) = quota {
            let detail = format!(
                "quota of {} cores: the processors have time, the group may not use it",
                trimmed(quota, 2)
            );
            return Some(claim(Wall::ServerCpu, capacity, Some(detail)));
        }
        if throttled > 0.01 {
            let detail = format!(
                "a quota: throttled in {} of its periods",
                percent(throttled)
            );
            return Some(claim(Wall::ServerCpu, capacity, Some(detail)));
        }
        // Something in the group burns what the quota leaves and the CPU stealer does not touch.
        None
    }

    fn client(&self) -> Option<Claim<'c>> {
        let family = self.step.telemetry.client.as_ref();
        let quota = self
            .experiment
            .setting
            .client_quota_cores
            .or(family.and_then(|family| family.quota_cores));
        let detail = quota.map(|quota| format!("quota of {} cores", trimmed(quota, 2)));
        let capacity = self
            .get(Squeeze::ClientCapacity)
            .filter(|reading| reading.names());
        let speed = self
            .get(Squeeze::ClientSpeed)
            .filter(|reading| reading.names());
        if let Some(speed) = speed {
            // A worker that spins uses up its quota, and so answers both where that holds it.
            let throttled = family.is_some_and(|family| family.throttled_share > THROTTLED);
            let by_quota = throttled || capacity.is_some_and(|capacity| capacity.clearly());
            return Some(claim(Wall::ClientCpu, speed, detail.filter(|_| by_quota)));
        }
        let capacity = capacity?;
        let known = detail.is_some();
        let claim = claim(Wall::ClientCpu, capacity, detail);
        let why = "it answers a quota and not its speed, and no quota of its own is known";
        Some(if known { claim } else { claim.doubted(why) })
    }
}

fn claim(wall: Wall, reading: &Reading, detail: Option<String>) -> Claim<'_> {
    Claim {
        wall,
        reading,
        doubt: reading.doubt(),
        detail,
    }
}

impl Claim<'_> {
    fn doubted(self, why: &'static str) -> Self {
        Claim {
            doubt: Some(why),
            ..self
        }
    }
}

/// The squeezes that speak for or against a wall.
pub(super) fn squeezes_of(wall: Wall) -> &'static [Squeeze] {
    match wall {
        Wall::ServerCpu => &[Squeeze::ServerSpeed, Squeeze::ServerCapacity],
        Wall::ServerSerial => &[Squeeze::ServerSpeed],
        Wall::ClientCpu => &[Squeeze::ClientSpeed, Squeeze::ClientCapacity],
        Wall::Downlink => &[Squeeze::Downlink],
        Wall::Uplink => &[Squeeze::Uplink],
        Wall::Concurrency => &[Squeeze::InFlight, Squeeze::ThinkTime],
        Wall::OfferedLoad => &[Squeeze::OfferedLoad],
        Wall::Backend => &[Squeeze::BackendSpeed],
        Wall::Wait | Wall::CoLimited | Wall::Inconclusive => &[],
    }
}
