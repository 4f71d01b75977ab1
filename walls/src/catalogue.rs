//! The third section of the suite: the studies' own catalogue, as its user would look for the
//! wall, with nothing said of the load: `find` ramps to the ceiling by itself. Each row's
//! arithmetic is in `docs/labelled-suite.md`.

use wallfinder_model::verdict::Wall::{ClientCpu, Downlink, ServerCpu};

use crate::scenario::{Scenario, Server::Subject};
use crate::suite::{PLAIN, made_of};

/// As PLAIN, without a word on the load.
const RAMPED: Scenario = Scenario {
    server: Subject("catalogue"),
    flags: "",
    ..PLAIN
};

/// Every scenario with the catalogue at its ceiling.
pub const CATALOGUE: &[Scenario] = &[
    Scenario {
        name: "catalogue-read-1gbit",
        link: Some("1gbit"),
        path: "/read",
        expect: made_of(&[Downlink], None),
        ..RAMPED
    },
    Scenario {
        name: "catalogue-compute",
        path: "/compute",
        expect: made_of(&[ServerCpu], None),
        ..RAMPED
    },
    Scenario {
        name: "catalogue-autocannon",
        path: "/simple",
        flags: "--driver '{bin}/../bench/node_modules/.bin/autocannon -c {connections} -p 100 -d {duration} {url}' -c 16",
        expect: made_of(&[ClientCpu], None),
        needs: Some("bench/node_modules/.bin/autocannon"),
        ..RAMPED
    },
];
