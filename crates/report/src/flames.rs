//! Which stacks a page can draw: of the step that is judged, and of others to be set beside it.

use wallfinder_model::profile::{ProfileKind, Profiles, Reading};
use wallfinder_model::{Record, Step};

use crate::cells;
use crate::counted::Side;
use crate::{number, words};

/// Stacks that are drawn at the most.
const FLAMES_MAX: usize = 24;

/// Stacks of one kind, of one side of one step.
pub(crate) struct Flame<'r> {
    /// What they are of, and where.
    pub(crate) title: String,
    pub(crate) profiles: &'r Profiles,
    pub(crate) reading: &'r Reading,
}

/// All of them: those of the step at `first` come first. Of a study's cells the first round's.
pub(crate) fn of(record: &Record, first: usize) -> Vec<Flame<'_>> {
    let named: Vec<(String, &Step)> = match cells::are_all(record) {
        true => cells::of(record)
            .into_iter()
            .filter_map(|(cell, rounds)| {
                let name = format!(
                    "{} {} B, {}",
                    cell.group,
                    number::whole(u64::from(cell.payload)),
                    words::counted(u64::from(cell.clients), "client")
                );
                Some((name, *rounds.first()?))
            })
            .collect(),
        false => {
            let profiled =
                |step: &&Step| Side::BOTH.iter().any(|side| side.profiles(step).is_some());
            let several = record.steps.iter().filter(profiled).count() > 1;
            let name = |step: &Step| {
                if several {
                    step.name.clone()
                } else {
                    String::new()
                }
            };
            let chosen = record.steps.get(first).into_iter();
            let others = record.steps.iter().enumerate();
            let others = others
                .filter(|(index, _)| *index != first)
                .map(|(_, step)| step);
            chosen
                .chain(others)
                .map(|step| (name(step), step))
                .collect()
        }
    };
    let steps = named.iter();
    let flames = steps.flat_map(|(name, step)| of_step(name, step));
    flames.take(FLAMES_MAX).collect()
}

fn of_step<'r>(name: &str, step: &'r Step) -> Vec<Flame<'r>> {
    let mut flames = Vec::new();
    for side in Side::BOTH {
        let Some(profiles) = side.profiles(step) else {
            continue;
        };
        for kind in ProfileKind::ALL {
            let Some(reading) = profiles.of(kind).filter(|reading| reading.total > 0) else {
                continue;
            };
            let of = [name, side.label(), kind_in_words(kind)];
            let parts: Vec<&str> = of.into_iter().filter(|part| !part.is_empty()).collect();
            flames.push(Flame {
                title: parts.join(" · "),
                profiles,
                reading,
            });
        }
    }
    flames
}

/// A kind of profile, for people.
pub(crate) fn kind_in_words(kind: ProfileKind) -> &'static str {
    match kind {
        ProfileKind::Cpu => "CPU",
        ProfileKind::Stacks => "stacks, by the kernel",
        ProfileKind::Block => "waits",
        ProfileKind::Waits => "waits of threads, by the kernel",
        ProfileKind::Mutex => "mutexes",
        ProfileKind::Allocs => "allocations",
        ProfileKind::Heap => "heap",
        ProfileKind::Goroutine => "goroutines",
    }
}
