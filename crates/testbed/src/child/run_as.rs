//! As whom a child runs, and what it is told of our environment.
//!
//! Under sudo a child runs as the user who asked, unless `--as` names another: what is loaded, and
//! what loads it, needs no privilege, and may be anybody's program. It is given the variables of
//! [`PASSED`] and those that the user names, and no others: the environment of root, or of a CI
//! job, holds secrets that are none of its business.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::FileType;
use rustix::process::{Gid, Uid, geteuid};
use wallfinder_sys::programs::clean_path;
use wallfinder_sys::users::{self, User};

/// Variables that a child is given where we have them; `*` stands for the rest of a name. Entries
/// of `PATH` that mean the current folder are left out.
pub const PASSED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TERM",
    "TMPDIR",
    "GOMAXPROCS",
    "GOGC",
    "GOMEMLIMIT",
    "GODEBUG",
    "GOTRACEBACK",
    "WALLFINDER_*",
];
/// What is ours alone to another user.
const OF_OUR_USER: &[&str] = &["HOME", "USER", "LOGNAME", "SHELL", "TMPDIR"];

/// As whom a child runs, and what it is given. By default as this process does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunAs {
    user: Option<User>,
    env: Vec<(String, String)>,
}

/// Why it cannot be so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunAsError {
    /// There is no such user.
    #[error(
        "there is no user `{name}` on this machine ({by}); name one that there is with --as, or --as root"
    )]
    Unknown {
        /// As asked for.
        name: String,
        /// Who asked for it: `--as`, or `SUDO_USER`.
        by: &'static str,
    },
    /// Only root becomes somebody else.
    #[error("only root runs a program as `{name}`; leave out --as, or run wallfinder with sudo")]
    NotRoot {
        /// As asked for.
        name: String,
    },
    /// The user has no number in this namespace.
    #[error("`{name}` (user {uid}) has no number in this user namespace; leave out --as")]
    NotMapped {
        /// As asked for.
        name: String,
        /// Its number outside.
        uid: u32,
    },
    /// The users of this machine cannot be looked up.
    #[error("the user `{name}` could not be looked up: {why}")]
    NoLookup {
        /// As asked for.
        name: String,
        /// In the system's words.
        why: String,
    },
    /// A variable that is to be passed, and is not there.
    #[error("--env {name}: it is not set here; give its value with --env {name}=VALUE")]
    NotSet {
        /// Its name.
        name: String,
    },
    /// No name of a variable.
    #[error("--env takes NAME or NAME=VALUE, and `{given}` has no name of a variable")]
    BadName {
        /// As given.
        given: String,
    },
}

impl RunAs {
    /// What `--as` and `--env` ask for; without `--as` the user that sudo was called by.
    pub fn decide(asked: Option<&str>, variables: &[String]) -> Result<RunAs, RunAsError> {
        let env = variables.iter().map(|given| variable(given));
        Ok(RunAs {
            env: env.collect::<Result<_, _>>()?,
            user: user(asked)?,
        })
    }

    /// The user, where it is another than ours.
    pub fn user(&self) -> Option<&User> {
        self.user.as_ref()
    }

    /// All that a child's environment has: what is passed, what it was told by flags, and what its
    /// command has in front.
    pub(super) fn environment(&self, given: &[(String, String)]) -> Vec<(OsString, OsString)> {
        let mut environment = passed(std::env::vars_os(), self.user.is_some());
        let mut set = |name: &str, value: &str| {
            environment.retain(|(known, _)| known != name);
            environment.push((name.into(), value.into()));
        };
        if let Some(user) = &self.user {
            set("HOME", &user.home);
            set("USER", &user.name);
            set("LOGNAME", &user.name);
            set("SHELL", &user.shell);
        }
        for (name, value) in self.env.iter().chain(given) {
            set(name, value);
        }
        environment
    }
}

fn user(asked: Option<&str>) -> Result<Option<User>, RunAsError> {
    let is_root = geteuid().is_root();
    let sudo = std::env::var("SUDO_USER").ok();
    let sudo = sudo.filter(|name| is_root && !name.is_empty());
    let (name, by) = match (asked, sudo) {
        (Some(name), _) => (name.to_owned(), "--as"),
        (None, Some(name)) => (name, "SUDO_USER"),
        (None, None) => return Ok(None),
    };
    let number = name.parse::<u32>().ok();
    let found = match number {
        Some(uid) => users::by_id(uid),
        None => users::by_name(&name),
    };
    let user = found.map_err(|error| RunAsError::NoLookup {
        name: name.clone(),
        why: error.to_string(),
    })?;
    let Some(user) = user else {
        return Err(RunAsError::Unknown { name, by });
    };
    if user.uid == geteuid().as_raw() {
        return Ok(None);
    }
    if !is_root {
        return Err(RunAsError::NotRoot { name });
    }
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    match is_mapped(&map, user.uid) {
        true => Ok(Some(user)),
        // Root of a namespace of its own, where sudo's user is nobody: nothing is to be dropped.
        false if asked.is_none() => Ok(None),
        false => Err(RunAsError::NotMapped {
            name,
            uid: user.uid,
        }),
    }
}

/// Whether a number means somebody in a user namespace: lines of `inside outside count`
/// (user_namespaces(7)).
fn is_mapped(map: &str, uid: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (first, count) = (numbers.next(), numbers.nth(1));
        matches!((first, count), (Some(Ok(first)), Some(Ok(count)))
            if (first..first + count).contains(&u64::from(uid)))
    })
}

fn variable(given: &str) -> Result<(String, String), RunAsError> {
    let (name, value) = match given.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (given, None),
    };
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(RunAsError::BadName {
            // What stands behind it may be a secret.
            given: name.to_owned(),
        });
    }
    let value = value.or_else(|| std::env::var(name).ok());
    value
        .map(|value| (name.to_owned(), value))
        .ok_or_else(|| RunAsError::NotSet {
            name: name.to_owned(),
        })
}

fn passed(
    ours: impl Iterator<Item = (OsString, OsString)>,
    to_another_user: bool,
) -> Vec<(OsString, OsString)> {
    let is_passed = |name: &OsStr| {
        let Some(name) = name.to_str() else {
            return false;
        };
        let is_ours = to_another_user && OF_OUR_USER.contains(&name);
        !is_ours
            && PASSED.iter().any(|known| match known.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => *known == name,
            })
    };
    ours.filter(|(name, _)| is_passed(name))
        .map(|(name, value)| match name == "PATH" {
            true => {
                let value = clean_path(&value);
                (name, value)
            }
            false => (name, value),
        })
        .collect()
}

/// Makes this process, which is about to become the program, another user's: from here on it has
/// no privilege. What it says goes into pipes of ours, which it may then open by name as well, as
/// servers do that log to `/dev/stdout`.
pub(super) fn drop_to(uid: u32, gid: u32, groups: &[u32]) -> rustix::io::Result<()> {
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    let own_pipe = |fd: BorrowedFd<'_>| {
        let found = rustix::fs::fstat(fd);
        if found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Fifo) {
            let _ = rustix::fs::fchown(fd, Some(uid), Some(gid));
        }
    };
    own_pipe(io::stdout().as_fd());
    own_pipe(io::stderr().as_fd());
    let groups: Vec<Gid> = groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    // One thread runs here, so what is said of the thread is said of the process.
    set_thread_groups(&groups)?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)], to_another_user: bool) -> Vec<(String, String)> {
        let ours = pairs
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let text = |word: OsString| word.into_string().unwrap();
        let passed = passed(ours, to_another_user).into_iter();
        passed
            .map(|(name, value)| (text(name), text(value)))
            .collect()
    }

    #[test]
    fn what_is_not_on_the_list_is_not_passed() {
        let ours = [
            ("PATH", ".:/usr/bin::bin"),
            ("HOME", "/root"),
            ("LC_ALL", "C"),
            ("GOMAXPROCS", "2"),
            ("TMPDIR", "/var/tmp/ours"),
            ("AWS_SECRET_ACCESS_KEY", "hush"),
            ("GITHUB_TOKEN", "hush"),
            ("LD_PRELOAD", "./x.so"),
            ("GOPROXY", "https://me:hush@proxy"),
            ("LC", "x"),
            ("PATHS", "x"),
        ];
        let names = |another| {
            let passed = of(&ours, another).into_iter();
            passed.map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(
            names(false),
            ["PATH", "HOME", "LC_ALL", "GOMAXPROCS", "TMPDIR"]
        );
        // Our home and our folder for temporary files are none of another user's.
        assert_eq!(names(true), ["PATH", "LC_ALL", "GOMAXPROCS"]);
        assert_eq!(of(&ours, false)[0].1, "/usr/bin", "no current folder in it");
    }

    #[test]
    fn the_users_own_words_come_last() {
        let run_as = RunAs::decide(None, &["WF_A=1".into(), "PATH=/x".into(), "E=".into()]);
        let run_as = run_as.unwrap();
        let given = [("WF_A".to_owned(), "2".to_owned())];
        let environment = run_as.environment(&given);
        let value = |name: &str| {
            let mut found = environment.iter().filter(|(known, _)| known == name);
            let value = found.next().map(|(_, value)| value.to_str().unwrap());
            assert_eq!(found.next(), None, "{name} once");
            value
        };
        assert_eq!(value("WF_A"), Some("2"));
        assert_eq!((value("PATH"), value("E")), (Some("/x"), Some("")));
        for bad in ["", "=x", "A B=1"] {
            let error = RunAs::decide(None, &[bad.into()]).expect_err(bad);
            assert!(matches!(error, RunAsError::BadName { .. }), "{error}");
        }
        let error = RunAs::decide(None, &["WF_NO_SUCH_VARIABLE".into()]).expect_err("not set");
        assert!(
            error.to_string().contains("WF_NO_SUCH_VARIABLE=VALUE"),
            "{error}"
        );
    }

    #[test]
    fn a_user_that_is_not_there_is_refused() {
        for name in ["no-such-user-anywhere", "4294967000", "", "root:x", "-1"] {
            let error = RunAs::decide(Some(name), &[]).expect_err(name);
            assert!(matches!(error, RunAsError::Unknown { .. }), "{error}");
            assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
        }
        // Oneself is nobody else, with privilege or without.
        let own = users::by_id(geteuid().as_raw()).unwrap().expect("a user");
        let run_as = RunAs::decide(Some(&own.name), &[]).unwrap();
        assert_eq!(run_as.user(), None);
    }

    #[test]
    fn a_namespace_has_its_own_users() {
        assert!(is_mapped("         0          0 4294967295\n", 65534));
        assert!(is_mapped("0 1000 1\n1 100000 65536\n", 65534));
        for map in ["0 1000 1\n", "", "x y z", "0 0 65534"] {
            assert!(!is_mapped(map, 65534), "{map:?}");
        }
    }
}
