//! A table of right- and left-aligned columns that drops the least important ones where
//! the width does not allow all.

use unicode_width::UnicodeWidthStr;

use crate::look::{Line, Page, Role};
use crate::safe::label;

/// One column: a heading of up to two lines, and a cell for each row.
pub(crate) struct Column {
    /// Name, as a note tells it when the column is left out.
    pub(crate) name: &'static str,
    /// Lines of the heading.
    pub(crate) head: [&'static str; 2],
    /// A narrower heading, for where there is no room for all columns.
    pub(crate) tight: Option<[&'static str; 2]>,
    /// 0 is never dropped; of the others the highest goes first.
    pub(crate) rank: u8,
    /// Whether cells stand at the left.
    pub(crate) left: bool,
    /// One for each row.
    pub(crate) cells: Vec<(Role, String)>,
}

impl Column {
    pub(crate) fn numbers(name: &'static str, rank: u8, cells: Vec<String>) -> Column {
        let cells = cells.into_iter().map(|cell| (Role::Plain, cell)).collect();
        Column {
            name,
            head: ["", name],
            tight: None,
            rank,
            left: false,
            cells,
        }
    }

    pub(crate) fn words(name: &'static str, rank: u8, cells: Vec<(Role, String)>) -> Column {
        Column {
            left: true,
            cells,
            ..Column::numbers(name, rank, Vec::new())
        }
    }

    pub(crate) fn or_headed(mut self, above: &'static str, below: &'static str) -> Column {
        self.tight = Some([above, below]);
        self
    }

    pub(crate) fn headed(mut self, above: &'static str, below: &'static str) -> Column {
        self.head = [above, below];
        self
    }

    fn width(&self) -> usize {
        let heads = self.head.iter().map(|head| head.width());
        let cells = self.cells.iter().map(|(_, cell)| label(cell).width());
        heads.chain(cells).max().unwrap_or(0)
    }
}

/// Writes the columns that fit, and returns the names of those left out.
pub(crate) fn write(page: &mut Page, mut columns: Vec<Column>, indent: usize) -> Vec<&'static str> {
    const GAP: usize = 2;
    let room = page.columns().saturating_sub(indent);
    let mut left_out = Vec::new();
    let width = |columns: &[Column]| {
        let gaps = GAP * columns.len().saturating_sub(1);
        columns.iter().map(Column::width).sum::<usize>() + gaps
    };
    if width(&columns) > room {
        for column in &mut columns {
            column.head = column.tight.unwrap_or(column.head);
        }
    }
    loop {
        let total = width(&columns);
        let least = columns.iter().enumerate().max_by_key(|(_, c)| c.rank);
        match least {
            Some((index, column)) if total > room && column.rank > 0 => {
                left_out.push(columns.remove(index).name);
            }
            _ => break,
        }
    }
    let widths: Vec<usize> = columns.iter().map(Column::width).collect();
    let two = columns.iter().any(|column| !column.head[0].is_empty());
    let mut put_row = |cells: Vec<(Role, String)>| {
        let mut line = Line::new().plain(" ".repeat(indent));
        for (index, (role, cell)) in cells.into_iter().enumerate() {
            let cell = label(&cell);
            let pad = " ".repeat(widths[index].saturating_sub(cell.width()));
            line = if columns[index].left {
                line.put(role, cell).plain(pad)
            } else {
                line.plain(pad).put(role, cell)
            };
            if index + 1 < widths.len() {
                line = line.plain(" ".repeat(GAP));
            }
        }
        page.push(line);
    };
    for row in usize::from(!two)..2 {
        put_row(
            columns
                .iter()
                .map(|column| (Role::Dim, column.head[row].to_owned()))
                .collect(),
        );
    }
    let rows = columns.iter().map(|c| c.cells.len()).max().unwrap_or(0);
    for row in 0..rows {
        put_row(
            columns
                .iter()
                .map(|column| {
                    column
                        .cells
                        .get(row)
                        .cloned()
                        .unwrap_or((Role::Plain, String::new()))
                })
                .collect(),
        );
    }
    left_out
}

/// Says which columns were left out.
pub(crate) fn note(page: &mut Page, mut left_out: Vec<&'static str>) {
    if !left_out.is_empty() {
        left_out.reverse();
        let note = format!("no room here for {}", left_out.join(", "));
        page.push(Line::new().plain(" ").dim(note));
    }
}
