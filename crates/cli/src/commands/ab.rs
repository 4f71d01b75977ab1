//! `ab`: two settings of one lever, in turn, and what B is over A.

use clap::ValueEnum;
use wallfinder_conduct::{Looks, ProfileOrder, StepOrder};
use wallfinder_engine::precheck;
use wallfinder_judge::proof::ab::{order_of_rounds, weigh};
use wallfinder_model::record::{Ab, CostBound, Sign};
use wallfinder_model::{Caveat, Environment, Nanos};
use wallfinder_probe::stacks;
use wallfinder_sys::process;
use wallfinder_testbed::child::Shim;
use wallfinder_testbed::tune::{Interface, Tuned, Tuning, Watch};

use crate::commands::load::{self, Shape};
use crate::commands::profile::{observing, offer_profiles};
use crate::commands::record::{check_conditions, conclude, judge_steps};
use crate::exit::Failed;
use crate::flags::{AbFlags, CpuList, ProbeFlag, TargetFlags};
use crate::given;
use crate::interrupt::Interrupts;
use crate::session::{Beside, Session};
use crate::stand::{Home, Server, Stand, is_told_where};
use crate::target::{Url, redact};

/// Shorter windows than this say little of a tail.
pub(super) const WINDOW_MIN: Nanos = Nanos::from_millis(300);

/// What is captured is captured for whole seconds.
const OBSERVED_MIN: Nanos = Nanos::from_millis(1300);

/// One setting: its flags, and where it stands.
struct Setting {
    flags: TargetFlags,
    url: Url,
    connections: u32,
    what: String,
    /// `None`: on A's stand.
    stand: Option<Stand>,
}

/// `wallfinder ab`.
pub(crate) fn ab(flags: &AbFlags) -> Result<(), Failed> {
    check_conditions(&flags.target.require, &flags.target.threshold)?;
    let (session, result) = compare(flags, None)?;
    let record = session.finish(result, &flags.target.output)?;
    conclude(&record, &flags.target.require, &flags.target.threshold)
}

/// Holds the two in turn. Beside what there is then comes what the steps came to. `interrupts`
/// are those that are caught already, if they are.
pub(super) fn compare(
    flags: &AbFlags,
    interrupts: Option<Interrupts>,
) -> Result<(Session, Result<(), Failed>), Failed> {
    let mut turns = Turns::raise(flags)?;
    let interrupts = interrupts.unwrap_or_else(Interrupts::catch);
    let orders = [turns.order(false)?, turns.order(true)?];
    for order in &orders {
        precheck::check(&order.load, &order.address).map_err(Failed::run)?;
    }
    let rounds = order_of_rounds(flags.target.seed, flags.rounds);
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
    let (base, url) = (turns.stand(false), &turns.a.url);
    let mut plan = load::plan("ab", &flags.target, url, &steps, &base.placement);
    plan.seed = flags.target.seed;
    let output = &flags.target.output;
    let beside = Beside {
        ab: Some(turns.beside(&rounds)),
        ..Beside::default()
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
struct Turns<'f> {
    flags: &'f AbFlags,
    a: Setting,
    b: Setting,
    /// Whether each turn has a server of its own, started under the settings that are in force.
    anew: bool,
    /// Interfaces of B's load, where they can be reached.
    interfaces: Vec<Interface>,
    home: Home,
}

impl<'f> Turns<'f> {
    /// Raises what A stands on, and B where it does not stand there too.
    fn raise(flags: &'f AbFlags) -> Result<Turns<'f>, Failed> {
        let (mut a, mut b) = settings(flags)?;
        let anew = flags.tune_b.iter().find(|tuning| tuning.acts_at_start());
        if let Some(tuning) = anew {
            may_start_anew(tuning, &flags.target, [&a.url, &b.url])?;
        }
        let shared = a.flags.subject == b.flags.subject
            && a.flags.link == b.flags.link
            && a.flags.server_quota == b.flags.server_quota
            && a.flags.server_cpus == b.flags.server_cpus
            && a.url.authority == b.url.authority;
        if !shared && flags.url_b.is_none() && a.flags.link.is_none() {
            b.url.port = other_port(&b, b.url.port)?;
        }
        let home = Home::here()?;
        a.stand = Some(Stand::raise(&a.flags, &a.url)?);
        if !shared {
            // From where the first was raised: a client that stands pinned beside its own server has no
            // processor to give to a second one.
            home.back()?;
            b.stand = Some(Stand::raise(&b.flags, &b.url)?);
        }
        Ok(Turns {
            flags,
            a,
            b,
            anew: anew.is_some(),
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

    fn stand(&self, is_b: bool) -> &Stand {
        let (own, other) = (self.setting(is_b), self.setting(!is_b));
        let stand = own.stand.as_ref().or(other.stand.as_ref());
        stand.expect("A stands somewhere")
    }

    fn stand_mut(&mut self, is_b: bool) -> &mut Stand {
        let (own, other) = match is_b {
            true => (&mut self.b, &mut self.a),
            false => (&mut self.a, &mut self.b),
        };
        let stand = own.stand.as_mut().or(other.stand.as_mut());
        stand.expect("A stands somewhere")
    }

    /// A turn, by the server that a setting has now.
    fn order(&self, is_b: bool) -> Result<StepOrder, Failed> {
        let (setting, stand) = (self.setting(is_b), self.stand(is_b));
        let mut order = order(self.flags, setting, stand)?;
        let inside = inside(self.flags);
        if is_b && !inside.is_empty() {
            order.profiles = Some(looking(&inside, &stand.server)?);
        }
        order.watched = is_b || !self.flags.observe_b.contains(&ProbeFlag::Telemetry);
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
            signs: self.flags.tune_b.iter().map(sign).collect(),
            at_most_cost: self.flags.at_most_cost.map(bound),
        }
    }

    /// Those of a link of ours, else the one that leads to the server, where it is in sight.
    fn look_for_interfaces(&mut self, environment: &Environment) {
        let name = environment.interface.as_ref().map(|facts| &facts.name);
        self.interfaces = match (&self.stand(true).lab, &self.flags.target.client_netns, name) {
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
            true => tune(&self.flags.tune_b, &self.interfaces)?,
            false => Vec::new(),
        };
        let mut step = match self.anew {
            true => self.at_new_server(step, is_b)?,
            false => step,
        };
        if let Some(profiles) = &mut step.profiles {
            profiles.folder = Some(session.folder().clone());
        }
        let stand = self.stand(is_b);
        stand.enter()?;
        let server = stand.server.family.as_ref();
        let pids = server.map_or(&[][..], |family| &family.pids);
        let tunings = self.flags.tune_b.iter();
        let watch = |tuning: &Tuning| tuning.watch(&self.interfaces, pids);
        let watched: Vec<Watch> = tunings.map(watch).collect();
        let stepped = session.step(&step).map(drop);
        session.served(stand, stepped)?;
        note(session, watched, &tuned);
        Ok(())
    }

    /// The same turn at a server that was started for it.
    fn at_new_server(&mut self, step: StepOrder, is_b: bool) -> Result<StepOrder, Failed> {
        // It is started from where the first one was.
        self.home.back()?;
        let stand = self.stand_mut(is_b);
        let Some(restart) = stand.restart() else {
            return Err(Failed::run("this server cannot be started anew"));
        };
        restart.restart().map_err(Failed::run)?;
        if !stand.placement.client.is_empty() {
            process::pin_to(&stand.placement.client).map_err(Failed::run)?;
        }
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
fn may_start_anew(tuning: &Tuning, target: &TargetFlags, urls: [&Url; 2]) -> Result<(), Failed> {
    let why = if target.subject.is_none() {
        "a server that runs keeps the memory and the sockets that it has, and A and B would be one \
         and the same. Let --subject 'COMMAND' start it, and each turn has a server of its own; or \
         `wallfinder run` one that you start under each setting, and `wallfinder compare` the two"
    } else if urls.iter().any(|url| url.port == 0) {
        "each turn has a server of its own, which must listen where the last one did: name a free \
         port in the URL, such as http://subject:8083/"
    } else if target.server_pid.is_some() || target.server_cgroup.is_some() {
        "each turn has a server of its own, which is found by its port: leave out --server-pid and \
         --server-cgroup"
    } else {
        return Ok(());
    };
    Err(Failed::usage(format!("--tune-b {tuning}: {why}")))
}

/// What is to look into B's server, and into what loads it.
fn inside(flags: &AbFlags) -> Vec<ProbeFlag> {
    let probes = flags.observe_b.iter().copied();
    probes
        .filter(|probe| *probe != ProbeFlag::Telemetry)
        .collect()
}

/// What these probes are to see. The folder to keep it in is not known yet.
fn looking(probes: &[ProbeFlag], server: &Server) -> Result<ProfileOrder, Failed> {
    let has = |probe| probes.contains(&probe);
    let of_server = probes.iter().map(|probe| match probe {
        // It is asked for where profiles are.
        ProbeFlag::Trace => ProbeFlag::Go,
        probe => *probe,
    });
    let mut order = observing(&of_server.collect::<Vec<_>>(), server)?;
    if !has(ProbeFlag::Go) {
        order.kinds.clear();
    }
    order.trace = has(ProbeFlag::Trace);
    if has(ProbeFlag::Client) {
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

/// The two settings, and what differs between them.
fn settings(flags: &AbFlags) -> Result<(Setting, Setting), Failed> {
    let (mut a, mut b) = (flags.target.clone(), flags.target.clone());
    let mut differs: Vec<(String, String)> = Vec::new();
    let mut lever = |a: &dyn ToString, b: &dyn ToString| {
        let (a, b) = (a.to_string(), b.to_string());
        if a != b {
            differs.push((a, b));
        }
    };
    match flags.path.as_slice() {
        [] => {}
        [path_a, path_b] => {
            a.url = with_path(&flags.target.url, path_a);
            b.url = with_path(&flags.target.url, path_b);
            lever(&redact(path_a), &redact(path_b));
        }
        _ => {
            return Err(Failed::usage(
                "--path takes two paths with a comma between them, such as /read,/read-gz",
            ));
        }
    }
    if let Some(url) = &flags.url_b {
        b.url.clone_from(url);
        let shown = |text: &str| Url::parse(text).map(|url| url.shown());
        lever(&shown(&a.url)?, &shown(url)?);
    }
    for header in &flags.header_b {
        let name = header.split(':').next().unwrap_or_default();
        lever(&format!("without {name}"), &format!("with {name}"));
        b.headers.push(header.clone());
    }
    let none = "none".to_owned();
    if let Some(subject) = &flags.subject_b {
        b.subject = Some(subject.clone());
        let shown = |command: &String| given::command(command);
        lever(
            &a.subject.as_ref().map_or(none.clone(), shown),
            &shown(subject),
        );
    }
    if let Some(link) = &flags.link_b {
        b.link = Some(link.clone());
        lever(a.link.as_ref().unwrap_or(&none), link);
    }
    if let Some(cores) = flags.server_quota_b {
        b.server_quota = Some(cores);
        let shown = |quota: Option<f64>| match quota {
            Some(cores) => format!("{cores} processors' quota"),
            None => "no quota".to_owned(),
        };
        lever(&shown(a.server_quota), &shown(b.server_quota));
    }
    let engine = "wallfinder".to_owned();
    if let Some(driver) = &flags.driver_b {
        b.driver = (driver != &engine).then(|| driver.clone());
        let shown = |command: &String| match command == &engine {
            true => engine.clone(),
            false => given::command(command),
        };
        lever(
            &a.driver.as_ref().map_or(engine.clone(), shown),
            &shown(driver),
        );
    }
    let connections_b = flags.connections_b.unwrap_or(flags.connections);
    let in_words = |count: u32| format!("{count} connections");
    lever(&in_words(flags.connections), &in_words(connections_b));
    b.pipeline = flags.pipeline_b.unwrap_or(a.pipeline);
    lever(
        &format!("depth {}", a.pipeline),
        &format!("depth {}", b.pipeline),
    );
    if let Some(bound) = flags.max_in_flight_b {
        b.max_in_flight = Some(bound);
        let shown = |bound: Option<u32>| match bound {
            Some(bound) => format!("{bound} in flight at most"),
            None => "no bound".to_owned(),
        };
        lever(&shown(a.max_in_flight), &shown(b.max_in_flight));
    }
    if flags.no_batching_b {
        b.no_batching = true;
        lever(&"answers may gather", &"one by one");
    }
    if let Some(threads) = flags.threads_b {
        b.workers = Some(threads);
        let shown = |threads: Option<u32>| match threads {
            Some(threads) => format!("-t {threads}"),
            None => "a thread for each processor".to_owned(),
        };
        lever(&shown(a.workers), &shown(b.workers));
    }
    if let Some(cpus) = &flags.server_cpus_b {
        b.server_cpus = Some(cpus.clone());
        let shown = |cpus: &Option<CpuList>| match cpus {
            Some(CpuList(cpus)) => {
                let numbers: Vec<String> = cpus.iter().map(u32::to_string).collect();
                format!("server on {}", numbers.join(","))
            }
            None => "server where it is put".to_owned(),
        };
        lever(&shown(&a.server_cpus), &shown(&b.server_cpus));
    }
    for tuning in &flags.tune_b {
        lever(&"the host as it is", tuning);
    }
    if flags.observe_b.contains(&ProbeFlag::Telemetry) {
        if a.driver.is_some() || b.driver.is_some() {
            return Err(Failed::usage(
                "--observe-b telemetry needs our own engine: when the load of a --driver begins and \
                 ends is known by telemetry alone",
            ));
        }
        lever(
            &"watched as its window opens and closes",
            &"watched every 50 ms",
        );
    }
    let inside = inside(flags);
    if inside.contains(&ProbeFlag::Go) || inside.contains(&ProbeFlag::Trace) {
        for subject in [&mut a.subject, &mut b.subject].into_iter().flatten() {
            offer_profiles(subject);
        }
    }
    if inside.contains(&ProbeFlag::Client) {
        lever(&"its client not looked into", &"its client looked into");
    }
    let of_server = inside.iter().filter(|probe| **probe != ProbeFlag::Client);
    let probes = of_server.filter_map(ValueEnum::to_possible_value);
    let names: Vec<String> = probes.map(|probe| probe.get_name().to_owned()).collect();
    if !names.is_empty() {
        lever(
            &"not looked into",
            &format!("looked into by {}", names.join(", ")),
        );
    }
    let (what_a, what_b): (Vec<String>, Vec<String>) = differs.into_iter().unzip();
    let what = |words: Vec<String>| match words.is_empty() {
        true => "the same as the other".to_owned(),
        false => words.join(", "),
    };
    let setting = |flags: TargetFlags, connections, words| -> Result<Setting, Failed> {
        Ok(Setting {
            url: Url::parse(&flags.url)?,
            flags,
            connections,
            what: what(words),
            stand: None,
        })
    };
    Ok((
        setting(a, flags.connections, what_a)?,
        setting(b, connections_b, what_b)?,
    ))
}

/// The URL with another path.
pub(super) fn with_path(url: &str, path: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let place = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    format!("{scheme}://{place}/{}", path.trim_start_matches('/'))
}

/// A second subject needs a port of its own: any that is free (0) if the first takes any, else the next.
fn other_port(b: &Setting, port: u16) -> Result<u16, Failed> {
    let ours = b.flags.subject.as_deref().is_some_and(is_told_where);
    let other = match port {
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

fn order(flags: &AbFlags, setting: &Setting, stand: &Stand) -> Result<StepOrder, Failed> {
    let shape = Shape::held(setting.connections, flags.rate, flags.target.think);
    let least = match inside(flags).is_empty() {
        true => WINDOW_MIN,
        false => OBSERVED_MIN,
    };
    stand.enter()?;
    let target = setting.flags.clone();
    let url = &setting.url;
    let order = load::in_turn(target, flags.rounds, least, &shape, url, stand)?;
    Ok(StepOrder {
        paced: true,
        ..order
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_takes_the_place_of_the_urls() {
        assert_eq!(with_path("http://h:1/a?b", "/c"), "http://h:1/c");
        assert_eq!(with_path("h:1", "c"), "http://h:1/c");
    }
}
