//! Client hosts of several that rest in turns, while the others take their connections over.
//!
//! As much is in flight as before, and fewer machines send it: what throughput loses is what more machines would bring.
//! A fifth of the hosts rests at once, and one at least, so that of two or three hosts the dose is large.

use wallfinder_model::drive::Clients;
use wallfinder_testbed::squeeze::Check;

use crate::{Producer, StepOrder};

/// The others may have so many times in flight what all had.
const IN_FLIGHT_MAX: f64 = 1.1;
/// Names that a check tells.
const NAMED_MAX: usize = 3;

/// Who of the client hosts rests.
#[derive(Debug, Clone)]
pub(super) struct Resting {
    /// Each with the part of the load that is dealt to it, 0..1.
    hosts: Vec<(String, f64)>,
    /// The place of the first that rests.
    first: usize,
}

impl Resting {
    /// Of the hosts of a load; `None` where one host makes it.
    pub(super) fn of(step: &StepOrder) -> Option<Resting> {
        let hosts = match &step.producer {
            Producer::Engine(_) => step.client.parts(&step.load),
            Producer::Foreign { .. } => Vec::new(),
        };
        (hosts.len() > 1).then_some(Resting { hosts, first: 0 })
    }

    /// How many rest at once.
    fn at_once(&self) -> usize {
        const SHARE: f64 = 0.2;
        ((self.hosts.len() as f64 * SHARE).round() as usize).max(1)
    }

    /// The next ones rest.
    pub(super) fn turn(&mut self) {
        self.first = (self.first + self.at_once()) % self.hosts.len();
    }

    fn resting(&self) -> impl Iterator<Item = &(String, f64)> {
        let all = self.hosts.iter().cycle();
        all.skip(self.first).take(self.at_once())
    }

    pub(super) fn setting(&self) -> Clients {
        Clients::Rest {
            first: self.first as u32,
            hosts: self.at_once() as u32,
        }
    }

    /// What is left of the hosts, by their parts of the load.
    fn left(&self) -> f64 {
        1.0 - self.resting().map(|(_, part)| part).sum::<f64>()
    }

    /// Connections that are to stand by in all for this step, where each host has room for them; else why not.
    pub(super) fn room(&self, step: &StepOrder) -> Result<u32, String> {
        let standby = self.standing_by(step.load.connections);
        let fits = step.client.may_stand_by(&step.load, standby);
        fits.map(|()| standby)
    }

    /// Connections that are to stand by in all: as many as ever rest at once.
    fn standing_by(&self, connections: u32) -> u32 {
        let mut each = self.clone();
        let turns = (0..self.hosts.len()).map(|first| {
            each.first = first;
            1.0 - each.left()
        });
        let most = turns.fold(0.0, f64::max);
        (most * f64::from(connections)).ceil() as u32
    }

    pub(super) fn how(&self) -> String {
        let (rest, all) = (self.at_once(), self.hosts.len());
        format!(
            "{rest} of {all} client hosts in turn rests, and the others take its connections over"
        )
    }

    /// Whether as much was in flight as with all hosts (`full`), where that was measured.
    pub(super) fn check(&self, in_flight: Option<f64>, full: f64) -> Check {
        let names: Vec<&str> = self.resting().map(|(name, _)| name.as_str()).collect();
        let more = names.len().saturating_sub(NAMED_MAX);
        let mut text = names[..names.len() - more].join(", ");
        if more > 0 {
            text.push_str(&format!(" and {more} more"));
        }
        text.push_str(" rested");
        if let Some(mean) = in_flight {
            text.push_str(&format!("; {mean:.1} in flight, of {full:.1}"));
        }
        // Nearer to what all had than to what the others have by themselves.
        let least = full * (1.0 + self.left()) / 2.0;
        let is_near = |mean: f64| mean >= least && mean <= IN_FLIGHT_MAX * full;
        Check {
            retained: Some(self.left()),
            in_force: in_flight.map(is_near),
            text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[f64]) -> Resting {
        let hosts = (1..).zip(parts);
        Resting {
            hosts: hosts
                .map(|(nth, part)| (format!("c{nth}"), *part))
                .collect(),
            first: 0,
        }
    }

    #[test]
    fn each_rests_in_its_turn() {
        let mut three = of(&[0.5, 0.25, 0.25]);
        let mut left = Vec::new();
        for _ in 0..4 {
            left.push(three.left());
            three.turn();
        }
        assert_eq!(left, [0.5, 0.75, 0.75, 0.5]);
        assert_eq!(three.standing_by(64), 32);
        let mut ten = of(&[0.1; 10]);
        ten.first = 9;
        assert_eq!(ten.setting(), Clients::Rest { first: 9, hosts: 2 });
        assert!((ten.left() - 0.8).abs() < 1e-12);
        let check = ten.check(Some(15.8), 16.0);
        assert_eq!(check.text, "c10, c1 rested; 15.8 in flight, of 16.0");
        assert_eq!(check.in_force, Some(true));
        assert_eq!(ten.check(Some(14.0), 16.0).in_force, Some(false));
    }
}
