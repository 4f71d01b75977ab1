//! A server that knows no protocol: for each so many bytes read it writes the same answer.
//!
//! What it is for: against it the lanes are as fast as they can be, so what they reach is
//! their own ceiling and not a server's. What it is not: it understands no request, so
//! it serves only a client that sends requests of one length.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use wallfinder_sys::process;

/// Answers written by one call at the most, in bytes.
const BLOCK_BYTES: usize = 64 * 1024;
const LISTENER: u64 = u64::MAX;

/// The server, until it is dropped.
#[derive(Debug)]
pub struct NullServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NullServer {
    /// Starts it on a free port of loopback, in one thread, pinned if a processor is given.
    pub fn start(request_bytes: usize, answer: &[u8], cpu: Option<u32>) -> io::Result<NullServer> {
        assert!(request_bytes > 0 && !answer.is_empty());
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        // The standard library listens with a backlog of 128; a load opens far more at once.
        rustix::net::listen(&listener, 4096)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut serving = Serving::new(listener, request_bytes, answer)?;
        let stopping = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("null-server".into())
            .spawn(move || {
                if let Some(cpu) = cpu {
                    let _ = process::pin_to(&[cpu]);
                }
                let mut ready = Vec::with_capacity(512);
                while !stopping.load(Ordering::Relaxed) {
                    if serving.turn(&mut ready).is_err() {
                        return;
                    }
                }
            })?;
        Ok(NullServer {
            address,
            stop,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Debug)]
struct Peer {
    fd: OwnedFd,
    /// Bytes of a request that is not whole yet.
    pending_bytes: usize,
    /// Answers owed, in bytes still to be written.
    owed_bytes: usize,
    waits_to_write: bool,
}

struct Serving {
    poll: OwnedFd,
    listener: TcpListener,
    peers: Vec<Option<Peer>>,
    read: Box<[u8]>,
    /// The answer, repeated.
    block: Box<[u8]>,
    answer_bytes: usize,
    request_bytes: usize,
}

impl Serving {
    fn new(listener: TcpListener, request_bytes: usize, answer: &[u8]) -> io::Result<Serving> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&poll, &listener, data, epoll::EventFlags::IN)?;
        let repeats = (BLOCK_BYTES / answer.len()).max(1);
        Ok(Serving {
            poll,
            listener,
            peers: Vec::new(),
            read: vec![0; 256 * 1024].into_boxed_slice(),
            block: answer.repeat(repeats).into_boxed_slice(),
            answer_bytes: answer.len(),
            request_bytes,
        })
    }

    fn turn(&mut self, ready: &mut Vec<epoll::Event>) -> Result<(), Errno> {
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: 50_000_000,
        };
        ready.clear();
        match epoll::wait(&self.poll, spare_capacity(ready), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        for event in ready.iter() {
            if event.data.u64() == LISTENER {
                self.accept();
                continue;
            }
            let index = event.data.u64() as usize;
            let flags = event.flags;
            if self.serve(index, flags).is_err() {
                self.peers[index] = None;
            }
        }
        Ok(())
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let fd = OwnedFd::from(stream);
            let _ = sockopt::set_tcp_nodelay(&fd, true);
            let free = self.peers.iter().rposition(Option::is_none);
            let index = free.unwrap_or_else(|| {
                self.peers.push(None);
                self.peers.len() - 1
            });
            let data = epoll::EventData::new_u64(index as u64);
            if epoll::add(&self.poll, &fd, data, epoll::EventFlags::IN).is_ok() {
                self.peers[index] = Some(Peer {
                    fd,
                    pending_bytes: 0,
                    owed_bytes: 0,
                    waits_to_write: false,
                });
            }
        }
    }

    /// An error, or an end, closes the connection.
    fn serve(&mut self, index: usize, flags: epoll::EventFlags) -> Result<(), Errno> {
        let Some(peer) = self.peers.get_mut(index).and_then(Option::as_mut) else {
            return Ok(());
        };
        if flags.contains(epoll::EventFlags::IN) {
            match recv(&peer.fd, &mut self.read[..], RecvFlags::empty()) {
                Ok((0, _)) => return Err(Errno::PIPE),
                Ok((count, _)) => {
                    let bytes = peer.pending_bytes + count;
                    peer.pending_bytes = bytes % self.request_bytes;
                    peer.owed_bytes += bytes / self.request_bytes * self.answer_bytes;
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        } else if flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP) {
            return Err(Errno::PIPE);
        }
        while peer.owed_bytes > 0 {
            // Where in an answer the last write ended tells where the next one begins.
            let over = peer.owed_bytes % self.answer_bytes;
            let start = (self.answer_bytes - over) % self.answer_bytes;
            let len = peer.owed_bytes.min(self.block.len() - start);
            match send(
                &peer.fd,
                &self.block[start..start + len],
                SendFlags::NOSIGNAL,
            ) {
                Ok(count) => peer.owed_bytes -= count,
                Err(Errno::AGAIN) => {
                    if !peer.waits_to_write {
                        peer.waits_to_write = true;
                        let data = epoll::EventData::new_u64(index as u64);
                        // Reads wait too: a peer that does not read gets no more answers.
                        epoll::modify(&self.poll, &peer.fd, data, epoll::EventFlags::OUT)?;
                    }
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        if peer.waits_to_write {
            peer.waits_to_write = false;
            let data = epoll::EventData::new_u64(index as u64);
            epoll::modify(&self.poll, &peer.fd, data, epoll::EventFlags::IN)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    fn every_request_gets_one_answer_whatever_the_pieces() {
        let server = NullServer::start(10, b"answer!", None).unwrap();
        let mut near = TcpStream::connect(server.address()).unwrap();
        near.write_all(&[b'x'; 7]).unwrap();
        near.write_all(&[b'x'; 13]).unwrap();
        let mut got = [0; 14];
        near.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"answer!answer!");
    }
}
