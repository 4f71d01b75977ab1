//! Any bytes of an HTTP/2 peer: the same outcomes, and the same frames in answer, whole, in
//! pieces and byte by byte.
//!
//! ```text
//!   0       1         2         3       4 .. 8          8 ..
//!   flags   streams   requests  caps    2 cuts (u16)    what the peer says
//! ```

#![no_main]

use libfuzzer_sys::fuzz_target;
use wallfinder_wire::Decode;
use wallfinder_wire::http2::Options;

#[allow(dead_code)]
#[path = "../../crates/wire/tests/http2/peer.rs"]
mod peer;

use peer::Case;

fuzz_target!(|data: &[u8]| {
    let Some((start, script)) = data.split_first_chunk::<8>() else {
        return;
    };
    let (case, eof) = case_of(start);
    let whole = peer::play(&case, [script], eof);
    let single = peer::play(&case, script.chunks(1), eof);
    assert_eq!(single, whole, "byte by byte");
    let cut_at = |n: usize| {
        let at = usize::from(u16::from_le_bytes([start[n], start[n + 1]]));
        at % (script.len() + 1)
    };
    let (from, to) = (cut_at(4).min(cut_at(6)), cut_at(4).max(cut_at(6)));
    let pieces = [&script[..from], &script[from..to], &script[to..]];
    let cut = peer::play(&case, pieces, eof);
    assert_eq!(cut, whole, "cut at {from} and {to}");
});

/// The client's side, with bounds that a short script can reach.
fn case_of(start: &[u8; 8]) -> (Case, bool) {
    let flag = |bit: u8| start[0] & 1 << bit != 0;
    let in_flight_max = 1 + u32::from(start[1] & 7);
    let requests_left = u32::from(start[1] >> 4);
    let few = flag(5);
    let options = Options {
        in_flight_max,
        requests_max: if requests_left == 0 { 1 << 30 } else { requests_left },
        stream_window_bytes: if few { 100 } else { 1 << 20 },
        connection_window_bytes: if few { 65_535 } else { 1 << 24 },
        head_bytes_max: if few { 300 } else { 300 * 1024 },
        head_fields_max: if few { 5 } else { 5000 },
        continuations_max: u32::from(start[3] & 15),
        interim_max: 3,
        idle_frames_max: 1 + u32::from(start[3] >> 4),
        is_https: flag(4),
        decode: match (flag(6), flag(7)) {
            (false, _) => Decode::None,
            (true, false) => Decode::Inflate,
            (true, true) => Decode::Check,
        },
        decoded_bytes_max: if few { 100 } else { 1 << 20 },
    };
    let case = Case {
        method: if flag(1) { "HEAD" } else { "POST" },
        body: vec![b'b'; if flag(2) { 70_000 } else { 0 }],
        options,
        requests: u32::from(start[2]),
        settings: flag(3).then(|| vec![(3, 100), (4, 1000)]),
        call: None,
    };
    (case, flag(0))
}
