//! A framed peer that says anything: no panic, and the messages of the reference decoder
//! whatever the split; with ids, each request answered once at the most.
//!
//! ```text
//!   byte   0       1         2     3        4…7            8…
//!          format  requests  max   (free)   2 cuts (u16)   what the peer says
//! ```

#![no_main]

use libfuzzer_sys::fuzz_target;
use wallfinder_wire::framed::{ById, Format, InTurn, Shared};
use wallfinder_wire::{Outcome, Wire, WireError};

#[path = "../../crates/wire/tests/framed/peer.rs"]
mod peer;
#[path = "../../crates/wire/tests/framed/reference.rs"]
mod reference;

const LENGTHS: [&str; 7] = ["u8", "u16be", "u16le", "u32be", "u32le", "u64be", "u64le"];

fuzz_target!(|data: &[u8]| {
    let Some((start, script)) = data.split_first_chunk::<8>() else {
        return;
    };
    let length = LENGTHS[usize::from(start[0]) % LENGTHS.len()];
    let inclusive = if start[0] & 128 == 0 { "" } else { ",inclusive" };
    let max = 8 + u32::from(start[2]);
    let requests = 1 + u32::from(start[1] % 16);
    let cut_at = |n: usize| usize::from(u16::from_le_bytes([start[n], start[n + 1]]));
    let pieces = cut(script, [cut_at(4), cut_at(6)]);

    let text = format!("{length}{inclusive},max={max}");
    let format: Format = text.parse().expect("sound");
    let (messages, error) = reference::reference(&format, script, requests as usize);
    let mut in_turn = peer::shared(&text, b"ping", requests);
    for pieces in [vec![script], pieces.to_vec(), script.chunks(1).collect()] {
        let seen = played::<InTurn>(&mut in_turn, requests, pieces);
        assert_eq!(seen, (messages.clone(), error));
    }

    // Grants among the answers: the split does not matter, whatever is granted.
    let mut credit = peer::shared(&format!("u32be,max={max},credit"), b"ping", requests);
    let whole = granted(&mut credit, requests, vec![script]);
    for pieces in [pieces.to_vec(), script.chunks(1).collect()] {
        assert_eq!(granted(&mut credit, requests, pieces), whole);
    }

    let text = format!("{length}{inclusive},id=u16le@1,max={max}");
    let mut by_id = peer::shared(&text, b"ping", requests);
    let whole = played::<ById>(&mut by_id, requests, vec![script]);
    assert!(whole.0.len() <= requests as usize);
    for pieces in [pieces.to_vec(), script.chunks(1).collect()] {
        assert_eq!(played::<ById>(&mut by_id, requests, pieces), whole);
    }
});

fn cut(script: &[u8], at: [usize; 2]) -> [&[u8]; 3] {
    let at = at.map(|at| at % (script.len() + 1));
    let (from, to) = (at[0].min(at[1]), at[0].max(at[1]));
    [&script[..from], &script[from..to], &script[to..]]
}

/// The same on a connection that could send all of its requests.
fn granted(shared: &mut Shared, requests: u32, pieces: Vec<&[u8]>) -> Vec<Outcome> {
    let mut wire = InTurn::open(shared);
    peer::play(&mut wire, shared, [&[0x80, 0, 0x10, 0][..]], false);
    peer::issue(&mut wire, shared, requests);
    peer::play(&mut wire, shared, pieces, true)
}

fn played<W: Wire<Shared = Shared>>(
    shared: &mut Shared,
    requests: u32,
    pieces: Vec<&[u8]>,
) -> (Vec<u64>, Option<WireError>) {
    let mut wire = W::open(shared);
    peer::issue(&mut wire, shared, requests);
    let (mut messages, mut error) = (Vec::new(), None);
    for outcome in peer::play(&mut wire, shared, pieces, true) {
        match outcome {
            Outcome::Answered(answer) => messages.push(answer.body_bytes),
            Outcome::Broken { error: broken, .. } => error = Some(broken),
            Outcome::Failed { .. } | Outcome::Over => panic!("no stream fails alone"),
        }
    }
    (messages, error)
}
