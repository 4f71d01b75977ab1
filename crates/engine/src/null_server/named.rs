//! Requests of one length that carry an id: the same answer for each, with that id in it.

use std::ops::Range;

use super::{Out, Script, Spoilt};

pub(super) struct Named {
    request_bytes: usize,
    answer: Vec<u8>,
    /// Where the id is, in requests and in the answer alike.
    id: Range<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Peer {
    /// A request that is not whole yet.
    pending: Vec<u8>,
    out: Out,
}

impl Named {
    pub(super) fn new(request_bytes: usize, answer: Vec<u8>, id: Range<usize>) -> Named {
        assert!(id.end <= request_bytes && id.end <= answer.len());
        Named {
            request_bytes,
            answer,
            id,
        }
    }
}

impl Script for Named {
    type Peer = Peer;

    fn read(&self, peer: &mut Peer, bytes: &[u8]) -> Result<(), Spoilt> {
        peer.pending.extend_from_slice(bytes);
        let whole = peer.pending.len() / self.request_bytes * self.request_bytes;
        for request in peer.pending[..whole].chunks_exact(self.request_bytes) {
            let answer = peer.out.push(&self.answer);
            answer[self.id.clone()].copy_from_slice(&request[self.id.clone()]);
        }
        peer.pending.drain(..whole);
        Ok(())
    }

    fn next<'s>(&'s self, peer: &'s Peer) -> &'s [u8] {
        peer.out.left()
    }

    fn wrote(&self, peer: &mut Peer, bytes: usize) {
        peer.out.wrote(bytes);
    }
}
