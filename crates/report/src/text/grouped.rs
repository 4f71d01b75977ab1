//! A study's groups: a row for all rounds of each under each load, what its server waits for, and what
//! squeezes say of it.

use wallfinder_model::Record;

use super::cells_table::{MIDDLE, bound_by, note};
use super::columns::{self, Column};
use crate::counted::each;
use crate::grouped::{self, Place, Waits};
use crate::look::{Line, Page, Role, cut, wrap};
use crate::{number, words};

/// Room for a name, and for a place in code.
const NAME: usize = 20;
const CODE: usize = 24;

/// `study  prefork-demo · 94 steps`.
pub(crate) fn heading(page: &mut Page, record: &Record) {
    let steps = words::counted(record.steps.len() as u64, "step");
    let text = format!("{} · {steps}", record.plan.name);
    page.entry("study", Role::Strong, &text);
}

/// The table.
pub(crate) fn table(page: &mut Page, record: &Record) {
    let places = grouped::of(record);
    let words_of = |name: &'static str, word: &dyn Fn(&Place<'_>) -> String| {
        let shown = places.iter().map(|place| (Role::Plain, word(place)));
        Column::words(name, 0, shown.collect())
    };
    let mut table = vec![words_of("group", &|place| cut(place.group, NAME))];
    if grouped::by_several(&places) {
        table.push(words_of("driver", &|place| cut(place.driver, NAME)));
    }
    table.extend(grouped::columns(&places).into_iter().map(|column| {
        let [above, below] = column.head;
        Column::numbers(column.name, column.rank, column.cells).headed(above, below)
    }));
    let bound = places.iter().map(|place| bound_by(&place.rounds));
    table.push(Column::words("bound by", 0, bound.collect()));
    let left_out = columns::write(page, table, 1);
    columns::note(page, left_out);
    note(page, MIDDLE);
}

/// What servers that were profiled wait for, and how much of that is where most of it is.
pub(crate) fn waits(page: &mut Page, record: &Record) {
    let places = grouped::of(record);
    let waited = places
        .iter()
        .filter_map(|place| Some((place, place.waits()?)));
    let rows: Vec<(&Place<'_>, Waits)> = waited.collect();
    if rows.is_empty() {
        return;
    }
    let numbers = |name, rank, cell: &dyn Fn(&Waits) -> Option<String>| {
        let shown = rows.iter().map(|(_, waits)| cell(waits));
        let shown = shown.map(|cell| cell.unwrap_or(number::UNKNOWN.to_owned()));
        Column::numbers(name, rank, shown.collect())
    };
    let names = rows.iter().map(|(place, _)| {
        let name = cut(place.group, NAME);
        (Role::Plain, name)
    });
    let connections = rows.iter().map(|(place, _)| {
        let count = place.load().connections;
        number::whole(u64::from(count))
    });
    let most = rows.iter().map(|(_, waits)| {
        let place = waits.most.as_ref().map(|(place, _)| cut(place, CODE));
        (Role::Plain, place.unwrap_or(number::UNKNOWN.to_owned()))
    });
    let table = vec![
        Column::words("group", 0, names.collect()),
        Column::numbers("connections", 0, connections.collect()).headed("connec-", "tions"),
        numbers("waiting for something", 0, &|waits| {
            Some(each(waits.waiting))
        })
        .headed("wait for", "something"),
        numbers("with nothing to do", 1, &|waits| Some(each(waits.idle)))
            .headed("nothing", "to do"),
        Column::words("most of it in", 0, most.collect()),
        numbers("its share", 0, &|waits| {
            waits.most.as_ref().map(|(_, part)| number::share(*part))
        })
        .headed("its", "share"),
        numbers("mutexes", 2, &|waits| {
            let seconds = waits.mutexes.map(|(seconds, _)| seconds)?;
            Some(number::span(seconds * 1e9))
        })
        .headed("mutexes", "in 1 s"),
        numbers("of that in the same place", 3, &|waits| {
            let (_, there) = waits.mutexes?;
            Some(number::share(there?))
        })
        .headed("of that", "there"),
    ];
    page.gap();
    let title = "what waits in the server, at any moment";
    page.push(Line::new().plain(" ").strong(title));
    let left_out = columns::write(page, table, 1);
    columns::note(page, left_out);
}

/// What squeezes say of each that was squeezed.
pub(crate) fn squeezes(page: &mut Page, record: &Record) {
    let places = grouped::of(record);
    let by_several = grouped::by_several(&places);
    let told = places
        .iter()
        .filter_map(|place| Some((place, place.squeezed()?)));
    let told: Vec<_> = told.collect();
    if told.is_empty() {
        return;
    }
    page.gap();
    let title = "what squeezes say: the wall, and by how many per cent throughput answers to one";
    page.push(Line::new().plain(" ").strong(title));
    for (place, step) in told {
        page.push(Line::new().plain(" ").plain(place.name(by_several)));
        let room = page.columns().saturating_sub(3);
        for line in wrap(&grouped::squeezes(step), room) {
            page.push(Line::new().plain("   ").plain(line));
        }
    }
}
