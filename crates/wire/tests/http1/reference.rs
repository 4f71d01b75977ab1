//! A decoder that is slow, plain and whole-buffer: what the connection must agree with.
//!
//! It sees all bytes at once, keeps no state between them, parses heads with string
//! searches, and copies every body. It shares no code with the one under test but
//! `flate2`'s raw inflater and checksum, and the decoders of br and zstd, which it makes anew
//! for each body.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Crc, Decompress, FlushDecompress, Status};
use wallfinder_wire::http1::{Anomalies, Options};
use wallfinder_wire::{Answer, Decode, Outcome, WireError};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use super::peer::{Case, Seen};

/// What must come of `bytes`, then the end of the stream if `eof`.
pub(crate) fn decode(case: &Case, bytes: &[u8], eof: bool) -> Seen {
    let mut anomalies = Anomalies::default();
    let mut outcomes = Vec::new();
    let mut rest = bytes;
    let mut decodes = case.options.decode != Decode::None;
    let requests = match case.options.connection_per_request {
        true => case.requests.min(1),
        false => case.requests,
    };
    for n in 0..requests {
        if rest.is_empty() {
            break;
        }
        let slot = n % case.options.in_flight_max;
        match answer(case, rest, eof, &mut decodes, &mut anomalies) {
            Ok(None) => return Seen::new(outcomes, &anomalies),
            Ok(Some(whole)) => {
                outcomes.push(Outcome::Answered(Answer { slot, ..whole }));
                rest = &rest[whole.wire_bytes as usize..];
                if !whole.reusable {
                    break;
                }
            }
            Err(error) => {
                let slot = Some(slot);
                outcomes.push(Outcome::Broken { slot, error });
                return Seen::new(outcomes, &anomalies);
            }
        }
    }
    if !rest.is_empty() {
        outcomes.push(Outcome::Broken {
            slot: None,
            error: WireError::H1Unsolicited,
        });
    }
    Seen::new(outcomes, &anomalies)
}

/// The answer at the start of `bytes`; nothing if it may still come.
fn answer(
    case: &Case,
    bytes: &[u8],
    eof: bool,
    decodes: &mut bool,
    anomalies: &mut Anomalies,
) -> Result<Option<Answer>, WireError> {
    let unfinished = || match eof {
        true => Err(WireError::H1Truncated),
        false => Ok(None),
    };
    let mut from = 0;
    let mut interims = 0;
    let head = loop {
        let Some(len) = head_len(&bytes[from..], &case.options)? else {
            return unfinished();
        };
        let head = Head::parse(&bytes[from..from + len])?;
        head.count(case, anomalies)?;
        from += len;
        if head.status >= 200 {
            break head;
        }
        interims += 1;
        if head.status == 101 || interims > case.options.interim_max {
            return Err(WireError::H1Interim);
        }
    };

    let body = match head.framing(case)? {
        Framing::Length(length) => Body::of_length(&bytes[from..], length),
        Framing::Chunked => Body::of_chunks(&bytes[from..], &case.options),
        Framing::ToClose => Body {
            data: bytes[from..].to_vec(),
            wire_bytes: bytes.len() - from,
            end: if eof { End::Whole } else { End::Unfinished },
        },
    };
    let mut decoded_bytes = match case.options.decode {
        Decode::None | Decode::Check => 0,
        Decode::Inflate => body.data.len() as u64,
    };
    if *decodes
        && !body.data.is_empty()
        && let Some(coding) = head.content_coding()
    {
        match (
            content(&coding, &body.data, case.options.decoded_bytes_max),
            &body.end,
        ) {
            (Content::Bad, _) | (Content::Unfinished, End::Whole) => {
                return Err(WireError::BodyDecode);
            }
            (Content::Good(bytes), End::Whole) => {
                decoded_bytes = bytes;
                *decodes = case.options.decode == Decode::Inflate;
            }
            _ => {}
        }
    }
    match body.end {
        End::Broken => Err(WireError::H1Chunk),
        End::Unfinished => unfinished(),
        End::Whole => Ok(Some(Answer {
            slot: 0,
            status: head.status,
            wire_bytes: (from + body.wire_bytes) as u64,
            body_bytes: body.data.len() as u64,
            decoded_bytes,
            reusable: head.persists(case)?,
            is_last: head.is_said_last(),
            call: None,
            judged: wallfinder_wire::Judged::ByStatus,
            redirects: None,
        })),
    }
}

/// Where the head ends; nothing if it has not.
fn head_len(bytes: &[u8], options: &Options) -> Result<Option<usize>, WireError> {
    let template = b"HTTP/1.vs200?";
    for (&byte, &expected) in bytes.iter().zip(template) {
        let fits = match expected {
            b'v' => byte == b'0' || byte == b'1',
            b's' => byte == b' ',
            b'2' => byte.is_ascii_digit() && byte != b'0',
            b'0' => byte.is_ascii_digit(),
            b'?' => b" \r\n".contains(&byte),
            exact => byte == exact,
        };
        if !fits {
            return Err(WireError::H1Status);
        }
    }
    let end = (0..=bytes.len())
        .find(|&end| bytes[..end].ends_with(b"\n\n") || bytes[..end].ends_with(b"\n\r\n"));
    let seen = &bytes[..end.unwrap_or(bytes.len())];
    let is_long = match end {
        Some(end) => end > options.head_bytes_max,
        None => bytes.len() >= options.head_bytes_max,
    };
    let seen = &seen[..seen.len().min(options.head_bytes_max)];
    let lines = seen.iter().filter(|&&byte| byte == b'\n').count();
    let fields = lines.saturating_sub(if end.is_some() { 2 } else { 1 });
    if is_long || fields > options.head_fields_max as usize {
        return Err(WireError::H1HeadLimit);
    }
    Ok(end)
}

/// A complete head, taken apart.
pub(crate) struct Head {
    /// Of the version.
    pub(crate) minor: u8,
    /// The status code.
    pub(crate) status: u16,
    /// Name and value, without white space around it.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    bare_line_feed: bool,
    folded: bool,
}

enum Framing {
    Length(u64),
    Chunked,
    ToClose,
}

impl Head {
    /// RFC 9112, sections 4 and 5. `bytes` end with the blank line.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Head, WireError> {
        let mut bare_line_feed = false;
        let mut lines: Vec<&[u8]> = Vec::new();
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let line = &line[..line.len() - 1];
            bare_line_feed |= !line.ends_with(b"\r");
            lines.push(line.strip_suffix(b"\r").unwrap_or(line));
        }
        lines.pop();
        let status_line = lines.remove(0);
        let (start, reason) = status_line
            .split_at_checked(12)
            .ok_or(WireError::H1Status)?;
        let minor = match &start[..9] {
            b"HTTP/1.0 " => 0,
            b"HTTP/1.1 " => 1,
            _ => return Err(WireError::H1Status),
        };
        let digits = std::str::from_utf8(&start[9..]).map_err(|_| WireError::H1Status)?;
        let status = digits.parse().map_err(|_| WireError::H1Status)?;
        let has_reason = reason.is_empty() || reason[0] == b' ';
        if status < 100 || !has_reason || !reason.iter().all(is_text) {
            return Err(WireError::H1Status);
        }
        let mut whole: Vec<Vec<u8>> = Vec::new();
        let mut folded = false;
        for line in lines {
            match whole.last_mut() {
                Some(last) if line.starts_with(b" ") || line.starts_with(b"\t") => {
                    folded = true;
                    last.extend_from_slice(b"  ");
                    last.extend_from_slice(line);
                }
                _ => whole.push(line.to_vec()),
            }
        }
        let fields: Result<Vec<_>, _> = whole.iter().map(|line| field(line)).collect();
        Ok(Head {
            minor,
            status,
            fields: fields?,
            bare_line_feed,
            folded,
        })
    }

    fn values(&self, name: &str) -> Vec<&[u8]> {
        let named = self
            .fields
            .iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_slice()).collect()
    }

    /// The elements of a list, in lower case; None where the field is not there.
    fn list(&self, name: &str) -> Option<Vec<Vec<u8>>> {
        let values = self.values(name);
        if values.is_empty() {
            return None;
        }
        let joined = values.join(&b","[..]).to_ascii_lowercase();
        let elements = joined.split(|&byte| byte == b',').map(trim);
        Some(elements.map(<[u8]>::to_vec).collect())
    }

    fn length(&self) -> Result<Option<u64>, WireError> {
        let Some(elements) = self.list("content-length") else {
            return Ok(None);
        };
        let mut lengths = Vec::new();
        for element in elements {
            let text = String::from_utf8(element).map_err(|_| WireError::H1Length)?;
            if !text.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(WireError::H1Length);
            }
            lengths.push(text.parse::<u64>().map_err(|_| WireError::H1Length)?);
        }
        if lengths.iter().any(|length| *length != lengths[0]) {
            return Err(WireError::H1Length);
        }
        Ok(Some(lengths[0]))
    }

    /// Whether `chunked` ends the transfer codings; None where there are none.
    fn chunked_last(&self) -> Result<Option<bool>, WireError> {
        let Some(mut codings) = self.list("transfer-encoding") else {
            return Ok(None);
        };
        codings.retain(|coding| !coding.is_empty());
        let known: [&[u8]; 6] = [
            b"chunked",
            b"gzip",
            b"x-gzip",
            b"deflate",
            b"compress",
            b"x-compress",
        ];
        let chunked = codings.iter().filter(|coding| *coding == b"chunked");
        if codings.is_empty()
            || chunked.count() > 1
            || !codings
                .iter()
                .all(|coding| known.contains(&coding.as_slice()))
        {
            return Err(WireError::H1Framing);
        }
        Ok(Some(codings.ends_with(&[b"chunked".to_vec()])))
    }

    fn never_has_body(&self, case: &Case) -> bool {
        self.status < 200 || [204, 304].contains(&self.status) || case.method == "HEAD"
    }

    fn framing(&self, case: &Case) -> Result<Framing, WireError> {
        Ok(match (self.chunked_last()?, self.length()?) {
            _ if self.never_has_body(case) => Framing::Length(0),
            (Some(true), _) => Framing::Chunked,
            (Some(false), _) => Framing::ToClose,
            (None, Some(length)) => Framing::Length(length),
            (None, None) => Framing::ToClose,
        })
    }

    /// Whether the server says that it answers nothing more here.
    fn is_said_last(&self) -> bool {
        let options = self.list("connection").unwrap_or_default();
        let has = |name: &[u8]| options.iter().any(|option| option == name);
        has(b"close") || (self.minor == 0 && !has(b"keep-alive"))
    }

    fn persists(&self, case: &Case) -> Result<bool, WireError> {
        let coding = self.chunked_last()?;
        let is_faulty = coding.is_some() && (self.minor == 0 || self.length()?.is_some());
        Ok(!case.options.connection_per_request
            && !self.is_said_last()
            && !is_faulty
            && !matches!(self.framing(case)?, Framing::ToClose))
    }

    /// Checks the framing, and counts what is odd.
    fn count(&self, case: &Case, anomalies: &mut Anomalies) -> Result<(), WireError> {
        let length = self.length()?;
        let coding = self.chunked_last()?;
        self.framing(case)?;
        let framed = length.is_some() || coding.is_some();
        let repeated = self
            .list("content-length")
            .is_some_and(|list| list.len() > 1);

        anomalies.length_beside_coding += u64::from(length.is_some() && coding.is_some());
        anomalies.length_repeated += u64::from(repeated);
        anomalies.bare_line_feed += u64::from(self.bare_line_feed);
        anomalies.chunked_not_last += u64::from(coding == Some(false));
        anomalies.coding_in_http10 += u64::from(coding.is_some() && self.minor == 0);
        anomalies.framing_without_body +=
            u64::from(framed && (self.status < 200 || self.status == 204));
        anomalies.line_folded += u64::from(self.folded);
        anomalies.status_out_of_class += u64::from(self.status >= 600);
        Ok(())
    }

    fn content_codings(&self) -> Vec<String> {
        let list = self.list("content-encoding").unwrap_or_default();
        let texts = list
            .iter()
            .map(|coding| String::from_utf8_lossy(coding).into_owned());
        texts
            .filter(|coding| !coding.is_empty() && coding != "identity")
            .collect()
    }

    /// The one coding there is, or a list of them; nothing where there is none.
    fn content_coding(&self) -> Option<String> {
        let codings = self.content_codings();
        (!codings.is_empty()).then(|| codings.join(","))
    }
}

fn field(line: &[u8]) -> Result<(String, Vec<u8>), WireError> {
    let colon = line.iter().position(|&byte| byte == b':');
    let (name, value) = line.split_at(colon.ok_or(WireError::H1Head)?);
    let value = &value[1..];
    if name.is_empty() || !name.iter().all(is_token) || !value.iter().all(is_text) {
        return Err(WireError::H1Head);
    }
    let name = String::from_utf8(name.to_vec()).expect("a token is ASCII");
    Ok((name, trim(value).to_vec()))
}

fn is_text(byte: &u8) -> bool {
    *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f)
}

fn is_token(byte: &u8) -> bool {
    let delimiters = b"\"(),/:;<=>?@[\\]{}";
    (0x21..0x7f).contains(byte) && !delimiters.contains(byte)
}

fn trim(bytes: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| b" \t".contains(byte);
    let Some(first) = bytes.iter().position(|byte| !is_space(byte)) else {
        return b"";
    };
    let last = bytes.iter().rposition(|byte| !is_space(byte));
    &bytes[first..=last.expect("there is a first")]
}

struct Body {
    data: Vec<u8>,
    wire_bytes: usize,
    end: End,
}

enum End {
    Whole,
    Unfinished,
    Broken,
}

impl Body {
    fn of_length(bytes: &[u8], length: u64) -> Body {
        let len = length.min(bytes.len() as u64) as usize;
        Body {
            data: bytes[..len].to_vec(),
            wire_bytes: len,
            end: match len as u64 == length {
                true => End::Whole,
                false => End::Unfinished,
            },
        }
    }

    /// RFC 9112, 7.1. Bytes that cannot be the start of a chunked body are refused even
    /// if more is to come.
    fn of_chunks(bytes: &[u8], options: &Options) -> Body {
        let mut body = Body {
            data: Vec::new(),
            wire_bytes: 0,
            end: End::Unfinished,
        };
        body.end = match body.read_chunks(bytes, options) {
            Some(true) => End::Whole,
            Some(false) => End::Unfinished,
            None => End::Broken,
        };
        body
    }

    fn read_chunks(&mut self, bytes: &[u8], options: &Options) -> Option<bool> {
        let mut rest = bytes;
        let mut extension_bytes = 0;
        loop {
            let line = Line::of(rest)?;
            let (size, extension) = chunk_size(line.text, line.has_cr)?;
            extension_bytes += extension;
            if extension_bytes > options.chunk_extension_bytes_max as usize {
                return None;
            }
            if !line.has_lf {
                return Some(false);
            }
            rest = line.rest;
            if size == 0 {
                break;
            }
            let len = size.min(rest.len() as u64) as usize;
            self.data.extend_from_slice(&rest[..len]);
            rest = &rest[len..];
            if (len as u64) < size {
                return Some(false);
            }
            let after = Line::of(rest)?;
            if !after.text.is_empty() {
                return None;
            }
            if !after.has_lf {
                return Some(false);
            }
            rest = after.rest;
        }
        let mut trailer_bytes = 0;
        loop {
            let line = Line::of(rest)?;
            if line.text.is_empty() {
                self.wire_bytes = bytes.len() - line.rest.len();
                return Some(line.has_lf);
            }
            let colon = line.text.iter().position(|&byte| byte == b':');
            let name = &line.text[..colon.unwrap_or(line.text.len())];
            let value = &line.text[name.len()..];
            let has_colon = colon.is_some() || !line.has_cr;
            if name.is_empty() || !has_colon || !name.iter().all(is_token) {
                return None;
            }
            if !value.iter().all(is_text) {
                return None;
            }
            trailer_bytes += line.text.len() + usize::from(line.has_cr) + usize::from(line.has_lf);
            if trailer_bytes > options.trailer_bytes_max as usize {
                return None;
            }
            if !line.has_lf {
                return Some(false);
            }
            rest = line.rest;
        }
    }
}

/// The bytes to the first CR, which LF must follow.
struct Line<'a> {
    text: &'a [u8],
    has_cr: bool,
    has_lf: bool,
    rest: &'a [u8],
}

impl Line<'_> {
    fn of(bytes: &[u8]) -> Option<Line<'_>> {
        let cr = bytes.iter().position(|&byte| byte == b'\r');
        let text = &bytes[..cr.unwrap_or(bytes.len())];
        let after = &bytes[text.len()..];
        let has_lf = after.starts_with(b"\r\n");
        if after.len() >= 2 && !has_lf {
            return None;
        }
        Some(Line {
            text,
            has_cr: cr.is_some(),
            has_lf,
            rest: if has_lf { &after[2..] } else { b"" },
        })
    }
}

/// The size, and the bytes of what follows it.
fn chunk_size(line: &[u8], is_whole: bool) -> Option<(u64, usize)> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit());
    let (digits, rest) = line.split_at(digits.count());
    let after_space = rest.iter().position(|byte| !b" \t".contains(byte));
    let extension = &rest[after_space.unwrap_or(rest.len())..];
    let is_missing = digits.is_empty() && (is_whole || !rest.is_empty());
    let is_padded = is_whole && extension.is_empty() && !rest.is_empty();
    let is_strange = !extension.is_empty() && extension[0] != b';';
    if is_missing || digits.len() > 16 || is_padded || is_strange {
        return None;
    }
    if !extension.iter().all(is_text) {
        return None;
    }
    let digits = std::str::from_utf8(digits).expect("hex is ASCII");
    let size = u64::from_str_radix(digits, 16).unwrap_or(0);
    Some((size, rest.len()))
}

enum Content {
    /// It came to so many bytes.
    Good(u64),
    Unfinished,
    Bad,
}

fn content(coding: &str, data: &[u8], cap: u64) -> Content {
    match coding {
        "gzip" | "x-gzip" => inflate_gzip(data, cap),
        "deflate" => inflate_deflate(data, cap),
        "br" => brotli(data, cap),
        "zstd" => zstd(data, cap),
        _ => Content::Bad,
    }
}

fn brotli(data: &[u8], cap: u64) -> Content {
    let alloc = StandardAlloc::default;
    let mut state = BrotliState::new_strict(alloc(), alloc(), alloc());
    let mut output = vec![0; cap as usize + 1];
    let (mut left, mut taken, mut room, mut written, mut total) =
        (data.len(), 0, output.len(), 0, 0);
    let result = BrotliDecompressStream(
        &mut left,
        &mut taken,
        data,
        &mut room,
        &mut written,
        &mut output,
        &mut total,
        &mut state,
    );
    match result {
        _ if written as u64 > cap => Content::Bad,
        BrotliResult::ResultSuccess if left == 0 => Content::Good(written as u64),
        BrotliResult::NeedsMoreInput => Content::Unfinished,
        _ => Content::Bad,
    }
}

/// Byte by byte: what is whole at once is held to no window.
fn zstd(data: &[u8], cap: u64) -> Content {
    let mut stream = DCtx::create();
    let limited = stream.set_parameter(DParameter::WindowLogMax(23));
    limited.expect("a limit that the format has");
    let mut output = vec![0; 1 << 18];
    let (mut produced, mut is_between) = (0, true);
    for byte in data.chunks(1) {
        let mut input = InBuffer::around(byte);
        while input.pos() < 1 {
            let mut output = OutBuffer::around(&mut output[..]);
            let Ok(wanted) = stream.decompress_stream(&mut output, &mut input) else {
                return Content::Bad;
            };
            produced += output.pos() as u64;
            is_between = wanted == 0;
        }
    }
    match is_between {
        _ if produced > cap => Content::Bad,
        true => Content::Good(produced),
        false => Content::Unfinished,
    }
}

/// RFC 1952: any number of members, end to end.
fn inflate_gzip(mut data: &[u8], cap: u64) -> Content {
    let mut produced = 0;
    while !data.is_empty() {
        let start = match gzip_header(data) {
            Ok(Some(len)) => len,
            Ok(None) => return Content::Unfinished,
            Err(()) => return Content::Bad,
        };
        match inflate(&data[start..], false, cap - produced) {
            None => return Content::Bad,
            Some((_, _, false)) => return Content::Unfinished,
            Some((output, taken, true)) => {
                let Some((trailer, rest)) = data[start + taken..].split_at_checked(8) else {
                    return Content::Unfinished;
                };
                let mut crc = Crc::new();
                crc.update(&output);
                if trailer[..4] != crc.sum().to_le_bytes()
                    || trailer[4..] != (output.len() as u32).to_le_bytes()
                {
                    return Content::Bad;
                }
                produced += output.len() as u64;
                data = rest;
            }
        }
    }
    Content::Good(produced)
}

fn gzip_header(data: &[u8]) -> Result<Option<usize>, ()> {
    let Some(fixed) = data.get(..10) else {
        return Ok(None);
    };
    let flags = fixed[3];
    if fixed[..3] != [0x1f, 0x8b, 8] || flags & 0xe0 != 0 {
        return Err(());
    }
    let mut at = 10;
    if flags & 4 != 0 {
        let Some(len) = data.get(at..at + 2) else {
            return Ok(None);
        };
        at += 2 + usize::from(len[0]) + 256 * usize::from(len[1]);
    }
    for flag in [8, 16] {
        if flags & flag != 0 {
            let text = data.get(at..).unwrap_or_default();
            let Some(nul) = text.iter().position(|&byte| byte == 0) else {
                return Ok(None);
            };
            at += nul + 1;
        }
    }
    if flags & 2 != 0 {
        let Some(sum) = data.get(at..at + 2) else {
            return Ok(None);
        };
        let mut crc = Crc::new();
        crc.update(&data[..at]);
        if sum != &crc.sum().to_le_bytes()[..2] {
            return Err(());
        }
        at += 2;
    }
    Ok((at <= data.len()).then_some(at))
}

fn inflate_deflate(data: &[u8], cap: u64) -> Content {
    let [first, second, ..] = *data else {
        return Content::Unfinished;
    };
    let check = u16::from(first) * 256 + u16::from(second);
    let is_zlib = first & 15 == 8 && first < 0x80 && check.is_multiple_of(31);
    match inflate(data, is_zlib, cap) {
        None => Content::Bad,
        Some((_, _, false)) => Content::Unfinished,
        Some((output, taken, true)) if taken == data.len() => Content::Good(output.len() as u64),
        Some(_) => Content::Bad,
    }
}

/// Output, bytes taken, and whether the stream ended; None if it is corrupt or too big.
fn inflate(data: &[u8], zlib: bool, cap: u64) -> Option<(Vec<u8>, usize, bool)> {
    let mut stream = Decompress::new(zlib);
    let mut output = vec![0; cap as usize + 1];
    let status = stream
        .decompress(data, &mut output, FlushDecompress::None)
        .ok()?;
    let produced = stream.total_out();
    if produced > cap {
        return None;
    }
    output.truncate(produced as usize);
    let taken = stream.total_in() as usize;
    Some((output, taken, status == Status::StreamEnd))
}
