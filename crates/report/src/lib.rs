//! A record becomes text, JSON, CSV and HTML.
