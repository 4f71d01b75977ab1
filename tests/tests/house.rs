//! The rules of the house that a compiler does not check: who may depend on whom, where
//! `unsafe` may stand, that links in the documentation lead somewhere, and that its pages stay short.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use wallfinder_model::Record;
use wallfinder_model::scenario::Scenario;
use wallfinder_model::traffic::Traffic;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace is above this crate")
        .to_owned()
}

/// What each crate may depend on, of ours. `dev-dependencies` count as well: a test that
/// reaches across is an edge too.
fn allowed() -> BTreeMap<&'static str, &'static [&'static str]> {
    BTreeMap::from([
        ("model", &[][..]),
        ("wire", &[]),
        ("sys", &[]),
        ("engine", &["wire", "sys", "model"]),
        ("probe", &["sys", "model"]),
        ("testbed", &["sys", "probe", "model"]),
        ("store", &["sys", "model"]),
        ("judge", &["model"]),
        ("report", &["judge", "model"]),
        ("scenario", &["model"]),
        ("traffic", &["scenario", "wire", "model"]),
        ("protocol", &["wire", "model"]),
        (
            "hosts",
            &[
                "protocol", "engine", "probe", "testbed", "wire", "sys", "model",
            ],
        ),
        ("hub", &["hosts", "protocol", "testbed", "sys"]),
        ("study", &["judge", "model", "scenario"]),
        (
            "conduct",
            &[
                "engine", "hosts", "probe", "testbed", "store", "judge", "wire", "sys", "model",
            ],
        ),
    ])
}

fn dependencies(manifest: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(manifest).unwrap();
    let manifest: toml::Table = toml::from_str(&text).unwrap();
    let sections = ["dependencies", "dev-dependencies", "build-dependencies"];
    let tables = sections.iter().filter_map(|&section| {
        let table = manifest.get(section)?.as_table()?;
        Some(table.keys().map(move |name| (section, name)))
    });
    tables
        .flatten()
        // How tests skip: theirs alone.
        .filter(|named| *named != ("dev-dependencies", &"wallfinder-skip".to_owned()))
        .filter_map(|(_, name)| name.strip_prefix("wallfinder-"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn crates_depend_only_on_what_they_may() {
    let allowed = allowed();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // The binary glues everything together.
        if name == "cli" || !path.is_dir() {
            continue;
        }
        let may = allowed
            .get(name.as_str())
            .unwrap_or_else(|| panic!("crate `{name}` has no line in this test"));
        for dependency in dependencies(&path.join("Cargo.toml")) {
            assert!(
                may.contains(&dependency.as_str()),
                "`{name}` must not depend on `{dependency}`"
            );
        }
    }
}

/// Flags become a scenario in one place: a command that makes load knows nothing else.
#[test]
fn commands_that_make_load_see_no_flags() {
    let cli = root().join("crates/cli/src");
    for name in [
        "bench.rs",
        "exchange.rs",
        "listening.rs",
        "order.rs",
        "squeezing.rs",
        "testbed.rs",
        "tls.rs",
        "commands/ab.rs",
        "commands/bytes.rs",
        "commands/find.rs",
        "commands/lift.rs",
        "commands/load.rs",
    ] {
        let text = fs::read_to_string(cli.join(name)).unwrap();
        assert!(!text.contains("flags::"), "{name} sees flags");
    }
}

/// The hot path and what only computes have no log.
#[test]
fn events_are_logged_by_crates_that_decide() {
    let mut log = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        let Ok(manifest) = fs::read_to_string(path.join("Cargo.toml")) else {
            continue;
        };
        let manifest: toml::Table = toml::from_str(&manifest).unwrap();
        let dependencies = manifest["dependencies"].as_table();
        if dependencies.is_some_and(|dependencies| dependencies.contains_key("tracing")) {
            log.insert(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    let decide = ["cli", "conduct", "hosts", "hub", "testbed"].map(str::to_owned);
    assert_eq!(log, BTreeSet::from(decide));
}

/// Files with one of these endings below a folder, without what was built or fetched.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap_or_default();
            let skipped = ["target", "node_modules", "runs", "bin", ".git"];
            if path.is_dir() && !skipped.contains(&name) && !path.is_symlink() {
                folders.push(path);
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn unsafe_stands_in_sys_alone() {
    for path in files(&root().join("crates"), &[".rs"]) {
        if path.starts_with(root().join("crates/sys")) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            // What stands in quotes is text, such as a content security policy.
            let code: String = code.split('"').step_by(2).collect();
            let word = code
                .split(|c: char| !(c.is_alphanumeric() || c == '_'))
                .any(|word| word == "unsafe");
            assert!(!word, "{}:{}: unsafe code", path.display(), number + 1);
        }
    }
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(manifest.contains("unsafe_code = \"forbid\""));
}

/// What they may not use is clippy's to find (`crates/clippy.toml`); here, that they ask it to.
#[test]
fn sans_io_crates_deny_themselves_sockets_files_threads_and_clocks() {
    let crates = root().join("crates");
    assert!(crates.join("clippy.toml").is_file());
    for file in [
        "model/src/lib.rs",
        "wire/src/lib.rs",
        "judge/src/lib.rs",
        "probe/src/parse/mod.rs",
        "scenario/src/lib.rs",
        "traffic/src/lib.rs",
    ] {
        let text = fs::read_to_string(crates.join(file)).unwrap();
        for lint in ["macros", "methods", "types"] {
            let denied = text.split("#![cfg_attr(").any(|attribute| {
                let attribute = attribute.split(")]").next().unwrap_or_default();
                attribute.contains("not(test)")
                    && attribute.contains("deny(")
                    && attribute.contains(&format!("clippy::disallowed_{lint}"))
            });
            assert!(denied, "{file} must deny clippy::disallowed_{lint}");
        }
    }
    for folder in [
        "model",
        "wire",
        "judge",
        "scenario",
        "traffic",
        "probe/src/parse",
    ] {
        for path in files(&crates.join(folder), &[".rs"]) {
            let text = fs::read_to_string(&path).unwrap();
            assert!(
                !text.contains("allow(clippy::disallowed"),
                "{}: an exception",
                path.display()
            );
        }
    }
}

/// Where code looks into the words of a verdict, of its evidence or of a doubt: what it has, and what it does.
fn looks_into_words(code: &str) -> Vec<String> {
    /// Ways to look into a text.
    const LOOKS: [&str; 8] = [
        ".contains(",
        ".starts_with(",
        ".ends_with(",
        ".strip_prefix(",
        ".strip_suffix(",
        ".eq_ignore_ascii_case(",
        "==",
        "!=",
    ];
    /// Texts that were made of a verdict.
    const WORDS: [&str; 11] = [
        "said::verdict(",
        "said::below_heading(",
        "said::made_of(",
        "said::detail(",
        "said::fact(",
        "said::caveat(",
        "verdict.sentence",
        "verdict.made_of",
        "evidence.text",
        "worded.fact",
        ".detail.as_deref()",
    ];
    let lines = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""));
    let tight: String = lines.flat_map(str::split_whitespace).collect();
    let mut found: Vec<String> = Vec::new();
    for look in LOOKS {
        for (at, _) in tight.match_indices(look) {
            let begin = tight[..at]
                .rfind([';', '{', '}'])
                .map_or(0, |begin| begin + 1);
            let held = &tight[begin..at];
            if WORDS.iter().any(|words| held.contains(words)) {
                found.push(format!("{held}{look}"));
            }
        }
    }
    for note in ["Caveat::Note{text}iftext", "Caveat::Incomplete{what}ifwhat"] {
        found.extend(tight.contains(note).then(|| note.to_owned()));
    }
    found
}

#[test]
fn nothing_matches_on_the_words_of_a_verdict() {
    for (code, looks) in [
        ("if said::fact(&e.fact).contains(\"idle\") {}", true),
        (
            "verdict\n    .detail\n    .as_deref()\n    == Some(\"phases\")",
            true,
        ),
        ("let why = verdict.sentence.strip_prefix(\"Not \");", true),
        (
            "matches!(c, Caveat::Note { text } if text.contains(\"x\"))",
            true,
        ),
        ("let text = said::fact(&e.fact);", false),
        (
            "matches!(verdict.detail, Some(Detail::Phases)) && a == b",
            false,
        ),
    ] {
        assert_eq!(!looks_into_words(code).is_empty(), looks, "{code}");
    }
    for home in [
        "crates/judge",
        "crates/report",
        "crates/cli",
        "crates/conduct",
        "crates/study",
        "walls",
    ] {
        for path in files(&root().join(home).join("src"), &["rs"]) {
            let text = fs::read_to_string(&path).unwrap();
            let inner = path.strip_prefix(root()).unwrap_or(&path);
            let is_test = |part: &std::ffi::OsStr| part.to_string_lossy().starts_with("tests");
            if inner.iter().any(is_test) {
                continue;
            }
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or("");
            let found = looks_into_words(code);
            assert!(
                found.is_empty(),
                "{} looks into words: {found:?}. Sentences are for readers; match on the typed reason, detail, \
                 fact or caveat instead, and add a variant where one is missing.",
                path.display()
            );
        }
    }
}

#[test]
fn who_measures_or_judges_words_no_doubt() {
    for home in ["judge", "conduct", "hosts", "testbed", "probe", "engine"] {
        for path in files(&root().join("crates").join(home).join("src"), &["rs"]) {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or("");
            let is_worded = ["Caveat::Note {\n", "Caveat::Note { text"];
            assert!(
                !is_worded.iter().any(|written| code.contains(written)),
                "{}: a doubt is a variant of Caveat, which report::said words",
                path.display()
            );
        }
    }
}

#[test]
fn no_module_is_a_drawer_for_odds_and_ends() {
    for path in files(&root().join("crates"), &[".rs"]) {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        assert!(
            !["common", "util", "utils", "helpers", "shared_util", "misc"].contains(&stem),
            "{}: name it by what it holds",
            path.display()
        );
    }
}

#[test]
fn every_module_says_what_it_is() {
    for path in files(&root().join("crates"), &[".rs"]) {
        if !path.components().any(|part| part.as_os_str() == "src") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with("//!"),
            "{}: begin with what this module is",
            path.display()
        );
    }
}

#[test]
fn links_in_the_documentation_lead_somewhere() {
    for path in files(&root(), &[".md"]) {
        let text = fs::read_to_string(&path).unwrap();
        let folder = path.parent().unwrap();
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            assert!(
                folder.join(file).exists(),
                "{}: the link to {target} leads nowhere",
                path.display()
            );
        }
    }
}

/// Names that headings of a page have in links, as GitHub makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut times = BTreeMap::<String, u32>::new();
    let mut is_code = false;
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        // Of a link its text counts.
        let text: String = heading
            .split("](")
            .enumerate()
            .map(|(at, part)| match at {
                0 => part,
                _ => part.split_once(')').map_or("", |(_, rest)| rest),
            })
            .collect();
        let name: String = text
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | ' '))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let before = times.entry(name.clone()).or_default();
        found.insert(match *before {
            0 => name,
            again => format!("{name}-{again}"),
        });
        *before += 1;
    }
    found
}

#[test]
fn links_to_headings_lead_to_headings() {
    for path in files(&root(), &[".md"]) {
        let text = fs::read_to_string(&path).unwrap();
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let Some((file, anchor)) = target.split_once('#') else {
                continue;
            };
            let page = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            if target.contains("://") || page.extension().is_none_or(|ending| ending != "md") {
                continue;
            }
            let page = fs::read_to_string(&page).unwrap_or_default();
            assert!(
                anchors(&page).contains(anchor),
                "{}: the link to {target} finds no heading of that name",
                path.display()
            );
        }
    }
}

/// Pages that somebody here wrote, from the root: none of a fuzzer's corpus, none of a tool that was fetched, none
/// that is made of data.
fn pages() -> BTreeMap<String, usize> {
    let root = root();
    let mut pages = BTreeMap::new();
    for path in files(&root, &[".md"]) {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
        let is_ours =
            !name.starts_with("fuzz/") && !name.split('/').any(|part| part.starts_with('.'));
        let text = fs::read_to_string(&path).unwrap();
        if is_ours && !text.starts_with(wallfinder_study::pages::MADE) {
            pages.insert(name.to_owned(), text.split_whitespace().count());
        }
    }
    pages
}

#[test]
fn pages_keep_their_budget_of_words() {
    let budgets: toml::Table =
        toml::from_str(&fs::read_to_string(root().join("docs/budgets.toml")).unwrap()).unwrap();
    let in_all = budgets["in_all"].as_integer().unwrap();
    let budgets: BTreeMap<&str, i64> = budgets["pages"]
        .as_table()
        .unwrap()
        .iter()
        .map(|(page, words)| (page.as_str(), words.as_integer().unwrap()))
        .collect();
    let pages = pages();
    assert!(pages.contains_key("README.md"), "no page was found");

    let mut wrong = Vec::new();
    for (page, &words) in &pages {
        match budgets.get(page.as_str()) {
            None => wrong.push(format!("{page} has {words} words and no budget")),
            Some(&budget) if words as i64 > budget => wrong.push(format!(
                "{page} has {words} words, {} over its budget of {budget}",
                words as i64 - budget
            )),
            Some(_) => {}
        }
    }
    for page in budgets.keys().filter(|page| !pages.contains_key(**page)) {
        wrong.push(format!("{page} has a budget, and is not there"));
    }
    let sum: i64 = budgets.values().sum();
    if sum > in_all || in_all > 45_000 {
        wrong.push(format!(
            "budgets come to {sum} words; {in_all} is the most, and that at most 45000"
        ));
    }
    assert!(
        wrong.is_empty(),
        "docs/budgets.toml: a page says each thing once, and links to the rest:\n  {}",
        wrong.join("\n  ")
    );
}

/// What `wallfinder schema` prints is written from the types, which the tool itself does not carry for that.
#[test]
fn the_published_schemas_are_current() {
    let schemas = [
        ("record-2.json", of_records()),
        ("scenario.json", schemars::schema_for!(Scenario).to_value()),
        ("traffic.json", schemars::schema_for!(Traffic).to_value()),
        ("study.json", wallfinder_study::schema().to_value()),
    ];
    for (name, schema) in schemas {
        let (path, text) = (root().join("schemas").join(name), format!("{schema:#}\n"));
        if std::env::var_os("WALLFINDER_BLESS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "schemas/{name} is not what the types give; WALLFINDER_BLESS=1 writes it"
        );
    }
}

/// Of what is written: words stand in it that are never read.
fn of_records() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<Record>();
    let mut schema = schema.to_value();
    allow_unknown(&mut schema);
    schema["$id"] = json!("urn:wallfinder:record:2");
    schema["title"] = json!("Wallfinder record");
    schema
}

/// Lets `null` stand for a fraction that is not finite.
fn allow_unknown(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("type") == Some(&json!("number")) {
                fields.insert("type".into(), json!(["number", "null"]));
            }
            fields.values_mut().for_each(allow_unknown);
        }
        Value::Array(items) => items.iter_mut().for_each(allow_unknown),
        _ => {}
    }
}
