//! The binary as its users run it: loads, verdicts, studies, records, and what goes wrong.
//!
//! One test program, so that tests that wait do so side by side. Most share the machine (`together`, `busily`); those
//! that measure do so beside each other where they leave it idle (`quietly`), and else `alone`.

mod ab;
mod agents;
mod browser;
mod bytes;
mod ceilings;
mod closing;
mod decode;
mod echo_client;
mod exit_codes;
mod eyes;
mod failures;
mod find;
mod fleet;
mod folders;
mod framed;
mod grpc;
mod hosts;
mod http2;
mod hub;
mod killed;
mod kills;
mod kills_at_a_hub;
mod kills_on_hosts;
mod lab;
mod link;
mod listening;
mod loads;
mod mishaps;
mod names;
mod ordinary;
mod output;
mod page;
mod partial;
mod peers;
mod processes;
mod profiles;
mod protocols;
mod reach;
mod reading;
mod records;
mod scenario;
mod secrets;
mod shown;
mod standing;
mod strangers;
mod studies;
mod tls;
mod traffic;
mod truth;
mod tune;
mod unanswered;
mod verdicts;
