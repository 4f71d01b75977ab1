//! Requests of one length: for each so many bytes read, the same answer.

use super::{Script, Spoilt};

/// Answers written by one call at the most, in bytes.
const BLOCK_BYTES: usize = 64 * 1024;

pub(super) struct Counted {
    request_bytes: usize,
    answer_bytes: usize,
    /// The answer, repeated.
    block: Box<[u8]>,
}

#[derive(Debug, Default)]
pub(super) struct Peer {
    /// Bytes of a request that is not whole yet.
    pending_bytes: usize,
    /// Answers owed, in bytes still to be written.
    owed_bytes: usize,
}

impl Counted {
    pub(super) fn new(request_bytes: usize, answer: &[u8]) -> Counted {
        assert!(request_bytes > 0 && !answer.is_empty());
        let repeats = (BLOCK_BYTES / answer.len()).max(1);
        Counted {
            request_bytes,
            answer_bytes: answer.len(),
            block: answer.repeat(repeats).into_boxed_slice(),
        }
    }
}

impl Script for Counted {
    type Peer = Peer;

    fn read(&self, peer: &mut Peer, bytes: &[u8]) -> Result<(), Spoilt> {
        let bytes = peer.pending_bytes + bytes.len();
        peer.pending_bytes = bytes % self.request_bytes;
        peer.owed_bytes += bytes / self.request_bytes * self.answer_bytes;
        Ok(())
    }

    fn next<'s>(&'s self, peer: &'s Peer) -> &'s [u8] {
        // Where in an answer the last write ended tells where the next one begins.
        let over = peer.owed_bytes % self.answer_bytes;
        let start = (self.answer_bytes - over) % self.answer_bytes;
        let len = peer.owed_bytes.min(self.block.len() - start);
        &self.block[start..start + len]
    }

    fn wrote(&self, peer: &mut Peer, bytes: usize) {
        peer.owed_bytes -= bytes;
    }
}
