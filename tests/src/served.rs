//! A server of another program, for as long as a test wants it.

use std::io;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::free_port;

/// How long a server may take to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);

/// A server that listens. Dropping it ends it.
#[derive(Debug)]
pub struct Served {
    child: Child,
    port: u16,
}

impl Served {
    /// Starts it, and waits until it listens. `command` makes the command for a port; one that ends gets another port, for
    /// a neighbour may have taken its own. An error where it cannot be started.
    #[track_caller]
    pub fn start(mut command: impl FnMut(u16) -> Command) -> io::Result<Served> {
        let since = Instant::now();
        loop {
            let port = free_port();
            let child = command(port)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            let mut served = Served { child, port };
            while served.child.try_wait()?.is_none() {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Ok(served);
                }
                assert!(since.elapsed() < LISTENS_WITHIN, "it never listens");
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(since.elapsed() < LISTENS_WITHIN, "it ends each time");
        }
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
