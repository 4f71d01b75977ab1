//! `hub`: the place where agents of other hosts meet their controller.

use std::io::ErrorKind::NotFound;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use wallfinder_hub::{Folder, FolderError, Here, Invited, Running};
use wallfinder_model::scenario::Hub;
use wallfinder_protocol::Grant;

use crate::exit::Failed;
use crate::flags::{HubCommand, HubFlags, HubUpFlags};
use crate::hub::{HERE_WAIT, line};
use crate::interrupt::Interrupts;
use crate::output;

/// How often what was edited is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// `wallfinder hub`.
pub(crate) fn hub(flags: &HubFlags) -> Result<(), Failed> {
    match &flags.command {
        None => up(&flags.up),
        Some(HubCommand::Invite { name, grant, dir }) => {
            let folder = Folder::open(dir).map_err(Failed::run)?;
            let invited = folder.invite(name, &granted(grant)).map_err(Failed::run)?;
            output::put(&shown(&invited), None)
        }
        Some(HubCommand::Revoke { name, dir }) => {
            let folder = Folder::open(dir).map_err(Failed::run)?;
            folder.revoke(name).map_err(Failed::run)?;
            output::put(&format!("{name} is out\n"), None)
        }
        Some(HubCommand::Status { dir }) => status(dir),
    }
}

fn granted(asked: &[Grant]) -> Vec<Grant> {
    match asked {
        [] => Grant::DEFAULT.to_vec(),
        asked => asked.to_vec(),
    }
}

fn up(flags: &HubUpFlags) -> Result<(), Failed> {
    let dir = flags.dir.as_deref();
    let dir = dir.ok_or_else(|| Failed::usage("--dir FOLDER names the hub's folder"))?;
    let folder = Folder::make(dir, flags.listen, flags.reached_as.as_deref());
    let (folder, lock) = folder.map_err(Failed::run)?;
    let interrupts = Interrupts::catch();
    let known = folder.agents().map_err(Failed::run)?;
    let granted = granted(&flags.grant);
    let invited = folder.invite_first(&lock, &flags.invite, &granted);
    invited.map_err(Failed::run)?;
    let mut running = Running::start(folder.clone(), lock).map_err(Failed::run)?;
    let server = folder.server().map_err(Failed::run)?;
    let mut text = format!("A hub runs at {server}\n");
    for name in &flags.invite {
        let text_of_one = match folder.invited(name) {
            Err(FolderError::Io { path, error })
                if known.contains_key(name) && error.kind() == NotFound =>
            {
                format!(
                    "{name} was invited already, and {} was taken away\n",
                    path.display()
                )
            }
            invited => shown(&invited.map_err(Failed::run)?),
        };
        text.push_str(&format!("\n{text_of_one}"));
    }
    let dir = dir.display();
    text.push_str(&format!(
        "\nInvite more:   wallfinder hub invite NAME --dir {dir}\nWho is there:  wallfinder hosts --hub {dir}\n\
         Use them:      wallfinder run URL --client-host NAME --hub {dir}\n"
    ));
    output::put(&text, None)?;
    while interrupts.came().is_none() {
        if let Some(news) = running.look().map_err(Failed::run)? {
            output::complain(&news);
        }
        sleep(LOOK_EVERY);
    }
    Ok(())
}

fn shown(invited: &Invited) -> String {
    format!(
        "Credentials:   {}\nTo be typed on that machine, by who should have them:\n{}\n",
        invited.path.display(),
        invited.line
    )
}

fn status(dir: &Path) -> Result<(), Failed> {
    let folder = Folder::open(dir).map_err(Failed::run)?;
    let server = folder.server().map_err(Failed::run)?;
    let agents = folder.agents().map_err(Failed::run)?;
    let present = match folder.is_run() {
        true => {
            let hub = Hub {
                creds: Some(folder.controller()),
                nats: None,
            };
            let present = line(&hub)?.present(HERE_WAIT, &[]);
            Some(present.map_err(Failed::run)?)
        }
        false => None,
    };
    let mut text = match &present {
        Some(_) => format!("the hub runs at {server}\n"),
        None => format!("the hub does not run; it would at {server}\n"),
    };
    for (name, identity) in &agents {
        let grants: Vec<String> = identity.grants.iter().map(Grant::to_string).collect();
        let all = present.iter().flatten().map(|found| &found.here);
        let found: Vec<&Here> = all.filter(|here| here.name == *name).collect();
        let there = match found.as_slice() {
            [] => "is not there".to_owned(),
            [here] => format!(
                "is there: {}, Wallfinder {}, {} sessions",
                here.host, here.version, here.sessions
            ),
            found => {
                let hosts: Vec<&str> = found.iter().map(|here| here.host.as_str()).collect();
                format!(
                    "is there more than once, end all but one: {}",
                    hosts.join(", ")
                )
            }
        };
        text.push_str(&format!("{name}  {}  {there}\n", grants.join(",")));
    }
    output::put(&text, None)
}
