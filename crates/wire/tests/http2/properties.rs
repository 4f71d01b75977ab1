//! Properties: any sound conversation is answered however it is cut, and no bytes at all
//! make a connection panic, hang or count twice.

use proptest::prelude::*;
use wallfinder_wire::Outcome;
use wallfinder_wire::http2::FrameKind;

use crate::peer::{
    Case, END_HEADERS, END_STREAM, PADDED, PRIORITY, data, frame, literal, numbers, play, settings,
};

/// One answer: how its frames are made, and what it should come to.
#[derive(Debug, Clone)]
struct Plan {
    block_kind: u8,
    padding: Option<u8>,
    has_priority: bool,
    fragments: usize,
    pieces: Vec<(u16, Option<u8>)>,
    has_trailers: bool,
    tells_length: bool,
    interims: u8,
}

fn plans() -> impl Strategy<Value = Plan> {
    let piece = (0..2000_u16, prop::option::of(any::<u8>()));
    (
        0..3_u8,
        prop::option::of(any::<u8>()),
        any::<bool>(),
        1..4_usize,
        prop::collection::vec(piece, 0..4),
        any::<bool>(),
        any::<bool>(),
        0..3_u8,
    )
        .prop_map(
            |(
                block_kind,
                padding,
                has_priority,
                fragments,
                pieces,
                has_trailers,
                tells_length,
                interims,
            )| Plan {
                block_kind,
                padding,
                has_priority,
                fragments,
                pieces,
                has_trailers,
                tells_length,
                interims,
            },
        )
}

impl Plan {
    fn body_bytes(&self) -> u64 {
        self.pieces.iter().map(|(bytes, _)| u64::from(*bytes)).sum()
    }

    /// Its frames; those of one header block stand together.
    fn frames(&self, stream: u32) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for _ in 0..self.interims {
            frames.push(self.block(stream, b"\x08\x03103", 0));
        }
        let mut block = vec![0x88];
        match self.block_kind {
            0 => block.extend(literal("x-server", "other")),
            // Inserts; as often as it comes.
            1 => block.extend(b"\x40\x08x-server\x06mirror"),
            _ => {}
        }
        if self.tells_length {
            block.extend(literal("content-length", &self.body_bytes().to_string()));
        }
        let has_body = !self.pieces.is_empty() || self.has_trailers;
        frames.push(self.block(stream, &block, if has_body { 0 } else { END_STREAM }));
        for (index, (bytes, padding)) in self.pieces.iter().enumerate() {
            let is_last = index + 1 == self.pieces.len() && !self.has_trailers;
            let flags = if is_last { END_STREAM } else { 0 };
            let body = vec![b'b'; usize::from(*bytes)];
            frames.push(match padding {
                None => data(flags, stream, &body),
                Some(padding) => {
                    let padded = pad(*padding, &body);
                    frame(FrameKind::DATA, flags | PADDED, stream, &padded)
                }
            });
        }
        if self.has_trailers {
            frames.push(self.block(stream, &literal("x-sum", "1"), END_STREAM));
        }
        frames
    }

    fn block(&self, stream: u32, block: &[u8], flags: u8) -> Vec<u8> {
        let parts: Vec<&[u8]> = block.chunks(block.len().div_ceil(self.fragments)).collect();
        let mut bytes = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let ends = if index + 1 == parts.len() {
                END_HEADERS
            } else {
                0
            };
            if index > 0 {
                bytes.extend(frame(FrameKind::CONTINUATION, ends, stream, part));
                continue;
            }
            let (mut payload, mut flags) = (Vec::new(), flags | ends);
            if self.has_priority {
                flags |= PRIORITY;
                payload.extend([0; 5]);
            }
            payload.extend(*part);
            if let Some(padding) = self.padding {
                flags |= PADDED;
                payload = pad(padding, &payload);
            }
            bytes.extend(frame(FrameKind::HEADERS, flags, stream, &payload));
        }
        bytes
    }
}

fn pad(padding: u8, payload: &[u8]) -> Vec<u8> {
    let mut padded = vec![padding];
    padded.extend(payload);
    padded.extend(vec![0; usize::from(padding)]);
    padded
}

/// Frames that mean nothing to an answer.
fn noise(kind: u8) -> Vec<u8> {
    match kind {
        0 => frame(FrameKind::PING, 0, 0, b"12345678"),
        1 => settings(&[(0x77, 1)]),
        2 => numbers(FrameKind::WINDOW_UPDATE, 0, &[7]),
        3 => frame(FrameKind::PRIORITY, 0, 1, &[0; 5]),
        _ => frame(FrameKind(0x40), 0xff, 3, b"unknown"),
    }
}

proptest! {
    #[test]
    fn sound_answers_are_counted_however_they_are_interleaved_and_cut(
        plans in prop::collection::vec(plans(), 1..6),
        order in prop::collection::vec((any::<prop::sample::Index>(), 0..20_u8), 0..80),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut left: Vec<_> = plans
            .iter()
            .enumerate()
            .map(|(index, plan)| plan.frames(2 * index as u32 + 1).into_iter())
            .collect();
        let mut script = Vec::new();
        for (stream, kind) in order {
            script.extend(left[stream.index(plans.len())].next().unwrap_or_default());
            if kind < 5 {
                script.extend(noise(kind));
            }
        }
        script.extend(left.into_iter().flatten().flatten());

        let case = Case::at_once(plans.len() as u32);
        let whole = play(&case, [script.as_slice()], true);
        let mut bodies = vec![None; plans.len()];
        for outcome in &whole.outcomes {
            let Outcome::Answered(answer) = outcome else {
                panic!("{outcome:?}: {:?}", whole.fault);
            };
            prop_assert_eq!(answer.status, 200);
            let before = bodies[answer.slot as usize].replace(answer.body_bytes);
            prop_assert_eq!(before, None, "answered twice");
        }
        let expected: Vec<_> = plans.iter().map(|plan| Some(plan.body_bytes())).collect();
        prop_assert_eq!(bodies, expected);

        let cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(script.len() + 1)).collect();
        let cut = play(&case, pieces(&script, cuts), true);
        prop_assert_eq!(cut, whole);
    }

    /// Frames with any header and payload, and bits of sound ones.
    #[test]
    fn any_frames_mean_the_same_however_they_are_cut(
        frames in prop::collection::vec(
            (0..12_u8, any::<u8>(), 0..8_u32, prop::collection::vec(any::<u8>(), 0..30), 0..3_u8),
            0..30,
        ),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        eof in any::<bool>(),
    ) {
        let mut script = Vec::new();
        for (kind, flags, stream, payload, sound) in frames {
            script.extend(match sound {
                0 => frame(FrameKind(kind), flags, stream, &payload),
                1 => frame(FrameKind::HEADERS, flags | END_HEADERS, stream | 1, b"\x88"),
                _ => data(flags & END_STREAM, stream | 1, &payload),
            });
        }
        let mut case = Case::at_once(3);
        case.requests = 6;
        let whole = play(&case, [script.as_slice()], eof);
        let single = play(&case, script.chunks(1), eof);
        prop_assert_eq!(&single, &whole);
        let cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(script.len() + 1)).collect();
        let cut = play(&case, pieces(&script, cuts), eof);
        prop_assert_eq!(&cut, &whole);
    }
}

fn pieces(bytes: &[u8], mut cuts: Vec<usize>) -> Vec<&[u8]> {
    cuts.push(bytes.len());
    cuts.sort_unstable();
    let mut from = 0;
    let mut pieces = Vec::new();
    for to in cuts {
        pieces.push(&bytes[from..to]);
        from = to;
    }
    pieces
}
