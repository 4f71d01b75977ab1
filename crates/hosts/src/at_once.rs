//! The same for many hosts, some at a time: a round trip to each of a thousand would take a thousand round trips.

use std::sync::{Mutex, PoisonError};
use std::thread;

/// Hosts at a time.
const THREADS_MAX: usize = 16;

/// What comes of each, in their order.
pub fn at_once<T: Send, R: Send>(
    all: impl IntoIterator<Item = T>,
    each: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let all: Vec<T> = all.into_iter().collect();
    let threads = all.len().min(THREADS_MAX);
    if threads < 2 {
        return all.into_iter().map(each).collect();
    }
    let left = Mutex::new(all.into_iter().enumerate());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || -> Vec<(usize, R)> {
        let one = || next().map(|(nth, one)| (nth, each(one)));
        std::iter::from_fn(one).collect()
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let working: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = working.into_iter().map(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.flatten().collect()
    });
    done.sort_by_key(|(nth, _)| *nth);
    done.into_iter().map(|(_, of)| of).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_is_asked_once_some_at_a_time_and_answers_keep_their_order() {
        for count in [0, 1, 2, 5, 200] {
            let mut all: Vec<usize> = (0..count).collect();
            let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let told = at_once(&mut all, |one| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(1));
                now.fetch_sub(1, Ordering::SeqCst);
                *one += 1;
                *one * 10
            });
            assert_eq!(told, (1..=count).map(|n| n * 10).collect::<Vec<_>>());
            assert_eq!(all, (1..=count).collect::<Vec<_>>());
            assert!(most.into_inner() <= THREADS_MAX);
        }
    }

    #[test]
    fn one_that_is_slow_holds_no_other_up() {
        let (others_done, all_done) = mpsc::channel();
        let all_done = Mutex::new(all_done);
        let told = at_once(0..64, |one| match one {
            // The slowest ends once all the others have.
            0 => {
                let done = all_done.lock().unwrap_or_else(PoisonError::into_inner);
                (1..64).all(|_| done.recv_timeout(Duration::from_secs(60)).is_ok())
            }
            _ => others_done.send(()).is_ok(),
        });
        assert_eq!(told, [true; 64]);
    }
}
