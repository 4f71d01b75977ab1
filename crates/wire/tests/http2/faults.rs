//! What a hostile peer gets: a scripted peer for each row of the fault table that is
//! HTTP/2's, 17 to 26. Every script is played whole, byte by byte, and cut in two at every
//! place.

use wallfinder_wire::http2::{ErrorCode, FrameKind, Http2, Options, REQUESTS_MAX, Shared};
use wallfinder_wire::{Answer, Outcome, Request, Transmit, Wire, WireError};

use crate::peer::{
    Case, END_HEADERS, END_STREAM, OK, assert_breaks, data, frame, headers, literal, numbers,
    play_all, settings,
};

const ANSWERED: Outcome = Outcome::Answered(Answer {
    slot: 0,
    status: 200,
    wire_bytes: 10,
    body_bytes: 0,
    decoded_bytes: 0,
    reusable: true,
    is_last: false,
    call: None,
    judged: wallfinder_wire::Judged::ByStatus,
    redirects: None,
});

// Row 17.

#[test]
fn continuations_without_end_break_the_connection() {
    let start = frame(FrameKind::HEADERS, 0, 1, OK);
    let empty = frame(FrameKind::CONTINUATION, 0, 1, &[]);
    let script = [start.clone(), empty.repeat(100)].concat();
    let calm = ErrorCode::EnhanceYourCalm;
    let at = (FrameKind::CONTINUATION, 1);
    let seen = assert_breaks(&Case::default(), &script, WireError::H2HeadFlood, calm, at);
    assert_eq!(seen.in_flight, 0, "the request has its outcome");

    let mut case = Case::at_once(3);
    case.options.head_bytes_max = 1000;
    let long = frame(FrameKind::CONTINUATION, 0, 1, &[0x82; 400]);
    let script = [start, long.repeat(3)].concat();
    let seen = assert_breaks(&case, &script, WireError::H2HeadFlood, calm, at);
    assert_eq!(seen.in_flight, 2, "the others are the worker's to count");
}

#[test]
fn as_many_continuations_as_allowed_are_a_head() {
    let mut script = frame(FrameKind::HEADERS, END_STREAM, 1, OK);
    for n in 0..31 {
        let field = literal(&format!("x-{n}"), "y");
        script.extend(frame(FrameKind::CONTINUATION, 0, 1, &field));
    }
    script.extend(frame(FrameKind::CONTINUATION, END_HEADERS, 1, &[]));
    let seen = play_all(&Case::default(), &script, false);
    assert_eq!(seen.answered(), 1);
}

// Row 18.

#[test]
fn a_header_bomb_is_a_compression_error() {
    let mut case = Case::at_once(2);
    case.options.head_bytes_max = 20_000;
    let long = [b"\x88\x40\x01a\x7f\xa1\x1d", &[b'x'; 3872][..]].concat();
    let bomb = [OK, &[0xbe; 100]].concat();
    let script = [headers(0, 1, &long), headers(END_STREAM, 3, &bomb)].concat();
    let at = (FrameKind::HEADERS, 3);
    let code = ErrorCode::CompressionError;
    let seen = assert_breaks(&case, &script, WireError::H2Compression, code, at);
    assert_eq!(seen.in_flight, 1);
}

#[test]
fn a_bad_block_is_a_compression_error_and_all_requests_are_counted() {
    for block in [
        &b"\x88\x00\x84\xff\xff\xff\xff\x00"[..],
        b"\x88\x00\x01a\x81\x18",
        b"\xbe",
        b"\x80",
        b"\x88\x20",
        b"\x3f\xe2\x1f\x88",
        b"\x88\x00\x05ab",
        b"\x88\xff\xff\xff\xff\xff\xff",
    ] {
        let script = headers(END_STREAM, 3, block);
        let code = ErrorCode::CompressionError;
        let at = (FrameKind::HEADERS, 3);
        let case = Case::at_once(3);
        let seen = assert_breaks(&case, &script, WireError::H2Compression, code, at);
        assert_eq!(seen.in_flight, 2);
    }
}

// Row 19.

#[test]
fn frames_without_end_that_bring_nothing_break_the_connection() {
    let mut case = Case::default();
    case.options.idle_frames_max = 20;
    let ping = frame(FrameKind::PING, 0, 0, b"12345678");
    let head = headers(0, 1, OK);
    for (idle, at) in [
        (settings(&[]), (FrameKind::SETTINGS, 0)),
        (
            frame(FrameKind::SETTINGS, 1, 0, &[]),
            (FrameKind::SETTINGS, 0),
        ),
        (ping, (FrameKind::PING, 0)),
        (
            numbers(FrameKind::WINDOW_UPDATE, 0, &[1]),
            (FrameKind::WINDOW_UPDATE, 0),
        ),
        (
            numbers(FrameKind::WINDOW_UPDATE, 1, &[1]),
            (FrameKind::WINDOW_UPDATE, 1),
        ),
        (
            frame(FrameKind::PRIORITY, 0, 1, &[0; 5]),
            (FrameKind::PRIORITY, 1),
        ),
        (data(0, 1, &[]), (FrameKind::DATA, 1)),
        (
            frame(FrameKind::DATA, 8, 1, &[2, 0, 0]),
            (FrameKind::DATA, 1),
        ),
        (frame(FrameKind(0xbb), 0, 7, b"what"), (FrameKind(0xbb), 7)),
    ] {
        let script = [head.clone(), idle.repeat(21)].concat();
        let calm = ErrorCode::EnhanceYourCalm;
        let seen = assert_breaks(&case, &script, WireError::H2Flood, calm, at);
        assert_eq!(seen.answered(), 0);

        let few = [head.clone(), idle.repeat(15), data(END_STREAM, 1, b"x")].concat();
        let seen = play_all(&case, &few, false);
        assert_eq!(seen.answered(), 1, "{:?}", seen.fault);
    }
}

#[test]
fn what_is_owed_stays_bounded_while_the_peer_does_not_read() {
    let options = Options {
        idle_frames_max: 8,
        in_flight_max: 1,
        ..Options::default()
    };
    let mut shared = Shared::new(&Request::get("h", "/"), options).unwrap();
    let mut http2 = Http2::open(&shared);
    http2.handle_bytes(&mut shared, &settings(&[]));
    http2.issue(&shared);
    let mut buffer = [0; 4096];
    http2.write(&shared, &mut buffer);
    http2.handle_bytes(&mut shared, &headers(0, 1, OK));
    // Each ping comes with a byte of the answer, and nothing can be written.
    let both = [frame(FrameKind::PING, 0, 0, b"12345678"), data(0, 1, b"x")].concat();
    for _ in 0..8 {
        assert_eq!(http2.handle_bytes(&mut shared, &both), both.len());
        assert_eq!(http2.poll_outcome(), None);
    }
    http2.handle_bytes(&mut shared, &both);
    let broken = Outcome::Broken {
        slot: None,
        error: WireError::H2Flood,
    };
    assert_eq!(http2.poll_outcome(), Some(broken));
}

// Row 20.

#[test]
fn each_reset_is_counted_by_its_code_and_the_connection_goes_on() {
    for code in 0..16 {
        let case = Case {
            requests: 2,
            ..Case::default()
        };
        let script = [
            numbers(FrameKind::RST_STREAM, 1, &[code]),
            headers(END_STREAM, 3, OK),
        ]
        .concat();
        let seen = play_all(&case, &script, false);
        let Outcome::Failed { slot: 0, error } = seen.outcomes[0] else {
            panic!("{:?}", seen.outcomes);
        };
        let class = match ErrorCode::from_wire(code) {
            Some(code) => format!("h2.reset.{}", code.name().to_lowercase()),
            None => "h2.reset.other".to_owned(),
        };
        assert_eq!(error.class(), class);
        assert_eq!(seen.outcomes[1], ANSWERED);
        assert_eq!(seen.resets(), [], "a reset is not answered by one");
    }
}

#[test]
fn resets_of_ended_streams_change_nothing() {
    let case = Case {
        requests: 2,
        ..Case::default()
    };
    let script = [
        headers(END_STREAM, 1, OK),
        numbers(FrameKind::RST_STREAM, 1, &[0]),
        headers(END_STREAM, 3, OK),
    ]
    .concat();
    assert_eq!(
        play_all(&case, &script, false).outcomes,
        [ANSWERED, ANSWERED]
    );
}

// Row 21.

#[test]
fn what_a_goaway_did_not_take_up_is_unprocessed_and_the_rest_is_answered() {
    let mut case = Case::at_once(3);
    case.requests = 9;
    let script = [
        headers(0, 1, OK),
        numbers(FrameKind::GOAWAY, 0, &[1, 0]),
        data(END_STREAM, 1, b"done"),
    ]
    .concat();
    let seen = play_all(&case, &script, true);
    let unprocessed = |slot| Outcome::Failed {
        slot,
        error: WireError::H2Unprocessed,
    };
    let last = Outcome::Answered(Answer {
        slot: 0,
        status: 200,
        wire_bytes: 23,
        body_bytes: 4,
        decoded_bytes: 0,
        reusable: false,
        is_last: false,
        call: None,
        judged: wallfinder_wire::Judged::ByStatus,
        redirects: None,
    });
    assert_eq!(seen.outcomes, [unprocessed(1), unprocessed(2), last]);
    assert_eq!(
        (seen.anomalies.goaways, seen.anomalies.goaways_with_error),
        (1, 0)
    );
}

#[test]
fn a_goaway_that_takes_up_nothing_ends_the_connection_at_once() {
    let script = numbers(FrameKind::GOAWAY, 0, &[0, 11]);
    let seen = play_all(&Case::at_once(2), &script, true);
    let unprocessed = |slot| Outcome::Failed {
        slot,
        error: WireError::H2Unprocessed,
    };
    let expected = [unprocessed(0), unprocessed(1), Outcome::Over];
    assert_eq!(seen.outcomes, expected);
    assert_eq!(seen.anomalies.goaways_with_error, 1);

    let idle = Case {
        requests: 0,
        ..Case::default()
    };
    assert_eq!(play_all(&idle, &script, true).outcomes, [Outcome::Over]);
}

#[test]
fn a_goaway_in_two_steps_takes_back_what_the_first_left_open() {
    let script = [
        numbers(FrameKind::GOAWAY, 0, &[0x7fff_ffff, 0]),
        numbers(FrameKind::GOAWAY, 0, &[3, 0]),
        numbers(FrameKind::GOAWAY, 0, &[5, 0]),
        headers(END_STREAM, 3, OK),
        headers(END_STREAM, 1, OK),
    ]
    .concat();
    let seen = play_all(&Case::at_once(3), &script, false);
    assert_eq!(seen.outcomes.len(), 3);
    let first = Outcome::Failed {
        slot: 2,
        error: WireError::H2Unprocessed,
    };
    assert_eq!(seen.outcomes[0], first);
    assert_eq!(seen.answered(), 2);
}

// Row 22.

#[test]
fn a_limit_of_no_streams_is_waited_out() {
    let mut case = Case::at_once(2);
    case.settings = Some(vec![(3, 0)]);
    let seen = play_all(&case, &[], false);
    assert_eq!((seen.in_flight, seen.count(FrameKind::HEADERS, 5)), (0, 0));

    let mut shared = Case::at_once(5).shared();
    let mut http2 = Http2::open(&shared);
    assert_eq!(http2.room(&shared), 0, "no SETTINGS yet");
    http2.handle_bytes(&mut shared, &settings(&[(3, 0)]));
    assert_eq!(http2.room(&shared), 0);
    http2.handle_bytes(&mut shared, &settings(&[(3, 2)]));
    assert_eq!(http2.room(&shared), 2);
    http2.issue(&shared);
    http2.issue(&shared);
    assert_eq!(http2.room(&shared), 0);
    // Issued before the limit fell, written after: one waits for the other's end.
    http2.handle_bytes(&mut shared, &settings(&[(3, 1)]));
    let mut buffer = [0; 4096];
    let len = http2.write(&shared, &mut buffer);
    let heads = |bytes: &[u8]| {
        let frames = crate::peer::frames_of(bytes);
        frames
            .iter()
            .filter(|f| f.kind == FrameKind::HEADERS)
            .count()
    };
    let greeting_len = 24;
    assert_eq!(heads(&buffer[greeting_len..len]), 1);
    assert_eq!(http2.poll_transmit(&shared), Transmit::Idle);
    http2.handle_bytes(&mut shared, &headers(END_STREAM, 1, OK));
    assert!(matches!(http2.poll_outcome(), Some(Outcome::Answered(_))));
    let len = http2.write(&shared, &mut buffer);
    assert_eq!(heads(&buffer[..len]), 1);
}

// Row 23.

#[test]
fn a_body_waits_for_its_window_and_says_so() {
    let mut case = Case {
        method: "POST",
        body: vec![b'x'; 10],
        settings: Some(vec![(4, 0)]),
        ..Case::default()
    };
    let seen = play_all(&case, &[], false);
    assert_eq!(seen.count(FrameKind::HEADERS, END_HEADERS), 1);
    assert_eq!(seen.count(FrameKind::DATA, END_STREAM), 0);

    let open = numbers(FrameKind::WINDOW_UPDATE, 1, &[10]);
    let seen = play_all(&case, &open, false);
    assert_eq!(seen.count(FrameKind::DATA, END_STREAM), 1);

    case.settings = Some(vec![]);
    let mut shared = case.shared();
    let mut http2 = Http2::open(&shared);
    http2.handle_bytes(&mut shared, &settings(&[(4, 4)]));
    let slot = http2.issue(&shared);
    assert!(!http2.is_flow_blocked(slot), "nothing is written yet");
    let mut buffer = [0; 4096];
    http2.write(&shared, &mut buffer);
    assert!(http2.is_flow_blocked(slot));
    assert_eq!(http2.poll_transmit(&shared), Transmit::Idle);
    http2.handle_bytes(&mut shared, &settings(&[(4, 2)]));
    http2.handle_bytes(&mut shared, &numbers(FrameKind::WINDOW_UPDATE, 1, &[2]));
    assert!(http2.is_flow_blocked(slot), "the window is at zero again");
    http2.handle_bytes(&mut shared, &numbers(FrameKind::WINDOW_UPDATE, 1, &[1]));
    assert!(!http2.is_flow_blocked(slot));
}

#[test]
fn a_window_above_its_limit_is_a_flow_control_error() {
    let most = 0x7fff_ffff;
    let code = ErrorCode::FlowControlError;
    let case = Case::default();
    let script = numbers(FrameKind::WINDOW_UPDATE, 0, &[most]);
    let at = (FrameKind::WINDOW_UPDATE, 0);
    assert_breaks(&case, &script, WireError::H2Flow, code, at);
    for script in [
        settings(&[(4, most + 1)]),
        [
            numbers(FrameKind::WINDOW_UPDATE, 1, &[most - 65_535]),
            settings(&[(4, 65_536)]),
        ]
        .concat(),
    ] {
        let at = (FrameKind::SETTINGS, 0);
        assert_breaks(&case, &script, WireError::H2Flow, code, at);
    }
    let script = numbers(FrameKind::WINDOW_UPDATE, 1, &[most]);
    let seen = play_all(&case, &script, false);
    assert_eq!(seen.class(), Some("h2.flow"));
    assert_eq!(seen.resets(), [(1, code)]);
}

#[test]
fn a_peer_that_sends_beyond_a_window_breaks_it() {
    let mut case = Case::at_once(2);
    case.options.stream_window_bytes = 100;
    let script = [headers(0, 1, OK), data(0, 1, &[0; 101])].concat();
    let seen = play_all(&case, &script, false);
    assert_eq!(seen.class(), Some("h2.flow"));
    assert_eq!(seen.resets(), [(1, ErrorCode::FlowControlError)]);

    case.options.stream_window_bytes = 1 << 20;
    case.options.connection_window_bytes = 65_535;
    let mut script = headers(0, 1, OK);
    // Credit is written only after outcomes here, so none comes back.
    script.extend(data(0, 1, &[0; 16_384]).repeat(4));
    let code = ErrorCode::FlowControlError;
    let at = (FrameKind::DATA, 1);
    assert_breaks(&case, &script, WireError::H2Flow, code, at);
}

// Row 24.

#[test]
fn frames_where_they_may_not_stand_are_protocol_errors() {
    let case = Case::at_once(2);
    let push = frame(FrameKind::PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\x02\x82");
    for (script, at) in [
        (data(0, 0, b"x"), (FrameKind::DATA, 0)),
        (push, (FrameKind::PUSH_PROMISE, 1)),
        (data(0, 5, b"x"), (FrameKind::DATA, 5)),
        (data(0, 2, b"x"), (FrameKind::DATA, 2)),
        (headers(0, 0, OK), (FrameKind::HEADERS, 0)),
        (
            [headers(0, 1, OK), frame(FrameKind::DATA, 8, 1, &[1])].concat(),
            (FrameKind::DATA, 1),
        ),
    ] {
        let code = ErrorCode::ProtocolError;
        assert_breaks(&case, &script, WireError::H2Protocol, code, at);
    }
}

#[test]
fn a_body_that_is_not_its_length_is_reset_with_a_protocol_error() {
    let head = |length: &str| [OK, &literal("content-length", length)].concat();
    for script in [
        headers(END_STREAM, 1, &head("1")),
        [headers(0, 1, &head("1")), data(END_STREAM, 1, b"")].concat(),
        [headers(0, 1, &head("1")), data(END_STREAM, 1, b"ab")].concat(),
        [headers(0, 1, &head("1")), data(0, 1, b"ab")].concat(),
        [
            headers(0, 1, &head("3")),
            data(0, 1, b"a"),
            data(END_STREAM, 1, b"b"),
        ]
        .concat(),
        [
            headers(0, 1, &head("0")),
            frame(FrameKind::DATA, 8, 1, &[1, 7, 0]),
        ]
        .concat(),
        [
            headers(0, 1, &head("2")),
            data(0, 1, b"a"),
            headers(END_STREAM, 1, &literal("x", "y")),
        ]
        .concat(),
        headers(END_STREAM, 1, &head("1x")),
    ] {
        let case = Case {
            requests: 2,
            ..Case::default()
        };
        let mut script = script;
        script.extend(headers(END_STREAM, 3, OK));
        let seen = play_all(&case, &script, false);
        let failed = Outcome::Failed {
            slot: 0,
            error: WireError::H2Length,
        };
        assert_eq!(seen.outcomes, [failed, ANSWERED]);
        assert_eq!(seen.resets(), [(1, ErrorCode::ProtocolError)]);
        assert_eq!(seen.fault.map(|fault| fault.stream), Some(1));
    }
}

// Row 25.

#[test]
fn a_connection_whose_ids_are_used_up_ends_without_a_failure() {
    assert_eq!(u64::from(REQUESTS_MAX) * 2 - 1, (1 << 31) - 1);
    let mut case = Case::at_once(2);
    case.options.requests_max = 3;
    case.requests = 10;
    let script = [
        headers(END_STREAM, 1, OK),
        headers(END_STREAM, 5, OK),
        headers(END_STREAM, 3, OK),
    ]
    .concat();
    let seen = play_all(&case, &script, false);
    let reusable: Vec<_> = seen
        .outcomes
        .iter()
        .map(|outcome| matches!(outcome, Outcome::Answered(answer) if answer.reusable))
        .collect();
    assert_eq!(reusable, [true, true, false]);
    assert_eq!(seen.count(FrameKind::HEADERS, END_HEADERS | END_STREAM), 3);
}

#[test]
fn a_last_request_that_is_reset_ends_the_connection_too() {
    let mut case = Case::default();
    case.options.requests_max = 1;
    let script = numbers(FrameKind::RST_STREAM, 1, &[8]);
    let failed = Outcome::Failed {
        slot: 0,
        error: WireError::H2ResetCancel,
    };
    assert_eq!(
        play_all(&case, &script, false).outcomes,
        [failed, Outcome::Over]
    );
}

// Row 26.

#[test]
fn a_peer_that_speaks_another_protocol_is_known_at_once() {
    let case = Case {
        settings: None,
        ..Case::default()
    };
    for script in [
        &b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"[..],
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46\x00\x00\x00",
        &frame(FrameKind::PING, 0, 0, &[0; 8]),
        &frame(FrameKind::SETTINGS, 1, 0, &[]),
        &frame(FrameKind::SETTINGS, 0, 1, &[]),
        &frame(FrameKind::GOAWAY, 0, 0, &[0; 8]),
    ] {
        let seen = play_all(&case, script, true);
        let broken = Outcome::Broken {
            slot: None,
            error: WireError::H2Preface,
        };
        assert_eq!(seen.outcomes, [broken], "{}", script.escape_ascii());
        let fault = seen.fault.expect("a fault").to_string();
        assert!(fault.contains("another protocol"), "{fault}");
    }
}

#[test]
fn a_peer_that_closes_before_its_settings_is_known_too() {
    let case = Case {
        settings: None,
        ..Case::default()
    };
    for script in [&b""[..], b"\0\0\0\x04\0\0", b"HTTP"] {
        let seen = play_all(&case, script, true);
        assert_eq!(seen.class(), Some("h2.preface"));
    }
}
