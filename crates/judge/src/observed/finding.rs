//! Signs that one resource was full, each from its own rule.
//!
//! A rule looks at one resource alone and says how full it was and how surely. It does
//! not choose between resources: that is [`super::verdict`]'s work. Rules know the ways in
//! which people are fooled: a mean over cores that hides a full one, a quota that leaves
//! the host idle, a neighbour on one's processors, workers that spin, one hot thread on two
//! processors.

use wallfinder_model::Wall;
use wallfinder_model::verdict::Evidence;

use super::client;
use super::sight::{FULL, Side, Sight};
use crate::finite::share;
use crate::words::{percent, trimmed};

/// A resource that was, or may have been, full.
pub(super) struct Finding {
    pub(super) wall: Wall,
    /// How full, 0..1.
    pub(super) level: f64,
    /// How surely it was full, 0..1.
    pub(super) strength: f64,
    /// What it is made of.
    pub(super) detail: Option<String>,
    /// It was full by others' work.
    pub(super) by_others: bool,
    /// The clause that says so: `its one core was 98 % busy`.
    pub(super) clause: String,
    pub(super) evidence: Vec<Evidence>,
}

/// What a serial wall is made of where no thread is hot: who looks inside may know more.
pub(crate) const IN_TURN: &str =
    "one thread at a time: a runtime limited to one processor, or a lock with work inside";

/// Evidence in one line.
pub(super) fn evidence(measure: &str, value: f64, text: String) -> Evidence {
    Evidence {
        text,
        measure: measure.to_owned(),
        value: if value.is_finite() { value } else { 0.0 },
    }
}

/// Every resource that shows a sign of being full.
pub(super) fn all(sight: &Sight) -> Vec<Finding> {
    let mut findings: Vec<Finding> = [
        client::client_cpu(sight),
        server_cpu(sight),
        server_serial(sight),
    ]
    .into_iter()
    .flatten()
    .collect();
    findings.extend(links(sight));
    findings.retain(|finding| finding.strength > 0.0);
    findings
}

/// Both ways of the link.
pub(super) fn links(sight: &Sight) -> Vec<Finding> {
    let down = link(sight.downlink, Wall::Downlink, "downlink");
    let up = link(sight.uplink, Wall::Uplink, "uplink");
    down.into_iter().chain(up).collect()
}

/// How surely a resource this busy is full. Queueing fills the last percents only at much
/// concurrency, and sampling blurs them; below four fifths there is real slack.
pub(super) fn certainty(level: f64) -> f64 {
    const POINTS: [(f64, f64); 6] = [
        (0.80, 0.0),
        (0.85, 0.25),
        (0.90, 0.55),
        (0.95, 0.85),
        (0.98, 0.95),
        (1.00, 0.95),
    ];
    if level <= POINTS[0].0 {
        return 0.0;
    }
    for pair in POINTS.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        if level <= x1 {
            return y0 + (y1 - y0) * (level - x0) / (x1 - x0);
        }
    }
    POINTS[POINTS.len() - 1].1
}

/// What fills a side's processors, its own work aside.
pub(super) struct Crowd {
    pub(super) level: f64,
    pub(super) strength: f64,
    pub(super) detail: Option<String>,
    /// By others' work more than by its own and by what the load brings.
    pub(super) by_others: bool,
    pub(super) evidence: Vec<Evidence>,
}

/// The fullness of a side's processors: its own time, its quota, receive work, neighbours.
pub(super) fn processors(side: &Side, label: &str, whose: &str) -> Crowd {
    let mut evidence_list = vec![evidence(
        &format!("{label}.utilisation"),
        side.utilisation,
        format!(
            "{whose} used {} of {}",
            percent(side.utilisation),
            side.capacity_words()
        ),
    )];
    let mut level = share(side.utilisation);
    let mut strength = certainty(level);
    let mut detail = None;
    if let Some(quota) = side.quota {
        let throttled = side.throttled;
        if throttled > 0.0 {
            evidence_list.push(evidence(
                &format!("{label}.throttled"),
                throttled,
                format!(
                    "{whose} was throttled in {} of its quota periods",
                    percent(throttled)
                ),
            ));
        }
        if level >= 0.85 || throttled >= 0.5 {
            // Throttled in every other period and more: the quota was used up each time.
            level = level.max(if throttled >= 0.5 { 0.97 } else { level });
            strength = certainty(level);
            detail = Some(format!(
                "quota of {} cores; its processors had time left",
                trimmed(quota, 2)
            ));
        }
        return Crowd {
            level,
            strength,
            detail,
            by_others: false,
            evidence: evidence_list,
        };
    }
    let waited = side.run_wait / side.available;
    if waited > 0.05 {
        evidence_list.push(evidence(
            &format!("{label}.run_wait"),
            side.run_wait,
            format!(
                "{whose}'s threads waited for {} cores that they could have used",
                trimmed(side.run_wait, 2)
            ),
        ));
    }
    // Means over many processors hide unevenly dealt work: tasks that waited, and
    // processors full on their own, speak for the wall where the mean is only near.
    if (0.80..FULL).contains(&level) && (waited > 0.25 || side.full_cpus.unwrap_or(0.0) >= 0.5) {
        strength = (strength + 0.25).min(0.85);
    }
    let mut by_others = false;
    let gap = side.cpus_busy - level;
    if side.cpus_busy >= 0.90 && gap > 0.05 {
        let cpus = side.cpus.len().max(1) as f64;
        let softirq = side.softirq.min(gap);
        let neighbour = (side.neighbour / cpus).min(gap);
        level = side.cpus_busy;
        if softirq >= neighbour && softirq >= 0.3 * gap {
            strength = 0.9 * certainty(level);
            detail = Some("softirq: network receive work on its processors".to_owned());
            evidence_list.push(evidence(
                &format!("{label}.softirq"),
                side.softirq,
                format!(
                    "network receive work took {} of {whose}'s processors",
                    percent(side.softirq)
                ),
            ));
        } else {
            by_others = true;
            // A neighbour that yields takes only what nobody wants. Threads that ran or
            // waited all of the time wanted it; who used next to nothing did not.
            let wanted = match side.pressure() {
                _ if side.rests() => 0.0,
                0.9.. => 0.85,
                _ => 0.45,
            };
            strength = wanted * certainty(level);
            let others = side.neighbour.max(gap * cpus);
            detail = Some(format!(
                "neighbour: others used {} of its cores",
                trimmed(others, 2)
            ));
            evidence_list.push(evidence(
                &format!("{label}.neighbour"),
                others,
                format!(
                    "others used {} cores of {whose}'s processors",
                    trimmed(others, 2)
                ),
            ));
        }
        evidence_list.push(evidence(
            &format!("{label}.cpus_busy"),
            side.cpus_busy,
            format!(
                "{whose}'s processors were {} busy, everybody's work included",
                percent(side.cpus_busy)
            ),
        ));
    }
    Crowd {
        level,
        strength,
        detail,
        by_others,
        evidence: evidence_list,
    }
}

fn server_cpu(sight: &Sight) -> Option<Finding> {
    let side = sight.server.as_ref()?;
    let crowd = processors(side, "server", "the server");
    let busy = percent(crowd.level);
    let clause = match (&crowd.detail, side.quota) {
        (Some(_), Some(_)) if side.throttled > 0.0 => format!(
            "it used {} of {} and was throttled in {} of the periods",
            percent(side.utilisation),
            side.capacity_words(),
            percent(side.throttled)
        ),
        (_, Some(_)) => format!("it used {busy} of {}", side.capacity_words()),
        (Some(_), None) if crowd.by_others => format!(
            "its processors were {busy} busy, but only {} with its own work",
            percent(side.utilisation)
        ),
        (Some(_), None) => format!(
            "{} {} {busy} busy, {} of it with network receive work",
            side.capacity_words(),
            verb(side),
            percent(side.softirq)
        ),
        (None, None) => format!("{} {} {busy} busy", side.capacity_words(), verb(side)),
    };
    Some(Finding {
        wall: Wall::ServerCpu,
        level: crowd.level,
        strength: crowd.strength,
        detail: crowd.detail,
        by_others: crowd.by_others,
        clause,
        evidence: crowd.evidence,
    })
}

/// One full thread, one full core of receive work, or one core's worth of time on more.
fn server_serial(sight: &Sight) -> Option<Finding> {
    let side = sight.server.as_ref()?;
    if side.available < 1.5 || side.utilisation >= 0.9 {
        return None;
    }
    let cores = side.available;
    let fullest = side.fullest.filter(|core| {
        let (busy, softirq) = (f64::from(core.busy()), f64::from(core.softirq));
        busy >= FULL && softirq >= 0.5
    });
    if let Some(core) = fullest {
        let softirq = share(f64::from(core.softirq));
        return Some(Finding {
            wall: Wall::ServerSerial,
            level: share(f64::from(core.busy())),
            strength: 0.8,
            detail: Some(format!(
                "softirq: receive work is not spread beyond processor {}",
                core.cpu
            )),
            by_others: false,
            clause: format!(
                "processor {} spent {} of its time on network receive work, and the mean over \
                 {cores:.0} cores hides it",
                core.cpu,
                percent(softirq)
            ),
            evidence: vec![evidence(
                "server.core_softirq",
                softirq,
                format!(
                    "processor {} was full, {} of it with network receive work",
                    core.cpu,
                    percent(softirq)
                ),
            )],
        });
    }
    let of = format!("{cores:.0} cores it may use");
    if let Some((name, hottest)) = side.hottest.as_ref().filter(|(_, share)| *share >= 0.90) {
        let threads = side.plateau().unwrap_or(1);
        let (detail, clause) = if threads == 1 {
            (
                format!("one thread: {name}"),
                format!(
                    "its thread `{name}` was {} busy on the {of}",
                    percent(*hottest)
                ),
            )
        } else {
            (
                format!("{threads} threads: {name}"),
                format!("{threads} threads of `{name}` were full, on the {of}"),
            )
        };
        return Some(Finding {
            wall: Wall::ServerSerial,
            level: *hottest,
            strength: 0.9 * certainty(*hottest),
            detail: Some(detail),
            by_others: false,
            clause,
            evidence: vec![
                evidence(
                    "server.hottest_thread",
                    *hottest,
                    format!("thread `{name}` was {} busy", percent(*hottest)),
                ),
                evidence(
                    "server.utilisation",
                    side.utilisation,
                    format!("of all the {of}, {} were used", percent(side.utilisation)),
                ),
            ],
        });
    }
    // A runtime told to use one processor moves from thread to thread: none is hot, and
    // together they make one core. By itself this may be chance.
    let workers = f64::from(side.processes.max(1));
    let one_at_a_time =
        side.threads > side.processes && (side.used - workers).abs() < 0.04 * workers;
    (one_at_a_time && workers < side.available - 0.5).then(|| Finding {
        wall: Wall::ServerSerial,
        level: share(side.used / workers),
        strength: 0.6,
        detail: Some(IN_TURN.to_owned()),
        by_others: false,
        clause: format!(
            "its {} threads together used {} cores of the {of}, as if one ran at a time",
            side.threads,
            trimmed(side.used, 2)
        ),
        evidence: vec![evidence(
            "server.cores_used",
            side.used,
            format!(
                "{} threads in {} process(es) used {} cores",
                side.threads,
                side.processes.max(1),
                trimmed(side.used, 2)
            ),
        )],
    })
}

fn link(use_share: Option<f64>, wall: Wall, name: &str) -> Option<Finding> {
    let used = use_share?;
    // Framing that counters leave out takes up to a twentieth of a full link's rate.
    let strength = match used {
        used if used > 1.15 => 0.3,
        used => certainty(used + 0.04),
    };
    let detail = (used > 1.15).then(|| "its rate is not what it is said to be".to_owned());
    Some(Finding {
        wall,
        level: share(used + 0.04),
        strength,
        detail,
        by_others: false,
        clause: format!("it carried {} of its rate", percent(used)),
        evidence: vec![evidence(
            &format!("link.{name}"),
            used,
            format!("the {name} carried {} of its rate", percent(used)),
        )],
    })
}

/// `was` for one core, `were` for more.
pub(super) fn verb(side: &Side) -> &'static str {
    if side.available == 1.0 || side.quota.is_some() {
        "was"
    } else {
        "were"
    }
}
