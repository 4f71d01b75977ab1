//! A process of which `/proc/PID/stat` alone is read: those of a large family beyond the first.
//!
//! Its CPU time is the scheduler's sum, rounded down to 10 ms twice, ended threads included; where
//! its threads may run and how long they waited is not known. No descriptor stays open, so its
//! start tells it from another process that got its number.

use std::fs::File;
use std::io;

use crate::parse::process::{Stat, stat};
use crate::procfile::{Buffer, is_gone};
use crate::sample::family::Totals;
use crate::sample::member::Units;

/// One process, as it was when it was read last.
#[derive(Debug)]
pub(crate) struct Outline {
    stat: Stat,
}

impl Outline {
    /// An error may mean that the process is gone already; see [`is_gone`].
    pub(crate) fn open(pid: u32, buffer: &mut Buffer) -> io::Result<Outline> {
        Ok(Outline::of(look(pid, buffer)?))
    }

    pub(crate) fn of(stat: Stat) -> Outline {
        Outline { stat }
    }

    /// Brings its counters up to date; `false`: it has ended.
    pub(crate) fn read(&mut self, buffer: &mut Buffer) -> bool {
        match look(self.stat.pid, buffer) {
            Ok(stat) if stat.start_ticks == self.stat.start_ticks => {
                self.stat = stat;
                true
            }
            Ok(_) => false,
            // Without a descriptor to spare it is as it was.
            Err(error) => !is_gone(&error),
        }
    }

    pub(crate) fn totals(&self, units: Units) -> Totals {
        Totals {
            cpu_ns: units.ns(self.stat.user_ticks + self.stat.system_ticks),
            user_ticks: self.stat.user_ticks,
            system_ticks: self.stat.system_ticks,
            faults_minor: self.stat.faults_minor,
            faults_major: self.stat.faults_major,
            ..Totals::default()
        }
    }

    /// CPU time of children that were waited for, and theirs.
    pub(crate) fn reaped_ns(&self, units: Units) -> u64 {
        units.ns(self.stat.reaped_ticks)
    }

    pub(crate) fn threads(&self) -> u32 {
        self.stat.threads
    }

    pub(crate) fn rss_bytes(&self, units: Units) -> u64 {
        units.bytes(self.stat.rss_pages)
    }

    /// Ended, and not waited for yet.
    pub(crate) fn is_zombie(&self) -> bool {
        self.stat.is_zombie()
    }
}

fn look(pid: u32, buffer: &mut Buffer) -> io::Result<Stat> {
    let file = File::open(format!("/proc/{pid}/stat"))?;
    stat(buffer.read(&file)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_another_process_got_is_not_the_same_process() {
        let mut buffer = Buffer::new();
        let units = Units::of_this_kernel();
        let mut own = Outline::open(std::process::id(), &mut buffer).unwrap();
        assert!(own.read(&mut buffer) && !own.is_zombie());
        assert!(own.threads() >= 1 && own.rss_bytes(units) > 0);
        let counted = own.stat;
        own.stat.start_ticks += 1;
        assert!(!own.read(&mut buffer));
        assert_eq!(own.stat.user_ticks, counted.user_ticks);
        let gone = Outline::open(u32::MAX, &mut buffer).unwrap_err();
        assert!(is_gone(&gone), "{gone}");
    }

    #[test]
    fn all_that_it_used_counts() {
        let units = Units::of_this_kernel();
        let stat = Stat {
            user_ticks: 3,
            system_ticks: 4,
            ..Stat::default()
        };
        let totals = Outline::of(stat).totals(units);
        assert_eq!(totals.cpu_ns, units.ns(7));
        assert_eq!((totals.user_ticks, totals.system_ticks), (3, 4));
    }
}
