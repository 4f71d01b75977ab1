//! Credit, as the receiver grants it: `docs/framed-credit.md`.

use wallfinder_wire::framed::{InTurn, Shared};
use wallfinder_wire::{Wire, WireError};

use crate::peer::{issue, play, sent, shared};
use crate::{answered, broken};

const FORMAT: &str = "u32be,credit";
const FIRST: [u8; 4] = [0x80, 0, 0, 0];

fn grant(bytes: u32) -> [u8; 4] {
    (1 << 31 | bytes).to_be_bytes()
}

/// A connection that was granted so much, with requests of ten bytes issued, and what was
/// sent of them.
fn begun(shared: &mut Shared, granted: u32, requests: u32) -> (InTurn, Vec<u8>) {
    let mut wire = InTurn::open(shared);
    let seen = play(&mut wire, shared, [&grant(granted)[..]], false);
    assert!(seen.is_empty(), "{seen:?}");
    let (_, sent) = issue(&mut wire, shared, requests);
    (wire, sent)
}

#[test]
fn only_as_much_is_sent_as_is_granted() {
    let mut shared = shared(FORMAT, b"0123456789", 4);
    let mut wire = InTurn::open(&shared);
    let (slots, bytes) = issue(&mut wire, &shared, 2);
    assert_eq!(
        (slots.len(), &bytes[..]),
        (2, &b""[..]),
        "nothing was granted"
    );
    assert!(wire.is_flow_blocked(0) && wire.is_flow_blocked(1) && !wire.is_flow_blocked(2));
    for (granted, expected) in [
        (0, &b"\0\0\0\x0a"[..]),
        (3, b"012"),
        (7, b"3456789\0\0\0\x0a"),
        (100, b"0123456789"),
    ] {
        let seen = play(&mut wire, &mut shared, [&grant(granted)[..]], false);
        assert!(seen.is_empty(), "{seen:?}");
        assert_eq!(sent(&mut wire, &shared), expected, "{granted}");
    }
    assert!(!wire.is_flow_blocked(0) && !wire.is_flow_blocked(1));
    // What is left does for the next: nine whole messages.
    assert_eq!(issue(&mut wire, &shared, 2).1.len(), 28);
}

#[test]
fn a_request_that_waits_for_credit_is_told_from_one_that_waits_for_its_answer() {
    let mut shared = shared(FORMAT, b"0123456789", 4);
    let (mut wire, bytes) = begun(&mut shared, 15, 3);
    assert_eq!(bytes.len(), 14 + 4 + 5);
    assert_eq!(
        [0, 1, 2].map(|slot| wire.is_flow_blocked(slot)),
        [false, true, true]
    );
    let seen = play(&mut wire, &mut shared, [&b"\0\0\0\x01a"[..]], false);
    assert_eq!(seen, [answered(0, 5, 1)]);
    assert_eq!([1, 2].map(|slot| wire.is_flow_blocked(slot)), [true, true]);
    play(&mut wire, &mut shared, [&grant(5)[..]], false);
    sent(&mut wire, &shared);
    assert_eq!([1, 2].map(|slot| wire.is_flow_blocked(slot)), [false, true]);
}

#[test]
fn grants_stand_between_answers_at_every_split() {
    let mut shared = shared(FORMAT, b"0123456789", 4);
    let bytes = [
        &grant(10)[..],
        b"\0\0\0\x04pong",
        &grant(1),
        &grant(2),
        b"\0\0\0\x01x",
        &grant(9),
    ];
    let bytes = bytes.concat();
    let mut run = |pieces: Vec<&[u8]>| {
        let (mut wire, _) = begun(&mut shared, 30, 3);
        let seen = play(&mut wire, &mut shared, pieces, false);
        // Of 10 + 1 + 2 + 9, the next request takes ten.
        assert_eq!(issue(&mut wire, &shared, 2).1.len(), 28);
        seen
    };
    let whole = vec![answered(0, 8, 4), answered(1, 5, 1)];
    for at in 0..=bytes.len() {
        assert_eq!(
            run(vec![&bytes[..at], &bytes[at..]]),
            whole,
            "split at {at}"
        );
    }
    assert_eq!(run(bytes.chunks(1).collect()), whole);
}

#[test]
fn what_is_no_credit_ends_the_connection() {
    let none = |error| vec![broken(None, error)];
    for (bytes, expected) in [
        (&b"\0\0\0\x01a"[..], none(WireError::FrameCredit)),
        (b"\0\0\0\0", none(WireError::FrameCredit)),
        (&[FIRST, FIRST].concat(), none(WireError::FrameCredit)),
        (
            &[grant(u32::MAX >> 1), grant(100)].concat(),
            none(WireError::FrameCredit),
        ),
        (
            &[&FIRST[..], b"\0\0\0\x01a"].concat(),
            none(WireError::FrameUnmatched),
        ),
        (
            &[&grant(9)[..], b"\0\0\0\x05"].concat(),
            none(WireError::FrameUnmatched),
        ),
    ] {
        let mut shared = shared(FORMAT, b"0123456789", 2);
        for pieces in [vec![bytes], bytes.chunks(1).collect()] {
            let mut wire = InTurn::open(&shared);
            issue(&mut wire, &shared, 1);
            let mut seen = Vec::new();
            for piece in pieces {
                seen.extend(play(&mut wire, &mut shared, [piece], false));
                sent(&mut wire, &shared);
            }
            assert_eq!(seen, expected, "{bytes:x?}");
        }
    }
    let mut shared = shared(FORMAT, b"0123456789", 2);
    let (mut wire, _) = begun(&mut shared, 10, 1);
    let seen = play(&mut wire, &mut shared, [&b"\x7f\xff\xff\xff"[..]], false);
    assert_eq!(seen, [broken(Some(0), WireError::FrameLength)]);
}

#[test]
fn a_stream_that_ends_inside_a_grant_is_truncated() {
    let mut shared = shared(FORMAT, b"0123456789", 2);
    for (requests, slot) in [(0, None), (1, Some(0))] {
        let (mut wire, _) = begun(&mut shared, 10, requests);
        let seen = play(&mut wire, &mut shared, [&b"\x80\0"[..]], true);
        assert_eq!(seen, [broken(slot, WireError::FrameTruncated)]);
    }
    let (mut wire, _) = begun(&mut shared, 10, 1);
    let seen = play(&mut wire, &mut shared, [&grant(5)[..]], true);
    assert!(seen.is_empty(), "between frames a stream may end: {seen:?}");
}
