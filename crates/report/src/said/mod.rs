//! The sentences of a verdict, its reasons, its evidence and its doubts; of requests without an answer, and of
//! conditions that a run does not keep.
//!
//! The judge decides and hands on typed data; every sentence of it is made here, for the terminal, the page,
//! CSV and JSON alike. One file words one family of types:
//!
//! ```text
//!  Reason ─► reason    Detail ─► detail    Fact, Sign ─► fact    Gate ─► gate    Caveat, Doubt ─► caveat
//!  Ended, Unreachable, Counts ─► ended     Crossing, Requirement ─► condition
//! ```
//!
//! It decides nothing, and nothing is ever concluded from what it returns.

mod caveat;
mod condition;
mod detail;
pub(crate) mod ended;
mod fact;
mod gate;
mod reason;

pub use caveat::{Worded, caveat};
pub use condition::{threshold, unmet};
pub use detail::detail;
pub use ended::{ended, unanswered};
pub use fact::{fact, saturation};
pub use gate::{Gated, gate};
pub use reason::{because, below_heading, made_of, tells, verdict};

use wallfinder_model::experiment::Squeeze;
use wallfinder_model::reason::{Capacity, CrowdedOut, CrowdedSide, Named, Side};

use crate::{number, words};

/// `the server`.
fn side(side: Side) -> &'static str {
    match side {
        Side::Server => "the server",
        Side::Client => "the load generator",
    }
}

/// `its one core`, `its 4 cores`, `its quota of 0.5 cores`.
fn capacity(capacity: Capacity) -> String {
    match capacity {
        Capacity { cores, quota: true } => format!("its quota of {} cores", number::cores(cores)),
        Capacity { cores: 1.0, .. } => "its one core".to_owned(),
        Capacity { cores, .. } => format!("its {cores:.0} cores"),
    }
}

/// A squeeze as a sentence names it: `server speed`.
fn squeeze(squeeze: Squeeze) -> String {
    words::squeeze(squeeze.label())
}

/// What a squeeze takes from, as a reader would say it.
const fn resource(squeeze: Squeeze) -> &'static str {
    match squeeze {
        Squeeze::ServerSpeed => "the server's processor speed",
        Squeeze::ServerCapacity => "the server's processor time",
        Squeeze::ClientSpeed => "the load generator's processor speed",
        Squeeze::ClientCapacity => "the load generator's processor time",
        Squeeze::MoreClients => "the client hosts",
        Squeeze::Downlink => "the downlink",
        Squeeze::Uplink => "the uplink",
        Squeeze::InFlight | Squeeze::MoreInFlight => "the requests in flight",
        Squeeze::ThinkTime => "a pause before each request",
        Squeeze::OfferedLoad => "the offered load",
        Squeeze::BackendSpeed => "the backend's processor speed",
        Squeeze::BackendCapacity => "the backend's processor time",
    }
}

/// `a with 0.5 cores, b with 0.2 cores`.
fn named(named: &[Named]) -> String {
    let each = |one: &Named| {
        let cores = number::cores(one.cores);
        let plural = if cores == "1" { "" } else { "s" };
        format!("{} with {cores} core{plural}", one.name)
    };
    named.iter().map(each).collect::<Vec<_>>().join(", ")
}

/// `others' processes had the processors: they used 1.9 of the 2 cores of both sides, while the server used
/// 0.05 and the load generator 0.06`.
fn crowded_out(others: &CrowdedOut) -> String {
    let of = |whose: &str, side: &CrowdedSide| {
        let used = number::cores(side.others);
        format!("{used} of the {} cores of {whose}", side.cores)
    };
    let of_each: Vec<String> = match others.sides[..] {
        [one, _] if others.together => vec![of("both sides", &one)],
        _ => others
            .sides
            .iter()
            .map(|it| of(side(it.side), it))
            .collect(),
    };
    let own = others.sides.iter().enumerate().map(|(nth, it)| {
        let verb = if nth == 0 { " used" } else { "" };
        format!("{}{verb} {}", side(it.side), number::cores(it.used))
    });
    let own: Vec<String> = own.collect();
    let before = match others.before[..] {
        [] => String::new(),
        _ => format!(" (before the load: {})", named(&others.before)),
    };
    format!(
        "others' processes had the processors{before}: they used {}, while {}",
        words::join(&of_each),
        words::join(&own)
    )
}
