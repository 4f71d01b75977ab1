//! Doubles of HTTP/2 servers: each frame that comes is given to a function.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

const PREFACE_BYTES: usize = 24;
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;

/// A double of a server: greets with some settings, and gives each frame to `serve`.
pub(crate) fn peer(
    settings: &'static [u8],
    serve: impl Fn(&mut TcpStream, u8, u32) -> std::io::Result<()> + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || -> std::io::Result<()> {
                stream.set_nodelay(true)?;
                stream.read_exact(&mut [0; PREFACE_BYTES])?;
                stream.write_all(&frame(SETTINGS, 0, 0, settings))?;
                loop {
                    let mut head = [0; 9];
                    stream.read_exact(&mut head)?;
                    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                    stream.read_exact(&mut vec![0; length as usize])?;
                    let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                    serve(&mut stream, head[3], id)?;
                }
            });
        }
    });
    address
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}
