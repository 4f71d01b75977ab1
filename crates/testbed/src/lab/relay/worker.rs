//! Inside the relay's process: one thread, two interfaces, and the pipe that it obeys.
//!
//! ```text
//!  wait ─► take in, both ways ─► let out what is due, both ways ─► wait …
//!   └─ a packet where nothing is held · the first due time · a word on the pipe
//! ```
//!
//! The kernel stamps packets when they come, and their time counts from there. So while
//! anything is held there is no hurry to take in more: the relay looks after half the delay, or
//! 4 ms, instead of waking for each packet.

use std::io::{self, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wallfinder_model::telemetry::RelaySummary;
use wallfinder_sys::clock::{monotonic_ns, process_cpu_ns};
use wallfinder_sys::packet::{BATCH, PacketSocket, Taken};
use wallfinder_sys::{Errno, process};

use super::lateness::Lateness;
use super::line::DelayLine;
use super::{CLIENT_SIDE, Order, SERVER_SIDE, Said};
use crate::cpu_stealer;

/// Above the CPU stealer, which takes processors from whoever is measured, and not from the link.
const PRIORITY: i32 = 2;
/// How long packets may be left to the kernel while others are held.
const GATHER_NS_MAX: u64 = 4_000_000;
/// Packets leave together with those that are due so shortly after them: this share of the
/// delay, and at the most so long.
const QUANTUM_SHARE: u64 = 100;
const QUANTUM_NS_MAX: u64 = 50_000;
/// Batches taken before it is looked what is due.
const BATCHES_MAX: usize = 4;
/// How soon a packet that could not leave is tried again.
const RETRY_NS: u64 = 100_000;

/// From one interface to the other.
#[derive(Debug)]
struct Way {
    from: usize,
    to: usize,
    line: DelayLine,
    /// There may be more where the last packets came from.
    has_more: bool,
}

/// What is counted from one reading to the next.
#[derive(Debug)]
struct Account {
    since_ns: u64,
    since_cpu_ns: u64,
    busy_ns: u64,
    packets: u64,
    bytes: u64,
    dropped: u64,
    lateness: Lateness,
}

#[derive(Debug)]
struct Relay {
    delay_ns: u64,
    sockets: [PacketSocket; 2],
    ways: [Way; 2],
    account: Account,
    /// When packets last left, and when they may again where they could not.
    left_ns: u64,
    retry_ns: u64,
}

/// Relays until standard input ends. The process ends with this.
pub(crate) fn relay(delay: Duration, queue_bytes: [usize; 2]) {
    let mut relay = match Relay::new(delay, queue_bytes) {
        Ok(relay) => relay,
        Err(error) => return say(&Said::Failed(error.to_string())),
    };
    process::exact_timers();
    // Without it packets are late when the processor is busy, and that is told.
    let _ = cpu_stealer::before_all_others(PRIORITY);
    say(&Said::Ready);
    if let Err(error) = relay.run() {
        say(&Said::Failed(error.to_string()));
    }
}

fn say(said: &Said) {
    let text = serde_json::to_string(said).unwrap_or_default();
    let mut out = io::stdout().lock();
    // Without a reader the input ends as well.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

impl Relay {
    fn new(delay: Duration, queue_bytes: [usize; 2]) -> io::Result<Relay> {
        let delay_ns = delay.as_nanos() as u64;
        let way = |from: usize, to: usize| Way {
            from,
            to,
            line: DelayLine::new(delay_ns, queue_bytes[from]),
            has_more: false,
        };
        Ok(Relay {
            delay_ns,
            sockets: [
                PacketSocket::open(SERVER_SIDE)?,
                PacketSocket::open(CLIENT_SIDE)?,
            ],
            ways: [way(0, 1), way(1, 0)],
            account: Account {
                since_ns: monotonic_ns(),
                since_cpu_ns: process_cpu_ns(),
                busy_ns: 0,
                packets: 0,
                bytes: 0,
                dropped: 0,
                lateness: Lateness::new(),
            },
            left_ns: 0,
            retry_ns: 0,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut orders = String::new();
        let mut awake_ns = monotonic_ns();
        loop {
            for way in &mut self.ways {
                take_in(way, &self.sockets, &mut self.account)?;
            }
            self.let_out();
            let now_ns = monotonic_ns();
            let wait_ns = self.wait_ns(now_ns);
            if wait_ns > 0 {
                self.account.busy_ns += now_ns - awake_ns;
            }
            if self.wait(wait_ns)? && !self.obey(&mut orders)? {
                return Ok(());
            }
            if wait_ns > 0 {
                awake_ns = monotonic_ns();
            }
        }
    }

    /// Sends what is due, first come first.
    fn let_out(&mut self) {
        for way in &mut self.ways {
            let now_ns = monotonic_ns();
            if now_ns < self.retry_ns {
                return;
            }
            loop {
                let mut due: [&[u8]; BATCH] = [&[]; BATCH];
                let count = way.line.due(now_ns, &mut due);
                if count == 0 {
                    break;
                }
                let began_ns = monotonic_ns();
                let sent = self.sockets[way.to].send(&due[..count]);
                self.left_ns = monotonic_ns();
                match sent {
                    Ok(sent) => {
                        let each_ns = (self.left_ns - began_ns) / sent.max(1) as u64;
                        for nth in 0..sent as u64 {
                            let Some((due_ns, bytes)) = way.line.leave() else {
                                break;
                            };
                            self.account.packets += 1;
                            self.account.bytes += bytes as u64;
                            // One call sends them one after the other.
                            let left_ns = began_ns + nth * each_ns;
                            self.account.lateness.add(left_ns.saturating_sub(due_ns));
                        }
                    }
                    Err(Errno::AGAIN | Errno::INTR) => {
                        self.retry_ns = self.left_ns + RETRY_NS;
                        break;
                    }
                    Err(_) => {
                        let _ = way.line.leave();
                        self.account.dropped += 1;
                    }
                }
            }
        }
    }

    /// How long there is nothing to do; `u64::MAX`: until a packet comes.
    fn wait_ns(&self, now_ns: u64) -> u64 {
        if self.ways.iter().any(|way| way.has_more) {
            return 0;
        }
        let quantum_ns = (self.delay_ns / QUANTUM_SHARE).min(QUANTUM_NS_MAX);
        let due_ns = self.ways.iter().filter_map(|way| way.line.next_due_ns());
        let Some(due_ns) = due_ns.min() else {
            return u64::MAX;
        };
        let leave_ns = due_ns.max(self.left_ns + quantum_ns).max(self.retry_ns);
        let gather_ns = (self.delay_ns / 2).min(GATHER_NS_MAX);
        leave_ns.saturating_sub(now_ns).min(gather_ns)
    }

    /// Waits. Whether there is a word on the pipe.
    fn wait(&self, wait_ns: u64) -> io::Result<bool> {
        let pipe = io::stdin();
        let mut from = vec_of_three(PollFd::new(&pipe, PollFlags::IN));
        for way in self.ways.iter().filter(|way| way.line.is_empty()) {
            from.push(PollFd::new(&self.sockets[way.from], PollFlags::IN));
        }
        let long = Timespec {
            tv_sec: (wait_ns / 1_000_000_000) as i64,
            tv_nsec: (wait_ns % 1_000_000_000) as i64,
        };
        let long = (wait_ns != u64::MAX).then_some(&long);
        match poll(&mut from, long) {
            Ok(_) => Ok(!from[0].revents().is_empty()),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Reads the pipe; false at its end.
    fn obey(&mut self, orders: &mut String) -> io::Result<bool> {
        let mut bytes = [0; 512];
        let count = rustix::io::read(io::stdin(), &mut bytes)?;
        if count == 0 {
            return Ok(false);
        }
        orders.push_str(&String::from_utf8_lossy(&bytes[..count]));
        while let Some(end) = orders.find('\n') {
            let line: String = orders.drain(..=end).collect();
            match serde_json::from_str(&line) {
                Ok(Order::Read) => say(&Said::Relayed(self.summary())),
                Ok(Order::RunOn { cpus }) => drop(process::pin_to(&cpus)),
                Err(_) => {}
            }
        }
        Ok(true)
    }

    /// What was done since the last reading.
    fn summary(&mut self) -> RelaySummary {
        let (now_ns, cpu_ns) = (monotonic_ns(), process_cpu_ns());
        let missed: u64 = self.sockets.iter().map(PacketSocket::drops).sum();
        let queue_bytes = self
            .ways
            .iter_mut()
            .map(|way| way.line.take_held_bytes_max());
        let account = &mut self.account;
        let summary = RelaySummary {
            cpus: process::allowed_cpus(),
            delay_ns: self.delay_ns,
            span_ns: now_ns - account.since_ns,
            packets: account.packets,
            bytes: account.bytes,
            dropped: account.dropped + missed,
            late_p99_ns: account.lateness.quantile_ns(990),
            late_max_ns: account.lateness.max_ns(),
            busy_ns: account.busy_ns,
            cpu_ns: cpu_ns - account.since_cpu_ns,
            queue_bytes_max: queue_bytes.max().unwrap_or(0) as u64,
        };
        account.lateness.clear();
        (account.since_ns, account.since_cpu_ns) = (now_ns, cpu_ns);
        (account.packets, account.bytes) = (0, 0);
        (account.dropped, account.busy_ns) = (0, 0);
        summary
    }
}

/// Room for the pipe and both sockets.
fn vec_of_three(first: PollFd<'_>) -> Vec<PollFd<'_>> {
    let mut all = Vec::with_capacity(3);
    all.push(first);
    all
}

/// Takes what the kernel has. An interface that is gone ends the relay.
fn take_in(way: &mut Way, sockets: &[PacketSocket; 2], account: &mut Account) -> io::Result<()> {
    let mut taken = [Taken {
        bytes: 0,
        arrived_ns: 0,
    }; BATCH];
    way.has_more = false;
    for nth in 0..BATCHES_MAX {
        let room = way.line.room();
        match sockets[way.from].take(room, &mut taken) {
            Ok(count) => {
                way.line.hold(&taken[..count]);
                if count < BATCH {
                    return Ok(());
                }
                way.has_more = nth + 1 == BATCHES_MAX;
            }
            Err(errno @ (Errno::NETDOWN | Errno::NXIO | Errno::NODEV | Errno::BADF)) => {
                return Err(errno.into());
            }
            // One that the kernel cannot describe is lost.
            Err(_) => account.dropped += 1,
        }
    }
    Ok(())
}
