//! The load that a command line asks for, with each tool's own defaults.
//!
//! Pure: words in, shape out. What a tool decides elsewhere (a script, a configuration
//! file, stages) is not seen here.

use wallfinder_model::plan::{Arrival, Load, Stop};
use wallfinder_model::{Decode, Nanos, Rate};

use super::DriverKind;
use super::flags::{self, Flag, Means, Style};
use crate::report::held;

/// The load of a foreign driver. What is not known is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// The URL on its command line, as given: it may hold secrets.
    pub url: Option<String>,
    /// Connections.
    pub connections: Option<u32>,
    /// Requests in flight on one connection at the most.
    pub in_flight_per_connection: Option<u32>,
    /// Its threads or workers.
    pub workers: Option<u32>,
    /// How long it loads.
    pub duration: Option<Nanos>,
    /// How many requests it makes, where that ends it.
    pub requests: Option<u64>,
    /// Requests per second over all connections, where it keeps to a rate.
    pub rate: Option<Rate>,
    /// What it leaves out at its start.
    pub warmup: Option<Nanos>,
    /// When it gives a request up; none: never.
    pub timeout: Option<Nanos>,
    /// Whether it is told to count latency from the intended start.
    pub latency_from_due: bool,
    /// A new connection for each request.
    pub connection_per_request: bool,
    /// The method.
    pub method: String,
    /// Names of extra header fields. Values may be secrets.
    pub header_names: Vec<String>,
    /// Bytes of the body, where it stands on the command line.
    pub body_bytes: Option<u64>,
}

impl Shape {
    /// As a step's load. What is not known is 0; in an open model the lateness of the tool
    /// is not known either.
    pub fn load(&self) -> Load {
        Load {
            connections: self.connections.unwrap_or(0),
            in_flight_per_connection: self.in_flight_per_connection.unwrap_or(0),
            max_in_flight: None,
            workers: self.workers.unwrap_or(0),
            arrival: match self.rate {
                Some(rate) => Arrival::Constant { rate },
                None => Arrival::Closed { think: Nanos(0) },
            },
            warmup: self.warmup.unwrap_or_default(),
            stop: Stop {
                after: self.duration.unwrap_or_default(),
                requests: self.requests,
            },
            timeout: self.timeout.unwrap_or_default(),
            drain: Nanos(0),
            connection_per_request: self.connection_per_request,
            method: self.method.clone(),
            header_names: self.header_names.clone(),
            body_bytes: self.body_bytes.unwrap_or(0),
            decode: Decode::None,
            no_batching: false,
        }
    }
}

/// A known flag as given.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) means: Means,
    pub(super) value: Option<String>,
    /// The word that holds the value, and where in it the value begins.
    pub(super) place: (usize, usize),
}

/// What a command line says, flag by flag.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// In order.
    pub(super) given: Vec<Given>,
    /// Words that are no flags, with their places.
    pub(super) bare: Vec<(usize, String)>,
    /// Where `--` stands.
    pub(super) end_of_flags: Option<usize>,
    /// What the warm-up's own brackets hold.
    warmup_words: Vec<String>,
}

impl Reading {
    pub(super) fn has(&self, means: Means) -> bool {
        self.given.iter().any(|given| given.means == means)
    }

    /// The last value given for a meaning: it wins in every tool.
    fn value(&self, means: Means) -> Option<&str> {
        let mut given = self.given.iter().rev();
        given.find_map(|given| given.value.as_deref().filter(|_| given.means == means))
    }
}

/// Reads the words after the program (and its subcommand).
pub(super) fn read(kind: DriverKind, words: &[String]) -> Reading {
    let known = flags::of(kind);
    let style = flags::style(kind);
    let mut reading = Reading::default();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        if word == "--" {
            reading.end_of_flags = Some(at - 1);
            break;
        }
        if !word.starts_with('-') || word == "-" {
            if word == "[" && reading.has(Means::Warmup) {
                let inside = words[at..].iter().take_while(|word| *word != "]");
                reading.warmup_words = inside.cloned().collect();
                at += reading.warmup_words.len() + 1;
            } else {
                reading.bare.push((at - 1, word.clone()));
            }
            continue;
        }
        for (flag, attached) in in_word(known, style, word) {
            // What is attached ends with the word.
            let mut place = (
                at - 1,
                word.len() - attached.as_ref().map_or(0, String::len),
            );
            let value = match attached {
                None if flag.takes_value => {
                    at += 1;
                    place = (at - 1, 0);
                    words.get(at - 1).cloned()
                }
                attached => attached,
            };
            reading.given.push(Given {
                means: flag.means,
                value,
                place,
            });
        }
    }
    reading
}

/// The flags in one word, each with the value attached to it.
fn in_word<'k>(known: &'k [Flag], style: Style, word: &str) -> Vec<(&'k Flag, Option<String>)> {
    let find = |name: &str| known.iter().find(|flag| flag.names.contains(&name));
    if style == Style::Go || word.starts_with("--") {
        // Go takes one dash or two for the same.
        let word = match style {
            Style::Go => word
                .strip_prefix('-')
                .filter(|w| w.starts_with('-'))
                .unwrap_or(word),
            Style::Getopt => word,
        };
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word, None),
        };
        return find(name).map(|flag| (flag, value)).into_iter().collect();
    }
    let mut found = Vec::new();
    for (at, letter) in word[1..].char_indices() {
        let Some(flag) = find(&format!("-{letter}")) else {
            continue;
        };
        let rest = &word[1 + at + letter.len_utf8()..];
        if flag.takes_value {
            let rest = rest.strip_prefix('=').unwrap_or(rest);
            found.push((flag, (!rest.is_empty()).then(|| rest.to_owned())));
            break;
        }
        found.push((flag, None));
    }
    found
}

/// A tool's defaults, before its command line is read.
fn defaults(kind: DriverKind) -> Shape {
    let shape = Shape {
        url: None,
        connections: None,
        in_flight_per_connection: Some(1),
        workers: None,
        duration: None,
        requests: None,
        rate: None,
        warmup: None,
        timeout: None,
        latency_from_due: false,
        connection_per_request: false,
        method: "GET".into(),
        header_names: Vec::new(),
        body_bytes: Some(0),
    };
    let with = |connections, workers, duration_s: u64, requests: u64, timeout_s: u64| {
        let seconds = |s: u64| (s > 0).then(|| Nanos::from_secs(s));
        Shape {
            connections: Some(connections),
            workers,
            duration: seconds(duration_s),
            requests: (requests > 0).then_some(requests),
            timeout: seconds(timeout_s),
            ..shape.clone()
        }
    };
    match kind {
        DriverKind::Autocannon => with(10, Some(1), 10, 0, 10),
        DriverKind::Wrk | DriverKind::Wrk2 => with(10, Some(2), 10, 0, 2),
        DriverKind::Oha => with(50, None, 0, 200, 0),
        DriverKind::H2load => with(1, Some(1), 0, 1, 0),
        DriverKind::K6 => Shape {
            // A user may open several connections, and where none are given, the script says.
            connections: None,
            timeout: Some(Nanos::from_secs(60)),
            ..shape
        },
        DriverKind::Ghz => Shape {
            in_flight_per_connection: Some(50),
            method: "POST".into(),
            ..with(1, None, 0, 200, 20)
        },
        DriverKind::Ab => Shape {
            connection_per_request: true,
            ..with(1, Some(1), 0, 1, 30)
        },
        DriverKind::Hey => with(50, None, 0, 200, 20),
        DriverKind::Bombardier => with(125, None, 10, 0, 2),
        DriverKind::Vegeta => Shape {
            rate: Some(Rate(50.0)),
            timeout: Some(Nanos::from_secs(30)),
            ..shape
        },
        DriverKind::Fortio => Shape {
            rate: Some(Rate(8.0)),
            ..with(4, None, 5, 0, 3)
        },
        DriverKind::EchoClient => Shape {
            method: "POST".into(),
            body_bytes: Some(64),
            ..with(1, None, 0, 1000, 30)
        },
        DriverKind::Other => Shape {
            in_flight_per_connection: None,
            body_bytes: None,
            ..shape
        },
    }
}

/// The load of a command line that was read.
pub(super) fn shape(kind: DriverKind, reading: &Reading) -> Shape {
    let mut shape = defaults(kind);
    let count = |means| reading.value(means).and_then(count_of);
    let span = |means| reading.value(means).and_then(duration_of);
    let small = |means| count(means).and_then(|n| u32::try_from(n).ok());
    shape.connections = small(Means::Connections).or(shape.connections);
    if takes_depth(kind, reading) {
        shape.in_flight_per_connection = small(Means::InFlight).or(shape.in_flight_per_connection);
    }
    if reading.has(Means::Script) {
        shape.in_flight_per_connection = None;
    }
    shape.workers = small(Means::Workers).or(shape.workers);
    // Those that share its connections among them.
    let workers = match kind {
        DriverKind::Autocannon | DriverKind::Wrk | DriverKind::Wrk2 => shape.workers.unwrap_or(0),
        _ => 0,
    };
    shape.connections = shape.connections.map(|n| held(n, workers));
    if let Some(total) = small(Means::InFlightTotal).or((kind == DriverKind::Ghz).then_some(50)) {
        let connections = shape.connections.unwrap_or(1).max(1);
        shape.in_flight_per_connection = Some(total.div_ceil(connections));
    }
    let clients = shape.connections.unwrap_or(1);
    if kind == DriverKind::EchoClient {
        // Clients share connections, and requests are counted by client.
        shape.requests = shape.requests.map(|n| n.saturating_mul(clients.into()));
        let sharing = shape.in_flight_per_connection.unwrap_or(1).max(1);
        shape.connections = Some(clients / sharing);
    }
    let each = count(Means::RequestsPerClient).map(|n| n.saturating_mul(clients.into()));
    set_stop(
        kind,
        &mut shape,
        count(Means::Requests).or(each),
        span(Means::Duration),
    );
    shape.warmup = span(Means::Warmup);
    if kind == DriverKind::Autocannon && reading.has(Means::Warmup) {
        // It warms up as it loads, but for what stands in the brackets.
        let inside = read(kind, &reading.warmup_words);
        let inside = inside.value(Means::Duration).and_then(duration_of);
        shape.warmup = inside.or(shape.duration);
    }
    if let Some(timeout) = span(Means::Timeout) {
        shape.timeout = (timeout.0 > 0).then_some(timeout);
    }
    let rate = |means| reading.value(means).and_then(rate_of);
    if let Some(rate) = rate(Means::Rate) {
        // Each of autocannon's workers keeps to all of it.
        let each = match kind {
            DriverKind::Autocannon => workers.max(1),
            _ => 1,
        };
        shape.rate = (rate > 0.0).then_some(Rate(rate * f64::from(each)));
    } else if let Some(rate) = rate(Means::RatePerConnection).filter(|rate| *rate > 0.0) {
        shape.rate = shape.connections.map(|n| Rate(rate * f64::from(n)));
    }
    for given in &reading.given {
        match (&given.means, given.value.as_deref()) {
            (Means::ConnectionPerRequest(yes), value) => {
                shape.connection_per_request = *yes != (value == Some("false"));
            }
            (Means::MethodIs(method), _) => shape.method = (*method).into(),
            (Means::Header, Some(header)) => {
                let name = header.split([':', '=']).next().unwrap_or_default().trim();
                shape.header_names.push(name.to_owned());
            }
            _ => {}
        }
    }
    // Without a rate no start is intended.
    shape.latency_from_due = reading.has(Means::LatencyFromDue) && shape.rate.is_some();
    set_body(kind, &mut shape, reading);
    if let Some(method) = reading.value(Means::Method) {
        shape.method = method.to_owned();
    }
    shape.url = reading.value(Means::Url).map(str::to_owned).or_else(|| {
        let bare = reading.bare.iter().map(|(_, word)| word);
        bare.clone()
            .find(|word| word.contains("://"))
            .cloned()
            .or_else(|| match kind {
                // Tools that take a host without a scheme, or a template of ours.
                DriverKind::K6 | DriverKind::Vegeta | DriverKind::Other => None,
                // After the protocol.
                DriverKind::EchoClient => bare.clone().nth(1).cloned(),
                _ => bare.clone().next_back().cloned(),
            })
    });
    shape
}

/// Whether what is asked to be in flight on a connection is: of oha over HTTP/2 and later, of fortio over gRPC.
fn takes_depth(kind: DriverKind, reading: &Reading) -> bool {
    match kind {
        DriverKind::Oha => {
            let version = reading.value(Means::HttpVersion);
            let is_later = version.is_some_and(|version| version.starts_with(['2', '3']));
            is_later || reading.has(Means::Http2)
        }
        DriverKind::Fortio => reading.has(Means::Grpc),
        _ => true,
    }
}

/// A count and a duration compete, and each tool has its own winner.
fn set_stop(kind: DriverKind, shape: &mut Shape, count: Option<u64>, span: Option<Nanos>) {
    let duration_wins = !matches!(
        kind,
        DriverKind::Autocannon | DriverKind::K6 | DriverKind::Fortio
    );
    match (count, span) {
        (Some(count), None) => (shape.requests, shape.duration) = (Some(count), None),
        (None, Some(span)) => (shape.requests, shape.duration) = (None, Some(span)),
        (Some(count), Some(span)) => {
            // ab ends at whichever comes first; k6 takes the duration for a limit.
            let both = matches!(kind, DriverKind::Ab | DriverKind::K6);
            shape.requests = (both || !duration_wins).then_some(count);
            shape.duration = (both || duration_wins).then_some(span);
        }
        (None, None) => {}
    }
    // 0 is forever.
    shape.duration = shape.duration.filter(|span| span.0 > 0);
}

fn set_body(kind: DriverKind, shape: &mut Shape, reading: &Reading) {
    if let Some(body) = reading.value(Means::Body) {
        shape.body_bytes = Some(body.len() as u64);
    }
    if let Some(bytes) = reading.value(Means::BodyBytes) {
        shape.body_bytes = count_of(bytes);
    }
    if let Some(file) = reading.value(Means::BodyFile) {
        let metadata = std::fs::metadata(file.trim_start_matches('@'));
        shape.body_bytes = metadata.ok().map(|m| m.len());
        // Of these, a body makes the method.
        if matches!(kind, DriverKind::H2load | DriverKind::Ab) {
            shape.method = "POST".into();
        }
    }
}

/// `100`, `10k`, `1M`.
fn count_of(text: &str) -> Option<u64> {
    wallfinder_model::units::parse_count(text).ok()
}

/// `10`, `10s`, `500ms`, and Go's `1m30s`.
fn duration_of(text: &str) -> Option<Nanos> {
    if let Ok(simple) = text.parse() {
        return Some(simple);
    }
    let mut total: u64 = 0;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| c.is_ascii_alphabetic() || c == 'µ')?;
        let after = &rest[digits..];
        let unit = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let part: Nanos = rest[..digits + unit].parse().ok()?;
        total = total.checked_add(part.0)?;
        rest = &after[unit..];
    }
    (total > 0).then_some(Nanos(total))
}

/// `500`, `10k`, and vegeta's `500/1s`, `3000/m`. Below 0 there is none, and it is 0.
fn rate_of(text: &str) -> Option<f64> {
    let (count, per) = text.split_once('/').unwrap_or((text, "1s"));
    let per = if per.starts_with(|c: char| c.is_ascii_digit()) {
        per.to_owned()
    } else {
        format!("1{per}")
    };
    let seconds = duration_of(&per)?.as_secs_f64();
    let count: f64 = match count.parse() {
        Ok(count) => count,
        Err(_) => count_of(count)? as f64,
    };
    (seconds > 0.0 && count.is_finite()).then(|| count.max(0.0) / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::DriverSpec;
    use proptest::prelude::*;

    fn shape_of(command: &str) -> Shape {
        DriverSpec::parse(command).expect(command).shape().clone()
    }

    /// wrk's own example pipelines, and its times are then those of whole batches.
    #[test]
    fn how_many_at_a_time_a_script_keeps_is_not_known() {
        for script in ["-s pipeline.lua", "--script=pipeline.lua"] {
            let shape = shape_of(&format!("wrk -c4 {script} http://h/ -- 100"));
            assert_eq!(shape.connections, Some(4));
            assert_eq!(shape.in_flight_per_connection, None);
            assert_eq!(shape.load().in_flight_bound(), 0);
        }
    }

    type Stop = (Option<u64>, Option<u64>);

    /// Connections, in flight on each, seconds or requests, rate.
    fn essence(command: &str) -> (Option<u32>, Option<u32>, Stop, Option<f64>) {
        let s = shape_of(command);
        let seconds = s.duration.map(|d| d.0 / 1_000_000_000);
        let rate = s.rate.map(|r| r.0);
        (
            s.connections,
            s.in_flight_per_connection,
            (seconds, s.requests),
            rate,
        )
    }

    #[test]
    fn command_lines_say_their_load() {
        let (s, n) = (|s| (Some(s), None), |n| (None, Some(n)));
        for (command, connections, in_flight, stop, rate) in [
            (
                "autocannon -c 100 -p 100 -d 30 http://h/",
                100,
                100,
                s(30),
                None,
            ),
            // A whole number for each of the workers.
            (
                "autocannon -c500 --pipelining=1 -w 120 -d 20 http://h/",
                480,
                1,
                s(20),
                None,
            ),
            ("autocannon -c 2 -w 3 http://h/", 3, 1, s(10), None),
            // Each of which keeps to all of the rate.
            (
                "autocannon -c 8 -w 2 -R 100 http://h/",
                8,
                1,
                s(10),
                Some(200.0),
            ),
            ("wrk -t4 -c10 http://h/", 8, 1, s(10), None),
            ("wrk -c5 http://h/", 4, 1, s(10), None),
            ("autocannon -a 5000 -d 3 http://h/", 10, 1, n(5000), None),
            (
                "autocannon -W [ -c 1 -d 3 ] -c 7 -d 4 http://h/",
                7,
                1,
                s(4),
                None,
            ),
            ("autocannon -c 4 -r 50 http://h/", 4, 1, s(10), Some(200.0)),
            ("autocannon http://h/", 10, 1, s(10), None),
            (
                "wrk -t4 -c1k -d2m --latency http://h/",
                1000,
                1,
                s(120),
                None,
            ),
            ("wrk http://h/", 10, 1, s(10), None),
            (
                "wrk2 -t2 -c100 -d30s -R2000 http://h/",
                100,
                1,
                s(30),
                Some(2000.0),
            ),
            (
                "oha -c 10 -z 1m30s -q 500 http://h/",
                10,
                1,
                s(90),
                Some(500.0),
            ),
            ("oha -n 10k --http2 -p 8 http://h/", 50, 8, n(10_000), None),
            ("oha --http-version 2 -p 8 http://h/", 50, 8, n(200), None),
            // Over HTTP/1 there is one at a time.
            ("oha -n 10k -p 8 http://h/", 50, 1, n(10_000), None),
            (
                "h2load -c 10 -m 8 -D 2 --warm-up-time=1 http://h/",
                10,
                8,
                s(2),
                None,
            ),
            (
                "h2load --h1 -n 1000 -c5 --rps=10 http://h/",
                5,
                1,
                n(1000),
                Some(50.0),
            ),
            (
                "ghz --insecure --call a.B/C -c 10 --connections 4 -z 2s h:1",
                4,
                3,
                s(2),
                None,
            ),
            ("ghz --call a.B/C h:1", 1, 50, n(200), None),
            ("ab -n 2000 -c 10 -k http://h/", 10, 1, n(2000), None),
            ("ab -kc 10 -t 5 http://h/", 10, 1, s(5), None),
            ("hey -z 1s -c 10 -q 50 http://h/", 10, 1, s(1), Some(500.0)),
            ("hey -n=300 http://h/", 50, 1, n(300), None),
            (
                "bombardier -c 25 -n 500 -r 100 http://h/",
                25,
                1,
                n(500),
                Some(100.0),
            ),
            ("fortio load http://h/", 4, 1, s(5), Some(8.0)),
            (
                "fortio load -c 10 -qps 0 -t 1m30s http://h/",
                10,
                1,
                s(90),
                None,
            ),
            (
                "fortio load -c=2 -n 500 -t 3s -qps 0 http://h/",
                2,
                1,
                n(500),
                None,
            ),
            (
                "fortio load -grpc -c 2 -s 8 -t 3s -qps 0 h:1",
                2,
                8,
                s(3),
                None,
            ),
            ("fortio load -c 2 -s 8 -qps -1 http://h/", 2, 1, s(5), None),
            ("echo-client tcp", 1, 1, n(1000), None),
            (
                "echo-client rest --clients 50 --requests=20 http://h/",
                50,
                1,
                n(1000),
                None,
            ),
            (
                "echo-client grpc -clients 100 -clients-per-channel 20 -duration 10s h:1",
                5,
                20,
                s(10),
                None,
            ),
        ] {
            let expected = (Some(connections), Some(in_flight), stop, rate);
            assert_eq!(essence(command), expected, "{command}");
        }
        assert_eq!(
            essence("k6 run -u 5 -d 2s s.js"),
            (Some(5), Some(1), s(2), None)
        );
        assert_eq!(
            essence("vegeta attack -rate=500/1m -duration=6s"),
            (None, Some(1), s(6), Some(500.0 / 60.0))
        );
        assert_eq!(
            essence("vegeta attack -rate 0"),
            (None, Some(1), (None, None), None)
        );
        assert_eq!(
            essence("./mine -c 5 http://h/"),
            (None, None, (None, None), None)
        );
    }

    #[test]
    fn requests_are_described_without_their_secrets() {
        let shape = shape_of("wrk -H 'Authorization: Bearer s3cret' -H X-A:b http://h/");
        assert_eq!(shape.header_names, ["Authorization", "X-A"]);
        let shape = shape_of("autocannon -m POST -b '{\"a\":1}' -H k=v -t 5 -W [ -d 3 ] http://h/");
        assert_eq!((shape.method.as_str(), shape.body_bytes), ("POST", Some(7)));
        assert_eq!(shape.timeout, Some(Nanos::from_secs(5)));
        assert_eq!(shape.warmup, Some(Nanos::from_secs(3)));
        assert_eq!(shape.url.as_deref(), Some("http://h/"));
        // Without brackets, or a time in them, the warm-up is as long as the load.
        for warmup in ["-W", "-W [ -c 1 ]"] {
            let shape = shape_of(&format!("autocannon {warmup} -d 4 http://h/"));
            assert_eq!(shape.warmup, Some(Nanos::from_secs(4)), "{warmup}");
        }
        assert!(shape_of("oha -q 5 --latency-correction http://h/").latency_from_due);
        assert!(!shape_of("oha --latency-correction http://h/").latency_from_due);
        assert!(shape_of("ab http://h/").connection_per_request);
        assert!(!shape_of("ab -k http://h/").connection_per_request);
        assert!(shape_of("vegeta attack -keepalive=false").connection_per_request);
        assert!(!shape_of("vegeta attack -keepalive").connection_per_request);
        assert_eq!(shape_of("ab -i http://h/").method, "HEAD");
        assert_eq!(shape_of("hey -t 0 http://h/").timeout, None);
        let shape = shape_of("echo-client tcp --payload 65536 --semaphore 50");
        assert_eq!((shape.url, shape.body_bytes), (None, Some(65_536)));
        let shape = shape_of("echo-client tcp --duration 2s --warmup 1500ms");
        let spans = (shape.duration, shape.warmup);
        assert_eq!(
            spans,
            (Some(Nanos::from_secs(2)), Some(Nanos::from_millis(1500)))
        );
    }

    proptest! {
        #[test]
        fn no_command_line_panics(
            tool in prop::sample::select(&DriverKind::KNOWN[..]),
            words in prop::collection::vec("(-{0,2}[a-zA-Zµ]{0,3}=?)?[0-9]{0,22}[a-zµ/.]{0,2}", 0..8),
        ) {
            let words = [vec![tool.name().to_owned()], words].concat();
            if let Ok(spec) = DriverSpec::parse(&crate::command::join(&words)) {
                let _ = spec.shape().load();
            }
        }
    }
}
