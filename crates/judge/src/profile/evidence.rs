//! What profiles add to a verdict: the function behind the wall, and the lock that is none.

use wallfinder_model::detail::{Place, Waiters};
use wallfinder_model::evidence::{Evidence, Fact};
use wallfinder_model::profile::{ProfileKind, Profiles, Reading, Site};
use wallfinder_model::reason::Side;
use wallfinder_model::verdict::How;
use wallfinder_model::{Detail, Step, Wall};

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
    let mut found = client.map_or_else(Vec::new, |client| of_cpu(client, Side::Client));
    found.extend(
        step.profiles
            .iter()
            .flat_map(|of| of_server(step, wall, how, of)),
    );
    found
}

/// What a wall of processors is made of, where profiles say that it is no work of the application.
pub fn made_of(step: &Step, wall: Wall) -> Option<Detail> {
    let (profiles, side) = match wall {
        Wall::ServerCpu => (step.profiles.as_ref()?, Side::Server),
        Wall::ClientCpu => (step.client_profiles.as_ref()?, Side::Client),
        _ => return None,
    };
    let share = collection(profiles).filter(|share| *share >= COLLECTION_MUCH)?;
    Some(Detail::Collector { side, share })
}

/// The collector's part of the CPU, where it is a reason.
fn collection(profiles: &Profiles) -> Option<f64> {
    let cpu = profiles.of_cpu().filter(|cpu| cpu.busy() > 0)?;
    let share = cpu.share_of_busy(cpu.category("collection"));
    (share >= COLLECTION_MIN).then_some(share)
}

/// The lock at which most of what waits stands in line, where requests are served one at a time: a futex
/// below the server's own code is one then.
pub(crate) fn lock(step: &Step) -> Option<Detail> {
    const LOCKS: [&str; 4] = ["Mutex", "mutex", "Lock", "futex"];
    const NO_LOCKS: [&str; 2] = ["Condvar", "park"];
    let block = step.profiles.as_ref()?.of_waits()?;
    let site = block.sites.iter().find(|site| !site.idle)?;
    let is_in = |names: &[&str]| names.iter().any(|name| site.waits_in.contains(name));
    let waiting = site.value as f64 / block.duration_ns as f64;
    let most = block.share_of_busy(site.value) >= MOST && waiting >= 1.0;
    (most && waiting.is_finite() && is_in(&LOCKS) && !is_in(&NO_LOCKS)).then(|| Detail::LockAt {
        place: place_of(site),
        waiting,
        who: waiters(block),
    })
}

/// Who waits.
fn waiters(block: &Reading) -> Waiters {
    match block.kind {
        ProfileKind::Waits => Waiters::Threads,
        _ => Waiters::Goroutines,
    }
}

fn place_of(site: &Site) -> Place {
    Place {
        waits_in: site.waits_in.clone(),
        function: site.function.clone(),
        line: site.line.clone(),
    }
}

/// What is waited in and where: `sync.(*Mutex).Lock in main.next (main.go:12)`.
pub fn place(waits_in: &str, function: &str, line: &str) -> String {
    let line = match line {
        "" => String::new(),
        line => format!(" ({line})"),
    };
    match waits_in {
        "" => format!("{}{line}", short(function)),
        waits_in => format!("{} in {}{line}", short(waits_in), short(function)),
    }
}

fn of_server(step: &Step, wall: Wall, how: How, profiles: &Profiles) -> Vec<Evidence> {
    let cpu = of_cpu(profiles, Side::Server);
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

fn of_cpu(profiles: &Profiles, side: Side) -> Vec<Evidence> {
    let Some(cpu) = profiles.of_cpu().filter(|cpu| cpu.busy() > 0) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let share = |value: i64| cpu.share_of_busy(value);
    // That a stripped program has no symbols is no answer to what it does.
    let nameless = cpu.functions.first().filter(|it| it.name == NAMELESS);
    let function = cpu.functions.iter().find(|it| it.name != NAMELESS);
    if let (Some(category), Some(function)) = (cpu.categories.first(), function) {
        let fact = Fact::Cpu {
            side,
            category: category.name.clone(),
            share: share(category.value),
            function: function.name.clone(),
            own: share(function.own),
            nameless: nameless.map(|it| share(it.own)),
        };
        found.push(Evidence::new("profile.cpu", share(category.value), fact));
    }
    found.extend(collection(profiles).map(|share| {
        let fact = Fact::Collector { side, share };
        Evidence::new("profile.collection", share, fact)
    }));
    found
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
    let all_there = is_there && most_are_there;
    let fact = Fact::Waiting {
        place: place_of(site),
        share,
        waiting,
        who: waiters(block),
        of_in_flight: all_there.then_some(step.in_flight_mean),
        no_wall: !most_are_there && excludes_waits(wall, how),
        but_sockets: waits_for_sockets(profiles, block),
    };
    Some(Evidence::new("profile.waiting", waiting, fact))
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

/// Allocation worth a word: more for each request than a page.
fn of_allocations(profiles: &Profiles, allocs: &Reading) -> Option<Evidence> {
    const BYTES_MIN: f64 = 4096.0;
    let each = allocs.total as f64 / profiles.answered_in(allocs.duration_ns);
    let function = allocs.functions.first()?;
    (each.is_finite() && each >= BYTES_MIN).then(|| {
        let fact = Fact::Allocated {
            bytes: each,
            function: function.name.clone(),
        };
        Evidence::new("profile.allocated_bytes", each, fact)
    })
}
