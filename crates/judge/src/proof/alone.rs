//! What a wait is made of, from what one request takes that meets no other.
//!
//! A request that is alone takes `S`; with many in flight `X` are answered in a second. Little's law
//! says how many of them are served at once, whatever does it:
//!
//! ```text
//!   N = X · S     less than one: each alone is fast, so something spaces them: a limit of rate, a timer
//!                 one:           they stand in line for a single thing: a lock, a slot
//!                 several:       as many are let in at once: a pool, a limit, that many workers
//! ```

use wallfinder_model::evidence::{Evidence, Fact};
use wallfinder_model::telemetry::SocketsSummary;
use wallfinder_model::{Detail, Step};

use crate::finite::positive;

/// Answers without which a mean says little.
const ANSWERED_MIN: u64 = 10;
/// Fewer at once than this are spaced by something.
const SPACED_MAX: f64 = 0.5;
/// More at once than this are let in together.
const ONE_MAX: f64 = 1.5;
/// What is left of a request's time without the way, of which less says nothing.
const SERVED_MIN: f64 = 0.2;
/// Where this part of what is in flight is served at once, nothing waits in line.
const ALL_MIN: f64 = 0.8;

/// Requests that are served at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum AtOnce {
    /// None, for most of the time.
    Spaced {
        /// What one takes that is alone.
        each_ns: f64,
    },
    /// One after the other.
    One {
        /// What each takes.
        each_ns: f64,
    },
    /// So many.
    Several {
        /// How many.
        count: f64,
        /// What each takes.
        each_ns: f64,
    },
}

/// The round trip between client and server, as the quicker side's sockets have it; 0 where that is so short
/// that it may be the kernels' own time. `None` where only the client's are seen, and may count an
/// acknowledgement that came with the answer.
fn way_ns(step: &Step) -> Option<f64> {
    const WAY_MIN_US: u32 = 1_000;
    let trip = |sockets: Option<&SocketsSummary>| sockets.map(|sockets| sockets.rtt_p50_us);
    let trip = |sockets| trip(sockets).filter(|us| *us > 0);
    let server = trip(step.telemetry.server_sockets.as_ref());
    let client = trip(step.telemetry.client_sockets.as_ref());
    match (server, client) {
        (Some(server), client) => {
            let quicker = client.map_or(server, |client| client.min(server));
            let far = quicker >= WAY_MIN_US;
            Some(if far { f64::from(quicker) * 1e3 } else { 0.0 })
        }
        (None, Some(client)) => (client < WAY_MIN_US).then_some(0.0),
        (None, None) => Some(0.0),
    }
}

/// How many requests a step's server serves at once, where it was asked.
pub(crate) fn at_once(step: &Step) -> Option<AtOnce> {
    let alone = step.experiment.as_ref()?.alone?;
    let alone_ns = positive(alone.mean_ns).filter(|_| alone.answered >= ANSWERED_MIN)?;
    // What passes on the way is not the server's; where that is most of it, nothing is known of the rest.
    let each_ns =
        positive(alone_ns - way_ns(step)?).filter(|each| *each >= SERVED_MIN * alone_ns)?;
    let count = positive(step.throughput)? * each_ns / 1e9;
    if count >= ALL_MIN * step.in_flight_mean {
        return None;
    }
    Some(match count {
        count if count < SPACED_MAX => AtOnce::Spaced { each_ns },
        count if count < ONE_MAX => AtOnce::One { each_ns },
        count => AtOnce::Several { count, each_ns },
    })
}

impl AtOnce {
    /// What a wait is made of, by that alone.
    pub(super) fn detail(self) -> Detail {
        match self {
            AtOnce::Spaced { each_ns } => Detail::Spaced { each_ns },
            AtOnce::One { each_ns } => Detail::OneAtATime { each_ns },
            AtOnce::Several { count, each_ns } => Detail::Pool {
                at_once: count,
                each_ns,
            },
        }
    }

    /// The law that says so.
    pub(super) fn evidence(self, throughput: f64) -> Evidence {
        let (AtOnce::Spaced { each_ns }
        | AtOnce::One { each_ns }
        | AtOnce::Several { each_ns, .. }) = self;
        let count = throughput * each_ns / 1e9;
        let fact = Fact::Alone {
            each_ns,
            throughput,
            at_once: count,
        };
        Evidence::new("proof.at_once", count, fact)
    }
}

#[cfg(test)]
mod tests {
    use wallfinder_model::experiment::{Alone, Squeeze};

    use super::*;
    use crate::double;
    use crate::proof::synthetic::experiment_of;

    /// A server that answers 800 each second with 64 in flight, and a request alone in so many ms.
    fn server(alone_ms: f64, answered: u64) -> Option<AtOnce> {
        let mut experiment = experiment_of(&[(Squeeze::InFlight, 0.8)], &[(0, 800.0), (1, 800.0)]);
        experiment.alone = Some(Alone {
            answered,
            mean_ns: alone_ms * 1e6,
            pause_ns: 12_500_000,
        });
        let step = double::a_step().throughput(800.0).in_flight(64.0);
        at_once(&step.with(|step| step.experiment = Some(experiment)).build())
    }

    #[test]
    fn littles_law_tells_a_pool_from_a_lock_and_both_from_a_limit_of_rate() {
        assert_eq!(server(0.2, 50), Some(AtOnce::Spaced { each_ns: 0.2e6 }));
        assert_eq!(server(1.25, 50), Some(AtOnce::One { each_ns: 1.25e6 }));
        match server(5.1, 50) {
            Some(AtOnce::Several { count, .. }) => assert!((count - 4.08).abs() < 1e-9),
            other => panic!("{other:?}"),
        }
    }

    /// A lock that is held for a millisecond, 50 ms away.
    #[test]
    fn the_way_is_not_the_servers_time() {
        let far = |server_us: Option<u32>, client_us: u32| {
            let mut experiment = experiment_of(&[(Squeeze::InFlight, 0.8)], &[(0, 1000.0)]);
            experiment.alone = Some(Alone {
                answered: 50,
                mean_ns: 51e6,
                pause_ns: 12_500_000,
            });
            let sockets = |us: u32| SocketsSummary {
                rtt_p50_us: us,
                ..SocketsSummary::default()
            };
            let step = double::a_step().throughput(1000.0).in_flight(256.0);
            at_once(
                &step
                    .with(|step| {
                        step.experiment = Some(experiment);
                        step.telemetry.server_sockets = server_us.map(sockets);
                        step.telemetry.client_sockets = Some(sockets(client_us));
                    })
                    .build(),
            )
        };
        // Most of it is the way, and what is left of it is not known well.
        assert_eq!(far(Some(50_000), 50_500), None);
        assert_eq!(far(None, 50_000), None, "it may have the answer in it");
        assert!(matches!(
            far(Some(80), 40_000),
            Some(AtOnce::Several { .. })
        ));
        let served = far(Some(30_000), 30_000).unwrap();
        assert_eq!(
            served,
            AtOnce::Several {
                count: 21.0,
                each_ns: 21e6
            }
        );
    }

    #[test]
    fn where_all_are_served_at_once_nothing_waits_in_line() {
        assert_eq!(server(80.0, 50), None);
        assert_eq!(server(5.1, 3), None, "too few answers");
        assert_eq!(server(f64::NAN, 50), None);
        assert_eq!(server(0.0, 50), None);
    }

    #[test]
    fn a_wait_is_made_of_what_the_law_says() {
        let detail = |alone_ms| server(alone_ms, 50).unwrap().detail();
        assert_eq!(detail(0.2), Detail::Spaced { each_ns: 0.2e6 });
        assert_eq!(detail(1.1), Detail::OneAtATime { each_ns: 1.1e6 });
        assert!(
            matches!(detail(5.1), Detail::Pool { at_once, .. } if (at_once - 4.08).abs() < 1e-9)
        );
        let evidence = server(5.1, 50).unwrap().evidence(800.0);
        assert!((evidence.value - 4.08).abs() < 1e-9, "{evidence:?}");
    }
}
