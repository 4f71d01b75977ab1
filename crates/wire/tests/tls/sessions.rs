//! Connections as they should go.

use wallfinder_wire::tls::{Handshakes, Version};
use wallfinder_wire::{Outcome, Wire};

use crate::authority::Authority;
use crate::peer::{ANSWER, Pair, server, shared};

fn statuses(pair: &Pair) -> Vec<u16> {
    let status = |outcome: &Outcome| match outcome {
        Outcome::Answered(answer) => answer.status,
        other => panic!("{other:?}"),
    };
    pair.outcomes.iter().map(status).collect()
}

#[test]
fn requests_are_answered_at_every_split_in_both_versions() {
    let authority = Authority::new();
    let config = server(&authority.signs("server.test"), None);
    for version in [Version::Tls12, Version::Tls13] {
        for split in [1, 2, 3, 5, 7, 64, 1_000, 100_000] {
            let mut options = authority.believer("server.test");
            options.version = Some(version);
            let mut shared = shared(&options, 3);
            let mut pair = Pair::new(&shared, &config, split);
            assert_eq!(pair.wire.room(&shared), 0, "not before the handshake");
            pair.settle(&mut shared);
            assert!(pair.wire.is_ready());
            assert_eq!(pair.wire.room(&shared), 3);
            for _ in 0..3 {
                pair.wire.issue(&shared);
            }
            pair.settle(&mut shared);
            let requests = pair.asked.windows(4).filter(|w| w == b"\r\n\r\n").count();
            assert_eq!(requests, 3, "{version:?}, {split}");
            // All three in one record, then in many.
            pair.answers(&mut shared, &[&ANSWER.repeat(3)]);
            assert_eq!(statuses(&pair), [200; 3], "{version:?}, {split}");
            for _ in 0..3 {
                pair.wire.issue(&shared);
            }
            pair.settle(&mut shared);
            let all = ANSWER.repeat(3);
            let parts: Vec<&[u8]> = all.chunks(7).collect();
            pair.answers(&mut shared, &parts);
            assert_eq!(statuses(&pair), [200; 6], "{version:?}, {split}");
            assert_eq!(shared.fault(), None);
        }
    }
}

#[test]
fn long_bodies_both_ways_are_cut_into_records() {
    let authority = Authority::new();
    let config = server(&authority.signs("server.test"), None);
    let mut shared = shared(&authority.believer("server.test"), 100);
    let mut pair = Pair::settled(&mut shared, &config, 4_000);
    for _ in 0..100 {
        pair.wire.issue(&shared);
    }
    pair.settle(&mut shared);
    let mut answers = Vec::new();
    for _ in 0..100 {
        answers.extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n");
        answers.extend_from_slice(&[b'x'; 50_000]);
    }
    for part in answers.chunks(60_000) {
        pair.answers(&mut shared, &[part]);
    }
    assert_eq!(statuses(&pair), [200; 100]);
}

#[test]
fn what_was_agreed_on_is_resumed_unless_it_should_not_be() {
    let authority = Authority::new();
    let config = server(&authority.signs("server.test"), None);
    for (resumes, resumed) in [(true, 3), (false, 0)] {
        let mut options = authority.believer("server.test");
        options.resumes = resumes;
        let mut shared = shared(&options, 1);
        for _ in 0..4 {
            let mut pair = Pair::settled(&mut shared, &config, 1_000);
            pair.wire.issue(&shared);
            pair.settle(&mut shared);
            pair.answers(&mut shared, &[ANSWER]);
            assert_eq!(statuses(&pair), [200]);
        }
        let full = 4 - resumed;
        assert_eq!(shared.handshakes(), Handshakes { full, resumed });
    }
}

/// Each uses a ticket up, and brings the next ones only once it is open.
#[test]
fn many_connections_that_begin_at_once_are_resumed() {
    const AT_ONCE: usize = 30;
    let authority = Authority::new();
    let config = server(&authority.signs("server.test"), None);
    let mut shared = shared(&authority.believer("server.test"), 1);
    for _ in 0..AT_ONCE {
        Pair::settled(&mut shared, &config, 1_000);
    }
    let before = shared.handshakes();
    let mut pairs: Vec<Pair> = (0..AT_ONCE)
        .map(|_| Pair::new(&shared, &config, 1_000))
        .collect();
    for pair in &mut pairs {
        pair.sends(&shared);
    }
    for pair in &mut pairs {
        pair.settle(&mut shared);
    }
    let after = shared.handshakes();
    assert_eq!(after.resumed - before.resumed, AT_ONCE as u64);
}

#[test]
fn a_connection_that_is_reset_begins_anew() {
    let authority = Authority::new();
    let config = server(&authority.signs("server.test"), None);
    let mut shared = shared(&authority.believer("server.test"), 1);
    let mut pair = Pair::settled(&mut shared, &config, 100);
    pair.wire.issue(&shared);
    pair.sends(&shared);
    let mut wire = pair.wire;
    wire.reset(&shared);
    assert!(!wire.is_ready());
    let mut pair = Pair {
        wire,
        ..Pair::new(&shared, &config, 100)
    };
    pair.settle(&mut shared);
    pair.wire.issue(&shared);
    pair.settle(&mut shared);
    pair.answers(&mut shared, &[ANSWER]);
    assert_eq!(statuses(&pair), [200]);
}

#[test]
fn groups_are_those_that_were_asked_for() {
    let authority = Authority::new();
    let config = server(&authority.signs("server.test"), None);
    for (name, shown) in [("secp384r1", "secp384r1"), ("x25519", "X25519")] {
        let mut options = authority.believer("server.test");
        options.groups = vec![name.to_owned()];
        let mut shared = shared(&options, 1);
        let pair = Pair::settled(&mut shared, &config, 1_000);
        let group = pair.server.negotiated_key_exchange_group().unwrap();
        assert_eq!(format!("{:?}", group.name()), shown);
    }
}
