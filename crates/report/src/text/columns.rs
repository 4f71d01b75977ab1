//! A table of right- and left-aligned columns that drops the least important ones where
//! the width does not allow all.

use unicode_width::UnicodeWidthStr;

use crate::look::{Line, Page, Role, clean};

/// One column: a heading of up to two lines, and a cell for each row.
pub(crate) struct Column {
    /// Name, as a note tells it when the column is left out.
    pub(crate) name: &'static str,
    /// Lines of the heading.
    pub(crate) head: [&'static str; 2],
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
            rank,
            left: false,
            cells,
        }
    }

    pub(crate) fn headed(mut self, above: &'static str, below: &'static str) -> Column {
        self.head = [above, below];
        self
    }

    fn width(&self) -> usize {
        let heads = self.head.iter().map(|head| head.width());
        let cells = self.cells.iter().map(|(_, cell)| clean(cell).width());
        heads.chain(cells).max().unwrap_or(0)
    }
}

/// Writes the columns that fit, and returns the names of those left out.
pub(crate) fn write(page: &mut Page, mut columns: Vec<Column>, indent: usize) -> Vec<&'static str> {
    const GAP: usize = 2;
    let room = page.columns().saturating_sub(indent);
    let mut left_out = Vec::new();
    loop {
        let gaps = GAP * columns.len().saturating_sub(1);
        let total: usize = columns.iter().map(Column::width).sum::<usize>() + gaps;
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
            let cell = clean(&cell);
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
