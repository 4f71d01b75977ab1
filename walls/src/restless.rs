//! A machine that is made restless on purpose: now and then something else takes a processor.
//!
//! ```text
//!  processor 0   ....####......................##..........
//!  processor 1   ..............#######...................#####     # knownwall --burn
//!                 rest   lasts
//! ```
//!
//! Bursts follow from the seed alone, so that two tools that are asked with one seed meet the same ones.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::find::beside;

/// What takes a processor.
const BURN: &str = "knownwall --burn";
/// Between two bursts, in milliseconds.
const REST_MS: std::ops::Range<u64> = 500..5_000;
/// How long a burst lasts, in milliseconds.
const LASTS_MS: std::ops::Range<u64> = 100..1_500;
/// Processors that may be taken: the client's and the server's.
const CPUS: [&str; 2] = ["0", "1"];

/// Something else on a processor, for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Burst {
    rest: Duration,
    lasts: Duration,
    cpu: &'static str,
}

/// Endless bursts; the same ones for a seed.
fn bursts(seed: u64) -> impl Iterator<Item = Burst> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(move || Burst {
        rest: Duration::from_millis(random.u64(REST_MS)),
        lasts: Duration::from_millis(random.u64(LASTS_MS)),
        cpu: CPUS[random.usize(..CPUS.len())],
    })
}

/// Bursts that go on until they are ended, or the value is dropped.
#[derive(Debug)]
pub struct Restless {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Restless {
    /// Begins with the bursts of a seed; `bin` is the folder of the subjects.
    pub fn begin(bin: &Path, seed: u64) -> Restless {
        let (over, is_over) = channel();
        let bin = bin.to_owned();
        let thread = std::thread::spawn(move || disturb(&bin, seed, &is_over));
        Restless {
            over: Some(over),
            thread: Some(thread),
        }
    }

    /// Ends them; the error says why a burst was none.
    pub fn end(mut self) -> Result<(), String> {
        self.ended()
    }

    fn ended(&mut self) -> Result<(), String> {
        drop(self.over.take());
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err("the bursts ended by themselves".to_owned()),
            None => Ok(()),
        }
    }
}

impl Drop for Restless {
    fn drop(&mut self) {
        let _ = self.ended();
    }
}

fn disturb(bin: &Path, seed: u64, is_over: &Receiver<()>) -> Result<(), String> {
    use std::sync::mpsc::RecvTimeoutError::Timeout;
    for burst in bursts(seed) {
        if is_over.recv_timeout(burst.rest) != Err(Timeout) {
            return Ok(());
        }
        let mut burning = beside(BURN, bin, burst.cpu)?;
        let is_last = is_over.recv_timeout(burst.lasts) != Err(Timeout);
        if burning.has_ended() {
            return Err(format!("`{BURN}` took no processor: it ended by itself"));
        }
        if is_last {
            return Ok(());
        }
    }
    unreachable!("bursts are endless")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_its_bursts() {
        let of = |seed| bursts(seed).take(1_000).collect::<Vec<_>>();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let lasts: Duration = of(1).iter().map(|burst| burst.lasts).sum();
        let all: Duration = of(1).iter().map(|burst| burst.lasts + burst.rest).sum();
        let share = lasts.as_secs_f64() / all.as_secs_f64();
        assert!((0.20..0.25).contains(&share), "{share}");
        let first = of(1).iter().filter(|burst| burst.cpu == "0").count();
        assert!((430..570).contains(&first), "{first}");
    }

    #[test]
    fn it_ends_when_it_is_dropped() {
        let since = std::time::Instant::now();
        drop(Restless::begin(Path::new("/nowhere"), 1));
        assert!(since.elapsed() < Duration::from_millis(400));
    }

    #[test]
    fn a_burst_that_is_none_is_an_error() {
        let restless = Restless::begin(Path::new("/nowhere"), 1);
        // The first of this seed begins and ends by then.
        let first = bursts(1).next().expect("endless");
        std::thread::sleep(first.rest + first.lasts + Duration::from_millis(500));
        let why = restless.end().expect_err("there is no such program");
        assert!(why.contains("took no processor"), "{why}");
    }
}
