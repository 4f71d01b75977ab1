//! One call whose answer is read: for the few questions before a load.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use wallfinder_wire::grpc::{self, Request};
use wallfinder_wire::http2::{Http2, Options, Shared};
use wallfinder_wire::mix::Ask;
use wallfinder_wire::tls::{self, Tls};
use wallfinder_wire::{Answer, Outcome, WireError};

use crate::once::Asking;

/// Longest time for all questions about one service, and their answers.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// The call ended with this class.
    Class(WireError),
    /// Something else, in words.
    Other(String),
}

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unanswered::Class(error) => f.write_str(error.class()),
            Unanswered::Other(why) => f.write_str(why),
        }
    }
}

impl From<std::io::Error> for Unanswered {
    fn from(error: std::io::Error) -> Unanswered {
        let is_late = matches!(
            error.kind(),
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
        );
        Unanswered::Other(if is_late {
            format!("no answer within {} s", PATIENCE.as_secs())
        } else {
            error.to_string()
        })
    }
}

/// Makes the call, and gives the messages of its answer, if that is there by an instant.
pub(super) fn ask(
    address: SocketAddr,
    client: Option<&tls::Client>,
    request: &Request,
    until: Instant,
) -> Result<Vec<Vec<u8>>, Unanswered> {
    let options = Options {
        is_https: client.is_some(),
        ..Options::default()
    };
    let mut shared =
        grpc::shared(request, options).map_err(|error| Unanswered::Other(error.to_string()))?;
    let room = shared.write_bytes_min() + 64 * 1024;
    let Some(client) = client else {
        let mut asking = Asking::<Http2>::connect(address, &shared, room, until)?;
        let outcome = asking.ask(&mut shared, Ask::default())?;
        return read(outcome, &shared, None);
    };
    let mut secured = tls::Shared::new(shared, client, room);
    let room = secured.write_bytes();
    let mut asking = Asking::<Tls<Http2>>::connect(address, &secured, room, until)?;
    let outcome = asking.ask(&mut secured, Ask::default())?;
    read(outcome, secured.inner(), secured.fault())
}

/// The messages of an answer, or why it is none.
fn read(
    outcome: Outcome,
    shared: &Shared,
    fault: Option<&str>,
) -> Result<Vec<Vec<u8>>, Unanswered> {
    let answer = match outcome {
        Outcome::Answered(answer) => answer,
        Outcome::Failed { error, .. } => return Err(Unanswered::Class(error)),
        Outcome::Over | Outcome::Broken { .. } => {
            let fault = fault.map(str::to_owned);
            let fault = fault.or_else(|| shared.fault().map(ToString::to_string));
            let why = fault.unwrap_or_else(|| "the connection ended".into());
            return Err(Unanswered::Other(why));
        }
    };
    match answer {
        Answer {
            status: 200,
            call: Some(call),
            ..
        } => match call.error {
            Some(error) => Err(Unanswered::Class(error)),
            None => Ok(messages(shared.kept_messages())),
        },
        Answer { status, .. } => Err(Unanswered::Other(format!("HTTP status {status}"))),
    }
}

/// Takes the prefixes off, which the wire has checked.
fn messages(mut kept: &[u8]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while let Some(([_, length @ ..], rest)) = kept.split_first_chunk::<5>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (message, after) = rest.split_at(length);
        messages.push(message.to_vec());
        kept = after;
    }
    messages
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    /// A server that sends these bytes, and then one more every 5 ms for as long as it is heard.
    fn busy(first: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            let mut sent = peer.write_all(first);
            while sent.is_ok() {
                std::thread::sleep(Duration::from_millis(5));
                sent = peer.write_all(&[0]);
            }
        });
        address
    }

    #[test]
    fn a_peer_that_is_busy_for_ever_has_no_more_time_than_a_silent_one() {
        // SETTINGS; then a header block of 16,000 bytes that never gets whole, or nothing but zeros.
        let block = b"\0\0\0\x04\0\0\0\0\0\0\x3e\x80\x01\x04\0\0\0\x01";
        let settings = b"\0\0\0\x04\0\0\0\0\0";
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        for address in [busy(block), busy(settings), silent.local_addr().unwrap()] {
            let request = Request::unary("h", "/a.B/C", "");
            let began = Instant::now();
            let answer = ask(address, None, &request, began + Duration::from_millis(300));
            assert!(answer.is_err());
            assert!(began.elapsed() < PATIENCE / 3, "{:?}", began.elapsed());
        }
    }

    #[test]
    fn no_time_left_is_no_time() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let request = Request::unary("h", "/a.B/C", "");
        let answer = ask(silent.local_addr().unwrap(), None, &request, Instant::now());
        let late = Unanswered::Other("no answer within 10 s".to_owned());
        assert_eq!(answer, Err(late));
    }
}
