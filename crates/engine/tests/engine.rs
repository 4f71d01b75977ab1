//! The real engine at real servers over real sockets, with both ways of waiting: what sockets, threads and several
//! workers show. What one worker does at each instant is tested on a virtual clock (`src/sim`).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use wallfinder_engine::null_server::NullServer;
use wallfinder_engine::{
    EngineError, IoChoice, Measured, Progress, Signals, StepSpec, run, unobserved,
};
use wallfinder_model::{Arrival, Nanos, Rate, Stop};
use wallfinder_wire::Exchange;
use wallfinder_wire::http1::{Options, Request, Shared};
use wallfinder_wire::mix::{
    Mix, Order, Piece, Row, Slot, Source, Spelling, Table, Take, Text, Value,
};

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
    let slow = Duration::from_millis(250);
    for is_slow_at in [
        |progress: &Progress| matches!(progress, Progress::Ready),
        |progress: &Progress| matches!(progress, Progress::Starts { .. }),
    ] {
        let mut spec = spec(server.address(), 4, 1);
        spec.load.warmup = Nanos(0);
        spec.load.stop.after = Nanos::from_millis(100);
        let mut observe = |progress| {
            if is_slow_at(&progress) {
                thread::sleep(slow);
            }
        };
        let measured = run(&spec, &Arc::new(Signals::default()), &mut observe).unwrap();
        let window_ns = measured.window_to_ns - measured.window_from_ns;
        assert!(measured.window_from_ns < 100_000_000, "{measured:?}");
        assert!(
            (80_000_000..240_000_000).contains(&window_ns),
            "{window_ns}"
        );
        assert!(measured.counts.answered > 100, "{:?}", measured.counts);
    }
}

#[test]
fn a_closed_loop_answers_everything_it_asks() {
    let server = null_server();
    for depth in [1, 16] {
        let mut spec = spec(server.address(), 8, depth);
        spec.load.warmup = Nanos::from_millis(50);
        spec.load.stop.after = Nanos::from_millis(250);
        with_both(spec, |measured| {
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
fn a_counted_load_is_shared_among_workers_to_the_last_request() {
    let server = null_server();
    let mut spec = spec(server.address(), 4, 3);
    spec.load.workers = 2;
    spec.load.warmup = Nanos(0);
    spec.load.stop = Stop {
        after: Nanos::from_secs(20),
        requests: Some(1_001),
    };
    with_both(spec, |measured| {
        let intervals = measured.intervals.iter();
        let seen: u64 = intervals.map(|interval| interval.answered).sum();
        assert_eq!(seen, 1_001);
        assert_eq!(measured.counts.in_flight_end, 0);
    });
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let server = null_server();
    let mut spec = spec(server.address(), 16, 1);
    let rate = Rate(2_000.0);
    spec.load.arrival = Arrival::Constant { rate };
    spec.load.stop.after = Nanos::from_millis(600);
    with_both(spec, |measured| {
        let ratio = measured.throughput / 2_000.0;
        assert!(
            (0.95..1.05).contains(&ratio),
            "achieved {ratio} of the rate"
        );
        assert!(measured.lateness.as_ref().unwrap().count > 900);
    });
}

/// One request at a time is served, so that forty connections queue.
#[test]
fn answers_that_queue_are_batched_by_io_uring_alone() {
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
            let batches = io == IoChoice::Uring && !no_batching;
            let ns = batching_ns(&measured);
            assert_eq!(ns > 0, batches, "{io:?}, no batching {no_batching}: {ns}");
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
        assert!(counts.answered > 20, "{counts:?}");
        assert_eq!(counts.failed_total(), 0, "{counts:?}");
        assert!(counts.connects + 2 >= counts.answered);
    });
}

/// The path of the next request; `None`: none comes.
fn next_path(from: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    if from.read_line(&mut line).unwrap_or(0) == 0 {
        return None;
    }
    let mut field = String::new();
    while from.read_line(&mut field).unwrap_or(0) > 2 {
        field.clear();
    }
    line.split(' ').nth(1).map(str::to_owned)
}

/// A double of a server that answers each path in its own way: 404 for `/missing`, and bodies of other lengths.
fn by_path() -> SocketAddr {
    scripted(|_, stream| {
        let mut from = BufReader::new(stream.try_clone().unwrap());
        let mut to = stream;
        while let Some(path) = next_path(&mut from) {
            let answer: &[u8] = match path.as_str() {
                "/small" => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
                "/large" => b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789",
                _ => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            };
            if to.write_all(answer).is_err() {
                return;
            }
        }
    })
}

#[test]
fn a_mix_is_drawn_by_weight_and_each_kind_is_counted_by_itself() {
    let address = by_path();
    let mix = Mix::of_requests([
        ("small", 6, Request::get("test", "/small")),
        ("large", 3, Request::get("test", "/large")),
        ("missing", 1, Request::get("test", "/missing")),
    ]);
    for (depth, workers) in [(1, 1), (8, 2)] {
        let mut spec = drive::spec(address, Exchange::Mix(Box::new(mix.clone())), 6, depth);
        spec.load.workers = workers;
        spec.load.warmup = Nanos::from_millis(20);
        spec.load.stop = Stop {
            after: Nanos::from_secs(20),
            requests: Some(6_000),
        };
        with_both(spec, |measured| {
            let counts = &measured.counts;
            let [small, large, missing] = &measured.requests[..] else {
                panic!("{:?}", measured.requests)
            };
            assert_eq!(small.answered + large.answered, counts.answered);
            assert_eq!(small.body_bytes, 2 * small.answered);
            assert_eq!(large.body_bytes, 10 * large.answered);
            for (kind, path) in [(small, "/small"), (large, "/large"), (missing, "/missing")] {
                let one = Shared::new(&Request::get("test", path), Options::default());
                let bytes = one.expect("it can be encoded").request_bytes() as u64;
                assert_eq!(kind.sent_bytes, bytes * kind.sent, "{path}");
            }
            assert_eq!(missing.answered, 0);
            assert_eq!(missing.failed, counts.failed);
            assert_eq!(missing.failed["status.4xx"], counts.failed_total());
            // Six thousand draws: four standard deviations.
            let sent: u64 = measured.requests.iter().map(|kind| kind.sent).sum();
            for (kind, share) in measured.requests.iter().zip([0.6, 0.3, 0.1]) {
                let spread = 4.0 * (share * (1.0 - share) / sent as f64).sqrt();
                let seen = kind.sent as f64 / sent as f64;
                assert!(
                    (seen - share).abs() < spread,
                    "{}: {seen} of {share}",
                    kind.name
                );
            }
            let timed =
                small.latency.as_ref().unwrap().count + large.latency.as_ref().unwrap().count;
            assert_eq!(timed, measured.latency.as_ref().unwrap().count);
            let throughput: f64 = measured.requests.iter().map(|kind| kind.throughput).sum();
            assert!((throughput / measured.throughput - 1.0).abs() < 1e-9);
        });
    }
}

const WEIGHTS: [u32; 5] = [60, 25, 10, 4, 1];
const ROWS: u32 = 1_000_000;

/// What came on one connection.
#[derive(Default)]
struct Came {
    by_kind: [u64; 5],
    rows: Vec<u32>,
}

/// A server of requests of one length, such as `GET /a?000000`, that tells what came on each connection once that ends.
fn noting(request_bytes: usize) -> (SocketAddr, mpsc::Receiver<Came>) {
    let (tell, told) = mpsc::channel();
    let address = scripted(move |_, mut stream| {
        let _ = stream.set_nodelay(true);
        let (mut came, mut bytes, mut held) = (Came::default(), vec![0_u8; 64 * 1024], 0);
        while let Ok(count @ 1..) = stream.read(&mut bytes[held..]) {
            held += count;
            let whole = held - held % request_bytes;
            for request in bytes[..whole].chunks_exact(request_bytes) {
                came.by_kind[usize::from(request[5] - b'a')] += 1;
                let row = std::str::from_utf8(&request[7..13]).unwrap();
                came.rows.push(row.parse().unwrap());
            }
            let answers = ANSWER.repeat(whole / request_bytes);
            if stream.write_all(&answers).is_err() {
                break;
            }
            bytes.copy_within(whole..held, 0);
            held -= whole;
        }
        let _ = tell.send(came);
    });
    (address, told)
}

/// Five kinds by weight that share the rows of one table, each of which is used once.
fn of_rows_used_once() -> Mix {
    const PATHS: [&str; 5] = ["/a", "/b", "/c", "/d", "/e"];
    let kinds = PATHS.into_iter().zip(WEIGHTS);
    let mut mix =
        Mix::of_requests(kinds.map(|(path, weight)| (path, weight, Request::get("test", path))));
    let row = |nth: u32| Row(vec![format!("{nth:06}").into_bytes()]);
    mix.tables = vec![Table {
        name: "rows".to_owned(),
        order: Order::Once,
        columns: vec!["id".to_owned()],
        cells: (0..ROWS).map(row).collect::<Vec<Row>>().into(),
    }];
    let id = Slot {
        value: Value::Column {
            table: 0,
            column: 0,
        },
        spelling: Spelling::Url,
    };
    for kind in &mut mix.kinds {
        let target = &mut kind.request.target.0;
        target.extend([Piece::Fixed(b"?".to_vec()), Piece::Slot(id)]);
    }
    for flow in &mut mix.flows {
        flow.walks = Some(0);
    }
    mix
}

/// How far counts are from the weights. Of four degrees of freedom: above 23.5 once in ten thousand times.
fn chi_square(seen: &[u64; 5]) -> f64 {
    let weight_sum: u32 = WEIGHTS.iter().sum();
    let sum: u64 = seen.iter().sum();
    let squares = seen.iter().zip(WEIGHTS).map(|(seen, weight)| {
        let expected = sum as f64 * f64::from(weight) / f64::from(weight_sum);
        (*seen as f64 - expected).powi(2) / expected
    });
    squares.sum()
}

#[test]
fn two_workers_hold_the_weights_over_a_million_requests_and_use_each_row_once() {
    let sample = Request::get("test", "/a?000000");
    let sample = Shared::new(&sample, Options::default()).unwrap();
    let (address, told) = noting(sample.request_bytes());
    // Each worker has one connection, so that what came on one is a worker's.
    let mix = Exchange::Mix(Box::new(of_rows_used_once()));
    let mut spec = drive::spec(address, mix, 2, 100);
    spec.load.workers = 2;
    spec.load.warmup = Nanos(0);
    spec.load.stop.after = Nanos::from_secs(60);
    let measured = run(&spec, &Arc::new(Signals::default()), &mut unobserved).unwrap();
    let counts = &measured.counts;
    assert_eq!(
        (counts.answered, counts.failed_total()),
        (u64::from(ROWS), 0),
        "{counts:?}"
    );
    let ends = || told.recv_timeout(Duration::from_secs(10));
    let came = [(); 2].map(|()| ends().expect("both connections end"));
    for worker in &came {
        assert_eq!(worker.rows.len(), ROWS as usize / 2);
        let chi = chi_square(&worker.by_kind);
        assert!(chi < 23.5, "{chi}: {:?}", worker.by_kind);
    }
    let [one, other] = came;
    assert_ne!(one.by_kind, other.by_kind, "each draws for itself");
    let both: [u64; 5] = std::array::from_fn(|kind| one.by_kind[kind] + other.by_kind[kind]);
    let chi = chi_square(&both);
    assert!(chi < 23.5, "{chi}: {both:?}");
    let sent = measured.requests.iter().map(|kind| kind.sent);
    assert_eq!(sent.collect::<Vec<u64>>(), both);
    let mut rows = [one.rows, other.rows].concat();
    rows.sort_unstable();
    assert!(rows.into_iter().eq(0..ROWS), "a row was used twice");
}

/// What a server of tokens has seen.
#[derive(Default)]
struct Tokens {
    /// Logins answered with a token.
    given: u64,
    /// Logins answered without one.
    withheld: u64,
    /// Paths with the token that the connection was given last.
    returned: u64,
    /// Other paths.
    strange: u64,
}

/// Answers each `/login` with a token of its own, but every fourth without one.
fn giving_tokens() -> (SocketAddr, Arc<Mutex<Tokens>>) {
    let tokens: Arc<Mutex<Tokens>> = Arc::default();
    let of_server = Arc::clone(&tokens);
    let address = scripted(move |_, stream| {
        let mut from = BufReader::new(stream.try_clone().unwrap());
        let mut to = stream;
        let mut own_path: Option<String> = None;
        while let Some(path) = next_path(&mut from) {
            let mut body = String::new();
            let mut tokens = of_server.lock().unwrap();
            if path != "/login" {
                let is_own = own_path.take().as_ref() == Some(&path);
                tokens.returned += u64::from(is_own);
                tokens.strange += u64::from(!is_own);
            } else if (tokens.given + tokens.withheld) % 4 == 3 {
                tokens.withheld += 1;
                body.push_str("<p>come back later</p>");
            } else {
                tokens.given += 1;
                let nth = tokens.given;
                own_path = Some(format!("/mine/t-{nth}"));
                body = format!("<input name=\"csrf\" value=\"t-{nth}\"><i>t</i>");
            }
            drop(tokens);
            let length = body.len();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
            if to.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    (address, tokens)
}

/// `/login`, and then the path that a pattern finds the last part of.
fn with_token(pattern: &str) -> Mix {
    let mut mix = Mix::of_requests([
        ("login", 1, Request::get("test", "/login")),
        ("mine", 1, Request::get("test", "/mine/")),
    ]);
    mix.variables = 1;
    mix.kinds[0].expect.takes = vec![Take {
        variable: 0,
        from: Source::Regex(pattern.to_owned()),
        fits: Vec::new(),
    }];
    mix.kinds[1]
        .request
        .target
        .append(&Text(vec![Piece::Slot(Slot {
            value: Value::Variable(0),
            spelling: Spelling::Url,
        })]));
    let mine = mix.flows.remove(1);
    mix.flows[0].steps.extend(mine.steps);
    mix
}

#[test]
fn a_token_that_a_regular_expression_finds_stands_in_the_next_path() {
    let (address, tokens) = giving_tokens();
    // By its first group, and whole.
    for pattern in [r#"name="csrf" value="([^"]+)""#, "t-[0-9]+"] {
        let mix = Exchange::Mix(Box::new(with_token(pattern)));
        let mut spec = drive::spec(address, mix, 4, 1);
        spec.load.warmup = Nanos(0);
        spec.load.stop = Stop {
            after: Nanos::from_secs(20),
            requests: Some(700),
        };
        with_both(spec, |measured| {
            let seen = std::mem::take(&mut *tokens.lock().unwrap());
            let [login, mine] = &measured.requests[..] else {
                panic!("{:?}", measured.requests)
            };
            assert_eq!((login.answered, mine.answered), (seen.given, seen.returned));
            assert_eq!(seen.given + seen.withheld + seen.returned, 700);
            assert_eq!(seen.strange, 0);
            // Each connection may have had a session under way when the last was sent.
            assert!(seen.given - seen.returned <= 4, "{measured:?}");
            assert!(seen.withheld > 50, "{measured:?}");
            let missing = BTreeMap::from([("take.missing".to_owned(), seen.withheld)]);
            assert_eq!(measured.counts.failed, missing);
            assert_eq!(measured.sessions[0].broken_off, seen.withheld);
        });
    }
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
fn an_interrupted_step_still_has_its_window() {
    let server = null_server();
    let mut spec = spec(server.address(), 2, 1);
    spec.load.stop.after = Nanos::from_secs(60);
    let signals = Arc::new(Signals::default());
    let interrupt = Arc::clone(&signals);
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
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
        // In turn: none is passed over.
        assert!(measured.fairness.unwrap() > 0.95, "{:?}", measured.fairness);
    });
    assert!(most.load(Ordering::SeqCst) <= 6, "{most:?}");
}

#[test]
fn a_server_that_goes_away_is_an_outage_from_then_on() {
    // It serves for 400 ms, and is gone then: its port refuses.
    let with_server = |io, arrival| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let gone = Arc::new(AtomicBool::new(false));
        let serving = Arc::clone(&gone);
        let accepting = thread::spawn(move || {
            listener.set_nonblocking(true).unwrap();
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(400) {
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
        spec.load.stop.after = Nanos::from_millis(800);
        spec.load.arrival = arrival;
        spec.load.timeout = Nanos::from_millis(100);
        spec.io = io;
        let signals = Arc::new(Signals::default());
        let measured = run(&spec, &signals, &mut unobserved).unwrap();
        accepting.join().unwrap();
        measured
    };
    let closed = Arrival::Closed { think: Nanos(0) };
    let open = Arrival::Constant { rate: Rate(200.0) };
    for (io, arrival) in [(IoChoice::Epoll, closed), (IoChoice::Auto, open)] {
        let measured = with_server(io, arrival);
        let [outage] = measured.outages[..] else {
            panic!("{:?}", measured.outages);
        };
        let end = outage.at_ns + outage.for_ns;
        assert!(end.abs_diff(measured.window_to_ns) < 30 * MS, "{outage:?}");
        assert!(outage.for_ns > 300 * MS, "{outage:?}");
        assert_eq!(measured.counts.unreachable_ns, outage.for_ns);
        let counts = &measured.counts;
        assert!(counts.connect_failures["net.refused"] > 0);
        if arrival == open {
            // Some 450 ms at 200 a second, less the last 100 ms: nothing could send them.
            assert!(counts.expired_unsent > 30, "{counts:?}");
            assert!(counts.expired_unsent <= counts.failed["timeout.total"]);
            assert_eq!(counts.late_by_client, 0, "no connection was free");
        }
    }
}

#[test]
fn what_stands_behind_a_last_answer_is_sent_again() {
    // As nginx with keepalive_requests: the tenth answer of a connection says that it is the last.
    let address = scripted(|_, mut stream| {
        let _ = stream.set_nodelay(true);
        for before in 0..10 {
            let answer = if before == 9 { LAST_ANSWER } else { ANSWER };
            if !read_request(&mut stream) || stream.write_all(answer).is_err() {
                return;
            }
        }
        let _ = stream.shutdown(std::net::Shutdown::Write);
        // Lingers, as a careful server does, so that the answer is not lost with what is unread.
        while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {}
    });
    with_both(spec(address, 4, 8), |measured| {
        let counts = &measured.counts;
        assert!(counts.answered > 100, "{counts:?}");
        assert_eq!(counts.failed_total(), 0, "{counts:?}");
        assert!(counts.anomalies["request_sent_again"] > 20, "{counts:?}");
    });
}
