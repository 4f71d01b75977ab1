//! `wallfinder-walls`: runs the labelled suite and marks it. See `docs/labelled-suite.md`.
//!
//! Exit codes: 0 the bar is met, 1 it is missed, 2 bad arguments or nothing to run with.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use wallfinder_walls::elsewhere::Elsewhere;
use wallfinder_walls::find::{Apparatus, Effort};
use wallfinder_walls::held::Turns;
use wallfinder_walls::results::Results;
use wallfinder_walls::scenario::{Scenario, Server, Told};
use wallfinder_walls::score::{self, Mark, Outcome, Score};
use wallfinder_walls::suite::{SMOKE, scenarios};
use wallfinder_walls::table;
use wallfinder_walls::{again, alone, beside};

/// The smoke form shows that everything works: shorter windows do.
const SMOKE_WINDOW: &str = "400ms";

/// Runs `wallfinder find` on servers whose wall is known, and says how many were named.
#[derive(Debug, Parser)]
#[command(name = "wallfinder-walls")]
struct Flags {
    /// How hard find tries: about 25 seconds, one or five minutes for each scenario.
    #[arg(long, value_enum, default_value = "normal")]
    effort: Effort,
    /// Only scenarios whose name holds this; repeatable.
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// Only servers that everybody has: nginx, node and HAProxy, started as their users do.
    #[arg(long, conflicts_with = "smoke")]
    servers: bool,
    /// Servers on another host, which a lab stands in for: those scenarios that can be there.
    #[arg(long, conflicts_with_all = ["smoke", "servers", "results"])]
    hosts: bool,
    /// So many client hosts of a lab that make each load together, and the server on another: those scenarios that can be
    /// there.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=16))]
    #[arg(conflicts_with_all = ["smoke", "servers", "results", "hosts"])]
    clients: Option<u32>,
    /// Two scenarios at quick effort: shows that everything works.
    #[arg(long)]
    smoke: bool,
    /// Every scenario so often, each time with another seed: how often is the verdict the same?
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    repeat: u64,
    /// Ask again, with another seed, where nothing was answered, so often. A wrong answer is
    /// never asked again.
    #[arg(long, default_value_t = 0)]
    again: u64,
    /// Keep each outcome in this folder as it ends, run none that is kept there, and score all
    /// that are: a long suite may be run in parts.
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Run again what the folder of results has.
    #[arg(long, requires = "results")]
    fresh: bool,
    /// Run nothing: have the records of what the folder of results has judged again, by this tool.
    #[arg(long, requires = "results", conflicts_with_all = ["fresh", "repeat", "again"])]
    judge_again: bool,
    /// Run nothing: hold what the folder of results has beside another tool's folder, scenario by scenario.
    #[arg(long, value_name = "DIR", requires = "results", conflicts_with_all = ["fresh", "judge_again"])]
    beside: Option<PathBuf>,
    /// Have something else take a processor now and then, by the seed: is the verdict the same on a restless machine?
    #[arg(long)]
    restless: bool,
    /// What the catalogue's four routes cost the server in a mix, beside what each costs alone.
    #[arg(long, conflicts_with_all = ["smoke", "servers", "hosts", "results", "only"])]
    alone: bool,
    /// Say which scenarios there are, and run none.
    #[arg(long)]
    list: bool,
    /// The `wallfinder` binary, if it does not stand beside this one.
    #[arg(long)]
    wallfinder: Option<PathBuf>,
    /// Folder of the subjects' binaries.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../bin"))]
    bin: PathBuf,
    /// Folder that records are kept in.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../runs/walls"))]
    runs: PathBuf,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    match run(&flags) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("wallfinder-walls: {why}");
            ExitCode::from(2)
        }
    }
}

/// Whether the bar is met.
fn run(flags: &Flags) -> Result<bool, String> {
    let wanted = wanted(flags)?;
    if flags.list {
        wanted
            .iter()
            .for_each(|scenario| println!("{}", listed(scenario)));
        return Ok(true);
    }
    if let (Some(before), Some(now)) = (&flags.beside, &flags.results) {
        let of = |folder| beside::read(folder, flags.effort.label(), flags.restless);
        print!("{}", beside::told(&of(before)?, &of(now)?));
        return Ok(true);
    }
    let apparatus = apparatus(flags)?;
    if flags.alone {
        print!("{}", alone::table(&alone::measured(&apparatus, 1)?));
        return Ok(true);
    }
    let mut results = Results::open(
        flags.results.as_deref(),
        apparatus.effort,
        apparatus.restless,
        apparatus.tool()?,
    )?;
    if flags.judge_again {
        return judge_again(&apparatus, &mut results, &wanted);
    }
    let asked = wanted.len();
    let wanted = startable(wanted, &apparatus.bin.join(".."))?;
    if flags.smoke && wanted.len() < asked {
        return Err("the smoke form leaves no scenario out".to_owned());
    }
    println!("{}", table::header());
    let mut taken = 0;
    for seed in 1..=flags.repeat {
        for scenario in &wanted {
            let kept = results.of(scenario, seed).filter(|_| !flags.fresh);
            if let Some(outcome) = kept {
                taken += 1;
                print!("{}", table::line(scenario, &outcome));
                continue;
            }
            results.keep(answered(&apparatus, scenario, seed, flags.again))?;
        }
    }
    if taken > 0 {
        println!("{taken} of these runs were made before, and taken from the folder");
    }
    Ok(scored(&results, &wanted, apparatus.effort.within()))
}

/// Has every record behind the kept outcomes judged again.
fn judge_again(
    apparatus: &Apparatus,
    results: &mut Results,
    wanted: &[&Scenario],
) -> Result<bool, String> {
    println!("{}", table::header());
    for scenario in wanted {
        for outcome in results.all(&[scenario]) {
            let outcome = match outcome.found {
                Ok(_) => again::judged(apparatus, scenario, &outcome)?,
                Err(_) => outcome,
            };
            print!("{}", table::line(scenario, &outcome));
            results.judged_again(outcome)?;
        }
    }
    Ok(scored(results, wanted, apparatus.effort.within()))
}

/// Prints the score; whether the bar is met.
fn scored(results: &Results, wanted: &[&Scenario], within: Duration) -> bool {
    let score = Score::of(&results.all(wanted), within);
    print!("\n{}", table::score(&score));
    let tools = results.tools(wanted);
    if tools.len() > 1 {
        println!("these runs are of different tools, and the score is of none of them:");
        for (tool, runs) in tools {
            println!("  {runs} by {tool}");
        }
    }
    score.missed().is_empty()
}

/// Runs a scenario, and again where nothing was answered.
fn answered(apparatus: &Apparatus, scenario: &Scenario, seed: u64, again: u64) -> Outcome {
    let mut outcome = run_one(apparatus, scenario, seed);
    print!("{}", table::line(scenario, &outcome));
    for asked_again in 1..=again {
        if outcome.mark != Mark::Unanswered {
            break;
        }
        // Seeds of their own, apart from those of repeats.
        let other = run_one(apparatus, scenario, seed + 1_000 * asked_again);
        outcome = Outcome {
            seed,
            asked_again,
            ..other
        };
        print!("{}", table::line(scenario, &outcome));
    }
    outcome
}

fn wanted(flags: &Flags) -> Result<Vec<&'static Scenario>, String> {
    let named = |scenario: &&Scenario| {
        let any = |pattern: &String| scenario.name.contains(pattern.as_str());
        let by_pattern = flags.only.is_empty() || flags.only.iter().any(any);
        let ordinary = matches!(scenario.server, Server::Ordinary(_));
        by_pattern
            && (!flags.smoke || SMOKE.contains(&scenario.name))
            && (!flags.servers || ordinary)
            && match elsewhere(flags) {
                Some(clients) => Elsewhere::takes(scenario, clients),
                None => scenario.slow_client.is_none(),
            }
    };
    let wanted: Vec<&Scenario> = scenarios().filter(named).collect();
    match wanted.is_empty() {
        true => Err("no scenario has such a name; --list names them all".to_owned()),
        false => Ok(wanted),
    }
}

/// With servers on another host: how many client hosts there are.
fn elsewhere(flags: &Flags) -> Option<u32> {
    flags.clients.or(flags.hosts.then_some(0))
}

/// Those whose server is there, and what else they need of the project's folder `root`. The others are told, and count for nothing.
fn startable(
    wanted: Vec<&'static Scenario>,
    root: &Path,
) -> Result<Vec<&'static Scenario>, String> {
    let missing = |scenario: &Scenario| match &scenario.server {
        Server::Subject(_) => scenario.missing(root),
        Server::Ordinary(server) => server.missing(),
    };
    let is_there = |scenario: &&Scenario| {
        let why = missing(scenario);
        if let Some(why) = &why {
            println!("left out: {}: {why}", scenario.name);
        }
        why.is_none()
    };
    let there: Vec<&Scenario> = wanted.into_iter().filter(is_there).collect();
    match there.is_empty() {
        true => Err("none of these servers is there".to_owned()),
        false => Ok(there),
    }
}

fn listed(scenario: &Scenario) -> String {
    let link = scenario.link.map(|link| format!(" --link {link}"));
    format!(
        "{:<28}{} · {}{}",
        scenario.name,
        scenario.server.command(),
        scenario.flags,
        link.unwrap_or_default()
    )
}

fn apparatus(flags: &Flags) -> Result<Apparatus, String> {
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("wallfinder"));
    let wallfinder = flags.wallfinder.clone().or_else(beside);
    let wallfinder = wallfinder.filter(|path| path.is_file());
    let wallfinder = wallfinder.ok_or("the wallfinder binary is not there; run `make build`")?;
    let bin = flags.bin.canonicalize().ok();
    let bin = bin.filter(|bin| bin.join("knownwall").is_file());
    Ok(Apparatus {
        wallfinder,
        bin: bin.ok_or("knownwall is not built; run `make subjects`")?,
        runs: flags.runs.clone(),
        effort: match flags.smoke {
            true => Effort::Quick,
            false => flags.effort,
        },
        window: flags.smoke.then_some(SMOKE_WINDOW),
        elsewhere: elsewhere(flags),
        restless: flags.restless,
    })
}

/// Runs a scenario, and where its wall can be lifted, runs it without.
fn run_one(apparatus: &Apparatus, scenario: &Scenario, seed: u64) -> Outcome {
    let mut turns = Turns::default();
    let before = turns.hold(apparatus, scenario, seed);
    let since = Instant::now();
    let found = before.and_then(|()| apparatus.find(scenario, seed));
    let seconds = since.elapsed().as_secs_f64();
    let held = found.and_then(|found| {
        turns.hold(apparatus, scenario, seed)?;
        Ok((found, turns.told(scenario)?))
    });
    let (found, held) = match held {
        Ok((found, held)) => (Ok(found), held),
        Err(why) => (Err(why), Vec::new()),
    };
    let before = found.as_ref().ok();
    let lifted = before.and_then(|_| lifted(apparatus, scenario, seed));
    let next = before
        .zip(scenario.lift)
        .zip(lifted.clone())
        .map(|((before, lift), lifted)| {
            let lifted = lifted?;
            score::told_error(before, lift.told, lifted.before, lifted.rate)
        });
    let lifted = lifted.and_then(Result::ok);
    Outcome {
        scenario: scenario.name.to_owned(),
        seed,
        asked_again: 0,
        mark: Mark::Unanswered,
        detail_named: None,
        function_named: None,
        label_holds: None,
        lifted_rate: lifted.map(|lifted| lifted.rate),
        before_rate: lifted.and_then(|lifted| lifted.before),
        held,
        half_held: None,
        next_error: None,
        next_unknown: None,
        seconds,
        found,
    }
    .with_next(next)
    .marked(scenario)
}

/// Answers per second with the wall taken away, and before, where both were held in turn.
#[derive(Debug, Clone, Copy)]
struct Lifted {
    rate: f64,
    before: Option<f64>,
}

/// `None`: the wall cannot be taken away.
fn lifted(apparatus: &Apparatus, scenario: &Scenario, seed: u64) -> Option<Result<Lifted, String>> {
    let lift = scenario.lift.filter(|_| apparatus.elsewhere.is_none())?;
    let lifted = lift.of(scenario);
    Some(match lift.told {
        Told::Next(_) => apparatus
            .rate(&lifted, seed)
            .map(|rate| Lifted { rate, before: None }),
        Told::Half(_) => apparatus
            .rates([scenario, &lifted], seed)
            .map(|[before, rate]| Lifted {
                rate,
                before: Some(before),
            }),
    })
}
