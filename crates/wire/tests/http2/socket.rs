//! A load on one connection over a blocking socket: the state machine at a real peer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use wallfinder_wire::http2::{Http2, Shared};
use wallfinder_wire::{Answer, Outcome, Transmit, Wire};

/// What became of a load on one connection.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) answers: Vec<Answer>,
    pub(crate) failures: Vec<&'static str>,
    pub(crate) is_over: bool,
}

impl Loaded {
    #[track_caller]
    pub(crate) fn assert_all(&self, count: usize, status: u16, body_bytes: u64) {
        assert_eq!(self.failures, [] as [&str; 0]);
        assert_eq!(self.answers.len(), count);
        for answer in &self.answers {
            assert_eq!((answer.status, answer.body_bytes), (status, body_bytes));
        }
    }
}

/// Issues `count` requests as fast as there is room, and waits for all outcomes.
pub(crate) fn load(address: SocketAddr, shared: &mut Shared, count: u32) -> Loaded {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut http2 = Http2::open(shared);
    let mut buffer = vec![0; shared.write_bytes_min() + 64 * 1024];
    let mut received = vec![0; 64 * 1024];
    let (mut loaded, mut issued) = (Loaded::default(), 0);
    let mut ended = 0;
    while ended < count && !loaded.is_over {
        while issued < count && http2.room(shared) > 0 {
            http2.issue(shared);
            issued += 1;
        }
        while http2.poll_transmit(shared) == Transmit::Own {
            let len = http2.write(shared, &mut buffer);
            socket.write_all(&buffer[..len]).unwrap();
        }
        let len = socket.read(&mut received).unwrap();
        if len == 0 {
            http2.handle_eof(shared);
        }
        let mut rest = &received[..len];
        loop {
            while let Some(outcome) = http2.poll_outcome() {
                match outcome {
                    Outcome::Answered(answer) => {
                        ended += 1;
                        loaded.answers.push(answer);
                        loaded.is_over = !answer.reusable;
                    }
                    Outcome::Failed { error, .. } => {
                        ended += 1;
                        loaded.failures.push(error.class());
                    }
                    Outcome::Over => loaded.is_over = true,
                    Outcome::Broken { .. } => panic!("{:?}", shared.fault()),
                }
            }
            if rest.is_empty() {
                break;
            }
            let taken = http2.handle_bytes(shared, rest);
            rest = &rest[taken..];
        }
        assert!(len > 0 || loaded.is_over, "the server closed");
    }
    loaded
}
