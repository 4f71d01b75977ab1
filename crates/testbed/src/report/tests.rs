//! Reports of the tools themselves, from `testdata/reports/`.

use proptest::prelude::*;

use super::*;

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/testdata/reports/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect(name)
}

fn kind_of(name: &str) -> DriverKind {
    let is_of = |kind: &DriverKind| {
        name.strip_prefix(kind.name())
            .is_some_and(|rest| rest.starts_with('-'))
    };
    DriverKind::KNOWN.into_iter().find(is_of).expect(name)
}

fn report(name: &str) -> DriverReport {
    parse(kind_of(name), &fixture(name), b"").expect(name)
}

fn every_fixture() -> Vec<String> {
    let folder = format!("{}/testdata/reports", env!("CARGO_MANIFEST_DIR"));
    let entries = std::fs::read_dir(folder).expect("fixtures");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names
        .map(|name| name.into_string().expect("text"))
        .collect()
}

/// Answers, failures, and good answers per second to a whole number.
fn essence(name: &str) -> (u64, Vec<(String, u64)>, u64) {
    let report = report(name);
    let errors = report.errors.clone().into_iter().collect();
    (report.requests, errors, report.throughput.round() as u64)
}

#[test]
fn runs_without_failures_are_read() {
    for (name, requests, throughput) in [
        ("autocannon-ok", 50_967, 25_488),
        ("autocannon-w", 62_269, 31_132),
        ("wrk-ok", 101_164, 50_490),
        ("wrk2-ok", 7_946, 1_986),
        ("h2load-h1", 92_893, 46_447),
        ("h2load-h2", 72_248, 36_124),
        ("h2load-n", 2_000, 10_703),
        ("h2load-1.69-from-source", 92_893, 46_447),
        ("oha-ok", 54_969, 27_451),
        ("k6-ok", 21_320, 10_642),
        ("ab-ok", 2_000, 5_829),
        ("ab-t", 10_505, 10_462),
        ("hey-ok", 2_000, 12_963),
        ("hey-z", 500, 495),
        ("bombardier-ok", 70_919, 35_455),
        ("vegeta-ok", 1_000, 500),
        ("fortio-ok", 136_059, 68_003),
        ("echo-client-ok", 2_000, 28_907),
        ("echo-client-semaphore", 2_000, 8_735),
    ] {
        assert_eq!(essence(name), (requests, vec![], throughput), "{name}");
    }
}

/// A full event loop takes its samples of a second late: one for both of two seconds here.
#[test]
fn an_average_of_samples_that_came_late_is_no_throughput() {
    let text = String::from_utf8(fixture("autocannon-ok")).unwrap();
    let late = text.replace("\"average\":25488", "\"average\":50967");
    assert_ne!(late, text);
    let read = parse(kind_of("autocannon-ok"), late.as_bytes(), b"").unwrap();
    assert_eq!(read.headline, Some(50_967.0));
    assert_eq!(read.throughput.round(), (50_967.0f64 / 2.03).round());
    assert_eq!(read.overstated, Some(50_967.0));
    assert_eq!(report("autocannon-ok").overstated, None);
}

/// What a tool prints counts failures, too: more than the good answers, and as many as it made.
#[test]
fn a_rate_that_counts_failures_is_not_overstated() {
    for name in every_fixture() {
        let read = parse(kind_of(&name), &fixture(&name), b"");
        assert_eq!(read.ok().and_then(|read| read.overstated), None, "{name}");
    }
    let r = report("oha-reset");
    assert!(
        r.headline
            .is_some_and(|printed| printed > 1.1 * r.throughput)
    );
    let halved = changed("bombardier-half", "0.013454307", "0.026908614");
    assert_eq!(halved.overstated.map(f64::round), Some(37_158.0));
}

/// A fixture with one thing changed in it.
fn changed(name: &str, from: &str, to: &str) -> DriverReport {
    let text = String::from_utf8(fixture(name)).expect(name);
    let other = text.replace(from, to);
    assert_ne!(other, text, "{name}");
    parse(kind_of(name), other.as_bytes(), b"").expect(name)
}

/// Over how many threads it spreads what it was asked for is in the report, and what it then holds is not.
#[test]
fn each_worker_holds_a_whole_number_of_connections() {
    let r = changed("wrk-ok", "2 threads and 10", "3 threads and 10");
    assert_eq!(r.connections, Some(9));
    for (workers, connections) in [(3, 9), (12, 12)] {
        let to = format!("\"workers\":{workers}");
        let r = changed("autocannon-w", "\"workers\":2", &to);
        assert_eq!(r.connections, Some(connections), "{workers}");
    }
}

/// Its intervals are of the wrong unit: each latency of N ms comes with N - 1, N - 2, and so on.
#[test]
fn latencies_that_autocannon_makes_up_at_a_rate_are_left_out() {
    let r = changed(
        "autocannon-ok",
        "\"totalCount\":50967",
        "\"totalCount\":50968",
    );
    let latency = r.latency.expect("there");
    assert!(latency.made_up && latency.quantiles_ns.is_empty());
    assert_eq!((latency.mean_ns, latency.max_ns), (None, Some(35_000_000)));
    let latency = report("autocannon-ok").latency.expect("there");
    assert!(!latency.made_up);
    assert_eq!(latency.min_ns, None, "that of those which are not 0");
}

/// Ten connections at 50,490 answers per second are 198 µs each, and it tells of 424 µs.
#[test]
fn latencies_that_wrk_makes_up_are_known_by_their_mean() {
    for (name, made_up) in [
        ("wrk-ok", true),
        ("wrk-plain", true),
        ("wrk-half", false),
        ("wrk2-ok", false),
    ] {
        let latency = report(name).latency.expect(name);
        assert_eq!(latency.made_up, made_up, "{name}");
    }
}

#[test]
fn what_flags_change_in_a_report_is_minded() {
    let spec = |command: &str| crate::driver::DriverSpec::parse(command).expect(command);
    let under = |command: &str, report: DriverReport| {
        let spec = spec(command);
        report.under(spec.kind(), spec.shape())
    };
    // Ten connections at 50 each are counted as 500 requests at once, and each sends one.
    let mut lost = report("autocannon-ok");
    lost.errors.insert("unanswered".into(), 495);
    let mended = under("autocannon -c 10 -r 50 http://h/", lost.clone());
    assert_eq!(mended.errors["unanswered"], 5);
    let mended = under("autocannon -c 10 -R 500 http://h/", lost.clone());
    assert_eq!(mended.errors["unanswered"], 5);
    let as_it_is = under("autocannon -c 10 http://h/", lost.clone());
    assert_eq!(as_it_is.errors["unanswered"], 495);
    // With a turn every ten seconds a connection is silent for more than two.
    lost.errors.insert("timeout.total".into(), 50);
    let slow = under("wrk2 -c 10 -R 1 http://h/", lost.clone());
    assert!(!slow.errors.contains_key("timeout.total"));
    let fast = under("wrk2 -c 10 -R 100 http://h/", lost);
    assert_eq!(fast.errors["timeout.total"], 50);
    let due = "oha -q 100 --latency-correction http://h/";
    let latency = |command| under(command, report("oha-ok")).latency;
    assert!(latency(due).is_some_and(|latency| latency.from_due));
    assert!(latency("oha -q 100 http://h/").is_some_and(|latency| !latency.from_due));
}

/// Its health check's word for a good answer is no status of HTTP, and its threads are all streams.
#[test]
fn calls_of_fortio_over_grpc_are_read() {
    let text = String::from_utf8(fixture("fortio-ok")).expect("text");
    let from = text.find("\"RetCodes\"").expect("there");
    let until = from + text[from..].find('}').expect("there") + 1;
    let codes = "\"Streams\": 4, \"RetCodes\": {\"SERVING\": 136057, \"ERROR\": 2}";
    let text = format!("{}{codes}{}", &text[..from], &text[until..]);
    let r = parse(DriverKind::Fortio, text.as_bytes(), b"").expect("a report");
    assert_eq!((r.requests, r.errors["net.other"]), (136_057, 2));
    assert_eq!((r.good(), r.errors.len()), (136_057, 1));
    assert_eq!(r.throughput.round(), 68_002.0);
    assert_eq!(
        (r.connections, r.in_flight_per_connection),
        (Some(2), Some(4))
    );
}

#[test]
fn requests_that_got_no_answer_are_not_among_the_answers() {
    // With -r what could not be received is complete.
    let half = "(Connect: 0, Receive: 0, Length: 101, Exceptions: 0)";
    let lost = "(Connect: 0, Receive: 50, Length: 101, Exceptions: 50)";
    let r = changed("ab-half", half, lost);
    assert_eq!((r.requests, r.good()), (150, 49));
    assert_eq!((r.errors["net.reset.wait"], r.errors.len()), (50, 2));
    assert_eq!(r.throughput.round(), (7928.96f64 * 49.0 / 200.0).round());
    // Streams that were reset are done.
    let r = changed(
        "h2load-n",
        "2000 succeeded, 0 failed, 0 errored",
        "1990 succeeded, 10 failed, 10 errored",
    );
    assert_eq!((r.requests, r.errors["net.other"]), (1_990, 10));
    // All that were answered came too late.
    let r = report("wrk-timeout");
    assert_eq!((r.good(), r.errors["timeout.total"]), (0, 10));
}

/// It keeps a million latencies, and divides the sum of all by that.
#[test]
fn a_mean_of_hey_is_of_all_that_it_summed() {
    let text = String::from_utf8(fixture("hey-ok")).expect("text");
    let more = text.replace("2000 responses", "4000 responses");
    assert_ne!(more, text);
    let mean = |text: &str| {
        let r = parse(DriverKind::Hey, text.as_bytes(), b"").expect("a report");
        r.latency.and_then(|latency| latency.mean_ns)
    };
    assert_eq!(mean(&text).map(f64::round), Some(700_000.0));
    assert_eq!(mean(&more).map(f64::round), Some(350_000.0));
}

/// Ten over four connections are three on some, and still ten.
#[test]
fn what_is_in_flight_is_not_rounded_up_by_connection() {
    let of = |name, from, to| {
        let r = changed(name, from, to);
        (r.in_flight_per_connection, r.in_flight)
    };
    let ghz = of("ghz-ok", "\"connections\": 2", "\"connections\": 4");
    assert_eq!(ghz, (Some(3), Some(10.0)));
    let ours = of("echo-client-ok", "\"connections\":4", "\"connections\":3");
    assert_eq!(ours, (Some(2), Some(4.0)));
    // A user who pauses has fewer in flight than one.
    let k6 = report("k6-ok").in_flight.expect("there");
    assert!((4.7..4.8).contains(&k6), "{k6}");
}

#[test]
fn failures_are_told_by_class_and_are_no_throughput() {
    for (name, requests, errors, throughput) in [
        ("autocannon-404", 28_386, &[("status.4xx", 28_386)][..], 0),
        ("autocannon-refused", 0, &[("net.other", 13_845)], 0),
        ("autocannon-timeout", 0, &[("timeout.total", 14)], 0),
        ("autocannon-reset", 10_715, &[("unanswered", 1_195)], 10_716),
        ("wrk-half", 49_803, &[("status.4xx_or_5xx", 24_988)], 22_562),
        ("wrk-reset", 31_359, &[("net.reset.wait", 3_492)], 31_296),
        ("wrk-timeout", 0, &[("timeout.total", 10)], 0),
        ("wrk2-plain", 993, &[("status.4xx_or_5xx", 492)], 250),
        ("h2load-404", 500, &[("status.4xx", 500)], 0),
        ("h2load-refused", 0, &[("net.other", 50)], 0),
        ("oha-half", 500, &[("status.5xx", 237)], 33_495),
        ("oha-reset", 453, &[("net.closed.wait", 47)], 14_005),
        ("oha-refused", 0, &[("net.refused", 50)], 0),
        ("k6-half", 16_389, &[("status.unclassified", 8_266)], 8_120),
        ("k6-refused", 20, &[("status.unclassified", 20)], 0),
        ("ghz-ok", 49_082, &[("status.Unavailable", 1)], 24_525),
        ("ghz-err", 50, &[("status.NotFound", 50)], 0),
        ("ab-404", 200, &[("status.not_2xx", 200)], 0),
        ("ab-half", 200, &[("status.not_2xx", 101)], 3_925),
        ("hey-half", 200, &[("status.5xx", 99)], 15_495),
        ("hey-refused", 0, &[("net.refused", 20)], 0),
        ("bombardier-half", 500, &[("status.5xx", 243)], 19_102),
        ("bombardier-refused", 0, &[("net.refused", 50)], 0),
        ("bombardier-timeout", 0, &[("timeout.total", 10)], 0),
        ("vegeta-half", 500, &[("status.5xx", 245)], 255),
        ("vegeta-refused", 0, &[("net.refused", 50)], 0),
        ("fortio-404", 200, &[("status.4xx", 200)], 0),
        ("fortio-refused", 0, &[("net.other", 20)], 0),
        (
            "echo-client-gone",
            25_453,
            &[("net.refused", 36), ("net.reset.wait", 4)],
            51_402,
        ),
        (
            "echo-client-unavailable",
            6_068,
            &[("status.Unavailable", 40)],
            12_495,
        ),
    ] {
        let errors: Vec<_> = errors
            .iter()
            .map(|(class, n)| (class.to_string(), *n))
            .collect();
        assert_eq!(essence(name), (requests, errors, throughput), "{name}");
    }
}

#[test]
fn latencies_come_in_nanoseconds_under_one_set_of_names() {
    for (name, p50, p99, max) in [
        ("autocannon-ok", None, Some(12_000_000), 35_000_000),
        ("wrk-ok", Some(172_000), Some(3_660_000), 6_300_000),
        ("wrk-plain", None, None, 5_360_000),
        ("wrk2-ok", Some(1_180_000), Some(35_100_000), 43_580_000),
        ("h2load-h1", None, None, 16_340_000),
        (
            "h2load-1.69-from-source",
            Some(700_000),
            Some(5_050_000),
            16_340_000,
        ),
        ("oha-ok", Some(118_287), Some(4_512_320), 12_577_580),
        ("k6-ok", Some(131_041), Some(6_579_108), 12_841_373),
        ("ghz-ok", Some(293_908), Some(3_730_955), 18_713_070),
        ("ab-ok", Some(1_000_000), Some(9_000_000), 11_000_000),
        ("hey-ok", Some(600_000), Some(7_300_000), 16_600_000),
        ("bombardier-ok", Some(223_000), Some(2_702_000), 17_549_000),
        ("vegeta-ok", Some(206_305), Some(4_316_017), 11_978_886),
        ("fortio-ok", None, None, 14_655_950),
        ("fortio-fine", Some(83_366), Some(659_089), 8_976_505),
        ("echo-client-ok", Some(120_941), Some(485_525), 877_078),
    ] {
        let latency = report(name).latency.expect(name);
        let quantile = |name: &str| latency.quantiles_ns.get(name).copied();
        assert_eq!((quantile("p50"), quantile("p99")), (p50, p99), "{name}");
        assert_eq!(latency.max_ns, Some(max), "{name}");
        assert!(latency.mean_ns.is_some_and(|mean| mean > 0.0), "{name}");
        assert_eq!(latency.from_due, name == "wrk2-ok", "{name}");
    }
    let latency = report("wrk2-ok").latency.expect("there");
    assert_eq!(latency.quantiles_ns["p99.9"], 42_270_000);
    assert_eq!(latency.quantiles_ns.len(), 7, "{:?}", latency.quantiles_ns);
    assert_eq!(
        report("oha-ok").latency.expect("there").quantiles_ns["p99.99"],
        12_448_126
    );
    assert_eq!(report("wrk-timeout").latency, None, "nothing was measured");
    let histogram = report("wrk-ok").histogram().expect("there");
    assert_eq!(
        (histogram.count, histogram.quantile_ns("p90")),
        (101_164, Some(1_280_000))
    );
}

#[test]
fn the_rest_of_a_report_is_read_where_it_is_told() {
    let r = report("autocannon-ok");
    assert_eq!(
        (r.connections, r.in_flight_per_connection),
        (Some(10), Some(4))
    );
    assert_eq!(
        (r.duration_ns, r.bytes_in),
        (Some(2_030_000_000), Some(12_028_212))
    );
    let r = report("wrk-ok");
    assert_eq!(
        (r.connections, r.duration_ns),
        (Some(10), Some(2_000_000_000))
    );
    assert_eq!(r.bytes_in, Some((22.77 * 1_048_576.0) as u64));
    let r = report("h2load-h2");
    assert_eq!(r.duration_ns, Some(2_000_000_000), "without the warm-up");
    assert_eq!((r.connections, r.bytes_in), (Some(10), Some(6_573_716)));
    let r = report("ghz-ok");
    assert_eq!(
        (r.connections, r.in_flight_per_connection),
        (Some(2), Some(5))
    );
    let r = report("oha-refused");
    assert_eq!(
        r.headline.map(f64::round),
        Some(8534.0),
        "what oha calls requests per second"
    );
    assert_eq!(report("ab-ok").version.as_deref(), Some("ApacheBench 2.3"));
    let r = report("echo-client-unavailable");
    assert_eq!(
        (r.connections, r.in_flight_per_connection, r.in_flight),
        (Some(2), Some(2), None)
    );
    assert_eq!(r.good(), 6_028);
}

#[test]
fn a_semaphore_is_read_on_both_clocks() {
    let r = report("echo-client-semaphore");
    assert_eq!((r.connections, r.in_flight), (Some(20), Some(5.0)));
    let (latency, service) = (r.latency.expect("there"), r.service.expect("there"));
    assert!(latency.from_due && !service.from_due);
    assert_eq!(latency.quantiles_ns["p50"], 1_540_269);
    assert_eq!(service.quantiles_ns["p50"], 237_194);
    assert_eq!(report("echo-client-ok").service, None);
}

#[test]
fn what_is_not_understood_is_said_with_the_tools_own_words() {
    let unread = parse(
        DriverKind::Ab,
        &fixture("ab-refused"),
        b"apr_socket_recv: refused (111)\n",
    );
    let why = unread.expect_err("no numbers in it").why;
    assert!(
        why.contains("Complete requests") && why.contains("apr_socket_recv"),
        "{why}"
    );
    for kind in DriverKind::KNOWN {
        assert!(parse(kind, b"", b"").is_err(), "{kind:?}");
        assert!(parse(kind, b"{}", b"").is_err(), "{kind:?}");
        // What oha prints for people is a close copy of what hey does.
        let of_oha = parse(kind, &fixture("oha-text"), b"");
        assert!(of_oha.is_err() || kind == DriverKind::Hey, "{kind:?}");
    }
    assert!(parse(DriverKind::Other, b"100 requests/s", b"").is_err());
}

#[test]
fn every_truncation_is_an_error_or_a_report() {
    for name in every_fixture() {
        let whole = fixture(&name);
        for end in 0..whole.len() {
            let _ = parse(kind_of(&name), &whole[..end], b"");
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(
        name in prop::sample::select(every_fixture()),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = fixture(&name);
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(report) = parse(kind_of(&name), &bytes, &bytes[..bytes.len().min(300)]) {
            let _ = (report.good(), report.histogram());
        }
    }

    #[test]
    fn no_numbers_panic(
        name in prop::sample::select(every_fixture()),
        number in prop::sample::select(&["-1", "18446744073709551615", "1e308", "99999999999999999999", "NaN"][..]),
        nth in any::<prop::sample::Index>(),
    ) {
        let text = String::from_utf8_lossy(&fixture(&name)).into_owned();
        let starts: Vec<usize> = text
            .char_indices()
            .filter(|(at, c)| c.is_ascii_digit() && !text[..*at].ends_with(|c: char| c.is_ascii_digit()))
            .map(|(at, _)| at)
            .collect();
        let at = starts[nth.index(starts.len())];
        let rest = text[at..].trim_start_matches(|c: char| c.is_ascii_digit());
        let text = format!("{}{number}{rest}", &text[..at]);
        if let Ok(report) = parse(kind_of(&name), text.as_bytes(), b"") {
            let _ = (report.good(), report.histogram());
        }
    }
}
