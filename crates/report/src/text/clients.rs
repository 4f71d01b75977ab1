//! The client hosts of a load, each beside its own ceiling.

use wallfinder_model::Step;

use super::columns::{self, Column};
use crate::clients::{self, Row};
use crate::look::{Page, Role};
use crate::words::counted;

/// One row for each host; of many those that stand out.
pub(super) fn table(page: &mut Page, step: &Step) {
    let (rows, left_out) = clients::rows(step);
    if rows.is_empty() {
        return;
    }
    page.gap();
    let cells = |of: fn(&Row) -> &String| -> Vec<String> {
        rows.iter().map(|row| of(row).clone()).collect()
    };
    let words = |of: fn(&Row) -> &String| -> Vec<(Role, String)> {
        let each = cells(of).into_iter();
        each.map(|text| (Role::Plain, text)).collect()
    };
    let mut table = vec![
        Column::words("client host", 0, words(|row| &row.host)),
        Column::numbers("connections", 6, cells(|row| &row.connections)).headed("conn-", "ections"),
        Column::numbers("answered", 0, cells(|row| &row.rate)).headed("answered", "/s"),
        Column::numbers("p50", 5, cells(|row| &row.p50)),
        Column::numbers("p99", 2, cells(|row| &row.p99)),
        Column::numbers("workers busy", 0, cells(|row| &row.busy)).headed("workers", "busy"),
        Column::numbers("CPU", 4, cells(|row| &row.cpu)).headed("CPU", "used"),
        Column::numbers("of its ceiling", 3, cells(|row| &row.ceiling)).headed("of its", "ceiling"),
        Column::numbers("worker late", 7, cells(|row| &row.late)).headed("late", "p99"),
        Column::numbers("began", 8, cells(|row| &row.began)),
    ];
    if clients::has_links(&rows) {
        let links = Column::numbers("link", 4, cells(|row| &row.link)).headed("link", "used");
        // Beside the processors, and before lateness.
        table.insert(table.len() - 2, links);
    }
    if rows.iter().any(|row| !row.note.is_empty()) {
        table.push(Column::words("why", 1, words(|row| &row.note)));
    }
    let mut no_room = columns::write(page, table, 1);
    no_room.reverse();
    if !no_room.is_empty() {
        let note = format!("no room here for {}", no_room.join(", "));
        page.beside(Role::Dim, &note);
    }
    if left_out > 0 {
        let more = counted(left_out as u64, "host");
        page.beside(Role::Dim, &format!("{more} more in the record"));
    }
    if let Some(skew) = clients::skew(step) {
        page.beside(Role::Dim, &skew);
    }
}
