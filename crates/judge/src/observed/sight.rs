//! What a step's telemetry shows, made safe and put in one unit: cores, shares, seconds.
//!
//! It weighs nothing. A value that a probe did not deliver is `None` here, and a value
//! that cannot be (NaN, negative) counts as not delivered.

use wallfinder_model::reason::{Capacity, Side as Which};
use wallfinder_model::telemetry::{CoreSample, FamilySummary};
use wallfinder_model::{Environment, Step};

use crate::caveats;
use crate::finite::{known, positive, ratio, share};

/// A side that used at most this share of what it may use, this many cores, and this share of a processor
/// with its busiest thread, used next to nothing.
const RESTS: (f64, f64, f64) = (0.10, 0.25, 0.25);
/// Processors this busy leave no room.
const CROWDED_OUT: f64 = 0.90;

/// A worker this busy was full.
pub(super) const FULL: f64 = 0.95;

/// A step as the judge sees it.
pub(super) struct Sight<'s> {
    pub(super) step: &'s Step,
    /// Good answers per second.
    pub(super) throughput: f64,
    pub(super) client: Option<Side>,
    pub(super) server: Option<Side>,
    pub(super) workers: Option<Workers>,
    pub(super) downlink: Option<f64>,
    pub(super) uplink: Option<f64>,
    /// Processors that both sides may run on.
    pub(super) shared_cpus: Vec<u32>,
    /// Mean stolen share of the processors in use.
    pub(super) steal: f64,
    /// Throughput over the engine's calibrated ceiling.
    pub(super) ceiling_share: Option<f64>,
    /// Mean time in flight, seconds.
    pub(super) response_s: Option<f64>,
}

/// One family of processes and the processors it may use.
pub(super) struct Side {
    pub(super) name: String,
    pub(super) cpus: Vec<u32>,
    /// Cores it may use: processors, or its quota where that is less.
    pub(super) available: f64,
    /// Cores it used.
    pub(super) used: f64,
    /// Used over available.
    pub(super) utilisation: f64,
    /// Its quota, where that is less than its processors.
    pub(super) quota: Option<f64>,
    pub(super) throttled: f64,
    pub(super) hottest: Option<(String, f64)>,
    pub(super) threads: u32,
    pub(super) processes: u32,
    /// Cores that its threads waited for.
    pub(super) run_wait: f64,
    /// Cores of its processors that went to others.
    pub(super) neighbour: f64,
    /// Cores of its processors that went to the relay that delays the link.
    pub(super) relay: f64,
    /// Busy share of its processors, everybody's work included.
    pub(super) cpus_busy: f64,
    /// Softirq share of its processors.
    pub(super) softirq: f64,
    /// Share of its processors that worked on interrupts in nobody's thread, which its own use leaves out.
    pub(super) interrupts: f64,
    /// The busiest of its processors.
    pub(super) fullest: Option<CoreSample>,
    /// Share of its processors that were full on their own.
    pub(super) full_cpus: Option<f64>,
}

/// The engine's workers together.
pub(super) struct Workers {
    pub(super) count: usize,
    /// Mean busy share, weighted by answers.
    pub(super) busy: f64,
    /// The busiest.
    pub(super) busiest: f64,
    /// Share of the answers that came through workers that were full.
    pub(super) full_share: f64,
    /// They poll without sleeping, so that a busy processor says nothing.
    pub(super) spinning: bool,
    /// They said how long they polled for nothing, so that `busy` is their work alone.
    pub(super) counted_polls: bool,
}

impl<'s> Sight<'s> {
    pub(super) fn of(step: &'s Step, environment: &Environment) -> Sight<'s> {
        let throughput = known(step.throughput).unwrap_or(0.0);
        let telemetry = &step.telemetry;
        let link = telemetry.link.as_ref();
        // The rate that is stated is the downlink's; the uplink may have another one.
        let counted_down = || {
            let (bytes, rate) = (link?.totals.tx_bytes, link?.rate_bits?);
            let bits = ratio(bytes as f64 * 8e9, telemetry.window_ns as f64)?;
            ratio(bits, rate as f64)
        };
        Sight {
            step,
            throughput,
            client: telemetry
                .client
                .as_ref()
                .and_then(|family| Side::of(family, &telemetry.cores, step, environment)),
            server: telemetry
                .server
                .as_ref()
                .and_then(|family| Side::of(family, telemetry.server_cores(), step, environment)),
            workers: Workers::of(step),
            downlink: link
                .and_then(|link| link.downlink_share.and_then(known))
                .or_else(counted_down),
            uplink: link.and_then(|link| link.uplink_share.and_then(known)),
            shared_cpus: caveats::shared_cpus(step),
            steal: caveats::steal(step),
            ceiling_share: step
                .ceiling
                .as_ref()
                .and_then(|ceiling| ratio(throughput, ceiling.throughput)),
            response_s: step
                .service
                .as_ref()
                .or(step.latency.as_ref())
                .and_then(|time| positive(time.mean_ns / 1e9)),
        }
    }

    /// The sides that were seen.
    pub(super) fn sides(&self) -> impl Iterator<Item = (Which, &Side)> {
        let server = self.server.iter().map(|side| (Which::Server, side));
        server.chain(self.client.iter().map(|side| (Which::Client, side)))
    }

    /// Whether workers poll without sleeping.
    pub(super) fn polls(&self) -> bool {
        self.workers
            .as_ref()
            .is_some_and(|workers| workers.spinning)
    }

    /// How busy the load generator was, by the best measure there is; `None` where being
    /// busy says nothing.
    pub(super) fn client_busy(&self) -> Option<f64> {
        let workers = self.workers.as_ref();
        if let Some(workers) = workers.filter(|workers| workers.counted_polls) {
            return Some(workers.busy);
        }
        if self.polls() {
            return self.ceiling_share.map(|share| share.min(1.0));
        }
        let workers = workers.map(|workers| workers.busy);
        let family = self.client.as_ref().map(|side| {
            let hottest = side.hottest.as_ref().map_or(0.0, |(_, share)| *share);
            let thread = side.plateau().map_or(0.0, |_| hottest);
            side.utilisation.max(thread)
        });
        match (workers, family) {
            (Some(workers), Some(family)) => Some(workers.max(family)),
            (one, other) => one.or(other),
        }
    }
}

/// Whether a family that was watched has no process left: what it used is then of a part of the window,
/// and tells nothing of how busy it was.
fn has_ended(family: &FamilySummary) -> bool {
    family.processes == 0
}

/// Threads of which a whole number is no chance.
const PLATEAU_MAX: f64 = 8.0;

impl Side {
    /// `None` where nothing is known of it: no CPU time, or it had ended when the window closed. `cores` are its
    /// host's.
    fn of(
        family: &FamilySummary,
        cores: &[CoreSample],
        step: &Step,
        environment: &Environment,
    ) -> Option<Side> {
        if has_ended(family) {
            return None;
        }
        let window_ns = positive(step.telemetry.window_ns as f64)
            .or(positive(step.window_ns as f64))
            .unwrap_or(0.0);
        let cpus = match family.cpus_allowed.len() {
            0 => f64::from(environment.cpus).max(1.0),
            n => n as f64,
        };
        let cpus_known = family.cpus_allowed.len().max(1) as f64;
        let quota = family
            .quota_cores
            .and_then(positive)
            .filter(|quota| *quota < cpus);
        let available = quota.unwrap_or(cpus);
        let stated = known(family.utilisation);
        let counted = ratio(family.cpu_ns as f64, window_ns).filter(|used| *used > 0.0);
        let used = counted.or(stated.map(|u| u * available))?;
        let utilisation = stated.filter(|u| *u > 0.0).unwrap_or(used / available);
        let own: Vec<&CoreSample> = cores
            .iter()
            .filter(|core| family.cpus_allowed.contains(&core.cpu))
            .collect();
        let busy = |core: &CoreSample| share(f64::from(core.busy()));
        let full = own.iter().filter(|core| busy(core) >= FULL).count();
        Some(Side {
            name: family.name.clone(),
            cpus: family.cpus_allowed.clone(),
            available,
            used,
            utilisation: utilisation.min(1.5),
            quota,
            throttled: share(family.throttled_share),
            hottest: family
                .hottest_thread
                .as_ref()
                .map(|thread| (thread.name.clone(), share(thread.share))),
            threads: family.threads,
            processes: family.processes,
            run_wait: known(family.run_wait_cores).unwrap_or(0.0),
            neighbour: caveats::neighbour_cores(family),
            relay: (step.telemetry.relay.as_ref())
                .map_or(0.0, |relay| relay.cores_of(&family.cpus_allowed)),
            cpus_busy: share(family.cpus_busy),
            softirq: share(family.cpus_softirq),
            interrupts: share(caveats::interrupt_cores(family) / cpus_known),
            fullest: own
                .iter()
                .max_by(|a, b| busy(a).total_cmp(&busy(b)))
                .map(|core| **core),
            full_cpus: (!own.is_empty()).then(|| full as f64 / own.len() as f64),
        })
    }

    /// Cores used and waited for, over those available: 1 and more where its threads always
    /// ran or wanted to.
    pub(super) fn pressure(&self) -> f64 {
        (self.used + self.run_wait) / self.available
    }

    /// Share of its processors that others used.
    pub(super) fn crowded(&self) -> f64 {
        self.neighbour / self.cpus.len().max(1) as f64
    }

    /// Whether it used next to nothing of its processors: whatever fills them, they are no wall of its.
    pub(super) fn rests(&self) -> bool {
        let (of_its, cores, of_one) = RESTS;
        let hottest = self.hottest.as_ref().map_or(0.0, |(_, share)| *share);
        self.used <= of_its * self.available && self.used <= cores && hottest <= of_one
    }

    /// Whether others had its processors, which had no time left, for the greater part.
    pub(super) fn is_crowded_out(&self) -> bool {
        self.cpus_busy >= CROWDED_OUT && self.crowded() >= 0.5
    }

    /// Threads that were all full, where the CPU time used is that of a whole number of
    /// full threads: `node` with one, or four workers of it with four.
    pub(super) fn plateau(&self) -> Option<u32> {
        let (_, hottest) = self.hottest.as_ref()?;
        if *hottest < 0.90 {
            return None;
        }
        let in_threads = self.used / hottest;
        let threads = in_threads.round().max(1.0);
        // Of many threads any sum is near some whole number, and tells nothing.
        if threads > PLATEAU_MAX {
            return None;
        }
        let off = 0.06 * threads.min(3.0);
        // Helpers beside one hot loop (collector, compiler) take up to a third of a core.
        let helpers = if threads == 1.0 { 0.35 } else { off };
        let full = (threads - off..=threads + helpers).contains(&in_threads);
        full.then_some(threads as u32)
    }

    /// What it may use.
    pub(super) fn capacity(&self) -> Capacity {
        Capacity {
            cores: self.available,
            quota: self.quota.is_some(),
        }
    }
}

impl Workers {
    fn of(step: &Step) -> Option<Workers> {
        if step.workers.is_empty() {
            return None;
        }
        let workers = &step.workers;
        let answers: f64 = workers.iter().map(|worker| worker.answered as f64).sum();
        let weight =
            |answered: u64| ratio(answered as f64, answers).unwrap_or(1.0 / workers.len() as f64);
        let busy = |worker: &wallfinder_model::record::WorkerSummary| share(worker.busy_share);
        let waits: f64 = workers.iter().map(|worker| worker.waits as f64).sum();
        let events: f64 = workers.iter().map(|worker| worker.events as f64).sum();
        let counted_polls = workers.iter().any(|worker| worker.polled_ns > 0);
        let busiest = workers.iter().map(busy).fold(0.0, f64::max);
        Some(Workers {
            count: workers.len(),
            busy: workers.iter().map(|l| busy(l) * weight(l.answered)).sum(),
            busiest,
            full_share: workers
                .iter()
                .filter(|worker| busy(worker) >= FULL)
                .map(|worker| weight(worker.answered))
                .sum(),
            counted_polls,
            // A worker with work finds events at every wait; one that polls finds none at most.
            spinning: counted_polls || busiest >= 0.9 && waits > 2.0 * events && waits > 0.0,
        })
    }
}
