//! Coded bodies, decoded by the client where it is asked, from a server that is not ours to
//! trust and from one that lies.

use std::process::Command;

use wallfinder_tests::{Double, Place, Served, busily, json_at, skip, subjects, together};

const SHORT: [&str; 7] = ["-d", "300ms", "--warmup", "0s", "--no-calibrate", "-c", "3"];

/// What the subject makes of `/realistic/4k.txt`, as it is.
const PLAIN_BYTES: u64 = 4096;

/// The subject that negotiates codings; `None`, with the reason printed, where it is not built.
fn content() -> Option<Served> {
    let program = subjects()?.join("content");
    if !program.is_file() {
        skip("the subject content is not built (make subjects)");
        return None;
    }
    let served = Served::start(|port| {
        let mut command = Command::new(&program);
        command.args(["--port", &port.to_string()]);
        command
    });
    Some(served.expect("it can be started"))
}

#[test]
fn every_coding_is_decoded_to_what_it_was_over_both_protocols() {
    let _turn = busily();
    let place = Place::new();
    let Some(server) = content() else {
        return;
    };
    let url = format!("http://127.0.0.1:{}/realistic/4k.txt", server.port());
    for protocol in [&[][..], &["--http2", "--streams", "4"]] {
        for coding in ["gzip", "deflate", "br", "zstd", "identity"] {
            let accept = format!("Accept-Encoding: {coding}");
            for decode in ["inflate", "check", "none"] {
                let asked = ["run", &url, "-H", &accept, "--decode", decode];
                let ran = place
                    .run(&[&asked[..], &SHORT, protocol].concat())
                    .ends_with(0);
                let step = place.step();
                let what = format!("{coding} {decode} {protocol:?}: {}", step["counts"]);
                assert_eq!(step["counts"]["failed"].to_string(), "{}", "{what}");
                assert_eq!(step["load"]["decode"], decode);
                let count = |name: &str| json_at(&step, &format!("/counts/{name}")).as_u64();
                let answered = count("answered").expect("a count");
                let body = count("body_bytes").expect("a count");
                let is_coded = coding != "identity";
                assert!(answered > 20, "{what}");
                assert_eq!(body < answered * PLAIN_BYTES, is_coded, "{what}");
                let expected = match decode {
                    "inflate" => Some(answered * PLAIN_BYTES),
                    // The first answer of each of three connections.
                    "check" if is_coded => Some(3 * PLAIN_BYTES),
                    _ => None,
                };
                let decoded = step["counts"].get("decoded_bytes");
                assert_eq!(decoded.and_then(|bytes| bytes.as_u64()), expected, "{what}");
                for (words, mode) in [
                    ("every body decoded", "inflate"),
                    ("decoded to 4.10 KB", "inflate"),
                    ("first coded body", "check"),
                ] {
                    assert_eq!(ran.out.contains(words), decode == mode, "{}", ran.out);
                }
            }
        }
    }
}

#[test]
fn a_server_that_lies_about_its_coding_is_found() {
    let _turn = together();
    let place = Place::new();
    let lying = Double::answering(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
    );
    let other = Double::answering(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, br\r\nContent-Length: 5\r\n\r\nhello",
    );
    for double in [&lying, &other] {
        let url = double.url("/");
        for how in [
            &["--decode", "inflate"][..],
            &["--inflate"],
            &["--decode", "check"],
        ] {
            let ran = place.run(&[&["run", &url], how, &SHORT].concat());
            let counts = place.step()["counts"].clone();
            assert_eq!(counts["answered"], 0, "{how:?}: {counts}");
            let failed = counts["failed"].as_object().expect("classes");
            let classes: Vec<&String> = failed.keys().collect();
            assert_eq!(
                classes,
                ["body.decode"],
                "{how:?}: {counts}\n{}",
                ran.said()
            );
        }
        place
            .run(&[&["run", &url][..], &SHORT].concat())
            .ends_with(0);
        assert_eq!(place.step()["counts"]["failed"].to_string(), "{}");
    }
}

#[test]
fn what_cannot_be_decoded_as_asked_is_refused_before_any_load() {
    let place = Place::new();
    let double = Double::plain();
    let url = double.url("/");
    let framed = format!("tcp://127.0.0.1:{}", double.port());
    for args in [
        &["run", &url, "--decode", "all"][..],
        &["run", &url, "--decode", "check", "--inflate"],
        &["run", &framed, "--frame", "u32be", "--decode", "check"],
        &["run", "grpc://127.0.0.1:1/a.B/C", "--decode", "inflate"],
    ] {
        let ran = place.run(args).ends_with(2);
        let says = ran.err.contains("--decode");
        assert!(says, "{args:?}: {}", ran.err);
    }
    assert_eq!(double.connections(), 0);
}
