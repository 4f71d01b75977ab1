//! Completions: one io_uring for each worker.
//!
//! * Receives are multishot into a ring of buffers that the kernel picks from, so a
//!   connection is armed once and each answer costs one completion and no call.
//! * Sends, connects and re-armed receives are queued and handed over together by the
//!   call that waits.
//! * Task work is deferred to that call (`DEFER_TASKRUN`), so nothing interrupts the worker.
//! * Sockets are registered, so the kernel takes no reference for each operation.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};

use super::own::OwnBuffers;
use super::{Event, Io, IoConfig, SendState, Span, Wait};
use crate::net::{Blocking, TcpInfo, tcp_info, tcp_socket};

/// Entries of the submission queue: what is queued beyond it is handed over early.
const SUBMISSIONS: u32 = 1024;
/// Bytes of one receive buffer.
const BUFFER_BYTES: usize = 16 * 1024;
const BUFFER_GROUP: u16 = 0;

/// What a completion is of: the high bits of its tag.
mod kind {
    pub(super) const CONNECT: u64 = 0;
    pub(super) const RECEIVE: u64 = 1;
    pub(super) const SEND: u64 = 2;
    pub(super) const SEND_OWN: u64 = 3;
}

fn tag(kind: u64, generation: u32, conn: u32) -> u64 {
    kind << 60 | u64::from(generation & 0x0fff_ffff) << 32 | u64::from(conn)
}

#[derive(Debug)]
struct Socket {
    fd: Option<OwnedFd>,
    generation: u32,
    /// Of its own bytes, how many are to be sent, and how many were.
    own_len: usize,
    own_sent: usize,
}

/// Memory shared with the kernel: the ring of buffer descriptors, and the buffers.
#[derive(Debug)]
struct Buffers {
    ring: NonNull<types::BufRingEntry>,
    ring_layout: Layout,
    bytes: NonNull<u8>,
    bytes_layout: Layout,
    count: u16,
    tail: u16,
}

impl Buffers {
    fn new(count: u16) -> Buffers {
        assert!(count.is_power_of_two());
        let entry = size_of::<types::BufRingEntry>();
        let ring_layout = Layout::from_size_align(usize::from(count) * entry, 4096)
            .expect("a small power of two");
        let bytes_layout = Layout::from_size_align(usize::from(count) * BUFFER_BYTES, 4096)
            .expect("a small power of two");
        // SAFETY: both layouts have a size above zero.
        let (ring, bytes) = unsafe { (alloc_zeroed(ring_layout), alloc_zeroed(bytes_layout)) };
        let (Some(ring), Some(bytes)) = (NonNull::new(ring), NonNull::new(bytes)) else {
            handle_alloc_error(bytes_layout);
        };
        let mut buffers = Buffers {
            ring: ring.cast(),
            ring_layout,
            bytes,
            bytes_layout,
            count,
            tail: 0,
        };
        for id in 0..count {
            buffers.give(id);
        }
        buffers.publish();
        buffers
    }

    fn start(id: u16) -> usize {
        usize::from(id) * BUFFER_BYTES
    }

    /// Puts a buffer back in line; the kernel sees it after [`Buffers::publish`].
    fn give(&mut self, id: u16) {
        assert!(id < self.count);
        let index = usize::from(self.tail & (self.count - 1));
        // SAFETY: `index` is inside the ring, the buffer is inside `bytes`, and the kernel
        // does not read the entry before the tail has passed it.
        unsafe {
            let entry = &mut *self.ring.as_ptr().add(index);
            entry.set_addr(self.bytes.as_ptr().add(Buffers::start(id)) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        // SAFETY: the tail stands in the first entry of the ring, which is ours and
        // aligned; the kernel reads it with acquire ordering.
        unsafe {
            let tail = types::BufRingEntry::tail(self.ring.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    fn read(&self, span: Span) -> &[u8] {
        assert!(span.start + span.len <= self.bytes_layout.size());
        // SAFETY: inside the allocation, initialised since it was zeroed, and not written
        // by the kernel before the buffer is given back, which needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().add(span.start), span.len) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: allocated with these layouts; `Uring` drops it when the kernel is done.
        unsafe {
            dealloc(self.ring.as_ptr().cast(), self.ring_layout);
            dealloc(self.bytes.as_ptr(), self.bytes_layout);
        }
    }
}

/// The peer's address in the kernel's shape, at a fixed place while connects refer to it.
struct PeerAddress {
    storage: Box<libc::sockaddr_storage>,
    len: libc::socklen_t,
}

impl PeerAddress {
    fn new(address: &SocketAddr) -> PeerAddress {
        // SAFETY: all-zero bytes are a valid `sockaddr_storage`.
        let mut storage: Box<libc::sockaddr_storage> = Box::new(unsafe { std::mem::zeroed() });
        let at = std::ptr::from_mut(&mut *storage);
        let len = match address {
            SocketAddr::V4(v4) => {
                // SAFETY: the storage is large enough and aligned for every family.
                let place = unsafe { &mut *at.cast::<libc::sockaddr_in>() };
                place.sin_family = libc::AF_INET as libc::sa_family_t;
                place.sin_port = v4.port().to_be();
                place.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                // SAFETY: as above.
                let place = unsafe { &mut *at.cast::<libc::sockaddr_in6>() };
                place.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                place.sin6_port = v6.port().to_be();
                place.sin6_addr.s6_addr = v6.ip().octets();
                place.sin6_scope_id = v6.scope_id();
                size_of::<libc::sockaddr_in6>()
            }
        };
        PeerAddress {
            storage,
            len: len as libc::socklen_t,
        }
    }
}

/// Sockets driven by io_uring. Dropping it waits until the kernel is done with the memory
/// that it was lent.
pub struct Uring {
    ring: IoUring,
    sockets: Vec<Socket>,
    /// Freed by hand: never while an operation may still write into it.
    buffers: ManuallyDrop<Buffers>,
    /// What connections send of their own; freed as `buffers` are.
    own: ManuallyDrop<OwnBuffers>,
    /// Operations handed over that have not completed (quiet sends not counted: they read
    /// the payload or what is their connection's own, and only until their socket is shut down).
    outstanding: usize,
    peer: PeerAddress,
    payload: Arc<[u8]>,
    address: SocketAddr,
    quiet_sends: bool,
    /// The buffer of the last event, to be given back.
    lent: Option<u16>,
    given_back: bool,
    /// Whether the kernel can wait for several, and after a while for one (Linux 6.12).
    has_min_wait: bool,
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring")
            .field("sockets", &self.sockets.len())
            .finish_non_exhaustive()
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        for conn in 0..self.sockets.len() as u32 {
            self.close(conn);
        }
        let wait = Wait {
            timeout_ns: Some(10_000_000),
            batch: 1,
            batch_wait_us: 0,
        };
        for _ in 0..100 {
            if self.outstanding == 0 || self.wait(wait).is_err() {
                break;
            }
            while self.next_event().is_some() {}
        }
        if self.outstanding == 0 {
            // SAFETY: no operation is left that knows the buffers, and nothing uses them
            // after this. Otherwise they are leaked: the kernel may still write there.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
            // SAFETY: as above.
            unsafe { ManuallyDrop::drop(&mut self.own) };
        }
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl Uring {
    fn push(&mut self, entry: &squeue::Entry) -> Result<(), Errno> {
        loop {
            // SAFETY: what entries refer to (payload, peer address, buffers, own bytes) is owned by
            // `self`, never moves, and outlives the ring.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                self.outstanding += 1;
                return Ok(());
            }
            match self.ring.submit() {
                Ok(_) => {}
                Err(error) if errno(&error) == Errno::INTR => {}
                Err(error) => return Err(errno(&error)),
            }
        }
    }

    /// Hands over what is left of a connection's own bytes.
    fn push_own(&mut self, conn: u32) -> Result<SendState, Errno> {
        let socket = &self.sockets[conn as usize];
        let own = self.own.bytes(conn, socket.own_sent..socket.own_len);
        let (start, len) = (own.as_ptr(), own.len());
        self.push_send(conn, kind::SEND_OWN, start, len)
    }

    /// Hands over bytes that stay where they are until they are sent.
    #[inline]
    fn push_send(
        &mut self,
        conn: u32,
        kind: u64,
        start: *const u8,
        len: usize,
    ) -> Result<SendState, Errno> {
        let generation = self.sockets[conn as usize].generation;
        let mut entry = opcode::Send::new(Fixed(conn), start, len as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .user_data(tag(kind, generation, conn));
        if self.quiet_sends {
            entry = entry.flags(squeue::Flags::SKIP_SUCCESS);
        }
        self.push(&entry)?;
        if self.quiet_sends {
            self.outstanding -= 1;
            return Ok(SendState::Now(len));
        }
        Ok(SendState::Later)
    }

    /// Some of a connection's own bytes were sent; the rest follows.
    fn sent_own(&mut self, conn: u32, count: usize) -> Option<Event> {
        let socket = &mut self.sockets[conn as usize];
        socket.own_sent += count;
        if socket.own_sent == socket.own_len {
            let count = socket.own_len;
            self.own.give_back(conn);
            return Some(Event::Sent { conn, count });
        }
        match self.push_own(conn) {
            Ok(_) => None,
            Err(errno) => Some(Event::Broken {
                conn,
                errno,
                sending: true,
            }),
        }
    }

    /// Hands over what is queued and waits for `want` completions, or for a time; one is enough after
    /// `batch_wait_us`.
    fn enter(
        &self,
        want: u32,
        timeout_ns: Option<u64>,
        batch_wait_us: Option<u32>,
    ) -> Result<(), Errno> {
        let timeout;
        let mut args = SubmitArgs::new();
        if let Some(ns) = timeout_ns {
            timeout = Timespec::new()
                .sec(ns / 1_000_000_000)
                .nsec((ns % 1_000_000_000) as u32);
            args = args.timespec(&timeout);
        }
        if let Some(us) = batch_wait_us {
            args = args.min_wait_usec(us);
        }
        match self.ring.submitter().submit_with_args(want as usize, &args) {
            Ok(_) => Ok(()),
            Err(error) => match errno(&error) {
                Errno::TIME | Errno::INTR | Errno::AGAIN | Errno::BUSY => Ok(()),
                errno => Err(errno),
            },
        }
    }

    fn arm_receive(&mut self, conn: u32) -> Result<(), Errno> {
        let generation = self.sockets[conn as usize].generation;
        let entry = opcode::RecvMulti::new(Fixed(conn), BUFFER_GROUP)
            .build()
            .user_data(tag(kind::RECEIVE, generation, conn));
        self.push(&entry)
    }

    fn connected(&mut self, conn: u32, result: i32) -> Event {
        let failed = if result < 0 {
            Some(Errno::from_raw_os_error(-result))
        } else {
            self.arm_receive(conn).err()
        };
        match failed {
            Some(errno) => Event::ConnectFailed { conn, errno },
            None => Event::Connected { conn },
        }
    }

    fn received(&mut self, conn: u32, result: i32, flags: u32) -> Option<Event> {
        if result == 0 {
            return Some(Event::Eof { conn });
        }
        if !cqueue::more(flags) {
            let out_of_buffers = result == -(Errno::NOBUFS.raw_os_error());
            if (result > 0 || out_of_buffers)
                && let Err(errno) = self.arm_receive(conn)
            {
                return Some(Event::Broken {
                    conn,
                    errno,
                    sending: false,
                });
            }
            if out_of_buffers {
                return None;
            }
        }
        if result < 0 {
            return Some(Event::Broken {
                conn,
                errno: Errno::from_raw_os_error(-result),
                sending: false,
            });
        }
        let id = cqueue::buffer_select(flags)?;
        Some(Event::Received {
            conn,
            span: Span {
                start: Buffers::start(id),
                len: result as usize,
            },
        })
    }
}

impl Io for Uring {
    const NAME: &'static str = "io_uring";
    const BATCHES: bool = true;

    fn open(config: &IoConfig) -> Result<Uring, Errno> {
        let completions = (config.connections * 2)
            .next_power_of_two()
            .clamp(4096, 65_536);
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(completions)
            .build(SUBMISSIONS)
            .map_err(|error| errno(&error))?;
        let own = OwnBuffers::new(config.connections, config.own_bytes);
        let count = config.connections.next_power_of_two().clamp(64, 1024) as u16;
        let buffers = Buffers::new(count);
        let sockets = (0..config.connections)
            .map(|_| Socket {
                fd: None,
                generation: 0,
                own_len: 0,
                own_sent: 0,
            })
            .collect();
        let mut submitter = ring.submitter();
        submitter
            .register_files_sparse(config.connections)
            .map_err(|error| errno(&error))?;
        // SAFETY: the ring of descriptors is page-aligned, has `count` entries, and lives
        // until the io_uring is gone.
        unsafe {
            submitter.register_buf_ring_with_flags(
                buffers.ring.as_ptr() as u64,
                count,
                BUFFER_GROUP,
                0,
            )
        }
        .map_err(|error| errno(&error))?;
        // Not vital: without it each call looks the descriptor up.
        let _ = submitter.register_ring_fd();
        Ok(Uring {
            has_min_wait: ring.params().is_feature_min_timeout(),
            ring,
            sockets,
            buffers: ManuallyDrop::new(buffers),
            own: ManuallyDrop::new(own),
            outstanding: 0,
            peer: PeerAddress::new(&config.address),
            payload: Arc::clone(&config.payload),
            address: config.address,
            quiet_sends: config.quiet_sends,
            lent: None,
            given_back: false,
        })
    }

    fn connect(&mut self, conn: u32) -> Result<(), Errno> {
        let fd = tcp_socket(&self.address, Blocking::Yes)?;
        self.ring
            .submitter()
            .register_files_update(conn, &[fd.as_raw_fd()])
            .map_err(|error| errno(&error))?;
        let socket = &mut self.sockets[conn as usize];
        assert!(socket.fd.is_none(), "connection {conn} is open already");
        socket.generation = socket.generation.wrapping_add(1);
        socket.fd = Some(fd);
        let generation = socket.generation;
        let storage = std::ptr::from_ref(&*self.peer.storage).cast();
        let entry = opcode::Connect::new(Fixed(conn), storage, self.peer.len)
            .build()
            .user_data(tag(kind::CONNECT, generation, conn));
        self.push(&entry)
    }

    fn send(&mut self, conn: u32, start: usize, len: usize) -> Result<SendState, Errno> {
        let start = self.payload[start..start + len].as_ptr();
        self.push_send(conn, kind::SEND, start, len)
    }

    fn own(&mut self, conn: u32) -> &mut [u8] {
        self.own.take(conn)
    }

    fn send_own(&mut self, conn: u32, len: usize) -> Result<SendState, Errno> {
        let socket = &mut self.sockets[conn as usize];
        (socket.own_len, socket.own_sent) = (len, 0);
        self.push_own(conn)
    }

    fn send_last(&mut self, conn: u32, len: usize) -> usize {
        let bytes = self.own.bytes(conn, 0..len);
        let fd = self.sockets[conn as usize].fd.as_ref();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = fd.and_then(|fd| send(fd, bytes, flags).ok());
        self.own.give_back(conn);
        sent.unwrap_or(0)
    }

    /// The connection keeps its buffer, for the kernel may still read it.
    fn close(&mut self, conn: u32) {
        let socket = &mut self.sockets[conn as usize];
        socket.generation = socket.generation.wrapping_add(1);
        if let Some(fd) = socket.fd.take() {
            // Ends the receive that is armed: the kernel holds the socket until then.
            let _ = shutdown(&fd, Shutdown::Both);
            let _ = self.ring.submitter().register_files_update(conn, &[-1]);
        }
    }

    fn wait(&mut self, wait: Wait) -> Result<(), Errno> {
        if self.given_back {
            self.buffers.publish();
            self.given_back = false;
        }
        let want = match wait.timeout_ns {
            Some(0) => 0,
            _ => wait.batch.max(1),
        };
        if want <= 1 {
            return self.enter(want, wait.timeout_ns, None);
        }
        let batch_wait_ns = u64::from(wait.batch_wait_us) * 1_000;
        let batch_wait_ns = wait
            .timeout_ns
            .map_or(batch_wait_ns, |ns| ns.min(batch_wait_ns));
        if self.has_min_wait {
            // While it waits for a batch the kernel looks at no other limit; and 0 would be no limit at all.
            let batch_wait_us = (batch_wait_ns / 1_000).max(1) as u32;
            return self.enter(want, wait.timeout_ns, Some(batch_wait_us));
        }
        // Before 6.12 a call waits for all of them or for any: for all, then, and for any if none came.
        self.enter(want, Some(batch_wait_ns), None)?;
        let rest_ns = wait.timeout_ns.map(|ns| ns - batch_wait_ns);
        if rest_ns == Some(0) || !self.ring.completion().is_empty() {
            return Ok(());
        }
        self.enter(1, rest_ns, None)
    }

    fn next_event(&mut self) -> Option<Event> {
        if let Some(id) = self.lent.take() {
            self.buffers.give(id);
            self.given_back = true;
        }
        loop {
            let completion = self.ring.completion().next()?;
            let (data, result, flags) = (
                completion.user_data(),
                completion.result(),
                completion.flags(),
            );
            let conn = data as u32;
            let generation = (data >> 32) as u32 & 0x0fff_ffff;
            let is_send = matches!(data >> 60, kind::SEND | kind::SEND_OWN);
            let uncounted = self.quiet_sends && is_send;
            if !cqueue::more(flags) && !uncounted {
                self.outstanding -= 1;
            }
            let buffer = cqueue::buffer_select(flags);
            if self.sockets[conn as usize].generation & 0x0fff_ffff != generation {
                if let Some(id) = buffer {
                    self.buffers.give(id);
                    self.given_back = true;
                }
                continue;
            }
            self.lent = buffer;
            let event = match data >> 60 {
                kind::CONNECT => Some(self.connected(conn, result)),
                kind::RECEIVE => self.received(conn, result, flags),
                _ if result < 0 => Some(Event::Broken {
                    conn,
                    errno: Errno::from_raw_os_error(-result),
                    sending: true,
                }),
                _ if self.quiet_sends => None,
                kind::SEND_OWN => self.sent_own(conn, result as usize),
                _ => Some(Event::Sent {
                    conn,
                    count: result as usize,
                }),
            };
            if event.is_some() {
                return event;
            }
        }
    }

    fn bytes(&self, span: Span) -> &[u8] {
        self.buffers.read(span)
    }

    fn tcp_info(&self, conn: u32) -> Option<TcpInfo> {
        let fd = self.sockets[conn as usize].fd.as_ref()?;
        tcp_info(fd.as_fd()).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{SocketAddr, TcpListener};
    use std::time::{Duration, Instant};

    use super::*;

    /// One connection, to be made to this address; nothing, said why, where there is no io_uring.
    fn one_connection(address: SocketAddr) -> Option<Uring> {
        let config = IoConfig {
            connections: 1,
            address,
            payload: Arc::from(&b"hello"[..]),
            own_bytes: 0,
            quiet_sends: true,
        };
        match Uring::open(&config) {
            Ok(io) => Some(io),
            Err(errno) => {
                wallfinder_skip::skip(format_args!("io_uring cannot be set up: {errno}"));
                None
            }
        }
    }

    /// A worker that has something to do soon waits for no batch for longer.
    #[test]
    fn a_wait_ends_in_time_however_long_a_batch_may_take() {
        let Some(mut io) = one_connection(([127, 0, 0, 1], 9).into()) else {
            return;
        };
        for has_min_wait in [io.has_min_wait, false] {
            io.has_min_wait = has_min_wait;
            for timeout_ns in [0, 300, 5_000_000] {
                let began = Instant::now();
                let wait = Wait {
                    timeout_ns: Some(timeout_ns),
                    batch: 8,
                    batch_wait_us: 20_000_000,
                };
                io.wait(wait).unwrap();
                let took = began.elapsed();
                assert!(took < Duration::from_secs(10), "{timeout_ns} ns: {took:?}");
                assert!(took >= Duration::from_nanos(timeout_ns));
            }
        }
    }

    /// On any kernel a worker may ask for several events, and gets what there is after a while; this one
    /// does as kernels before 6.12 must.
    #[test]
    fn a_batch_is_handed_over_by_kernels_that_cannot_wait_for_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let Some(mut io) = one_connection(listener.local_addr().unwrap()) else {
            return;
        };
        io.has_min_wait = false;
        let wait = |timeout_ns| Wait {
            timeout_ns,
            batch: 8,
            batch_wait_us: 2_000,
        };
        io.connect(0).unwrap();
        io.wait(wait(None)).unwrap();
        assert_eq!(io.next_event(), Some(Event::Connected { conn: 0 }));
        let (mut far, _) = listener.accept().unwrap();
        // Nothing comes, in less time than a batch may take and in more.
        for timeout_ns in [0, 1_000_000, 4_000_000] {
            io.wait(wait(Some(timeout_ns))).unwrap();
            assert_eq!(io.next_event(), None);
        }
        // One is enough, whether it comes while others are waited for or later.
        for later in [0, 20] {
            let mut peer = far.try_clone().unwrap();
            let writing = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(later));
                peer.write_all(b"x").unwrap();
            });
            io.wait(wait(None)).unwrap();
            let heard = matches!(io.next_event(), Some(Event::Received { conn: 0, .. }));
            assert!(heard, "{later} ms");
            assert_eq!(io.next_event(), None);
            writing.join().unwrap();
        }
        far.write_all(b"y").unwrap();
    }
}
