//! Messages with places that are filled in: from JSON with places to pieces of encoded bytes.
//!
//! ```text
//!   {"name": "{users.name}", "lines": [{"count": {n}}], "size": "LARGE"}
//!     20 02              size, which has no place, is encoded as ever
//!     0a │len│ name      a string behind its length
//!     1a │len│ 08 n      a message behind its length, and in it a number that comes as text
//! ```
//!
//! Fields that stand one behind the other are one message, so what has no place is encoded by the library, and all else
//! follows. Lengths are counted while a request is written, from the inside out.

use std::collections::BTreeSet;

use prost::Message as _;
use prost::encoding::encode_varint;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value};
use wallfinder_wire::mix::{Piece, Prefix, Scalar, Slot, Spelling, Text, WireType};

use super::{fields_of, kind_name, scalar_of};

/// What stands around the number of a place in a string of JSON: no text has these code points.
const OPEN: char = '\u{fdd0}';
const CLOSE: char = '\u{fdd1}';

/// Encodes the messages of a call, with their prefixes: one object of JSON for a message, an array of them where the
/// client streams.
pub(super) fn encoded(
    input: &MessageDescriptor,
    client_streams: bool,
    json: &Text,
) -> Result<Text, String> {
    let (json, places) = marked(json)?;
    let places = Places(places);
    let given: Value = serde_json::from_str(&json).map_err(|error| {
        format!(
            "the body is not JSON with places in its strings, or in place of its numbers: {error}"
        )
    })?;
    let messages = match given {
        Value::Array(messages) if client_streams => messages,
        one => vec![one],
    };
    let mut all = Text::default();
    for message in &messages {
        all.append(&Text::sized(Prefix::Call, places.message(input, message)?));
    }
    Ok(all)
}

/// A place, and whether it stands within a string.
type Place = (Slot, bool);

/// JSON with a marker in a string for each place.
fn marked(json: &Text) -> Result<(String, Vec<Place>), String> {
    let (mut all, mut places) = (String::new(), Vec::new());
    let (mut is_inside, mut is_escaped) = (false, false);
    for piece in &json.0 {
        match piece {
            Piece::Fixed(bytes) => {
                let text = std::str::from_utf8(bytes).map_err(|_| "the body is not UTF-8")?;
                if text.contains([OPEN, CLOSE]) {
                    return Err("the body has code points that no text has".to_owned());
                }
                for byte in bytes {
                    match byte {
                        _ if std::mem::take(&mut is_escaped) => {}
                        b'\\' if is_inside => is_escaped = true,
                        b'"' => is_inside = !is_inside,
                        _ => {}
                    }
                }
                all.push_str(text);
            }
            Piece::Slot(slot) => {
                let quote = if is_inside { "" } else { "\"" };
                all.push_str(&format!("{quote}{OPEN}{}{CLOSE}{quote}", places.len()));
                places.push((*slot, is_inside));
            }
            Piece::Sized(..) => unreachable!("JSON has no lengths"),
        }
    }
    Ok((all, places))
}

/// A part of a string.
enum Part<'t> {
    Plain(&'t str),
    Place(Place),
}

/// The places of a body, by number.
struct Places(Vec<Place>);

impl Places {
    fn split<'t>(&self, text: &'t str) -> Vec<Part<'t>> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((plain, (number, behind))) = rest
            .split_once(OPEN)
            .and_then(|(plain, marker)| Some((plain, marker.split_once(CLOSE)?)))
        {
            let place = number.parse().ok().and_then(|nth: usize| self.0.get(nth));
            parts.extend((!plain.is_empty()).then_some(Part::Plain(plain)));
            parts.extend(place.map(|place| Part::Place(*place)));
            rest = behind;
        }
        parts.extend((!rest.is_empty()).then_some(Part::Plain(rest)));
        parts
    }

    /// The fields of a message.
    fn message(&self, of: &MessageDescriptor, value: &Value) -> Result<Text, String> {
        if !has_place(value) {
            let message = DynamicMessage::deserialize(of.clone(), value);
            let message = message.map_err(|error| not_one(of, &error.to_string()))?;
            return Ok(Text::fixed(message.encode_to_vec()));
        }
        if is_wrapper(of) {
            let inside = of.get_field(1).ok_or("it wraps nothing")?;
            return self.single(&inside, value);
        }
        if of.full_name().starts_with("google.protobuf.") {
            return Err(format!(
                "a {} is not filled in: give its places the columns of one [data], whose rows are encoded before the \
                 load",
                of.full_name()
            ));
        }
        let Value::Object(members) = value else {
            return Err(not_one(of, "it is no object"));
        };
        let (mut plain, mut filled) = (Map::new(), Text::default());
        let mut choices = BTreeSet::new();
        for (name, value) in members {
            let field = field_of(of, name)?;
            if let Some(choice) = field.containing_oneof()
                && !value.is_null()
                && !choices.insert(choice.name().to_owned())
            {
                let choice = choice.name();
                return Err(not_one(of, &format!("`{choice}` is given twice")));
            }
            match has_place(value) {
                false => drop(plain.insert(name.clone(), value.clone())),
                true => filled.append(&self.field(&field, value)?),
            }
        }
        let mut all = self.message(of, &Value::Object(plain))?;
        all.append(&filled);
        Ok(all)
    }

    fn field(&self, field: &FieldDescriptor, value: &Value) -> Result<Text, String> {
        let mut all = Text::default();
        match (value, field.kind()) {
            (Value::Object(entries), Kind::Message(entry)) if field.is_map() => {
                let (key, of_value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
                for (name, value) in entries {
                    let mut one = self.single(&key, &Value::String(name.clone()))?;
                    one.append(&self.single(&of_value, value)?);
                    all.append(&tagged(field, WireType::Sized));
                    all.append(&Text::sized(Prefix::Varint, one));
                }
            }
            (Value::Array(values), _) if field.is_list() => {
                for value in values {
                    all.append(&self.single(field, value)?);
                }
            }
            (value, _) if !field.is_map() && !field.is_list() => {
                return self.single(field, value);
            }
            _ => {
                let what = if field.is_map() {
                    "an object"
                } else {
                    "a list"
                };
                return Err(format!("`{}` is {what}", field.json_name()));
            }
        }
        Ok(all)
    }

    /// One value of a field, its number before it.
    fn single(&self, field: &FieldDescriptor, value: &Value) -> Result<Text, String> {
        let wrong = |why: &str| format!("`{}` {why}", field.json_name());
        if let Kind::Message(of) = field.kind() {
            if field.is_group() {
                return Err(wrong("is a group, which is not filled in"));
            }
            let mut all = tagged(field, WireType::Sized);
            all.append(&Text::sized(Prefix::Varint, self.message(&of, value)?));
            return Ok(all);
        }
        let scalar = scalar_of(&field.kind()).ok_or_else(|| wrong("is of no known kind"))?;
        let parts = match value {
            Value::String(text) => self.split(text),
            _ => Vec::new(),
        };
        let inside = match &parts[..] {
            // A key of a map is a string in JSON, whatever it stands for.
            [] | [Part::Plain(_)] if !is_key(field) || scalar == Scalar::Text => {
                return plain(field, value);
            }
            [Part::Plain(text)] if scalar.accepts(text.as_bytes()) => {
                let mut inside = Vec::new();
                Spelling::Scalar(scalar)
                    .spell(text.as_bytes(), |part| inside.extend_from_slice(part));
                Text::fixed(inside)
            }
            [Part::Place((slot, _))] if scalar != Scalar::Text => Text(vec![Piece::Slot(Slot {
                value: slot.value,
                spelling: Spelling::Scalar(scalar),
            })]),
            parts if scalar == Scalar::Text => strings(parts).map_err(|why| wrong(&why))?,
            _ => {
                let what = kind_name(&field.kind());
                return Err(wrong(&format!("is one {what}: one place alone, or none")));
            }
        };
        let mut all = tagged(field, scalar.wire_type());
        match scalar.wire_type() {
            WireType::Sized => all.append(&Text::sized(Prefix::Varint, inside)),
            _ => all.append(&inside),
        }
        Ok(all)
    }
}

/// What stands in a string.
fn strings(parts: &[Part<'_>]) -> Result<Text, String> {
    let mut all = Text::default();
    for part in parts {
        match part {
            Part::Plain(text) => all.push(text.as_bytes()),
            Part::Place((slot, is_inside)) => {
                let spelling = match slot.spelling {
                    _ if !is_inside => {
                        return Err("is a string: write its place in quotes".to_owned());
                    }
                    Spelling::Url => Spelling::Url,
                    Spelling::Raw => {
                        return Err(
                            "is a string of JSON, in which |raw stands for nothing of its own"
                                .to_owned(),
                        );
                    }
                    _ => Spelling::Scalar(Scalar::Text),
                };
                all.0.push(Piece::Slot(Slot {
                    value: slot.value,
                    spelling,
                }));
            }
        }
    }
    Ok(all)
}

/// A value without places, as the library has it: alone in its message.
fn plain(field: &FieldDescriptor, value: &Value) -> Result<Text, String> {
    let of = field.parent_message();
    let value = match field.is_list() {
        true => Value::Array(vec![value.clone()]),
        false => value.clone(),
    };
    let alone = Map::from_iter([(field.json_name().to_owned(), value)]);
    let message = DynamicMessage::deserialize(of.clone(), Value::Object(alone));
    let message = message.map_err(|error| not_one(of, &error.to_string()))?;
    Ok(Text::fixed(message.encode_to_vec()))
}

/// The number of a field and how its value is delimited.
fn tagged(field: &FieldDescriptor, wire_type: WireType) -> Text {
    let mut tag = Vec::new();
    encode_varint(u64::from(field.number()) << 3 | wire_type as u64, &mut tag);
    Text::fixed(tag)
}

/// The field of a name, as JSON or the language has it.
pub(super) fn field_of(of: &MessageDescriptor, name: &str) -> Result<FieldDescriptor, String> {
    let found = of.get_field_by_json_name(name);
    found
        .or_else(|| of.get_field_by_name(name))
        .ok_or_else(|| not_one(of, &format!("it has no field `{name}`")))
}

fn not_one(of: &MessageDescriptor, why: &str) -> String {
    let name = of.full_name();
    format!("the body is not a {name}: {why}; {name} {}", fields_of(of))
}

fn is_key(field: &FieldDescriptor) -> bool {
    field.parent_message().is_map_entry() && field.number() == 1
}

/// Whether a message stands in JSON as the value that it wraps.
fn is_wrapper(of: &MessageDescriptor) -> bool {
    let wrapped = of
        .full_name()
        .strip_prefix("google.protobuf.")
        .and_then(|name| name.strip_suffix("Value"));
    let all = [
        "Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes",
    ];
    wrapped.is_some_and(|wrapped| all.contains(&wrapped))
}

fn has_place(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(OPEN),
        Value::Array(values) => values.iter().any(has_place),
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| name.contains(OPEN) || has_place(value)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wallfinder_wire::mix::Value as Of;

    use super::super::files::with_file;
    use super::super::{Method, Source, method_of};
    use super::*;

    const ALL: &str = r#"
syntax = "proto3";
package all;
import "google/protobuf/wrappers.proto";
import "google/protobuf/timestamp.proto";
enum Size { SMALL = 0; LARGE = 2; }
message Inner { string name = 1; repeated sint64 counts = 2; Inner next = 3; }
message All {
  string text = 1; bytes data = 2; bool is = 3;
  int32 i32 = 4; int64 i64 = 5; uint32 u32 = 6; uint64 u64 = 7; sint32 s32 = 8; sint64 s64 = 9;
  fixed32 f32 = 10; fixed64 f64 = 11; sfixed32 sf32 = 12; sfixed64 sf64 = 13; float fl = 14; double db = 15;
  Size size = 16; repeated string texts = 17; repeated int32 numbers = 18; map<string, int64> by_name = 19;
  map<int32, Inner> by_number = 20; Inner inner = 21; repeated Inner inners = 22;
  oneof choice { string a = 23; int32 b = 24; }
  google.protobuf.StringValue wrapped = 25; google.protobuf.Timestamp at = 26;
}
service S { rpc Call(All) returns (All); rpc Stream(stream All) returns (All); }
"#;

    fn method(name: &str) -> Method {
        with_file(ALL, |file| {
            let source = Source::Files {
                files: vec![file],
                folders: vec![],
            };
            method_of(&source, &format!("/all.S/{name}")).expect("it is one")
        })
    }

    /// JSON whose places are written `<n>`, as a text.
    fn text(json: &str) -> Text {
        let mut all = Text::default();
        for (nth, part) in json.split(['<', '>']).enumerate() {
            match nth % 2 {
                0 => all.push(part.as_bytes()),
                _ => all.0.push(Piece::Slot(Slot {
                    value: Of::Variable(part.parse().unwrap()),
                    spelling: Spelling::Json,
                })),
            }
        }
        all
    }

    /// What is written with these values, by the very plain way.
    fn filled(text: &Text, values: &[&str]) -> Vec<u8> {
        let mut all = Vec::new();
        for piece in &text.0 {
            match piece {
                Piece::Fixed(bytes) => all.extend_from_slice(bytes),
                Piece::Slot(slot) => {
                    let Of::Variable(nth) = slot.value else {
                        panic!("{slot:?}")
                    };
                    let value = values[usize::from(nth)].as_bytes();
                    slot.spelling
                        .spell(value, |part| all.extend_from_slice(part));
                }
                Piece::Sized(prefix, text) => {
                    let inside = filled(text, values);
                    match prefix {
                        Prefix::Varint => encode_varint(inside.len() as u64, &mut all),
                        Prefix::Call => {
                            all.push(0);
                            all.extend((inside.len() as u32).to_be_bytes());
                        }
                    }
                    all.extend(inside);
                }
            }
        }
        all
    }

    /// With places, and with the values written in their places, a message reads the same.
    fn is_same(method: &Method, json: &str, values: &[&str]) {
        let with = method.with_places(&text(json)).expect(json);
        let bytes = filled(&with, values);
        let written = values
            .iter()
            .enumerate()
            .fold(json.to_owned(), |json, (nth, value)| {
                let quoted = serde_json::to_string(value).unwrap();
                json.replace(&format!("<{nth}>"), &quoted[1..quoted.len() - 1])
            });
        let plain = method
            .encode(&written)
            .map_err(|failed| failed.message)
            .expect(&written);
        let read = |bytes: &[u8]| DynamicMessage::decode(method.0.input(), bytes).unwrap();
        assert_eq!(bytes[1..5], (bytes.len() as u32 - 5).to_be_bytes());
        // As JSON: a number that is 0 is the same where it stands in the bytes and where it does not.
        let shown = |bytes: &[u8]| serde_json::to_value(read(bytes)).unwrap();
        assert_eq!(shown(&bytes[5..]), shown(&plain[0]), "{written}");
    }

    #[test]
    fn every_kind_of_field_is_filled_in() {
        let method = method("Call");
        for (field, value) in [
            ("text", "caf\u{e9} \"x\""),
            ("data", "AP8="),
            ("i32", "-7"),
            ("i64", "-9223372036854775808"),
            ("u32", "4294967295"),
            ("u64", "18446744073709551615"),
            ("s32", "-2147483648"),
            ("s64", "77"),
            ("f32", "5"),
            ("f64", "6"),
            ("sf32", "-5"),
            ("sf64", "-6"),
            ("fl", "1.5"),
            ("db", "-2.25e10"),
            ("a", "chosen"),
            ("b", "3"),
            ("wrapped", "w"),
        ] {
            is_same(&method, &format!(r#"{{"{field}": "<0>"}}"#), &[value]);
            is_same(
                &method,
                &format!(r#"{{"{field}": "<0>", "texts": ["x"], "size": "LARGE"}}"#),
                &[value],
            );
        }
        is_same(
            &method,
            r#"{"is": <0>, "size": <1>, "i32": <1>, "db": <1>}"#,
            &["true", "2"],
        );
    }

    #[test]
    fn lists_maps_and_messages_in_messages_are_filled_in() {
        let method = method("Call");
        is_same(
            &method,
            r#"{"texts": ["a", "<0>", "b<0>c<1>"], "numbers": [1, <2>, 3], "byName": {"x": 1, "<0>": <2>, "y": "<2>"}}"#,
            &["one", "", "-12"],
        );
        is_same(
            &method,
            r#"{"byNumber": {"<0>": {"name": "<1>"}, "5": {}, "6": {"next": {"name": "<1>"}}}}"#,
            &["7", "n"],
        );
        let long = "l".repeat(300);
        is_same(
            &method,
            r#"{"text": "t", "inner": {"name": "<0>", "counts": [<1>, 2], "next": {"next": {"name": "x<0>"}, "counts": [3]}},
                "inners": [{}, {"name": "<0>"}, {"counts": [<1>]}]}"#,
            &[&long, "-3"],
        );
    }

    #[test]
    fn a_client_that_streams_has_a_message_for_each_object() {
        let method = method("Stream");
        let all = method.with_places(&text(r#"[{"text": "<0>"}, {"i32": 1}, {"text": "b"}]"#));
        let bytes = filled(&all.unwrap(), &["a"]);
        assert_eq!(
            bytes,
            b"\0\0\0\0\x03\x0a\x01a\0\0\0\0\x02\x20\x01\0\0\0\0\x03\x0a\x01b"
        );
    }

    #[test]
    fn what_cannot_be_filled_in_is_told() {
        let method = method("Call");
        for (json, part) in [
            (
                r#"{"nome": "<0>"}"#,
                "no field `nome`; all.All has: text (string)",
            ),
            (
                r#"{"text": <0>}"#,
                "`text` is a string: write its place in quotes",
            ),
            (
                r#"{"i32": "1<0>"}"#,
                "`i32` is one int32: one place alone, or none",
            ),
            (
                r#"{"at": "<0>"}"#,
                "a google.protobuf.Timestamp is not filled in",
            ),
            (r#"{"a": "<0>", "b": 1}"#, "`choice` is given twice"),
            (r#"{"numbers": <0>}"#, "`numbers` is a list"),
            (r#"{"text": "<0>", "i32": "many"}"#, "not a all.All"),
            (r#"{"text": "<0>""#, "not JSON"),
        ] {
            let why = method.with_places(&text(json)).expect_err(json);
            assert!(why.contains(part), "{json}: {why}");
        }
    }

    /// Whatever stands in the places, the message reads as if it had been written there.
    #[test]
    fn a_filled_in_message_is_the_message() {
        let method = method("Call");
        proptest!(|(text in "[^\\p{C}<>]{0,200}", number in any::<i64>(), small in any::<i32>())| {
            let (number, small) = (number.to_string(), small.to_string());
            is_same(
                &method,
                r#"{"text": "a<0>b", "i64": "<1>", "inner": {"name": "<0>", "counts": ["<1>", "<2>"]}, "byName": {"k<0>": "<1>"},
                    "inners": [{"next": {"name": "<2>"}}], "numbers": [<2>], "u32": 9}"#,
                &[&text, &number, &small],
            );
        });
    }
}
