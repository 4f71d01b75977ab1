//! An HTTP/2 connection allocates nothing once it is open and warm, and nothing when it is
//! opened again, whether its requests are calls of gRPC or not. Its own test binary, since it
//! replaces the allocator.

use wallfinder_sys::allocator::{Watchful, broken_promises, forbid, permit};
use wallfinder_wire::http2::{Http2, Options, Shared};
use wallfinder_wire::{Answer, Outcome, Request, Transmit, Wire, grpc};

#[path = "../../wire/tests/http2/mirror.rs"]
mod mirror;

use mirror::Mirror;

#[global_allocator]
static ALLOCATOR: Watchful = Watchful;

#[test]
fn a_connection_allocates_nothing_after_it_is_opened() {
    {
        let _promise = forbid();
        std::hint::black_box(Box::new(1));
    }
    assert_eq!(
        broken_promises(),
        1,
        "the allocator must notice what it is there to notice"
    );
    for (streams, request_bytes, answer_bytes, read_bytes) in [
        (1, 0, 14, 64 * 1024),
        (100, 0, 4096, 64 * 1024),
        (10, 5_000, 16_000, 64 * 1024),
        (10, 0, 14, 7),
    ] {
        let request = Request::new("POST", "localhost:8080", "/").body(vec![b'b'; request_bytes]);
        let shared = Shared::new(&request, options(streams)).unwrap();
        let mirror = || Mirror::new(answer_bytes);
        converse(shared, mirror, read_bytes, |answer| answer.status == 200);
    }
    for (streams, request_bytes, messages, message_bytes, read_bytes) in [
        (1, 0, 1, 14, 64 * 1024),
        (100, 64, 1, 64, 64 * 1024),
        (10, 5_000, 1, 16_000, 64 * 1024),
        (10, 5_000, 100, 100, 64 * 1024),
        (10, 14, 3, 0, 7),
    ] {
        let call = grpc::Request {
            kind: grpc::Kind::ServerStreaming,
            ..grpc::Request::unary("localhost:8080", "/a.B/C", vec![b'b'; request_bytes])
        };
        let shared = grpc::shared(&call, options(streams)).unwrap();
        let mut message = vec![0; 5 + message_bytes];
        message[1..5].copy_from_slice(&(message_bytes as u32).to_be_bytes());
        let mirror = || Mirror::of_calls(&message.repeat(messages));
        let expected = grpc::Call {
            messages: messages as u32,
            error: None,
        };
        converse(shared, mirror, read_bytes, |answer| {
            answer.call == Some(expected)
        });
    }
}

fn options(streams: u32) -> Options {
    Options {
        in_flight_max: streams,
        connection_window_bytes: 1 << 20,
        stream_window_bytes: 20_000,
        ..Options::default()
    }
}

/// Three connections, one after the other, each of many rounds, that promise not to allocate.
fn converse(
    mut shared: Shared,
    mirror: impl Fn() -> Mirror,
    read_bytes: usize,
    is_good: impl Fn(&Answer) -> bool,
) {
    let noticed = broken_promises();
    let mut http2 = Http2::open(&shared);
    let mut buffer = vec![0; 64 * 1024];
    let mut answers = Vec::with_capacity(4 << 20);
    let mut answered = 0;
    for connection in 0..3 {
        let mut mirror = mirror();
        let _promise = forbid();
        for _ in 0..30 {
            while http2.room(&shared) > 0 {
                http2.issue(&shared);
            }
            answers.clear();
            while http2.poll_transmit(&shared) == Transmit::Own {
                let len = http2.write(&shared, &mut buffer);
                let _permit = permit();
                mirror.answer(&buffer[..len], &mut answers);
            }
            answered += read(&mut http2, &mut shared, &answers, read_bytes, &is_good);
        }
        http2.reset(&shared);
        assert_eq!(broken_promises(), noticed, "connection {connection}");
    }
    assert!(answered >= 3 * 13, "{answered} answers");
}

fn read(
    http2: &mut Http2,
    shared: &mut Shared,
    answers: &[u8],
    read_bytes: usize,
    is_good: &impl Fn(&Answer) -> bool,
) -> usize {
    let mut answered = 0;
    for mut piece in answers.chunks(read_bytes) {
        while !piece.is_empty() {
            let taken = http2.handle_bytes(shared, piece);
            piece = &piece[taken..];
            while let Some(outcome) = http2.poll_outcome() {
                let is_whole = matches!(&outcome, Outcome::Answered(answer) if is_good(answer));
                assert!(is_whole, "another outcome, and {:?}", shared.fault());
                answered += 1;
            }
        }
        while http2.poll_begun().is_some() {}
    }
    answered
}
