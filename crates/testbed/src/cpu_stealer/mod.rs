//! The CPU stealer: a helper of ours that takes a share of the time of chosen processors.
//!
//! ```text
//!  this process ── "dose 0.2", "read" ──► wallfinder __child --cpu-stealer --cpus 0,1
//!               ◄─ {"at_ns":…,"stolen_ns":[…]} ──  one SCHED_FIFO thread pinned to each
//!
//!  cpu 0   ██░░░░░░░██░░░░░░██░░░░░░░░██░░░░    every 1.4 to 2.6 ms it wakes and spins until
//!          what it stole is dose × elapsed
//! ```
//!
//! A processor of which a fifth of every few milliseconds is gone is a slower processor to
//! whatever runs there, be it one thread or many. A dose of 0 is the sham: the CPU stealer wakes
//! as often and steals nothing. Threads of one core are robbed at the same instants.
//!
//! What it counts as stolen is time that it spun itself. Interrupts and the network's softirq
//! work that ran meanwhile, and what the hypervisor took, is not in it.
//!
//! Invariants: it never takes more than [`DOSE_MAX`] of a processor, by the clock and not only by
//! its own count, and does not start where the clock is too slow to count by; it ends with this
//! process, with the pipe to it, or by the keeper; a dose ends by itself after 30 s in which this
//! process did not renew it.

mod worker;

use std::io::Write;
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::child::{Helper, Shim};
use crate::error::{NoPrivilege, TestbedError};

pub(crate) use worker::{before_all_others, steal};

/// The largest share that it takes.
pub const DOSE_MAX: f64 = 0.6;
/// How long it may take to start or to answer, on a machine that is busy.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(5);
/// How often a dose is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(5);

/// What was stolen since the CPU stealer started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stolen {
    /// When this was read, on the monotonic clock.
    pub at_ns: u64,
    /// Time stolen of each processor, in the order in which they were given.
    pub stolen_ns: Vec<u64>,
}

impl Stolen {
    /// The share of each processor's time that was stolen since an earlier reading.
    pub fn shares_since(&self, before: &Stolen) -> Vec<f64> {
        let elapsed_ns = self.at_ns.saturating_sub(before.at_ns).max(1) as f64;
        let pairs = self.stolen_ns.iter().zip(&before.stolen_ns);
        pairs
            .map(|(now, then)| now.saturating_sub(*then) as f64 / elapsed_ns)
            .collect()
    }
}

/// What the helper says, one line each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Said {
    Ready,
    Failed(String),
    Stolen(Stolen),
}

/// A CPU stealer on some processors. Dropping it ends it.
#[derive(Debug)]
pub struct CpuStealer {
    cpus: Vec<u32>,
    orders: Arc<Mutex<ChildStdin>>,
    answers: Receiver<Said>,
    /// Closed with this value: then the thread that renews doses ends.
    _renewed: Sender<()>,
    _helper: Helper,
}

impl CpuStealer {
    /// Puts a CPU stealer on processors, at no dose. Its rhythm follows from the seed.
    pub fn start(cpus: &[u32], seed: u64, shim: &Shim) -> Result<CpuStealer, NoPrivilege> {
        let missing = |why: String| NoPrivilege {
            what: format!("a CPU stealer on {}", shown_cpus(cpus)),
            why,
        };
        if cpus.is_empty() {
            return Err(missing("no processors were named".into()));
        }
        let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
        let args = [
            "--cpu-stealer",
            "--cpus",
            &list.join(","),
            "--seed",
            &seed.to_string(),
        ];
        let helper = Helper::start(shim, &args);
        let (helper, stdin, stdout) = helper.map_err(|e| missing(e.to_string()))?;
        let answers =
            Helper::answers(stdout, "cpu-stealer-answers").map_err(|e| missing(e.to_string()))?;
        match answers.recv_timeout(ANSWER_WAIT_MAX) {
            Ok(Said::Ready) => {}
            Ok(Said::Failed(why)) => return Err(missing(why)),
            _ => return Err(missing("it did not start".into())),
        }
        let orders = Arc::new(Mutex::new(stdin));
        let renewed = renew(Arc::clone(&orders)).map_err(|e| missing(e.to_string()))?;
        Ok(CpuStealer {
            cpus: cpus.to_vec(),
            orders,
            answers,
            _renewed: renewed,
            _helper: helper,
        })
    }

    /// The processors that it steals from.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// From now on takes this share of each processor, up to [`DOSE_MAX`]; 0 is the sham.
    pub fn set_dose(&mut self, dose: f64) -> Result<(), TestbedError> {
        assert!((0.0..=DOSE_MAX).contains(&dose), "a dose: {dose}");
        order(&self.orders, &format!("dose {dose}\n"))
    }

    /// What it stole so far.
    pub fn stolen(&mut self) -> Result<Stolen, TestbedError> {
        while self.answers.try_recv().is_ok() {}
        order(&self.orders, "read\n")?;
        match self.answers.recv_timeout(ANSWER_WAIT_MAX) {
            Ok(Said::Stolen(stolen)) if stolen.stolen_ns.len() == self.cpus.len() => Ok(stolen),
            Ok(said) => Err(TestbedError::failed(
                "ask the CPU stealer",
                format!("it said {said:?}"),
            )),
            Err(_) => Err(TestbedError::failed(
                "ask the CPU stealer",
                "it does not answer",
            )),
        }
    }
}

fn order(orders: &Mutex<ChildStdin>, line: &str) -> Result<(), TestbedError> {
    let mut orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
    let written = orders.write_all(line.as_bytes());
    written.map_err(|_| TestbedError::failed("tell the CPU stealer", "it is gone"))
}

/// Says every few seconds that this process still wants the dose.
fn renew(orders: Arc<Mutex<ChildStdin>>) -> std::io::Result<Sender<()>> {
    let (wanted, still) = channel();
    let renew = move || {
        while still.recv_timeout(RENEW_EVERY) == Err(RecvTimeoutError::Timeout) {
            if order(&orders, "renew\n").is_err() {
                break;
            }
        }
    };
    let thread = std::thread::Builder::new().name("stealer-renewal".into());
    thread.spawn(renew)?;
    Ok(wanted)
}

/// `cpu 0`, `cpus 0,1`.
pub(crate) fn shown_cpus(cpus: &[u32]) -> String {
    let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
    match cpus.len() {
        1 => format!("cpu {}", list.join(",")),
        _ => format!("cpus {}", list.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_each_processor() {
        let read = |at_ns, stolen_ns: &[u64]| Stolen {
            at_ns,
            stolen_ns: stolen_ns.to_vec(),
        };
        let shares = read(3_000, &[500, 10]).shares_since(&read(1_000, &[100, 10]));
        assert_eq!(shares, [0.2, 0.0]);
        let said = serde_json::to_string(&Said::Stolen(read(1, &[2]))).expect("JSON");
        assert_eq!(said, r#"{"stolen":{"at_ns":1,"stolen_ns":[2]}}"#);
    }
}
