//! What subjects have in common: when they end, and where they listen. What each says of
//! itself, and how it serves, is its own.

#![forbid(unsafe_code)]

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, ipproto, listen, socket, sockopt};
use rustix::process::{Resource, Signal, getrlimit, set_parent_process_death_signal, setrlimit};

/// Set to 1 in the environment of a subject that must not outlive the tool.
const SUBJECT_VARIABLE: &str = "WALLFINDER_SUBJECT";

/// How long is waited before the next connection is taken, where there are too many.
const TOO_MANY_WAIT: Duration = Duration::from_millis(10);

/// Ties this process to the one that started it, if that asks for it. To be called by the
/// main thread, before anything else.
pub fn follow_starter() -> io::Result<()> {
    if std::env::var(SUBJECT_VARIABLE).as_deref() == Ok("1") {
        set_parent_process_death_signal(Some(Signal::KILL))?;
    }
    Ok(())
}

/// As many as the hard limit lets there be: where it cannot be raised, fewer are served.
pub fn allow_many_connections() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Listens with a backlog of its own choice, hence not by `std`, which chooses 128.
pub fn listen_on(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket(family, SocketType::STREAM, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, backlog)?;
    Ok(TcpListener::from(socket))
}

/// The next connection. One that is gone again, or too many at once, is no end: the next
/// may do.
pub fn accept(listener: &TcpListener) -> io::Result<std::net::TcpStream> {
    loop {
        match listener.accept() {
            Ok((socket, _)) => return Ok(socket),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) if error.raw_os_error() == Some(24) => thread::sleep(TOO_MANY_WAIT),
            Err(error) => return Err(error),
        }
    }
}
