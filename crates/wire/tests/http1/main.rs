//! HTTP/1 from outside: scripted peers, properties, and how a connection is used.

#[path = "../coded/mod.rs"]
mod coded;
mod connection;
mod content;
mod faults;
mod mixes;
mod peer;
mod properties;
mod reference;
