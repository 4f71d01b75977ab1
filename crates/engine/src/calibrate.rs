//! The most that this machine's workers can drive for a load: measured, then compared with
//! every result, so that the engine's ceiling is not mistaken for a server's.

use std::io;
use std::sync::Arc;

use wallfinder_model::drive::{Measured, Share, Typical};
use wallfinder_model::record::Ceiling;
use wallfinder_model::{Arrival, Decode, Load, Nanos, Stop};
use wallfinder_wire::mix::{Mix, Protocol};
use wallfinder_wire::{Exchange, framed, http1};

use crate::error::{EngineError, bad_request};
use crate::null_server::streams::Answer;
use crate::null_server::{NullServer, Stand};
use crate::precheck;
use crate::protocol::http1_options;
use crate::run::{run, unobserved};
use crate::signals::Signals;
use crate::spec::StepSpec;

/// Share of its processor from which a worker counts as saturated.
const SATURATED_SHARE: f64 = 0.95;

/// Longer answers over streams would wait for windows, which a null server does not watch.
const STREAMED_BYTES_MAX: u64 = 1 << 20;

/// Requests may wait for so long at the least: that a server's answers are soon too late says nothing of
/// the workers.
const TIMEOUT_MIN: Nanos = Nanos::from_secs(10);

/// Drives the load of `spec`, as a closed loop, at a null server that gives each request such an
/// answer; under TLS with the cipher suite that was agreed on. Where each request had a connection of
/// its own, it has one here. The server runs on `server_cpu`, if given: on a processor of the workers it
/// would take their time.
///
/// Where the null server binds first, the ceiling is extrapolated from the workers' CPU time
/// per request, and says so; busier workers take less per request, so it is then a lower
/// bound.
///
/// A ceiling of another load is none: what a null server cannot play, and what did not go well, is
/// an error that says why.
pub fn calibrate(
    spec: &StepSpec,
    typical: Typical,
    server_cpu: Option<u32>,
    measure: Nanos,
) -> Result<Ceiling, EngineError> {
    let looks_into_bodies = spec.request.mix().is_some_and(Mix::looks_into_bodies);
    let mut spec = spec.clone();
    spec.samples = None;
    spec.share = Share::WHOLE;
    spec.slots = None;
    spec.request = alone(&spec.request);
    spec.spare_connections = 0;
    spec.standby_connections = 0;
    spec.load.arrival = Arrival::Closed { think: Nanos(0) };
    spec.load.connection_per_request |= typical.closes;
    spec.load.timeout = spec.load.timeout.max(TIMEOUT_MIN);
    spec.load.warmup = Nanos(measure.0 / 3);
    spec.load.stop = Stop {
        after: measure,
        requests: None,
    };
    check_kind(&spec.load, spec.tls.is_some())?;
    if looks_into_bodies {
        return Err(no_ceiling(
            "bodies of answers are looked into, and a null server has none like the server's",
        ));
    }
    precheck::check_both_ends(&spec.load).map_err(|error| no_ceiling(error.0))?;
    let server = null_server(&spec, typical, server_cpu)?;
    spec.address = server.address();
    spec.tls = spec.tls.map(|client| client.that_believes_anybody());
    let measured = run(&spec, &Arc::new(Signals::default()), &mut unobserved)?;
    check_outcome(&measured, &server)?;
    let cpu_ns: u64 = measured.workers.iter().map(|worker| worker.cpu_ns).sum();
    let busiest = measured
        .workers
        .iter()
        .map(|worker| worker.busy_share)
        .fold(0.0, f64::max);
    let cpu_per_request_ns = cpu_ns as f64 / measured.counts.answered as f64;
    let workers_saturated = busiest >= SATURATED_SHARE;
    let extrapolated = measured.workers.len() as f64 * 1e9 / cpu_per_request_ns.max(1.0);
    Ok(Ceiling {
        throughput: if workers_saturated {
            measured.throughput
        } else {
            extrapolated.max(measured.throughput)
        },
        workers_saturated,
        cpu_per_request_ns,
        driven: measured.throughput,
        age_s: None,
        host: None,
        of_hosts: Vec::new(),
    })
}

/// Of a mix the kind that is sent most, made anew each time as it is there: a null server tells requests apart by their
/// length.
fn alone(request: &Exchange) -> Exchange {
    let alone = request.mix().and_then(Mix::most_common);
    alone.map_or_else(|| request.clone(), |mix| Exchange::Mix(Box::new(mix)))
}

/// Refuses a load whose requests cost the workers more than they would before a null server.
fn check_kind(load: &Load, is_under_tls: bool) -> Result<(), EngineError> {
    let decodes = match load.decode {
        Decode::None => false,
        // The first body of each connection: of connections with one answer each, all of them.
        Decode::Check => load.connection_per_request,
        Decode::Inflate => true,
    };
    if decodes {
        return Err(no_ceiling(
            "every body is decoded, and a null server has none like the server's",
        ));
    }
    if load.connection_per_request && is_under_tls {
        return Err(no_ceiling(
            "every request has a handshake of TLS, and a null server's is not like the server's",
        ));
    }
    Ok(())
}

/// Refuses a measurement in which anything failed: those workers had less to do.
fn check_outcome(measured: &Measured, server: &NullServer) -> Result<(), EngineError> {
    let counts = &measured.counts;
    if server.is_short() {
        return Err(no_ceiling(
            "the null server could not take every connection",
        ));
    }
    if let Some(class) = counts.connect_failures.keys().next() {
        return Err(no_ceiling(format!(
            "connections to the null server could not be made ({class})"
        )));
    }
    if let Some(class) = counts.failed.keys().next() {
        return Err(no_ceiling(format!(
            "requests to the null server failed ({class})"
        )));
    }
    if counts.answered == 0 {
        return Err(no_ceiling("the null server answered nothing in time"));
    }
    Ok(())
}

/// A server that answers the load as it was answered, and does nothing else.
fn null_server(
    spec: &StepSpec,
    typical: Typical,
    cpu: Option<u32>,
) -> Result<NullServer, EngineError> {
    let one_each = spec.load.connection_per_request;
    // Over HTTP/2 only the client knows that a connection has had its last stream.
    let is_http1 = spec
        .request
        .mix()
        .is_some_and(|mix| mix.protocol == Protocol::Http1);
    let closes =
        one_each && (is_http1 || matches!(spec.request, Exchange::Http1(_) | Exchange::Framed(_)));
    let stand = Stand::of(cpu, spec.tls.as_ref())?.closing(closes);
    let body_bytes = typical.body_bytes as usize;
    let streams = |answer| started(NullServer::streams(answer, &stand));
    let sample = spec.request.mix().and_then(Mix::sample);
    match sample.as_ref().unwrap_or(&spec.request) {
        Exchange::Http2(_) | Exchange::Grpc(_) if typical.body_bytes > STREAMED_BYTES_MAX => Err(
            no_ceiling("answers are longer than a null server has windows for"),
        ),
        Exchange::Mix(_) => unreachable!("its sample is a request"),
        Exchange::Http1(request) => {
            let shared = http1::Shared::new(request, http1_options(spec));
            let request_bytes = shared.map_err(bad_request)?.request_bytes();
            let answer = answer(request.method == "HEAD", typical.body_bytes, closes);
            started(NullServer::counted(request_bytes, &answer, &stand))
        }
        Exchange::Http2(request) => streams(Answer::http(body_bytes, request.method == "HEAD")),
        Exchange::Grpc(request) if request.in_turn => Err(no_ceiling(
            "a null server answers a call when it is whole, and messages go in turn",
        )),
        Exchange::Grpc(request) => {
            // Where a method does not stream, an answer has one message.
            let messages = match request.kind.server_streams() {
                true => typical.messages as usize,
                false => 1,
            };
            streams(Answer::grpc(body_bytes / messages.max(1), messages))
        }
        Exchange::Framed(request) if request.format.credit => Err(no_ceiling(
            "a null server reads nothing, and credit is granted for what was read",
        )),
        Exchange::Framed(request) => {
            let format = request.format;
            let id = format.id.map(|id| {
                let from = format.length.width + id.offset;
                from..from + id.integer.width
            });
            let message_min = id.as_ref().map_or(1, |id| id.end - format.length.width);
            let answer = framed::Request {
                message: vec![b'x'; body_bytes.max(message_min)],
                ..request.clone()
            };
            let bytes = |request| framed::encode(request).map_err(bad_request);
            let (request, answer) = (bytes(request)?.len(), bytes(&answer)?);
            started(match id {
                Some(id) => NullServer::named(request, answer, id, &stand),
                None => NullServer::counted(request, &answer, &stand),
            })
        }
    }
}

fn started(server: io::Result<NullServer>) -> Result<NullServer, EngineError> {
    server.map_err(|error| EngineError::Refused {
        what: "the null server",
        why: error.to_string(),
    })
}

fn no_ceiling(why: impl Into<String>) -> EngineError {
    EngineError::NoCeiling { why: why.into() }
}

fn answer(head_only: bool, body_bytes: u64, closes: bool) -> Vec<u8> {
    let connection = if closes { "Connection: close\r\n" } else { "" };
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nServer: null\r\nContent-Type: application/octet-stream\r\n\
         {connection}Content-Length: {body_bytes}\r\n\r\n"
    )
    .into_bytes();
    if !head_only {
        answer.resize(answer.len() + body_bytes as usize, b'x');
    }
    answer
}
