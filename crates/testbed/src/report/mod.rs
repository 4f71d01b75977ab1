//! What foreign load generators say of their runs, understood.
//!
//! Pure: bytes in, numbers out. Each tool's report is read as its authors meant it; what
//! it does not say is `None` here, and is not made up. The fixtures under `testdata/` come
//! from the tools themselves.
//!
//! Throughput is that of good answers (2xx and 3xx, or gRPC's OK). Several tools print a
//! headline that counts failures too, or that is an average of something else:
//! [`DriverReport::headline`] keeps it.

mod json_tools;
mod text;
mod text_tools;

use std::collections::BTreeMap;

use wallfinder_model::record::Histogram;

use crate::driver::{DriverKind, Shape};

/// A rate that is larger than what was counted over the time by more than this is none.
const LATE_MIN: f64 = 1.1;

/// One tool's account of one run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DriverReport {
    /// The tool's version, where the report itself says it.
    pub version: Option<String>,
    /// Answers of any status.
    pub requests: u64,
    /// Failures by class: `status.4xx`, `timeout.total`, `net.other`, or the tool's words.
    pub errors: BTreeMap<String, u64>,
    /// Answers by status class or code, as far as it tells: `2xx`, `503`, `OK`.
    pub statuses: BTreeMap<String, u64>,
    /// Good answers per second.
    pub throughput: f64,
    /// Requests per second as the tool prints them.
    pub headline: Option<f64>,
    /// The same, where it is an average of samples and more than what was counted came to in its time.
    pub overstated: Option<f64>,
    /// The time that the numbers are about.
    pub duration_ns: Option<u64>,
    /// Latency as the tool counts it.
    pub latency: Option<Latency>,
    /// Time from sending, where the tool tells it beside a latency from the intended start.
    pub service: Option<Latency>,
    /// Bytes received.
    pub bytes_in: Option<u64>,
    /// Bytes sent.
    pub bytes_out: Option<u64>,
    /// Connections that it held.
    pub connections: Option<u32>,
    /// Requests in flight on one connection.
    pub in_flight_per_connection: Option<u32>,
    /// Requests in flight over all connections, where that is not their product.
    pub in_flight: Option<f64>,
    /// Jain's index of good answers over its clients.
    pub fairness: Option<f64>,
}

/// A distribution as far as a tool tells it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Latency {
    /// Mean.
    pub mean_ns: Option<f64>,
    /// Standard deviation.
    pub stdev_ns: Option<f64>,
    /// Smallest.
    pub min_ns: Option<u64>,
    /// Largest.
    pub max_ns: Option<u64>,
    /// Quantiles by name: `p50`, `p99.9`. Those that the tool rounded to 0 are left out.
    pub quantiles_ns: BTreeMap<String, u64>,
    /// The step in which the tool tells latencies, where it is coarser than 1 µs.
    pub resolution_ns: Option<u64>,
    /// Whether it is counted from the intended start, not from when a request was sent.
    pub from_due: bool,
    /// Whether the tool has added latencies of requests that it never sent.
    pub made_up: bool,
}

/// A report that was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unread {
    /// What was looked for, and what was found.
    pub why: String,
}

impl DriverReport {
    /// Answers that count as good.
    pub fn good(&self) -> u64 {
        let bad = self
            .errors
            .iter()
            .filter(|(class, _)| class.starts_with("status."));
        bad.fold(self.requests, |good, (_, count)| {
            good.saturating_sub(*count)
        })
    }

    /// The latency as a record holds it: without the histogram itself.
    pub fn histogram(&self) -> Option<Histogram> {
        let latency = self.latency.as_ref()?;
        Some(Histogram {
            hdr_v2: String::new(),
            count: self.requests,
            beyond: 0,
            mean_ns: latency.mean_ns.unwrap_or(0.0),
            stdev_ns: latency.stdev_ns.unwrap_or(0.0),
            min_ns: latency.min_ns.unwrap_or(0),
            max_ns: latency.max_ns.unwrap_or(0),
            quantiles_ns: latency.quantiles_ns.clone(),
        })
    }

    /// What a tool counts and times in another way because of its flags, which no report tells.
    pub(crate) fn under(mut self, kind: DriverKind, shape: &Shape) -> DriverReport {
        let connections = f64::from(self.connections.or(shape.connections).unwrap_or(0));
        match (kind, shape.rate) {
            (DriverKind::Autocannon, Some(rate)) => {
                // Of each new connection it counts a second's requests as sent, and not those that it sends at once.
                let depth = f64::from(shape.in_flight_per_connection.unwrap_or(1));
                let never_sent = (rate.0 - connections * depth).abs().ceil() as u64;
                let lost = self.errors.remove("unanswered").unwrap_or(0);
                self.fail("unanswered", lost.saturating_sub(never_sent));
            }
            (DriverKind::Wrk2, Some(rate)) => {
                // It counts connections that have sent nothing for so long, also those whose turn has not come.
                if let Some(timeout) = shape.timeout
                    && connections / rate.0 > timeout.as_secs_f64()
                {
                    self.errors.remove("timeout.total");
                }
            }
            _ => {}
        }
        if let Some(latency) = &mut self.latency {
            latency.from_due |= shape.latency_from_due;
        }
        self
    }

    /// Adds failures of a class, if there were any.
    fn fail(&mut self, class: &str, count: u64) {
        if count > 0 {
            add(self.errors.entry(class.to_owned()).or_default(), count);
        }
    }

    /// Adds answers of a status or class, if there were any; those of 4xx and above, and
    /// of 1xx, are failures too.
    fn status(&mut self, status: &str, count: u64) {
        if count == 0 {
            return;
        }
        add(self.statuses.entry(status.to_owned()).or_default(), count);
        match status.as_bytes().first() {
            Some(b'2' | b'3') => {}
            Some(b'4') => self.fail("status.4xx", count),
            Some(b'5') => self.fail("status.5xx", count),
            _ => self.fail("status.other", count),
        }
    }

    /// The share of the headline that is good answers; `counted` is what the headline counts.
    fn good_of(&self, headline: f64, counted: u64) -> f64 {
        if counted == 0 {
            return 0.0;
        }
        headline * self.good() as f64 / counted as f64
    }

    /// Refuses numbers that no run can have.
    fn checked(self) -> Result<DriverReport, Unread> {
        let latency = self.latency.iter().chain(&self.service);
        let in_flight = self.in_flight;
        let mut floats = latency.flat_map(|l| [l.mean_ns, l.stdev_ns]).flatten();
        let sane = |number: f64| number.is_finite() && number >= 0.0;
        if sane(self.throughput)
            && floats.all(sane)
            && self.headline.into_iter().chain(in_flight).all(sane)
        {
            Ok(self)
        } else {
            Err(unread("a number that no run can have"))
        }
    }
}

impl Latency {
    /// Adds a quantile, unless it was rounded to nothing.
    fn quantile(&mut self, name: String, ns: f64) {
        if ns.is_finite() && ns >= 1.0 {
            self.quantiles_ns.insert(name, ns.round() as u64);
        }
    }

    /// None if nothing was counted.
    fn unless_empty(self) -> Option<Latency> {
        let known = self.max_ns.is_some_and(|ns| ns > 0)
            || self.mean_ns.is_some_and(|ns| ns > 0.0)
            || !self.quantiles_ns.is_empty();
        known.then_some(self)
    }
}

/// Adds what a report says; a hostile one may say anything.
fn add(total: &mut u64, count: u64) {
    *total = total.saturating_add(count);
}

/// Their sum.
fn sum<'n>(counts: impl IntoIterator<Item = &'n u64>) -> u64 {
    let counts = counts.into_iter();
    counts.fold(0, |sum, count| sum.saturating_add(*count))
}

/// Connections that workers or threads hold, each of them a whole number and one at the least.
pub(crate) fn held(connections: u32, workers: u32) -> u32 {
    match workers {
        0 => connections,
        workers => (connections / workers).max(1).saturating_mul(workers),
    }
}

/// Whole nanoseconds.
fn whole(ns: f64) -> u64 {
    ns.round() as u64
}

fn unread(why: impl Into<String>) -> Unread {
    Unread { why: why.into() }
}

/// Understands a tool's report. `report` is what it wrote to its report file or standard
/// output; `stderr` is looked at by those that report there, and for the reason if there
/// is no report.
pub fn parse(kind: DriverKind, report: &[u8], stderr: &[u8]) -> Result<DriverReport, Unread> {
    let read = match kind {
        DriverKind::Autocannon => json_tools::autocannon(report),
        DriverKind::Oha => json_tools::oha(report),
        DriverKind::K6 => json_tools::k6(report),
        DriverKind::Ghz => json_tools::ghz(report),
        DriverKind::Bombardier => json_tools::bombardier(report),
        DriverKind::Vegeta => json_tools::vegeta(report),
        DriverKind::Fortio => json_tools::fortio(report),
        DriverKind::EchoClient => json_tools::echo_client(report),
        DriverKind::Wrk => text_tools::wrk(report, false),
        DriverKind::Wrk2 => text_tools::wrk(report, true),
        DriverKind::H2load => text_tools::h2load(report),
        DriverKind::Ab => text_tools::ab(report),
        DriverKind::Hey => text_tools::hey(report),
        DriverKind::Other => Err(unread("the reports of this program are not known")),
    };
    read.and_then(DriverReport::checked).map_err(|mut unread| {
        let said = String::from_utf8_lossy(stderr);
        if let Some(last) = said.lines().rev().find(|line| !line.trim().is_empty()) {
            let last: String = last
                .trim()
                .chars()
                .filter(|c| !c.is_control())
                .take(160)
                .collect();
            unread.why += &format!("; it said: {last}");
        }
        unread
    })
}

/// `p50`, `p99.9`, from a percentage.
fn quantile_name(percent: f64) -> String {
    let digits = format!("{percent:.4}");
    format!("p{}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// The class of a failure, from the words of a tool or its runtime.
fn class_of(words: &str) -> &'static str {
    let words = words.to_ascii_lowercase();
    let has = |needle: &str| words.contains(needle);
    if has("refused") {
        "net.refused"
    } else if has("unreachable") || has("no route") {
        "net.unreachable"
    } else if has("timeout") || has("timed out") || has("deadline exceeded") {
        "timeout.total"
    } else if has("reset") || has("broken pipe") {
        "net.reset.wait"
    } else if has("too many open files") {
        "local.fd"
    } else if has("assign requested address") {
        "local.port"
    } else if has("eof") || has("closed") || has("closing") {
        "net.closed.wait"
    } else {
        "net.other"
    }
}

#[cfg(test)]
mod tests;
