//! Where a pointer of JSON leads in a message of protobuf: to the numbers of its fields.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use wallfinder_wire::mix::{FieldPath, FieldStep, Which};

use super::places::field_of;
use super::{kind_name, scalar_of};

/// Follows a pointer, `/order/lines/0/id`, from an answer inwards.
pub(super) fn path(output: &MessageDescriptor, pointer: &str) -> Result<FieldPath, String> {
    let wrong = |why: &str| format!("{pointer} {why}, in a {}", output.full_name());
    let tokens = pointer
        .strip_prefix('/')
        .ok_or_else(|| wrong("is no pointer to a field, such as /user/id"))?;
    let mut tokens = tokens
        .split('/')
        .map(|token| token.replace("~1", "/").replace("~0", "~"));
    let mut steps = Vec::new();
    let mut of = output.clone();
    while let Some(token) = tokens.next() {
        let mut field =
            field_of(&of, &token).map_err(|why| wrong(&format!("leads nowhere: {why}")))?;
        let which = match field.is_list() || field.is_map() {
            false => Which::Only,
            true => {
                let which = tokens.next().and_then(|token| which(&field, token));
                which
                    .ok_or_else(|| wrong("leads to several values: say which, by number or key"))?
            }
        };
        let is_single = matches!(which, Which::Only);
        steps.push(FieldStep {
            number: field.number(),
            which,
        });
        if let Kind::Message(entry) = field.kind()
            && field.is_map()
        {
            field = entry.map_entry_value_field();
            steps.push(FieldStep {
                number: field.number(),
                which: Which::Only,
            });
        }
        if let Kind::Message(inside) = field.kind() {
            of = inside;
            continue;
        }
        if tokens.next().is_some() {
            let what = kind_name(&field.kind());
            return Err(wrong(&format!(
                "leads on behind `{token}`, which is one {what}"
            )));
        }
        let names = match field.kind() {
            Kind::Enum(names) => names
                .values()
                .map(|value| (value.number(), value.name().to_owned()))
                .collect(),
            _ => Vec::new(),
        };
        let scalar = scalar_of(&field.kind()).ok_or_else(|| wrong("leads to a group"))?;
        return Ok(FieldPath {
            steps,
            scalar,
            names,
            has_default: (is_single || field.parent_message().is_map_entry())
                && !field.supports_presence(),
        });
    }
    Err(wrong(&format!(
        "leads to a whole {}, and not to a value",
        of.full_name()
    )))
}

fn which(field: &FieldDescriptor, token: String) -> Option<Which> {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => {
            let scalar = scalar_of(&entry.map_entry_key_field().kind())?;
            let is_key = scalar.accepts(token.as_bytes());
            is_key.then(|| Which::Key(scalar, token.into_bytes()))
        }
        _ => token.parse().ok().map(Which::Nth),
    }
}
