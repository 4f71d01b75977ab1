//! br (RFC 7932): one stream, without a checksum.
//!
//! The decoder asks for memory with each body, so it is given what an earlier body gave
//! back. Its window grows with what is sent, to 16 MiB at the most; the larger windows that
//! other uses of the format have are refused.

use brotli_decompressor::{
    Allocator, BrotliDecompressStream, BrotliResult, BrotliState, HuffmanCode, SliceWrapper,
    SliceWrapperMut,
};

use super::Sink;
use crate::WireError;

type State = BrotliState<Spare<u8>, Spare<u32>, Spare<HuffmanCode>>;

/// The decoder of one body after another.
pub(super) struct Brotli {
    state: State,
    at: At,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Start,
    Inside,
    End,
}

impl Brotli {
    /// A decoder without memory of its own yet.
    pub(super) fn new() -> Brotli {
        Brotli {
            state: State::new_strict(Spare::default(), Spare::default(), Spare::default()),
            at: At::Start,
        }
    }

    /// Makes ready for the next body.
    pub(super) fn start(&mut self) {
        if self.at != At::Start {
            let (bytes, numbers, codes) = give_back(&mut self.state);
            self.state = State::new_strict(bytes, numbers, codes);
            self.at = At::Start;
        }
    }

    /// Decodes the next bytes of the body.
    pub(super) fn take(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), WireError> {
        if self.at == At::End {
            return Err(WireError::BodyDecode);
        }
        self.at = At::Inside;
        let mut left = bytes.len();
        let mut taken = 0;
        loop {
            let before = left;
            let (mut room, mut written, mut total) = (sink.room.len(), 0, 0);
            let result = BrotliDecompressStream(
                &mut left,
                &mut taken,
                bytes,
                &mut room,
                &mut written,
                sink.room,
                &mut total,
                &mut self.state,
            );
            sink.count(written)?;
            match result {
                BrotliResult::ResultSuccess if left == 0 => {
                    self.at = At::End;
                    return Ok(());
                }
                BrotliResult::NeedsMoreInput if left == 0 => return Ok(()),
                BrotliResult::NeedsMoreOutput if written > 0 || left < before => {}
                _ => return Err(WireError::BodyDecode),
            }
        }
    }

    /// Whether the body may end here.
    pub(super) fn may_end(&self) -> bool {
        self.at != At::Inside
    }
}

impl std::fmt::Debug for Brotli {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Brotli")
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

/// Takes all memory out of a state that is done with.
fn give_back(state: &mut State) -> (Spare<u8>, Spare<u32>, Spare<HuffmanCode>) {
    state.BrotliStateCleanupAfterMetablock();
    let window = std::mem::take(&mut state.ringbuffer);
    state.alloc_u8.free_cell(window);
    let trees = &mut state.block_type_length_state;
    for table in [
        std::mem::take(&mut trees.block_type_trees),
        std::mem::take(&mut trees.block_len_trees),
        std::mem::take(&mut state.context_map_table),
    ] {
        state.alloc_hc.free_cell(table);
    }
    (
        std::mem::take(&mut state.alloc_u8),
        std::mem::take(&mut state.alloc_u32),
        std::mem::take(&mut state.alloc_hc),
    )
}

/// Memory that was given back, to be given out again.
#[derive(Debug, Default)]
struct Spare<T> {
    pieces: Vec<Piece<T>>,
}

/// A window grows by doubling, and a state has fewer than ten tables: what is beyond is not
/// kept.
const PIECES_KEPT: usize = 32;

#[derive(Debug, Default)]
struct Piece<T>(Vec<T>);

impl<T: Clone + Default> Allocator<T> for Spare<T> {
    type AllocatedMemory = Piece<T>;

    fn alloc_cell(&mut self, len: usize) -> Piece<T> {
        let fitting = self.pieces.iter().enumerate();
        let fitting = fitting.filter(|(_, piece)| piece.0.capacity() >= len);
        let tightest = fitting.min_by_key(|(_, piece)| piece.0.capacity());
        let mut memory = match tightest.map(|(index, _)| index) {
            Some(index) => self.pieces.swap_remove(index).0,
            None => Vec::with_capacity(len),
        };
        memory.clear();
        memory.resize(len, T::default());
        Piece(memory)
    }

    fn free_cell(&mut self, piece: Piece<T>) {
        if piece.0.capacity() > 0 && self.pieces.len() < PIECES_KEPT {
            self.pieces.push(piece);
        }
    }
}

impl<T> SliceWrapper<T> for Piece<T> {
    fn slice(&self) -> &[T] {
        &self.0
    }
}

impl<T> SliceWrapperMut<T> for Piece<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn coded(plain: &[u8]) -> Vec<u8> {
        let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
        encoder.write_all(plain).expect("memory does not fail");
        encoder.into_inner()
    }

    /// Room of all that a decoder has, in elements.
    fn kept(brotli: &mut Brotli) -> [Vec<usize>; 3] {
        fn room<T>(spare: &Spare<T>) -> Vec<usize> {
            let mut room: Vec<_> = spare.pieces.iter().map(|p| p.0.capacity()).collect();
            room.sort_unstable();
            room
        }
        brotli.start();
        let state = &brotli.state;
        [
            room(&state.alloc_u8),
            room(&state.alloc_u32),
            room(&state.alloc_hc),
        ]
    }

    #[test]
    fn a_decoder_asks_for_no_memory_that_it_had_before() {
        let text = |len: usize| -> Vec<u8> {
            let words = (0..len).map(|n| format!("{} ", n * n % 977));
            words.collect::<String>().into_bytes()
        };
        let bodies = [coded(&text(30_000)), coded(&text(200))];
        let mut brotli = Brotli::new();
        let mut room = [0; 4096];
        let mut before = None;
        for n in 0..6 {
            for body in &bodies {
                for piece in body.chunks(1000) {
                    let mut sink = Sink {
                        room: &mut room,
                        bytes: 0,
                        bytes_max: u64::MAX,
                    };
                    brotli.take(piece, &mut sink).expect("the body is sound");
                }
                assert!(brotli.may_end());
                brotli.start();
            }
            let kept = Some(kept(&mut brotli));
            assert!(n < 3 || before == kept, "{before:?} became {kept:?}");
            before = kept;
        }
    }
}
