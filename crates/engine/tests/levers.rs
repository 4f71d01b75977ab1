//! Levers at a real server, with two workers: each moves what it should, in windows that add up, and none makes a worker
//! allocate. What each of them does to the nanosecond is tested on a virtual clock (`src/sim/tests/levers.rs`).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use wallfinder_engine::in_flight::spare_connections;
use wallfinder_engine::levers::Levers;
use wallfinder_engine::{
    ExperimentWindow, IoChoice, LeverSetting, Progress, Signals, StepSpec, run, workers_of,
};
use wallfinder_model::drive::Share;
use wallfinder_model::{Arrival, Load, Nanos, Stop};
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
        workers,
        arrival,
        warmup: Nanos::from_millis(50),
        stop: Stop {
            after: Nanos::from_secs(30),
            requests: None,
        },
        timeout: Nanos::from_secs(5),
        ..Load::closed(connections)
    }
}

/// The windows of a load under these settings, 250 ms of each.
fn windows(load: Load, address: SocketAddr, settings: &[LeverSetting]) -> Vec<ExperimentWindow> {
    let signals = Arc::new(Signals::default());
    let spare = spare_connections(&load);
    let spec = StepSpec {
        load,
        address,
        request: Request::get("test", "/").into(),
        tls: None,
        cpus: Vec::new(),
        io: IoChoice::Auto,
        seed: 1,
        share: Share::WHOLE,
        slots: None,
        samples: None,
        spare_connections: spare,
        standby_connections: 0,
        paddings: Vec::new(),
        under_quota: false,
        speed: 1.0,
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
        thread::sleep(Duration::from_millis(150));
        for (number, setting) in settings.iter().enumerate() {
            let wash_out = LeverSetting {
                window: 0,
                ..*setting
            };
            set(&signals.levers, wash_out);
            thread::sleep(Duration::from_millis(50));
            let counted = LeverSetting {
                window: number as u32 + 1,
                ..*setting
            };
            set(&signals.levers, counted);
            thread::sleep(Duration::from_millis(120));
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
            assert!((0.05..4.0).contains(&seconds), "{window:?}");
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
        // A slower worker, and more in flight, cost what the other tests leave of the processors: they are asked for
        // what is in flight here, and for throughput on the virtual clock.
        let held = |at: usize| seen[at].in_flight_mean / seen[0].in_flight_mean;
        for (at, asked) in [(1, 0.5), (3, 1.0), (4, 1.0), (5, 1.25)] {
            assert!((held(at) - asked).abs() < 0.02, "{at}: {seen:#?}");
        }
        let base = (seen[0].throughput + seen[4].throughput) / 2.0;
        let left = |at: usize| seen[at].throughput / base;
        let as_asked = (left(1) - 0.5).abs() < 0.06 && (left(2) - 0.5).abs() < 0.06;
        // What was held back is not late: it was not meant to be sent.
        let on_time = seen[4].quantiles_ns["p99.99"] < 100_000_000;
        if as_asked && on_time {
            return;
        }
        spoiled.push(seen);
    }
    panic!("half in flight, half by thinking: {spoiled:#?}");
}
