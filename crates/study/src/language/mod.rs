//! The language of conditions: what a claim asks of the steps that ran.
//!
//! ```text
//!  text ─► parse ─► Tree ─► evaluate(Context: names, functions) ─► Value, or the Fault that stands in its way
//! ```
//!
//! A part of the Common Expression Language (github.com/google/cel-spec), written alike: literals, names, fields, `a[0]`,
//! lists, calls, arithmetic, comparisons, `in`, `&&`, `||`, `!`, `a ? b : c`, `has(a.b)`, and `all`, `exists`, `exists_one`,
//! `map` and `filter` of lists. What it is not: it has no maps, durations or bytes, and all its numbers are doubles, for all
//! data are.
//!
//! Invariants: a text that is no expression is told with its place; a tree has a bounded depth, and an evaluation a
//! bounded number of nodes; what was not measured is a fault and never a value.

mod evaluate;
mod parse;
#[cfg(test)]
mod tests;
mod tree;
mod value;

pub(crate) use evaluate::{BUILT_IN, Context, Notes};
pub(crate) use parse::parse;
pub(crate) use tree::{Each, Node, Tree};
pub(crate) use value::{Fault, Value};
