//! One call over a blocking socket, whose answer is read: for the few questions before a load.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use wallfinder_wire::grpc::{self, Request};
use wallfinder_wire::http2::{Http2, Options, Shared};
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
pub(super) fn ask(address: SocketAddr, request: &Request) -> Result<Vec<Vec<u8>>, Unanswered> {
    let until = Instant::now() + PATIENCE;
    let mut shared = grpc::shared(request, Options::default())
        .map_err(|error| Unanswered::Other(error.to_string()))?;
    let mut socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let outcome = outcome(&mut socket, &mut shared, until)?;
    let answer = match outcome {
        Outcome::Answered(answer) => answer,
        Outcome::Failed { error, .. } => return Err(Unanswered::Class(error)),
        Outcome::Over | Outcome::Broken { .. } => {
            let fault = shared.fault().map(ToString::to_string);
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

fn outcome(
    socket: &mut TcpStream,
    shared: &mut Shared,
    until: Instant,
) -> Result<Outcome, Unanswered> {
    let mut http2 = Http2::open(shared);
    let mut out = vec![0; shared.write_bytes_min() + 64 * 1024];
    let mut read = vec![0; 64 * 1024];
    let mut is_issued = false;
    loop {
        if !is_issued && http2.room(shared) > 0 {
            http2.issue(shared);
            is_issued = true;
        }
        while http2.poll_transmit(shared) == Transmit::Own {
            let len = http2.write(shared, &mut out);
            socket.write_all(&out[..len])?;
        }
        let left = until.saturating_duration_since(Instant::now());
        // No time at all would mean for ever.
        socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let len = socket.read(&mut read)?;
        if len == 0 {
            http2.handle_eof(shared);
            return Ok(http2.poll_outcome().unwrap_or(Outcome::Over));
        }
        let mut bytes = &read[..len];
        while !bytes.is_empty() {
            bytes = &bytes[http2.handle_bytes(shared, bytes)..];
            if let Some(outcome) = http2.poll_outcome() {
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
