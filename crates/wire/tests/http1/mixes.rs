//! Mixes: what is filled in, however it is written; and what answers are found to be.

use std::sync::Arc;

use proptest::prelude::*;
use wallfinder_wire::http1::{Http1, Options, Ready, Request, Shared};
use wallfinder_wire::mix::{
    Ask, Check, Expect, Follow, JsonIs, Mix, Order, Piece, Prefix, Row, Scalar, Slot, Source,
    Spelling, Table, Take, Template, Text, Value,
};
use wallfinder_wire::{Answer, Judged, Outcome, Redirect, Transmit, Wire, WireError};

fn slot(value: Value, spelling: Spelling) -> Piece {
    Piece::Slot(Slot { value, spelling })
}

fn fixed(text: &str) -> Piece {
    Piece::Fixed(text.as_bytes().to_vec())
}

/// A POST with a column in its path, a field and its body, and a GET with what was taken.
fn mix(rows: &[&str]) -> Mix {
    let column = Value::Column {
        table: 0,
        column: 0,
    };
    let post = Request::new("POST", "h", "/x").header("X-Row", "x");
    let get = Request::get("h", "/mine").header("Authorization", "x");
    let mut mix = Mix::of_requests([("post", 1, post), ("get", 1, get)]);
    mix.tables = vec![Table {
        name: "rows".to_owned(),
        order: Order::InOrder,
        columns: vec!["value".to_owned()],
        cells: rows
            .iter()
            .map(|row| Row(vec![row.as_bytes().to_vec()]))
            .collect::<Vec<Row>>()
            .into(),
    }];
    mix.variables = 1;
    mix.origins = vec!["http://h".to_owned()];
    let of_post: &mut Template = &mut mix.kinds[0].request;
    of_post.target = Text(vec![fixed("/a?q="), slot(column, Spelling::Url)]);
    of_post.headers[0].1 = Text(vec![slot(column, Spelling::Url)]);
    of_post.body = Text(vec![
        fixed("{\"v\":\""),
        slot(column, Spelling::Json),
        fixed("\"}"),
    ]);
    let of_get = &mut mix.kinds[1].request;
    of_get.headers[0].1 = Text(vec![
        fixed("Bearer "),
        slot(Value::Variable(0), Spelling::Raw),
    ]);
    mix
}

fn shared(mix: &Mix, in_flight_max: u32) -> Shared {
    let options = Options {
        in_flight_max,
        ..Options::default()
    };
    let ready = Ready::of(mix, 7, &options).expect("it is one");
    Shared::of_mix(&Arc::new(ready), options).expect("it can be encoded")
}

fn ask(kind: u16, draw: u32) -> Ask {
    Ask {
        kind,
        draw,
        is_fresh: kind == 0,
    }
}

/// Writes all there is, so many bytes at a time.
fn written(http1: &mut Http1, shared: &Shared, room: usize) -> String {
    let mut all = Vec::new();
    let mut into = vec![0; room];
    while http1.poll_transmit(shared) == Transmit::Own {
        let len = http1.write(shared, &mut into);
        assert!(len > 0, "it said that there is something");
        all.extend_from_slice(&into[..len]);
    }
    String::from_utf8(all).expect("it is text")
}

fn answered(http1: &mut Http1, shared: &mut Shared, answer: &str) -> Answer {
    let mut bytes = answer.as_bytes();
    loop {
        let taken = http1.handle_bytes(shared, bytes);
        bytes = &bytes[taken..];
        match http1.poll_outcome() {
            Some(Outcome::Answered(answer)) => return answer,
            Some(other) => panic!("{other:?}"),
            None => assert!(taken > 0, "the answer is not whole"),
        }
    }
}

fn ok(fields: &str, body: &str) -> String {
    let len = body.len();
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {len}\r\n\r\n{body}")
}

proptest! {
    /// The same bytes, however little there is room for at a time; the length that is announced is that of the body, and
    /// the body is JSON with the value in it.
    #[test]
    fn requests_are_the_same_however_they_are_written(
        rows in prop::collection::vec("\\PC{0,12}|[\\x01-\\x7f]{0,6}", 1..4),
        draws in prop::collection::vec(0_u32..9, 1..5),
        room in 1_usize..90,
    ) {
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let mix = mix(&rows);
        let shared = shared(&mix, 5);
        let sent = |room: usize| {
            let mut http1 = Http1::open(&shared);
            for draw in &draws {
                http1.issue_one(&shared, ask(0, *draw));
            }
            written(&mut http1, &shared, room)
        };
        let whole = sent(64 * 1024);
        prop_assert_eq!(&sent(room), &whole);
        let mut rest = whole.as_str();
        for draw in &draws {
            let (head, behind) = rest.split_once("\r\n\r\n").expect("a head ends");
            let said = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let (body, next) = behind.split_at(said.expect("it is announced").parse().unwrap());
            let value: serde_json::Value = serde_json::from_str(body).expect("it is JSON");
            prop_assert_eq!(value["v"].as_str(), Some(rows[*draw as usize % rows.len()]));
            let line = head.lines().next().unwrap_or_default();
            prop_assert_eq!(line.split(' ').count(), 3, "{}", line);
            rest = next;
        }
        prop_assert_eq!(rest, "");
    }
}

#[test]
fn bytes_of_requests_are_counted_by_kind_as_they_are_written() {
    let shared = shared(&mix(&["one"]), 5);
    let mut http1 = Http1::open(&shared);
    let [of_post, of_get] = [0, 1].map(|kind| {
        http1.issue_one(&shared, ask(kind, 0));
        written(&mut http1, &shared, 7).len() as u64
    });
    assert!(of_post > of_get && of_get > 0, "{of_post} {of_get}");
    let counted = [0, 1].map(|kind| Http1::sent_bytes(&shared, kind, 1));
    assert_eq!(counted, [of_post, of_get]);
}

#[test]
fn what_was_taken_is_sent_on_and_forgotten_with_its_user() {
    let mut mix = mix(&["a"]);
    mix.kinds[0].expect.takes = vec![Take {
        variable: 0,
        from: Source::Json("/t".to_owned()),
        fits: Vec::new(),
    }];
    let mut shared = shared(&mix, 1);
    let mut http1 = Http1::open(&shared);
    http1.issue_one(&shared, ask(0, 0));
    written(&mut http1, &shared, 999);
    let answer = answered(&mut http1, &mut shared, &ok("", "{\"t\": \"a\\u0062c\"}"));
    assert_eq!(answer.judged, Judged::ByStatus);
    // Whoever opens the connection anew is the same user.
    http1.reset(&shared);
    http1.issue_one(&shared, ask(1, 0));
    let sent = written(&mut http1, &shared, 7);
    assert!(sent.contains("Authorization: Bearer abc\r\n"), "{sent}");
    answered(&mut http1, &mut shared, &ok("", ""));
    http1.issue_one(&shared, ask(0, 0));
    written(&mut http1, &shared, 999);
    // What is not there, or would end a line, fails the step by a class of its own.
    for body in ["{\"u\": 1}", "{\"t\": \"a\\r\\nX: y\"}", ""] {
        let answer = answered(&mut http1, &mut shared, &ok("", body));
        assert_eq!(answer.judged, Judged::Bad(WireError::TakeMissing), "{body}");
        http1.issue_one(&shared, ask(0, 0));
        written(&mut http1, &shared, 999);
    }
}

#[test]
fn a_pattern_that_others_backtrack_on_is_sought_in_one_pass() {
    let mut mix = mix(&["a"]);
    mix.kinds[0].expect.takes = vec![Take {
        variable: 0,
        // A search that tries every way to cut the body up would try 2^65535 of them.
        from: Source::Regex("^(a+)+(a+)+$".to_owned()),
        fits: Vec::new(),
    }];
    let mut shared = shared(&mix, 1);
    let mut http1 = Http1::open(&shared);
    for (body, bad) in [
        (
            format!("{}b", "a".repeat(65_535)),
            Some(WireError::TakeMissing),
        ),
        ("aa".to_owned(), None),
    ] {
        http1.issue_one(&shared, ask(0, 0));
        written(&mut http1, &shared, 999);
        let answer = answered(&mut http1, &mut shared, &ok("", &body));
        let judged = bad.map_or(Judged::ByStatus, Judged::Bad);
        assert_eq!(answer.judged, judged, "{} B", body.len());
    }
}

#[test]
fn what_could_not_be_taken_keeps_its_former_value() {
    let mut mix = mix(&["a"]);
    mix.kinds[0].expect.takes = vec![Take {
        variable: 0,
        from: Source::Json("/t".to_owned()),
        fits: vec![Scalar::Int64],
    }];
    let mut shared = shared(&mix, 1);
    let mut http1 = Http1::open(&shared);
    let again = Ask {
        is_fresh: false,
        ..ask(0, 0)
    };
    let long = format!("{{\"t\": \"{}\"}}", "1".repeat(9_000));
    for (body, bad) in [
        ("{\"t\": \"12\"}", None),
        ("{\"t\": \"3\\r\\n\"}", Some(WireError::TakeMissing)),
        ("{\"t\": \"4\\q\"}", Some(WireError::TakeMissing)),
        (long.as_str(), Some(WireError::TakeTooLong)),
        ("{\"t\": \"x\"}", Some(WireError::TakeUnfit)),
        ("{\"t\": true}", Some(WireError::TakeUnfit)),
        ("", Some(WireError::TakeMissing)),
    ] {
        http1.issue_one(&shared, again);
        written(&mut http1, &shared, 999);
        let answer = answered(&mut http1, &mut shared, &ok("", body));
        let judged = bad.map_or(Judged::ByStatus, Judged::Bad);
        assert_eq!(answer.judged, judged, "{body}");
        http1.issue_one(&shared, ask(1, 0));
        let sent = written(&mut http1, &shared, 999);
        assert!(
            sent.contains("Authorization: Bearer 12\r\n"),
            "{body}: {sent}"
        );
        answered(&mut http1, &mut shared, &ok("", ""));
    }
}

#[test]
fn answers_are_held_against_their_checks_in_the_order_of_requests() {
    let mut mix = mix(&["a"]);
    mix.kinds[0].expect = Expect {
        statuses: vec![(200, 201)],
        checks: vec![
            Check::Header("x-a".to_owned(), "b".to_owned()),
            Check::Json("/n".to_owned(), JsonIs::Plain("1".to_owned())),
            Check::Length(1, 20),
        ],
        ..Expect::default()
    };
    let mut shared = shared(&mix, 4);
    let mut http1 = Http1::open(&shared);
    for kind in [0, 1, 0, 0] {
        http1.issue_one(&shared, ask(kind, 0));
    }
    written(&mut http1, &shared, 64);
    for (answer, judged) in [
        (ok("X-A: abc\r\n", "{\"n\": 1}"), Judged::Good),
        // Of the other kind nothing is asked.
        (ok("", "x"), Judged::ByStatus),
        (
            ok("X-A: a\r\n", "{\"n\": 1}"),
            Judged::Bad(WireError::CheckHeader),
        ),
        (
            ok("X-A: b\r\n", "{\"n\": 2}"),
            Judged::Bad(WireError::CheckJson),
        ),
    ] {
        assert_eq!(
            answered(&mut http1, &mut shared, &answer).judged,
            judged,
            "{answer}"
        );
    }
    http1.issue_one(&shared, ask(0, 0));
    written(&mut http1, &shared, 64);
    let other = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    let judged = answered(&mut http1, &mut shared, other).judged;
    assert_eq!(judged, Judged::Bad(WireError::CheckStatus));
}

#[test]
fn a_compressed_body_is_not_looked_into() {
    let mut mix = mix(&["a"]);
    mix.kinds[0].expect.checks = vec![Check::BodyHas(b"x".to_vec())];
    mix.kinds[1].expect.checks = vec![Check::Length(1, 1)];
    let mut shared = shared(&mix, 1);
    let mut http1 = Http1::open(&shared);
    let coded = ok("Content-Encoding: gzip\r\n", "x");
    let plain = ok("Content-Encoding: identity\r\n", "x");
    for (kind, answer, judged) in [
        (0, &plain, Judged::ByStatus),
        (0, &coded, Judged::Bad(WireError::CheckCoded)),
        // It is remembered by its head.
        (0, &coded, Judged::Bad(WireError::CheckCoded)),
        // Of the other kind the length alone is asked.
        (1, &coded, Judged::ByStatus),
    ] {
        http1.issue_one(&shared, ask(kind, 0));
        written(&mut http1, &shared, 99);
        let found = answered(&mut http1, &mut shared, answer).judged;
        assert_eq!(found, judged, "{kind}: {answer}");
    }
}

#[test]
fn cookies_and_redirects_lead_on() {
    let mut mix = mix(&["a"]);
    mix.kinds[0].expect.follow = Follow::Yes;
    mix.kinds[1].expect.follow = Follow::Spent;
    mix.kinds[1].request.target = Text(vec![slot(Value::Location, Spelling::Path)]);
    for kind in &mut mix.kinds {
        kind.expect.keeps_cookies = true;
    }
    let mut shared = shared(&mix, 1);
    let mut http1 = Http1::open(&shared);
    let redirect = |status: u16, to: &str| {
        format!(
            "HTTP/1.1 {status} X\r\nSet-Cookie: sid=1; Path=/\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"
        )
    };
    for (to, wanted) in [
        ("/b?c=d", "/b?c=d"),
        ("http://h/b?d", "/b?d"),
        ("b/../c?d", "/c?d"),
        ("?page=2", "/a?page=2"),
    ] {
        http1.issue_one(&shared, ask(0, 0));
        let sent = written(&mut http1, &shared, 99);
        assert!(!sent.contains("Cookie:"), "{sent}");
        let answer = answered(&mut http1, &mut shared, &redirect(303, to));
        assert!(
            answer.redirects == Some(Redirect::ToGet) && answer.judged == Judged::Good,
            "{answer:?}"
        );
        http1.issue_one(&shared, ask(1, 0));
        let sent = written(&mut http1, &shared, 99);
        assert!(
            sent.starts_with(&format!("GET {wanted} HTTP/1.1\r\n")),
            "{sent}"
        );
        assert!(sent.contains("Cookie: sid=1\r\n"), "{sent}");
        // It leads on once more, which is too often.
        let answer = answered(&mut http1, &mut shared, &redirect(302, "/again"));
        assert_eq!(answer.judged, Judged::Bad(WireError::RedirectTooMany));
    }
    for (status, to, error) in [
        (302, "http://other/", WireError::RedirectElsewhere),
        (302, "//other/", WireError::RedirectElsewhere),
        (302, "mailto:ann", WireError::RedirectElsewhere),
        (302, "/a b", WireError::RedirectTarget),
    ] {
        http1.issue_one(&shared, ask(0, 0));
        written(&mut http1, &shared, 99);
        let answer = answered(&mut http1, &mut shared, &redirect(status, to));
        assert_eq!(answer.judged, Judged::Bad(error), "{to}");
        assert_eq!(answer.redirects, None);
    }
    // The method and the body are kept.
    http1.issue_one(&shared, ask(0, 0));
    written(&mut http1, &shared, 99);
    let answer = answered(&mut http1, &mut shared, &redirect(307, "/b"));
    assert_eq!(answer.redirects, Some(Redirect::AsItIs));
}

/// RFC 6265, 5.4: no more than one such line.
#[test]
fn a_requests_own_cookies_stand_on_one_line_with_those_that_are_kept() {
    let mut mix = mix(&["a"]);
    for kind in &mut mix.kinds {
        kind.expect.keeps_cookies = true;
    }
    let of_get = &mut mix.kinds[1].request;
    for own in ["theme=dark", "lang=de"] {
        let cookie = ("cookie".to_owned(), Text(vec![fixed(own)]));
        of_get.headers.insert(0, cookie);
    }
    let mut shared = shared(&mix, 1);
    let mut http1 = Http1::open(&shared);
    for (kind, cookies) in [
        (0, ""),
        (1, "Cookie: lang=de; theme=dark; sid=1\r\n"),
        // Another user begins.
        (0, ""),
    ] {
        http1.issue_one(&shared, ask(kind, 0));
        let sent = written(&mut http1, &shared, 9);
        let lines = sent.split_inclusive("\r\n");
        let lines: String = lines
            .filter(|line| line.to_lowercase().starts_with("cookie:"))
            .collect();
        assert_eq!(lines, cookies, "{sent}");
        answered(&mut http1, &mut shared, &ok("Set-Cookie: sid=1\r\n", "x"));
    }
    let mut fresh = Http1::open(&shared);
    fresh.issue_one(&shared, ask(1, 0));
    let sent = written(&mut fresh, &shared, 99);
    assert!(sent.contains("Cookie: lang=de; theme=dark\r\n"), "{sent}");
}

#[test]
fn what_is_known_is_renewed_for_requests_that_have_not_begun() {
    let mut mix = mix(&["a"]);
    let known = |nth| slot(Value::Known(nth), Spelling::Raw);
    mix.known.renew(vec![b"first".to_vec()]);
    let of_post = &mut mix.kinds[0].request;
    of_post.headers[0].1 = Text(vec![known(0)]);
    of_post.body = Text(vec![known(0), fixed("|"), known(0)]);
    let mut shared = shared(&mix, 3);
    let mut http1 = Http1::open(&shared);
    for _ in 0..3 {
        http1.issue_one(&shared, ask(0, 0));
    }
    let mut sent = Vec::new();
    let mut write = |http1: &mut Http1, shared: &Shared, room: usize| {
        let mut into = vec![0; room];
        let len = http1.write(shared, &mut into);
        sent.extend_from_slice(&into[..len]);
    };
    // All of the first request, and a part of the second.
    let one = "POST /a?q=a HTTP/1.1\r\n".len() + 60;
    write(&mut http1, &shared, 2 * one);
    mix.known.renew(vec![b"another".to_vec()]);
    Http1::take_known(&mut shared, &mix.known.now());
    write(&mut http1, &shared, 9999);
    let sent = String::from_utf8(sent).expect("it is text");
    let bodies = ["first|first", "first|first", "another|another"];
    let mut rest = sent.as_str();
    for body in bodies {
        let (head, behind) = rest.split_once("\r\n\r\n").expect("a head ends");
        let value = body.split('|').next().unwrap_or_default();
        assert!(head.contains(&format!("X-Row: {value}\r\n")), "{sent}");
        assert!(
            head.contains(&format!("Content-Length: {}", body.len())),
            "{sent}"
        );
        rest = behind
            .strip_prefix(body)
            .unwrap_or_else(|| panic!("{body}: {sent}"));
    }
    assert_eq!(rest, "");
}

/// HEAD, GET, HEAD, GET on one connection: an answer to HEAD has no body, whatever its head says, and heads that are
/// alike are no reason to take one for the other.
#[test]
fn head_is_mixed_with_other_methods() {
    let head = Request::new("HEAD", "h", "/");
    let mix = Mix::of_requests([("head", 1, head), ("get", 1, Request::get("h", "/"))]);
    assert!(!mix.is_fixed(), "connections keep what they asked");
    let mut shared = shared(&mix, 4);
    let mut http1 = Http1::open(&shared);
    for kind in [0, 1, 0, 1] {
        http1.issue_one(&shared, ask(kind, 0));
    }
    written(&mut http1, &shared, 4096);
    let whole = ok("", "hello");
    let (only_head, _) = whole.split_at(whole.len() - 5);
    for (answer, bytes) in [(only_head, 0), (&whole, 5), (only_head, 0), (&whole, 5)] {
        let answer = answered(&mut http1, &mut shared, answer);
        assert_eq!((answer.status, answer.body_bytes), (200, bytes));
    }
    // All of them at once.
    for kind in [1, 0, 0, 1] {
        http1.issue_one(&shared, ask(kind, 0));
    }
    written(&mut http1, &shared, 4096);
    let all = [&whole, only_head, only_head, &whole].concat();
    let mut rest = all.as_bytes();
    for bytes in [5, 0, 0, 5] {
        let taken = http1.handle_bytes(&mut shared, rest);
        rest = &rest[taken..];
        let Some(Outcome::Answered(answer)) = http1.poll_outcome() else {
            panic!("it is whole")
        };
        assert_eq!(answer.body_bytes, bytes);
    }
    assert_eq!(rest, b"");
}

proptest! {
    /// What stands behind lengths in lengths is written the same however little room there is, and each length is that of
    /// what stands behind it.
    #[test]
    fn lengths_are_those_of_what_is_filled_in(
        rows in prop::collection::vec("\\PC{0,200}", 1..4),
        draws in prop::collection::vec(0_u32..9, 1..4),
        room in 1_usize..90,
    ) {
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let mut mix = mix(&rows);
        let column = slot(Value::Column { table: 0, column: 0 }, Spelling::Scalar(Scalar::Text));
        let inner = Text::sized(Prefix::Varint, Text(vec![fixed("i"), column.clone()]));
        let mut outer = Text(vec![column]);
        outer.append(&inner);
        mix.kinds[0].request.body = Text::sized(Prefix::Call, Text::sized(Prefix::Varint, outer));
        let shared = shared(&mix, 4);
        let sent = |room: usize| {
            let mut http1 = Http1::open(&shared);
            for draw in &draws {
                http1.issue_one(&shared, ask(0, *draw));
            }
            let mut all = Vec::new();
            let mut into = vec![0; room];
            while http1.poll_transmit(&shared) == Transmit::Own {
                let len = http1.write(&shared, &mut into);
                all.extend_from_slice(&into[..len]);
            }
            all
        };
        let whole = sent(64 * 1024);
        prop_assert_eq!(&sent(room), &whole);
        let varint = |len: usize| match len {
            ..0x80 => vec![len as u8],
            _ => vec![len as u8 | 0x80, (len >> 7) as u8],
        };
        let mut expected = Vec::new();
        for draw in &draws {
            let row = rows[*draw as usize % rows.len()];
            let inner = [b"i", row.as_bytes()].concat();
            let outer = [row.as_bytes(), &varint(inner.len()), &inner].concat();
            let message = [varint(outer.len()), outer].concat();
            expected.push([&[0], &(message.len() as u32).to_be_bytes()[..], &message].concat());
        }
        let mut rest = &whole[..];
        for body in expected {
            let end = rest.windows(4).position(|four| four == b"\r\n\r\n").expect("a head ends") + 4;
            let head = String::from_utf8_lossy(&rest[..end]).into_owned();
            prop_assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", head);
            prop_assert_eq!(&rest[end..end + body.len()], &body[..]);
            rest = &rest[end + body.len()..];
        }
        prop_assert_eq!(rest, b"");
    }
}
