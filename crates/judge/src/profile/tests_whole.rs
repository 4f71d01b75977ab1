//! What a reading leaves out, and what it says of that: trees whose sums hold, names and callers
//! that are missing, waits of nobody.

use proptest::prelude::*;
use wallfinder_model::profile::{Function, Own, SMALLER, StackFrame};

use super::*;

/// A second's profile by stacks written from the leaf. Frames of the kernel and of libraries have
/// that before their name: `[kernel]|futex_wait`, `libc.so.6|poll`; `|` has neither.
fn profile(kind: ProfileKind, stacks: &[(String, i64)]) -> Profile {
    let mut functions: Vec<Function> = Vec::new();
    let mut samples = Vec::new();
    for (stack, value) in stacks {
        let frames = stack.split('<').filter(|frame| !frame.is_empty());
        let frames = frames.map(|frame| {
            let (file, name) = frame.split_once('|').unwrap_or(("own", frame));
            let function = Function {
                name: name.to_owned(),
                file: file.to_owned(),
            };
            let at = functions.iter().position(|known| *known == function);
            let at = at.unwrap_or_else(|| {
                functions.push(function);
                functions.len() - 1
            });
            StackFrame {
                function: at as u32,
                line: 0,
            }
        });
        samples.push(StackSample {
            stack: frames.collect(),
            values: vec![*value],
        });
    }
    Profile {
        measures: vec![Measure {
            name: kind.measure().to_owned(),
            unit: "nanoseconds".to_owned(),
        }],
        functions,
        samples,
        duration_ns: 1_000_000_000,
    }
}

fn reading_of(kind: ProfileKind, stacks: &[(&str, i64)]) -> Reading {
    let stacks = stacks.iter();
    let stacks: Vec<(String, i64)> = stacks
        .map(|(stack, value)| ((*stack).to_owned(), *value))
        .collect();
    read(kind, &profile(kind, &stacks), &Rules::default())
}

fn nodes(reading: &Reading) -> Vec<(u32, &str, i64)> {
    let nodes = reading.tree.iter();
    nodes
        .map(|node| (node.depth, node.name.as_str(), node.value))
        .collect()
}

/// Of every node, its children and what is its own add up to what it has.
fn assert_sums_hold(profile: &Profile, reading: &Reading) {
    let tree = &reading.tree;
    let mut ends: HashMap<String, i64> = HashMap::new();
    for sample in &profile.samples {
        let frames = sample.stack.iter().rev();
        let names: Vec<&str> = frames
            .map(|frame| profile.function(*frame).name.as_str())
            .collect();
        *ends.entry(names.join("\n")).or_default() += sample.values[0];
    }
    let own = |path: &[&str]| ends.get(&path.join("\n")).copied().unwrap_or(0);
    let inside = |from: usize, depth: u32| {
        let below = tree[from..].iter().take_while(|node| node.depth >= depth);
        let children = below.filter(|node| node.depth == depth);
        children.map(|node| node.value).sum::<i64>()
    };
    assert_eq!(inside(0, 0) + own(&[]), reading.total);
    let mut path: Vec<&str> = Vec::new();
    for (at, node) in tree.iter().enumerate() {
        path.truncate(node.depth as usize);
        path.push(&node.name);
        if !node.is_smaller() {
            let parts = inside(at + 1, node.depth + 1) + own(&path);
            assert_eq!(parts, node.value, "{path:?} of {tree:?}");
        }
    }
    let last = tree.last().expect("a tree says what it leaves out");
    assert!(last.is_smaller() && last.depth == 0, "{last:?}");
}

#[test]
fn what_is_too_small_for_a_tree_stands_beside_its_siblings() {
    let small = (0..200).map(|nth| (format!("main.f{nth}<main.main"), 10));
    let large = [("main.big<main.main", 90_000), ("main.main", 8_000)];
    let large = large.map(|(stack, value)| (stack.to_owned(), value));
    let stacks: Vec<(String, i64)> = small.chain(large).collect();
    let profile = profile(ProfileKind::Cpu, &stacks);
    let reading = read(ProfileKind::Cpu, &profile, &Rules::default());
    assert_eq!(
        nodes(&reading),
        [
            (0, "main.main", 100_000),
            (1, "main.big", 90_000),
            (1, SMALLER, 2_000),
            (0, SMALLER, 0)
        ]
    );
    assert_sums_hold(&profile, &reading);
    // It is no function.
    let functions = reading.functions.iter();
    let named = functions.filter(|part| part.name == SMALLER).count();
    assert_eq!(named, 0);
}

/// 900 chains of four are more than a tree has, and each of them is large enough for one.
#[test]
fn a_tree_that_is_too_wide_loses_nothing_but_names() {
    let stacks: Vec<(String, i64)> = (0..900)
        .map(|nth| (format!("e{nth}<d{nth}<c{nth}<b{nth}<main.main"), 100))
        .collect();
    let profile = profile(ProfileKind::Cpu, &stacks);
    let reading = read(ProfileKind::Cpu, &profile, &Rules::default());
    assert_eq!(
        nodes(&reading),
        [
            (0, "main.main", 90_000),
            (1, SMALLER, 90_000),
            (0, SMALLER, 0)
        ]
    );
    assert_sums_hold(&profile, &reading);
}

#[test]
fn names_and_callers_that_are_missing_are_told() {
    let reading = reading_of(
        ProfileKind::Stacks,
        &[
            ("[kernel]|tcp_sendmsg<|<[kernel]|entry<|<own.f<main", 60),
            ("", 40),
        ],
    );
    // The leaf has a name, but a stack without frames has none; and of frames outside of the kernel
    // one of three has none.
    let whole = reading.whole.as_ref().unwrap();
    assert_eq!(reading.named_share, 0.6);
    assert_eq!(whole.frames_named_share, Some(2.0 / 3.0));
    assert_eq!(whole.rooted_share, Some(0.6));
    assert_eq!(
        doubts(&reading),
        [
            Doubt::Symbols(0.6),
            Doubt::Frames(2.0 / 3.0),
            Doubt::Roots(0.6)
        ]
    );
    let whole = reading_of(ProfileKind::Stacks, &[("own.f<main<__libc_start_main", 9)]);
    assert_eq!(doubts(&whole), []);
    let cut = reading_of(ProfileKind::Stacks, &[("own.f<own.g", 9)]);
    assert_eq!(doubts(&cut)[0], Doubt::Roots(0.0));
    // Go's own profiler does not write where goroutines begin.
    let of_go = reading_of(ProfileKind::Cpu, &[("own.f<own.g", 9)]);
    assert_eq!(of_go.whole.as_ref().unwrap().rooted_share, None);
    assert_eq!(doubts(&of_go), []);
}

/// A library without frame pointers ends the stack of who waits in it: it may wait for work, or for
/// a lock.
#[test]
fn who_waits_on_a_stack_that_leads_nowhere_is_not_idle() {
    let reading = reading_of(
        ProfileKind::Waits,
        &[
            (
                "[kernel]|schedule<[kernel]|futex_wait<libc.so.6|__lll_lock_wait",
                500_000_000,
            ),
            ("", 30_000_000),
            // Told by the kernel's own function, and Go's own threads.
            ("[kernel]|do_epoll_wait<libc.so.6|epoll_wait", 300_000_000),
            (
                "[kernel]|futex_wait<runtime.futex<runtime.notesleep<runtime.mstart",
                200_000_000,
            ),
            (
                "[kernel]|futex_wait<libc.so.6|pthread_mutex_lock<own_work<main",
                70_000_000,
            ),
        ],
    );
    assert_eq!(reading.total, 1_100_000_000);
    assert_eq!(reading.idle, 500_000_000);
    assert_eq!(reading.unplaced(), 530_000_000);
    assert_eq!(reading.busy(), 70_000_000);
    assert_eq!(reading.per_second(), Some(0.07));
    let of = |parts: &[Part]| parts.iter().map(|part| part.value).sum::<i64>();
    assert_eq!(of(&reading.categories), reading.busy());
    assert_eq!(of(&reading.origins), reading.busy());
    // At no place: neither among who waits nor among who has nothing to do.
    let sites = |idle: bool| -> i64 {
        let sites = reading.sites.iter().filter(|site| site.idle == idle);
        sites.map(|site| site.value).sum()
    };
    assert_eq!((sites(true), sites(false)), (reading.idle, reading.busy()));
    // What may be at other places is not taken for nothing: it is not all of what waits.
    assert_eq!(reading.share_of_busy(70_000_000), 70.0 / 600.0);
    let unplaced = Doubt::Unplaced {
        of_threads: true,
        many: 0.53,
    };
    assert_eq!(doubts(&reading).last(), Some(&unplaced));
}

/// Futexes below so many callers that each is too small for a tree are counted all the same.
#[test]
fn futexes_are_counted_over_all_stacks() {
    let reading = reading_of(
        ProfileKind::Cpu,
        &[
            (
                "runtime.futex<runtime.futexsleep<sync.(*Mutex).Lock<main.call",
                30,
            ),
            (
                "runtime.futex<runtime.futexwakeup<runtime.wakep<main.call",
                10,
            ),
            (
                "sync.(*Mutex).Unlock<runtime.futex.abi0<runtime.stopm<runtime.mcall",
                60,
            ),
            ("main.f<main.main", 900_000),
        ],
    );
    let is_futex = |name: &str| name.starts_with("runtime.futex");
    assert!(!reading.tree.iter().any(|node| is_futex(&node.name)));
    let whole = reading.whole.unwrap();
    assert_eq!((whole.futexes, whole.futexes_of_locks), (100, 30));
}

#[test]
fn frames_and_functions_are_counted_over_all_stacks() {
    let reading = reading_of(
        ProfileKind::Stacks,
        &[
            ("do_syscall_64<entry_SYSCALL_64<syscall.write<main.call", 30),
            (
                "do_syscall_64<runtime.futex<runtime.schedule<runtime.park<runtime.mcall",
                10,
            ),
            ("runtime.procyieldAsm<runtime.lock2<main.call", 7),
            ("main.f<runtime.procyield<main.call", 100),
            ("miniz_oxide::inflate::core::decompress<main.call", 3),
            ("simdutf::convert<main.call", 2),
            ("runtime.memclrNoHeapPointers<main.call", 5),
            ("main.f<main.main", 900_000),
        ],
    );
    // All of them are too small for the tree.
    let is_entry = |name: &str| name.contains("syscall");
    assert!(!reading.tree.iter().any(|node| is_entry(&node.name)));
    let whole = reading.whole.unwrap();
    assert_eq!(whole.frames_before_kernel, Some(2.5));
    assert_eq!(whole.frames_outside_runtime, Some(1.0));
    let own = Own {
        spinning: 7,
        inflating: 3,
        utf8: 2,
        clearing: Some(5),
    };
    assert_eq!(whole.own, Some(own));
    let without = reading_of(ProfileKind::Stacks, &[("main.f<main.main", 1)]);
    assert_eq!(without.whole.unwrap().frames_before_kernel, None);
}

#[test]
fn inflating_and_spinning_go_by_names() {
    assert!(is_inflating("miniz_oxide::inflate::core::decompress"));
    assert!(is_inflating("inflate_fast") && !is_inflating("deflate_slow"));
    assert!(is_spinning("runtime.procyield.abi0") && is_spinning("runtime.procyieldAsm"));
    assert!(!is_spinning("runtime.osyield"));
    assert!(is_clearing("runtime.memclrNoHeapPointers") && !is_clearing("runtime.memmove"));
    assert!(is_clearing("__memset_avx2_unaligned_erms"));
    assert!(is_of_utf8("v8::internal::Utf8DecoderBase::Decode") && !is_of_utf8("memchr"));
}

fn stacks() -> impl Strategy<Value = Vec<(String, i64)>> {
    let frame = prop::sample::select(vec![
        "main.f",
        "main.g",
        "runtime.selectgo",
        "std::sys::futex::wait",
        "sync.(*Mutex).Lock",
        "[kernel]|futex_wait",
        "libc.so.6|poll",
    ]);
    let stack = prop::collection::vec(frame, 0..6).prop_map(|frames| frames.join("<"));
    prop::collection::vec((stack, prop_oneof![1_i64..20, 1_i64..100_000]), 0..60)
}

proptest! {
    #[test]
    fn nothing_is_lost_of_what_has_no_place_or_is_too_small(
        stacks in stacks(),
        kind in prop::sample::select(ProfileKind::ALL.to_vec()),
    ) {
        let profile = profile(kind, &stacks);
        let reading = read(kind, &profile, &Rules::default());
        assert_sums_hold(&profile, &reading);
        let of = |parts: &[Part]| parts.iter().map(|part| part.value).sum::<i64>();
        prop_assert_eq!(of(&reading.categories), reading.busy());
        prop_assert_eq!(reading.busy() + reading.idle + reading.unplaced(), reading.total);
        if !kind.is_of_waits() {
            prop_assert_eq!(reading.unplaced(), 0);
        }
        let of_stacks = matches!(kind, ProfileKind::Stacks | ProfileKind::Waits);
        let whole = reading.whole.as_ref().unwrap();
        prop_assert_eq!(whole.rooted_share.is_some(), of_stacks && reading.total > 0);
        for share in [whole.frames_named_share, whole.rooted_share].into_iter().flatten() {
            prop_assert!((0.0..=1.0).contains(&share));
        }
    }
}
