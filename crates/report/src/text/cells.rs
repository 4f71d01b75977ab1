//! A study's cells: steps that were run in several rounds, one row for all rounds of each.

use unicode_width::UnicodeWidthStr;
use wallfinder_model::record::Cell;
use wallfinder_model::{Record, Step};

use super::columns::{self, Column};
use super::verdict;
use crate::cells::{self, Choice, DISTURBED_MARK, OPEN_MARK};
use crate::counted::{self, Side, SideFigure};
use crate::figures::quantile;
use crate::look::{Line, Page, Role, cut, wrap};
use crate::number::maybe;
use crate::{number, words};

/// Room for a name.
const NAME: usize = 14;

/// What figures and walls of several rounds are.
pub(super) const MIDDLE: &str = "of each figure the middle one of the rounds; a wall that not all of them \
                                 name has their number";

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
        note(page, MIDDLE);
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
    let (mut compared, mut disturbed) = (false, false);
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
            disturbed |= choices.iter().any(|choice| choice.disturbed);
        }
    }
    if compared {
        let text = format!(
            "the factor is by how much the next best is worse; {OPEN_MARK} where the rounds leave \
             open whether it is better than every other one"
        );
        note(page, &text);
    }
    if disturbed {
        let text = format!("{DISTURBED_MARK} others disturbed a round of one that is compared");
        note(page, &text);
    }
}

/// How the tail grows with size and clients: a table for each driver.
pub(crate) fn amplification(page: &mut Page, record: &Record) {
    let cells = cells::of(record);
    let tables = cells::amplification(&cells);
    for table in &tables {
        page.gap();
        let title = format!("p99/p50, with {}", table.driver);
        page.push(Line::new().plain(" ").strong(title));
        let mut rows = vec![vec!["bytes".to_owned(), "group".to_owned()]];
        rows[0].extend(heads(&table.clients));
        for row in &table.rows {
            let bytes = number::whole(u64::from(row.payload));
            let shown = |tail: &Option<f64>| tail.map_or(String::new(), times);
            let mut words = vec![bytes, cut(row.group, NAME)];
            words.extend(row.tails.iter().map(shown));
            rows.push(words);
        }
        if width(&rows) <= page.columns() {
            aligned(page, &rows);
            continue;
        }
        for row in &rows {
            for line in wrap(&row.join("  "), page.columns().saturating_sub(3)) {
                page.push(Line::new().plain("   ").plain(line));
            }
        }
    }
    if !tables.is_empty() {
        note(page, cells::AMPLIFICATION);
    }
}

/// Numbers of clients as heads of columns.
fn heads(clients: &[u32]) -> impl Iterator<Item = String> {
    clients
        .iter()
        .map(|count| words::counted(u64::from(*count), "client"))
}

pub(super) fn note(page: &mut Page, text: &str) {
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
    rows[0].extend(heads(&clients));
    for payload in &payloads {
        let mut row = vec![number::whole(u64::from(*payload))];
        for count in &clients {
            let is = |choice: &&Choice<'_>| (choice.payload, choice.clients) == (*payload, *count);
            row.push(choices.iter().find(is).map_or(String::new(), chosen));
        }
        rows.push(row);
    }
    if width(&rows) > page.columns() {
        return list(page, choices);
    }
    aligned(page, &rows);
}

/// Columns that a table of words takes.
fn width(rows: &[Vec<String>]) -> usize {
    let columns = widths(rows);
    columns.iter().map(|width| width + 2).sum::<usize>() + 1
}

/// What each column takes; all rows have as many as the first.
fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].width()).max();
    (0..columns).map(|at| width(at).unwrap_or(0)).collect()
}

/// Rows of a table of words, the first of them its head.
fn aligned(page: &mut Page, rows: &[Vec<String>]) {
    let widths = widths(rows);
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

/// `tcp 1.52 ×`, with a `~` where the rounds leave it open, and a `*` where others disturbed one.
fn chosen(choice: &Choice<'_>) -> String {
    let open = if choice.is_clear() { "" } else { OPEN_MARK };
    let disturbed = if choice.disturbed { DISTURBED_MARK } else { "" };
    let shown = format!(
        "{} {} {open}{disturbed}",
        cut(choice.best, NAME),
        times(choice.by)
    );
    shown.trim_end().to_owned()
}

pub(super) fn bound_by(rounds: &[&Step]) -> (Role, String) {
    let role = cells::wall(rounds).map_or(Role::Dim, |(wall, _)| verdict::role(wall));
    (role, cells::wall_words(rounds))
}

fn times(value: f64) -> String {
    format!("{} ×", number::amount(value))
}
