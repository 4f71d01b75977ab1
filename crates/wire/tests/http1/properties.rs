//! Random scripts, whole and broken: the connection agrees with the reference decoder and
//! with `httparse`, whatever the split, the pipelining and the memo.
//!
//! A failure prints its seed and the smallest script that shows it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use wallfinder_wire::http1::Options;
use wallfinder_wire::{Decode, Outcome, WireError};

use crate::coded::encode;
use crate::peer::{self, Case};
use crate::reference;

/// `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: default.cases.max(3000),
        failure_persistence: None,
        ..default
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn outcomes_are_those_of_the_reference_decoder(
        case in case(),
        script in script(),
        other in script(),
        cuts in vec(any::<usize>(), 0..12),
        eof in any::<bool>(),
    ) {
        let expected = reference::decode(&case, &script, eof);
        let pieces = peer::cut(&script, &cuts);
        let mut shared = case.shared();

        let cold = peer::play(&mut shared, &case, pieces.clone(), eof);
        prop_assert_eq!(&cold, &expected, "cold, {}", script.escape_ascii());
        let warm = peer::play(&mut shared, &case, [&script[..]], eof);
        prop_assert_eq!(&warm, &expected, "warm, {}", script.escape_ascii());
        peer::play(&mut shared, &case, [&other[..]], eof);
        let other = peer::play(&mut shared, &case, pieces, eof);
        prop_assert_eq!(&other, &expected, "warm with others, {}", script.escape_ascii());
        let single = peer::play(&mut shared, &case, script.chunks(1), eof);
        prop_assert_eq!(&single, &expected, "byte by byte, {}", script.escape_ascii());
    }

    #[test]
    fn a_head_is_broken_where_httparse_says_so(
        head in head(),
        mutations in vec(mutation(), 0..3),
    ) {
        let mut script = mutated(head.into_bytes(), &mutations);
        let end = (0..=script.len())
            .find(|&end| script[..end].ends_with(b"\n\n") || script[..end].ends_with(b"\n\r\n"));
        script.truncate(end.unwrap_or(script.len()));
        let case = Case::default();
        let seen = peer::play(&mut case.shared(), &case, [&script[..]], false);
        let error = match seen.outcomes.first() {
            Some(Outcome::Broken { error, .. }) => Some(*error),
            _ => None,
        };
        let mut fields = [httparse::EMPTY_HEADER; 100];
        let mut response = httparse::Response::new(&mut fields);
        let verdict = response.parse(&script);
        let is_ours = script[0] != b'H' || script.get(9) == Some(&b'0');
        match verdict {
            _ if is_ours => prop_assert_eq!(error, Some(WireError::H1Status)),
            Ok(httparse::Status::Complete(_)) => prop_assert!(
                !matches!(error, Some(WireError::H1Status | WireError::H1Head)),
                "{error:?}, {}", script.escape_ascii()
            ),
            Ok(httparse::Status::Partial) => prop_assert_eq!(error, None),
            // A folded line, which httparse refuses and the connection reads as spaces.
            Err(httparse::Error::HeaderName) if is_folded(&script) => {}
            // What httparse refuses at once, the connection refuses once the head is whole.
            Err(parse_error) => {
                let class = match parse_error {
                    httparse::Error::Status | httparse::Error::Version => WireError::H1Status,
                    _ => WireError::H1Head,
                };
                prop_assert!(
                    error == Some(class) || (error.is_none() && end.is_none()),
                    "{error:?} and {parse_error}, {}", script.escape_ascii()
                );
            }
        }
    }
}

fn is_folded(head: &[u8]) -> bool {
    let begins = |line: &[u8]| line.starts_with(b" ") || line.starts_with(b"\t");
    head.split(|&byte| byte == b'\n').skip(2).any(begins)
}

fn case() -> impl Strategy<Value = Case> {
    let options = (
        1..4u32,
        prop::bool::weighted(0.1),
        prop_oneof![3 => Just(300 * 1024), 1 => 64..200usize],
        prop_oneof![3 => Just(5000), 1 => 1..5u32],
        prop_oneof![3 => Just(32), 1 => 0..3u32],
        prop_oneof![3 => Just(65536), 1 => 0..20u32],
        select(vec![Decode::None, Decode::Check, Decode::Inflate]),
        prop_oneof![1 => 0..100u64, 2 => Just(1 << 16)],
    );
    let options = options.prop_map(
        |(depth, single, bytes, fields, interims, extra, decode, decoded)| Options {
            in_flight_max: depth,
            connection_per_request: single,
            head_bytes_max: bytes,
            head_fields_max: fields,
            interim_max: interims,
            chunk_extension_bytes_max: extra,
            trailer_bytes_max: extra,
            decode,
            decoded_bytes_max: decoded,
            paddings: Vec::new(),
        },
    );
    let method = select(vec!["GET", "GET", "GET", "HEAD", "POST"]);
    (method, options, 0..7u32).prop_map(|(method, options, requests)| Case {
        method,
        options,
        requests,
    })
}

/// Answers in a row, most of them sound, and then a few bytes changed, or none.
fn script() -> impl Strategy<Value = Vec<u8>> {
    let few = prop_oneof![3 => Just(Vec::new()), 2 => vec(mutation(), 1..3)];
    (vec(message(), 0..6), few)
        .prop_map(|(messages, mutations)| mutated(messages.concat(), &mutations))
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    let interim = select(vec![
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ]);
    prop_oneof![
        8 => (status_line(), vec(field(), 0..4), body(), end())
            .prop_map(|(line, fields, (framing, body), end)| {
                let head = format!("{line}{}{framing}{end}", fields.concat());
                [head.as_bytes(), &body].concat()
            }),
        1 => interim.prop_map(|head| head.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..8),
    ]
}

fn head() -> impl Strategy<Value = String> {
    let lines = vec(prop_oneof![4 => field(), 1 => strange_field()], 0..5);
    (status_line(), lines, end()).prop_map(|(line, fields, end)| line + &fields.concat() + &end)
}

fn end() -> impl Strategy<Value = String> {
    prop_oneof![9 => Just("\r\n".to_owned()), 1 => Just("\n".to_owned())]
}

fn status_line() -> impl Strategy<Value = String> {
    let usual = select(vec![
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 204 No Content\r\n",
        "HTTP/1.1 304 Not Modified\r\n",
        "HTTP/1.0 200 OK\r\n",
        "HTTP/1.1 404 \r\n",
        "HTTP/1.1 503\n",
        "HTTP/1.1 999 Odd\r\n",
        "HTTP/1.2 200 OK\r\n",
        "HTTP/1.1 099 Low\r\n",
    ]);
    prop_oneof![
        9 => usual.prop_map(str::to_owned),
        1 => "HTTP/1\\.[01] [0-9]{3}( [ -~\t]{0,5})?\r\n",
    ]
}

fn field() -> impl Strategy<Value = String> {
    let known = select(vec![
        "Date: Fri, 20 Nov 2026 14:00:00 GMT\r\n",
        "Server:\r\n",
        "Connection: keep-alive\r\n",
        "Connection: close\r\n",
        "Content-Type: text/html\n",
    ]);
    prop_oneof![
        3 => known.prop_map(str::to_owned),
        1 => "[A-Za-z!#-]{1,8}:[ \t]{0,2}[ -~\t]{0,12}[ \t]{0,2}\r\n",
    ]
}

fn strange_field() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,6}[:]?[ -~\r\0]{0,6}\r\n",
        "(Content-Length|Transfer-Encoding|Connection): [0-9a-z, -]{0,8}\r\n",
        "(Content-Length: |X: a)?[0-9]?\r?\n[ \t]{1,2}[ -~]{0,6}\r\n",
        Just(" folded\r\n".to_owned()),
    ]
}

/// Fields that frame a body, and the body.
fn body() -> impl Strategy<Value = (String, Vec<u8>)> {
    let plain = || vec(any::<u8>(), 0..40);
    prop_oneof![
        4 => plain().prop_map(|body| (length(&body), body)),
        1 => plain().prop_map(|body| (String::new(), body)),
        1 => Just((String::new(), Vec::new())),
        4 => chunked().prop_map(|body| ("Transfer-Encoding: chunked\r\n".to_owned(), body)),
        1 => chunked().prop_map(|body| {
            ("Content-Length: 3\r\ntransfer-encoding: Chunked\r\n".to_owned(), body)
        }),
        1 => plain().prop_map(|body| (length(&body).repeat(2), body)),
        1 => strange_field().prop_map(|line| (line, b"x".to_vec())),
        5 => (plain(), select(CODINGS.to_vec()), any::<bool>())
            .prop_map(|(plain, coding, in_chunks)| {
                let coded = encode(coding, &plain);
                let (framing, body) = if in_chunks {
                    ("Transfer-Encoding: chunked\r\n".to_owned(), chunks_of(&coded, 7))
                } else {
                    (length(&coded), coded)
                };
                (format!("Content-Encoding: {coding}\r\n{framing}"), body)
            }),
    ]
}

fn length(body: &[u8]) -> String {
    format!("Content-Length: {}\r\n", body.len())
}

fn chunked() -> impl Strategy<Value = Vec<u8>> {
    let extension = prop_oneof![
        4 => Just(String::new()),
        1 => "[ \t]{0,2};[ -~]{0,8}",
    ];
    let chunk = (vec(any::<u8>(), 1..40), extension, any::<bool>());
    let trailers = vec("[A-Za-z]{1,4}:[ -~]{0,6}\r\n", 0..3);
    (vec(chunk, 0..4), trailers).prop_map(|(chunks, trailers)| {
        let mut body = Vec::new();
        for (data, extension, upper) in chunks {
            let size = match upper {
                true => format!("{:X}", data.len()),
                false => format!("{:03x}", data.len()),
            };
            body.extend_from_slice(format!("{size}{extension}\r\n").as_bytes());
            body.extend_from_slice(&data);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("0\r\n{}\r\n", trailers.concat()).as_bytes());
        body
    })
}

fn chunks_of(body: &[u8], size: usize) -> Vec<u8> {
    let mut coded = Vec::new();
    for data in body.chunks(size) {
        coded.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
        coded.extend_from_slice(data);
        coded.extend_from_slice(b"\r\n");
    }
    coded.extend_from_slice(b"0\r\n\r\n");
    coded
}

/// What `Content-Encoding` says; the last is two codings, and coded by one.
const CODINGS: [&str; 5] = ["gzip", "deflate", "br", "zstd", "gzip, gzip"];

/// A change of a few bytes at a place that is taken modulo the script's length.
#[derive(Debug, Clone)]
enum Mutation {
    Set(usize, u8),
    Insert(usize, u8),
    Remove(usize),
    Truncate(usize),
    Repeat(usize, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let place = any::<usize>;
    let byte = || {
        let telling = select(b"\r\n \t:;,0159afx\0\x7f\x80".to_vec());
        prop_oneof![3 => telling, 1 => any::<u8>()]
    };
    prop_oneof![
        3 => (place(), byte()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        3 => (place(), byte()).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        3 => place().prop_map(Mutation::Remove),
        1 => place().prop_map(Mutation::Truncate),
        1 => (place(), 1..30usize).prop_map(|(at, len)| Mutation::Repeat(at, len)),
    ]
}

fn mutated(mut script: Vec<u8>, mutations: &[Mutation]) -> Vec<u8> {
    for mutation in mutations {
        if script.len() < 2 {
            break;
        }
        let len = script.len();
        match *mutation {
            Mutation::Set(at, byte) => script[at % len] = byte,
            Mutation::Insert(at, byte) => script.insert(at % len, byte),
            Mutation::Remove(at) => {
                script.remove(at % len);
            }
            Mutation::Truncate(at) => script.truncate(1 + at % (len - 1)),
            Mutation::Repeat(at, count) => {
                let from = at % len;
                let part = script[from..(from + count).min(len)].to_vec();
                script.splice(from..from, part);
            }
        }
    }
    script
}
