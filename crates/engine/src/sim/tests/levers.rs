//! Levers: what is held back, slowed down or paced, and the windows between two settings.

use wallfinder_model::Nanos;

use super::super::http1::{ANSWER, Asked, Http1, LAST_ANSWER, after, closes, one_by_one};
use super::super::peer::says;
use super::super::world::{MS, Published, Ran, Sim};
use crate::counters::Counters;
use wallfinder_model::drive::LeverSetting;

const SHAM: LeverSetting = LeverSetting {
    speed: Some(1.0),
    ..LeverSetting::FREE
};

/// The same load under these settings, 40 ms of each as windows 1, 2, …, of which each begins where the one before ends.
fn in_turn(sim: Sim, settings: &[LeverSetting]) -> Sim {
    let mut sim = sim.lasting(40 * MS * (settings.len() as u64 + 2));
    for (number, setting) in (1..).zip(settings) {
        let window = LeverSetting {
            window: number,
            ..*setting
        };
        sim = sim.set_at(40 * MS * u64::from(number), window);
    }
    sim.set_at(40 * MS * (settings.len() as u64 + 1), LeverSetting::FREE)
}

/// What was counted in each window.
fn windows(ran: &Ran) -> Vec<Counters> {
    let ends: Vec<&Published> = ran.published.iter().filter(|p| p.ends_window).collect();
    let pairs = ends.windows(2);
    let changes = pairs.map(|pair| {
        assert_eq!(pair[1].to_ns - pair[0].to_ns, 40 * MS);
        assert!(pair[1].window > 0);
        pair[1].totals.since(&pair[0].totals)
    });
    changes.collect()
}

#[test]
fn connections_are_held_back_and_let_go() {
    let half = LeverSetting {
        in_flight: 0.5,
        ..SHAM
    };
    let ran = in_turn(Sim::closed(20, 1), &[SHAM, half, SHAM]).http1(after(4 * MS));
    let windows = windows(&ran);
    let answered: Vec<u64> = windows.iter().map(|window| window.answered).collect();
    assert_eq!(answered, [200, 100, 200]);
    // What a lever holds back is not late.
    assert!(
        ran.samples
            .iter()
            .all(|s| s.done_ns - s.intended_ns == 4 * MS)
    );
}

#[test]
fn which_connections_are_held_back_goes_around() {
    let held = |turn| LeverSetting {
        in_flight: 0.75,
        turn,
        ..SHAM
    };
    let asked = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let note = std::rc::Rc::clone(&asked);
    let peer = Http1::new(move |asked: Asked| {
        note.borrow_mut().push((asked.now, asked.conn));
        says(4 * MS, ANSWER)
    });
    let ran = in_turn(Sim::closed(4, 1), &[held(0), held(1)]).http1(peer);
    let zero_ns = ran.zero_ns;
    let idle = |from_ns: u64, to_ns: u64| -> Vec<u32> {
        let asked = asked.borrow();
        let within = |at: u64| (zero_ns + from_ns..zero_ns + to_ns).contains(&at);
        let used = |conn| asked.iter().any(|(at, of)| *of == conn && within(*at));
        (0..4).filter(|conn| !used(*conn)).collect()
    };
    assert_eq!(idle(41 * MS, 80 * MS), [3]);
    assert_eq!(idle(81 * MS, 120 * MS), [2]);
}

#[test]
fn depth_is_held_back_where_connections_are_few() {
    let half = LeverSetting {
        in_flight: 0.5,
        ..SHAM
    };
    let sim = in_turn(Sim::closed(1, 10), &[SHAM, half]);
    let ran = sim.http1(one_by_one(MS));
    let windows = windows(&ran);
    assert_eq!(windows[0].in_flight_area, u128::from(10 * 40 * MS));
    // Half as many in a queue wait half as long.
    let waited = |at_ns: u64| {
        let sample = ran.samples.iter().find(|s| s.done_ns == at_ns).unwrap();
        sample.done_ns - sample.intended_ns
    };
    assert_eq!(waited(70 * MS), 10 * MS);
    assert_eq!(waited(110 * MS), 5 * MS);
}

#[test]
fn spare_connections_bring_a_quarter_more() {
    let more = LeverSetting {
        in_flight: 1.25,
        ..SHAM
    };
    let mut sim = Sim::closed(8, 1);
    sim.spare = 2;
    let ran = in_turn(sim, &[SHAM, more]).http1(after(4 * MS));
    let windows = windows(&ran);
    let answered: Vec<u64> = windows.iter().map(|window| window.answered).collect();
    assert_eq!(answered, [80, 100]);
    // They were opened when they were first asked for.
    assert_eq!(ran.connects(), [80 * MS; 2]);
}

#[test]
fn a_pause_before_each_request_slows_a_closed_loop() {
    let thinking = LeverSetting {
        think: Nanos(4 * MS),
        ..SHAM
    };
    let ran = in_turn(Sim::closed(5, 1), &[SHAM, thinking, SHAM]).http1(after(4 * MS));
    let windows = windows(&ran);
    let answered: Vec<u64> = windows.iter().map(|window| window.answered).collect();
    assert_eq!(answered, [50, 25, 50]);
    assert!(
        ran.samples
            .iter()
            .all(|s| s.done_ns - s.intended_ns == 4 * MS)
    );
}

#[test]
fn an_open_loop_changes_its_pace_from_an_instant_on() {
    let slower = LeverSetting { pace: 0.5, ..SHAM };
    let ran = in_turn(Sim::open(8, 2_000.0), &[SHAM, slower, SHAM]).http1(after(MS / 4));
    let windows = windows(&ran);
    let scheduled: Vec<u64> = windows.iter().map(|window| window.scheduled).collect();
    assert_eq!(scheduled, [80, 40, 80]);
    let starts: Vec<u64> = ran.samples.iter().map(|s| s.intended_ns).collect();
    let gap = |at_ns: u64| {
        let at = starts.iter().position(|start| *start >= at_ns).unwrap();
        starts[at + 1] - starts[at]
    };
    assert_eq!(gap(60 * MS), MS / 2);
    assert_eq!(gap(100 * MS), MS);
}

#[test]
fn what_is_overdue_when_nothing_is_counted_stays_unsent() {
    // One connection carries 100 a second of 1,000.
    let free = LeverSetting::FREE;
    let ran = Sim::open(1, 1_000.0)
        .set_at(55 * MS, free)
        .http1(after(10 * MS));
    let starts: Vec<u64> = ran.samples.iter().map(|s| s.intended_ns).collect();
    // Those up to 5 ms were sent when levers were set; then those from 56 ms on.
    assert_eq!(
        starts[..7],
        [0, MS, 2 * MS, 3 * MS, 4 * MS, 5 * MS, 56 * MS]
    );
}

#[test]
fn a_bound_of_requests_in_flight_is_lowered_and_raised() {
    let left = |in_flight| LeverSetting { in_flight, ..SHAM };
    let sim = Sim::closed(20, 1).max_in_flight(10);
    let settings = [SHAM, left(0.5), left(1.25)];
    let ran = in_turn(sim, &settings).http1(after(4 * MS));
    let windows = windows(&ran);
    let answered: Vec<u64> = windows.iter().map(|window| window.answered).collect();
    assert_eq!(answered[0], 100);
    assert_eq!(answered[1], 50);
    assert_eq!(answered[2], 130);
}

/// Nanoseconds in which a worker worked, and in which it spun for a lever, of 100 ms: the speed that it has all the time, and
/// what the lever leaves of it.
fn worked_and_spun(always: f64, lever: f64) -> (f64, f64) {
    let slow = LeverSetting {
        speed: Some(lever),
        ..SHAM
    };
    let mut sim = Sim::closed(4, 1);
    // An event takes 10 µs of the worker.
    sim.event_ns = 10_000;
    sim.speed = always;
    let ran = sim.set_at(0, slow).http1(after(0));
    let totals = ran.last();
    ((totals.events * 10_000) as f64, totals.spun_ns as f64)
}

#[test]
fn a_worker_at_half_speed_spins_as_long_as_it_works() {
    let (worked_ns, spun_ns) = worked_and_spun(1.0, 0.5);
    let off = spun_ns / worked_ns - 1.0;
    // Readings of the clock are work too, and 20 µs of spinning may be owed.
    assert!((-0.01..0.1).contains(&off), "{off}");
    let all_ns = spun_ns + worked_ns;
    assert!((0.95..=1.01).contains(&(all_ns / 1e8)), "{all_ns}");
}

#[test]
fn of_a_worker_that_is_always_slow_the_spin_of_a_lever_is_told() {
    let (worked_ns, spun_ns) = worked_and_spun(0.5, 0.8);
    // Of 100 ms it works for 40, and a fifth of them is the lever's.
    assert!((0.9..1.01).contains(&(worked_ns / 4e7)), "{worked_ns}");
    assert!((0.95..1.01).contains(&(spun_ns / 2e7)), "{spun_ns}");
}

#[test]
fn a_longer_form_is_sent_while_a_lever_asks_for_it() {
    let padded = LeverSetting { form: 2, ..SHAM };
    let ran = in_turn(Sim::closed(2, 1), &[SHAM, padded, SHAM]).http1(after(4 * MS));
    let windows = windows(&ran);
    let bytes: Vec<u64> = windows.iter().map(|window| window.bytes_out).collect();
    assert_eq!(bytes[0], bytes[2]);
    // 400 bytes more of each of the 20 requests.
    assert_eq!(bytes[1], bytes[0] + 20 * 400);
}

#[test]
fn at_a_server_that_ends_each_connection_none_waits_without_a_request() {
    // With a connection open on which nothing is sent, a squeeze would take a thread of the server.
    let fewer = LeverSetting {
        in_flight: 0.5,
        ..SHAM
    };
    let peer = Http1::new(|_| [says(4 * MS, LAST_ANSWER), closes(4 * MS)].concat());
    let ran = in_turn(Sim::closed(8, 1), &[SHAM, fewer, SHAM]).http1(peer);
    let windows = windows(&ran);
    let answered: Vec<u64> = windows.iter().map(|window| window.answered).collect();
    assert_eq!(answered, [80, 40, 80]);
    let open = |at: usize| {
        let ends: Vec<&Published> = ran.published.iter().filter(|p| p.ends_window).collect();
        ends[at + 1].open_area - ends[at].open_area
    };
    assert_eq!(open(0), u128::from(8 * 40 * MS));
    // Four are closed and stay so.
    assert_eq!(open(1), u128::from(4 * 40 * MS));
}
