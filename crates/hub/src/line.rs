//! The controller's way to its hub: who is there, and sessions with agents.
//!
//! ```text
//!  who asks ─► Writer ─► carry ─► ask.SESSION ═══ hub ═══► agent
//!          ◄── Reader ◄─ carry ◄─ say.SESSION ◄═══════════
//!                        └── one thread for all of them
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc as blocking;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::{Client, ClientError, ConnectErrorKind, Event, Subscriber};
use futures_util::StreamExt;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot, watch};
use wallfinder_hosts::{Agent, Away, HostError, Kept, Way, at_once};
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
/// Who was there so long ago is taken to be there still.
const LOOK_AGE_MAX: Duration = Duration::from_secs(1);
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

/// How the hub was reached, by what the connection tells.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reached {
    /// How often: what was sent before may be lost.
    times: u64,
    /// It refused who dialled last.
    pub(crate) is_refused: bool,
}

/// Who was there when it was last asked.
struct Look {
    asked: Instant,
    told: Instant,
    found: Vec<Present>,
}

impl Look {
    /// Whether it tells somebody who asked at `asked` of this name: it was there just now, or not while all could answer.
    fn tells_of(&self, name: &str, asked: Instant) -> bool {
        let is_there = self.found.iter().any(|found| found.here.name == name);
        let is_whole = self.told.duration_since(self.asked) >= HERE_WAIT_MAX;
        match is_there {
            true => asked.saturating_duration_since(self.told) < LOOK_AGE_MAX,
            false => is_whole && self.asked >= asked,
        }
    }
}

/// A controller's connection to a hub. Dropping it ends it.
pub struct Line {
    handle: Handle,
    client: Client,
    reached: watch::Receiver<Reached>,
    silence_max: Duration,
    looked: Mutex<Option<Look>>,
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
        let (note, reached) = watch::channel(Reached::default());
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
                    noted(&event, &note);
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
                reached,
                silence_max: credentials.silence_max(SILENCE_MAX),
                looked: Mutex::default(),
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

    /// Begins a session with an agent that is there. Many who ask at once share what is heard of who is there.
    pub fn agent(self: &Arc<Line>, name: &str, controller: &str) -> Result<Agent, HostError> {
        let asked = Instant::now();
        self.is_reached(name)?;
        let present = {
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            match looked.as_ref().filter(|look| look.tells_of(name, asked)) {
                Some(look) => look.found.clone(),
                None => {
                    // The hub may have gone while others looked.
                    self.is_reached(name)?;
                    let asked = Instant::now();
                    let found = self.present(HERE_WAIT_MAX, &[name.to_owned()]);
                    let found = found.map_err(|error| of_host(name, error))?;
                    let told = Instant::now();
                    let look = looked.insert(Look { asked, told, found });
                    look.found.clone()
                }
            }
        };
        self.begin(&present, name, controller)
    }

    fn is_reached(&self, name: &str) -> Result<(), HostError> {
        match self.client.connection_state() {
            State::Connected => Ok(()),
            _ => Err(of_host(name, "the hub is not reached")),
        }
    }

    /// Begins a session with each of these, in their order. All are asked at once whether they are there, and sessions
    /// begin some at a time. Once one has failed, those that would follow are not begun, and left out.
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
        let has_failed = AtomicBool::new(false);
        let begun = at_once(names, |name| {
            if has_failed.load(Ordering::Relaxed) {
                return None;
            }
            let begun = self.begin(&present, name, controller);
            has_failed.fetch_or(begun.is_err(), Ordering::Relaxed);
            Some(begun)
        });
        begun.into_iter().flatten().collect()
    }

    fn begin(
        self: &Arc<Line>,
        present: &[Present],
        name: &str,
        controller: &str,
    ) -> Result<Agent, HostError> {
        self.is_reached(name)?;
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
            silence_max: self.silence_max,
            ask: subjects::ask(name, instance, &session),
            say: subjects::say(name, &session),
        };
        let (reached, kept) = (self.reached.clone(), Arc::clone(&why));
        self.handle.spawn(async move {
            let mut ended = carrying.on(said, hear, closed, reached).await;
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = ended.why.take();
            drop(ended);
            let _ = over.send(());
        });
        let way = Session {
            close: Mutex::new(Some(close)),
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

/// Notes an event of the connection.
pub(crate) fn noted(event: &Event, note: &watch::Sender<Reached>) {
    match event {
        Event::Connected => note.send_modify(|reached| {
            *reached = Reached {
                times: reached.times + 1,
                is_refused: false,
            }
        }),
        event => {
            tracing::warn!(%event, "the way to the hub");
            if is_refusal(event) {
                note.send_modify(|reached| reached.is_refused = true);
            }
        }
    }
}

/// The library tells why it does not reach the hub again in words alone.
fn is_refusal(event: &Event) -> bool {
    let refused = ConnectErrorKind::AuthorizationViolation.to_string();
    matches!(event, Event::ClientError(ClientError::Other(why)) if *why == refused)
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
    silence_max: Duration,
    ask: String,
    say: String,
}

impl Carrying {
    async fn on(
        self,
        said: mpsc::Receiver<Vec<u8>>,
        heard: mpsc::Sender<Vec<u8>>,
        close: oneshot::Receiver<()>,
        reached: watch::Receiver<Reached>,
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
            reached,
            silence_max: self.silence_max,
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
    close: Mutex<Option<oneshot::Sender<()>>>,
    is_over: Mutex<blocking::Receiver<()>>,
    _line: Arc<Line>,
}

impl Kept for Session {
    fn end(&self) {
        *self.close.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_just_heard_tells_of_who_is_there_and_of_who_is_not_where_all_could_answer() {
        let began = Instant::now();
        let after = |ms: u64| began + Duration::from_millis(ms);
        let found = Present {
            here: Here {
                number: 1,
                name: "c1".to_owned(),
                instance: 1,
                host: "c1".to_owned(),
                kernel: String::new(),
                cpus: 1,
                version: String::new(),
                protocol: 1,
                grants: Vec::new(),
                is_root: false,
                sessions: 0,
                monotonic_ns: 0,
            },
            offset: None,
            round_trip: None,
        };
        let look = |told_ms: u64| Look {
            asked: after(100),
            told: after(told_ms),
            found: vec![found.clone()],
        };
        let short = look(200);
        assert!(short.tells_of("c1", after(0)) && short.tells_of("c1", after(1_199)));
        assert!(!short.tells_of("c1", after(1_200)), "it may be gone again");
        assert!(!short.tells_of("c2", after(0)), "it was not waited for");
        let whole = look(3_100);
        assert!(whole.tells_of("c2", after(99)));
        assert!(!whole.tells_of("c2", after(101)), "it may have come since");
    }
}
