//! The fifth section of the suite: mixes of requests of which it is known what each takes of the wall. Each row's
//! arithmetic is in `docs/labelled-suite.md`.

use wallfinder_model::verdict::Wall::{Backend, Downlink, ServerCpu, Wait};

use crate::scenario::Check::{Added, Pairs, Share, Together};
use crate::scenario::Server::{self, Subject};
use crate::scenario::{Behind, Expect, Lift, Of, Ordinary, Scenario};
use crate::servers::HAPROXY;
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
                Pairs(&[]),
            ],
        },
        lift: Lift::by_half("-c 16 --traffic {mixes}/cpu-half.toml", "dear"),
        alone: &[
            ("light", "/spin/0"),
            ("middle", "/spin/60"),
            ("dear", "/spin/500"),
        ],
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
        lift: Lift::by_half("-c 16 --traffic {mixes}/bytes-half.toml", "image"),
        ..PLAIN
    },
    Scenario {
        name: "routes-lock",
        server: Subject("knownwall --workers 8"),
        flags: "-c 16 --traffic {mixes}/lock.toml",
        expect: Expect::Wall {
            walls: &[Wait],
            detail: None,
            checks: &[
                // Spinning reads hold up whoever has the lock and is to wake: without their spin 4.5 % more come.
                Share {
                    name: "write",
                    of: Of::Held,
                    truth: 0.955,
                },
                Pairs(&[]),
            ],
        },
        lift: Lift::by_half("-c 16 --traffic {mixes}/lock-half.toml", "write"),
        alone: &[("write", "/lock/1000")],
        ..PLAIN
    },
    Scenario {
        name: "routes-backend",
        server: Server::Ordinary(Ordinary {
            backend: Some(Behind {
                command: "{bin}/knownwall --port 18182",
                cpus: "1",
            }),
            backend_is_named: false,
            ..HAPROXY
        }),
        flags: "-c 16 --traffic {mixes}/backend.toml",
        expect: Expect::Wall {
            walls: &[Backend],
            detail: None,
            checks: &[
                // By themselves they take 2,121 µs, and plain ones 230: the client has the same processor.
                Share {
                    name: "report",
                    of: Of::Backend,
                    truth: 0.697,
                },
                Pairs(&[]),
            ],
        },
        lift: Lift::by_half("-c 16 --traffic {mixes}/backend-half.toml", "report"),
        alone: &[("report", "/spin/2000")],
        ..PLAIN
    },
    Scenario {
        name: "routes-evict",
        server: Subject("knownwall"),
        flags: "-c 16 --traffic {mixes}/evict.toml",
        expect: Expect::Wall {
            walls: &[ServerCpu],
            detail: None,
            checks: &[Pairs(&[["cached", "evict"]]), Together("fill_cache")],
        },
        ..PLAIN
    },
];
