//! Port forwarders: programs that hold a published port in a server's place.
//!
//! docker-proxy says in its arguments where it leads to; of the others the name is all there is.

use std::net::{IpAddr, SocketAddr};

use super::decimal_u32;

/// Command names, as `stat` shows them. `dockerd` and `kube-proxy` hold ports that the kernel
/// forwards, `conmon` those of the container that it watches.
const NAMES: [&str; 12] = [
    "docker-proxy",
    "dockerd",
    "rootlesskit",
    "rootlessport",
    "slirp4netns",
    "pasta",
    "passt",
    "conmon",
    "gvproxy",
    "kube-proxy",
    "kubectl",
    "ssh",
];

/// Whether a process with this command name forwards what it listens for.
pub fn is_forwarder(name: &str) -> bool {
    // pasta and passt start the variant that fits the processor.
    let program = name.strip_suffix(".avx2").unwrap_or(name);
    NAMES.contains(&program)
}

/// Where docker-proxy leads to: address and port inside the container, from `/proc/PID/cmdline`.
pub fn container_address(cmdline: &[u8]) -> Option<SocketAddr> {
    let ip = std::str::from_utf8(argument(cmdline, b"container-ip")?).ok()?;
    let ip: IpAddr = ip.parse().ok()?;
    let port = decimal_u32(argument(cmdline, b"container-port")?)?;
    let port = u16::try_from(port).ok().filter(|port| *port != 0)?;
    Some(SocketAddr::new(ip.to_canonical(), port))
}

/// A flag's value as Go's `flag` takes it: `-name value` or `-name=value`, with one dash or two.
fn argument<'a>(cmdline: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut words = cmdline.split(|byte| *byte == 0);
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix(b"-") else {
            continue;
        };
        let flag = flag.strip_prefix(b"-").unwrap_or(flag);
        match flag.strip_prefix(name) {
            Some([]) => return words.next(),
            Some([b'=', value @ ..]) => return Some(value),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cmdline(words: &[&str]) -> Vec<u8> {
        words
            .iter()
            .flat_map(|word| [word.as_bytes(), b"\0"].concat())
            .collect()
    }

    #[test]
    fn docker_proxy_says_where_it_leads_to() {
        let line = "/usr/bin/docker-proxy -proto tcp -host-ip 0.0.0.0 -host-port 8080 \
                    -container-ip 172.17.0.2 -container-port 80 -use-listen-fd";
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let expected: Option<SocketAddr> = "172.17.0.2:80".parse().ok();
        assert_eq!(container_address(&cmdline(&words)), expected);
        let words = ["p", "--container-port=80", "-container-ip=fd00::2"];
        let expected: Option<SocketAddr> = "[fd00::2]:80".parse().ok();
        assert_eq!(container_address(&cmdline(&words)), expected);
    }

    #[test]
    fn odd_arguments_lead_nowhere() {
        for words in [
            &["docker-proxy"][..],
            &["p", "-container-ip", "172.17.0.2"],
            &["p", "-container-ip", "172.17.0.2", "-container-port"],
            &["p", "-container-ip", "172.17.0.2", "-container-port", "0"],
            &["p", "-container-ip", "web", "-container-port", "80"],
            &["p", "-container-ip4", "1.1.1.1", "-container-port", "80"],
            &["p", "-container-ip=1.1.1.1", "-container-port=65616"],
        ] {
            assert_eq!(container_address(&cmdline(words)), None, "{words:?}");
        }
        assert_eq!(container_address(b""), None);
    }

    #[test]
    fn forwarders_are_known_by_name() {
        for name in ["docker-proxy", "rootlessport", "pasta.avx2", "conmon"] {
            assert!(is_forwarder(name), "{name}");
        }
        for name in ["nginx", "docker-proxy2", "avx2", ""] {
            assert!(!is_forwarder(name), "{name}");
        }
    }
}
