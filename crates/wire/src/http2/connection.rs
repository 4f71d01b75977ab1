//! One connection: what it holds, and what a worker asks of it.
//!
//! How frames are taken apart stands in `frames.rs`, what they do in `receive.rs` and
//! `answers.rs`, and what is written in `transmit.rs`.

use std::collections::VecDeque;

use super::answers::Block;
use super::contents::Contents;
use super::fault::{Breach, Fault};
use super::fields::Meaning;
use super::filled::OfUser;
use super::flow::{ReceiveWindow, SendWindow, WINDOW_BYTES_DEFAULT};
use super::frame::{ErrorCode, FrameHeader};
use super::frames::Frames;
use super::hpack::{Decoder, TABLE_BYTES_DEFAULT};
use super::memo::Memo;
use super::settings::PeerSettings;
use super::shared::Shared;
use super::streams::{Line, Resets, Streams};
use super::transmit::HeadTable;
use crate::mix::{Ask, Looked, Values};
use crate::{Answer, Judged, Outcome, Transmit, Wire, WireError};

/// The client's end of one HTTP/2 connection.
#[derive(Debug)]
pub struct Http2 {
    pub(super) phase: Phase,
    /// The preface and our SETTINGS are written.
    pub(super) has_greeted: bool,
    pub(super) peer: PeerSettings,
    pub(super) streams: Streams,
    /// Requests issued since the connection was opened.
    issued: u32,
    /// Streams with an id.
    pub(super) opened: u32,
    /// Issued requests whose HEADERS are not written.
    pub(super) unopened: Line,
    /// Streams with body left and an open window of their own.
    pub(super) uploads: Line,
    /// Streams whose receive window wants an update.
    pub(super) credits: Line,
    /// Streams whose first byte has come and was not told.
    begun: Line,
    pub(super) head_table: HeadTable,
    pub(super) send: SendWindow,
    pub(super) receive: ReceiveWindow,
    pub(super) settings_acks: u32,
    pub(super) pings: VecDeque<[u8; 8]>,
    pub(super) resets: Resets,
    /// What the connection broke on, until the peer is told.
    pub(super) goaway: Option<Breach>,
    pub(super) frames: Frames,
    pub(super) block: Block,
    pub(super) decoder: Decoder<Meaning>,
    pub(super) memo: Memo,
    /// Frames in a row that brought no answer further.
    pub(super) idle_frames: u32,
    /// Bytes of bodies that were sent, and for which no window was opened again: each counts twice,
    /// for its stream and for the connection.
    pub(super) uncredited: u64,
    /// Streams above this id were not and will not be answered: a GOAWAY said so.
    pub(super) answerable_max: u32,
    /// Requests without hope are to be told, one by one.
    pub(super) is_sweeping: bool,
    pub(super) contents: Contents,
    /// Where requests are those of a mix.
    pub(super) of_user: Option<Box<OfUser>>,
    outcome: Option<Outcome>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The peer's SETTINGS have not come.
    Opening,
    Open,
    /// No more requests; those in flight are answered.
    Draining,
    /// Drained, and told so.
    Over,
    Broken,
}

/// Late frames are forgiven for at least so many streams that were reset.
const RESETS_KEPT_MIN: usize = 32;

impl Wire for Http2 {
    type Shared = Shared;

    fn open(shared: &Shared) -> Http2 {
        let options = &shared.options;
        let slots = options.in_flight_max;
        Http2 {
            phase: Phase::Opening,
            has_greeted: false,
            peer: PeerSettings::default(),
            streams: Streams::new(slots),
            issued: 0,
            opened: 0,
            unopened: Line::new(slots),
            uploads: Line::new(slots),
            credits: Line::new(slots),
            begun: Line::new(slots),
            head_table: HeadTable::new(),
            send: SendWindow::new(WINDOW_BYTES_DEFAULT),
            receive: ReceiveWindow::new(options.connection_window_bytes),
            settings_acks: 0,
            pings: VecDeque::with_capacity(options.idle_frames_max as usize),
            resets: Resets::new(RESETS_KEPT_MIN.max(slots as usize)),
            goaway: None,
            frames: Frames::new(),
            block: Block::new(),
            decoder: match &shared.filling {
                Some(filling) if filling.ready.needs_fields() => {
                    Decoder::keeping_text(TABLE_BYTES_DEFAULT)
                }
                _ => Decoder::new(TABLE_BYTES_DEFAULT),
            },
            memo: Memo::new(),
            idle_frames: 0,
            uncredited: 0,
            answerable_max: u32::MAX,
            is_sweeping: false,
            contents: Contents::new(options),
            of_user: shared
                .filling
                .as_ref()
                .map(|filling| OfUser::new(filling, slots)),
            outcome: None,
        }
    }

    fn reset(&mut self, shared: &Shared) {
        self.phase = Phase::Opening;
        self.has_greeted = false;
        self.peer = PeerSettings::default();
        self.streams.reset();
        (self.issued, self.opened) = (0, 0);
        for line in [
            &mut self.unopened,
            &mut self.uploads,
            &mut self.credits,
            &mut self.begun,
        ] {
            line.clear();
        }
        self.head_table.reset();
        self.send = SendWindow::new(WINDOW_BYTES_DEFAULT);
        self.receive = ReceiveWindow::new(shared.options.connection_window_bytes);
        self.settings_acks = 0;
        self.pings.clear();
        self.resets.clear();
        self.goaway = None;
        self.frames.reset();
        self.block.reset();
        self.decoder.reset();
        self.memo.reset();
        self.idle_frames = 0;
        self.uncredited = 0;
        self.answerable_max = u32::MAX;
        self.is_sweeping = false;
        self.contents.reset();
        if let Some(of_user) = &mut self.of_user {
            of_user.forget();
        }
        self.outcome = None;
    }

    fn sent_bytes(shared: &Shared, kind: u16, _sent: u64) -> u64 {
        let filling = shared.filling.as_ref();
        filling.map_or(0, |filling| filling.written(kind))
    }

    fn looked(shared: &Shared) -> Option<&Looked> {
        shared.filling.as_ref().map(|filling| &filling.looked)
    }

    #[inline]
    fn room(&self, shared: &Shared) -> u32 {
        if self.phase != Phase::Open {
            return 0;
        }
        let allowed = self.peer.streams_max.saturating_sub(self.in_flight());
        let left = shared.options.requests_max - self.issued;
        self.streams.free().min(allowed).min(left)
    }

    #[inline]
    fn issue(&mut self, shared: &Shared) -> u32 {
        self.issue_one(shared, Ask::default())
    }

    fn may_allocate(shared: &Shared) -> bool {
        shared.may_allocate()
    }

    fn take_known(shared: &mut Shared, known: &Values) {
        if let Some(filling) = &mut shared.filling {
            filling.known = Values::clone(known);
        }
    }

    #[inline]
    fn issue_one(&mut self, shared: &Shared, ask: Ask) -> u32 {
        assert!(self.room(shared) > 0, "issued without room");
        if let Some(of_user) = self.of_user.as_mut().filter(|_| ask.is_fresh) {
            of_user.user.forget();
        }
        let slot = self.streams.take(ask);
        self.unopened.push(slot);
        self.issued += 1;
        if self.issued == shared.options.requests_max {
            self.phase = Phase::Draining;
        }
        slot
    }

    #[inline]
    fn poll_transmit(&self, _shared: &Shared) -> Transmit {
        if self.has_output() {
            Transmit::Own
        } else {
            Transmit::Idle
        }
    }

    fn handle_sent(&mut self, _shared: &Shared, _count: usize) {
        unreachable!("what was written is the worker's to send");
    }

    fn write(&mut self, shared: &Shared, into: &mut [u8]) -> usize {
        self.write_frames(shared, into)
    }

    #[inline]
    fn handle_bytes(&mut self, shared: &mut Shared, bytes: &[u8]) -> usize {
        assert!(!self.has_outcome(), "an outcome was not polled");
        let mut taken = 0;
        while taken < bytes.len() && !self.has_outcome() {
            taken += self.take_bytes(shared, &bytes[taken..]);
        }
        taken
    }

    fn handle_eof(&mut self, shared: &mut Shared) {
        assert!(!self.has_outcome(), "an outcome was not polled");
        match self.phase {
            Phase::Over | Phase::Broken => return,
            Phase::Opening => {
                let why = "the peer closed before its SETTINGS (RFC 9113, 3.4)";
                self.break_off(shared, self.frames.header(), Breach::preface(why));
            }
            Phase::Open | Phase::Draining => {
                if let Some(slot) = self.answering() {
                    let why = "the stream of bytes ended inside an answer (RFC 9113, 9.1)";
                    let breach = Breach::malformed(WireError::H2Truncated, why);
                    self.break_off_at(shared, self.frames.header(), breach, Some(slot));
                }
            }
        }
        // Nobody is left to be told.
        self.goaway = None;
        if self.phase != Phase::Broken {
            self.phase = Phase::Over;
        }
    }

    #[inline]
    fn poll_outcome(&mut self) -> Option<Outcome> {
        if let Some(outcome) = self.outcome.take() {
            return Some(outcome);
        }
        if self.is_sweeping {
            if let Some(outcome) = self.sweep() {
                return Some(outcome);
            }
            self.is_sweeping = false;
        }
        if self.phase == Phase::Draining && self.in_flight() == 0 {
            self.phase = Phase::Over;
            return Some(Outcome::Over);
        }
        None
    }

    #[inline]
    fn poll_begun(&mut self) -> Option<u32> {
        while let Some(slot) = self.begun.pop() {
            let stream = self.streams.at(slot);
            if stream.is_taken && stream.is_begun {
                return Some(slot);
            }
        }
        None
    }

    fn answering(&self) -> Option<u32> {
        self.streams.position(|stream| stream.is_begun)
    }

    /// RFC 9113, 5.2.
    fn is_flow_blocked(&self, slot: u32) -> bool {
        let stream = self.streams.at(slot);
        let is_shut = stream.send.open() == 0 || self.send.open() == 0;
        stream.is_taken && stream.id != 0 && stream.unsent > 0 && is_shut
    }

    fn taken(&self, variable: u16) -> &[u8] {
        self.of_user
            .as_ref()
            .map_or(&[], |of_user| of_user.user.variable(variable))
    }

    fn cookies(&self) -> Vec<u8> {
        let mut all = Vec::new();
        if let Some(of_user) = &self.of_user {
            of_user
                .user
                .write_cookies(|bytes| all.extend_from_slice(bytes));
        }
        all
    }

    fn take_cookies(&mut self, cookies: &[u8]) {
        if let Some(of_user) = &mut self.of_user {
            of_user.user.take_cookies(cookies);
        }
    }

    fn cancel(&mut self, slot: u32) -> bool {
        let stream = self.streams.at(slot);
        assert!(stream.is_taken, "nothing to give up");
        if self.phase == Phase::Broken {
            return false;
        }
        if stream.id == 0 {
            self.unopened.remove(slot);
        } else if self.resets.push(stream.id, ErrorCode::Cancel).is_err() {
            return false;
        }
        self.streams.release(slot);
        self.forget_answer(slot);
        self.forget_frame_of(slot);
        true
    }
}

impl Http2 {
    /// Requests that have neither an outcome nor been abandoned with the connection.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.streams.in_flight()
    }

    /// Whether no request may be issued on this connection any more.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Draining | Phase::Over | Phase::Broken)
    }

    #[inline]
    pub(super) fn has_outcome(&self) -> bool {
        self.outcome.is_some()
            || self.is_sweeping
            || (self.phase == Phase::Draining && self.in_flight() == 0)
    }

    /// What a request was answered so far is looked into no more.
    fn forget_answer(&mut self, slot: u32) {
        if let Some(of_user) = &mut self.of_user {
            of_user.fail(slot);
        }
    }

    /// Frames that bring no answer further are bounded, since each costs an answer of
    /// ours or a look at it.
    #[inline]
    pub(super) fn count_idle_frame(&mut self, shared: &Shared) -> Result<(), Breach> {
        self.idle_frames += 1;
        if self.idle_frames > shared.options.idle_frames_max {
            let why = "too many frames that bring no answer further (RFC 9113, 10.5)";
            return Err(Breach::flood(WireError::H2Flood, why));
        }
        Ok(())
    }

    /// The answer's first byte is here.
    #[inline]
    pub(super) fn begin_answer(&mut self, slot: u32) {
        let stream = self.streams.at_mut(slot);
        if !stream.is_begun {
            stream.is_begun = true;
            self.begun.push(slot);
        }
    }

    /// The answer is whole, or breaks off here with its length.
    #[inline]
    pub(super) fn end_answer(&mut self, shared: &mut Shared, header: FrameHeader, slot: u32) {
        let stream = self.streams.at(slot);
        if stream
            .length
            .is_some_and(|length| length != stream.body_bytes)
        {
            let why = "a body shorter than its length (RFC 9113, 8.1.1)";
            let breach = Breach::malformed(WireError::H2Length, why);
            self.fail_stream(shared, header, slot, breach);
            return;
        }
        let Ok(decoded_bytes) = self.end_content(shared, slot) else {
            self.fail_stream(shared, header, slot, Breach::content());
            return;
        };
        let stream = self.streams.at(slot);
        let call = match shared.calls(stream.ask.kind) {
            None => None,
            Some(calls) => match calls.judge(stream.status, stream.call, &stream.messages) {
                Ok(call) => Some(call),
                Err((error, why)) => {
                    self.fail_stream(shared, header, slot, Breach::call(error, why));
                    return;
                }
            },
        };
        let (judged, redirects) = match (&mut self.of_user, &mut shared.filling) {
            (Some(of_user), Some(filling)) => of_user.end(filling, slot, stream.body_bytes),
            _ => (Judged::ByStatus, None),
        };
        let answer = Answer {
            slot,
            status: stream.status,
            wire_bytes: stream.wire_bytes,
            body_bytes: stream.body_bytes - stream.messages.prefix_bytes(),
            decoded_bytes,
            reusable: true,
            is_last: false,
            call,
            judged,
            redirects,
        };
        self.idle_frames = 0;
        if stream.unsent > 0 {
            shared.anomalies.answered_early += 1;
            let id = stream.id;
            // Told to nobody that minds: the answer counts either way.
            if self.resets.push(id, ErrorCode::Cancel).is_err() {
                self.break_off(shared, header, too_many_resets());
                return;
            }
        }
        self.streams.release(slot);
        let is_last = self.phase == Phase::Draining && self.in_flight() == 0;
        if is_last {
            self.phase = Phase::Over;
        }
        self.outcome = Some(Outcome::Answered(Answer {
            reusable: !is_last,
            is_last: false,
            ..answer
        }));
    }

    /// One request fails; the connection goes on, and the peer is told.
    #[cold]
    pub(super) fn fail_stream(
        &mut self,
        shared: &mut Shared,
        header: FrameHeader,
        slot: u32,
        breach: Breach,
    ) {
        let id = self.streams.at(slot).id;
        if self.resets.push(id, breach.code).is_err() {
            self.break_off(shared, header, too_many_resets());
            return;
        }
        self.note(shared, header, breach);
        self.end_with_failure(slot, breach.error);
    }

    /// One request fails; the connection goes on.
    pub(super) fn end_with_failure(&mut self, slot: u32, error: WireError) {
        self.streams.release(slot);
        self.forget_answer(slot);
        self.outcome = Some(Outcome::Failed { slot, error });
    }

    /// The connection breaks; a request on the frame's stream fails with the class.
    #[cold]
    pub(super) fn break_off(&mut self, shared: &mut Shared, header: FrameHeader, breach: Breach) {
        let slot = match header.stream {
            0 => None,
            id => self.streams.find(id),
        };
        self.break_off_at(shared, header, breach, slot);
    }

    fn break_off_at(
        &mut self,
        shared: &mut Shared,
        header: FrameHeader,
        breach: Breach,
        slot: Option<u32>,
    ) {
        self.note(shared, header, breach);
        if let Some(slot) = slot {
            self.streams.release(slot);
            self.forget_answer(slot);
        }
        self.goaway = Some(breach);
        self.is_sweeping = false;
        self.outcome = Some(Outcome::Broken {
            slot,
            error: breach.error,
        });
        self.phase = Phase::Broken;
    }

    fn note(&self, shared: &mut Shared, header: FrameHeader, breach: Breach) {
        shared.fault = Some(Fault {
            error: breach.error,
            code: breach.code,
            frame: header.kind,
            stream: header.stream,
            why: breach.why,
        });
    }

    /// The next request that a GOAWAY left without hope (RFC 9113, 6.8).
    fn sweep(&mut self) -> Option<Outcome> {
        let slot = self.hopeless()?;
        self.streams.release(slot);
        self.forget_answer(slot);
        Some(Outcome::Failed {
            slot,
            error: WireError::H2Unprocessed,
        })
    }

    pub(super) fn has_hopeless(&self) -> bool {
        self.hopeless().is_some()
    }

    fn hopeless(&self) -> Option<u32> {
        let answerable_max = self.answerable_max;
        self.streams
            .position(|stream| stream.id == 0 || stream.id > answerable_max)
    }
}

fn too_many_resets() -> Breach {
    let why = "more broken answers than can be reset (RFC 9113, 10.5)";
    Breach::flood(WireError::H2Flood, why)
}
