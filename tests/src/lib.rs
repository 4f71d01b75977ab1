//! Black-box tests of the `wallfinder` binary and of the house: see `tests/`.
