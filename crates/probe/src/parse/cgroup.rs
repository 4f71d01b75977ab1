//! Control groups, both versions (cgroups(7)), and the mounts that lead to them
//! (proc_pid_mountinfo(5)).

use super::{decimal, value_of, words};

/// What a group's `cpu.stat` counts since the group was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuStat {
    /// Quota periods that began while something could run.
    pub periods: u64,
    /// Of them, those that ended throttled.
    pub throttled_periods: u64,
    /// Time throttled in nanoseconds, summed over processors.
    pub throttled_ns: u64,
}

/// Reads `cpu.stat`: version 2 counts `throttled_usec`, version 1 `throttled_time` in nanoseconds.
///
/// `None` where the file has no bandwidth counters, as in the root group.
pub fn cpu_stat(bytes: &[u8]) -> Option<CpuStat> {
    let number = |key| value_of(bytes, key).and_then(decimal);
    let throttled_ns = match number("throttled_usec") {
        Some(micros) => micros.checked_mul(1_000)?,
        None => number("throttled_time")?,
    };
    Some(CpuStat {
        periods: number("nr_periods")?,
        throttled_periods: number("nr_throttled")?,
        throttled_ns,
    })
}

/// What a group may use of the processors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quota {
    /// Everything.
    Unlimited,
    /// This many cores' worth of time in each period; above 0.
    Cores(f64),
}

impl Quota {
    fn of(quota_us: u64, period_us: u64) -> Option<Quota> {
        (quota_us > 0 && period_us > 0).then(|| Quota::Cores(quota_us as f64 / period_us as f64))
    }
}

/// Version 2, `cpu.max`: `max 100000` or `50000 100000`.
pub fn cpu_max(bytes: &[u8]) -> Option<Quota> {
    let mut words = words(bytes);
    let (quota, period_us) = (words.next()?, decimal(words.next()?)?);
    match quota {
        b"max" => Some(Quota::Unlimited),
        number => Quota::of(decimal(number)?, period_us),
    }
}

/// Version 1, `cpu.cfs_quota_us` (-1 for none) and `cpu.cfs_period_us`.
pub fn cfs_quota(quota_us: &[u8], period_us: &[u8]) -> Option<Quota> {
    let period_us = decimal(period_us.trim_ascii())?;
    match quota_us.trim_ascii() {
        b"-1" => Some(Quota::Unlimited),
        number => Quota::of(decimal(number)?, period_us),
    }
}

/// A process's place in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Controllers of the hierarchy; empty for version 2.
    pub controllers: Vec<String>,
    /// The group's path below the hierarchy's root.
    pub path: String,
}

impl Membership {
    /// Whether this is the version 2 hierarchy.
    pub fn is_unified(&self) -> bool {
        self.controllers.is_empty()
    }
}

/// Reads `/proc/PID/cgroup`: `4:memory:/path` and, for version 2, `0::/path`. Broken lines are left
/// out.
pub fn memberships(bytes: &[u8]) -> Vec<Membership> {
    super::lines(bytes)
        .filter_map(|line| {
            let mut parts = line.splitn(3, |byte| *byte == b':');
            let hierarchy = decimal(parts.next()?)?;
            let controllers = std::str::from_utf8(parts.next()?).ok()?;
            let path = std::str::from_utf8(parts.next()?).ok()?;
            if !path.starts_with('/') || (hierarchy == 0) != controllers.is_empty() {
                return None;
            }
            let controllers = controllers.split(',').filter(|name| !name.is_empty());
            Some(Membership {
                controllers: controllers.map(str::to_owned).collect(),
                path: path.to_owned(),
            })
        })
        .collect()
}

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The folder of the file system that is mounted.
    pub root: String,
    /// Where.
    pub point: String,
    /// Kind, such as `cgroup2`.
    pub kind: String,
    /// Options of the file system: for version 1 groups, the controllers.
    pub options: String,
}

/// Reads `/proc/PID/mountinfo`. Broken lines are left out.
pub fn mounts(bytes: &[u8]) -> Vec<Mount> {
    super::lines(bytes).filter_map(mount).collect()
}

/// `31 23 0:28 /root /point rw,relatime shared:1 - kind source options`.
fn mount(line: &[u8]) -> Option<Mount> {
    let mut words = words(line);
    let root = unescaped(words.nth(3)?)?;
    let point = unescaped(words.next()?)?;
    let mut tail = words.skip_while(|word| *word != b"-").skip(1);
    let kind = unescaped(tail.next()?)?;
    let options = unescaped(tail.nth(1)?)?;
    Some(Mount {
        root,
        point,
        kind,
        options,
    })
}

/// Blanks and backslashes are written as three octal digits: `\040`.
fn unescaped(word: &[u8]) -> Option<String> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        if *first != b'\\' {
            out.push(*first);
            rest = after;
            continue;
        }
        let digits = after.get(..3)?;
        let value = digits.iter().try_fold(0u32, |value, byte| {
            Some(value * 8 + char::from(*byte).to_digit(8)?)
        })?;
        out.push(u8::try_from(value).ok()?);
        rest = &after[3..];
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_versions_of_cpu_stat() {
        let first = b"nr_periods 50\nnr_throttled 20\nthrottled_time 1500000000\nnr_bursts 0\nburst_time 0\n";
        let second = b"usage_usec 9\nuser_usec 4\nsystem_usec 5\nnr_periods 50\nnr_throttled 20\nthrottled_usec 1500000\n";
        let expected = CpuStat {
            periods: 50,
            throttled_periods: 20,
            throttled_ns: 1_500_000_000,
        };
        assert_eq!(cpu_stat(first), Some(expected));
        assert_eq!(cpu_stat(second), Some(expected));
        let root = include_bytes!("../../testdata/cgroup_v2_root_cpu_stat");
        assert_eq!(cpu_stat(root), None);
    }

    #[test]
    fn reads_quotas() {
        assert_eq!(cpu_max(b"max 100000\n"), Some(Quota::Unlimited));
        assert_eq!(cpu_max(b"50000 100000\n"), Some(Quota::Cores(0.5)));
        assert_eq!(cfs_quota(b"-1\n", b"100000\n"), Some(Quota::Unlimited));
        assert_eq!(cfs_quota(b"5000\n", b"10000\n"), Some(Quota::Cores(0.5)));
        for bad in ["", "max", "0 100000", "5 0", "-5 100000", "max x"] {
            assert_eq!(cpu_max(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(cfs_quota(b"-2", b"100000"), None);
    }

    #[test]
    fn reads_memberships_of_a_hybrid_machine() {
        let groups = memberships(include_bytes!("../../testdata/pid_cgroup_hybrid"));
        assert_eq!(groups.len(), 10);
        let memory = groups
            .iter()
            .find(|group| group.controllers == ["memory"])
            .unwrap();
        assert_eq!(memory.path, "/build/job-17");
        assert_eq!(groups.iter().filter(|group| group.is_unified()).count(), 1);
        let colon = memberships(
            b"0::/user.slice/a:b.scope\n1:cpu,cpuacct:/x\nnonsense\n2::/y\n3:cpu:relative\n",
        );
        assert_eq!(colon.len(), 2);
        assert_eq!(colon[0].path, "/user.slice/a:b.scope");
        assert_eq!(colon[1].controllers, ["cpu", "cpuacct"]);
    }

    #[test]
    fn reads_mounts() {
        let mounts = mounts(include_bytes!("../../testdata/mountinfo_hybrid"));
        let cpu = mounts
            .iter()
            .find(|mount| mount.kind == "cgroup" && mount.options.contains("cpu"))
            .unwrap();
        assert_eq!(
            (cpu.point.as_str(), cpu.root.as_str()),
            ("/sys/fs/cgroup/cpu", "/")
        );
        let odd = super::mounts(b"1 2 0:3 / /mnt/a\\040b rw shared:1 master:2 - tmpfs none rw\n1 2 0:3 / /bad\\09 rw - t n o\nx\n");
        assert_eq!(odd.len(), 1);
        assert_eq!(odd[0].point, "/mnt/a b");
    }
}
