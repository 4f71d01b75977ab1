//! Bytes as text, where what is asked travels to another host: in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// One run of bytes.
pub mod one {
    use super::*;

    /// For `#[serde(with)]`.
    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        BASE64.encode(bytes).serialize(to)
    }

    /// For `#[serde(with)]`.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        BASE64.decode(text).map_err(D::Error::custom)
    }
}

/// Several.
pub(crate) mod many {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(all: &[Vec<u8>], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().map(|bytes| BASE64.encode(bytes)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Vec<u8>>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        let bytes = texts.iter().map(|text| BASE64.decode(text));
        bytes.collect::<Result<_, _>>().map_err(D::Error::custom)
    }
}
