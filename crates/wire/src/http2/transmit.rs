//! What is written: the greeting, acknowledgements, credit, resets, requests, bodies.
//!
//! Nothing is queued in bytes. What is owed is kept as counts and lines of slots, and
//! becomes whole frames when the worker has room for them, in this order.

use super::connection::{Http2, Phase};
use super::flow::{ReceiveWindow, SendWindow, WINDOW_BYTES_DEFAULT};
use super::frame::{FrameHeader, FrameKind, HEADER_BYTES, PAYLOAD_BYTES_MAX, PREFACE, flag};
use super::hpack::{RequestBlocks, TABLE_BYTES_DEFAULT, table_size};
use super::settings;
use super::shared::Shared;

/// The preface, SETTINGS of three parameters, and the connection's window.
pub(super) const GREETING_BYTES_MAX: usize =
    PREFACE.len() + HEADER_BYTES + 3 * settings::PARAMETER_BYTES + HEADER_BYTES + 4;

/// Two changes of the table's size, the second to at most 4,096.
pub(super) const TABLE_SIZE_BYTES_MAX: usize = 4;

/// The longest text in a GOAWAY of ours, in bytes.
const WHY_BYTES_MAX: usize = 40;

/// The peer's dynamic table, as far as this end has filled it (RFC 7541, 4.2).
#[derive(Debug)]
pub(super) struct HeadTable {
    bytes_max: u32,
    /// It holds what [`RequestBlocks::first`] inserts.
    is_filled: bool,
    /// A change of size that the next block begins with.
    announcement: Vec<u8>,
}

impl HeadTable {
    pub(super) fn new() -> HeadTable {
        HeadTable {
            bytes_max: TABLE_BYTES_DEFAULT,
            is_filled: false,
            announcement: Vec::with_capacity(TABLE_SIZE_BYTES_MAX),
        }
    }

    pub(super) fn reset(&mut self) {
        self.bytes_max = TABLE_BYTES_DEFAULT;
        self.is_filled = false;
        self.announcement.clear();
    }

    /// Follows the peer's SETTINGS. A table that changes is emptied and filled anew, so
    /// that indices are the same for every size.
    pub(super) fn resize(&mut self, allowed: u32) {
        let bytes_max = allowed.min(TABLE_BYTES_DEFAULT);
        if bytes_max == self.bytes_max {
            return;
        }
        self.bytes_max = bytes_max;
        self.is_filled = false;
        self.announcement.clear();
        table_size(0, &mut self.announcement);
        if bytes_max > 0 {
            table_size(bytes_max, &mut self.announcement);
        }
    }

    #[inline]
    fn block<'a>(&self, blocks: &'a RequestBlocks) -> &'a [u8] {
        if self.is_filled {
            &blocks.later
        } else if blocks.table_bytes <= self.bytes_max {
            &blocks.first
        } else {
            &blocks.literal
        }
    }

    #[inline]
    fn written(&mut self, blocks: &RequestBlocks) {
        self.is_filled = blocks.table_bytes <= self.bytes_max;
        self.announcement.clear();
    }
}

/// The worker's buffer and how much of it is used.
struct Out<'a> {
    into: &'a mut [u8],
    len: usize,
}

impl Out<'_> {
    #[inline]
    fn room(&self) -> usize {
        self.into.len() - self.len
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.into[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Room for so many bytes, to be written by who asks.
    fn next(&mut self, len: usize) -> &mut [u8] {
        self.len += len;
        &mut self.into[self.len - len..self.len]
    }

    #[inline]
    fn header(&mut self, kind: FrameKind, flags: u8, stream: u32, len: usize) {
        let header = FrameHeader {
            len: len as u32,
            kind,
            flags,
            stream,
        };
        self.bytes(&header.bytes());
    }

    /// A small frame, if there is room for it.
    #[inline]
    fn frame(&mut self, kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) -> bool {
        if self.room() < HEADER_BYTES + payload.len() {
            return false;
        }
        self.header(kind, flags, stream, payload.len());
        self.bytes(payload);
        true
    }
}

impl Http2 {
    /// Whether [`Http2::write_frames`] may have something to write.
    #[inline]
    pub(super) fn has_output(&self) -> bool {
        match self.phase {
            Phase::Over => false,
            Phase::Broken => self.goaway.is_some(),
            Phase::Opening | Phase::Open | Phase::Draining => {
                self.may_open()
                    || (!self.uploads.is_empty() && self.send.open() > 0)
                    || self.owes_control()
            }
        }
    }

    #[inline]
    fn owes_control(&self) -> bool {
        !self.has_greeted
            || self.settings_acks > 0
            || !self.pings.is_empty()
            || self.receive.is_due()
            || !self.credits.is_empty()
            || self.resets.has_unsent()
    }

    /// Whether a request waits, and the peer allows one more stream.
    #[inline]
    fn may_open(&self) -> bool {
        let open = self.in_flight() as usize - self.unopened.len();
        !self.unopened.is_empty() && open < self.peer.streams_max as usize
    }

    /// Writes as many whole frames as there is room for; gives their length.
    #[inline]
    pub(super) fn write_frames(&mut self, shared: &Shared, into: &mut [u8]) -> usize {
        assert!(into.len() >= shared.write_bytes_min(), "too little room");
        let mut out = Out { into, len: 0 };
        match self.phase {
            Phase::Over => {}
            Phase::Broken => self.write_goaway(&mut out),
            Phase::Opening | Phase::Open | Phase::Draining => {
                if !self.owes_control() || self.write_control(shared, &mut out) {
                    while self.may_open() && self.write_head(shared, &mut out) {}
                    while self.write_data(shared, &mut out) {}
                }
            }
        }
        out.len
    }

    /// Writes what the connection owes; `false` when there was no room for all of it.
    fn write_control(&mut self, shared: &Shared, out: &mut Out<'_>) -> bool {
        if !self.has_greeted {
            write_greeting(shared, out);
            self.has_greeted = true;
        }
        while self.settings_acks > 0 {
            if !out.frame(FrameKind::SETTINGS, flag::ACK, 0, &[]) {
                return false;
            }
            self.settings_acks -= 1;
        }
        while let Some(opaque) = self.pings.front() {
            if !out.frame(FrameKind::PING, flag::ACK, 0, opaque) {
                return false;
            }
            self.pings.pop_front();
        }
        if self.receive.is_due() && !write_credit(out, 0, &mut self.receive) {
            return false;
        }
        while let Some(slot) = self.credits.front() {
            let stream = self.streams.at_mut(slot);
            let is_wanted = stream.id != 0 && stream.receive.is_due();
            if is_wanted && !write_credit(out, stream.id, &mut stream.receive) {
                return false;
            }
            self.credits.pop();
        }
        while self.resets.has_unsent() {
            if out.room() < HEADER_BYTES + 4 {
                return false;
            }
            if let Some((id, code)) = self.resets.next_unsent() {
                let code = (code as u32).to_be_bytes();
                out.frame(FrameKind::RST_STREAM, 0, id, &code);
            }
        }
        true
    }

    /// Opens the stream of the request that has waited longest; `false` when there is no
    /// room for its whole head, whose frames nothing may come between (RFC 9113, 4.3).
    #[inline]
    fn write_head(&mut self, shared: &Shared, out: &mut Out<'_>) -> bool {
        let Some(slot) = self.unopened.front() else {
            return false;
        };
        let ask = self.streams.at(slot).ask;
        let announcement = &self.head_table.announcement;
        let mut block = self.head_table.block(&shared.blocks);
        let mut body_len = shared.body.len();
        if let (Some(of_user), Some(filling)) = (&mut self.of_user, &shared.filling) {
            of_user.begin(filling, slot);
            let (from, own) = of_user.filler(slot, ask.draw);
            own.clear();
            filling.write_block(ask.kind, from, block, own);
            body_len = filling.body_bytes(ask.kind, from);
            block = own;
        }
        let len = announcement.len() + block.len();
        let most = PAYLOAD_BYTES_MAX as usize;
        if out.room() < len + len.div_ceil(most) * HEADER_BYTES {
            return false;
        }
        self.unopened.pop();
        let id = self.opened * 2 + 1;
        let has_body = body_len > 0;
        let mut flags = if has_body { 0 } else { flag::END_STREAM };
        if len <= most {
            flags |= flag::END_HEADERS;
        }
        let before = out.len;
        let in_first = len.min(most) - announcement.len();
        out.header(FrameKind::HEADERS, flags, id, announcement.len() + in_first);
        out.bytes(announcement);
        out.bytes(&block[..in_first]);
        let mut rest = &block[in_first..];
        while !rest.is_empty() {
            let (next, after) = rest.split_at(rest.len().min(most));
            let flags = if after.is_empty() {
                flag::END_HEADERS
            } else {
                0
            };
            out.frame(FrameKind::CONTINUATION, flags, id, next);
            rest = after;
        }
        if let Some(filling) = &shared.filling {
            filling.count_written(ask.kind, out.len - before);
        }
        self.head_table.written(&shared.blocks);
        self.opened += 1;
        self.streams.name(slot, id);
        let stream = self.streams.at_mut(slot);
        stream.receive = ReceiveWindow::new(shared.options.stream_window_bytes);
        stream.send = SendWindow::new(self.peer.window_bytes);
        stream.unsent = body_len;
        stream.request_body = body_len;
        if has_body && stream.send.open() > 0 {
            self.uploads.push(slot);
        }
        true
    }

    /// Writes the next frame of the body that has waited longest, so that requests become whole
    /// one after the other and not all at the same late moment; `false` when there is no
    /// more to write, or no room or window for it.
    fn write_data(&mut self, shared: &Shared, out: &mut Out<'_>) -> bool {
        let Some(slot) = self.uploads.front() else {
            return false;
        };
        let stream = self.streams.at_mut(slot);
        let is_open = stream.is_taken && stream.id != 0;
        let left = if is_open { shared.sendable(stream) } else { 0 };
        let of_stream = left.min(stream.send.open());
        if of_stream == 0 {
            self.uploads.pop();
            return true;
        }
        let wanted = of_stream
            .min(self.send.open())
            .min(PAYLOAD_BYTES_MAX as usize);
        let len = wanted.min(out.room().saturating_sub(HEADER_BYTES));
        // A frame is cut short by the buffer only where no buffer would be long enough.
        if len == 0 || (len < wanted && out.len > 0) {
            return false;
        }
        let from = stream.request_body - stream.unsent;
        let is_last = len == stream.unsent;
        let flags = if is_last { flag::END_STREAM } else { 0 };
        out.header(FrameKind::DATA, flags, stream.id, len);
        match (&mut self.of_user, &shared.filling) {
            (Some(of_user), Some(filling)) => {
                let (filler, _) = of_user.filler(slot, stream.ask.draw);
                filling.write_body(stream.ask.kind, filler, from, out.next(len));
                filling.count_written(stream.ask.kind, HEADER_BYTES + len);
            }
            _ => out.bytes(&shared.body[from..from + len]),
        }
        stream.unsent -= len;
        stream.send.take(len);
        let goes_on = len < left && stream.send.open() > 0;
        self.send.take(len);
        self.uncredited += 2 * len as u64;
        self.idle_frames = 0;
        if !goes_on {
            self.uploads.pop();
        }
        true
    }

    /// Says why the connection ends. No stream of the peer's was ever taken up.
    fn write_goaway(&mut self, out: &mut Out<'_>) {
        let Some(breach) = self.goaway.take() else {
            return;
        };
        let why = breach.why.as_bytes();
        let why = &why[..why.len().min(WHY_BYTES_MAX)];
        out.header(FrameKind::GOAWAY, 0, 0, 8 + why.len());
        out.bytes(&0_u32.to_be_bytes());
        out.bytes(&(breach.code as u32).to_be_bytes());
        out.bytes(why);
    }
}

fn write_greeting(shared: &Shared, out: &mut Out<'_>) {
    let options = &shared.options;
    let parameters = [
        (settings::ENABLE_PUSH, 0),
        (settings::INITIAL_WINDOW_SIZE, options.stream_window_bytes),
        (settings::MAX_HEADER_LIST_SIZE, options.head_bytes_max),
    ];
    let len = parameters.len() * settings::PARAMETER_BYTES;
    out.bytes(PREFACE);
    out.header(FrameKind::SETTINGS, 0, 0, len);
    for (id, value) in parameters {
        out.bytes(&id.to_be_bytes());
        out.bytes(&value.to_be_bytes());
    }
    let more = options.connection_window_bytes - WINDOW_BYTES_DEFAULT;
    if more > 0 {
        out.frame(FrameKind::WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
    }
}

/// Gives credit back; `false` when there is no room to say so.
fn write_credit(out: &mut Out<'_>, stream: u32, window: &mut ReceiveWindow) -> bool {
    if out.room() < HEADER_BYTES + 4 {
        return false;
    }
    let credit = window.refill().to_be_bytes();
    out.frame(FrameKind::WINDOW_UPDATE, 0, stream, &credit)
}
