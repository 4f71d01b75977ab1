//! From a job and a testbed to the order of one step, and to the plan of a run.

use std::sync::Arc;

use wallfinder_conduct::{Calibration, Producer, StepOrder};
use wallfinder_model::plan::StepPlan;
use wallfinder_model::{Arrival, Load, Nanos, Plan, Scenario, Stop, Target};
use wallfinder_report::number;
use wallfinder_scenario::loads;
use wallfinder_testbed::child::RunAs;
use wallfinder_testbed::driver::DriverSpec;
use wallfinder_testbed::lab::Lab;
use wallfinder_wire::Exchange;
use wallfinder_wire::mix::Order;

use crate::exchange::{Question, ask};
use crate::exit::Failed;
use crate::given;
use crate::job::Job;
use crate::placement::Placement;
use crate::testbed::Testbed;

/// How long the engine's own ceiling is measured after a step.
pub(crate) const CALIBRATE_FOR: Nanos = Nanos::from_millis(600);

/// One step, the first of so many: `steps` of a driver that all run the same command are
/// refused.
pub(crate) fn order(
    job: &Job,
    question: &Question,
    testbed: &Testbed,
    steps: usize,
) -> Result<StepOrder, Failed> {
    let (server, placement) = (&testbed.server, &testbed.placement);
    let Question {
        request, secured, ..
    } = question;
    let (scenario, url) = (&job.scenario, &job.url);
    let load = planned(job, request, placement);
    let producer = match scenario.driver() {
        None => Producer::Engine(scenario.load.io),
        Some(command) => Producer::Foreign {
            spec: Box::new(driver_spec(command, &load, steps, job.run_as()?)?),
            url: url.with_address(server.address),
        },
    };
    let calibration = Calibration::usual(load.connections);
    Ok(StepOrder {
        index: 0,
        name: step_name(&asked(scenario, url.path()), &load),
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
        seed: scenario.load.seed,
        client: Arc::clone(&testbed.client),
        server: Arc::clone(&server.host),
        server_not_seen: server.not_seen.clone(),
        calibrate: (!scenario.watch.no_calibrate).then_some(calibration),
        samples: None,
        profiles: None,
        watched: true,
        paced: false,
        relay: testbed.lab.as_ref().and_then(Lab::relay_watch),
        behind: None,
    })
}

/// A step that is held in turn with others, at a server that stands.
pub(crate) fn in_turn(
    job: &Job,
    rounds: u32,
    least: Nanos,
    testbed: &Testbed,
) -> Result<StepOrder, Failed> {
    let job = job.with(loads::in_turn(&job.scenario, rounds, least))?;
    let question = ask(&job)?.at(&job, testbed)?;
    order(&job, &question, testbed, 1)
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

/// What a load leaves out of the log that it replays, for it ends before the first pass over it does, in words.
pub(crate) fn cut_off(load: &Load, request: &Exchange) -> Option<String> {
    let Arrival::Replay { over, again, .. } = load.arrival else {
        return None;
    };
    let at_ns = &request.mix()?.replay.as_ref()?.at_ns;
    let lasts_ns = load.warmup.0.saturating_add(load.stop.after.0);
    let reached = at_ns.partition_point(|at_ns| *at_ns <= lasts_ns);
    let left_out = at_ns.len() - reached;
    let ends_by_count = load
        .stop
        .requests
        .is_some_and(|asked| asked <= reached as u64);
    (left_out > 0 && !ends_by_count).then(|| {
        format!(
            "The replay ends after {}{}, and the log goes on until {}: it leaves out {} of the log's {} requests. Set a \
             longer time with -d.",
            number::rough(lasts_ns),
            if again { " of its first pass" } else { "" },
            number::rough(over.0),
            number::whole(left_out as u64),
            number::whole(at_ns.len() as u64)
        )
    })
}

/// The load as the scenario has it, with what only its request and the placement tell.
fn planned(job: &Job, request: &Exchange, placement: &Placement) -> Load {
    let target = &job.scenario.target;
    let mut load = job.scenario.load.clone();
    let mut tables = request.mix().into_iter().flat_map(|mix| &mix.tables);
    // Rows that are used once are used where they are measured.
    if tables.any(|table| table.order == Order::Once) {
        load.warmup.get_or_insert_default();
    }
    let connections = load.connections.unwrap_or(loads::CONNECTIONS);
    let replay = job.scenario.traffic.replay.as_ref();
    let logged = request
        .mix()
        .and_then(|mix| mix.replay.as_ref())
        .zip(replay);
    let (mut arrival, mut after) = (load.arrival(), load.duration);
    if let Some((logged, replay)) = logged {
        let over = Nanos(logged.at_ns.last().copied().unwrap_or(0));
        arrival = Arrival::Replay {
            requests: logged.at_ns.len() as u64,
            over,
            speed: replay.speed,
            again: replay.again,
        };
        if !replay.again {
            // Until the last was sent and could be answered.
            after = after.min(Nanos(over.0.saturating_add(load.timeout.0)));
        }
    }
    Load {
        connections,
        in_flight_per_connection: load.pipeline,
        max_in_flight: load.max_in_flight,
        workers: loads::workers(&job.scenario, connections, placement.processors()),
        arrival,
        warmup: load.warmup(),
        stop: Stop {
            after,
            requests: load.requests,
        },
        timeout: target
            .deadline
            .map_or(load.timeout, |deadline| deadline.min(load.timeout)),
        drain: load.drain,
        connection_per_request: load.no_keepalive,
        method: request.method(),
        header_names: request.header_names(),
        body_bytes: request.body_bytes(),
        decode: target.decode,
        no_batching: load.no_batching,
    }
}

/// The path, or how many kinds of request are mixed.
fn asked(scenario: &Scenario, path: &str) -> String {
    let traffic = &scenario.traffic;
    match traffic.request.len() + traffic.session.len() {
        0 if traffic.replay.is_some() => "log".to_owned(),
        0 => path.to_owned(),
        kinds => format!("mix of {kinds}"),
    }
}

/// `/simple c=100`, with the depth and the rate where there is one.
fn step_name(path: &str, load: &Load) -> String {
    let depth = match load.in_flight_per_connection {
        1 => String::new(),
        depth => format!(" depth={depth}"),
    };
    let rate = match load.arrival {
        Arrival::Closed { .. } => String::new(),
        Arrival::Constant { rate } | Arrival::Poisson { rate } => format!(" rate={}", rate.0),
        Arrival::Ramp { from, to, .. } => format!(" rate={}..{}", from.0, to.0),
        Arrival::Replay { speed, .. } => format!(" replay x{speed}"),
    };
    let bound = load
        .max_in_flight
        .map(|bound| format!(" max-in-flight={bound}"));
    let bound = bound.unwrap_or_default();
    format!("{path} c={}{depth}{bound}{rate}", load.connections)
}

/// What a run of these steps sets out to do.
pub(crate) fn plan(command: &str, job: &Job, orders: &[StepOrder], placement: &Placement) -> Plan {
    let steps = orders.iter().map(|order| StepPlan {
        name: order.name.clone(),
        target: order.target.clone(),
        load: order.load.clone(),
    });
    let default_name = || {
        let path = job.url.path().trim_matches('/').replace('/', "-");
        match path.as_str() {
            "" => command.to_owned(),
            path => format!("{command}-{path}"),
        }
    };
    let scenario = &job.scenario;
    Plan {
        name: job.around.output.name.clone().unwrap_or_else(default_name),
        command: command.to_owned(),
        target: orders[0].target.clone(),
        steps: steps.collect(),
        seed: scenario.load.seed,
        client_cpus: placement.client.clone(),
        server_cpus: placement.server.clone(),
        subject: scenario.server.subject.as_deref().map(given::command),
        driver: orders.iter().find_map(|order| match &order.producer {
            Producer::Engine(_) => None,
            Producer::Foreign { spec, .. } => Some(spec.command()),
        }),
        link: scenario.link.lay.clone(),
        effort: None,
        study: None,
    }
}

#[cfg(test)]
mod tests {
    use wallfinder_wire::Request;
    use wallfinder_wire::mix::{Mix, Replay};

    use super::*;

    #[test]
    fn what_a_replay_leaves_out_of_its_first_pass_is_counted() {
        // Five requests, one each second.
        let at_ns: Vec<u64> = (0..5).map(|second| second * 1_000_000_000).collect();
        let said_of = |warmup: u64, lasts: u64, again: bool, requests: Option<u64>| {
            let mut mix = Mix::of_requests([("a", 1, Request::get("h", "/"))]);
            mix.replay = Some(Replay {
                at_ns: at_ns.clone(),
                flows: vec![0; 5],
                again_after_ns: again.then_some(5_000_000_000),
            });
            let mut load = Load::closed(1);
            load.arrival = Arrival::Replay {
                requests: 5,
                over: Nanos::from_secs(4),
                speed: 1.0,
                again,
            };
            load.warmup = Nanos::from_secs(warmup);
            load.stop.after = Nanos::from_secs(lasts);
            load.stop.requests = requests;
            cut_off(&load, &Exchange::Mix(Box::new(mix)))
        };
        let said = |warmup, lasts, again| said_of(warmup, lasts, again, None);
        for again in [false, true] {
            let text = said(0, 2, again).expect("it is cut");
            assert!(text.contains("2 of the log's 5 requests"), "{text}");
            assert_eq!(text.contains("of its first pass"), again, "{text}");
            let warm = said(1, 2, again).expect("it is cut");
            assert!(warm.contains("1 of the log's 5 requests"), "{warm}");
            assert_eq!(said(0, 4, again), None);
            assert_eq!(said(0, 9, again), None);
            // Whoever asks for so many knows what is left out, where they are sent in time.
            assert_eq!(said_of(0, 2, again, Some(3)), None);
            assert!(said_of(0, 2, again, Some(4)).is_some());
        }
    }
}
