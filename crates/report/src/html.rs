//! A record as one self-contained HTML file: the verdict in words, then the numbers.
//!
//! ```text
//!  Record ──► view  (words and geometry, in Rust) ──► template ──► one file
//!         └─► data  (numbers for the charts)  ──► JSON inside it     ▲
//!  web/ ──(esbuild, by hand)──► assets/report.{js,css} ──────────────┘
//! ```
//!
//! The file asks the network for nothing, and its content security policy forbids it to:
//! only the bundle of this crate may run, named by its hash. Strings of a record reach the
//! page through the template's escaping or as JSON that cannot end its element; the script
//! writes them as text only. Everything but the curves is there without script.

mod data;
mod view;

use minijinja::{AutoEscape, Environment, Value, context};
use wallfinder_model::{Record, Wall};

use crate::cells;
use crate::safe::clean;

const TEMPLATE: &str = include_str!("../assets/report.html.j2");
const SCRIPT: &str = include_str!("../assets/report.js");
const STYLE: &str = include_str!("../assets/report.css");
/// Written beside the bundle by `web/build.sh`: the hashes of both, and of their sources.
const HASHES: &str = include_str!("../assets/HASHES");

/// The page.
pub fn render(record: &Record) -> String {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    // The two that the template uses, of the many that there are.
    environment.add_filter("length", |value: Value| value.len());
    environment.add_filter("replace", |text: String, from: String, to: String| {
        text.replace(&from, &to)
    });
    environment.set_formatter(|out, state, value| {
        // Marks that hide or turn text are escaped in every string of the record.
        match value.as_str() {
            Some(text) if !value.is_safe() => {
                minijinja::escape_formatter(out, state, &Value::from(clean(text)))
            }
            _ => minijinja::escape_formatter(out, state, value),
        }
    });
    let page = view::Page::of(record);
    let charts = match cells::are_all(record) {
        true => data::charts_of_cells(record),
        false => data::charts(record, page.chosen()),
    };
    let data = serde_json::to_string(&charts).unwrap_or_else(|_| "null".to_owned());
    let rendered = environment.render_named_str(
        "report.html",
        TEMPLATE,
        context! {
            page => Value::from(minijinja::value::Serde(&page)),
            data => Value::from_safe_string(for_script_element(&data)),
            script => Value::from_safe_string(SCRIPT.to_owned()),
            style => Value::from_safe_string(STYLE.to_owned()),
            script_hash => Value::from_safe_string(hash("script").to_owned()),
            style_hash => Value::from_safe_string(hash("style").to_owned()),
        },
    );
    match rendered {
        Ok(page) => page,
        // The template is ours and tested; a reader still gets an answer.
        Err(error) => format!(
            "<!doctype html><meta charset=utf-8><title>Wallfinder</title><p>{}",
            minijinja::HtmlEscape(&error.to_string())
        ),
    }
}

/// JSON that cannot end, or open, an element around it.
fn for_script_element(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => safe.push_str("\\u003c"),
            '>' => safe.push_str("\\u003e"),
            '&' => safe.push_str("\\u0026"),
            '\u{2028}' => safe.push_str("\\u2028"),
            '\u{2029}' => safe.push_str("\\u2029"),
            c => safe.push(c),
        }
    }
    safe
}

/// A hash by its name in [`HASHES`].
fn hash(name: &str) -> &'static str {
    HASHES
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(known, _)| *known == name)
        .map_or("", |(_, hash)| hash)
}

/// The style of a resource: server, client, link, or none of them. The words say it too.
fn kind(wall: Wall) -> &'static str {
    match wall {
        Wall::ServerCpu | Wall::ServerSerial | Wall::Backend | Wall::Wait => "server",
        Wall::ClientCpu => "client",
        Wall::Downlink | Wall::Uplink => "link",
        Wall::Concurrency | Wall::OfferedLoad | Wall::CoLimited | Wall::Inconclusive => "neutral",
    }
}
