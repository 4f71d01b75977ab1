//! Processors that others had, while neither side used anything of them to speak of.
//!
//! Who uses next to nothing of full processors is not held by them, or is held by whoever has them:
//! which of the two, the step does not tell. No wall is named then, whatever would be full.

use wallfinder_model::Reason;
use wallfinder_model::evidence::{Evidence, Fact};
use wallfinder_model::reason::{CrowdedOut, CrowdedSide, Named, Side as Which};

use super::Conclusion;
use super::choice::SURE;
use super::finding;
use super::sight::{Side, Sight};

/// Cores that a side used.
pub(super) fn cores_used(side: &Side, which: Which) -> Evidence {
    let measure = format!("{}.cores_used", which.label());
    let fact = Fact::CoresUsed {
        side: which,
        cores: side.used,
    };
    Evidence::new(measure, side.used, fact)
}

/// Whether others had the processors of a side that was seen, and no side that was seen used its own.
pub(super) fn had_them(sight: &Sight) -> bool {
    sight.sides().all(|(_, side)| side.rests())
        && sight.sides().any(|(_, side)| side.is_crowded_out())
}

/// Who had the processors, where neither side did.
pub(super) fn crowded_out(sight: &Sight) -> Option<CrowdedOut> {
    if !had_them(sight) {
        return None;
    }
    let cpus: Vec<&[u32]> = sight.sides().map(|(_, side)| &side.cpus[..]).collect();
    let sides = sight.sides().map(|(which, side)| CrowdedSide {
        side: which,
        others: side.neighbour,
        cores: side.cpus.len().max(1) as u32,
        used: side.used,
    });
    let experiment = sight.step.experiment.as_ref();
    let before = experiment
        .map_or(&[][..], |experiment| &experiment.setting.neighbours[..])
        .iter()
        .map(|other| Named {
            name: other.name.clone(),
            cores: other.cores,
        });
    // Two hosts have processors of the same numbers.
    let is_one_host = sight.step.telemetry.server_host.is_none();
    Some(CrowdedOut {
        together: is_one_host && matches!(cpus[..], [one, other] if one == other),
        sides: sides.collect(),
        before: before.collect(),
    })
}

/// Not decided, and by whom. A link that is full is full whoever has the processors.
pub(super) fn conclude(sight: &Sight) -> Option<Conclusion> {
    let links = finding::links(sight);
    if links.iter().any(|link| link.strength >= SURE) {
        return None;
    }
    let others = crowded_out(sight)?;
    let facts = sight.sides().flat_map(|(which, side)| {
        let of_others = Evidence::new(
            format!("{}.neighbour", which.label()),
            side.neighbour,
            Fact::Others {
                side: which,
                cores: side.neighbour,
                busy: Some(side.cpus_busy),
                waited: None,
            },
        );
        [of_others, cores_used(side, which)]
    });
    let reason = Reason::CrowdedOut { others };
    Some(Conclusion::inconclusive(reason, facts.collect()))
}
