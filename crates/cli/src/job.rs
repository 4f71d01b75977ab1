//! What a command is given: a checked scenario, and what is of this invocation alone: where results go, which
//! hosts may be loaded, and the values that the scenario refers to.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use wallfinder_model::Scenario;
use wallfinder_model::scenario::Reference;
use wallfinder_scenario::check::check;
use wallfinder_scenario::{Fault, ScenarioFile};
use wallfinder_sys::file::{self, Source, Unread};
use wallfinder_testbed::child::RunAs;
use wallfinder_traffic::{DATA_BYTES_MAX, TrafficFile};

use crate::body::{self, BODY_BYTES_MAX};
use crate::exit::Failed;
use crate::flags::OutputFlags;
use crate::reach::Reach;
use crate::target::Url;

/// Longest value in a file of its own.
const VALUE_BYTES_MAX: u64 = 1 << 20;

/// What is of an invocation, whatever its scenario.
#[derive(Debug, Clone)]
pub(crate) struct Around {
    pub(crate) output: OutputFlags,
    pub(crate) reach: Reach,
    /// The file that the scenario came from, for errors.
    pub(crate) file: Option<Arc<ScenarioFile>>,
    /// That of its traffic, where it is another.
    pub(crate) traffic: Option<Arc<TrafficFile>>,
    pub(crate) values: Arc<Values>,
}

impl Around {
    /// One without a file, which refers to nothing.
    pub(crate) fn of(output: &OutputFlags) -> Around {
        Around {
            output: output.clone(),
            reach: Reach::default(),
            file: None,
            traffic: None,
            values: Arc::default(),
        }
    }

    /// A fault with its place in the file, where the file is what says so.
    pub(crate) fn fault(&self, fault: &Fault) -> Failed {
        let placed = match &self.traffic {
            Some(file) if fault.key.starts_with("traffic") => file.error(fault),
            _ => self.file.as_ref().and_then(|file| file.error(fault)),
        };
        match placed {
            Some(error) => crate::exit::in_file(&error),
            None => Failed::usage(&fault.message),
        }
    }

    /// A job of a scenario.
    pub(crate) fn job(&self, scenario: Scenario) -> Result<Job, Failed> {
        check(&scenario).map_err(|fault| self.fault(&fault))?;
        Ok(Job {
            url: Url::parse(&scenario.target.url)?,
            scenario,
            around: self.clone(),
        })
    }
}

/// A scenario that was checked, and what is around it.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) scenario: Scenario,
    pub(crate) url: Url,
    pub(crate) around: Around,
}

impl Job {
    /// The same with another scenario.
    pub(crate) fn with(&self, scenario: Scenario) -> Result<Job, Failed> {
        self.around.job(scenario)
    }

    /// Fields of the user, and those that the URL stands for.
    pub(crate) fn headers(&self) -> Result<Vec<(String, String)>, Failed> {
        let mut headers = self.fields(&self.scenario.target.headers, "-H")?;
        if let Some(user_info) = &self.url.user_info {
            let encoded = BASE64.encode(user_info);
            headers.push(("Authorization".to_owned(), format!("Basic {encoded}")));
        }
        Ok(headers)
    }

    /// Header fields as they were given in `place`, with what they refer to.
    pub(crate) fn fields(
        &self,
        given: &[String],
        place: &str,
    ) -> Result<Vec<(String, String)>, Failed> {
        let field = |(header, at): (&String, usize)| {
            // Not quoted back: it may hold a secret.
            let (name, value) = header.split_once(':').ok_or_else(|| {
                Failed::usage(format!(
                    "{place} number {at} has no colon: write it as 'Accept: text/html'"
                ))
            })?;
            let value = self.around.values.of(value.trim());
            Ok((name.trim().to_owned(), value.to_owned()))
        };
        given.iter().zip(1..).map(field).collect()
    }

    /// What is sent with each request.
    pub(crate) fn body(&self) -> Result<Option<Vec<u8>>, Failed> {
        let target = &self.scenario.target;
        if let Some(bytes) = target.echo_bytes {
            return Ok(Some(wallfinder_study::payload::echo(bytes)));
        }
        if let Some(bytes) = target.body_bytes {
            if bytes.0 > BODY_BYTES_MAX {
                return Err(Failed::usage(format!(
                    "--body-bytes is {bytes}; at most 64 MiB are sent with a request"
                )));
            }
            return Ok(Some(vec![b'x'; bytes.0 as usize]));
        }
        let given = target.body.as_deref();
        given
            .map(|given| self.around.values.body(given))
            .transpose()
    }

    /// As whom programs run, and what they are given.
    pub(crate) fn run_as(&self) -> Result<RunAs, Failed> {
        let programs = &self.scenario.programs;
        let variable = |given: &String| match given.split_once('=') {
            Some((name, value)) => format!("{name}={}", self.around.values.of(value)),
            None => given.clone(),
        };
        let variables: Vec<String> = programs.env.iter().map(variable).collect();
        RunAs::decide(programs.as_user.as_deref(), &variables).map_err(Failed::usage)
    }
}

/// What a scenario refers to. It is read once: a pipe gives what it has once.
#[derive(Default)]
pub(crate) struct Values {
    referred: BTreeMap<String, String>,
    body: OnceLock<Vec<u8>>,
    /// What pipes gave.
    pipes: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Values(***)")
    }
}

impl Values {
    /// Reads all that header fields and variables refer to.
    pub(crate) fn read(scenario: &Scenario) -> Result<Values, Failed> {
        let mut values = Values::default();
        let mut texts = Vec::new();
        scenario.clone().map_telling(|kind, _, text| {
            texts.extend(kind.value(text).map(str::to_owned));
            String::new()
        });
        for text in texts {
            let Some(reference) = Reference::of(&text) else {
                continue;
            };
            let value = match reference {
                Reference::Variable(name) => std::env::var(name).map_err(|_| {
                    Failed::usage(format!("{text}: the variable `{name}` is not set"))
                })?,
                Reference::File(path) => {
                    let source = Source::File(PathBuf::from(path));
                    file::read_text(source, VALUE_BYTES_MAX, file::PATIENCE)
                        .map_err(|error| Failed::usage(format!("{text}: {error}")))?
                        .trim_end_matches(['\r', '\n'])
                        .to_owned()
                }
            };
            values.referred.insert(text, value);
        }
        Ok(values)
    }

    /// The values that were referred to: each is a secret.
    pub(crate) fn secret(&self) -> impl Iterator<Item = &String> {
        self.referred.values()
    }

    /// What a text stands for.
    pub(crate) fn of<'v>(&'v self, text: &'v str) -> &'v str {
        self.referred.get(text).map_or(text, String::as_str)
    }

    /// A file that traffic names. An error names it.
    pub(crate) fn file(&self, path: &Path) -> Result<Vec<u8>, String> {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = pipes.get(path) {
            return Ok(bytes.clone());
        }
        let read = file::read(
            Source::FileOrPipe(path.into()),
            DATA_BYTES_MAX,
            file::PATIENCE,
        );
        let way_out = |error: &Unread| match error {
            Unread::TooLong { .. } => "; split it, or take a part of it",
            _ => "",
        };
        let named = |error: Unread| format!("{}: {error}{}", path.display(), way_out(&error));
        let bytes = read.map_err(named)?;
        if !path.is_file() {
            pipes.insert(path.to_owned(), bytes.clone());
        }
        Ok(bytes)
    }

    fn body(&self, given: &str) -> Result<Vec<u8>, Failed> {
        if let Some(bytes) = self.body.get() {
            return Ok(bytes.clone());
        }
        let bytes = body::bytes(given)?;
        Ok(self.body.get_or_init(|| bytes).clone())
    }
}

#[cfg(test)]
mod tests {
    use wallfinder_model::traffic::{Data, Scalar};

    use super::*;

    #[test]
    fn rows_are_data_and_stay_as_they_are() {
        let mut scenario = Scenario::default();
        let text = |text: &str| Scalar::Text(text.to_owned());
        let row = [
            ("a".to_owned(), text("env:WALLFINDER_IS_NOT_SET")),
            ("b".to_owned(), text(" file:/nowhere ")),
        ];
        let data = Data {
            rows: vec![row.into()],
            ..Data::default()
        };
        scenario.traffic.data = [("users".to_owned(), data)].into();
        let values = Values::read(&scenario).expect("nothing is referred to");
        assert_eq!(values.secret().count(), 0);
        let before = scenario.clone();
        scenario.map_telling(|_, _, text| text.to_owned());
        assert_eq!(scenario, before);
    }

    #[test]
    fn references_are_read_and_other_values_are_what_they_say() {
        let path = std::env::temp_dir().join(format!("wf-value-{}", std::process::id()));
        std::fs::write(&path, "from a file\n").unwrap();
        let mut scenario = Scenario::default();
        let reference = format!("file:{}", path.display());
        scenario.target.headers = vec![format!("X-A: {reference}"), "X-B: plain".into()];
        scenario.programs.env = vec!["C=env:PATH".into(), "D".into()];
        let values = Values::read(&scenario).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(values.of(&reference), "from a file");
        assert_eq!(values.of("plain"), "plain");
        assert_eq!(values.of("env:PATH"), std::env::var("PATH").unwrap());
        assert_eq!(values.secret().count(), 2);
        for missing in ["X: env:WALLFINDER_IS_NOT_SET", "X: file:/nowhere"] {
            scenario.target.headers = vec![missing.to_owned()];
            let failed = Values::read(&scenario).expect_err(missing);
            assert_eq!(failed.code, 2, "{}", failed.message);
        }
    }
}
