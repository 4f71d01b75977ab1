//! What users send, as a file says it: requests by weight, sessions of several steps, and the data that fills them in.
//!
//! What it is not: checked, or ready to be sent. The `traffic` crate makes of it what workers send.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What users send.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Traffic {
    /// Rows of data, by name; `{users.term}` in a request is the column `term` of the rows `users`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, Data>,
    /// Requests, each chosen by its weight.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub request: Vec<Request>,
    /// Sessions, each begun by its weight.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub session: Vec<Session>,
    /// What was logged, in the place of requests and sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// Requests that are made once, one after the other, before the load; what they take may stand in all others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<Request>,
    /// Requests that are made once after the load.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub teardown: Vec<Request>,
}

impl Traffic {
    /// Whether it says nothing: the target's one request is sent.
    pub fn is_empty(&self) -> bool {
        self.request.is_empty() && self.session.is_empty() && self.replay.is_none()
    }

    /// Files that it names stand in this folder.
    pub fn beside(&mut self, folder: &Path) {
        for data in self.data.values_mut() {
            if let Some(file) = &mut data.file {
                *file = folder.join(&*file);
            }
        }
        if let Some(replay) = &mut self.replay {
            replay.file = folder.join(&replay.file);
        }
        for (_, request) in self.requests_mut() {
            if let Some(body) = &mut request.body
                && let Some(file) = body.strip_prefix('@')
                && !file.starts_with('@')
                && file != "-"
            {
                *body = format!("@{}", folder.join(file).display());
            }
            for part in &mut request.multipart {
                if let Some(file) = &mut part.file {
                    *file = folder.join(&*file);
                }
            }
        }
    }

    /// Every request in it, with its key: `session.0.steps.2`.
    pub fn requests(&self) -> impl Iterator<Item = (String, &Request)> {
        let keyed = |list: &'static str| {
            move |(nth, request)| -> (String, &Request) { (format!("{list}.{nth}"), request) }
        };
        let steps = self.session.iter().enumerate().flat_map(|(session, of)| {
            let keyed = move |(nth, step)| (format!("session.{session}.steps.{nth}"), step);
            of.steps.iter().enumerate().map(keyed)
        });
        let alone = self.request.iter().enumerate().map(keyed("request"));
        let setup = self.setup.iter().enumerate().map(keyed("setup"));
        let teardown = self.teardown.iter().enumerate().map(keyed("teardown"));
        alone.chain(steps).chain(setup).chain(teardown)
    }

    /// The same, to be changed.
    pub fn requests_mut(&mut self) -> impl Iterator<Item = (String, &mut Request)> {
        let keyed = |list: &'static str| {
            move |(nth, request)| -> (String, &mut Request) { (format!("{list}.{nth}"), request) }
        };
        let sessions = self.session.iter_mut().enumerate();
        let steps = sessions.flat_map(|(session, of)| {
            let keyed = move |(nth, step)| (format!("session.{session}.steps.{nth}"), step);
            of.steps.iter_mut().enumerate().map(keyed)
        });
        let alone = self.request.iter_mut().enumerate().map(keyed("request"));
        let setup = self.setup.iter_mut().enumerate().map(keyed("setup"));
        let teardown = self.teardown.iter_mut().enumerate().map(keyed("teardown"));
        alone.chain(steps).chain(setup).chain(teardown)
    }
}

/// Requests that were logged, sent when they were logged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Replay {
    /// An access log, or a HAR.
    pub file: PathBuf,
    /// How the lines of a log are written: `combined`, `common`, `json`, or as a format of nginx; left out: `combined`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// How much faster than they were logged.
    pub speed: f64,
    /// Whether they begin anew when they have ended.
    #[serde(rename = "loop", skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

impl Default for Replay {
    fn default() -> Replay {
        Replay {
            file: PathBuf::new(),
            format: None,
            speed: 1.0,
            again: false,
        }
    }
}

/// Rows of data. One of `file` and `rows` has them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Data {
    /// A file of rows: CSV, whose first line has the names of its columns, or JSON lines (`.jsonl`, `.ndjson`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The names of a CSV's columns, where its first line is a row like the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// In which order they are taken.
    pub order: RowOrder,
    /// The rows themselves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<BTreeMap<String, Scalar>>,
}

/// In which order rows are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RowOrder {
    /// Any, each time anew.
    #[default]
    Random,
    /// One after the other, and from the first again.
    InOrder,
    /// One after the other, each once; the load ends with the last.
    Once,
}

/// A plain value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Scalar {
    /// `true` or `false`.
    Truth(bool),
    /// A whole number.
    Whole(i64),
    /// Another number.
    Number(f64),
    /// Text.
    Text(String),
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scalar::Truth(value) => value.fmt(f),
            Scalar::Whole(value) => value.fmt(f),
            Scalar::Number(value) => value.fmt(f),
            Scalar::Text(value) => f.write_str(value),
        }
    }
}

/// A request: alone, with a weight, or as a step of a session. One of its methods has its path, or URL.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Request {
    /// What it is called in results; left out: its path, behind its method where that is not GET.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its part of all that begins, against the others'; 1 if left out. Of a request alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Path and query of a GET.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get: Option<String>,
    /// Of a HEAD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Of a POST.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post: Option<String>,
    /// Of a PUT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub put: Option<String>,
    /// Of a PATCH.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// Of a DELETE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete: Option<String>,
    /// Of an OPTIONS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<String>,
    /// The method of a call of gRPC: `/package.Service/Method`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Header fields, or metadata, beside the target's; a value may be `env:NAME` or `file:PATH`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub header: BTreeMap<String, String>,
    /// The body, or `@FILE`; JSON for gRPC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Parts of a body of `multipart/form-data`, in its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub multipart: Vec<Part>,
    /// Values that are taken from its answer, by name: `json:/pointer`, `header:NAME`, `cookie:NAME`, `regex:PATTERN`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub take: BTreeMap<String, String>,
    /// What its answer must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
    /// The pause before it, of a step: `300ms`, `100ms..500ms`, `exp(300ms)`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<String>,
    /// How many redirects are followed; none if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow: Option<u32>,
    /// What its session does where it fails, of a step that others follow: `break` if left out. It fails where its
    /// answer is not as it must be, comes too late, or never comes, and is counted either way. What it could not take
    /// keeps its former value, or is empty where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_fail: Option<OnFail>,
    /// How often it and what follows upon it is made again while the load runs, of a request of set-up: `50s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh: Option<String>,
}

impl Request {
    /// Its methods, each with its path; one in what was checked.
    pub fn methods(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("GET", &self.get),
            ("HEAD", &self.head),
            ("POST", &self.post),
            ("PUT", &self.put),
            ("PATCH", &self.patch),
            ("DELETE", &self.delete),
            ("OPTIONS", &self.options),
            (CALL, &self.call),
        ];
        let given = all.into_iter();
        given.filter_map(|(method, path)| Some((method, path.as_deref()?)))
    }

    /// Their paths, to be changed.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let all = [
            &mut self.get,
            &mut self.head,
            &mut self.post,
            &mut self.put,
            &mut self.patch,
            &mut self.delete,
            &mut self.options,
        ];
        all.into_iter().flatten()
    }

    /// What it is called.
    pub fn shown_name(&self) -> String {
        let of_path = || match self.methods().next() {
            Some(("GET" | CALL, path)) => path.to_owned(),
            Some((method, path)) => format!("{method} {path}"),
            None => String::new(),
        };
        self.name.clone().unwrap_or_else(of_path)
    }
}

/// Stands for the method of a call of gRPC.
pub const CALL: &str = "call";

/// What a session does whose step failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OnFail {
    /// It is broken off: no step follows.
    Break,
    /// It goes on with its next step.
    Continue,
}

/// A part of a multipart body. One of `value` and `file` has its content.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Part {
    /// The name of its field.
    pub name: String,
    /// Its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// A file with its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The file name that is sent; left out: that of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// Its media type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// What an answer must be; another is a failure of class `check.…`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Check {
    /// Its status: `200`, `"2xx"`, `"200..204"`, or a list of these. Left out: below 400.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Statuses>,
    /// Fields, each with what stands in its value; an empty text: it is there.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub header: BTreeMap<String, String>,
    /// What stands in its body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_contains: Option<String>,
    /// Values of its JSON, by pointer (RFC 6901).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub json: BTreeMap<String, Scalar>,
    /// Pointers at which its JSON has a value, whatever that is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub json_has: Vec<String>,
    /// Length of its body in bytes: `512`, or `"100..2000"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<Scalar>,
    /// One of so many answers is held against these, its status excepted; left out: all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u32>,
}

/// Statuses that are good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Statuses {
    /// One, or a range of them.
    One(Scalar),
    /// Several of these.
    Several(Vec<Scalar>),
}

/// What a user does: steps in order on one connection.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Session {
    /// What it is called in results.
    pub name: String,
    /// Its part of all that begins, against the others'; 1 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Whether cookies of its answers are kept, and sent with the steps that follow.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cookies: bool,
    /// Its requests.
    pub steps: Vec<Request>,
}
