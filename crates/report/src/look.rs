//! How a terminal is to be written to: width, colour, ASCII; and lines made of spans.
//!
//! Text is composed as spans that carry a role, and becomes characters in one place
//! ([`Page::finish`]): there control characters are escaped ([`crate::safe`]), what is not ASCII is
//! replaced where that is asked for, and roles become colours where those are wanted.
//! No role carries a meaning that the words do not carry too.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::safe::label;

/// What the place of output can show. The caller finds out (terminal, `NO_COLOR`, locale).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Columns to fit; at least 40 are taken.
    pub width: u16,
    /// Whether to colour.
    pub colour: bool,
    /// Whether to keep to ASCII.
    pub ascii: bool,
}

impl Default for Look {
    /// 100 columns, no colour.
    fn default() -> Look {
        Look {
            width: 100,
            colour: false,
            ascii: false,
        }
    }
}

impl Look {
    /// Columns to fill.
    pub(crate) fn columns(&self) -> usize {
        usize::from(self.width).clamp(40, 100)
    }
}

/// What a span of text is, for the eye.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    Strong,
    Dim,
    Good,
    Warn,
    Bad,
}

impl Role {
    fn sgr(self) -> Option<&'static str> {
        match self {
            Role::Plain => None,
            Role::Strong => Some("1"),
            Role::Dim => Some("2"),
            Role::Good => Some("32"),
            Role::Warn => Some("33"),
            Role::Bad => Some("31"),
        }
    }
}

/// One line, as spans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line(Vec<(Role, String)>);

impl Line {
    pub(crate) fn new() -> Line {
        Line::default()
    }

    pub(crate) fn put(mut self, role: Role, text: impl AsRef<str>) -> Line {
        self.0.push((role, label(text.as_ref())));
        self
    }

    pub(crate) fn plain(self, text: impl AsRef<str>) -> Line {
        self.put(Role::Plain, text)
    }

    pub(crate) fn dim(self, text: impl AsRef<str>) -> Line {
        self.put(Role::Dim, text)
    }

    pub(crate) fn strong(self, text: impl AsRef<str>) -> Line {
        self.put(Role::Strong, text)
    }

    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.width()).sum()
    }

    /// Spaces up to a column, at least one when something stands before it.
    pub(crate) fn until_column(self, column: usize) -> Line {
        let have = self.width();
        let gap = column
            .saturating_sub(have)
            .max(usize::from(have > 0 && have >= column));
        self.plain(" ".repeat(gap))
    }

    /// `text` at the right edge, on this line where it fits.
    pub(crate) fn right(self, columns: usize, role: Role, text: &str) -> Line {
        let start = columns.saturating_sub(label(text).width());
        self.until_column(start).put(role, text)
    }

    pub(crate) fn finish(&self, look: &Look) -> String {
        let mut shown = String::new();
        let last = self
            .0
            .iter()
            .rposition(|(_, text)| !text.trim_end().is_empty());
        for (index, (role, text)) in self.0.iter().enumerate() {
            match last {
                Some(last) if index <= last => {}
                _ => break,
            }
            let text = if Some(index) == last {
                text.trim_end()
            } else {
                text
            };
            let text = if look.ascii {
                ascii(text)
            } else {
                text.to_owned()
            };
            match role.sgr() {
                Some(code) if look.colour && !text.trim().is_empty() => {
                    shown.push_str(&format!("\x1b[{code}m{text}\x1b[0m"));
                }
                _ => shown.push_str(&text),
            }
        }
        shown
    }
}

/// Lines on their way out.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) look: Look,
    lines: Vec<Line>,
}

/// Where text begins beside a label.
pub(crate) const INDENT: usize = 12;

impl Page {
    pub(crate) fn new(look: &Look) -> Page {
        Page {
            look: *look,
            lines: Vec::new(),
        }
    }

    pub(crate) fn columns(&self) -> usize {
        self.look.columns()
    }

    pub(crate) fn push(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// An empty line, unless one stands there already.
    pub(crate) fn gap(&mut self) {
        if self.lines.last().is_some_and(|line| line.width() > 0) {
            self.lines.push(Line::new());
        }
    }

    /// ` label     text`, the text wrapped and kept in its column.
    pub(crate) fn entry(&mut self, label: &str, role: Role, text: &str) {
        let label_role = if label.chars().any(char::is_lowercase) {
            Role::Dim
        } else {
            Role::Strong
        };
        let room = self.columns() - INDENT;
        for (index, piece) in wrap(text, room).into_iter().enumerate() {
            let head = if index == 0 { label } else { "" };
            self.push(
                Line::new()
                    .plain(" ")
                    .put(label_role, head)
                    .until_column(INDENT)
                    .put(role, piece),
            );
        }
    }

    /// Text in the column beside labels.
    pub(crate) fn beside(&mut self, role: Role, text: &str) {
        self.entry("", role, text);
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.lines.iter().map(|line| line.finish(&self.look))
    }

    pub(crate) fn finish(&self) -> String {
        let mut shown = String::new();
        for line in self.lines() {
            shown.push_str(&line);
            shown.push('\n');
        }
        shown
    }
}

/// The same text in ASCII, of the same width where a character has a likeness.
pub(crate) fn ascii(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            ' '..='~' => c,
            'µ' | 'μ' => 'u',
            '–' | '—' | '−' | '─' | '╌' => '-',
            '·' => '|',
            '×' => 'x',
            '…' => '.',
            '≥' => '>',
            '≤' => '<',
            '≈' | '±' => '~',
            '’' | '‘' => '\'',
            '“' | '”' => '"',
            '━' | '█' | '▉' | '▊' | '▋' => '#',
            '▌' | '▍' | '▎' | '▏' => '-',
            '╵' | '│' => '|',
            '░' => '.',
            '▁' => '_',
            '▂' => '.',
            '▃' => ':',
            '▄' => '-',
            '▅' => '=',
            '▆' => '+',
            '▇' => '*',
            '→' => '>',
            _ => '?',
        })
        .collect()
}

/// Words into lines of at most `room` columns; words that are longer are cut.
pub(crate) fn wrap(text: &str, room: usize) -> Vec<String> {
    let room = room.max(8);
    let text = label(text);
    let mut lines = vec![String::new()];
    let mut have = 0;
    for word in with_units(&text) {
        let word = word.as_str();
        let width = word.width();
        if have > 0 && have + 1 + width > room {
            lines.push(String::new());
            have = 0;
        }
        let line = lines.last_mut().expect("there is always a line");
        if have > 0 {
            line.push(' ');
            have += 1;
        }
        if have + width <= room {
            line.push_str(word);
            have += width;
            continue;
        }
        for c in word.chars() {
            let width = c.width().unwrap_or(0);
            if have + width > room {
                lines.push(String::new());
                have = 0;
            }
            lines.last_mut().expect("there is always a line").push(c);
            have += width;
        }
    }
    lines
}

/// The words of a text, a number kept together with its unit.
fn with_units(text: &str) -> Vec<String> {
    const UNITS: [&str; 12] = [
        "%", "×", "s", "ms", "µs", "ns", "min", "h", "B", "KB", "MB", "GB",
    ];
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let bare = word.trim_end_matches(|c: char| ";:,.)]".contains(c));
        let number = words.last().is_some_and(|last| {
            last.ends_with(|c: char| c.is_ascii_digit()) && last.chars().count() < 24
        });
        match words.last_mut() {
            Some(last) if number && UNITS.contains(&bare) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// At most `room` columns, with an ellipsis where something was cut.
pub(crate) fn cut(text: &str, room: usize) -> String {
    let text = label(text);
    if text.width() <= room {
        return text;
    }
    let mut shown = String::new();
    let mut have = 0;
    for c in text.chars() {
        let width = c.width().unwrap_or(0);
        if have + width + 1 > room {
            break;
        }
        shown.push(c);
        have += width;
    }
    shown.push('…');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let line = Line::new().plain("a\x1b]0;title\x07b\u{202e}c\u{9b}31m");
        let shown = line.finish(&Look::default());
        assert_eq!(shown, "a\\x1b]0;title\\x07b\\u202ec\\u009b31m");
    }

    #[test]
    fn colour_is_written_only_when_wanted() {
        let line = Line::new().put(Role::Bad, "failed").plain("   ");
        assert_eq!(line.finish(&Look::default()), "failed");
        let look = Look {
            colour: true,
            ..Look::default()
        };
        assert_eq!(line.finish(&look), "\x1b[31mfailed\x1b[0m");
    }

    proptest! {
        #[test]
        fn wrapped_lines_fit(text in ".{0,200}", room in 8usize..60) {
            for line in wrap(&text, room) {
                prop_assert!(line.width() <= room);
            }
        }

        #[test]
        fn ascii_is_ascii(text in ".{0,80}") {
            prop_assert!(ascii(&label(&text)).is_ascii());
        }

        #[test]
        fn what_is_cut_fits(text in ".{0,80}", room in 1usize..60) {
            prop_assert!(cut(&text, room).width() <= room);
        }
    }
}
