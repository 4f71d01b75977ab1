//! Framed TCP: the real engine at real echo servers over real sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use wallfinder_engine::StepSpec;
use wallfinder_wire::framed::Request;

mod drive;

use drive::with_both;

fn spec(address: SocketAddr, format: &str, message: usize, depth: u32) -> StepSpec {
    let request = Request {
        format: format.parse().unwrap(),
        message: vec![b'm'; message],
    };
    drive::spec(address, request.into(), 4, depth)
}

fn server(serve: impl Fn(TcpStream) -> std::io::Result<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let serve = Arc::clone(&serve);
            // Ends with an error when the client closes.
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// A frame with a length of 4 bytes, big-endian.
fn read_frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = length.to_vec();
    frame.resize(4 + u32::from_be_bytes(length) as usize, 0);
    stream.read_exact(&mut frame[4..])?;
    Ok(frame)
}

/// Sends bytes back as they come.
fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let count = stream.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&bytes[..count])?;
    }
}

/// Answers four requests at a time, the last one first.
fn echo_backwards(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let mut frames = Vec::new();
        for _ in 0..4 {
            frames.push(read_frame(&mut stream)?);
        }
        frames.reverse();
        stream.write_all(&frames.concat())?;
    }
}

#[test]
fn an_echo_answers_everything() {
    let address = server(echo);
    for (format, message, depth) in [
        ("u32be", 64, 16),
        ("u16le,inclusive", 1000, 4),
        ("u32be", 100_000, 2),
        ("u32be,id=u64le@3", 100_000, 2),
    ] {
        with_both(spec(address, format, message, depth), |measured| {
            let counts = &measured.counts;
            assert!(counts.answered > 20, "{format} {message}: {counts:?}");
            assert_eq!(counts.failed_total(), 0, "{format}: {counts:?}");
            assert_eq!(counts.body_bytes, counts.answered * message as u64);
            assert!(counts.statuses.is_empty(), "a status: {counts:?}");
        });
    }
}

#[test]
fn answers_may_come_in_another_order_where_they_have_ids() {
    let address = server(echo_backwards);
    with_both(spec(address, "u32be,id=u32be@0", 64, 4), |measured| {
        assert!(measured.counts.answered > 50);
        assert_eq!(measured.counts.failed_total(), 0);
    });
}

#[test]
fn an_answer_given_twice_is_counted_once_and_ends_its_connection() {
    let address = server(|mut stream| {
        stream.set_nodelay(true)?;
        for _ in 0..10 {
            let frame = read_frame(&mut stream)?;
            stream.write_all(&frame)?;
        }
        let frame = read_frame(&mut stream)?;
        stream.write_all(&frame.repeat(2))?;
        read_frame(&mut stream).map(drop)
    });
    with_both(spec(address, "u32be,id=u32be@0", 64, 1), |measured| {
        let counts = &measured.counts;
        assert!(counts.answered > 10, "{counts:?}");
        // No request was in flight: it is the connection that failed.
        let unmatched = counts.connect_failures.get("frame.unmatched");
        assert!(unmatched.is_some_and(|count| *count > 0), "{counts:?}");
        assert_eq!(counts.failed_total(), 0, "{counts:?}");
    });
}

/// An echo that grants a window, and gives back what it reads as it reads it.
fn granting(mut stream: TcpStream, window: usize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let grant = |bytes: usize| (1 << 31 | bytes as u32).to_be_bytes();
    stream.write_all(&grant(window))?;
    let mut room = vec![0; window + 1];
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut frame = length.to_vec();
        let whole = 4 + u32::from_be_bytes(length) as usize;
        while frame.len() < whole {
            let most = room.len().min(whole - frame.len());
            let count = stream.read(&mut room[..most])?;
            assert!(
                0 < count && count <= window,
                "the client sends without credit"
            );
            frame.extend_from_slice(&room[..count]);
            stream.write_all(&grant(count))?;
        }
        stream.write_all(&frame)?;
    }
}

#[test]
fn requests_are_sent_as_credit_allows() {
    for (window, message, depth) in [(64, 64, 1), (1000, 30_000, 1), (1000, 700, 8)] {
        let address = server(move |stream| granting(stream, window));
        with_both(spec(address, "u32be,credit", message, depth), |measured| {
            let counts = &measured.counts;
            assert!(counts.answered > 10, "{window} {message}: {counts:?}");
            assert_eq!(counts.failed_total(), 0, "{window} {message}: {counts:?}");
            assert_eq!(counts.body_bytes, counts.answered * message as u64);
        });
    }
}

#[test]
fn where_no_credit_comes_requests_time_out_for_lack_of_it() {
    let address = server(|mut stream| {
        // As an echo that speaks no credit: it waits for the client.
        stream.read(&mut [0; 64]).map(drop)
    });
    let mut spec = spec(address, "u32be,credit", 64, 1);
    spec.load.timeout = wallfinder_model::Nanos::from_millis(50);
    with_both(spec, |measured| {
        let counts = &measured.counts;
        assert_eq!(counts.answered, 0);
        assert!(counts.failed.contains_key("timeout.flow"), "{counts:?}");
    });
}
