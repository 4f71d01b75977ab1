//! `--require`: whether verdicts are what a user insists on.
//!
//! A requirement fails closed: without a verdict, or with one that is inconclusive or
//! co-limited, it does not hold.

use std::fmt;
use std::str::FromStr;

use wallfinder_model::{Verdict, Wall};

/// What is insisted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// The wall stands on the server's side: its CPU, a serial section, a wait, a backend.
    ServerBound,
    /// Exactly this wall.
    Wall(Wall),
}

/// A word that is no requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRequirement(String);

impl fmt::Display for BadRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not server-bound or a wall:", self.0)?;
        for (i, wall) in Requirement::WALLS.iter().enumerate() {
            write!(f, "{} {}", if i == 0 { "" } else { "," }, wall.label())?;
        }
        Ok(())
    }
}

impl std::error::Error for BadRequirement {}

impl Requirement {
    /// Walls that can be insisted on.
    const WALLS: [Wall; 10] = [
        Wall::ServerCpu,
        Wall::ServerSerial,
        Wall::ClientCpu,
        Wall::Downlink,
        Wall::Uplink,
        Wall::Concurrency,
        Wall::OfferedLoad,
        Wall::Backend,
        Wall::Wait,
        Wall::CoLimited,
    ];

    /// Whether one verdict satisfies it.
    pub fn holds(self, verdict: &Verdict) -> bool {
        match self {
            Requirement::ServerBound => verdict.wall.is_server(),
            Requirement::Wall(wall) => verdict.wall == wall && wall != Wall::Inconclusive,
        }
    }
}

impl FromStr for Requirement {
    type Err = BadRequirement;

    fn from_str(text: &str) -> Result<Requirement, BadRequirement> {
        if text == "server-bound" {
            return Ok(Requirement::ServerBound);
        }
        Requirement::WALLS
            .into_iter()
            .find(|wall| wall.label() == text)
            .map(Requirement::Wall)
            .ok_or_else(|| BadRequirement(text.to_owned()))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Requirement::ServerBound => "server-bound",
            Requirement::Wall(wall) => wall.label(),
        })
    }
}

/// What became of a requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether every verdict satisfies it, and there is one.
    pub holds: bool,
    /// In words: what was required, and what the verdicts were where it failed.
    pub sentence: String,
}

/// Holds a requirement against verdicts. Which ones is the caller's choice: of a ramp it
/// is the verdict at the ceiling, for the steps below it are bound by what is in flight.
pub fn require(requirement: Requirement, verdicts: &[Verdict]) -> Answer {
    if verdicts.is_empty() {
        return Answer {
            holds: false,
            sentence: format!("{requirement} was required, and there is no verdict"),
        };
    }
    let failing: Vec<&str> = verdicts
        .iter()
        .filter(|verdict| !requirement.holds(verdict))
        .map(|verdict| verdict.wall.label())
        .collect();
    let sentence = if failing.is_empty() {
        format!("{requirement} was required and holds")
    } else {
        format!(
            "{requirement} was required, and the wall is {}",
            failing.join(", ")
        )
    };
    Answer {
        holds: failing.is_empty(),
        sentence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::{a_machine, a_step};
    use crate::observed::verdict;

    #[test]
    fn server_bound_is_any_wall_of_the_server() {
        let mut verdict = verdict(&a_step().build(), &a_machine());
        for wall in Wall::ALL {
            verdict.wall = wall;
            let expected = matches!(
                wall,
                Wall::ServerCpu | Wall::ServerSerial | Wall::Wait | Wall::Backend
            );
            let answer = require(Requirement::ServerBound, std::slice::from_ref(&verdict));
            assert_eq!(answer.holds, expected, "{wall:?}");
        }
    }

    #[test]
    fn nothing_judged_is_nothing_fulfilled() {
        let any = "client-cpu".parse().unwrap();
        assert!(!require(any, &[]).holds);
    }

    #[test]
    fn inconclusive_cannot_be_insisted_on() {
        let error = "inconclusive".parse::<Requirement>().unwrap_err();
        assert!(
            error.to_string().contains("server-cpu, server-serial"),
            "{error}"
        );
        assert!("Server-CPU".parse::<Requirement>().is_err());
        assert_eq!("server-bound".parse(), Ok(Requirement::ServerBound));
    }
}
