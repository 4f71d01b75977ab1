//! Which resource each pair of squeezes speaks for.
//!
//! Speed and capacity of the same processors together tell a parallel CPU wall (both move
//! it), a serial section or a neighbour (speed alone) and a quota (capacity alone) apart.

use wallfinder_model::experiment::{Experiment, Neighbour, Squeeze};
use wallfinder_model::reason::{CrowdedOut, Doubt, Named};
use wallfinder_model::telemetry::ThreadShare;
use wallfinder_model::verdict::Verdict;
use wallfinder_model::{Detail, Step, Wall};

use super::gates::Gates;
use super::readings::{Answer, Reading, Readings};
use super::shares;
use crate::caveats;
use crate::finite::positive;

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
/// All that a decision is made from.
pub(super) struct Case<'c> {
    pub(super) step: &'c Step,
    pub(super) experiment: &'c Experiment,
    pub(super) observed: &'c Verdict,
    pub(super) readings: &'c Readings,
    pub(super) gates: &'c Gates,
    /// Who had the processors, where neither side used anything of them to speak of.
    pub(super) others: Option<CrowdedOut>,
}

/// A resource that a squeeze names.
#[derive(Clone)]
pub(super) struct Claim<'c> {
    pub(super) wall: Wall,
    /// The squeeze that names it.
    pub(super) reading: &'c Reading,
    /// Why it is not beyond doubt, where it is not.
    pub(super) doubt: Option<Doubt>,
    pub(super) detail: Option<Detail>,
}

impl<'c> Case<'c> {
    pub(super) fn get(&self, squeeze: Squeeze) -> Option<&'c Reading> {
        self.readings.get(squeeze)
    }

    /// Every resource that is named by its squeeze.
    pub(super) fn claims(&self) -> Vec<Claim<'c>> {
        let mut claims: Vec<Claim> = [self.server(), self.client()]
            .into_iter()
            .flatten()
            .collect();
        for wall in [Wall::Downlink, Wall::Uplink, Wall::Backend] {
            let own = squeezes_of(wall).into_iter();
            let naming = own.filter_map(|squeeze| self.get(squeeze).filter(|it| it.names()));
            claims.extend(shares::strongest(naming).map(|reading| {
                let names = &self.experiment.setting.backends;
                let detail =
                    (wall == Wall::Backend && !names.is_empty()).then(|| Detail::Backends {
                        names: names.clone(),
                    });
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
                // It was asked, and did not tell.
                self.by_telemetry(speed).doubted(Doubt::CapacityUnknown)
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
        let neighbours = named(&self.experiment.setting.neighbours);
        if let Some(named) = neighbours.filter(|_| self.is_crowded()) {
            let detail = Detail::Neighbours { named };
            return claim(Wall::ServerCpu, speed, Some(detail));
        }
        let family = self.step.telemetry.server.as_ref();
        let others = family.map_or(0.0, caveats::neighbour_cores);
        if self.server_cpus() > 1 && others >= OTHERS_MIN && self.is_crowded() {
            let detail = Detail::Neighbour { cores: others };
            return claim(Wall::ServerCpu, speed, Some(detail)).doubted(Doubt::OthersNotSqueezed);
        }
        match self.server_cpus() {
            0 => claim(Wall::ServerCpu, speed, None).doubted(Doubt::ProcessorsUnknown),
            1 => claim(Wall::ServerCpu, speed, Some(Detail::SpeedAlone))
                .doubted(Doubt::Contradiction),
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
            return claim(
                Wall::ServerSerial,
                speed,
                Some(Detail::SomeRun { count: used }),
            );
        }
        let detail = match self.hot_thread() {
            Some(thread) => Detail::HotThreads {
                name: thread.name.clone(),
                threads: 1,
                busy: thread.share,
            },
            None => Detail::OneRuns,
        };
        claim(Wall::ServerSerial, speed, Some(detail))
    }

    /// Speed moves it, and capacity could not be squeezed: with more than one processor
    /// only telemetry tells all of them from one hot thread.
    fn by_telemetry(&self, speed: &'c Reading) -> Claim<'c> {
        if self.server_cpus() == 1 {
            return claim(Wall::ServerCpu, speed, None);
        }
        let by_one = self.used().is_some_and(|used| used <= ONE_THREAD_MAX);
        let is_hot = by_one && self.hot_thread().is_some();
        if is_hot || self.observed.wall == Wall::ServerSerial {
            return self.serial(speed).doubted(Doubt::CapacityUnknown);
        }
        claim(Wall::ServerCpu, speed, None).doubted(Doubt::CapacityUnknown)
    }

    /// The server answers capacity and not speed.
    fn server_quota(&self, speed: Option<&'c Reading>, capacity: &'c Reading) -> Option<Claim<'c>> {
        if speed.is_none_or(|speed| speed.has_share()) {
            return Some(claim(Wall::ServerCpu, capacity, None).doubted(Doubt::SpeedUnknown));
        }
        let family = self.step.telemetry.server.as_ref();
        let quota = self
            .experiment
            .setting
            .server_quota_cores
            .or(family.and_then(|family| family.quota_cores));
        let throttled = family.map_or(0.0, |family| family.throttled_share);
        if let Some(cores) = quota {
            let detail = Detail::Quota { cores };
            return Some(claim(Wall::ServerCpu, capacity, Some(detail)));
        }
        if throttled > 0.01 {
            let detail = Detail::Throttled { share: throttled };
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
        let detail = quota.map(|cores| Detail::Quota { cores });
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
            let crowd = named(&self.experiment.setting.client_neighbours);
            let by_neighbours = crowd.map(|named| Detail::Neighbours { named });
            let detail = detail.filter(|_| by_quota).or(by_neighbours);
            return Some(claim(Wall::ClientCpu, speed, detail));
        }
        let capacity = capacity?;
        let known = detail.is_some();
        let claim = claim(Wall::ClientCpu, capacity, detail);
        Some(match known {
            true => claim,
            false => claim.doubted(Doubt::QuotaUnknown),
        })
    }
}

/// Those of the neighbours that take something worth a word; `None`: nobody.
fn named(neighbours: &[Neighbour]) -> Option<Vec<Named>> {
    let some = neighbours
        .iter()
        .filter(|neighbour| neighbour.cores >= NEIGHBOUR_MIN);
    let named = some.map(|neighbour| Named {
        name: neighbour.name.clone(),
        cores: neighbour.cores,
    });
    let named: Vec<Named> = named.collect();
    (!named.is_empty()).then_some(named)
}

fn claim(wall: Wall, reading: &Reading, detail: Option<Detail>) -> Claim<'_> {
    Claim {
        wall,
        reading,
        doubt: reading.doubt(),
        detail,
    }
}

impl Claim<'_> {
    fn doubted(self, why: Doubt) -> Self {
        Claim {
            doubt: Some(why),
            ..self
        }
    }
}

/// The squeezes that speak for or against a wall, that of its speed first. Hosts that rest and what is widened bear out
/// what those say.
pub(super) fn squeezes_of(wall: Wall) -> Vec<Squeeze> {
    let speaks = |squeeze: &Squeeze| match wall {
        Wall::ServerSerial => *squeeze == Squeeze::ServerSpeed,
        _ => {
            let bears_out = matches!(squeeze, Squeeze::MoreInFlight | Squeeze::MoreClients);
            squeeze.wall() == wall && !bears_out
        }
    };
    Squeeze::ALL.into_iter().filter(speaks).collect()
}
