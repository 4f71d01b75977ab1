//! A peer that speaks HTTP/1.1: each request whose head is whole is given to a function.

use std::collections::BTreeMap;

use super::peer::{Connect, Does, Peer, Script, Take, says};

/// A good answer.
pub(super) const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
/// One that is the last of its connection.
pub(super) const LAST_ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";

/// A request that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    /// How many came before on any connection.
    pub(super) number: u64,
    pub(super) conn: u32,
    /// How many came before on this one since it opened.
    pub(super) nth: u64,
    /// The first letter of its path behind the slash.
    pub(super) path: u8,
    pub(super) now: u64,
}

/// Answers requests as a function says.
pub(super) struct Http1<F> {
    serve: F,
    connect: Box<dyn FnMut(u32, u32, u64) -> Connect>,
    take: Box<dyn FnMut(u32, usize, u64) -> Take>,
    number: u64,
    links: BTreeMap<u32, (u64, Vec<u8>)>,
}

impl<F: FnMut(Asked) -> Script> Http1<F> {
    /// Accepts every connection at once.
    pub(super) fn new(serve: F) -> Http1<F> {
        Http1 {
            serve,
            connect: Box::new(|_, _, _| Connect::Accept { after_ns: 0 }),
            take: Box::new(|_, _, _| Take::All),
            number: 0,
            links: BTreeMap::new(),
        }
    }

    /// The same, answering otherwise.
    pub(super) fn serving<G: FnMut(Asked) -> Script>(self, serve: G) -> Http1<G> {
        Http1 {
            serve,
            connect: self.connect,
            take: self.take,
            number: self.number,
            links: self.links,
        }
    }

    /// Attempts to connect go as this says: of a connection, which attempt it is, and when.
    pub(super) fn connecting(
        mut self,
        connect: impl FnMut(u32, u32, u64) -> Connect + 'static,
    ) -> Http1<F> {
        self.connect = Box::new(connect);
        self
    }

    /// Sends go as this says: on which connection, how many bytes, and when.
    pub(super) fn taking(
        mut self,
        take: impl FnMut(u32, usize, u64) -> Take + 'static,
    ) -> Http1<F> {
        self.take = Box::new(take);
        self
    }
}

/// Answers all requests well, each after so long.
pub(super) fn after(after_ns: u64) -> Http1<impl FnMut(Asked) -> Script> {
    Http1::new(move |_| says(after_ns, ANSWER))
}

/// One thread: requests are answered one after the other, in the order in which they came.
pub(super) fn one_by_one(service_ns: u64) -> Http1<impl FnMut(Asked) -> Script> {
    let mut busy_until_ns = 0;
    Http1::new(move |asked: Asked| {
        busy_until_ns = asked.now.max(busy_until_ns) + service_ns;
        says(busy_until_ns - asked.now, ANSWER)
    })
}

/// It closes the connection after so long.
pub(super) fn closes(after_ns: u64) -> Script {
    vec![(after_ns, Does::Closes)]
}

impl<F: FnMut(Asked) -> Script> Peer for Http1<F> {
    fn connect(&mut self, conn: u32, nth: u32, now: u64) -> Connect {
        (self.connect)(conn, nth, now)
    }

    fn take(&mut self, conn: u32, len: usize, now: u64) -> Take {
        (self.take)(conn, len, now)
    }

    fn opened(&mut self, conn: u32, _: u64) -> Script {
        self.links.insert(conn, (0, Vec::new()));
        Script::new()
    }

    fn received(&mut self, conn: u32, bytes: &[u8], now: u64) -> Script {
        let (nth, unread) = self.links.get_mut(&conn).expect("it was opened");
        unread.extend_from_slice(bytes);
        let mut script = Script::new();
        while let Some(end) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            let path = unread.windows(2).find(|two| two[0] == b'/');
            let path = path.map_or(b' ', |two| two[1]);
            unread.drain(..end + 4);
            script.extend((self.serve)(Asked {
                number: self.number,
                conn,
                nth: *nth,
                path,
                now,
            }));
            *nth += 1;
            self.number += 1;
        }
        script
    }
}
