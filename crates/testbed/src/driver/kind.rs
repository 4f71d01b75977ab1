//! Which foreign load generators are known.

use crate::programs::ECHO_CLIENT;

/// A load generator, told by its program's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DriverKind {
    /// <https://github.com/mcollina/autocannon>
    Autocannon,
    /// <https://github.com/wg/wrk>
    Wrk,
    /// <https://github.com/giltene/wrk2>
    Wrk2,
    /// <https://github.com/hatoo/oha>
    Oha,
    /// <https://nghttp2.org>
    H2load,
    /// <https://k6.io>
    K6,
    /// <https://ghz.sh>
    Ghz,
    /// <https://httpd.apache.org/docs/2.4/programs/ab.html>
    Ab,
    /// <https://github.com/rakyll/hey>
    Hey,
    /// <https://github.com/codesenberg/bombardier>
    Bombardier,
    /// <https://github.com/tsenart/vegeta>
    Vegeta,
    /// <https://fortio.org>
    Fortio,
    /// The Go clients of the echo subject, which come with the tool.
    EchoClient,
    /// Any other command: observed, and its output not understood.
    Other,
}

impl DriverKind {
    /// Those whose reports are understood.
    pub const KNOWN: [DriverKind; 13] = [
        DriverKind::Autocannon,
        DriverKind::Wrk,
        DriverKind::Wrk2,
        DriverKind::Oha,
        DriverKind::H2load,
        DriverKind::K6,
        DriverKind::Ghz,
        DriverKind::Ab,
        DriverKind::Hey,
        DriverKind::Bombardier,
        DriverKind::Vegeta,
        DriverKind::Fortio,
        DriverKind::EchoClient,
    ];

    /// Its name, as its program is called.
    pub const fn name(self) -> &'static str {
        match self {
            DriverKind::Autocannon => "autocannon",
            DriverKind::Wrk => "wrk",
            DriverKind::Wrk2 => "wrk2",
            DriverKind::Oha => "oha",
            DriverKind::H2load => "h2load",
            DriverKind::K6 => "k6",
            DriverKind::Ghz => "ghz",
            DriverKind::Ab => "ab",
            DriverKind::Hey => "hey",
            DriverKind::Bombardier => "bombardier",
            DriverKind::Vegeta => "vegeta",
            DriverKind::Fortio => "fortio",
            DriverKind::EchoClient => ECHO_CLIENT,
            DriverKind::Other => "other",
        }
    }

    /// The kind of a program, by the last part of its path.
    pub fn of_program(program: &str) -> DriverKind {
        let file = program.rsplit('/').next().unwrap_or_default();
        let name = file.strip_suffix(".js").unwrap_or(file);
        let found = DriverKind::KNOWN.into_iter().find(|k| k.name() == name);
        found.unwrap_or(DriverKind::Other)
    }

    /// What asks it for its version.
    pub(super) const fn version_args(self) -> &'static [&'static str] {
        match self {
            DriverKind::Wrk | DriverKind::Wrk2 => &["-v"],
            DriverKind::K6 | DriverKind::Fortio => &["version"],
            DriverKind::Ab => &["-V"],
            // hey and unknown programs have no such flag, and might start.
            DriverKind::Hey | DriverKind::Other => &[],
            _ => &["--version"],
        }
    }

    /// The subcommand between its name and its flags.
    pub(super) const fn subcommand(self) -> Option<&'static str> {
        match self {
            DriverKind::K6 => Some("run"),
            DriverKind::Vegeta => Some("attack"),
            DriverKind::Fortio => Some("load"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_by_their_names() {
        for (program, kind) in [
            ("wrk", DriverKind::Wrk),
            ("/usr/bin/wrk2", DriverKind::Wrk2),
            (
                "./node_modules/autocannon/autocannon.js",
                DriverKind::Autocannon,
            ),
            ("curl", DriverKind::Other),
            ("", DriverKind::Other),
        ] {
            assert_eq!(DriverKind::of_program(program), kind, "{program}");
        }
    }
}
