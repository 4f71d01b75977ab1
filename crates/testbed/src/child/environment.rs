//! How a child's environment gets to it past the steps before it, which run as root where we do.
//!
//! What a variable does to a program it would do to the tool as well (`LD_PRELOAD`), so on the way
//! every name has a prefix, and the tool's own start sees nothing of it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// What stands before names on the way.
const PREFIX: &str = "WALLFINDER_GIVES_";

/// A variable as it travels.
pub(super) fn given((name, value): (OsString, OsString)) -> (OsString, OsString) {
    let mut prefixed = OsString::from(PREFIX);
    prefixed.push(name);
    (prefixed, value)
}

/// A variable as it arrives; `None` for those that are not the child's.
pub(super) fn taken((name, value): (OsString, OsString)) -> Option<(OsString, OsString)> {
    let name = name.as_bytes().strip_prefix(PREFIX.as_bytes())?;
    Some((OsStr::from_bytes(name).to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn what_was_given_arrives_and_nothing_else() {
        let odd = OsString::from_vec(b"A\xff=1".to_vec());
        for name in ["LD_PRELOAD".into(), "WALLFINDER_GIVES_X".into(), odd] {
            let pair = (name, OsString::from("v"));
            assert_ne!(given(pair.clone()), pair);
            assert_eq!(taken(given(pair.clone())), Some(pair));
        }
        assert_eq!(taken(("LD_PRELOAD".into(), "x".into())), None);
    }
}
