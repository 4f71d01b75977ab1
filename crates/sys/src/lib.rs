//! System calls and all the unsafe code of Wallfinder.
