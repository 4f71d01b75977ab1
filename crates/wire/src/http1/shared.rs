//! What the connections of one worker have in common.

use std::sync::Arc;

use super::anomalies::Anomalies;
use super::filled::{Filling, Ready};
use super::head::{self, Head};
use super::memo::Memo;
use super::options::Options;
use crate::WireError;
use crate::content::{Decode, Decoders};
use crate::mix::Template;
use crate::request::{BadRequest, Request};
use crate::sending::Form;

/// One worker's encoded request, limits, memo of heads and counters.
#[derive(Debug)]
pub struct Shared {
    pub(super) options: Options,
    /// Of the request as it was asked for.
    request_len: usize,
    block: Arc<[u8]>,
    /// Of each kind of request, as it was asked for and its longer forms.
    kinds: Vec<Vec<Form>>,
    /// What is issued of the first kind now: of the only one, mostly.
    first: Form,
    /// Which of them is issued from now on.
    form: usize,
    /// Whether every request asks for no body, where none is filled in.
    is_head: bool,
    memo: Memo,
    /// Of answers to HEAD, whose heads speak of bodies that do not come.
    memo_of_heads: Memo,
    pub(super) anomalies: Anomalies,
    pub(super) decoders: Decoders,
    /// Where requests are filled in for each use, or answers looked into.
    pub(super) filling: Option<Filling>,
}

/// Copies of the request in the block fill at most this many bytes, or are one.
const BLOCK_BYTES_MAX: usize = 64 * 1024;

impl Shared {
    /// Checks and encodes `request`.
    pub fn new(request: &Request, options: Options) -> Result<Shared, BadRequest> {
        Shared::of_kinds(&[&Template::from(request)], options)
    }

    /// Checks and encodes requests of several kinds without places, which [`Wire::issue_one`](crate::Wire::issue_one)
    /// names by their places. Either all of them are HEAD requests, or none: connections do not keep which of them they
    /// sent, as those of [`Shared::of_mix`] do.
    pub fn of_kinds(requests: &[&Template], mut options: Options) -> Result<Shared, BadRequest> {
        check(&options)?;
        let one_each = options.connection_per_request;
        let encoded = requests.iter().map(|request| request.encode(one_each, 0));
        let encoded = encoded.collect::<Result<Vec<_>, _>>()?;
        let first = encoded
            .first()
            .ok_or(BadRequest::new("requests", "are none"))?;
        if encoded.iter().any(|other| other.is_head != first.is_head) {
            return Err(BadRequest::new(
                "method",
                "is HEAD for some and not for all",
            ));
        }
        if encoded.iter().any(|other| other.closes != first.closes) {
            return Err(BadRequest::new(
                "Connection",
                "closes for some and not for all",
            ));
        }
        let (is_head, closes) = (first.is_head, first.closes);
        options.close_after_one(closes);
        let (mut block, mut kinds) = (Vec::new(), Vec::new());
        for request in requests {
            let mut forms = Vec::new();
            for padding in std::iter::once(0).chain(options.paddings.iter().copied()) {
                let one = request.encode_fixed(options.connection_per_request, padding)?;
                let request_len = one.len();
                let copies =
                    (BLOCK_BYTES_MAX / request_len).clamp(1, options.in_flight_max as usize);
                let start = block.len();
                block.extend(one.repeat(copies));
                forms.push(Form {
                    start,
                    len: block.len() - start,
                    request_len,
                });
            }
            kinds.push(forms);
        }
        Ok(Shared {
            block: block.into(),
            ..Shared::of_forms(kinds, is_head, options)
        })
    }

    /// Those of a mix, which are filled in for each use.
    pub fn of_mix(ready: &Arc<Ready>, mut options: Options) -> Result<Shared, BadRequest> {
        check(&options)?;
        options.close_after_one(ready.closes);
        let forms = vec![Form::default(); 1 + options.paddings.len()];
        let filling = Filling::of(ready, &options.paddings);
        Ok(Shared {
            filling: Some(filling),
            ..Shared::of_forms(vec![forms], false, options)
        })
    }

    fn of_forms(kinds: Vec<Vec<Form>>, is_head: bool, options: Options) -> Shared {
        Shared {
            decoders: Decoders::new(options.decode, options.decoded_bytes_max),
            options,
            request_len: kinds[0][0].request_len,
            block: Arc::from([]),
            first: kinds[0][0],
            kinds,
            form: 0,
            is_head,
            memo: Memo::new(),
            memo_of_heads: Memo::new(),
            anomalies: Anomalies::default(),
            filling: None,
        }
    }

    /// Whether connections make what they send, which is else a range of the block.
    pub fn makes_bytes(&self) -> bool {
        self.filling.is_some()
    }

    /// The longest that a request is; of those that are the same, all that stand in the block for one send.
    pub fn request_bytes_max(&self) -> usize {
        let filled = self.filling.as_ref().map(Filling::request_bytes_max);
        filled.unwrap_or(self.block.len())
    }

    /// Whether taking an answer may allocate: the library of regular expressions does when it first comes to a state.
    pub fn may_allocate(&self) -> bool {
        self.filling.as_ref().is_some_and(Filling::may_allocate)
    }

    /// Which form is issued now.
    #[inline]
    pub(super) fn form_number(&self) -> usize {
        self.form
    }

    /// Runs of different forms that a connection may have unsent, behind the first.
    pub(super) fn runs_max(&self) -> usize {
        match self.kinds.len() {
            1 => 0,
            _ => self.options.in_flight_max as usize,
        }
    }

    /// The encoded request, repeated, and behind it its longer forms: what
    /// [`Transmit::Block`](crate::Transmit::Block) refers to.
    pub fn block(&self) -> &Arc<[u8]> {
        &self.block
    }

    /// The length of one encoded request without padding, in bytes.
    pub fn request_bytes(&self) -> usize {
        self.request_len
    }

    /// The form of what is issued of a kind from now on.
    #[inline]
    pub(super) fn form(&self, kind: u16) -> Form {
        match kind {
            0 => self.first,
            kind => self.kinds[usize::from(kind)][self.form],
        }
    }

    pub(super) fn take_form(&mut self, form: usize) {
        assert!(form < self.kinds[0].len(), "there is no form {form}");
        self.form = form;
        self.first = self.kinds[0][form];
    }

    /// Bytes of a kind's requests: those written, where they are filled in, and else as many as `sent` have as they were
    /// asked for.
    pub(super) fn sent_bytes(&self, kind: u16, sent: u64) -> u64 {
        let kind = usize::from(kind);
        match &self.filling {
            Some(filling) => filling.written(kind),
            None => sent * self.kinds[kind][0].request_len as u64,
        }
    }

    /// What the connections of this worker have seen so far.
    pub fn anomalies(&self) -> &Anomalies {
        &self.anomalies
    }

    /// The remembered head that `bytes` starts with, if it is the one seen last.
    #[inline]
    pub(super) fn recall(&self, bytes: &[u8], is_head: bool) -> Option<Head> {
        let memo = if is_head {
            &self.memo_of_heads
        } else {
            &self.memo
        };
        memo.recall_last(bytes)
    }

    /// Whether every request asks for no body, where none is filled in.
    #[inline]
    pub(super) fn is_head(&self) -> bool {
        self.is_head
    }

    /// What a complete head says, of an answer to HEAD or another; `head` ends with its blank line.
    pub(super) fn judge(
        &mut self,
        head: &[u8],
        fields: u32,
        is_head: bool,
    ) -> Result<Head, WireError> {
        let memo = if is_head {
            &mut self.memo_of_heads
        } else {
            &mut self.memo
        };
        if let Some(known) = memo.recall(head) {
            return Ok(known);
        }
        let context = head::Context {
            is_head,
            always_closes: self.options.connection_per_request,
        };
        let judged = head::judge(head, fields, context)?;
        memo.remember(head, judged);
        Ok(judged)
    }

    /// What a body that is not coded counts as, decoded.
    #[inline]
    pub(super) fn decoded_plain(&self, bytes: u64) -> u64 {
        match self.options.decode {
            Decode::None | Decode::Check => 0,
            Decode::Inflate => bytes,
        }
    }

    #[inline]
    pub(super) fn count(&mut self, head: &Head) {
        if head.seen.any() {
            self.anomalies.count(head.seen);
        }
    }
}

fn check(options: &Options) -> Result<(), BadRequest> {
    if options.in_flight_max == 0 {
        return Err(BadRequest::new("in_flight_max", "is 0"));
    }
    if options.head_bytes_max < 64 {
        return Err(BadRequest::new("head_bytes_max", "is below 64"));
    }
    Ok(())
}
