//! Credit: how much may be sent to the server, and when it says so. The words, the rules and
//! the errors stand in `docs/framed-credit.md`; the Go echo speaks the same.
//!
//! ```text
//!   0… length of the message behind it        1… grant of so many bytes (server to client)
//! ```

use std::fmt;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most that may be granted and not be used yet.
pub const BYTES_MAX: u32 = MARK - 1;
/// The bit that makes a word a grant.
const MARK: u32 = 1 << 31;

/// How a server grants.
#[derive(Debug, Clone, Default)]
pub enum Policy {
    /// No credit is spoken.
    #[default]
    Silent,
    /// So many bytes for each connection.
    Window(u32),
    /// So many for all connections together, first come, first served.
    Shared {
        /// What there is.
        total: u32,
        /// What is left of it.
        left: Arc<Semaphore>,
    },
}

impl Policy {
    /// A budget for all connections.
    pub fn shared(total: u32) -> Policy {
        Policy::Shared {
            total,
            left: Arc::new(Semaphore::new(total as usize)),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Silent => Ok(()),
            Policy::Window(bytes) => write!(f, "{bytes} for each connection"),
            Policy::Shared { total, .. } => write!(f, "{total} for all"),
        }
    }
}

/// The receiving end of one connection. What it holds of a budget goes back with it.
#[derive(Debug)]
pub struct Receiver {
    policy: Policy,
    /// Granted, and not read.
    outstanding: usize,
    /// Read, and not granted again.
    owed: u32,
    held: Option<OwnedSemaphorePermit>,
}

impl Receiver {
    /// Begins a connection, with the first grant.
    pub async fn begin(
        policy: Policy,
        stream: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<Receiver> {
        let mut receiver = Receiver {
            outstanding: 0,
            owed: 0,
            held: None,
            policy,
        };
        match receiver.policy {
            Policy::Silent => {}
            Policy::Window(window) => receiver.grant(stream, window).await?,
            Policy::Shared { .. } => receiver.grant(stream, 0).await?,
        }
        Ok(receiver)
    }

    async fn grant(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        bytes: u32,
    ) -> io::Result<()> {
        self.outstanding += bytes as usize;
        stream.write_all(&(MARK | bytes).to_be_bytes()).await
    }

    /// Reads a message whose length has come, and grants what it lacks.
    pub async fn read(
        &mut self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        message: &mut [u8],
    ) -> io::Result<()> {
        match &self.policy {
            Policy::Window(window) => return self.read_window(*window, stream, message).await,
            Policy::Shared { total, left } if !message.is_empty() => {
                let wanted = message.len() as u32;
                let turn = Arc::clone(left)
                    .acquire_many_owned(wanted.min(*total))
                    .await;
                self.held = Some(turn.map_err(io::Error::other)?);
                self.grant(stream, wanted).await?;
                self.outstanding = 0;
            }
            Policy::Shared { .. } | Policy::Silent => {}
        }
        stream.read_exact(message).await?;
        Ok(())
    }

    async fn read_window(
        &mut self,
        window: u32,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        message: &mut [u8],
    ) -> io::Result<()> {
        let mut at = 0;
        while at < message.len() {
            // One more than may come: then what came too early is seen.
            let end = message.len().min(at + self.outstanding + 1);
            let count = stream.read(&mut message[at..end]).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if count > self.outstanding {
                return Err(io::ErrorKind::InvalidData.into());
            }
            at += count;
            self.outstanding -= count;
            self.owed += count as u32;
            let is_due = self.owed >= window.div_ceil(2) || self.outstanding == 0;
            if at < message.len() && is_due {
                let owed = std::mem::take(&mut self.owed);
                self.grant(stream, owed).await?;
            }
        }
        Ok(())
    }

    /// Appends a grant of what has been read, if there is any to give back: it travels in
    /// front of the answer.
    pub fn append_owed(&mut self, into: &mut Vec<u8>) {
        if self.owed > 0 {
            let owed = std::mem::take(&mut self.owed);
            self.outstanding += owed as usize;
            into.extend_from_slice(&(MARK | owed).to_be_bytes());
        }
    }

    /// Gives back what the last message took out of the budget.
    pub fn answered(&mut self) {
        self.held = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(test)
    }

    async fn word(stream: &mut (impl AsyncRead + Unpin)) -> u32 {
        stream.read_u32().await.expect("a word")
    }

    #[test]
    fn a_window_is_granted_and_given_back_in_front_of_the_answer() {
        run(async {
            let (mut client, mut server) = duplex(1 << 17);
            let mut receiver = Receiver::begin(Policy::Window(65_536), &mut server)
                .await
                .unwrap();
            assert_eq!(word(&mut client).await, 0x8001_0000);
            client.write_all(&[7; 94]).await.unwrap();
            let mut message = [0; 94];
            receiver.read(&mut server, &mut message).await.unwrap();
            assert_eq!(message, [7; 94]);
            let mut answer = Vec::new();
            receiver.append_owed(&mut answer);
            receiver.append_owed(&mut answer);
            assert_eq!(answer, [0x80, 0, 0, 94]);
        });
    }

    #[test]
    fn within_a_long_message_half_a_window_is_given_back_at_a_time() {
        run(async {
            let (mut client, mut server) = duplex(1 << 10);
            let mut receiver = Receiver::begin(Policy::Window(10), &mut server)
                .await
                .unwrap();
            assert_eq!(word(&mut client).await, 0x8000_000a);
            client.write_all(&[1; 10]).await.unwrap();
            let reads = tokio::spawn(async move {
                let mut message = [0; 15];
                receiver.read(&mut server, &mut message).await.unwrap();
                (receiver, message)
            });
            assert_eq!(word(&mut client).await, 0x8000_000a);
            client.write_all(&[2; 5]).await.unwrap();
            let (mut receiver, message) = reads.await.unwrap();
            assert_eq!((message[9], message[10]), (1, 2));
            let mut answer = Vec::new();
            receiver.append_owed(&mut answer);
            assert_eq!(answer, [0x80, 0, 0, 5]);
        });
    }

    #[test]
    fn bytes_without_credit_are_seen() {
        run(async {
            let (mut client, mut server) = duplex(1 << 10);
            let mut receiver = Receiver::begin(Policy::Window(10), &mut server)
                .await
                .unwrap();
            client.write_all(&[1; 11]).await.unwrap();
            let read = receiver.read(&mut server, &mut [0; 15]).await;
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::InvalidData);
        });
    }

    #[test]
    fn a_budget_is_for_one_after_the_other() {
        run(async {
            let policy = Policy::shared(100);
            let left = |policy: &Policy| match policy {
                Policy::Shared { left, .. } => left.available_permits(),
                _ => 0,
            };
            let (mut client, mut server) = duplex(1 << 10);
            let mut first = Receiver::begin(policy.clone(), &mut server).await.unwrap();
            assert_eq!(word(&mut client).await, 0x8000_0000);
            client.write_all(&[1; 60]).await.unwrap();
            first.read(&mut server, &mut [0; 60]).await.unwrap();
            assert_eq!(word(&mut client).await, 0x8000_0000 | 60);
            assert_eq!(left(&policy), 40);
            // One that is longer than all waits for all of it.
            let (mut other, mut end) = duplex(1 << 10);
            let mut second = Receiver::begin(policy.clone(), &mut end).await.unwrap();
            other.write_all(&[2; 500]).await.unwrap();
            let reads = tokio::spawn(async move {
                second.read(&mut end, &mut [0; 500]).await.unwrap();
                second
            });
            tokio::task::yield_now().await;
            assert!(!reads.is_finished());
            first.answered();
            let second = reads.await.unwrap();
            assert_eq!(word(&mut other).await, 0x8000_0000);
            assert_eq!(word(&mut other).await, 0x8000_0000 | 500);
            assert_eq!(left(&policy), 0);
            drop(second);
            assert_eq!(left(&policy), 100);
        });
    }
}
