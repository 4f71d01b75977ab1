//! Settings that are put back from a journal: which files of the host they are, and what may be
//! written there.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{BUSY, FLOWS, HUGE_PAGES, INTERFACES, where_seen, write};
use crate::error::TestbedError;
use crate::iproute::InterfaceName;

/// Longest text of a setting.
const TEXT_BYTES_MAX: usize = 4096;

/// A file that is a setting, by its path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Setting {
    path: String,
    takes: Takes,
}

/// What a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    HugePages,
    Number,
    /// Processors as hexadecimal words of 32.
    Mask,
    /// Processors such as `0-3,8`.
    List,
}

/// What stood at a setting, in the kernel's words.
pub(crate) type Text = String;

impl TryFrom<String> for Setting {
    type Error = String;

    fn try_from(path: String) -> Result<Setting, String> {
        let takes = takes(&path);
        let takes =
            takes.ok_or_else(|| format!("`{path}` is no setting that Wallfinder changes"))?;
        Ok(Setting { path, takes })
    }
}

impl From<Setting> for String {
    fn from(setting: Setting) -> String {
        setting.path
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

fn takes(path: &str) -> Option<Takes> {
    if path == HUGE_PAGES {
        return Some(Takes::HugePages);
    }
    if path == FLOWS || BUSY.contains(&path) {
        return Some(Takes::Number);
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let below = |folder: &str| path.strip_prefix(folder)?.strip_prefix('/');
    if let Some(rest) = below(INTERFACES) {
        let [name, "queues", queue, setting] = rest.split('/').collect::<Vec<_>>()[..] else {
            return None;
        };
        name.parse::<InterfaceName>().ok()?;
        queue.strip_prefix("rx-").filter(|nth| is_number(nth))?;
        return match setting {
            "rps_cpus" => Some(Takes::Mask),
            "rps_flow_cnt" => Some(Takes::Number),
            _ => None,
        };
    }
    let [number, "smp_affinity_list"] = below("/proc/irq")?.split('/').collect::<Vec<_>>()[..]
    else {
        return None;
    };
    is_number(number).then_some(Takes::List)
}

impl Setting {
    /// Whether a text is one that could have stood there.
    pub(crate) fn check(&self, text: &Text) -> Result<(), String> {
        let all = |is_fine: fn(u8) -> bool| !text.is_empty() && text.bytes().all(is_fine);
        let is_fine = text.len() <= TEXT_BYTES_MAX
            && match self.takes {
                Takes::HugePages => ["always", "madvise", "never"].contains(&text.as_str()),
                Takes::Number => all(|byte| byte.is_ascii_digit()),
                Takes::Mask => all(|byte| byte.is_ascii_hexdigit() || byte == b','),
                Takes::List => all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b'-')),
            };
        match is_fine {
            true => Ok(()),
            false => Err(format!("a text that {self} does not have")),
        }
    }

    /// Puts it back.
    pub(crate) fn restore(&self, text: &Text) -> Result<(), TestbedError> {
        let path = Path::new(&self.path);
        where_seen(path, || match path.exists() {
            true => write(path, text),
            // The interface is gone, and its settings with it.
            false => Ok(()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(path: &str) -> Result<Setting, String> {
        Setting::try_from(path.to_owned())
    }

    #[test]
    fn only_settings_that_are_set_here_are_put_back() {
        for path in [
            "/etc/passwd",
            "/sys/class/net/lo/mtu",
            "/sys/class/net/../../etc/queues/rx-0/rps_cpus",
            "/sys/class/net/../queues/rx-0/rps_cpus",
            "/sys/class/net/lo/queues/rx-0/../rps_cpus",
            "/sys/class/net/lo/queues/rx-/rps_cpus",
            "/sys/class/net/lo/queues/rx-0/rps_cpus/",
            "/sys/class/netx/lo/queues/rx-0/rps_cpus",
            "/proc/irq/x/smp_affinity_list",
            "/proc/irq//smp_affinity_list",
            "/proc/irq/1/smp_affinity",
            "/proc/sys/net/core/somaxconn",
            "sys/kernel/mm/transparent_hugepage/enabled",
            "",
        ] {
            assert!(setting(path).is_err(), "{path}");
        }
        let gone = setting("/sys/class/net/wf-nowhere/queues/rx-0/rps_cpus").expect("one of ours");
        assert_eq!(gone.restore(&"0".to_owned()), Ok(()));
    }

    #[test]
    fn a_setting_gets_only_what_could_have_stood_there() {
        for (path, good, bad) in [
            (HUGE_PAGES, "madvise", "defrag"),
            (FLOWS, "32768", "-1"),
            (BUSY[0], "50", ""),
            (
                "/sys/class/net/lo/queues/rx-0/rps_cpus",
                "00000000,00000003",
                "3\n",
            ),
            ("/sys/class/net/lo/queues/rx-12/rps_flow_cnt", "0", "0 1"),
            ("/proc/irq/24/smp_affinity_list", "0-1,3", "all"),
        ] {
            let setting = setting(path).expect(path);
            assert_eq!(setting.check(&good.to_owned()), Ok(()), "{path}");
            assert!(setting.check(&bad.to_owned()).is_err(), "{path}");
        }
    }
}
