//! What each frame of the peer does (RFC 9113, 6).
//!
//! Two kinds of error: a [`Breach`] that is returned ends the connection; one that is
//! given to `fail_stream` ends a request, and the rest of its frame is skipped.

use super::connection::{Http2, Phase};
use super::fault::Breach;
use super::fields::Section;
use super::flow::Overflow;
use super::frame::{ErrorCode, FrameHeader, FrameKind, HEADER_BYTES, PAYLOAD_BYTES_MAX, flag};
use super::frames::Payload;
use super::settings::PARAMETER_BYTES;
use super::shared::Shared;
use crate::WireError;

/// A header block that began and has not ended (RFC 9113, 4.3).
#[derive(Debug)]
pub(super) struct Block {
    /// 0: none.
    stream: u32,
    /// `None`: of a stream that was reset, and decoded for the table's sake.
    slot: Option<u32>,
    ends_stream: bool,
    continuations: u32,
    /// The fragments so far, where there is more than one.
    bytes: Vec<u8>,
}

/// A buffer that grew beyond this is given back once its block is whole.
const BLOCK_BYTES_KEPT: usize = 16 * 1024;

impl Block {
    pub(super) fn new() -> Block {
        Block {
            stream: 0,
            slot: None,
            ends_stream: false,
            continuations: 0,
            bytes: Vec::new(),
        }
    }

    pub(super) fn reset(&mut self) {
        self.stream = 0;
        self.bytes.clear();
    }

    /// What is left of this slot's block is decoded for the table's sake alone.
    pub(super) fn forget(&mut self, slot: u32) {
        if self.slot == Some(slot) {
            self.slot = None;
        }
    }
}

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
        let continues = header.kind == FrameKind::CONTINUATION;
        if self.block.stream != 0 && !(continues && header.stream == self.block.stream) {
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
    fn slot_of(&self, header: FrameHeader) -> Result<Option<u32>, Breach> {
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

    #[inline]
    fn count_wire_bytes(&mut self, header: FrameHeader, slot: u32) {
        let bytes = HEADER_BYTES as u64 + u64::from(header.len);
        self.streams.at_mut(slot).wire_bytes += bytes;
    }

    #[inline]
    fn begin_data(&mut self, shared: &mut Shared, header: FrameHeader) -> Result<Payload, Breach> {
        if header.stream == 0 {
            return Err(Breach::protocol("DATA on stream 0 (RFC 9113, 6.1)"));
        }
        let slot = self.slot_of(header)?;
        if header.has(flag::PADDED) && header.len == 0 {
            return Err(Breach::frame_size(
                "padding without its length (RFC 9113, 6.1)",
            ));
        }
        if !self.receive.take(header.len) {
            let why = "more than the connection's window (RFC 9113, 6.9.1)";
            return Err(Breach::flow(why));
        }
        let Some(slot) = slot else {
            if header.len == 0 {
                self.count_idle_frame(shared)?;
            }
            return Ok(Payload::Skip);
        };
        self.count_wire_bytes(header, slot);
        let stream = self.streams.at_mut(slot);
        if !stream.receive.take(header.len) {
            let breach = Breach::flow("more than the stream's window (RFC 9113, 6.9.1)");
            self.fail_stream(shared, header, slot, breach);
            return Ok(Payload::Skip);
        }
        if !stream.has_head {
            let breach = malformed("a body before its head (RFC 9113, 8.1)");
            self.fail_stream(shared, header, slot, breach);
            return Ok(Payload::Skip);
        }
        if stream.receive.is_due() && !header.has(flag::END_STREAM) {
            self.credits.push(slot);
        }
        let is_padded = header.has(flag::PADDED);
        if is_padded || self.take_body(shared, header, slot, header.len)? {
            Ok(Payload::Data { slot })
        } else {
            Ok(Payload::Skip)
        }
    }

    /// Counts bytes of a body; `false` when there are more of them than its length.
    #[inline]
    pub(super) fn take_body(
        &mut self,
        shared: &mut Shared,
        header: FrameHeader,
        slot: u32,
        bytes: u32,
    ) -> Result<bool, Breach> {
        if bytes > 0 {
            self.idle_frames = 0;
        } else if !header.has(flag::END_STREAM) {
            self.count_idle_frame(shared)?;
        }
        let stream = self.streams.at_mut(slot);
        stream.body_bytes += u64::from(bytes);
        if stream
            .length
            .is_some_and(|length| stream.body_bytes > length)
        {
            let why = "a body longer than its length (RFC 9113, 8.1.1)";
            let breach = Breach::malformed(WireError::H2Length, why);
            self.fail_stream(shared, header, slot, breach);
            return Ok(false);
        }
        Ok(true)
    }

    fn begin_headers(&mut self, header: FrameHeader) -> Result<Payload, Breach> {
        if header.stream == 0 {
            return Err(Breach::protocol("HEADERS on stream 0 (RFC 9113, 6.2)"));
        }
        let slot = self.slot_of(header)?;
        if let Some(slot) = slot {
            self.begin_answer(slot);
            self.count_wire_bytes(header, slot);
        }
        self.block.stream = header.stream;
        self.block.slot = slot;
        self.block.ends_stream = header.has(flag::END_STREAM);
        self.block.continuations = 0;
        Ok(Payload::Whole)
    }

    fn begin_continuation(
        &mut self,
        shared: &Shared,
        header: FrameHeader,
    ) -> Result<Payload, Breach> {
        if self.block.stream == 0 {
            let why = "CONTINUATION of no header block (RFC 9113, 6.10)";
            return Err(Breach::protocol(why));
        }
        self.block.continuations += 1;
        if self.block.continuations > shared.options.continuations_max {
            let why = "too many CONTINUATION frames (RFC 9113, 10.5.1)";
            return Err(Breach::flood(WireError::H2HeadFlood, why));
        }
        if let Some(slot) = self.block.slot {
            self.count_wire_bytes(header, slot);
        }
        Ok(Payload::Whole)
    }

    fn take_fragment(
        &mut self,
        shared: &mut Shared,
        header: FrameHeader,
        fragment: &[u8],
    ) -> Result<(), Breach> {
        let ends = header.has(flag::END_HEADERS);
        if ends && self.block.bytes.is_empty() {
            return self.end_block(shared, header, fragment);
        }
        let len = self.block.bytes.len() + fragment.len();
        if len > shared.options.head_bytes_max as usize {
            let why = "a header block above the limit (RFC 9113, 10.5.1)";
            return Err(Breach::flood(WireError::H2HeadFlood, why));
        }
        self.block.bytes.extend_from_slice(fragment);
        if ends {
            let mut bytes = std::mem::take(&mut self.block.bytes);
            let ended = self.end_block(shared, header, &bytes);
            if bytes.capacity() <= BLOCK_BYTES_KEPT {
                bytes.clear();
                self.block.bytes = bytes;
            }
            return ended;
        }
        Ok(())
    }

    fn end_block(
        &mut self,
        shared: &mut Shared,
        header: FrameHeader,
        block: &[u8],
    ) -> Result<(), Breach> {
        self.block.stream = 0;
        let section = self.decode(shared, block)?;
        let Some(slot) = self.block.slot else {
            return self.count_idle_frame(shared);
        };
        if section.seen.any() {
            shared.anomalies.count(section.seen);
        }
        if let Err(breach) = self.take_section(shared, header, slot, section) {
            self.fail_stream(shared, header, slot, breach);
        }
        Ok(())
    }

    fn decode(&mut self, shared: &mut Shared, block: &[u8]) -> Result<Section, Breach> {
        let version = self.decoder.version();
        if let Some(section) = self.memo.recall(block, version) {
            return Ok(section);
        }
        let mut section = Section::default();
        let (known, scratch) = (&shared.known, &mut shared.scratch);
        self.decoder
            .decode(known, scratch, shared.limits, block, |name, value| {
                section.take(*name, *value);
            })?;
        if self.decoder.version() == version {
            self.memo.remember(block, version, section);
        }
        Ok(section)
    }

    /// Takes a head, an interim head or trailers. An error is the stream's (RFC 9113, 8.1).
    fn take_section(
        &mut self,
        shared: &mut Shared,
        header: FrameHeader,
        slot: u32,
        section: Section,
    ) -> Result<(), Breach> {
        let ends_stream = self.block.ends_stream;
        let stream = self.streams.at_mut(slot);
        if let Some(breach) = section.breach {
            return Err(breach);
        }
        match section.status {
            0 if stream.has_head && ends_stream => {}
            _ if stream.has_head => {
                return Err(malformed(
                    "trailers with a status, or not last (RFC 9113, 8.1)",
                ));
            }
            0 => return Err(malformed("a head without :status (RFC 9113, 8.3.2)")),
            101 => {
                let why = "101, which HTTP/2 has not (RFC 9113, 8.6)";
                return Err(Breach::malformed(WireError::H2Interim, why));
            }
            100..200 if ends_stream => {
                return Err(malformed(
                    "an interim head that ends its stream (RFC 9113, 8.1)",
                ));
            }
            100..200 => {
                stream.interims += 1;
                if stream.interims > shared.options.interim_max {
                    let why = "too many interim heads (RFC 9110, 15.2)";
                    return Err(Breach::flood(WireError::H2Interim, why));
                }
                return Ok(());
            }
            status => {
                stream.has_head = true;
                stream.status = status;
                let is_bodiless = shared.is_head || matches!(status, 204 | 304);
                stream.length = if is_bodiless { Some(0) } else { section.length };
                shared.anomalies.status_out_of_class += u64::from(status >= 600);
                self.idle_frames = 0;
            }
        }
        if ends_stream {
            self.end_answer(shared, header, slot);
        }
        Ok(())
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
        self.count_idle_frame(shared)?;
        let by = i64::from(number(payload) & 0x7fff_ffff);
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

/// What of a HEADERS frame is its block, without padding and priority (RFC 9113, 6.2).
fn fragment(header: FrameHeader, payload: &[u8]) -> Result<&[u8], Breach> {
    let too_short = Breach::frame_size("HEADERS without what its flags say (RFC 9113, 6.2)");
    let mut rest = payload;
    let mut padding = 0;
    if header.has(flag::PADDED) {
        let (first, after) = rest.split_first().ok_or(too_short)?;
        padding = usize::from(*first);
        rest = after;
    }
    if header.has(flag::PRIORITY) {
        rest = rest.get(5..).ok_or(too_short)?;
    }
    let len = rest.len().checked_sub(padding).ok_or(Breach::protocol(
        "padding longer than the frame (RFC 9113, 6.2)",
    ))?;
    Ok(&rest[..len])
}

fn malformed(why: &'static str) -> Breach {
    Breach::malformed(WireError::H2Head, why)
}

/// The first four bytes, which the frame's length has been checked to have.
fn number(payload: &[u8]) -> u32 {
    let first = payload.first_chunk().expect("the length was checked");
    u32::from_be_bytes(*first)
}
