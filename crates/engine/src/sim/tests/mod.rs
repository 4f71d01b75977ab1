//! What a worker does, to the nanosecond.

mod batching;
mod closed;
mod connections;
mod deadlines;
mod drain;
mod failures;
mod identity;
mod in_flight;
mod levers;
mod open;
mod outages;
mod sessions;
mod streams;
