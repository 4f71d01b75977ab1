//! A traffic file as text: read, and the place of what is wrong in it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use wallfinder_model::traffic::{Request, Traffic};
use wallfinder_scenario::{Fault, FileError, file};
use wallfinder_wire::mix::KINDS_MAX;

use crate::import::{IsSecret, Url, drawn, has_secret, route, unused};
use crate::slots::literal;

/// Most bytes of a traffic file, and of a list of URLs: importers write rows into the file itself.
pub const TRAFFIC_BYTES_MAX: u64 = 64 << 20;
/// Most rows that are made of a list: each is kept with the scenario.
const ROWS_MAX: u64 = 100_000;
/// Longest place that is shown whole where something is wrong; of a longer one its first line is.
const SHOWN_BYTES_MAX: usize = 4 << 10;

/// Where the keys are told.
const HELP: &str = "`wallfinder traffic --help` shows a file, and docs/traffic.md has every key";
/// The way out for lists that cannot be pooled.
const FROM_A_FILE: &str = "put the paths into a CSV file, and send them by --traffic: [data.list] with file = \"paths.csv\" and \
                           columns = [\"path\"], [[request]] with get = \"{list.path|raw}\"";

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
        let span = shown(&self.text, file::nearest(&self.text, key));
        let error = FileError::at(&self.name, &self.text, span, fault.message.clone());
        Some(error.with_help(HELP))
    }
}

/// As much of a place as is shown: rows may be megabytes.
fn shown(text: &str, span: Range<usize>) -> Range<usize> {
    let first = text[span.clone()].lines().next().unwrap_or_default();
    match span.len() > SHOWN_BYTES_MAX {
        true => span.start..span.start + first.len(),
        false => span,
    }
}

/// A line of a list.
struct Listed<'l> {
    /// Its number.
    at: usize,
    weight: u32,
    /// A path, or a URL.
    place: &'l str,
}

/// Reads a list: on each line a path, or a URL of the target's, with a weight before it where that is not 1. Empty
/// lines and those that begin with `#` are passed over. Each is a kind of request of its own; of more than there may be
/// kinds, those of a route are one.
///
/// # Errors
///
/// A line that is none of these, by its number; and of a list whose lines come to be rows, more routes or rows than
/// there may be, and secrets, which would be kept with the rows.
pub fn of_urls(text: &str, is_secret: IsSecret<'_>) -> Result<Traffic, String> {
    let lines = listed(text)?;
    if lines.is_empty() {
        return Err("there is no URL in it".to_owned());
    }
    if lines.len() > KINDS_MAX {
        return pooled(&lines, is_secret);
    }
    let request = |line: Listed<'_>| Request {
        weight: Some(line.weight),
        // A list has no places to fill in.
        get: Some(literal(line.place)),
        name: Some(line.place.to_owned()),
        ..Request::default()
    };
    Ok(Traffic {
        request: lines.into_iter().map(request).collect(),
        ..Traffic::default()
    })
}

fn listed(text: &str) -> Result<Vec<Listed<'_>>, String> {
    let mut lines = Vec::new();
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
        lines.push(Listed { at, weight, place });
    }
    Ok(lines)
}

/// The lines of each route as one request, with as many rows of a path as its weight has it.
fn pooled(lines: &[Listed<'_>], is_secret: IsSecret<'_>) -> Result<Traffic, String> {
    let mut routes: BTreeMap<(String, String), Vec<(String, u32)>> = BTreeMap::new();
    for line in lines {
        let (origin, path) = origin_and_path(line.place);
        if has_secret(&path, is_secret) {
            let why = "it has a secret, which would be kept in records as a row of this list";
            return Err(format!("line {}: {why}: {FROM_A_FILE}", line.at));
        }
        let of_route = routes.entry((origin, route(&path))).or_default();
        of_route.push((path, line.weight));
    }
    if routes.len() > KINDS_MAX {
        return Err(format!(
            "its {} lines are of {} routes, and {KINDS_MAX} kinds of request are the most: {FROM_A_FILE}",
            lines.len(),
            routes.len()
        ));
    }
    let rows = routes
        .values()
        .map(|paths| total(paths) / u64::from(step(paths)));
    let all: u64 = rows.sum();
    if all > ROWS_MAX {
        return Err(format!(
            "its {} lines are {all} rows, each as often as its weight has it, and {ROWS_MAX} are the most: {FROM_A_FILE}",
            lines.len()
        ));
    }
    let mut by_weight: Vec<_> = routes.into_iter().collect();
    by_weight.sort_by_key(|(_, paths)| std::cmp::Reverse(total(paths)));
    let mut traffic = Traffic::default();
    let mut names = BTreeSet::new();
    for ((origin, route), paths) in by_weight {
        let (weight, step) = (total(&paths), step(&paths));
        let rows = paths
            .into_iter()
            .flat_map(|(path, weight)| std::iter::repeat_n(path, (weight / step) as usize));
        let mut kind = drawn(&mut traffic, "GET", &origin, rows.collect());
        kind.name = Some(unused(&route, &mut names));
        kind.weight = Some(u32::try_from(weight).unwrap_or(u32::MAX));
        traffic.request.push(kind);
    }
    Ok(traffic)
}

/// The weight of all.
fn total(paths: &[(String, u32)]) -> u64 {
    paths.iter().map(|(_, weight)| u64::from(*weight)).sum()
}

/// The weight of one row: it goes into that of each.
fn step(paths: &[(String, u32)]) -> u32 {
    let weights = paths.iter().map(|(_, weight)| *weight);
    weights.fold(0, gcd)
}

/// The origin of a URL, none of a path; and the path and query.
fn origin_and_path(place: &str) -> (String, String) {
    if place.starts_with('/') {
        let sent = place.split('#').next().unwrap_or_default();
        return (String::new(), sent.to_owned());
    }
    let schemed = format!("http://{place}");
    let url = Url::of(place).or_else(|| Url::of(&schemed));
    let url = url.expect("it begins with a scheme");
    (url.origin(), url.target())
}

fn gcd(a: u32, b: u32) -> u32 {
    match b {
        0 => a,
        b => gcd(b, a % b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile;
    use crate::compile::tests::{Files, origin};
    use wallfinder_wire::mix::Protocol;

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
        let text = "# the shop\n/search\n\n60 http://10.0.0.5/item?id=3\n";
        let read = of_urls(text, &is_token).expect("it is one");
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
            assert!(of_urls(wrong, &is_token).expect_err(wrong).contains(part));
        }
    }

    fn is_token(name: &str) -> bool {
        name == "token"
    }

    /// What a list of so many lines becomes.
    fn list(lines: usize, line: impl Fn(usize) -> String) -> Result<Traffic, String> {
        let lines: Vec<String> = (0..lines).map(line).collect();
        of_urls(&lines.join("\n"), &is_token)
    }

    #[test]
    fn a_list_of_more_lines_than_kinds_is_pooled_by_route() {
        let whole = list(KINDS_MAX, |nth| format!("/items/{nth}")).expect("it is one");
        assert_eq!((whole.request.len(), whole.data.len()), (KINDS_MAX, 0));
        // Of ten lines one is the cart, one is of twice the weight, and one has its host.
        let line = |nth: usize| match nth % 10 {
            0 => "3 /cart".to_owned(),
            1 => format!("6 /items/{nth}?q=1#top"),
            2 => format!("http://h/items/{nth}"),
            _ => format!("3 /items/{nth}"),
        };
        let pooled = list(1_000, line).expect("it is one");
        let shown: Vec<(String, Option<u32>, Option<&str>)> = pooled
            .request
            .iter()
            .map(|request| {
                let get = request.get.as_deref();
                (request.shown_name(), request.weight, get)
            })
            .collect();
        let of = |name: &str, weight, get| (name.to_owned(), Some(weight), Some(get));
        assert_eq!(
            shown,
            [
                of("/items/*", 2_700, "{paths_1.path|raw}"),
                of("/cart", 300, "/cart"),
                of("/items/* 2", 100, "http://h/{paths_3.path|raw}"),
            ]
        );
        // As many rows of a path as its weight has it.
        let rows = |table: &str| -> Vec<String> {
            let rows = pooled.data[table].rows.iter();
            rows.map(|row| row["path"].to_string()).collect()
        };
        assert_eq!(
            rows("paths_1")[..4],
            ["/items/1?q=1", "/items/1?q=1", "/items/3", "/items/4"]
        );
        assert_eq!(rows("paths_1").len(), 900);
        assert_eq!(rows("paths_3")[..2], ["items/2", "items/12"]);
        let world = Files(BTreeMap::new());
        let made = compile(&pooled, &origin(Protocol::Http1), &world).expect("it is one");
        assert_eq!(made.mix.kinds.len(), 3);
        let strange = list(500, |nth| format!("http://other/{nth}")).expect("it is one");
        let why = compile(&strange, &origin(Protocol::Http1), &world).expect_err("another's");
        assert!(why.message.contains("is another's"), "{}", why.message);
    }

    #[test]
    fn a_list_that_cannot_be_pooled_is_told_with_the_way_out() {
        let routes = list(500, |nth| format!("/route-{nth}/x")).expect_err("too many");
        let rows = list(500, |nth| format!("{} /items/{nth}", 500 + nth)).expect_err("too many");
        let secret = list(500, |nth| format!("/items/{nth}?token=s3")).expect_err("a secret");
        for (why, part) in [
            (routes, "its 500 lines are of 500 routes, and 400"),
            (rows, "its 500 lines are 374750 rows"),
            (secret, "line 1: it has a secret"),
        ] {
            assert!(why.contains(part), "{why}");
            assert!(why.contains("[data.list]") && !why.contains("s3"), "{why}");
        }
    }

    #[test]
    fn what_is_wrong_with_many_rows_is_shown_by_their_first_line() {
        let row = "  { name = \"ann\" },\n";
        let text = format!("[data.users]\nrows = [\n{}]\n", row.repeat(1_000));
        let file = TrafficFile::parse("shop.toml", &text).expect("it is one");
        let error = file.error(&Fault::at("traffic.data.users.rows", "no"));
        let error = error.expect("it is of the file");
        assert_eq!((error.line(), error.message()), (2, "no"));
        let span = file::nearest(&text, "data.users.rows");
        assert_eq!(&text[shown(&text, span)], "[");
    }
}
