//! Whatever a peer does, each request is accounted for once: checked after every publication of runs that are drawn at
//! random (see [`super::super::world`]).

use proptest::prelude::*;
use wallfinder_model::{Arrival, Nanos, Rate};
use wallfinder_sys::Errno;
use wallfinder_wire::random::mixed;

use super::super::http1::{ANSWER, Asked, Http1, LAST_ANSWER, closes};
use super::super::http2::{Frame, GOAWAY, HEADERS, Http2, RST_STREAM, answer, frame};
use super::super::peer::{Connect, Does, Script, Take, says};
use super::super::world::{MS, Sim};

/// Draws of a seed, one after the other.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = mixed(self.0);
        self.0 % sides
    }

    fn delay_ns(&mut self) -> u64 {
        self.roll(6_000) * 1_000
    }
}

fn does_anything(dice: &mut Dice) -> Script {
    let after_ns = dice.delay_ns();
    match dice.roll(24) {
        0 => closes(after_ns),
        1 => vec![(after_ns, Does::Resets(Errno::CONNRESET))],
        2 => [says(after_ns, LAST_ANSWER), closes(after_ns)].concat(),
        3 => Script::new(),
        4 => says(after_ns, b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
        5 => says(after_ns, b"HTTP/9.9 what?\r\n\r\n"),
        6 => says(after_ns, &ANSWER[..25]),
        7 => [says(after_ns, &ANSWER[..25]), says(after_ns, &ANSWER[25..])].concat(),
        8 => vec![(after_ns, Does::Resets(Errno::NOBUFS))],
        _ => says(after_ns, ANSWER),
    }
}

fn http1_peer(seed: u64) -> Http1<impl FnMut(Asked) -> Script> {
    let (mut serving, mut connecting) = (Dice(seed), Dice(seed ^ 1));
    let mut taking = Dice(seed ^ 2);
    Http1::new(move |_| does_anything(&mut serving))
        .connecting(move |_, _, _| match connecting.roll(8) {
            0 => Connect::Refuse {
                after_ns: connecting.delay_ns(),
                errno: Errno::CONNREFUSED,
            },
            1 => Connect::Local(Errno::MFILE),
            _ => Connect::Accept {
                after_ns: connecting.delay_ns(),
            },
        })
        .taking(move |_, _, _| match taking.roll(10) {
            0 => Take::Part(9),
            1 => Take::Later(taking.delay_ns()),
            2 if taking.roll(4) == 0 => Take::Broken(Errno::PIPE),
            _ => Take::All,
        })
}

fn http2_peer(seed: u64) -> Http2<impl FnMut(Frame) -> Script> {
    let mut dice = Dice(seed);
    Http2::new(&[0, 3, 0, 0, 0, 4], move |asked| {
        if asked.kind != HEADERS {
            return Script::new();
        }
        let after_ns = dice.delay_ns();
        match dice.roll(16) {
            0 => says(
                after_ns,
                &frame(RST_STREAM, 0, asked.stream, &7_u32.to_be_bytes()),
            ),
            1 => says(
                after_ns,
                &frame(RST_STREAM, 0, asked.stream, &2_u32.to_be_bytes()),
            ),
            2 => {
                let mut last = asked.stream.to_be_bytes().to_vec();
                last.extend_from_slice(&[0; 4]);
                let goes = says(after_ns, &frame(GOAWAY, 0, 0, &last));
                [goes, says(after_ns + MS, &answer(asked.stream))].concat()
            }
            3 => Script::new(),
            4 => vec![(after_ns, Does::Closes)],
            _ => says(after_ns, &answer(asked.stream)),
        }
    })
}

fn arrivals() -> impl Strategy<Value = Arrival> {
    let closed = (0_u64..3).prop_map(|ms| Arrival::Closed {
        think: Nanos(ms * MS),
    });
    let rate = 100.0_f64..5_000.0;
    let even = rate
        .clone()
        .prop_map(|rate| Arrival::Constant { rate: Rate(rate) });
    let random = rate.prop_map(|rate| Arrival::Poisson { rate: Rate(rate) });
    prop_oneof![closed, even, random]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn each_request_is_accounted_for_once(
        seed in any::<u64>(),
        arrival in arrivals(),
        connections in 1_u32..8,
        depth in 1_u32..5,
        bound in proptest::option::of(1_u32..10),
        requests in proptest::option::of(1_u64..200),
        timeout_ms in 1_u64..12,
        streams in any::<bool>(),
    ) {
        let mut sim = Sim::closed(connections, depth).timeout(timeout_ms * MS).lasting(150 * MS);
        sim.load.arrival = arrival;
        sim.load.max_in_flight = bound;
        sim.load.stop.requests = requests;
        sim.seed = seed;
        let ran = match streams {
            true => sim.http2(0, http2_peer(seed)),
            false => sim.http1(http1_peer(seed)),
        };
        if !ran.end.speaks_otherwise {
            let totals = ran.last();
            prop_assert_eq!(
                totals.scheduled,
                totals.answered + totals.failed_total() + totals.in_flight + totals.backlog()
            );
            if let Some(bound) = bound {
                let mean = ran.last().in_flight_area as f64 / (150 * MS) as f64;
                prop_assert!(mean <= f64::from(bound) + 1e-9 || ran.end.drained_ns > 0, "{}", mean);
            }
            if let Some(requests) = requests {
                prop_assert!(totals.scheduled <= requests);
            }
        }
    }
}
