//! `find`: ramp to the ceiling, squeeze there, and say which wall it is, how that was
//! established, and which comes next.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::sync::Arc;

use wallfinder_conduct::{Calibration, Looks, ProfileOrder, StepOrder};
use wallfinder_judge::profile::Rules;
use wallfinder_judge::proof::{self, Prediction};
use wallfinder_judge::{routes, steady};
use wallfinder_model::record::SessionKind;
use wallfinder_model::scenario::Squeeze as Squeezed;
use wallfinder_model::{Caveat, Effort, Nanos, Squeeze, Step, Wall};
use wallfinder_probe::stacks;
use wallfinder_scenario::loads::{self, DRIVER_RUN, Search, Turns};
use wallfinder_scenario::what_if::{Question, questions};
use wallfinder_wire::Exchange;
use wallfinder_wire::mix::Flow;

use crate::commands::lift::{Answered, lift};
use crate::commands::profile;
use crate::commands::record::{check_conditions, conclude};
use crate::exchange::{self, ask};
use crate::exit::Failed;
use crate::interrupt::Interrupts;
use crate::job::Job;
use crate::order::{self, CALIBRATE_FOR};
use crate::output;
use crate::session::{Beside, Proof, Session};
use crate::squeezing::{Behind, Times, last};
use crate::testbed::{Home, Testbed};

/// `wallfinder find`.
pub(crate) fn find(job: &Job) -> Result<(), Failed> {
    let (scenario, output) = (&job.scenario, &job.around.output);
    let squeeze = squeeze(job);
    let asked = ask(job)?;
    let expect = &scenario.expect;
    check_conditions(&expect.require, &expect.threshold, asked.known())?;
    let names = names(asked.known());
    let questions = questions(&squeeze.what_if, scenario.link.lay.as_deref(), &names)
        .map_err(|fault| job.around.fault(&fault))?;
    let effort = squeeze.effort;
    let home = Home::here()?;
    let started_in = File::open("/proc/thread-self/ns/net").map_err(Failed::run)?;
    let mut testbed = Testbed::raise(job, None)?;
    let question = asked.at(job, &testbed)?;
    let shapers = testbed.shapers(job, &started_in)?;
    let inside = can_look_inside(job, &testbed)?;
    let interrupts = Interrupts::catch();
    let own_engine = scenario.driver().is_none();
    let held = Held {
        job,
        question: &question,
    };
    let ramped = scenario.load.connections.is_none() && scenario.load.rate.is_none() && own_engine;
    let mut connections = match (scenario.load.connections, ramped) {
        (Some(connections), _) => connections,
        (None, true) => Search::default().next().unwrap_or(loads::CONNECTIONS),
        (None, false) => loads::CONNECTIONS,
    };
    let base_window = loads::base_window(effort, squeeze.window);
    let first = held.at(&testbed, connections, base_window)?;
    first.client.fits(&first.load).map_err(Failed::run)?;
    let mut plan = order::plan("find", job, &[first], &testbed.placement);
    plan.effort = Some(effort);
    let beside = Beside::of(scenario);
    let mut session = Session::begin_on(&testbed, plan, beside, output, interrupts.clone())?;
    let mut warmed = false;
    let mut metered = None;
    let prepare = || -> Result<Option<(StepOrder, Proof, StepOrder)>, Failed> {
        if ramped {
            connections = ramp(&mut session, &held, &testbed)?;
        }
        if session.interrupted() {
            return Ok(None);
        }
        let mut at_ceiling = held.at(&testbed, connections, base_window)?;
        at_ceiling.load.warmup = Nanos::from_millis(500);
        at_ceiling.calibrate =
            (!scenario.watch.no_calibrate).then(|| Calibration::anew(CALIBRATE_FOR));
        let (before, waited) = steadied(&mut session, &mut at_ceiling, &testbed)?;
        warmed = waited;
        let loaded = [at_ceiling.load.warmup, base_window];
        let loaded_s: f64 = loaded.map(Nanos::as_secs_f64).iter().sum();
        if session.interrupted() {
            return Ok(None);
        }
        // A foreign driver is started again whenever its time is up.
        let order = held.at(&testbed, connections, DRIVER_RUN)?;
        let telemetry = last(&session.record.steps);
        let behind = Behind::of(scenario, &testbed, &*order.server, &before, loaded_s);
        metered = behind.metered(&order.server);
        let proof = Proof {
            window: squeeze.window,
            null: squeeze.null,
            ..testbed.proof(scenario, effort, shapers, &order, telemetry, behind)
        };
        let looked_at = match own_engine {
            false => held.at(&testbed, connections, loads::driven_for(effort))?,
            true => order.clone(),
        };
        Ok(Some((order, proof, looked_at)))
    };
    let prepared = prepare();
    let result = prepared.and_then(|prepared| {
        let Some((order, proof, looked_at)) = prepared else {
            return Ok(());
        };
        // Who takes its time to become fast would do so at every start.
        let restart = testbed.restart().filter(|_| !warmed);
        let proved = session.prove(&order, proof, restart)?;
        let last_window = proved.experiment.as_ref().and_then(|of| of.windows.last());
        let last_start = last_window.map(|window| window.restart);
        let cut_short = proved.experiment.as_ref();
        let cut_short = cut_short.and_then(|experiment| experiment.cut_short.clone());
        if let (Some(why), false) = (cut_short, session.interrupted()) {
            return Err(Failed::run(format!("the squeezing ended early: {why}")));
        }
        let is_measured_at_last = last_start == Some(testbed.restarts);
        // At a server whose set-up failed requests may be answered all the same: then its windows count.
        if !is_measured_at_last && let Err(why) = testbed.prepare() {
            session
                .record
                .caveats
                .push(Caveat::NothingMoreAsked { why });
            return Ok(());
        }
        if let Some(alone) = alone(&held, &testbed, &session)? {
            session.ask_alone(&alone)?;
        }
        let order = StepOrder {
            behind: metered,
            ..order
        };
        for look in 0..MIX_LOOKS {
            let orders = mixes(&held, &order, &testbed, &mut session, (inside, look));
            if !session.ask_mixes(&orders)? {
                break;
            }
        }
        match inside && !session.interrupted() {
            // The server may have been started anew since, elsewhere.
            true => session.look_inside(&profiled(job, looked_at, &testbed, &session)?),
            false => Ok(()),
        }
    });
    let result = session.served(&testbed, result);
    drop(testbed);
    let record = session.finish(result, output)?;
    if let Some(step) = record.steps.last() {
        let look = output::look(io::stderr().is_terminal(), output.ascii);
        let answered = answers(&questions, step);
        let text = wallfinder_report::text::what_if(&answered, step, &look);
        output::show(&text, &look);
        if squeeze.lift {
            // What a request costs is the server's own to change.
            let ours = |(question, _): &(&Question, _)| question.kind.is_none();
            let predicted = questions.iter().zip(answered).filter(ours);
            let lifted = lift(job, predicted, step, &home, &interrupts)?;
            output::show(&wallfinder_report::text::lifted(&lifted, &look), &look);
            interrupts.none_came()?;
        }
    }
    conclude(&record, &expect.require, &expect.threshold)
}

/// What is sent by name: requests that begin by themselves, and sessions.
fn names(sent: Option<&Exchange>) -> Vec<String> {
    let mix = sent.and_then(Exchange::mix);
    let flows = mix.into_iter().flat_map(|mix| &mix.flows);
    flows.map(|flow| flow.name.clone()).collect()
}

pub(super) fn squeeze(job: &Job) -> Squeezed {
    job.scenario.squeeze.clone().unwrap_or_default()
}

/// The load of a job, at the number of connections that is found.
struct Held<'h> {
    job: &'h Job,
    question: &'h exchange::Question,
}

impl Held<'_> {
    fn at(
        &self,
        testbed: &Testbed,
        connections: u32,
        duration: Nanos,
    ) -> Result<StepOrder, Failed> {
        let mut scenario = self.job.scenario.clone();
        scenario.load.connections = Some(connections);
        scenario.load.duration = duration;
        self.of(testbed, &self.job.with(scenario)?)
    }

    fn of(&self, testbed: &Testbed, job: &Job) -> Result<StepOrder, Failed> {
        let mut order = order::order(job, self.question, testbed, 1)?;
        let load = &mut order.load;
        if job.scenario.load.threads.is_none() && !load.arrival.is_open() {
            let most = loads::workers_squeezed(load.connections, load.max_in_flight);
            load.workers = load.workers.min(most);
        }
        Ok(order)
    }
}

/// One request at a time, where the wall is a wait: what each takes then tells a pool from a lock.
fn alone(
    held: &Held<'_>,
    testbed: &Testbed,
    session: &Session,
) -> Result<Option<StepOrder>, Failed> {
    let step = session.record.steps.last();
    let waits = |step: &&Step| step.verdict.as_ref().is_some_and(|v| v.wall == Wall::Wait);
    let Some(step) = step.filter(waits).filter(|step| step.throughput > 0.0) else {
        return Ok(None);
    };
    let scenario = &held.job.scenario;
    let others = scenario.load.rate.is_some() || scenario.driver().is_some();
    if others || squeeze(held.job).null || session.interrupted() {
        return Ok(None);
    }
    let job = held.job.with(loads::alone(scenario, step.throughput))?;
    held.of(testbed, &job).map(Some)
}

/// How often a mix is held with other weights: once more where the first windows leave open whether requests cost each
/// other.
const MIX_LOOKS: u64 = 2;
/// Windows with other weights are so long at the most, for sessions that take their time.
const MIX_WINDOW_MAX: Nanos = Nanos::from_secs(3);

/// The load with other weights of its mix: each half of its own or twice, drawn by the seed; others in another `look`. None
/// where the server is not seen, where nothing was established, or where sessions take too long, which is a doubt of the
/// step. Stacks are sampled meanwhile where the server is looked into and the kernel lets.
fn mixes(
    held: &Held<'_>,
    order: &StepOrder,
    testbed: &Testbed,
    session: &mut Session,
    (inside, look): (bool, u64),
) -> Vec<StepOrder> {
    let Exchange::Mix(mix) = &order.request else {
        return Vec::new();
    };
    let scenario = &held.job.scenario;
    let squeeze = squeeze(held.job);
    let is_left_out = squeeze.null || session.interrupted() || !testbed.server.host.is_seen();
    let Some(step) = session.record.steps.last_mut() else {
        return Vec::new();
    };
    if is_left_out || mix.flows.len() < 2 {
        return Vec::new();
    }
    let short = match squeeze.effort {
        Effort::Quick => Nanos::from_millis(400),
        Effort::Normal | Effort::Thorough => Nanos::from_millis(900),
    };
    let took = |kind: &SessionKind| kind.took.as_ref().map_or(0.0, |took| took.mean_ns) as u64;
    let longest = step.sessions.iter().max_by_key(|kind| took(kind));
    let longest_ns = longest.map_or(0, took);
    // A session that outlasts a window has its steps in others.
    let asked = squeeze.window.map_or(short, |window| window.max(short));
    let window = asked.max(Nanos(2 * longest_ns));
    let most = asked.max(MIX_WINDOW_MAX);
    if let (true, Some(longest)) = (window > most, longest) {
        let doubt = Caveat::SessionsOutlast {
            session: longest.name.clone(),
            took_ns: longest_ns,
            window_ns: most.0,
        };
        step.caveats.push(doubt);
        return Vec::new();
    }
    let looks = ProfileOrder {
        addresses: Vec::new(),
        folder: None,
        kinds: Vec::new(),
        trace: false,
        server: Looks {
            stacks: true,
            ..Looks::default()
        },
        client: Looks::default(),
        rules: Rules::default(),
    };
    // The server may have been started anew since the order was made.
    let server = &testbed.server.host;
    let is_sampled = inside && server.may_take_stacks().is_ok();
    let own: Vec<u32> = mix.flows.iter().map(|flow| flow.weight).collect();
    let index = session.record.steps.len().saturating_sub(1) as u32;
    let one = |weights: Vec<u32>| {
        let mut mix = mix.clone();
        let flows: &mut Vec<Flow> = &mut mix.flows;
        for (flow, weight) in flows.iter_mut().zip(weights) {
            flow.weight = weight;
        }
        let mut order = order.clone();
        order.request = Exchange::Mix(mix);
        order.server = Arc::clone(server);
        order.index = index;
        order.load.warmup = Nanos(longest_ns).max(Nanos::from_millis(200));
        order.load.stop.after = window;
        order.calibrate = None;
        order.paced = true;
        order.profiles = is_sampled.then(|| looks.clone());
        order
    };
    let seed = scenario.load.seed.wrapping_add(look);
    routes::weights(&own, seed).into_iter().map(one).collect()
}

/// Whether there is something to see at the wall: profiles that are offered, or else stacks that
/// may be sampled. What was asked for and is not there is told before any load.
fn can_look_inside(job: &Job, testbed: &Testbed) -> Result<bool, Failed> {
    let watch = &job.scenario.watch;
    if watch.no_inside || squeeze(job).null {
        return Ok(false);
    }
    match profile::order(&watch.pprof, &testbed.server) {
        Ok(order) if order.server.stacks => Ok(testbed.server.host.may_take_stacks().is_ok()),
        Ok(_) => Ok(true),
        Err(_) if watch.pprof.is_empty() => Ok(false),
        Err(failed) => Err(failed),
    }
}

/// The load at the wall once more, while the server is profiled, and the load generator where that
/// is the wall.
fn profiled(
    job: &Job,
    held: StepOrder,
    testbed: &Testbed,
    session: &Session,
) -> Result<StepOrder, Failed> {
    let mut held = held;
    held.load.stop.after = loads::profiled_for(squeeze(job).effort);
    held.server = Arc::clone(&testbed.server.host);
    held.calibrate = None;
    held.index = session.record.steps.len().saturating_sub(1) as u32;
    let verdict = session.record.steps.last();
    let verdict = verdict.and_then(|step| step.verdict.as_ref());
    let is_client = verdict.is_some_and(|verdict| verdict.wall == Wall::ClientCpu);
    held.profiles = Some(ProfileOrder {
        folder: Some(session.folder().clone()),
        client: Looks {
            stacks: is_client && held.client.family().is_some() && stacks::allowed().is_ok(),
            ..Looks::default()
        },
        ..profile::order(&job.scenario.watch.pprof, &testbed.server)?
    });
    Ok(held)
}

/// Holds a load until its throughput rises no more, and for half a minute at most: a runtime that compiles while
/// it serves takes its time. The last step is what squeezes are compared with; gives the CPU times of its start, and
/// whether it was waited for.
fn steadied(
    session: &mut Session,
    step: &mut StepOrder,
    testbed: &Testbed,
) -> Result<(Times, bool), Failed> {
    const MOST: Nanos = Nanos::from_secs(30);
    const RISES: f64 = 1.05;
    let window = step.load.stop.after;
    let mut waited = Nanos(0);
    let mut seen: Vec<f64> = Vec::new();
    loop {
        step.index = session.record.steps.len() as u32;
        let before = Times::now(testbed, &*step.server);
        let measured = session.step(step)?;
        let throughput = measured.throughput;
        let within = steady::change(measured).is_some_and(|change| change.ratio > RISES);
        let rises = within || seen.last().is_some_and(|last| throughput > RISES * last);
        seen.push(throughput);
        if rises && waited < MOST && !session.interrupted() {
            tracing::info!(throughput, "throughput still rises: squeezing waits");
            waited.0 += window.0;
            continue;
        }
        let is_waited = waited.0 > 0;
        if let Some(last) = session.record.steps.last_mut().filter(|_| is_waited) {
            last.caveats.push(Caveat::Warmed {
                for_ns: waited.0,
                ratio: throughput / seen[0],
                over: !rises,
            });
        }
        return Ok((before, is_waited));
    }
}

/// Searches the ceiling, and says at how many connections it is to be squeezed.
fn ramp(session: &mut Session, held: &Held<'_>, testbed: &Testbed) -> Result<u32, Failed> {
    let mut search = Search::default();
    while let Some(connections) = search.next().filter(|_| !session.interrupted()) {
        let job = held
            .job
            .with(Search::step(&held.job.scenario, connections))?;
        let mut step = held.of(testbed, &job)?;
        if step.client.fits(&step.load).is_err() {
            break;
        }
        step.index = session.record.steps.len() as u32;
        let turns = |step: &Step| Turns {
            in_flight: step.in_flight_mean,
            answered: step.counts.answered,
        };
        let mut measured = session.step(&step)?;
        if let Some(longer) = search.longer(measured.throughput, turns(measured)) {
            step.load.stop.after = longer;
            step.index += 1;
            measured = session.step(&step)?;
        }
        search.saw(connections, measured.throughput, turns(measured));
    }
    Ok(search.past_the_knee())
}

/// Fewer bytes cost processors less as well, and one size of answers does not say how much less. Only
/// where the link alone holds it back, before and after, is that of no matter.
fn note_unknown_bytes(found: &mut Prediction, changes: &[(Squeeze, f64)], step: &Step) {
    let in_proportion = changes.iter().any(|(_, factor)| {
        let gained = found.throughput / step.throughput;
        (gained / factor - 1.0).abs() < 0.02
    });
    found.leaves_bytes_out = !in_proportion;
}

fn answers<'q>(questions: &'q [Question], step: &Step) -> Vec<Answered<'q>> {
    let answer = |question: &'q Question| {
        let Question {
            text,
            changes,
            kind,
        } = question;
        let mut found = match kind {
            None => proof::what_if(step, changes),
            Some((name, factor)) => proof::what_if_of_kind(step, name, *factor),
        };
        if let Some(found) = found.as_mut().filter(|_| question.is_of_bytes()) {
            note_unknown_bytes(found, changes, step);
        }
        (text.as_str(), found)
    };
    questions.iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use wallfinder_engine::in_flight::in_flight_left;
    use wallfinder_model::Load;

    use super::*;

    #[test]
    fn of_what_is_in_flight_a_part_can_be_taken_however_many_workers_have_it() {
        let load = |workers| Load {
            workers,
            timeout: DRIVER_RUN,
            ..Load::closed(32)
        };
        for left in [0.8, 0.9] {
            let taken = |workers| in_flight_left(&load(workers), left);
            // Eight to each worker, or two.
            for workers in [loads::workers_squeezed(32, None), 16] {
                let really = taken(workers).expect("some can be taken");
                assert!((really - left).abs() < 0.06, "{left}: {really}");
            }
        }
    }
}
