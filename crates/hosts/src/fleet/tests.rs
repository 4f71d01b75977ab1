//! Hosts that are engines of this process, before a server of this process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize};

use wallfinder_engine::ExperimentWindow;
use wallfinder_model::drive::Share;
use wallfinder_model::scenario::Io;
use wallfinder_model::telemetry::LinkSummary;
use wallfinder_model::{Arrival, Rate};
use wallfinder_wire::Exchange;
use wallfinder_wire::http1::Request;
use wallfinder_wire::mix::{Mix, Order, Replay, Row, Table};

use super::*;
use crate::LoadHere;

/// An engine of this process by another name, which may be lost.
#[derive(Debug)]
struct Named {
    name: String,
    inner: LoadHere,
    /// After so many intervals it is lost; `usize::MAX`: never.
    lost_after: AtomicUsize,
    is_lost: AtomicBool,
}

impl Named {
    fn lost_error(&self) -> Option<HostError> {
        self.is_lost.load(Ordering::Relaxed).then(|| HostError {
            host: self.name.clone(),
            why: "its cable is cut".to_owned(),
        })
    }
}

/// Connections that one of them may have open.
const MOST: u32 = 21;

impl Host for Named {
    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn lost(&self) -> Option<HostError> {
        self.lost_error()
    }

    fn sampler(&self, setup: Setup) -> Result<Box<dyn Sampling>, String> {
        self.inner.sampler(setup)
    }

    fn pace(&self, cpus: Vec<u32>) -> PaceOf {
        self.inner.pace(cpus)
    }

    fn levers(&self, own: Own) -> Reach {
        self.inner.levers(own)
    }

    fn neighbours(&self, cpus: &[u32], known: &[u32], cores_min: f64) -> Vec<Neighbour> {
        self.inner.neighbours(cpus, known, cores_min)
    }
}

impl ClientHost for Named {
    fn family(&self) -> Option<Family> {
        None
    }

    fn processors(&self) -> Vec<u32> {
        vec![self.inner.processors()[0]]
    }

    fn facts(&self) -> Environment {
        Environment::default()
    }

    fn fits(&self, load: &Load) -> Result<(), String> {
        self.inner.fits(load)
    }

    fn may_stand_by(&self, load: &Load, more: u32) -> Result<(), String> {
        match load.connections + more {
            0..=MOST => Ok(()),
            all => Err(format!("{}: {all} are too many", self.name)),
        }
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.inner.addresses()
    }

    fn drive(
        &self,
        spec: &StepSpec,
        signals: &Arc<Signals>,
        observe: &mut Observer<'_>,
    ) -> Result<Measured, EngineError> {
        let mut left = self.lost_after.load(Ordering::Relaxed);
        let mut hear = |progress: Progress| {
            if let Progress::Interval { .. } = &progress {
                left = left.saturating_sub(1);
            }
            match left {
                // Nothing is heard of it any more, whatever it does.
                0 => {
                    self.is_lost.store(true, Ordering::Relaxed);
                    signals.stop.store(true, Ordering::Relaxed);
                    signals.abort.store(true, Ordering::Relaxed);
                }
                _ => observe(progress),
            }
        };
        let measured = self.inner.drive(spec, signals, &mut hear)?;
        match self.lost_error() {
            Some(lost) => Err(lost.into()),
            None => Ok(measured),
        }
    }

    fn calibrate(
        &self,
        spec: &StepSpec,
        typical: Typical,
        server_cpu: Option<u32>,
        measure: Nanos,
    ) -> Result<Ceiling, EngineError> {
        let measured = self.inner.calibrate(spec, typical, server_cpu, measure)?;
        // What a machine is worth stands in its name: c3 drives three times as much as c1.
        let worth: f64 = self.name[1..].parse().expect("a number");
        Ok(Ceiling {
            throughput: 1_000.0 * worth,
            ..measured
        })
    }
}

/// Answers each request with two bytes.
fn served() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || answer(stream));
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    let mut bytes = [0; 4_096];
    while let Ok(read) = stream.read(&mut bytes)
        && read > 0
    {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

/// So many hosts, of which one may be lost after so many intervals.
fn fleet(hosts: usize, lost_after: Option<usize>, on_lost: OnLostClient) -> (Fleet, StepSpec) {
    dealt_fleet(hosts, lost_after, on_lost, Deal::Even)
}

fn dealt_fleet(
    hosts: usize,
    lost_after: Option<usize>,
    on_lost: OnLostClient,
    deal: Deal,
) -> (Fleet, StepSpec) {
    let server = served();
    let each = (1..=hosts).map(|nth| {
        let lost_after = lost_after.filter(|_| nth == 2).unwrap_or(usize::MAX);
        Arc::new(Named {
            name: format!("c{nth}"),
            inner: LoadHere::towards(server),
            lost_after: AtomicUsize::new(lost_after),
            is_lost: AtomicBool::new(false),
        }) as Arc<dyn ClientHost>
    });
    let fleet = Fleet::of(each.collect(), None, on_lost, deal);
    let mut load = Load::closed(7);
    load.workers = hosts as u32;
    load.warmup = Nanos::from_millis(100);
    load.stop.after = Nanos::from_millis(500);
    load.timeout = Nanos::from_secs(5);
    let spec = StepSpec {
        load,
        share: Share::WHOLE,
        slots: None,
        address: server,
        request: Request::get("test", "/").into(),
        tls: None,
        cpus: Vec::new(),
        io: Io::Epoll,
        seed: 1,
        samples: None,
        spare_connections: 0,
        standby_connections: 0,
        paddings: Vec::new(),
        under_quota: false,
        speed: 1.0,
    };
    (fleet, spec)
}

fn driven(fleet: &Fleet, spec: &StepSpec) -> (Result<Measured, EngineError>, Vec<Progress>) {
    let mut heard = Vec::new();
    let signals = Arc::new(Signals::default());
    let measured = fleet.drive(spec, &signals, &mut |progress| heard.push(progress));
    (measured, heard)
}

/// The hosts that there are for a load, each of which has a worker with a processor.
fn members(fleet: &Fleet, spec: &StepSpec) -> Vec<String> {
    let members = fleet.members(&spec.load).into_iter();
    let each = members.map(|(name, cores)| {
        assert_eq!(cores, 1.0, "{name}");
        name
    });
    each.collect()
}

fn told(heard: &[Progress]) -> u64 {
    let answered = heard.iter().map(|progress| match progress {
        Progress::Interval { interval, .. } => interval.answered,
        _ => 0,
    });
    answered.sum()
}

#[test]
fn a_counted_load_adds_up_to_the_last_request_on_every_host_and_in_all() {
    let (fleet, mut spec) = fleet(3, None, OnLostClient::Mark);
    spec.load.warmup = Nanos(0);
    spec.load.stop.requests = Some(1_001);
    spec.load.stop.after = Nanos::from_secs(20);
    let (measured, heard) = driven(&fleet, &spec);
    let measured = measured.expect("they run");
    assert_eq!(measured.counts.answered, 1_001);
    assert!(measured.counts.balanced());
    let each = measured.clients.iter();
    let each: Vec<u64> = each.map(|client| client.counts.answered).collect();
    assert_eq!(each, [334, 334, 333]);
    assert_eq!(measured.latency.map(|latency| latency.count), Some(1_001));
    let of_hosts = measured.clients.iter();
    let of_hosts = of_hosts.map(|client| client.latency.as_ref().map_or(0, |of| of.count));
    assert_eq!(of_hosts.sum::<u64>(), 1_001);
    assert_eq!(told(&heard), 1_001);
    assert_eq!(
        measured.intervals.iter().map(|of| of.answered).sum::<u64>(),
        1_001
    );
    assert_eq!(measured.open_connections.most, 7);
    // Ready once, then the start, then all else.
    assert!(matches!(
        heard[..2],
        [Progress::Ready, Progress::Starts { .. }]
    ));
}

/// One request, filled in with so many rows, each of which is used once.
fn rows_used_once(rows: usize) -> Mix {
    let mut mix = Mix::of_requests([("a", 1, Request::get("test", "/"))]);
    let row = |nth: usize| Row(vec![nth.to_string().into_bytes()]);
    mix.tables.push(Table {
        name: "rows".to_owned(),
        order: Order::Once,
        columns: vec!["n".to_owned()],
        cells: (0..rows).map(row).collect::<Vec<_>>().into(),
    });
    mix.flows[0].walks = Some(0);
    mix
}

#[test]
fn rows_that_are_used_once_end_a_load_on_each_host_apart_and_none_is_lost() {
    const PAUSE_MS: u64 = 100;
    let (fleet, mut spec) = fleet(2, None, OnLostClient::Mark);
    spec.request = Exchange::Mix(Box::new(rows_used_once(40)));
    // Two connections of the first host, and one of the second, which takes twice as long.
    spec.load.connections = 3;
    spec.load.arrival = Arrival::Closed {
        think: Nanos::from_millis(PAUSE_MS),
    };
    spec.load.warmup = Nanos(0);
    spec.load.stop.after = Nanos::from_secs(30);
    let (mut began, mut closed) = (None, None);
    let signals = Arc::new(Signals::default());
    let measured = fleet.drive(&spec, &signals, &mut |progress| match progress {
        Progress::Starts { .. } => began = Some(Instant::now()),
        Progress::Edge(Edge::Close) => closed = Some(Instant::now()),
        _ => {}
    });
    let measured = measured.expect("they run");
    assert_eq!(measured.counts.answered, 40);
    for client in &measured.clients {
        assert_eq!(client.lost, None);
        assert_eq!(client.counts.answered, 20, "{client:?}");
    }
    assert!(!measured.io.is_empty());
    let took = closed.expect("it closed") - began.expect("it began");
    let last = Duration::from_millis(19 * PAUSE_MS);
    assert!(took >= last, "the last host was not done after {took:?}");
}

#[test]
fn a_log_that_does_not_begin_again_ends_a_load_and_no_host_is_lost() {
    let (fleet, mut spec) = fleet(2, None, OnLostClient::Mark);
    let at_ns: Vec<u64> = (0..30).map(|nth| nth * 10_000_000).collect();
    let mut mix = Mix::of_requests([("a", 1, Request::get("test", "/"))]);
    spec.load.arrival = Arrival::Replay {
        requests: at_ns.len() as u64,
        over: Nanos(at_ns[at_ns.len() - 1]),
        speed: 1.0,
        again: false,
    };
    mix.replay = Some(Replay {
        flows: vec![0; at_ns.len()],
        at_ns,
        again_after_ns: None,
    });
    spec.request = Exchange::Mix(Box::new(mix));
    spec.load.warmup = Nanos(0);
    spec.load.stop.after = Nanos::from_secs(30);
    let (measured, _) = driven(&fleet, &spec);
    let measured = measured.expect("they run");
    assert_eq!(measured.counts.answered, 30);
    assert!(measured.window_to_ns < 10_000_000_000, "it ended early");
    let mut clients = measured.clients.iter();
    assert!(clients.all(|client| client.lost.is_none()));
    assert!(!measured.io.is_empty());
}

#[test]
fn a_part_is_short_by_its_end_and_not_by_where_its_window_began() {
    let mut load = Load::closed(4);
    load.warmup = Nanos::from_millis(300);
    load.stop.after = Nanos::from_secs(4);
    // Of 4 s that begin half a second late on a busy host.
    let begins_late_to_ns = 4_300_000_000;
    assert!(lasted(&load, begins_late_to_ns) && lasted(&load, 4_230_000_000));
    assert!(!lasted(&load, 4_210_000_000));
    // A counted load ends when it may, which is asked before.
    load.stop.after = Nanos(u64::MAX);
    assert!(!lasted(&load, begins_late_to_ns));
}

#[test]
fn an_open_loop_is_dealt_start_by_start_and_begins_at_one_instant() {
    let (fleet, mut spec) = fleet(3, None, OnLostClient::Mark);
    spec.load.arrival = Arrival::Constant {
        rate: Rate(1_000.0),
    };
    let (measured, heard) = driven(&fleet, &spec);
    let measured = measured.expect("they run");
    let counts = &measured.counts;
    // Of starts in half a second, and where the edges fall.
    assert!((496..=504).contains(&counts.scheduled), "{counts:?}");
    for client in &measured.clients {
        let own = client.counts.scheduled;
        assert!((164..=169).contains(&own), "{client:?}");
        // Its clock is this one, and nobody was late.
        assert_eq!((client.began_ns, client.clock_error_ns), (0, 0));
    }
    let edges = heard.iter().filter_map(|progress| match progress {
        Progress::Edge(edge) => Some(*edge),
        _ => None,
    });
    let edges: Vec<Edge> = edges.collect();
    assert_eq!(edges, [Edge::Open, Edge::Close]);
}

#[test]
fn hosts_for_which_nothing_is_left_rest() {
    let (fleet, mut spec) = fleet(3, None, OnLostClient::Mark);
    spec.load.connections = 2;
    let measured = driven(&fleet, &spec).0.expect("they run");
    let hosts: Vec<&str> = measured.clients.iter().map(|of| of.host.as_str()).collect();
    assert_eq!(hosts, ["c1", "c2"]);
    assert_eq!(members(&fleet, &spec), ["c1", "c2"]);
}

#[test]
fn a_lost_host_is_named_its_sums_close_and_the_others_go_on() {
    let (fleet, mut spec) = fleet(3, Some(4), OnLostClient::Mark);
    spec.load.stop.after = Nanos::from_secs(1);
    assert_eq!(members(&fleet, &spec), ["c1", "c2", "c3"]);
    let (measured, heard) = driven(&fleet, &spec);
    assert_eq!(members(&fleet, &spec), ["c1", "c3"]);
    assert_eq!(fleet.lost_members(), ["c2"]);
    let measured = measured.expect("the others go on");
    assert!(measured.counts.balanced());
    let [first, lost, last] = &measured.clients[..] else {
        panic!("{:?}", measured.clients)
    };
    let why = lost.lost.as_ref().expect("it was lost");
    assert!(why.why.contains("cable"), "{why:?}");
    assert!(lost.counts.balanced(), "{:?}", lost.counts);
    assert!(lost.counts.unknown <= 4 + 2, "{:?}", lost.counts);
    let sum = first.counts.answered + lost.counts.answered + last.counts.answered;
    assert_eq!(measured.counts.answered, sum);
    assert_eq!(measured.counts.unknown, lost.counts.unknown);
    let intervals: u64 = measured.intervals.iter().map(|of| of.answered).sum();
    assert!(intervals >= sum && told(&heard) <= intervals);
    assert!(first.counts.answered > 2 * lost.counts.answered);
    let lost = fleet.lost().expect("the run goes no further");
    assert_eq!(lost.host, "c2");
}

#[test]
fn later_steps_are_dealt_to_those_that_are_left_where_that_was_asked() {
    let (fleet, spec) = fleet(3, Some(4), OnLostClient::Rebalance);
    driven(&fleet, &spec).0.expect("the others go on");
    assert!(fleet.lost().is_none());
    let next = driven(&fleet, &spec).0.expect("they run");
    let hosts: Vec<&str> = next.clients.iter().map(|of| of.host.as_str()).collect();
    assert_eq!(hosts, ["c1", "c3"]);
    assert_eq!(next.open_connections.most, 7);
    assert!(next.clients.iter().all(|client| client.lost.is_none()));
}

#[test]
fn a_load_that_is_to_end_with_a_lost_host_ends_at_once() {
    let (fleet, mut spec) = fleet(3, Some(3), OnLostClient::Abort);
    spec.load.stop.after = Nanos::from_secs(30);
    let began = Instant::now();
    let error = driven(&fleet, &spec).0.expect_err("it ends");
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(error.to_string().contains("c2"), "{error}");
    assert!(fleet.lost().is_some());
}

/// One window of a load of two seconds at the most under a setting.
fn window_of(fleet: &Fleet, spec: &StepSpec, setting: LeverSetting) -> ExperimentWindow {
    let signals = Arc::new(Signals::default());
    let (tell, windows) = channel();
    thread::scope(|scope| {
        let of_load = Arc::clone(&signals);
        let driving = scope.spawn(move || {
            fleet.drive(spec, &of_load, &mut |progress| {
                if let Progress::Window(window) = progress {
                    let _ = tell.send(window);
                }
            })
        });
        let set = |setting: LeverSetting| {
            signals.levers.set(setting);
            let until = Instant::now() + Duration::from_secs(20);
            while !signals.levers.are_followed_by(workers_of(&spec.load)) {
                assert!(Instant::now() < until, "they do not follow");
                thread::sleep(Duration::from_millis(1));
            }
        };
        thread::sleep(Duration::from_millis(400));
        set(setting);
        // What was in flight where now nothing is.
        thread::sleep(Duration::from_millis(50));
        set(LeverSetting {
            window: 1,
            ..setting
        });
        thread::sleep(Duration::from_millis(300));
        signals.levers.set(LeverSetting::FREE);
        let window = windows.recv_timeout(Duration::from_secs(10)).expect("one");
        signals.stop.store(true, Ordering::Relaxed);
        driving.join().expect("no panic").expect("they run");
        window
    })
}

#[test]
fn windows_under_levers_are_of_all_hosts_together() {
    let (fleet, mut spec) = fleet(2, None, OnLostClient::Mark);
    spec.load.stop.after = Nanos::from_secs(30);
    let window = window_of(&fleet, &spec, LeverSetting::FREE);
    assert_eq!(window.number, 1);
    assert!(window.answered > 0 && window.latency.is_none());
    let seconds = (window.to_ns - window.from_ns) as f64 / 1e9;
    let rate = window.answered as f64 / seconds;
    assert!((rate / window.throughput - 1.0).abs() < 0.2, "{window:?}");
    // N = X · R, over all of them.
    let in_flight = window.throughput * window.latency_mean_ns / 1e9;
    assert!((in_flight / 7.0 - 1.0).abs() < 0.25, "{window:?}");
}

#[test]
fn while_a_host_rests_the_others_have_as_much_in_flight_as_all_had() {
    let (fleet, mut spec) = fleet(3, None, OnLostClient::Mark);
    spec.load.stop.after = Nanos::from_secs(30);
    spec.standby_connections = 3;
    let parts = fleet.parts(&spec.load);
    let of_first = parts.first().map(|(name, part)| (name.as_str(), *part));
    assert_eq!(of_first, Some(("c1", 1.0 / 3.0)));
    for first in 0..3 {
        let setting = LeverSetting {
            clients: Clients::Rest { first, hosts: 1 },
            ..LeverSetting::FREE
        };
        let window = window_of(&fleet, &spec, setting);
        // Two of them have five connections of their own at the most.
        let range = 5.05..7.01;
        assert!(range.contains(&window.in_flight_mean), "{window:?}");
    }
}

#[test]
fn a_load_is_dealt_by_what_each_host_can_drive_to_the_last_request() {
    let (fleet, mut spec) = dealt_fleet(3, None, OnLostClient::Mark, Deal::ByCeiling);
    spec.load.connections = 24;
    spec.load.warmup = Nanos(0);
    spec.load.stop.requests = Some(1_200);
    spec.load.stop.after = Nanos::from_secs(20);
    let counted = |spec: &StepSpec| {
        let measured = driven(&fleet, spec).0.expect("they run");
        assert_eq!(measured.counts.answered, 1_200);
        let dealt = measured.clients.iter().map(|of| (6.0 * of.dealt).round());
        assert_eq!(dealt.collect::<Vec<f64>>(), [1.0, 2.0, 3.0]);
        let counts = measured.clients.iter().map(|of| of.counts.answered);
        counts.collect::<Vec<u64>>()
    };
    // One for each, and the rest by weight.
    assert_eq!(counted(&spec), [201, 400, 599]);
    spec.load.arrival = Arrival::Constant {
        rate: Rate(4_000.0),
    };
    let counts = counted(&spec);
    for (own, wanted) in counts.iter().zip([200.0, 400.0, 600.0]) {
        assert!((*own as f64 - wanted).abs() <= 3.0, "{counts:?}");
    }
}

#[test]
fn connections_that_stand_by_are_to_fit_on_each_host_beside_its_own() {
    let (fleet, mut spec) = fleet(2, None, OnLostClient::Mark);
    // Each stands in for the other, and for one that cannot be parted.
    spec.load.connections = 20;
    assert_eq!(fleet.may_stand_by(&spec.load, 10), Ok(()));
    spec.load.connections = 22;
    let refused = fleet.may_stand_by(&spec.load, 11);
    assert_eq!(refused, Err("c1: 23 are too many".to_owned()));
}

#[test]
fn many_names_are_told_by_the_first() {
    assert_eq!(named(&["a"]), "a");
    assert_eq!(named(&["a", "b"]), "a and b");
    assert_eq!(named(&["a", "b", "c"]), "a, b and c");
    assert_eq!(named(&["a", "b", "c", "d"]), "a and 3 more");
}

#[test]
fn each_host_keeps_its_own_link() {
    let of = |name: &str, uplink_share: Option<f64>| Telemetry {
        window_ns: 1_000_000_000,
        client_host: Some(HostSummary {
            name: name.to_owned(),
            ..HostSummary::default()
        }),
        link: uplink_share.map(|share| LinkSummary {
            interface: "eth0".to_owned(),
            uplink_share: Some(share),
            ..LinkSummary::default()
        }),
        ..Telemetry::default()
    };
    let merged = merged_telemetry(vec![
        of("c1", Some(0.2)),
        of("c2", Some(0.9)),
        of("c3", None),
    ]);
    let hosts = merged.client_hosts.iter();
    let hosts: Vec<(&str, Option<f64>)> = hosts
        .map(|of| {
            let link = of.link.as_ref();
            (
                of.host.name.as_str(),
                link.and_then(|link| link.uplink_share),
            )
        })
        .collect();
    assert_eq!(hosts, [("c1", Some(0.2)), ("c2", Some(0.9)), ("c3", None)]);
}
