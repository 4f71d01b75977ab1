//! The load of an experiment as our own engine holds it.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wallfinder_engine::in_flight::spare_connections;
use wallfinder_engine::{
    EngineError, ExperimentWindow, IoChoice, LeverSetting, Measured, Progress, Signals, StepSpec,
    workers_of,
};
use wallfinder_hosts::{ClientHost, Sampling};
use wallfinder_model::drive::Share;
use wallfinder_model::record::Interval;
use wallfinder_model::telemetry::Telemetry;
use wallfinder_model::{Environment, Nanos};
use wallfinder_sys::clock;

use super::lever_set::LeverSet;
use super::padding::Padding;
use super::{STOOD_STILL, Seen, Source};
use crate::{ConductError, StepOrder, is_crowded, quota_of_workers, start_sampler};

/// The longest an experiment's load lasts, whatever comes.
const LOAD_MAX: Nanos = Nanos::from_secs(3_600);
/// Longest time until the connections are there.
const START_WAIT_MAX: Duration = Duration::from_secs(40);
/// Longest time until the workers have followed a lever and told of it: on a machine that others use, seconds
/// may pass in which nothing runs.
const FOLLOW_WAIT_MAX: Duration = Duration::from_secs(10);
/// The same under the tightest of quotas, which stretches all that is done.
const FOLLOW_WAIT_UNDER_QUOTA_MAX: Duration = Duration::from_secs(30);

/// How often a load that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The sampler, once it was started.
type Shared = Arc<Mutex<Option<Result<Box<dyn Sampling>, ConductError>>>>;

/// Listens to the engine beside its workers: starts the sampler, and passes all on.
struct Watch {
    order: StepOrder,
    environment: Environment,
    tell: Sender<Progress>,
    sampler: Shared,
}

impl Watch {
    fn hear(&self, progress: Progress) {
        match &progress {
            Progress::Ready => {
                let now_ns = clock::monotonic_ns();
                let (order, environment) = (&self.order, &self.environment);
                let sampler = start_sampler(order, environment, now_ns, order.client.family());
                *self.sampler() = Some(sampler);
            }
            Progress::Starts { zero_ns } => {
                if let Some(Ok(sampler)) = &mut *self.sampler() {
                    sampler.count_from(*zero_ns);
                }
            }
            Progress::Interval { .. } | Progress::Window(_) | Progress::Edge(_) => {}
        }
        let _ = self.tell.send(progress);
    }

    fn sampler(&self) -> MutexGuard<'_, Option<Result<Box<dyn Sampling>, ConductError>>> {
        self.sampler.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Engine {
    /// Those of this load alone; the experiment's are `outer`.
    signals: Arc<Signals>,
    outer: Arc<Signals>,
    /// The schedule's zero.
    zero_ns: u64,
    /// From the experiment's zero to the schedule's.
    offset_ns: u64,
    told: Receiver<Progress>,
    /// For how long everything did while the workers were waited for, since that was asked.
    stood_still: Duration,
    sampler: Shared,
    workers: Option<JoinHandle<Result<Measured, EngineError>>>,
    intervals: Vec<Interval>,
    windows: u32,
    setting: LeverSetting,
    workers_count: u32,
    /// Where the workers are.
    client: Arc<dyn ClientHost>,
    /// How long the workers may take to follow a lever and tell of it.
    patience: Duration,
}

impl Engine {
    pub(super) fn start(
        order: &StepOrder,
        io: IoChoice,
        environment: &Environment,
        outer: &Arc<Signals>,
        experiment_zero_ns: Option<u64>,
        standby: u32,
    ) -> Result<Engine, ConductError> {
        let mut load = order.load.clone();
        load.stop.after = LOAD_MAX;
        load.stop.requests = None;
        let warmup = load.warmup;
        let workers_count = workers_of(&load);
        let quota = quota_of_workers(order, environment);
        let spare = match load.arrival.is_open() {
            true => 0,
            false => spare_connections(&load),
        };
        let spec = StepSpec {
            load,
            address: order.address,
            request: order.request.clone(),
            tls: order.tls.clone(),
            cpus: order.client_cpus.clone(),
            io,
            seed: order.seed,
            share: Share::WHOLE,
            slots: None,
            samples: None,
            spare_connections: spare,
            standby_connections: standby,
            paddings: Padding::of(order).map_or(Vec::new(), |padding| padding.added().to_vec()),
            under_quota: is_crowded(order, environment),
            speed: 1.0,
        };
        let (tell, told) = channel();
        let sampler = Shared::default();
        let watch = Watch {
            order: order.clone(),
            environment: environment.clone(),
            tell,
            sampler: Arc::clone(&sampler),
        };
        let signals = Arc::new(Signals::default());
        let of_thread = Arc::clone(&signals);
        let client = Arc::clone(&order.client);
        let workers = std::thread::Builder::new()
            .name("experiment".to_owned())
            .spawn(move || client.drive(&spec, &of_thread, &mut |progress| watch.hear(progress)))
            .map_err(|error| ConductError::Probe(error.to_string()))?;
        let mut engine = Engine {
            signals,
            outer: Arc::clone(outer),
            zero_ns: 0,
            offset_ns: 0,
            told,
            stood_still: Duration::ZERO,
            sampler,
            workers: Some(workers),
            intervals: Vec::new(),
            windows: 0,
            setting: LeverSetting::FREE,
            workers_count,
            client: Arc::clone(&order.client),
            patience: patience(quota),
        };
        engine.wait_for_start()?;
        let experiment_zero_ns = experiment_zero_ns.unwrap_or(engine.zero_ns);
        engine.offset_ns = engine.zero_ns.saturating_sub(experiment_zero_ns);
        std::thread::sleep(Duration::from_nanos(warmup.0));
        Ok(engine)
    }

    fn wait_for_start(&mut self) -> Result<(), ConductError> {
        let until = Instant::now() + START_WAIT_MAX;
        loop {
            match self.told.recv_timeout(LOOK_EVERY) {
                Ok(Progress::Starts { zero_ns }) => {
                    self.zero_ns = zero_ns;
                    return Ok(());
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if Instant::now() < until => self.pass_on(),
                Err(silent) => return Err(self.why_silent(silent)),
            }
        }
    }

    /// Listens until the window of this number has ended.
    fn hear(&mut self, number: u32) -> Result<ExperimentWindow, ConductError> {
        let mut until = Instant::now() + self.patience;
        loop {
            if let Some(window) = self.hear_once(&mut until)?
                && window.number == number
            {
                return Ok(window);
            }
        }
    }

    /// The next of what is told, if it is a window; waits for some milliseconds at the most.
    fn hear_once(&mut self, until: &mut Instant) -> Result<Option<ExperimentWindow>, ConductError> {
        let began = Instant::now();
        let told = self.told.recv_timeout(LOOK_EVERY);
        let took = began.elapsed();
        if took > STOOD_STILL {
            // The workers stood still as well, and have as much time as before.
            *until += took;
            self.stood_still += took;
        }
        match told {
            Ok(Progress::Window(window)) => return Ok(Some(window)),
            Ok(Progress::Interval { interval, .. }) => self.intervals.push(interval),
            Ok(Progress::Ready | Progress::Starts { .. } | Progress::Edge(_)) => {}
            Err(RecvTimeoutError::Timeout) if Instant::now() < *until => self.pass_on(),
            Err(silent) => return Err(self.why_silent(silent)),
        }
        Ok(None)
    }

    /// What ends the experiment ends this load.
    fn pass_on(&self) {
        for (outer, inner) in [
            (&self.outer.stop, &self.signals.stop),
            (&self.outer.abort, &self.signals.abort),
        ] {
            if outer.load(Ordering::Relaxed) {
                inner.store(true, Ordering::Relaxed);
            }
        }
    }

    /// An interval on the experiment's time axis.
    fn placed(&self, mut interval: Interval) -> Interval {
        interval.at_ns += self.offset_ns;
        interval
    }

    /// Why the workers tell nothing any more.
    fn why_silent(&mut self, silent: RecvTimeoutError) -> ConductError {
        // Who told is gone a moment before its thread has ended.
        let is_over = silent == RecvTimeoutError::Disconnected
            || self.workers.as_ref().is_none_or(JoinHandle::is_finished);
        if is_over && let Some(workers) = self.workers.take() {
            return match workers.join() {
                Ok(Err(error)) => error.into(),
                Ok(Ok(_)) => ConductError::Probe(super::INTERRUPTED.to_owned()),
                Err(panic) => std::panic::resume_unwind(panic),
            };
        }
        if !self.client.is_reached() {
            return ConductError::Lever("the hub is not reached from here".to_owned());
        }
        ConductError::Lever(format!(
            "the workers did not follow a change within {:?}: other work fills the machine; stop it, or \
             wait until it has ended",
            self.patience
        ))
    }

    fn set(&mut self, setting: LeverSetting) {
        self.setting = setting;
        self.signals.levers.set(setting);
    }

    /// Returns when every worker does as it is told: what begins before that has no beginning.
    fn set_and_wait(&mut self, setting: LeverSetting) -> Result<(), ConductError> {
        self.set(setting);
        let mut until = Instant::now() + self.patience;
        while !self.signals.levers.are_followed_by(self.workers_count) {
            // No window is open that could end.
            self.hear_once(&mut until)?;
        }
        Ok(())
    }
}

/// Workers that nobody listens to any more end at once.
impl Drop for Engine {
    fn drop(&mut self) {
        self.signals.stop.store(true, Ordering::Relaxed);
        self.signals.abort.store(true, Ordering::Relaxed);
    }
}

/// For workers that may have this part of the time that they want; `None`: all of it.
fn patience(quota: Option<f64>) -> Duration {
    let longest = FOLLOW_WAIT_UNDER_QUOTA_MAX;
    let stretched = FOLLOW_WAIT_MAX.as_secs_f64() / quota.unwrap_or(1.0);
    Duration::try_from_secs_f64(stretched).map_or(longest, |wait| wait.min(longest))
}

impl Source for Engine {
    fn wash_out(&mut self, lever_set: &LeverSet) -> Result<(), ConductError> {
        self.set_and_wait(lever_set.engine_setting())
    }

    fn last_for(&mut self, _: Duration) -> Result<(), ConductError> {
        if self.workers.as_ref().is_none_or(JoinHandle::is_finished) {
            return Err(self.why_silent(RecvTimeoutError::Disconnected));
        }
        Ok(())
    }

    fn begin(&mut self, lever_set: &LeverSet) -> Result<(), ConductError> {
        self.windows += 1;
        self.set_and_wait(LeverSetting {
            window: self.windows,
            ..lever_set.engine_setting()
        })
    }

    fn stood_still(&mut self) -> Duration {
        std::mem::take(&mut self.stood_still)
    }

    fn end(&mut self) -> Result<Option<Seen>, ConductError> {
        let number = self.windows;
        self.set(LeverSetting {
            window: 0,
            ..self.setting
        });
        let window = self.hear(number)?;
        let quantile = |name: &str| window.quantiles_ns.get(name).copied();
        Ok(Some(Seen {
            from_ns: window.from_ns + self.offset_ns,
            to_ns: window.to_ns + self.offset_ns,
            answered: window.answered,
            failed: window.failed,
            throughput: window.throughput,
            in_flight_mean: Some(window.in_flight_mean),
            latency_mean_ns: (window.latency_mean_ns > 0.0).then_some(window.latency_mean_ns),
            p50_ns: quantile("p50"),
            p99_ns: quantile("p99"),
            speed: (window.workers_cpu_ns > 0)
                .then(|| 1.0 - window.workers_spun_ns as f64 / window.workers_cpu_ns as f64),
        }))
    }

    fn intervals(&mut self) -> Vec<Interval> {
        let mut intervals = std::mem::take(&mut self.intervals);
        // Windows are waited for when they end, so only intervals can be there now.
        for progress in self.told.try_iter() {
            if let Progress::Interval { interval, .. } = progress {
                intervals.push(interval);
            }
        }
        intervals
            .into_iter()
            .map(|interval| self.placed(interval))
            .collect()
    }

    fn zero_ns(&self) -> u64 {
        self.zero_ns
    }

    fn client_pids(&self) -> Vec<u32> {
        Vec::new()
    }

    fn close(mut self: Box<Self>, windows: &[(u64, u64)]) -> Result<Vec<Telemetry>, ConductError> {
        self.signals.stop.store(true, Ordering::Relaxed);
        while self
            .workers
            .as_ref()
            .is_some_and(|workers| !workers.is_finished())
        {
            self.pass_on();
            std::thread::sleep(LOOK_EVERY);
        }
        let ended = self.workers.take().map(JoinHandle::join);
        let sampler = self
            .sampler
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let telemetry = match sampler {
            Some(Ok(sampler)) => {
                let series = sampler.stop();
                let at = |ns: u64| ns.saturating_sub(self.offset_ns) as i64;
                let of = |(from, to): &(u64, u64)| series.summarise(at(*from), at(*to));
                windows.iter().map(of).collect()
            }
            Some(Err(error)) => return Err(error),
            None => Vec::new(),
        };
        match ended {
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            Some(Ok(Err(error))) => Err(error.into()),
            _ => Ok(telemetry),
        }
    }
}
