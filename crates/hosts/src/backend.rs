//! Another host, for what the server asks in turn.

use std::net::SocketAddr;

use wallfinder_protocol::{Answer, Ask, LeversOrder, Named, ProcessTimes, Role, Side};
use wallfinder_testbed::squeeze::Reach;

use crate::far::Far;
use crate::{Agent, Backend};

/// The host of a backend.
#[derive(Debug, Clone)]
pub struct BackendHost {
    far: Far,
}

impl BackendHost {
    /// By its agent.
    pub fn of(agent: &Agent) -> BackendHost {
        BackendHost {
            far: Far::of(agent, Role::Backend),
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        self.far.name()
    }

    /// CPU time of each of its processes; empty where it cannot be told.
    pub fn times(&self) -> ProcessTimes {
        self.far.times()
    }

    /// Who serves these addresses there, each once. The others are of other hosts.
    pub fn serving(&self, addresses: &[SocketAddr]) -> Vec<Backend> {
        let mut found: Vec<Backend> = Vec::new();
        for address in addresses {
            let asked = self.far.channel.call(Ask::Find {
                address: *address,
                named: Named::Nobody,
            });
            let Ok(Answer::Found(served)) = asked else {
                tracing::debug!(%address, host = self.name(), "nobody serves it there");
                continue;
            };
            let family = served.family;
            if !found.iter().any(|known| known.pids == family.pids) {
                found.push(Backend {
                    name: family.name,
                    pids: family.pids,
                });
            }
        }
        found
    }

    /// Puts up the levers of these processes, which used so many cores under the load.
    pub fn levers(&self, pids: Vec<u32>, cores: f64, seed: u64) -> Reach {
        self.far.levers(LeversOrder {
            role: Role::Backend,
            own: Side {
                pids,
                cpus: Vec::new(),
            },
            backend: None,
            backend_cores: Some(cores),
            way_out: None,
            seed,
        })
    }
}
