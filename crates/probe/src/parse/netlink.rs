//! Netlink framing (RFC 3549, netlink(7)): messages with a 16-byte head, attributes with a 4-byte
//! head, both padded to four bytes, in the machine's byte order.
//!
//! ```text
//! | length u32 | kind u16 | flags u16 | sequence u32 | port u32 | payload ... |
//!                                             payload: fixed part, then
//!                                             | length u16 | kind u16 | value ... | ...
//! ```

/// Length of a message's head.
pub const HEAD_BYTES: usize = 16;

/// Kind of the message that ends a dump.
pub const DONE: u16 = 3;
/// Kind of the message that reports an error or acknowledges.
pub const ERROR: u16 = 2;

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it is: [`DONE`], [`ERROR`] or a kind of the protocol.
    pub kind: u16,
    /// Number of the request that it answers.
    pub sequence: u32,
    /// What follows the head.
    pub payload: &'a [u8],
}

/// The messages of a datagram; ends at the first broken one.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::try_from(u32_at(rest, 0)?).ok()?;
        let payload = rest.get(HEAD_BYTES..length)?;
        let message = Message {
            kind: u16_at(rest, 4)?,
            sequence: u32_at(rest, 8)?,
            payload,
        };
        rest = rest.get(aligned(length)..).unwrap_or(&[]);
        Some(message)
    })
}

/// The error number of an [`ERROR`] message's payload; 0 acknowledges.
pub fn error_number(payload: &[u8]) -> Option<i32> {
    u32_at(payload, 0).map(|raw| (raw as i32).saturating_neg())
}

/// The attributes of a payload after its fixed part; ends at the first broken one.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let value = rest.get(4..length)?;
        // The two highest bits say "nested" and "network byte order".
        let kind = u16_at(rest, 2)? & 0x3fff;
        rest = rest.get(aligned(length)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// The value of the first attribute of this kind.
pub fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(kind, value)| (kind == wanted).then_some(value))
}

/// A string attribute without its final NUL.
pub fn text(value: &[u8]) -> Option<&str> {
    let end = value.iter().position(|byte| *byte == 0);
    std::str::from_utf8(&value[..end.unwrap_or(value.len())]).ok()
}

/// A request: head, fixed part and attributes, ready to be sent.
pub fn request(
    kind: u16,
    flags: u16,
    sequence: u32,
    fixed: &[u8],
    attributes: &[(u16, &[u8])],
) -> Vec<u8> {
    let mut out = vec![0; HEAD_BYTES];
    out[4..6].copy_from_slice(&kind.to_ne_bytes());
    out[6..8].copy_from_slice(&flags.to_ne_bytes());
    out[8..12].copy_from_slice(&sequence.to_ne_bytes());
    out.extend_from_slice(fixed);
    out.resize(aligned(out.len()), 0);
    for (kind, value) in attributes {
        let length = u16::try_from(4 + value.len()).expect("requests are made of short attributes");
        out.extend_from_slice(&length.to_ne_bytes());
        out.extend_from_slice(&kind.to_ne_bytes());
        out.extend_from_slice(value);
        out.resize(aligned(out.len()), 0);
    }
    let length = u32::try_from(out.len()).expect("requests are short");
    out[..4].copy_from_slice(&length.to_ne_bytes());
    out
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let end = at.checked_add(2)?;
    Some(u16::from_ne_bytes(bytes.get(at..end)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let end = at.checked_add(4)?;
    Some(u32::from_ne_bytes(bytes.get(at..end)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let end = at.checked_add(8)?;
    Some(u64::from_ne_bytes(bytes.get(at..end)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_reads_back() {
        let bytes = request(18, 0x301, 7, &[1; 6], &[(3, b"v0\0"), (4, &[9; 4])]);
        let read: Vec<_> = messages(&bytes).collect();
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].kind, read[0].sequence), (18, 7));
        let pairs: Vec<_> = attributes(&read[0].payload[8..]).collect();
        assert_eq!(pairs, [(3, &b"v0\0"[..]), (4, &[9; 4][..])]);
        assert_eq!(text(pairs[0].1), Some("v0"));
    }

    #[test]
    fn lengths_that_lie_end_the_walk() {
        for length in [0u32, 1, 15, 17, u32::MAX] {
            let mut bytes = vec![0u8; 16];
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(messages(&bytes).count(), 0, "{length}");
        }
        for length in [0u16, 3, 9, u16::MAX] {
            let mut bytes = vec![0u8; 8];
            bytes[..2].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(attributes(&bytes).count(), 0, "{length}");
        }
    }
}
