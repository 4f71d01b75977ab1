//! The `wallfinder` binary.
fn main() {}
