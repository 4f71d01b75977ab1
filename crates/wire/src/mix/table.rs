//! Rows of data: which of them a request is filled in with, and their cells, spelled once for where they stand.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::text::Spelling;
use crate::random::mixed;

/// In which order rows are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Any, each time anew.
    Random,
    /// One after the other, and from the first again.
    InOrder,
    /// One after the other; the load ends with the last.
    Once,
}

impl Order {
    /// Whether rows are dealt to the workers one after the other.
    pub fn is_walked(self) -> bool {
        self != Order::Random
    }
}

/// Rows of data with named columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// What it is called.
    pub name: String,
    /// In which order its rows are taken.
    pub order: Order,
    /// Its columns.
    pub columns: Vec<String>,
    /// Its rows.
    pub cells: Cells,
}

/// The cells of all rows; cheap to copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Row>", into = "Vec<Row>")]
pub struct Cells(Arc<Vec<Row>>);

/// A row's cells, each of any bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Row(#[serde(with = "crate::bytes::many")] pub Vec<Vec<u8>>);

impl From<Vec<Row>> for Cells {
    fn from(rows: Vec<Row>) -> Cells {
        Cells(Arc::new(rows))
    }
}

impl From<Cells> for Vec<Row> {
    fn from(cells: Cells) -> Vec<Row> {
        cells.0.to_vec()
    }
}

impl Table {
    /// Its rows.
    pub fn rows(&self) -> &[Row] {
        &self.cells.0
    }
}

/// The cells of a column as they stand in a request.
#[derive(Debug)]
pub(crate) struct Column {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Column {
    /// Of a table's rows, spelled so.
    pub(crate) fn spelled(table: &Table, column: usize, spelling: Spelling) -> Column {
        let mut all = Column {
            bytes: Vec::new(),
            ends: Vec::with_capacity(table.rows().len()),
        };
        for row in table.rows() {
            let cell = row.0.get(column).map_or(&[][..], Vec::as_slice);
            spelling.spell(cell, |bytes| all.bytes.extend_from_slice(bytes));
            all.ends.push(all.bytes.len());
        }
        all
    }

    /// A row's.
    #[inline]
    pub(crate) fn of_row(&self, row: usize) -> &[u8] {
        let from = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[from..self.ends[row]]
    }

    /// The longest.
    pub(crate) fn longest(&self) -> usize {
        let lens = (0..self.ends.len()).map(|row| self.of_row(row).len());
        lens.max().unwrap_or(0)
    }
}

/// Which row of a table a draw means.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pick {
    rows: u32,
    /// Of a table that is not walked.
    salt: Option<u64>,
}

impl Pick {
    pub(crate) fn of(table: &Table, nth: usize, seed: u64) -> Pick {
        let salt = mixed(seed ^ mixed(nth as u64 + 1));
        Pick {
            rows: table.rows().len() as u32,
            salt: (!table.order.is_walked()).then_some(salt),
        }
    }

    /// A walked table has the row of the draw's number; any other one that the draw and the seed give.
    #[inline]
    pub(crate) fn row(self, draw: u32) -> usize {
        match self.salt {
            None => (draw % self.rows) as usize,
            Some(salt) => {
                let bits = mixed(salt ^ u64::from(draw)) >> 32;
                ((bits * u64::from(self.rows)) >> 32) as usize
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(order: Order, rows: usize) -> Table {
        let row = |n: usize| Row(vec![format!("n{n}").into(), format!("a b{n}").into()]);
        Table {
            name: "users".into(),
            order,
            columns: vec!["name".into(), "term".into()],
            cells: (0..rows).map(row).collect::<Vec<_>>().into(),
        }
    }

    #[test]
    fn a_walked_table_has_the_row_of_the_draw_and_begins_anew() {
        let pick = Pick::of(&table(Order::InOrder, 3), 0, 7);
        let rows: Vec<usize> = (0..7).map(|draw| pick.row(draw)).collect();
        assert_eq!(rows, [0, 1, 2, 0, 1, 2, 0]);
    }

    /// Over a million draws each of ten rows has its tenth, whatever the seed, and two tables go their own ways.
    #[test]
    fn a_random_table_has_each_row_alike() {
        let [a, b] = [0, 1].map(|nth| Pick::of(&table(Order::Random, 10), nth, 7));
        let mut seen = [[0_f64; 10]; 10];
        for draw in 0..1_000_000 {
            seen[a.row(draw)][b.row(draw)] += 1.0;
        }
        let chi: f64 = seen
            .iter()
            .flatten()
            .map(|seen| (seen - 1e4).powi(2) / 1e4)
            .sum();
        // Ninety-nine degrees of freedom: above 160 once in ten thousand times.
        assert!(chi < 160.0, "{chi}");
    }

    #[test]
    fn cells_are_spelled_once_for_their_place() {
        let table = table(Order::Random, 2);
        let column = Column::spelled(&table, 1, Spelling::Url);
        assert_eq!(column.of_row(0), b"a%20b0");
        assert_eq!(column.of_row(1), b"a%20b1");
        assert_eq!(column.longest(), 6);
    }
}
