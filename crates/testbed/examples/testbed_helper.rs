//! Stands in for the tool in tests: the hidden subcommand, and parents to be killed.
//!
//! ```text
//!  testbed_helper __child …            as the tool does it
//!  testbed_helper parent COMMAND…      starts a subject, prints its pid, sleeps
//!  testbed_helper steps STEP…          takes one step for each line of standard input, and
//!                                    says `did STEP …`; undoes all at the end of the input
//! ```

#![forbid(unsafe_code)]

use std::io::{BufRead, Write};
use std::time::Duration;

use wallfinder_model::experiment::Squeeze;
use wallfinder_testbed::child::{self, Shim};
use wallfinder_testbed::cpu_stealer::CpuStealer;
use wallfinder_testbed::group::{Control, Group};
use wallfinder_testbed::lab::{self, Direction, Lab};
use wallfinder_testbed::pauses::Pauses;
use wallfinder_testbed::squeeze::{FewerCpus, Lever};
use wallfinder_testbed::subject::{Subject, SubjectSpec};

fn main() {
    let mut args = std::env::args_os().skip(1);
    match args.next().as_deref().and_then(|arg| arg.to_str()) {
        Some(child::SUBCOMMAND) => {
            if let Err(error) = child::enter(args) {
                eprintln!("wallfinder: {error}");
                std::process::exit(127);
            }
        }
        Some("parent") => {
            let mut words: Vec<String> = args.filter_map(|arg| arg.into_string().ok()).collect();
            let port = words.pop().and_then(|port| port.parse().ok());
            let mut spec = SubjectSpec::new(words.join(" "));
            spec.expect_port = port;
            let subject = Subject::start(spec).expect("a subject");
            println!("{}", subject.pid());
            std::io::stdout().flush().expect("a reader");
            std::thread::sleep(Duration::from_secs(60));
        }
        Some("steps") => steps(args.filter_map(|arg| arg.into_string().ok())),
        _ => std::process::exit(2),
    }
}

/// What a test has it put up, one after the other, and hold.
fn steps(steps: impl Iterator<Item = String>) {
    let shim = Shim::of_this_process();
    let mut held: Vec<Box<dyn std::any::Any>> = Vec::new();
    let mut lines = std::io::stdin().lock().lines();
    let mut said = std::io::stdout();
    for step in steps {
        if !matches!(lines.next(), Some(Ok(_))) {
            break;
        }
        let (name, value) = step.split_once('=').unwrap_or((&step, ""));
        let words: Vec<&str> = value.split(':').collect();
        let facts = match take(name, &words, &mut held, &shim) {
            Ok(facts) => format!("did {step} {facts}"),
            Err(error) => format!("not {step}: {error}"),
        };
        writeln!(said, "{facts}").expect("a reader");
        said.flush().expect("a reader");
    }
    let _ = lines.next();
    while held.pop().is_some() {}
}

fn take(
    name: &str,
    words: &[&str],
    held: &mut Vec<Box<dyn std::any::Any>>,
    shim: &Shim,
) -> Result<String, Box<dyn std::error::Error>> {
    Ok(match name {
        "lab" => {
            let client = words.get(1).map(std::path::Path::new);
            let lab = Lab::lay(words[0].parse()?, client, shim)?;
            let (server, client) = (lab.server_netns(), lab.client_netns());
            let facts = format!(
                "{} {} {}",
                server.display(),
                client.display(),
                lab.server_address()
            );
            held.push(Box::new(lab));
            facts
        }
        "share" => {
            let lab = held.last_mut().and_then(|held| held.downcast_mut::<Lab>());
            let shaper = lab.and_then(|lab| lab.take_shaper(Direction::Down));
            let mut shaper = shaper.ok_or("no lab before")?;
            shaper.set_share(words[0].parse()?)?;
            let facts = format!("{} {:?}", shaper.bits()?, shaper.stats()?);
            held.push(Box::new(shaper));
            facts
        }
        "standing" => {
            let rate = words.get(1).map(|rate| lab::parse_bits(rate)).transpose()?;
            let mut shaper = lab::standing(words[0], rate, shim)?;
            shaper.set_share(0.8)?;
            let facts = format!("{} {}", shaper.full_bits(), shaper.bits()?);
            held.push(Box::new(shaper));
            facts
        }
        "quota" => {
            let pid: u32 = words[0].parse()?;
            let mut group = Group::around(&[pid], "server", Control::Cpu, shim)?;
            group.set_quota(Some(words[1].parse()?))?;
            let facts = group.folder().display().to_string();
            held.push(Box::new(group));
            facts
        }
        "frozen" => {
            let group = Group::around(&[words[0].parse()?], "server", Control::Freezer, shim)?;
            group.freeze()?;
            let facts = group.folder().display().to_string();
            held.push(Box::new(group));
            facts
        }
        "paused" => {
            let pid: u32 = words[0].parse()?;
            let mut pauses = Pauses::by_signals(&[pid], 7, shim)?;
            pauses.set_duty(0.2)?;
            held.push(Box::new(pauses));
            String::new()
        }
        "fewer" => {
            let cpus: Vec<u32> = words[1]
                .split(',')
                .map(str::parse)
                .collect::<Result<_, _>>()?;
            let pids = [words[0].parse()?];
            let mut fewer = FewerCpus::of(Squeeze::ServerCapacity, &pids, &cpus, shim)?;
            fewer.set(fewer.retained_min())?;
            held.push(Box::new(fewer));
            String::new()
        }
        "cpu-stealer" => {
            let mut stealer = CpuStealer::start(&[words[0].parse()?], 7, shim)?;
            stealer.set_dose(0.2)?;
            held.push(Box::new(stealer));
            String::new()
        }
        _ => return Err("an unknown step".into()),
    })
}
