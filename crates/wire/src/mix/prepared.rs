//! A mix made ready: every place resolved to where its value stands, spelled; one for all workers of a step.

use std::collections::BTreeMap;

use super::inspect::{Inspection, Looks};
use super::table::{Column, Pick};
use super::text::{Piece, Prefix, Slot, Spelling, Text, Value, put};
use super::user::User;
use super::{Ask, Mix, TAKEN_BYTES_MAX, Values};

/// A text, ready to be written.
#[derive(Debug, Default)]
pub(crate) struct Parts(Vec<Part>);

#[derive(Debug)]
enum Part {
    Fixed(Box<[u8]>),
    Column(Cell),
    Variable {
        variable: u16,
        spelling: Spelling,
    },
    Known {
        known: u16,
        spelling: Spelling,
    },
    Location,
    /// Others, behind their length.
    Sized(Prefix, Parts),
}

/// The place of a column, spelled.
#[derive(Debug, Clone, Copy)]
struct Cell {
    pick: Pick,
    column: u16,
}

/// A text whose places are all columns of rows, which is what most requests are: written in one go, where there is room
/// for the longest that it can be.
#[derive(Debug)]
pub(crate) struct Rows {
    /// Bytes that never change, and behind them a place.
    parts: Box<[(Box<[u8]>, Cell)]>,
    end: Box<[u8]>,
    longest: usize,
}

/// What a request's places are filled in from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filler<'f> {
    /// Which rows.
    pub(crate) draw: u32,
    pub(crate) user: &'f User,
    pub(crate) known: &'f Values,
}

/// What does not depend on the protocol.
#[derive(Debug)]
pub(crate) struct Prepared {
    picks: Vec<Pick>,
    columns: Vec<Column>,
    places: BTreeMap<(u16, u16, Spelling), u16>,
    /// Of each kind: where it is asked for.
    targets: Vec<Parts>,
    pub(crate) looks: Looks,
    variables: u16,
    /// As they stand when the load begins.
    pub(crate) known: Values,
}

impl Prepared {
    /// Of a mix; `seed` chooses rows at random.
    pub(crate) fn of(mix: &Mix, seed: u64) -> Result<Prepared, String> {
        if let Some(empty) = mix.tables.iter().find(|table| table.rows().is_empty()) {
            return Err(format!("the data `{}` has no rows", empty.name));
        }
        let known = mix.known.now();
        if !known.are_sound() {
            return Err("a value that set-up took may not be sent".to_owned());
        }
        let picks = mix.tables.iter().enumerate();
        let mut prepared = Prepared {
            picks: picks
                .map(|(nth, table)| Pick::of(table, nth, seed))
                .collect(),
            columns: Vec::new(),
            places: BTreeMap::new(),
            targets: Vec::new(),
            looks: Looks::of(mix)?,
            variables: mix.variables,
            known: Values::clone(&known),
        };
        let kinds = mix.kinds.iter();
        for slot in kinds.flat_map(|kind| kind.request.texts().flat_map(Text::slots)) {
            let (table, column) = match slot.value {
                Value::Column { table, column } => (table, column),
                Value::Known(nth) if usize::from(nth) >= known.len() => {
                    return Err("a value that there is not".to_owned());
                }
                _ => continue,
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
        let targets = mix.kinds.iter().map(|kind| &kind.request.target);
        prepared.targets = targets.map(|target| prepared.parts(target)).collect();
        Ok(prepared)
    }

    /// Follows the redirect of a request, where its place is told from the request's own.
    #[cold]
    pub(crate) fn follow(
        &self,
        ask: Ask,
        known: &Values,
        user: &mut User,
        inspection: &mut Inspection,
    ) {
        let target = &self.targets[usize::from(ask.kind)];
        let fits = user.follow_reference(|user, to| {
            let from = Filler {
                draw: ask.draw,
                user,
                known,
            };
            self.write(target, from, to);
        });
        if !fits {
            inspection.leads_too_far();
        }
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
                Value::Column { table, column } => Part::Column(Cell {
                    pick: self.picks[usize::from(*table)],
                    column: self.places[&(*table, *column, *spelling)],
                }),
                Value::Variable(variable) => Part::Variable {
                    variable: *variable,
                    spelling: *spelling,
                },
                Value::Known(known) => Part::Known {
                    known: *known,
                    spelling: *spelling,
                },
                Value::Location => Part::Location,
            },
            Piece::Sized(prefix, text) => Part::Sized(*prefix, self.parts(text)),
        };
        Parts(text.0.iter().map(part).collect())
    }

    /// The same, if its places are all columns.
    pub(crate) fn rows(&self, text: &Text) -> Option<Rows> {
        let whole = self.parts(text);
        let longest = self.longest(&whole);
        let (mut parts, mut fixed) = (Vec::new(), Vec::new());
        for part in whole.0 {
            match part {
                Part::Fixed(bytes) => fixed.extend_from_slice(&bytes),
                Part::Column(cell) => parts.push((std::mem::take(&mut fixed).into(), cell)),
                _ => return None,
            }
        }
        Some(Rows {
            parts: parts.into(),
            end: fixed.into(),
            longest,
        })
    }

    /// Writes a text for the rows of a draw, and gives its length; `None`: there may not be room for all of it.
    #[inline]
    pub(crate) fn write_rows(&self, rows: &Rows, draw: u32, into: &mut [u8]) -> Option<usize> {
        let mut rest = into.get_mut(..rows.longest)?;
        for (fixed, cell) in &rows.parts {
            rest = put(self.cell(*cell, draw), put(fixed, rest));
        }
        let left = put(&rows.end, rest).len();
        Some(rows.longest - left)
    }

    /// What stands in a column's place for the row of a draw.
    #[inline]
    fn cell(&self, cell: Cell, draw: u32) -> &[u8] {
        self.columns[usize::from(cell.column)].of_row(cell.pick.row(draw))
    }

    /// What stands in a part for a request, and how it is to be spelled; `None`: others stand in it.
    #[inline(always)]
    fn value<'v>(&'v self, part: &'v Part, from: &Filler<'v>) -> Option<(&'v [u8], Spelling)> {
        Some(match part {
            Part::Fixed(bytes) => (bytes, Spelling::Raw),
            Part::Column(cell) => (self.cell(*cell, from.draw), Spelling::Raw),
            Part::Variable { variable, spelling } => (from.user.variable(*variable), *spelling),
            Part::Known { known, spelling } => (&from.known[usize::from(*known)], *spelling),
            Part::Location => (from.user.location(), Spelling::Raw),
            Part::Sized(..) => return None,
        })
    }

    /// Gives a text for a request, in pieces.
    #[inline]
    pub(crate) fn write(&self, parts: &Parts, from: Filler<'_>, mut to: impl FnMut(&[u8])) {
        for part in &parts.0 {
            match self.value(part, &from) {
                Some((value, Spelling::Raw)) => to(value),
                value => self.write_anew((part, value), from, &mut to),
            }
        }
    }

    /// Gives what is spelled for each use.
    fn write_anew(
        &self,
        (part, value): (&Part, Option<(&[u8], Spelling)>),
        from: Filler<'_>,
        to: &mut dyn FnMut(&[u8]),
    ) {
        match (value, part) {
            (Some((value, spelling)), _) => spelling.spell(value, to),
            (None, Part::Sized(prefix, parts)) => {
                prefix.spell(self.len(parts, from), &mut *to);
                self.write(parts, from, to);
            }
            (None, _) => unreachable!("it has a value"),
        }
    }

    /// Its length then.
    #[inline]
    pub(crate) fn len(&self, parts: &Parts, from: Filler<'_>) -> usize {
        let len = |part| match (self.value(part, &from), part) {
            (Some((value, Spelling::Raw)), _) => value.len(),
            (Some((value, spelling)), _) => spelling.len(value),
            (None, Part::Sized(prefix, parts)) => self.sized_len((*prefix, parts), from),
            (None, _) => unreachable!("it has a value"),
        };
        parts.0.iter().map(len).sum()
    }

    fn sized_len(&self, (prefix, parts): (Prefix, &Parts), from: Filler<'_>) -> usize {
        let len = self.len(parts, from);
        prefix.len(len) + len
    }

    /// The longest that it can be.
    pub(crate) fn longest(&self, parts: &Parts) -> usize {
        let longest = |part: &Part| match part {
            Part::Fixed(bytes) => bytes.len(),
            Part::Column(cell) => self.columns[usize::from(cell.column)].longest(),
            Part::Variable { spelling, .. } | Part::Known { spelling, .. } => {
                spelling.longest() * TAKEN_BYTES_MAX
            }
            Part::Location => TAKEN_BYTES_MAX,
            Part::Sized(prefix, parts) => {
                let longest = self.longest(parts);
                prefix.len(longest) + longest
            }
        };
        parts.0.iter().map(longest).sum()
    }
}
