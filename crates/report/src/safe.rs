//! Text of others made safe to show: a server's words, a driver's, labels of a record, names of
//! processes and functions.
//!
//! What would act on a terminal, or hide in it, is shown as it is written in a program: `\x1b` for a
//! character of C0, `\u009b` for any other (JSON reads that as the same character). What it is not:
//! escaping for HTML or CSV, which stands where those are written.

use std::borrow::Cow;

/// Characters of one label or paragraph that are shown at the most.
const LABEL_CHARS_MAX: usize = 8 << 10;
/// Lines of a message, and characters of each, that are shown at the most.
const MESSAGE_LINES_MAX: usize = 200;
const LINE_CHARS_MAX: usize = 4 << 10;

/// One line of text: tabs and line ends become spaces, and what is unsafe is escaped.
pub fn clean(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' | '\n' | '\r' => shown.push(' '),
            c if is_unsafe(c) => escape(c, &mut shown),
            c => shown.push(c),
        }
    }
    shown
}

/// [`clean`], and no longer than a label may be.
pub(crate) fn label(text: &str) -> String {
    clean(&bounded(text, LABEL_CHARS_MAX))
}

/// A message of several lines, bounded in both directions. Line ends and tabs stay.
pub fn message(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut shown: Vec<String> = Vec::new();
    for line in lines.iter().take(MESSAGE_LINES_MAX) {
        let line = bounded(line, LINE_CHARS_MAX);
        shown.push(on_terminal(&line, false).into_owned());
    }
    if lines.len() > MESSAGE_LINES_MAX {
        shown.push(format!("… {} more lines", lines.len() - MESSAGE_LINES_MAX));
    }
    shown.join("\n")
}

/// Everything that leaves for a terminal goes through here: line ends and tabs stay, and, where
/// `colours` is set, the colours that this crate writes.
pub fn on_terminal(text: &str, colours: bool) -> Cow<'_, str> {
    let plain = |c: char| matches!(c, '\n' | '\t') || !is_unsafe(c);
    if text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(colour) = colour(rest).filter(|_| colours) {
            shown.push_str(colour);
            rest = &rest[colour.len()..];
            continue;
        }
        match c {
            // Of CSV.
            '\r' if rest.starts_with("\r\n") => shown.push(c),
            c if plain(c) => shown.push(c),
            c => escape(c, &mut shown),
        }
        rest = &rest[c.len_utf8()..];
    }
    Cow::Owned(shown)
}

/// One of the sequences that roles are written with.
fn colour(text: &str) -> Option<&str> {
    let digits = text.strip_prefix("\x1b[")?;
    let end = digits.find('m').filter(|end| (1..=2).contains(end))?;
    let is_number = digits.as_bytes()[..end].iter().all(u8::is_ascii_digit);
    is_number.then(|| &text[..end + 3])
}

/// Control characters, marks that turn the direction of text, and what has no width.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

fn escape(c: char, shown: &mut String) {
    match c {
        '\0'..'\x20' => shown.push_str(&format!("\\x{:02x}", u32::from(c))),
        c => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                shown.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
}

/// The beginning of a text that is too long, and how much is missing.
fn bounded(text: &str, chars_max: usize) -> Cow<'_, str> {
    // Most texts have no more bytes than that.
    if text.len() <= chars_max {
        return Cow::Borrowed(text);
    }
    match text.char_indices().nth(chars_max) {
        None => Cow::Borrowed(text),
        Some((at, _)) => {
            let more = text[at..].chars().count();
            Cow::Owned(format!("{}… ({more} more characters)", &text[..at]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown_and_does_not_act() {
        for (text, shown) in [
            ("a\x1b]0;title\x07b", "a\\x1b]0;title\\x07b"),
            ("\x1b[2J\x1b[31mred", "\\x1b[2J\\x1b[31mred"),
            ("\u{9b}31m", "\\u009b31m"),
            ("\x7f", "\\u007f"),
            ("abc\u{202e}cba", "abc\\u202ecba"),
            ("a\u{2066}b\u{2069}", "a\\u2066b\\u2069"),
            ("a\u{200b}b\u{feff}", "a\\u200bb\\ufeff"),
            ("a\u{61c}b\u{2060}", "a\\u061cb\\u2060"),
            ("\u{e0041}", "\\udb40\\udc41"),
            ("\0", "\\x00"),
            ("Grüße, 世界 🎉", "Grüße, 世界 🎉"),
        ] {
            assert_eq!(clean(text), shown);
            assert_eq!(on_terminal(text, false), shown);
            assert_eq!(message(text), shown);
        }
        assert_eq!(clean("a\tb\r\nc"), "a b  c");
        assert_eq!(message("a\tb\nc"), "a\tb\nc");
        // A line that writes over what stands before it.
        assert_eq!(message("failed\rpassed"), "failed\\x0dpassed");
        assert_eq!(on_terminal("a,b\r\nc", false), "a,b\r\nc");
    }

    #[test]
    fn our_own_colours_stay_and_no_other_sequence() {
        assert_eq!(on_terminal("\x1b[31mx\x1b[0m", true), "\x1b[31mx\x1b[0m");
        for sequence in ["\x1b[2J", "\x1b[38;5;1m", "\x1b[m", "\x1b[1;31H", "\x1bc"] {
            let shown = on_terminal(sequence, true);
            assert!(!shown.contains('\x1b'), "{shown:?}");
        }
    }

    #[test]
    fn a_text_without_end_is_cut_and_says_so() {
        let long = "x".repeat(1 << 20);
        let shown = label(&long);
        assert!(shown.chars().count() < LABEL_CHARS_MAX + 100);
        assert!(shown.ends_with("more characters)"));
        let lines = "line\n".repeat(100_000);
        let shown = message(&lines);
        assert!(shown.lines().count() <= MESSAGE_LINES_MAX + 1);
        assert!(shown.ends_with("… 99800 more lines"));
        assert!(message(&long).len() < LINE_CHARS_MAX + 100);
    }

    #[test]
    fn json_that_was_made_safe_is_read_as_the_same() {
        let value = serde_json::json!({"a": "\u{7f}\u{9b}\u{202e}\u{e0041}\x1b\n"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = on_terminal(&text, false);
        assert!(!shown.contains('\u{202e}'));
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read, value);
    }

    proptest! {
        #[test]
        fn nothing_unsafe_is_left(text in any::<String>(), colours in any::<bool>()) {
            let harmless = |c: char| !is_unsafe(c);
            prop_assert!(clean(&text).chars().all(harmless));
            let lines = |c: char| harmless(c) || matches!(c, '\n' | '\t');
            prop_assert!(message(&text).chars().all(lines));
            let mut shown = on_terminal(&text, colours).replace("\r\n", "\n");
            while let Some((at, end)) = shown.find('\x1b').and_then(|at| {
                colour(&shown[at..]).map(|colour| (at, at + colour.len()))
            }) {
                prop_assert!(colours);
                shown.replace_range(at..end, "");
            }
            prop_assert!(shown.chars().all(lines), "{shown:?}");
        }

        #[test]
        fn bytes_that_are_no_text_are_safe_too(bytes in any::<Vec<u8>>()) {
            let text = String::from_utf8_lossy(&bytes);
            prop_assert!(!clean(&text).chars().any(is_unsafe));
        }

        #[test]
        fn what_is_safe_stays_as_it_is(text in "[ -~äß世\n\t]{0,200}") {
            prop_assert_eq!(on_terminal(&text, false), text.as_str());
            prop_assert_eq!(clean(&clean(&text)), clean(&text));
        }
    }
}
