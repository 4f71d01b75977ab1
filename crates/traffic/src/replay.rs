//! What was logged, sent when it was logged.
//!
//! Each line is a row, and each route a kind of request, so that results stand by route; which row is sent when is the
//! log's, and no draw's.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use wallfinder_model::traffic::Replay as Wanted;
use wallfinder_scenario::Fault;
use wallfinder_wire::mix::{
    Expect, Flow, Kind, Known, Mix, Order, Piece, Protocol, Replay, Row, Slot, Spelling, Step,
    Table, Template, Text, Think, Value,
};

use crate::import::{Format, Log, Logged, har_logged, is_gzip, logged, route, unused};
use crate::{Origin, World};

/// Routes that are told apart; the rest are one for each method.
const ROUTES_MAX: usize = 60;
/// Requests of a log at the most.
const REQUESTS_MAX: usize = 5_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// The mix of a log, and what there is to say of it, in words.
pub(crate) fn replayed(
    wanted: &Wanted,
    origin: &Origin,
    world: &dyn World,
) -> Result<(Mix, Vec<String>), Fault> {
    let fault = |why: String| Fault::at("traffic.replay", why);
    if origin.protocol == Protocol::Grpc {
        return Err(fault(
            "a log is replayed over HTTP, and the target is gRPC".to_owned(),
        ));
    }
    let log = read(wanted, world).map_err(fault)?;
    let mut requests = log.requests;
    let left_out = log
        .left_out
        .iter()
        .map(|what| format!("Left out of the log: {what}."));
    let mut notes: Vec<String> = left_out.collect();
    if log.is_coarse {
        spread(&mut requests, origin.seed);
        notes.push(format!(
            "The log's stamps are of whole seconds: requests were spread over their seconds by the seed ({}).",
            origin.seed
        ));
    }
    keep_what_can_be_sent(&mut requests, &mut notes);
    if requests.is_empty() {
        return Err(fault(
            "there is no request in it that could be sent".to_owned(),
        ));
    }
    if requests.len() > REQUESTS_MAX {
        let why = format!(
            "it has {} requests, and {REQUESTS_MAX} are the most: cut it",
            requests.len()
        );
        return Err(fault(why));
    }
    Ok((mix(&requests, wanted, origin, log.is_coarse), notes))
}

fn read(wanted: &Wanted, world: &dyn World) -> Result<Log, String> {
    let file = wanted.file.display();
    let bytes = world.read(&wanted.file)?;
    if is_gzip(&bytes) {
        return Err(format!(
            "{file}: it is compressed by gzip: unpack it, or give --replay <(zcat {file})"
        ));
    }
    let text = String::from_utf8_lossy(&bytes);
    let is_har = wanted.format.is_none() && text.trim_start().starts_with("{\"log\"")
        || wanted
            .file
            .extension()
            .is_some_and(|extension| extension == "har");
    let format = Format::parse(wanted.format.as_deref().unwrap_or("combined"))?;
    let log = match is_har {
        true => har_logged(&text),
        false => logged(&text, &format, true),
    };
    log.map_err(|why| format!("{file}: {why}"))
}

/// Anywhere in its second, each instant alike, in the order of the log.
fn spread(requests: &mut [Logged], seed: u64) {
    let mut random = Rng::with_seed(seed);
    // When it ended, of what began in the second before.
    let second = |request: &Logged| request.at_ns.div_ceil(SECOND_NS);
    requests.sort_by_key(second);
    for of_second in requests.chunk_by_mut(|one, next| second(one) == second(next)) {
        let mut instants: Vec<u64> = of_second.iter().map(|_| random.u64(..SECOND_NS)).collect();
        instants.sort_unstable();
        for (request, instant) in of_second.iter_mut().zip(instants) {
            request.at_ns += instant;
        }
    }
    requests.sort_by_key(|request| request.at_ns);
}

/// A log holds no bodies.
fn keep_what_can_be_sent(requests: &mut Vec<Logged>, notes: &mut Vec<String>) {
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    requests.retain(|request| {
        let is_whole = match request.method.as_str() {
            "GET" | "HEAD" | "DELETE" | "OPTIONS" => true,
            "POST" | "PUT" | "PATCH" => request.body.is_some(),
            _ => false,
        };
        if !is_whole {
            *left_out.entry(request.method.clone()).or_default() += 1;
        }
        is_whole
    });
    for (method, count) in left_out {
        let why = match method.as_str() {
            "POST" | "PUT" | "PATCH" => "whose bodies it does not hold",
            _ => "which are not sent",
        };
        notes.push(format!("Left out of the log: {count} of {method}, {why}."));
    }
}

/// What makes two requests of one kind.
type Likeness = (String, String, Content);

/// What a request has behind its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Content {
    Nothing,
    /// A body whose type is not told.
    Untyped,
    /// A body and its type.
    Typed,
}

impl Content {
    fn of(request: &Logged) -> Content {
        match &request.body {
            Some((content_type, _)) if !content_type.trim().is_empty() => Content::Typed,
            Some((_, body)) if !body.is_empty() => Content::Untyped,
            _ => Content::Nothing,
        }
    }
}

/// The kinds of a log in the order of their first requests, with how many each has, and each request's kind. Routes
/// beyond the commonest are one for each method.
fn told_apart(requests: &[Logged]) -> (Vec<(Likeness, u32)>, Vec<u16>) {
    let mut known: BTreeMap<Likeness, usize> = BTreeMap::new();
    let mut counts: Vec<u32> = Vec::new();
    let of_route: Vec<usize> = requests
        .iter()
        .map(|request| {
            let like = (
                request.method.clone(),
                route(&request.target),
                Content::of(request),
            );
            let nth = *known.entry(like).or_insert(counts.len());
            if nth == counts.len() {
                counts.push(0);
            }
            counts[nth] += 1;
            nth
        })
        .collect();
    let mut likes: Vec<(Likeness, usize)> = known.into_iter().collect();
    likes.sort_by_key(|(_, nth)| std::cmp::Reverse(counts[*nth]));
    for ((_, route, _), _) in likes.iter_mut().skip(ROUTES_MAX) {
        "others".clone_into(route);
    }
    likes.sort_by_key(|(_, nth)| *nth);
    let mut kinds: Vec<(Likeness, u32)> = Vec::new();
    let mut kind_of_route = Vec::with_capacity(likes.len());
    for (like, nth) in likes {
        let place = kinds.iter().position(|(known, _)| *known == like);
        let place = place.unwrap_or_else(|| {
            kinds.push((like, 0));
            kinds.len() - 1
        });
        kinds[place].1 += counts[nth];
        kind_of_route.push(place as u16);
    }
    let flows = of_route.into_iter().map(|nth| kind_of_route[nth]).collect();
    (kinds, flows)
}

fn mix(requests: &[Logged], wanted: &Wanted, origin: &Origin, is_coarse: bool) -> Mix {
    let (kinds, flows) = told_apart(requests);
    // Those of one route that differ in what they have behind their heads have names of their own.
    let mut names = BTreeSet::new();
    let named = |(like, count)| (unused(&name(&like), &mut names), like, count);
    let kinds: Vec<(String, Likeness, u32)> = kinds.into_iter().map(named).collect();
    let has_bodies = requests.iter().any(|request| request.body.is_some());
    let row = |request: &Logged| {
        let mut row = vec![request.target.clone().into_bytes()];
        if has_bodies {
            let (content_type, body) = request.body.clone().unwrap_or_default();
            let content_type = content_type.replace(char::is_control, " ");
            row.extend([body, content_type.into_bytes()]);
        }
        Row(row)
    };
    let rows: Vec<Row> = requests.iter().map(row).collect();
    let first_ns = requests[0].at_ns;
    // Of days at a thousandth of the pace, none is beyond a century.
    let since = |request: &Logged| {
        let later = (request.at_ns - first_ns) as f64 / wanted.speed;
        later.min(3e18) as u64
    };
    let at_ns: Vec<u64> = requests.iter().map(since).collect();
    let last_ns = at_ns.last().copied().unwrap_or(0);
    // The gap before it begins anew is one like the others.
    let gap_ns = match (last_ns, is_coarse) {
        (0, _) => SECOND_NS,
        (last_ns, _) => last_ns / (at_ns.len() as u64 - 1).max(1),
    };
    Mix {
        protocol: origin.protocol,
        flows: kinds
            .iter()
            .enumerate()
            .map(|(nth, (name, _, count))| flow(nth, name, *count))
            .collect(),
        kinds: kinds
            .into_iter()
            .map(|(name, like, _)| kind(name, like, origin))
            .collect(),
        tables: vec![Table {
            name: "log".to_owned(),
            order: Order::InOrder,
            columns: ["target", "body", "content_type"][..if has_bodies { 3 } else { 1 }]
                .iter()
                .map(ToString::to_string)
                .collect(),
            cells: rows.into(),
        }],
        variables: 0,
        known: Known::default(),
        origins: origin.origins.clone(),
        replay: Some(Replay {
            at_ns,
            flows,
            again_after_ns: wanted.again.then_some(last_ns + gap_ns.max(1)),
        }),
    }
}

fn name((method, route, _): &Likeness) -> String {
    match method.as_str() {
        "GET" => route.clone(),
        method => format!("{method} {route}"),
    }
}

fn flow(nth: usize, name: &str, count: u32) -> Flow {
    Flow {
        name: name.to_owned(),
        weight: count,
        steps: vec![Step {
            kind: nth as u16,
            think: Think::None,
            hop: None,
            continues: false,
        }],
        walks: None,
    }
}

fn kind(name: String, (method, _, content): Likeness, origin: &Origin) -> Kind {
    let column = |column, spelling| {
        Text(vec![Piece::Slot(Slot {
            value: Value::Column { table: 0, column },
            spelling,
        })])
    };
    let fixed = |(name, value): &(String, String)| (name.clone(), Text::fixed(value.as_str()));
    let is_typed = content == Content::Typed;
    // The type that was logged goes before that of every request.
    let is_told = |name: &str| is_typed && name.eq_ignore_ascii_case("content-type");
    let usual = origin.headers.iter().filter(|(name, _)| !is_told(name));
    let mut headers: Vec<(String, Text)> = usual.map(fixed).collect();
    if is_typed {
        headers.push(("Content-Type".to_owned(), column(2, Spelling::Raw)));
    }
    let body = match content {
        Content::Nothing => Text::default(),
        Content::Untyped | Content::Typed => column(1, Spelling::Raw),
    };
    Kind {
        name,
        request: Template {
            method,
            authority: origin.authority.clone(),
            target: column(0, Spelling::Path),
            headers,
            body,
        },
        call: None,
        expect: Expect::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::tests::{Files, origin};

    fn of(file: &str, text: &str, wanted: Wanted) -> Result<(Mix, Vec<String>), String> {
        let files = Files([(file.into(), text.as_bytes().to_vec())].into());
        let wanted = Wanted {
            file: file.into(),
            ..wanted
        };
        replayed(&wanted, &origin(Protocol::Http1), &files).map_err(|fault| fault.message)
    }

    #[test]
    fn requests_keep_their_gaps_paths_and_order() {
        let log = "1000.000 \"GET /items/1 HTTP/1.1\"\n1000.250 \"GET /search?q=a%20b HTTP/1.1\"\n\
                   1000.500 \"GET /items/2 HTTP/1.1\"\n1000.750 \"POST /cart HTTP/1.1\"\n1001.000 \"GET / HTTP/1.1\"\n";
        let wanted = Wanted {
            format: Some("$msec \"$request\"".to_owned()),
            speed: 2.0,
            again: true,
            ..Wanted::default()
        };
        let (mix, notes) = of("access.log", log, wanted).expect("it is one");
        let replay = mix.replay.clone().expect("it is one");
        assert_eq!(replay.at_ns, [0, 125_000_000, 250_000_000, 500_000_000]);
        assert_eq!(replay.again_after_ns, Some(500_000_000 + 500_000_000 / 3));
        let names: Vec<&str> = replay
            .flows
            .iter()
            .map(|flow| mix.flows[usize::from(*flow)].name.as_str())
            .collect();
        assert_eq!(names, ["/items/*", "/search", "/items/*", "/"]);
        let targets: Vec<&[u8]> = mix.tables[0]
            .rows()
            .iter()
            .map(|row| row.0[0].as_slice())
            .collect();
        assert_eq!(targets[1], b"/search?q=a%20b");
        assert_eq!(
            notes,
            ["Left out of the log: 1 of POST, whose bodies it does not hold."]
        );
        assert!(
            wallfinder_wire::Exchange::Mix(Box::new(mix))
                .check(1)
                .is_ok()
        );
    }

    #[test]
    fn whole_seconds_are_spread_by_the_seed_and_told() {
        let line = |second: u32| {
            format!("h - - [10/Oct/2000:13:55:{second:02} +0000] \"GET /a HTTP/1.1\" 200 1\n")
        };
        let log: String = (10..20)
            .flat_map(|second| (0..50).map(move |_| line(second)))
            .collect();
        let (mix, notes) = of("access.log", &log, Wanted::default()).expect("it is one");
        let at_ns = mix.replay.expect("it is one").at_ns;
        let in_order: String = (0..50)
            .map(|nth| line(10).replace("/a", &format!("/n{}", char::from(b'A' + nth))))
            .collect();
        let mut requests = logged(
            &in_order,
            &Format::parse("combined").expect("it is one"),
            true,
        )
        .expect("it is one")
        .requests;
        let asked: Vec<String> = requests.iter().map(|made| made.target.clone()).collect();
        spread(&mut requests, 3);
        assert!(requests.iter().map(|made| &made.target).eq(&asked));
        assert!(at_ns.is_sorted() && at_ns.windows(2).filter(|two| two[0] == two[1]).count() < 5);
        // Fifty in each second, wherever that begins behind the first.
        assert!(
            (at_ns[499] as f64 / 1e9 - 10.0).abs() < 0.2,
            "{}",
            at_ns[499]
        );
        assert!(
            notes[0].contains("whole seconds") && notes[0].contains("seed"),
            "{notes:?}"
        );
    }

    #[test]
    fn posts_of_a_har_are_sent_with_the_bodies_that_they_had() {
        let entry = |second: u32, rest: &str| {
            let at = format!("2026-01-01T10:00:{second:02}.000Z");
            let request = format!(r#"{{"method": "POST", "url": "http://h/a"{rest}}}"#);
            format!(r#"{{"startedDateTime": "{at}", "request": {request}}}"#)
        };
        let entries = [
            entry(0, ""),
            entry(1, r#", "postData": {"mimeType": "", "text": "x"}"#),
            entry(2, r#", "postData": {"mimeType": "a/b", "text": "y"}"#),
            entry(3, ""),
            entry(4, r#", "bodySize": 7"#),
        ];
        let har = format!(r#"{{"log": {{"entries": [{}]}}}}"#, entries.join(","));
        let (mix, notes) = of("a.har", &har, Wanted::default()).expect("it is one");
        assert_eq!(
            notes,
            ["Left out of the log: 1 request with a body that it does not hold."]
        );
        assert_eq!(mix.replay.as_ref().expect("it is one").flows, [0, 1, 2, 0]);
        let kinds: Vec<(&str, bool, bool)> = mix
            .kinds
            .iter()
            .map(|kind| {
                let mut fields = kind.request.headers.iter();
                let has_type = fields.any(|(name, _)| name == "Content-Type");
                (kind.name.as_str(), !kind.request.body.is_fixed(), has_type)
            })
            .collect();
        assert_eq!(
            kinds,
            [
                ("POST /a", false, false),
                ("POST /a 2", true, false),
                ("POST /a 3", true, true)
            ]
        );
        assert!(
            wallfinder_wire::Exchange::Mix(Box::new(mix))
                .check(1)
                .is_ok()
        );
    }

    #[test]
    fn a_type_that_was_logged_goes_before_that_of_every_request() {
        let origin = Origin {
            headers: vec![("content-type".to_owned(), "text/plain".to_owned())],
            ..origin(Protocol::Http1)
        };
        for (content, want) in [
            (Content::Typed, "Content-Type"),
            (Content::Untyped, "content-type"),
        ] {
            let like = ("POST".to_owned(), "/".to_owned(), content);
            let headers = kind("a".to_owned(), like, &origin).request.headers;
            let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, [want]);
        }
    }

    #[test]
    fn what_cannot_be_replayed_is_told_with_its_file() {
        // Its first two bytes are what tells it, and the second is no text.
        let files = Files([("a.log".into(), b"\x1f\x8b\x08\x00".to_vec())].into());
        let wanted = Wanted {
            file: "a.log".into(),
            ..Wanted::default()
        };
        let why = replayed(&wanted, &origin(Protocol::Http1), &files).expect_err("compressed");
        assert!(why.message.contains("zcat a.log"), "{}", why.message);
        let why = of("a.log", "\n", Wanted::default()).expect_err("empty");
        assert!(why.contains("a.log: there is no request"), "{why}");
        let why = of(
            "a.log",
            "h - - [10/Oct/2000:13:55:10 +0000] \"POST /a HTTP/1.1\" 200 1\n",
            Wanted::default(),
        );
        assert!(why.expect_err("bodies").contains("could be sent"));
    }
}
