//! The start of a step: what each worker is to do, its thread, and the schedule's zero.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use wallfinder_model::drive::{Progress, Share};
use wallfinder_sys::io::{Io, IoConfig};
use wallfinder_sys::{Errno, clock, process};
use wallfinder_wire::Wire;

use crate::error::EngineError;
use crate::plan::{WorkerPlan, workers_of};
use crate::protocol::Common;
use crate::samples::SampleChannel;
use crate::signals::Signals;
use crate::spec::StepSpec;
use crate::swap_buffer::SwapBuffer;
use crate::turns::Turns;
use crate::worker::{Worker, WorkerEnd};

/// Longest time for all connections to be tried before the schedule starts regardless.
const SETUP_MAX_NS: u64 = 30_000_000_000;
/// The schedule's zero is chosen so long ahead, for the workers to hear of it.
const ZERO_AHEAD_NS: u64 = 20_000_000;
/// Sends of so many bytes are done at once wherever the one before was read: more may stand half sent when an early
/// answer comes, and must be heard of before the next is sent.
const QUIET_MAX: usize = 4096;

/// What a worker's thread ends with.
pub(super) type Ended<S> = Result<(WorkerEnd, S), Errno>;

/// What all workers of a step are started with.
pub(super) struct Start<'s> {
    signals: &'s Arc<Signals>,
    address: SocketAddr,
    cpus: &'s [u32],
    samples: Option<&'s SampleChannel>,
    payload: Arc<[u8]>,
    own_bytes: usize,
    request_bytes_max: Option<usize>,
}

impl<'s> Start<'s> {
    pub(super) fn of<S: Common>(spec: &'s StepSpec, signals: &'s Arc<Signals>, shared: &S) -> Self {
        Start {
            signals,
            address: spec.address,
            cpus: &spec.cpus,
            samples: spec.samples.as_ref(),
            payload: shared.payload(),
            own_bytes: shared.own_bytes(),
            request_bytes_max: shared.request_bytes_max(),
        }
    }

    /// Starts one in a thread of its own. An error ends those that were started before.
    pub(super) fn worker<'scope, W, I>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        plan: &WorkerPlan,
        reports: &SwapBuffer,
        shared: W::Shared,
    ) -> Result<ScopedJoinHandle<'scope, Ended<W::Shared>>, EngineError>
    where
        W: Wire,
        W::Shared: Send + 'scope,
        I: Io,
    {
        let config = self.io_config(plan);
        let cpu = self.cpu_of(plan.worker);
        let samples = self.samples.map(SampleChannel::sender);
        let (plan, signals, reports) = (plan.clone(), Arc::clone(self.signals), reports.clone());
        let thread = thread::Builder::new().name(format!("worker-{}", plan.worker));
        let started = thread.spawn_scoped(scope, move || {
            let _others = AbortOnPanic(Arc::clone(&signals));
            // Not vital: the record says where the worker ran, if that was one place.
            let cpu = cpu.filter(|cpu| process::pin_to(&[*cpu]).is_ok());
            process::exact_timers();
            process::set_short_slice();
            // Opened here: an io_uring belongs to the thread that submits to it.
            let io = I::open(&config)?;
            let worker = Worker::<W, I>::new(plan, signals, reports, io, shared, samples);
            let (end, shared) = worker.run()?;
            Ok((WorkerEnd { cpu, ..end }, shared))
        });
        started.map_err(|error| {
            self.signals.abort.store(true, Ordering::Relaxed);
            EngineError::Refused {
                what: "a thread for a worker",
                why: error.to_string(),
            }
        })
    }

    fn io_config(&self, plan: &WorkerPlan) -> IoConfig {
        let one_in_flight = plan.load.in_flight_per_connection == 1;
        IoConfig {
            connections: plan.connections,
            address: self.address,
            payload: Arc::clone(&self.payload),
            own_bytes: self.own_bytes,
            quiet_sends: one_in_flight
                && self.request_bytes_max.is_some_and(|max| max <= QUIET_MAX),
        }
    }

    fn cpu_of(&self, worker: u32) -> Option<u32> {
        let at = worker as usize % self.cpus.len().max(1);
        self.cpus.get(at).copied()
    }
}

/// A worker that panics takes the others with it: what they go on to measure is of no use.
struct AbortOnPanic(Arc<Signals>);

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.abort.store(true, Ordering::Relaxed);
            self.0.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Chooses the schedule's zero once every worker has tried its connections.
pub(super) fn choose_zero(
    signals: &Signals,
    workers: usize,
    observe: &mut dyn FnMut(Progress),
    all_ended: &dyn Fn() -> bool,
) -> u64 {
    let began_ns = clock::monotonic_ns();
    while (signals.ready.load(Ordering::Acquire) as usize) < workers {
        let waited_ns = clock::monotonic_ns() - began_ns;
        if waited_ns > SETUP_MAX_NS || all_ended() {
            break;
        }
        if signals.stop.load(Ordering::Relaxed) {
            signals.abort.store(true, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_millis(1));
    }
    observe(Progress::Ready);
    let begin_ns = signals.begin_ns.load(Ordering::Acquire);
    let zero_ns = begin_ns.max(clock::monotonic_ns() + ZERO_AHEAD_NS);
    signals.zero_ns.store(zero_ns, Ordering::Release);
    observe(Progress::Starts { zero_ns });
    zero_ns
}

pub(super) fn worker_plans(spec: &StepSpec) -> Vec<WorkerPlan> {
    assert!(
        spec.more_connections() == 0 || !spec.load.arrival.is_open(),
        "an open loop uses every connection that it has"
    );
    let workers = workers_of(&spec.load);
    let mix = spec.request.mix().map(|mix| Arc::new(mix.clone()));
    // By us, or from outside (taskset).
    let pinned = !spec.cpus.is_empty() || process::allowed_cpus().len() == 1;
    let plan = |worker| {
        let here = Share {
            nth: worker,
            of: workers,
        };
        let own = |whole: u32| here.of(u64::from(whole)) as u32;
        let spare = own(spec.more_connections());
        let requests = spec.load.stop.requests;
        WorkerPlan {
            worker,
            workers,
            connections: own(spec.load.connections) + spare,
            spare,
            more: own(spec.spare_connections),
            polls: pinned && !spec.under_quota,
            share: spec.share.of_worker(worker, workers),
            turns: Turns::of_worker(spec.share, spec.slots.as_ref(), (worker, workers)),
            requests: requests.map(|whole| here.of(whole)),
            load: spec.load.clone(),
            mix: mix.clone(),
            speed: spec.speed,
            seed: spec.seed,
        }
    };
    (0..workers).map(plan).collect()
}
