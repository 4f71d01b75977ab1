//! Each resource by the operational laws: demand D = U·C/X, ceiling C/D, and the next wall.
//!
//! A ceiling from demand takes cost per request as constant. Batching makes it cheaper at
//! more load, so such a ceiling is rather too low than too high.

use wallfinder_model::Wall;
use wallfinder_model::verdict::{NextWall, ResourceView, Saturation};

use super::shared;
use super::sight::{Side, Sight};
use crate::finite::{positive, ratio, share};

/// Below this use, cost per request is mostly noise and start-up, and no ceiling is told.
const USE_MIN: f64 = 0.01;

/// Every resource that was seen.
pub(super) fn views(sight: &Sight) -> Vec<ResourceView> {
    let mut views = Vec::new();
    if let Some(side) = &sight.server {
        views.push(view(
            sight,
            Wall::ServerCpu,
            side.utilisation,
            side.available,
            queue(side),
        ));
        if let (true, Some((name, hottest))) = (side.available >= 1.5, &side.hottest) {
            let saturation = (*hottest >= 0.95).then(|| Saturation::NeverRests {
                thread: name.clone(),
            });
            views.push(view(sight, Wall::ServerSerial, *hottest, 1.0, saturation));
        }
    }
    if let Some(busy) = sight.client_busy() {
        let cores = match (&sight.workers, &sight.client) {
            (Some(workers), _) => workers.count as f64,
            (None, Some(side)) => side.plateau().map_or(side.available, f64::from),
            (None, None) => 1.0,
        };
        let saturation = sight.client.as_ref().and_then(queue);
        views.push(view(sight, Wall::ClientCpu, busy, cores, saturation));
    }
    let tcp = sight.step.telemetry.tcp;
    let resent = tcp
        .filter(|tcp| tcp.retransmits > 0)
        .map(|tcp| Saturation::SentAgain {
            segments: tcp.retransmits,
        });
    let drops = sight
        .step
        .telemetry
        .link
        .as_ref()
        .filter(|link| link.totals.drops > 0)
        .map(|link| Saturation::Dropped {
            packets: link.totals.drops,
        });
    for (wall, used) in [
        (Wall::Downlink, sight.downlink),
        (Wall::Uplink, sight.uplink),
    ] {
        if let Some(used) = used {
            let sign = drops.clone().or(resent.clone()).filter(|_| used > 0.5);
            views.push(view(sight, wall, used, 1.0, sign));
        }
    }
    views
}

fn view(
    sight: &Sight,
    wall: Wall,
    used: f64,
    capacity: f64,
    saturation: Option<Saturation>,
) -> ResourceView {
    let busy = positive(used).filter(|used| *used >= USE_MIN);
    // On shared processors what the other side takes is not available.
    let full_at = match wall {
        Wall::ServerCpu | Wall::ClientCpu => shared::together(sight).or(busy),
        _ => busy,
    };
    ResourceView {
        wall,
        utilisation: share(used),
        demand_s: positive(used).and_then(|used| ratio(used * capacity, sight.throughput)),
        ceiling: busy
            .and(full_at)
            .and_then(|full_at| ratio(sight.throughput, full_at)),
        saturation,
    }
}

/// A sign that work waited for a side's processors.
fn queue(side: &Side) -> Option<Saturation> {
    if side.throttled > 0.0 {
        let share = side.throttled;
        return Some(Saturation::Throttled { share });
    }
    (side.run_wait > 0.05 * side.available).then_some(Saturation::RunWait {
        cores: side.run_wait,
    })
}

/// The resource with the smallest ceiling, `walls` apart. For the load generator the
/// calibrated ceiling is the upper end: its cost per request falls as it fills.
pub(super) fn next(sight: &Sight, views: &[ResourceView], walls: &[Wall]) -> Option<NextWall> {
    let stands = |view: &&ResourceView| {
        let server = [Wall::ServerCpu, Wall::ServerSerial];
        // One thread and its processors are one resource twice.
        let same = server.contains(&view.wall) && walls.iter().any(|wall| server.contains(wall));
        !walls.contains(&view.wall) && !same
    };
    let (view, ceiling) = views
        .iter()
        .filter(stands)
        .filter_map(|view| view.ceiling.map(|ceiling| (view, ceiling)))
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    let low = ratio(ceiling, sight.throughput)?;
    let high = (view.wall == Wall::ClientCpu)
        .then(|| sight.ceiling_share.and_then(|share| ratio(1.0, share)))
        .flatten()
        .filter(|high| *high > low);
    Some(NextWall {
        wall: view.wall,
        ratio: low,
        low: high.map(|_| low),
        high,
    })
}
