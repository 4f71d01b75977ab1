//! HTTP/2 by prior knowledge, at a server that is not ours.

use std::process::Command;
use std::time::{Duration, Instant};

use wallfinder_tests::{Double, Place, Served, json_at, skip, together};

const SHORT: [&str; 6] = [
    "-d",
    "300ms",
    "--warmup",
    "100ms",
    "--no-calibrate",
    "--http2",
];

/// nghttp2's own server of a folder; `None`, with the reason printed, where it is not installed.
fn nghttpd(folder: &str) -> Option<Served> {
    let served = Served::start(|port| {
        let mut command = Command::new("nghttpd");
        command.args(["--no-tls", "-d", folder, &port.to_string()]);
        command
    });
    if served.is_err() {
        skip("nghttpd is not installed (Debian: nghttp2-server)");
    }
    served.ok()
}

#[test]
fn streams_of_a_connection_are_loaded_and_their_answers_counted() {
    let _turn = together();
    let place = Place::new();
    place.file("hello", "hello, world");
    let folder = place.path().to_str().expect("a plain path");
    let Some(server) = nghttpd(folder) else {
        return;
    };
    for (path, status, streams) in [
        ("/hello", "200", "1"),
        ("/hello", "200", "50"),
        ("/no", "404", "5"),
    ] {
        for io in ["epoll", "auto"] {
            let url = format!("http://127.0.0.1:{}{path}", server.port());
            let load = ["-c", "3", "--streams", streams, "--io", io];
            let args = [&["run", &url][..], &load, &SHORT].concat();
            place.run(&args);
            let counts = json_at(&place.record(), "/steps/0/counts").clone();
            let answers = json_at(&counts, &format!("/statuses/{status}")).as_u64();
            assert!(
                answers.is_some_and(|count| count > 100),
                "{path} {io}: {counts}"
            );
            let failed = json_at(&counts, "/failed").as_object().expect("classes");
            match status {
                "200" => {
                    assert!(failed.is_empty(), "{counts}");
                    let answered = json_at(&counts, "/answered").as_u64().expect("a count");
                    assert_eq!(
                        json_at(&counts, "/body_bytes").as_u64(),
                        Some(12 * answered)
                    );
                }
                _ => assert_eq!(
                    failed.keys().collect::<Vec<_>>(),
                    ["status.4xx"],
                    "{counts}"
                ),
            }
        }
    }
}

#[test]
fn a_server_of_another_protocol_is_named_at_once() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let since = Instant::now();
    let ran = place
        .run(&["run", &url, "-c", "4", "-d", "20s", "--http2"])
        .ends_with(1);
    assert!(ran.err.contains("does not speak HTTP/2"), "{}", ran.err);
    assert!(ran.err.contains("leave --http2 out"), "{}", ran.err);
    assert!(
        since.elapsed() < Duration::from_secs(10),
        "the load went on"
    );
}
