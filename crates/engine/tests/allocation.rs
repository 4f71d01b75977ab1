//! A lane allocates nothing once its schedule has begun. Its own test binary, since it
//! replaces the allocator.

use std::sync::Arc;

use wallfinder_engine::null_server::NullServer;
use wallfinder_engine::{IoChoice, Signals, StepSpec, Unwatched, run};
use wallfinder_model::{Arrival, Load, Nanos, Rate, Stop};
use wallfinder_sys::allocator::{Watchful, broken_promises, forbid};
use wallfinder_wire::http1::{Options, Request, Shared};

#[global_allocator]
static ALLOCATOR: Watchful = Watchful;

#[test]
fn a_lane_allocates_nothing_after_the_start() {
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
    for io in [IoChoice::Epoll, IoChoice::Auto] {
        for arrival in [
            Arrival::Closed { think: Nanos(0) },
            Arrival::Closed {
                think: Nanos::from_millis(1),
            },
            Arrival::Poisson {
                rate: Rate(5_000.0),
            },
        ] {
            for depth in [1, 20] {
                let spec = StepSpec {
                    load: Load {
                        connections: 50,
                        in_flight_per_connection: depth,
                        lanes: 2,
                        arrival,
                        warmup: Nanos::from_millis(50),
                        stop: Stop {
                            after: Nanos::from_millis(300),
                            requests: None,
                        },
                        timeout: Nanos::from_secs(5),
                        connection_per_request: false,
                        method: "GET".into(),
                        header_names: Vec::new(),
                        body_bytes: 0,
                        inflate: false,
                    },
                    address: server.address(),
                    request: request.clone(),
                    cpus: Vec::new(),
                    io,
                    seed: 1,
                };
                let measured = run(&spec, &Arc::new(Signals::default()), &mut Unwatched).unwrap();
                assert!(measured.counts.answered > 100);
                assert_eq!(
                    broken_promises(),
                    noticed,
                    "{io:?} {arrival:?} depth {depth}"
                );
            }
        }
    }
}
