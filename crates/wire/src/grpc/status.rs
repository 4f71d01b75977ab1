//! What became of a call, as its peer says it in `grpc-status`.

use crate::WireError;
use strum::VariantArray;

/// The codes of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Code {
    Ok,
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

impl Code {
    /// Every code, in the order of its number.
    pub const ALL: [Code; Code::VARIANTS.len()] = *Code::VARIANTS.first_chunk().unwrap();
}

/// What a header block says of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Status {
    /// Nothing.
    #[default]
    Missing,
    /// What is no number, or differing numbers.
    Bad,
    /// A code of the specification.
    Known(Code),
    /// A number that the specification does not know.
    Other,
}

impl Status {
    /// Reads the value of `grpc-status`.
    pub(crate) fn parse(bytes: &[u8]) -> Status {
        if bytes.is_empty() || !bytes.iter().all(u8::is_ascii_digit) {
            return Status::Bad;
        }
        let digit = |number: usize, byte: &u8| {
            let digit = usize::from(byte - b'0');
            number.saturating_mul(10).saturating_add(digit)
        };
        match Code::ALL.get(bytes.iter().fold(0, digit)) {
            Some(code) => Status::Known(*code),
            None => Status::Other,
        }
    }

    /// The same field once more.
    pub(crate) fn and(self, again: Status) -> Status {
        if self == Status::Missing || self == again {
            again
        } else {
            Status::Bad
        }
    }
}

impl WireError {
    /// The class of a call that ended with this code; `None` for OK.
    pub(crate) const fn of_code(code: Code) -> Option<WireError> {
        Some(match code {
            Code::Ok => return None,
            Code::Cancelled => WireError::GrpcCancelled,
            Code::Unknown => WireError::GrpcUnknown,
            Code::InvalidArgument => WireError::GrpcInvalidArgument,
            Code::DeadlineExceeded => WireError::GrpcDeadlineExceeded,
            Code::NotFound => WireError::GrpcNotFound,
            Code::AlreadyExists => WireError::GrpcAlreadyExists,
            Code::PermissionDenied => WireError::GrpcPermissionDenied,
            Code::ResourceExhausted => WireError::GrpcResourceExhausted,
            Code::FailedPrecondition => WireError::GrpcFailedPrecondition,
            Code::Aborted => WireError::GrpcAborted,
            Code::OutOfRange => WireError::GrpcOutOfRange,
            Code::Unimplemented => WireError::GrpcUnimplemented,
            Code::Internal => WireError::GrpcInternal,
            Code::Unavailable => WireError::GrpcUnavailable,
            Code::DataLoss => WireError::GrpcDataLoss,
            Code::Unauthenticated => WireError::GrpcUnauthenticated,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_a_number() {
        assert_eq!(Status::parse(b"0"), Status::Known(Code::Ok));
        assert_eq!(Status::parse(b"16"), Status::Known(Code::Unauthenticated));
        assert_eq!(Status::parse(b"014"), Status::Known(Code::Unavailable));
        for other in [&b"17"[..], b"99999999999999999999999999"] {
            assert_eq!(Status::parse(other), Status::Other);
        }
        for bad in [&b""[..], b"-1", b"+0", b"0x0", b"OK", b"0 ", b"1.0"] {
            assert_eq!(Status::parse(bad), Status::Bad);
        }
    }

    #[test]
    fn every_code_has_its_number_and_a_class_of_its_name() {
        for (number, code) in Code::ALL.iter().enumerate() {
            assert_eq!(*code as usize, number);
            let class = WireError::of_code(*code).map(WireError::class);
            let mut name = String::new();
            for letter in format!("{code:?}").chars() {
                if letter.is_uppercase() && !name.is_empty() {
                    name.push('_');
                }
                name.extend(letter.to_lowercase());
            }
            let expected = (*code != Code::Ok).then(|| format!("grpc.status.{name}"));
            assert_eq!(class, expected.as_deref());
        }
    }

    #[test]
    fn statuses_that_differ_are_none() {
        let (ok, internal) = (Status::parse(b"0"), Status::parse(b"13"));
        assert_eq!(Status::Missing.and(ok), ok);
        assert_eq!(ok.and(ok), ok);
        assert_eq!(ok.and(internal), Status::Bad);
        assert_eq!(Status::Bad.and(ok), Status::Bad);
    }
}
