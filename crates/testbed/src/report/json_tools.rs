//! Tools that report in JSON: autocannon, oha, k6, ghz, bombardier, vegeta, and echo-client.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::{
    DriverReport, LATE_MIN, Latency, Unread, add, class_of, quantile_name, sum, unread, whole,
};

fn json<T: DeserializeOwned>(tool: &str, report: &[u8]) -> Result<T, Unread> {
    if report.trim_ascii().is_empty() {
        return Err(unread(format!("{tool} reported nothing")));
    }
    serde_json::from_slice(report).map_err(|e| unread(format!("not the JSON of {tool}: {e}")))
}

/// Milliseconds to nanoseconds.
const MS: f64 = 1e6;

/// One object on a line; latencies in milliseconds, quantiles in whole ones. With a
/// warm-up the last line is the run's.
pub(super) fn autocannon(report: &[u8]) -> Result<DriverReport, Unread> {
    #[derive(Deserialize)]
    struct Report {
        connections: u32,
        pipelining: u32,
        #[serde(default)]
        workers: u32,
        duration: f64,
        errors: u64,
        timeouts: u64,
        #[serde(default)]
        resets: u64,
        #[serde(default)]
        mismatches: u64,
        #[serde(flatten)]
        rest: BTreeMap<String, serde_json::Value>,
        latency: BTreeMap<String, f64>,
        requests: Requests,
        throughput: Bytes,
    }
    #[derive(Deserialize)]
    struct Requests {
        average: f64,
        total: u64,
        #[serde(default)]
        sent: u64,
    }
    #[derive(Deserialize)]
    struct Bytes {
        total: u64,
    }
    let last = report.trim_ascii().rsplit(|byte| *byte == b'\n').next();
    let r: Report = json("autocannon", last.unwrap_or_default())?;
    let connections = super::held(r.connections, r.workers);
    let mut out = DriverReport {
        requests: r.requests.total,
        duration_ns: Some(whole(r.duration * 1e9)),
        bytes_in: Some(r.throughput.total),
        connections: Some(connections),
        in_flight_per_connection: Some(r.pipelining),
        ..DriverReport::default()
    };
    for class in ["1xx", "2xx", "3xx", "4xx", "5xx"] {
        let count = r.rest.get(class).and_then(serde_json::Value::as_u64);
        out.status(class, count.unwrap_or(0));
    }
    out.fail("timeout.total", r.timeouts);
    out.fail("net.reset.wait", r.resets);
    out.fail("body.mismatch", r.mismatches);
    out.fail("net.other", r.errors.saturating_sub(r.timeouts));
    // Requests on connections that the server dropped are sent again without a word. What
    // was sent, and neither answered nor failed nor in flight at the end, was lost.
    let in_flight = u64::from(connections) * u64::from(r.pipelining);
    let accounted = [r.requests.total, r.errors, in_flight];
    let lost = accounted
        .iter()
        .fold(r.requests.sent, |left, n| left.saturating_sub(*n));
    out.fail("unanswered", lost);
    let ms = |name: &str| r.latency.get(name).map(|ms| ms * MS);
    // At a rate it adds to each latency all that are whole milliseconds shorter, whatever the rate.
    let timed = r.latency.get("totalCount").copied().unwrap_or(0.0);
    let mut latency = Latency {
        max_ns: ms("max").map(whole),
        resolution_ns: Some(MS as u64),
        made_up: timed > r.requests.total as f64,
        ..Latency::default()
    };
    if !latency.made_up {
        latency.mean_ns = ms("mean");
        latency.stdev_ns = ms("stddev");
        // Its smallest is of those that are not 0.
        let is_smallest = r.latency.get("p0_001").is_none_or(|ms| *ms > 0.0);
        latency.min_ns = ms("min").filter(|_| is_smallest).map(whole);
        for (name, ms) in &r.latency {
            if let Some(percent) = name.strip_prefix('p') {
                latency.quantile(format!("p{}", percent.replace('_', ".")), ms * MS);
            }
        }
    }
    out.latency = latency.unless_empty();
    out.headline = Some(r.requests.average);
    // Its average is over samples of a second. An event loop that is full takes them late: they are fewer than the
    // seconds that pass, and each holds more.
    let by_time = out.requests as f64 / r.duration;
    let is_late = r.duration > 0.0 && r.requests.average > LATE_MIN * by_time;
    let each_second = if is_late { by_time } else { r.requests.average };
    out.overstated = is_late.then_some(r.requests.average);
    out.throughput = out.good_of(each_second, out.requests);
    Ok(out)
}

/// Latencies in seconds. Its rate counts failures and what was cut off at the deadline.
pub(super) fn oha(report: &[u8]) -> Result<DriverReport, Unread> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Report {
        summary: Summary,
        latency_percentiles: BTreeMap<String, Option<f64>>,
        status_code_distribution: BTreeMap<String, u64>,
        #[serde(default)]
        error_distribution: BTreeMap<String, u64>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Summary {
        total: f64,
        slowest: Option<f64>,
        fastest: Option<f64>,
        average: Option<f64>,
        requests_per_sec: Option<f64>,
        total_data: Option<u64>,
    }
    let r: Report = json("oha", report)?;
    let mut out = DriverReport {
        headline: r.summary.requests_per_sec,
        duration_ns: Some(whole(r.summary.total * 1e9)),
        bytes_in: r.summary.total_data,
        ..DriverReport::default()
    };
    for (status, count) in &r.status_code_distribution {
        out.status(status, *count);
        add(&mut out.requests, *count);
    }
    for (words, count) in &r.error_distribution {
        // In flight when the time was over: neither good nor bad.
        if words != "aborted due to deadline" {
            out.fail(class_of(words), *count);
        }
    }
    let ns = |seconds: Option<f64>| seconds.map(|s| s * 1e9);
    let mut latency = Latency {
        mean_ns: ns(r.summary.average),
        min_ns: ns(r.summary.fastest).map(whole),
        max_ns: ns(r.summary.slowest).map(whole),
        ..Latency::default()
    };
    for (name, seconds) in r.latency_percentiles {
        latency.quantile(name, seconds.unwrap_or(0.0) * 1e9);
    }
    out.latency = latency.unless_empty();
    if r.summary.total > 0.0 {
        out.throughput = out.good() as f64 / r.summary.total;
    }
    Ok(out)
}

/// The file of `--summary-export`; latencies in milliseconds, of failed requests too.
pub(super) fn k6(report: &[u8]) -> Result<DriverReport, Unread> {
    #[derive(Deserialize)]
    struct Report {
        metrics: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
    }
    let r: Report = json("k6", report)?;
    let number = |metric: &str, field: &str| r.metrics.get(metric)?.get(field)?.as_f64();
    let count = |metric: &str, field: &str| r.metrics.get(metric)?.get(field)?.as_u64();
    let requests = count("http_reqs", "count")
        .ok_or_else(|| unread("k6's summary has no `http_reqs`: the script made no requests"))?;
    let rate = number("http_reqs", "rate").unwrap_or(0.0);
    let mut out = DriverReport {
        requests,
        headline: Some(rate),
        duration_ns: (rate > 0.0).then(|| whole(requests as f64 / rate * 1e9)),
        bytes_in: count("data_received", "count"),
        bytes_out: count("data_sent", "count"),
        ..DriverReport::default()
    };
    // `passes` of the rate of failure: which statuses and errors they were is not told.
    let failed = count("http_req_failed", "passes").unwrap_or(0);
    out.fail("status.unclassified", failed);
    let ms = |field: &str| number("http_req_duration", field).map(|ms| ms * MS);
    let mut latency = Latency {
        mean_ns: ms("avg"),
        min_ns: ms("min").map(whole),
        max_ns: ms("max").map(whole),
        ..Latency::default()
    };
    for field in r
        .metrics
        .get("http_req_duration")
        .into_iter()
        .flat_map(BTreeMap::keys)
    {
        let percent = field
            .strip_prefix("p(")
            .and_then(|rest| rest.strip_suffix(')'));
        let name = match (percent, field.as_str()) {
            (Some(percent), _) => format!("p{percent}"),
            (None, "med") => "p50".into(),
            _ => continue,
        };
        latency.quantile(name, ms(field).unwrap_or(0.0));
    }
    // A script may pause between its requests: by Little's law.
    out.in_flight = latency.mean_ns.map(|mean_ns| rate * mean_ns / 1e9);
    out.latency = latency.unless_empty();
    out.throughput = out.good_of(rate, requests);
    Ok(out)
}

/// Latencies in nanoseconds. Its rate counts failures.
pub(super) fn ghz(report: &[u8]) -> Result<DriverReport, Unread> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Report {
        count: u64,
        total: u64,
        average: f64,
        fastest: u64,
        slowest: u64,
        rps: f64,
        options: Options,
        status_code_distribution: BTreeMap<String, u64>,
        error_distribution: Option<BTreeMap<String, u64>>,
        latency_distribution: Option<Vec<Quantile>>,
        // One entry for each request: not kept.
        #[serde(default)]
        #[allow(dead_code)]
        details: IgnoredAny,
    }
    #[derive(Deserialize)]
    struct Options {
        connections: Option<u32>,
        concurrency: Option<u32>,
    }
    #[derive(Deserialize)]
    struct Quantile {
        percentage: f64,
        latency: f64,
    }
    let r: Report = json("ghz", report)?;
    let mut out = DriverReport {
        headline: Some(r.rps),
        duration_ns: Some(r.total),
        connections: r.options.connections,
        in_flight_per_connection: r
            .options
            .concurrency
            .zip(r.options.connections)
            .map(|(workers, connections)| workers.div_ceil(connections.max(1))),
        in_flight: r.options.concurrency.map(f64::from),
        ..DriverReport::default()
    };
    out.requests = sum(r.status_code_distribution.values());
    for (status, count) in r.status_code_distribution {
        if status != "OK" {
            out.fail(&format!("status.{status}"), count);
        }
        out.statuses.insert(status, count);
    }
    // Errors without a status never became an answer.
    let errors = sum(r.error_distribution.iter().flat_map(BTreeMap::values));
    let with_status = sum(out.errors.values());
    out.fail("net.other", errors.saturating_sub(with_status));
    let mut latency = Latency {
        mean_ns: (r.slowest > 0).then_some(r.average),
        min_ns: Some(r.fastest),
        max_ns: Some(r.slowest),
        ..Latency::default()
    };
    for quantile in r.latency_distribution.into_iter().flatten() {
        latency.quantile(quantile_name(quantile.percentage), quantile.latency);
    }
    out.latency = latency.unless_empty();
    out.throughput = out.good_of(r.rps, r.count);
    Ok(out)
}

/// Latencies in microseconds, of failed requests too.
pub(super) fn bombardier(report: &[u8]) -> Result<DriverReport, Unread> {
    #[derive(Deserialize)]
    struct Report {
        spec: Spec,
        result: Run,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        number_of_connections: u32,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Run {
        bytes_read: u64,
        bytes_written: u64,
        time_taken_seconds: f64,
        req1xx: u64,
        req2xx: u64,
        req3xx: u64,
        req4xx: u64,
        req5xx: u64,
        others: u64,
        #[serde(default)]
        errors: Vec<Failure>,
        latency: Spread,
        rps: Spread,
    }
    #[derive(Deserialize)]
    struct Failure {
        description: String,
        count: u64,
    }
    #[derive(Deserialize)]
    struct Spread {
        mean: f64,
        stddev: f64,
        max: f64,
        #[serde(default)]
        percentiles: BTreeMap<String, f64>,
    }
    let Report { spec, result: r } = json("bombardier", report)?;
    let mut out = DriverReport {
        headline: Some(r.rps.mean),
        duration_ns: Some(whole(r.time_taken_seconds * 1e9)),
        bytes_in: Some(r.bytes_read),
        bytes_out: Some(r.bytes_written),
        connections: Some(spec.number_of_connections),
        in_flight_per_connection: Some(1),
        ..DriverReport::default()
    };
    let classes = [r.req1xx, r.req2xx, r.req3xx, r.req4xx, r.req5xx];
    for (class, count) in ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(classes) {
        out.status(class, count);
        add(&mut out.requests, count);
    }
    let mut unnamed = r.others;
    for failure in &r.errors {
        out.fail(class_of(&failure.description), failure.count);
        unnamed = unnamed.saturating_sub(failure.count);
    }
    out.fail("net.other", unnamed);
    let mut latency = Latency {
        mean_ns: Some(r.latency.mean * 1e3),
        stdev_ns: Some(r.latency.stddev * 1e3),
        max_ns: Some(whole(r.latency.max * 1e3)),
        ..Latency::default()
    };
    for (percent, us) in &r.latency.percentiles {
        latency.quantile(format!("p{percent}"), us * 1e3);
    }
    out.latency = latency.unless_empty();
    // `rps.mean` is a mean of samples, failures among them, and off the total by whole percents in short runs.
    if r.time_taken_seconds > 0.0 {
        out.throughput = out.good() as f64 / r.time_taken_seconds;
        let all = out.requests.saturating_add(r.others);
        let is_more = r.rps.mean > LATE_MIN * all as f64 / r.time_taken_seconds;
        out.overstated = (is_more && out.good() > 0).then_some(r.rps.mean);
    }
    Ok(out)
}

/// `vegeta report -type=json`: all in nanoseconds; its throughput is that of successes.
pub(super) fn vegeta(report: &[u8]) -> Result<DriverReport, Unread> {
    #[derive(Deserialize)]
    struct Report {
        latencies: BTreeMap<String, f64>,
        bytes_in: Total,
        bytes_out: Total,
        duration: u64,
        wait: u64,
        rate: f64,
        throughput: f64,
        status_codes: BTreeMap<String, u64>,
        #[serde(default)]
        errors: Option<Vec<String>>,
    }
    #[derive(Deserialize)]
    struct Total {
        total: u64,
    }
    let r: Report = json("vegeta", report)?;
    let mut out = DriverReport {
        headline: Some(r.rate),
        throughput: r.throughput,
        duration_ns: Some(r.duration.saturating_add(r.wait)),
        bytes_in: Some(r.bytes_in.total),
        bytes_out: Some(r.bytes_out.total),
        ..DriverReport::default()
    };
    for (status, count) in &r.status_codes {
        if status == "0" {
            // No answer; the errors are told by their words, without counts.
            let words = r.errors.as_ref().and_then(|e| {
                e.iter()
                    .find(|e| !e.starts_with(|c: char| c.is_ascii_digit()))
            });
            out.fail(words.map_or("net.other", |words| class_of(words)), *count);
        } else {
            out.status(status, *count);
            add(&mut out.requests, *count);
        }
    }
    let ns = |name: &str| r.latencies.get(name).copied();
    let mut latency = Latency {
        mean_ns: ns("mean"),
        min_ns: ns("min").map(whole),
        max_ns: ns("max").map(whole),
        ..Latency::default()
    };
    for (name, ns) in &r.latencies {
        if let Some(percent) = name.strip_suffix("th") {
            latency.quantile(format!("p{percent}"), *ns);
        }
    }
    out.latency = latency.unless_empty();
    Ok(out)
}

/// `fortio load -json -`: times in seconds, but for the whole run's; its rate counts failures. A call
/// that got no answer has the status -1. Over gRPC it tells of health, SERVING or not, and of ERRORs, and
/// its threads are streams.
pub(super) fn fortio(report: &[u8]) -> Result<DriverReport, Unread> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Report {
        #[serde(rename = "ActualQPS")]
        actual_qps: f64,
        actual_duration: u64,
        num_threads: u32,
        streams: Option<u32>,
        resolution: f64,
        duration_histogram: Histogram,
        ret_codes: BTreeMap<String, u64>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Histogram {
        count: u64,
        min: f64,
        max: f64,
        avg: f64,
        std_dev: f64,
        percentiles: Option<Vec<Quantile>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Quantile {
        percentile: f64,
        value: f64,
    }
    let r: Report = json("fortio", report)?;
    let mut out = DriverReport {
        headline: Some(r.actual_qps),
        duration_ns: Some(r.actual_duration),
        connections: Some(r.num_threads / r.streams.unwrap_or(1).max(1)),
        in_flight_per_connection: r.streams,
        ..DriverReport::default()
    };
    for (status, count) in r.ret_codes {
        match status.as_str() {
            "-1" | "ERROR" => {
                out.fail("net.other", count);
                continue;
            }
            "SERVING" | "OK" => add(out.statuses.entry(status).or_default(), count),
            status => out.status(status, count),
        }
        add(&mut out.requests, count);
    }
    let times = r.duration_histogram;
    let mut latency = Latency {
        mean_ns: Some(times.avg * 1e9),
        stdev_ns: Some(times.std_dev * 1e9),
        min_ns: Some(whole(times.min * 1e9)),
        max_ns: Some(whole(times.max * 1e9)),
        ..Latency::default()
    };
    // Within its first bucket it interpolates from zero, whatever fell into it.
    let told = times.percentiles.into_iter().flatten();
    for quantile in told.filter(|quantile| quantile.value >= r.resolution) {
        latency.quantile(quantile_name(quantile.percentile), quantile.value * 1e9);
    }
    out.latency = latency.unless_empty();
    out.throughput = out.good_of(r.actual_qps, times.count);
    Ok(out)
}

/// One object on a line, all in nanoseconds. With a semaphore or credit, latency is counted
/// from asking, and service time from sending.
pub(super) fn echo_client(report: &[u8]) -> Result<DriverReport, Unread> {
    #[derive(Deserialize)]
    struct Report {
        echo_client: String,
        clients: u32,
        connections: u32,
        in_flight: f64,
        answered: u64,
        failures: BTreeMap<String, u64>,
        duration_ns: u64,
        throughput: f64,
        fairness: Option<f64>,
        latency: Option<Spread>,
        service: Option<Spread>,
    }
    #[derive(Deserialize)]
    struct Spread {
        mean_ns: f64,
        stdev_ns: f64,
        min_ns: u64,
        max_ns: u64,
        quantiles_ns: BTreeMap<String, f64>,
    }
    let spread = |spread: Spread, from_due| {
        let mut latency = Latency {
            mean_ns: Some(spread.mean_ns),
            stdev_ns: Some(spread.stdev_ns),
            min_ns: Some(spread.min_ns),
            max_ns: Some(spread.max_ns),
            from_due,
            ..Latency::default()
        };
        for (name, ns) in spread.quantiles_ns {
            latency.quantile(name, ns);
        }
        latency.unless_empty()
    };
    let r: Report = json("echo-client", report)?;
    let sharing = r.clients.div_ceil(r.connections.max(1));
    let product = f64::from(r.connections) * f64::from(sharing);
    let mut out = DriverReport {
        version: Some(format!("echo-client {}", r.echo_client)),
        requests: r.answered,
        headline: Some(r.throughput),
        throughput: r.throughput,
        duration_ns: Some(r.duration_ns),
        connections: Some(r.connections),
        in_flight_per_connection: Some(sharing),
        in_flight: (r.in_flight != product).then_some(r.in_flight),
        fairness: r.fairness,
        ..DriverReport::default()
    };
    for (class, count) in r.failures {
        out.fail(&class, count);
        // An answer, of a status that is none of the good ones.
        if class.starts_with("status.") {
            add(&mut out.requests, count);
        }
    }
    let waited = r.service.is_some();
    out.latency = r.latency.and_then(|latency| spread(latency, waited));
    out.service = r.service.and_then(|service| spread(service, false));
    Ok(out)
}
