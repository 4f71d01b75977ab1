//! Study files: what is run, and what is claimed.
