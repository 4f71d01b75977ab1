//! What a peer did against the standard without breaking its framing.
//!
//! An anomaly is not a failure: the answer counts. It is for the report, since a server
//! that needs lenience here will meet clients that have none.

/// How often each was seen, over all connections of a worker. Counted once for each head
/// that shows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Anomalies {
    /// `Content-Length` beside `Transfer-Encoding` (RFC 9112, 6.3): the coding won.
    pub length_beside_coding: u64,
    /// The same length given more than once (RFC 9110, 8.6).
    pub length_repeated: u64,
    /// Lines of a head that end with LF alone (RFC 9112, 2.2).
    pub bare_line_feed: u64,
    /// A transfer coding whose last is not `chunked` (RFC 9112, 6.3): read to close.
    pub chunked_not_last: u64,
    /// `Transfer-Encoding` in an HTTP/1.0 answer (RFC 9112, 6.1).
    pub coding_in_http10: u64,
    /// A length or coding on a 1xx or 204 answer (RFC 9110, 8.6; RFC 9112, 6.1).
    pub framing_without_body: u64,
    /// A status of 600 to 999 (RFC 9110, 15).
    pub status_out_of_class: u64,
    /// Folded lines in a head (RFC 9112, 5.2): read as spaces.
    pub line_folded: u64,
    /// Coded bodies that were to be decoded and were not, since too many were under way.
    pub content_not_decoded: u64,
}

impl Anomalies {
    /// Name and count of each, in a fixed order.
    pub fn named(&self) -> [(&'static str, u64); 9] {
        [
            ("length_beside_coding", self.length_beside_coding),
            ("length_repeated", self.length_repeated),
            ("bare_line_feed", self.bare_line_feed),
            ("chunked_not_last", self.chunked_not_last),
            ("coding_in_http10", self.coding_in_http10),
            ("framing_without_body", self.framing_without_body),
            ("status_out_of_class", self.status_out_of_class),
            ("line_folded", self.line_folded),
            ("content_not_decoded", self.content_not_decoded),
        ]
    }

    /// Adds those of another worker.
    pub fn add(&mut self, other: &Anomalies) {
        self.length_beside_coding += other.length_beside_coding;
        self.length_repeated += other.length_repeated;
        self.bare_line_feed += other.bare_line_feed;
        self.chunked_not_last += other.chunked_not_last;
        self.coding_in_http10 += other.coding_in_http10;
        self.framing_without_body += other.framing_without_body;
        self.status_out_of_class += other.status_out_of_class;
        self.line_folded += other.line_folded;
        self.content_not_decoded += other.content_not_decoded;
    }

    #[cold]
    pub(super) fn count(&mut self, seen: Seen) {
        let one_if = |bit: Seen| u64::from(seen.has(bit));
        self.length_beside_coding += one_if(Seen::LENGTH_BESIDE_CODING);
        self.length_repeated += one_if(Seen::LENGTH_REPEATED);
        self.bare_line_feed += one_if(Seen::BARE_LINE_FEED);
        self.chunked_not_last += one_if(Seen::CHUNKED_NOT_LAST);
        self.coding_in_http10 += one_if(Seen::CODING_IN_HTTP10);
        self.framing_without_body += one_if(Seen::FRAMING_WITHOUT_BODY);
        self.status_out_of_class += one_if(Seen::STATUS_OUT_OF_CLASS);
        self.line_folded += one_if(Seen::FOLDED);
    }
}

/// The anomalies of one head, as a set of bits that the memo keeps with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen(u8);

impl Seen {
    pub(super) const LENGTH_BESIDE_CODING: Seen = Seen(1);
    pub(super) const LENGTH_REPEATED: Seen = Seen(2);
    pub(super) const BARE_LINE_FEED: Seen = Seen(4);
    pub(super) const CHUNKED_NOT_LAST: Seen = Seen(8);
    pub(super) const CODING_IN_HTTP10: Seen = Seen(16);
    pub(super) const FRAMING_WITHOUT_BODY: Seen = Seen(32);
    pub(super) const STATUS_OUT_OF_CLASS: Seen = Seen(64);
    pub(super) const FOLDED: Seen = Seen(128);

    #[inline]
    pub(super) fn any(self) -> bool {
        self.0 != 0
    }

    pub(super) fn has(self, other: Seen) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn add_if(&mut self, condition: bool, other: Seen) {
        if condition {
            self.0 |= other.0;
        }
    }
}
