//! The second section of the suite: servers that everybody has, started as their users start
//! them, with the wall that their settings impose. Each row's arithmetic is in
//! `docs/labelled-suite.md`.

use wallfinder_model::verdict::Wall::{Backend, Concurrency, ServerCpu, ServerSerial, Wait};

use crate::scenario::{Behind, Ordinary, Scenario, Server};
use crate::suite::{PLAIN, by_a_thread, four_at_a_time, made_of, per_connection};

const NGINX: Ordinary = Ordinary {
    program: "nginx",
    package: "nginx-light",
    command: "nginx -p {folder}/ -c {folder}/server.conf",
    file: ("server.conf", ""),
    backend: None,
    backend_is_named: false,
};

/// Before a slow service, which runs beside the client: that needs little of its processor.
pub(crate) const HAPROXY: Ordinary = Ordinary {
    program: "haproxy",
    package: "haproxy",
    command: "haproxy -db -f {folder}/server.cfg",
    file: ("server.cfg", include_str!("../servers/haproxy.cfg")),
    backend: Some(Behind {
        command: "{bin}/knownwall --spin-us 1000 --port 18182",
        cpus: "1",
    }),
    backend_is_named: true,
};

const NODE: Ordinary = Ordinary {
    program: "node",
    package: "nodejs",
    command: "node {folder}/server.js",
    file: ("server.js", include_str!("../servers/node-compute.js")),
    backend: None,
    backend_is_named: false,
};

pub(crate) const fn nginx(configuration: &'static str) -> Server {
    Server::Ordinary(Ordinary {
        file: ("server.conf", configuration),
        ..NGINX
    })
}

/// May run on either processor, as whoever pins nothing has it.
const UNPINNED: &str = "0,1";

/// Every scenario with an ordinary server.
pub const SERVERS: &[Scenario] = &[
    Scenario {
        name: "nginx-one-worker",
        server: nginx(include_str!("../servers/nginx-one-worker.conf")),
        path: "/BSD",
        server_cpus: UNPINNED,
        expect: made_of(&[ServerSerial], Some(by_a_thread)),
        ..PLAIN
    },
    Scenario {
        name: "nginx-worker-affinity",
        server: nginx(include_str!("../servers/nginx-worker-affinity.conf")),
        path: "/BSD",
        server_cpus: UNPINNED,
        expect: made_of(&[ServerCpu], None),
        ..PLAIN
    },
    Scenario {
        name: "nginx-gzip-9",
        server: nginx(include_str!("../servers/nginx-gzip-9.conf")),
        path: "/GPL-3",
        flags: "-c 16 -H 'Accept-Encoding: gzip'",
        expect: made_of(&[ServerCpu], None),
        ..PLAIN
    },
    Scenario {
        name: "nginx-limit-rate",
        server: nginx(include_str!("../servers/nginx-limit-rate.conf")),
        path: "/Apache-2.0",
        expect: made_of(&[Concurrency], Some(per_connection)),
        rate: Some((700.0, 801.0)),
        ..PLAIN
    },
    Scenario {
        name: "haproxy-maxconn",
        server: Server::Ordinary(Ordinary {
            file: ("server.cfg", include_str!("../servers/haproxy-maxconn.cfg")),
            backend: Some(Behind {
                command: "{bin}/knownwall --async-sleep-us 5000 --port 18182",
                cpus: "0",
            }),
            ..HAPROXY
        }),
        flags: "-c 64",
        expect: made_of(&[Wait], Some(four_at_a_time)),
        rate: Some((700.0, 801.0)),
        ..PLAIN
    },
    Scenario {
        name: "haproxy-slow-backend",
        server: Server::Ordinary(HAPROXY),
        expect: made_of(&[Backend], None),
        rate: Some((700.0, 1000.0)),
        ..PLAIN
    },
    Scenario {
        name: "haproxy-backend-found",
        server: Server::Ordinary(Ordinary {
            backend_is_named: false,
            ..HAPROXY
        }),
        expect: made_of(&[Backend], None),
        rate: Some((700.0, 1000.0)),
        ..PLAIN
    },
    Scenario {
        name: "node-one-thread",
        server: Server::Ordinary(NODE),
        server_cpus: UNPINNED,
        expect: made_of(&[ServerSerial], Some(by_a_thread)),
        ..PLAIN
    },
    Scenario {
        name: "node-pinned",
        server: Server::Ordinary(NODE),
        expect: made_of(&[ServerCpu], None),
        ..PLAIN
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordinary::PORT;
    use crate::scenario::Expect;

    #[test]
    fn each_listens_where_it_is_looked_for_and_has_a_wall() {
        for scenario in SERVERS {
            let Server::Ordinary(server) = scenario.server else {
                panic!("{} is started by the tool", scenario.name);
            };
            assert!(
                server.file.1.contains(&PORT.to_string()),
                "{}",
                scenario.name
            );
            assert!(server.command.contains(server.file.0), "{}", scenario.name);
            assert!(matches!(scenario.expect, Expect::Wall { .. }) && scenario.lift.is_none());
            assert_eq!(
                scenario.link, None,
                "the tool lays links to its subjects alone"
            );
        }
    }
}
