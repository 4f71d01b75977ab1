//! Nothing was full: too little in flight, or a wait inside the server?
//!
//! One step alone seldom tells. Work in parallel that merely takes long (a round trip, an
//! asynchronous sleep) grows with what is in flight; a pool, a limiter or a sleeping lock
//! does not. Only the neighbouring steps of a ramp decide ([`crate::ramp`]); so the
//! confidence here is low, unless the time of a request is explained.

use wallfinder_model::detail::AtSockets;
use wallfinder_model::evidence::{Evidence, Fact};
use wallfinder_model::reason::{Side as Which, TimeOf};
use wallfinder_model::{Arrival, Detail, Reason, Wall};

use super::Conclusion;
use super::client::ceiling_share;
use super::finding::{self, Finding};
use super::sight::Sight;
use crate::finite::{known, ratio, share};
use crate::way;

/// Use above this, without being full, is neither slack nor a wall.
const NEITHER: f64 = 0.80;

/// With so few in flight a resource is never full, and yet its speed counts: one request at
/// a time that spends two thirds of its time at the client is the client's for two thirds.
const FEW: f64 = 8.0;
/// Use by which, with few in flight, a resource holds the greater part of a request's time.
const GREATER_PART: f64 = 0.62;

/// The verdict where no resource was surely full.
pub(super) fn conclude(sight: &Sight, nearest: Option<&Finding>) -> Conclusion {
    let mut facts = Vec::new();
    if let Some((wall, used)) = greater_part(sight) {
        facts.extend(in_flight(sight));
        facts.extend(elsewhere(sight, &[]));
        let reason = Reason::GreaterPart { wall, busy: used };
        return Conclusion::inconclusive(reason, facts);
    }
    if let Some(near) = nearest.filter(|finding| finding.level >= NEITHER) {
        facts.extend(near.evidence.iter().cloned());
        facts.extend(elsewhere(sight, &[near.wall]));
        facts.extend(in_flight(sight));
        let reason = Reason::Nearest { full: near.full() };
        return Conclusion::inconclusive(reason, facts);
    }
    facts.extend(in_flight(sight));
    facts.extend(elsewhere(sight, &[]));
    [
        accept_queue,
        think_time,
        held_back,
        one_at_a_time,
        explained,
        windows,
        timer,
        between_hosts,
    ]
    .into_iter()
    .find_map(|rule| rule(sight))
    .map(|mut conclusion| {
        conclusion.evidence.extend(facts.clone());
        conclusion
    })
    .unwrap_or_else(|| guess(sight, facts))
}

/// The resource that holds most of the time of a request, where only few are in flight.
fn greater_part(sight: &Sight) -> Option<(Wall, f64)> {
    let server = sight.server.as_ref().filter(|side| side.available <= 1.0);
    let client = sight
        .client_busy()
        .filter(|_| sight.workers.as_ref().is_none_or(|l| l.count == 1));
    [
        (Wall::ServerCpu, server.map(|side| side.utilisation)),
        (Wall::ClientCpu, client),
        (Wall::Downlink, sight.downlink),
        (Wall::Uplink, sight.uplink),
    ]
    .into_iter()
    .filter_map(|(wall, used)| Some((wall, used?)))
    .filter(|(_, used)| sight.step.in_flight_mean <= FEW && *used >= GREATER_PART)
    .max_by(|a, b| a.1.total_cmp(&b.1))
}

/// What was not full, as evidence: the load generator, the server, the link.
pub(super) fn elsewhere(sight: &Sight, walls: &[Wall]) -> Vec<Evidence> {
    let mut facts = Vec::new();
    if let (false, Some(busy)) = (walls.contains(&Wall::ClientCpu), sight.client_busy()) {
        facts.push(Evidence::new(
            "client.busy",
            busy,
            Fact::ClientBusy { share: busy },
        ));
        facts.extend(sight.ceiling_share.map(|share| ceiling_share(share, None)));
    }
    let server_named = walls.contains(&Wall::ServerCpu) || walls.contains(&Wall::ServerSerial);
    if let (false, Some(side)) = (server_named, &sight.server) {
        facts.push(finding::used(side, Which::Server));
    }
    for (wall, used) in [
        (Wall::Downlink, sight.downlink),
        (Wall::Uplink, sight.uplink),
    ] {
        if let (false, Some(used)) = (walls.contains(&wall), used) {
            facts.push(finding::link_use(wall, used));
        }
    }
    if let Some(tcp) = sight.step.telemetry.tcp {
        let resent = ratio(tcp.retransmits as f64, tcp.segments_out as f64);
        if let Some(share) = resent.filter(|share| *share > 0.001) {
            facts.push(Evidence::new(
                "tcp.retransmits",
                share,
                Fact::SentAgain { share },
            ));
        }
        if tcp.listen_overflows > 0 {
            facts.push(overflows(tcp.listen_overflows as f64));
        }
    }
    facts
}

/// How much was in flight and how long it took.
pub(super) fn in_flight(sight: &Sight) -> Vec<Evidence> {
    let step = sight.step;
    if step.load.in_flight_bound() == 0 {
        return Vec::new();
    }
    let mut facts = vec![Evidence::new(
        "load.in_flight",
        step.in_flight_mean,
        Fact::InFlight {
            mean: known(step.in_flight_mean).unwrap_or(0.0),
            most: step.load.in_flight_bound(),
        },
    )];
    facts.extend(
        sight
            .response_s
            .map(|seconds| Evidence::new("load.response_s", seconds, Fact::Response { seconds })),
    );
    facts
}

/// Connections that found the accept queue full.
fn overflows(connections: f64) -> Evidence {
    let fact = Fact::AcceptQueue { connections };
    Evidence::new("tcp.listen_overflows", connections, fact)
}

fn accept_queue(sight: &Sight) -> Option<Conclusion> {
    let tcp = sight.step.telemetry.tcp?;
    let overflows = tcp.listen_overflows.max(tcp.listen_drops) as f64;
    let own = sight.step.counts.connects;
    let opened = tcp.opens_passive.max(own) as f64;
    // The kernel counts for all listeners of the namespace: who keeps its connections knocks at no door.
    let knocks = own > 0 || sight.workers.is_none();
    if overflows < 10.0 || overflows < 0.01 * opened || !knocks {
        return None;
    }
    let reason = Reason::AcceptQueue {
        connections: overflows,
    };
    let facts = vec![self::overflows(overflows)];
    Some(Conclusion::new(Wall::Wait, 0.6, reason, facts).with_detail(Some(Detail::AcceptQueue)))
}

fn think_time(sight: &Sight) -> Option<Conclusion> {
    let Arrival::Closed { think } = sight.step.load.arrival else {
        return None;
    };
    let think_s = think.as_secs_f64();
    let response = sight.response_s?;
    let share = ratio(think_s, think_s + response)?;
    if share < 0.8 {
        return None;
    }
    let reason = Reason::ThinkTime {
        pause_s: think_s,
        response_s: response,
    };
    let facts = vec![Evidence::new(
        "load.think_share",
        share,
        Fact::Pausing { share },
    )];
    let conclusion = Conclusion::new(Wall::Concurrency, 0.8, reason, facts);
    Some(conclusion.with_detail(Some(Detail::ThinkTime)))
}

/// Far less in flight than the load allows: the client's side holds it back.
fn held_back(sight: &Sight) -> Option<Conclusion> {
    let step = sight.step;
    let most = step.load.in_flight_bound() as f64;
    let pausing = matches!(step.load.arrival, Arrival::Closed { think } if think.0 > 0);
    if step.load.arrival.is_open() || pausing || step.load.connection_per_request {
        return None;
    }
    let share = ratio(step.in_flight_mean, most)?;
    if share > 0.5 || most < 4.0 || step.in_flight_mean <= 0.0 {
        return None;
    }
    let reason = Reason::HeldBack {
        allowed: most,
        in_flight: step.in_flight_mean,
    };
    let fact = Fact::OfAllowed { share };
    let facts = vec![Evidence::new("load.in_flight_share", share, fact)];
    let conclusion = Conclusion::new(Wall::Concurrency, 0.6, reason, facts);
    Some(conclusion.with_detail(Some(Detail::ClientLimit)))
}

fn one_at_a_time(sight: &Sight) -> Option<Conclusion> {
    // 0: what a driver keeps in flight is not known.
    (sight.step.load.in_flight_bound() == 1 && !sight.step.load.arrival.is_open()).then(|| {
        let facts = vec![Evidence::new("load.in_flight_max", 1.0, Fact::OneAtATime)];
        Conclusion::new(Wall::Concurrency, 0.75, Reason::OneAtATime, facts)
    })
}

/// The time of a request is the work of both sides, or the round trip: nothing queues.
fn explained(sight: &Sight) -> Option<Conclusion> {
    let response = sight.response_s?;
    let server = sight.server.as_ref()?;
    let client = sight.client.as_ref().map_or(0.0, |side| side.used);
    let work = ratio(server.used + client, sight.throughput)?;
    let rtt = sight
        .step
        .telemetry
        .server_sockets
        .as_ref()
        .map_or(0.0, |sockets| f64::from(way::round_trip_us(sockets)) / 1e6);
    let (seconds, by) = if work / response >= 0.6 {
        (work, TimeOf::Work)
    } else if rtt >= 0.001 && rtt / response >= 0.7 {
        (rtt, TimeOf::RoundTrip)
    } else {
        return None;
    };
    let share = (seconds / response).min(1.0);
    let reason = Reason::Explained {
        by,
        response_s: response,
        part_s: seconds.min(response),
    };
    let fact = Fact::Explained { by, share };
    let facts = vec![Evidence::new("load.explained_share", share, fact)];
    Some(Conclusion::new(Wall::Concurrency, 0.7, reason, facts))
}

/// Each connection held by its window: more connections would carry more.
fn windows(sight: &Sight) -> Option<Conclusion> {
    let sockets = sight.step.telemetry.server_sockets.as_ref()?;
    if share(sockets.busy_share?) <= 0.5 {
        return None;
    }
    let (limited, what) = if sockets.receive_window_limited_share > 0.3 {
        (
            sockets.receive_window_limited_share,
            AtSockets::ReceiveWindow,
        )
    } else if sockets.send_buffer_limited_share > 0.3 {
        (sockets.send_buffer_limited_share, AtSockets::SendBuffer)
    } else {
        return None;
    };
    let share = limited;
    let reason = Reason::WindowLimited { what, share };
    let fact = Fact::AtSockets { what, share };
    let facts = vec![Evidence::new("sockets.limited_share", share, fact)];
    let conclusion = Conclusion::new(Wall::Concurrency, 0.55, reason, facts);
    Some(conclusion.with_detail(Some(Detail::PerConnection { what })))
}

/// The delayed acknowledgement's 40 ms, in front of every answer.
fn timer(sight: &Sight) -> Option<Conclusion> {
    let time_of = sight
        .step
        .service
        .as_ref()
        .or(sight.step.latency.as_ref())?;
    let p50_ms = time_of.quantile_ns("p50")? as f64 / 1e6;
    let mean_ms = time_of.mean_ns / 1e6;
    let at_timer = |ms: f64| (39.5..46.0).contains(&ms);
    // The kernel's round trip has the timer in it where only some answers are acknowledged late;
    // a first byte that came at once came over the whole of the way.
    let first_byte = sight.step.first_byte.as_ref();
    let at_once = first_byte.is_some_and(|times| times.count > 0 && times.mean_ns < 10e6);
    let sockets = sight.step.telemetry.server_sockets.as_ref();
    let quick_rtt =
        at_once || sockets.is_none_or(|sockets| !(20_000..=30_000).contains(&sockets.rtt_p50_us));
    // What is sent stays unacknowledged all that while; who merely takes so long has sent nothing. A request that
    // is answered late is acknowledged late as well, so the client's sockets count where the server's are not seen.
    let telemetry = &sight.step.telemetry;
    let sockets = telemetry.server_sockets.as_ref();
    let sockets = sockets.or(telemetry.client_sockets.as_ref());
    let busy = sockets.and_then(|sockets| sockets.busy_share);
    let unacknowledged = busy.is_some_and(|busy| share(busy) > 0.5);
    if !at_timer(p50_ms) || !at_timer(mean_ms) || !quick_rtt || !unacknowledged {
        return None;
    }
    let reason = Reason::DelayedAck { ms: p50_ms };
    let facts = vec![Evidence::new(
        "load.p50_ms",
        p50_ms,
        Fact::Median { ms: p50_ms },
    )];
    Some(Conclusion::new(Wall::Wait, 0.5, reason, facts).with_detail(Some(Detail::DelayedAck)))
}

/// Answers on their way to another host for most of the time: what lies between is full, or slow.
fn between_hosts(sight: &Sight) -> Option<Conclusion> {
    let reason = way::taken_up(sight.step, false)?;
    Some(Conclusion::new(Wall::Downlink, 0.6, reason, Vec::new()))
}

/// Nothing decides; the number in flight makes one of the two likelier.
fn guess(sight: &Sight, facts: Vec<Evidence>) -> Conclusion {
    let cores = [&sight.client, &sight.server]
        .into_iter()
        .flatten()
        .map(|side| side.available)
        .sum::<f64>()
        .max(1.0);
    let few = sight.step.in_flight_mean <= 8.0 * cores;
    let (wall, confidence) = match few {
        true => (Wall::Concurrency, 0.4),
        false => (Wall::Wait, 0.35),
    };
    Conclusion::new(wall, confidence, Reason::NothingFull { few }, facts)
}
