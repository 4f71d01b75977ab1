//! What the system's name service knows: users, groups, hosts. It is asked by `getent`, for its modules are of the
//! system's own C library, and this binary may hold another one. Where that program is missing, users and groups are
//! those of the files.

use std::fs;
use std::io::{self, Read};
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::programs;

/// What `getent` ends with where nothing is found.
const NOT_FOUND: i32 = 2;
/// How long a service of users may take.
const USER_PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What is known by a key; `None`: there is no `getent`.
fn getent(database: &str, key: &str, patience: Duration) -> io::Result<Option<String>> {
    let Some(program) = programs::on_path("getent") else {
        return Ok(None);
    };
    // No key of any database holds one, and no argument can.
    if key.contains('\0') {
        return Ok(Some(String::new()));
    }
    let mut command = Command::new(program);
    command.args([database, "--", key]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut asked = command.spawn()?;
    let since = Instant::now();
    let status = loop {
        if let Some(status) = asked.try_wait()? {
            break status;
        }
        if since.elapsed() > patience {
            asked.kill()?;
            asked.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(LOOK_EVERY);
    };
    let mut found = String::new();
    if let Some(mut stdout) = asked.stdout.take() {
        stdout.read_to_string(&mut found)?;
    }
    match status.code() {
        Some(0 | NOT_FOUND) => Ok(Some(found)),
        _ => Err(io::Error::other(format!("getent {database}: {status}"))),
    }
}

/// Lines of passwd(5) among which a user is, by name or number, if it is anywhere.
pub(crate) fn users(key: &str) -> io::Result<String> {
    match getent("passwd", key, USER_PATIENCE)? {
        Some(found) => Ok(found),
        None => fs::read_to_string("/etc/passwd"),
    }
}

/// Numbers of the groups that a user is in beside its own.
pub(crate) fn groups(user: &str) -> io::Result<Vec<u32>> {
    if let Some(found) = getent("initgroups", user, USER_PATIENCE)? {
        let words = found.split_whitespace().skip(1);
        return Ok(words.filter_map(|word| word.parse().ok()).collect());
    }
    let file = fs::read_to_string("/etc/group")?;
    let group = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let [_, _, number, members] = fields[..] else {
            return None;
        };
        let is_member = members.split(',').any(|member| member == user);
        is_member.then(|| number.parse().ok()).flatten()
    };
    Ok(file.lines().filter_map(group).collect())
}

/// The addresses of a host, in the order in which they are to be tried; none where nobody knows it. A name service
/// that takes longer is given up ([`io::ErrorKind::TimedOut`]).
pub fn addresses(host: &str, patience: Duration) -> io::Result<Vec<IpAddr>> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    let found = getent("ahosts", host, patience)?;
    let found = found.ok_or_else(|| {
        io::Error::other("getent is missing, which asks the name service; give an address instead")
    })?;
    let mut addresses = Vec::new();
    for line in found.lines() {
        let address = line.split_whitespace().next();
        // A scope stands behind a link-local one, which is never loaded.
        let address = address.and_then(|word| word.parse().ok());
        if let Some(address) = address.filter(|address| !addresses.contains(address)) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_known_by_name_and_addresses_by_themselves() {
        let of = |host| addresses(host, Duration::from_secs(9)).expect("a name service");
        assert!(of("localhost").iter().all(IpAddr::is_loopback));
        assert!(!of("localhost").is_empty());
        let own: Vec<IpAddr> = vec!["::1".parse().expect("an address")];
        assert_eq!(of("::1"), own);
        for nobody in ["nobody.invalid", "", "a\0b", "--help"] {
            assert!(of(nobody).is_empty(), "{nobody:?}");
        }
    }
}
