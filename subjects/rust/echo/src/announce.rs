//! The one line on standard output by which a subject says that it listens. It is all that
//! subject and tool share besides the wire.

use std::net::SocketAddr;

use crate::options::Options;

/// What the libraries are, as they were built in.
const LOCK: &str = include_str!("../../Cargo.lock");
/// Those that answer requests.
const LIBRARIES: [&str; 3] = ["h2", "hyper", "tokio"];

/// The line, with its newline. Nothing in it needs escaping.
pub fn line(listening: SocketAddr, options: &Options) -> String {
    let versions: Vec<String> = versions()
        .map(|(name, version)| format!("\"{name}\":\"{version}\""))
        .collect();
    format!(
        "{{\"listening\":\"{listening}\",\"pid\":{pid},\"server\":\"echo-rs-{protocol}\",\"children\":[],\
         \"threads\":{threads},\"protocol\":\"{protocol}\",\"answer\":\"{answer}\",\
         {credit}\
         \"versions\":{{{versions}}}}}\n",
        pid = std::process::id(),
        protocol = options.protocol.name(),
        threads = options.threads,
        answer = options.answer,
        credit = match options.credit.to_string() {
            silent if silent.is_empty() => silent,
            credit => format!("\"credit\":\"{credit}\","),
        },
        versions = versions.join(","),
    )
}

/// Its own version and those of its libraries.
pub fn versions() -> impl Iterator<Item = (&'static str, &'static str)> {
    let libraries = LIBRARIES.into_iter().filter_map(|name| {
        let (_, entry) = LOCK.split_once(&format!("\nname = \"{name}\"\n"))?;
        let version = entry.lines().next()?.strip_prefix("version = ")?;
        Some((name, version.trim_matches('"')))
    });
    [("echo-rs", env!("CARGO_PKG_VERSION"))]
        .into_iter()
        .chain(libraries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_the_port_and_the_libraries() {
        let options = Options::parse(["--threads=2"].map(str::to_owned).into_iter()).unwrap();
        let line = line("127.0.0.1:8084".parse().unwrap(), &options);
        assert!(line.starts_with("{\"listening\":\"127.0.0.1:8084\",\"pid\":"));
        assert!(line.contains("\"threads\":2,\"protocol\":\"tcp\",\"answer\":\"echo\""));
        assert!(line.contains("\"h2\":\"0.") && line.contains("\"hyper\":\"1."));
        assert!(line.ends_with("\"}}\n") && versions().count() == 4);
    }
}
