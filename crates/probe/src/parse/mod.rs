//! What the kernel writes, turned into numbers.
//!
//! Functions of bytes: nothing here opens a file, a socket or a clock, so that everything can be
//! tested with the bytes of real machines (`testdata/`) and with hostile ones.
//!
//! Invariants: no bytes make a parser panic; a field that is missing, negative where it cannot be,
//! or larger than its type makes the result `None` (or drops that one row of a table), never a
//! number that looks right. Fields that newer kernels add are ignored; fields that older kernels
//! lack are `Option`s.
//!
//! ```text
//! host       /proc/stat, cpulists
//! process    /proc/PID/{stat,status,schedstat}
//! forwarder  names of port forwarders, docker-proxy's arguments
//! network    /proc/net/{dev,snmp,netstat,tcp,tcp6,fib_trie,if_inet6}
//! cgroup     /proc/PID/cgroup, cpu.stat, cpu.max, cpu.cfs_*; mountinfo
//! netlink    message and attribute framing (RFC 3549)
//! link       rtnetlink: interfaces, queueing disciplines, classes, routes
//! sockets    sock_diag: inet sockets with TCP_INFO
//! segment    TCP in packets, HTTP/1 exchanges in it
//! perf       records of perf events: sampled stacks
//! pprof      profiles, as the Go runtime writes them
//! ```

// Nothing that `crates/clippy.toml` lists, but in tests.
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

pub mod cgroup;
pub mod forwarder;
pub mod host;
pub mod link;
pub mod netlink;
pub mod network;
pub mod perf;
pub mod pprof;
pub mod process;
pub mod segment;
pub mod sockets;

#[cfg(test)]
mod hostile;

/// An unsigned decimal number that fills `bytes`; no sign, no blanks.
pub fn decimal(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A decimal number that fits in 32 bits.
pub fn decimal_u32(bytes: &[u8]) -> Option<u32> {
    decimal(bytes).and_then(|value| u32::try_from(value).ok())
}

/// A hexadecimal number of at most 16 digits that fills `bytes`.
pub(crate) fn hexadecimal(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 16 {
        return None;
    }
    bytes.iter().try_fold(0u64, |value, byte| {
        let digit = char::from(*byte).to_digit(16)?;
        Some(value << 4 | u64::from(digit))
    })
}

/// Lines without their ends; an empty last line is left out.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    body.split(|byte| *byte == b'\n')
}

/// The words of a line, between blanks.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

/// The value of a line `key value` or `key: value`.
pub(crate) fn value_of<'a>(bytes: &'a [u8], key: &str) -> Option<&'a [u8]> {
    lines(bytes).find_map(|line| {
        let rest = line.strip_prefix(key.as_bytes())?;
        let rest = rest.strip_prefix(b":").unwrap_or(rest);
        rest.first()
            .is_some_and(u8::is_ascii_whitespace)
            .then(|| rest.trim_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fill_their_bytes_or_are_none() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal(b"18446744073709551616"), None);
        for bad in [&b""[..], b"-1", b"+1", b" 1", b"1 ", b"0x1", b"1e3"] {
            assert_eq!(decimal(bad), None, "{bad:?}");
        }
        assert_eq!(hexadecimal(b"07E8"), Some(2024));
        assert_eq!(hexadecimal(b"12345678901234567"), None);
    }

    #[test]
    fn a_key_is_not_found_inside_a_longer_one() {
        let text = b"nr_periods_extra 3\nnr_periods 5\n";
        assert_eq!(value_of(text, "nr_periods"), Some(&b"5"[..]));
        assert_eq!(value_of(b"Threads:\t20\n", "Threads"), Some(&b"20"[..]));
        assert_eq!(value_of(text, "nr"), None);
    }
}
