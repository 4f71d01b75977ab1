//! Hosts that are found by name: the system's resolver asks a name server of these tests, in a
//! mount namespace where `resolv.conf` says so.

use std::net::UdpSocket;
use std::process::Command;
use std::thread;
use std::time::Instant;

use wallfinder_tests::{Double, Place, Ran, json_at, program, skip, together};

/// What the name server answers to a question for an IPv4 address.
#[derive(Clone, Copy)]
enum Names {
    /// The loopback address.
    Loopback,
    /// That there is no such name.
    Nothing,
    /// Nothing at all.
    Silence,
}

/// A name server of its own for each test, on a loopback address that nobody else uses. It ends with
/// the test's process.
fn name_server(address: &str, names: Names) -> bool {
    let Ok(socket) = UdpSocket::bind((address, 53)) else {
        return false;
    };
    thread::spawn(move || {
        let mut packet = [0; 512];
        while let Ok((length, asker)) = socket.recv_from(&mut packet) {
            if let Some(answer) = answer(&packet[..length], names) {
                socket.send_to(&answer, asker).expect("an answer is sent");
            }
        }
    });
    true
}

/// RFC 1035, 4.1: a head of 12 bytes, the question as it was asked, at most one address.
fn answer(question: &[u8], names: Names) -> Option<Vec<u8>> {
    const HEAD: usize = 12;
    let labels_end = HEAD + question[HEAD..].iter().position(|byte| *byte == 0)?;
    let question_end = labels_end + 5;
    let asks_for_ipv4 = question.get(labels_end + 1..labels_end + 3)? == [0, 1];
    let (code, answers) = match names {
        Names::Loopback => (0, u8::from(asks_for_ipv4)),
        Names::Nothing => (3, 0),
        Names::Silence => return None,
    };
    let mut answer = question[..2].to_vec();
    answer.extend([0x81, 0x80 | code, 0, 1, 0, answers, 0, 0, 0, 0]);
    answer.extend(&question[HEAD..question_end]);
    if answers == 1 {
        // The name stands at byte 12; an address of the Internet, good for a minute.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }
    Some(answer)
}

/// `run URL` where names come from that server; none where this machine cannot stage it.
fn run_where(place: &Place, server: &str, names: Names, url: &str) -> Option<Ran> {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || program("unshare").is_none() {
        skip("it needs root and unshare");
        return None;
    }
    if !name_server(server, names) {
        skip("nobody may listen at port 53 here");
        return None;
    }
    let conf = place.file(
        "resolv.conf",
        format!("nameserver {server}\noptions timeout:30 attempts:2\n"),
    );
    let order = place.file("nsswitch.conf", "hosts: files dns\n");
    let stage = format!(
        "mount --bind {} /etc/resolv.conf && touch /etc/nsswitch.conf \
         && mount --bind {} /etc/nsswitch.conf && exec \"$@\"",
        conf.display(),
        order.display()
    );
    let wrapper = [
        "unshare",
        "-m",
        "--propagation",
        "private",
        "sh",
        "-c",
        &stage,
        "sh",
    ];
    let staged = Command::new(wrapper[0])
        .args(&wrapper[1..])
        .arg("true")
        .status();
    if !staged.is_ok_and(|status| status.success()) {
        skip("this machine gives no mount namespaces");
        return None;
    }
    let load = [
        "-c",
        "2",
        "-d",
        "300ms",
        "--warmup",
        "0s",
        "--no-calibrate",
        "-q",
    ];
    let args = [&["run", url], &load[..]].concat();
    let limit = std::time::Duration::from_secs(60);
    Some(place.start_as(&wrapper, &args).wait(limit))
}

#[test]
fn a_name_that_leads_here_is_loaded_by_its_name() {
    let _turn = together();
    let (place, double) = (Place::new(), Double::plain());
    let port = double.url("/").rsplit(':').next().map(str::to_owned);
    let url = format!("http://bench.example:{}", port.expect("a port"));
    let Some(ran) = run_where(&place, "127.83.1.1", Names::Loopback, &url) else {
        return;
    };
    ran.ends_with(0);
    let record = place.record();
    assert_eq!(json_at(&record, "/steps/0/target/host"), "bench.example");
    assert!(double.requests() > 0);
    assert!(json_at(&record, "/steps/0/counts/answered").as_u64() > Some(0));
}

#[test]
fn a_name_that_is_none_ends_with_1_at_once() {
    let _turn = together();
    let place = Place::new();
    let url = "http://nobody.example:8083/";
    let Some(ran) = run_where(&place, "127.83.1.2", Names::Nothing, url) else {
        return;
    };
    let ran = ran.ends_with(1);
    let expected = "`nobody.example` has no address (net.name)";
    assert!(ran.err.contains(expected), "{}", ran.err);
    assert!(ran.out.is_empty(), "{}", ran.out);
}

#[test]
fn a_name_service_that_is_silent_is_given_up_and_named() {
    let _turn = together();
    let place = Place::new();
    let began = Instant::now();
    let url = "http://slow.example:8083/";
    let Some(ran) = run_where(&place, "127.83.1.3", Names::Silence, url) else {
        return;
    };
    let ran = ran.ends_with(1);
    assert!(ran.err.contains("net.name_slow"), "{}", ran.err);
    assert!(ran.err.contains("`slow.example`"), "{}", ran.err);
    // The resolver itself would have tried for a minute.
    assert!(began.elapsed().as_secs() < 40, "{:?}", began.elapsed());
}
