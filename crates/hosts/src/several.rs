//! Several servers behind one address, each on a host of its own: watched together, and squeezed together, so that what
//! is taken is taken from each alike.
//!
//! Their processors stand one host after the other, and numbers may stand there twice: two hosts have a processor 0 each.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wallfinder_model::Caveat;
use wallfinder_model::experiment::{Neighbour, OutOfReach, Squeeze};
use wallfinder_model::telemetry::{
    FamilySample, FamilySummary, HostSummary, LinkSample, LinkSummary, Sample, SocketsSummary,
    TcpSample, Telemetry,
};
use wallfinder_probe::Family;
use wallfinder_probe::sample::Setup;
use wallfinder_probe::stacks::Sampled;
use wallfinder_probe::waits::Waited;
use wallfinder_protocol::ProcessTimes;
use wallfinder_testbed::error::TestbedError;
use wallfinder_testbed::squeeze::{Check, Lever, Reach, Side};

use crate::at_once::at_once;
use crate::channel::HostError;
use crate::there::There;
use crate::{Backend, Host, Joint, Own, PaceOf, Sampling, ServerHost, Taking};

/// Use of processors that differs by more is told.
const UNEVEN_MIN: f64 = 0.2;

/// Servers behind one address.
#[derive(Debug)]
pub struct Several {
    name: String,
    servers: Vec<There>,
}

impl Several {
    /// These, of which there are two or more.
    pub fn of(servers: Vec<There>) -> Several {
        let names: Vec<&str> = servers.iter().filter_map(Host::name).collect();
        Several {
            name: names.join(" and "),
            servers,
        }
    }

    fn first(&self) -> &There {
        &self.servers[0]
    }
}

impl Host for Several {
    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn lost(&self) -> Option<HostError> {
        self.servers.iter().find_map(Host::lost)
    }

    fn sampler(&self, setup: Setup) -> Result<Box<dyn Sampling>, String> {
        let each = self.servers.iter().map(|server| {
            let paced = setup.paced_cpus.as_ref();
            server.sampler(Setup {
                paced_cpus: paced.map(|_| [server.processors(), Vec::new()]),
                ..setup.clone()
            })
        });
        Ok(sampled(
            each.collect::<Result<_, _>>()?,
            merged,
            uneven,
            Vec::new(),
        ))
    }

    fn pace(&self, _: Vec<u32>) -> PaceOf {
        let each = self.servers.iter();
        let each: Vec<PaceOf> = each
            .map(|server| server.pace(server.processors()))
            .collect();
        Box::new(move |from_ns, to_ns| mean(each.iter().filter_map(|pace| pace(from_ns, to_ns))))
    }

    fn levers(&self, own: Own) -> Reach {
        let reaches = self.servers.iter().map(|server| {
            let reach = server.levers(Own {
                side: Side {
                    cpus: server.processors(),
                    ..Side::default()
                },
                seed: own.seed,
                ..Own::default()
            });
            (server.name().unwrap_or_default().to_owned(), reach)
        });
        together(reaches.collect())
    }

    fn neighbours(&self, _: &[u32], known: &[u32], cores_min: f64) -> Vec<Neighbour> {
        let each = self.servers.iter();
        let each = each.flat_map(|server| {
            let of = server.neighbours(&server.processors(), known, cores_min);
            of.into_iter().map(|neighbour| Neighbour {
                name: format!(
                    "{} of {}",
                    neighbour.name,
                    server.name().unwrap_or_default()
                ),
                ..neighbour
            })
        });
        each.collect()
    }
}

impl ServerHost for Several {
    fn family(&self) -> Option<&Family> {
        None
    }

    fn is_seen(&self) -> bool {
        self.servers.iter().all(ServerHost::is_seen)
    }

    fn processors(&self) -> Vec<u32> {
        let each = self.servers.iter();
        each.flat_map(ServerHost::processors).collect()
    }

    fn times(&self) -> ProcessTimes {
        // Ids of several hosts would be taken for one another.
        ProcessTimes::default()
    }

    fn behind(&self) -> Vec<Backend> {
        Vec::new()
    }

    fn asked(&self) -> Vec<SocketAddr> {
        let mut asked: Vec<SocketAddr> = self.servers.iter().flat_map(ServerHost::asked).collect();
        asked.sort_unstable();
        asked.dedup();
        asked
    }

    fn processes(&self) -> u32 {
        self.servers.iter().map(ServerHost::processes).sum()
    }

    fn may_take_stacks(&self) -> Result<(), String> {
        self.first().may_take_stacks()
    }

    /// Of the first: they do the same.
    fn stacks(&self) -> Result<Box<dyn Taking<Sampled>>, String> {
        self.first().stacks()
    }

    fn waits(&self, most: Duration) -> Result<Box<dyn Taking<Waited>>, String> {
        self.first().waits(most)
    }
}

/// Levers of one resource on several hosts are one, of the same dose on each.
pub(crate) fn together(reaches: Vec<(String, Reach)>) -> Reach {
    let has = |reach: &Reach, squeeze: Squeeze| {
        let mut levers = reach.levers.iter();
        levers.any(|lever| lever.squeeze() == squeeze)
    };
    let everywhere = |squeeze: &Squeeze| reaches.iter().all(|(_, reach)| has(reach, *squeeze));
    let whole: Vec<Squeeze> = Squeeze::ALL.into_iter().filter(everywhere).collect();
    let sum = |of: fn(&Reach) -> Option<u64>| {
        let rates: Option<Vec<u64>> = reaches.iter().map(|(_, reach)| of(reach)).collect();
        rates.map(|rates| rates.iter().sum())
    };
    let mut reach = Reach {
        downlink_bits: sum(|reach| reach.downlink_bits),
        uplink_bits: sum(|reach| reach.uplink_bits),
        ..Reach::default()
    };
    let mut of: Vec<Alike> = whole.iter().map(|squeeze| Alike::of(*squeeze)).collect();
    for (name, here) in reaches {
        for out in here.out_of_reach {
            if !reach
                .out_of_reach
                .iter()
                .any(|known| known.squeeze == out.squeeze)
            {
                reach.out_of_reach.push(out);
            }
        }
        for lever in here.levers {
            let squeeze = lever.squeeze();
            match of.iter_mut().find(|alike| alike.squeeze == squeeze) {
                Some(alike) => alike.each.push(lever),
                None => {
                    let known = reach.out_of_reach.iter();
                    if !known.map(|out| out.squeeze).any(|known| known == squeeze) {
                        let why = format!("it can be had on {name}, and not on every host");
                        reach.out_of_reach.push(OutOfReach { squeeze, why });
                    }
                    // It stays, at no dose: where it is its host's first, windows of the others begin with it.
                    if let Some(first) = of.first_mut() {
                        first.beside.push(lever);
                    }
                }
            }
        }
    }
    let levers = of
        .into_iter()
        .map(|alike| Box::new(alike) as Box<dyn Lever>);
    reach.levers = levers.collect();
    reach
}

/// The levers of one resource, one for each host.
struct Alike {
    squeeze: Squeeze,
    each: Vec<Box<dyn Lever>>,
    /// Others that are never set.
    beside: Vec<Box<dyn Lever>>,
}

impl Alike {
    fn of(squeeze: Squeeze) -> Alike {
        Alike {
            squeeze,
            each: Vec::new(),
            beside: Vec::new(),
        }
    }
}

impl Lever for Alike {
    fn squeeze(&self) -> Squeeze {
        self.squeeze
    }

    fn how(&self) -> String {
        let each: Vec<String> = self.each.iter().map(|lever| lever.how()).collect();
        each.join("; ")
    }

    fn retained_min(&self) -> f64 {
        let each = self.each.iter().map(|lever| lever.retained_min());
        each.fold(0.0, f64::max)
    }

    fn set(&mut self, retained: f64) -> Result<(), TestbedError> {
        at_once(&mut self.each, |lever| lever.set(retained))
            .into_iter()
            .collect()
    }

    fn follow(&mut self, pids: &[u32]) -> Result<(), TestbedError> {
        at_once(&mut self.each, |lever| lever.follow(pids))
            .into_iter()
            .collect()
    }

    fn begin_window(&mut self) {
        at_once(&mut self.beside, |lever| lever.begin_window());
        at_once(&mut self.each, |lever| lever.begin_window());
    }

    fn end_window(&mut self) -> Check {
        at_once(&mut self.beside, |lever| lever.end_window());
        let checks = at_once(&mut self.each, |lever| lever.end_window());
        let retained: Option<Vec<f64>> = checks.iter().map(|check| check.retained).collect();
        let in_force: Option<Vec<bool>> = checks.iter().map(|check| check.in_force).collect();
        let texts: Vec<&str> = checks.iter().map(|check| check.text.as_str()).collect();
        Check {
            retained: retained.and_then(|each| mean(each.into_iter())),
            // One that is not holds back what the others would show.
            in_force: in_force.map(|each| each.into_iter().all(|is| is)),
            text: texts.join("; "),
        }
    }
}

/// What each host saw, as one.
type Merge = fn(Vec<Telemetry>) -> Telemetry;
/// What is to be told of how they differ.
type Compare = fn(&[Telemetry]) -> Option<Caveat>;

/// Hosts that are watched already, watched as one. Where they have names, one that stood still alone is named, and the
/// others went on.
pub(crate) fn sampled(
    each: Vec<Box<dyn Sampling>>,
    merge: Merge,
    compare: Compare,
    names: Vec<String>,
) -> Box<dyn Sampling> {
    Box::new(Together {
        names,
        each: Mutex::new(each),
        marks: Vec::new(),
        merge,
        compare,
    })
}

/// Sampling on several hosts. Instants are by the axis of the first.
struct Together {
    each: Mutex<Vec<Box<dyn Sampling>>>,
    /// Instants of marks, on each axis.
    marks: Vec<Vec<i64>>,
    merge: Merge,
    compare: Compare,
    names: Vec<String>,
}

/// An instant of the first axis on another: by the mark that is nearest.
fn on_axis(marks: &[Vec<i64>], nth: usize, at_ns: i64) -> i64 {
    let nearest = marks.iter().min_by_key(|mark| mark[0].abs_diff(at_ns));
    nearest.map_or(at_ns, |mark| mark[nth] + (at_ns - mark[0]))
}

fn summarised<S: Send>(
    each: &mut [S],
    marks: &[Vec<i64>],
    (from_ns, to_ns): (i64, i64),
    summarise: impl Fn(&S, i64, i64) -> Telemetry + Sync,
) -> Vec<Telemetry> {
    at_once(each.iter_mut().enumerate(), |(nth, of)| {
        let at = |at_ns| on_axis(marks, nth, at_ns);
        summarise(of, at(from_ns), at(to_ns))
    })
}

impl Together {
    fn each(&self) -> MutexGuard<'_, Vec<Box<dyn Sampling>>> {
        self.each.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sampling for Together {
    fn count_from(&mut self, zero_ns: u64) -> i64 {
        let later = at_once(self.each().iter_mut(), |sampler| {
            sampler.count_from(zero_ns)
        });
        for mark in &mut self.marks {
            for (at, later) in mark.iter_mut().zip(&later) {
                *at -= later;
            }
        }
        later[0]
    }

    fn mark(&mut self, name: &str) -> i64 {
        let mark = at_once(self.each().iter_mut(), |sampler| sampler.mark(name));
        let first = mark[0];
        self.marks.push(mark);
        first
    }

    fn find_server_again(&self) {
        at_once(self.each().iter_mut(), |sampler| {
            sampler.find_server_again()
        });
    }

    fn latest(&self) -> Option<Sample> {
        let each: Option<Vec<Sample>> =
            self.each().iter().map(|sampler| sampler.latest()).collect();
        let mut each = each?.into_iter();
        let mut all = each.next()?;
        each.for_each(|sample| add_sample(&mut all, &sample));
        Some(all)
    }

    fn latest_of_clients(&self) -> Vec<(String, f64)> {
        let each = self.each();
        let used = self.names.iter().zip(each.iter()).filter_map(|(name, of)| {
            let sample = of.latest()?;
            let cores = sample.client?.cpu_ns as f64 / sample.span_ns.max(1) as f64;
            Some((name.clone(), cores))
        });
        used.collect()
    }

    fn summarise(&self, from_ns: i64, to_ns: i64) -> Telemetry {
        (self.merge)(summarised(
            &mut self.each(),
            &self.marks,
            (from_ns, to_ns),
            |of, from, to| of.summarise(from, to),
        ))
    }

    fn stop(self: Box<Self>) -> Joint {
        let Together {
            each,
            marks,
            merge,
            compare,
            names,
        } = *self;
        let each = each.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut each: Vec<Joint> = at_once(each, |sampler| sampler.stop());
        let mut gaps = Vec::new();
        let mut samples = Vec::new();
        let is_gap = |gap: &Caveat| matches!(gap, Caveat::Gap { .. });
        let stood_all_still = each.iter().all(|joint| joint.gaps.iter().any(is_gap));
        for (nth, joint) in each.iter_mut().enumerate() {
            let own = std::mem::take(&mut joint.gaps).into_iter();
            match names.get(nth).filter(|_| !stood_all_still) {
                Some(name) => gaps.extend(own.map(|gap| of_one_host(gap, name))),
                None => gaps.extend(own),
            }
            let own = std::mem::take(&mut joint.samples);
            match nth {
                0 => samples = own,
                _ => beside(&mut samples, &own, |at_ns| on_axis(&marks, nth, at_ns)),
            }
        }
        let whole = marks.first().zip(marks.last());
        if let Some((first, last)) = whole {
            let span = (first[0], last[0]);
            let summarise = |of: &Joint, from, to| of.summarise(from, to);
            gaps.extend(compare(&summarised(&mut each, &marks, span, summarise)));
        }
        let each = Mutex::new(each);
        Joint::new(samples, gaps, move |from_ns, to_ns| {
            let summarise = |of: &Joint, from, to| of.summarise(from, to);
            let mut each = each.lock().unwrap_or_else(PoisonError::into_inner);
            merge(summarised(&mut each, &marks, (from_ns, to_ns), summarise))
        })
    }
}

/// What one host of several missed, which is no gap of the load.
fn of_one_host(gap: Caveat, name: &str) -> Caveat {
    match gap {
        Caveat::Gap { gap_ns, at_ns } => Caveat::HostStoodStill {
            host: name.to_owned(),
            gap_ns,
            at_ns,
        },
        other => other,
    }
}

/// Ticks of another host, added to those of the first.
fn beside(samples: &mut [Sample], others: &[Sample], on_axis: impl Fn(i64) -> i64) {
    let mut others = others.iter().peekable();
    for sample in samples {
        let (at_ns, half_ns) = (on_axis(sample.at_ns), sample.span_ns as i64 / 2);
        while others
            .next_if(|next| next.at_ns < at_ns - half_ns)
            .is_some()
        {}
        if let Some(other) = others.peek().filter(|other| other.at_ns <= at_ns + half_ns) {
            add_sample(sample, other);
        }
    }
}

/// That the load is not dealt evenly, where it is not.
fn uneven(each: &[Telemetry]) -> Option<Caveat> {
    let used = each.iter().filter_map(|of| {
        let name = of.server_host.as_ref()?.name.clone();
        Some((name, of.server.as_ref()?.utilisation))
    });
    let used: Vec<(String, f64)> = used.collect();
    let most = used.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let least = used.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    (most.1 - least.1 > UNEVEN_MIN).then(|| Caveat::ServersUneven {
        most: most.0.clone(),
        most_used: most.1,
        least: least.0.clone(),
        least_used: least.1,
    })
}

pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

/// Both, where both are known.
pub(crate) fn both<T>(a: Option<T>, b: Option<T>, add: impl Fn(T, T) -> T) -> Option<T> {
    a.zip(b).map(|(a, b)| add(a, b))
}

/// What a host is and has beside the side that it is watched for: processors, link, TCP, and what watching took.
pub(crate) fn add_host(all: &mut Telemetry, of: &mut Telemetry) {
    all.cores.append(&mut of.cores);
    all.cores_busy_p95.append(&mut of.cores_busy_p95);
    all.link = both(all.link.take(), of.link.take(), links);
    all.tcp = both(all.tcp, of.tcp, tcps);
    all.observer_cpu_ns += of.observer_cpu_ns;
}

/// Nothing, where one of them is not known: what the others saw is not the server.
fn merged(mut each: Vec<Telemetry>) -> Telemetry {
    if each.iter().any(|of| of.window_ns == 0) {
        return Telemetry::default();
    }
    for of in &mut each {
        keep_own_cores(of, |of| of.server.as_ref());
    }
    let paces: Vec<f64> = each
        .iter()
        .filter_map(|of| of.server_reference_ns)
        .collect();
    let mut each = each.into_iter();
    let mut all = each.next().unwrap_or_default();
    for mut of in each {
        add_host(&mut all, &mut of);
        all.server = both(all.server.take(), of.server, families);
        all.server_sockets = both(all.server_sockets.take(), of.server_sockets, sockets);
        all.server_host = both(all.server_host.take(), of.server_host, |a, b| HostSummary {
            name: format!("{} and {}", a.name, b.name),
            clock_error_ns: both(a.clock_error_ns, b.clock_error_ns, u64::max),
            round_trip_ns: both(a.round_trip_ns, b.round_trip_ns, u64::max),
            // Each has its own.
            clock_offset_ns: None,
            observer_cpu_ns: a.observer_cpu_ns + b.observer_cpu_ns,
            cores: [a.cores, b.cores].concat(),
        });
    }
    all.server_reference_ns = mean(paces.into_iter());
    all
}

/// Processors that the role may not use have the numbers of some that it may use elsewhere.
pub(crate) fn keep_own_cores(
    of: &mut Telemetry,
    role: impl Fn(&Telemetry) -> Option<&FamilySummary>,
) {
    let Some(allowed) = role(of).map(|family| family.cpus_allowed.clone()) else {
        return;
    };
    let is_own: Vec<bool> = of
        .cores
        .iter()
        .map(|core| allowed.contains(&core.cpu))
        .collect();
    let mut each = is_own.iter();
    of.cores.retain(|_| *each.next().unwrap_or(&true));
    let mut each = is_own.iter();
    of.cores_busy_p95.retain(|_| *each.next().unwrap_or(&true));
}

pub(crate) fn families(a: FamilySummary, b: FamilySummary) -> FamilySummary {
    let cores = |of: &FamilySummary| of.quota_cores.unwrap_or(of.cpus_allowed.len() as f64);
    let weighed = |value: fn(&FamilySummary) -> f64, weight: &dyn Fn(&FamilySummary) -> f64| {
        let whole = weight(&a) + weight(&b);
        (value(&a) * weight(&a) + value(&b) * weight(&b)) / whole.max(f64::MIN_POSITIVE)
    };
    let by_cpus = |of: &FamilySummary| of.cpus_allowed.len() as f64;
    let utilisation = weighed(|of| of.utilisation, &cores);
    let cpus_busy = weighed(|of| of.cpus_busy, &by_cpus);
    let cpus_softirq = weighed(|of| of.cpus_softirq, &by_cpus);
    let has_quota = a.quota_cores.is_some() || b.quota_cores.is_some();
    let hottest = [a.hottest_thread, b.hottest_thread].into_iter().flatten();
    FamilySummary {
        // Ids of two hosts are none.
        pids: Vec::new(),
        quota_cores: has_quota.then(|| {
            let of = |quota: Option<f64>, cpus: &[u32]| quota.unwrap_or(cpus.len() as f64);
            of(a.quota_cores, &a.cpus_allowed) + of(b.quota_cores, &b.cpus_allowed)
        }),
        name: a.name,
        processes: a.processes + b.processes,
        threads: a.threads + b.threads,
        gomaxprocs: a.gomaxprocs.filter(|own| b.gomaxprocs == Some(*own)),
        cpus_allowed: [a.cpus_allowed, b.cpus_allowed].concat(),
        cpu_ns: a.cpu_ns + b.cpu_ns,
        cpu_user_ns: a.cpu_user_ns + b.cpu_user_ns,
        utilisation,
        run_wait_cores: a.run_wait_cores + b.run_wait_cores,
        switches_voluntary: a.switches_voluntary + b.switches_voluntary,
        switches_involuntary: a.switches_involuntary + b.switches_involuntary,
        faults_minor: a.faults_minor + b.faults_minor,
        faults_major: a.faults_major + b.faults_major,
        faults_since_start: a.faults_since_start + b.faults_since_start,
        rss_bytes_max: a.rss_bytes_max + b.rss_bytes_max,
        throttled_ns: a.throttled_ns + b.throttled_ns,
        throttled_share: a.throttled_share.max(b.throttled_share),
        hottest_thread: hottest.max_by(|a, b| a.share.total_cmp(&b.share)),
        neighbour_cores: a.neighbour_cores + b.neighbour_cores,
        cpus_busy,
        cpus_softirq,
        interrupt_cores: both(a.interrupt_cores, b.interrupt_cores, |a, b| a + b),
    }
}

pub(crate) fn links(a: LinkSummary, b: LinkSummary) -> LinkSummary {
    let rate_bits = both(a.rate_bits, b.rate_bits, |a, b| a + b);
    // Each of its own rate.
    let share = |a: Option<f64>, b: Option<f64>| both(a, b, f64::max);
    let mut card = a.card;
    for (name, count) in b.card {
        *card.entry(name).or_default() += count;
    }
    LinkSummary {
        interface: match a.interface == b.interface {
            true => a.interface,
            false => format!("{} and {}", a.interface, b.interface),
        },
        rate_bits,
        totals: add_link(a.totals, b.totals),
        downlink_share: share(a.downlink_share, b.downlink_share),
        uplink_share: share(a.uplink_share, b.uplink_share),
        mtu: both(a.mtu, b.mtu, u32::min),
        card,
    }
}

pub(crate) fn sockets(a: SocketsSummary, b: SocketsSummary) -> SocketsSummary {
    let count = f64::from(a.sockets + b.sockets).max(1.0);
    let weighed =
        |of_a: f64, of_b: f64| (of_a * f64::from(a.sockets) + of_b * f64::from(b.sockets)) / count;
    SocketsSummary {
        sockets: a.sockets + b.sockets,
        busy_share: both(a.busy_share, b.busy_share, weighed),
        receive_window_limited_share: weighed(
            a.receive_window_limited_share,
            b.receive_window_limited_share,
        ),
        send_buffer_limited_share: weighed(
            a.send_buffer_limited_share,
            b.send_buffer_limited_share,
        ),
        rtt_p50_us: weighed(f64::from(a.rtt_p50_us), f64::from(b.rtt_p50_us)) as u32,
        rtt_min_us: both(a.rtt_min_us, b.rtt_min_us, u32::min),
        path_mtu: both(a.path_mtu, b.path_mtu, u32::min),
        retransmits: a.retransmits + b.retransmits,
        receive_queue_bytes_max: both(
            a.receive_queue_bytes_max,
            b.receive_queue_bytes_max,
            u32::max,
        ),
        send_queue_bytes_max: both(a.send_queue_bytes_max, b.send_queue_bytes_max, u32::max),
    }
}

pub(crate) fn tcps(a: TcpSample, b: TcpSample) -> TcpSample {
    TcpSample {
        segments_in: a.segments_in + b.segments_in,
        segments_out: a.segments_out + b.segments_out,
        retransmits: a.retransmits + b.retransmits,
        listen_overflows: a.listen_overflows + b.listen_overflows,
        listen_drops: a.listen_drops + b.listen_drops,
        opens_active: a.opens_active + b.opens_active,
        opens_passive: a.opens_passive + b.opens_passive,
        resets_out: a.resets_out + b.resets_out,
    }
}

fn add_link(a: LinkSample, b: LinkSample) -> LinkSample {
    LinkSample {
        rx_bytes: a.rx_bytes + b.rx_bytes,
        rx_packets: a.rx_packets + b.rx_packets,
        tx_bytes: a.tx_bytes + b.tx_bytes,
        tx_packets: a.tx_packets + b.tx_packets,
        drops: a.drops + b.drops,
    }
}

fn add_family(a: FamilySample, b: FamilySample) -> FamilySample {
    FamilySample {
        processes: a.processes + b.processes,
        threads: a.threads + b.threads,
        cpu_ns: a.cpu_ns + b.cpu_ns,
        cpu_user_ns: a.cpu_user_ns + b.cpu_user_ns,
        run_wait_ns: a.run_wait_ns + b.run_wait_ns,
        switches_voluntary: a.switches_voluntary + b.switches_voluntary,
        switches_involuntary: a.switches_involuntary + b.switches_involuntary,
        faults_minor: a.faults_minor + b.faults_minor,
        faults_major: a.faults_major + b.faults_major,
        rss_bytes: a.rss_bytes + b.rss_bytes,
        throttled_ns: a.throttled_ns + b.throttled_ns,
        throttled_periods: a.throttled_periods + b.throttled_periods,
        hottest_thread_share: a.hottest_thread_share.max(b.hottest_thread_share),
    }
}

fn add_sample(all: &mut Sample, of: &Sample) {
    all.cores.extend_from_slice(&of.cores);
    all.client = both(all.client, of.client, add_family);
    all.server = both(all.server, of.server, add_family);
    all.link = both(all.link, of.link, add_link);
    all.tcp = both(all.tcp, of.tcp, tcps);
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A lever that is told what it does.
    struct Told {
        squeeze: Squeeze,
        least: f64,
        check: Check,
        deeds: Arc<Mutex<Vec<String>>>,
    }

    impl Lever for Told {
        fn squeeze(&self) -> Squeeze {
            self.squeeze
        }
        fn how(&self) -> String {
            "by hand".to_owned()
        }
        fn retained_min(&self) -> f64 {
            self.least
        }
        fn set(&mut self, retained: f64) -> Result<(), TestbedError> {
            self.deeds.lock().unwrap().push(format!("{retained}"));
            Ok(())
        }
        fn begin_window(&mut self) {
            self.deeds.lock().unwrap().push("begin".to_owned());
        }
        fn end_window(&mut self) -> Check {
            self.check.clone()
        }
    }

    #[test]
    fn a_resource_that_every_host_has_is_one_lever_and_others_are_out_of_reach() {
        let deeds = Arc::default();
        let lever = |squeeze, least, retained, in_force| {
            let told = Told {
                squeeze,
                least,
                check: Check {
                    retained,
                    in_force,
                    text: "seen".to_owned(),
                },
                deeds: Arc::clone(&deeds),
            };
            Box::new(told) as Box<dyn Lever>
        };
        let reach = |levers, downlink_bits| Reach {
            levers,
            downlink_bits,
            ..Reach::default()
        };
        let speed = |least, retained, in_force| {
            lever(Squeeze::ServerSpeed, least, Some(retained), in_force)
        };
        let of_h1 = vec![
            lever(Squeeze::Downlink, 0.1, None, None),
            speed(0.2, 0.79, Some(true)),
        ];
        let of_h2 = vec![speed(0.4, 0.81, Some(true))];
        let mut all = together(vec![
            ("h1".to_owned(), reach(of_h1, Some(1_000))),
            ("h2".to_owned(), reach(of_h2, None)),
        ]);
        assert_eq!((all.levers.len(), all.downlink_bits), (1, None));
        let out = &all.out_of_reach[0];
        assert_eq!(out.squeeze, Squeeze::Downlink);
        assert!(out.why.contains("h1") && out.why.contains("not on every host"));
        let both = &mut all.levers[0];
        assert_eq!(
            (both.squeeze(), both.retained_min()),
            (Squeeze::ServerSpeed, 0.4)
        );
        both.begin_window();
        both.set(0.8).unwrap();
        let check = both.end_window();
        assert_eq!((check.retained, check.in_force), (Some(0.8), Some(true)));
        let deeds = deeds.lock().unwrap();
        // The one that is out of reach is its host's first.
        assert_eq!(*deeds, ["begin", "begin", "begin", "0.8", "0.8"]);
    }

    #[test]
    fn a_squeeze_that_is_not_in_force_on_one_host_is_in_force_on_none() {
        let of = |in_force| {
            Box::new(Told {
                squeeze: Squeeze::ServerSpeed,
                least: 0.0,
                check: Check {
                    in_force,
                    ..Check::default()
                },
                deeds: Arc::default(),
            }) as Box<dyn Lever>
        };
        let checked = |a, b| {
            let mut alike = Alike::of(Squeeze::ServerSpeed);
            alike.each = vec![of(a), of(b)];
            alike.end_window().in_force
        };
        assert_eq!(checked(Some(true), Some(false)), Some(false));
        assert_eq!(checked(Some(true), None), None);
    }

    fn seen(host: &str, utilisation: f64, cpus: &[u32]) -> Telemetry {
        Telemetry {
            window_ns: 1_000,
            server: Some(FamilySummary {
                name: "shop".to_owned(),
                processes: 1,
                cpus_allowed: cpus.to_vec(),
                utilisation,
                cpu_ns: (utilisation * 1_000.0) as u64 * cpus.len() as u64,
                ..FamilySummary::default()
            }),
            server_sockets: Some(SocketsSummary {
                sockets: 8,
                busy_share: Some(utilisation),
                ..SocketsSummary::default()
            }),
            server_host: Some(HostSummary {
                name: host.to_owned(),
                ..HostSummary::default()
            }),
            ..Telemetry::default()
        }
    }

    #[test]
    fn use_is_weighed_by_processors_and_what_is_uneven_is_told() {
        let each = vec![seen("h1", 0.9, &[0]), seen("h2", 0.5, &[0, 1, 2])];
        let told = uneven(&each).expect("it is uneven");
        let expected = Caveat::ServersUneven {
            most: "h1".to_owned(),
            most_used: 0.9,
            least: "h2".to_owned(),
            least_used: 0.5,
        };
        assert_eq!(told, expected);
        let all = merged(each);
        let server = all.server.expect("both are seen");
        assert!((server.utilisation - 0.6).abs() < 1e-9);
        assert_eq!((server.processes, server.cpu_ns), (2, 900 + 1_500));
        assert_eq!(server.cpus_allowed, [0, 0, 1, 2]);
        let sockets = all.server_sockets.expect("both are seen");
        assert_eq!((sockets.sockets, sockets.busy_share), (16, Some(0.7)));
        assert_eq!(all.server_host.expect("hosts").name, "h1 and h2");
        let even = [seen("h1", 0.9, &[0]), seen("h2", 0.8, &[0])];
        assert_eq!(uneven(&even), None);
    }

    /// A host whose last tick this is.
    struct Ticked(Option<Sample>);

    impl Sampling for Ticked {
        fn count_from(&mut self, _: u64) -> i64 {
            0
        }
        fn mark(&mut self, _: &str) -> i64 {
            0
        }
        fn find_server_again(&self) {}
        fn latest(&self) -> Option<Sample> {
            self.0.clone()
        }
        fn summarise(&self, _: i64, _: i64) -> Telemetry {
            Telemetry::default()
        }
        fn stop(self: Box<Self>) -> Joint {
            Joint::new(Vec::new(), Vec::new(), |_, _| Telemetry::default())
        }
    }

    #[test]
    fn what_each_client_host_takes_is_told_by_its_name() {
        let took = |cpu_ns| Sample {
            span_ns: 50,
            client: Some(FamilySample {
                cpu_ns,
                ..FamilySample::default()
            }),
            ..Sample::default()
        };
        let each = || -> Vec<Box<dyn Sampling>> {
            let ticks = [Some(took(100)), None, Some(took(25))].into_iter();
            ticks
                .map(|tick| Box::new(Ticked(tick)) as Box<dyn Sampling>)
                .collect()
        };
        let names = ["c1", "c2", "c3"].map(str::to_owned).to_vec();
        let clients = sampled(each(), merged, uneven, names);
        let told = [("c1".to_owned(), 2.0), ("c3".to_owned(), 0.5)];
        assert_eq!(clients.latest_of_clients(), told);
        let servers = sampled(each(), merged, uneven, Vec::new());
        assert!(servers.latest_of_clients().is_empty());
    }

    #[test]
    fn instants_are_placed_by_the_nearest_mark() {
        let marks = vec![vec![0, 1_000], vec![100, 1_150]];
        assert_eq!(on_axis(&marks, 1, 10), 1_010);
        assert_eq!(on_axis(&marks, 1, 90), 1_140);
        assert_eq!(on_axis(&[], 1, 7), 7);
    }
}
