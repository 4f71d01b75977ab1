//! The classes of failure that are not the wire's: the network's, the clock's, this host's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a request did not end in a good answer, apart from broken protocol bytes (those
/// classes are the wire's, such as `h1.length`). `Copy`, and an index into counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[repr(u8)]
pub enum Failure {
    /// An answer with a 4xx status.
    Status4xx,
    /// An answer with a 5xx status.
    Status5xx,
    /// An answer with a status outside 200..=599.
    StatusOther,
    /// Not answered within the total deadline, counted from the intended instant.
    TimeoutTotal,
    /// The same, while the peer held back the window that the request needed.
    TimeoutFlow,
    /// The connection was refused.
    NetRefused,
    /// No route to the host or network.
    NetUnreachable,
    /// The connection did not open within its deadline.
    TimeoutConnect,
    /// Reset while connecting.
    ResetConnect,
    /// Reset while the request was being sent.
    ResetSend,
    /// Reset while waiting for the first byte.
    ResetWait,
    /// Reset inside an answer.
    ResetBody,
    /// The peer closed while the request waited for its first byte.
    ClosedWait,
    /// The peer closed an idle, kept-alive connection while the request was on its way.
    StaleReuse,
    /// In flight behind another request whose failure ended the connection.
    Abandoned,
    /// No file descriptor left.
    LocalFd,
    /// No local port left.
    LocalPort,
    /// No memory or buffer left in the kernel.
    LocalMemory,
    /// Another error of the socket.
    NetOther,
}

impl Failure {
    /// Every class, in the order of its index.
    pub const ALL: [Failure; 19] = [
        Failure::Status4xx,
        Failure::Status5xx,
        Failure::StatusOther,
        Failure::TimeoutTotal,
        Failure::TimeoutFlow,
        Failure::NetRefused,
        Failure::NetUnreachable,
        Failure::TimeoutConnect,
        Failure::ResetConnect,
        Failure::ResetSend,
        Failure::ResetWait,
        Failure::ResetBody,
        Failure::ClosedWait,
        Failure::StaleReuse,
        Failure::Abandoned,
        Failure::LocalFd,
        Failure::LocalPort,
        Failure::LocalMemory,
        Failure::NetOther,
    ];

    /// The class as it stands in records and output, such as `net.refused`.
    pub const fn class(self) -> &'static str {
        match self {
            Failure::Status4xx => "status.4xx",
            Failure::Status5xx => "status.5xx",
            Failure::StatusOther => "status.other",
            Failure::TimeoutTotal => "timeout.total",
            Failure::TimeoutFlow => "timeout.flow",
            Failure::NetRefused => "net.refused",
            Failure::NetUnreachable => "net.unreachable",
            Failure::TimeoutConnect => "timeout.connect",
            Failure::ResetConnect => "net.reset.connect",
            Failure::ResetSend => "net.reset.send",
            Failure::ResetWait => "net.reset.wait",
            Failure::ResetBody => "net.reset.body",
            Failure::ClosedWait => "net.closed.wait",
            Failure::StaleReuse => "net.stale_reuse",
            Failure::Abandoned => "net.abandoned",
            Failure::LocalFd => "local.fd",
            Failure::LocalPort => "local.port",
            Failure::LocalMemory => "local.memory",
            Failure::NetOther => "net.other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_indexed_in_order_and_distinct() {
        for (index, failure) in Failure::ALL.iter().enumerate() {
            assert_eq!(*failure as usize, index);
        }
        let mut names: Vec<_> = Failure::ALL.iter().map(|f| f.class()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Failure::ALL.len());
    }
}
