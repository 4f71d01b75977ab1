//! What is wrong with a file that a person wrote, and exactly where.

use std::fmt;
use std::ops::Range;

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

/// A study, or a scenario, that cannot be used. Displays as `file:line:column: what`, and renders
/// with its lines through [`miette`].
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}:{}:{}: {}", .0.file, .0.line, .0.column, .0.message)]
pub struct FileError(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    source: NamedSource<String>,
    file: String,
    span: Range<usize>,
    line: usize,
    column: usize,
    message: String,
    help: Option<String>,
}

impl FileError {
    /// An error at a byte range of the text.
    pub fn at(file: &str, text: &str, span: Range<usize>, message: String) -> FileError {
        let start = floor(text, span.start.min(text.len()));
        let end = floor(text, span.end.clamp(start, text.len()));
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        FileError(Box::new(Inner {
            source: NamedSource::new(file, text.to_owned()),
            file: file.to_owned(),
            span: start..end,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message,
            help: None,
        }))
    }

    /// Adds the way out.
    pub fn with_help(mut self, help: impl Into<String>) -> FileError {
        self.0.help = Some(help.into());
        self
    }

    /// Line, from 1.
    pub fn line(&self) -> usize {
        self.0.line
    }

    /// Column in characters, from 1.
    pub fn column(&self) -> usize {
        self.0.column
    }

    /// What is wrong, without the place.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

/// The nearest character boundary at or below an offset.
fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl Diagnostic for FileError {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.0.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = LabeledSpan::new_with_span(None, self.0.span.clone());
        Some(Box::new(std::iter::once(label)))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.0
            .help
            .as_ref()
            .map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_counts_characters_from_one() {
        let text = "a = 1\nµs = 2 # here\n";
        let at = text.find("2 #").unwrap();
        let error = FileError::at("x.toml", text, at..at + 1, "no".into());
        assert_eq!(error.to_string(), "x.toml:2:6: no");
    }

    #[test]
    fn a_span_beyond_the_text_is_its_end() {
        let error = FileError::at("x.toml", "ab", 7..90, "no".into());
        assert_eq!((error.line(), error.column()), (1, 3));
        let error = FileError::at("x.toml", "µ", 1..1, "no".into());
        assert_eq!((error.line(), error.column()), (1, 1));
    }
}
