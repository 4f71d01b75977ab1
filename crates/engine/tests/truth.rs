//! What is counted, where servers are late, silent, gone, or close what is in flight: the real engine at
//! servers over real sockets, with both ways of waiting.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wallfinder_engine::StepSpec;
use wallfinder_model::{Arrival, Nanos, Rate};
use wallfinder_wire::Request;

mod drive;
#[path = "drive/heads.rs"]
mod heads;

use drive::with_both;
use heads::read_request;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const LAST_ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
const MS: u64 = 1_000_000;

fn spec(address: SocketAddr, connections: u32, depth: u32) -> StepSpec {
    let request = Request::get("test", "/");
    let mut spec = drive::spec(address, request.into(), connections, depth);
    spec.load.stop.after = Nanos::from_millis(800);
    spec
}

/// A double of a server: each connection has a thread, and `serve` answers one request of it or ends it.
/// It is given the connection's number, and how many requests came before on it.
fn server(
    serve: impl Fn(u64, u64, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    let number = AtomicU64::new(0);
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let serve = Arc::clone(&serve);
            let number = number.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || {
                let _ = stream.set_nodelay(true);
                let mut before = 0;
                while read_request(&mut stream) && serve(number, before, &mut stream).is_ok() {
                    before += 1;
                }
            });
        }
    });
    address
}

fn over() -> std::io::Result<()> {
    Err(std::io::Error::other("the connection ends"))
}

fn sleeping(time: Duration) -> SocketAddr {
    server(move |_, _, stream| {
        thread::sleep(time);
        stream.write_all(ANSWER)
    })
}

#[test]
fn an_answer_after_its_deadline_is_a_timeout() {
    let address = sleeping(Duration::from_millis(20));
    let mut spec = spec(address, 4, 1);
    spec.load.timeout = Nanos::from_millis(15);
    with_both(spec, |measured| {
        let counts = &measured.counts;
        assert_eq!(counts.answered, 0, "{counts:?}");
        assert_eq!(counts.failed["timeout.total"], counts.failed_total());
        // Each ends at its deadline, and the next begins then: not at the next look of 50 ms.
        assert!(counts.failed_total() > 4 * 800 / 15 / 2, "{counts:?}");
        assert!(measured.latency.is_none(), "nothing was answered well");
    });
}

#[test]
fn no_good_answer_is_ever_later_than_the_deadline() {
    // Every other answer takes 5 ms, the others 25 ms.
    let turn = AtomicU64::new(0);
    let address = server(move |_, _, stream| {
        let slow = turn.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        thread::sleep(Duration::from_millis(if slow { 25 } else { 5 }));
        stream.write_all(ANSWER)
    });
    for open in [false, true] {
        for depth in [1, 4] {
            let mut spec = spec(address, 4, depth);
            spec.load.timeout = Nanos::from_millis(18);
            if open {
                let rate = Rate(200.0);
                spec.load.arrival = Arrival::Constant { rate };
            }
            with_both(spec, |measured| {
                let counts = &measured.counts;
                assert!(counts.answered > 5, "{counts:?}");
                assert!(counts.failed["timeout.total"] > 5, "{counts:?}");
                // The histogram has three digits.
                let latency = measured.latency.as_ref().unwrap();
                assert!(latency.max_ns <= 18_050_000, "{}", latency.max_ns);
            });
        }
    }
}

#[test]
fn what_has_no_answer_when_the_load_ends_is_told_with_its_age() {
    // Of 20 requests one is answered after 3 s.
    let turn = AtomicU64::new(0);
    let address = server(move |_, _, stream| {
        if turn.fetch_add(1, Ordering::Relaxed) % 20 == 7 {
            thread::sleep(Duration::from_secs(3));
        }
        stream.write_all(ANSWER)
    });
    let mut spec = spec(address, 100, 1);
    spec.load.arrival = Arrival::Constant { rate: Rate(100.0) };
    spec.load.drain = Nanos::from_millis(200);
    with_both(spec, |measured| {
        let (counts, drained) = (&measured.counts, &measured.drained);
        assert_eq!(counts.failed_total(), 0, "{counts:?}");
        assert!((2..=9).contains(&drained.in_flight), "{drained:?}");
        assert_eq!(
            counts.in_flight_end,
            drained.answered + drained.failed + drained.in_flight
        );
        // It was due in the first 200 ms, warm-up included, and the drain lasted 200 ms.
        assert!(drained.oldest_ns > 600 * MS, "{drained:?}");
        assert!(drained.waited_ns >= 200 * MS, "{drained:?}");
    });
}

#[test]
fn a_drain_that_is_long_enough_knows_what_slow_answers_took() {
    let turn = AtomicU64::new(0);
    let address = server(move |_, _, stream| {
        if turn.fetch_add(1, Ordering::Relaxed) % 20 == 7 {
            thread::sleep(Duration::from_millis(1200));
        }
        stream.write_all(ANSWER)
    });
    let mut spec = spec(address, 100, 1);
    spec.load.arrival = Arrival::Constant { rate: Rate(100.0) };
    spec.load.drain = Nanos::from_secs(5);
    with_both(spec, |measured| {
        let drained = &measured.drained;
        assert_eq!(drained.unanswered(), 0, "{drained:?}");
        assert_eq!(drained.oldest_ns, 0, "{drained:?}");
        assert!(drained.answered >= 2, "{drained:?}");
        let latency = measured.latency.as_ref().unwrap();
        assert!(latency.max_ns > 1_190 * MS, "{}", latency.max_ns);
        assert!(latency.quantile_ns("p99").unwrap() > 1_190 * MS);
        // It is over when the last is answered, and not later.
        assert!(drained.waited_ns < 2_000 * MS, "{drained:?}");
    });
}

#[test]
fn deadlines_hold_while_answers_are_waited_for() {
    let address = sleeping(Duration::from_secs(30));
    let mut spec = spec(address, 3, 1);
    spec.load.stop.after = Nanos::from_millis(200);
    spec.load.timeout = Nanos::from_millis(600);
    spec.load.drain = Nanos::from_secs(20);
    let began = Instant::now();
    with_both(spec, |measured| {
        assert_eq!(measured.drained.failed, 3, "{:?}", measured.drained);
        assert_eq!(measured.drained.unanswered(), 0);
    });
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn requests_that_were_due_and_never_sent_are_told_apart() {
    let address = sleeping(Duration::from_millis(50));
    let mut spec = spec(address, 1, 1);
    spec.load.arrival = Arrival::Constant { rate: Rate(200.0) };
    with_both(spec, |measured| {
        // One connection carries 20 a second of 200.
        let drained = &measured.drained;
        assert!(drained.not_sent > 100, "{drained:?}");
        assert!(
            drained.not_sent < 200,
            "only what was due when the window closed: {drained:?}"
        );
        assert_eq!(drained.in_flight, 0, "{drained:?}");
        assert!(drained.oldest_ns > 600 * MS, "{drained:?}");
    });
}

#[test]
fn a_server_that_goes_away_is_an_outage_from_then_on() {
    // It serves for 500 ms, from the first request on, and is gone then: its port refuses.
    let with_server = |io, arrival| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let gone = Arc::new(AtomicBool::new(false));
        let serving = Arc::clone(&gone);
        let accepting = thread::spawn(move || {
            listener.set_nonblocking(true).unwrap();
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(700) {
                match listener.accept() {
                    Ok((mut stream, _)) => {
                        let gone = Arc::clone(&serving);
                        stream.set_nonblocking(false).unwrap();
                        let patience = Some(Duration::from_millis(20));
                        stream.set_read_timeout(patience).unwrap();
                        thread::spawn(move || {
                            while !gone.load(Ordering::Relaxed) {
                                if read_request(&mut stream) && stream.write_all(ANSWER).is_err() {
                                    return;
                                }
                            }
                        });
                    }
                    Err(_) => thread::sleep(Duration::from_millis(2)),
                }
            }
            serving.store(true, Ordering::Relaxed);
        });
        let mut spec = spec(address, 4, 1);
        spec.load.workers = 2;
        spec.load.stop.after = Nanos::from_millis(1500);
        spec.load.arrival = arrival;
        spec.load.timeout = Nanos::from_millis(200);
        spec.io = io;
        let signals = Arc::new(wallfinder_engine::Signals::default());
        let measured =
            wallfinder_engine::run(&spec, &signals, &mut wallfinder_engine::unobserved).unwrap();
        accepting.join().unwrap();
        measured
    };
    use wallfinder_engine::IoChoice;
    let closed = Arrival::Closed { think: Nanos(0) };
    let open = Arrival::Constant { rate: Rate(200.0) };
    for (io, arrival) in [(IoChoice::Epoll, closed), (IoChoice::Auto, open)] {
        let measured = with_server(io, arrival);
        let [outage] = measured.outages[..] else {
            panic!("{:?}", measured.outages);
        };
        let end = outage.at_ns + outage.for_ns;
        assert!(end.abs_diff(measured.window_to_ns) < 30 * MS, "{outage:?}");
        assert!(outage.for_ns > 500 * MS, "{outage:?}");
        assert_eq!(measured.counts.unreachable_ns, outage.for_ns);
        let counts = &measured.counts;
        assert!(counts.connect_failures["net.refused"] > 0);
        if arrival == open {
            // Some 800 ms at 200 a second, less the last 200 ms: nobody could send them.
            assert!(counts.expired_unsent > 60, "{counts:?}");
            assert!(counts.expired_unsent <= counts.failed["timeout.total"]);
            assert_eq!(counts.late_by_client, 0, "no connection was free");
        }
    }
}

#[test]
fn a_server_that_ends_each_connection_is_never_unreachable() {
    let address = server(|_, _, stream| {
        stream.write_all(LAST_ANSWER)?;
        over()
    });
    with_both(spec(address, 2, 1), |measured| {
        assert!(measured.counts.answered > 50, "{:?}", measured.counts);
        assert!(measured.outages.is_empty(), "{:?}", measured.outages);
        assert_eq!(measured.counts.failed_total(), 0, "{:?}", measured.counts);
    });
}

#[test]
fn what_stands_behind_a_last_answer_is_sent_again() {
    // As nginx with keepalive_requests: the tenth answer of a connection says that it is the last.
    let address = server(|_, before, stream| {
        if before == 9 {
            stream.write_all(LAST_ANSWER)?;
            let _ = stream.shutdown(std::net::Shutdown::Write);
            // Lingers, as a careful server does, so that the answer is not lost with what is unread.
            let mut rest = [0; 4096];
            while stream.read(&mut rest)? > 0 {}
            return over();
        }
        stream.write_all(ANSWER)
    });
    for open in [false, true] {
        let mut spec = spec(address, 4, 8);
        if open {
            let rate = Rate(2000.0);
            spec.load.arrival = Arrival::Constant { rate };
        }
        with_both(spec, |measured| {
            let counts = &measured.counts;
            assert!(counts.answered > 200, "{counts:?}");
            assert_eq!(counts.failed_total(), 0, "{counts:?}");
            assert!(
                open || counts.anomalies["request_sent_again"] > 20,
                "{counts:?}"
            );
        });
    }
}

#[test]
fn a_request_that_is_sent_again_keeps_its_intended_start() {
    // Each connection answers one request after 30 ms and says that it is the last.
    let address = server(|_, _, stream| {
        thread::sleep(Duration::from_millis(30));
        stream.write_all(LAST_ANSWER)?;
        over()
    });
    with_both(spec(address, 1, 2), |measured| {
        let counts = &measured.counts;
        assert_eq!(counts.failed_total(), 0, "{counts:?}");
        let [latency, service] = [&measured.latency, &measured.service].map(Option::as_ref);
        // Every other one waited behind another, and was sent anew.
        assert!(latency.unwrap().quantile_ns("p99").unwrap() > 55 * MS);
        assert!(service.unwrap().quantile_ns("p50").unwrap() < 50 * MS);
    });
}

#[test]
fn a_request_is_sent_again_a_few_times_only() {
    // Each connection says at its first answer that it is the last: of sixteen in flight one is answered.
    let address = server(|_, _, stream| {
        stream.write_all(LAST_ANSWER)?;
        over()
    });
    with_both(spec(address, 1, 16), |measured| {
        let counts = &measured.counts;
        let sent_again = counts.anomalies["request_sent_again"];
        assert!(counts.failed.contains_key("net.abandoned"), "{counts:?}");
        let ended = counts.answered + counts.failed_total();
        assert!(sent_again <= 10 * (ended + 16), "{sent_again} of {ended}");
    });
}

#[test]
fn nothing_is_sent_again_after_a_bare_end() {
    // The tenth request of a connection is not answered: it ends without a word.
    let address = server(|_, before, stream| match before {
        9 => over(),
        _ => stream.write_all(ANSWER),
    });
    let mut spec = spec(address, 2, 4);
    spec.request = Request::new("POST", "test", "/").into();
    with_both(spec, |measured| {
        let counts = &measured.counts;
        assert!(counts.failed_total() > 10, "{counts:?}");
        assert!(!counts.anomalies.contains_key("request_sent_again"));
    });
}

#[test]
fn connections_that_were_open_are_counted_and_not_those_that_were_asked_for() {
    // Ten connections are served at a time, and others are hung up on.
    let open = Arc::new(AtomicU64::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            if open.fetch_add(1, Ordering::Relaxed) >= 10 {
                open.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let open = Arc::clone(&open);
            thread::spawn(move || {
                while read_request(&mut stream) && stream.write_all(ANSWER).is_ok() {
                    thread::sleep(Duration::from_millis(1));
                }
                open.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    with_both(spec(address, 40, 1), |measured| {
        let open = &measured.open_connections;
        assert!((10..=12).contains(&open.answering), "{open:?}");
        assert!((9.0..25.0).contains(&open.mean), "{open:?}");
    });
}
