//! The lab's hosts and link, and rates of interfaces that stand.

mod helper;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use helper::steps::{Steps, no_privilege, things_of};
use helper::{one_of_three, shim, wait_until};
use wallfinder_sys::namespace::{enter_netns, netns_id};
use wallfinder_testbed::driver::{DriveOptions, Driver, DriverSpec};
use wallfinder_testbed::lab::{Direction, Lab, standing};
use wallfinder_testbed::tune::{Interface, Tuning};

fn sh(command: &str) -> String {
    let out = Command::new("sh")
        .args(["-c", command])
        .output()
        .expect("sh");
    assert!(out.status.success(), "{command}: {out:?}");
    String::from_utf8(out.stdout).expect("text")
}

/// A namespace of the test's own, as somebody else would have one.
struct Foreign {
    name: String,
}

impl Foreign {
    fn new(name: &str) -> Foreign {
        let name = format!("{name}-{}", std::process::id());
        sh(&format!(
            "ip netns add {name} && ip -n {name} link add d0 type veth peer name d1 && ip -n {name} link set d0 up"
        ));
        Foreign { name }
    }

    fn tc(&self, words: &str) -> String {
        sh(&format!("tc -n {} {words}", self.name))
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        sh(&format!("ip netns delete {}", self.name));
    }
}

/// Bits per second of one bulk transfer from server to client, after its first part.
fn transfer(lab: &Lab, seconds: f64) -> f64 {
    let address = (lab.server_address(), 9000);
    std::thread::scope(|scope| {
        let (ready, is_ready) = std::sync::mpsc::channel();
        scope.spawn(move || {
            enter_netns(lab.server_netns()).expect("the server's host");
            let listener = TcpListener::bind(address).expect("its address");
            ready.send(()).expect("a client");
            let (mut stream, _) = listener.accept().expect("a client");
            while stream.write_all(&[0; 16 << 10]).is_ok() {}
        });
        let client = scope.spawn(move || {
            enter_netns(lab.client_netns()).expect("the client's host");
            is_ready.recv().expect("a server");
            let mut stream = TcpStream::connect(address).expect("a way");
            let mut buffer = vec![0; 64 << 10];
            let mut read_for = |seconds: f64| {
                let (begin, mut bytes) = (Instant::now(), 0);
                while begin.elapsed().as_secs_f64() < seconds {
                    bytes += stream.read(&mut buffer).expect("more");
                }
                bytes as f64 * 8.0 / begin.elapsed().as_secs_f64()
            };
            read_for(seconds / 3.0);
            read_for(seconds)
        });
        client.join().expect("a rate")
    })
}

#[test]
fn a_link_keeps_its_rate_and_a_squeezed_one_its_share() {
    if no_privilege() {
        return;
    }
    let mut lab = Lab::lay("20mbit,mtu=1500,up=5mbit".parse().unwrap(), None, &shim()).unwrap();
    let here = netns_id(None).unwrap();
    assert_ne!(netns_id(Some(lab.server_netns())).unwrap(), here);
    assert_ne!(netns_id(Some(lab.client_netns())).unwrap(), here);
    let mut down = lab.take_shaper(Direction::Down).unwrap();
    assert!(
        lab.take_shaper(Direction::Down).is_none(),
        "handed out once"
    );
    for share in [1.0, 0.5] {
        down.set_share(share).unwrap();
        assert_eq!(down.bits().unwrap() as f64, 20e6 * share);
        let before = down.stats().unwrap();
        one_of_three(|| {
            let rate = transfer(&lab, 0.9) / (20e6 * share);
            println!("{rate:.3} of the rate at a share of {share}");
            // Headers of 66 bytes in packets of 1514, and what the bucket held.
            (0.90..1.04).contains(&rate)
        });
        let after = down.stats().unwrap();
        assert!(after.overlimits > before.overlimits && after.bytes > before.bytes);
    }
    let paths = [lab.server_netns().to_owned(), lab.client_netns().to_owned()];
    drop(down);
    lab.remove().unwrap();
    assert!(paths.iter().all(|path| !path.exists()), "left: {paths:?}");
}

#[test]
fn a_driver_is_in_the_network_of_the_thread_that_starts_it() {
    if no_privilege() {
        return;
    }
    let lab = Lab::lay("20mbit".parse().unwrap(), None, &shim()).unwrap();
    let seen = || {
        let spec = DriverSpec::parse("sh -c 'readlink /proc/self/ns/net >&2' {url}").unwrap();
        let mut options = DriveOptions::new("http://127.0.0.1:9/", &spec);
        options.shim = shim();
        let driver = Driver::start(&spec, options).unwrap();
        driver.wait().stderr.trim().to_owned()
    };
    let named = |path: Option<&Path>| format!("net:[{}]", netns_id(path).unwrap());
    let of_client = std::thread::scope(|scope| {
        // Whoever starts children has done so before.
        assert_eq!(seen(), named(None));
        let there = scope.spawn(|| {
            enter_netns(lab.client_netns()).unwrap();
            seen()
        });
        there.join().unwrap()
    });
    assert_eq!(of_client, named(Some(lab.client_netns())));
    assert_eq!(seen(), named(None));
}

/// A server on the lab's host that gives back what each connection sends, until the closure,
/// which runs on the client's host, has returned.
fn with_echo<T: Send>(lab: &Lab, act: impl FnOnce(SocketAddr) -> T + Send) -> T {
    let address = SocketAddr::new(lab.server_address(), 9000);
    std::thread::scope(|scope| {
        let (ready, is_ready) = std::sync::mpsc::channel();
        scope.spawn(move || {
            enter_netns(lab.server_netns()).expect("the server's host");
            let listener = TcpListener::bind(address).expect("its address");
            ready.send(()).expect("a client");
            loop {
                let (mut stream, _) = listener.accept().expect("a client");
                stream.set_nodelay(true).expect("a socket");
                // The end is a connection that says so.
                let mut first = [0];
                if stream.read_exact(&mut first).is_err() || first == [b'!'] {
                    return;
                }
                scope.spawn(move || {
                    let mut way_back = stream.try_clone().expect("a descriptor");
                    let _ = std::io::copy(&mut stream, &mut way_back);
                    let _ = way_back.shutdown(std::net::Shutdown::Write);
                });
            }
        });
        let client = scope.spawn(move || {
            enter_netns(lab.client_netns()).expect("the client's host");
            is_ready.recv().expect("a server");
            let done = act(address);
            let last = TcpStream::connect(address).expect("a way");
            (&last).write_all(b"!").expect("it listens");
            done
        });
        client.join().expect("no panic")
    })
}

/// Milliseconds that connecting takes, and the least that a byte there and back does.
fn round_trips(address: SocketAddr) -> (f64, f64) {
    let ms = |begin: Instant| begin.elapsed().as_secs_f64() * 1e3;
    let begin = Instant::now();
    let mut stream = TcpStream::connect(address).expect("a way");
    let connected = ms(begin);
    stream.set_nodelay(true).expect("a socket");
    stream.write_all(b"?").expect("it listens");
    let rounds = (0..10).map(|_| {
        let begin = Instant::now();
        stream.write_all(b"x").expect("it listens");
        stream.read_exact(&mut [0]).expect("an echo");
        ms(begin)
    });
    (connected, rounds.fold(f64::MAX, f64::min))
}

#[test]
fn a_delay_is_added_to_each_way_and_to_nothing_else() {
    if no_privilege() {
        return;
    }
    for (spec, low, high) in [
        ("1gbit,delay=20ms", 40.0, 60.0),
        // A hundredth of it and less: what is not delayed is another matter altogether.
        ("1gbit", 0.0, 10.0),
    ] {
        let lab = Lab::lay(spec.parse().unwrap(), None, &shim()).unwrap();
        one_of_three(|| {
            let (connected, echoed) = with_echo(&lab, round_trips);
            println!("{spec}: connected in {connected:.2} ms, echoed in {echoed:.2} ms");
            assert!(connected >= low && echoed >= low, "sooner than the delay");
            connected < high && echoed < high
        });
        assert_eq!(lab.relay_watch().is_some(), low > 0.0);
        lab.remove().unwrap();
    }
}

/// Bytes that are no pattern, so that none can be missing, twice there or elsewhere.
fn noise(bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    fastrand::Rng::with_seed(1).fill(&mut noise);
    noise
}

#[test]
fn what_a_relay_passes_on_arrives_whole() {
    if no_privilege() {
        return;
    }
    let sent = noise(24 << 20);
    // Whole super-packets; and segments, with a rate that a squeeze halves.
    for spec in ["40gbit,delay=2ms", "400mbit,mtu=1500,delay=2ms"] {
        let mut lab = Lab::lay(spec.parse().unwrap(), None, &shim()).unwrap();
        let mut down = lab.take_shaper(Direction::Down).unwrap();
        let relay = lab.relay_watch().expect("a delay has a relay");
        relay.read().unwrap();
        let exchange = |address| {
            let begin = Instant::now();
            let mut stream = TcpStream::connect(address).expect("a way");
            let mut way_back = stream.try_clone().expect("a descriptor");
            std::thread::scope(|scope| {
                let sent = &sent;
                scope.spawn(move || {
                    stream.write_all(b"?").expect("it listens");
                    stream.write_all(sent).expect("it listens");
                    stream.shutdown(std::net::Shutdown::Write).expect("open");
                });
                let mut got = Vec::new();
                way_back.read_to_end(&mut got).expect("all of it");
                assert!(got == *sent, "what came back is not what was sent");
            });
            begin.elapsed().as_secs_f64()
        };
        let full_s = with_echo(&lab, exchange);
        let did = relay.read().unwrap();
        let mbits = sent.len() as f64 * 8e-6;
        println!(
            "{spec}: {:.0} Mbit/s both ways at once; {} packets of {} bytes, p99 {} us late, \
             {:.0} % of a processor, {} dropped",
            mbits / full_s,
            did.packets,
            did.bytes / did.packets,
            did.late_p99_ns / 1_000,
            100.0 * did.busy_share(),
            did.dropped
        );
        assert!(did.bytes > 2 * sent.len() as u64, "{did:?}");
        assert_eq!((did.dropped, did.delay_ns), (0, 2_000_000), "{did:?}");
        if spec.starts_with("400mbit") {
            down.set_share(0.5).unwrap();
            let half_s = with_echo(&lab, exchange);
            // Headers, and what the buckets and queues hold.
            assert!(full_s > 0.9 * mbits / 400.0 && half_s > 0.9 * mbits / 200.0);
            assert!(half_s < 2.0 * mbits / 200.0, "{half_s} s at half the rate");
        }
        drop(down);
        lab.remove().unwrap();
        assert!(relay.read().is_err(), "its relay lives on");
    }
}

/// TCP fills a rate through a shallow buffer too, and pays with what is dropped.
#[test]
fn a_shallow_buffer_drops_and_a_deep_one_does_not() {
    if no_privilege() {
        return;
    }
    for (spec, drops) in [
        ("50mbit,buffer=20000", true),
        ("50mbit,buffer=64MiB", false),
    ] {
        let mut lab = Lab::lay(spec.parse().unwrap(), None, &shim()).unwrap();
        let down = lab.take_shaper(Direction::Down).unwrap();
        let rate = transfer(&lab, 0.5) / 50e6;
        let dropped = down.stats().unwrap().drops;
        assert_eq!(dropped > 0, drops, "{spec}: {dropped} dropped");
        // What is dropped is sent again, so the rate is kept in the main.
        assert!((0.6..1.1).contains(&rate), "{spec}: {rate}");
    }
}

#[test]
fn a_client_may_be_where_it_stands() {
    if no_privilege() {
        return;
    }
    let foreign = Foreign::new("wfx-client");
    let path = Path::new("/run/netns").join(&foreign.name);
    for spec in ["100mbit", "100mbit,delay=1ms"] {
        let lab = Lab::lay(spec.parse().unwrap(), Some(&path), &shim()).unwrap();
        let rate = transfer(&lab, 0.3) / 1e8;
        assert!((0.85..1.1).contains(&rate), "{spec}: {rate}");
        drop(lab);
        let links = sh(&format!("ip -n {} -o link", foreign.name));
        assert!(links.contains("d0") && !links.contains("wflink"), "{links}");
    }
}

#[test]
fn a_rate_that_stands_is_lowered_and_put_back() {
    if no_privilege() {
        return;
    }
    let foreign = Foreign::new("wfx-rate");
    let device = format!("{}/d0", foreign.name);
    // Nothing there, and no rate known: refused. With a rate, a tbf for the time.
    let error = standing(&device, None, &shim()).unwrap_err().to_string();
    assert!(
        error.contains("refused") && error.contains("rate"),
        "{error}"
    );
    let before = foreign.tc("qdisc show dev d0");
    let mut shaper = standing(&device, Some(10_000_000), &shim()).unwrap();
    shaper.set_share(0.8).unwrap();
    assert!(foreign.tc("qdisc show dev d0").contains("rate 8Mbit"));
    drop(shaper);
    assert_eq!(foreign.tc("qdisc show dev d0"), before);

    for (set, shown) in [
        (
            "qdisc add dev d0 root handle 7: tbf rate 20mbit burst 10000 limit 1000000",
            "qdisc",
        ),
        (
            "qdisc add dev d0 root handle 1: htb default 10 && tc -n NS class add dev d0 parent 1: classid 1:10 htb rate 20mbit burst 15k",
            "class",
        ),
    ] {
        foreign.tc(&set.replace("NS", &foreign.name));
        let look = || foreign.tc(&format!("{shown} show dev d0"));
        let before = look();
        let mut shaper = standing(&device, None, &shim()).unwrap();
        assert_eq!(shaper.full_bits(), 20_000_000);
        shaper.set_share(0.5).unwrap();
        assert_eq!(shaper.bits().unwrap(), 10_000_000);
        assert_ne!(look(), before);
        shaper.restore().unwrap();
        assert_eq!(look(), before);
        foreign.tc("qdisc del dev d0 root");
    }

    foreign.tc("qdisc add dev d0 root handle 9: pfifo limit 10");
    let error = standing(&device, Some(1_000_000), &shim())
        .unwrap_err()
        .to_string();
    assert!(error.contains("pfifo"), "{error}");
    for bad in ["", "a/", "-x", "0123456789abcdef", "no-such-ns/d0"] {
        assert!(standing(bad, None, &shim()).is_err(), "{bad}");
    }
}

#[test]
fn a_process_killed_after_any_step_leaves_nothing() {
    if no_privilege() {
        return;
    }
    let foreign = Foreign::new("wfx-kill");
    foreign.tc("qdisc add dev d0 root handle 7: tbf rate 20mbit burst 10000 limit 1000000");
    let look = || foreign.tc("qdisc show dev d0");
    let before = look();
    let device = format!("standing={}/d0", foreign.name);
    let steps = ["lab=50mbit,delay=10ms", "share=0.8", &device];
    for killed_after in 1..=steps.len() {
        let mut helper = Steps::begin(&steps);
        for _ in 0..killed_after {
            helper.next();
        }
        assert!(!things_of(helper.pid()).is_empty());
        assert_eq!(look() != before, killed_after == steps.len());
        helper.kill();
        wait_until("all is undone", || things_of(helper.pid()).is_empty());
        assert_eq!(look(), before, "after {}", steps[killed_after - 1]);
    }
    // And while a step is being taken.
    for nth in 0..12 {
        let mut helper = Steps::begin(&steps);
        for _ in &steps {
            helper.go();
        }
        std::thread::sleep(Duration::from_millis(9 * nth));
        helper.kill();
        wait_until("all is undone", || things_of(helper.pid()).is_empty());
        assert_eq!(look(), before, "killed after {} ms", 9 * nth);
    }
    // The ordinary way.
    let mut helper = Steps::begin(&steps);
    for _ in &steps {
        helper.next();
    }
    let pid = helper.pid();
    helper.end();
    assert_eq!(things_of(pid), Vec::<String>::new());
    assert_eq!(look(), before);
}

#[test]
fn a_name_that_is_taken_is_left_alone() {
    if no_privilege() {
        return;
    }
    let mut helper = Steps::begin(&["lab=50mbit", "lab=50mbit"]);
    let first = helper.next().remove(0);
    // `wf-PID-START-0s`: the next lab would be 2s and 3c.
    let stem = first
        .strip_prefix("/run/netns/")
        .unwrap()
        .strip_suffix("0s")
        .unwrap();
    let taken = format!("{stem}2s");
    sh(&format!("ip netns add {taken}"));
    let second = helper.next().remove(0);
    assert_ne!(second, format!("/run/netns/{taken}"));
    let pid = helper.pid();
    helper.end();
    assert_eq!(things_of(pid), [format!("/run/netns/{taken}")]);
    sh(&format!("ip netns delete {taken}"));
}

#[test]
fn receive_work_is_steered_at_both_ends_of_a_link_of_ours_and_then_as_it_was() {
    if no_privilege() {
        return;
    }
    let lab = Lab::lay("100mbit".parse().unwrap(), None, &shim()).unwrap();
    let ends = lab.ends();
    assert_eq!(ends.len(), 2, "{ends:?}");
    let read = |end: &Interface, file: &str| {
        let netns = end.netns.as_deref().expect("a namespace of ours");
        let path = format!("/sys/class/net/{}/queues/rx-0/{file}", end.name);
        let text = sh(&format!("ip netns exec {netns} cat {path}"));
        text.trim().to_owned()
    };
    for (tuning, file, says) in [
        ("rps=0", "rps_cpus", "1"),
        ("rfs=4096", "rps_flow_cnt", "4096"),
    ] {
        let all = || -> Vec<String> { ends.iter().map(|end| read(end, file)).collect() };
        let before = all();
        let tuning: Tuning = tuning.parse().unwrap();
        let tuned = tuning.apply(&ends, &shim()).unwrap();
        for found in all() {
            let found = found.trim_start_matches(['0', ',']);
            assert_eq!(found, says, "{tuning} in force");
        }
        drop(tuned);
        assert_eq!(all(), before, "{tuning} put back");
    }
    for tuning in ["busy-poll=50", "irq-affinity=0"] {
        let tuning: Tuning = tuning.parse().unwrap();
        let why = tuning.apply(&ends, &shim()).unwrap_err().to_string();
        assert!(why.contains("not applicable"), "{why}");
    }
    lab.remove().unwrap();
}
