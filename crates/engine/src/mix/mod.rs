//! A mix of requests: which comes next, and what became of each.

mod counts;
mod drawing;
mod script;

pub(crate) use counts::{FlowCounts, FlowReport, KindCounts, KindReport, KindSum};
pub(crate) use script::{After, Script, logged};
