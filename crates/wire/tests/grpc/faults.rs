//! What a hostile peer says in place of a gRPC answer: rows 27 and 28 of the faults, and what
//! stands beside them. Each script is played whole, byte by byte, and cut in two at every
//! place; the bodies are cut into frames at every place as well.

use wallfinder_wire::grpc::{Call, Kind, MESSAGE_BYTES_MAX};
use wallfinder_wire::http2::ErrorCode;
use wallfinder_wire::{Answer, Outcome, WireError};

use crate::peer::{self, Case, END_STREAM, OK, literal, play_all};
use crate::script::{
    calls, data, every_two_frames, head, head_of, message, padded, prefixed, status, trailers,
};

fn call(messages: u32, error: Option<WireError>) -> Call {
    Call { messages, error }
}

/// Plays an answer to the first of two calls, and a good one to the second: whatever became
/// of the first, the connection goes on. Gives the first outcome.
#[track_caller]
fn first_of_two(case: &Case, script: &[u8]) -> (Outcome, Vec<(u32, ErrorCode)>) {
    let good = [head(3), data(3, &message(b"ok")), status(3, "0")].concat();
    let seen = play_all(case, &[script, &good].concat(), false);
    assert_eq!(seen.outcomes.len(), 2, "{:?}", seen.outcomes);
    assert_eq!(call_of(&seen.outcomes[1]), call(1, None));
    (seen.outcomes[0], seen.resets())
}

#[track_caller]
fn call_of(outcome: &Outcome) -> Call {
    match outcome {
        Outcome::Answered(Answer { call, .. }) => call.expect("it is a call"),
        other => panic!("{other:?}"),
    }
}

/// An answer of one call that fails it alone, the peer being told.
#[track_caller]
fn assert_fails(case: &Case, script: &[u8], expected: WireError) {
    let (outcome, resets) = first_of_two(case, script);
    match outcome {
        Outcome::Failed { slot: 0, error } => assert_eq!(error, expected),
        other => panic!("{other:?}"),
    }
    assert_eq!(resets, [(1, ErrorCode::Cancel)]);
}

#[test]
fn a_good_answer_is_one_however_it_is_framed() {
    let body = message(b"hello");
    for framed in every_two_frames(1, &body) {
        let script = [head(1), framed, status(1, "0")].concat();
        let (outcome, resets) = first_of_two(&calls(Kind::Unary, 2), &script);
        let Outcome::Answered(answer) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!((answer.status, answer.body_bytes), (200, 5));
        assert_eq!(answer.call, Some(call(1, None)));
        assert_eq!(answer.wire_bytes as usize, script.len());
        assert!(answer.reusable && resets.is_empty());
    }
}

#[test]
fn every_kind_of_call_counts_the_messages_of_its_answer() {
    for (kind, may) in [
        (Kind::Unary, [false, true, false]),
        (Kind::ClientStreaming, [false, true, false]),
        (Kind::ServerStreaming, [true; 3]),
        (Kind::Bidirectional, [true; 3]),
    ] {
        for (count, may) in (0_u32..).zip(may) {
            let body = message(b"abc").repeat(count as usize);
            let script = [head(1), data(1, &body), status(1, "0")].concat();
            if may {
                let (outcome, _) = first_of_two(&calls(kind, 2), &script);
                assert_eq!(call_of(&outcome), call(count, None));
            } else {
                assert_fails(&calls(kind, 2), &script, WireError::GrpcMessages);
            }
        }
    }
}

#[test]
fn an_empty_message_is_a_message() {
    let script = [head(1), data(1, &message(b"")), status(1, "0")].concat();
    let (outcome, _) = first_of_two(&calls(Kind::Unary, 2), &script);
    assert_eq!(call_of(&outcome), call(1, None));
}

#[test]
fn a_length_above_the_limit_fails_the_call() {
    let mut narrow = calls(Kind::ServerStreaming, 2);
    if let Some(call) = &mut narrow.call {
        call.message_bytes_max = 3;
    }
    for (case, body) in [
        (
            &calls(Kind::Unary, 2),
            prefixed(0, MESSAGE_BYTES_MAX + 1, b""),
        ),
        (&calls(Kind::Unary, 2), prefixed(0, u32::MAX, b"xyz")),
        (&narrow, prefixed(0, 4, b"four")),
        (&narrow, [message(b"abc"), prefixed(0, 4, b"four")].concat()),
    ] {
        for framed in every_two_frames(1, &body) {
            let script = [head(1), framed, status(1, "0")].concat();
            assert_fails(case, &script, WireError::GrpcFrame);
        }
    }
}

#[test]
fn a_length_at_the_limit_is_waited_for() {
    let body = prefixed(0, MESSAGE_BYTES_MAX, b"some of it");
    let script = [head(1), data(1, &body)].concat();
    let seen = play_all(&calls(Kind::Unary, 1), &script, false);
    assert_eq!((seen.outcomes.len(), seen.in_flight), (0, 1));
}

#[test]
fn a_compression_flag_fails_the_call() {
    for flag in [1, 2, 0x80, 0xff] {
        for before in [&b""[..], &message(b"sound")] {
            let body = [before, &prefixed(flag, 2, b"xy")].concat();
            for framed in every_two_frames(1, &body) {
                let script = [head(1), framed, status(1, "0")].concat();
                assert_fails(
                    &calls(Kind::ServerStreaming, 2),
                    &script,
                    WireError::GrpcFrame,
                );
            }
        }
    }
}

#[test]
fn an_end_inside_a_message_fails_the_call() {
    let whole = message(b"hello");
    for end in 1..whole.len() {
        for framed in [
            [data(1, &whole[..end]), status(1, "0")].concat(),
            [data(1, &whole[..end]), trailers(1, &[("x", "y")])].concat(),
            peer::data(END_STREAM, 1, &whole[..end]),
            padded(END_STREAM, 1, &whole[..end], 5),
            [data(1, &whole), data(1, &whole[..end]), status(1, "0")].concat(),
        ] {
            let script = [head(1), framed].concat();
            assert_fails(&calls(Kind::Unary, 2), &script, WireError::GrpcFrame);
        }
    }
}

#[test]
fn a_status_that_is_missing_or_none_fails_the_call() {
    let body = data(1, &message(b"hello"));
    for end in [
        trailers(1, &[]),
        trailers(1, &[("grpc-message", "x")]),
        trailers(1, &[("grpc-status", "")]),
        trailers(1, &[("grpc-status", "OK")]),
        trailers(1, &[("grpc-status", "-1")]),
        trailers(1, &[("grpc-status", " 0")]),
        trailers(1, &[("grpc-status", "0"), ("grpc-status", "13")]),
        peer::data(END_STREAM, 1, b""),
        padded(END_STREAM, 1, b"", 9),
    ] {
        let script = [head(1), body.clone(), end].concat();
        assert_fails(&calls(Kind::Unary, 2), &script, WireError::GrpcNoStatus);
    }
    // A status counts in the block that ends the stream, and in no other.
    let block = [
        OK,
        &literal("content-type", "application/grpc"),
        &literal("grpc-status", "0"),
    ];
    let early = peer::headers(0, 1, &block.concat());
    let script = [early, peer::data(END_STREAM, 1, &message(b"x"))].concat();
    assert_fails(&calls(Kind::Unary, 2), &script, WireError::GrpcNoStatus);
}

#[test]
fn a_head_that_ends_the_stream_is_the_status_too() {
    let alone = |fields: &[(&str, &str)]| {
        let mut block = [OK, &literal("content-type", "application/grpc")].concat();
        block.extend(fields.iter().flat_map(|(n, v)| literal(n, v)));
        peer::headers(END_STREAM, 1, &block)
    };
    let case = calls(Kind::Unary, 2);
    let (outcome, _) = first_of_two(&case, &alone(&[("grpc-status", "5")]));
    assert_eq!(call_of(&outcome), call(0, Some(WireError::GrpcNotFound)));
    assert_fails(&case, &alone(&[]), WireError::GrpcNoStatus);
    assert_fails(
        &case,
        &alone(&[("grpc-status", "x")]),
        WireError::GrpcNoStatus,
    );
    // OK, and nothing of what the method answers with.
    assert_fails(
        &case,
        &alone(&[("grpc-status", "0")]),
        WireError::GrpcMessages,
    );
    let streaming = calls(Kind::ServerStreaming, 2);
    let (outcome, _) = first_of_two(&streaming, &alone(&[("grpc-status", "0")]));
    assert_eq!(call_of(&outcome), call(0, None));
}

#[test]
fn every_status_but_ok_is_an_answer_of_its_class() {
    let classes = WireError::ALL.map(WireError::class);
    let of_status = classes
        .iter()
        .filter(|class| class.starts_with("grpc.status."));
    for (code, class) in (1..).zip(of_status) {
        for body in [
            vec![],
            data(1, &message(b"some")),
            data(1, b"\0\0\0\0\x09half"),
        ] {
            let script = [head(1), body, status(1, &code.to_string())].concat();
            let (outcome, resets) = first_of_two(&calls(Kind::Unary, 2), &script);
            let error = call_of(&outcome).error.expect("it is not OK");
            assert_eq!((error.class(), resets.len()), (*class, 0), "{code}");
        }
    }
}

#[test]
fn what_is_not_grpc_is_told_apart() {
    let case = calls(Kind::Unary, 2);
    for content_type in ["text/html", "application/json", "application/grpc-web", ""] {
        let script = [
            head_of(1, OK, content_type),
            data(1, b"<html>"),
            status(1, "0"),
        ]
        .concat();
        assert_fails(&case, &script, WireError::GrpcContentType);
    }
    assert_fails(&case, &peer::headers(0, 1, OK), WireError::GrpcContentType);
    for content_type in ["application/grpc+proto", "application/grpc; x=y"] {
        let script = [
            head_of(1, OK, content_type),
            data(1, &message(b"x")),
            status(1, "0"),
        ];
        let (outcome, _) = first_of_two(&case, &script.concat());
        assert_eq!(call_of(&outcome), call(1, None));
    }
}

#[test]
fn a_status_of_http_is_the_answer_where_it_is_not_200() {
    let case = calls(Kind::Unary, 2);
    // 404, 500 and others in the static table, with bodies that are no messages.
    for (indexed, code) in [(b"\x8d", 404), (b"\x8c", 400), (b"\x8e", 500)] {
        let page = [
            head_of(1, indexed, "text/html"),
            peer::data(END_STREAM, 1, b"\x01<html>"),
        ];
        let (outcome, resets) = first_of_two(&case, &page.concat());
        let Outcome::Answered(answer) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(
            (answer.status, answer.body_bytes, resets.len()),
            (code, 7, 0)
        );
    }
    // 204 and 304: good in HTTP, and no status of a call.
    for indexed in [b"\x89", b"\x8b"] {
        let script = peer::headers(END_STREAM, 1, indexed);
        assert_fails(&case, &script, WireError::GrpcNoStatus);
    }
}

#[test]
fn late_frames_of_a_failed_call_are_forgiven() {
    let script = [
        head(1),
        data(1, &prefixed(7, 0, b"")),
        data(1, &message(b"more")),
        status(1, "0"),
    ];
    assert_fails(
        &calls(Kind::Unary, 2),
        &script.concat(),
        WireError::GrpcFrame,
    );
}

#[test]
fn a_reset_and_an_end_of_the_connection_are_http2s() {
    let reset = peer::numbers(wallfinder_wire::http2::FrameKind::RST_STREAM, 1, &[8]);
    let script = [head(1), data(1, &message(b"x")), reset].concat();
    let (outcome, _) = first_of_two(&calls(Kind::Unary, 2), &script);
    let error = WireError::H2ResetCancel;
    assert_eq!(outcome, Outcome::Failed { slot: 0, error });
    let script = [head(1), data(1, &message(b"x")[..4])].concat();
    let seen = play_all(&calls(Kind::Unary, 1), &script, true);
    assert_eq!(seen.class(), Some("h2.truncated"));
}
