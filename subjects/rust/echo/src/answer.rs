//! What the echo gives back, in every protocol alike.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::payload::{NoPayload, Payload};

/// The most that an answer may carry.
pub const BYTES_MAX: usize = 16 << 20;
/// The longest message that is taken: as much data, and what stands around it.
pub const MESSAGE_BYTES_MAX: usize = BYTES_MAX + 1024;

/// What an answer's data are: those of the request, or so many bytes of the server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    own: Option<Arc<[u8]>>,
}

impl Kind {
    /// Reads echo, ack (no data) or a number of bytes.
    pub fn parse(text: &str) -> Result<Kind, String> {
        let own = match text {
            "echo" => None,
            "ack" => Some(0),
            text => Some(
                text.parse()
                    .ok()
                    .filter(|bytes| *bytes <= BYTES_MAX)
                    .ok_or_else(|| {
                        format!("must be echo, ack or a number of bytes up to {BYTES_MAX}")
                    })?,
            ),
        };
        Ok(Kind {
            own: own.map(|bytes| vec![0; bytes].into()),
        })
    }

    /// Appends the answer to an encoded request.
    pub fn answer(&self, request: &[u8], into: &mut Vec<u8>) -> Result<(), NoPayload> {
        let mut payload = Payload::decode(request)?;
        if let Some(own) = &self.own {
            payload.data = own;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        payload.timestamp = now.map_or(1, |since| since.as_nanos() as i64);
        payload.encode(into);
        Ok(())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.own.as_deref() {
            None => f.write_str("echo"),
            Some([]) => f.write_str("ack"),
            Some(own) => write!(f, "{}", own.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_of_the_kind_that_was_asked_for() {
        let request = b"\x0a\x01r\x12\x03abc\x18\x01";
        for (kind, len) in [("echo", 3), ("ack", 0), ("5000", 5000)] {
            let parsed = Kind::parse(kind).unwrap();
            assert_eq!(parsed.to_string(), kind);
            let mut answer = vec![1, 2];
            parsed.answer(request, &mut answer).unwrap();
            let answer = Payload::decode(&answer[2..]).unwrap();
            assert_eq!((answer.id, answer.data.len()), ("r", len));
            assert!(answer.timestamp > 1_700_000_000_000_000_000);
        }
        assert!(Kind::parse("16777217").is_err() && Kind::parse("-1").is_err());
        let echo = Kind::parse("echo").unwrap();
        assert_eq!(echo.answer(b"\x0a", &mut Vec::new()), Err(NoPayload));
    }
}
