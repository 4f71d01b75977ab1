//! The hub that runs: nats-server as a child that never outlives it, told of every edit of the folder.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use wallfinder_testbed::child::{Shim, SpawnError};
use wallfinder_testbed::command::CommandError;
use wallfinder_testbed::programs::{self, NATS_SERVER};
use wallfinder_testbed::service::Service;

use crate::{Credentials, CredentialsError, Folder, FolderError, Line, RunLock};

/// How long the server of messages may take until it answers.
const START_WAIT_MAX: Duration = Duration::from_secs(10);
/// One that ended sooner than this after its start rests for as long.
const REST: Duration = Duration::from_secs(1);
/// How long it may take to read its settings anew; what it says when it has, and when it could not.
const RELOAD_WAIT_MAX: Duration = Duration::from_secs(2);
const RELOADED: &str = "Reloaded server configuration";
const NOT_RELOADED: &str = "Failed to reload server configuration";

/// Why there is no hub.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Its folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The controller's credentials.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The program is not there.
    #[error(transparent)]
    Program(#[from] CommandError),
    /// It could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// It ended, or does not answer.
    #[error("{NATS_SERVER} {how}{said}")]
    NotThere {
        /// How.
        how: String,
        /// The end of what it said.
        said: String,
    },
}

/// A hub that runs. Dropping it ends the server of messages.
pub struct Running {
    folder: Folder,
    service: Service,
    /// The edit that the server was told of last.
    edit: u64,
    /// When the server was started, and whether a person was told that it has ended since.
    started: (Instant, bool),
    _lock: RunLock,
}

impl Running {
    /// Starts the server of messages of this folder, and waits until it answers.
    pub fn start(folder: Folder, lock: RunLock) -> Result<Running, ServerError> {
        let (service, edit) = started(&folder)?;
        let running = Running {
            folder,
            service,
            edit,
            started: (Instant::now(), false),
            _lock: lock,
        };
        running.wait_until_it_answers()?;
        running.folder.applied(edit)?;
        Ok(running)
    }

    /// Tells the server of what was edited since, and starts it anew where it has ended. Called a few times a second;
    /// gives what a person should know.
    pub fn look(&mut self) -> Result<Option<String>, ServerError> {
        if let Some((ended, _)) = self.service.ended() {
            let (since, is_told) = self.started;
            self.started.1 = true;
            if since.elapsed() >= REST {
                self.start_anew()?;
            }
            let news = || format!("{NATS_SERVER} ended with {ended}, and is started anew");
            return Ok((!is_told).then(news));
        }
        if self.folder.edits()? != self.edit {
            let (_, edit) = self.folder.write_settings()?;
            if let Err(why) = self.reload() {
                // Whoever was revoked would stay, and who was invited not come.
                self.start_anew()?;
                return Ok(Some(format!("{NATS_SERVER} {why}, and is started anew")));
            }
            self.edit = edit;
            self.folder.applied(edit)?;
        }
        Ok(None)
    }

    /// Returns when the server says that it has read its settings anew: who is in them no more is out by then.
    fn reload(&self) -> Result<(), String> {
        let before = self.service.said_bytes();
        let told = self.service.signal(Signal::HUP);
        told.map_err(|error| format!("cannot be told of the change: {error}"))?;
        let since = Instant::now();
        while since.elapsed() < RELOAD_WAIT_MAX && self.service.ended().is_none() {
            let said = self.service.said_after(before);
            if said.contains(RELOADED) {
                return Ok(());
            }
            if let Some((_, why)) = said.split_once(NOT_RELOADED) {
                let why = why.lines().next().unwrap_or_default();
                return Err(format!("does not take the change{why}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err("did not take the change in time".to_owned())
    }

    /// With the settings of now.
    fn start_anew(&mut self) -> Result<(), ServerError> {
        self.service.stop();
        (self.service, self.edit) = started(&self.folder)?;
        self.started = (Instant::now(), false);
        Ok(self.folder.applied(self.edit)?)
    }

    /// Its process, for who wants to see it.
    pub fn pid(&self) -> u32 {
        self.service.pid()
    }

    /// It answers when who conducts can connect: that needs its address, its certificate, and an identity.
    fn wait_until_it_answers(&self) -> Result<(), ServerError> {
        let controller = Credentials::read(&self.folder.controller())?;
        let since = Instant::now();
        loop {
            let failed = match Line::connect(&controller) {
                Ok(_) if self.service.ended().is_none() => return Ok(()),
                Ok(_) => "somebody else listens there".to_owned(),
                Err(error) => error.to_string(),
            };
            if let Some((ended, said)) = self.service.ended() {
                return Err(ServerError::NotThere {
                    how: format!("ended with {ended}"),
                    said: last_lines(&said),
                });
            }
            if since.elapsed() > START_WAIT_MAX {
                return Err(ServerError::NotThere {
                    how: format!("does not answer: {failed}"),
                    said: String::new(),
                });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn started(folder: &Folder) -> Result<(Service, u64), ServerError> {
    let program = programs::find_bundled(NATS_SERVER)?;
    let (settings, edit) = folder.write_settings()?;
    let args = ["-c".to_owned(), settings.display().to_string()];
    let service = Service::start(&program, &args, &Shim::of_this_process())?;
    Ok((service, edit))
}

/// The end of what a program said, a line each.
fn last_lines(said: &str) -> String {
    const LINES_MAX: usize = 5;
    let lines: Vec<&str> = said.trim_end().lines().collect();
    let last = &lines[lines.len().saturating_sub(LINES_MAX)..];
    last.iter().map(|line| format!("\n    {line}")).collect()
}
