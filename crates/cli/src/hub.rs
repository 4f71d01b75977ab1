//! The hub that a command names: the way there, and which of its agents a pattern means.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use wallfinder_hub::{Credentials, Line};
use wallfinder_model::scenario::Hub;

use crate::exit::Failed;

/// How long agents may take to say that they are there.
pub(crate) const HERE_WAIT: Duration = Duration::from_secs(1);

/// The way to the hub that was opened last: one serves all agents.
static OPEN: Mutex<Option<(Hub, Weak<Line>)>> = Mutex::new(None);

/// The way to a hub.
pub(crate) fn line(hub: &Hub) -> Result<Arc<Line>, Failed> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = open.as_ref().filter(|(of, _)| of == hub);
    if let Some(line) = known.and_then(|(_, line)| line.upgrade()) {
        return Ok(line);
    }
    let Some(creds) = &hub.creds else {
        return Err(Failed::usage(
            "--hub FOLDER names the hub that agents are at",
        ));
    };
    let mut credentials = Credentials::read(creds).map_err(Failed::run)?;
    if let Some(servers) = &hub.nats {
        credentials.servers = servers_of(servers);
    }
    let line = Arc::new(Line::connect(&credentials).map_err(Failed::run)?);
    *open = Some((hub.clone(), Arc::downgrade(&line)));
    Ok(line)
}

/// The addresses of `nats://a,b,c`.
pub(crate) fn servers_of(url: &str) -> Vec<String> {
    url.split(',')
        .map(|server| server.trim().to_owned())
        .collect()
}

/// The agents at a hub that a pattern means, sorted by name; at the least one.
pub(crate) fn meant(hub: &Hub, pattern: &str) -> Result<Vec<String>, Failed> {
    let present = line(hub)?.present(HERE_WAIT, &[]).map_err(Failed::run)?;
    let mut names: Vec<String> = present.into_iter().map(|found| found.here.name).collect();
    // Two that answer as one are refused when a session begins.
    names.dedup();
    let meant: Vec<String> = names
        .iter()
        .filter(|name| matches(pattern, name))
        .cloned()
        .collect();
    match (meant.is_empty(), names.as_slice()) {
        (false, _) => Ok(meant),
        (true, []) => Err(Failed::run(format!(
            "`{pattern}` means no agent: none is at the hub"
        ))),
        (true, names) => Err(Failed::run(format!(
            "`{pattern}` means no agent; at the hub are {}",
            names.join(", ")
        ))),
    }
}

/// Whether a name is of a pattern, in which `*` stands for any letters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(rest) = name.strip_prefix(before) else {
        return false;
    };
    (0..=rest.len()).any(|at| rest.is_char_boundary(at) && matches(after, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_names() {
        for (pattern, name, is_meant) in [
            ("c*", "c1", true),
            ("c*", "c", true),
            ("c*", "db1", false),
            ("*", "anything", true),
            ("*-eu-*", "c-eu-1", true),
            ("*-eu-*", "c-us-1", false),
            ("c*1", "c11", true),
            ("c*1", "c12", false),
            ("c1", "c1", true),
            ("c1", "c11", false),
        ] {
            assert_eq!(matches(pattern, name), is_meant, "{pattern} {name}");
        }
    }
}
