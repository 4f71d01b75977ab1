//! `wallfinder-bench`: races the engine against its peers. See `bench/README.md`.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use wallfinder_bench::contestants::{Contestant, Tools};
use wallfinder_bench::results::{self, Machine, Results};
use wallfinder_bench::scenario::{SCENARIOS, Scenario, Speaks};
use wallfinder_bench::subject::Subject;
use wallfinder_bench::{clock, null_client, open_loop, ours, race};
use wallfinder_sys::process::allowed_cpus;

/// Races Wallfinder's engine against its peers and against a client that does nothing.
#[derive(Debug, Parser)]
#[command(name = "wallfinder-bench", args_conflicts_with_subcommands = true)]
struct Flags {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Sends a fixed request, counts bytes, parses nothing.
    NullClient(null_client::Spec),
    /// The engine alone.
    Engine(ours::Spec),
    /// A loop that reads the clock: how late anybody must be on this processor.
    Clock(clock::Spec),
}

#[derive(Debug, Clone, Args)]
struct Bench {
    /// simple-1, simple-100, read-1, h2-10x10, framed-1, framed-10, defaults-1, defaults-100, open-loop, memory; repeatable. All of them otherwise.
    #[arg(long)]
    scenario: Vec<String>,
    /// Race only these; repeatable.
    #[arg(long)]
    only: Vec<String>,
    /// Whom to compare with all others: wallfinder where it can run, else engine.
    #[arg(long)]
    ours: Option<String>,
    /// Rounds; below six there is no interval at 95 %.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Seconds of each turn, in whole seconds.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Two rounds of a second: shows that all works, and decides nothing.
    #[arg(long)]
    quick: bool,
    /// How often a turn is taken again while others use more than 4 % of the processors, or
    /// while the open loop's processor is away too often.
    #[arg(long, default_value_t = 3)]
    patience: usize,
    /// How many seconds a turn may wait for others to pause.
    #[arg(long, default_value_t = 10)]
    lull: u64,
    /// Of the order of turns; from the clock otherwise.
    #[arg(long)]
    seed: Option<u64>,
    /// Where the server runs.
    #[arg(long, default_value_t = 0)]
    server_cpu: u32,
    /// Where clients run.
    #[arg(long, default_value_t = 1)]
    client_cpu: u32,
    /// The `wallfinder` binary, if it does not stand beside this one.
    #[arg(long)]
    wallfinder: Option<PathBuf>,
    /// Where the results go.
    #[arg(short = 'o', long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results/latest.json"))]
    output: PathBuf,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let done = match &flags.part {
        Some(Part::NullClient(spec)) => null_client::run(spec).map(|done| print(&done)),
        Some(Part::Engine(spec)) => ours::run_engine(spec).map(|done| print(&done)),
        Some(Part::Clock(spec)) => clock::run(spec).map(|done| print(&done)),
        None => bench(&flags.bench),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("wallfinder-bench: {why}");
            ExitCode::FAILURE
        }
    }
}

fn print(done: &impl serde::Serialize) {
    println!("{}", serde_json::to_string(done).expect("plain numbers"));
}

fn bench(bench: &Bench) -> Result<(), String> {
    let wanted = Wanted::of(bench)?;
    check_cpus(bench)?;
    let tools = tools(bench)?;
    let seed = bench
        .seed
        .unwrap_or_else(wallfinder_sys::clock::realtime_ns);
    println!("seed {seed}");
    if bench.quick {
        println!("quick size: what follows shows that all works, and decides nothing");
    }
    let machine = machine(bench);
    if machine.load_before > 0.5 {
        println!(
            "others are at work here (load average {}): expect wide intervals",
            machine.load_before
        );
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let start = |speaks| Subject::start(&root, bench.server_cpu, speaks, &tools);
    let mut all = Results {
        seed,
        machine,
        ours: String::new(),
        races: Vec::new(),
        comparisons: Vec::new(),
        aims: Vec::new(),
        checks: Vec::new(),
    };
    let mut random = fastrand::Rng::with_seed(seed);
    let size = race::Size {
        rounds: if bench.quick { 2 } else { bench.rounds },
        patience: if bench.quick { 0 } else { bench.patience },
        lull: Duration::from_secs(if bench.quick { 0 } else { bench.lull }),
        seconds: if bench.quick {
            1.0
        } else {
            f64::from(bench.seconds)
        },
    };
    let mut told = |line: &str| eprintln!("{line}");
    for scenario in &wanted.scenarios {
        let subject = match start(scenario.speaks) {
            Ok(subject) => subject,
            Err(why) if scenario.speaks == Speaks::Http2 => {
                println!("{} is left out: {why}", scenario.name);
                continue;
            }
            Err(why) => return Err(why),
        };
        let race = race::race(
            scenario,
            &wanted.contestants,
            &tools,
            &subject,
            size,
            &mut random,
            &mut told,
        )?;
        let ours = wanted.ours(&race);
        all.ours = ours.name();
        let comparisons = results::compare(&race, ours);
        let outcomes = results::judge(scenario, &comparisons);
        println!("\n{}", results::table(&race, &comparisons));
        println!("ours is {}\n{}", all.ours, results::aims(&outcomes));
        all.races.push(race);
        all.comparisons.extend(comparisons);
        all.aims.extend(outcomes);
    }
    let size = open_loop::Size {
        patience: size.patience,
        seconds: if bench.quick { 1.0 } else { 30.0 },
        connections: 10_000,
    };
    let subject = match wanted.open_loop || wanted.memory {
        true => Some(start(Speaks::Http1)?),
        false => None,
    };
    if let (true, Some(subject)) = (wanted.open_loop, &subject) {
        all.checks
            .extend(open_loop::open_loop(&tools, subject, size)?);
    }
    if let (true, Some(subject)) = (wanted.memory, &subject) {
        all.checks.extend(open_loop::memory(&tools, subject, size)?);
    }
    print!("{}", results::checks(&all.checks));
    results::keep(&all, &bench.output)
        .map_err(|error| format!("{}: {error}", bench.output.display()))?;
    println!("results in {}", bench.output.display());
    Ok(())
}

/// What is to be run, by name.
struct Wanted {
    scenarios: Vec<Scenario>,
    open_loop: bool,
    memory: bool,
    contestants: Vec<Contestant>,
    ours: Option<Contestant>,
}

impl Wanted {
    fn of(bench: &Bench) -> Result<Wanted, String> {
        let names: Vec<&str> = SCENARIOS
            .iter()
            .map(|scenario| scenario.name)
            .chain(["open-loop", "memory"])
            .collect();
        if let Some(unknown) = bench
            .scenario
            .iter()
            .find(|name| !names.contains(&name.as_str()))
        {
            return Err(format!(
                "no scenario `{unknown}`; there are {}",
                names.join(", ")
            ));
        }
        let wants = |name: &str| {
            bench.scenario.is_empty() || bench.scenario.iter().any(|wanted| wanted == name)
        };
        let contestants = match bench.only.is_empty() {
            true => Contestant::ALL.to_vec(),
            false => bench
                .only
                .iter()
                .map(|name| by_name(name))
                .collect::<Result<_, _>>()?,
        };
        Ok(Wanted {
            scenarios: SCENARIOS
                .into_iter()
                .filter(|scenario| wants(scenario.name))
                .collect(),
            open_loop: wants("open-loop"),
            memory: wants("memory"),
            contestants,
            ours: bench.ours.as_deref().map(by_name).transpose()?,
        })
    }

    /// Who stands for us in a race.
    fn ours(&self, race: &race::Race) -> Contestant {
        let takes_part = |who: &Contestant| race.score(*who).is_some();
        self.ours.unwrap_or_else(|| {
            let mut ours = [Contestant::WallfinderDefaults, Contestant::Wallfinder].into_iter();
            ours.find(takes_part).unwrap_or(Contestant::Engine)
        })
    }
}

fn by_name(name: &str) -> Result<Contestant, String> {
    let known = Contestant::ALL;
    known
        .into_iter()
        .find(|contestant| contestant.name() == name)
        .ok_or_else(|| {
            let names = known.map(Contestant::name).join(", ");
            format!("no contestant `{name}`; there are {names}")
        })
}

fn check_cpus(bench: &Bench) -> Result<(), String> {
    let allowed = allowed_cpus();
    for cpu in [bench.server_cpu, bench.client_cpu] {
        if !allowed.contains(&cpu) {
            return Err(format!(
                "processor {cpu} may not be used here, only {allowed:?}; see --server-cpu and --client-cpu"
            ));
        }
    }
    Ok(())
}

fn tools(bench: &Bench) -> Result<Tools, String> {
    Ok(Tools {
        this: std::env::current_exe().map_err(|error| error.to_string())?,
        bench: PathBuf::from(env!("CARGO_MANIFEST_DIR")),
        wallfinder: bench.wallfinder.clone(),
        client_cpu: Some(bench.client_cpu),
    })
}

fn machine(bench: &Bench) -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processor = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split(':').nth(1))
        .unwrap_or("unknown")
        .trim()
        .to_owned();
    let load = read("/proc/loadavg");
    Machine {
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        processor,
        server_cpu: bench.server_cpu,
        client_cpu: bench.client_cpu,
        load_before: load
            .split_whitespace()
            .next()
            .and_then(|first| first.parse().ok())
            .unwrap_or(f64::NAN),
    }
}
