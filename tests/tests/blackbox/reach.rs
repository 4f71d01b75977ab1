//! Where loads and questions go: a subject, a driver and a profiler lead no packet elsewhere; and targets
//! that cannot be right say what would be.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use wallfinder_tests::{Double, Place, free_port, program, skip, subjects, together};

const SHORT: [&str; 7] = ["-c", "2", "-d", "300ms", "--warmup", "0s", "--no-calibrate"];

#[test]
fn a_subject_that_says_that_it_listens_elsewhere_is_not_believed() {
    let _turn = together();
    for (announced, more) in [
        ("8.8.8.8:18083", &[][..]),
        ("[2001:db8::1]:18083", &[]),
        ("[::ffff:8.8.8.8]:18083", &[]),
        (
            "169.254.169.254:18083",
            &["--i-may-load", "169.254.169.254"],
        ),
    ] {
        let place = Place::new();
        let script = place.file(
            "subject.sh",
            format!("echo '{{\"listening\":\"{announced}\"}}'; exec sleep 20\n"),
        );
        let subject = format!("sh {}", script.display());
        let url = "http://subject:18083/";
        let args = [&["run", "--subject", &subject, url], &SHORT[..], more].concat();
        let ran = place.run(&args).ends_with(2);
        assert!(ran.err.contains("where the subject says"), "{}", ran.err);
        assert!(ran.took < Duration::from_secs(10), "{:?}", ran.took);
        assert!(place.runs().is_empty(), "{announced}");
    }
}

#[test]
fn a_driver_whose_command_leads_elsewhere_is_not_started() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    let marker = place.path().join("started");
    let touch = format!("touch {}", marker.display());
    for (driver, more) in [
        (format!("sh -c '{touch}; curl http://8.8.8.8/'"), &[][..]),
        (format!("sh -c '{touch}; curl $0 8.8.8.8' {{url}}"), &[]),
        (format!("sh -c '{touch}' http://elsewhere.invalid/"), &[]),
        (format!("sh -c '{touch}' --to=8.8.8.8:80"), &[]),
        (
            format!("http_proxy=http://8.8.8.8:1 sh -c '{touch}' {{url}}"),
            &[],
        ),
        (
            format!("sh -c '{touch}; curl http://2852039166/'"),
            &["--i-may-load", "2852039166"],
        ),
        (
            format!("sh -c '{touch}' http://169.254.169.254/"),
            &["--i-may-load", "169.254.169.254"],
        ),
    ] {
        for command in ["run", "find"] {
            let args = [&[command, &url, "--driver", &driver, "-q"], more].concat();
            let ran = place.run(&args).ends_with(2);
            assert!(ran.err.contains("the driver's command: "), "{}", ran.err);
        }
    }
    let args = [
        "ab",
        &url,
        "--driver-b",
        "wrk http://8.8.8.8/",
        "-d",
        "1s",
        "-q",
    ];
    let ran = place.run(&args).ends_with(2);
    assert!(ran.err.contains("--i-may-load 8.8.8.8"), "{}", ran.err);
    assert!(!marker.exists());
    assert_eq!(double.requests(), 0);
}

/// A driver whose report nobody understands: one connection for each of 300 requests.
pub(crate) fn three_hundred_curls(place: &Place) -> PathBuf {
    place.file(
        "load.sh",
        "for i in $(seq 300); do curl -s -o /dev/null \"$WALLFINDER_URL\"; done\n",
    )
}

/// A driver's script may load anything: that is said, where the command does not show that it takes the
/// target.
#[test]
fn a_driver_of_which_no_address_is_known_is_doubted() {
    let _turn = together();
    if program("curl").is_none() {
        return skip("it needs curl");
    }
    let (place, double) = (Place::new(), Double::plain());
    let script = three_hundred_curls(&place);
    let kinds = |driver: &str| {
        let ran = place.run(&["run", &double.url("/"), "-q", "--driver", driver]);
        ran.ends_with(0);
        let step = place.step();
        let caveats = step["caveats"].as_array().cloned().unwrap_or_default();
        let kinds = caveats.iter().filter_map(|caveat| caveat["kind"].as_str());
        kinds.map(str::to_owned).collect::<Vec<_>>()
    };
    let unchecked = "driver-target-unchecked".to_owned();
    assert!(kinds(&format!("sh {}", script.display())).contains(&unchecked));
    assert!(!kinds(&format!("sh {} {{url}}", script.display())).contains(&unchecked));
}

#[test]
fn profiles_are_not_asked_for_elsewhere() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let url = double.url("/");
    for (pprof, more) in [
        ("8.8.8.8:6060", &[][..]),
        ("[2001:db8::1]:6060", &[]),
        ("169.254.169.254:80", &["--i-may-load", "169.254.169.254"]),
    ] {
        let args = [&["profile", &url, "--pprof", pprof, "-d", "1s", "-q"], more].concat();
        let ran = place.run(&args).ends_with(2);
        assert!(
            ran.err.contains("where profiles are offered"),
            "{}",
            ran.err
        );
    }
    assert_eq!(double.requests(), 0);
}

#[test]
fn a_port_that_is_none_is_told_with_those_that_are() {
    let place = Place::new();
    for url in [
        "http://127.0.0.1:70000/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:/",
        "127.0.0.1:http/",
        "tcp://127.0.0.1:99999",
        "grpc://[::1]:65536/a.B/C",
    ] {
        let ran = place.run(&["run", url, "-q"]).ends_with(2);
        assert!(ran.err.contains("from 1 to 65535"), "{url}: {}", ran.err);
    }
}

/// Of each peer what it says first, and what is said of it.
#[test]
fn https_to_a_port_without_tls_is_told_what_is_spoken_there() {
    let _turn = together();
    for (answer, hint) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..],
            "speaks plain HTTP: use http://",
        ),
        (
            b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x01",
            "speaks HTTP/2 without TLS",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "Does it speak TLS there?"),
    ] {
        let port = first_words(answer);
        let place = Place::new();
        let url = format!("https://127.0.0.1:{port}/");
        let ran = place.run(&["run", &url, "-k", "-q"]).ends_with(1);
        assert!(ran.err.contains(hint), "{}", ran.err);
    }
}

#[test]
fn http_to_a_port_with_tls_is_told_what_is_spoken_there() {
    let _turn = together();
    let hint = "speaks TLS, and the load did not: use https:// in the place of http://";
    // An alert, as OpenSSL and others answer what is no handshake.
    let port = first_words(b"\x15\x03\x01\0\x02\x02\x46");
    assert_hints(&format!("http://127.0.0.1:{port}/"), &[], hint);
    let Some(_) = subjects() else { return };
    // Go's answers in plain HTTP, with 400, as nginx does.
    let port = free_port();
    let subject = format!("catalogue --server nethttp --port {port} --tls");
    let url = format!("http://subject:{port}/read");
    assert_hints(&url, &["--subject", &subject], hint);
    assert_hints(&url, &["--subject", &subject, "--http2"], hint);
}

#[test]
fn a_server_that_only_fails_gets_no_hint_of_tls() {
    let _turn = together();
    let double = Double::answering(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let place = Place::new();
    place.run(&[&["run", &double.url("/")], &SHORT[..]].concat());
    assert!(!place.record().to_string().contains("speaks TLS"));
}

#[track_caller]
fn assert_hints(url: &str, more: &[&str], hint: &str) {
    let place = Place::new();
    let ran = place.run(&[&["run", url], &SHORT[..], more].concat());
    let record = place.record();
    let caveats = record["caveats"].to_string();
    assert!(caveats.contains(hint), "{caveats}");
    let said = ran.said().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("speaks TLS"), "{said}");
}

/// A peer that answers whatever it is sent first with these bytes, and closes. It ends with the test.
fn first_words(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut peer, _)) = listener.accept() {
            std::thread::spawn(move || {
                if peer.read(&mut [0; 4096]).is_ok_and(|len| len > 0) {
                    let _ = peer.write_all(answer);
                }
            });
        }
    });
    port
}
