//! Loads of a private protocol: messages that follow their length, on plain TCP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use wallfinder_tests::{Place, free_port, json_at, subjects, together};

const SHORT: [&str; 7] = ["-c", "2", "-d", "300ms", "--warmup", "0s", "--no-calibrate"];

/// A server that sends bytes back as they come: what any frame is answered with is itself.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            thread::spawn(move || {
                let mut bytes = vec![0; 64 * 1024];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    if stream.write_all(&bytes[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn framed_messages_are_loaded_and_their_answers_counted() {
    let _turn = together();
    let url = format!("tcp://{}", echo());
    for (frame, bytes) in [("u32be", 64_u64), ("u16le,inclusive,id=u32be@4", 1000)] {
        let place = Place::new();
        let bytes_flag = bytes.to_string();
        let frame_flags = ["--frame", frame, "--body-bytes", &bytes_flag];
        let args = [&["run", &url][..], &frame_flags, &SHORT].concat();
        let ran = place.run(&args).ends_with(0);
        assert!(ran.out.contains(&format!("{frame} tcp://")), "{}", ran.out);
        let record = place.record();
        let step = json_at(&record, "/steps/0");
        assert_eq!(json_at(step, "/load/method"), frame);
        let answered = json_at(step, "/counts/answered").as_u64().expect("a count");
        assert!(answered > 100, "{answered}");
        assert_eq!(
            json_at(step, "/counts/body_bytes").as_u64(),
            Some(answered * bytes)
        );
        assert_eq!(json_at(step, "/counts/failed"), &serde_json::json!({}));
    }
}

#[test]
fn what_framed_tcp_cannot_have_is_refused_with_the_way_out() {
    let _turn = together();
    let place = Place::new();
    for (args, says) in [
        (&["run", "tcp://127.0.0.1:9"][..], "--frame u32be"),
        (&["run", "tcp://127.0.0.1:9", "--frame", "u24be"], "u24be"),
        (
            &["run", "tcp://127.0.0.1:9", "--frame", "u8"],
            "--body-bytes",
        ),
        (&["run", "tcp://127.0.0.1", "--frame", "u8"], "a port"),
        (
            &["run", "tcp://127.0.0.1:9/x", "--frame", "u8"],
            "has no path",
        ),
        (
            &["run", "http://127.0.0.1:9/", "--frame", "u8"],
            "is for tcp://",
        ),
        (
            &[
                "run",
                "tcp://127.0.0.1:9",
                "--frame",
                "u8",
                "-b",
                "x",
                "-H",
                "A: b",
            ],
            "-H is HTTP's",
        ),
        (
            &[
                "run",
                "tcp://127.0.0.1:9",
                "--frame",
                "u8",
                "--body-bytes",
                "256",
            ],
            "255 at most",
        ),
    ] {
        let ran = place.run(args).ends_with(2);
        assert!(ran.err.contains(says), "{args:?}: {}", ran.err);
    }
}

#[test]
fn the_echo_subject_gives_back_every_payload_it_is_sent() {
    let _turn = together();
    let Some(_) = subjects() else { return };
    let place = Place::new();
    // Field 2, `data`, of 5 bytes; the answer adds field 3, a timestamp of 1 + 9 bytes.
    std::fs::write(place.path().join("payload"), b"\x12\x05hello").expect("a file");
    for (protocol, scheme, path, how) in [
        ("tcp", "tcp", "", ["--frame", "u32be"]),
        ("rest", "http", "/echo", ["-m", "POST"]),
    ] {
        let subject = format!("echo --protocol {protocol}");
        let url = format!("{scheme}://subject:{}{path}", free_port());
        let args = ["run", &url, "--subject", &subject, "-b", "@payload"];
        let args = [&args[..], &how, &SHORT].concat();
        place.run(&args).ends_with(0);
        let record = place.record();
        let counts = json_at(&record, "/steps/0/counts");
        let answered = json_at(counts, "/answered").as_u64().expect("a count");
        assert!(answered > 100, "{protocol}: {answered}");
        assert_eq!(json_at(counts, "/body_bytes").as_u64(), Some(answered * 17));
        assert_eq!(json_at(counts, "/failed"), &serde_json::json!({}));
    }
}
