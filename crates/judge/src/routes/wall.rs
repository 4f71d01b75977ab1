//! The share that each kind of request has of what the wall is made of.
//!
//! CPU time and waits are estimated, from windows with other weights. Bytes are counted, those of HTTP; a link also carries
//! the heads of their segments, and segments that acknowledge the other way's. How many these are depends on what is sent
//! together and on the receiver, so that a share lies between that of the bytes alone and that with all of them.

use std::iter::Sum;

use wallfinder_model::record::{Cost, Costs, RequestKind};
use wallfinder_model::{Step, Wall};

use crate::segments::{heads, segments};

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

    /// Whether it is counted, and not estimated.
    pub fn is_counted(self) -> bool {
        matches!(self, MadeOf::AnswerBytes | MadeOf::RequestBytes)
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
    fn counted(self, kind: &RequestKind) -> Option<Counted> {
        let answers = Way {
            bytes: kind.wire_bytes,
            messages: kind.answered,
        };
        let requests = Way {
            bytes: kind.sent_bytes,
            messages: kind.sent,
        };
        match self {
            MadeOf::AnswerBytes => Some(Counted::of(answers, requests)),
            MadeOf::RequestBytes => Some(Counted::of(requests, answers)),
            _ => None,
        }
    }
}

/// Segments that are acknowledged at once.
const ACKNOWLEDGED: u64 = 2;

/// What went one way.
#[derive(Debug, Clone, Copy)]
struct Way {
    bytes: u64,
    messages: u64,
}

impl Way {
    /// Each message in segments of its own.
    fn segments(self) -> u64 {
        let mean = self.bytes.checked_div(self.messages).unwrap_or(0);
        self.messages * segments(mean)
    }
}

/// Bytes that went one way for a kind.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    /// Of HTTP.
    alone: u64,
    /// With the heads of their segments.
    with_heads: u64,
    /// And with segments that acknowledge what came the other way.
    with_all: u64,
}

impl Counted {
    fn of(this: Way, other: Way) -> Counted {
        let with_heads = this.bytes + heads(this.segments());
        Counted {
            alone: this.bytes,
            with_heads,
            with_all: with_heads + heads(other.segments()) / ACKNOWLEDGED,
        }
    }

    /// The share of the whole, and between what it lies.
    fn share(self, whole: Counted) -> [f64; 3] {
        let part = |of: fn(&Counted) -> u64| of(&self) as f64 / of(&whole).max(1) as f64;
        let shares = [
            part(|it| it.with_heads),
            part(|it| it.alone),
            part(|it| it.with_all),
        ];
        let [share, ..] = shares;
        let low = shares.into_iter().fold(share, f64::min);
        [share, low, shares.into_iter().fold(share, f64::max)]
    }
}

impl Sum for Counted {
    fn sum<I: Iterator<Item = Counted>>(all: I) -> Counted {
        all.fold(Counted::default(), |one, other| Counted {
            alone: one.alone + other.alone,
            with_heads: one.with_heads + other.with_heads,
            with_all: one.with_all + other.with_all,
        })
    }
}

/// Shares of a wall.
#[derive(Debug, Clone, Copy)]
pub struct WallShares<'r> {
    /// What it is made of.
    pub made_of: MadeOf,
    requests: &'r [RequestKind],
    /// All that was counted.
    whole: Counted,
}

impl<'r> WallShares<'r> {
    /// Of a step with these requests. `None` where the wall is of nothing that they share out, or of bytes that were not
    /// counted.
    pub fn of(wall: Wall, requests: &'r [RequestKind]) -> Option<WallShares<'r>> {
        let made_of = MadeOf::of(wall)?;
        let counted = requests.iter().filter_map(|kind| made_of.counted(kind));
        let whole: Counted = counted.sum();
        (!made_of.is_counted() || whole.alone > 0).then_some(WallShares {
            made_of,
            requests,
            whole,
        })
    }

    /// The share of a request with what follows its redirects, or of a session, with its 95 % interval; of what is counted,
    /// with the least and the most that it may be, and steps of sessions have theirs too. `costs`: of it, where they are known.
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
            return Some(counted.sum::<Counted>().share(self.whole));
        }
        let cost = costs.and_then(|costs| self.made_of.cost(costs))?;
        Some(cost.shares())
    }
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
    fn a_share_of_a_link_lies_between_that_of_the_bytes_alone_and_that_with_heads_and_acknowledgements()
     {
        // 100 questions of 80 bytes, answered by 20 kB each, beside one upload of 10 kB that is answered by 200 bytes.
        let questions = RequestKind {
            name: "question".to_owned(),
            sent: 100,
            answered: 100,
            sent_bytes: 8_000,
            wire_bytes: 2_000_000,
            ..RequestKind::default()
        };
        let upload = RequestKind {
            name: "upload".to_owned(),
            sent: 1,
            answered: 1,
            sent_bytes: 10_000,
            wire_bytes: 200,
            ..RequestKind::default()
        };
        let requests = [questions, upload];
        let uplink = WallShares::of(Wall::Uplink, &requests).expect("bytes are counted");
        let [share, low, high] = uplink.share("question", None).expect("it is one");
        let (heads, all) = (8_000.0 + 100.0 * 66.0, 8_000.0 + 100.0 * 66.0 * 8.0);
        let upload = 10_000.0 + 7.0 * 66.0;
        assert_eq!(share, heads / (heads + upload));
        assert_eq!(low, 8.0 / 18.0);
        assert_eq!(high, all / (all + upload + 33.0));
        let both = uplink.share_of(|_| true, None);
        assert_eq!(both, Some([1.0; 3]));
    }

    #[test]
    fn there_are_no_shares_of_bytes_that_were_not_counted() {
        let requests = [RequestKind {
            wire_bytes: 700,
            ..RequestKind::default()
        }];
        assert!(WallShares::of(Wall::Downlink, &requests).is_some());
        assert!(WallShares::of(Wall::Uplink, &requests).is_none());
    }
}
