//! Where threads of processes wait, and how long: the stack on which each gave its processor up,
//! until it was woken. From then on it is ready, and waits for a processor and for nothing else, as
//! who was made to give it up: neither is a part of the wait.
//!
//! ```text
//! out, on a stack ──► woken ──► in
//!       blocked            ready
//! ```
//!
//! Every switch of the processors is a record, the stacks of the server's threads among them, and
//! every waking is one, so this costs a server that switches often much more than sampling does.
//! Where wakings are not to be seen a wait lasts until the thread is in again, and that is said.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::ops::Range;
use std::time::Duration;

use wallfinder_model::profile::Profile;
use wallfinder_sys::clock;
use wallfinder_sys::perf::EventRing;

use crate::online;
use crate::parse::perf::{Record, Woken, records, wakings};
use crate::rings::{Habits, Rings, of_each, tracepoint};
use crate::stacks::{NoStacks, Setup};
use crate::symbols::{Maps, RawStack};

/// How often rings are drained.
const DRAIN_EVERY: Duration = Duration::from_millis(10);

/// Switches that are kept, and wakings: beyond that they count as lost.
const SWITCHES_MAX: usize = 4_000_000;

/// Who was woken no longer than this before it was out had been on its way out.
const ON_ITS_WAY_NS: u64 = 100_000;

/// What happened to a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// It waits, on this stack.
    Out(u32),
    /// It would rather have gone on.
    Preempted,
    /// It waits no more, and has no processor.
    Woken,
    In,
}

/// When, who, what.
type Switch = (u64, u32, What);

/// Wakings on all processors, of all threads.
#[derive(Debug, Default)]
struct Wakings {
    /// When, and who, as the first of all process namespaces numbers threads.
    seen: Vec<(u64, u32)>,
    /// How ours numbers them, as far as they have woken others.
    names: HashMap<u32, u32>,
    /// Whether ours is another.
    differs: bool,
    lost: u64,
}

#[derive(Debug, Default)]
struct Seen {
    switches: Vec<Switch>,
    stacks: Vec<RawStack>,
    by_stack: HashMap<RawStack, u32>,
    lost: u64,
}

/// Threads that are being watched.
#[derive(Debug)]
pub struct Waits {
    rings: Rings<Seen>,
    /// Or why they are not to be seen.
    wakings: Result<Rings<Wakings>, String>,
    maps: Maps,
    from_ns: u64,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waited {
    /// Stacks with the time that was waited on them, and how often.
    pub profile: Profile,
    /// Time that the threads were ready after these waits and had no processor, summed over them; or
    /// why it is not known, and part of the waits.
    pub ready_ns: Result<u64, String>,
    /// Records that were lost, for there was no room: what they began or ended is not counted.
    pub lost: u64,
}

impl Waits {
    /// Begins to watch, for so long at the most.
    pub fn start(setup: Setup, most: Duration) -> Result<Waits, NoStacks> {
        let tracepoint = tracepoint("sched/sched_switch")?;
        let open = |cpu| EventRing::open_switches(cpu, tracepoint);
        let rings = of_each(&setup.cpus, open)?;
        let maps = Maps::of(&setup.pids);
        let from_ns = clock::monotonic_ns();
        let wakings = watch_wakings(most).map_err(|error| error.to_string());
        let pids: BTreeSet<u32> = setup.pids.into_iter().collect();
        let take = move |seen: &mut Seen, bytes: &[u8]| {
            records(bytes).for_each(|record| seen.take(record, &pids));
            true
        };
        let habits = Habits {
            name: "waits",
            every: DRAIN_EVERY,
            most,
        };
        Ok(Waits {
            rings: Rings::start(rings, habits, Seen::default(), take)?,
            wakings,
            maps,
            from_ns,
        })
    }

    /// Watches no more.
    pub fn end(&self) {
        self.rings.end();
        if let Ok(wakings) = &self.wakings {
            wakings.end();
        }
    }

    /// Ends it, and finds the names.
    pub fn stop(self) -> Result<Waited, NoStacks> {
        let (mut seen, duration) = self.rings.join()?;
        let wakings = self.wakings.and_then(|rings| match rings.join() {
            Ok((wakings, _)) => Ok(wakings),
            Err(error) => Err(error.to_string()),
        });
        let span_ns = self.from_ns..clock::monotonic_ns();
        let woken = wakings.and_then(|wakings| {
            seen.lost += wakings.lost;
            wakings.beside(&seen.switches, &span_ns)
        });
        let seen_woken = woken.map(|woken| seen.switches.extend(woken));
        let waited = waited(&mut seen.switches, seen.stacks.len());
        let ready_ns = seen_woken.and_then(|()| ready_ns(&waited));
        let stacks: Vec<(RawStack, Vec<i64>)> = seen
            .stacks
            .into_iter()
            .zip(waited)
            .filter(|(_, wait)| wait.times > 0)
            .map(|(stack, wait)| (stack, vec![wait.times as i64, wait.blocked_ns as i64]))
            .collect();
        let measures = [("contentions", "count"), ("delay", "nanoseconds")];
        Ok(Waited {
            profile: self.maps.profile(&stacks, measures, duration),
            ready_ns,
            lost: seen.lost,
        })
    }
}

/// Begins to watch wakings. Whoever wakes a thread may be on any processor.
fn watch_wakings(most: Duration) -> io::Result<Rings<Wakings>> {
    let tracepoint = tracepoint("sched/sched_waking")?;
    let cpus = online::cpus();
    if cpus.is_empty() {
        return Err(io::Error::other("it is not known which processors are on"));
    }
    let rings = of_each(cpus, |cpu| EventRing::open_points(cpu, tracepoint))?;
    let take = |into: &mut Wakings, bytes: &[u8]| {
        wakings(bytes).for_each(|woken| into.take(woken));
        true
    };
    let habits = Habits {
        name: "wakings",
        every: DRAIN_EVERY,
        most,
    };
    Rings::start(rings, habits, Wakings::default(), take)
}

impl Wakings {
    fn take(&mut self, woken: Woken) {
        let waking = match woken {
            Woken::Waking(waking) => waking,
            Woken::Lost(lost) => {
                self.lost += lost;
                return;
            }
        };
        self.differs |= waking.by_tid != waking.by_first_tid;
        if waking.by_tid != 0 {
            self.names.insert(waking.by_first_tid, waking.by_tid);
        }
        match self.seen.len() < SWITCHES_MAX {
            true => self.seen.push((waking.time_ns, waking.first_tid)),
            false => self.lost += 1,
        }
    }

    /// As what happened to our threads; or why they cannot stand beside switches, which were watched
    /// within this time by the monotonic clock.
    fn beside(self, switches: &[Switch], span_ns: &Range<u64>) -> Result<Vec<Switch>, String> {
        if !switches.iter().all(|(at, ..)| span_ns.contains(at)) {
            return Err("the kernel tells wakings and switches by different clocks".to_owned());
        }
        // In a namespace of its own who wakes nobody has no number that is known.
        let here = |first_tid: u32| match self.differs {
            true => self.names.get(&first_tid).copied(),
            false => Some(first_tid),
        };
        let ours = |(at, first_tid): &(u64, u32)| Some((*at, here(*first_tid)?, What::Woken));
        Ok(self.seen.iter().filter_map(ours).collect())
    }
}

impl Seen {
    fn take(&mut self, record: Record, pids: &BTreeSet<u32>) {
        let switch = match record {
            Record::Lost(lost) => {
                self.lost += lost;
                return;
            }
            Record::In { tid, time_ns } => (time_ns, tid, What::In),
            Record::Preempted { tid, time_ns } => (time_ns, tid, What::Preempted),
            Record::Sample(sample) if pids.contains(&sample.pid) => {
                let (time_ns, tid) = (sample.time_ns, sample.tid);
                (time_ns, tid, What::Out(self.stack(RawStack::of(sample))))
            }
            Record::Sample(_) => return,
        };
        match self.switches.len() < SWITCHES_MAX {
            true => self.switches.push(switch),
            false => self.lost += 1,
        }
    }

    fn stack(&mut self, stack: RawStack) -> u32 {
        let next = self.stacks.len() as u32;
        *self.by_stack.entry(stack).or_insert_with_key(|stack| {
            self.stacks.push(stack.clone());
            next
        })
    }
}

/// What was waited on one stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Wait {
    times: u64,
    /// Of them, those whose waking was seen.
    woken: u64,
    blocked_ns: u64,
    ready_ns: u64,
}

impl Wait {
    /// One from out to in, and when the thread was woken, if that was seen. Who is woken before it is
    /// out was never blocked.
    fn add(&mut self, span_ns: Range<u64>, woken_ns: Option<u64>) {
        let until_ns = woken_ns.unwrap_or(span_ns.end).max(span_ns.start);
        self.times += 1;
        self.woken += u64::from(woken_ns.is_some());
        self.blocked_ns += until_ns - span_ns.start;
        self.ready_ns += span_ns.end.saturating_sub(until_ns);
    }
}

/// What was waited on each of so many stacks. A wait that the end of the window cuts off counts
/// until then; one that began before it does not count.
fn waited(switches: &mut [Switch], stacks: usize) -> Vec<Wait> {
    switches.sort_unstable();
    let last_ns = switches.last().map_or(0, |(time_ns, _, _)| *time_ns);
    let mut waited = vec![Wait::default(); stacks];
    let mut out: HashMap<u32, (u64, u32)> = HashMap::new();
    // Since they were in; the last counts, for who is woken while it is in just goes on.
    let mut woken: HashMap<u32, u64> = HashMap::new();
    for (time_ns, tid, what) in switches.iter() {
        match what {
            What::Out(stack) => {
                out.insert(*tid, (*time_ns, *stack));
            }
            What::Preempted => {
                out.remove(tid);
            }
            What::Woken => {
                woken.insert(*tid, *time_ns);
            }
            What::In => {
                let woken_ns = woken.remove(tid);
                if let Some((since_ns, stack)) = out.remove(tid) {
                    let is_of_it = |woken_ns: &u64| woken_ns + ON_ITS_WAY_NS >= since_ns;
                    let woken_ns = woken_ns.filter(is_of_it);
                    waited[stack as usize].add(since_ns..*time_ns, woken_ns);
                }
            }
        }
    }
    for (tid, (since_ns, stack)) in out {
        let woken_ns = woken.get(&tid).copied();
        // Who is still out after a waking from before was not woken by it.
        let woken_ns = woken_ns.filter(|woken_ns| *woken_ns >= since_ns);
        waited[stack as usize].add(since_ns..last_ns, woken_ns);
    }
    waited
}

/// How long threads were ready in all; or why it is not known.
fn ready_ns(waited: &[Wait]) -> Result<u64, String> {
    let sum = |of: fn(&Wait) -> u64| waited.iter().map(of).sum::<u64>();
    match (sum(|wait| wait.times), sum(|wait| wait.woken)) {
        (1.., 0) => Err("nobody was seen to wake any of them".to_owned()),
        _ => Ok(sum(|wait| wait.ready_ns)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;
    use crate::parse::perf::Waking;

    #[test]
    fn a_wait_lasts_from_out_to_in_and_preemption_is_none() {
        let mut switches = vec![
            (500, 1, What::In),
            (100, 1, What::Out(0)),
            (200, 2, What::Out(1)),
            (201, 2, What::Preempted),
            (300, 2, What::In),
            // It came in from a wait that nobody saw begin.
            (50, 3, What::In),
            (600, 1, What::Out(0)),
            (1000, 2, What::In),
        ];
        let twice = Wait {
            times: 2,
            blocked_ns: 400 + 400,
            ..Wait::default()
        };
        assert_eq!(waited(&mut switches, 2), [twice, Wait::default()]);
        assert_eq!(waited(&mut [], 1), [Wait::default()]);
        let unknown = ready_ns(&[twice]).unwrap_err();
        assert!(unknown.contains("nobody was seen"), "{unknown}");
        assert_eq!(ready_ns(&[]), Ok(0));
    }

    #[test]
    fn who_is_woken_is_ready_and_blocked_no_more() {
        let of = |mut switches: Vec<Switch>| {
            let wait = waited(&mut switches, 1)[0];
            (wait.blocked_ns, wait.ready_ns, wait.woken)
        };
        let out = |at| (at, 1, What::Out(0));
        let woken = |at| (at, 1, What::Woken);
        let is_in = |at| (at, 1, What::In);
        // Woken after 300 ns, and then the processor was full for 500.
        assert_eq!(of(vec![out(100), woken(400), is_in(900)]), (300, 500, 1));
        // On its way out.
        assert_eq!(of(vec![woken(90), out(100), is_in(900)]), (0, 800, 1));
        // For nothing, while it had its processor.
        let switches = vec![woken(50), out(100), woken(700), is_in(900)];
        assert_eq!(of(switches), (600, 200, 1));
        let switches = vec![woken(50), is_in(60), out(100), is_in(900)];
        assert_eq!(of(switches), (800, 0, 0));
        let switches = vec![woken(50), out(200_000), is_in(300_000)];
        assert_eq!(of(switches), (100_000, 0, 0));
        // Another's.
        let other = (400, 2, What::Woken);
        assert_eq!(of(vec![out(100), other, is_in(900)]), (800, 0, 0));
        // Cut off by the end of the window: ready, or still blocked.
        let end = (1000, 2, What::In);
        assert_eq!(of(vec![out(100), woken(400), end]), (300, 600, 1));
        assert_eq!(of(vec![woken(90), out(100), end]), (900, 0, 0));
        // A full processor makes no lock of a short wait.
        let waits = waited(&mut [out(100), woken(101), is_in(900)], 1);
        assert_eq!((waits[0].blocked_ns, ready_ns(&waits)), (1, Ok(799)));
    }

    fn waking(time_ns: u64, first_tid: u32, by: [u32; 2]) -> Woken {
        Woken::Waking(Waking {
            time_ns,
            first_tid,
            by_tid: by[0],
            by_first_tid: by[1],
        })
    }

    #[test]
    fn wakings_are_of_the_threads_that_switches_are_of() {
        let beside = |wakings: &[Woken], switches: &[Switch]| {
            let mut all = Wakings::default();
            wakings.iter().for_each(|woken| all.take(*woken));
            all.beside(switches, &(100..200))
        };
        let switches = [(100, 7, What::In), (199, 7, What::Out(0))];
        let woken = |at, tid| (at, tid, What::Woken);
        // Whoever is interrupted has no number, here and elsewhere.
        let same = [waking(110, 8, [7, 7]), waking(120, 7, [0, 0])];
        let expected = vec![woken(110, 8), woken(120, 7)];
        assert_eq!(beside(&same, &switches), Ok(expected));
        // In a process namespace of its own: who has woken somebody is known by then.
        let differ = [
            waking(110, 1007, [0, 31]),
            waking(120, 1008, [7, 1007]),
            waking(130, 8, [9, 1009]),
        ];
        assert_eq!(beside(&differ, &switches), Ok(vec![woken(110, 7)]));
        // By another clock.
        let early = [(99, 7, What::In)];
        assert!(beside(&same, &early).unwrap_err().contains("clocks"));
        assert!(beside(&same, &[(200, 7, What::In)]).is_err());
    }

    /// In a call of the standard library, which keeps frame pointers: what is generic or inlined may
    /// stand between, and hides its caller where it keeps none.
    #[inline(never)]
    fn waits_in_a_function_of_its_own(over: &AtomicBool) {
        while !over.load(Ordering::Acquire) {
            thread::park();
        }
    }

    #[test]
    fn the_function_that_waits_is_named() {
        let setup = Setup {
            cpus: wallfinder_sys::process::allowed_cpus(),
            pids: vec![std::process::id()],
        };
        let waits = match Waits::start(setup, Duration::from_secs(10)) {
            Ok(waits) => waits,
            Err(why) => return wallfinder_skip::skip(why),
        };
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| waits_in_a_function_of_its_own(&over));
            thread::sleep(Duration::from_millis(300));
            over.store(true, Ordering::Release);
            waiting.thread().unpark();
        });
        let seen = waits.stop().unwrap();
        let profile = &seen.profile;
        let in_it = profile.samples.iter().filter(|sample| {
            let mut names = sample
                .stack
                .iter()
                .map(|frame| &profile.function(*frame).name);
            names.any(|name| name.contains("waits_in_a_function_of_its_own"))
        });
        let ns: i64 = in_it.map(|sample| sample.values[1]).sum();
        // 300 ms of waiting, if the thread was there soon.
        assert!((100_000_000..400_000_000).contains(&ns), "{ns} ns");
        assert!(seen.ready_ns.is_ok(), "{:?}", seen.ready_ns);
    }
}
