//! An experiment, conducted: one load held while one resource is squeezed, or several at once.
//!
//! What it is: the loop of windows. Which squeezes, in which order and how often is the
//! judge's word; how a resource is squeezed is the stage's and the engine's; here they are
//! put together, and what happened is written down. What it is not: it concludes nothing.
//!
//! ```text
//!  judge::proof::next ──► rounds ──► block ──► window: set ─► wash-out ─► measure ─► check
//!         ▲                  │                                               │
//!         │                  └► every other one: load ends, server anew, load begins
//!         └──────────────────────── Experiment ◄─────────────────────────────┘
//! ```
//!
//! Invariants: in every window all machinery stands, at no dose where it is not the one
//! squeezed; whatever ends an experiment, every lever goes back to no dose.

mod by_driver;
mod by_engine;
mod lever_set;
mod padding;
mod resting;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use wallfinder_engine::Signals;
use wallfinder_hosts::{self as hosts, Pace, ServerHost};
use wallfinder_judge::caveats::of_relay;
use wallfinder_judge::identity;
use wallfinder_judge::proof::looks::{self, ConditionOrder, Next};
use wallfinder_judge::proof::{WASH_OUT_MAX_S, design};
use wallfinder_model::experiment::{
    Condition, Connections, Effort, Experiment, OutOfReach, Setting, Squeeze, Window,
};
use wallfinder_model::record::Interval;
use wallfinder_model::telemetry::Telemetry;
use wallfinder_model::{Caveat, Environment, Step};
use wallfinder_sys::clock;
use wallfinder_testbed::squeeze::Lever;

use crate::{ConductError, Producer, StepOrder, relayed};
use lever_set::{Checked, LeverSet};

/// What is squeezed, and with what.
pub struct ExperimentOrder<'o> {
    /// The load to be held.
    pub step: &'o StepOrder,
    /// The same load, measured before: it says how long a window must be.
    pub base: &'o Step,
    /// How much time it may take.
    pub effort: Effort,
    /// How long a window is to be; by the effort and the base without it.
    pub window: Option<Duration>,
    /// Seed of the order of windows.
    pub seed: u64,
    /// Levers of the apparatus.
    pub levers: Vec<Box<dyn Lever>>,
    /// Squeezes that are known to be out of reach.
    pub out_of_reach: Vec<OutOfReach>,
    /// Where it runs.
    pub setting: Setting,
    /// Every squeeze is replaced by its sham: nothing may then be named a wall.
    pub null: bool,
    /// Who can start the server anew, where it is ours.
    pub restart: Option<&'o mut dyn Restart>,
}

/// Who can start the server anew.
pub trait Restart {
    /// Ends the server and starts it again at the same address. An error says why there is no server now.
    fn restart(&mut self) -> Result<Restarted, String>;
}

/// A server that was started anew.
pub struct Restarted {
    /// Its host, with its processes where they are seen.
    pub host: Arc<dyn ServerHost>,
    /// Why what is made before a load was not made at it, where that failed.
    pub unprepared: Option<String>,
}

/// Hears how an experiment goes.
pub trait ExperimentAudience {
    /// A window begins: what is squeezed in it, and how long the experiment may still take.
    fn window_begins(&mut self, condition: &Condition, left: Duration) {
        let _ = (condition, left);
    }

    /// A window has ended; it is the experiment's last. Its telemetry is not known yet.
    fn window_ends(&mut self, experiment: &Experiment) {
        let _ = experiment;
    }

    /// The server is being started anew.
    fn server_restarts(&mut self) {}

    /// An interval has ended.
    fn interval(&mut self, interval: &Interval) {
        let _ = interval;
    }
}

/// What came of one window, before telemetry is added.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    from_ns: u64,
    to_ns: u64,
    answered: u64,
    failed: u64,
    throughput: f64,
    in_flight_mean: Option<f64>,
    latency_mean_ns: Option<f64>,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    /// What the engine's workers had left of their speed: work over work and spinning.
    speed: Option<f64>,
}

/// What holds the load.
pub(crate) trait Source {
    /// Applies what the load generator itself squeezes, outside of any measured window.
    fn wash_out(&mut self, lever_set: &LeverSet) -> Result<(), ConductError>;
    /// Makes sure that the load will last so long.
    fn last_for(&mut self, time: Duration) -> Result<(), ConductError>;
    /// Begins to measure.
    fn begin(&mut self, lever_set: &LeverSet) -> Result<(), ConductError>;
    /// Ends the window; the load goes on. `None` where the load did not last for all of it.
    fn end(&mut self) -> Result<Option<Seen>, ConductError>;
    /// For how long everything stood still while the load was waited for, since the last call.
    fn stood_still(&mut self) -> Duration {
        Duration::ZERO
    }
    /// Slices that have ended since the last call.
    fn intervals(&mut self) -> Vec<Interval>;
    /// What its instants count from, in monotonic time.
    fn zero_ns(&self) -> u64;
    /// Processes that make the load now, where it is not this one.
    fn client_pids(&self) -> Vec<u32>;
    /// Ends the load, and gives telemetry of each of its windows.
    fn close(self: Box<Self>, windows: &[(u64, u64)]) -> Result<Vec<Telemetry>, ConductError>;
}

/// Holds the load and squeezes until the judge has enough. `signals` end it early, with
/// what there is. Beside the experiment come doubts about its measuring: when this process
/// stood still.
pub fn experiment(
    order: ExperimentOrder<'_>,
    environment: &Environment,
    signals: &Arc<Signals>,
    audience: &mut dyn ExperimentAudience,
) -> Result<(Experiment, Vec<Caveat>), ConductError> {
    let loads = Loads {
        step: order.step.clone(),
        base: order.base,
        environment,
        signals,
        zero_ns: None,
    };
    let mut out_of_reach = order.out_of_reach;
    let lever_set = LeverSet::new(
        order.step,
        order.base,
        order.levers,
        order.null,
        &mut out_of_reach,
    );
    let mut experiment = Experiment {
        seed: order.seed,
        effort: order.effort,
        conditions: vec![Condition::sham()],
        windows: Vec::new(),
        out_of_reach,
        setting: order.setting,
        intervals: Vec::new(),
        cut_short: None,
        alone: None,
    };
    // Under a quota of its own it would take from the workers, of which there is little.
    let setting = &experiment.setting;
    let pace = setting.client_quota_cores.is_none().then(|| {
        let sides = [setting.server_cpus.clone(), setting.client_cpus.clone()];
        hosts::pace(order.step.sides(), sides)
    });
    let mut conducting = Conducting {
        loads,
        source: None,
        of_source: 0,
        lever_set,
        times: Times::of(order.base, order.effort, order.window),
        signals,
        audience,
        restart: order.restart.map(|restart| restart as &mut dyn Restart),
        restarts: 0,
        unprepared: None,
        round: 0,
        slices: Vec::new(),
        gaps: Vec::new(),
        open: Vec::new(),
        pace,
    };
    tracing::info!(
        effort = ?order.effort,
        window_ms = conducting.times.window.as_millis() as u64,
        wash_out_ms = conducting.times.wash_out.as_millis() as u64,
        seed = order.seed,
        null = order.null,
        "experiment begins"
    );
    for out in &experiment.out_of_reach {
        tracing::info!(squeeze = out.squeeze.label(), why = %out.why, "squeeze is out of reach");
    }
    relayed(order.step);
    let ended = conducting.all(&mut experiment);
    let relayed = relayed(order.step);
    conducting.lever_set.release();
    let closed = conducting.end_load(&mut experiment);
    let connections = conducting.connections();
    if let Some(unprepared) = conducting.unprepared.filter(|unprepared| unprepared.fails) {
        experiment.intervals.truncate(unprepared.from.1);
    }
    let ended = ended.and(closed);
    match &ended {
        Ok(()) => tracing::info!(windows = experiment.windows.len(), "experiment has ended"),
        Err(error) => {
            tracing::warn!(windows = experiment.windows.len(), %error, "experiment is cut short");
        }
    }
    match ended {
        Err(error) if experiment.windows.is_empty() => return Err(error),
        Err(error) => experiment.cut_short = Some(error.to_string()),
        Ok(()) => {}
    }
    experiment.setting.connections = connections;
    let mut doubts = conducting.gaps;
    doubts.extend(relayed.as_ref().and_then(of_relay));
    Ok((experiment, doubts))
}

/// What a load is begun from, at every start of the server.
struct Loads<'l> {
    step: StepOrder,
    base: &'l Step,
    environment: &'l Environment,
    signals: &'l Arc<Signals>,
    /// The first load's zero: the experiment's.
    zero_ns: Option<u64>,
}

impl Loads<'_> {
    /// Begins a load, of several hosts with so many connections that stand by.
    fn begin(&mut self, standby: u32) -> Result<Box<dyn Source>, ConductError> {
        let step = &self.step;
        let source: Box<dyn Source> = match &step.producer {
            Producer::Engine(io) => Box::new(by_engine::Engine::start(
                step,
                *io,
                self.environment,
                self.signals,
                self.zero_ns,
                standby,
            )?),
            Producer::Foreign { spec, url } => Box::new(by_driver::Foreign::start(
                step,
                spec,
                url,
                self.base,
                self.environment,
                self.signals,
                self.zero_ns,
            )?),
        };
        self.zero_ns.get_or_insert(source.zero_ns());
        Ok(source)
    }
}

/// How long windows are.
#[derive(Debug, Clone, Copy)]
struct Times {
    wash_out: Duration,
    window: Duration,
}

impl Times {
    /// Long enough for a thousand answers, and washed out five times as long as the slow
    /// ones take. Who names a window gets it, and washes out at most half as long where
    /// nothing is slow.
    fn of(base: &Step, effort: Effort, window: Option<Duration>) -> Times {
        const ANSWERS_MIN: f64 = 1_000.0;
        let (wash_out_s, window_s, window_max_s): (f64, f64, f64) = match effort {
            Effort::Quick => (0.25, 0.5, 0.8),
            Effort::Normal => (0.3, 0.7, 1.0),
            Effort::Thorough => (0.4, 1.0, 3.0),
        };
        let p99_s = base
            .latency
            .as_ref()
            .and_then(|latency| latency.quantile_ns("p99"))
            .unwrap_or(0) as f64
            / 1e9;
        let answers_s = ANSWERS_MIN / base.throughput.max(1.0);
        let within = |least: f64, wanted: f64, most: f64| wanted.clamp(least, most.max(least));
        let wash_out_s = match window {
            Some(window) => wash_out_s.min(window.as_secs_f64() / 2.0),
            None => wash_out_s,
        };
        let wash_out_s = within(wash_out_s, 5.0 * p99_s, WASH_OUT_MAX_S);
        let window_s = within(window_s, answers_s, window_max_s);
        Times {
            wash_out: Duration::from_secs_f64(wash_out_s),
            window: window.unwrap_or(whole_periods(window_s)),
        }
    }

    fn each(self) -> Duration {
        self.wash_out + self.window
    }
}

/// A processor's time under a quota comes in bursts, one in each period: a window that holds
/// whole periods holds whole bursts.
fn whole_periods(seconds: f64) -> Duration {
    const PERIOD_MS: f64 = 100.0;
    Duration::from_millis((seconds * 1e3 / PERIOD_MS).ceil() as u64 * PERIOD_MS as u64)
}

/// A sleep of some milliseconds that takes so long: everything stood still, by a debugger, a
/// suspended machine, or SIGSTOP.
const STOOD_STILL: Duration = Duration::from_secs(1);
/// How often a window is tried whose load ended within it.
const TRIES_MAX: u32 = 3;
/// So many windows in a row without an answer, where there should have been so many in each, and the server
/// is taken to be gone.
const SILENT_WINDOWS: usize = 2;
const EXPECTED_MIN: f64 = 20.0;
/// By how much the share of failures may rise at a server that was not prepared.
const UNPREPARED_FAILURES_MAX: f64 = 0.01;
/// Interrupted by a signal.
const INTERRUPTED: &str = "interrupted";

/// A server at which what is made before a load failed.
struct Unprepared {
    /// Why.
    why: String,
    /// The first window there, and the first interval.
    from: (usize, usize),
    /// Requests failed there, and what was measured there counts for nothing.
    fails: bool,
}

struct Conducting<'c> {
    loads: Loads<'c>,
    /// The load that is held; none while the server is started.
    source: Option<Box<dyn Source>>,
    /// The first of its windows.
    of_source: usize,
    lever_set: LeverSet,
    times: Times,
    signals: &'c Arc<Signals>,
    audience: &'c mut dyn ExperimentAudience,
    restart: Option<&'c mut dyn Restart>,
    restarts: u32,
    /// Since a start at which what is made before a load failed.
    unprepared: Option<Unprepared>,
    round: u32,
    /// Slices that have ended since the last window.
    slices: Vec<Interval>,
    /// When this process stood still: what was measured meanwhile was measured again.
    gaps: Vec<Caveat>,
    /// Connections open to the server, by window.
    open: Vec<u32>,
    pace: Option<Box<dyn Pace>>,
}

impl Conducting<'_> {
    fn all(&mut self, experiment: &mut Experiment) -> Result<(), ConductError> {
        self.source = Some(self.loads.begin(self.lever_set.standby)?);
        loop {
            let Next::Rounds { rounds, conditions } = looks::next(experiment) else {
                tracing::info!(rounds = self.round, "judge looks: that is enough");
                return Ok(());
            };
            let squeezes = conditions.iter().map(|of| {
                let labels: Vec<&str> = of.squeezes.iter().map(|it| it.label()).collect();
                format!("{}@{}", labels.join("+"), of.retained)
            });
            tracing::info!(
                rounds_so_far = self.round,
                rounds,
                squeezes = %squeezes.collect::<Vec<_>>().join(", "),
                "judge looks: more rounds are designed"
            );
            let indices: Vec<usize> = conditions
                .iter()
                .map(|wanted| self.condition(experiment, wanted))
                .collect();
            for _ in 0..rounds {
                if design::restarts_before(experiment.effort, self.round) {
                    self.restart(experiment)?;
                }
                for index in design::block(experiment.seed, self.round, &indices) {
                    let window = self.window(experiment, index)?;
                    experiment.windows.push(window);
                    experiment.intervals.append(&mut self.slices);
                    self.audience.window_ends(experiment);
                    if self.fails_unprepared(experiment) {
                        return Ok(());
                    }
                    self.answers_come(experiment)?;
                }
                self.round += 1;
            }
        }
    }

    /// Whether requests fail at a server that nothing was prepared at, and did not before: its windows are taken back.
    /// Where something is squeezed they may fail for that.
    fn fails_unprepared(&mut self, experiment: &mut Experiment) -> bool {
        let (Some(unprepared), Some(last)) = (&mut self.unprepared, experiment.windows.last())
        else {
            return false;
        };
        if last.condition != 0 {
            return false;
        }
        let failed = |answered: u64, failed: u64| failed as f64 / (answered + failed).max(1) as f64;
        let before = identity::failure_share(&self.loads.base.counts);
        let is_well = last.answered > 0
            && failed(last.answered, last.failed) <= before + UNPREPARED_FAILURES_MAX;
        if is_well {
            return false;
        }
        tracing::warn!(why = %unprepared.why, "experiment ends: requests fail at a server that was not prepared");
        self.gaps.push(Caveat::UnpreparedServerFails);
        unprepared.fails = true;
        experiment.windows.truncate(unprepared.from.0);
        true
    }

    /// An error where the server answers no more: more windows would tell nothing.
    fn answers_come(&self, experiment: &Experiment) -> Result<(), ConductError> {
        let expected = self.loads.base.throughput * self.times.window.as_secs_f64();
        let last = experiment.windows.len().saturating_sub(SILENT_WINDOWS);
        let last = &experiment.windows[last..];
        let is_silent = last.len() == SILENT_WINDOWS && last.iter().all(|w| w.answered == 0);
        match is_silent && expected >= EXPECTED_MIN {
            true => Err(ConductError::Subject(format!(
                "nothing was answered in {SILENT_WINDOWS} windows in a row, where {expected:.0} \
                 answers were to be expected in each; is the server still running?"
            ))),
            false => Ok(()),
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        let source = self.source.as_mut();
        &mut **source.expect("a load is held while windows are measured")
    }

    /// Starts the server anew, where it is ours. The load ends before it: that the server
    /// goes is no failure of any request.
    fn restart(&mut self, experiment: &mut Experiment) -> Result<(), ConductError> {
        if self.restart.is_none() {
            return Ok(());
        }
        self.lever_set.squeeze(&[], 1.0)?;
        self.end_load(experiment)?;
        self.audience.server_restarts();
        let Some(restart) = &mut self.restart else {
            return Ok(());
        };
        let Restarted {
            host: server,
            unprepared,
        } = restart.restart().map_err(ConductError::Subject)?;
        self.restarts += 1;
        if let Some(why) = unprepared {
            self.gaps.push(Caveat::UnpreparedServer {
                why: why.clone(),
                round: self.round + 1,
            });
            self.unprepared = Some(Unprepared {
                why,
                from: (experiment.windows.len(), experiment.intervals.len()),
                fails: false,
            });
            self.restart = None;
        }
        tracing::info!(
            restarts = self.restarts,
            before_round = self.round,
            "server is started anew"
        );
        let pids = server.family().map(|family| family.pids.clone());
        self.lever_set.server_is(&pids.unwrap_or_default())?;
        self.loads.step.server = server;
        self.source = Some(self.loads.begin(self.lever_set.standby)?);
        Ok(())
    }

    /// Ends the load that is held, if one is, and adds telemetry to its windows.
    fn end_load(&mut self, experiment: &mut Experiment) -> Result<(), ConductError> {
        let Some(mut source) = self.source.take() else {
            return Ok(());
        };
        experiment.intervals.append(&mut self.slices);
        experiment.intervals.extend(source.intervals());
        let windows = &mut experiment.windows[self.of_source..];
        let spans: Vec<(u64, u64)> = windows
            .iter()
            .map(|window| (window.from_ns, window.to_ns))
            .collect();
        let telemetry = source.close(&spans)?;
        for (window, telemetry) in windows.iter_mut().zip(&telemetry) {
            add_telemetry(window, telemetry);
            let sockets = telemetry.server_sockets.as_ref();
            self.open.extend(sockets.map(|sockets| sockets.sockets));
        }
        self.of_source = experiment.windows.len();
        Ok(())
    }

    /// What a foreign driver made of the connections that it was asked for.
    fn connections(&mut self) -> Option<Connections> {
        if !matches!(self.loads.step.producer, Producer::Foreign { .. }) {
            return None;
        }
        self.open.sort_unstable();
        let open = *self.open.get(self.open.len() / 2)?;
        let asked = self.loads.step.load.connections;
        Some(Connections { asked, open })
    }

    /// The index of a condition, which is added where it is new.
    fn condition(&self, experiment: &mut Experiment, wanted: &ConditionOrder) -> usize {
        let conditions = &mut experiment.conditions;
        let known = conditions.iter().position(|condition| wanted.is(condition));
        known.unwrap_or_else(|| {
            conditions.push(wanted.condition(self.lever_set.how(&wanted.squeezes)));
            conditions.len() - 1
        })
    }

    fn window(&mut self, experiment: &Experiment, index: usize) -> Result<Window, ConductError> {
        let condition = &experiment.conditions[index];
        let spent = experiment.windows.last().map_or(0, |window| window.to_ns);
        let left = looks::longest(experiment.effort).saturating_sub(Duration::from_nanos(spent));
        self.audience.window_begins(condition, left);
        let squeezes: Vec<Squeeze> = condition.squeezes().collect();
        let mut tries = 0;
        let (seen, checks, (from_ns, to_ns)) = loop {
            let gaps = self.gaps.len();
            let source = self.source.as_mut().expect("a load is held");
            source.last_for(self.times.each())?;
            let began = Instant::now();
            self.lever_set.client_is(source.client_pids())?;
            self.lever_set.squeeze(&squeezes, condition.retained)?;
            source.wash_out(&self.lever_set)?;
            self.pass(self.times.wash_out)?;
            self.note_gap(began.elapsed().saturating_sub(self.times.wash_out));
            let source = self.source.as_mut().expect("a load is held");
            source.begin(&self.lever_set)?;
            let began = Instant::now();
            self.lever_set.begin_window();
            let from_ns = clock::monotonic_ns();
            self.pass(self.times.window)?;
            let checks = self.lever_set.end_window();
            let span = (from_ns, clock::monotonic_ns());
            // Wherever it happened: what was not asked for to pass stood still.
            self.note_gap(began.elapsed().saturating_sub(self.times.window));
            let seen = self.source().end()?;
            let waited = self.source().stood_still();
            self.note_gap(waited);
            let stood_still = self.gaps.len() > gaps;
            if let Some(seen) = seen.filter(|_| !stood_still) {
                break (seen, checks, span);
            }
            tries += 1;
            tracing::info!(tries, stood_still, "window is measured again");
            if tries == TRIES_MAX {
                let why = match stood_still {
                    true => "the machine or this process stood still, again and again",
                    false => "the driver ended before its time, again and again",
                };
                return Err(ConductError::Driver(why.to_owned()));
            }
        };
        let Checked {
            check,
            without,
            retained_each,
        } = self.lever_set.checked(checks, &seen);
        let check = check.unwrap_or_default();
        tracing::debug!(
            round = self.round,
            squeezes = ?squeezes,
            asked = condition.retained,
            retained = check.retained.map(|share| (share * 1e3).round() / 1e3),
            in_force = check.in_force,
            throughput = seen.throughput.round(),
            check = (!check.text.is_empty()).then_some(check.text.as_str()),
            "window is measured"
        );
        let pace = self.pace.as_ref();
        let [server_reference_ns, client_reference_ns] =
            pace.map_or([None, None], |pace| pace.times_ns(from_ns, to_ns));
        Ok(Window {
            round: self.round,
            condition: index as u32,
            restart: self.restarts,
            from_ns: seen.from_ns,
            to_ns: seen.to_ns,
            answered: seen.answered,
            failed: seen.failed,
            throughput: seen.throughput,
            in_flight_mean: seen.in_flight_mean,
            latency_mean_ns: seen.latency_mean_ns,
            p50_ns: seen.p50_ns,
            p99_ns: seen.p99_ns,
            retained: check.retained,
            in_force: check.in_force,
            without,
            retained_each,
            check: check.text,
            server_cores: None,
            client_cores: None,
            steal_share: 0.0,
            server_reference_ns,
            client_reference_ns,
        })
    }

    /// What takes milliseconds took so long until now: notes it, if that was standing still.
    fn note_gap(&mut self, took: Duration) {
        if took > STOOD_STILL {
            let zero_ns = self.source().zero_ns();
            let now_ns = clock::monotonic_ns();
            self.gaps.push(Caveat::Gap {
                gap_ns: took.as_nanos() as u64,
                at_ns: now_ns.saturating_sub(self.loads.zero_ns.unwrap_or(zero_ns)),
            });
        }
    }

    /// Lets time pass; a signal ends it.
    fn pass(&mut self, time: Duration) -> Result<(), ConductError> {
        const LOOK_EVERY: Duration = Duration::from_millis(50);
        let until = Instant::now() + time;
        loop {
            if self.signals.stop.load(Ordering::Relaxed) {
                return Err(ConductError::Probe(INTERRUPTED.to_owned()));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK_EVERY));
            for interval in self.source().intervals() {
                self.audience.interval(&interval);
                self.slices.push(interval);
            }
        }
    }
}

fn add_telemetry(window: &mut Window, telemetry: &Telemetry) {
    let seconds = telemetry.window_ns as f64 / 1e9;
    if seconds <= 0.0 {
        return;
    }
    let cores = |cpu_ns: u64| Some(cpu_ns as f64 / 1e9 / seconds);
    window.server_cores = telemetry.server.as_ref().and_then(|f| cores(f.cpu_ns));
    window.client_cores = telemetry.client.as_ref().and_then(|f| cores(f.cpu_ns));
    window.steal_share = steal(telemetry);
}

/// Mean stolen share of the processors that a side may use, 0..1; of all, where that is unknown.
fn steal(telemetry: &Telemetry) -> f64 {
    let used = telemetry.cores_in_use();
    let shares: Vec<f64> = used.iter().map(|core| f64::from(core.steal)).collect();
    shares.iter().sum::<f64>() / shares.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use wallfinder_model::telemetry::{CoreSample, FamilySummary};

    #[test]
    fn steal_is_that_of_the_sides_processors() {
        let stolen_of = |cpu, steal| CoreSample {
            cpu,
            steal,
            ..CoreSample::default()
        };
        let on = |cpu: u32| {
            Some(FamilySummary {
                cpus_allowed: vec![cpu],
                ..FamilySummary::default()
            })
        };
        let mut cores: Vec<CoreSample> = (0..32).map(|cpu| stolen_of(cpu, 0.0)).collect();
        cores[3].steal = 0.25;
        cores[4].steal = 0.5;
        let mut telemetry = Telemetry {
            window_ns: 1_000_000_000,
            cores,
            server: on(3),
            client: on(4),
            ..Telemetry::default()
        };
        assert_eq!(steal(&telemetry), 0.375);
        telemetry.client = None;
        assert_eq!(steal(&telemetry), 0.25);
        telemetry.server = None;
        assert_eq!(steal(&telemetry), 0.75 / 32.0, "of all");
        telemetry.cores.clear();
        assert_eq!(steal(&telemetry), 0.0);
    }
}
