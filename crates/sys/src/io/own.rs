//! Buffers of bytes that connections make themselves: a connection has one from its first byte to the end of its send, or
//! keeps it where that end is not heard of.
//!
//! There are as many as connections, so that none ever waits for one. The one that came back last is taken next: where
//! few connections send at once, few buffers are ever touched, and those stay in the processor's caches.

use std::ops::Range;

/// In the place of a buffer, where a connection has none.
const NONE: u32 = u32::MAX;

/// Buffers, all alike. They never move.
#[derive(Debug)]
pub(super) struct OwnBuffers {
    bytes: Box<[u8]>,
    /// Of each buffer.
    room: usize,
    /// Which are nobody's; the last of them is taken first.
    free: Vec<u32>,
    /// Which a connection has.
    of: Vec<u32>,
}

impl OwnBuffers {
    /// One of so many bytes for each connection; memory is touched where it is used.
    pub(super) fn new(connections: u32, room: usize) -> OwnBuffers {
        OwnBuffers {
            bytes: vec![0; room * connections as usize].into_boxed_slice(),
            room,
            free: (0..connections).rev().collect(),
            of: vec![NONE; connections as usize],
        }
    }

    /// A connection's: the one that it has, or else a free one.
    #[inline]
    pub(super) fn take(&mut self, conn: u32) -> &mut [u8] {
        let of = &mut self.of[conn as usize];
        if *of == NONE {
            *of = self.free.pop().expect("there is one for each connection");
        }
        &mut self.bytes[*of as usize * self.room..][..self.room]
    }

    /// Bytes of the one that a connection has.
    #[inline]
    pub(super) fn bytes(&self, conn: u32, range: Range<usize>) -> &[u8] {
        let of = self.of[conn as usize] as usize;
        &self.bytes[of * self.room..][..self.room][range]
    }

    /// Nobody reads the bytes of a connection's any more: it is free.
    #[inline]
    pub(super) fn give_back(&mut self, conn: u32) {
        let of = std::mem::replace(&mut self.of[conn as usize], NONE);
        if of != NONE {
            self.free.push(of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_a_connections_own_until_it_gives_it_back() {
        let mut own = OwnBuffers::new(3, 4);
        for conn in 0..3 {
            own.take(conn).fill(conn as u8);
        }
        own.take(1)[0] = 9;
        assert_eq!(own.bytes(0, 0..4), [0; 4]);
        assert_eq!(own.bytes(1, 0..2), [9, 1]);
        assert_eq!(own.bytes(2, 1..3), [2, 2]);
    }

    #[test]
    fn the_one_that_came_back_last_is_taken_next() {
        let mut own = OwnBuffers::new(1000, 8);
        for conn in 0..1000 {
            own.take(conn)[0] = 1;
            own.give_back(conn);
            own.give_back(conn);
        }
        let touched = own.bytes.iter().filter(|byte| **byte == 1).count();
        assert_eq!((touched, own.free.len()), (1, 1000));
    }
}
