//! The agent: does for its host what a controller asks, as long as it is asked.
//!
//! ```text
//!  input ─► reader thread ─► control thread: Terms::admit ─► do it ─► Reply ─► output
//!                                  │ four times a second
//!                                  └─ is the lease over? ─► levers down, next epoch
//! ```
//!
//! While the bytes of a long message pass, either way, the controller is there, and the lease holds.
//!
//! What takes its time, such as a load, has a thread of its own ([`tasks`]), which goes before nobody. The control
//! thread goes before others, for the processors that it runs on may be full. An agent's end, whatever ends it, is the
//! end of all that it put up: by dropping it, by the kernel with its processes, by the keeper (which also ends an agent
//! that was stopped while it held levers), or at the next start.

mod kept;
mod results;
mod tasks;
mod telling;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::thread;
use std::time::Duration;

use wallfinder_engine::precheck;
use wallfinder_model::Load;
use wallfinder_model::experiment::Squeeze;
use wallfinder_probe::discover::family_of_self;
use wallfinder_probe::environment::interface_towards;
use wallfinder_probe::fingerprint;
use wallfinder_probe::sample::Setup;
use wallfinder_probe::stacks::Sampled;
use wallfinder_probe::waits::Waited;
use wallfinder_protocol::{
    Answer, Ask, Check, Family, Found, Frames, GREETING, Grant, LEASE, LeverAt, LeversOrder, News,
    Refusal, Request, Role, Side as AskedSide, Stacks, Terms, VERSION, WayOut, Welcome,
};
use wallfinder_sys::{clock, process};
use wallfinder_testbed::child::{RunAs, Shim, extend_lease, hold_lease};
use wallfinder_testbed::lab::{self, Flows, Shaper};
use wallfinder_testbed::squeeze::{Lever, Side};
use wallfinder_testbed::subject::SubjectSpec;
use wallfinder_testbed::undo::SqueezeLock;

use crate::apart::towards;
use crate::channel::PATIENCE_LONG;
use crate::here::{self, Here};
use crate::load::own_address;
use crate::partial::Partial;
use crate::{Backend, Host, Joint, Own, PaceOf, Sampling, ServerHost, Taking};
pub use results::Results;
use tasks::{Output, Tasks};
pub use telling::told_every;

/// How often the lease is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The same while workers are waited for that are to follow a lever.
const LOOK_EVERY_STEERED: Duration = Duration::from_millis(2);
/// How often the lease is extended while an order is carried out.
const EXTEND_EVERY: Duration = Duration::from_secs(1);
/// Without a word for so long there is no controller any more.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Ticks of telemetry in one message.
const SAMPLES_MAX: usize = 1_000;
/// How long waits are watched.
const WAITS_FOR: Duration = Duration::from_secs(1);
/// How long a server may take to listen.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(30);
/// Requests that wait while one is carried out.
const WAITING_MAX: usize = 64;
const READ_BYTES: usize = 64 << 10;

/// Hears what an agent was asked, for its host's log.
pub trait Log {
    /// One line.
    fn line(&mut self, text: &str);
}

/// What an agent does for who asks, by its host's own word.
pub struct Permits {
    /// What it may be asked for.
    pub grants: Vec<Grant>,
    /// Whether a load may go to an address; else why not.
    pub may_load: Box<dyn Fn(SocketAddr) -> Result<(), String> + Send>,
    /// Commands of servers that it may start, by the names that a controller calls them by.
    pub subjects: BTreeMap<String, String>,
    /// Where results of loads are kept until their controller has them on disk; `None`: they are told once.
    pub results: Option<Results>,
    /// What is left of its loads' speed, above 0 and at most 1; see [`wallfinder_engine::StepSpec::speed`].
    pub speed: f64,
}

impl Permits {
    /// These grants, and loads wherever a controller wants.
    pub fn of(grants: impl IntoIterator<Item = Grant>) -> Permits {
        Permits {
            grants: grants.into_iter().collect(),
            may_load: Box::new(|_| Ok(())),
            subjects: BTreeMap::new(),
            results: None,
            speed: 1.0,
        }
    }
}

/// Answers on `output` what is asked on `input`, until that ends.
pub fn serve(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    permits: Permits,
    log: &mut dyn Log,
) -> Result<(), String> {
    let output = Output::of(output);
    let tasks = Tasks::start(output.clone(), permits.results.clone(), permits.speed)?;
    let mut agent = Agent::new(permits, tasks);
    process::go_first();
    output.bytes(GREETING)?;
    let (tell, asked) = sync_channel(WAITING_MAX);
    let order = Arc::<UnderWay>::default();
    let partial = Arc::<Partial>::default();
    let (of_reader, coming) = (Arc::clone(&order), Arc::clone(&partial));
    thread::spawn(move || {
        listen(input, &coming, |request| tell.send(request).is_ok());
        of_reader.is_over.store(true, Ordering::Relaxed);
    });
    let (of_lease, going) = (Arc::clone(&order), output.clone());
    let (_end, ended) = channel();
    thread::spawn(move || extend(&of_lease, &going, &ended));
    let mut heard_ns = clock::boottime_ns();
    loop {
        hold_lease(agent.squeezes().then_some(LEASE));
        let request = asked.recv_timeout(match agent.tasks.is_steered() {
            true => LOOK_EVERY_STEERED,
            false => LOOK_EVERY,
        });
        let now_ns = clock::boottime_ns();
        if !agent.tasks.is_busy() {
            agent.terms.load_ended();
        }
        if ends_lease(&mut agent.terms, &partial, &mut heard_ns, now_ns) {
            log.line("the lease is over: all squeezes are undone, and a load ends");
            agent.release();
            agent.unshape();
            agent.tasks.end_all();
        }
        if let Some(version) = agent.tasks.followed() {
            output.news(News::Followed { version });
        }
        let request = match request {
            Ok(Ok(request)) => request,
            Ok(Err(why)) => return Err(why),
            Err(RecvTimeoutError::Timeout) => {
                if Duration::from_nanos(now_ns.saturating_sub(heard_ns)) > SILENCE_MAX {
                    return Err(format!("nothing was asked for {SILENCE_MAX:?}"));
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let admitted = agent.terms.admit(now_ns, &request);
        if is_told(&request.ask) {
            log.line(&told(&request.ask, admitted.as_ref().err()));
        }
        order.since_ns.store(now_ns, Ordering::Relaxed);
        let answer = admitted.and_then(|()| agent.carry_out(request.number, request.ask));
        order.since_ns.store(0, Ordering::Relaxed);
        // A load is answered when it has ended.
        if let Some(answer) = answer.transpose() {
            output.reply(request.number, answer)?;
        }
        // It may have taken its time, and its answer have stood behind a long one.
        heard_ns = clock::boottime_ns();
        agent.terms.renew(heard_ns);
    }
}

/// Whether the lease is over; see [`Terms::end_lease`]. It holds while a long order comes, for its controller is there:
/// what came before its end begins it anew.
fn ends_lease(terms: &mut Terms, partial: &Partial, heard_ns: &mut u64, now_ns: u64) -> bool {
    if let Some(at_ns) = partial.passed_after(*heard_ns) {
        if terms.end_lease(at_ns) {
            return true;
        }
        *heard_ns = at_ns;
        terms.renew(at_ns);
    }
    terms.end_lease(now_ns)
}

fn listen(
    mut input: impl Read,
    partial: &Partial,
    mut tell: impl FnMut(Result<Request, String>) -> bool,
) {
    let mut frames = Frames::default();
    let mut bytes = vec![0; READ_BYTES];
    loop {
        match frames.take::<Request>() {
            Ok(Some(request)) => {
                partial.ended();
                if !tell(Ok(request)) {
                    return;
                }
            }
            Ok(None) => match input.read(&mut bytes) {
                Ok(0) => return,
                Ok(read) => {
                    partial.passed(clock::boottime_ns());
                    frames.push(&bytes[..read]);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            },
            Err(error) => {
                tell(Err(error.to_string()));
                return;
            }
        }
    }
}

/// The order that is carried out now.
#[derive(Default)]
struct UnderWay {
    /// Since when, by the clock that goes on while a machine sleeps; 0: there is none.
    since_ns: AtomicU64,
    /// Nobody asks any more.
    is_over: AtomicBool,
}

impl UnderWay {
    /// Whether there is one that its controller still waits for.
    fn is_awaited(&self, now_ns: u64) -> bool {
        let since_ns = self.since_ns.load(Ordering::Relaxed);
        let took = Duration::from_nanos(now_ns.saturating_sub(since_ns));
        since_ns > 0 && took < PATIENCE_LONG && !self.is_over.load(Ordering::Relaxed)
    }
}

/// Extends the lease while an order is carried out, which may take longer, and while an answer may stand behind a long one
/// that its controller reads. An agent that was stopped extends nothing.
fn extend(order: &UnderWay, output: &Output, ended: &Receiver<()>) {
    while ended.recv_timeout(EXTEND_EVERY) == Err(RecvTimeoutError::Timeout) {
        let now_ns = clock::boottime_ns();
        let lately_ns = now_ns.saturating_sub(EXTEND_EVERY.as_nanos() as u64);
        if order.is_awaited(now_ns) {
            extend_lease(LEASE);
        } else if let Some(taken_ns) = output.taken_after(lately_ns) {
            let since = Duration::from_nanos(now_ns.saturating_sub(taken_ns));
            extend_lease(LEASE.saturating_sub(since));
        }
    }
}

/// Whether an ask is of those that a host's log is kept for. The others come many times a second.
fn is_told(ask: &Ask) -> bool {
    !matches!(
        ask,
        Ask::Clock
            | Ask::Renew
            | Ask::Mark { .. }
            | Ask::Summarise { .. }
            | Ask::Samples { .. }
            | Ask::PaceWithin { .. }
            | Ask::BeginWindow
            | Ask::EndWindow
            | Ask::Steer { .. }
            | Ask::FillIn { .. }
            | Ask::Fetch { .. }
    )
}

fn told(ask: &Ask, refused: Option<&Refusal>) -> String {
    let ask = format!("{ask:?}");
    match refused {
        Some(why) => format!("refused: {ask}: {why}"),
        None => ask,
    }
}

/// What an agent has of its host.
struct Agent {
    terms: Terms,
    permits: Permits,
    controller: String,
    server: Here,
    sampler: Option<Box<dyn Sampling>>,
    series: Option<Joint>,
    pace: Option<PaceOf>,
    levers: Vec<Box<dyn Lever>>,
    /// The rate at which the load's flows leave, where it was asked for; levers take it for a while.
    shape: Option<WayOut>,
    shaped: Option<Shaper>,
    lock: Option<SqueezeLock>,
    running: Option<Box<dyn Taking<Sampled>>>,
    waiting: Option<Box<dyn Taking<Waited>>>,
    /// The last: to end it may take its time, and levers go down before.
    tasks: Tasks,
}

impl Agent {
    fn new(permits: Permits, tasks: Tasks) -> Agent {
        Agent {
            terms: Terms::new(permits.grants.iter().copied()),
            permits,
            controller: String::new(),
            tasks,
            server: Here::default(),
            sampler: None,
            series: None,
            pace: None,
            levers: Vec::new(),
            shape: None,
            shaped: None,
            lock: None,
            running: None,
            waiting: None,
        }
    }

    /// Does what is asked; `None`: it is answered later.
    fn carry_out(&mut self, number: u64, ask: Ask) -> Result<Option<Answer>, Refusal> {
        Ok(Some(match ask {
            Ask::Hello(hello) => {
                self.controller = hello.controller;
                Answer::Welcome(self.welcome())
            }
            Ask::Clock => Answer::Clock {
                monotonic_ns: clock::monotonic_ns(),
            },
            Ask::Renew => Answer::Renewed {
                monotonic_ns: clock::monotonic_ns(),
                sample: self
                    .sampler
                    .as_ref()
                    .and_then(|sampler| sampler.latest())
                    .map(Box::new),
            },
            Ask::Facts { peer } => Answer::Facts(Box::new(fingerprint(peer.map(towards)))),
            Ask::Find { address, named } => {
                let family = here::named(address, &named).map_err(failed)?;
                let found = found(&family);
                self.server = Here::of(Some(family));
                Answer::Found(found)
            }
            Ask::Times => Answer::Times(self.server.times()),
            Ask::Behind => {
                let behind = self.server.behind().into_iter();
                let families = behind.map(|Backend { name, pids }| Family { name, pids });
                Answer::Families(families.collect())
            }
            Ask::Asked => Answer::Addresses(self.server.asked()),
            Ask::Neighbours {
                cpus,
                known,
                cores_min,
            } => Answer::Neighbours(self.server.neighbours(&cpus, &known, cores_min)),
            Ask::Fits {
                connections,
                address,
            } => {
                precheck::check(&Load::closed(connections), &address).map_err(failed)?;
                Answer::Done
            }
            Ask::Route { to } => Answer::Route {
                own: own_address(to),
                interface: interface_towards(to).map(|interface| interface.name),
            },
            Ask::Watch {
                role,
                tick_ns,
                peer,
                port,
                pin,
                under_quota,
                paced,
            } => {
                let interface = peer.and_then(|peer| interface_towards(towards(peer)));
                let setup = Setup {
                    zero_ns: clock::monotonic_ns(),
                    tick: Duration::from_nanos(tick_ns),
                    interface: interface.map(|interface| interface.name),
                    port,
                    pin,
                    under_quota,
                    marks_only: tick_ns == 0,
                    ..Setup::default()
                };
                self.watch(role, paced, setup)?
            }
            Ask::CountFrom { zero_ns } => {
                let sampler = self.sampler.as_mut();
                let sampler = sampler.ok_or_else(|| failed("nothing is watched"))?;
                Answer::Later {
                    ns: sampler.count_from(zero_ns),
                }
            }
            Ask::Mark { name } => {
                let sampler = self
                    .sampler
                    .as_mut()
                    .ok_or_else(|| failed("nothing is watched"))?;
                Answer::Marked {
                    at_ns: sampler.mark(&name),
                }
            }
            Ask::FindAgain => {
                if let Some(sampler) = &self.sampler {
                    sampler.find_server_again();
                }
                Answer::Done
            }
            Ask::Summarise { spans } => {
                let of = |(from, to): &(i64, i64)| match (&self.sampler, &self.series) {
                    (Some(sampler), _) => Some(sampler.summarise(*from, *to)),
                    (None, Some(series)) => Some(series.summarise(*from, *to)),
                    (None, None) => None,
                };
                Answer::Telemetry(spans.iter().filter_map(of).collect())
            }
            Ask::Unwatch => {
                self.series = self.sampler.take().map(|sampler| sampler.stop());
                let gaps = self.series.as_ref().map(|series| series.gaps.clone());
                Answer::Unwatched {
                    gaps: gaps.unwrap_or_default(),
                }
            }
            Ask::Samples { from } => {
                let all = self
                    .series
                    .as_ref()
                    .map_or(&[][..], |series| &series.samples);
                let left = all.get(from..).unwrap_or_default();
                Answer::Samples {
                    samples: left.iter().take(SAMPLES_MAX).cloned().collect(),
                    more: left.len() > SAMPLES_MAX,
                }
            }
            Ask::Pace { cpus } => {
                let is_any = !cpus.is_empty();
                self.pace = is_any.then(|| here::pace(cpus));
                Answer::Done
            }
            Ask::PaceWithin { from_ns, to_ns } => Answer::Pace {
                ns: self.pace.as_ref().and_then(|pace| pace(from_ns, to_ns)),
            },
            Ask::Levers(order) => self.put_up(order)?,
            Ask::Set { settings } => {
                for (squeeze, retained) in settings {
                    self.lever(squeeze)?.set(retained).map_err(failed)?;
                }
                Answer::Done
            }
            Ask::BeginWindow => {
                self.levers
                    .iter_mut()
                    .for_each(|lever| lever.begin_window());
                Answer::Done
            }
            Ask::EndWindow => {
                let checks = self.levers.iter_mut().map(|lever| {
                    let check = lever.end_window();
                    let check = Check {
                        retained: check.retained,
                        in_force: check.in_force,
                        text: check.text,
                    };
                    (lever.squeeze(), check)
                });
                Answer::Checks(checks.collect())
            }
            Ask::Release => {
                self.release();
                Answer::Done
            }
            Ask::TakeStacks { of } => {
                match of {
                    Stacks::Running => {
                        self.running = Some(self.server.stacks().map_err(failed)?);
                    }
                    Stacks::Waiting => {
                        self.waiting = Some(self.server.waits(WAITS_FOR).map_err(failed)?);
                    }
                }
                Answer::Done
            }
            Ask::EndStacks { of } => {
                match of {
                    Stacks::Running => self.running.iter().for_each(|taken| taken.end()),
                    Stacks::Waiting => self.waiting.iter().for_each(|taken| taken.end()),
                }
                Answer::Done
            }
            Ask::Stacks { of } => self.stacks(of)?,
            Ask::Drive(order) => {
                (self.permits.may_load)(order.address).map_err(failed)?;
                self.tasks.drive(number, *order).map_err(failed)?;
                return Ok(None);
            }
            Ask::Calibrate {
                order,
                typical,
                server_cpu,
                measure,
            } => {
                let how = (typical, server_cpu, measure);
                self.tasks.calibrate(number, *order, how).map_err(failed)?;
                return Ok(None);
            }
            Ask::Start { name, port, cpus } => {
                let spec = self.subject(&name, port, cpus).map_err(failed)?;
                self.tasks.start_subject(number, spec).map_err(failed)?;
                return Ok(None);
            }
            Ask::Stop => {
                self.tasks.stop_subject(number).map_err(failed)?;
                return Ok(None);
            }
            Ask::Shape { way_out } => {
                self.unshape();
                self.shape = way_out;
                self.shape_again().map_err(failed)?;
                Answer::Done
            }
            Ask::Fetch { from } => {
                let (bytes, dropped) = self.tasks.piece(from).map_err(failed)?;
                Answer::Piece { bytes, dropped }
            }
            Ask::Recall { key } => match self.results()?.recall(&key).map_err(failed)? {
                Some(measured) => Answer::Measured(Box::new(measured)),
                None => Answer::UnderWay,
            },
            Ask::Forget { key } => {
                self.results()?.forget(&key).map_err(failed)?;
                Answer::Done
            }
            Ask::Follow { squeeze } => {
                let pids = self.server.family().map(|family| family.pids.clone());
                let lever = self.lever(squeeze)?;
                lever.follow(&pids.unwrap_or_default()).map_err(failed)?;
                Answer::Done
            }
            Ask::Proceed { zero_ns } => {
                self.tasks.let_proceed(zero_ns).map_err(failed)?;
                Answer::Done
            }
            Ask::Steer { version, setting } => {
                self.tasks.steer(version, setting).map_err(failed)?;
                Answer::Done
            }
            Ask::FillIn { known } => {
                self.tasks.fill_in(&known).map_err(failed)?;
                Answer::Done
            }
            Ask::EndLoad { abort } => {
                self.tasks.end_load(abort);
                Answer::Done
            }
        }))
    }

    fn results(&self) -> Result<&Results, Refusal> {
        let results = self.permits.results.as_ref();
        results.ok_or_else(|| failed("results are not kept here"))
    }

    fn welcome(&self) -> Welcome {
        Welcome {
            protocol: VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            grants: self.terms.grants().collect(),
            epoch: self.terms.epoch(),
            keeps: self
                .permits
                .results
                .as_ref()
                .map(|results| results.session().to_owned()),
            host: process::host_name(),
            pid: std::process::id(),
            is_root: rustix::process::geteuid().is_root(),
            cpus: process::allowed_cpus(),
            subjects: self.permits.subjects.keys().cloned().collect(),
        }
    }

    fn watch(&mut self, role: Role, paced: Vec<u32>, setup: Setup) -> Result<Answer, Refusal> {
        // The one before ends first: two would cost twice.
        (self.sampler, self.series) = (None, None);
        let zero_ns = setup.zero_ns;
        let is_paced = !paced.is_empty();
        let sampler = match role {
            Role::Server => self.server.sampler(Setup {
                paced_cpus: is_paced.then(|| [paced, Vec::new()]),
                ..setup
            }),
            Role::Client | Role::Backend => here::started(Setup {
                client: Some(family_of_self()),
                paced_cpus: is_paced.then(|| [Vec::new(), paced]),
                ..setup
            }),
        };
        self.sampler = Some(sampler.map_err(failed)?);
        Ok(Answer::Watching { zero_ns })
    }

    fn put_up(&mut self, order: LeversOrder) -> Result<Answer, Refusal> {
        self.release();
        self.hold_lock()?;
        let side = |side: AskedSide| Side {
            pids: side.pids,
            cpus: side.cpus,
            ..Side::default()
        };
        let LeversOrder {
            role,
            own,
            backend,
            backend_cores,
            way_out,
            seed,
        } = order;
        let shaped = match self.shaped.take() {
            // Once the levers are down, it is put up again.
            Some(shaper) => Ok(Some(shaper)),
            None => way_out.map(|way_out| shaped(way_out, role)).transpose(),
        };
        let (way_out, not_shaped) = match shaped {
            Ok(shaper) => (shaper, None),
            Err(why) => (None, Some(why)),
        };
        let mut reach = here::levers(
            role,
            Own {
                side: match role {
                    Role::Server | Role::Backend => side(own),
                    Role::Client => Side {
                        pids: vec![std::process::id()],
                        ..side(own)
                    },
                },
                backend: backend.map(side),
                backend_cores,
                way_out,
                seed,
            },
        );
        self.levers = reach.levers;
        let levers = self.levers.iter().map(|lever| LeverAt {
            squeeze: lever.squeeze(),
            how: lever.how(),
            retained_min: lever.retained_min(),
        });
        let mut missing = reach.out_of_reach.iter_mut();
        let link = missing.find(|out| matches!(out.squeeze, Squeeze::Downlink | Squeeze::Uplink));
        if let (Some(link), Some(why)) = (link, not_shaped) {
            link.why = why;
        }
        Ok(Answer::Levers {
            way_out_bits: reach.downlink_bits.or(reach.uplink_bits),
            levers: levers.collect(),
            out_of_reach: reach.out_of_reach,
        })
    }

    fn stacks(&mut self, of: Stacks) -> Result<Answer, Refusal> {
        let none = || failed("no stacks were taken");
        Ok(match of {
            Stacks::Running => {
                let taken = self.running.take().ok_or_else(none)?;
                let sampled = taken.stop().map_err(failed)?;
                Answer::Stacks {
                    profile: sampled.profile,
                    lost: sampled.lost,
                    ready_ns: None,
                }
            }
            Stacks::Waiting => {
                let taken = self.waiting.take().ok_or_else(none)?;
                let waited = taken.stop().map_err(failed)?;
                Answer::Stacks {
                    profile: waited.profile,
                    lost: waited.lost,
                    ready_ns: Some(waited.ready_ns),
                }
            }
        })
    }

    /// How a server of the host's own list is started.
    fn subject(
        &self,
        name: &str,
        port: Option<u16>,
        cpus: Vec<u32>,
    ) -> Result<SubjectSpec, String> {
        let known = &self.permits.subjects;
        let command = known.get(name).ok_or_else(|| {
            let names: Vec<&str> = known.keys().map(String::as_str).collect();
            let there = match names.is_empty() {
                true => "it starts none".to_owned(),
                false => format!("it starts {}", names.join(", ")),
            };
            format!("the agent there starts no `{name}` ({there}): its host allows servers by name, with --subject")
        })?;
        Ok(SubjectSpec {
            cpus,
            run_as: RunAs::decide(None, &[]).map_err(|error| error.to_string())?,
            listen_timeout: LISTEN_TIMEOUT,
            expect_port: port,
            ..SubjectSpec::new(command)
        })
    }

    fn lever(&mut self, squeeze: Squeeze) -> Result<&mut Box<dyn Lever>, Refusal> {
        let lever = self
            .levers
            .iter_mut()
            .find(|lever| lever.squeeze() == squeeze);
        lever.ok_or_else(|| failed(format!("{} is not put up", squeeze.label())))
    }

    /// Whether anything here is less than it was.
    fn squeezes(&self) -> bool {
        !self.levers.is_empty() || self.shaped.is_some()
    }

    /// One controller at a time changes a host.
    fn hold_lock(&mut self) -> Result<(), Refusal> {
        if self.lock.is_none() {
            self.lock = Some(SqueezeLock::take(&self.controller).map_err(failed)?);
        }
        Ok(())
    }

    /// All levers are as before. What they took of a link that was asked for stands again.
    fn release(&mut self) {
        self.levers.clear();
        if let Err(why) = self.shape_again() {
            tracing::warn!(%why, "the rate that was asked for is not held any more");
        }
        self.let_go();
    }

    /// The load's flows leave as they did.
    fn unshape(&mut self) {
        (self.shape, self.shaped) = (None, None);
        self.let_go();
    }

    /// Holds the load's flows to the rate that was asked for, where there is one.
    fn shape_again(&mut self) -> Result<(), String> {
        let (None, Some(way_out)) = (&self.shaped, self.shape.clone()) else {
            return Ok(());
        };
        self.hold_lock().map_err(|why| why.to_string())?;
        match shaped(way_out, Role::Server) {
            Ok(shaper) => self.shaped = Some(shaper),
            Err(why) => {
                self.shape = None;
                self.let_go();
                return Err(why);
            }
        }
        Ok(())
    }

    fn let_go(&mut self) {
        if !self.squeezes() {
            self.lock = None;
        }
    }
}

fn failed(why: impl std::fmt::Display) -> Refusal {
    Refusal::Failed {
        why: why.to_string(),
    }
}

/// The rate of the load's flows on their way out.
fn shaped(asked: WayOut, role: Role) -> Result<Shaper, String> {
    let interface = match asked.interface {
        Some(interface) => interface,
        None => one_way_to(&asked.peers)?,
    };
    let flows = Flows {
        peers: asked.peers,
        port: asked.port,
        from_server: role == Role::Server,
    };
    let shim = Shim::of_this_process();
    lab::of_flows(&interface, asked.rate_bits, flows, &shim).map_err(|error| error.to_string())
}

/// The interface that leads to all of these.
fn one_way_to(peers: &[IpAddr]) -> Result<String, String> {
    let ways = peers.iter().map(|peer| {
        let interface = interface_towards(towards(*peer));
        interface.map(|interface| interface.name)
    });
    let mut ways = ways
        .collect::<Option<Vec<String>>>()
        .ok_or("no interface leads there")?;
    ways.sort_unstable();
    ways.dedup();
    match ways.len() {
        0 => Err("no interface leads there".to_owned()),
        1 => Ok(ways.remove(0)),
        _ => Err(format!(
            "the load goes by several interfaces ({}), and the rate of one alone can be taken from",
            ways.join(", ")
        )),
    }
}

fn found(family: &wallfinder_probe::Family) -> Found {
    Found {
        cpus: here::cpus_of(family).unwrap_or_else(process::allowed_cpus),
        family: Family {
            name: family.name.clone(),
            pids: family.pids.clone(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::sync::Mutex;

    use wallfinder_protocol::{Greeting, Hello, Named, Said, frame};

    use super::*;
    use crate::partial::WHOLE_WITHIN;

    struct Unheard;

    impl Log for Unheard {
        fn line(&mut self, _: &str) {}
    }

    /// A host's log.
    #[derive(Default)]
    struct Lines(Vec<String>);

    impl Log for Lines {
        fn line(&mut self, text: &str) {
            self.0.push(text.to_owned());
        }
    }

    /// Where an agent's words are kept.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0
                .lock()
                .expect("nobody panics")
                .extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn numbers_of_replies(said: &[u8]) -> Vec<u64> {
        let frames = Greeting::default().push(said).expect("it greets");
        let mut frames = frames.expect("it greets at once");
        let mut numbers = Vec::new();
        while let Some(said) = frames.take::<Said>().expect("whole messages") {
            match said {
                Said::Reply(reply) => numbers.push(reply.number),
                Said::News(news) => panic!("nothing was asked for: {news:?}"),
            }
        }
        numbers
    }

    const SECOND: u64 = 1_000_000_000;

    /// Terms under which a server is started at this instant.
    fn started(at_ns: u64) -> Terms {
        let mut terms = Terms::new([Grant::Start]);
        let start = Request {
            number: 1,
            epoch: terms.epoch(),
            ask: Ask::Start {
                name: "server".to_owned(),
                port: None,
                cpus: Vec::new(),
            },
        };
        terms.admit(at_ns, &start).expect("it is granted");
        terms
    }

    #[test]
    fn a_lease_holds_while_a_long_order_comes_and_no_longer_than_one_may_take() {
        let (mut terms, partial) = (started(100 * SECOND), Partial::default());
        let mut heard_ns = 100 * SECOND;
        let most = WHOLE_WITHIN.as_secs();
        let mut over = None;
        for at in 101..=101 + 2 * most {
            // A part of it every three seconds.
            if at % 3 == 2 {
                partial.passed(at * SECOND);
            }
            if ends_lease(&mut terms, &partial, &mut heard_ns, at * SECOND) {
                over = Some(at);
                break;
            }
        }
        assert_eq!(over, Some(101 + most + LEASE.as_secs()));
    }

    #[test]
    fn bytes_that_come_after_the_end_of_a_lease_come_too_late() {
        let (mut terms, partial) = (started(100 * SECOND), Partial::default());
        let mut heard_ns = 100 * SECOND;
        // The agent was stopped, and reads what has waited for it.
        let now_ns = 120 * SECOND;
        partial.passed(now_ns);
        assert!(ends_lease(&mut terms, &partial, &mut heard_ns, now_ns));
        assert_eq!(terms.epoch(), 2);
    }

    #[test]
    fn a_part_of_an_order_counts_until_it_is_whole() {
        let (asked, mut asks) = std::io::pipe().expect("a pipe");
        let partial = Arc::<Partial>::default();
        let coming = Arc::clone(&partial);
        let (tell, told) = channel();
        thread::spawn(move || listen(asked, &coming, |request| tell.send(request).is_ok()));
        let request = Request {
            number: 1,
            epoch: 1,
            ask: Ask::Clock,
        };
        let bytes = frame(&request).expect("a frame");
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        asks.write_all(first).expect("a pipe");
        let until_ns = clock::boottime_ns() + 20 * SECOND;
        while partial.passed_after(0).is_none() {
            assert!(clock::boottime_ns() < until_ns, "it was not noticed");
            thread::sleep(Duration::from_millis(1));
        }
        asks.write_all(rest).expect("a pipe");
        let heard = told.recv_timeout(Duration::from_secs(20));
        assert_eq!(heard.expect("it is whole"), Ok(request));
        assert_eq!(partial.passed_after(0), None);
    }

    #[test]
    fn a_lease_is_extended_while_an_order_is_awaited() {
        let order = UnderWay::default();
        assert!(!order.is_awaited(100 * SECOND), "there is none");
        order.since_ns.store(100 * SECOND, Ordering::Relaxed);
        for (at, is_awaited) in [(100, true), (130, true), (139, true), (140, false)] {
            assert_eq!(order.is_awaited(at * SECOND), is_awaited, "{at}");
        }
        order.is_over.store(true, Ordering::Relaxed);
        assert!(!order.is_awaited(101 * SECOND), "its controller is gone");
    }

    /// What a controller asks, each as it is sent.
    fn framed(asks: impl IntoIterator<Item = Ask>) -> Vec<Vec<u8>> {
        let each = (1..).zip(asks).map(|(number, ask)| {
            let request = Request {
                number,
                epoch: 1,
                ask,
            };
            frame(&request).expect("a frame")
        });
        each.collect()
    }

    #[test]
    fn a_hosts_log_has_a_line_for_each_order_and_none_for_what_comes_many_times_a_second() {
        let hello = Hello {
            protocol: VERSION,
            version: "test".to_owned(),
            controller: "root@laptop (4711)".to_owned(),
            away: wallfinder_model::Nanos(0),
        };
        let asks = [
            Ask::Hello(hello),
            Ask::Clock,
            Ask::Times,
            Ask::Renew,
            Ask::Mark {
                name: "before any watch".to_owned(),
            },
            Ask::Release,
            Ask::Times,
        ];
        let bytes = framed(asks).concat();
        let (permits, mut log) = (Permits::of([Grant::Observe]), Lines::default());
        let served = serve(Cursor::new(bytes), Kept::default(), permits, &mut log);
        assert_eq!(served, Ok(()));
        let [hello, first, refused, second] = log.0.as_slice() else {
            panic!("each order has a line: {:#?}", log.0);
        };
        assert!(hello.contains("root@laptop (4711)"), "{hello}");
        assert_eq!((first.as_str(), second.as_str()), ("Times", "Times"));
        assert!(refused.starts_with("refused: Release: "), "{refused}");
        assert!(refused.contains("`squeeze`"), "{refused}");
    }

    #[test]
    fn wherever_a_channel_is_cut_what_was_whole_is_answered_and_the_agent_ends() {
        let asks = [
            Ask::Hello(Hello {
                protocol: VERSION,
                version: "test".to_owned(),
                controller: "this test".to_owned(),
                away: wallfinder_model::Nanos(0),
            }),
            Ask::Clock,
            Ask::Find {
                address: ([127, 0, 0, 1], 1).into(),
                named: Named::Process(u32::MAX),
            },
            Ask::Mark {
                name: "before any watch".to_owned(),
            },
            Ask::Renew,
            Ask::Stop,
        ];
        let each = framed(asks);
        let bytes = each.concat();
        let ends: Vec<usize> = each
            .iter()
            .scan(0, |end, one| {
                *end += one.len();
                Some(*end)
            })
            .collect();
        for cut in 0..=bytes.len() {
            let kept = Kept::default();
            let input = Cursor::new(bytes[..cut].to_vec());
            let permits = Permits::of(Grant::ALL);
            let served = serve(input, kept.clone(), permits, &mut Unheard);
            assert_eq!(served, Ok(()), "cut after {cut} bytes");
            let whole = ends.iter().filter(|end| **end <= cut).count() as u64;
            let said = kept.0.lock().expect("nobody panics");
            let expected: Vec<u64> = (1..=whole).collect();
            assert_eq!(numbers_of_replies(&said), expected, "cut after {cut} bytes");
        }
    }
}
