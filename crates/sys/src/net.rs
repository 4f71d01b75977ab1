//! TCP sockets as a load generator needs them.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

/// Whether calls on the socket return at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocking {
    /// They wait: what io_uring wants, which does the waiting itself.
    Yes,
    /// They do not: what epoll wants.
    No,
}

/// A TCP socket for connections to `address`: closed on exec, without Nagle's delay.
pub fn tcp_socket(address: &SocketAddr, blocking: Blocking) -> Result<OwnedFd, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = match blocking {
        Blocking::Yes => SocketFlags::CLOEXEC,
        Blocking::No => SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
    };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    Ok(socket)
}

/// The error that a socket has met and not told yet.
pub fn pending_error(socket: impl AsFd) -> Option<Errno> {
    match sockopt::socket_error(socket) {
        Ok(Ok(())) => None,
        Ok(Err(errno)) | Err(errno) => Some(errno),
    }
}

/// What the kernel knows of one connection (`TCP_INFO`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round trip in microseconds.
    pub rtt_us: u32,
    /// The shortest so far; `None`: there was none.
    pub rtt_min_us: Option<u32>,
    /// The largest packet that fits the way, in bytes.
    pub path_mtu: u32,
    /// Segments sent again.
    pub retransmits: u32,
    /// Microseconds with data unsent or unacknowledged.
    pub busy_us: u64,
    /// Microseconds of it limited by the peer's receive window.
    pub receive_window_limited_us: u64,
    /// Microseconds of it limited by the send buffer.
    pub send_buffer_limited_us: u64,
}

/// Asks the kernel about a connection.
pub fn tcp_info(socket: impl AsFd) -> Result<TcpInfo, Errno> {
    use std::os::fd::AsRawFd;
    // The kernel's `struct tcp_info` as far as `tcpi_sndbuf_limited`; see <linux/tcp.h>.
    const PATH_MTU: usize = 60;
    const RTT: usize = 68;
    const RTT_MIN: usize = 148;
    const TOTAL_RETRANS: usize = 100;
    const BUSY: usize = 168;
    const WINDOW: usize = 176;
    const BUFFER: usize = 184;
    let mut bytes = [0_u8; 192];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: `bytes` is writable for `length` bytes, and both live through the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if result != 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    Ok(TcpInfo {
        rtt_us: word(RTT),
        rtt_min_us: Some(word(RTT_MIN)).filter(|us| !matches!(us, 0 | &u32::MAX)),
        path_mtu: word(PATH_MTU),
        retransmits: word(TOTAL_RETRANS),
        busy_us: long(BUSY),
        receive_window_limited_us: long(WINDOW),
        send_buffer_limited_us: long(BUFFER),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn tcp_info_shows_a_round_trip() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(b"x").unwrap();
        far.read_exact(&mut [0]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(60));
        let info = tcp_info(&near).unwrap();
        assert!(info.rtt_us > 0 && info.rtt_us < 1_000_000, "{info:?}");
        assert_eq!(info.retransmits, 0);
    }
}
