//! Checksums of what steps depend on beside their study and their machine, in the run's folder:
//!
//! ```text
//!  study.sums:  4f0c… run          this build of the tool, --env, --as, and the hosts of both sides
//!               91ab… catalogue    a program, or a file that a command names: its length and its time
//! ```
//!
//! A program that is missing in one of two runs has no steps in it, and is not compared.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use wallfinder_model::scenario::Programs;
use wallfinder_study::Study;
use wallfinder_testbed::programs::{find_driver, find_subject};

use crate::secrets;

/// The file in a run's folder.
pub(super) const SUMS: &str = "study.sums";

/// The line of what is no program.
const RUN: &str = "run";

/// The file's text, as it may be kept.
pub(super) fn sums(study: &Study, programs: &Programs) -> String {
    let tool = of_file(Path::new("/proc/self/exe"));
    let hosts = format!("{:?}", study.hosts);
    let run = hash((tool, hosts, &programs.as_user, of_secrets(&programs.env)));
    let mut sums = BTreeMap::from([(RUN.to_owned(), run)]);
    let mut add = |program: &str, found: Option<&Path>, words: &[String]| {
        let words = words.iter().map(|word| (word.as_str(), Path::new(word)));
        let files = found.map(|found| (program, found)).into_iter().chain(words);
        for (name, file) in files {
            sums.extend(of_file(file).map(|sum| (name.to_owned(), sum)));
        }
    };
    for subject in &study.subjects {
        if let Some((program, words)) = subject.command.split_first() {
            let found = find_subject(program).ok();
            add(program, found.as_ref().map(|found| &*found.path), words);
        }
    }
    for driver in study.drivers.iter().filter(|driver| !driver.is_engine()) {
        let found = find_driver(&driver.program).ok();
        add(&driver.program, found.as_deref(), &driver.arguments);
    }
    let lines = sums
        .iter()
        .map(|(name, sum)| format!("{sum:016x} {name}\n"));
    secrets::scrubbed_so_far(&lines.collect::<String>())
}

/// Whether what two runs have in common is the same, by the texts of their files.
pub(super) fn are_alike(one: &str, other: &str) -> bool {
    let (one, other) = (read(one), read(other));
    let is_same = |name: &&str| {
        other
            .get(*name)
            .is_none_or(|sum| one.get(*name) == Some(sum))
    };
    one.contains_key(RUN) && other.contains_key(RUN) && one.keys().all(is_same)
}

fn read(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(sum, name)| (name, sum)).collect()
}

/// Of a plain file its length, and when it was written.
fn of_file(path: &Path) -> Option<u64> {
    let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some(hash((found.len(), found.mtime(), found.mtime_nsec())))
}

/// Of variables, which may be secrets: so short that it tells nobody what they are.
fn of_secrets(variables: &[String]) -> u16 {
    let told = variables.iter().map(|given| match given.contains('=') {
        true => (given.as_str(), None),
        // A name alone passes on what this process has.
        false => (given.as_str(), std::env::var_os(given)),
    });
    hash(told.collect::<Vec<_>>()) as u16
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use wallfinder_study::builtin;

    use super::*;

    fn of(study: &Study, as_user: Option<&str>, env: &[&str]) -> String {
        let programs = Programs {
            as_user: as_user.map(str::to_owned),
            env: env.iter().map(|given| (*given).to_owned()).collect(),
        };
        sums(study, &programs)
    }

    #[test]
    fn runs_with_other_variables_another_user_or_other_hosts_are_not_alike() {
        let mut study = builtin::find("lock").unwrap().study().unwrap();
        let plain = of(&study, None, &[]);
        assert!(are_alike(&plain, &of(&study, None, &[])));
        let with = of(&study, None, &["TOKEN=hunter22"]);
        assert!(!with.contains("hunter22"), "{with}");
        for other in [
            with.as_str(),
            &of(&study, Some("nobody"), &[]),
            &of(&study, None, &["HOME"]),
            "",
        ] {
            assert!(!are_alike(&plain, other), "{other}");
            assert!(!are_alike(other, &plain), "{other}");
        }
        study.hosts.server = Some("ssh://root@b".to_owned());
        assert!(!are_alike(&plain, &of(&study, None, &[])));
    }

    #[test]
    fn a_program_that_changed_is_told_and_one_that_was_missing_is_not_compared() {
        let before = "1 run\n2 catalogue\n";
        assert!(are_alike(before, "1 run\n2 catalogue\n3 wrk\n"));
        assert!(are_alike("1 run\n2 catalogue\n3 wrk\n", before));
        assert!(!are_alike(before, "1 run\n4 catalogue\n"));
        assert!(!are_alike(before, "5 run\n2 catalogue\n"));
        let own = std::env::current_exe().unwrap();
        let mut study = builtin::find("lock").unwrap().study().unwrap();
        study.subjects[0].command = vec![own.display().to_string(), "/no/such/file".to_owned()];
        let text = of(&study, None, &[]);
        assert!(text.contains(&*own.to_string_lossy()), "{text}");
        assert!(!text.contains("/no/such"), "{text}");
    }
}
