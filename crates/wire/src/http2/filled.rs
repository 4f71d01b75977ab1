//! Requests of a mix: header blocks and bodies that are filled in for each use, and answers that are looked into.
//!
//! ```text
//!   a block:  :method :path │ what all kinds have alike, indexed │ fields of the kind's own
//!                   literal                                         literal
//! ```
//!
//! What changes is never put into the peer's table, so that an index means the same for the life of a connection.

use std::cell::Cell;
use std::sync::Arc;

use super::hpack::{Field, RequestBlocks, literal_field, literal_name, plain_string_len};
use super::request;
use super::shared::REQUEST_LIST_BYTES_MAX;
use crate::grpc::{self, Calls};
use crate::mix::{
    Ask, Caches, Filler, Inspection, Kind, Looked, Mix, Parts, Prepared, Sink, Text, User, Values,
    decimal,
};
use crate::request::BadRequest;
use crate::{Judged, Redirect};

/// A mix made ready for HTTP/2.
#[derive(Debug)]
pub struct Ready {
    prepared: Prepared,
    pub(super) common: RequestBlocks,
    /// The encoded name of the field of cookies.
    cookie: Vec<u8>,
    kinds: Vec<Filled>,
    /// The longest block that there can be, without what is common.
    pub(super) block_bytes_max: usize,
}

/// A kind of request.
#[derive(Debug)]
struct Filled {
    pseudo: Vec<Line>,
    own: Vec<Line>,
    body: Parts,
    keeps_cookies: bool,
    is_head: bool,
    calls: Option<grpc::Terms>,
}

/// A field of a block.
#[derive(Debug)]
enum Line {
    /// Encoded.
    Fixed(Vec<u8>),
    /// Its name encoded, and its value to be filled in.
    Filled(Vec<u8>, Parts),
    /// Its name encoded, and the length of the body as its value.
    Length(Vec<u8>),
}

/// A field as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    Value(String, Text),
    Length,
}

impl Ready {
    /// Checks and encodes; `seed` chooses rows at random. An error names the kind.
    pub fn of(mix: &Mix, seed: u64, is_https: bool) -> Result<Ready, String> {
        let prepared = Prepared::of(mix, seed)?;
        let lists = mix.kinds.iter().map(|kind| {
            let named = |error: BadRequest| format!("`{}`: {error}", kind.name);
            asked_fields(kind, is_https).map_err(named)
        });
        let lists = lists.collect::<Result<Vec<_>, _>>()?;
        let is_common = |field: &&Asked| match field {
            Asked::Value(name, text) => {
                let is_own = [":method", ":path"].contains(&name.as_str());
                !is_own && text.is_fixed() && lists.iter().all(|list| list.contains(field))
            }
            Asked::Length => false,
        };
        let first = lists.first().ok_or("a mix has no request")?;
        let common: Vec<&Asked> = first.iter().filter(is_common).collect();
        let mut ready = Ready {
            common: RequestBlocks::new(
                &common
                    .iter()
                    .filter_map(|field| field.fixed())
                    .collect::<Vec<_>>(),
            ),
            cookie: literal_name("cookie"),
            kinds: Vec::new(),
            block_bytes_max: 0,
            prepared,
        };
        for (kind, list) in mix.kinds.iter().zip(&lists) {
            kind.check_coding()?;
            let own = list.iter().filter(|field| !common.contains(field));
            let (pseudo, own): (Vec<&Asked>, Vec<&Asked>) =
                own.partition(|field| field.is_pseudo());
            let lines =
                |fields: Vec<&Asked>| fields.into_iter().map(|field| ready.line(field)).collect();
            let filled = Filled {
                pseudo: lines(pseudo),
                own: lines(own),
                body: ready.prepared.parts(&kind.request.body),
                keeps_cookies: kind.expect.keeps_cookies,
                is_head: kind.request.method == "HEAD",
                calls: kind.call.clone(),
            };
            let mut longest: usize = filled.lines().map(|line| ready.longest(line)).sum();
            if filled.keeps_cookies {
                longest += ready.cookie.len() + 6 + User::COOKIES_FIELD_BYTES_MAX;
            }
            if longest > REQUEST_LIST_BYTES_MAX as usize {
                return Err(format!(
                    "`{}`: its header list may come to more than 64 KiB, for a value that is taken has up to 8 KiB, and \
                     thrice that in a path: take fewer into it, or speak HTTP/1.1",
                    kind.name
                ));
            }
            ready.block_bytes_max = ready.block_bytes_max.max(longest);
            ready.kinds.push(filled);
        }
        Ok(ready)
    }

    /// Whether fields of any answer are looked into.
    pub(super) fn needs_fields(&self) -> bool {
        self.prepared.looks.need_any_fields()
    }

    /// What answers must be as calls, by kind; none where they are none.
    pub(super) fn calls(&self) -> Vec<Calls> {
        let calls = self.kinds.iter().filter_map(|kind| kind.calls.as_ref());
        calls.map(Calls::of).collect()
    }

    fn line(&self, field: &Asked) -> Line {
        match field {
            Asked::Length => Line::Length(literal_name("content-length")),
            Asked::Value(name, text) => match field.fixed() {
                Some(field) => Line::Fixed(literal_field(&field)),
                None => Line::Filled(literal_name(name), self.prepared.parts(text)),
            },
        }
    }

    fn longest(&self, line: &Line) -> usize {
        match line {
            Line::Fixed(bytes) => bytes.len(),
            Line::Filled(name, value) => name.len() + 6 + self.prepared.longest(value),
            Line::Length(name) => name.len() + 21,
        }
    }
}

impl Filled {
    fn lines(&self) -> impl Iterator<Item = &Line> {
        self.pseudo.iter().chain(&self.own)
    }
}

impl Asked {
    fn fixed(&self) -> Option<Field> {
        match self {
            Asked::Value(name, text) => Some(Field {
                name: name.clone(),
                value: text.clone().into_fixed()?,
            }),
            Asked::Length => None,
        }
    }

    fn is_pseudo(&self) -> bool {
        matches!(self, Asked::Value(name, _) if name.starts_with(':'))
    }
}

/// The fields of a kind, as those of a request like it, with its texts in the places of the values that are filled in.
fn asked_fields(kind: &Kind, is_https: bool) -> Result<Vec<Asked>, BadRequest> {
    let Kind { request, call, .. } = kind;
    let sample = request.sample();
    if request
        .headers
        .iter()
        .any(|(name, value)| name.eq_ignore_ascii_case("Host") && !value.is_fixed())
    {
        return Err(BadRequest::header(
            "Host",
            "has places, and is to be always the same",
        ));
    }
    let fields = match call {
        None => request::fields(&sample, is_https)?,
        Some(terms) => grpc::fields_of(&sample, terms.deadline, is_https)?,
    };
    let is_sent = |name: &str| {
        let is_te = call.is_some() && name.eq_ignore_ascii_case("te");
        !name.eq_ignore_ascii_case("Host") && !is_te
    };
    let of_user: Vec<&Text> = request
        .headers
        .iter()
        .filter(|(name, _)| is_sent(name))
        .map(|(_, value)| value)
        .collect();
    // Those of the user stand last, in their order.
    let defaults = fields.len() - of_user.len();
    let asked = fields.into_iter().enumerate().map(|(nth, field)| {
        let text = match nth.checked_sub(defaults) {
            Some(nth) => of_user[nth].trimmed(),
            None if field.name == ":path" => request.target.clone(),
            None if field.name == "content-length" => return Asked::Length,
            None => Text::fixed(field.value),
        };
        Asked::Value(field.name, text)
    });
    Ok(asked.collect())
}

/// What the connections of one worker share of a mix.
#[derive(Debug)]
pub(super) struct Filling {
    pub(super) ready: Arc<Ready>,
    /// Of requests that are not begun yet.
    pub(super) known: Values,
    caches: Caches,
    pub(super) looked: Looked,
    /// Bytes of the frames of each kind's requests that were written so far.
    written: Vec<Cell<u64>>,
    /// Of the head that came last, where they are looked into.
    pub(super) fields: Fields,
}

impl Filling {
    pub(super) fn of(ready: &Arc<Ready>) -> Filling {
        Filling {
            known: Values::clone(&ready.prepared.known),
            caches: Caches::of(&ready.prepared.looks),
            looked: Looked::none(ready.kinds.len()),
            written: vec![Cell::new(0); ready.kinds.len()],
            fields: Fields::with_room(ready.needs_fields()),
            ready: Arc::clone(ready),
        }
    }

    /// Whether looking into answers may allocate.
    pub(super) fn may_allocate(&self) -> bool {
        self.caches.are_used()
    }

    /// Whether fields of a kind's answers are looked into.
    #[inline]
    pub(super) fn needs_fields(&self, kind: u16) -> bool {
        self.ready.prepared.looks.need_fields(kind)
    }

    pub(super) fn is_head(&self, kind: u16) -> bool {
        self.ready.kinds[usize::from(kind)].is_head
    }

    /// Bytes of the frames of a kind's requests that were written so far.
    pub(super) fn written(&self, kind: u16) -> u64 {
        self.written[usize::from(kind)].get()
    }

    /// So many more of them are written.
    #[inline]
    pub(super) fn count_written(&self, kind: u16, bytes: usize) {
        let written = &self.written[usize::from(kind)];
        written.set(written.get() + bytes as u64);
    }

    /// Bytes of a request's body.
    pub(super) fn body_bytes(&self, kind: u16, from: Filler<'_>) -> usize {
        let Ready {
            prepared, kinds, ..
        } = &*self.ready;
        prepared.len(&kinds[usize::from(kind)].body, from)
    }

    /// Writes a part of a request's body, from there on.
    pub(super) fn write_body(&self, kind: u16, from: Filler<'_>, at: usize, into: &mut [u8]) {
        let Ready {
            prepared, kinds, ..
        } = &*self.ready;
        let mut sink = Sink::past(at, into);
        prepared.write(&kinds[usize::from(kind)].body, from, |bytes| {
            sink.push(bytes)
        });
    }

    /// Appends a request's block, with what is common as it stands with the peer.
    pub(super) fn write_block(
        &self,
        kind: u16,
        from: Filler<'_>,
        common: &[u8],
        block: &mut Vec<u8>,
    ) {
        let filled = &self.ready.kinds[usize::from(kind)];
        for line in &filled.pseudo {
            self.write_line(line, kind, from, block);
        }
        block.extend_from_slice(common);
        for line in &filled.own {
            self.write_line(line, kind, from, block);
        }
        if filled.keeps_cookies && from.user.has_cookies() {
            block.extend_from_slice(&self.ready.cookie);
            plain_string_len(from.user.cookies_len(), block);
            from.user
                .write_cookies(|bytes| block.extend_from_slice(bytes));
        }
    }

    fn write_line(&self, line: &Line, kind: u16, from: Filler<'_>, block: &mut Vec<u8>) {
        let prepared = &self.ready.prepared;
        match line {
            Line::Fixed(bytes) => block.extend_from_slice(bytes),
            Line::Filled(name, value) => {
                block.extend_from_slice(name);
                plain_string_len(prepared.len(value, from), block);
                prepared.write(value, from, |bytes| block.extend_from_slice(bytes));
            }
            Line::Length(name) => {
                block.extend_from_slice(name);
                let mut digits = [0; 20];
                let digits = decimal(self.body_bytes(kind, from), &mut digits);
                plain_string_len(digits.len(), block);
                block.extend_from_slice(digits);
            }
        }
    }
}

/// Fields of a head, as they are spelled: those that are looked into.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// Name and value of each, one behind the other.
    bytes: Vec<u8>,
    /// Where each name ends, and each value.
    ends: Vec<(usize, usize)>,
    /// There was no room for all.
    is_short: bool,
}

/// Room for fields that are looked into, in bytes, and their number.
const FIELDS_BYTES_MAX: usize = 32 * 1024;
const FIELDS_MAX: usize = 64;

impl Fields {
    fn with_room(is_used: bool) -> Fields {
        let room = |most: usize| if is_used { most } else { 0 };
        Fields {
            bytes: Vec::with_capacity(room(FIELDS_BYTES_MAX)),
            ends: Vec::with_capacity(room(FIELDS_MAX)),
            is_short: false,
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.is_short = false;
    }

    /// Keeps one, where a kind's answers are looked into for it. What there is no room for is told.
    pub(super) fn keep(&mut self, ready: &Ready, kind: u16, (name, value): (&[u8], &[u8])) {
        if !ready.prepared.looks.want(kind, name) {
            return;
        }
        let fits = self.bytes.len() + name.len() + value.len() <= self.bytes.capacity()
            && self.ends.len() < self.ends.capacity();
        self.is_short |= !fits;
        if fits {
            self.bytes.extend_from_slice(name);
            let name_end = self.bytes.len();
            self.bytes.extend_from_slice(value);
            self.ends.push((name_end, self.bytes.len()));
        }
    }

    fn all(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut from = 0;
        self.ends.iter().map(move |(name_end, end)| {
            let field = (&self.bytes[from..*name_end], &self.bytes[*name_end..*end]);
            from = *end;
            field
        })
    }
}

/// What a stream keeps.
#[derive(Debug)]
struct OfStream {
    inspection: Inspection,
    /// What its request is filled in with, since its head was written.
    known: Values,
}

/// What one connection keeps of a mix.
#[derive(Debug)]
pub(super) struct OfUser {
    pub(super) user: User,
    /// Of the stream at each slot.
    streams: Box<[OfStream]>,
    /// Where a block is put together.
    block: Vec<u8>,
}

impl OfUser {
    pub(super) fn new(filling: &Filling, slots: u32) -> Box<OfUser> {
        let Ready {
            prepared,
            common,
            block_bytes_max,
            ..
        } = &*filling.ready;
        let one = |_| OfStream {
            inspection: Inspection::new(&prepared.looks),
            known: Values::clone(&filling.known),
        };
        Box::new(OfUser {
            user: prepared.user(),
            streams: (0..slots).map(one).collect(),
            block: Vec::with_capacity(
                block_bytes_max + common.literal.len().max(common.first.len()),
            ),
        })
    }

    /// Forgets the connection, and not its user.
    pub(super) fn forget(&mut self) {
        for stream in &mut self.streams {
            stream.inspection.stop();
        }
    }

    /// The request at a slot begins: what it is filled in with from now on.
    #[inline]
    pub(super) fn begin(&mut self, filling: &Filling, slot: u32) {
        let known = &mut self.streams[slot as usize].known;
        if !known.are(&filling.known) {
            *known = Values::clone(&filling.known);
        }
    }

    /// What it is filled in from, and where its block is put together.
    #[inline]
    pub(super) fn filler(&mut self, slot: u32, draw: u32) -> (Filler<'_>, &mut Vec<u8>) {
        let from = Filler {
            draw,
            user: &self.user,
            known: &self.streams[slot as usize].known,
        };
        (from, &mut self.block)
    }

    /// The final head of an answer, whose request is sent whole or not.
    pub(super) fn take_head(
        &mut self,
        filling: &Filling,
        (slot, ask, is_sent): (u32, Ask, bool),
        status: u16,
        is_coded: bool,
    ) {
        let (looks, looked) = (&filling.ready.prepared.looks, &filling.looked);
        if looks.look_into(ask.kind) {
            let OfStream { inspection, known } = &mut self.streams[slot as usize];
            inspection.begin(looks, looked, ask.kind, status, is_coded);
            if looks.need_fields(ask.kind) {
                let since = inspection.since(looked);
                for (name, value) in filling.fields.all() {
                    let value = value.trim_ascii();
                    // While its request is not sent its user must not change: the rest would be other bytes.
                    match is_sent {
                        true => inspection.field(looks, &mut self.user, name, value),
                        false => inspection.check_field(looks, name, value),
                    }
                }
                if filling.fields.is_short {
                    inspection.lacks_fields();
                }
                if inspection.is_beside() {
                    let prepared = &filling.ready.prepared;
                    prepared.follow(ask, known, &mut self.user, inspection);
                }
                inspection.took(looked, since);
            }
        }
    }

    #[inline]
    pub(super) fn take_body(&mut self, filling: &Filling, slot: u32, piece: &[u8]) {
        let (looks, looked) = (&filling.ready.prepared.looks, &filling.looked);
        let inspection = &mut self.streams[slot as usize].inspection;
        inspection.piece(looks, looked, piece);
    }

    /// An answer is whole, with so long a body: what it is worth, and whether the next follows its redirect.
    #[inline]
    pub(super) fn end(
        &mut self,
        filling: &mut Filling,
        slot: u32,
        body_bytes: u64,
    ) -> (Judged, Option<Redirect>) {
        let inspection = &mut self.streams[slot as usize].inspection;
        if !inspection.is_on() {
            return (Judged::ByStatus, None);
        }
        let (looks, looked) = (&filling.ready.prepared.looks, &filling.looked);
        let (caches, user) = (&mut filling.caches, &mut self.user);
        inspection.end(looks, looked, caches, user, body_bytes)
    }

    /// A request has failed, or was given up.
    pub(super) fn fail(&mut self, slot: u32) {
        self.streams[slot as usize].inspection.stop();
    }
}
