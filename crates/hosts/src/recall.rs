//! Results of a load that were measured and not heard: they are asked for again, over a session of its own, and
//! forgotten there once they are on disk here.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use wallfinder_model::drive::Measured;
use wallfinder_protocol::{Answer, Ask};

use crate::reached::{Again, Agent};
use crate::{Channel, HostError};

/// How long the way there may be gone.
const AGAIN_WITHIN: Duration = Duration::from_secs(60);
/// The pause before it is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// What is kept at one agent for a controller.
#[derive(Clone, Default)]
pub(crate) struct Recall {
    again: Option<Again>,
    /// What results of the session are called there; `None`: none are kept.
    session: Option<String>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    /// Results that were heard, and are not known to be on disk here.
    heard: Vec<String>,
    /// The agent that was reached again.
    anew: Option<Agent>,
}

impl std::fmt::Debug for Recall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recall({:?})", self.session)
    }
}

impl Recall {
    pub(crate) fn of(agent: &Agent) -> Recall {
        Recall {
            again: agent.again(),
            session: agent.welcome().keeps.clone(),
            shared: Arc::default(),
        }
    }

    /// The result of this request was heard.
    pub(crate) fn heard(&self, number: u64) {
        if let Some(session) = &self.session {
            self.shared().heard.push(format!("{session}-{number}"));
        }
    }

    /// The result of this request, whose answer was `lost`, until it is `given_up`.
    pub(crate) fn result(
        &self,
        number: u64,
        lost: HostError,
        given_up: impl Fn() -> bool,
    ) -> Result<Measured, HostError> {
        let (Some(session), Some(again)) = (&self.session, &self.again) else {
            return Err(lost);
        };
        let key = format!("{session}-{number}");
        tracing::warn!(%lost, "a result is asked for again");
        let since = Instant::now();
        while since.elapsed() < AGAIN_WITHIN && !given_up() {
            let agent = match again() {
                Ok(agent) => agent,
                Err(error) => {
                    tracing::info!(%error, "not there yet");
                    thread::sleep(PAUSE);
                    continue;
                }
            };
            loop {
                let asked = agent.channel().call(Ask::Recall { key: key.clone() });
                match asked {
                    Ok(Answer::Measured(measured)) => {
                        self.shared().anew = Some(agent);
                        return Ok(*measured);
                    }
                    // Its session there does not know yet that it is over.
                    Ok(Answer::UnderWay) if since.elapsed() < AGAIN_WITHIN && !given_up() => {
                        thread::sleep(PAUSE);
                    }
                    _ => break,
                }
            }
            if agent.channel().lost().is_none() {
                // It is there, and has none: the load never ended there.
                return Err(lost);
            }
        }
        Err(lost)
    }

    /// What was heard is on disk here.
    pub(crate) fn forget(&self, channel: &Channel) {
        let mut shared = self.shared();
        let heard = std::mem::take(&mut shared.heard);
        if heard.is_empty() {
            return;
        }
        if let Some(again) = &self.again
            && shared.anew.is_none()
            && channel.lost().is_some()
        {
            shared.anew = again().ok();
        }
        let anew = shared.anew.as_ref().map(Agent::channel);
        let channel = anew.as_deref().unwrap_or(channel);
        for key in heard {
            if let Err(error) = channel.order(Ask::Forget { key }) {
                // It goes there when others take its room.
                tracing::info!(%error, "a result stays with its agent");
                return;
            }
        }
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
