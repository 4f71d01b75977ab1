//! Study files, their expansion, their runs and their claims, from outside the crate.

mod both_ways;
mod built_in;
mod claims;
mod client_ceiling;
mod double;
mod expansion;
mod files;
mod pages;
mod rounds;
mod running;
