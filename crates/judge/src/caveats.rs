//! Doubt about one step, by fixed thresholds.
//!
//! A threshold stands where a careful colleague would raise a hand; the report words the
//! advice. What only the run knows (a gap, a stepped clock, an unread report) is added by
//! the run, not here.

use std::collections::BTreeMap;
use std::mem::discriminant;

use wallfinder_model::reason::Side;
use wallfinder_model::record::ThroughputFrom;
use wallfinder_model::telemetry::{FamilySummary, LinkSummary, RelaySummary, Telemetry};
use wallfinder_model::{Arrival, Caveat, Environment, Step};

use crate::finite::{known, positive, share};
use crate::{bounds, identity, little, steady, unanswered};

/// Share of stolen processor time that is worth a word.
pub const STEAL_MAX: f64 = 0.02;
/// Share of failures that is worth a word.
pub const ERRORS_MAX: f64 = 0.001;
/// Lateness of a worker (99.9th percentile) that is worth a word, as a floor; above it, a
/// tenth of the median latency is allowed.
pub const LATE_NS_MAX: u64 = 1_000_000;
/// Fewer answers than this make a poor 99th percentile.
pub const ANSWERS_MIN: u64 = 1_000;
/// Answers for each request in flight, below which those under way at a window's ends count: they
/// may all come just before or just after.
pub const TURNS_MIN: u64 = 10;
/// Cores of a neighbour, per processor of the side, that are worth a word.
pub const NEIGHBOUR_MAX: f64 = 0.05;
/// Softirq share of one side's processors that is worth a word.
pub const SOFTIRQ_MAX: f64 = 0.10;
/// Share of throttled quota periods that is worth a word.
pub const THROTTLED_MAX: f64 = 0.01;
/// How late a link's relay may be with a hundredth of its packets, at the most; below it, a
/// tenth of the delay is allowed.
pub const RELAY_LATE_NS_MAX: u64 = 1_000_000;
/// Share of a processor above which a link's relay may be the limit.
pub const RELAY_BUSY_MAX: f64 = 0.70;
/// Share of the asked rate below which it was missed.
pub const RATE_MIN: f64 = 0.98;
/// A window this much shorter than planned was cut.
const WINDOW_MIN: f64 = 0.95;

/// Every doubt that a step's own numbers raise. A kind that was already met while
/// measuring ([`Step::caveats`]) is not raised again.
pub fn of_step(step: &Step, environment: &Environment) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    caveats.extend(
        unanswered::unreachable(step).map(|away| Caveat::Unreachable {
            at_ns: away.at_ns,
            for_ns: away.for_ns,
            window_ns: step.window_ns,
            outages: away.outages,
        }),
    );
    caveats.extend(failures(step));
    caveats.extend(unanswered::redirects(step));
    caveats.extend(bounds::unanswered(step));
    caveats.extend(bounds::late_by_client(step));
    caveats.extend(bounds::fewer_connections(step));
    let tls = step.target.tls.as_ref();
    caveats.extend(tls.filter(|tls| !tls.verified).map(|_| Caveat::NotVerified));
    caveats.extend(little::check(step).and_then(|little| little.caveat()));
    caveats.extend(steady::change(step).map(|change| change.caveat()));
    caveats.extend(schedule(step));
    caveats.extend(samples(step));
    caveats.extend(machine(step, environment));
    caveats.extend(odd(step));
    caveats.extend(step.telemetry.relay.as_ref().and_then(of_relay));
    caveats.extend(step.telemetry.link.as_ref().and_then(of_card));
    let kinds: Vec<_> = step.caveats.iter().map(discriminant).collect();
    caveats.retain(|caveat| {
        matches!(caveat, Caveat::Anomaly { .. } | Caveat::Note { .. })
            || !kinds.contains(&discriminant(caveat))
    });
    if step.clients.iter().any(|client| client.lost.is_some()) {
        // That a host is missing is why, and it is told.
        let follows = |caveat: &Caveat| {
            matches!(
                caveat,
                Caveat::LittleMismatch { .. } | Caveat::FewerConnections { .. }
            )
        };
        caveats.retain(|caveat| !follows(caveat));
    }
    caveats
}

/// What a card's driver counts of more sent than is allowed.
pub(crate) fn exceeded(link: &LinkSummary) -> impl Iterator<Item = (&String, &u64)> {
    let counted = link.card.iter();
    counted.filter(|(name, _)| name.ends_with("_exceeded"))
}

fn of_card(link: &LinkSummary) -> Option<Caveat> {
    let exceeded = exceeded(link);
    let counted: BTreeMap<String, u64> = exceeded.map(|(name, n)| (name.clone(), *n)).collect();
    (!counted.is_empty()).then(|| Caveat::AllowanceExceeded {
        interface: link.interface.clone(),
        counted,
    })
}

/// Whether the relay of a link kept to its delay, with room to spare.
pub fn of_relay(relay: &RelaySummary) -> Option<Caveat> {
    let busy_share = relay.busy_share();
    let late_ns_max = RELAY_LATE_NS_MAX.min(relay.delay_ns / 10);
    let kept =
        relay.dropped == 0 && relay.late_p99_ns <= late_ns_max && busy_share <= RELAY_BUSY_MAX;
    (!kept).then_some(Caveat::RelayBehind {
        delay_ns: relay.delay_ns,
        dropped: relay.dropped,
        late_p99_ns: relay.late_p99_ns,
        busy_share,
    })
}

/// Mean stolen share of the processors that a side may use; of all, where that is unknown.
pub(crate) fn steal(step: &Step) -> f64 {
    let used = step.telemetry.cores_in_use();
    let shares = used.iter().map(|core| share(f64::from(core.steal)));
    let shares: Vec<f64> = shares.collect();
    crate::finite::mean(&shares).unwrap_or(0.0)
}

/// The rate asked for over the window, in an open loop.
pub(crate) fn asked_rate(step: &Step) -> Option<f64> {
    match step.load.arrival {
        Arrival::Closed { .. } => None,
        // The rate of a mix with sessions is that of what begins, and steps follow.
        Arrival::Constant { rate } | Arrival::Poisson { rate } if step.sessions.is_empty() => {
            positive(rate.0)
        }
        _ => positive(step.counts.scheduled as f64 * 1e9 / step.window_ns as f64),
    }
}

/// How much less of the asked rate a schedule may come to by itself, as a share: where the window cuts it one
/// request is in or out, and a Poisson schedule asks for a random number, of which three deviations are
/// its own.
pub(crate) fn schedule_chance(step: &Step) -> f64 {
    let scheduled = step.counts.scheduled.max(1) as f64;
    match step.load.arrival {
        Arrival::Poisson { .. } => 3.0 / scheduled.sqrt(),
        _ => 1.0 / scheduled,
    }
}

/// Processors count their time in ticks of 10 ms: of a window below ten of them shares tell nothing.
const TELEMETRY_NS_MIN: u64 = 100_000_000;

/// Whether a window is too short for the shares of its processors to mean anything.
pub fn is_too_short(telemetry: &Telemetry) -> bool {
    telemetry.window_ns < TELEMETRY_NS_MIN
}

/// Telemetry alone stands still where full processors leave it no room: of the gaps that it found,
/// calls those by that name in which our workers went on. Of a foreign driver the two cannot be told apart.
pub fn tell_gaps_apart(step: &mut Step) {
    let intervals = &step.intervals;
    // The slice in which workers stood still is as long as that took.
    let workers_worked = |from_ns: u64, to_ns: u64| {
        let half_ns = (to_ns - from_ns) / 2;
        let within = intervals.iter().filter(|slice| {
            let begin_ns = slice.at_ns.saturating_sub(slice.span_ns);
            let is_within = begin_ns >= from_ns && slice.at_ns <= to_ns;
            is_within && slice.answered > 0 && slice.span_ns < half_ns
        });
        within.fold(0u64, |sum, slice| sum.saturating_add(slice.span_ns)) >= half_ns
    };
    for caveat in &mut step.caveats {
        let Caveat::Gap { gap_ns, at_ns } = *caveat else {
            continue;
        };
        if workers_worked(at_ns, at_ns.saturating_add(gap_ns)) {
            *caveat = Caveat::TelemetryGap { gap_ns, at_ns };
        }
    }
}

/// Share of the window in which everything stood still, the workers too, 0..1. Gaps are placed from the
/// start of the step, its warm-up included.
pub(crate) fn still_share(step: &Step) -> f64 {
    // Windows of an experiment that held a gap were measured again; a driver may have worked.
    if step.experiment.is_some() || step.driver.command.is_some() {
        return 0.0;
    }
    let from_ns = step.load.warmup.0;
    let to_ns = from_ns.saturating_add(step.window_ns);
    let gaps = step.caveats.iter().filter_map(|caveat| match caveat {
        Caveat::Gap { gap_ns, at_ns } => {
            let end_ns = at_ns.saturating_add(*gap_ns).min(to_ns);
            Some(end_ns.saturating_sub(*at_ns.max(&from_ns)))
        }
        _ => None,
    });
    let still_ns = gaps.fold(0u64, u64::saturating_add);
    match step.window_ns {
        0 => 0.0,
        window_ns => (still_ns as f64 / window_ns as f64).min(1.0),
    }
}

fn failures(step: &Step) -> Option<Caveat> {
    let share = identity::failure_share(&step.counts);
    (share > ERRORS_MAX).then(|| Caveat::Errors {
        share,
        class: identity::worst_class(&step.counts)
            .unwrap_or("unknown")
            .to_owned(),
    })
}

/// Lateness, the rate missed, the backlog, the cut window.
fn schedule(step: &Step) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let late = step.lateness.as_ref().and_then(|h| h.quantile_ns("p99.9"));
    let median = step.latency.as_ref().and_then(|h| h.quantile_ns("p50"));
    let allowed = LATE_NS_MAX.max(median.unwrap_or(0) / 10);
    if let Some(p999_ns) = late.filter(|late| *late > allowed) {
        caveats.push(Caveat::WorkersLate { p999_ns });
    }
    if let Some(asked) = asked_rate(step) {
        let counts = &step.counts;
        let unsent = counts.not_sent.max(0) as f64 + counts.expired_unsent as f64;
        let sent = (counts.scheduled as f64 - unsent).max(0.0);
        let sent = known(sent * 1e9 / step.window_ns as f64);
        let least = (RATE_MIN - schedule_chance(step)) * asked;
        if let Some(sent) = sent.filter(|sent| *sent < least) {
            caveats.push(Caveat::RateMissed { asked, sent });
        }
        let grown = u64::try_from(counts.not_sent).unwrap_or(0);
        if grown as f64 > (0.01 * counts.scheduled as f64).max(10.0) {
            caveats.push(Caveat::Backlog { requests: grown });
        }
    }
    // A count of requests may end the window early, as planned, and a log ends by itself.
    let ends_by_itself = matches!(step.load.arrival, Arrival::Replay { again: false, .. });
    let planned_ns = step.load.stop.after.0;
    let cut = (step.window_ns as f64) < WINDOW_MIN * planned_ns as f64;
    if cut && step.load.stop.requests.is_none() && !ends_by_itself && step.window_ns > 0 {
        caveats.push(Caveat::WindowCut {
            planned_ns,
            actual_ns: step.window_ns,
        });
    }
    caveats
}

fn samples(step: &Step) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let answers = step.counts.answered;
    if (1..ANSWERS_MIN).contains(&answers) {
        caveats.push(Caveat::FewAnswers { answers });
    }
    let in_flight = step.load.in_flight_bound();
    if !step.load.arrival.is_open() && (1..TURNS_MIN * in_flight).contains(&answers) {
        caveats.push(Caveat::FewTurns { answers, in_flight });
    }
    let beyond = step.latency.as_ref().map_or(0, |h| h.beyond);
    if beyond > 0 {
        caveats.push(Caveat::BeyondHistogram { count: beyond });
    }
    if step.driver.throughput_from == ThroughputFrom::Wire {
        caveats.push(Caveat::DriverReportUnread { why: String::new() });
    }
    caveats
}

/// Steal, shared processors, neighbours, throttling, receive work on the wrong side.
fn machine(step: &Step, environment: &Environment) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let telemetry = &step.telemetry;
    let stolen = steal(step);
    if stolen > STEAL_MAX {
        caveats.push(Caveat::StealAbove { share: stolen });
    }
    let sides = [
        (Side::Client, &telemetry.client),
        (Side::Server, &telemetry.server),
    ];
    if telemetry.server.is_none() && telemetry.samples > 0 {
        caveats.push(Caveat::ServerNotSeen { why: String::new() });
    }
    let shared = shared_cpus(step);
    let is_here = telemetry.server_host.is_none();
    let both_here = is_here && telemetry.client.is_some() && telemetry.server.is_some();
    for (side, family) in sides {
        let Some(family) = family else { continue };
        let cpus = family.cpus_allowed.len().max(1) as f64;
        let others = neighbour_cores(family);
        if others > NEIGHBOUR_MAX * cpus {
            caveats.push(Caveat::Neighbour {
                side,
                cores: others,
            });
        }
        let throttled = share(family.throttled_share);
        if throttled > THROTTLED_MAX {
            caveats.push(Caveat::Throttled {
                side,
                share: throttled,
            });
        }
        // On loopback and veth, receive work runs where the sender runs. With sides on
        // processors of their own it is then charged to the wrong one.
        let softirq = share(family.cpus_softirq);
        if softirq > SOFTIRQ_MAX && shared.is_empty() && both_here {
            caveats.push(Caveat::SoftirqElsewhere {
                side,
                share: softirq,
            });
        }
    }
    if !shared.is_empty() {
        caveats.push(Caveat::SharedProcessors { cpus: shared });
    }
    let (workers, cpus) = (step.workers.len(), environment.cpus_allowed.len());
    if cpus > 0 && workers > cpus {
        caveats.push(Caveat::WorkersTakeTurns {
            workers: workers as u64,
            cpus: cpus as u64,
        });
    }
    caveats
}

fn odd(step: &Step) -> impl Iterator<Item = Caveat> {
    let met = |what: &str| {
        let is = |caveat: &Caveat| matches!(caveat, Caveat::Anomaly { what: w, .. } if w == what);
        step.caveats.iter().any(is)
    };
    step.counts
        .anomalies
        .iter()
        .filter(move |(what, count)| **count > 0 && !met(what))
        .map(|(what, count)| Caveat::Anomaly {
            what: what.clone(),
            count: *count,
        })
}

/// Processors that both sides may run on. Two families on more processors than they could
/// fill still meet there, for the scheduler places them where it likes.
pub(crate) fn shared_cpus(step: &Step) -> Vec<u32> {
    let telemetry = &step.telemetry;
    let (Some(client), Some(server), None) =
        (&telemetry.client, &telemetry.server, &telemetry.server_host)
    else {
        return Vec::new();
    };
    client
        .cpus_allowed
        .iter()
        .copied()
        .filter(|cpu| server.cpus_allowed.contains(cpu))
        .collect()
}

/// Cores of a side's processors that others used. Interrupts are nobody's process: the probe has
/// taken off those that no thread was charged with, where it could tell them.
pub(crate) fn neighbour_cores(family: &FamilySummary) -> f64 {
    let untold = match family.interrupt_cores.and_then(known) {
        Some(_) => 0.0,
        None => interrupt_cores(family),
    };
    (known(family.neighbour_cores).unwrap_or(0.0) - untold).max(0.0)
}

/// Cores of a side's processors that worked on interrupts in nobody's thread; where that was not
/// told, all of their softirq.
pub(crate) fn interrupt_cores(family: &FamilySummary) -> f64 {
    let cpus = family.cpus_allowed.len().max(1) as f64;
    let told = family.interrupt_cores.and_then(known);
    told.unwrap_or(share(family.cpus_softirq) * cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::{DoubleStep, a_machine, a_step, times};
    use wallfinder_model::Nanos;

    fn kinds(step: DoubleStep) -> Vec<Caveat> {
        of_step(&step.build(), &a_machine())
    }

    #[test]
    fn a_relay_is_doubted_when_it_lost_was_late_or_busy() {
        let kept = RelaySummary {
            delay_ns: 20_000_000,
            span_ns: 1_000,
            late_p99_ns: RELAY_LATE_NS_MAX,
            busy_ns: 600,
            cpu_ns: 700,
            ..RelaySummary::default()
        };
        assert_eq!(of_relay(&kept), None);
        let doubted = |relay: RelaySummary| of_relay(&relay).is_some();
        assert!(doubted(RelaySummary {
            dropped: 1,
            ..kept.clone()
        }));
        assert!(doubted(RelaySummary {
            cpu_ns: 701,
            ..kept.clone()
        }));
        assert!(doubted(RelaySummary {
            late_p99_ns: RELAY_LATE_NS_MAX + 1,
            ..kept.clone()
        }));
        // A tenth of a short delay is less.
        assert!(doubted(RelaySummary {
            delay_ns: 1_000_000,
            late_p99_ns: 100_001,
            ..kept
        }));
    }

    #[test]
    fn a_cards_allowance_is_told_apart_from_what_it_lost_otherwise() {
        let link = |names: &[&str]| LinkSummary {
            interface: "eth0".to_owned(),
            card: names.iter().map(|name| ((*name).to_owned(), 7)).collect(),
            ..LinkSummary::default()
        };
        assert_eq!(of_card(&link(&["rx_missed_errors"])), None);
        let told = of_card(&link(&["bw_out_allowance_exceeded", "rx_dropped"]));
        let counted = [("bw_out_allowance_exceeded".to_owned(), 7)];
        assert_eq!(
            told,
            Some(Caveat::AllowanceExceeded {
                interface: "eth0".to_owned(),
                counted: counted.into(),
            })
        );
    }

    #[test]
    fn a_clean_step_raises_no_doubt() {
        assert_eq!(kinds(a_step().latency_ms(6.4, 6.0)), []);
    }

    #[test]
    fn each_threshold_raises_its_own_doubt() {
        let found = kinds(a_step().throughput(50.0).with(|step| {
            step.counts.failed.insert("net.refused".into(), 5);
            step.counts
                .anomalies
                .insert("h1.length_and_chunked".into(), 3);
            step.telemetry.cores[0].steal = 0.05;
            step.telemetry.cores[1].steal = 0.05;
            step.lateness = Some(times(1.0, 0.1, 500));
            if let Some(lateness) = &mut step.lateness {
                lateness.quantiles_ns.insert("p99.9".into(), 9_000_000);
            }
            step.driver.throughput_from = ThroughputFrom::Wire;
            step.window_ns /= 2;
            let server = step.telemetry.server.as_mut().unwrap();
            server.neighbour_cores = 0.4;
            server.throttled_share = 0.2;
            let client = step.telemetry.client.as_mut().unwrap();
            client.cpus_softirq = 0.14;
        }));
        let has = |wanted: fn(&Caveat) -> bool| assert!(found.iter().any(wanted), "{found:#?}");
        has(|c| matches!(c, Caveat::Errors { class, .. } if class == "net.refused"));
        has(|c| matches!(c, Caveat::Anomaly { count: 3, .. }));
        has(|c| matches!(c, Caveat::StealAbove { share } if (share - 0.05).abs() < 1e-6));
        has(|c| matches!(c, Caveat::WorkersLate { p999_ns: 9_000_000 }));
        has(|c| matches!(c, Caveat::DriverReportUnread { .. }));
        has(|c| matches!(c, Caveat::WindowCut { .. }));
        has(|c| matches!(c, Caveat::FewAnswers { answers: 500 }));
        has(|c| {
            let few = Caveat::FewTurns {
                answers: 500,
                in_flight: 64,
            };
            *c == few
        });
        has(|c| {
            matches!(
                c,
                Caveat::Neighbour {
                    side: Side::Server,
                    ..
                }
            )
        });
        has(|c| {
            matches!(
                c,
                Caveat::Throttled {
                    side: Side::Server,
                    ..
                }
            )
        });
        has(|c| {
            matches!(
                c,
                Caveat::SoftirqElsewhere {
                    side: Side::Client,
                    ..
                }
            )
        });
    }

    #[test]
    fn softirq_that_threads_were_charged_with_hides_no_neighbour() {
        let of = |interrupt_cores: Option<f64>| FamilySummary {
            cpus_allowed: vec![0, 1],
            neighbour_cores: 0.5,
            cpus_softirq: 0.2,
            interrupt_cores,
            ..FamilySummary::default()
        };
        assert_eq!(neighbour_cores(&of(Some(0.04))), 0.5);
        assert_eq!(interrupt_cores(&of(Some(0.04))), 0.04);
        // A record that does not tell.
        assert!((neighbour_cores(&of(None)) - 0.1).abs() < 1e-9);
        assert_eq!(interrupt_cores(&of(None)), 0.4);
    }

    #[test]
    fn a_count_of_requests_ends_the_window_early_as_planned() {
        let found = kinds(a_step().latency_ms(6.4, 6.0).with(|step| {
            step.load.stop.requests = Some(1_000);
            step.window_ns /= 2;
        }));
        assert_eq!(found, []);
    }

    #[test]
    fn what_was_met_while_measuring_is_not_raised_again() {
        let found = kinds(a_step().with(|step| {
            step.telemetry.server = None;
            step.caveats.push(Caveat::ServerNotSeen {
                why: "another machine".into(),
            });
        }));
        assert!(
            !found
                .iter()
                .any(|c| matches!(c, Caveat::ServerNotSeen { .. }))
        );
    }

    #[test]
    fn a_ramp_of_rates_asks_for_what_became_due() {
        let mut step = a_step().throughput(1_000.0).build();
        step.load.arrival = wallfinder_model::Arrival::Ramp {
            from: wallfinder_model::Rate(1.0),
            to: wallfinder_model::Rate(2_000.0),
            over: Nanos::from_secs(10),
        };
        assert_eq!(asked_rate(&step), Some(1_000.0));
    }
}
