//! The most that this machine's lanes can drive for a load: measured, then compared with
//! every result, so that nobody mistakes the engine's ceiling for a server's.

use std::sync::Arc;

use wallfinder_model::record::Ceiling;
use wallfinder_model::{Arrival, Decode, Nanos, Stop};
use wallfinder_wire::{Exchange, framed, http1};

use crate::lane::Signals;
use crate::null_server::NullServer;
use crate::protocol::http1_options;
use crate::run::{EngineError, StepSpec, Unwatched, bad_request, run};

/// Share of its processor from which a lane counts as saturated.
const SATURATED_SHARE: f64 = 0.95;

/// Drives the load of `spec`, as a closed loop, at a null server that answers each request
/// with a body of `body_bytes`. The server runs on `server_cpu`, if given: on a processor
/// of the lanes it would take their time.
///
/// Where the null server binds first, the ceiling is extrapolated from the lanes' CPU time
/// per request, and says so; busier lanes take less per request, so it is then a lower
/// bound.
pub fn calibrate(
    spec: &StepSpec,
    body_bytes: u64,
    server_cpu: Option<u32>,
    measure: Nanos,
) -> Result<Ceiling, EngineError> {
    let mut spec = spec.clone();
    spec.samples = None;
    spec.load.arrival = Arrival::Closed { think: Nanos(0) };
    spec.load.connection_per_request = false;
    spec.load.decode = Decode::None;
    spec.load.warmup = Nanos(measure.0 / 3);
    spec.load.stop = Stop {
        after: measure,
        requests: None,
    };
    let (request_bytes, answer) = lengths(&spec, body_bytes)?;
    let server = NullServer::start(request_bytes, &answer, server_cpu).map_err(|error| {
        EngineError::Refused {
            what: "the null server",
            why: error.to_string(),
        }
    })?;
    spec.address = server.address();
    let measured = run(&spec, &Arc::new(Signals::default()), &mut Unwatched)?;
    let cpu_ns: u64 = measured.lanes.iter().map(|lane| lane.cpu_ns).sum();
    let busiest = measured
        .lanes
        .iter()
        .map(|lane| lane.busy_share)
        .fold(0.0, f64::max);
    let answered = measured.counts.answered.max(1);
    let cpu_per_request_ns = cpu_ns as f64 / answered as f64;
    let lanes_saturated = busiest >= SATURATED_SHARE;
    let extrapolated = measured.lanes.len() as f64 * 1e9 / cpu_per_request_ns.max(1.0);
    Ok(Ceiling {
        throughput: if lanes_saturated {
            measured.throughput
        } else {
            extrapolated.max(measured.throughput)
        },
        lanes_saturated,
        cpu_per_request_ns,
        driven: measured.throughput,
    })
}

/// Bytes of a request, and an answer to it.
fn lengths(spec: &StepSpec, body_bytes: u64) -> Result<(usize, Vec<u8>), EngineError> {
    match &spec.request {
        _ if spec.tls.is_some() => Err(speechless()),
        Exchange::Http1(request) => {
            let shared = http1::Shared::new(request, http1_options(spec));
            let request_bytes = shared.map_err(bad_request)?.request_bytes();
            Ok((request_bytes, answer(request.method == "HEAD", body_bytes)))
        }
        Exchange::Http2(_) | Exchange::Grpc(_) => Err(speechless()),
        Exchange::Framed(request) if request.format.id.is_some() => Err(speechless()),
        Exchange::Framed(request) if request.format.credit => Err(EngineError::Refused {
            what: "a null server",
            why: "it reads nothing, and credit is granted for what was read".into(),
        }),
        Exchange::Framed(request) => {
            let answer = framed::Request {
                message: vec![b'x'; body_bytes.max(1) as usize],
                ..request.clone()
            };
            let bytes = |request| framed::encode(request).map_err(bad_request);
            Ok((bytes(request)?.len(), bytes(&answer)?))
        }
    }
}

fn speechless() -> EngineError {
    EngineError::Refused {
        what: "a null server",
        why: "it reads nothing, and each answer must name its own request".into(),
    }
}

fn answer(head_only: bool, body_bytes: u64) -> Vec<u8> {
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nServer: null\r\nContent-Type: application/octet-stream\r\n\
         Content-Length: {body_bytes}\r\n\r\n"
    )
    .into_bytes();
    if !head_only {
        answer.resize(answer.len() + body_bytes as usize, b'x');
    }
    answer
}
