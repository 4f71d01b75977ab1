//! From flags to a server that serves: listen, announce, accept.
//!
//! Each thread has an event loop of its own and shares nothing with the others; a
//! connection stays where it was dealt.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;

use subject::{allow_many_connections, listen_on};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::announce;
use crate::options::{Options, Protocol};
use crate::{grpc, rest, tcp};

/// As many as the kernel allows: what is beyond net.core.somaxconn is cut.
const BACKLOG: i32 = 1 << 16;

/// Serves until the process is killed, or something breaks that cannot be served without.
pub fn serve(options: &Options) -> io::Result<()> {
    allow_many_connections();
    let listener = listen_on(SocketAddr::new(options.host, options.port), BACKLOG)?;
    let (failed, failures) = mpsc::channel();
    let mut inboxes: Vec<UnboundedSender<TcpStream>> = Vec::new();
    for number in 0..options.threads {
        let (inbox, sockets) = unbounded_channel();
        inboxes.push(inbox);
        let (options, failed) = (options.clone(), failed.clone());
        thread::Builder::new()
            .name(format!("echo-{number}"))
            .spawn(move || failed.send(run(&options, sockets)))?;
    }
    io::stdout().write_all(announce::line(listener.local_addr()?, options).as_bytes())?;
    thread::spawn(move || {
        let dealt = inboxes.iter().cycle().try_for_each(|inbox| {
            let socket = subject::accept(&listener)?;
            inbox.send(socket).map_err(io::Error::other)
        });
        let _ = failed.send(dealt);
    });
    failures.recv().unwrap_or(Ok(()))
}

/// One event loop, for the connections that it is dealt.
fn run(options: &Options, mut sockets: UnboundedReceiver<TcpStream>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    runtime.block_on(async {
        while let Some(socket) = sockets.recv().await {
            let options = options.clone();
            // What ends a connection is its client's affair, and the next one's none.
            tokio::spawn(async move { converse(socket, options).await });
        }
        Ok(())
    })
}

async fn converse(socket: TcpStream, options: Options) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_nodelay(true)?;
    let stream = tokio::net::TcpStream::from_std(socket)?;
    let Options {
        answer,
        credit,
        windows,
        ..
    } = options;
    match options.protocol {
        Protocol::Tcp => tcp::converse(stream, answer, credit).await,
        Protocol::Rest => rest::converse(stream, answer)
            .await
            .map_err(io::Error::other),
        Protocol::Grpc => grpc::converse(stream, answer, windows)
            .await
            .map_err(io::Error::other),
    }
}
