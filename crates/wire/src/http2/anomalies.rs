//! What a peer did against the standard, or beside it, without failing an answer.

/// How often each was seen, over all connections of a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Anomalies {
    /// Values with white space at an end (RFC 9113, 8.2.1). Counted once for each head.
    pub value_padded: u64,
    /// The same length given more than once (RFC 9110, 8.6). Counted once for each head.
    pub length_repeated: u64,
    /// A status of 600 to 999 (RFC 9110, 15).
    pub status_out_of_class: u64,
    /// Answers that were whole before their request was (RFC 9113, 8.1).
    pub answered_early: u64,
    /// GOAWAYs of the peer (RFC 9113, 6.8).
    pub goaways: u64,
    /// Those of them that name an error.
    pub goaways_with_error: u64,
    /// Coded bodies that were to be decoded and were not, since too many were under way.
    pub content_not_decoded: u64,
}

impl Anomalies {
    /// Name and count of each, in a fixed order.
    pub fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("value_padded", self.value_padded),
            ("length_repeated", self.length_repeated),
            ("status_out_of_class", self.status_out_of_class),
            ("answered_early", self.answered_early),
            ("goaways", self.goaways),
            ("goaways_with_error", self.goaways_with_error),
            ("content_not_decoded", self.content_not_decoded),
        ]
    }

    /// Adds those of another worker.
    pub fn add(&mut self, other: &Anomalies) {
        self.value_padded += other.value_padded;
        self.length_repeated += other.length_repeated;
        self.status_out_of_class += other.status_out_of_class;
        self.answered_early += other.answered_early;
        self.goaways += other.goaways;
        self.goaways_with_error += other.goaways_with_error;
        self.content_not_decoded += other.content_not_decoded;
    }

    #[cold]
    pub(super) fn count(&mut self, seen: Seen) {
        self.value_padded += u64::from(seen.has(Seen::VALUE_PADDED));
        self.length_repeated += u64::from(seen.has(Seen::LENGTH_REPEATED));
    }
}

/// The anomalies of one header block, as a set of bits that the memo keeps with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen(u8);

impl Seen {
    pub(super) const VALUE_PADDED: Seen = Seen(1);
    pub(super) const LENGTH_REPEATED: Seen = Seen(2);

    #[inline]
    pub(super) fn any(self) -> bool {
        self.0 != 0
    }

    pub(super) fn has(self, other: Seen) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn add(&mut self, other: Seen) {
        self.0 |= other.0;
    }
}
