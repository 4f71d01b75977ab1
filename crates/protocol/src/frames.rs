//! Messages as frames of bytes: a length of four bytes, the most significant first, and as many bytes of JSON.
//!
//! An agent says [`GREETING`] before its first frame, for a login shell may have printed anything before it.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest frame: the longest body that may be sent, spelled for JSON, and the result of a load of half a day.
pub const FRAME_BYTES_MAX: usize = 96 << 20;
/// Bytes of the length before each.
const LENGTH_BYTES: usize = 4;
/// What an agent says first. No shell prints a zero byte.
pub const GREETING: &[u8] = b"\0wallfinder agent\0";
/// So much may stand before it.
const BEFORE_BYTES_MAX: usize = 64 << 10;

/// What came is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame is longer than any may be, or says so.
    #[error("a message is {bytes} bytes long, and {FRAME_BYTES_MAX} are the most")]
    TooLong {
        /// So long.
        bytes: usize,
    },
    /// A frame holds something else.
    #[error("what came is no message of this protocol: {why}")]
    NoMessage {
        /// In the parser's words.
        why: String,
    },
    /// Nobody greeted.
    #[error("no agent answered")]
    NoGreeting,
}

/// A message as a frame; an error where it is too long for one.
pub fn frame(message: &impl Serialize) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut bytes, message).map_err(|error| FrameError::NoMessage {
        why: error.to_string(),
    })?;
    let length = bytes.len() - LENGTH_BYTES;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::TooLong { bytes: length });
    }
    bytes[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_be_bytes());
    Ok(bytes)
}

/// Bytes as they come, taken apart into messages.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// More has come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message; `None` until it is there. After an error nothing can be told apart any more.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let Some(length) = self.bytes.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(FrameError::TooLong { bytes: length });
        }
        let Some(body) = self.bytes.get(LENGTH_BYTES..LENGTH_BYTES + length) else {
            return Ok(None);
        };
        let message = serde_json::from_slice(body).map_err(|error| FrameError::NoMessage {
            why: error.to_string(),
        });
        self.bytes.drain(..LENGTH_BYTES + length);
        message.map(Some)
    }
}

/// The search for [`GREETING`] in what comes first.
#[derive(Debug, Default)]
pub struct Greeting {
    before: Vec<u8>,
}

impl Greeting {
    /// More has come. Gives the frames that follow a greeting; `None` until there is one.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Frames>, FrameError> {
        self.before.extend_from_slice(bytes);
        let mut windows = self.before.windows(GREETING.len());
        if let Some(at) = windows.position(|window| window == GREETING) {
            let bytes = self.before.split_off(at + GREETING.len());
            self.before.truncate(at);
            return Ok(Some(Frames { bytes }));
        }
        match self.before.len() > BEFORE_BYTES_MAX {
            true => Err(FrameError::NoGreeting),
            false => Ok(None),
        }
    }

    /// What was said before it, for who has to be told why there was none.
    pub fn before(&self) -> String {
        String::from_utf8_lossy(&self.before).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::messages::{Ask, Request};

    fn request(number: u64) -> Request {
        Request {
            number,
            epoch: 7,
            ask: Ask::Renew,
        }
    }

    #[test]
    fn a_greeting_is_found_in_what_a_login_shell_prints() {
        let mut greeting = Greeting::default();
        let mut said = b"Last login: today\n\0wallfinder agen? no\n".to_vec();
        said.extend_from_slice(GREETING);
        said.extend(frame(&request(1)).unwrap());
        let mut frames = None;
        for byte in &said {
            match &mut frames {
                None => frames = greeting.push(&[*byte]).unwrap(),
                Some(frames) => Frames::push(frames, &[*byte]),
            }
        }
        assert_eq!(frames.unwrap().take(), Ok(Some(request(1))));
        assert!(greeting.before().starts_with("Last login"));
    }

    #[test]
    fn who_never_greets_is_not_listened_to_for_ever() {
        let mut greeting = Greeting::default();
        let noise = [b'x'; 4_096];
        let heard: Result<Vec<_>, _> = (0..20).map(|_| greeting.push(&noise)).collect();
        assert!(matches!(heard, Err(FrameError::NoGreeting)));
    }

    #[test]
    fn a_frame_that_would_fill_the_memory_is_refused_by_its_length() {
        let mut frames = Frames::default();
        frames.push(&u32::MAX.to_be_bytes());
        assert!(matches!(
            frames.take::<Request>(),
            Err(FrameError::TooLong { .. })
        ));
        let long = "x".repeat(FRAME_BYTES_MAX);
        assert!(matches!(frame(&long), Err(FrameError::TooLong { .. })));
        // Nothing is put by for what is only announced.
        let mut frames = Frames::default();
        frames.push(&(FRAME_BYTES_MAX as u32).to_be_bytes());
        assert_eq!(frames.take::<Request>(), Ok(None));
        assert!(frames.bytes.capacity() < 1_000);
    }

    proptest! {
        #[test]
        fn messages_come_whole_however_they_are_cut(cuts in prop::collection::vec(1_usize..40, 1..60)) {
            let all: Vec<u8> = (0..20).flat_map(|n| frame(&request(n)).unwrap()).collect();
            let mut frames = Frames::default();
            let mut came = Vec::new();
            let mut left = &all[..];
            for cut in cuts.iter().cycle() {
                let (now, later) = left.split_at((*cut).min(left.len()));
                frames.push(now);
                while let Some(request) = frames.take::<Request>().unwrap() {
                    came.push(request.number);
                }
                left = later;
                if left.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(came, (0..20).collect::<Vec<u64>>());
        }

        #[test]
        fn whatever_comes_is_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut frames = Frames::default();
            frames.push(&bytes);
            while let Ok(Some(_)) = frames.take::<Request>() {}
        }
    }
}
