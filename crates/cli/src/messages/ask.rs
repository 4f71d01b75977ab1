//! One call over a blocking socket, whose answer is read: for the few questions before a load.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use wallfinder_wire::grpc::{self, Request};
use wallfinder_wire::http2::{Http2, Options, Shared};
use wallfinder_wire::tls::{self, Tls};
use wallfinder_wire::{Answer, Outcome, Transmit, Wire, WireError};

/// Longest time for a question and its answer.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// Makes the call, and gives the messages of its answer.
pub(super) fn ask(
    address: SocketAddr,
    client: Option<&tls::Client>,
    request: &Request,
) -> Result<Vec<Vec<u8>>, Unanswered> {
    let until = Instant::now() + PATIENCE;
    let options = Options {
        is_https: client.is_some(),
        ..Options::default()
    };
    let mut shared =
        grpc::shared(request, options).map_err(|error| Unanswered::Other(error.to_string()))?;
    let room = shared.write_bytes_min() + 64 * 1024;
    let mut socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let Some(client) = client else {
        let outcome = outcome::<Http2>(&mut socket, &mut shared, room, until)?;
        return read(outcome, &shared, None);
    };
    let mut secured = tls::Shared::new(shared, client, room);
    let room = secured.write_bytes();
    let outcome = outcome::<Tls<Http2>>(&mut socket, &mut secured, room, until)?;
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

fn outcome<W: Wire>(
    socket: &mut TcpStream,
    shared: &mut W::Shared,
    room: usize,
    until: Instant,
) -> Result<Outcome, Unanswered> {
    let mut wire = W::open(shared);
    let mut out = vec![0; room];
    let mut read = vec![0; 64 * 1024];
    let mut is_issued = false;
    loop {
        if !is_issued && wire.room(shared) > 0 {
            wire.issue(shared);
            is_issued = true;
        }
        while wire.poll_transmit(shared) == Transmit::Own {
            let len = wire.write(shared, &mut out);
            if len == 0 {
                break;
            }
            socket.write_all(&out[..len])?;
        }
        let left = until.saturating_duration_since(Instant::now());
        // No time at all would mean for ever.
        socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let len = socket.read(&mut read)?;
        if len == 0 {
            wire.handle_eof(shared);
            return Ok(wire.poll_outcome().unwrap_or(Outcome::Over));
        }
        let mut bytes = &read[..len];
        while !bytes.is_empty() {
            bytes = &bytes[wire.handle_bytes(shared, bytes)..];
            if let Some(outcome) = wire.poll_outcome() {
                return Ok(outcome);
            }
        }
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
