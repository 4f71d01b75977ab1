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
    use std::time::{Duration, Instant};

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
        let mut all: Vec<u64> = (0..64).map(|n| if n == 0 { 100 } else { 1 }).collect();
        let began = Instant::now();
        at_once(&mut all, |ms| thread::sleep(Duration::from_millis(*ms)));
        assert!(began.elapsed() < Duration::from_millis(160));
    }
}
