//! The message of the echo, `subjects/go/echo/payload/echo.proto`, decoded and encoded.
//!
//! By hand, since it has three fields: nothing is copied that is given back unchanged, no
//! generator is needed, and fields that are not known are given back as Go gives them back.
//! <https://protobuf.dev/programming-guides/encoding/>
//!
//! ```text
//!   0a id.len id    12 data.len data    18 timestamp    (what was not known, as it came)
//! ```

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPayload;

/// A message, whose text and bytes stand in the buffer that it was decoded from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload<'b> {
    /// Of the request, given back unchanged.
    pub id: &'b str,
    /// What is carried.
    pub data: &'b [u8],
    /// When the sender made it, in nanoseconds since 1970.
    pub timestamp: i64,
    /// Fields that are not of this message, whole, in their order.
    pub unknown: Vec<&'b [u8]>,
}

const ID: u64 = 1;
const DATA: u64 = 2;
const TIMESTAMP: u64 = 3;

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const GROUP: u64 = 3;
const END_GROUP: u64 = 4;
const FIXED32: u64 = 5;

/// The highest number of a field.
const NUMBER_MAX: u64 = (1 << 29) - 1;
/// How deep groups may stand in each other.
const DEPTH_MAX: usize = 10_000;
/// The longest varint: nine times seven bits, and one.
const VARINT_BYTES_MAX: usize = 10;

impl<'b> Payload<'b> {
    /// Decodes a whole message. Of a field given twice, the last counts.
    pub fn decode(bytes: &'b [u8]) -> Result<Payload<'b>, NoPayload> {
        let mut payload = Payload::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let field = rest;
            let (number, kind) = tag(&mut rest)?;
            match (number, kind) {
                (ID, BYTES) => {
                    payload.id =
                        std::str::from_utf8(delimited(&mut rest)?).map_err(|_| NoPayload)?;
                }
                (DATA, BYTES) => payload.data = delimited(&mut rest)?,
                (TIMESTAMP, VARINT) => payload.timestamp = varint(&mut rest)? as i64,
                _ => {
                    skip(&mut rest, number, kind)?;
                    payload.unknown.push(&field[..field.len() - rest.len()]);
                }
            }
        }
        Ok(payload)
    }

    /// How long it is encoded.
    pub fn encoded_len(&self) -> usize {
        let delimited = |len: usize| match len {
            0 => 0,
            len => 1 + varint_len(len as u64) + len,
        };
        let timestamp = match self.timestamp {
            0 => 0,
            timestamp => 1 + varint_len(timestamp as u64),
        };
        let unknown: usize = self.unknown.iter().map(|field| field.len()).sum();
        delimited(self.id.len()) + delimited(self.data.len()) + timestamp + unknown
    }

    /// Appends its encoding. What is empty or zero is left out, as proto3 has it.
    pub fn encode(&self, into: &mut Vec<u8>) {
        into.reserve(self.encoded_len());
        for (number, bytes) in [(ID, self.id.as_bytes()), (DATA, self.data)] {
            if !bytes.is_empty() {
                into.push((number << 3 | BYTES) as u8);
                put_varint(into, bytes.len() as u64);
                into.extend_from_slice(bytes);
            }
        }
        if self.timestamp != 0 {
            into.push((TIMESTAMP << 3 | VARINT) as u8);
            put_varint(into, self.timestamp as u64);
        }
        for field in &self.unknown {
            into.extend_from_slice(field);
        }
    }
}

fn take<'b>(rest: &mut &'b [u8], count: usize) -> Result<&'b [u8], NoPayload> {
    let (taken, left) = rest.split_at_checked(count).ok_or(NoPayload)?;
    *rest = left;
    Ok(taken)
}

fn varint(rest: &mut &[u8]) -> Result<u64, NoPayload> {
    let mut value = 0;
    for (at, byte) in rest.iter().enumerate().take(VARINT_BYTES_MAX) {
        // The tenth byte has room for one bit.
        if at == VARINT_BYTES_MAX - 1 && *byte > 1 {
            return Err(NoPayload);
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *rest = &rest[at + 1..];
            return Ok(value);
        }
    }
    Err(NoPayload)
}

fn tag(rest: &mut &[u8]) -> Result<(u64, u64), NoPayload> {
    let tag = varint(rest)?;
    let number = tag >> 3;
    match (1..=NUMBER_MAX).contains(&number) {
        true => Ok((number, tag & 7)),
        false => Err(NoPayload),
    }
}

fn delimited<'b>(rest: &mut &'b [u8]) -> Result<&'b [u8], NoPayload> {
    let len = varint(rest)?;
    take(rest, usize::try_from(len).map_err(|_| NoPayload)?)
}

/// Passes over the value of a field; a group's is all up to its end.
fn skip(rest: &mut &[u8], number: u64, kind: u64) -> Result<(), NoPayload> {
    let mut open = Vec::new();
    let (mut number, mut kind) = (number, kind);
    loop {
        match kind {
            VARINT => drop(varint(rest)?),
            FIXED64 => drop(take(rest, 8)?),
            BYTES => drop(delimited(rest)?),
            FIXED32 => drop(take(rest, 4)?),
            GROUP if open.len() < DEPTH_MAX => open.push(number),
            END_GROUP if open.pop() == Some(number) => {}
            _ => return Err(NoPayload),
        }
        if open.is_empty() {
            return Ok(());
        }
        (number, kind) = tag(rest)?;
    }
}

fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

fn put_varint(into: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(payload: &Payload) -> Vec<u8> {
        let mut bytes = Vec::new();
        payload.encode(&mut bytes);
        assert_eq!(bytes.len(), payload.encoded_len());
        bytes
    }

    #[test]
    fn a_payload_reads_back() {
        for (id, len, timestamp) in [
            ("", 0, 0),
            ("r-1", 64, 1),
            ("ö", 127, i64::MAX),
            ("x", 128, -1),
            ("y", 70_000, i64::MIN),
        ] {
            let data = vec![7; len];
            let payload = Payload {
                id,
                data: &data,
                timestamp,
                unknown: Vec::new(),
            };
            assert_eq!(Payload::decode(&encoded(&payload)), Ok(payload));
        }
    }

    #[test]
    fn the_encoding_is_that_of_the_standard() {
        let bytes = b"\x0a\x03r-1\x12\x02ab\x18\x96\x01";
        let payload = Payload::decode(bytes).unwrap();
        assert_eq!((payload.id, payload.data), ("r-1", &b"ab"[..]));
        assert_eq!(payload.timestamp, 150);
        assert_eq!(encoded(&payload), bytes);
    }

    #[test]
    fn what_is_not_known_is_given_back_behind_what_is() {
        let unknown: [&[u8]; 6] = [
            b"\x20\x05",                 // field 4, a varint
            b"\x1a\x01x",                // field 3 as bytes: not the timestamp
            b"\x2b\x08\x01\x33\x34\x2c", // a group in a group
            b"\x31\x01\x02\x03\x04\x05\x06\x07\x08",
            b"\x3d\x01\x02\x03\x04",
            b"\xfa\xff\xff\xff\x0f\x00", // the highest number there is
        ];
        let bytes = [&unknown.concat()[..], b"\x0a\x01a\x0a\x01b"].concat();
        let payload = Payload::decode(&bytes).unwrap();
        assert_eq!((payload.id, &payload.unknown[..]), ("b", &unknown[..]));
        let expected = [&b"\x0a\x01b"[..], &unknown.concat()].concat();
        assert_eq!(encoded(&payload), expected);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let deep = [0x2b; DEPTH_MAX + 1];
        for bytes in [
            &b"\x0a"[..],
            b"\x0a\x05abc",
            b"\x0a\x01\xff",                                     // no UTF-8
            b"\x00\x01",                                         // field 0
            b"\x82\x80\x80\x80\x10\x00",                         // a number too high
            b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",     // more than 64 bits
            b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", // eleven bytes
            b"\x2c",                                             // the end of no group
            b"\x2b\x34",                                         // the end of another
            b"\x2b",
            b"\x2e\x00", // kinds that there are not
            b"\x2f\x00",
            &deep,
        ] {
            assert_eq!(Payload::decode(bytes), Err(NoPayload), "{bytes:x?}");
        }
    }

    #[test]
    fn every_beginning_is_a_message_or_refused() {
        let bytes = b"\x0a\x03r-1\x12\x02ab\x18\x96\x01\x2b\x08\x01\x33\x34\x2c\x31\x01\x02\x03\x04\x05\x06\x07\x08";
        for end in 0..bytes.len() {
            let _ = Payload::decode(&bytes[..end]);
        }
    }
}
