//! Command lines as users write them. Which files they name is told by [`crate::programs`].
//!
//! Words are split as a POSIX shell splits them (quotes, `$'…'` and backslashes; section 2.2
//! of the Shell Command Language), and nothing is expanded: no variables, no globs, no
//! pipes. Whoever needs a shell names one: `sh -c '…'`.

use std::iter::Peekable;
use std::path::PathBuf;
use std::str::CharIndices;

use crate::trust::Untrusted;

/// Names a folder in which built-in subjects are looked for first.
pub const SUBJECTS_VARIABLE: &str = "WALLFINDER_SUBJECTS";

/// A command line taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// Leading `NAME=value` words.
    pub env: Vec<(String, String)>,
    /// The program as written.
    pub program: String,
    /// What follows it.
    pub args: Vec<String>,
}

/// A command line that cannot be run. The fault is the user's, or something is not built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// There is no program in it.
    #[error("the command is empty")]
    Empty,
    /// A quote is opened and not closed.
    #[error("the {quote} at byte {at} of the command is never closed")]
    OpenQuote {
        /// The quote.
        quote: char,
        /// Its place, in bytes from the start.
        at: usize,
    },
    /// A word holds a zero byte.
    #[error("the command holds a zero byte")]
    ZeroByte,
    /// A program that comes with the tool is not there.
    #[error(
        "`{name}` comes with Wallfinder and is not built (looked in {} and on PATH); run `make subjects`, \
         or set {SUBJECTS_VARIABLE}",
        listed(looked_in, "")
    )]
    NotBuilt {
        /// Its name.
        name: String,
        /// Where it was looked for.
        looked_in: Vec<PathBuf>,
    },
    /// The program was not found.
    #[error(
        "`{program}` was not found on PATH; install it, or give its path{}",
        passed(passed_over)
    )]
    NotFound {
        /// As written.
        program: String,
        /// Entries of PATH that were not looked into, since they mean the current folder.
        passed_over: Vec<PathBuf>,
    },
    /// Somebody else could have put the program there, and this process is root.
    #[error(transparent)]
    Untrusted(Untrusted),
    /// The program's file cannot be executed.
    #[error("{} cannot be executed", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
}

fn passed(over: &[PathBuf]) -> String {
    match over {
        [] => String::new(),
        _ => format!(
            " (entries of PATH that mean the current folder are passed over: {})",
            listed(over, "`")
        ),
    }
}

fn listed(paths: &[PathBuf], quote: &str) -> String {
    let shown = paths
        .iter()
        .map(|path| format!("{quote}{}{quote}", path.display()));
    shown.collect::<Vec<_>>().join(", ")
}

/// Splits a command into words as a shell does. Nothing is expanded.
pub fn split(command: &str) -> Result<Vec<String>, CommandError> {
    if command.contains('\0') {
        return Err(CommandError::ZeroByte);
    }
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = command.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some((_, '\'')) => break,
                        Some((_, c)) => word.push(c),
                        None => return Err(CommandError::OpenQuote { quote: c, at }),
                    }
                }
            }
            '$' if chars.next_if(|(_, c)| *c == '\'').is_some() => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some((_, '\'')) => break,
                        Some((_, '\\')) => word.push_str(&escaped(&mut chars)),
                        Some((_, c)) => word.push(c),
                        None => {
                            return Err(CommandError::OpenQuote {
                                quote: '\'',
                                at: at + 1,
                            });
                        }
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some((_, '"')) => break,
                        Some((_, '\\')) => match chars.next() {
                            Some((_, '\n')) => {}
                            Some((_, c @ ('"' | '\\' | '$' | '`'))) => word.push(c),
                            Some((_, c)) => word.extend(['\\', c]),
                            None => return Err(CommandError::OpenQuote { quote: c, at }),
                        },
                        Some((_, c)) => word.push(c),
                        None => return Err(CommandError::OpenQuote { quote: c, at }),
                    }
                }
            }
            '\\' => match chars.next() {
                Some((_, '\n')) => {}
                Some((_, c)) => word.get_or_insert_default().push(c),
                None => word.get_or_insert_default().push('\\'),
            },
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

/// What a backslash within `$'…'` and what follows it stand for. What has no meaning there stays as it is, and so does
/// a zero byte.
fn escaped(chars: &mut Peekable<CharIndices>) -> String {
    let Some((_, letter)) = chars.next() else {
        return String::new();
    };
    let (digits, base) = match letter {
        'a' => return '\u{7}'.to_string(),
        'b' => return '\u{8}'.to_string(),
        'e' | 'E' => return '\u{1b}'.to_string(),
        'f' => return '\u{c}'.to_string(),
        'n' => return '\n'.to_string(),
        'r' => return '\r'.to_string(),
        't' => return '\t'.to_string(),
        'v' => return '\u{b}'.to_string(),
        '\\' | '\'' | '"' | '?' => return letter.to_string(),
        'x' => (2, 16),
        'u' => (4, 16),
        'U' => (8, 16),
        '0'..='7' => (3, 8),
        _ => return ['\\', letter].iter().collect(),
    };
    let mut number = String::new();
    if base == 8 {
        number.push(letter);
    }
    while number.len() < digits
        && let Some((_, digit)) = chars.next_if(|(_, c)| c.is_digit(base))
    {
        number.push(digit);
    }
    let code = u32::from_str_radix(&number, base).ok();
    match code.filter(|code| *code > 0).and_then(char::from_u32) {
        Some(c) => c.to_string(),
        None if base == 8 => format!("\\{number}"),
        None => format!("\\{letter}{number}"),
    }
}

/// Words as one line that [`split`] takes apart again.
pub fn join<W: AsRef<str>>(words: &[W]) -> String {
    let quoted = |word: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+{}".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word.to_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    let words: Vec<String> = words.iter().map(|word| quoted(word.as_ref())).collect();
    words.join(" ")
}

/// A command with more of its environment in front, as [`CommandLine::parse`] takes it apart.
pub fn with_env<'e>(
    env: impl IntoIterator<Item = (&'e String, &'e String)>,
    command: &str,
) -> String {
    let assignments = env
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"));
    let mut words = vec![join(&assignments.collect::<Vec<_>>())];
    words.retain(|word| !word.is_empty());
    words.push(command.to_owned());
    words.join(" ")
}

impl CommandLine {
    /// Takes a command apart: assignments, program, arguments.
    pub fn parse(command: &str) -> Result<CommandLine, CommandError> {
        let mut words = split(command)?.into_iter().peekable();
        let mut env = Vec::new();
        while let Some(assignment) = words.peek().and_then(|word| assignment(word)) {
            env.push(assignment);
            words.next();
        }
        let program = words
            .next()
            .filter(|word| !word.is_empty())
            .ok_or(CommandError::Empty)?;
        Ok(CommandLine {
            env,
            program,
            args: words.collect(),
        })
    }
}

/// `NAME=value`, where the name is one that a shell takes.
fn assignment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let mut chars = name.chars();
    let starts_well = chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let goes_on_well = chars.all(|c| c.is_ascii_alphanumeric() || c == '_');
    (starts_well && goes_on_well).then(|| (name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_split_as_in_a_shell() {
        // Each checked with `sh -c 'for w in …; do printf "[%s]" "$w"; done'`.
        for (command, words) in [
            ("", &[][..]),
            ("  nginx  -c\tbench.conf\n", &["nginx", "-c", "bench.conf"]),
            (r#"a 'b c' "d e""#, &["a", "b c", "d e"]),
            (r#"-H'X: 1'"2"3"#, &["-HX: 123"]),
            (r#"'' "" x"#, &["", "", "x"]),
            (r"a\ b c\\d", &["a b", r"c\d"]),
            (
                r#""a\"b" "c\d" "e\\f" "\$g""#,
                &["a\"b", r"c\d", r"e\f", "$g"],
            ),
            ("'a\\b'", &["a\\b"]),
            ("a\\\nb", &["ab"]),
            ("$HOME *.rs ~ a|b;c&d", &["$HOME", "*.rs", "~", "a|b;c&d"]),
        ] {
            assert_eq!(
                split(command).as_deref(),
                Ok(&words.iter().map(|w| w.to_string()).collect::<Vec<_>>()[..]),
                "{command}"
            );
        }
        assert_eq!(
            split("a 'b"),
            Err(CommandError::OpenQuote { quote: '\'', at: 2 })
        );
        assert_eq!(
            split("a \"b\\"),
            Err(CommandError::OpenQuote { quote: '"', at: 2 })
        );
    }

    /// As bash splits them, and the shells of POSIX 2024.
    #[test]
    fn quotes_behind_a_dollar_have_escapes() {
        for (command, word) in [
            (r"$'a\nb\tc'", "a\nb\tc"),
            (r"$'it\'s \\ \u0021\x21\041'", "it's \\ !!!"),
            (r#"-d$'{\"a\": 1}'"#, r#"-d{"a": 1}"#),
            (r"$'\q \u00e9 \x00 \ud800'", "\\q é \\x00 \\ud800"),
            (r"a$ 'b'", "a$"),
        ] {
            let words = split(command).expect("it is closed");
            assert_eq!(words[0], word, "{command}");
        }
        assert_eq!(
            split(r"a $'b\'"),
            Err(CommandError::OpenQuote { quote: '\'', at: 3 })
        );
    }

    #[test]
    fn assignments_before_the_program_are_its_environment() {
        let line = CommandLine::parse("GOMAXPROCS=1 A_2='x y' ./server --a=b C=d").expect("fine");
        assert_eq!(
            line.env,
            [
                ("GOMAXPROCS".into(), "1".into()),
                ("A_2".into(), "x y".into())
            ]
        );
        assert_eq!(line.program, "./server");
        assert_eq!(line.args, ["--a=b", "C=d"]);
        assert_eq!(CommandLine::parse(" A=1 "), Err(CommandError::Empty));
        assert_eq!(CommandLine::parse("''"), Err(CommandError::Empty));
    }

    proptest! {
        #[test]
        fn joined_words_split_into_the_same(words in proptest::collection::vec("[^\0]{0,8}", 0..6)) {
            prop_assert_eq!(split(&join(&words)), Ok(words));
        }

        #[test]
        fn an_environment_in_front_is_taken_apart_again(value in "[^\0]{0,8}") {
            let env = std::collections::BTreeMap::from([("GOGC".to_owned(), value.clone())]);
            let line = CommandLine::parse(&with_env(&env, "echo -v")).unwrap();
            prop_assert_eq!(line.env, vec![("GOGC".to_owned(), value)]);
            prop_assert_eq!(line.program, "echo");
        }

        #[test]
        fn no_command_panics(command in ".{0,40}") {
            let _ = CommandLine::parse(&command);
        }
    }
}
