//! What a hostile peer gets: a scripted peer for each row of the fault table that is
//! HTTP/1's. Row 15, on content, is in `content.rs`.
//!
//! Every script is played whole, byte by byte and cut in two at every place, with a cold
//! and a warm memo; all must come to the same, and to what the reference decoder says.

use wallfinder_wire::http1::Options;
use wallfinder_wire::{Outcome, WireError};

use crate::peer::{self, Case, Seen};
use crate::reference;

/// Scripts longer than this are cut at some places only.
const EVERY_CUT_BYTES_MAX: usize = 2000;

/// Plays a script in every way there is.
pub(crate) fn play_all(case: &Case, script: &[u8], eof: bool) -> Seen {
    let expected = reference::decode(case, script, eof);
    let mut warm = case.shared();
    let whole = peer::play(&mut warm, case, [script], eof);
    assert_eq!(whole, expected, "whole, {}", script.escape_ascii());

    let single = peer::play(&mut warm, case, script.chunks(1), eof);
    assert_eq!(single, expected, "byte by byte, {}", script.escape_ascii());
    let cold = peer::play(&mut case.shared(), case, script.chunks(1), eof);
    assert_eq!(cold, expected, "byte by byte, cold");

    let step = script.len() / EVERY_CUT_BYTES_MAX + 1;
    for cut in (1..script.len()).step_by(step) {
        let pieces = peer::cut(script, &[cut]);
        let seen = peer::play(&mut warm, case, pieces.clone(), eof);
        assert_eq!(seen, expected, "cut at {cut}, {}", script.escape_ascii());
        if script.len() <= EVERY_CUT_BYTES_MAX {
            let cold = peer::play(&mut case.shared(), case, pieces, eof);
            assert_eq!(cold, expected, "cut at {cut}, cold");
        }
    }
    expected
}

fn play(script: impl AsRef<[u8]>) -> Seen {
    play_all(&Case::default(), script.as_ref(), false)
}

fn play_to_end(script: impl AsRef<[u8]>) -> Seen {
    play_all(&Case::default(), script.as_ref(), true)
}

pub(crate) fn error_of(seen: &Seen) -> Option<WireError> {
    match seen.outcomes.last() {
        Some(Outcome::Broken { error, .. }) => Some(*error),
        _ => None,
    }
}

#[track_caller]
fn assert_breaks(script: impl AsRef<[u8]>, class: &str) {
    let script = script.as_ref();
    let seen = play(script);
    let found = error_of(&seen).map(WireError::class);
    assert_eq!(found, Some(class), "{}", script.escape_ascii());
    let Some(Outcome::Broken { slot, .. }) = seen.outcomes.last() else {
        unreachable!("just found");
    };
    assert_eq!(*slot, Some(0), "the request that was being answered fails");
}

#[track_caller]
pub(crate) fn assert_answers(script: impl AsRef<[u8]>, body_bytes: u64) -> Answered {
    let script = script.as_ref();
    assert_answered(&play(script), script, body_bytes)
}

#[track_caller]
pub(crate) fn assert_answered(seen: &Seen, script: &[u8], body_bytes: u64) -> Answered {
    let [Outcome::Answered(answer)] = seen.outcomes[..] else {
        panic!("{:?} from {}", seen.outcomes, script.escape_ascii());
    };
    assert_eq!(answer.body_bytes, body_bytes);
    assert_eq!(answer.wire_bytes, script.len() as u64);
    Answered {
        reusable: answer.reusable,
        anomalies: seen.anomalies.clone(),
    }
}

pub(crate) struct Answered {
    pub(crate) reusable: bool,
    pub(crate) anomalies: Vec<(&'static str, u64)>,
}

fn fields(lines: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{lines}\r\n")
}

fn chunks(body: &str) -> String {
    fields("Transfer-Encoding: chunked\r\n") + body
}

#[test]
fn row_1_a_malformed_status_line_breaks_as_status() {
    for line in [
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2x0 OK",
        "HTTP/1.1 -20 OK",
        "HTTP/1.1 000 OK",
        "HTTP/1.1 099 OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.1 200OK",
        "HTTP/1.1\t200 OK",
        "HTTP/1.1200 OK",
        "HTTP/1.1 ",
        "HTTP/1.1",
        "HTTP/1.2 200 OK",
        "HTTP/2.0 200 OK",
        "HTTP/0.9 200 OK",
        "HTTP/11 200 OK",
        "http/1.1 200 OK",
        " HTTP/1.1 200 OK",
        "\r\nHTTP/1.1 200 OK",
        "\nHTTP/1.1 200 OK",
        "HTTP/1.1 200 O\0K",
        "HTTP/1.1 200 O\rK",
        "HTTP/1.1 200\rOK",
        "HTTP/1.1 200 \x7f",
        "ICY 200 OK",
        "SSH-2.0-OpenSSH_9.6",
        "<html>",
        "{\"ok\":true}",
        "\x16\x03\x01\x02\x00",
        "\0\0\x12\x04\0\0\0\0\0",
    ] {
        assert_breaks(format!("{line}\r\nContent-Length: 0\r\n\r\n"), "h1.status");
    }
}

#[test]
fn row_1_another_protocol_is_told_apart_before_its_first_line_ends() {
    assert_breaks("SSH-", "h1.status");
    assert_breaks("HTTP/2", "h1.status");
    assert_breaks("HTTP/1.1 20x", "h1.status");
    assert_eq!(play("HTTP/1.1 200").outcomes, []);
}

#[test]
fn row_1_a_short_or_odd_status_line_is_accepted() {
    for line in [
        "HTTP/1.1 200",
        "HTTP/1.1 200 ",
        "HTTP/1.1 200  OK ",
        "HTTP/1.1 200 caf\u{e9}\tau lait",
        "HTTP/1.1 599 ?",
    ] {
        let answered = assert_answers(format!("{line}\r\nContent-Length: 0\r\n\r\n"), 0);
        assert!(answered.reusable && answered.anomalies.is_empty());
    }
    let answered = assert_answers("HTTP/1.1 999 Go\r\nContent-Length: 0\r\n\r\n", 0);
    assert_eq!(answered.anomalies, [("status_out_of_class", 1)]);
}

#[test]
fn row_2_a_head_above_its_limit_of_bytes_breaks() {
    let head_of = |len: usize| {
        let (start, end) = ("HTTP/1.1 200 OK\r\nX: ", "\r\nContent-Length: 0\r\n\r\n");
        format!("{start}{}{end}", "x".repeat(len - start.len() - end.len()))
    };
    let limit = Options::default().head_bytes_max;
    assert_eq!(limit, 300 * 1024);
    let case = Case::default();
    for (len, expected) in [(limit, None), (limit + 1, Some(WireError::H1HeadLimit))] {
        let script = head_of(len);
        for size in [len, len - 1, 1000, 7] {
            let pieces = script.as_bytes().chunks(size);
            let seen = peer::play(&mut case.shared(), &case, pieces, false);
            assert_eq!(error_of(&seen), expected, "pieces of {size}");
            assert_eq!(seen.outcomes.len(), 1);
        }
    }
    let endless = head_of(limit * 2);
    let pieces = endless.as_bytes()[..limit].chunks(4096);
    let seen = peer::play(&mut case.shared(), &case, pieces, false);
    assert_eq!(error_of(&seen), Some(WireError::H1HeadLimit));
}

#[test]
fn row_2_a_head_of_small_limits_breaks_at_the_same_byte_however_it_is_cut() {
    let case = Case {
        options: Options {
            head_bytes_max: 80,
            head_fields_max: 3,
            ..Options::default()
        },
        ..Case::default()
    };
    for len in 75..85 {
        let script = fields(&format!(
            "Content-Length: 0\r\nX: {}\r\n",
            "x".repeat(len - 43)
        ));
        assert_eq!(script.len(), len);
        let error = error_of(&play_all(&case, script.as_bytes(), true));
        assert_eq!(error, (len > 80).then_some(WireError::H1HeadLimit));
    }
    for count in 1..6 {
        let script = fields(&("Content-Length: 0\r\n".to_owned() + &"A:\r\n".repeat(count - 1)));
        let error = error_of(&play_all(&case, script.as_bytes(), true));
        assert_eq!(error, (count > 3).then_some(WireError::H1HeadLimit));
    }
}

#[test]
fn row_2_a_head_above_its_limit_of_fields_breaks() {
    let limit = Options::default().head_fields_max as usize;
    assert_eq!(limit, 5000);
    let case = Case::default();
    for (count, expected) in [(limit, None), (limit + 1, Some(WireError::H1HeadLimit))] {
        let lines = "Content-Length: 0\r\n".to_owned() + &"X-Some: 1\r\n".repeat(count - 1);
        let script = fields(&lines);
        for size in [script.len(), 1000, 1] {
            let pieces = script.as_bytes().chunks(size);
            let seen = peer::play(&mut case.shared(), &case, pieces, false);
            assert_eq!(error_of(&seen), expected, "{count} fields");
        }
    }
}

#[test]
fn row_3_a_broken_field_breaks_as_head() {
    for line in [
        "X: a\0b",
        "X\0: a",
        "X: a\rb",
        "X: a\r\r",
        "\rX: a",
        "X\r: a",
        "X: a\x01",
        "X: a\x7f",
        "X: a\x0b",
        "X : a",
        "X\t: a",
        " X: a",
        "X: a\r\n b\0",
        "no colon",
        "no colon\r\n : a",
        ": a",
        "X Y: a",
        "X(Y): a",
        "caf\u{e9}: a",
        "\"X\": a",
    ] {
        let length = "Content-Length: 0\r\n";
        assert_breaks(fields(&format!("{line}\r\n{length}")), "h1.head");
        let behind = format!("{length}X: y\r\n{line}\r\n");
        if !line.starts_with(' ') {
            assert_breaks(fields(&behind), "h1.head");
        }
    }
}

#[test]
fn row_3_a_folded_line_is_read_as_spaces_and_counted() {
    for (lines, body) in [
        ("X: a\r\n b\r\nContent-Length: 0\r\n", ""),
        ("Content-Length: 2\r\nX: a\r\n\tb: c\r\n   \r\n", "ok"),
        ("Content-Length:\r\n 2\r\n", "ok"),
        ("Content-Length: 2\r\n \r\n", "ok"),
        (
            "Transfer-Encoding:\r\n\tchunked\r\n",
            "2\r\nok\r\n0\r\n\r\n",
        ),
    ] {
        let script = fields(lines) + body;
        let seen = play(&script);
        let [Outcome::Answered(answer)] = seen.outcomes[..] else {
            panic!("{:?} from {}", seen.outcomes, script.escape_debug());
        };
        assert_eq!(answer.body_bytes, body.len().min(2) as u64, "{lines:?}");
        assert_eq!(seen.anomalies, [("line_folded", 1)], "{lines:?}");
    }
    // What a fold makes of a value is judged like any other value.
    assert_breaks(fields("Content-Length: 1\r\n 2\r\n"), "h1.length");
    assert_breaks(fields("Transfer-Encoding: chun\r\n ked\r\n"), "h1.framing");
}

#[test]
fn row_3_what_a_field_may_hold_is_accepted() {
    for line in [
        "X:",
        "X: ",
        "X:\t a \t",
        "X:a:b",
        "X: caf\u{e9} \t\u{a0}",
        "!#$%&'*+-.^_`|~09azAZ: a",
    ] {
        let answered = assert_answers(fields(&format!("{line}\r\nContent-Length: 0\r\n")), 0);
        assert!(answered.reusable && answered.anomalies.is_empty());
    }
    for script in [
        "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\nhi",
        "HTTP/1.1 200\nContent-Length: 2\r\n\r\nhi",
    ] {
        let answered = assert_answers(script, 2);
        assert_eq!(answered.anomalies, [("bare_line_feed", 1)]);
        assert!(answered.reusable);
    }
}

#[test]
fn row_4_a_length_that_is_none_breaks() {
    for value in [
        "-1",
        "+5",
        "0x5",
        "5a",
        "42s",
        "",
        " ",
        "5 5",
        "5;5",
        "5.0",
        "1e3",
        "5,",
        ",5",
        "\u{665}",
        "18446744073709551616",
        "99999999999999999999999999999999",
    ] {
        assert_breaks(fields(&format!("Content-Length: {value}\r\n")), "h1.length");
        let coded = format!("Transfer-Encoding: chunked\r\nContent-Length: {value}\r\n");
        assert_breaks(fields(&coded), "h1.length");
    }
    assert_answers(fields("Content-Length:\t 0005 \r\n") + "hello", 5);
    let seen = play_to_end(fields("Content-Length: 18446744073709551615\r\n") + "hello");
    assert_eq!(error_of(&seen), Some(WireError::H1Truncated));
}

#[test]
fn row_5_differing_lengths_break_and_equal_ones_are_accepted() {
    for lines in [
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5\r\nX: y\r\ncontent-length: 5\r\nCONTENT-LENGTH: 0\r\n",
        "Content-Length: 5, 6\r\n",
    ] {
        assert_breaks(fields(lines), "h1.length");
    }
    for lines in [
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5,5\r\n",
        "content-length: 5 , 05\r\n",
    ] {
        let answered = assert_answers(fields(lines) + "hello", 5);
        assert_eq!(answered.anomalies, [("length_repeated", 1)]);
        assert!(answered.reusable);
    }
}

#[test]
fn row_6_chunked_wins_over_a_length_and_the_connection_is_not_used_again() {
    let body = "5\r\nhello\r\n0\r\n\r\n";
    for lines in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
    ] {
        let answered = assert_answers(fields(lines) + body, 5);
        assert_eq!(answered.anomalies, [("length_beside_coding", 1)]);
        assert!(!answered.reusable);
    }
    let old = format!(
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n{body}"
    );
    let answered = assert_answers(old, 5);
    assert_eq!(answered.anomalies, [("coding_in_http10", 1)]);
    assert!(!answered.reusable);
}

#[test]
fn row_7_chunked_not_last_is_read_to_close_and_unknown_codings_break() {
    for value in [
        "chunked, gzip",
        "gzip",
        "Deflate",
        "chunked,x-gzip",
        ",gzip,",
    ] {
        let script = fields(&format!("Transfer-Encoding: {value}\r\n")) + "5\r\nhello";
        assert_eq!(play(&script).outcomes, [], "not before the end");
        let answered = assert_answered(&play_to_end(&script), script.as_bytes(), 8);
        assert_eq!(answered.anomalies, [("chunked_not_last", 1)]);
        assert!(!answered.reusable);
    }
    for value in [
        "identity",
        "xchunked",
        "chunked;q=1",
        "\"chunked\"",
        "chunked, chunked",
        "chunked, identity",
        "br, chunked",
        "chunked gzip",
        "",
        ",",
    ] {
        assert_breaks(
            fields(&format!("Transfer-Encoding: {value}\r\n")),
            "h1.framing",
        );
    }
    for lines in [
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: CHUNKED\r\n",
        "Transfer-Encoding: , chunked ,\r\n",
    ] {
        assert!(assert_answers(fields(lines) + "1\r\nx\r\n0\r\n\r\n", 1).reusable);
    }
}

#[test]
fn row_8_a_chunk_size_that_is_none_breaks() {
    for size in [
        "10000000000000000",
        "fffffffffffffffff",
        "00000000000000005",
        "-5",
        "+5",
        "5_0",
        "0x5",
        "5x",
        "g",
        "",
        " 5",
        "5 ",
        "5\t",
        "5 5",
        "5\0",
        ";a=b",
    ] {
        assert_breaks(chunks(&format!("{size}\r\nhello\r\n0\r\n\r\n")), "h1.chunk");
        assert_breaks(
            chunks(&format!("1\r\nx\r\n{size}\r\nhello\r\n0\r\n\r\n")),
            "h1.chunk",
        );
    }
    for size in [
        "5",
        "05",
        "0000000000000005",
        "5;a",
        "5 ;a=\"b c\"",
        "5\t ; a = b;c",
    ] {
        assert_answers(chunks(&format!("{size}\r\nhello\r\n0\r\n\r\n")), 5);
    }
    assert_answers(
        chunks("1a\r\nabcdefghijklmnopqrstuvwxyz\r\nA\r\n0123456789\r\n000\r\n\r\n"),
        36,
    );
    for missing in [
        "\r\n\r\n",
        ";a\r\n\r\n",
        " ;a\r\n\r\n",
        "1\r\nx\r\n\r\n\r\n",
    ] {
        assert_breaks(chunks(missing), "h1.chunk");
    }
    let seen = play_to_end(chunks("ffffffffffffffff\r\nhello"));
    assert_eq!(error_of(&seen), Some(WireError::H1Truncated));
}

#[test]
fn row_9_a_missing_chunk_line_end_breaks() {
    for body in [
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r0\r\n\r\n",
        "5\r\nhello world\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5;a\nhello\r\n0\r\n\r\n",
        "5;a\0\r\nhello\r\n0\r\n\r\n",
        "0\r\n\n",
        "0\r\n\rx",
        "0\n\r\n",
        "0\r\nX: y\n\r\n",
        "0\r\nX\r\n\r\n",
        "0\r\n: y\r\n\r\n",
        "0\r\n y\r\n\r\n",
        "0\r\nX : y\r\n\r\n",
        "0\r\nX: \0\r\n\r\n",
        "0\r\nX: y\r\n z\r\n\r\n",
        "0\r\nX: y\rz\r\n\r\n",
    ] {
        assert_breaks(chunks(body), "h1.chunk");
    }
    assert_answers(chunks("0\r\nX: y\r\nExpires:\r\nA:b:c\r\n\r\n"), 0);
}

#[test]
fn row_9_endless_extensions_and_trailers_are_capped() {
    let case = Case {
        options: Options {
            chunk_extension_bytes_max: 10,
            trailer_bytes_max: 20,
            ..Options::default()
        },
        ..Case::default()
    };
    for (body, expected) in [
        ("5;xxxxxxxxx\r\nhello\r\n0\r\n\r\n", None),
        ("5;xxxx\r\nhello\r\n0 ;xxx\r\n\r\n", None),
        (
            "5;xxxxxxxxxx\r\nhello\r\n0\r\n\r\n",
            Some(WireError::H1Chunk),
        ),
        (
            "5;xxxx\r\nhello\r\n0 ;xxxxx\r\n\r\n",
            Some(WireError::H1Chunk),
        ),
        ("5          ;\r\n", Some(WireError::H1Chunk)),
        ("0\r\nA: 4567890123456789\r\n\r\n", Some(WireError::H1Chunk)),
        ("0\r\nA: 456789012345678\r\n\r\n", None),
        ("0\r\nA: 45678\r\nB: 45678\r\n\r\n", None),
        (
            "0\r\nA: 45678\r\nB: 456789\r\n\r\n",
            Some(WireError::H1Chunk),
        ),
    ] {
        let seen = play_all(&case, chunks(body).as_bytes(), false);
        assert_eq!(error_of(&seen), expected, "{body}");
    }
    let many = Options::default().trailer_bytes_max as usize;
    for endless in [
        "5;".to_owned() + &"x".repeat(many),
        "0\r\n".to_owned() + &"A:\r\n".repeat(many / 4 + 1),
    ] {
        let script = chunks(&endless);
        let case = Case::default();
        for size in [script.len(), 1000, 1] {
            let pieces = script.as_bytes().chunks(size);
            let seen = peer::play(&mut case.shared(), &case, pieces, false);
            assert_eq!(error_of(&seen), Some(WireError::H1Chunk));
        }
    }
}

#[test]
fn row_10_the_end_inside_an_answer_is_never_an_answer() {
    for script in [
        fields("Content-Length: 5\r\n") + "hello",
        chunks("5\r\nhello\r\n0\r\nX: y\r\n\r\n"),
        format!(
            "HTTP/1.1 100 Continue\r\n\r\n{}",
            fields("Content-Length: 0\r\n")
        ),
    ] {
        for len in 1..script.len() {
            let seen = play_to_end(&script[..len]);
            assert_eq!(error_of(&seen), Some(WireError::H1Truncated), "{len}");
            assert_eq!(seen.outcomes.len(), 1);
        }
        assert_answered(&play_to_end(&script), script.as_bytes(), play_body(&script));
    }
}

fn play_body(script: &str) -> u64 {
    if script.contains("hello") { 5 } else { 0 }
}

#[test]
fn row_10_the_end_before_an_answer_has_no_outcome_and_ends_one_read_to_close() {
    assert_eq!(play_to_end("").outcomes, []);
    let script = fields("X: y\r\n") + "hello";
    assert_eq!(play(&script).outcomes, []);
    let answered = assert_answered(&play_to_end(&script), script.as_bytes(), 5);
    assert!(!answered.reusable);
    let empty = fields("");
    assert_answered(&play_to_end(&empty), empty.as_bytes(), 0);
}

#[test]
fn row_11_bytes_that_nobody_asked_for_are_never_the_next_answer() {
    let answer = fields("Content-Length: 5\r\n") + "hello";
    let idle = Case {
        requests: 0,
        ..Case::default()
    };
    let unsolicited = Outcome::Broken {
        slot: None,
        error: WireError::H1Unsolicited,
    };
    for stray in ["x", "\r\n", "\0", answer.as_str()] {
        let seen = play_all(&idle, stray.as_bytes(), false);
        assert_eq!(seen.outcomes, [unsolicited]);
        for eof in [false, true] {
            let script = answer.clone() + stray;
            let seen = play_all(&Case::default(), script.as_bytes(), eof);
            assert!(matches!(
                seen.outcomes[..],
                [Outcome::Answered(_), last] if last == unsolicited
            ));
        }
    }
}

#[test]
fn row_11_an_answer_after_the_last_one_of_a_connection_is_nobodys() {
    let case = Case {
        requests: 3,
        options: Options {
            in_flight_max: 3,
            ..Options::default()
        },
        ..Case::default()
    };
    let last = fields("Content-Length: 0\r\nConnection: close\r\n");
    let seen = play_all(&case, last.repeat(2).as_bytes(), false);
    assert!(matches!(
        seen.outcomes[..],
        [
            Outcome::Answered(_),
            Outcome::Broken {
                slot: None,
                error: WireError::H1Unsolicited
            }
        ]
    ));
}

#[test]
fn row_12_interim_answers_are_consumed_and_capped() {
    let last = fields("Content-Length: 2\r\n") + "hi";
    let interims = ["100 Continue", "102", "103 Early Hints"];
    for count in [1, 2, 31, 32, 33, 50] {
        let mut script: String = (0..count)
            .map(|n| format!("HTTP/1.1 {}\r\nLink: </a>\r\n\r\n", interims[n % 3]))
            .collect();
        script += &last;
        if count <= 32 {
            assert!(assert_answers(script, 2).reusable);
        } else {
            assert_breaks(script, "h1.interim");
        }
    }
    let closing = format!("HTTP/1.1 100 Continue\r\nConnection: close\r\n\r\n{last}");
    assert!(
        assert_answers(closing, 2).reusable,
        "an interim decides nothing"
    );
    let framed = format!("HTTP/1.1 100 Continue\r\nContent-Length: 9\r\n\r\n{last}");
    let answered = assert_answers(framed, 2);
    assert_eq!(answered.anomalies, [("framing_without_body", 1)]);
}

#[test]
fn row_12_an_unasked_switch_of_protocols_breaks() {
    assert_breaks(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x01\x02",
        "h1.interim",
    );
    assert_breaks(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 \r\n\r\n",
        "h1.interim",
    );
}

#[test]
fn row_13_a_body_where_none_may_be_is_unsolicited() {
    let head_only = Case {
        method: "HEAD",
        ..Case::default()
    };
    let get = Case::default();
    for (case, status, lines) in [
        (&head_only, "200 OK", "Content-Length: 5\r\n"),
        (&head_only, "200 OK", "Transfer-Encoding: chunked\r\n"),
        (&head_only, "404 Not Found", ""),
        (&get, "204 No Content", ""),
        (&get, "304 Not Modified", "Content-Length: 5\r\n"),
        (&get, "304 Not Modified", ""),
    ] {
        let head = format!("HTTP/1.1 {status}\r\n{lines}\r\n");
        let seen = play_all(case, head.as_bytes(), false);
        let answered = assert_answered(&seen, head.as_bytes(), 0);
        assert!(answered.reusable && answered.anomalies.is_empty());

        let seen = play_all(case, (head + "hello").as_bytes(), false);
        assert!(matches!(seen.outcomes[0], Outcome::Answered(_)));
        assert_eq!(error_of(&seen), Some(WireError::H1Unsolicited));
    }
    let framed = "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n";
    let answered = assert_answers(framed, 0);
    assert_eq!(answered.anomalies, [("framing_without_body", 1)]);
}

#[test]
fn row_14_a_dripping_answer_is_one_answer_in_progress_until_its_end() {
    use wallfinder_wire::Wire;
    use wallfinder_wire::http1::Http1;

    let case = Case::default();
    let mut shared = case.shared();
    let mut http1 = Http1::open(&shared);
    let slot = http1.issue(&shared);
    http1.poll_transmit(&shared);
    assert_eq!(http1.answering(), None);
    let script = chunks("5\r\nhello\r\n0\r\nX: y\r\n\r\n");
    for byte in script.as_bytes().chunks(1) {
        assert_eq!(http1.poll_outcome(), None);
        assert_eq!(http1.handle_bytes(&mut shared, byte), 1);
        let is_whole = http1.answering().is_none();
        assert_eq!(is_whole, http1.in_flight() == 0);
        assert!(is_whole || http1.answering() == Some(slot));
    }
    assert!(matches!(http1.poll_outcome(), Some(Outcome::Answered(_))));
}

#[test]
fn row_16_any_split_of_a_pipeline_gives_the_same_outcomes() {
    let case = Case {
        requests: 7,
        options: Options {
            in_flight_max: 3,
            ..Options::default()
        },
        ..Case::default()
    };
    let script = [
        fields("Content-Length: 5\r\n") + "hello",
        fields("Content-Length: 5\r\n") + "world",
        chunks("3\r\nabc\r\n0\r\n\r\n"),
        "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nx".to_owned(),
        fields("Content-Length: 5\r\n") + "hello",
        "HTTP/1.0 200 OK\r\n\r\nthe rest".to_owned(),
    ]
    .concat();
    let seen = play_all(&case, script.as_bytes(), true);
    let slots: Vec<(u32, u64, bool)> = seen
        .outcomes
        .iter()
        .map(|outcome| match outcome {
            Outcome::Answered(answer) => (answer.slot, answer.body_bytes, answer.reusable),
            _ => panic!("{outcome:?}"),
        })
        .collect();
    assert_eq!(
        slots,
        [
            (0, 5, true),
            (1, 5, true),
            (2, 3, true),
            (0, 0, true),
            (1, 1, true),
            (2, 5, true),
            (0, 8, false)
        ]
    );
    for cuts in 0..script.len() {
        let pieces = peer::cut(script.as_bytes(), &[cuts, cuts + 1, cuts * 7, cuts * 13]);
        assert_eq!(peer::play(&mut case.shared(), &case, pieces, true), seen);
    }
}
