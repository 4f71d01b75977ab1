//! Sessions: steps in order on one connection, with pauses; what breaks one off; and rows that are used once.

use std::cell::RefCell;
use std::rc::Rc;

use wallfinder_model::Nanos;
use wallfinder_model::drive::Edge;
use wallfinder_sys::Errno;
use wallfinder_wire::Redirect;
use wallfinder_wire::Request;
use wallfinder_wire::mix::{
    Cells, Expect, Flow, Follow, Kind, Known, Mix, Order, Piece, Protocol, Replay, Row, Slot,
    Spelling, Step, Table, Template, Text, Think, Value,
};

use super::super::http1::{ANSWER, Asked, Http1, LAST_ANSWER, after};
use super::super::peer::{Connect, Script, says};
use super::super::world::{MS, Sim};
use crate::mix::FlowCounts;

const REDIRECT: &[u8] = b"HTTP/1.1 302 Found\r\nLocation: /c\r\nContent-Length: 0\r\n\r\n";
const REFUSED: &[u8] = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";

fn kind(path: &str) -> Kind {
    Kind {
        name: path.to_owned(),
        request: Template::from(&Request::get("sim", path)),
        call: None,
        expect: Expect::default(),
    }
}

fn step(kind: u16, think: Think) -> Step {
    Step {
        kind,
        think,
        hop: None,
        continues: false,
    }
}

/// `/a`, then `/b` after a pause, then `/c`; and `/x` by itself, so many times as often.
fn mix(think: Think, alone: u32) -> Mix {
    let session = Flow {
        name: "session".to_owned(),
        weight: 1,
        steps: vec![step(0, Think::None), step(1, think), step(2, Think::None)],
        walks: None,
    };
    let alone = Flow {
        name: "alone".to_owned(),
        weight: alone,
        steps: vec![step(3, Think::None)],
        walks: None,
    };
    let flows = [session, alone];
    Mix {
        protocol: Protocol::Http1,
        kinds: ["/a", "/b", "/c", "/x"].map(kind).into(),
        flows: flows.into_iter().filter(|flow| flow.weight > 0).collect(),
        tables: Vec::new(),
        variables: 0,
        known: Known::default(),
        origins: Vec::new(),
        replay: None,
    }
}

/// Connections, and the letters of paths.
type Seen = Rc<RefCell<Vec<(u32, u8)>>>;

/// What came on each connection, by the letter of its path.
fn watched(
    serve: impl Fn(Asked) -> Script + 'static,
) -> (Seen, Http1<impl FnMut(Asked) -> Script>) {
    let seen = Seen::default();
    let of_peer = Rc::clone(&seen);
    let peer = Http1::new(move |asked| {
        of_peer.borrow_mut().push((asked.conn, asked.path));
        serve(asked)
    });
    (seen, peer)
}

/// Whether each connection had nothing but whole sessions and requests alone, but for its end.
fn are_in_order(seen: &[(u32, u8)], connections: u32) {
    for conn in 0..connections {
        let own: String = seen
            .iter()
            .filter(|(of, _)| *of == conn)
            .map(|(_, path)| char::from(*path))
            .collect();
        let left = own.replace("abc", "").replace('x', "");
        assert!(["", "a", "ab"].contains(&left.as_str()), "{conn}: {own}");
    }
}

#[test]
fn steps_follow_each_other_on_one_connection_after_their_pauses() {
    let sim = Sim::closed(1, 1).lasting(94 * MS);
    let ran = sim.mixed(mix(Think::For(10 * MS), 0)).http1(after(5 * MS));
    // Three answers of 5 ms and a pause of 10: 25 ms each.
    let starts: Vec<u64> = ran
        .times()
        .iter()
        .map(|(intended, ..)| *intended / MS)
        .collect();
    assert_eq!(starts, [0, 15, 20, 25, 40, 45, 50, 65, 70, 75, 90]);
    let flow = ran.flows()[0];
    let want = FlowCounts {
        begun: 4,
        completed: 3,
        broken_off: 0,
    };
    assert_eq!(flow, want);
}

#[test]
fn what_expires_before_it_is_sent_fails_by_its_kind() {
    // Half begin sessions. The worker's thread stands still for 60 ms, and requests have 20.
    let ran = Sim::open(40, 1_000.0)
        .timeout(20 * MS)
        .stall(10 * MS + MS / 2, 60 * MS)
        .mixed(mix(Think::None, 1))
        .http1(after(MS / 4));
    let kinds = ran.kinds();
    assert_eq!(
        kinds[1].unsent + kinds[2].unsent,
        0,
        "later steps never begin"
    );
    for (kind, counts) in (0..).zip(&kinds) {
        let of_kind = || {
            ran.samples
                .iter()
                .filter(move |sample| sample.kind == kind && sample.failed != 0)
        };
        let unsent = of_kind().filter(|sample| sample.sent_ns == 0).count() as u64;
        assert_eq!(counts.unsent, unsent, "{kind}");
        assert_eq!(
            counts.failed.iter().sum::<u64>(),
            of_kind().count() as u64,
            "{kind}"
        );
    }
    let all: u64 = kinds.iter().map(|kind| kind.unsent).sum();
    assert_eq!(all, ran.last().expired_unsent);
    let share = kinds[0].unsent as f64 / all as f64;
    assert!(all == 40 && (0.2..0.8).contains(&share), "{share} of {all}");
}

#[test]
fn sessions_and_requests_alone_share_connections_in_order() {
    for seed in 1..20 {
        let (seen, peer) = watched(|asked| says((1 + asked.number % 3) * MS, ANSWER));
        let mut sim = Sim::closed(5, 1);
        sim.seed = seed;
        sim.mixed(mix(Think::Between(0, 4 * MS), 2)).http1(peer);
        are_in_order(&seen.borrow(), 5);
    }
}

#[test]
fn an_open_loop_begins_by_its_schedule_and_steps_follow_their_answers() {
    // 100 sessions a second, of which each lasts 25 ms: two or three at a time.
    let (seen, peer) = watched(|_| says(5 * MS, ANSWER));
    let sim = Sim::open(6, 100.0).lasting(995 * MS);
    let ran = sim.mixed(mix(Think::For(10 * MS), 0)).http1(peer);
    are_in_order(&seen.borrow(), 6);
    let mut began: Vec<u64> = Vec::new();
    for sample in ran.samples.iter().filter(|sample| sample.kind == 0) {
        began.push(sample.intended_ns / MS);
    }
    assert_eq!(began, (0..100).map(|k| 10 * k).collect::<Vec<u64>>());
    let totals = ran.at(Edge::Close);
    // Two had their second and third steps to come.
    assert_eq!(totals.scheduled, totals.answered + totals.in_flight);
    let flow = ran.flows()[0];
    assert_eq!((flow.begun, flow.broken_off), (100, 0));
    assert!(flow.completed >= 97, "{flow:?}");
}

#[test]
fn sessions_that_hold_all_connections_hold_up_those_that_are_to_begin() {
    // One connection, sessions of 25 ms, and one due each 10 ms: latency of the first step grows, and that shows.
    let ran = Sim::open(1, 100.0)
        .lasting(99 * MS)
        .mixed(mix(Think::For(10 * MS), 0))
        .http1(after(5 * MS));
    let firsts = ran.samples.iter().filter(|sample| sample.kind == 0);
    let late: Vec<u64> = firsts
        .map(|sample| (sample.sent_ns.max(1) - sample.intended_ns.max(1)) / MS)
        .collect();
    assert_eq!(late, [0, 15, 30, 45]);
    assert!(ran.at(Edge::Close).backlog() >= 6);
}

#[test]
fn a_failed_step_breaks_its_session_off_and_is_counted() {
    let (seen, peer) = watched(|asked| match asked.path {
        b'a' if asked.number.is_multiple_of(2) => says(MS, REFUSED),
        _ => says(MS, ANSWER),
    });
    let ran = Sim::closed(1, 1).mixed(mix(Think::None, 0)).http1(peer);
    let seen: String = seen
        .borrow()
        .iter()
        .map(|(_, path)| char::from(*path))
        .collect();
    // No step comes behind a login that failed.
    assert!(
        seen.starts_with("aabcaabc") || seen.starts_with("aabcabc"),
        "{seen}"
    );
    let flow = ran.flows()[0];
    assert!(flow.broken_off > 10 && flow.completed > 10, "{flow:?}");
    assert_eq!(ran.failed()["status.4xx"], flow.broken_off);
}

#[test]
fn a_session_continues_behind_a_refused_step_that_says_so_after_the_next_ones_pause() {
    let lasting = |ms: u64| ms * MS + MS / 2;
    for (sim, want) in [
        (
            Sim::closed(1, 1).lasting(lasting(16)),
            [0, 4, 5, 6, 10, 11, 12, 16],
        ),
        (
            Sim::open(1, 100.0).lasting(lasting(24)),
            [0, 4, 5, 10, 14, 15, 20, 24],
        ),
    ] {
        let mut mix = mix(Think::For(3 * MS), 0);
        mix.flows[0].steps[0].continues = true;
        let (seen, peer) = watched(|asked| match asked.path {
            b'a' => says(MS, REFUSED),
            _ => says(MS, ANSWER),
        });
        let ran = sim.mixed(mix).http1(peer);
        are_in_order(&seen.borrow(), 1);
        let times = ran.times();
        let starts: Vec<u64> = times.iter().map(|(intended, ..)| *intended / MS).collect();
        assert_eq!(starts, want);
        let counts = FlowCounts {
            begun: 3,
            completed: 2,
            broken_off: 0,
        };
        assert_eq!(ran.flows()[0], counts);
        assert_eq!(ran.failed()["status.4xx"], 3);
    }
}

#[test]
fn a_session_continues_behind_a_step_without_an_answer_that_says_so() {
    let (never, ends) = (Script::new(), super::super::http1::closes(MS));
    for (sim, lacks) in [
        (Sim::closed(1, 1), never.clone()),
        (Sim::open(1, 50.0), never),
        (Sim::closed(1, 1), ends.clone()),
        (Sim::open(1, 50.0), ends),
    ] {
        let mut mix = mix(Think::None, 0);
        mix.flows[0].steps[1].continues = true;
        let (seen, peer) = watched(move |asked| match asked.path {
            b'b' => lacks.clone(),
            _ => says(MS, ANSWER),
        });
        let ran = sim.timeout(10 * MS).mixed(mix).http1(peer);
        are_in_order(&seen.borrow(), 1);
        let flow = ran.flows()[0];
        assert_eq!(flow.broken_off, 0, "{flow:?}");
        assert!(flow.completed > 3, "{flow:?}");
        // One step of each failed, that of the last perhaps not yet.
        let failed = ran.last().failed_total();
        let ends = flow.completed..=flow.begun;
        assert!(ends.contains(&failed), "{failed}: {flow:?}");
    }
}

#[test]
fn a_session_goes_on_where_its_connection_was_opened_anew() {
    // Every answer is the last of its connection.
    let (seen, peer) = watched(|_| says(MS, LAST_ANSWER));
    for sim in [Sim::closed(2, 1), Sim::open(2, 100.0)] {
        let ran = sim
            .mixed(mix(Think::For(3 * MS), 0))
            .http1(watched(|_| says(MS, LAST_ANSWER)).1);
        let flow = ran.flows()[0];
        assert_eq!(flow.broken_off, 0, "{flow:?}");
        assert!(flow.completed > 3, "{flow:?}");
    }
    Sim::closed(1, 1).mixed(mix(Think::None, 0)).http1(peer);
    are_in_order(&seen.borrow(), 1);
}

#[test]
fn steps_that_expire_unsent_leave_their_connections_to_others() {
    // From 100 ms on the server is away for 300, and requests wait for 30 at the most.
    let away = 100 * MS..400 * MS;
    for (sim, continues) in [
        (Sim::open(2, 50.0), false),
        (Sim::closed(2, 1), false),
        (Sim::open(2, 50.0), true),
        (Sim::closed(2, 1), true),
    ] {
        let (serves, connects) = (away.clone(), away.clone());
        let mut zero_ns = None;
        let peer = Http1::new(move |asked: Asked| {
            let zero = *zero_ns.get_or_insert(asked.now);
            match serves.contains(&(asked.now - zero)) {
                true => super::super::http1::closes(MS),
                false => says(MS, LAST_ANSWER),
            }
        });
        let mut first_ns = None;
        let peer = peer.connecting(move |_, _, now| {
            let first = *first_ns.get_or_insert(now);
            match connects.contains(&(now - first).saturating_sub(10 * MS)) {
                true => Connect::Refuse {
                    after_ns: 0,
                    errno: Errno::CONNREFUSED,
                },
                false => Connect::Accept { after_ns: 0 },
            }
        });
        let sim = sim.lasting(1_500 * MS).timeout(30 * MS);
        let mut mix = mix(Think::For(10 * MS), 0);
        for step in &mut mix.flows[0].steps[..2] {
            step.continues = continues;
        }
        let ran = sim.mixed(mix).http1(peer);
        let late = ran
            .samples
            .iter()
            .filter(|sample| sample.intended_ns > 1_000 * MS);
        let good = late.clone().filter(|sample| sample.failed == 0).count();
        assert!(good > 20, "{good} of {}", late.count());
    }
}

#[test]
fn a_lost_connection_breaks_off_the_session_whose_request_was_in_flight() {
    let ran = Sim::closed(1, 1)
        .mixed(mix(Think::None, 0))
        .http1(Http1::new(|asked: Asked| match asked.number {
            4 => super::super::http1::closes(MS),
            _ => says(MS, ANSWER),
        }));
    let flow = ran.flows()[0];
    assert_eq!(flow.broken_off, 1, "{flow:?}");
    assert_eq!(ran.last().failed_total(), 1);
    // And the next one begins at its first step.
    assert!(flow.completed > 10, "{flow:?}");
}

/// `/a`, what it redirects to, and `/b`.
fn redirecting() -> Mix {
    let mut mix = mix(Think::None, 0);
    mix.flows[0].steps = vec![
        step(0, Think::None),
        Step {
            hop: Some(Redirect::ToGet),
            ..step(2, Think::None)
        },
        step(1, Think::None),
    ];
    mix.kinds[0].expect.follow = Follow::Yes;
    mix.kinds[2].expect.follow = Follow::Spent;
    mix.kinds[2].request.target = Text(vec![Piece::Slot(Slot {
        value: Value::Location,
        spelling: Spelling::Path,
    })]);
    mix
}

#[test]
fn a_session_that_continues_passes_over_the_redirects_of_a_step_that_failed() {
    for (refused, want) in [(b'a', "ababab"), (b'c', "acbacb")] {
        let mut mix = redirecting();
        for step in &mut mix.flows[0].steps[..2] {
            step.continues = true;
        }
        let (seen, peer) = watched(move |asked| match asked.path {
            path if path == refused => says(MS, REFUSED),
            b'a' => says(MS, REDIRECT),
            _ => says(MS, ANSWER),
        });
        let sim = Sim::closed(1, 1).lasting(5 * MS + MS / 2);
        let ran = sim.mixed(mix).http1(peer);
        let seen: Vec<u8> = seen.borrow().iter().map(|(_, path)| *path).collect();
        assert_eq!(String::from_utf8_lossy(&seen), want);
        assert_eq!(ran.flows()[0].broken_off, 0);
    }
}

#[test]
fn a_redirect_is_followed_where_there_is_one_and_passed_over_where_there_is_none() {
    let (seen, peer) = watched(|asked| match (asked.path, asked.number) {
        (b'a', 0) => says(MS, REDIRECT),
        _ => says(MS, ANSWER),
    });
    let sim = Sim::closed(1, 1).lasting(6 * MS);
    let ran = sim.mixed(redirecting()).http1(peer);
    let seen: String = seen
        .borrow()
        .iter()
        .map(|(_, path)| char::from(*path))
        .collect();
    assert_eq!(seen, "acbabab");
    assert_eq!(ran.last().failed_total(), 0);
}

/// `/x` with a column in its path.
fn with_rows(order: Order, rows: usize) -> Mix {
    let mut mix = mix(Think::None, 1);
    mix.flows.remove(0);
    mix.flows[0].walks = order.is_walked().then_some(0);
    let row = |nth: usize| Row(vec![format!("{nth}").into_bytes()]);
    mix.tables = vec![Table {
        name: "ids".to_owned(),
        order,
        columns: vec!["id".to_owned()],
        cells: Cells::from((0..rows).map(row).collect::<Vec<Row>>()),
    }];
    mix.kinds[3].request.target = Text(vec![
        Piece::Fixed(b"/".to_vec()),
        Piece::Slot(Slot {
            value: Value::Column {
                table: 0,
                column: 0,
            },
            spelling: Spelling::Url,
        }),
    ]);
    mix
}

#[test]
fn rows_are_used_once_and_the_load_ends_with_them() {
    for sim in [Sim::closed(3, 1), Sim::closed(2, 2), Sim::open(3, 1_000.0)] {
        let ran = sim
            .lasting(90 * MS)
            .mixed(with_rows(Order::Once, 9))
            .http1(after(2 * MS));
        let totals = ran.at(Edge::Close);
        assert_eq!((totals.scheduled, totals.answered), (9, 9));
        assert_eq!(totals.backlog(), 0);
        // It has ended before its time.
        assert!(ran.published.last().unwrap().to_ns < 50 * MS);
    }
}

#[test]
fn what_was_logged_is_sent_when_it_was_logged() {
    let mut mix = with_rows(Order::InOrder, 3);
    mix.replay = Some(Replay {
        at_ns: vec![0, 7 * MS, 8 * MS],
        flows: vec![0, 0, 0],
        again_after_ns: None,
    });
    let replayed = |mix: &Mix| {
        let mut sim = Sim::open(4, 1.0).lasting(50 * MS);
        sim.load.arrival = wallfinder_model::Arrival::Replay {
            requests: 3,
            over: Nanos(8 * MS),
            speed: 1.0,
            again: mix
                .replay
                .as_ref()
                .is_some_and(|replay| replay.again_after_ns.is_some()),
        };
        let (seen, peer) = watched(|_| says(MS, ANSWER));
        let ran = sim.mixed(mix.clone()).http1(peer);
        let starts: Vec<u64> = ran
            .times()
            .iter()
            .map(|(intended, ..)| *intended / MS)
            .collect();
        let rows: String = seen
            .borrow()
            .iter()
            .map(|(_, path)| char::from(*path))
            .collect();
        (starts, rows)
    };
    assert_eq!(replayed(&mix), (vec![0, 7, 8], "012".to_owned()));
    mix.replay.as_mut().unwrap().again_after_ns = Some(20 * MS);
    assert_eq!(
        replayed(&mix),
        (
            vec![0, 7, 8, 20, 27, 28, 40, 47, 48],
            "012012012".to_owned()
        )
    );
}
