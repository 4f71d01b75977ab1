//! The other end of a session says anything: no panic, and what is read is bounded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wallfinder_protocol::stream::{PIECES_MAX, Stream, is_reset, opens};

fuzz_target!(|data: &[u8]| {
    let mut stream = Stream::default();
    stream.push(Vec::new());
    let mut now_ns = 0;
    // A byte for how long each message is and how late it comes, and then the message.
    let mut left = data;
    while let Some((first, rest)) = left.split_first() {
        let (message, rest) = rest.split_at(usize::from(*first & 0x3f).min(rest.len()));
        left = rest;
        now_ns += u64::from(*first >> 6) * 200_000_000;
        let _ = (opens(message), is_reset(message));
        if stream.handle_message(now_ns, message).is_err() {
            return;
        }
        while stream.poll_transmit(now_ns).is_some() {}
        if first % 3 == 0 {
            let mut read = 0;
            while stream.poll_bytes().is_some() {
                read += 1;
            }
            assert!(read <= PIECES_MAX);
        }
    }
});
