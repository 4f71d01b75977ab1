//! The head of an answer: where it ends, and what it says of the body.
//!
//! RFC 9112, sections 2 to 6 and 9.3. Two steps, so that splits cannot matter: [`Scan`]
//! finds the blank line, over any number of pieces and each byte once; [`judge`] then
//! parses the whole head with `httparse` and draws the conclusions.
//!
//! `httparse` is strict where it counts (no space before a colon, no bare CR, NUL or other
//! control). It is lenient in four places, settled here: leading empty lines and statuses
//! below 100 are refused, LF-only line ends and a missing space after the status are
//! accepted. It refuses folded lines; those are unfolded first (RFC 9112, 5.2).

use std::mem::MaybeUninit;

use super::anomalies::Seen;
use super::fields::{Connection, Framing, Lengths, TransferCoding};
use crate::WireError;
use crate::content::{Coding, Codings};

/// What a complete head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Head {
    /// Its length with the blank line, in bytes.
    pub(super) len: u32,
    pub(super) status: u16,
    /// No further request may follow on this connection.
    pub(super) closes: bool,
    /// The peer said so, and processes no request behind this one.
    pub(super) is_last: bool,
    pub(super) seen: Seen,
    pub(super) framing: Framing,
    /// How the body is coded; plain where there is none.
    pub(super) coding: Coding,
}

impl Head {
    pub(super) fn is_interim(&self) -> bool {
        self.status < 200
    }
}

/// What a head's meaning depends on beside its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context {
    /// It answers a HEAD.
    pub(super) is_head: bool,
    /// The request asked for `Connection: close`.
    pub(super) always_closes: bool,
}

/// The search for a head's end, resumable at any byte.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scan {
    /// Bytes seen.
    pub(super) len: usize,
    /// Lines ended, the status line included and the blank one not.
    lines: u32,
    at: At,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum At {
    #[default]
    Line,
    LineStart,
    /// After a CR that started a line.
    LineStartCr,
}

/// What [`Scan::advance`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The head ends after this many of the bytes given.
    End(usize),
    NeedMore,
    TooLong,
}

impl Scan {
    /// Fields seen; exact once the end is found.
    pub(super) fn fields(&self) -> u32 {
        self.lines.saturating_sub(1)
    }

    /// Looks at the bytes that follow those seen before. Not to be called again once it
    /// has given anything but [`Found::NeedMore`].
    pub(super) fn advance(&mut self, bytes: &[u8], bytes_max: usize, fields_max: u32) -> Found {
        let room = bytes_max - self.len;
        let bytes = &bytes[..bytes.len().min(room)];
        let mut next = 0;
        while next < bytes.len() {
            let byte = bytes[next];
            match (self.at, byte) {
                (At::LineStart | At::LineStartCr, b'\n') => {
                    self.len += next + 1;
                    return Found::End(next + 1);
                }
                (At::LineStart, b'\r') => {
                    self.at = At::LineStartCr;
                    next += 1;
                }
                _ => match find_line_feed(bytes, next) {
                    None => {
                        self.at = At::Line;
                        next = bytes.len();
                    }
                    Some(at) => {
                        self.at = At::LineStart;
                        self.lines += 1;
                        next = at + 1;
                        if self.fields() > fields_max {
                            return Found::TooLong;
                        }
                    }
                },
            }
        }
        self.len += bytes.len();
        if self.len == bytes_max {
            Found::TooLong
        } else {
            Found::NeedMore
        }
    }
}

/// The first LF at or after `from`, eight bytes at a time.
#[inline]
fn find_line_feed(bytes: &[u8], from: usize) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    const LINE_FEEDS: u64 = u64::from_ne_bytes([b'\n'; 8]);
    let (words, tail) = bytes[from..].as_chunks::<8>();
    for (n, word) in words.iter().enumerate() {
        let differing = u64::from_le_bytes(*word) ^ LINE_FEEDS;
        let zeroes = differing.wrapping_sub(ONES) & !differing & HIGHS;
        if zeroes != 0 {
            return Some(from + n * 8 + zeroes.trailing_zeros() as usize / 8);
        }
    }
    let position = tail.iter().position(|&byte| byte == b'\n')?;
    Some(bytes.len() - tail.len() + position)
}

/// How many bytes of a status line are fixed enough to be judged before its end.
pub(super) const STATUS_PREFIX: usize = 13;

/// Whether a head may start so: `HTTP/1.0 200` or `HTTP/1.1 200`, and then a space or a
/// line end.
pub(super) fn may_start(prefix: &[u8]) -> bool {
    prefix
        .iter()
        .take(STATUS_PREFIX)
        .enumerate()
        .all(|(at, &byte)| match at {
            0..7 => byte == b"HTTP/1."[at],
            7 => byte == b'0' || byte == b'1',
            8 => byte == b' ',
            9 => (b'1'..=b'9').contains(&byte),
            10 | 11 => byte.is_ascii_digit(),
            _ => matches!(byte, b' ' | b'\r' | b'\n'),
        })
}

/// What a complete head of `fields` fields says. `bytes` ends with the blank line.
pub(super) fn judge(bytes: &[u8], fields: u32, context: Context) -> Result<Head, WireError> {
    const FIELDS_ON_STACK: usize = 64;
    if !may_start(bytes) {
        return Err(WireError::H1Status);
    }
    let judged = if fields as usize <= FIELDS_ON_STACK {
        let mut room = [const { MaybeUninit::uninit() }; FIELDS_ON_STACK];
        parse(bytes, &mut room, context)
    } else {
        let mut room = Vec::with_capacity(fields as usize);
        parse(bytes, room.spare_capacity_mut(), context)
    };
    if judged == Err(WireError::H1Head)
        && let Some(unfolded) = unfold(bytes)
    {
        // Nothing is left to unfold, so this is the last time.
        let mut head = judge(&unfolded, fields, context)?;
        head.seen.add_if(true, Seen::FOLDED);
        let bare = has_bare_line_feed(bytes);
        head.seen.add_if(bare, Seen::BARE_LINE_FEED);
        return Ok(head);
    }
    judged
}

/// A head whose folded lines are joined by spaces, as long as before; `None` where none is folded. A line
/// that begins with a space right after the status line continues no field, and stays.
#[cold]
fn unfold(head: &[u8]) -> Option<Vec<u8>> {
    let mut unfolded = head.to_vec();
    let mut from = find_line_feed(head, 0)? + 1;
    let mut any = false;
    while let Some(at) = find_line_feed(head, from) {
        from = at + 1;
        if matches!(head.get(from), Some(b' ' | b'\t')) {
            unfolded[at] = b' ';
            if head[at - 1] == b'\r' {
                unfolded[at - 1] = b' ';
            }
            any = true;
        }
    }
    any.then_some(unfolded)
}

fn parse<'b>(
    bytes: &'b [u8],
    room: &mut [MaybeUninit<httparse::Header<'b>>],
    context: Context,
) -> Result<Head, WireError> {
    let mut answer = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut answer,
        bytes,
        room,
    );
    match parsed {
        Ok(httparse::Status::Complete(len)) if len == bytes.len() => {
            conclude(&answer, bytes, context)
        }
        Ok(_) => Err(WireError::H1Head),
        Err(httparse::Error::Status | httparse::Error::Version | httparse::Error::Token) => {
            Err(WireError::H1Status)
        }
        Err(httparse::Error::TooManyHeaders) => Err(WireError::H1HeadLimit),
        Err(
            httparse::Error::HeaderName | httparse::Error::HeaderValue | httparse::Error::NewLine,
        ) => Err(WireError::H1Head),
    }
}

fn conclude(
    answer: &httparse::Response<'_, '_>,
    bytes: &[u8],
    context: Context,
) -> Result<Head, WireError> {
    let status = answer.code.unwrap_or_default();
    let http10 = answer.version == Some(0);
    let mut lengths = Lengths::default();
    let mut coding = TransferCoding::default();
    let mut connection = Connection::default();
    let mut content = Codings::default();
    for field in answer.headers.iter() {
        match field.name.len() {
            10 if field.name.eq_ignore_ascii_case("connection") => connection.add(field.value),
            14 if field.name.eq_ignore_ascii_case("content-length") => lengths.add(field.value),
            16 if field.name.eq_ignore_ascii_case("content-encoding") => {
                content = content.and(Codings::parse(field.value));
            }
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => coding.add(field.value),
            _ => {}
        }
    }
    let length = lengths.agreed()?;
    let coding = coding.framing()?;

    let never_has_body = status < 200 || status == 204;
    let framing = match (coding, length) {
        _ if never_has_body || status == 304 || context.is_head => Framing::Length(0),
        (Some(coding), _) => coding,
        (None, Some(length)) => Framing::Length(length),
        (None, None) => Framing::ToClose,
    };
    let both = coding.is_some() && length.is_some();
    let coded_http10 = coding.is_some() && http10;
    let persists = if http10 {
        connection.keep_alive && !connection.close
    } else {
        !connection.close
    };

    let mut seen = Seen::default();
    seen.add_if(both, Seen::LENGTH_BESIDE_CODING);
    seen.add_if(lengths.repeated(), Seen::LENGTH_REPEATED);
    seen.add_if(has_bare_line_feed(bytes), Seen::BARE_LINE_FEED);
    seen.add_if(coding == Some(Framing::ToClose), Seen::CHUNKED_NOT_LAST);
    seen.add_if(coded_http10, Seen::CODING_IN_HTTP10);
    let framed = coding.is_some() || length.is_some();
    seen.add_if(never_has_body && framed, Seen::FRAMING_WITHOUT_BODY);
    seen.add_if(status >= 600, Seen::STATUS_OUT_OF_CLASS);
    let has_body = framing != Framing::Length(0);

    Ok(Head {
        len: bytes.len() as u32,
        status,
        closes: context.always_closes
            || !persists
            || both
            || coded_http10
            || framing == Framing::ToClose,
        is_last: !persists,
        seen,
        framing,
        coding: if has_body {
            content.coding()
        } else {
            Coding::Plain
        },
    })
}

fn has_bare_line_feed(head: &[u8]) -> bool {
    let mut from = 0;
    while let Some(at) = find_line_feed(head, from) {
        if at == 0 || head[at - 1] != b'\r' {
            return true;
        }
        from = at + 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_feed_is_found_at_every_offset() {
        for len in 0..40 {
            for at in 0..=len {
                let mut bytes = vec![b'\x0b'; len];
                let expected = bytes.get_mut(at).map(|byte| *byte = b'\n').map(|()| at);
                for from in 0..=at.min(len) {
                    assert_eq!(find_line_feed(&bytes, from), expected);
                }
            }
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(find_line_feed(&all, 0), Some(10));
        assert_eq!(find_line_feed(&all, 11), None);
    }

    #[test]
    fn the_end_is_found_whatever_the_pieces() {
        for (head, fields) in [
            ("a\r\n\r\n", 0),
            ("a\n\n", 0),
            ("a\r\nb\r\n\r\n", 1),
            ("a\n\rb\nc\r\r\n\n", 2),
            ("a\r\n\r\r\n\r\n", 1),
            ("\r\n\r\n", 0),
        ] {
            let bytes = [head.as_bytes(), b"\n\r\n\r\n"].concat();
            for size in 1..=bytes.len() {
                let mut scan = Scan::default();
                let mut seen = 0;
                let end = bytes.chunks(size).find_map(|piece| {
                    let found = scan.advance(piece, 1000, 10);
                    let before = seen;
                    seen += piece.len();
                    match found {
                        Found::End(count) => Some(before + count),
                        Found::NeedMore => None,
                        Found::TooLong => panic!("too long"),
                    }
                });
                assert_eq!((end, scan.fields()), (Some(head.len()), fields), "{head:?}");
            }
        }
    }

    #[test]
    fn a_status_line_may_start_as_the_standard_says() {
        let line = b"HTTP/1.1 200 OK";
        for len in 0..line.len() {
            assert!(may_start(&line[..len]));
        }
        for at in 0..STATUS_PREFIX {
            let mut bad = *line;
            bad[at] = b'x';
            assert!(!may_start(&bad), "{at}");
            assert!(!may_start(&bad[..=at]), "{at}");
        }
    }
}
