//! A closed loop through two stations: a host, which was measured, and a link, whose time for an
//! answer is known from its bytes.
//!
//! Nothing passes the slower of the two. Nothing is slower than two stations whose times vary as
//! exponential ones do (mean value analysis, Reiser and Lavenberg 1980): where times vary less, fewer
//! wait at the faster one. Both bounds meet where one station is much slower, and with many in flight.

/// A link in the way of so many in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Behind {
    /// Time of the link for one answer.
    pub(super) link_seconds: f64,
    pub(super) in_flight: u32,
}

impl Behind {
    /// The most that comes through, where so many came without the link.
    pub(super) fn most(self, open: f64) -> f64 {
        open.min(1.0 / self.link_seconds)
    }

    /// The least.
    pub(super) fn least(self, open: f64) -> f64 {
        let (host, link) = (1.0 / open, self.link_seconds);
        let mut waiting = (0.0, 0.0);
        let mut throughput = 0.0;
        for in_flight in 1..=self.in_flight.clamp(1, 100_000) {
            let times = (host * (1.0 + waiting.0), link * (1.0 + waiting.1));
            throughput = f64::from(in_flight) / (times.0 + times.1);
            waiting = (throughput * times.0, throughput * times.1);
        }
        throughput
    }

    /// In between.
    pub(super) fn between(self, open: f64) -> f64 {
        (self.least(open) * self.most(open)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_equal_stations_are_known_in_closed_form() {
        let behind = Behind {
            link_seconds: 0.001,
            in_flight: 19,
        };
        // N / (N + K - 1) of what one of them could do.
        assert!((behind.least(1_000.0) - 950.0).abs() < 1e-6);
        assert_eq!(behind.most(1_000.0), 1_000.0);
    }

    #[test]
    fn far_from_each_other_the_slower_one_is_all() {
        let behind = |link_seconds| Behind {
            link_seconds,
            in_flight: 20,
        };
        for (link, open, expected) in [(0.01, 10_000.0, 100.0), (1e-6, 10_000.0, 10_000.0)] {
            let found = behind(link).between(open);
            assert!((found / expected - 1.0).abs() < 0.001, "{found}");
        }
    }
}
