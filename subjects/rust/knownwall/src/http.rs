//! As much of HTTP/1.1 (RFC 9112) as is needed to count requests on a connection and to
//! answer them. Bytes in, requests out; bodies are read and dropped.

/// The longest head; longer ones end the connection.
pub const HEAD_BYTES_MAX: usize = 16 << 10;

/// A request, whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Its answer has no body (HEAD).
    pub head_only: bool,
    /// The connection ends with its answer.
    pub last: bool,
    /// What its path asks for.
    pub route: Route,
}

/// What a path asks for beside what every request costs: `/spin/300/bytes/20000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Route {
    /// CPU work, in microseconds.
    pub spin_us: u32,
    /// A sleep while it holds the lock of all workers, in microseconds.
    pub lock_us: u32,
    /// A wait, as for a backend, in microseconds.
    pub wait_us: u32,
    /// CPU work, in microseconds, where the cache of all workers does not have it.
    pub cached_us: u32,
    /// It empties that cache.
    pub evicts: bool,
    /// Bytes of its answer's body; 0: as of every answer.
    pub bytes: u32,
}

/// The most that a path may ask for: a second, a megabyte.
const ASKED_MAX: u32 = 1_000_000;

impl Route {
    /// Names and numbers in turn; what is none of these says nothing.
    fn of(path: &str) -> Route {
        let path = path.split('?').next().unwrap_or_default();
        let mut route = Route::default();
        let mut words = path.split('/').skip(1);
        while let (Some(name), Some(number)) = (words.next(), words.next()) {
            let number = number.parse().unwrap_or(0).min(ASKED_MAX);
            match name {
                "spin" => route.spin_us = number,
                "lock" => route.lock_us = number,
                "wait" => route.wait_us = number,
                "cached" => route.cached_us = number,
                "evict" => route.evicts = number > 0,
                "bytes" => route.bytes = number,
                _ => {}
            }
        }
        route
    }
}

/// What cannot be served. The peer is at fault, and its connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A head beyond the bound.
    HeadTooLong,
    /// No HTTP/1 head, or lengths that are none.
    Malformed,
    /// A body in chunks.
    Chunked,
}

/// Finds requests in the bytes of one connection.
#[derive(Debug, Default)]
pub struct Requests {
    /// Bytes of a head that is not whole.
    held: Vec<u8>,
    /// What is left of a body, and whose it is.
    body: Option<(u64, Asked)>,
}

impl Requests {
    /// Takes bytes and adds the requests that are whole with them.
    pub fn handle_bytes(
        &mut self,
        mut bytes: &[u8],
        asked: &mut Vec<Asked>,
    ) -> Result<(), Refused> {
        loop {
            if let Some((left, request)) = self.body {
                let taken = left.min(bytes.len() as u64);
                bytes = &bytes[taken as usize..];
                if taken < left {
                    self.body = Some((left - taken, request));
                    return Ok(());
                }
                self.body = None;
                asked.push(request);
            }
            if bytes.is_empty() {
                return Ok(());
            }
            // The end of the head may lie across what is held and what is new.
            let held = self.held.len();
            self.held
                .extend_from_slice(&bytes[..bytes.len().min(HEAD_BYTES_MAX + 4)]);
            let from = held.saturating_sub(3);
            let Some(end) = end_of_head(&self.held[from..]).map(|end| from + end) else {
                return match self.held.len() > HEAD_BYTES_MAX {
                    true => Err(Refused::HeadTooLong),
                    false => Ok(()),
                };
            };
            let (request, body_bytes) = read_head(&self.held[..end])?;
            self.held.clear();
            bytes = &bytes[end - held..];
            self.body = Some((body_bytes, request));
        }
    }
}

/// Length of a head with its empty line.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let at = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(at + 4)
}

fn read_head(head: &[u8]) -> Result<(Asked, u64), Refused> {
    let text = std::str::from_utf8(head).map_err(|_| Refused::Malformed)?;
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default();
    let mut words = line.split(' ');
    let (method, path, version) = (words.next(), words.next(), words.next());
    let mut asked = Asked {
        head_only: method == Some("HEAD"),
        last: match version {
            Some("HTTP/1.1") => false,
            Some("HTTP/1.0") => true,
            _ => return Err(Refused::Malformed),
        },
        route: Route::of(path.unwrap_or_default()),
    };
    let mut body_bytes = 0;
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(Refused::Malformed)?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            body_bytes = value.parse().map_err(|_| Refused::Malformed)?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Refused::Chunked);
        } else if name.eq_ignore_ascii_case("connection") {
            let says = |word: &str| {
                value
                    .split(',')
                    .any(|w| w.trim().eq_ignore_ascii_case(word))
            };
            asked.last = says("close") || (asked.last && !says("keep-alive"));
        }
    }
    Ok((asked, body_bytes))
}

/// An answer, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    bytes: Vec<u8>,
    head_bytes: usize,
}

impl Answer {
    /// 200 with a body of this many bytes.
    pub fn ok(body_bytes: usize) -> Answer {
        let mut bytes = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {body_bytes}\r\n\r\n"
        )
        .into_bytes();
        let head_bytes = bytes.len();
        bytes.resize(head_bytes + body_bytes, b'x');
        Answer { bytes, head_bytes }
    }

    /// Its head.
    pub fn head(&self) -> &[u8] {
        &self.bytes[..self.head_bytes]
    }

    /// Its body.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.head_bytes..]
    }

    /// All of it.
    pub fn whole(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const POST: &[u8] = b"POST /x HTTP/1.1\r\ncontent-length: 5\r\nConnection: close\r\n\r\nhello";

    fn plain() -> Asked {
        Asked {
            head_only: false,
            last: false,
            route: Route::default(),
        }
    }

    #[test]
    fn requests_are_found_however_bytes_are_cut() {
        let stream = [GET, POST, GET, GET].concat();
        for cut in 1..stream.len() {
            let (mut requests, mut asked) = (Requests::default(), Vec::new());
            for piece in stream.chunks(cut) {
                requests.handle_bytes(piece, &mut asked).unwrap();
            }
            let last = Asked {
                last: true,
                ..plain()
            };
            assert_eq!(asked, [plain(), last, plain(), plain()], "cut at {cut}");
        }
    }

    #[test]
    fn what_cannot_be_served_is_refused_and_not_guessed() {
        let refuse = |bytes: &[u8]| Requests::default().handle_bytes(bytes, &mut Vec::new());
        let chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(refuse(chunked), Err(Refused::Chunked));
        for bad in [
            &b"hello\r\n\r\n"[..],
            b"GET / HTTP/1.1\r\nx\r\n\r\n",
            b"\xff\r\n\r\n",
        ] {
            assert_eq!(refuse(bad), Err(Refused::Malformed));
        }
        let bad = b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n";
        assert_eq!(refuse(bad), Err(Refused::Malformed));
        assert_eq!(
            refuse(&[b'a'; HEAD_BYTES_MAX + 1]),
            Err(Refused::HeadTooLong)
        );
    }

    #[test]
    fn the_first_version_closes_unless_told_otherwise() {
        let ask = |head: &str| {
            let mut asked = Vec::new();
            Requests::default()
                .handle_bytes(head.as_bytes(), &mut asked)
                .unwrap();
            asked[0]
        };
        assert!(ask("GET / HTTP/1.0\r\n\r\n").last);
        assert!(!ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").last);
        assert!(ask("HEAD / HTTP/1.1\r\n\r\n").head_only);
    }

    #[test]
    fn a_path_may_ask_for_work() {
        let route = |spin_us, lock_us, wait_us, bytes| Route {
            spin_us,
            lock_us,
            wait_us,
            bytes,
            ..Route::default()
        };
        for (path, asked) in [
            ("/", route(0, 0, 0, 0)),
            ("/spin/300", route(300, 0, 0, 0)),
            ("/spin/300/bytes/20000?x=1", route(300, 0, 0, 20_000)),
            ("/lock/5/wait/7", route(0, 5, 7, 0)),
            ("/spin/9000000", route(ASKED_MAX, 0, 0, 0)),
            ("/spin/-3", route(0, 0, 0, 0)),
            ("/spinning/5", route(0, 0, 0, 0)),
        ] {
            assert_eq!(Route::of(path), asked, "{path}");
        }
        let cache = Route::of("/cached/30/evict/1");
        assert_eq!((cache.cached_us, cache.evicts), (30, true));
        assert!(!Route::of("/evict/0").evicts);
    }

    #[test]
    fn an_answer_says_its_length() {
        let answer = Answer::ok(10);
        assert_eq!(answer.body(), b"xxxxxxxxxx");
        assert!(answer.head().ends_with(b"Content-Length: 10\r\n\r\n"));
        assert_eq!(answer.whole().len(), answer.head().len() + 10);
    }
}
