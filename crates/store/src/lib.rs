//! A run's record on disk: journalled, sealed, read back.
