//! Several hosts that make one load together.
//!
//! ```text
//!  drive ─► deal ─► host 1: drive ─ Ready ─┐                  ┌─ Progress ─► heard ─► observe
//!              └──► host n: drive ─ Ready ─┴─► agreed zero ───┤
//!                                                             └─ Measured ─► merge ─► Measured
//! ```
//!
//! Each host is a [`ClientHost`] by itself, and knows nothing of the others but which [`Share`] of the arrivals it has.
//! All connect before any begins; then they begin at an instant that is agreed on, each by its own clock.
//!
//! Invariants: the parts of a load add up to it, to the last connection and request; what is told of all hosts is what
//! was told of each, count for count; a host that is lost is named, and what it had in flight is counted as unknown.

mod deal;
mod heard;
mod merge;

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use wallfinder_engine::in_flight::places_left;
use wallfinder_engine::{EngineError, Observer, Signals, StepSpec, workers_of};
use wallfinder_model::drive::{Clients, Edge, LeverSetting, Measured, Progress, Typical};
use wallfinder_model::experiment::Neighbour;
use wallfinder_model::record::{Ceiling, Interval, LostClient};
use wallfinder_model::scenario::{Deal, OnLostClient};
use wallfinder_model::telemetry::{ClientHostSummary, HostSummary, Telemetry};
use wallfinder_model::{Environment, Load, Nanos};
use wallfinder_probe::Family;
use wallfinder_probe::sample::Setup;
use wallfinder_sys::clock;
use wallfinder_testbed::squeeze::{Reach, Side};

use crate::at_once::at_once;
use crate::channel::HostError;
use crate::ends::ends_by_itself;
use crate::several::{self, both, families, mean, sockets};
use crate::{ClientHost, Host, Own, PaceOf, Sampling};
use heard::{Heard, Intervals, Windows};
use merge::Part;

/// How often what hosts are to be told is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How often it is looked at whether a host is lost.
const LOST_LOOK_EVERY: Duration = Duration::from_millis(100);
/// The agreed start is so far ahead, and round trips further: for every host to hear of it.
const AHEAD: Duration = Duration::from_millis(60);
const AHEAD_ROUND_TRIPS: u64 = 4;
/// Hosts whose window is over wait so long for the others'.
const CLOSE_WAIT_MAX: Duration = Duration::from_millis(700);
/// A part whose window ends by more than this share of it before the planned end ended early.
const SHORT_MAX: f64 = 0.02;
/// The edges of a window that hosts tell of.
const EDGES: [Edge; 2] = [Edge::Open, Edge::Close];
/// What hosts are weighed by: against answers as small as these, for so long.
const SMALL_ANSWER: Typical = Typical {
    body_bytes: 2,
    messages: 1,
    closes: false,
};
const WEIGHED_FOR: Nanos = Nanos::from_millis(300);
/// Names that are told; more are counted.
const NAMED_MAX: usize = 3;

/// A host with its place among all.
type Placed<'f> = (usize, &'f Arc<dyn ClientHost>);

/// The hosts of one load.
pub struct Fleet {
    name: String,
    hosts: Vec<Arc<dyn ClientHost>>,
    /// The machines' fingerprints.
    facts: Vec<Environment>,
    /// Processors for the workers of each host, where they were named.
    cpus: Option<Vec<u32>>,
    on_lost: OnLostClient,
    /// What is dealt to each host, as numbers that are compared; empty until they are known.
    weights: Mutex<Vec<f64>>,
    /// Of each host, once it is lost: why.
    lost: Mutex<Vec<Option<String>>>,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fleet({})", self.name)
    }
}

impl Fleet {
    /// These, of which there are two or more and no two have one name.
    pub fn of(
        hosts: Vec<Arc<dyn ClientHost>>,
        cpus: Option<Vec<u32>>,
        on_lost: OnLostClient,
        deal: Deal,
    ) -> Fleet {
        let names: Vec<&str> = hosts.iter().map(|host| name_of(&**host)).collect();
        Fleet {
            name: named(&names),
            facts: hosts.iter().map(|host| host.facts()).collect(),
            lost: Mutex::new(vec![None; hosts.len()]),
            weights: Mutex::new(match deal {
                Deal::Even => vec![1.0; hosts.len()],
                Deal::ByCeiling => Vec::new(),
            }),
            hosts,
            cpus,
            on_lost,
        }
    }

    fn weights(&self) -> MutexGuard<'_, Vec<f64>> {
        self.weights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost_hosts(&self) -> MutexGuard<'_, Vec<Option<String>>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cpus_of(&self, host: &dyn ClientHost) -> Vec<u32> {
        self.cpus.clone().unwrap_or_else(|| host.processors())
    }

    /// The hosts that there still are, by their places.
    fn left(&self) -> Vec<Placed<'_>> {
        let lost = self.lost_hosts();
        let each = self.hosts.iter().enumerate();
        each.filter(|(nth, _)| lost[*nth].is_none()).collect()
    }

    /// Whether so many workers have less than all of the time that they want on a host.
    fn is_under_quota(&self, nth: usize, workers: u32) -> bool {
        let quota = self.facts[nth].cgroup_quota_cores;
        quota.is_some_and(|cores| cores < f64::from(workers))
    }

    /// By itself: two hosts behind one address have one name.
    fn lose(&self, host: &dyn ClientHost, why: &str) {
        let mut lost = self.lost_hosts();
        for (other, lost) in self.hosts.iter().zip(lost.iter_mut()) {
            if std::ptr::addr_eq(Arc::as_ptr(other), host) {
                lost.get_or_insert_with(|| why.to_owned());
            }
        }
    }

    /// The hosts that have a part of a load, by their places, each with its weight.
    fn having(&self, load: &Load) -> (Vec<Placed<'_>>, Vec<f64>) {
        let mut hosts = self.left();
        hosts.truncate(deal::hosts_of(load, hosts.len()));
        let known = self.weights();
        let weight = |place: usize| known.get(place).copied().unwrap_or(1.0);
        let weights = hosts.iter().map(|(place, _)| weight(*place)).collect();
        (hosts, weights)
    }

    /// Weighs the hosts by what each can drive of such a load at most, where that is to say what is dealt to them and
    /// is not known yet.
    fn weigh(&self, spec: &StepSpec) -> Result<(), EngineError> {
        if !self.weights().is_empty() {
            return Ok(());
        }
        // One that has nothing of this load may have something of the next.
        let of_all = deal::for_all(spec, self.hosts.len());
        let (hosts, _) = self.having(&of_all.load);
        let ceilings = self.calibrated(&of_all, SMALL_ANSWER, WEIGHED_FOR)?;
        // Who is lost by now gets nothing, whatever its weight.
        let mut weights = vec![1.0; self.hosts.len()];
        for ((place, host), ceiling) in hosts.into_iter().zip(&ceilings) {
            // What a processor would do with all of its time, a quota does not.
            let quota = self.facts[place].cgroup_quota_cores;
            let by_quota = quota.map(|cores| cores * 1e9 / ceiling.cpu_per_request_ns);
            let throughput =
                by_quota.map_or(ceiling.throughput, |most| most.min(ceiling.throughput));
            let host = name_of(&**host);
            tracing::info!(
                host,
                ceiling = throughput.round(),
                "a client host is weighed"
            );
            if !(throughput.is_finite() && throughput > 0.0) {
                return Err(EngineError::Elsewhere {
                    host: host.to_owned(),
                    why: "what it can drive could not be measured: deal the load evenly".to_owned(),
                });
            }
            weights[place] = throughput;
        }
        *self.weights() = weights;
        Ok(())
    }

    /// The ceilings of those that have a part of a load.
    fn calibrated(
        &self,
        spec: &StepSpec,
        typical: Typical,
        measure: Nanos,
    ) -> Result<Vec<Ceiling>, EngineError> {
        let dealt = self.dealt(spec);
        thread::scope(|scope| {
            let measuring: Vec<_> = dealt
                .iter()
                .map(|(host, spec, _)| {
                    scope.spawn(|| {
                        let ceiling = host.calibrate(spec, typical, None, measure)?;
                        let host = Some(name_of(&***host).to_owned());
                        Ok(Ceiling { host, ..ceiling })
                    })
                })
                .collect();
            let each = measuring.into_iter().map(|thread| match thread.join() {
                Ok(ceiling) => ceiling,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            each.collect()
        })
    }

    /// How many workers each of these hosts has of a load, by its processors.
    fn workers_on(&self, load: &Load, processors: &[Vec<u32>]) -> Vec<u32> {
        let counts: Vec<usize> = processors.iter().map(Vec::len).collect();
        let all = self.hosts.iter().map(|host| self.cpus_of(&**host).len());
        deal::workers(load.workers, all.sum(), &counts)
    }

    /// What each host has of a step, and its part of the whole. Those for which nothing is left rest.
    fn dealt(&self, spec: &StepSpec) -> Vec<(&Arc<dyn ClientHost>, StepSpec, f64)> {
        let (hosts, weights) = self.having(&spec.load);
        let processors = hosts.iter().map(|(_, host)| self.cpus_of(&***host));
        let processors: Vec<Vec<u32>> = processors.collect();
        let workers = self.workers_on(&spec.load, &processors);
        let parts = deal::parts(spec, &weights);
        let dealt = deal::dealt(&parts);
        let parts = parts.into_iter().zip(dealt);
        let each = parts.zip(hosts).zip(processors.into_iter().zip(workers));
        each.map(|(((mut part, dealt), (place, host)), (cpus, workers))| {
            (part.cpus, part.load.workers) = (cpus, workers);
            part.under_quota |= self.is_under_quota(place, workers);
            (host, part, dealt)
        })
        .collect()
    }
}

fn name_of(host: &dyn ClientHost) -> &str {
    host.name().unwrap_or("this host")
}

/// Several names as one.
fn named(names: &[&str]) -> String {
    match names {
        [one] => (*one).to_owned(),
        [all @ .., last] if names.len() <= NAMED_MAX => format!("{} and {last}", all.join(", ")),
        [first, ..] => format!("{first} and {} more", names.len() - 1),
        [] => String::new(),
    }
}

impl Host for Fleet {
    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }

    /// Once one is lost a run goes no further, but where those that are left take its part over.
    fn lost(&self) -> Option<HostError> {
        let lost = self.lost_hosts();
        let all: Vec<(&str, &str)> = self
            .hosts
            .iter()
            .zip(lost.iter())
            .filter_map(|(host, why)| Some((name_of(&**host), why.as_deref()?)))
            .collect();
        let (first, why) = *all.first()?;
        let goes_on = self.on_lost == OnLostClient::Rebalance && all.len() < self.hosts.len();
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        (!goes_on).then(|| HostError {
            host: match all.len() {
                1 => first.to_owned(),
                _ => named(&names),
            },
            why: why.to_owned(),
        })
    }

    fn sampler(&self, setup: Setup) -> Result<Box<dyn Sampling>, String> {
        let left = self.left();
        let each = at_once(&left, |(nth, host)| {
            let paced = setup.paced_cpus.as_ref();
            let cpus = self.cpus_of(&***host);
            host.sampler(Setup {
                pin: cpus.first().copied(),
                under_quota: setup.under_quota || self.is_under_quota(*nth, cpus.len() as u32),
                paced_cpus: paced.map(|_| [Vec::new(), cpus]),
                ..setup.clone()
            })
        });
        let each = each.into_iter().collect::<Result<_, _>>()?;
        let names = left.iter().map(|(_, host)| name_of(&***host).to_owned());
        Ok(several::sampled(
            each,
            merged_telemetry,
            |_| None,
            names.collect(),
        ))
    }

    fn pace(&self, _: Vec<u32>) -> PaceOf {
        let each = self.left().into_iter();
        let each: Vec<PaceOf> = each
            .map(|(_, host)| host.pace(self.cpus_of(&**host)))
            .collect();
        Box::new(move |from_ns, to_ns| mean(each.iter().filter_map(|pace| pace(from_ns, to_ns))))
    }

    fn levers(&self, own: Own) -> Reach {
        let reaches = at_once(self.left(), |(_, host)| {
            let reach = host.levers(Own {
                side: Side {
                    cpus: self.cpus_of(&**host),
                    ..Side::default()
                },
                seed: own.seed,
                ..Own::default()
            });
            (name_of(&**host).to_owned(), reach)
        });
        several::together(reaches)
    }

    fn neighbours(&self, _: &[u32], known: &[u32], cores_min: f64) -> Vec<Neighbour> {
        let each = at_once(self.left(), |(_, host)| {
            let of = host.neighbours(&self.cpus_of(&**host), known, cores_min);
            let of = of.into_iter().map(|neighbour| Neighbour {
                name: format!("{} of {}", neighbour.name, name_of(&**host)),
                ..neighbour
            });
            of.collect::<Vec<_>>()
        });
        each.into_iter().flatten().collect()
    }
}

impl ClientHost for Fleet {
    fn family(&self) -> Option<Family> {
        None
    }

    fn processors(&self) -> Vec<u32> {
        let each = self.hosts.iter();
        each.flat_map(|host| self.cpus_of(&**host)).collect()
    }

    /// Those of the first; a quota is that of all, where each has one.
    fn facts(&self) -> Environment {
        let quotas = self.facts.iter().map(|of| of.cgroup_quota_cores);
        let quotas: Option<Vec<f64>> = quotas.collect();
        Environment {
            cgroup_quota_cores: quotas.map(|quotas| quotas.iter().sum()),
            ..self.facts.first().cloned().unwrap_or_default()
        }
    }

    fn fits(&self, load: &Load) -> Result<(), String> {
        self.hosts.iter().try_for_each(|host| host.fits(load))
    }

    fn may_stand_by(&self, load: &Load, more: u32) -> Result<(), String> {
        let (hosts, weights) = self.having(load);
        let each = hosts
            .into_iter()
            .zip(deal::with_standby(load.connections, more, &weights));
        let each = at_once(each, |((_, host), (own, more))| {
            let part = Load {
                connections: own,
                ..load.clone()
            };
            host.may_stand_by(&part, more)
        });
        each.into_iter().collect()
    }

    fn is_reached(&self) -> bool {
        self.left().iter().all(|(_, host)| host.is_reached())
    }

    fn kept(&self) {
        // Each may have to be reached again.
        at_once(&self.hosts, |host| host.kept());
    }

    fn parts(&self, load: &Load) -> Vec<(String, f64)> {
        let (hosts, weights) = self.having(load);
        let whole: f64 = weights.iter().sum();
        let each = hosts.iter().zip(weights);
        each.map(|((_, host), own)| (name_of(&***host).to_owned(), own / whole))
            .collect()
    }

    fn members(&self, load: &Load) -> Vec<(String, f64)> {
        let (hosts, _) = self.having(load);
        let processors = hosts.iter().map(|(_, host)| self.cpus_of(&***host));
        let workers = self.workers_on(load, &processors.collect::<Vec<_>>());
        let each = hosts.iter().zip(workers).map(|((place, host), workers)| {
            let workers = f64::from(workers);
            let quota = self.facts[*place].cgroup_quota_cores;
            let cores = quota.map_or(workers, |cores| cores.min(workers));
            (name_of(&***host).to_owned(), cores)
        });
        each.collect()
    }

    fn lost_members(&self) -> Vec<String> {
        let lost = self.lost_hosts();
        let each = self.hosts.iter().zip(lost.iter());
        let lost = each.filter(|(_, lost)| lost.is_some());
        lost.map(|(host, _)| name_of(&**host).to_owned()).collect()
    }

    /// None where one is not known, for what is told of the others would be of them alone.
    fn addresses(&self) -> Vec<IpAddr> {
        let each: Vec<Vec<IpAddr>> = self.hosts.iter().map(|host| host.addresses()).collect();
        match each.iter().any(Vec::is_empty) {
            true => Vec::new(),
            false => each.concat(),
        }
    }

    fn drive(
        &self,
        spec: &StepSpec,
        signals: &Arc<Signals>,
        observe: &mut Observer<'_>,
    ) -> Result<Measured, EngineError> {
        self.weigh(spec)?;
        let dealt = self.dealt(spec);
        let (tell, told) = channel();
        thread::scope(|scope| {
            let members = dealt.iter().enumerate().map(|(nth, (host, spec, part))| {
                let host: &dyn ClientHost = &***host;
                Member::begin(scope, (nth, host, spec, *part), tell.clone())
            });
            let mut begun = Vec::new();
            for member in members {
                match member {
                    Ok(member) => begun.push(member),
                    Err(error) => {
                        // Nobody conducts those that have begun.
                        begun
                            .iter_mut()
                            .for_each(|member: &mut Member<'_>| member.end(true));
                        return Err(error);
                    }
                }
            }
            let members = begun;
            drop(tell);
            let driving = Driving {
                fleet: self,
                spec,
                signals,
                intervals: Intervals::of(members.len()),
                windows: Windows::default(),
                members,
                told_intervals: Vec::new(),
                zero_ns: 0,
                version: signals.levers.version(),
                is_followed: true,
                closing_since: None,
                edges_told: [false; 2],
                ends_by_itself: ends_by_itself(&spec.load, &spec.request),
                fault: None,
            };
            driving.run(&told, observe)
        })
    }

    fn calibrate(
        &self,
        spec: &StepSpec,
        typical: Typical,
        _: Option<u32>,
        measure: Nanos,
    ) -> Result<Ceiling, EngineError> {
        Ok(merge::ceilings(self.calibrated(spec, typical, measure)?))
    }
}

/// What is heard of one host's load.
enum Said {
    Progress(Progress),
    Ended(Box<Result<Measured, EngineError>>),
}

/// A host while it makes its part of a load.
struct Member<'f> {
    host: &'f dyn ClientHost,
    spec: &'f StepSpec,
    /// Its part of the load, 0..1.
    dealt: f64,
    signals: Arc<Signals>,
    /// Lets it go on where it waits; `None`: it waits for nobody any more.
    proceed: Option<Sender<()>>,
    is_ready: bool,
    /// Edges of the window that it has told of.
    edges: [bool; 2],
    heard: Heard,
    ended: Option<Measured>,
    lost: Option<String>,
}

impl<'f> Member<'f> {
    /// Begins its part in a thread of its own, which waits where the load of one host would wait for its conductor.
    fn begin<'scope>(
        scope: &'scope Scope<'scope, '_>,
        (nth, host, spec, dealt): (usize, &'f dyn ClientHost, &'f StepSpec, f64),
        tell: Sender<(usize, Said)>,
    ) -> Result<Member<'f>, EngineError>
    where
        'f: 'scope,
    {
        let signals = Arc::new(Signals::default());
        let of_thread = Arc::clone(&signals);
        let (proceed, waits) = channel::<()>();
        let thread = thread::Builder::new().name("wf-client-host".to_owned());
        let started = thread.spawn_scoped(scope, move || {
            let mut hear = |progress: Progress| {
                let is_waited_for =
                    matches!(progress, Progress::Ready | Progress::Edge(Edge::Close));
                let is_heard = tell.send((nth, Said::Progress(progress))).is_ok();
                if is_heard && is_waited_for {
                    // The end of the other side lets it go on as well.
                    let _ = waits.recv();
                }
            };
            let ended = host.drive(spec, &of_thread, &mut hear);
            let _ = tell.send((nth, Said::Ended(Box::new(ended))));
        });
        started.map_err(|error| EngineError::Refused {
            what: "a thread for a client host",
            why: error.to_string(),
        })?;
        Ok(Member {
            host,
            spec,
            dealt,
            signals,
            proceed: Some(proceed),
            is_ready: false,
            edges: [false; 2],
            heard: Heard::of(spec.load.warmup.0),
            ended: None,
            lost: None,
        })
    }

    /// Whether nothing more is heard of it.
    fn is_over(&self) -> bool {
        self.ended.is_some() || self.lost.is_some()
    }

    fn go_on(&self) {
        // One that has ended waits for nothing.
        if let Some(proceed) = &self.proceed {
            let _ = proceed.send(());
        }
    }

    fn end(&mut self, abort: bool) {
        self.signals.stop.store(true, Ordering::Relaxed);
        self.signals.abort.fetch_or(abort, Ordering::Relaxed);
    }
}

/// A load of several hosts under way.
struct Driving<'d, 'f> {
    fleet: &'f Fleet,
    spec: &'d StepSpec,
    signals: &'d Signals,
    members: Vec<Member<'f>>,
    intervals: Intervals,
    windows: Windows,
    told_intervals: Vec<Interval>,
    /// The agreed start; 0: there is none yet.
    zero_ns: u64,
    /// Of the levers' setting that was passed on last.
    version: u32,
    /// Whether it was told that all follow it.
    is_followed: bool,
    /// Since when some host's window is over.
    closing_since: Option<Instant>,
    edges_told: [bool; 2],
    /// Whether hosts end apart, each when its part is done.
    ends_by_itself: bool,
    /// Why all of it ends, where it does.
    fault: Option<EngineError>,
}

impl Driving<'_, '_> {
    fn run(
        mut self,
        told: &Receiver<(usize, Said)>,
        observe: &mut Observer<'_>,
    ) -> Result<Measured, EngineError> {
        let mut looked = Instant::now();
        loop {
            match told.recv_timeout(LOOK_EVERY) {
                Ok((nth, said)) => self.hear(nth, said, observe),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.pass_on();
            if looked.elapsed() >= LOST_LOOK_EVERY {
                looked = Instant::now();
                self.look_for_lost();
            }
            self.begin(observe);
            self.pass_edges(observe);
        }
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        for nth in 0..self.members.len() {
            self.intervals.end(nth);
        }
        self.tell_intervals(observe);
        self.intervals.rest(&mut self.told_intervals);
        Ok(self.concluded())
    }

    fn hear(&mut self, nth: usize, said: Said, observe: &mut Observer<'_>) {
        match said {
            Said::Progress(Progress::Ready) => self.members[nth].is_ready = true,
            // By what was agreed on; how far off it was is known at the end.
            Said::Progress(Progress::Starts { .. }) => {}
            Said::Progress(Progress::Interval { interval, latency }) => {
                self.members[nth].heard.add(&interval, latency.as_deref());
                self.intervals.add(nth, interval, latency);
                self.tell_intervals(observe);
            }
            Said::Progress(Progress::Window(window)) => {
                if let Some(whole) = self.windows.add(window, self.members.len()) {
                    observe(Progress::Window(whole));
                }
            }
            Said::Progress(Progress::Edge(edge)) => {
                if let Some(place) = EDGES.iter().position(|known| *known == edge) {
                    self.members[nth].edges[place] = true;
                }
                if edge == Edge::Close {
                    self.closing_since.get_or_insert_with(Instant::now);
                    if self.ends_by_itself {
                        self.members[nth].go_on();
                    }
                }
            }
            Said::Ended(ended) => self.ended(nth, *ended),
        }
    }

    fn tell_intervals(&mut self, observe: &mut Observer<'_>) {
        while let Some(interval) = self.intervals.next() {
            self.told_intervals.push(interval.clone());
            observe(Progress::Interval {
                interval,
                latency: None,
            });
        }
    }

    fn ended(&mut self, nth: usize, ended: Result<Measured, EngineError>) {
        self.intervals.end(nth);
        self.members[nth].proceed = None;
        match ended {
            Ok(measured) => self.members[nth].ended = Some(measured),
            Err(error) => match self.members[nth].host.lost() {
                Some(lost) => self.lose(nth, lost.why),
                // It is there, and does not do what it did: its lease was over, say.
                None if self.zero_ns != 0 => self.lose(nth, why_of(error)),
                None => self.give_up(of_host(self.members[nth].host, error)),
            },
        }
    }

    /// All of it ends at once.
    fn give_up(&mut self, fault: EngineError) {
        self.fault.get_or_insert(fault);
        for member in &mut self.members {
            member.end(true);
            member.proceed = None;
        }
    }

    fn lose(&mut self, nth: usize, why: String) {
        let member = &mut self.members[nth];
        if member.lost.is_some() {
            return;
        }
        tracing::warn!(host = name_of(member.host), %why, "a client host is lost");
        member.lost = Some(why.clone());
        member.proceed = None;
        let fault = EngineError::Elsewhere {
            host: name_of(member.host).to_owned(),
            why: why.clone(),
        };
        self.fleet.lose(member.host, &why);
        self.intervals.end(nth);
        let are_all_lost = self.members.iter().all(|member| member.lost.is_some());
        // What follows levers is compared with what did so before, when there were more.
        let is_steered = self.signals.levers.version() != 0;
        let has_begun = self.zero_ns != 0;
        if self.fleet.on_lost == OnLostClient::Abort || is_steered || !has_begun || are_all_lost {
            self.give_up(fault);
        }
    }

    /// One that waits to go on does not notice that its host is gone.
    fn look_for_lost(&mut self) {
        for nth in 0..self.members.len() {
            let member = &self.members[nth];
            if !member.is_over()
                && let Some(lost) = member.host.lost()
            {
                self.lose(nth, lost.why);
            }
        }
    }

    /// What changes here.
    fn pass_on(&mut self) {
        let stop = self.signals.stop.load(Ordering::Relaxed);
        let abort = self.signals.abort.load(Ordering::Relaxed);
        if stop || abort {
            for member in &mut self.members {
                member.end(abort);
                if abort || self.zero_ns == 0 {
                    member.proceed = None;
                }
            }
        }
        let (version, setting) = self.signals.levers.setting();
        if version != self.version {
            self.version = version;
            self.is_followed = false;
            for (member, setting) in self.members.iter().zip(self.settings(setting)) {
                member.signals.levers.set(setting);
            }
        }
        let follows = |member: &Member<'_>| {
            let workers = workers_of(&member.spec.load);
            member.signals.levers.are_followed_by(workers)
        };
        if !self.is_followed && self.members.iter().all(follows) {
            self.is_followed = true;
            let workers = workers_of(&self.spec.load);
            self.signals.levers.followed_elsewhere(version, workers);
        }
    }

    /// What each host is to do of a setting of all.
    fn settings(&self, setting: LeverSetting) -> Vec<LeverSetting> {
        let loads = self.members.iter().map(|member| &member.spec.load);
        let connections: Vec<u32> = loads.clone().map(|load| load.connections).collect();
        let bounds: Option<Vec<u32>> = loads.map(|load| load.max_in_flight).collect();
        if let Clients::Rest { first, hosts } = setting.clients {
            let turns = deal::turns((first, hosts), &connections, bounds.as_deref());
            let of = |clients| LeverSetting { clients, ..setting };
            return turns.into_iter().map(of).collect();
        }
        match places_left(&self.spec.load, setting.in_flight) {
            Some(places) => deal::places(setting, places, &bounds.unwrap_or(connections)),
            None => vec![setting; self.members.len()],
        }
    }

    /// When all are ready they begin, at one instant.
    fn begin(&mut self, observe: &mut Observer<'_>) {
        let is_waiting = self.zero_ns == 0 && self.fault.is_none();
        if !is_waiting || !self.members.iter().all(|member| member.is_ready) {
            return;
        }
        observe(Progress::Ready);
        let trips = self
            .members
            .iter()
            .map(|member| member.host.clock().round_trip_ns);
        let ahead_ns = AHEAD.as_nanos() as u64 + AHEAD_ROUND_TRIPS * trips.max().unwrap_or(0);
        self.zero_ns = clock::monotonic_ns() + ahead_ns;
        for member in &self.members {
            member
                .signals
                .begin_ns
                .store(self.zero_ns, Ordering::Release);
            member.go_on();
        }
        observe(Progress::Starts {
            zero_ns: self.zero_ns,
        });
    }

    /// An edge is told when all have told of it, or when the others would wait too long.
    fn pass_edges(&mut self, observe: &mut Observer<'_>) {
        let waited = self.closing_since.map(|since| since.elapsed());
        for (place, edge) in EDGES.into_iter().enumerate() {
            let mut members = self.members.iter();
            let is_late = edge == Edge::Close
                && !self.ends_by_itself
                && waited.is_some_and(|waited| waited > CLOSE_WAIT_MAX);
            let is_everywhere = members.all(|member| member.edges[place] || member.is_over());
            let is_somewhere = self.members.iter().any(|member| member.edges[place]);
            if self.edges_told[place] || !is_somewhere || !(is_everywhere || is_late) {
                continue;
            }
            self.edges_told[place] = true;
            observe(Progress::Edge(edge));
            if edge == Edge::Close {
                for member in &mut self.members {
                    // Also those whose window ends later.
                    member.go_on();
                }
            }
        }
    }

    fn concluded(self) -> Measured {
        let window_ns = self.spec.load.stop.after.0;
        let is_cut = self.signals.stop.load(Ordering::Relaxed);
        let ends_by_itself = self.ends_by_itself;
        let whole = self
            .members
            .iter()
            .filter_map(|member| member.ended.as_ref());
        let longest = whole.map(|of| of.window_to_ns - of.window_from_ns).max();
        let longest = longest.unwrap_or(window_ns);
        let parts = self.members.into_iter().map(|member| {
            let lost = member.lost.map(|why| LostClient {
                why,
                heard_ns: member.heard.heard_ns(),
            });
            let (measured, lost) = match member.ended {
                // What it measured came in the end, whatever was thought of it.
                Some(measured) => {
                    let is_whole =
                        is_cut || ends_by_itself || lasted(&self.spec.load, measured.window_to_ns);
                    let early = || LostClient {
                        why: "its load ended early: its controller was not heard for a while"
                            .to_owned(),
                        heard_ns: measured.window_to_ns,
                    };
                    let lost = (!is_whole).then(|| lost.unwrap_or_else(early));
                    (measured, lost)
                }
                None => (member.heard.measured(longest), lost),
            };
            Part {
                host: name_of(member.host).to_owned(),
                connections: member.spec.load.connections,
                dealt: member.dealt,
                workers: measured.workers.len() as u32,
                clock_error_ns: member.host.clock().error_ns,
                measured,
                lost,
            }
        });
        merge::merged(parts.collect(), self.told_intervals, self.zero_ns)
    }
}

/// Whether a window that ended there, from zero, lasted to its planned end. One that only began late, on a host that was
/// busy, did.
fn lasted(load: &Load, window_to_ns: u64) -> bool {
    let window_ns = load.stop.after.0;
    let end_ns = load.warmup.0.saturating_add(window_ns);
    let short_ns = end_ns.saturating_sub(window_to_ns);
    short_ns as f64 <= SHORT_MAX * window_ns as f64
}

fn why_of(error: EngineError) -> String {
    match error {
        EngineError::Elsewhere { why, .. } => why,
        error => error.to_string(),
    }
}

/// An error, with the host that it is of.
fn of_host(host: &dyn ClientHost, error: EngineError) -> EngineError {
    match error {
        // It says so by itself.
        EngineError::Elsewhere { .. } => error,
        error => EngineError::Elsewhere {
            host: name_of(host).to_owned(),
            why: error.to_string(),
        },
    }
}

/// What several client hosts saw, as one; those that saw nothing are left out.
fn merged_telemetry(mut each: Vec<Telemetry>) -> Telemetry {
    each.retain(|of| of.window_ns > 0);
    for of in &mut each {
        several::keep_own_cores(of, |of| of.client.as_ref());
    }
    let hosts = each.iter().filter_map(|of| {
        Some(ClientHostSummary {
            host: HostSummary {
                cores: of.cores.clone(),
                ..of.client_host.clone()?
            },
            client: of.client.clone(),
            link: of.link.clone(),
        })
    });
    let client_hosts: Vec<ClientHostSummary> = hosts.collect();
    let names: Vec<&str> = client_hosts
        .iter()
        .map(|of| of.host.name.as_str())
        .collect();
    let host = HostSummary {
        name: named(&names),
        cores: Vec::new(),
        // Each has its own.
        clock_offset_ns: None,
        clock_error_ns: client_hosts
            .iter()
            .filter_map(|of| of.host.clock_error_ns)
            .max(),
        round_trip_ns: client_hosts
            .iter()
            .filter_map(|of| of.host.round_trip_ns)
            .max(),
        observer_cpu_ns: client_hosts.iter().map(|of| of.host.observer_cpu_ns).sum(),
    };
    let paces = mean(each.iter().filter_map(|of| of.client_reference_ns));
    let mut each = each.into_iter();
    let Some(mut all) = each.next() else {
        return Telemetry::default();
    };
    for mut of in each {
        several::add_host(&mut all, &mut of);
        all.client = both(all.client.take(), of.client, families);
        all.client_sockets = both(all.client_sockets.take(), of.client_sockets, sockets);
    }
    all.client_reference_ns = paces;
    all.client_host = Some(host);
    all.client_hosts = client_hosts;
    all
}

#[cfg(test)]
mod tests;
