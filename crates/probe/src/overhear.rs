//! Exchanges of somebody else, overheard: what a request and its answer weigh.

use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType};

use crate::netns;
use crate::parse::segment::Exchanges;

/// `ETH_P_ALL` of <linux/if_ether.h> in network order: what is sent, too.
const EVERYTHING: Protocol =
    Protocol::from_raw(NonZero::new(0x0003_u16.to_be() as u32).expect("it is three"));
/// Segments that offload has put together are this long at most on common links.
const PACKET_BYTES: usize = 1 << 16;
/// Enough for a mean of answers whose lengths vary.
const EXCHANGES: u64 = 2_000;
/// Fewer say nothing.
const EXCHANGES_MIN: u64 = 20;
/// Where requests and answers differ by more, one of them was not recognised.
const UNEVEN_MAX: f64 = 0.25;

/// Payload of one exchange, as TCP carries it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weight {
    /// Mean bytes of a request.
    pub request_bytes: f64,
    /// Mean bytes of an answer.
    pub answer_bytes: f64,
}

/// Listens to the HTTP/1 exchanges that a client, somewhere in the network namespace of
/// `client_pid`, has with a server; until there are some thousands, and not longer than
/// `at_most`. `None`: there were too few, or they are not HTTP/1 in the clear. Needs
/// `CAP_NET_RAW`, and `CAP_SYS_ADMIN` for another namespace.
pub fn weight(
    server: SocketAddr,
    client_pid: u32,
    at_most: Duration,
) -> io::Result<Option<Weight>> {
    let socket = netns::inside(Some(client_pid), || {
        Ok(rustix::net::socket_with(
            AddressFamily::PACKET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            Some(EVERYTHING),
        )?)
    })?;
    set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_millis(50)))?;
    let until = Instant::now() + at_most;
    let mut seen = Exchanges::default();
    let mut packet = vec![0; PACKET_BYTES];
    while seen.answers < EXCHANGES && Instant::now() < until {
        match rustix::net::recv(&socket, &mut packet[..], RecvFlags::empty()) {
            Ok((bytes, _)) => seen.add(&packet[..bytes], server),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(weighed(seen))
}

fn weighed(seen: Exchanges) -> Option<Weight> {
    let (requests, answers) = (seen.requests as f64, seen.answers as f64);
    let is_even = (requests - answers).abs() <= UNEVEN_MAX * requests.max(answers);
    (seen.requests.min(seen.answers) >= EXCHANGES_MIN && is_even).then(|| Weight {
        request_bytes: seen.request_bytes as f64 / requests,
        answer_bytes: seen.answer_bytes as f64 / answers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_pair_or_is_too_little_weighs_nothing() {
        let seen = Exchanges {
            requests: 100,
            request_bytes: 5_000,
            answers: 90,
            answer_bytes: 9_000,
        };
        let weight = Weight {
            request_bytes: 50.0,
            answer_bytes: 100.0,
        };
        assert_eq!(weighed(seen), Some(weight));
        // Another protocol's bytes have no lines of these.
        assert_eq!(weighed(Exchanges { answers: 2, ..seen }), None);
        assert_eq!(
            weighed(Exchanges {
                answers: 60,
                ..seen
            }),
            None
        );
        assert_eq!(weighed(Exchanges::default()), None);
    }
}
