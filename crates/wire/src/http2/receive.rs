//! What each frame of the peer does (RFC 9113, 6), but for those that make an answer, which
//! stand in `answers.rs`.
//!
//! Two kinds of error: a [`Breach`] that is returned ends the connection; one that is
//! given to `fail_stream` ends a request, and the rest of its frame is skipped.

use super::answers::fragment;
use super::connection::{Http2, Phase};
use super::fault::Breach;
use super::flow::Overflow;
use super::frame::{ErrorCode, FrameHeader, FrameKind, PAYLOAD_BYTES_MAX, flag};
use super::frames::Payload;
use super::settings::PARAMETER_BYTES;
use super::shared::Shared;
use crate::WireError;

/// A window opened by less than this is an idle frame, whatever was sent.
const CREDIT_BYTES_MIN: u32 = 1024;

impl Http2 {
    /// Judges a frame by its header, and says what is to be done with its payload.
    #[inline]
    pub(super) fn begin_frame(
        &mut self,
        shared: &mut Shared,
        header: FrameHeader,
    ) -> Result<Payload, Breach> {
        if self.phase == Phase::Opening {
            return begin_first(header);
        }
        if header.len > PAYLOAD_BYTES_MAX {
            return Err(Breach::frame_size(
                "a frame above 16,384 bytes (RFC 9113, 4.2)",
            ));
        }
        if !self.block.admits(header) {
            let why = "a frame inside a header block (RFC 9113, 6.10)";
            return Err(Breach::protocol(why));
        }
        match header.kind {
            FrameKind::DATA => self.begin_data(shared, header),
            FrameKind::HEADERS => self.begin_headers(header),
            FrameKind::CONTINUATION => self.begin_continuation(shared, header),
            FrameKind::PRIORITY => self.begin_priority(shared, header),
            FrameKind::RST_STREAM => self.check_reset(header),
            FrameKind::SETTINGS => check_settings(header),
            FrameKind::PING => check_ping(header),
            FrameKind::GOAWAY => check_goaway(header),
            FrameKind::WINDOW_UPDATE => self.check_window_update(header),
            FrameKind::PUSH_PROMISE => Err(Breach::protocol(
                "a push, which our SETTINGS forbid (RFC 9113, 6.6)",
            )),
            _ => {
                self.count_idle_frame(shared)?;
                Ok(Payload::Skip)
            }
        }
    }

    /// Does what a whole payload says.
    pub(super) fn handle_frame(
        &mut self,
        shared: &mut Shared,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), Breach> {
        match header.kind {
            FrameKind::HEADERS => {
                let fragment = fragment(header, payload)?;
                self.take_fragment(shared, header, fragment)
            }
            FrameKind::CONTINUATION => self.take_fragment(shared, header, payload),
            FrameKind::RST_STREAM => self.take_reset(shared, header, payload),
            FrameKind::SETTINGS => self.take_settings(shared, header, payload),
            FrameKind::PING => self.take_ping(shared, header, payload),
            FrameKind::GOAWAY => self.take_goaway(shared, payload),
            FrameKind::WINDOW_UPDATE => self.take_window_update(shared, header, payload),
            _ => unreachable!("other frames are not gathered"),
        }
    }

    /// Whether no request of ours has had this id.
    fn is_idle(&self, stream: u32) -> bool {
        stream.is_multiple_of(2) || stream.div_ceil(2) > self.opened
    }

    /// The slot of a frame that only open streams have; `None` where it is forgiven.
    #[inline]
    pub(super) fn slot_of(&self, header: FrameHeader) -> Result<Option<u32>, Breach> {
        if let Some(slot) = self.streams.find(header.stream) {
            return Ok(Some(slot));
        }
        if self.is_idle(header.stream) {
            let why = "a frame of a stream that nobody opened (RFC 9113, 5.1)";
            return Err(Breach::protocol(why));
        }
        if self.resets.forgives(header.stream) {
            return Ok(None);
        }
        let why = "a frame of a stream that has ended (RFC 9113, 5.1)";
        Err(Breach::closed(why))
    }

    /// Priorities are deprecated and ignored, whatever they say (RFC 9113, 5.3.2).
    fn begin_priority(
        &mut self,
        shared: &mut Shared,
        header: FrameHeader,
    ) -> Result<Payload, Breach> {
        if header.stream == 0 {
            return Err(Breach::protocol("PRIORITY on stream 0 (RFC 9113, 6.3)"));
        }
        self.count_idle_frame(shared)?;
        if header.len != 5 {
            let breach = Breach::frame_size("PRIORITY is not 5 bytes (RFC 9113, 6.3)");
            match self.streams.find(header.stream) {
                Some(slot) => self.fail_stream(shared, header, slot, breach),
                None if self.is_idle(header.stream) => return Err(breach),
                None => {}
            }
        }
        Ok(Payload::Skip)
    }

    fn check_reset(&self, header: FrameHeader) -> Result<Payload, Breach> {
        match header {
            FrameHeader { stream: 0, .. } => {
                Err(Breach::protocol("RST_STREAM on stream 0 (RFC 9113, 6.4)"))
            }
            _ if self.is_idle(header.stream) => Err(Breach::protocol(
                "RST_STREAM of a stream that nobody opened (RFC 9113, 6.4)",
            )),
            FrameHeader { len: 4, .. } => Ok(Payload::Whole),
            _ => Err(Breach::frame_size(
                "RST_STREAM is not 4 bytes (RFC 9113, 6.4)",
            )),
        }
    }

    fn take_reset(
        &mut self,
        shared: &Shared,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), Breach> {
        match self.streams.find(header.stream) {
            Some(slot) => {
                let error = WireError::of_reset(ErrorCode::from_wire(number(payload)));
                self.end_with_failure(slot, error);
                Ok(())
            }
            None => self.count_idle_frame(shared),
        }
    }

    fn take_settings(
        &mut self,
        shared: &Shared,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), Breach> {
        self.count_idle_frame(shared)?;
        if header.has(flag::ACK) {
            return Ok(());
        }
        let before = self.peer.window_bytes;
        self.peer.apply(payload)?;
        self.settings_acks += 1;
        self.head_table.resize(self.peer.table_bytes_max);
        let change = i64::from(self.peer.window_bytes) - i64::from(before);
        if change != 0 {
            self.shift_windows(change)
                .map_err(|Overflow| Breach::flow("a window above 2^31 - 1 (RFC 9113, 6.9.2)"))?;
        }
        if self.phase == Phase::Opening {
            self.phase = Phase::Open;
        }
        Ok(())
    }

    /// RFC 9113, 6.9.2: a new initial window moves those of all open streams.
    fn shift_windows(&mut self, change: i64) -> Result<(), Overflow> {
        for (slot, stream) in self.streams.open_mut() {
            stream.send.shift(change)?;
            if stream.unsent > 0 && stream.send.open() > 0 {
                self.uploads.push(slot);
            }
        }
        Ok(())
    }

    fn take_ping(
        &mut self,
        shared: &Shared,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), Breach> {
        self.count_idle_frame(shared)?;
        if header.has(flag::ACK) {
            return Ok(());
        }
        // An answer ends a row of idle frames, and not the queue of what they ask for.
        if self.pings.len() == shared.options.idle_frames_max as usize {
            let why = "more PINGs than can be answered (RFC 9113, 10.5)";
            return Err(Breach::flood(WireError::H2Flood, why));
        }
        if let Some(opaque) = payload.first_chunk() {
            self.pings.push_back(*opaque);
        }
        Ok(())
    }

    /// RFC 9113, 6.8: what lies above the last stream was not looked at, and nothing more
    /// may be asked here.
    fn take_goaway(&mut self, shared: &mut Shared, payload: &[u8]) -> Result<(), Breach> {
        self.count_idle_frame(shared)?;
        let last = number(payload) & 0x7fff_ffff;
        let code = number(&payload[4..]);
        shared.anomalies.goaways += 1;
        shared.anomalies.goaways_with_error += u64::from(code != ErrorCode::NoError as u32);
        self.answerable_max = self.answerable_max.min(last);
        self.phase = Phase::Draining;
        self.unopened.clear();
        self.is_sweeping = self.has_hopeless();
        Ok(())
    }

    fn check_window_update(&self, header: FrameHeader) -> Result<Payload, Breach> {
        if header.len != 4 {
            return Err(Breach::frame_size(
                "WINDOW_UPDATE is not 4 bytes (RFC 9113, 6.9)",
            ));
        }
        if header.stream != 0 && self.is_idle(header.stream) {
            let why = "WINDOW_UPDATE of a stream that nobody opened (RFC 9113, 5.1)";
            return Err(Breach::protocol(why));
        }
        Ok(Payload::Whole)
    }

    fn take_window_update(
        &mut self,
        shared: &mut Shared,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), Breach> {
        let opened = number(payload) & 0x7fff_ffff;
        // Who says that it has read what we sent brings the answer further, if not byte by byte.
        match self.uncredited.checked_sub(opened.into()) {
            Some(left) if opened >= CREDIT_BYTES_MIN => self.uncredited = left,
            _ => self.count_idle_frame(shared)?,
        }
        let by = i64::from(opened);
        let nothing = Breach::protocol("a window opened by nothing (RFC 9113, 6.9)");
        let overflow = Breach::flow("a window above 2^31 - 1 (RFC 9113, 6.9.1)");
        if header.stream == 0 {
            if by == 0 {
                return Err(nothing);
            }
            return self.send.shift(by).map_err(|Overflow| overflow);
        }
        let Some(slot) = self.streams.find(header.stream) else {
            return Ok(());
        };
        let stream = self.streams.at_mut(slot);
        if by == 0 {
            self.fail_stream(shared, header, slot, nothing);
        } else if stream.send.shift(by).is_err() {
            self.fail_stream(shared, header, slot, overflow);
        } else if stream.unsent > 0 && stream.send.open() > 0 {
            self.uploads.push(slot);
        }
        Ok(())
    }
}

/// RFC 9113, 3.4: the peer's preface is SETTINGS. Anything else is another protocol, such
/// as HTTP/1.1's answer to a request that it cannot read.
fn begin_first(header: FrameHeader) -> Result<Payload, Breach> {
    let is_settings = header.kind == FrameKind::SETTINGS
        && header.stream == 0
        && header.len <= PAYLOAD_BYTES_MAX
        && !header.has(flag::ACK);
    if !is_settings {
        let why = "the first frame is not SETTINGS: the peer speaks another protocol \
                   (RFC 9113, 3.4)";
        return Err(Breach::preface(why));
    }
    check_settings(header)
}

fn check_settings(header: FrameHeader) -> Result<Payload, Breach> {
    if header.stream != 0 {
        return Err(Breach::protocol("SETTINGS on a stream (RFC 9113, 6.5)"));
    }
    if header.has(flag::ACK) && header.len != 0 {
        let why = "an acknowledgement of SETTINGS that says more (RFC 9113, 6.5)";
        return Err(Breach::frame_size(why));
    }
    if !(header.len as usize).is_multiple_of(PARAMETER_BYTES) {
        return Err(Breach::frame_size(
            "SETTINGS that end inside one (RFC 9113, 6.5)",
        ));
    }
    Ok(Payload::Whole)
}

fn check_ping(header: FrameHeader) -> Result<Payload, Breach> {
    match header {
        FrameHeader { stream: 1.., .. } => {
            Err(Breach::protocol("PING on a stream (RFC 9113, 6.7)"))
        }
        FrameHeader { len: 8, .. } => Ok(Payload::Whole),
        _ => Err(Breach::frame_size("PING is not 8 bytes (RFC 9113, 6.7)")),
    }
}

fn check_goaway(header: FrameHeader) -> Result<Payload, Breach> {
    match header {
        FrameHeader { stream: 1.., .. } => {
            Err(Breach::protocol("GOAWAY on a stream (RFC 9113, 6.8)"))
        }
        FrameHeader { len: 8.., .. } => Ok(Payload::Whole),
        _ => Err(Breach::frame_size(
            "GOAWAY is below 8 bytes (RFC 9113, 6.8)",
        )),
    }
}

/// The first four bytes, which the frame's length has been checked to have.
fn number(payload: &[u8]) -> u32 {
    let first = payload.first_chunk().expect("the length was checked");
    u32::from_be_bytes(*first)
}
