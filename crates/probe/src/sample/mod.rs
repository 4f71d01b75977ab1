//! The sampler: a thread that reads cumulative counters at each tick, and on demand.
//!
//! ```text
//!  thread wf-probe ──tick──► Eye.look() ─► Reading ─► Store ─► stop() ─► Series ─► summarise(), gaps()
//!  engine ──mark("start")──────┘ (same eye, at once)    └──► latest() for the live view
//! ```
//!
//! Invariants: readings are in the order of their times; a late tick is skipped, never made up for;
//! whoever asks for a live view reads what was stored, and changes nothing of what is measured.
//!
//! Cost: each tick reads `/proc/stat`, three files of the network namespace, and per process `stat`
//! and per thread `schedstat`; every 500 ms and at marks also `status` of each thread, groups,
//! children and the link's configuration. The CPU time of all this is in
//! [`wallfinder_model::telemetry::Telemetry::observer_cpu_ns`].

mod difference;
mod family;
mod host;
mod member;
mod network;
mod outline;
mod reading;
mod store;
mod window;

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thiserror::Error;
use wallfinder_model::telemetry::{Sample, Telemetry};
use wallfinder_sys::{clock, process};

use crate::discover::Family;
use crate::procfile::Buffer;
use crate::sockets;
use family::{Depth, FamilyReader};
use host::HostReader;
use network::{NetworkReader, Place};
use reading::{Detail, Reading};
pub use store::Series;
use store::Store;

const DETAIL_EVERY_NS: u64 = 500_000_000;
const TICK_MIN: Duration = Duration::from_millis(10);
const TICK_MAX: Duration = Duration::from_secs(1);

/// What to observe.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// `CLOCK_MONOTONIC` at the schedule's zero, in nanoseconds: all times are counted from there, or from
    /// a later zero ([`Sampler::count_from`]).
    pub zero_ns: u64,
    /// Time between ticks; 50 to 100 ms is right for steps of seconds. Held between 10 ms and 1 s.
    pub tick: Duration,
    /// The driver's processes.
    pub client: Option<Family>,
    /// The server's processes.
    pub server: Option<Family>,
    /// The interface between them. Where the server has a network namespace of its own, either
    /// end's name will do: the end in the server's namespace is looked at if it can be told.
    /// Without a server in sight it is the driver's own interface, and what that receives is the
    /// downlink.
    pub interface: Option<String>,
    /// A process in the server's network namespace; by default the server's first, else this
    /// process.
    pub netns_of_pid: Option<u32>,
    /// The server's port: with it, marks also read the sockets of both sides.
    pub port: Option<u16>,
    /// The processor that the sampler's thread is kept on.
    pub pin: Option<u32>,
    /// Whether a quota may hold this process's threads up together, the sampler's with them.
    pub under_quota: bool,
    /// Whether to look at marks only: no thread, no ticks, and nothing spent between marks.
    pub marks_only: bool,
    /// Processors of server and client whose pace is to be watched, if it is.
    pub paced_cpus: Option<[Vec<u32>; 2]>,
}

/// Why sampling could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// `/proc` does not give what a sampler lives on.
    #[error("the machine's counters cannot be read: {0}")]
    NoProc(#[source] io::Error),
    /// No thread.
    #[error("the sampler's thread could not be started: {0}")]
    NoThread(#[source] io::Error),
}

/// Sampling under way; dropped without [`Sampler::stop`], it ends and forgets.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// Held while looking, so that readings are stored in the order of their times.
    eye: Mutex<Eye>,
    store: Mutex<Store>,
    stopped: Mutex<bool>,
    wake: Condvar,
}

impl Sampler {
    /// Opens everything, takes a first reading and starts the thread.
    pub fn start(setup: Setup) -> Result<Sampler, StartError> {
        let tick = setup.tick.clamp(TICK_MIN, TICK_MAX);
        let pin = setup.pin;
        let own = [std::process::id()];
        let beside_workers = setup
            .client
            .as_ref()
            .is_none_or(|client| client.pids == own);
        let goes_last = beside_workers && !setup.under_quota;
        let eye = Eye::open(&setup).map_err(StartError::NoProc)?;
        let store = Store::new(&setup, tick, eye.interface());
        let shared = Arc::new(Shared {
            eye: Mutex::new(eye),
            store: Mutex::new(store),
            stopped: Mutex::new(false),
            wake: Condvar::new(),
        });
        if setup.marks_only {
            return Ok(Sampler {
                shared,
                thread: None,
            });
        }
        shared.look(Occasion::Tick);
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("wf-probe".to_owned())
            .spawn(move || of_thread.run(tick, pin, goes_last))
            .map_err(StartError::NoThread)?;
        Ok(Sampler {
            shared,
            thread: Some(thread),
        })
    }

    /// Counts all times from here, those of what was read before as well: a load's zero is known
    /// when everything that takes time before it is done. Gives how much later that is than the zero
    /// before, in nanoseconds: times from marks before are earlier by as much.
    pub fn count_from(&self, zero_ns: u64) -> i64 {
        let mut eye = lock(&self.shared.eye);
        let later_ns = zero_ns as i64 - eye.zero_ns as i64;
        eye.zero_ns = zero_ns;
        lock(&self.shared.store).count_from(later_ns);
        later_ns
    }

    /// Takes an exact and complete reading at once, on the calling thread, and returns its time
    /// from the schedule's zero: a window between two marks is summarised exactly. Takes a few
    /// milliseconds at the most; call it between windows, not from a worker. `name` says what for in
    /// traces of the series.
    pub fn mark(&self, name: &str) -> i64 {
        self.shared.look(Occasion::Mark(name))
    }

    /// Looks who listens now where the server was found, and takes in whoever is new: a server that was
    /// started anew is otherwise found when the one before has ended, within a second. Walks over all
    /// processes; call it before the window, not from a worker.
    pub fn find_server_again(&self) {
        lock(&self.shared.eye).find_server_again();
    }

    /// The last tick, for the live view.
    pub fn latest(&self) -> Option<Sample> {
        lock(&self.shared.store).latest()
    }

    /// Summarises a window while sampling goes on; see [`Series::summarise`].
    pub fn summarise(&self, from_ns: i64, to_ns: i64) -> Telemetry {
        lock(&self.shared.store).summarise(from_ns, to_ns)
    }

    /// Takes a last reading and gives everything that was read.
    pub fn stop(mut self) -> Series {
        if self.thread.is_some() {
            self.end();
            self.shared.look(Occasion::Tick);
        }
        lock(&self.shared.store).stop();
        let store = std::mem::take(&mut *lock(&self.shared.store));
        Series::from(store)
    }

    fn end(&mut self) {
        *lock(&self.shared.stopped) = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic on what it reads; if it ever did, what was stored is still
            // good.
            let _ = thread.join();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

/// Readings stay good when a thread that held the lock has panicked: they are stored whole or not
/// at all.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn run(&self, tick: Duration, pin: Option<u32>, goes_last: bool) {
        if let Some(cpu) = pin {
            // Where it may not be pinned it samples all the same.
            let _ = process::pin_to(&[cpu]);
        }
        if goes_last {
            // On a worker's processor a tick of half a millisecond would hold the worker up.
            process::lower_priority();
        } else {
            // The threads of a foreign driver may be many, and would starve it for seconds; so
            // would a worker that uses all of a quota.
            process::go_first();
        }
        let started = Instant::now();
        let mut due = tick;
        while self.sleep_until(started + due) {
            self.look(Occasion::Tick);
            // A tick that was missed is not made up for.
            let missed = started.elapsed().saturating_sub(due).as_nanos() / tick.as_nanos();
            due += tick * u32::try_from(missed + 1).unwrap_or(u32::MAX);
        }
    }

    /// Whether to go on.
    fn sleep_until(&self, due: Instant) -> bool {
        let mut stopped = lock(&self.stopped);
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if *stopped {
                return false;
            }
            if left.is_zero() {
                return true;
            }
            let woken = self.wake.wait_timeout(stopped, left);
            stopped = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn look(&self, occasion: Occasion<'_>) -> i64 {
        let mut eye = lock(&self.eye);
        let reading = eye.look(occasion);
        let at_ns = reading.at_ns;
        let name = match occasion {
            Occasion::Tick => None,
            Occasion::Mark(name) => Some(name),
        };
        lock(&self.store).push(reading, name);
        at_ns
    }
}

/// Why a reading is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occasion<'a> {
    Tick,
    Mark(&'a str),
}

/// Everything that is looked at.
#[derive(Debug)]
struct Eye {
    zero_ns: u64,
    client: Option<FamilyReader>,
    server: Option<FamilyReader>,
    host: HostReader,
    network: Option<NetworkReader>,
    port: Option<u16>,
    /// Where the server listens: another port than the client's where a forwarder stands between.
    server_port: Option<u16>,
    server_pid: Option<u32>,
    client_pid: Option<u32>,
    buffer: Buffer,
    tick_before_ns: Option<u64>,
    detail_before_ns: Option<u64>,
    cpu_ns: u64,
}

impl Eye {
    fn open(setup: &Setup) -> io::Result<Eye> {
        let mut buffer = Buffer::new();
        let pids = |family: &Option<Family>| -> BTreeSet<u32> {
            family
                .iter()
                .flat_map(|family| family.pids.iter().copied())
                .collect()
        };
        let (clients, servers) = (pids(&setup.client), pids(&setup.server));
        let leader = |family: &Option<Family>| family.as_ref().and_then(Family::leader);
        let place = Place {
            interface: setup.interface.clone(),
            server_pid: setup.netns_of_pid.or_else(|| leader(&setup.server)),
            server_address: setup.server.as_ref().and_then(|family| family.address),
            client_pid: leader(&setup.client),
        };
        // A process that both sides name, such as a test that serves itself, is looked at twice.
        let mut reader = |family: &Option<Family>, excluded: BTreeSet<u32>| {
            let family = family.clone()?;
            Some(FamilyReader::new(family, excluded, &mut buffer))
        };
        Ok(Eye {
            zero_ns: setup.zero_ns,
            client: reader(&setup.client, &servers - &clients),
            server: reader(&setup.server, &clients - &servers),
            host: HostReader::open()?,
            server_port: setup.port.map(|port| {
                let address = place.server_address;
                address.map_or(port, |address| address.port())
            }),
            server_pid: place.server_pid,
            client_pid: place.client_pid,
            network: NetworkReader::open(place).ok(),
            port: setup.port,
            buffer,
            tick_before_ns: None,
            detail_before_ns: None,
            cpu_ns: 0,
        })
    }

    fn find_server_again(&mut self) {
        if let Some(server) = &mut self.server {
            server.find_again(&mut self.buffer);
        }
    }

    /// The interface that was settled on.
    fn interface(&self) -> Option<String> {
        self.network.as_ref()?.interface()
    }

    /// One reading. The families come first and right after the clock: they matter most.
    fn look(&mut self, occasion: Occasion<'_>) -> Reading {
        let cpu_before_ns = clock::thread_cpu_ns();
        let now_ns = clock::monotonic_ns();
        let is_tick = occasion == Occasion::Tick;
        let in_detail = !is_tick
            || self
                .detail_before_ns
                .is_none_or(|before| now_ns - before >= DETAIL_EVERY_NS);
        let depth = if in_detail {
            Depth::Detail
        } else {
            Depth::Tick
        };
        let span_ns = is_tick.then(|| self.tick_before_ns.map_or(0, |before| now_ns - before));
        let buffer = &mut self.buffer;
        let server = self
            .server
            .as_mut()
            .map(|family| family.read(depth, span_ns, buffer));
        let client = self
            .client
            .as_mut()
            .map(|family| family.read(depth, span_ns, buffer));
        let (cores, host) = self.host.read(buffer);
        let (suspended_ns, wall_offset_ns) = clock_offsets();
        let network = self.network.as_ref();
        let mut reading = Reading {
            at_ns: now_ns as i64 - self.zero_ns as i64,
            is_tick,
            suspended_ns,
            wall_offset_ns,
            cores,
            switches: host.switches,
            runnable: host.runnable,
            client,
            server,
            link: network.and_then(|network| network.link(buffer)),
            tcp: network.and_then(|network| network.tcp(buffer)),
            ..Reading::default()
        };
        if in_detail {
            reading.client_tcp = network.and_then(|network| network.client_tcp(buffer));
            reading.detail = Some(Box::new(self.detail(is_tick)));
            self.detail_before_ns = Some(now_ns);
        }
        if is_tick {
            self.tick_before_ns = Some(now_ns);
        }
        self.cpu_ns += clock::thread_cpu_ns() - cpu_before_ns;
        reading.observer_cpu_ns = self.cpu_ns;
        reading
    }

    fn detail(&mut self, is_tick: bool) -> Detail {
        let sockets = |side, port: Option<u16>, pid| {
            let port = port.filter(|_| !is_tick)?;
            sockets::read(side, port, pid).ok()
        };
        Detail {
            client: self.client.as_ref().map(FamilyReader::detail),
            server: self.server.as_ref().map(FamilyReader::detail),
            link: self
                .network
                .as_mut()
                .map(NetworkReader::detail)
                .unwrap_or_default(),
            softirq_threads: self.host.softirq_threads(&mut self.buffer),
            server_sockets: sockets(sockets::Side::Server, self.server_port, self.server_pid),
            client_sockets: sockets(sockets::Side::Client, self.port, self.client_pid),
        }
    }
}

/// Boot time and wall clock, each minus monotonic time. Read again when the thread was held up
/// between.
fn clock_offsets() -> (i64, i64) {
    const HELD_UP_NS: u64 = 1_000_000;
    const TRIES: u32 = 5;
    let mut offsets = (0, 0);
    for _ in 0..TRIES {
        let before_ns = clock::monotonic_ns();
        let (boottime_ns, wall_ns) = (clock::boottime_ns(), clock::realtime_ns());
        let after_ns = clock::monotonic_ns();
        offsets = (
            boottime_ns as i64 - before_ns as i64,
            wall_ns as i64 - before_ns as i64,
        );
        if after_ns - before_ns < HELD_UP_NS {
            break;
        }
    }
    offsets
}
