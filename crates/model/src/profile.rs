//! Profiles of a process: stacks with what was counted on them, and what they come to.
//!
//! A [`Profile`] is what a profiler wrote, with its names resolved; it is large and stays in
//! its own file. A [`Reading`] is what it says, small enough for a record.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::counters::{EventCount, SystemCalls};

/// What a profile is of.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum ProfileKind {
    /// Time on a processor, by the process's own profiler.
    Cpu,
    /// Time on a processor, by stacks that the kernel samples.
    Stacks,
    /// Time that others waited for a mutex, on the stack of who held it.
    Mutex,
    /// Time that goroutines were parked, on their own stack.
    Block,
    /// Time that threads were off their processors, by what the kernel sees.
    Waits,
    /// Bytes allocated within the window.
    Allocs,
    /// Bytes that are alive.
    Heap,
    /// Goroutines at one moment.
    Goroutine,
}

impl ProfileKind {
    /// All of them, in the order in which they are shown.
    pub const ALL: [ProfileKind; 8] = [
        ProfileKind::Cpu,
        ProfileKind::Stacks,
        ProfileKind::Block,
        ProfileKind::Waits,
        ProfileKind::Mutex,
        ProfileKind::Allocs,
        ProfileKind::Heap,
        ProfileKind::Goroutine,
    ];

    /// Those that Go's runtime takes.
    pub const OF_GO: [ProfileKind; 6] = [
        ProfileKind::Cpu,
        ProfileKind::Block,
        ProfileKind::Mutex,
        ProfileKind::Allocs,
        ProfileKind::Heap,
        ProfileKind::Goroutine,
    ];

    /// `cpu`, as in file names and in the record.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// The sample type to read, as the Go runtime names it.
    pub fn measure(self) -> &'static str {
        match self {
            ProfileKind::Cpu | ProfileKind::Stacks => "cpu",
            ProfileKind::Mutex | ProfileKind::Block | ProfileKind::Waits => "delay",
            ProfileKind::Allocs => "alloc_space",
            ProfileKind::Heap => "inuse_space",
            ProfileKind::Goroutine => "goroutine",
        }
    }

    /// Whether it is of time on a processor.
    pub fn is_of_cpu(self) -> bool {
        matches!(self, ProfileKind::Cpu | ProfileKind::Stacks)
    }

    /// Whether its stacks wait, so that some of them have nothing to do.
    pub fn is_of_waits(self) -> bool {
        matches!(
            self,
            ProfileKind::Block | ProfileKind::Waits | ProfileKind::Goroutine
        )
    }
}

/// What a sample counts: `cpu` in `nanoseconds`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measure {
    /// `cpu`, `delay`, `alloc_space`.
    pub name: String,
    /// `nanoseconds`, `bytes`, `count`.
    pub unit: String,
}

/// What a profiler wrote.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Profile {
    /// What each sample counts, one for each of its values.
    pub measures: Vec<Measure>,
    /// The functions that frames point to.
    pub functions: Vec<Function>,
    /// Stacks, in the order of the file.
    pub samples: Vec<StackSample>,
    /// How long was looked at; 0 where the profile does not say.
    pub duration_ns: u64,
}

/// A function by name. Functions of one name are one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Function {
    /// `runtime.mallocgc`; empty where there is no symbol.
    pub name: String,
    /// Source file, or the program or library that it is in; `[kernel]` for the kernel. May be
    /// empty.
    pub file: String,
}

/// Functions, each once, by the order in which they came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Functions {
    list: Vec<Function>,
    places: HashMap<Function, u32>,
}

impl Functions {
    /// The index of a function, which is added where it is new.
    pub fn index(&mut self, function: Function) -> u32 {
        let next = self.list.len() as u32;
        *self.places.entry(function).or_insert_with_key(|function| {
            self.list.push(function.clone());
            next
        })
    }

    /// All of them, in order.
    pub fn into_list(self) -> Vec<Function> {
        self.list
    }
}

impl From<Vec<Function>> for Functions {
    fn from(list: Vec<Function>) -> Functions {
        let numbered = list.iter().cloned().zip(0..);
        Functions {
            places: numbered.collect(),
            list,
        }
    }
}

/// One stack, and what was counted on it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StackSample {
    /// Frames from the leaf to the root, inlined calls apart.
    pub stack: Vec<StackFrame>,
    /// One for each of [`Profile::measures`].
    pub values: Vec<i64>,
}

/// A place in a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StackFrame {
    /// Index into [`Profile::functions`].
    pub function: u32,
    /// Line in its file; 0 where it is not known.
    pub line: i64,
}

impl Profile {
    /// Where in a sample's values such a measure stands.
    pub fn position(&self, measure: &str) -> Option<usize> {
        self.measures.iter().position(|one| one.name == measure)
    }

    /// The function of a frame.
    pub fn function(&self, frame: StackFrame) -> &Function {
        &self.functions[frame.function as usize]
    }
}

/// The profiles of one side in one window, read, and what was counted of it there.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Profiles {
    /// Length of the window in which they were captured.
    pub window_ns: u64,
    /// Processes that were asked.
    pub processes: u32,
    /// Requests answered in a window of that length at the step's throughput.
    pub answered: f64,
    /// One for each kind, those of several processes merged.
    pub readings: Vec<Reading>,
    /// CPU in the profile beside CPU of the process and of the machine.
    pub reconciliation: Option<Reconciliation>,
    /// System calls by name, where they were watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<SystemCalls>,
    /// Events of processors and of the kernel, where they were counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<EventCount>,
    /// Files beside the record.
    pub files: Vec<String>,
    /// What could not be had, and why.
    pub missing: Vec<String>,
    /// How long events were counted: the whole window, of which profiles have whole seconds. Absent in
    /// records of tools that did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts_ns: Option<u64>,
    /// Where threads waited for a socket or a pipe: for their next request, or for somebody behind the
    /// server, which stacks do not tell apart. The reading of waits is without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket_waits: Option<Reading>,
    /// Time that threads had been woken and were ready, and had no processor, summed over them, while
    /// waits were watched. Where it is absent it was not seen, and is part of the waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_ns: Option<u64>,
}

impl Profiles {
    /// Requests answered in so long, where they came as steadily as in the window; 0 of a moment.
    pub fn answered_in(&self, span_ns: u64) -> f64 {
        match self.window_ns {
            0 => 0.0,
            window_ns => self.answered * span_ns as f64 / window_ns as f64,
        }
    }

    /// Requests answered while events were counted.
    pub fn answered_while_counted(&self) -> f64 {
        self.answered_in(self.counts_ns.unwrap_or(self.window_ns))
    }

    /// The reading of time on a processor: the process's own profiler first.
    pub fn of_cpu(&self) -> Option<&Reading> {
        self.of(ProfileKind::Cpu).or(self.of(ProfileKind::Stacks))
    }

    /// The reading of what waits: the process's own profiler first.
    pub fn of_waits(&self) -> Option<&Reading> {
        self.of(ProfileKind::Block).or(self.of(ProfileKind::Waits))
    }

    /// The reading of a kind.
    pub fn of(&self, kind: ProfileKind) -> Option<&Reading> {
        self.readings.iter().find(|reading| reading.kind == kind)
    }
}

/// The most functions that a reading keeps: so many with the most of their own, and so many with what they call.
pub const FUNCTIONS_MAX: usize = 60;

/// What a profile says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reading {
    /// What it is of.
    pub kind: ProfileKind,
    /// What it counts.
    pub measure: Measure,
    /// Length of the window; 0 for a moment.
    pub duration_ns: u64,
    /// Sum over all samples, idle waits among them.
    pub total: i64,
    /// How often: samples of CPU, waits, objects; 0 where the profile does not count.
    pub count: i64,
    /// Of it, waits of those that had nothing to do: accept loops, pools without work, and the
    /// profiler's own handlers. 0 where the profile is not of waits.
    pub idle: i64,
    /// Share of the total whose leaf has a name; a stack without frames has none.
    pub named_share: f64,
    /// Whose code the leaf is: `application`, `library`, `runtime`, `kernel`.
    pub origins: Vec<Part>,
    /// By the table of rules, the largest first; idle waits are left out.
    pub categories: Vec<Part>,
    /// By function: on its own, and with what it calls; the largest first.
    pub functions: Vec<FunctionPart>,
    /// By the place that waits or holds, for mutexes and waits: the largest first.
    pub sites: Vec<Site>,
    /// Stacks as a tree, from the root. Children that are too small for it stand as one last child,
    /// by the name `(smaller)`, so that a node has what its children have and what is its own.
    pub tree: Vec<Node>,
    /// What was counted over all stacks, before anything was left out. `None` in records of tools
    /// that did not count it; their trees do not say what they leave out either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Whole>,
}

impl Reading {
    /// The total without idle waits, and without those that have no place.
    pub fn busy(&self) -> i64 {
        let without_idle = self.total.saturating_sub(self.idle);
        without_idle.saturating_sub(self.unplaced())
    }

    /// Waits on stacks that do not lead to anybody's own code: whether they have anything to do is
    /// not known. They are neither idle nor busy.
    pub fn unplaced(&self) -> i64 {
        self.whole.as_ref().map_or(0, |whole| whole.unplaced)
    }

    /// A value as a share of the total; 0 where there is none.
    pub fn share(&self, value: i64) -> f64 {
        share(value, self.total)
    }

    /// A value as a share of the total without idle waits, which may be too small where some have no
    /// place; 0 where there is none.
    pub fn share_of_busy(&self, value: i64) -> f64 {
        share(value, self.total.saturating_sub(self.idle))
    }

    /// What is busy, per second of the window: processors in use, goroutines that are parked on
    /// average, bytes per second. `None` for a moment.
    pub fn per_second(&self) -> Option<f64> {
        let seconds = self.duration_ns as f64 / 1e9;
        let amount = match self.measure.unit.as_str() {
            "nanoseconds" => self.busy() as f64 / 1e9,
            _ => self.busy() as f64,
        };
        (seconds > 0.0).then(|| amount / seconds)
    }

    /// How far a share may be off that was found by sampling: half of its 95 % interval, by the
    /// number of samples. `None` where values are not samples of equal weight.
    pub fn share_error(&self, share: f64) -> Option<f64> {
        let is_sampled = self.kind.is_of_cpu() && self.count > 0;
        is_sampled.then(|| 1.96 * (share * (1.0 - share) / self.count as f64).max(0.0).sqrt())
    }

    /// What a category has.
    pub fn category(&self, name: &str) -> i64 {
        let found = self.categories.iter().find(|part| part.name == name);
        found.map_or(0, |part| part.value)
    }
}

/// A value as a share of a total; 0 where the total is none.
pub fn share(value: i64, total: i64) -> f64 {
    if total == 0 {
        return 0.0;
    }
    value as f64 / total as f64
}

/// A part of a total.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// Of what.
    pub name: String,
    /// How much.
    pub value: i64,
}

/// A function's part of a total.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionPart {
    /// `runtime.mallocgc`.
    pub name: String,
    /// Where it is the leaf.
    pub own: i64,
    /// Where it is on the stack.
    pub with_callees: i64,
}

/// A place at which goroutines wait, or hold what others wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Site {
    /// The function that called into the lock, channel or select.
    pub function: String,
    /// `random.go:88`; empty where it is not known.
    pub line: String,
    /// What it waits in: `sync.(*Mutex).Lock`, `runtime.selectgo`.
    pub waits_in: String,
    /// How much.
    pub value: i64,
    /// How often; 0 where that is not counted.
    pub count: i64,
    /// Whether it waits for work rather than for a resource.
    pub idle: bool,
    /// The callers of the largest stack, from the site to the root.
    pub path: Vec<String>,
}

/// What was counted over all stacks of a profile, before functions, places and the tree were cut.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Whole {
    /// Share of all frames outside of the kernel that have a name, each counted by what its stack has;
    /// `None` where there are no such frames.
    pub frames_named_share: Option<f64>,
    /// Share of the total on stacks that lead to where a thread or goroutine begins: of the others
    /// callers are missing. `None` where the profiler does not write beginnings, as Go's own.
    pub rooted_share: Option<f64>,
    /// Of the total, waits on stacks that lead out of neither the kernel nor system libraries. 0 where
    /// the profile is not of waits.
    pub unplaced: i64,
    /// Of the total, what is below Go's functions for futexes, with what the kernel does for them.
    pub futexes: i64,
    /// Of that, what is below a lock of Go's that is taken or given back.
    pub futexes_of_locks: i64,
    /// Frames above the kernel on stacks that a system call ends, on average by what these stacks
    /// have; `None` where there is no such stack, or the tool did not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_before_kernel: Option<f64>,
    /// The same without those of Go's runtime and of its packages for system calls, on stacks that
    /// have others too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_outside_runtime: Option<f64>,
    /// Of the total, what functions of some kinds have on their own; `None` in records of tools that
    /// did not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Own>,
}

/// What functions of some kinds have on their own, over all stacks of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Own {
    /// Go's waits for a lock that is about to be given back.
    pub spinning: i64,
    /// What takes the deflate format apart.
    pub inflating: i64,
    /// What reads and writes text as UTF-8.
    pub utf8: i64,
    /// What sets memory to zero; `None` in records of tools that did not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clearing: Option<i64>,
}

/// What stands in a tree for children that are too small for it. It is no function. At the root it
/// always stands, were it of 0: a tree without it does not say what it leaves out.
pub const SMALLER: &str = "(smaller)";

/// A node of the tree of stacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Node {
    /// The function, or `(smaller)`.
    pub name: String,
    /// Frames below it: 0 at the root. A node's children follow it at one more.
    pub depth: u32,
    /// How much, children included.
    pub value: i64,
}

impl Node {
    /// Whether it stands for what is too small for the tree, and is no function.
    pub fn is_smaller(&self) -> bool {
        self.name == SMALLER
    }
}

/// CPU time of one window, counted three ways.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reconciliation {
    /// In the profile, in cores.
    pub profile_cores: f64,
    /// By the kernel, of the server's processes, in cores.
    pub process_cores: f64,
    /// By the kernel, of all processors that it may use, interrupts included, in cores.
    pub machine_cores: Option<f64>,
    /// Share of the processes' time that the profile does not have: samples lost while signals
    /// wait, and threads that are not the runtime's. Below 0 where it has more.
    pub off_profile_share: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As records had it before trees said what they leave out.
    const OLDER: &str = r#"{
        "kind": "waits", "measure": {"name": "delay", "unit": "nanoseconds"},
        "duration_ns": 1000, "total": 900, "count": 3, "idle": 300, "named_share": 1.0,
        "origins": [], "categories": [], "functions": [], "sites": [],
        "tree": [{"name": "main", "depth": 0, "value": 900}]
    }"#;

    #[test]
    fn readings_of_older_records_are_read_and_kept_as_they_are() {
        let reading: Reading = serde_json::from_str(OLDER).unwrap();
        assert_eq!((reading.whole.as_ref(), reading.unplaced()), (None, 0));
        assert_eq!((reading.busy(), reading.share_of_busy(300)), (600, 0.5));
        assert!(!reading.tree.iter().any(Node::is_smaller));
        let again = serde_json::to_value(&reading).unwrap();
        let before: serde_json::Value = serde_json::from_str(OLDER).unwrap();
        assert_eq!(again, before);
    }

    #[test]
    fn waits_without_a_place_are_neither_busy_nor_idle() {
        let mut reading: Reading = serde_json::from_str(OLDER).unwrap();
        reading.whole = Some(Whole {
            unplaced: 400,
            ..Whole::default()
        });
        assert_eq!((reading.busy(), reading.idle), (200, 300));
        let written = serde_json::to_string(&reading).unwrap();
        assert_eq!(serde_json::from_str::<Reading>(&written).unwrap(), reading);
    }
}
