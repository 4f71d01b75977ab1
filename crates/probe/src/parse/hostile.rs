//! Properties of all parsers: whatever the bytes, they return.

use proptest::prelude::*;

use super::*;

/// Feeds the same bytes to everything.
fn parse_everything(bytes: &[u8]) {
    let mut cpus = Vec::new();
    if host::stat(bytes, &mut cpus).is_some() {
        assert!(cpus.iter().all(|ticks| ticks.cpu < host::CPUS_MAX));
    }
    if let Some(list) = host::cpulist(bytes) {
        assert!(list.is_sorted() && list.len() <= host::CPUS_MAX as usize);
    }
    let _ = forwarder::container_address(bytes);
    let _ = process::stat(bytes);
    let _ = process::stat_name(bytes);
    let _ = process::status(bytes);
    let _ = process::schedstat(bytes);
    let _ = network::dev(bytes, "eth0");
    let _ = network::counters(bytes, "Tcp", ["ActiveOpens", "OutSegs"]);
    let _ = network::tcp(bytes).count();
    let _ = network::is_local_v4(bytes, std::net::Ipv4Addr::LOCALHOST);
    let _ = network::is_local_v6(bytes, std::net::Ipv6Addr::LOCALHOST);
    let _ = cgroup::cpu_stat(bytes);
    for quota in [cgroup::cpu_max(bytes), cgroup::cfs_quota(bytes, bytes)] {
        if let Some(cgroup::Quota::Cores(cores)) = quota {
            assert!(cores > 0.0 && cores.is_finite());
        }
    }
    let _ = cgroup::memberships(bytes);
    let _ = cgroup::mounts(bytes);
    let _ = sockets::tcp_info(bytes);
    let _ = pprof::profile(bytes);
    let _ = perf::records(bytes).count();
    let _ = perf::points(bytes).count();
    let _ = perf::wakings(bytes).count();
    segment::Exchanges::default().add(bytes, (std::net::Ipv4Addr::LOCALHOST, 80).into());
    let _ = netlink::attributes(bytes).count();
    for message in netlink::messages(bytes) {
        let _ = netlink::error_number(message.payload);
        let _ = link::link(&message);
        let _ = link::shaper(&message);
        let _ = link::address(&message);
        let _ = link::route(&message);
        let _ = sockets::socket(&message);
    }
}

const REAL: [&[u8]; 18] = [
    include_bytes!("../../testdata/stat"),
    include_bytes!("../../testdata/pid_stat"),
    include_bytes!("../../testdata/pid_status"),
    include_bytes!("../../testdata/pid_schedstat"),
    include_bytes!("../../testdata/net_dev"),
    include_bytes!("../../testdata/net_snmp"),
    include_bytes!("../../testdata/net_netstat"),
    include_bytes!("../../testdata/net_tcp"),
    include_bytes!("../../testdata/net_tcp6"),
    include_bytes!("../../testdata/net_fib_trie"),
    include_bytes!("../../testdata/net_if_inet6"),
    include_bytes!("../../testdata/pid_cgroup_hybrid"),
    include_bytes!("../../testdata/mountinfo_hybrid"),
    include_bytes!("../../testdata/rtnetlink_links"),
    include_bytes!("../../testdata/rtnetlink_addresses"),
    include_bytes!("../../testdata/rtnetlink_qdiscs"),
    include_bytes!("../../testdata/rtnetlink_classes_htb"),
    include_bytes!("../../testdata/sock_diag_tcp6"),
];

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        parse_everything(&bytes);
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "[0-9a-zA-Z:()|+,/ \\\\\n-]{0,400}") {
        parse_everything(text.as_bytes());
    }

    #[test]
    fn damaged_files_make_no_parser_panic(
        which in 0..REAL.len(),
        cut in any::<prop::sample::Index>(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
    ) {
        let mut bytes = REAL[which].to_vec();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        parse_everything(&bytes);
    }
}
