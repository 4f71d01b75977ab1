//! What an answer must say, and what is taken from it, as it is asked for.

use serde::{Deserialize, Serialize};

use super::field::FieldPath;
use super::scalar::Scalar;

/// What the answers to a kind of request are looked into for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expect {
    /// Statuses that are good, each from one to another; empty: those below 400.
    pub statuses: Vec<(u16, u16)>,
    /// What else a good answer has.
    pub checks: Vec<Check>,
    /// How many answers there are for each that is held against the checks; 1: all are.
    pub every: u32,
    /// What is taken for later steps.
    pub takes: Vec<Take>,
    /// What becomes of a redirect.
    pub follow: Follow,
    /// Whether cookies are kept, and sent with the steps that follow.
    pub keeps_cookies: bool,
}

/// What becomes of a redirect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Follow {
    /// It is an answer like any other.
    #[default]
    Never,
    /// The next step follows it.
    Yes,
    /// It was followed too often.
    Spent,
}

/// What a good answer has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Check {
    /// A field of this name, with this in its value; the name in lower case.
    Header(String, String),
    /// These bytes in its body.
    BodyHas(#[serde(with = "crate::bytes::one")] Vec<u8>),
    /// A body from so long to so long, in bytes, as it came.
    Length(u64, u64),
    /// A value of JSON there in its body.
    Json(String, JsonIs),
    /// A value there in its message, told as JSON would have it.
    Field(FieldPath, JsonIs),
}

/// What a value of JSON must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JsonIs {
    /// A string.
    Text(String),
    /// A number, `true`, `false`, `null`: as it is written.
    Plain(String),
    /// Anything: it is there.
    There,
}

/// A value that is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Take {
    /// Which variable it becomes.
    pub variable: u16,
    /// Where it stands.
    pub from: Source,
    /// How it is encoded by the requests that need it: as each of these it must be possible.
    pub fits: Vec<Scalar>,
}

/// Where a value stands in an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// A field's value; its name in lower case.
    Header(String),
    /// A cookie that it sets.
    Cookie(String),
    /// What a JSON pointer (RFC 6901) points at in the body.
    Json(String),
    /// The first group of a regular expression in the body, or all of it where it has none.
    Regex(String),
    /// What stands there in the message that a call is answered with.
    Field(FieldPath),
}

impl Default for Expect {
    fn default() -> Expect {
        Expect {
            statuses: Vec::new(),
            checks: Vec::new(),
            every: 1,
            takes: Vec::new(),
            follow: Follow::Never,
            keeps_cookies: false,
        }
    }
}

impl Expect {
    /// Whether answers need not be looked into.
    pub fn is_nothing(&self) -> bool {
        let Expect {
            statuses,
            checks,
            every: _,
            takes,
            follow,
            keeps_cookies,
        } = self;
        statuses.is_empty()
            && checks.is_empty()
            && takes.is_empty()
            && *follow == Follow::Never
            && !keeps_cookies
    }

    /// Whether a body is looked into.
    pub fn needs_body(&self) -> bool {
        let of_check = |check: &Check| {
            matches!(
                check,
                Check::BodyHas(_) | Check::Json(..) | Check::Field(..)
            )
        };
        let of_take = |take: &Take| {
            matches!(
                take.from,
                Source::Json(_) | Source::Regex(_) | Source::Field(_)
            )
        };
        self.checks.iter().any(of_check) || self.takes.iter().any(of_take)
    }

    /// Whether fields are.
    pub fn needs_fields(&self) -> bool {
        let of_check = |check: &Check| matches!(check, Check::Header(..));
        let of_take = |take: &Take| matches!(take.from, Source::Header(_) | Source::Cookie(_));
        self.checks.iter().any(of_check)
            || self.takes.iter().any(of_take)
            || self.follow != Follow::Never
            || self.keeps_cookies
    }
}
