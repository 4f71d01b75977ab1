//! The fifth section of the suite: mixes of requests of which it is known what each takes of the wall. Each row's
//! arithmetic is in `docs/labelled-suite.md`.

use wallfinder_model::verdict::Wall::{Downlink, ServerCpu, Wait};

use crate::scenario::Check::{Added, Share};
use crate::scenario::{Expect, Of, Scenario, Server::Subject};
use crate::suite::PLAIN;

/// Every scenario with a mix.
pub const ROUTES: &[Scenario] = &[
    Scenario {
        name: "routes-cpu",
        server: Subject("knownwall --spin-us 40"),
        flags: "-c 16 --traffic {mixes}/cpu.toml",
        expect: Expect::Wall {
            walls: &[ServerCpu],
            detail: None,
            checks: &[
                Share {
                    name: "dear",
                    of: Of::Server,
                    truth: 0.505,
                },
                Added {
                    name: "dear",
                    over: "light",
                    us: 500.0,
                },
                Added {
                    name: "middle",
                    over: "light",
                    us: 60.0,
                },
            ],
        },
        ..PLAIN
    },
    Scenario {
        name: "routes-bytes",
        server: Subject("knownwall --spin-us 20"),
        link: Some("200mbit"),
        flags: "-c 16 --traffic {mixes}/bytes.toml",
        expect: Expect::Wall {
            walls: &[Downlink],
            detail: None,
            checks: &[Share {
                name: "image",
                of: Of::Bytes,
                truth: 0.99,
            }],
        },
        ..PLAIN
    },
    Scenario {
        name: "routes-lock",
        server: Subject("knownwall --workers 8"),
        flags: "-c 16 --traffic {mixes}/lock.toml",
        expect: Expect::Wall {
            walls: &[Wait],
            detail: None,
            checks: &[Share {
                name: "write",
                of: Of::Held,
                truth: 1.0,
            }],
        },
        ..PLAIN
    },
];
