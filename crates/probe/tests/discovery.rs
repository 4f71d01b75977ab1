//! Finding servers: prefork families, other network namespaces, and links between them.

mod stand;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use wallfinder_probe::sockets::{self, Side};
use wallfinder_probe::{NotSeen, Sampler, Setup, family_of_self, server_of};
use wallfinder_sys::clock::monotonic_ns;

use stand::{AtEnd, ROLE, is_root, lays_links, listen_shared, must, role, say, stay, try_to};

/// Not a test: what this binary does when it is started by one.
#[test]
#[ignore = "played by children of the other tests"]
fn plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    match role.split_once(' ').unwrap_or((&role, "")) {
        ("prefork", _) => prefork(),
        ("worker", address) => {
            let _listener = listen_shared(address.parse().unwrap());
            say("listening");
            stay();
        }
        ("pump", address) => pump(address.parse().unwrap()),
        (other, _) => panic!("no role {other}"),
    }
}

/// A parent that does not listen, with two children that share a port.
fn prefork() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut workers = [
        role(&[], &format!("worker {port}")),
        role(&[], &format!("worker {port}")),
    ];
    for worker in &mut workers {
        assert_eq!(worker.line(), "listening");
    }
    say(&format!("{port} {} {}", workers[0].pid(), workers[1].pid()));
    stay();
}

/// Sends to whoever connects, as fast as it goes.
fn pump(address: SocketAddr) {
    let listener = listen_shared(address);
    say("listening");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || while stream.write_all(&[7; 65_536]).is_ok() {});
        }
    });
    stay();
}

#[test]
fn a_prefork_server_is_one_family() {
    let mut parent = role(&[], "prefork");
    let line = parent.line();
    let mut words = line.split(' ');
    let address: SocketAddr = words.next().unwrap().parse().unwrap();
    let workers: Vec<u32> = words.map(|word| word.parse().unwrap()).collect();
    let family = server_of(address).unwrap();
    assert_eq!(
        family.leader(),
        Some(parent.pid()),
        "the parent that does not listen comes first: {family:?}"
    );
    let mut expected = vec![parent.pid(), workers[0], workers[1]];
    let mut found = family.pids.clone();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(
        found, expected,
        "and this process, their parent of the same program, is not one of them"
    );
    assert_eq!(family.address, Some(address));
}

#[test]
fn wildcards_and_mapped_addresses_are_found() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for host in ["127.0.0.1", "0.0.0.0", "[::ffff:127.0.0.1]"] {
        let address: SocketAddr = format!("{host}:{port}").parse().unwrap();
        assert_eq!(
            server_of(address).unwrap().pids,
            [std::process::id()],
            "{host}"
        );
    }
    let address = format!("[::1]:{port}").parse().unwrap();
    assert_eq!(server_of(address), Err(NotSeen::NoListener { address }));
    let both = TcpListener::bind("[::]:0").unwrap();
    let port = both.local_addr().unwrap().port();
    for host in ["127.0.0.1", "[::1]"] {
        let address: SocketAddr = format!("{host}:{port}").parse().unwrap();
        assert_eq!(
            server_of(address).unwrap().pids,
            [std::process::id()],
            "{host}"
        );
    }
}

/// A shell under docker-proxy's name and with its arguments, which holds a port.
#[test]
fn behind_docker_proxy_the_server_is_found() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let inside = server.local_addr().unwrap();
    let published = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = published.local_addr().unwrap();
    let folder = std::env::temp_dir().join(format!("wf-forwarder-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("docker-proxy");
    std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
    let port = inside.port().to_string();
    let mut forwarder = Command::new(&program)
        .arg0("sh")
        .args(["-c", "read line; :", "sh", "-container-ip", "127.0.0.1"])
        .args(["-container-port", &port])
        .stdin(Stdio::piped())
        .stdout(Stdio::from(OwnedFd::from(published)))
        .spawn()
        .unwrap();
    let found = server_of(address);
    drop(server);
    let not_seen = server_of(address);
    forwarder.kill().unwrap();
    forwarder.wait().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let found = found.unwrap();
    assert_eq!(found.pids, [std::process::id()]);
    assert_eq!(found.address, Some(inside));
    let by = "docker-proxy".to_owned();
    assert_eq!(not_seen, Err(NotSeen::Forwarded { address, by }));
}

#[test]
fn a_server_restarted_is_found_again() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut first = role(&[], &format!("worker {port}"));
    assert_eq!(first.line(), "listening");
    let sampler = Sampler::start(Setup {
        zero_ns: monotonic_ns(),
        tick: Duration::from_millis(50),
        server: Some(server_of(port).unwrap()),
        ..Setup::default()
    });
    let sampler = sampler.unwrap();
    let from = sampler.mark("open");
    drop(first);
    let mut second = role(&[], &format!("worker {port}"));
    assert_eq!(second.line(), "listening");
    sleep(Duration::from_millis(1_800));
    let to = sampler.mark("close");
    let server = sampler.stop().summarise(from, to).server.unwrap();
    assert_eq!(server.pids, [second.pid()]);
}

/// A namespace with a link to here, both ends shaped; everything goes with the namespace.
struct Lab {
    name: String,
    here: String,
    there: String,
    server: SocketAddr,
}

impl Lab {
    fn new(tag: &str, net: u8) -> Lab {
        let name = format!("wf-test-{tag}-{}", std::process::id());
        let (here, there) = (format!("wfh{net}"), format!("wfs{net}"));
        let server = format!("10.213.{net}.2:70{net}").parse().unwrap();
        let lab = Lab {
            name,
            here,
            there,
            server,
        };
        let Lab {
            name, here, there, ..
        } = &lab;
        must(&format!(
            "ip netns add {name} && ip link add {here} type veth peer name {there} netns {name}"
        ));
        must(&format!(
            "ip addr add 10.213.{net}.1/24 dev {here} && ip link set {here} up"
        ));
        must(&format!(
            "ip -n {name} addr add 10.213.{net}.2/24 dev {there} && ip -n {name} link set {there} up && ip -n {name} link set lo up"
        ));
        lab
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        try_to(&format!(
            "ip netns del {}; ip link del {} 2>/dev/null",
            self.name, self.here
        ));
    }
}

#[test]
fn a_server_in_another_namespace_is_found_and_its_link_measured() {
    if !lays_links("a_server_in_another_namespace_is_found_and_its_link_measured") {
        return;
    }
    let lab = Lab::new("link", 77);
    let Lab {
        name,
        here,
        there,
        server,
    } = &lab;
    must(&format!(
        "tc -n {name} qdisc add dev {there} root tbf rate 40mbit burst 64kb latency 50ms"
    ));
    must(&format!(
        "tc qdisc add dev {here} root tbf rate 20mbit burst 64kb latency 50ms"
    ));
    let mut pump = role(&["ip", "netns", "exec", name], &format!("pump {server}"));
    assert_eq!(pump.line(), "listening");
    let family = server_of(*server).unwrap();
    assert_eq!(family.pids, [pump.pid()]);
    let remote = "10.213.78.9:7077".parse().unwrap();
    assert_eq!(server_of(remote), Err(NotSeen::Remote { address: remote }));

    let mut stream = TcpStream::connect(server).unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while stream.read(&mut bytes).is_ok_and(|length| length > 0) {}
    });
    sleep(Duration::from_millis(300));
    let sampler = Sampler::start(Setup {
        zero_ns: monotonic_ns(),
        tick: Duration::from_millis(50),
        client: Some(family_of_self()),
        server: Some(family),
        // The name at this end: the sampler finds the other.
        interface: Some(here.clone()),
        port: Some(server.port()),
        ..Setup::default()
    });
    let sampler = sampler.unwrap();
    let from = sampler.mark("open");
    sleep(Duration::from_millis(1_000));
    let to = sampler.mark("close");
    let telemetry = sampler.stop().summarise(from, to);
    let link = telemetry.link.unwrap();
    assert_eq!(&link.interface, there);
    assert_eq!((link.rate_bits, link.mtu), (Some(40_000_000), Some(1_500)));
    assert!(link.downlink_share.unwrap() > 0.9, "{link:#?}");
    assert!(link.uplink_share.unwrap() < 0.2, "{link:#?}");
    assert!(link.totals.tx_bytes > 3_000_000 && link.totals.rx_bytes < link.totals.tx_bytes / 10);
    let served = telemetry.server_sockets.unwrap();
    assert_eq!(served.sockets, 1);
    assert!(served.busy_share > Some(0.9), "{served:#?}");
    assert_eq!(telemetry.client_sockets.unwrap().sockets, 1);
    assert!(
        telemetry.tcp.unwrap().segments_out > 1_000 / 4,
        "the namespace's own counters"
    );
}

#[test]
fn without_the_server_in_sight_the_drivers_interface_is_swapped() {
    if !lays_links("without_the_server_in_sight_the_drivers_interface_is_swapped") {
        return;
    }
    let lab = Lab::new("swap", 79);
    let Lab {
        name, here, server, ..
    } = &lab;
    must(&format!(
        "tc qdisc add dev {here} root tbf rate 20mbit burst 64kb latency 50ms"
    ));
    let mut pump = role(&["ip", "netns", "exec", name], &format!("pump {server}"));
    assert_eq!(pump.line(), "listening");
    let mut stream = TcpStream::connect(server).unwrap();
    let sampler = Sampler::start(Setup {
        zero_ns: monotonic_ns(),
        tick: Duration::from_millis(50),
        client: Some(family_of_self()),
        interface: Some(here.clone()),
        ..Setup::default()
    });
    let sampler = sampler.unwrap();
    let from = sampler.mark("open");
    let mut bytes = vec![0; 2_000_000];
    stream.read_exact(&mut bytes).unwrap();
    let to = sampler.mark("close");
    let link = sampler.stop().summarise(from, to).link.unwrap();
    assert_eq!(&link.interface, here);
    // What came before the window opened lay in the socket's buffer, which begins with 128 KiB.
    assert!(
        link.totals.tx_bytes > 1_800_000,
        "what this end receives is the downlink: {link:#?}"
    );
    assert!(link.totals.rx_bytes < link.totals.tx_bytes / 4, "{link:#?}");
    assert!(
        link.uplink_share.is_some(),
        "the shaper here holds the way up: {link:#?}"
    );
}

#[test]
fn sockets_of_another_namespace_can_be_read() {
    if !lays_links("sockets_of_another_namespace_can_be_read") {
        return;
    }
    let lab = Lab::new("sock", 81);
    let mut pump = role(
        &["ip", "netns", "exec", &lab.name],
        &format!("pump {}", lab.server),
    );
    assert_eq!(pump.line(), "listening");
    let _held = TcpStream::connect(lab.server).unwrap();
    sleep(Duration::from_millis(50));
    let port = lab.server.port();
    assert_eq!(
        sockets::read(Side::Server, port, Some(pump.pid()))
            .unwrap()
            .len(),
        1
    );
    assert_eq!(sockets::read(Side::Server, port, None).unwrap().len(), 0);
    assert_eq!(sockets::read(Side::Client, port, None).unwrap().len(), 1);
}

#[test]
fn another_users_server_asks_for_privilege() {
    if !is_root("another_users_server_asks_for_privilege")
        || !try_to("setpriv --version >/dev/null")
    {
        return;
    }
    // The listener is root's; whoever looks is not, so a copy of this binary looks on its behalf.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let copy = format!("/tmp/wf-test-probe-look-{}", std::process::id());
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let to_remove = copy.clone();
    let _clean = AtEnd(move || drop(std::fs::remove_file(&to_remove)));
    must(&format!("chmod 755 {copy}"));
    let output = std::process::Command::new("setpriv")
        .args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            &copy,
        ])
        .args(["--exact", "looks_for_a_server", "--ignored", "--nocapture"])
        .env("WALLFINDER_PROBE_TEST_ADDRESS", address.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = NotSeen::NoPermission { address, user: 0 }.to_string();
    assert!(said.contains(&expected), "{said}");
    assert!(expected.contains("--server-pid"));
}

/// Not a test: looks for a server and says what came of it.
#[test]
#[ignore = "played by a child of another test"]
fn looks_for_a_server() {
    let Ok(address) = std::env::var("WALLFINDER_PROBE_TEST_ADDRESS") else {
        return;
    };
    match server_of(address.parse().unwrap()) {
        Ok(family) => println!("found {family:?}"),
        Err(not_seen) => println!("{not_seen}"),
    }
}
