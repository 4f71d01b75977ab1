//! The load of an experiment as a foreign load generator holds it.
//!
//! A driver runs for as long as its command says, so it is started again whenever the next
//! window would outlast it. Throughput is counted on the wire: payload over what one
//! exchange weighs. Failures and latencies of a window are not seen, and a failure has bytes like
//! an answer: the judge goes by the driver's own report of the base, and says so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use wallfinder_engine::Signals;
use wallfinder_hosts::Sampling;
use wallfinder_model::record::Interval;
use wallfinder_model::telemetry::Telemetry;
use wallfinder_model::{Environment, Step};
use wallfinder_sys::clock;
use wallfinder_testbed::driver::{Driver, DriverSpec};

use super::lever_set::LeverSet;
use super::{INTERRUPTED, Seen, Source};
use crate::foreign_step::{self, Exchange};
use crate::{ConductError, StepOrder};

/// From a driver's start until its load counts.
const RISE: Duration = Duration::from_millis(1_200);
/// A driver may stop a little before its time.
const END_MARGIN: Duration = Duration::from_millis(300);
/// How long a driver may take to report and end.
const END_WAIT_MAX: Duration = Duration::from_secs(5);

pub(super) struct Foreign {
    order: StepOrder,
    spec: DriverSpec,
    url: String,
    environment: Environment,
    signals: Arc<Signals>,
    exchange: Exchange,
    in_flight: f64,
    /// How long the driver's command lets it run, as far as that is known.
    long: Duration,
    zero_ns: u64,
    run: Option<Run>,
    /// Of every window, by its edges: some are measured again and not asked for.
    telemetry: BTreeMap<(u64, u64), Telemetry>,
    from_ns: i64,
    last_slice_ns: i64,
}

/// One start of the driver.
struct Run {
    driver: Driver,
    sampler: Box<dyn Sampling>,
    /// When its load is over.
    until: Instant,
}

impl Foreign {
    pub(super) fn start(
        order: &StepOrder,
        spec: &DriverSpec,
        url: &str,
        base: &Step,
        environment: &Environment,
        signals: &Arc<Signals>,
        experiment_zero_ns: Option<u64>,
    ) -> Result<Foreign, ConductError> {
        let mut foreign = Foreign {
            order: order.clone(),
            spec: spec.clone(),
            url: url.to_owned(),
            environment: environment.clone(),
            signals: Arc::clone(signals),
            exchange: foreign_step::weigh(order)?.as_measured(base, order),
            in_flight: base.load.in_flight_bound() as f64,
            long: match spec.load().stop.after.0 {
                // A command that is not understood was given this much, if it takes a time.
                0 => Duration::from_nanos(order.load.stop.after.0),
                known => Duration::from_nanos(known),
            },
            zero_ns: experiment_zero_ns.unwrap_or_else(clock::monotonic_ns),
            run: None,
            telemetry: BTreeMap::new(),
            from_ns: 0,
            last_slice_ns: 0,
        };
        foreign.launch()?;
        Ok(foreign)
    }

    fn launch(&mut self) -> Result<(), ConductError> {
        let started = Instant::now();
        let (driver, sampler) = foreign_step::launch(
            &self.order,
            &self.spec,
            &self.url,
            &self.environment,
            self.zero_ns,
        )?;
        self.run = Some(Run {
            driver,
            sampler,
            until: started + self.long,
        });
        self.sleep(RISE)
    }

    fn sleep(&self, time: Duration) -> Result<(), ConductError> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            if self.signals.stop.load(Ordering::Relaxed) {
                return Err(ConductError::Probe(INTERRUPTED.to_owned()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn run(&mut self) -> Result<&mut Run, ConductError> {
        self.run
            .as_mut()
            .ok_or_else(|| ConductError::Driver("the driver is not there".to_owned()))
    }

    /// Ends the driver that runs, which has no time for another window.
    fn finish(&mut self) {
        let Some(mut run) = self.run.take() else {
            return;
        };
        let asked = Instant::now();
        run.driver.interrupt();
        while run.driver.poll() && asked.elapsed() < END_WAIT_MAX {
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(run.sampler.stop());
    }
}

impl Source for Foreign {
    fn wash_out(&mut self, _: &LeverSet) -> Result<(), ConductError> {
        Ok(())
    }

    fn last_for(&mut self, time: Duration) -> Result<(), ConductError> {
        let needed = time + END_MARGIN;
        let long = self.long;
        if long < RISE + needed {
            return Err(ConductError::Driver(format!(
                "the driver's load of {:.1} s is too short to measure anything under a squeeze; \
                 let it run for 20 s or more",
                long.as_secs_f64()
            )));
        }
        let run = self.run()?;
        let lasts = run.driver.poll() && Instant::now() + needed < run.until;
        if !lasts {
            self.finish();
            self.launch()?;
        }
        Ok(())
    }

    fn begin(&mut self, _: &LeverSet) -> Result<(), ConductError> {
        self.from_ns = self.run()?.sampler.mark("window");
        Ok(())
    }

    fn end(&mut self) -> Result<Option<Seen>, ConductError> {
        let from_ns = self.from_ns;
        let run = self.run()?;
        let to_ns = run.sampler.mark("window");
        if !run.driver.poll() {
            return Ok(None);
        }
        let telemetry = run.sampler.summarise(from_ns, to_ns);
        let (link, tcp) = (
            telemetry.link.as_ref().map(|link| link.totals),
            telemetry.tcp,
        );
        let edges = (from_ns.max(0) as u64, to_ns.max(0) as u64);
        self.telemetry.insert(edges, telemetry);
        let link = link.ok_or_else(|| {
            ConductError::Probe("the interface between client and server is not seen".to_owned())
        })?;
        let answers = foreign_step::answers(&link, tcp.as_ref(), &self.order, self.exchange);
        let seconds = (to_ns - from_ns).max(1) as f64 / 1e9;
        Ok(Some(Seen {
            from_ns: edges.0,
            to_ns: edges.1,
            answered: answers.round() as u64,
            throughput: answers / seconds,
            ..Seen::default()
        }))
    }

    fn intervals(&mut self) -> Vec<Interval> {
        let sample = self.run.as_ref().and_then(|run| run.sampler.latest());
        let Some(sample) = sample.filter(|sample| sample.at_ns > self.last_slice_ns) else {
            return Vec::new();
        };
        self.last_slice_ns = sample.at_ns;
        let mut slice = foreign_step::slice(&sample, &self.order, self.exchange);
        slice.in_flight = self.in_flight as u64;
        vec![slice]
    }

    fn zero_ns(&self) -> u64 {
        self.zero_ns
    }

    fn client_pids(&self) -> Vec<u32> {
        self.run.iter().map(|run| run.driver.pid()).collect()
    }

    fn close(mut self: Box<Self>, windows: &[(u64, u64)]) -> Result<Vec<Telemetry>, ConductError> {
        self.finish();
        let of = |edges: &(u64, u64)| self.telemetry.remove(edges).unwrap_or_default();
        Ok(windows.iter().map(of).collect())
    }
}
