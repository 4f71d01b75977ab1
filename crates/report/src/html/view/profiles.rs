//! What profilers saw within the step that is judged: a part for each kind, and what its flame
//! graph can be asked for.

use serde::Serialize;
use wallfinder_model::Step;
use wallfinder_model::profile::{ProfileKind, Profiles, Reading};

use crate::number;
use crate::profiled::{self, short};

/// Rows of each table.
const ROWS_MAX: usize = 12;
/// Callers of a site that are told.
const CALLERS_MAX: usize = 8;

#[derive(Serialize)]
pub(super) struct ProfilesView {
    summary: String,
    beside: Option<String>,
    missing: Vec<String>,
    kinds: Vec<Kind>,
    /// Kinds with stacks to draw.
    flames: Vec<(&'static str, String)>,
}

#[derive(Serialize)]
struct Kind {
    name: &'static str,
    headline: String,
    tables: Vec<Table>,
    sites: Vec<SiteRow>,
}

#[derive(Serialize)]
struct Table {
    head: [&'static str; 3],
    rows: Vec<[String; 3]>,
}

#[derive(Serialize)]
struct SiteRow {
    share: String,
    site: String,
    times: String,
    callers: String,
}

impl ProfilesView {
    pub(super) fn of(step: &Step) -> Option<ProfilesView> {
        let profiles = step.profiles.as_ref()?;
        let kinds = ProfileKind::ALL
            .iter()
            .filter_map(|kind| profiles.of(*kind));
        let processes = match profiles.processes {
            1 => "one process".to_owned(),
            processes => format!("{processes} processes, merged"),
        };
        Some(ProfilesView {
            summary: format!("{} of {processes}.", number::length(profiles.window_ns)),
            beside: profiled::reconciliation(profiles),
            missing: profiles.missing.clone(),
            kinds: kinds
                .clone()
                .map(|reading| part(profiles, reading))
                .collect(),
            flames: kinds
                .filter(|reading| reading.total > 0)
                .map(|reading| (reading.kind.label(), words(reading.kind).to_owned()))
                .collect(),
        })
    }
}

fn words(kind: ProfileKind) -> &'static str {
    match kind {
        ProfileKind::Cpu => "CPU",
        ProfileKind::Stacks => "stacks, by the kernel",
        ProfileKind::Block => "waits",
        ProfileKind::Waits => "waits of threads, by the kernel",
        ProfileKind::Mutex => "mutexes",
        ProfileKind::Allocs => "allocations",
        ProfileKind::Heap => "heap",
        ProfileKind::Goroutine => "goroutines",
    }
}

fn part(profiles: &Profiles, reading: &Reading) -> Kind {
    if let Some(why) = profiled::empty(reading) {
        return Kind {
            name: words(reading.kind),
            headline: why.to_owned(),
            tables: Vec::new(),
            sites: Vec::new(),
        };
    }
    let each = |value| profiled::per_request(profiles, reading, value).unwrap_or_default();
    let categories = || Table {
        head: ["What it does", "Share", "Each request"],
        rows: reading
            .categories
            .iter()
            .take(ROWS_MAX)
            .map(|part| {
                let share = number::share(reading.share_of_busy(part.value));
                [part.name.clone(), share, each(part.value)]
            })
            .collect(),
    };
    let functions = || Table {
        head: ["Function", "Own", "With callees"],
        rows: reading
            .functions
            .iter()
            .take(ROWS_MAX)
            .map(|part| {
                let share = |value| number::share(reading.share(value));
                let name = short(&part.name).to_owned();
                [name, share(part.own), share(part.with_callees)]
            })
            .collect(),
    };
    let (tables, sites) = match reading.kind {
        ProfileKind::Cpu | ProfileKind::Stacks => (vec![categories(), functions()], Vec::new()),
        ProfileKind::Allocs | ProfileKind::Heap => (vec![functions()], Vec::new()),
        ProfileKind::Block | ProfileKind::Waits | ProfileKind::Mutex | ProfileKind::Goroutine => {
            (Vec::new(), sites(reading))
        }
    };
    Kind {
        name: words(reading.kind),
        headline: profiled::headline(profiles, reading),
        tables,
        sites,
    }
}

fn sites(reading: &Reading) -> Vec<SiteRow> {
    let busy = reading.sites.iter().filter(|site| !site.idle);
    busy.take(ROWS_MAX)
        .map(|site| SiteRow {
            share: number::share(reading.share_of_busy(site.value)),
            site: profiled::place(site),
            times: match site.count {
                0 => String::new(),
                count => number::whole(count as u64),
            },
            callers: profiled::callers(site, CALLERS_MAX),
        })
        .collect()
}
