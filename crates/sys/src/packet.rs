//! Whole packets taken from an interface and given to another (packet(7)).
//!
//! Each packet has the kernel's `struct virtio_net_hdr` before its Ethernet header: it says
//! what is still to be done with it, so that segments which offload has put together and
//! checksums that are not computed yet cross as they are, as they would on a veth pair.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::clock;

/// The most that one packet may take: 64 KB of segments put together, an Ethernet header with
/// a tag, and the header before it.
pub const PACKET_BYTES_MAX: usize = (1 << 16) + 128;
/// Packets that one call moves, at the most.
pub const BATCH: usize = 32;

/// `ETH_P_ALL` of <linux/if_ether.h>, in network order.
const EVERYTHING: u16 = 0x0003_u16.to_be();
/// What may wait in the kernel until it is taken.
const RECEIVE_BYTES: libc::c_int = 32 << 20;
/// What may be under way to whoever takes it.
const SEND_BYTES: libc::c_int = 64 << 20;
/// Room for the one time stamp that comes with a packet.
const CONTROL_BYTES: usize = 64;
/// No packet waits longer for us. More was a step of the wall clock, which stamps them.
const AGE_NS_MAX: u64 = 10_000_000_000;

/// A packet that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Its length, the header before it included.
    pub bytes: usize,
    /// When the kernel had it, on the monotonic clock.
    pub arrived_ns: u64,
}

/// All packets that come in on one interface, and a way out on it.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

impl PacketSocket {
    /// For an interface of the calling thread's network namespace. What we send ourselves is
    /// not taken. Needs `CAP_NET_RAW`.
    pub fn open(interface: &str) -> io::Result<PacketSocket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::RAW;
        // Without a protocol it takes nothing until it is bound.
        let fd = rustix::net::socket_with(AddressFamily::PACKET, kind, flags, None)?;
        let index = rustix::net::netdevice::name_to_index(&fd, interface)?;
        let socket = PacketSocket { fd };
        socket.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        socket.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BYTES)?;
        socket.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BYTES)?;
        socket.bind(index)?;
        Ok(socket)
    }

    fn set(&self, level: i32, option: i32, value: libc::c_int) -> io::Result<()> {
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        let value = &raw const value;
        // SAFETY: `value` points at an integer of that length, which lives through the call.
        let result =
            unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, option, value.cast(), length) };
        told(result).map(drop)
    }

    fn bind(&self, index: u32) -> io::Result<()> {
        // SAFETY: a sockaddr_ll is integers, for which zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = EVERYTHING;
        address.sll_ifindex = i32::try_from(index).map_err(io::Error::other)?;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let address = &raw const address;
        // SAFETY: `address` is a sockaddr_ll of that length, which lives through the call.
        told(unsafe { libc::bind(self.fd.as_raw_fd(), address.cast(), length) }).map(drop)
    }

    /// Takes what is there, up to [`BATCH`] packets, each into [`PACKET_BYTES_MAX`] bytes of
    /// `room`. 0: nothing is there, or there is no room for a whole one.
    pub fn take(&self, room: &mut [u8], taken: &mut [Taken; BATCH]) -> Result<usize, Errno> {
        let slots = (room.len() / PACKET_BYTES_MAX).min(BATCH);
        if slots == 0 {
            return Ok(0);
        }
        let mut control = [[0_u64; CONTROL_BYTES / 8]; BATCH];
        // SAFETY: an iovec is a pointer and a length, for which null and 0 are values.
        let mut parts: [libc::iovec; BATCH] = unsafe { zeroed() };
        // SAFETY: as above; an mmsghdr is pointers and integers.
        let mut heads: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        for (at, slot) in room
            .chunks_exact_mut(PACKET_BYTES_MAX)
            .take(slots)
            .enumerate()
        {
            parts[at].iov_base = slot.as_mut_ptr().cast();
            parts[at].iov_len = PACKET_BYTES_MAX;
            let head = &mut heads[at].msg_hdr;
            head.msg_iov = &raw mut parts[at];
            head.msg_iovlen = 1;
            head.msg_control = control[at].as_mut_ptr().cast();
            head.msg_controllen = CONTROL_BYTES;
        }
        // SAFETY: the first `slots` heads point at buffers of the lengths that they tell, which
        // nobody else has and which live through the call.
        let result = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                heads.as_mut_ptr(),
                slots as libc::c_uint,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        let count = match told(result) {
            Ok(count) => count as usize,
            Err(error) => match Errno::from_io_error(&error).unwrap_or(Errno::INVAL) {
                Errno::AGAIN | Errno::INTR => return Ok(0),
                errno => return Err(errno),
            },
        };
        let (wall_ns, now_ns) = (clock::realtime_ns(), clock::monotonic_ns());
        for (head, taken) in heads[..count].iter().zip(&mut *taken) {
            let stamped_ns = stamp(&head.msg_hdr).unwrap_or(wall_ns);
            let age_ns = wall_ns.saturating_sub(stamped_ns);
            let age_ns = if age_ns > AGE_NS_MAX { 0 } else { age_ns };
            *taken = Taken {
                bytes: head.msg_len as usize,
                arrived_ns: now_ns - age_ns.min(now_ns),
            };
        }
        Ok(count)
    }

    /// Sends packets, and says how many went, from the first. An error is about the first that
    /// did not; `AGAIN`: later.
    pub fn send(&self, packets: &[&[u8]]) -> Result<usize, Errno> {
        let count = packets.len().min(BATCH);
        // SAFETY: an iovec is a pointer and a length, for which null and 0 are values.
        let mut parts: [libc::iovec; BATCH] = unsafe { zeroed() };
        // SAFETY: as above; an mmsghdr is pointers and integers.
        let mut heads: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        for (at, packet) in packets.iter().take(count).enumerate() {
            // The kernel only reads what is sent.
            parts[at].iov_base = packet.as_ptr().cast_mut().cast();
            parts[at].iov_len = packet.len();
            heads[at].msg_hdr.msg_iov = &raw mut parts[at];
            heads[at].msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the first `count` heads point at buffers of the lengths that they tell, which
        // live through the call and are not written to.
        let result = unsafe {
            libc::sendmmsg(
                self.fd.as_raw_fd(),
                heads.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        match told(result) {
            Ok(sent) => Ok(sent as usize),
            Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL)),
        }
    }

    /// Packets for which the kernel had no room since this was asked last.
    pub fn drops(&self) -> u64 {
        // SAFETY: the kernel's `struct tpacket_stats` is integers.
        let mut stats: libc::tpacket_stats = unsafe { zeroed() };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: `stats` is writable for `length` bytes, and both live through the call.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut length,
            )
        };
        if result == 0 {
            u64::from(stats.tp_drops)
        } else {
            0
        }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn told(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// The kernel's stamp on a packet, nanoseconds of the wall clock.
fn stamp(head: &libc::msghdr) -> Option<u64> {
    // SAFETY: `head` is as recvmmsg left it, and its control buffer is still there.
    let control = unsafe { libc::CMSG_FIRSTHDR(head).as_ref() }?;
    if (control.cmsg_level, control.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
        return None;
    }
    // SAFETY: a message of that kind holds a timespec, maybe unaligned.
    let time: libc::timespec = unsafe { ptr::read_unaligned(libc::CMSG_DATA(control).cast()) };
    Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        // Without privilege there is no socket at all.
        assert!(PacketSocket::open("wf-no-such").is_err());
    }
}
