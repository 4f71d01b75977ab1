//! A predicted change as it can be made: the scenario of a comparison, with and without it.
//!
//! Not every change can be made as it was asked: what is made in its place is said beside it. Where nothing
//! can be, the reason names what to give instead.

use wallfinder_model::scenario::{Ab, Expect};
use wallfinder_model::telemetry::FamilySummary;
use wallfinder_model::{LinkSpec, Load, Nanos, Scenario, Squeeze, Step, Wall};

/// Rounds of a comparison, and how long each setting is measured in one of them.
const ROUNDS: u32 = 8;
const MEASURED: Nanos = Nanos::from_secs(2);

/// What is known of the step that was squeezed, and of the place.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The load that it was squeezed at.
    pub load: Load,
    /// What was concluded.
    pub wall: Option<Wall>,
    /// Processors of the server, where they are known.
    pub server_cpus: Vec<u32>,
    /// Processors of the client.
    pub client_cpus: Vec<u32>,
    /// Whether a relay has a processor of its own.
    pub has_relay: bool,
    /// Processors that there are.
    pub processors: Vec<u32>,
    /// Whether the subject is told where to listen, so that two of it can stand side by side.
    pub is_told_where: bool,
}

impl Facts {
    /// As a step tells them.
    pub fn of(step: &Step, processors: Vec<u32>, is_told_where: bool) -> Facts {
        let telemetry = &step.telemetry;
        Facts {
            load: step.load.clone(),
            wall: step.verdict.as_ref().map(|verdict| verdict.wall),
            server_cpus: cpus_of(&telemetry.server),
            client_cpus: cpus_of(&telemetry.client),
            has_relay: telemetry.relay.is_some(),
            processors,
            is_told_where,
        }
    }
}

/// A change as it is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// What `ab` is to hold.
    pub scenario: Scenario,
    /// What is changed, where that is not what was asked.
    pub by: Option<String>,
}

/// A change to a scenario, at the load that it was squeezed at.
///
/// # Errors
///
/// Why it is not ours to make.
pub fn made(
    scenario: &Scenario,
    changes: &[(Squeeze, f64)],
    facts: &Facts,
) -> Result<Made, String> {
    let mut lift = Lift {
        scenario,
        facts,
        a: as_it_is(scenario, &facts.load),
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
            (Squeeze::MoreClients, _) => {
                return Err(
                    "give more of --client-host, and `wallfinder compare` a run with them"
                        .to_owned(),
                );
            }
            (Squeeze::InFlight, _) => lift.other_in_flight(*factor)?,
            (Squeeze::MoreInFlight | Squeeze::ThinkTime, _) => {
                return Err("ask for in-flight, which a pause takes from".to_owned());
            }
            (Squeeze::OfferedLoad, _) => {
                return Err(
                    "both are held at one rate: `wallfinder ramp --rates` holds several".to_owned(),
                );
            }
            (Squeeze::BackendSpeed | Squeeze::BackendCapacity, _) => {
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
fn as_it_is(scenario: &Scenario, load: &Load) -> Scenario {
    let mut a = scenario.clone();
    let window = scenario.squeeze.as_ref().and_then(|squeeze| squeeze.window);
    a.squeeze = None;
    a.expect = Expect::default();
    a.load.duration = Nanos(u64::from(ROUNDS) * window.unwrap_or(MEASURED).0);
    a.load.threads = Some(load.workers);
    a.load.connections = Some(load.connections);
    a
}

/// A change on its way.
struct Lift<'l> {
    scenario: &'l Scenario,
    facts: &'l Facts,
    a: Scenario,
    ab: Ab,
    by: Option<String>,
}

impl Lift<'_> {
    /// Another quota where the server has one, else other processors.
    fn other_server(&mut self, squeeze: Squeeze, factor: f64) -> Result<(), String> {
        let wall = self.facts.wall;
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
        let (server, client) = (&self.facts.server_cpus, &self.facts.client_cpus);
        if server.is_empty() || client.is_empty() {
            return Err("which processors server and client have is not known".to_owned());
        }
        let there = self.facts.processors.iter().copied();
        let mut free: Vec<u32> = there
            .filter(|cpu| !server.contains(cpu) && !client.contains(cpu))
            .collect();
        if self.facts.has_relay {
            // The link's relay stays where neither side is.
            free.pop();
        }
        let other = other_cpus(server, &free, factor)?;
        self.by = Some(format!(
            "the server on {} in place of {}",
            shown_cpus(&other),
            shown_cpus(server)
        ));
        self.ab.b.server_cpus = Some(other);
        self.a.server.cpus = Some(server.clone());
        self.a.client.cpus = Some(client.clone());
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
        let load = &self.facts.load;
        let now = load.workers;
        let room = load.max_in_flight.unwrap_or(u32::MAX);
        let processors = self.facts.client_cpus.len();
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
        let load = &self.facts.load;
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

    fn scenario() -> Scenario {
        let mut scenario = Scenario::default();
        scenario.target.url = "http://subject:80/".into();
        scenario.server.subject = Some("catalogue".into());
        scenario.expect.require = Some("server-bound".into());
        scenario.squeeze = Some(wallfinder_model::scenario::Squeeze {
            window: Some(Nanos::from_millis(500)),
            ..Default::default()
        });
        scenario
    }

    fn facts() -> Facts {
        Facts {
            load: Load {
                drain: Nanos(0),
                ..Load::closed(16)
            },
            wall: Some(Wall::ServerCpu),
            server_cpus: vec![0],
            client_cpus: vec![2, 3],
            has_relay: false,
            processors: vec![0, 1, 2, 3],
            is_told_where: true,
        }
    }

    fn b(made: &Made) -> wallfinder_model::scenario::Changes {
        made.scenario.ab.clone().expect("it is a comparison").b
    }

    #[test]
    fn a_lift_is_the_scenario_with_one_thing_changed() {
        let (mut scenario, facts) = (scenario(), facts());
        scenario.link.lay = Some("1gbit,delay=5ms".into());
        let link = made(&scenario, &[(Squeeze::Downlink, 2.0)], &facts).unwrap();
        let changed = b(&link).link.expect("another link");
        assert_eq!(changed, "2gbit,mtu=1500,up=1gbit,delay=5ms");
        let a = &link.scenario;
        assert_eq!(a.load.duration, Nanos::from_secs(4), "8 rounds of 500 ms");
        assert_eq!((a.load.connections, a.load.threads), (Some(16), Some(1)));
        assert_eq!(a.expect, Expect::default());
        assert!(a.squeeze.is_none() && link.by.is_none());
        let workers = made(&scenario, &[(Squeeze::ClientSpeed, 2.0)], &facts).unwrap();
        assert_eq!(b(&workers).threads, Some(2));
        let by = workers.by.as_deref();
        assert_eq!(by, Some("2 engine threads in place of 1"));
        let server = made(&scenario, &[(Squeeze::ServerSpeed, 2.0)], &facts).unwrap();
        assert_eq!(b(&server).server_cpus, Some(vec![0, 1]));
        assert_eq!(server.scenario.server.cpus, Some(vec![0]));
        assert_eq!(server.scenario.client.cpus, Some(vec![2, 3]));
        let more = made(&scenario, &[(Squeeze::InFlight, 1.5)], &facts).unwrap();
        assert_eq!(b(&more).connections, Some(24));
        scenario.server.quota = Some(0.5);
        let quota = made(&scenario, &[(Squeeze::ServerCapacity, 2.0)], &facts).unwrap();
        assert_eq!(b(&quota).server_quota, Some(1.0));
    }

    #[test]
    fn what_is_not_ours_to_change_is_told_with_what_to_give() {
        let (plain, facts) = (scenario(), facts());
        let why = |scenario: &Scenario, squeeze, facts: &Facts| {
            made(scenario, &[(squeeze, 2.0)], facts).expect_err("it is not ours")
        };
        let no_link = why(&plain, Squeeze::Downlink, &facts);
        assert!(no_link.contains("--link"), "{no_link}");
        let mut foreign = plain.clone();
        foreign.client.driver = Some("wrk {url}".into());
        let threads = why(&foreign, Squeeze::ClientSpeed, &facts);
        assert!(threads.contains("--driver-b"), "{threads}");
        let held = why(&foreign, Squeeze::InFlight, &facts);
        assert!(held.contains("{connections}"), "{held}");
        let serial = Facts {
            wall: Some(Wall::ServerSerial),
            ..facts.clone()
        };
        let serial = why(&plain, Squeeze::ServerSpeed, &serial);
        assert!(serial.contains("--subject-b"), "{serial}");
        let relayed = Facts {
            has_relay: true,
            processors: vec![0, 1, 2, 3],
            ..facts.clone()
        };
        let full = why(&plain, Squeeze::ServerSpeed, &relayed);
        assert!(full.contains("0 are free"), "{full}");
        let alone = Facts {
            is_told_where: false,
            ..facts
        };
        let port = why(&plain, Squeeze::ServerSpeed, &alone);
        assert!(port.contains("--url-b"), "{port}");
    }

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
