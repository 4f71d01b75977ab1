//! The log: what was decided, when and why, on standard error, where `-v` or `WALLFINDER_LOG` asks for it.
//!
//! Events come from the crates that decide something: `testbed`, `conduct` and this one. Engine, wires, judge and
//! report have none, so workers and samplers never log. Secrets are taken out, and nothing acts on a terminal.

use std::ffi::OsStr;
use std::io::{self, Write};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::time::uptime;
use tracing_subscriber::layer::SubscriberExt;

use crate::exit::Failed;
use crate::output;

const VARIABLE: &str = "WALLFINDER_LOG";
/// What begins the name of every crate of ours.
const OURS: &str = "wallfinder";
/// Crates that log.
const CRATES: [&str; 3] = [OURS, "wallfinder_conduct", "wallfinder_testbed"];

/// Begins to log, where it is asked for: at this count of `-v`, or else as the environment has it.
pub(crate) fn start(verbose: u8) -> Result<(), Failed> {
    let given = std::env::var_os(VARIABLE);
    let Some(targets) = targets(verbose, given.as_deref())? else {
        return Ok(());
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_timer(uptime())
        .with_writer(|| Lines);
    let subscriber = tracing_subscriber::registry().with(targets).with(lines);
    tracing::subscriber::set_global_default(subscriber).map_err(Failed::run)
}

/// Whether anything is logged.
pub(crate) fn is_on() -> bool {
    LevelFilter::current() != LevelFilter::OFF
}

/// What is logged; `None`: nothing.
fn targets(verbose: u8, given: Option<&OsStr>) -> Result<Option<Targets>, Failed> {
    let ours = |level| Some(Targets::new().with_target(OURS, level));
    match (verbose, given) {
        (0, None) => Ok(None),
        (0, Some(filter)) if filter.is_empty() => Ok(None),
        (0, Some(filter)) => filtered(filter).map(Some),
        (1, _) => Ok(ours(LevelFilter::INFO)),
        (_, _) => Ok(ours(LevelFilter::DEBUG)),
    }
}

fn filtered(filter: &OsStr) -> Result<Targets, Failed> {
    let bad = |why: String| {
        Failed::usage(format!(
            "{VARIABLE} is `{}`: {why}. Write a level (error, warn, info, debug, trace, off), or crates with \
             levels, such as wallfinder_testbed=debug,wallfinder_conduct=info; they are {}",
            filter.to_string_lossy(),
            CRATES.join(", ")
        ))
    };
    let text = filter
        .to_str()
        .ok_or_else(|| bad("it is no UTF-8".to_owned()))?;
    let targets: Targets = text
        .parse()
        .map_err(|_| bad("it is no filter".to_owned()))?;
    // A misspelt level would be taken for the name of a crate, and nothing logged.
    for (target, _) in &targets {
        let name = target.split("::").next().unwrap_or_default();
        if !CRATES.contains(&name) {
            return Err(bad(format!(
                "`{name}` is neither a level nor a crate that logs"
            )));
        }
    }
    Ok(targets)
}

/// Where events go, each by one call.
struct Lines;

impl Write for Lines {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        output::log(&String::from_utf8_lossy(event));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    fn of(verbose: u8, filter: Option<&str>) -> Result<Option<Targets>, Failed> {
        targets(verbose, filter.map(OsStr::new))
    }

    #[test]
    fn nothing_is_logged_by_default() {
        for filter in [None, Some("")] {
            assert!(of(0, filter).unwrap().is_none(), "{filter:?}");
        }
        let off = of(0, Some("off")).unwrap().unwrap();
        assert!(!off.would_enable("wallfinder_testbed", &Level::ERROR));
    }

    #[test]
    fn more_of_v_logs_more_and_wins_over_the_environment() {
        let testbed = "wallfinder_testbed::subject";
        for (verbose, filter, logs_details) in [
            (1, None, false),
            (1, Some("debug"), false),
            (2, None, true),
            (3, Some("off"), true),
            (0, Some("info"), false),
            (0, Some("debug"), true),
            (0, Some("wallfinder=debug"), true),
            (0, Some("warn,wallfinder_testbed::subject=debug"), true),
        ] {
            let targets = of(verbose, filter).unwrap().unwrap();
            let logs = |level| targets.would_enable(testbed, level);
            let case = format!("{verbose} {filter:?}");
            assert_eq!(logs(&Level::DEBUG), logs_details, "{case}");
            assert!(logs(&Level::INFO), "{case}");
        }
        let one = of(0, Some("wallfinder_conduct=debug")).unwrap().unwrap();
        assert!(!one.would_enable(testbed, &Level::ERROR));
    }

    #[test]
    fn a_bad_filter_is_refused_with_the_way_out() {
        for filter in [
            "loud",
            "wallfinder_testbed=loud",
            "wallfinder_stage=debug",
            "a=b=c",
            "hyper",
        ] {
            let failed = of(0, Some(filter)).unwrap_err();
            assert_eq!(failed.code, crate::exit::BAD_ARGUMENTS, "{filter}");
            for part in [filter, "WALLFINDER_LOG", "wallfinder_testbed=debug"] {
                assert!(
                    failed.message.contains(part),
                    "{filter}: {}",
                    failed.message
                );
            }
        }
    }
}
