//! Writes synthetic records to look at: `sample_report FOLDER` writes a page, the text, the
//! document and the tables of each; `sample_report` prints the text.

#[path = "../tests/sample/mod.rs"]
mod sample;

use std::path::PathBuf;

use wallfinder_report::text::{self, Paths};
use wallfinder_report::{Look, csv, html, json};

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    for (name, record) in sample::all() {
        let run = format!("runs/{}", record.id);
        let page = format!("{run}/report.html");
        let paths = Paths {
            record: Some(&run),
            report: Some(&page),
        };
        let shown = text::record(&record, &paths, &Look::default());
        let Some(folder) = &folder else {
            println!("──── {name}\n{shown}");
            continue;
        };
        std::fs::create_dir_all(folder)?;
        let write = |ending: &str, text: String| {
            std::fs::write(folder.join(format!("{name}.{ending}")), text)
        };
        write("txt", shown)?;
        write("json", json::document(&record))?;
        write("csv", csv::steps(&record))?;
        write("intervals.csv", csv::intervals(&record))?;
        write("html", html::render(&record))?;
    }
    Ok(())
}
