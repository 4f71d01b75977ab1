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
    opened_with(place, chromium, size, |page| page, acts)
}

/// The same of a page in which something was changed.
fn opened_with(
    place: &Place,
    chromium: &PathBuf,
    size: &str,
    change: impl Fn(String) -> String,
    acts: &str,
) -> Value {
    let file = place.last_run().join("report.html");
    // As it is, its own policy lets its own script run.
    let drawn = dom(place, chromium, size, &file);
    assert!(drawn.contains("data-script=\"\""), "{drawn:.400}");
    // The copy's lets any.
    let page = change(fs::read_to_string(file).expect("a page"));
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

/// What a reader has at hand in a page with stacks. Rows are those of icicles, the whole in row 0;
/// places in them are shares of the width.
const STACKS: &str = "
    const figure = document.querySelector('figure[data-chart=flame]');
    const plot = figure.querySelector('.plot');
    const readout = () => figure.querySelector('.readout').textContent;
    const control = (name) => figure.querySelector(`[name=flame-${name}]`);
    const set = (name, value) => {
        control(name).value = value;
        control(name).onchange();
    };
    const press = (key) => {
        plot.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
        return readout();
    };
    const point = (place, row) => {
        const canvas = plot.querySelector('canvas');
        const { left, top, width } = canvas.getBoundingClientRect();
        const [clientX, clientY] = [left + place * width, top + row * 19 + 9];
        canvas.dispatchEvent(new PointerEvent('pointermove', { clientX, clientY }));
        return readout();
    };";

/// Walks into the first box, zooms, goes back, searches.
const FLAMES: &str = "
    const flame = JSON.parse(document.getElementById('data').textContent).flames[0];
    told.name = flame.names[flame.nodes[0][2]];
    told.share = flame.nodes[0][1] / flame.total;
    told.walked = press('ArrowDown');
    told.right = [point(0.998, 1)];
    press('Enter');
    told.right.push(point(0.998, 1));
    press('Escape');
    told.right.push(point(0.998, 1));
    const search = control('search');
    search.value = told.name;
    search.oninput();
    told.found = readout();
    search.value = '';
    set('measure', 'request');
    told.each = press('ArrowDown');";

#[test]
fn flames_are_walked_zoomed_and_searched() {
    let _turn = busily();
    let (Some(chromium), Some(_)) = (chromium(), subjects()) else {
        return;
    };
    let acts = format!("{STACKS}{FLAMES}");
    // On a busy machine a short profile may have one stack and no other: then a longer one.
    let (mut place, mut told) = (Place::new(), Value::Null);
    for span in ["1s", "3s", "9s"] {
        place = Place::new();
        profiled(&place, span);
        told = opened(&place, &chromium, "1280,900", &acts);
        if told["share"].as_f64() < Some(1.0) {
            break;
        }
    }
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
    // For each request it has what the record says, as fine as three figures are.
    let step = place.step();
    let profiles = &step["profiles"];
    let number = |value: &Value| value.as_f64().unwrap();
    let readings = profiles["readings"].as_array().unwrap();
    let mut readings = readings.iter();
    let cpu = readings.find(|reading| reading["kind"] == "cpu").unwrap();
    let windows = number(&cpu["duration_ns"]) / number(&profiles["window_ns"]);
    let answered = number(&profiles["answered"]) * windows;
    let each_ns = number(json_at(cpu, "/tree/0/value")) / answered;
    let each = text("/each");
    let said = each.strip_prefix(&begins).expect("of the same function");
    let (said, _) = said.split_once(" each request, ").expect("a number");
    let ratio = nanoseconds(said) / each_ns;
    assert!((0.99..1.01).contains(&ratio), "{said} is not {each_ns} ns");
}

/// A server of ours with its profiles, in a page.
fn profiled(place: &Place, span: &str) {
    let args = [
        "profile",
        "--subject",
        "catalogue",
        "http://subject:0/read",
        "-q",
    ];
    let load = ["-c", "8", "-d", span, "--no-calibrate"];
    place.run(&[&args[..], &load].concat()).ends_with(0);
}

/// `12.3 µs` in nanoseconds.
fn nanoseconds(span: &str) -> f64 {
    let (number, unit) = span.split_once(' ').expect("a number and its unit");
    let size = match unit {
        "ns" => 1.0,
        "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => panic!("no unit of time: {span}"),
    };
    number.parse::<f64>().expect("a number") * size
}

/// Stacks as a page holds them: depth, value and name of each node.
fn stacks(kind: &str, total: i64, answered: u32, nodes: &[(u32, i64, &str)]) -> Value {
    let names: Vec<&str> = nodes.iter().map(|(_, _, name)| *name).collect();
    let nodes = nodes.iter().zip(0..);
    let nodes: Vec<(u32, i64, u32)> = nodes
        .map(|((depth, value, _), name)| (*depth, *value, name))
        .collect();
    serde_json::json!({
        "title": kind, "kind": kind, "unit": "nanoseconds", "total": total,
        "answered": answered, "names": names, "nodes": nodes,
    })
}

/// A page whose first stacks are these.
fn with_stacks(page: &str, stacks: &[Value]) -> String {
    let (before, rest) = page.split_once("id=\"data\">").expect("a page has data");
    let (data, after) = rest.split_once("</script>").expect("which end");
    let mut data: Value = serde_json::from_str(data).expect("and are JSON");
    let flames = data["flames"].as_array_mut().expect("stacks");
    assert!(flames.len() >= stacks.len(), "there are as many to choose");
    flames[..stacks.len()].clone_from_slice(stacks);
    let data = data.to_string().replace('<', "\\u003c");
    format!("{before}id=\"data\">{data}</script>{after}")
}

/// Sets one beside the other, in both measures and both shapes.
const BESIDE: &str = "
    const colour = (place, row) => {
        const canvas = plot.querySelector('canvas');
        const [x, y] = [place * canvas.width, (row * 19 + 1.5) * devicePixelRatio];
        return [...canvas.getContext('2d').getImageData(x, y, 1, 1).data];
    };
    const boxes = () => [[0.25, 2], [0.65, 2], [0.93, 2], [0.965, 2], [0.25, 0]].map((at) => point(...at));
    const lines = () => [...figure.querySelectorAll('.only p')].map((line) => line.textContent);
    set('of', '0');
    told.enabled = [...control('beside').options].filter((one) => !one.disabled).map((one) => one.value);
    set('beside', '1');
    told.shares = boxes();
    told.colours = { fresh: colour(0.65, 2), small: colour(0.93, 2) };
    told.only = lines();
    set('measure', 'request');
    told.each = boxes();
    set('shape', 'flame');
    told.upwards = [point(0.25, 0), point(0.25, 1), point(0.25, 2)];
    told.up = press('ArrowUp');
    set('of', '1');
    set('beside', '0');
    set('shape', 'icicle');
    told.other = point(0.6, 2);
    set('of', '2');
    told.alone = { beside: control('beside').value, only: lines() };
    set('of', '0');
    set('beside', '3');
    told.older = [point(0.65, 2), point(0.93, 2)];";

/// What is not in a tree may be new, or too small for it: the page says which.
#[test]
fn stacks_beside_others_are_told_from_what_is_too_small() {
    let _turn = busily();
    let (Some(chromium), Some(_)) = (chromium(), subjects()) else {
        return;
    };
    let place = Place::new();
    profiled(&place, "1s");
    let now = [
        (0, 900, "main.main"),
        (1, 500, "main.kept"),
        (1, 300, "main.fresh"),
        (0, 100, "runtime.all"),
        (1, 60, "runtime.small"),
        (1, 10, "(smaller)"),
        (0, 0, "(smaller)"),
    ];
    let then = [
        (0, 1500, "main.main"),
        (1, 1000, "main.kept"),
        (1, 400, "main.gone"),
        (0, 300, "runtime.all"),
        (1, 200, "runtime.huge"),
        (1, 80, "(smaller)"),
        (0, 0, "(smaller)"),
    ];
    // Of a record that does not say what its tree leaves out.
    let older = [
        (0, 1500, "main.main"),
        (1, 1420, "main.kept"),
        (0, 300, "runtime.all"),
        (1, 180, "runtime.huge"),
    ];
    let flames = [
        stacks("cpu", 1000, 10, &now),
        stacks("cpu", 2000, 40, &then),
        stacks("block", 2000, 40, &then),
        stacks("cpu", 2000, 40, &older),
    ];
    let acts = format!("{STACKS}{BESIDE}");
    let change = |page: String| with_stacks(&page, &flames);
    let told = opened_with(&place, &chromium, "1280,900", change, &acts);
    assert_eq!(
        told["enabled"],
        serde_json::json!(["", "1", "3"]),
        "of the same kind: {told:#}"
    );
    assert_eq!(
        told["shares"],
        serde_json::json!([
            "main.kept: 50 %, 50 % beside it",
            "main.fresh: 30 %, nothing beside it",
            "runtime.small: 6 %, at most 4 % beside it",
            "(smaller): 1 %, of functions that are too small to be drawn",
            "all: 100 %, 100 % beside it",
        ])
    );
    // Red is what is new; what is not told is no colour at all.
    let hue = |name: &str| {
        let channel = |nth: usize| told["colours"][name][nth].as_i64().unwrap();
        channel(0) - channel(2)
    };
    assert!(hue("fresh") > 40, "{told:#}");
    assert!(hue("small").abs() < 12, "{told:#}");
    assert_eq!(
        told["only"],
        serde_json::json!([
            "Only beside it: main.gone in main.main, 20 %.",
            "More beside it: runtime.huge in runtime.all, 10 % there and at most 1 % here.",
        ])
    );
    assert_eq!(
        told["each"],
        serde_json::json!([
            "main.kept: 50 ns each request, 25 ns beside it",
            "main.fresh: 30 ns each request, nothing beside it",
            "runtime.small: 6 ns each request, at most 2 ns beside it",
            "(smaller): 1 ns each request, of functions that are too small to be drawn",
            "all: 100 ns each request, 50 ns beside it",
        ])
    );
    // Flames have callers below.
    let begin = |pointer: &str, name: &str| {
        let text = json_at(&told, pointer).as_str().unwrap();
        assert!(text.starts_with(&format!("{name}: ")), "{told:#}");
    };
    begin("/upwards/0", "main.kept");
    begin("/upwards/1", "main.main");
    begin("/upwards/2", "all");
    begin("/up", "main.main");
    // The other way round.
    assert_eq!(
        told["other"],
        "main.gone: 10 ns each request, nothing beside it"
    );
    assert_eq!(told["alone"]["beside"], "", "nothing is of its kind");
    assert_eq!(told["alone"]["only"], serde_json::json!([]));
    assert_eq!(
        told["older"],
        serde_json::json!([
            "main.fresh: 30 ns each request, at most 2 ns beside it",
            "runtime.small: 6 ns each request, at most 3 ns beside it",
        ])
    );
}
