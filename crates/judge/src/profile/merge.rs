//! Profiles of several processes as one: prefork children do the same work.

use thiserror::Error;
use wallfinder_model::profile::{Functions, Profile, StackFrame};

/// Profiles that count different things.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("profiles that count different things cannot be merged: {first} and {other}")]
pub struct Unlike {
    first: String,
    other: String,
}

/// All samples of all profiles; the longest window counts, for they were taken side by side.
/// `None` of none.
pub fn merge(profiles: Vec<Profile>) -> Result<Option<Profile>, Unlike> {
    let mut profiles = profiles.into_iter();
    let Some(mut merged) = profiles.next() else {
        return Ok(None);
    };
    let mut functions = Functions::from(std::mem::take(&mut merged.functions));
    for profile in profiles {
        if profile.measures != merged.measures {
            return Err(Unlike {
                first: measures(&merged),
                other: measures(&profile),
            });
        }
        let moved = profile.functions.into_iter();
        let moved: Vec<u32> = moved.map(|function| functions.index(function)).collect();
        merged
            .samples
            .extend(profile.samples.into_iter().map(|mut sample| {
                for frame in &mut sample.stack {
                    *frame = StackFrame {
                        function: moved[frame.function as usize],
                        ..*frame
                    };
                }
                sample
            }));
        merged.duration_ns = merged.duration_ns.max(profile.duration_ns);
    }
    merged.functions = functions.into_list();
    Ok(Some(merged))
}

fn measures(profile: &Profile) -> String {
    let names: Vec<&str> = profile
        .measures
        .iter()
        .map(|measure| measure.name.as_str())
        .collect();
    names.join(", ")
}
