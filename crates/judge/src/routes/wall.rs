//! Whose the wall is: which share of what it is made of each kind of request has.
//!
//! CPU time and waits are estimated, from windows with other weights; bytes are counted.

use wallfinder_model::record::{Cost, Costs, RequestKind};
use wallfinder_model::{Step, Wall};

/// What a wall is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MadeOf {
    /// CPU time of the server.
    ServerCpu,
    /// CPU time of the load generator.
    ClientCpu,
    /// CPU time of what the server asks.
    BackendCpu,
    /// The time for which requests wait.
    Waiting,
    /// Bytes of answers.
    AnswerBytes,
    /// Bytes of requests.
    RequestBytes,
}

impl MadeOf {
    /// `None` where a wall is of nothing that kinds share out.
    pub fn of(wall: Wall) -> Option<MadeOf> {
        match wall {
            Wall::ServerCpu | Wall::ServerSerial => Some(MadeOf::ServerCpu),
            Wall::ClientCpu => Some(MadeOf::ClientCpu),
            Wall::Backend => Some(MadeOf::BackendCpu),
            Wall::Wait => Some(MadeOf::Waiting),
            Wall::Downlink => Some(MadeOf::AnswerBytes),
            Wall::Uplink => Some(MadeOf::RequestBytes),
            Wall::Concurrency | Wall::OfferedLoad | Wall::CoLimited | Wall::Inconclusive => None,
        }
    }

    /// What one of a kind takes of it, where that is estimated.
    pub fn cost(self, costs: &Costs) -> Option<Cost> {
        match self {
            MadeOf::ServerCpu => Some(costs.server),
            MadeOf::ClientCpu => costs.client,
            MadeOf::BackendCpu => costs.backend,
            MadeOf::Waiting => costs.held,
            MadeOf::AnswerBytes | MadeOf::RequestBytes => None,
        }
    }

    /// How much of it a kind had, where that is counted.
    fn counted(self, kind: &RequestKind) -> Option<u64> {
        match self {
            MadeOf::AnswerBytes => Some(kind.wire_bytes),
            MadeOf::RequestBytes => Some(kind.sent_bytes),
            _ => None,
        }
    }
}

/// Shares of a wall.
#[derive(Debug, Clone, Copy)]
pub struct WallShares<'r> {
    /// What it is made of.
    pub made_of: MadeOf,
    requests: &'r [RequestKind],
    /// All that was counted.
    whole: u64,
}

impl<'r> WallShares<'r> {
    /// Of a step with these requests. `None` where the wall is of nothing that they share out, or of bytes that were not
    /// counted.
    pub fn of(wall: Wall, requests: &'r [RequestKind]) -> Option<WallShares<'r>> {
        let made_of = MadeOf::of(wall)?;
        let counted: Option<Vec<u64>> = requests.iter().map(|kind| made_of.counted(kind)).collect();
        let whole = counted.map_or(0, |counted| counted.iter().sum());
        let is_counted = matches!(made_of, MadeOf::AnswerBytes | MadeOf::RequestBytes);
        (!is_counted || whole > 0).then_some(WallShares {
            made_of,
            requests,
            whole,
        })
    }

    /// The share of a request with what follows its redirects, or of a session, with its 95 % interval; of what is counted
    /// all three are the same, and steps of sessions have theirs too. `costs`: of it, where they are known.
    pub fn share(&self, name: &str, costs: Option<&Costs>) -> Option<[f64; 3]> {
        self.share_of(|of| of == name, costs)
    }

    /// The same of several together, whose costs these are.
    pub fn share_of(
        &self,
        is_named: impl Fn(&str) -> bool,
        costs: Option<&Costs>,
    ) -> Option<[f64; 3]> {
        let own = self.requests.iter().filter(|kind| {
            let session = kind.session.as_deref();
            is_named(&kind.name) || session.is_some_and(&is_named)
        });
        let mut counted = own.filter_map(|kind| self.made_of.counted(kind)).peekable();
        if counted.peek().is_some() {
            return Some([counted.sum::<u64>() as f64 / self.whole as f64; 3]);
        }
        costs.and_then(|costs| self.made_of.cost(costs)).map(shares)
    }
}

fn shares(cost: Cost) -> [f64; 3] {
    [cost.share, cost.share_low, cost.share_high]
}

/// What a request costs, or a session, by its name.
pub(crate) fn costs_of(step: &Step, name: &str) -> Option<Costs> {
    let requests = step.requests.iter().map(|kind| (&kind.name, kind.costs));
    let sessions = step.sessions.iter();
    let sessions = sessions.map(|session| (&session.name, session.costs));
    let mut all = requests.chain(sessions);
    all.find_map(|(of, costs)| costs.filter(|_| of == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(share: f64) -> Cost {
        Cost {
            share,
            share_low: share - 0.1,
            share_high: share + 0.1,
            ..Cost::default()
        }
    }

    #[test]
    fn a_share_is_of_what_the_wall_is_made_of() {
        let costs = Costs {
            server: share(0.2),
            client: Some(share(0.3)),
            backend: Some(share(0.4)),
            held: Some(share(0.5)),
        };
        let kind = |name: &str, wire_bytes, sent_bytes| RequestKind {
            name: name.to_owned(),
            wire_bytes,
            sent_bytes,
            ..RequestKind::default()
        };
        let mut hop = kind("a, again", 0, 50);
        hop.session = Some("a".to_owned());
        let requests = [kind("a", 600, 100), hop, kind("b", 400, 850)];
        let of = |wall| {
            let shares = WallShares::of(wall, &requests)?;
            Some(shares.share("a", Some(&costs))?[0])
        };
        for (wall, share) in [
            (Wall::ServerCpu, 0.2),
            (Wall::ServerSerial, 0.2),
            (Wall::ClientCpu, 0.3),
            (Wall::Backend, 0.4),
            (Wall::Wait, 0.5),
            (Wall::Downlink, 0.6),
            (Wall::Uplink, 0.15),
        ] {
            assert_eq!(of(wall), Some(share), "{wall:?}");
        }
        for wall in [Wall::Concurrency, Wall::CoLimited, Wall::Inconclusive] {
            assert_eq!(of(wall), None, "{wall:?}");
        }
        let uplink = WallShares::of(Wall::Uplink, &requests).expect("bytes are counted");
        assert_eq!(uplink.share("a, again", None), Some([0.05; 3]));
        assert_eq!(uplink.share("c", Some(&costs)), None);
        let both = uplink.share_of(|name| ["a", "b"].contains(&name), None);
        assert_eq!(both, Some([1.0; 3]));
    }

    #[test]
    fn of_bytes_that_were_not_counted_nobody_has_a_share() {
        let requests = [RequestKind {
            wire_bytes: 700,
            ..RequestKind::default()
        }];
        assert!(WallShares::of(Wall::Downlink, &requests).is_some());
        assert!(WallShares::of(Wall::Uplink, &requests).is_none());
    }
}
