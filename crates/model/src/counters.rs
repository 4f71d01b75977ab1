//! What is counted of a family of processes within a window, beyond what `/proc` counts anyway:
//! system calls by name, and the events of processors.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// System calls of a family, by name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SystemCalls {
    /// How long they were watched: a part of the window, for watching costs.
    pub watched_ns: u64,
    /// Requests answered in that time.
    pub answered: f64,
    /// By name, the most frequent first.
    pub calls: Vec<SystemCall>,
    /// Records that were lost: each is half a call.
    pub lost: u64,
}

impl SystemCalls {
    /// The call of a name.
    pub fn of(&self, name: &str) -> Option<&SystemCall> {
        self.calls.iter().find(|call| call.name == name)
    }

    /// How often calls of a kind were made.
    pub fn of_kind(&self, kind: CallKind) -> u64 {
        let calls = kind.names().iter().filter_map(|name| self.of(name));
        calls.fold(0, |sum, call| call.count.saturating_add(sum))
    }

    /// A count for each request; `None` where none was answered.
    pub fn each(&self, count: u64) -> Option<f64> {
        (self.answered > 0.0).then(|| count as f64 / self.answered)
    }

    /// All calls.
    pub fn count(&self) -> u64 {
        let calls = self.calls.iter();
        calls.fold(0, |sum, call| call.count.saturating_add(sum))
    }
}

/// Calls that do the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, VariantArray, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum CallKind {
    /// Waiting for another thread, and waking it.
    Futex,
    /// Reading, from sockets and from others.
    Reads,
    /// Writing.
    Writes,
    /// Asking which sockets are ready.
    Epoll,
    /// Sleeping for a time.
    Sleeps,
    /// Letting another thread run.
    Yields,
}

impl CallKind {
    /// All of them, in the order in which they are shown.
    pub const ALL: [CallKind; CallKind::VARIANTS.len()] =
        *CallKind::VARIANTS.first_chunk().unwrap();

    /// `futex`, as in tables and in studies.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// The kernel's names.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            CallKind::Futex => &["futex"],
            CallKind::Reads => &["read", "readv", "recvfrom", "recvmsg", "recvmmsg"],
            CallKind::Writes => &[
                "write", "writev", "sendto", "sendmsg", "sendmmsg", "sendfile",
            ],
            CallKind::Epoll => &["epoll_wait", "epoll_pwait", "epoll_pwait2", "epoll_ctl"],
            CallKind::Sleeps => &["nanosleep", "clock_nanosleep"],
            CallKind::Yields => &["sched_yield"],
        }
    }
}

/// One system call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SystemCall {
    /// `futex`, as the kernel's tables name it.
    pub name: String,
    /// How often.
    pub count: u64,
    /// Time from the call to its return, waiting included, summed over threads.
    pub ns: u64,
    /// Of them, those that gave an error back: reads that found nothing among them.
    pub failed: u64,
}

/// An event that the processor or the kernel counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventCount {
    /// `cycles`, `instructions`, `cache-references`, `cache-misses`, `branch-misses`, `migrations`.
    pub name: String,
    /// How often within the window; absent where it cannot be counted.
    pub value: Option<u64>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}
