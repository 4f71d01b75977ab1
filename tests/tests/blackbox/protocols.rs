//! `ab` and `find` over each protocol, and foreign drivers of those that are not HTTP/1.1: what is compared
//! and squeezed is the same, whatever is spoken.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use wallfinder_tests::{
    ECHO_PROTO, Place, alone, busily, json_at, program, ratio_of, skip, squeezed, stolen, subjects,
};

const CALL: &str = "wallfinder.echo.Echo/Call";
/// Field 2, `data`, of 5 bytes.
const PAYLOAD: &[u8] = b"\x12\x05hello";

/// How the subject `echo` is asked in a protocol: its flags, the URL, and the load's flags.
/// Port 0 is whichever the subject takes.
struct Speech {
    subject: &'static str,
    /// What it is compared with.
    rival: &'static str,
    url: &'static str,
    load: &'static [&'static str],
}

const SPEECHES: [Speech; 4] = [
    Speech {
        subject: "echo --protocol tcp",
        rival: "echo-rs --protocol tcp",
        url: "tcp://subject:0",
        load: &["--frame", "u32be", "-b", "@payload"],
    },
    Speech {
        subject: "echo --protocol rest",
        rival: "echo-rs --protocol rest",
        url: "http://subject:0/echo",
        load: &["-m", "POST", "-b", "@payload"],
    },
    Speech {
        subject: "echo --protocol grpc",
        rival: "echo-rs --protocol grpc",
        url: "grpc://subject:0/",
        load: &[
            "--proto",
            ECHO_PROTO,
            "-b",
            r#"{"data": "aGVsbG8="}"#,
            "--streams",
            "1",
        ],
    },
    Speech {
        subject: "echo --protocol tcp --tls",
        rival: "GOGC=400 echo --protocol tcp --tls",
        url: "tcps://subject:0",
        load: &["--frame", "u32be", "-b", "@payload", "-k"],
    },
];

impl Speech {
    fn url(&self) -> String {
        match self.url.starts_with("grpc") {
            true => format!("{}{CALL}", self.url),
            false => self.url.to_owned(),
        }
    }
}

/// The echo in Go and in Rust, and under TLS with less collecting, in turn: each server is driven, and nothing fails.
#[test]
fn two_servers_are_compared_in_every_protocol() {
    let _turn = busily();
    if subjects().is_none() {
        return skip("the subjects are not built");
    }
    for speech in &SPEECHES {
        let (place, url) = (Place::new(), speech.url());
        place.file("payload", PAYLOAD);
        let (a, b) = (speech.subject, speech.rival);
        let args = [
            "ab",
            &url,
            "--subject",
            a,
            "--subject-b",
            b,
            "--rounds",
            "3",
            "-d",
            "600ms",
            "--warmup",
            "100ms",
            "-c",
            "4",
            "-q",
        ];
        place.run(&[&args[..], speech.load].concat()).ends_with(0);
        let record = place.record();
        // What telemetry tells may be missing where others starve it for the whole of a short window.
        for measure in ["throughput", "p50"] {
            let ratio = ratio_of(&record, measure);
            let of = |what: &str| ratio[what].as_f64().unwrap_or(f64::NAN);
            assert!(of("a") > 0.0 && of("b") > 0.0, "{a}: {ratio:#}");
            assert!(
                of("low") <= of("ratio") && of("ratio") <= of("high"),
                "{a}: {ratio:#}"
            );
        }
        let mut servers_cpus = BTreeSet::new();
        for step in record["steps"].as_array().unwrap() {
            let counts = &step["counts"];
            assert!(counts["answered"].as_u64() > Some(50), "{a}: {counts}");
            assert_eq!(counts["failed"], serde_json::json!({}), "{a}");
            // Each took a port that was free, and not the one after port 0.
            let address = step["target"]["address"].as_str().expect("an address");
            let port = address.rsplit(':').next().map(str::parse::<u16>);
            assert!(matches!(port, Some(Ok(1_024..))), "{a}: {address}");
            // On the same processors, or they are not compared; where telemetry was starved nobody knows.
            if let Some(cpus) = step["telemetry"]["server"]["cpus_allowed"].as_array() {
                servers_cpus.insert(format!("{cpus:?}"));
            }
        }
        assert!(servers_cpus.len() <= 1, "{a}: {servers_cpus:?}");
    }
}

/// A gRPC server on one processor, and streams that keep it busy.
#[test]
fn a_grpc_servers_processor_is_squeezed_as_any_other() {
    let _turn = alone();
    if subjects().is_none() {
        return skip("the subjects are not built");
    }
    if !rustix::process::geteuid().is_root() {
        return skip("a CPU stealer takes root");
    }
    let (place, speech) = (Place::new(), &SPEECHES[2]);
    let url = speech.url();
    let args = [
        "find",
        "--effort",
        "quick",
        "--window",
        "200ms",
        "--subject",
        speech.rival,
        "-c",
        "16",
        "--no-calibrate",
        "--no-inside",
        "-q",
        &url,
    ];
    place.run(&[&args[..], speech.load].concat()).ends_with(0);
    let record = place.record();
    let step = squeezed(&record);
    for window in step["experiment"]["windows"].as_array().unwrap() {
        assert_eq!(window["failed"], 0, "{window:#}");
        assert_ne!(window["in_force"], false, "{window:#}");
    }
    if stolen(&step["verdict"]) {
        return skip("the hypervisor took the time of a verdict");
    }
    let elasticity = |of: &str| {
        let at = format!("/elasticities/{of}/value");
        let value = step["verdict"].pointer(&at).and_then(Value::as_f64);
        value.unwrap_or_else(|| panic!("{of}: {:#}", step["verdict"]))
    };
    // Short windows of gRPC differ by a tenth and more: three rounds may leave the name open, and never
    // is it another.
    assert!(elasticity("server-speed") > 0.5, "{:#}", step["verdict"]);
    let wall = step["verdict"]["wall"].as_str().unwrap();
    assert!(
        ["server-cpu", "inconclusive"].contains(&wall),
        "{:#}",
        step["verdict"]
    );
}

/// Whether there are h2load and what it is to load; what is missing is said.
fn h2load_and_subjects() -> bool {
    if subjects().is_none() {
        skip("the subjects are not built");
        return false;
    }
    if program("h2load").is_none() {
        skip("h2load is not installed (Debian: nghttp2-client)");
        return false;
    }
    true
}

/// What h2load says of HTTP/2 is what the wire says.
#[test]
fn h2load_is_run_over_http2_and_its_report_is_read() {
    let _turn = busily();
    if !h2load_and_subjects() {
        return;
    }
    let place = Place::new();
    let args = [
        "run",
        "--subject",
        "content",
        "http://subject:0/realistic/1k.txt",
        "--driver",
        "h2load -c 2 -m 4 -D 1 {url}",
        "-q",
    ];
    place.run(&args).ends_with(0);
    let step = place.step();
    assert_eq!(step["driver"]["name"], "h2load", "{}", step["driver"]);
    assert_eq!(step["driver"]["throughput_from"], "report");
    let rate = step["throughput"].as_f64().unwrap();
    assert!(rate > 100.0, "{rate}");
    // A text of 1 KB is asked for: more than it comes back, for each answer.
    let bytes = json_at(&step, "/telemetry/link/totals/rx_bytes");
    assert!(bytes.as_u64() > Some(100_000), "{bytes}");
}

/// A load generator on the path, or where `make drivers` puts what it builds from source.
fn built(name: &str) -> Option<PathBuf> {
    let peers = concat!(env!("CARGO_MANIFEST_DIR"), "/../bench/.peers/bin");
    let peer = Path::new(peers).join(name);
    program(name).or_else(|| peer.is_file().then_some(peer))
}

/// ghz is given the address of a server of gRPC, and what it says is within what the wire can have carried.
#[test]
fn ghz_is_run_over_grpc_and_its_report_is_read() {
    let _turn = busily();
    if subjects().is_none() {
        return skip("the subjects are not built");
    }
    let Some(ghz) = built("ghz") else {
        return skip("ghz is not installed (make drivers)");
    };
    let (place, speech) = (Place::new(), &SPEECHES[2]);
    let url = speech.url();
    let driver = format!(
        "{} --insecure --proto {ECHO_PROTO} --call {CALL} -d '{{\"data\": \"aGVsbG8=\"}}' \
         -c 8 --connections 2 -z 1500ms --duration-stop wait",
        ghz.display()
    );
    let args = [
        "run",
        "--subject",
        speech.subject,
        &url,
        "--driver",
        &driver,
        "-q",
    ];
    place.run(&[&args[..], speech.load].concat()).ends_with(0);
    let step = place.step();
    assert_eq!(step["driver"]["name"], "ghz", "{}", step["driver"]);
    assert_eq!(step["driver"]["throughput_from"], "report");
    assert_eq!(step["load"]["connections"], 2, "{}", step["load"]);
    assert_eq!(step["load"]["in_flight_per_connection"], 4);
    assert_eq!(step["counts"]["failed"], serde_json::json!({}));
    let number = |pointer: &str| json_at(&step, pointer).as_f64().expect(pointer);
    assert!(number("/throughput") > 50.0, "{}", step["throughput"]);
    assert!(number("/latency/mean_ns") > 0.0, "{}", step["latency"]);
    // A call and its answer, with frames and packets, are longer than that.
    let each = number("/telemetry/link/totals/rx_bytes") / number("/counts/answered");
    assert!(each > 40.0, "{each} bytes for each call");
}

/// Our engine and h2load in turn, both over HTTP/2 with as many streams.
#[test]
fn our_engine_and_h2load_are_compared_over_http2() {
    let _turn = busily();
    if !h2load_and_subjects() {
        return;
    }
    let place = Place::new();
    let args = [
        "ab",
        "--subject",
        "content",
        "http://subject:0/realistic/1k.txt",
        "--http2",
        "--streams",
        "4",
        "-c",
        "2",
        "--driver-b",
        "h2load -c {connections} -m {pipeline} -D {duration} {url}",
        "--rounds",
        "3",
        "-d",
        "3s",
        "-q",
    ];
    place.run(&args).ends_with(0);
    let record = place.record();
    let steps = record["steps"].as_array().expect("steps");
    let of = |name: &str| {
        let by = steps.iter().filter(|step| step["driver"]["name"] == name);
        by.collect::<Vec<&Value>>()
    };
    let (ours, theirs) = (of("wallfinder"), of("h2load"));
    assert_eq!((ours.len(), theirs.len()), (3, 3), "{:#}", record["ab"]);
    for step in ours.iter().chain(&theirs) {
        let (load, counts) = (&step["load"], &step["counts"]);
        assert_eq!(load["connections"], 2, "{load:#}");
        assert_eq!(load["in_flight_per_connection"], 4, "{load:#}");
        assert_eq!(counts["failed"], serde_json::json!({}), "{counts}");
        assert!(step["throughput"].as_f64() > Some(100.0), "{counts}");
    }
    for step in theirs {
        assert_eq!(step["driver"]["throughput_from"], "report");
    }
    let ratio = ratio_of(&record, "throughput");
    let of = |what: &str| ratio[what].as_f64().unwrap_or(f64::NAN);
    assert!(of("a") > 0.0 && of("b") > 0.0, "{ratio:#}");
    assert!(
        of("low") <= of("ratio") && of("ratio") <= of("high"),
        "{ratio:#}"
    );
}
