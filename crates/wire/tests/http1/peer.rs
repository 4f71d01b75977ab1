//! A scripted peer: bytes in a table, played to a connection in pieces.
//!
//! What it is not: a server. It answers before it is asked, or not at all, or to nobody.

use wallfinder_wire::http1::{Anomalies, Http1, Options, Request, Shared};
use wallfinder_wire::{Outcome, Transmit, Wire};

/// The client's side of a script.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// The method of every request.
    pub(crate) method: &'static str,
    /// The bounds of the connection.
    pub(crate) options: Options,
    /// How many requests are issued in all, each as soon as there is room.
    pub(crate) requests: u32,
}

impl Default for Case {
    fn default() -> Case {
        Case {
            method: "GET",
            options: Options::default(),
            requests: 1,
        }
    }
}

impl Case {
    /// The worker's block for this case.
    pub(crate) fn shared(&self) -> Shared {
        let request = Request::new(self.method, "127.0.0.1:8080", "/");
        Shared::new(&request, self.options.clone()).expect("the case is sound")
    }
}

/// What a connection made of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// In order.
    pub(crate) outcomes: Vec<Outcome>,
    /// Of this connection alone.
    pub(crate) anomalies: Vec<(&'static str, u64)>,
}

impl Seen {
    /// Outcomes and the anomalies that occurred.
    pub(crate) fn new(outcomes: Vec<Outcome>, anomalies: &Anomalies) -> Seen {
        let named = anomalies.named().into_iter();
        Seen {
            outcomes,
            anomalies: named.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

/// Plays `pieces` to a new connection, and then the end of the stream if there is one.
pub(crate) fn play<'a>(
    shared: &mut Shared,
    case: &Case,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    eof: bool,
) -> Seen {
    let mut player = Player {
        http1: Http1::open(shared),
        case,
        issued: 0,
        outcomes: Vec::new(),
    };
    let before = *shared.anomalies();
    player.refill(shared);
    for piece in pieces {
        player.take(shared, piece);
    }
    if eof {
        player.http1.handle_eof(shared);
        player.collect(shared);
        assert_eq!(player.http1.room(shared), 0, "room after the end");
    }
    player.check(shared);
    Seen::new(player.outcomes, &since(shared.anomalies(), &before))
}

struct Player<'a> {
    http1: Http1,
    case: &'a Case,
    issued: u32,
    outcomes: Vec<Outcome>,
}

impl Player<'_> {
    fn refill(&mut self, shared: &Shared) {
        while self.issued < self.case.requests && self.http1.room(shared) > 0 {
            let slot = self.http1.issue(shared);
            assert_eq!(slot, self.issued % self.case.options.in_flight_max);
            self.issued += 1;
        }
        while let Transmit::Block { start, len } = self.http1.poll_transmit(shared) {
            assert!(len > 0 && start + len <= shared.block().len());
            self.http1.handle_sent(shared, len);
        }
    }

    fn take(&mut self, shared: &mut Shared, mut piece: &[u8]) {
        while !piece.is_empty() {
            let taken = self.http1.handle_bytes(shared, piece);
            let before = self.outcomes.len();
            self.collect(shared);
            assert!(
                taken == piece.len() || self.outcomes.len() > before,
                "stopped after {taken} of {} bytes for nothing",
                piece.len()
            );
            piece = &piece[taken..];
            self.check(shared);
        }
    }

    fn collect(&mut self, shared: &Shared) {
        if let Some(outcome) = self.http1.poll_outcome() {
            assert!(!self.is_broken(), "{outcome:?} after the connection broke");
            self.outcomes.push(outcome);
            if matches!(outcome, Outcome::Answered(answer) if answer.reusable) {
                self.refill(shared);
            } else {
                assert_eq!(self.http1.room(shared), 0, "room after {outcome:?}");
            }
        }
        assert_eq!(self.http1.poll_outcome(), None);
    }

    fn is_broken(&self) -> bool {
        matches!(self.outcomes.last(), Some(Outcome::Broken { .. }))
    }

    /// Issued requests either have their outcome or are in flight; outcomes are in order.
    fn check(&self, shared: &Shared) {
        let depth = self.case.options.in_flight_max;
        let slots = self.outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Answered(answer) => Some(answer.slot),
            Outcome::Broken { slot, .. } => *slot,
            Outcome::Failed { .. } | Outcome::Over => panic!("{outcome:?} of HTTP/1"),
        });
        let mut ended = 0;
        for slot in slots {
            assert_eq!(slot, ended % depth, "answered out of order");
            ended += 1;
        }
        assert_eq!(self.issued, ended + self.http1.in_flight());
        assert!(self.http1.in_flight() + self.http1.room(shared) <= depth);
        if let Some(slot) = self.http1.answering() {
            assert_eq!(slot, ended % depth);
            assert!(self.http1.in_flight() > 0);
        }
    }
}

fn since(after: &Anomalies, before: &Anomalies) -> Anomalies {
    Anomalies {
        length_beside_coding: after.length_beside_coding - before.length_beside_coding,
        length_repeated: after.length_repeated - before.length_repeated,
        bare_line_feed: after.bare_line_feed - before.bare_line_feed,
        chunked_not_last: after.chunked_not_last - before.chunked_not_last,
        coding_in_http10: after.coding_in_http10 - before.coding_in_http10,
        framing_without_body: after.framing_without_body - before.framing_without_body,
        status_out_of_class: after.status_out_of_class - before.status_out_of_class,
        line_folded: after.line_folded - before.line_folded,
        content_not_decoded: after.content_not_decoded - before.content_not_decoded,
    }
}

/// `bytes` cut at each of `cuts`, which need no order and may lie anywhere.
pub(crate) fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.push(bytes.len());
    cuts.sort_unstable();
    let mut from = 0;
    let mut pieces = Vec::new();
    for to in cuts {
        pieces.push(&bytes[from..to]);
        from = to;
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}
