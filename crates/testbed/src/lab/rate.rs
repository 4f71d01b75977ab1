//! What holds the rate of an interface: a `tbf` (tc-tbf(8)) or the one class of an `htb`
//! (tc-htb(8)), in numbers, and the words of `tc` that set it.
//!
//! It is written to the journal in this form, so `tc` is never given a word that was read there.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use wallfinder_model::LinkSpec;

use crate::iproute::InterfaceName;

/// How much may leave at once, as time at the full rate: one tick of a kernel that ticks 250
/// times a second, and little beside a window.
const BURST_NS: u64 = 4_000_000;
/// How much may wait, as time at the full rate, and at the least. It is there so that what
/// waits has an end, and large enough that a load of many connections loses nothing.
const LIMIT_NS: u64 = 200_000_000;
const LIMIT_BYTES_MIN: u64 = 1 << 20;
const LIMIT_BYTES_MAX: u64 = 128 << 20;
/// The header that a packet has beside its MTU's worth of bytes.
const HEADER_BYTES: u64 = 14;
/// Rates that there can be, in bits per second.
const RATE_BITS: std::ops::RangeInclusive<u64> = 1..=100_000_000_000_000;
/// The largest bucket or queue: `tc` counts them in 32 bits.
const SIZE_BYTES_MAX: u64 = u32::MAX as u64;

/// A token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tbf {
    pub(crate) rate_bits: u64,
    pub(crate) burst_bytes: u64,
    pub(crate) limit_bytes: u64,
}

impl Tbf {
    /// For a rate and the largest packet of its interface.
    pub(crate) fn of(rate_bits: u64, mtu: u32) -> Tbf {
        let bytes_in = |ns: u64| (u128::from(rate_bits) * u128::from(ns) / 8_000_000_000) as u64;
        Tbf {
            rate_bits,
            burst_bytes: bytes_in(BURST_NS).max(2 * (u64::from(mtu) + HEADER_BYTES)),
            limit_bytes: bytes_in(LIMIT_NS).clamp(LIMIT_BYTES_MIN, LIMIT_BYTES_MAX),
        }
    }

    /// Of a link at a rate.
    pub(crate) fn of_link(link: &LinkSpec, rate_bits: u64) -> Tbf {
        Tbf::of(rate_bits, link.mtu).holding(link.buffer_bytes, link.mtu)
    }

    /// With room for so many bytes to wait. What leaves at once is then half of that at the most: a
    /// packet that offload has put together is larger than the room, and is taken apart only where
    /// it is larger than what may leave at once.
    pub(crate) fn holding(self, buffer_bytes: Option<u64>, mtu: u32) -> Tbf {
        let Some(bytes) = buffer_bytes else {
            return self;
        };
        let packet = u64::from(mtu) + HEADER_BYTES;
        Tbf {
            limit_bytes: bytes.max(2 * packet),
            burst_bytes: self.burst_bytes.min(bytes / 2).max(packet),
            ..self
        }
    }

    pub(super) fn words(self) -> Vec<String> {
        vec![
            "tbf".into(),
            "rate".into(),
            format!("{}bit", self.rate_bits),
            "burst".into(),
            format!("{}b", self.burst_bytes),
            "limit".into(),
            format!("{}b", self.limit_bytes),
        ]
    }
}

/// What `tc` calls a queueing discipline or a class: `5746:`, `1:10`, both hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Handle {
    pub(crate) major: u16,
    /// 0: the discipline itself.
    pub(crate) minor: u16,
}

impl Handle {
    /// That of the queueing disciplines that we add: "WF".
    pub(crate) const OWN: Handle = Handle {
        major: 0x5746,
        minor: 0,
    };
    /// The class of ours that the load's flows are in, where others pass beside them.
    pub(crate) const FLOWS: Handle = Handle {
        minor: 2,
        ..Handle::OWN
    };
    /// What holds their rate.
    pub(crate) const OF_FLOWS: Handle = Handle {
        major: 0x5747,
        minor: 0,
    };
}

impl FromStr for Handle {
    type Err = String;

    fn from_str(text: &str) -> Result<Handle, String> {
        let number = |text: &str| match text {
            "" => Some(0),
            text => u16::from_str_radix(text, 16).ok(),
        };
        let parts = text.split_once(':');
        let parts = parts.and_then(|(major, minor)| Some((number(major)?, number(minor)?)));
        let (major, minor) = parts.ok_or_else(|| format!("`{text}` is no handle of tc"))?;
        Ok(Handle { major, minor })
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.minor {
            0 => write!(f, "{:x}:", self.major),
            minor => write!(f, "{:x}:{minor:x}", self.major),
        }
    }
}

/// The one class of an htb.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HtbClass {
    pub(crate) id: Handle,
    pub(crate) parent: Handle,
    pub(crate) rate_bits: u64,
    pub(crate) ceil_bits: u64,
    pub(crate) burst_bytes: Option<u64>,
    pub(crate) cburst_bytes: Option<u64>,
    pub(crate) prio: Option<u32>,
    pub(crate) quantum_bytes: Option<u32>,
}

impl HtbClass {
    fn words(&self) -> Vec<String> {
        let mut words = vec![
            "htb".into(),
            "rate".into(),
            format!("{}bit", self.rate_bits),
            "ceil".into(),
            format!("{}bit", self.ceil_bits),
        ];
        let sizes = [("burst", self.burst_bytes), ("cburst", self.cburst_bytes)];
        let sizes = sizes.map(|(key, bytes)| (key, bytes.map(|bytes| format!("{bytes}b"))));
        let numbers = [("prio", self.prio), ("quantum", self.quantum_bytes)];
        let numbers = numbers.map(|(key, number)| (key, number.map(|number| number.to_string())));
        for (key, value) in sizes.into_iter().chain(numbers) {
            words.extend(value.into_iter().flat_map(|value| [key.to_owned(), value]));
        }
        words
    }
}

/// What holds the rate of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Rate {
    Tbf {
        handle: Handle,
        /// The class that it stands below; `None`: it is the root.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Handle>,
        tbf: Tbf,
    },
    Htb(HtbClass),
}

impl Rate {
    /// A token bucket that bears our handle.
    pub(crate) fn own(tbf: Tbf) -> Rate {
        Rate::Tbf {
            handle: Handle::OWN,
            parent: None,
            tbf,
        }
    }

    /// One below ours, for some of what passes.
    pub(crate) fn of_flows(tbf: Tbf) -> Rate {
        Rate::Tbf {
            handle: Handle::OF_FLOWS,
            parent: Some(Handle::FLOWS),
            tbf,
        }
    }

    /// The command that leaves this share of it.
    pub(crate) fn words(&self, interface: &InterfaceName, share: f64) -> Vec<String> {
        let scaled = |bits: u64| ((bits as f64 * share).round() as u64).max(1);
        let mut words: Vec<String> = vec!["tc".into()];
        let mut all = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
        let rest = match self {
            Rate::Tbf {
                handle,
                parent,
                tbf,
            } => {
                let handle = handle.to_string();
                all(&["qdisc", "change", "dev", interface]);
                match parent.map(|parent| parent.to_string()) {
                    Some(parent) => all(&["parent", &parent]),
                    None => all(&["root"]),
                }
                all(&["handle", &handle]);
                let rate_bits = scaled(tbf.rate_bits);
                Tbf { rate_bits, ..*tbf }.words()
            }
            Rate::Htb(class) => {
                let (parent, id) = (class.parent.to_string(), class.id.to_string());
                all(&["class", "change", "dev", interface]);
                all(&["parent", &parent, "classid", &id]);
                let (rate_bits, ceil_bits) = (scaled(class.rate_bits), scaled(class.ceil_bits));
                let class = class.clone();
                HtbClass {
                    rate_bits,
                    ceil_bits,
                    ..class
                }
                .words()
            }
        };
        words.extend(rest);
        words
    }

    /// Whether its numbers are such as an interface can have.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (rates, sizes) = match self {
            Rate::Tbf { tbf, .. } => (
                [tbf.rate_bits; 2],
                [Some(tbf.burst_bytes), Some(tbf.limit_bytes)],
            ),
            Rate::Htb(class) => (
                [class.rate_bits, class.ceil_bits],
                [class.burst_bytes, class.cburst_bytes],
            ),
        };
        let is_sound = rates.iter().all(|bits| RATE_BITS.contains(bits))
            && sizes.iter().flatten().all(|bytes| *bytes <= SIZE_BYTES_MAX);
        match is_sound {
            true => Ok(()),
            false => Err("a rate or a size that no interface has".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_becomes_the_words_of_tc() {
        let interface: InterfaceName = "d0".parse().expect("a name");
        let tbf = Tbf {
            rate_bits: 20_000_000,
            burst_bytes: 10_000,
            limit_bytes: 1_000_000,
        };
        assert_eq!("5746:".parse(), Ok(Handle::OWN));
        let rate = Rate::own(tbf);
        assert_eq!(
            rate.words(&interface, 0.5).join(" "),
            "tc qdisc change dev d0 root handle 5746: tbf rate 10000000bit burst 10000b limit 1000000b"
        );
        let class = HtbClass {
            id: "1:1f".parse().expect("a class"),
            parent: "1:".parse().expect("a parent"),
            rate_bits: 10_000_000,
            ceil_bits: 20_000_000,
            burst_bytes: Some(15_360),
            cburst_bytes: None,
            prio: Some(0),
            quantum_bytes: Some(125_000),
        };
        let rate = Rate::Htb(class.clone());
        assert_eq!(
            rate.words(&interface, 1.0).join(" "),
            "tc class change dev d0 parent 1: classid 1:1f htb rate 10000000bit ceil 20000000bit \
             burst 15360b prio 0 quantum 125000"
        );
        assert_eq!(rate.check(), Ok(()));
        for bad in [
            HtbClass {
                rate_bits: 0,
                ..class.clone()
            },
            HtbClass {
                burst_bytes: Some(1 << 40),
                ..class
            },
        ] {
            assert!(Rate::Htb(bad).check().is_err());
        }
        for bad in ["", "1", "g:", "1:-1", "10000:", "1: dev eth0"] {
            assert!(bad.parse::<Handle>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bucket_holds_a_tick_and_two_packets() {
        let fast = Tbf::of(1_000_000_000, 1_500);
        assert_eq!((fast.burst_bytes, fast.limit_bytes), (500_000, 25_000_000));
        let slow = Tbf::of(100_000, 1_500);
        assert_eq!((slow.burst_bytes, slow.limit_bytes), (3_028, 1 << 20));
    }
}
