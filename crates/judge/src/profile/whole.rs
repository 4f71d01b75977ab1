//! What is counted over all stacks, before functions, places and the tree are cut: how far names
//! and stacks can be believed, and sums of which the tree would lack what is too small for it.

use std::collections::HashMap;

use wallfinder_model::profile::{Own, ProfileKind, Reading, StackFrame, StackSample, Whole, share};

use super::{Counted, KERNEL, Total, add};

/// With fewer names than this, or fewer stacks that are whole, a reading is doubted.
const NAMED_ENOUGH: f64 = 0.99;
const ROOTED_ENOUGH: f64 = 0.9;

/// Whether a function of Go's goes to sleep, or wakes somebody, by a futex: with what the compiler or
/// the assembler adds to its name.
pub fn is_go_futex(function: &str) -> bool {
    function.starts_with("runtime.futex")
}

/// Whether a function takes or gives back a lock: Go's own, and those of its runtime.
pub fn is_go_lock(function: &str) -> bool {
    const LOCKS: [&str; 6] = [
        "sync.(*Mutex)",
        "sync.(*RWMutex)",
        "internal/sync.(*Mutex)",
        "runtime.lock2",
        "runtime.unlock2",
        "runtime.sem",
    ];
    LOCKS.iter().any(|lock| function.starts_with(lock))
}

/// Whether a function is Go's wait for a lock that is about to be given back.
pub fn is_spinning(function: &str) -> bool {
    ["runtime.procyield", "runtime.procyieldAsm"]
        .iter()
        .any(|name| function.strip_suffix(".abi0").unwrap_or(function) == *name)
}

/// Whether a function takes the deflate format apart, by whichever library: `inflate_fast`,
/// `miniz_oxide::inflate::core::decompress`.
pub fn is_inflating(function: &str) -> bool {
    function.contains("inflate") && !function.contains("deflate")
}

/// Whether a function reads or writes text as UTF-8, such as V8's decoder and simdutf.
pub fn is_of_utf8(function: &str) -> bool {
    let name = function.to_ascii_lowercase();
    ["utf8", "utf-8", "utf_8", "simdutf"]
        .iter()
        .any(|part| name.contains(part))
}

/// Whether a function sets memory to zero: Go's `memclr…`, the C library's `memset`.
pub fn is_clearing(function: &str) -> bool {
    function.contains("memclr") || function.contains("memset")
}

/// Counts all of it. What has no place is told by whoever tells idle waits apart, and `totals` is of every function.
pub(super) fn whole(
    counted: &Counted<'_>,
    kind: ProfileKind,
    unplaced: i64,
    totals: &HashMap<&str, Total>,
) -> Whole {
    let functions = counted.profile.functions.iter();
    let starts: Vec<bool> = functions.map(|function| is_start(&function.name)).collect();
    let (mut frames, mut named) = (0_i128, 0_i128);
    let (mut total, mut rooted, mut futexes, mut of_locks) = (0, 0, 0, 0);
    let (mut above_calls, mut outside_runtime) = (Mean::default(), Mean::default());
    for sample in &counted.profile.samples {
        let value = counted.value(sample);
        add(&mut total, value);
        let outside = of_user(counted, sample);
        let has_name = |frame: &&StackFrame| !counted.profile.function(**frame).name.is_empty();
        frames += i128::from(value) * outside.len() as i128;
        named += i128::from(value) * outside.iter().filter(has_name).count() as i128;
        if outside.iter().any(|frame| starts[frame.function as usize]) {
            add(&mut rooted, value);
        }
        if let Some(above) = frames_before_kernel(counted, sample) {
            above_calls.add(value, above.len());
            let name = |frame: &StackFrame| counted.profile.function(*frame).name.as_str();
            let outside = above.iter().filter(|frame| !is_of_runtime(name(frame)));
            match outside.count() {
                0 => {}
                some => outside_runtime.add(value, some),
            }
        }
        if let Some(below_a_lock) = futex(counted, sample) {
            add(&mut futexes, value);
            add(&mut of_locks, value * i64::from(below_a_lock));
        }
    }
    let by_kernel = matches!(kind, ProfileKind::Stacks | ProfileKind::Waits);
    let own = |is_meant: fn(&str) -> bool| {
        let meant = totals.iter().filter(|(name, _)| is_meant(name));
        meant.fold(0_i64, |sum, (_, total)| sum.saturating_add(total.own.value))
    };
    Whole {
        frames_named_share: (frames > 0).then(|| named as f64 / frames as f64),
        rooted_share: (by_kernel && total > 0).then(|| share(rooted, total)),
        unplaced,
        futexes,
        futexes_of_locks: of_locks,
        frames_before_kernel: above_calls.mean(),
        frames_outside_runtime: outside_runtime.mean(),
        own: Some(Own {
            spinning: own(is_spinning),
            inflating: own(is_inflating),
            utf8: own(is_of_utf8),
            clearing: Some(own(is_clearing)),
        }),
    }
}

/// Frames outside of the kernel, whose own stand before them. Where none of the kernel's has a
/// name they are not told apart, and count as well.
fn of_user<'s>(counted: &Counted<'_>, sample: &'s StackSample) -> &'s [StackFrame] {
    let is_kernels = |frame: &StackFrame| counted.profile.function(*frame).file == KERNEL;
    let last = sample.stack.iter().rposition(is_kernels);
    &sample.stack[last.map_or(0, |last| last + 1)..]
}

/// Whether threads or goroutines begin in a function, so that nothing calls it: of C's library and
/// of Rust's, of Go's runtime, and the program's own `main`.
fn is_start(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "_start",
        "main",
        "start_thread",
        "clone",
        "clone3",
        "__clone",
        "__clone3",
        "thread_start",
        "runtime.main",
    ];
    const BEGINNINGS: [&str; 6] = [
        "__libc_start_",
        "std::rt::lang_start",
        "runtime.goexit",
        "runtime.mstart",
        "runtime.mcall",
        "runtime.rt0_go",
    ];
    NAMES.contains(&name)
        || BEGINNINGS.iter().any(|start| name.starts_with(start))
        || (name.starts_with("std::") && name.ends_with("::thread_start"))
}

/// Of a stack with a futex of Go's, whether that is below a lock. Else it is the scheduler's, which
/// puts threads to sleep and wakes them.
fn futex(counted: &Counted<'_>, sample: &StackSample) -> Option<bool> {
    let name = |frame: &StackFrame| counted.profile.function(*frame).name.as_str();
    let from_the_root = sample.stack.iter().rev();
    let mut callers = from_the_root.take_while(|frame| !is_go_futex(name(frame)));
    let below_a_lock = callers.any(|frame| is_go_lock(name(frame)));
    let has_futex = sample.stack.iter().any(|frame| is_go_futex(name(frame)));
    has_futex.then_some(below_a_lock)
}

/// The frames above the kernel on a stack that a system call ends.
fn frames_before_kernel<'s>(
    counted: &Counted<'_>,
    sample: &'s StackSample,
) -> Option<&'s [StackFrame]> {
    const ENTRIES: [&str; 3] = ["entry_SYSCALL_64", "do_syscall_64", "el0_svc"];
    let entry = sample.stack.iter().rposition(|frame| {
        let name = &counted.profile.function(*frame).name;
        ENTRIES.iter().any(|entry| name.starts_with(entry))
    });
    entry.map(|entry| &sample.stack[entry + 1..])
}

/// Whether a function is of Go's runtime, or of its packages that make system calls.
fn is_of_runtime(function: &str) -> bool {
    const PACKAGES: [&str; 5] = [
        "runtime.",
        "runtime/",
        "syscall.",
        "internal/",
        "golang.org/x/sys/",
    ];
    PACKAGES.iter().any(|package| function.starts_with(package))
}

/// A mean of counts, each by what its stack has.
#[derive(Default)]
struct Mean {
    weight: i128,
    sum: i128,
}

impl Mean {
    fn add(&mut self, weight: i64, count: usize) {
        self.weight += i128::from(weight);
        self.sum += i128::from(weight) * count as i128;
    }

    fn mean(&self) -> Option<f64> {
        (self.weight > 0).then(|| self.sum as f64 / self.weight as f64)
    }
}

/// Why a reading is not to be believed as it stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Doubt {
    /// Functions without a name; the share of what was counted whose function has one, 0..1.
    Symbols(f64),
    /// Frames without a name; the share of frames that have one, 0..1.
    Frames(f64),
    /// Stacks that end before the function in which a thread begins; the share of those that do not, 0..1.
    Roots(f64),
    /// Waits on stacks without a frame of anybody's own code, of which it is not known whether they are idle.
    Unplaced {
        /// Whose: a thread's, or a goroutine's.
        of_threads: bool,
        /// How many, on average over the profile's time.
        many: f64,
    },
}

/// What is to be known before a reading is believed.
pub fn doubts(reading: &Reading) -> Vec<Doubt> {
    if reading.total == 0 {
        return Vec::new();
    }
    let below = |share: f64, enough: f64| Some(share).filter(|share| *share < enough);
    let whole = reading.whole.as_ref();
    let frames = whole.and_then(|whole| below(whole.frames_named_share?, NAMED_ENOUGH));
    let roots = whole.and_then(|whole| below(whole.rooted_share?, ROOTED_ENOUGH));
    let unplaced = whole.filter(|whole| whole.unplaced > 0);
    [
        below(reading.named_share, NAMED_ENOUGH).map(Doubt::Symbols),
        frames.map(Doubt::Frames),
        roots.map(Doubt::Roots),
        unplaced.map(|whole| Doubt::Unplaced {
            of_threads: reading.kind == ProfileKind::Waits,
            many: whole.unplaced as f64 / reading.duration_ns.max(1) as f64,
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}
