//! Which processors belong to the client, and which to the server.
//!
//! Sharing one is the commonest way to be fooled: the client then takes the server's time
//! and both look half idle. So they are kept apart wherever there are two processors and
//! the choice is ours.

use wallfinder_sys::process;

/// Processors of each side; empty: not pinned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Placement {
    pub(crate) client: Vec<u32>,
    pub(crate) server: Vec<u32>,
}

impl Placement {
    /// Decides from what the user said, whether the server is ours to place, and where a
    /// server that already runs may run.
    pub(crate) fn decide(
        client: Option<Vec<u32>>,
        server: Option<Vec<u32>>,
        server_is_ours: bool,
        server_runs_on: Option<Vec<u32>>,
    ) -> Placement {
        place(
            &process::allowed_cpus(),
            client,
            server,
            server_is_ours,
            server_runs_on,
        )
    }

    /// Engine threads where the user names no number: one for each processor.
    pub(crate) fn lanes(&self, asked: Option<u32>, connections: u32) -> u32 {
        let by_place = match self.client.len() {
            0 => (process::allowed_cpus().len() as u32 / 2).max(1),
            pinned => pinned as u32,
        };
        asked.unwrap_or(by_place).clamp(1, connections.max(1))
    }

    /// Where a link's relay runs: on what neither side has of all that is there, else with the
    /// client, never with the server; empty: anywhere.
    pub(crate) fn relay(&self, there: &[u32]) -> Vec<u32> {
        let sides = [&self.client[..], &self.server].concat();
        let spare = there.iter().copied().filter(|cpu| !sides.contains(cpu));
        let spare: Vec<u32> = spare.collect();
        match sides.is_empty() || spare.is_empty() {
            true => self.client.clone(),
            false => spare,
        }
    }

    /// A processor for a null server: one of the server's, else any that no lane has.
    pub(crate) fn null_server_cpu(&self) -> Option<u32> {
        let elsewhere = || {
            let there = process::allowed_cpus();
            there.into_iter().find(|cpu| !self.client.contains(cpu))
        };
        self.server.first().copied().or_else(elsewhere)
    }
}

fn place(
    there: &[u32],
    client: Option<Vec<u32>>,
    server: Option<Vec<u32>>,
    server_is_ours: bool,
    server_runs_on: Option<Vec<u32>>,
) -> Placement {
    let rest = |taken: &[u32]| -> Vec<u32> {
        let rest = there.iter().copied().filter(|cpu| !taken.contains(cpu));
        rest.collect()
    };
    if !server_is_ours {
        let runs_on = server_runs_on.unwrap_or_default();
        // A server that may run anywhere leaves no processor to ourselves.
        return Placement {
            client: client.unwrap_or_else(|| {
                if runs_on.is_empty() {
                    Vec::new()
                } else {
                    rest(&runs_on)
                }
            }),
            server: Vec::new(),
        };
    }
    match (client, server) {
        (Some(client), Some(server)) => Placement { client, server },
        (Some(client), None) => Placement {
            server: rest(&client),
            client,
        },
        (None, Some(server)) => Placement {
            client: rest(&server),
            server,
        },
        (None, None) if there.len() < 2 => Placement::default(),
        (None, None) => {
            let (server, client) = there.split_at(there.len() / 2);
            Placement {
                client: client.to_vec(),
                server: server.to_vec(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(client: &[u32], server: &[u32]) -> Placement {
        Placement {
            client: client.to_vec(),
            server: server.to_vec(),
        }
    }

    #[test]
    fn a_subject_and_its_client_are_kept_apart() {
        assert_eq!(place(&[0, 1], None, None, true, None), placed(&[1], &[0]));
        assert_eq!(
            place(&[0, 1, 2, 3, 4], None, None, true, None),
            placed(&[2, 3, 4], &[0, 1])
        );
        assert_eq!(
            place(&[0, 1, 2], Some(vec![0]), None, true, None),
            placed(&[0], &[1, 2])
        );
        assert_eq!(
            place(&[0, 1, 2], None, Some(vec![2]), true, None),
            placed(&[0, 1], &[2])
        );
        assert_eq!(place(&[0], None, None, true, None), placed(&[], &[]));
    }

    #[test]
    fn a_relay_keeps_off_the_server() {
        assert_eq!(placed(&[1], &[0]).relay(&[0, 1]), [1]);
        assert_eq!(placed(&[1], &[0]).relay(&[0, 1, 2]), [2]);
        assert_eq!(placed(&[], &[]).relay(&[0]), Vec::<u32>::new());
    }

    #[test]
    fn a_server_that_runs_already_is_avoided_where_it_is_pinned() {
        assert_eq!(
            place(&[0, 1], None, None, false, Some(vec![0])),
            placed(&[1], &[])
        );
        assert_eq!(
            place(&[0, 1], None, None, false, Some(vec![0, 1])),
            placed(&[], &[])
        );
        assert_eq!(place(&[0, 1], None, None, false, None), placed(&[], &[]));
    }
}
