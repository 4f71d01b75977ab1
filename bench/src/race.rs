//! Rounds: every contestant once in each, in an order drawn anew, at the same server.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::child::{self, Ended};
use crate::contestants::{Contestant, Tools};
use crate::noise;
use crate::scenario::Scenario;
use crate::subject::Subject;

/// How much is run.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Rounds.
    pub rounds: usize,
    /// Seconds for each contestant in each round.
    pub seconds: f64,
    /// How often a turn that others disturbed is taken again.
    pub patience: usize,
    /// How long a turn may wait for others to pause.
    pub lull: Duration,
}

/// One contestant's turn.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Turn {
    /// Which round.
    pub round: usize,
    /// Good answers.
    pub answered: u64,
    /// Everything else.
    pub failed: u64,
    /// Good answers per second.
    pub throughput: f64,
    /// CPU of the client's process, from its start to its end, for each good answer.
    pub client_us: f64,
    /// Share of it in user mode (a tick-based estimate).
    pub client_user_share: f64,
    /// CPU of the server in the same time, for each good answer.
    pub server_us: f64,
    /// Share of both processors that others took meanwhile (to a per cent or two).
    pub foreign_share: f64,
}

/// What one contestant did.
#[derive(Debug, Clone, Serialize)]
pub struct Score {
    /// Who.
    #[serde(serialize_with = "by_name")]
    pub contestant: Contestant,
    /// What its binary says of itself.
    pub version: Option<String>,
    /// The command of its turns.
    pub command: String,
    /// The turns that worked.
    pub turns: Vec<Turn>,
    /// What went wrong in the others.
    pub errors: Vec<String>,
}

/// A scenario, raced.
#[derive(Debug, Clone, Serialize)]
pub struct Race {
    /// Which scenario.
    pub scenario: &'static str,
    /// The request's target.
    pub path: &'static str,
    /// What the server says of itself.
    pub subject: serde_json::Value,
    /// Connections.
    pub connections: u32,
    /// Requests in flight on each.
    pub depth: u32,
    /// Who raced.
    pub scores: Vec<Score>,
    /// Who did not, and why.
    pub absent: Vec<(String, String)>,
}

fn by_name<S: serde::Serializer>(who: &Contestant, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&who.name())
}

/// Races those who are there. `told` hears of every turn.
pub fn race(
    scenario: &Scenario,
    contestants: &[Contestant],
    tools: &Tools,
    subject: &Subject,
    size: Size,
    random: &mut fastrand::Rng,
    told: &mut dyn FnMut(&str),
) -> Result<Race, String> {
    let mut race = Race {
        scenario: scenario.name,
        path: scenario.path,
        subject: subject.announcement.clone(),
        connections: scenario.connections,
        depth: scenario.depth,
        scores: Vec::new(),
        absent: Vec::new(),
    };
    for &contestant in contestants {
        match contestant.command(tools, scenario, subject.address, size.seconds) {
            Ok(command) => race.scores.push(Score {
                contestant,
                version: contestant.version(tools),
                command: format!("{command:?}").replace('"', ""),
                turns: Vec::new(),
                errors: Vec::new(),
            }),
            Err(why) => {
                told(&format!("{} does not take part: {why}", contestant.name()));
                race.absent.push((contestant.name(), why));
            }
        }
    }
    // The first load on a fresh server grows its heap and stacks: nobody's turn.
    let _ = turn(scenario, Contestant::Engine, tools, subject, 1.0)?;
    let mut order: Vec<usize> = (0..race.scores.len()).collect();
    for round in 1..=size.rounds {
        random.shuffle(&mut order);
        for &at in &order {
            let contestant = race.scores[at].contestant;
            let done = patient_turn(scenario, contestant, tools, subject, size)?;
            let score = &mut race.scores[at];
            match done {
                Ok(mut turn) => {
                    turn.round = round;
                    told(&format!(
                        "{} round {round}/{} {:18} {:>9.0}/s {:>7.3} µs, others {:.0} %",
                        scenario.name,
                        size.rounds,
                        contestant.name(),
                        turn.throughput,
                        turn.client_us,
                        turn.foreign_share * 100.0
                    ));
                    score.turns.push(turn);
                }
                Err(why) => {
                    told(&format!(
                        "{} round {round} {}: {why}",
                        scenario.name,
                        contestant.name()
                    ));
                    score.errors.push(why);
                }
            }
        }
    }
    Ok(race)
}

/// A turn, taken again while others disturb it, as far as patience goes: the least
/// disturbed one.
fn patient_turn(
    scenario: &Scenario,
    contestant: Contestant,
    tools: &Tools,
    subject: &Subject,
    size: Size,
) -> Result<Result<Turn, String>, String> {
    let mut best: Option<Turn> = None;
    let cpus = cpus(tools, subject);
    for _ in 0..=size.patience {
        if !size.lull.is_zero() {
            noise::wait_for_lull(&cpus, size.lull);
        }
        let turn = match turn(scenario, contestant, tools, subject, size.seconds)? {
            Ok(turn) => turn,
            Err(why) => return Ok(best.ok_or(why)),
        };
        if best.is_none_or(|best| turn.foreign_share < best.foreign_share) {
            best = Some(turn);
        }
        if turn.foreign_share <= noise::DISTURBED_SHARE {
            break;
        }
    }
    Ok(best.ok_or_else(|| "no turn".to_owned()))
}

fn cpus(tools: &Tools, subject: &Subject) -> Vec<u32> {
    let cpus = [Some(subject.cpu), tools.client_cpu];
    cpus.into_iter().flatten().collect()
}

/// The outer error is the server's, the inner one the contestant's.
fn turn(
    scenario: &Scenario,
    contestant: Contestant,
    tools: &Tools,
    subject: &Subject,
    seconds: f64,
) -> Result<Result<Turn, String>, String> {
    let command = contestant.command(tools, scenario, subject.address, seconds);
    let mut command = match command {
        Ok(command) => command,
        Err(why) => return Ok(Err(why)),
    };
    let cpus = cpus(tools, subject);
    let (began, busy_before) = (Instant::now(), noise::busy_seconds(&cpus));
    let server_before = subject.cpu_seconds()?;
    let at_most = Duration::from_secs_f64(seconds * 2.0 + 30.0);
    let ended = child::run_pinned(&mut command, tools.client_cpu, at_most);
    let server_seconds = subject.cpu_seconds()? - server_before;
    let busy_seconds = noise::busy_seconds(&cpus) - busy_before;
    let offered_seconds = began.elapsed().as_secs_f64() * cpus.len() as f64;
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let foreign_seconds = busy_seconds - server_seconds - ended.cpu_seconds();
    Ok(
        account(contestant, &ended, server_seconds).map(|turn| Turn {
            foreign_share: (foreign_seconds / offered_seconds).max(0.0),
            ..turn
        }),
    )
}

fn account(contestant: Contestant, ended: &Ended, server_seconds: f64) -> Result<Turn, String> {
    if !ended.is_success() {
        return Err(ended.last_words());
    }
    let tally = contestant
        .read(&ended.stdout)
        .map_err(|error| error.to_string())?;
    if tally.answered == 0 || tally.seconds <= 0.0 {
        return Err("no good answer".into());
    }
    let answered = tally.answered as f64;
    Ok(Turn {
        round: 0,
        answered: tally.answered,
        failed: tally.failed,
        throughput: answered / tally.seconds,
        client_us: ended.cpu_seconds() * 1e6 / answered,
        client_user_share: ended.user_seconds / ended.cpu_seconds(),
        server_us: server_seconds * 1e6 / answered,
        foreign_share: 0.0,
    })
}

impl Race {
    /// Who raced and worked at least once.
    pub fn score(&self, contestant: Contestant) -> Option<&Score> {
        self.scores
            .iter()
            .find(|score| score.contestant == contestant && !score.turns.is_empty())
    }
}

impl Score {
    /// One quantity of all turns.
    pub fn each(&self, of: fn(&Turn) -> f64) -> Vec<f64> {
        self.turns.iter().map(of).collect()
    }

    /// One quantity, ours beside theirs, of the rounds in which both worked.
    pub fn paired(&self, other: &Score, of: fn(&Turn) -> f64) -> Vec<(f64, f64)> {
        self.turns
            .iter()
            .filter_map(|mine| {
                let theirs = other.turns.iter().find(|turn| turn.round == mine.round)?;
                Some((of(mine), of(theirs)))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(stdout: &str) -> Ended {
        Ended {
            status: Default::default(),
            in_time: true,
            stdout: stdout.into(),
            stderr: String::new(),
            user_seconds: 0.25,
            system_seconds: 0.75,
        }
    }

    #[test]
    fn a_turn_is_accounted_by_good_answers() {
        let output = r#"{"answered":200000,"failed":3,"seconds":2.0}"#;
        let turn = account(Contestant::NULL_EPOLL, &ended(output), 1.5).unwrap();
        assert_eq!(turn.throughput, 100_000.0);
        assert_eq!((turn.client_us, turn.server_us), (5.0, 7.5));
        assert_eq!((turn.client_user_share, turn.failed), (0.25, 3));
    }

    #[test]
    fn a_turn_without_answers_is_an_error() {
        let output = r#"{"answered":0,"failed":3,"seconds":2.0}"#;
        assert!(account(Contestant::NULL_EPOLL, &ended(output), 1.5).is_err());
        assert!(account(Contestant::Wrk, &ended("unable to connect"), 1.5).is_err());
    }

    #[test]
    fn rounds_that_one_of_both_lost_are_left_out() {
        let score = |rounds: &[usize]| Score {
            contestant: Contestant::Wrk,
            version: None,
            command: String::new(),
            turns: rounds
                .iter()
                .map(|round| Turn {
                    round: *round,
                    answered: 1,
                    failed: 0,
                    throughput: *round as f64,
                    client_us: 1.0,
                    client_user_share: 0.5,
                    server_us: 1.0,
                    foreign_share: 0.0,
                })
                .collect(),
            errors: Vec::new(),
        };
        let pairs = score(&[1, 2, 4]).paired(&score(&[2, 3, 4]), |turn| turn.throughput);
        assert_eq!(pairs, vec![(2.0, 2.0), (4.0, 4.0)]);
    }
}
