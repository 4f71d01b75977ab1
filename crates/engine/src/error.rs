//! Why a step could not be run.

use std::net::SocketAddr;

use wallfinder_sys::Errno;

/// What failed, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineError {
    /// The request cannot be encoded.
    BadRequest(String),
    /// No connection could be opened.
    NoConnection {
        /// Where to.
        address: SocketAddr,
        /// The class of the last failure.
        class: &'static str,
        /// The last error.
        errno: Errno,
    },
    /// The peer does not speak the protocol that it was asked in.
    OtherProtocol {
        /// Where it is.
        address: SocketAddr,
        /// What it said instead.
        fault: String,
        /// Where to look.
        way_out: &'static str,
    },
    /// The kernel refused what a worker needs.
    Refused {
        /// What.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// What the workers could drive of such a load cannot be told.
    NoCeiling {
        /// Why.
        why: String,
    },
    /// The engine of another host could not.
    Elsewhere {
        /// Which host.
        host: String,
        /// Why, in its words.
        why: String,
    },
    /// A worker panicked: our own bug.
    WorkerPanicked {
        /// Which.
        worker: u32,
        /// Its message.
        message: String,
    },
}

impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EngineError::BadRequest(why) => write!(f, "the request cannot be sent: {why}"),
            EngineError::NoConnection {
                address,
                class,
                errno,
            } => write!(
                f,
                "no connection to {address} could be opened ({class}: {errno}); is the server running there?"
            ),
            EngineError::OtherProtocol {
                address,
                fault,
                way_out,
            } => write!(
                f,
                "what listens at {address} does not speak HTTP/2 ({fault}); {way_out}"
            ),
            EngineError::Refused { what, why } => write!(f, "{what} was refused: {why}"),
            EngineError::Elsewhere { host, why } => write!(f, "{host}: {why}"),
            EngineError::NoCeiling { why } => f.write_str(why),
            EngineError::WorkerPanicked { worker, message } => write!(
                f,
                "worker {worker} panicked ({message}): a bug of Wallfinder, and the step is void"
            ),
        }
    }
}

impl std::error::Error for EngineError {}

pub(crate) fn bad_request(error: impl std::fmt::Display) -> EngineError {
    EngineError::BadRequest(error.to_string())
}
