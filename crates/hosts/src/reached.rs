//! An agent of another host, whichever way it was reached: its channel, and what it said of itself.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use wallfinder_model::Nanos;
use wallfinder_protocol::{Answer, Ask, Frames, Hello, VERSION, Welcome};

use crate::channel::{Away, Channel, HostError, WhyOver};

/// An agent that greeted and welcomed a controller. Dropping it ends what reached it, and with it what it holds there.
pub struct Agent {
    channel: Arc<Channel>,
    welcome: Welcome,
    kept: Box<dyn Kept>,
    again: Option<Again>,
}

/// Reaches an agent once more, in a session of its own.
pub type Again = Arc<dyn Fn() -> Result<Agent, HostError> + Send + Sync>;

/// What a way to an agent is kept open by. Dropping it ends the way, and waits a moment until the agent knows.
pub trait Kept: Send + Sync {
    /// Begins to end it: whoever ends many begins with each, and then drops them.
    fn end(&self) {}
}

/// What reaches an agent.
pub struct Way {
    /// Ends it when it is dropped.
    pub kept: Box<dyn Kept>,
    /// Says why nothing more is read.
    pub why_over: WhyOver,
    /// Where it may be gone for a while.
    pub away: Option<Away>,
}

impl Agent {
    /// Says hello over what is read and written. `frames` holds what came with the agent's greeting.
    pub fn greeted(
        host: &str,
        controller: &str,
        (reader, frames): (impl Read + Send + 'static, Frames),
        writer: impl Write + Send + 'static,
        way: Way,
    ) -> Result<Agent, HostError> {
        let Way {
            kept,
            why_over,
            away,
        } = way;
        let most = away.as_ref().map_or(Duration::ZERO, |away| away.most);
        let channel = Channel::open(host, (reader, frames), writer, why_over, away)?;
        let version = env!("CARGO_PKG_VERSION");
        let hello = Hello {
            protocol: VERSION,
            version: version.to_owned(),
            controller: controller.to_owned(),
            away: Nanos(most.as_nanos() as u64),
        };
        let welcome = match channel.call(Ask::Hello(hello))? {
            Answer::Welcome(welcome) => welcome,
            other => return Err(channel.strange(&other)),
        };
        if welcome.protocol != VERSION {
            return Err(channel.failed(format!(
                "the agent there is Wallfinder {} and speaks protocol {}, this is {version} with protocol {VERSION}: \
                 install the same version on both, or remove the one that a forced command or a service names",
                welcome.version, welcome.protocol
            )));
        }
        Ok(Agent {
            channel: channel.keep(welcome.epoch)?,
            welcome,
            kept,
            again: None,
        })
    }

    /// The same, which can be reached again when its session is over.
    pub fn with_again(self, again: Again) -> Agent {
        Agent {
            again: Some(again),
            ..self
        }
    }

    /// How to reach it once more, where that is known.
    pub(crate) fn again(&self) -> Option<Again> {
        self.again.clone()
    }

    /// Begins to end what reached it; dropping it waits until that has ended.
    pub fn end(&self) {
        self.kept.end();
    }

    /// The channel to it.
    pub fn channel(&self) -> Arc<Channel> {
        Arc::clone(&self.channel)
    }

    /// What it said of itself.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("channel", &self.channel)
            .field("welcome", &self.welcome)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::pipe;
    use std::thread;

    use wallfinder_protocol::{Reply, Request, Said, frame};

    use super::*;

    struct Nothing;

    impl Kept for Nothing {}

    /// The next request that comes.
    fn heard(from: &mut impl Read) -> Request {
        let (mut frames, mut bytes) = (Frames::default(), [0; 4_096]);
        loop {
            if let Some(request) = frames.take().expect("a request") {
                return request;
            }
            let read = from.read(&mut bytes).expect("a pipe");
            assert!(read > 0, "nothing was asked");
            frames.push(&bytes[..read]);
        }
    }

    #[test]
    fn an_agent_of_another_protocol_is_refused_with_the_way_out() {
        let (mut asked, asks) = pipe().expect("a pipe");
        let (answers, mut answered) = pipe().expect("a pipe");
        let other = thread::spawn(move || {
            let welcome = Welcome {
                protocol: VERSION + 1,
                version: "9.9.9".to_owned(),
                grants: Vec::new(),
                epoch: 1,
                keeps: None,
                host: "h1".to_owned(),
                pid: 1,
                is_root: false,
                cpus: Vec::new(),
                subjects: Vec::new(),
            };
            let Request { number, ask, .. } = heard(&mut asked);
            let answer = Ok(Answer::Welcome(welcome));
            let reply = frame(&Said::Reply(Reply { number, answer })).expect("a frame");
            answered.write_all(&reply).expect("a pipe");
            ask
        });
        let way = Way {
            kept: Box::new(Nothing),
            why_over: Box::new(|| "its pipe ended".to_owned()),
            away: None,
        };
        let over = (answers, Frames::default());
        let refused = Agent::greeted("db1", "this test", over, asks, way);
        let refused = refused.expect_err("it speaks another protocol");
        assert_eq!(refused.host, "db1");
        let (version, theirs) = (env!("CARGO_PKG_VERSION"), VERSION + 1);
        let said = format!(
            "is Wallfinder 9.9.9 and speaks protocol {theirs}, this is {version} with protocol {VERSION}"
        );
        assert!(refused.why.contains(&said), "{refused}");
        let way_out = "install the same version on both";
        assert!(refused.why.contains(way_out), "{refused}");
        // The agent was told as well who asks.
        let asked = other.join().expect("nobody panics");
        assert!(
            matches!(&asked, Ask::Hello(hello) if hello.protocol == VERSION && hello.version == version),
            "{asked:?}"
        );
    }
}
