//! What a run looks like while it runs: one line for logs, one frame for terminals.
//!
//! Both are functions of a [`Moment`] that the caller fills from snapshots which the workers
//! publish anyway. Where the frame is put, and how it is replaced, is the caller's.

use wallfinder_model::verdict::How;
use wallfinder_model::{Step, Wall};

use crate::look::{INDENT, Line, Look, Page, Role, cut};
use crate::{number, words};

/// A side, or a client host, that is so busy has no room.
pub const FULL: f64 = 0.95;
/// Client hosts that are named one by one; more are counted.
const NAMED_MAX: usize = 6;

/// What a step is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The apparatus is being put up.
    Staging,
    /// Load runs and is not measured.
    WarmUp,
    /// Load runs and is measured.
    Measuring,
    /// A resource is squeezed, named in words: `downlink, 20 %`.
    Squeezing(String),
    /// The record is judged.
    Judging,
}

impl Phase {
    fn words(&self) -> String {
        match self {
            Phase::Staging => "staging".to_owned(),
            Phase::WarmUp => "warming up".to_owned(),
            Phase::Measuring => "measuring".to_owned(),
            Phase::Squeezing(what) => format!("squeezing {what}"),
            Phase::Judging => "judging".to_owned(),
        }
    }
}

/// One processor of a side, shares of 0..1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Core {
    /// Its number.
    pub cpu: u32,
    /// Share that was busy.
    pub busy: f64,
}

/// One side of the wire.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Side {
    /// The command: `catalogue`, `wallfinder`.
    pub name: String,
    /// CPU time over what it may use, 0..1.
    pub utilisation: f64,
    /// Its processors.
    pub cores: Vec<Core>,
}

/// One of several client hosts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Client {
    /// What it is called.
    pub name: String,
    /// CPU time over what its workers may take, 0..1; `None`: not known.
    pub busy: Option<f64>,
    /// Whether it has no room.
    pub is_full: bool,
    /// Whether it is lost.
    pub is_lost: bool,
}

/// A run at one instant.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// What is under load: a URL or a name.
    pub title: String,
    /// Number of the step, from 1.
    pub step: u32,
    /// Steps in all.
    pub steps: u32,
    /// Name of the step.
    pub name: String,
    /// What it is doing.
    pub phase: Phase,
    /// Since the step began.
    pub elapsed_ns: u64,
    /// Planned length of the step, warm-up included.
    pub planned_ns: u64,
    /// Good answers per second, now.
    pub throughput: f64,
    /// Requests per second asked for, in an open loop.
    pub asked: Option<f64>,
    /// Throughput of the past slices, oldest first.
    pub history: Vec<f64>,
    /// Median latency, now; 0 when there is none.
    pub p50_ns: u64,
    /// 99th percentile, now; 0 when there is none.
    pub p99_ns: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Good answers so far.
    pub answered: u64,
    /// Failures so far.
    pub failed: u64,
    /// The server, where it is seen.
    pub server: Option<Side>,
    /// The driver, where it is seen.
    pub client: Option<Side>,
    /// The client hosts, where there are several.
    pub clients: Vec<Client>,
}

impl Moment {
    /// Under a squeeze latency and use are those of the squeeze, and not to be read in passing.
    fn is_squeezing(&self) -> bool {
        matches!(self.phase, Phase::Squeezing(_))
    }
}

impl Default for Moment {
    fn default() -> Moment {
        Moment {
            title: String::new(),
            step: 1,
            steps: 1,
            name: String::new(),
            phase: Phase::Staging,
            elapsed_ns: 0,
            planned_ns: 0,
            throughput: 0.0,
            asked: None,
            history: Vec::new(),
            p50_ns: 0,
            p99_ns: 0,
            in_flight: 0,
            answered: 0,
            failed: 0,
            server: None,
            client: None,
            clients: Vec::new(),
        }
    }
}

fn latency(ns: u64) -> String {
    if ns == 0 {
        number::UNKNOWN.to_owned()
    } else {
        number::span(ns as f64)
    }
}

/// Tenths of seconds for a clock: `12.0 s`.
fn clock(ns: u64) -> String {
    format!("{:.1} s", ns as f64 / 1e9)
}

/// One line of progress, for places that keep every line.
pub fn line(moment: &Moment, look: &Look) -> String {
    let squeezing = moment.is_squeezing();
    let (name_room, phase_room) = if squeezing { (16, 90) } else { (24, 28) };
    let mut parts = vec![
        format!(
            "{} {}",
            counter(moment.step, moment.steps),
            cut(&moment.name, name_room)
        ),
        cut(&moment.phase.words(), phase_room),
    ];
    if !squeezing {
        parts[1].push_str(&format!(" {}", clock(moment.elapsed_ns)));
    }
    match lost(&moment.clients).count() {
        0 => {}
        lost => parts.push(format!("{lost} of {} clients lost", moment.clients.len())),
    }
    if !matches!(moment.phase, Phase::Staging | Phase::Judging) {
        parts.push(format!("{}/s", number::amount(moment.throughput)));
    }
    if !squeezing && !matches!(moment.phase, Phase::Staging | Phase::Judging) {
        parts.push(format!(
            "p50 {} p99 {}",
            latency(moment.p50_ns),
            latency(moment.p99_ns)
        ));
        let share = |name: &str, side: &Side| format!("{name} {}", number::share(side.utilisation));
        parts.extend(moment.server.as_ref().map(|side| share("server", side)));
        parts.extend(match moment.clients.is_empty() {
            true => moment.client.as_ref().map(|side| share("client", side)),
            false => busiest(&moment.clients),
        });
    }
    if moment.failed > 0 && moment.phase != Phase::Staging {
        parts.push(format!("{} failed", number::whole(moment.failed)));
    }
    Line::new()
        .plain(cut(&parts.join(" · "), look.columns()))
        .finish(look)
}

/// `[2/7]`; `[2]` where nobody knows yet how many there will be.
fn counter(step: u32, steps: u32) -> String {
    if step <= steps {
        format!("[{step}/{steps}]")
    } else {
        format!("[{step}]")
    }
}

/// One line for a step that ended, for places that keep every line.
pub fn step_line(step: &Step, steps: u32, look: &Look) -> String {
    let mut parts = vec![
        format!(
            "{} {}",
            counter(step.index.saturating_add(1), steps),
            cut(&step.name, 24)
        ),
        format!("{} requests/s", number::amount(step.throughput)),
    ];
    if let Some(latency) = &step.latency {
        for name in ["p50", "p99"] {
            if let Some(ns) = latency.quantile_ns(name) {
                parts.push(format!("{name} {}", number::span(ns as f64)));
            }
        }
    }
    if let Some(verdict) = &step.verdict {
        parts.push(match verdict.wall {
            Wall::Inconclusive => "wall undecided".to_owned(),
            wall if verdict.how <= How::Observed => format!("bound by {}", words::short(wall)),
            wall => format!(
                "bound by {} ({})",
                words::short(wall),
                words::how(verdict.how)
            ),
        });
    }
    Line::new()
        .plain(cut(&parts.join(" · "), look.columns()))
        .finish(look)
}

/// The frame of a live view: at most 12 lines, each within the width.
pub fn frame(moment: &Moment, look: &Look) -> Vec<String> {
    let mut page = Page::new(look);
    let columns = page.columns();
    let room = columns - INDENT;
    let counter = format!("step {} of {}", moment.step, moment.steps);
    page.push(
        Line::new()
            .plain(" ")
            .strong(cut(&moment.title, columns - counter.len() - 4))
            .right(columns, Role::Dim, &counter),
    );
    progress(&mut page, moment);
    page.gap();

    let mut parts = format!("{} requests/s", number::amount(moment.throughput));
    if let Some(asked) = moment.asked {
        parts.push_str(&format!(" of {} asked for", number::amount(asked)));
    }
    labelled(&mut page, "throughput", Role::Strong, &parts);
    if !moment.history.is_empty() {
        labelled(
            &mut page,
            "",
            Role::Plain,
            &sparkline(&moment.history, room),
        );
    }
    let in_flight = number::whole(moment.in_flight);
    if moment.is_squeezing() {
        labelled(&mut page, "in flight", Role::Plain, &in_flight);
    } else {
        labelled(
            &mut page,
            "latency",
            Role::Plain,
            &format!(
                "p50 {} · p99 {} · {in_flight} in flight",
                latency(moment.p50_ns),
                latency(moment.p99_ns),
            ),
        );
        one_side(&mut page, "server", moment.server.as_ref());
        match moment.clients.is_empty() {
            true => one_side(&mut page, "client", moment.client.as_ref()),
            false => clients(&mut page, &moment.clients),
        }
    }
    let answered = format!("{} answered", number::whole(moment.answered));
    if moment.failed > 0 {
        let failed = format!("{answered} · {} failed", number::whole(moment.failed));
        labelled(&mut page, "so far", Role::Bad, &failed);
    } else {
        labelled(&mut page, "so far", Role::Dim, &answered);
    }
    page.lines().collect()
}

/// A line that is cut, never wrapped: a frame keeps its height.
fn labelled(page: &mut Page, label: &str, role: Role, text: &str) {
    let room = page.columns() - INDENT;
    page.push(
        Line::new()
            .plain(" ")
            .dim(label)
            .until_column(INDENT)
            .put(role, cut(text, room)),
    );
}

/// `measuring   ███████░░░░░  6.2 s of 12 s`.
fn progress(page: &mut Page, moment: &Moment) {
    let columns = page.columns();
    let clock = format!(
        "{} of {}",
        clock(moment.elapsed_ns),
        number::length(moment.planned_ns)
    );
    let name = cut(
        &format!("{} · {}", moment.name, moment.phase.words()),
        (columns / 2).saturating_sub(2),
    );
    let line = Line::new().plain(" ").plain(name).plain("  ");
    let room = columns.saturating_sub(line.width() + clock.chars().count() + 1);
    let share = if moment.planned_ns > 0 {
        moment.elapsed_ns as f64 / moment.planned_ns as f64
    } else {
        0.0
    };
    page.push(
        line.plain(gauge(share, room))
            .right(columns, Role::Dim, &clock),
    );
}

fn one_side(page: &mut Page, label: &str, side: Option<&Side>) {
    match side {
        Some(side) => cores(page, label, side),
        None => labelled(page, label, Role::Dim, "not seen"),
    }
}

fn lost(clients: &[Client]) -> impl Iterator<Item = &str> {
    let lost = clients.iter().filter(|client| client.is_lost);
    lost.map(|client| client.name.as_str())
}

/// `busiest c17 99 %`, where any is known to be busy.
fn busiest(clients: &[Client]) -> Option<String> {
    let known = clients.iter().rev().filter_map(|client| {
        let busy = client.busy.filter(|busy| busy.is_finite())?;
        (!client.is_lost).then_some((&client.name, busy))
    });
    // Of equals the first.
    let (name, busy) = known.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!("busiest {name} {}", number::share(busy)))
}

/// Client hosts in one line: which are lost, which is the busiest and how many are full.
fn clients(page: &mut Page, clients: &[Client]) {
    let room = page.columns() - INDENT;
    let is_any_full = clients.iter().any(|client| client.is_full);
    let role = match lost(clients).next() {
        Some(_) => Role::Bad,
        None if is_any_full => Role::Warn,
        None => Role::Plain,
    };
    labelled(page, "clients", role, &clients_within(clients, room));
}

/// As much of it as there is room for: the hosts' names are left out first, then those of lost ones, then the busiest.
fn clients_within(clients: &[Client], room: usize) -> String {
    let names: Vec<&str> = clients.iter().map(|client| client.name.as_str()).collect();
    let lost: Vec<&str> = lost(clients).collect();
    let full = clients
        .iter()
        .filter(|client| client.is_full && !client.is_lost);
    let full = match full.count() {
        0 => None,
        full => Some(format!("{full} full")),
    };
    let busiest = busiest(clients);
    let line = |hosts: &str, busiest: Option<&String>, named: usize| {
        let lost = (!lost.is_empty()).then(|| counted_lost(&lost, named));
        let parts = [Some(hosts.to_owned()), busiest.cloned(), lost, full.clone()];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join(" · ")
    };
    let count = words::counted(clients.len() as u64, "host");
    let are_few = names.len() <= NAMED_MAX;
    let all = are_few.then(|| line(&names.join(", "), busiest.as_ref(), lost.len()));
    // No name takes less than three columns.
    let named = (0..=lost.len().min(room / 3)).rev();
    let counted = named.map(|named| line(&count, busiest.as_ref(), named));
    let mut lines = all.into_iter().chain(counted);
    lines
        .find(|text| Line::new().plain(text).width() <= room)
        .unwrap_or_else(|| line(&count, None, 0))
}

/// `3 lost (c4, c9, …)`, so many of them named.
fn counted_lost(lost: &[&str], named: usize) -> String {
    let rest = if named < lost.len() { ", …" } else { "" };
    match &lost[..named] {
        [] => format!("{} lost", lost.len()),
        names => format!("{} lost ({}{rest})", lost.len(), names.join(", ")),
    }
}

/// The processors of a side, as many as fit.
fn cores(page: &mut Page, label: &str, side: &Side) {
    let room = page.columns() - INDENT;
    let mut text = format!("{:>5}", number::share(side.utilisation));
    let name = cut(&side.name, 14);
    text.push_str(&format!("  {name}"));
    let each = 20;
    let fit = room.saturating_sub(text.chars().count() + 12) / each;
    for core in side.cores.iter().take(fit) {
        text.push_str(&format!(
            "  cpu{} {} {:>5}",
            core.cpu,
            gauge(core.busy, 6),
            number::share(core.busy)
        ));
    }
    if side.cores.len() > fit {
        text.push_str(&format!("  +{} more", side.cores.len() - fit));
    }
    let full = side.utilisation >= FULL;
    labelled(
        page,
        label,
        if full { Role::Warn } else { Role::Plain },
        &text,
    );
}

/// A bar of `room` columns, filled to a share.
fn gauge(share: f64, room: usize) -> String {
    let share = if share.is_finite() { share } else { 0.0 };
    let full = ((share.clamp(0.0, 1.0) * room as f64).round() as usize).min(room);
    format!("{}{}", "█".repeat(full), "░".repeat(room - full))
}

/// The newest values as eight heights, scaled from zero to the largest.
fn sparkline(history: &[f64], room: usize) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &history[history.len().saturating_sub(room)..];
    let top = shown
        .iter()
        .copied()
        .filter(|value| value.is_finite())
        .fold(0.0, f64::max);
    shown
        .iter()
        .map(|value| {
            if !value.is_finite() || top <= 0.0 {
                return HEIGHTS[0];
            }
            let height = (value.max(0.0) / top * 7.0).round() as usize;
            HEIGHTS[height.min(7)]
        })
        .collect()
}
