//! The Go clients of the echo subject as drivers: found among the subjects, and understood.

use wallfinder_tests::{Place, free_port, json_at, subjects, together};

/// Of a payload with 64 bytes of data: the id of 16 bytes, the data, the timestamp.
const ANSWER_BYTES: u64 = 18 + 66 + 10;

#[test]
fn echo_clients_are_found_among_the_subjects_and_their_reports_understood() {
    let _turn = together();
    let Some(folder) = subjects() else { return };
    if !folder.join("echo-client").is_file() {
        wallfinder_tests::skip("echo-client is not built: make subjects");
        return;
    }
    let place = Place::new();
    // What weighs an exchange is a request of the engine's own.
    let id = b"\x0a\x100000-00000000000";
    place.file("payload", [&id[..], b"\x12\x40", &[7; 64]].concat());
    for (protocol, scheme, path, how) in [
        (
            "tcp",
            "tcp",
            "",
            &["--frame", "u32be", "-b", "@payload"][..],
        ),
        ("rest", "http", "/echo", &["-m", "POST", "-b", "@payload"]),
        ("grpc", "http", "/", &["--http2"]),
    ] {
        let subject = format!("echo --protocol {protocol}");
        let url = format!("{scheme}://subject:{}{path}", free_port());
        let driver = format!("echo-client {protocol} --clients 4 --duration 600ms --semaphore 2");
        let args = ["run", &url, "--subject", &subject, "--driver", &driver];
        place.run(&[&args[..], how].concat()).ends_with(0);
        let record = place.record();
        let step = json_at(&record, "/steps/0");
        assert_eq!(json_at(step, "/driver/name"), "echo-client");
        assert_eq!(json_at(step, "/driver/throughput_from"), "report");
        assert_eq!(json_at(step, "/driver/latency_from_intended"), true);
        assert_eq!(json_at(step, "/load/connections"), 4);
        assert_eq!(json_at(step, "/in_flight_mean").as_f64(), Some(2.0));
        let number = |pointer| json_at(step, pointer).as_f64().expect(pointer);
        assert!(number("/throughput") > 100.0, "{protocol}");
        let (latency, service) = (number("/latency/mean_ns"), number("/service/mean_ns"));
        assert!(
            service > 0.0 && latency >= service,
            "{protocol}: {latency} {service}"
        );
        if protocol == "tcp" {
            let answered = number("/counts/answered");
            let framed = (4 + ANSWER_BYTES) as f64;
            let bytes = number("/counts/bytes_in") / answered;
            assert!((bytes - framed).abs() < 0.1, "{bytes} bytes an answer");
        }
    }
}
