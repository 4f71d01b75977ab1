//! What the fields of an answer mean to a client that measures (RFC 9113, 8.2 and 8.3).
//!
//! A field is judged once, when it is first spelled out; the dynamic table keeps the
//! judgement. A section that breaks a rule is malformed as a whole, by its first breach.

use super::anomalies::Seen;
use super::fault::Breach;
use super::hpack::Interpret;
use crate::WireError;
use crate::content::Codings;
use crate::grpc::{Status, is_grpc};

/// Meanings instead of text.
#[derive(Debug)]
pub(super) struct Meaning;

/// What a name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Status,
    ContentLength,
    ContentType,
    ContentEncoding,
    /// `grpc-status`.
    CallStatus,
    /// Of no interest.
    Plain,
    /// A pseudo-field that no answer has.
    OtherPseudo,
    /// A field of HTTP/1 connections.
    OfConnections,
    /// Upper case, a control, a space, a colon, or nothing.
    Bad,
}

/// What a value means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Status(u16),
    Length(u64),
    /// A content type of gRPC's.
    Grpc,
    Codings(Codings),
    Call(Status),
    Plain,
    /// White space at an end.
    Padded,
    /// NUL, CR, LF, or what its name cannot have.
    Bad,
}

impl Interpret for Meaning {
    type Name = Name;
    type Value = Value;

    fn name(bytes: &[u8]) -> Name {
        match bytes {
            b":status" => Name::Status,
            b"content-length" => Name::ContentLength,
            b"content-type" => Name::ContentType,
            b"content-encoding" => Name::ContentEncoding,
            b"grpc-status" => Name::CallStatus,
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => Name::OfConnections,
            [b':', ..] => Name::OtherPseudo,
            _ if bytes.is_empty() || bytes.iter().any(|byte| !may_name(*byte)) => Name::Bad,
            _ => Name::Plain,
        }
    }

    fn value(name: &Name, bytes: &[u8]) -> Value {
        match name {
            Name::Status => match bytes {
                [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] => {
                    let digit = |at: usize| u16::from(bytes[at] - b'0');
                    Value::Status(digit(0) * 100 + digit(1) * 10 + digit(2))
                }
                _ => Value::Bad,
            },
            Name::ContentLength => length(bytes).map_or(Value::Bad, Value::Length),
            _ if bytes.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) => Value::Bad,
            _ if is_space(bytes.first()) || is_space(bytes.last()) => Value::Padded,
            Name::CallStatus => Value::Call(Status::parse(bytes)),
            Name::ContentType if is_grpc(bytes) => Value::Grpc,
            Name::ContentEncoding => Value::Codings(Codings::parse(bytes)),
            _ => Value::Plain,
        }
    }
}

/// RFC 9113, 8.2.1.
fn may_name(byte: u8) -> bool {
    !matches!(byte, 0..=b' ' | b'A'..=b'Z' | b':' | 0x7f..)
}

fn is_space(byte: Option<&u8>) -> bool {
    matches!(byte, Some(b' ' | b'\t'))
}

fn length(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0_u64, |length, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length.checked_mul(10)?.checked_add(digit)
    })
}

/// What one header block says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Section {
    /// 0: none.
    pub(super) status: u16,
    pub(super) length: Option<u64>,
    pub(super) breach: Option<Breach>,
    pub(super) seen: Seen,
    pub(super) has_fields: bool,
    /// Its content type is one of gRPC's.
    pub(super) is_grpc: bool,
    pub(super) codings: Codings,
    pub(super) call: Status,
}

impl Section {
    /// Takes the next field.
    #[inline]
    pub(super) fn take(&mut self, name: Name, value: Value) {
        match (name, value) {
            (Name::Plain | Name::ContentType, Value::Plain) => {}
            (Name::Status, Value::Status(status)) if self.status == 0 && !self.has_fields => {
                self.status = status;
                return;
            }
            (Name::ContentLength, Value::Length(length)) => self.take_length(length),
            (Name::ContentType, Value::Grpc) => self.is_grpc = true,
            (Name::ContentEncoding, Value::Codings(codings)) => {
                self.codings = self.codings.and(codings);
            }
            (Name::CallStatus, Value::Call(status)) => self.call = self.call.and(status),
            _ => self.take_anomaly(name, value),
        }
        self.has_fields = true;
    }

    fn take_length(&mut self, length: u64) {
        match self.length {
            None => self.length = Some(length),
            Some(before) if before == length => self.seen.add(Seen::LENGTH_REPEATED),
            Some(_) => self.breaks(WireError::H2Length, "differing lengths (RFC 9110, 8.6)"),
        }
    }

    #[cold]
    fn take_anomaly(&mut self, name: Name, value: Value) {
        let why = match (name, value) {
            (
                Name::Plain | Name::ContentType | Name::ContentEncoding | Name::CallStatus,
                Value::Padded,
            ) => {
                self.seen.add(Seen::VALUE_PADDED);
                match name {
                    Name::CallStatus => self.call = Status::Bad,
                    Name::ContentEncoding => self.codings = Codings::unknown(),
                    _ => {}
                }
                return;
            }
            (Name::ContentLength, _) => {
                self.breaks(
                    WireError::H2Length,
                    "a length that is not one (RFC 9110, 8.6)",
                );
                return;
            }
            (Name::Status, Value::Status(_)) if self.status != 0 => {
                ":status given twice (RFC 9113, 8.3)"
            }
            (Name::Status, Value::Status(_)) => "a pseudo-field behind a field (RFC 9113, 8.3)",
            (Name::Status, _) => ":status is not three digits (RFC 9110, 15)",
            (Name::OtherPseudo, _) => "a pseudo-field that no answer has (RFC 9113, 8.3.2)",
            (Name::OfConnections, _) => "a field of HTTP/1 connections (RFC 9113, 8.2.2)",
            (Name::Bad, _) => "a name that is not lower-case text (RFC 9113, 8.2.1)",
            _ => "NUL, CR or LF in a value (RFC 9113, 8.2.1)",
        };
        self.breaks(WireError::H2Head, why);
    }

    fn breaks(&mut self, error: WireError, why: &'static str) {
        self.breach.get_or_insert(Breach::malformed(error, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(fields: &[(&str, &str)]) -> Section {
        let mut section = Section::default();
        for (name, value) in fields {
            let name = Meaning::name(name.as_bytes());
            section.take(name, Meaning::value(&name, value.as_bytes()));
        }
        section
    }

    #[track_caller]
    fn assert_breaks(fields: &[(&str, &str)], error: WireError) {
        let breach = section(fields).breach.expect("a breach");
        assert_eq!(breach.error, error);
    }

    #[test]
    fn status_and_length_are_found_among_the_rest() {
        let sound = section(&[
            (":status", "404"),
            ("server", "x"),
            ("content-length", "0042"),
            ("empty", ""),
        ]);
        assert_eq!(sound.breach, None);
        assert_eq!((sound.status, sound.length), (404, Some(42)));
    }

    #[test]
    fn pseudo_fields_come_first_once_and_are_status() {
        for fields in [
            &[("a", "b"), (":status", "200")][..],
            &[(":status", "200"), (":status", "200")],
            &[(":status", "200"), (":path", "/")],
            &[(":", "")],
            &[(":status", "20")],
            &[(":status", "099")],
            &[(":status", "2000")],
            &[(":status", "2x0")],
            &[(":status", " 200")],
        ] {
            assert_breaks(fields, WireError::H2Head);
        }
    }

    #[test]
    fn names_are_lower_case_and_not_of_connections() {
        for name in [
            "",
            "Date",
            "a b",
            "a\u{1}",
            "a:b",
            "caf\u{e9}",
            "a\u{7f}",
            "connection",
            "keep-alive",
            "proxy-connection",
            "transfer-encoding",
            "upgrade",
        ] {
            assert_breaks(&[(":status", "200"), (name, "x")], WireError::H2Head);
        }
    }

    #[test]
    fn values_end_no_line() {
        for value in ["a\r\nb", "a\n", "\r", "a\0b"] {
            assert_breaks(&[(":status", "200"), ("x", value)], WireError::H2Head);
        }
        let padded = section(&[(":status", "200"), ("x", " a"), ("y", "b\t")]);
        assert_eq!(padded.breach, None);
        assert!(padded.seen.has(Seen::VALUE_PADDED));
    }

    #[test]
    fn calls_are_known_by_their_type_and_end_with_a_status() {
        for (content_type, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("Application/gRPC;charset=x", true),
            ("application/grpc-web", false),
            ("application/json", false),
            ("", false),
        ] {
            let seen = section(&[(":status", "200"), ("content-type", content_type)]);
            assert_eq!((seen.is_grpc, seen.breach), (expected, None));
        }
        let status = |values: &[&str]| {
            let fields: Vec<_> = values.iter().map(|v| ("grpc-status", *v)).collect();
            section(&fields).call
        };
        assert_eq!(status(&[]), Status::Missing);
        assert_eq!(status(&["14", "14"]), Status::parse(b"14"));
        for bad in [&["0", "14"][..], &[" 0"], &["0", " 0"], &["OK"], &[""]] {
            assert_eq!(status(bad), Status::Bad, "{bad:?}");
        }
        assert_breaks(&[("grpc-status", "0\r\n")], WireError::H2Head);
    }

    #[test]
    fn lengths_are_numbers_and_agree() {
        for lengths in [
            &["-1"][..],
            &["0x2a"],
            &["42s"],
            &["+1"],
            &[" 1"],
            &[""],
            &["18446744073709551616"],
            &["1", "2"],
        ] {
            let fields: Vec<_> = lengths.iter().map(|l| ("content-length", *l)).collect();
            assert_breaks(&fields, WireError::H2Length);
        }
        let twice = section(&[("content-length", "7"), ("content-length", "7")]);
        assert_eq!((twice.breach, twice.length), (None, Some(7)));
        assert!(twice.seen.has(Seen::LENGTH_REPEATED));
        let most = section(&[("content-length", "18446744073709551615")]);
        assert_eq!(most.length, Some(u64::MAX));
    }
}
