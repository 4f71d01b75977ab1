//! The journal on media that fail, stall and flip.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use wallfinder_model::experiment::{Condition, Effort, Experiment, Setting, Squeeze, Window};
use wallfinder_model::{Caveat, Record};

use super::medium::Medium;
use super::recover::recover;
use super::{Journal, LIMITS, Limits};
use crate::StoreError;

#[path = "../../tests/records/mod.rs"]
mod records;
use records::{interval, record, sample, step_begun, step_ended};

type Act = Box<dyn Fn(usize, &[u8]) -> io::Result<usize> + Send + Sync>;

/// Keeps what is written, and does as it is told at each write and sync.
struct Fake {
    bytes: Arc<Mutex<Vec<u8>>>,
    writes: Mutex<usize>,
    syncs: Mutex<usize>,
    on_write: Act,
    on_sync: Act,
}

impl Fake {
    fn new(on_write: Act, on_sync: Act) -> (Box<Fake>, Arc<Mutex<Vec<u8>>>) {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let fake = Fake {
            bytes: Arc::clone(&bytes),
            writes: Mutex::new(0),
            syncs: Mutex::new(0),
            on_write,
            on_sync,
        };
        (Box::new(fake), bytes)
    }

    fn good() -> (Box<Fake>, Arc<Mutex<Vec<u8>>>) {
        Fake::new(Box::new(|_, b| Ok(b.len())), Box::new(|_, _| Ok(0)))
    }
}

fn next(counter: &Mutex<usize>) -> usize {
    let mut counter = counter.lock().unwrap();
    *counter += 1;
    *counter - 1
}

impl Medium for Fake {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let written = (self.on_write)(next(&self.writes), bytes)?;
        self.bytes
            .lock()
            .unwrap()
            .extend_from_slice(&bytes[..written]);
        Ok(written)
    }

    fn sync(&self) -> io::Result<()> {
        (self.on_sync)(next(&self.syncs), &[]).map(|_| ())
    }
}

fn start(fake: Box<Fake>) -> Result<Journal, StoreError> {
    Journal::start("journal.wfj".into(), fake, &record("r", 2))
}

/// A run of two steps, the second cut off after five intervals of its window.
fn cut_off(journal: &Journal) -> Result<(), StoreError> {
    journal.step_begins(&step_begun(0))?;
    for nth in 0..12 {
        journal.interval(0, &interval(nth))?;
    }
    journal.step_ends(&step_ended(0))?;
    journal.caveat(&Caveat::NotVerified)?;
    journal.step_begins(&step_begun(1))?;
    for nth in 0..7 {
        journal.interval(1, &interval(nth))?;
        journal.samples(1, vec![sample(nth as i64)])?;
    }
    Ok(())
}

/// Waits until the writer has nothing left to do.
fn settled(bytes: &Mutex<Vec<u8>>) -> Vec<u8> {
    let mut before = usize::MAX;
    loop {
        let now = bytes.lock().unwrap().clone();
        if now.len() == before {
            return now;
        }
        before = now.len();
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn cut_off_bytes() -> Vec<u8> {
    let (fake, bytes) = Fake::good();
    let journal = start(fake).expect("started");
    cut_off(&journal).expect("noted");
    settled(&bytes)
}

fn missing(record: &Record) -> String {
    let what = record.caveats.iter().find_map(|caveat| match caveat {
        Caveat::Incomplete { what } => Some(what.clone()),
        _ => None,
    });
    what.expect("a caveat that says what is missing")
}

#[test]
fn a_step_in_progress_is_rebuilt_from_its_intervals() {
    let record = recover(&cut_off_bytes()[..]).expect("recovered");
    assert!(!record.complete && record.interrupted.is_some());
    assert!(record.caveats.contains(&Caveat::NotVerified));
    assert_eq!(record.steps[0], step_ended(0));
    let step = &record.steps[1];
    // Intervals 2 to 6 of 100 ms lie behind the warm-up of 200 ms.
    assert_eq!(step.window_ns, 500_000_000);
    assert_eq!(step.counts.answered, 5 * 1_000 + (2 + 3 + 4 + 5 + 6));
    assert_eq!(step.throughput, step.counts.answered as f64 * 2.0);
    assert_eq!(step.in_flight_mean, 100.0);
    assert_eq!(
        (step.counts.in_flight_start, step.counts.in_flight_end),
        (100, 100)
    );
    assert!(step.counts.balanced());
    assert_eq!((step.intervals.len(), step.series.len()), (7, 7));
    assert_eq!(step.latency, None);
    assert!(
        missing(&record).contains("step 2 of 2"),
        "{}",
        missing(&record)
    );
}

#[test]
fn steps_that_never_began_are_named() {
    let (fake, bytes) = Fake::good();
    let journal = start(fake).expect("started");
    journal.step_begins(&step_begun(0)).expect("noted");
    journal.interval(0, &interval(0)).expect("noted");
    let record = recover(&settled(&bytes)[..]).expect("recovered");
    assert_eq!(record.steps, []);
    let missing = missing(&record);
    assert!(
        missing.contains("step 1 of 2 (`/read c=100 #0`) was cut off before"),
        "{missing}"
    );
    assert!(
        missing.contains("steps 1 to 2 of 2 were not measured"),
        "{missing}"
    );
}

#[test]
fn every_truncation_recovers_a_valid_prefix() {
    let whole = cut_off_bytes();
    let full = recover(&whole[..]).expect("recovered");
    let (mut answered, mut recovered) = (0, 0);
    // At every third byte, and at each of the last two thousand.
    let last = whole.len().saturating_sub(2_000);
    for end in (0..last).step_by(3).chain(last..whole.len()) {
        let Ok(record) = recover(&whole[..end]) else {
            assert_eq!(
                recovered, 0,
                "byte {end}: once recoverable, always recoverable"
            );
            continue;
        };
        recovered += 1;
        assert!(!record.complete, "byte {end}");
        let now: u64 = record.steps.iter().map(|step| step.counts.answered).sum();
        if record.steps.len() == 2 || record.steps.first() == full.steps.first() {
            assert!(now >= answered, "byte {end}: what was there stays there");
            answered = now;
        }
        for (step, full) in record.steps.iter().zip(&full.steps) {
            assert_eq!(
                step.intervals,
                full.intervals[..step.intervals.len()],
                "byte {end}"
            );
        }
        assert!(missing(&record).len() > 10);
    }
    assert!(recovered > 1000);
}

#[test]
fn a_torn_entry_is_named_by_its_offset() {
    let whole = cut_off_bytes();
    let record = recover(&whole[..whole.len() - 3]).expect("recovered");
    let missing = missing(&record);
    let (_, offset) = missing.split_once("at byte ").expect("an offset");
    let digits: String = offset.chars().take_while(char::is_ascii_digit).collect();
    let offset: usize = digits.parse().expect("a number");
    assert!(
        offset > whole.len() - 2_000 && offset < whole.len(),
        "{missing}"
    );
    let prefix = recover(&whole[..offset]).expect("recovered");
    assert_eq!(prefix.steps, record.steps);
}

#[test]
fn every_flipped_bit_is_noticed() {
    let whole = cut_off_bytes();
    let full = recover(&whole[..]).expect("recovered");
    // Each bit of a part of the bytes, and a part of the bits of all bytes.
    for bit in (0..whole.len() * 8).filter(|bit| bit / 8 < 1500 || bit % 61 == 0) {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        match recover(&bytes[..]) {
            Err(damage) => assert!(damage.offset_bytes <= (bit / 8) as u64, "bit {bit}"),
            Ok(record) => {
                assert!(missing(&record).contains("damaged at byte"), "bit {bit}");
                assert_ne!(record.caveats, full.caveats, "bit {bit}");
            }
        }
    }
}

#[test]
fn a_write_that_fails_at_any_point_stops_the_run_and_keeps_the_prefix() {
    let (fake, _) = Fake::good();
    let journal = start(fake).expect("started");
    cut_off(&journal).expect("noted");
    for kind in [io::ErrorKind::StorageFull, io::ErrorKind::Other] {
        for failing in 0..34 {
            // Once it failed, the medium would take everything: it must not be asked.
            let on_write: Act = Box::new(move |nth, bytes| match nth.cmp(&failing) {
                std::cmp::Ordering::Less => Ok(bytes.len()),
                std::cmp::Ordering::Equal if failing % 2 == 0 => Err(kind.into()),
                std::cmp::Ordering::Equal => Ok(bytes.len() / 2),
                std::cmp::Ordering::Greater => panic!("written to after a failure"),
            });
            let (fake, bytes) = Fake::new(on_write, Box::new(|_, _| Ok(0)));
            let Ok(journal) = start(fake) else {
                assert!(
                    failing < 2,
                    "write {failing}: only the first two are awaited"
                );
                continue;
            };
            let _ = cut_off(&journal);
            let ended = journal.end(&record("r", 2));
            let error = ended.expect_err("the end must not be reported as success");
            assert!(matches!(error, StoreError::Io { .. }), "{error}");
            assert_eq!(journal.failure(), Some(error.clone()));
            assert_eq!(journal.interval(1, &interval(9)), Err(error));
            let bytes = settled_now(&bytes);
            let record = recover(&bytes[..]).expect("the prefix is readable");
            assert!(!record.complete);
        }
    }
}

fn settled_now(bytes: &Mutex<Vec<u8>>) -> Vec<u8> {
    bytes.lock().unwrap().clone()
}

#[test]
fn a_failed_sync_is_never_forgotten() {
    // The first sync is that of the header; the second comes a second later, and fails once.
    let on_sync: Act = Box::new(|nth, _| match nth {
        1 => Err(io::Error::other("the disk is gone")),
        _ => Ok(0),
    });
    let (fake, _) = Fake::new(Box::new(|_, b| Ok(b.len())), on_sync);
    let journal = start(fake).expect("started");
    journal.step_begins(&step_begun(0)).expect("noted");
    let since = Instant::now();
    let mut nth = 0;
    let error = loop {
        if let Err(error) = journal.interval(0, &interval(nth)) {
            break error;
        }
        assert!(since.elapsed() < Duration::from_secs(5), "unnoticed");
        std::thread::sleep(Duration::from_millis(20));
        nth += 1;
    };
    assert!(error.to_string().contains("the disk is gone"), "{error}");
    assert_eq!(journal.end(&record("r", 2)), Err(error));
}

#[test]
fn a_slow_sync_delays_neither_the_caller_nor_the_writer() {
    let on_sync: Act = Box::new(|nth, _| {
        if nth > 0 {
            std::thread::sleep(Duration::from_millis(1_500));
        }
        Ok(0)
    });
    let (fake, bytes) = Fake::new(Box::new(|_, b| Ok(b.len())), on_sync);
    let journal = start(fake).expect("started");
    journal.step_begins(&step_begun(0)).expect("noted");
    let mut slowest = Duration::ZERO;
    for nth in 0..200 {
        let since = Instant::now();
        journal.interval(0, &interval(nth)).expect("noted");
        slowest = slowest.max(since.elapsed());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(slowest < Duration::from_millis(100), "{slowest:?}");
    std::thread::sleep(Duration::from_millis(50));
    // Nothing waits for the sync that is under way now.
    let record = recover(&settled_now(&bytes)[..]).expect("recovered");
    assert_eq!(record.steps[0].intervals.len(), 200);
    assert_eq!(journal.left_out(), 0);
}

/// A medium that takes nothing until it is told to.
fn stalled() -> (Box<Fake>, Arc<Mutex<Vec<u8>>>, Sender<()>) {
    let (release, released) = channel();
    let released: Mutex<Option<Receiver<()>>> = Mutex::new(Some(released));
    let on_write: Act = Box::new(move |nth, bytes| {
        if nth == 2
            && let Some(released) = released.lock().unwrap().take()
        {
            let _ = released.recv();
        }
        Ok(bytes.len())
    });
    let (fake, bytes) = Fake::new(on_write, Box::new(|_, _| Ok(0)));
    (fake, bytes, release)
}

#[test]
fn a_stalled_disk_costs_intervals_and_they_are_counted() {
    let (fake, bytes, release) = stalled();
    let journal = start(fake).expect("started");
    journal.step_begins(&step_begun(0)).expect("noted");
    let since = Instant::now();
    for nth in 0..2_000 {
        journal
            .interval(0, &interval(nth))
            .expect("noted or counted");
    }
    assert!(since.elapsed() < Duration::from_secs(1), "never waits");
    let left_out = journal.left_out();
    assert!((900..1_100).contains(&left_out), "{left_out}");
    release.send(()).expect("it waits");
    let record = recover(&settled(&bytes)[..]).expect("recovered");
    assert_eq!(record.steps[0].intervals.len() as u64 + left_out, 2_000);
    let missing = missing(&record);
    assert!(
        missing.contains(&format!("{left_out} intervals")),
        "{missing}"
    );
}

#[test]
fn a_disk_that_takes_nothing_at_all_is_a_failure() {
    let (fake, _, _release) = stalled();
    let limits = Limits {
        room_wait: Duration::from_millis(100),
        ..LIMITS
    };
    let journal = Journal::start_within(limits, "j".into(), fake, &record("r", 2));
    let journal = journal.expect("started");
    journal.step_begins(&step_begun(0)).expect("noted");
    for nth in 0..2_000 {
        let _ = journal.interval(0, &interval(nth));
    }
    let error = journal.step_ends(&step_ended(0)).expect_err("no room");
    assert!(matches!(error, StoreError::DiskTooSlow { .. }), "{error}");
    assert_eq!(
        journal.interval(0, &interval(0)),
        Err(error),
        "and it stays one"
    );
}

#[test]
fn a_full_device_is_found_before_any_load() {
    let full = std::fs::OpenOptions::new().append(true).open("/dev/full");
    let Ok(full) = full else {
        wallfinder_skip::skip("there is no /dev/full");
        return;
    };
    let error = Journal::start("/dev/full".into(), Box::new(full), &record("r", 1));
    let error = error.err().expect("it is full");
    assert!(
        matches!(
            error,
            StoreError::Io {
                kind: io::ErrorKind::StorageFull,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn an_ended_journal_without_a_seal_is_whole() {
    let (fake, bytes) = Fake::good();
    let journal = start(fake).expect("started");
    for index in 0..2 {
        journal.step_begins(&step_begun(index)).expect("noted");
        journal.step_ends(&step_ended(index)).expect("noted");
    }
    let mut sealed = record("r", 2);
    sealed.steps = vec![step_ended(0), step_ended(1)];
    journal.end(&sealed).expect("ended");
    let recovered = recover(&settled_now(&bytes)[..]).expect("recovered");
    assert!(recovered.complete);
    assert_eq!(recovered.steps, sealed.steps);
    assert!(matches!(recovered.caveats[..], [Caveat::Note { .. }]));
}

#[test]
fn a_journal_that_grew_too_large_keeps_to_its_steps_and_says_so() {
    let (fake, bytes) = Fake::good();
    let limits = Limits {
        bytes: 20_000,
        ..LIMITS
    };
    let journal = Journal::start_within(limits, "j".into(), fake, &record("r", 2));
    let journal = journal.expect("started");
    journal.step_begins(&step_begun(0)).expect("noted");
    for nth in 0..500 {
        journal
            .interval(0, &interval(nth))
            .expect("noted or counted");
    }
    journal.step_ends(&step_ended(0)).expect("noted");
    let _ = settled(&bytes);
    assert!(journal.left_out() > 300);
    std::thread::sleep(Duration::from_millis(1_100));
    let record = recover(&settled_now(&bytes)[..]).expect("recovered");
    assert_eq!(record.steps, [step_ended(0)]);
    assert!(missing(&record).contains(&format!("{} intervals", journal.left_out())));
}

fn experiment(conditions: usize) -> Experiment {
    let condition = |nth: usize| Condition {
        squeeze: (nth > 0).then_some(Squeeze::ServerSpeed),
        together: Vec::new(),
        retained: 1.0 - 0.1 * nth as f64,
        how: "a test".into(),
    };
    Experiment {
        seed: 7,
        effort: Effort::Normal,
        conditions: (0..conditions).map(condition).collect(),
        windows: Vec::new(),
        out_of_reach: Vec::new(),
        setting: Setting::default(),
        intervals: Vec::new(),
        cut_short: None,
        alone: None,
    }
}

fn window(nth: u32) -> Window {
    let from_ns = u64::from(nth) * 1_500_000_000;
    Window {
        round: nth / 4,
        condition: nth % 2,
        restart: nth / 8,
        from_ns,
        to_ns: from_ns + 1_000_000_000,
        answered: 1_000,
        failed: 0,
        throughput: 1_000.0,
        in_flight_mean: None,
        latency_mean_ns: None,
        p50_ns: None,
        p99_ns: None,
        retained: None,
        in_force: None,
        without: Vec::new(),
        retained_each: BTreeMap::new(),
        check: String::new(),
        server_cores: None,
        client_cores: None,
        steal_share: 0.0,
        server_reference_ns: None,
        client_reference_ns: None,
    }
}

#[test]
fn an_experiment_in_progress_has_the_windows_that_ended() {
    let (fake, bytes) = Fake::good();
    let journal = start(fake).expect("started");
    journal.step_begins(&step_begun(0)).expect("noted");
    journal.step_ends(&step_ended(0)).expect("noted");
    for nth in 0..9 {
        // A condition that is new comes with its first window.
        let known = if nth < 5 { 2 } else { 3 };
        if nth == 0 || nth == 5 {
            let mut so_far = experiment(known);
            so_far.windows = (0..nth).map(window).collect();
            journal.experiment(0, &so_far).expect("noted");
        }
        journal.window(0, &window(nth)).expect("noted");
    }
    let bytes = settled(&bytes);
    let record = recover(&bytes[..]).expect("recovered");
    let found = record.steps[0].experiment.clone().expect("an experiment");
    assert_eq!(found.conditions.len(), 3);
    assert_eq!(found.windows, (0..9).map(window).collect::<Vec<Window>>());
    assert!(found.cut_short.is_some() && !record.complete);
    assert!(
        missing(&record).contains("after 9 windows"),
        "{}",
        missing(&record)
    );
    // Torn within the last window, one less is there.
    let torn = recover(&bytes[..bytes.len() - 3]).expect("recovered");
    let found = torn.steps[0].experiment.clone().expect("an experiment");
    assert_eq!(found.windows.len(), 8);
}

#[test]
fn an_experiment_that_ended_is_as_it_ended() {
    let (fake, bytes) = Fake::good();
    let journal = start(fake).expect("started");
    let mut step = step_ended(0);
    journal.step_ends(&step).expect("noted");
    journal.experiment(0, &experiment(2)).expect("noted");
    journal.window(0, &window(0)).expect("noted");
    let mut whole = experiment(2);
    whole.windows = vec![window(0), window(1)];
    step.experiment = Some(whole.clone());
    journal.step_ends(&step).expect("noted");
    let record = recover(&settled(&bytes)[..]).expect("recovered");
    assert_eq!(record.steps[0].experiment, Some(whole));
}
