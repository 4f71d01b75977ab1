//! What profiles say, in words and rows: shared by terminal text and the page.

pub(crate) use wallfinder_judge::profile::short;

use wallfinder_judge::profile::Doubt;
use wallfinder_model::profile::{ProfileKind, Profiles, Reading, Site};

use crate::number;

/// What is waited in and where.
pub(crate) fn place(site: &Site) -> String {
    wallfinder_judge::profile::place(&site.waits_in, &site.function, &site.line)
}

/// A value of a reading, in its unit: `3.4 s`, `1.2 MB`, `512`.
pub(crate) fn value(reading: &Reading, value: i64) -> String {
    match reading.measure.unit.as_str() {
        "nanoseconds" => number::span(value as f64),
        "bytes" => number::bytes(value as f64),
        _ => number::whole(value.max(0) as u64),
    }
}

/// A value for each request that was answered, where that is a sensible question.
pub(crate) fn per_request(profiles: &Profiles, reading: &Reading, of: i64) -> Option<String> {
    let answered = answered(profiles, reading);
    let is_flow = answered > 0.0;
    let each = of as f64 / answered;
    match reading.measure.unit.as_str() {
        "nanoseconds" if is_flow => Some(number::span(each)),
        "bytes" if is_flow => Some(number::bytes(each)),
        _ => None,
    }
}

/// Requests that were answered while it was taken; 0 of a moment.
pub(crate) fn answered(profiles: &Profiles, reading: &Reading) -> f64 {
    profiles.answered_in(reading.duration_ns)
}

/// What is to be known before a reading is believed.
pub(crate) fn doubts(reading: &Reading) -> impl Iterator<Item = String> {
    let percent = |share: f64| (100.0 * share + 1e-6).floor();
    wallfinder_judge::profile::doubts(reading)
        .into_iter()
        .map(move |doubt| match doubt {
            Doubt::Symbols(named) => format!("only {} % of it has symbols", percent(named)),
            Doubt::Frames(named) => format!("only {} % of all frames have names", percent(named)),
            Doubt::Roots(rooted) => format!(
                "only {} % of it is on stacks that lead to where a thread begins: others lack callers, which \
                 have too little with their callees",
                percent(rooted)
            ),
            Doubt::Unplaced { of_threads, many } => format!(
                "{many:.*} {} more wait on stacks that lead to nobody's own code: whether they have anything \
                 to do is not known",
                if many.fract() == 0.0 { 0 } else { 2 },
                if of_threads { "threads" } else { "goroutines" }
            ),
        })
}

/// What a kind of profile is of, with its rate: the first line of its part.
pub(crate) fn headline(profiles: &Profiles, reading: &Reading) -> String {
    let rate = reading.per_second().unwrap_or(0.0);
    let each = per_request(profiles, reading, reading.busy());
    let each = each.map_or(String::new(), |each| format!(", {each} for each request"));
    match reading.kind {
        ProfileKind::Cpu | ProfileKind::Stacks => {
            let samples = match reading.share_error(0.5) {
                Some(error) => format!(
                    "; {} samples, so a half is known to {}",
                    number::whole(reading.count.max(0) as u64),
                    number::share(error)
                ),
                None => String::new(),
            };
            format!("{} cores in use{each}{samples}", number::factor(rate))
        }
        ProfileKind::Block | ProfileKind::Waits => format!(
            "{} {} wait at any moment{each}; {} more have nothing to do{}",
            number::factor(rate),
            match reading.kind {
                ProfileKind::Waits => "threads",
                _ => "goroutines",
            },
            number::factor(at_any_moment(reading, reading.idle)),
            ready(profiles, reading)
        ),
        ProfileKind::Mutex => format!(
            "{} of waiting for mutexes in each second{each}, by who holds them",
            number::span(rate * 1e9)
        ),
        ProfileKind::Allocs => format!("{}/s allocated{each}", number::bytes(rate)),
        ProfileKind::Heap => format!("{} alive", number::bytes(reading.total as f64)),
        ProfileKind::Goroutine => format!(
            "{} at one moment, {} of them with nothing to do",
            number::whole(reading.total.max(0) as u64),
            number::whole(reading.idle.max(0) as u64)
        ),
    }
}

/// How many wait for so long in all, at any moment; 0 where it was only one.
fn at_any_moment(reading: &Reading, ns: i64) -> f64 {
    match reading.duration_ns {
        0 => 0.0,
        duration_ns => ns as f64 / duration_ns as f64,
    }
}

/// How many threads were ready and had no processor, beside where they wait.
fn ready(profiles: &Profiles, reading: &Reading) -> String {
    let of_threads = reading.kind == ProfileKind::Waits;
    let ready_ns = profiles.ready_ns.filter(|_| of_threads);
    ready_ns.map_or(String::new(), |ready_ns| {
        let ready = at_any_moment(reading, ready_ns as i64);
        format!(
            "; {} are ready and wait for a processor",
            number::factor(ready)
        )
    })
}

/// What waits for sockets come to: the first line of their part.
pub(crate) fn headline_of_sockets(reading: &Reading) -> String {
    let waiting = at_any_moment(reading, reading.total.saturating_sub(reading.idle));
    format!(
        "{} threads wait for a socket or a pipe at any moment: for their next request, or for \
         somebody behind, which stacks do not tell apart",
        number::factor(waiting)
    )
}

/// Why a reading has nothing, where it has nothing.
pub(crate) fn empty(reading: &Reading) -> Option<&'static str> {
    if reading.total != 0 {
        return None;
    }
    Some(match reading.kind {
        ProfileKind::Mutex => {
            "no contention was seen: there was none, or the server does not ask for it \
             (runtime.SetMutexProfileFraction(5))"
        }
        ProfileKind::Block => {
            "no wait was seen: there was none, or the server does not ask for it \
             (runtime.SetBlockProfileRate(1_000_000))"
        }
        ProfileKind::Allocs => "nothing that the runtime's sampling (one in 512 KB) has seen",
        ProfileKind::Waits => "no thread of it waited",
        _ => "nothing was sampled",
    })
}

/// CPU in the profile beside that of the kernel.
pub(crate) fn reconciliation(profiles: &Profiles) -> Option<String> {
    let beside = profiles.reconciliation.as_ref()?;
    let machine = beside.machine_cores.map_or(String::new(), |cores| {
        format!(
            ", and {} of the processors it may use are busy in all",
            number::factor(cores)
        )
    });
    let off = match beside.off_profile_share {
        share if share >= 0.0 => format!("{} of it is not in the profile", number::share(share)),
        share => format!("the profile has {} more", number::share(-share)),
    };
    Some(format!(
        "{} cores by the profile, {} by the kernel: {off}{machine}",
        number::factor(beside.profile_cores),
        number::factor(beside.process_cores)
    ))
}

/// The callers of a site, from the nearest, as far as they say something.
pub(crate) fn callers(site: &Site, most: usize) -> String {
    let callers = site.path.iter().skip(1).take(most);
    let names: Vec<&str> = callers.map(|name| short(name)).collect();
    names.join(" < ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// 3.5 s of waiting within a second, of which one has nothing to do.
    fn waits() -> Reading {
        let reading = json!({
            "kind": "waits",
            "measure": { "name": "delay", "unit": "nanoseconds" },
            "duration_ns": 1_000_000_000,
            "total": 3_500_000_000_i64,
            "count": 7,
            "idle": 1_000_000_000,
            "named_share": 1.0,
            "origins": [],
            "categories": [],
            "functions": [],
            "sites": [],
            "tree": [],
        });
        serde_json::from_value(reading).unwrap()
    }

    #[test]
    fn who_is_ready_is_told_beside_who_waits() {
        let mut profiles = Profiles::default();
        let waiting = "2.50 threads wait at any moment; 1.00 more have nothing to do";
        assert_eq!(headline(&profiles, &waits()), waiting);
        profiles.ready_ns = Some(250_000_000);
        assert_eq!(
            headline(&profiles, &waits()),
            format!("{waiting}; 0.25 are ready and wait for a processor")
        );
    }

    #[test]
    fn waits_for_sockets_are_told_without_those_that_have_nothing_to_do() {
        let headline = headline_of_sockets(&waits());
        assert!(
            headline.starts_with("2.50 threads wait for a socket"),
            "{headline}"
        );
    }
}
