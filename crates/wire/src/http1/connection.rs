//! One connection: requests go out in order, answers come back in order.

use super::chunked::{Chunked, Piece};
use super::fields::Framing;
use super::filled::{Asked, Filling};
use super::head::{self, Found, Head, Scan};
use super::shared::Shared;
use crate::content::{Coding, Decode, Decoder};
use crate::mix::{Ask, Looked, Values};
use crate::sending::Sending;
use crate::{Answer, Judged, Outcome, Transmit, Wire, WireError};

/// The client's end of one HTTP/1 connection.
#[derive(Debug)]
pub struct Http1 {
    state: State,
    /// The slot of the oldest request in flight, which is the one answered next.
    oldest: u32,
    in_flight: u32,
    /// Whether any request was issued since the connection was opened.
    is_used: bool,
    sending: Sending,
    /// In the place of `sending`, where requests are filled in for each use.
    asked: Option<Box<Asked>>,
    answer: Unfinished,
    outcome: Option<Outcome>,
    scan: Scan,
    /// The beginning of a head whose end has not come; empty between heads.
    partial: Vec<u8>,
    /// Of the coded body that arrives, or of one that was given up with its connection.
    decoder: Option<Decoder>,
    /// A coded body was decoded, and was sound.
    is_checked: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Head,
    Length(u64),
    Chunked(Chunked),
    ToClose,
    /// No request may follow: the peer closed, or an answer said so.
    Over,
    Broken,
}

/// The answer that has begun to arrive.
#[derive(Debug, Clone, Copy, Default)]
struct Unfinished {
    wire_bytes: u64,
    body_bytes: u64,
    decoded_bytes: u64,
    status: u16,
    closes: bool,
    is_last: bool,
    interims: u32,
    is_decoded: bool,
    /// The worker knows that it has begun.
    is_told: bool,
}

/// Room for a head that arrives in pieces, reserved when a connection is opened.
const PARTIAL_BYTES: usize = 1024;

/// A buffer that grew beyond this is given back once its head is whole.
const PARTIAL_BYTES_KEPT: usize = 16 * 1024;

impl Wire for Http1 {
    type Shared = Shared;

    fn open(shared: &Shared) -> Http1 {
        let filling = shared.filling.as_ref();
        let depth = shared.options.in_flight_max;
        let asked = filling.map(|filling| Asked::new(filling, depth));
        let sending = Sending::with_room(shared.runs_max());
        Http1 {
            asked,
            ..Http1::fresh(Vec::with_capacity(PARTIAL_BYTES), None, sending)
        }
    }

    fn block(shared: &Shared) -> &[u8] {
        shared.block()
    }

    fn reset(&mut self, _shared: &Shared) {
        let mut partial = std::mem::take(&mut self.partial);
        empty(&mut partial);
        let mut sending = std::mem::take(&mut self.sending);
        sending.forget();
        let mut asked = self.asked.take();
        if let Some(asked) = &mut asked {
            asked.forget();
        }
        *self = Http1 {
            asked,
            ..Http1::fresh(partial, self.decoder.take(), sending)
        };
    }

    fn take_form(shared: &mut Shared, form: usize) {
        shared.take_form(form);
    }

    fn take_known(shared: &mut Shared, known: &Values) {
        if let Some(filling) = &mut shared.filling {
            filling.known = Values::clone(known);
        }
    }

    fn sent_bytes(shared: &Shared, kind: u16, sent: u64) -> u64 {
        shared.sent_bytes(kind, sent)
    }

    fn looked(shared: &Shared) -> Option<&Looked> {
        shared.filling.as_ref().map(|filling| &filling.looked)
    }

    #[inline]
    fn room(&self, shared: &Shared) -> u32 {
        if self.is_over() || self.answer.closes {
            0
        } else if shared.options.connection_per_request {
            u32::from(!self.is_used)
        } else {
            shared.options.in_flight_max - self.in_flight
        }
    }

    #[inline]
    fn issue(&mut self, shared: &Shared) -> u32 {
        self.issue_one(shared, Ask::default())
    }

    fn may_allocate(shared: &Shared) -> bool {
        shared.may_allocate()
    }

    #[inline]
    fn issue_one(&mut self, shared: &Shared, ask: Ask) -> u32 {
        assert!(self.room(shared) > 0, "issued without room");
        let depth = shared.options.in_flight_max;
        let until_wrap = depth - self.oldest;
        let slot = if self.in_flight < until_wrap {
            self.oldest + self.in_flight
        } else {
            self.in_flight - until_wrap
        };
        self.in_flight += 1;
        self.is_used = true;
        match &mut self.asked {
            None => self.sending.issue(shared.form(ask.kind)),
            Some(asked) => asked.issue(ask, shared.form_number()),
        }
        slot
    }

    #[inline]
    fn poll_transmit(&self, _shared: &Shared) -> Transmit {
        if self.is_over() {
            return Transmit::Idle;
        }
        if let Some(asked) = &self.asked {
            return match asked.has_unwritten(self.answer.closes) {
                true => Transmit::Own,
                false => Transmit::Idle,
            };
        }
        let count_max = if self.answer.closes {
            self.unsent_of_answered()
        } else {
            u64::MAX
        };
        self.sending.poll(count_max)
    }

    #[inline]
    fn handle_sent(&mut self, _shared: &Shared, count: usize) {
        self.sending.sent(count);
    }

    fn write(&mut self, shared: &Shared, into: &mut [u8]) -> usize {
        let (Some(asked), Some(filling)) = (&mut self.asked, &shared.filling) else {
            unreachable!("every request is a range of the block");
        };
        asked.write(filling, into, self.answer.closes)
    }

    #[inline]
    fn handle_bytes(&mut self, shared: &mut Shared, bytes: &[u8]) -> usize {
        assert!(self.outcome.is_none(), "an outcome was not polled");
        if let State::Head = self.state
            && self.answer.wire_bytes == 0
            && self.is_solicited()
            && let Some(head) = shared.recall(bytes, self.asks_for_head_next(shared))
            && let Framing::Length(length) = head.framing
            && length <= (bytes.len() - head.len as usize) as u64
            && !head.is_interim()
            && (head.coding == Coding::Plain || !self.decodes(shared))
            && !self.looks_into_next(shared)
        {
            let total = head.len as u64 + length;
            self.answer.wire_bytes = total;
            self.answer.body_bytes = length;
            self.answer.decoded_bytes = shared.decoded_plain(length);
            self.answer.status = head.status;
            self.answer.closes = head.closes;
            self.answer.is_last = head.is_last;
            shared.count(&head);
            self.finish(shared);
            return total as usize;
        }
        self.take_all(shared, bytes)
    }

    fn handle_eof(&mut self, shared: &mut Shared) {
        assert!(self.outcome.is_none(), "an outcome was not polled");
        match self.state {
            State::Over | State::Broken => {}
            State::ToClose => self.end_body(shared),
            _ if self.answer.wire_bytes > 0 => self.break_off(shared, WireError::H1Truncated),
            _ => self.state = State::Over,
        }
    }

    #[inline]
    fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcome.take()
    }

    #[inline]
    fn poll_begun(&mut self) -> Option<u32> {
        if self.answer.is_told {
            return None;
        }
        let begun = self.answering();
        self.answer.is_told = begun.is_some();
        begun
    }

    #[inline]
    fn answering(&self) -> Option<u32> {
        (self.answer.wire_bytes > 0).then_some(self.oldest)
    }

    fn taken(&self, variable: u16) -> &[u8] {
        self.asked
            .as_ref()
            .map_or(&[], |asked| asked.user().variable(variable))
    }

    fn cookies(&self) -> Vec<u8> {
        let mut all = Vec::new();
        if let Some(asked) = &self.asked {
            asked
                .user()
                .write_cookies(|bytes| all.extend_from_slice(bytes));
        }
        all
    }

    fn take_cookies(&mut self, cookies: &[u8]) {
        if let Some(asked) = &mut self.asked {
            asked.user_mut().take_cookies(cookies);
        }
    }

    /// Answers come in order, so every later one waits for this one.
    fn cancel(&mut self, _slot: u32) -> bool {
        false
    }
}

impl Http1 {
    /// A new connection, with the buffers of an old one.
    fn fresh(partial: Vec<u8>, decoder: Option<Decoder>, sending: Sending) -> Http1 {
        Http1 {
            state: State::Head,
            oldest: 0,
            in_flight: 0,
            is_used: false,
            sending,
            asked: None,
            answer: Unfinished::default(),
            outcome: None,
            scan: Scan::default(),
            partial,
            decoder,
            is_checked: false,
        }
    }

    /// Requests that have neither an outcome nor been abandoned with the connection.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether no request may be issued on this connection any more.
    #[inline]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over | State::Broken)
    }

    #[inline]
    fn is_solicited(&self) -> bool {
        match &self.asked {
            None => self.sending.has_offered(self.in_flight),
            Some(asked) => asked.has_begun(),
        }
    }

    #[inline]
    fn looks_into_next(&self, shared: &Shared) -> bool {
        let of_mix = self.asked.as_ref().zip(shared.filling.as_ref());
        of_mix.is_some_and(|(asked, filling)| asked.looks_into_next(filling))
    }

    /// What is kept of the requests, and what it is read with, where answers may be looked into.
    #[inline]
    fn looking<'a>(
        &'a mut self,
        shared: &'a mut Shared,
    ) -> Option<(&'a mut Asked, &'a mut Filling)> {
        self.asked.as_deref_mut().zip(shared.filling.as_mut())
    }

    /// What is left to send of the request that is being answered: once an answer says
    /// that it is the last, no other is sent (RFC 9112, 9.6), but that one is finished.
    fn unsent_of_answered(&self) -> u64 {
        self.sending.unsent_of_oldest(self.in_flight)
    }

    fn take_all(&mut self, shared: &mut Shared, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() && self.outcome.is_none() {
            let rest = &bytes[taken..];
            taken += match &mut self.state {
                State::Head => self.take_head(shared, rest),
                State::Length(_) => self.take_length(shared, rest),
                State::Chunked(_) => self.take_chunked(shared, rest),
                State::ToClose => self.take_body(shared, rest),
                State::Over => {
                    self.break_off(shared, WireError::H1Unsolicited);
                    rest.len()
                }
                State::Broken => rest.len(),
            };
        }
        taken
    }

    fn take_head(&mut self, shared: &mut Shared, bytes: &[u8]) -> usize {
        if self.answer.wire_bytes == 0 && !self.is_solicited() {
            self.break_off(shared, WireError::H1Unsolicited);
            return bytes.len();
        }
        if self.scan.len < head::STATUS_PREFIX && !self.may_start_with(bytes) {
            self.answer.wire_bytes += bytes.len() as u64;
            self.break_off(shared, WireError::H1Status);
            return bytes.len();
        }
        let options = &shared.options;
        let (bytes_max, fields_max) = (options.head_bytes_max, options.head_fields_max);
        match self.scan.advance(bytes, bytes_max, fields_max) {
            Found::End(count) => {
                self.answer.wire_bytes += count as u64;
                let fields = self.scan.fields();
                let is_head = self.asks_for_head_next(shared);
                let judged = if self.partial.is_empty() {
                    shared.judge(&bytes[..count], fields, is_head)
                } else {
                    self.partial.extend_from_slice(&bytes[..count]);
                    shared.judge(&self.partial, fields, is_head)
                };
                if let Ok(head) = &judged
                    && !head.is_interim()
                    && self.looks_into_next(shared)
                {
                    let partial = std::mem::take(&mut self.partial);
                    let whole = if partial.is_empty() {
                        &bytes[..count]
                    } else {
                        &partial[..]
                    };
                    if let Some((asked, filling)) = self.looking(shared) {
                        let is_coded = head.coding != Coding::Plain;
                        asked.take_head(filling, head.status, is_coded, whole);
                    }
                    self.partial = partial;
                }
                self.scan = Scan::default();
                empty(&mut self.partial);
                match judged {
                    Ok(head) => self.begin_body(shared, head),
                    Err(error) => self.break_off(shared, error),
                }
                count
            }
            Found::NeedMore => {
                self.answer.wire_bytes += bytes.len() as u64;
                self.partial.extend_from_slice(bytes);
                bytes.len()
            }
            Found::TooLong => {
                self.break_off(shared, WireError::H1HeadLimit);
                bytes.len()
            }
        }
    }

    /// Whether the answer that comes next is to a HEAD.
    #[inline]
    fn asks_for_head_next(&self, shared: &Shared) -> bool {
        match (&self.asked, &shared.filling) {
            (Some(asked), Some(filling)) => asked.asks_for_head_next(filling),
            _ => shared.is_head(),
        }
    }

    fn may_start_with(&self, bytes: &[u8]) -> bool {
        let mut prefix = [0; head::STATUS_PREFIX];
        let known = self.partial.len();
        let len = (known + bytes.len()).min(prefix.len());
        prefix[..known].copy_from_slice(&self.partial);
        prefix[known..len].copy_from_slice(&bytes[..len - known]);
        head::may_start(&prefix[..len])
    }

    fn begin_body(&mut self, shared: &mut Shared, head: Head) {
        shared.count(&head);
        if head.is_interim() {
            self.answer.interims += 1;
            let is_switch = head.status == 101;
            if is_switch || self.answer.interims > shared.options.interim_max {
                self.break_off(shared, WireError::H1Interim);
            }
            return;
        }
        self.answer.status = head.status;
        self.answer.closes = head.closes;
        self.answer.is_last = head.is_last;
        if head.coding != Coding::Plain && self.decodes(shared) {
            let left_behind = self.decoder.take();
            self.decoder = shared.decoders.open(head.coding, left_behind);
            self.answer.is_decoded = self.decoder.is_some();
            shared.anomalies.content_not_decoded += u64::from(self.decoder.is_none());
        }
        match head.framing {
            Framing::Length(0) => self.finish(shared),
            Framing::Length(length) => self.state = State::Length(length),
            Framing::Chunked => {
                let options = &shared.options;
                self.state = State::Chunked(Chunked::new(
                    options.chunk_extension_bytes_max,
                    options.trailer_bytes_max,
                ));
            }
            Framing::ToClose => self.state = State::ToClose,
        }
    }

    fn take_length(&mut self, shared: &mut Shared, bytes: &[u8]) -> usize {
        let State::Length(left) = &mut self.state else {
            unreachable!("called in State::Length only");
        };
        let count = (*left).min(bytes.len() as u64);
        *left -= count;
        let ended = *left == 0;
        let count = self.take_body(shared, &bytes[..count as usize]);
        if ended {
            self.end_body(shared);
        }
        count
    }

    fn take_chunked(&mut self, shared: &mut Shared, bytes: &[u8]) -> usize {
        let State::Chunked(chunked) = &mut self.state else {
            unreachable!("called in State::Chunked only");
        };
        match chunked.take(bytes) {
            Ok(Piece::Data(count)) => self.take_body(shared, &bytes[..count]),
            Ok(Piece::Framing(count)) => {
                self.answer.wire_bytes += count as u64;
                count
            }
            Ok(Piece::End(count)) => {
                self.answer.wire_bytes += count as u64;
                self.end_body(shared);
                count
            }
            Err(error) => {
                self.break_off(shared, error);
                bytes.len()
            }
        }
    }

    fn take_body(&mut self, shared: &mut Shared, data: &[u8]) -> usize {
        self.answer.wire_bytes += data.len() as u64;
        self.answer.body_bytes += data.len() as u64;
        if let Some((asked, filling)) = self.looking(shared) {
            asked.take_body(filling, data);
        }
        if self.answer.is_decoded
            && let Some(decoder) = &mut self.decoder
            && let Err(error) = shared.decoders.take(decoder, data)
        {
            self.break_off(shared, error);
        }
        data.len()
    }

    fn end_body(&mut self, shared: &mut Shared) {
        if self.outcome.is_some() {
            return;
        }
        if !self.answer.is_decoded {
            self.answer.decoded_bytes = shared.decoded_plain(self.answer.body_bytes);
        } else if let Some(decoder) = self.decoder.take() {
            let ended = decoder.end();
            shared.decoders.close(decoder);
            match ended {
                Ok(bytes) => self.answer.decoded_bytes = bytes,
                Err(error) => return self.break_off(shared, error),
            }
            self.is_checked = self.answer.body_bytes > 0;
        }
        self.finish(shared);
    }

    /// Whether the next coded body is to be decoded.
    #[inline]
    fn decodes(&self, shared: &Shared) -> bool {
        match shared.options.decode {
            Decode::None => false,
            Decode::Check => !self.is_checked,
            Decode::Inflate => true,
        }
    }

    /// The answer is whole.
    #[inline]
    fn finish(&mut self, shared: &mut Shared) {
        let mut answer = std::mem::take(&mut self.answer);
        let (mut judged, mut redirects) = (Judged::ByStatus, None);
        if let Some((asked, filling)) = self.looking(shared) {
            // What is left of its request would be filled in with what the answer gave.
            answer.closes |= !asked.has_whole();
            (judged, redirects) = asked.end(filling, answer.body_bytes);
        }
        self.outcome = Some(Outcome::Answered(Answer {
            slot: self.oldest,
            status: answer.status,
            wire_bytes: answer.wire_bytes,
            body_bytes: answer.body_bytes,
            decoded_bytes: answer.decoded_bytes,
            reusable: !answer.closes,
            is_last: answer.is_last,
            call: None,
            judged,
            redirects,
        }));
        self.state = if answer.closes {
            State::Over
        } else {
            State::Head
        };
        self.release(shared.options.in_flight_max);
    }

    #[inline]
    fn release(&mut self, depth: u32) {
        self.in_flight -= 1;
        self.oldest += 1;
        if self.oldest == depth {
            self.oldest = 0;
        }
    }

    /// The peer broke the protocol: the request being answered fails, if there is one.
    #[cold]
    fn break_off(&mut self, shared: &mut Shared, error: WireError) {
        let nobody_asked = error == WireError::H1Unsolicited;
        let slot = (!nobody_asked).then_some(self.oldest);
        self.outcome = Some(Outcome::Broken { slot, error });
        self.in_flight -= u32::from(slot.is_some());
        if let Some(asked) = self.asked.as_mut().filter(|_| slot.is_some()) {
            asked.fail();
        }
        self.state = State::Broken;
        self.answer = Unfinished::default();
        if let Some(decoder) = self.decoder.take() {
            shared.decoders.close(decoder);
        }
    }
}

/// Empties a buffer, and gives it back if an unusual head made it grow.
#[inline]
fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > PARTIAL_BYTES_KEPT {
        *buffer = Vec::with_capacity(PARTIAL_BYTES);
    }
}
