//! Which processors are online.
//!
//! For a thread that nobody pinned, `Cpus_allowed_list` in `/proc/PID/status` names every processor
//! that the kernel may ever have: those that are offline as well, and those that a virtual machine
//! might still be given. Shares of that would be shares of processors that are not there.

use std::sync::OnceLock;

use crate::parse::host::cpulist;
use crate::procfile::contents;

/// Processors that are online, ascending, as they were when first asked for; empty where that cannot
/// be read.
pub fn cpus() -> &'static [u32] {
    static ONLINE: OnceLock<Vec<u32>> = OnceLock::new();
    ONLINE.get_or_init(|| {
        let bytes = contents("/sys/devices/system/cpu/online").unwrap_or_default();
        cpulist(&bytes).unwrap_or_default()
    })
}

/// Those of some processors that are online; all of them where that cannot be told.
pub fn only(cpus: Vec<u32>) -> Vec<u32> {
    among(cpus, self::cpus())
}

/// Those of `cpus` that are in `online`, which ascends. All of them where none is: a container may
/// be shown other numbers than its processes have.
pub fn among(cpus: Vec<u32>, online: &[u32]) -> Vec<u32> {
    let is_online = |cpu: &u32| online.binary_search(cpu).is_ok();
    match cpus.iter().any(is_online) {
        true => cpus.into_iter().filter(is_online).collect(),
        false => cpus,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_that_a_machine_might_have_do_not_count() {
        let possible: Vec<u32> = (0..128).collect();
        assert_eq!(among(possible.clone(), &[0, 1, 2, 3]), [0, 1, 2, 3]);
        assert_eq!(among(vec![2, 3, 4], &[0, 2, 4]), [2, 4]);
        assert_eq!(among(possible.clone(), &[]), possible, "it cannot be read");
        assert_eq!(among(vec![6, 7], &[0, 1]), [6, 7], "numbers of two worlds");
        assert_eq!(among(vec![], &[0, 1]), Vec::<u32>::new());
    }

    #[test]
    fn who_may_run_somewhere_may_run_where_processors_are_online() {
        let own = wallfinder_sys::process::allowed_cpus();
        assert_eq!(only(own.clone()), own);
    }
}
