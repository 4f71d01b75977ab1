//! Agents that dial out: they and their controller meet at a server of messages, the hub.
//!
//! ```text
//!  wallfinder hub ─► nats-server (a child): TLS by an authority of its own, an identity each, permissions by subject
//!                        ▲                        ▲
//!    Line ── ask.SESSION ┘                        └ say.SESSION ── wallfinder agent --join FILE
//!      Reader, Writer ─► Channel                        └─ for each session: wallfinder agent --stdio
//! ```
//!
//! What is said is what goes over ssh, byte for byte: a session is a [`Stream`](wallfinder_protocol::stream::Stream) of
//! numbered messages, and each has an agent process of its own at the far end, which holds leases, checks grants and
//! puts back what it changed. Nothing here takes part in a load: the one thread that talks to the hub belongs to the
//! process that relays.
//!
//! What it is not: it knows no verb of the protocol, and stores nothing at the hub.

#![forbid(unsafe_code)]

mod authority;
mod carry;
mod credentials;
mod folder;
mod joined;
mod line;
mod order;
mod server;
mod subjects;

pub use credentials::{Credentials, CredentialsError};
pub use folder::{Folder, FolderError, Identity, Invited, RunLock};
pub use joined::{About, Sessions, join, serve};
pub use line::{Line, LineError, Present};
pub use server::{Running, ServerError};
pub use subjects::{Here, is_name};
