//! What a link is asked to be: `1gbit,mtu=1500,up=100mbit,delay=10ms,buffer=64KiB`.

use std::fmt;
use std::str::FromStr;

use crate::units::Bytes;

/// Rates that can be laid, in bits per second.
const BITS: std::ops::RangeInclusive<u64> = 8_000..=400_000_000_000;
/// Sizes of packets that a link can carry and IPv4 can live with.
const MTU: std::ops::RangeInclusive<u32> = 576..=65_535;
/// Delays that can be kept: below them a relay is as slow itself.
const DELAY_NS: std::ops::RangeInclusive<u64> = 10_000..=5_000_000_000;
/// What may wait before a rate: below, hardly a packet does.
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = 3_000..=134_217_728;
/// Ethernet's.
const MTU_DEFAULT: u32 = 1_500;

/// A link between two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkSpec {
    /// Rate from server to client in bits per second.
    pub down_bits: u64,
    /// Rate from client to server.
    pub up_bits: u64,
    /// The largest packet in bytes, without its Ethernet header.
    pub mtu: u32,
    /// Added to each packet's way, in each direction; 0: nothing is.
    pub delay_ns: u64,
    /// What may wait in each direction, in bytes; none: 200 ms at the rate.
    pub buffer_bytes: Option<u64>,
}

/// A text that is no link, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no link: {why} (write RATE[,mtu=N][,up=RATE][,delay=TIME][,buffer=SIZE], such as `1gbit,mtu=1500`)"
)]
pub struct BadLink {
    text: String,
    why: String,
}

impl FromStr for LinkSpec {
    type Err = BadLink;

    fn from_str(text: &str) -> Result<LinkSpec, BadLink> {
        let bad = |why: String| BadLink {
            text: text.chars().take(100).collect(),
            why,
        };
        let mut parts = text.split(',');
        let down_bits = bits(parts.next().unwrap_or_default()).map_err(&bad)?;
        let (mut up_bits, mut mtu, mut delay_ns, mut buffer_bytes) = (None, None, None, None);
        for part in parts {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| bad(format!("`{part}` has no `=`")))?;
            let twice = match key.trim() {
                "up" => up_bits.replace(bits(value).map_err(&bad)?).is_some(),
                "mtu" => mtu.replace(mtu_bytes(value).map_err(&bad)?).is_some(),
                "delay" => delay_ns.replace(delay(value).map_err(&bad)?).is_some(),
                "buffer" => buffer_bytes.replace(buffer(value).map_err(&bad)?).is_some(),
                other => {
                    let why =
                        format!("there is no `{other}`: `mtu`, `up`, `delay` and `buffer` are");
                    return Err(bad(why));
                }
            };
            if twice {
                return Err(bad(format!("`{}` stands twice", key.trim())));
            }
        }
        Ok(LinkSpec {
            down_bits,
            up_bits: up_bits.unwrap_or(down_bits),
            mtu: mtu.unwrap_or(MTU_DEFAULT),
            delay_ns: delay_ns.unwrap_or(0),
            buffer_bytes,
        })
    }
}

/// As it would be written.
impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},mtu={}", shown_bits(self.down_bits), self.mtu)?;
        if self.up_bits != self.down_bits {
            write!(f, ",up={}", shown_bits(self.up_bits))?;
        }
        if self.delay_ns != 0 {
            write!(f, ",delay={}", shown_ns(self.delay_ns))?;
        }
        if let Some(bytes) = self.buffer_bytes {
            write!(f, ",buffer={bytes}")?;
        }
        Ok(())
    }
}

/// A rate such as `20mbit` or `1.5gbit`, in bits per second.
pub fn parse_bits(text: &str) -> Result<u64, BadLink> {
    bits(text).map_err(|why| BadLink {
        text: text.chars().take(100).collect(),
        why,
    })
}

fn bits(text: &str) -> Result<u64, String> {
    let units = [("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
    let bits = scaled(text, &units, "no rate in bit, kbit, mbit or gbit")?;
    within(text, bits, BITS, shown_bits)
}

/// `10ms`, `1.5ms`, `250us`, `1s`: in nanoseconds.
fn delay(text: &str) -> Result<u64, String> {
    let units = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let delay_ns = scaled(text, &units, "no delay in us, ms or s")?;
    within(text, delay_ns, DELAY_NS, shown_ns)
}

/// A number with one of these units, in the unit that is 1.
fn scaled(text: &str, units: &[(&str, f64)], what_else: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let number_end = lower.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let (number, unit) = lower.split_at(number_end.unwrap_or(lower.len()));
    let known = units.iter().find(|(name, _)| *name == unit);
    let (_, scale) = known.ok_or_else(|| format!("`{}` is {what_else}", text.trim()))?;
    let number: f64 = number
        .parse()
        .map_err(|_| format!("`{}` does not begin with a number", text.trim()))?;
    // A cast of what is too large saturates, and is out of range all the same.
    Ok((number * scale).round() as u64)
}

fn within(
    text: &str,
    value: u64,
    range: std::ops::RangeInclusive<u64>,
    shown: fn(u64) -> String,
) -> Result<u64, String> {
    if range.contains(&value) {
        return Ok(value);
    }
    let (least, most) = (shown(*range.start()), shown(*range.end()));
    Err(format!(
        "`{}` is not between {least} and {most}",
        text.trim()
    ))
}

/// `64KiB`, `32000`: in bytes.
fn buffer(text: &str) -> Result<u64, String> {
    let Bytes(bytes) = text
        .trim()
        .parse()
        .map_err(|_| format!("`{}` is no size such as 32000 or 64KiB", text.trim()))?;
    within(text, bytes, BUFFER_BYTES, |bytes| format!("{bytes} bytes"))
}

fn mtu_bytes(text: &str) -> Result<u32, String> {
    let mtu = text.trim().parse().ok().filter(|mtu| MTU.contains(mtu));
    mtu.ok_or_else(|| {
        let (least, most) = (MTU.start(), MTU.end());
        format!("`{}` is no MTU between {least} and {most}", text.trim())
    })
}

/// A rate as people write it: `1gbit`, `1.5mbit`.
pub fn shown_bits(bits: u64) -> String {
    for (scale, unit) in [
        (1_000_000_000, "gbit"),
        (1_000_000, "mbit"),
        (1_000, "kbit"),
    ] {
        // Three digits behind the point are exact down to the next unit.
        if bits >= scale && bits.is_multiple_of(scale / 1_000) {
            return format!("{}{unit}", bits as f64 / scale as f64);
        }
    }
    format!("{bits}bit")
}

/// A delay as people write it: `10ms`, `1.5ms`.
fn shown_ns(ns: u64) -> String {
    for (scale, unit) in [(1_000_000_000, "s"), (1_000_000, "ms")] {
        // Three digits behind the point are exact down to the next unit.
        if ns >= scale && ns.is_multiple_of(scale / 1_000) {
            return format!("{}{unit}", ns as f64 / scale as f64);
        }
    }
    format!("{}us", ns as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_and_written() {
        let link = |text: &str| text.parse::<LinkSpec>();
        let plain = LinkSpec {
            down_bits: 1_000_000_000,
            up_bits: 1_000_000_000,
            mtu: 1_500,
            delay_ns: 0,
            buffer_bytes: None,
        };
        assert_eq!(link("1gbit"), Ok(plain));
        let far = link("1gbit, delay = 10ms").expect("a link");
        assert_eq!(far.delay_ns, 10_000_000);
        assert_eq!(link(" 1Gbit , mtu = 1500"), Ok(plain));
        let odd = link("20mbit,up=100kbit,mtu=9001").expect("a link");
        assert_eq!(
            (odd.down_bits, odd.up_bits, odd.mtu),
            (20_000_000, 100_000, 9001)
        );
        for text in [
            "1gbit,mtu=1500",
            "20mbit,mtu=9001,up=100kbit",
            "1.5gbit,mtu=576",
            "8.001kbit,mtu=1500",
            "1gbit,mtu=1500,delay=10ms",
            "1gbit,mtu=1500,up=1mbit,delay=1.5ms",
            "1gbit,mtu=1500,delay=12.345us",
            "1gbit,mtu=1500,delay=5s",
            "1gbit,mtu=1500,buffer=65536",
            "20mbit,mtu=1500,up=1mbit,delay=10ms,buffer=32000",
        ] {
            assert_eq!(link(text).expect(text).to_string(), text);
        }
    }

    #[test]
    fn what_is_no_link_is_told_why() {
        for (text, why) in [
            ("", "no rate"),
            ("1", "no rate"),
            ("gbit", "begin with a number"),
            ("1.2.3mbit", "begin with a number"),
            ("-1mbit", "no rate"),
            ("nanmbit", "no rate"),
            ("1mbps", "no rate"),
            ("1bit", "between"),
            ("99999999999999999999gbit", "between"),
            ("1gbit,mtu", "no `=`"),
            ("1gbit,mtu=x", "no MTU"),
            ("1gbit,mtu=100", "no MTU"),
            ("1gbit,mtu=99999999999", "no MTU"),
            ("1gbit,loss=3", "no `loss`"),
            ("1gbit,delay", "no `=`"),
            ("1gbit,delay=3", "no delay"),
            ("1gbit,delay=-1", "no delay"),
            ("1gbit,delay=-1ms", "no delay"),
            ("1gbit,delay=2h", "no delay"),
            ("1gbit,delay=ms", "begin with a number"),
            ("1gbit,delay=1.2.3ms", "begin with a number"),
            ("1gbit,delay=0ms", "between"),
            ("1gbit,delay=9us", "between 10us and 5s"),
            ("1gbit,delay=99999999999999999999s", "between"),
            ("1gbit,delay=1ms,delay=1ms", "twice"),
            ("1gbit,buffer=some", "no size"),
            ("1gbit,buffer=10", "between 3000"),
            ("1gbit,buffer=1GB", "between 3000"),
            ("1gbit,up=1mbit,up=2mbit", "twice"),
            ("1gbit,", "no `=`"),
        ] {
            let error = text.parse::<LinkSpec>().expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(parse_bits("1gbit").is_ok() && parse_bits("1gbit,mtu=1500").is_err());
    }
}
