//! The fourth section of the suite: HTTP/2 by prior knowledge and gRPC, on servers of nghttp2, nginx and grpc-go,
//! where streams share connections: limits of streams and of flow control are walls of their own. Each row's arithmetic
//! is in `docs/labelled-suite.md`.

use wallfinder_model::verdict::Wall::{Concurrency, Downlink, ServerCpu, ServerSerial, Uplink};

use crate::scenario::{Behind, Ordinary, Scenario, Server};
use crate::servers::nginx;
use crate::suite::{PLAIN, by_a_thread, made_of};

const NGHTTPD: Ordinary = Ordinary {
    program: "nghttpd",
    package: "nghttp2-server",
    command: "nghttpd --no-tls -a 127.0.0.1 -n 1 -d /usr/share/common-licenses 18181 {folder}/unused",
    file: ("unused", "18181"),
    backend: None,
    backend_is_named: false,
};

/// Sixteen streams on each of sixteen connections: more than a server of one thread needs to be busy.
const H2: Scenario = Scenario {
    flags: "--http2 -c 16 --pipeline 16",
    ..PLAIN
};

/// Calls of the bundled echo, a kilobyte each way.
const GRPC: Scenario = Scenario {
    scheme: "grpc",
    server: Server::Subject("echo --protocol grpc --port 8090"),
    path: "/wallfinder.echo.Echo/Call",
    flags: "-c 4 --pipeline 16 --proto {echo} --body {kilobyte}",
    ..PLAIN
};

/// Every scenario over HTTP/2.
pub const HTTP2: &[Scenario] = &[
    Scenario {
        name: "h2-nghttpd-one-thread",
        server: Server::Ordinary(NGHTTPD),
        path: "/BSD",
        server_cpus: "0,1",
        expect: made_of(&[ServerSerial], Some(by_a_thread)),
        ..H2
    },
    Scenario {
        name: "h2-nghttpd-pinned",
        server: Server::Ordinary(NGHTTPD),
        path: "/BSD",
        expect: made_of(&[ServerCpu], None),
        ..H2
    },
    Scenario {
        name: "h2-nginx-gzip-9",
        server: nginx(include_str!("../servers/nginx-h2-gzip-9.conf")),
        path: "/GPL-3",
        flags: "--http2 -c 4 --pipeline 16 -H 'Accept-Encoding: gzip'",
        expect: made_of(&[ServerCpu], None),
        ..H2
    },
    Scenario {
        name: "h2-streams-max",
        server: Server::Ordinary(Ordinary {
            program: "nginx",
            package: "nginx-light",
            command: "nginx -p {folder}/ -c {folder}/server.conf",
            file: (
                "server.conf",
                include_str!("../servers/nginx-h2-streams.conf"),
            ),
            backend: Some(Behind {
                command: "{bin}/knownwall --async-sleep-us 5000 --port 18182",
                cpus: "0",
            }),
            backend_is_named: false,
        }),
        flags: "--http2 -c 1 --pipeline 64",
        expect: made_of(&[Concurrency], Some(crate::suite::by_streams)),
        rate: Some((600.0, 801.0)),
        ..H2
    },
    Scenario {
        name: "h2-upload-window",
        server: Server::Subject(
            "nghttpd --no-tls -n 1 -w 14 -W 14 -d /usr/share/common-licenses 8090",
        ),
        link: Some("1gbit,delay=10ms"),
        path: "/BSD",
        flags: "--http2 -c 16 -m POST --body-bytes 65536",
        expect: made_of(&[Concurrency], None),
        // Each connection has a window of 16 KiB for each round trip of 20 ms, and four windows of body.
        rate: Some((90.0, 205.0)),
        ..H2
    },
    Scenario {
        name: "grpc-go-pinned",
        expect: made_of(&[ServerCpu], None),
        ..GRPC
    },
    Scenario {
        name: "grpc-go-downlink",
        server: Server::Subject("echo --protocol grpc --port 8090 --answer 10000"),
        link: Some("20mbit"),
        expect: made_of(&[Downlink], None),
        rate: Some((200.0, 250.0)),
        ..GRPC
    },
    Scenario {
        name: "grpc-go-uplink",
        server: Server::Subject("echo --protocol grpc --port 8090 --answer ack"),
        link: Some("1gbit,up=10mbit"),
        expect: made_of(&[Uplink], None),
        rate: Some((900.0, 1_250.0)),
        ..GRPC
    },
    Scenario {
        name: "grpc-go-few-calls",
        link: Some("1gbit,delay=5ms"),
        flags: "-c 2 --pipeline 4 --proto {echo} --body {kilobyte}",
        expect: made_of(&[Concurrency], None),
        rate: Some((600.0, 800.0)),
        ..GRPC
    },
];
