//! An agent that has joined a hub: for each session of a controller it starts an agent process of its own, and relays.
//! What serves a session is a [`Sessions`]: processes here, anything that speaks the protocol elsewhere.
//!
//! ```text
//!  ask.SESSION ═► carry ─► its standard input    wallfinder agent --stdio, with the grants of the credentials
//!  say.SESSION ◄═ carry ◄─ its standard output
//! ```
//!
//! That process is the one that ssh would start: it holds leases, checks grants, and undoes everything when its input
//! ends. This one holds nothing, so that its own end, whatever ends it, is the end of a pipe.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc as blocking;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use async_nats::{Client, Event};
use futures_util::StreamExt;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot, watch};
use wallfinder_protocol::stream::{is_reset, opens, reset};
use wallfinder_sys::{clock, process};

use crate::Credentials;
use crate::carry::{Ends, MESSAGES_MAX, WAITING_MAX, carry};
use crate::line::{Reached, noted, random, spelled};
use crate::order;
use crate::subjects::{self, ALL, Here, WhoIsThere};

/// Sessions at once.
const SESSIONS_MAX: usize = 8;
/// Sessions that are over and not forgotten: what is late of them begins none.
const OVER_MAX: usize = 64;
/// A controller that says nothing for so long while the hub is reached is gone: it renews its lease each second. What it
/// squeezed is as it was by then.
const SILENCE_MAX: Duration = Duration::from_secs(7);
/// The pause before a hub is dialled again that was never reached, the first and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];
/// How much of what an agent says goes into one message.
const READ_BYTES: usize = 64 << 10;

/// What an agent says of itself, and how it serves.
pub struct About {
    /// What it says; instance, number, sessions and clock are filled in.
    pub here: Here,
    /// Starts the agent of one session, on standard input and output.
    pub command: Box<dyn Fn() -> Command + Send>,
    /// Hears what happens to the way to the hub and to sessions, for the host's log.
    pub log: Box<dyn FnMut(&str) + Send>,
}

/// Begins what serves the sessions of an agent.
pub trait Sessions {
    /// Begins one: what its controller says comes by `heard`, what is said to it goes by `say`. The end of `heard` is the
    /// end of its input; the session is over when `say` is dropped. The error says why there is none.
    fn begin(&self, heard: mpsc::Receiver<Vec<u8>>, say: mpsc::Sender<Vec<u8>>) -> io::Result<()>;
}

/// What the threads of an agent share.
type Log = Arc<Mutex<Box<dyn FnMut(&str) + Send>>>;

fn told(log: &Log, line: &str) {
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    log(line);
}

/// Joins the hub of these credentials, and serves until the process ends. Each session has a process of its own.
pub fn join(credentials: &Credentials, about: About) -> Result<(), String> {
    let About { here, command, log } = about;
    let processes = Processes::of(command).map_err(|error| error.to_string())?;
    // A load may fill every processor, and the controller waits to hear that this host is there.
    process::go_first();
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(serve(credentials, here, &processes, log))
}

/// The same with sessions that something else serves, on the runtime that it is called on. It returns when the way to
/// the hub is closed for good, and says why.
pub async fn serve(
    credentials: &Credentials,
    here: Here,
    sessions: &impl Sessions,
    log: Box<dyn FnMut(&str) + Send>,
) -> Result<(), String> {
    let instance = u64::from_ne_bytes(random()?);
    let log: Log = Arc::new(Mutex::new(log));
    let (client, reached, _read_when_dialled) = dialled(credentials, &log).await?;
    let mut joined = Joined {
        here: Here { instance, ..here },
        begins: sessions,
        log,
        client,
        reached,
        silence_max: credentials.silence_max(SILENCE_MAX),
        sessions: HashMap::new(),
        over: VecDeque::new(),
    };
    joined.serve().await
}

/// Dials until the hub knows who this is; from then on the library does.
async fn dialled(
    credentials: &Credentials,
    log: &Log,
) -> Result<(Client, watch::Receiver<Reached>, Option<File>), String> {
    let [mut pause, longest] = PAUSES;
    loop {
        let connecting = credentials.options()?;
        let (note, reached) = watch::channel(Reached::default());
        let of_events = Arc::clone(log);
        let options = connecting.options.event_callback(move |event| {
            noted(&event, &note);
            if !matches!(event, Event::ClientError(_)) {
                told(&of_events, &format!("the hub: {event}"));
            }
            async {}
        });
        match options.connect(connecting.servers).await {
            Ok(client) => return Ok((client, reached, connecting.authority)),
            Err(error) => told(log, &format!("the hub is not reached: {}", spelled(&error))),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

struct Joined<'s, S> {
    here: Here,
    begins: &'s S,
    log: Log,
    client: Client,
    reached: watch::Receiver<Reached>,
    silence_max: Duration,
    sessions: HashMap<String, Session>,
    /// Those that were last over.
    over: VecDeque<String>,
}

struct Session {
    take: mpsc::Sender<Vec<u8>>,
    /// Its end closes the session.
    _close: oneshot::Sender<()>,
}

impl<S: Sessions> Joined<'_, S> {
    async fn serve(&mut self) -> Result<(), String> {
        let of_sessions = subjects::ask(&self.here.name, self.here.instance, "*");
        let messages = self.client.subscribe(of_sessions).await;
        let mut messages = messages.map_err(|error| error.to_string())?;
        let questions = self.client.subscribe(ALL).await;
        let mut questions = questions.map_err(|error| error.to_string())?;
        let (ended, mut endings) = mpsc::channel::<(String, Option<String>)>(SESSIONS_MAX);
        told(&self.log, "joined");
        loop {
            tokio::select! {
                message = messages.next() => {
                    let message = message.ok_or("the way to the hub is closed")?;
                    if let Some(session) = subjects::session(&message.subject) {
                        let session = session.to_owned();
                        self.take(session, message.payload.into(), &ended).await;
                    }
                }
                question = questions.next() => {
                    let question = question.ok_or("the way to the hub is closed")?;
                    if let Ok(WhoIsThere { number }) = serde_json::from_slice(&question.payload) {
                        self.answer(number).await;
                    }
                }
                Some((session, why)) = endings.recv() => {
                    let why = why.map_or(String::new(), |why| format!(": {why}"));
                    told(&self.log, &format!("session {session} is over{why}"));
                    self.sessions.remove(&session);
                    self.over.push_back(session);
                    if self.over.len() > OVER_MAX {
                        self.over.pop_front();
                    }
                }
            }
        }
    }

    async fn answer(&self, number: u64) {
        let here = Here {
            number,
            sessions: self.sessions.len() as u32,
            monotonic_ns: clock::monotonic_ns(),
            ..self.here.clone()
        };
        if let Ok(text) = serde_json::to_vec(&here) {
            let to = subjects::here(&here.name);
            // Who is not heard is asked again.
            let _ = order::publish(&self.client, to, text).await;
        }
    }

    /// A message of a session.
    async fn take(
        &mut self,
        session: String,
        message: Vec<u8>,
        ended: &mpsc::Sender<(String, Option<String>)>,
    ) {
        if let Some(known) = self.sessions.get(&session) {
            // What finds no room is sent again.
            let _ = known.take.try_send(message);
            return;
        }
        if is_reset(&message) || self.over.contains(&session) {
            return;
        }
        let is_begun = opens(&message)
            && self.sessions.len() < SESSIONS_MAX
            && self.begin(&session, message, ended);
        if !is_begun {
            let to = subjects::say(&self.here.name, &session);
            let _ = order::publish(&self.client, to, reset()).await;
        }
    }

    fn begin(
        &mut self,
        session: &str,
        first: Vec<u8>,
        ended: &mpsc::Sender<(String, Option<String>)>,
    ) -> bool {
        let (take, messages) = mpsc::channel(MESSAGES_MAX);
        let (say, said) = mpsc::channel(WAITING_MAX);
        let (hear, heard) = mpsc::channel(WAITING_MAX);
        let (close, closed) = oneshot::channel();
        if let Err(error) = self.begins.begin(heard, say) {
            told(
                &self.log,
                &format!("session {session} has no agent: {error}"),
            );
            return false;
        }
        told(&self.log, &format!("session {session} begins"));
        let _ = take.try_send(first);
        let ends = Ends {
            messages,
            said,
            heard: hear,
            close: closed,
            reached: self.reached.clone(),
            silence_max: self.silence_max,
        };
        let (client, to) = (self.client.clone(), subjects::say(&self.here.name, session));
        let (session, ended) = (session.to_owned(), ended.clone());
        let of_task = session.clone();
        tokio::spawn(async move {
            let over = carry(&client, to, ends).await;
            let _ = ended.send((of_task, over.why)).await;
        });
        let begun = Session {
            take,
            _close: close,
        };
        self.sessions.insert(session, begun);
        true
    }
}

/// An agent of one session, with its standard input and output.
type Started = (Child, ChildStdin, ChildStdout);

/// Sessions of which each has a process.
struct Processes {
    /// Agents of sessions are started by a thread that goes before nobody, for they inherit it.
    start: blocking::Sender<blocking::SyncSender<io::Result<Started>>>,
}

impl Processes {
    fn of(command: Box<dyn Fn() -> Command + Send>) -> io::Result<Processes> {
        let (start, starts) = blocking::channel::<blocking::SyncSender<io::Result<Started>>>();
        let starting = thread::Builder::new().name("wf-start".to_owned());
        starting.spawn(move || {
            for tell in starts {
                let _ = tell.send(started(command()));
            }
        })?;
        Ok(Processes { start })
    }
}

impl Sessions for Processes {
    fn begin(&self, heard: mpsc::Receiver<Vec<u8>>, say: mpsc::Sender<Vec<u8>>) -> io::Result<()> {
        let ended = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        let (tell, begun_by) = blocking::sync_channel(1);
        self.start
            .send(tell)
            .map_err(|_| io::ErrorKind::BrokenPipe)?;
        let (mut child, input, output) = begun_by.recv().map_err(ended)??;
        let (hand_over, handed_over) = blocking::sync_channel(1);
        let threads = thread::Builder::new()
            .name("wf-heard".to_owned())
            .spawn(move || pass_in(heard, input))
            .and_then(|_| {
                let named = thread::Builder::new().name("wf-said".to_owned());
                named.spawn(move || pass_out(output, &say, &handed_over))
            });
        if let Err(error) = threads {
            let _ = child.kill().and_then(|()| child.wait());
            return Err(error);
        }
        let _ = hand_over.send(child);
        Ok(())
    }
}

fn started(mut command: Command) -> io::Result<Started> {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.spawn()?;
    match (child.stdin.take(), child.stdout.take()) {
        (Some(input), Some(output)) => Ok((child, input, output)),
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// To the agent of a session. The end of what is heard is the end of its input.
fn pass_in(mut heard: mpsc::Receiver<Vec<u8>>, mut input: ChildStdin) {
    while let Some(bytes) = heard.blocking_recv() {
        if input.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// From it, until it ends. Where nobody hears it any more, it is read until then all the same.
fn pass_out(
    mut output: ChildStdout,
    say: &mpsc::Sender<Vec<u8>>,
    handed_over: &blocking::Receiver<Child>,
) {
    let mut bytes = vec![0; READ_BYTES];
    while let Ok(read) = output.read(&mut bytes)
        && read > 0
    {
        let _ = say.blocking_send(bytes[..read].to_vec());
    }
    if let Ok(mut child) = handed_over.recv() {
        let _ = child.wait();
    }
}
