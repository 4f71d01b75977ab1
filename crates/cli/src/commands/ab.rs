//! `ab`: two settings of one lever, in turn, and what B is over A.

use clap::ValueEnum;
use wallfinder_conduct::StepOrder;
use wallfinder_engine::precheck;
use wallfinder_judge::proof::ab::order_of_rounds;
use wallfinder_model::Nanos;
use wallfinder_model::record::Ab;
use wallfinder_stage::child::Shim;
use wallfinder_stage::tune::{Tuned, Tuning};

use crate::commands::load::{self, Shape};
use crate::commands::profile::{observing, offer_profiles};
use crate::commands::record::{check_conditions, hold, judge_steps, set_beside};
use crate::exit::Failed;
use crate::flags::{AbFlags, CpuList, ProbeFlag, TargetFlags};
use crate::interrupt::Interrupts;
use crate::session::{Beside, Session, redacted_command};
use crate::stand::{Home, Stand, is_told_where};
use crate::target::{Url, redact};

/// Shorter windows than this say little of a tail.
pub(super) const WINDOW_MIN: Nanos = Nanos::from_millis(300);

/// What is captured is captured for whole seconds.
const OBSERVED_MIN: Nanos = Nanos::from_millis(1300);

/// One setting: its flags, and where it stands.
struct Setting {
    flags: TargetFlags,
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
    hold(&record, &flags.target.require, &flags.target.threshold)
}

/// Holds the two in turn. Beside what there is then comes what the steps came to. `interrupts`
/// are those that are caught already, if they are.
pub(super) fn compare(
    flags: &AbFlags,
    interrupts: Option<Interrupts>,
) -> Result<(Session, Result<(), Failed>), Failed> {
    let (mut a, mut b) = settings(flags)?;
    let (url_a, mut url_b) = (Url::parse(&a.flags.url)?, Url::parse(&b.flags.url)?);
    let shared = a.flags.subject == b.flags.subject
        && a.flags.link == b.flags.link
        && a.flags.server_quota == b.flags.server_quota
        && a.flags.server_cpus == b.flags.server_cpus
        && url_a.authority == url_b.authority;
    if !shared && flags.url_b.is_none() && a.flags.link.is_none() {
        url_b.port = other_port(&b, url_b.port)?;
    }
    let home = Home::here()?;
    a.stand = Some(Stand::raise(&a.flags, &url_a)?);
    if !shared {
        // From where the first was raised: a client that stands pinned beside its own server has no
        // processor to give to a second one.
        home.back()?;
        b.stand = Some(Stand::raise(&b.flags, &url_b)?);
    }
    let interrupts = interrupts.unwrap_or_else(Interrupts::catch);
    let mut order_a = order(flags, &a, &url_a, stand(&a, &b))?;
    let mut order_b = order(flags, &b, &url_b, stand(&b, &a))?;
    let inside = inside(flags);
    order_a.watched = !flags.observe_b.contains(&ProbeFlag::Telemetry);
    if !inside.is_empty() {
        order_b.profiles = Some(observing(&inside, &stand(&b, &a).server)?);
    }
    for order in [&order_a, &order_b] {
        precheck::check(&order.load, &order.address).map_err(Failed::run)?;
    }
    let rounds = order_of_rounds(flags.target.seed, flags.rounds);
    let mut steps: Vec<StepOrder> = rounds
        .iter()
        .enumerate()
        .map(|(index, (_, is_b))| {
            let mut step = if *is_b { &order_b } else { &order_a }.clone();
            step.index = index as u32;
            step.name = format!("{} {}", if *is_b { "B" } else { "A" }, step.name);
            step
        })
        .collect();
    let base = stand(&a, &b);
    let mut plan = load::plan("ab", &flags.target, &url_a, &steps, &base.placement);
    plan.seed = flags.target.seed;
    let output = &flags.target.output;
    let beside = Beside {
        ab: Some(Ab {
            a: a.what.clone(),
            b: b.what.clone(),
            order: rounds.clone(),
            ratios: Vec::new(),
        }),
        ..Beside::default()
    };
    let mut session = Session::begin_on(base, plan, beside, output, interrupts)?;
    let facts = session.record.environment.interface.as_ref();
    let interface = facts.map(|facts| facts.name.clone());
    let mut result = Ok(());
    for (step, (_, is_b)) in steps.iter_mut().zip(&rounds) {
        if let Some(profiles) = &mut step.profiles {
            session.folder().clone_into(&mut profiles.folder);
        }
        if session.interrupted() {
            break;
        }
        let place = if *is_b { stand(&b, &a) } else { stand(&a, &b) };
        let mut turn = || {
            let tunings: &[Tuning] = if *is_b { &flags.tune_b } else { &[] };
            let _tuned = tune(tunings, interface.as_deref())?;
            place.enter()?;
            session.step(step).map(|_| ())
        };
        if let Err(failed) = turn() {
            result = Err(failed);
            break;
        }
    }
    drop((a, b));
    judge_steps(&mut session.record);
    set_beside(&mut session.record);
    Ok((session, result))
}

/// What is to look into B's server.
fn inside(flags: &AbFlags) -> Vec<ProbeFlag> {
    let probes = flags.observe_b.iter().copied();
    probes
        .filter(|probe| *probe != ProbeFlag::Telemetry)
        .collect()
}

/// Settings of the host, in force until what comes back is dropped.
fn tune(tunings: &[Tuning], interface: Option<&str>) -> Result<Vec<Tuned>, Failed> {
    let shim = Shim::of_this_process();
    let tuned = tunings.iter().map(|tuning| tuning.apply(interface, &shim));
    tuned.collect::<Result<_, _>>().map_err(Failed::run)
}

fn stand<'s>(of: &'s Setting, other: &'s Setting) -> &'s Stand {
    of.stand
        .as_ref()
        .or(other.stand.as_ref())
        .expect("A stands somewhere")
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
        let shown = |command: &String| redacted_command(command);
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
            false => redacted_command(command),
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
    if let Some(permits) = flags.semaphore_b {
        b.semaphore = Some(permits);
        let shown = |permits: Option<u32>| match permits {
            Some(permits) => format!("{permits} permits"),
            None => "no semaphore".to_owned(),
        };
        lever(&shown(a.semaphore), &shown(b.semaphore));
    }
    if let Some(threads) = flags.threads_b {
        b.lanes = Some(threads);
        let shown = |threads: Option<u32>| match threads {
            Some(threads) => format!("-t {threads}"),
            None => "a thread for each processor".to_owned(),
        };
        lever(&shown(a.lanes), &shown(b.lanes));
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
    if inside.contains(&ProbeFlag::Go) {
        for subject in [&mut a.subject, &mut b.subject].into_iter().flatten() {
            offer_profiles(subject);
        }
    }
    let probes = inside.iter().filter_map(ValueEnum::to_possible_value);
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
    let setting = |flags, connections, words| Setting {
        flags,
        connections,
        what: what(words),
        stand: None,
    };
    Ok((
        setting(a, flags.connections, what_a),
        setting(b, connections_b, what_b),
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

fn order(
    flags: &AbFlags,
    setting: &Setting,
    url: &Url,
    stand: &Stand,
) -> Result<StepOrder, Failed> {
    let shape = Shape::held(setting.connections, flags.rate, flags.target.think);
    let least = match inside(flags).is_empty() {
        true => WINDOW_MIN,
        false => OBSERVED_MIN,
    };
    stand.enter()?;
    let target = setting.flags.clone();
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
