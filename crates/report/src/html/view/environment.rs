//! The environment fingerprint, in groups of facts; what was not read is left out.

use std::collections::BTreeMap;

use serde::Serialize;
use wallfinder_model::{Environment, Record};

use super::{Fact, fact};
use crate::number;

#[derive(Serialize)]
pub(super) struct Group {
    name: String,
    facts: Vec<Fact>,
}

fn put(facts: &mut Vec<Fact>, name: &str, value: Option<String>) {
    if let Some(value) = value {
        facts.push(fact(name, value));
    }
}

fn yes(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

fn map(values: &BTreeMap<String, String>) -> Vec<Fact> {
    values
        .iter()
        .map(|(name, value)| fact(name.clone(), value.clone()))
        .collect()
}

/// Of the client's host, and of the server's where that is another.
pub(super) fn groups(record: &Record) -> Vec<Group> {
    let mut all = of_host(&record.environment, "");
    if let Some(server) = &record.server_environment {
        all.extend(of_host(server, "Server's host: "));
    }
    all
}

fn of_host(environment: &Environment, host: &str) -> Vec<Group> {
    let groups = [
        ("Machine", machine(environment)),
        ("Network", network(environment)),
        ("Versions", map(&environment.versions)),
        ("Kernel settings", map(&environment.settings)),
        ("Mitigations", map(&environment.mitigations)),
    ];
    let groups = groups.into_iter().filter(|(_, facts)| !facts.is_empty());
    let groups = groups.map(|(name, facts)| Group {
        name: format!("{host}{name}"),
        facts,
    });
    groups.collect()
}

fn machine(environment: &Environment) -> Vec<Fact> {
    let mut facts = Vec::new();
    put(&mut facts, "Processor", environment.cpu_model.clone());
    if environment.cpus > 0 {
        let allowed = environment.cpus_allowed.len() as u64;
        let mut text = number::whole(u64::from(environment.cpus));
        if allowed > 0 && allowed != u64::from(environment.cpus) {
            text.push_str(&format!(", {} allowed", number::whole(allowed)));
        }
        facts.push(fact("Processors", text));
    }
    put(
        &mut facts,
        "Memory",
        environment
            .memory_bytes
            .map(|bytes| number::bytes(bytes as f64)),
    );
    put(&mut facts, "Kernel", environment.kernel.clone());
    put(&mut facts, "System", environment.os.clone());
    put(
        &mut facts,
        "Virtualisation",
        environment.virtualisation.clone(),
    );
    put(&mut facts, "Governor", environment.governor.clone());
    put(&mut facts, "SMT", environment.smt.map(yes));
    put(
        &mut facts,
        "Quota",
        environment
            .cgroup_quota_cores
            .map(|cores| format!("{} cores", number::amount(cores))),
    );
    put(
        &mut facts,
        "Control groups",
        environment.cgroup_version.clone(),
    );
    put(&mut facts, "Huge pages", environment.huge_pages.clone());
    put(
        &mut facts,
        "Hardware counters",
        environment
            .hardware_counters
            .map(|there| if there { "available" } else { "unavailable" }.to_owned()),
    );
    put(
        &mut facts,
        "Descriptors",
        environment.descriptors_max.map(number::whole),
    );
    facts
}

fn network(environment: &Environment) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(interface) = &environment.interface {
        facts.push(fact("Interface", interface.name.clone()));
        put(&mut facts, "MTU", interface.mtu.map(|mtu| mtu.to_string()));
        put(
            &mut facts,
            "Speed",
            interface.speed_bits.map(|bits| number::bits(bits as f64)),
        );
        put(
            &mut facts,
            "Queues",
            interface
                .queues
                .map(|(receive, send)| format!("{receive} receive, {send} send")),
        );
        put(
            &mut facts,
            "Offloads",
            (!interface.offloads.is_empty()).then(|| interface.offloads.join(", ")),
        );
        put(&mut facts, "Queueing discipline", interface.qdisc.clone());
    }
    put(
        &mut facts,
        "Congestion control",
        environment.congestion_control.clone(),
    );
    put(&mut facts, "irqbalance", environment.irqbalance.map(yes));
    put(&mut facts, "Packet steering", environment.rps.map(yes));
    put(
        &mut facts,
        "Local ports",
        environment
            .local_ports
            .map(|(first, last)| format!("{first} to {last}")),
    );
    facts
}
