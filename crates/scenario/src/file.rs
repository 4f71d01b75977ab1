//! A scenario as a file: TOML, or JSON, every key known, and the place of every value that is wrong.

use std::ops::Range;

use toml::de::{DeTable, DeValue};
use wallfinder_model::{Json as _, Scenario};

use crate::{Fault, FileError};

/// Where the keys are told.
const HELP: &str = "keys are called as the flags of the command line; \
                    `wallfinder run --print-scenario` prints one, and docs/scenarios.md has them all";

/// A scenario, and the text that it was read from.
#[derive(Debug, Clone)]
pub struct ScenarioFile {
    /// As it was read, not checked.
    pub scenario: Scenario,
    name: String,
    text: String,
}

impl ScenarioFile {
    /// Reads a text: JSON where it begins with a brace, else TOML. `name` is what errors carry.
    ///
    /// # Errors
    ///
    /// A text of neither form, a key that there is not, a value that its key does not take.
    pub fn parse(name: &str, text: &str) -> Result<ScenarioFile, FileError> {
        let scenario = match is_json(text) {
            true => Scenario::from_json(text.as_bytes()).map_err(|error| {
                let at = offset(text, error.line(), error.column());
                FileError::at(name, text, at..at, without_place(&error.to_string()))
            }),
            false => toml::from_str(text).map_err(|error| {
                let span = error.span().unwrap_or(0..0);
                FileError::at(name, text, span, error.message().trim_end().to_owned())
            }),
        };
        Ok(ScenarioFile {
            scenario: scenario.map_err(|error: FileError| error.with_help(HELP))?,
            name: name.to_owned(),
            text: text.to_owned(),
        })
    }

    /// What is wrong, at the key that it is about, or at the nearest above it that the file has. `None`: the
    /// file says nothing of it.
    pub fn error(&self, fault: &Fault) -> Option<FileError> {
        let path: Vec<&str> = fault.key.split('.').collect();
        let place = match is_json(&self.text) {
            true => Json::of(&self.text).place(&path),
            false => place(&self.text, &path),
        };
        place.map(|span| FileError::at(&self.name, &self.text, span, fault.message.clone()))
    }
}

/// The scenario as a file of TOML.
pub fn written(scenario: &Scenario) -> String {
    toml::to_string(scenario).expect("a scenario is tables of plain values")
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// The bytes before a line and a column, both from 1.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before = text.split_inclusive('\n').take(line.saturating_sub(1));
    before.map(str::len).sum::<usize>() + column.saturating_sub(1)
}

/// An error's words: where it is stands before them already.
fn without_place(message: &str) -> String {
    let words = message.split(" at line ").next();
    words.unwrap_or(message).to_owned()
}

/// Where the value of a path of keys and numbers stands in a text of TOML.
fn place(text: &str, path: &[&str]) -> Option<Range<usize>> {
    let root = DeTable::parse(text).ok()?;
    let (first, rest) = path.split_first()?;
    let mut value = named(root.get_ref(), first)?;
    for name in rest {
        value = match value.get_ref() {
            DeValue::Table(inner) => named(inner, name)?,
            DeValue::Array(list) => list.get(name.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(value.span())
}

fn named<'t, 'd>(table: &'t DeTable<'d>, name: &str) -> Option<&'t toml::Spanned<DeValue<'d>>> {
    let found = table.iter().find(|(key, _)| key.get_ref() == name);
    found.map(|(_, value)| value)
}

/// The same of a key such as `session.0.steps.1`, or of the nearest above it that the text has; else its beginning.
pub fn nearest(text: &str, key: &str) -> Range<usize> {
    let path: Vec<&str> = key.split('.').collect();
    let mut lengths = (1..=path.len()).rev();
    let found = lengths.find_map(|length| place(text, &path[..length]));
    found.unwrap_or(0..0)
}

/// A walk over a text that is known to be JSON.
struct Json<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Json<'t> {
    fn of(text: &'t str) -> Json<'t> {
        Json { text, at: 0 }
    }

    /// Where the value of a path of keys and numbers stands.
    fn place(mut self, path: &[&str]) -> Option<Range<usize>> {
        self.value(Some(path))
    }

    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text.as_bytes().get(self.at).copied()
    }

    /// Passes a value; its place where nothing is left of the path, else that of what is sought in it.
    fn value(&mut self, path: Option<&[&str]>) -> Option<Range<usize>> {
        let first = self.peek()?;
        let start = self.at;
        let mut found = None;
        match first {
            b'{' | b'[' => {
                self.at += 1;
                for nth in 0.. {
                    while self.peek() == Some(b',') {
                        self.at += 1;
                    }
                    if matches!(self.peek()?, b'}' | b']') {
                        self.at += 1;
                        break;
                    }
                    let name = match first {
                        b'{' => {
                            let key = self.string();
                            self.peek();
                            self.at += 1;
                            key
                        }
                        _ => nth.to_string(),
                    };
                    let inner = path.and_then(<[&str]>::split_first);
                    let inner = inner.filter(|(sought, _)| **sought == name);
                    let inner = self.value(inner.map(|(_, rest)| rest));
                    found = found.or(inner);
                }
            }
            b'"' => drop(self.string()),
            _ => {
                let rest = &self.text[self.at..];
                let end = rest.find([',', '}', ']']).unwrap_or(rest.len());
                self.at += rest[..end].trim_end().len();
            }
        }
        match path {
            Some([]) => Some(start..self.at),
            _ => found,
        }
    }

    /// Passes a string, and gives what stands in it as it is written.
    fn string(&mut self) -> String {
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        self.at = start;
        while bytes.get(self.at).is_some_and(|byte| *byte != b'"') {
            self.at += if bytes[self.at] == b'\\' { 2 } else { 1 };
        }
        let end = self.at.min(bytes.len());
        self.at = (end + 1).min(bytes.len());
        self.text.get(start..end).unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use wallfinder_model::scenario::{Ab, Answers, Changes, Io, Probe, Ramp, Squeeze, TlsVersion};
    use wallfinder_model::{Bytes, Decode, Nanos, ProfileKind, Rate};

    use super::*;

    /// Every key says something else than it does by default.
    fn full() -> Scenario {
        let mut scenario = Scenario::default();
        let target = &mut scenario.target;
        target.url = "grpc://subject:9000/a.B/C".into();
        target.method = "POST".into();
        target.headers = vec!["Authorization: env:TOKEN".into(), "A: \"b\"".into()];
        target.body = Some("@body.json".into());
        target.body_bytes = Some(Bytes(65_536));
        target.echo_bytes = Some(512);
        target.http2 = true;
        target.frame = Some("u32be".into());
        target.proto = vec!["a.proto".into()];
        target.proto_path = vec!["/p".into()];
        target.protoset = Some("set".into());
        target.deadline = Some(Nanos(1_500_000));
        target.in_turn = true;
        target.decode = Decode::Check;
        target.wait = Nanos(0);
        target.tls.insecure = true;
        target.tls.tls_groups = vec!["x25519".into()];
        target.tls.tls_version = Some(TlsVersion::V12);
        let load = &mut scenario.load;
        load.connections = Some(7);
        load.rate = Some(Rate(1234.5));
        load.rate_to = Some(Rate(2000.0));
        load.duration = Nanos(1_234_567_891);
        load.warmup = Some(Nanos(0));
        load.requests = Some(10);
        load.io = Io::Epoll;
        scenario.server.cpus = Some(vec![0, 2]);
        scenario.server.quota = Some(0.5);
        scenario.programs.as_user = Some("nobody".into());
        scenario.link.lay = Some("1gbit,delay=10ms".into());
        scenario.watch.kinds = vec![ProfileKind::Cpu];
        scenario.expect.require = Some("server-bound".into());
        scenario.ramp = Some(Ramp {
            rates: vec![Rate(10.0), Rate(20.5)],
            ..Ramp::default()
        });
        scenario.squeeze = Some(Squeeze {
            window: Some(Nanos::from_millis(300)),
            ..Squeeze::default()
        });
        scenario.ab = Some(Ab {
            observe: vec![Probe::Telemetry],
            at_most_cost: Some(0.02),
            b: Changes {
                path: Some("/other".into()),
                ..Changes::default()
            },
            ..Ab::default()
        });
        scenario.bytes = Some(Answers::default());
        scenario
    }

    #[test]
    fn a_scenario_is_written_and_read_again() {
        for scenario in [Scenario::default(), full()] {
            let text = written(&scenario);
            let read = ScenarioFile::parse("s.toml", &text).expect(&text);
            assert_eq!(read.scenario, scenario, "{text}");
            let json = serde_json::to_string_pretty(&scenario).unwrap();
            let read = ScenarioFile::parse("s.json", &json).expect(&json);
            assert_eq!(read.scenario, scenario, "{json}");
        }
    }

    #[test]
    fn numbers_may_be_written_as_people_do() {
        let text = "[target]\nbody_bytes = \"64KiB\"\n[load]\nrate = \"20k\"\nduration = \"1m\"\n\
                    [ramp]\nrates = [500, \"1k\"]\n";
        let scenario = ScenarioFile::parse("s", text).unwrap().scenario;
        assert_eq!(scenario.target.body_bytes, Some(Bytes(65_536)));
        assert_eq!(scenario.load.rate, Some(Rate(20_000.0)));
        assert_eq!(scenario.load.duration, Nanos::from_secs(60));
        let ramp = scenario.ramp.expect("it has one");
        assert_eq!(ramp.rates, [Rate(500.0), Rate(1_000.0)]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_its_key() {
        for (text, line, says) in [
            ("[load]\nconections = 3\n", 2, "conections"),
            ("\n[load]\nduration = \"soon\"\n", 3, "a duration such as"),
            ("[load]\nrate = -1\n", 2, "a rate"),
            ("[load]\npipeline = \"two\"\n", 2, "two"),
            ("[nowhere]\n", 1, "nowhere"),
            ("{\n \"load\": {\n  \"pipeline\": true\n }\n}", 3, "true"),
            ("{\n \"lod\": {}\n}", 2, "lod"),
        ] {
            let error = ScenarioFile::parse("s", text).expect_err(text);
            assert_eq!(error.line(), line, "{text}: {error}");
            assert!(error.message().contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_fault_stands_at_its_key_in_both_forms() {
        let toml = "[target]\nheaders = [\"A: b\",\n  \"C: d\"]\n[load]\npipeline = 2\n\
                    [ab]\nrounds = 4\n[ab.b]\npath = \"/x\"\n";
        let json = serde_json::json!({
            "target": {"headers": ["A: b", "C: d"], "url": "http://h/{1,2}"},
            "ab": {"rounds": 4, "b": {"path": "/x"}},
            "load": {"pipeline": 2},
        });
        let json = serde_json::to_string_pretty(&json).unwrap();
        for (text, lines) in [(toml, [3, 5, 7, 9]), (&json, [14, 9, 6, 4])] {
            let file = ScenarioFile::parse("s", text).expect(text);
            let keys = [
                "target.headers.1",
                "load.pipeline",
                "ab.rounds",
                "ab.b.path",
            ];
            for (key, line) in keys.into_iter().zip(lines) {
                let error = file.error(&Fault::at(key, "no")).expect(key);
                assert_eq!(error.line(), line, "{key}\n{text}");
            }
            assert!(file.error(&Fault::at("load.rate", "no")).is_none());
        }
    }
}
