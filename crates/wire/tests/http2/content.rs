//! Coded bodies over HTTP/2: decoded stream by stream, where it is asked.

use proptest::prelude::*;
use wallfinder_wire::http2::{ErrorCode, FrameKind};
use wallfinder_wire::{Decode, Outcome, WireError};

use crate::coded::{brotli, encode, text};
use crate::peer::{
    Case, END_STREAM, OK, PADDED, Seen, data, frame, headers, literal, play, play_all,
};

const CODINGS: [&str; 4] = ["gzip", "deflate", "br", "zstd"];

fn decoding(decode: Decode, requests: u32) -> Case {
    let mut case = Case::at_once(requests);
    case.options.decode = decode;
    case.options.decoded_bytes_max = 1 << 20;
    case
}

fn head(flags: u8, stream: u32, coding: &str) -> Vec<u8> {
    let block = [OK, &literal("content-encoding", coding)].concat();
    headers(flags, stream, &block)
}

/// An answer in pieces of DATA.
fn answer(stream: u32, coding: &str, body: &[u8], piece: usize) -> Vec<Vec<u8>> {
    let mut frames = vec![head(0, stream, coding)];
    frames.extend(body.chunks(piece).map(|piece| data(0, stream, piece)));
    frames.push(data(END_STREAM, stream, b""));
    frames
}

/// Slot and decoded bytes of each answer, or the class of its failure.
fn ends(seen: &Seen) -> Vec<(u32, Result<u64, WireError>)> {
    let end = |outcome: &Outcome| match outcome {
        Outcome::Answered(answer) => (answer.slot, Ok(answer.decoded_bytes)),
        Outcome::Failed { slot, error } => (*slot, Err(*error)),
        other => panic!("{other:?}"),
    };
    seen.outcomes.iter().map(end).collect()
}

#[test]
fn interleaved_bodies_are_decoded_each_by_itself() {
    let mut streams: Vec<_> = CODINGS
        .iter()
        .enumerate()
        .map(|(index, coding)| {
            let body = encode(coding, &text(4000 + index, 9));
            answer(2 * index as u32 + 1, coding, &body, 300).into_iter()
        })
        .collect();
    let mut script = Vec::new();
    while streams.iter().any(|stream| stream.len() > 0) {
        for stream in &mut streams {
            script.extend(stream.next().unwrap_or_default());
        }
    }
    let seen = play(&decoding(Decode::Inflate, 4), [&script[..]], false);
    let mut decoded = ends(&seen);
    decoded.sort_by_key(|(slot, _)| *slot);
    let expected: Vec<_> = (0..4).map(|n| (n, Ok(4000 + u64::from(n)))).collect();
    assert_eq!(decoded, expected);
    let single = play(&decoding(Decode::Inflate, 4), script.chunks(1), false);
    assert_eq!(single, seen);

    let unasked = play(&decoding(Decode::None, 4), [&script[..]], false);
    assert!(ends(&unasked).iter().all(|(_, end)| *end == Ok(0)));
}

#[test]
fn a_broken_body_fails_alone_and_its_stream_is_reset() {
    for coding in CODINGS {
        let sound = encode(coding, &text(2000, 5));
        let mut corrupt = sound.clone();
        corrupt.truncate(sound.len() / 2);
        corrupt.extend([0xff; 40]);
        for (broken, padded) in [(&corrupt[..], true), (&sound[..sound.len() - 3], false)] {
            let mut script = head(0, 1, coding);
            script.extend(head(0, 3, coding));
            if padded {
                let body = [&[9][..], broken, &[0; 9]].concat();
                script.extend(frame(FrameKind::DATA, PADDED, 1, &body));
            } else {
                script.extend(data(0, 1, broken));
            }
            script.extend(data(END_STREAM, 1, b""));
            script.extend(data(END_STREAM, 3, &sound));
            let seen = play_all(&decoding(Decode::Inflate, 2), &script, false);
            let expected = [(0, Err(WireError::BodyDecode)), (1, Ok(2000))];
            assert_eq!(ends(&seen), expected, "{coding}");
            assert_eq!(seen.resets(), [(1, ErrorCode::Cancel)]);
            let fault = seen.fault.expect("it is kept in words");
            assert_eq!(fault.error, WireError::BodyDecode);
        }
    }
}

#[test]
fn codings_that_are_not_known_or_several_fail_where_there_is_a_body() {
    let two_lines = [
        OK,
        &literal("content-encoding", "gzip"),
        &literal("content-encoding", "br"),
    ]
    .concat();
    for block in [
        [OK, &literal("content-encoding", "compress")].concat(),
        [OK, &literal("content-encoding", "gzip, br")].concat(),
        [OK, &literal("content-encoding", " gzip")].concat(),
        two_lines,
    ] {
        let case = decoding(Decode::Inflate, 1);
        let with = |frames: &[Vec<u8>]| play_all(&case, &frames.concat(), false);
        let body = with(&[headers(0, 1, &block), data(END_STREAM, 1, b"x")]);
        assert_eq!(ends(&body), [(0, Err(WireError::BodyDecode))]);
        let empty = with(&[headers(0, 1, &block), data(END_STREAM, 1, b"")]);
        assert_eq!(ends(&empty), [(0, Ok(0))]);
        let none = with(&[headers(END_STREAM, 1, &block)]);
        assert_eq!(ends(&none), [(0, Ok(0))]);
    }
}

#[test]
fn trailers_may_end_a_coded_body_and_heads_alone_have_none() {
    let trailers = headers(END_STREAM, 1, &literal("x-sum", "1"));
    let body = brotli(b"hello");
    let case = decoding(Decode::Inflate, 1);
    for (len, expected) in [
        (body.len(), Ok(5)),
        (body.len() - 1, Err(WireError::BodyDecode)),
    ] {
        let script = [head(0, 1, "br"), data(0, 1, &body[..len]), trailers.clone()].concat();
        assert_eq!(ends(&play_all(&case, &script, false)), [(0, expected)]);
    }
    let case = Case {
        method: "HEAD",
        ..case
    };
    let seen = play_all(&case, &head(END_STREAM, 1, "br"), false);
    assert_eq!(ends(&seen), [(0, Ok(0))]);
}

#[test]
fn a_check_goes_on_until_a_body_is_sound_and_looks_at_one_at_a_time() {
    let (sound, broken) = (brotli(b"hello"), [0xff; 8]);
    let whole = |stream, body: &[u8]| answer(stream, "br", body, 100).concat();
    let case = decoding(Decode::Check, 5);
    let script = [
        whole(1, &broken),
        // Begins while another is looked at.
        head(0, 3, "br"),
        head(0, 5, "br"),
        data(END_STREAM, 5, &broken),
        data(END_STREAM, 3, &sound),
        whole(7, &broken),
        whole(9, &sound),
    ]
    .concat();
    let seen = play_all(&case, &script, false);
    let mut ends = ends(&seen);
    ends.sort_by_key(|(slot, _)| *slot);
    let expected = [
        (0, Err(WireError::BodyDecode)),
        (1, Ok(5)),
        (2, Ok(0)),
        (3, Ok(0)),
        (4, Ok(0)),
    ];
    assert_eq!(ends, expected);
}

#[test]
fn a_bomb_is_capped() {
    for coding in CODINGS {
        let body = encode(coding, &vec![0; (1 << 20) + 1]);
        let script = answer(1, coding, &body, 1000).concat();
        let seen = play(&decoding(Decode::Inflate, 1), [&script[..]], false);
        assert_eq!(ends(&seen), [(0, Err(WireError::BodyDecode))], "{coding}");
    }
}

proptest! {
    #[test]
    fn damaged_bodies_mean_the_same_however_they_are_cut(
        coding in proptest::sample::select(CODINGS.to_vec()),
        len in 0..50_000_usize,
        piece in 1..20_000_usize,
        seed in any::<u64>(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in any::<prop::sample::Index>(),
        checks in any::<bool>(),
    ) {
        let mut body = encode(coding, &text(len, seed));
        for (at, byte) in damage {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let piece = piece.min(16_000);
        let first = answer(1, coding, &body, piece);
        let second = answer(3, coding, &encode(coding, b"hello"), 5);
        let mut script = Vec::new();
        let (mut first, mut second) = (first.into_iter(), second.into_iter());
        while first.len() + second.len() > 0 {
            script.extend(first.next().unwrap_or_default());
            script.extend(second.next().unwrap_or_default());
        }
        let decode = if checks { Decode::Check } else { Decode::Inflate };
        let case = decoding(decode, 2);
        let whole = play(&case, [&script[..]], false);
        prop_assert_eq!(whole.outcomes.len(), 2);
        let (one, two) = script.split_at(cut.index(script.len() + 1));
        prop_assert_eq!(&play(&case, [one, two], false), &whole);
        prop_assert_eq!(&play(&case, script.chunks(1), false), &whole);
    }
}
