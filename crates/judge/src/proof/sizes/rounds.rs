//! The steps by answer, side of the link and round, and what is read from them.

use wallfinder_model::Step;
use wallfinder_model::sizes::{Answer, Sizes};

use super::IDENTITY;
use crate::cost;
use crate::finite::{mean, positive, ratio};

/// A record's steps in their places.
pub(super) struct Rounds<'s> {
    /// Answer, behind the link, round, the step.
    placed: Vec<(u32, bool, usize, &'s Step)>,
    count: usize,
}

impl<'s> Rounds<'s> {
    pub(super) fn of(steps: &'s [Step], sizes: &Sizes) -> Rounds<'s> {
        let turns = sizes.order.iter().zip(steps);
        let placed = turns.map(|(turn, step)| {
            let round = turn.round as usize;
            (turn.answer, turn.behind_link, round, step)
        });
        let placed: Vec<_> = placed
            .filter(|(_, _, _, step)| positive(step.throughput).is_some())
            .collect();
        let last = placed.iter().map(|(_, _, round, _)| round + 1).max();
        Rounds {
            placed,
            count: last.unwrap_or(0),
        }
    }

    pub(super) fn all(&self) -> Vec<usize> {
        (0..self.count).collect()
    }

    /// The rounds that have all that something takes.
    pub(super) fn whole(&self, has_all: impl Fn(usize) -> bool) -> Vec<usize> {
        (0..self.count).filter(|round| has_all(*round)).collect()
    }

    /// In order of rounds.
    pub(super) fn steps(&self, answer: u32, behind_link: bool) -> Vec<&'s Step> {
        let place =
            |(of, side, _, _): &&(u32, bool, usize, &Step)| (*of, *side) == (answer, behind_link);
        self.placed
            .iter()
            .filter(place)
            .map(|(_, _, _, step)| *step)
            .collect()
    }

    fn step(&self, answer: u32, behind_link: bool, round: usize) -> Option<&'s Step> {
        let place = (answer, behind_link, round);
        let found = self
            .placed
            .iter()
            .find(|(of, side, at, _)| (*of, *side, *at) == place);
        found.map(|(_, _, _, step)| *step)
    }

    pub(super) fn throughputs(&self, answer: u32, behind_link: bool) -> Vec<f64> {
        let steps = self.steps(answer, behind_link);
        steps.iter().map(|step| step.throughput).collect()
    }

    /// The mean of those rounds, by logarithms.
    pub(super) fn throughput_in(
        &self,
        answer: u32,
        behind_link: bool,
        chosen: &[usize],
    ) -> Option<f64> {
        self.over(chosen, |round| {
            Some(self.step(answer, behind_link, round)?.throughput)
        })
    }

    /// Of the rounds without the link's rate.
    pub(super) fn server_cpu_ns_in(&self, answer: u32, chosen: &[usize]) -> Option<f64> {
        self.over(chosen, |round| {
            cost::per_answer(self.step(answer, false, round)?).server_cpu_ns
        })
    }

    pub(super) fn client_cpu_ns_in(&self, answer: u32, chosen: &[usize]) -> Option<f64> {
        self.over(chosen, |round| {
            cost::per_answer(self.step(answer, false, round)?).client_cpu_ns
        })
    }

    pub(super) fn server_cpu_ns(&self, answer: u32) -> Option<f64> {
        self.server_cpu_ns_in(answer, &self.all())
    }

    pub(super) fn client_cpu_ns(&self, answer: u32) -> Option<f64> {
        self.client_cpu_ns_in(answer, &self.all())
    }

    fn over(&self, rounds: &[usize], of: impl Fn(usize) -> Option<f64>) -> Option<f64> {
        let logs: Vec<f64> = rounds
            .iter()
            .filter_map(|round| of(*round).and_then(positive).map(f64::ln))
            .collect();
        mean(&logs).map(f64::exp)
    }

    /// Bytes of a body on the wire.
    pub(super) fn body_bytes(&self, answer: u32) -> Option<f64> {
        self.mean_of(answer, &self.all(), |step| {
            ratio(step.counts.body_bytes as f64, step.counts.answered as f64)
        })
    }

    /// Bytes of the same path's body uncoded.
    pub(super) fn raw_bytes(&self, answers: &[Answer], answer: u32) -> Option<f64> {
        let path = &answers.get(answer as usize)?.path;
        let plain = answers
            .iter()
            .position(|other| other.path == *path && other.coding == IDENTITY);
        let plain = plain.and_then(|plain| self.body_bytes(plain as u32));
        plain.or_else(|| self.body_bytes(answer))
    }

    /// What a shaper counts for an answer: its bytes, and the headers of the segments that they go in,
    /// of which a packet that is cut up later has one only.
    pub(super) fn downlink_bits_in(&self, answer: u32, chosen: &[usize]) -> Option<f64> {
        self.mean_of(answer, chosen, |step| {
            let sent = Sent::of(step)?;
            let wire = sent.data_bytes + sent.segments * cost::header_bytes(step);
            Some(8.0 * bytes_in(step)? * wire / sent.data_bytes)
        })
    }

    pub(super) fn downlink_bits(&self, answer: u32) -> Option<f64> {
        self.downlink_bits_in(answer, &self.all())
    }

    /// Segments that the server's host sent.
    pub(super) fn segments(&self, answer: u32) -> Option<f64> {
        self.mean_of(answer, &self.all(), |step| {
            let sent = Sent::of(step)?;
            Some(bytes_in(step)? * sent.segments / sent.data_bytes)
        })
    }

    /// Requests in flight at the most.
    pub(super) fn in_flight(&self, answer: u32) -> Option<u32> {
        let step = *self.steps(answer, false).first()?;
        Some(u32::try_from(step.load.in_flight_bound()).unwrap_or(u32::MAX))
    }

    /// Of the windows without the link's rate, which have the most answers; and what is predicted
    /// behind it must owe nothing to what was measured there.
    fn mean_of(
        &self,
        answer: u32,
        chosen: &[usize],
        of: impl Fn(&Step) -> Option<f64>,
    ) -> Option<f64> {
        let step = |round: &usize| self.step(answer, false, *round);
        let open = chosen.iter().filter_map(step);
        let values: Vec<f64> = open.filter_map(of).collect();
        mean(&values)
    }
}

/// Bytes of an answer as the client's socket has them.
fn bytes_in(step: &Step) -> Option<f64> {
    ratio(step.counts.bytes_in as f64, step.counts.answered as f64)
}

/// What the server's host sent while it was watched. How many answers that were is not asked: the
/// samples' window is not quite the load's, and bytes and segments of one window are of each other.
struct Sent {
    data_bytes: f64,
    segments: f64,
}

impl Sent {
    fn of(step: &Step) -> Option<Sent> {
        let totals = step.telemetry.link.as_ref()?.totals;
        let data_bytes =
            totals.tx_bytes as f64 - totals.tx_packets as f64 * cost::header_bytes(step);
        Some(Sent {
            data_bytes: positive(data_bytes)?,
            segments: positive(step.telemetry.tcp?.segments_out as f64)?,
        })
    }
}
