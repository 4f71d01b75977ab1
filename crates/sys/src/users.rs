//! Users of this machine, by the C library: files, or whatever service its name service asks.

use std::ffi::{CStr, CString, c_char};
use std::io;

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// The number of its own group.
    pub gid: u32,
    /// All of its groups, its own too.
    pub groups: Vec<u32>,
    /// Its home.
    pub home: String,
    /// Its shell.
    pub shell: String,
}

/// The user with this name.
pub fn by_name(name: &str) -> io::Result<Option<User>> {
    let Ok(wanted) = CString::new(name) else {
        return Ok(None);
    };
    entry(|record, buffer, found| {
        // SAFETY: all pointers are valid for the call; `buffer` says its own length.
        unsafe {
            libc::getpwnam_r(
                wanted.as_ptr(),
                record,
                buffer.as_mut_ptr(),
                buffer.len(),
                found,
            )
        }
    })
}

/// The user with this number.
pub fn by_id(uid: u32) -> io::Result<Option<User>> {
    entry(|record, buffer, found| {
        // SAFETY: all pointers are valid for the call; `buffer` says its own length.
        unsafe { libc::getpwuid_r(uid, record, buffer.as_mut_ptr(), buffer.len(), found) }
    })
}

/// The longest entry that is read.
const ENTRY_BYTES_MAX: usize = 1 << 20;
/// Groups of a user, at the most: the kernel takes no more (credentials(7)).
const GROUPS_MAX: usize = 65_536;

fn entry(
    mut look: impl FnMut(*mut libc::passwd, &mut [c_char], *mut *mut libc::passwd) -> libc::c_int,
) -> io::Result<Option<User>> {
    let mut buffer: Vec<c_char> = vec![0; 4 << 10];
    loop {
        // SAFETY: a `passwd` is pointers and numbers, for which zero is a value.
        let mut record: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        match look(&raw mut record, &mut buffer, &raw mut found) {
            0 if found.is_null() => return Ok(None),
            0 => {
                let text = |pointer: *const c_char| {
                    if pointer.is_null() {
                        return String::new();
                    }
                    // SAFETY: the library has put a string with its end into `buffer`.
                    let text = unsafe { CStr::from_ptr(pointer) };
                    text.to_string_lossy().into_owned()
                };
                let name = text(record.pw_name);
                return Ok(Some(User {
                    groups: groups_of(&name, record.pw_gid)?,
                    name,
                    uid: record.pw_uid,
                    gid: record.pw_gid,
                    home: text(record.pw_dir),
                    shell: text(record.pw_shell),
                }));
            }
            libc::ERANGE if buffer.len() < ENTRY_BYTES_MAX => buffer.resize(buffer.len() * 4, 0),
            // What a library says of a name that it does not know (getpwnam(3)).
            libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
            code => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

fn groups_of(name: &str, gid: u32) -> io::Result<Vec<u32>> {
    let name = CString::new(name)?;
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut count = groups.len() as libc::c_int;
        // SAFETY: `groups` has room for `count` of them, and the call writes no more.
        let had_room =
            unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) }
                >= 0;
        let count = usize::try_from(count).unwrap_or(0);
        if had_room {
            groups.truncate(count);
            return Ok(groups);
        }
        if groups.len() >= GROUPS_MAX {
            return Err(io::Error::other("it is in too many groups"));
        }
        let room = count.max(groups.len() * 2).min(GROUPS_MAX);
        groups.resize(room, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_by_name_and_number_and_nobody_else_is_made_up() {
        let root = by_name("root").unwrap().expect("everywhere");
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0) && root.home.starts_with('/'));
        assert_eq!(by_id(0).unwrap(), Some(root));
        for name in ["no-such-user-anywhere", "", "a\0b", "root:x"] {
            assert_eq!(by_name(name).unwrap(), None, "{name:?}");
        }
        assert_eq!(by_id(u32::MAX - 7).unwrap(), None);
    }
}
