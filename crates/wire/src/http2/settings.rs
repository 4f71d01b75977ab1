//! SETTINGS: what the peer allows (RFC 9113, 6.5.2).

use super::fault::Breach;
use super::flow::{WINDOW_BYTES_DEFAULT, WINDOW_BYTES_MAX};
use super::frame::PAYLOAD_BYTES_MAX;
use super::hpack::TABLE_BYTES_DEFAULT;

pub(super) const HEADER_TABLE_SIZE: u16 = 0x1;
pub(super) const ENABLE_PUSH: u16 = 0x2;
pub(super) const MAX_CONCURRENT_STREAMS: u16 = 0x3;
pub(super) const INITIAL_WINDOW_SIZE: u16 = 0x4;
pub(super) const MAX_FRAME_SIZE: u16 = 0x5;
pub(super) const MAX_HEADER_LIST_SIZE: u16 = 0x6;

/// One parameter on the wire, in bytes.
pub(super) const PARAMETER_BYTES: usize = 6;

/// The longest payload that a frame can announce.
const FRAME_LEN_MAX: u32 = (1 << 24) - 1;

/// What the peer has said last, or the standard's defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerSettings {
    pub(super) table_bytes_max: u32,
    pub(super) streams_max: u32,
    pub(super) window_bytes: u32,
    pub(super) payload_bytes_max: u32,
}

impl Default for PeerSettings {
    fn default() -> PeerSettings {
        PeerSettings {
            table_bytes_max: TABLE_BYTES_DEFAULT,
            streams_max: u32::MAX,
            window_bytes: WINDOW_BYTES_DEFAULT,
            payload_bytes_max: PAYLOAD_BYTES_MAX,
        }
    }
}

impl PeerSettings {
    /// Takes the parameters of one frame, in order. Unknown ones say nothing, and the
    /// limit on header lists is advice that a fixed request cannot follow.
    pub(super) fn apply(&mut self, payload: &[u8]) -> Result<(), Breach> {
        let (parameters, _) = payload.as_chunks::<PARAMETER_BYTES>();
        for &[i0, i1, v0, v1, v2, v3] in parameters {
            let value = u32::from_be_bytes([v0, v1, v2, v3]);
            match u16::from_be_bytes([i0, i1]) {
                HEADER_TABLE_SIZE => self.table_bytes_max = value,
                ENABLE_PUSH if value != 0 => {
                    return Err(Breach::protocol(
                        "ENABLE_PUSH of a server (RFC 9113, 6.5.2)",
                    ));
                }
                MAX_CONCURRENT_STREAMS => self.streams_max = value,
                INITIAL_WINDOW_SIZE if value > WINDOW_BYTES_MAX => {
                    return Err(Breach::flow(
                        "an initial window above 2^31 - 1 (RFC 9113, 6.5.2)",
                    ));
                }
                INITIAL_WINDOW_SIZE => self.window_bytes = value,
                MAX_FRAME_SIZE if !(PAYLOAD_BYTES_MAX..=FRAME_LEN_MAX).contains(&value) => {
                    return Err(Breach::protocol(
                        "a frame size outside 2^14 to 2^24 - 1 (RFC 9113, 6.5.2)",
                    ));
                }
                MAX_FRAME_SIZE => self.payload_bytes_max = value,
                _ => {}
            }
        }
        Ok(())
    }
}
