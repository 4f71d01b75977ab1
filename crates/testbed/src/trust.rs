//! Whether root may run what stands in a place: whether somebody else could have put it there.
//!
//! A place is trusted where each folder on the way to it, and the file itself, belong to root, to
//! the user who runs the tool (the real user; under sudo the one who asked for it), or to whoever
//! owns the tool's own file, and nobody else may write to them. A folder such as `/tmp`, where all
//! may write but only owners remove, is on the way to a place of ours; what stands in it is not.
//!
//! Only root is held to this: anybody else has no more to lose than what the program is run with.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::{geteuid, getuid};

/// Why something is not run as root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is not run as root: {} {why}, who may put any program there; give both to root \
     (chown, chmod go-w), or name the program by its path",
    file.display(), place.display()
)]
pub struct Untrusted {
    /// What was to be run.
    pub file: PathBuf,
    /// The file or folder that somebody else may change.
    pub place: PathBuf,
    /// Who, and how: `belongs to user 1000`.
    pub why: String,
}

/// The place without links, if this process may take a program or make a folder there.
pub(crate) fn trusted(place: &Path) -> Result<PathBuf, Untrusted> {
    let failed = |at: &Path, error: io::Error| Untrusted {
        file: place.to_owned(),
        place: at.to_owned(),
        why: format!("cannot be looked at by us ({error}) but may belong to somebody"),
    };
    // From here on nothing is a link: whoever could swap one has to be trusted as well.
    let whole = fs::canonicalize(place).map_err(|error| failed(place, error))?;
    if !geteuid().is_root() {
        return Ok(whole);
    }
    let people = People::here();
    for part in whole.ancestors() {
        let found = fs::symlink_metadata(part).map_err(|error| failed(part, error))?;
        let facts = Facts {
            uid: found.uid(),
            gid: found.gid(),
            mode: found.mode(),
            is_folder: found.is_dir(),
        };
        if let Some(why) = people.distrust(facts) {
            return Err(Untrusted {
                file: whole.clone(),
                place: part.to_owned(),
                why,
            });
        }
    }
    Ok(whole)
}

/// Who may own what root runs.
#[derive(Debug)]
struct People(Vec<u32>);

#[derive(Debug, Clone, Copy)]
struct Facts {
    uid: u32,
    gid: u32,
    mode: u32,
    is_folder: bool,
}

impl People {
    fn here() -> People {
        let sudo = std::env::var("SUDO_UID").ok();
        let tool = fs::metadata("/proc/self/exe").ok();
        let mut people = vec![0, getuid().as_raw()];
        people.extend(sudo.and_then(|uid| uid.parse::<u32>().ok()));
        // Who may change the tool needs no way around it.
        people.extend(tool.map(|tool| tool.uid()));
        People(people)
    }

    /// Who may change it that should not, if anybody.
    fn distrust(&self, facts: Facts) -> Option<String> {
        if !self.0.contains(&facts.uid) {
            return Some(format!("belongs to user {}", facts.uid));
        }
        let only_owners_remove = facts.is_folder && facts.mode & 0o1000 != 0;
        if facts.mode & 0o002 != 0 && !only_owners_remove {
            return Some("may be written to by everybody".to_owned());
        }
        // A group with its owner's number is that user's own, by convention.
        let is_own_group = facts.gid == facts.uid || facts.gid == 0;
        if facts.mode & 0o020 != 0 && !is_own_group && !only_owners_remove {
            return Some(format!("may be written to by group {}", facts.gid));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn facts(uid: u32, gid: u32, mode: u32, is_folder: bool) -> Facts {
        Facts {
            uid,
            gid,
            mode,
            is_folder,
        }
    }

    #[test]
    fn only_what_nobody_else_could_have_changed_is_trusted() {
        let people = People(vec![0, 1000]);
        for good in [
            facts(0, 0, 0o755, true),
            facts(0, 0, 0o775, true),
            facts(1000, 1000, 0o775, true),
            facts(1000, 0, 0o555, false),
            facts(0, 0, 0o1777, true),
        ] {
            assert_eq!(people.distrust(good), None, "{good:?}");
        }
        for (bad, why) in [
            (facts(1001, 0, 0o700, true), "belongs to user 1001"),
            (facts(65534, 65534, 0o755, false), "belongs to user 65534"),
            (facts(0, 0, 0o777, true), "by everybody"),
            (facts(0, 0, 0o757, false), "by everybody"),
            (facts(0, 0, 0o1757, false), "by everybody"),
            (facts(0, 27, 0o775, true), "by group 27"),
            (facts(1000, 100, 0o775, false), "by group 100"),
        ] {
            let found = people.distrust(bad).expect("not trusted");
            assert!(found.contains(why), "{bad:?}: {found}");
        }
    }

    #[test]
    fn a_place_is_as_good_as_every_folder_on_the_way_and_a_link_is_where_it_leads() {
        if !geteuid().is_root() {
            wallfinder_skip::skip("only root can give files away");
            return;
        }
        let top = std::env::temp_dir().join(format!("wf-trust-{}", std::process::id()));
        let folder = top.join("a/b");
        fs::create_dir_all(&folder).unwrap();
        let program = folder.join("knownwall");
        fs::write(&program, "").unwrap();
        assert_eq!(trusted(&program), Ok(fs::canonicalize(&program).unwrap()));
        let refused = |place: &Path, by: &Path| {
            let error = trusted(place).expect_err("refused");
            assert_eq!(error.place, fs::canonicalize(by).unwrap());
            assert!(error.to_string().contains("is not run as root"), "{error}");
        };
        for part in [&program, &folder, &top.join("a")] {
            chown(part, Some(65534), Some(65534)).unwrap();
            refused(&program, part);
            chown(part, Some(0), Some(0)).unwrap();
            let mode = fs::metadata(part).unwrap().permissions().mode();
            fs::set_permissions(part, fs::Permissions::from_mode(0o777)).unwrap();
            refused(&program, part);
            fs::set_permissions(part, fs::Permissions::from_mode(mode)).unwrap();
        }
        // A link in a good folder that leads to a bad one.
        let bad = top.join("bad");
        fs::create_dir(&bad).unwrap();
        fs::write(bad.join("echo"), "").unwrap();
        chown(&bad, Some(65534), Some(65534)).unwrap();
        symlink(bad.join("echo"), folder.join("echo")).unwrap();
        refused(&folder.join("echo"), &bad);
        fs::remove_dir_all(&top).unwrap();
    }
}
