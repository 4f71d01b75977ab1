//! Where loads, and questions to servers, may go: loopback and private addresses, and hosts that the
//! user has named; never to link-local addresses, where metadata services live.
//!
//! What is checked is an address, and that address is what is connected to: a name is looked up once.
//! A driver looks names up by itself, so that in its command addresses count, and names only where
//! the user has named them.

use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::str::FromStr;
use std::time::Duration;

use wallfinder_sys::name_service;
use wallfinder_testbed::driver::{Destination, DriverSpec};

use crate::exit::Failed;

/// How long a host's addresses are tried for, each, where there are several.
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
/// What a name service may take, all of its tries together.
const NAME_PATIENCE: Duration = Duration::from_secs(10);

/// What may be reached.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reach {
    /// Hosts that the user has named with `--i-may-load`.
    named: Vec<String>,
}

impl Reach {
    pub(crate) fn of(named: &[String]) -> Reach {
        Reach {
            named: named.to_vec(),
        }
    }

    /// An address that may be reached, or why it may not. `host` is how the user would name it.
    pub(crate) fn check(&self, host: &str, address: SocketAddr) -> Result<SocketAddr, Failed> {
        let ip = address.ip().to_canonical();
        if is_metadata(ip) {
            return Err(Failed::usage(format!(
                "{host} is {ip}, a link-local address where metadata services live: never loaded"
            )));
        }
        if is_private(ip) || self.is_named(host) {
            return Ok(address);
        }
        Err(Failed::usage(format!(
            "{host} is {ip}, which is not loopback, private or a lab address; \
             if you may load it, say so with --i-may-load {host}"
        )))
    }

    /// Looks a host up. All of its addresses are checked; of several the first that takes a connection
    /// is given.
    pub(crate) fn look_up(&self, host: &str, port: u16) -> Result<SocketAddr, Failed> {
        let addresses = addresses_of(host, port)?;
        for address in &addresses {
            self.check(host, *address)?;
        }
        listening(&addresses)
            .ok_or_else(|| Failed::run(format!("`{host}` has no address (net.name)")))
    }

    /// Checks every address that a driver's command names beside the target.
    pub(crate) fn check_driver(&self, spec: &DriverSpec) -> Result<(), Failed> {
        for place in &spec.targets().named {
            self.check_place(place).map_err(|failed| Failed {
                message: format!("the driver's command: {}", failed.message),
                ..failed
            })?;
        }
        Ok(())
    }

    fn check_place(&self, place: &Destination) -> Result<(), Failed> {
        let host = place.host.as_str();
        let port = place.port.unwrap_or(80);
        if let Ok(ip) = host.parse::<IpAddr>() {
            return self.check(host, SocketAddr::new(ip, port)).map(drop);
        }
        let is_localhost = host == "localhost" || host.ends_with(".localhost");
        let addresses = match addresses_of(host, port) {
            Ok(addresses) => addresses,
            // `user:12` is no place in the network where `user` is no name.
            Err(_) if !place.is_certain => return Ok(()),
            Err(failed) if is_localhost || self.is_named(host) => return Err(failed),
            Err(_) => Vec::new(),
        };
        for address in &addresses {
            self.check(host, *address)?;
        }
        if is_localhost || self.is_named(host) {
            return Ok(());
        }
        Err(Failed::usage(format!(
            "{host} is a name, which the driver would look up again by itself, perhaps to another \
             address than Wallfinder can check; write {{url}} or {{address}} for the target, an address \
             in its place, or, if you may load it, --i-may-load {host}"
        )))
    }

    fn is_named(&self, host: &str) -> bool {
        self.named.iter().any(|named| named == host)
    }
}

/// Whether an address is one of a metadata service, however it is written: never to be loaded.
pub(crate) fn is_metadata(ip: IpAddr) -> bool {
    /// Of clouds whose service is not at a link-local address.
    const V4: [Ipv4Addr; 1] = [Ipv4Addr::new(100, 100, 100, 200)];
    const V6: [Ipv6Addr; 2] = [
        Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
        Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    ];
    match ip {
        IpAddr::V4(v4) => v4.is_link_local() || V4.contains(&v4),
        IpAddr::V6(v6) => {
            let carried = carried(v6).is_some_and(|v4| is_metadata(v4.into()));
            v6.segments()[0] & 0xffc0 == 0xfe80 || V6.contains(&v6) || carried
        }
    }
}

/// The address of IPv4 that one of IPv6 leads to: mapped, compatible, translated (RFC 6052) or 6to4.
fn carried(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(of(high, low))
        }
        [0x2002, high, low, ..] => Some(of(high, low)),
        _ => None,
    }
}

/// Addresses with the same first bits: `10.1.0.0/16`, or one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    pub(crate) fn contains(self, ip: IpAddr) -> bool {
        let of = |ip: IpAddr| match ip {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
            IpAddr::V6(v6) => v6.to_bits(),
        };
        let differ = of(self.address) ^ of(ip);
        self.address.is_ipv4() == ip.is_ipv4() && differ.leading_zeros() >= self.bits
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let wrong = || format!("`{text}` is no network such as 10.0.0.0/8, and no address");
        let (address, bits) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            "" => most,
            bits => bits.parse().map_err(|_| wrong())?,
        };
        match bits <= most {
            true => Ok(Network { address, bits }),
            false => Err(wrong()),
        }
    }
}

/// Whether a load may go there without more words.
fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.segments()[0] & 0xfe00 == 0xfc00,
    }
}

/// The addresses of a host.
fn addresses_of(host: &str, port: u16) -> Result<Vec<SocketAddr>, Failed> {
    match name_service::addresses(host, NAME_PATIENCE) {
        Ok(found) if found.is_empty() => Err(Failed::run(format!(
            "`{host}` has no address (net.name): its name is not known"
        ))),
        Ok(found) => {
            let addresses = found.into_iter().map(|ip| SocketAddr::new(ip, port));
            Ok(addresses.collect())
        }
        Err(error) if error.kind() == ErrorKind::TimedOut => Err(Failed::run(format!(
            "the name service did not answer for `{host}` within {} s (net.name_slow); \
             an address in its place needs none",
            NAME_PATIENCE.as_secs()
        ))),
        Err(error) => Err(Failed::run(format!(
            "`{host}` has no address (net.name): {error}"
        ))),
    }
}

/// Of a host's addresses the first that takes a connection, for `localhost` is often two and a server
/// listens on one; else the first, whose errors are then told.
fn listening(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    let takes =
        |address: &&SocketAddr| TcpStream::connect_timeout(address, CONNECT_PATIENCE).is_ok();
    let found = match addresses {
        [_] => None,
        several => several.iter().find(takes),
    };
    found.or(addresses.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn of_several_addresses_the_one_that_listens_is_taken() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let heard = listener.local_addr().unwrap();
        let deaf = SocketAddr::from(([127, 0, 0, 2], heard.port()));
        assert_eq!(listening(&[deaf, heard]), Some(heard));
        assert_eq!(listening(&[heard, deaf]), Some(heard));
        // One is not asked, and of several that are deaf the first is told of.
        assert_eq!(listening(&[deaf]), Some(deaf));
        drop(listener);
        assert_eq!(listening(&[deaf, heard]), Some(deaf));
        assert_eq!(listening(&[]), None);
    }

    #[test]
    fn loads_stay_where_they_may_go() {
        let refused = |text: &str| Reach::default().check("h", address(text)).is_err();
        for text in [
            "127.0.0.1:1",
            "10.1.2.3:1",
            "[::1]:1",
            "[fd12::1]:1",
            "192.168.0.9:1",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert!(!refused(text), "{text}");
        }
        for text in [
            "8.8.8.8:1",
            "169.254.169.254:1",
            "[2001:db8::1]:1",
            "[fe80::1]:1",
            "[::ffff:8.8.8.8]:1",
            // Embedding a private address makes no address private.
            "[2002:7f00:1::]:1",
            "[64:ff9b::10.0.0.1]:1",
        ] {
            assert!(refused(text), "{text}");
        }
        let named = Reach::of(&["h".into()]);
        assert!(named.check("h", address("8.8.8.8:80")).is_ok());
        assert!(named.check("other", address("8.8.8.8:80")).is_err());
    }

    #[test]
    fn a_metadata_service_is_never_loaded_however_it_is_written() {
        let named = Reach::of(&["h".into()]);
        for text in [
            "169.254.169.254:80",
            "169.254.0.1:80",
            "[fe80::1]:80",
            "[fd00:ec2::254]:80",
            "[fd20:ce::254]:80",
            "100.100.100.200:80",
            "[::ffff:169.254.169.254]:80",
            "[::169.254.169.254]:80",
            "[64:ff9b::169.254.169.254]:80",
            "[2002:a9fe:a9fe::1]:80",
        ] {
            let failed = named.check("h", address(text)).unwrap_err();
            assert!(failed.message.contains("never loaded"), "{text}");
        }
        // The resolver of the system reads numbers as addresses.
        let numbers = Reach::of(&["2852039166".into(), "0xa9fea9fe".into()]);
        for host in ["2852039166", "0xa9fea9fe"] {
            let failed = numbers.look_up(host, 80).unwrap_err();
            assert!(
                failed.message.contains("never loaded"),
                "{host}: {failed:?}"
            );
        }
    }

    #[test]
    fn a_driver_may_name_what_a_load_may_go_to() {
        let check = |command: &str, named: &[&str]| {
            let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
            Reach::of(&named).check_driver(&DriverSpec::parse(command).unwrap())
        };
        for command in [
            "wrk -c 4 {url}",
            "wrk -c 4",
            "wrk http://127.0.0.1:8080/",
            "ab 10.0.0.1:80/",
            "wrk http://localhost:8080/",
            "curl -u user.of.nothing.invalid:12 {url}",
            "wrk -H 'Referer: http://8.8.8.8/' {url}",
            "ghz --call a.B/C 127.0.0.1:50051",
        ] {
            assert_eq!(check(command, &[]), Ok(()), "{command}");
        }
        for command in [
            "wrk http://8.8.8.8/",
            "wrk {url} http://8.8.8.8/",
            "wrk 8.8.8.8",
            "ab 8.8.8.8:80/",
            "mine --to=8.8.8.8:80",
            "mine --to [2001:db8::1]:80",
            "sh -c 'curl http://8.8.8.8/ && curl {url}'",
            "HTTP_PROXY=http://8.8.8.8:3128 curl {url}",
            "curl --resolve a:80:8.8.8.8 {url}",
            "wrk http://user:pw@8.8.8.8/",
            "wrk http://127.0.0.1@8.8.8.8/",
            "wrk http://elsewhere.invalid/",
            "autocannon elsewhere.invalid",
            "h2load -B http://elsewhere.invalid/",
        ] {
            let failed = check(command, &[]).expect_err(command);
            assert!(failed.message.starts_with("the driver's command: "));
            assert!(
                failed.message.contains("--i-may-load"),
                "{command}: {failed:?}"
            );
        }
        assert_eq!(check("wrk http://8.8.8.8/", &["8.8.8.8"]), Ok(()));
        for command in [
            "wrk http://169.254.169.254/",
            "wrk http://[::ffff:a9fe:a9fe]/",
            "wrk http://2852039166/",
        ] {
            let named = ["169.254.169.254", "::ffff:a9fe:a9fe", "2852039166"];
            let failed = check(command, &named).expect_err(command);
            assert!(failed.message.contains("never loaded"), "{command}");
        }
    }
}
