//! What profiles add to a verdict: the function behind the wall, and the lock that is none.

use wallfinder_model::profile::{ProfileKind, Profiles, Reading, Site};
use wallfinder_model::verdict::{Evidence, How};
use wallfinder_model::{Step, Wall};

use super::{NAMELESS, short};

/// A collector with less of the CPU than this is no reason.
const COLLECTION_MIN: f64 = 0.1;
/// With this much it is what the wall is made of.
const COLLECTION_MUCH: f64 = 0.25;
/// A place that fewer wait at is not worth a word: goroutines at any moment.
const WAITING_MIN: f64 = 0.01;
/// A place with at least this share of what waits has most of it.
const MOST: f64 = 0.5;

/// Reasons from the profiles of a step whose wall is known, and how, the strongest first; none where
/// there are no profiles.
pub fn evidence(step: &Step, wall: Wall, how: How) -> Vec<Evidence> {
    // What a client does that is not the wall is nobody's question.
    let client = step.client_profiles.as_ref();
    let client = client.filter(|_| wall == Wall::ClientCpu);
    let mut found = client.map_or_else(Vec::new, |client| of_cpu(client, LOAD_GENERATOR));
    found.extend(
        step.profiles
            .iter()
            .flat_map(|of| of_server(step, wall, how, of)),
    );
    found
}

/// What a wall of processors is made of, where profiles say that it is no work of the application.
pub fn made_of(step: &Step, wall: Wall) -> Option<String> {
    let (profiles, whose) = match wall {
        Wall::ServerCpu => (step.profiles.as_ref()?, SERVER),
        Wall::ClientCpu => (step.client_profiles.as_ref()?, LOAD_GENERATOR),
        _ => return None,
    };
    let collection = of_cpu(profiles, whose)
        .into_iter()
        .find(|evidence| evidence.measure == COLLECTION);
    collection
        .filter(|evidence| evidence.value >= COLLECTION_MUCH)
        .map(|evidence| format!("collection: {}", evidence.text))
}

/// The lock at which most of what waits stands in line, where requests are served one at a time: a futex
/// below the server's own code is one then.
pub(crate) fn lock(step: &Step) -> Option<String> {
    const LOCKS: [&str; 4] = ["Mutex", "mutex", "Lock", "futex"];
    const NO_LOCKS: [&str; 2] = ["Condvar", "park"];
    let block = step.profiles.as_ref()?.of_waits()?;
    let site = block.sites.iter().find(|site| !site.idle)?;
    let is_in = |names: &[&str]| names.iter().any(|name| site.waits_in.contains(name));
    let waiting = site.value as f64 / block.duration_ns as f64;
    let most = block.share_of_busy(site.value) >= MOST && waiting >= 1.0;
    (most && waiting.is_finite() && is_in(&LOCKS) && !is_in(&NO_LOCKS)).then(|| {
        format!(
            "a lock: {}, where {waiting:.1} {} wait at any moment",
            place(site),
            waiters(block)
        )
    })
}

/// Who waits.
fn waiters(block: &Reading) -> &'static str {
    match block.kind {
        ProfileKind::Waits => "threads",
        _ => "goroutines",
    }
}

/// How the two sides are called.
const LOAD_GENERATOR: &str = "load generator";
const SERVER: &str = "server";
/// The measure of the collector's share.
const COLLECTION: &str = "profile.collection";

fn of_server(step: &Step, wall: Wall, how: How, profiles: &Profiles) -> Vec<Evidence> {
    let cpu = of_cpu(profiles, SERVER);
    let waits = of_waits(step, wall, how, profiles);
    let heap = profiles.of(ProfileKind::Allocs);
    let allocated = heap.and_then(|allocs| of_allocations(profiles, allocs));
    match wall {
        Wall::Wait | Wall::ServerSerial | Wall::Concurrency | Wall::Backend => {
            waits.into_iter().chain(cpu).collect()
        }
        _ => cpu.into_iter().chain(waits).chain(allocated).collect(),
    }
}

fn of_cpu(profiles: &Profiles, whose: &str) -> Vec<Evidence> {
    let Some(cpu) = profiles.of_cpu().filter(|cpu| cpu.busy() > 0) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let share = |value: i64| cpu.share_of_busy(value);
    // That a stripped program has no symbols is no answer to what it does.
    let nameless = cpu.functions.first().filter(|it| it.name == NAMELESS);
    let function = cpu.functions.iter().find(|it| it.name != NAMELESS);
    if let (Some(category), Some(function)) = (cpu.categories.first(), function) {
        let without = nameless.map(|it| {
            let part = 100.0 * share(it.own);
            format!(" ({part:.0} % is in code without symbols)")
        });
        found.push(Evidence {
            text: format!(
                "{:.0} % of the {whose}'s CPU is {}; {} has the most of its own, {:.0} %{}",
                100.0 * share(category.value),
                doing(&category.name),
                short(&function.name),
                100.0 * share(function.own),
                without.unwrap_or_default()
            ),
            measure: "profile.cpu".into(),
            value: share(category.value),
        });
    }
    let collection = share(cpu.category("collection"));
    if collection >= COLLECTION_MIN {
        found.push(Evidence {
            text: format!(
                "the garbage collector has {:.0} % of the {whose}'s CPU",
                100.0 * collection
            ),
            measure: COLLECTION.into(),
            value: collection,
        });
    }
    found
}

/// A category in a sentence.
fn doing(category: &str) -> &str {
    match category {
        "application" => "the application's own code",
        "library" => "code of libraries",
        "runtime" => "the runtime's other work",
        "kernel" => "other system calls",
        "locking" => "taking and giving back locks",
        "scheduler" => "the scheduler's",
        "futex" => "waking and sleeping threads",
        "collection" => "the garbage collector's",
        "protocol" => "the protocol's",
        named => named,
    }
}

/// Whether squeezes have shown that waits inside the server are not the wall: they found a resource
/// that is. Telemetry alone shows that of none; and where too little is in flight, or a backend is slow,
/// what is waited for may be just that.
fn excludes_waits(wall: Wall, how: How) -> bool {
    const RESOURCES: [Wall; 4] = [
        Wall::ServerCpu,
        Wall::ClientCpu,
        Wall::Downlink,
        Wall::Uplink,
    ];
    matches!(how, How::Likely | How::Proved) && RESOURCES.contains(&wall)
}

/// The place that most of what waits waits at: the wall's, or a warning that it is none.
fn of_waits(step: &Step, wall: Wall, how: How, profiles: &Profiles) -> Option<Evidence> {
    let block = profiles.of_waits()?;
    let site = block.sites.iter().find(|site| !site.idle)?;
    let seconds = block.duration_ns as f64;
    let waiting = site.value as f64 / seconds;
    let share = block.share_of_busy(site.value);
    if seconds <= 0.0 || waiting < WAITING_MIN || share < MOST {
        return None;
    }
    let is_there = matches!(wall, Wall::Wait | Wall::ServerSerial | Wall::CoLimited);
    let most_are_there = waiting >= MOST * step.in_flight_mean;
    let who = waiters(block);
    let so = match (is_there, most_are_there) {
        (true, true) => format!(
            ": {waiting:.1} of the {:.1} requests in flight are there",
            step.in_flight_mean
        ),
        (_, false) if excludes_waits(wall, how) => {
            format!(", {waiting:.2} {who} at any moment: it is not the wall")
        }
        _ => format!(", {waiting:.2} {who} at any moment"),
    };
    let whole = match waits_for_sockets(profiles, block) {
        true => "anything but a socket is waited for",
        false => "anything waits",
    };
    Some(Evidence {
        text: format!(
            "{} has {:.0} % of the time in which {whole}{so}",
            place(site),
            100.0 * share
        ),
        measure: "profile.waiting".into(),
        value: waiting,
    })
}

/// Whether threads wait for sockets beside a reading that is without them.
fn waits_for_sockets(profiles: &Profiles, block: &Reading) -> bool {
    let sockets = profiles.socket_waits.as_ref();
    let sockets = sockets.filter(|_| block.kind == ProfileKind::Waits);
    sockets.is_some_and(|sockets| {
        let waiting = sockets.total.saturating_sub(sockets.idle);
        let waiting = waiting as f64 / sockets.duration_ns as f64;
        waiting.is_finite() && waiting >= WAITING_MIN
    })
}

/// What is waited in and where: `sync.(*Mutex).Lock in main.next (main.go:12)`.
pub fn place(site: &Site) -> String {
    let line = match site.line.as_str() {
        "" => String::new(),
        line => format!(" ({line})"),
    };
    match site.waits_in.as_str() {
        "" => format!("{}{line}", short(&site.function)),
        waits_in => format!("{} in {}{line}", short(waits_in), short(&site.function)),
    }
}

/// Allocation worth a word: more for each request than a page.
fn of_allocations(profiles: &Profiles, allocs: &Reading) -> Option<Evidence> {
    const BYTES_MIN: f64 = 4096.0;
    let each = allocs.total as f64 / profiles.answered_in(allocs.duration_ns);
    let function = allocs.functions.first()?;
    (each.is_finite() && each >= BYTES_MIN).then(|| Evidence {
        text: format!(
            "each request allocates {:.1} KB, most of it in {}",
            each / 1e3,
            short(&function.name)
        ),
        measure: "profile.allocated_bytes".into(),
        value: each,
    })
}
