//! The one handshake before any load (FAULTS.md row 31), over sockets.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use rustls::{ServerConfig, ServerConnection};
use wallfinder_wire::tls::{BadOptions, Client, Greeting, Options, Refused, Trust};

use crate::authority::Authority;
use crate::peer::server;

/// Shakes hands with whoever comes.
fn listening(config: Arc<ServerConfig>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut session = ServerConnection::new(Arc::clone(&config)).unwrap();
            while session.is_handshaking() && session.complete_io(&mut stream).is_ok() {}
            let _ = session.complete_io(&mut stream);
        }
    });
    address
}

fn greet(address: SocketAddr, options: &Options) -> Result<Greeting, Refused> {
    let mut stream = TcpStream::connect(address).unwrap();
    Client::new(options).unwrap().greet(&mut stream)
}

#[test]
fn a_good_server_says_what_was_agreed_on() {
    let authority = Authority::new();
    let address = listening(server(&authority.signs("server.test"), None));
    let greeting = greet(address, &authority.believer("server.test")).unwrap();
    assert_eq!(greeting.version, "TLSv1.3");
    assert_eq!(greeting.alpn.as_deref(), Some("http/1.1"));
    assert_eq!(greeting.group.as_deref(), Some("X25519"));
    assert_eq!(greeting.certificates, 1);
    assert!(greeting.cipher_suite.starts_with("TLS13_"), "{greeting:?}");
}

#[test]
fn row_31_expired_wrong_name_and_unknown_issuer_are_refused_unless_anybody_is_believed() {
    let (authority, other) = (Authority::new(), Authority::new());
    for (identity, word) in [
        (authority.signed_long_ago("server.test"), "xpired"),
        (authority.signs("another.test"), "not valid for"),
        (other.signs("server.test"), "nobody who is trusted"),
    ] {
        let address = listening(server(&identity, None));
        let mut options = authority.believer("server.test");
        match greet(address, &options) {
            Err(Refused::Certificate(why)) => assert!(why.contains(word), "{why}"),
            other => panic!("{word}: {other:?}"),
        }
        options.trust = Trust::Anybody;
        greet(address, &options).unwrap();
    }
}

#[test]
fn a_server_that_asks_who_the_client_is_gets_its_certificate() {
    let authority = Authority::new();
    let identity = authority.signs("server.test");
    let address = listening(server(&identity, Some(authority.root())));
    let mut options = authority.believer("server.test");
    options.identity = Some(authority.signs("client.test"));
    greet(address, &options).unwrap();
}

#[test]
fn what_is_no_client_is_said() {
    let authority = Authority::new();
    let said = |change: &dyn Fn(&mut Options)| {
        let mut options = authority.believer("server.test");
        change(&mut options);
        let error: BadOptions = Client::new(&options).unwrap_err();
        error.to_string()
    };
    assert!(said(&|o| o.name = "not a name".into()).contains("not the name"));
    assert!(said(&|o| o.groups = vec!["p521".into()]).contains("x25519"));
    assert!(said(&|o| o.trust = Trust::Roots(vec![vec![1, 2]])).contains("--cacert"));
    let identity = authority.signs("client.test");
    let broken = |o: &mut Options| {
        let mut identity = identity.clone();
        identity.key = vec![0; 10];
        o.identity = Some(identity);
    };
    assert!(said(&broken).contains("key"));
}
