//! The client hosts of a step, row by row: for the terminal and for the page. Of many those that stand out, and the one
//! in the middle.

use serde::Serialize;
use wallfinder_judge::clients::{ClientView, views};
use wallfinder_model::Step;

use crate::figures::quantile;
use crate::number;
use crate::number::maybe;
use crate::words::counted;

/// Up to so many hosts have a row each.
const ALL_MAX: usize = 12;
/// Hosts of one sort that have a row where not all have.
const OF_A_SORT_MAX: usize = 4;

/// Reasons for a row that are told.
const NOTES_MAX: usize = 2;

/// One host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) host: String,
    /// Why it has a row, where not all have; that it was lost.
    pub(crate) note: String,
    pub(crate) connections: String,
    /// Good answers per second.
    pub(crate) rate: String,
    pub(crate) p50: String,
    pub(crate) p99: String,
    /// Busy share of its workers.
    pub(crate) busy: String,
    /// CPU time used, of what it may use.
    pub(crate) cpu: String,
    /// Throughput over its own ceiling.
    pub(crate) ceiling: String,
    /// Use of its own link's rate, the fuller way.
    pub(crate) link: String,
    /// 99th percentile of how late its workers were.
    pub(crate) late: String,
    /// When it began against the agreed instant, with the error of its clock.
    pub(crate) began: String,
}

/// The rows of a step, and how many hosts have none.
pub(crate) fn rows(step: &Step) -> (Vec<Row>, usize) {
    let views = views(step);
    let shown = shown(&views);
    let left_out = views.len() - shown.len();
    let rows = shown
        .into_iter()
        .map(|(nth, notes)| row(&views[nth], notes));
    (rows.collect(), left_out)
}

/// Whether the link of any of them is known.
pub(crate) fn has_links(rows: &[Row]) -> bool {
    rows.iter().any(|row| row.link != number::UNKNOWN)
}

/// How far apart the hosts began, with the error of their clocks.
pub(crate) fn skew(step: &Step) -> Option<String> {
    let began = step.clients.iter().filter(|part| part.lost.is_none());
    let least = began.clone().map(|part| part.began_ns).min()?;
    let most = began.clone().map(|part| part.began_ns).max()?;
    let error = began.map(|part| part.clock_error_ns).max()?;
    let hosts = counted(step.clients.len() as u64, "client host");
    let error = number::span(error as f64);
    Some(match most.abs_diff(least) {
        0 => format!("{hosts} began together, as far as their clocks tell: to {error}"),
        apart => format!(
            "{hosts} began within {}, give or take {error} of their clocks",
            number::span(apart as f64)
        ),
    })
}

type Measure = fn(&ClientView<'_>) -> f64;

/// Which hosts have a row, and why: their places, in order. Those that come first here stand out most, and more than
/// [`ALL_MAX`] have none.
fn shown(views: &[ClientView<'_>]) -> Vec<(usize, Vec<&'static str>)> {
    if views.len() <= ALL_MAX {
        return (0..views.len()).map(|nth| (nth, Vec::new())).collect();
    }
    let mut shown: Vec<(usize, Vec<&'static str>)> = Vec::new();
    let mut show = |nth: usize, why: &'static str| {
        let known = shown.iter().position(|of| of.0 == nth);
        if let Some(place) = known {
            let notes = &mut shown[place].1;
            if !notes.contains(&why) {
                notes.push(why);
            }
        } else if shown.len() < ALL_MAX {
            shown.push((nth, vec![why]));
        }
    };
    let of_a_sort = |is: fn(&ClientView<'_>) -> bool| -> Vec<usize> {
        let each = views.iter().enumerate().filter(|(_, view)| is(view));
        each.map(|(nth, _)| nth).take(OF_A_SORT_MAX).collect()
    };
    for nth in of_a_sort(|view| view.part.lost.is_some()) {
        show(nth, "lost");
    }
    for nth in of_a_sort(|view| view.is_full()) {
        show(nth, "full");
    }
    if let Some(nth) = views.iter().position(ClientView::has_full_link) {
        show(nth, "link full");
    }
    let by = |measure: Measure| -> Vec<usize> {
        let mut order: Vec<usize> = (0..views.len()).collect();
        order.sort_by(|a, b| measure(&views[*a]).total_cmp(&measure(&views[*b])));
        order
    };
    // Where all are alike nobody stands out.
    let most_of = |measure: Measure| -> Option<usize> {
        let order = by(measure);
        let (least, most) = (order[0], order[order.len() - 1]);
        (measure(&views[most]) > measure(&views[least])).then_some(most)
    };
    let rates = by(|view| view.part.throughput);
    show(rates[0], "slowest");
    let late: Measure = |view| quantile(view.part.lateness.as_ref(), "p99").unwrap_or(0.0);
    if let Some(nth) = most_of(late) {
        show(nth, "latest");
    }
    show(rates[rates.len() / 2], "median");
    show(rates[rates.len() - 1], "fastest");
    let p99: Measure = |view| quantile(view.part.latency.as_ref(), "p99").unwrap_or(0.0);
    let most: [(Measure, &str); 4] = [
        (p99, "highest p99"),
        (|view| view.level(), "busiest"),
        (
            |view| view.ceiling_share().unwrap_or(0.0),
            "nearest its ceiling",
        ),
        (
            |view| view.part.began_ns.unsigned_abs() as f64,
            "furthest from the start",
        ),
    ];
    for (measure, why) in most {
        if let Some(nth) = most_of(measure) {
            show(nth, why);
        }
    }
    shown.sort_by_key(|(nth, _)| *nth);
    shown
}

fn row(view: &ClientView<'_>, notes: Vec<&'static str>) -> Row {
    let part = view.part;
    let mut notes: Vec<String> = notes.into_iter().map(str::to_owned).collect();
    if let Some(lost) = &part.lost {
        notes.retain(|note| note != "lost");
        let after = number::length(lost.heard_ns);
        let unknown = number::whole(part.counts.unknown);
        notes.insert(0, format!("lost after {after}, {unknown} unknown"));
    }
    notes.truncate(NOTES_MAX);
    let span = |histogram, name: &str| maybe(quantile(histogram, name), number::span);
    let began = match (&part.lost, part.began_ns) {
        (Some(_), _) => number::UNKNOWN.to_owned(),
        (None, ns) => format!(
            "{}{} ± {}",
            if ns < 0 { "-" } else { "+" },
            number::span(ns.unsigned_abs() as f64),
            number::span(part.clock_error_ns as f64)
        ),
    };
    Row {
        host: part.host.clone(),
        note: notes.join(", "),
        connections: number::whole(u64::from(part.connections)),
        rate: number::amount(part.throughput),
        p50: span(part.latency.as_ref(), "p50"),
        p99: span(part.latency.as_ref(), "p99"),
        busy: maybe(view.busy, number::share),
        cpu: maybe(view.seen.map(|seen| seen.utilisation), number::share),
        ceiling: maybe(view.ceiling_share(), number::share),
        link: maybe(view.link_share(), number::share),
        late: span(part.lateness.as_ref(), "p99"),
        began,
    }
}
