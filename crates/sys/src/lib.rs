//! Every system call wrapper of Wallfinder, and all of its `unsafe`.
//!
//! What this crate is: clocks, folders, processor affinity, process limits, memory, users, sockets, processes
//! held by descriptors, and two ways of waiting for sockets ([`io::Epoll`] and [`io::Uring`]) behind one trait
//! ([`io::Io`]) shaped like completions. What it is not: it knows no protocol, keeps no
//! statistics, and decides nothing.
//!
//! Each `unsafe` block says what makes it sound; every other crate forbids the word.

pub mod allocator;
pub mod card;
pub mod clock;
pub mod file;
pub mod folder;
pub mod io;
pub mod limits;
pub mod memory;
pub mod name_service;
pub mod namespace;
pub mod net;
pub mod packet;
pub mod perf;
pub mod pidfd;
pub mod process;
pub mod programs;
pub mod signal;
pub mod users;

pub use rustix::io::Errno;
