//! Users of this machine, by its name service.

use std::io;

use crate::name_service;

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
    user(name, |user| user.name == name)
}

/// The user with this number.
pub fn by_id(uid: u32) -> io::Result<Option<User>> {
    user(&uid.to_string(), |user| user.uid == uid)
}

/// A name service takes a number for a name, and the other way round.
fn user(key: &str, is_it: impl Fn(&User) -> bool) -> io::Result<Option<User>> {
    let entries = name_service::users(key)?;
    let found = entries.lines().filter_map(parsed).find(is_it);
    found
        .map(|mut user| {
            user.groups = groups_of(&user.name, user.gid)?;
            Ok(user)
        })
        .transpose()
}

/// A line of passwd(5).
fn parsed(line: &str) -> Option<User> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, uid, gid, _, home, shell] = fields[..] else {
        return None;
    };
    Some(User {
        name: name.to_owned(),
        uid: uid.parse().ok()?,
        gid: gid.parse().ok()?,
        groups: Vec::new(),
        home: home.to_owned(),
        shell: shell.to_owned(),
    })
}

/// Groups of a user, its own first.
fn groups_of(name: &str, gid: u32) -> io::Result<Vec<u32>> {
    let mut groups = vec![gid];
    for group in name_service::groups(name)? {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    Ok(groups)
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
