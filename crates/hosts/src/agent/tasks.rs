//! What takes an agent its time, in a thread that goes before nobody: loads, their ceilings, and the start of servers.
//!
//! ```text
//!  control thread ─ Task ─► task thread: run ─ Progress ─► output
//!     Proceed, Steer, FillIn, EndLoad ─► Conducted ◄──────┘  └─ Measured ─► output
//! ```

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wallfinder_engine::{Signals, StepSpec, calibrate::calibrate, precheck, run, workers_of};
use wallfinder_model::drive::{Edge, LeverSetting, Progress, Share, Typical};
use wallfinder_model::{Load, Nanos};
use wallfinder_protocol::{Answer, LoadOrder, News, Refusal, Reply, Said, frame};
use wallfinder_sys::{clock, process};
use wallfinder_testbed::subject::{Subject, SubjectSpec};
use wallfinder_wire::mix::Known;

use super::kept::{Keeping, Kept};
use super::results::Results;
use super::telling::Telling;
use crate::partial::Partial;

/// How long the conductor may take between that a load is ready and that it begins.
const BEGIN_WAIT_MAX: Duration = Duration::from_secs(60);
/// And until its connections close.
const LOOK_WAIT_MAX: Duration = Duration::from_secs(1);
/// A start that hosts agree on is no further ahead.
const AHEAD_MAX_NS: u64 = 60_000_000_000;
const BUSY: &str = "a load is under way";
const PROCEED_LOOK_EVERY: Duration = Duration::from_millis(1);
/// How much is written at a time: that it was taken is a sign that somebody reads.
const WRITE_BYTES: usize = 64 << 10;

/// Where an agent's words go, from whichever thread.
#[derive(Clone)]
pub(super) struct Output {
    to: Arc<Mutex<Box<dyn Write + Send>>>,
    /// Of what is written now.
    partial: Arc<Partial>,
}

impl Output {
    pub(super) fn of(output: impl Write + Send + 'static) -> Output {
        Output {
            to: Arc::new(Mutex::new(Box::new(output))),
            partial: Arc::default(),
        }
    }

    pub(super) fn bytes(&self, bytes: &[u8]) -> Result<(), String> {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pieces = bytes.chunks(WRITE_BYTES);
        let written = pieces.try_for_each(|piece| {
            to.write_all(piece)?;
            self.partial.passed(clock::boottime_ns());
            std::io::Result::Ok(())
        });
        self.partial.ended();
        let written = written.and_then(|()| to.flush());
        written.map_err(|error| format!("the controller hears nothing: {error}"))
    }

    /// When a part was taken last of what is not all written, where that was after this instant of the clock that goes on
    /// while a machine sleeps.
    pub(super) fn taken_after(&self, after_ns: u64) -> Option<u64> {
        self.partial.passed_after(after_ns)
    }

    pub(super) fn reply(&self, number: u64, answer: Result<Answer, Refusal>) -> Result<(), String> {
        let reply = |answer| Said::Reply(Reply { number, answer });
        let bytes = frame(&reply(answer)).or_else(|error| {
            let why = error.to_string();
            frame(&reply(Err(Refusal::Failed { why })))
        });
        self.bytes(&bytes.map_err(|error| error.to_string())?)
    }

    pub(super) fn news(&self, news: News) {
        // That nobody hears it is noticed by who reads.
        let _ = frame(&Said::News(news)).map(|bytes| self.bytes(&bytes));
    }
}

/// What the task thread is to do.
struct Task {
    /// Of the request; `None`: nobody waits to hear of it.
    number: Option<u64>,
    what: What,
}

enum What {
    Drive(Box<StepSpec>, Arc<Conducted>, Option<Keeping>),
    Calibrate {
        spec: Box<StepSpec>,
        typical: Typical,
        server_cpu: Option<u32>,
        measure: Nanos,
    },
    /// A server; the one before ends first.
    Start(Box<SubjectSpec>),
    /// It ends.
    Stop,
}

/// What a conductor says to a load under way.
#[derive(Default)]
struct Conducted {
    signals: Arc<Signals>,
    may_proceed: AtomicBool,
    /// What requests of a mix are filled in with.
    known: Known,
}

/// The task thread, and the load that it drives now.
pub(super) struct Tasks {
    /// `None`: it ends.
    tell: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
    is_busy: Arc<AtomicBool>,
    driven: Option<Driven>,
    /// Requests of the last load, one by one, where that was asked for.
    kept: Option<Kept>,
    /// What is left of a load's speed.
    speed: f64,
}

struct Driven {
    conducted: Arc<Conducted>,
    workers: u32,
    /// The controller's number of a setting that not all workers are known to follow.
    followed: Option<u32>,
}

/// A load ends at once, and with it the server that was started.
impl Drop for Tasks {
    fn drop(&mut self) {
        self.end_load(true);
        self.tell = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Tasks {
    /// Starts the thread. Called before the calling thread goes before others, for its children would too.
    pub(super) fn start(
        output: Output,
        results: Option<Results>,
        speed: f64,
    ) -> Result<Tasks, String> {
        let (tell, told) = channel();
        let is_busy = Arc::new(AtomicBool::new(false));
        let of_thread = Arc::clone(&is_busy);
        let starting = thread::Builder::new().name("wf-task".to_owned());
        let thread = starting.spawn(move || all(&told, &output, results.as_ref(), &of_thread));
        Ok(Tasks {
            tell: Some(tell),
            thread: Some(thread.map_err(|error| error.to_string())?),
            is_busy,
            driven: None,
            kept: None,
            speed,
        })
    }

    /// Whether there is one now.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Acquire)
    }

    /// Begins a load; answered by the task thread, as is all that follows.
    pub(super) fn drive(&mut self, number: u64, order: LoadOrder) -> Result<(), String> {
        if self.is_busy() {
            return Err(BUSY.to_owned());
        }
        let keeps = order.keeps;
        let mut spec = sound(spec(order, self.speed))?;
        let all = Load {
            connections: spec.load.connections + spec.more_connections(),
            ..spec.load.clone()
        };
        precheck::check(&all, &spec.address).map_err(|why| why.to_string())?;
        // What was kept before is given up, and its file with it.
        self.kept = None;
        let keeping = keeps.then(|| Keeping::start(&mut spec)).transpose()?;
        self.kept = keeping.as_ref().map(Keeping::kept);
        let mix = spec.request.mix();
        let conducted = Arc::new(Conducted {
            known: mix.map(|mix| mix.known.clone()).unwrap_or_default(),
            ..Conducted::default()
        });
        let driven = Driven {
            conducted: Arc::clone(&conducted),
            workers: workers_of(&spec.load),
            followed: None,
        };
        self.begin(number, What::Drive(Box::new(spec), conducted, keeping))?;
        self.driven = Some(driven);
        Ok(())
    }

    /// As much of what was kept as one message holds, and for how much there was no room.
    pub(super) fn piece(&mut self, from: u64) -> Result<(Vec<u8>, u64), String> {
        let kept = self.kept.as_ref().ok_or("no requests were kept")?;
        let (bytes, dropped) = kept.piece(from)?;
        if bytes.is_empty() {
            self.kept = None;
        }
        Ok((bytes, dropped))
    }

    /// Measures the ceiling of one.
    pub(super) fn calibrate(
        &self,
        number: u64,
        order: LoadOrder,
        (typical, server_cpu, measure): (Typical, Option<u32>, Nanos),
    ) -> Result<(), String> {
        let spec = Box::new(sound(spec(order, self.speed))?);
        let what = What::Calibrate {
            spec,
            typical,
            server_cpu,
            measure,
        };
        self.begin(number, what)
    }

    /// Starts a server, in the place of the one before.
    pub(super) fn start_subject(&self, number: u64, spec: SubjectSpec) -> Result<(), String> {
        self.begin(number, What::Start(Box::new(spec)))
    }

    /// Ends it.
    pub(super) fn stop_subject(&self, number: u64) -> Result<(), String> {
        self.begin(number, What::Stop)
    }

    fn begin(&self, number: u64, what: What) -> Result<(), String> {
        if self.is_busy.swap(true, Ordering::AcqRel) {
            return Err(BUSY.to_owned());
        }
        match self.tell(Some(number), what) {
            true => Ok(()),
            false => Err("its task thread has ended".to_owned()),
        }
    }

    /// Whether there is a thread to do it, once it has done all before.
    fn tell(&self, number: Option<u64>, what: What) -> bool {
        let tell = self.tell.as_ref();
        tell.is_some_and(|tell| tell.send(Task { number, what }).is_ok())
    }

    /// The load ends at once, and then the server that was started.
    pub(super) fn end_all(&self) {
        self.end_load(true);
        self.tell(None, What::Stop);
    }

    /// The load that waits for who conducts it goes on; its schedule begins at that instant, if one was agreed on.
    pub(super) fn let_proceed(&self, zero_ns: Option<u64>) -> Result<(), String> {
        let ahead_ns = zero_ns.map(|zero_ns| zero_ns.saturating_sub(clock::monotonic_ns()));
        if ahead_ns.is_some_and(|ahead_ns| ahead_ns > AHEAD_MAX_NS) {
            return Err("the start that was agreed on is too far ahead".to_owned());
        }
        if let Some(driven) = &self.driven {
            let begin_ns = &driven.conducted.signals.begin_ns;
            begin_ns.store(zero_ns.unwrap_or(0), Ordering::Release);
            driven.conducted.may_proceed.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// What its workers are to do from now on.
    pub(super) fn steer(&mut self, version: u32, setting: LeverSetting) -> Result<(), String> {
        let is_in_range = setting.speed.is_none_or(|left| left > 0.0 && left <= 1.0)
            && setting.in_flight > 0.0
            && setting.pace > 0.0;
        if !is_in_range {
            return Err(format!("a lever beyond its range: {setting:?}"));
        }
        let driven = self.driven.as_mut().ok_or("no load is under way")?;
        driven.conducted.signals.levers.set(setting);
        driven.followed = Some(version);
        Ok(())
    }

    /// What its requests are filled in with from now on.
    pub(super) fn fill_in(&self, known: &Known) -> Result<(), String> {
        let values = known.now();
        let driven = self.driven.as_ref().ok_or("no load is under way")?;
        let of_load = &driven.conducted.known;
        if values.len() != of_load.now().len() || !values.are_sound() {
            return Err("its requests are filled in with other values".to_owned());
        }
        of_load.renew(values.to_vec());
        Ok(())
    }

    /// The version that all workers follow, once after they do.
    pub(super) fn followed(&mut self) -> Option<u32> {
        let driven = self.driven.as_mut()?;
        let levers = &driven.conducted.signals.levers;
        driven
            .followed
            .take_if(|_| levers.are_followed_by(driven.workers))
    }

    /// Whether it is to be looked at often.
    pub(super) fn is_steered(&self) -> bool {
        let driven = self.driven.as_ref();
        driven.is_some_and(|driven| driven.followed.is_some()) && self.is_busy()
    }

    /// Its window ends now; with `abort` nothing in flight is waited for.
    pub(super) fn end_load(&self, abort: bool) {
        if let Some(driven) = &self.driven {
            let signals = &driven.conducted.signals;
            signals.stop.store(true, Ordering::Relaxed);
            signals.abort.fetch_or(abort, Ordering::Relaxed);
        }
    }
}

/// Refuses a load whose schedule would not come to an end.
fn sound(spec: StepSpec) -> Result<StepSpec, String> {
    let Share { nth, of } = spec.share;
    let is_dealt = nth < of
        && spec.load.workers.checked_mul(of).is_some()
        && spec.slots.as_ref().is_none_or(|slots| slots.is_sound());
    // Connections beside the load's own are those of a closed loop.
    let more = spec.more_connections();
    let is_bounded = spec.load.connections.checked_add(more).is_some()
        && (more == 0 || !spec.load.arrival.is_open());
    match is_dealt && is_bounded && spec.load.arrival.is_sound() {
        true => Ok(spec),
        false => {
            Err("a load that nobody can drive: its part, its connections, or its rate".to_owned())
        }
    }
}

fn spec(order: LoadOrder, speed: f64) -> StepSpec {
    let LoadOrder {
        load,
        share,
        slots,
        address,
        request,
        tls,
        cpus,
        io,
        seed,
        spare_connections,
        standby_connections,
        paddings,
        under_quota,
        keeps: _,
    } = order;
    StepSpec {
        load,
        share,
        slots: slots.map(Arc::new),
        address,
        request,
        tls,
        cpus,
        io,
        seed,
        samples: None,
        spare_connections,
        standby_connections,
        paddings,
        under_quota,
        speed,
    }
}

/// The task thread: one after the other.
fn all(told: &Receiver<Task>, output: &Output, results: Option<&Results>, is_busy: &AtomicBool) {
    let everywhere = process::allowed_cpus();
    let mut subject: Option<Subject> = None;
    while let Ok(Task { number, what }) = told.recv() {
        let answer = match what {
            What::Drive(spec, conducted, keeping) => pinned(&spec, &everywhere).and_then(|()| {
                let kept = number.zip(results);
                let _under_way = kept.and_then(|(number, results)| results.begin(number).ok());
                let mut telling = Telling::of(&spec);
                let mut observe = |progress| {
                    let told = telling.pass(progress).into_iter().flatten();
                    told.for_each(|progress| hear(progress, &conducted, output));
                };
                let measured = run(&spec, &conducted.signals, &mut observe);
                if let Some(progress) = telling.rest() {
                    hear(progress, &conducted, output);
                }
                let measured = measured.map_err(|error| error.to_string())?;
                if let Some(Err(why)) = keeping.map(Keeping::finish) {
                    tracing::warn!(%why, "requests kept one by one are lost");
                }
                let kept = kept.map_or(Ok(()), |(number, results)| results.keep(number, &measured));
                // It is told all the same.
                if let Err(error) = kept {
                    tracing::warn!(%error, "a result is not kept on disk");
                }
                Ok(Answer::Measured(Box::new(measured)))
            }),
            What::Calibrate {
                spec,
                typical,
                server_cpu,
                measure,
            } => pinned(&spec, &everywhere).and_then(|()| {
                let ceiling = calibrate(&spec, typical, server_cpu, measure);
                let ceiling = ceiling.map_err(|error| error.to_string())?;
                Ok(Answer::Ceiling(Box::new(ceiling)))
            }),
            What::Start(spec) => {
                drop(subject.take());
                // Of a load that was pinned here it inherits nothing.
                let _ = process::pin_to(&everywhere);
                let started = Subject::start(*spec).map_err(|error| error.to_string());
                started.map(|started| {
                    let address = started.address().to_owned();
                    subject = Some(started);
                    Answer::Started { address }
                })
            }
            What::Stop => {
                drop(subject.take());
                Ok(Answer::Done)
            }
        };
        is_busy.store(false, Ordering::Release);
        if let Some(number) = number {
            // That nobody hears it is noticed by who reads.
            let _ = output.reply(number, answer.map_err(|why| Refusal::Failed { why }));
        }
    }
}

/// What collects reports runs where the workers do, and keeps off the other processors.
fn pinned(spec: &StepSpec, everywhere: &[u32]) -> Result<(), String> {
    let cpus = match spec.cpus.is_empty() {
        true => everywhere,
        false => &spec.cpus,
    };
    process::pin_to(cpus)
        .map_err(|error| format!("processors {cpus:?} cannot be used there: {error}"))
}

/// Tells the controller. A load that is ready waits until it may begin, and one whose window is over until both ends
/// of its connections were looked at.
fn hear(progress: Progress, conducted: &Conducted, output: &Output) {
    let waits = match progress {
        Progress::Ready => Some(BEGIN_WAIT_MAX),
        Progress::Edge(Edge::Close) => Some(LOOK_WAIT_MAX),
        _ => None,
    };
    let is_ready = matches!(progress, Progress::Ready);
    output.news(News::Progress(Box::new(progress)));
    let Some(most) = waits else { return };
    let signals = &conducted.signals;
    let mut waited = Duration::ZERO;
    while !conducted.may_proceed.swap(false, Ordering::AcqRel) {
        if signals.abort.load(Ordering::Relaxed) || waited > most {
            signals.stop.fetch_or(is_ready, Ordering::Relaxed);
            return;
        }
        thread::sleep(PROCEED_LOOK_EVERY);
        waited += PROCEED_LOOK_EVERY;
    }
}

#[cfg(test)]
mod tests {
    use wallfinder_model::scenario::Io;
    use wallfinder_model::{Arrival, Rate};
    use wallfinder_wire::Exchange;
    use wallfinder_wire::http1::Request;

    use super::*;

    #[test]
    fn connections_beside_those_of_a_load_are_of_a_closed_loop_and_can_be_counted() {
        let with = |arrival: Option<Arrival>, spare: u32, standby: u32| {
            let mut load = Load::closed(8);
            load.arrival = arrival.unwrap_or(load.arrival);
            let spec = StepSpec {
                load,
                share: Share::WHOLE,
                slots: None,
                address: ([127, 0, 0, 1], 9).into(),
                request: Exchange::Http1(Request::get("h", "/")),
                tls: None,
                cpus: Vec::new(),
                io: Io::Auto,
                seed: 1,
                samples: None,
                spare_connections: spare,
                standby_connections: standby,
                paddings: Vec::new(),
                under_quota: false,
                speed: 1.0,
            };
            sound(spec).is_ok()
        };
        let open = Some(Arrival::Constant { rate: Rate(100.0) });
        assert!(with(None, 2, 8) && with(open, 0, 0));
        assert!(!with(open, 1, 0) && !with(open, 0, 1));
        assert!(with(None, u32::MAX - 8, 0) && !with(None, u32::MAX - 7, 0));
        assert!(!with(None, 0, u32::MAX));
    }
}
