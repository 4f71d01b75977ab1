//! A process held by a descriptor (pidfd_open(2)): while it is open, the number of the process can
//! become nobody else's for whoever signals through it.
//!
//! What it is not: an identity. A number that is opened may already be another process's, so the
//! caller compares the start time after it has opened one.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

/// `PIDFD_SIGNAL_PROCESS_GROUP` of <linux/pidfd.h>, Linux 6.9.
const PROCESS_GROUP: libc::c_uint = 1 << 2;

/// A process, alive or a zombie, or one that was.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// The process that has this number now. Linux 5.3.
    pub fn open(pid: u32) -> Result<PidFd, Errno> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(Errno::SRCH)?;
        pidfd_open(pid, PidfdFlags::empty()).map(PidFd)
    }

    /// Sends it a signal; [`Errno::SRCH`] where it is gone.
    pub fn signal(&self, signal: Signal) -> Result<(), Errno> {
        self.send(signal.as_raw(), 0)
    }

    /// Whether it may be sent signals. None is.
    pub fn may_signal(&self) -> Result<(), Errno> {
        self.send(0, 0)
    }

    /// Sends a signal to the process group that it leads or led, which may outlive it.
    /// [`Errno::INVAL`] before Linux 6.9.
    pub fn signal_group(&self, signal: Signal) -> Result<(), Errno> {
        self.send(signal.as_raw(), PROCESS_GROUP)
    }

    fn send(&self, signal: libc::c_int, flags: libc::c_uint) -> Result<(), Errno> {
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is open for the whole call, and no information is passed: the
        // kernel then makes its own, as for kill(2).
        let sent = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signal,
                no_info,
                flags,
            )
        };
        match sent {
            0 => Ok(()),
            _ => {
                Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    use super::*;

    #[test]
    fn a_signal_reaches_the_process_and_nobody_who_has_its_number_later() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let held = PidFd::open(child.id()).unwrap();
        assert_eq!(held.may_signal(), Ok(()));
        held.signal(Signal::KILL).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        // Its number is free now; the descriptor leads to nobody.
        assert_eq!(held.signal(Signal::KILL), Err(Errno::SRCH));
        assert_eq!(held.may_signal(), Err(Errno::SRCH));
        for none in [0, u32::MAX] {
            assert_eq!(PidFd::open(none).unwrap_err(), Errno::SRCH);
        }
    }

    #[test]
    fn a_group_is_reached_whose_leader_is_gone() {
        let mut leader = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!"])
            .process_group(0)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let held = PidFd::open(leader.id()).unwrap();
        let mut line = String::new();
        let mut stdout = std::io::BufReader::new(leader.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        leader.wait().unwrap();
        let member = PidFd::open(line.trim().parse().unwrap()).unwrap();
        assert_eq!(member.may_signal(), Ok(()));
        match held.signal_group(Signal::KILL) {
            Ok(()) => {}
            Err(Errno::INVAL) => {
                member.signal(Signal::KILL).unwrap();
                return wallfinder_skip::skip(
                    "no signals to groups through descriptors before 6.9",
                );
            }
            Err(other) => panic!("{other}"),
        }
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", line.trim()));
        let runs = || stat().is_ok_and(|stat| !stat.contains(") Z "));
        for _ in 0..1_000 {
            if !runs() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("the group's member lives");
    }
}
