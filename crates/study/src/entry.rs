//! Steps as conditions see them: flat fields, absent where nothing was measured.
//!
//! The words are in [`crate::vocabulary`]; a test holds the two together.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use wallfinder_judge::profile::{
    is_clearing, is_go_futex, is_go_lock, is_inflating, is_of_utf8, is_spinning,
};
use wallfinder_judge::rounds::{self, Disturbance};
use wallfinder_judge::{cost, identity, little};
use wallfinder_model::counters::CallKind;
use wallfinder_model::profile::{Node, ProfileKind, Profiles, Reading};
use wallfinder_model::record::Step;
use wallfinder_model::telemetry::{CoreSample, FamilySummary};
use wallfinder_model::{Caveat, Squeeze, Verdict, Wall};

use crate::expand::StudyStep;
use crate::language::Value;

/// A step that ran, under the names that claims use.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) label: String,
    pub(crate) group: String,
    pub(crate) driver: String,
    pub(crate) connections: u32,
    /// Connections and what may be in flight on each: what `clients` says in files.
    pub(crate) clients: f64,
    pub(crate) payload: Option<u32>,
    pub(crate) round: u32,
    pub(crate) in_flight: f64,
    pub(crate) throughput: f64,
    /// Why its round may tell nothing: what others did to it, or what its own record doubts.
    pub(crate) disturbed: Option<String>,
    pub(crate) fields: BTreeMap<String, Field>,
    /// What conditions see, made once.
    pub(crate) value: OnceLock<Value>,
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
    /// True or false.
    Truth(bool),
}

/// What others did to a step, in words, where that was so much that its round may tell nothing.
pub(crate) fn disturbance(step: &Step) -> Option<String> {
    Some(match rounds::disturbance(step)? {
        Disturbance::Neighbour { side, cores } => {
            let side = side.label();
            format!("others used {cores:.2} cores of the {side}'s processors")
        }
        Disturbance::Stolen { share } => {
            format!("the hypervisor took {:.0} % of its time", share * 100.0)
        }
        Disturbance::StoodStill { gap_ns } => {
            format!("everything stood still for {} ms", gap_ns / 1_000_000)
        }
    })
}

impl Entry {
    /// A step as claims see it.
    pub(crate) fn of(planned: &StudyStep, step: &Step) -> Entry {
        let mut fields = Fields::default();
        fields.text("label", &planned.label);
        fields.text("group", &planned.group);
        fields.text("driver", &planned.driver.name);
        fields.text("path", &planned.path);
        fields.number("payload", planned.payload.map(f64::from));
        fields.number("round", Some(f64::from(planned.round)));
        load(&mut fields, step);
        times(&mut fields, step);
        if let Some(verdict) = &step.verdict {
            fields.text("bound_by", verdict.wall.label());
            fields.number("confidence", Some(verdict.confidence));
            let server = verdict.wall != Wall::Inconclusive && verdict.wall.is_server();
            let server_bound = ("server_bound".to_owned(), Field::Truth(server));
            fields.list.extend([server_bound]);
        }
        if let Some(verdict) = &step.verdict {
            squeezed(&mut fields, verdict);
        }
        if let Some(profiles) = &step.profiles {
            profiled(&mut fields, profiles);
            processors(&mut fields, "profile", profiles);
            counted(&mut fields, "server", profiles);
        }
        if let Some(profiles) = &step.client_profiles {
            processors(&mut fields, "client_profile", profiles);
            counted(&mut fields, "client", profiles);
        }
        costs(&mut fields, step);
        if let Some(ceiling) = &step.ceiling {
            fields.number("ceiling.throughput", Some(ceiling.throughput));
            fields.number("ceiling.share", Some(step.throughput / ceiling.throughput));
            fields.number(
                "ceiling.cpu_per_request_us",
                Some(ceiling.cpu_per_request_ns / 1e3),
            );
        }
        Entry {
            in_flight: if step.in_flight_mean.is_finite() {
                step.in_flight_mean
            } else {
                0.0
            },
            throughput: if step.throughput.is_finite() {
                step.throughput
            } else {
                0.0
            },
            disturbed: disturbance(step).or_else(|| doubted(step)),
            ..Entry::planned(planned, fields.list)
        }
    }

    /// What is known of a step by its plan, with these fields.
    pub(crate) fn planned(planned: &StudyStep, fields: BTreeMap<String, Field>) -> Entry {
        Entry {
            label: planned.label.clone(),
            group: planned.group.clone(),
            driver: planned.driver.name.clone(),
            connections: planned.load.connections,
            clients: planned.load.wanted_max() as f64,
            payload: planned.payload,
            round: planned.round,
            in_flight: 0.0,
            throughput: 0.0,
            disturbed: None,
            fields,
            value: OnceLock::new(),
        }
    }

    /// As conditions see it: `client.utilisation` is the field `utilisation` of the field `client`.
    pub(crate) fn value(&self) -> Value {
        self.value.get_or_init(|| self.as_fields()).clone()
    }

    fn as_fields(&self) -> Value {
        let mut top: BTreeMap<String, Value> = BTreeMap::new();
        let mut parts: BTreeMap<&str, BTreeMap<String, Value>> = BTreeMap::new();
        for (path, field) in &self.fields {
            let value = match field {
                Field::Number(number) => Value::Number(*number),
                Field::Text(text) => Value::from(text.as_str()),
                Field::Truth(truth) => Value::Truth(*truth),
            };
            match path.split_once('.') {
                None => top.insert(path.clone(), value),
                Some((part, name)) => {
                    let of_part = parts.entry(part).or_default();
                    of_part.insert(name.to_owned(), value)
                }
            };
        }
        let part = |(name, fields): (&str, _)| (name.to_owned(), Value::Fields(Arc::new(fields)));
        top.extend(parts.into_iter().map(part));
        Value::Fields(Arc::new(top))
    }
}

/// How the wall was established, and what moved it.
fn squeezed(fields: &mut Fields, verdict: &Verdict) {
    fields.text("how", verdict.how.label());
    for (squeeze, name) in [
        (Squeeze::ServerSpeed, "squeezed.server_speed"),
        (Squeeze::ServerCapacity, "squeezed.server_capacity"),
        (Squeeze::ClientSpeed, "squeezed.client_speed"),
        (Squeeze::MoreClients, "squeezed.more_clients"),
        (Squeeze::InFlight, "squeezed.in_flight"),
    ] {
        let elasticity = verdict.elasticities.get(squeeze.label());
        fields.number(name, elasticity.map(|elasticity| elasticity.value));
    }
}

/// What a side's processors do, by its profile: time for each good answer, and shares of it.
fn processors(fields: &mut Fields, side: &str, profiles: &Profiles) {
    let Some(cpu) = profiles.of_cpu() else {
        return;
    };
    let each = cpu.busy() as f64 / profiles.answered_in(cpu.duration_ns);
    fields.number(&format!("{side}.cpu_us"), Some(each / 1e3));
    for (category, name) in [
        ("writing to sockets", "writing"),
        ("reading from sockets", "reading"),
        ("scheduler", "scheduler"),
        ("locking", "locking"),
        ("futex", "futex"),
        ("collection", "collection"),
        ("allocation", "allocation"),
        ("copying", "copying"),
        ("channels", "channels"),
        ("encoding", "encoding"),
        ("protocol", "protocol"),
    ] {
        let part = cpu.share_of_busy(cpu.category(category));
        fields.number(&format!("{side}.{name}_share"), Some(part));
    }
    let kernel = cpu.origins.iter().find(|part| part.name == "kernel");
    let part = kernel.map_or(0.0, |part| cpu.share_of_busy(part.value));
    fields.number(&format!("{side}.kernel_share"), Some(part));
    fields.number(&format!("{side}.named_share"), Some(cpu.named_share));
    let (futexes, of_locks) = match &cpu.whole {
        Some(whole) => (whole.futexes, whole.futexes_of_locks),
        // Of before: its tree lacks what was too small for it.
        None => futexes(&cpu.tree),
    };
    let all = Some(cpu.share_of_busy(futexes));
    fields.number(&format!("{side}.futex_with_callees_share"), all);
    let of_locks = quotient(Some(of_locks as f64), Some(futexes as f64));
    fields.number(&format!("{side}.futex_of_locks_share"), of_locks);
    let whole = cpu.whole.as_ref();
    let own = whole.and_then(|whole| whole.own);
    for (name, counted, is_meant) in [
        (
            "spinning",
            own.map(|own| own.spinning),
            is_spinning as fn(&str) -> bool,
        ),
        ("inflating", own.map(|own| own.inflating), is_inflating),
        ("utf8", own.map(|own| own.utf8), is_of_utf8),
        ("clearing", own.and_then(|own| own.clearing), is_clearing),
    ] {
        let own = counted.or_else(|| own_of_kept(cpu, is_meant));
        let part = own.map(|own| cpu.share_of_busy(own));
        fields.number(&format!("{side}.{name}_share"), part);
    }
    let frames = whole.and_then(|whole| whole.frames_before_kernel);
    fields.number(&format!("{side}.frames_before_kernel"), frames);
    let frames = whole.and_then(|whole| whole.frames_outside_runtime);
    fields.number(&format!("{side}.frames_outside_runtime"), frames);
}

/// What functions of some kinds have on their own, by the functions that a reading kept; `None` where it has none
/// of the kind, and may have left some out.
fn own_of_kept(cpu: &Reading, is_meant: fn(&str) -> bool) -> Option<i64> {
    let own = cpu.functions.iter().filter(|part| is_meant(&part.name));
    let own = own.map(|part| part.own).reduce(i64::saturating_add);
    own.or((cpu.functions.len() < wallfinder_model::profile::FUNCTIONS_MAX).then_some(0))
}

/// Time in futexes, with what the kernel does for them; and of it the time below a lock being taken or
/// given back. The rest is the scheduler's, which puts threads to sleep and wakes them.
fn futexes(tree: &[Node]) -> (i64, i64) {
    let mut path: Vec<&str> = Vec::new();
    let (mut all, mut of_locks) = (0, 0);
    for node in tree {
        path.truncate(node.depth as usize);
        let is_first = !path.iter().any(|name| is_go_futex(name));
        if is_first && is_go_futex(&node.name) {
            all = node.value.saturating_add(all);
            if path.iter().any(|name| is_go_lock(name)) {
                of_locks = node.value.saturating_add(of_locks);
            }
        }
        path.push(&node.name);
    }
    (all, of_locks)
}

/// System calls of a side, and what processors counted of it, for each good answer.
fn counted(fields: &mut Fields, side: &str, profiles: &Profiles) {
    if let Some(calls) = &profiles.calls {
        fields.number(
            &format!("{side}.calls_per_request"),
            calls.each(calls.count()),
        );
        for kind in CallKind::ALL {
            let each = calls.each(calls.of_kind(kind));
            fields.number(&format!("{side}.{}_per_request", kind.label()), each);
        }
    }
    for event in &profiles.counts {
        let answered = profiles.answered_while_counted();
        let each = event.value.map(|value| value as f64 / answered);
        let name = event.name.replace('-', "_");
        fields.number(&format!("{side}.{name}_per_request"), each);
    }
}

/// What profilers saw of the server: rates of what is not idle, and the largest places.
fn profiled(fields: &mut Fields, profiles: &Profiles) {
    let each = |of: &Reading, value: i64| value as f64 / profiles.answered_in(of.duration_ns);
    if let Some(beside) = &profiles.reconciliation {
        fields.number("profile.cores", Some(beside.profile_cores));
        fields.number("profile.off_share", Some(beside.off_profile_share));
    }
    if let Some(block) = profiles.of(ProfileKind::Block) {
        fields.number("profile.waiting", block.per_second());
        fields.number("profile.wait_us", Some(each(block, block.busy()) / 1e3));
        let seconds = block.duration_ns as f64;
        let idle = (seconds > 0.0).then(|| block.idle as f64 / seconds);
        fields.number("profile.idle", idle);
        let first = block.sites.iter().find(|site| !site.idle);
        fields.text("profile.wait", first.map_or("", |site| &site.function));
        fields.text("profile.wait_in", first.map_or("", |site| &site.waits_in));
        let part = first.map_or(0.0, |site| block.share_of_busy(site.value));
        fields.number("profile.wait_share", Some(part));
        let of_all = first.map_or(0.0, |site| block.share(site.value));
        fields.number("profile.wait_share_of_all", Some(of_all));
    }
    if let (Some(block), Some(mutex)) = (
        profiles.of(ProfileKind::Block),
        profiles.of(ProfileKind::Mutex),
    ) && mutex.duration_ns > 0
    {
        let first = block.sites.iter().find(|site| !site.idle);
        let same = mutex
            .sites
            .iter()
            .filter(|site| first.is_some_and(|first| first.function == site.function));
        let value = same.fold(0i64, |sum, site| sum.saturating_add(site.value));
        let rate = value as f64 / mutex.duration_ns as f64;
        fields.number("profile.wait_in_mutex", Some(rate));
    }
    if let Some(mutex) = profiles.of(ProfileKind::Mutex) {
        fields.number("profile.contention", mutex.per_second());
        let contentions = each(mutex, mutex.count);
        fields.number("profile.contentions_per_request", Some(contentions));
        let first = mutex.sites.first();
        fields.text("profile.holder", first.map_or("", |site| &site.function));
        let part = first.map_or(0.0, |site| mutex.share(site.value));
        fields.number("profile.holder_share", Some(part));
    }
    if let Some(allocs) = profiles.of(ProfileKind::Allocs) {
        let allocated = each(allocs, allocs.total);
        fields.number("profile.allocated_bytes", Some(allocated));
    }
    if let Some(heap) = profiles.of(ProfileKind::Heap) {
        fields.number("profile.heap_mb", Some(heap.total as f64 / 1e6));
    }
}

/// Throughput that changes by more than this within a window is of no one load.
const NOT_STEADY_RATIO: f64 = 1.2;
/// Requests in flight, throughput and latency that fit each other no better than this are not all true.
const LITTLE_OFF_MAX: f64 = 0.1;

/// How a doubt of a step's throughput begins, how one of its latency, and how one of what delays its packets.
pub(crate) const UNSTEADY: &str = "throughput changed to ";
pub(crate) const MISFIT: &str = "N/X is ";
pub(crate) const RELAY: &str = "its relay was behind, ";

/// Whether it is what a step's own record doubts, and nothing that others did.
pub(crate) fn is_own_doubt(why: &str) -> bool {
    [UNSTEADY, MISFIT, RELAY]
        .iter()
        .any(|doubt| why.starts_with(doubt))
}

/// What the record doubts of a step's own numbers. To measure it again would not help.
fn doubted(step: &Step) -> Option<String> {
    let judged = step.verdict.iter().flat_map(|verdict| &verdict.caveats);
    step.caveats
        .iter()
        .chain(judged)
        .find_map(|caveat| match caveat {
            Caveat::NotSteady { ratio, .. } if ratio.ln().abs() > NOT_STEADY_RATIO.ln() => {
                Some(format!("{UNSTEADY}{ratio:.2} × in its window"))
            }
            Caveat::LittleMismatch { ratio } if (ratio - 1.0).abs() > LITTLE_OFF_MAX => {
                Some(format!("{MISFIT}{ratio:.2} × its latency"))
            }
            Caveat::RelayBehind { busy_share, .. } => {
                Some(format!("{RELAY}{:.0} % busy", busy_share * 100.0))
            }
            _ => None,
        })
}

/// Fields under collection. What is not a finite number is left out.
#[derive(Default)]
struct Fields {
    list: BTreeMap<String, Field>,
}

impl Fields {
    fn number(&mut self, path: &str, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.list.insert(path.to_owned(), Field::Number(value));
        }
    }

    fn text(&mut self, path: &str, text: &str) {
        self.list
            .insert(path.to_owned(), Field::Text(text.to_owned()));
    }
}

fn load(fields: &mut Fields, step: &Step) {
    let load = &step.load;
    fields.number("connections", Some(f64::from(load.connections)));
    // Of a driver that keeps its depth to itself nothing is known.
    let told = |number: f64| Some(number).filter(|number| *number > 0.0);
    fields.number("depth", told(f64::from(load.in_flight_per_connection)));
    fields.number("in_flight_max", told(load.in_flight_bound() as f64));
    fields.number("in_flight", told(step.in_flight_mean));
    fields.number("throughput", Some(step.throughput));
    fields.number("fairness", step.fairness);
    fields.number("client.hosts", Some(step.clients.len().max(1) as f64));
    let answered = step.driver.answered.unwrap_or(step.counts.answered);
    fields.number("answered", Some(answered as f64));
    let kept = step.samples.as_ref().filter(|samples| samples.dropped == 0);
    fields.number("samples_kept", kept.map(|samples| samples.rows as f64));
    fields.number("window_ms", Some(step.window_ns as f64 / 1e6));
    fields.number("errors_share", Some(identity::failure_share(&step.counts)));
    if step.counts.bytes_in > 0 {
        let bytes = step.counts.bytes_in as f64;
        fields.number("mb_per_s", Some(bytes * 1e3 / step.window_ns as f64));
    }
}

fn times(fields: &mut Fields, step: &Step) {
    let ms = |ns: u64| ns as f64 / 1e6;
    if let Some(latency) = step.latency.as_ref().filter(|latency| latency.count > 0) {
        fields.number(
            "mean_ms",
            Some(latency.mean_ns / 1e6).filter(|ms| *ms > 0.0),
        );
        fields.number("p50_ms", latency.quantile_ns("p50").map(ms));
        fields.number("p95_ms", latency.quantile_ns("p95").map(ms));
        fields.number("p99_ms", latency.quantile_ns("p99").map(ms));
        fields.number("p999_ms", latency.quantile_ns("p99.9").map(ms));
        let quantile = |name: &str| latency.quantile_ns(name).map(|ns| ns as f64);
        fields.number("tail", quotient(quantile("p99"), quantile("p50")));
    }
    if let Some(service) = step.service.as_ref().filter(|service| service.count > 0) {
        fields.number(
            "service.mean_ms",
            Some(service.mean_ns / 1e6).filter(|ms| *ms > 0.0),
        );
        fields.number("service.p50_ms", service.quantile_ns("p50").map(ms));
        fields.number("service.p99_ms", service.quantile_ns("p99").map(ms));
        let quantile = |name: &str| service.quantile_ns(name).map(|ns| ns as f64);
        fields.number("service.tail", quotient(quantile("p99"), quantile("p50")));
    }
    if step.throughput > 0.0 && step.in_flight_mean > 0.0 {
        let n_over_x = step.in_flight_mean / step.throughput;
        fields.number("n_over_x_ms", Some(n_over_x * 1e3));
    }
    if let Some(little) = little::check(step) {
        fields.number("little_ratio", Some(little.ratio));
        fields.number("little_ratio_p50", little.ratio_p50);
        fields.number("little_off", Some(little.unexplained()));
    }
}

fn quotient(over: Option<f64>, under: Option<f64>) -> Option<f64> {
    Some(over? / under.filter(|under| *under > 0.0)?)
}

fn costs(fields: &mut Fields, step: &Step) {
    let cost = cost::per_answer(step);
    let us = |ns: Option<f64>| ns.map(|ns| ns / 1e3);
    fields.number("bytes_per_answer", cost.bytes_in);
    fields.number(
        "client.cpu_per_request_us",
        us(cost.client_cpu_ns.or(cost.workers_cpu_ns)),
    );
    fields.number("server.cpu_per_request_us", us(cost.server_cpu_ns));
    for (name, family) in [
        ("client", &step.telemetry.client),
        ("server", &step.telemetry.server),
    ] {
        if let Some(family) = family {
            side(fields, name, family, step);
        }
    }
    let sockets = step.telemetry.server_sockets.as_ref();
    // The share is one of the time in which there was data to send.
    let limited =
        sockets.and_then(|sockets| Some(sockets.busy_share? * sockets.send_buffer_limited_share));
    fields.number("server.send_buffer_limited", limited);
    let server = step.telemetry.server.as_ref();
    let gomaxprocs = server.and_then(|family| family.gomaxprocs);
    fields.number("server.gomaxprocs", gomaxprocs.map(f64::from));
    if let Some(link) = &step.telemetry.link {
        let rate = link.rate_bits.map(|bits| bits as f64 / 1e6);
        fields.number("link.rate_mbit", rate);
        fields.number("link.downlink_share", link.downlink_share);
        fields.number("link.uplink_share", link.uplink_share);
        fields.number("link.downlink_bytes", cost.downlink_bytes);
        fields.number("link.uplink_bytes", cost.uplink_bytes);
        fields.number("link.downlink_packets", cost.downlink_packets);
        fields.number("link.uplink_packets", cost.uplink_packets);
        let segments = step.telemetry.tcp.map(|tcp| tcp.segments_out as f64);
        let answered = step.throughput * step.telemetry.window_ns as f64 / 1e9;
        fields.number("link.segments_out", quotient(segments, Some(answered)));
    }
}

/// One side: what its processes used, and how its processors spent their time.
fn side(fields: &mut Fields, name: &str, family: &FamilySummary, step: &Step) {
    let mut number = |of: &str, value| fields.number(&format!("{name}.{of}"), value);
    let used = family.cpu_ns as f64 / step.telemetry.window_ns as f64;
    number("cores", Some(used));
    number("utilisation", Some(family.utilisation));
    number("threads", Some(f64::from(family.threads)));
    number("processes", Some(f64::from(family.processes)));
    let cores = match name {
        "server" => step.telemetry.server_cores(),
        _ => &step.telemetry.cores,
    };
    let own: Vec<&CoreSample> = cores
        .iter()
        .filter(|core| family.cpus_allowed.contains(&core.cpu))
        .collect();
    let mean = |of: fn(&CoreSample) -> f32| {
        let sum: f64 = own.iter().map(|core| f64::from(of(core))).sum();
        (!own.is_empty()).then(|| sum / own.len() as f64)
    };
    number("usr", mean(|core| core.usr));
    number("sys", mean(|core| core.sys));
    number("softirq", mean(|core| core.softirq));
    number("idle", mean(|core| core.idle));
    let each = |count: u64| quotient(Some(count as f64), Some(step.counts.answered as f64));
    number(
        "faults_per_request",
        each(family.faults_minor + family.faults_major),
    );
    // Of before, when nobody kept it.
    let since_start = Some(family.faults_since_start).filter(|count| *count > 0);
    number("faults_since_start", since_start.map(|count| count as f64));
    let switches = family.switches_voluntary + family.switches_involuntary;
    number("switches_per_request", each(switches));
    number("cpus", Some(family.cpus_allowed.len() as f64));
    let user = quotient(Some(family.cpu_user_ns as f64), Some(family.cpu_ns as f64));
    number("user_share", user);
    let waited_us = family.run_wait_cores * step.telemetry.window_ns as f64 / 1e3;
    let answered = Some(step.counts.answered as f64);
    number("run_wait_us", quotient(Some(waited_us), answered));
}

#[cfg(test)]
mod tests {
    use wallfinder_model::counters::EventCount;
    use wallfinder_model::profile::{FunctionPart, Measure, Own, Whole};

    use super::*;

    /// A window of 1.9 s at 1,000/s, of which profiles have one second. What the kernel tells is of
    /// all of it.
    fn of_one_second_and_a_rest() -> Profiles {
        let stacks = Reading {
            kind: ProfileKind::Stacks,
            measure: Measure {
                name: "cpu".to_owned(),
                unit: "nanoseconds".to_owned(),
            },
            duration_ns: 1_900_000_000,
            total: 1_900_000_000,
            count: 948,
            idle: 0,
            named_share: 1.0,
            origins: Vec::new(),
            categories: Vec::new(),
            functions: Vec::new(),
            sites: Vec::new(),
            tree: vec![Node {
                name: "runtime.futex".to_owned(),
                depth: 0,
                value: 95_000_000,
            }],
            whole: Some(Whole {
                futexes: 190_000_000,
                futexes_of_locks: 19_000_000,
                ..Whole::default()
            }),
        };
        Profiles {
            window_ns: 1_000_000_000,
            processes: 1,
            answered: 1000.0,
            readings: vec![stacks],
            counts: vec![EventCount {
                name: "cache-misses".to_owned(),
                value: Some(3_800),
                unavailable: None,
            }],
            counts_ns: Some(1_900_000_000),
            ..Profiles::default()
        }
    }

    /// What a study sees of a server's profiles.
    fn number(profiles: &Profiles, path: &str) -> Option<f64> {
        let mut fields = Fields::default();
        processors(&mut fields, "profile", profiles);
        counted(&mut fields, "server", profiles);
        match fields.list.get(path) {
            Some(Field::Number(number)) => Some(*number),
            _ => None,
        }
    }

    #[test]
    fn what_the_kernel_counts_is_divided_by_the_answers_of_the_same_time() {
        let mut profiles = of_one_second_and_a_rest();
        assert_eq!(number(&profiles, "profile.cpu_us"), Some(1000.0));
        let misses = "server.cache_misses_per_request";
        assert_eq!(number(&profiles, misses), Some(2.0));
        // Of before, when nobody kept how long it was.
        profiles.counts_ns = None;
        assert_eq!(number(&profiles, misses), Some(3.8));
    }

    #[test]
    fn futexes_are_those_of_all_stacks_where_they_were_counted() {
        let mut profiles = of_one_second_and_a_rest();
        let share = "profile.futex_with_callees_share";
        assert_eq!(number(&profiles, share), Some(0.1));
        let of_locks = "profile.futex_of_locks_share";
        assert_eq!(number(&profiles, of_locks), Some(0.1));
        profiles.readings[0].whole = None;
        assert_eq!(number(&profiles, share), Some(0.05));
    }

    #[test]
    fn a_function_that_may_have_been_left_out_is_not_nothing() {
        let mut profiles = of_one_second_and_a_rest();
        let spinning = "profile.spinning_share";
        let frames = "profile.frames_before_kernel";
        let function = |nth: usize| FunctionPart {
            name: format!("main.f{nth}"),
            own: 19_000_000,
            with_callees: 19_000_000,
        };
        profiles.readings[0].functions = (0..wallfinder_model::profile::FUNCTIONS_MAX)
            .map(function)
            .collect();
        assert_eq!(number(&profiles, spinning), None);
        profiles.readings[0]
            .functions
            .truncate(wallfinder_model::profile::FUNCTIONS_MAX - 1);
        assert_eq!(number(&profiles, spinning), Some(0.0));
        profiles.readings[0].functions[0].name = "runtime.procyield.abi0".to_owned();
        assert_eq!(number(&profiles, spinning), Some(0.01));
        assert_eq!(number(&profiles, frames), None);
        // What was counted over all stacks goes before.
        profiles.readings[0].whole = Some(Whole {
            frames_before_kernel: Some(2.5),
            own: Some(Own {
                spinning: 190_000_000,
                ..Own::default()
            }),
            ..Whole::default()
        });
        assert_eq!(number(&profiles, spinning), Some(0.1));
        assert_eq!(number(&profiles, frames), Some(2.5));
    }

    #[test]
    fn a_futex_below_a_lock_is_the_locks_and_any_other_the_schedulers() {
        let node = |depth, name: &str, value| Node {
            name: name.to_owned(),
            depth,
            value,
        };
        let tree = [
            node(0, "main.call", 40),
            node(1, "sync.(*Mutex).Lock", 30),
            node(2, "runtime.futexsleep", 30),
            node(3, "runtime.futex", 30),
            node(1, "runtime.wakep", 10),
            node(2, "runtime.futexwakeup", 10),
            node(0, "runtime.mcall", 60),
            node(1, "runtime.stopm", 60),
            node(2, "runtime.futex.abi0", 60),
        ];
        assert_eq!(futexes(&tree), (100, 30));
        assert_eq!(futexes(&tree[..2]), (0, 0));
    }
}
