//! Calls of gRPC: their messages from JSON with places, and values that are encoded as protobuf has them.
//!
//! ```text
//!   places of one table alone ─► encoded for each row before the load, the message a column of its own
//!   any others ─► World::message: encoded pieces, and places that say how each value is encoded
//! ```
//!
//! A value that cannot be encoded is found out where it comes in: a cell when the file is read, a taken one when it is
//! taken.

use std::collections::BTreeSet;

use wallfinder_wire::grpc;
use wallfinder_wire::mix::{
    Check, Expect, Kind, Mix, Piece, Row, Scalar, Slot, Source, Spelling, Template, Text, Value,
};

use crate::compile::{Compiler, Once, Refresh};
use crate::slots::{Scope, text};

/// Said where a number is missing that may be one of an enum.
const BY_NUMBER: &str = "; an enum goes by its number here, and by its name where all places of the message are columns of one \
                         [data] of at most 100000 rows";

/// Rows for which messages are encoded before the load, at the most.
const ENCODED_ROWS_MAX: usize = 100_000;

impl Compiler<'_> {
    /// What is sought by pointer in the answers of a method of gRPC, which are no JSON.
    pub(crate) fn in_messages(
        &self,
        method: &str,
        expect: &mut Expect,
    ) -> Result<(), (String, String)> {
        let field = |pointer: &str, part: &str| {
            let found = self.world.field(method, pointer);
            found.map_err(|why| (part.to_owned(), why))
        };
        for take in &mut expect.takes {
            if let Source::Json(pointer) = &take.from {
                take.from = Source::Field(field(pointer, ".take")?);
            }
        }
        for check in &mut expect.checks {
            if let Check::Json(pointer, is) = check {
                *check = Check::Field(field(pointer, ".check")?, is.clone());
            }
        }
        Ok(())
    }

    /// A call of gRPC. Where its message has places of one table alone, it is encoded for each row, and the row has it in
    /// a column of its own; else it is put together from encoded pieces for each use.
    pub(crate) fn call(
        &mut self,
        method: &str,
        json: Option<&str>,
        scope: &Scope,
        name: &str,
    ) -> Result<(Template, grpc::Terms), String> {
        let Some(json) = json else {
            return self.without_places(method, None);
        };
        let message = text(json, Spelling::Json, scope)?;
        if let Some(bytes) = message.clone().into_fixed() {
            return self.without_places(method, Some(&String::from_utf8_lossy(&bytes)));
        }
        let tables = message.slots().map(|slot| match slot.value {
            Value::Column { table, .. } => Some(table),
            _ => None,
        });
        let tables: BTreeSet<Option<u16>> = tables.collect();
        let rows = |nth: u16| self.tables[usize::from(nth)].rows().len();
        match tables.into_iter().collect::<Vec<_>>()[..] {
            [Some(nth)] if rows(nth) <= ENCODED_ROWS_MAX => {
                self.call_by_row(method, &message, nth, name)
            }
            _ => {
                let (mut template, terms) = self.without_places(method, None)?;
                template.body = self.world.message(method, &message)?;
                self.check_scalars(&template.body)?;
                Ok((template, terms))
            }
        }
    }

    /// A call whose message has no places.
    fn without_places(
        &self,
        method: &str,
        json: Option<&str>,
    ) -> Result<(Template, grpc::Terms), String> {
        let call = self.world.call(method, json)?;
        call.of_mix().map_err(|error| error.to_string())
    }

    /// What stands in the place of a number is one, in every row.
    fn check_scalars(&self, message: &Text) -> Result<(), String> {
        for slot in message.slots() {
            let (Value::Column { table, column }, Spelling::Scalar(scalar)) =
                (slot.value, slot.spelling)
            else {
                continue;
            };
            let table = &self.tables[usize::from(table)];
            let is_wrong = |row: &Row| {
                let cell = row.0.get(usize::from(column));
                !scalar.accepts(cell.map_or(&[], |cell| &cell[..]))
            };
            if let Some(nth) = table.rows().iter().position(is_wrong) {
                // What the cell holds may be a secret in the wrong column.
                return Err(format!(
                    "what row {} of [data.{}] has in `{}` is no {}{}",
                    nth + 1,
                    table.name,
                    table.columns[usize::from(column)],
                    scalar.name(),
                    match scalar {
                        Scalar::Int32 => BY_NUMBER,
                        _ => "",
                    }
                ));
            }
        }
        Ok(())
    }

    /// A call whose message is encoded for each row of a table.
    fn call_by_row(
        &mut self,
        method: &str,
        message: &Text,
        nth: u16,
        name: &str,
    ) -> Result<(Template, grpc::Terms), String> {
        let table = &self.tables[usize::from(nth)];
        let rows = table.rows();
        let mut encoded = Vec::with_capacity(rows.len());
        let mut template = None;
        for (at, row) in rows.iter().enumerate() {
            let json = filled(message, row);
            let json = String::from_utf8_lossy(&json);
            let (one, terms) = self
                .without_places(method, Some(&json))
                .map_err(|why| format!("with row {} of [data.{}]: {why}", at + 1, table.name))?;
            encoded.push(one.body.clone().into_fixed().unwrap_or_default());
            template = Some((one, terms));
        }
        let (mut template, terms) = template.ok_or("there are no rows")?;
        let table = &mut self.tables[usize::from(nth)];
        let column = table.columns.len() as u16;
        table.columns.push(format!("(message of {name})"));
        let rows = table.rows().iter().zip(encoded).map(|(row, message)| {
            let mut row = row.clone();
            row.0.push(message);
            row
        });
        table.cells = rows.collect::<Vec<Row>>().into();
        template.body = Text(vec![Piece::Slot(Slot {
            value: Value::Column { table: nth, column },
            spelling: Spelling::Raw,
        })]);
        Ok((template, terms))
    }
}

/// The bytes of a text that is filled in with a row.
fn filled(text: &Text, row: &Row) -> Vec<u8> {
    let mut all = Vec::new();
    for piece in &text.0 {
        match piece {
            Piece::Fixed(bytes) => all.extend_from_slice(bytes),
            Piece::Slot(slot) => {
                if let Value::Column { column, .. } = slot.value
                    && let Some(cell) = row.0.get(usize::from(column))
                {
                    slot.spelling
                        .spell(cell, |part| all.extend_from_slice(part));
                }
            }
            Piece::Sized(..) => unreachable!("JSON has no lengths"),
        }
    }
    all
}

/// Each value that is taken is to be what the requests of its session encode it as.
pub(crate) fn fit(kinds: &mut [Kind]) {
    let needed = needs(&*kinds, |value| match value {
        Value::Variable(number) => Some(number),
        _ => None,
    });
    fit_takes(kinds, &needed);
}

/// The same of what set-up takes, and what is made of it again, by all that is filled in with it.
pub(crate) fn fit_setup(
    setup: &mut Once,
    refresh: Option<&mut Refresh>,
    teardown: Option<&Mix>,
    kinds: &[Kind],
) {
    let of_refresh = refresh.as_ref().map(|refresh| &refresh.once.mix);
    let around = teardown.into_iter().chain(of_refresh);
    let all = around.flat_map(|mix| &mix.kinds).chain(kinds);
    let needed = needs(all, |value| match value {
        Value::Known(number) => Some(number),
        _ => None,
    });
    fit_takes(&mut setup.mix.kinds, &needed);
    if let Some(Refresh { once, .. }) = refresh {
        // What is made again numbers what it takes anew.
        let again = |(number, scalar): &(u16, Scalar)| {
            let name = &setup.names[usize::from(*number)];
            let nth = once.names.iter().position(|other| other == name)?;
            Some((nth as u16, *scalar))
        };
        let again = needed.iter().filter_map(again).collect();
        fit_takes(&mut once.mix.kinds, &again);
    }
}

/// The numbers of values and how each is encoded, in some requests.
fn needs<'k>(
    kinds: impl IntoIterator<Item = &'k Kind>,
    number: impl Fn(Value) -> Option<u16>,
) -> BTreeSet<(u16, Scalar)> {
    let slots = kinds
        .into_iter()
        .flat_map(|kind| kind.request.texts().flat_map(Text::slots));
    let need = |slot: &Slot| match slot.spelling {
        Spelling::Scalar(scalar) => Some((number(slot.value)?, scalar)),
        _ => None,
    };
    slots.filter_map(need).collect()
}

fn fit_takes(kinds: &mut [Kind], needed: &BTreeSet<(u16, Scalar)>) {
    for take in kinds.iter_mut().flat_map(|kind| &mut kind.expect.takes) {
        let of_it = needed
            .iter()
            .filter(|(variable, _)| *variable == take.variable);
        take.fits.extend(of_it.map(|(_, scalar)| *scalar));
    }
}
