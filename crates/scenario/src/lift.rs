//! A predicted change as it can be made: the scenario of a comparison, with and without it.
//!
//! Not every change can be made as it was asked: what is made in its place is said beside it. Where nothing
//! can be, the reason names what to give instead.

use wallfinder_model::scenario::{Ab, Expect};
use wallfinder_model::telemetry::FamilySummary;
use wallfinder_model::{LinkSpec, Nanos, Scenario, Squeeze, Step, Wall};

/// Rounds of a comparison, and how long each setting is measured in one of them.
const ROUNDS: u32 = 8;
const MEASURED: Nanos = Nanos::from_secs(2);

/// What is known of the place beside the scenario and its step.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Processors that there are.
    pub processors: Vec<u32>,
    /// Whether the subject is told where to listen, so that two of it can stand side by side.
    pub is_told_where: bool,
}

/// A change as it is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// What `ab` is to hold.
    pub scenario: Scenario,
    /// What is changed, where that is not what was asked.
    pub by: Option<String>,
}

/// A change to the scenario that a step was squeezed in, at the step's load.
///
/// # Errors
///
/// Why it is not ours to make.
pub fn made(
    scenario: &Scenario,
    step: &Step,
    changes: &[(Squeeze, f64)],
    facts: &Facts,
) -> Result<Made, String> {
    let mut lift = Lift {
        scenario,
        step,
        facts,
        a: as_it_is(scenario, step),
        ab: Ab {
            rounds: ROUNDS,
            ..Ab::default()
        },
        by: None,
    };
    let laid = scenario.link.lay.as_ref();
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
                lift.other_server(*squeeze, *factor)?;
            }
            (Squeeze::ClientSpeed | Squeeze::ClientCapacity, _) => lift.other_workers(*factor)?,
            (Squeeze::InFlight, _) => lift.other_in_flight(*factor)?,
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
        lift.ab.b.link = link.map(|link| link.to_string());
    }
    let Lift { mut a, ab, by, .. } = lift;
    a.ab = Some(ab);
    Ok(Made { scenario: a, by })
}

/// What was squeezed, to be held in turn with what differs from it.
fn as_it_is(scenario: &Scenario, step: &Step) -> Scenario {
    let mut a = scenario.clone();
    let window = scenario.squeeze.as_ref().and_then(|squeeze| squeeze.window);
    a.squeeze = None;
    a.expect = Expect::default();
    a.load.duration = Nanos(u64::from(ROUNDS) * window.unwrap_or(MEASURED).0);
    a.load.threads = Some(step.load.workers);
    a.load.connections = Some(step.load.connections);
    a
}

/// A change on its way.
struct Lift<'l> {
    scenario: &'l Scenario,
    step: &'l Step,
    facts: &'l Facts,
    a: Scenario,
    ab: Ab,
    by: Option<String>,
}

impl Lift<'_> {
    /// Another quota where the server has one, else other processors.
    fn other_server(&mut self, squeeze: Squeeze, factor: f64) -> Result<(), String> {
        let wall = self.step.verdict.as_ref().map(|verdict| verdict.wall);
        match (squeeze, self.scenario.server.quota) {
            (Squeeze::ServerCapacity, Some(cores)) => {
                self.second_server()?;
                self.ab.b.server_quota = Some(cores * factor);
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
        self.second_server()?;
        let telemetry = &self.step.telemetry;
        let (server, client) = (cpus_of(&telemetry.server), cpus_of(&telemetry.client));
        if server.is_empty() || client.is_empty() {
            return Err("which processors server and client have is not known".to_owned());
        }
        let there = self.facts.processors.iter().copied();
        let mut free: Vec<u32> = there
            .filter(|cpu| !server.contains(cpu) && !client.contains(cpu))
            .collect();
        if telemetry.relay.is_some() {
            // The link's relay stays where neither side is.
            free.pop();
        }
        let other = other_cpus(&server, &free, factor)?;
        self.by = Some(format!(
            "the server on {} in place of {}",
            shown_cpus(&other),
            shown_cpus(&server)
        ));
        self.ab.b.server_cpus = Some(other);
        self.a.server.cpus = Some(server);
        self.a.client.cpus = Some(client);
        Ok(())
    }

    /// Whether a second server can stand beside the first.
    fn second_server(&self) -> Result<(), String> {
        if self.scenario.server.subject.is_none() {
            return Err(
                "the server is not ours to start otherwise: give its command with --subject"
                    .to_owned(),
            );
        }
        match self.scenario.link.lay.is_some() || self.facts.is_told_where {
            true => Ok(()),
            false => Err(
                "two of this server would listen on one port: `wallfinder ab` compares them on two, \
                 with --url-b"
                    .to_owned(),
            ),
        }
    }

    /// More workers, where the client has processors without one; or fewer.
    fn other_workers(&mut self, factor: f64) -> Result<(), String> {
        if self.scenario.driver().is_some() {
            return Err(
                "how many threads a driver has is up to its own flags: `wallfinder ab --driver-b` \
                 compares others"
                    .to_owned(),
            );
        }
        if self.scenario.client.quota.is_some() {
            return Err(
                "the load generator has a quota, and both are held to it: `wallfinder compare` a run \
                 with a higher --client-quota"
                    .to_owned(),
            );
        }
        let load = &self.step.load;
        let now = load.workers;
        let room = load.max_in_flight.unwrap_or(u32::MAX);
        let processors = cpus_of(&self.step.telemetry.client).len();
        let wanted = workers(now, factor, processors, load.connections.min(room))?;
        self.by = Some(format!(
            "{wanted} engine thread{} in place of {now}",
            if wanted == 1 { "" } else { "s" }
        ));
        self.a.load.threads = Some(now);
        self.ab.b.threads = Some(wanted);
        Ok(())
    }

    /// More connections or a higher bound in flight, or less.
    fn other_in_flight(&mut self, factor: f64) -> Result<(), String> {
        let driver = self.scenario.driver();
        if driver.is_some_and(|command| !command.contains("{connections}")) {
            return Err(
                "the driver holds what its own flags say: write {connections} in its command for the \
                 number"
                    .to_owned(),
            );
        }
        let load = &self.step.load;
        if load.max_in_flight.is_some() {
            let bound = load.in_flight_bound() as f64 * factor;
            self.ab.b.max_in_flight = Some((bound.round() as u32).max(1));
        } else {
            let connections = f64::from(load.connections) * factor;
            self.ab.b.connections = Some((connections.round() as u32).max(1));
        }
        Ok(())
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
