//! JSON of what is kept. A type of many fields is a long program for each way of reading or writing it, so each has
//! one of both, which all crates share.

use serde_json::Result;

use crate::{Caveat, Experiment, Plan, Record, Scenario, Step};

/// What is kept as JSON.
pub trait Json: Sized {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// What is no JSON, or has another shape.
    fn from_json(bytes: &[u8]) -> Result<Self>;

    /// Writes it, without a space in between.
    ///
    /// # Errors
    ///
    /// None for what is plain data.
    fn to_json(&self) -> Result<Vec<u8>>;
}

/// Makes types that `serde` knows [`Json`].
#[macro_export]
macro_rules! kept_as_json {
    ($($kept:ty),*) => {
        $(impl $crate::Json for $kept {
            fn from_json(bytes: &[u8]) -> serde_json::Result<Self> {
                serde_json::from_slice(bytes)
            }

            fn to_json(&self) -> serde_json::Result<Vec<u8>> {
                serde_json::to_vec(self)
            }
        })*
    };
}

kept_as_json!(Caveat, Experiment, Plan, Record, Scenario, Step);

/// The same text for people: a line for each value, two spaces for each depth, as `serde_json` indents.
pub fn indented(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut in_text, mut escaped) = (0, false, false);
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };
    for (at, byte) in json.iter().enumerate() {
        let is_empty = |close| json.get(at + 1) == Some(&close);
        if in_text {
            in_text = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
            out.push(*byte);
            continue;
        }
        match byte {
            b'{' | b'[' => {
                out.push(*byte);
                depth += 1;
                if !is_empty(byte + 2) {
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth -= 1;
                if at > 0 && json[at - 1] != byte - 2 {
                    line(&mut out, depth);
                }
                out.push(*byte);
            }
            b',' => {
                out.push(b',');
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b'"' => {
                in_text = true;
                out.push(b'"');
            }
            _ => out.push(*byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            r#"[\\"{}\[\],: ]{0,8}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_is_indented_as_the_library_does(value in values()) {
            let wanted = serde_json::to_vec_pretty(&value).unwrap();
            prop_assert_eq!(indented(&serde_json::to_vec(&value).unwrap()), wanted);
        }
    }
}
