//! Processors that others had, while neither side used anything of them to speak of.
//!
//! Who uses next to nothing of full processors is not held by them, or is held by whoever has them:
//! which of the two, the step does not tell. No wall is named then, whatever would be full.

use super::Conclusion;
use super::choice::SURE;
use super::finding::{self, evidence};
use super::sight::{Side, Sight};
use crate::words::{percent, trimmed};

fn sides<'s>(sight: &'s Sight) -> Vec<(&'static str, &'static str, &'s Side)> {
    [
        ("the server", "server", &sight.server),
        ("the load generator", "client", &sight.client),
    ]
    .into_iter()
    .filter_map(|(name, label, side)| Some((name, label, side.as_ref()?)))
    .collect()
}

/// Whether others had the processors of a side that was seen, and no side that was seen used its own.
pub(super) fn had_them(sight: &Sight) -> bool {
    let sides = sides(sight);
    sides.iter().all(|(_, _, side)| side.rests())
        && sides.iter().any(|(_, _, side)| side.is_crowded_out())
}

/// `others' processes had the processors, 1.9 of the 2 cores of both sides, while the server used 0.05
/// and the load generator used 0.06`.
pub(super) fn words(sight: &Sight) -> Option<String> {
    if !had_them(sight) {
        return None;
    }
    let sides = sides(sight);
    let others = |whose: &str, side: &Side| {
        let (cores, of) = (trimmed(side.neighbour, 2), side.cpus.len().max(1));
        format!("{cores} of the {of} cores of {whose}")
    };
    let of_each: Vec<String> = match sides[..] {
        [(_, _, one), (_, _, other)] if one.cpus == other.cpus => vec![others("both sides", one)],
        _ => sides
            .iter()
            .map(|(name, _, side)| others(name, side))
            .collect(),
    };
    let own: Vec<String> = sides
        .iter()
        .map(|(name, _, side)| format!("{name} used {}", trimmed(side.used, 2)))
        .collect();
    let experiment = sight.step.experiment.as_ref();
    let named: Vec<String> = experiment
        .map_or(&[][..], |experiment| &experiment.setting.neighbours[..])
        .iter()
        .map(|other| format!("{} with {}", other.name, trimmed(other.cores, 2)))
        .collect();
    let who = match named[..] {
        [] => String::new(),
        _ => format!(" (before the load: {})", named.join(", ")),
    };
    Some(format!(
        "others' processes had the processors{who}, {}, while {}",
        of_each.join(" and "),
        own.join(" and ")
    ))
}

/// Not decided, and by whom. A link that is full is full whoever has the processors.
pub(super) fn conclude(sight: &Sight) -> Option<Conclusion> {
    let links = finding::links(sight);
    if links.iter().any(|link| link.strength >= SURE) {
        return None;
    }
    let words = words(sight)?;
    let facts = sides(sight).into_iter().flat_map(|(name, label, side)| {
        let of_others = evidence(
            &format!("{label}.neighbour"),
            side.neighbour,
            format!(
                "others used {} cores of {name}'s processors, which were {} busy",
                trimmed(side.neighbour, 2),
                percent(side.cpus_busy)
            ),
        );
        let own = evidence(
            &format!("{label}.cores_used"),
            side.used,
            format!("{name} used {} cores of them", trimmed(side.used, 2)),
        );
        [of_others, own]
    });
    Some(Conclusion::inconclusive(
        format!("Not decided: {words}. Stop them, or pin this run elsewhere."),
        facts.collect(),
    ))
}
