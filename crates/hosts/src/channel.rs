//! The controller's end of a channel: requests go out one by one, replies are handed to who waits for them.
//!
//! ```text
//!  call ─► writer ═══► agent ═══► reader thread ─► by number ─► call returns
//!                 every second: Renew, from a thread of its own; its round trip tells the clocks' offset
//! ```
//!
//! An answer may stand behind one that is long, such as the result of a load: while bytes come the agent is there, and is
//! waited for.
//!
//! Invariants: nobody waits for ever; after the channel's end every call fails with why it ended.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use wallfinder_engine::EngineError;
use wallfinder_model::telemetry::Sample;
use wallfinder_protocol::clock::{Offset, Offsets, RoundTrip};
use wallfinder_protocol::{Answer, Ask, Frames, News, Refusal, Request, Said, frame};
use wallfinder_sys::clock;

use crate::partial::WHOLE_WITHIN;

/// How long an agent may take to answer, on a host whose processors are full; after its last bytes, where some come.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same where much is put up: control groups, CPU stealers, pauses, a server.
pub(crate) const PATIENCE_LONG: Duration = Duration::from_secs(40);
/// How often the controller says that it is there.
const RENEW_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked at whether the way is gone, while an answer is waited for.
const GONE_LOOK_EVERY: Duration = Duration::from_millis(500);
/// Round trips at the start, of which the shortest counts.
const ROUND_TRIPS: usize = 12;
const READ_BYTES: usize = 64 << 10;

/// Held while an order with rows of data is spelled and sent: its rows stand in memory several times over then, and the
/// hosts of a load are told at the same time.
static SENDING_ROWS: Mutex<()> = Mutex::new(());

/// Something could not be done on another host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host}: {why}")]
pub struct HostError {
    /// Which.
    pub host: String,
    /// Why, in a sentence.
    pub why: String,
}

impl From<HostError> for EngineError {
    fn from(HostError { host, why }: HostError) -> EngineError {
        EngineError::Elsewhere { host, why }
    }
}

/// A channel to an agent.
pub struct Channel {
    host: String,
    writer: Mutex<Box<dyn Write + Send>>,
    shared: Arc<Shared>,
    epoch: u64,
    next: AtomicU64,
    known: Mutex<Known>,
    away: Option<Away>,
}

/// A way that may be gone for a while and come back, with all that was said meanwhile.
pub struct Away {
    /// For how long at the most.
    pub most: Duration,
    /// Whether it is gone now.
    pub is_gone: Box<dyn Fn() -> bool + Send + Sync>,
}

/// What a channel's end is called by who knows: that ssh could not connect, say.
pub type WhyOver = Box<dyn FnOnce() -> String + Send>;

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Who hears what the agent says unasked.
    news: Mutex<Option<Sender<News>>>,
    /// When bytes came last, of whichever message; 0: none have.
    heard_ns: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    by_number: HashMap<u64, SyncSender<Result<Answer, Refusal>>>,
    /// Why nothing comes any more.
    over: Option<String>,
    /// Orders that may take long, and hold up what is asked behind them.
    slow: usize,
}

#[derive(Default)]
struct Known {
    offsets: Offsets,
    latest: Option<Sample>,
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Channel({})", self.host)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Channel {
    /// Over what is read and written, after the agent's greeting: `frames` holds what came with it.
    pub(crate) fn open(
        host: &str,
        (reader, frames): (impl Read + Send + 'static, Frames),
        writer: impl Write + Send + 'static,
        why_over: WhyOver,
        away: Option<Away>,
    ) -> Result<Channel, HostError> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let listening = thread::Builder::new().name("wf-channel".to_owned());
        let listened = listening.spawn(move || of_thread.listen(reader, frames, why_over));
        listened.map_err(|error| HostError {
            host: host.to_owned(),
            why: error.to_string(),
        })?;
        Ok(Channel {
            host: host.to_owned(),
            writer: Mutex::new(Box::new(writer)),
            shared,
            epoch: 1,
            next: AtomicU64::new(1),
            known: Mutex::default(),
            away,
        })
    }

    /// From now on orders carry this epoch, the clocks are compared, and the lease is renewed.
    pub(crate) fn keep(mut self, epoch: u64) -> Result<Arc<Channel>, HostError> {
        self.epoch = epoch;
        let channel = Arc::new(self);
        for _ in 0..ROUND_TRIPS {
            channel.compare_clocks(Ask::Clock)?;
        }
        let of_thread = Arc::downgrade(&channel);
        let renewing = thread::Builder::new().name("wf-lease".to_owned());
        let renewed = renewing.spawn(move || renew(&of_thread));
        renewed.map_err(|error| channel.failed(error))?;
        Ok(channel)
    }

    /// What the host is called.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// From now on what the agent says unasked comes here.
    pub(crate) fn news(&self) -> Receiver<News> {
        let (tell, told) = channel();
        *locked(&self.shared.news) = Some(tell);
        told
    }

    /// Asks, and waits for the answer.
    pub fn call(&self, ask: Ask) -> Result<Answer, HostError> {
        let patience = match ask {
            Ask::Levers(_)
            | Ask::Release
            | Ask::Stacks { .. }
            | Ask::Calibrate { .. }
            | Ask::Start { .. } => PATIENCE_LONG,
            _ => PATIENCE,
        };
        let is_slow = patience == PATIENCE_LONG;
        locked(&self.shared.waiting).slow += usize::from(is_slow);
        let answer = self
            .ask(ask)
            .and_then(|pending| pending.within(self, patience));
        locked(&self.shared.waiting).slow -= usize::from(is_slow);
        answer
    }

    /// Asks for what takes its time. That the agent is gone is noticed by the lease, which is renewed meanwhile.
    pub(crate) fn ask(&self, ask: Ask) -> Result<Pending, HostError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = sync_channel(1);
        {
            let mut waiting = locked(&self.shared.waiting);
            if let Some(why) = &waiting.over {
                return Err(self.failed(why));
            }
            waiting.by_number.insert(number, tell);
        }
        let request = Request {
            number,
            epoch: self.epoch,
            ask,
        };
        let _alone = has_rows(&request.ask).then(|| locked(&SENDING_ROWS));
        let bytes = frame(&request).map_err(|error| {
            locked(&self.shared.waiting).by_number.remove(&number);
            self.failed(format!(
                "it cannot be told: {error}: a smaller body, or fewer rows, go to another host"
            ))
        })?;
        {
            let mut writer = locked(&self.writer);
            // That nobody reads any more is told by the reader, who knows why.
            let _ = writer.write_all(&bytes).and_then(|()| writer.flush());
        }
        Ok(Pending { number, told })
    }

    /// Whether the way is gone, and may come back.
    pub(crate) fn is_gone(&self) -> bool {
        self.away.as_ref().is_some_and(|away| (away.is_gone)())
    }

    /// Whether what is asked has to wait, as the way is gone or a slow order stands before it. That one has an end of its own.
    fn has_to_wait(&self, patience: Duration) -> bool {
        let is_behind = patience < PATIENCE_LONG && locked(&self.shared.waiting).slow > 0;
        self.is_gone() || is_behind
    }

    /// When bytes came last, whatever they are of.
    fn heard_ns(&self) -> u64 {
        self.shared.heard_ns.load(Ordering::Relaxed)
    }

    /// Nothing is awaited from here on, and nothing more is said: the end of its input has the agent undo everything. Who
    /// asks next fails at once.
    pub(crate) fn give_up(&self, why: &str) -> HostError {
        let mut waiting = locked(&self.shared.waiting);
        waiting.by_number.clear();
        waiting.over.get_or_insert_with(|| why.to_owned());
        drop(waiting);
        // One that writes at this moment waits for an agent that does not read: the end is not heard either.
        if let Ok(mut writer) = self.writer.try_lock() {
            *writer = Box::new(std::io::sink());
        }
        self.failed(why)
    }

    /// Why nothing comes any more, where that is so.
    pub(crate) fn lost(&self) -> Option<HostError> {
        let over = locked(&self.shared.waiting).over.clone();
        over.map(|why| self.failed(why))
    }

    fn over(&self) -> HostError {
        self.lost()
            .unwrap_or_else(|| self.failed("it answers no more"))
    }

    /// Asks for what is answered by nothing but that it is done.
    pub(crate) fn order(&self, ask: Ask) -> Result<(), HostError> {
        match self.call(ask)? {
            Answer::Done => Ok(()),
            other => Err(self.strange(&other)),
        }
    }

    /// An answer that answers something else.
    pub(crate) fn strange(&self, answer: &Answer) -> HostError {
        let answer = format!("{answer:?}");
        let start: String = answer.chars().take(60).collect();
        self.failed(format!("it answered something else: {start}"))
    }

    pub(crate) fn failed(&self, why: impl std::fmt::Display) -> HostError {
        HostError {
            host: self.host.clone(),
            why: why.to_string(),
        }
    }

    /// How far its clock is ahead now.
    pub fn offset(&self) -> Option<Offset> {
        locked(&self.known).offsets.at(clock::monotonic_ns())
    }

    /// By how much its clock has moved against ours each time that one of the two stood still.
    pub(crate) fn stepped_ns(&self) -> Vec<i64> {
        locked(&self.known).offsets.stepped_ns().to_vec()
    }

    /// The shortest round trip.
    pub fn round_trip(&self) -> Option<Duration> {
        let known = locked(&self.known);
        known.offsets.round_trip_ns().map(Duration::from_nanos)
    }

    /// The last tick of telemetry there, some time within the last seconds.
    pub(crate) fn latest(&self) -> Option<Sample> {
        locked(&self.known).latest.clone()
    }

    fn compare_clocks(&self, ask: Ask) -> Result<(), HostError> {
        let asked_ns = clock::monotonic_ns();
        let answer = self.call(ask)?;
        let answered_ns = clock::monotonic_ns();
        let (there_ns, sample) = match answer {
            Answer::Clock { monotonic_ns } => (monotonic_ns, None),
            Answer::Renewed {
                monotonic_ns,
                sample,
            } => (monotonic_ns, sample),
            other => return Err(self.strange(&other)),
        };
        let mut known = locked(&self.known);
        known.latest = sample.map(|sample| *sample);
        known.offsets.add(RoundTrip {
            asked_ns,
            there_ns,
            answered_ns,
        });
        Ok(())
    }
}

/// Whether an ask holds rows of data, which may be many.
fn has_rows(ask: &Ask) -> bool {
    let (Ask::Drive(order) | Ask::Calibrate { order, .. }) = ask else {
        return false;
    };
    let mix = order.request.mix();
    mix.is_some_and(|mix| !mix.tables.is_empty())
}

/// An answer that is under way.
pub(crate) struct Pending {
    /// Of the request.
    pub(crate) number: u64,
    told: Receiver<Result<Answer, Refusal>>,
}

impl Pending {
    fn within(self, channel: &Channel, patience: Duration) -> Result<Answer, HostError> {
        let asked_ns = clock::monotonic_ns();
        let until_ns = asked_ns.saturating_add(WHOLE_WITHIN.as_nanos() as u64);
        let (mut left, mut heard_ns) = (patience, asked_ns);
        let told = loop {
            let look = left.min(GONE_LOOK_EVERY);
            let told = self.told.recv_timeout(look);
            if told != Err(RecvTimeoutError::Timeout) {
                break told;
            }
            left -= look;
            let came_ns = channel.heard_ns().min(until_ns);
            if channel.has_to_wait(patience) {
                left = patience;
            } else if came_ns > heard_ns {
                heard_ns = came_ns;
                let since = clock::monotonic_ns().saturating_sub(came_ns);
                left = left.max(patience.saturating_sub(Duration::from_nanos(since)));
            }
            if left.is_zero() {
                break told;
            }
        };
        match told {
            Ok(answer) => answer.map_err(|refusal| channel.failed(refusal)),
            Err(RecvTimeoutError::Timeout) => {
                Err(channel.give_up(&format!("nothing was answered within {patience:?}")))
            }
            Err(RecvTimeoutError::Disconnected) => Err(channel.over()),
        }
    }

    /// It, once it came; `None` until then.
    pub(crate) fn came(&self, channel: &Channel) -> Option<Result<Answer, HostError>> {
        match self.told.try_recv() {
            Ok(answer) => Some(answer.map_err(|refusal| channel.failed(refusal))),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(channel.over())),
        }
    }
}

/// Says every second that the controller is there, as long as somebody holds the channel.
fn renew(channel: &Weak<Channel>) {
    loop {
        thread::sleep(RENEW_EVERY);
        let Some(channel) = channel.upgrade() else {
            return;
        };
        if let Err(error) = channel.compare_clocks(Ask::Renew) {
            tracing::warn!(%error, "an agent does not answer");
            if locked(&channel.shared.waiting).over.is_some() {
                return;
            }
        }
    }
}

impl Shared {
    fn listen(&self, mut reader: impl Read, mut frames: Frames, why_over: WhyOver) {
        let mut bytes = vec![0; READ_BYTES];
        let wrong = loop {
            match frames.take::<Said>() {
                Ok(Some(Said::News(news))) => {
                    // Who does not listen does not hear it.
                    if let Some(tell) = &*locked(&self.news) {
                        let _ = tell.send(news);
                    }
                }
                Ok(Some(Said::Reply(reply))) => {
                    let waiting = locked(&self.waiting).by_number.remove(&reply.number);
                    // Who gave up waiting does not hear it.
                    if let Some(tell) = waiting {
                        let _ = tell.try_send(reply.answer);
                    }
                }
                Ok(None) => match reader.read(&mut bytes) {
                    Ok(0) => break None,
                    Ok(read) => {
                        let now_ns = clock::monotonic_ns();
                        self.heard_ns.store(now_ns, Ordering::Relaxed);
                        frames.push(&bytes[..read]);
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => break Some(error.to_string()),
                },
                Err(error) => break Some(error.to_string()),
            }
        };
        let why = wrong.unwrap_or_else(why_over);
        tracing::info!(%why, "a channel is over");
        let mut waiting = locked(&self.waiting);
        waiting.over.get_or_insert(why);
        // Each who waits hears it by the end of its sender.
        waiting.by_number.clear();
        *locked(&self.news) = None;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, PipeWriter, pipe};
    use std::time::Instant;

    use wallfinder_model::Load;
    use wallfinder_model::drive::Share;
    use wallfinder_model::scenario::Io;
    use wallfinder_protocol::{Grant, Greeting, LoadOrder, Reply};
    use wallfinder_wire::Exchange;
    use wallfinder_wire::http1;
    use wallfinder_wire::mix::{Mix, Order, Row, Table};

    use super::*;
    use crate::agent::{self, Log, Permits};

    struct Unheard;

    impl Log for Unheard {
        fn line(&mut self, _: &str) {}
    }

    /// A channel to a peer that reads requests and writes what it likes, from after its greeting on.
    fn to(peer: impl FnOnce(PipeReader, PipeWriter) + Send + 'static) -> Channel {
        let (asked, asks) = pipe().expect("a pipe");
        let (answers, answered) = pipe().expect("a pipe");
        thread::spawn(move || peer(asked, answered));
        let why = Box::new(|| "its pipe ended".to_owned());
        Channel::open("db1", (answers, Frames::default()), asks, why, None).expect("a thread")
    }

    /// The next request that comes.
    fn heard(from: &mut PipeReader, frames: &mut Frames) -> Request {
        loop {
            if let Some(request) = frames.take().expect("a request") {
                return request;
            }
            let mut bytes = [0; 4_096];
            let read = from.read(&mut bytes).expect("a pipe");
            assert!(read > 0, "nothing was asked");
            frames.push(&bytes[..read]);
        }
    }

    fn reply(number: u64, monotonic_ns: u64) -> Vec<u8> {
        let answer = Ok(Answer::Clock { monotonic_ns });
        frame(&Said::Reply(Reply { number, answer })).expect("a frame")
    }

    #[test]
    fn an_agent_on_the_other_end_has_the_same_clock_within_the_error_and_grants_what_it_was_given()
    {
        let (asked, asks) = pipe().expect("a pipe");
        let (mut answers, answered) = pipe().expect("a pipe");
        thread::spawn(move || {
            agent::serve(asked, answered, Permits::of([Grant::Observe]), &mut Unheard)
        });
        let mut greeting = Greeting::default();
        let frames = loop {
            let mut byte = [0];
            assert_eq!(answers.read(&mut byte).expect("a greeting"), 1);
            if let Some(frames) = greeting.push(&byte).expect("a greeting") {
                break frames;
            }
        };
        let why = Box::new(|| "its pipe ended".to_owned());
        let channel = Channel::open("db1", (answers, frames), asks, why, None).expect("a thread");
        let channel = channel.keep(1).expect("it answers");
        let offset = channel.offset().expect("round trips were made");
        assert!(offset.ns.unsigned_abs() <= offset.error_ns, "{offset:?}");
        let refused = channel.call(Ask::Release).expect_err("it is not granted");
        assert!(refused.to_string().contains("db1: "), "{refused}");
        assert!(refused.why.contains("`squeeze`"), "{refused}");
        assert!(matches!(channel.call(Ask::Times), Ok(Answer::Times(_))));
    }

    #[test]
    fn replies_of_others_and_replies_twice_are_passed_over() {
        let channel = to(|mut asked, mut answered| {
            let mut frames = Frames::default();
            for _ in 0..2 {
                let number = heard(&mut asked, &mut frames).number;
                for bytes in [
                    reply(number + 40, 1),
                    reply(number, number),
                    reply(number, 3),
                ] {
                    answered.write_all(&bytes).expect("a pipe");
                }
            }
        });
        for number in 1..=2 {
            let answer = channel.call(Ask::Clock).expect("an answer");
            let monotonic_ns = number;
            assert_eq!(answer, Answer::Clock { monotonic_ns });
        }
    }

    #[test]
    fn a_channel_that_is_cut_within_a_frame_fails_all_who_wait_and_all_who_come() {
        for cut in [0, 3, 4, 20] {
            let channel = to(move |mut asked, mut answered| {
                let request = heard(&mut asked, &mut Frames::default());
                let bytes = reply(request.number, 7);
                answered.write_all(&bytes[..cut]).expect("a pipe");
            });
            let began = Instant::now();
            for _ in 0..2 {
                let why = channel.call(Ask::Clock).expect_err("it is cut").to_string();
                assert_eq!(why, "db1: its pipe ended", "after {cut} bytes");
            }
            assert!(
                began.elapsed() < PATIENCE,
                "nobody waits for what cannot come"
            );
        }
    }

    #[test]
    fn an_agent_that_does_not_answer_in_time_hears_the_end_of_its_input() {
        let (tell, told) = std::sync::mpsc::channel();
        let channel = to(move |mut asked, answered| {
            let mut rest = Vec::new();
            let _ = tell.send(asked.read_to_end(&mut rest).map(|_| answered));
        });
        let asked = channel.ask(Ask::Clock).expect("it is there");
        let patience = Duration::from_millis(50);
        let late = asked.within(&channel, patience).expect_err("no answer");
        assert!(late.why.contains("within 50ms"), "{late}");
        let ended = told.recv_timeout(PATIENCE).expect("its input ends");
        assert!(ended.is_ok());
        assert_eq!(channel.call(Ask::Clock), Err(late), "nobody waits again");
    }

    #[test]
    fn an_answer_that_comes_piece_by_piece_is_waited_for() {
        const PIECES: usize = 20;
        const PAUSE: Duration = Duration::from_millis(60);
        let channel = to(|mut asked, mut answered| {
            let request = heard(&mut asked, &mut Frames::default());
            let bytes = reply(request.number, 7);
            for piece in bytes.chunks(bytes.len().div_ceil(PIECES)) {
                thread::sleep(PAUSE);
                answered.write_all(piece).expect("a pipe");
            }
        });
        let began = Instant::now();
        let asked = channel.ask(Ask::Clock).expect("it is there");
        let patience = 10 * PAUSE;
        let answer = asked.within(&channel, patience).expect("it comes");
        assert_eq!(answer, Answer::Clock { monotonic_ns: 7 });
        assert!(began.elapsed() > patience);
    }

    /// An order whose rows fill a pipe several times.
    fn order_with_rows() -> Ask {
        let mut mix = Mix::of_requests([("a", 1, http1::Request::get("test", "/"))]);
        mix.tables.push(Table {
            name: "rows".to_owned(),
            order: Order::InOrder,
            columns: vec!["n".to_owned()],
            cells: vec![Row(vec![vec![b'x'; 1 << 20]])].into(),
        });
        Ask::Drive(Box::new(LoadOrder {
            load: Load::closed(1),
            share: Share::WHOLE,
            slots: None,
            address: ([127, 0, 0, 1], 9).into(),
            request: Exchange::Mix(Box::new(mix)),
            tls: None,
            cpus: Vec::new(),
            io: Io::Auto,
            seed: 1,
            spare_connections: 0,
            standby_connections: 0,
            paddings: Vec::new(),
            under_quota: false,
            keeps: false,
        }))
    }

    #[test]
    fn orders_with_rows_of_data_are_sent_to_one_host_after_the_other() {
        let (begins, begun) = std::sync::mpsc::channel();
        let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
        let first = to(move |mut asked, _answered| {
            asked.read_exact(&mut [0]).expect("an order begins");
            begins.send(()).expect("the test listens");
            goes_on.recv().expect("the test lets it go on");
            let _ = std::io::copy(&mut asked, &mut std::io::sink());
        });
        let (came, comes) = std::sync::mpsc::channel();
        let second = to(move |mut asked, _answered| {
            asked.read_exact(&mut [0]).expect("an order begins");
            came.send(()).expect("the test listens");
            let _ = std::io::copy(&mut asked, &mut std::io::sink());
        });
        thread::scope(|scope| {
            let (first, second) = (&first, &second);
            scope.spawn(move || first.ask(order_with_rows()).expect("it is there"));
            begun.recv_timeout(PATIENCE).expect("the first is told");
            scope.spawn(move || second.ask(order_with_rows()).expect("it is there"));
            let early = comes.recv_timeout(Duration::from_millis(300));
            go_on.send(()).expect("it waits");
            assert!(early.is_err(), "both were told at once");
            comes.recv_timeout(PATIENCE).expect("the second is told");
        });
    }

    #[test]
    fn what_is_no_message_ends_a_channel_and_says_so() {
        let channel = to(|mut asked, mut answered| {
            heard(&mut asked, &mut Frames::default());
            answered
                .write_all(&[0, 0, 0, 2, b'{', b'x'])
                .expect("a pipe");
        });
        let why = channel.call(Ask::Clock).expect_err("it is none");
        assert!(why.why.contains("no message of this protocol"), "{why}");
    }
}
