//! Packets that wait until their time has come: a queue in one ring of bytes.
//!
//! ```text
//!            oldest          next
//!  ┌──────────┬───────────────┬──────────────────────────┐
//!  │          │ held, held, … │ room: the next batch,    │
//!  │          │               │ taken from the kernel    │
//!  └──────────┴───────────────┴──────────────────────────┘   and round again
//! ```
//!
//! It asks no clock and knows no socket. Invariants: packets leave in the order in which they
//! came, none before its delay is over, and no more bytes are held than the ring has.

use std::collections::VecDeque;

use wallfinder_sys::packet::{BATCH, PACKET_BYTES_MAX, Taken};

/// Room for whole batches on top of what is asked for.
const BATCH_BYTES: usize = BATCH * PACKET_BYTES_MAX;

#[derive(Debug, Clone, Copy)]
struct Held {
    due_ns: u64,
    at: usize,
    bytes: usize,
}

/// Packets of one direction.
#[derive(Debug)]
pub(super) struct DelayLine {
    delay_ns: u64,
    ring: Box<[u8]>,
    held: VecDeque<Held>,
    /// Where the next packet goes.
    next: usize,
    last_due_ns: u64,
    held_bytes: usize,
    held_bytes_max: usize,
}

impl DelayLine {
    /// For packets of so many bytes in all.
    pub(super) fn new(delay_ns: u64, bytes_max: usize) -> DelayLine {
        DelayLine {
            delay_ns,
            ring: vec![0; bytes_max.max(2 * BATCH_BYTES)].into_boxed_slice(),
            held: VecDeque::new(),
            next: 0,
            last_due_ns: 0,
            held_bytes: 0,
            held_bytes_max: 0,
        }
    }

    /// Where the next batch goes, [`PACKET_BYTES_MAX`] bytes for each packet; shorter than that
    /// where there is no room.
    pub(super) fn room(&mut self) -> &mut [u8] {
        let oldest = self.held.front().map(|held| held.at);
        let end = match oldest {
            None => {
                self.next = 0;
                self.ring.len()
            }
            Some(oldest) if self.next > oldest => {
                if self.ring.len() - self.next >= PACKET_BYTES_MAX {
                    self.ring.len()
                } else if oldest >= PACKET_BYTES_MAX {
                    self.next = 0;
                    oldest
                } else {
                    self.next
                }
            }
            Some(oldest) => oldest,
        };
        let end = end.min(self.next + BATCH_BYTES);
        &mut self.ring[self.next..end]
    }

    /// Holds what was taken into [`DelayLine::room`].
    pub(super) fn hold(&mut self, taken: &[Taken]) {
        let first = self.next;
        for (nth, packet) in taken.iter().enumerate() {
            let came_to = first + nth * PACKET_BYTES_MAX;
            let gap = came_to - self.next;
            // Moved together, unless that costs more than it saves.
            let at = if gap >= packet.bytes {
                self.ring
                    .copy_within(came_to..came_to + packet.bytes, self.next);
                self.next
            } else {
                came_to
            };
            // Processors may stamp packets out of order.
            let due_ns = (packet.arrived_ns + self.delay_ns).max(self.last_due_ns);
            self.last_due_ns = due_ns;
            self.next = at + packet.bytes;
            self.held_bytes += packet.bytes;
            self.held.push_back(Held {
                due_ns,
                at,
                bytes: packet.bytes,
            });
        }
        assert!(self.held_bytes <= self.ring.len(), "packets lie apart");
        self.held_bytes_max = self.held_bytes_max.max(self.held_bytes);
    }

    /// When the first packet is due.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        self.held.front().map(|held| held.due_ns)
    }

    /// The packets that are due, first come first, as many as `due` has places; how many.
    pub(super) fn due<'l>(&'l self, now_ns: u64, due: &mut [&'l [u8]; BATCH]) -> usize {
        let ready = self.held.iter().take_while(|held| held.due_ns <= now_ns);
        let mut count = 0;
        for (place, held) in due.iter_mut().zip(ready) {
            *place = &self.ring[held.at..held.at + held.bytes];
            count += 1;
        }
        count
    }

    /// The first packet has left, or is given up. When it was due, and its bytes.
    pub(super) fn leave(&mut self) -> Option<(u64, usize)> {
        let held = self.held.pop_front()?;
        self.held_bytes -= held.bytes;
        Some((held.due_ns, held.bytes))
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The most bytes that were held at once since this was asked last.
    pub(super) fn take_held_bytes_max(&mut self) -> usize {
        std::mem::replace(&mut self.held_bytes_max, self.held_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY_NS: u64 = 10_000_000;

    /// A line with a clock of its own, and numbered packets.
    struct Bench {
        line: DelayLine,
        came: u64,
        left: u64,
    }

    impl Bench {
        fn new(bytes: usize) -> Bench {
            Bench {
                line: DelayLine::new(DELAY_NS, bytes),
                came: 0,
                left: 0,
            }
        }

        /// Packets of these lengths come in; how many found room.
        fn come(&mut self, arrived_ns: u64, lengths: &[usize]) -> usize {
            let room = self.line.room();
            let places = (room.len() / PACKET_BYTES_MAX).min(lengths.len());
            let mut taken = Vec::new();
            for (slot, bytes) in room.chunks_exact_mut(PACKET_BYTES_MAX).zip(lengths) {
                slot[..8].copy_from_slice(&self.came.to_le_bytes());
                slot[8..*bytes].fill(self.came as u8);
                self.came += 1;
                taken.push(Taken {
                    bytes: *bytes,
                    arrived_ns,
                });
            }
            self.line.hold(&taken);
            places
        }

        /// Lets out what is due, whole and in order; how many.
        fn go(&mut self, now_ns: u64) -> usize {
            let mut due: [&[u8]; BATCH] = [&[]; BATCH];
            let count = self.line.due(now_ns, &mut due);
            for packet in &due[..count] {
                assert_eq!(packet[..8], self.left.to_le_bytes(), "order");
                assert!(packet[8..].iter().all(|byte| *byte == self.left as u8));
                self.left += 1;
            }
            for _ in 0..count {
                let (due_ns, _) = self.line.leave().expect("it was due");
                assert!(due_ns <= now_ns);
            }
            count
        }
    }

    #[test]
    fn a_packet_waits_for_its_delay_and_no_longer() {
        let mut bench = Bench::new(0);
        assert_eq!(bench.come(5, &[100, 60, 9_000]), 3);
        assert_eq!(bench.line.next_due_ns(), Some(5 + DELAY_NS));
        assert_eq!(bench.go(4 + DELAY_NS), 0);
        assert_eq!(bench.go(5 + DELAY_NS), 3);
        assert!(bench.line.is_empty());
        assert_eq!(bench.line.take_held_bytes_max(), 9_160);
        assert_eq!(bench.line.take_held_bytes_max(), 0);
    }

    #[test]
    fn one_that_was_stamped_earlier_does_not_overtake() {
        let mut bench = Bench::new(0);
        bench.come(1_000, &[64]);
        bench.come(400, &[64]);
        assert_eq!(bench.go(999 + DELAY_NS), 0);
        assert_eq!(bench.go(1_000 + DELAY_NS), 2);
    }

    #[test]
    fn order_holds_round_and_round_and_the_ring_is_the_bound() {
        let mut bench = Bench::new(3 * BATCH_BYTES);
        // Sizes between a bare acknowledgement and 64 KB, by a generator with a printed seed.
        let mut random = fastrand::Rng::with_seed(0x5eed);
        let mut draw = |most: u64| random.u64(..most);
        let (mut now_ns, mut refused) = (0, 0);
        for _ in 0..20_000 {
            now_ns += draw(200_000);
            let lengths: Vec<usize> = (0..1 + draw(BATCH as u64 - 1))
                .map(|_| match draw(3) {
                    0 => 66,
                    1 => 1_524,
                    _ => 66 + draw(65_000) as usize,
                })
                .collect();
            let found = bench.come(now_ns, &lengths);
            refused += lengths.len() - found;
            while bench.go(now_ns) > 0 {}
        }
        assert!(refused > 0, "it was never full: no test of the bound");
        now_ns += 2 * DELAY_NS;
        while bench.go(now_ns) > 0 {}
        assert_eq!(bench.left, bench.came, "seed 0x5eed");
        assert!(bench.left > 10_000);
    }

    #[test]
    fn small_packets_lie_together() {
        let bytes = 2 * BATCH_BYTES;
        let mut bench = Bench::new(bytes);
        let mut came = 0;
        loop {
            let found = bench.come(0, &[1_000; BATCH]);
            came += found;
            if found == 0 {
                break;
            }
        }
        let unused = bytes - came * 1_000;
        assert!(unused < 2 * PACKET_BYTES_MAX, "{unused} bytes lie idle");
    }
}
