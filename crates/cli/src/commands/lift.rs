//! A predicted change, made and measured beside what was predicted.
//!
//! Not every change can be made as it was asked: what is made in its place is said beside what it
//! brought. Where nothing can be, the reason names what to give instead.

use wallfinder_model::experiment::Squeeze;
use wallfinder_model::record::Ratio;
use wallfinder_model::telemetry::FamilySummary;
use wallfinder_model::{Nanos, Step, Wall};
use wallfinder_report::words::{self, Lifted};
use wallfinder_sys::process;
use wallfinder_testbed::lab::LinkSpec;

use crate::commands::ab;
use crate::commands::find::{Answered, Question};
use crate::exit::Failed;
use crate::flags::{AbFlags, CpuList, FindFlags, TargetFlags};
use crate::interrupt::Interrupts;
use crate::stand::{Home, is_told_where};

/// Rounds of a comparison, and how long each setting is measured in one of them.
const ROUNDS: u32 = 8;
const MEASURED: Nanos = Nanos::from_secs(2);

/// Makes each change that is ours to make: `step` is what was squeezed, at so many connections.
/// `home` is where this thread was before there was any stand.
pub(crate) fn lift<'q>(
    flags: &FindFlags,
    predicted: impl Iterator<Item = (&'q Question, Answered<'q>)>,
    step: &Step,
    home: &Home,
    interrupts: &Interrupts,
) -> Result<Vec<Lifted>, Failed> {
    let mut lifted = Vec::new();
    for ((_, changes), (text, predicted)) in predicted {
        if interrupts.came().is_some() {
            break;
        }
        // Which processors are free is seen from there.
        home.back()?;
        let (by, measured) = match with_change(flags, step, text, changes) {
            Err(why) => (None, Err(why)),
            Ok(Made { ab, by }) => {
                let (session, result) = ab::compare(&ab, Some(interrupts.clone()))?;
                let sealed = session.seal(result);
                sealed.result?;
                let ratio = sealed.record.ab.as_ref().and_then(throughput);
                let measured = ratio
                    .map(|ratio| (ratio, sealed.folder.display().to_string()))
                    .ok_or_else(|| "it was interrupted".to_owned());
                (by, measured)
            }
        };
        lifted.push(Lifted {
            question: text.to_owned(),
            present: step.throughput,
            predicted,
            by,
            measured,
        });
    }
    Ok(lifted)
}

fn throughput(ab: &wallfinder_model::record::Ab) -> Option<Ratio> {
    let mut ratios = ab.ratios.iter();
    ratios.find(|r| r.measure == "throughput").cloned()
}

/// A change as it is made.
struct Made {
    /// The settings with and without it.
    ab: AbFlags,
    /// What is changed, where that is not what was asked.
    by: Option<String>,
}

/// The change as it can be made; or why it is not ours to make.
fn with_change(
    flags: &FindFlags,
    step: &Step,
    text: &str,
    changes: &[(Squeeze, f64)],
) -> Result<Made, String> {
    let mut made = Made {
        ab: as_it_is(flags, step),
        by: words::link_for_bytes(text),
    };
    let laid = flags.target.link.as_ref();
    let laid: Option<LinkSpec> = laid.and_then(|link| link.parse().ok());
    let mut link = laid;
    for (squeeze, factor) in changes {
        let times = |bits: u64| (bits as f64 * factor).round() as u64;
        match (squeeze, &mut link) {
            (Squeeze::Downlink, Some(link)) => link.down_bits = times(link.down_bits),
            (Squeeze::Uplink, Some(link)) => link.up_bits = times(link.up_bits),
            (Squeeze::Downlink | Squeeze::Uplink, None) => {
                return Err("the link is not ours: lay one with --subject and --link".to_owned());
            }
            (Squeeze::ServerSpeed | Squeeze::ServerCapacity, _) => {
                other_server(&mut made, flags, step, *squeeze, *factor)?;
            }
            (Squeeze::ClientSpeed | Squeeze::ClientCapacity, _) => {
                other_workers(&mut made, flags, step, *factor)?;
            }
            (Squeeze::InFlight, _) => other_in_flight(&mut made, flags, step, *factor)?,
            (Squeeze::MoreInFlight | Squeeze::ThinkTime, _) => {
                return Err("ask for in-flight, which a pause takes from".to_owned());
            }
            (Squeeze::OfferedLoad, _) => {
                return Err(
                    "both are held at one rate: `wallfinder ramp --rates` holds several".to_owned(),
                );
            }
            (Squeeze::BackendSpeed, _) => {
                return Err(
                    "what is behind the server is not ours to start: give it more processors, \
                     and `wallfinder compare` a run with them and one without"
                        .to_owned(),
                );
            }
        }
    }
    if link != laid {
        made.ab.link_b = link.map(|link| link.to_string());
    }
    Ok(made)
}

/// Two settings that are both as what was squeezed.
fn as_it_is(flags: &FindFlags, step: &Step) -> AbFlags {
    let mut target = flags.target.clone();
    target.duration = Nanos(u64::from(ROUNDS) * flags.window.unwrap_or(MEASURED).0);
    target.workers = Some(step.load.workers);
    target.require = None;
    target.threshold.clear();
    target.output.output = None;
    AbFlags {
        target,
        connections: step.load.connections,
        rate: flags.rate,
        rounds: ROUNDS,
        path: Vec::new(),
        url_b: None,
        header_b: Vec::new(),
        subject_b: None,
        link_b: None,
        server_quota_b: None,
        driver_b: None,
        connections_b: None,
        pipeline_b: None,
        max_in_flight_b: None,
        no_batching_b: false,
        threads_b: None,
        server_cpus_b: None,
        tune_b: Vec::new(),
        observe_b: Vec::new(),
        at_most_cost: None,
    }
}

/// Another quota where the server has one, else other processors.
fn other_server(
    made: &mut Made,
    flags: &FindFlags,
    step: &Step,
    squeeze: Squeeze,
    factor: f64,
) -> Result<(), String> {
    let wall = step.verdict.as_ref().map(|verdict| verdict.wall);
    match (squeeze, flags.target.server_quota) {
        (Squeeze::ServerCapacity, Some(cores)) => {
            second_server(&flags.target)?;
            made.ab.server_quota_b = Some(cores * factor);
            return Ok(());
        }
        (_, Some(_)) => {
            return Err(
                "the server has a quota, and more time is what can be given: ask for \
                 server-capacity"
                    .to_owned(),
            );
        }
        (Squeeze::ServerSpeed, None) if wall == Some(Wall::ServerSerial) => {
            return Err(
                "no processor here is faster, and of more of them a serial section has no use: \
                 `wallfinder ab --subject-b` compares another server"
                    .to_owned(),
            );
        }
        (_, None) => {}
    }
    second_server(&flags.target)?;
    let telemetry = &step.telemetry;
    let (server, client) = (cpus_of(&telemetry.server), cpus_of(&telemetry.client));
    if server.is_empty() || client.is_empty() {
        return Err("which processors server and client have is not known".to_owned());
    }
    let there = process::allowed_cpus().into_iter();
    let mut free: Vec<u32> = there
        .filter(|cpu| !server.contains(cpu) && !client.contains(cpu))
        .collect();
    if telemetry.relay.is_some() {
        // The link's relay stays where neither side is.
        free.pop();
    }
    let other = other_cpus(&server, &free, factor)?;
    made.by = Some(format!(
        "the server on {} in place of {}",
        shown_cpus(&other),
        shown_cpus(&server)
    ));
    made.ab.server_cpus_b = Some(CpuList(other));
    made.ab.target.server_cpus = Some(CpuList(server));
    made.ab.target.client_cpus = Some(CpuList(client));
    Ok(())
}

/// Whether a second server can stand beside the first.
fn second_server(target: &TargetFlags) -> Result<(), String> {
    let Some(subject) = &target.subject else {
        return Err(
            "the server is not ours to start otherwise: give its command with --subject".to_owned(),
        );
    };
    match target.link.is_some() || is_told_where(subject) {
        true => Ok(()),
        false => Err(
            "two of this server would listen on one port: `wallfinder ab` compares them on two, \
             with --url-b"
                .to_owned(),
        ),
    }
}

fn cpus_of(family: &Option<FamilySummary>) -> Vec<u32> {
    let family = family.as_ref();
    family.map_or(Vec::new(), |family| family.cpus_allowed.clone())
}

/// So many times these processors, by those that are free.
fn other_cpus(now: &[u32], free: &[u32], factor: f64) -> Result<Vec<u32>, String> {
    let wanted = whole(now.len(), factor)?;
    if wanted <= now.len() {
        return Ok(now[..wanted].to_vec());
    }
    let more = wanted - now.len();
    let Some(added) = free.get(..more) else {
        return Err(format!(
            "the server has {} of the {wanted} processors that it takes, and {} are free: leave some \
             with --server-cpus and --client-cpus",
            now.len(),
            free.len()
        ));
    };
    let mut cpus = [now, added].concat();
    cpus.sort_unstable();
    Ok(cpus)
}

/// `cpu 0`, `cpus 0,2`.
fn shown_cpus(cpus: &[u32]) -> String {
    let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
    let word = if cpus.len() == 1 { "cpu" } else { "cpus" };
    format!("{word} {}", list.join(","))
}

/// More workers, where the client has processors without one; or fewer.
fn other_workers(
    made: &mut Made,
    flags: &FindFlags,
    step: &Step,
    factor: f64,
) -> Result<(), String> {
    let target = &flags.target;
    if target.driver.is_some() {
        return Err(
            "how many threads a driver has is up to its own flags: `wallfinder ab --driver-b` \
             compares others"
                .to_owned(),
        );
    }
    if target.client_quota.is_some() {
        return Err(
            "the load generator has a quota, and both are held to it: `wallfinder compare` a run \
             with a higher --client-quota"
                .to_owned(),
        );
    }
    let now = step.load.workers;
    let connections = step
        .load
        .connections
        .min(step.load.max_in_flight.unwrap_or(u32::MAX));
    let wanted = workers(
        now,
        factor,
        cpus_of(&step.telemetry.client).len(),
        connections,
    )?;
    made.by = Some(format!(
        "{wanted} engine thread{} in place of {now}",
        if wanted == 1 { "" } else { "s" }
    ));
    made.ab.target.workers = Some(now);
    made.ab.threads_b = Some(wanted);
    Ok(())
}

/// So many times these workers: each takes a processor and a connection.
fn workers(now: u32, factor: f64, cpus: usize, connections: u32) -> Result<u32, String> {
    let wanted = whole(now as usize, factor)?;
    if wanted > cpus {
        return Err(format!(
            "that takes {wanted} engine threads, with a processor each, and the client has {cpus}: \
             give it more with --client-cpus, and begin with fewer threads (-t)"
        ));
    }
    match u32::try_from(wanted) {
        Ok(wanted) if wanted <= connections => Ok(wanted),
        _ => Err(format!(
            "that takes {wanted} engine threads, with a connection each, and there are \
             {connections}: hold more with -c"
        )),
    }
}

/// More connections or a higher bound in flight, or less.
fn other_in_flight(
    made: &mut Made,
    flags: &FindFlags,
    step: &Step,
    factor: f64,
) -> Result<(), String> {
    let driver = flags.target.driver.as_ref();
    if driver.is_some_and(|command| !command.contains("{connections}")) {
        return Err(
            "the driver holds what its own flags say: write {connections} in its command for the \
             number"
                .to_owned(),
        );
    }
    if step.load.max_in_flight.is_some() {
        let bound = step.load.in_flight_bound() as f64 * factor;
        made.ab.max_in_flight_b = Some((bound.round() as u32).max(1));
    } else {
        let connections = f64::from(step.load.connections) * factor;
        made.ab.connections_b = Some((connections.round() as u32).max(1));
    }
    Ok(())
}

/// So many times a count, where that is about whole.
fn whole(now: usize, factor: f64) -> Result<usize, String> {
    const OFF_MAX: f64 = 0.05;
    let wanted = now as f64 * factor;
    let whole = wanted.round();
    match whole >= 1.0 && (whole / wanted - 1.0).abs() <= OFF_MAX {
        true => Ok(whole as usize),
        false => Err(format!(
            "{factor} times {now} is no whole number of processors"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_gets_processors_that_nobody_has() {
        assert_eq!(other_cpus(&[1], &[0, 3], 2.0), Ok(vec![0, 1]));
        assert_eq!(other_cpus(&[0, 1], &[], 0.5), Ok(vec![0]));
        assert_eq!(shown_cpus(&[0, 1]), "cpus 0,1");
        let why = other_cpus(&[0], &[], 2.0).expect_err("the client has the other");
        assert!(
            why.contains("1 of the 2 processors") && why.contains("--client-cpus"),
            "{why}"
        );
        assert!(other_cpus(&[0], &[2], 1.5).is_err(), "no half of one");
    }

    #[test]
    fn workers_take_a_processor_and_a_connection_each() {
        assert_eq!(workers(1, 2.0, 2, 16), Ok(2));
        assert_eq!(workers(2, 0.5, 2, 16), Ok(1));
        let why = workers(1, 2.0, 1, 16).expect_err("it has a worker already");
        assert!(why.contains("--client-cpus"), "{why}");
        let why = workers(1, 2.0, 4, 1).expect_err("one connection");
        assert!(why.contains("-c"), "{why}");
    }

    #[test]
    fn counts_come_whole() {
        assert_eq!(whole(3, 1.33), Ok(4));
        for (now, factor) in [(1, 1.5), (1, 0.2), (0, 2.0)] {
            assert!(whole(now, factor).is_err(), "{factor} times {now}");
        }
    }
}
