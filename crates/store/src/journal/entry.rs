//! The journal's entries, as bytes. Pure: bytes in, entries out.
//!
//! ```text
//!  file   = magic entry*
//!  magic  = "WFJRNL1\n"
//!  entry  = length(u32 LE, of the payload)  crc32(u32 LE)  kind(u8)  payload(JSON)
//! ```
//!
//! The checksum covers length, kind and payload. CRC-32 finds every single flipped bit
//! and every burst of up to 32 bits within an entry; a flipped length shifts what is
//! summed, and is found with the probability of any CRC-32.

use std::io::Read;

/// First bytes of a journal.
pub(crate) const MAGIC: [u8; 8] = *b"WFJRNL1\n";
/// Bytes before a payload.
pub(crate) const HEAD_BYTES: usize = 9;
/// The longest payload that is written or read.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 256 << 20;

/// What an entry holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The record without steps.
    Header = 1,
    /// A step without measurements, when it begins.
    StepBegins = 2,
    /// One interval of a step.
    Interval = 3,
    /// Telemetry rows of a step.
    Samples = 4,
    /// A step as it ended.
    StepEnds = 5,
    /// A caveat of the whole run.
    Caveat = 6,
    /// How much was left out, because the disk did not keep up.
    LeftOut = 7,
    /// The run is over: the record without steps, as it ended.
    End = 8,
    /// An experiment of a step without its windows: its conditions so far.
    Experiment = 9,
    /// One window of a step's experiment.
    Window = 10,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::Header,
            2 => Kind::StepBegins,
            3 => Kind::Interval,
            4 => Kind::Samples,
            5 => Kind::StepEnds,
            6 => Kind::Caveat,
            7 => Kind::LeftOut,
            8 => Kind::End,
            9 => Kind::Experiment,
            10 => Kind::Window,
            _ => return None,
        })
    }
}

/// The bytes of an entry; none if the payload is too long.
pub(crate) fn encode(kind: Kind, payload: &[u8]) -> Option<Vec<u8>> {
    if payload.len() > PAYLOAD_BYTES_MAX {
        return None;
    }
    let length = (payload.len() as u32).to_le_bytes();
    let mut bytes = Vec::with_capacity(HEAD_BYTES + payload.len());
    bytes.extend_from_slice(&length);
    bytes.extend_from_slice(&checksum(length, kind as u8, payload).to_le_bytes());
    bytes.push(kind as u8);
    bytes.extend_from_slice(payload);
    Some(bytes)
}

fn checksum(length: [u8; 4], kind: u8, payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&length);
    crc.update(&[kind]);
    crc.update(payload);
    crc.finalize()
}

/// Where and why a journal stops making sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damage {
    /// First byte of the entry that cannot be read.
    pub(crate) offset_bytes: u64,
    /// What is wrong with it.
    pub(crate) why: String,
}

/// One entry read back.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) offset_bytes: u64,
    pub(crate) kind: Kind,
    pub(crate) payload: &'a [u8],
}

/// Reads entries until the end or the first damage. Holds one payload at a time.
pub(crate) struct Entries<R> {
    source: R,
    offset_bytes: u64,
    payload: Vec<u8>,
}

impl<R: Read> Entries<R> {
    /// Checks the magic.
    pub(crate) fn start(mut source: R) -> Result<Entries<R>, Damage> {
        let mut magic = [0; MAGIC.len()];
        let got = read_full(&mut source, &mut magic).map_err(|e| unreadable(0, &e))?;
        if got < magic.len() || magic != MAGIC {
            return Err(Damage {
                offset_bytes: 0,
                why: "it does not begin as a journal does".into(),
            });
        }
        Ok(Entries {
            source,
            offset_bytes: MAGIC.len() as u64,
            payload: Vec::new(),
        })
    }

    /// The next entry, or none at a clean end.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry<'_>>, Damage> {
        let at = self.offset_bytes;
        let damage = |why: &str| Damage {
            offset_bytes: at,
            why: why.into(),
        };
        let mut head = [0; HEAD_BYTES];
        match read_full(&mut self.source, &mut head).map_err(|e| unreadable(at, &e))? {
            0 => return Ok(None),
            HEAD_BYTES => {}
            _ => return Err(damage("the last entry is torn")),
        }
        let length = [head[0], head[1], head[2], head[3]];
        let crc = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let payload_bytes = u32::from_le_bytes(length) as usize;
        if payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(damage("an entry claims an impossible length"));
        }
        // `take` grows the buffer with what is there, not with what is claimed.
        self.payload.clear();
        let got = self
            .source
            .by_ref()
            .take(payload_bytes as u64)
            .read_to_end(&mut self.payload)
            .map_err(|e| unreadable(at, &e))?;
        if got < payload_bytes {
            return Err(damage("the last entry is torn"));
        }
        if checksum(length, head[8], &self.payload) != crc {
            return Err(damage("the checksum does not match"));
        }
        let Some(kind) = Kind::of(head[8]) else {
            return Err(damage("an entry of a kind unknown to this version"));
        };
        self.offset_bytes += (HEAD_BYTES + payload_bytes) as u64;
        Ok(Some(Entry {
            offset_bytes: at,
            kind,
            payload: &self.payload,
        }))
    }
}

fn unreadable(offset_bytes: u64, error: &std::io::Error) -> Damage {
    Damage {
        offset_bytes,
        why: format!("it cannot be read: {error}"),
    }
}

/// Fills the buffer as far as the source reaches.
fn read_full(source: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn journal(payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for payload in payloads {
            bytes.extend(encode(Kind::Interval, payload).expect("short"));
        }
        bytes
    }

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<Damage>) {
        let mut out = Vec::new();
        let mut entries = match Entries::start(bytes) {
            Ok(entries) => entries,
            Err(damage) => return (out, Some(damage)),
        };
        loop {
            match entries.next_entry() {
                Ok(Some(entry)) => out.push(entry.payload.to_vec()),
                Ok(None) => return (out, None),
                Err(damage) => return (out, Some(damage)),
            }
        }
    }

    #[test]
    fn every_single_flipped_bit_is_detected() {
        let payloads: [&[u8]; 4] = [b"{}", b"[1,2,3]", b"", b"{\"a\":\"bcdefgh\"}"];
        let whole = journal(&payloads);
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let (entries, damage) = read(&bytes);
            let damage = damage.unwrap_or_else(|| panic!("bit {bit} went unnoticed"));
            assert!(damage.offset_bytes <= (bit / 8) as u64, "bit {bit}");
            assert!(entries.len() < payloads.len(), "bit {bit}");
            for (entry, payload) in entries.iter().zip(payloads) {
                assert_eq!(entry, payload, "bit {bit}");
            }
        }
    }

    #[test]
    fn an_impossible_length_reserves_nothing() {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((PAYLOAD_BYTES_MAX as u32).to_le_bytes());
        bytes.extend([0; 5]);
        let mut entries = Entries::start(&bytes[..]).expect("magic");
        assert!(entries.next_entry().is_err());
        assert!(entries.payload.capacity() < 1 << 16);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(tail in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = MAGIC.to_vec();
            bytes.extend(tail);
            let _ = read(&bytes);
        }
    }
}
