//! The controller's way to its hub: who is there, and sessions with agents.
//!
//! ```text
//!  who asks ─► Writer ─► carry ─► ask.SESSION ═══ hub ═══► agent
//!          ◄── Reader ◄─ carry ◄─ say.SESSION ◄═══════════
//!                        └── one thread for all of them
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Read, Write};
use std::sync::mpsc as blocking;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::{Client, Event, Subscriber};
use futures_util::StreamExt;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot, watch};
use wallfinder_hosts::{Agent, Away, HostError, Way, at_once};
use wallfinder_protocol::clock::{Offset, Offsets, RoundTrip};
use wallfinder_protocol::stream::PIECE_BYTES_MAX;
use wallfinder_protocol::{AWAY_MAX, Frames, Greeting};
use wallfinder_sys::clock;

use crate::carry::{Ends, MESSAGES_MAX, Over, WAITING_MAX, carry};
use crate::order::{self, Sent};
use crate::subjects::{self, ALL, HERE_OF_ALL, Here, WhoIsThere};
use crate::{Credentials, CredentialsError};

/// How long an agent that is there may take to greet.
const GREETING_WAIT_MAX: Duration = Duration::from_secs(20);
/// An agent that says nothing for so long while the hub is reached is gone: it answers the lease each second.
const SILENCE_MAX: Duration = Duration::from_secs(6);
/// An agent was heard: another of its name may take as long, and this at the least.
const TWIN_WAIT_MIN: Duration = Duration::from_millis(100);
/// How long an agent may take to say that it is there.
const HERE_WAIT_MAX: Duration = Duration::from_secs(3);
/// Questions that tell how far an agent's clock is known, and the time between two.
const QUESTIONS: u64 = 8;
const QUESTION_EVERY: Duration = Duration::from_millis(30);
/// How long a session may take to say that it is over.
const END_WAIT_MAX: Duration = Duration::from_millis(1_500);

/// Why a hub is not reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// What it is to be reached with.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// It cannot be used.
    #[error("{why}")]
    Unusable {
        /// Why.
        why: String,
    },
    /// Nobody answers there as a hub, or it does not know who asks.
    #[error("the hub at {servers} is not reached: {why}")]
    NotReached {
        /// Where.
        servers: String,
        /// Why.
        why: String,
    },
}

/// An agent that said that it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present {
    /// What it said.
    pub here: Here,
    /// How far its clock is ahead, and how well that is known.
    pub offset: Option<Offset>,
    /// The shortest way there and back.
    pub round_trip: Option<Duration>,
}

/// A controller's connection to a hub. Dropping it ends it.
pub struct Line {
    handle: Handle,
    client: Client,
    connected: watch::Receiver<u64>,
    /// Its end is that of the thread.
    _stop: oneshot::Sender<()>,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Line")
    }
}

impl Line {
    /// Connects, and waits until the hub knows who this is.
    pub fn connect(credentials: &Credentials) -> Result<Line, LineError> {
        let unusable = |why: String| LineError::Unusable { why };
        let connecting = credentials.options().map_err(unusable)?;
        let servers = connecting.servers.join(", ");
        let (tell, told) = blocking::sync_channel(1);
        let (stop, stopped) = oneshot::channel::<()>();
        let (count, connected) = watch::channel(0);
        let running = move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(tell.send(Err(error.to_string()))),
            };
            let handle = runtime.handle().clone();
            runtime.block_on(async move {
                let _read_when_dialled = connecting.authority;
                let counted = connecting.options.event_callback(move |event| {
                    noted(&event, &count);
                    async {}
                });
                let client = counted.connect(connecting.servers).await;
                let client = client
                    .map(|client| (client, handle))
                    .map_err(|error| spelled(&error));
                if tell.send(client).is_ok() {
                    let _ = stopped.await;
                }
            });
            // What still waits for a disk or a name is not waited for.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("wf-hub".to_owned());
        let started = thread.spawn(running);
        started.map_err(|error| unusable(error.to_string()))?;
        match told.recv() {
            Ok(Ok((client, handle))) => Ok(Line {
                handle,
                client,
                connected,
                _stop: stop,
            }),
            Ok(Err(why)) => Err(LineError::NotReached { servers, why }),
            Err(_) => Err(unusable("its thread ended".to_owned())),
        }
    }

    /// Who says within this time that it is there, in the order of names; where some are named, only until each of them
    /// has, and another of its name would have. All are asked a few times, so that it is known how far a clock is ahead.
    pub fn present(&self, within: Duration, until: &[String]) -> Result<Vec<Present>, LineError> {
        let (tell, told) = blocking::sync_channel(1);
        let (client, until) = (self.client.clone(), until.to_vec());
        self.handle.spawn(async move {
            let _ = tell.send(who_is_there(&client, within, &until).await);
        });
        let found = told.recv().unwrap_or(Err("its thread ended".to_owned()));
        found.map_err(|why| LineError::Unusable { why })
    }

    /// Begins a session with an agent that is there.
    pub fn agent(self: &Arc<Line>, name: &str, controller: &str) -> Result<Agent, HostError> {
        let named = [name.to_owned()];
        let present = self.present(HERE_WAIT_MAX, &named);
        let present = present.map_err(|error| of_host(name, error))?;
        self.begin(&present, name, controller)
    }

    /// Begins a session with each of these, in their order. All are asked at once whether they are there, and sessions
    /// begin some at a time.
    pub fn agents(
        self: &Arc<Line>,
        names: &[String],
        controller: &str,
    ) -> Vec<Result<Agent, HostError>> {
        let present = match self.present(HERE_WAIT_MAX, names) {
            Ok(present) => present,
            Err(error) => {
                let each = names.iter();
                return each.map(|name| Err(of_host(name, &error))).collect();
            }
        };
        let mut names: Vec<&String> = names.iter().collect();
        at_once(&mut names, |name| self.begin(&present, name, controller))
    }

    fn begin(
        self: &Arc<Line>,
        present: &[Present],
        name: &str,
        controller: &str,
    ) -> Result<Agent, HostError> {
        let failed = |why: String| of_host(name, why);
        let mut of_name = present.iter().filter(|found| found.here.name == name);
        let instance = match (of_name.next(), of_name.next()) {
            (Some(one), None) => one.here.instance,
            (Some(_), Some(_)) => {
                let why = format!("two agents answer as {name}: end one of them");
                return Err(failed(why));
            }
            (None, _) => {
                let names: Vec<&str> = present.iter().map(|one| one.here.name.as_str()).collect();
                return Err(failed(match names.as_slice() {
                    [] => "it is not at the hub, nor is any other agent".to_owned(),
                    names => format!("it is not at the hub; there are {}", names.join(", ")),
                }));
            }
        };
        let session = session_id().map_err(&failed)?;
        let (say, said) = mpsc::channel(WAITING_MAX);
        let (hear, heard) = mpsc::channel(WAITING_MAX);
        let (close, closed) = oneshot::channel();
        let (over, is_over) = blocking::sync_channel(1);
        let why = Arc::new(Mutex::new(None));
        let carrying = Carrying {
            client: self.client.clone(),
            ask: subjects::ask(name, instance, &session),
            say: subjects::say(name, &session),
        };
        let (connected, kept) = (self.connected.clone(), Arc::clone(&why));
        self.handle.spawn(async move {
            let mut ended = carrying.on(said, hear, closed, connected).await;
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = ended.why.take();
            drop(ended);
            let _ = over.send(());
        });
        let way = Session {
            close: Some(close),
            is_over: Mutex::new(is_over),
            _line: Arc::clone(self),
        };
        let mut heard = Heard {
            from: heard,
            left: Vec::new(),
        };
        let why_over = move || {
            let why = why.lock().unwrap_or_else(PoisonError::into_inner).take();
            why.unwrap_or_else(|| "its agent ended".to_owned())
        };
        let frames = match greeted(&self.handle, &mut heard) {
            Ok(Some(frames)) => frames,
            Ok(None) => return Err(failed(why_over())),
            Err(why) => return Err(failed(why)),
        };
        let (reader, writer) = ((heard, frames), Said(say));
        let client = self.client.clone();
        let way = Way {
            kept: Box::new(way),
            why_over: Box::new(why_over),
            away: Some(Away {
                most: AWAY_MAX,
                is_gone: Box::new(move || client.connection_state() != State::Connected),
            }),
        };
        let agent = Agent::greeted(name, controller, reader, writer, way)?;
        let (line, named) = (Arc::clone(self), (name.to_owned(), controller.to_owned()));
        Ok(agent.with_again(Arc::new(move || line.agent(&named.0, &named.1))))
    }
}

/// An event of the connection: how often the hub was reached is counted, for what was sent before may be lost.
pub(crate) fn noted(event: &Event, count: &watch::Sender<u64>) {
    match event {
        Event::Connected => count.send_modify(|count| *count += 1),
        event => tracing::warn!(%event, "the way to the hub"),
    }
}

/// A message of the library with what lies behind it.
pub(crate) fn spelled(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut behind = error.source();
    while let Some(error) = behind {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(&format!(": {more}"));
        }
        behind = error.source();
    }
    text
}

fn of_host(host: &str, why: impl std::fmt::Display) -> HostError {
    HostError {
        host: host.to_owned(),
        why: why.to_string(),
    }
}

/// A name that no other session has, or has had.
fn session_id() -> Result<String, String> {
    let bytes: [u8; 12] = random()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| "this machine has no random numbers".to_owned())?;
    Ok(bytes)
}

async fn who_is_there(
    client: &Client,
    within: Duration,
    until: &[String],
) -> Result<Vec<Present>, String> {
    let mut answers = order::subscribe(client, HERE_OF_ALL.to_owned()).await?;
    let mut found: BTreeMap<(String, u64), (Here, Offsets)> = BTreeMap::new();
    let mut awaited: BTreeSet<&str> = until.iter().map(String::as_str).collect();
    let mut asked_ns = HashMap::new();
    let mut questions = tokio::time::interval(QUESTION_EVERY);
    let over = tokio::time::sleep(within);
    tokio::pin!(over);
    loop {
        tokio::select! {
            _ = questions.tick(), if (asked_ns.len() as u64) < QUESTIONS => {
                let number = asked_ns.len() as u64;
                let question = serde_json::to_vec(&WhoIsThere { number });
                let question = question.map_err(|error| error.to_string())?;
                asked_ns.insert(number, clock::monotonic_ns());
                if order::publish(client, ALL.to_owned(), question).await == Sent::Closed {
                    return Err("the way to the hub is closed".to_owned());
                }
            }
            Some(message) = answers.next() => {
                let answered_ns = clock::monotonic_ns();
                let Some(here) = Here::heard(&message.subject, &message.payload) else {
                    continue;
                };
                let is_last = awaited.remove(here.name.as_str()) && awaited.is_empty();
                let asked_ns = asked_ns.get(&here.number).copied();
                let there_ns = here.monotonic_ns;
                let of = found.entry((here.name.clone(), here.instance));
                let (_, offsets) = of.or_insert_with(|| (here, Offsets::default()));
                if let Some(asked_ns) = asked_ns {
                    offsets.add(RoundTrip { asked_ns, there_ns, answered_ns });
                }
                if is_last {
                    let took_ns = asked_ns.map_or(0, |asked_ns| answered_ns.saturating_sub(asked_ns));
                    let wait = Duration::from_nanos(took_ns).max(TWIN_WAIT_MIN);
                    let until = over.deadline().min(tokio::time::Instant::now() + wait);
                    over.as_mut().reset(until);
                }
            }
            () = &mut over => break,
        }
    }
    let now_ns = clock::monotonic_ns();
    let present = found.into_values().map(|(here, offsets)| Present {
        here,
        offset: offsets.at(now_ns),
        round_trip: offsets.round_trip_ns().map(Duration::from_nanos),
    });
    Ok(present.collect())
}

/// What a session is carried over.
struct Carrying {
    client: Client,
    ask: String,
    say: String,
}

impl Carrying {
    async fn on(
        self,
        said: mpsc::Receiver<Vec<u8>>,
        heard: mpsc::Sender<Vec<u8>>,
        close: oneshot::Receiver<()>,
        connected: watch::Receiver<u64>,
    ) -> Over {
        let answers = match order::subscribe(&self.client, self.say).await {
            Ok(answers) => answers,
            Err(why) => return Over::because(why, heard),
        };
        let (take, messages) = mpsc::channel(MESSAGES_MAX);
        let taking = tokio::spawn(taken(answers, take));
        let ends = Ends {
            messages,
            said,
            heard,
            close,
            connected,
            silence_max: SILENCE_MAX,
        };
        let over = carry(&self.client, self.ask, ends).await;
        taking.abort();
        over
    }
}

/// Messages as they come. What finds no room is sent again.
async fn taken(mut answers: Subscriber, take: mpsc::Sender<Vec<u8>>) {
    while let Some(message) = answers.next().await {
        let _ = take.try_send(message.payload.into());
    }
}

/// Waits for an agent's greeting; `None`: its session ended before.
fn greeted(handle: &Handle, heard: &mut Heard) -> Result<Option<Frames>, String> {
    let mut greeting = Greeting::default();
    let until = Instant::now() + GREETING_WAIT_MAX;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let came = handle.block_on(async { tokio::time::timeout(left, heard.from.recv()).await });
        match came {
            Ok(Some(bytes)) => match greeting.push(&bytes) {
                Ok(None) => {}
                Ok(frames) => return Ok(frames),
                Err(error) => return Err(error.to_string()),
            },
            Ok(None) => return Ok(None),
            Err(_) => return Err("its agent does not greet".to_owned()),
        }
    }
}

/// A session's end of what is kept of it: dropping it closes the session, and waits a moment until the agent knows.
struct Session {
    close: Option<oneshot::Sender<()>>,
    is_over: Mutex<blocking::Receiver<()>>,
    _line: Arc<Line>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close = None;
        let is_over = self
            .is_over
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let _ = is_over.recv_timeout(END_WAIT_MAX);
    }
}

/// Bytes that an agent said.
struct Heard {
    from: mpsc::Receiver<Vec<u8>>,
    left: Vec<u8>,
}

impl Read for Heard {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left.is_empty() {
            // Its end is the end of the input.
            self.left = self.from.blocking_recv().unwrap_or_default();
        }
        let read = self.left.len().min(into.len());
        into[..read].copy_from_slice(&self.left[..read]);
        self.left.drain(..read);
        Ok(read)
    }
}

/// Bytes that are said to an agent.
struct Said(mpsc::Sender<Vec<u8>>);

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE_BYTES_MAX)];
        let said = self.0.blocking_send(piece.to_vec());
        said.map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
