//! A study's cells: steps that were run in several rounds, one row for all rounds of each.

use unicode_width::UnicodeWidthStr;
use wallfinder_model::record::Cell;
use wallfinder_model::{Record, Step};

use super::columns::{self, Column};
use super::verdict;
use crate::cells::{self, Choice};
use crate::counted::{self, Side, SideFigure};
use crate::figures::quantile;
use crate::look::{Line, Page, Role, cut, wrap};
use crate::{number, words};

/// Room for a name.
const NAME: usize = 14;

/// The table: of each figure the middle one of the rounds.
pub(crate) fn table(page: &mut Page, record: &Record) {
    let cells = cells::of(record);
    let numbers = |name: &'static str, rank: u8, cell: &dyn Fn(&[&Step]) -> String| {
        let shown = cells.iter().map(|(_, rounds)| cell(rounds)).collect();
        Column::numbers(name, rank, shown)
    };
    let words_of = |name: &'static str, cell: &dyn Fn(&Cell) -> String| {
        let shown = cells.iter().map(|(of, _)| (Role::Plain, cell(of)));
        Column::words(name, 0, shown.collect())
    };
    let of_latency = |rounds: &[&Step], name: &str| {
        let found = cells::middle(rounds, |step| quantile(step.latency.as_ref(), name));
        maybe(found, number::span)
    };
    let table = vec![
        words_of("group", &|cell| cut(&cell.group, NAME)),
        words_of("driver", &|cell| cut(&cell.driver, NAME)),
        numbers("bytes", 0, &|rounds| {
            let bytes = rounds[0].cell.as_ref().map(|cell| cell.payload);
            maybe(bytes, |count| number::whole(u64::from(count)))
        }),
        numbers("clients", 0, &|rounds| {
            let clients = rounds[0].cell.as_ref().map(|cell| cell.clients);
            maybe(clients, |count| number::whole(u64::from(count)))
        }),
        numbers("rounds", 6, &|rounds| number::whole(rounds.len() as u64)),
        numbers("requests/s", 0, &|rounds| {
            maybe(
                cells::middle(rounds, |step| Some(step.throughput)),
                number::amount,
            )
        }),
        numbers("p50", 4, &|rounds| of_latency(rounds, "p50")),
        numbers("p99", 0, &|rounds| of_latency(rounds, "p99")),
        numbers("p99.9", 7, &|rounds| of_latency(rounds, "p99.9")),
        numbers("p99/p50", 2, &|rounds| {
            maybe(cells::middle(rounds, cells::tail), times)
        }),
        numbers("fairness", 5, &|rounds| {
            maybe(cells::middle(rounds, |step| step.fairness), |index| {
                number::fixed(index, 2)
            })
        }),
        numbers("server CPU", 3, &|rounds| {
            let used = cells::middle(rounds, |step| {
                step.telemetry.server.as_ref().map(|side| side.utilisation)
            });
            maybe(used, number::share)
        })
        .headed("server", "CPU"),
        numbers("client CPU", 3, &|rounds| {
            let used = cells::middle(rounds, |step| {
                step.telemetry.client.as_ref().map(|side| side.utilisation)
            });
            maybe(used, number::share)
        })
        .headed("client", "CPU"),
        Column::words(
            "bound by",
            0,
            cells.iter().map(|(_, rounds)| bound_by(rounds)).collect(),
        ),
    ];
    let left_out = columns::write(page, table, 1);
    columns::note(page, left_out);
    if cells.iter().any(|(_, rounds)| rounds.len() > 1) {
        let text = "of each figure the middle one of the rounds; a wall that not all of them name \
                    has their number";
        note(page, text);
    }
}

/// What each side cost for each request, and what its processors did, where it was looked into.
pub(crate) fn inside(page: &mut Page, record: &Record) {
    let cells: Vec<(&Cell, Vec<&Step>)> = cells::of(record)
        .into_iter()
        .filter(|(_, rounds)| rounds.iter().any(|step| step.profiles.is_some()))
        .collect();
    if cells.is_empty() {
        return;
    }
    for side in Side::BOTH {
        for (what, figures) in [
            ("for each request", counted::figures()),
            ("what its processors do", counted::shares()),
        ] {
            page.gap();
            let title = format!("{}: {what}", side.label());
            page.push(Line::new().plain(" ").strong(title));
            side_table(page, &cells, side, &figures);
        }
    }
}

fn side_table(page: &mut Page, cells: &[(&Cell, Vec<&Step>)], side: Side, figures: &[SideFigure]) {
    let first = cells.first().map(|(cell, _)| &cell.driver);
    let several = cells.iter().any(|(cell, _)| Some(&cell.driver) != first);
    let named = cells.iter().map(|(cell, _)| {
        let by = match several {
            true => format!(" {}", cut(&cell.driver, NAME)),
            false => String::new(),
        };
        let name = format!("{}{by} {} B", cut(&cell.group, NAME), cell.payload);
        (Role::Plain, name)
    });
    let clients = cells.iter().map(|(cell, _)| cell.clients.to_string());
    let mut table = vec![
        Column::words("group", 0, named.collect()),
        Column::numbers("clients", 0, clients.collect()),
    ];
    for (nth, figure) in figures.iter().enumerate() {
        let shown = cells.iter().map(|(_, rounds)| {
            let middle = cells::middle(rounds, |step| (figure.of)(side, step));
            maybe(middle, figure.show)
        });
        // The last are dropped first.
        let rank = nth as u8 / 2;
        table.push(Column::numbers(figure.name, rank, shown.collect()));
    }
    let left_out = columns::write(page, table, 1);
    columns::note(page, left_out);
}

/// Which rival is best in each cell, and by how much: a table for each driver and measure.
pub(crate) fn best(page: &mut Page, record: &Record) {
    let cells = cells::of(record);
    let mut compared = false;
    for driver in cells::drivers_of_rivals(&cells) {
        for measure in cells::MEASURES {
            let choices = cells::choices(&cells, driver, measure);
            if choices.is_empty() {
                continue;
            }
            let title = format!("best by {}, with {driver}", measure.name);
            page.push(Line::new().plain(" ").strong(title));
            map(page, &choices);
            for crossing in cells::crossings(&cells, driver, measure) {
                for line in wrap(&crossing.line(), page.columns().saturating_sub(3)) {
                    page.push(Line::new().plain("   ").dim(line));
                }
            }
            page.gap();
            compared = true;
        }
    }
    let text = "the factor is by how much the next best is worse; ~ where the rounds leave it open";
    if compared {
        note(page, text);
    }
}

fn note(page: &mut Page, text: &str) {
    for line in wrap(text, page.columns().saturating_sub(1)) {
        page.push(Line::new().plain(" ").dim(line));
    }
}

/// Rows are sizes, columns clients.
fn map(page: &mut Page, choices: &[Choice<'_>]) {
    let values = |of: fn(&Choice<'_>) -> u32| {
        let mut values: Vec<u32> = choices.iter().map(of).collect();
        values.sort_unstable();
        values.dedup();
        values
    };
    let (payloads, clients) = (
        values(|choice| choice.payload),
        values(|choice| choice.clients),
    );
    let mut rows = vec![vec!["bytes".to_owned()]];
    rows[0].extend(
        clients
            .iter()
            .map(|count| words::counted(u64::from(*count), "client")),
    );
    for payload in &payloads {
        let mut row = vec![number::whole(u64::from(*payload))];
        for count in &clients {
            let is = |choice: &&Choice<'_>| (choice.payload, choice.clients) == (*payload, *count);
            row.push(choices.iter().find(is).map_or(String::new(), chosen));
        }
        rows.push(row);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].width()).max();
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|at| width(at).unwrap_or(0))
        .collect();
    if widths.iter().map(|width| width + 2).sum::<usize>() + 1 > page.columns() {
        return list(page, choices);
    }
    for (nth, row) in rows.iter().enumerate() {
        let mut line = Line::new().plain("   ");
        for (cell, width) in row.iter().zip(&widths) {
            let pad = " ".repeat(width.saturating_sub(cell.width()) + 2);
            line = match nth {
                0 => line.dim(cell).plain(pad),
                _ => line.plain(cell).plain(pad),
            };
        }
        page.push(line);
    }
}

/// The same one below the other, where there is no room.
fn list(page: &mut Page, choices: &[Choice<'_>]) {
    for choice in choices {
        let text = format!(
            "{} B, {}: {}",
            number::whole(u64::from(choice.payload)),
            words::counted(u64::from(choice.clients), "client"),
            chosen(choice)
        );
        page.push(Line::new().plain(format!("   {}", cut(&text, 76))));
    }
}

/// `tcp 1.52 ×`, with a `~` where the rounds leave it open.
fn chosen(choice: &Choice<'_>) -> String {
    let mark = if choice.is_clear() { "" } else { " ~" };
    format!(
        "{} {}{mark}",
        cut(choice.best, NAME),
        times(choice.by.value)
    )
}

fn bound_by(rounds: &[&Step]) -> (Role, String) {
    let role = cells::wall(rounds).map_or(Role::Dim, |(wall, _)| verdict::role(wall));
    (role, cells::wall_words(rounds))
}

fn times(value: f64) -> String {
    format!("{} ×", number::amount(value))
}

fn maybe<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or(number::UNKNOWN.to_owned(), show)
}
