//! Requests of a mix that are filled in for each use, and answers that are looked into.
//!
//! ```text
//!   Mix ─► Ready, once for all workers ─► Filling: one for each worker ─► Asked: one for each connection
//! ```
//!
//! Nothing is rendered before its socket has room, so that no request is copied twice: what a connection keeps is
//! what was asked, and how much of the first unwritten request is written.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use super::options::Options;
use super::request::{CONTENT_LENGTH, PADDING_BYTES_MIN};
use crate::mix::{
    Ask, Caches, Filler, Inspection, Kind, Looked, Mix, Parts, Prepared, Rows, Sink, Template,
    Text, User, Values, decimal,
};
use crate::request::BadRequest;
use crate::{Judged, Redirect};

/// A mix made ready for HTTP/1.1.
#[derive(Debug)]
pub struct Ready {
    pub(super) prepared: Prepared,
    kinds: Vec<Filled>,
    /// Every connection has one request.
    pub(super) closes: bool,
    /// Whether any kind asks for no body.
    has_heads: bool,
}

/// A kind of request.
#[derive(Debug)]
struct Filled {
    head: Parts,
    has_length: bool,
    body: Parts,
    keeps_cookies: bool,
    /// Its own cookies, where others are kept: all go on one line (RFC 6265, 5.4).
    own_cookies: Option<Parts>,
    is_head: bool,
    /// All of it in its usual form, where that is rows and what never changes.
    rows: Option<Rows>,
}

impl Ready {
    /// Checks and encodes; `seed` chooses rows at random. An error names the kind.
    pub fn of(mix: &Mix, seed: u64, options: &Options) -> Result<Ready, String> {
        let prepared = Prepared::of(mix, seed)?;
        let mut ready = Ready {
            kinds: Vec::new(),
            closes: options.connection_per_request,
            has_heads: false,
            prepared,
        };
        for (nth, kind) in mix.kinds.iter().enumerate() {
            let named = |error: BadRequest| format!("`{}`: {error}", kind.name);
            let one_each = options.connection_per_request;
            let mut encoded = kind.request.encode(one_each, 0).map_err(named)?;
            let Kind {
                request, expect, ..
            } = kind;
            let mut own_cookies = None;
            if expect.keeps_cookies
                && let Some((own, rest)) = cookies_apart(request)
            {
                encoded = rest.encode(one_each, 0).map_err(named)?;
                own_cookies = Some(ready.prepared.parts(&own));
            }
            if nth > 0 && encoded.closes != ready.closes {
                let what = "closes its connection, and others do not";
                return Err(format!("`{}` {what}", kind.name));
            }
            ready.closes = encoded.closes;
            ready.has_heads |= encoded.is_head;
            kind.check_coding()?;
            ready.kinds.push(Filled {
                head: ready.prepared.parts(&encoded.head),
                has_length: encoded.has_length,
                body: ready.prepared.parts(&request.body),
                keeps_cookies: expect.keeps_cookies,
                own_cookies,
                is_head: encoded.is_head,
                rows: (!expect.keeps_cookies && !encoded.has_length)
                    .then(|| {
                        let mut whole = encoded.head.clone();
                        whole.push(b"\r\n");
                        whole.append(&request.body);
                        ready.prepared.rows(&whole)
                    })
                    .flatten(),
            });
        }
        Ok(ready)
    }
}

/// Between two cookies.
const AND_COOKIE: &[u8] = b"; ";

/// A request's own cookies, where it has any, and what is left of it without them.
fn cookies_apart(request: &Template) -> Option<(Text, Template)> {
    let is_cookie = |name: &str| name.eq_ignore_ascii_case("cookie");
    let fields = request.headers.iter().filter(|(name, _)| is_cookie(name));
    let own = fields
        .map(|(_, value)| value.trimmed())
        .reduce(|mut all, next| {
            all.push(AND_COOKIE);
            all.append(&next);
            all
        })?;
    let mut rest = request.clone();
    rest.headers.retain(|(name, _)| !is_cookie(name));
    Some((own, rest))
}

/// What the connections of one worker share of a mix.
#[derive(Debug)]
pub(super) struct Filling {
    pub(super) ready: Arc<Ready>,
    /// Of requests that are not begun yet.
    pub(super) known: Values,
    caches: Caches,
    pub(super) looked: Looked,
    /// Bytes of each kind's requests that were written so far.
    written: Vec<Cell<u64>>,
    /// By how much each longer form is longer: a line of the head.
    paddings: Vec<Vec<u8>>,
}

impl Filling {
    pub(super) fn of(ready: &Arc<Ready>, paddings: &[usize]) -> Filling {
        let line = |bytes: &usize| match bytes.checked_sub(PADDING_BYTES_MIN - 1) {
            None | Some(0) => Vec::new(),
            Some(value) => format!("X-Padding: {}\r\n", "x".repeat(value)).into_bytes(),
        };
        Filling {
            known: Values::clone(&ready.prepared.known),
            caches: Caches::of(&ready.prepared.looks),
            looked: Looked::none(ready.kinds.len()),
            written: vec![Cell::new(0); ready.kinds.len()],
            paddings: std::iter::once(Vec::new())
                .chain(paddings.iter().map(line))
                .collect(),
            ready: Arc::clone(ready),
        }
    }

    /// Whether looking into answers may allocate.
    pub(super) fn may_allocate(&self) -> bool {
        self.caches.are_used()
    }

    /// The longest that a request is, in any form.
    pub(super) fn request_bytes_max(&self) -> usize {
        let Ready {
            prepared, kinds, ..
        } = &*self.ready;
        let length = CONTENT_LENGTH.len() + "18446744073709551615\r\n".len();
        let cookies = "Cookie: \r\n".len() + User::COOKIES_FIELD_BYTES_MAX;
        let of_kind = |kind: &Filled| {
            let (head, body) = (prepared.longest(&kind.head), prepared.longest(&kind.body));
            let length = if kind.has_length { length } else { 0 };
            let own = kind.own_cookies.as_ref();
            let own = own.map_or(0, |own| prepared.longest(own) + AND_COOKIE.len());
            let cookies = if kind.keeps_cookies { cookies + own } else { 0 };
            head + length + cookies + "\r\n".len() + body
        };
        let longest = kinds.iter().map(of_kind).max().unwrap_or(0);
        longest + self.paddings.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Bytes of a kind's requests that were written so far.
    pub(super) fn written(&self, kind: usize) -> u64 {
        self.written[kind].get()
    }

    /// Writes a request that is rows and what never changes, where there is room for all of it.
    #[inline]
    fn write_rows(&self, asked: &Asking, into: &mut [u8]) -> Option<usize> {
        let kind = &self.ready.kinds[usize::from(asked.ask.kind)];
        let rows = kind.rows.as_ref().filter(|_| asked.form == 0)?;
        self.ready.prepared.write_rows(rows, asked.ask.draw, into)
    }

    fn render(&self, asked: &Asking, user: &User, known: &Values, sink: &mut Sink<'_>) {
        let from = Filler {
            draw: asked.ask.draw,
            user,
            known,
        };
        let Ready {
            prepared, kinds, ..
        } = &*self.ready;
        let kind = &kinds[usize::from(asked.ask.kind)];
        prepared.write(&kind.head, from, |bytes| sink.push(bytes));
        sink.push(&self.paddings[usize::from(asked.form)]);
        let has_kept = kind.keeps_cookies && user.has_cookies();
        if has_kept || kind.own_cookies.is_some() {
            sink.push(b"Cookie: ");
            if let Some(own) = &kind.own_cookies {
                prepared.write(own, from, |bytes| sink.push(bytes));
                sink.push(if has_kept { AND_COOKIE } else { b"" });
            }
            if has_kept {
                user.write_cookies(|bytes| sink.push(bytes));
            }
            sink.push(b"\r\n");
        }
        if kind.has_length {
            sink.push(CONTENT_LENGTH.as_bytes());
            let mut digits = [0; 20];
            sink.push(decimal(prepared.len(&kind.body, from), &mut digits));
            sink.push(b"\r\n");
        }
        sink.push(b"\r\n");
        prepared.write(&kind.body, from, |bytes| sink.push(bytes));
    }
}

/// A request that was issued.
#[derive(Debug, Clone, Copy)]
struct Asking {
    ask: Ask,
    /// Which form of it: 0, or a longer one.
    form: u16,
}

/// The requests of one connection, as they were asked for.
#[derive(Debug)]
pub(super) struct Asked {
    /// Those in flight, the oldest first.
    in_flight: VecDeque<Asking>,
    /// So many of the last of them are not written, or not wholly.
    unwritten: usize,
    /// Bytes of the first unwritten one that are written.
    offset: usize,
    user: User,
    /// Of the first unwritten request, where a part of it is written.
    known: Values,
    inspection: Inspection,
}

impl Asked {
    pub(super) fn user(&self) -> &User {
        &self.user
    }

    pub(super) fn user_mut(&mut self) -> &mut User {
        &mut self.user
    }

    pub(super) fn new(filling: &Filling, in_flight_max: u32) -> Box<Asked> {
        let prepared = &filling.ready.prepared;
        Box::new(Asked {
            in_flight: VecDeque::with_capacity(in_flight_max as usize),
            unwritten: 0,
            offset: 0,
            user: prepared.user(),
            known: Values::clone(&filling.known),
            inspection: Inspection::new(&prepared.looks),
        })
    }

    /// Forgets the connection, and not its user.
    pub(super) fn forget(&mut self) {
        self.in_flight.clear();
        self.unwritten = 0;
        self.offset = 0;
        self.inspection.stop();
    }

    #[inline]
    pub(super) fn issue(&mut self, ask: Ask, form: usize) {
        if ask.is_fresh {
            self.user.forget();
        }
        let form = form as u16;
        self.in_flight.push_back(Asking { ask, form });
        self.unwritten += 1;
    }

    /// Whether a byte of the oldest request was written.
    #[inline]
    pub(super) fn has_begun(&self) -> bool {
        let has_whole = self.in_flight.len() > self.unwritten;
        has_whole || (!self.in_flight.is_empty() && self.offset > 0)
    }

    /// Whether all of the oldest request was written.
    #[inline]
    pub(super) fn has_whole(&self) -> bool {
        self.in_flight.len() > self.unwritten
    }

    /// Whether there is something to write; once the server is about to close, of the request that it answers alone.
    #[inline]
    pub(super) fn has_unwritten(&self, is_last: bool) -> bool {
        match is_last {
            false => self.unwritten > 0,
            true => self.offset > 0 && self.unwritten == self.in_flight.len(),
        }
    }

    /// Writes as much as there is room for.
    pub(super) fn write(&mut self, filling: &Filling, into: &mut [u8], is_last: bool) -> usize {
        let mut len = 0;
        while self.has_unwritten(is_last) && len < into.len() {
            let asking = self.in_flight[self.in_flight.len() - self.unwritten];
            let room = &mut into[len..];
            let whole = match self.offset {
                0 => filling.write_rows(&asking, room),
                _ => None,
            };
            let (count, is_short) = match whole {
                Some(count) => (count, false),
                None => self.write_part(filling, &asking, room),
            };
            len += count;
            let written = &filling.written[usize::from(asking.ask.kind)];
            written.set(written.get() + count as u64);
            if is_short {
                self.offset += count;
                return len;
            }
            self.offset = 0;
            self.unwritten -= 1;
        }
        len
    }

    /// Writes what is left of a request: how many bytes, and whether there was no room for all of them.
    fn write_part(&mut self, filling: &Filling, asking: &Asking, room: &mut [u8]) -> (usize, bool) {
        if self.offset == 0 && !self.known.are(&filling.known) {
            self.known = Values::clone(&filling.known);
        }
        let mut sink = Sink::past(self.offset, room);
        filling.render(asking, &self.user, &self.known, &mut sink);
        (sink.len(), sink.is_short())
    }

    /// Whether the answer that comes next has no body, whatever its head says.
    #[inline]
    pub(super) fn asks_for_head_next(&self, filling: &Filling) -> bool {
        let Ready {
            kinds, has_heads, ..
        } = &*filling.ready;
        let is_head = |asking: &Asking| kinds[usize::from(asking.ask.kind)].is_head;
        *has_heads && self.in_flight.front().is_some_and(is_head)
    }

    /// Whether the answer that comes next is looked into.
    #[inline]
    pub(super) fn looks_into_next(&self, filling: &Filling) -> bool {
        let next = self.in_flight.front();
        next.is_some_and(|asking| filling.ready.prepared.looks.look_into(asking.ask.kind))
    }

    /// The final head of an answer.
    #[cold]
    pub(super) fn take_head(
        &mut self,
        filling: &Filling,
        status: u16,
        is_coded: bool,
        head: &[u8],
    ) {
        let Some(Asking { ask, .. }) = self.in_flight.front() else {
            return;
        };
        let (looks, looked) = (&filling.ready.prepared.looks, &filling.looked);
        self.inspection
            .begin(looks, looked, ask.kind, status, is_coded);
        if !looks.need_fields(ask.kind) {
            return;
        }
        let since = self.inspection.since(looked);
        // While its request is not written its user must not change: the rest would be other bytes.
        let is_written = self.unwritten < self.in_flight.len();
        let lines = head.split(|byte| *byte == b'\n').skip(1);
        for line in lines {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else {
                continue;
            };
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            match is_written {
                true => self.inspection.field(looks, &mut self.user, name, value),
                false => self.inspection.check_field(looks, name, value),
            }
        }
        if self.inspection.is_beside() {
            let Asked {
                user,
                known,
                inspection,
                ..
            } = self;
            filling.ready.prepared.follow(*ask, known, user, inspection);
        }
        self.inspection.took(looked, since);
    }

    #[inline]
    pub(super) fn take_body(&mut self, filling: &Filling, piece: &[u8]) {
        if self.inspection.is_on() {
            let looks = &filling.ready.prepared.looks;
            self.inspection.piece(looks, &filling.looked, piece);
        }
    }

    /// The answer to the oldest request is whole, with so long a body: what it is worth, and whether the next follows
    /// its redirect.
    #[inline]
    pub(super) fn end(
        &mut self,
        filling: &mut Filling,
        body_bytes: u64,
    ) -> (Judged, Option<Redirect>) {
        self.in_flight.pop_front();
        if !self.inspection.is_on() {
            return (Judged::ByStatus, None);
        }
        let (looks, looked) = (&filling.ready.prepared.looks, &filling.looked);
        let (caches, user) = (&mut filling.caches, &mut self.user);
        self.inspection.end(looks, looked, caches, user, body_bytes)
    }

    /// The oldest request has failed.
    pub(super) fn fail(&mut self) {
        self.in_flight.pop_front();
        self.inspection.stop();
    }
}
