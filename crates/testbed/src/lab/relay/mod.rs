//! The relay: a process of ours between the two hosts of a lab, which holds every packet for
//! the link's delay.
//!
//! ```text
//!  server's host            namespace of the relay             client's host
//!  link0 tbf ══ veth ══ link1 ─► delay line ─► link0 ══ veth ══ link0
//!            ══ veth ══ link1 ◄─ delay line ◄─ link0 ══ veth ══ tbf link0
//! ```
//!
//! Packets cross it whole, as offload has put them together and with checksums that are not
//! computed yet, as they cross a veth pair. What it does costs a processor's time, so it tells
//! what it did: how late packets were, how many were lost, and how busy it was.
//!
//! It runs before all others on its processors, the CPU stealer included. Invariants: a packet is
//! never early; what a direction holds is bounded; it ends with this process, with the pipe to
//! it, or by the keeper.

mod lateness;
mod line;
mod worker;

use std::io::Write;
use std::path::Path;
use std::process::ChildStdin;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wallfinder_model::telemetry::RelaySummary;

use super::LinkSpec;
use crate::child::{Helper, Shim};
use crate::error::TestbedError;
use crate::undo::LINK;

pub(crate) use worker::relay;

/// The relay's interface towards the server. It goes with the server's end.
pub(super) const SERVER_SIDE: &str = "link1";
/// Towards the client. It goes with the relay's namespace, as the client's may stay.
pub(super) const CLIENT_SIDE: &str = LINK;
/// How long it may take to start or to answer, on a machine that is busy.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(5);
/// What a direction holds at the least, beyond what is on its way at the full rate.
const QUEUE_BYTES_SPARE: u64 = 16 << 20;
const QUEUE_BYTES_MAX: u64 = 512 << 20;

/// What the relay is told, one line each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Order {
    Read,
    RunOn { cpus: Vec<u32> },
}

/// What it says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Said {
    Ready,
    Failed(String),
    Relayed(RelaySummary),
}

/// A relay that runs. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Relay {
    watch: RelayWatch,
    _helper: Helper,
}

/// Asks a relay what it did; whoever keeps one does not keep the relay alive.
#[derive(Debug, Clone)]
pub struct RelayWatch {
    pid: u32,
    pipes: Arc<Mutex<Pipes>>,
}

#[derive(Debug)]
struct Pipes {
    orders: ChildStdin,
    answers: Receiver<Said>,
}

impl Relay {
    /// Starts it in a network namespace where its two interfaces are up.
    pub(super) fn start(spec: LinkSpec, netns: &Path, shim: &Shim) -> Result<Relay, TestbedError> {
        let failed = |why: String| TestbedError::failed("start the relay of the link", why);
        let delay_ns = spec.delay_ns.to_string();
        let netns = netns.display().to_string();
        let rooms = [spec.down_bits, spec.up_bits].map(|bits| queue_bytes(bits, spec.delay_ns));
        let rooms = format!("{},{}", rooms[0], rooms[1]);
        let args = [
            "--relay",
            "--netns",
            &netns,
            "--delay-ns",
            &delay_ns,
            "--room",
            &rooms,
        ];
        let started = Helper::start(shim, &args).map_err(|e| failed(e.to_string()))?;
        let (helper, orders, stdout) = started;
        let answers =
            Helper::answers(stdout, "relay-answers").map_err(|e| failed(e.to_string()))?;
        match answers.recv_timeout(ANSWER_WAIT_MAX) {
            Ok(Said::Ready) => {}
            Ok(Said::Failed(why)) => return Err(failed(why)),
            _ => return Err(failed("it did not start".into())),
        }
        Ok(Relay {
            watch: RelayWatch {
                pid: helper.pid(),
                pipes: Arc::new(Mutex::new(Pipes { orders, answers })),
            },
            _helper: helper,
        })
    }

    /// Keeps it on these processors.
    pub(super) fn run_on(&self, cpus: &[u32]) -> Result<(), TestbedError> {
        let cpus = cpus.to_vec();
        self.watch.pipes().order(&Order::RunOn { cpus })
    }

    pub(super) fn watch(&self) -> RelayWatch {
        self.watch.clone()
    }
}

impl RelayWatch {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What it did since it was asked last.
    pub fn read(&self) -> Result<RelaySummary, TestbedError> {
        let mut pipes = self.pipes();
        while pipes.answers.try_recv().is_ok() {}
        pipes.order(&Order::Read)?;
        match pipes.answers.recv_timeout(ANSWER_WAIT_MAX) {
            Ok(Said::Relayed(summary)) => Ok(summary),
            Ok(Said::Failed(why)) => Err(TestbedError::failed("ask the link's relay", why)),
            Ok(Said::Ready) | Err(_) => Err(gone()),
        }
    }

    fn pipes(&self) -> std::sync::MutexGuard<'_, Pipes> {
        self.pipes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pipes {
    fn order(&mut self, order: &Order) -> Result<(), TestbedError> {
        let mut line = serde_json::to_vec(order).map_err(|_| gone())?;
        line.push(b'\n');
        self.orders.write_all(&line).map_err(|_| gone())
    }
}

fn gone() -> TestbedError {
    TestbedError::failed("ask the link's relay", "it does not answer")
}

/// What is on its way at the full rate, twice, and some.
fn queue_bytes(bits: u64, delay_ns: u64) -> u64 {
    let on_its_way = u128::from(bits) * u128::from(delay_ns) / 8_000_000_000;
    let wanted = 2 * u64::try_from(on_its_way).unwrap_or(u64::MAX / 4);
    wanted
        .saturating_add(QUEUE_BYTES_SPARE)
        .min(QUEUE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_for_the_link_twice_and_has_an_end() {
        assert_eq!(
            queue_bytes(1_000_000_000, 10_000_000),
            2_500_000 + (16 << 20)
        );
        assert_eq!(queue_bytes(400_000_000_000, 5_000_000_000), 512 << 20);
        let order = serde_json::to_string(&Order::RunOn { cpus: vec![1] }).expect("JSON");
        assert_eq!(order, r#"{"run-on":{"cpus":[1]}}"#);
    }
}
