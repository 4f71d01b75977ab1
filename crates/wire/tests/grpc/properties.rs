//! Properties: any body, in any frames with any padding, read in any pieces, comes to what the
//! reference makes of it.

use proptest::prelude::*;
use wallfinder_wire::grpc::Kind;
use wallfinder_wire::{Outcome, WireError};

use crate::peer::play;
use crate::reference;
use crate::script::{calls, data, head, padded, prefixed, status};

const BYTES_MAX: u32 = 40;

/// Messages, most of them sound, and the end of the body cut off somewhere.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let message = (
        prop_oneof![9 => Just(0_u8), 1 => any::<u8>()],
        prop_oneof![9 => 0..=BYTES_MAX, 1 => any::<u32>()],
    )
        .prop_map(|(flag, length)| prefixed(flag, length, &vec![7; length.min(60) as usize]));
    (
        prop::collection::vec(message, 0..6),
        any::<prop::sample::Index>(),
        any::<bool>(),
    )
        .prop_map(|(messages, end, whole)| {
            let mut body = messages.concat();
            if !whole && !body.is_empty() {
                body.truncate(end.index(body.len()));
            }
            body
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_body_in_any_frames_is_what_the_reference_reads(
        body in bodies(),
        frames in prop::collection::vec((0..30_usize, prop::option::of(any::<u8>())), 1..20),
        pieces in 1..70_usize,
        code in 0..3_u8,
    ) {
        let mut script = head(1);
        let (mut rest, mut at) = (&body[..], 0);
        while !rest.is_empty() {
            let (count, padding) = frames[at % frames.len()];
            // Some of the frames are empty, and not all of them.
            let count = if at >= frames.len() { rest.len() } else { count.min(rest.len()) };
            let (piece, after) = rest.split_at(count);
            script.extend(match padding {
                Some(padding) => padded(0, 1, piece, padding),
                None => data(1, piece),
            });
            (rest, at) = (after, at + 1);
        }
        script.extend(status(1, &code.to_string()));
        let mut case = calls(Kind::Bidirectional, 1);
        if let Some(call) = &mut case.call {
            call.message_bytes_max = BYTES_MAX;
        }
        let seen = play(&case, script.chunks(pieces), false);
        prop_assert_eq!(seen.outcomes.len(), 1);
        let outcome = seen.outcomes[0];
        let Some((count, inside)) = reference::messages(&body, BYTES_MAX) else {
            prop_assert_eq!(outcome, Outcome::Failed { slot: 0, error: WireError::GrpcFrame });
            return Ok(());
        };
        match outcome {
            Outcome::Answered(answer) => {
                let call = answer.call.expect("it is a call");
                prop_assert_eq!(call.messages, count);
                prop_assert_eq!(call.error.is_some(), code > 0);
                prop_assert!(code > 0 || !inside);
                if !inside {
                    prop_assert_eq!(answer.body_bytes, body.len() as u64 - 5 * u64::from(count));
                }
            }
            Outcome::Failed { error, .. } => {
                prop_assert_eq!(error, WireError::GrpcFrame);
                prop_assert!(code == 0 && inside);
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
