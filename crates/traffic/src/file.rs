//! A traffic file as text: read, and the place of what is wrong in it.

use std::path::Path;

use wallfinder_model::traffic::{Request, Traffic};
use wallfinder_scenario::{Fault, FileError, file};

use crate::slots::literal;

/// Where the keys are told.
const HELP: &str = "`wallfinder traffic --help` shows a file, and docs/traffic.md has every key";

/// What users send, and the text that says so.
#[derive(Debug, Clone)]
pub struct TrafficFile {
    /// As it was read, not checked.
    pub traffic: Traffic,
    name: String,
    text: String,
}

impl TrafficFile {
    /// Reads a text of TOML. `name` is the file's, which errors carry, and whose folder the files are looked for in that
    /// it names.
    ///
    /// # Errors
    ///
    /// What is no TOML, a key that there is not, a value that its key does not take.
    pub fn parse(name: &str, text: &str) -> Result<TrafficFile, FileError> {
        let traffic = toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            FileError::at(name, text, span, error.message().trim_end().to_owned()).with_help(HELP)
        })?;
        let mut file = TrafficFile {
            traffic,
            name: name.to_owned(),
            text: text.to_owned(),
        };
        if let Some(folder) = Path::new(name).parent() {
            file.traffic.beside(folder);
        }
        Ok(file)
    }

    /// What is wrong with a scenario's traffic that came from here, at its place or at the nearest above it. `None`: it
    /// is about something else.
    pub fn error(&self, fault: &Fault) -> Option<FileError> {
        let key = fault.key.strip_prefix("traffic")?.trim_start_matches('.');
        let span = file::nearest(&self.text, key);
        let error = FileError::at(&self.name, &self.text, span, fault.message.clone());
        Some(error.with_help(HELP))
    }
}

/// Reads a list: on each line a path, or a URL of the target's, with a weight before it where that is not 1. Empty
/// lines and those that begin with `#` are passed over.
///
/// # Errors
///
/// A line that is none of these, by its number.
pub fn of_urls(text: &str) -> Result<Traffic, String> {
    let mut traffic = Traffic::default();
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
        traffic.request.push(Request {
            weight: Some(weight),
            // A list has no places to fill in.
            get: Some(literal(place)),
            name: Some(place.to_owned()),
            ..Request::default()
        });
    }
    match traffic.request.is_empty() {
        true => Err("there is no URL in it".to_owned()),
        false => Ok(traffic),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_looked_for_beside_the_traffic_file() {
        let text = "[data.users]\nfile = \"users.csv\"\n[[request]]\npost = \"/\"\nbody = \"@big.json\"\n\
                    [[request.multipart]]\nname = \"a\"\nfile = \"/abs\"\n";
        let traffic = TrafficFile::parse("shop/traffic.toml", text)
            .expect("it is one")
            .traffic;
        assert_eq!(
            traffic.data["users"].file.as_deref(),
            Some(Path::new("shop/users.csv"))
        );
        assert_eq!(traffic.request[0].body.as_deref(), Some("@shop/big.json"));
        assert_eq!(
            traffic.request[0].multipart[0].file.as_deref(),
            Some(Path::new("/abs"))
        );
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        for (text, line, part) in [
            ("[[request]]\nget = \"/\"\nwieght = 3\n", 3, "wieght"),
            ("request = 3\n", 1, "expected a sequence"),
            (
                "[[session]]\nname = \"a\"\nsteps = [\n{ gte = \"/\" } ]\n",
                4,
                "gte",
            ),
        ] {
            let error = TrafficFile::parse("shop.toml", text)
                .expect_err(text)
                .to_string();
            assert!(error.contains(&format!("shop.toml:{line}:")), "{error}");
            assert!(error.contains(part), "{error}");
        }
        let text =
            "[[session]]\nname = \"a\"\nsteps = [\n  { get = \"/\" },\n  { get = \"/b\" } ]\n";
        let file = TrafficFile::parse("shop.toml", text).expect("it is one");
        let at = |key: &str| {
            let error = file.error(&Fault::at(key, "no"));
            error.map(|error| error.line())
        };
        assert_eq!(at("traffic.session.0.steps.1.get"), Some(5));
        assert_eq!(at("traffic.session.0.steps.1.take.token"), Some(5));
        assert_eq!(at("traffic.session.0"), Some(1));
        assert_eq!(at("target.url"), None);
    }

    #[test]
    fn a_list_of_urls_may_have_weights() {
        let read =
            of_urls("# the shop\n/search\n\n60 http://10.0.0.5/item?id=3\n").expect("it is one");
        let shown: Vec<(String, Option<u32>)> = read
            .request
            .iter()
            .map(|request| (request.shown_name(), request.weight))
            .collect();
        let of = |name: &str, weight| (name.to_owned(), Some(weight));
        assert_eq!(
            shown,
            [of("/search", 1), of("http://10.0.0.5/item?id=3", 60)]
        );
        for (wrong, part) in [
            ("x /a", "line 1"),
            ("/a\n1 /b c", "line 2"),
            ("#", "no URL"),
        ] {
            assert!(of_urls(wrong).expect_err(wrong).contains(part));
        }
    }
}
