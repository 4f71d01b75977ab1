//! `lab`: hosts on this machine, to try on them what is meant for others.

use std::thread::sleep;
use std::time::Duration;

use wallfinder_model::LinkSpec;
use wallfinder_testbed::child::Shim;
use wallfinder_testbed::lab::Hosts;
use wallfinder_testbed::programs;

use crate::commands::running::{Words, end};
use crate::exit::Failed;
use crate::flags::{LabCommand, LabUpFlags};
use crate::interrupt::Interrupts;
use crate::output;

/// How often hosts are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// `wallfinder lab`.
pub(crate) fn lab(command: &LabCommand) -> Result<(), Failed> {
    match command {
        LabCommand::Up(flags) => up(flags),
        LabCommand::Down => output::put(&end("lab", is_lab)?, None),
    }
}

fn up(flags: &LabUpFlags) -> Result<(), Failed> {
    let link: LinkSpec = flags.link.parse().map_err(Failed::usage)?;
    let cpus: Vec<Vec<u32>> = flags.cpus.iter().map(|cpus| cpus.0.clone()).collect();
    let interrupts = Interrupts::catch();
    let shim = Shim::of_this_process();
    let quotas: Vec<Option<f64>> = flags.quotas.iter().map(|quota| quota.0).collect();
    let lab = Hosts::up(usize::from(flags.hosts), link, &cpus, &quotas, &shim);
    let lab = lab.map_err(Failed::run)?;
    output::put(&shown(&lab), None)?;
    while interrupts.came().is_none() {
        lab.stand().map_err(Failed::run)?;
        sleep(LOOK_EVERY);
    }
    drop(lab);
    Ok(())
}

fn shown(lab: &Hosts) -> String {
    let ssh = format!("ssh -F {}", lab.settings().display());
    let mut text = String::new();
    for host in lab.hosts() {
        text.push_str(&format!("{}  {}\n", host.name, host.address));
    }
    let first = &lab.hosts()[0];
    let server = programs::find_subject("knownwall");
    let server = server.map_or("knownwall".to_owned(), |found| {
        found.path.display().to_string()
    });
    text.push_str(&format!(
        "\nTry it, in another terminal:\n  {ssh} {name} {server} --host {address} --spin-us 200\n  \
         wallfinder find http://{address}:8090/ --server-host ssh://{name} --ssh '{ssh}'\n\n\
         Ctrl-C, or `wallfinder lab down`, removes them.\n",
        name = first.name,
        address = first.address,
    ));
    text
}

fn is_lab(words: &Words<'_>) -> bool {
    words.starts_with(&[b"lab", b"up"])
}
