//! What looking into answers takes of a worker's time: of some of them it is measured.
//!
//! What it is not: a clock. Who runs the connections lends one.

use std::cell::Cell;

use super::LookedInto;

/// Of so many answers of a kind about one is timed, drawn by its number: one in a fixed number might be one that checks are
/// always held against, or never.
const ONE_IN_BITS: u32 = 6;
/// 2⁶⁴ over the golden ratio: multiples of it are spread evenly.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Answers of each kind so far, and what looking into some of them took.
#[derive(Debug)]
pub struct Looked {
    clock: Cell<Option<fn() -> u64>>,
    kinds: Vec<Cell<LookedInto>>,
}

impl Looked {
    /// None yet, and no clock.
    pub(crate) fn none(kinds: usize) -> Looked {
        Looked {
            clock: Cell::new(None),
            kinds: vec![Cell::default(); kinds],
        }
    }

    /// From now on some are timed by this clock, in nanoseconds.
    pub fn by(&self, clock: fn() -> u64) {
        self.clock.set(Some(clock));
    }

    /// One more answer of a kind is looked into: the how manieth it is, from 0, and whether it is timed.
    pub(super) fn begin(&self, kind: u16) -> (u64, bool) {
        let of_kind = &self.kinds[usize::from(kind)];
        let told = of_kind.get();
        let nth = told.answers;
        of_kind.set(LookedInto {
            answers: nth + 1,
            ..told
        });
        let is_drawn = nth.wrapping_mul(GOLDEN) >> (u64::BITS - ONE_IN_BITS) == 0;
        (nth, is_drawn && self.clock.get().is_some())
    }

    /// The time by the clock that was lent.
    pub(super) fn now_ns(&self) -> u64 {
        self.clock.get().map_or(0, |clock| clock())
    }

    /// Looking into an answer of a kind took so long.
    pub(super) fn took(&self, kind: u16, ns: u64) {
        let of_kind = &self.kinds[usize::from(kind)];
        let told = of_kind.get();
        of_kind.set(LookedInto {
            timed: told.timed + 1,
            timed_ns: told.timed_ns + ns,
            ..told
        });
    }

    /// Those of a kind.
    pub fn of(&self, kind: u16) -> LookedInto {
        self.kinds[usize::from(kind)].get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_64_is_timed_and_none_without_a_clock() {
        let looked = Looked::none(2);
        assert!((0..1_000).all(|_| !looked.begin(0).1));
        looked.by(|| 7);
        assert_eq!(looked.begin(1), (0, true), "the first is");
        let timed = (0..64_000).filter(|_| looked.begin(0).1).count();
        assert!((990..=1_010).contains(&timed), "{timed}");
        // Whatever is checked, one in 64 as well, some are among those timed, and some are not.
        let hits = |nth: u64| (nth * 64).wrapping_mul(GOLDEN) >> (u64::BITS - ONE_IN_BITS) == 0;
        let both = (0..1_000).filter(|nth| hits(*nth)).count();
        assert!((5..=50).contains(&both), "{both}");
    }

    #[test]
    fn what_they_took_adds_up_by_kind() {
        let looked = Looked::none(2);
        looked.took(1, 300);
        looked.took(1, 500);
        assert_eq!(looked.of(0), LookedInto::default());
        let two = LookedInto {
            answers: 0,
            timed: 2,
            timed_ns: 800,
        };
        assert_eq!(looked.of(1), two);
    }
}
