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

/// What is drawn, and how many there are that are not.
pub(crate) struct Drawn<'r> {
    pub(crate) flames: Vec<Flame<'r>>,
    pub(crate) left_out: usize,
}

/// Those of the step at `first` come first. Of a study's cells the first round's.
pub(crate) fn of(record: &Record, first: usize) -> Drawn<'_> {
    let named: Vec<(String, &Step)> = match cells::are_all(record) {
        true => cells::of(record)
            .into_iter()
            .filter_map(|(cell, rounds)| {
                let name = format!(
                    "{} {} {} B, {}",
                    cell.group,
                    cell.driver,
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
    let (flames, left_out) = drawn(steps.map(|(name, step)| of_step(name, step)).collect());
    Drawn { flames, left_out }
}

/// As many as there is room for, of each step as many as of any other while it has more.
fn drawn<T>(of_steps: Vec<Vec<T>>) -> (Vec<T>, usize) {
    let all: usize = of_steps.iter().map(Vec::len).sum();
    let longest = of_steps.iter().map(Vec::len).max().unwrap_or(0);
    let taking = |each: usize| of_steps.iter().map(|of| of.len().min(each)).sum::<usize>();
    let each = (0..=longest).rev().find(|each| taking(*each) <= FLAMES_MAX);
    let each = each.unwrap_or(0);
    let mut room = FLAMES_MAX - taking(each);
    let mut flames = Vec::new();
    for of_step in of_steps {
        let more = usize::from(of_step.len() > each && room > 0);
        room -= more;
        flames.extend(of_step.into_iter().take(each + more));
    }
    let left_out = all - flames.len();
    (flames, left_out)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_step_takes_the_room_of_the_others() {
        let all = |lengths: &[usize]| {
            let of_steps: Vec<Vec<(usize, usize)>> = lengths
                .iter()
                .enumerate()
                .map(|(step, length)| (0..*length).map(|kind| (step, kind)).collect())
                .collect();
            drawn(of_steps)
        };
        assert_eq!(all(&[]), (Vec::new(), 0));
        assert_eq!(all(&[3, 0, 2]).0.len(), 5);
        let (flames, left_out) = all(&[6; 10]);
        assert_eq!((flames.len(), left_out), (FLAMES_MAX, 60 - FLAMES_MAX));
        for step in 0..10 {
            let of_it = flames.iter().filter(|(of, _)| *of == step).count();
            assert!((2..=3).contains(&of_it), "{of_it} of step {step}");
        }
        // More steps than room: the first ones have one each.
        let (flames, left_out) = all(&[2; 40]);
        assert_eq!((flames.len(), left_out), (FLAMES_MAX, 80 - FLAMES_MAX));
        assert!(flames.iter().all(|(_, kind)| *kind == 0));
    }
}
