//! Steps as conditions see them: flat fields, absent where nothing was measured.
//!
//! The words are in [`crate::vocabulary`]; a test holds the two together.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use cel::Value;
use cel::objects::{Key, Map};
use wallfinder_judge::{cost, identity, little};
use wallfinder_model::profile::{ProfileKind, Profiles};
use wallfinder_model::record::Step;
use wallfinder_model::telemetry::{CoreSample, FamilySummary};
use wallfinder_model::{Caveat, Squeeze, Verdict, Wall};

use crate::expand::StudyStep;

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
    /// What others did to it, where that was much.
    pub(crate) disturbed: Option<String>,
    pub(crate) fields: BTreeMap<&'static str, Field>,
    /// What CEL sees, made once.
    pub(crate) value: OnceLock<Value>,
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Field {
    Number(f64),
    Text(String),
    Truth(bool),
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
            fields.list.insert("server_bound", Field::Truth(server));
        }
        if let Some(verdict) = &step.verdict {
            squeezed(&mut fields, verdict);
        }
        if let Some(profiles) = &step.profiles {
            profiled(&mut fields, profiles);
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
            label: planned.label.clone(),
            group: planned.group.clone(),
            driver: planned.driver.name.clone(),
            connections: planned.load.connections,
            clients: planned.load.in_flight_max() as f64,
            payload: planned.payload,
            round: planned.round,
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
            disturbed: disturbance(step),
            fields: fields.list,
            value: OnceLock::new(),
        }
    }

    /// As CEL sees it: `client.utilisation` is the key `utilisation` of the map `client`.
    pub(crate) fn value(&self) -> Value {
        self.value.get_or_init(|| self.as_map()).clone()
    }

    fn as_map(&self) -> Value {
        let mut top: HashMap<Key, Value> = HashMap::new();
        let mut nested: BTreeMap<&str, HashMap<Key, Value>> = BTreeMap::new();
        for (path, field) in &self.fields {
            let value = match field {
                Field::Number(number) => Value::Float(*number),
                Field::Text(text) => Value::String(Arc::new(text.clone())),
                Field::Truth(truth) => Value::Bool(*truth),
            };
            match path.split_once('.') {
                None => top.insert(key(path), value),
                Some((outer, inner)) => nested.entry(outer).or_default().insert(key(inner), value),
            };
        }
        for (name, map) in nested {
            top.insert(key(name), Value::Map(Map { map: Arc::new(map) }));
        }
        Value::Map(Map { map: Arc::new(top) })
    }
}

/// How the wall was established, and what moved it.
fn squeezed(fields: &mut Fields, verdict: &Verdict) {
    fields.text("how", verdict.how.label());
    for (squeeze, name) in [
        (Squeeze::ServerSpeed, "squeezed.server_speed"),
        (Squeeze::ServerCapacity, "squeezed.server_capacity"),
        (Squeeze::ClientSpeed, "squeezed.client_speed"),
        (Squeeze::InFlight, "squeezed.in_flight"),
    ] {
        let elasticity = verdict.elasticities.get(squeeze.label());
        fields.number(name, elasticity.map(|elasticity| elasticity.value));
    }
}

/// What profilers saw: rates of what is not idle, and the largest places.
fn profiled(fields: &mut Fields, profiles: &Profiles) {
    let each = |value: i64| value as f64 / profiles.answered;
    if let Some(cpu) = profiles.of_cpu() {
        fields.number("profile.cpu_us", Some(each(cpu.busy()) / 1e3));
        for (category, name) in [
            ("writing to sockets", "profile.writing_share"),
            ("scheduler", "profile.scheduler_share"),
            ("locking", "profile.locking_share"),
            ("collection", "profile.collection_share"),
            ("allocation", "profile.allocation_share"),
            ("protocol", "profile.protocol_share"),
        ] {
            let part = cpu.share_of_busy(cpu.category(category));
            fields.number(name, Some(part));
        }
    }
    if let Some(beside) = &profiles.reconciliation {
        fields.number("profile.cores", Some(beside.profile_cores));
        fields.number("profile.off_share", Some(beside.off_profile_share));
    }
    if let Some(block) = profiles.of(ProfileKind::Block) {
        fields.number("profile.waiting", block.per_second());
        fields.number("profile.wait_us", Some(each(block.busy()) / 1e3));
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
        let value: i64 = same.map(|site| site.value).sum();
        let rate = value as f64 / mutex.duration_ns as f64;
        fields.number("profile.wait_in_mutex", Some(rate));
    }
    if let Some(mutex) = profiles.of(ProfileKind::Mutex) {
        fields.number("profile.contention", mutex.per_second());
        let first = mutex.sites.first();
        fields.text("profile.holder", first.map_or("", |site| &site.function));
        let part = first.map_or(0.0, |site| mutex.share(site.value));
        fields.number("profile.holder_share", Some(part));
    }
    if let Some(allocs) = profiles.of(ProfileKind::Allocs) {
        fields.number("profile.allocated_bytes", Some(each(allocs.total)));
    }
    if let Some(heap) = profiles.of(ProfileKind::Heap) {
        fields.number("profile.heap_mb", Some(heap.total as f64 / 1e6));
    }
}

/// What others did to a step: they used full processors of a side, the hypervisor took
/// time, or everything stood still. Others on processors that had time left took nothing.
fn disturbance(step: &Step) -> Option<String> {
    let telemetry = &step.telemetry;
    let judged = step.verdict.iter().flat_map(|verdict| &verdict.caveats);
    let caveats: Vec<&Caveat> = step.caveats.iter().chain(judged).collect();
    let side = |name: &str| match name {
        "client" => telemetry.client.as_ref(),
        _ => telemetry.server.as_ref(),
    };
    caveats.iter().find_map(|caveat| match caveat {
        Caveat::Neighbour { side: name, cores } => {
            let family = side(name)?;
            let processors = family.cpus_allowed.len().max(1) as f64;
            let contended = family.cpus_busy >= 0.9 && *cores >= 0.15 * processors;
            contended.then(|| format!("others used {cores:.2} cores of the {name}'s processors"))
        }
        Caveat::StealAbove { share } if *share >= 0.05 => Some(format!(
            "the hypervisor took {:.0} % of its time",
            share * 100.0
        )),
        Caveat::Gap { gap_ns, .. } if *gap_ns as f64 >= 0.05 * step.window_ns as f64 => Some(
            format!("everything stood still for {} ms", gap_ns / 1_000_000),
        ),
        _ => None,
    })
}

fn key(name: &str) -> Key {
    Key::String(Arc::new(name.to_owned()))
}

/// Fields under collection. What is not a finite number is left out.
#[derive(Default)]
struct Fields {
    list: BTreeMap<&'static str, Field>,
}

impl Fields {
    fn number(&mut self, path: &'static str, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.list.insert(path, Field::Number(value));
        }
    }

    fn text(&mut self, path: &'static str, text: &str) {
        self.list.insert(path, Field::Text(text.to_owned()));
    }
}

fn load(fields: &mut Fields, step: &Step) {
    let load = &step.load;
    fields.number("connections", Some(f64::from(load.connections)));
    fields.number("depth", Some(f64::from(load.in_flight_per_connection)));
    fields.number("in_flight_max", Some(load.in_flight_max() as f64));
    fields.number("in_flight", Some(step.in_flight_mean).filter(|n| *n > 0.0));
    fields.number("throughput", Some(step.throughput));
    fields.number("fairness", step.fairness);
    let answered = step.driver.answered.unwrap_or(step.counts.answered);
    fields.number("answered", Some(answered as f64));
    fields.number("window_ms", Some(step.window_ns as f64 / 1e6));
    fields.number("errors_share", Some(identity::error_share(&step.counts)));
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
        us(cost.client_cpu_ns.or(cost.lanes_cpu_ns)),
    );
    fields.number("server.cpu_per_request_us", us(cost.server_cpu_ns));
    let cores = &step.telemetry.cores;
    if let Some(client) = &step.telemetry.client {
        side(
            fields,
            client,
            cores,
            step,
            [
                "client.cores",
                "client.utilisation",
                "client.threads",
                "client.processes",
                "client.usr",
                "client.sys",
                "client.softirq",
                "client.idle",
                "client.faults_per_request",
                "client.switches_per_request",
                "client.cpus",
            ],
        );
    }
    if let Some(server) = &step.telemetry.server {
        side(
            fields,
            server,
            cores,
            step,
            [
                "server.cores",
                "server.utilisation",
                "server.threads",
                "server.processes",
                "server.usr",
                "server.sys",
                "server.softirq",
                "server.idle",
                "server.faults_per_request",
                "server.switches_per_request",
                "server.cpus",
            ],
        );
    }
    if let Some(link) = &step.telemetry.link {
        fields.number("link.downlink_share", link.downlink_share);
        fields.number("link.uplink_share", link.uplink_share);
        fields.number("link.downlink_bytes", cost.downlink_bytes);
        fields.number("link.uplink_bytes", cost.uplink_bytes);
        fields.number("link.downlink_packets", cost.downlink_packets);
        fields.number("link.uplink_packets", cost.uplink_packets);
    }
}

/// One side: what its processes used, and how its processors spent their time.
fn side(
    fields: &mut Fields,
    family: &FamilySummary,
    cores: &[CoreSample],
    step: &Step,
    names: [&'static str; 11],
) {
    let used = family.cpu_ns as f64 / step.telemetry.window_ns as f64;
    fields.number(names[0], Some(used));
    fields.number(names[1], Some(family.utilisation));
    fields.number(names[2], Some(f64::from(family.threads)));
    fields.number(names[3], Some(f64::from(family.processes)));
    let own: Vec<&CoreSample> = cores
        .iter()
        .filter(|core| family.cpus_allowed.contains(&core.cpu))
        .collect();
    let mean = |of: fn(&CoreSample) -> f32| {
        let sum: f64 = own.iter().map(|core| f64::from(of(core))).sum();
        (!own.is_empty()).then(|| sum / own.len() as f64)
    };
    fields.number(names[4], mean(|core| core.usr));
    fields.number(names[5], mean(|core| core.sys));
    fields.number(names[6], mean(|core| core.softirq));
    fields.number(names[7], mean(|core| core.idle));
    let each = |count: u64| quotient(Some(count as f64), Some(step.counts.answered as f64));
    fields.number(names[8], each(family.faults_minor + family.faults_major));
    let switches = family.switches_voluntary + family.switches_involuntary;
    fields.number(names[9], each(switches));
    fields.number(names[10], Some(family.cpus_allowed.len() as f64));
}
