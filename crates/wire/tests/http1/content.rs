//! Row 15 of the fault table: content codings, looked at only where it is asked.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use wallfinder_wire::http1::Options;
use wallfinder_wire::{Decode, Outcome, WireError};
use zstd_safe::CParameter;

use crate::coded::{brotli, encode, gzip, text, zlib, zstd};
use crate::faults::{assert_answered, assert_answers, error_of, play_all};
use crate::peer::{self, Case, Seen};
use crate::reference;

#[test]
fn row_15_a_gzip_bomb_is_so_many_bytes_unless_inflation_is_asked() {
    let bomb = gzip(&vec![0; 1 << 20]);
    assert!(bomb.len() < 2000);
    let script = coded("gzip", &bomb);
    assert_answers(&script, bomb.len() as u64);

    for (cap, expected) in [
        (1 << 20, None),
        ((1 << 20) - 1, Some(WireError::BodyDecode)),
    ] {
        let case = inflating(cap);
        for size in [script.len(), 100, 1] {
            let pieces = script.chunks(size);
            let seen = peer::play(&mut case.shared(), &case, pieces, false);
            assert_eq!(error_of(&seen), expected);
        }
    }
}

#[test]
fn row_15_coded_bodies_are_checked_where_it_is_asked() {
    let plain = b"hello hello hello, said the wall to the wall, hello".as_slice();
    let (zipped, zlib, raw) = (gzip(plain), zlib(plain), deflate(plain));
    let two = [zipped.clone(), gzip(b"!")].concat();
    let (brotli, frame) = (brotli(plain), encode("zstd", plain));
    let frames = [&frame[..], SKIPPED, &zstd(b"!", &[]), SKIPPED].concat();
    for (coding, body) in [
        ("gzip", &zipped),
        ("X-GZip", &zipped),
        ("identity, gzip", &zipped),
        ("gzip", &two),
        ("deflate", &zlib),
        ("deflate", &raw),
        ("br", &brotli),
        ("zstd", &frame),
        ("ZSTD", &frames),
        ("gzip", &Vec::new()),
        ("deflate", &Vec::new()),
        ("br", &Vec::new()),
        ("zstd", &Vec::new()),
        ("compress", &Vec::new()),
        ("gzip, br", &Vec::new()),
        ("identity", &plain.to_vec()),
    ] {
        let script = coded(coding, body);
        let seen = play_all(&inflating(1000), &script, false);
        let answered = assert_answered(&seen, &script, body.len() as u64);
        assert!(answered.reusable && answered.anomalies.is_empty());

        if coding.contains("dent") || body.is_empty() {
            continue;
        }
        for bad in [
            &body[..body.len() - 1],
            &body[..1],
            &[body, &b"x"[..]].concat(),
            &[&b"x"[..], body].concat(),
        ] {
            let seen = play_all(&inflating(1000), &coded(coding, bad), false);
            assert_eq!(error_of(&seen), Some(WireError::BodyDecode), "{coding}");
        }
        let seen = play_all(&inflating(50), &script, false);
        assert_eq!(
            error_of(&seen),
            Some(WireError::BodyDecode),
            "{coding}, capped"
        );
    }
    for at in [12, zipped.len() - 8, zipped.len() - 1] {
        let mut bad = zipped.clone();
        bad[at] ^= 1;
        let seen = play_all(&inflating(1000), &coded("gzip", &bad), false);
        assert_eq!(
            error_of(&seen),
            Some(WireError::BodyDecode),
            "flipped at {at}"
        );
    }
    for at in [0, 4, frame.len() / 2, frame.len() - 1] {
        let mut bad = frame.clone();
        bad[at] ^= 0x40;
        let seen = play_all(&inflating(1000), &coded("zstd", &bad), false);
        assert_eq!(
            error_of(&seen),
            Some(WireError::BodyDecode),
            "flipped at {at}"
        );
    }
    for coding in ["compress", "gzip2", "gzip, gzip", "gzip, br"] {
        let script = coded(coding, &zipped);
        let seen = play_all(&inflating(1000), &script, false);
        assert_eq!(error_of(&seen), Some(WireError::BodyDecode), "{coding}");
        assert_answers(&script, zipped.len() as u64);
    }
}

/// A skippable frame of three bytes (RFC 8878, 3.1.2).
const SKIPPED: &[u8] = b"\x5a\x2a\x4d\x18\x03\0\0\0abc";

#[test]
fn row_15_a_body_that_says_another_coding_than_it_has_is_found() {
    let plain = text(3000, 7);
    let codings = ["gzip", "deflate", "br", "zstd", "identity"];
    for said in &codings[..4] {
        for meant in codings {
            let script = coded(said, &encode(meant, &plain));
            let seen = play_all(&inflating(10_000), &script, false);
            let expected = (*said != meant).then_some(WireError::BodyDecode);
            assert_eq!(error_of(&seen), expected, "{said} says {meant}");
        }
    }
}

#[test]
fn row_15_bombs_of_every_coding_are_capped_and_counted_to_their_last_byte() {
    const ZEROS: usize = 1 << 20;
    for coding in ["gzip", "deflate", "br", "zstd"] {
        let script = coded(coding, &encode(coding, &vec![0; ZEROS]));
        assert!(script.len() < 3000, "{coding}: {}", script.len());
        for (cap, expected) in [
            (ZEROS as u64, None),
            (ZEROS as u64 - 1, Some(WireError::BodyDecode)),
        ] {
            let case = inflating(cap);
            let mut shared = case.shared();
            for size in [script.len(), 7, 1] {
                let seen = peer::play(&mut shared, &case, script.chunks(size), false);
                assert_eq!(error_of(&seen), expected, "{coding} by {size}");
                if expected.is_none() {
                    assert_eq!(decoded_bytes(&seen), [ZEROS as u64]);
                }
            }
        }
    }
}

#[test]
fn row_15_a_zstd_window_above_8_mb_is_refused_however_little_it_holds() {
    let window = |log| {
        // Without a length, so that the window is told; a raw block of five bytes.
        let descriptor = ((log - 10) << 3) as u8;
        let start = [0x28, 0xb5, 0x2f, 0xfd, 0, descriptor];
        [&start[..], &[0x29, 0, 0], b"hello"].concat()
    };
    let known_length = |log| {
        // With a length, so that a decoder with room enough could do without a window.
        let descriptor = ((log - 10) << 3) as u8;
        let start = [0x28, 0xb5, 0x2f, 0xfd, 0x80, descriptor, 5, 0, 0, 0];
        [&start[..], &[0x29, 0, 0], b"hello"].concat()
    };
    for (body, expected) in [
        (window(23), None),
        (window(24), Some(WireError::BodyDecode)),
        (known_length(23), None),
        (known_length(24), Some(WireError::BodyDecode)),
        (known_length(31), Some(WireError::BodyDecode)),
    ] {
        let seen = play_all(&inflating(1000), &coded("zstd", &body), false);
        assert_eq!(error_of(&seen), expected, "{body:x?}");
    }
}

#[test]
fn row_15_the_larger_windows_of_brotli_are_refused() {
    // RFC 7932 has no such first byte; elsewhere it announces 30 bits of window.
    let seen = play_all(&inflating(1000), &coded("br", b"\x11\x1e\x03"), false);
    assert_eq!(error_of(&seen), Some(WireError::BodyDecode));
}

#[test]
fn bodies_are_decoded_in_every_framing() {
    let plain = text(5000, 3);
    for coding in ["gzip", "deflate", "br", "zstd"] {
        let body = encode(coding, &plain);
        let said = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\n");
        let mut chunked = format!("{said}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
        for chunk in body.chunks(100) {
            chunked.extend(format!("{:x}\r\n", chunk.len()).bytes());
            chunked.extend(chunk);
            chunked.extend(b"\r\n");
        }
        chunked.extend(b"0\r\n\r\n");
        let to_close = [format!("{said}\r\n").as_bytes(), &body].concat();
        let case = inflating(5000);
        for (script, eof) in [
            (coded(coding, &body), false),
            (chunked, false),
            (to_close, true),
        ] {
            let seen = play_all(&case, &script, eof);
            assert_eq!(decoded_bytes(&seen), [5000], "{coding}");
            let broken = peer::play(
                &mut case.shared(),
                &case,
                [&script[..script.len() - 20]],
                true,
            );
            assert!(error_of(&broken).is_some(), "{coding}");
        }
    }
}

#[test]
fn answers_without_a_body_have_nothing_to_decode() {
    for (method, line) in [
        ("HEAD", "200 OK\r\nContent-Length: 100"),
        ("GET", "204 No Content"),
        ("GET", "304 Not Modified\r\nContent-Length: 100"),
        ("GET", "200 OK\r\nContent-Length: 0"),
    ] {
        for coding in ["br", "zstd", "compress"] {
            let script = format!("HTTP/1.1 {line}\r\nContent-Encoding: {coding}\r\n\r\n");
            let case = Case {
                method,
                ..inflating(10)
            };
            let seen = play_all(&case, script.as_bytes(), false);
            assert_eq!(decoded_bytes(&seen), [0], "{method} {line} {coding}");
        }
    }
}

#[test]
fn a_check_looks_at_the_first_coded_body_of_each_connection() {
    let mut case = Case {
        requests: 4,
        ..inflating(1000)
    };
    case.options.decode = Decode::Check;
    let (sound, broken) = (coded("br", &brotli(b"hello")), coded("br", b"\xff\xff"));
    let plain = coded("identity", b"hello");
    let mut shared = case.shared();
    let mut played = |scripts: &[&[u8]]| {
        let script = scripts.concat();
        let seen = peer::play(&mut shared, &case, [&script[..]], false);
        (error_of(&seen), decoded_bytes(&seen))
    };
    assert_eq!(played(&[&sound, &broken, &sound]), (None, vec![5, 0, 0]));
    assert_eq!(played(&[&plain, &sound, &broken]), (None, vec![0, 5, 0]));
    let empty = coded("br", b"");
    let found = Some(WireError::BodyDecode);
    assert_eq!(played(&[&broken, &sound]), (found, vec![]));
    assert_eq!(played(&[&empty, &plain, &broken]), (found, vec![0, 0]));
}

#[test]
fn where_all_bodies_are_decoded_plain_ones_count_as_they_are() {
    let case = Case {
        requests: 3,
        ..inflating(1000)
    };
    let plain = coded("identity", b"hello");
    let script = [
        &plain[..],
        &coded("zstd", &encode("zstd", b"world!")),
        &plain,
    ]
    .concat();
    assert_eq!(decoded_bytes(&play_all(&case, &script, false)), [5, 6, 5]);
}

fn decoded_bytes(seen: &Seen) -> Vec<u64> {
    let answers = seen.outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Answered(answer) => Some(answer.decoded_bytes),
        _ => None,
    });
    answers.collect()
}

proptest! {
    #[test]
    fn any_split_and_any_damage_mean_the_same(
        coding in select(vec!["gzip", "deflate", "br", "zstd"]),
        len in prop_oneof![0..100_usize, 0..300_000_usize],
        seed in any::<u64>(),
        window_log in 10..24_u32,
        damage in vec((any::<Index>(), any::<u8>()), 0..3),
        cuts in vec(any::<usize>(), 0..20),
    ) {
        let plain = text(len, seed);
        let mut body = match coding {
            "zstd" => zstd(&plain, &[
                CParameter::WindowLog(window_log),
                CParameter::ContentSizeFlag(seed % 2 == 0),
                CParameter::ChecksumFlag(seed % 3 == 0),
            ]),
            coding => encode(coding, &plain),
        };
        let sound = body.clone();
        for (at, byte) in &damage {
            let at = at.index(body.len());
            body[at] = *byte;
        }
        let case = inflating(1 << 20);
        let script = coded(coding, &body);
        let expected = reference::decode(&case, &script, false);
        if body == sound {
            prop_assert_eq!(decoded_bytes(&expected), [len as u64]);
        }
        let mut shared = case.shared();
        for pieces in [vec![&script[..]], peer::cut(&script, &cuts), script.chunks(1).collect()] {
            let seen = peer::play(&mut shared, &case, pieces, false);
            prop_assert_eq!(&seen, &expected, "{}", coding);
        }
    }
}

#[test]
fn row_15_a_gzip_header_with_every_part_is_understood() {
    let header = flate2::GzBuilder::new()
        .extra([1, 2, 0, 3])
        .filename("a.txt")
        .comment("b");
    let mut encoder = header.write(Vec::new(), Compression::default());
    encoder.write_all(b"hello").unwrap();
    let plain = encoder.finish().unwrap();
    let mut summed = plain.clone();
    summed[3] |= 2;
    let header_len = 10 + 2 + 4 + 6 + 2;
    let mut crc = flate2::Crc::new();
    crc.update(&summed[..header_len]);
    let sum = crc.sum().to_le_bytes();
    summed.splice(header_len..header_len, [sum[0], sum[1]]);
    let both = [plain.clone(), summed.clone()].concat();
    for body in [&plain, &summed, &both] {
        let seen = play_all(&inflating(10), &coded("gzip", body), false);
        assert_eq!(error_of(&seen), None);
    }
    summed[4] ^= 1;
    let seen = play_all(&inflating(5), &coded("gzip", &summed), false);
    assert_eq!(error_of(&seen), Some(WireError::BodyDecode));
}

#[test]
fn row_15_a_deflate_bomb_is_counted_to_its_last_byte() {
    // It is inflated at every split of its bytes, so it is a small one.
    const ZEROS: usize = 1 << 16;
    for body in [deflate(&vec![0; ZEROS]), zlib(&vec![0; ZEROS])] {
        for (cap, expected) in [
            (ZEROS as u64, None),
            (ZEROS as u64 - 1, Some(WireError::BodyDecode)),
        ] {
            let seen = play_all(&inflating(cap), &coded("deflate", &body), false);
            assert_eq!(error_of(&seen), expected);
        }
    }
}

#[test]
fn row_15_the_cap_is_for_each_body() {
    let case = Case {
        requests: 3,
        ..inflating(5)
    };
    for (coding, body) in [("gzip", gzip(b"hello")), ("deflate", zlib(b"hello"))] {
        let seen = play_all(&case, &coded(coding, &body).repeat(3), false);
        assert_eq!((seen.outcomes.len(), error_of(&seen)), (3, None));
    }
}

#[test]
fn row_15_raw_deflate_is_told_from_zlib_by_the_check_of_its_header() {
    // A stored block whose padding makes the first byte look like zlib's.
    let raw = b"\x08\x05\x00\xfa\xffhello\x01\x00\x00\xff\xff";
    let seen = play_all(&inflating(5), &coded("deflate", raw), false);
    assert_eq!(error_of(&seen), None);
}

fn inflating(cap: u64) -> Case {
    Case {
        options: Options {
            decode: Decode::Inflate,
            decoded_bytes_max: cap,
            ..Options::default()
        },
        ..Case::default()
    }
}

fn coded(coding: &str, body: &[u8]) -> Vec<u8> {
    let lines = format!(
        "Content-Encoding: {coding}\r\nContent-Length: {}\r\n",
        body.len()
    );
    let head = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
    [head.as_bytes(), body].concat()
}

fn deflate(plain: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).expect("memory does not fail");
    encoder.finish().expect("memory does not fail")
}
