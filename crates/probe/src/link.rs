//! Interfaces: which one leads to an address, how it is configured, and the rate it is held to.

use std::io;
use std::net::IpAddr;
use std::ops::ControlFlow;

use crate::netlink::{Family, Question, Socket};
use crate::parse::link::{Link, Route, Shaper, address, link, route, shaper};
use crate::{netns, procfile};

const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;
const GET_ROUTE: u16 = 26;
const GET_QDISC: u16 = 38;
const GET_CLASS: u16 = 42;
/// Interfaces beyond these are not looked at.
const LINKS_MAX: usize = 4096;

/// A view of the interfaces of one network namespace.
#[derive(Debug)]
pub(crate) struct Links(Socket);

impl Links {
    /// The namespace of a process; `None`: that of the calling thread.
    pub(crate) fn of(pid: Option<u32>) -> io::Result<Links> {
        netns::inside(pid, || Socket::open(Family::Route)).map(Links)
    }

    /// All interfaces.
    pub(crate) fn all(&mut self) -> io::Result<Vec<Link>> {
        let mut found = Vec::new();
        let question = Question {
            kind: GET_LINK,
            dump: true,
            fixed: &[0; 16],
            attributes: &[],
        };
        self.0.ask(&question, |message| {
            found.extend(link(message).filter(|_| found.len() < LINKS_MAX));
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// The interface of that name.
    pub(crate) fn named(&mut self, name: &str) -> Option<Link> {
        self.all().ok()?.into_iter().find(|link| link.name == name)
    }

    /// The interface that has the address as its own.
    pub(crate) fn owning(&mut self, wanted: IpAddr) -> Option<Link> {
        let mut index = None;
        let question = Question {
            kind: GET_ADDRESS,
            dump: true,
            fixed: &[0; 8],
            attributes: &[],
        };
        let answered = self.0.ask(&question, |message| {
            if let Some((owner, _)) = address(message).filter(|(_, ip)| *ip == wanted) {
                index.get_or_insert(owner);
            }
            ControlFlow::Continue(())
        });
        answered.ok()?;
        let mut links = self.all().ok()?.into_iter();
        links.find(|link| Some(link.index) == index)
    }

    /// The interface by which packets leave for an address, as the kernel routes them; `lo` for own
    /// addresses.
    pub(crate) fn towards(&mut self, address: IpAddr) -> Option<Link> {
        let (family, octets) = match address {
            IpAddr::V4(v4) => (2u8, v4.octets().to_vec()),
            IpAddr::V6(v6) => (10u8, v6.octets().to_vec()),
        };
        let mut fixed = [0u8; 12];
        fixed[0] = family;
        fixed[1] = u8::try_from(octets.len() * 8).expect("an address has at most 128 bits");
        let question = Question {
            kind: GET_ROUTE,
            dump: false,
            fixed: &fixed,
            attributes: &[(1, &octets)],
        };
        let mut found: Option<Route> = None;
        let answered = self.0.ask(&question, |message| {
            found = route(message);
            ControlFlow::Continue(())
        });
        answered.ok()?;
        let route = found?;
        let mut links = self.all().ok()?.into_iter();
        match route.local {
            true => links.find(|link| link.name == "lo"),
            false => links.find(|link| Some(link.index) == route.interface),
        }
    }

    /// What shapes all that the interface sends: a `tbf` at the root, or the one root class of an
    /// `htb`, or the one `tbf` within that, by which certain flows are held. `None` where nothing does, or
    /// several classes share the interface.
    pub(crate) fn shaper(&mut self, link: &Link) -> Option<Shaper> {
        match link.qdisc.as_deref()? {
            "tbf" => self.only_shaper(link, GET_QDISC, true),
            "htb" => {
                let class = self.only_shaper(link, GET_CLASS, true)?;
                self.only_shaper(link, GET_QDISC, false).or(Some(class))
            }
            _ => None,
        }
    }

    /// The one of its kind on an interface, at the root or below.
    fn only_shaper(&mut self, link: &Link, kind: u16, root: bool) -> Option<Shaper> {
        let mut fixed = [0u8; 20];
        fixed[4..8].copy_from_slice(&link.index.to_ne_bytes());
        let question = Question {
            kind,
            dump: true,
            fixed: &fixed,
            attributes: &[],
        };
        let (mut first, mut count) = (None, 0);
        let answered = self.0.ask(&question, |message| {
            let here = shaper(message);
            if let Some(here) =
                here.filter(|here| here.root == root && here.interface == link.index)
            {
                first.get_or_insert(here);
                count += 1;
            }
            ControlFlow::Continue(())
        });
        answered.ok()?;
        first.filter(|_| count == 1)
    }
}

/// The nominal speed in bits per second, where the driver says one; software interfaces claim
/// speeds that mean nothing. Only for interfaces of the namespace that `/sys` was mounted in.
pub(crate) fn nominal_bits(link: &Link) -> Option<u64> {
    if link.kind.is_some() {
        return None;
    }
    let text = procfile::line(format!("/sys/class/net/{}/speed", link.name))?;
    let megabits: u64 = text.parse().ok().filter(|megabits| *megabits > 0)?;
    // An unknown speed is written as -1, and by some drivers as 2^32 - 1.
    (megabits < u64::from(u32::MAX)).then(|| megabits * 1_000_000)
}
