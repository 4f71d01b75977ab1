//! Which processors belong to the client, and which to the server.
//!
//! Sharing one is the commonest way to be fooled: the client then takes the server's time
//! and both look half idle. So they are kept apart wherever there are two processors and
//! the choice is ours, and by whole cores wherever there are two: siblings share one.

use std::collections::BTreeMap;

use wallfinder_model::Caveat;
use wallfinder_probe::cores::Cores;
use wallfinder_sys::process;

/// Processors of each side; empty: not pinned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Placement {
    pub(crate) client: Vec<u32>,
    pub(crate) server: Vec<u32>,
    /// What there was for both before anybody was pinned.
    processors: Processors,
}

/// Processors that can be given to either side, and their cores.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Processors {
    there: Vec<u32>,
    cores: Cores,
}

impl Placement {
    /// Decides from what the user said, whether the server is ours to place, and where a
    /// server that already runs may run. Called before this thread is pinned.
    pub(crate) fn decide(
        client: Option<Vec<u32>>,
        server: Option<Vec<u32>>,
        server_is_ours: bool,
        server_runs_on: Option<Vec<u32>>,
    ) -> Placement {
        let processors = Processors::seen(server_runs_on.as_deref().unwrap_or_default());
        let asked = client.is_some() || server.is_some();
        let (client, server) = place(&processors, client, server, server_is_ours, server_runs_on);
        tracing::info!(
            ?client,
            ?server,
            asked,
            server_is_ours,
            "processors are placed"
        );
        Placement {
            client,
            server,
            processors,
        }
    }

    /// A load on another host: on these processors of what there is there.
    pub(crate) fn elsewhere(asked: Option<Vec<u32>>, there: Vec<u32>) -> Placement {
        Placement {
            client: asked.unwrap_or_else(|| there.clone()),
            server: Vec::new(),
            processors: Processors {
                there,
                cores: Cores::default(),
            },
        }
    }

    /// So many processors for each side, where they are there; else what [`Placement::decide`]
    /// gives to a server that is ours. Called before this thread is pinned.
    pub(crate) fn counted(server: usize, client: usize) -> Placement {
        let processors = Processors::seen(&[]);
        match processors.counted(server, client) {
            Some((client, server)) => Placement {
                client,
                server,
                processors,
            },
            None => Placement::decide(None, None, true, None),
        }
    }

    /// Processors for engine threads, one for each: those of the client, else half of what there is.
    pub(crate) fn processors(&self) -> u32 {
        match self.client.len() {
            0 => (self.processors.there.len() as u32 / 2).max(1),
            pinned => pinned as u32,
        }
    }

    /// Where a link's relay runs: on what neither side has of all that is there, else with the
    /// client, never on a core of the server's; empty: anywhere.
    pub(crate) fn relay(&self, there: &[u32]) -> Vec<u32> {
        let cores = &self.processors.cores;
        let is_spare = |cpu: &u32| !self.client.contains(cpu) && !cores.meets(*cpu, &self.server);
        let spare: Vec<u32> = there.iter().copied().filter(is_spare).collect();
        let is_anywhere = self.client.is_empty() && self.server.is_empty();
        match is_anywhere || spare.is_empty() {
            true => self.client.clone(),
            false => spare,
        }
    }

    /// A processor for a null server: one of the server's, else any that no worker has.
    pub(crate) fn null_server_cpu(&self) -> Option<u32> {
        let elsewhere = || self.processors.beside(&self.client).first().copied();
        self.server.first().copied().or_else(elsewhere)
    }

    /// The doubt where the two sides have threads of one core. `server_runs_on`: where the server
    /// was seen to be; empty: where it was put.
    pub(crate) fn shared_cores(&self, server_runs_on: &[u32]) -> Option<Caveat> {
        let server = match server_runs_on.is_empty() {
            true => &self.server[..],
            false => server_runs_on,
        };
        let without = |cpus: &[u32], others: &[u32]| -> Vec<u32> {
            let own = cpus.iter().copied().filter(|cpu| !others.contains(cpu));
            own.collect()
        };
        // Of a processor that both have there is another doubt.
        let (client, server) = (without(&self.client, server), without(server, &self.client));
        let of_both = |cpus: &[u32], others: &[u32]| -> Vec<u32> {
            let cores = &self.processors.cores;
            let both = cpus.iter().copied();
            both.filter(|cpu| cores.meets(*cpu, others)).collect()
        };
        let (client, server) = (of_both(&client, &server), of_both(&server, &client));
        (!client.is_empty()).then_some(Caveat::SharedCores { client, server })
    }
}

impl Processors {
    /// Those of the calling thread. Of others, cores are known as well.
    fn seen(others: &[u32]) -> Processors {
        let there = process::allowed_cpus();
        let cores = Cores::of(&[&there[..], others].concat());
        Processors { there, cores }
    }

    /// What is not taken; of that, what is on cores of its own, where there is any.
    fn beside(&self, taken: &[u32]) -> Vec<u32> {
        let rest = self.there.iter().copied();
        let rest: Vec<u32> = rest.filter(|cpu| !taken.contains(cpu)).collect();
        let apart = rest.iter().copied();
        let apart: Vec<u32> = apart.filter(|cpu| !self.cores.meets(*cpu, taken)).collect();
        if apart.is_empty() { rest } else { apart }
    }

    /// About half for the client and half for the server: whole cores where there are two or more,
    /// else threads of the only one.
    fn halves(&self) -> (Vec<u32>, Vec<u32>) {
        let half = self.there.len() / 2;
        let by_core = self.by_core();
        if by_core.len() < 2 {
            let (server, client) = self.there.split_at(half);
            return (client.to_vec(), server.to_vec());
        }
        let (mut client, mut server): (Vec<u32>, Vec<u32>) = Default::default();
        for core in by_core {
            let fits = server.is_empty() || server.len() + core.len() <= half;
            match fits && client.is_empty() {
                true => server.extend(core),
                false => client.extend(core),
            }
        }
        client.sort_unstable();
        server.sort_unstable();
        (client, server)
    }

    /// So many for each side, the client's first; `None` where there are fewer. Each has a core to
    /// itself where there are as many, else the sides have none in common where that can be.
    fn counted(&self, server: usize, client: usize) -> Option<(Vec<u32>, Vec<u32>)> {
        if self.there.len() < server + client {
            return None;
        }
        let by_core = self.by_core();
        let in_turn: Vec<u32> = match by_core.len() >= server + client {
            true => by_core.iter().map(|core| core[0]).collect(),
            false => by_core.concat(),
        };
        let (server, rest) = in_turn.split_at(server);
        let apart = rest.iter().copied();
        let apart: Vec<u32> = apart
            .filter(|cpu| !self.cores.meets(*cpu, server))
            .collect();
        let rest = if apart.len() < client {
            rest
        } else {
            &apart[..]
        };
        let (mut client, mut server) = (rest[..client].to_vec(), server.to_vec());
        client.sort_unstable();
        server.sort_unstable();
        Some((client, server))
    }

    /// The threads of each core.
    fn by_core(&self) -> Vec<Vec<u32>> {
        let mut by_core: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for cpu in &self.there {
            let core = self.cores.core(*cpu);
            by_core.entry(core).or_default().push(*cpu);
        }
        by_core.into_values().collect()
    }
}

/// The client's processors, and the server's.
fn place(
    processors: &Processors,
    client: Option<Vec<u32>>,
    server: Option<Vec<u32>>,
    server_is_ours: bool,
    server_runs_on: Option<Vec<u32>>,
) -> (Vec<u32>, Vec<u32>) {
    if !server_is_ours {
        let runs_on = server_runs_on.unwrap_or_default();
        // A server that may run anywhere leaves no processor to ourselves.
        let client = client.unwrap_or_else(|| {
            if runs_on.is_empty() {
                Vec::new()
            } else {
                processors.beside(&runs_on)
            }
        });
        return (client, Vec::new());
    }
    match (client, server) {
        (Some(client), Some(server)) => (client, server),
        (Some(client), None) => {
            let server = processors.beside(&client);
            (client, server)
        }
        (None, Some(server)) => (processors.beside(&server), server),
        (None, None) if processors.there.len() < 2 => (Vec::new(), Vec::new()),
        (None, None) => processors.halves(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many processors, of cores with these siblings.
    fn processors(count: u32, siblings: &[&[u32]]) -> Processors {
        Processors {
            there: (0..count).collect(),
            cores: Cores::of_siblings(siblings.iter().map(|list| list.to_vec())),
        }
    }

    fn placed(client: &[u32], server: &[u32], processors: Processors) -> Placement {
        Placement {
            client: client.to_vec(),
            server: server.to_vec(),
            processors,
        }
    }

    fn sides(client: &[u32], server: &[u32]) -> (Vec<u32>, Vec<u32>) {
        (client.to_vec(), server.to_vec())
    }

    #[test]
    fn a_subject_and_its_client_are_kept_apart() {
        let ours =
            |count, client, server| place(&processors(count, &[]), client, server, true, None);
        assert_eq!(ours(2, None, None), sides(&[1], &[0]));
        assert_eq!(ours(5, None, None), sides(&[2, 3, 4], &[0, 1]));
        assert_eq!(ours(3, Some(vec![0]), None), sides(&[0], &[1, 2]));
        assert_eq!(ours(3, None, Some(vec![2])), sides(&[0, 1], &[2]));
        assert_eq!(ours(1, None, None), sides(&[], &[]));
    }

    #[test]
    fn siblings_are_on_one_side_where_there_are_two_cores() {
        let ours = |count, siblings: &[&[u32]], client, server| {
            place(&processors(count, siblings), client, server, true, None)
        };
        let far: [&[u32]; 2] = [&[0, 2], &[1, 3]];
        assert_eq!(ours(4, &far, None, None), sides(&[1, 3], &[0, 2]));
        let near: [&[u32]; 3] = [&[0, 1], &[2, 3], &[4, 5]];
        assert_eq!(ours(6, &near, None, None), sides(&[2, 3, 4, 5], &[0, 1]));
        // One core of two threads and four of one.
        let mixed: [&[u32]; 1] = [&[0, 1]];
        assert_eq!(ours(6, &mixed, None, None), sides(&[3, 4, 5], &[0, 1, 2]));
        assert_eq!(ours(4, &far, Some(vec![0]), None), sides(&[0], &[1, 3]));
        assert_eq!(ours(4, &far, None, Some(vec![3])), sides(&[0, 2], &[3]));
        let stands = place(&processors(4, &far), None, None, false, Some(vec![0]));
        assert_eq!(stands, sides(&[1, 3], &[]));
        // Where each core has somebody, other threads are better than none.
        let all = ours(4, &far, Some(vec![0, 1]), None);
        assert_eq!(all, sides(&[0, 1], &[2, 3]));
    }

    #[test]
    fn one_core_is_split_by_its_threads() {
        let one = processors(2, &[&[0, 1]]);
        assert_eq!(place(&one, None, None, true, None), sides(&[1], &[0]));
        assert_eq!(one.counted(1, 1), Some(sides(&[1], &[0])));
    }

    #[test]
    fn so_many_of_each_side_have_cores_of_their_own() {
        let plain = processors(4, &[]);
        assert_eq!(plain.counted(2, 1), Some(sides(&[2], &[0, 1])));
        assert_eq!(plain.counted(3, 2), None);
        let near = processors(4, &[&[0, 1], &[2, 3]]);
        assert_eq!(near.counted(1, 1), Some(sides(&[2], &[0])));
        assert_eq!(near.counted(2, 2), Some(sides(&[2, 3], &[0, 1])));
        assert_eq!(near.counted(1, 2), Some(sides(&[2, 3], &[0])));
        assert_eq!(near.counted(1, 3), Some(sides(&[1, 2, 3], &[0])));
    }

    #[test]
    fn a_relay_keeps_off_the_server() {
        let relay = |client: &[u32], server: &[u32], siblings: &[&[u32]], there: &[u32]| {
            placed(client, server, processors(4, siblings)).relay(there)
        };
        assert_eq!(relay(&[1], &[0], &[], &[0, 1]), [1]);
        assert_eq!(relay(&[1], &[0], &[], &[0, 1, 2]), [2]);
        assert_eq!(relay(&[], &[], &[], &[0]), Vec::<u32>::new());
        assert_eq!(relay(&[1], &[0], &[&[0, 2]], &[0, 1, 2]), [1]);
        assert_eq!(relay(&[1], &[0], &[&[0, 2]], &[0, 1, 2, 3]), [3]);
    }

    #[test]
    fn a_server_that_runs_already_is_avoided_where_it_is_pinned() {
        let stands = |runs_on| place(&processors(2, &[]), None, None, false, runs_on);
        assert_eq!(stands(Some(vec![0])), sides(&[1], &[]));
        assert_eq!(stands(Some(vec![0, 1])), sides(&[], &[]));
        assert_eq!(stands(None), sides(&[], &[]));
    }

    /// The calling thread may be pinned to the workers' processors by now.
    #[test]
    fn a_null_server_is_where_no_worker_is() {
        let cpu = |client: &[u32], server: &[u32], siblings: &[&[u32]]| {
            placed(client, server, processors(4, siblings)).null_server_cpu()
        };
        assert_eq!(cpu(&[2, 3], &[1], &[]), Some(1));
        assert_eq!(cpu(&[0], &[], &[]), Some(1));
        assert_eq!(cpu(&[0], &[], &[&[0, 1]]), Some(2));
        assert_eq!(cpu(&[0, 1, 2, 3], &[], &[]), None);
    }

    #[test]
    fn sides_that_share_cores_are_told_of() {
        let doubt = |client: &[u32], server: &[u32], seen: &[u32]| {
            let processors = processors(4, &[&[0, 1], &[2, 3]]);
            placed(client, server, processors).shared_cores(seen)
        };
        let siblings = Caveat::SharedCores {
            client: vec![1],
            server: vec![0],
        };
        assert_eq!(doubt(&[1, 2], &[0], &[]), Some(siblings));
        assert!(doubt(&[1], &[], &[0]).is_some(), "it runs already");
        assert_eq!(doubt(&[2, 3], &[0, 1], &[]), None);
        assert_eq!(doubt(&[1], &[0], &[2]), None, "it keeps to fewer");
        assert_eq!(doubt(&[], &[], &[0]), None, "nobody is pinned");
        assert_eq!(doubt(&[1], &[1], &[]), None, "of this there is another");
    }
}
