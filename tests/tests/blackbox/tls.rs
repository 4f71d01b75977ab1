//! TLS at real servers: Go's, nginx's, and ones that should not be believed.

use std::time::{Duration, Instant};

use serde_json::Value;
use wallfinder_tests::{
    Double, ECHO_PROTO, Place, busily, free_port, json_at, skip, subjects, together,
};

const SHORT: [&str; 6] = ["-d", "400ms", "--warmup", "100ms", "--no-calibrate", "-q"];

/// A subject under TLS, and the flags and the URL that load it.
struct Load<'a> {
    subject: &'a str,
    url: &'a str,
    more: &'a [&'a str],
}

impl Load<'_> {
    /// Runs it, by a certificate that the subject makes, and gives the step.
    fn step(&self) -> Value {
        let place = Place::new();
        let certificate = place.path().join("cert.pem").display().to_string();
        let port = free_port().to_string();
        let subject = format!(
            "{} --port {port} --tls --tls-cert-out {certificate}",
            self.subject
        );
        let url = self.url.replace("PORT", &port);
        let fixed = ["run", "--subject", &subject, "--cacert", &certificate, &url];
        place
            .run(&[&fixed, &SHORT[..], self.more].concat())
            .ends_with(0);
        place.step()
    }
}

fn answered(step: &Value) -> u64 {
    let counts = &step["counts"];
    let failed = counts["failed"].as_object().unwrap();
    assert!(failed.is_empty(), "{counts:#}");
    counts["answered"].as_u64().unwrap()
}

#[test]
fn every_protocol_is_spoken_under_tls() {
    let _turn = busily();
    if subjects().is_none() {
        return;
    }
    let call = [
        "--proto",
        ECHO_PROTO,
        "-b",
        r#"{"id":"r-1","data":"aGVsbG8="}"#,
    ];
    for (subject, url, alpn, more) in [
        (
            "catalogue",
            "https://subject:PORT/read",
            Some("http/1.1"),
            &["--pipeline", "3"][..],
        ),
        (
            "catalogue --server fasthttp",
            "https://subject:PORT/read",
            Some("http/1.1"),
            &[],
        ),
        (
            "catalogue --server nethttp",
            "https://subject:PORT/read",
            Some("h2"),
            &["--http2", "--streams", "10"],
        ),
        (
            "echo --protocol grpc",
            "grpcs://subject:PORT/wallfinder.echo.Echo/Call",
            Some("h2"),
            &call[..],
        ),
        (
            "echo",
            "tcps://subject:PORT",
            None,
            &["--frame", "u32be", "-b", "\u{a}\u{3}abc"],
        ),
    ] {
        for io in ["epoll", "auto"] {
            let more = [more, &["-c", "4", "--io", io]].concat();
            let step = Load {
                subject,
                url,
                more: &more,
            }
            .step();
            assert!(answered(&step) > 100, "{subject} {io}: {step:#}");
            let tls = json_at(&step, "/target/tls");
            assert_eq!(tls["version"], "TLSv1.3", "{tls}");
            assert_eq!(tls["alpn"].as_str(), alpn, "{tls}");
            assert_eq!(tls["verified"], true);
            assert_eq!(tls["resumes"], true);
        }
    }
}

#[test]
fn a_server_behind_tls_describes_itself() {
    let _turn = together();
    let Some(folder) = subjects() else { return };
    let subject = folder.join("calls").display().to_string();
    let step = Load {
        subject: &subject,
        url: "grpcs://subject:PORT/wallfinder.calls.Calls/Down",
        more: &["-b", r#"{"timestamp": "3"}"#, "-c", "2"],
    }
    .step();
    let answered = answered(&step);
    assert!(answered > 100, "{step:#}");
    assert_eq!(step["counts"]["messages"].as_u64(), Some(3 * answered));
}

#[test]
fn a_connection_for_each_request_is_a_load_of_handshakes() {
    let _turn = together();
    if subjects().is_none() {
        return;
    }
    let began = |more: &[&str]| {
        let more = [&["-c", "2", "--no-keepalive"][..], more].concat();
        let load = Load {
            subject: "catalogue",
            url: "https://subject:PORT/simple",
            more: &more,
        };
        let step = load.step();
        let connects = step["counts"]["connects"].as_u64().unwrap();
        let answered = answered(&step);
        assert!(answered > 20 && connects + 4 >= answered, "{step:#}");
        let of = |kind: &str| json_at(&step, &format!("/counts/handshakes/{kind}")).as_u64();
        let (full, resumed) = (of("full").unwrap(), of("resumed").unwrap());
        assert!(full + resumed >= connects, "{step:#}");
        (full, resumed)
    };
    let (full, resumed) = began(&[]);
    assert!(resumed > 4 * full, "{full} full, {resumed} resumed");
    let (_, resumed) = began(&[
        "--no-tls-resumption",
        "--tls-groups",
        "secp256r1",
        "--tls-version",
        "1.2",
    ]);
    assert_eq!(resumed, 0);
}

#[test]
fn whom_nobody_vouches_for_is_not_loaded_unless_that_is_asked_for() {
    let _turn = together();
    if subjects().is_none() {
        return;
    }
    let place = Place::new();
    let port = free_port().to_string();
    let subject = format!("catalogue --tls --port {port}");
    let url = format!("https://subject:{port}/simple");
    let fixed = ["run", "--subject", &subject, &url];
    let ran = place.run(&[&fixed, &SHORT[..]].concat()).ends_with(1);
    let said = ran.said();
    for word in ["certificate", "--cacert", "-k"] {
        assert!(said.contains(word), "{said}");
    }
    assert!(place.runs().is_empty(), "nothing was measured");
    let believing = [&fixed, &SHORT[..5], &["-k"]].concat();
    let ran = place.run(&believing).ends_with(0);
    assert!(ran.said().contains("not verified"), "{}", ran.said());
    let step = place.step();
    assert!(answered(&step) > 100);
    assert_eq!(json_at(&step, "/target/tls/verified"), false);
    let caveats = json_at(&step, "/verdict/caveats");
    let said = caveats.to_string();
    assert!(said.contains("not-verified"), "{said}");
}

#[test]
fn a_certificate_for_another_name_is_refused_and_a_name_can_be_given() {
    let _turn = together();
    if subjects().is_none() {
        return;
    }
    for (name, code) in [("localhost", 0), ("elsewhere.test", 1)] {
        let place = Place::new();
        let certificate = place.path().join("cert.pem").display().to_string();
        let port = free_port().to_string();
        let subject = format!("catalogue --tls --port {port} --tls-cert-out {certificate}");
        let url = format!("https://subject:{port}/simple");
        let fixed = [
            "run",
            "--subject",
            &subject,
            "--cacert",
            &certificate,
            "--server-name",
        ];
        let ran = place.run(&[&fixed[..], &[name, &url], &SHORT].concat());
        let said = ran.ends_with(code).said();
        assert!(code == 0 || said.contains("not valid for name"), "{said}");
    }
}

#[test]
fn what_speaks_no_tls_or_never_answers_is_said_before_the_load() {
    let _turn = together();
    let plain = Double::plain();
    let place = Place::new();
    let url = plain.url("/").replace("http://", "https://");
    let args = [&["run", "-k", &url][..], &SHORT].concat();
    let said = place.run(&args).ends_with(1).said();
    assert!(
        said.contains("tls.handshake") && said.contains("speak TLS"),
        "{said}"
    );
    let silent = Double::start(|_| std::thread::sleep(Duration::from_secs(30)));
    // A record that comes byte by byte: each is in time, and all of them are not.
    let trickling = Double::start(|client| {
        client.say([22, 3, 3, 64, 0]);
        while client.say([2]) {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    for double in [&silent, &trickling] {
        let url = double.url("/").replace("http://", "https://");
        let args = [&["run", "-k", &url][..], &SHORT].concat();
        let began = Instant::now();
        let said = place.run(&args).ends_with(1).said();
        assert!(said.contains("tls.handshake"), "{said}");
        assert!(began.elapsed() < Duration::from_secs(30), "{said}");
    }
    assert!(place.runs().is_empty());
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    let _turn = together();
    let place = Place::new();
    let none = place.file("none.pem", "no certificate");
    let none = none.to_str().unwrap();
    for (args, word) in [
        (&["-k", "http://127.0.0.1:1/"][..], "for TLS"),
        (&["--cacert", none, "https://127.0.0.1:1/"], "--cacert"),
        (
            &["--cacert", "/does/not/exist", "https://127.0.0.1:1/"],
            "--cacert",
        ),
        (
            &["-k", "--tls-groups", "p521", "https://127.0.0.1:1/"],
            "x25519",
        ),
        (&["-k", "--cert", none, "https://127.0.0.1:1/"], "--key"),
        (
            &["-k", "--cert", none, "--key", none, "https://127.0.0.1:1/"],
            "--key",
        ),
    ] {
        let said = place.run(&[&["run"], args].concat()).ends_with(2).said();
        assert!(said.contains(word), "{args:?}: {said}");
    }
}

#[test]
fn nginx_is_loaded_in_both_protocols() {
    let _turn = together();
    let (Some(nginx), Some(openssl)) = (
        wallfinder_tests::program("nginx"),
        wallfinder_tests::program("openssl"),
    ) else {
        skip("it needs nginx and openssl");
        return;
    };
    let place = Place::new();
    let folder = place.path().display().to_string();
    let port = free_port();
    let made = std::process::Command::new(openssl)
        .current_dir(place.path())
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        ])
        .args([
            "-subj",
            "/CN=nginx",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    place.file("index.html", "hello\n".repeat(5_000));
    let config = format!(
        "daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; root {folder}; default_type text/html;\n\
         client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;\n\
         uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;\n\
         server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {folder}/cert.pem;\n\
         ssl_certificate_key {folder}/key.pem; keepalive_requests 100; }} }}\n"
    );
    let config = place.file("nginx.conf", config);
    let mut command = std::process::Command::new(nginx);
    command.arg("-e").arg(place.path().join("error.log"));
    command.arg("-c").arg(config);
    let mut running = place.start_command(command);
    let since = std::time::Instant::now();
    while !wallfinder_tests::listens_on(port) {
        assert!(
            running.runs() && since.elapsed() < Duration::from_secs(10),
            "{}",
            running.err()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let url = format!("https://127.0.0.1:{port}/");
    let certificate = format!("{folder}/cert.pem");
    for http2 in [&[][..], &["--http2", "--streams", "5"]] {
        let fixed = ["run", "-c", "4", "--cacert", &certificate, &url];
        place
            .run(&[&fixed, &SHORT[..], http2].concat())
            .ends_with(0);
        let step = place.step();
        let counts = &step["counts"];
        let answered = counts["answered"].as_u64().unwrap();
        assert!(answered > 100, "{counts:#}");
        // nginx hangs up after a hundred. With HTTP/2 it says which streams it did not look at.
        let failed = counts["failed"].as_object().unwrap();
        let classes: Vec<&String> = failed.keys().collect();
        assert!(
            classes.is_empty() || (!http2.is_empty() && classes == ["h2.unprocessed"]),
            "{counts:#}"
        );
        let connects = counts["connects"].as_u64().unwrap();
        // The four that the window began with are not among these.
        assert!(connects + 4 >= answered / 110, "{counts:#}");
        let bytes = counts["body_bytes"].as_u64().unwrap();
        assert_eq!(bytes, answered * 30_000);
    }
    running.signal(rustix::process::Signal::TERM);
    running.wait(Duration::from_secs(10));
}
