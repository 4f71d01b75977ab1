//! Bytes in order over messages that may be lost, doubled, or come late and out of order: what carries a session where
//! the channel is a server of messages.
//!
//! ```text
//!  push ─► numbered pieces ─► poll_transmit ═══ messages ═══► handle_message ─► in order, each once ─► poll_bytes
//!               ▲ kept until it is heard of                        │
//!               └────────────── heard: the next number wanted ◄────┘
//! ```
//!
//! Each message has a byte for its kind, eight for a number and eight for the number that is wanted next, the most
//! significant byte first, and then the piece. What is not heard of within [`RESEND_NS`] is sent again, one piece until
//! one is heard of. A message that fits nowhere ends the session: it never goes on with bytes that are missing.
//!
//! Invariants: at most [`PIECES_MAX`] pieces are under way, and as many wait for who reads; time is handed in, in
//! nanoseconds.

use std::collections::VecDeque;

/// Longest piece: a message holds it with room to spare under the common limit of 1 MB.
pub const PIECE_BYTES_MAX: usize = 256 << 10;
/// Pieces that may be under way, or wait to be read.
pub const PIECES_MAX: usize = 32;
/// What is not heard of for so long is sent again.
pub const RESEND_NS: u64 = 500_000_000;
/// So long may what came go without being confirmed: most confirmations travel with what is said anyway.
const CONFIRM_WITHIN_NS: u64 = 20_000_000;
/// So many pieces are confirmed at once.
const CONFIRM_EVERY: u32 = 8;
const HEAD_BYTES: usize = 17;

const PIECE: u8 = b'p';
const END: u8 = b'e';
const HEARD: u8 = b'h';
const RESET: u8 = b'r';

/// Why a session cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The other end does not know the session: it was started anew.
    #[error("the other end knows nothing of this session: it was started anew")]
    Reset,
    /// What came is no message of a session, or confirms what was never sent.
    #[error("what came is no message of a session")]
    NoMessage,
}

/// What a stream has for who reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Came {
    /// More bytes.
    Bytes(Vec<u8>),
    /// There are no more.
    End,
}

/// The message that says to the other end that its session is not known here.
pub fn reset() -> Vec<u8> {
    message(RESET, 0, 0, &[])
}

/// Whether a message is the first of a session.
pub fn opens(message: &[u8]) -> bool {
    matches!(parsed(message), Some((PIECE, 0, _, _)))
}

/// Whether it tells the other end that a session is not known; it is never answered.
pub fn is_reset(message: &[u8]) -> bool {
    matches!(parsed(message), Some((RESET, ..)))
}

fn message(kind: u8, number: u64, wanted: u64, piece: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + piece.len());
    bytes.push(kind);
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(&wanted.to_be_bytes());
    bytes.extend_from_slice(piece);
    bytes
}

fn parsed(message: &[u8]) -> Option<(u8, u64, u64, &[u8])> {
    let (kind, rest) = message.split_first()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (wanted, piece) = rest.split_first_chunk()?;
    let is_known = matches!(*kind, PIECE | END | HEARD | RESET) && piece.len() <= PIECE_BYTES_MAX;
    let numbers = (u64::from_be_bytes(*number), u64::from_be_bytes(*wanted));
    is_known.then_some((*kind, numbers.0, numbers.1, piece))
}

/// One end of a session.
#[derive(Debug, Default)]
pub struct Stream {
    /// What is not heard of, the first of number `first`; `None`: the end.
    kept: VecDeque<Option<Vec<u8>>>,
    first: u64,
    /// The number that is sent next.
    next: u64,
    /// Pieces from this number on were never sent.
    unsent: u64,
    /// Whether one piece alone may be under way, for the last was not heard of in time.
    careful: bool,
    /// When the first that is under way is sent again.
    resend_ns: Option<u64>,
    ended: bool,
    /// The number that is wanted next from the other end.
    wanted: u64,
    came: VecDeque<Came>,
    other_ended: bool,
    /// Pieces that came and were not confirmed.
    unconfirmed: u32,
    confirm_ns: Option<u64>,
}

impl Stream {
    /// Whether more may be pushed.
    pub fn has_room(&self) -> bool {
        !self.ended && self.kept.len() < PIECES_MAX
    }

    /// These bytes go next, no more than [`PIECE_BYTES_MAX`]. Called where there is room.
    pub fn push(&mut self, bytes: Vec<u8>) {
        assert!(self.has_room() && bytes.len() <= PIECE_BYTES_MAX);
        self.kept.push_back(Some(bytes));
    }

    /// The same, in one piece with what was pushed last if that was never sent and is short enough: while nothing can be
    /// sent, much that is short takes little room.
    pub fn push_on(&mut self, bytes: Vec<u8>) {
        let last = self.first + self.kept.len() as u64;
        match self.kept.back_mut() {
            Some(Some(piece))
                if last > self.unsent && piece.len() + bytes.len() <= PIECE_BYTES_MAX =>
            {
                piece.extend(bytes);
            }
            _ => self.push(bytes),
        }
    }

    /// Nothing comes after what was pushed.
    pub fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            self.kept.push_back(None);
        }
    }

    /// Whether both ends have said all, and this one knows that it was heard.
    pub fn is_over(&self) -> bool {
        self.ended && self.kept.is_empty() && self.other_ended && self.confirm_ns.is_none()
    }

    /// A message came.
    pub fn handle_message(&mut self, now_ns: u64, message: &[u8]) -> Result<(), StreamError> {
        let (kind, number, wanted, piece) = parsed(message).ok_or(StreamError::NoMessage)?;
        if kind == RESET {
            return Err(StreamError::Reset);
        }
        if wanted > self.first + self.kept.len() as u64 {
            return Err(StreamError::NoMessage);
        }
        if wanted > self.first {
            self.kept.drain(..(wanted - self.first) as usize);
            self.first = wanted;
            self.next = self.next.max(wanted);
            self.careful = false;
            self.resend_ns = (self.next > self.first).then(|| now_ns + RESEND_NS);
        }
        if kind == HEARD {
            return Ok(());
        }
        // What came before is confirmed once more; what comes too early is sent again.
        let is_next = number == self.wanted && self.came.len() < PIECES_MAX && !self.other_ended;
        if is_next {
            self.wanted += 1;
            self.other_ended = kind == END;
            self.came.push_back(match kind {
                END => Came::End,
                _ => Came::Bytes(piece.to_vec()),
            });
        }
        self.unconfirmed += 1;
        let is_now = !is_next || self.other_ended || self.unconfirmed >= CONFIRM_EVERY;
        let within_ns = if is_now { 0 } else { CONFIRM_WITHIN_NS };
        let confirm_ns = now_ns + within_ns;
        self.confirm_ns = Some(self.confirm_ns.map_or(confirm_ns, |at| at.min(confirm_ns)));
        Ok(())
    }

    /// What was sent may be lost, for the channel was cut: it goes again at once.
    pub fn resend(&mut self) {
        self.next = self.first;
        self.resend_ns = None;
    }

    /// The next message that is to be sent now.
    pub fn poll_transmit(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        if self.resend_ns.is_some_and(|at| now_ns >= at) {
            self.careful = true;
            self.resend();
        }
        let under_way = (self.next - self.first) as usize;
        let most = if self.careful { 1 } else { PIECES_MAX };
        let piece = self.kept.get(under_way).filter(|_| under_way < most);
        let sent = match piece {
            Some(Some(bytes)) => message(PIECE, self.next, self.wanted, bytes),
            Some(None) => message(END, self.next, self.wanted, &[]),
            None if self.confirm_ns.is_some_and(|at| now_ns >= at) => {
                message(HEARD, 0, self.wanted, &[])
            }
            None => return None,
        };
        if piece.is_some() {
            self.next += 1;
            self.unsent = self.unsent.max(self.next);
            self.resend_ns.get_or_insert(now_ns + RESEND_NS);
        }
        (self.unconfirmed, self.confirm_ns) = (0, None);
        Some(sent)
    }

    /// When [`Stream::poll_transmit`] is to be asked again, if nothing happens before.
    pub fn time_to_look(&self) -> Option<u64> {
        match (self.resend_ns, self.confirm_ns) {
            (Some(resend), Some(confirm)) => Some(resend.min(confirm)),
            (one, other) => one.or(other),
        }
    }

    /// Whether there is something to read.
    pub fn has_come(&self) -> bool {
        !self.came.is_empty()
    }

    /// What came next.
    pub fn poll_bytes(&mut self) -> Option<Came> {
        self.came.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STEP_NS: u64 = 5_000_000;

    /// Everything that has come by now.
    fn read(stream: &mut Stream, into: &mut Vec<u8>) -> bool {
        let mut is_end = false;
        while let Some(came) = stream.poll_bytes() {
            assert!(!is_end, "nothing follows the end");
            match came {
                Came::Bytes(bytes) => into.extend(bytes),
                Came::End => is_end = true,
            }
        }
        is_end
    }

    proptest! {
        /// Whatever becomes of messages, both ends read what the other said, each byte once and in order.
        #[test]
        fn what_is_said_is_read_in_order_whatever_becomes_of_messages(
            fates in prop::collection::vec((0_u8..6, 1_u64..60), 1..400),
            said in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..90),
            cut_at in 0_usize..400,
        ) {
            let mut ends = [Stream::default(), Stream::default()];
            let mut read_by = [Vec::new(), Vec::new()];
            let mut over = [false; 2];
            let mut left = [said.clone().into_iter(), said.clone().into_iter()];
            let mut wire: Vec<(u64, usize, Vec<u8>)> = Vec::new();
            let mut fates = fates.iter().chain(std::iter::repeat_n(&(3, 1), 100_000));
            let mut sent = 0;
            for step in 1..40_000_u64 {
                let now_ns = step * STEP_NS;
                for end in 0..2 {
                    while ends[end].has_room() {
                        match left[end].next() {
                            Some(bytes) if bytes.len() % 3 == 0 => ends[end].push_on(bytes),
                            Some(bytes) => ends[end].push(bytes),
                            None => ends[end].end(),
                        }
                    }
                    while let Some(message) = ends[end].poll_transmit(now_ns) {
                        sent += 1;
                        let (fate, later) = *fates.next().expect("enough");
                        // Lost, doubled, or late, and so out of order.
                        let copies = match fate { 0 => 0, 1 => 2, _ => 1 };
                        for copy in 0..copies {
                            wire.push((step + later * (copy + 1), 1 - end, message.clone()));
                        }
                        if sent == cut_at {
                            wire.clear();
                            ends[end].resend();
                        }
                    }
                }
                wire.sort_by_key(|(at, ..)| *at);
                let come = wire.partition_point(|(at, ..)| *at <= step);
                for (_, end, message) in wire.drain(..come) {
                    ends[end].handle_message(now_ns, &message).expect("it is of this session");
                }
                for end in 0..2 {
                    over[end] |= read(&mut ends[end], &mut read_by[end]);
                }
                if over == [true; 2] && ends.iter().all(Stream::is_over) {
                    break;
                }
            }
            let all: Vec<u8> = said.concat();
            prop_assert_eq!(over, [true; 2], "both ends are told");
            for read in read_by {
                prop_assert_eq!(&read, &all);
            }
        }

        /// Of any messages, also broken ones: what is read is the first piece of each number, in order, up to the end,
        /// and what is no message changes nothing.
        #[test]
        fn whatever_comes_is_taken_or_refused(
            messages in prop::collection::vec(
                (
                    prop::sample::select(vec![PIECE, PIECE, PIECE, END, HEARD, RESET, b'x']),
                    0_u64..6,
                    0_u64..6,
                    prop::collection::vec(any::<u8>(), 0..4),
                    HEAD_BYTES - 2..HEAD_BYTES + 8,
                ),
                1..60,
            ),
            pushed in 0_u64..5,
        ) {
            let mut stream = Stream::default();
            for _ in 0..pushed {
                stream.push(vec![0]);
            }
            let (mut wanted, mut is_ended) = (0, false);
            let (mut expected, mut read_by) = (Vec::new(), Vec::new());
            for (nth, (kind, number, confirms, piece, length)) in messages.into_iter().enumerate() {
                let mut bytes = message(kind, number, confirms, &piece);
                bytes.truncate(length);
                let is_whole = bytes.len() >= HEAD_BYTES && kind != b'x';
                let taken = match (is_whole, kind) {
                    (false, _) => Err(StreamError::NoMessage),
                    (true, RESET) => Err(StreamError::Reset),
                    _ if confirms > pushed => Err(StreamError::NoMessage),
                    _ => Ok(()),
                };
                let now_ns = nth as u64 * STEP_NS;
                prop_assert_eq!(stream.handle_message(now_ns, &bytes), taken);
                let is_next = number == wanted && !is_ended && matches!(kind, PIECE | END);
                if taken.is_ok() && is_next {
                    wanted += 1;
                    is_ended = kind == END;
                    if kind == PIECE {
                        expected.extend_from_slice(&bytes[HEAD_BYTES..]);
                    }
                }
                while let Some(sent) = stream.poll_transmit(now_ns) {
                    let (_, _, confirmed, _) = parsed(&sent).expect("a message");
                    prop_assert_eq!(confirmed, wanted);
                }
                prop_assert_eq!(read(&mut stream, &mut read_by), is_ended && taken.is_ok() && is_next);
            }
            prop_assert_eq!(read_by, expected);
        }
    }

    #[test]
    fn a_session_that_the_other_end_does_not_know_is_over() {
        let mut stream = Stream::default();
        stream.push(b"hello".to_vec());
        let first = stream.poll_transmit(0).expect("a message");
        assert!(opens(&first) && !is_reset(&first));
        assert!(is_reset(&reset()) && !opens(&reset()));
        assert_eq!(stream.handle_message(0, &reset()), Err(StreamError::Reset));
    }

    #[test]
    fn what_cannot_be_sent_takes_few_pieces_and_what_was_sent_is_never_changed() {
        let (mut one, mut other) = (Stream::default(), Stream::default());
        one.push_on(b"a".to_vec());
        let sent = one.poll_transmit(0).expect("a message");
        let mut said = b"a".to_vec();
        for nth in 0..PIECES_MAX as u32 * 9 {
            assert!(one.has_room());
            let bytes = nth.to_be_bytes().to_vec();
            said.extend(&bytes);
            one.push_on(bytes);
        }
        assert_eq!(one.kept.len(), 2);
        // The way was cut: the first goes again, as it was.
        one.resend();
        assert_eq!(one.poll_transmit(1), Some(sent));
        one.resend();
        let mut read_by = Vec::new();
        for now_ns in 2..9 {
            while let Some(message) = one.poll_transmit(now_ns) {
                other.handle_message(now_ns, &message).expect("a message");
            }
            read(&mut other, &mut read_by);
        }
        assert_eq!(read_by, said);
        // One that is long goes by itself.
        one.push_on(vec![1; PIECE_BYTES_MAX]);
        one.push_on(vec![2]);
        assert_eq!(one.kept.len(), 4);
    }

    #[test]
    fn what_was_never_sent_cannot_be_confirmed() {
        let mut stream = Stream::default();
        let heard = message(HEARD, 0, 1, &[]);
        assert_eq!(
            stream.handle_message(0, &heard),
            Err(StreamError::NoMessage)
        );
    }

    #[test]
    fn who_does_not_read_is_not_sent_more_than_is_bounded() {
        let (mut one, mut other) = (Stream::default(), Stream::default());
        let mut pushed = 0;
        for step in 0..2_000_u64 {
            let now_ns = step * STEP_NS;
            while one.has_room() {
                one.push(vec![0]);
                pushed += 1;
            }
            while let Some(message) = one.poll_transmit(now_ns) {
                other.handle_message(now_ns, &message).expect("a message");
            }
            while let Some(message) = other.poll_transmit(now_ns) {
                one.handle_message(now_ns, &message).expect("a message");
            }
        }
        assert_eq!(pushed, 2 * PIECES_MAX);
        assert_eq!(other.came.len(), PIECES_MAX);
        let mut read_by = Vec::new();
        read(&mut other, &mut read_by);
        let later_ns = 2_100 * STEP_NS;
        let message = one.poll_transmit(later_ns).expect("it is sent again");
        other.handle_message(later_ns, &message).expect("a message");
        assert_eq!(other.came.len(), 1, "it goes on where it stopped");
    }
}
