//! What a network card's driver counts by itself (`ethtool -S`): names of its own, and a number for each.

use std::ffi::{c_char, c_int};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const GET_SET_INFO: u32 = 0x37;
const GET_STRINGS: u32 = 0x1b;
const GET_STATS: u32 = 0x1d;
/// The set of strings that names statistics.
const SET_STATS: u32 = 1;
const NAME_BYTES: usize = 32;
/// No driver is known to have as many. The kernel fills in as many names and numbers as there are by then, whatever
/// was asked for, so there is always room for these.
const COUNTERS_MAX: u32 = 65_536;

/// An interface whose driver is asked.
#[derive(Debug)]
pub struct Card {
    socket: OwnedFd,
    interface: [c_char; libc::IFNAMSIZ],
    names: Vec<String>,
}

/// `struct ifreq`, as far as it is used here.
#[repr(C)]
struct Request {
    interface: [c_char; libc::IFNAMSIZ],
    data: *mut libc::c_void,
    /// To the kernel's full size.
    rest: [u64; 2],
}

impl Card {
    /// An interface of the calling thread's network namespace; an error where its driver counts nothing.
    pub fn open(interface: &str) -> io::Result<Card> {
        let mut name = [0 as c_char; libc::IFNAMSIZ];
        let bytes = interface.as_bytes();
        if bytes.is_empty() || bytes.len() >= name.len() || bytes.contains(&0) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (place, byte) in name.iter_mut().zip(bytes) {
            *place = *byte as c_char;
        }
        let mut card = Card {
            socket: rustix::net::socket_with(
                AddressFamily::INET,
                SocketType::DGRAM,
                SocketFlags::CLOEXEC,
                None,
            )?,
            interface: name,
            names: Vec::new(),
        };
        card.names = card.read_names()?;
        Ok(card)
    }

    /// What it counts, in its order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The numbers now, one for each name; an error where it counts other things than at first.
    pub fn counts(&self) -> io::Result<Vec<u64>> {
        let changed = || io::Error::other("what the driver counts has changed");
        if self.count()? as usize != self.names.len() {
            return Err(changed());
        }
        // Eight bytes of head: the command, and how many.
        let mut asked = vec![0_u64; 1 + COUNTERS_MAX as usize];
        asked[0] = head(GET_STATS, self.names.len() as u32);
        self.ask(&mut asked)?;
        let count = halves(asked[0])[1] as usize;
        match count == self.names.len() {
            true => Ok(asked[1..=count].to_vec()),
            false => Err(changed()),
        }
    }

    /// How many there are.
    fn count(&self) -> io::Result<u32> {
        // Command and nothing, a mask of sets, and how many strings each has.
        let mut info = [head(GET_SET_INFO, 0), 1 << SET_STATS, 0];
        self.ask(&mut info)?;
        let [count, _] = halves(info[2]);
        match info[1] != 0 && count > 0 && count <= COUNTERS_MAX / 2 {
            true => Ok(count),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn read_names(&self) -> io::Result<Vec<String>> {
        let count = self.count()?;
        // Command, set, and count are twelve bytes; names follow.
        let words = (12 + COUNTERS_MAX as usize * NAME_BYTES).div_ceil(8);
        let mut asked = vec![0_u64; words];
        asked[0] = head(GET_STRINGS, SET_STATS);
        asked[1] = head(count, 0);
        self.ask(&mut asked)?;
        let bytes: Vec<u8> = asked.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let names = bytes[12..].chunks_exact(NAME_BYTES).take(count as usize);
        let name = |bytes: &[u8]| {
            let end = bytes.iter().position(|byte| *byte == 0);
            let bytes = &bytes[..end.unwrap_or(NAME_BYTES)];
            String::from_utf8_lossy(bytes).trim().to_owned()
        };
        Ok(names.map(name).collect())
    }

    fn ask(&self, asked: &mut [u64]) -> io::Result<()> {
        let mut request = Request {
            interface: self.interface,
            data: asked.as_mut_ptr().cast(),
            rest: [0; 2],
        };
        // SAFETY: the socket is open; `request` has the size and the fields of an ifreq, and points at `asked`, which
        // has room for what the command writes: COUNTERS_MAX numbers or names, at least twice as many as were counted
        // right before. Both live through the call.
        let result: c_int = unsafe {
            libc::ioctl(
                self.socket.as_raw_fd(),
                SIOCETHTOOL as _,
                (&raw mut request).cast::<libc::c_void>(),
            )
        };
        match result {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

/// Two fields of four bytes, as they lie in memory.
fn head(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// They, taken apart.
fn halves(head: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = head.to_ne_bytes();
    [
        u32::from_ne_bytes([a, b, c, d]),
        u32::from_ne_bytes([e, f, g, h]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_and_one_that_counts_nothing_are_errors() {
        for interface in ["", "no-such-one", "a-name-that-is-longer-than-any"] {
            assert!(Card::open(interface).is_err(), "{interface}");
        }
        assert!(Card::open("lo").is_err());
    }

    #[test]
    fn a_drivers_counts_go_up() {
        let there = std::fs::read_dir("/sys/class/net").unwrap().flatten();
        let names = there.filter_map(|entry| entry.file_name().into_string().ok());
        let Some(card) = names.filter_map(|name| Card::open(&name).ok()).next() else {
            eprintln!("skipped: no driver here counts anything");
            return;
        };
        assert!(card.names().iter().all(|name| !name.is_empty()));
        let (first, second) = (card.counts().unwrap(), card.counts().unwrap());
        assert_eq!(first.len(), card.names().len());
        let packets = card.names().iter().zip(first.iter().zip(&second));
        let mut packets = packets.filter(|(name, _)| name.ends_with("packets"));
        assert!(packets.all(|(_, (first, second))| first <= second));
    }
}
