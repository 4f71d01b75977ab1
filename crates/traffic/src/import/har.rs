//! A HAR, as browsers save it: one user's requests in order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use wallfinder_model::traffic::{Check, Request, Scalar, Session, Statuses, Traffic};
use wallfinder_wire::mix::KINDS_MAX;

use super::route::{Routes, pooled, shown};
use super::stamps::{nanos, stamp};
use super::url::Url;
use super::{
    Imported, IsSecret, Log, Logged, Secrets, as_body, body_without_secrets, counted, fields,
    request, route, set_type, strange_bodies, unused, without_secrets,
};

/// Shorter pauses between two requests are the browser's, and no thought.
const PAUSE_MIN_NS: u64 = 500_000_000;

/// An entry, as far as it is looked at.
struct Entry<'h> {
    /// `None`: it does not say, or not in which zone.
    at_ns: Option<u64>,
    /// Whether that is a whole second.
    is_coarse: bool,
    took_ns: u64,
    method: &'h str,
    origin: String,
    target: String,
    request: &'h Value,
    /// Of its answer; 0 where none came. `None`: it does not say.
    status: Option<u16>,
}

/// What an entry has of a body.
enum Body {
    /// Its type, and its text.
    Text(String, String),
    /// One that a HAR does not hold, such as parts that are files, of which it has the names.
    NotHeld,
}

impl Entry<'_> {
    /// `None`: there was none.
    fn body(&self) -> Option<Body> {
        let data = self.request.get("postData");
        let Some(data) = data.filter(|data| !data.is_null()) else {
            return self.has_length().then_some(Body::NotHeld);
        };
        let text = |key: &str| data.get(key).and_then(Value::as_str);
        let mime = text("mimeType").unwrap_or_default();
        let params = data.get("params").and_then(Value::as_array);
        let found = match (text("text"), params) {
            (None | Some(""), Some(params)) => form(mime, params),
            (text, _) => text.map(str::to_owned),
        };
        let is_held = |text: &String| !text.is_empty() || !self.has_length();
        Some(match found.filter(is_held) {
            Some(text) => Body::Text(mime.to_owned(), text),
            None => Body::NotHeld,
        })
    }

    /// Whether it says that its body had bytes.
    fn has_length(&self) -> bool {
        let size = self.request.get("bodySize").and_then(Value::as_i64);
        let mut given = self.given();
        let said = given.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let said = said.and_then(|(_, value)| value.trim().parse().ok());
        size.max(said).is_some_and(|bytes| bytes > 0)
    }

    /// Its fields.
    fn given(&self) -> impl Iterator<Item = (&str, &str)> {
        let given = self.request.get("headers").and_then(Value::as_array);
        given
            .into_iter()
            .flatten()
            .filter_map(|field| Some((field.get("name")?.as_str()?, field.get("value")?.as_str()?)))
    }
}

/// Parameters as the body of a form. `None`: they are parts, or one has no value.
fn form(mime: &str, params: &[Value]) -> Option<String> {
    let pair = |param: &Value| {
        let value = param.get("value").and_then(Value::as_str);
        let name = param.get("name")?.as_str()?;
        Some(super::pair(name, value?))
    };
    let pairs = params.iter().map(pair).collect::<Option<Vec<String>>>()?;
    (!mime.starts_with("multipart/")).then(|| pairs.join("&"))
}

/// What there is of one origin: the one that was asked most.
struct Har<'h> {
    origin: String,
    entries: Vec<Entry<'h>>,
    left_out: Vec<String>,
}

fn read(har: &Value) -> Result<Har<'_>, String> {
    let entries = har.pointer("/log/entries").and_then(Value::as_array);
    let entries = entries.ok_or("it is no HAR: there is no log.entries in it")?;
    let mut all = Vec::new();
    let (mut strange, mut sockets, mut cached, mut unanswered) = (0, 0, 0, 0);
    for entry in entries {
        match entry_of(entry) {
            Some(entry) if entry.origin.starts_with("ws") => sockets += 1,
            Some(_) if entry.get("_fromCache").is_some() => cached += 1,
            Some(entry) if entry.status == Some(0) => unanswered += 1,
            Some(entry) => all.push(entry),
            None => strange += 1,
        }
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in &all {
        *counts.entry(&entry.origin).or_default() += 1;
    }
    // Of several that were asked as often, the one that was asked first.
    let most = counts.values().max().copied().unwrap_or(0);
    let first = all
        .iter()
        .find(|entry| counts[entry.origin.as_str()] == most);
    let origin = first.ok_or("there is no request in it")?.origin.clone();
    counts.remove(origin.as_str());
    let mut left_out: Vec<String> = counts
        .into_iter()
        .map(|(other, count)| {
            format!(
                "{} to {other}: a mix has one origin",
                counted(count, "request")
            )
        })
        .collect();
    for (count, what, why) in [
        (strange, "request", " without a URL of http"),
        (sockets, "WebSocket", ", which are not driven"),
        (
            cached,
            "request",
            " that the browser answered from its cache",
        ),
        (unanswered, "request", " that got no answer"),
    ] {
        if count > 0 {
            left_out.push(format!("{}{why}", counted(count, what)));
        }
    }
    // What has no time stays behind what it stands behind.
    let mut last_ns = 0;
    let mut entries: Vec<(u64, Entry<'_>)> = Vec::new();
    for entry in all.into_iter().filter(|entry| entry.origin == origin) {
        last_ns = entry.at_ns.unwrap_or(last_ns);
        entries.push((last_ns, entry));
    }
    entries.sort_by_key(|(at_ns, _)| *at_ns);
    Ok(Har {
        origin,
        entries: entries.into_iter().map(|(_, entry)| entry).collect(),
        left_out,
    })
}

fn entry_of(entry: &Value) -> Option<Entry<'_>> {
    let request = entry.get("request")?;
    let url = Url::of(request.get("url")?.as_str()?)?;
    if !["http", "https", "ws", "wss"].contains(&url.scheme) {
        return None;
    }
    let is_host = !url.host.is_empty() && !url.host.contains(char::is_whitespace);
    let origin = is_host.then(|| format!("{}://{}", url.scheme, url.host))?;
    let stamp = stamp(
        entry
            .get("startedDateTime")
            .and_then(Value::as_str)
            .unwrap_or_default(),
    );
    let took = entry
        .get("time")
        .and_then(Value::as_f64)
        .unwrap_or(0.0)
        .max(0.0);
    Some(Entry {
        at_ns: stamp.map(|stamp| stamp.at_ns),
        is_coarse: stamp.is_some_and(|stamp| stamp.is_coarse),
        took_ns: nanos(took / 1e3).unwrap_or(0),
        method: request.get("method")?.as_str()?,
        origin,
        target: url.target(),
        request,
        status: entry
            .pointer("/response/status")
            .and_then(Value::as_u64)
            .and_then(|status| status.try_into().ok()),
    })
}

/// What answers have to be where some of those that were recorded are no good ones: as they were.
fn check_of(statuses: &BTreeSet<u16>) -> Option<Check> {
    let (good, bad): (Vec<u16>, Vec<u16>) = statuses.iter().partition(|status| **status < 400);
    let of = |status: &u16| Scalar::Whole(i64::from(*status));
    let mut met: Vec<Scalar> = bad.iter().map(of).collect();
    if !good.is_empty() {
        met.insert(0, Scalar::Text("200..399".to_owned()));
    }
    let status = match met.len() {
        1 => Statuses::One(met.remove(0)),
        _ => Statuses::Several(met),
    };
    (!bad.is_empty()).then(|| Check {
        status: Some(status),
        ..Check::default()
    })
}

/// An entry, and its request without secrets.
struct Made<'h> {
    entry: &'h Entry<'h>,
    target: String,
    request: Request,
}

/// One session of the requests that a browser made, in their order, with the pauses of its user.
///
/// # Errors
///
/// What is no HAR, or one without a request.
pub fn from_har(text: &str, is_secret: IsSecret<'_>) -> Result<Imported, String> {
    imported(text, is_secret, KINDS_MAX, |made, left_out| Traffic {
        session: vec![Session {
            name: "recorded".to_owned(),
            // A browser keeps them, and one that saves without secrets leaves them out.
            cookies: true,
            steps: in_order(made, left_out),
            ..Session::default()
        }],
        ..Traffic::default()
    })
}

/// A mix of the routes that a browser asked, by how often it asked each, with the paths as rows: what a session's steps cost
/// one by one can only be told where each stands by itself. Of those with bodies the first of each route is sent.
///
/// # Errors
///
/// As of [`from_har`].
pub fn from_har_by_route(
    text: &str,
    is_secret: IsSecret<'_>,
    seed: u64,
) -> Result<Imported, String> {
    imported(text, is_secret, usize::MAX, |made, left_out| {
        by_route(made, seed, left_out)
    })
}

/// What `traffic` makes of as many of its requests as it takes.
fn imported(
    text: &str,
    is_secret: IsSecret<'_>,
    requests_max: usize,
    traffic: impl FnOnce(Vec<Made<'_>>, &mut Vec<String>) -> Traffic,
) -> Result<Imported, String> {
    let har: Value =
        serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    let Har {
        origin,
        entries,
        mut left_out,
    } = read(&har)?;
    let mut secrets = Secrets::default();
    let mut all: Vec<Made<'_>> = Vec::new();
    let (mut unknown, mut behind, mut strange) = (0, 0, 0);
    for entry in &entries {
        if all.len() == requests_max {
            behind += 1;
            continue;
        }
        let target = without_secrets(&entry.target, is_secret, &mut secrets);
        let Some(mut made) = request(entry.method, &target) else {
            unknown += 1;
            continue;
        };
        made.header = fields(entry.given(), is_secret, &mut secrets);
        if let Some(body) = entry.body() {
            let known = match body {
                Body::Text(mime, text) => {
                    body_without_secrets(&text, is_secret, &mut secrets).map(|text| (mime, text))
                }
                Body::NotHeld => None,
            };
            match known {
                Some((mime, text)) => {
                    made.body = Some(as_body(&text));
                    set_type(&mut made.header, &mime);
                }
                None => strange += 1,
            }
        }
        all.push(Made {
            entry,
            target,
            request: made,
        });
    }
    for (count, why) in [
        (unknown, "of a method that there is no key for"),
        (behind, "behind the first 400 steps"),
    ] {
        if count > 0 {
            left_out.push(format!("{} {why}", counted(count, "request")));
        }
    }
    if all.is_empty() {
        return Err("there is no request in it that could be sent".to_owned());
    }
    let traffic = traffic(all, &mut left_out);
    left_out.extend(strange_bodies(strange));
    left_out.extend(secrets.said());
    Ok(Imported {
        traffic,
        origin: Some(origin),
        left_out,
    })
}

/// As steps, with the pauses between them.
fn in_order(made: Vec<Made<'_>>, left_out: &mut Vec<String>) -> Vec<Request> {
    let mut names = BTreeSet::new();
    let mut ended_ns = None;
    let mut unstamped = 0;
    let mut steps = Vec::new();
    for Made {
        entry,
        target,
        request: mut step,
    } in made
    {
        step.name = Some(unused(&shown(entry.method, &target), &mut names));
        step.check = check_of(&entry.status.into_iter().collect());
        let pause_ns = match (ended_ns, entry.at_ns) {
            (Some(ended_ns), Some(at_ns)) => at_ns.saturating_sub(ended_ns),
            _ => 0,
        };
        if pause_ns >= PAUSE_MIN_NS {
            step.think = Some(format!("{}ms", pause_ns / 1_000_000));
        }
        unstamped += usize::from(entry.at_ns.is_none());
        ended_ns = entry.at_ns.map(|at_ns| {
            let own_ns = at_ns.saturating_add(entry.took_ns);
            ended_ns.unwrap_or(0).max(own_ns)
        });
        steps.push(step);
    }
    if unstamped > 0 {
        left_out.push(format!(
            "the pauses before and behind {} without a time",
            counted(unstamped, "request")
        ));
    }
    steps
}

/// By how often each route was asked.
fn by_route(made: Vec<Made<'_>>, seed: u64, left_out: &mut Vec<String>) -> Traffic {
    left_out.push("the order of requests, and cookies: each stands by itself".to_owned());
    let mut routes = Routes::new();
    // The first of each, and how many there are: of those with a body, and of the others for their fields.
    let mut bodies: BTreeMap<(&str, String), (Request, u32)> = BTreeMap::new();
    let mut headers = BTreeMap::new();
    let mut statuses: BTreeMap<(&str, String), BTreeSet<u16>> = BTreeMap::new();
    let (mut other_bodies, mut other_fields) = (0, 0);
    for one in made {
        let of = (one.entry.method, route(&one.target));
        statuses
            .entry(of.clone())
            .or_default()
            .extend(one.entry.status);
        match one.request.body {
            None => {
                let first = headers
                    .entry(of.clone())
                    .or_insert_with(|| one.request.header.clone());
                other_fields += usize::from(*first != one.request.header);
                routes.entry(of).or_default().push(one.target);
            }
            Some(_) => {
                let (first, count) = bodies.entry(of).or_insert_with(|| (one.request.clone(), 0));
                *count += 1;
                other_bodies += usize::from(*first != one.request);
            }
        }
    }
    let mut names = BTreeSet::new();
    let mut traffic = Traffic::default();
    pooled(routes, seed, &mut names, &mut traffic, |of, kind| {
        kind.header = headers.remove(of).unwrap_or_default();
        kind.check = statuses.get(of).and_then(check_of);
    });
    // Of those that are told as one.
    other_fields += headers.len();
    let mut bodies: Vec<_> = bodies.into_iter().collect();
    bodies.sort_by_key(|(_, (_, count))| Reverse(*count));
    let rare = bodies.split_off(bodies.len().min(KINDS_MAX - traffic.request.len()));
    for ((method, route), (mut kind, count)) in bodies {
        kind.name = Some(unused(&shown(method, &route), &mut names));
        kind.weight = Some(count);
        kind.check = statuses.get(&(method, route)).and_then(check_of);
        traffic.request.push(kind);
    }
    for (count, why) in [
        (
            other_bodies,
            "with other bodies, paths or fields than the first of their route",
        ),
        (
            other_fields,
            "with other fields than the first of their route, whose paths are sent",
        ),
        (rare.len(), "with bodies, of routes that were asked least"),
    ] {
        if count > 0 {
            left_out.push(format!("{} {why}", counted(count, "request")));
        }
    }
    traffic
}

/// The requests of a HAR when they were made.
///
/// # Errors
///
/// As of [`from_har`], and one in which no request has a time.
pub fn logged(text: &str) -> Result<Log, String> {
    let har: Value =
        serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    let Har {
        entries,
        mut left_out,
        ..
    } = read(&har)?;
    let mut requests = Vec::new();
    let (mut unstamped, mut not_held, mut are_fine) = (0, 0, 0_u64);
    let mut given = BTreeSet::new();
    for entry in &entries {
        let Some(at_ns) = entry.at_ns else {
            unstamped += 1;
            continue;
        };
        let body = match entry.body() {
            Some(Body::Text(mime, text)) => Some((mime, text.into_bytes())),
            Some(Body::NotHeld) => {
                not_held += 1;
                continue;
            }
            // It is known to have been empty, as it is not of a line of a log.
            None if ["POST", "PUT", "PATCH"].contains(&entry.method) => Some(Default::default()),
            None => None,
        };
        are_fine += u64::from(!entry.is_coarse);
        let mut secrets = Secrets::default();
        let told = fields(entry.given(), &|_: &str| false, &mut secrets);
        given.extend(told.into_keys());
        let mut names = entry.given().map(|(name, _)| name);
        if names.any(|name| name.eq_ignore_ascii_case("cookie")) {
            given.insert("cookie".to_owned());
        }
        requests.push(Logged {
            at_ns,
            method: entry.method.to_owned(),
            target: entry.target.clone(),
            body,
        });
    }
    if unstamped == entries.len() {
        let why = "no request tells when it was made: a replay needs startedDateTime with its zone";
        return Err(why.to_owned());
    }
    for (count, why) in [
        (unstamped, "without a time"),
        (not_held, "with a body that it does not hold"),
    ] {
        if count > 0 {
            left_out.push(format!("{} {why}", counted(count, "request")));
        }
    }
    left_out.extend(fields_left_out(given));
    Ok(Log {
        requests,
        is_coarse: are_fine == 0,
        left_out,
    })
}

/// What is said of the fields of requests that are replayed; nothing where they had none.
fn fields_left_out(mut names: BTreeSet<String>) -> Option<String> {
    /// Names that are told.
    const TOLD_MAX: usize = 20;
    // That of a body is sent with it.
    names.remove("content-type");
    let told: Vec<String> = names
        .iter()
        .take(TOLD_MAX)
        .map(|name| format!("`{name}`"))
        .collect();
    let more = match names.len().saturating_sub(TOLD_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!told.is_empty()).then(|| {
        format!(
            "the fields of requests, {}{more}: give what every request needs with -H; `wallfinder traffic from-har` keeps \
             those of each",
            told.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::tests::{telling, weights};

    const HAR: &str = r#"{"log": {"version": "1.2", "entries": [
        {"startedDateTime": "2026-01-01T10:00:00.000Z", "time": 20.5, "request": {"method": "GET", "url": "https://shop.example/?utm=1", "headers": [{"name": ":authority", "value": "shop.example"}, {"name": "Accept", "value": "text/html"}, {"name": "Cookie", "value": "sid=s3"}]}},
        {"startedDateTime": "2026-01-01T10:00:00.050Z", "time": 5, "request": {"method": "GET", "url": "https://cdn.example/a.js", "headers": []}},
        {"startedDateTime": "2026-01-01T10:00:03.000Z", "time": 9, "request": {"method": "POST", "url": "https://shop.example/login#x", "headers": [], "postData": {"mimeType": "application/json", "text": "{\"user\": \"ann\", \"password\": \"s3\", \"t\": \"{x}\"}"}}},
        {"startedDateTime": "2026-01-01T10:00:03.010Z", "time": 9, "request": {"method": "GET", "url": "https://shop.example/items/17", "headers": []}},
        {"startedDateTime": "2026-01-01T10:00:03.020Z", "time": 9, "request": {"method": "GET", "url": "wss://shop.example/live", "headers": []}}
    ]}}"#;

    #[test]
    fn a_browsers_requests_become_one_session() {
        let made = from_har(HAR, &telling).expect("it is one");
        assert_eq!(made.origin.as_deref(), Some("https://shop.example"));
        let session = &made.traffic.session[0];
        assert!(session.cookies);
        let shown: Vec<(String, Option<&str>)> = session
            .steps
            .iter()
            .map(|step| (step.shown_name(), step.think.as_deref()))
            .collect();
        let of = |name: &str, think| (name.to_owned(), think);
        assert_eq!(
            shown,
            [
                of("/", None),
                of("POST /login", Some("2979ms")),
                of("/items/*", None)
            ]
        );
        assert_eq!(
            session.steps[0].header,
            [("accept".to_owned(), "text/html".to_owned())].into()
        );
        let body = session.steps[1].body.as_deref().expect("it has one");
        assert!(
            body.contains("left-out") && body.contains("{{x}}") && !body.contains("s3"),
            "{body}"
        );
        let text = made.written();
        for part in [
            "1 request to https://cdn.example",
            "1 WebSocket",
            "`Cookie`",
            "`password` of a body",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(
            crate::TrafficFile::parse("t", &text).expect(&text).traffic,
            made.traffic
        );
    }

    #[test]
    fn by_route_each_request_stands_by_itself_with_its_paths_as_rows() {
        let again = HAR.replace(
            "/items/17\", \"headers\": []",
            "/items/18\", \"headers\": []",
        );
        let entries =
            |har: &str| har[har.find("[\n").unwrap() + 1..har.rfind("]}}").unwrap()].to_owned();
        let twice = format!(
            "{{\"log\": {{\"entries\": [{},{}]}}}}",
            entries(HAR),
            entries(&again)
        );
        let made = from_har_by_route(&twice, &telling, 1).expect("it is one");
        assert!(made.traffic.session.is_empty());
        let shown = weights(&made);
        let of = |name: &str| (name.to_owned(), Some(2));
        assert_eq!(shown, [of("/"), of("/items/*"), of("POST /login")]);
        let [first, items, login] = &made.traffic.request[..] else {
            panic!("three")
        };
        assert_eq!(first.header["accept"], "text/html");
        let place = items.get.as_deref().expect("it has a path");
        let rows =
            &made.traffic.data[place.trim_start_matches('{').split('.').next().unwrap()].rows;
        assert_eq!(rows.len(), 2);
        assert!(
            login
                .body
                .as_deref()
                .expect("it has one")
                .contains("left-out")
        );
        let text = made.written();
        assert!(
            text.contains("the order of requests") && !text.contains("s3"),
            "{text}"
        );
        let read = crate::TrafficFile::parse("t", &text).expect(&text);
        assert_eq!(read.traffic, made.traffic);
    }

    #[test]
    fn bodies_are_kept_where_it_is_known_where_secrets_stand_in_them() {
        let with = |data: &str| {
            let har = format!(
                r#"{{"log": {{"entries": [{{"startedDateTime": "2026-01-01T10:00:00Z", "request":
                {{"method": "POST", "url": "http://h/a", "headers": [], "postData": {data}}}}}]}}}}"#
            );
            let made = from_har(&har, &telling).expect(&har);
            assert!(!made.written().contains("s3"), "{}", made.written());
            let is_strange = made.left_out.iter().any(|line| line.contains("1 body"));
            let step = made.traffic.session[0].steps[0].clone();
            assert_eq!(is_strange, step.body.is_none(), "{:?}", made.left_out);
            step
        };
        // `fetch` says that JSON is text.
        let told = with(r#"{"mimeType": "text/plain", "text": "{\"password\": \"s3\"}"}"#);
        assert_eq!(told.body.as_deref(), Some(r#"{"password":"left-out"}"#));
        assert_eq!(told.header["content-type"], "text/plain");
        let params = r#"[{"name": "a b", "value": "1&2"}, {"name": "password", "value": "s3"}]"#;
        let form = with(&format!(
            r#"{{"mimeType": "env:HOME", "params": {params}}}"#
        ));
        assert_eq!(form.body.as_deref(), Some("a%20b=1%262&password=left-out"));
        assert!(!form.header.contains_key("content-type"));
        for strange in [
            r#"{"mimeType": "text/xml", "text": "<a password='s3'/>"}"#,
            r#"{"mimeType": "multipart/form-data", "params": [{"name": "f", "fileName": "s3.png"}]}"#,
            // Parts are no form, and what has a type had bytes.
            r#"{"mimeType": "multipart/form-data", "params": [{"name": "f", "value": "s3"}]}"#,
            r#"{"mimeType": "application/octet-stream"}"#,
        ] {
            assert_eq!(with(strange).body, None);
        }
        let empty = with(r#"{"mimeType": "text/plain", "text": "", "params": []}"#);
        assert_eq!(empty.body.as_deref(), Some(""));
    }

    /// A HAR of requests, each with what stands in it beside its URL, and with what its entry has.
    fn har(entries: &[(String, &str)]) -> String {
        let entry = |(entry, request): &(String, &str)| {
            format!(r#"{{{entry} "request": {{{request} "url": "http://h/a"}}}}"#)
        };
        let entries: Vec<String> = entries.iter().map(entry).collect();
        format!(r#"{{"log": {{"entries": [{}]}}}}"#, entries.join(","))
    }

    #[test]
    fn what_has_no_time_has_no_pause_and_is_not_replayed() {
        let get = r#""method": "GET","#;
        let at = |stamp: &str| format!(r#""startedDateTime": "2026-01-01T10:00:{stamp}","#);
        let text = har(&[
            (at("00Z"), get),
            (String::new(), get),
            (at("05Z"), get),
            (at("09Z"), get),
        ]);
        let made = from_har(&text, &telling).expect("it is one");
        let steps = made.traffic.session[0].steps.iter();
        let thinks: Vec<Option<&str>> = steps.map(|step| step.think.as_deref()).collect();
        assert_eq!(thinks, [None, None, None, Some("4000ms")]);
        assert_eq!(
            made.left_out,
            ["the pauses before and behind 1 request without a time"]
        );
        let log = logged(&text).expect("it is one");
        let at_s = log.requests.iter().map(|made| made.at_ns / 1_000_000_000);
        assert_eq!(at_s.map(|at_s| at_s % 60).collect::<Vec<u64>>(), [0, 5, 9]);
        assert_eq!(log.left_out, ["1 request without a time"]);
        // Without a zone.
        let unstamped = har(&[(at("00.000"), get), (at("01.000"), get)]);
        assert_eq!(
            from_har(&unstamped, &telling).expect("it is one").left_out,
            ["the pauses before and behind 2 requests without a time"]
        );
        let why = logged(&unstamped).expect_err("no time");
        assert!(why.contains("startedDateTime"), "{why}");
    }

    #[test]
    fn a_body_that_was_empty_is_told_from_one_that_is_not_held() {
        let at = r#""startedDateTime": "2026-01-01T10:00:00Z","#;
        let of = |request: &str| {
            let text = har(&[(at.to_owned(), request)]);
            let log = logged(&text).expect(&text);
            let made = from_har(&text, &telling).expect(&text);
            let is_strange = made.left_out.iter().any(|line| line.contains("1 body"));
            let is_held = log.left_out.is_empty();
            assert_eq!(is_strange, !is_held, "{text}");
            let body = log.requests.into_iter().next().map(|made| made.body);
            assert_eq!(body.is_some(), is_held, "{text}");
            body
        };
        let empty = Some(Some((String::new(), Vec::new())));
        assert_eq!(of(r#""method": "POST","#), empty);
        assert_eq!(of(r#""method": "PUT", "postData": null,"#), empty);
        assert_eq!(of(r#""method": "GET", "bodySize": 0,"#), Some(None));
        for not_held in [
            r#""method": "POST", "bodySize": 7,"#,
            r#""method": "DELETE", "bodySize": 7,"#,
            r#""method": "POST", "bodySize": 7, "postData": {"text": "", "params": []},"#,
            r#""method": "POST", "headers": [{"name": "Content-Length", "value": "7"}],"#,
        ] {
            assert_eq!(of(not_held), None, "{not_held}");
        }
    }

    #[test]
    fn fields_that_are_not_replayed_are_named_without_their_values() {
        let log = logged(HAR).expect("it is one");
        let said: Vec<&String> = log
            .left_out
            .iter()
            .filter(|line| line.contains("fields of requests"))
            .collect();
        let [said] = said[..] else {
            panic!("{:?}", log.left_out);
        };
        assert!(
            said.starts_with("the fields of requests, `accept`, `cookie`: give"),
            "{said}"
        );
        assert!(!said.contains("s3"), "{said}");
        let names = (0..22).map(|nth| format!("x-{nth:02}")).collect();
        let said = fields_left_out(names).expect("there are some");
        assert!(said.contains("`x-19` and 2 more: give"), "{said}");
        let typed = ["content-type".to_owned()].into();
        assert_eq!(fields_left_out(typed), None);
    }

    #[test]
    fn stamps_of_whole_seconds_are_coarse_unless_one_has_a_part() {
        let get = r#""method": "GET","#;
        let at = |stamp: &str| format!(r#""startedDateTime": "2026-01-01T10:00:{stamp}","#);
        for (stamps, is_coarse) in [
            (["00Z", "01Z"], true),
            (["00Z", "01.250Z"], false),
            (["00.000Z", "01.000Z"], false),
        ] {
            let text = har(&stamps.map(|stamp| (at(stamp), get)));
            let log = logged(&text).expect(&text);
            assert_eq!(log.is_coarse, is_coarse, "{stamps:?}");
        }
    }

    #[test]
    fn what_was_refused_is_to_be_refused_again_and_what_was_never_asked_is_not_asked() {
        let entry = |path: &str, more: &str| {
            format!(r#"{{"request": {{"method": "GET", "url": "http://h{path}"}}, {more}}}"#)
        };
        let status = |status: u16| format!(r#""response": {{"status": {status}}}"#);
        let entries = [
            entry("/items/1", &status(200)),
            entry("/favicon.ico", &status(404)),
            entry("/items/2", &status(410)),
            entry(
                "/app.js",
                r#""_fromCache": "memory", "response": {"status": 200}"#,
            ),
            entry("/gone", &status(0)),
        ];
        let text = format!(r#"{{"log": {{"entries": [{}]}}}}"#, entries.join(","));
        let checks = |made: &Imported, session: bool| {
            let kinds = match session {
                true => &made.traffic.session[0].steps,
                false => &made.traffic.request,
            };
            let status = |kind: &Request| kind.check.clone().and_then(|check| check.status);
            kinds.iter().map(status).collect::<Vec<_>>()
        };
        let one = |status| Some(Statuses::One(Scalar::Whole(status)));
        let made = from_har(&text, &telling).expect("it is one");
        assert_eq!(checks(&made, true), [None, one(404), one(410)]);
        for part in [
            "1 request that the browser answered",
            "1 request that got no answer",
        ] {
            assert!(
                made.left_out.iter().any(|line| line.starts_with(part)),
                "{part}"
            );
        }
        let by_route = from_har_by_route(&text, &telling, 1).expect("it is one");
        let mixed = [Scalar::Text("200..399".to_owned()), Scalar::Whole(410)];
        let wanted = [Some(Statuses::Several(mixed.into())), one(404)];
        assert_eq!(checks(&by_route, false), wanted);
        let written = by_route.written();
        crate::TrafficFile::parse("t", &written).expect(&written);
        assert!(logged(&text).is_err(), "none has a time");
    }

    #[test]
    fn its_requests_are_replayed_with_their_bodies() {
        let log = logged(HAR).expect("it is one");
        let first = log.requests[0].at_ns;
        let shown: Vec<(u64, &str)> = log
            .requests
            .iter()
            .map(|made| ((made.at_ns - first) / 1_000_000, made.target.as_str()))
            .collect();
        assert_eq!(
            shown,
            [(0, "/?utm=1"), (3_000, "/login"), (3_010, "/items/17")]
        );
        assert!(log.requests[1].body.is_some());
        assert!(logged("{}").expect_err("no HAR").contains("log.entries"));
        assert!(logged("<html>").expect_err("no JSON").contains("no JSON"));
    }
}
