//! TLS from outside: a server by the same library in memory, at every split of the bytes, and
//! what it may do wrong.

mod authority;
mod faults;
mod greetings;
mod peer;
mod sessions;
