//! Framed TCP read plainly, for a stream that is there as a whole.

use wallfinder_wire::WireError;
use wallfinder_wire::framed::Format;

/// Lengths of whole messages, read plainly, and how the bytes end.
pub(crate) fn reference(
    format: &Format,
    bytes: &[u8],
    requests: usize,
) -> (Vec<u64>, Option<WireError>) {
    let mut messages = Vec::new();
    let mut rest = bytes;
    loop {
        if rest.is_empty() {
            return (messages, None);
        }
        if messages.len() == requests {
            return (messages, Some(WireError::FrameUnmatched));
        }
        let width = format.length.width;
        if rest.len() < width {
            return (messages, Some(WireError::FrameTruncated));
        }
        let big_endian: Vec<u8> = if format.length.little_endian {
            rest[..width].iter().rev().copied().collect()
        } else {
            rest[..width].to_vec()
        };
        let length = big_endian
            .iter()
            .fold(0_u128, |sum, byte| sum << 8 | u128::from(*byte));
        let own = if format.inclusive { width as u128 } else { 0 };
        if length <= own || length - own > u128::from(format.message_bytes_max) {
            return (messages, Some(WireError::FrameLength));
        }
        let message = (length - own) as usize;
        if rest.len() < width + message {
            return (messages, Some(WireError::FrameTruncated));
        }
        messages.push(message as u64);
        rest = &rest[width + message..];
    }
}
