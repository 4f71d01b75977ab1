//! A scripted peer: frames in a table, played to a connection in pieces.
//!
//! What it is not: a server. It answers before it is asked, or not at all, or to nobody.
//! Requests are issued and written at the start and after each outcome, never between two
//! pieces, so that a script means the same however it is cut.

use wallfinder_wire::http2::{Anomalies, ErrorCode, Fault, FrameKind, Http2, Options, Shared};
use wallfinder_wire::{Outcome, Request, Transmit, Wire, WireError, grpc};

pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;
pub(crate) const PRIORITY: u8 = 0x20;

/// `:status: 200` in the static table.
pub(crate) const OK: &[u8] = b"\x88";

/// A frame on the wire.
pub(crate) fn frame(kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = payload.len() as u32;
    let mut bytes = len.to_be_bytes()[1..].to_vec();
    bytes.extend([kind.0, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// HEADERS that are whole.
pub(crate) fn headers(flags: u8, stream: u32, block: &[u8]) -> Vec<u8> {
    frame(FrameKind::HEADERS, flags | END_HEADERS, stream, block)
}

/// DATA without padding.
pub(crate) fn data(flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    frame(FrameKind::DATA, flags, stream, body)
}

/// A frame whose payload is numbers of 32 bits.
pub(crate) fn numbers(kind: FrameKind, stream: u32, numbers: &[u32]) -> Vec<u8> {
    let payload: Vec<u8> = numbers.iter().flat_map(|n| n.to_be_bytes()).collect();
    frame(kind, 0, stream, &payload)
}

/// SETTINGS.
pub(crate) fn settings(parameters: &[(u16, u32)]) -> Vec<u8> {
    let bytes = |(id, value): &(u16, u32)| {
        let (id, value) = (id.to_be_bytes(), value.to_be_bytes());
        [id[0], id[1], value[0], value[1], value[2], value[3]]
    };
    let payload: Vec<u8> = parameters.iter().flat_map(bytes).collect();
    frame(FrameKind::SETTINGS, 0, 0, &payload)
}

/// A field that is spelled out and not kept.
pub(crate) fn literal(name: &str, value: &str) -> Vec<u8> {
    assert!(name.len() < 127 && value.len() < 127);
    let mut bytes = vec![0, name.len() as u8];
    bytes.extend(name.bytes());
    bytes.push(value.len() as u8);
    bytes.extend(value.bytes());
    bytes
}

/// A frame that the client has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) kind: FrameKind,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Written {
    /// The first number of the payload.
    pub(crate) fn number(&self, at: usize) -> u32 {
        let bytes = self.payload[at..at + 4].try_into().expect("four bytes");
        u32::from_be_bytes(bytes)
    }
}

/// Whole frames; panics at anything else.
pub(crate) fn frames_of(mut bytes: &[u8]) -> Vec<Written> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_at(9);
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let (payload, rest) = rest.split_at(len);
        frames.push(Written {
            kind: FrameKind(head[3]),
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload: payload.to_vec(),
        });
        bytes = rest;
    }
    frames
}

/// The client's side of a script.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) method: &'static str,
    pub(crate) body: Vec<u8>,
    pub(crate) options: Options,
    /// How many requests are issued in all, each as soon as there is room.
    pub(crate) requests: u32,
    /// The peer's SETTINGS, which come before the script; `None`: the script has them.
    pub(crate) settings: Option<Vec<(u16, u32)>>,
    /// Calls of gRPC instead of requests with the method and the body.
    pub(crate) call: Option<grpc::Request>,
}

impl Default for Case {
    fn default() -> Case {
        Case {
            method: "GET",
            body: Vec::new(),
            options: Options::default(),
            requests: 1,
            settings: Some(Vec::new()),
            call: None,
        }
    }
}

impl Case {
    /// So many requests, all at once.
    pub(crate) fn at_once(requests: u32) -> Case {
        let mut case = Case {
            requests,
            ..Case::default()
        };
        case.options.in_flight_max = requests;
        case
    }

    /// One worker's part of it.
    pub(crate) fn shared(&self) -> Shared {
        if let Some(call) = &self.call {
            return grpc::shared(call, self.options.clone()).expect("the case is sound");
        }
        let request = Request::new(self.method, "127.0.0.1:8080", "/").body(self.body.clone());
        Shared::new(&request, self.options.clone()).expect("the case is sound")
    }
}

/// What a connection made of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) outcomes: Vec<Outcome>,
    /// After the greeting.
    pub(crate) written: Vec<Written>,
    pub(crate) fault: Option<Fault>,
    pub(crate) anomalies: Anomalies,
    pub(crate) in_flight: u32,
}

impl Seen {
    /// The class of the last outcome, if it is a failure.
    pub(crate) fn class(&self) -> Option<&'static str> {
        match self.outcomes.last()? {
            Outcome::Failed { error, .. } | Outcome::Broken { error, .. } => Some(error.class()),
            Outcome::Answered(_) | Outcome::Over => None,
        }
    }

    pub(crate) fn answered(&self) -> usize {
        let outcomes = self.outcomes.iter();
        outcomes
            .filter(|o| matches!(o, Outcome::Answered(_)))
            .count()
    }

    /// The code of the GOAWAY that was written last of all.
    pub(crate) fn goaway(&self) -> Option<ErrorCode> {
        let last = self.written.last()?;
        (last.kind == FrameKind::GOAWAY).then(|| ErrorCode::from_wire(last.number(4)))?
    }

    /// Streams that were reset, with their codes.
    pub(crate) fn resets(&self) -> Vec<(u32, ErrorCode)> {
        let frames = self.written.iter();
        let resets = frames.filter(|frame| frame.kind == FrameKind::RST_STREAM);
        let code = |frame: &Written| ErrorCode::from_wire(frame.number(0)).expect("known");
        resets.map(|frame| (frame.stream, code(frame))).collect()
    }

    pub(crate) fn count(&self, kind: FrameKind, flags: u8) -> usize {
        let is_it = |frame: &&Written| frame.kind == kind && frame.flags == flags;
        self.written.iter().filter(is_it).count()
    }
}

/// Plays a script in pieces, and says at the end that no more bytes come.
pub(crate) fn play<'a>(case: &Case, pieces: impl IntoIterator<Item = &'a [u8]>, eof: bool) -> Seen {
    let mut shared = case.shared();
    let mut player = Player::new(case, &shared);
    let greeting = player.write(&shared);
    assert!(greeting.starts_with(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    if let Some(parameters) = &case.settings {
        player.take(&mut shared, &settings(parameters));
        player.refill(&shared);
    }
    for piece in pieces {
        player.take(&mut shared, piece);
    }
    if eof {
        player.http2.handle_eof(&mut shared);
        player.collect(&shared);
        assert_eq!(player.http2.room(&shared), 0, "room after the end");
    }
    let last = player.write(&shared);
    player.written.extend(last);
    Seen {
        outcomes: player.outcomes,
        written: frames_of(&player.written),
        fault: shared.fault().copied(),
        anomalies: *shared.anomalies(),
        in_flight: player.http2.in_flight(),
    }
}

/// Scripts longer than this are cut at some places only.
const EVERY_CUT_BYTES_MAX: usize = 2000;

/// Plays a script whole, byte by byte and cut in two at every place: all come to the same.
pub(crate) fn play_all(case: &Case, script: &[u8], eof: bool) -> Seen {
    let whole = play(case, [script], eof);
    let single = play(case, script.chunks(1), eof);
    assert_eq!(single, whole, "byte by byte");
    let step = script.len() / EVERY_CUT_BYTES_MAX + 1;
    for cut in (1..script.len()).step_by(step) {
        let (one, two) = script.split_at(cut);
        assert_eq!(play(case, [one, two], eof), whole, "cut at {cut}");
    }
    whole
}

struct Player<'a> {
    http2: Http2,
    case: &'a Case,
    issued: u32,
    outcomes: Vec<Outcome>,
    written: Vec<u8>,
}

impl<'a> Player<'a> {
    fn new(case: &'a Case, shared: &Shared) -> Player<'a> {
        Player {
            http2: Http2::open(shared),
            case,
            issued: 0,
            outcomes: Vec::new(),
            written: Vec::new(),
        }
    }

    fn write(&mut self, shared: &Shared) -> Vec<u8> {
        let mut buffer = vec![0; shared.write_bytes_min() + 20_000];
        let mut written = Vec::new();
        while self.http2.poll_transmit(shared) == Transmit::Own {
            let len = self.http2.write(shared, &mut buffer);
            written.extend_from_slice(&buffer[..len]);
        }
        written
    }

    fn refill(&mut self, shared: &Shared) {
        while self.issued < self.case.requests && self.http2.room(shared) > 0 {
            let slot = self.http2.issue(shared);
            assert!(slot < self.case.options.in_flight_max);
            self.issued += 1;
        }
        let written = self.write(shared);
        self.written.extend(written);
    }

    fn take(&mut self, shared: &mut Shared, mut piece: &[u8]) {
        while !piece.is_empty() {
            let taken = self.http2.handle_bytes(shared, piece);
            let before = self.outcomes.len();
            self.collect(shared);
            assert!(
                taken == piece.len() || self.outcomes.len() > before,
                "stopped after {taken} of {} bytes for nothing",
                piece.len()
            );
            piece = &piece[taken..];
        }
        while let Some(slot) = self.http2.poll_begun() {
            assert!(slot < self.case.options.in_flight_max);
        }
    }

    fn collect(&mut self, shared: &Shared) {
        let before = self.outcomes.len();
        while let Some(outcome) = self.http2.poll_outcome() {
            let is_over = matches!(
                self.outcomes.last(),
                Some(Outcome::Broken { .. } | Outcome::Over)
            );
            assert!(!is_over, "{outcome:?} after the connection ended");
            self.outcomes.push(outcome);
        }
        if self.outcomes.len() > before {
            self.check(shared);
            self.refill(shared);
        }
    }

    /// Issued requests have their one outcome or are in flight.
    fn check(&self, shared: &Shared) {
        let ended = self.outcomes.iter().filter(|outcome| match outcome {
            Outcome::Answered(_) | Outcome::Failed { .. } => true,
            Outcome::Broken { slot, .. } => slot.is_some(),
            Outcome::Over => false,
        });
        assert_eq!(self.issued, ended.count() as u32 + self.http2.in_flight());
        let room = self.http2.room(shared);
        assert!(self.http2.in_flight() + room <= self.case.options.in_flight_max);
        match self.outcomes.last() {
            Some(Outcome::Broken { .. } | Outcome::Over) => assert_eq!(room, 0),
            Some(Outcome::Answered(answer)) if !answer.reusable => {
                assert_eq!((room, self.http2.in_flight()), (0, 0));
            }
            _ => {}
        }
    }
}

/// Asserts that a script ends the connection with this class and code, and that the fault
/// names the frame and stream.
#[track_caller]
pub(crate) fn assert_breaks(
    case: &Case,
    script: &[u8],
    error: WireError,
    code: ErrorCode,
    frame: (FrameKind, u32),
) -> Seen {
    let seen = play_all(case, script, false);
    let broken = matches!(seen.outcomes.last(), Some(Outcome::Broken { .. }));
    assert!(broken, "{:?}", seen.outcomes);
    assert_eq!(seen.class(), Some(error.class()));
    assert_eq!(seen.goaway(), Some(code));
    let fault = seen.fault.expect("a fault");
    assert_eq!((fault.error, fault.code), (error, code));
    assert_eq!((fault.frame, fault.stream), frame, "{fault}");
    seen
}
