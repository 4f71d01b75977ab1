//! gRPC: calls of each kind at real grpc-go servers, described by files and by the server.

use serde_json::{Value, json};
use wallfinder_tests::{ECHO_PROTO, Place, free_port, json_at, subjects, together};

const SHORT: [&str; 7] = ["-c", "2", "-d", "300ms", "--warmup", "0s", "--no-calibrate"];

/// A file of this workspace.
fn file(path: &str) -> String {
    format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))
}

/// Loads a method, and gives the counts.
#[track_caller]
fn counts(subject: &str, method: &str, kind: &str, flags: &[&str]) -> Value {
    let place = Place::new();
    let port = free_port();
    let subject = format!("{subject} --port {port}");
    let url = format!("grpc://subject:{port}/{method}");
    let args = ["run", &url, "--subject", &subject];
    let ran = place.run(&[&args[..], flags, &SHORT].concat());
    assert!(ran.out.contains("grpc://"), "{}", ran.out);
    let record = place.record();
    // Whether anything was answered well decides how it ends.
    let code = i32::from(json_at(&record, "/steps/0/counts/answered") == 0);
    ran.ends_with(code);
    assert_eq!(json_at(&record, "/steps/0/load/method"), kind);
    json_at(&record, "/steps/0/counts").clone()
}

#[track_caller]
fn number(counts: &Value, name: &str) -> u64 {
    json_at(counts, name).as_u64().expect("a count")
}

#[test]
fn the_echo_subject_gives_back_every_payload_it_is_sent() {
    let _turn = together();
    let Some(_) = subjects() else { return };
    let flags = [
        "--proto",
        ECHO_PROTO,
        "-b",
        r#"{"data": "aGVsbG8="}"#,
        "--streams",
        "5",
    ];
    let method = "wallfinder.echo.Echo/Call";
    let counts = counts("echo --protocol grpc", method, "unary", &flags);
    let answered = number(&counts, "/answered");
    assert!(answered > 100, "{counts}");
    assert_eq!(json_at(&counts, "/failed"), &json!({}));
    // `data` of 5 bytes, and the timestamp that the server adds.
    assert_eq!(number(&counts, "/body_bytes"), answered * 17);
    assert_eq!(number(&counts, "/messages"), answered);
}

#[test]
fn a_server_describes_itself_and_streams() {
    let _turn = together();
    let Some(folder) = subjects() else { return };
    let calls = folder.join("calls");
    let two = r#"[{"id": "a"}, {"id": "b"}]"#;
    for (version, method, kind, body, messages) in [
        ("v1", "Down", "server-streaming", r#"{"timestamp": "3"}"#, 3),
        ("v1alpha", "Both", "bidi-streaming", two, 2),
        ("both", "Up", "client-streaming", two, 1),
    ] {
        let subject = format!("{} --reflection {version}", calls.display());
        let method = format!("wallfinder.calls.Calls/{method}");
        let counts = counts(&subject, &method, kind, &["-b", body]);
        let answered = number(&counts, "/answered");
        assert!(answered > 100, "{version} {method}: {counts}");
        assert_eq!(number(&counts, "/messages"), answered * messages);
        assert_eq!(json_at(&counts, "/failed"), &json!({}));
    }
    let subject = calls.display().to_string();
    let in_turn = ["-b", two, "--in-turn"];
    let kind = "bidi-streaming in turn";
    let counts = counts(&subject, "wallfinder.calls.Calls/Both", kind, &in_turn);
    let answered = number(&counts, "/answered");
    assert!(answered > 100, "{counts}");
    assert_eq!(number(&counts, "/messages"), 2 * answered);
}

#[test]
fn statuses_and_deadlines_are_classes_of_failure() {
    let _turn = together();
    let Some(folder) = subjects() else { return };
    let subject = format!("{} --reflection none", folder.join("calls").display());
    let (calls, echo) = (
        file("subjects/go/cmd/calls/calls.proto"),
        file("subjects/go/echo/payload"),
    );
    for (method, body, flag, class) in [
        (
            "Fail",
            r#"{"timestamp": "5"}"#,
            "--deadline=9s",
            "grpc.status.not_found",
        ),
        ("Slow", r#"{"timestamp": "5000"}"#, "--deadline=20ms", ""),
        ("Metadata", r#"{"id": "x", "data": "eQ=="}"#, "-HX: y", ""),
        (
            "Metadata",
            r#"{"id": "x", "data": "eQ=="}"#,
            "-HX: z",
            "grpc.status.failed_precondition",
        ),
    ] {
        let flags = ["--proto", &calls, "-I", &echo, "-b", body, flag];
        let method_name = format!("wallfinder.calls.Calls/{method}");
        let counts = counts(&subject, &method_name, "unary", &flags);
        let failed = json_at(&counts, "/failed").as_object().expect("classes");
        let classes: Vec<&str> = failed.keys().map(String::as_str).collect();
        if method == "Slow" {
            // Whoever looks at its clock first.
            let ends = [
                "grpc.status.deadline_exceeded",
                "h2.reset.cancel",
                "timeout.total",
            ];
            assert!(
                !classes.is_empty() && classes.iter().all(|class| ends.contains(class)),
                "{counts}"
            );
            assert_eq!(number(&counts, "/answered"), 0);
        } else if class.is_empty() {
            assert!(
                classes.is_empty() && number(&counts, "/answered") > 100,
                "{counts}"
            );
        } else {
            assert_eq!(classes, [class], "{counts}");
        }
    }
}

#[test]
fn what_cannot_be_called_is_said_before_any_load() {
    let _turn = together();
    let place = Place::new();
    let url = "grpc://127.0.0.1:9/wallfinder.echo.Echo/Call";
    let broken = place.file("broken.proto", "syntax = \"proto3\";\nmessage {}\n");
    let broken = broken.to_str().expect("a plain path");
    for (args, says) in [
        (
            &["grpc://127.0.0.1:9/", "--proto", ECHO_PROTO][..],
            "names a method",
        ),
        (
            &["grpc://127.0.0.1/a.B/C", "--proto", ECHO_PROTO],
            "needs a port",
        ),
        (
            &["grpc://127.0.0.1:9/a.B/C", "--proto", ECHO_PROTO],
            "there are: wallfinder.echo.Echo",
        ),
        (
            &[
                "grpc://127.0.0.1:9/wallfinder.echo.Echo/Cull",
                "--proto",
                ECHO_PROTO,
            ],
            "it has: Call",
        ),
        (
            &[url, "--proto", ECHO_PROTO, "-b", r#"{"ident": 1}"#],
            "id (string), data (bytes)",
        ),
        (&[url, "--proto", broken], "broken.proto:2:9"),
        (
            &[url, "--proto", ECHO_PROTO, "-H", "x-bin: ?"],
            "not base64",
        ),
        (
            &[url, "--proto", ECHO_PROTO, "-m", "POST"],
            "-m is not for grpc://",
        ),
        (
            &["http://127.0.0.1:9/", "--proto", ECHO_PROTO],
            "--proto is for targets of grpc://",
        ),
        (
            &[url, "--proto", ECHO_PROTO, "--in-turn"],
            "go in turn where both sides stream, and this call is unary",
        ),
        (
            &["http://127.0.0.1:9/", "--in-turn"],
            "--in-turn is for targets of grpc://",
        ),
        (
            &["http://127.0.0.1:9/", "--deadline", "1s"],
            "--deadline is for targets of grpc://",
        ),
    ] {
        let ran = place.run(&[&["run"][..], args].concat()).ends_with(2);
        assert!(ran.err.contains(says), "{args:?}: {}", ran.err);
    }
    // Nobody listens who could say what there is.
    let ran = place.run(&["run", url, "--wait", "0s"]).ends_with(1);
    assert!(
        ran.err.contains("--proto FILE or --protoset FILE"),
        "{}",
        ran.err
    );
}
