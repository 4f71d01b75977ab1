//! The HTML page: self-contained, escaped, complete, and built from the sources beside it.

mod sample;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use wallfinder_report::html;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

fn asset(name: &str) -> String {
    std::fs::read_to_string(format!("{CRATE}/assets/{name}")).unwrap()
}

fn recorded(name: &str) -> String {
    let hashes = asset("HASHES");
    let mut lines = hashes.lines().filter_map(|line| line.split_once(' '));
    lines
        .find(|(known, _)| *known == name)
        .unwrap()
        .1
        .to_owned()
}

/// The text between a start and the next end.
fn between<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let from = text.find(start).unwrap() + start.len();
    &text[from..from + text[from..].find(end).unwrap()]
}

#[test]
fn the_bundle_is_that_of_its_sources() {
    let web = format!("{CRATE}/web");
    let mut names: Vec<String> = ["build.mjs", "package.json", "package-lock.json"]
        .map(String::from)
        .to_vec();
    for entry in std::fs::read_dir(format!("{web}/src")).unwrap() {
        names.push(format!(
            "src/{}",
            entry.unwrap().file_name().to_string_lossy()
        ));
    }
    names.sort_unstable();
    let mut hash = Sha256::new();
    for name in names {
        let bytes = std::fs::read(format!("{web}/{name}")).unwrap();
        hash.update(format!("{name} {}\n", bytes.len()));
        hash.update(bytes);
    }
    let hex: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(recorded("sources"), hex, "run crates/report/web/build.sh");
}

#[test]
fn only_the_bundle_may_run_and_nothing_may_be_fetched() {
    for (name, record) in sample::all() {
        let page = html::render(&record);
        let policy = between(&page, "Content-Security-Policy\" content=\"", "\">");
        assert!(
            policy.starts_with("default-src 'none'; "),
            "{name}: {policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        for (kind, file, element) in [
            ("script", "report.js", "<script>"),
            ("style", "report.css", "<style>"),
        ] {
            let end = element.replace('<', "</");
            let inside = between(&page, element, &end);
            assert_eq!(inside, asset(file), "{name}");
            let hash = STANDARD.encode(Sha256::digest(inside));
            assert_eq!(recorded(kind), format!("sha256-{hash}"));
            assert!(
                policy.contains(&format!("{kind}-src 'sha256-{hash}'")),
                "{policy}"
            );
        }
        for fetched in [
            " src=",
            "@import",
            "url(http",
            "url(//",
            "<link rel=\"stylesheet",
        ] {
            let ours = page.replace(&asset("report.js"), "");
            // As text it may stand there.
            let ours = ours
                .replace("&lt;img src=", "")
                .replace("\\u003cimg src=", "");
            assert!(!ours.contains(fetched), "{name}: {fetched}");
        }
    }
}

#[test]
fn hostile_labels_stay_text() {
    let page = html::render(&sample::hostile());
    let ours = page
        .replace(&asset("report.js"), "")
        .replace(&asset("report.css"), "");
    assert!(!ours.contains("<img"), "markup from a label");
    assert!(!ours.contains("onerror=alert(1)>"), "markup from a label");
    assert!(!ours.contains("13420337"), "a label was run as a template");
    assert!(ours.contains("{{7*1917191}}"));
    assert!(!ours.contains('\u{202e}') && !ours.contains('\u{1b}'));
    assert_eq!(ours.matches("</script").count(), 2);
    let json = between(&page, "id=\"data\">", "</script>");
    assert!(!json.contains('<') && !json.contains('>') && !json.contains('&'));
    let data: serde_json::Value = serde_json::from_str(json).unwrap();
    let name = data["steps"][0]["name"].as_str().unwrap();
    assert!(name.starts_with("</script><img src=x onerror=alert(1)>"));
}

#[test]
fn the_answer_is_in_the_page_without_script() {
    let page = html::render(&sample::seven_steps());
    let without = page.replace(between(&page, "id=\"data\">", "</script>"), "");
    for text in [
        "The downlink",
        "observed · confidence 0.85",
        "28,207",
        "server CPU",
        "Be careful",
        "p99.99",
        "AMD EPYC 7B13",
        "--connections 1,2,4,8,32,100,500",
        "knee at",
    ] {
        assert!(without.contains(text), "{text}");
    }
}

/// The page without its data and its bundle.
fn words(page: &str) -> String {
    let page = page.replace(between(page, "id=\"data\">", "</script>"), "");
    page.replace(&asset("report.js"), "")
        .replace(&asset("report.css"), "")
}

#[test]
fn the_squeezes_are_in_the_page_without_script() {
    let page = words(&html::render(&sample::proved()));
    for text in [
        "proved · 10 rounds · 2 min 49 s",
        "<h2 id=\"proof-title\">The squeezes</h2>",
        "80 % left: 80 % of the throughput",
        "<b class=\"tag next\">next</b>",
        "in force in 10 of 10",
        "A&#x2f;A",
        "Little&#x27;s law",
        "A closed loop offers what the server takes.",
        "half the bytes",
        "downlink squeezed by 20 %: ",
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!words(&html::render(&sample::seven_steps())).contains("id=\"proof\""));
    let observed = words(&html::render(&sample::observed()));
    assert!(
        observed.contains("could matter"),
        "what is missing is marked"
    );
    assert!(observed.contains("outcome failed"), "a gate failed");
}

#[test]
fn two_settings_are_in_the_page_without_script() {
    let page = words(&html::render(&sample::ab()));
    assert!(
        page.contains(
            "<h1 id=\"headline\">B answers 2.05 × as many requests as A [2.04, 2.06]</h1>"
        )
    );
    assert!(page.contains("[0.994, 1.004]"), "intervals");
    assert!(page.contains("round 6: A "), "each round");
    assert!(!page.contains("id=\"load\""), "rounds are no ramp");
    let page = words(&html::render(&sample::settings(
        &sample::READ,
        &sample::READ,
        6,
        4,
    )));
    assert!(page.contains("Not compared: only 2 rounds have both settings"));
}

/// Pictures hold numbers only: what a record says cannot place or style anything.
#[test]
fn pictures_have_no_holes() {
    for (name, record) in sample::all() {
        let page = words(&html::render(&record));
        for bad in ["NaN", "\"inf", "none%", "undefined", " style=\""] {
            assert!(!page.contains(bad), "{name}: {bad}");
        }
    }
}

#[test]
fn hostile_squeezes_and_settings_stay_text() {
    for record in [sample::hostile_find(), sample::hostile_ab()] {
        let page = html::render(&record);
        let ours = page
            .replace(&asset("report.js"), "")
            .replace(&asset("report.css"), "");
        assert!(!ours.contains("<img"), "markup from a label");
        assert!(!ours.contains("13420337"), "a label was run as a template");
        assert!(!ours.contains('\u{202e}') && !ours.contains('\u{1b}'));
        assert_eq!(ours.matches("</script").count(), 2);
    }
}

#[test]
fn sections_without_data_are_left_out() {
    let page = html::render(&sample::empty());
    for id in [
        "id=\"load\"",
        "id=\"latency\"",
        "id=\"time\"",
        "id=\"steps\"",
    ] {
        assert!(!page.contains(id), "{id}");
    }
    assert!(page.contains("Nothing was measured"));
    let page = html::render(&sample::interrupted());
    assert!(page.contains("The run was interrupted (SIGINT)"));
    assert!(!page.contains("<div class=\"charts many\""));
    let page = html::render(&sample::study());
    assert!(
        page.contains("<h1 id=\"headline\">3 claims: 1 confirmed, 1 contradicted, 1 open</h1>")
    );
}

#[test]
fn headings_are_in_order_and_ids_are_distinct() {
    for (name, record) in sample::all() {
        let page = html::render(&record);
        assert_eq!(page.matches("<h1").count(), 1, "{name}");
        let mut ids: Vec<&str> = page
            .split(" id=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "{name}");
        for target in page.split("href=\"#").skip(1) {
            let target = target.split('"').next().unwrap();
            assert!(ids.binary_search(&target).is_ok(), "{name}: #{target}");
        }
    }
}

#[test]
fn forty_steps_stay_below_a_megabyte() {
    assert!(html::render(&sample::forty_steps()).len() < 1_000_000);
}

#[test]
fn a_studys_cells_are_drawn_once_for_all_their_rounds() {
    let page = html::render(&sample::cells());
    assert!(page.contains("Cell by cell"));
    // A row for each of twelve cells, and none for their 36 steps.
    let table = &page[page.find("Table of cells").unwrap()..];
    let table = &table[..table.find("</table>").unwrap()];
    assert_eq!(table.matches("<th scope=\"row\"").count(), 12);
    assert!(!page.contains("Each step"));
    // Latency against size for each number of clients, and against clients for each size.
    let (against, by_percentile) = page.split_once("<details class=\"curves\">").unwrap();
    assert_eq!(against.matches("class=\"panel\"").count(), 2 + 3);
    // By percentile, the groups side by side in each of six places.
    assert_eq!(by_percentile.matches("class=\"panel\"").count(), 2 * 3);
    let one = &by_percentile[by_percentile.find("class=\"panel\"").unwrap()..];
    let one = &one[..one.find("</svg>").unwrap()];
    assert_eq!(one.matches("class=\"line\"").count(), 2, "{one}");
    // The chooser: a map for each of three measures.
    assert_eq!(page.matches("class=\"best\"").count(), 3);
}
