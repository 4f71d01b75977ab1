//! A foreign load generator's command, understood and made ready to run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use wallfinder_model::Load;

use super::DriverKind;
use super::flags::Means;
use super::shape::{self, Reading, Shape};
use super::targets::Targets;
use crate::child::RunAs;
use crate::command::{self, CommandError, CommandLine};
use crate::programs;
use crate::redact::{self, Secrets};

/// Stands for the URL under load in a command.
const URL: &str = "{url}";
/// Stands for its `host:port`.
const ADDRESS: &str = "{address}";
/// The variable that holds the URL under load.
const VARIABLE: &str = "WALLFINDER_URL";
/// By any of these a command takes the target.
const TAKEN: [&str; 3] = [URL, ADDRESS, VARIABLE];
/// Programs that run the one named after them.
const RUNNERS: &[&str] = &["npx", "bunx", "node", "bun"];
/// How long a driver that ends by itself, but not by the clock, may take.
const COUNTED_LIMIT: Duration = Duration::from_secs(1_800);
/// What starting, connecting, draining and reporting may take beside the load.
const SLACK: Duration = Duration::from_secs(20);

/// A driver's command.
#[derive(Debug, Clone, PartialEq)]
pub struct DriverSpec {
    kind: DriverKind,
    line: CommandLine,
    /// Arguments of a runner, the tool's name included.
    runner: usize,
    /// Arguments before its flags: those of a runner, and its subcommand.
    leading: usize,
    shape: Shape,
    run_as: RunAs,
}

/// A command line ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Invocation {
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) stdin: Option<Vec<u8>>,
    /// The file that it writes its report to, instead of standard output.
    pub(super) report: Option<PathBuf>,
    /// What turns that file into the report, by more arguments to the same program.
    pub(super) afterwards: Option<Vec<String>>,
}

impl DriverSpec {
    /// Understands a command such as `wrk -c 100 {url}` or `npx autocannon -p 10`.
    pub fn parse(command: &str) -> Result<DriverSpec, CommandError> {
        let line = CommandLine::parse(command)?;
        let mut kind = DriverKind::of_program(&line.program);
        let mut leading = 0;
        let by = Path::new(&line.program)
            .file_name()
            .and_then(|name| name.to_str());
        if by.is_some_and(|name| RUNNERS.contains(&name)) {
            let named = line.args.iter().position(|arg| !arg.starts_with('-'));
            if let Some(at) = named {
                kind = DriverKind::of_program(&line.args[at]);
                leading = at + 1;
            }
        }
        let runner = leading;
        if let Some(subcommand) = kind.subcommand()
            && let Some(at) = line.args[leading..]
                .iter()
                .position(|arg| arg == subcommand)
        {
            leading += at + 1;
        }
        let reading = shape::read(kind, &line.args[leading..]);
        // wrk2 is often installed as wrk; only it takes a rate, and it takes no run without.
        if kind == DriverKind::Wrk && reading.has(Means::Rate) {
            kind = DriverKind::Wrk2;
        }
        Ok(DriverSpec {
            kind,
            runner,
            leading,
            shape: shape::shape(kind, &reading),
            line,
            run_as: RunAs::default(),
        })
    }

    /// The same, run as somebody else.
    pub fn as_whom(mut self, run_as: RunAs) -> DriverSpec {
        self.run_as = run_as;
        self
    }

    /// As whom it runs.
    pub(super) fn run_as(&self) -> &RunAs {
        &self.run_as
    }

    /// Which generator it is.
    pub fn kind(&self) -> DriverKind {
        self.kind
    }

    /// The load that it was told to make.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The same as a step's load.
    pub fn load(&self) -> Load {
        self.shape.load()
    }

    /// Where it leads: the places that the command names itself, as far as they can be understood, and
    /// whether it takes the target.
    pub fn targets(&self) -> Targets {
        let args = &self.line.args;
        let reading = shape::read(self.kind, &args[self.leading..]);
        let env = self.line.env.iter().map(|(_, value)| value);
        let words = || args.iter().chain(env.clone());
        let is_filled = words().any(|word| TAKEN.iter().any(|name| word.contains(name)));
        let is_appended = !matches!(self.kind, DriverKind::K6 | DriverKind::Other)
            && !has_target(self.kind, &reading);
        let mut targets = Targets {
            takes_target: is_filled || is_appended,
            ..Targets::default()
        };
        // What is sent leads nowhere.
        let sent = reading
            .given
            .iter()
            .filter(|given| matches!(given.means, Means::Header | Means::Body | Means::Secret));
        let mut sent: Vec<usize> = sent.map(|given| self.leading + given.place.0).collect();
        if self.kind == DriverKind::Other {
            let flags = args.iter().enumerate();
            let headers = flags.filter(|(_, arg)| matches!(arg.as_str(), "-H" | "--header"));
            sent.extend(headers.map(|(at, _)| at + 1));
        }
        let led = args.iter().enumerate().filter(|(at, _)| !sent.contains(at));
        for word in led.map(|(_, word)| word).chain(env) {
            let mut word = word.clone();
            for name in [URL, ADDRESS] {
                word = word.replace(name, " ");
            }
            targets.read(&word);
        }
        if !targets.takes_target
            && let Some(url) = self.shape.url.as_deref().filter(|url| !url.contains("://"))
        {
            targets.certain(url);
        }
        targets
    }

    /// How long it may run before it counts as hung.
    pub fn time_limit(&self) -> Duration {
        let nanos =
            |n: Option<wallfinder_model::Nanos>| Duration::from_nanos(n.unwrap_or_default().0);
        match self.shape.duration {
            Some(_) => {
                nanos(self.shape.duration)
                    + nanos(self.shape.warmup)
                    + nanos(self.shape.timeout).min(COUNTED_LIMIT)
                    + SLACK
            }
            None => COUNTED_LIMIT,
        }
    }

    /// The program's file.
    pub(super) fn program(&self) -> Result<PathBuf, CommandError> {
        programs::find_driver(&self.line.program)
    }

    /// The arguments that make it say its version, and what stands before them.
    pub(super) fn version_args(&self) -> Option<Vec<String>> {
        let flag = self.kind.version_args();
        if flag.is_empty() {
            return None;
        }
        let mut args = self.line.args[..self.runner].to_vec();
        args.extend(flag.iter().map(|flag| (*flag).to_owned()));
        Some(args)
    }

    /// The command for a URL: `{url}` and `{address}` filled in, the target appended where it
    /// is lacking, a report asked for that can be read. `version` is the tool's own.
    pub(super) fn invocation(
        &self,
        url: &str,
        version: Option<&str>,
        scratch: &Path,
    ) -> Result<Invocation, CommandError> {
        let program = self.program()?;
        let given = shape::read(self.kind, &self.line.args[self.leading..]);
        let target = target(self.kind, given.has(Means::Grpc), url);
        let address = address_of(url);
        let fill = |word: &String| word.replace(URL, &target).replace(ADDRESS, address);
        let is_filled = self
            .line
            .args
            .iter()
            .any(|arg| arg.contains(URL) || arg.contains(ADDRESS));
        let mut args: Vec<String> = self.line.args.iter().map(fill).collect();
        let reading = shape::read(self.kind, &args[self.leading..]);
        let mut ready = Invocation {
            program,
            args: Vec::new(),
            env: self.line.env.clone(),
            stdin: None,
            report: None,
            afterwards: None,
        };
        // For scripts, and for commands that are not known here.
        ready.env.push((VARIABLE.into(), url.to_owned()));
        if !is_filled && !has_target(self.kind, &reading) {
            let end = reading.end_of_flags.map(|at| self.leading + at);
            match self.kind {
                DriverKind::Vegeta => ready.stdin = Some(format!("GET {target}\n").into_bytes()),
                DriverKind::K6 | DriverKind::Other => {}
                // ab takes no URL without a path.
                DriverKind::Ab if !address_and_path(url).contains('/') => {
                    args.push(format!("{target}/"));
                }
                _ => args.insert(end.unwrap_or(args.len()), target),
            }
        }
        let added = report_flags(self.kind, &reading, version, scratch, &mut ready);
        args.splice(self.leading..self.leading, added);
        ready.args = args;
        Ok(ready)
    }

    /// The command as it was given, without its secrets: values of header fields,
    /// passwords, bodies.
    pub fn command(&self) -> String {
        let env = self
            .line
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let env: Vec<String> = env.collect();
        let program = vec![self.line.program.clone()];
        command::join(&[redact::words(&env), program, self.shown(&self.line.args)].concat())
    }

    /// Its secrets, by what is known of its flags.
    pub(crate) fn add_secrets(&self, secrets: &mut Secrets) {
        for given in shape::read(self.kind, &self.line.args[self.leading..]).given {
            let Some(value) = given.value else { continue };
            match given.means {
                Means::Header => secrets.add_header(&value),
                Means::Body => secrets.add_body(&value),
                Means::Secret => {
                    secrets.add(&value);
                    // `user:password`, or a header field.
                    if let Some((_, value)) = value.split_once(':') {
                        secrets.add(value);
                    }
                }
                _ => {}
            }
        }
    }

    /// Arguments of its own without their secrets.
    pub(super) fn shown(&self, args: &[String]) -> Vec<String> {
        let leading = self.leading.min(args.len());
        let program = std::slice::from_ref(&self.line.program);
        let mut shown = redact::words(&[program, args].concat()).split_off(1);
        for given in shape::read(self.kind, &args[leading..]).given {
            let (word, from) = given.place;
            let (Some(word), Some(value)) = (shown.get_mut(leading + word), given.value) else {
                continue;
            };
            let hidden = match given.means {
                Means::Header => redact::header(&value),
                Means::Secret | Means::Body => redact::HIDDEN.to_owned(),
                _ => continue,
            };
            let whole = &args[leading + given.place.0];
            *word = format!("{}{hidden}", &whole[..from]);
        }
        shown
    }
}

/// A URL as a tool takes its target: `host:port` where it calls gRPC, with `https://` in front
/// where fortio is to speak TLS; of HTTP, which carries gRPC, where HTTP is all that it knows.
/// Scripts and unknown programs get it as it is, and so does the echo's own client.
fn target(kind: DriverKind, calls: bool, url: &str) -> String {
    let address = address_of(url);
    let is_secure = url.starts_with("grpcs:") || url.starts_with("https:");
    match kind {
        DriverKind::Ghz => address.to_owned(),
        DriverKind::Fortio if calls && is_secure => format!("https://{address}"),
        DriverKind::Fortio if calls => address.to_owned(),
        DriverKind::EchoClient | DriverKind::K6 | DriverKind::Other => url.to_owned(),
        _ => match url.strip_prefix("grpc") {
            Some(rest) if rest.starts_with("://") || rest.starts_with("s://") => {
                format!("http{rest}")
            }
            _ => url.to_owned(),
        },
    }
}

/// `host:port/path` of a URL, or all of it.
fn address_and_path(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest)
}

/// `host:port` of a URL, as written.
fn address_of(url: &str) -> &str {
    let rest = address_and_path(url);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = &rest[..end];
    authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host)
}

/// Whether the command names its own target.
fn has_target(kind: DriverKind, reading: &Reading) -> bool {
    match kind {
        DriverKind::Vegeta => reading.has(Means::Targets),
        DriverKind::K6 | DriverKind::Other => true,
        _ => {
            // The value of a flag unknown here stands alone, too, and looks like no target.
            let looks = |word: &str| word.contains([':', '.', '/']) || word == "localhost";
            reading.bare.iter().any(|(_, word)| looks(word))
                || reading.has(Means::Url)
                || reading.has(Means::Targets)
        }
    }
}

/// Flags that make the tool report for a machine, where the user did not choose otherwise.
fn report_flags(
    kind: DriverKind,
    reading: &Reading,
    version: Option<&str>,
    scratch: &Path,
    ready: &mut Invocation,
) -> Vec<String> {
    let mut added: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| added.extend(words.iter().map(|word| (*word).to_owned()));
    let file = |name: &str| scratch.join(name);
    match kind {
        DriverKind::Autocannon if !reading.has(Means::Output) => add(&["--json"]),
        DriverKind::Wrk | DriverKind::Wrk2 if !reading.has(Means::Latency) => add(&["--latency"]),
        DriverKind::Oha if !reading.has(Means::Output) => {
            // Since 1.9.0; before, `--json`.
            if version.and_then(number_of).is_some_and(|v| v < (1, 9)) {
                add(&["--no-tui", "--json"]);
            } else {
                add(&["--no-tui", "--output-format", "json"]);
            }
        }
        DriverKind::Ghz if !reading.has(Means::Output) => add(&["--format", "json"]),
        DriverKind::Fortio if !reading.has(Means::Output) => {
            add(&["-json", "-"]);
            if !reading.has(Means::Latency) {
                // Of the default, a millisecond, it draws quantiles of shorter times from thin air.
                add(&["-r", "0.00001"]);
            }
        }
        DriverKind::Bombardier if !reading.has(Means::Output) => {
            add(&["--print", "result", "--format", "json"]);
            if !reading.has(Means::Latency) {
                add(&["--latencies"]);
            }
        }
        DriverKind::K6 if !reading.has(Means::Output) => {
            let report = file("summary.json");
            add(&["--quiet", "--summary-export", &report.to_string_lossy()]);
            if !reading.has(Means::Latency) {
                let stats = "avg,min,med,max,p(75),p(90),p(95),p(99),p(99.9),p(99.99)";
                add(&["--summary-trend-stats", stats]);
            }
            ready.report = Some(report);
        }
        DriverKind::Vegeta if !reading.has(Means::Output) => {
            let results = file("results.bin");
            let name = results.to_string_lossy().into_owned();
            add(&["-output", &name]);
            ready.afterwards = Some(["report", "-type=json", &name].map(str::to_owned).to_vec());
            ready.report = Some(results);
        }
        _ => {}
    }
    added
}

/// Major and minor of the first number with a dot in a version line.
fn number_of(version: &str) -> Option<(u32, u32)> {
    let numbers = |word: &str| {
        let mut parts = word.trim_start_matches('v').split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    };
    version.split_ascii_whitespace().find_map(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: &str = "http://127.0.0.1:8083/read?a=b";

    fn args(command: &str) -> String {
        // Programs that need not be installed here.
        let mut spec = DriverSpec::parse(command).expect(command);
        spec.line.program = "sh".into();
        let ready = spec
            .invocation(TARGET, None, Path::new("/tmp/x"))
            .expect(command);
        ready.args.join(" ")
    }

    #[test]
    fn the_url_is_filled_in_or_appended() {
        for (command, expected) in [
            (
                "autocannon -j -c 5",
                "-j -c 5 http://127.0.0.1:8083/read?a=b",
            ),
            (
                "autocannon -j {url} -c 5",
                "-j http://127.0.0.1:8083/read?a=b -c 5",
            ),
            ("autocannon -j http://other/", "-j http://other/"),
            (
                "autocannon -j --on-port / -- node s.js",
                "-j --on-port / -- node s.js",
            ),
            (
                "autocannon -j --on-port -- node s.js",
                "-j --on-port http://127.0.0.1:8083/read?a=b -- node s.js",
            ),
            (
                "wrk --latency --new-flag 5",
                "--latency --new-flag 5 http://127.0.0.1:8083/read?a=b",
            ),
            (
                "npx -y autocannon -j",
                "-y autocannon -j http://127.0.0.1:8083/read?a=b",
            ),
            (
                "wrk --latency -s x.lua",
                "--latency -s x.lua http://127.0.0.1:8083/read?a=b",
            ),
            (
                "ghz -O json --call a.B/C",
                "-O json --call a.B/C 127.0.0.1:8083",
            ),
            ("h2load -B http://base/ -c 5", "-B http://base/ -c 5"),
            (
                "mine --to={address} --path {url}",
                "--to=127.0.0.1:8083 --path http://127.0.0.1:8083/read?a=b",
            ),
            (
                "fortio load -c 5 -json -",
                "load -c 5 -json - http://127.0.0.1:8083/read?a=b",
            ),
            (
                "echo-client tcp --clients 5",
                "tcp --clients 5 http://127.0.0.1:8083/read?a=b",
            ),
            (
                "echo-client grpc {address} --clients 5",
                "grpc 127.0.0.1:8083 --clients 5",
            ),
            ("mine", ""),
            (
                "k6 run -e T={url} --summary-export x s.js",
                "run -e T=http://127.0.0.1:8083/read?a=b --summary-export x s.js",
            ),
        ] {
            assert_eq!(args(command), expected, "{command}");
        }
    }

    #[test]
    fn a_server_of_grpc_is_named_as_each_tool_wants_it() {
        let named = |command: &str, url: &str| {
            let mut spec = DriverSpec::parse(command).expect(command);
            spec.line.program = "sh".into();
            let ready = spec.invocation(url, None, Path::new("/tmp/x"));
            ready.expect(command).args.join(" ")
        };
        let (plain, secure) = ("grpc://127.0.0.1:9/a.B/C", "grpcs://127.0.0.1:9/a.B/C");
        for (command, url, expected) in [
            (
                "fortio load -grpc -ping -json -",
                plain,
                "load -grpc -ping -json - 127.0.0.1:9",
            ),
            (
                "fortio load -grpc -json - {url}",
                plain,
                "load -grpc -json - 127.0.0.1:9",
            ),
            (
                "fortio load -grpc -json -",
                secure,
                "load -grpc -json - https://127.0.0.1:9",
            ),
            (
                "fortio load -h2 -json -",
                plain,
                "load -h2 -json - http://127.0.0.1:9/a.B/C",
            ),
            (
                "h2load -c 2 -m 4",
                plain,
                "-c 2 -m 4 http://127.0.0.1:9/a.B/C",
            ),
            (
                "h2load -c 2 {url} -m 4",
                secure,
                "-c 2 https://127.0.0.1:9/a.B/C -m 4",
            ),
            (
                "ghz -O json --call a.B.C {url}",
                plain,
                "-O json --call a.B.C 127.0.0.1:9",
            ),
            (
                "echo-client grpc --clients 5",
                plain,
                "grpc --clients 5 grpc://127.0.0.1:9/a.B/C",
            ),
            ("mine {url}", secure, "grpcs://127.0.0.1:9/a.B/C"),
            // What only begins like the scheme is a name.
            ("h2load", "http://grpc:9/x", "http://grpc:9/x"),
            ("h2load", "grpc.example:9", "grpc.example:9"),
        ] {
            assert_eq!(named(command, url), expected, "{command} for {url}");
        }
    }

    #[test]
    fn a_readable_report_is_asked_for_where_the_user_chose_none() {
        for (command, expected) in [
            ("autocannon -c 5 {url}", "--json -c 5 "),
            ("npx autocannon {url}", "autocannon --json "),
            ("wrk -c 5 {url}", "--latency -c 5 "),
            ("oha -c 5 {url}", "--no-tui --output-format json -c 5 "),
            ("oha -j {url}", "-j "),
            ("bombardier -l {url}", "--print result --format json -l "),
            ("hey {url}", ""),
        ] {
            let args = args(command);
            assert_eq!(args, format!("{expected}{TARGET}"), "{command}");
        }
        assert_eq!(
            args("vegeta attack -rate=5"),
            "attack -output /tmp/x/results.bin -rate=5"
        );
        assert!(
            args("k6 run s.js")
                .starts_with("run --quiet --summary-export /tmp/x/summary.json --summary")
        );
    }

    #[test]
    fn an_old_oha_is_asked_in_its_own_way() {
        assert_eq!(number_of("oha 1.16.0"), Some((1, 16)));
        assert_eq!(number_of("autocannon v9.0.0"), Some((9, 0)));
        assert_eq!(number_of("none"), None);
        let mut spec = DriverSpec::parse("oha {url}").expect("fine");
        spec.line.program = "sh".into();
        let ready = spec.invocation("http://h/", Some("oha 1.4.6"), Path::new("/tmp"));
        assert_eq!(
            ready.expect("fine").args,
            ["--no-tui", "--json", "http://h/"]
        );
    }

    #[test]
    fn secrets_do_not_leave_with_the_command() {
        for (command, shown) in [
            (
                "wrk -c 5 -H 'X-Any: s3cret' -HCookie:s3cret {url}",
                "wrk -c 5 -H 'X-Any: ***' '-HCookie:***' {url}",
            ),
            (
                "autocannon -b s3cret --headers=K=s3cret http://u:s3cret@h/",
                "autocannon -b '***' '--headers=K=***' 'http://***@h/'",
            ),
            ("oha -a me:s3cret -z 5s", "oha -a '***' -z 5s"),
            (
                "K6_TOKEN=s3cret k6 run -e PASSWORD=s3cret -e T={url} s.js",
                "'K6_TOKEN=***' k6 run -e 'PASSWORD=***' -e T={url} s.js",
            ),
            (
                "npx -y autocannon -H 'a: s3cret'",
                "npx -y autocannon -H 'a: ***'",
            ),
            (
                "vegeta attack -header='A: s3cret' -rate=5",
                "vegeta attack '-header=A: ***' -rate=5",
            ),
        ] {
            let spec = DriverSpec::parse(command).expect(command);
            assert_eq!(spec.command(), shown);
            assert!(
                !format!("{:?}", spec.load()).contains("s3cret"),
                "{command}"
            );
        }
    }

    #[test]
    fn a_rate_makes_wrk_a_wrk2() {
        assert_eq!(
            DriverSpec::parse("wrk -R 100").expect("fine").kind(),
            DriverKind::Wrk2
        );
        assert_eq!(
            DriverSpec::parse("wrk -t 1").expect("fine").kind(),
            DriverKind::Wrk
        );
    }

    #[test]
    fn addresses_are_what_stands_between_scheme_and_path() {
        for (url, address) in [
            ("http://h:1/p", "h:1"),
            ("http://u:p@h:1?q", "h:1"),
            ("http://[::1]:80", "[::1]:80"),
            ("h:1", "h:1"),
        ] {
            assert_eq!(address_of(url), address, "{url}");
        }
    }
}
