//! A server under TLS: what it says before any handshake comes to the same at every split, and what it
//! says in records comes to what the wire inside makes of it in the clear. A bit that somebody changed on
//! the way brings no answer that was not given.
//!
//! ```text
//!   byte   0     1         2     3…4          5…6      7        8…
//!          mode  requests  max   split (u16)  record   (free)   what the peer says
//! ```
//!
//! Keys are drawn anew for each connection, so an input does not always take the same way.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use wallfinder_wire::framed::{self, InTurn};
use wallfinder_wire::tls::{Client, Double, Identity, Options, Shared, Tls, Trust, Version};
use wallfinder_wire::{Outcome, Transmit, Wire};

#[path = "../../crates/wire/tests/framed/peer.rs"]
#[allow(dead_code)]
mod peer;

type Secured = Tls<InTurn>;

fuzz_target!(|data: &[u8]| {
    let Some((start, script)) = data.split_first_chunk::<8>() else {
        return;
    };
    let number = |n: usize| usize::from(u16::from_le_bytes([start[n], start[n + 1]]));
    let ends = &ends()[usize::from(start[0] & 1)];
    let requests = 1 + u32::from(start[1] % 16);
    let framing = format!("u32be,max={}", 8 + u32::from(start[2]));
    let split = 1 + number(3) % 512;
    let secure = || {
        let inner = peer::shared(&framing, b"ping", requests);
        Shared::new(inner, &ends.client, 0)
    };

    if start[0] & 2 != 0 {
        let [whole, pieces] = [usize::MAX, split].map(|split| {
            let mut shared = secure();
            let mut wire = Secured::open(&shared);
            assert!(!flushed(&mut wire, &shared).is_empty(), "no greeting");
            played(&mut wire, &mut shared, script, split, true)
        });
        assert_eq!(whole, pieces);
        return;
    }

    let mut clear = peer::shared(&framing, b"ping", requests);
    let mut wire = InTurn::open(&clear);
    peer::issue(&mut wire, &clear, requests);
    let expected = played(&mut wire, &mut clear, script, usize::MAX, true);

    let mut shared = secure();
    let mut wire = Secured::open(&shared);
    let mut session = ends.double.begin();
    let mut asked = Vec::new();
    loop {
        let sent = flushed(&mut wire, &shared);
        if sent.is_empty() {
            break;
        }
        session.read(&sent, &mut asked).expect("an honest client");
        let mut records = Vec::new();
        session.collect(&mut records);
        let outcomes = played(&mut wire, &mut shared, &records, split, false);
        assert_eq!(outcomes, []);
    }
    assert!(wire.is_ready(), "{:?}", shared.fault());
    for _ in 0..requests {
        wire.issue(&shared);
    }
    let sent = flushed(&mut wire, &shared);
    session.read(&sent, &mut asked).expect("an honest client");
    assert_eq!(asked, b"\0\0\0\x04ping".repeat(requests as usize));

    let mut records = Vec::new();
    for part in script.chunks(1 + number(5) % 4096) {
        assert_eq!(session.write(part), part.len());
        session.collect(&mut records);
    }
    if start[0] & 4 == 0 || records.is_empty() {
        let outcomes = played(&mut wire, &mut shared, &records, split, true);
        assert_eq!(outcomes, expected, "{:?}", shared.fault());
        return;
    }
    let at = (number(3) * 256 + number(5)) % records.len();
    records[at] ^= 1 << (start[0] >> 5);
    let outcomes = played(&mut wire, &mut shared, &records, split, true);
    // Of a record's head not every bit means something; and where one is longer now, its end never comes.
    if outcomes != expected {
        let is_answer = |outcome: &&Outcome| matches!(outcome, Outcome::Answered(_));
        let answers = outcomes.iter().take_while(is_answer).count();
        assert!(outcomes.len() <= answers + 1, "{outcomes:?}");
        assert!(expected.starts_with(&outcomes[..answers]), "{outcomes:?}");
    }
});

/// Both ends of one version.
struct Ends {
    client: Client,
    double: Double,
}

fn ends() -> &'static [Ends; 2] {
    static ENDS: OnceLock<[Ends; 2]> = OnceLock::new();
    ENDS.get_or_init(|| {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["server.test".to_owned()]).expect("a certificate");
        let identity = Identity {
            chain: vec![cert.der().to_vec()],
            key: signing_key.serialize_der(),
        };
        [Version::Tls12, Version::Tls13].map(|version| {
            let options = Options {
                name: "server.test".into(),
                alpn: Vec::new(),
                trust: Trust::Anybody,
                identity: None,
                groups: Vec::new(),
                version: Some(version),
                resumes: false,
            };
            let client = Client::new(&options).expect("these options are good ones");
            let double = Double::new(&client, identity.clone()).expect("so is the certificate");
            Ends { client, double }
        })
    })
}

/// What the connection has to send.
fn flushed(wire: &mut Secured, shared: &Shared<framed::Shared>) -> Vec<u8> {
    let mut sent = Vec::new();
    let mut room = vec![0; shared.write_bytes()];
    while wire.poll_transmit(shared) == Transmit::Own {
        let count = wire.write(shared, &mut room);
        if count == 0 {
            break;
        }
        sent.extend_from_slice(&room[..count]);
    }
    sent
}

/// Plays bytes, so many at a time, as a worker does; until the connection is of no use, or its end.
fn played<W: Wire>(
    wire: &mut W,
    shared: &mut W::Shared,
    bytes: &[u8],
    split: usize,
    eof: bool,
) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for mut part in bytes.chunks(split) {
        while !part.is_empty() {
            let taken = wire.handle_bytes(shared, part);
            part = &part[taken..];
            let before = outcomes.len();
            while let Some(outcome) = wire.poll_outcome() {
                outcomes.push(outcome);
                if matches!(outcome, Outcome::Broken { .. }) {
                    return outcomes;
                }
            }
            assert!(taken > 0 || outcomes.len() > before, "take or tell");
        }
    }
    if eof {
        wire.handle_eof(shared);
        outcomes.extend(wire.poll_outcome());
    }
    outcomes
}
