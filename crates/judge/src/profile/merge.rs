//! Profiles of several processes as one: prefork children do the same work.

use std::collections::HashMap;

use thiserror::Error;
use wallfinder_model::profile::{Function, Profile, StackFrame};

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
    let mut by_function: HashMap<Function, u32> = HashMap::new();
    for (at, function) in merged.functions.iter().enumerate() {
        by_function.insert(function.clone(), at as u32);
    }
    for profile in profiles {
        if profile.measures != merged.measures {
            return Err(Unlike {
                first: measures(&merged),
                other: measures(&profile),
            });
        }
        let moved: Vec<u32> = profile
            .functions
            .into_iter()
            .map(|function| {
                let next = merged.functions.len() as u32;
                *by_function.entry(function).or_insert_with_key(|function| {
                    merged.functions.push(function.clone());
                    next
                })
            })
            .collect();
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
