//! The classes of failure that are not the wire's: the network's, the clock's, this host's.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// Why a request did not end in a good answer, apart from broken protocol bytes (those
/// classes are the wire's, such as `h1.length`). `Copy`, and an index into counters.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray, IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[repr(u8)]
pub enum Failure {
    /// An answer with a 4xx status.
    #[strum(serialize = "status.4xx")]
    Status4xx,
    /// An answer with a 5xx status.
    #[strum(serialize = "status.5xx")]
    Status5xx,
    /// An answer with a status outside 200..=599.
    #[strum(serialize = "status.other")]
    StatusOther,
    /// Not answered within the total deadline, counted from the intended instant.
    #[strum(serialize = "timeout.total")]
    TimeoutTotal,
    /// The same, while the peer held back the window that the request needed.
    #[strum(serialize = "timeout.flow")]
    TimeoutFlow,
    /// The connection was refused.
    #[strum(serialize = "net.refused")]
    NetRefused,
    /// No route to the host or network.
    #[strum(serialize = "net.unreachable")]
    NetUnreachable,
    /// The connection did not open within its deadline.
    #[strum(serialize = "timeout.connect")]
    TimeoutConnect,
    /// Reset while connecting.
    #[strum(serialize = "net.reset.connect")]
    ResetConnect,
    /// Reset while the request was being sent.
    #[strum(serialize = "net.reset.send")]
    ResetSend,
    /// Reset while waiting for the first byte.
    #[strum(serialize = "net.reset.wait")]
    ResetWait,
    /// Reset inside an answer.
    #[strum(serialize = "net.reset.body")]
    ResetBody,
    /// The peer closed while the request waited for its first byte.
    #[strum(serialize = "net.closed.wait")]
    ClosedWait,
    /// The peer closed an idle, kept-alive connection while the request was on its way.
    #[strum(serialize = "net.stale_reuse")]
    StaleReuse,
    /// In flight behind another request whose failure ended the connection.
    #[strum(serialize = "net.abandoned")]
    Abandoned,
    /// No file descriptor left.
    #[strum(serialize = "local.fd")]
    LocalFd,
    /// No local port left.
    #[strum(serialize = "local.port")]
    LocalPort,
    /// No memory or buffer left in the kernel.
    #[strum(serialize = "local.memory")]
    LocalMemory,
    /// This machine does not let the connection out: its firewall, a route or a policy forbids it.
    #[strum(serialize = "net.forbidden")]
    NetForbidden,
    /// Another error of the socket.
    #[strum(serialize = "net.other")]
    NetOther,
}

impl Failure {
    /// Every class, in the order of its index.
    pub const ALL: [Failure; Failure::VARIANTS.len()] = *Failure::VARIANTS.first_chunk().unwrap();

    /// The class as it stands in records and output, such as `net.refused`.
    pub fn class(self) -> &'static str {
        self.into()
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
