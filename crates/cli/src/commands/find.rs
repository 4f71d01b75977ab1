//! `find`: ramp to the ceiling, squeeze there, and say which wall it is, how that was
//! established, and which comes next.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsRawFd;

use wallfinder_conduct::{Calibration, Looks, ProfileOrder, StepOrder, sight};
use wallfinder_engine::precheck;
use wallfinder_judge::proof::{self, Prediction};
use wallfinder_model::experiment::{Effort, Neighbour, Setting, Squeeze};
use wallfinder_model::telemetry::{FamilySummary, Telemetry};
use wallfinder_model::{Nanos, Step, Wall};
use wallfinder_probe::{Family, NotSeen, server_of, stacks};
use wallfinder_testbed::child::Shim;
use wallfinder_testbed::lab::{self, BadLink, LinkSpec, Shaper};
use wallfinder_testbed::squeeze::{self, Scene, Side};

use crate::commands::lift::lift;
use crate::commands::load::{self, CALIBRATE_FOR, Shape};
use crate::commands::profile;
use crate::commands::record::{check_conditions, conclude};
use crate::exit::Failed;
use crate::flags::{EffortFlag, FindFlags, TargetFlags};
use crate::interrupt::Interrupts;
use crate::output;
use crate::placement::Placement;
use crate::session::{Beside, Proof, Session};
use crate::stand::{Home, Stand};
use crate::target::Url;

/// Connections that the ramp begins and ends with.
const RAMP_FIRST: u32 = 4;
const RAMP_LAST: u32 = 1024;
/// Steps in a row that bring less than this much more end the ramp.
const GROWTH_MIN: f64 = 1.05;
const FLAT_STEPS: usize = 2;
/// The ceiling is reached by whoever comes this close to the most.
const AT_CEILING: f64 = 0.97;
/// Length of a step of the ramp.
const RAMP_STEP: Nanos = Nanos::from_millis(800);
const RAMP_WARMUP: Nanos = Nanos::from_millis(300);
/// Connections, or requests in flight, of a worker at the least: each worker rests a whole number of its own, and of these
/// a fifth and a tenth are more than none.
const WORKER_CONNECTIONS_MIN: u32 = 8;
/// How long requests are asked one at a time.
const ALONE_LEAST: Nanos = Nanos::from_secs(1);
const ALONE_MOST: Nanos = Nanos::from_secs(5);
/// How long a foreign driver is let run at a time.
const DRIVER_RUN: Nanos = Nanos::from_secs(30);

/// `wallfinder find`.
pub(crate) fn find(flags: &FindFlags) -> Result<(), Failed> {
    let target = &flags.target;
    let url = Url::parse(&target.url)?;
    let asked = load::ask(target, &url)?;
    check_conditions(&target.require, &target.threshold)?;
    let questions = questions(&flags.what_if, target.link.as_deref())?;
    let effort = effort(flags.effort);
    let home = Home::here()?;
    let started_in = File::open("/proc/thread-self/ns/net").map_err(Failed::run)?;
    let mut stand = Stand::raise(target, &url)?;
    let question = asked.at(target, &url, &stand)?;
    let (downlink, uplink) = shapers(target, &mut stand, &started_in)?;
    let inside = can_look_inside(flags, &stand)?;
    let interrupts = Interrupts::catch();
    let order = |connections: u32, duration: Nanos| -> Result<StepOrder, Failed> {
        let mut target = target.clone();
        target.duration = duration;
        let shape = Shape::held(connections, flags.rate, target.think);
        let mut order = load::order(&target, &shape, &url, &question, &stand, 1)?;
        if target.workers.is_none() && !order.load.arrival.is_open() {
            let most = workers_max(connections, order.load.max_in_flight);
            order.load.workers = order.load.workers.min(most);
        }
        Ok(order)
    };
    let ramped = flags.connections.is_none() && flags.rate.is_none() && target.driver.is_none();
    let mut connections = flags
        .connections
        .unwrap_or(if ramped { RAMP_FIRST } else { 64 });
    let base_window = base_window(effort, flags.window);
    let first = order(connections, base_window)?;
    precheck::check(&first.load, &first.address).map_err(Failed::run)?;
    let mut plan = load::plan("find", target, &url, &[first], &stand.placement);
    plan.effort = Some(effort);
    let mut session = Session::begin_on(
        &stand,
        plan,
        Beside::default(),
        &target.output,
        interrupts.clone(),
    )?;
    let prepare = || -> Result<Option<(StepOrder, Proof, StepOrder)>, Failed> {
        if ramped {
            connections = ramp(&mut session, &order)?;
        }
        if session.interrupted() {
            return Ok(None);
        }
        let mut at_ceiling = order(connections, base_window)?;
        at_ceiling.index = session.record.steps.len() as u32;
        at_ceiling.load.warmup = Nanos::from_millis(500);
        at_ceiling.calibrate = (!target.no_calibrate).then(|| Calibration::anew(CALIBRATE_FOR));
        let backend_s = sight::cpu_seconds(&target.backend_pid);
        session.step(&at_ceiling)?;
        let backend_s = sight::cpu_seconds(&target.backend_pid) - backend_s;
        let loaded = [at_ceiling.load.warmup, base_window];
        let loaded_s: f64 = loaded.map(Nanos::as_secs_f64).iter().sum();
        if session.interrupted() {
            return Ok(None);
        }
        // A foreign driver is started again whenever its time is up.
        let held = order(connections, DRIVER_RUN)?;
        let steps = &session.record.steps;
        let ground = Ground {
            placement: &stand.placement,
            family: stand.server.family.as_ref(),
            backend_pids: &target.backend_pid,
            backend_cores: backend_s / loaded_s,
            own_engine: target.driver.is_none(),
            seed: target.seed,
        };
        let proof = Proof {
            window: flags.window,
            null: flags.null,
            ..ground.proof(effort, (downlink, uplink), &held, steps)
        };
        let looked_at = match target.driver.is_some() {
            true => order(connections, driven_for(effort))?,
            false => held.clone(),
        };
        Ok(Some((held, proof, looked_at)))
    };
    let prepared = prepare();
    let result = prepared.and_then(|prepared| {
        let Some((held, proof, looked_at)) = prepared else {
            return Ok(());
        };
        let proved = session.prove(&held, proof, stand.restart())?;
        let cut_short = proved.experiment.as_ref();
        let cut_short = cut_short.and_then(|experiment| experiment.cut_short.clone());
        if let (Some(why), false) = (cut_short, session.interrupted()) {
            return Err(Failed::run(format!("the squeezing ended early: {why}")));
        }
        if let Some(alone) = alone(flags, &url, &question, &stand, &session)? {
            session.ask_alone(&alone)?;
        }
        match inside && !session.interrupted() {
            // The server may have been started anew since, elsewhere.
            true => session.look_inside(&profiled(flags, looked_at, &stand, &session)?),
            false => Ok(()),
        }
    });
    let result = session.served(&stand, result);
    drop(stand);
    let record = session.finish(result, &target.output)?;
    if let Some(step) = record.steps.last() {
        let look = output::look(io::stderr().is_terminal(), target.output.ascii);
        let answered = answers(&questions, step);
        output::show(&wallfinder_report::text::what_if(&answered, &look), &look);
        if flags.lift {
            let predicted = questions.iter().zip(answered);
            let lifted = lift(flags, predicted, step, &home, &interrupts)?;
            output::show(&wallfinder_report::text::lifted(&lifted, &look), &look);
            interrupts.none_came()?;
        }
    }
    conclude(&record, &target.require, &target.threshold)
}

/// One request at a time, where the wall is a wait: what each takes then tells a pool from a lock. With
/// pauses of ten times what comes between two answers at the wall, in which whatever it waits for is free again.
fn alone(
    flags: &FindFlags,
    url: &Url,
    question: &load::Question,
    stand: &Stand,
    session: &Session,
) -> Result<Option<StepOrder>, Failed> {
    const PAUSES: f64 = 10.0;
    const PAUSE_MAX: Nanos = Nanos::from_millis(500);
    let step = session.record.steps.last();
    let waits = |step: &&Step| step.verdict.as_ref().is_some_and(|v| v.wall == Wall::Wait);
    let Some(step) = step.filter(waits).filter(|step| step.throughput > 0.0) else {
        return Ok(None);
    };
    let others = flags.rate.is_some() || flags.target.driver.is_some();
    if others || flags.null || session.interrupted() {
        return Ok(None);
    }
    let apart_s = 1.0 / step.throughput;
    let pause = Nanos((PAUSES * apart_s * 1e9) as u64).min(PAUSE_MAX);
    let target = TargetFlags {
        duration: Nanos((1_000.0 * apart_s * 1e9) as u64).clamp(ALONE_LEAST, ALONE_MOST),
        warmup: Some(RAMP_WARMUP),
        no_calibrate: true,
        pipeline: 1,
        max_in_flight: None,
        ..flags.target.clone()
    };
    let shape = Shape::held(1, None, pause);
    load::order(&target, &shape, url, question, stand, 1).map(Some)
}

/// Workers of a closed loop, so that each has enough in flight for a part of it to be taken.
fn workers_max(connections: u32, bound: Option<u32>) -> u32 {
    let each_has = connections.min(bound.unwrap_or(u32::MAX));
    (each_has / WORKER_CONNECTIONS_MIN).max(1)
}

/// Whether there is something to see at the wall: profiles that are offered, or else stacks that
/// may be sampled. What was asked for and is not there is told before any load.
fn can_look_inside(flags: &FindFlags, stand: &Stand) -> Result<bool, Failed> {
    if flags.no_inside || flags.null {
        return Ok(false);
    }
    match profile::order(&flags.pprof, &stand.server) {
        Ok(order) if order.server.stacks => Ok(stacks::allowed().is_ok()),
        Ok(_) => Ok(true),
        Err(_) if flags.pprof.is_empty() => Ok(false),
        Err(failed) => Err(failed),
    }
}

/// How long the server is profiled at the wall: whole seconds, and a margin.
fn profiled_for(effort: Effort) -> Nanos {
    match effort {
        Effort::Quick => Nanos::from_millis(2300),
        Effort::Normal | Effort::Thorough => Nanos::from_millis(5300),
    }
}

/// How long a foreign driver loads meanwhile: its rise and its end are left out.
fn driven_for(effort: Effort) -> Nanos {
    match effort {
        Effort::Quick => Nanos::from_secs(4),
        Effort::Normal | Effort::Thorough => Nanos::from_secs(7),
    }
}

/// The load at the wall once more, while the server is profiled, and the load generator where that
/// is the wall.
fn profiled(
    flags: &FindFlags,
    held: StepOrder,
    stand: &Stand,
    session: &Session,
) -> Result<StepOrder, Failed> {
    let mut held = held;
    held.load.stop.after = profiled_for(effort(flags.effort));
    held.server = stand.server.family.clone();
    held.calibrate = None;
    held.index = session.record.steps.len().saturating_sub(1) as u32;
    let verdict = session.record.steps.last();
    let verdict = verdict.and_then(|step| step.verdict.as_ref());
    let is_client = verdict.is_some_and(|verdict| verdict.wall == Wall::ClientCpu);
    held.profiles = Some(ProfileOrder {
        folder: Some(session.folder().clone()),
        client: Looks {
            stacks: is_client && stacks::allowed().is_ok(),
            ..Looks::default()
        },
        ..profile::order(&flags.pprof, &stand.server)?
    });
    Ok(held)
}

fn effort(flag: EffortFlag) -> Effort {
    match flag {
        EffortFlag::Quick => Effort::Quick,
        EffortFlag::Normal => Effort::Normal,
        EffortFlag::Thorough => Effort::Thorough,
    }
}

/// Where windows are as long as somebody wants, what they are compared with is four of them.
fn base_window(effort: Effort, window: Option<Nanos>) -> Nanos {
    if let Some(Nanos(window)) = window {
        return Nanos(4 * window);
    }
    match effort {
        Effort::Quick => Nanos::from_secs(2),
        Effort::Normal => Nanos::from_secs(3),
        Effort::Thorough => Nanos::from_secs(6),
    }
}

/// Doubles the connections until throughput grows no more, and says at how many the
/// ceiling is to be squeezed: well past the knee, where more in flight brings nothing.
fn ramp(
    session: &mut Session,
    order: &dyn Fn(u32, Nanos) -> Result<StepOrder, Failed>,
) -> Result<u32, Failed> {
    let mut seen: Vec<(u32, f64)> = Vec::new();
    let mut connections = RAMP_FIRST;
    while connections <= RAMP_LAST && !session.interrupted() {
        let mut step = order(connections, RAMP_STEP)?;
        if precheck::check(&step.load, &step.address).is_err() {
            break;
        }
        step.index = seen.len() as u32;
        step.load.warmup = RAMP_WARMUP;
        step.calibrate = None;
        let measured = session.step(&step)?;
        seen.push((connections, measured.throughput));
        if is_flat(&seen) {
            break;
        }
        connections *= 2;
    }
    Ok(past_the_knee(&seen))
}

/// Whether the last steps brought nothing more than the best before them.
fn is_flat(seen: &[(u32, f64)]) -> bool {
    let Some(before) = seen.len().checked_sub(FLAT_STEPS).filter(|n| *n > 0) else {
        return false;
    };
    let best = |steps: &[(u32, f64)]| steps.iter().map(|(_, x)| *x).fold(0.0, f64::max);
    best(&seen[before..]) < best(&seen[..before]) * GROWTH_MIN
}

/// Four times the connections that reach the ceiling, as far as throughput keeps up.
fn past_the_knee(seen: &[(u32, f64)]) -> u32 {
    let most = seen.iter().map(|(_, x)| *x).fold(0.0, f64::max);
    let reaches = |(_, x): &&(u32, f64)| *x >= most * AT_CEILING;
    let knee = seen.iter().find(reaches).map_or(RAMP_FIRST, |(n, _)| *n);
    let wanted = seen
        .iter()
        .rev()
        .filter(reaches)
        .find(|(n, _)| *n <= knee * 4);
    wanted.map_or(knee, |(n, _)| *n)
}

/// The links whose rates may be squeezed: those that were laid, or those that were named. A name without
/// a namespace is of the one that the command was started in, which has to stay open as long as they are.
fn shapers(
    flags: &TargetFlags,
    stand: &mut Stand,
    started_in: &File,
) -> Result<(Option<Shaper>, Option<Shaper>), Failed> {
    if let Some(lab) = &mut stand.lab {
        return Ok(lab.take_shapers());
    }
    let standing = |device: &Option<String>| {
        let Some(device) = device else {
            return Ok(None);
        };
        let (interface, rate) = match device.split_once(',') {
            Some((interface, rate)) => {
                let rate = lab::parse_bits(rate).map_err(Failed::usage)?;
                (interface, Some(rate))
            }
            None => (device.as_str(), None),
        };
        // By now this thread, and whoever it starts, is where the client is.
        let is_elsewhere = flags.client_netns.is_some() && !interface.contains('/');
        let interface = match is_elsewhere {
            true => format!("/proc/self/fd/{}/{interface}", started_in.as_raw_fd()),
            false => interface.to_owned(),
        };
        lab::standing(&interface, rate, &Shim::of_this_process())
            .map(Some)
            .map_err(Failed::run)
    };
    Ok((standing(&flags.downlink_dev)?, standing(&flags.uplink_dev)?))
}

/// Where squeezes take place: who runs where, and who they are.
pub(crate) struct Ground<'g> {
    pub(crate) placement: &'g Placement,
    /// The server's processes.
    pub(crate) family: Option<&'g Family>,
    /// Processes behind the server, and the cores that they use under the load.
    pub(crate) backend_pids: &'g [u32],
    pub(crate) backend_cores: f64,
    pub(crate) own_engine: bool,
    pub(crate) seed: u64,
}

impl Ground<'_> {
    /// What can be squeezed here, and what the judge must know of the place.
    pub(crate) fn proof(
        &self,
        effort: Effort,
        (downlink, uplink): (Option<Shaper>, Option<Shaper>),
        order: &StepOrder,
        steps: &[Step],
    ) -> Proof {
        let telemetry = steps.last().map(|step| &step.telemetry);
        let client = telemetry.and_then(|t| t.client.as_ref());
        let server = telemetry.and_then(|t| t.server.as_ref());
        let bits = |shaper: &Option<Shaper>| shaper.as_ref().map(|s| s.full_bits() as f64);
        let cpus = |family: Option<&FamilySummary>, placed: &[u32]| match family {
            Some(family) if !family.cpus_allowed.is_empty() => family.cpus_allowed.clone(),
            _ => placed.to_vec(),
        };
        let backends = self.backend_pids.iter();
        let setting = Setting {
            server_cpus: cpus(server, &self.placement.server),
            server_quota_cores: server.and_then(|f| f.quota_cores),
            client_cpus: cpus(client, &self.placement.client),
            client_quota_cores: client.and_then(|f| f.quota_cores),
            open_loop: order.load.arrival.is_open(),
            in_flight_max: order.load.in_flight_bound(),
            own_engine: self.own_engine,
            connections: None,
            downlink_bits: bits(&downlink),
            uplink_bits: bits(&uplink),
            neighbours: self.neighbours(server),
            backends: backends.map(|pid| format!("process {pid}")).collect(),
        };
        let client_pids = match self.own_engine {
            true => vec![std::process::id()],
            false => Vec::new(),
        };
        let reach = squeeze::reach(Scene {
            server: match self.way_out(order, telemetry) {
                Some(interface) => Side::beyond(&interface),
                None => Side {
                    pids: self.family.map_or(Vec::new(), |family| family.pids.clone()),
                    // Of those who were seen at work: idle housekeepers may well run elsewhere.
                    cpus: setting.server_cpus.clone(),
                    ..Side::default()
                },
            },
            client: Side {
                pids: client_pids,
                // A driver may keep to fewer than it was given.
                cpus: match self.own_engine {
                    true => self.placement.client.clone(),
                    false => setting.client_cpus.clone(),
                },
                comes_later: !self.own_engine,
                ..Side::default()
            },
            backend: (!self.backend_pids.is_empty()).then(|| Side {
                pids: self.backend_pids.to_vec(),
                ..Side::default()
            }),
            backend_cores: Some(self.backend_cores),
            downlink,
            uplink,
            seed: self.seed,
            shim: Shim::of_this_process(),
        });
        Proof {
            effort,
            window: None,
            seed: self.seed,
            levers: reach.levers,
            out_of_reach: reach.out_of_reach,
            setting,
            null: false,
        }
    }

    /// The interface that leads to the server, where nobody on this machine has its address.
    fn way_out(&self, order: &StepOrder, telemetry: Option<&Telemetry>) -> Option<String> {
        let link = telemetry?.link.as_ref()?;
        let is_away = self.family.is_none()
            && matches!(server_of(order.address), Err(NotSeen::Remote { .. }));
        is_away.then(|| link.interface.clone())
    }

    /// Who else uses the server's processors, where telemetry says that somebody does. What is
    /// behind the server works for it.
    fn neighbours(&self, server: Option<&FamilySummary>) -> Vec<Neighbour> {
        /// Fewer cores than this are the machine's own housekeeping.
        const CORES_MIN: f64 = 0.1;
        match (server, self.family) {
            (Some(server), Some(family)) if server.neighbour_cores >= CORES_MIN => {
                let known = [&family.pids[..], self.backend_pids].concat();
                sight::neighbours(&server.cpus_allowed, &known, CORES_MIN)
            }
            _ => Vec::new(),
        }
    }
}

/// A question as it was asked, and the resources that it changes.
pub(super) type Question = (String, Vec<(Squeeze, f64)>);

/// `RESOURCE=FACTOR` as the judge takes it; `bytes=0.5` is a link twice as fast, and `link=10gbit` is
/// as many times the link that was laid.
fn questions(texts: &[String], link: Option<&str>) -> Result<Vec<Question>, Failed> {
    let parse = |text: &String| {
        let bad = |why: &str| Failed::usage(format!("--what-if {text}: {why}"));
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| bad("write it as RESOURCE=FACTOR, such as downlink=2"))?;
        if name == "link" {
            let laid: LinkSpec = link
                .ok_or_else(|| {
                    bad("there is no --link; write downlink=FACTOR for one that stands")
                })?
                .parse()
                .map_err(Failed::usage)?;
            let asked: LinkSpec = value
                .parse()
                .map_err(|why: BadLink| bad(&why.to_string()))?;
            let times = |asked: u64, laid: u64| asked as f64 / laid as f64;
            let both = vec![
                (Squeeze::Downlink, times(asked.down_bits, laid.down_bits)),
                (Squeeze::Uplink, times(asked.up_bits, laid.up_bits)),
            ];
            return Ok((text.clone(), both));
        }
        let factor: f64 = value
            .trim_end_matches(['x', '×'])
            .parse()
            .ok()
            .filter(|factor: &f64| factor.is_finite() && *factor > 0.0)
            .ok_or_else(|| bad("the factor must be a number above 0"))?;
        let resources = || {
            let all = Squeeze::ALL.into_iter();
            all.filter(|squeeze| *squeeze != Squeeze::MoreInFlight)
        };
        let changes = match name {
            "bytes" => {
                let faster = 1.0 / factor;
                vec![(Squeeze::Downlink, faster), (Squeeze::Uplink, faster)]
            }
            "cpu" | "server" => vec![(Squeeze::ServerSpeed, factor)],
            "client" => vec![(Squeeze::ClientSpeed, factor)],
            _ => {
                let squeeze = resources().find(|s| s.label() == name).ok_or_else(|| {
                    let names: Vec<&str> = resources().map(|s| s.label()).collect();
                    let names = names.join(", ");
                    bad(&format!("it is one of bytes, link, cpu, client, {names}"))
                })?;
                vec![(squeeze, factor)]
            }
        };
        Ok((text.clone(), changes))
    };
    texts.iter().map(parse).collect()
}

/// A question as it was asked, and what is predicted.
pub(super) type Answered<'q> = (&'q str, Option<Prediction>);

/// Fewer bytes cost processors less as well, and one size of answers does not say how much less. Only
/// where the link alone holds it back, before and after, is that of no matter.
fn note_unknown_bytes(found: &mut Prediction, changes: &[(Squeeze, f64)], step: &Step) {
    let in_proportion = changes.iter().any(|(_, factor)| {
        let gained = found.throughput / step.throughput;
        (gained / factor - 1.0).abs() < 0.02
    });
    if !in_proportion {
        found.because.push_str(
            " What a byte costs the processors is not known from answers of one size, and is left out: \
             `wallfinder bytes` measures it.",
        );
    }
}

fn answers<'q>(questions: &'q [Question], step: &Step) -> Vec<Answered<'q>> {
    questions
        .iter()
        .map(|(text, changes)| {
            let mut found = proof::what_if(step, changes);
            if let Some(found) = found.as_mut().filter(|_| text.starts_with("bytes=")) {
                note_unknown_bytes(found, changes, step);
            }
            (text.as_str(), found)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use wallfinder_engine::in_flight::in_flight_left;
    use wallfinder_model::{Arrival, DRAIN_DEFAULT, Decode, Load, Stop};

    use super::*;

    #[test]
    fn workers_have_enough_in_flight_for_a_part_of_it_to_be_taken() {
        assert_eq!([4, 8, 16, 64].map(|n| workers_max(n, None)), [1, 1, 2, 8]);
        assert_eq!(workers_max(64, Some(16)), 2);
        let load = |workers| Load {
            connections: 32,
            in_flight_per_connection: 1,
            max_in_flight: None,
            workers,
            arrival: Arrival::Closed { think: Nanos(0) },
            warmup: Nanos(0),
            stop: Stop {
                after: RAMP_STEP,
                requests: None,
            },
            timeout: DRIVER_RUN,
            drain: DRAIN_DEFAULT,
            connection_per_request: false,
            method: "GET".into(),
            header_names: Vec::new(),
            body_bytes: 0,
            decode: Decode::None,
            no_batching: false,
        };
        for left in [0.8, 0.9] {
            let taken = |workers| in_flight_left(&load(workers), left);
            let few = taken(workers_max(32, None)).expect("some can be taken");
            assert!((few - left).abs() < 0.06, "{left}: {few}");
            assert_eq!(taken(16), None, "{left}: each worker has two");
        }
    }

    #[test]
    fn the_ramp_stops_when_two_steps_bring_nothing() {
        assert!(!is_flat(&[(4, 10.0), (8, 20.0)]));
        assert!(!is_flat(&[(4, 10.0), (8, 20.0), (16, 20.1), (32, 30.0)]));
        assert!(is_flat(&[(4, 10.0), (8, 20.0), (16, 20.1), (32, 19.0)]));
    }

    #[test]
    fn the_ceiling_is_squeezed_well_past_the_knee() {
        let seen = [(4, 10.0), (8, 20.0), (16, 20.1), (32, 20.0), (64, 19.9)];
        assert_eq!(past_the_knee(&seen), 32);
        let falls = [(4, 10.0), (8, 20.0), (16, 18.0), (32, 12.0)];
        assert_eq!(past_the_knee(&falls), 8);
    }

    #[test]
    fn fewer_bytes_are_a_faster_link() {
        let asked =
            |text: &str, link| questions(&[text.to_owned()], link).map(|mut all| all.remove(0).1);
        assert_eq!(
            asked("bytes=0.5", None).unwrap()[0],
            (Squeeze::Downlink, 2.0)
        );
        for bad in ["bytes", "memory=2", "downlink=0", "cpu=fast", "link=10gbit"] {
            assert!(asked(bad, None).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_link_is_asked_for_by_its_rate_and_processors_by_times() {
        let asked = |text: &str| {
            questions(&[text.to_owned()], Some("1gbit,up=100mbit")).map(|mut all| all.remove(0).1)
        };
        let both = vec![(Squeeze::Downlink, 10.0), (Squeeze::Uplink, 100.0)];
        assert_eq!(asked("link=10gbit").unwrap(), both);
        assert_eq!(asked("cpu=2x").unwrap(), [(Squeeze::ServerSpeed, 2.0)]);
        assert_eq!(asked("client=1.5").unwrap(), [(Squeeze::ClientSpeed, 1.5)]);
        assert!(asked("link=fast").is_err());
    }
}
