//! The levers of an experiment: one resource squeezed or several at once, all others at no dose.
//!
//! Levers of the apparatus are set by calls; those of the engine are read from here when
//! the source applies them. A sham sets every one of them to no dose. Each that is set is checked by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use wallfinder_engine::LeverSetting;
use wallfinder_engine::in_flight::{in_flight_left, in_flight_more};
use wallfinder_model::drive::Clients;
use wallfinder_model::experiment::{OutOfReach, Squeeze};
use wallfinder_model::{Arrival, Load, Nanos, Step, Wall};
use wallfinder_testbed::squeeze::{Check, Lever};

use super::Seen;
use super::padding::Padding;
use super::resting::Resting;
use crate::{ConductError, Producer, StepOrder};

/// A pause that is shorter than this is mostly the clock's own delay.
const THINK_MIN: Duration = Duration::from_micros(100);

/// A worker's speed may be off by this part of the whole: its turns of spinning are counted when
/// they end.
const SPEED_OFF_MAX: f64 = 0.05;
/// Requests in flight may be above their room by this part, by those of the wash-out.
const ROOM_OFF_MAX: f64 = 0.05;

/// Every lever of an experiment.
pub(crate) struct LeverSet {
    levers: Vec<Box<dyn Lever>>,
    load: Load,
    /// Whether the engine makes the load, so that it can be squeezed from inside.
    engine: bool,
    /// Response time at no dose: what think time is measured in.
    response: Duration,
    /// In flight at no dose, in the mean.
    in_flight: f64,
    /// Longer requests, where there is a link whose rate is not ours to set.
    padding: Option<Padding>,
    /// The client hosts, where they are several.
    resting: Option<Resting>,
    /// Connections that stand by in all, so that they can take each other's over.
    pub(super) standby: u32,
    /// Why they cannot, where one has no room for them.
    no_room: Option<String>,
    null: bool,
    /// What is squeezed now.
    now: Vec<Squeeze>,
    /// What is left of each, as asked for.
    retained: f64,
    /// Which levers of the apparatus stand at another place than no dose.
    pulled: Vec<usize>,
    turn: u32,
    /// The foreign driver's processes, as the levers know them.
    client_pids: Vec<u32>,
}

/// What the checks of a window say.
pub(crate) struct Checked {
    /// Of all that was squeezed; `None` where nothing was.
    pub(crate) check: Option<Check>,
    /// Of several those that were not in force.
    pub(crate) without: Vec<Squeeze>,
    /// Of several what was left of each, where that was measured.
    pub(crate) retained_each: BTreeMap<Squeeze, f64>,
}

impl LeverSet {
    /// Takes the levers, and says what is out of reach beside what was known to be.
    pub(crate) fn new(
        step: &StepOrder,
        base: &Step,
        levers: Vec<Box<dyn Lever>>,
        null: bool,
        out_of_reach: &mut Vec<OutOfReach>,
    ) -> LeverSet {
        let mean_s = base.in_flight_mean / base.throughput.max(1e-9);
        let has_uplink = levers
            .iter()
            .any(|lever| lever.squeeze() == Squeeze::Uplink);
        let padding = Padding::of(step).filter(|_| !has_uplink);
        if padding.is_some() {
            out_of_reach.retain(|out| out.squeeze != Squeeze::Uplink);
        }
        let resting = Resting::of(step);
        let asked = resting.as_ref().filter(|_| may_stand_by(&step.load));
        let (standby, no_room) = match asked.map(|hosts| hosts.room(step)) {
            Some(Ok(standby)) => (standby, None),
            Some(Err(why)) => (0, Some(why)),
            None => (0, None),
        };
        let lever_set = LeverSet {
            padding,
            standby,
            no_room,
            resting,
            levers,
            load: step.load.clone(),
            engine: matches!(step.producer, Producer::Engine(_)),
            response: Duration::try_from_secs_f64(mean_s).unwrap_or_default(),
            in_flight: base.in_flight_mean,
            null,
            now: Vec::new(),
            retained: 1.0,
            pulled: Vec::new(),
            turn: 0,
            client_pids: Vec::new(),
        };
        for squeeze in Squeeze::ALL {
            let known = out_of_reach.iter().any(|out| out.squeeze == squeeze);
            if let (false, Some(why)) = (known, lever_set.cannot(squeeze)) {
                out_of_reach.push(OutOfReach { squeeze, why });
            }
        }
        lever_set
    }

    /// Why there is no lever for a squeeze; `None` where there is one.
    fn cannot(&self, squeeze: Squeeze) -> Option<String> {
        if self.lever(squeeze).is_some() {
            return None;
        }
        let own = |what: &str| {
            Some(format!(
                "{what} can be squeezed from inside our own engine only"
            ))
        };
        match squeeze {
            Squeeze::ClientSpeed if self.engine => None,
            Squeeze::Uplink if self.padding.is_some() => None,
            Squeeze::MoreClients if self.resting.is_none() => {
                Some("one host makes the load: give more of --client-host".to_owned())
            }
            Squeeze::MoreClients if self.load.arrival.is_open() => {
                Some("an open loop's requests start on the hosts that they are dealt to".to_owned())
            }
            Squeeze::MoreClients if !may_stand_by(&self.load) => {
                Some("connections cannot stand by where each carries one request".to_owned())
            }
            Squeeze::MoreClients => self.no_room.clone(),
            Squeeze::InFlight | Squeeze::MoreInFlight if !self.engine => own("requests in flight"),
            Squeeze::ThinkTime if !self.engine => own("think time"),
            Squeeze::OfferedLoad if !self.engine => own("the offered rate"),
            Squeeze::InFlight | Squeeze::MoreInFlight if self.load.arrival.is_open() => {
                Some("an open loop has as many in flight as it takes".to_owned())
            }
            Squeeze::InFlight => match in_flight_left(&self.load, 0.8) {
                Some(_) => None,
                None if self.load.workers > 1 => Some(
                    "each worker has too few in flight for some of it to rest: hold more with -c, \
                     or begin with fewer threads (-t)"
                        .to_owned(),
                ),
                None => Some("one request in flight cannot be made fewer".to_owned()),
            },
            Squeeze::MoreInFlight if !may_stand_by(&self.load) => {
                Some("spare connections cannot wait where each carries one request".to_owned())
            }
            Squeeze::MoreInFlight => None,
            Squeeze::ThinkTime if self.load.arrival.is_open() => {
                Some("an open loop does not wait for answers".to_owned())
            }
            Squeeze::ThinkTime => (self.think(0.8) < THINK_MIN).then(|| {
                format!(
                    "a quarter of a response time of {:.0} µs is shorter than a timer can be trusted",
                    self.response.as_secs_f64() * 1e6
                )
            }),
            Squeeze::OfferedLoad => (!self.load.arrival.is_open())
                .then(|| "a closed loop offers what the server takes".to_owned()),
            squeeze if squeeze.wall() == Wall::Backend => {
                Some(
                    "no process behind the server is known: --backend-pid names one, --backend-host its host"
                        .to_owned(),
                )
            }
            _ => Some("nothing here reaches it".to_owned()),
        }
    }

    fn lever(&self, squeeze: Squeeze) -> Option<usize> {
        self.levers
            .iter()
            .position(|lever| lever.squeeze() == squeeze)
    }

    /// The form of the request that leaves this part of the uplink, and what it leaves.
    fn padded(&self, retained: f64) -> Option<(usize, f64)> {
        Some(self.padding.as_ref()?.form(retained))
    }

    /// The pause that leaves this part of the requests in flight for the server.
    fn think(&self, retained: f64) -> Duration {
        self.response.mul_f64(1.0 / retained - 1.0)
    }

    /// How resources are squeezed, in words.
    pub(crate) fn how(&self, squeezes: &[Squeeze]) -> String {
        let each: Vec<String> = squeezes
            .iter()
            .map(|squeeze| self.how_one(*squeeze))
            .collect();
        each.join("; ")
    }

    fn how_one(&self, squeeze: Squeeze) -> String {
        if let Some(at) = self.lever(squeeze) {
            return self.levers[at].how();
        }
        match squeeze {
            Squeeze::ClientSpeed => "workers spin for a part of their working time".to_owned(),
            Squeeze::Uplink => "requests are padded".to_owned(),
            Squeeze::InFlight => "some connections, or a part of their depth, rest".to_owned(),
            Squeeze::MoreInFlight => "spare connections are used too".to_owned(),
            Squeeze::MoreClients => self.resting.as_ref().map_or(String::new(), Resting::how),
            Squeeze::ThinkTime => "a pause before each request".to_owned(),
            Squeeze::OfferedLoad => "the schedule at a slower pace".to_owned(),
            _ => "nothing".to_owned(),
        }
    }

    /// Squeezes these, or none, and nothing else.
    pub(crate) fn squeeze(
        &mut self,
        squeezes: &[Squeeze],
        retained: f64,
    ) -> Result<(), ConductError> {
        (self.now, self.retained) = (squeezes.to_vec(), retained);
        self.turn = self.turn.wrapping_add(1);
        if squeezes.contains(&Squeeze::MoreClients)
            && let Some(resting) = &mut self.resting
        {
            resting.turn();
        }
        let wanted: Vec<usize> = squeezes.iter().filter_map(|it| self.lever(*it)).collect();
        for squeeze in squeezes.iter().filter(|it| self.lever(**it).is_none()) {
            tracing::debug!(squeeze = squeeze.label(), retained, "engine is squeezed");
        }
        while let Some(at) = self
            .pulled
            .iter()
            .position(|pulled| !wanted.contains(pulled))
        {
            let before = self.pulled.swap_remove(at);
            set(&mut *self.levers[before], 1.0)?;
        }
        for at in wanted {
            if !self.pulled.contains(&at) {
                self.pulled.push(at);
            }
            let lever = &mut *self.levers[at];
            // Where a lever cannot go so far, its check says how far it went.
            let within = retained.max(lever.retained_min());
            set(lever, if self.null { 1.0 } else { within })?;
        }
        Ok(())
    }

    /// The server was started anew: its levers take hold of its new processes.
    pub(crate) fn server_is(&mut self, pids: &[u32]) -> Result<(), ConductError> {
        self.follow(&[Squeeze::ServerSpeed, Squeeze::ServerCapacity], pids)
    }

    /// A foreign driver runs as these processes now; none: the load is our own.
    pub(crate) fn client_is(&mut self, pids: Vec<u32>) -> Result<(), ConductError> {
        if pids == self.client_pids {
            return Ok(());
        }
        self.follow(&[Squeeze::ClientSpeed, Squeeze::ClientCapacity], &pids)?;
        self.client_pids = pids;
        Ok(())
    }

    fn follow(&mut self, squeezes: &[Squeeze], pids: &[u32]) -> Result<(), ConductError> {
        for lever in &mut self.levers {
            let squeeze = lever.squeeze();
            if squeezes.contains(&squeeze) {
                lever.follow(pids).map_err(|error| {
                    let what = squeeze.label();
                    ConductError::Lever(format!("{what} lost hold of its processes: {error}"))
                })?;
            }
        }
        Ok(())
    }

    /// What the engine is to do of it.
    pub(crate) fn engine_setting(&self) -> LeverSetting {
        let mut setting = LeverSetting {
            speed: Some(1.0),
            turn: self.turn,
            ..LeverSetting::FREE
        };
        if self.null {
            return setting;
        }
        let retained = self.retained;
        for squeeze in self.now.iter().filter(|it| self.lever(**it).is_none()) {
            match squeeze {
                Squeeze::ClientSpeed => setting.speed = Some(retained),
                Squeeze::InFlight | Squeeze::MoreInFlight => setting.in_flight = retained,
                Squeeze::MoreClients => {
                    let resting = self.resting.as_ref();
                    setting.clients = resting.map_or(Clients::All, Resting::setting);
                }
                Squeeze::ThinkTime => setting.think = Nanos(self.think(retained).as_nanos() as u64),
                Squeeze::OfferedLoad => setting.pace = retained,
                Squeeze::Uplink => setting.form = self.padded(retained).map_or(0, |(form, _)| form),
                _ => {}
            }
        }
        setting
    }

    /// The measured part of a window begins.
    pub(crate) fn begin_window(&mut self) {
        for lever in &mut self.levers {
            lever.begin_window();
        }
    }

    /// It has ended: what the check of the manipulation says of each that was squeezed, beside what the
    /// engine itself saw of its own: its workers' speed, its requests in flight.
    pub(crate) fn end_window(&mut self) -> Vec<(Squeeze, Check)> {
        let checks: Vec<Check> = self.levers.iter_mut().map(|l| l.end_window()).collect();
        let each = self.now.iter().map(|squeeze| {
            let check = match self.lever(*squeeze) {
                // The null experiment asked for nothing, and got it.
                Some(at) if self.null => Check {
                    retained: None,
                    in_force: None,
                    text: checks[at].text.clone(),
                },
                Some(at) => checks[at].clone(),
                None => self.asked(*squeeze),
            };
            (*squeeze, check)
        });
        each.collect()
    }

    /// What a squeeze of the engine's leaves by its numbers.
    fn asked(&self, squeeze: Squeeze) -> Check {
        let retained = self.retained;
        let really = match squeeze {
            Squeeze::InFlight => in_flight_left(&self.load, retained),
            Squeeze::MoreInFlight => Some(in_flight_more(&self.load)),
            Squeeze::Uplink => self.padded(retained).map(|(_, left)| left),
            _ => Some(retained),
        };
        Check {
            retained: really,
            in_force: Some(really.is_some()),
            text: String::new(),
        }
    }

    /// What the engine itself saw of a squeeze of its own: its workers' speed, its requests in
    /// flight. `check` is what was asked for.
    fn borne_out(&self, squeeze: Squeeze, check: Check, seen: &Seen) -> Check {
        if self.null || self.lever(squeeze).is_some() {
            return check;
        }
        let asked = check.retained.unwrap_or(self.retained);
        // Who thinks between requests has fewer in flight than there is room for.
        let thinks = self.load.arrival != Arrival::Closed { think: Nanos(0) };
        match (squeeze, seen.speed, seen.in_flight_mean) {
            (Squeeze::MoreClients, _, mean) => match &self.resting {
                Some(resting) => {
                    let full = self.in_flight.min(self.load.in_flight_bound() as f64);
                    resting.check(mean.filter(|_| !thinks), full)
                }
                None => check,
            },
            (Squeeze::ClientSpeed, Some(speed), _) => Check {
                retained: Some(speed),
                in_force: Some((speed - asked).abs() <= SPEED_OFF_MAX),
                text: format!("workers worked {:.1} % of their time", 100.0 * speed),
            },
            (Squeeze::InFlight | Squeeze::MoreInFlight, _, Some(mean)) => {
                // A server that allows fewer streams than are asked for holds them down for all its connections.
                let bound = self.load.in_flight_bound() as f64;
                let full = match squeeze {
                    Squeeze::MoreInFlight => self.in_flight.min(bound),
                    _ => bound,
                };
                let room = full * asked;
                let text = format!("{mean:.1} in flight, with room for {room:.0}");
                let in_force = match squeeze {
                    Squeeze::InFlight => Some(mean <= room * (1.0 + ROOM_OFF_MAX)),
                    _ if thinks => None,
                    _ => Some(mean >= (full + room) / 2.0),
                };
                Check {
                    in_force,
                    text,
                    ..check
                }
            }
            _ => check,
        }
    }

    /// What all checks of a window say in one: of one squeeze as it is, and of several those that were not
    /// in force beside what is left of all.
    pub(crate) fn checked(&self, checks: Vec<(Squeeze, Check)>, seen: &Seen) -> Checked {
        let checks = checks.into_iter();
        let mut checks: Vec<(Squeeze, Check)> = checks
            .map(|(squeeze, check)| (squeeze, self.borne_out(squeeze, check, seen)))
            .collect();
        if checks.len() < 2 {
            return Checked {
                check: checks.pop().map(|(_, check)| check),
                without: Vec::new(),
                retained_each: BTreeMap::new(),
            };
        }
        let is_out = |check: &Check| check.in_force == Some(false);
        let of_one = |(squeeze, check): &(Squeeze, Check)| {
            (!check.text.is_empty()).then(|| format!("{}: {}", squeeze.label(), check.text))
        };
        let texts: Vec<String> = checks.iter().filter_map(of_one).collect();
        let out = checks.iter().filter(|(_, check)| is_out(check));
        let without: Vec<Squeeze> = out.map(|(squeeze, _)| *squeeze).collect();
        let measured = checks
            .iter()
            .filter_map(|(squeeze, check)| Some((*squeeze, check.retained?)));
        let retained_each = measured.collect();
        let all_told = checks.iter().all(|(_, check)| check.in_force == Some(true));
        let none = without.len() == checks.len();
        Checked {
            check: Some(Check {
                retained: None,
                in_force: if none {
                    Some(false)
                } else {
                    all_told.then_some(true)
                },
                text: texts.join("; "),
            }),
            without,
            retained_each,
        }
    }

    /// Every lever back to no dose. What cannot be set back is undone when it is dropped.
    pub(crate) fn release(&mut self) {
        self.now.clear();
        for lever in &mut self.levers {
            match lever.set(1.0) {
                Ok(()) => {
                    tracing::debug!(squeeze = lever.squeeze().label(), "lever is released");
                }
                Err(error) => {
                    let squeeze = lever.squeeze().label();
                    tracing::warn!(squeeze, %error, "lever could not be released");
                }
            }
        }
    }
}

/// Whether connections of such a load can stand open and send nothing.
fn may_stand_by(load: &Load) -> bool {
    !load.connection_per_request && !load.arrival.is_open()
}

fn set(lever: &mut dyn Lever, retained: f64) -> Result<(), ConductError> {
    tracing::debug!(squeeze = lever.squeeze().label(), retained, "lever is set");
    lever.set(retained).map_err(|error| {
        ConductError::Lever(format!(
            "{} could not be squeezed: {error}",
            lever.squeeze().label()
        ))
    })
}
