//! Profiles, read for the user: who has the time, whose code it is, what waits for what.
//!
//! ```text
//! Profile (as written) ─► merge ─► read (rules) ─► Reading
//!                             │       ├─ functions, categories, origins
//!                             │       ├─ sites: what is waited for, idle waits apart
//!                             │       ├─ tree: stacks from the root, for flame graphs
//!                             │       └─ whole: what is counted over all stacks
//!                             └► difference: two of a kind, before anything is cut
//! Step with profiles, and its wall ─► evidence: the function behind it, the lock that is none
//! ```
//!
//! Invariants: what functions have as leaves adds up to the total before they are cut; so do
//! categories and origins with what is idle and what has no place; so do a node's children with
//! what is its own; merging and reading commute; nothing is scaled.

mod difference;
mod evidence;
mod merge;
mod rules;
mod sites;
mod tree;
mod whole;

pub use difference::{ALL, Amounts, Change, Rates, Taken, difference};
pub(crate) use evidence::lock;
pub use evidence::{evidence, made_of, place};
pub use merge::{Unlike, merge};
pub use rules::{RULES_DEFAULT, Rules};
pub use tree::folded;
pub use whole::{
    Doubt, doubts, is_clearing, is_go_futex, is_go_lock, is_inflating, is_of_utf8, is_spinning,
};

use std::collections::{BTreeMap, HashMap, HashSet};

use wallfinder_model::profile::{
    FUNCTIONS_MAX, FunctionPart, Measure, Part, Profile, ProfileKind, Reading, Reconciliation,
    Site, StackSample,
};

use rules::Origin;

/// What functions are called that have no name, and stacks without frames.
const NAMELESS: &str = "(no symbol)";
const STACKLESS: &str = "(no stack)";
/// What functions of the kernel are in.
const KERNEL: &str = "[kernel]";

/// Whether it is the name of a function, and not what stands for one without.
pub(crate) fn is_named(name: &str) -> bool {
    name != NAMELESS && name != STACKLESS
}

/// Reads a profile of a kind.
pub fn read(kind: ProfileKind, profile: &Profile, rules: &Rules) -> Reading {
    let at = value_of(kind, profile);
    let meanings = Meanings::of(profile, rules);
    let counted = Counted {
        profile,
        at,
        meanings: &meanings,
    };
    let mut categories = BTreeMap::new();
    let mut origins = BTreeMap::new();
    let (mut total, mut idle, mut unplaced, mut named) = (0i64, 0i64, 0i64, 0i64);
    let times = ["samples", "contentions", "alloc_objects", "inuse_objects"];
    let times = times.iter().find_map(|name| profile.position(name));
    let mut count = 0;
    // Values are a server's word: sums that are too large stay at the largest number.
    for sample in &profile.samples {
        let value = counted.value(sample);
        total = total.saturating_add(value);
        count = times_of(sample, times).saturating_add(count);
        named = named.saturating_add(value * i64::from(!counted.leaf_name(sample).is_empty()));
        if kind.is_of_waits() && counted.is_idle(sample) {
            idle = idle.saturating_add(value);
            continue;
        }
        if kind.is_of_waits() && counted.is_unplaced(sample) {
            unplaced = unplaced.saturating_add(value);
            continue;
        }
        add(
            categories.entry(counted.category(sample)).or_default(),
            value,
        );
        let origin = counted.origin(sample);
        add(origins.entry(origin.label().to_owned()).or_default(), value);
    }
    let of_functions = totals(kind, profile);
    let whole = whole::whole(&counted, kind, unplaced, &of_functions);
    Reading {
        kind,
        measure: profile
            .measures
            .get(at)
            .cloned()
            .unwrap_or(Measure::default()),
        duration_ns: profile.duration_ns,
        total,
        count,
        idle,
        named_share: wallfinder_model::profile::share(named, total),
        origins: parts(origins),
        categories: parts(categories),
        functions: cut(of_functions),
        sites: match kind {
            ProfileKind::Block
            | ProfileKind::Waits
            | ProfileKind::Mutex
            | ProfileKind::Goroutine => sites_of(&counted, kind),
            ProfileKind::Cpu | ProfileKind::Stacks | ProfileKind::Allocs | ProfileKind::Heap => {
                Vec::new()
            }
        },
        tree: tree::pruned(&counted),
        whole: Some(whole),
    }
}

/// Adds to a sum, which stays at the largest number where it would be larger.
fn add(sum: &mut i64, value: i64) {
    *sum = sum.saturating_add(value);
}

/// How many times a sample was taken, where the profile counts that.
fn times_of(sample: &StackSample, at: Option<usize>) -> i64 {
    at.and_then(|at| sample.values.get(at))
        .copied()
        .unwrap_or(0)
}

/// Where is waited, or held what others wait for. Waits without a place are at none of them.
fn sites_of(counted: &Counted<'_>, kind: ProfileKind) -> Vec<Site> {
    let is_placed = |sample: &StackSample| !kind.is_of_waits() || !counted.is_unplaced(sample);
    if counted.profile.samples.iter().all(is_placed) {
        return sites::sites(counted, kind);
    }
    let profile = counted.profile;
    let samples = profile.samples.iter().filter(|sample| is_placed(sample));
    let placed = Profile {
        measures: profile.measures.clone(),
        functions: profile.functions.clone(),
        samples: samples.cloned().collect(),
        duration_ns: profile.duration_ns,
    };
    let counted = Counted {
        profile: &placed,
        at: counted.at,
        meanings: counted.meanings,
    };
    sites::sites(&counted, kind)
}

/// Which of a sample's values is the kind's. Where a profile does not have its measure, the last
/// one, which is what the format's own tools show.
fn value_of(kind: ProfileKind, profile: &Profile) -> usize {
    let last = profile.measures.len().saturating_sub(1);
    profile.position(kind.measure()).unwrap_or(last)
}

/// A function's name without the path of its package: `fasthttp.(*Server).serveConn`.
pub fn short(function: &str) -> &str {
    // A slash inside brackets belongs to a type parameter.
    let before_types = function.find('[').unwrap_or(function.len());
    match function[..before_types].rfind('/') {
        Some(slash) => &function[slash + 1..],
        None => function,
    }
}

/// CPU in a profile beside CPU by the kernel.
pub fn reconcile(
    cpu: &Reading,
    process_cores: f64,
    machine_cores: Option<f64>,
) -> Option<Reconciliation> {
    let profile_cores = cpu.per_second()?;
    (process_cores > 0.0).then(|| Reconciliation {
        profile_cores,
        process_cores,
        machine_cores,
        off_profile_share: 1.0 - profile_cores / process_cores,
    })
}

/// A profile with one of its values chosen, and what its functions mean.
struct Counted<'p> {
    profile: &'p Profile,
    at: usize,
    meanings: &'p Meanings,
}

/// What each function of a profile says by its name.
struct Meanings {
    categories: Vec<Option<String>>,
    idle: Vec<bool>,
    idle_waits: Vec<bool>,
    /// Calls that wait, and what leads from them into the runtime.
    waits: Vec<bool>,
    takes_lock: Vec<bool>,
}

impl Meanings {
    fn of(profile: &Profile, rules: &Rules) -> Meanings {
        let names = || profile.functions.iter().map(|function| &function.name);
        Meanings {
            categories: names()
                .map(|name| rules.category(name).map(str::to_owned))
                .collect(),
            idle: names().map(|name| rules.is_idle(name)).collect(),
            idle_waits: names().map(|name| rules.is_idle_wait(name)).collect(),
            waits: profile
                .functions
                .iter()
                .map(sites::is_inside_wait)
                .collect(),
            takes_lock: profile.functions.iter().map(sites::takes_lock).collect(),
        }
    }
}

impl Counted<'_> {
    fn value(&self, sample: &StackSample) -> i64 {
        sample.values.get(self.at).copied().unwrap_or(0)
    }

    fn leaf_name(&self, sample: &StackSample) -> &str {
        let leaf = sample.stack.first();
        leaf.map_or("", |frame| &self.profile.function(*frame).name)
    }

    /// Whose code the leaf is.
    fn origin(&self, sample: &StackSample) -> Origin {
        let leaf = sample.stack.first();
        leaf.map_or(Origin::Unknown, |frame| {
            Origin::of(self.profile.function(*frame))
        })
    }

    /// By the first frame from the leaf that the rules name.
    fn category(&self, sample: &StackSample) -> String {
        let categories = &self.meanings.categories;
        let mut frames = sample.stack.iter();
        let found = frames.find_map(|frame| categories[frame.function as usize].clone());
        found.unwrap_or_else(|| self.origin(sample).label().to_owned())
    }

    /// The frame that called into the wait, where there is one.
    fn site(&self, sample: &StackSample) -> Option<usize> {
        let waits = &self.meanings.waits;
        let mut frames = sample.stack.iter();
        frames.position(|frame| !waits[frame.function as usize])
    }

    fn is_idle(&self, sample: &StackSample) -> bool {
        let site = self.site(sample);
        let inside = &sample.stack[..site.unwrap_or(sample.stack.len())];
        let inside = || inside.iter().map(|frame| frame.function as usize);
        if inside().any(|function| self.meanings.idle_waits[function]) {
            return true;
        }
        if inside().any(|function| self.meanings.takes_lock[function]) {
            return false;
        }
        match site {
            Some(at) => self.meanings.idle[sample.stack[at].function as usize],
            None => self.is_of_runtime(sample),
        }
    }

    /// Whether a stack that leads to nobody's own code is the runtime's, for Go's own goroutines and
    /// threads have work of the runtime alone.
    fn is_of_runtime(&self, sample: &StackSample) -> bool {
        const RUNTIME: [&str; 2] = ["runtime.", "internal/runtime/"];
        sample.stack.iter().any(|frame| {
            let name = &self.profile.function(*frame).name;
            RUNTIME.iter().any(|prefix| name.starts_with(prefix))
        })
    }

    /// Whether it is not known who waits, or for what: no frame leads out of the kernel and the
    /// libraries, and none says that it is a lock or that there is nothing to do. Libraries that
    /// are compiled without frame pointers have stacks end so.
    fn is_unplaced(&self, sample: &StackSample) -> bool {
        let mut inside = sample.stack.iter().map(|frame| frame.function as usize);
        self.site(sample).is_none()
            && !self.is_idle(sample)
            && !inside.any(|function| self.meanings.takes_lock[function])
    }
}

fn named(name: &str) -> &str {
    match name.is_empty() {
        true => NAMELESS,
        false => name,
    }
}

fn parts(values: BTreeMap<String, i64>) -> Vec<Part> {
    let parts = values.into_iter().map(|(name, value)| Part { name, value });
    let mut parts: Vec<Part> = parts.filter(|part| part.value != 0).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.value));
    parts
}

/// A value, and how many samples it is where they have equal weight, else 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sum {
    value: i64,
    samples: i64,
}

impl Sum {
    fn take(&mut self, more: Sum) {
        add(&mut self.value, more.value);
        add(&mut self.samples, more.samples);
    }
}

/// What a function has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Total {
    own: Sum,
    with_callees: Sum,
}

/// What every function has, over all stacks: on its own, and with its callees; recursion counts
/// once.
fn totals(kind: ProfileKind, profile: &Profile) -> HashMap<&str, Total> {
    let at = value_of(kind, profile);
    let times = profile.position("samples").filter(|_| kind.is_of_cpu());
    let mut totals: HashMap<&str, Total> = HashMap::new();
    let mut seen = HashSet::new();
    for sample in &profile.samples {
        let sum = Sum {
            value: sample.values.get(at).copied().unwrap_or(0),
            samples: times_of(sample, times),
        };
        let leaf = sample.stack.first();
        let leaf = leaf.map_or(STACKLESS, |frame| named(&profile.function(*frame).name));
        totals.entry(leaf).or_default().own.take(sum);
        seen.clear();
        for frame in &sample.stack {
            let name = named(&profile.function(*frame).name);
            if seen.insert(name) {
                totals.entry(name).or_default().with_callees.take(sum);
            }
        }
    }
    totals
}

/// The largest by either count, by what is their own.
fn cut(totals: HashMap<&str, Total>) -> Vec<FunctionPart> {
    let part = |(name, total): (&str, Total)| FunctionPart {
        name: name.to_owned(),
        own: total.own.value,
        with_callees: total.with_callees.value,
    };
    let all = totals.into_iter().map(part);
    // Of a heap most is free again: who holds nothing is not told of.
    let mut all: Vec<FunctionPart> = all
        .filter(|part| part.own != 0 || part.with_callees != 0)
        .collect();
    let by = |key: fn(&FunctionPart) -> i64, all: &mut Vec<FunctionPart>| {
        all.sort_by(|a, b| key(b).cmp(&key(a)).then_with(|| a.name.cmp(&b.name)));
    };
    by(|part| part.with_callees, &mut all);
    let large = all.iter().take(FUNCTIONS_MAX).map(|part| part.name.clone());
    let mut kept: HashSet<String> = large.collect();
    by(|part| part.own, &mut all);
    let own = all.iter().take(FUNCTIONS_MAX).map(|part| part.name.clone());
    kept.extend(own);
    all.retain(|part| kept.contains(&part.name));
    all
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_difference;
#[cfg(test)]
mod tests_whole;
