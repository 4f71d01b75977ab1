//! What profiles say, below a step: who has the time, whose code it is, what waits for what.

use wallfinder_judge::profile::Change;
use wallfinder_model::Step;
use wallfinder_model::counters::SystemCalls;
use wallfinder_model::profile::{FunctionPart, Part, ProfileKind, Profiles, Reading};

use super::columns::{self, Column};
use crate::counted::{self, CallRow};
use crate::look::{INDENT, Page, Role, cut};
use crate::number;
use crate::profiled::{self, short};

/// Rows of each table.
const CATEGORIES_MAX: usize = 12;
const FUNCTIONS_MAX: usize = 10;
const SITES_MAX: usize = 5;
const CALLS_MAX: usize = 12;
/// Columns for a function's name.
const NAME_MAX: usize = 50;
/// Callers of a site that are told.
const CALLERS_MAX: usize = 6;

/// All that was seen of both sides from inside, where anything was.
pub(crate) fn inside(page: &mut Page, step: &Step) {
    let sides = [
        ("PROFILES", &step.profiles),
        ("CLIENT", &step.client_profiles),
    ];
    for (title, side) in sides {
        if let Some(side) = side {
            page.gap();
            profiles(page, title, side);
        }
    }
    if step.profiles.is_some() || step.client_profiles.is_some() {
        page.gap();
        counted(page, step);
    }
}

/// What both sides cost for each request, in everything that is counted.
fn counted(page: &mut Page, step: &Step) {
    let rows = counted::each_request(step);
    if rows.is_empty() {
        return;
    }
    page.entry("COUNTED", Role::Strong, "for each request");
    for side in [&step.profiles, &step.client_profiles] {
        if let Some(unavailable) = side.as_ref().map(counted::unavailable)
            && !unavailable.is_empty()
        {
            unavailable
                .iter()
                .for_each(|line| page.beside(Role::Dim, line));
            break;
        }
    }
    let side = |index: usize| rows.iter().map(|row| row.each[index].clone()).collect();
    let names = rows.iter().map(|row| (Role::Plain, row.what.clone()));
    let table = vec![
        Column::words("", 0, names.collect()),
        Column::numbers("server", 0, side(0)),
        Column::numbers("client", 0, side(1)),
    ];
    columns::write(page, table, INDENT);
}

fn calls(page: &mut Page, calls: &SystemCalls) {
    page.entry("calls", Role::Strong, &counted::calls_headline(calls));
    let rows = counted::calls(calls, CALLS_MAX);
    let cells = |of: &dyn Fn(&CallRow) -> &String| rows.iter().map(|row| of(row).clone()).collect();
    let names = rows.iter().map(|row| (Role::Plain, row.name.clone()));
    let table = vec![
        Column::words("system call", 0, names.collect()),
        Column::numbers("each request", 0, cells(&|row| &row.each_request)),
        Column::numbers("until it returns", 1, cells(&|row| &row.time_each)),
        Column::numbers("failed", 2, cells(&|row| &row.failed)),
    ];
    columns::write(page, table, INDENT);
}

/// All of a side's profiles, in the order of their kinds.
fn profiles(page: &mut Page, title: &str, profiles: &Profiles) {
    let processes = match profiles.processes {
        1 => "1 process".to_owned(),
        processes => format!("{processes} processes, merged"),
    };
    page.entry(
        title,
        Role::Strong,
        &format!(
            "{} of {processes} under {} requests/s",
            number::length(profiles.window_ns),
            number::amount(profiles.answered * 1e9 / profiles.window_ns.max(1) as f64)
        ),
    );
    if let Some(beside) = profiled::reconciliation(profiles) {
        page.beside(Role::Dim, &beside);
    }
    for missing in &profiles.missing {
        page.beside(Role::Warn, missing);
    }
    for kind in ProfileKind::ALL {
        if let Some(reading) = profiles.of(kind) {
            page.gap();
            one(page, profiles, reading);
        }
    }
    if let Some(watched) = &profiles.calls {
        page.gap();
        calls(page, watched);
    }
}

/// One profile, with what is known of the load that it was taken under.
pub(crate) fn one(page: &mut Page, profiles: &Profiles, reading: &Reading) {
    if let Some(why) = profiled::empty(reading) {
        page.entry(reading.kind.label(), Role::Dim, why);
        return;
    }
    let headline = profiled::headline(profiles, reading);
    page.entry(reading.kind.label(), Role::Strong, &headline);
    if reading.named_share < 0.99 {
        let named = number::share(reading.named_share);
        page.beside(Role::Warn, &format!("only {named} of it has symbols"));
    }
    match reading.kind {
        ProfileKind::Block | ProfileKind::Waits | ProfileKind::Mutex | ProfileKind::Goroutine => {
            sites(page, reading);
        }
        ProfileKind::Heap | ProfileKind::Allocs => functions(page, profiles, reading),
        ProfileKind::Cpu | ProfileKind::Stacks => {
            let origins = reading.origins.iter().map(|part| {
                let share = number::share(reading.share_of_busy(part.value));
                format!("{} {share}", part.name)
            });
            let origins: Vec<String> = origins.collect();
            page.beside(
                Role::Dim,
                &format!("by whose code: {}", origins.join(" · ")),
            );
            page.gap();
            categories(page, profiles, reading);
            page.gap();
            functions(page, profiles, reading);
        }
    }
}

fn categories(page: &mut Page, profiles: &Profiles, reading: &Reading) {
    let parts: Vec<&Part> = reading.categories.iter().take(CATEGORIES_MAX).collect();
    let names = parts.iter().map(|part| (Role::Plain, part.name.clone()));
    let numbers = |of: &dyn Fn(i64) -> String| parts.iter().map(|part| of(part.value)).collect();
    let mut table = vec![
        Column::words("what it does", 0, names.collect()),
        Column::numbers(
            "share",
            0,
            numbers(&|value| number::share(reading.share_of_busy(value))),
        ),
    ];
    if profiles.answered > 0.0 {
        let each = |value| profiled::per_request(profiles, reading, value).unwrap_or_default();
        table.push(Column::numbers("each request", 1, numbers(&each)));
    }
    columns::write(page, table, INDENT);
}

fn functions(page: &mut Page, profiles: &Profiles, reading: &Reading) {
    let parts: Vec<&FunctionPart> = reading.functions.iter().take(FUNCTIONS_MAX).collect();
    let name = |part: &&FunctionPart| (Role::Plain, cut(short(&part.name), NAME_MAX));
    let own = |of: &dyn Fn(i64) -> String| parts.iter().map(|part| of(part.own)).collect();
    let with =
        |of: &dyn Fn(i64) -> String| parts.iter().map(|part| of(part.with_callees)).collect();
    let share = |value: i64| number::share(reading.share(value));
    let mut table = vec![
        Column::words("function", 0, parts.iter().map(name).collect()),
        Column::numbers("own", 0, own(&share)),
        Column::numbers("with callees", 1, with(&share)),
    ];
    if profiles.answered > 0.0 {
        let each = |value| profiled::per_request(profiles, reading, value).unwrap_or_default();
        table.push(Column::numbers("own, each request", 2, own(&each)));
    }
    columns::write(page, table, INDENT);
}

fn sites(page: &mut Page, reading: &Reading) {
    let busy = reading.sites.iter().filter(|site| !site.idle);
    for site in busy.take(SITES_MAX) {
        let share = number::share(reading.share_of_busy(site.value));
        let times = match site.count {
            0 => String::new(),
            count => format!(
                ", {} times, {} each",
                number::whole(count as u64),
                profiled::value(reading, site.value / count)
            ),
        };
        page.beside(
            Role::Plain,
            &format!("{share} {}{times}", profiled::place(site)),
        );
        let callers = profiled::callers(site, CALLERS_MAX);
        if !callers.is_empty() {
            page.beside(Role::Dim, &format!("< {callers}"));
        }
    }
    let idle: Vec<String> = reading
        .sites
        .iter()
        .filter(|site| site.idle)
        .take(3)
        .map(|site| short(&site.function).to_owned())
        .collect();
    if !idle.is_empty() && reading.idle > 0 {
        let idle = idle.join(", ");
        page.beside(
            Role::Dim,
            &format!("left out, for they have nothing to do: {idle}"),
        );
    }
}

/// Rows of a difference.
const CHANGES_MAX: usize = 20;

/// What functions have on their own in a second, before and after.
pub(crate) fn changes(page: &mut Page, after: &Reading, changes: &[Change]) {
    if changes.is_empty() {
        page.entry(after.kind.label(), Role::Dim, "nothing changed");
        return;
    }
    let rows = &changes[..changes.len().min(CHANGES_MAX)];
    let text = |value: f64| match value < 0.0 {
        true => format!("\u{2212}{}", profiled::value(after, (-value) as i64)),
        false => profiled::value(after, value as i64),
    };
    let numbers =
        |of: &dyn Fn(&Change) -> f64| rows.iter().map(|change| text(of(change))).collect();
    let name = |change: &Change| (Role::Plain, cut(short(&change.name), NAME_MAX));
    let table = vec![
        Column::words("function, in a second", 0, rows.iter().map(name).collect()),
        Column::numbers("before", 0, numbers(&|change| change.before)),
        Column::numbers("after", 0, numbers(&|change| change.after)),
        Column::numbers("change", 0, numbers(&Change::by)),
    ];
    columns::write(page, table, 1);
}
