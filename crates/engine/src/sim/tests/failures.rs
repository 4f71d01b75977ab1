//! Each way to fail has its class, and its instant.

use std::collections::BTreeSet;

use wallfinder_model::Failure;
use wallfinder_sys::Errno;

use super::super::http1::{ANSWER, Asked, Http1, LAST_ANSWER, after, closes};
use super::super::http2::{DATA, Http2};
use super::super::peer::{Connect, Does, Script, Take, says};
use super::super::world::{MS, Ran, SECOND, Sim};

/// One request that goes wrong as this says, and no second one.
fn answered_with(script: impl Fn() -> Script + 'static) -> Ran {
    let peer = Http1::new(move |_| script());
    let mut sim = Sim::closed(1, 1);
    sim.load.stop.requests = Some(1);
    sim.http1(peer)
}

/// One request that fails with a class after 2 ms.
fn fails_with(class: &str, script: impl Fn() -> Script + 'static) {
    let ran = answered_with(script);
    assert_eq!(
        ran.failed_at(class),
        [2 * MS],
        "{class}: {:?}",
        ran.failed()
    );
    assert_eq!(ran.last().failed_total(), 1);
    assert_eq!(ran.last().answered, 0);
}

fn status(status: &'static str) -> impl Fn() -> Script {
    move || {
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        says(2 * MS, head.as_bytes())
    }
}

#[test]
fn answers_of_errors_are_failures_and_not_throughput() {
    fails_with("status.4xx", status("404 Not Found"));
    fails_with("status.5xx", status("503 Busy"));
    fails_with("status.other", status("700 What"));
    let ran = answered_with(status("503 Busy"));
    assert_eq!(ran.last().statuses[503], 1);
    let sample = &ran.samples[0];
    assert_eq!((sample.status, sample.first_byte_ns), (503, 2 * MS));
}

#[test]
fn connections_that_end_under_a_request_fail_it() {
    let reset = || Does::Resets(Errno::CONNRESET);
    fails_with("net.closed.wait", || closes(2 * MS));
    fails_with("net.reset.wait", move || vec![(2 * MS, reset())]);
    fails_with("net.reset.body", move || {
        [says(MS, &ANSWER[..30]), vec![(2 * MS, reset())]].concat()
    });
    fails_with("h1.truncated", || {
        [says(MS, &ANSWER[..ANSWER.len() - 1]), closes(2 * MS)].concat()
    });
    fails_with("local.memory", || {
        vec![(2 * MS, Does::Resets(Errno::NOBUFS))]
    });
    fails_with("h1.length", || {
        says(
            2 * MS,
            b"HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\nhello",
        )
    });
    fails_with("h1.status", || says(2 * MS, b"HTTP/9.9 what?\r\n\r\n"));
}

#[test]
fn a_request_that_cannot_be_sent_fails_at_once() {
    let peer = after(MS).taking(|_, _, now| match now % 2 {
        0 => Take::Broken(Errno::PIPE),
        _ => Take::All,
    });
    let mut sim = Sim::closed(1, 1);
    sim.load.stop.requests = Some(1);
    let ran = sim.http1(peer);
    assert_eq!(ran.failed_at("net.reset.send"), [0]);
}

#[test]
fn a_request_that_meets_the_end_of_an_idle_connection_is_told_apart() {
    // The second request starts after a pause, as the server closes.
    let peer = |closes_ns| {
        Http1::new(move |asked: Asked| match asked.nth {
            0 => says(MS, ANSWER),
            _ => closes(closes_ns),
        })
    };
    let stale = |think_ns, closes_ns| {
        let sim = Sim::closed(1, 1).thinking(think_ns).lasting(20 * MS);
        sim.http1(peer(closes_ns)).failed()
    };
    assert!(stale(10 * MS, 0).contains_key("net.stale_reuse"));
    // Idle for no more than a moment, it waited for its answer.
    assert!(stale(MS / 2, 0).contains_key("net.closed.wait"));
}

#[test]
fn requests_behind_one_that_failed_are_abandoned() {
    let peer = Http1::new(|asked| match asked.nth {
        0 => says(2 * MS, b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
        _ => says(3 * MS, ANSWER),
    });
    let ran = Sim::closed(1, 3).lasting(2 * MS).http1(peer);
    assert_eq!(ran.failed()["h1.length"], 1);
    assert_eq!(ran.failed()["net.abandoned"], 2);
    assert_eq!(ran.failed_at("net.abandoned"), [2 * MS; 2]);
}

#[test]
fn attempts_that_fail_have_the_class_of_their_reason() {
    for (errno, class) in [
        (Errno::CONNREFUSED, "net.refused"),
        (Errno::HOSTUNREACH, "net.unreachable"),
        (Errno::NETUNREACH, "net.unreachable"),
        (Errno::TIMEDOUT, "timeout.connect"),
        (Errno::CONNRESET, "net.reset.connect"),
        (Errno::PERM, "net.forbidden"),
        (Errno::ACCESS, "net.forbidden"),
        (Errno::NOPROTOOPT, "net.other"),
    ] {
        let peer = after(MS).connecting(move |_, _, _| Connect::Refuse { after_ns: 0, errno });
        let ran = Sim::closed(1, 1).http1(peer);
        assert_eq!(ran.connect_failed().keys().collect::<Vec<_>>(), [class]);
        assert_eq!(ran.last().failed_total(), 0, "no request was sent");
        assert_eq!(ran.end.last_connect_failure.unwrap().1, errno);
    }
    for (errno, class) in [
        (Errno::MFILE, "local.fd"),
        (Errno::NFILE, "local.fd"),
        (Errno::ADDRNOTAVAIL, "local.port"),
        (Errno::ADDRINUSE, "local.port"),
        (Errno::NOBUFS, "local.memory"),
        (Errno::NOMEM, "local.memory"),
    ] {
        let peer = after(MS).connecting(move |_, _, _| Connect::Local(errno));
        let ran = Sim::closed(1, 1).http1(peer);
        assert_eq!(ran.connect_failed().keys().collect::<Vec<_>>(), [class]);
    }
}

/// Each class that an engine gives by itself is met by some test: this one names a run for each.
#[test]
fn every_class_can_happen() {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut note = |ran: Ran| {
        seen.extend(ran.failed().into_keys());
        seen.extend(ran.connect_failed().into_keys());
    };
    for head in ["404 No", "503 Busy", "700 What"] {
        note(answered_with(status(head)));
    }
    note(Sim::closed(1, 1).timeout(MS).http1(after(SECOND)));
    let shut = Http2::new(&[0, 4, 0, 0, 0, 0], |frame| {
        assert_ne!(frame.kind, DATA, "more than the window");
        Script::new()
    });
    note(Sim::closed(1, 1).timeout(MS).http2(1_000, shut));
    for errno in [
        Errno::CONNREFUSED,
        Errno::HOSTUNREACH,
        Errno::TIMEDOUT,
        Errno::CONNRESET,
        Errno::MFILE,
        Errno::ADDRINUSE,
        Errno::NOMEM,
        Errno::PERM,
        Errno::NOPROTOOPT,
    ] {
        let peer = after(MS).connecting(move |_, _, _| Connect::Refuse { after_ns: 0, errno });
        note(Sim::closed(1, 1).http1(peer));
    }
    note(answered_with(|| vec![(MS, Does::Resets(Errno::CONNRESET))]));
    note(answered_with(|| {
        [
            says(0, &ANSWER[..9]),
            vec![(MS, Does::Resets(Errno::CONNRESET))],
        ]
        .concat()
    }));
    let cannot_send = after(MS).taking(|_, _, _| Take::Broken(Errno::PIPE));
    note(Sim::closed(1, 1).http1(cannot_send));
    note(answered_with(|| closes(MS)));
    let idle = Http1::new(|asked| match asked.nth {
        0 => says(MS, ANSWER),
        _ => closes(0),
    });
    note(Sim::closed(1, 1).thinking(5 * MS).http1(idle));
    // The second is late while the one that was sent after the first answer is not.
    let last = Http1::new(|asked| match asked.nth {
        0 => says(MS, ANSWER),
        _ => says(MS, &LAST_ANSWER[..9]),
    });
    note(Sim::closed(1, 2).timeout(2 * MS).http1(last));
    let all = Failure::ALL.map(|failure| failure.class().to_owned());
    let missing: Vec<_> = all.iter().filter(|class| !seen.contains(*class)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
