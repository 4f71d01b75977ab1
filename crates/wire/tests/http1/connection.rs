//! How a worker uses a connection: issuing, sending in parts, answers that come early,
//! connections that end.

use wallfinder_wire::http1::{Http1, Options, Request, Shared};
use wallfinder_wire::mix::{Ask, Template};
use wallfinder_wire::{Answer, Outcome, Transmit, Wire, WireError};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

fn shared_of(in_flight_max: u32) -> Shared {
    let options = Options {
        in_flight_max,
        ..Options::default()
    };
    Shared::new(&Request::get("localhost:8080", "/simple?x=1"), options).unwrap()
}

fn issue_all(http1: &mut Http1, shared: &Shared) -> Vec<u32> {
    (0..http1.room(shared))
        .map(|_| http1.issue(shared))
        .collect()
}

/// Sends all there is, at most `count_max` bytes at a time.
fn send_all(http1: &mut Http1, shared: &Shared, count_max: usize) -> Vec<u8> {
    let mut sent = Vec::new();
    while let Transmit::Block { start, len } = http1.poll_transmit(shared) {
        let count = len.min(count_max);
        sent.extend_from_slice(&shared.block()[start..start + count]);
        http1.handle_sent(shared, count);
    }
    sent
}

/// Takes one answer from the start of `bytes`.
fn answer(http1: &mut Http1, shared: &mut Shared, bytes: &[u8]) -> Answer {
    let taken = http1.handle_bytes(shared, bytes);
    match http1.poll_outcome() {
        Some(Outcome::Answered(answer)) => {
            assert_eq!(taken as u64, answer.wire_bytes);
            answer
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_burst_is_one_slice_and_its_answers_come_in_order() {
    let mut shared = shared_of(4);
    let mut http1 = Http1::open(&shared);
    for _ in 0..3 {
        assert_eq!(issue_all(&mut http1, &shared), [0, 1, 2, 3]);
        assert_eq!(http1.room(&shared), 0);
        let len = shared.block().len();
        assert_eq!(len, 4 * shared.request_bytes());
        let whole = Transmit::Block { start: 0, len };
        assert_eq!(http1.poll_transmit(&shared), whole);
        assert_eq!(http1.poll_transmit(&shared), whole, "until it is sent");
        http1.handle_sent(&shared, len);
        assert_eq!(http1.poll_transmit(&shared), Transmit::Idle);

        let bytes = ANSWER.repeat(4);
        for slot in 0..4 {
            let rest = &bytes[ANSWER.len() * slot as usize..];
            let expected = Answer {
                slot,
                status: 200,
                wire_bytes: ANSWER.len() as u64,
                body_bytes: 5,
                decoded_bytes: 0,
                reusable: true,
                is_last: false,
                call: None,
                judged: wallfinder_wire::Judged::ByStatus,
                redirects: None,
            };
            assert_eq!(answer(&mut http1, &mut shared, rest), expected);
        }
    }
}

#[test]
fn a_longer_form_is_issued_once_all_of_the_other_is_sent() {
    let options = Options {
        in_flight_max: 3,
        paddings: vec![14, 5_000],
        ..Options::default()
    };
    let mut shared = Shared::new(&Request::get("localhost:8080", "/x"), options).unwrap();
    let plain = shared.request_bytes();
    let mut http1 = Http1::open(&shared);
    http1.issue(&shared);
    let head = http1.poll_transmit(&shared);
    assert_eq!(
        head,
        Transmit::Block {
            start: 0,
            len: plain
        }
    );
    http1.handle_sent(&shared, 10);
    Http1::take_form(&mut shared, 2);
    http1.issue(&shared);
    // Ten bytes of the first are gone: what is issued beside its rest is of its form.
    assert_eq!(send_all(&mut http1, &shared, 7).len(), 2 * plain - 10);
    http1.issue(&shared);
    let padded = send_all(&mut http1, &shared, 1_000);
    assert_eq!(padded.len(), plain + 5_000);
    let text = String::from_utf8(padded).unwrap();
    assert!(text.contains("\r\nX-Padding: xx") && text.ends_with("x\r\n\r\n"));
    assert_eq!(text.matches("GET /x HTTP/1.1\r\n").count(), 1);
    for slot in [0, 1, 2] {
        assert_eq!(answer(&mut http1, &mut shared, ANSWER).slot, slot);
    }
    Http1::take_form(&mut shared, 1);
    http1.issue(&shared);
    assert_eq!(send_all(&mut http1, &shared, 3).len(), plain + 14);
    Http1::take_form(&mut shared, 0);
    http1.issue(&shared);
    assert_eq!(send_all(&mut http1, &shared, usize::MAX).len(), plain);
}

#[test]
fn padding_that_no_field_can_be_is_refused() {
    let options = Options {
        paddings: vec![13],
        ..Options::default()
    };
    let refused = Shared::new(&Request::get("localhost:8080", "/x"), options).unwrap_err();
    assert_eq!(refused.place(), "padding");
}

#[test]
fn slots_go_round_while_some_are_in_flight() {
    let mut shared = shared_of(3);
    let mut http1 = Http1::open(&shared);
    issue_all(&mut http1, &shared);
    for turn in 0..10 {
        send_all(&mut http1, &shared, usize::MAX);
        assert_eq!(answer(&mut http1, &mut shared, ANSWER).slot, turn % 3);
        assert_eq!(http1.room(&shared), 1);
        assert_eq!(http1.issue(&shared), turn % 3);
    }
}

#[test]
fn partial_sends_at_any_offset_leave_whole_requests_on_the_wire() {
    for count_max in 1..200 {
        let mut shared = shared_of(3);
        let mut http1 = Http1::open(&shared);
        let mut sent = Vec::new();
        let mut issued = issue_all(&mut http1, &shared).len();
        let mut answered = 0;
        for _ in 0..100 {
            if let Transmit::Block { start, len } = http1.poll_transmit(&shared) {
                let count = len.min(count_max);
                sent.extend_from_slice(&shared.block()[start..start + count]);
                http1.handle_sent(&shared, count);
            }
            if sent.len() >= (answered + 1) * shared.request_bytes() {
                answer(&mut http1, &mut shared, ANSWER);
                answered += 1;
            }
            issued += issue_all(&mut http1, &shared).len();
        }
        sent.extend(send_all(&mut http1, &shared, count_max));
        let request = &shared.block()[..shared.request_bytes()];
        assert_eq!(sent, request.repeat(issued), "{count_max} at a time");
    }
}

#[test]
fn the_range_is_as_long_as_the_block_allows() {
    let shared = shared_of(100_000);
    let len = shared.block().len();
    assert!(len <= 64 * 1024 && len > 64 * 1024 - shared.request_bytes());
    assert_eq!(len % shared.request_bytes(), 0);
    let mut http1 = Http1::open(&shared);
    issue_all(&mut http1, &shared);
    assert_eq!(
        http1.poll_transmit(&shared),
        Transmit::Block { start: 0, len }
    );
    http1.handle_sent(&shared, len - 1);
    let start = shared.request_bytes() - 1;
    let len = len - start;
    assert_eq!(http1.poll_transmit(&shared), Transmit::Block { start, len });
}

#[test]
fn a_request_longer_than_the_block_stands_there_once() {
    let options = Options {
        in_flight_max: 8,
        ..Options::default()
    };
    let request = Request::new("POST", "localhost", "/").body(vec![b'x'; 100_000]);
    let shared = Shared::new(&request, options).unwrap();
    assert_eq!(shared.block().len(), shared.request_bytes());
    let mut http1 = Http1::open(&shared);
    issue_all(&mut http1, &shared);
    let sent = send_all(&mut http1, &shared, 12_345);
    assert_eq!(sent, shared.block().repeat(8));
}

#[test]
fn an_answer_before_the_request_is_all_sent_counts_and_the_rest_is_still_sent() {
    let mut shared = shared_of(2);
    let mut http1 = Http1::open(&shared);
    issue_all(&mut http1, &shared);
    http1.poll_transmit(&shared);
    http1.handle_sent(&shared, 10);
    assert_eq!(answer(&mut http1, &mut shared, ANSWER).slot, 0);
    let rest = send_all(&mut http1, &shared, usize::MAX);
    assert_eq!(rest.len(), 2 * shared.request_bytes() - 10);
}

#[test]
fn an_answer_to_a_request_that_was_never_offered_is_unsolicited() {
    let mut shared = shared_of(2);
    let mut http1 = Http1::open(&shared);
    http1.issue(&shared);
    let unsolicited = Some(Outcome::Broken {
        slot: None,
        error: WireError::H1Unsolicited,
    });
    http1.handle_bytes(&mut shared, ANSWER);
    assert_eq!(http1.poll_outcome(), unsolicited);
    assert_eq!(http1.in_flight(), 1, "nothing became of the request");

    http1.reset(&shared);
    http1.issue(&shared);
    http1.poll_transmit(&shared);
    http1.issue(&shared);
    assert_eq!(answer(&mut http1, &mut shared, ANSWER).slot, 0);
    http1.handle_bytes(&mut shared, ANSWER);
    assert_eq!(
        http1.poll_outcome(),
        unsolicited,
        "the second was not offered"
    );
}

#[test]
fn after_a_last_answer_there_is_no_room_and_nothing_to_send() {
    let mut shared = shared_of(4);
    let mut http1 = Http1::open(&shared);
    http1.issue(&shared);
    send_all(&mut http1, &shared, usize::MAX);
    http1.issue(&shared);
    assert!(!answer(&mut http1, &mut shared, LAST).reusable);
    assert_eq!(http1.room(&shared), 0);
    assert_eq!(http1.poll_transmit(&shared), Transmit::Idle);
    assert_eq!(http1.in_flight(), 1, "abandoned with the connection");
}

#[test]
fn once_an_answer_says_it_is_the_last_only_its_own_request_is_finished() {
    let mut shared = shared_of(4);
    let mut http1 = Http1::open(&shared);
    for _ in 0..3 {
        http1.issue(&shared);
    }
    http1.poll_transmit(&shared);
    http1.handle_sent(&shared, 10);
    http1.handle_bytes(&mut shared, &LAST[..LAST.len() - 1]);
    assert_eq!(http1.room(&shared), 0);
    let start = 10;
    let len = shared.request_bytes() - 10;
    assert_eq!(http1.poll_transmit(&shared), Transmit::Block { start, len });
    http1.handle_sent(&shared, len);
    assert_eq!(http1.poll_transmit(&shared), Transmit::Idle);
    assert!(!answer_end(&mut http1, &mut shared).reusable);
}

#[test]
fn bytes_that_were_offered_may_be_confirmed_after_the_last_answer_has_begun() {
    let mut shared = shared_of(3);
    let mut http1 = Http1::open(&shared);
    issue_all(&mut http1, &shared);
    http1.poll_transmit(&shared);
    http1.handle_bytes(&mut shared, &LAST[..LAST.len() - 1]);
    http1.poll_transmit(&shared);
    http1.handle_sent(&shared, shared.block().len());
    assert_eq!(http1.poll_transmit(&shared), Transmit::Idle);
    assert!(!answer_end(&mut http1, &mut shared).reusable);
}

#[test]
fn a_known_head_inside_of_another_is_not_an_answer() {
    let mut shared = shared_of(1);
    let mut http1 = Http1::open(&shared);
    http1.issue(&shared);
    send_all(&mut http1, &shared, usize::MAX);
    answer(&mut http1, &mut shared, ANSWER);

    http1.issue(&shared);
    send_all(&mut http1, &shared, usize::MAX);
    let start = b"HTTP/1.1 200 OK\r\nX: ";
    http1.handle_bytes(&mut shared, start);
    http1.handle_bytes(&mut shared, ANSWER);
    let Some(Outcome::Answered(answer)) = http1.poll_outcome() else {
        panic!("an answer is whole");
    };
    assert_eq!(answer.wire_bytes as usize, start.len() + ANSWER.len());
}

fn answer_end(http1: &mut Http1, shared: &mut Shared) -> Answer {
    http1.handle_bytes(shared, &LAST[LAST.len() - 1..]);
    match http1.poll_outcome() {
        Some(Outcome::Answered(answer)) => answer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_request_for_each_connection_is_never_reusable() {
    let options = Options {
        in_flight_max: 8,
        connection_per_request: true,
        ..Options::default()
    };
    let by_option = Shared::new(&Request::get("localhost", "/"), options).unwrap();
    let request = Request::get("localhost", "/").header("connection", "Close");
    let by_header = Shared::new(&request, Options::default()).unwrap();
    for mut shared in [by_option, by_header] {
        let text = String::from_utf8(shared.block().to_vec()).unwrap();
        assert_eq!(text.to_lowercase().matches("connection: close").count(), 1);
        let mut http1 = Http1::open(&shared);
        for _ in 0..3 {
            assert_eq!(http1.room(&shared), 1);
            http1.issue(&shared);
            assert_eq!(http1.room(&shared), 0);
            send_all(&mut http1, &shared, usize::MAX);
            assert!(!answer(&mut http1, &mut shared, ANSWER).reusable);
            assert_eq!(http1.room(&shared), 0);
            http1.reset(&shared);
        }
    }
}

#[test]
fn persistence_follows_version_and_connection_options() {
    for (version, connection, reusable) in [
        ("1.1", None, true),
        ("1.1", Some("close"), false),
        ("1.1", Some("CLOSE"), false),
        ("1.1", Some("foo, Close ,bar"), false),
        ("1.1", Some("closed"), true),
        ("1.1", Some("keep-alive"), true),
        ("1.1", Some("keep-alive, close"), false),
        ("1.0", None, false),
        ("1.0", Some("keep-alive"), true),
        ("1.0", Some("Keep-Alive"), true),
        ("1.0", Some("keep-alive, close"), false),
        ("1.0", Some("upgrade"), false),
    ] {
        let line = connection.map_or(String::new(), |value| format!("Connection: {value}\r\n"));
        let script = format!("HTTP/{version} 200 OK\r\n{line}Content-Length: 0\r\n\r\n");
        let mut shared = shared_of(1);
        for _ in ["cold", "warm"] {
            let mut http1 = Http1::open(&shared);
            http1.issue(&shared);
            send_all(&mut http1, &shared, usize::MAX);
            let answer = answer(&mut http1, &mut shared, script.as_bytes());
            assert_eq!(answer.reusable, reusable, "{script}");
        }
    }
}

#[test]
fn a_reset_forgets_everything() {
    let mut shared = shared_of(3);
    let mut http1 = Http1::open(&shared);
    for bytes in [
        &ANSWER[..3],
        &ANSWER[..40],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
        b"HTTP/1.1 200 OK\r\n\r\nhe",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"garbage",
        LAST,
    ] {
        issue_all(&mut http1, &shared);
        http1.poll_transmit(&shared);
        http1.handle_sent(&shared, 7);
        http1.handle_bytes(&mut shared, bytes);
        http1.reset(&shared);
        assert_eq!(http1.poll_outcome(), None);
        assert_eq!((http1.answering(), http1.room(&shared)), (None, 3));
        assert_eq!(http1.poll_transmit(&shared), Transmit::Idle);
        assert_eq!(http1.issue(&shared), 0);
        let request = &shared.block()[..shared.request_bytes()];
        assert_eq!(send_all(&mut http1, &shared, 1), request);
        assert!(answer(&mut http1, &mut shared, ANSWER).reusable);
        http1.reset(&shared);
    }
}

#[test]
fn a_broken_connection_swallows_what_follows() {
    let mut shared = shared_of(2);
    let mut http1 = Http1::open(&shared);
    issue_all(&mut http1, &shared);
    send_all(&mut http1, &shared, usize::MAX);
    http1.handle_bytes(&mut shared, b"garbage");
    assert!(matches!(
        http1.poll_outcome(),
        Some(Outcome::Broken { slot: Some(0), .. })
    ));
    assert_eq!(http1.handle_bytes(&mut shared, ANSWER), ANSWER.len());
    http1.handle_eof(&mut shared);
    assert_eq!(http1.poll_outcome(), None);
    assert_eq!((http1.answering(), http1.room(&shared)), (None, 0));
}

#[test]
#[should_panic(expected = "issued without room")]
fn issuing_without_room_is_the_workers_own_bug() {
    let shared = shared_of(1);
    let mut http1 = Http1::open(&shared);
    http1.issue(&shared);
    http1.issue(&shared);
}

#[test]
#[should_panic(expected = "bytes of")]
fn sending_more_than_was_offered_is_the_workers_own_bug() {
    let shared = shared_of(1);
    let mut http1 = Http1::open(&shared);
    http1.issue(&shared);
    http1.poll_transmit(&shared);
    http1.handle_sent(&shared, shared.block().len() + 1);
}

#[test]
fn a_connections_state_is_small() {
    assert!(size_of::<Http1>() <= 256, "{}", size_of::<Http1>());
}

/// Requests of several kinds, which differ in length and in what they ask.
fn shared_of_kinds(in_flight_max: u32) -> Shared {
    let get = Request::get("localhost:8080", "/a");
    let long = Request::get("localhost:8080", "/a/longer/one?x=1").header("X-More", "and more");
    let post = Request::new("POST", "localhost:8080", "/c").body("a body");
    let options = Options {
        in_flight_max,
        ..Options::default()
    };
    let [get, long, post] = [get, long, post].map(|request| Template::from(&request));
    Shared::of_kinds(&[&get, &long, &post], options).unwrap()
}

fn of_kind(kind: u16) -> Ask {
    Ask {
        kind,
        ..Ask::default()
    }
}

fn kind_of(text: &str) -> u16 {
    match text {
        text if text.starts_with("GET /a HTTP") => 0,
        text if text.starts_with("GET /a/longer") => 1,
        text if text.starts_with("POST /c") => 2,
        other => panic!("{other}"),
    }
}

#[test]
fn kinds_go_out_in_the_order_of_their_issue_however_they_are_sent() {
    let kinds = [0, 0, 1, 2, 2, 0, 1, 1, 2, 0];
    for count_max in [1, 7, 64, usize::MAX] {
        let mut shared = shared_of_kinds(4);
        let mut http1 = Http1::open(&shared);
        let mut left = kinds.iter().copied().peekable();
        let mut seen = Vec::new();
        let mut answered = 0;
        while answered < kinds.len() {
            while http1.room(&shared) > 0
                && let Some(kind) = left.next()
            {
                http1.issue_one(&shared, of_kind(kind));
                // Part of it, and more is issued behind.
                if let Transmit::Block { start, len } = http1.poll_transmit(&shared) {
                    let count = len.min(count_max).min(5);
                    seen.extend_from_slice(&shared.block()[start..start + count]);
                    http1.handle_sent(&shared, count);
                }
            }
            seen.extend(send_all(&mut http1, &shared, count_max));
            answer(&mut http1, &mut shared, ANSWER);
            answered += 1;
        }
        let text = String::from_utf8(seen).unwrap();
        let starts = text.match_indices("HTTP/1.1").map(|(at, _)| {
            let before = text[..at].rfind("GET ").max(text[..at].rfind("POST "));
            kind_of(&text[before.unwrap()..])
        });
        assert_eq!(starts.collect::<Vec<u16>>(), kinds, "at most {count_max}");
    }
}

#[test]
fn an_answer_to_a_kind_of_which_nothing_was_sent_is_unsolicited() {
    let mut shared = shared_of_kinds(3);
    let mut http1 = Http1::open(&shared);
    for kind in [0, 2] {
        http1.issue_one(&shared, of_kind(kind));
    }
    let Transmit::Block { len, .. } = http1.poll_transmit(&shared) else {
        panic!("there is something to send")
    };
    http1.handle_sent(&shared, len);
    answer(&mut http1, &mut shared, ANSWER);
    http1.handle_bytes(&mut shared, ANSWER);
    let broken = http1.poll_outcome();
    assert!(
        matches!(
            broken,
            Some(Outcome::Broken {
                error: WireError::H1Unsolicited,
                ..
            })
        ),
        "{broken:?}"
    );
    // The next connection begins anew.
    http1.reset(&shared);
    http1.issue_one(&shared, of_kind(1));
    let sent = String::from_utf8(send_all(&mut http1, &shared, 9)).unwrap();
    assert_eq!(kind_of(&sent), 1);
    answer(&mut http1, &mut shared, ANSWER);
}

#[test]
fn kinds_that_cannot_share_a_connection_are_refused() {
    let get = Template::from(&Request::get("h", "/"));
    let of = |other: &Request| {
        let other = Template::from(other);
        Shared::of_kinds(&[&get, &other], Options::default()).map(drop)
    };
    let head = of(&Request::new("HEAD", "h", "/")).unwrap_err();
    assert!(head.to_string().contains("HEAD for some"), "{head}");
    let closing = of(&Request::get("h", "/").header("Connection", "close")).unwrap_err();
    assert!(closing.to_string().contains("closes for some"), "{closing}");
    assert!(Shared::of_kinds(&[], Options::default()).is_err());
}
