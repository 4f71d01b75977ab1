//! Stands in for the tool in tests: the hidden subcommand, and parents to be killed.
//!
//! ```text
//!  stage_helper __child …            as the tool does it
//!  stage_helper parent COMMAND…      starts a subject, prints its pid, sleeps
//! ```

#![forbid(unsafe_code)]

use std::io::Write;
use std::time::Duration;

use wallfinder_stage::child;
use wallfinder_stage::subject::{Subject, SubjectSpec};

fn main() {
    let mut args = std::env::args_os().skip(1);
    match args.next().as_deref().and_then(|arg| arg.to_str()) {
        Some(child::SUBCOMMAND) => {
            if let Err(error) = child::enter(args) {
                eprintln!("wallfinder: {error}");
                std::process::exit(127);
            }
        }
        Some("parent") => {
            let mut words: Vec<String> = args.filter_map(|arg| arg.into_string().ok()).collect();
            let port = words.pop().and_then(|port| port.parse().ok());
            let mut spec = SubjectSpec::new(words.join(" "));
            spec.expect_port = port;
            let subject = Subject::start(spec).expect("a subject");
            println!("{}", subject.pid());
            std::io::stdout().flush().expect("a reader");
            std::thread::sleep(Duration::from_secs(60));
        }
        _ => std::process::exit(2),
    }
}
