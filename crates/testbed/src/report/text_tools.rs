//! Tools that report in text: wrk and wrk2, h2load, ab, hey.

use super::text::{bytes, count, count_after, count_before, nanos, number};
use super::{
    DriverReport, LATE_MIN, Latency, Unread, add, class_of, quantile_name, sum, unread, whole,
};

/// Lines of a report, ends trimmed.
fn lines(report: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(report);
    text.lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// What follows a label at the start of a line.
fn after<'l>(lines: &'l [String], label: &str) -> Option<&'l str> {
    let rest = |line: &'l String| line.trim_start().strip_prefix(label);
    lines.iter().find_map(rest).map(str::trim)
}

fn needed<T>(tool: &str, what: &str, found: Option<T>) -> Result<T, Unread> {
    found.ok_or_else(|| unread(format!("no `{what}` in what {tool} reported")))
}

/// `  101164 requests in 2.00s, 22.77MB read`. wrk2 counts latency from the intended start.
pub(super) fn wrk(report: &[u8], is_wrk2: bool) -> Result<DriverReport, Unread> {
    let lines = lines(report);
    let totals = lines.iter().find(|line| line.contains(" requests in "));
    let totals = needed("wrk", "requests in", totals)?;
    let rate = after(&lines, "Requests/sec:").and_then(number);
    let rate = needed("wrk", "Requests/sec", rate)?;
    let (_, spent) = totals.split_once(" requests in ").unwrap_or_default();
    let (spent, read) = spent.split_once(',').unwrap_or((spent, ""));
    let complete = needed("wrk", "requests in", count(totals))?;
    let mut out = DriverReport {
        requests: complete,
        headline: Some(rate),
        duration_ns: nanos(spent).map(whole),
        bytes_in: read.trim().strip_suffix(" read").and_then(bytes),
        in_flight_per_connection: None,
        ..DriverReport::default()
    };
    let asked = lines.iter().find(|line| line.ends_with(" connections"));
    let before = |label| {
        let found = asked.and_then(|line| count_before(line, label));
        found.and_then(|n| u32::try_from(n).ok())
    };
    // It prints what it was asked for, and gives each thread a whole number.
    let threads = before(" threads").unwrap_or(0);
    out.connections = before(" connections").map(|n| super::held(n, threads));
    out.fail(
        "status.4xx_or_5xx",
        after(&lines, "Non-2xx or 3xx responses:")
            .and_then(count)
            .unwrap_or(0),
    );
    if let Some(socket) = after(&lines, "Socket errors:") {
        let errors = |label| count_after(socket, label).unwrap_or(0);
        out.fail("net.other", errors("connect "));
        out.fail("net.reset.wait", errors("read "));
        out.fail("net.reset.send", errors("write "));
        out.fail("timeout.total", errors("timeout "));
        // Of wrk these are answers that came too late: among its requests, and in no latency.
        if !is_wrk2 {
            out.requests = complete.saturating_sub(errors("timeout "));
        }
    }
    let mut latency = wrk_latency(&lines, is_wrk2);
    // For requests that a long one has held up wrk adds latencies. By Little's law the mean of those that were is
    // never more than connections over rate.
    let most_ns = out.connections.map(|n| f64::from(n) * 1e9 / rate);
    let is_more = |(mean, most): (f64, f64)| mean > LATE_MIN * most;
    latency.made_up = !is_wrk2 && latency.mean_ns.zip(most_ns).is_some_and(is_more);
    out.latency = latency.unless_empty();
    out.throughput = out.good_of(rate, complete);
    Ok(out)
}

fn wrk_latency(lines: &[String], from_due: bool) -> Latency {
    let mut latency = Latency {
        from_due,
        ..Latency::default()
    };
    // `Latency   424.56us  731.10us   6.30ms   88.91%`: average, deviation, largest.
    let statistics = lines.iter().map(|line| line.trim_start());
    let statistics = statistics
        .filter_map(|line| line.strip_prefix("Latency  "))
        .next();
    if let Some(statistics) = statistics {
        let mut words = statistics.split_ascii_whitespace().map(nanos);
        latency.mean_ns = words.next().flatten();
        latency.stdev_ns = words.next().flatten();
        latency.max_ns = words.next().flatten().map(whole);
    }
    let from = lines
        .iter()
        .position(|line| line.contains("Latency Distribution"));
    for line in lines.iter().skip(from.map_or(lines.len(), |at| at + 1)) {
        // `     50%  172.00us`, ` 99.900%   42.27ms`.
        let Some((percent, value)) = line.trim().split_once('%') else {
            break;
        };
        match (percent.parse(), nanos(value)) {
            (Ok(percent), Some(ns)) if percent < 100.0 => {
                latency.quantile(quantile_name(percent), ns);
            }
            (Ok(_), Some(_)) => {}
            _ => break,
        }
    }
    latency
}

/// Columns of the times differ between versions, and are told by their header.
pub(super) fn h2load(report: &[u8]) -> Result<DriverReport, Unread> {
    let lines = lines(report);
    let requests = needed("h2load", "requests:", after(&lines, "requests:"))?;
    let finished = needed("h2load", "finished in", after(&lines, "finished in "))?;
    let mut finished_parts = finished.split(',');
    let spent = finished_parts.next().and_then(nanos);
    let rate = needed("h2load", "req/s", finished_parts.next().and_then(number))?;
    let of = |label: &str| count_before(requests, label).unwrap_or(0);
    let mut out = DriverReport {
        // Those that are done may be errors. Failures are answers of a bad status, and errors.
        requests: of(" succeeded")
            .saturating_add(of(" failed"))
            .saturating_sub(of(" errored")),
        headline: Some(rate),
        // `finished` counts the warm-up too; the rate does not.
        duration_ns: main_duration(&lines).or(spent).map(whole),
        ..DriverReport::default()
    };
    let statuses = after(&lines, "status codes:").unwrap_or_default();
    for class in ["2xx", "3xx", "4xx", "5xx"] {
        out.status(
            class,
            count_before(statuses, &format!(" {class}")).unwrap_or(0),
        );
    }
    out.fail("timeout.total", of(" timeout"));
    out.fail("net.other", of(" errored").saturating_sub(of(" timeout")));
    if let Some(traffic) = after(&lines, "traffic:") {
        let exact = traffic.split_once('(').map(|(_, rest)| rest);
        out.bytes_in = exact.and_then(|rest| rest.split_once(')')?.0.parse().ok());
    }
    let started = lines.iter().find(|line| line.contains(" total client(s)"));
    out.connections = started.map(|_| {
        let clients = lines
            .iter()
            .filter_map(|line| count_before(line, " total client(s)"));
        let clients: Vec<u64> = clients.collect();
        u32::try_from(sum(&clients)).unwrap_or(u32::MAX)
    });
    out.latency = h2load_latency(&lines).and_then(Latency::unless_empty);
    out.throughput = out.good_of(rate, out.requests);
    Ok(out)
}

/// `… and 2s of main duration for measurements.`
fn main_duration(lines: &[String]) -> Option<f64> {
    lines.iter().find_map(|line| {
        let (before, _) = line.split_once(" of main duration")?;
        nanos(before.split_ascii_whitespace().next_back()?)
    })
}

fn h2load_latency(lines: &[String]) -> Option<Latency> {
    let header = lines.iter().find(|line| {
        let mut words = line.split_ascii_whitespace();
        words.next() == Some("min") && words.next() == Some("max")
    })?;
    // Since 1.69 the row is called `request`; it has fewer columns before.
    let is_row = |line: &&String| {
        let name = line.split(':').next().unwrap_or_default().trim();
        (name == "time for request" || name == "request") && line.contains(':')
    };
    let (_, values) = lines.iter().find(is_row)?.split_once(':')?;
    let mut latency = Latency::default();
    for (column, value) in header
        .split_ascii_whitespace()
        .zip(values.split_ascii_whitespace())
    {
        let Some(ns) = nanos(value) else { continue };
        match column {
            "min" => latency.min_ns = Some(whole(ns)),
            "max" => latency.max_ns = Some(whole(ns)),
            "mean" => latency.mean_ns = Some(ns),
            "sd" => latency.stdev_ns = Some(ns),
            "median" => latency.quantile("p50".into(), ns),
            column if column.starts_with('p') => latency.quantile(column.to_owned(), ns),
            // `+/- sd` is a share.
            _ => break,
        }
    }
    Some(latency)
}

/// Latencies in whole milliseconds, but for the mean.
pub(super) fn ab(report: &[u8]) -> Result<DriverReport, Unread> {
    let lines = lines(report);
    let total = |label: &str| after(&lines, label).and_then(count);
    let requests = needed("ab", "Complete requests", total("Complete requests:"))?;
    let rate = after(&lines, "Requests per second:").and_then(number);
    let rate = needed("ab", "Requests per second", rate)?;
    let mut out = DriverReport {
        version: after(&lines, "This is ApacheBench, Version ")
            .and_then(|rest| rest.split_ascii_whitespace().next())
            .map(|version| format!("ApacheBench {version}")),
        requests,
        headline: Some(rate),
        duration_ns: after(&lines, "Time taken for tests:")
            .and_then(|text| nanos(text.strip_suffix(" seconds")?))
            .map(whole),
        bytes_in: total("Total transferred:"),
        bytes_out: total("Total body sent:"),
        connections: total("Concurrency Level:").and_then(|n| u32::try_from(n).ok()),
        in_flight_per_connection: Some(1),
        ..DriverReport::default()
    };
    // Which statuses they were is not told; a 3xx is among them.
    out.fail("status.not_2xx", total("Non-2xx responses:").unwrap_or(0));
    // An answer of another length than the first one is a good answer.
    if let Some(failures) = after(&lines, "(Connect:") {
        let errors = |label| count_after(failures, label).unwrap_or(0);
        let received = errors("Receive: ");
        // What fails while it connects is both.
        let exceptions = errors("Exceptions: ").saturating_sub(received);
        out.fail(
            "net.other",
            count(failures).unwrap_or(0).saturating_add(exceptions),
        );
        out.fail("net.reset.wait", received);
        // With -r these are complete, too.
        out.requests = requests.saturating_sub(received);
    }
    out.latency = ab_latency(&lines).unless_empty();
    out.throughput = out.good_of(rate, requests);
    Ok(out)
}

fn ab_latency(lines: &[String]) -> Latency {
    const MS: f64 = 1e6;
    let mut latency = Latency {
        resolution_ns: Some(MS as u64),
        ..Latency::default()
    };
    // `Time per request:       1.715 [ms] (mean)`; the second such line is per connection.
    latency.mean_ns = after(lines, "Time per request:")
        .and_then(number)
        .map(|ms| ms * MS);
    // `Total:          0    2   1.9      1      11`: min, mean, deviation, median, max.
    if let Some(total) = after(lines, "Total:") {
        let values: Vec<Option<f64>> = total.split_ascii_whitespace().map(number).collect();
        if let [min, _, stdev, _, max] = values[..] {
            latency.min_ns = min.map(|ms| whole(ms * MS));
            latency.stdev_ns = stdev.map(|ms| ms * MS);
            latency.max_ns = max.map(|ms| whole(ms * MS));
        }
    }
    for line in lines {
        // `  99%      9`, after a line that says what they are.
        if let Some((percent, ms)) = line.trim().split_once('%')
            && let (Ok(percent), Some(ms)) = (percent.parse::<f64>(), number(ms))
            && percent < 100.0
        {
            latency.quantile(quantile_name(percent), ms * MS);
        }
    }
    latency
}

/// Latencies in seconds with four digits.
pub(super) fn hey(report: &[u8]) -> Result<DriverReport, Unread> {
    let lines = lines(report);
    let total = after(&lines, "Total:").and_then(number);
    let total = needed("hey", "Total", total)?;
    let rate = after(&lines, "Requests/sec:").and_then(number);
    let rate = needed("hey", "Requests/sec", rate)?;
    let mut out = DriverReport {
        headline: Some(rate),
        duration_ns: Some(whole(total * 1e9)),
        bytes_in: after(&lines, "Total data:").and_then(count),
        in_flight_per_connection: Some(1),
        ..DriverReport::default()
    };
    let section = |title: &str| {
        let from = lines.iter().position(|line| line.starts_with(title));
        let inside = lines.iter().skip(from.map_or(lines.len(), |at| at + 1));
        let entries = inside.map_while(|line| {
            let (number, rest) = line.trim().strip_prefix('[')?.split_once(']')?;
            Some((number.to_owned(), rest.trim().to_owned()))
        });
        entries.collect::<Vec<_>>()
    };
    for (status, rest) in section("Status code distribution:") {
        let answers = count(&rest).unwrap_or(0);
        out.status(&status, answers);
        add(&mut out.requests, answers);
    }
    let mut counted = out.requests;
    for (number, words) in section("Error distribution:") {
        let failures = count(&number).unwrap_or(0);
        out.fail(class_of(&words), failures);
        add(&mut counted, failures);
    }
    let seconds = |label: &str| after(&lines, label).and_then(number).map(|s| s * 1e9);
    // It keeps the first million latencies, and divides the sum of all by their number.
    let kept = kept_by_hey(&lines);
    let of_all = if (1..out.requests).contains(&kept) {
        kept as f64 / out.requests as f64
    } else {
        1.0
    };
    let mut latency = Latency {
        mean_ns: seconds("Average:").map(|mean| mean * of_all),
        min_ns: seconds("Fastest:").map(whole),
        max_ns: seconds("Slowest:").map(whole),
        resolution_ns: Some(100_000),
        ..Latency::default()
    };
    for line in &lines {
        if let Some((percent, rest)) = line.trim().split_once("% in ")
            && let (Ok(percent), Some(seconds)) = (percent.parse(), number(rest))
        {
            latency.quantile(quantile_name(percent), seconds * 1e9);
        }
    }
    out.latency = latency.unless_empty();
    out.throughput = out.good_of(rate, counted);
    Ok(out)
}

/// Latencies in its histogram: `  0.002 [1888]\t|■■■`.
fn kept_by_hey(lines: &[String]) -> u64 {
    let title = "Response time histogram:";
    let from = lines.iter().position(|line| line.starts_with(title));
    let inside = lines.iter().skip(from.map_or(lines.len(), |at| at + 1));
    let counts = inside.map_while(|line| {
        let (_, rest) = line.split_once('[')?;
        rest.split_once(']')?.0.parse().ok()
    });
    sum(&counts.collect::<Vec<u64>>())
}
