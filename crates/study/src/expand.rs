//! A study at one size becomes a list of steps, in the order in which they run.

use wallfinder_model::record::{Cell, Step};
use wallfinder_model::traffic::Traffic;
use wallfinder_model::{Arrival, Decode, Effort, Load, Nanos, Rate, Scenario, Stop, scenario};

use crate::Size;
use crate::study::{Concurrency, Driver, Group, KernelLooks, Ramp, Speaks, Study};

/// Time beside warm-up and window that a step of the engine takes: connecting, draining.
const AROUND_ENGINE: Nanos = Nanos::from_millis(150);
/// The same of a foreign driver, which is started and writes its report.
const AROUND_FOREIGN: Nanos = Nanos::from_millis(500);
/// Time until a subject listens, and until it has ended.
const START: Nanos = Nanos::from_millis(300);
/// Time that calibration of a step takes.
const CALIBRATION: Nanos = Nanos::from_millis(900);

/// Time of a request where it is counted, and for each byte of its data: on loopback, with
/// everything for it on one processor.
const REQUEST: Nanos = Nanos(25_000);
const BYTE: Nanos = Nanos(2);

/// How the echo subjects' messages stand on a plain stream.
const ECHO_FRAMES: &str = "u32be";

/// Studies are run again with the same seed.
pub const SEED: u64 = 1;

/// The label by which a step was planned, were it disturbed or not.
pub fn label_of(step: &Step) -> &str {
    step.name.split("/disturbed").next().unwrap_or(&step.name)
}

/// What squeezes of an effort take, about, in nanoseconds.
fn squeezing(effort: Effort) -> u64 {
    let seconds = match effort {
        Effort::Quick => 60,
        Effort::Normal => 200,
        Effort::Thorough => 900,
    };
    seconds * 1_000_000_000
}

/// How long steps take that run in this order, about: starts of their subjects among it.
pub fn duration<'s>(steps: impl Iterator<Item = &'s StudyStep>) -> Nanos {
    let (mut all, mut runs) = (0, None);
    for step in steps {
        let place = Some((&step.subject, step.round));
        let start = if place == runs { 0 } else { START.0 };
        runs = place;
        all += start + step.duration().0;
    }
    Nanos(all)
}

/// One step of a study.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyStep {
    /// Its name in tables and claims: `simple/engine/c100`.
    pub label: String,
    /// The group it belongs to.
    pub group: String,
    /// Name of its subject.
    pub subject: String,
    /// The protocol.
    pub speaks: Speaks,
    /// Path and query; empty for framed messages.
    pub path: String,
    /// What is sent in its place, where that is more than one request.
    pub traffic: Traffic,
    /// Header fields of the request.
    pub headers: Vec<(String, String)>,
    /// Bytes of data in the echo subjects' message; `None`: nothing is sent.
    pub payload: Option<u32>,
    /// What produces the load.
    pub driver: Driver,
    /// The load.
    pub load: Load,
    /// Which repetition it belongs to, from 1.
    pub round: u32,
    /// Whether the study asks if its group is better than others.
    pub rival: bool,
    /// Whether the engine's own ceiling is to be measured beside it.
    pub calibrate: bool,
    /// Whether the engine's requests are to be kept one by one.
    pub samples: bool,
    /// Whether the server's profiles are to be captured.
    pub profiles: bool,
    /// What the kernel is to tell of both sides.
    pub kernel: KernelLooks,
    /// Quota in cores of what drives the load, where it has one.
    pub client_quota: Option<f64>,
    /// How much effort squeezes may take, where there are to be some.
    pub squeeze: Option<Effort>,
}

impl Study {
    /// The steps of a size: round by round, subject by subject and group by group, so that a
    /// server is started as seldom as can be. Each round begins with another subject, and has a subject's
    /// groups in the other order than the one before: what drifts with time meets all of them, and what
    /// drifts within the life of a server, too.
    pub fn expand(&self, size: Size) -> Vec<StudyStep> {
        let mut steps = Vec::new();
        let of_size = |run: &&Ramp| run.sizes.contains(&size);
        let runs = self.groups.iter().flat_map(|group| &group.runs);
        let rounds = runs.filter(of_size).map(|run| run.rounds).max();
        for round in 1..=rounds.unwrap_or(0) {
            for nth in 0..self.subjects.len() {
                let subject = (nth + round as usize - 1) % self.subjects.len();
                let of_subject = self.groups.iter().filter(|group| group.subject == subject);
                let mut groups: Vec<&Group> = of_subject.collect();
                if round % 2 == 0 {
                    groups.reverse();
                }
                for group in groups {
                    for run in group.runs.iter().filter(of_size) {
                        self.steps_of(group, run, round, &mut steps);
                    }
                }
            }
        }
        steps
    }

    /// How long a size takes, about.
    pub fn duration(&self, size: Size) -> Nanos {
        duration(self.expand(size).iter())
    }

    fn steps_of(&self, group: &Group, run: &Ramp, round: u32, steps: &mut Vec<StudyStep>) {
        if round > run.rounds {
            return;
        }
        let rates: Vec<Option<Rate>> = match run.rates.len() {
            0 => vec![None],
            _ => run.rates.iter().copied().map(Some).collect(),
        };
        let payloads: Vec<Option<u32>> = match run.payload.len() {
            0 => vec![None],
            _ => run.payload.iter().copied().map(Some).collect(),
        };
        for driver in run.drivers.iter().map(|index| &self.drivers[*index]) {
            for payload in &payloads {
                for concurrency in &run.concurrency {
                    for rate in &rates {
                        let load = Load {
                            decode: match driver.is_engine() {
                                true => group.decode,
                                false => Decode::None,
                            },
                            ..self.load(run, *concurrency, *rate)
                        };
                        let cell = cell(*payload, concurrency.given, *rate);
                        let again = match run.rounds {
                            1 => String::new(),
                            _ => format!("/round{round}"),
                        };
                        steps.push(StudyStep {
                            label: format!("{}/{}/{cell}{again}", group.id, driver.name),
                            group: group.id.clone(),
                            subject: self.subjects[group.subject].name.clone(),
                            speaks: group.speaks,
                            path: group.path.clone(),
                            traffic: group.traffic.clone(),
                            headers: group.headers.clone(),
                            payload: *payload,
                            driver: driver.clone(),
                            load,
                            round,
                            rival: group.rival,
                            calibrate: run.calibrate && driver.is_engine(),
                            samples: run.samples && driver.is_engine(),
                            profiles: run.profiles && driver.is_engine(),
                            kernel: run.kernel,
                            client_quota: run.client_quota,
                            squeeze: run.squeeze.filter(|_| driver.is_engine()),
                        });
                    }
                }
            }
        }
    }

    fn load(&self, run: &Ramp, concurrency: Concurrency, rate: Option<Rate>) -> Load {
        let Concurrency { connections, .. } = concurrency;
        Load {
            in_flight_per_connection: concurrency.in_flight_per_connection,
            max_in_flight: run.max_in_flight,
            workers: self.client_cpus.min(connections),
            arrival: match rate {
                None => Arrival::Closed { think: Nanos(0) },
                Some(rate) => Arrival::Constant { rate },
            },
            warmup: run.warmup,
            stop: Stop {
                after: run.window,
                requests: run
                    .requests
                    .map(|each| u64::from(each) * u64::from(concurrency.given)),
            },
            timeout: run.timeout,
            ..Load::closed(connections)
        }
    }
}

impl StudyStep {
    /// What is asked of its subject at an address, and how much. What drives it, and what is looked at inside,
    /// is the step's own.
    pub fn scenario(&self, address: &str, is_secure: bool) -> Scenario {
        let mut scenario = Scenario::default();
        let target = &mut scenario.target;
        let protocol = match self.speaks {
            Speaks::Http1 | Speaks::Http2 => "http",
            Speaks::Grpc => "grpc",
            Speaks::Framed | Speaks::FramedCredit => "tcp",
        };
        let secure = if is_secure { "s" } else { "" };
        target.url = format!("{protocol}{secure}://{address}{}", self.path);
        target.http2 = self.speaks == Speaks::Http2;
        target.frame = match self.speaks {
            Speaks::Framed => Some(ECHO_FRAMES.to_owned()),
            Speaks::FramedCredit => Some(format!("{ECHO_FRAMES},credit")),
            _ => None,
        };
        let headers = self.headers.iter();
        target.headers = headers
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        target.echo_bytes = self.payload;
        if self.payload.is_some() && protocol == "http" {
            target.method = "POST".to_owned();
            let kind = "Content-Type: application/x-protobuf";
            target.headers.push(kind.to_owned());
        }
        if is_secure {
            // Its certificate is its own.
            target.tls.insecure = true;
            target.tls.server_name = Some("subject".to_owned());
        }
        target.decode = self.load.decode;
        scenario.load = scenario::Load::of(&self.load, SEED);
        scenario.watch.no_calibrate = !self.calibrate;
        scenario.watch.samples = self.samples;
        scenario.traffic = self.traffic.clone();
        scenario
    }

    /// Its place in the study's table.
    pub fn cell(&self) -> Cell {
        Cell {
            group: self.group.clone(),
            driver: self.driver.name.clone(),
            payload: self.payload.unwrap_or(0),
            clients: u32::try_from(self.load.wanted_max()).unwrap_or(u32::MAX),
            round: self.round,
            rival: self.rival,
        }
    }

    /// How long it takes, about, of a subject that runs.
    fn duration(&self) -> Nanos {
        let calibration = if self.calibrate { CALIBRATION.0 } else { 0 };
        let squeezes = self.squeeze.map_or(0, squeezing);
        let around = match self.driver.is_engine() {
            true => AROUND_ENGINE,
            false => AROUND_FOREIGN,
        };
        Nanos(self.load.warmup.0 + self.window().0 + around.0 + calibration + squeezes)
    }

    /// How long it is measured, about.
    fn window(&self) -> Nanos {
        let most = self.load.stop.after;
        let each = REQUEST.0 + BYTE.0 * u64::from(self.payload.unwrap_or(0));
        match self.load.stop.requests {
            None => most,
            Some(requests) => most.min(Nanos(requests.saturating_mul(each))),
        }
    }
}

/// `64B/c10`, `c10`, `c10/r5000`.
fn cell(payload: Option<u32>, given: u32, rate: Option<Rate>) -> String {
    let payload = payload.map_or(String::new(), |bytes| format!("{bytes}B/"));
    let rate = rate.map_or(String::new(), |rate| format!("/r{:.0}", rate.0));
    format!("{payload}c{given}{rate}")
}
