//! `run` and `ramp`: flags become loads, loads become steps of one record.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use wallfinder_conduct::{Calibration, Producer, ProfileOrder, StepOrder};
use wallfinder_engine::{IoChoice, precheck};
use wallfinder_model::plan::StepPlan;
use wallfinder_model::{Arrival, Decode, Load, Nanos, Plan, Rate, Stop, Target};
use wallfinder_testbed::child::RunAs;
use wallfinder_testbed::driver::DriverSpec;
use wallfinder_testbed::lab::Lab;
use wallfinder_wire::tls::Client;
use wallfinder_wire::{Exchange, Request, framed, grpc};

use crate::body::{BODY_BYTES_MAX, Body};
use crate::commands::record::{check_conditions, conclude, judge_steps};
use crate::exit::Failed;
use crate::flags::{DecodeFlag, IoFlag, RampFlags, RunFlags, TargetFlags};
use crate::given;
use crate::interrupt::Interrupts;
use crate::messages::{self, Source};
use crate::placement::Placement;
use crate::reach::Reach;
use crate::session::{Beside, Session};
use crate::stand::{Server, Stand};
use crate::target::Url;
use crate::tls::{self, Secured};

/// How long the engine's own ceiling is measured after a step.
pub(crate) const CALIBRATE_FOR: Nanos = Nanos::from_millis(600);

/// `wallfinder run`.
pub(crate) fn run(flags: RunFlags) -> Result<(), Failed> {
    let arrival = match (flags.rate, flags.rate_to, flags.poisson) {
        (None, _, _) => Arrival::Closed {
            think: flags.target.think,
        },
        (Some(rate), None, true) => Arrival::Poisson { rate },
        (Some(rate), None, false) => Arrival::Constant { rate },
        (Some(from), Some(to), _) => Arrival::Ramp {
            from,
            to,
            over: Nanos(flags.target.duration.0 + warmup(&flags.target, flags.requests).0),
        },
    };
    let shape = Shape {
        connections: flags.connections,
        depth: None,
        arrival,
        requests: flags.requests,
    };
    load(
        "run",
        &flags.target,
        &[shape],
        Extras::samples(flags.samples),
    )
}

/// `wallfinder ramp`.
pub(crate) fn ramp(mut flags: RampFlags) -> Result<(), Failed> {
    let most = flags.connections.iter().copied().max().unwrap_or(1);
    let closed = |connections: u32| Shape::held(connections, None, flags.target.think);
    let shapes: Vec<Shape> = if !flags.rates.is_empty() {
        let open = |rate: &Rate| Shape::held(most, Some(*rate), flags.target.think);
        flags.rates.iter().map(open).collect()
    } else if let Some(deepest) = flags.depths.iter().copied().max() {
        let at_depth = |depth: &u32| Shape {
            depth: Some(*depth),
            ..closed(most)
        };
        let shapes = flags.depths.iter().map(at_depth).collect();
        // What may not be in flight at the deepest is told before any load.
        flags.target.pipeline = deepest;
        shapes
    } else {
        let connections = flags.connections.iter().copied();
        connections.map(closed).collect()
    };
    load(
        "ramp",
        &flags.target,
        &shapes,
        Extras::samples(flags.samples),
    )
}

/// What differs between the steps of one command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) connections: u32,
    /// In flight on each connection, where that is not `--pipeline`.
    pub(crate) depth: Option<u32>,
    pub(crate) arrival: Arrival,
    pub(crate) requests: Option<u64>,
}

impl Shape {
    /// Held for the length of the step: in an open loop at a rate, else in a closed one.
    pub(crate) fn held(connections: u32, rate: Option<Rate>, think: Nanos) -> Shape {
        Shape {
            connections,
            depth: None,
            arrival: match rate {
                Some(rate) => Arrival::Constant { rate },
                None => Arrival::Closed { think },
            },
            requests: None,
        }
    }
}

fn warmup(flags: &TargetFlags, requests: Option<u64>) -> Nanos {
    let by_duration = Nanos((flags.duration.0 / 20).clamp(300_000_000, 5_000_000_000));
    // A counted load is counted from its first request.
    let default = if requests.is_some() {
        Nanos(0)
    } else {
        by_duration
    };
    flags.warmup.unwrap_or(default)
}

/// What is to be profiled at a server, once it stands.
pub(crate) type AskedOf = Box<dyn FnOnce(&Server) -> Result<ProfileOrder, Failed>>;

/// What is kept beside the record of a step.
pub(crate) struct Extras {
    /// Every request.
    pub(crate) samples: bool,
    /// The server's profiles.
    pub(crate) profiles: Option<AskedOf>,
}

impl Extras {
    fn samples(samples: bool) -> Extras {
        Extras {
            samples,
            profiles: None,
        }
    }
}

/// Holds one load after the other, keeps the record, and says what came of it.
pub(crate) fn load(
    command: &str,
    flags: &TargetFlags,
    shapes: &[Shape],
    extras: Extras,
) -> Result<(), Failed> {
    let samples = extras.samples;
    if samples && flags.driver.is_some() {
        return Err(Failed::usage(
            "--samples keeps the requests of our own engine; --driver makes its own",
        ));
    }
    let url = Url::parse(&flags.url)?;
    let asked = ask(flags, &url)?;
    check_conditions(&flags.require, &flags.threshold)?;
    let stand = Stand::raise(flags, &url)?;
    let question = asked.at(flags, &url, &stand)?;
    // After pinning: threads started from here on inherit it.
    let interrupts = Interrupts::catch();
    let mut orders = orders(flags, shapes, &url, &question, &stand)?;
    for order in &orders {
        precheck::check(&order.load, &order.address).map_err(Failed::run)?;
    }
    let profiles = extras.profiles.map(|asked| asked(&stand.server));
    let profiles = profiles.transpose()?;
    let plan = plan(command, flags, &url, &orders, &stand.placement);
    let mut session =
        Session::begin_on(&stand, plan, Beside::default(), &flags.output, interrupts)?;
    let mut result = Ok(());
    for order in &mut orders {
        order.samples = samples.then(|| session.folder().clone());
        order.profiles = profiles.clone().map(|profiles| ProfileOrder {
            folder: Some(session.folder().clone()),
            ..profiles
        });
        if session.interrupted() {
            break;
        }
        if let Some(family) = stand.found_again() {
            order.server = Some(family);
        }
        let stepped = session.step(order).map(|_| ());
        result = session.served(&stand, stepped);
        if result.is_err() {
            break;
        }
    }
    drop(stand);
    // Steps side by side tell more of each other than each tells alone.
    judge_steps(&mut session.record);
    let record = session.finish(result, &flags.output)?;
    conclude(&record, &flags.require, &flags.threshold)
}

/// The driver's command for one step: `{connections}`, `{pipeline}` and `{duration}` (whole
/// seconds) stand for the step's. Steps that all run one and the same command are no ramp.
fn driver_spec(
    command: &str,
    load: &Load,
    steps: usize,
    run_as: RunAs,
) -> Result<DriverSpec, Failed> {
    if steps > 1 && !command.contains("{connections}") {
        return Err(Failed::usage(
            "a ramp of a driver needs `{connections}` in its command, such as \
             'wrk -t1 -c {connections} -d {duration}s {url}'",
        ));
    }
    let seconds = load.stop.after.as_secs_f64().ceil().max(1.0);
    let command = command
        .replace("{connections}", &load.connections.to_string())
        .replace("{pipeline}", &load.in_flight_per_connection.to_string())
        .replace("{duration}", &seconds.to_string());
    let spec = DriverSpec::parse(&command).map_err(Failed::usage)?;
    Ok(spec.as_whom(run_as))
}

fn orders(
    flags: &TargetFlags,
    shapes: &[Shape],
    url: &Url,
    question: &Question,
    stand: &Stand,
) -> Result<Vec<StepOrder>, Failed> {
    let order = |(index, shape): (usize, &Shape)| {
        let mut order = order(flags, shape, url, question, stand, shapes.len())?;
        order.index = index as u32;
        Ok(order)
    };
    shapes.iter().enumerate().map(order).collect()
}

/// One step, the first of so many: `steps` of a driver that all run the same command are
/// refused.
pub(crate) fn order(
    flags: &TargetFlags,
    shape: &Shape,
    url: &Url,
    question: &Question,
    stand: &Stand,
    steps: usize,
) -> Result<StepOrder, Failed> {
    if shape.arrival.is_open() && flags.think > Nanos(0) {
        return Err(Failed::usage(
            "--think is the pause of a closed loop; in an open loop requests are due by the clock: leave out \
             --think, or the rate",
        ));
    }
    let Question { request, secured } = question;
    let (server, placement) = (&stand.server, &stand.placement);
    let load = step_load(flags, shape, request, placement);
    if flags.driver.is_some() && flags.max_in_flight.is_some() {
        return Err(Failed::usage(
            "--max-in-flight is of our own engine; a --driver has its own, by its flags, or none",
        ));
    }
    if flags.driver.is_some() && flags.no_batching {
        return Err(Failed::usage(
            "--no-batching is of our own engine; a --driver takes answers as it does",
        ));
    }
    let producer = match &flags.driver {
        None => Producer::Engine(io_choice(flags.io)),
        Some(command) => Producer::Foreign {
            spec: Box::new(driver_spec(
                command,
                &load,
                steps,
                flags.children.run_as()?,
            )?),
            url: url.with_address(server.address),
        },
    };
    Ok(StepOrder {
        index: 0,
        name: step_name(url.path(), &load),
        target: Target {
            tls: secured.as_ref().map(|secured| secured.agreed.clone()),
            ..url.target(server.address)
        },
        address: server.address,
        load,
        request: request.clone(),
        tls: secured.as_ref().map(|secured| secured.client.clone()),
        producer,
        client_cpus: placement.client.clone(),
        null_server_cpu: placement.null_server_cpu(),
        seed: flags.seed,
        server: server.family.clone(),
        server_not_seen: server.not_seen.clone(),
        calibrate: (!flags.no_calibrate).then(|| Calibration::usual(shape.connections)),
        samples: None,
        profiles: None,
        watched: true,
        paced: false,
        relay: stand.lab.as_ref().and_then(Lab::relay_watch),
    })
}

/// A step that is held in turn with others: each round has its part of the time, and no less than
/// `least`; the engine's ceiling is not measured after each.
pub(crate) fn in_turn(
    mut target: TargetFlags,
    rounds: u32,
    least: Nanos,
    shape: &Shape,
    url: &Url,
    stand: &Stand,
) -> Result<StepOrder, Failed> {
    let each = target.duration.0 / u64::from(rounds);
    target.duration = Nanos(each.max(least.0));
    target.warmup = target.warmup.or(Some(Nanos::from_millis(300)));
    target.no_calibrate = true;
    let question = ask(&target, url)?.at(&target, url, stand)?;
    order(&target, shape, url, &question, stand, 1)
}

pub(crate) fn io_choice(io: IoFlag) -> IoChoice {
    match io {
        IoFlag::Auto => IoChoice::Auto,
        IoFlag::Uring => IoChoice::Uring,
        IoFlag::Epoll => IoChoice::Epoll,
    }
}

pub(crate) fn step_load(
    flags: &TargetFlags,
    shape: &Shape,
    request: &Exchange,
    placement: &Placement,
) -> Load {
    // Each worker needs a connection, and room for one in flight where that is bounded.
    let workers_max = shape
        .connections
        .min(flags.max_in_flight.unwrap_or(u32::MAX));
    Load {
        connections: shape.connections,
        in_flight_per_connection: shape.depth.unwrap_or(flags.pipeline),
        max_in_flight: flags.max_in_flight,
        workers: placement.workers(flags.workers, workers_max),
        arrival: shape.arrival,
        warmup: warmup(flags, shape.requests),
        stop: Stop {
            after: flags.duration,
            requests: shape.requests,
        },
        timeout: flags
            .deadline
            .map_or(flags.timeout, |deadline| deadline.min(flags.timeout)),
        drain: flags.drain,
        connection_per_request: flags.no_keepalive,
        method: request.method(),
        header_names: request.header_names(),
        body_bytes: request.body_bytes(),
        decode: decode(flags),
        no_batching: flags.no_batching,
    }
}

fn decode(flags: &TargetFlags) -> Decode {
    match flags.decode {
        _ if flags.inflate => Decode::Inflate,
        DecodeFlag::None => Decode::None,
        DecodeFlag::Check => Decode::Check,
        DecodeFlag::Inflate => Decode::Inflate,
    }
}

/// `/simple c=100`, with the depth and the rate where there is one.
pub(crate) fn step_name(path: &str, load: &Load) -> String {
    let depth = match load.in_flight_per_connection {
        1 => String::new(),
        depth => format!(" depth={depth}"),
    };
    let rate = match load.arrival {
        Arrival::Closed { .. } => String::new(),
        Arrival::Constant { rate } | Arrival::Poisson { rate } => format!(" rate={}", rate.0),
        Arrival::Ramp { from, to, .. } => format!(" rate={}..{}", from.0, to.0),
    };
    let bound = load
        .max_in_flight
        .map(|bound| format!(" max-in-flight={bound}"));
    let bound = bound.unwrap_or_default();
    format!("{path} c={}{depth}{bound}{rate}", load.connections)
}

pub(crate) fn plan(
    command: &str,
    flags: &TargetFlags,
    url: &Url,
    orders: &[StepOrder],
    placement: &Placement,
) -> Plan {
    let steps = orders.iter().map(|order| StepPlan {
        name: order.name.clone(),
        target: order.target.clone(),
        load: order.load.clone(),
    });
    let default_name = || {
        let path = url.path().trim_matches('/').replace('/', "-");
        match path.as_str() {
            "" => command.to_owned(),
            path => format!("{command}-{path}"),
        }
    };
    Plan {
        name: flags.output.name.clone().unwrap_or_else(default_name),
        command: command.to_owned(),
        target: orders[0].target.clone(),
        steps: steps.collect(),
        seed: flags.seed,
        client_cpus: placement.client.clone(),
        server_cpus: placement.server.clone(),
        subject: flags.subject.as_deref().map(given::command),
        driver: orders.iter().find_map(|order| match &order.producer {
            Producer::Engine(_) => None,
            Producer::Foreign { spec, .. } => Some(spec.command()),
        }),
        link: flags.link.clone(),
        effort: None,
    }
}

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
    /// What is asked of the server that stands. Under TLS it is greeted: what cannot be agreed
    /// on ends here.
    pub(crate) fn at(
        self,
        flags: &TargetFlags,
        url: &Url,
        stand: &Stand,
    ) -> Result<Question, Failed> {
        let address = stand.server.address;
        let client = match self.client {
            Some(client) => Some(client),
            None => tls::client(flags, url)?,
        };
        let secured = client
            .map(|client| tls::greet(client, address, flags, url))
            .transpose()?;
        let request = match self.request {
            Some(request) => request,
            None => {
                let source = Source::Server {
                    address,
                    tls: secured.as_ref().map(|secured| secured.client.clone()),
                    authority: url.authority.clone(),
                    metadata: headers(flags, url)?,
                };
                let asked = grpc_request(flags, url, &source).map_err(|failed| {
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
                checked(asked.into(), flags)?
            }
        };
        Ok(Question { request, secured })
    }
}

/// What is asked, in the protocol that the URL names. Encoded once here as well, so that
/// what cannot be sent is refused before anything is started.
pub(crate) fn ask(flags: &TargetFlags, url: &Url) -> Result<Asked, Failed> {
    if let Some(command) = &flags.driver {
        let spec = DriverSpec::parse(command).map_err(Failed::usage)?;
        Reach::of(&flags.i_may_load).check_driver(&spec)?;
    }
    let may_come_later = url.is_secure() && flags.subject.is_some();
    let client = match may_come_later {
        true => None,
        false => tls::client(flags, url)?,
    };
    let request = match url.protocol() {
        "tcp" => Some(Exchange::Framed(framed_request(flags)?)),
        "grpc" => grpc_source(flags)?
            .map(|source| grpc_request(flags, url, &source).map(Exchange::Grpc))
            .transpose()?,
        _ if flags.http2 => Some(Exchange::Http2(http_request(flags, url)?)),
        _ => Some(Exchange::Http1(http_request(flags, url)?)),
    };
    let request = request.map(|request| checked(request, flags)).transpose()?;
    Ok(Asked { request, client })
}

fn checked(exchange: Exchange, flags: &TargetFlags) -> Result<Exchange, Failed> {
    if let Some(flag) = flag_of_grpc(flags)
        && !matches!(exchange, Exchange::Grpc(_))
    {
        return Err(Failed::usage(format!(
            "{flag} is for targets of grpc://host:port/package.Service/Method"
        )));
    }
    exchange.check(flags.pipeline).map_err(Failed::usage)?;
    Ok(exchange)
}

fn flag_of_grpc(flags: &TargetFlags) -> Option<&'static str> {
    let given = [
        ("--proto", !flags.proto.is_empty()),
        ("--protoset", flags.protoset.is_some()),
        ("--deadline", flags.deadline.is_some()),
        ("--in-turn", flags.in_turn),
    ];
    let flag = given.iter().find(|(_, given)| *given);
    flag.map(|(flag, _)| *flag)
}

/// Where the method is described; `None`: at the server.
fn grpc_source(flags: &TargetFlags) -> Result<Option<Source>, Failed> {
    let refused = [
        ("--inflate", flags.inflate),
        ("--decode", flags.decode != DecodeFlag::None),
        ("-m", flags.method != "GET"),
        ("--http2", flags.http2),
        ("--frame", flags.frame.is_some()),
        ("--body-bytes", flags.body_bytes.is_some()),
    ];
    if let Some((flag, _)) = refused.iter().find(|(_, given)| *given) {
        return Err(Failed::usage(format!(
            "{flag} is not for grpc://, where a call is described by --proto, --protoset or the \
             server, and its message is the JSON of -b"
        )));
    }
    Ok(match (&flags.protoset, flags.proto.as_slice()) {
        (Some(file), _) => Some(Source::Set(file.clone())),
        (None, []) => None,
        (None, files) => Some(Source::Files {
            files: files.to_vec(),
            folders: flags.proto_path.clone(),
        }),
    })
}

fn grpc_request(flags: &TargetFlags, url: &Url, source: &Source) -> Result<grpc::Request, Failed> {
    let json = body(flags)?
        .map(String::from_utf8)
        .transpose()
        .map_err(|_| Failed::usage("the body is not JSON: it is not even UTF-8"))?;
    let described = messages::describe(source, url.path(), json.as_deref())?;
    Ok(grpc::Request {
        kind: described.kind,
        messages: described.messages,
        in_turn: flags.in_turn,
        metadata: headers(flags, url)?,
        deadline: flags
            .deadline
            .map(|deadline| Duration::from_nanos(deadline.0)),
        ..grpc::Request::unary(&url.authority, url.path(), "")
    })
}

fn framed_request(flags: &TargetFlags) -> Result<framed::Request, Failed> {
    let format = flags.frame.ok_or_else(|| {
        Failed::usage("tcp:// needs --frame: how messages are framed, such as --frame u32be")
    })?;
    let refused = [
        ("-H", !flags.headers.is_empty()),
        ("--inflate", flags.inflate),
        ("--decode", flags.decode != DecodeFlag::None),
        ("-m", flags.method != "GET"),
        ("--http2", flags.http2),
    ];
    if let Some((flag, _)) = refused.iter().find(|(_, given)| *given) {
        return Err(Failed::usage(format!(
            "{flag} is HTTP's, and tcp:// has none; the message is given with -b or --body-bytes"
        )));
    }
    Ok(framed::Request {
        format,
        message: body(flags)?.unwrap_or_default(),
    })
}

fn http_request(flags: &TargetFlags, url: &Url) -> Result<Request, Failed> {
    if let Some(format) = &flags.frame {
        return Err(Failed::usage(format!(
            "--frame {format} is for tcp://, and the target is {}://",
            url.scheme
        )));
    }
    let mut request = Request::new(
        flags.method.clone(),
        url.authority.clone(),
        url.path_and_query.clone(),
    );
    request.headers = headers(flags, url)?;
    if let Some(body) = body(flags)? {
        request = request.body(body);
    }
    Ok(request)
}

/// Fields of the user, and those that the URL stands for.
fn headers(flags: &TargetFlags, url: &Url) -> Result<Vec<(String, String)>, Failed> {
    let mut headers = Vec::new();
    for (at, header) in flags.headers.iter().enumerate() {
        // Not quoted back: it may hold a secret.
        let (name, value) = header.split_once(':').ok_or_else(|| {
            Failed::usage(format!(
                "-H number {} has no colon: write it as 'Accept: text/html'",
                at + 1
            ))
        })?;
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    if let Some(user_info) = &url.user_info {
        let encoded = BASE64.encode(user_info);
        headers.push(("Authorization".to_owned(), format!("Basic {encoded}")));
    }
    Ok(headers)
}

fn body(flags: &TargetFlags) -> Result<Option<Vec<u8>>, Failed> {
    if let Some(bytes) = flags.body_bytes {
        if bytes.0 > BODY_BYTES_MAX {
            return Err(Failed::usage(format!(
                "--body-bytes is {bytes}; at most 64 MiB are sent with a request"
            )));
        }
        return Ok(Some(vec![b'x'; bytes.0 as usize]));
    }
    flags.body.as_ref().map(Body::bytes).transpose()
}
