//! Mixes over HTTP/2: what is taken from fields, kept as cookies and followed, and what is filled in with it.

use std::sync::Arc;

use wallfinder_wire::http2::hpack::{Decoder, Interpret, Limits, StaticFields};
use wallfinder_wire::http2::{FrameKind, Http2, Options, Ready, Shared};
use wallfinder_wire::mix::{
    Ask, Check, Follow, Mix, Piece, Slot, Source, Spelling, Take, Text, Value,
};
use wallfinder_wire::{Answer, Judged, Outcome, Redirect, Request, Transmit, Wire, WireError};

use super::peer::{END_HEADERS, END_STREAM, frames_of, headers, settings};

fn slot(value: Value, spelling: Spelling) -> Text {
    Text(vec![Piece::Slot(Slot { value, spelling })])
}

fn login_and_go_on() -> Mix {
    let login = Request::new("POST", "h", "/in/x").header("x-key", "x");
    let next = Request::get("h", "/mine").header("authorization", "x");
    let mut mix = Mix::of_requests([("login", 1, login.body(b"x".to_vec())), ("next", 1, next)]);
    mix.protocol = wallfinder_wire::mix::Protocol::Http2;
    mix.variables = 1;
    mix.origins = vec!["http://h".to_owned()];
    mix.known.renew(vec![b"first".to_vec()]);
    let known = slot(Value::Known(0), Spelling::Raw);
    mix.kinds[0].request.headers[0].1 = known.clone();
    mix.kinds[0].request.body = known;
    mix.kinds[0].expect.takes = vec![Take {
        variable: 0,
        from: Source::Header("x-token".to_owned()),
        fits: Vec::new(),
    }];
    mix.kinds[0].expect.checks = vec![Check::Header("x-ok".to_owned(), "y".to_owned())];
    mix.kinds[1].request.headers[0].1 = slot(Value::Variable(0), Spelling::Raw);
    for kind in &mut mix.kinds {
        kind.expect.keeps_cookies = true;
    }
    mix
}

/// A connection, and how the client's blocks read.
struct Talk {
    http2: Http2,
    shared: Shared,
    table: Decoder<Spelled>,
    opened: u32,
}

struct Spelled;

impl Interpret for Spelled {
    type Name = String;
    type Value = String;

    fn name(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }

    fn value(_: &String, bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }
}

impl Talk {
    fn begin(mix: &Mix) -> Talk {
        let ready = Ready::of(mix, 1, false).expect("it is one");
        let options = Options::default();
        let shared = Shared::of_mix(&Arc::new(ready), options).expect("it can be encoded");
        let mut talk = Talk {
            http2: Http2::open(&shared),
            shared,
            table: Decoder::new(4096),
            opened: 0,
        };
        talk.written();
        talk.hears(&settings(&[]));
        talk.written();
        talk
    }

    fn written(&mut self) -> Vec<u8> {
        let mut buffer = vec![0; self.shared.write_bytes_min() + 20_000];
        let mut written = Vec::new();
        while self.http2.poll_transmit(&self.shared) == Transmit::Own {
            let len = self.http2.write(&self.shared, &mut buffer);
            written.extend_from_slice(&buffer[..len]);
        }
        written
    }

    fn hears(&mut self, mut bytes: &[u8]) -> Option<Answer> {
        let mut answer = None;
        while !bytes.is_empty() {
            let taken = self.http2.handle_bytes(&mut self.shared, bytes);
            bytes = &bytes[taken..];
            while let Some(outcome) = self.http2.poll_outcome() {
                match outcome {
                    Outcome::Answered(one) => answer = Some(one),
                    other => panic!("{other:?}"),
                }
            }
        }
        answer
    }

    /// The fields and the body that a request has.
    fn asks(&mut self, kind: u16) -> (Vec<(String, String)>, Vec<u8>) {
        let ask = Ask {
            kind,
            draw: 0,
            is_fresh: kind == 0,
        };
        self.http2.issue_one(&self.shared, ask);
        let written = self.written();
        self.opened += 1;
        let (mut fields, mut body) = (Vec::new(), Vec::new());
        for frame in frames_of(&written) {
            if frame.kind == FrameKind::HEADERS {
                let limits = Limits {
                    list_bytes_max: 1 << 16,
                    fields_max: 100,
                };
                let mut scratch = Vec::new();
                let visit = |name: &String, value: &String| {
                    fields.push((name.clone(), value.clone()));
                };
                let decoded = self.table.decode(
                    &StaticFields::new(),
                    &mut scratch,
                    limits,
                    &frame.payload,
                    visit,
                );
                decoded.expect("a block");
            } else if frame.kind == FrameKind::DATA {
                body.extend(frame.payload);
            }
        }
        (fields, body)
    }

    fn answered(&mut self, block: &[u8]) -> Answer {
        let stream = self.opened * 2 - 1;
        let whole = END_HEADERS | END_STREAM;
        let answer = self.hears(&headers(whole, stream, block));
        answer.expect("it is answered")
    }
}

/// Literals that go into the table, so that a later block may name them by an index.
fn kept(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0x40);
        for text in [name, value] {
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

fn value<'f>(fields: &'f [(String, String)], name: &str) -> Option<&'f str> {
    let found = fields.iter().find(|(of, _)| of == name);
    found.map(|(_, value)| value.as_str())
}

#[test]
fn bytes_of_requests_are_counted_by_kind_with_the_headers_of_their_frames() {
    let mut talk = Talk::begin(&login_and_go_on());
    let ask = Ask {
        kind: 0,
        draw: 0,
        is_fresh: true,
    };
    talk.http2.issue_one(&talk.shared, ask);
    let written = talk.written();
    let kinds: Vec<FrameKind> = frames_of(&written).iter().map(|frame| frame.kind).collect();
    assert_eq!(kinds, [FrameKind::HEADERS, FrameKind::DATA]);
    let counted = [0, 1].map(|kind| Http2::sent_bytes(&talk.shared, kind, 1));
    assert_eq!(counted, [written.len() as u64, 0]);
}

#[test]
fn fields_are_taken_checked_and_kept_as_cookies() {
    let mut talk = Talk::begin(&login_and_go_on());
    let fields = [
        ("x-ok", "yes"),
        ("x-token", "t-1"),
        ("set-cookie", "sid=1; Path=/"),
    ];
    let mut block = vec![0x88];
    block.extend(kept(&fields));
    for again in [false, true] {
        let (sent, _) = talk.asks(0);
        assert_eq!(value(&sent, "cookie"), None, "another user");
        // The second time each field is an index of the table: the newest is the last.
        let answer = match again {
            false => talk.answered(&block),
            true => talk.answered(&[0x88, 0x80 | 64, 0x80 | 63, 0x80 | 62]),
        };
        assert_eq!(answer.judged, Judged::ByStatus);
        let (sent, _) = talk.asks(1);
        assert_eq!(value(&sent, "authorization"), Some("t-1"));
        assert_eq!(value(&sent, "cookie"), Some("sid=1"));
        talk.answered(&[0x88]);
    }
    talk.asks(0);
    let answer = talk.answered(&[0x88, 0x80 | 64]);
    assert_eq!(answer.judged, Judged::Bad(WireError::TakeMissing));
    talk.asks(0);
    let answer = talk.answered(&[0x88, 0x80 | 63]);
    assert_eq!(answer.judged, Judged::Bad(WireError::CheckHeader));
}

#[test]
fn redirects_are_followed() {
    let mut mix = login_and_go_on();
    mix.kinds[0].expect.takes.clear();
    mix.kinds[0].expect.checks.clear();
    mix.kinds[0].expect.follow = Follow::Yes;
    mix.kinds[1].request.target = slot(Value::Location, Spelling::Path);
    let mut talk = Talk::begin(&mix);
    for (status, to, way, path) in [
        ("303", "/b?c", Redirect::ToGet, "/b?c"),
        ("302", "../up", Redirect::ToGet, "/up"),
        ("307", "http://h/same", Redirect::AsItIs, "/same"),
    ] {
        talk.asks(0);
        let answer = talk.answered(&kept(&[(":status", status), ("location", to)]));
        assert_eq!(answer.redirects, Some(way), "{to}");
        let (sent, _) = talk.asks(1);
        assert_eq!(value(&sent, ":path"), Some(path));
        talk.answered(&[0x88]);
    }
    talk.asks(0);
    let answer = talk.answered(&kept(&[(":status", "302"), ("location", "http://other/")]));
    assert_eq!(answer.judged, Judged::Bad(WireError::RedirectElsewhere));
}

#[test]
fn what_is_known_is_renewed_for_requests_that_have_not_begun() {
    let mix = login_and_go_on();
    let mut talk = Talk::begin(&mix);
    let (sent, body) = talk.asks(0);
    assert_eq!(
        (value(&sent, "x-key"), &body[..]),
        (Some("first"), &b"first"[..])
    );
    talk.answered(&[0x88]);
    // The peer lets only a part of the next body through, and the rest once there is another value.
    talk.hears(&settings(&[(4, 2)]));
    talk.written();
    let (sent, mut body) = talk.asks(0);
    assert_eq!(value(&sent, "content-length"), Some("5"));
    assert_eq!(body, b"fi");
    mix.known.renew(vec![b"another".to_vec()]);
    Http2::take_known(&mut talk.shared, &mix.known.now());
    let stream = talk.opened * 2 - 1;
    talk.hears(&super::peer::numbers(
        FrameKind::WINDOW_UPDATE,
        stream,
        &[100],
    ));
    for frame in frames_of(&talk.written()) {
        body.extend(frame.payload);
    }
    assert_eq!(body, b"first");
    talk.answered(&[0x88]);
    talk.hears(&settings(&[(4, 100)]));
    talk.written();
    let (sent, body) = talk.asks(0);
    assert_eq!(
        (value(&sent, "x-key"), &body[..]),
        (Some("another"), &b"another"[..])
    );
}
