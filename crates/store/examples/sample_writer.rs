//! Writes made-up requests as a run writes real ones, and says how long that took: the side of
//! `bench/samples.py` that no command of the tool shows on its own.
//!
//! ```text
//!  sample_writer ROWS FOLDER
//! ```
//!
//! Rows are made beforehand, and appended in blocks of the size that workers hand on.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::time::Instant;

use wallfinder_store::{Folder, SampleRow, SampleWriter};

/// Rows of a block.
const BLOCK: usize = 4_096;

fn main() {
    let mut args = std::env::args_os().skip(1);
    let rows = args.next().and_then(|rows| rows.to_str()?.parse().ok());
    let (Some(rows), Some(folder)) = (rows, args.next().map(PathBuf::from)) else {
        eprintln!("sample_writer ROWS FOLDER");
        std::process::exit(2);
    };
    let made = made_up(rows);
    let began = Instant::now();
    let folder = Folder::open(&folder).expect("it is there");
    let writer = SampleWriter::create(&folder, 0, |_| "timeout.total");
    let mut writer = writer.expect("it can be made");
    for block in made.chunks(BLOCK) {
        writer.append(block.iter().copied()).expect("it is kept");
    }
    let rows = writer.finish().expect("it is written");
    let seconds = began.elapsed().as_secs_f64();
    println!("{{\"rows\":{rows},\"seconds\":{seconds}}}");
}

/// Latencies whose logarithms are spread as waiting times are, one failure in a thousand; the same
/// ones each time.
fn made_up(rows: usize) -> Vec<SampleRow> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..rows)
        .map(|at| {
            let service_ns = 40_000.0 - 60_000.0 * uniform().max(1e-12).ln();
            let waited_ns = -20_000.0 * uniform().max(1e-12).ln();
            let is_failed = uniform() < 0.001;
            SampleRow {
                request: 0,
                host: 0,
                done_ns: at as i64 * 2_500,
                latency_ns: (service_ns + waited_ns) as i64,
                service_ns: service_ns as i64,
                first_byte_ns: (service_ns * 0.98) as i64,
                bytes: 124,
                status: if is_failed { 0 } else { 200 },
                failed: u16::from(is_failed),
            }
        })
        .collect()
}
