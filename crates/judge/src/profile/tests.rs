//! Profiles written as stacks from the leaf, and what is read of them.

use proptest::prelude::*;
use wallfinder_model::detail::Waiters;
use wallfinder_model::evidence::Fact;
use wallfinder_model::profile::{
    Function, Profile, ProfileKind, Profiles, StackFrame, StackSample,
};
use wallfinder_model::reason::Side;
use wallfinder_model::verdict::How;
use wallfinder_model::{Detail, Step, Wall};

use super::*;
use crate::double;

/// Functions and samples of stacks written from the leaf, each with its values: `("a<b<c", vec![5])`.
pub(super) fn written<N: AsRef<str>>(
    stacks: impl IntoIterator<Item = (N, Vec<i64>)>,
) -> (Vec<Function>, Vec<StackSample>) {
    let mut functions: Vec<Function> = Vec::new();
    let mut samples = Vec::new();
    for (stack, values) in stacks {
        let names = stack.as_ref().split('<').filter(|name| !name.is_empty());
        let frames = names.map(|name| {
            let at = functions.iter().position(|function| function.name == name);
            let function = at.unwrap_or_else(|| {
                functions.push(Function {
                    name: name.to_owned(),
                    file: "/src/a.go".to_owned(),
                });
                functions.len() - 1
            });
            StackFrame {
                function: function as u32,
                line: 7,
            }
        });
        samples.push(StackSample {
            stack: frames.collect(),
            values,
        });
    }
    (functions, samples)
}

/// A profile of stacks written from the leaf: `("a<b<c", 5)`.
fn profile(measure: &str, unit: &str, stacks: &[(&str, i64)]) -> Profile {
    let stacks = stacks.iter().map(|(stack, value)| (stack, vec![*value]));
    let (functions, samples) = written(stacks);
    Profile {
        measures: vec![Measure {
            name: measure.to_owned(),
            unit: unit.to_owned(),
        }],
        functions,
        samples,
        duration_ns: 2_000_000_000,
    }
}

/// What a server says of itself may be any number.
#[test]
fn values_at_their_limits_do_not_overflow_any_sum() {
    let kinds = [
        (ProfileKind::Cpu, "cpu"),
        (ProfileKind::Block, "delay"),
        (ProfileKind::Mutex, "delay"),
        (ProfileKind::Waits, "delay"),
        (ProfileKind::Stacks, "cpu"),
        (ProfileKind::Heap, "inuse_space"),
        (ProfileKind::Allocs, "alloc_space"),
        (ProfileKind::Goroutine, "goroutine"),
    ];
    let stacks = [
        "main.a<main.main",
        "main.a<main.main",
        "sync.(*Mutex).Lock<main.next<main.main",
        "sync.(*Mutex).Lock<main.next<main.main",
        "futex<runtime.futex<runtime.lock2<main.main",
        "runtime.gopark<net/http.(*conn).serve",
        "runtime.gopark",
        "",
        "",
    ];
    for (kind, measure) in kinds {
        for value in [i64::MAX, i64::MIN] {
            let mut of_limits =
                profile(measure, "nanoseconds", &stacks.map(|stack| (stack, value)));
            for name in ["samples", "contentions"] {
                of_limits.measures.push(Measure {
                    name: name.to_owned(),
                    unit: "count".to_owned(),
                });
            }
            for sample in &mut of_limits.samples {
                sample.values.extend([value, value]);
            }
            let rules = Rules::default();
            let reading = read(kind, &of_limits, &rules);
            assert_eq!(reading.total, value, "{kind:?}");
            let _ = folded(kind, &of_limits);
            let taken = Taken {
                profile: &of_limits,
                answered: Some(1.0),
            };
            let _ = difference(kind, taken, taken);
            let merged = merge(vec![of_limits.clone(), of_limits]).unwrap().unwrap();
            let merged = read(kind, &merged, &rules);
            let mut step = double::a_step().build();
            step.profiles = Some(Profiles {
                window_ns: 1,
                readings: vec![reading, merged.clone()],
                socket_waits: Some(merged),
                ready_ns: Some(u64::MAX),
                ..Profiles::default()
            });
            for wall in Wall::ALL {
                let _ = evidence(&step, wall, How::Observed);
            }
        }
    }
}

fn read_cpu(stacks: &[(&str, i64)]) -> Reading {
    let profile = profile("cpu", "nanoseconds", stacks);
    read(ProfileKind::Cpu, &profile, &Rules::default())
}

#[test]
fn a_helper_counts_for_whoever_called_it() {
    let reading = read_cpu(&[
        (
            "runtime.memclrNoHeapPointers<runtime.mallocgc<main.handler",
            30,
        ),
        (
            "runtime.futex<runtime.futexwakeup<runtime.wakep<main.handler",
            20,
        ),
        (
            "internal/runtime/syscall/linux.Syscall6<syscall.write<main.handler",
            40,
        ),
        ("main.sorted<main.handler", 10),
    ]);
    let categories: Vec<(&str, i64)> = reading
        .categories
        .iter()
        .map(|part| (part.name.as_str(), part.value))
        .collect();
    assert_eq!(
        categories,
        [
            ("writing to sockets", 40),
            ("allocation", 30),
            ("futex", 20),
            ("application", 10)
        ]
    );
    let origins: Vec<(&str, i64)> = reading
        .origins
        .iter()
        .map(|part| (part.name.as_str(), part.value))
        .collect();
    assert_eq!(
        origins,
        [("kernel", 60), ("runtime", 30), ("application", 10)]
    );
    assert_eq!(reading.named_share, 1.0);
}

#[test]
fn functions_have_what_is_theirs_and_recursion_counts_once() {
    let reading = read_cpu(&[("main.f<main.f<main.main", 10), ("main.main", 5)]);
    let of = |name: &str| {
        let part = reading.functions.iter().find(|part| part.name == name);
        part.map(|part| (part.own, part.with_callees))
    };
    assert_eq!(of("main.f"), Some((10, 10)));
    assert_eq!(of("main.main"), Some((5, 15)));
}

#[test]
fn functions_that_hold_nothing_any_more_are_not_told_of() {
    let stacks = [
        ("main.page<main.main", 5),
        ("flate.init<main.main", 0),
        ("a.freed<a.b", 0),
    ];
    let profile = profile("inuse_space", "bytes", &stacks);
    let reading = read(ProfileKind::Heap, &profile, &Rules::default());
    let names: Vec<&str> = reading
        .functions
        .iter()
        .map(|part| part.name.as_str())
        .collect();
    assert_eq!(names, ["main.page", "main.main"]);
}

#[test]
fn who_waits_for_work_is_told_from_who_waits_for_a_lock() {
    let stacks = [
        (
            "sync.(*Mutex).Lock<github.com/brianvoe/gofakeit/v7/source.(*lockedSource).Uint64\
             <main.readLocked<github.com/valyala/fasthttp.(*Server).serveConn\
             <github.com/valyala/fasthttp.(*workerPool).workerFunc",
            400,
        ),
        (
            "runtime.selectgo<net/http/pprof.sleep<net/http/pprof.Profile",
            60,
        ),
        (
            "runtime.chanrecv1<github.com/valyala/fasthttp.(*workerPool).workerFunc",
            50,
        ),
    ];
    let profile = profile("delay", "nanoseconds", &stacks);
    let reading = read(ProfileKind::Block, &profile, &Rules::default());
    assert_eq!(
        (reading.total, reading.idle, reading.busy()),
        (510, 110, 400)
    );
    let lock = &reading.sites[0];
    assert!(
        lock.function.ends_with("(*lockedSource).Uint64"),
        "{lock:?}"
    );
    assert_eq!(lock.waits_in, "sync.(*Mutex).Lock");
    assert_eq!(lock.line, "a.go:7");
    assert_eq!((lock.value, lock.idle), (400, false));
    assert_eq!(lock.path[1], "main.readLocked");
    assert!(reading.sites[1..].iter().all(|site| site.idle));
    // 400 ns of waiting in two seconds.
    assert_eq!(reading.per_second(), Some(200e-9));
}

#[test]
fn nobody_who_waits_for_a_lock_has_nothing_to_do() {
    // Names alone would say of these that they accept, or serve nobody.
    let stacks = [
        ("sync.(*Mutex).Lock<main.serveOrder<main.handle", 3),
        ("sync.(*RWMutex).RLock<main.server.handle<main.main", 4),
        (
            "internal/sync.(*Mutex).lockSlow<sync.(*Mutex).Lock\
             <github.com/valyala/fasthttp.(*workerPool).getCh",
            5,
        ),
        ("runtime.selectgo<main.main", 200),
    ];
    let profile = profile("delay", "nanoseconds", &stacks);
    let reading = read(ProfileKind::Block, &profile, &Rules::default());
    assert_eq!((reading.busy(), reading.idle), (12, 200));
}

#[test]
fn a_handler_that_waits_is_not_idle_whatever_its_name() {
    let stacks = [
        ("runtime.chanrecv1<main.serve<net/http.(*conn).serve", 1),
        ("runtime.chansend1<main.serveOrder<main.handle", 2),
        ("runtime.selectgo<main.run<main.handle", 4),
        ("runtime.chanrecv1<main.main.func1", 8),
        // The process waits for its end.
        ("runtime.selectgo<main.main<runtime.main", 100),
    ];
    let profile = profile("delay", "nanoseconds", &stacks);
    let reading = read(ProfileKind::Block, &profile, &Rules::default());
    assert_eq!((reading.busy(), reading.idle), (15, 100));
}

#[test]
fn names_lose_their_paths_and_keep_their_types() {
    assert_eq!(
        short("github.com/valyala/fasthttp.(*Server).serveConn"),
        "fasthttp.(*Server).serveConn"
    );
    assert_eq!(short("main.main"), "main.main");
    assert_eq!(
        short("sync/atomic.(*Pointer[go.shape.struct { a/b.c }]).Load"),
        "atomic.(*Pointer[go.shape.struct { a/b.c }]).Load"
    );
}

/// A step in which so many goroutines waited at a lock, of so many requests in flight.
fn with_a_lock(waiting: f64, in_flight: f64) -> Step {
    let value = (waiting * 2e9) as i64;
    let stacks = [("sync.(*Mutex).Lock<main.next<main.handler", value)];
    let block = profile("delay", "nanoseconds", &stacks);
    let rules = Rules::default();
    let profiles = Profiles {
        answered: 1000.0,
        readings: vec![
            read(ProfileKind::Block, &block, &rules),
            read_cpu(&[
                ("runtime.scanobject<runtime.gcDrain", 30),
                ("main.handler", 70),
            ]),
        ],
        ..Profiles::default()
    };
    let with = |step: &mut Step| step.profiles = Some(profiles);
    double::a_step().in_flight(in_flight).with(with).build()
}

#[test]
fn a_lock_is_evidence_for_a_serial_wall_and_a_warning_beside_another() {
    let step = with_a_lock(14.0, 16.0);
    let serial = evidence(&step, Wall::ServerSerial, How::Observed);
    let Fact::Waiting {
        place,
        share,
        waiting,
        of_in_flight,
        ..
    } = &serial[0].fact
    else {
        panic!("{serial:#?}");
    };
    let at = [&place.waits_in[..], &place.function, &place.line];
    assert_eq!(at, ["sync.(*Mutex).Lock", "main.next", "a.go:7"]);
    assert_eq!((*share, *waiting, *of_in_flight), (1.0, 14.0, Some(16.0)));
    let beside = evidence(&with_a_lock(0.5, 64.0), Wall::ServerCpu, How::Proved);
    assert!(matches!(
        &beside[0].fact,
        Fact::Cpu { side: Side::Server, category, share, .. }
            if category == "application" && (share - 0.7).abs() < 1e-9
    ));
    assert!(
        matches!(beside[1].fact, Fact::Collector { side: Side::Server, share } if (share - 0.3).abs() < 1e-9)
    );
    assert!(matches!(
        beside[2].fact,
        Fact::Waiting { no_wall: true, .. }
    ));
    // Next to nobody waits: not worth a word.
    let rare = evidence(&with_a_lock(0.001, 64.0), Wall::ServerCpu, How::Proved);
    assert!(
        rare.iter().all(|one| one.measure != "profile.waiting"),
        "{rare:?}"
    );
    let nothing = evidence(&double::a_step().build(), Wall::ServerCpu, How::Proved);
    assert!(nothing.is_empty(), "{nothing:?}");
}

#[test]
fn code_without_symbols_stands_beside_the_function_that_has_one() {
    let stacks = [("stripped<main", 60), ("ngx_writev<main", 40)];
    let mut of_cpu = profile("cpu", "nanoseconds", &stacks);
    of_cpu.functions[0].name.clear();
    let profiles = Profiles {
        readings: vec![read(ProfileKind::Cpu, &of_cpu, &Rules::default())],
        ..Profiles::default()
    };
    let with = |step: &mut Step| step.profiles = Some(profiles);
    let step = double::a_step().with(with).build();
    let found = evidence(&step, Wall::ServerCpu, How::Proved);
    assert!(matches!(
        &found[0].fact,
        Fact::Cpu { function, own, nameless: Some(nameless), .. }
            if function == "ngx_writev" && (own - 0.4).abs() < 1e-9 && (nameless - 0.6).abs() < 1e-9
    ));
}

/// What is said of the place that most of what waits waits at.
fn of_the_place(step: &Step, wall: Wall, how: How) -> Fact {
    let found = evidence(step, wall, how).into_iter();
    let mut of_waits = found.filter(|one| one.measure == "profile.waiting");
    of_waits.next().expect("a place").fact
}

#[test]
fn a_lock_is_excluded_only_where_squeezes_found_a_resource() {
    const HOWS: [How; 4] = [How::Inconclusive, How::Observed, How::Likely, How::Proved];
    let said_of = [
        Wall::ServerCpu,
        Wall::ClientCpu,
        Wall::Downlink,
        Wall::Uplink,
    ];
    let said_by = [How::Likely, How::Proved];
    for wall in Wall::ALL {
        for how in HOWS {
            let excluded = said_of.contains(&wall) && said_by.contains(&how);
            let few = of_the_place(&with_a_lock(0.5, 64.0), wall, how);
            assert!(
                matches!(few, Fact::Waiting { no_wall, waiting, .. } if no_wall == excluded && waiting == 0.5),
                "{wall:?}, {how:?}: {few:?}"
            );
            // Where most requests may be, nothing is excluded.
            let most = of_the_place(&with_a_lock(40.0, 64.0), wall, how);
            assert!(
                matches!(most, Fact::Waiting { no_wall: false, .. }),
                "{wall:?}, {how:?}: {most:?}"
            );
        }
    }
}

#[test]
fn telemetry_alone_does_not_say_that_a_lock_is_not_the_wall() {
    let locked = with_a_lock(0.5, 64.0).profiles;
    let full = double::a_step().server(1.0, 0.98).client(1.0, 0.41);
    let step = full.with(|step| step.profiles = locked).build();
    let verdict = crate::observed::verdict(&step, &double::a_machine());
    assert_eq!(
        (verdict.wall, verdict.how),
        (Wall::ServerCpu, How::Observed)
    );
    let mut facts = verdict.evidence.iter().map(|one| &one.fact);
    let waiting = facts.find(|fact| matches!(fact, Fact::Waiting { .. }));
    assert!(
        matches!(
            waiting,
            Some(Fact::Waiting {
                no_wall: false,
                of_in_flight: None,
                ..
            })
        ),
        "{waiting:?}"
    );
}

#[test]
fn waits_beside_waits_for_sockets_are_told_to_be_without_them() {
    let mut step = with_a_lock(0.5, 64.0);
    let profiles = step.profiles.as_mut().unwrap();
    profiles.readings[0].kind = ProfileKind::Waits;
    profiles.socket_waits = Some(profiles.readings[0].clone());
    let fact = of_the_place(&step, Wall::ServerCpu, How::Observed);
    assert!(
        matches!(
            fact,
            Fact::Waiting {
                but_sockets: true,
                who: Waiters::Threads,
                ..
            }
        ),
        "{fact:?}"
    );
    // Of goroutines nothing was taken away.
    let profiles = step.profiles.as_mut().unwrap();
    profiles.readings[0].kind = ProfileKind::Block;
    let fact = of_the_place(&step, Wall::ServerCpu, How::Observed);
    assert!(
        matches!(
            fact,
            Fact::Waiting {
                but_sockets: false,
                ..
            }
        ),
        "{fact:?}"
    );
}

#[test]
fn a_collector_with_much_of_the_cpu_is_what_the_wall_is_made_of() {
    let step = with_a_lock(0.5, 64.0);
    let of = |wall| made_of(&step, wall);
    assert!(matches!(
        of(Wall::ServerCpu),
        Some(Detail::Collector { side: Side::Server, share }) if (share - 0.3).abs() < 1e-9
    ));
    assert_eq!(of(Wall::ClientCpu), None, "nobody looked into the client");
    assert_eq!(of(Wall::Wait), None);
}

#[test]
fn a_lock_is_named_where_most_of_what_waits_stands_in_line_for_it() {
    let named = lock(&with_a_lock(6.0, 64.0)).unwrap();
    assert!(
        matches!(&named, Detail::LockAt { place, waiting: 6.0, who: Waiters::Goroutines } if place.function == "main.next"),
        "{named:?}"
    );
    assert_eq!(lock(&with_a_lock(0.5, 64.0)), None, "hardly anybody waits");
    assert_eq!(lock(&double::a_step().build()), None);
}

#[test]
fn a_load_generator_that_is_the_wall_is_looked_into_first() {
    let mut step = with_a_lock(0.5, 64.0);
    step.client_profiles = Some(Profiles {
        readings: vec![read_cpu(&[
            ("client.parse<client.main", 80),
            ("write<client.main", 20),
        ])],
        ..Profiles::default()
    });
    let facts = |wall| -> Vec<Fact> {
        let found = evidence(&step, wall, How::Proved);
        found.into_iter().map(|one| one.fact).collect()
    };
    let client = facts(Wall::ClientCpu);
    assert!(matches!(
        &client[0],
        Fact::Cpu { side: Side::Client, category, function, .. }
            if category == "library" && function == "client.parse"
    ));
    assert!(
        matches!(
            client[1],
            Fact::Cpu {
                side: Side::Server,
                ..
            }
        ),
        "{client:?}"
    );
    // Where it is not the wall, what it does is no reason.
    assert_eq!(facts(Wall::ServerCpu), client[1..]);
}

#[test]
fn a_bare_system_call_has_the_kernels_name() {
    let mut profile = profile(
        "delay",
        "nanoseconds",
        &[(
            "schedule<futex_wait<__x64_sys_futex<do_syscall_64<syscall<own::request<own::run",
            5,
        )],
    );
    for (function, file) in profile.functions.iter_mut().zip([
        "[kernel]",
        "[kernel]",
        "[kernel]",
        "[kernel]",
        "libc.so.6",
        "own",
        "own",
    ]) {
        function.file = file.to_owned();
    }
    for frame in &mut profile.samples[0].stack {
        frame.line = 0;
    }
    let reading = read(ProfileKind::Waits, &profile, &Rules::default());
    let site = &reading.sites[0];
    assert_eq!(
        (site.function.as_str(), site.line.as_str()),
        ("own::request", "")
    );
    assert_eq!((site.waits_in.as_str(), site.idle), ("futex", false));
}

#[test]
fn a_profile_beside_the_kernel_says_what_it_lacks() {
    let reading = read_cpu(&[("main.f", 1_500_000_000)]);
    let beside = reconcile(&reading, 1.0, Some(1.2)).unwrap();
    assert_eq!(beside.profile_cores, 0.75);
    assert_eq!(beside.off_profile_share, 0.25);
    assert_eq!(reconcile(&reading, 0.0, None), None);
}

#[test]
fn profiles_of_one_kind_merge_and_others_do_not() {
    let a = profile("cpu", "nanoseconds", &[("x<y", 1)]);
    let b = profile("cpu", "nanoseconds", &[("z<y", 2), ("x<y", 3)]);
    let merged = merge(vec![a.clone(), b]).unwrap().unwrap();
    assert_eq!(merged.functions.len(), 3);
    assert_eq!(folded(ProfileKind::Cpu, &merged), "y;x 4\ny;z 2\n");
    let other = profile("delay", "nanoseconds", &[("x", 1)]);
    let said = merge(vec![a, other]).unwrap_err().to_string();
    assert!(said.contains("cpu and delay"), "{said}");
    assert_eq!(merge(Vec::new()), Ok(None));
}

fn stacks() -> impl Strategy<Value = Vec<(String, i64)>> {
    let name = prop::sample::select(vec![
        "runtime.mallocgc",
        "runtime.selectgo",
        "sync.(*Mutex).Lock",
        "main.f",
        "main.g",
        "net/http/pprof.sleep",
        "github.com/a/b.c",
    ]);
    let stack = prop::collection::vec(name, 1..8).prop_map(|names| names.join("<"));
    prop::collection::vec((stack, 1_i64..1000), 0..40)
}

fn borrowed(stacks: &[(String, i64)]) -> Vec<(&str, i64)> {
    stacks
        .iter()
        .map(|(stack, value)| (stack.as_str(), *value))
        .collect()
}

proptest! {
    #[test]
    fn nothing_is_lost(stacks in stacks(), kind in prop::sample::select(ProfileKind::ALL.to_vec())) {
        let total: i64 = stacks.iter().map(|(_, value)| value).sum();
        let profile = profile(kind.measure(), "count", &borrowed(&stacks));
        let reading = read(kind, &profile, &Rules::default());
        prop_assert_eq!(reading.total, total);
        let of = |parts: &[Part]| parts.iter().map(|part| part.value).sum::<i64>();
        prop_assert_eq!(of(&reading.categories) + reading.idle, total);
        prop_assert_eq!(of(&reading.origins) + reading.idle, total);
        prop_assert_eq!(reading.functions.iter().map(|part| part.own).sum::<i64>(), total);
        if matches!(kind, ProfileKind::Block | ProfileKind::Mutex | ProfileKind::Goroutine) {
            prop_assert_eq!(reading.sites.iter().map(|site| site.value).sum::<i64>(), total);
        }
        for part in &reading.functions {
            prop_assert!(part.own <= part.with_callees && part.with_callees <= total);
        }
        // A node has at least what its children have.
        for (at, node) in reading.tree.iter().enumerate() {
            let below = reading.tree[at + 1..].iter().take_while(|other| other.depth > node.depth);
            let children = below.filter(|other| other.depth == node.depth + 1);
            prop_assert!(children.map(|child| child.value).sum::<i64>() <= node.value);
        }
    }

    #[test]
    fn merging_and_reading_commute(a in stacks(), b in stacks()) {
        let both: Vec<(String, i64)> = a.iter().chain(&b).cloned().collect();
        let profile = |stacks: &[(String, i64)]| profile("delay", "nanoseconds", &borrowed(stacks));
        let merged = merge(vec![profile(&a), profile(&b)]).unwrap().unwrap();
        let rules = Rules::default();
        prop_assert_eq!(
            read(ProfileKind::Block, &merged, &rules),
            read(ProfileKind::Block, &profile(&both), &rules)
        );
    }
}
