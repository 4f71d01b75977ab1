//! Which of a load's arrivals and rows a worker has: all are numbered, and dealt in turn.
//!
//! ```text
//!  arrivals of the load     0 1 2 3 4 5 6 7 8 9 …
//!  two hosts, evenly        a b a b a b a b a b        Share
//!  in cycles of five        a b a a b a b a a b        Slots: a has 0, 2, 3 of each, b has 1, 4
//!  of a, two workers        1   2 1   2   1 2
//! ```

use std::sync::Arc;

use wallfinder_model::drive::{Share, Slots};

/// The numbers that a worker has, in order.
#[derive(Debug, Clone)]
pub struct Turns {
    share: Share,
    /// Its host's places in a cycle, where hosts are dealt to unevenly: `share` is then this worker's among its host's.
    slots: Option<Arc<Slots>>,
}

impl From<Share> for Turns {
    fn from(share: Share) -> Turns {
        Turns { share, slots: None }
    }
}

impl Turns {
    /// Of one of a host's workers: by what is dealt to the host, and in turn within it.
    pub(crate) fn of_worker(
        host: Share,
        slots: Option<&Arc<Slots>>,
        (worker, workers): (u32, u32),
    ) -> Turns {
        match slots {
            None => host.of_worker(worker, workers).into(),
            Some(slots) => Turns {
                share: Share {
                    nth: worker,
                    of: workers,
                },
                slots: Some(Arc::clone(slots)),
            },
        }
    }

    /// The number of what it has after `taken` others.
    #[inline]
    pub(crate) fn number(&self, taken: u64) -> u64 {
        let nth = taken * u64::from(self.share.of) + u64::from(self.share.nth);
        match &self.slots {
            None => nth,
            Some(slots) => {
                let own = slots.own.len() as u64;
                let place = slots.own[(nth % own) as usize];
                nth / own * u64::from(slots.of) + u64::from(place)
            }
        }
    }

    /// Its part of all, 0..1.
    pub(crate) fn part(&self) -> f64 {
        let of_host = self
            .slots
            .as_ref()
            .map_or(1.0, |slots| slots.own.len() as f64 / f64::from(slots.of));
        of_host / f64::from(self.share.of)
    }

    /// So many of its own certainly have numbers below this one.
    pub(crate) fn certainly_below(&self, number: f64) -> u64 {
        let cycle = self.slots.as_ref().map_or(0.0, |slots| f64::from(slots.of));
        let own = (number - cycle) * self.part() - 2.0;
        own.max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_number_is_dealt_once_whatever_the_slots(
            dealt in prop::collection::vec(0_usize..3, 3..60),
            workers in 1_u32..4,
        ) {
            let of = dealt.len() as u32;
            let mut numbers = Vec::new();
            for host in 0..3 {
                let own: Vec<u32> = (0..of).filter(|at| dealt[*at as usize] == host).collect();
                if own.is_empty() {
                    continue;
                }
                let slots = Arc::new(Slots { own, of });
                for worker in 0..workers {
                    let turns = Turns::of_worker(Share::WHOLE, Some(&slots), (worker, workers));
                    let own: Vec<u64> = (0..)
                        .map(|taken| turns.number(taken))
                        .take_while(|number| *number < 1_000)
                        .collect();
                    prop_assert!(own.is_sorted());
                    for (taken, number) in own.iter().enumerate() {
                        prop_assert!(turns.certainly_below(*number as f64) <= taken as u64);
                    }
                    numbers.extend(own);
                }
            }
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..1_000).collect::<Vec<u64>>());
        }
    }

    #[test]
    fn without_slots_hosts_have_them_in_turn() {
        let host = Share { nth: 1, of: 3 };
        let turns = Turns::of_worker(host, None, (1, 2));
        assert_eq!([0, 1, 2].map(|taken| turns.number(taken)), [4, 10, 16]);
        assert_eq!(turns.part(), 1.0 / 6.0);
    }
}
