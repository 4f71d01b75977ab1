//! A worker allocates nothing once its schedule has begun. Its own test binary, since it
//! replaces the allocator.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use wallfinder_engine::null_server::NullServer;
use wallfinder_engine::samples::SampleChannel;
use wallfinder_engine::{IoChoice, Signals, run, unobserved};
use wallfinder_model::{Arrival, Nanos, Rate, Stop};
use wallfinder_sys::allocator::{Watchful, broken_promises, forbid};
use wallfinder_wire::http1::{Options, Request, Shared};
use wallfinder_wire::mix::{
    Check, Mix, Piece, Prefix, Protocol, Row, Scalar, Slot, Source, Spelling, Step, Table, Take,
    Text, Think, Value,
};
use wallfinder_wire::tls::{self, Client, Double, Identity, Trust};
use wallfinder_wire::{Exchange, framed, grpc};

mod drive;
#[path = "drive/frames.rs"]
#[allow(dead_code)] // its server is not used here
mod frames;
#[path = "drive/serving.rs"]
mod serving;
#[path = "drive/sessions.rs"]
mod sessions;

use serving::{http1, http2, serving};
use sessions::{WHOLE, answer_to_call, answer_to_head, answer_to_stream, calls, whole};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[global_allocator]
static ALLOCATOR: Watchful = Watchful;

/// Waits for its turn, for promises are counted over all threads, and shows that a broken one is noticed; gives how many
/// were.
fn watching() -> (MutexGuard<'static, ()>, u64) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = broken_promises();
    {
        let _promise = forbid();
        std::hint::black_box(Box::new(1));
    }
    let noticed = broken_promises();
    assert_eq!(
        noticed,
        before + 1,
        "the allocator must notice what it is there to notice"
    );
    (turn, noticed)
}

#[test]
fn a_worker_allocates_nothing_after_the_start() {
    let (_turn, noticed) = watching();
    let request = Request::get("test", "/");
    let bytes = Shared::new(&request, Options::default())
        .unwrap()
        .request_bytes();
    let server = NullServer::start(bytes, ANSWER, None).unwrap();
    let plain = || unfaithful(|_| ANSWER, ANSWER);
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
    let streams = serving(None, |_| http2(answer_to_stream));
    let callees = serving(None, |_| http2(answer_to_call));
    let exchanges: [(SocketAddr, Exchange); 9] = [
        (plain(), mix(fixed.clone())),
        (plain(), mix(filled_in(fixed))),
        (
            unfaithful(answer_to_head, WHOLE),
            mix(whole(Protocol::Http1)),
        ),
        (streams, mix(whole(Protocol::Http2))),
        (callees, mix(calls())),
        (server.address(), request.clone().into()),
        (plain(), request.into()),
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

/// Records of TLS are the library's, which allocates for each. What a mix looks for and fills in adds nothing to that.
#[test]
fn under_tls_a_mix_allocates_no_more_than_one_fixed_request() {
    let (_turn, _) = watching();
    let get = || Request::get("test", "/");
    let unary = grpc::Request::unary("test", "/a.B/C", "x");
    let fixed: [Exchange; 3] = [get().into(), Exchange::Http2(get()), unary.into()];
    let mixes = [whole(Protocol::Http1), whole(Protocol::Http2), calls()];
    for (fixed, mix) in fixed.into_iter().zip(mixes) {
        let protocol = mix.protocol;
        let (client, double) = both_ends(match protocol {
            Protocol::Http1 => "http/1.1",
            Protocol::Http2 | Protocol::Grpc => "h2",
        });
        let address = serving(Some(double), move |_| match protocol {
            Protocol::Http1 => http1(answer_to_head, None),
            Protocol::Http2 => http2(answer_to_stream),
            Protocol::Grpc => http2(answer_to_call),
        });
        let of_fixed = allocations_each(address, fixed, &client);
        let of_mix = allocations_each(address, Exchange::Mix(Box::new(mix)), &client);
        assert!(of_fixed > 0.5, "{protocol:?}: {of_fixed} are noticed");
        assert!(
            of_mix < of_fixed + 0.1,
            "{protocol:?}: {of_mix}, and {of_fixed} without the mix"
        );
    }
}

/// A client that believes anybody, and the server's end.
fn both_ends(alpn: &str) -> (Client, Double) {
    let client = Client::new(&tls::Options {
        name: "server.test".to_owned(),
        alpn: vec![alpn.to_owned()],
        trust: Trust::Anybody,
        identity: None,
        groups: Vec::new(),
        version: None,
        resumes: true,
    });
    let client = client.unwrap();
    let made = rcgen::generate_simple_self_signed(["server.test".to_owned()]).unwrap();
    let identity = Identity {
        chain: vec![made.cert.der().to_vec()],
        key: made.signing_key.serialize_der(),
    };
    let double = Double::new(&client, identity).unwrap();
    (client, double)
}

/// How often a worker allocates for each request, connections that open left out.
fn allocations_each(address: SocketAddr, request: Exchange, client: &Client) -> f64 {
    let mut spec = drive::spec(address, request, 5, 1);
    spec.tls = Some(client.clone());
    spec.load.warmup = Nanos(0);
    spec.load.stop = Stop {
        after: Nanos::from_secs(20),
        requests: Some(1_000),
    };
    let before = broken_promises();
    let measured = run(&spec, &Arc::new(Signals::default()), &mut unobserved).unwrap();
    let counts = &measured.counts;
    assert_eq!(
        (counts.answered, counts.failed_total(), counts.connects),
        (1_000, 0, 0),
        "{counts:?}"
    );
    (broken_promises() - before) as f64 / 1_000.0
}

/// The same with rows of data, checks, and a session that takes a value, keeps cookies, pauses, and continues behind its
/// first step where that fails.
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
    mix.flows[1].steps[0].continues = true;
    mix.flows[1].steps.push(Step {
        kind: 2,
        think: Think::Exponential(200_000),
        hop: None,
        continues: false,
    });
    mix.flows.truncate(2);
    mix
}

/// A server whose every tenth answer is none: nonsense, or an end in the middle of `whole`.
fn unfaithful(
    answer: impl Fn(&[u8]) -> &'static [u8] + Clone + Send + 'static,
    whole: &'static [u8],
) -> SocketAddr {
    serving(None, move |connection| {
        let last: &'static [u8] = match connection % 2 {
            0 => b"HTTP/9.9 what?\r\n\r\n",
            _ => &whole[..whole.len() - 1],
        };
        http1(answer.clone(), Some(last))
    })
}

/// A server that sends bytes back as they come.
fn echo() -> SocketAddr {
    serving(None, |_| {
        Box::new(|bytes: &[u8], says: &mut Vec<u8>| {
            says.extend_from_slice(bytes);
            true
        })
    })
}

fn drives_without_allocating(address: SocketAddr, request: &Exchange, noticed: u64) {
    let has_sessions = request.mix().is_some_and(Mix::has_sessions);
    let (mut answered, mut of_kinds) = (0, vec![0; request.kinds().len()]);
    for io in [IoChoice::Epoll, IoChoice::Auto] {
        for arrival in arrivals() {
            for (depth, bound) in [(1, None), (20, None), (20, Some(30))] {
                if depth > 1 && bound.is_none() && (arrival.is_open() || has_sessions) {
                    // As with one in flight on each.
                    continue;
                }
                let in_flight = if has_sessions { 1 } else { depth };
                let mut spec = drive::spec(address, request.clone(), 50, in_flight);
                spec.load.max_in_flight = bound;
                spec.load.workers = 2;
                spec.load.arrival = arrival;
                spec.load.warmup = Nanos::from_millis(10);
                spec.load.stop.after = Nanos::from_millis(50);
                spec.io = io;
                spec.samples = (depth > 1).then(SampleChannel::default);
                let measured = run(&spec, &Arc::new(Signals::default()), &mut unobserved).unwrap();
                let intervals = measured.intervals.iter();
                answered += intervals.map(|interval| interval.answered).sum::<u64>();
                assert_eq!(
                    broken_promises(),
                    noticed,
                    "{} {io:?} {arrival:?} depth {depth} bound {bound:?}",
                    request.method()
                );
                for (sum, kind) in of_kinds.iter_mut().zip(&measured.requests) {
                    *sum += kind.answered;
                    let is_of_mix = |class: &String| {
                        let mut of_mix = ["check.", "take.", "redirect."].into_iter();
                        of_mix.any(|of| class.starts_with(of))
                    };
                    assert!(!kind.failed.keys().any(is_of_mix), "{kind:?}");
                }
            }
        }
    }
    assert!(answered > 1_000, "{answered} of {request:?}");
    let all_are_answered = of_kinds.iter().all(|answered| *answered > 0);
    assert!(all_are_answered, "{of_kinds:?} of {request:?}");
}

fn arrivals() -> [Arrival; 5] {
    [
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
    ]
}
