//! The load that an agent drives: its engine, in a thread that goes before nobody.
//!
//! ```text
//!  control thread ─ Work ─► load thread: run ─ Progress ─► output
//!     Begin, Steer, EndLoad ─► Conducted ◄──────┘  └─ Measured ─► output
//! ```

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use wallfinder_engine::{
    EngineError, Signals, StepSpec, calibrate::calibrate, precheck, run, workers_of,
};
use wallfinder_model::Nanos;
use wallfinder_model::drive::{LeverSetting, Progress, Typical};
use wallfinder_protocol::{Answer, LoadOrder, News, Refusal, Reply, Said, frame};
use wallfinder_sys::process;

/// How long the conductor may take between that a load is ready and that it begins.
const BEGIN_WAIT_MAX: Duration = Duration::from_secs(60);
const BEGIN_LOOK_EVERY: Duration = Duration::from_millis(1);

/// Where an agent's words go, from whichever thread.
#[derive(Clone)]
pub(super) struct Output(Arc<Mutex<Box<dyn Write + Send>>>);

impl Output {
    pub(super) fn of(output: impl Write + Send + 'static) -> Output {
        Output(Arc::new(Mutex::new(Box::new(output))))
    }

    pub(super) fn bytes(&self, bytes: &[u8]) -> Result<(), String> {
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let written = output.write_all(bytes).and_then(|()| output.flush());
        written.map_err(|error| format!("the controller hears nothing: {error}"))
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

/// What the load thread is to do, and the number of who asked.
struct Work {
    number: u64,
    spec: StepSpec,
    what: What,
}

enum What {
    Drive(Arc<Conducted>),
    Calibrate {
        typical: Typical,
        server_cpu: Option<u32>,
        measure: Nanos,
    },
}

/// What a conductor says to a load under way.
#[derive(Default)]
struct Conducted {
    signals: Arc<Signals>,
    may_begin: AtomicBool,
}

/// The thread that drives loads, and the load that it drives now.
pub(super) struct Loads {
    work: Sender<Work>,
    is_busy: Arc<AtomicBool>,
    driven: Option<Driven>,
}

struct Driven {
    conducted: Arc<Conducted>,
    workers: u32,
    /// The controller's number of a setting that not all workers are known to follow.
    followed: Option<u32>,
}

impl Loads {
    /// Starts the thread. Called before the calling thread goes before others, for its children would too.
    pub(super) fn start(output: Output) -> Result<Loads, String> {
        let (work, asked) = channel();
        let is_busy = Arc::new(AtomicBool::new(false));
        let of_thread = Arc::clone(&is_busy);
        let loading = thread::Builder::new().name("wf-load".to_owned());
        let started = loading.spawn(move || all(&asked, &output, &of_thread));
        started.map_err(|error| error.to_string())?;
        Ok(Loads {
            work,
            is_busy,
            driven: None,
        })
    }

    /// Whether there is one now.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Acquire)
    }

    /// Begins one; answered by the load thread.
    pub(super) fn drive(&mut self, number: u64, order: LoadOrder) -> Result<(), String> {
        let spec = spec(order);
        precheck::check(&spec.load, &spec.address).map_err(|why| why.to_string())?;
        let conducted = Arc::<Conducted>::default();
        let driven = Driven {
            conducted: Arc::clone(&conducted),
            workers: workers_of(&spec.load),
            followed: None,
        };
        let what = What::Drive(conducted);
        self.begin(Work { number, spec, what })?;
        self.driven = Some(driven);
        Ok(())
    }

    /// Measures the ceiling of one; answered by the load thread.
    pub(super) fn calibrate(
        &mut self,
        number: u64,
        order: LoadOrder,
        (typical, server_cpu, measure): (Typical, Option<u32>, Nanos),
    ) -> Result<(), String> {
        let what = What::Calibrate {
            typical,
            server_cpu,
            measure,
        };
        let spec = spec(order);
        self.begin(Work { number, spec, what })
    }

    fn begin(&mut self, work: Work) -> Result<(), String> {
        if self.is_busy.swap(true, Ordering::AcqRel) {
            return Err("a load is under way".to_owned());
        }
        let sent = self.work.send(work);
        sent.map_err(|_| "its load thread has ended".to_owned())
    }

    /// The load that is ready may begin.
    pub(super) fn let_begin(&self) {
        if let Some(driven) = &self.driven {
            driven.conducted.may_begin.store(true, Ordering::Release);
        }
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
    pub(super) fn end(&self, abort: bool) {
        if let Some(driven) = &self.driven {
            let signals = &driven.conducted.signals;
            signals.stop.store(true, Ordering::Relaxed);
            signals.abort.fetch_or(abort, Ordering::Relaxed);
        }
    }
}

fn spec(order: LoadOrder) -> StepSpec {
    let LoadOrder {
        load,
        address,
        request,
        tls,
        cpus,
        io,
        seed,
        spare_connections,
        paddings,
        under_quota,
    } = order;
    StepSpec {
        load,
        address,
        request,
        tls,
        cpus,
        io,
        seed,
        samples: None,
        spare_connections,
        paddings,
        under_quota,
    }
}

/// The load thread: one after the other.
fn all(asked: &Receiver<Work>, output: &Output, is_busy: &AtomicBool) {
    let everywhere = process::allowed_cpus();
    while let Ok(Work { number, spec, what }) = asked.recv() {
        // What collects reports runs where the workers do, and keeps off the other processors.
        let cpus = if spec.cpus.is_empty() {
            &everywhere
        } else {
            &spec.cpus
        };
        if let Err(error) = process::pin_to(cpus) {
            let why = format!("processors {cpus:?} cannot be used there: {error}");
            is_busy.store(false, Ordering::Release);
            let _ = output.reply(number, Err(Refusal::Failed { why }));
            continue;
        }
        let answer = match what {
            What::Drive(conducted) => {
                let mut observe = |progress| hear(progress, &conducted, output);
                run(&spec, &conducted.signals, &mut observe)
                    .map(|measured| Answer::Measured(Box::new(measured)))
            }
            What::Calibrate {
                typical,
                server_cpu,
                measure,
            } => calibrate(&spec, typical, server_cpu, measure)
                .map(|ceiling| Answer::Ceiling(Box::new(ceiling))),
        };
        let answer = answer.map_err(|error: EngineError| Refusal::Failed {
            why: error.to_string(),
        });
        is_busy.store(false, Ordering::Release);
        // That nobody hears it is noticed by who reads.
        let _ = output.reply(number, answer);
    }
}

/// Tells the controller; a load that is ready waits until it may begin.
fn hear(progress: Progress, conducted: &Conducted, output: &Output) {
    let is_ready = matches!(progress, Progress::Ready);
    output.news(News::Progress(Box::new(progress)));
    if !is_ready {
        return;
    }
    let signals = &conducted.signals;
    let mut waited = Duration::ZERO;
    while !conducted.may_begin.load(Ordering::Acquire) {
        let is_over = signals.abort.load(Ordering::Relaxed) || waited > BEGIN_WAIT_MAX;
        if is_over {
            signals.stop.store(true, Ordering::Relaxed);
            return;
        }
        thread::sleep(BEGIN_LOOK_EVERY);
        waited += BEGIN_LOOK_EVERY;
    }
}
