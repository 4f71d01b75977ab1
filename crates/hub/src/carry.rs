//! One session over the hub: what is to be said goes out as numbered messages, what comes is handed on in order.
//!
//! Its end is that of both streams, the wish of who closes it, silence, or an end that does not know the session. While the
//! hub cannot be reached nothing can be heard, and that is no silence: a session outlasts it by [`AWAY_MAX`]. It ends at once
//! where the hub refuses who dials.

use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use wallfinder_protocol::AWAY_MAX;
use wallfinder_protocol::stream::{Came, Stream};
use wallfinder_sys::clock;

use crate::credentials::CONNECT_WAIT_MAX;
use crate::line::Reached;
use crate::order::{self, Sent};

/// Pieces that wait on either side of a session.
pub(crate) const WAITING_MAX: usize = 16;
/// Messages that wait to be taken apart; one that finds no room is sent again by the other end.
pub(crate) const MESSAGES_MAX: usize = 64;
/// How long the other end may take to hear that a session is closed.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(1);
/// The hub was away: the other end may dial it as long, and be heard after that.
const BACK_WAIT_MAX: Duration = CONNECT_WAIT_MAX.saturating_add(Duration::from_secs(3));
/// A session is looked at so often at the least.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two looks no more passes while this end runs: there are a pause of [`LOOK_EVERY`] and waits for the library's
/// queue. What does was a pause of this end, or of its machine.
const BETWEEN_LOOKS_MAX: Duration = Duration::from_secs(3);
/// How often who does not read is asked whether there is room again.
const FULL_LOOK_EVERY: Duration = Duration::from_millis(5);

/// What goes through a session.
pub(crate) struct Ends {
    /// Messages of the other end.
    pub(crate) messages: Receiver<Vec<u8>>,
    /// What is to be said; its end is the end of what is said.
    pub(crate) said: Receiver<Vec<u8>>,
    /// What was heard.
    pub(crate) heard: Sender<Vec<u8>>,
    /// Its end is the wish to close.
    pub(crate) close: oneshot::Receiver<()>,
    /// How the hub was reached.
    pub(crate) reached: watch::Receiver<Reached>,
    /// The other end may be silent for so long while the hub is reached.
    pub(crate) silence_max: Duration,
}

/// The end of a session.
pub(crate) struct Over {
    /// Why, where that is no order of ours or of the other end.
    pub(crate) why: Option<String>,
    /// Whoever reads learns of the end by the end of this: of its reason first.
    _heard: Option<Sender<Vec<u8>>>,
}

impl Over {
    /// It never began.
    pub(crate) fn because(why: String, heard: Sender<Vec<u8>>) -> Over {
        Over {
            why: Some(why),
            _heard: Some(heard),
        }
    }
}

/// Carries a session until it is over.
pub(crate) async fn carry(client: &Client, to: String, ends: Ends) -> Over {
    let mut heard = None;
    let why = carried(client, to, ends, &mut heard).await;
    Over { why, _heard: heard }
}

async fn carried(
    client: &Client,
    to: String,
    ends: Ends,
    heard: &mut Option<Sender<Vec<u8>>>,
) -> Option<String> {
    let Ends {
        mut messages,
        mut said,
        heard: hears,
        mut close,
        mut reached,
        silence_max,
    } = ends;
    *heard = Some(hears);
    let mut stream = Stream::default();
    // The first message opens the session, whatever it holds.
    stream.push(Vec::new());
    let mut says_more = true;
    let mut closing_ns: Option<u64> = None;
    let mut silence = Silence::from(clock::boottime_ns(), silence_max);
    let mut away_ns: Option<u64> = None;
    loop {
        let now_ns = clock::boottime_ns();
        silence.look(now_ns);
        let beyond = |since_ns: u64, most: Duration| {
            Duration::from_nanos(now_ns.saturating_sub(since_ns)) > most
        };
        let is_closed = closing_ns.is_some_and(|since_ns| beyond(since_ns, CLOSE_WAIT_MAX));
        let is_connected = client.connection_state() == State::Connected;
        if reached.borrow().is_refused {
            return Some("the hub refuses this identity: it was taken back".to_owned());
        }
        match away_ns {
            Some(since_ns) if is_connected => {
                tracing::info!(
                    away_ms = now_ns.saturating_sub(since_ns) / 1_000_000,
                    "the hub is reached again"
                );
                away_ns = None;
                silence = Silence::from(now_ns, silence_max.max(BACK_WAIT_MAX));
            }
            Some(since_ns) if beyond(since_ns, AWAY_MAX) => {
                return Some(format!("the hub was not reached for {AWAY_MAX:?}"));
            }
            None if !is_connected => away_ns = Some(now_ns),
            None if silence.is_over() => {
                return Some(format!(
                    "nothing came over the hub for {:?}: the other end is gone",
                    silence.most
                ));
            }
            Some(_) | None => {}
        }
        let is_full = handed_on(&mut stream, heard, closing_ns.is_some());
        if is_connected {
            while let Some(message) = stream.poll_transmit(clock::boottime_ns()) {
                match order::publish(client, to.clone(), message).await {
                    Sent::Out => {}
                    // It counts as sent, and lost: it is sent again in its time.
                    Sent::NoRoom => break,
                    Sent::Closed => return Some("the way to the hub is closed".to_owned()),
                }
            }
        }
        if stream.is_over() || is_closed {
            // The other end waits for the last word.
            let _ = timeout(CLOSE_WAIT_MAX, client.flush()).await;
            return None;
        }
        let look = match is_full {
            true => FULL_LOOK_EVERY,
            // What is due waits until the hub is reached again, which is told.
            false if !is_connected => LOOK_EVERY,
            false => stream.time_to_look().map_or(LOOK_EVERY, |at_ns| {
                Duration::from_nanos(at_ns.saturating_sub(clock::boottime_ns())).min(LOOK_EVERY)
            }),
        };
        tokio::select! {
            message = messages.recv() => {
                let Some(message) = message else {
                    return Some("the way to the hub is closed".to_owned());
                };
                let now_ns = clock::boottime_ns();
                silence = Silence::from(now_ns, silence_max);
                if let Err(error) = stream.handle_message(now_ns, &message) {
                    return Some(error.to_string());
                }
            }
            bytes = said.recv(), if says_more && stream.has_room() => match bytes {
                Some(bytes) => stream.push_on(bytes),
                None => {
                    says_more = false;
                    stream.end();
                }
            },
            _ = &mut close, if closing_ns.is_none() => {
                closing_ns = Some(clock::boottime_ns());
                says_more = false;
                stream.end();
            }
            Ok(()) = reached.changed() => stream.resend(),
            () = sleep(look) => {}
        }
    }
}

/// For how long nothing came while this end looked.
struct Silence {
    looked_ns: u64,
    lasted: Duration,
    /// The longest that it may be.
    most: Duration,
}

impl Silence {
    /// Something came, or could come, from this instant on.
    fn from(now_ns: u64, most: Duration) -> Silence {
        Silence {
            looked_ns: now_ns,
            lasted: Duration::ZERO,
            most,
        }
    }

    /// Nothing came since the last look. Time in which this end stood still is none of the other's silence: what came
    /// then has not been read.
    fn look(&mut self, now_ns: u64) {
        let passed = Duration::from_nanos(now_ns.saturating_sub(self.looked_ns));
        if passed <= BETWEEN_LOOKS_MAX {
            self.lasted += passed;
        }
        self.looked_ns = now_ns;
    }

    fn is_over(&self) -> bool {
        self.lasted > self.most
    }
}

/// Hands on what has come. Whether who reads it has no room.
fn handed_on(stream: &mut Stream, heard: &mut Option<Sender<Vec<u8>>>, is_closing: bool) -> bool {
    while stream.has_come() {
        let room = match heard {
            Some(heard) if !is_closing => match heard.try_reserve() {
                Ok(room) => Some(room),
                Err(tokio::sync::mpsc::error::TrySendError::Full(())) => return true,
                // Who read is gone: what comes is heard by nobody.
                Err(tokio::sync::mpsc::error::TrySendError::Closed(())) => None,
            },
            _ => None,
        };
        match stream.poll_bytes() {
            Some(Came::Bytes(bytes)) => {
                if let Some(room) = room
                    && !bytes.is_empty()
                {
                    room.send(bytes);
                }
            }
            Some(Came::End) => {
                drop(room);
                *heard = None;
                // Who hears no more has nothing more to say.
                stream.end();
            }
            None => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_this_end_stood_still_is_no_silence_of_the_other() {
        let after = |ms: u64| ms * 1_000_000;
        let mut silence = Silence::from(after(0), Duration::from_secs(6));
        (1..=5).for_each(|second| silence.look(after(1_000 * second)));
        // Stopped, or on a machine that slept.
        silence.look(after(65_000));
        assert!(!silence.is_over(), "what came meanwhile is not read");
        silence.look(after(66_000));
        assert!(!silence.is_over());
        silence.look(after(66_001));
        assert!(silence.is_over(), "and it is still silent");
    }
}
