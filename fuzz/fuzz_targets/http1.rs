//! An HTTP/1 peer that says anything: no panic, no bytes left lying, and the outcomes of
//! the reference decoder whatever the split and the memo.
//!
//! ```text
//!   byte   0        1      2      3      4       5        6…11            12…
//!          options  depth  issue  caps   caps    decoded  3 cuts (u16)    what the peer says
//! ```
//!
//! The fixed start lets a seed be a readable script behind twelve bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wallfinder_wire::Decode;
use wallfinder_wire::http1::Options;

#[path = "../../crates/wire/tests/http1/peer.rs"]
mod peer;
#[path = "../../crates/wire/tests/http1/reference.rs"]
mod reference;

use peer::Case;

fuzz_target!(|data: &[u8]| {
    let Some((start, script)) = data.split_first_chunk::<12>() else {
        return;
    };
    let (case, eof) = case_of(start);
    let cut_at = |n: usize| usize::from(u16::from_le_bytes([start[n], start[n + 1]]));
    let pieces = peer::cut(script, &[cut_at(6), cut_at(8), cut_at(10)]);

    let expected = reference::decode(&case, script, eof);
    let mut shared = case.shared();
    let cold = peer::play(&mut shared, &case, pieces.clone(), eof);
    assert_eq!(cold, expected, "in pieces, cold");
    let warm = peer::play(&mut shared, &case, [script], eof);
    assert_eq!(warm, expected, "whole, warm");
    let warm = peer::play(&mut shared, &case, pieces, eof);
    assert_eq!(warm, expected, "in pieces, warm");
    let single = peer::play(&mut shared, &case, script.chunks(1), eof);
    assert_eq!(single, expected, "byte by byte");
});

/// The client's side, with bounds that a short script can reach.
fn case_of(start: &[u8; 12]) -> (Case, bool) {
    let flag = |bit: u8| start[0] & 1 << bit != 0;
    let low = |n: usize| u32::from(start[n] & 15);
    let high = |n: usize| u32::from(start[n] >> 4);
    let defaults = Options::default();
    let options = Options {
        in_flight_max: 1 + low(1),
        connection_per_request: flag(2),
        head_bytes_max: match high(3) {
            0 => defaults.head_bytes_max,
            n => 64 + 16 * n as usize,
        },
        head_fields_max: match low(3) {
            0 => defaults.head_fields_max,
            n => n,
        },
        interim_max: high(1),
        chunk_extension_bytes_max: match low(4) {
            0 => defaults.chunk_extension_bytes_max,
            n => n,
        },
        trailer_bytes_max: match high(4) {
            0 => defaults.trailer_bytes_max,
            n => 2 * n,
        },
        decode: match (flag(3), flag(4)) {
            (false, _) => Decode::None,
            (true, false) => Decode::Inflate,
            (true, true) => Decode::Check,
        },
        decoded_bytes_max: u64::from(start[5]) * 16,
        paddings: Vec::new(),
    };
    let case = Case {
        method: if flag(1) { "HEAD" } else { "GET" },
        options,
        requests: u32::from(start[2] & 31),
    };
    (case, flag(0))
}
