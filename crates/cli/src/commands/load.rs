//! `run` and `ramp`: scenarios become loads, loads become steps of one record.

use wallfinder_conduct::{ProfileOrder, StepOrder};
use wallfinder_model::Caveat;
use wallfinder_scenario::loads;

use crate::commands::record::{check_conditions, conclude, judge_steps};
use crate::exchange::ask;
use crate::exit::Failed;
use crate::interrupt::Interrupts;
use crate::job::Job;
use crate::order::{cut_off, order, plan};
use crate::session::{Beside, Session};
use crate::testbed::{Server, Testbed};

/// `wallfinder run`.
pub(crate) fn run(job: &Job) -> Result<(), Failed> {
    load("run", job, std::slice::from_ref(job), None)
}

/// `wallfinder ramp`.
pub(crate) fn ramp(job: &Job) -> Result<(), Failed> {
    let scenarios = loads::of_ramp(&job.scenario).into_iter();
    let steps = scenarios.map(|scenario| job.with(scenario));
    let steps = steps.collect::<Result<Vec<Job>, Failed>>()?;
    load("ramp", job, &steps, None)
}

/// What is to be profiled at a server, once it stands.
pub(crate) type AskedOf<'a> = &'a dyn Fn(&Server) -> Result<ProfileOrder, Failed>;

/// Holds one load after the other, keeps the record, and says what came of it. `job` is what was asked for; of
/// steps, which have one server, there is at least one.
pub(crate) fn load(
    command: &str,
    job: &Job,
    steps: &[Job],
    profiles: Option<AskedOf<'_>>,
) -> Result<(), Failed> {
    // What may not be in flight at the deepest is told before any load.
    let deepest = steps.iter().max_by_key(|step| step.scenario.load.pipeline);
    let (first, deepest) = (&steps[0], deepest.expect("a load has a step"));
    let asked = ask(deepest)?;
    let expect = &job.scenario.expect;
    check_conditions(&expect.require, &expect.threshold, asked.known())?;
    let testbed = Testbed::raise(first, None)?;
    let question = asked.at(deepest, &testbed)?;
    // After pinning: threads started from here on inherit it.
    let interrupts = Interrupts::catch();
    let orders = steps.iter().enumerate().map(|(index, step)| {
        let mut order = order(step, &question, &testbed, steps.len())?;
        order.index = index as u32;
        Ok(order)
    });
    let mut orders = orders.collect::<Result<Vec<StepOrder>, Failed>>()?;
    for order in &orders {
        order.client.fits(&order.load).map_err(Failed::run)?;
    }
    let profiles = profiles.map(|asked| asked(&testbed.server)).transpose()?;
    let plan = plan(command, first, &orders, &testbed.placement);
    let beside = Beside::of(&job.scenario);
    let output = &job.around.output;
    let mut session = Session::begin_on(&testbed, plan, beside, output, interrupts)?;
    let samples = job.scenario.watch.samples;
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
        if let Some(server) = testbed.found_again() {
            order.server = server;
        }
        let stepped = session.step(order).map(|_| ());
        if let Some(step) = session.record.steps.last_mut() {
            let cut_off = cut_off(&order.load, &order.request);
            let notes = question.notes.iter().cloned().chain(cut_off);
            step.caveats.extend(notes.map(|text| Caveat::Note { text }));
        }
        result = session.served(&testbed, stepped);
        if result.is_err() {
            break;
        }
    }
    drop(testbed);
    // Steps side by side tell more of each other than each tells alone.
    judge_steps(&mut session.record);
    let record = session.finish(result, output)?;
    conclude(&record, &expect.require, &expect.threshold)
}
