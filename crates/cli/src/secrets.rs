//! The secrets of this run, and what is kept of it without them.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde_json::Value;
use wallfinder_model::scenario::Telling;
use wallfinder_model::{Json, Record, Scenario, Step};
use wallfinder_study::{Study, StudyStep};
use wallfinder_testbed::command;
use wallfinder_testbed::redact::Secrets;

use crate::given;
use crate::job::Values;

static OURS: OnceLock<Secrets> = OnceLock::new();

/// Those of this process's command line and environment, and of the study that it runs.
pub(crate) fn ours() -> &'static Secrets {
    OURS.get_or_init(of_this_process)
}

/// A text without the secrets that are known by now: others may still be learned.
pub(crate) fn scrubbed_so_far(text: &str) -> String {
    match OURS.get() {
        Some(secrets) => secrets.scrub(text).into_owned(),
        None => of_this_process().scrub(text).into_owned(),
    }
}

fn of_this_process() -> Secrets {
    let mut secrets = given::secrets(&command_line());
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let variables = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    secrets.add_environment(variables);
    secrets
}

/// Takes in those of a scenario, before anything of it is run or said.
pub(crate) fn learn_scenario(scenario: &Scenario, values: &Values) {
    let mut secrets = of_this_process();
    scenario.clone().map_telling(|kind, _, text| {
        given::add(&mut secrets, kind, text);
        String::new()
    });
    for value in values.secret() {
        secrets.add(value);
    }
    assert!(OURS.set(secrets).is_ok(), "nothing was said before");
}

/// Takes in whatever may be a secret in texts of which nothing else is known.
pub(crate) fn learn_texts<'t>(texts: impl Iterator<Item = &'t str>) {
    let mut secrets = of_this_process();
    for text in texts {
        for kind in [
            Telling::Header,
            Telling::Variable,
            Telling::Url,
            Telling::Command,
        ] {
            given::add(&mut secrets, kind, text);
        }
    }
    assert!(OURS.set(secrets).is_ok(), "nothing was said before");
}

/// A scenario as it may be kept: references stay, and what was given in plain text is `***` where it may be a
/// secret.
pub(crate) fn shown_scenario(scenario: &Scenario) -> Scenario {
    let mut shown = scenario.clone();
    shown.map_telling(|kind, _, text| given::shown(kind, text));
    shown.without(ours()).into_owned()
}

/// Takes in those of a study, before anything of it is run or said.
pub(crate) fn learn(study: &Study, steps: &[StudyStep]) {
    let mut secrets = of_this_process();
    for subject in &study.subjects {
        secrets.add_command(&command::join(&subject.command));
        secrets.add_environment(subject.env.clone());
    }
    for driver in &study.drivers {
        let words: Vec<&String> = [&driver.program]
            .into_iter()
            .chain(&driver.arguments)
            .collect();
        secrets.add_command(&command::join(&words));
        secrets.add_environment(driver.env.clone());
    }
    for (name, value) in steps.iter().flat_map(|step| &step.headers) {
        secrets.add_header(&format!("{name}: {value}"));
    }
    assert!(OURS.set(secrets).is_ok(), "nothing was said before");
}

/// This process's command line as it may be kept.
pub(crate) fn shown_command_line() -> Vec<String> {
    given::without_secrets(&command_line())
}

fn command_line() -> Vec<String> {
    let words = std::env::args_os();
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// What may be kept: the same, with `***` in the place of secrets in all of its texts.
pub(crate) trait Kept: Json + Clone {
    /// Takes over what is not part of its serialised form.
    fn take_rest(&mut self, from: &Self) {
        let _ = from;
    }

    /// Without these secrets.
    fn without(&self, secrets: &Secrets) -> Cow<'_, Self> {
        match scrubbed(self, secrets) {
            None => Cow::Borrowed(self),
            Some(mut scrubbed) => {
                scrubbed.take_rest(self);
                Cow::Owned(scrubbed)
            }
        }
    }
}

impl Kept for wallfinder_model::Plan {}
impl Kept for Scenario {}
impl Kept for wallfinder_model::experiment::Experiment {}

impl Kept for Step {
    fn take_rest(&mut self, from: &Step) {
        self.series.clone_from(&from.series);
    }
}

impl Kept for Record {
    fn take_rest(&mut self, from: &Record) {
        for (step, from) in self.steps.iter_mut().zip(&from.steps) {
            step.take_rest(from);
        }
    }
}

/// `None` where no secret is in it.
fn scrubbed<T: Json>(kept: &T, secrets: &Secrets) -> Option<T> {
    if secrets.is_empty() {
        return None;
    }
    let before: Value = serde_json::from_slice(&kept.to_json().ok()?).ok()?;
    let mut found = Vec::new();
    find(&before, secrets, &mut String::new(), &mut found);
    if found.is_empty() {
        return None;
    }
    let mut after = before.clone();
    for (place, text) in &found {
        set(&mut after, place, text);
    }
    if let Some(scrubbed) = typed(&after) {
        return Some(scrubbed);
    }
    // A secret that is a word of the format itself, such as `closed`, cannot be taken out of that.
    let mut after = before;
    for (place, text) in &found {
        let mut tried = after.clone();
        set(&mut tried, place, text);
        if typed::<T>(&tried).is_some() {
            after = tried;
        }
    }
    typed(&after)
}

fn typed<T: Json>(value: &Value) -> Option<T> {
    T::from_json(&serde_json::to_vec(value).ok()?).ok()
}

fn set(value: &mut Value, place: &str, text: &str) {
    if let Some(found) = value.pointer_mut(place) {
        *found = Value::from(text);
    }
}

/// The places of texts with secrets, as JSON pointers, and the same texts without.
fn find(value: &Value, secrets: &Secrets, place: &mut String, found: &mut Vec<(String, String)>) {
    let len = place.len();
    match value {
        Value::String(text) => {
            if let Cow::Owned(shown) = secrets.scrub(text) {
                found.push((place.clone(), shown));
            }
        }
        Value::Array(values) => {
            for (nth, value) in values.iter().enumerate() {
                place.push_str(&format!("/{nth}"));
                find(value, secrets, place, found);
                place.truncate(len);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                place.push_str(&format!("/{name}"));
                find(value, secrets, place, found);
                place.truncate(len);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "kind", rename_all = "kebab-case")]
    enum Arrival {
        Closed { words: Vec<String>, count: u64 },
    }

    wallfinder_model::kept_as_json!(Arrival);
    impl Kept for Arrival {}

    fn without(secret: &str, words: &[&str]) -> Vec<String> {
        let mut secrets = Secrets::default();
        secrets.add(secret);
        let kept = Arrival::Closed {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            count: 123_456,
        };
        let Arrival::Closed { words, count } = kept.without(&secrets).into_owned();
        assert_eq!(count, 123_456);
        words
    }

    #[test]
    fn texts_are_kept_without_secrets_and_all_else_as_it_is() {
        assert_eq!(
            without("hunter22", &["a hunter22 b", "aHVudGVyMjI=", "c"]),
            ["a *** b", "***=", "c"]
        );
        // A number is none of the line's words, and neither is the name of a field.
        assert_eq!(without("123456", &["123456", "words"]), ["***", "words"]);
        assert_eq!(without("words, words", &["words, words"]), ["***"]);
    }

    #[test]
    fn a_secret_that_is_a_word_of_the_format_leaves_the_format_whole() {
        assert_eq!(
            without("closed", &["closed", "it is closed"]),
            ["***", "it is ***"]
        );
    }
}
