//! Agents of one process, whose load is made up: a closed loop that is answered at a rate of its own, with latencies drawn
//! at random. Everything else is as at an agent that has joined a hub.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{sleep, timeout};
use wallfinder_engine::histogram::Latencies;
use wallfinder_hosts::agent::told_every;
use wallfinder_hub::{Credentials, Here, Sessions, serve};
use wallfinder_model::drive::{Edge, Measured, Progress};
use wallfinder_model::record::{Counts, Interval, OpenConnections, WorkerSummary};
use wallfinder_model::telemetry::{CoreSample, FamilySummary, Sample, Telemetry};
use wallfinder_protocol::{
    Answer, Ask, Frames, GREETING, Grant, LoadOrder, News, Refusal, Reply, Request, Said, VERSION,
    Welcome, frame,
};

/// How often the engine of an agent ends an interval, at the most.
const INTERVAL: Duration = Duration::from_millis(100);
/// Good answers per second of a connection.
const ANSWERS_PER_S: f64 = 200.0;
/// Between two agents that join.
const JOINS_EVERY: Duration = Duration::from_millis(10);
/// How long the conductor is waited for at the end of a window.
const LOOK_WAIT_MAX: Duration = Duration::from_secs(1);
/// How long a load waits to begin.
const BEGIN_WAIT_MAX: Duration = Duration::from_secs(60);

pub(crate) fn name(nth: usize) -> String {
    format!("s-{nth:04}")
}

/// Joins all of them to the hub of this folder, until this process is ended. Says `joined` of each, and then of each load
/// what was answered in its window, when it began and when its result was said, in nanoseconds of wall clock.
pub(crate) fn agents(dir: &Path, count: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let each = (0..count).map(|nth| {
            let path = dir.join(format!("agents/{}.json", name(nth)));
            let credentials = Credentials::read(&path).expect("credentials");
            tokio::spawn(async move {
                // Machines of their own would not share two processors for their handshakes.
                sleep(JOINS_EVERY * nth as u32).await;
                joined(&credentials, nth).await
            })
        });
        for agent in each.collect::<Vec<_>>() {
            agent
                .await
                .expect("nobody panics")
                .expect("it stays joined");
        }
    });
}

async fn joined(credentials: &Credentials, nth: usize) -> Result<(), String> {
    let here = Here {
        number: 0,
        instance: 0,
        name: name(nth),
        host: name(nth),
        kernel: "simulated".to_owned(),
        cpus: 2,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: VERSION,
        grants: vec![Grant::Observe, Grant::Load],
        is_root: false,
        sessions: 0,
        monotonic_ns: 0,
    };
    let log = |line: &str| match line {
        "joined" => println!("joined"),
        line if line.contains("not reached") || line.contains("disconnected") => {
            eprintln!("{line}")
        }
        _ => {}
    };
    serve(credentials, here, &Simulated { nth }, Box::new(log)).await
}

/// The sessions of one agent.
struct Simulated {
    nth: usize,
}

impl Sessions for Simulated {
    fn begin(&self, heard: mpsc::Receiver<Vec<u8>>, say: mpsc::Sender<Vec<u8>>) -> io::Result<()> {
        let session = Session {
            nth: self.nth,
            say,
            load: Arc::default(),
            proceeds: mpsc::channel(1),
            watched_ns: 0,
        };
        tokio::spawn(session.serve(heard));
        Ok(())
    }
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What a conductor says to a load.
#[derive(Default)]
struct Conducted {
    is_over: AtomicBool,
}

type Proceeds = Arc<Mutex<mpsc::Receiver<Option<u64>>>>;

struct Session {
    nth: usize,
    say: mpsc::Sender<Vec<u8>>,
    load: Arc<Conducted>,
    proceeds: (mpsc::Sender<Option<u64>>, mpsc::Receiver<Option<u64>>),
    watched_ns: u64,
}

async fn say(to: &mpsc::Sender<Vec<u8>>, said: &Said) {
    let bytes = frame(said).expect("a frame");
    // Who hears nothing ends the session.
    let _ = to.send(bytes).await;
}

impl Session {
    async fn serve(self, mut heard: mpsc::Receiver<Vec<u8>>) {
        let Session {
            nth,
            say: to,
            load,
            proceeds: (proceed, proceeds),
            mut watched_ns,
        } = self;
        let proceeds: Proceeds = Arc::new(Mutex::new(proceeds));
        let _ = to.send(GREETING.to_vec()).await;
        let mut frames = Frames::default();
        while let Some(bytes) = heard.recv().await {
            frames.push(&bytes);
            while let Some(Request { number, ask, .. }) = frames.take().expect("a request") {
                let answer = match ask {
                    Ask::Drive(order) => {
                        load.is_over.store(false, Ordering::Relaxed);
                        let driving = Driving {
                            number,
                            to: to.clone(),
                            load: Arc::clone(&load),
                            proceeds: Arc::clone(&proceeds),
                            random: Rng::with_seed(nth as u64 + 1),
                        };
                        tokio::spawn(driving.drive(*order));
                        continue;
                    }
                    Ask::Proceed { zero_ns } => {
                        let _ = proceed.try_send(zero_ns);
                        Ok(Answer::Done)
                    }
                    Ask::EndLoad { .. } => {
                        load.is_over.store(true, Ordering::Relaxed);
                        Ok(Answer::Done)
                    }
                    other => answered(nth, &mut watched_ns, other),
                };
                say(&to, &Said::Reply(Reply { number, answer })).await;
            }
        }
    }
}

/// What needs no load.
fn answered(nth: usize, watched_ns: &mut u64, ask: Ask) -> Result<Answer, Refusal> {
    let now_ns = monotonic_ns();
    let core = |cpu| CoreSample {
        cpu,
        usr: 0.25,
        sys: 0.25,
        ..CoreSample::default()
    };
    Ok(match ask {
        Ask::Hello(_) => Answer::Welcome(Welcome {
            protocol: VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            grants: vec![Grant::Observe, Grant::Load],
            epoch: 1,
            keeps: Some(format!("{nth:024x}")),
            host: name(nth),
            pid: 1,
            is_root: false,
            cpus: vec![0, 1],
            subjects: Vec::new(),
        }),
        Ask::Clock => Answer::Clock {
            monotonic_ns: now_ns,
        },
        Ask::Renew => Answer::Renewed {
            monotonic_ns: now_ns,
            sample: (*watched_ns != 0).then(|| {
                Box::new(Sample {
                    at_ns: (now_ns - *watched_ns) as i64,
                    span_ns: INTERVAL.as_nanos() as u64,
                    cores: vec![core(0), core(1)],
                    ..Sample::default()
                })
            }),
        },
        Ask::Facts { .. } => Answer::Facts(Box::default()),
        Ask::Route { .. } => Answer::Route {
            own: None,
            interface: None,
        },
        Ask::Watch { .. } => {
            *watched_ns = now_ns;
            Answer::Watching { zero_ns: now_ns }
        }
        Ask::CountFrom { zero_ns } => {
            let ns = zero_ns as i64 - *watched_ns as i64;
            *watched_ns = zero_ns;
            Answer::Later { ns }
        }
        Ask::Mark { .. } => Answer::Marked {
            at_ns: now_ns as i64 - *watched_ns as i64,
        },
        Ask::Summarise { spans } => Answer::Telemetry(
            spans
                .iter()
                .map(|(from_ns, to_ns)| Telemetry {
                    window_ns: to_ns.abs_diff(*from_ns),
                    samples: 10,
                    cores: vec![core(0), core(1)],
                    client: Some(FamilySummary {
                        name: "wallfinder".to_owned(),
                        processes: 1,
                        threads: 4,
                        cpus_allowed: vec![0, 1],
                        cpu_ns: to_ns.abs_diff(*from_ns),
                        utilisation: 0.5,
                        ..FamilySummary::default()
                    }),
                    ..Telemetry::default()
                })
                .collect(),
        ),
        Ask::Unwatch => Answer::Unwatched { gaps: Vec::new() },
        Ask::Samples { .. } => Answer::Samples {
            samples: Vec::new(),
            more: false,
        },
        Ask::PaceWithin { .. } => Answer::Pace { ns: Some(1e6) },
        Ask::Neighbours { .. } => Answer::Neighbours(Vec::new()),
        Ask::Fits { .. } | Ask::Pace { .. } | Ask::Forget { .. } | Ask::FindAgain => Answer::Done,
        other => {
            let why = format!("a simulated agent does not do this: {other:?}");
            return Err(Refusal::Failed { why });
        }
    })
}

struct Driving {
    number: u64,
    to: mpsc::Sender<Vec<u8>>,
    load: Arc<Conducted>,
    proceeds: Proceeds,
    random: Rng,
}

impl Driving {
    async fn news(&self, progress: Progress) {
        say(&self.to, &Said::News(News::Progress(Box::new(progress)))).await;
    }

    async fn proceeds(&self, most: Duration) -> Option<u64> {
        let mut proceeds = self.proceeds.lock().await;
        timeout(most, proceeds.recv())
            .await
            .ok()
            .flatten()
            .flatten()
    }

    async fn drive(mut self, order: LoadOrder) {
        self.news(Progress::Ready).await;
        let zero_ns = self.proceeds(BEGIN_WAIT_MAX).await;
        let zero_ns = zero_ns.unwrap_or_else(monotonic_ns);
        self.news(Progress::Starts { zero_ns }).await;
        let connections = u64::from(order.load.connections);
        let (warmup_ns, window_ns) = (order.load.warmup.0, order.load.stop.after.0);
        let every = told_every(order.share).max(INTERVAL).as_nanos() as u64;
        let (mut at_ns, end_ns) = (0, warmup_ns + window_ns);
        let (mut all, mut counts, mut intervals) =
            (Latencies::new(), Counts::default(), Vec::new());
        if warmup_ns == 0 {
            self.news(Progress::Edge(Edge::Open)).await;
        }
        let wall = SystemTime::now();
        let ahead = Duration::from_nanos(zero_ns.saturating_sub(monotonic_ns()));
        let began = wall + ahead;
        while at_ns < end_ns && !self.load.is_over.load(Ordering::Relaxed) {
            let edge_ns = if at_ns < warmup_ns { warmup_ns } else { end_ns };
            let next_ns = (at_ns + every).min(edge_ns);
            let until_ns = zero_ns + next_ns;
            sleep(Duration::from_nanos(
                until_ns.saturating_sub(monotonic_ns()),
            ))
            .await;
            let is_measured = at_ns >= warmup_ns;
            let (interval, latencies) = self.interval(connections, at_ns, next_ns);
            if is_measured {
                counts.scheduled += interval.scheduled;
                counts.answered += interval.answered;
                counts.bytes_in += interval.bytes_in;
                all.add(&latencies);
            }
            intervals.push(interval.clone());
            let latency = latencies.to_record().map(Box::new);
            self.news(Progress::Interval { interval, latency }).await;
            at_ns = next_ns;
            if at_ns == warmup_ns {
                self.news(Progress::Edge(Edge::Open)).await;
            }
        }
        self.news(Progress::Edge(Edge::Close)).await;
        self.proceeds(LOOK_WAIT_MAX).await;
        self.news(Progress::Edge(Edge::Drained)).await;
        counts.in_flight_start = connections;
        counts.in_flight_end = connections;
        counts.statuses.insert(200, counts.answered);
        let answered = counts.answered;
        let measured = Measured {
            zero_ns,
            window_from_ns: warmup_ns,
            window_to_ns: at_ns.max(warmup_ns),
            throughput: answered as f64 / (window_ns.max(1) as f64 / 1e9),
            in_flight_mean: answered as f64 * all.mean_ns() / window_ns.max(1) as f64,
            latency: all.to_record(),
            service: all.to_record(),
            open_connections: OpenConnections {
                most: connections,
                mean: connections as f64,
                ..OpenConnections::default()
            },
            workers: vec![WorkerSummary {
                connections: connections as u32,
                answered,
                cpu_ns: window_ns / 2,
                busy_share: 0.5,
                ..worker()
            }],
            intervals,
            counts,
            io: "epoll".to_owned(),
            ..Measured::default()
        };
        let answer = Ok(Answer::Measured(Box::new(measured)));
        let number = self.number;
        say(&self.to, &Said::Reply(Reply { number, answer })).await;
        let nanos = |at: SystemTime| {
            at.duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |of| of.as_nanos())
        };
        println!("{answered} {} {}", nanos(began), nanos(SystemTime::now()));
    }

    fn interval(&mut self, connections: u64, from_ns: u64, to_ns: u64) -> (Interval, Latencies) {
        let seconds = (to_ns - from_ns) as f64 / 1e9;
        let mean = connections as f64 * ANSWERS_PER_S * seconds;
        let answered = (mean * (0.9 + 0.2 * self.random.f64())).round() as u64;
        let mut latencies = Latencies::new();
        for _ in 0..answered {
            latencies.record(1_000_000 + (self.random.f64() * self.random.f64() * 9e6) as u64);
        }
        let interval = Interval {
            at_ns: to_ns,
            span_ns: to_ns - from_ns,
            answered,
            scheduled: answered,
            bytes_in: answered * 200,
            in_flight: connections,
            p50_ns: latencies.quantile_ns(0.5),
            p99_ns: latencies.quantile_ns(0.99),
            max_ns: latencies.max_ns(),
            ..Interval::default()
        };
        (interval, latencies)
    }
}

fn worker() -> WorkerSummary {
    WorkerSummary {
        worker: 0,
        cpu: None,
        connections: 0,
        answered: 0,
        cpu_ns: 0,
        polled_ns: 0,
        busy_share: 0.0,
        waits: 0,
        events: 0,
        batching_waits: 0,
        batching_ns: 0,
    }
}
