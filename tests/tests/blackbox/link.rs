//! Lab links as their packets show them: a delay that is kept, and segments counted apart.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;
use wallfinder_tests::{
    Place, busily, free_port, json_at, program, quietly, skip, subjects, together,
};

fn number(value: &Value, pointer: &str) -> f64 {
    json_at(value, pointer).as_f64().expect(pointer)
}

/// Why no link can be laid here.
fn out_of_reach() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let reachable = is_root && program("ip").is_some() && program("tc").is_some();
    if !reachable {
        skip("it needs root, and ip and tc of iproute2");
    }
    !reachable || subjects().is_none()
}

/// What a run of this process left in the folder of namespaces.
fn namespaces_of(pid: u32) -> Vec<String> {
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.starts_with(&format!("wf-{pid}-")))
        .collect()
}

#[test]
fn a_delay_bounds_throughput_by_what_is_in_flight() {
    let _turn = quietly();
    if out_of_reach() {
        return;
    }
    let place = Place::new();
    let url = format!("http://subject:{}/simple", free_port());
    let running = place.start(&[
        "run",
        "--subject",
        "catalogue",
        "--link",
        "100mbit,delay=10ms",
        "-c",
        "8",
        "-d",
        "2s",
        "--no-calibrate",
        &url,
    ]);
    let pid = running.pid();
    let ran = running
        .wait(std::time::Duration::from_secs(60))
        .ends_with(0);
    let step = place.step();
    // Eight at a time and 20 ms for each: 400/s at the most, and the edges of the window may
    // have eight more.
    let throughput = number(&step, "/throughput");
    assert!((330.0..404.5).contains(&throughput), "{throughput}/s");
    let fastest_ms = number(&step, "/latency/min_ns") / 1e6;
    assert!((20.0..25.0).contains(&fastest_ms), "{fastest_ms} ms");
    let relay = json_at(&step, "/telemetry/relay");
    assert_eq!(relay["delay_ns"], 10_000_000);
    let cpus = relay["cpus"].as_array().map_or(0, Vec::len);
    assert!(cpus > 0, "where it ran is told: {relay}");
    assert_eq!(relay["dropped"], 0);
    // A request and an answer each, at the least.
    let answered = number(&step, "/counts/answered");
    assert!(number(relay, "/packets") >= 1.9 * answered, "{relay}");
    assert!(
        ran.out.contains("the relay of the link's 10"),
        "{}",
        ran.out
    );
    assert_eq!(namespaces_of(pid), Vec::<String>::new());
}

#[test]
fn a_delayed_run_leaves_nothing_however_it_ends() {
    let _turn = together();
    if out_of_reach() {
        return;
    }
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let place = Place::new();
        let url = format!("http://subject:{}/simple", free_port());
        let link = "1gbit,mtu=9001,delay=1ms";
        let running = place.start(&[
            "run",
            "--subject",
            "catalogue",
            "--link",
            link,
            "-d",
            "20s",
            &url,
        ]);
        let pid = running.pid();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while namespaces_of(pid).len() < 3 && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(
            namespaces_of(pid).len(),
            3,
            "a server's, a client's and a relay's"
        );
        std::thread::sleep(std::time::Duration::from_millis(700));
        running.signal(signal);
        running.wait(std::time::Duration::from_secs(20));
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let is_left = || !namespaces_of(pid).is_empty() || !relays_of(pid).is_empty();
        while is_left() && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(namespaces_of(pid), Vec::<String>::new(), "{signal:?}");
        assert_eq!(relays_of(pid), Vec::<String>::new(), "{signal:?}");
    }
}

/// Relays whose namespace is of a run of this process.
fn relays_of(pid: u32) -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let commands = entries.map(|entry| fs::read(entry.path().join("cmdline")).unwrap_or_default());
    commands
        .map(|command| String::from_utf8_lossy(&command).replace('\0', " "))
        .filter(|command| command.contains(" --relay ") && command.contains(&format!("wf-{pid}-")))
        .collect()
}

#[test]
fn a_link_that_is_none_is_told_before_anything_is_started() {
    let place = Place::new();
    for (link, why) in [
        ("1gbit,delay=-1", "no delay"),
        ("1gbit,delay=2h", "no delay"),
        ("1gbit,delay=1ms,delay=2ms", "twice"),
        ("1gbit,delay=1us", "between 10us and 5s"),
    ] {
        let words = [
            "run",
            "--subject",
            "catalogue",
            "--link",
            link,
            "http://subject:1/",
        ];
        let ran = place.run(&words).ends_with(2);
        assert!(ran.err.contains(why), "{link}: {}", ran.err);
    }
}

/// What tcpdump wrote of one direction.
#[derive(Debug, Default)]
struct Seen {
    /// Packets as the interface had them.
    packets: u64,
    /// What leaves a wire's card of them: offload makes one packet of several segments.
    segments: u64,
    /// Of them, those with data.
    data_segments: u64,
    payload_bytes: u64,
}

/// Reads a capture (libpcap's first format, of Ethernet, little-endian) for what `port` sent.
fn sent_by(port: u16, capture: &[u8], mtu: u64) -> Seen {
    let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().unwrap());
    assert_eq!(
        (word(0), word(20)),
        (0xa1b2_c3d4, 1),
        "a capture of Ethernet"
    );
    let (mut at, mut seen) = (24, Seen::default());
    while at + 16 <= capture.len() {
        let (kept, long) = (word(at + 8) as usize, u64::from(word(at + 12)));
        at += 16;
        let packet = &capture[at..at + kept];
        at += kept;
        let ip = &packet[14..];
        let ip_head = usize::from(ip[0] & 0x0f) * 4;
        let tcp = &ip[ip_head..];
        if u16::from_be_bytes([tcp[0], tcp[1]]) != port {
            continue;
        }
        let heads = ip_head as u64 + u64::from(tcp[12] >> 4) * 4;
        let payload = long - 14 - heads;
        // The segment's own options lower what fits beside them.
        let segments = payload.div_ceil(mtu - heads);
        // What the tool takes a segment's headers to be, with data at least.
        assert!(payload == 0 || 14 + heads == 66, "{heads} bytes of headers");
        seen.packets += 1;
        seen.segments += segments.max(1);
        seen.data_segments += segments;
        seen.payload_bytes += payload;
    }
    seen
}

#[test]
fn segments_are_as_many_as_tcpdump_sees() {
    let _turn = busily();
    if out_of_reach() {
        return;
    }
    let Some(tcpdump) = program("tcpdump") else {
        skip("tcpdump is not installed (`make drivers`)");
        return;
    };
    const ANSWERS: u64 = 10_000;
    const ANSWER_BYTES: u64 = 10_000;
    const CONNECTIONS: u64 = 8;
    const MTU: u64 = 1_500;
    for delay in ["", ",delay=1ms"] {
        let place = Place::new();
        let port = free_port();
        let capture = place.path().join("capture");
        // On the server's host, before the server.
        let script = format!(
            "#!/bin/sh\n\
             {tcpdump} -Z root -U --immediate-mode -B 65536 -s 128 -i link0 -w {capture} \
             tcp port {port} 2>said &\n\
             until grep -q listening said; do sleep 0.02; done\n\
             exec {server} --host 0.0.0.0 --port {port} --answer-bytes {ANSWER_BYTES}\n",
            tcpdump = tcpdump.display(),
            capture = capture.display(),
            server = subjects().unwrap().join("knownwall").display(),
        );
        let script = place.file("server.sh", script);
        let (server, link) = (
            format!("sh {}", script.display()),
            format!("1gbit,mtu={MTU}{delay}"),
        );
        let (requests, connections) = (ANSWERS.to_string(), CONNECTIONS.to_string());
        let url = format!("http://subject:{port}/");
        place
            .run(&[
                "run",
                "--subject",
                &server,
                "--link",
                &link,
                "-n",
                &requests,
                "-c",
                &connections,
                "--no-calibrate",
                &url,
            ])
            .ends_with(0);
        let step = place.step();
        assert_eq!(number(&step, "/counts/answered") as u64, ANSWERS);
        let seen = sent_by(port, &fs::read(&capture).unwrap(), MTU);
        println!("{link}: {seen:?}, {}", step["telemetry"]["tcp"]);
        // What a busy machine made the server send twice is in the capture, and not in the
        // kernel's count of segments (RFC 2012: without what only repeats).
        let again = number(&step, "/telemetry/tcp/retransmits") as u64;
        let bytes_in = number(&step, "/counts/bytes_in") as u64;
        assert_whole(&seen, ANSWERS, bytes_in, again);
        // The counter is read after the handshakes and before the first request, and again when
        // the last answer is in. A connection has three segments without data beyond these edges,
        // of its handshake and its end.
        let counted = number(&step, "/telemetry/tcp/segments_out") as u64;
        let bare = seen.segments - seen.data_segments;
        assert!(
            (seen.data_segments..=seen.segments).contains(&(counted + again))
                && bare <= 3 * CONNECTIONS + again,
            "{counted} counted; {bare} of those seen had no data"
        );
    }
}

/// The payload is all that the client read, and each answer as many segments as its bytes fill.
/// Of either only so much more as was sent `again`.
fn assert_whole(seen: &Seen, answers: u64, bytes_in: u64, again: u64) {
    const SEGMENT: u64 = 1_448;
    let of_answer = bytes_in.div_ceil(answers).div_ceil(SEGMENT);
    let (segments, most) = (answers * of_answer, again * SEGMENT);
    assert!(
        (segments..=segments + again).contains(&seen.data_segments),
        "{seen:?}"
    );
    assert!(
        (bytes_in..=bytes_in + most).contains(&seen.payload_bytes),
        "{seen:?}"
    );
    assert!(seen.packets <= seen.segments, "{seen:?}");
}
