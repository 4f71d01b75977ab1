//! Pages about sources and results are what they are made of: `WALLFINDER_BLESS=1` writes them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use wallfinder_model::record::Outcome;
use wallfinder_model::{Caveat, Environment, Plan, Record};
use wallfinder_study::pages::{self, Walk};
use wallfinder_study::results::{Cause, Kept};
use wallfinder_study::{SEED, Size, Study, builtin, claims, run};

use crate::double::{Costs, DoubleApparatus};
use crate::files::SMALL;

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

/// Whether a word is a count: `1,226`.
fn is_count(word: &str) -> bool {
    let is_of_one = |byte: u8| byte.is_ascii_digit() || byte == b',';
    !word.is_empty() && word.bytes().all(is_of_one)
}

/// `1,226`.
fn grouped(count: usize) -> String {
    match count {
        0..1_000 => count.to_string(),
        _ => format!("{},{:03}", count / 1_000, count % 1_000),
    }
}

/// A line with this count before its noun, if such a word stands there.
fn with_count(line: &str, noun: &str, count: &str, is_meant: fn(&str) -> bool) -> String {
    let Some((before, after)) = line.split_once(&format!(" {noun}")) else {
        return line.to_owned();
    };
    let (start, word) = before.split_at(before.rfind(' ').map_or(0, |at| at + 1));
    match is_meant(word) {
        true => format!("{start}{count} {noun}{after}"),
        false => line.to_owned(),
    }
}

/// A study's page with its counts put right: minutes and steps behind a command are planned, and steps on a line
/// that begins with the size that was kept are those of that run.
fn restated(page: &str, kept: &Kept) -> String {
    let name = &kept.study;
    let command = format!("wallfinder study run {name} --size ");
    let of_run = format!("`--size {}", kept.size);
    let mut restated = String::new();
    for line in page.lines() {
        let line = if let Some((_, rest)) = line.split_once(&command) {
            let size = rest.split_whitespace().next().unwrap_or_default();
            let size: Size = size.parse().unwrap();
            let mut study = builtin::find(name).unwrap().study().unwrap();
            if !rest.contains("--with ") {
                study.keep_parts(&[]).unwrap();
            }
            let minutes = format!("{:.0}", study.duration(size).0 as f64 / 60e9);
            let line = with_count(line, "minutes", &minutes, |_| true);
            with_count(&line, "steps", &grouped(study.expand(size).len()), is_count)
        } else if line.starts_with(&of_run) {
            with_count(line, "steps", &grouped(kept.steps as usize), is_count)
        } else {
            line.to_owned()
        };
        restated.push_str(&line);
        restated.push('\n');
    }
    restated
}

/// Whether a page says how many minutes something took, other than a command.
fn tells_minutes(page: &str) -> bool {
    let of_command = |line: &&str| line.contains("wallfinder study run");
    let lines = page.lines().filter(|line| !of_command(line));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    words
        .windows(2)
        .any(|pair| is_count(pair[0]) && pair[1].starts_with("minutes"))
}

/// Lines with a command of a large size, and a remark that does not say in digits how many minutes it takes.
fn without_minutes(page: &str) -> Vec<&str> {
    let is_long = |line: &str| line.contains("--size demo") || line.contains("--size full");
    let is_without = |line: &str| match line.split_once('#') {
        Some((command, remark)) if is_long(command) => {
            let words: Vec<&str> = remark.split_whitespace().collect();
            !words
                .windows(2)
                .any(|pair| is_count(pair[0]) && pair[1].starts_with("minutes"))
        }
        _ => false,
    };
    page.lines().filter(|line| is_without(line)).collect()
}

#[test]
fn pages_of_studies_state_the_counts_of_the_plan_and_of_the_kept_run() {
    let kept = kept();
    let mut stale = Vec::new();
    for (name, page) in texts("docs/studies", "md") {
        let Some(kept) = kept.iter().find(|kept| kept.study == name) else {
            continue;
        };
        let path = format!("docs/studies/{name}.md");
        if !is_current(&path, &restated(&page, kept)) {
            stale.push(format!("{path}: minutes or steps"));
        }
        for line in without_minutes(&page) {
            stale.push(format!("{path}: no minutes, in digits: {line}"));
        }
        if tells_minutes(&page) {
            stale.push(format!("{path}: nothing keeps how many minutes a run took"));
        }
    }
    assert!(
        stale.is_empty(),
        "{stale:#?}; WALLFINDER_BLESS=1 puts counts right"
    );
}

#[test]
fn counts_on_a_page_are_put_right_and_other_words_left() {
    let study = builtin::find("lock").unwrap().study().unwrap();
    let minutes = (study.duration(Size::Full).0 as f64 / 60e9).round();
    let steps = grouped(study.expand(Size::Full).len());
    let kept = Kept {
        study: "lock".to_owned(),
        steps: 1_226,
        ..with_claims("")
    };
    let page = "wallfinder study run lock --size full # twenty-five minutes, 7 steps\n\
                `--size full` here: 135 steps.\nIts steps are 3 steps.\n";
    let right = format!(
        "wallfinder study run lock --size full # {minutes} minutes, {steps} steps\n\
         `--size full` here: 1,226 steps.\nIts steps are 3 steps.\n"
    );
    assert_eq!(restated(page, &kept), right);
    assert_eq!(restated(&right, &kept), right);
    assert!(!tells_minutes(page) && tells_minutes("135 steps in 10\nminutes."));
    assert_eq!(without_minutes(page).len(), 1);
    assert!(without_minutes(&right).is_empty());
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
fn a_walk_that_leaves_something_out_is_found_out() {
    let text = r#"
        source = "a.txt"
        title = "A"
        lines = 5
        says_nothing = ["2", "6-7"]

        [[sentence]]
        lines = "1"
        says = "So"
        claims = ["lock/nothing"]

        [[sentence]]
        lines = "3-4"
        says = "And so"
        remark = "Seen"
    "#;
    let walk = Walk::parse("a.toml", text).unwrap();
    let faults = walk.faults(&studies());
    let expected = [
        "a.txt: there are no lines 6-7",
        "a.txt: no sentence has line 5",
        "a.txt, lines 1: there is no claim `lock/nothing`",
        "a.txt, lines 3-4: neither a claim nor a reason",
    ];
    assert_eq!(faults, expected);
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
             tool = \"t\"\nmachine = \"m\"\nsteps = 1\nas_run = true\n{claims}"
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
    // It is not known of everything whether it was asked before it was run.
    let unknown = Kept {
        as_run: false,
        ..earlier.clone()
    };
    let now = kept(&[], "2026-11-02").beside(&unknown, whole);
    let run = "full, 2026-11-01, asked then or later";
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

/// What is kept of a study with these claims, by a version that did not say whether they were asked before.
fn with_claims(claims: &str) -> Kept {
    let text = format!(
        "schema = \"wallfinder.results/1\"\nstudy = \"small\"\nsize = \"full\"\ndate = \"2026-11-01\"\n\
         tool = \"t\"\nmachine = \"m\"\nsteps = 1\n{claims}"
    );
    Kept::parse("kept.toml", &text).unwrap()
}

/// The small study with one more claim.
fn two_claims() -> String {
    format!(
        r#"{SMALL}
[[claim]]
id = "answers"
claim = "It answers"
source = "a page, line 4"
let.top = 'best("simple", "engine")'
confirmed = 'top.throughput > 1'
contradicted = 'top.throughput < 1'
because = '{{top.throughput | rate}}/s'
"#
    )
}

/// What a run of a study measures at 2,000 answers a second, with these doubts of its first step.
fn recorded(study: &Study, doubts: &[Caveat]) -> Record {
    let mut apparatus = DoubleApparatus::new(|_| Costs {
        client_us: 0.5,
        server_us: 500.0,
    });
    let mut steps = run(study, Size::Smoke, &mut apparatus).steps;
    steps[0].caveats.extend_from_slice(doubts);
    let judged = claims::judge(study, Size::Smoke, &steps, &[]);
    Record {
        schema: wallfinder_model::record::SCHEMA.to_owned(),
        id: "20261101T000000Z-small-smoke".to_owned(),
        started_utc: "2026-11-01T00:00:00Z".to_owned(),
        tool_version: "0.1.0".to_owned(),
        command_line: Vec::new(),
        scenario: None,
        plan: Plan {
            name: "small-smoke".to_owned(),
            command: "study".to_owned(),
            target: steps[0].target.clone(),
            steps: Vec::new(),
            seed: SEED,
            client_cpus: vec![1],
            server_cpus: vec![0],
            subject: None,
            driver: None,
            link: None,
            effort: None,
            study: None,
        },
        environment: Environment::default(),
        server_environment: None,
        steps,
        caveats: Vec::new(),
        complete: true,
        interrupted: None,
        ab: None,
        sizes: None,
        claims: judged.outcomes,
        charts: Vec::new(),
    }
}

#[test]
fn a_condition_that_was_changed_after_the_run_has_no_outcome_of_it() {
    let text = two_claims();
    let as_run = Study::parse("my.toml", &text).unwrap();
    let kept = [Kept::of(&as_run, Size::Smoke, &recorded(&as_run, &[]))];
    assert!(kept[0].as_run);
    let page = |text: &str, kept: &[Kept]| {
        let today = Study::parse("my.toml", text).unwrap();
        pages::results(&[today], kept)
    };
    // Asked alike: both are the claims' own, however many rounds there are by now, and however long.
    let longer = text.replace("window = \"1s\"", "window = \"2s\"\nrounds = 6");
    assert_ne!(longer, text);
    for text in [&text, &longer] {
        let same = page(text, &kept);
        assert!(same.contains("| 4 | 2, 0, 0 | 0 | 0 |"), "{same}");
        assert!(!same.contains("earlier: "), "{same}");
    }
    // By the new condition the same data would leave it open.
    let changed = page(
        &text.replace("throughput > 1000", "throughput > 3000"),
        &kept,
    );
    assert!(changed.contains("| 4 | 1, 0, 0 | 1 | 0 |"), "{changed}");
    assert_eq!(changed.matches("earlier: ").count(), 1, "{changed}");
    assert!(
        changed.contains("earlier: ✓ confirmed | 2,000/s"),
        "{changed}"
    );
    assert!(
        changed.contains("steps. Asked as it was then."),
        "{changed}"
    );
    // Of what earlier versions kept it is not known.
    let unknown = "Whether it was asked before it was run was not kept.";
    assert!(!changed.contains(unknown), "{changed}");
    let before = Kept {
        as_run: false,
        ..kept[0].clone()
    };
    let before = page(&text, &[before]);
    assert!(before.contains(unknown), "{before}");
}

#[test]
fn what_nobody_disturbed_is_counted_apart() {
    let study = Study::parse("my.toml", SMALL).unwrap();
    for (doubt, cause) in [
        (
            Caveat::NotSteady {
                ratio: 0.7,
                at_ns: 500_000_000,
            },
            Cause::Unsteady,
        ),
        (Caveat::LittleMismatch { ratio: 1.3 }, Cause::Misfit),
        (
            Caveat::RelayBehind {
                delay_ns: 500_000,
                dropped: 1,
                late_p99_ns: 0,
                busy_share: 0.1,
            },
            Cause::Relay,
        ),
    ] {
        let kept = Kept::of(&study, Size::Smoke, &recorded(&study, &[doubt]));
        assert_eq!(kept.claims[0].cause, Some(cause));
        assert_eq!(Kept::parse("again.toml", &kept.text()).unwrap(), kept);
        let page = pages::results(std::slice::from_ref(&study), &[kept]);
        for known in Cause::ALL {
            let row = format!("| {} | {} | 0 |", known.label(), u8::from(known == cause));
            assert!(page.contains(&row), "{row}: {page}");
        }
    }
}

#[test]
fn causes_of_earlier_files_are_told_apart_by_their_reasons() {
    for (reason, cause) in [
        (
            "was disturbed: throughput changed to 0.70 × in its window; else: 5",
            Cause::Unsteady,
        ),
        (
            "was disturbed: N/X is 1.30 × its latency; else: 5",
            Cause::Misfit,
        ),
        (
            "was disturbed: others used 0.60 cores of the client's processors; else: 5",
            Cause::Disturbed,
        ),
        ("has no such reason", Cause::Disturbed),
    ] {
        let kept = with_claims(&format!(
            "[[claim]]\nid = \"a\"\noutcome = \"open\"\ncause = \"disturbed\"\n\
             numbers = \"`s/engine/c1` {reason}\"\nasked = \"0\"\n"
        ));
        assert_eq!(kept.claims[0].cause, Some(cause), "{reason}");
    }
}
