//! On which terms an agent does what it is asked: its grants, and the lease that squeezes and loads hold by.
//!
//! ```text
//!  asked ──► granted? ──► its epoch? ──► done, and the lease begins anew
//!               no │        no │
//!                  ▼           ▼           nothing asked for LEASE ─► squeezes undone, load ended, next epoch
//!               Refusal     Refusal
//! ```
//!
//! Over a way that may be gone for a while ([`AWAY_MAX`]) a load goes on for as much longer, unless something is squeezed: a
//! squeeze that was undone would leave a load that is not the one that was asked for.
//!
//! Time is handed in, by a clock that goes on while a machine sleeps: a stopped agent that goes on finds its lease
//! over before it reads the next request.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::messages::{Ask, Refusal, Request};

/// What was squeezed is undone, and a load ends, when the controller has asked for nothing for so long.
pub const LEASE: Duration = Duration::from_secs(5);
/// The way between a controller and an agent may be gone for so long at the most, where it is of a kind that comes back.
/// Loads and servers that were started hold for so much more than a lease; what is squeezed never does.
pub const AWAY_MAX: Duration = Duration::from_secs(40);

/// What an agent may be asked for. Chosen on the agent's host, never by the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grant {
    /// Look, and change nothing.
    Observe,
    /// Leave less of a resource for a moment.
    Squeeze,
    /// Take stacks of the server.
    Profile,
    /// Make a load.
    Load,
    /// Start servers of the host's own list.
    Start,
}

impl Grant {
    /// Every grant.
    pub const ALL: [Grant; 5] = [
        Grant::Observe,
        Grant::Squeeze,
        Grant::Profile,
        Grant::Load,
        Grant::Start,
    ];

    /// What an agent at a hub may be asked for by default.
    pub const DEFAULT: [Grant; 2] = [Grant::Observe, Grant::Load];
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Grant::Observe => "observe",
            Grant::Squeeze => "squeeze",
            Grant::Profile => "profile",
            Grant::Load => "load",
            Grant::Start => "start",
        })
    }
}

impl FromStr for Grant {
    type Err = String;

    fn from_str(text: &str) -> Result<Grant, String> {
        let all = Grant::ALL.into_iter();
        let found = all.clone().find(|grant| grant.to_string() == text);
        let names: Vec<String> = all.map(|grant| grant.to_string()).collect();
        found.ok_or_else(|| format!("`{text}` is no grant; there are {}", names.join(", ")))
    }
}

/// An agent's terms with the controller that it talks to.
#[derive(Debug)]
pub struct Terms {
    grants: BTreeSet<Grant>,
    epoch: u64,
    squeezes: bool,
    shapes: bool,
    loads: bool,
    starts: bool,
    /// For how long the way to the controller may be gone.
    away: Duration,
    /// When the lease ends, where anything is squeezed, loaded or started.
    until_ns: u64,
}

impl Terms {
    /// Those of an agent with these grants.
    pub fn new(grants: impl IntoIterator<Item = Grant>) -> Terms {
        Terms {
            grants: grants.into_iter().collect(),
            epoch: 1,
            squeezes: false,
            shapes: false,
            loads: false,
            starts: false,
            away: Duration::ZERO,
            until_ns: 0,
        }
    }

    /// What may be asked for.
    pub fn grants(&self) -> impl Iterator<Item = Grant> + '_ {
        self.grants.iter().copied()
    }

    /// The epoch that orders must carry now.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether to do what is asked at `now_ns`. Where it is, the lease begins anew.
    pub fn admit(&mut self, now_ns: u64, request: &Request) -> Result<(), Refusal> {
        let needed = needs(&request.ask);
        if let Some(grant) = needed.filter(|grant| !self.grants.contains(grant)) {
            return Err(Refusal::NotGranted { grant });
        }
        let is_leased = matches!(needed, Some(Grant::Squeeze | Grant::Load | Grant::Start));
        if is_leased && request.epoch != self.epoch {
            return Err(Refusal::LeaseOver);
        }
        match request.ask {
            Ask::Hello(ref hello) => {
                self.away = Duration::from_nanos(hello.away.0).min(AWAY_MAX);
            }
            Ask::Levers(_) => self.squeezes = true,
            Ask::Release => self.squeezes = false,
            Ask::Shape { ref way_out } => self.shapes = way_out.is_some(),
            Ask::Drive(_) | Ask::Calibrate { .. } => self.loads = true,
            Ask::Start { .. } => self.starts = true,
            Ask::Stop => self.starts = false,
            _ => {}
        }
        self.renew(now_ns);
        Ok(())
    }

    /// The lease begins anew: when somebody asks, and when that is done, for it may have taken its time.
    pub fn renew(&mut self, now_ns: u64) {
        self.until_ns = now_ns + LEASE.as_nanos() as u64;
    }

    /// The load that was driven has ended.
    pub fn load_ended(&mut self) {
        self.loads = false;
    }

    /// Whether the lease is over at `now_ns`. If it is, all squeezes are to be undone and the load is to end,
    /// and no order of before counts any more.
    pub fn end_lease(&mut self, now_ns: u64) -> bool {
        let is_squeezed = self.squeezes || self.shapes;
        let is_held = is_squeezed || self.loads || self.starts;
        let away = if is_squeezed {
            Duration::ZERO
        } else {
            self.away
        };
        let is_over = is_held && now_ns >= self.until_ns + away.as_nanos() as u64;
        if is_over {
            (self.squeezes, self.shapes) = (false, false);
            (self.loads, self.starts) = (false, false);
            self.epoch += 1;
        }
        is_over
    }
}

/// What an ask needs beyond that somebody talks.
fn needs(ask: &Ask) -> Option<Grant> {
    match ask {
        Ask::Hello(_) | Ask::Clock | Ask::Renew => None,
        Ask::Facts { .. }
        | Ask::Find { .. }
        | Ask::Times
        | Ask::Behind
        | Ask::Asked
        | Ask::Neighbours { .. }
        | Ask::Route { .. }
        | Ask::Watch { .. }
        | Ask::CountFrom { .. }
        | Ask::Mark { .. }
        | Ask::FindAgain
        | Ask::Summarise { .. }
        | Ask::Unwatch
        | Ask::Samples { .. }
        | Ask::Pace { .. }
        | Ask::PaceWithin { .. } => Some(Grant::Observe),
        Ask::Levers(_)
        | Ask::Set { .. }
        | Ask::Follow { .. }
        | Ask::BeginWindow
        | Ask::EndWindow
        | Ask::Shape { .. }
        | Ask::Release => Some(Grant::Squeeze),
        Ask::Start { .. } | Ask::Stop => Some(Grant::Start),
        Ask::Fits { .. }
        | Ask::Drive(_)
        | Ask::Proceed { .. }
        | Ask::Steer { .. }
        | Ask::FillIn { .. }
        | Ask::EndLoad { .. }
        | Ask::Fetch { .. }
        | Ask::Recall { .. }
        | Ask::Forget { .. }
        | Ask::Calibrate { .. } => Some(Grant::Load),
        Ask::TakeStacks { .. } | Ask::EndStacks { .. } | Ask::Stacks { .. } => Some(Grant::Profile),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use wallfinder_model::Nanos;

    use super::*;
    use crate::messages::{Hello, LeversOrder, Role, Side};

    const SECOND: u64 = 1_000_000_000;

    fn levers() -> Ask {
        Ask::Levers(LeversOrder {
            role: Role::Server,
            own: Side::default(),
            backend: None,
            backend_cores: None,
            way_out: None,
            seed: 1,
        })
    }

    fn asked(epoch: u64, ask: Ask) -> Request {
        Request {
            number: 1,
            epoch,
            ask,
        }
    }

    #[test]
    fn what_is_not_granted_is_refused_by_name() {
        let mut terms = Terms::new([Grant::Observe]);
        assert_eq!(terms.admit(0, &asked(1, Ask::Times)), Ok(()));
        let refused = terms.admit(0, &asked(1, levers()));
        assert_eq!(
            refused,
            Err(Refusal::NotGranted {
                grant: Grant::Squeeze
            })
        );
    }

    #[test]
    fn a_lease_lasts_as_long_as_anything_is_asked_and_five_seconds_more() {
        let mut terms = Terms::new(Grant::ALL);
        terms.admit(0, &asked(1, levers())).unwrap();
        for second in 1..30 {
            assert!(!terms.end_lease(second * SECOND));
            terms.admit(second * SECOND, &asked(1, Ask::Renew)).unwrap();
        }
        assert!(!terms.end_lease(33 * SECOND));
        assert!(terms.end_lease(34 * SECOND));
        assert!(!terms.end_lease(99 * SECOND), "once");
    }

    #[test]
    fn a_load_outlasts_the_way_to_its_controller_and_a_squeeze_does_not() {
        let hello = |away: Duration| {
            Ask::Hello(Hello {
                protocol: crate::VERSION,
                version: "1".to_owned(),
                controller: "a test".to_owned(),
                away: Nanos(away.as_nanos() as u64),
            })
        };
        let started = || Ask::Start {
            name: "a server".to_owned(),
            port: None,
            cpus: Vec::new(),
        };
        for (away, squeezes, lasts_s) in [
            (Duration::ZERO, false, 5),
            (Duration::from_secs(30), false, 35),
            (Duration::from_secs(30), true, 5),
            (Duration::from_secs(3_600), false, 45),
        ] {
            let mut terms = Terms::new(Grant::ALL);
            terms.admit(0, &asked(1, hello(away))).unwrap();
            terms.admit(0, &asked(1, started())).unwrap();
            if squeezes {
                terms.admit(0, &asked(1, levers())).unwrap();
            }
            assert!(
                !terms.end_lease(lasts_s * SECOND - 1),
                "{away:?} {squeezes}"
            );
            assert!(terms.end_lease(lasts_s * SECOND), "{away:?} {squeezes}");
            assert_eq!(terms.epoch(), 2);
        }
    }

    #[test]
    fn an_order_from_before_the_lease_ended_is_refused() {
        let mut terms = Terms::new(Grant::ALL);
        terms.admit(0, &asked(1, levers())).unwrap();
        assert!(terms.end_lease(LEASE.as_nanos() as u64));
        let set = Ask::Set {
            settings: Vec::new(),
        };
        assert_eq!(
            terms.admit(6 * SECOND, &asked(1, set.clone())),
            Err(Refusal::LeaseOver)
        );
        // Who looks may go on.
        assert_eq!(terms.admit(6 * SECOND, &asked(1, Ask::Times)), Ok(()));
        assert_eq!(terms.admit(6 * SECOND, &asked(terms.epoch(), set)), Ok(()));
    }

    #[test]
    fn without_squeezes_there_is_no_lease_to_end() {
        let mut terms = Terms::new(Grant::ALL);
        terms.admit(0, &asked(1, Ask::Renew)).unwrap();
        assert!(!terms.end_lease(99 * SECOND));
        terms.admit(0, &asked(1, levers())).unwrap();
        terms.admit(1, &asked(1, Ask::Release)).unwrap();
        assert!(!terms.end_lease(99 * SECOND));
    }

    #[test]
    fn a_link_that_was_shaped_stands_as_long_as_the_lease_whatever_is_released() {
        let shape = |way_out| Ask::Shape { way_out };
        let way_out = crate::WayOut {
            peers: vec![[10, 0, 0, 1].into()],
            port: 80,
            interface: None,
            rate_bits: Some(1_000_000_000),
        };
        for (ended, is_held) in [(Ask::Release, true), (shape(None), false)] {
            let mut terms = Terms::new(Grant::ALL);
            let shaped = asked(1, shape(Some(way_out.clone())));
            terms.admit(0, &shaped).unwrap();
            terms.admit(1, &asked(1, ended)).unwrap();
            assert_eq!(terms.end_lease(99 * SECOND), is_held);
        }
    }

    proptest! {
        /// Requests that are delayed, lost, doubled, or come in another order, from a controller that learns of an
        /// ended lease late: nothing is held for longer than a lease after the last was heard, and no order of an
        /// ended epoch is carried out.
        #[test]
        fn nothing_outlives_its_lease_whatever_becomes_of_messages(
            sent in prop::collection::vec((0_u64..4, 0_u64..9_000, 0_u8..8, 0_u64..3), 1..80),
        ) {
            const LOOK_MS: u64 = 250;
            let ms = |at: u64| at * 1_000_000;
            let (mut terms, mut at, mut arrivals) = (Terms::new(Grant::ALL), 0, Vec::new());
            for (pause, delay, what, times) in sent {
                at += pause * 700;
                let ask = match what {
                    0 | 1 => levers(),
                    2 => Ask::Release,
                    3 => Ask::Shape { way_out: None },
                    4 => Ask::Set { settings: Vec::new() },
                    _ => Ask::Renew,
                };
                // Lost, once, or twice.
                for copy in 0..times {
                    arrivals.push((at + delay * (copy + 1), ask.clone()));
                }
            }
            arrivals.sort_by_key(|(at, _)| *at);
            let end = arrivals.last().map_or(0, |(at, _)| *at) + 20_000;
            let (mut held, mut heard, mut known) = (false, 0, 1);
            let mut left = arrivals.into_iter().peekable();
            for now in (0..end).step_by(LOOK_MS as usize) {
                while let Some((arrived, ask)) = left.next_if(|(arrived, _)| *arrived <= now) {
                    let epoch = terms.epoch();
                    let admitted = terms.admit(ms(now), &asked(known, ask.clone()));
                    let is_order = needs(&ask) == Some(Grant::Squeeze);
                    prop_assert_eq!(admitted.is_err(), is_order && known != epoch, "{} {:?}", arrived, ask);
                    match (&admitted, &ask) {
                        (Ok(()), Ask::Levers(_)) => held = true,
                        (Ok(()), Ask::Release) => held = false,
                        // It hears of the new epoch with the refusal.
                        (Err(_), _) => known = epoch,
                        _ => {}
                    }
                    if admitted.is_ok() {
                        heard = now;
                    }
                }
                if terms.end_lease(ms(now)) {
                    held = false;
                }
                prop_assert!(!held || now - heard <= LEASE.as_millis() as u64 + LOOK_MS);
            }
            prop_assert!(!held, "at the end of it all");
        }
    }

    #[test]
    fn grants_are_read_as_they_are_written() {
        for grant in Grant::ALL {
            assert_eq!(grant.to_string().parse(), Ok(grant));
        }
        let wrong = "exec".parse::<Grant>().unwrap_err();
        assert!(
            wrong.contains("observe, squeeze, profile, load, start"),
            "{wrong}"
        );
    }
}
