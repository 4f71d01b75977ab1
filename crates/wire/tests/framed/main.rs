//! Framed TCP against a scripted peer: every split of the bytes, and a plain reference.

use proptest::prelude::*;
use wallfinder_wire::framed::{self, ById, Format, InTurn, Options, Request, Shared};
use wallfinder_wire::{Answer, Outcome, Wire, WireError};

mod credit;
mod peer;
mod reference;

use peer::{issue, play, shared};
use reference::reference;

/// What a new connection makes of these bytes, the same at every split of them.
fn at_every_split<W: Wire<Shared = Shared>>(
    shared: &mut Shared,
    requests: u32,
    bytes: &[u8],
) -> Vec<Outcome> {
    let mut run = |pieces: Vec<&[u8]>| {
        let mut wire = W::open(shared);
        issue(&mut wire, shared, requests);
        play(&mut wire, shared, pieces, true)
    };
    let whole = run(vec![bytes]);
    for at in 0..=bytes.len() {
        assert_eq!(
            run(vec![&bytes[..at], &bytes[at..]]),
            whole,
            "split at {at}"
        );
    }
    assert_eq!(run(bytes.chunks(1).collect()), whole, "byte by byte");
    whole
}

fn answered(slot: u32, wire_bytes: u64, body_bytes: u64) -> Outcome {
    Outcome::Answered(Answer {
        slot,
        status: Answer::NO_STATUS,
        wire_bytes,
        body_bytes,
        decoded_bytes: 0,
        reusable: true,
        is_last: false,
        call: None,
        judged: wallfinder_wire::Judged::ByStatus,
        redirects: None,
    })
}

fn broken(slot: Option<u32>, error: WireError) -> Outcome {
    Outcome::Broken { slot, error }
}

#[test]
fn requests_are_framed_as_the_format_says() {
    for (format, frame) in [
        ("u8", &b"\x03abc"[..]),
        ("u16be", b"\x00\x03abc"),
        ("u16le", b"\x03\x00abc"),
        ("u32be", b"\x00\x00\x00\x03abc"),
        ("u32le,inclusive", b"\x07\x00\x00\x00abc"),
        ("u64be", b"\x00\x00\x00\x00\x00\x00\x00\x03abc"),
    ] {
        let shared = shared(format, b"abc", 2);
        let mut wire = InTurn::open(&shared);
        let (slots, bytes) = issue(&mut wire, &shared, 5);
        assert_eq!(slots, [0, 1]);
        assert_eq!(bytes, frame.repeat(2), "{format}");
    }
}

#[test]
fn answers_come_in_turn() {
    let mut shared = shared("u16be", b"ping", 4);
    let seen = at_every_split::<InTurn>(&mut shared, 3, b"\0\x04pong\0\x01x\0\x02yz");
    assert_eq!(
        seen,
        [answered(0, 6, 4), answered(1, 3, 1), answered(2, 4, 2)]
    );
}

#[test]
fn a_length_of_zero_or_above_the_limit_is_refused_before_its_message() {
    for (format, bytes) in [
        ("u32be", &b"\0\0\0\0"[..]),
        ("u32be", b"\xff\xff\xff\xff"),
        ("u32be,max=8", b"\0\0\0\x09"),
        ("u16be,inclusive", b"\0\x02"),
        ("u16be,inclusive", b"\0\x01"),
        ("u64le", b"\xff\xff\xff\xff\xff\xff\xff\xff"),
    ] {
        let mut shared = shared(format, b"ping", 2);
        let seen = at_every_split::<InTurn>(&mut shared, 2, bytes);
        assert_eq!(seen, [broken(Some(0), WireError::FrameLength)], "{format}");
    }
    let mut shared = shared("u16be,id=u32be@0", b"ping", 2);
    let seen = at_every_split::<ById>(&mut shared, 2, b"\0\x03abc");
    assert_eq!(seen, [broken(None, WireError::FrameLength)]);
}

#[test]
fn a_frame_that_nobody_asked_for_is_no_answer() {
    let mut shared = shared("u8", b"p", 2);
    let seen = at_every_split::<InTurn>(&mut shared, 1, b"\x01a\x01b");
    assert_eq!(
        seen,
        [answered(0, 2, 1), broken(None, WireError::FrameUnmatched)]
    );
}

#[test]
fn an_answer_that_ends_early_is_truncated() {
    let mut shared = shared("u16be", b"ping", 2);
    let seen = at_every_split::<InTurn>(&mut shared, 2, b"\0\x01a\0\x04pon");
    assert_eq!(
        seen,
        [
            answered(0, 3, 1),
            broken(Some(1), WireError::FrameTruncated)
        ]
    );
}

#[test]
fn ids_tell_answers_apart_in_any_order() {
    let mut shared = shared("u8,id=u16be@1", b"a__z", 3);
    let mut wire = ById::open(&shared);
    let (slots, bytes) = issue(&mut wire, &shared, 3);
    assert_eq!(bytes, b"\x04a\0\0z\x04a\0\x01z\x04a\0\x02z");
    assert_eq!(slots, [0, 1, 2]);
    let seen = play(
        &mut wire,
        &mut shared,
        [&b"\x03r\0\x02\x04r\0\0!"[..]],
        false,
    );
    assert_eq!(seen, [answered(2, 4, 3), answered(0, 5, 4)]);
    // Slots are used again with other ids: two bits of each are the slot's.
    let (slots, bytes) = issue(&mut wire, &shared, 2);
    assert_eq!(slots, [0, 2]);
    assert_eq!(bytes, b"\x04a\0\x04z\x04a\0\x06z");
}

#[test]
fn an_unknown_or_repeated_id_ends_the_connection_once() {
    for (bytes, answers) in [
        (&b"\x02\0\x07"[..], 0),
        (b"\x02\0\0\x02\0\0\x02\0\x01", 1),
        (b"\x02\0\x03", 0),
    ] {
        let mut shared = shared("u8,id=u16be@0", b"__", 3);
        let seen = at_every_split::<ById>(&mut shared, 2, bytes);
        assert_eq!(seen.len(), answers + 1, "{bytes:?}");
        assert_eq!(seen[answers], broken(None, WireError::FrameUnmatched));
    }
}

#[test]
fn requests_longer_than_a_buffer_are_written_in_order() {
    let mut shared = shared("u32be,id=u32be@0", &[7; 5000], 64);
    let mut wire = ById::open(&shared);
    let (slots, bytes) = issue(&mut wire, &shared, 64);
    assert_eq!(slots.len(), 64);
    let frames: Vec<&[u8]> = bytes.chunks(5004).collect();
    assert_eq!(frames.len(), 64);
    for (slot, frame) in frames.iter().enumerate() {
        assert_eq!(frame[4..8], (slot as u32).to_be_bytes());
    }
    let seen = play(&mut wire, &mut shared, frames.iter().rev().copied(), true);
    assert_eq!(seen.len(), 64);
}

#[test]
fn what_cannot_be_framed_is_refused() {
    let try_with = |format: &str, message: &[u8], in_flight_max| {
        let request = Request {
            format: format.parse().unwrap(),
            message: message.to_vec(),
        };
        let options = Options {
            in_flight_max,
            connection_per_request: false,
        };
        Shared::new(&request, options).unwrap_err().to_string()
    };
    assert!(try_with("u32be", b"", 1).contains("needs 1 at least"));
    assert!(try_with("u32be,id=u32be@2", b"12345", 1).contains("needs 6 at least"));
    assert!(try_with("u8", &[0; 256], 1).contains("says 255 at most"));
    assert!(try_with("u8,inclusive", &[0; 255], 1).contains("says 254 at most"));
    assert!(try_with("u16be,id=u8@0", b"x", 257).contains("257 requests"));
}

#[test]
fn a_connection_per_request_carries_one() {
    let request = Request {
        format: "u8".parse().unwrap(),
        message: b"p".to_vec(),
    };
    let options = Options {
        in_flight_max: 8,
        connection_per_request: true,
    };
    let mut shared = Shared::new(&request, options).unwrap();
    let mut wire = InTurn::open(&shared);
    let (slots, _) = issue(&mut wire, &shared, 8);
    assert_eq!(slots, [0]);
    let seen = play(&mut wire, &mut shared, [&b"\x01a"[..]], false);
    assert!(matches!(
        seen[..],
        [Outcome::Answered(Answer {
            reusable: false,
            is_last: false,
            ..
        })]
    ));
    assert_eq!(wire.room(&shared), 0);
    wire.reset(&shared);
    assert_eq!(wire.room(&shared), 1);
}

fn any_format() -> impl Strategy<Value = Format> {
    let length = prop::sample::select(vec!["u8", "u16be", "u16le", "u32be", "u32le", "u64le"]);
    (length, any::<bool>(), 10_u64..300).prop_map(|(length, inclusive, max)| {
        let inclusive = if inclusive { ",inclusive" } else { "" };
        format!("{length}{inclusive},max={max}").parse().unwrap()
    })
}

proptest! {
    #[test]
    fn any_stream_reads_as_the_reference_reads_it(
        format in any_format(),
        lengths in prop::collection::vec(1_usize..40, 0..12),
        noise in prop::collection::vec(any::<u8>(), 0..6),
        cuts in prop::collection::vec(1_usize..50, 1..40),
    ) {
        let mut bytes = Vec::new();
        for length in lengths {
            let message = vec![b'm'; length];
            let request = Request { format, message };
            if let Ok(frame) = framed::encode(&request) {
                bytes.extend(frame);
            }
        }
        bytes.extend(noise);
        let mut pieces = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts.into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        let requests = 8;
        let request = Request { format, message: b"ping".to_vec() };
        let options = Options { in_flight_max: requests, connection_per_request: false };
        let mut shared = Shared::new(&request, options).unwrap();
        let mut wire = InTurn::open(&shared);
        issue(&mut wire, &shared, requests);
        let seen = play(&mut wire, &mut shared, pieces, true);
        let (messages, error) = reference(&format, &bytes, requests as usize);
        let answers = seen.iter().filter_map(|outcome| match outcome {
            Outcome::Answered(answer) => Some(answer.body_bytes),
            _ => None,
        });
        prop_assert_eq!(answers.collect::<Vec<_>>(), messages);
        let broke = seen.iter().find_map(|outcome| match outcome {
            Outcome::Broken { error, .. } => Some(*error),
            _ => None,
        });
        prop_assert_eq!(broke, error);
    }
}
