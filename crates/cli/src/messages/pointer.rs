//! Where a pointer of JSON leads in a message of protobuf: to the numbers of its fields.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use wallfinder_wire::mix::{FieldPath, FieldStep, Key, Which};

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
            Key::of(scalar, &token).map(Which::Key)
        }
        _ => token.parse().ok().map(Which::Nth),
    }
}

#[cfg(test)]
mod tests {
    use wallfinder_wire::mix::Scalar;

    use super::super::files::{self, with_file};
    use super::*;

    const SHOP: &str = r#"
syntax = "proto3";
package shop;
enum Size { SMALL = 0; LARGE = 2; }
message Price { double amount = 1; string currency_code = 2; }
message Order {
  string name = 1; repeated Price prices = 3; Size size = 4; map<int32, Price> by_day = 5; optional int64 count = 6;
}
service Orders { rpc Get(Order) returns (Order); }
"#;

    fn order() -> MessageDescriptor {
        let file = compiled(SHOP);
        file.get_message_by_name("shop.Order").expect("it is there")
    }

    fn compiled(text: &str) -> prost_reflect::DescriptorPool {
        with_file(text, |file| {
            files::compiled(&[file], &[]).expect("it is one")
        })
    }

    #[test]
    fn a_pointer_becomes_the_numbers_of_fields() {
        let order = order();
        let key = Which::Key(Key::of(Scalar::Int32, "-7").expect("a key"));
        for (pointer, steps, scalar, has_default) in [
            ("/name", vec![(1, Which::Only)], Scalar::Text, true),
            ("/count", vec![(6, Which::Only)], Scalar::Int64, false),
            (
                "/prices/1/currencyCode",
                vec![(3, Which::Nth(1)), (2, Which::Only)],
                Scalar::Text,
                true,
            ),
            (
                "/by_day/-7/amount",
                vec![(5, key), (2, Which::Only), (1, Which::Only)],
                Scalar::Double,
                true,
            ),
        ] {
            let found = path(&order, pointer).expect(pointer);
            let shown: Vec<(u32, Which)> = found
                .steps
                .iter()
                .map(|step| (step.number, step.which.clone()))
                .collect();
            assert_eq!(shown, steps, "{pointer}");
            assert_eq!((found.scalar, found.has_default), (scalar, has_default));
        }
        let size = path(&order, "/size").expect("an enum");
        assert_eq!(size.names[1], (2, "LARGE".to_owned()));
    }

    #[test]
    fn a_pointer_that_leads_to_no_value_is_told() {
        let order = order();
        for (pointer, part) in [
            ("name", "is no pointer to a field"),
            ("", "is no pointer to a field"),
            ("/nome", "no field `nome`"),
            ("/prices", "leads to several values"),
            ("/prices/x", "leads to several values"),
            ("/byDay/x/amount", "leads to several values"),
            ("/prices/0", "leads to a whole shop.Price"),
            ("/name/x", "leads on behind `name`, which is one string"),
        ] {
            let why = path(&order, pointer).expect_err(pointer);
            assert!(why.contains(part) && why.contains("shop.Order"), "{why}");
        }
    }
}
