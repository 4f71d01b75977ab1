//! Pages about sources and results are what they are made of: `WALLFINDER_BLESS=1` writes them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use wallfinder_model::record::Outcome;
use wallfinder_study::pages::{self, Walk};
use wallfinder_study::results::Kept;
use wallfinder_study::{Size, Study, builtin};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files of a folder below the root with this ending, by name.
fn texts(folder: &str, ending: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let wanted = paths.filter(|path| path.extension().is_some_and(|found| found == ending));
    let mut texts: Vec<(String, String)> = wanted
        .map(|path| {
            let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (stem, fs::read_to_string(&path).unwrap())
        })
        .collect();
    texts.sort();
    texts
}

fn studies() -> Vec<Study> {
    let all = builtin::ALL.iter();
    all.map(|builtin| builtin.study().unwrap()).collect()
}

fn walks() -> Vec<(String, Walk)> {
    let files = texts("studies/sources", "toml").into_iter();
    files
        .map(|(name, text)| {
            let walk = Walk::parse(&format!("studies/sources/{name}.toml"), &text);
            let walk = walk.unwrap_or_else(|error| panic!("{error}"));
            (name, walk)
        })
        .collect()
}

fn kept() -> Vec<Kept> {
    let files = texts("studies/results", "toml").into_iter();
    files
        .map(|(name, text)| {
            let kept = Kept::parse(&format!("studies/results/{name}.toml"), &text);
            let kept = kept.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(kept.study, name, "a file has its study's name");
            kept
        })
        .collect()
}

/// A page of the documentation is as it is made.
fn is_current(page: &str, made: &str) -> bool {
    let path = root().join(page);
    if std::env::var_os("WALLFINDER_BLESS").is_some() {
        fs::write(&path, made).unwrap();
    }
    fs::read_to_string(&path).unwrap_or_default() == made
}

#[test]
fn pages_are_what_they_are_made_of() {
    let (studies, kept) = (studies(), kept());
    let mut stale = Vec::new();
    for (name, walk) in walks() {
        let page = format!("docs/studies/sources/{name}.md");
        if !is_current(&page, &walk.page(&studies, &kept)) {
            stale.push(page);
        }
    }
    let results = "docs/studies/results.md";
    if !is_current(results, &pages::results(&studies, &kept)) {
        stale.push(results.to_owned());
    }
    assert!(
        stale.is_empty(),
        "{stale:?} are not what they are made of; WALLFINDER_BLESS=1 writes them"
    );
    let walked: BTreeSet<String> = walks().into_iter().map(|(name, _)| name).collect();
    let shown = texts("docs/studies/sources", "md").into_iter();
    assert_eq!(shown.map(|(name, _)| name).collect::<BTreeSet<_>>(), walked);
}

#[test]
fn each_sentence_is_tried_or_has_a_reason_and_each_claim_tries_one() {
    let studies = studies();
    let walks = walks();
    let faults: Vec<String> = walks
        .iter()
        .flat_map(|(_, walk)| walk.faults(&studies))
        .collect();
    assert_eq!(faults, Vec::<String>::new());
    let named: BTreeSet<&str> = walks
        .iter()
        .flat_map(|(_, walk)| &walk.sentences)
        .flat_map(|sentence| &sentence.claims)
        .map(String::as_str)
        .collect();
    let mut missing = Vec::new();
    for study in &studies {
        for claim in &study.claims {
            let name = format!("{}/{}", study.id, claim.id);
            // What nobody claimed is our own question.
            let is_ours = claim.source.starts_with("Wallfinder")
                || claim.source.starts_with("the plan's")
                || claim.source.contains("the plan's");
            let is_control = claim.source.starts_with("the control");
            if !named.contains(name.as_str()) && !is_ours && !is_control {
                missing.push(name);
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new(), "on no page of a source");
}

#[test]
fn a_walk_with_a_claim_that_there_is_not_is_found_out() {
    let text = "source = \"a.txt\"\ntitle = \"A\"\n\n[[sentence]]\nlines = \"1\"\nsays = \"So\"\n\
                claims = [\"lock/nothing\"]\n\n[[sentence]]\nlines = \"2\"\nsays = \"And so\"\n";
    let walk = Walk::parse("a.toml", text).unwrap();
    let faults = walk.faults(&studies());
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].contains("there is no claim `lock/nothing`"));
    assert!(faults[1].contains("neither a claim nor a reason"));
}

#[test]
fn kept_results_are_of_claims_that_there_were_and_survive_writing() {
    let studies = studies();
    for kept in kept() {
        let study = studies.iter().find(|study| study.id == kept.study);
        assert!(study.is_some(), "{}", kept.study);
        assert!(kept.size.parse::<Size>().is_ok(), "{}", kept.size);
        assert_eq!(Kept::parse("again.toml", &kept.text()).unwrap(), kept);
        for claim in &kept.claims {
            // What was taken from a page may lack the cause.
            let is_open = claim.outcome == Outcome::Open;
            let is_told = claim.cause.is_some() || kept.from.is_some();
            let id = &claim.id;
            assert!(
                if is_open {
                    is_told
                } else {
                    claim.cause.is_none()
                },
                "{}/{id}",
                kept.study
            );
        }
    }
}

#[test]
fn a_run_without_a_part_leaves_what_was_kept_of_it() {
    let studies = studies();
    let whole = studies.iter().find(|study| study.id == "size-sweep");
    let whole = whole.unwrap();
    let id_of = |has_part: bool| {
        let found = whole.claims.iter().find(|claim| {
            claim.part.is_some() == has_part && claim.for_each.is_empty() && !claim.is_by_figures()
        });
        found.unwrap().id.clone()
    };
    let (of_part, plain) = (id_of(true), id_of(false));
    let kept = |ids: &[&String], date: &str| {
        let claims: String = ids
            .iter()
            .map(|id| format!("[[claim]]\nid = \"{id}\"\noutcome = \"confirmed\"\nasked = \"0\"\n"))
            .collect();
        let text = format!(
            "schema = \"wallfinder.results/1\"\nstudy = \"size-sweep\"\nsize = \"full\"\ndate = \"{date}\"\n\
             tool = \"t\"\nmachine = \"m\"\nsteps = 1\n{claims}"
        );
        Kept::parse("kept.toml", &text).unwrap()
    };
    let earlier = kept(&[&of_part, &plain], "2026-11-01");
    let now = kept(&[], "2026-11-02").beside(&earlier, whole);
    assert_eq!(now.claims.len(), 1, "{now:?}");
    assert_eq!(now.claims[0].id, of_part);
    assert_eq!(now.claims[0].run.as_deref(), Some("full, 2026-11-01"));
    // Another machine and another tool are told of.
    let elsewhere = Kept {
        tool: "wallfinder 0.0.9".to_owned(),
        machine: "96 processors".to_owned(),
        ..earlier.clone()
    };
    let now = kept(&[], "2026-11-02").beside(&elsewhere, whole);
    let run = "full, 2026-11-01, by wallfinder 0.0.9, on 96 processors";
    assert_eq!(now.claims[0].run.as_deref(), Some(run));
    // What the run has itself stands.
    let own = kept(&[&of_part], "2026-11-02").beside(&earlier, whole);
    assert_eq!(own.claims[0].run, None);
}

#[test]
fn what_is_asked_changes_with_a_condition_and_with_a_group_and_not_with_its_window() {
    let text = crate::files::SMALL;
    let asked = |text: &str| {
        let study = Study::parse("my.toml", text).unwrap();
        study.asked(&study.claims[0], Size::Smoke)
    };
    let same = asked(text);
    assert_eq!(
        asked(&text.replace("window = \"1s\"", "window = \"2s\"")),
        same
    );
    for changed in [
        text.replace("throughput < 500", "throughput < 400"),
        text.replace("path = \"/simple\"", "path = \"/other\""),
        text.replace(
            "confirmed = ",
            "needs = 'top.client.hosts > 1'\nconfirmed = ",
        ),
    ] {
        assert_ne!(changed, text);
        assert_ne!(asked(&changed), same);
    }
}
