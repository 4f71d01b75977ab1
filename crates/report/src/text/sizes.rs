//! Answers of several sizes: where a coding pays, each answer in a row, and what bytes cost.

use wallfinder_model::sizes::{Sizes, Turn};
use wallfinder_model::{Record, Step};

use super::columns::{self, Column};
use crate::look::{INDENT, Page, Role};
use crate::sized::{self, CostRow, Row};
use crate::words;

/// What was asked for.
pub(crate) fn setting(page: &mut Page, record: &Record, sizes: &Sizes) {
    let behind = |(_, turn): &(&Step, &Turn)| turn.behind_link;
    let mut turns = record.steps.iter().zip(&sizes.order);
    // The link is told as it was asked for.
    let behind = turns.find(behind).map(|(step, _)| step);
    let Some(step) = behind.or(record.steps.first()) else {
        return;
    };
    page.entry("target", Role::Plain, &record.plan.target.url);
    page.beside(Role::Dim, &words::place(record, step));
    let load = [
        words::connections(&step.load),
        words::arrival(&step.load.arrival),
        words::driver(&step.driver, step.load.workers),
        sized::rounds(record, sizes),
    ];
    page.entry("load", Role::Plain, &load.join(" · "));
}

/// From which size on a coding pays, where that was measured.
pub(crate) fn answer(page: &mut Page, sizes: &Sizes) {
    let mut label = "ANSWER";
    for sentence in sized::measured(sizes) {
        page.entry(label, Role::Strong, &sentence.full);
        label = "";
    }
    if label.is_empty() {
        page.entry("", Role::Dim, sized::PAYS);
    }
}

/// A row for each answer.
pub(crate) fn table(page: &mut Page, sizes: &Sizes) {
    let rows: Vec<Row> = sized::points(sizes)
        .into_iter()
        .map(|point| sized::row(sizes, point))
        .collect();
    if rows.is_empty() {
        return;
    }
    let plain = |of: &dyn Fn(&Row) -> &str| -> Vec<(Role, String)> {
        rows.iter()
            .map(|row| (Role::Plain, of(row).to_owned()))
            .collect()
    };
    let numbers = |of: &dyn Fn(&Row) -> &String| -> Vec<String> {
        rows.iter().map(|row| of(row).clone()).collect()
    };
    let mut table = vec![
        Column::numbers("body", 0, numbers(&|row| &row.raw)),
        Column::words("coding", 0, plain(&|row| &row.coding)),
        Column::numbers("on the wire", 1, numbers(&|row| &row.body)),
        Column::numbers("segments", 5, numbers(&|row| &row.segments)),
        Column::numbers("server", 2, numbers(&|row| &row.server)).headed("CPU of", "server"),
        Column::numbers("client", 3, numbers(&|row| &row.client)).headed("CPU of", "client"),
    ];
    if sizes.link.is_some() {
        let predicted = rows.iter().map(|row| {
            let role = match row.holds {
                Some(false) => Role::Warn,
                _ => Role::Plain,
            };
            (role, row.predicted.clone())
        });
        let mut predicted = Column::words("predicted", 1, predicted.collect());
        predicted.left = false;
        table.push(
            Column::numbers("without", 0, numbers(&|row| &row.open)).headed("answers/s", "without"),
        );
        table.push(
            Column::numbers("behind", 0, numbers(&|row| &row.behind)).headed("behind", "the link"),
        );
        table.push(predicted.headed("", "predicted"));
        table.push(Column::words("bound by", 4, plain(&|row| row.behind_wall)));
    } else {
        table.push(Column::numbers("answers/s", 0, numbers(&|row| &row.open)));
        table.push(Column::words("bound by", 4, plain(&|row| row.open_wall)));
    }
    let indent = if page.columns() < 96 { 1 } else { INDENT };
    let left_out = columns::write(page, table, indent);
    columns::note(page, left_out);
}

/// What bytes cost whom, what other links would do, and how good predictions are.
pub(crate) fn costs(page: &mut Page, sizes: &Sizes) {
    lines(page, sizes);
    let mut entry = |label: &'static str, sentences: Vec<String>| {
        let mut label = label;
        for sentence in sentences {
            page.entry(label, Role::Plain, &sentence);
            label = "";
        }
    };
    entry("PREDICTED", sized::score(sizes).into_iter().collect());
    entry("WHAT IF", sized::predicted(sizes));
}

/// So much a request and so much a byte, for who pays it.
fn lines(page: &mut Page, sizes: &Sizes) {
    if sizes.costs.is_empty() {
        return;
    }
    page.entry("COSTS", Role::Plain, sized::COSTS);
    let rows: Vec<CostRow> = sizes.costs.iter().map(sized::cost).collect();
    let words = |of: &dyn Fn(&CostRow) -> &String| -> Vec<(Role, String)> {
        rows.iter()
            .map(|row| (Role::Plain, of(row).clone()))
            .collect()
    };
    let numbers = |of: &dyn Fn(&CostRow) -> &String| -> Vec<String> {
        rows.iter().map(|row| of(row).clone()).collect()
    };
    let table = vec![
        Column::words("", 0, words(&|row| &row.whose)),
        Column::words("coding", 0, words(&|row| &row.coding)),
        Column::numbers("a request", 0, numbers(&|row| &row.per_request)),
        Column::words("95 % interval", 2, words(&|row| &row.per_request_ends)),
        Column::numbers("a KB", 0, numbers(&|row| &row.per_kb)),
        Column::words("95 % interval", 2, words(&|row| &row.per_kb_ends)),
        Column::numbers("off by", 1, numbers(&|row| &row.misfit)),
    ];
    let left_out = columns::write(page, table, if page.columns() < 96 { 1 } else { INDENT });
    columns::note(page, left_out);
    page.gap();
}
