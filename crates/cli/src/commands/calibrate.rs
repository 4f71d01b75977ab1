//! `calibrate`: the most that this machine's workers can drive, against a null server.

use std::net::SocketAddr;

use serde_json::json;
use wallfinder_engine::StepSpec;
use wallfinder_engine::Typical;
use wallfinder_engine::calibrate::calibrate as measure;
use wallfinder_engine::precheck;
use wallfinder_model::drive::Share;
use wallfinder_model::{Load, Nanos, Stop};
use wallfinder_report::number;
use wallfinder_wire::{Exchange, Request};

use crate::exit::Failed;
use crate::flags::{CalibrateFlags, PlainFormat};
use crate::output;
use crate::placement::Placement;
use crate::tls;

/// `wallfinder calibrate`.
pub(crate) fn calibrate(flags: &CalibrateFlags) -> Result<(), Failed> {
    let client_cpus = flags.client_cpus.clone().map(|list| list.0);
    let placement = Placement::decide(client_cpus, None, true, None);
    let workers = flags.workers.unwrap_or(placement.processors());
    let load = Load {
        in_flight_per_connection: flags.pipeline,
        workers: workers.clamp(1, flags.connections),
        stop: Stop {
            after: flags.duration,
            requests: None,
        },
        timeout: Nanos::from_secs(10),
        ..Load::closed(flags.connections)
    };
    let request = Request::get("null", "/");
    let spec = StepSpec {
        load,
        // Replaced by the null server's own.
        address: SocketAddr::from(([127, 0, 0, 1], 9)),
        request: match flags.http2 {
            true => Exchange::Http2(request),
            false => Exchange::Http1(request),
        },
        tls: flags.tls.then(|| tls::of_a_null_server(flags.http2)),
        cpus: placement.client.clone(),
        io: flags.io.into(),
        seed: 1,
        share: Share::WHOLE,
        slots: None,
        samples: None,
        spare_connections: 0,
        standby_connections: 0,
        paddings: Vec::new(),
        under_quota: false,
        speed: 1.0,
    };
    precheck::check(&spec.load, &spec.address).map_err(Failed::run)?;
    let body_bytes = flags.answer_bytes.0;
    let typical = Typical {
        body_bytes,
        messages: 1,
        closes: false,
    };
    let ceiling = measure(&spec, typical, placement.null_server_cpu(), flags.duration)
        .map_err(Failed::run)?;
    if flags.format == PlainFormat::Json {
        let document = json!({
            "load": spec.load,
            "answer_bytes": body_bytes,
            "cpus": placement.client,
            "tls": flags.tls,
            "http2": flags.http2,
            "ceiling": ceiling,
        });
        return output::put(&format!("{document:#}\n"), None);
    }
    let workers = spec.load.workers;
    let text = format!(
        " load      {connections} connections x {depth} in flight, answers of {body_bytes} B{under}\n \
         workers     {workers} on {place}\n \
         driven    {driven} requests/s against a null server\n \
         ceiling   {throughput} requests/s ({how})\n \
         cost      {cost} of worker CPU per request\n",
        connections = flags.connections,
        depth = flags.pipeline,
        under = if flags.tls { ", under TLS" } else { "" },
        place = cpus(&placement.client),
        driven = number::amount(ceiling.driven),
        throughput = number::amount(ceiling.throughput),
        how = if ceiling.workers_saturated {
            "measured: the workers were busy"
        } else {
            "extrapolated: the null server was busy before the workers were"
        },
        cost = number::span(ceiling.cpu_per_request_ns),
    );
    output::put(&text, None)
}

fn cpus(cpus: &[u32]) -> String {
    if cpus.is_empty() {
        return "any processor".to_owned();
    }
    let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
    format!("cpu {}", list.join(", "))
}
