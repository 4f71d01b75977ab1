//! Lanes: a schedule and a wire driven over sockets, filling histograms.
