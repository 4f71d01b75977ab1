//! A step driven by somebody else's load generator, observed in the same way.
//!
//! The driver is a child process; the probes watch it as they watch our workers. When its
//! load begins and ends is read off the link, since a driver takes its time to start and
//! to report. Throughput is the driver's own word where its report is understood; else it
//! is counted on the wire: bytes of payload over the bytes of one exchange. Those are read
//! off some packets of the driver's own; where that cannot be had, a few requests of ours
//! have measured them before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use wallfinder_engine::{IoChoice, Signals, StepSpec, run as drive, unobserved};
use wallfinder_hosts::{Joint, Sampling};
use wallfinder_model::drive::Share;
use wallfinder_model::record::{Counts, Driver, Histogram, Interval, ThroughputFrom};
use wallfinder_model::telemetry::{LinkSample, Sample, TcpSample};
use wallfinder_model::{Arrival, Caveat, Environment, Load, Nanos, Step, Stop};
use wallfinder_probe::discover::family_of;
use wallfinder_probe::overhear;
use wallfinder_sys::clock;
use wallfinder_testbed::child::Stray;
use wallfinder_testbed::driver::{DriveOptions, Driver as Foreign, DriverKind, DriverSpec};
use wallfinder_testbed::report::{DriverReport, Latency};

use crate::engine_step::blank;
use crate::profiles::Capture;
use crate::{Audience, ConductError, StepOrder, relayed, start_sampler, utc_of};

/// How often a driver is looked at, and a slice is shown.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A driver's packets are weighed once it has had this long to begin.
const OVERHEAR_AFTER: Duration = Duration::from_millis(500);
/// How long it is listened to at most.
const OVERHEAR_FOR: Duration = Duration::from_millis(300);
/// Requests of our own that measure one exchange.
const EXCHANGES: u64 = 16;
/// Bytes of IPv4 and TCP (with timestamps) in front of each segment's payload.
const HEADER_BYTES: u64 = 52;
/// What IPv6 takes more.
const IPV6_MORE_BYTES: u64 = 20;
/// Ethernet's, which loopback does not count (`loopback_xmit` has taken them off by then).
const ETHERNET_BYTES: u64 = 14;
/// More options of TCP in the two segments that open a connection.
const OPENING_BYTES: u64 = 16;
/// A tick with at least this part of the busy ticks' packets belongs to the load.
const LOAD_PART: f64 = 0.25;
/// And behind those one with at least this part of the tick before it: a load may become many times slower, and goes on.
const SLOWER_PART: f64 = 0.05;
/// Part of the load left out at its start: connecting, and the driver's own warm-up.
const RISE_PART: f64 = 0.1;
/// Nothing is captured in the first moments of a load.
const RISE_MIN: Duration = Duration::from_millis(300);

/// Processes that a driver left running and that are named, at the most.
const LEFT_SHOWN_MAX: usize = 5;

/// Where the window had this many times the answers per second that a driver tells of, it told of a longer time.
const LONGER_MIN: f64 = 1.1;

/// How often the connections of a driver are looked at, for where its window ends is known when they are closed.
const MARK_EVERY: Duration = Duration::from_secs(1);
/// And no sooner than after one part in so many of the time before: what is kept of a long run stays small.
const MARK_PART: u32 = 20;
/// A mean latency of fewer steps of the driver's clock than this says nothing.
const RESOLUTIONS_MIN: f64 = 20.0;

/// What one request and its answer weigh, in bytes of TCP payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    payload_bytes: f64,
    answer_bytes: f64,
}

impl Exchange {
    /// The same, as heavy as it was in a step that was measured: by the driver's own report,
    /// or by its own packets. Its requests have other header fields than ours.
    pub(crate) fn as_measured(self, measured: &Step, order: &StepOrder) -> Exchange {
        let telemetry = &measured.telemetry;
        let answers = measured.throughput * telemetry.window_ns as f64 / 1e9;
        let Some(link) = &telemetry.link else {
            return self;
        };
        let payload = link_payload(&link.totals, telemetry.tcp.as_ref(), order);
        let payload_bytes = payload / answers.max(1.0);
        if payload_bytes <= 0.0 {
            return self;
        }
        Exchange {
            payload_bytes,
            ..self
        }
    }
}

pub(crate) fn run(
    order: &StepOrder,
    spec: &DriverSpec,
    url: &str,
    environment: &Environment,
    signals: &Arc<Signals>,
    audience: &mut dyn Audience,
) -> Result<Step, ConductError> {
    let mut exchange = weigh(order)?;
    let mut step = blank(order);
    step.load = spec.load();
    step.load.timeout = Nanos(step.load.timeout.0.max(1));
    step.driver = Driver {
        name: spec.kind().name().to_owned(),
        command: Some(spec.command()),
        io: None,
        throughput_from: ThroughputFrom::Report,
        latency_from_intended: false,
        answered: None,
    };
    if !spec.targets().is_clear() {
        step.caveats.push(Caveat::DriverTargetUnchecked);
    }
    let zero_ns = clock::monotonic_ns();
    step.started_utc = utc_of(zero_ns);
    let (mut driver, mut sampler) = launch(order, spec, url, environment, zero_ns)?;
    audience.begins(&step);
    relayed(order);
    let mut inside = Inside::new(order, step.load.stop.after);
    let overhear_at = Instant::now() + OVERHEAR_AFTER;
    let mut may_overhear = spec.kind() == DriverKind::Other;
    let started_at = Instant::now();
    let mut mark_at = started_at + MARK_EVERY;
    while driver.poll() {
        std::thread::sleep(LOOK_EVERY);
        if Instant::now() >= mark_at {
            sampler.mark("sockets");
            mark_at = Instant::now() + MARK_EVERY.max(started_at.elapsed() / MARK_PART);
        }
        if may_overhear && Instant::now() >= overhear_at {
            may_overhear = false;
            let weighed = overheard(order, driver.pid());
            tracing::debug!(exchange = ?weighed, "driver's packets are weighed");
            match weighed {
                Ok(weight) => exchange = weight,
                Err(why) => step.caveats.push(Caveat::DriverNotWeighed { why }),
            }
        }
        if signals.stop.load(Ordering::Relaxed) {
            driver.interrupt();
        }
        if let Some(sample) = sampler.latest() {
            let slice = slice(&sample, order, exchange);
            inside.look(slice.answered > 0, driver.pid());
            audience.interval(&slice, Some(&sample));
        }
    }
    let capture = inside.close();
    let series = sampler.stop();
    let outcome = driver.finish();
    let report = match outcome.report {
        Ok(report) => Some(report),
        Err(unread) => {
            step.caveats
                .push(Caveat::DriverReportUnread { why: unread.why });
            None
        }
    };
    let inside = fill(&mut step, order, series, exchange);
    // Its time goes on for whole seconds, also when a number of requests has long been answered.
    let is_counted = spec.kind() == DriverKind::Autocannon && step.load.stop.requests.is_some();
    let inside = inside.filter(|_| is_counted);
    step.caveats.extend(went_on(spec, &outcome.left_behind));
    if let Some(relay) = relayed(order) {
        step.telemetry.take_relay(relay);
    }
    let in_flight = report.as_ref().and_then(|report| report.in_flight);
    match report {
        Some(report) => take_word(&mut step, &report, exchange, inside),
        None if step.throughput <= 0.0 => {
            return Err(ConductError::Driver(format!(
                "the driver `{}` made no load that reached {} ({:?}). It said:\n{}",
                spec.command(),
                order.address,
                outcome.ended,
                outcome.stderr.trim_end()
            )));
        }
        None => {}
    }
    let time = step.service.as_ref().or(step.latency.as_ref());
    step.in_flight_mean = in_flight_mean(
        &step.load,
        step.counts.scheduled as f64 * 1e9 / step.window_ns.max(1) as f64,
        time.map_or(0.0, |time| time.mean_ns),
        in_flight,
    );
    if let Some(capture) = capture {
        let was_stopped = signals.stop.load(Ordering::Relaxed);
        let captured = capture.finish(&step, zero_ns, was_stopped)?;
        captured.fill(&mut step);
    } else if order.profiles.is_some() {
        step.caveats.push(Caveat::NothingProfiled { why: None });
    }
    Ok(step)
}

/// What a driver that went into the background left undone.
fn went_on(spec: &DriverSpec, left: &[Stray]) -> Option<Caveat> {
    let names = left.iter().take(LEFT_SHOWN_MAX).map(Stray::to_string);
    (!left.is_empty()).then(|| Caveat::DriverLeftRunning {
        command: spec.command(),
        processes: left.len() as u64,
        names: names.collect(),
    })
}

/// What is captured while the load is on: from a moment after it was first seen, for as many whole
/// seconds as its own flags leave.
struct Inside<'o> {
    order: &'o StepOrder,
    /// How long the driver warms up before that.
    warmup: Duration,
    /// How long the driver means to load.
    planned: Duration,
    seen_at: Option<Instant>,
    capture: Option<Capture<'o>>,
    closes_at: Option<Instant>,
}

impl<'o> Inside<'o> {
    fn new(order: &'o StepOrder, planned: Nanos) -> Inside<'o> {
        Inside {
            order,
            warmup: Duration::from_nanos(order.load.warmup.0),
            planned: Duration::from_nanos(planned.0),
            seen_at: None,
            capture: None,
            closes_at: None,
        }
    }

    /// About ten times a second: whether there was load in the last slice, and by whom.
    fn look(&mut self, is_loaded: bool, driver_pid: u32) {
        let Some(profiles) = &self.order.profiles else {
            return;
        };
        let now = Instant::now();
        if is_loaded && self.seen_at.is_none() {
            self.seen_at = Some(now);
        }
        let end = self.planned.mul_f64(RISE_PART).max(RISE_MIN);
        let rise = end.max(self.warmup);
        let is_on = self.seen_at.is_some_and(|seen| now >= seen + rise);
        if is_on && self.capture.is_none() {
            let left = (self.warmup + self.planned).saturating_sub(rise + end);
            let server = &*self.order.server;
            let client = family_of(driver_pid).ok();
            let window = Nanos(left.as_nanos() as u64);
            let capture = Capture::start(profiles, window, server, client.as_ref());
            self.closes_at = Some(now + Duration::from_secs(capture.seconds()));
            self.capture = Some(capture);
        }
        if self.closes_at.is_some_and(|at| now >= at)
            && let Some(capture) = &mut self.capture
        {
            capture.close();
            self.closes_at = None;
        }
    }

    /// The driver has ended.
    fn close(mut self) -> Option<Capture<'o>> {
        if let Some(capture) = &mut self.capture {
            capture.close();
        }
        self.capture
    }
}

/// What one exchange of the driver's weighs, by its own packets; or why we weigh our own.
fn overheard(order: &StepOrder, driver_pid: u32) -> Result<Exchange, String> {
    match overhear::weight(order.address, driver_pid, OVERHEAR_FOR) {
        Ok(Some(weight)) => Ok(Exchange {
            payload_bytes: weight.request_bytes + weight.answer_bytes,
            answer_bytes: weight.answer_bytes,
        }),
        Ok(None) => Err("no HTTP/1 was recognised in them".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Starts a driver where the client is to be, and watches it.
pub(crate) fn launch(
    order: &StepOrder,
    spec: &DriverSpec,
    url: &str,
    environment: &Environment,
    zero_ns: u64,
) -> Result<(Foreign, Box<dyn Sampling>), ConductError> {
    let mut options = DriveOptions::new(url, spec);
    options.cpus.clone_from(&order.client_cpus);
    let driver =
        Foreign::start(spec, options).map_err(|error| ConductError::Driver(error.to_string()))?;
    let mut family = family_of(driver.pid())
        .map_err(|error| ConductError::Driver(format!("the driver cannot be seen: {error}")))?;
    family.follows_children = true;
    let sampler = start_sampler(order, environment, zero_ns, Some(family))?;
    Ok((driver, sampler))
}

/// Measures one exchange with a few requests of our own.
pub(crate) fn weigh(order: &StepOrder) -> Result<Exchange, ConductError> {
    let mut load = order.load.clone();
    load.connections = 1;
    load.workers = 1;
    load.in_flight_per_connection = 1;
    load.arrival = Arrival::Closed { think: Nanos(0) };
    load.warmup = Nanos(0);
    load.stop = Stop {
        after: Nanos::from_secs(10),
        requests: Some(EXCHANGES),
    };
    let spec = StepSpec {
        load,
        address: order.address,
        request: order.request.clone(),
        tls: order.tls.clone(),
        cpus: order.client_cpus.clone(),
        io: IoChoice::Epoll,
        seed: order.seed,
        share: Share::WHOLE,
        slots: None,
        samples: None,
        spare_connections: 0,
        standby_connections: 0,
        paddings: Vec::new(),
        under_quota: false,
        speed: 1.0,
    };
    let measured = drive(&spec, &Arc::new(Signals::default()), &mut unobserved)?;
    let answered = measured.counts.answered.max(1) as f64;
    let answer_bytes = measured.counts.bytes_in as f64 / answered;
    Ok(Exchange {
        payload_bytes: answer_bytes + measured.counts.bytes_out as f64 / answered,
        answer_bytes,
    })
}

/// Payload bytes of both directions.
fn payload_bytes(sample: &Sample, order: &StepOrder) -> f64 {
    let link = sample.link.as_ref();
    link.map_or(0.0, |link| link_payload(link, sample.tcp.as_ref(), order))
}

/// Answers that a link carried, and the TCP stack meanwhile.
pub(crate) fn answers(
    link: &LinkSample,
    tcp: Option<&TcpSample>,
    order: &StepOrder,
    exchange: Exchange,
) -> f64 {
    link_payload(link, tcp, order) / exchange.payload_bytes.max(1.0)
}

fn link_payload(link: &LinkSample, tcp: Option<&TcpSample>, order: &StepOrder) -> f64 {
    let ip = order.address.ip().to_canonical();
    let more = if ip.is_ipv6() { IPV6_MORE_BYTES } else { 0 };
    // Loopback counts each packet as sent and as received.
    let (bytes, packets, header) = if ip.is_loopback() {
        (link.tx_bytes, link.tx_packets, HEADER_BYTES + more)
    } else {
        (
            link.tx_bytes + link.rx_bytes,
            link.tx_packets + link.rx_packets,
            ETHERNET_BYTES + HEADER_BYTES + more,
        )
    };
    let opened = tcp.map_or(0, |tcp| tcp.opens_passive);
    let headers = packets * header + opened * OPENING_BYTES;
    bytes.saturating_sub(headers) as f64
}

/// A tick as a slice, with answers counted on the wire.
pub(crate) fn slice(sample: &Sample, order: &StepOrder, exchange: Exchange) -> Interval {
    let answers = payload_bytes(sample, order) / exchange.payload_bytes.max(1.0);
    Interval {
        at_ns: sample.at_ns.max(0) as u64,
        span_ns: sample.span_ns,
        answered: answers.round() as u64,
        scheduled: answers.round() as u64,
        bytes_in: (answers * exchange.answer_bytes) as u64,
        ..Interval::default()
    }
}

/// When the load was on: between the first and the last tick that carries a good part of
/// what the busy ticks carry. From the schedule's zero; `None` when nothing was carried.
fn load_span(samples: &[Sample], order: &StepOrder) -> Option<(i64, i64)> {
    let carried = samples
        .iter()
        .map(|sample| payload_bytes(sample, order) / sample.span_ns.max(1) as f64);
    let (first, last) = busy_ticks(&carried.collect::<Vec<f64>>())?;
    // The edge ticks are partly outside.
    let from = samples[first].at_ns;
    let to = samples[last].at_ns - samples[last].span_ns as i64;
    (to > from).then_some((from, to))
}

/// The first and the last tick of a load, by what each carried.
fn busy_ticks(rates: &[f64]) -> Option<(usize, usize)> {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    let busy = *sorted.get(sorted.len().checked_sub(1)? * 9 / 10)?;
    if busy <= 0.0 {
        return None;
    }
    let on = |rate: &f64| *rate >= busy * LOAD_PART;
    let first = rates.iter().position(on)?;
    let last = rates.iter().rposition(on)?;
    let behind = rates[last..].windows(2);
    let slower = behind.take_while(|pair| pair[1] > 0.0 && pair[1] >= pair[0] * SLOWER_PART);
    Some((first, last + slower.count()))
}

/// Fills a step with what was seen of it, and tells how much of all that was carried the window has.
fn fill(step: &mut Step, order: &StepOrder, series: Joint, exchange: Exchange) -> Option<f64> {
    step.caveats.extend(series.gaps.iter().cloned());
    let mut part = None;
    if let Some((on, to)) = load_span(&series.samples, order) {
        let span = (to - on) as f64;
        let rise = (span * RISE_PART).max((step.load.warmup.0 as f64).min(span * 0.9));
        let from = on + rise as i64;
        step.telemetry = series.summarise(from, to);
        step.window_ns = (to - from) as u64;
        // So that slices before the window count as warm-up, as those of our workers do.
        step.load.warmup = Nanos(from.max(0) as u64);
        step.load.stop.after = Nanos(step.window_ns);
        step.intervals = series
            .samples
            .iter()
            .filter(|sample| sample.at_ns <= to)
            .map(|sample| slice(sample, order, exchange))
            .collect();
        // Not of slices, whose answers are whole numbers.
        let inside = series.samples.iter();
        let inside = inside.filter(|sample| sample.at_ns > from && sample.at_ns <= to);
        let payload: f64 = inside.map(|sample| payload_bytes(sample, order)).sum();
        let answers = payload / exchange.payload_bytes.max(1.0);
        step.counts.answered = answers.round() as u64;
        step.counts.scheduled = step.counts.answered;
        step.counts.bytes_in = (answers * exchange.answer_bytes) as u64;
        step.throughput = answers * 1e9 / step.window_ns as f64;
        step.driver.throughput_from = ThroughputFrom::Wire;
        let all = series.samples.iter();
        let all: f64 = all.map(|sample| payload_bytes(sample, order)).sum();
        part = (all > 0.0).then(|| payload / all);
    }
    step.series = series.samples;
    part
}

/// Requests in flight on average: at a rate as many as a mean time makes of those that end, by Little's law;
/// else what a driver tells, or all that it has room for.
fn in_flight_mean(load: &Load, ended_per_s: f64, mean_ns: f64, told: Option<f64>) -> f64 {
    let bound = load.in_flight_bound() as f64;
    if !load.arrival.is_open() || mean_ns <= 0.0 {
        return told.unwrap_or(bound);
    }
    let mean = ended_per_s * mean_ns / 1e9;
    // 0: the room is not known.
    let most = Some(bound).filter(|most| *most > 0.0);
    most.map_or(mean, |most| mean.min(most))
}

/// Good answers per second of a window that has this part of all that was carried, where that is more than
/// the driver tells.
fn counted_inside(report: &DriverReport, part: f64, window_ns: u64) -> Option<f64> {
    let inside = report.good() as f64 * part * 1e9 / window_ns.max(1) as f64;
    (inside > LONGER_MIN * report.throughput).then_some(inside)
}

/// Failures of a window by class, one of each at the least: the part of all that its good answers are, or, where
/// there are none, its time.
fn failed_inside(report: &DriverReport, answered: u64, window_ns: u64) -> BTreeMap<String, u64> {
    let part = match (report.good(), report.duration_ns) {
        (0, Some(duration_ns)) => window_ns as f64 / duration_ns.max(1) as f64,
        (0, None) => 1.0,
        (good, _) => answered as f64 / good as f64,
    };
    let failed = report.errors.iter().filter(|(_, count)| **count > 0);
    let inside = failed.map(|(class, count)| {
        let inside = (*count as f64 * part).round() as u64;
        (class.clone(), inside.max(1))
    });
    inside.collect()
}

/// Takes the driver's word for what it alone knows. `inside` is what part of all was carried in the window, where
/// its time is not that of its answers.
fn take_word(step: &mut Step, report: &DriverReport, exchange: Exchange, inside: Option<f64>) {
    step.driver.throughput_from = ThroughputFrom::Report;
    step.throughput = report.throughput;
    let window_ns = step.window_ns;
    let rate = inside.and_then(|part| counted_inside(report, part, window_ns));
    if let (Some(rate), Some(duration_ns)) = (rate, report.duration_ns) {
        step.throughput = rate;
        step.caveats.push(Caveat::DriverTimeRounded {
            driver: step.driver.name.clone(),
            duration_ns,
            requests: report.requests,
        });
    }
    if let Some(connections) = report.connections {
        step.load.connections = connections;
    }
    if let Some(depth) = report.in_flight_per_connection {
        step.load.in_flight_per_connection = depth;
    }
    // Of the window that telemetry covers, at the rate that the driver reports: costs per
    // answer are then of one and the same window.
    let seconds = step.window_ns as f64 / 1e9;
    let answered = (step.throughput * seconds).round() as u64;
    step.counts = Counts {
        answered,
        failed: failed_inside(report, answered, window_ns),
        bytes_in: (answered as f64 * exchange.answer_bytes) as u64,
        bytes_out: (answered as f64 * (exchange.payload_bytes - exchange.answer_bytes)) as u64,
        ..Counts::default()
    };
    step.counts.scheduled = answered + step.counts.failed_total();
    if let (Some(printed), Some(duration_ns)) = (report.overstated, report.duration_ns) {
        step.caveats.push(Caveat::DriverPrintsMore {
            driver: step.driver.name.clone(),
            printed,
            counted: report.requests,
            duration_ns,
        });
    }
    step.fairness = report.fairness;
    step.driver.answered = Some(report.good());
    if let Some(latency) = &report.latency {
        if let Some(step_ns) = latency.resolution_ns {
            step.caveats.push(Caveat::LatencyInSteps {
                driver: step.driver.name.clone(),
                step_ns,
            });
        }
        if latency.made_up {
            step.caveats.push(Caveat::LatencyMadeUp {
                driver: step.driver.name.clone(),
                is_told: latency.mean_ns.is_some(),
            });
        }
        step.driver.latency_from_intended = latency.from_due;
        let histogram = quantiles_only(latency, report.requests);
        if latency.from_due {
            let service = report.service.as_ref();
            step.service = service.map(|service| quantiles_only(service, report.requests));
            step.latency = Some(histogram);
        } else {
            // Counted from sending: a service time, shown as latency where there is none.
            step.service = Some(histogram.clone());
            step.latency = Some(histogram);
        }
    }
}

fn quantiles_only(latency: &Latency, count: u64) -> Histogram {
    Histogram {
        hdr_v2: String::new(),
        count,
        beyond: 0,
        // A mean of a few steps of the tool's clock is none: 0 stands for not known.
        mean_ns: latency
            .mean_ns
            .filter(|mean| *mean >= RESOLUTIONS_MIN * latency.resolution_ns.unwrap_or(0) as f64)
            .unwrap_or(0.0),
        stdev_ns: latency.stdev_ns.unwrap_or(0.0),
        min_ns: latency.min_ns.unwrap_or(0),
        max_ns: latency.max_ns.unwrap_or(0),
        quantiles_ns: latency.quantiles_ns.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wallfinder_model::Rate;

    #[test]
    fn a_load_that_becomes_slower_goes_on_and_ends_with_what_is_carried() {
        assert_eq!(busy_ticks(&[]), None);
        assert_eq!(busy_ticks(&[0.0, 0.0]), None);
        // It begins with a tick that is only partly its own, and others carry a little before and after.
        let steady = [1.0, 30.0, 100.0, 90.0, 110.0, 60.0, 1.0, 1.0];
        assert_eq!(busy_ticks(&steady), Some((1, 5)));
        // As one was seen on a machine that went from 70,000 exchanges a second to 12,000.
        let slowed = [
            3527.0, 3608.0, 3641.0, 487.0, 1951.0, 1698.0, 550.0, 560.0, 3111.0, 600.0, 590.0, 1.0,
        ];
        assert_eq!(busy_ticks(&slowed), Some((0, 10)));
        let idle = [0.0, 0.0, 40.0, 41.0, 6.0, 5.0, 0.0, 0.0];
        assert_eq!(busy_ticks(&idle), Some((2, 5)));
    }

    fn report(requests: u64, errors: &[(&str, u64)]) -> DriverReport {
        let errors = errors.iter().map(|(class, n)| (class.to_string(), *n));
        DriverReport {
            requests,
            errors: errors.collect(),
            duration_ns: Some(2_000_000_000),
            ..DriverReport::default()
        }
    }

    /// Half of all answers are failures in the window, too, and all of them where none is good.
    #[test]
    fn as_much_fails_in_a_window_as_in_all() {
        let inside = |report: &DriverReport, answered| {
            let failed = failed_inside(report, answered, 500_000_000);
            failed.into_values().collect::<Vec<u64>>()
        };
        let half = report(1_000, &[("status.5xx", 500), ("timeout.total", 1)]);
        assert_eq!(inside(&half, 125), [125, 1]);
        let none = report(1_000, &[("status.4xx", 1_000)]);
        assert_eq!(inside(&none, 0), [250]);
        let refused = report(0, &[("net.refused", 4_000)]);
        assert_eq!(inside(&refused, 0), [1_000]);
        assert!(inside(&report(1_000, &[]), 250).is_empty());
    }

    /// Of 1,000 answers that took 300 ms, and of which autocannon tells in a second, 800 came in 240 ms.
    #[test]
    fn requests_that_are_answered_before_the_time_is_over_are_counted_in_the_window() {
        let told = DriverReport {
            throughput: 990.0,
            ..report(1_000, &[])
        };
        let inside = counted_inside(&told, 0.8, 240_000_000).expect("more than it tells");
        assert_eq!(inside.round(), 3_333.0);
        // The whole time is that of its answers.
        assert_eq!(counted_inside(&told, 0.8, 800_000_000), None);
    }

    #[test]
    fn at_a_rate_few_of_the_connections_are_busy() {
        let mut load = Load::closed(100);
        assert_eq!(in_flight_mean(&load, 2_000.0, 1e6, None), 100.0);
        assert_eq!(in_flight_mean(&load, 2_000.0, 1e6, Some(7.0)), 7.0);
        load.arrival = Arrival::Constant {
            rate: Rate(2_000.0),
        };
        assert_eq!(in_flight_mean(&load, 2_000.0, 1e6, Some(7.0)), 2.0);
        // Waiting for a connection is not being in flight, and an unknown time tells nothing.
        assert_eq!(in_flight_mean(&load, 2_000.0, 1e9, None), 100.0);
        assert_eq!(in_flight_mean(&load, 2_000.0, 0.0, None), 100.0);
        load.connections = 0;
        assert_eq!(in_flight_mean(&load, 2_000.0, 1e6, None), 2.0);
    }
}
