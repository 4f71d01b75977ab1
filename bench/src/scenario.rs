//! Which loads are raced, and what is aimed at in each.

use clap::ValueEnum;

use crate::contestants::Contestant;

/// One load, the same for every contestant.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is served and asked in.
    pub speaks: Speaks,
    /// The request's target; of framed messages none.
    pub path: &'static str,
    /// Connections, all of one thread.
    pub connections: u32,
    /// Requests in flight on each.
    pub depth: u32,
    /// What our client's CPU per request should be, at most, times a peer's.
    pub aims: &'static [Aim],
}

impl Scenario {
    /// Whether it compares the tool with default flags and the tool that only drives load: what is paid once for each run.
    pub fn is_of_defaults(&self) -> bool {
        self.name.starts_with("defaults-")
    }

    /// Whether a mix of requests is sent, with a row of data in each.
    pub fn is_of_mixes(&self) -> bool {
        self.name.starts_with("mix-")
    }
}

/// A protocol, and with it the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Speaks {
    /// HTTP/1.1, at the catalogue.
    Http1,
    /// HTTP/2 in the clear, at nghttpd.
    Http2,
    /// Messages behind their length, at the echo.
    Framed,
    /// Calls of gRPC, at the echo.
    Grpc,
    /// HTTP/1.1 under TLS, at the catalogue.
    Https,
    /// HTTP/2 under TLS, at the catalogue.
    Http2Tls,
}

impl Speaks {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Speaks::Http1 => "http1",
            Speaks::Http2 => "http2",
            Speaks::Framed => "framed",
            Speaks::Grpc => "grpc",
            Speaks::Https => "https",
            Speaks::Http2Tls => "http2-tls",
        }
    }

    /// Whether a connection has streams.
    pub fn multiplexes(self) -> bool {
        matches!(self, Speaks::Http2 | Speaks::Http2Tls)
    }

    /// Whether it is under TLS.
    pub fn is_secure(self) -> bool {
        matches!(self, Speaks::Https | Speaks::Http2Tls)
    }
}

/// The message of framed scenarios and of gRPC: the echo's `Payload`, with an id of one letter and 64 bytes.
pub const MESSAGE: [u8; 69] = message();

const fn message() -> [u8; 69] {
    let mut bytes = [b'x'; 69];
    // Field 1 of one byte, field 2 of 64.
    (bytes[0], bytes[1], bytes[2]) = (0x0a, 1, b'1');
    (bytes[3], bytes[4]) = (0x12, 64);
    bytes
}

/// A bound on the ratio of client CPU per request, ours to a peer's.
#[derive(Debug, Clone, Copy)]
pub struct Aim {
    /// Compared with whom.
    pub against: Contestant,
    /// The ratio is to be at most this.
    pub at_most: f64,
}

const fn aim(against: Contestant, at_most: f64) -> Aim {
    Aim { against, at_most }
}

/// All of them.
pub const SCENARIOS: [Scenario; 13] = [
    Scenario {
        name: "simple-1",
        speaks: Speaks::Http1,
        path: "/simple",
        connections: 100,
        depth: 1,
        aims: &[
            aim(Contestant::Wrk, 1.00),
            aim(Contestant::Shb, 1.00),
            aim(Contestant::NULL_EPOLL, 1.05),
            aim(Contestant::NULL_URING_8, 1.05),
        ],
    },
    Scenario {
        name: "simple-100",
        speaks: Speaks::Http1,
        path: "/simple",
        connections: 100,
        depth: 100,
        aims: &[
            aim(Contestant::Wrk, 0.85),
            aim(Contestant::NULL_EPOLL, 1.30),
            aim(Contestant::NULL_URING_8, 1.30),
        ],
    },
    Scenario {
        name: "read-1",
        speaks: Speaks::Http1,
        path: "/read",
        connections: 100,
        depth: 1,
        aims: &[aim(Contestant::Wrk, 1.00), aim(Contestant::Shb, 1.00)],
    },
    Scenario {
        name: "h2-10x10",
        speaks: Speaks::Http2,
        path: "/simple",
        connections: 10,
        depth: 10,
        aims: &[aim(Contestant::Shb, 1.00), aim(Contestant::H2load, 0.60)],
    },
    Scenario {
        name: "framed-1",
        speaks: Speaks::Framed,
        path: "",
        connections: 100,
        depth: 1,
        aims: &[aim(Contestant::NULL_EPOLL, 1.05)],
    },
    Scenario {
        name: "framed-10",
        speaks: Speaks::Framed,
        path: "",
        connections: 10,
        depth: 10,
        aims: &[aim(Contestant::NULL_EPOLL, 1.05)],
    },
    Scenario {
        name: "grpc-10x10",
        speaks: Speaks::Grpc,
        path: "/wallfinder.echo.Echo/Call",
        connections: 10,
        depth: 10,
        aims: &[
            aim(Contestant::H2load, 1.00),
            aim(Contestant::Ghz, 1.0 / 15.0),
        ],
    },
    Scenario {
        name: "tls-1",
        speaks: Speaks::Https,
        path: "/read",
        connections: 100,
        depth: 1,
        aims: &[aim(Contestant::Wrk, 1.05)],
    },
    Scenario {
        name: "mix-1",
        speaks: Speaks::Http1,
        path: "/simple?r=0&q=abcdefgh",
        connections: 100,
        depth: 1,
        aims: &[
            aim(Contestant::WallfinderFixed, 1.10),
            aim(Contestant::Wrk, 0.50),
            aim(Contestant::K6, 0.05),
        ],
    },
    Scenario {
        name: "mix-100",
        speaks: Speaks::Http1,
        path: "/simple?r=0&q=abcdefgh",
        connections: 100,
        depth: 100,
        aims: &[
            aim(Contestant::WallfinderFixed, 1.10),
            aim(Contestant::Wrk, 0.50),
        ],
    },
    Scenario {
        name: "mix-h2-10x10",
        speaks: Speaks::Http2Tls,
        path: "/simple?r=0&q=abcdefgh",
        connections: 10,
        depth: 10,
        aims: &[
            aim(Contestant::WallfinderFixed, 1.10),
            aim(Contestant::K6, 0.05),
        ],
    },
    Scenario {
        name: "defaults-1",
        speaks: Speaks::Http1,
        path: "/simple",
        connections: 100,
        depth: 1,
        aims: &[aim(Contestant::Wallfinder, 1.10)],
    },
    Scenario {
        name: "defaults-100",
        speaks: Speaks::Http1,
        path: "/simple",
        connections: 100,
        depth: 100,
        aims: &[aim(Contestant::Wallfinder, 1.10)],
    },
];
