//! Padding: the uplink squeezed from inside, by longer requests, where no rate is ours to set.
//!
//! A request that is longer by a quarter leaves four fifths of what the uplink can carry of
//! them. What it is not: free. Padding costs copies on both sides as well as bandwidth, and
//! a server reads a longer head.

use wallfinder_judge::segments::{heads, segments};
use wallfinder_wire::Exchange;
use wallfinder_wire::http1::{Options, Shared};

use crate::{Producer, StepOrder};

/// What may be left of the uplink: the doses of the design.
const DOSES: [f64; 4] = [0.9, 0.8, 0.65, 0.5];
/// A field has a name.
const PADDING_BYTES_MIN: usize = 14;
/// Servers take heads of 8 KB, and some no more.
const PADDING_BYTES_MAX: usize = 4_096;

/// Longer forms of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Padding {
    /// Bytes of the request itself.
    request_bytes: usize,
    /// Bytes that each form adds, the shortest first.
    added: Vec<usize>,
}

impl Padding {
    /// For a load of our own engine over a link; `None` on loopback, where there is none,
    /// and where each request has a connection of its own, which weighs more than it.
    pub(super) fn of(order: &StepOrder) -> Option<Padding> {
        let own = matches!(order.producer, Producer::Engine(_));
        let loopback = order.address.ip().is_loopback();
        if !own || loopback || order.load.connection_per_request {
            return None;
        }
        // Other protocols have one form of a request.
        let Exchange::Http1(request) = &order.request else {
            return None;
        };
        let shared = Shared::new(request, Options::default()).ok()?;
        Some(Padding::to(shared.request_bytes()))
    }

    fn to(request_bytes: usize) -> Padding {
        let whole = on_wire(request_bytes) as f64;
        let added = DOSES.map(|left| {
            let wanted = (whole * (1.0 / left - 1.0)).round() as usize;
            // More segments have more heads, which are padding too.
            let heads = on_wire(request_bytes + wanted) - on_wire(request_bytes) - wanted;
            let added = wanted.saturating_sub(heads);
            added.clamp(PADDING_BYTES_MIN, PADDING_BYTES_MAX)
        });
        Padding {
            request_bytes,
            added: added.to_vec(),
        }
    }

    /// Bytes that each form adds, as the engine takes them.
    pub(super) fn added(&self) -> &[usize] {
        &self.added
    }

    /// The form that leaves about this much, from 1 on, and what it really leaves.
    pub(super) fn form(&self, retained: f64) -> (usize, f64) {
        let left = |added: usize| {
            on_wire(self.request_bytes) as f64 / on_wire(self.request_bytes + added) as f64
        };
        let far = |at: &usize| (left(self.added[*at]) - retained).abs();
        let at = (0..self.added.len()).min_by(|a, b| far(a).total_cmp(&far(b)));
        let at = at.unwrap_or(0);
        (at + 1, left(self.added[at]))
    }
}

fn on_wire(bytes: usize) -> usize {
    bytes + heads(segments(bytes as u64)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_leaves_what_is_asked_as_far_as_a_head_may_be_long() {
        for request_bytes in [60, 300, 1_400, 4_000] {
            let padding = Padding::to(request_bytes);
            for (at, asked) in DOSES.into_iter().enumerate() {
                let (form, left) = padding.form(asked);
                let added = padding.added()[form - 1];
                if added < PADDING_BYTES_MAX {
                    assert_eq!(form, at + 1, "{request_bytes} bytes to {asked}");
                    assert!(
                        (left - asked).abs() < 0.04,
                        "{request_bytes}: {asked} is {left}"
                    );
                }
            }
        }
        let (_, left) = Padding::to(100_000).form(0.5);
        assert!(left > 0.95, "{left}");
    }
}
