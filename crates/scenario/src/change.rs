//! One scenario becomes another: B of a comparison from A, and what differs between the two, in words.

use wallfinder_model::Scenario;
use wallfinder_model::scenario::{Ab, Changes, ENGINE, Probe};

use crate::loads::CONNECTIONS;

/// Subjects of ours that offer profiles when they are told to.
const CAN_BE_PROFILED: [&str; 3] = ["catalogue", "content", "echo"];

/// How texts that may hold secrets are shown.
pub struct Shown<'s> {
    /// Another program's command.
    pub command: &'s dyn Fn(&str) -> String,
    /// A URL, or a path of one.
    pub url: &'s dyn Fn(&str) -> String,
}

/// What a comparison holds in turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Sides {
    /// As it is.
    pub a: Scenario,
    /// With the changes.
    pub b: Scenario,
}

impl Sides {
    /// Of a scenario that says what B has in the place of A's.
    pub fn of(scenario: &Scenario) -> Sides {
        let ab = scenario.ab.clone().unwrap_or_default();
        let mut a = scenario.clone();
        a.ab = None;
        let mut b = with(&a, &ab.b);
        let of_go = |probe: &Probe| matches!(probe, Probe::Go | Probe::Trace);
        if ab.observe.iter().any(of_go) {
            for side in [&mut a, &mut b] {
                if let Some(subject) = &mut side.server.subject {
                    offer_profiles(subject);
                }
            }
        }
        Sides { a, b }
    }

    /// Whether both load one and the same server.
    pub fn share_server(&self) -> bool {
        self.a.server == self.b.server
            && self.a.link == self.b.link
            && host(&self.a.target.url) == host(&self.b.target.url)
    }
}

/// `host:port` of a URL, with what stands before it.
fn authority(url: &str) -> &str {
    let path = url
        .split_once("://")
        .map_or(0, |(scheme, _)| scheme.len() + 3);
    let end = url[path..].find(['/', '?', '#']);
    &url[..end.map_or(url.len(), |end| path + end)]
}

/// `host:port` alone.
fn host(url: &str) -> &str {
    let place = authority(url);
    let place = place.split_once("://").map_or(place, |(_, place)| place);
    place.rsplit_once('@').map_or(place, |(_, host)| host)
}

/// The scenario with changes.
pub fn with(scenario: &Scenario, changes: &Changes) -> Scenario {
    let mut other = scenario.clone();
    let Changes {
        url,
        path,
        headers,
        subject,
        link,
        server_quota,
        driver,
        connections,
        pipeline,
        max_in_flight,
        no_batching,
        threads,
        server_cpus,
    } = changes;
    if let Some(path) = path {
        other.target.url = with_path(&scenario.target.url, path);
    }
    if let Some(url) = url {
        other.target.url.clone_from(url);
    }
    other.target.headers.extend(headers.iter().cloned());
    put(&mut other.server.subject, subject);
    put(&mut other.server.quota, server_quota);
    put(&mut other.server.cpus, server_cpus);
    put(&mut other.link.lay, link);
    put(&mut other.client.driver, driver);
    put(&mut other.load.connections, connections);
    put(&mut other.load.max_in_flight, max_in_flight);
    put(&mut other.load.threads, threads);
    other.load.pipeline = pipeline.unwrap_or(other.load.pipeline);
    other.load.no_batching |= no_batching;
    other
}

fn put<T: Clone>(place: &mut Option<T>, value: &Option<T>) {
    if value.is_some() {
        place.clone_from(value);
    }
}

/// The URL with another path.
pub fn with_path(url: &str, path: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let place = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    format!("{scheme}://{place}/{}", path.trim_start_matches('/'))
}

/// Path and query of a URL.
fn path(url: &str) -> &str {
    match &url[authority(url).len()..] {
        "" => "/",
        path => path,
    }
}

/// Tells a subject of ours to offer profiles, unless its command says something about it.
pub fn offer_profiles(subject: &mut String) {
    let mut words = subject.split_whitespace();
    let program = words.find(|word| !word.contains('='));
    let can = program.is_some_and(|program| CAN_BE_PROFILED.contains(&program));
    if can && !subject.contains("--pprof") {
        subject.push_str(" --pprof 0");
    }
}

/// What is said of A, and of B: what differs between the two.
pub fn differences(scenario: &Scenario, shown: &Shown<'_>) -> (String, String) {
    let ab = scenario.ab.clone().unwrap_or_default();
    let b = with(scenario, &ab.b);
    let mut differs: Vec<(String, String)> = Vec::new();
    let mut lever = |a: String, b: String| {
        if a != b {
            differs.push((a, b));
        }
    };
    let Ab {
        tune,
        observe,
        b: changes,
        ..
    } = &ab;
    let (server, load) = (&scenario.server, &scenario.load);
    if changes.path.is_some() {
        let of = |scenario: &Scenario| (shown.url)(path(&scenario.target.url));
        lever(of(scenario), of(&b));
    }
    if let Some(url) = &changes.url {
        lever((shown.url)(&scenario.target.url), (shown.url)(url));
    }
    for header in &changes.headers {
        let name = header.split(':').next().unwrap_or_default();
        lever(format!("without {name}"), format!("with {name}"));
    }
    let none = || "none".to_owned();
    let command = |command: &Option<String>| command.as_deref().map_or(none(), shown.command);
    if changes.subject.is_some() {
        lever(command(&server.subject), command(&changes.subject));
    }
    if let Some(link) = &changes.link {
        lever(scenario.link.lay.clone().unwrap_or(none()), link.clone());
    }
    if changes.server_quota.is_some() {
        let words = |quota: Option<f64>| match quota {
            Some(cores) => format!("{cores} processors' quota"),
            None => "no quota".to_owned(),
        };
        lever(words(server.quota), words(changes.server_quota));
    }
    if changes.driver.is_some() {
        let words = |scenario: &Scenario| match scenario.driver() {
            Some(command) => (shown.command)(command),
            None => ENGINE.to_owned(),
        };
        lever(words(scenario), words(&b));
    }
    let connections = load.connections.unwrap_or(CONNECTIONS);
    let connections_b = changes.connections.unwrap_or(connections);
    let in_words = |count: u32| format!("{count} connections");
    lever(in_words(connections), in_words(connections_b));
    let depth = |pipeline: u32| format!("depth {pipeline}");
    lever(depth(load.pipeline), depth(b.load.pipeline));
    if changes.max_in_flight.is_some() {
        let words = |bound: Option<u32>| match bound {
            Some(bound) => format!("{bound} in flight at most"),
            None => "no bound".to_owned(),
        };
        lever(words(load.max_in_flight), words(changes.max_in_flight));
    }
    if changes.no_batching {
        lever("answers may gather".to_owned(), "one by one".to_owned());
    }
    if changes.threads.is_some() {
        let words = |threads: Option<u32>| match threads {
            Some(threads) => format!("-t {threads}"),
            None => "a thread for each processor".to_owned(),
        };
        lever(words(load.threads), words(changes.threads));
    }
    if changes.server_cpus.is_some() {
        let words = |cpus: &Option<Vec<u32>>| match cpus {
            Some(cpus) => {
                let numbers: Vec<String> = cpus.iter().map(u32::to_string).collect();
                format!("server on {}", numbers.join(","))
            }
            None => "server where it is put".to_owned(),
        };
        lever(words(&server.cpus), words(&changes.server_cpus));
    }
    for tuning in tune {
        lever("the host as it is".to_owned(), tuning.clone());
    }
    if observe.contains(&Probe::Telemetry) {
        lever(
            "watched as its window opens and closes".to_owned(),
            "watched every 50 ms".to_owned(),
        );
    }
    if observe.contains(&Probe::Client) {
        lever(
            "its client not looked into".to_owned(),
            "its client looked into".to_owned(),
        );
    }
    let of_server = observe
        .iter()
        .filter(|probe| !matches!(probe, Probe::Telemetry | Probe::Client));
    let names: Vec<&str> = of_server.map(|probe| probe.label()).collect();
    if !names.is_empty() {
        lever(
            "not looked into".to_owned(),
            format!("looked into by {}", names.join(", ")),
        );
    }
    let (a, b): (Vec<String>, Vec<String>) = differs.into_iter().unzip();
    let what = |words: Vec<String>| match words.is_empty() {
        true => "the same as the other".to_owned(),
        false => words.join(", "),
    };
    (what(a), what(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ab(change: impl FnOnce(&mut Scenario, &mut Ab)) -> Scenario {
        let mut scenario = Scenario::default();
        scenario.target.url = "http://subject:80/a?b".into();
        scenario.server.subject = Some("catalogue".into());
        let mut ab = Ab::default();
        change(&mut scenario, &mut ab);
        scenario.ab = Some(ab);
        scenario
    }

    fn words(scenario: &Scenario) -> (String, String) {
        let shown = Shown {
            command: &|command| format!("<{command}>"),
            url: &str::to_owned,
        };
        differences(scenario, &shown)
    }

    #[test]
    fn without_changes_both_are_the_same() {
        let scenario = ab(|_, _| ());
        let sides = Sides::of(&scenario);
        assert_eq!(sides.a, sides.b);
        assert!(sides.share_server());
        let same = "the same as the other".to_owned();
        assert_eq!(words(&scenario), (same.clone(), same));
    }

    #[test]
    fn b_is_a_with_its_changes_and_they_are_named() {
        let scenario = ab(|a, ab| {
            a.load.pipeline = 2;
            ab.b = Changes {
                path: Some("c".into()),
                headers: vec!["X: secret".into()],
                link: Some("1gbit".into()),
                driver: Some("wrk {url}".into()),
                connections: Some(8),
                pipeline: Some(4),
                no_batching: true,
                server_cpus: Some(vec![0, 1]),
                ..Changes::default()
            };
            ab.observe = vec![Probe::Stacks, Probe::Client];
        });
        let Sides { a, b } = Sides::of(&scenario);
        assert_eq!(b.target.url, "http://subject:80/c");
        assert_eq!(b.target.headers, ["X: secret"]);
        assert_eq!(b.link.lay.as_deref(), Some("1gbit"));
        assert_eq!(b.driver(), Some("wrk {url}"));
        assert_eq!((b.load.connections, b.load.pipeline), (Some(8), 4));
        assert!(b.load.no_batching && !a.load.no_batching);
        let (what_a, what_b) = words(&scenario);
        assert_eq!(
            what_a,
            "/a?b, without X, none, wallfinder, 64 connections, depth 2, answers may gather, \
             server where it is put, its client not looked into, not looked into"
        );
        assert_eq!(
            what_b,
            "/c, with X, 1gbit, <wrk {url}>, 8 connections, depth 4, one by one, server on 0,1, \
             its client looked into, looked into by stacks"
        );
    }

    #[test]
    fn what_differs_at_the_server_takes_two() {
        let shares = |change: fn(&mut Changes)| {
            let scenario = ab(|_, ab| change(&mut ab.b));
            Sides::of(&scenario).share_server()
        };
        assert!(shares(|b| b.path = Some("/x".into())));
        assert!(shares(|b| b.connections = Some(1)));
        assert!(!shares(|b| b.subject = Some("catalogue --prefork".into())));
        assert!(!shares(|b| b.server_quota = Some(0.5)));
        assert!(!shares(|b| b.server_cpus = Some(vec![1])));
        assert!(!shares(|b| b.link = Some("1gbit".into())));
        assert!(!shares(|b| b.url = Some("http://subject:81/a".into())));
    }

    #[test]
    fn both_offer_profiles_where_one_is_looked_into() {
        let scenario = ab(|_, ab| ab.observe = vec![Probe::Go]);
        let Sides { a, b } = Sides::of(&scenario);
        for side in [a, b] {
            let subject = side.server.subject.expect("it has one");
            assert_eq!(subject, "catalogue --pprof 0");
        }
        let mut other = "GOGC=off nginx".to_owned();
        offer_profiles(&mut other);
        assert_eq!(other, "GOGC=off nginx");
    }

    #[test]
    fn a_path_takes_the_place_of_the_urls() {
        assert_eq!(with_path("http://h:1/a?b", "/c"), "http://h:1/c");
        assert_eq!(with_path("h:1", "c"), "http://h:1/c");
        assert_eq!(authority("http://h:1?x"), "http://h:1");
        assert_eq!(path("h:1"), "/");
    }
}
