//! The report's script in a real browser: what it draws, and what it does when somebody clicks.
//!
//! The browser opens a copy of a page in which a script of the test stands behind the page's own,
//! does what a reader would do, and leaves what it saw in the document, which is read back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wallfinder_tests::{Double, Place, busily, json_at, program, skip, subjects, together};

/// What the script of a test starts with: errors are kept, and `told` is what comes back.
const WATCH: &str = "<script>window.told = { errors: [] };
addEventListener('error', (event) => told.errors.push(event.message));</script>";

/// What is in the document once the page of a file has been open for a while.
fn dom(place: &Place, chromium: &PathBuf, size: &str, file: &Path) -> String {
    let profile = place.path().join("profile");
    let out = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu"])
        .arg(format!("--window-size={size}"))
        .arg("--virtual-time-budget=5000")
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("the browser runs");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Opens the page of the last run in a window of this size, and does in it what `acts` says; what
/// it leaves in `told`.
fn opened(place: &Place, chromium: &PathBuf, size: &str, acts: &str) -> Value {
    let file = place.last_run().join("report.html");
    // As it is, its own policy lets its own script run.
    let drawn = dom(place, chromium, size, &file);
    assert!(drawn.contains("data-script=\"\""), "{drawn:.400}");
    // The copy's lets any.
    let page = fs::read_to_string(file).expect("a page");
    let (before, policy) = page.split_once("script-src '").expect("a policy");
    let (_, after) = policy.split_once('\'').expect("a hash");
    let page = format!("{before}script-src 'unsafe-inline'{after}");
    let head = page.replacen("<head>", &format!("<head>{WATCH}"), 1);
    let (before, after) = head.rsplit_once("</body>").expect("a page has a body");
    // After the page has drawn itself, which it does once the layout is known.
    let acts = format!(
        "<script>addEventListener('load', () => setTimeout(async () => {{ try {{ {acts} }} catch (error) \
         {{ told.errors.push(String(error)); }}
         const pre = document.createElement('pre'); pre.id = 'told'; \
         pre.textContent = JSON.stringify(told); document.body.append(pre); }}, 500));</script>"
    );
    let copy = place.file("opened.html", format!("{before}{acts}</body>{after}"));
    let shown = dom(place, chromium, size, &copy);
    let told = shown
        .split_once("<pre id=\"told\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"))
        .unwrap_or_else(|| panic!("the script of the test did not end: {shown:.2000}"));
    let json = told
        .0
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    let told: Value = serde_json::from_str(&json).expect("what was told is JSON");
    assert_eq!(told["errors"], serde_json::json!([]), "{told:#}");
    told
}

fn chromium() -> Option<PathBuf> {
    let found = program("chromium");
    if found.is_none() {
        skip("chromium is not installed");
    }
    found
}

/// What a reader has at hand in a page with steps.
const STEPS: &str = "
    const plots = [...document.querySelectorAll('figure[data-chart] .plot')];
    told.charts = plots.length;
    told.drawn = plots.filter((plot) => plot.querySelector('canvas')).length;
    told.sideways = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    told.readouts = plots.map((plot) => {
        plot.focus();
        plot.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
        return plot.closest('figure').querySelector('.readout').textContent;
    });
    const drawn = () => new Promise((resolve) => setTimeout(resolve, 100));
    const drawing = () => document.querySelector('figure[data-chart=time-throughput] canvas').toDataURL();
    const select = document.getElementById('step');
    const rows = [...document.querySelectorAll('tr[data-step]')];
    const choose = (row) => {
        row.click();
        return { step: select.value, rows: rows.filter((one) => one.matches('.chosen')).map((one) => one.dataset.step) };
    };
    told.chosen = [choose(rows[0])];
    await drawn();
    const first = drawing();
    told.chosen.push(choose(rows[1]));
    await drawn();
    told.is_another = drawing() !== first;
    location.hash = '#step-0';
    dispatchEvent(new HashChangeEvent('hashchange'));
    told.opened = document.getElementById('step-0').open;";

#[test]
fn charts_are_drawn_and_follow_what_is_chosen_on_a_desk_and_in_a_hand() {
    let _turn = together();
    let Some(chromium) = chromium() else {
        return;
    };
    let (place, double) = (Place::new(), Double::plain());
    let args = ["ramp", &double.url("/"), "--connections", "1,3", "-q"];
    let short = ["-d", "600ms", "--warmup", "100ms", "--no-calibrate"];
    place.run(&[&args[..], &short].concat()).ends_with(0);
    for size in ["1280,900", "500,900"] {
        let told = opened(&place, &chromium, size, STEPS);
        assert!(told["charts"].as_u64() > Some(3), "{told:#}");
        assert_eq!(told["charts"], told["drawn"], "{told:#}");
        assert_eq!(told["sideways"], 0, "{size}: nothing hangs over: {told:#}");
        let readouts = told["readouts"].as_array().unwrap();
        let said = |readout: &&Value| !readout.as_str().unwrap().is_empty();
        assert_eq!(
            readouts.iter().filter(said).count(),
            readouts.len(),
            "{told:#}"
        );
        for (nth, step) in ["0", "1"].into_iter().enumerate() {
            let chosen = &told["chosen"][nth];
            assert_eq!(chosen["step"], step, "{told:#}");
            assert_eq!(chosen["rows"], serde_json::json!([step]), "{told:#}");
        }
        assert_eq!(
            told["is_another"], true,
            "the other step's picture: {told:#}"
        );
        assert_eq!(told["opened"], true, "{told:#}");
    }
}

/// Walks into the first box, zooms, goes back, searches. What is pointed at is at the right end of the
/// first row.
const FLAMES: &str = "
    const flame = JSON.parse(document.getElementById('data').textContent).flames[0];
    const figure = document.querySelector('figure[data-chart=flame]');
    const plot = figure.querySelector('.plot');
    const readout = () => figure.querySelector('.readout').textContent;
    const press = (key) => {
        plot.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
        return readout();
    };
    const point = () => {
        const canvas = plot.querySelector('canvas');
        const { left, top, width } = canvas.getBoundingClientRect();
        canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: left + width - 2, clientY: top + 28 }));
        return readout();
    };
    told.name = flame.names[flame.nodes[0][2]];
    told.share = flame.nodes[0][1] / flame.total;
    told.walked = press('ArrowDown');
    told.right = [point()];
    press('Enter');
    told.right.push(point());
    press('Escape');
    told.right.push(point());
    const search = figure.querySelector('[name=flame-search]');
    search.value = told.name;
    search.oninput();
    told.found = readout();
    const measure = figure.querySelector('[name=flame-measure]');
    search.value = '';
    measure.value = 'request';
    measure.onchange();
    told.each = press('ArrowDown');";

#[test]
fn flames_are_walked_zoomed_and_searched() {
    let _turn = busily();
    let (Some(chromium), Some(_)) = (chromium(), subjects()) else {
        return;
    };
    let place = Place::new();
    let args = [
        "profile",
        "--subject",
        "catalogue",
        "http://subject:0/read",
        "-q",
    ];
    let short = ["-c", "8", "-d", "1s", "--no-calibrate"];
    place.run(&[&args[..], &short].concat()).ends_with(0);
    let told = opened(&place, &chromium, "1280,900", FLAMES);
    let text = |pointer: &str| json_at(&told, pointer).as_str().unwrap().to_owned();
    let begins = format!("{}: ", text("/name"));
    assert!(text("/walked").starts_with(&begins), "{told:#}");
    assert!(
        told["share"].as_f64() < Some(1.0),
        "one box of several: {told:#}"
    );
    // Zoomed, the box reaches the right end; before and after, another one stands there.
    assert!(!text("/right/0").starts_with(&begins), "{told:#}");
    assert!(text("/right/1").starts_with(&begins), "{told:#}");
    assert_eq!(text("/right/0"), text("/right/2"), "{told:#}");
    assert!(
        text("/found").starts_with(&format!("“{}”: ", text("/name").to_lowercase())),
        "{told:#}"
    );
    assert!(text("/each").contains("each request"), "{told:#}");
}
