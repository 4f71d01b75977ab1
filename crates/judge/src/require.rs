//! `--require`: whether a verdict is what a user insists on.
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

    /// Whether there is a verdict that satisfies it. Which one is the caller's choice: of a ramp it is the one at
    /// the ceiling, for the steps below it are bound by what is in flight.
    pub fn holds(self, verdict: Option<&Verdict>) -> bool {
        verdict.is_some_and(|verdict| match self {
            Requirement::ServerBound => verdict.wall.is_server(),
            Requirement::Wall(wall) => verdict.wall == wall && wall != Wall::Inconclusive,
        })
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
            let holds = Requirement::ServerBound.holds(Some(&verdict));
            assert_eq!(holds, expected, "{wall:?}");
        }
    }

    #[test]
    fn nothing_judged_is_nothing_fulfilled() {
        assert!(!Requirement::ServerBound.holds(None));
        assert!(!Requirement::Wall(Wall::ClientCpu).holds(None));
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
