//! A HAR, as browsers save it: one user's requests in order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use wallfinder_model::traffic::{Request, Session, Traffic};
use wallfinder_wire::mix::KINDS_MAX;

use super::stamps::{nanos, stamp};
use super::{
    Imported, IsSecret, Log, Logged, Secrets, as_body, body_without_secrets, counted, fields,
    request, route, set_type, strange_bodies, unused, without_secrets,
};

/// Shorter pauses between two requests are the browser's, and no thought.
const PAUSE_MIN_NS: u64 = 500_000_000;

/// An entry, as far as it is looked at.
struct Entry<'h> {
    at_ns: u64,
    took_ns: u64,
    method: &'h str,
    origin: String,
    target: String,
    request: &'h Value,
}

/// What an entry has of a body.
enum Body {
    /// Its type, and its text.
    Text(String, String),
    /// Parts that are files, of which a HAR has the names.
    Files,
}

impl Entry<'_> {
    fn body(&self) -> Option<Body> {
        let data = self.request.get("postData")?;
        let mime = data
            .get("mimeType")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let text = data.get("text").and_then(Value::as_str);
        let form = || {
            let params = data.get("params")?.as_array()?;
            let pair = |param: &Value| {
                let value = param.get("value").and_then(Value::as_str);
                let name = param.get("name")?.as_str()?;
                Some(super::pair(name, value?))
            };
            params.iter().map(pair).collect::<Option<Vec<String>>>()
        };
        let has_params = data.get("params").is_some();
        let text = text.map(str::to_owned);
        match text.or_else(|| form().map(|pairs| pairs.join("&"))) {
            Some(text) => Some(Body::Text(mime.to_owned(), text)),
            None => has_params.then_some(Body::Files),
        }
    }
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
    let (mut strange, mut sockets) = (0, 0);
    for entry in entries {
        match entry_of(entry) {
            Some(entry) if entry.origin.starts_with("ws") => sockets += 1,
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
    if strange > 0 {
        left_out.push(format!(
            "{} without a URL of http",
            counted(strange, "entry")
        ));
    }
    if sockets > 0 {
        left_out.push(format!(
            "{}, which are not driven",
            counted(sockets, "WebSocket")
        ));
    }
    let mut entries: Vec<Entry<'_>> = all
        .into_iter()
        .filter(|entry| entry.origin == origin)
        .collect();
    entries.sort_by_key(|entry| entry.at_ns);
    Ok(Har {
        origin,
        entries,
        left_out,
    })
}

fn entry_of(entry: &Value) -> Option<Entry<'_>> {
    let request = entry.get("request")?;
    let url = request.get("url")?.as_str()?;
    let (scheme, rest) = url.split_once("://")?;
    if !["http", "https", "ws", "wss"].contains(&scheme) {
        return None;
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // Without a user.
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    let is_host = !host.is_empty() && !host.contains(char::is_whitespace);
    let origin = is_host.then(|| format!("{scheme}://{host}"))?;
    let target = rest[end..].split('#').next().unwrap_or_default();
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
        at_ns: stamp.map_or(0, |stamp| stamp.at_ns),
        took_ns: nanos(took / 1e3).unwrap_or(0),
        method: request.get("method")?.as_str()?,
        origin,
        target: match target.starts_with('/') {
            true => target.to_owned(),
            false => format!("/{target}"),
        },
        request,
    })
}

/// One session of the requests that a browser made, in their order, with the pauses of its user.
///
/// # Errors
///
/// What is no HAR, or one without a request.
pub fn from_har(text: &str, is_secret: IsSecret<'_>) -> Result<Imported, String> {
    let har: Value =
        serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    let Har {
        origin,
        entries,
        mut left_out,
    } = read(&har)?;
    let mut secrets = Secrets::default();
    let mut steps: Vec<Request> = Vec::new();
    let mut names = BTreeSet::new();
    let mut ended_ns = None;
    let (mut unknown, mut behind) = (0, 0);
    let mut strange = 0;
    for entry in &entries {
        if steps.len() == KINDS_MAX {
            behind += 1;
            continue;
        }
        let target = without_secrets(&entry.target, is_secret, &mut secrets);
        let Some(mut step) = request(entry.method, &target) else {
            unknown += 1;
            continue;
        };
        let shown = match entry.method {
            "GET" => route(&target),
            method => format!("{method} {}", route(&target)),
        };
        step.name = Some(unused(&shown, &mut names));
        let given = entry.request.get("headers").and_then(Value::as_array);
        let given = given.into_iter().flatten().filter_map(|field| {
            Some((field.get("name")?.as_str()?, field.get("value")?.as_str()?))
        });
        step.header = fields(given, is_secret, &mut secrets);
        if let Some(body) = entry.body() {
            let known = match body {
                Body::Text(mime, text) => {
                    body_without_secrets(&text, is_secret, &mut secrets).map(|text| (mime, text))
                }
                Body::Files => None,
            };
            match known {
                Some((mime, text)) => {
                    step.body = Some(as_body(&text));
                    set_type(&mut step.header, &mime);
                }
                None => strange += 1,
            }
        }
        let pause_ns = ended_ns.map_or(0, |ended: u64| entry.at_ns.saturating_sub(ended));
        if pause_ns >= PAUSE_MIN_NS && !steps.is_empty() {
            step.think = Some(format!("{}ms", pause_ns / 1_000_000));
        }
        ended_ns = Some(
            ended_ns
                .unwrap_or(0)
                .max(entry.at_ns.saturating_add(entry.took_ns)),
        );
        steps.push(step);
    }
    for (count, why) in [
        (unknown, "of a method that there is no key for"),
        (behind, "behind the first 400 steps"),
    ] {
        if count > 0 {
            left_out.push(format!("{} {why}", counted(count, "request")));
        }
    }
    if steps.is_empty() {
        return Err("there is no request in it that could be sent".to_owned());
    }
    left_out.extend(strange_bodies(strange));
    left_out.extend(secrets.said());
    Ok(Imported {
        traffic: Traffic {
            session: vec![Session {
                name: "recorded".to_owned(),
                // A browser keeps them, and one that saves without secrets leaves them out.
                cookies: true,
                steps,
                ..Session::default()
            }],
            ..Traffic::default()
        },
        origin: Some(origin),
        left_out,
    })
}

/// The requests of a HAR when they were made.
///
/// # Errors
///
/// As of [`from_har`].
pub fn logged(text: &str) -> Result<Log, String> {
    let har: Value =
        serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    let Har {
        entries, left_out, ..
    } = read(&har)?;
    let made = entries.iter().map(|entry| Logged {
        at_ns: entry.at_ns,
        method: entry.method.to_owned(),
        target: entry.target.clone(),
        body: match entry.body() {
            Some(Body::Text(mime, text)) => Some((mime, text.into_bytes())),
            Some(Body::Files) | None => None,
        },
    });
    Ok(Log {
        requests: made.collect(),
        is_coarse: false,
        left_out,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::tests::telling;

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
        ] {
            assert_eq!(with(strange).body, None);
        }
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
