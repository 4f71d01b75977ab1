//! Bodies as the reference encoders code them, and texts to be coded.

use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use zstd_safe::{CCtx, CParameter};

/// A body in one coding; one of a list of codings is coded by the first of them.
pub(crate) fn encode(coding: &str, plain: &[u8]) -> Vec<u8> {
    let first = coding.split(',').next().unwrap_or_default();
    match first.to_ascii_lowercase().as_str() {
        "gzip" | "x-gzip" => gzip(plain),
        "deflate" => zlib(plain),
        "br" => brotli(plain),
        "zstd" => zstd(plain, &[CParameter::ChecksumFlag(true)]),
        _ => plain.to_vec(),
    }
}

pub(crate) fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).expect("memory does not fail");
    encoder.finish().expect("memory does not fail")
}

pub(crate) fn zlib(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).expect("memory does not fail");
    encoder.finish().expect("memory does not fail")
}

pub(crate) fn brotli(plain: &[u8]) -> Vec<u8> {
    let (quality, window_bits) = (5, 22);
    let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, quality, window_bits);
    encoder.write_all(plain).expect("memory does not fail");
    encoder.into_inner()
}

/// One frame.
pub(crate) fn zstd(plain: &[u8], parameters: &[CParameter]) -> Vec<u8> {
    let mut encoder = CCtx::create();
    for parameter in parameters {
        let set = encoder.set_parameter(*parameter);
        set.expect("the format has it");
    }
    let mut coded = vec![0; plain.len() + plain.len() / 128 + 512];
    let len = encoder.compress2(&mut coded[..], plain);
    coded.truncate(len.expect("there is room"));
    coded
}

/// Text that repeats itself here and there.
pub(crate) fn text(len: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut text = Vec::with_capacity(len + 16);
    while text.len() < len {
        text.extend_from_slice(format!("{:x} ", random.u32(..5000)).as_bytes());
    }
    text.truncate(len);
    text
}
