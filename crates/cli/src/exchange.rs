//! What is asked of a server, in the protocol that the URL names.
//!
//! ```text
//!  Job ─► ask ─► Asked ─ once the server stands ─► Question { request, how it is secured }
//! ```

use std::time::Duration;

use wallfinder_model::Decode;
use wallfinder_model::scenario::MixedRequest;
use wallfinder_scenario::Fault;
use wallfinder_testbed::driver::DriverSpec;
use wallfinder_wire::tls::Client;
use wallfinder_wire::{Exchange, Kind, Request, framed, grpc};

use crate::body;
use crate::exit::Failed;
use crate::job::Job;
use crate::messages::{self, Source};
use crate::target::Url;
use crate::testbed::Testbed;
use crate::tls::{self, Secured};

/// What is asked of a server that stands.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) request: Exchange,
    /// Under TLS, and how.
    pub(crate) secured: Option<Secured>,
}

/// What is asked of a target, as far as it is known before there is a server.
pub(crate) struct Asked {
    /// `None`: only the server can say how its messages are encoded.
    request: Option<Exchange>,
    /// `None`: there is no TLS, or a subject may still write the certificate to believe it by.
    client: Option<Client>,
}

impl Asked {
    /// What is sent, where that is known without the server.
    pub(crate) fn known(&self) -> Option<&Exchange> {
        self.request.as_ref()
    }

    /// What is asked of the server that stands. Under TLS it is greeted: what cannot be agreed
    /// on ends here.
    pub(crate) fn at(self, job: &Job, testbed: &Testbed) -> Result<Question, Failed> {
        let (address, url) = (testbed.server.address, &job.url);
        let client = match self.client {
            Some(client) => Some(client),
            None => tls::client(job)?,
        };
        let secured = client
            .map(|client| tls::greet(client, address, job))
            .transpose()?;
        let request = match self.request {
            Some(request) => request,
            None => {
                let source = Source::Server {
                    address,
                    tls: secured.as_ref().map(|secured| secured.client.clone()),
                    authority: url.authority.clone(),
                    metadata: job.headers()?,
                };
                let asked = described(job, &source).map_err(|failed| {
                    let hint = match secured {
                        None => tls::hint_of_tls(address, &url.scheme),
                        Some(_) => None,
                    };
                    let hint = hint.map_or(String::new(), |hint| format!(". {hint}"));
                    Failed {
                        message: failed.message + &hint,
                        ..failed
                    }
                })?;
                checked(asked.into(), job)?
            }
        };
        Ok(Question { request, secured })
    }
}

/// What is asked. Encoded once here as well, so that what cannot be sent is refused before anything is
/// started.
pub(crate) fn ask(job: &Job) -> Result<Asked, Failed> {
    if let Some(command) = job.scenario.driver() {
        let spec = DriverSpec::parse(command).map_err(Failed::usage)?;
        job.around.reach.check_driver(&spec)?;
    }
    let may_come_later = job.url.is_secure() && job.scenario.server.subject.is_some();
    let client = match may_come_later {
        true => None,
        false => tls::client(job)?,
    };
    let request = match job.url.protocol() {
        protocol if !job.scenario.request.is_empty() => Some(mix(job, protocol)?),
        "tcp" => Some(Exchange::Framed(framed_request(job)?)),
        "grpc" => grpc_request(job)?.map(Exchange::Grpc),
        _ if job.scenario.target.http2 => Some(Exchange::Http2(http_request(job)?)),
        _ => Some(Exchange::Http1(http_request(job)?)),
    };
    let request = request.map(|request| checked(request, job)).transpose()?;
    Ok(Asked { request, client })
}

fn checked(exchange: Exchange, job: &Job) -> Result<Exchange, Failed> {
    if let Some(flag) = flag_of_grpc(job)
        && !matches!(exchange, Exchange::Grpc(_))
    {
        return Err(Failed::usage(format!(
            "{flag} is for targets of grpc://host:port/package.Service/Method"
        )));
    }
    let pipeline = job.scenario.load.pipeline;
    exchange.check(pipeline).map_err(Failed::usage)?;
    Ok(exchange)
}

fn flag_of_grpc(job: &Job) -> Option<&'static str> {
    let target = &job.scenario.target;
    let given = [
        ("--proto", !target.proto.is_empty()),
        ("--protoset", target.protoset.is_some()),
        ("--deadline", target.deadline.is_some()),
        ("--in-turn", target.in_turn),
    ];
    let flag = given.iter().find(|(_, given)| *given);
    flag.map(|(flag, _)| *flag)
}

/// A call whose message is known before there is a server; `None`: the server describes it.
fn grpc_request(job: &Job) -> Result<Option<grpc::Request>, Failed> {
    let target = &job.scenario.target;
    let refused = [
        ("--decode", target.decode != Decode::None),
        ("-m", target.method != "GET"),
        ("--http2", target.http2),
        ("--frame", target.frame.is_some()),
        ("--body-bytes", target.body_bytes.is_some()),
    ];
    if let Some((flag, _)) = refused.iter().find(|(_, given)| *given) {
        return Err(Failed::usage(format!(
            "{flag} is not for grpc://, where a call is described by --proto, --protoset or the \
             server, and its message is the JSON of -b"
        )));
    }
    if target.echo_bytes.is_some() {
        let message = job.body()?.unwrap_or_default();
        let (authority, path) = (&job.url.authority, job.url.path());
        return Ok(Some(grpc::Request::unary(authority, path, message)));
    }
    let source = match (&target.protoset, target.proto.as_slice()) {
        (Some(file), _) => Source::Set(file.clone()),
        (None, []) => return Ok(None),
        (None, files) => Source::Files {
            files: files.to_vec(),
            folders: target.proto_path.clone(),
        },
    };
    described(job, &source).map(Some)
}

fn described(job: &Job, source: &Source) -> Result<grpc::Request, Failed> {
    let (target, url) = (&job.scenario.target, &job.url);
    let json = job
        .body()?
        .map(String::from_utf8)
        .transpose()
        .map_err(|_| Failed::usage("the body is not JSON: it is not even UTF-8"))?;
    let described = messages::describe(source, url.path(), json.as_deref())?;
    Ok(grpc::Request {
        kind: described.kind,
        messages: described.messages,
        in_turn: target.in_turn,
        metadata: job.headers()?,
        deadline: target
            .deadline
            .map(|deadline| Duration::from_nanos(deadline.0)),
        ..grpc::Request::unary(&url.authority, url.path(), "")
    })
}

fn framed_request(job: &Job) -> Result<framed::Request, Failed> {
    let target = &job.scenario.target;
    let format = target.frame.as_ref().ok_or_else(|| {
        Failed::usage("tcp:// needs --frame: how messages are framed, such as --frame u32be")
    })?;
    let refused = [
        ("-H", !target.headers.is_empty()),
        ("--decode", target.decode != Decode::None),
        ("-m", target.method != "GET"),
        ("--http2", target.http2),
    ];
    if let Some((flag, _)) = refused.iter().find(|(_, given)| *given) {
        return Err(Failed::usage(format!(
            "{flag} is HTTP's, and tcp:// has none; the message is given with -b or --body-bytes"
        )));
    }
    let wrong = |why: framed::BadFormat| {
        let fault = Fault::at("target.frame", format!("--frame {format}: {why}"));
        job.around.fault(&fault)
    };
    Ok(framed::Request {
        format: format.parse().map_err(wrong)?,
        message: job.body()?.unwrap_or_default(),
    })
}

/// The kinds of request of a mix, all of the target's origin.
fn mix(job: &Job, protocol: &str) -> Result<Exchange, Failed> {
    let url = &job.url;
    if protocol != "http" {
        return Err(Failed::usage(format!(
            "requests are mixed over http:// and https://, and the target is {}://",
            url.scheme
        )));
    }
    let kind = |given: &MixedRequest| {
        let name = given.shown_name();
        let (method, place) = given.methods().next().unwrap_or_default();
        let mut request = Request::new(method, url.authority.clone(), path_of(url, place, &name)?);
        request.headers = job.headers()?;
        let own = job.fields(&given.headers, &format!("`{name}`: header"))?;
        request.headers.extend(own);
        if let Some(body) = &given.body {
            request = request.body(body::bytes(body)?);
        }
        Ok(Kind {
            name,
            weight: given.weight,
            request,
        })
    };
    let kinds = job.scenario.request.iter().map(kind);
    Ok(Exchange::Mix(kinds.collect::<Result<_, Failed>>()?))
}

/// The path of a request that is given by it, or by a URL of the target's origin.
fn path_of(url: &Url, place: &str, name: &str) -> Result<String, Failed> {
    if place.starts_with('/') {
        return Ok(place.to_owned());
    }
    let other = Url::parse(place)?;
    let is_same = other.scheme == url.scheme && other.host == url.host && other.port == url.port;
    match is_same {
        true => Ok(other.path_and_query),
        false => Err(Failed::usage(format!(
            "`{name}` is of {}://{}, and the target is {}://{}: a mix has one origin",
            other.scheme, other.authority, url.scheme, url.authority
        ))),
    }
}

fn http_request(job: &Job) -> Result<Request, Failed> {
    let (target, url) = (&job.scenario.target, &job.url);
    if let Some(format) = &target.frame {
        return Err(Failed::usage(format!(
            "--frame {format} is for tcp://, and the target is {}://",
            url.scheme
        )));
    }
    let mut request = Request::new(
        target.method.clone(),
        url.authority.clone(),
        url.path_and_query.clone(),
    );
    request.headers = job.headers()?;
    if let Some(body) = job.body()? {
        request = request.body(body);
    }
    Ok(request)
}
