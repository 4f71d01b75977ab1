//! HTTP/2 from outside: scripted peers, the cases of h2spec, header blocks of other
//! encoders, properties, and real servers on loopback.

#[path = "../coded/mod.rs"]
mod coded;
mod connection;
mod content;
mod faults;
mod h2spec;
mod mirror;
mod mirrored;
mod mixes;
mod peer;
mod properties;
mod servers;
mod socket;
mod stories;
