//! The messages: what is asked, and what is answered.
//!
//! Instants are by the agent's monotonic clock, in nanoseconds; those of telemetry count from the start of a watch.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wallfinder_model::drive::{LeverSetting, Measured, Progress, Typical};
use wallfinder_model::experiment::{Neighbour, OutOfReach, Squeeze};
use wallfinder_model::profile::Profile;
use wallfinder_model::record::Ceiling;
use wallfinder_model::telemetry::{Sample, Telemetry};
use wallfinder_model::{Caveat, Environment, Nanos};
use wallfinder_wire::bytes;
use wallfinder_wire::mix::Known;

use crate::load::LoadOrder;
use crate::terms::Grant;

/// What a controller asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Counts up from 1; the reply carries it.
    pub number: u64,
    /// The agent's epoch as the controller knows it. An order of an old one is refused.
    pub epoch: u64,
    /// What.
    pub ask: Ask,
}

/// What an agent answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Of the request.
    pub number: u64,
    /// What came of it.
    pub answer: Result<Answer, Refusal>,
}

/// What an agent says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// When it was asked.
    Reply(Reply),
    /// Unasked, of the load that it drives.
    News(News),
}

/// What is told of a load while it is driven.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum News {
    /// As its engine tells it; instants are by the agent's monotonic clock.
    Progress(Box<Progress>),
    /// Every worker follows the setting of this version.
    Followed {
        /// The controller's number of it.
        version: u32,
    },
}

/// What a host is for in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The load comes from it.
    Client,
    /// The load goes to it.
    Server,
    /// The server asks it in turn.
    Backend,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Client => "client",
            Role::Server => "server",
            Role::Backend => "backend",
        })
    }
}

/// The verbs. None of them runs a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// The first: who asks.
    Hello(Hello),
    /// What the agent's monotonic clock says.
    Clock,
    /// That the controller is still there; answered with the last tick of telemetry.
    Renew,
    /// The machine's fingerprint.
    Facts {
        /// The client's address, which tells the interface that leads to it.
        peer: Option<IpAddr>,
    },
    /// Who serves an address. What follows of a server is about these processes.
    Find {
        /// The address.
        address: SocketAddr,
        /// Whom the user says that it is.
        named: Named,
    },
    /// CPU time of every process.
    Times,
    /// Whom the server asks in turn, on this host.
    Behind,
    /// Addresses that the server has connections to.
    Asked,
    /// Who else uses processors.
    Neighbours {
        /// Which processors.
        cpus: Vec<u32>,
        /// Processes that are none.
        known: Vec<u32>,
        /// Cores that one must use at the least.
        cores_min: f64,
    },
    /// Whether so many connections to an address fit into the agent's limits; answered by [`Answer::Done`], or refused.
    Fits {
        /// All that are open at once.
        connections: u32,
        /// Where to.
        address: SocketAddr,
    },
    /// How packets leave for an address.
    Route {
        /// The address.
        to: SocketAddr,
    },
    /// The processes of a role are watched from now on: the server's, or for a client the agent's own.
    Watch {
        /// Whose.
        role: Role,
        /// Time between two ticks; 0: at marks only.
        tick_ns: u64,
        /// The address of the other role.
        peer: Option<IpAddr>,
        /// The server's port.
        port: Option<u16>,
        /// The processor that is looked from; `None`: any.
        pin: Option<u32>,
        /// Whether a quota may hold the agent's threads up.
        under_quota: bool,
        /// Processors whose pace is watched.
        paced: Vec<u32>,
    },
    /// Instants of the watch count from here.
    CountFrom {
        /// By the agent's monotonic clock.
        zero_ns: u64,
    },
    /// An exact reading at once.
    Mark {
        /// What for.
        name: String,
    },
    /// The server may have been started anew.
    FindAgain,
    /// What happened between pairs of marks.
    Summarise {
        /// Their instants.
        spans: Vec<(i64, i64)>,
    },
    /// Watching ends; what was seen can still be asked for.
    Unwatch,
    /// Ticks from this one on, as many as one message holds.
    Samples {
        /// Its number.
        from: usize,
    },
    /// The pace of these processors is watched from now on, or no more.
    Pace {
        /// Which; none: no more.
        cpus: Vec<u32>,
    },
    /// What a fixed piece of work took on them between two instants.
    PaceWithin {
        /// The first.
        from_ns: u64,
        /// The last.
        to_ns: u64,
    },
    /// Every lever that is to be had is put up, at no dose.
    Levers(LeversOrder),
    /// Of these resources so much is left from now on; what is not named stays as it is.
    Set {
        /// Each with its share.
        settings: Vec<(Squeeze, f64)>,
    },
    /// The measured part of a window begins.
    BeginWindow,
    /// It ends.
    EndWindow,
    /// All levers are taken down.
    Release,
    /// A server of the host's own list is started, in the place of one that was; answered when it listens.
    Start {
        /// Its name in the list.
        name: String,
        /// Where it is to listen, if that is known.
        port: Option<u16>,
        /// Its processors; none: all.
        cpus: Vec<u32>,
    },
    /// It ends.
    Stop,
    /// From now on the load's flows leave this host at such a rate at the most; `None`: as they did before.
    Shape {
        /// Which flows, and how fast.
        way_out: Option<WayOut>,
    },
    /// A lever takes hold of the server that was found last.
    Follow {
        /// Of which resource.
        squeeze: Squeeze,
    },
    /// A load is driven; answered when it has ended. Its zero is chosen after [`Ask::Proceed`].
    Drive(Box<LoadOrder>),
    /// Who conducts a load lets it go on: it is ready and begins, or its window is over and its connections close.
    Proceed {
        /// The schedule's zero that was agreed on with other hosts, where it begins and is one of several.
        zero_ns: Option<u64>,
    },
    /// What the workers are to do from now on.
    Steer {
        /// The controller's number of it.
        version: u32,
        /// It.
        setting: LeverSetting,
    },
    /// What requests are filled in with from now on, where it is the same for all users.
    FillIn {
        /// It, by number.
        known: Known,
    },
    /// The load's window ends now.
    EndLoad {
        /// Nothing in flight is waited for.
        abort: bool,
    },
    /// Of the requests that were kept one by one, a piece. The next load is without them.
    Fetch {
        /// Where it begins, in bytes.
        from: u64,
    },
    /// The result of a load of a session that is over, which the agent keeps.
    Recall {
        /// What it is called: [`Welcome::keeps`], a hyphen, and the number of the request.
        key: String,
    },
    /// A result is on the controller's disk.
    Forget {
        /// What it is called.
        key: String,
    },
    /// The most that the workers could drive of such a load, with this host's own null server.
    Calibrate {
        /// The load.
        order: Box<LoadOrder>,
        /// What it was answered with.
        typical: Typical,
        /// A processor for the null server.
        server_cpu: Option<u32>,
        /// How long it is measured.
        measure: Nanos,
    },
    /// Stacks of the server are taken from now on.
    TakeStacks {
        /// Where it runs, or where it waits.
        of: Stacks,
    },
    /// No more are taken.
    EndStacks {
        /// Which.
        of: Stacks,
    },
    /// They, with names.
    Stacks {
        /// Which.
        of: Stacks,
    },
}

/// Which stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stacks {
    /// Where threads run.
    Running,
    /// Where threads wait, of a second at the most.
    Waiting,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`](crate::VERSION) of the controller.
    pub protocol: u32,
    /// The controller's version.
    pub version: String,
    /// Who it is, for the agent's log: `root@laptop (4711)`.
    pub controller: String,
    /// For how long the way between them may be gone: loads, and servers that were started, hold for so much more than a
    /// lease. The agent grants [`AWAY_MAX`](crate::AWAY_MAX) at the most.
    pub away: Nanos,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// [`VERSION`](crate::VERSION) of the agent.
    pub protocol: u32,
    /// The agent's version.
    pub version: String,
    /// What may be asked for.
    pub grants: Vec<Grant>,
    /// The epoch that orders must carry.
    pub epoch: u64,
    /// What results of this session are called; `None`: they are told once, and not kept.
    pub keeps: Option<String>,
    /// The host's own name.
    pub host: String,
    /// The agent's process.
    pub pid: u32,
    /// Whether it runs as root.
    pub is_root: bool,
    /// Processors that it may use.
    pub cpus: Vec<u32>,
    /// Names of servers that it may start.
    pub subjects: Vec<String>,
}

/// Whom a user says that the server is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Named {
    /// Nobody: whoever listens on the address.
    #[default]
    Nobody,
    /// This process.
    Process(u32),
    /// The processes of a control group, by its folder.
    Group(PathBuf),
}

/// Processes that count as one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Family {
    /// Command name of the first process.
    pub name: String,
    /// Process ids, the oldest parent first.
    pub pids: Vec<u32>,
}

/// Who serves an address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Found {
    /// Its processes.
    pub family: Family,
    /// Processors that those who serve may run on.
    pub cpus: Vec<u32>,
}

/// CPU time of processes at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProcessTimes {
    /// By process id.
    pub of: BTreeMap<u32, ProcessTime>,
}

/// The CPU time of one process in [`ProcessTimes`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessTime {
    /// Its command name.
    pub name: String,
    /// Who started it.
    pub parent: u32,
    /// CPU time.
    pub cpu_ns: u64,
}

impl ProcessTimes {
    /// Seconds that these processes, and those that they started, have used since.
    pub fn used_since(&self, before: &ProcessTimes, pids: &[u32]) -> f64 {
        let is_below = |pid: u32| {
            let mut pid = pid;
            // A table that was read while processes came and went may hold a circle.
            for _ in 0..self.of.len() {
                if pids.contains(&pid) {
                    return true;
                }
                match self.of.get(&pid) {
                    Some(process) => pid = process.parent,
                    None => return false,
                }
            }
            false
        };
        let used = self.of.iter().filter(|(pid, _)| is_below(**pid));
        let used = used.map(|(pid, now)| {
            let earlier = before.of.get(pid).map_or(0, |process| process.cpu_ns);
            now.cpu_ns.saturating_sub(earlier)
        });
        used.sum::<u64>() as f64 / 1e9
    }
}

/// Processes of one side, and their processors.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Side {
    /// Processes.
    pub pids: Vec<u32>,
    /// Processors; none: asked of the processes.
    pub cpus: Vec<u32>,
}

/// Whom levers are put up for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeversOrder {
    /// Whether the load comes from this host or goes to it.
    pub role: Role,
    /// The processes of the role. A client's are the agent's own.
    pub own: Side,
    /// Processes behind the server that are squeezed apart.
    pub backend: Option<Side>,
    /// Cores that those used under the load.
    pub backend_cores: Option<f64>,
    /// The load's way out of this host.
    pub way_out: Option<WayOut>,
    /// Seed of the rhythm of CPU stealers and pauses.
    pub seed: u64,
}

/// The flows of a load that leave a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayOut {
    /// The addresses that they go to, one at least.
    pub peers: Vec<IpAddr>,
    /// The server's port.
    pub port: u16,
    /// The interface that they leave by; `None`: the one that leads there.
    pub interface: Option<String>,
    /// Its rate, where no card tells it.
    pub rate_bits: Option<u64>,
}

/// A lever that stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeverAt {
    /// Which resource.
    pub squeeze: Squeeze,
    /// How it is done, in words.
    pub how: String,
    /// The least that it can leave.
    pub retained_min: f64,
}

/// What one window shows of a squeeze.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Check {
    /// What was left, measured.
    pub retained: Option<f64>,
    /// Whether it was in force; `None` where that cannot be told.
    pub in_force: Option<bool>,
    /// What was seen.
    pub text: String,
}

/// What comes back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It is done.
    Done,
    /// To [`Ask::Hello`].
    Welcome(Welcome),
    /// To [`Ask::Clock`].
    Clock {
        /// Monotonic time.
        monotonic_ns: u64,
    },
    /// To [`Ask::Renew`].
    Renewed {
        /// Monotonic time.
        monotonic_ns: u64,
        /// The last tick, where there is a watch.
        sample: Option<Box<Sample>>,
    },
    /// To [`Ask::Facts`].
    Facts(Box<Environment>),
    /// To [`Ask::Find`].
    Found(Found),
    /// To [`Ask::Times`].
    Times(ProcessTimes),
    /// To [`Ask::Behind`].
    Families(Vec<Family>),
    /// To [`Ask::Asked`].
    Addresses(Vec<SocketAddr>),
    /// To [`Ask::Neighbours`].
    Neighbours(Vec<Neighbour>),
    /// To [`Ask::Route`].
    Route {
        /// The address that packets to there have as their source.
        own: Option<IpAddr>,
        /// The interface that they leave by.
        interface: Option<String>,
    },
    /// To [`Ask::Watch`]: its zero, by the agent's monotonic clock.
    Watching {
        /// Instants count from here.
        zero_ns: u64,
    },
    /// To [`Ask::CountFrom`].
    Later {
        /// How much later that is than the zero before.
        ns: i64,
    },
    /// To [`Ask::Unwatch`]: what was missed while it watched.
    Unwatched {
        /// Ticks that came late, suspends, steps of the wall clock.
        gaps: Vec<Caveat>,
    },
    /// To [`Ask::Start`].
    Started {
        /// Where it says that it listens.
        address: String,
    },
    /// To [`Ask::Drive`].
    Measured(Box<Measured>),
    /// To [`Ask::Recall`]: the load goes on, and has no result yet.
    UnderWay,
    /// To [`Ask::Calibrate`].
    Ceiling(Box<Ceiling>),
    /// To [`Ask::Fetch`].
    Piece {
        /// As many bytes as one message holds; none: that was all.
        #[serde(with = "bytes::one")]
        bytes: Vec<u8>,
        /// Requests for which there was no room.
        dropped: u64,
    },
    /// To [`Ask::Mark`].
    Marked {
        /// When, from the start of the watch.
        at_ns: i64,
    },
    /// To [`Ask::Summarise`]: one for each span.
    Telemetry(Vec<Telemetry>),
    /// To [`Ask::Samples`].
    Samples {
        /// They.
        samples: Vec<Sample>,
        /// Whether there are more.
        more: bool,
    },
    /// To [`Ask::PaceWithin`].
    Pace {
        /// CPU time of the piece of work; `None`: not known.
        ns: Option<f64>,
    },
    /// To [`Ask::Levers`].
    Levers {
        /// Those that stand.
        levers: Vec<LeverAt>,
        /// Those that do not.
        out_of_reach: Vec<OutOfReach>,
        /// The rate of the way out when nothing is taken.
        way_out_bits: Option<u64>,
    },
    /// To [`Ask::EndWindow`].
    Checks(Vec<(Squeeze, Check)>),
    /// To [`Ask::Stacks`].
    Stacks {
        /// Stacks with what was counted on them.
        profile: Profile,
        /// Records that were lost.
        lost: u64,
        /// Of waits, how long threads were ready after them, or why that is not known.
        ready_ns: Option<Result<u64, String>>,
    },
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// The agent may not be asked for it.
    #[error(
        "the agent there does not grant `{grant}`: it was started with fewer grants than this needs"
    )]
    NotGranted {
        /// What it would need.
        grant: Grant,
    },
    /// Nothing was asked for longer than a lease lasts, and all was undone.
    #[error(
        "nothing was heard there for longer than a lease lasts, so all squeezes were undone and the load ended"
    )]
    LeaseOver,
    /// It was tried.
    #[error("{why}")]
    Failed {
        /// Why it did not succeed.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_that_of_processes_and_of_those_below_them() {
        let times = |each: &[(u32, u32, u64)]| ProcessTimes {
            of: each
                .iter()
                .map(|(pid, parent, cpu_ns)| {
                    let process = ProcessTime {
                        name: String::new(),
                        parent: *parent,
                        cpu_ns: *cpu_ns,
                    };
                    (*pid, process)
                })
                .collect(),
        };
        let second = 1_000_000_000;
        let before = times(&[(1, 0, 0), (7, 1, second), (8, 7, 0)]);
        let now = times(&[
            (1, 0, 9 * second),
            (7, 1, 3 * second),
            (8, 7, second),
            (9, 8, second),
            // A circle.
            (20, 21, second),
            (21, 20, second),
        ]);
        assert_eq!(now.used_since(&before, &[7]), 4.0);
        assert_eq!(now.used_since(&before, &[]), 0.0);
    }
}
