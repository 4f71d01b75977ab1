//! How a connection is used: what it writes, what it counts, what it takes.

use wallfinder_wire::http2::{ErrorCode, FrameKind, Http2, Options, Shared};
use wallfinder_wire::{Outcome, Request, Transmit, Wire};

use crate::peer::{
    ACK, Case, END_HEADERS, END_STREAM, OK, PADDED, PRIORITY, Written, data, frame, frames_of,
    headers, literal, numbers, play_all, settings,
};

const PREFACE_BYTES: usize = 24;

fn opened(options: Options, parameters: &[(u16, u32)]) -> (Shared, Http2) {
    let request = Request::get("localhost:8080", "/simple").header("X-Mine", "yes");
    let mut shared = Shared::new(&request, options).unwrap();
    let mut http2 = Http2::open(&shared);
    http2.handle_bytes(&mut shared, &settings(parameters));
    (shared, http2)
}

fn write(shared: &Shared, http2: &mut Http2) -> Vec<u8> {
    let mut buffer = vec![0; 64 * 1024];
    let len = http2.write(shared, &mut buffer);
    assert_eq!(http2.poll_transmit(shared), Transmit::Idle);
    buffer.truncate(len);
    buffer
}

fn answered(outcome: Option<Outcome>) -> (u32, u16, u64) {
    match outcome {
        Some(Outcome::Answered(answer)) => (answer.slot, answer.status, answer.body_bytes),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_greeting_is_the_preface_our_settings_and_a_wide_window() {
    let options = Options {
        stream_window_bytes: 1 << 20,
        connection_window_bytes: 1 << 24,
        ..Options::default()
    };
    let shared = Shared::new(&Request::get("h", "/"), options).unwrap();
    let mut http2 = Http2::open(&shared);
    assert_eq!(http2.poll_transmit(&shared), Transmit::Own);
    let mut buffer = vec![0; shared.write_bytes_min()];
    let len = http2.write(&shared, &mut buffer);
    let (preface, frames) = buffer[..len].split_at(PREFACE_BYTES);
    assert_eq!(preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let expected = [
        settings(&[(2, 0), (4, 1 << 20), (6, 300 * 1024)]),
        numbers(FrameKind::WINDOW_UPDATE, 0, &[(1 << 24) - 65_535]),
    ];
    assert_eq!(frames, expected.concat());
    assert_eq!(http2.poll_transmit(&shared), Transmit::Idle);
}

#[test]
fn later_requests_are_indices_alone() {
    let (shared, mut http2) = opened(
        Options {
            in_flight_max: 3,
            ..Options::default()
        },
        &[],
    );
    for _ in 0..3 {
        http2.issue(&shared);
    }
    let written = write(&shared, &mut http2);
    let frames = frames_of(&written[PREFACE_BYTES..]);
    let heads: Vec<&Written> = frames
        .iter()
        .filter(|frame| frame.kind == FrameKind::HEADERS)
        .collect();
    let streams: Vec<u32> = heads.iter().map(|frame| frame.stream).collect();
    assert_eq!(streams, [1, 3, 5]);
    assert!(heads[0].payload.len() > 20);
    // GET, http, then what the first one inserted: path to accept, and the user's field.
    for head in &heads[1..] {
        assert_eq!(head.payload, b"\x82\x86\xc2\xc1\xc0\xbf\xbe");
        assert_eq!(head.flags, END_STREAM | END_HEADERS);
    }
    assert_eq!(shared.request_bytes(), 9 + 7);
}

#[test]
fn a_peers_table_is_respected_when_it_shrinks_and_grows() {
    let (mut shared, mut http2) = opened(
        Options {
            in_flight_max: 10,
            ..Options::default()
        },
        &[(1, 64)],
    );
    let block_of_next = |shared: &Shared, http2: &mut Http2| {
        http2.issue(shared);
        let written = write(shared, http2);
        let from = if written.starts_with(b"PRI") {
            PREFACE_BYTES
        } else {
            0
        };
        let frames = frames_of(&written[from..]);
        frames.last().expect("HEADERS").payload.clone()
    };
    // Too small for what would be inserted: said, and then literals for ever.
    let first = block_of_next(&shared, &mut http2);
    assert_eq!(first[..5], *b"\x20\x3f\x21\x82\x86");
    let second = block_of_next(&shared, &mut http2);
    assert_eq!(second, first[3..]);
    // Larger than this end will use: 4,096 of it, and filled once.
    http2.handle_bytes(&mut shared, &settings(&[(1, 65_536)]));
    let first = block_of_next(&shared, &mut http2);
    assert_eq!(first[..6], *b"\x20\x3f\xe1\x1f\x82\x86");
    assert_eq!(
        block_of_next(&shared, &mut http2),
        b"\x82\x86\xc2\xc1\xc0\xbf\xbe"
    );
    http2.handle_bytes(&mut shared, &settings(&[(1, 4096)]));
    assert_eq!(
        block_of_next(&shared, &mut http2),
        b"\x82\x86\xc2\xc1\xc0\xbf\xbe"
    );
    // Smaller, but large enough: emptied and filled again.
    http2.handle_bytes(&mut shared, &settings(&[(1, 1024)]));
    assert_eq!(
        block_of_next(&shared, &mut http2)[..4],
        *b"\x20\x3f\xe1\x07"
    );
    assert_eq!(
        block_of_next(&shared, &mut http2),
        b"\x82\x86\xc2\xc1\xc0\xbf\xbe"
    );
}

#[test]
fn a_long_head_goes_on_in_continuations() {
    let mut request = Request::get("h", "/");
    for n in 0..300 {
        request = request.header(format!("x-{n}"), "~".repeat(100));
    }
    let mut shared = Shared::new(&request, Options::default()).unwrap();
    let mut http2 = Http2::open(&shared);
    http2.handle_bytes(&mut shared, &settings(&[]));
    http2.issue(&shared);
    let written = write(&shared, &mut http2);
    let frames = frames_of(&written[PREFACE_BYTES..]);
    let head: Vec<(FrameKind, u8, usize)> = frames[3..]
        .iter()
        .map(|frame| (frame.kind, frame.flags, frame.payload.len()))
        .collect();
    assert_eq!(head[0], (FrameKind::HEADERS, END_STREAM, 16_384));
    let (kind, flags, rest) = head[1];
    assert_eq!((kind, flags), (FrameKind::CONTINUATION, END_HEADERS));
    assert!(rest < 16_384);
    assert_eq!(head.len(), 2);
    // A buffer that cannot hold it all is written nothing of it.
    http2.reset(&shared);
    http2.handle_bytes(&mut shared, &settings(&[]));
    http2.issue(&shared);
    let mut buffer = vec![0; shared.write_bytes_min()];
    let greeting = http2.write(&shared, &mut buffer);
    assert_eq!(greeting, written.len() - 16_384 - rest - 18);
    assert_eq!(http2.write(&shared, &mut buffer), 16_384 + rest + 18);
}

#[test]
fn bodies_go_one_after_the_other_through_the_connections_window() {
    let case = Case {
        method: "POST",
        body: vec![b'b'; 40_000],
        ..Case::at_once(2)
    };
    let seen = play_all(&case, &[], false);
    let sent: Vec<(u32, usize)> = seen
        .written
        .iter()
        .filter(|frame| frame.kind == FrameKind::DATA)
        .map(|frame| (frame.stream, frame.payload.len()))
        .collect();
    // 65,535 bytes for both, in frames of 16,384: the first is whole as soon as it can be.
    let expected = [
        (1, 16_384),
        (1, 16_384),
        (1, 7_232),
        (3, 16_384),
        (3, 9_151),
    ];
    assert_eq!(sent, expected);

    let more = numbers(FrameKind::WINDOW_UPDATE, 0, &[100_000]);
    let seen = play_all(&case, &more, false);
    assert_eq!(seen.count(FrameKind::DATA, END_STREAM), 2);
    let total: usize = seen
        .written
        .iter()
        .filter(|frame| frame.kind == FrameKind::DATA)
        .map(|frame| frame.payload.len())
        .sum();
    assert_eq!(total, 80_000);
}

#[test]
fn a_peer_that_tells_of_each_read_is_no_flood() {
    let request = Request::new("POST", "h", "/").body(vec![b'b'; 500_000]);
    let mut shared = Shared::new(&request, Options::default()).unwrap();
    let mut http2 = Http2::open(&shared);
    http2.handle_bytes(&mut shared, &settings(&[(4, 1 << 20)]));
    let wide = numbers(FrameKind::WINDOW_UPDATE, 0, &[1 << 20]);
    http2.handle_bytes(&mut shared, &wide);
    http2.issue(&shared);
    let mut buffer = vec![0; 64 * 1024];
    while http2.poll_transmit(&shared) == Transmit::Own {
        http2.write(&shared, &mut buffer);
    }
    // A kilobyte at a time, for the stream and for the connection: twice what idle frames may be.
    let read = [1, 0].map(|stream| numbers(FrameKind::WINDOW_UPDATE, stream, &[1_024]));
    http2.handle_bytes(&mut shared, &read.concat().repeat(480));
    assert_eq!(http2.poll_outcome(), None);
    // What was never sent cannot have been read.
    http2.handle_bytes(&mut shared, &read.concat().repeat(480));
    assert!(matches!(http2.poll_outcome(), Some(Outcome::Broken { .. })));
}

#[test]
fn the_least_buffer_holds_the_head_of_any_form() {
    // Named again and again, so that indices are shorter than the fields themselves.
    let request = (0..900).fold(Request::get("h", "/"), |request, _| {
        request.header("X-Again", "the same value as before")
    });
    let mut shared = Shared::new(&request, Options::default()).unwrap();
    let mut http2 = Http2::open(&shared);
    // A peer without a table: nothing can be named by an index.
    http2.handle_bytes(&mut shared, &settings(&[(1, 0)]));
    http2.issue(&shared);
    let mut buffer = vec![0; shared.write_bytes_min()];
    let mut written = 0;
    while http2.poll_transmit(&shared) == Transmit::Own {
        let len = http2.write(&shared, &mut buffer);
        assert!(len > 0, "nothing fits");
        written += len;
    }
    assert!(written > 900 * 20, "{written}");
}

#[test]
fn an_answer_before_the_whole_request_counts_and_stops_it() {
    let case = Case {
        method: "POST",
        body: vec![b'b'; 70_000],
        requests: 2,
        ..Case::default()
    };
    let script = [
        headers(END_STREAM, 1, b"\x8d"),
        numbers(FrameKind::RST_STREAM, 1, &[0]),
        numbers(FrameKind::WINDOW_UPDATE, 0, &[70_000]),
        numbers(FrameKind::WINDOW_UPDATE, 3, &[70_000]),
        headers(END_STREAM, 3, OK),
    ]
    .concat();
    let seen = play_all(&case, &script, false);
    let statuses: Vec<_> = seen.outcomes.iter().map(|o| answered(Some(*o)).1).collect();
    assert_eq!(statuses, [404, 200]);
    assert_eq!(seen.anomalies.answered_early, 2);
    assert_eq!(seen.resets()[0], (1, ErrorCode::Cancel));
}

#[test]
fn answers_come_in_any_order_and_are_counted_to_their_slots() {
    let script = [
        headers(0, 5, OK),
        headers(0, 1, OK),
        data(0, 5, b"five"),
        headers(END_STREAM, 3, b"\x89"),
        data(END_STREAM, 1, b"one"),
        data(0, 5, b""),
        data(END_STREAM, 5, b"and more"),
    ]
    .concat();
    let seen = play_all(&Case::at_once(3), &script, false);
    let seen: Vec<_> = seen.outcomes.iter().map(|o| answered(Some(*o))).collect();
    assert_eq!(seen, [(1, 204, 0), (0, 200, 3), (2, 200, 12)]);
}

#[test]
fn padding_priority_trailers_and_interim_heads_belong_to_an_answer() {
    let block = [OK, &literal("content-length", "6")].concat();
    let mut fragment = vec![3, 0, 0, 0, 0, 9];
    fragment.extend(&block);
    fragment.extend([0; 3]);
    let script = [
        headers(0, 1, b"\x08\x03103"),
        headers(0, 1, b"\x08\x03100"),
        frame(
            FrameKind::HEADERS,
            END_HEADERS | PADDED | PRIORITY,
            1,
            &fragment,
        ),
        frame(FrameKind::DATA, PADDED, 1, b"\x02abc\0\0"),
        frame(FrameKind::DATA, PADDED, 1, b"\x00def"),
        frame(FrameKind::DATA, PADDED, 1, b"\x00"),
        headers(END_STREAM, 1, &literal("x-checksum", "1")),
    ]
    .concat();
    let seen = play_all(&Case::default(), &script, false);
    let Outcome::Answered(answer) = seen.outcomes[0] else {
        panic!("{:?}", seen.outcomes);
    };
    assert_eq!((answer.status, answer.body_bytes), (200, 6));
    assert_eq!(answer.wire_bytes, script.len() as u64);
}

#[test]
fn answers_without_a_body_have_none_whatever_their_length_says() {
    let long = |block: &[u8]| [block, &literal("content-length", "1000")].concat();
    for (method, block) in [("HEAD", OK), ("GET", b"\x8b"), ("GET", b"\x89")] {
        let case = Case {
            method,
            ..Case::default()
        };
        let script = headers(END_STREAM, 1, &long(block));
        assert_eq!(play_all(&case, &script, false).answered(), 1);
        let script = [headers(0, 1, &long(block)), data(END_STREAM, 1, b"")].concat();
        assert_eq!(play_all(&case, &script, false).answered(), 1);
        let script = [headers(0, 1, &long(block)), data(END_STREAM, 1, b"x")].concat();
        assert_eq!(play_all(&case, &script, false).class(), Some("h2.length"));
    }
}

#[test]
fn a_malformed_answer_fails_alone() {
    let case = Case {
        requests: 2,
        ..Case::default()
    };
    for first in [
        headers(END_STREAM, 1, &literal("x", "y")),
        headers(END_STREAM, 1, &[OK, &literal("X", "y")].concat()),
        headers(
            END_STREAM,
            1,
            &[OK, &literal("connection", "close")].concat(),
        ),
        headers(END_STREAM, 1, &[OK, &literal(":path", "/")].concat()),
        headers(END_STREAM, 1, &[OK, &literal("x", "a\nb")].concat()),
        headers(END_STREAM, 1, b"\x08\x03101"),
        headers(END_STREAM, 1, b"\x08\x03100"),
        data(END_STREAM, 1, b"x"),
        [headers(0, 1, OK), headers(0, 1, &literal("x", "y"))].concat(),
        [headers(0, 1, OK), headers(END_STREAM, 1, OK)].concat(),
        headers(0, 1, b"\x08\x03103").repeat(33),
    ] {
        let script = [first, headers(END_STREAM, 3, OK)].concat();
        let seen = play_all(&case, &script, false);
        assert!(matches!(seen.outcomes[0], Outcome::Failed { slot: 0, .. }));
        assert_eq!(seen.answered(), 1, "{:?}", seen.outcomes);
        assert_eq!(seen.resets().len(), 1);
    }
}

#[test]
fn late_frames_of_a_reset_stream_are_forgiven_and_their_blocks_decoded() {
    let case = Case {
        requests: 2,
        ..Case::default()
    };
    let script = [
        data(0, 1, b"too early"),
        headers(0, 1, b"\x88\x40\x01a\x01b"),
        data(0, 1, b"late"),
        numbers(FrameKind::WINDOW_UPDATE, 1, &[1]),
        headers(END_STREAM, 1, b"\xbe"),
        headers(END_STREAM, 3, b"\x88\xbe"),
    ]
    .concat();
    let seen = play_all(&case, &script, false);
    assert_eq!(seen.outcomes.len(), 2);
    assert_eq!(seen.answered(), 1, "the index that came late is known");
}

#[test]
fn credit_is_returned_at_half_of_each_window() {
    let mut case = Case::at_once(2);
    case.options.stream_window_bytes = 1000;
    case.options.connection_window_bytes = 65_535;
    let script = [
        headers(0, 1, OK),
        data(0, 1, &[0; 499]),
        headers(END_STREAM, 3, OK),
        data(0, 1, &[0; 1]),
    ]
    .concat();
    let seen = play_all(&case, &script, false);
    let updates: Vec<(u32, u32)> = seen
        .written
        .iter()
        .filter(|frame| frame.kind == FrameKind::WINDOW_UPDATE)
        .map(|frame| (frame.stream, frame.number(0)))
        .collect();
    assert_eq!(updates, [(1, 500)]);

    case.options.stream_window_bytes = 100_000;
    let script = [headers(0, 1, OK), data(0, 1, &[0; 16_384]).repeat(2)].concat();
    let seen = play_all(&case, &script, false);
    let update = seen.written.last().expect("an update");
    assert_eq!((update.stream, update.number(0)), (0, 32_768));
    assert_eq!(seen.count(FrameKind::WINDOW_UPDATE, 0), 1);
}

#[test]
fn credit_of_an_ended_stream_is_not_given_to_the_next_one_in_its_slot() {
    let mut case = Case {
        requests: 2,
        ..Case::default()
    };
    case.options.stream_window_bytes = 1000;
    let script = [
        headers(0, 1, OK),
        data(0, 1, &[0; 600]),
        data(END_STREAM, 1, &[]),
        headers(0, 3, OK),
        data(0, 3, &[0; 400]),
    ]
    .concat();
    let seen = play_all(&case, &script, false);
    assert_eq!(seen.answered(), 1);
    assert_eq!(seen.count(FrameKind::WINDOW_UPDATE, 0), 0);
}

#[test]
fn settings_and_pings_are_acknowledged() {
    let script = [
        settings(&[(0xfa, 7), (3, 100)]),
        frame(FrameKind::PING, 0, 0, b"abcdefgh"),
        frame(FrameKind::PING, ACK, 0, b"ijklmnop"),
    ]
    .concat();
    let seen = play_all(&Case::default(), &script, false);
    // Once for the peer's first SETTINGS.
    assert_eq!(seen.count(FrameKind::SETTINGS, ACK), 2);
    let pings: Vec<_> = seen
        .written
        .iter()
        .filter(|frame| frame.kind == FrameKind::PING)
        .map(|frame| (frame.flags, frame.payload.as_slice()))
        .collect();
    assert_eq!(pings, [(ACK, &b"abcdefgh"[..])]);
}

#[test]
fn an_end_inside_an_answer_truncates_it() {
    let script = [headers(0, 3, OK), data(0, 3, b"half")].concat();
    let seen = play_all(&Case::at_once(2), &script, true);
    assert_eq!(seen.class(), Some("h2.truncated"));
    assert_eq!((seen.in_flight, seen.goaway()), (1, None));
    let nothing = play_all(&Case::at_once(2), b"", true);
    assert_eq!((nothing.outcomes.len(), nothing.in_flight), (0, 2));
}

#[test]
fn a_reset_connection_begins_anew() {
    let (mut shared, mut http2) = opened(Options::default(), &[(1, 0), (3, 7), (4, 1)]);
    http2.issue(&shared);
    write(&shared, &mut http2);
    http2.handle_bytes(&mut shared, &headers(0, 1, b"\x88\x40\x01a\x01b"));
    http2.handle_bytes(&mut shared, &data(0, 1, b"half")[..6]);
    http2.reset(&shared);
    assert_eq!((http2.in_flight(), http2.room(&shared)), (0, 0));
    assert_eq!(http2.answering(), None);
    http2.handle_bytes(&mut shared, &settings(&[]));
    http2.issue(&shared);
    let written = write(&shared, &mut http2);
    assert!(written.starts_with(b"PRI"));
    let frames = frames_of(&written[PREFACE_BYTES..]);
    let head = frames.last().expect("HEADERS");
    assert_eq!((head.stream, head.payload[0]), (1, 0x82));
    http2.handle_bytes(&mut shared, &headers(END_STREAM, 1, b"\x88\xbe"));
    let Some(Outcome::Broken { error, .. }) = http2.poll_outcome() else {
        panic!("the old table is still there");
    };
    assert_eq!(error.class(), "h2.compression");
}

#[test]
fn the_first_byte_is_told_once_for_each_answer_that_is_not_whole() {
    let (mut shared, mut http2) = opened(
        Options {
            in_flight_max: 2,
            ..Options::default()
        },
        &[],
    );
    http2.issue(&shared);
    http2.issue(&shared);
    write(&shared, &mut http2);
    assert_eq!(http2.poll_begun(), None);
    http2.handle_bytes(&mut shared, &headers(0, 3, OK));
    assert_eq!(http2.poll_begun(), Some(1));
    assert_eq!(http2.poll_begun(), None);
    assert_eq!(http2.answering(), Some(1));
    http2.handle_bytes(&mut shared, &data(0, 3, b"x"));
    assert_eq!(http2.poll_begun(), None);
    http2.handle_bytes(&mut shared, &headers(END_STREAM, 1, OK));
    assert_eq!(answered(http2.poll_outcome()).0, 0);
    assert_eq!(http2.poll_begun(), None, "it is whole");
}

#[test]
fn what_cannot_be_is_refused() {
    let request = Request::get("h", "/");
    for (options, place) in [
        (
            Options {
                in_flight_max: 0,
                ..Options::default()
            },
            "in_flight_max",
        ),
        (
            Options {
                requests_max: (1 << 30) + 1,
                ..Options::default()
            },
            "requests_max",
        ),
        (
            Options {
                connection_window_bytes: 65_534,
                ..Options::default()
            },
            "connection_window_bytes",
        ),
        (
            Options {
                stream_window_bytes: 1 << 31,
                ..Options::default()
            },
            "stream_window_bytes",
        ),
    ] {
        assert_eq!(Shared::new(&request, options).unwrap_err().place(), place);
    }
    let long = request.header("x", "y".repeat(70_000));
    let refused = Shared::new(&long, Options::default()).unwrap_err();
    assert_eq!(refused.place(), "header list");
}

#[test]
fn a_request_that_is_given_up_leaves_the_others_alone_wherever_its_answer_stands() {
    let block = [OK, b"\x40\x01a\x01b"].concat();
    let script = [
        frame(FrameKind::HEADERS, 0, 1, &block[..3]),
        frame(FrameKind::CONTINUATION, END_HEADERS, 1, &block[3..]),
        data(0, 1, b"some of it"),
        frame(FrameKind::DATA, PADDED | END_STREAM, 1, b"\x01rest\0"),
        headers(END_STREAM, 3, b"\x88\xbe"),
    ]
    .concat();
    let before_3 = script.len() - headers(0, 3, b"\x88\xbe").len();
    for cut in 0..before_3 {
        let (mut shared, mut http2) = opened(
            Options {
                in_flight_max: 2,
                ..Options::default()
            },
            &[],
        );
        http2.issue(&shared);
        http2.issue(&shared);
        write(&shared, &mut http2);
        http2.handle_bytes(&mut shared, &script[..cut]);
        assert!(http2.cancel(0));
        assert_eq!(http2.poll_outcome(), None);
        assert_eq!(http2.in_flight(), 1);
        // The slot is used again at once, by a stream that is not the one given up.
        assert_eq!(http2.issue(&shared), 0);
        let frames = frames_of(&write(&shared, &mut http2));
        let written: Vec<_> = frames.iter().map(|f| (f.kind, f.stream)).collect();
        let expected = [(FrameKind::RST_STREAM, 1), (FrameKind::HEADERS, 5)];
        assert_eq!(written, expected);
        http2.handle_bytes(&mut shared, &script[cut..]);
        assert_eq!(answered(http2.poll_outcome()), (1, 200, 0), "cut at {cut}");
        http2.handle_bytes(&mut shared, &headers(END_STREAM, 5, OK));
        assert_eq!(answered(http2.poll_outcome()), (0, 200, 0));
    }
}

#[test]
fn a_request_that_is_given_up_unwritten_is_never_sent() {
    let (shared, mut http2) = opened(
        Options {
            in_flight_max: 2,
            requests_max: 2,
            ..Options::default()
        },
        &[],
    );
    http2.issue(&shared);
    http2.issue(&shared);
    assert!(http2.cancel(0));
    let written = write(&shared, &mut http2);
    let frames = frames_of(&written[PREFACE_BYTES..]);
    let heads = frames.iter().filter(|f| f.kind == FrameKind::HEADERS);
    assert_eq!(heads.count(), 1);
    assert!(http2.cancel(1));
    assert_eq!(http2.poll_outcome(), Some(Outcome::Over));
}
