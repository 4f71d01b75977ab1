//! `ab`: two settings of one lever, in turn, and what B is over A.

use wallfinder_conduct::{Looks, ProfileOrder, StepOrder};
use wallfinder_judge::proof::ab::{order_of_rounds, weigh};
use wallfinder_model::record::{Ab, CostBound, Sign};
use wallfinder_model::scenario::{self, Probe};
use wallfinder_model::{Caveat, Environment, Scenario};
use wallfinder_probe::stacks;
use wallfinder_scenario::Fault;
use wallfinder_scenario::change::{Shown, Sides, differences};
use wallfinder_scenario::loads::{CAPTURED_MIN, WINDOW_MIN};
use wallfinder_testbed::child::Shim;
use wallfinder_testbed::tune::{Interface, Tuned, Tuning, Watch};

use crate::commands::profile::observing;
use crate::commands::record::{check_conditions, conclude, judge_steps};
use crate::exit::Failed;
use crate::given;
use crate::interrupt::Interrupts;
use crate::job::Job;
use crate::order;
use crate::session::{Beside, Session};
use crate::target::{Url, redact};
use crate::testbed::{Home, Server, Testbed, is_told_where};

/// One setting: what is asked of it, and where it stands.
struct Setting {
    job: Job,
    what: String,
    /// `None`: on A's testbed.
    testbed: Option<Testbed>,
}

/// `wallfinder ab`.
pub(crate) fn ab(job: &Job) -> Result<(), Failed> {
    let expect = &job.scenario.expect;
    check_conditions(&expect.require, &expect.threshold, None)?;
    let (session, result) = compare(job, None)?;
    let record = session.finish(result, &job.around.output)?;
    conclude(&record, &expect.require, &expect.threshold)
}

/// Holds the two in turn. Beside what there is then comes what the steps came to. `interrupts`
/// are those that are caught already, if they are.
pub(super) fn compare(
    job: &Job,
    interrupts: Option<Interrupts>,
) -> Result<(Session, Result<(), Failed>), Failed> {
    let mut turns = Turns::raise(job)?;
    let interrupts = interrupts.unwrap_or_else(Interrupts::catch);
    let orders = [turns.order(false)?, turns.order(true)?];
    for order in &orders {
        order.client.fits(&order.load).map_err(Failed::run)?;
    }
    let rounds = order_of_rounds(job.scenario.load.seed, turns.ab.rounds);
    let steps: Vec<StepOrder> = rounds
        .iter()
        .enumerate()
        .map(|(index, (_, is_b))| {
            let mut step = orders[usize::from(*is_b)].clone();
            step.index = index as u32;
            step.name = format!("{} {}", if *is_b { "B" } else { "A" }, step.name);
            step
        })
        .collect();
    let base = turns.testbed(false);
    let plan = order::plan("ab", &turns.a.job, &steps, &base.placement);
    let output = &job.around.output;
    let beside = Beside {
        ab: Some(turns.beside(&rounds)),
        ..Beside::of(&job.scenario)
    };
    let mut session = Session::begin_on(base, plan, beside, output, interrupts)?;
    turns.look_for_interfaces(&session.record.environment);
    let result = turns.take_all(&mut session, steps, &rounds);
    drop(turns);
    let record = &mut session.record;
    judge_steps(record);
    if let Some(ab) = &mut record.ab {
        weigh(&record.steps, ab);
    }
    Ok((session, result))
}

/// Both settings where they stand, held in turn.
struct Turns {
    ab: scenario::Ab,
    /// Settings of the host while B is held.
    tunings: Vec<Tuning>,
    a: Setting,
    b: Setting,
    /// Whether each turn has a server of its own, started under the settings that are in force.
    anew: bool,
    /// Interfaces of B's load, where they can be reached.
    interfaces: Vec<Interface>,
    home: Home,
}

impl Turns {
    /// Raises what A stands on, and B where it does not stand there too.
    fn raise(job: &Job) -> Result<Turns, Failed> {
        let ab = job.scenario.ab.clone().unwrap_or_default();
        let tunings = tunings(job, &ab)?;
        let sides = Sides::of(&job.scenario);
        let shared = sides.share_server();
        let (mut a, mut b) = settings(job, &ab, sides)?;
        let anew = tunings.iter().find(|tuning| tuning.acts_at_start());
        if let Some(tuning) = anew {
            may_start_anew(tuning, &a.job.scenario, [&a.job.url, &b.job.url])?;
        }
        if !shared && ab.b.url.is_none() && job.scenario.link.lay.is_none() {
            b.job.url.port = other_port(&b.job)?;
        }
        let anew = anew.is_some();
        let home = Home::here()?;
        a.testbed = Some(Testbed::raise(&a.job, None)?);
        if !shared {
            // From where the first was raised: a client that stands pinned beside its own server has no
            // processor to give to a second one.
            home.back()?;
            b.testbed = Some(Testbed::raise(&b.job, None)?);
        }
        Ok(Turns {
            ab,
            tunings,
            a,
            b,
            anew,
            interfaces: Vec::new(),
            home,
        })
    }

    fn setting(&self, is_b: bool) -> &Setting {
        match is_b {
            true => &self.b,
            false => &self.a,
        }
    }

    fn testbed(&self, is_b: bool) -> &Testbed {
        let (own, other) = (self.setting(is_b), self.setting(!is_b));
        let testbed = own.testbed.as_ref().or(other.testbed.as_ref());
        testbed.expect("A stands somewhere")
    }

    fn testbed_mut(&mut self, is_b: bool) -> &mut Testbed {
        let (own, other) = match is_b {
            true => (&mut self.b, &mut self.a),
            false => (&mut self.a, &mut self.b),
        };
        let testbed = own.testbed.as_mut().or(other.testbed.as_mut());
        testbed.expect("A stands somewhere")
    }

    /// A turn, by the server that a setting has now.
    fn order(&self, is_b: bool) -> Result<StepOrder, Failed> {
        let (job, testbed) = (&self.setting(is_b).job, self.testbed(is_b));
        let inside = inside(&self.ab);
        let least = match inside.is_empty() {
            true => WINDOW_MIN,
            false => CAPTURED_MIN,
        };
        testbed.enter()?;
        let mut order = order::in_turn(job, self.ab.rounds, least, testbed)?;
        order.paced = true;
        if is_b && !inside.is_empty() {
            order.profiles = Some(looking(&inside, &testbed.server)?);
        }
        order.watched = is_b || !self.ab.observe.contains(&Probe::Telemetry);
        Ok(order)
    }

    /// What the record says of the two before they are measured.
    fn beside(&self, rounds: &[(u32, bool)]) -> Ab {
        let sign = |tuning: &Tuning| Sign {
            setting: tuning.to_string(),
            kind: tuning.sign(),
            steps: Vec::new(),
            a: None,
            b: None,
            acted: None,
        };
        let bound = |share| CostBound {
            share,
            outcome: None,
        };
        Ab {
            a: self.a.what.clone(),
            b: self.b.what.clone(),
            order: rounds.to_vec(),
            ratios: Vec::new(),
            signs: self.tunings.iter().map(sign).collect(),
            at_most_cost: self.ab.at_most_cost.map(bound),
        }
    }

    /// Those of a link of ours, else the one that leads to the server, where it is in sight.
    fn look_for_interfaces(&mut self, environment: &Environment) {
        let name = environment.interface.as_ref().map(|facts| &facts.name);
        let netns = &self.a.job.scenario.client.netns;
        self.interfaces = match (&self.testbed(true).lab, netns, name) {
            (Some(lab), _, _) => lab.ends(),
            (None, None, Some(name)) => vec![Interface {
                netns: None,
                name: name.clone(),
            }],
            _ => Vec::new(),
        };
    }

    /// Until one fails, or the run is interrupted.
    fn take_all(
        &mut self,
        session: &mut Session,
        steps: Vec<StepOrder>,
        rounds: &[(u32, bool)],
    ) -> Result<(), Failed> {
        for (step, (_, is_b)) in steps.into_iter().zip(rounds) {
            if session.interrupted() {
                break;
            }
            self.take(session, step, *is_b)?;
        }
        Ok(())
    }

    /// Takes a turn, with B's settings of the host in force where it is B's.
    fn take(&mut self, session: &mut Session, step: StepOrder, is_b: bool) -> Result<(), Failed> {
        let tuned = match is_b {
            true => tune(&self.tunings, &self.interfaces)?,
            false => Vec::new(),
        };
        let mut step = match self.anew {
            true => self.at_new_server(step, is_b)?,
            false => step,
        };
        if let Some(profiles) = &mut step.profiles {
            profiles.folder = Some(session.folder().clone());
        }
        let testbed = self.testbed(is_b);
        testbed.enter()?;
        let server = testbed.server.host.family();
        let pids = server.map_or(&[][..], |family| &family.pids);
        let tunings = self.tunings.iter();
        let watch = |tuning: &Tuning| tuning.watch(&self.interfaces, pids);
        let watched: Vec<Watch> = tunings.map(watch).collect();
        let stepped = session.step(&step).map(drop);
        session.served(testbed, stepped)?;
        note(session, watched, &tuned);
        Ok(())
    }

    /// The same turn at a server that was started for it.
    fn at_new_server(&mut self, step: StepOrder, is_b: bool) -> Result<StepOrder, Failed> {
        // It is started from where the first one was.
        self.home.back()?;
        let testbed = self.testbed_mut(is_b);
        let Some(restart) = testbed.restart() else {
            return Err(Failed::run("this server cannot be started anew"));
        };
        let restarted = restart.restart().map_err(Failed::run)?;
        if let Some(why) = restarted.unprepared {
            return Err(Failed::run(why));
        }
        testbed.pin()?;
        Ok(StepOrder {
            index: step.index,
            name: step.name,
            ..self.order(is_b)?
        })
    }
}

/// Writes down what showed of B's settings of the host in a turn. `tuned` are those in force.
fn note(session: &mut Session, watched: Vec<Watch>, tuned: &[Tuned]) {
    let record = &mut session.record;
    let signs = record.ab.iter_mut().flat_map(|ab| &mut ab.signs);
    let mut doubts = Vec::new();
    for (nth, (watch, sign)) in watched.into_iter().zip(signs).enumerate() {
        let seen = watch.seen();
        sign.steps.push(seen.amount);
        if let Some(tuned) = tuned.get(nth) {
            let words = [tuned.kept(), &seen.elsewhere].concat();
            let text = format!("{}: {}", sign.setting, words.join("; "));
            doubts.extend((!words.is_empty()).then_some(Caveat::Note { text }));
        }
    }
    for doubt in doubts {
        if !record.caveats.contains(&doubt) {
            record.caveats.push(doubt);
        }
    }
}

/// Whether each turn can have a server of its own, for a setting that acts as a process starts.
fn may_start_anew(tuning: &Tuning, scenario: &Scenario, urls: [&Url; 2]) -> Result<(), Failed> {
    let server = &scenario.server;
    let why = if server.subject.is_none() {
        "a server that runs keeps the memory and the sockets that it has, and A and B would be one \
         and the same. Let --subject 'COMMAND' start it, and each turn has a server of its own; or \
         `wallfinder run` one that you start under each setting, and `wallfinder compare` the two"
    } else if urls.iter().any(|url| url.port == 0) {
        "each turn has a server of its own, which must listen where the last one did: name a free \
         port in the URL, such as http://subject:8083/"
    } else if server.pid.is_some() || server.cgroup.is_some() {
        "each turn has a server of its own, which is found by its port: leave out --server-pid and \
         --server-cgroup"
    } else {
        return Ok(());
    };
    Err(Failed::usage(format!("--tune-b {tuning}: {why}")))
}

/// What is to look into B's server, and into what loads it.
fn inside(ab: &scenario::Ab) -> Vec<Probe> {
    let probes = ab.observe.iter().copied();
    probes.filter(|probe| *probe != Probe::Telemetry).collect()
}

/// What these probes are to see. The folder to keep it in is not known yet.
fn looking(probes: &[Probe], server: &Server) -> Result<ProfileOrder, Failed> {
    let has = |probe| probes.contains(&probe);
    let of_server = probes.iter().map(|probe| match probe {
        // It is asked for where profiles are.
        Probe::Trace => Probe::Go,
        probe => *probe,
    });
    let mut order = observing(&of_server.collect::<Vec<_>>(), server)?;
    if !has(Probe::Go) {
        order.kinds.clear();
    }
    order.trace = has(Probe::Trace);
    if has(Probe::Client) {
        stacks::allowed().map_err(Failed::run)?;
        order.client = Looks {
            stacks: true,
            waits: true,
            calls: false,
            counters: true,
        };
    }
    Ok(order)
}

/// Settings of the host, in force until what comes back is dropped.
fn tune(tunings: &[Tuning], interfaces: &[Interface]) -> Result<Vec<Tuned>, Failed> {
    let shim = Shim::of_this_process();
    let apply = |tuning: &Tuning| tuning.apply(interfaces, &shim);
    let tuned = tunings.iter().map(apply);
    tuned.collect::<Result<_, _>>().map_err(Failed::run)
}

fn tunings(job: &Job, ab: &scenario::Ab) -> Result<Vec<Tuning>, Failed> {
    let each = ab.tune.iter().enumerate();
    let tuning = each.map(|(nth, text)| {
        let wrong = |why: String| Fault::at(format!("ab.tune.{nth}"), why);
        text.parse().map_err(|why| job.around.fault(&wrong(why)))
    });
    tuning.collect()
}

/// The two settings, and what differs between them.
fn settings(job: &Job, ab: &scenario::Ab, sides: Sides) -> Result<(Setting, Setting), Failed> {
    let Sides { a, b } = sides;
    if ab.observe.contains(&Probe::Telemetry) && (a.driver().is_some() || b.driver().is_some()) {
        return Err(Failed::usage(
            "--observe-b telemetry needs our own engine: when the load of a --driver begins and \
             ends is known by telemetry alone",
        ));
    }
    let (a, b) = (job.with(a)?, job.with(b)?);
    let shown = Shown {
        command: &given::command,
        url: &|text| Url::parse(text).map_or_else(|_| redact(text), |url| url.shown()),
    };
    let (what_a, what_b) = differences(&job.scenario, &shown);
    let setting = |job: Job, what: String| Setting {
        job,
        what,
        testbed: None,
    };
    Ok((setting(a, what_a), setting(b, what_b)))
}

/// A second subject needs a port of its own: any that is free (0) if the first takes any, else the next.
fn other_port(b: &Job) -> Result<u16, Failed> {
    let ours = b
        .scenario
        .server
        .subject
        .as_deref()
        .is_some_and(is_told_where);
    let other = match b.url.port {
        0 => Some(0),
        port => port.checked_add(1),
    };
    match other {
        Some(other) if ours => Ok(other),
        _ => Err(Failed::usage(
            "the two subjects would listen on one port: give B another one with --url-b",
        )),
    }
}
