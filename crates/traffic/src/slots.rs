//! Places in a text: `{users.term}`, `{token}`, each with how it is spelled behind a bar: `{users.term|raw}`.
//!
//! Other braces stand for themselves, so that JSON need not be written otherwise; `{{name}}` stands for `{name}`.

use std::collections::BTreeMap;

use wallfinder_wire::mix::{Piece, Slot, Spelling, Text, Value};

/// What names stand for, in one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    /// Tables by name: their numbers, and their columns.
    pub(crate) tables: BTreeMap<String, (u16, Vec<String>)>,
    /// What earlier steps took.
    pub(crate) variables: BTreeMap<String, u16>,
    /// What set-up took.
    pub(crate) known: BTreeMap<String, u16>,
}

/// A piece of a text as it was written.
#[derive(Debug, PartialEq, Eq)]
enum Written<'t> {
    Plain(&'t str),
    Place {
        name: &'t str,
        spelling: Option<&'t str>,
    },
}

/// The text with its places resolved; each is spelled so unless it says otherwise.
pub(crate) fn text(given: &str, usual: Spelling, scope: &Scope) -> Result<Text, String> {
    let mut pieces: Vec<Piece> = Vec::new();
    let push = |pieces: &mut Vec<Piece>, bytes: &[u8]| match pieces.last_mut() {
        _ if bytes.is_empty() => {}
        Some(Piece::Fixed(last)) => last.extend_from_slice(bytes),
        _ => pieces.push(Piece::Fixed(bytes.to_vec())),
    };
    for written in split(given) {
        match written {
            Written::Plain(plain) => push(&mut pieces, plain.as_bytes()),
            Written::Place { name, spelling } => {
                let spelling = spelling.map_or(Ok(usual), |given| spelling_of(given, usual))?;
                let value = scope.value(name)?;
                pieces.push(Piece::Slot(Slot { value, spelling }));
            }
        }
    }
    Ok(Text(pieces))
}

/// Where a bar says how.
fn spelling_of(given: &str, usual: Spelling) -> Result<Spelling, String> {
    Ok(match given {
        "url" => Spelling::Url,
        "json" => Spelling::Json,
        // In a path a value of several segments is let through, and nothing that would end it.
        "raw" if matches!(usual, Spelling::Url | Spelling::Path) => Spelling::Path,
        "raw" => Spelling::Raw,
        other => {
            return Err(format!(
                "`|{other}` is no way to spell a value: there are |url, |json and |raw"
            ));
        }
    })
}

impl Scope {
    fn value(&self, name: &str) -> Result<Value, String> {
        if let Some((of, column)) = name.split_once('.') {
            let Some((table, columns)) = self.tables.get(of) else {
                let there: Vec<&String> = self.tables.keys().collect();
                return Err(format!(
                    "`{{{name}}}`: there is no [data.{of}]{}; braces that stand for themselves are doubled: {{{{{name}}}}}",
                    listed(&there)
                ));
            };
            let at = columns.iter().position(|known| known == column);
            let at = at.ok_or_else(|| {
                let there: Vec<&String> = columns.iter().collect();
                format!(
                    "`{{{name}}}`: [data.{of}] has no column `{column}`{}",
                    listed(&there)
                )
            })?;
            return Ok(Value::Column {
                table: *table,
                column: at as u16,
            });
        }
        if let Some(variable) = self.variables.get(name) {
            return Ok(Value::Variable(*variable));
        }
        if let Some(known) = self.known.get(name) {
            return Ok(Value::Known(*known));
        }
        let there: Vec<&String> = self.variables.keys().chain(self.known.keys()).collect();
        Err(format!(
            "`{{{name}}}`: no earlier step takes `{name}`{}; a column is written {{data.column}}, and braces that \
             stand for themselves are doubled: {{{{{name}}}}}",
            listed(&there)
        ))
    }
}

fn listed(names: &[&String]) -> String {
    match names {
        [] => String::new(),
        names => {
            let names: Vec<String> = names
                .iter()
                .take(20)
                .map(|name| format!("`{name}`"))
                .collect();
            format!(" (there is {})", names.join(", "))
        }
    }
}

/// Splits a text at its places.
fn split(given: &str) -> Vec<Written<'_>> {
    let mut pieces = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(brace) = given[at..].find('{').map(|found| at + found) {
        let rest = &given[brace..];
        let doubled = rest.strip_prefix('{').filter(|rest| rest.starts_with('{'));
        match (doubled.and_then(place), place(rest)) {
            // `{{name}}`: the outer braces go.
            (Some((_, _, len)), _) if rest[1 + len..].starts_with('}') => {
                pieces.push(Written::Plain(&given[from..brace]));
                pieces.push(Written::Plain(&rest[1..=len]));
                from = brace + len + 2;
                at = from;
            }
            (_, Some((name, spelling, len))) => {
                pieces.push(Written::Plain(&given[from..brace]));
                pieces.push(Written::Place { name, spelling });
                from = brace + len;
                at = from;
            }
            (_, None) => at = brace + 1,
        }
    }
    pieces.push(Written::Plain(&given[from..]));
    pieces.retain(|piece| *piece != Written::Plain(""));
    pieces
}

/// A text that says the same without places: braces that would be read as one are doubled.
pub(crate) fn literal(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    let (mut from, mut at) = (0, 0);
    while let Some(brace) = text[at..].find('{').map(|found| at + found) {
        match place(&text[brace..]) {
            Some((_, _, len)) => {
                all.push_str(&text[from..brace]);
                all.push('{');
                all.push_str(&text[brace..brace + len]);
                all.push('}');
                from = brace + len;
                at = from;
            }
            None => at = brace + 1,
        }
    }
    all + &text[from..]
}

/// A place at the beginning of a text: its name, how it is spelled, and its length with its braces.
fn place(text: &str) -> Option<(&str, Option<&str>, usize)> {
    let inner = text.strip_prefix('{')?;
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_-.|".contains(c);
    let end = inner.find(|c: char| !is_of_name(c))?;
    if !inner[end..].starts_with('}') {
        return None;
    }
    let inner = &inner[..end];
    let (name, spelling) = match inner.split_once('|') {
        Some((name, spelling)) => (name, Some(spelling)),
        None => (inner, None),
    };
    let mut words = name.split('.');
    let is_name = words.clone().count() <= 2 && words.all(is_word);
    let is_spelled = spelling.is_none_or(is_word);
    (is_name && is_spelled).then_some((name, spelling, end + 2))
}

/// A name that a place may have: a letter, then letters, digits, `_`, `-`.
pub(crate) fn is_word(text: &str) -> bool {
    let mut letters = text.chars();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scope() -> Scope {
        Scope {
            tables: [(
                "users".to_owned(),
                (0, vec!["name".to_owned(), "term".to_owned()]),
            )]
            .into(),
            variables: [("token".to_owned(), 3)].into(),
            known: [("key".to_owned(), 1)].into(),
        }
    }

    #[test]
    fn places_are_resolved_and_other_braces_stand_for_themselves() {
        let of = |given: &str| text(given, Spelling::Json, &scope()).expect(given).0;
        let fixed = |text: &str| Piece::Fixed(text.as_bytes().to_vec());
        let slot = |value, spelling| Piece::Slot(Slot { value, spelling });
        let name = Value::Column {
            table: 0,
            column: 0,
        };
        assert_eq!(
            of(r#"{"user": "{users.name}", "n": {}, "t": {token|raw}}"#),
            [
                fixed(r#"{"user": ""#),
                slot(name, Spelling::Json),
                fixed(r#"", "n": {}, "t": "#),
                slot(Value::Variable(3), Spelling::Raw),
                fixed("}"),
            ]
        );
        assert_eq!(
            of("{{name}} {{users.name}}"),
            [fixed("{name} {users.name}")]
        );
        assert_eq!(
            of("{{token} {"),
            [
                fixed("{"),
                slot(Value::Variable(3), Spelling::Json),
                fixed(" {")
            ]
        );
        assert_eq!(of("{ token }{}"), [fixed("{ token }{}")]);
        let path = text("/k/{key}", Spelling::Url, &scope()).unwrap().0;
        let key = slot(Value::Known(1), Spelling::Url);
        assert_eq!(path, [fixed("/k/"), key]);
    }

    #[test]
    fn what_stands_for_nothing_is_told_with_what_there_is() {
        for (given, part) in [
            ("{user.name}", "no [data.user] (there is `users`)"),
            ("{users.nam}", "no column `nam` (there is `name`, `term`)"),
            (
                "{tokn}",
                "no earlier step takes `tokn` (there is `token`, `key`)",
            ),
            ("{token|hex}", "|url, |json and |raw"),
        ] {
            let why = text(given, Spelling::Raw, &scope()).expect_err(given);
            assert!(why.contains(part), "{why}");
        }
    }

    proptest! {
        /// A text whose braces are all doubled is what it says.
        #[test]
        fn doubled_braces_are_single_ones(words in prop::collection::vec("[a-z]{1,5}", 1..5)) {
            let doubled: String = words.iter().map(|word| format!("{{{{{word}}}}} ")).collect();
            let single: String = words.iter().map(|word| format!("{{{word}}} ")).collect();
            let made = text(&doubled, Spelling::Raw, &Scope::default()).unwrap();
            prop_assert_eq!(made, Text::fixed(single));
        }

        /// Whatever a text holds, it can be written without places.
        #[test]
        fn a_literal_says_what_it_is(given in "[{}a.|\" ]{0,30}") {
            let made = text(&literal(&given), Spelling::Raw, &Scope::default()).unwrap();
            prop_assert_eq!(made, Text::fixed(given));
        }

        /// Any text is split without loss.
        #[test]
        fn nothing_is_lost(given in "[{}a.|\" ]{0,30}") {
            let whole: usize = split(&given).iter().map(|piece| match piece {
                Written::Plain(plain) => plain.len(),
                Written::Place { name, spelling } => {
                    name.len() + 2 + spelling.map_or(0, |spelling| spelling.len() + 1)
                }
            }).sum();
            prop_assert!(whole <= given.len());
            prop_assert_eq!((given.len() - whole) % 2, 0);
        }
    }
}
