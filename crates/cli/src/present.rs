//! Showing a run while it goes on: a frame on a terminal, a line a second elsewhere.
//! What is shown are snapshots that the workers publish anyway.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use wallfinder_conduct::ClientNow;
use wallfinder_model::record::Interval;
use wallfinder_model::telemetry::{CoreSample, FamilySample, Sample};
use wallfinder_model::{Arrival, Step};
use wallfinder_report::look::Look;
use wallfinder_report::text::live::{self, Client, Core, FULL, Moment, Phase, Side};

use crate::{log, output};

/// Intervals of throughput that the frame's curve shows.
const HISTORY_MAX: usize = 120;
/// Intervals between two frames, and between two lines.
const INTERVALS_PER_FRAME: u64 = 2;
const INTERVALS_PER_LINE: u64 = 10;
/// Intervals between two lines of an experiment, whose windows are shorter than a second.
const INTERVALS_PER_EXPERIMENT_LINE: u64 = 50;

/// Who shows it, and where.
#[derive(Debug)]
pub(crate) struct Presenter {
    mode: Mode,
    look: Look,
    moment: Moment,
    intervals: u64,
    /// Lines of the frame on the screen.
    drawn: usize,
    warmup_ns: u64,
    client_cpus: Vec<u32>,
    server_cpus: Vec<u32>,
    /// Whether workers may poll for what is to start, which takes CPU time and no room.
    may_poll: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Quiet,
    Lines,
    Frame,
}

impl Presenter {
    /// One for standard error; quiet where that is asked for.
    pub(crate) fn new(quiet: bool, ascii: bool) -> Presenter {
        let terminal = io::stderr().is_terminal();
        // The log's lines would stand within a frame.
        let mode = match (quiet, terminal && !log::is_on()) {
            (true, _) => Mode::Quiet,
            (false, true) => Mode::Frame,
            (false, false) => Mode::Lines,
        };
        Presenter {
            mode,
            look: output::look(terminal, ascii),
            moment: Moment::default(),
            intervals: 0,
            drawn: 0,
            warmup_ns: 0,
            client_cpus: Vec::new(),
            server_cpus: Vec::new(),
            may_poll: false,
        }
    }

    /// Something to be told once.
    pub(crate) fn say(&mut self, text: &str) {
        if self.mode != Mode::Quiet {
            self.erase();
            output::tell(text);
        }
    }

    /// Whose processors are whose.
    pub(crate) fn sides(&mut self, client_cpus: &[u32], server_cpus: &[u32]) {
        self.client_cpus = client_cpus.to_vec();
        self.server_cpus = server_cpus.to_vec();
    }

    /// A step begins: number `step` of `steps`, from 1.
    pub(crate) fn begins(&mut self, step: &Step, number: u32, steps: u32) {
        let load = &step.load;
        self.warmup_ns = load.warmup.0;
        self.intervals = 0;
        self.may_poll = load.arrival.is_open();
        self.moment = Moment {
            title: step.target.url.clone(),
            step: number,
            steps,
            name: step.name.clone(),
            phase: Phase::WarmUp,
            planned_ns: load.warmup.0 + load.stop.after.0,
            asked: match load.arrival {
                Arrival::Closed { .. } | Arrival::Replay { .. } => None,
                Arrival::Constant { rate } | Arrival::Poisson { rate } => Some(rate.0),
                Arrival::Ramp { to, .. } => Some(to.0),
            },
            ..Moment::default()
        };
    }

    /// An interval of a step or of an experiment has ended.
    pub(crate) fn interval(&mut self, interval: &Interval, sample: Option<&Sample>) {
        let is_squeezing = self.is_squeezing();
        let moment = &mut self.moment;
        let rate = interval.answered as f64 * 1e9 / interval.span_ns.max(1) as f64;
        if !is_squeezing {
            moment.phase = match interval.at_ns < self.warmup_ns {
                true => Phase::WarmUp,
                false => Phase::Measuring,
            };
        }
        moment.elapsed_ns = interval.at_ns;
        moment.throughput = rate;
        if moment.history.len() == HISTORY_MAX {
            moment.history.remove(0);
        }
        moment.history.push(rate);
        if interval.p50_ns > 0 {
            moment.p50_ns = interval.p50_ns;
            moment.p99_ns = interval.p99_ns;
        }
        moment.in_flight = interval.in_flight;
        moment.answered += interval.answered;
        moment.failed += interval.failed;
        if let Some(sample) = sample {
            moment.client = side("client", sample.client.as_ref(), sample, &self.client_cpus);
            moment.server = side("server", sample.server.as_ref(), sample, &self.server_cpus);
        }
        self.intervals += 1;
        self.show();
    }

    /// How each of several client hosts does; shown with the next interval.
    pub(crate) fn clients(&mut self, hosts: &[ClientNow]) {
        let may_poll = self.may_poll;
        let clients = hosts.iter().map(|host| {
            let busy = host.busy.filter(|_| !may_poll);
            Client {
                name: host.name.clone(),
                busy,
                is_full: busy.is_some_and(|busy| busy >= FULL),
                is_lost: host.is_lost,
            }
        });
        self.moment.clients = clients.collect();
    }

    fn is_squeezing(&self) -> bool {
        matches!(self.moment.phase, Phase::Squeezing(_))
    }

    /// A window of an experiment begins, which may last so long; and what is known by now.
    pub(crate) fn squeezing(&mut self, what: &str, left: Duration, so_far: &str) {
        let left_s = left.as_secs();
        self.moment.phase = Phase::Squeezing(format!(
            "{what} · at most {}:{:02} left{so_far}",
            left_s / 60,
            left_s % 60
        ));
        self.moment.planned_ns = self.moment.elapsed_ns + left.as_nanos() as u64;
        if self.mode == Mode::Frame {
            self.draw();
        }
    }

    /// The window has closed.
    pub(crate) fn phase(&mut self, phase: Phase) {
        self.moment.phase = phase;
        if self.mode == Mode::Frame {
            self.draw();
        }
    }

    /// A step has ended: its line stays.
    pub(crate) fn ended(&mut self, step: &Step, steps: u32) {
        if self.mode == Mode::Quiet {
            return;
        }
        self.erase();
        let _ = writeln!(io::stderr(), "{}", live::step_line(step, steps, &self.look));
    }

    fn show(&mut self) {
        let per_line = match self.is_squeezing() {
            true => INTERVALS_PER_EXPERIMENT_LINE,
            false => INTERVALS_PER_LINE,
        };
        match self.mode {
            Mode::Quiet => {}
            Mode::Frame if self.intervals.is_multiple_of(INTERVALS_PER_FRAME) => self.draw(),
            Mode::Lines if self.intervals.is_multiple_of(per_line) => {
                let _ = writeln!(io::stderr(), "{}", live::line(&self.moment, &self.look));
            }
            Mode::Frame | Mode::Lines => {}
        }
    }

    fn draw(&mut self) {
        let lines = live::frame(&self.moment, &self.look);
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A\x1b[J", self.drawn));
        }
        for line in &lines {
            text.push_str(line);
            text.push('\n');
        }
        self.drawn = lines.len();
        let mut err = io::stderr().lock();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    fn erase(&mut self) {
        if self.drawn > 0 {
            let _ = write!(io::stderr(), "\x1b[{}A\x1b[J", self.drawn);
            self.drawn = 0;
        }
    }
}

fn side(name: &str, family: Option<&FamilySample>, sample: &Sample, cpus: &[u32]) -> Option<Side> {
    let family = family?;
    let cores: Vec<Core> = sample
        .cores
        .iter()
        .filter(|core| cpus.is_empty() || cpus.contains(&core.cpu))
        .map(|core: &CoreSample| Core {
            cpu: core.cpu,
            busy: f64::from(core.busy()),
        })
        .collect();
    let available = cores.len().max(1) as f64 * sample.span_ns.max(1) as f64;
    Some(Side {
        name: name.to_owned(),
        utilisation: family.cpu_ns as f64 / available,
        cores: if cpus.is_empty() { Vec::new() } else { cores },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_client_host_is_full_unless_its_workers_may_be_polling() {
        let mut presenter = Presenter::new(true, true);
        let hosts = [Some(FULL), Some(0.9), None].map(|busy| ClientNow {
            name: "c1".to_owned(),
            busy,
            is_lost: false,
        });
        for (may_poll, full) in [(false, [true, false, false]), (true, [false; 3])] {
            presenter.may_poll = may_poll;
            presenter.clients(&hosts);
            let clients = presenter.moment.clients.iter();
            assert_eq!(clients.map(|of| of.is_full).collect::<Vec<_>>(), full);
        }
    }
}
