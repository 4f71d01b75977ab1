//! The cases that h2spec's client suite (`h2specd`) plays to a client, rebuilt as a table,
//! with those of its HPACK suite that a server can cause and those of RFC 9113 that it
//! lacks. Two requests are in flight, on streams 1 and 3; stream 1 is answered first where
//! a case needs a closed stream.

use wallfinder_wire::Outcome;
use wallfinder_wire::http2::ErrorCode::{
    self, CompressionError, FlowControlError, FrameSizeError, ProtocolError, StreamClosed,
};
use wallfinder_wire::http2::FrameKind;

use crate::peer::{
    ACK, Case, END_HEADERS, END_STREAM, OK, PADDED, PRIORITY, Seen, data, frame, headers, literal,
    numbers, play_all, settings,
};

/// What the suite asks of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// It goes on, and takes an answer on stream 3.
    GoesOn,
    /// It writes GOAWAY with this code.
    Connection(ErrorCode),
    /// It writes RST_STREAM for stream 1 with this code, and goes on.
    Stream(ErrorCode),
}

use Expected::{Connection, GoesOn, Stream};

fn check(section: &str, name: &str, script: Vec<u8>, expected: Expected) {
    let last = headers(END_STREAM, 3, OK);
    let script = [script, last].concat();
    let seen: Seen = play_all(&Case::at_once(2), &script, false);
    let went_on = seen.outcomes.iter().any(|outcome| {
        matches!(outcome, Outcome::Answered(answer) if answer.slot == 1 && answer.status == 200)
    });
    let is_as_expected = match expected {
        GoesOn => went_on && seen.goaway().is_none() && seen.resets().is_empty(),
        Connection(code) => !went_on && seen.goaway() == Some(code),
        Stream(code) => went_on && seen.resets() == [(1, code)],
    };
    assert!(
        is_as_expected,
        "{section} {name}: {expected:?}, but {seen:?}"
    );
}

fn continuation(flags: u8, stream: u32, fragment: &[u8]) -> Vec<u8> {
    frame(FrameKind::CONTINUATION, flags, stream, fragment)
}

fn window_update(stream: u32, by: u32) -> Vec<u8> {
    numbers(FrameKind::WINDOW_UPDATE, stream, &[by])
}

#[test]
fn starting() {
    check("3.4", "a server's preface", vec![], GoesOn);
}

#[test]
fn frame_format_and_size() {
    let unknown = frame(FrameKind(0xff), 0, 0, &[0; 8]);
    check("4.1", "unknown type", unknown, GoesOn);
    let flags = frame(FrameKind::PING, 0x16, 0, &[0; 8]);
    check("4.1", "undefined flags", flags, GoesOn);
    let reserved = frame(FrameKind::PING, 0, 1 << 31, &[0; 8]);
    check("4.1", "reserved bit", reserved, GoesOn);
    let most = [headers(0, 1, OK), data(END_STREAM, 1, &[0; 16_384])].concat();
    check("4.2", "DATA of 2^14", most, GoesOn);
    let more = [headers(0, 1, OK), data(END_STREAM, 1, &[0; 16_385])].concat();
    check("4.2", "DATA above 2^14", more, Connection(FrameSizeError));
    let head = [OK, &[0; 16_384]].concat();
    let more = headers(END_STREAM, 1, &head);
    check(
        "4.2",
        "HEADERS above 2^14",
        more,
        Connection(FrameSizeError),
    );
    let more = frame(FrameKind(0xee), 0, 0, &[0; 16_385]);
    check(
        "4.2",
        "unknown above 2^14",
        more,
        Connection(FrameSizeError),
    );
}

#[test]
fn header_compression() {
    let bad = headers(END_STREAM, 1, b"\x40");
    check("4.3", "bad block", bad, Connection(CompressionError));
    let between = [
        frame(FrameKind::HEADERS, END_STREAM, 1, OK),
        headers(END_STREAM, 3, OK),
    ]
    .concat();
    check("4.3", "HEADERS between", between, Connection(ProtocolError));
    for (section, name, block) in [
        ("hpack 2.3.3", "index above the tables", &b"\x88\xbe"[..]),
        (
            "hpack 2.3.3",
            "literal with such a name",
            b"\x88\x7f\x00\x01x",
        ),
        ("hpack 4.2", "table size at the end", b"\x88\x20"),
        (
            "hpack 5.2",
            "padding above 7 bits",
            b"\x88\x00\x01x\x82\x1f\xff",
        ),
        ("hpack 5.2", "padding of zeros", b"\x88\x00\x01x\x81\x18"),
        (
            "hpack 5.2",
            "end of string",
            b"\x88\x00\x01x\x84\xff\xff\xff\xff",
        ),
        ("hpack 6.1", "index 0", b"\x88\x80"),
        (
            "hpack 6.3",
            "table size above SETTINGS",
            b"\x3f\xe2\x1f\x88",
        ),
    ] {
        let script = headers(END_STREAM, 1, block);
        check(section, name, script, Connection(CompressionError));
    }
    let sizes = headers(END_STREAM, 1, b"\x20\x3f\xe1\x1f\x88");
    check("hpack 4.2", "two table sizes first", sizes, GoesOn);
}

#[test]
fn stream_states() {
    let idle = Connection(ProtocolError);
    check("5.1", "idle: DATA", data(0, 5, b"x"), idle);
    let reset = numbers(FrameKind::RST_STREAM, 5, &[8]);
    check("5.1", "idle: RST_STREAM", reset, idle);
    check("5.1", "idle: WINDOW_UPDATE", window_update(5, 1), idle);
    let alone = continuation(END_HEADERS, 5, OK);
    check("5.1", "idle: CONTINUATION", alone, idle);
    let even = headers(END_STREAM, 2, OK);
    check("5.1.1", "a stream of the server's", even, idle);
    check(
        "5.1.1",
        "a stream never opened",
        headers(END_STREAM, 101, OK),
        idle,
    );

    let ended = headers(END_STREAM, 1, OK);
    let was_reset = numbers(FrameKind::RST_STREAM, 1, &[8]);
    for (name, first) in [("ended", ended), ("reset", was_reset)] {
        let closed = Connection(StreamClosed);
        let then = |frame: Vec<u8>| [first.clone(), frame].concat();
        check("5.1", name, then(data(END_STREAM, 1, b"x")), closed);
        check("5.1", name, then(headers(END_STREAM, 1, OK)), closed);
        let protocol = Connection(ProtocolError);
        check(
            "5.1",
            name,
            then(continuation(END_HEADERS, 1, OK)),
            protocol,
        );
        check("5.1", name, then(window_update(1, 1)), GoesOn);
        let priority = frame(FrameKind::PRIORITY, 0, 1, &[0; 5]);
        check("5.1", name, then(priority), GoesOn);
    }
}

#[test]
fn errors_and_extensions() {
    let short = frame(FrameKind::PING, 0, 0, b"short");
    check("5.4.1", "a bad PING", short, Connection(FrameSizeError));
    let extension = frame(FrameKind(0x16), 0, 0, b"content");
    check("5.5", "an unknown frame", extension, GoesOn);
    let inside = [
        frame(FrameKind::HEADERS, END_STREAM, 1, OK),
        frame(FrameKind(0x16), 0, 0, b"content"),
    ]
    .concat();
    let protocol = Connection(ProtocolError);
    check("5.5", "an unknown frame in a block", inside, protocol);
}

#[test]
fn data_frames() {
    let protocol = Connection(ProtocolError);
    check("6.1", "stream 0", data(END_STREAM, 0, b"x"), protocol);
    let closed = [headers(END_STREAM, 1, OK), data(END_STREAM, 1, b"x")].concat();
    check("6.1", "closed stream", closed, Connection(StreamClosed));
    let padded = frame(FrameKind::DATA, PADDED | END_STREAM, 1, b"\x06test");
    let script = [headers(0, 1, OK), padded].concat();
    check("6.1", "padding above the payload", script, protocol);
    let early = data(END_STREAM, 1, b"x");
    check("8.1", "DATA before HEADERS", early, Stream(ProtocolError));
}

#[test]
fn headers_frames() {
    let protocol = Connection(ProtocolError);
    let between = [
        frame(FrameKind::HEADERS, END_STREAM, 1, OK),
        frame(FrameKind::PRIORITY, 0, 1, &[0, 0, 0, 0, 9]),
    ]
    .concat();
    check("6.2", "PRIORITY in a block", between, protocol);
    check("6.2", "stream 0", headers(END_STREAM, 0, OK), protocol);
    let flags = END_STREAM | END_HEADERS | PADDED;
    let padded = frame(FrameKind::HEADERS, flags, 1, b"\x02\x88");
    check("6.2", "padding above the payload", padded, protocol);
    let short = frame(FrameKind::HEADERS, flags | PRIORITY, 1, b"\0\0\0\0");
    check(
        "6.2",
        "no room for priority",
        short,
        Connection(FrameSizeError),
    );
    let padded = frame(
        FrameKind::HEADERS,
        flags | PRIORITY,
        1,
        b"\x01\0\0\0\0\x09\x88\0",
    );
    check("6.2", "padding and priority", padded, GoesOn);
}

#[test]
fn priority_reset_and_push() {
    let protocol = Connection(ProtocolError);
    let priority = |stream, len: usize| frame(FrameKind::PRIORITY, 0, stream, &vec![0; len]);
    check("6.3", "stream 0", priority(0, 5), protocol);
    check("6.3", "4 bytes", priority(1, 4), Stream(FrameSizeError));
    check("6.3", "an idle stream", priority(9, 5), GoesOn);
    let reset = |stream, len: usize| frame(FrameKind::RST_STREAM, 0, stream, &vec![0; len]);
    check("6.4", "stream 0", reset(0, 4), protocol);
    check("6.4", "idle stream", reset(5, 4), protocol);
    check("6.4", "3 bytes", reset(1, 3), Connection(FrameSizeError));
    let promise = frame(FrameKind::PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\x02\x82");
    check("6.6", "a push that we forbade", promise, protocol);
}

#[test]
fn settings_frames() {
    let protocol = Connection(ProtocolError);
    let size = Connection(FrameSizeError);
    let more = frame(FrameKind::SETTINGS, ACK, 0, &[0; 6]);
    check("6.5", "ACK with a payload", more, size);
    let on_stream = frame(FrameKind::SETTINGS, 0, 1, &[]);
    check("6.5", "on a stream", on_stream, protocol);
    let cut = frame(FrameKind::SETTINGS, 0, 0, &[0; 5]);
    check("6.5", "5 bytes", cut, size);
    let window = settings(&[(4, 1 << 31)]);
    check(
        "6.5.2",
        "window above 2^31 - 1",
        window,
        Connection(FlowControlError),
    );
    check(
        "6.5.2",
        "frame size below 2^14",
        settings(&[(5, 16_383)]),
        protocol,
    );
    check(
        "6.5.2",
        "frame size above 2^24 - 1",
        settings(&[(5, 1 << 24)]),
        protocol,
    );
    check("6.5.2", "push", settings(&[(2, 1)]), protocol);
    check("6.5.2", "push of 2", settings(&[(2, 2)]), protocol);
    check("6.5.2", "no push", settings(&[(2, 0)]), GoesOn);
    check("6.5.2", "unknown", settings(&[(0xff, 1)]), GoesOn);
}

#[test]
fn ping_and_goaway_frames() {
    let protocol = Connection(ProtocolError);
    check("6.7", "PING", frame(FrameKind::PING, 0, 0, &[1; 8]), GoesOn);
    check(
        "6.7",
        "PING ACK",
        frame(FrameKind::PING, ACK, 0, &[1; 8]),
        GoesOn,
    );
    check(
        "6.7",
        "on a stream",
        frame(FrameKind::PING, 0, 1, &[0; 8]),
        protocol,
    );
    let long = frame(FrameKind::PING, 0, 0, &[0; 9]);
    check("6.7", "9 bytes", long, Connection(FrameSizeError));
    check(
        "6.8",
        "on a stream",
        frame(FrameKind::GOAWAY, 0, 1, &[0; 8]),
        protocol,
    );
    let short = frame(FrameKind::GOAWAY, 0, 0, &[0; 7]);
    check("6.8", "7 bytes", short, Connection(FrameSizeError));
}

#[test]
fn window_update_frames() {
    let flow = Connection(FlowControlError);
    let protocol = Connection(ProtocolError);
    check("6.9", "by 0", window_update(0, 0), protocol);
    check(
        "6.9",
        "by 0 on a stream",
        window_update(1, 0),
        Stream(ProtocolError),
    );
    let short = frame(FrameKind::WINDOW_UPDATE, 0, 0, &[0; 3]);
    check("6.9", "3 bytes", short, Connection(FrameSizeError));
    let twice = [window_update(0, 0x7fff_ffff), window_update(0, 0x7fff_ffff)].concat();
    check("6.9.1", "above 2^31 - 1", twice, flow);
    let twice = [window_update(1, 0x7fff_ffff), window_update(1, 0x7fff_ffff)].concat();
    check(
        "6.9.1",
        "above 2^31 - 1 on a stream",
        twice,
        Stream(FlowControlError),
    );
}

#[test]
fn continuation_frames() {
    let protocol = Connection(ProtocolError);
    let open = frame(FrameKind::HEADERS, END_STREAM, 1, OK);
    let field = |n: u32| literal(&format!("x-{n}"), "y");
    let two = [
        open.clone(),
        continuation(0, 1, &field(1)),
        continuation(END_HEADERS, 1, &field(2)),
    ]
    .concat();
    check("6.10", "two of them", two, GoesOn);
    let other = [
        open.clone(),
        continuation(0, 1, &field(1)),
        data(0, 1, b"x"),
    ]
    .concat();
    check("6.10", "another frame behind", other, protocol);
    let on_zero = [open.clone(), continuation(END_HEADERS, 0, &field(1))].concat();
    check("6.10", "stream 0", on_zero, protocol);
    let on_other = [open.clone(), continuation(END_HEADERS, 3, &field(1))].concat();
    check("6.10", "another stream", on_other, protocol);
    let whole = [headers(0, 1, OK), continuation(END_HEADERS, 1, &field(1))].concat();
    check("6.10", "behind END_HEADERS", whole, protocol);
    let ended = [
        open,
        continuation(END_HEADERS, 1, &field(1)),
        continuation(END_HEADERS, 1, &field(2)),
    ]
    .concat();
    check("6.10", "behind its own END_HEADERS", ended, protocol);
    let behind_data = [
        headers(0, 1, OK),
        data(0, 1, b"x"),
        continuation(END_HEADERS, 1, &field(1)),
    ]
    .concat();
    check("6.10", "behind DATA", behind_data, protocol);
}

#[test]
fn messages() {
    let reset = Stream(ProtocolError);
    let with =
        |name: &str, value: &str| headers(END_STREAM, 1, &[OK, &literal(name, value)].concat());
    check("8.2.1", "upper case", with("X-Test", "y"), reset);
    check(
        "8.2.2",
        "connection",
        with("connection", "keep-alive"),
        reset,
    );
    check("8.3", "unknown pseudo-field", with(":test", "y"), reset);
    check(
        "8.3",
        "pseudo-field of requests",
        with(":method", "GET"),
        reset,
    );
    check(
        "8.3",
        "no :status",
        headers(END_STREAM, 1, &literal("x", "y")),
        reset,
    );
    let behind = headers(END_STREAM, 1, &[&literal("x", "y"), OK].concat());
    check("8.3", ":status behind a field", behind, reset);
    let twice = headers(END_STREAM, 1, b"\x88\x88");
    check("8.3", ":status twice", twice, reset);
    let trailers = [headers(0, 1, OK), headers(0, 1, &literal("x", "y"))].concat();
    check("8.1", "trailers that do not end", trailers, reset);
    let trailers = [headers(0, 1, OK), headers(END_STREAM, 1, b"\x88")].concat();
    check("8.1", "pseudo-field in trailers", trailers, reset);
    let length = with("content-length", "1");
    check("8.1.1", "a length without a body", length, reset);
}
