//! A mix made ready: every place resolved to where its value stands, spelled; one for all workers of a step.

use std::collections::BTreeMap;

use super::inspect::Looks;
use super::table::{Column, Pick};
use super::text::{Piece, Slot, Spelling, Text, Value};
use super::user::User;
use super::{Ask, Mix, TAKEN_BYTES_MAX};

/// A text, ready to be written.
#[derive(Debug, Default)]
pub(crate) struct Parts(Vec<Part>);

#[derive(Debug)]
enum Part {
    Fixed(Box<[u8]>),
    Column { table: u16, column: u16 },
    Variable { variable: u16, spelling: Spelling },
    Location,
}

/// What does not depend on the protocol.
#[derive(Debug)]
pub(crate) struct Prepared {
    picks: Vec<Pick>,
    columns: Vec<Column>,
    places: BTreeMap<(u16, u16, Spelling), u16>,
    pub(crate) looks: Looks,
    variables: u16,
}

impl Prepared {
    /// Of a mix; `seed` chooses rows at random.
    pub(crate) fn of(mix: &Mix, seed: u64) -> Result<Prepared, String> {
        if let Some(empty) = mix.tables.iter().find(|table| table.rows().is_empty()) {
            return Err(format!("the data `{}` has no rows", empty.name));
        }
        let picks = mix.tables.iter().enumerate();
        let mut prepared = Prepared {
            picks: picks
                .map(|(nth, table)| Pick::of(table, nth, seed))
                .collect(),
            columns: Vec::new(),
            places: BTreeMap::new(),
            looks: Looks::of(mix)?,
            variables: mix.variables,
        };
        let kinds = mix.kinds.iter();
        for slot in kinds.flat_map(|kind| kind.request.texts().flat_map(Text::slots)) {
            let Value::Column { table, column } = slot.value else {
                continue;
            };
            let place = (table, column, slot.spelling);
            if !prepared.places.contains_key(&place) {
                let number = prepared.columns.len() as u16;
                let of = mix
                    .tables
                    .get(usize::from(table))
                    .ok_or("a table that there is not")?;
                prepared
                    .columns
                    .push(Column::spelled(of, usize::from(column), slot.spelling));
                prepared.places.insert(place, number);
            }
        }
        Ok(prepared)
    }

    /// A user of whom nothing is known, with room for what a session takes.
    pub(crate) fn user(&self) -> User {
        User::new(
            self.variables,
            self.looks.follow(),
            self.looks.keep_cookies(),
        )
    }

    /// A text, made ready.
    pub(crate) fn parts(&self, text: &Text) -> Parts {
        let part = |piece: &Piece| match piece {
            Piece::Fixed(bytes) => Part::Fixed(bytes.as_slice().into()),
            Piece::Slot(Slot { value, spelling }) => match value {
                Value::Column { table, column } => Part::Column {
                    table: *table,
                    column: self.places[&(*table, *column, *spelling)],
                },
                Value::Variable(variable) => Part::Variable {
                    variable: *variable,
                    spelling: *spelling,
                },
                Value::Location => Part::Location,
            },
        };
        Parts(text.0.iter().map(part).collect())
    }

    #[inline]
    fn value<'v>(&'v self, part: &'v Part, draw: u32, user: &'v User) -> (&'v [u8], Spelling) {
        match part {
            Part::Fixed(bytes) => (bytes, Spelling::Raw),
            Part::Column { table, column } => {
                let row = self.picks[usize::from(*table)].row(draw);
                (
                    self.columns[usize::from(*column)].of_row(row),
                    Spelling::Raw,
                )
            }
            Part::Variable { variable, spelling } => (user.variable(*variable), *spelling),
            Part::Location => (user.location(), Spelling::Raw),
        }
    }

    /// Gives a text for a request, in pieces.
    #[inline]
    pub(crate) fn write(&self, parts: &Parts, ask: Ask, user: &User, mut to: impl FnMut(&[u8])) {
        for part in &parts.0 {
            let (value, spelling) = self.value(part, ask.draw, user);
            match spelling {
                Spelling::Raw => to(value),
                spelling => spelling.spell(value, &mut to),
            }
        }
    }

    /// Its length then.
    #[inline]
    pub(crate) fn len(&self, parts: &Parts, ask: Ask, user: &User) -> usize {
        let len = |part| {
            let (value, spelling) = self.value(part, ask.draw, user);
            match spelling {
                Spelling::Raw => value.len(),
                spelling => spelling.len(value),
            }
        };
        parts.0.iter().map(len).sum()
    }

    /// The longest that it can be.
    pub(crate) fn longest(&self, parts: &Parts) -> usize {
        let longest = |part: &Part| match part {
            Part::Fixed(bytes) => bytes.len(),
            Part::Column { column, .. } => self.columns[usize::from(*column)].longest(),
            Part::Variable { spelling, .. } => spelling.longest() * TAKEN_BYTES_MAX,
            Part::Location => TAKEN_BYTES_MAX,
        };
        parts.0.iter().map(longest).sum()
    }
}
