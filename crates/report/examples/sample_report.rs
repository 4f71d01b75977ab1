//! Prints synthetic records as text, to look at: `cargo run --example sample_report [NAME]`.

#[path = "../tests/sample/mod.rs"]
mod sample;

use wallfinder_report::Look;
use wallfinder_report::text::{self, Paths};

fn main() {
    let wanted = std::env::args().nth(1);
    for (name, record) in sample::all() {
        if wanted.as_deref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        println!("──── {name}");
        let folder = format!("runs/{}", record.id);
        let page = format!("{folder}/report.html");
        let paths = Paths {
            record: Some(&folder),
            report: Some(&page),
        };
        print!("{}", text::record(&record, &paths, &Look::default()));
    }
}
