//! Frames: their header, kinds, flags and error codes (RFC 9113, 4.1, 6 and 7).

use strum::{IntoStaticStr, VariantArray};

/// The header of every frame, in bytes.
pub(super) const HEADER_BYTES: usize = 9;

/// The longest payload that every endpoint takes, and that this client takes: it
/// announces no other (RFC 9113, 4.2).
pub(super) const PAYLOAD_BYTES_MAX: u32 = 16_384;

/// What a client sends before its first frame (RFC 9113, 3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A kind of frame, known or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameKind(pub u8);

impl FrameKind {
    /// RFC 9113, 6.1.
    pub const DATA: FrameKind = FrameKind(0);
    /// RFC 9113, 6.2.
    pub const HEADERS: FrameKind = FrameKind(1);
    /// RFC 9113, 6.3.
    pub const PRIORITY: FrameKind = FrameKind(2);
    /// RFC 9113, 6.4.
    pub const RST_STREAM: FrameKind = FrameKind(3);
    /// RFC 9113, 6.5.
    pub const SETTINGS: FrameKind = FrameKind(4);
    /// RFC 9113, 6.6.
    pub const PUSH_PROMISE: FrameKind = FrameKind(5);
    /// RFC 9113, 6.7.
    pub const PING: FrameKind = FrameKind(6);
    /// RFC 9113, 6.8.
    pub const GOAWAY: FrameKind = FrameKind(7);
    /// RFC 9113, 6.9.
    pub const WINDOW_UPDATE: FrameKind = FrameKind(8);
    /// RFC 9113, 6.10.
    pub const CONTINUATION: FrameKind = FrameKind(9);

    /// The standard's name.
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "DATA",
            1 => "HEADERS",
            2 => "PRIORITY",
            3 => "RST_STREAM",
            4 => "SETTINGS",
            5 => "PUSH_PROMISE",
            6 => "PING",
            7 => "GOAWAY",
            8 => "WINDOW_UPDATE",
            9 => "CONTINUATION",
            _ => "a frame of unknown type",
        }
    }
}

/// Flags of a frame, whose meaning is its kind's.
pub(super) mod flag {
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// The first nine bytes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// Of the payload, in bytes.
    pub(super) len: u32,
    pub(super) kind: FrameKind,
    pub(super) flags: u8,
    /// 0: the connection.
    pub(super) stream: u32,
}

impl FrameHeader {
    #[inline]
    pub(super) fn parse(bytes: &[u8; HEADER_BYTES]) -> FrameHeader {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *bytes;
        FrameHeader {
            len: u32::from_be_bytes([0, l0, l1, l2]),
            kind: FrameKind(kind),
            flags,
            stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]),
        }
    }

    #[inline]
    pub(super) fn bytes(self) -> [u8; HEADER_BYTES] {
        let [_, l0, l1, l2] = self.len.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [l0, l1, l2, self.kind.0, self.flags, s0, s1, s2, s3]
    }

    #[inline]
    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Why a stream or connection ends (RFC 9113, 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray, IntoStaticStr)]
#[repr(u32)]
pub enum ErrorCode {
    /// No error.
    #[strum(serialize = "NO_ERROR")]
    NoError = 0x0,
    /// The protocol was broken.
    #[strum(serialize = "PROTOCOL_ERROR")]
    ProtocolError = 0x1,
    /// The endpoint itself is broken.
    #[strum(serialize = "INTERNAL_ERROR")]
    InternalError = 0x2,
    /// More bytes than the window, or a window above 2^31 - 1.
    #[strum(serialize = "FLOW_CONTROL_ERROR")]
    FlowControlError = 0x3,
    /// SETTINGS were not acknowledged in time.
    #[strum(serialize = "SETTINGS_TIMEOUT")]
    SettingsTimeout = 0x4,
    /// A frame for a closed stream.
    #[strum(serialize = "STREAM_CLOSED")]
    StreamClosed = 0x5,
    /// A frame of a wrong length.
    #[strum(serialize = "FRAME_SIZE_ERROR")]
    FrameSizeError = 0x6,
    /// Refused before anything was done for it.
    #[strum(serialize = "REFUSED_STREAM")]
    RefusedStream = 0x7,
    /// No longer wanted.
    #[strum(serialize = "CANCEL")]
    Cancel = 0x8,
    /// A header block that does not decode.
    #[strum(serialize = "COMPRESSION_ERROR")]
    CompressionError = 0x9,
    /// The tunnel of a CONNECT is lost.
    #[strum(serialize = "CONNECT_ERROR")]
    ConnectError = 0xa,
    /// The peer does too much.
    #[strum(serialize = "ENHANCE_YOUR_CALM")]
    EnhanceYourCalm = 0xb,
    /// TLS below what is required.
    #[strum(serialize = "INADEQUATE_SECURITY")]
    InadequateSecurity = 0xc,
    /// HTTP/1.1 is required.
    #[strum(serialize = "HTTP_1_1_REQUIRED")]
    Http11Required = 0xd,
}

impl ErrorCode {
    /// Every code, in order of its value.
    pub const ALL: [ErrorCode; ErrorCode::VARIANTS.len()] =
        *ErrorCode::VARIANTS.first_chunk().unwrap();

    /// The code of a value on the wire; `None` for one that the standard does not know.
    pub fn from_wire(value: u32) -> Option<ErrorCode> {
        ErrorCode::ALL.get(value as usize).copied()
    }

    /// The standard's name.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_without_its_reserved_bit() {
        let header = FrameHeader {
            len: 0x01_0203,
            kind: FrameKind::GOAWAY,
            flags: 0xa5,
            stream: 0x7bcd_ef01,
        };
        let mut bytes = header.bytes();
        assert_eq!(bytes, [1, 2, 3, 7, 0xa5, 0x7b, 0xcd, 0xef, 0x01]);
        bytes[5] |= 0x80;
        assert_eq!(FrameHeader::parse(&bytes), header);
    }

    #[test]
    fn codes_stand_at_their_values() {
        for (value, code) in ErrorCode::ALL.iter().enumerate() {
            assert_eq!(*code as usize, value);
            assert_eq!(ErrorCode::from_wire(value as u32), Some(*code));
        }
        assert_eq!(ErrorCode::from_wire(14), None);
        assert_eq!(ErrorCode::from_wire(u32::MAX), None);
    }
}
