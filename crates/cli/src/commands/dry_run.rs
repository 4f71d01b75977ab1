//! `find --dry-run`: what would be done to whom, and what it may cost, before any of it is done. Hosts are asked, and
//! the server is looked for; no request is sent and nothing is squeezed.

use std::fmt::Write as _;

use wallfinder_judge::proof::looks;
use wallfinder_model::{Effort, LinkSpec, Load, Wall};
use wallfinder_scenario::is_pattern;
use wallfinder_scenario::loads::Search;

use crate::commands::find::squeeze;
use crate::exit::Failed;
use crate::job::Job;
use crate::output;
use crate::testbed::Testbed;

/// Of another or of this host.
fn of(host: Option<&str>) -> String {
    host.map_or("this host".to_owned(), str::to_owned)
}

fn cpus(cpus: &[u32]) -> String {
    match cpus {
        [] => "any processor".to_owned(),
        [cpu] => format!("processor {cpu}"),
        cpus => {
            let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
            format!("processors {}", cpus.join(","))
        }
    }
}

/// Every host that the load comes from. Agents that nobody was asked for yet stand as their pattern.
fn each_of(clients: &[String]) -> String {
    let each = clients.iter().map(|host| match is_pattern(host) {
        true => format!("every agent at the hub that matches {host}"),
        false => host.clone(),
    });
    let each: Vec<String> = each.collect();
    match &each[..] {
        [] => of(None),
        [one] => one.clone(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

/// The same, where many would not fit.
fn all_of(clients: &[String]) -> Option<&str> {
    match clients {
        [] => None,
        [one] if !is_pattern(one) => Some(one.as_str()),
        _ => Some("the client hosts"),
    }
}

/// The hosts that have a part of a load with so many connections; none: it is this one.
fn clients_of(testbed: &Testbed, connections: Option<u32>) -> Vec<String> {
    let load = Load::closed(connections.unwrap_or(u32::MAX));
    let several = testbed.client.members(&load);
    let one = testbed.client.name().map(str::to_owned);
    match several.is_empty() {
        true => one.into_iter().collect(),
        false => several.into_iter().map(|(name, _)| name).collect(),
    }
}

/// `wallfinder find --dry-run`.
pub(crate) fn dry_run(job: &Job) -> Result<(), Failed> {
    output::put(&told(job)?, None)
}

fn told(job: &Job) -> Result<String, Failed> {
    let scenario = &job.scenario;
    let mut text = format!("target   {}\n", job.url.shown());
    let (server, clients): (String, Vec<String>);
    let (at, backend) = match &scenario.server.subject {
        // It would be started for this.
        Some(_) => {
            let host = scenario.server.host.as_deref();
            server = format!("started on {} for the run, and again within it", of(host));
            let client = &scenario.client;
            let all = client.host.iter().chain(&client.more_hosts);
            clients = all.cloned().collect();
            (
                host.map(str::to_owned),
                scenario.server.backend_host.clone(),
            )
        }
        None => {
            let testbed = Testbed::raise(job, None)?;
            let host = &testbed.server.host;
            server = match &testbed.server.not_seen {
                Some(why) => {
                    format!("its processes are not seen, so nothing of it is squeezed: {why}")
                }
                None => format!(
                    "{} on {} of {}",
                    match host.processes() {
                        1 => "1 process".to_owned(),
                        processes => format!("{processes} processes"),
                    },
                    cpus(&host.processors()),
                    of(host.name())
                ),
            };
            clients = clients_of(&testbed, scenario.load.connections);
            let backend = testbed.backend.as_ref();
            let backend = backend.map(|backend| backend.name().to_owned());
            (host.name().map(str::to_owned), backend)
        }
    };
    let effort = squeeze(job).effort;
    let budget = looks::longest(effort).as_secs();
    let _ = writeln!(text, "server   {server}");
    let first = Search::default().next().unwrap_or_default();
    let load = match (scenario.load.connections, scenario.load.rate) {
        (_, Some(rate)) => format!("{} requests a second", rate.0),
        (Some(connections), None) => format!("{connections} connections"),
        (None, None) => format!(
            "{first} connections, then four times as many each second until throughput grows no more; then those"
        ),
    };
    let from = each_of(&clients);
    let _ = writeln!(
        text,
        "load     from {from}: {load}, for about {budget} s in all at the most"
    );
    text.push_str(&squeezes(
        job,
        at.as_deref(),
        all_of(&clients),
        backend.as_deref(),
    ));
    let after = match effort {
        Effort::Quick => "",
        _ => " A server that was started for the run is started again in between.",
    };
    let _ = write!(
        text,
        "cost     Windows of about a second, each with one resource squeezed by {} % or all that seems slack by {} % at \
         once: no window costs more than {} % of the throughput that there would be.{after}\n\
         undone   after each window, and whatever ends the run: by this process, by its keeper, and on another host \
         within 5 s by its agent's lease. `wallfinder doctor --clean` looks after what a crash leaves.\n",
        percent(1.0 - looks::MAIN),
        percent(1.0 - looks::DEEP),
        percent(1.0 - looks::DEEP),
    );
    Ok(text)
}

fn percent(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

/// What is squeezed, by what, on whose host.
fn squeezes(
    job: &Job,
    server: Option<&str>,
    client: Option<&str>,
    backend: Option<&str>,
) -> String {
    let link = &job.scenario.link;
    let laid = link
        .lay
        .as_ref()
        .and_then(|lay| lay.parse::<LinkSpec>().ok());
    let is_shaped = |named: bool, host: Option<&str>| laid.is_some() || named || host.is_some();
    let engine =
        "our engine's workers spin, hold requests back, or pause before them; no privilege";
    let speed = "a thread at real-time priority takes turns on its processors (CAP_SYS_NICE), or its processes pause";
    let quota = "a quota of a control group, or one processor less";
    let shaper = "tbf or htb for the load's flows alone (CAP_NET_ADMIN)";
    let mut rows = vec![
        ("server speed", server, speed),
        ("server capacity", server, quota),
    ];
    if is_shaped(link.downlink_dev.is_some(), server) {
        rows.push(("downlink", server, shaper));
    }
    if is_shaped(link.uplink_dev.is_some(), client) {
        rows.push(("uplink", client, shaper));
    }
    let names_backend = !job.scenario.server.backend_pid.is_empty() || backend.is_some();
    rows.push((
        Wall::Backend.label(),
        backend.or(server),
        match names_backend {
            true => speed,
            false => "the same, for what the server's connections lead to on its host",
        },
    ));
    rows.push(("client, in flight, pauses", client, engine));
    let hosts = rows.iter().map(|(_, host, _)| of(*host).chars().count());
    let wide = hosts.max().unwrap_or(0).max(10);
    let rows = rows.iter().enumerate().map(|(nth, (what, host, how))| {
        let head = if nth == 0 { "squeezes" } else { "" };
        format!("{head:<8} {what:<26} on {:<wide$} {how}\n", of(*host))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use wallfinder_model::Scenario;

    use super::*;
    use crate::flags::{Format, OutputFlags};
    use crate::job::Around;
    use crate::target::Url;

    /// What is told where nobody is asked: the server would be started for the run.
    fn told_of(clients: &[&str]) -> String {
        let mut scenario = Scenario::default();
        scenario.server.subject = Some("shop".to_owned());
        scenario.server.host = Some("s1".to_owned());
        let mut hosts = clients.iter().map(|host| (*host).to_owned());
        scenario.client.host = hosts.next();
        scenario.client.more_hosts = hosts.collect();
        let around = Around::of(&OutputFlags {
            format: Format::Text,
            output: None,
            runs: "runs".into(),
            name: None,
            quiet: true,
            ascii: false,
        });
        let job = Job {
            url: Url::parse("http://10.1.2.3:8080/").unwrap(),
            scenario,
            around,
        };
        told(&job).unwrap()
    }

    fn line<'t>(text: &'t str, begins: &str) -> &'t str {
        let mut lines = text.lines();
        let found = lines.find(|line| line.trim_start().starts_with(begins));
        found.unwrap_or_else(|| panic!("{begins}: {text}"))
    }

    #[test]
    fn every_client_host_is_named_and_a_pattern_stands_for_its_agents() {
        for (clients, from, on) in [
            (&["c1"][..], "c1", "c1"),
            (&[], "this host", "this host"),
            (&["c1", "c2", "c3"], "c1, c2 and c3", "the client hosts"),
            (
                &["c*"],
                "every agent at the hub that matches c*",
                "the client hosts",
            ),
            (
                &["c*", "d1"],
                "every agent at the hub that matches c* and d1",
                "the client hosts",
            ),
        ] {
            let text = told_of(clients);
            let load = line(&text, "load ");
            let begins = format!("load     from {from}: ");
            assert!(load.starts_with(&begins), "{text}");
            let levers = line(&text, "client, in flight");
            assert!(levers.contains(&format!(" on {on} ")), "{text}");
        }
    }
}
