//! From flags to a server that serves: calibrate, listen, announce, accept.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use subject::{allow_many_connections, listen_on};

use crate::announce;
use crate::background;
use crate::draws::Draws;
use crate::options::Options;
use crate::spin::Spinner;
use crate::stations::{ServiceTime, StationPlan, Stations};
use crate::work::{Shared, Work};
use crate::worker::{Inbox, Worker};

/// Serves until the process is killed, or something breaks that cannot be served without.
pub fn serve(options: &Options) -> io::Result<()> {
    // Sleeps are as long as they say, and not up to 50 µs longer. Threads inherit it.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    allow_many_connections();
    let spinner = match options.iterations_per_us {
        Some(speed) => Spinner::with_speed(speed),
        None => Spinner::calibrate(),
    };
    let listener = listen_on(SocketAddr::new(options.host, options.port), options.backlog)?;
    background::contend(options.contend_threads);
    let (failed, failures) = mpsc::channel();
    let inboxes = start_workers(options, spinner, &failed)?;
    let line = announce::line(listener.local_addr()?, spinner.iterations_per_us());
    io::stdout().write_all(line.as_bytes())?;
    let delay = Duration::from_nanos(options.accept_delay_ns);
    thread::spawn(move || {
        let _ = failed.send(accept(&listener, &inboxes, delay));
    });
    failures.recv().unwrap_or(Ok(()))
}

fn start_workers(
    options: &Options,
    spinner: Spinner,
    failed: &Sender<io::Result<()>>,
) -> io::Result<Vec<Inbox>> {
    let (shared, origin) = (Arc::<Shared>::default(), Instant::now());
    let mut inboxes = Vec::new();
    for number in 0..u64::from(options.workers) {
        let draws = |stream| Draws::new(options.seed, 2 * number + stream);
        let work = Work::new(options, spinner, Arc::clone(&shared), draws(0));
        let stations = Stations::new(&station_plans(options), draws(1));
        let worker = Worker::new(options, work, stations, origin)?;
        inboxes.push(worker.inbox());
        let failed = failed.clone();
        thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(move || failed.send(worker.run()))?;
    }
    Ok(inboxes)
}

fn station_plans(options: &Options) -> Vec<StationPlan> {
    let mut plans = Vec::new();
    if options.async_sleep_ns > 0 {
        plans.push(StationPlan {
            servers: None,
            time: ServiceTime::Fixed(options.async_sleep_ns),
        });
    }
    if options.permits > 0 {
        plans.push(StationPlan {
            servers: Some(options.permits),
            time: ServiceTime::Fixed(options.permit_sleep_ns),
        });
    }
    let stage = StationPlan {
        servers: Some(1),
        time: ServiceTime::Exponential(options.stage_mean_ns),
    };
    plans.extend((0..options.stages).map(|_| stage));
    plans
}

/// Accepts, and deals connections out in turn.
fn accept(listener: &TcpListener, inboxes: &[Inbox], delay: Duration) -> io::Result<()> {
    for inbox in inboxes.iter().cycle() {
        if !delay.is_zero() {
            thread::sleep(delay);
        }
        inbox.put(subject::accept(listener)?)?;
    }
    Ok(())
}
