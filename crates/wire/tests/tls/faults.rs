//! FAULTS.md rows 32 to 34.

use wallfinder_wire::tls::Version;
use wallfinder_wire::{Outcome, Wire, WireError};

use crate::authority::Authority;
use crate::peer::{ANSWER, Pair, server, shared};

fn broken(outcome: &Outcome) -> WireError {
    match outcome {
        Outcome::Broken { error, .. } => *error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn row_32_garbage_an_alert_and_an_end_in_the_handshake_are_told() {
    let authority = Authority::new();
    let config = server(&authority.signs("server.test"), None);
    let alert = [21, 3, 3, 0, 2, 2, 40];
    for said in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        &alert,
        &[0; 40],
        &[22, 3, 3, 255, 255],
    ] {
        for split in [1, 3, 1_000] {
            let mut shared = shared(&authority.believer("server.test"), 1);
            let mut pair = Pair::new(&shared, &config, split);
            pair.sends(&shared);
            pair.takes(&mut shared, said);
            let [outcome] = pair.outcomes.as_slice() else {
                panic!("{said:?}: {:?}", pair.outcomes);
            };
            assert_eq!(broken(outcome), WireError::TlsHandshake, "{said:?}");
            assert!(shared.fault().is_some());
            assert_eq!(pair.wire.room(&shared), 0);
        }
    }
    let mut shared = shared(&authority.believer("server.test"), 1);
    let mut pair = Pair::new(&shared, &config, 1);
    pair.sends(&shared);
    pair.wire.handle_eof(&mut shared);
    let outcome = pair.wire.poll_outcome().unwrap();
    assert_eq!(broken(&outcome), WireError::TlsHandshake);
}

#[test]
fn row_32_a_certificate_that_is_not_good_breaks_the_handshake_and_the_peer_is_told() {
    let (authority, other) = (Authority::new(), Authority::new());
    let config = server(&other.signs("server.test"), None);
    let mut shared = shared(&authority.believer("server.test"), 1);
    let mut pair = Pair::settled(&mut shared, &config, 1_000);
    assert_eq!(broken(&pair.outcomes[0]), WireError::TlsHandshake);
    let fault = shared.fault().unwrap();
    assert!(fault.contains("UnknownIssuer"), "{fault}");
    // The alert went out: the server has heard of it.
    assert!(pair.server.process_new_packets().is_err());
}

#[test]
fn row_32_records_that_do_not_decrypt_break_the_connection() {
    let authority = Authority::new();
    let config = server(&authority.signs("server.test"), None);
    let mut shared = shared(&authority.believer("server.test"), 2);
    let mut pair = Pair::settled(&mut shared, &config, 1_000);
    pair.wire.issue(&shared);
    pair.sends(&shared);
    let mut record = vec![23, 3, 3, 0, 40];
    record.extend_from_slice(&[7; 40]);
    pair.takes(&mut shared, &record);
    assert_eq!(broken(&pair.outcomes[0]), WireError::TlsRecord);
}

#[test]
fn row_33_an_answer_that_ends_with_the_stream_needs_a_word_that_it_ended() {
    let authority = Authority::new();
    let config = server(&authority.signs("server.test"), None);
    for says_so in [true, false] {
        let mut shared = shared(&authority.believer("server.test"), 1);
        let mut pair = Pair::settled(&mut shared, &config, 11);
        let slot = pair.wire.issue(&shared);
        pair.settle(&mut shared);
        pair.answers(
            &mut shared,
            &[b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"],
        );
        if says_so {
            pair.server.send_close_notify();
            pair.settle(&mut shared);
        }
        assert_eq!(pair.outcomes, []);
        pair.wire.handle_eof(&mut shared);
        match (says_so, pair.wire.poll_outcome().unwrap()) {
            (true, Outcome::Answered(answer)) => assert_eq!(answer.body_bytes, 5),
            (false, outcome) => {
                let error = WireError::TlsTruncated;
                assert_eq!(
                    outcome,
                    Outcome::Broken {
                        slot: Some(slot),
                        error
                    }
                );
            }
            (_, other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn row_34_a_flood_of_key_updates_is_bounded() {
    let authority = Authority::new();
    let config = server(&authority.signs("server.test"), None);
    let mut shared = shared(&authority.believer("server.test"), 1);
    let mut pair = Pair::settled(&mut shared, &config, 1_000);
    for _ in 0..1_000 {
        if pair.server.refresh_traffic_keys().is_err() {
            break;
        }
        pair.receives(&mut shared);
        if !pair.outcomes.is_empty() {
            break;
        }
    }
    assert_eq!(broken(&pair.outcomes[0]), WireError::TlsRecord);
}

#[test]
fn row_34_a_giant_chain_is_bounded() {
    let authority = Authority::new();
    let mut identity = authority.signs("server.test");
    let filler = authority.signs(&format!("{}.test", "x".repeat(60))).chain[0].clone();
    identity.chain.extend(vec![filler; 500]);
    let config = server(&identity, None);
    let mut shared = shared(&authority.believer("server.test"), 1);
    let pair = Pair::settled(&mut shared, &config, 4_000);
    assert_eq!(broken(&pair.outcomes[0]), WireError::TlsHandshake);
}

#[test]
fn row_34_a_flood_of_tickets_costs_nothing_but_their_bytes() {
    let authority = Authority::new();
    let mut config = (*server(&authority.signs("server.test"), None)).clone();
    config.send_tls13_tickets = 2_000;
    let config = std::sync::Arc::new(config);
    let mut shared = shared(&authority.believer("server.test"), 1);
    let mut pair = Pair::settled(&mut shared, &config, 1_000);
    pair.wire.issue(&shared);
    pair.settle(&mut shared);
    pair.answers(&mut shared, &[ANSWER]);
    assert!(matches!(pair.outcomes[..], [Outcome::Answered(_)]));
}

#[test]
fn row_32_whatever_byte_of_a_handshake_is_flipped_it_ends_and_nothing_panics() {
    let authority = Authority::new();
    let config = server(&authority.signs("server.test"), None);
    for version in [Version::Tls12, Version::Tls13] {
        let mut options = authority.believer("server.test");
        options.version = Some(version);
        for at in 0..2_000 {
            let mut shared = shared(&options, 1);
            let mut pair = Pair::new(&shared, &config, 1 + at % 97);
            pair.sends(&shared);
            let mut flight = Vec::new();
            while pair.server.wants_write() {
                pair.server.write_tls(&mut flight).unwrap();
            }
            let Some(byte) = flight.get_mut(at) else {
                assert!(at > 400, "the flight has {} bytes", flight.len());
                break;
            };
            *byte ^= 0x41;
            pair.takes(&mut shared, &flight);
            pair.settle(&mut shared);
            // A length that grew waits for more bytes, until a deadline or the end.
            let waits = pair.outcomes.is_empty();
            if waits {
                pair.wire.handle_eof(&mut shared);
                pair.outcomes.extend(pair.wire.poll_outcome());
            }
            for outcome in &pair.outcomes {
                broken(outcome);
            }
        }
    }
}
