//! What is asked of the library that talks to the hub. While it dials, it takes nothing off its queue, and that fills up:
//! whoever waits for room then waits until the hub is there again, which may be never. So nobody waits for long.

use std::time::Duration;

use async_nats::{Client, Subscriber};
use tokio::time::timeout;

/// How long a queue that is full may stay so.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(1);

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It goes out, now or when the hub is reached again.
    Out,
    /// There is no room for it: it may be sent again.
    NoRoom,
    /// Nothing goes out any more.
    Closed,
}

/// Sends a message.
pub(crate) async fn publish(client: &Client, to: String, message: Vec<u8>) -> Sent {
    match timeout(ROOM_WAIT_MAX, client.publish(to, message.into())).await {
        Ok(Ok(())) => Sent::Out,
        Ok(Err(_)) => Sent::Closed,
        Err(_) => Sent::NoRoom,
    }
}

/// Hears what is said there from now on.
pub(crate) async fn subscribe(client: &Client, from: String) -> Result<Subscriber, String> {
    match timeout(ROOM_WAIT_MAX, client.subscribe(from)).await {
        Ok(subscribed) => subscribed.map_err(|error| error.to_string()),
        Err(_) => Err("the hub is not reached".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;
    use std::time::Instant;

    use super::*;

    /// A server of messages that greets and then neither reads nor says anything.
    fn deaf() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        thread::spawn(move || {
            use std::io::{Read, Write};
            let (mut peer, _) = listener.accept().expect("a client");
            let info = br#"INFO {"server_id":"a","version":"2.12.0","max_payload":1048576}"#;
            peer.write_all(&[&info[..], b"\r\n"].concat())
                .expect("a socket");
            let mut bytes = [0; 1024];
            let mut heard = Vec::new();
            while !heard.windows(4).any(|word| word == b"PING") {
                let read = peer.read(&mut bytes).expect("a socket");
                heard.extend_from_slice(&bytes[..read]);
            }
            peer.write_all(b"PONG\r\n").expect("a socket");
            thread::park();
        });
        at.to_string()
    }

    #[test]
    fn nobody_waits_for_room_for_long() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let options = async_nats::ConnectOptions::new().client_capacity(2);
            let client = options.connect(deaf()).await.expect("it greets");
            let began = Instant::now();
            let mut sent = Sent::Out;
            // What its socket takes goes out; what comes after that finds the queue full.
            for _ in 0..1_000 {
                sent = publish(&client, "a".to_owned(), vec![0; 1 << 18]).await;
                if sent != Sent::Out {
                    break;
                }
            }
            assert_eq!(sent, Sent::NoRoom);
            let refused = subscribe(&client, "b".to_owned()).await;
            assert!(refused.is_err_and(|why| why.contains("not reached")));
            assert!(began.elapsed() < 10 * ROOM_WAIT_MAX);
        });
    }
}
