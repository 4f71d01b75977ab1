//! gRPC from outside: what hostile peers say at every split of the bytes, properties beside a
//! reference, and real grpc-go servers on loopback.

mod faults;
mod in_turn;
#[allow(dead_code)]
#[path = "../http2/peer.rs"]
mod peer;
mod properties;
mod reference;
mod script;
mod servers;
#[allow(dead_code)]
#[path = "../http2/socket.rs"]
mod socket;
