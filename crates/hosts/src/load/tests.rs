//! A load on another host, whose agent is a thread of the test.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use wallfinder_protocol::{Frames, Reply, Request, Said, VERSION, Welcome, frame};
use wallfinder_sys::clock;

use super::*;
use crate::channel::Channel;

const HOUR_NS: u64 = 3_600_000_000_000;

/// Tells what its clock says: two hours more than the one here, and one more once it has stood still.
fn tell_time(mut asked: PipeReader, mut answered: PipeWriter, stood_still: &AtomicBool) {
    let mut frames = Frames::default();
    let mut bytes = [0; 4_096];
    while let Ok(read) = asked.read(&mut bytes)
        && read > 0
    {
        frames.push(&bytes[..read]);
        while let Some(Request { number, ask, .. }) = frames.take().expect("a request") {
            let ahead_ns = match stood_still.load(Ordering::Relaxed) {
                true => HOUR_NS,
                false => 2 * HOUR_NS,
            };
            let monotonic_ns = clock::monotonic_ns() + ahead_ns;
            let answer = match ask {
                Ask::Clock => Answer::Clock { monotonic_ns },
                Ask::Renew => Answer::Renewed {
                    monotonic_ns,
                    sample: None,
                },
                other => panic!("nobody asks for {other:?}"),
            };
            let answer = Ok(answer);
            let reply = frame(&Said::Reply(Reply { number, answer })).expect("a frame");
            if answered.write_all(&reply).is_err() {
                return;
            }
        }
    }
}

fn host(stood_still: Arc<AtomicBool>) -> LoadThere {
    let (asked, asks) = pipe().expect("a pipe");
    let (answers, answered) = pipe().expect("a pipe");
    thread::spawn(move || tell_time(asked, answered, &stood_still));
    let why = Box::new(|| "its pipe ended".to_owned());
    let channel = Channel::open("c1", (answers, Frames::default()), asks, why, None);
    let channel = channel.expect("a thread").keep(1).expect("it answers");
    let welcome = Welcome {
        protocol: VERSION,
        version: "test".to_owned(),
        grants: vec![Grant::Load],
        epoch: 1,
        keeps: None,
        host: "c1".to_owned(),
        pid: 1,
        is_root: false,
        cpus: vec![0],
        subjects: Vec::new(),
    };
    LoadThere {
        far: Far {
            channel,
            welcome,
            role: Role::Client,
        },
        server: ([127, 0, 0, 1], 9).into(),
        address: None,
        facts: Environment::default(),
        uplink: (None, None),
        recall: Recall::default(),
    }
}

#[test]
fn a_load_began_when_its_clock_said_so_at_the_time_whatever_the_clock_does_later() {
    let stood_still = Arc::<AtomicBool>::default();
    let host = host(Arc::clone(&stood_still));
    let signals = Signals::default();
    let mut passing = Passing {
        host: &host,
        signals: &signals,
        workers: 1,
        look_every: LOOK_EVERY,
        version: 0,
        known: None,
        known_version: 0,
        ends: None,
        began: None,
    };
    let there_ns = clock::monotonic_ns() + 2 * HOUR_NS;
    let starts = Progress::Starts { zero_ns: there_ns };
    let mut told = None;
    let mut observe = |progress: Progress| {
        if let Progress::Starts { zero_ns } = progress {
            told = Some(zero_ns);
        }
    };
    let heard = passing.hear(News::Progress(Box::new(starts)), &mut observe);
    heard.expect("its clock is known");
    stood_still.store(true, Ordering::Relaxed);
    let until = Instant::now() + Duration::from_secs(30);
    let ahead_ns = || host.far.channel.offset().map_or(0, |offset| offset.ns);
    while ahead_ns() > HOUR_NS as i64 * 3 / 2 {
        assert!(Instant::now() < until, "its lease is not renewed");
        thread::sleep(Duration::from_millis(10));
    }
    let placed = |zero_ns: u64| {
        let measured = Measured {
            zero_ns,
            ..Measured::default()
        };
        passing.placed(measured).expect("it is sound").zero_ns
    };
    assert_eq!(Some(placed(there_ns)), told);
    // Of a start that nobody told of no more is known than what the clock says now.
    assert!(placed(there_ns + 1) > placed(there_ns) + HOUR_NS / 2);
}
