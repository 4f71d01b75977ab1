//! Plain data: what is planned, what was measured, what is concluded.
//!
//! Everything here is a value with a JSON shape. There is no I/O, no clock and no
//! arithmetic beyond what a value says of itself: measuring is the engine's and the
//! probes' work, concluding is the judge's, showing is the report's.
//!
//! ```text
//!  Plan ──► (engine, probes) ──► Record { steps: [Step { counts, latency, telemetry }] }
//!                                   └──► (judge) ──► Verdict, Caveat
//! ```
//!
//! Units stand last in names: `_ns` nanoseconds, `_s` seconds, `_bytes`, `_share` a
//! fraction of one, `_cores` processor-seconds per second.

#![forbid(unsafe_code)]
// Nothing that `crates/clippy.toml` lists, but in tests.
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

pub mod caveat;
pub mod chart;
pub mod counters;
pub mod detail;
pub mod drive;
pub mod environment;
pub mod evidence;
pub mod experiment;
pub mod failure;
pub mod gate;
pub mod json;
pub mod link;
pub mod plan;
pub mod profile;
pub mod reason;
pub mod record;
pub mod scenario;
pub mod sizes;
pub mod telemetry;
pub mod traffic;
pub mod units;
pub mod verdict;

pub use caveat::Caveat;
pub use detail::Detail;
pub use environment::Environment;
pub use evidence::Evidence;
pub use experiment::{Effort, Experiment, Squeeze};
pub use failure::Failure;
pub use json::Json;
pub use link::LinkSpec;
pub use plan::{Arrival, DRAIN_DEFAULT, Decode, Load, Plan, Stop, StudyAsked, Target};
pub use profile::{Profile, ProfileKind, Profiles};
pub use reason::Reason;
pub use record::{Record, Step};
pub use scenario::Scenario;
pub use units::{Bytes, Nanos, Rate};
pub use verdict::{Verdict, Wall};
