//! Where threads may run, before they are moved to another group and after: one with processors
//! of its own changes it, and an older kernel then forgets what `taskset` set.

use std::fs;

use wallfinder_probe::parse::process;

use super::family;
use crate::affinity::Narrowed;
use crate::undo::Process;

/// Threads of one side, at the most.
const THREADS_MAX: usize = 65_536;

/// Threads of processes and of their descendants, and the processors that each may run on.
pub(super) fn of(pids: &[u32]) -> Vec<(Process, Vec<u32>)> {
    let tasks = family(pids)
        .into_iter()
        .filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
    tasks
        .flat_map(|tasks| tasks.flatten())
        .filter_map(|task| {
            let thread = Process::of(task.file_name().to_str()?.parse().ok()?)?;
            Some((thread, now(thread)?))
        })
        .take(THREADS_MAX)
        .collect()
}

/// A thread that may run elsewhere than before; those that came or went meanwhile are none.
pub(super) fn changed(
    before: &[(Process, Vec<u32>)],
    after: &[(Process, Vec<u32>)],
) -> Option<Process> {
    let differs = |(thread, cpus): &&(Process, Vec<u32>)| {
        let now = after.iter().find(|(other, _)| other == thread);
        now.is_some_and(|(_, now)| now != cpus)
    };
    before.iter().find(differs).map(|(thread, _)| *thread)
}

/// Gives those that may run elsewhere now what they had.
pub(crate) fn restore(threads: &[(Process, Vec<u32>)]) {
    let differs = |(thread, cpus): &&(Process, Vec<u32>)| {
        thread.is_alive() && now(*thread).is_some_and(|now| now != *cpus)
    };
    let threads: Vec<_> = threads.iter().filter(differs).cloned().collect();
    if threads.is_empty() {
        return;
    }
    let had = Narrowed {
        processes: Vec::new(),
        left: Vec::new(),
        taken: 0,
        threads,
    };
    had.restore();
}

fn now(thread: Process) -> Option<Vec<u32>> {
    let status = fs::read(format!("/proc/{}/status", thread.pid)).ok()?;
    Some(process::status(&status)?.cpus_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_that_changes_where_a_thread_may_run_is_seen() {
        let thread = |pid| Process { pid, start: 1 };
        let before = [(thread(10), vec![2, 3]), (thread(11), vec![0, 1])];
        assert_eq!(changed(&before, &before), None);
        // One ended, one was born.
        let after = [(thread(10), vec![2, 3]), (thread(12), vec![0])];
        assert_eq!(changed(&before, &after), None);
        let after = [(thread(11), vec![0, 1, 2, 3]), (thread(10), vec![2, 3])];
        assert_eq!(changed(&before, &after), Some(thread(11)));
    }

    #[test]
    fn a_thread_gets_back_what_it_had() {
        let sleeper = std::process::Command::new("sleep").arg("60").spawn();
        let mut sleeper = sleeper.expect("sleep");
        let pids = [sleeper.id()];
        let before = of(&pids);
        let (thread, cpus) = before.first().expect("it is there").clone();
        restore(&[(thread, cpus[..1].to_vec())]);
        let narrow = changed(&before, &of(&pids));
        restore(&before);
        let after = of(&pids);
        sleeper.kill().expect("killed");
        sleeper.wait().expect("it ended");
        assert_eq!(narrow, (cpus.len() > 1).then_some(thread));
        assert_eq!(after, before);
    }
}
