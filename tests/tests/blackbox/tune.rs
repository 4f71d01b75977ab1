//! Settings of the host that `ab` tries: in force in B's turns, and as they were afterwards, whatever
//! becomes of the run.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use wallfinder_tests::{Double, Place, Running, skip, together};

const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// What the kernel does now: the word in brackets.
fn chosen() -> Option<String> {
    let text = fs::read_to_string(HUGE_PAGES).ok()?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// Another choice than the present one, where it may be made here.
fn another() -> Option<(String, &'static str)> {
    let before = chosen()?;
    let other = if before == "never" {
        "madvise"
    } else {
        "never"
    };
    // What may be written as it is may be changed.
    let may = rustix::process::geteuid().is_root() && fs::write(HUGE_PAGES, &before).is_ok();
    may.then_some((before, other))
}

fn begun(place: &Place, url: &str, tuning: &str) -> Running {
    place.start(&[
        "ab", url, "-c", "2", "-d", "1s", "--rounds", "4", "--tune-b", tuning, "-q",
    ])
}

fn becomes(wanted: &str, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    while chosen().as_deref() != Some(wanted) {
        if Instant::now() > until {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

#[test]
fn a_setting_is_in_force_in_turns_and_put_back_however_the_run_ends() {
    let _turn = together();
    let Some((before, other)) = another() else {
        return skip("huge pages cannot be set here");
    };
    let double = Double::plain();
    let tuning = format!("huge-pages={other}");
    for (signal, code) in [
        (None, Some(0)),
        (Some(Signal::INT), Some(130)),
        (Some(Signal::KILL), None),
    ] {
        let place = Place::new();
        let running = begun(&place, &double.url("/"), &tuning);
        assert!(becomes(other, Duration::from_secs(10)), "never in force");
        if let Some(signal) = signal {
            running.signal(signal);
        } else {
            assert!(
                becomes(&before, Duration::from_secs(10)),
                "A has it as it was"
            );
        }
        let ran = running.wait(Duration::from_secs(30));
        assert_eq!(ran.code, code, "{}", ran.said());
        assert!(
            becomes(&before, Duration::from_secs(5)),
            "{signal:?}: not put back"
        );
    }
}

#[test]
fn what_cannot_act_is_said_to_be_not_applicable() {
    let place = Place::new();
    let double = Double::plain();
    for tuning in ["irq-affinity=0", "busy-poll=50"] {
        let args = ["ab", &double.url("/"), "-d", "1s", "--tune-b", tuning, "-q"];
        let ran = place.run(&args).ends_with(1);
        assert!(ran.err.contains("not applicable"), "{}", ran.err);
    }
    let ran = place.run(&["ab", &double.url("/"), "--tune-b", "swappiness=1"]);
    assert!(ran.ends_with(2).err.contains("huge-pages"));
}
