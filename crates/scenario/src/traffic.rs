//! What users send: kinds of request, each with its weight, in a file of their own or a list of URLs.

use std::collections::BTreeSet;

use wallfinder_model::scenario::{MixedRequest, Traffic};

use crate::file::place;
use crate::{Fault, FileError};

/// Where the keys are told.
const HELP: &str = "a kind of request is `[[request]]` with `weight = 60` and `get = \"/path\"` (or post, put, patch, delete), \
                    `name`, `headers`, `body`; docs/guide.md has an example";

/// Reads a traffic file: TOML. `name` is what errors carry.
///
/// # Errors
///
/// What is no TOML, a key that there is not, a value that its key does not take, and what [`check`] refuses.
pub fn parse(name: &str, text: &str) -> Result<Vec<MixedRequest>, FileError> {
    let file: Traffic = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        FileError::at(name, text, span, error.message().trim_end().to_owned()).with_help(HELP)
    })?;
    check(&file.request).map_err(|fault| {
        let path: Vec<&str> = fault.key.split('.').collect();
        let span = place(text, &path).unwrap_or(0..0);
        FileError::at(name, text, span, fault.message).with_help(HELP)
    })?;
    Ok(file.request)
}

/// Reads a list: on each line a path, or a URL of the target's, with a weight before it where that is not 1. Empty
/// lines and those that begin with `#` are passed over.
///
/// # Errors
///
/// A line that is none of these, by its number.
pub fn of_urls(text: &str) -> Result<Vec<MixedRequest>, String> {
    let mut requests = Vec::new();
    for (line, at) in text.lines().zip(1..) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (weight, place) = match words[..] {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            [place] => (1, place),
            [weight, place] => {
                let weight = weight.parse::<u32>().ok().filter(|weight| *weight > 0);
                let wrong = || format!("line {at}: `{}` is no weight, such as 60", words[0]);
                (weight.ok_or_else(wrong)?, place)
            }
            _ => return Err(format!("line {at} is not `[WEIGHT] URL`: {line}")),
        };
        requests.push(MixedRequest {
            weight,
            get: Some(place.to_owned()),
            ..MixedRequest::default()
        });
    }
    match requests.is_empty() {
        true => Err("there is no URL in it".to_owned()),
        false => Ok(requests),
    }
}

/// Whether such requests can be mixed.
pub fn check(requests: &[MixedRequest]) -> Result<(), Fault> {
    let mut names = BTreeSet::new();
    for (nth, request) in requests.iter().enumerate() {
        let wrong = |why: String| Err(Fault::at(format!("request.{nth}"), why));
        let methods: Vec<&str> = request.methods().map(|(method, _)| method).collect();
        if methods.len() != 1 {
            let has = match methods.is_empty() {
                true => "no method".to_owned(),
                false => methods.join(" and "),
            };
            return wrong(format!(
                "it has {has}; one of get, post, put, patch, delete has its path"
            ));
        }
        if request.weight == 0 {
            return wrong("its weight is 0, so it would never be sent: leave it out".to_owned());
        }
        let name = request.shown_name();
        if !names.insert(name.clone()) {
            return wrong(format!(
                "`{name}` stands there twice: give each a `name` of its own"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traffic_file_has_kinds_with_weights() {
        let text = "[[request]]\nname = \"search\"\nweight = 60\nget = \"/search?q=x\"\n\
                    [[request]]\npost = \"/cart\"\nbody = \"{}\"\nheaders = [\"Content-Type: application/json\"]\n";
        let requests = parse("shop.toml", text).expect("it is one");
        let shown: Vec<(String, u32)> = requests
            .iter()
            .map(|request| (request.shown_name(), request.weight))
            .collect();
        assert_eq!(
            shown,
            [("search".to_owned(), 60), ("POST /cart".to_owned(), 1)]
        );
    }

    #[test]
    fn what_is_wrong_has_its_line_and_the_way_out() {
        for (text, line, part) in [
            ("[[request]]\nget = \"/\"\nwieght = 3\n", 3, "wieght"),
            (
                "[[request]]\nget = \"/\"\n\n[[request]]\nweight = 2\n",
                4,
                "no method",
            ),
            (
                "[[request]]\nget = \"/\"\npost = \"/\"\n",
                1,
                "GET and POST",
            ),
            ("[[request]]\nget = \"/\"\nweight = 0\n", 1, "never be sent"),
            (
                "[[request]]\nget = \"/\"\n[[request]]\nget = \"/\"\n",
                3,
                "twice",
            ),
            ("request = 3\n", 1, "expected a sequence"),
        ] {
            let error = parse("shop.toml", text).expect_err(text).to_string();
            assert!(error.contains(&format!("shop.toml:{line}:")), "{error}");
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_list_of_urls_may_have_weights() {
        let read =
            of_urls("# the shop\n/search\n\n60 http://10.0.0.5/item?id=3\n").expect("it is one");
        let shown: Vec<(&str, u32)> = read
            .iter()
            .map(|request| (request.get.as_deref().unwrap_or(""), request.weight))
            .collect();
        assert_eq!(shown, [("/search", 1), ("http://10.0.0.5/item?id=3", 60)]);
        for (wrong, part) in [
            ("x /a", "line 1"),
            ("/a\n1 /b c", "line 2"),
            ("#", "no URL"),
        ] {
            assert!(of_urls(wrong).expect_err(wrong).contains(part));
        }
    }
}
