//! What stands around a load of a mix: requests that are made before it, again while it runs, and after it.
//!
//! ```text
//!   make ─► set-up ─► known.renew ◄─ refresh, every so often, in a thread of its own
//!                         │     ◄─ again: the server was started anew
//!                         └─► workers fill requests in with it              drop ─► tear-down
//! ```

use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use wallfinder_traffic::{Around, Once, Refresh};
use wallfinder_wire::mix::{Known, Mix};

use crate::exit::Failed;
use crate::mix::{Made, Place, With, make};

/// It stands from its set-up to its tear-down, which is made when this is dropped.
pub(crate) struct SetUp {
    known: Known,
    place: Place,
    around: Around,
    /// Numbers of what set-up did not come to take.
    missing: Vec<u16>,
    /// Whether any of it was made, so that there is something to take down.
    is_begun: bool,
    /// Whether all of it was.
    is_whole: bool,
    shared: Arc<Shared>,
    refreshing: Option<Refreshing>,
}

impl fmt::Debug for SetUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without its values, which may be secrets.
        f.debug_struct("SetUp")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// A thread that makes a part of set-up again and again.
struct Refreshing {
    /// `None`: it ends.
    tell: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread shares with the rest.
#[derive(Default)]
pub(crate) struct Shared {
    /// Held while requests are made, and while the server is being started that they would go to.
    turn: Mutex<()>,
    /// What set-up had before the first request that is made again, which then begins with them.
    cookies: Mutex<Vec<u8>>,
    tally: Mutex<Tally>,
}

/// How it went since it was asked last.
#[derive(Debug, Clone, Default)]
struct Tally {
    made: u32,
    failed: u32,
    why: String,
}

impl SetUp {
    /// Makes set-up. If that fails, what was made of it is taken down.
    pub(crate) fn make(around: Around, known: Known, place: Place) -> Result<SetUp, Failed> {
        let mut set_up = SetUp {
            known,
            place,
            around,
            missing: Vec::new(),
            is_begun: true,
            is_whole: false,
            shared: Arc::default(),
            refreshing: None,
        };
        set_up.make_again().map_err(Failed::run)?;
        if let (Some(refresh), Some(setup)) = (&set_up.around.refresh, &set_up.around.setup) {
            let started = Refreshing::start(
                refresh,
                &setup.names,
                &set_up.known,
                &set_up.place,
                &set_up.shared,
            );
            set_up.refreshing = Some(started.map_err(Failed::run)?);
        }
        Ok(set_up)
    }

    /// What it took, as it is now.
    pub(crate) fn known(&self) -> Known {
        self.known.clone()
    }

    /// What is held from before the server is started anew until set-up was made at it.
    pub(crate) fn shared(&self) -> Option<Arc<Shared>> {
        let refreshing = self.refreshing.as_ref();
        refreshing.map(|_| Arc::clone(&self.shared))
    }

    /// Makes the tear-down, of as much as was made: the server ends, or is started anew.
    pub(crate) fn take_down(&mut self) {
        if !std::mem::take(&mut self.is_begun) {
            return;
        }
        if let Some(mix) = &self.around.teardown {
            let with = With {
                missing: &self.missing,
                ..With::default()
            };
            if let Some(why) = make(mix, &self.place, 0, with).failed {
                tracing::warn!("[[teardown]] {why}");
            }
        }
    }

    /// Whether all of it was made at the server as it is now.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Makes set-up again, at a server that knows nothing of the first time. Where that fails, values that it did not
    /// come to take stay as they were.
    pub(crate) fn make_again(&mut self) -> Result<(), String> {
        let Some(Once { mix, names }) = &self.around.setup else {
            (self.is_begun, self.is_whole) = (true, true);
            return Ok(());
        };
        let Made {
            steps,
            taken,
            mut cookies,
            failed,
        } = make(mix, &self.place, names.len(), With::default());
        self.is_begun = steps > 0;
        self.is_whole = failed.is_none();
        let numbers = taken.iter().zip(0..);
        self.missing = numbers
            .filter(|(value, _)| value.is_none())
            .map(|(_, nth)| nth)
            .collect();
        if !taken.is_empty() {
            let before = self.known.now();
            let values = taken.into_iter().zip(before.iter());
            let kept = |(value, before): (Option<Vec<u8>>, &Vec<u8>)| {
                value.unwrap_or_else(|| before.clone())
            };
            self.known.renew(values.map(kept).collect());
        }
        if let Some(refresh) = &self.around.refresh {
            // Its steps are the last of set-up.
            let steps = |mix: &Mix| mix.flows[0].steps.len();
            let first = steps(mix) - steps(&refresh.once.mix);
            if first < cookies.len() {
                *lock(&self.shared.cookies) = cookies.swap_remove(first);
            }
        }
        match failed {
            Some(why) => Err(format!("[[setup]] {why}")),
            None => Ok(()),
        }
    }

    /// What went wrong since it was asked last, in words.
    pub(crate) fn told(&self) -> Option<String> {
        let Tally { made, failed, why } = std::mem::take(&mut *lock(&self.shared.tally));
        (failed > 0).then(|| {
            let times = if failed == 1 { "time" } else { "times" };
            format!(
                "[[setup]] was not made again {failed} {times} of {}, and requests went on with the values of before; \
                 the last time: {why}",
                made + failed
            )
        })
    }
}

impl Drop for SetUp {
    fn drop(&mut self) {
        self.refreshing = None;
        self.take_down();
    }
}

impl Shared {
    /// Nothing else makes requests while this is held.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        lock(&self.turn)
    }
}

impl Refreshing {
    /// `names`: of what is known, by number.
    fn start(
        refresh: &Refresh,
        names: &[String],
        known: &Known,
        place: &Place,
        shared: &Arc<Shared>,
    ) -> Result<Refreshing, String> {
        let Refresh { once, every } = refresh.clone();
        let number = |name: &String| names.iter().position(|other| other == name);
        let numbers: Vec<usize> = once.names.iter().filter_map(number).collect();
        let (known, place) = (known.clone(), place.clone());
        let shared = Arc::clone(shared);
        let (tell, told) = channel();
        let again = move || {
            while told.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let _turn = lock(&shared.turn);
                let cookies = lock(&shared.cookies).clone();
                let with = With {
                    cookies: &cookies,
                    ..With::default()
                };
                let made = make(&once.mix, &place, once.names.len(), with);
                let mut tally = lock(&shared.tally);
                match made.failed {
                    None => {
                        let mut values = known.now().to_vec();
                        for (number, value) in numbers.iter().zip(made.taken) {
                            if let Some(value) = value {
                                values[*number] = value;
                            }
                        }
                        known.renew(values);
                        tally.made += 1;
                    }
                    Some(why) => {
                        tracing::warn!("[[setup]] was not made again: {why}");
                        tally.failed += 1;
                        tally.why = why;
                    }
                }
            }
        };
        let thread = thread::Builder::new()
            .name("wf-refresh".to_owned())
            .spawn(again);
        Ok(Refreshing {
            tell: Some(tell),
            thread: Some(thread.map_err(|error| error.to_string())?),
        })
    }
}

impl Drop for Refreshing {
    fn drop(&mut self) {
        self.tell = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
