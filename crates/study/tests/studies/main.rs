//! Study files, their expansion, their runs and their claims, from outside the crate.

mod built_in;
mod claims;
mod client_ceiling;
mod double;
mod expansion;
mod files;
mod rounds;
mod running;
