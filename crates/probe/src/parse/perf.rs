//! Records of a perf event's ring (`linux/perf_event.h`): of events that sample instruction pointer,
//! ids, time and call chain, and of tracepoints that say what they saw.

/// `PERF_RECORD_LOST`, `PERF_RECORD_SAMPLE` and `PERF_RECORD_SWITCH_CPU_WIDE`.
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
const SWITCH: u32 = 15;
/// Of a switch: the thread gives the processor up, and wanted to keep it.
const SWITCH_OUT: u16 = 1 << 13;
const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// Marks in call chains: what follows is the kernel's, or the process's.
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const CONTEXT_USER: u64 = -512_i64 as u64;
/// Marks lie above this.
const CONTEXT_MAX: u64 = -4095_i64 as u64;

/// What a ring tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A stack.
    Sample(Sample),
    /// So many records were lost, for the ring was full.
    Lost(u64),
    /// A thread got the processor, at this time in nanoseconds.
    In {
        /// The thread.
        tid: u32,
        /// When.
        time_ns: u64,
    },
    /// A thread lost the processor that it wanted to keep.
    Preempted {
        /// The thread.
        tid: u32,
        /// When.
        time_ns: u64,
    },
}

/// A stack of one thread at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sample {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When, by the kernel's clock, in nanoseconds.
    pub time_ns: u64,
    /// Addresses in the kernel, from the leaf.
    pub kernel: Vec<u64>,
    /// Addresses in the process, from the leaf.
    pub user: Vec<u64>,
}

/// What a tracepoint said, as far as `raw_syscalls` goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Point {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When, by the kernel's clock, in nanoseconds.
    pub time_ns: u64,
    /// The tracepoint's number.
    pub tracepoint: u16,
    /// The first field after those that all tracepoints have: a system call's number.
    pub number: i64,
    /// The second: its first argument, or what it gave back.
    pub value: i64,
}

/// That a thread was woken, as `sched:sched_waking` says it. Tracepoints number threads as the first
/// of all process namespaces does, and not as ours, if that is another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waking {
    /// When, by the kernel's clock, in nanoseconds.
    pub time_ns: u64,
    /// The thread, as the first namespace numbers it.
    pub first_tid: u32,
    /// Whoever had the processor then, as ours numbers it; 0 where it is not in ours.
    pub by_tid: u32,
    /// The same, as the first namespace numbers it.
    pub by_first_tid: u32,
}

/// What a ring of `sched:sched_waking` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// A thread was woken.
    Waking(Waking),
    /// So many records were lost, for the ring was full.
    Lost(u64),
}

/// What a ring of a tracepoint tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pointed {
    /// It was passed.
    Point(Point),
    /// So many records were lost, for the ring was full.
    Lost(u64),
}

/// The records of drained bytes of rings of stacks.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = Record> + '_ {
    bodies(bytes).filter_map(|(kind, misc, body)| match kind {
        SAMPLE => sample(body).map(Record::Sample),
        LOST => number(body, 8).map(Record::Lost),
        SWITCH => switch(body, misc),
        _ => None,
    })
}

/// The records of drained bytes of rings of tracepoints.
pub fn points(bytes: &[u8]) -> impl Iterator<Item = Pointed> + '_ {
    bodies(bytes).filter_map(|(kind, _, body)| match kind {
        SAMPLE => point(body).map(Pointed::Point),
        LOST => number(body, 8).map(Pointed::Lost),
        _ => None,
    })
}

/// The records of drained bytes of rings of `sched:sched_waking`.
pub fn wakings(bytes: &[u8]) -> impl Iterator<Item = Woken> + '_ {
    bodies(bytes).filter_map(|(kind, _, body)| match kind {
        SAMPLE => waking(body).map(Woken::Waking),
        LOST => number(body, 8).map(Woken::Lost),
        _ => None,
    })
}

/// Kind, flags and body of each record; what is cut short ends them.
fn bodies(bytes: &[u8]) -> impl Iterator<Item = (u32, u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (header, _) = rest.split_first_chunk::<8>()?;
        let kind = u32::from_le_bytes(*header.first_chunk()?);
        let misc = u16::from_le_bytes([header[4], header[5]]);
        let size = usize::from(u16::from_le_bytes([header[6], header[7]]));
        if size < header.len() || size > rest.len() {
            return None;
        }
        let body = &rest[header.len()..size];
        rest = &rest[size..];
        Some((kind, misc, body))
    })
}

/// Ids, time, the length of what the tracepoint says, and that: its number, flags and the thread
/// in eight bytes, then fields of eight.
fn point(body: &[u8]) -> Option<Point> {
    let ids = number(body, 0)?;
    let says = body.get(20..)?;
    Some(Point {
        pid: ids as u32,
        tid: (ids >> 32) as u32,
        time_ns: number(body, 8)?,
        tracepoint: u16::from_le_bytes(*says.first_chunk()?),
        number: number(says, 8)? as i64,
        value: number(says, 16)? as i64,
    })
}

/// As [`point`]; behind the tracepoint's first eight bytes are the thread's name in sixteen, and its
/// number.
fn waking(body: &[u8]) -> Option<Waking> {
    let says = body.get(20..)?;
    let tid = |at: usize| {
        let bytes = says.get(at..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*bytes))
    };
    Some(Waking {
        time_ns: number(body, 8)?,
        first_tid: tid(24)?,
        by_tid: (number(body, 0)? >> 32) as u32,
        by_first_tid: tid(4)?,
    })
}

/// The other side's ids, then the thread's own and the time.
fn switch(body: &[u8], misc: u16) -> Option<Record> {
    let tid = (number(body, 8)? >> 32) as u32;
    let time_ns = number(body, 16)?;
    match (misc & SWITCH_OUT != 0, misc & SWITCH_OUT_PREEMPT != 0) {
        (false, _) => Some(Record::In { tid, time_ns }),
        (true, true) => Some(Record::Preempted { tid, time_ns }),
        (true, false) => None,
    }
}

fn sample(body: &[u8]) -> Option<Sample> {
    let ids = number(body, 8)?;
    let mut sample = Sample {
        pid: ids as u32,
        tid: (ids >> 32) as u32,
        time_ns: number(body, 16)?,
        ..Sample::default()
    };
    let frames = usize::try_from(number(body, 24)?).ok()?;
    let chain = body.get(32..)?.as_chunks::<8>().0.get(..frames)?;
    let mut is_kernel = false;
    for address in chain.iter().map(|bytes| u64::from_le_bytes(*bytes)) {
        match address {
            CONTEXT_KERNEL => is_kernel = true,
            CONTEXT_USER => is_kernel = false,
            address if address >= CONTEXT_MAX => {}
            address if is_kernel => sample.kernel.push(address),
            address => sample.user.push(address),
        }
    }
    Some(sample)
}

fn number(body: &[u8], at: usize) -> Option<u64> {
    let bytes = body.get(at..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let size = 8 + 8 * words.len() as u16;
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(size.to_le_bytes());
        for word in words {
            bytes.extend(word.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn a_chain_is_split_at_its_marks() {
        let ids = 7 | (9 << 32);
        let chain = [
            0x1000,
            ids,
            55,
            5,
            CONTEXT_KERNEL,
            0xffff_ffff_8100_0000,
            CONTEXT_USER,
            0x40_0000,
            0x40_1000,
        ];
        let mut bytes = record(SAMPLE, &chain);
        bytes.extend(record(11, &[1, 2]));
        bytes.extend(record(LOST, &[1, 12]));
        let read: Vec<Record> = records(&bytes).collect();
        let sample = Sample {
            pid: 7,
            tid: 9,
            time_ns: 55,
            kernel: vec![0xffff_ffff_8100_0000],
            user: vec![0x40_0000, 0x40_1000],
        };
        assert_eq!(read, [Record::Sample(sample), Record::Lost(12)]);
    }

    #[test]
    fn switches_say_who_got_the_processor_and_who_wanted_to_keep_it() {
        let with = |misc: u16| {
            let mut bytes = record(SWITCH, &[0, 7 | (9 << 32), 77]);
            bytes[4..6].copy_from_slice(&misc.to_le_bytes());
            bytes
        };
        let mut bytes = with(0);
        bytes.extend(with(SWITCH_OUT));
        bytes.extend(with(SWITCH_OUT | SWITCH_OUT_PREEMPT));
        let (tid, time_ns) = (9, 77);
        let read: Vec<Record> = records(&bytes).collect();
        assert_eq!(
            read,
            [
                Record::In { tid, time_ns },
                Record::Preempted { tid, time_ns }
            ]
        );
    }

    #[test]
    fn a_tracepoint_says_who_when_and_two_fields() {
        let said = [
            7 | (9 << 32),
            77,
            24 | (361 << 32),
            202 << 32,
            u64::from(u32::MAX) << 32,
        ];
        let mut bytes = record(SAMPLE, &said);
        // The fields stand four bytes behind a multiple of eight.
        bytes.extend([0xff; 4]);
        bytes[6..8].copy_from_slice(&(8 + 44_u16).to_le_bytes());
        bytes.extend(record(LOST, &[1, 12]));
        let point = Point {
            pid: 7,
            tid: 9,
            time_ns: 77,
            tracepoint: 361,
            number: 202,
            value: -1,
        };
        let read: Vec<Pointed> = points(&bytes).collect();
        assert_eq!(read, [Pointed::Point(point), Pointed::Lost(12)]);
        assert_eq!(points(&record(SAMPLE, &said[..4])).count(), 0);
    }

    #[test]
    fn a_waking_says_who_was_woken_and_by_whom() {
        let name = u64::from_le_bytes(*b"worker\0\0");
        let said = [
            7 | (9 << 32),
            77,
            // How long what follows is; the tracepoint's number.
            36 | (363 << 32),
            1009 | (name << 32),
            name >> 32,
            1011 << 32,
            // Priority and processor.
            120 | (1 << 32),
        ];
        let mut bytes = record(SAMPLE, &said);
        bytes.extend(record(LOST, &[1, 12]));
        let waking = Waking {
            time_ns: 77,
            first_tid: 1011,
            by_tid: 9,
            by_first_tid: 1009,
        };
        let read: Vec<Woken> = wakings(&bytes).collect();
        assert_eq!(read, [Woken::Waking(waking), Woken::Lost(12)]);
        assert_eq!(wakings(&record(SAMPLE, &said[..5])).count(), 0);
    }

    #[test]
    fn what_is_cut_short_or_lies_ends_the_records() {
        let whole = record(SAMPLE, &[1, 2, 3, 1, 0x40_0000]);
        for len in 0..whole.len() {
            assert_eq!(records(&whole[..len]).count(), 0, "{len}");
        }
        // More frames than there are.
        assert_eq!(
            records(&record(SAMPLE, &[1, 2, 3, 9, 0x40_0000])).count(),
            0
        );
        assert_eq!(records(&record(SAMPLE, &[1, 2, 3, u64::MAX])).count(), 0);
        // A size below its own header.
        assert_eq!(records(&[9, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]).count(), 0);
    }
}
