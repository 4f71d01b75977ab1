//! Steps as one table with the "bound by" column, and the best of them in a line.

use wallfinder_model::verdict::How;
use wallfinder_model::{Record, Step};

use super::columns::{self, Column};
use super::{best_step, verdict};
use crate::figures::{self, Figures};
use crate::look::{Line, Page, Role, cut};
use crate::number::maybe;
use crate::{number, said, words};

/// What all steps have in common.
pub(crate) fn target(page: &mut Page, record: &Record, first: &Step) {
    let same = record.steps.iter().all(|step| step.target == first.target);
    let target = if same {
        &first.target
    } else {
        &record.plan.target
    };
    page.entry(
        "target",
        Role::Plain,
        &format!("{} {}", first.load.method, target.url),
    );
    if let Some(subject) = &record.plan.subject {
        page.entry("subject", Role::Plain, subject);
    }
    let mut load = vec![
        words::driver(&first.driver, first.load.workers),
        format!("{} for each step", number::length(first.load.stop.after.0)),
    ];
    if first.load.warmup.0 > 0 {
        load.push(format!("{} warm-up", number::length(first.load.warmup.0)));
    }
    page.entry("load", Role::Plain, &load.join(" · "));
    if let Some(command) = &first.driver.command {
        page.entry("driver", Role::Plain, command);
    }
}

/// `ceiling  28,140 requests/s at 100 connections, p50 3.4 ms, p99 5.1 ms, 4.07 KB each`.
pub(crate) fn best(page: &mut Page, record: &Record) {
    let Some(best) = best_step(record) else {
        return;
    };
    let label = if record.steps.len() > 1 {
        "ceiling"
    } else {
        "result"
    };
    if best.counts.answered == 0 && best.throughput == 0.0 {
        page.entry(label, Role::Bad, "not known: no step had a good answer");
        return;
    }
    let figures = Figures::of(best);
    let mut text = format!(
        "{} requests/s at {}",
        number::amount(best.throughput),
        words::counted(u64::from(best.load.connections), "connection")
    );
    if best.load.in_flight_per_connection > 1 {
        text.push_str(&format!(
            " × {} in flight",
            number::whole(u64::from(best.load.in_flight_per_connection))
        ));
    }
    for name in ["p50", "p99"] {
        if let Some(shown) = figures::latency(best, name) {
            text.push_str(&format!(", {name} {shown}"));
        }
    }
    if let Some(bytes) = figures.bytes_in {
        text.push_str(&format!(", {} each", number::bytes(bytes)));
    }
    let ramp = words::one_ramp(record);
    if let Some(knee) = ramp.as_ref().and_then(|ramp| ramp.knee) {
        text.push_str(&format!(
            " ({})",
            words::knee(&knee, best.load.arrival.is_open())
        ));
    }
    page.entry(label, Role::Strong, &text);
    if let Some(past) = ramp.and_then(|ramp| ramp.past_knee) {
        page.beside(Role::Plain, &words::past_knee(&past));
    }
}

/// The verdict of the best step, as a sentence.
pub(crate) fn best_wall(page: &mut Page, record: &Record) {
    let Some(verdict) = best_step(record).and_then(|best| best.verdict.as_ref()) else {
        return;
    };
    page.beside(
        Role::Plain,
        &format!("{} ({})", said::verdict(verdict), words::standing(verdict)),
    );
}

/// The table.
pub(crate) fn table(page: &mut Page, record: &Record) {
    let steps = &record.steps;
    let figures: Vec<Figures> = steps.iter().map(Figures::of).collect();
    let mut table = Vec::new();
    if let Some(names) = names(record) {
        table.push(names);
    }
    table.push(
        Column::numbers(
            "connections",
            0,
            column(steps, |step| {
                number::whole(u64::from(step.load.connections))
            }),
        )
        .or_headed("connec-", "tions"),
    );
    let depth = |step: &Step| step.load.in_flight_per_connection;
    if steps.iter().any(|step| depth(step) != depth(&steps[0])) {
        let depths = column(steps, |step| number::depth(depth(step)));
        table.push(Column::numbers("depth", 1, depths));
    }
    table.push(
        Column::numbers(
            "in-flight",
            6,
            column(steps, |step| number::amount(step.in_flight_mean)),
        )
        .headed("in-", "flight"),
    );
    if steps.iter().any(|step| step.load.arrival.is_open()) {
        table.push(
            Column::numbers(
                "asked for",
                1,
                column(steps, |step| {
                    maybe(words::rate_asked(&step.load.arrival), number::amount)
                }),
            )
            .headed("asked", "for/s"),
        );
    }
    table.push(
        Column::numbers(
            "requests/s",
            0,
            column(steps, |step| number::amount(step.throughput)),
        )
        .or_headed("requests", "/s"),
    );
    for name in ["p50", "p99"] {
        table.push(Column::numbers(
            name,
            if name == "p50" { 4 } else { 0 },
            column(steps, |step| {
                figures::latency(step, name).unwrap_or(number::UNKNOWN.to_owned())
            }),
        ));
    }
    table.push(Column::numbers(
        "N/X",
        7,
        rows(&figures, |figures| maybe(figures.n_over_x_ns, number::span)),
    ));
    if figures
        .iter()
        .any(|f| f.failed_share.is_some_and(|share| share > 0.0))
    {
        table.push(Column::numbers(
            "errors",
            2,
            rows(&figures, |figures| {
                maybe(figures.failed_share, number::share)
            }),
        ));
    }
    table.push(
        Column::numbers("server CPU", 3, server_cpu(steps, &figures))
            .headed("server CPU", "(max core)"),
    );
    table.push(
        Column::numbers(
            "client CPU",
            2,
            column(steps, |step| {
                let client = step.telemetry.client.as_ref();
                maybe(client.map(|client| client.utilisation), number::share)
            }),
        )
        .headed("client", "CPU"),
    );
    table.push(Column::numbers(
        "link",
        5,
        rows(&figures, |figures| maybe(figures.link_share, number::share)),
    ));
    let bound: Vec<(Role, String)> = steps.iter().map(bound_by).collect();
    let doubtful = bound.iter().any(|(_, words)| words.ends_with('?'));
    table.push(Column::words("bound by", 0, bound));
    let left_out = columns::write(page, table, 1);
    columns::note(page, left_out);
    if doubtful {
        let note = format!("? observed with a confidence below {}", words::DOUBTFUL);
        page.push(Line::new().plain(" ").dim(note));
    }
}

/// A column of names, where steps differ in more than connections, depth and rate.
fn names(record: &Record) -> Option<Column> {
    let first = record.steps.first()?;
    let alike = record.steps.iter().all(|step| {
        step.target == first.target
            && step.driver.name == first.driver.name
            && step.load.method == first.load.method
            && step.load.body_bytes == first.load.body_bytes
    });
    (!alike).then(|| {
        let names: Vec<&str> = record.steps.iter().map(|step| step.name.as_str()).collect();
        let shown = telling(&names);
        let cells = shown.iter().map(|name| (Role::Plain, cut(name, 22)));
        Column::words("step", 0, cells.collect())
    })
}

/// Names without what all of them have in the same place: `read/engine/c64/round3` is `read/3` where
/// there is no other driver and no other number of connections.
fn telling(names: &[&str]) -> Vec<String> {
    let names: Vec<Vec<&str>> = names.iter().map(|name| name.split('/').collect()).collect();
    let tells = |place: usize| {
        let mut parts = names.iter().map(|name| name.get(place));
        let first = parts.next();
        parts.any(|part| Some(part) != first)
    };
    let longest = names.iter().map(Vec::len).max().unwrap_or(0);
    let told: Vec<bool> = (0..longest).map(tells).collect();
    let part_of = |part: &&'_ str| match part.strip_prefix("round") {
        Some(number) if number.parse::<u32>().is_ok() => number.to_owned(),
        _ => (*part).to_owned(),
    };
    let short = |name: &Vec<&str>| {
        let parts = name.iter().zip(&told).filter(|(_, tells)| **tells);
        let parts: Vec<String> = parts.map(|(part, _)| part_of(part)).collect();
        if parts.is_empty() {
            name.join("/")
        } else {
            parts.join("/")
        }
    };
    names.iter().map(short).collect()
}

fn column(steps: &[Step], cell: impl Fn(&Step) -> String) -> Vec<String> {
    steps.iter().map(cell).collect()
}

fn rows(figures: &[Figures], cell: impl Fn(&Figures) -> String) -> Vec<String> {
    figures.iter().map(cell).collect()
}

fn server_cpu(steps: &[Step], figures: &[Figures]) -> Vec<String> {
    steps
        .iter()
        .zip(figures)
        .map(|(step, figures)| {
            let Some(server) = &step.telemetry.server else {
                return number::UNKNOWN.to_owned();
            };
            let all = number::share(server.utilisation);
            match figures.server_core_max {
                Some(core) => format!("{all} ({})", number::share(core).trim_end_matches(" %")),
                None => all,
            }
        })
        .collect()
}

/// The last column: the wall, with a question mark where it is a guess.
fn bound_by(step: &Step) -> (Role, String) {
    match &step.verdict {
        None => (Role::Dim, number::UNKNOWN.to_owned()),
        Some(verdict) => {
            let doubtful = verdict.how == How::Observed && verdict.confidence < words::DOUBTFUL;
            let mark = if doubtful { "?" } else { "" };
            (
                verdict::role(verdict.wall),
                format!("{}{mark}", words::short(verdict.wall)),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::telling;

    #[test]
    fn names_are_told_by_what_tells_them_apart() {
        let names = [
            "read/engine/c64/round1",
            "read/engine/c64/round1/disturbed1",
            "read-gz/engine/c64/round12",
        ];
        assert_eq!(
            telling(&names),
            ["read/1", "read/1/disturbed1", "read-gz/12"]
        );
        let drivers = ["read/engine/c64", "read/wrk/c64", "read/wrk/c128"];
        assert_eq!(telling(&drivers), ["engine/c64", "wrk/c64", "wrk/c128"]);
        assert_eq!(telling(&["read/c64", "read/c64"]), ["read/c64", "read/c64"]);
        assert!(telling(&[]).is_empty());
    }
}
