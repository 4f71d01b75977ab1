//! One step in full: what it did, what it cost on both sides, what failed.

use wallfinder_judge::bounds::Bounds;
use wallfinder_judge::identity;
use wallfinder_model::record::Histogram;
use wallfinder_model::telemetry::FamilySummary;
use wallfinder_model::{Record, Step};

use super::columns::{self, Column};
use super::{clients, find};
use crate::figures::{Figures, QUANTILES, at_least, quantile};
use crate::look::{Line, Page, Role};
use crate::said::ended;
use crate::{number, words};

/// Target and load, in two entries.
pub(crate) fn target(page: &mut Page, record: &Record, step: &Step) {
    page.entry("target", Role::Plain, &words::target(step));
    let mut load = vec![
        words::load(&step.load),
        words::driver(&step.driver, step.load.workers),
    ];
    if step.load.body_bytes > 0 {
        load.push(format!(
            "{} of body",
            number::bytes(step.load.body_bytes as f64)
        ));
    }
    page.entry("load", Role::Plain, &load.join(" · "));
    if let Some(subject) = &record.plan.subject {
        page.entry("subject", Role::Plain, subject);
    }
    if let Some(command) = &step.driver.command {
        page.entry("driver", Role::Plain, command);
    }
}

/// Everything between the verdict and the doubts.
pub(crate) fn result(page: &mut Page, step: &Step) {
    let figures = Figures::of(step);
    throughput(page, step, &figures);
    page.gap();
    latency(page, step);
    requests(page, step);
    clients::table(page, step);
    little(page, &figures);
    page.gap();
    costs(page, step, &figures);
    if let Some(samples) = &step.samples {
        let text = format!("{} in {}", number::whole(samples.rows), samples.file);
        page.entry("samples", Role::Plain, &text);
    }
    failures(page, step, &figures);
    if step
        .verdict
        .as_ref()
        .is_some_and(|v| !v.elasticities.is_empty())
    {
        page.gap();
        find::elasticities(page, step);
    }
}

fn throughput(page: &mut Page, step: &Step, figures: &Figures) {
    let mut parts = vec![format!("{} requests/s", number::amount(step.throughput))];
    if let Some(interval) = words::interval(figures) {
        parts.push(format!("within {interval}"));
    }
    parts.extend(words::asked(step));
    if let Some(words) = words::throughput_from(&step.driver) {
        parts.push(words.to_owned());
    }
    if let Some(rate) = figures.bytes_in_rate {
        parts.push(format!("{}/s in", number::bytes(rate)));
    }
    if let Some(rate) = figures.bytes_out_rate {
        parts.push(format!("{}/s out", number::bytes(rate)));
    }
    page.entry("throughput", Role::Strong, &parts.join(" · "));
    if let (Some(ceiling), Some(share)) = (&step.ceiling, figures.ceiling_share) {
        let how = match ceiling.workers_saturated {
            true => "calibrated".to_owned(),
            false => format!(
                "from their CPU per request; {}/s driven",
                number::amount(ceiling.driven)
            ),
        };
        let age = ceiling.age_s.map_or(String::new(), |age_s| {
            let age = number::rough(age_s.max(1) * 1_000_000_000);
            format!("; measured {age} ago")
        });
        page.beside(
            Role::Plain,
            &format!(
                "{} of what these workers can drive ({}/s, {how}{age})",
                number::share(share),
                number::amount(ceiling.throughput)
            ),
        );
    }
}

/// The row that no request without an answer could move.
const LATE: &str = "worker late";

/// The table of percentiles.
fn latency(page: &mut Page, step: &Step) {
    let rows: Vec<(&str, &Histogram)> = [
        ("latency", &step.latency),
        ("service", &step.service),
        ("first byte", &step.first_byte),
        (LATE, &step.lateness),
    ]
    .into_iter()
    .filter_map(|(name, histogram)| Some((name, histogram.as_ref()?)))
    .collect();
    if rows.is_empty() {
        page.entry("latency", Role::Dim, words::no_latency(step));
        return;
    }
    let bounds = Bounds::of(step);
    let mut table = vec![Column::words(
        "",
        0,
        rows.iter()
            .map(|(name, _)| (Role::Dim, (*name).to_owned()))
            .collect(),
    )];
    for (name, _) in QUANTILES {
        let rank = match name {
            "p75" => 9,
            "p95" => 8,
            "p99.99" => 3,
            _ => 0,
        };
        let is_bound = bounds.as_ref().is_some_and(|b| b.bounds_named(name));
        let cells = rows
            .iter()
            .map(|(row, histogram)| {
                let shown = span(quantile(Some(histogram), name));
                at_least(shown, is_bound && *row != LATE)
            })
            .collect();
        table.push(Column::numbers(name, rank, cells));
    }
    let whole = |pick: fn(&Histogram) -> f64, is_bound: bool| -> Vec<String> {
        let shown = |histogram: &Histogram| span((histogram.count > 0).then(|| pick(histogram)));
        rows.iter()
            .map(|(row, histogram)| at_least(shown(histogram), is_bound && *row != LATE))
            .collect()
    };
    let mean_is_bound = bounds.as_ref().is_some_and(Bounds::bounds_mean);
    table.push(Column::numbers(
        "max",
        0,
        whole(|h| h.max_ns as f64, bounds.is_some()),
    ));
    table.push(Column::numbers(
        "mean",
        5,
        whole(|h| h.mean_ns, mean_is_bound),
    ));
    columns::write(page, table, 1);
    page.beside(
        Role::Dim,
        if step.driver.latency_from_intended {
            "latency is from the intended instant, service from the first byte sent"
        } else {
            "latency is from the send: this driver hides the wait before it"
        },
    );
    if let Some(text) = words::batching(step) {
        page.beside(Role::Dim, &format!("at the client {text}"));
    }
}

/// Which request has most of what the wall is made of, and which cost each other, where weights were drawn anew to tell.
pub(super) fn by_request(page: &mut Page, step: &Step) {
    if let Some(text) = crate::requests::heaviest(step) {
        page.entry("BY REQUEST", Role::Plain, &text);
        for text in crate::requests::interference(step) {
            page.beside(Role::Plain, &text);
        }
    }
}

/// Each kind of a mix: those that have most of the wall, or that are sent most.
pub(super) fn requests(page: &mut Page, step: &Step) {
    /// More stand on the page.
    const SHOWN_MAX: usize = 16;
    let rows = crate::requests::rows(step);
    if rows.is_empty() {
        return;
    }
    page.gap();
    let shown = &rows[..rows.len().min(SHOWN_MAX)];
    let cells = |of: fn(&crate::requests::Row) -> &String| -> Vec<String> {
        shown.iter().map(|row| of(row).clone()).collect()
    };
    let names = cells(|row| &row.name).into_iter();
    let table = vec![
        Column::words(
            "request",
            0,
            names.map(|name| (Role::Plain, name)).collect(),
        ),
        Column::numbers("sent", 3, cells(|row| &row.sent)).headed("sent of", "its weight"),
        Column::numbers("answered", 0, cells(|row| &row.rate)).headed("answered", "/s"),
        Column::numbers("p50", 2, cells(|row| &row.p50)),
        Column::numbers("p99", 0, cells(|row| &row.p99)),
        Column::numbers("failed", 0, cells(|row| &row.failed)),
        Column::numbers("body", 4, cells(|row| &row.body)),
    ];
    let has_costs = shown.iter().any(|row| !row.cost.is_empty());
    let cost = Column::numbers("cost", 0, cells(|row| &row.cost)).headed("server's", "CPU each");
    let share = match shown.iter().any(|row| !row.wall.is_empty()) {
        true => Column::numbers("share", 0, cells(|row| &row.wall)).headed("share of", "the wall"),
        false => {
            Column::numbers("share", 0, cells(|row| &row.share)).headed("share of", "that CPU")
        }
    };
    let has_share = share.cells.iter().any(|(_, cell)| !cell.is_empty());
    let has_backend = shown.iter().any(|row| !row.backend.is_empty());
    let backend =
        Column::numbers("behind", 0, cells(|row| &row.backend)).headed("behind it", "CPU each");
    let table: Vec<Column> = table
        .into_iter()
        .chain(has_costs.then_some(cost))
        .chain(has_share.then_some(share))
        .chain(has_backend.then_some(backend))
        .collect();
    let left_out = columns::write(page, table, 1);
    columns::note(page, left_out);
    if rows.len() > shown.len() {
        let more = words::counted((rows.len() - shown.len()) as u64, "request");
        page.beside(Role::Dim, &format!("{more} more on the page"));
    }
    if let Some(text) = crate::requests::looks(step) {
        page.beside(Role::Dim, &text);
    }
}

fn span(ns: Option<f64>) -> String {
    ns.map_or(number::UNKNOWN.to_owned(), number::span)
}

fn little(page: &mut Page, figures: &Figures) {
    if let Some(text) = words::little(figures) {
        page.entry("N/X", Role::Plain, &text);
    }
}

fn costs(page: &mut Page, step: &Step, figures: &Figures) {
    let telemetry = &step.telemetry;
    let used =
        |cpu_ns: Option<f64>, side: &str, family: Option<&FamilySummary>, core: Option<f64>| {
            let utilisation = family.map(|family| family.utilisation);
            let ended = family.is_some_and(|family| family.processes == 0);
            let mut text = side.to_owned();
            match cpu_ns {
                Some(ns) => text.push_str(&format!(" {} per request", number::span(ns))),
                None if utilisation.is_none() => text.push_str(" not known"),
                None => {}
            }
            if let Some(utilisation) = utilisation {
                let busy = number::share(utilisation);
                if ended {
                    text.push_str(&format!(
                        " ({busy} busy over the whole window, before whose end it had ended)"
                    ));
                    return text;
                }
                text.push_str(&format!(" ({busy} busy"));
                if let Some(core) = core {
                    text.push_str(&format!(", busiest core {}", number::share(core)));
                }
                text.push(')');
            }
            text
        };
    let server = used(
        figures.server_cpu_ns,
        "server",
        telemetry.server.as_ref(),
        figures.server_core_max,
    );
    let client = used(
        figures.client_cpu_ns,
        "client",
        telemetry.client.as_ref(),
        figures.client_core_max,
    );
    page.entry("CPU", Role::Plain, &server);
    page.beside(Role::Plain, &client);
    if let Some(cores) = figures.observer_cores {
        page.beside(
            Role::Dim,
            &format!("observing took {} of a core", number::share(cores)),
        );
    }
    if let Some(relay) = &telemetry.relay {
        let text = format!(
            "the relay of the link's {} took {} of a core, {} late with 1 in 100, {} lost",
            number::span(relay.delay_ns as f64),
            number::share(relay.busy_share()),
            number::span(relay.late_p99_ns as f64),
            number::whole(relay.dropped)
        );
        page.beside(Role::Dim, &text);
    }

    let mut parts = Vec::new();
    if let Some(bytes) = figures.bytes_in {
        let body = figures
            .body_bytes
            .map(|body| format!(", {} of it body", number::bytes(body)))
            .unwrap_or_default();
        let decoded = figures
            .decoded_bytes
            .map(|decoded| format!(", decoded to {}", number::bytes(decoded)))
            .unwrap_or_default();
        parts.push(format!("{} in{body}{decoded}", number::bytes(bytes)));
    }
    if let Some(messages) = figures.messages {
        parts.push(format!("{} messages", number::amount(messages)));
    }
    if let Some(bytes) = figures.bytes_out {
        parts.push(format!("{} out", number::bytes(bytes)));
    }
    if let (Some(down), Some(up)) = (figures.packets_down, figures.packets_up) {
        parts.push(format!(
            "{} down, {} up",
            words::packets(down),
            number::amount(up)
        ));
    }
    if let Some(share) = figures.link_share {
        parts.push(format!("link at {}", number::share(share)));
    }
    if !parts.is_empty() {
        page.entry("per answer", Role::Plain, &parts.join(" · "));
    }
    let ways = [
        (
            figures.segments_down,
            figures.bytes_in,
            figures.header_bytes_down,
        ),
        (
            figures.segments_up,
            figures.bytes_out,
            figures.header_bytes_up,
        ),
    ];
    let ways = ways.map(|(segments, payload, headers)| {
        let (payload, headers) = (number::bytes(payload?), number::bytes(headers?));
        Some(format!(
            "{}, {payload} and {headers} of headers",
            words::segments(segments?)
        ))
    });
    if let [Some(down), Some(up)] = ways {
        page.beside(Role::Plain, &format!("down {down} · up {up}"));
    }
}

fn failures(page: &mut Page, step: &Step, figures: &Figures) {
    let counts = &step.counts;
    if let Some(handshakes) = &counts.handshakes {
        page.entry("handshakes", Role::Plain, &words::handshakes(handshakes));
    }
    if let Some(statuses) = ended::statuses(counts) {
        page.entry("statuses", Role::Plain, &statuses);
    }
    let classes = ended::failure_classes(counts);
    if classes.is_empty() {
        page.entry("errors", Role::Plain, "none");
    } else {
        let listed: Vec<String> = classes
            .iter()
            .map(|(class, count)| format!("{class} {count}"))
            .collect();
        let share = figures
            .failed_share
            .filter(|share| *share > 0.0)
            .map(|share| format!("{} of requests: ", number::share(share)))
            .unwrap_or_default();
        page.entry(
            "errors",
            Role::Bad,
            &format!("{share}{}", listed.join(" · ")),
        );
    }
    if let Some(when) = ended::unreachable(step) {
        page.entry("unreachable", Role::Bad, &when);
    }
    if counts.not_sent > 0 {
        page.entry(
            "not sent",
            Role::Warn,
            &format!(
                "{} to start in the window and not sent in it",
                match counts.not_sent {
                    1 => "1 request was".to_owned(),
                    n => format!("{} requests were", number::whole(n.unsigned_abs())),
                }
            ),
        );
    }
    if !balanced(step) {
        page.entry(
            "accounting",
            Role::Bad,
            "The counts do not add up: in flight + scheduled ≠ answered + failed + not sent + in flight + unknown.",
        );
    }
}

/// The identity of the counts; a foreign driver's requests are not scheduled by us.
fn balanced(step: &Step) -> bool {
    step.driver.command.is_some() || identity::check(&step.counts).holds()
}

/// The two lines that scripts scrape, as wrk prints them.
pub(crate) fn closing_lines(page: &mut Page, step: &Step) {
    let seconds = step.window_ns as f64 / 1e9;
    let transfer = if seconds > 0.0 {
        step.counts.bytes_in as f64 / seconds
    } else {
        0.0
    };
    let requests = if step.throughput.is_finite() {
        step.throughput
    } else {
        0.0
    };
    page.push(Line::new().plain(format!("Requests/sec: {requests:9.2}")));
    page.push(Line::new().plain(format!("Transfer/sec: {:>10}B", binary(transfer))));
}

/// wrk's binary units: two digits, and the next unit from 85 % of it on.
fn binary(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "G", "T"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 * 0.85 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfer_is_in_the_units_of_wrk() {
        assert_eq!(binary(0.0), "0.00");
        assert_eq!(binary(500.0), "500.00");
        assert_eq!(binary(900.0), "0.88K");
        assert_eq!(binary(1.23 * 1024.0 * 1024.0), "1.23M");
        assert_eq!(binary(1e18), "909494.70T");
    }
}
