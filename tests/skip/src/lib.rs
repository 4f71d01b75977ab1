//! How a test says that this machine lacks what it needs: the one way to pass without having tested.
//!
//! With `WALLFINDER_STRICT=1`, as in continuous integration, a skip fails the test, unless its reason is in
//! `tests/allowed-skips.toml`. A machine on which nothing runs is then not taken for one on which everything
//! holds.

#![forbid(unsafe_code)]

use std::fs;

/// The list, as the tree has it.
const ALLOWED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../allowed-skips.toml");

/// Says why a test, or a part of it, does nothing on this machine.
///
/// # Panics
///
/// In strict mode, where the reason is not on the list.
#[track_caller]
pub fn skip(why: impl std::fmt::Display) {
    let why = why.to_string();
    let strict = std::env::var_os("WALLFINDER_STRICT").is_some_and(|value| value == "1");
    if strict {
        let list = fs::read_to_string(ALLOWED).expect("the list of allowed skips");
        if let Err(refused) = allowed(&why, &list) {
            panic!("{refused}");
        }
    }
    println!("skipped: {why}");
}

/// Whether the list has an entry that this reason begins with.
fn allowed(why: &str, list: &str) -> Result<(), String> {
    let list: toml::Table = list
        .parse()
        .map_err(|error| format!("{ALLOWED}: {error}"))?;
    let entries = list.get("allowed").and_then(|list| list.as_array());
    let reasons = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.get("reason")?.as_str());
    if reasons
        .into_iter()
        .any(|reason| !reason.is_empty() && why.starts_with(reason))
    {
        return Ok(());
    }
    Err(format!(
        "skipped in strict mode: {why}\n\
         Install or grant what is missing; if this machine cannot have it, add the reason to {ALLOWED}."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
        [[allowed]]
        reason = "no counters of the hardware here"
        because = "a virtual machine has none"
    "#;

    #[test]
    fn a_reason_on_the_list_is_allowed_with_whatever_follows_it() {
        assert_eq!(
            allowed("no counters of the hardware here: ENOENT", LIST),
            Ok(())
        );
    }

    #[test]
    fn any_other_reason_fails_and_is_named() {
        for why in ["it needs root", "no counters", ""] {
            let refused = allowed(why, LIST).unwrap_err();
            assert!(refused.contains(&format!("strict mode: {why}\n")));
        }
    }

    #[test]
    fn a_list_that_cannot_be_read_or_an_empty_reason_allows_nothing() {
        assert!(allowed("it needs root", "[[allowed").is_err());
        assert!(allowed("it needs root", "[[allowed]]\nreason = ''").is_err());
        assert!(allowed("it needs root", "").is_err());
    }

    #[test]
    fn every_entry_of_the_list_says_because_of_what() {
        let list: toml::Table = fs::read_to_string(ALLOWED).unwrap().parse().unwrap();
        for entry in list["allowed"].as_array().unwrap() {
            for key in ["reason", "because"] {
                assert!(entry[key].as_str().is_some_and(|text| text.len() > 10));
            }
        }
    }
}
