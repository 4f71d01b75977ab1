//! Access logs: nginx's and Apache's, by their own way to write a format, and lines of JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use wallfinder_model::traffic::Traffic;

use super::route::{Routes, pooled};
use super::stamps::{Stamp, seconds, stamp};
use super::url::Url;
use super::{Imported, IsSecret, Log, Logged, Secrets, counted, route, without_secrets};

/// Methods without bodies, each of which has others.
const METHODS: [&str; 2] = ["GET", "HEAD"];
/// Longest line that is read.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Stamps of whole seconds are often of beginnings: earlier by more than so long is backwards.
const COARSE_APART_NS: u64 = 10_000_000_000;

const COMBINED: &str =
    "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent";

/// How the lines of a log are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// As a format of nginx has it: names behind `$`, and what stands between them.
    Pattern(Vec<Token>),
    /// An object of JSON on each line.
    Json,
}

/// A piece of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// What stands there.
    Plain(String),
    /// A variable of nginx, by its name.
    Variable(String),
}

impl Format {
    /// `combined` and `common` (of nginx and Apache, with whatever stands behind it), `json`, or a format as nginx has it.
    ///
    /// # Errors
    ///
    /// A format without a request.
    pub fn parse(text: &str) -> Result<Format, String> {
        let pattern = match text {
            "combined" | "common" => COMBINED,
            "json" => return Ok(Format::Json),
            other => other,
        };
        let mut tokens = Vec::new();
        let mut rest = pattern;
        while let Some(at) = rest.find('$') {
            if at > 0 {
                tokens.push(Token::Plain(rest[..at].to_owned()));
            }
            let name = rest[at + 1..].trim_start_matches('{');
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (name, behind) = name.split_at(end.unwrap_or(name.len()));
            tokens.push(Token::Variable(name.to_owned()));
            rest = behind.strip_prefix('}').unwrap_or(behind);
        }
        if !rest.is_empty() {
            tokens.push(Token::Plain(rest.to_owned()));
        }
        let names = |wanted: &[&str]| {
            tokens.iter().any(
                |token| matches!(token, Token::Variable(name) if wanted.contains(&name.as_str())),
            )
        };
        match names(&["request", "request_uri", "uri"]) {
            true => Ok(Format::Pattern(tokens)),
            false => Err(format!(
                "`{text}` is no format of a log: combined, common, json, or nginx's own, such as \
                 '$msec \"$request\" $status $request_time'"
            )),
        }
    }

    /// The variables of a line; `None`: it is written otherwise.
    fn fields(&self, line: &str) -> Option<BTreeMap<String, String>> {
        match self {
            Format::Json => json_fields(line),
            Format::Pattern(tokens) => {
                let mut fields = BTreeMap::new();
                let mut rest = line;
                for (nth, token) in tokens.iter().enumerate() {
                    match token {
                        Token::Plain(plain) => rest = rest.strip_prefix(plain.as_str())?,
                        Token::Variable(name) => {
                            let end = match tokens.get(nth + 1) {
                                Some(Token::Plain(next)) => end_before(rest, next)?,
                                Some(Token::Variable(_)) => return None,
                                // The last one ends with the word.
                                None => rest.find([' ', '"']).unwrap_or(rest.len()),
                            };
                            fields.insert(name.clone(), unescaped(&rest[..end]));
                            rest = &rest[end..];
                        }
                    }
                }
                Some(fields)
            }
        }
    }
}

/// Members of an object of JSON, and of a `request` in it, by the names that nginx, Caddy, Traefik, Envoy and others use.
fn json_fields(line: &str) -> Option<BTreeMap<String, String>> {
    let Value::Object(members) = serde_json::from_str(line).ok()? else {
        return None;
    };
    let mut fields = BTreeMap::new();
    let inner = match members.get("request") {
        Some(Value::Object(inner)) => Some(inner),
        _ => None,
    };
    let all = members.iter().chain(inner.into_iter().flatten());
    for (name, value) in all {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => continue,
        };
        let known = match name.to_ascii_lowercase().trim_start_matches(['@', ':']) {
            "request" => "request",
            "method" | "request_method" | "requestmethod" | "http_method" => "request_method",
            "request_uri" | "requesturi" | "requestpath" => "request_uri",
            "uri" | "path" => "uri",
            "url" | "target" => "url",
            "args" | "query_string" => "args",
            // What has spaces is a query of something else.
            "query" if !text.contains(char::is_whitespace) => "args",
            "msec" => "msec",
            "time_iso8601" => "time_iso8601",
            "time_local" => "time_local",
            "ts" | "time" | "timestamp" => "time",
            "starttime" | "start_time" | "startutc" | "startlocal" => "began",
            "request_time" => "request_time",
            // Caddy's, which has the request in an object, is in seconds.
            "duration" if inner.is_some() => "request_time",
            "duration" | "latency" => "took",
            _ => continue,
        };
        fields.insert(known.to_owned(), text);
    }
    (!fields.is_empty()).then_some(fields)
}

/// Reads a log. `has_stamps`: its requests have to say when they were made.
///
/// # Errors
///
/// A log of which no line is understood, with what the first one says.
pub fn logged(text: &str, format: &Format, has_stamps: bool) -> Result<Log, String> {
    let mut log = Log::default();
    let mut strange: Option<(usize, &str)> = None;
    let (mut strangers, mut unstamped, mut are_fine) = (0, 0, 0_u64);
    let mut backwards = Backwards::default();
    let mut are_at_their_ends = false;
    for (line, at) in text.lines().zip(1..) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let fields = Some(line)
            .filter(|line| line.len() <= LINE_BYTES_MAX)
            .and_then(|line| format.fields(line));
        let made = fields.as_ref().and_then(made);
        let Some((method, target)) = made else {
            strangers += 1;
            strange.get_or_insert((at, line));
            continue;
        };
        let found = fields.as_ref().and_then(began);
        let has = |name: &str| {
            fields
                .as_ref()
                .is_some_and(|fields| fields.contains_key(name))
        };
        are_at_their_ends |= has("took") && !has("began") && !has("request_time");
        if let Some((_, stamp)) = found {
            are_fine += u64::from(!stamp.is_coarse);
            // What is stamped as it began is logged as it ended.
            if has_stamps && !has("began") {
                backwards.see(stamp, at);
            }
        } else if has_stamps {
            unstamped += 1;
            continue;
        }
        log.requests.push(Logged {
            at_ns: found.map_or(0, |(at_ns, _)| at_ns),
            method,
            target,
            body: None,
        });
    }
    let shown = |line: &str| line.chars().take(120).collect::<String>();
    if log.requests.is_empty() {
        return Err(match (strange, unstamped) {
            (Some((at, line)), _) => format!(
                "line {at} is not of the format: {}. Name it with --log-format: combined, common, json, or nginx's own, \
                 such as '$msec \"$request\" $status $request_time'",
                shown(line)
            ),
            (None, 0) => "there is no request in it".to_owned(),
            (None, _) => "no line says when its request was made: a replay needs $msec, $time_iso8601 or $time_local".to_owned(),
        });
    }
    if let Some((at, _)) = strange {
        let lines = counted(strangers, "line");
        log.left_out.push(format!(
            "{lines} that are not of the format, the first of them line {at}"
        ));
    }
    if unstamped > 0 {
        log.left_out
            .push(format!("{} without a time", counted(unstamped, "line")));
    }
    if are_at_their_ends && has_stamps {
        log.left_out.push(
            "how long requests took, for its unit is not known: they begin at their stamps"
                .to_owned(),
        );
    }
    log.left_out.extend(backwards.said());
    // Some stamps of a log with parts of seconds have none.
    log.is_coarse = are_fine == 0;
    log.requests.sort_by_key(|request| request.at_ns);
    Ok(log)
}

/// Lines of a log whose stamps are earlier than one above them.
#[derive(Default)]
struct Backwards {
    latest_ns: u64,
    lines: usize,
    /// The first of them.
    first: usize,
}

impl Backwards {
    fn see(&mut self, stamp: Stamp, line: usize) {
        let usual_ns = match stamp.is_coarse {
            true => COARSE_APART_NS,
            false => 0,
        };
        if stamp.at_ns + usual_ns < self.latest_ns {
            self.lines += 1;
            if self.lines == 1 {
                self.first = line;
            }
        }
        self.latest_ns = self.latest_ns.max(stamp.at_ns);
    }

    /// What was done about them; nothing where there are none.
    fn said(self) -> Option<String> {
        (self.lines > 0).then(|| {
            format!(
                "the order of {} whose time is before that of a line above (the first: line {}): requests are sorted by time",
                counted(self.lines, "line"),
                self.first
            )
        })
    }
}

/// The method and the path that a line tells.
fn made(fields: &BTreeMap<String, String>) -> Option<(String, String)> {
    let (method, target) = match fields.get("request") {
        Some(line) => {
            let (method, rest) = line.split_once(' ')?;
            let target = match rest.split_once(" HTTP/") {
                Some((target, _)) => target,
                None => Some(rest.trim_end()).filter(|rest| !rest.contains(' '))?,
            };
            (method.to_owned(), target.to_owned())
        }
        None => {
            let method = fields.get("request_method").map_or("GET", String::as_str);
            let path_and_args = || {
                let path = fields.get("uri")?;
                let args = fields
                    .get("args")
                    .map_or("", |args| args.trim_start_matches('?'));
                let has_args = !path.contains('?') && !args.is_empty() && args != "-";
                Some(if has_args {
                    format!("{path}?{args}")
                } else {
                    path.clone()
                })
            };
            let target = fields.get("request_uri").cloned();
            let target = target
                .or_else(path_and_args)
                .or_else(|| fields.get("url").cloned());
            (method.to_owned(), target?)
        }
    };
    // A whole URL, as a proxy logs it.
    let target = match Url::of(&target) {
        Some(url) => url.target(),
        None => target,
    };
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    (is_method && target.starts_with('/')).then_some((method, target))
}

/// Where a variable ends: before what stands next, of which a quote is none where Apache escaped it.
fn end_before(rest: &str, next: &str) -> Option<usize> {
    let mut ends = rest.match_indices(next).map(|(at, _)| at);
    ends.find(|at| !next.starts_with('"') || !rest[..*at].ends_with('\\'))
}

/// Without the escapes of nginx (`\x22`), which are bytes, and of Apache (`\"`).
fn unescaped(line: &str) -> String {
    let line = &line.replace("\\\"", "\"");
    if !line.contains("\\x") {
        return line.clone();
    }
    let mut bytes = Vec::with_capacity(line.len());
    let mut rest = line.as_str();
    while let Some(at) = rest.find("\\x") {
        let (before, behind) = rest.split_at(at);
        bytes.extend_from_slice(before.as_bytes());
        let digits = behind
            .get(2..4)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match digits {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[4..];
            }
            None => {
                bytes.extend_from_slice(b"\\x");
                rest = &behind[2..];
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// When a request began: the stamp, which is of its end, less how long it took where the log says so; and the stamp.
fn began(fields: &BTreeMap<String, String>) -> Option<(u64, Stamp)> {
    // Who tells the beginning has it.
    if let Some(stamp) = fields.get("began").and_then(|text| stamp(text)) {
        return Some((stamp.at_ns, stamp));
    }
    let names = ["msec", "time_iso8601", "time_local", "time"];
    let stamps = names.iter().filter_map(|name| stamp(fields.get(*name)?));
    // The one that tells most, and else the first.
    let stamp = stamps.min_by_key(|stamp| stamp.is_coarse)?;
    let took_ns = fields
        .get("request_time")
        .and_then(|text| seconds(text))
        .unwrap_or(0);
    Some((stamp.at_ns.saturating_sub(took_ns), stamp))
}

/// A mix of the log's routes by how often each was asked, with the paths that were asked as rows. A log holds no bodies:
/// what had one is left out and counted.
///
/// # Errors
///
/// See [`logged`], and a log without a GET or a HEAD.
pub fn from_log(
    text: &str,
    format: &Format,
    is_secret: IsSecret<'_>,
    seed: u64,
) -> Result<Imported, String> {
    let log = logged(text, format, false)?;
    let mut secrets = Secrets::default();
    let mut routes = Routes::new();
    let mut others: BTreeMap<&str, usize> = BTreeMap::new();
    for made in &log.requests {
        if !METHODS.contains(&made.method.as_str()) {
            *others.entry(&made.method).or_default() += 1;
            continue;
        }
        let target = without_secrets(&made.target, is_secret, &mut secrets);
        let of_route = routes.entry((&made.method, route(&target)));
        of_route.or_default().push(target);
    }
    if routes.is_empty() {
        let why = "there is no GET and no HEAD in it, and a log holds no bodies for the others";
        return Err(why.to_owned());
    }
    let mut traffic = Traffic::default();
    pooled(routes, seed, &mut BTreeSet::new(), &mut traffic, |_, _| {});
    let mut left_out = log.left_out;
    left_out.extend(others.into_iter().map(|(method, count)| {
        format!(
            "{} of {method}, whose bodies a log does not hold",
            counted(count, "request")
        )
    }));
    left_out.extend(secrets.said());
    Ok(Imported {
        traffic,
        origin: None,
        left_out,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::route::{ROUTES_MAX, ROWS_MAX};
    use crate::import::tests::{telling, weights};

    const COMBINED_LOG: &str = "10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /items/1?token=s3 HTTP/1.1\" 200 23 \"-\" \"curl\"\n\
                                10.0.0.2 - ann [10/Oct/2000:13:55:37 -0700] \"GET /items/2 HTTP/1.1\" 200 23 \"-\" \"a b\"\n\
                                10.0.0.1 - - [10/Oct/2000:13:55:37 -0700] \"POST /cart HTTP/1.1\" 201 2 \"-\" \"x\"\n\
                                nonsense\n\
                                10.0.0.1 - - [10/Oct/2000:13:55:38 -0700] \"GET /search?q=a HTTP/1.1\" 200 23\n\
                                10.0.0.1 - - [10/Oct/2000:13:55:39 -0700] \"HEAD /items/3 HTTP/1.1\" 200 0\n";

    #[test]
    fn a_log_becomes_routes_with_the_paths_that_were_asked() {
        let format = Format::parse("combined").unwrap();
        let made = from_log(COMBINED_LOG, &format, &telling, 1).expect("it is one");
        let shown = weights(&made);
        assert_eq!(
            shown,
            [
                ("/items/*".to_owned(), Some(2)),
                ("/search".to_owned(), Some(1)),
                ("HEAD /items/*".to_owned(), Some(1))
            ]
        );
        assert_eq!(
            made.traffic.request[0].get.as_deref(),
            Some("{paths_1.path|raw}")
        );
        assert_eq!(made.traffic.data["paths_1"].rows.len(), 2);
        assert_eq!(made.traffic.request[2].head.as_deref(), Some("/items/3"));
        let text = made.written();
        for part in [
            "# Left out: 1 line",
            "line 4",
            "1 request of POST",
            "the parameter `token`",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("s3"));
        let file = crate::TrafficFile::parse("t", &text).expect(&text);
        assert_eq!(file.traffic, made.traffic);
        let odd = "10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /caf\\xC3\\xA9?a=b%20c HTTP/1.1\" 200 2\n";
        let odd = from_log(odd, &format, &telling, 1).expect("it is one");
        let path = odd.traffic.request[0].get.as_deref();
        assert_eq!(path, Some("/caf%C3%A9?a=b%20c"));
        let apaches =
            r#"10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a?q=\"b\" HTTP/1.1" 200 2"#;
        let apaches = from_log(apaches, &format, &telling, 1).expect("it is one");
        let path = apaches.traffic.request[0].get.as_deref();
        assert_eq!(path, Some("/a?q=\"b\""));
    }

    #[test]
    fn a_request_began_before_its_stamp_where_the_log_says_how_long_it_took() {
        let format = Format::parse("$msec $request_time \"$request\"").unwrap();
        let log = logged(
            "1000.500 0.200 \"GET /b HTTP/1.1\"\n1000.400 0.350 \"GET /a HTTP/2.0\"\n",
            &format,
            true,
        )
        .unwrap();
        let shown: Vec<(u64, &str)> = log
            .requests
            .iter()
            .map(|made| (made.at_ns / 1_000_000, made.target.as_str()))
            .collect();
        assert_eq!(shown, [(1_000_050, "/a"), (1_000_300, "/b")]);
        assert!(!log.is_coarse);
        // Of a whole second too: it ended in it, and began so long before.
        let format = Format::parse("[$time_local] $request_time \"$request\"").unwrap();
        let line = "[10/Oct/2000:13:55:36 -0700] 2.500 \"GET /slow HTTP/1.1\"\n";
        let slow = logged(line, &format, true).unwrap();
        assert_eq!(slow.requests[0].at_ns, 971_211_333_500_000_000);
        assert!(slow.is_coarse);
        let coarse = logged(COMBINED_LOG, &Format::parse("common").unwrap(), true).unwrap();
        assert!(coarse.is_coarse);
        assert_eq!(coarse.requests.len(), 5);
    }

    #[test]
    fn lines_whose_time_goes_backwards_are_counted_and_told() {
        let format = Format::parse("$msec $request_time \"$request\"").unwrap();
        let line = |(msec, took): (&str, &str)| format!("{msec} {took} \"GET /a HTTP/1.1\"\n");
        let log_of = |stamps: &[(&str, &str)]| stamps.iter().copied().map(line).collect::<String>();
        let said = "the order of 2 lines whose time is before that of a line above (the first: line 3): requests are \
                    sorted by time";
        let backwards = log_of(&[
            ("1000.000", "0.000"),
            ("1005.000", "0.000"),
            ("1003.000", "0.000"),
            ("1004.000", "0.000"),
            ("1006.000", "0.000"),
        ]);
        let log = logged(&backwards, &format, true).unwrap();
        assert!(log.requests.is_sorted_by_key(|made| made.at_ns));
        assert_eq!(log.left_out, [said]);
        // Without a replay nobody asks for times.
        let made = from_log(&backwards, &format, &telling, 1).expect("it is one");
        assert_eq!(made.left_out, Vec::<String>::new());
        // Stamps are of ends: what took long began before what is logged above it, and nothing is amiss.
        let usual = log_of(&[("1000.000", "0.000"), ("1000.500", "2.000")]);
        let log = logged(&usual, &format, true).unwrap();
        assert_eq!(log.left_out, Vec::<String>::new());
    }

    #[test]
    fn a_file_with_all_the_rows_of_its_routes_is_read_again_as_it_is() {
        let format = Format::parse("\"$request\"").unwrap();
        let long = "x".repeat(100);
        let line = |nth: usize| format!("\"GET /r{}/{long}?n={nth} HTTP/1.1\"\n", nth % 12);
        let log: String = (0..12 * (ROWS_MAX + 1)).map(line).collect();
        let made = from_log(&log, &format, &telling, 1).expect("it is one");
        let text = made.written();
        assert!(text.len() > 1 << 20, "{}", text.len());
        // There may be more routes than these twelve.
        let longest = text.len() * ROUTES_MAX / 12;
        assert!(longest < crate::TRAFFIC_BYTES_MAX as usize, "{longest}");
        let read = crate::TrafficFile::parse("t", &text).expect("it is one");
        assert_eq!(read.traffic, made.traffic);
    }

    fn targets(log: &Log) -> Vec<&str> {
        let made = log.requests.iter();
        made.map(|made| made.target.as_str()).collect()
    }

    #[test]
    fn the_path_is_the_one_that_was_asked() {
        let of = |format: &str, line: &str| {
            let log = logged(line, &Format::parse(format).unwrap(), false);
            log.map(|log| targets(&log).join(" "))
        };
        for (asked, want) in [
            (
                "/login?next=https://x.example/cart",
                "/login?next=https://x.example/cart",
            ),
            ("/r?u=http://a.b", "/r?u=http://a.b"),
            ("http://h/a?u=http://b/c", "/a?u=http://b/c"),
            ("https://h?u=/a", "/?u=/a"),
            ("http://h", "/"),
            // As it came, with a space that a server took for a part of it.
            ("/a b", "/a b"),
            ("/caf\\xC3\\xA9", "/café"),
            ("/\\x5Cx41", "/\\x41"),
        ] {
            let line = format!("\"GET {asked} HTTP/1.1\"\n");
            assert_eq!(of("\"$request\"", &line).as_deref(), Ok(want), "{line}");
        }
        let apart = of("$status $request_uri", "200 /caf\\xC3\\xA9\n");
        assert_eq!(apart.as_deref(), Ok("/café"));
        let old = of("\"$request\"", "\"GET /a\"\n");
        assert_eq!(old.as_deref(), Ok("/a"));
        assert!(of("\"$request\"", "\"GET /a b\"\n").is_err());
        let apart = r#"{"path":"/a","query":"x=1"}"#;
        assert_eq!(of("json", apart).as_deref(), Ok("/a?x=1"));
        let other = r#"{"path":"/b","query":"SELECT 1"}"#;
        assert_eq!(of("json", other).as_deref(), Ok("/b"));
    }

    #[test]
    fn json_is_read_by_the_names_that_servers_use() {
        let caddy = r#"{"level":"info","ts":1646861401.52,"request":{"method":"GET","uri":"/a?b=1","host":"h"},"duration":0.02,"status":200}"#;
        let nginx = r#"{"time_iso8601":"2022-03-09T21:30:01+00:00","request":"GET /c HTTP/1.1"}"#;
        let log = logged(&format!("{caddy}\n{nginx}\n"), &Format::Json, true).unwrap();
        assert_eq!(targets(&log), ["/c", "/a?b=1"]);
        assert_eq!(log.requests[1].at_ns, 1_646_861_401_500_000_000);
        // Envoy tells when a request began, and how long it took in milliseconds.
        let envoy = r#"{"start_time":"2022-03-09T21:30:01.250Z","method":"GET","path":"/d","duration":250}"#;
        let log = logged(envoy, &Format::Json, true).unwrap();
        assert_eq!(log.requests[0].at_ns % 1_000_000_000, 250_000_000);
        // nginx's own path, with its query, beside the one that it was rewritten to; and the finest stamp.
        let both = r#"{"msec":"1646861401.520","time_local":"09/Mar/2022:21:30:01 +0000","request_uri":"/e?q=1","uri":"/index.php","args":"x=2"}"#;
        let apart = r#"{"time_local":"09/Mar/2022:21:30:02 +0000","uri":"/f","args":"q=1"}"#;
        let log = logged(&format!("{both}\n{apart}\n"), &Format::Json, true).unwrap();
        assert_eq!(targets(&log), ["/e?q=1", "/f?q=1"]);
        assert!(!log.is_coarse);
        assert_eq!(log.requests[0].at_ns % 1_000_000_000, 520_000_000);
        // Echo's is in nanoseconds, others' in milliseconds: nothing is taken off a stamp for it.
        let echo = r#"{"time":"2022-03-09T21:30:01.25Z","method":"GET","uri":"/g","latency":14743,"latency_human":"14.743µs"}"#;
        let log = logged(echo, &Format::Json, true).unwrap();
        assert_eq!(log.requests[0].at_ns % 1_000_000_000, 250_000_000);
        assert!(
            log.left_out[0].contains("its unit is not known"),
            "{:?}",
            log.left_out
        );
        // A stamp of microseconds, and one on the second among others.
        let fine =
            "{\"ts\":1646861401520000,\"uri\":\"/\"}\n{\"ts\":1646861402,\"uri\":\"/\\\\x41\"}\n";
        let log = logged(fine, &Format::Json, true).unwrap();
        assert!(!log.is_coarse);
    }

    #[test]
    fn what_is_no_log_is_told_with_the_way_out() {
        let combined = Format::parse("combined").unwrap();
        let why = logged("hello\n", &combined, false).expect_err("no log");
        assert!(
            why.contains("line 1") && why.contains("--log-format"),
            "{why}"
        );
        assert!(
            logged("", &combined, false)
                .expect_err("empty")
                .contains("no request")
        );
        assert!(
            Format::parse("$status")
                .expect_err("no request")
                .contains("combined")
        );
        let unstamped = Format::parse("\"$request\"").unwrap();
        assert!(
            logged("\"GET / HTTP/1.1\"\n", &unstamped, true)
                .expect_err("no time")
                .contains("$msec")
        );
    }
}
