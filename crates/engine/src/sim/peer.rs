//! The other end of a worker's connections: what it does, and after how long.

use wallfinder_sys::Errno;

/// What becomes of an attempt to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connect {
    /// It is accepted after so long.
    Accept { after_ns: u64 },
    /// It fails after so long.
    Refuse { after_ns: u64, errno: Errno },
    /// Nothing is ever heard of it.
    Silence,
    /// It fails at once, for want of something local.
    Local(Errno),
}

/// How a socket takes what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Take {
    /// All of it, now.
    All,
    /// So many bytes of it, now.
    Part(usize),
    /// All of it, after so long.
    Later(u64),
    /// Nothing, and the connection is broken.
    Broken(Errno),
}

/// What a peer does on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Does {
    Says(Vec<u8>),
    Closes,
    Resets(Errno),
}

/// What it does after so long each, counted from now.
pub(super) type Script = Vec<(u64, Does)>;

/// It says this after so long.
pub(super) fn says(after_ns: u64, bytes: &[u8]) -> Script {
    vec![(after_ns, Does::Says(bytes.to_vec()))]
}

pub(super) trait Peer {
    /// The `nth` attempt of a connection, from 0.
    fn connect(&mut self, conn: u32, nth: u32, now: u64) -> Connect {
        let _ = (conn, nth, now);
        Connect::Accept { after_ns: 0 }
    }

    /// How so many bytes are taken that are sent on a connection.
    fn take(&mut self, conn: u32, len: usize, now: u64) -> Take {
        let _ = (conn, len, now);
        Take::All
    }

    /// A connection is open.
    fn opened(&mut self, conn: u32, now: u64) -> Script;

    /// Bytes came on a connection.
    fn received(&mut self, conn: u32, bytes: &[u8], now: u64) -> Script;
}
