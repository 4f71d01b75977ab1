//! `doctor`: what this machine offers, what is missing, and the way out.

use std::fs;
use std::process::{Child, Command};

use serde_json::{Value, json};
use wallfinder_model::experiment::Squeeze;
use wallfinder_probe::stacks;
use wallfinder_sys::{io, limits, process, programs};
use wallfinder_testbed::child::Shim;
use wallfinder_testbed::command::CommandError;
use wallfinder_testbed::lab::Lab;
use wallfinder_testbed::squeeze::{self, Scene, Side};
use wallfinder_testbed::{child, programs as found, undo};

use crate::commands::hosts::hosts;
use crate::exit::Failed;
use crate::flags::{DoctorFlags, HostsFlags, PlainFormat};
use crate::output;
use crate::testbed::lay;

/// Left-overs that are named one by one.
const SHOWN_MAX: usize = 20;

/// What one check found.
struct Finding {
    good: bool,
    what: &'static str,
    found: String,
    way_out: Option<&'static str>,
}

fn finding(
    good: bool,
    what: &'static str,
    found: impl Into<String>,
    way_out: &'static str,
) -> Finding {
    Finding {
        good,
        what,
        found: found.into(),
        way_out: (!good).then_some(way_out),
    }
}

/// `wallfinder doctor`.
pub(crate) fn doctor(flags: &DoctorFlags) -> Result<(), Failed> {
    if flags.clean {
        return clean();
    }
    if !flags.host.is_empty() {
        return hosts(&HostsFlags {
            hosts: flags.host.clone(),
            at: flags.at.clone(),
            ssh: flags.ssh.clone(),
        });
    }
    let mut findings = vec![
        processors(),
        uring(),
        descriptors(),
        ports(),
        privilege(),
        path(),
        namespaces(),
        steal(),
        governor(),
        left_overs(),
    ];
    findings.push(stacks());
    findings.push(subject());
    findings.extend(drivers());
    if flags.squeezes {
        findings.extend(squeezes());
    }
    let printed = match flags.format {
        PlainFormat::Text => text(&findings),
        PlainFormat::Json => format!("{:#}\n", json(&findings)),
    };
    output::put(&printed, None)
}

fn json(findings: &[Finding]) -> Value {
    let one = |finding: &Finding| {
        json!({
            "what": finding.what,
            "good": finding.good,
            "found": finding.found,
            "way_out": finding.way_out,
        })
    };
    Value::Array(findings.iter().map(one).collect())
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = if finding.good { "ok  " } else { "look" };
        text.push_str(&format!(" {mark}  {:15} {}\n", finding.what, finding.found));
        if let Some(way_out) = finding.way_out {
            text.push_str(&format!("       {:15} {way_out}\n", ""));
        }
    }
    text
}

/// Whether it can be looked into a server without profiles of its own.
fn stacks() -> Finding {
    let allowed = stacks::allowed();
    finding(
        allowed.is_ok(),
        "stacks",
        allowed.map_or_else(|why| why.to_string(), |()| "may be sampled".to_owned()),
        "`find` names no functions of a server that offers no profiles",
    )
}

/// Puts up each squeeze on two processes that sleep, with a link of its own between two places, and
/// takes it down again.
fn squeezes() -> Vec<Finding> {
    let sleeper = || {
        let sleep = programs::on_path("sleep")?;
        Command::new(sleep).arg("60").current_dir("/").spawn().ok()
    };
    let (Some(mut server), Some(mut client)) = (sleeper(), sleeper()) else {
        return vec![finding(false, "squeezes", "there is no `sleep`", "")];
    };
    let shim = Shim::of_this_process();
    let (mut lab, no_link) = match lay(Some("1gbit"), &shim) {
        Ok(lab) => (lab, None),
        Err(failed) => (None, Some(failed.message)),
    };
    let (downlink, uplink) = lab.as_mut().map_or((None, None), Lab::take_shapers);
    let cpus = process::allowed_cpus();
    let side = |child: &Child, cpu: Option<&u32>| Side {
        pids: vec![child.id()],
        cpus: cpu.copied().into_iter().collect(),
        ..Side::default()
    };
    let reach = squeeze::reach(Scene {
        server: side(&server, cpus.first()),
        client: side(&client, cpus.last()),
        backend: None,
        backend_cores: None,
        downlink,
        uplink,
        seed: 1,
        shim,
    });
    let had = reach.levers.iter().map(|lever| Finding {
        good: true,
        what: lever.squeeze().label(),
        found: lever.how(),
        way_out: None,
    });
    let missing = reach.out_of_reach.iter().map(|missing| {
        let is_link = matches!(missing.squeeze, Squeeze::Downlink | Squeeze::Uplink);
        let found = no_link.clone().filter(|_| is_link);
        Finding {
            good: false,
            what: missing.squeeze.label(),
            found: found.unwrap_or_else(|| missing.why.clone()),
            way_out: Some("`find` proves less without it, and says what"),
        }
    });
    let findings = had.chain(missing).collect();
    for child in [&mut server, &mut client] {
        let _ = child.kill();
        let _ = child.wait();
    }
    findings
}

/// Removes what killed runs left, and fails where something stays that could be removed from here.
fn clean() -> Result<(), Failed> {
    // What runs goes first: it may hold what is undone.
    let strays = child::left_over();
    let (killed, alive): (Vec<_>, Vec<_>) = strays.iter().partition(|stray| stray.kill());
    let left = undo::remains();
    let mut cleaned = undo::clean(&left.remains);
    let processes = killed.iter().map(|stray| format!("process {stray}"));
    cleaned.removed.extend(processes);
    let not_killed = alive
        .iter()
        .map(|stray| format!("process {stray}: it is another user's"));
    cleaned.failed.extend(not_killed);
    let mut text = String::new();
    for gone in &cleaned.removed {
        text.push_str(&format!(" removed  {gone}\n"));
    }
    for kept in &left.left_alone {
        text.push_str(&format!(" left     {kept}\n"));
    }
    if text.is_empty() && cleaned.failed.is_empty() {
        text.push_str(" nothing is left over\n");
    }
    output::put(&text, None)?;
    if cleaned.failed.is_empty() {
        return Ok(());
    }
    let failed = cleaned.failed.join("\n  ");
    Err(Failed::run(format!("some things are left:\n  {failed}")))
}

/// What runs left behind that were killed together with their keepers.
fn left_overs() -> Finding {
    let left = undo::remains();
    let strays = child::left_over();
    let processes = strays.iter().map(|stray| format!("process {stray}"));
    let can_be_removed = left.remains.iter().map(|remain| remain.what.clone());
    let can_be_removed: Vec<String> = processes.chain(can_be_removed).collect();
    let mut shown: Vec<&str> = can_be_removed.iter().map(String::as_str).collect();
    if shown.is_empty() {
        shown.push(match left.left_alone.is_empty() {
            true => "nothing of a killed run",
            false => "nothing of a killed run that can be removed from here",
        });
    }
    shown.extend(left.left_alone.iter().map(String::as_str));
    let more = shown.len().saturating_sub(SHOWN_MAX);
    shown.truncate(SHOWN_MAX);
    let mut found = shown.join(", ");
    if more > 0 {
        found.push_str(&format!(", and {more} more"));
    }
    finding(
        left.remains.is_empty() && strays.is_empty(),
        "left over",
        found,
        "`wallfinder doctor --clean` removes it, and nothing else",
    )
}

fn processors() -> Finding {
    let cpus = process::allowed_cpus().len();
    finding(
        cpus >= 2,
        "processors",
        format!("{cpus} may be used"),
        "with one processor client and server share it: put the server on another machine",
    )
}

fn uring() -> Finding {
    match io::uring_available() {
        Ok(()) => finding(true, "io_uring", "available", ""),
        Err(why) => finding(
            false,
            "io_uring",
            why,
            "workers use epoll instead: nothing to do",
        ),
    }
}

fn descriptors() -> Finding {
    let allowed = limits::raise_descriptors(20_000);
    finding(
        allowed >= 20_000,
        "descriptors",
        format!("{allowed} may be open"),
        "raise it with `ulimit -n 20000` for more connections",
    )
}

fn ports() -> Finding {
    match limits::local_ports() {
        Some((first, last)) => finding(
            last - first >= 20_000,
            "local ports",
            format!("{first}-{last}"),
            "widen net.ipv4.ip_local_port_range for many connections",
        ),
        None => finding(false, "local ports", "unknown", "is /proc mounted?"),
    }
}

fn privilege() -> Finding {
    let root = rustix::process::geteuid().is_root();
    finding(
        root,
        "privilege",
        if root { "root" } else { "an ordinary user" },
        "servers of other users cannot be looked into; run as root to see them",
    )
}

/// Entries of PATH that mean the current folder: nothing is taken from there.
fn path() -> Finding {
    let passed_over = programs::passed_over();
    let shown: Vec<String> = passed_over
        .iter()
        .map(|entry| format!("`{}`", entry.display()))
        .collect();
    finding(
        passed_over.is_empty(),
        "PATH",
        match shown.is_empty() {
            true => "names folders by their whole paths".to_owned(),
            false => format!("means the current folder by {}", shown.join(", ")),
        },
        "such entries are passed over, and are not given to subjects and drivers",
    )
}

fn namespaces() -> Finding {
    let there = fs::exists("/proc/self/ns/net").unwrap_or(false);
    finding(
        there,
        "namespaces",
        if there { "the kernel has them" } else { "none" },
        "servers in other network namespaces cannot be seen",
    )
}

/// Steal since boot: a machine that others take time from measures badly.
fn steal() -> Finding {
    let share = fs::read_to_string("/proc/stat").ok().and_then(|text| {
        let line = text.lines().next()?;
        let ticks: Vec<f64> = line
            .split_whitespace()
            .skip(1)
            .filter_map(|word| word.parse().ok())
            .collect();
        let busy: f64 = ticks.iter().take(8).sum();
        Some(ticks.get(7)? / busy.max(1.0))
    });
    match share {
        Some(share) => finding(
            share < 0.02,
            "steal",
            format!("{:.2} % since boot", share * 100.0),
            "the hypervisor takes processor time away: expect noise",
        ),
        None => finding(false, "steal", "unknown", "is /proc mounted?"),
    }
}

fn governor() -> Finding {
    let path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    match fs::read_to_string(path) {
        Ok(text) => {
            let name = text.trim().to_owned();
            finding(
                name == "performance",
                "governor",
                name,
                "`cpupower frequency-set -g performance` makes runs more alike",
            )
        }
        Err(_) => finding(true, "governor", "not under this system's control", ""),
    }
}

fn subject() -> Finding {
    match found::find_subject("catalogue") {
        Ok(program) => finding(true, "catalogue", program.path.display().to_string(), ""),
        Err(error) => finding(
            false,
            "catalogue",
            error.to_string(),
            "`make subjects` builds it",
        ),
    }
}

/// Foreign drivers that can be run under observation; none is needed.
fn drivers() -> Vec<Finding> {
    let names = [
        "wrk",
        "wrk2",
        "h2load",
        "autocannon",
        "oha",
        "k6",
        "ghz",
        "fortio",
        "ab",
        "hey",
        "bombardier",
        "vegeta",
    ];
    names
        .into_iter()
        .map(|name| match found::find_driver(name) {
            Ok(path) => finding(true, name, path.display().to_string(), ""),
            Err(CommandError::Untrusted(why)) => finding(
                false,
                name,
                why.to_string(),
                "it is not run, and not needed",
            ),
            Err(_) => finding(true, name, "not there, and not needed", ""),
        })
        .collect()
}
