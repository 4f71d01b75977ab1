//! The one line on standard output by which a subject says that it listens. It is all that
//! subject and tool share besides the wire.

use std::net::SocketAddr;

/// The line, with its newline. Nothing in it needs escaping.
pub fn line(listening: SocketAddr, iterations_per_us: f64) -> String {
    format!(
        "{{\"listening\":\"{listening}\",\"pid\":{pid},\"server\":\"knownwall\",\"children\":[],\
         \"iterations_per_us\":{iterations_per_us:.3},\"versions\":{{\"knownwall\":\"{version}\"}}}}\n",
        pid = std::process::id(),
        version = env!("CARGO_PKG_VERSION"),
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_line_names_the_port_and_the_process() {
        let line = super::line("127.0.0.1:8090".parse().unwrap(), 512.0);
        assert!(line.starts_with("{\"listening\":\"127.0.0.1:8090\",\"pid\":"));
        assert!(line.ends_with("}\n") && line.contains("\"iterations_per_us\":512.000"));
    }
}
