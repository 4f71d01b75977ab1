//! A scripted peer: bytes played to a connection in pieces.

use wallfinder_wire::framed::{Options, Request, Shared};
use wallfinder_wire::{Outcome, Transmit, Wire};

/// A worker's block, for a message in this format.
pub(crate) fn shared(format: &str, message: &[u8], in_flight_max: u32) -> Shared {
    let request = Request {
        format: format.parse().unwrap(),
        message: message.to_vec(),
    };
    let options = Options {
        in_flight_max,
        connection_per_request: false,
    };
    Shared::new(&request, options).unwrap()
}

/// Issues what there is room for, up to `requests`, and returns slots and bytes sent.
pub(crate) fn issue<W: Wire<Shared = Shared>>(
    wire: &mut W,
    shared: &Shared,
    requests: u32,
) -> (Vec<u32>, Vec<u8>) {
    let slots: Vec<u32> = (0..requests.min(wire.room(shared)))
        .map(|_| wire.issue(shared))
        .collect();
    (slots, sent(wire, shared))
}

/// Takes what is to be sent, in pieces.
pub(crate) fn sent<W: Wire<Shared = Shared>>(wire: &mut W, shared: &Shared) -> Vec<u8> {
    let mut sent = Vec::new();
    loop {
        match wire.poll_transmit(shared) {
            Transmit::Idle => return sent,
            Transmit::Block { start, len } => {
                assert!(len > 0);
                let count = len.min(1000);
                sent.extend_from_slice(&shared.block()[start..start + count]);
                wire.handle_sent(shared, count);
            }
            Transmit::Own => {
                let mut room = [0; 1000];
                let count = wire.write(shared, &mut room);
                assert!(count > 0);
                sent.extend_from_slice(&room[..count]);
            }
        }
    }
}

/// Plays bytes in these pieces, then the end of the stream.
pub(crate) fn play<'a, W: Wire<Shared = Shared>>(
    wire: &mut W,
    shared: &mut Shared,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    eof: bool,
) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for mut piece in pieces {
        while !piece.is_empty() {
            let taken = wire.handle_bytes(shared, piece);
            let outcome = wire.poll_outcome();
            assert!(taken == piece.len() || outcome.is_some());
            outcomes.extend(outcome);
            piece = &piece[taken..];
        }
    }
    if eof {
        wire.handle_eof(shared);
        outcomes.extend(wire.poll_outcome());
        assert_eq!(wire.room(shared), 0, "room after the end");
    }
    outcomes
}
