//! The law over queues that are simulated: what edges and failures do is no alarm, and what is
//! miscounted is one.

use proptest::prelude::*;
use wallfinder_model::plan::Arrival;
use wallfinder_model::record::Drained;
use wallfinder_model::{Nanos, Rate, Step};

use super::*;
use crate::double::{Noise, a_step};
use crate::histogram;

/// One request: when it was sent, when it ended, and whether it failed.
struct Request {
    sent_s: f64,
    done_s: f64,
    failed: bool,
}

/// A queue before so many servers, and what drives it.
#[derive(Debug, Clone)]
struct Queue {
    seed: u64,
    servers: usize,
    service_s: f64,
    /// This share of the requests takes so many times as long.
    slow: (f64, f64),
    /// Clients of a closed loop; `None`: arrivals at random, at this load of the servers.
    clients: Option<usize>,
    load: f64,
    timeout_s: f64,
    /// Share of requests that end as failures when they would have ended well.
    refused: f64,
    /// How long answers are waited for when the window is over.
    drain_s: f64,
}

impl Queue {
    /// The requests of a while, the first third of which is warm-up.
    fn run(&self, until_s: f64) -> Vec<Request> {
        let mut noise = Noise::new(self.seed);
        let mut free = vec![0.0f64; self.servers];
        let mut requests = Vec::new();
        // When each client sends next.
        let mut clients = vec![0.0f64; self.clients.unwrap_or(1)];
        loop {
            let next = (0..clients.len())
                .min_by(|a, b| clients[*a].total_cmp(&clients[*b]))
                .expect("there is one");
            let sent_s = clients[next];
            if sent_s > until_s {
                return requests;
            }
            let server = (0..free.len())
                .min_by(|a, b| free[*a].total_cmp(&free[*b]))
                .expect("there is one");
            let slower = match noise.uniform() < self.slow.0 {
                true => self.slow.1,
                false => 1.0,
            };
            let service_s = -(1.0 - noise.uniform()).ln() * self.service_s * slower;
            free[server] = free[server].max(sent_s) + service_s;
            let (mut done_s, mut failed) = (free[server], noise.uniform() < self.refused);
            if done_s - sent_s > self.timeout_s {
                (done_s, failed) = (sent_s + self.timeout_s, true);
            }
            requests.push(Request {
                sent_s,
                done_s,
                failed,
            });
            clients[next] = match self.clients {
                Some(_) => done_s,
                None => {
                    let apart = self.service_s / (self.load * self.servers as f64);
                    sent_s - (1.0 - noise.uniform()).ln() * apart
                }
            };
        }
    }

    /// A window of these requests as a step. Where little happens it is long enough for some answers.
    fn step(&self, window_s: f64) -> Step {
        let (from, to) = (window_s / 2.0, 1.5 * window_s);
        let requests = self.run(to);
        let within = |at: f64| at >= from && at < to;
        let good: Vec<&Request> = requests
            .iter()
            .filter(|request| within(request.done_s) && !request.failed)
            .collect();
        let failed = requests
            .iter()
            .filter(|request| within(request.done_s) && request.failed)
            .count();
        let area_s: f64 = requests
            .iter()
            .map(|request| (request.done_s.min(to) - request.sent_s.max(from)).max(0.0))
            .sum();
        let at = |edge: f64| {
            let under_way = |request: &&Request| request.sent_s < edge && request.done_s >= edge;
            requests.iter().filter(under_way).count() as u64
        };
        // What was under way at the end is waited for; who ends in that time has a time that is known.
        let over = to + self.drain_s;
        let (awaited, unanswered): (Vec<&Request>, Vec<&Request>) = requests
            .iter()
            .filter(|request| request.sent_s < to && request.done_s >= to)
            .partition(|request| request.done_s < over);
        let (awaited_failed, awaited): (Vec<&Request>, Vec<&Request>) =
            awaited.into_iter().partition(|request| request.failed);
        let ages = unanswered.iter().map(|request| over - request.sent_s);
        let drained = Drained {
            waited_ns: (self.drain_s * 1e9) as u64,
            answered: awaited.len() as u64,
            failed: awaited_failed.len() as u64,
            in_flight: unanswered.len() as u64,
            not_sent: 0,
            oldest_ns: (ages.fold(0.0, f64::max) * 1e9) as u64,
        };
        let times = good
            .iter()
            .copied()
            .chain(awaited)
            .map(|request| ((request.done_s - request.sent_s) * 1e9) as u64 + 1);
        let service = histogram::tests::of(times).to_record();
        a_step()
            .with(|step| {
                step.window_ns = (window_s * 1e9) as u64;
                step.counts.answered = good.len() as u64;
                let class = "timeout.total".to_owned();
                step.counts.failed.insert(class, failed as u64);
                step.counts.in_flight_start = at(from);
                step.counts.in_flight_end = at(to);
                step.throughput = good.len() as f64 / window_s;
                step.in_flight_mean = area_s / window_s;
                step.latency = Some(service.clone());
                step.service = Some(service);
                step.drained = Some(drained);
                step.load.timeout = Nanos((self.timeout_s * 1e9) as u64);
                if self.clients.is_none() {
                    step.load.arrival = Arrival::Constant { rate: Rate(1.0) };
                }
            })
            .build()
    }
}

fn queue() -> impl Strategy<Value = Queue> {
    (
        any::<u64>(),
        1..6usize,
        prop_oneof![Just(0.0), 0.0..0.1f64],
        prop_oneof![Just(None), (1..40usize).prop_map(Some)],
        0.02..0.9f64,
        prop_oneof![Just(1e9), 0.01..0.3f64],
        prop_oneof![Just(0.0), Just(0.0), 0.0..0.2f64],
        prop_oneof![Just(0.0), Just(1e9), 0.0..0.1f64],
    )
        .prop_map(
            |(seed, servers, slow, clients, load, timeout_s, refused, drain_s)| Queue {
                seed,
                servers,
                service_s: 0.010,
                slow: (slow, 20.0),
                clients,
                load,
                timeout_s,
                refused,
                drain_s,
            },
        )
}

proptest! {
    #[test]
    fn what_is_counted_rightly_is_never_doubted(queue in queue(), window_s in 0.1..4.0f64) {
        let step = queue.step(window_s);
        if let Some(little) = check(&step) {
            prop_assert!(little.holds(), "{little:?}");
        }
    }

    #[test]
    fn what_is_counted_wrongly_is_doubted(
        mut queue in queue(),
        off in prop_oneof![0.2..0.7f64, 1.4..4.0f64],
        which in 0..3u32,
    ) {
        // Enough answers, no failures, and no queue that grows without end: nothing explains a third.
        (queue.refused, queue.timeout_s) = (0.0, 1e9);
        queue.slow.0 = queue.slow.0.min(0.02);
        queue.load = queue.load.clamp(0.2, 0.5);
        let mut step = queue.step(60.0);
        match which {
            0 => step.in_flight_mean *= off,
            1 => step.throughput *= off,
            _ => {
                for time in step.service.iter_mut().chain(&mut step.latency) {
                    time.mean_ns *= off;
                }
            }
        }
        let little = check(&step).expect("there are answers");
        prop_assert!(!little.holds(), "{little:?}");
    }
}

/// A server of which each answer takes 100 ms, asked by one client that waits.
fn few(answers: u64) -> Step {
    let times = (0..answers).map(|_| 100_000_000);
    let service = histogram::tests::of(times).to_record();
    a_step()
        .with(|step| {
            step.counts.answered = answers;
            step.throughput = answers as f64 / (step.window_ns as f64 / 1e9);
            // One was under way when the window closed, all of its 100 ms but for a bit.
            step.counts.in_flight_end = 1;
            let area_s = 0.1 * answers as f64 + 0.099;
            step.in_flight_mean = area_s * 1e9 / step.window_ns as f64;
            step.service = Some(service);
        })
        .build()
}

#[test]
fn twenty_answers_and_one_under_way_are_no_alarm() {
    let mut step = few(20);
    let little = check(&step).unwrap();
    assert!(little.holds() && !little.agrees(), "{little:?}");
    assert_eq!(little.caveat(), None);
    // Without the one that was under way there is nothing that explains it.
    step.counts.in_flight_end = 0;
    assert!(check(&step).unwrap().caveat().is_some());
}

/// One answer in twenty takes longer than anybody waits for it, and twenty-seven are under way at the end.
#[test]
fn what_had_no_answer_at_the_end_was_in_flight() {
    let mut step = few(500);
    // On average they came in the middle of the window.
    let half_s = step.window_ns as f64 / 2e9;
    step.in_flight_mean += 27.0 * half_s * 1e9 / step.window_ns as f64;
    step.counts.in_flight_end = 28;
    assert!(check(&step).unwrap().caveat().is_some());
    step.drained = Some(Drained {
        answered: 0,
        failed: 0,
        in_flight: 28,
        oldest_ns: step.window_ns,
        ..Drained::default()
    });
    assert_eq!(check(&step).unwrap().caveat(), None);
}

#[test]
fn who_was_never_sent_was_never_in_flight() {
    let mut step = few(1_000);
    step.counts.failed.insert("timeout.total".into(), 500);
    step.load.timeout = Nanos::from_secs(1);
    // As if all of them had been in flight for a second each.
    step.in_flight_mean += 500.0 * 1e9 / step.window_ns as f64;
    assert_eq!(check(&step).unwrap().caveat(), None);
    step.counts.expired_unsent = 500;
    assert!(check(&step).unwrap().caveat().is_some());
}

#[test]
fn what_timed_out_was_in_flight_too() {
    let mut step = few(1_000);
    step.counts.failed.insert("timeout.total".into(), 10);
    step.load.timeout = Nanos::from_secs(5);
    // Ten that waited for five seconds each.
    step.in_flight_mean += 50.0 * 1e9 / step.window_ns as f64;
    assert_eq!(check(&step).unwrap().caveat(), None);
    // A hundred would not.
    step.in_flight_mean += 450.0 * 1e9 / step.window_ns as f64;
    assert!(check(&step).unwrap().caveat().is_some());
}

#[test]
fn the_law_holds_for_the_mean_and_not_for_the_median() {
    // 100,000 in flight at 18.16 M/s stay 5.5 ms on average, whatever the median is.
    let step = a_step()
        .throughput(18_164_736.0)
        .in_flight(100_000.0)
        .latency_ms(5.505, 4.0)
        .build();
    let little = check(&step).unwrap();
    assert!(little.holds(), "{little:?}");
    assert!((little.n_over_x_s * 1e3 - 5.505).abs() < 0.001);
    assert!((little.ratio_p50.unwrap() - 1.376).abs() < 0.001);
}

#[test]
fn numbers_that_disagree_are_doubted() {
    let step = a_step()
        .throughput(1_000.0)
        .in_flight(10.0)
        .latency_ms(5.0, 5.0)
        .build();
    let little = check(&step).unwrap();
    assert_eq!(little.caveat(), Some(Caveat::LittleMismatch { ratio: 2.0 }));
}

#[test]
fn without_latency_there_is_nothing_to_compare() {
    let mut step = a_step().throughput(1_000.0).build();
    step.service = None;
    step.latency = None;
    assert_eq!(check(&step), None);
}

#[test]
fn counts_at_their_limits_do_not_overflow() {
    let mut step = few(20);
    step.counts.in_flight_start = u64::MAX;
    step.counts.in_flight_end = u64::MAX;
    step.counts.failed.insert("a".into(), u64::MAX);
    step.counts.failed.insert("b".into(), u64::MAX);
    step.window_ns = u64::MAX;
    let little = check(&step).unwrap();
    assert!(little.explained.0 >= 0.0 && little.explained.1 >= 1.0);
}
