//! TLS under any other wire, by `rustls`: records in, records out.
//!
//! ```text
//!   worker ──issue──► W ──plain bytes──► [ Tls<W> ] ──records──► socket
//!        ◄─outcome──   ◄──────────────             ◄──────────
//! ```
//!
//! The handshake comes before the first request: until it is done the wire has no room, and
//! [`Wire::is_ready`] says so. Nothing is verified here but by the library; what is trusted
//! stands in [`Options`].
//!
//! The one exception to what this crate promises: handshakes and records allocate, inside of
//! the library, and verification asks the system's clock what day it is.

mod client;
mod double;
mod greeting;
mod sessions;

pub use client::{BadOptions, Client, GROUPS, Identity, Options, Trust, Version};
pub use double::{Double, DoubleSession};
pub use greeting::{Greeting, Refused, Spoken};

use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError,
    UnbufferedStatus,
};

use crate::mix::{Ask, Looked, Values};
use crate::{Outcome, Transmit, Wire, WireError};

/// Room for what a handshake and its alerts send: a key share, perhaps a chain of
/// certificates.
const FLIGHT_BYTES: usize = 32 * 1024;
/// Most plain bytes of a record (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 16 * 1024;
/// Most bytes that a record adds to what it carries: head, explicit nonce, type and tag.
const RECORD_EXTRA: usize = 64;

/// What the connections of one worker share.
#[derive(Debug)]
pub struct Shared<S> {
    inner: S,
    client: Client,
    /// Room that the inner wire needs for bytes of its own.
    plain_bytes: usize,
    /// The first thing that went wrong, in the library's words.
    fault: Option<String>,
    handshakes: Handshakes,
}

/// How connections began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handshakes {
    /// With certificates, from the beginning.
    pub full: u64,
    /// By what an earlier connection had left.
    pub resumed: u64,
}

impl<S> Shared<S> {
    /// `plain_bytes`: room that the wire inside needs where it writes bytes of its own. Sessions
    /// are resumed among the connections that share this, and with nobody else.
    pub fn new(inner: S, client: &Client, plain_bytes: usize) -> Shared<S> {
        Shared {
            inner,
            client: client.with_sessions_of_its_own(),
            plain_bytes,
            fault: None,
            handshakes: Handshakes::default(),
        }
    }

    /// What the wire inside shares.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// The first thing that went wrong under the wire inside, in words.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Room that [`Wire::write`] needs.
    pub fn write_bytes(&self) -> usize {
        let plain = self.plain_bytes.max(4 * RECORD_BYTES);
        FLIGHT_BYTES + plain + (plain / RECORD_BYTES + 1) * RECORD_EXTRA + self.plain_bytes
    }

    /// How connections began.
    pub fn handshakes(&self) -> Handshakes {
        self.handshakes
    }
}

/// One connection.
pub struct Tls<W> {
    wire: W,
    /// `None` until the first bytes are asked for.
    session: Option<UnbufferedClientConnection>,
    ready: bool,
    /// Records not yet read, from `unread`.
    incoming: Vec<u8>,
    unread: usize,
    /// Plain bytes that the wire inside has not taken yet, from `untaken`.
    plain: Vec<u8>,
    untaken: usize,
    /// What the library wants to send beside what is asked of it.
    outgoing: Vec<u8>,
    told: Option<Outcome>,
    /// The last byte given was read already, and is to be given again.
    holds_one: bool,
    /// The peer said that nothing more comes.
    is_closed: bool,
    is_broken: bool,
}

impl<W: std::fmt::Debug> std::fmt::Debug for Tls<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The library's own state holds keys, and shows none of itself.
        f.debug_struct("Tls")
            .field("wire", &self.wire)
            .field("ready", &self.ready)
            .field("is_closed", &self.is_closed)
            .field("is_broken", &self.is_broken)
            .finish_non_exhaustive()
    }
}

/// Whether everything that came has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    All,
    /// An outcome came first.
    Stopped,
}

impl<W: Wire> Tls<W> {
    /// Reads records, and lets the wire inside take what they carry, up to its first outcome.
    fn read(&mut self, shared: &mut Shared<W::Shared>) -> Result<Read, rustls::Error> {
        let Tls {
            wire,
            session,
            incoming,
            plain,
            outgoing,
            ..
        } = self;
        let session = session.get_or_insert_with(|| shared.client.begin());
        loop {
            while self.untaken < plain.len() {
                self.untaken += wire.handle_bytes(&mut shared.inner, &plain[self.untaken..]);
                self.told = wire.poll_outcome();
                if self.told.is_some() {
                    return Ok(Read::Stopped);
                }
            }
            plain.clear();
            self.untaken = 0;
            let UnbufferedStatus { discard, state } =
                session.process_tls_records(&mut incoming[self.unread..]);
            let state = state.inspect_err(|_| self.unread += discard)?;
            match state {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        plain.extend_from_slice(record?.payload);
                    }
                }
                ConnectionState::EncodeTlsData(data) => encode(data, outgoing)?,
                // It goes out in the order in which it was encoded.
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => self.is_closed = true,
                ConnectionState::WriteTraffic(_) => {
                    self.unread += discard;
                    if !self.ready {
                        self.ready = true;
                        shared.handshakes.count(session.handshake_kind());
                    }
                    return Ok(Read::All);
                }
                ConnectionState::BlockedHandshake | ConnectionState::Closed => {
                    self.unread += discard;
                    return Ok(Read::All);
                }
                other => unreachable!("a client without early data is never in {other:?}"),
            }
            self.unread += discard;
        }
    }

    /// The connection is of no more use: says so, and has the peer told why.
    fn fail(&mut self, shared: &mut Shared<W::Shared>, error: &rustls::Error) {
        self.is_broken = true;
        shared.fault.get_or_insert_with(|| error.to_string());
        // The library has an alert to send, if it was not the peer who sent one. It is asked
        // for nothing else any more: what broke it would be read again.
        if let Some(session) = &mut self.session {
            collect(
                session,
                &mut self.incoming[self.unread..],
                &mut self.outgoing,
            );
        }
        self.told = Some(Outcome::Broken {
            slot: self.wire.answering(),
            error: match self.ready {
                true => WireError::TlsRecord,
                false => WireError::TlsHandshake,
            },
        });
    }

    /// Puts plain bytes into records; the length of these.
    fn encrypt(&mut self, plain: &[u8], into: &mut [u8]) -> usize {
        let Some(session) = &mut self.session else {
            return 0;
        };
        let mut len = 0;
        loop {
            // The library remembers where in these bytes it stands.
            let status = session.process_tls_records(&mut self.incoming[self.unread..]);
            self.unread += status.discard;
            match status.state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    return match traffic.encrypt(plain, &mut into[len..]) {
                        Ok(count) => len + count,
                        Err(EncryptError::InsufficientSize(_)) => {
                            unreachable!("there is room for every record")
                        }
                        // 2^64 records: the connection is given up by its deadline.
                        Err(EncryptError::EncryptExhausted) => len,
                    };
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    len += data.encode(&mut into[len..]).unwrap_or(0);
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                // It broke, or was closed, and whoever reads hears of it.
                _ => return len,
            }
        }
    }
}

impl Handshakes {
    fn count(&mut self, kind: Option<rustls::HandshakeKind>) {
        match kind {
            Some(rustls::HandshakeKind::Resumed) => self.resumed += 1,
            _ => self.full += 1,
        }
    }
}

/// Appends everything that the library wants to send before it is given anything to read.
fn collect(session: &mut UnbufferedClientConnection, incoming: &mut [u8], outgoing: &mut Vec<u8>) {
    while session.wants_write() {
        let Ok(ConnectionState::EncodeTlsData(data)) = session.process_tls_records(incoming).state
        else {
            return;
        };
        if encode(data, outgoing).is_err() {
            return;
        }
    }
}

/// Appends what the library wants to send.
fn encode<D>(mut data: EncodeTlsData<'_, D>, outgoing: &mut Vec<u8>) -> Result<(), rustls::Error> {
    let from = outgoing.len();
    loop {
        match data.encode(&mut outgoing[from..]) {
            Ok(count) => {
                outgoing.truncate(from + count);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                if from + required_size > FLIGHT_BYTES {
                    return Err(rustls::Error::General(
                        "more is to be said in a handshake than there is room for".into(),
                    ));
                }
                outgoing.resize(from + required_size, 0);
            }
            Err(EncodeError::AlreadyEncoded) => return Ok(()),
        }
    }
}

impl<W: Wire> Wire for Tls<W> {
    type Shared = Shared<W::Shared>;

    fn open(shared: &Self::Shared) -> Tls<W> {
        Tls {
            wire: W::open(&shared.inner),
            session: None,
            ready: false,
            incoming: Vec::new(),
            unread: 0,
            plain: Vec::new(),
            untaken: 0,
            outgoing: Vec::new(),
            told: None,
            holds_one: false,
            is_closed: false,
            is_broken: false,
        }
    }

    fn reset(&mut self, shared: &Self::Shared) {
        self.wire.reset(&shared.inner);
        self.session = None;
        self.ready = false;
        self.incoming.clear();
        self.unread = 0;
        self.plain.clear();
        self.untaken = 0;
        self.outgoing.clear();
        self.told = None;
        self.holds_one = false;
        self.is_closed = false;
        self.is_broken = false;
    }

    fn take_form(shared: &mut Self::Shared, form: usize) {
        W::take_form(&mut shared.inner, form);
    }

    fn take_known(shared: &mut Self::Shared, known: &Values) {
        W::take_known(&mut shared.inner, known);
    }

    /// Before they are encrypted, as those of answers are counted.
    fn sent_bytes(shared: &Self::Shared, kind: u16, sent: u64) -> u64 {
        W::sent_bytes(&shared.inner, kind, sent)
    }

    fn looked(shared: &Self::Shared) -> Option<&Looked> {
        W::looked(&shared.inner)
    }

    fn is_ready(&self) -> bool {
        self.ready && self.wire.is_ready()
    }

    fn room(&self, shared: &Self::Shared) -> u32 {
        if self.ready && !self.is_broken && !self.is_closed {
            self.wire.room(&shared.inner)
        } else {
            0
        }
    }

    fn may_allocate(shared: &Self::Shared) -> bool {
        W::may_allocate(&shared.inner)
    }

    fn issue(&mut self, shared: &Self::Shared) -> u32 {
        self.wire.issue(&shared.inner)
    }

    fn issue_one(&mut self, shared: &Self::Shared, ask: Ask) -> u32 {
        self.wire.issue_one(&shared.inner, ask)
    }

    fn poll_transmit(&self, shared: &Self::Shared) -> Transmit {
        let has_own = self.session.is_none() || !self.outgoing.is_empty();
        let may_ask = self.ready && !self.is_broken;
        if has_own || may_ask && self.wire.poll_transmit(&shared.inner) != Transmit::Idle {
            Transmit::Own
        } else {
            Transmit::Idle
        }
    }

    fn handle_sent(&mut self, _: &Self::Shared, _: usize) {
        unreachable!("everything here is of the connection's own making")
    }

    fn write(&mut self, shared: &Self::Shared, into: &mut [u8]) -> usize {
        if self.session.is_none() {
            let session = self.session.insert(shared.client.begin());
            collect(session, &mut [], &mut self.outgoing);
        }
        let mut len = self.outgoing.len();
        into[..len].copy_from_slice(&self.outgoing);
        self.outgoing.clear();
        if !self.ready || self.is_broken {
            return len;
        }
        let (into, scratch) = into.split_at_mut(shared.write_bytes() - shared.plain_bytes);
        let room = shared.plain_bytes.max(4 * RECORD_BYTES);
        match self.wire.poll_transmit(&shared.inner) {
            Transmit::Idle => {}
            Transmit::Block { start, len: count } => {
                let count = count.min(room);
                let plain = &W::block(&shared.inner)[start..start + count];
                len += self.encrypt(plain, &mut into[len..]);
                self.wire.handle_sent(&shared.inner, count);
            }
            Transmit::Own => {
                let count = self
                    .wire
                    .write(&shared.inner, &mut scratch[..shared.plain_bytes]);
                if count > 0 {
                    len += self.encrypt(&scratch[..count], &mut into[len..]);
                }
            }
        }
        len
    }

    fn handle_bytes(&mut self, shared: &mut Self::Shared, bytes: &[u8]) -> usize {
        if self.is_broken {
            return bytes.len();
        }
        if !self.holds_one {
            if self.unread > 0 {
                self.incoming.drain(..self.unread);
                self.unread = 0;
            }
            self.incoming.extend_from_slice(bytes);
        }
        // The last byte counts as taken when everything is: until then there is a reason to
        // call again.
        self.holds_one = match self.read(shared) {
            Ok(Read::All) => false,
            Ok(Read::Stopped) => {
                self.unread < self.incoming.len() || self.untaken < self.plain.len()
            }
            Err(error) => {
                self.fail(shared, &error);
                false
            }
        };
        bytes.len() - usize::from(self.holds_one)
    }

    fn handle_eof(&mut self, shared: &mut Self::Shared) {
        if !self.ready {
            shared
                .fault
                .get_or_insert_with(|| "the peer hung up in the handshake".into());
            self.told = Some(Outcome::Broken {
                slot: None,
                error: WireError::TlsHandshake,
            });
            return;
        }
        self.wire.handle_eof(&mut shared.inner);
        self.told = match self.wire.poll_outcome() {
            // An end that nobody vouches for may be anybody's (RFC 8446, section 6.1).
            Some(Outcome::Answered(answer)) if !self.is_closed => Some(Outcome::Broken {
                slot: Some(answer.slot),
                error: WireError::TlsTruncated,
            }),
            outcome => outcome,
        };
    }

    fn poll_outcome(&mut self) -> Option<Outcome> {
        self.told.take().or_else(|| self.wire.poll_outcome())
    }

    fn poll_begun(&mut self) -> Option<u32> {
        self.wire.poll_begun()
    }

    fn answering(&self) -> Option<u32> {
        self.wire.answering()
    }

    fn is_flow_blocked(&self, slot: u32) -> bool {
        self.wire.is_flow_blocked(slot)
    }

    fn taken(&self, variable: u16) -> &[u8] {
        self.wire.taken(variable)
    }

    fn cookies(&self) -> Vec<u8> {
        self.wire.cookies()
    }

    fn take_cookies(&mut self, cookies: &[u8]) {
        self.wire.take_cookies(cookies);
    }

    fn cancel(&mut self, slot: u32) -> bool {
        self.wire.cancel(slot)
    }
}
