//! The real engine at real servers over real sockets, with both ways of waiting.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use wallfinder_engine::null_server::NullServer;
use wallfinder_engine::{
    EngineError, IoChoice, Measured, Progress, Signals, StepSpec, run, unobserved,
};
use wallfinder_model::{Arrival, Nanos, Rate, Stop};
use wallfinder_wire::http1::{Options, Request, Shared};

mod drive;
#[path = "drive/heads.rs"]
mod heads;

use drive::with_both;
use heads::read_request;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn spec(address: SocketAddr, connections: u32, depth: u32) -> StepSpec {
    drive::spec(
        address,
        Request::get("test", "/").into(),
        connections,
        depth,
    )
}

fn null_server() -> NullServer {
    let request = Request::get("test", "/");
    let bytes = Shared::new(&request, Options::default())
        .unwrap()
        .request_bytes();
    NullServer::start(bytes, ANSWER, None).unwrap()
}

/// A double of a server: each connection is handed to `serve` with its number.
fn scripted(serve: impl Fn(u64, TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    let number = AtomicU64::new(0);
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let serve = Arc::clone(&serve);
            let number = number.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || serve(number, stream));
        }
    });
    address
}

#[test]
fn an_observer_that_is_slow_takes_nothing_of_the_window() {
    let server = null_server();
    let slow = Duration::from_millis(400);
    for is_slow_at in [
        |progress: &Progress| matches!(progress, Progress::Ready),
        |progress: &Progress| matches!(progress, Progress::Starts { .. }),
    ] {
        let mut spec = spec(server.address(), 4, 1);
        spec.load.warmup = Nanos(0);
        spec.load.stop.after = Nanos::from_millis(200);
        let mut observe = |progress| {
            if is_slow_at(&progress) {
                thread::sleep(slow);
            }
        };
        let measured = run(&spec, &Arc::new(Signals::default()), &mut observe).unwrap();
        let window_ns = measured.window_to_ns - measured.window_from_ns;
        assert!(measured.window_from_ns < 100_000_000, "{measured:?}");
        assert!(
            (150_000_000..500_000_000).contains(&window_ns),
            "{window_ns}"
        );
        assert!(measured.counts.answered > 100, "{:?}", measured.counts);
    }
}

#[test]
fn a_closed_loop_answers_everything_it_asks() {
    let server = null_server();
    for depth in [1, 16] {
        with_both(spec(server.address(), 8, depth), |measured| {
            let counts = &measured.counts;
            assert!(counts.answered > 1000, "{counts:?}");
            assert_eq!(counts.failed_total(), 0, "{counts:?}");
            assert_eq!(counts.body_bytes, counts.answered * 5);
            assert!(measured.in_flight_mean <= f64::from(8 * depth));
            let latency = measured.latency.as_ref().unwrap();
            // None that was in flight at the end was older than the warm-up.
            assert_eq!(latency.count, counts.answered);
            // Little's law, which no honest set of numbers breaks: within what the edges
            // of a short window allow.
            let service = measured.service.as_ref().unwrap();
            let inferred = measured.throughput * service.mean_ns / 1e9;
            let ratio = measured.in_flight_mean / inferred;
            assert!((0.9..1.1).contains(&ratio), "N / XR = {ratio}");
        });
    }
}

#[test]
fn workers_share_the_connections_and_the_work() {
    let server = null_server();
    let mut spec = spec(server.address(), 7, 1);
    spec.load.workers = 3;
    with_both(spec, |measured| {
        let connections: Vec<u32> = measured
            .workers
            .iter()
            .map(|worker| worker.connections)
            .collect();
        assert_eq!(connections, [3, 2, 2]);
        let answered: u64 = measured.workers.iter().map(|worker| worker.answered).sum();
        assert_eq!(answered, measured.counts.answered);
    });
}

#[test]
fn a_counted_load_makes_exactly_as_many_requests() {
    let server = null_server();
    for arrival in [
        Arrival::Closed { think: Nanos(0) },
        Arrival::Closed {
            think: Nanos::from_millis(1),
        },
        Arrival::Constant {
            rate: Rate(20_000.0),
        },
    ] {
        let mut spec = spec(server.address(), 4, 3);
        spec.load.workers = 2;
        spec.load.arrival = arrival;
        spec.load.warmup = Nanos(0);
        spec.load.stop = Stop {
            after: Nanos::from_secs(20),
            requests: Some(1_001),
        };
        with_both(spec, |measured| {
            let seen: u64 = measured.intervals.iter().map(|slice| slice.answered).sum();
            assert_eq!(seen, 1_001);
            assert_eq!(measured.counts.in_flight_end, 0);
        });
    }
}

#[test]
fn after_a_warm_up_a_counted_load_is_counted_from_its_end() {
    let server = null_server();
    for arrival in [
        Arrival::Closed { think: Nanos(0) },
        Arrival::Constant {
            rate: Rate(20_000.0),
        },
    ] {
        let mut spec = spec(server.address(), 4, 3);
        spec.load.workers = 2;
        spec.load.arrival = arrival;
        spec.load.warmup = Nanos::from_millis(100);
        spec.load.stop = Stop {
            after: Nanos::from_secs(20),
            requests: Some(1_001),
        };
        let open = spec.load.arrival.is_open();
        with_both(spec, |measured| {
            let counts = &measured.counts;
            // A closed loop's are those that are answered, an open loop's those that are due.
            let counted = if open {
                counts.scheduled
            } else {
                counts.answered
            };
            assert_eq!(counted, 1_001, "{counts:?}");
            assert_eq!(counts.in_flight_end, 0);
            let seen: u64 = measured.intervals.iter().map(|slice| slice.answered).sum();
            assert!(seen > 1_001, "the warm-up made none: {seen}");
        });
    }
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let server = null_server();
    // Of four thousand arrivals that are Poisson's the spread is a sixtieth; evenly spaced ones have none.
    let constant = Arrival::Constant {
        rate: Rate(2_000.0),
    };
    let poisson = Arrival::Poisson {
        rate: Rate(2_000.0),
    };
    for (arrival, off) in [(constant, 0.03), (poisson, 0.08)] {
        let mut spec = spec(server.address(), 16, 1);
        spec.load.arrival = arrival;
        spec.load.stop.after = Nanos::from_secs(2);
        with_both(spec, |measured| {
            let ratio = measured.throughput / 2_000.0;
            assert!(
                (1.0 - off..1.0 + off).contains(&ratio),
                "achieved {ratio} of the rate"
            );
            assert!(measured.lateness.as_ref().unwrap().count > 3_000);
        });
    }
}

#[test]
fn a_stall_shows_in_every_request_that_was_due_meanwhile() {
    // One connection, 1000 requests a second, and one stall of 500 ms: 500 requests were
    // due during it, and half of them waited longer than 250 ms.
    let address = scripted(|_, mut stream| {
        let mut served = 0;
        while read_request(&mut stream) {
            served += 1;
            if served == 300 {
                thread::sleep(Duration::from_millis(500));
            }
            if stream.write_all(ANSWER).is_err() {
                return;
            }
        }
    });
    let mut spec = spec(address, 1, 1);
    spec.load.arrival = Arrival::Constant {
        rate: Rate(1_000.0),
    };
    spec.load.warmup = Nanos(0);
    spec.load.stop.after = Nanos::from_secs(2);
    with_both(spec, |measured| {
        let p90_ms = measured.latency.as_ref().unwrap().quantiles_ns["p90"] / 1_000_000;
        assert!(p90_ms > 150, "p90 from the intended instant is {p90_ms} ms");
        let service_ms = measured.service.as_ref().unwrap().quantiles_ns["p99"] / 1_000_000;
        assert!(
            service_ms < 100,
            "p99 of the service time is {service_ms} ms"
        );
    });
}

#[test]
fn fairness_is_one_where_all_have_as_many_and_less_where_one_is_slow() {
    let server = null_server();
    let even = spec(server.address(), 8, 1);
    with_both(even, |measured| {
        let fairness = measured.fairness.expect("eight connections");
        assert!(fairness > 0.9 && fairness <= 1.0, "{fairness}");
    });
    // The first connection is answered at once, the second after 20 ms.
    let address = scripted(|number, mut stream| {
        while read_request(&mut stream) {
            if number % 2 == 1 {
                thread::sleep(Duration::from_millis(20));
            }
            if stream.write_all(ANSWER).is_err() {
                return;
            }
        }
    });
    with_both(spec(address, 2, 1), |measured| {
        let fairness = measured.fairness.expect("two connections");
        assert!((0.5..0.6).contains(&fairness), "{fairness}");
    });
    with_both(spec(server.address(), 1, 1), |measured| {
        assert_eq!(measured.fairness, None);
    });
}

/// One request at a time is served, so that forty connections queue.
#[test]
fn answers_that_queue_gather_and_one_by_one_none_do() {
    let served = Arc::new(Mutex::new(()));
    let address = scripted(move |_, mut stream| {
        while read_request(&mut stream) {
            let _turn = served.lock().unwrap();
            thread::sleep(Duration::from_micros(100));
            if stream.write_all(ANSWER).is_err() {
                return;
            }
        }
    });
    let mut spec = spec(address, 40, 1);
    let batching_ns = |measured: &Measured| -> u64 {
        let workers = measured.workers.iter();
        workers.map(|worker| worker.batching_ns).sum()
    };
    for io in drive::ways() {
        for no_batching in [false, true] {
            spec.io = io;
            spec.load.no_batching = no_batching;
            let signals = Arc::new(Signals::default());
            let measured = run(&spec, &signals, &mut unobserved).unwrap();
            let gathers = io == IoChoice::Uring && !no_batching;
            let ns = batching_ns(&measured);
            assert_eq!(ns > 0, gathers, "{io:?}, one by one {no_batching}: {ns}");
        }
    }
}

#[test]
fn a_connection_per_request_is_opened_and_answered() {
    let address = scripted(|_, mut stream| {
        read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end");
    });
    let mut spec = spec(address, 2, 1);
    spec.load.connection_per_request = true;
    with_both(spec, |measured| {
        let counts = &measured.counts;
        assert!(counts.answered > 50, "{counts:?}");
        assert_eq!(counts.failed_total(), 0, "{counts:?}");
        assert!(counts.connects + 2 >= counts.answered);
    });
}

#[test]
fn nobody_listening_is_one_clear_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for io in [IoChoice::Epoll, IoChoice::Auto] {
        let mut spec = spec(address, 3, 1);
        spec.io = io;
        let error = run(&spec, &Arc::new(Signals::default()), &mut unobserved).unwrap_err();
        assert!(
            matches!(
                error,
                EngineError::NoConnection {
                    class: "net.refused",
                    ..
                }
            ),
            "{error}"
        );
        assert!(
            error.to_string().contains("is the server running"),
            "{error}"
        );
    }
}

#[test]
fn broken_answers_are_failures_of_their_class_and_the_run_goes_on() {
    // Every fifth answer of a connection has a length that is none.
    let address = scripted(|_, mut stream| {
        let mut served = 0;
        while read_request(&mut stream) {
            served += 1;
            let answer: &[u8] = if served % 5 != 0 {
                ANSWER
            } else {
                b"HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\nhello"
            };
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    });
    with_both(spec(address, 2, 1), |measured| {
        let counts = &measured.counts;
        assert!(
            counts.failed.get("h1.length").is_some_and(|n| *n > 0),
            "{counts:?}"
        );
        let share = counts.failed["h1.length"] as f64 / counts.answered as f64;
        assert!((0.2..0.3).contains(&share), "{counts:?}");
    });
}

#[test]
fn a_server_that_hangs_up_is_not_tried_in_a_hot_loop() {
    let accepted = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&accepted);
    let address = scripted(move |_, mut stream| {
        count.fetch_add(1, Ordering::Relaxed);
        read_request(&mut stream);
    });
    let mut spec = spec(address, 4, 1);
    spec.load.stop.after = Nanos::from_secs(1);
    let measured = run(&spec, &Arc::new(Signals::default()), &mut unobserved).unwrap();
    let failed = measured.counts.failed_total();
    assert!(measured.counts.failed.contains_key("net.closed.wait"));
    // 4 connections that back off from 5 ms by doubling try some 10 times each in a
    // second, not thousands of times.
    assert!(failed < 100, "{failed} failures in a second");
    assert!(accepted.load(Ordering::Relaxed) < 200);
}

#[test]
fn silence_ends_at_the_total_deadline() {
    let address = scripted(|_, mut stream| {
        // One byte now and then is progress, and no excuse: not one of them is wrong.
        for byte in b"HTTP/1.1 200 OK\r\nServer: slow"
            .iter()
            .chain(std::iter::repeat(&b'.'))
        {
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
    });
    let mut spec = spec(address, 2, 1);
    spec.load.timeout = Nanos::from_millis(200);
    spec.load.warmup = Nanos(0);
    spec.load.stop.after = Nanos::from_millis(900);
    with_both(spec, |measured| {
        let counts = &measured.counts;
        assert!(counts.failed["timeout.total"] >= 2, "{counts:?}");
        assert_eq!(counts.answered, 0);
    });
}

#[test]
fn statuses_of_errors_are_failures_not_throughput() {
    let address = scripted(|_, mut stream| {
        let mut served = 0;
        while read_request(&mut stream) {
            served += 1;
            let status = if served % 3 == 0 {
                "503 Busy"
            } else {
                "200 OK"
            };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    with_both(spec(address, 1, 1), |measured| {
        let counts = &measured.counts;
        let share = counts.failed["status.5xx"] as f64 / counts.answered as f64;
        assert!((0.4..0.6).contains(&share), "{counts:?}");
        assert_eq!(counts.statuses[&503], counts.failed["status.5xx"]);
    });
}

#[test]
fn an_interrupted_step_still_has_its_window() {
    let server = null_server();
    let mut spec = spec(server.address(), 2, 1);
    spec.load.stop.after = Nanos::from_secs(60);
    let signals = Arc::new(Signals::default());
    let interrupt = Arc::clone(&signals);
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(400));
        interrupt.stop.store(true, Ordering::Relaxed);
    });
    let measured = run(&spec, &signals, &mut unobserved).unwrap();
    let window_ms = (measured.window_to_ns - measured.window_from_ns) / 1_000_000;
    assert!(window_ms < 5_000, "{window_ms}");
    assert!(measured.counts.answered > 0);
}

/// A server that takes 2 ms for each request, and says how many it had at a time at the most.
fn holding() -> (SocketAddr, Arc<AtomicU64>) {
    let (now, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let of_server = Arc::clone(&most);
    let address = scripted(move |_, mut stream| {
        while read_request(&mut stream) {
            let held = now.fetch_add(1, Ordering::SeqCst) + 1;
            of_server.fetch_max(held, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(2));
            now.fetch_sub(1, Ordering::SeqCst);
            if stream.write_all(ANSWER).is_err() {
                return;
            }
        }
    });
    (address, most)
}

#[test]
fn max_in_flight_lets_so_many_through_and_those_that_wait_are_counted() {
    let (address, most) = holding();
    let mut spec = spec(address, 20, 1);
    // Two workers with three in flight each.
    spec.load.workers = 2;
    spec.load.max_in_flight = Some(6);
    with_both(spec, |measured| {
        let counts = &measured.counts;
        assert_eq!(counts.failed_total(), 0, "{counts:?}");
        assert!(
            measured.in_flight_mean <= 6.0,
            "{}",
            measured.in_flight_mean
        );
        assert!(measured.in_flight_mean > 5.0, "{}", measured.in_flight_mean);
        // Twenty want to, and six are let: from wanting to the answer it takes 20/6 as long.
        let [latency, service] = [&measured.latency, &measured.service].map(Option::as_ref);
        let ratio = latency.unwrap().mean_ns / service.unwrap().mean_ns;
        assert!((2.7..4.0).contains(&ratio), "{ratio}");
        // In turn: nobody is passed over.
        assert!(measured.fairness.unwrap() > 0.95, "{:?}", measured.fairness);
    });
    assert!(most.load(Ordering::SeqCst) <= 6, "{most:?}");
}

#[test]
fn a_request_that_waits_for_room_is_due_since_it_was_granted() {
    let (address, _) = holding();
    // Forty want to on two connections, and two are let.
    let mut spec = spec(address, 2, 20);
    spec.load.max_in_flight = Some(2);
    with_both(spec, |measured| {
        let [latency, service] = [&measured.latency, &measured.service].map(Option::as_ref);
        let ratio = latency.unwrap().mean_ns / service.unwrap().mean_ns;
        assert!((14.0..28.0).contains(&ratio), "{ratio}");
    });
}

#[test]
fn an_open_loop_waits_for_room_in_flight_and_says_how_long() {
    let (address, most) = holding();
    let mut spec = spec(address, 20, 1);
    spec.load.max_in_flight = Some(4);
    // At most 2,000/s by the bound, and 3,000/s are due.
    spec.load.arrival = Arrival::Constant {
        rate: Rate(3_000.0),
    };
    with_both(spec, |measured| {
        let counts = &measured.counts;
        assert!(counts.not_sent > 100, "{counts:?}");
        assert!(
            measured.in_flight_mean <= 4.0,
            "{}",
            measured.in_flight_mean
        );
        let [latency, service] = [&measured.latency, &measured.service].map(Option::as_ref);
        assert!(latency.unwrap().mean_ns > 5.0 * service.unwrap().mean_ns);
    });
    assert!(most.load(Ordering::SeqCst) <= 4, "{most:?}");
}

#[test]
fn a_deadline_passes_while_room_is_waited_for() {
    let (address, _) = holding();
    let mut spec = spec(address, 40, 1);
    spec.load.max_in_flight = Some(1);
    // Forty take 80 ms and more in turn.
    spec.load.timeout = Nanos::from_millis(30);
    with_both(spec, |measured| {
        let late = measured.counts.failed.get("timeout.total");
        assert!(*late.unwrap() > 10, "{:?}", measured.counts);
        // Whoever waits so long is not sent at all; whoever is answered was answered in time.
        let unsent = measured.counts.expired_unsent;
        assert!(unsent > 10 && unsent <= *late.unwrap(), "{unsent}");
        let latency = measured.latency.as_ref().expect("some came in time");
        assert!(latency.max_ns <= 30_500_000, "{}", latency.max_ns);
    });
}

#[test]
fn room_of_connections_that_break_is_given_back() {
    // Every connection hangs up on its third request.
    let address = scripted(|_, mut stream| {
        for _ in 0..2 {
            if !read_request(&mut stream) || stream.write_all(ANSWER).is_err() {
                return;
            }
        }
        read_request(&mut stream);
    });
    let mut spec = spec(address, 12, 1);
    spec.load.max_in_flight = Some(2);
    with_both(spec, |measured| {
        assert!(measured.counts.answered > 100, "{:?}", measured.counts);
        assert!(measured.counts.failed_total() > 2, "{:?}", measured.counts);
        assert!(
            measured.in_flight_mean <= 2.0,
            "{}",
            measured.in_flight_mean
        );
    });
}
