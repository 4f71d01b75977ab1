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
    let lines: Vec<Listed<'_>> = listed(text).take(KINDS_MAX + 1).collect::<Result<_, _>>()?;
    if lines.is_empty() {
        return Err("there is no URL in it".to_owned());
    }
    if lines.len() > KINDS_MAX {
        return pooled(text, is_secret);
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

fn listed(text: &str) -> impl Iterator<Item = Result<Listed<'_>, String>> {
    text.lines().zip(1..).filter_map(|(line, at)| {
        let words: Vec<&str> = line.split_whitespace().take(3).collect();
        let found = match words[..] {
            [] => return None,
            [first, ..] if first.starts_with('#') => return None,
            [place] => Ok((1, place)),
            [weight, place] => match weight.parse::<u32>().ok().filter(|weight| *weight > 0) {
                Some(weight) => Ok((weight, place)),
                None => Err(format!("line {at}: `{weight}` is no weight, such as 60")),
            },
            _ => Err(format!("line {at} is not `[WEIGHT] URL`: {line}")),
        };
        Some(found.map(|(weight, place)| Listed { at, weight, place }))
    })
}

/// The lines of each route as one request, with as many rows of a path as its weight has it.
fn pooled(text: &str, is_secret: IsSecret<'_>) -> Result<Traffic, String> {
    let mut routes: BTreeMap<(String, String), BTreeMap<String, u64>> = BTreeMap::new();
    for line in listed(text) {
        let line = line?;
        let (origin, path) = origin_and_path(line.place);
        if has_secret(&path, is_secret) {
            let why = "it has a secret, which would be kept in records as a row of this list";
            return Err(format!("line {}: {why}: {FROM_A_FILE}", line.at));
        }
        let of_route = routes.entry((origin, route(&path))).or_default();
        *of_route.entry(path).or_default() += u64::from(line.weight);
    }
    if routes.len() > KINDS_MAX {
        return Err(format!(
            "its lines are of {} routes, and {KINDS_MAX} kinds of request are the most: {FROM_A_FILE}",
            routes.len()
        ));
    }
    let rows: u64 = routes
        .values()
        .map(|paths| total(paths) / common(paths.values()))
        .sum();
    if rows > ROWS_MAX {
        return Err(format!(
            "its lines are {rows} rows, each path as often as its weight has it, and {ROWS_MAX} are the most: {FROM_A_FILE}"
        ));
    }
    let mut by_weight: Vec<_> = routes.into_iter().collect();
    by_weight.sort_by_key(|(_, paths)| std::cmp::Reverse(total(paths)));
    let totals: Vec<u64> = by_weight.iter().map(|(_, paths)| total(paths)).collect();
    let unit = common(totals.iter());
    let mut traffic = Traffic::default();
    let mut names = BTreeSet::new();
    for (((origin, route), paths), total) in by_weight.into_iter().zip(totals) {
        let weight = u32::try_from(total / unit)
            .map_err(|_| format!("the weights of its routes are too far apart: {FROM_A_FILE}"))?;
        let step = common(paths.values());
        let rows = paths
            .into_iter()
            .flat_map(|(path, weight)| std::iter::repeat_n(path, (weight / step) as usize));
        let mut kind = drawn(&mut traffic, "GET", &origin, rows.collect());
        kind.name = Some(unused(&route, &mut names));
        kind.weight = Some(weight);
        traffic.request.push(kind);
    }
    Ok(traffic)
}

/// The weight of all.
fn total(paths: &BTreeMap<String, u64>) -> u64 {
    paths.values().sum()
}

/// The largest number that goes into all of them, of which there is one that is not 0.
fn common<'w>(weights: impl Iterator<Item = &'w u64>) -> u64 {
    weights.fold(0, |one, other| gcd(one, *other))
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

fn gcd(a: u64, b: u64) -> u64 {
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
                of("/items/*", 27, "{paths_1.path|raw}"),
                of("/cart", 3, "/cart"),
                of("/items/* 2", 1, "http://h/{paths_3.path|raw}"),
            ]
        );
        // As many rows of a path as its weight has it.
        let rows = |table: &str| -> Vec<String> {
            let rows = pooled.data[table].rows.iter();
            rows.map(|row| row["path"].to_string()).collect()
        };
        assert_eq!(
            rows("paths_1")[..4],
            [
                "/items/101?q=1",
                "/items/101?q=1",
                "/items/103",
                "/items/104"
            ]
        );
        assert_eq!(rows("paths_1").len(), 900);
        assert_eq!(rows("paths_3")[..2], ["items/102", "items/112"]);
        let world = Files(BTreeMap::new());
        let made = compile(&pooled, &origin(Protocol::Http1), &world).expect("it is one");
        assert_eq!(made.mix.kinds.len(), 3);
        let strange = list(500, |nth| format!("http://other/{nth}")).expect("it is one");
        let why = compile(&strange, &origin(Protocol::Http1), &world).expect_err("another's");
        assert!(why.message.contains("is another's"), "{}", why.message);
    }

    #[test]
    fn paths_that_come_again_are_a_row_with_more_weight_and_weights_are_exact() {
        let most = u32::MAX;
        let line = |nth: usize| match nth % 3 {
            0 => format!("{most} /a/1"),
            1 => "/a/2".to_owned(),
            _ => "/b".to_owned(),
        };
        // 200 times each: 4,294,967,295 rows to 1 are more than there may be.
        let why = list(600, line).expect_err("too many rows");
        assert!(why.contains("4294967297 rows"), "{why}");
        let line = |nth: usize| match nth % 2 {
            0 => format!("{most} /a/1"),
            _ => format!("{most} /b"),
        };
        let made = list(600, line).expect("it is one");
        let weights: Vec<Option<u32>> = made.request.iter().map(|kind| kind.weight).collect();
        assert_eq!((weights, made.data.len()), (vec![Some(1); 2], 0));
        let line = |nth: usize| match nth {
            0 => "/b".to_owned(),
            _ => format!("{most} /a/1"),
        };
        assert!(
            list(600, line)
                .expect_err("too far")
                .contains("too far apart")
        );
    }

    #[test]
    fn a_list_that_cannot_be_pooled_is_told_with_the_way_out() {
        let routes = list(500, |nth| format!("/route-{nth}/x")).expect_err("too many");
        let rows = list(500, |nth| format!("{} /items/{nth}", 500 + nth)).expect_err("too many");
        let secret = list(500, |nth| format!("/items/{nth}?token=s3")).expect_err("a secret");
        for (why, part) in [
            (routes, "its lines are of 500 routes, and 400"),
            (rows, "its lines are 374750 rows"),
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
