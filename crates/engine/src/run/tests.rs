//! A run whose worker panics.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Instant;

use wallfinder_model::drive::Share;
use wallfinder_model::{Load, Nanos, Stop};
use wallfinder_wire::{Outcome, Request, Transmit};

use super::*;
use crate::null_server::NullServer;

/// HTTP/1.1 that panics after so many reads.
struct Bomb(Http1);

struct Fused {
    inner: http1::Shared,
    reads_left: u32,
}

impl Common for Fused {
    fn payload(&self) -> Arc<[u8]> {
        self.inner.payload()
    }

    fn own_bytes(&self) -> usize {
        self.inner.own_bytes()
    }

    fn request_bytes_max(&self) -> Option<usize> {
        None
    }

    fn anomalies(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

impl Wire for Bomb {
    type Shared = Fused;

    fn open(shared: &Fused) -> Bomb {
        Bomb(Http1::open(&shared.inner))
    }

    fn reset(&mut self, shared: &Fused) {
        self.0.reset(&shared.inner);
    }

    fn block(shared: &Fused) -> &[u8] {
        Http1::block(&shared.inner)
    }

    fn room(&self, shared: &Fused) -> u32 {
        self.0.room(&shared.inner)
    }

    fn issue(&mut self, shared: &Fused) -> u32 {
        self.0.issue(&shared.inner)
    }

    fn poll_transmit(&self, shared: &Fused) -> Transmit {
        self.0.poll_transmit(&shared.inner)
    }

    fn handle_sent(&mut self, shared: &Fused, count: usize) {
        self.0.handle_sent(&shared.inner, count);
    }

    fn write(&mut self, shared: &Fused, into: &mut [u8]) -> usize {
        self.0.write(&shared.inner, into)
    }

    fn handle_bytes(&mut self, shared: &mut Fused, bytes: &[u8]) -> usize {
        shared.reads_left = shared.reads_left.checked_sub(1).expect("the fuse burns");
        self.0.handle_bytes(&mut shared.inner, bytes)
    }

    fn handle_eof(&mut self, shared: &mut Fused) {
        self.0.handle_eof(&mut shared.inner);
    }

    fn poll_outcome(&mut self) -> Option<Outcome> {
        self.0.poll_outcome()
    }

    fn poll_begun(&mut self) -> Option<u32> {
        self.0.poll_begun()
    }

    fn answering(&self) -> Option<u32> {
        self.0.answering()
    }

    fn cancel(&mut self, slot: u32) -> bool {
        self.0.cancel(slot)
    }
}

fn spec_of(load: Load, request: &Request) -> StepSpec {
    StepSpec {
        load,
        address: SocketAddr::from(([127, 0, 0, 1], 9)),
        request: Exchange::Http1(request.clone()),
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

#[test]
fn a_worker_polls_where_it_has_a_processor_and_no_quota() {
    let request = Request::get("null", "/");
    let polls = |under_quota| {
        let spec = StepSpec {
            cpus: vec![1],
            under_quota,
            ..spec_of(Load::closed(4), &request)
        };
        worker_plans(&spec).iter().all(|plan| plan.polls)
    };
    assert!(polls(false) && !polls(true));
}

#[test]
fn a_worker_that_panics_takes_the_others_with_it_at_once() {
    let request = Request::get("null", "/");
    let load = Load {
        workers: 2,
        stop: Stop {
            after: Nanos::from_secs(120),
            requests: None,
        },
        timeout: Nanos::from_secs(5),
        ..Load::closed(4)
    };
    let spec = spec_of(load, &request);
    let shared = || http1::Shared::new(&request, protocol::http1_options(&spec)).unwrap();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let server = NullServer::start(shared().request_bytes(), answer, None).unwrap();
    let spec = StepSpec {
        address: server.address(),
        ..spec.clone()
    };
    // The first is asked what it needs, the second is worker 0's, the third worker 1's.
    let made = Cell::new(0);
    let shareds = || {
        made.set(made.get() + 1);
        Ok(Fused {
            inner: shared(),
            reads_left: if made.get() == 3 { 500 } else { u32::MAX },
        })
    };
    let began = Instant::now();
    let signals = Arc::new(Signals::default());
    let ended = run_with::<Bomb, Epoll>(&spec, &signals, &mut unobserved, &shareds);
    let error = ended.expect_err("a worker panicked");
    assert!(
        matches!(&error, EngineError::WorkerPanicked { worker: 1, message } if message.contains("fuse")),
        "{error}"
    );
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "{:?}",
        began.elapsed()
    );
}
