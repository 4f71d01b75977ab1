//! What a worker leaves behind beside its reports.

use wallfinder_sys::Errno;
use wallfinder_sys::net::TcpInfo;

use crate::counters::Class;

/// Filled while the worker runs, and whole when it has ended.
#[derive(Debug, Default)]
pub(crate) struct WorkerEnd {
    /// The processor that it was pinned to.
    pub(crate) cpu: Option<u32>,
    /// What the kernel says of some of its connections.
    pub(crate) sockets: Vec<TcpInfo>,
    /// Why connections could not be opened, the last one.
    pub(crate) last_connect_failure: Option<(Class, Errno)>,
    /// The peer speaks another protocol: the run was called off.
    pub(crate) speaks_otherwise: bool,
    /// How long was waited after the window for what was in flight then.
    pub(crate) drained_ns: u64,
    /// Age of the oldest request without an answer when nothing was waited for any more; 0: none.
    pub(crate) oldest_unanswered_ns: u64,
    /// When none of its connections was open, by the monotonic clock.
    pub(crate) outages: Vec<(u64, u64)>,
    /// Its connections that brought an answer in the window.
    pub(crate) answering: u64,
    /// How the answers of the window fell to its connections; `None` where some were spare.
    pub(crate) shares: Option<Shares>,
}

/// How answers were shared out, as Jain's index needs it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shares {
    connections: f64,
    sum: f64,
    squares: f64,
}

impl Shares {
    pub(super) fn of(answers: impl Iterator<Item = u64>) -> Shares {
        answers.fold(Shares::default(), |shares, answers| Shares {
            connections: shares.connections + 1.0,
            sum: shares.sum + answers as f64,
            squares: shares.squares + (answers as f64).powi(2),
        })
    }

    /// Jain's index over several workers: 1 where all connections had as many answers, 1/n where
    /// one of n had them all. `None` below two connections, or without an answer.
    pub(crate) fn fairness(workers: &[Shares]) -> Option<f64> {
        let sum = |of: fn(&Shares) -> f64| workers.iter().map(of).sum::<f64>();
        let connections = sum(|shares| shares.connections);
        let squares = sum(|shares| shares.squares);
        let fair = sum(|shares| shares.sum).powi(2) / (connections * squares);
        (connections >= 2.0 && squares > 0.0).then_some(fair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_one_where_all_have_as_many_and_a_part_where_one_has_all() {
        let of = |answers: &[u64]| Shares::of(answers.iter().copied());
        assert_eq!(Shares::fairness(&[of(&[7, 7]), of(&[7, 7])]), Some(1.0));
        assert_eq!(Shares::fairness(&[of(&[8, 0, 0, 0])]), Some(0.25));
        assert_eq!(Shares::fairness(&[of(&[8])]), None);
        assert_eq!(Shares::fairness(&[of(&[0, 0])]), None);
    }
}
