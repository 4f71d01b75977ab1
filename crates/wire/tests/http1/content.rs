//! Row 15 of the fault table: content codings, looked at only where it is asked.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use wallfinder_wire::WireError;
use wallfinder_wire::http1::Options;

use crate::faults::{assert_answered, assert_answers, error_of, play_all};
use crate::peer::{self, Case};

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
    for (coding, body) in [
        ("gzip", &zipped),
        ("X-GZip", &zipped),
        ("identity, gzip", &zipped),
        ("gzip", &two),
        ("deflate", &zlib),
        ("deflate", &raw),
        ("gzip", &Vec::new()),
        ("deflate", &Vec::new()),
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
    for coding in ["br", "gzip, gzip", "gzip, br"] {
        let script = coded(coding, b"?");
        let seen = play_all(&inflating(1000), &script, false);
        let answered = assert_answered(&seen, &script, 1);
        assert_eq!(answered.anomalies, [("content_not_inflated", 1)]);
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
            inflate: Some(cap),
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

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn zlib(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn deflate(plain: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}
