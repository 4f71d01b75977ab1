//! What is counted of both sides for each request, and system calls by name: shared by terminal text
//! and the page.

use wallfinder_model::Step;
use wallfinder_model::counters::{CallKind, EventCount, SystemCalls};
use wallfinder_model::profile::Profiles;
use wallfinder_model::telemetry::FamilySummary;

use crate::number;

/// One thing that is counted, for each request on the server and on the client.
pub(crate) struct Row {
    pub(crate) what: String,
    /// Server, client; nothing where it is not known.
    pub(crate) each: [String; 2],
}

/// One system call.
pub(crate) struct CallRow {
    pub(crate) name: String,
    pub(crate) each_request: String,
    /// Mean time from the call to its return.
    pub(crate) time_each: String,
    /// Of them, that gave an error back.
    pub(crate) failed: String,
}

/// What a window counted, of both sides.
pub(crate) fn each_request(step: &Step) -> Vec<Row> {
    let telemetry = &step.telemetry;
    let families = [telemetry.server.as_ref(), telemetry.client.as_ref()];
    let profiles = [step.profiles.as_ref(), step.client_profiles.as_ref()];
    let answered = step.throughput * telemetry.window_ns as f64 / 1e9;
    if answered <= 0.0 {
        return Vec::new();
    }
    let row = |what: &str, of: &dyn Fn(&FamilySummary) -> String| Row {
        what: what.to_owned(),
        each: families.map(|family| family.map_or(number::UNKNOWN.to_owned(), of)),
    };
    let count = |total: u64| each(total as f64 / answered);
    let time = |total_ns: f64| number::span(total_ns / answered);
    let mut rows = vec![
        row("CPU time", &|family| time(family.cpu_ns as f64)),
        row("of it in the kernel", &|family| {
            let user = family.cpu_user_ns as f64 / family.cpu_ns.max(1) as f64;
            number::share((1.0 - user).max(0.0))
        }),
        row("ready, and waiting for a processor", &|family| {
            time(family.run_wait_cores * telemetry.window_ns as f64)
        }),
        row("context switches to wait", &|family| {
            count(family.switches_voluntary)
        }),
        row("context switches, made to", &|family| {
            count(family.switches_involuntary)
        }),
        row("page faults", &|family| {
            count(family.faults_minor.saturating_add(family.faults_major))
        }),
    ];
    let names = profiles.into_iter().flatten();
    let mut known: Vec<&str> = Vec::new();
    for event in names.flat_map(|profiles| &profiles.counts) {
        if event.value.is_some() && !known.contains(&event.name.as_str()) {
            known.push(&event.name);
        }
    }
    rows.extend(known.into_iter().map(|name| Row {
        what: name.replace('-', " "),
        each: profiles.map(|profiles| {
            let counted = profiles.and_then(|profiles| event_each(profiles, name));
            counted.unwrap_or(number::UNKNOWN.to_owned())
        }),
    }));
    rows
}

/// An event for each request, where it was counted.
fn event_each(profiles: &Profiles, name: &str) -> Option<String> {
    let mut counts = profiles.counts.iter();
    let event: &EventCount = counts.find(|event| event.name == name)?;
    Some(each(
        event.value? as f64 / profiles.answered_while_counted(),
    ))
}

/// What cannot be counted here, and why: a line for each reason.
pub(crate) fn unavailable(profiles: &Profiles) -> Vec<String> {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for event in &profiles.counts {
        let Some(why) = &event.unavailable else {
            continue;
        };
        match by_reason.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(&event.name),
            None => by_reason.push((why, vec![&event.name])),
        }
    }
    let line =
        |(why, names): (&str, Vec<&str>)| format!("unavailable: {}: {why}", names.join(", "));
    by_reason.into_iter().map(line).collect()
}

/// System calls, the most frequent first.
pub(crate) fn calls(calls: &SystemCalls, most: usize) -> Vec<CallRow> {
    let row = |call: &wallfinder_model::counters::SystemCall| CallRow {
        name: call.name.clone(),
        each_request: calls.each(call.count).map_or(String::new(), each),
        time_each: number::span(call.ns as f64 / call.count.max(1) as f64),
        failed: match call.failed {
            0 => String::new(),
            failed => number::share(failed as f64 / call.count.max(1) as f64),
        },
    };
    calls.calls.iter().take(most).map(row).collect()
}

/// The first line above them.
pub(crate) fn calls_headline(calls: &SystemCalls) -> String {
    let each_request = calls.each(calls.count()).map_or(String::new(), each);
    let rate = calls.answered * 1e9 / calls.watched_ns.max(1) as f64;
    format!(
        "{each_request} system calls for each request, watched for {} under {} requests/s",
        number::length(calls.watched_ns),
        number::amount(rate)
    )
}

/// A side of the load.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Server,
    Client,
}

impl Side {
    pub(crate) const BOTH: [Side; 2] = [Side::Server, Side::Client];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Side::Server => "server",
            Side::Client => "client",
        }
    }

    pub(crate) fn profiles(self, step: &Step) -> Option<&Profiles> {
        match self {
            Side::Server => step.profiles.as_ref(),
            Side::Client => step.client_profiles.as_ref(),
        }
    }

    fn family(self, step: &Step) -> Option<&FamilySummary> {
        match self {
            Side::Server => step.telemetry.server.as_ref(),
            Side::Client => step.telemetry.client.as_ref(),
        }
    }
}

/// What is read of one side of a step.
type OfSide = dyn Fn(Side, &Step) -> Option<f64>;

/// A figure of one side of a step, and how it is shown.
pub(crate) struct SideFigure {
    pub(crate) name: &'static str,
    pub(crate) of: Box<OfSide>,
    pub(crate) show: fn(f64) -> String,
}

/// What is counted for each request.
pub(crate) fn figures() -> Vec<SideFigure> {
    let answered = |step: &Step| step.throughput * step.telemetry.window_ns as f64 / 1e9;
    let family = move |name, of: fn(&FamilySummary) -> u64, show| SideFigure {
        name,
        of: Box::new(move |side, step| {
            let total = of(side.family(step)?) as f64;
            Some(total / answered(step)).filter(|each| each.is_finite())
        }),
        show,
    };
    let mut figures = vec![
        family("CPU", |family| family.cpu_ns, number::span),
        SideFigure {
            name: "kernel",
            of: Box::new(|side, step| {
                let family = side.family(step)?;
                let user = family.cpu_user_ns as f64 / family.cpu_ns as f64;
                Some(1.0 - user).filter(|share| share.is_finite())
            }),
            show: number::share,
        },
        family(
            "switches",
            |family| {
                family
                    .switches_voluntary
                    .saturating_add(family.switches_involuntary)
            },
            each,
        ),
        family(
            "faults",
            |family| family.faults_minor.saturating_add(family.faults_major),
            each,
        ),
        SideFigure {
            name: "calls",
            of: Box::new(|side, step| {
                let calls = side.profiles(step)?.calls.as_ref()?;
                calls.each(calls.count())
            }),
            show: each,
        },
    ];
    figures.extend(CallKind::ALL.into_iter().map(|kind| SideFigure {
        name: kind.label(),
        of: Box::new(move |side, step| {
            let calls = side.profiles(step)?.calls.as_ref()?;
            calls.each(calls.of_kind(kind))
        }),
        show: each,
    }));
    figures
}

/// Shares of a side's processors, by what they do: the category, and a shorter name.
const SHARES: [(&str, &str); 10] = [
    ("protocol", "protocol"),
    ("encoding", "encoding"),
    ("allocation", "allocation"),
    ("collection", "collection"),
    ("copying", "copying"),
    ("scheduler", "scheduler"),
    ("futex", "futex"),
    ("channels", "channels"),
    ("reading from sockets", "reading"),
    ("writing to sockets", "writing"),
];

/// What a side's processors do, as shares of its sampled stacks.
pub(crate) fn shares() -> Vec<SideFigure> {
    let share = |(category, name): (&'static str, &'static str)| SideFigure {
        name,
        of: Box::new(move |side, step| {
            let cpu = side.profiles(step)?.of_cpu()?;
            Some(cpu.share_of_busy(cpu.category(category)))
        }),
        show: number::share,
    };
    SHARES.into_iter().map(share).collect()
}

/// A count for each request, small ones with two figures: `2.13`, `0.0041`.
pub(crate) fn each(value: f64) -> String {
    if !(1e-9..0.0995).contains(&value) {
        return number::amount(value);
    }
    let digits = (-value.log10().floor()) as usize + 1;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_counts_keep_two_figures() {
        assert_eq!(each(2.128), "2.13");
        assert_eq!(each(0.25), "0.25");
        assert_eq!(each(0.0996), "0.1");
        assert_eq!(each(0.0412), "0.041");
        assert_eq!(each(0.000_413), "0.00041");
        assert_eq!(each(0.0), "0");
    }

    #[test]
    fn counts_are_divided_by_the_answers_of_the_time_that_they_cover() {
        // A window of 1.9 s at 1,000/s, of which profiles have one second.
        let mut profiles: Profiles = serde_json::from_str(
            r#"{
                "window_ns": 1000000000, "processes": 1, "answered": 1000.0, "readings": [],
                "reconciliation": null, "files": [], "missing": [],
                "counts": [{ "name": "migrations", "value": 1900 }]
            }"#,
        )
        .expect("as tools wrote it that did not keep how long they counted");
        assert_eq!(event_each(&profiles, "migrations").as_deref(), Some("1.9"));
        profiles.counts_ns = Some(1_900_000_000);
        let text = serde_json::to_string(&profiles).unwrap();
        let profiles: Profiles = serde_json::from_str(&text).unwrap();
        assert_eq!(event_each(&profiles, "migrations").as_deref(), Some("1"));
        assert_eq!(event_each(&profiles, "cycles"), None);
    }

    #[test]
    fn events_with_one_reason_share_a_line() {
        let event = |name: &str, value, why: Option<&str>| EventCount {
            name: name.to_owned(),
            value,
            unavailable: why.map(str::to_owned),
        };
        let profiles = Profiles {
            counts: vec![
                event("cycles", None, Some("no such counter")),
                event("instructions", None, Some("no such counter")),
                event("migrations", Some(3), None),
            ],
            ..Profiles::default()
        };
        let expected = ["unavailable: cycles, instructions: no such counter"];
        assert_eq!(unavailable(&profiles), expected);
    }
}
