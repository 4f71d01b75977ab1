//! A controller or an agent that says anything: no panic, and the same messages and the same end however the bytes
//! are cut.
//!
//! ```text
//!   byte   0…1          2…
//!          cut (u16)    what is said
//! ```

#![no_main]

use libfuzzer_sys::fuzz_target;
use wallfinder_protocol::{Frames, Greeting, Request, Said};

fuzz_target!(|data: &[u8]| {
    let Some((start, said)) = data.split_first_chunk::<2>() else {
        return;
    };
    let cut = usize::from(u16::from_le_bytes(*start)).min(said.len());
    let (first, second) = said.split_at(cut);
    assert_eq!(heard::<Request>(&[said]), heard::<Request>(&[first, second]));
    let singly: Vec<&[u8]> = said.chunks(1).collect();
    assert_eq!(heard::<Said>(&[said]), heard::<Said>(&singly));
    let mut greeting = Greeting::default();
    let _ = greeting.push(first).and_then(|_| greeting.push(second));
});

/// The messages, and whether an error ended them.
fn heard<T: serde::de::DeserializeOwned + std::fmt::Debug>(pieces: &[&[u8]]) -> (Vec<String>, bool) {
    let mut frames = Frames::default();
    let mut messages = Vec::new();
    for piece in pieces {
        frames.push(piece);
        loop {
            match frames.take::<T>() {
                Ok(Some(message)) => messages.push(format!("{message:?}")),
                Ok(None) => break,
                Err(_) => return (messages, true),
            }
        }
    }
    (messages, false)
}
