//! The engine's own squeezes at real servers: each moves what it should, in windows that
//! add up.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use wallfinder_engine::in_flight::spare_connections;
use wallfinder_engine::levers::Levers;
use wallfinder_engine::{
    ExperimentWindow, IoChoice, LeverSetting, Progress, Signals, StepSpec, run, workers_of,
};
use wallfinder_model::{Arrival, DRAIN_DEFAULT, Decode, Load, Nanos, Rate, Stop};
use wallfinder_sys::allocator::{Watchful, broken_promises};
use wallfinder_wire::http1::Request;

/// A change of a lever allocates nothing in a worker either.
#[global_allocator]
static ALLOCATOR: Watchful = Watchful;

/// Answers every connection after a pause, and any number of them at once.
fn sleeping_server(pause: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut request = [0; 4096];
                while let Ok(1..) = stream.read(&mut request) {
                    thread::sleep(pause);
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn load(arrival: Arrival, connections: u32, workers: u32) -> Load {
    Load {
        connections,
        in_flight_per_connection: 1,
        max_in_flight: None,
        workers,
        arrival,
        warmup: Nanos::from_millis(50),
        stop: Stop {
            after: Nanos::from_secs(30),
            requests: None,
        },
        timeout: Nanos::from_secs(5),
        drain: DRAIN_DEFAULT,
        connection_per_request: false,
        method: "GET".into(),
        header_names: Vec::new(),
        body_bytes: 0,
        decode: Decode::None,
        no_batching: false,
    }
}

/// The windows of a load under these settings, 400 ms of each.
fn windows(load: Load, address: SocketAddr, settings: &[LeverSetting]) -> Vec<ExperimentWindow> {
    let signals = Arc::new(Signals::default());
    let spare = match load.arrival.is_open() {
        true => 0,
        false => spare_connections(&load),
    };
    let spec = StepSpec {
        load,
        address,
        request: Request::get("test", "/").into(),
        tls: None,
        cpus: Vec::new(),
        io: IoChoice::Auto,
        seed: 1,
        samples: None,
        spare_connections: spare,
        paddings: vec![14, 400],
        under_quota: false,
    };
    let workers = workers_of(&spec.load);
    let set = |levers: &Levers, setting: LeverSetting| {
        levers.set(setting);
        let until = Instant::now() + Duration::from_secs(10);
        while !levers.are_followed_by(workers) {
            assert!(Instant::now() < until, "the workers do not follow");
            thread::sleep(Duration::from_millis(1));
        }
    };
    let (tell, told) = channel();
    thread::scope(|scope| {
        let of_engine = Arc::clone(&signals);
        let measured = scope.spawn(move || {
            let mut observe = |progress| {
                if let Progress::Window(window) = progress {
                    tell.send(window).unwrap();
                }
            };
            run(&spec, &of_engine, &mut observe).unwrap()
        });
        thread::sleep(Duration::from_millis(300));
        for (number, setting) in settings.iter().enumerate() {
            let wash_out = LeverSetting {
                window: 0,
                ..*setting
            };
            set(&signals.levers, wash_out);
            thread::sleep(Duration::from_millis(100));
            let counted = LeverSetting {
                window: number as u32 + 1,
                ..*setting
            };
            set(&signals.levers, counted);
            thread::sleep(Duration::from_millis(400));
        }
        signals.levers.set(LeverSetting::FREE);
        let windows: Vec<ExperimentWindow> = settings
            .iter()
            .map(|_| told.recv_timeout(Duration::from_secs(5)).unwrap())
            .collect();
        signals
            .stop
            .store(true, std::sync::atomic::Ordering::Relaxed);
        let measured = measured.join().unwrap();
        assert!(measured.counts.balanced());
        assert_eq!(broken_promises(), 0);
        for (number, window) in windows.iter().enumerate() {
            assert_eq!(window.number, number as u32 + 1);
            let seconds = (window.to_ns - window.from_ns) as f64 / 1e9;
            // As long as it was held; shorter where the machine let the worker wait at its beginning, longer
            // where it let us wait.
            assert!((0.1..4.0).contains(&seconds), "{window:?}");
            let rate = window.answered as f64 / seconds;
            assert!((rate / window.throughput - 1.0).abs() < 0.02, "{window:?}");
        }
        windows
    })
}

const SHAM: LeverSetting = LeverSetting {
    speed: Some(1.0),
    ..LeverSetting::FREE
};

#[test]
fn fewer_in_flight_and_longer_thoughts_slow_a_closed_loop_that_waits() {
    let address = sleeping_server(Duration::from_millis(4));
    let closed = load(Arrival::Closed { think: Nanos(0) }, 20, 2);
    let half = LeverSetting {
        in_flight: 0.5,
        ..SHAM
    };
    let thinking = LeverSetting {
        think: Nanos::from_millis(4),
        ..SHAM
    };
    let more = LeverSetting {
        in_flight: 1.25,
        ..SHAM
    };
    let slow = LeverSetting {
        speed: Some(0.5),
        ..SHAM
    };
    // A machine that stands still in a window spoils that one, but not one after another.
    let mut spoiled = Vec::new();
    for _ in 0..3 {
        let seen = windows(
            closed.clone(),
            address,
            &[SHAM, half, thinking, slow, SHAM, more],
        );
        let base = (seen[0].throughput + seen[4].throughput) / 2.0;
        let left: Vec<f64> = seen.iter().map(|of| of.throughput / base).collect();
        let as_asked = (left[1] - 0.5).abs() < 0.06
            && (left[2] - 0.5).abs() < 0.06
            && left[3] > 0.9
            && (left[5] - 1.25).abs() < 0.1;
        // What was held back is not late: it was not meant to be sent.
        let on_time = seen[4].quantiles_ns["p99.99"] < 100_000_000;
        assert!(seen[1].in_flight_mean < 0.6 * seen[0].in_flight_mean);
        if as_asked && on_time {
            return;
        }
        spoiled.push(seen);
    }
    panic!("half in flight, half by thinking, slower, more: {spoiled:#?}");
}

#[test]
fn a_request_that_a_lever_holds_back_is_not_late() {
    // Two connections of ten requests each: what is taken is depth.
    let address = pipelining_server(Duration::from_millis(1));
    let mut deep = load(Arrival::Closed { think: Nanos(0) }, 2, 1);
    deep.in_flight_per_connection = 10;
    let half = LeverSetting {
        in_flight: 0.5,
        ..SHAM
    };
    let mut spoiled = Vec::new();
    for _ in 0..3 {
        let seen = windows(deep.clone(), address, &[SHAM, half]);
        let [before, held] = [0, 1].map(|at: usize| seen[at].quantiles_ns["p99"] as f64);
        // Half as many in a queue wait half as long.
        if held < 0.8 * before {
            return;
        }
        spoiled.push(seen);
    }
    panic!("half in flight: {spoiled:#?}");
}

/// A server of so many server_workers, each of which accepts a connection, reads from it, pauses, answers and closes it.
/// Whoever connects and sends nothing has a worker for himself.
fn closing_server(server_workers: u32, pause: Duration, answer: &'static [u8]) -> SocketAddr {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    for _ in 0..server_workers {
        let listener = Arc::clone(&listener);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                if let Ok(1..) = stream.read(&mut [0; 4096]) {
                    thread::sleep(pause);
                    let _ = stream.write_all(answer);
                }
            }
        });
    }
    address
}

/// With connections open on which nothing is sent, squeezes would take server_workers of the server and not requests.
#[test]
fn at_a_server_that_ends_each_connection_no_connection_waits_without_a_request() {
    const WITH_LENGTH: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
    const TO_ITS_END: &[u8] = b"HTTP/1.0 200 OK\r\n\r\nhello";
    let fewer = |turn| LeverSetting {
        in_flight: 0.8,
        turn,
        ..SHAM
    };
    let thinking = LeverSetting {
        think: Nanos::from_millis(1),
        ..SHAM
    };
    let more = LeverSetting {
        in_flight: 1.25,
        ..SHAM
    };
    for (server_workers, workers, answer) in [
        (4, 1, WITH_LENGTH),
        (4, 2, TO_ITS_END),
        (1, 1, TO_ITS_END),
        (2, 1, WITH_LENGTH),
    ] {
        let address = closing_server(server_workers, Duration::from_millis(4), answer);
        let closed = load(Arrival::Closed { think: Nanos(0) }, 16, workers);
        let settings = [SHAM, fewer(0), thinking, fewer(7), more, SHAM];
        let seen = windows(closed, address, &settings);
        // Each worker is always at work, whatever of the load is taken: it is a pool.
        let most = f64::from(server_workers) * 250.0;
        for window in &seen {
            assert!(
                window.throughput > 0.5 * most,
                "{server_workers}: {seen:#?}"
            );
            let times = window.throughput * window.latency_mean_ns / 1e9;
            let little = window.in_flight_mean / times;
            assert!((little - 1.0).abs() < 0.2, "{little}: {seen:#?}");
        }
        let held = seen[1].in_flight_mean.max(seen[3].in_flight_mean);
        assert!(held < 0.9 * seen[0].in_flight_mean, "{seen:#?}");
        assert!(seen[4].in_flight_mean > 1.1 * seen[0].in_flight_mean);
    }
}

/// A server that takes a while for each request, one after the other on each connection.
fn pipelining_server(pause: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || {
                let (mut answers, requests) = (stream.try_clone().unwrap(), BufReader::new(stream));
                for line in requests.lines().map_while(Result::ok) {
                    // The line behind the head.
                    if !line.is_empty() {
                        continue;
                    }
                    thread::sleep(pause);
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
                    if answers.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// A server that tells how long each request was.
fn counting_server(tell: Sender<usize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, tell) = (stream.unwrap(), tell.clone());
            thread::spawn(move || {
                let mut request = [0; 4096];
                while let Ok(bytes @ 1..) = stream.read(&mut request) {
                    let _ = tell.send(bytes);
                    thread::sleep(Duration::from_millis(2));
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn requests_are_padded_while_a_lever_asks_for_it() {
    let (tell, told) = channel();
    let address = counting_server(tell);
    let closed = load(Arrival::Closed { think: Nanos(0) }, 4, 1);
    let padded = LeverSetting { form: 2, ..SHAM };
    windows(closed, address, &[SHAM, padded, SHAM]);
    let lengths: Vec<usize> = told.try_iter().collect();
    let plain = lengths[0];
    let (changes, long) = (
        lengths.windows(2).filter(|pair| pair[0] != pair[1]).count(),
        lengths
            .iter()
            .filter(|bytes| **bytes == plain + 400)
            .count(),
    );
    assert!(
        lengths
            .iter()
            .all(|bytes| [plain, plain + 400].contains(bytes))
    );
    assert!(
        long > 100 && long < lengths.len() - 100,
        "{long} of {}",
        lengths.len()
    );
    // Connections change over one by one.
    assert!(changes <= 20, "{changes}");
}

#[test]
fn an_open_loop_changes_its_pace() {
    let address = sleeping_server(Duration::from_millis(1));
    let rate = Rate(2_000.0);
    let open = load(Arrival::Constant { rate }, 40, 2);
    let slower = LeverSetting { pace: 0.5, ..SHAM };
    let seen = windows(open, address, &[SHAM, slower, SHAM]);
    // What falls due is arithmetic; when it is answered is the machine's affair.
    for (window, rate) in seen.iter().zip([2_000.0, 1_000.0, 2_000.0]) {
        let seconds = (window.to_ns - window.from_ns) as f64 / 1e9;
        let due = window.scheduled as f64 / seconds / rate;
        assert!((due - 1.0).abs() < 0.02, "{due}: {window:?}");
    }
    let sum = |count: fn(&ExperimentWindow) -> u64| seen.iter().map(count).sum::<u64>() as f64;
    let answered = sum(|window| window.answered) / sum(|window| window.scheduled);
    assert!((0.7..1.3).contains(&answered), "{answered}: {seen:?}");
}
