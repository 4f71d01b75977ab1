//! What a gRPC server says, frame by frame.

use wallfinder_wire::grpc::{Kind, Request};
use wallfinder_wire::http2::FrameKind;

use crate::peer::{self, Case, END_STREAM, OK, PADDED, frame, literal};

/// Calls of a kind, one after the other on one connection.
pub(crate) fn calls(kind: Kind, requests: u32) -> Case {
    let mut call = Request::unary("h:1", "/a.B/C", "hi");
    call.kind = kind;
    Case {
        requests,
        call: Some(call),
        ..Case::default()
    }
}

/// A message behind its prefix.
pub(crate) fn message(bytes: &[u8]) -> Vec<u8> {
    prefixed(0, bytes.len() as u32, bytes)
}

/// Bytes behind a prefix that need not be theirs.
pub(crate) fn prefixed(flag: u8, length: u32, bytes: &[u8]) -> Vec<u8> {
    let mut message = vec![flag];
    message.extend(length.to_be_bytes());
    message.extend(bytes);
    message
}

/// A head with a status of HTTP and a content type.
pub(crate) fn head_of(stream: u32, status: &[u8], content_type: &str) -> Vec<u8> {
    let block = [status, &literal("content-type", content_type)].concat();
    peer::headers(0, stream, &block)
}

/// The head of an answer.
pub(crate) fn head(stream: u32) -> Vec<u8> {
    head_of(stream, OK, "application/grpc")
}

/// Trailers with these fields.
pub(crate) fn trailers(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    let block: Vec<u8> = fields.iter().flat_map(|(n, v)| literal(n, v)).collect();
    peer::headers(END_STREAM, stream, &block)
}

/// Trailers with a status.
pub(crate) fn status(stream: u32, status: &str) -> Vec<u8> {
    trailers(stream, &[("grpc-status", status), ("grpc-message", "")])
}

/// A body in one frame.
pub(crate) fn data(stream: u32, body: &[u8]) -> Vec<u8> {
    peer::data(0, stream, body)
}

/// A body in a frame with padding.
pub(crate) fn padded(flags: u8, stream: u32, body: &[u8], padding: u8) -> Vec<u8> {
    let mut payload = vec![padding];
    payload.extend(body);
    payload.extend(vec![1; usize::from(padding)]);
    frame(FrameKind::DATA, flags | PADDED, stream, &payload)
}

/// A body in every two frames that it can be cut into, with and without padding.
pub(crate) fn every_two_frames(stream: u32, body: &[u8]) -> Vec<Vec<u8>> {
    let mut ways = Vec::new();
    for cut in 0..=body.len() {
        let (one, two) = body.split_at(cut);
        ways.push([data(stream, one), data(stream, two)].concat());
        ways.push([padded(0, stream, one, 3), padded(0, stream, two, 0)].concat());
    }
    ways
}
