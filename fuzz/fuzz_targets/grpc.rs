//! A gRPC peer that says anything: a body in any frames comes to what the reference makes of
//! it, and any bytes at all to the same whole, in pieces and byte by byte.
//!
//! ```text
//!   0       1        2         3          4 .. 8         8 ..
//!   flags   status   limit     paddings   2 cuts (u16)   a body, or all that the peer says
//! ```

#![no_main]

use libfuzzer_sys::fuzz_target;
use wallfinder_wire::grpc::Kind;
use wallfinder_wire::{Outcome, WireError};

#[allow(dead_code)]
#[path = "../../crates/wire/tests/http2/peer.rs"]
mod peer;
#[path = "../../crates/wire/tests/grpc/reference.rs"]
mod reference;
#[allow(dead_code)]
#[path = "../../crates/wire/tests/grpc/script.rs"]
mod script;

use peer::{Case, Seen};

fuzz_target!(|data: &[u8]| {
    let Some((start, rest)) = data.split_first_chunk::<8>() else {
        return;
    };
    let flag = |bit: u8| start[0] & 1 << bit != 0;
    let kind = Kind::of(flag(0), flag(1));
    let bytes_max = u32::from(start[2]);
    let mut case = script::calls(kind, 1 + u32::from(start[0] >> 6));
    case.options.in_flight_max = 1 + u32::from(flag(5));
    if let Some(call) = &mut case.call {
        call.message_bytes_max = bytes_max;
    }
    let cuts = [4, 6].map(|at| usize::from(u16::from_le_bytes([start[at], start[at + 1]])));
    if flag(2) {
        played(&case, rest, cuts, flag(3));
        return;
    }
    case.requests = 1;
    let seen = played(&case, &answer(rest, cuts, start[3], start[1]), cuts, flag(3));
    check(&case, rest, bytes_max, kind, start[1], &seen);
});

/// The same, whatever the pieces.
fn played(case: &Case, script: &[u8], cuts: [usize; 2], eof: bool) -> Seen {
    let whole = peer::play(case, [script], eof);
    let single = peer::play(case, script.chunks(1), eof);
    assert_eq!(single, whole, "byte by byte");
    let pieces = cut(script, cuts);
    assert_eq!(peer::play(case, pieces, eof), whole, "in pieces");
    whole
}

fn cut(bytes: &[u8], at: [usize; 2]) -> [&[u8]; 3] {
    let at = at.map(|at| at % (bytes.len() + 1));
    let (from, to) = (at[0].min(at[1]), at[0].max(at[1]));
    [&bytes[..from], &bytes[from..to], &bytes[to..]]
}

/// A body in three frames, some of them padded, and a status.
fn answer(body: &[u8], cuts: [usize; 2], paddings: u8, status: u8) -> Vec<u8> {
    let mut answer = script::head(1);
    for (at, piece) in cut(body, cuts).into_iter().enumerate() {
        for frame in piece.chunks(16_000) {
            answer.extend(match paddings >> (2 * at) & 3 {
                0 => script::data(1, frame),
                padding => script::padded(0, 1, frame, 37 * (padding - 1)),
            });
        }
    }
    answer.extend(script::status(1, &status.to_string()));
    answer
}

fn check(case: &Case, body: &[u8], bytes_max: u32, kind: Kind, status: u8, seen: &Seen) {
    assert_eq!(seen.outcomes.len(), 1, "{case:?}");
    let read = reference::messages(body, bytes_max);
    let fails = |error| Outcome::Failed { slot: 0, error };
    let Some((count, inside)) = read else {
        assert_eq!(seen.outcomes[0], fails(WireError::GrpcFrame));
        return;
    };
    match seen.outcomes[0] {
        Outcome::Answered(answer) => {
            let call = answer.call.expect("it is a call");
            assert_eq!((call.messages, call.error.is_none()), (count, status == 0));
            let is_one = kind.server_streams() || count == 1;
            assert!(status > 0 || (!inside && is_one));
        }
        failed if inside => assert_eq!(failed, fails(WireError::GrpcFrame)),
        failed => assert_eq!(failed, fails(WireError::GrpcMessages)),
    }
}
