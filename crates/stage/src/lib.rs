//! The apparatus: subjects, drivers and where they run.
