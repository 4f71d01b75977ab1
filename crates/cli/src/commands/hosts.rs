//! `hosts`: what other hosts are, and what can be proved there.

use wallfinder_hosts::Agent;
use wallfinder_hub::Present;
use wallfinder_model::scenario::Hub;
use wallfinder_model::{Environment, Nanos};
use wallfinder_protocol::{Answer, Ask, Grant, VERSION};

use crate::exit::Failed;
use crate::flags::HostsFlags;
use crate::hub::{HERE_WAIT, line};
use crate::output;
use crate::testbed::{Ways, agent_of};

/// `wallfinder hosts`.
pub(crate) fn hosts(flags: &HostsFlags) -> Result<(), Failed> {
    let hub = flags.at.place();
    if flags.hosts.is_empty() {
        return present(&hub);
    }
    let mut missing = 0;
    let ways = Ways {
        ssh: flags.ssh.as_deref(),
        hub: Some(&hub),
    };
    for host in &flags.hosts {
        let text = match agent_of(host, ways, &[]) {
            Ok(agent) => shown(&agent),
            Err(failed) if failed.code == crate::exit::BAD_ARGUMENTS => return Err(failed),
            Err(failed) => {
                missing += 1;
                format!("{}\n", failed.message)
            }
        };
        output::put(&text, None)?;
    }
    match missing {
        0 => Ok(()),
        _ => Err(Failed::run(format!(
            "{missing} of {} hosts have no agent",
            flags.hosts.len()
        ))),
    }
}

/// Who is at the hub, by what each says of itself; no session is begun.
fn present(hub: &Hub) -> Result<(), Failed> {
    let present = line(hub)?.present(HERE_WAIT, &[]).map_err(Failed::run)?;
    if present.is_empty() {
        return Err(Failed::run("no agent is at the hub"));
    }
    let time = |ns: Option<u64>| ns.map_or("unknown".to_owned(), |ns| Nanos(ns).to_string());
    for Present {
        here,
        offset,
        round_trip,
    } in present
    {
        let grants: Vec<String> = here.grants.iter().map(Grant::to_string).collect();
        let is_other = here.protocol != VERSION;
        let other = format!(
            "\n    it speaks protocol {}, this is {VERSION}: install the same version on both",
            here.protocol
        );
        let text = format!(
            "{}  {}, Linux {}, {} processors, Wallfinder {}{}\n    grants {} · round trip {} · its clock is known to {} · \
             {} sessions{}\n",
            here.name,
            here.host,
            here.kernel,
            here.cpus,
            here.version,
            if here.is_root { "" } else { ", not root" },
            grants.join(", "),
            time(round_trip.map(|trip| trip.as_nanos() as u64)),
            time(offset.map(|offset| offset.error_ns)),
            here.sessions,
            if is_other { &other } else { "" },
        );
        output::put(&text, None)?;
    }
    Ok(())
}

fn shown(agent: &Agent) -> String {
    let (channel, welcome) = (agent.channel(), agent.welcome());
    let facts = match channel.call(Ask::Facts { peer: None }) {
        Ok(Answer::Facts(facts)) => *facts,
        _ => Environment::default(),
    };
    let grants: Vec<String> = welcome.grants.iter().map(Grant::to_string).collect();
    let time = |ns: Option<u64>| ns.map_or("unknown".to_owned(), |ns| Nanos(ns).to_string());
    let round_trip = channel.round_trip().map(|trip| trip.as_nanos() as u64);
    let error = channel.offset().map(|offset| offset.error_ns);
    let may = |grant| welcome.grants.contains(&grant);
    let squeezed = match (may(Grant::Squeeze), welcome.is_root) {
        (false, _) => "nothing is squeezed there: its agent does not grant it",
        (true, true) => {
            "processors, backends and the load's flows on its interfaces can be squeezed"
        }
        (true, false) => {
            "its agent is not root: pauses of its own user's processes alone. CAP_SYS_NICE would slow processors, \
             CAP_NET_ADMIN shape flows, a control group of its own hold quotas"
        }
    };
    format!(
        "{}  {}, Linux {}, {} processors, Wallfinder {}\n    grants {} · round trip {} · its clock is known to {}\n    {squeezed}\n",
        channel.host(),
        welcome.host,
        facts.kernel.as_deref().unwrap_or("of an unknown version"),
        facts.cpus,
        welcome.version,
        grants.join(", "),
        time(round_trip),
        time(error),
    )
}
