//! Where goroutines wait, or hold what others wait for: the first place outside of the
//! runtime's and the library's own machinery for waiting.

use std::collections::HashMap;

use wallfinder_model::profile::{Function, ProfileKind, Site, StackFrame, StackSample};

use super::{Counted, KERNEL, add, named, times_of};

/// The most sites that a reading keeps.
const SITES_MAX: usize = 30;

/// The most callers of a site that are told.
const PATH_MAX: usize = 24;

/// The site of stacks that never leave the runtime.
const RUNTIME: &str = "(the runtime itself)";

/// Whether a function is part of how a wait is made, and not of who waits: the kernel's, those of
/// system libraries, and what Go and Rust have for waiting.
pub(super) fn is_inside_wait(function: &Function) -> bool {
    const MACHINERY: [&str; 13] = [
        "runtime.",
        "internal/runtime/",
        "sync.",
        "internal/sync.",
        "internal/poll.",
        "internal/synctest.",
        "time.Sleep",
        "syscall.",
        "std::",
        "<std::",
        "core::",
        "<core::",
        "parking_lot",
    ];
    let (name, file) = (&function.name, &function.file);
    file == KERNEL
        || file.contains(".so")
        || MACHINERY.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a function takes a lock. Nobody who waits for one has nothing to do.
pub(super) fn takes_lock(function: &Function) -> bool {
    const LOCKS: [&str; 3] = [
        "sync.(*Mutex).",
        "internal/sync.(*Mutex).",
        "sync.(*RWMutex).",
    ];
    const TAKES: [&str; 3] = ["Lock", "RLock", "lockSlow"];
    let is_lock = |prefix: &&str| {
        let method = function.name.strip_prefix(*prefix);
        method.is_some_and(|method| TAKES.contains(&method))
    };
    LOCKS.iter().any(is_lock)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key<'p> {
    function: &'p str,
    file: &'p str,
    line: i64,
    waits_in: &'p str,
}

struct Found<'p> {
    value: i64,
    count: i64,
    idle: bool,
    /// The stack with the most, and how much.
    largest: (i64, &'p StackSample),
}

/// The largest first; those that are idle stand among the others.
pub(super) fn sites<'p>(counted: &Counted<'p>, kind: ProfileKind) -> Vec<Site> {
    let profile = counted.profile;
    let times = profile.position("contentions");
    let mut found: HashMap<Key<'_>, Found<'_>> = HashMap::new();
    for sample in &profile.samples {
        let value = counted.value(sample);
        let site = counted.site(sample);
        let name_at = |at: usize| profile.function(sample.stack[at]).name.as_str();
        let key = match site {
            Some(at) => Key {
                function: named(name_at(at)),
                file: &profile.function(sample.stack[at]).file,
                line: sample.stack[at].line,
                waits_in: match at {
                    0 => "",
                    _ => {
                        system_call(counted, &sample.stack[..at]).unwrap_or_else(|| name_at(at - 1))
                    }
                },
            },
            None => Key {
                function: RUNTIME,
                file: "",
                line: 0,
                waits_in: sample.stack.last().map_or("", |_| name_at(0)),
            },
        };
        let entry = found.entry(key).or_insert(Found {
            value: 0,
            count: 0,
            idle: kind.is_of_waits() && counted.is_idle(sample),
            largest: (i64::MIN, sample),
        });
        add(&mut entry.value, value);
        add(&mut entry.count, times_of(sample, times));
        if value > entry.largest.0 {
            entry.largest = (value, sample);
        }
    }
    let mut sites: Vec<Site> = found
        .into_iter()
        .filter(|(_, found)| found.value != 0)
        .map(|(key, found)| Site {
            function: key.function.to_owned(),
            line: match key.file.rsplit('/').next() {
                Some(file) if !file.is_empty() && key.line > 0 => format!("{file}:{}", key.line),
                _ => String::new(),
            },
            waits_in: key.waits_in.to_owned(),
            value: found.value,
            count: found.count,
            idle: found.idle,
            path: callers(counted, found.largest.1),
        })
        .collect();
    let place = |site: &Site| {
        (
            site.function.clone(),
            site.line.clone(),
            site.waits_in.clone(),
        )
    };
    sites.sort_by_cached_key(|site| (std::cmp::Reverse(site.value), place(site)));
    sites.truncate(SITES_MAX);
    sites
}

/// The system call behind a library's bare `syscall`, which says nothing: `futex`.
fn system_call<'p>(counted: &Counted<'p>, inside: &[StackFrame]) -> Option<&'p str> {
    const ENTRIES: [&str; 2] = ["__x64_sys_", "__arm64_sys_"];
    let mut names = inside
        .iter()
        .rev()
        .map(|frame| counted.profile.function(*frame).name.as_str());
    if names.next()? != "syscall" {
        return None;
    }
    names.find_map(|name| ENTRIES.iter().find_map(|entry| name.strip_prefix(entry)))
}

fn callers(counted: &Counted<'_>, sample: &StackSample) -> Vec<String> {
    let from = counted.site(sample).unwrap_or(0);
    let frames = sample.stack.iter().skip(from).take(PATH_MAX);
    frames
        .map(|frame| named(&counted.profile.function(*frame).name).to_owned())
        .collect()
}
