//! What users send, as a scenario has it, made into what workers send; and what is made once before and after.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wallfinder_traffic::{Compiled, Origin, World, compile};
use wallfinder_wire::http1::{self, Http1};
use wallfinder_wire::http2::{self, Http2};
use wallfinder_wire::mix::{Ask, FieldPath, Kind, Mix, Protocol, Text, Value};
use wallfinder_wire::tls::{self, Tls};
use wallfinder_wire::{Answer, Judged, Outcome, Wire, grpc};

use crate::exchange::call_of;
use crate::exit::Failed;
use crate::job::Job;
use crate::messages::{Method, Source, method_of};
use crate::once::Asking;
use crate::target::Url;

/// Longest time for all that is made once before the load, and again for what is made after it.
const PATIENCE: Duration = Duration::from_secs(10);

/// A job's traffic. `source` describes calls of gRPC.
pub(crate) fn compiled(job: &Job, source: Option<&Source>) -> Result<Compiled, Failed> {
    let url = &job.url;
    let protocol = match url.protocol() {
        "http" if job.scenario.target.http2 => Protocol::Http2,
        "http" => Protocol::Http1,
        "grpc" => Protocol::Grpc,
        _ => {
            return Err(Failed::usage(format!(
                "requests are mixed over http://, https:// and grpc://, and the target is {}://",
                url.scheme
            )));
        }
    };
    let origin = Origin {
        protocol,
        authority: url.authority.clone(),
        origins: origins(url),
        headers: job.headers()?,
        seed: job.scenario.load.seed,
    };
    let given = Given {
        job,
        source,
        methods: RefCell::default(),
    };
    let traffic = &job.scenario.traffic;
    compile(traffic, &origin, &given).map_err(|fault| job.around.fault(&fault))
}

/// The ways in which a redirect may name the target.
fn origins(url: &Url) -> Vec<String> {
    let mut origins = vec![format!("{}://{}", url.scheme, url.authority)];
    let host = match url.host.contains(':') {
        true => format!("[{}]", url.host),
        false => url.host.clone(),
    };
    origins.push(format!("{}://{host}:{}", url.scheme, url.port));
    if matches!(
        (url.scheme.as_str(), url.port),
        ("http", 80) | ("https", 443)
    ) {
        origins.push(format!("{}://{host}", url.scheme));
    }
    origins.sort_unstable();
    origins.dedup();
    origins
}

/// What is around a job.
struct Given<'j> {
    job: &'j Job,
    source: Option<&'j Source>,
    /// Those that were found.
    methods: RefCell<BTreeMap<String, Method>>,
}

impl Given<'_> {
    fn method(&self, path: &str) -> Result<Method, String> {
        if let Some(known) = self.methods.borrow().get(path) {
            return Ok(known.clone());
        }
        let source = self
            .source
            .ok_or("it is not known how its messages are encoded")?;
        let method = method_of(source, path).map_err(|failed| failed.message)?;
        let mut known = self.methods.borrow_mut();
        known.insert(path.to_owned(), method.clone());
        Ok(method)
    }
}

impl World for Given<'_> {
    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        self.job.around.values.file(path)
    }

    fn path_of(&self, place: &str) -> Result<String, String> {
        let url = &self.job.url;
        let other = Url::parse(place).map_err(|failed| failed.message)?;
        let is_same =
            other.scheme == url.scheme && other.host == url.host && other.port == url.port;
        match is_same {
            true => Ok(other.path_and_query),
            false => Err(format!(
                "it is of {}://{}, and the target is {}://{}: a mix has one origin",
                other.scheme, other.authority, url.scheme, url.authority
            )),
        }
    }

    fn value(&self, text: &str) -> String {
        self.job.around.values.of(text).to_owned()
    }

    fn call(&self, method: &str, json: Option<&str>) -> Result<grpc::Request, String> {
        let found = self.method(method)?;
        call_of(self.job, &found, method, json).map_err(|failed| failed.message)
    }

    fn message(&self, method: &str, json: &Text) -> Result<Text, String> {
        self.method(method)?.with_places(json)
    }

    fn field(&self, method: &str, pointer: &str) -> Result<FieldPath, String> {
        self.method(method)?.field(pointer)
    }
}

/// Where requests that are made once go.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) address: SocketAddr,
    pub(crate) client: Option<tls::Client>,
}

/// What came of requests that were made once. What they took may be secrets.
#[derive(Default)]
pub(crate) struct Made {
    /// How many were answered well.
    pub(crate) steps: usize,
    /// What the session's variables came to; `None`: it was not taken. An empty value is one.
    pub(crate) taken: Vec<Option<Vec<u8>>>,
    /// The cookies as they were before each step of the session.
    pub(crate) cookies: Vec<Vec<u8>>,
    /// Why the next was not, and none behind it.
    pub(crate) failed: Option<String>,
}

/// What requests that are made once begin with.
#[derive(Clone, Copy, Default)]
pub(crate) struct With<'w> {
    /// Numbers of known values that are not there: a step that would send one of them is left out.
    pub(crate) missing: &'w [u16],
    /// Cookies of the session that theirs goes on with.
    pub(crate) cookies: &'w [u8],
}

/// Makes the steps of the only session of a mix, one after the other, and gives what so many variables came to. What
/// fails is told by the step's name.
pub(crate) fn make(mix: &Mix, place: &Place, variables: usize, with: With<'_>) -> Made {
    let mut made = Made::default();
    let until = Instant::now() + PATIENCE;
    let steps = Steps {
        mix,
        place,
        with,
        variables,
        until,
    };
    if let Err(why) = steps.make(&mut made) {
        made.failed = Some(why);
    }
    made
}

/// Steps that are to be made.
struct Steps<'s> {
    mix: &'s Mix,
    place: &'s Place,
    with: With<'s>,
    variables: usize,
    until: Instant,
}

impl Steps<'_> {
    fn make(&self, made: &mut Made) -> Result<(), String> {
        let is_https = self.place.client.is_some();
        match self.mix.protocol {
            Protocol::Http1 => {
                let options = http1::Options::default();
                let ready = http1::Ready::of(self.mix, 0, &options)?;
                let shared = http1::Shared::of_mix(&Arc::new(ready), options);
                let shared = shared.map_err(|error| error.to_string())?;
                self.over::<Http1>(shared, ROOM, made)
            }
            Protocol::Http2 | Protocol::Grpc => {
                let ready = http2::Ready::of(self.mix, 0, is_https)?;
                let options = http2::Options {
                    is_https,
                    ..http2::Options::default()
                };
                let shared = http2::Shared::of_mix(&Arc::new(ready), options);
                let shared = shared.map_err(|error| error.to_string())?;
                let room = shared.write_bytes_min() + ROOM;
                self.over::<Http2>(shared, room, made)
            }
        }
    }

    fn over<W: Wire>(
        &self,
        mut shared: W::Shared,
        room: usize,
        made: &mut Made,
    ) -> Result<(), String> {
        match &self.place.client {
            None => self.on::<W>(&mut shared, room, made),
            Some(client) => {
                let mut secured = tls::Shared::new(shared, client, room);
                let room = secured.write_bytes();
                self.on::<Tls<W>>(&mut secured, room, made)
            }
        }
    }

    fn on<W: Wire>(
        &self,
        shared: &mut W::Shared,
        room: usize,
        made: &mut Made,
    ) -> Result<(), String> {
        let address = self.place.address;
        let connected = Asking::<W>::connect(address, shared, room, self.until);
        let mut asking = connected.map_err(|error| format!("did not reach {address}: {error}"))?;
        asking.wire.take_cookies(self.with.cookies);
        made.taken = vec![None; self.variables];
        let result = self.ask(&mut asking, shared, made);
        // A step that failed may have taken some of its values before.
        for (taken, variable) in made.taken.iter_mut().zip(0..) {
            let value = asking.wire.taken(variable);
            if !value.is_empty() {
                *taken = Some(value.to_vec());
            }
        }
        result
    }

    fn ask<W: Wire>(
        &self,
        asking: &mut Asking<W>,
        shared: &mut W::Shared,
        made: &mut Made,
    ) -> Result<(), String> {
        let mut redirects = None;
        for step in &self.mix.flows[0].steps {
            made.cookies.push(asking.wire.cookies());
            let kind = &self.mix.kinds[usize::from(step.kind)];
            if step.hop.is_some() && step.hop != redirects {
                continue;
            }
            if step.hop.is_none() && self.lacks(kind) {
                redirects = None;
                continue;
            }
            let name = &kind.name;
            let ask = Ask {
                kind: step.kind,
                draw: 0,
                // The connection was opened for this session, which has its cookies already.
                is_fresh: false,
            };
            let outcome = asking.ask(shared, ask);
            let answer = match outcome.map_err(|error| format!("`{name}`: {error}"))? {
                Outcome::Answered(answer) => answer,
                Outcome::Failed { error, .. } | Outcome::Broken { error, .. } => {
                    return Err(format!("`{name}` failed: {}", error.class()));
                }
                Outcome::Over => return Err(format!("`{name}` was not answered")),
            };
            good(&answer).map_err(|why| format!("`{name}` was answered with {why}"))?;
            redirects = answer.redirects;
            made.steps += 1;
            // A step that redirects has its values taken by the step that follows it.
            let takes = kind.expect.takes.iter().filter(|_| redirects.is_none());
            for variable in takes.map(|take| take.variable) {
                if let Some(taken) = made.taken.get_mut(usize::from(variable)) {
                    *taken = Some(asking.wire.taken(variable).to_vec());
                }
            }
            if !answer.reusable {
                let again = asking.reconnect(shared);
                again.map_err(|error| {
                    format!("did not reach {} again: {error}", self.place.address)
                })?;
            }
        }
        Ok(())
    }

    fn lacks(&self, kind: &Kind) -> bool {
        let mut slots = kind.request.texts().flat_map(Text::slots);
        slots.any(
            |slot| matches!(slot.value, Value::Known(known) if self.with.missing.contains(&known)),
        )
    }
}

const ROOM: usize = 64 * 1024;

fn good(answer: &Answer) -> Result<(), String> {
    if let Some(error) = answer.call.and_then(|call| call.error) {
        return Err(error.class().to_owned());
    }
    match (answer.judged, answer.status) {
        (Judged::Bad(error), _) => Err(format!("{}: {}", answer.status, error.class())),
        (Judged::Good, _) | (Judged::ByStatus, ..=399) => Ok(()),
        (Judged::ByStatus, status) => Err(format!("status {status}")),
    }
}
