//! What is asked of a server, in the protocol that the URL names.
//!
//! ```text
//!  Job ─► ask ─► Asked ─ once the server stands ─► Question { request, how it is secured }
//! ```

use std::time::Duration;

use wallfinder_model::Decode;
use wallfinder_scenario::Fault;
use wallfinder_testbed::driver::DriverSpec;
use wallfinder_traffic::{Around, Compiled};
use wallfinder_wire::tls::Client;
use wallfinder_wire::{Exchange, Request, framed, grpc};

use crate::exit::Failed;
use crate::job::Job;
use crate::messages::{self, Method, Source};
use crate::mix::{self, Place};
use crate::set_up::SetUp;
use crate::testbed::Testbed;
use crate::tls::{self, Secured};

/// What is asked of a server that stands.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) request: Exchange,
    /// Under TLS, and how.
    pub(crate) secured: Option<Secured>,
    /// What there is to say of it, in words.
    pub(crate) notes: Vec<String>,
}

/// What is asked of a target, as far as it is known before there is a server.
pub(crate) struct Asked {
    /// `None`: only the server can say how its messages are encoded.
    request: Option<Exchange>,
    /// Of a mix that is known.
    around: Option<Around>,
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
        let client = secured.as_ref().map(|secured| secured.client.clone());
        let has_mix = !job.scenario.traffic.is_empty();
        let mut notes = Vec::new();
        let request = match (self.request, self.around) {
            (Some(mix), Some(around)) => {
                let place = Place { address, client };
                mixed(testbed, (mix, around), place, &mut notes)?
            }
            (Some(request), None) => request,
            (None, _) => {
                let source = Source::Server {
                    address,
                    tls: client.clone(),
                    authority: url.authority.clone(),
                    metadata: job.headers()?,
                };
                let request = match has_mix {
                    true => compiled(job, Some(&source)).and_then(|known| {
                        let place = Place { address, client };
                        mixed(testbed, known, place, &mut notes)
                    }),
                    false => described(job, &source).map(Exchange::Grpc),
                };
                let asked = request.map_err(|failed| {
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
                checked(asked, job)?
            }
        };
        Ok(Question {
            request,
            secured,
            notes,
        })
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
    let mut around = None;
    let request = match job.url.protocol() {
        _ if !job.scenario.traffic.is_empty() => known_mix(job)?.map(|(mix, of_mix)| {
            around = Some(of_mix);
            mix
        }),
        "tcp" => Some(Exchange::Framed(framed_request(job)?)),
        "grpc" => grpc_request(job)?.map(Exchange::Grpc),
        _ if job.scenario.target.http2 => Some(Exchange::Http2(http_request(job)?)),
        _ => Some(Exchange::Http1(http_request(job)?)),
    };
    let request = request.map(|request| checked(request, job)).transpose()?;
    Ok(Asked {
        request,
        around,
        client,
    })
}

/// A mix as far as it is known before there is a server: what set-up takes is not. `None`: only the server can say how
/// messages are encoded.
fn known_mix(job: &Job) -> Result<Option<(Exchange, Around)>, Failed> {
    let source = files(job);
    if job.url.protocol() == "grpc" && source.is_none() {
        return Ok(None);
    }
    compiled(job, source.as_ref()).map(Some)
}

fn compiled(job: &Job, source: Option<&Source>) -> Result<(Exchange, Around), Failed> {
    let Compiled { mix, around } = mix::compiled(job, source)?;
    Ok((Exchange::Mix(Box::new(mix)), around))
}

/// The mix once its server stands, after its set-up, which is made once for a testbed.
fn mixed(
    testbed: &Testbed,
    (mut mix, mut around): (Exchange, Around),
    place: Place,
    notes: &mut Vec<String>,
) -> Result<Exchange, Failed> {
    notes.append(&mut around.notes);
    if let Exchange::Mix(mix) = &mut mix {
        mix.known = testbed.set_up(|| SetUp::make(around, mix.known.clone(), place))?;
    }
    Ok(mix)
}

/// The files that describe methods, where they are given.
fn files(job: &Job) -> Option<Source> {
    let target = &job.scenario.target;
    match (&target.protoset, target.proto.as_slice()) {
        (Some(file), _) => Some(Source::Set(file.clone())),
        (None, []) => None,
        (None, files) => Some(Source::Files {
            files: files.to_vec(),
            folders: target.proto_path.clone(),
        }),
    }
}

fn checked(exchange: Exchange, job: &Job) -> Result<Exchange, Failed> {
    if let Some(flag) = flag_of_grpc(job)
        && job.url.protocol() != "grpc"
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
    let source = files(job);
    source.map(|source| described(job, &source)).transpose()
}

fn described(job: &Job, source: &Source) -> Result<grpc::Request, Failed> {
    let json = job
        .body()?
        .map(String::from_utf8)
        .transpose()
        .map_err(|_| Failed::usage("the body is not JSON: it is not even UTF-8"))?;
    if !job.url.names_a_method() {
        return Err(Failed::usage(format!(
            "{}:// names a method, such as {0}://127.0.0.1:9000/package.Service/Method",
            job.url.scheme
        )));
    }
    let method = messages::method_of(source, job.url.path())?;
    let call = call_of(job, &method, job.url.path(), json.as_deref())?;
    Ok(grpc::Request {
        in_turn: job.scenario.target.in_turn,
        metadata: job.headers()?,
        ..call
    })
}

/// A call of a method, its messages from JSON.
pub(crate) fn call_of(
    job: &Job,
    method: &Method,
    path: &str,
    json: Option<&str>,
) -> Result<grpc::Request, Failed> {
    let described = method.describe(json)?;
    let deadline = job.scenario.target.deadline;
    Ok(grpc::Request {
        kind: described.kind,
        messages: described.messages,
        deadline: deadline.map(|deadline| Duration::from_nanos(deadline.0)),
        ..grpc::Request::unary(&job.url.authority, path, "")
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
