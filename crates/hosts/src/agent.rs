//! The agent: does for its host what a controller asks, as long as it is asked.
//!
//! ```text
//!  input ─► reader thread ─► control thread: Terms::admit ─► do it ─► Reply ─► output
//!                                  │ four times a second
//!                                  └─ is the lease over? ─► levers down, next epoch
//! ```
//!
//! Its control thread goes before others, for the processors that it runs on may be full. Its end, whatever ends it,
//! is the end of all that it put up: by dropping it, by the kernel with its processes, by the keeper (which also ends
//! an agent that was stopped while it held levers), or at the next start.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use wallfinder_model::experiment::Squeeze;
use wallfinder_probe::environment::interface_towards;
use wallfinder_probe::fingerprint;
use wallfinder_probe::reference_loop::ReferenceLoop;
use wallfinder_probe::sample::Setup;
use wallfinder_probe::stacks::Sampled;
use wallfinder_probe::waits::Waited;
use wallfinder_protocol::{
    Answer, Ask, Check, Downlink, Family, Found, Frames, GREETING, Grant, LEASE, LeverAt, Refusal,
    Reply, Request, Side as AskedSide, Stacks, Terms, VERSION, Welcome, frame,
};
use wallfinder_sys::{clock, process};
use wallfinder_testbed::child::{Shim, hold_lease};
use wallfinder_testbed::lab::{self, Flows, Shaper};
use wallfinder_testbed::squeeze::{Lever, Scene, Side};
use wallfinder_testbed::undo::SqueezeLock;

use crate::here::{self, Here};
use crate::{Backend, Joint, Sampling, ServerHost, Taking};

/// How often the lease is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Without a word for so long there is no controller any more.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Ticks of telemetry in one message.
const SAMPLES_MAX: usize = 1_000;
/// How long waits are watched.
const WAITS_FOR: Duration = Duration::from_secs(1);
/// Requests that wait while one is carried out.
const WAITING_MAX: usize = 64;
const READ_BYTES: usize = 64 << 10;

/// Hears what an agent was asked, for its host's log.
pub trait Log {
    /// One line.
    fn line(&mut self, text: &str);
}

/// Answers on `output` what is asked on `input`, until that ends.
pub fn serve(
    input: impl Read + Send + 'static,
    mut output: impl Write,
    grants: &[Grant],
    log: &mut dyn Log,
) -> Result<(), String> {
    process::go_first();
    let written = output.write_all(GREETING).and_then(|()| output.flush());
    written.map_err(|error| format!("the controller cannot be greeted: {error}"))?;
    let (tell, asked) = sync_channel(WAITING_MAX);
    thread::spawn(move || listen(input, |request| tell.send(request).is_ok()));
    let mut agent = Agent::new(grants);
    let mut heard_ns = clock::boottime_ns();
    loop {
        hold_lease((!agent.levers.is_empty()).then_some(LEASE));
        let request = asked.recv_timeout(LOOK_EVERY);
        let now_ns = clock::boottime_ns();
        if agent.terms.end_lease(now_ns) {
            log.line("the lease is over: all squeezes are undone");
            agent.release();
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
        heard_ns = now_ns;
        let admitted = agent.terms.admit(now_ns, &request);
        if is_told(&request.ask) {
            log.line(&told(&request.ask, admitted.as_ref().err()));
        }
        let answer = admitted.and_then(|()| agent.carry_out(request.ask));
        agent.terms.done(clock::boottime_ns());
        let reply = Reply {
            number: request.number,
            answer,
        };
        let bytes = frame(&reply).or_else(|error| {
            let why = error.to_string();
            frame(&Reply {
                answer: Err(Refusal::Failed { why }),
                ..reply
            })
        });
        let bytes = bytes.map_err(|error| error.to_string())?;
        let written = output.write_all(&bytes).and_then(|()| output.flush());
        written.map_err(|error| format!("the controller hears nothing: {error}"))?;
    }
}

fn listen(mut input: impl Read, mut tell: impl FnMut(Result<Request, String>) -> bool) {
    let mut frames = Frames::default();
    let mut bytes = vec![0; READ_BYTES];
    loop {
        match frames.take::<Request>() {
            Ok(Some(request)) => {
                if !tell(Ok(request)) {
                    return;
                }
            }
            Ok(None) => match input.read(&mut bytes) {
                Ok(0) => return,
                Ok(read) => frames.push(&bytes[..read]),
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
    controller: String,
    server: Here,
    sampler: Option<Box<dyn Sampling>>,
    series: Option<Joint>,
    pace: Option<ReferenceLoop>,
    levers: Vec<Box<dyn Lever>>,
    lock: Option<SqueezeLock>,
    running: Option<Box<dyn Taking<Sampled>>>,
    waiting: Option<Box<dyn Taking<Waited>>>,
}

impl Agent {
    fn new(grants: &[Grant]) -> Agent {
        Agent {
            terms: Terms::new(grants.iter().copied()),
            controller: String::new(),
            server: Here::default(),
            sampler: None,
            series: None,
            pace: None,
            levers: Vec::new(),
            lock: None,
            running: None,
            waiting: None,
        }
    }

    fn carry_out(&mut self, ask: Ask) -> Result<Answer, Refusal> {
        Ok(match ask {
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
            Ask::Neighbours {
                cpus,
                known,
                cores_min,
            } => Answer::Neighbours(self.server.neighbours(&cpus, &known, cores_min)),
            Ask::Watch {
                tick_ns,
                peer,
                port,
                paced,
            } => {
                self.watch(tick_ns, peer, port, paced)?;
                Answer::Done
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
                Answer::Done
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
                self.pace = is_any.then(|| ReferenceLoop::start([cpus, Vec::new()]));
                Answer::Done
            }
            Ask::PaceWithin { from_ns, to_ns } => Answer::Pace {
                ns: self
                    .pace
                    .as_ref()
                    .and_then(|pace| pace.times_ns(from_ns, to_ns)[0]),
            },
            Ask::Levers {
                server,
                backend,
                backend_cores,
                downlink,
                seed,
            } => {
                let backend = (backend, backend_cores);
                self.put_up(server, backend, downlink, seed)?
            }
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
        })
    }

    fn welcome(&self) -> Welcome {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
        Welcome {
            protocol: VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            grants: self.terms.grants().collect(),
            epoch: self.terms.epoch(),
            host: host.unwrap_or_default().trim().to_owned(),
            pid: std::process::id(),
            is_root: rustix::process::geteuid().is_root(),
        }
    }

    fn watch(
        &mut self,
        tick_ns: u64,
        peer: Option<IpAddr>,
        port: Option<u16>,
        paced: bool,
    ) -> Result<(), Refusal> {
        // The one before ends first: two would cost twice.
        (self.sampler, self.series) = (None, None);
        let interface = peer.and_then(|peer| interface_towards(towards(peer)));
        let sampler = self.server.sampler(Setup {
            zero_ns: clock::monotonic_ns(),
            tick: Duration::from_nanos(tick_ns),
            client: None,
            server: None,
            interface: interface.map(|interface| interface.name),
            netns_of_pid: None,
            port,
            pin: None,
            under_quota: true,
            marks_only: tick_ns == 0,
            paced_cpus: paced.then(|| [self.server.processors(), Vec::new()]),
        });
        self.sampler = Some(sampler.map_err(failed)?);
        Ok(())
    }

    fn put_up(
        &mut self,
        server: AskedSide,
        (backend, backend_cores): (Option<AskedSide>, Option<f64>),
        downlink: Option<Downlink>,
        seed: u64,
    ) -> Result<Answer, Refusal> {
        self.release();
        self.lock = Some(SqueezeLock::take(&self.controller).map_err(failed)?);
        let side = |side: AskedSide| Side {
            pids: side.pids,
            cpus: side.cpus,
            ..Side::default()
        };
        let shaped = downlink.map(shaped).transpose();
        let (downlink, no_downlink) = match shaped {
            Ok(shaper) => (shaper, None),
            Err(why) => (None, Some(why)),
        };
        let mut reach = self.server.reach(Scene {
            server: side(server),
            client: Side {
                elsewhere: true,
                ..Side::default()
            },
            backend: backend.map(side),
            backend_cores,
            downlink,
            uplink: None,
            seed,
            shim: Shim::of_this_process(),
        });
        self.levers = reach.levers;
        let levers = self.levers.iter().map(|lever| LeverAt {
            squeeze: lever.squeeze(),
            how: lever.how(),
            retained_min: lever.retained_min(),
        });
        let mut missing = reach.out_of_reach.iter_mut();
        let link = missing.find(|out| out.squeeze == Squeeze::Downlink);
        if let (Some(link), Some(why)) = (link, no_downlink) {
            link.why = why;
        }
        Ok(Answer::Levers {
            downlink_bits: reach.downlink_bits,
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

    fn lever(&mut self, squeeze: Squeeze) -> Result<&mut Box<dyn Lever>, Refusal> {
        let lever = self
            .levers
            .iter_mut()
            .find(|lever| lever.squeeze() == squeeze);
        lever.ok_or_else(|| failed(format!("{} is not put up", squeeze.label())))
    }

    /// Everything as it was.
    fn release(&mut self) {
        self.levers.clear();
        self.lock = None;
    }
}

fn failed(why: impl std::fmt::Display) -> Refusal {
    Refusal::Failed {
        why: why.to_string(),
    }
}

/// The rate of the load's flows on their way out.
fn shaped(asked: Downlink) -> Result<Shaper, String> {
    let found = || interface_towards(towards(asked.peer));
    let interface = asked
        .interface
        .or_else(|| found().map(|interface| interface.name));
    let interface = interface.ok_or("no interface leads to the client")?;
    let flows = Flows {
        peer: asked.peer,
        port: asked.port,
        from_server: true,
    };
    let shim = Shim::of_this_process();
    lab::of_flows(&interface, asked.rate_bits, flows, &shim).map_err(|error| error.to_string())
}

/// A route is asked for by an address with some port.
fn towards(peer: IpAddr) -> SocketAddr {
    SocketAddr::new(peer, 9)
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
