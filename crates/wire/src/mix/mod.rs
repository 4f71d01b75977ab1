//! What users send: kinds of request, drawn by weight or as the steps of a session, with places that are filled in, and
//! what is looked for in their answers.
//!
//! ```text
//!   Mix ── flows ──► the engine draws what begins, and says of each request: Ask { kind, draw, is_fresh }
//!     └── kinds, tables ─► Prepared, once for all workers ─► a protocol renders the bytes of an Ask
//!                                                     └────► Inspection: what the answer must say, what is taken
//! ```
//!
//! What it is not: a schedule. Which request comes when is the engine's; a mix only says what there is. And no language:
//! a place is a column of a row, or what an earlier answer of the same session gave.
//!
//! Invariants:
//!
//! * What is rendered depends on the kind, the draw and what the session took, and on nothing else: the same `Ask` gives
//!   the same bytes, however they are split over writes.
//! * No value ends a line, a string or a path early: it is spelled for where it stands when it is loaded or taken, or
//!   refused there.
//! * Nothing grows while requests are sent: what is taken, kept and looked into is bounded, and its room reserved.

mod expect;
mod field;
mod inspect;
mod json;
mod known;
mod looked;
mod prepared;
mod scalar;
mod table;
mod text;
mod user;

use serde::{Deserialize, Serialize};

pub use expect::{Check, Expect, Follow, JsonIs, Source, Take};
pub use field::{FieldPath, FieldStep, Key, Which};
pub(crate) use inspect::{Caches, Inspection};
pub use known::{Known, Values};
pub use looked::Looked;
pub(crate) use prepared::{Filler, Parts, Prepared, Rows};
pub use scalar::{Scalar, WireType};
pub use table::{Cells, Order, Row, Table};
pub use text::{Piece, Prefix, Slot, Spelling, Text, Value};
pub(crate) use text::{Sink, decimal};
pub(crate) use user::User;

use crate::Redirect;
use crate::exchange::Exchange;
use crate::grpc;
use crate::request::{BadRequest, Request};

/// Most kinds of request in one mix: each step of a session is one.
pub const KINDS_MAX: usize = 400;

/// Most bytes of an answer's body that are looked into.
pub const LOOKED_INTO_BYTES_MAX: usize = 64 * 1024;

/// Most bytes of a value that is taken from an answer.
pub const TAKEN_BYTES_MAX: usize = 8 * 1024;

/// The protocol of a mix, which has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, by prior knowledge.
    Http2,
    /// gRPC.
    Grpc,
}

/// Answers that were looked into, and what that took, measured of some of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LookedInto {
    /// So many.
    pub answers: u64,
    /// Of so many it was measured.
    pub timed: u64,
    /// All of those together took so long, in nanoseconds.
    pub timed_ns: u64,
}

/// What users send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix {
    /// In which protocol.
    pub protocol: Protocol,
    /// Every request that there is: alone, or as a step of a session.
    pub kinds: Vec<Kind>,
    /// What begins, by weight.
    pub flows: Vec<Flow>,
    /// Rows that requests are filled in with.
    pub tables: Vec<Table>,
    /// How many values the sessions take from answers.
    pub variables: u16,
    /// Values that are the same for all users.
    pub known: Known,
    /// `http://host:port`, as a redirect may name the server; with its port left out too where that is the scheme's.
    pub origins: Vec<String>,
    /// Which request is sent when, in the place of weights: as it was logged.
    pub replay: Option<Replay>,
}

/// One kind of request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kind {
    /// What it is called in results.
    pub name: String,
    /// It.
    pub request: Template,
    /// What it is as a call, in gRPC.
    pub call: Option<grpc::Terms>,
    /// What its answers are looked into for.
    pub expect: Expect,
}

/// A request with places that are filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    /// The method token.
    pub method: String,
    /// The authority.
    pub authority: String,
    /// Path and query.
    pub target: Text,
    /// Fields of the user.
    pub headers: Vec<(String, Text)>,
    /// The body.
    pub body: Text,
}

/// What begins by its weight: one request, or the steps of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// What it is called in results.
    pub name: String,
    /// Its part of all that begins, against those of the others; above 0.
    pub weight: u32,
    /// Its requests, one after the other on one connection; one or more.
    pub steps: Vec<Step>,
    /// The table whose rows it walks in order, or once: at most one.
    pub walks: Option<u16>,
}

impl Flow {
    /// Whether its requests belong together, so that a connection is its own while it lasts.
    pub fn is_session(&self) -> bool {
        self.steps.len() > 1
    }
}

/// A step of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The kind of its request.
    pub kind: u16,
    /// How long the user waits before it.
    pub think: Think,
    /// Where it follows a redirect: it is made only if the answer before it was one that is followed so.
    pub hop: Option<Redirect>,
    /// Whether its flow goes on with its next step where it fails.
    pub continues: bool,
}

/// A pause, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Think {
    /// None.
    #[default]
    None,
    /// Always the same.
    For(u64),
    /// Anything between two, each alike.
    Between(u64, u64),
    /// Exponential, with this mean, and ten times that at the most.
    Exponential(u64),
}

/// Which request is sent when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// When each is meant to start, from the first; in order.
    pub at_ns: Vec<u64>,
    /// The flow of each; it is filled in with the row of the same number.
    pub flows: Vec<u16>,
    /// It begins anew so long after its first, over and over.
    pub again_after_ns: Option<u64>,
}

/// One request that is to be made: everything that its bytes depend on, but for what its session took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ask {
    /// Its kind.
    pub kind: u16,
    /// Which rows it is filled in with.
    pub draw: u32,
    /// Whether a user begins with it, of whom nothing is known yet.
    pub is_fresh: bool,
}

impl Mix {
    /// Whether every request of it is always the same bytes, and its answers are all read alike: none is looked into, and
    /// HEAD, whose answers have no body, is not among other methods.
    pub fn is_fixed(&self) -> bool {
        let is_fixed = |kind: &Kind| kind.request.is_fixed() && kind.expect.is_nothing();
        let is_head = |kind: &&Kind| kind.request.method == "HEAD";
        let heads = self.kinds.iter().filter(is_head).count();
        (heads == 0 || heads == self.kinds.len())
            && self.kinds.iter().all(is_fixed)
            && self.flows.iter().all(|flow| !flow.is_session())
    }

    /// Whether requests of it belong together.
    pub fn has_sessions(&self) -> bool {
        self.flows.iter().any(Flow::is_session)
    }

    /// Requests that are always the same, each with its name and weight, in HTTP/1.1.
    pub fn of_requests<'n>(requests: impl IntoIterator<Item = (&'n str, u32, Request)>) -> Mix {
        let mut mix = Mix {
            protocol: Protocol::Http1,
            kinds: Vec::new(),
            flows: Vec::new(),
            tables: Vec::new(),
            variables: 0,
            known: Known::default(),
            origins: Vec::new(),
            replay: None,
        };
        for (name, weight, request) in requests {
            let step = Step {
                kind: mix.kinds.len() as u16,
                think: Think::None,
                hop: None,
                continues: false,
            };
            mix.kinds.push(Kind {
                name: name.to_owned(),
                request: Template::from(&request),
                call: None,
                expect: Expect::default(),
            });
            mix.flows.push(Flow {
                name: name.to_owned(),
                weight,
                steps: vec![step],
                walks: None,
            });
        }
        mix
    }

    /// Its most common kind alone, filled in with a letter in each place, of whose answers nothing is asked: it takes
    /// the making of a request, and all of them are of one length.
    pub fn most_common(&self) -> Option<Mix> {
        let kinds = self.kinds.iter().zip(self.weights());
        let (kind, _) = kinds.max_by_key(|(_, weight)| *weight)?;
        let mut mix = Mix::of_requests([(kind.name.as_str(), 1, kind.request.sample())]);
        mix.protocol = self.protocol;
        mix.known.renew(vec![b"x".to_vec(), b"/x".to_vec()]);
        mix.kinds[0].call.clone_from(&kind.call);
        mix.kinds[0].request = kind.request.with_letters();
        Some(mix)
    }

    /// Whether bodies of answers are looked into, for a check or to take something.
    pub fn looks_into_bodies(&self) -> bool {
        self.kinds.iter().any(|kind| kind.expect.needs_body())
    }

    /// The first of its requests as one that is always the same: as long as what [`Mix::most_common`] makes.
    pub fn sample(&self) -> Option<Exchange> {
        let kind = self.kinds.first()?;
        let sample = kind.request.sample();
        Some(match (self.protocol, &kind.call) {
            (Protocol::Http1, _) => Exchange::Http1(sample),
            (_, Some(terms)) => Exchange::Grpc(grpc::Request::of_sample(&sample, terms)),
            (_, None) => Exchange::Http2(sample),
        })
    }

    /// The weight of each kind: that of what it belongs to; 0 for one that follows redirects.
    pub fn weights(&self) -> Vec<u32> {
        let mut weights = vec![0; self.kinds.len()];
        for flow in &self.flows {
            for step in flow.steps.iter().filter(|step| step.hop.is_none()) {
                weights[usize::from(step.kind)] = flow.weight;
            }
        }
        weights
    }
}

impl Kind {
    /// Refuses answers that are looked into and may come compressed.
    pub(crate) fn check_coding(&self) -> Result<(), String> {
        let named = |(name, _): &(String, Text)| name.eq_ignore_ascii_case("Accept-Encoding");
        if self.expect.needs_body() && self.request.headers.iter().any(named) {
            let what = "its answers are looked into as they come: leave Accept-Encoding out";
            return Err(format!("`{}`: {what}", self.name));
        }
        Ok(())
    }
}

impl Template {
    /// Whether it asks and does no more: its redirects are all asked for alike.
    pub fn is_get(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD")
    }

    /// Whether it is asked for where a redirect leads.
    fn is_hop(&self) -> bool {
        let leads = |slot: &Slot| slot.value == Value::Location;
        self.target.slots().any(leads)
    }

    /// Whether it has no place to fill in.
    pub fn is_fixed(&self) -> bool {
        self.texts().all(Text::is_fixed)
    }

    /// Refuses what could not be sent, whatever stands in its places.
    pub fn check(&self) -> Result<(), BadRequest> {
        self.sample().check()
    }

    /// All its texts.
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        let headers = self.headers.iter().map(|(_, value)| value);
        headers.chain([&self.target, &self.body])
    }

    /// The same, with a value of a letter in each place.
    fn with_letters(&self) -> Template {
        let headers = self.headers.iter();
        Template {
            target: self.target.with_letters(),
            headers: headers
                .map(|(name, value)| (name.clone(), value.with_letters()))
                .collect(),
            body: self.body.with_letters(),
            ..self.clone()
        }
    }

    /// A request like those that it makes: with a letter in each place.
    pub(crate) fn sample(&self) -> Request {
        let text = |text: &Text| String::from_utf8_lossy(&text.sample()).into_owned();
        let header = |(name, value): &(String, Text)| (name.clone(), text(value));
        Request {
            method: self.method.clone(),
            authority: self.authority.clone(),
            target: text(&self.target),
            headers: self.headers.iter().map(header).collect(),
            body: self.body.sample(),
        }
    }
}

impl From<&Request> for Template {
    fn from(request: &Request) -> Template {
        let header = |(name, value): &(String, String)| (name.clone(), Text::fixed(value.as_str()));
        Template {
            method: request.method.clone(),
            authority: request.authority.clone(),
            target: Text::fixed(request.target.as_str()),
            headers: request.headers.iter().map(header).collect(),
            body: Text::fixed(request.body.clone()),
        }
    }
}
