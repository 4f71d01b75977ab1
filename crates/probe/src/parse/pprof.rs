//! Profiles in the public format of pprof: gzip around a protobuf message (`profile.proto` of
//! github.com/google/pprof), as the Go runtime writes it.
//!
//! Names stand in a table of strings, functions and places in tables by id; a place has one
//! line for each call that was inlined into it, the innermost first.

use std::collections::HashMap;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};
use thiserror::Error;
use wallfinder_model::profile::{Function, Functions, Measure, Profile, StackFrame, StackSample};

/// The longest profile that is read, in bytes after decompression: that of a server with a
/// hundred thousand stacks has some twenty million.
pub const PROFILE_BYTES_MAX: u64 = 64 << 20;

/// The most messages in it, of samples, places, functions and strings: each takes some fifty bytes of
/// memory, and may have two in the file.
const ENTRIES_MAX: usize = 4 << 20;
/// What a profile may come to where everything stands that it names.
struct Bounds {
    /// Frames of all stacks together: a place has many, and may be named in many stacks.
    frames: usize,
    /// Bytes of names: many functions may have one long string.
    name_bytes: usize,
}

const BOUNDS: Bounds = Bounds {
    frames: 16 << 20,
    name_bytes: 64 << 20,
};

/// The most frames of a stack that are kept; the Go runtime writes at most 128, and inlined
/// calls beside them.
const FRAMES_MAX: usize = 1024;

/// Why bytes are not a profile.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PprofError {
    /// Compressed, and broken.
    #[error("the profile is not whole: gzip ends or breaks after {read} bytes")]
    Gzip {
        /// Bytes that came out before.
        read: usize,
    },
    /// Longer than is read.
    #[error("the profile is longer than {} MiB", PROFILE_BYTES_MAX >> 20)]
    TooLong,
    /// Short, and more than is kept when everything in it that is named stands where it is named.
    #[error("the profile has too many {what}")]
    TooMuch {
        /// `entries`, `frames`, `names`.
        what: &'static str,
    },
    /// No message of that format.
    #[error("the bytes are no profile of pprof's format: {0}")]
    Format(String),
    /// An index without what it points to.
    #[error("the profile names {what} {id}, which it does not have")]
    Dangling {
        /// `string`, `function`, `location`.
        what: &'static str,
        /// The index or id.
        id: u64,
    },
    /// Samples whose values do not fit the types.
    #[error("a sample of the profile has {values} values, and there are {types} types")]
    Values {
        /// Values of the sample.
        values: usize,
        /// Types that the profile declares.
        types: usize,
    },
}

#[derive(Clone, PartialEq, Message)]
struct WireProfile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<WireValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<WireSample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<WireLocation>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<WireFunction>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
}

#[derive(Clone, PartialEq, Message)]
struct WireValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct WireSample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct WireLocation {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<WireLine>,
}

#[derive(Clone, PartialEq, Message)]
struct WireLine {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct WireFunction {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// Reads a profile, compressed or not.
pub fn profile(bytes: &[u8]) -> Result<Profile, PprofError> {
    let plain;
    let bytes = match bytes.starts_with(&[0x1f, 0x8b]) {
        true => {
            plain = decompressed(bytes)?;
            &plain[..]
        }
        false => bytes,
    };
    if bytes.len() as u64 > PROFILE_BYTES_MAX {
        return Err(PprofError::TooLong);
    }
    if entries(bytes) > ENTRIES_MAX {
        return Err(PprofError::TooMuch { what: "entries" });
    }
    let wire = WireProfile::decode(bytes).map_err(|error| PprofError::Format(error.to_string()))?;
    if wire.sample_type.is_empty() {
        return Err(PprofError::Format("no type of sample".into()));
    }
    resolved(&wire, &BOUNDS)
}

fn decompressed(bytes: &[u8]) -> Result<Vec<u8>, PprofError> {
    let mut plain = Vec::new();
    let mut limited = MultiGzDecoder::new(bytes).take(PROFILE_BYTES_MAX + 1);
    match limited.read_to_end(&mut plain) {
        Err(_) => Err(PprofError::Gzip { read: plain.len() }),
        Ok(_) if plain.len() as u64 > PROFILE_BYTES_MAX => Err(PprofError::TooLong),
        Ok(_) => Ok(plain),
    }
}

/// How many fields the message has, as far as it is one: how many the decoder will make room for.
fn entries(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while !bytes.is_empty() {
        let Ok((_, kind)) = decode_key(&mut bytes) else {
            return count;
        };
        let length = match kind {
            WireType::Varint => decode_varint(&mut bytes).map(|_| 0).ok(),
            WireType::LengthDelimited => decode_varint(&mut bytes).ok(),
            WireType::SixtyFourBit => Some(8),
            WireType::ThirtyTwoBit => Some(4),
            WireType::StartGroup | WireType::EndGroup => Some(0),
        };
        let length = length.and_then(|length| usize::try_from(length).ok());
        let Some(rest) = length.and_then(|length| bytes.get(length..)) else {
            return count;
        };
        bytes = rest;
        count += 1;
    }
    count
}

fn resolved(wire: &WireProfile, bounds: &Bounds) -> Result<Profile, PprofError> {
    let string = |index: i64| {
        let found = usize::try_from(index).ok();
        let found = found.and_then(|index| wire.string_table.get(index));
        let dangling = PprofError::Dangling {
            what: "string",
            id: index as u64,
        };
        found.ok_or(dangling)
    };
    let mut name_bytes = 0usize;
    let mut name = |index: i64| {
        let name = string(index)?;
        name_bytes = name_bytes.saturating_add(name.len());
        match name_bytes > bounds.name_bytes {
            true => Err(PprofError::TooMuch { what: "names" }),
            false => Ok(name.clone()),
        }
    };
    let mut measures = Vec::with_capacity(wire.sample_type.len());
    for kind in &wire.sample_type {
        measures.push(Measure {
            name: name(kind.kind)?,
            unit: name(kind.unit)?,
        });
    }
    let mut names = Functions::default();
    let mut functions = HashMap::with_capacity(wire.function.len());
    for function in &wire.function {
        let named = Function {
            name: name(function.name)?,
            file: name(function.filename)?,
        };
        functions.insert(function.id, names.index(named));
    }
    let mut places: HashMap<u64, Vec<StackFrame>> = HashMap::with_capacity(wire.location.len());
    for location in &wire.location {
        let mut frames = Vec::with_capacity(location.line.len().max(1));
        for line in &location.line {
            let function = functions.get(&line.function_id).copied();
            frames.push(StackFrame {
                function: function.ok_or(PprofError::Dangling {
                    what: "function",
                    id: line.function_id,
                })?,
                line: line.line,
            });
        }
        if frames.is_empty() {
            let function = names.index(Function::default());
            frames.push(StackFrame { function, line: 0 });
        }
        places.insert(location.id, frames);
    }
    let mut samples = Vec::with_capacity(wire.sample.len());
    let mut all_frames = 0;
    for sample in &wire.sample {
        if sample.value.len() != measures.len() {
            return Err(PprofError::Values {
                values: sample.value.len(),
                types: measures.len(),
            });
        }
        let mut stack = Vec::with_capacity(sample.location_id.len().min(FRAMES_MAX));
        for id in &sample.location_id {
            let frames = places.get(id).ok_or(PprofError::Dangling {
                what: "location",
                id: *id,
            })?;
            let room = FRAMES_MAX - stack.len();
            stack.extend(frames.iter().copied().take(room));
        }
        all_frames += stack.len();
        if all_frames > bounds.frames {
            return Err(PprofError::TooMuch { what: "frames" });
        }
        samples.push(StackSample {
            stack,
            values: sample.value.clone(),
        });
    }
    Ok(Profile {
        measures,
        functions: names.into_list(),
        samples,
        duration_ns: wire.duration_nanos.max(0) as u64,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// Two stacks of `main.handler`, into which `main.inner` was inlined, called by `main.main`.
    fn small() -> WireProfile {
        let strings = [
            "",
            "cpu",
            "nanoseconds",
            "main.inner",
            "main.handler",
            "main.main",
            "a.go",
        ];
        let line = |function_id, line| WireLine { function_id, line };
        let location = |id, line| WireLocation { id, line };
        let function = |id: u64, name| WireFunction {
            id,
            name,
            filename: 6,
        };
        WireProfile {
            sample_type: vec![WireValueType { kind: 1, unit: 2 }],
            sample: vec![
                WireSample {
                    location_id: vec![1, 2],
                    value: vec![30],
                },
                WireSample {
                    location_id: vec![2],
                    value: vec![12],
                },
            ],
            location: vec![
                location(1, vec![line(7, 3), line(8, 9)]),
                location(2, vec![line(9, 20)]),
            ],
            function: vec![function(7, 3), function(8, 4), function(9, 5)],
            string_table: strings.map(String::from).to_vec(),
            duration_nanos: 5,
        }
    }

    fn names(profile: &Profile, sample: usize) -> Vec<(&str, i64)> {
        let frames = profile.samples[sample].stack.iter();
        frames
            .map(|frame| (profile.function(*frame).name.as_str(), frame.line))
            .collect()
    }

    #[test]
    fn inlined_calls_are_frames_of_their_own() {
        let read = profile(&small().encode_to_vec()).unwrap();
        assert_eq!(read.duration_ns, 5);
        assert_eq!(read.position("cpu"), Some(0));
        assert_eq!(
            names(&read, 0),
            [("main.inner", 3), ("main.handler", 9), ("main.main", 20)]
        );
        assert_eq!(names(&read, 1), [("main.main", 20)]);
        assert_eq!(read.samples[1].values, [12]);
    }

    #[test]
    fn gzip_is_looked_through_and_its_faults_are_told() {
        let plain = small().encode_to_vec();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&plain).unwrap();
        let packed = gzip.finish().unwrap();
        assert_eq!(profile(&packed), profile(&plain));
        for len in 2..packed.len() {
            let cut = profile(&packed[..len]);
            assert!(
                matches!(cut, Err(PprofError::Gzip { .. })),
                "{len}: {cut:?}"
            );
        }
    }

    #[test]
    fn what_points_nowhere_is_named() {
        let faulty = |change: fn(&mut WireProfile)| {
            let mut wire = small();
            change(&mut wire);
            profile(&wire.encode_to_vec()).unwrap_err().to_string()
        };
        let said = faulty(|wire| wire.sample[0].location_id[0] = 99);
        assert_eq!(
            said,
            "the profile names location 99, which it does not have"
        );
        let said = faulty(|wire| wire.location[0].line[0].function_id = 98);
        assert_eq!(
            said,
            "the profile names function 98, which it does not have"
        );
        let said = faulty(|wire| wire.function[0].name = -1);
        assert!(said.starts_with("the profile names string"), "{said}");
        let said = faulty(|wire| wire.sample[0].value.push(1));
        assert_eq!(
            said,
            "a sample of the profile has 2 values, and there are 1 types"
        );
        let said = profile(b"<html>not found</html>").unwrap_err().to_string();
        assert!(said.starts_with("the bytes are no profile"), "{said}");
        assert!(profile(b"").is_err());
    }

    /// A few bytes name a place of a million lines a million times.
    #[test]
    fn a_stack_is_cut_before_it_is_built() {
        let mut wire = small();
        wire.location[0].line = vec![wire.location[0].line[0].clone(); 10_000];
        wire.sample[0].location_id = vec![1; 1_000_000];
        let read = profile(&wire.encode_to_vec()).unwrap();
        let stack = &read.samples[0].stack;
        assert_eq!(stack.len(), FRAMES_MAX);
        assert!(stack.capacity() < 4 * FRAMES_MAX, "{}", stack.capacity());
        // What stands behind the cut must be there all the same.
        wire.sample[0].location_id.push(99);
        assert!(profile(&wire.encode_to_vec()).is_err());
    }

    #[test]
    fn what_comes_to_more_than_it_is_long_has_bounds() {
        let bounds = |frames, name_bytes| Bounds { frames, name_bytes };
        let mut wire = small();
        assert!(resolved(&wire, &bounds(4, 500)).is_ok());
        // Each of the stacks is short.
        let too_many = resolved(&wire, &bounds(3, 500)).unwrap_err();
        assert_eq!(too_many, PprofError::TooMuch { what: "frames" });
        // One long name, with another file each time.
        wire.string_table[3] = "n".repeat(400);
        let too_long = resolved(&wire, &bounds(4, 400)).unwrap_err();
        assert_eq!(too_long, PprofError::TooMuch { what: "names" });
    }

    #[test]
    fn a_short_file_of_many_empty_messages_is_refused_before_it_is_decoded() {
        let of = |count: usize| {
            let mut bytes = small().encode_to_vec();
            // Samples, each of which is two bytes here and more than forty in memory.
            bytes.extend([0x12, 0x00].repeat(count));
            profile(&bytes).unwrap_err()
        };
        let refused = PprofError::TooMuch { what: "entries" };
        assert_eq!(of(ENTRIES_MAX + 1), refused);
        // Of fewer the decoder says what is wrong.
        assert!(matches!(of(10), PprofError::Values { .. }));
    }

    #[test]
    fn a_file_that_unpacks_to_more_than_is_read_is_refused() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        let zeros = vec![0; 1 << 20];
        for _ in 0..=PROFILE_BYTES_MAX >> 20 {
            gzip.write_all(&zeros).unwrap();
        }
        let packed = gzip.finish().unwrap();
        assert!(packed.len() < 1 << 20);
        assert_eq!(profile(&packed), Err(PprofError::TooLong));
    }

    #[test]
    fn a_place_without_symbols_has_no_name() {
        let mut wire = small();
        wire.location[1].line.clear();
        let read = profile(&wire.encode_to_vec()).unwrap();
        assert_eq!(names(&read, 1), [("", 0)]);
    }
}
