//! Signs that one resource was full, each from its own rule.
//!
//! A rule looks at one resource alone and says how full it was and how surely. It does
//! not choose between resources: that is [`super::verdict`]'s work. Rules know the ways in
//! which people are fooled: a mean over cores that hides a full one, a quota that leaves
//! the host idle, a neighbour on one's processors, workers that spin, one hot thread on two
//! processors.

use wallfinder_model::evidence::{Evidence, Fact};
use wallfinder_model::reason::{Full, Side as Which, Sign};
use wallfinder_model::telemetry::LINK_FULL_MAX;
use wallfinder_model::{Detail, Wall};

use super::client;
use super::sight::{FULL, Side, Sight};
use crate::finite::share;

/// A resource that was, or may have been, full.
pub(super) struct Finding {
    pub(super) wall: Wall,
    /// How full, 0..1.
    pub(super) level: f64,
    /// How surely it was full, 0..1.
    pub(super) strength: f64,
    /// What it is made of.
    pub(super) detail: Option<Detail>,
    /// It was full by others' work.
    pub(super) by_others: bool,
    /// What shows it.
    pub(super) sign: Sign,
    pub(super) evidence: Vec<Evidence>,
}

impl Finding {
    /// As a reason names it.
    pub(super) fn full(&self) -> Full {
        Full {
            wall: self.wall,
            sign: self.sign.clone(),
        }
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
    let down = link(sight.downlink, Wall::Downlink);
    let up = link(sight.uplink, Wall::Uplink);
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
    pub(super) detail: Option<Detail>,
    /// By others' work more than by its own and by what the load brings.
    pub(super) by_others: bool,
    pub(super) evidence: Vec<Evidence>,
}

impl Crowd {
    /// As a finding of that wall.
    pub(super) fn found(self, wall: Wall, sign: Sign) -> Finding {
        Finding {
            wall,
            level: self.level,
            strength: self.strength,
            detail: self.detail,
            by_others: self.by_others,
            sign,
            evidence: self.evidence,
        }
    }
}

/// Who else had a side's processors, and how many cores of them: `unexplained` where nobody is known to have had more.
fn others(side: &Side, which: Which, unexplained: f64) -> (Detail, Evidence) {
    let label = which.label();
    if side.relay > side.neighbour {
        let cores = side.relay;
        let fact = Fact::Relay { side: which, cores };
        let evidence = Evidence::new(format!("{label}.relay"), cores, fact);
        return (Detail::Relay { cores }, evidence);
    }
    let cores = side.neighbour.max(unexplained);
    let fact = Fact::Others {
        side: which,
        cores,
        busy: None,
        waited: None,
    };
    let evidence = Evidence::new(format!("{label}.neighbour"), cores, fact);
    (Detail::Neighbour { cores }, evidence)
}

/// The fullness of a side's processors: its own time, its quota, receive work, neighbours.
pub(super) fn processors(side: &Side, which: Which) -> Crowd {
    let label = which.label();
    let mut evidence_list = vec![used(side, which)];
    let mut level = share(side.utilisation);
    let mut strength = certainty(level);
    let mut detail = None;
    if let Some(quota) = side.quota {
        let throttled = side.throttled;
        if throttled > 0.0 {
            evidence_list.push(Evidence::new(
                format!("{label}.throttled"),
                throttled,
                Fact::Throttled {
                    side: which,
                    share: throttled,
                },
            ));
        }
        if level >= 0.85 || throttled >= 0.5 {
            // Throttled in every other period and more: the quota was used up each time.
            level = level.max(if throttled >= 0.5 { 0.97 } else { level });
            strength = certainty(level);
            detail = Some(Detail::Quota { cores: quota });
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
        evidence_list.push(Evidence::new(
            format!("{label}.run_wait"),
            side.run_wait,
            Fact::RunWait {
                side: which,
                cores: side.run_wait,
            },
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
        // What its own threads were charged with is in its use already.
        let softirq = side.interrupts.min(gap);
        let neighbour = ((side.neighbour + side.relay) / cpus).min(gap);
        level = side.cpus_busy;
        if softirq >= neighbour && softirq >= 0.3 * gap {
            strength = 0.9 * certainty(level);
            detail = Some(Detail::ReceiveWork { cpu: None });
            evidence_list.push(Evidence::new(
                format!("{label}.softirq"),
                side.softirq,
                Fact::ReceiveWork {
                    side: which,
                    share: side.softirq,
                },
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
            let (who, evidence) = others(side, which, gap * cpus);
            detail = Some(who);
            evidence_list.push(evidence);
        }
        evidence_list.push(Evidence::new(
            format!("{label}.cpus_busy"),
            side.cpus_busy,
            Fact::ProcessorsBusy {
                side: which,
                share: side.cpus_busy,
            },
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

/// A side's use of what it may use.
pub(super) fn used(side: &Side, which: Which) -> Evidence {
    Evidence::new(
        format!("{}.utilisation", which.label()),
        side.utilisation,
        Fact::Used {
            side: which,
            share: side.utilisation,
            capacity: side.capacity(),
        },
    )
}

fn server_cpu(sight: &Sight) -> Option<Finding> {
    let side = sight.server.as_ref()?;
    let crowd = processors(side, Which::Server);
    let (busy, capacity) = (crowd.level, side.capacity());
    let sign = match (&crowd.detail, side.quota) {
        (Some(_), Some(_)) if side.throttled > 0.0 => Sign::Quota {
            used: side.utilisation,
            capacity,
            throttled: Some(side.throttled),
        },
        (_, Some(_)) => Sign::Quota {
            used: busy,
            capacity,
            throttled: None,
        },
        (Some(_), None) if crowd.by_others => Sign::ByOthers {
            busy,
            own: side.utilisation,
        },
        (Some(_), None) => Sign::ReceiveWork {
            capacity,
            busy,
            softirq: side.softirq,
        },
        (None, None) => Sign::Busy { capacity, busy },
    };
    Some(crowd.found(Wall::ServerCpu, sign))
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
        let cpu = core.cpu;
        return Some(Finding {
            wall: Wall::ServerSerial,
            level: share(f64::from(core.busy())),
            strength: 0.8,
            detail: Some(Detail::ReceiveWork { cpu: Some(cpu) }),
            by_others: false,
            sign: Sign::ReceivingCore {
                cpu,
                softirq,
                cores,
            },
            evidence: vec![Evidence::new(
                "server.core_softirq",
                softirq,
                Fact::ReceivingCore { cpu, softirq },
            )],
        });
    }
    if let Some((name, busy)) = side.hottest.as_ref().filter(|(_, share)| *share >= 0.90) {
        let (name, busy) = (name.clone(), *busy);
        let threads = side.plateau().unwrap_or(1);
        return Some(Finding {
            wall: Wall::ServerSerial,
            level: busy,
            strength: 0.9 * certainty(busy),
            detail: Some(Detail::HotThreads {
                name: name.clone(),
                threads,
                busy,
            }),
            by_others: false,
            sign: Sign::HotThreads {
                name: name.clone(),
                threads,
                busy,
                cores,
            },
            evidence: vec![
                Evidence::new(
                    "server.hottest_thread",
                    busy,
                    Fact::HotThread { name, busy },
                ),
                Evidence::new(
                    "server.utilisation",
                    side.utilisation,
                    Fact::OfAllCores {
                        share: side.utilisation,
                        cores,
                    },
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
        detail: Some(Detail::InTurn),
        by_others: false,
        sign: Sign::InTurn {
            threads: side.threads,
            used: side.used,
            cores,
        },
        evidence: vec![Evidence::new(
            "server.cores_used",
            side.used,
            Fact::ThreadsUsed {
                threads: side.threads,
                processes: side.processes.max(1),
                cores: side.used,
            },
        )],
    })
}

fn link(use_share: Option<f64>, wall: Wall) -> Option<Finding> {
    let used = use_share?;
    // Framing that counters leave out takes up to a twentieth of a full link's rate.
    let strength = match used {
        used if used > LINK_FULL_MAX => 0.3,
        used => certainty(used + 0.04),
    };
    let detail = (used > LINK_FULL_MAX).then_some(Detail::RateIsOther);
    Some(Finding {
        wall,
        level: share(used + 0.04),
        strength,
        detail,
        by_others: false,
        sign: Sign::LinkUse { share: used },
        evidence: vec![link_use(wall, used)],
    })
}

/// A link's use.
pub(super) fn link_use(wall: Wall, share: f64) -> Evidence {
    let measure = format!("link.{}", wall.label());
    Evidence::new(measure, share, Fact::LinkUse { wall, share })
}
