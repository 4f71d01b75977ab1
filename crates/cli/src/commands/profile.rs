//! `profile`: a load, and what the server's profilers or the kernel saw of it, all in one window. `pprof`:
//! what profiles in files say.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use wallfinder_conduct::{Looks, ProfileOrder};
use wallfinder_judge::profile::{
    self as judged, Amounts, Change, RULES_DEFAULT, Rates, Rules, Taken,
};
use wallfinder_model::Nanos;
use wallfinder_model::profile::{Profile, ProfileKind, Reading};
use wallfinder_model::scenario::Probe;
use wallfinder_probe::parse::pprof;
use wallfinder_probe::profiles::fetch;
use wallfinder_probe::stacks;
use wallfinder_report::text;
use wallfinder_scenario::change::offer_profiles;
use wallfinder_sys::file::{self, Source};
use wallfinder_testbed::Subject;

use crate::commands::load;
use crate::exit::Failed;
use crate::flags::{PlainFormat, PprofFlags};
use crate::job::Job;
use crate::output;
use crate::reach::Reach;
use crate::target::{SUBJECT_HOST, port};
use crate::testbed::Server;

/// Longest file of rules, and of a profile as it is kept.
const RULES_BYTES_MAX: u64 = 1 << 20;
const PROFILE_BYTES_MAX: u64 = 256 << 20;

/// A window is so much longer than what is captured in it, which is whole seconds.
const MARGIN: Nanos = Nanos::from_millis(300);

/// `wallfinder profile URL`.
pub(crate) fn profile(job: &Job) -> Result<(), Failed> {
    let watch = &job.scenario.watch;
    let rules = rules(watch.rules.as_deref())?;
    let mut held = job.scenario.clone();
    if held.load.duration < Nanos::SECOND {
        return Err(Failed::usage(
            "-d is below a second, and windows of profiles are whole seconds",
        ));
    }
    held.load.duration.0 += MARGIN.0;
    if let Some(subject) = &mut held.server.subject
        && held.server.host.is_none()
        && watch.pprof.is_empty()
    {
        offer_profiles(subject);
    }
    let kinds = match watch.kinds.is_empty() {
        true => ProfileKind::OF_GO.to_vec(),
        false => watch.kinds.clone(),
    };
    let asked = |server: &Server| {
        let order = order(&watch.pprof, server)?;
        let of_server = Looks {
            stacks: watch.stacks || order.server.stacks,
            calls: watch.calls,
            counters: server.host.family().is_some(),
            ..order.server
        };
        // A driver offers no profiles of its own runtime.
        let of_client = match watch.client {
            true => Looks {
                stacks: true,
                waits: true,
                calls: watch.calls,
                counters: true,
            },
            false => Looks::default(),
        };
        if of_server.takes_root() {
            server.host.may_take_stacks().map_err(Failed::run)?;
        }
        if of_client.takes_root() {
            stacks::allowed().map_err(Failed::run)?;
        }
        Ok(ProfileOrder {
            kinds: kinds.clone(),
            trace: watch.trace,
            rules: rules.clone(),
            server: of_server,
            client: of_client,
            ..order
        })
    };
    let held = job.with(held)?;
    load::load("profile", job, std::slice::from_ref(&held), Some(&asked))
}

/// What can be seen of a server from inside: all of Go's profiles, from where the flags say, else
/// from where the subject says that it offers them; else stacks that the kernel samples. What
/// cannot be had is told here, before any load. The folder to keep it in is not known yet.
pub(crate) fn order(named: &[String], server: &Server) -> Result<ProfileOrder, Failed> {
    let addresses = addresses(
        named,
        server.subject.as_ref(),
        server.address,
        &server.reach,
    )?;
    for address in &addresses {
        fetch(*address, ProfileKind::Goroutine, 0).map_err(Failed::run)?;
    }
    if addresses.is_empty() && !server.host.is_seen() {
        return Err(Failed::usage(
            "the server's processes are not seen, so their stacks are not; where it is in Go, name \
             where it offers /debug/pprof/ with --pprof HOST:PORT",
        ));
    }
    Ok(ProfileOrder {
        server: Looks {
            stacks: addresses.is_empty(),
            waits: addresses.is_empty(),
            ..Looks::default()
        },
        client: Looks::default(),
        addresses,
        folder: None,
        kinds: ProfileKind::OF_GO.to_vec(),
        trace: false,
        rules: Rules::default(),
    })
}

/// What these probes are to see of a server. The folder to keep it in is not known yet.
pub(crate) fn observing(probes: &[Probe], server: &Server) -> Result<ProfileOrder, Failed> {
    let has = |probe| probes.contains(&probe);
    let addresses = match has(Probe::Go) {
        true => addresses(&[], server.subject.as_ref(), server.address, &server.reach)?,
        false => Vec::new(),
    };
    if has(Probe::Go) && addresses.is_empty() {
        return Err(Failed::usage(
            "the subject offers no profiles of Go: one of ours does, with --pprof 0 in its command",
        ));
    }
    let looks = Looks {
        stacks: has(Probe::Stacks),
        waits: has(Probe::Waits),
        calls: has(Probe::Calls),
        counters: has(Probe::Counters),
    };
    if looks.any() && !server.host.is_seen() {
        return Err(Failed::usage(
            "the server's processes are not seen, so the kernel cannot be asked about them",
        ));
    }
    if looks.takes_root() {
        server.host.may_take_stacks().map_err(Failed::run)?;
    }
    Ok(ProfileOrder {
        addresses,
        folder: None,
        kinds: ProfileKind::OF_GO.to_vec(),
        trace: false,
        server: looks,
        client: Looks::default(),
        rules: Rules::default(),
    })
}

/// `wallfinder pprof FILE...`.
pub(crate) fn pprof(flags: &PprofFlags) -> Result<(), Failed> {
    if flags.rules_default {
        return output::put(RULES_DEFAULT, None);
    }
    let rules = rules(flags.rules.as_deref())?;
    let files = flags.files.iter().map(|file| file.as_path());
    let whole = files.map(read).collect::<Result<Vec<_>, _>>()?;
    let merged = judged::merge(whole)
        .map_err(Failed::usage)?
        .ok_or_else(|| Failed::usage("name at least one file of a profile"))?;
    let kind = flags.kind.map_or_else(|| kind_of(&merged), Into::into);
    let reading = judged::read(kind, &merged, &rules);
    if let Some(before) = &flags.before {
        return changes(before, &merged, &reading, flags);
    }
    if flags.folded {
        return output::put(&judged::folded(kind, &merged), None);
    }
    match flags.format {
        PlainFormat::Json => {
            let text = serde_json::to_string_pretty(&reading).map_err(Failed::run)?;
            output::put(&text, None)
        }
        PlainFormat::Text => {
            output::put(&text::profile(&reading, &output::look(false, false)), None)
        }
    }
}

/// What changed since another file: both are counted whole, and only then compared.
fn changes(
    file: &Path,
    after: &Profile,
    reading: &Reading,
    flags: &PprofFlags,
) -> Result<(), Failed> {
    let before = read(file)?;
    if before.measures != after.measures {
        let counts = |profile: &Profile| {
            let measures = profile.measures.iter();
            let names: Vec<&str> = measures.map(|measure| measure.name.as_str()).collect();
            names.join(", ")
        };
        return Err(Failed::usage(format!(
            "--before {} counts something else: {}, and not {}",
            file.display(),
            counts(&before),
            counts(after)
        )));
    }
    let before = Taken {
        profile: &before,
        answered: answered(&[file.to_owned()], before.duration_ns),
    };
    let after = Taken {
        profile: after,
        answered: answered(&flags.files, after.duration_ns),
    };
    let changes = judged::difference(reading.kind, before, after);
    match flags.format {
        PlainFormat::Json => {
            let side = |taken: Taken<'_>| {
                serde_json::json!({
                    "duration_ns": taken.profile.duration_ns,
                    "answered": taken.answered,
                })
            };
            let rows: Vec<serde_json::Value> = changes.iter().map(row).collect();
            let (all, functions) = rows.split_first().unzip();
            let document = serde_json::json!({
                "kind": reading.kind,
                "measure": reading.measure,
                "before": side(before),
                "after": side(after),
                "all": all,
                "functions": functions,
            });
            let text = serde_json::to_string_pretty(&document).map_err(Failed::run)?;
            output::put(&text, None)
        }
        PlainFormat::Text => {
            let text = text::profile_changes(reading, &changes, &output::look(false, false));
            output::put(&text, None)
        }
    }
}

fn row(change: &Change) -> serde_json::Value {
    let rates = |rates: &Rates| {
        serde_json::json!({
            "before": rates.before,
            "after": rates.after,
            "by": rates.by(),
            "limits": rates.limits,
            "shown": rates.is_shown(),
        })
    };
    let amounts = |amounts: &Amounts| {
        serde_json::json!({
            "per_second": rates(&amounts.per_second),
            "per_request": amounts.per_request.as_ref().map(rates),
        })
    };
    serde_json::json!({
        "function": change.name,
        "own": amounts(&change.own),
        "with_callees": amounts(&change.with_callees),
    })
}

/// Requests that were answered in so long, by the record that the files stand beside. `None` where
/// there is none, or where they are not those of all processes of one kind and one step.
fn answered(files: &[PathBuf], duration_ns: u64) -> Option<f64> {
    let paths = files.iter().map(|file| file.canonicalize().ok());
    let paths = paths.collect::<Option<BTreeSet<PathBuf>>>()?;
    // Who is named twice is counted twice.
    if paths.len() < files.len() {
        return None;
    }
    let run = paths.first()?.parent()?.parent()?;
    let names = paths
        .iter()
        .map(|path| path.strip_prefix(run).ok()?.to_str());
    let names = names.collect::<Option<BTreeSet<&str>>>()?;
    let record = wallfinder_store::open(run).ok()?;
    let profiles = record.steps.iter().find_map(|step| {
        let profiles = step.profiles.as_ref()?;
        let of_kind = of_kind(&profiles.files, names.first()?);
        (of_kind == names && of_kind.len() == profiles.processes as usize).then_some(profiles)
    })?;
    let answered = profiles.answered_in(duration_ns);
    (answered.is_finite() && answered > 0.0).then_some(answered)
}

/// Of a step's files those of the same kind as one of them, each of another process.
fn of_kind<'f>(files: &'f [String], one: &str) -> BTreeSet<&'f str> {
    let kind = stem(one);
    let files = files.iter().map(String::as_str);
    files
        .filter(|file| kind.is_some() && stem(file) == kind)
        .collect()
}

/// `profiles/3-block` of `profiles/3-block-1.pb.gz`, which is the second process's.
fn stem(file: &str) -> Option<&str> {
    let name = file.strip_suffix(".pb.gz")?;
    match name.rsplit_once('-') {
        Some((kind, process)) if process.bytes().all(|digit| digit.is_ascii_digit()) => Some(kind),
        _ => Some(name),
    }
}

fn rules(file: Option<&Path>) -> Result<Rules, Failed> {
    let Some(file) = file else {
        return Ok(Rules::default());
    };
    let bad = |why: String| Failed::usage(format!("{}: {why}", file.display()));
    let text = file::read_text(Source::File(file.into()), RULES_BYTES_MAX, file::PATIENCE)
        .map_err(|error| bad(error.to_string()))?;
    Rules::parse(&text).map_err(bad)
}

fn read(file: &Path) -> Result<Profile, Failed> {
    let bad = |why: String| Failed::usage(format!("{}: {why}", file.display()));
    let bytes = file::read(Source::File(file.into()), PROFILE_BYTES_MAX, file::PATIENCE)
        .map_err(|error| bad(error.to_string()))?;
    pprof::profile(&bytes).map_err(|error| bad(error.to_string()))
}

/// What a profile is of, by what it counts. Waits and contention count the same: without a
/// `--kind` a file of delays is one of waits.
fn kind_of(profile: &Profile) -> ProfileKind {
    let kinds = ProfileKind::ALL.into_iter();
    let mut known = kinds.filter(|kind| profile.position(kind.measure()).is_some());
    known.next().unwrap_or(ProfileKind::Cpu)
}

/// Where profiles are offered: as the flags say, else as the subject does; perhaps nowhere. Only what a
/// load may go to is asked.
pub(crate) fn addresses(
    named: &[String],
    subject: Option<&Subject>,
    server: SocketAddr,
    reach: &Reach,
) -> Result<Vec<SocketAddr>, Failed> {
    let announced = subject.and_then(Subject::announced);
    let offered = match named {
        [] => announced.map_or(&[][..], |announced| &announced.pprof),
        named => named,
    };
    let resolved = offered.iter().map(|name| resolve(name, server, reach));
    resolved.collect()
}

/// `host:port`, `:port` or `port`; the host `subject`, none and the unspecified one are the
/// server's.
fn resolve(name: &str, server: SocketAddr, reach: &Reach) -> Result<SocketAddr, Failed> {
    let bad = |why: String| Failed::usage(format!("--pprof {name} is no HOST:PORT: {why}"));
    let (host, text) = name.rsplit_once(':').unwrap_or(("", name));
    let port = match port(text) {
        Ok(0) => Err("a port is a number from 1 to 65535".to_owned()),
        port => port,
    };
    let port = port.map_err(bad)?;
    let host = host.trim_matches(['[', ']']);
    let ip = host.parse::<IpAddr>();
    let is_servers = ip.is_ok_and(|ip| ip.is_unspecified() || ip == server.ip());
    match host {
        // A load may go there: it was checked.
        "" | SUBJECT_HOST => Ok(SocketAddr::new(server.ip(), port)),
        _ if is_servers => Ok(SocketAddr::new(server.ip(), port)),
        _ => reach.look_up(host, port).map_err(|failed| Failed {
            message: format!("where profiles are offered: {}", failed.message),
            ..failed
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_the_servers() {
        let server: SocketAddr = "10.231.0.1:8083".parse().unwrap();
        for (name, address) in [
            ("6060", "10.231.0.1:6060"),
            (":6060", "10.231.0.1:6060"),
            ("subject:6060", "10.231.0.1:6060"),
            ("0.0.0.0:6060", "10.231.0.1:6060"),
            ("127.0.0.1:6060", "127.0.0.1:6060"),
            ("[::1]:6060", "[::1]:6060"),
        ] {
            let resolved = resolve(name, server, &Reach::default()).unwrap();
            assert_eq!(resolved.to_string(), address);
        }
        for wrong in ["here", "127.0.0.1:70000", "127.0.0.1:0", "0", ":"] {
            let failed = resolve(wrong, server, &Reach::default()).unwrap_err();
            assert!(failed.message.contains("from 1 to 65535"), "{failed:?}");
        }
    }

    #[test]
    fn profiles_are_asked_for_where_a_load_may_go_only() {
        let server: SocketAddr = "127.0.0.1:8083".parse().unwrap();
        let named = Reach::of(&["8.8.8.8".into(), "169.254.169.254".into()]);
        for name in ["8.8.8.8:6060", "[2001:db8::1]:6060", "169.254.169.254:80"] {
            assert!(resolve(name, server, &Reach::default()).is_err(), "{name}");
        }
        assert!(resolve("8.8.8.8:6060", server, &named).is_ok());
        assert!(resolve("169.254.169.254:80", server, &named).is_err());
        // One that is named by its load's name is loaded anyway.
        let server: SocketAddr = "8.8.8.8:80".parse().unwrap();
        assert!(resolve("8.8.8.8:6060", server, &Reach::default()).is_ok());
    }

    #[test]
    fn files_of_one_kind_are_those_of_all_its_processes() {
        let files = [
            "profiles/0-cpu-0.pb.gz",
            "profiles/0-cpu-1.pb.gz",
            "profiles/0-cpu-10.pb.gz",
            "profiles/0-block-0.pb.gz",
            "profiles/1-cpu.pb.gz",
            "profiles/0-trace-0.out",
            "stacks/0-cpu.folded",
        ];
        let files = files.map(str::to_owned);
        let of = |one: &str| of_kind(&files, one).into_iter().collect::<Vec<_>>();
        assert_eq!(of("profiles/0-cpu-1.pb.gz"), files[..3]);
        assert_eq!(of("profiles/0-block-0.pb.gz"), files[3..4]);
        assert_eq!(of("profiles/1-cpu.pb.gz"), files[4..5]);
        assert!(of("profiles/2-cpu.pb.gz").is_empty());
        assert!(of("stacks/0-cpu.folded").is_empty());
    }

    #[test]
    fn subjects_of_ours_are_told_to_offer_profiles() {
        let offered = |subject: &str| {
            let mut subject = subject.to_owned();
            offer_profiles(&mut subject);
            subject
        };
        assert_eq!(
            offered("catalogue --prefork"),
            "catalogue --prefork --pprof 0"
        );
        assert_eq!(offered("GOGC=50 echo"), "GOGC=50 echo --pprof 0");
        assert_eq!(offered("catalogue --pprof 6060"), "catalogue --pprof 6060");
        assert_eq!(offered("nginx -c my.conf"), "nginx -c my.conf");
    }
}
