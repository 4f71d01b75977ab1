//! Loads that tests drive, with each way of waiting that there is.

#![allow(dead_code)] // each test binary uses its own part

use std::net::SocketAddr;
use std::sync::Arc;

use wallfinder_engine::{IoChoice, Measured, Signals, StepSpec, run, unobserved};
use wallfinder_model::drive::Share;
use wallfinder_model::{Load, Nanos, Stop};
use wallfinder_sys::io::uring_available;
use wallfinder_wire::Exchange;

/// A closed loop of one worker: 30 ms of warm-up, 150 ms that count.
pub(crate) fn spec(
    address: SocketAddr,
    request: Exchange,
    connections: u32,
    depth: u32,
) -> StepSpec {
    StepSpec {
        load: Load {
            in_flight_per_connection: depth,
            warmup: Nanos::from_millis(30),
            stop: Stop {
                after: Nanos::from_millis(150),
                requests: None,
            },
            timeout: Nanos::from_secs(5),
            method: request.method(),
            header_names: request.header_names(),
            body_bytes: request.body_bytes(),
            ..Load::closed(connections)
        },
        address,
        request,
        tls: None,
        cpus: Vec::new(),
        io: IoChoice::Epoll,
        seed: 1,
        share: Share::WHOLE,
        slots: None,
        samples: None,
        spare_connections: 0,
        standby_connections: 0,
        paddings: Vec::new(),
        under_quota: false,
        speed: 1.0,
    }
}

/// epoll, and io_uring where there is one.
pub(crate) fn ways() -> Vec<IoChoice> {
    match uring_available() {
        Ok(()) => vec![IoChoice::Epoll, IoChoice::Uring],
        Err(why) => {
            wallfinder_skip::skip(format_args!("io_uring: {why}"));
            vec![IoChoice::Epoll]
        }
    }
}

/// Runs in each way, and checks what came of it.
pub(crate) fn with_both(mut spec: StepSpec, check: impl Fn(&Measured)) {
    for io in ways() {
        spec.io = io;
        let measured = run(&spec, &Arc::new(Signals::default()), &mut unobserved).unwrap();
        assert!(measured.counts.balanced());
        check(&measured);
    }
}
