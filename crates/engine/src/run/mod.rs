//! One step: workers started together, their reports merged, the window cut out.
//!
//! ```text
//!   start: threads, connections, the schedule's zero
//!     └─► worker … ─ reports ─► collect ─ Progress ─► the caller
//!                                  └─► outcome: Measured
//! ```

mod collect;
mod interval;
mod outcome;
mod start;
mod window;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use wallfinder_model::drive::{Edge, Measured, Progress};
use wallfinder_model::scenario::Io as IoChoice;
use wallfinder_sys::io::{Epoll, Io, Uring, uring_available};
use wallfinder_sys::process;
use wallfinder_wire::framed::{self, ById, InTurn};
use wallfinder_wire::http1::{self, Http1};
use wallfinder_wire::http2::{self, Http2};
use wallfinder_wire::mix::{self, Mix, Template};
use wallfinder_wire::tls::{self, Tls};
use wallfinder_wire::{Exchange, Wire, grpc};

use collect::{COLLECT_EVERY, Collector};
use outcome::{conclude, panicked};
use start::{Start, choose_zero, worker_plans};

use crate::error::{EngineError, bad_request};
use crate::protocol::{self, Common};
use crate::signals::Signals;
use crate::spec::StepSpec;
use crate::swap_buffer::SwapBuffer;

/// Hears how a step goes. It may take its time: no worker waits for it.
pub type Observer<'o> = dyn FnMut(Progress) + 'o;

/// Observes nothing.
pub fn unobserved(_: Progress) {}

/// Runs one step to its end. `signals` lets others end it early.
pub fn run(
    spec: &StepSpec,
    signals: &Arc<Signals>,
    observe: &mut Observer<'_>,
) -> Result<Measured, EngineError> {
    let way = way_of(spec.io)?;
    match &spec.request {
        Exchange::Http1(request) => {
            let shared = || http1::Shared::new(request, protocol::http1_options(spec));
            run_on::<Http1, _>(spec, signals, observe, way, &shared)
        }
        Exchange::Mix(mix) => run_mix(mix, spec, signals, observe, way),
        Exchange::Http2(request) => {
            let shared = || http2::Shared::new(request, protocol::http2_options(spec));
            run_on::<Http2, _>(spec, signals, observe, way, &shared)
        }
        Exchange::Grpc(request) => {
            let shared = || grpc::shared(request, protocol::http2_options(spec));
            run_on::<Http2, _>(spec, signals, observe, way, &shared)
        }
        Exchange::Framed(request) => {
            let shared = || framed::Shared::new(request, protocol::framed_options(&spec.load));
            match request.format.id {
                None => run_on::<InTurn, _>(spec, signals, observe, way, &shared),
                Some(_) => run_on::<ById, _>(spec, signals, observe, way, &shared),
            }
        }
    }
}

/// What does not change with each worker is made ready once.
fn run_mix(
    mix: &Mix,
    spec: &StepSpec,
    signals: &Arc<Signals>,
    observe: &mut Observer<'_>,
    way: Way,
) -> Result<Measured, EngineError> {
    if mix.protocol != mix::Protocol::Http1 {
        let ready = http2::Ready::of(mix, spec.seed, spec.tls.is_some()).map_err(bad_request)?;
        let ready = Arc::new(ready);
        let shared = || http2::Shared::of_mix(&ready, protocol::http2_options(spec));
        return run_on::<Http2, _>(spec, signals, observe, way, &shared);
    }
    let options = || protocol::http1_options(spec);
    if mix.is_fixed() {
        let requests: Vec<&Template> = mix.kinds.iter().map(|kind| &kind.request).collect();
        let shared = || http1::Shared::of_kinds(&requests, options());
        return run_on::<Http1, _>(spec, signals, observe, way, &shared);
    }
    let ready = http1::Ready::of(mix, spec.seed, &options()).map_err(bad_request)?;
    let ready = Arc::new(ready);
    let shared = || http1::Shared::of_mix(&ready, options());
    run_on::<Http1, _>(spec, signals, observe, way, &shared)
}

#[derive(Debug, Clone, Copy)]
enum Way {
    Uring,
    Epoll,
}

fn way_of(choice: IoChoice) -> Result<Way, EngineError> {
    let available = match choice {
        IoChoice::Epoll => return Ok(Way::Epoll),
        IoChoice::Auto | IoChoice::Uring => uring_available(),
    };
    match (available, choice) {
        (Ok(()), _) => Ok(Way::Uring),
        (Err(why), IoChoice::Uring) => Err(EngineError::Refused {
            what: "io_uring",
            why,
        }),
        (Err(_), _) => Ok(Way::Epoll),
    }
}

fn run_on<W, B>(
    spec: &StepSpec,
    signals: &Arc<Signals>,
    observe: &mut Observer<'_>,
    way: Way,
    shared: &dyn Fn() -> Result<W::Shared, B>,
) -> Result<Measured, EngineError>
where
    W: Wire,
    W::Shared: Send + Common,
    B: std::fmt::Display,
{
    let shared = || shared().map_err(bad_request);
    let Some(client) = &spec.tls else {
        return match way {
            Way::Uring => run_with::<W, Uring>(spec, signals, observe, &shared),
            Way::Epoll => run_with::<W, Epoll>(spec, signals, observe, &shared),
        };
    };
    let shared = || {
        let inner = shared()?;
        let own_bytes = inner.own_bytes();
        Ok(tls::Shared::new(inner, client, own_bytes))
    };
    match way {
        Way::Uring => run_with::<Tls<W>, Uring>(spec, signals, observe, &shared),
        Way::Epoll => run_with::<Tls<W>, Epoll>(spec, signals, observe, &shared),
    }
}

fn run_with<W, I>(
    spec: &StepSpec,
    signals: &Arc<Signals>,
    observe: &mut Observer<'_>,
    shared: &dyn Fn() -> Result<W::Shared, EngineError>,
) -> Result<Measured, EngineError>
where
    W: Wire,
    W::Shared: Send + Common,
    I: Io,
{
    let start = Start::of(spec, signals, &shared()?);
    let plans = worker_plans(spec);
    let buffers: Vec<SwapBuffer> = plans
        .iter()
        .map(|_| SwapBuffer::new(spec.request.mix()))
        .collect();
    let shareds = plans.iter().map(|_| shared());
    let shareds = shareds.collect::<Result<Vec<_>, _>>()?;
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for ((plan, buffer), shared) in plans.iter().zip(&buffers).zip(shareds) {
            workers.push(start.worker::<W, I>(scope, plan, buffer, shared)?);
        }
        let (tell, told) = mpsc::channel();
        let all_ended = || workers.iter().all(|worker| worker.is_finished());
        let zero_ns = choose_zero(signals, plans.len(), observe, &all_ended);
        let collector = Collector::new(&plans, &buffers, zero_ns, tell);
        let mut observe = |progress| {
            let is_close = matches!(progress, Progress::Edge(Edge::Close));
            observe(progress);
            if is_close {
                signals.may_close.store(true, Ordering::Relaxed);
            }
        };
        let collected = collect(spec, collector, &told, &mut observe, &all_ended);
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        let collector = match collected {
            Ok(collector) => collector,
            // What a worker holds while it panics is of no use to the collector either.
            Err(panic) => match results.into_iter().enumerate().find_map(panicked) {
                Some(error) => return Err(error),
                None => std::panic::resume_unwind(panic),
            },
        };
        pass_on(&told, &mut observe, Duration::ZERO);
        conclude::<W, I>(spec, collector, results)
    })
}

/// Merges reports in a thread beside the workers until all of them have ended, while this one passes on what is told.
fn collect<'p>(
    spec: &StepSpec,
    mut collector: Collector<'p>,
    told: &mpsc::Receiver<Progress>,
    observe: &mut Observer<'_>,
    all_ended: &dyn Fn() -> bool,
) -> thread::Result<Collector<'p>> {
    let ended = AtomicBool::new(false);
    thread::scope(|beside| {
        // Merging takes a millisecond ten times a second, perhaps on a worker's processor.
        let merging = beside.spawn(|| {
            if spec.under_quota {
                process::go_first();
            } else {
                process::lower_priority();
            }
            while !ended.load(Ordering::Relaxed) {
                thread::sleep(collector.time_to_next(&spec.load));
                collector.collect();
            }
            collector.collect();
            collector.end_last_interval();
            collector
        });
        while !all_ended() {
            pass_on(told, observe, COLLECT_EVERY);
        }
        ended.store(true, Ordering::Relaxed);
        merging.join()
    })
}

/// Passes on what is told until there is nothing for so long.
fn pass_on(told: &mpsc::Receiver<Progress>, observe: &mut Observer<'_>, wait: Duration) {
    while let Ok(progress) = told.recv_timeout(wait) {
        observe(progress);
    }
}

#[cfg(test)]
mod tests;
