//! What profiles say, below a step: who has the time, whose code it is, what waits for what.

use wallfinder_judge::profile::{Amounts, Change, Rates};
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
    if let Some(reading) = &profiles.socket_waits {
        page.gap();
        let headline = profiled::headline_of_sockets(reading);
        page.entry("sockets", Role::Strong, &headline);
        sites(page, reading);
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
    for doubt in profiled::doubts(reading) {
        page.beside(Role::Warn, &doubt);
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
/// Columns for a function's name in one.
const CHANGED_NAME_MAX: usize = 40;

/// What changed between two profiles: by what is functions' own, and by what they have with their
/// callees; for each request where both sides' are known, else in a second. The first is the whole.
pub(crate) fn changes(page: &mut Page, after: &Reading, changes: &[Change]) {
    let Some((whole, functions)) = changes.split_first() else {
        return;
    };
    if functions.is_empty() {
        page.entry(after.kind.label(), Role::Dim, "nothing changed");
        return;
    }
    let by_request = whole.own.per_request.is_some();
    let over = match by_request {
        true => "for each request",
        false if after.duration_ns == 0 => "at one moment",
        false => "in a second",
    };
    page.entry(after.kind.label(), Role::Strong, over);
    let own: fn(&Change) -> &Amounts = |change| &change.own;
    let with_callees: fn(&Change) -> &Amounts = |change| &change.with_callees;
    for (head, of) in [
        ("function, its own", own),
        ("function, with callees", with_callees),
    ] {
        let by = |change: &&Change| of(change).told().by().abs();
        let mut rows: Vec<&Change> = functions.iter().filter(|one| by(one) > 0.0).collect();
        rows.sort_by(|a, b| by(b).total_cmp(&by(a)));
        rows.truncate(CHANGES_MAX);
        rows.insert(0, whole);
        page.gap();
        let table = changed(head, &rows, of, &after.measure.unit);
        let left_out = columns::write(page, table, 1);
        columns::note(page, left_out);
    }
    if whole.own.told().is_shown().is_some() {
        page.gap();
        page.beside(
            Role::Dim,
            "the interval is that of sampling, 95 %, for each function by itself: of a hundred \
             that did not change, five are shown to",
        );
    }
}

fn changed(
    head: &'static str,
    rows: &[&Change],
    of: fn(&Change) -> &Amounts,
    unit: &str,
) -> Vec<Column> {
    let numbers = |of_rates: &dyn Fn(&Rates) -> String| {
        let rates = rows.iter().map(|change| of(change).told());
        rates.map(of_rates).collect::<Vec<String>>()
    };
    let names = rows.iter().map(|change| {
        let name = cut(short(&change.name), CHANGED_NAME_MAX);
        (Role::Plain, name)
    });
    let interval = |rates: &Rates| match rates.limits {
        Some((low, high)) => format!("[{}, {}]", signed(unit, low), signed(unit, high)),
        None => String::new(),
    };
    let mark = |change: &&Change| match of(change).told().is_shown() {
        Some(false) => (Role::Dim, "not shown".to_owned()),
        _ => (Role::Plain, String::new()),
    };
    let in_a_second = |change: &&Change| signed(unit, of(change).per_second.by());
    let mut table = vec![
        Column::words(head, 0, names.collect()),
        Column::numbers("before", 0, numbers(&|rates| amount(unit, rates.before))),
        Column::numbers("after", 0, numbers(&|rates| amount(unit, rates.after))),
        Column::numbers("change", 0, numbers(&|rates| signed(unit, rates.by()))),
    ];
    let mut told = rows.iter().map(|change| of(change).told());
    if told.any(|rates| rates.limits.is_some()) {
        table.push(Column::numbers("interval", 1, numbers(&interval)));
        table.push(Column::words("", 0, rows.iter().map(mark).collect()));
    }
    if rows.iter().any(|change| of(change).per_request.is_some()) {
        let cells = rows.iter().map(in_a_second).collect();
        table.push(Column::numbers("change in a second", 2, cells).headed("change", "in a second"));
    }
    table
}

fn amount(unit: &str, value: f64) -> String {
    match unit {
        "nanoseconds" => number::span(value),
        "bytes" => number::bytes(value),
        _ => number::amount(value),
    }
}

fn signed(unit: &str, value: f64) -> String {
    let size = amount(unit, value.abs());
    match value {
        less if less < 0.0 => format!("\u{2212}{size}"),
        more if more > 0.0 => format!("+{size}"),
        _ => size,
    }
}

#[cfg(test)]
mod tests {
    use wallfinder_judge::profile::{Rules, Taken, difference, read};
    use wallfinder_model::profile::{Function, Measure, Profile, StackFrame, StackSample};

    use super::*;
    use crate::look::Look;

    /// A second in which the one function has so many samples of 10 ms.
    fn taken(count: i64) -> Profile {
        let measure = |name: &str, unit: &str| Measure {
            name: name.to_owned(),
            unit: unit.to_owned(),
        };
        Profile {
            measures: vec![measure("samples", "count"), measure("cpu", "nanoseconds")],
            functions: vec![Function {
                name: "example.org/a/work.Do".to_owned(),
                file: "a.go".to_owned(),
            }],
            samples: vec![StackSample {
                stack: vec![StackFrame {
                    function: 0,
                    line: 1,
                }],
                values: vec![count, count * 10_000_000],
            }],
            duration_ns: 1_000_000_000,
        }
    }

    fn shown(before: (i64, Option<f64>), after: (i64, Option<f64>), look: &Look) -> String {
        let profiles = [taken(before.0), taken(after.0)];
        let of = |side: usize, answered: Option<f64>| Taken {
            profile: &profiles[side],
            answered,
        };
        let found = difference(ProfileKind::Cpu, of(0, before.1), of(1, after.1));
        let reading = read(ProfileKind::Cpu, &profiles[1], &Rules::default());
        let mut page = Page::new(look);
        changes(&mut page, &reading, &found);
        page.finish()
    }

    /// The line of the function in the first table, by its words.
    fn first(text: &str) -> Vec<&str> {
        let line = text.lines().find(|line| line.contains("work.Do"));
        line.expect("the function").split_whitespace().collect()
    }

    #[test]
    fn a_difference_is_told_for_each_request_and_in_a_second() {
        let look = Look::default();
        // Twice the time for four times the requests.
        let text = shown((50, Some(100.0)), (100, Some(400.0)), &look);
        assert!(text.contains("for each request"), "{text}");
        let line = first(&text).join(" ");
        let numbers = "work.Do 5.00 ms 2.50 ms \u{2212}2.50 ms [\u{2212}";
        assert!(line.starts_with(numbers), "{line}");
        assert!(
            line.ends_with("+500 ms"),
            "in a second there is more: {line}"
        );
        assert!(!line.contains("not shown"), "{line}");
        let text = shown((50, None), (100, Some(400.0)), &look);
        assert!(text.contains("in a second"), "{text}");
        let line = first(&text).join(" ");
        assert!(
            line.starts_with("work.Do 500 ms 1.00 s +500 ms ["),
            "{line}"
        );
    }

    #[test]
    fn what_may_be_chance_is_marked() {
        let look = Look::default();
        let line = |before, after| first(&shown((before, None), (after, None), &look)).join(" ");
        assert!(line(50, 55).ends_with("not shown"), "{}", line(50, 55));
        assert!(line(50, 500).ends_with(']'), "{}", line(50, 500));
        let same = shown((50, None), (50, None), &look);
        assert!(same.contains("nothing changed"), "{same}");
    }

    #[test]
    fn a_difference_fits_a_narrow_page() {
        let look = Look {
            width: 60,
            ascii: true,
            ..Look::default()
        };
        let text = shown((50, Some(100.0)), (100, Some(400.0)), &look);
        assert!(text.is_ascii(), "{text}");
        assert!(text.lines().all(|line| line.len() <= 60), "{text}");
        assert!(text.contains("no room here for"), "{text}");
    }
}
