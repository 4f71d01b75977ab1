//! A worker allocates nothing once its schedule has begun. Its own test binary, since it
//! replaces the allocator.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use wallfinder_engine::null_server::NullServer;
use wallfinder_engine::samples::SampleChannel;
use wallfinder_engine::{IoChoice, Signals, StepSpec, run, unobserved};
use wallfinder_model::drive::Share;
use wallfinder_model::{Arrival, Load, Nanos, Rate, Stop};
use wallfinder_sys::allocator::{Watchful, broken_promises, forbid};
use wallfinder_wire::http1::{Options, Request, Shared};
use wallfinder_wire::mix::{
    Check, Mix, Piece, Prefix, Row, Scalar, Slot, Source, Spelling, Step, Table, Take, Text, Think,
    Value,
};
use wallfinder_wire::{Exchange, framed};

#[global_allocator]
static ALLOCATOR: Watchful = Watchful;

#[test]
fn a_worker_allocates_nothing_after_the_start() {
    {
        let _promise = forbid();
        std::hint::black_box(Box::new(1));
    }
    let noticed = broken_promises();
    assert_eq!(
        noticed, 1,
        "the allocator must notice what it is there to notice"
    );

    let request = Request::get("test", "/");
    let bytes = Shared::new(&request, Options::default())
        .unwrap()
        .request_bytes();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let server = NullServer::start(bytes, answer, None).unwrap();
    let echo = echo();
    let framed = |format: &str| -> Exchange {
        let request = framed::Request {
            format: format.parse().unwrap(),
            message: vec![b'm'; 1000],
        };
        request.into()
    };
    let fixed = Mix::of_requests([
        ("/", 5, Request::get("test", "/")),
        ("/longer", 3, Request::get("test", "/longer/one")),
        ("/third", 1, Request::get("test", "/third")),
    ]);
    let mix = |mix: Mix| Exchange::Mix(Box::new(mix));
    let exchanges: [(SocketAddr, Exchange); 6] = [
        (unfaithful(answer), mix(fixed.clone())),
        (unfaithful(answer), mix(filled_in(fixed))),
        (server.address(), request.clone().into()),
        (unfaithful(answer), request.into()),
        (echo, framed("u32be")),
        (echo, framed("u32be,id=u32be@0")),
    ];
    // All at a time: nothing is measured, and each waits for most of its time.
    thread::scope(|scope| {
        for (address, exchange) in &exchanges {
            scope.spawn(move || drives_without_allocating(*address, exchange, noticed));
        }
    });
}

/// The same with rows of data, checks, and a session that takes a value, keeps cookies and pauses.
fn filled_in(mut mix: Mix) -> Mix {
    let slot = |value, spelling| Piece::Slot(Slot { value, spelling });
    let row = |nth: usize| Row(vec![format!("a b{nth}").into_bytes()]);
    mix.tables = vec![Table {
        name: "rows".to_owned(),
        order: wallfinder_wire::mix::Order::Random,
        columns: vec!["id".to_owned()],
        cells: (0..100).map(row).collect::<Vec<Row>>().into(),
    }];
    mix.variables = 1;
    let column = Value::Column {
        table: 0,
        column: 0,
    };
    mix.kinds[0].request.target = Text(vec![
        Piece::Fixed(b"/search?q=".to_vec()),
        slot(column, Spelling::Url),
    ]);
    mix.kinds[0].expect.checks = vec![
        Check::BodyHas(b"hell".to_vec()),
        Check::Length(5, 5),
        Check::Header("content-length".to_owned(), "5".to_owned()),
    ];
    mix.kinds[1].expect.takes = vec![Take {
        variable: 0,
        from: Source::Header("content-length".to_owned()),
        fits: vec![Scalar::Int64],
    }];
    let token = (
        "X-Token".to_owned(),
        Text(vec![slot(Value::Variable(0), Spelling::Raw)]),
    );
    mix.kinds[2].request.headers.push(token);
    // As a message of protobuf: a number behind its length.
    let number = slot(Value::Variable(0), Spelling::Scalar(Scalar::Int64));
    mix.kinds[2].request.body = Text::sized(Prefix::Call, Text(vec![number]));
    for kind in &mut mix.kinds[1..] {
        kind.expect.keeps_cookies = true;
    }
    mix.flows[1].steps.push(Step {
        kind: 2,
        think: Think::Exponential(200_000),
        hop: None,
    });
    mix.flows.truncate(2);
    mix
}

/// Serves a connection in a thread of its own, and joins those that have ended: glibc 2.36 may read the stack of a thread
/// that ends while it is detached.
fn serve_beside(served: &mut Vec<JoinHandle<()>>, serve: impl FnOnce() + Send + 'static) {
    let (ended, running) = served.drain(..).partition(JoinHandle::is_finished);
    *served = running;
    let ended: Vec<JoinHandle<()>> = ended;
    for thread in ended {
        thread.join().expect("a double does not panic");
    }
    served.push(thread::spawn(serve));
}

/// A server whose every tenth answer is none: nonsense, or an end in its middle.
fn unfaithful(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut connections, mut served) = (0, Vec::new());
        while let Ok((mut stream, _)) = listener.accept() {
            connections += 1;
            let last: &[u8] = match connections % 2 {
                0 => b"HTTP/9.9 what?\r\n\r\n",
                _ => &answer[..answer.len() - 1],
            };
            serve_beside(&mut served, move || {
                let (mut bytes, mut ends, mut answers) = ([0; 4096], 0, 0);
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    for byte in &bytes[..count] {
                        // Each request ends with the only blank line in it.
                        ends = if matches!(byte, b'\r' | b'\n') {
                            ends + 1
                        } else {
                            0
                        };
                        if ends < 4 {
                            continue;
                        }
                        (ends, answers) = (0, answers + 1);
                        let says = if answers < 10 { answer } else { last };
                        if stream.write_all(says).is_err() || answers == 10 {
                            return;
                        }
                    }
                }
            });
        }
    });
    address
}

/// A server that sends bytes back as they come.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut served = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            serve_beside(&mut served, move || {
                let mut bytes = vec![0; 64 * 1024];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    if stream.write_all(&bytes[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn drives_without_allocating(address: SocketAddr, request: &Exchange, noticed: u64) {
    let mut answered = 0;
    for io in [IoChoice::Epoll, IoChoice::Auto] {
        for arrival in [
            Arrival::Closed { think: Nanos(0) },
            Arrival::Closed {
                think: Nanos::from_millis(1),
            },
            Arrival::Poisson {
                rate: Rate(5_000.0),
            },
            Arrival::Constant {
                rate: Rate(5_000.0),
            },
            Arrival::Ramp {
                from: Rate(3_000.0),
                to: Rate(6_000.0),
                over: Nanos::from_millis(60),
            },
        ] {
            for (depth, bound) in [(1, None), (20, None), (20, Some(30))] {
                if arrival.is_open() && depth > 1 && bound.is_none() {
                    // As with one in flight on each.
                    continue;
                }
                let has_sessions = request.mix().is_some_and(Mix::has_sessions);
                let depth = if has_sessions { 1 } else { depth };
                let spec = StepSpec {
                    load: Load {
                        in_flight_per_connection: depth,
                        max_in_flight: bound,
                        workers: 2,
                        arrival,
                        warmup: Nanos::from_millis(10),
                        stop: Stop {
                            after: Nanos::from_millis(50),
                            requests: None,
                        },
                        timeout: Nanos::from_secs(5),
                        ..Load::closed(50)
                    },
                    address,
                    request: request.clone(),
                    tls: None,
                    cpus: Vec::new(),
                    io,
                    seed: 1,
                    share: Share::WHOLE,
                    slots: None,
                    samples: (depth > 1).then(SampleChannel::default),
                    spare_connections: 0,
                    standby_connections: 0,
                    paddings: Vec::new(),
                    under_quota: false,
                    speed: 1.0,
                };
                let measured = run(&spec, &Arc::new(Signals::default()), &mut unobserved).unwrap();
                let intervals = measured.intervals.iter();
                answered += intervals.map(|interval| interval.answered).sum::<u64>();
                assert_eq!(
                    broken_promises(),
                    noticed,
                    "{} {io:?} {arrival:?} depth {depth} bound {bound:?}",
                    request.method()
                );
            }
        }
    }
    assert!(answered > 1_000, "{answered} of {request:?}");
}
