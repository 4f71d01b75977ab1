//! One value out of a text of JSON, by pointer (RFC 6901), without making anything of the rest.
//!
//! What is passed over is not judged: a text that is broken behind the value, or in a string that is no key, gives the
//! value all the same. A text that ends before it gives none.

/// A pointer, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pointer(Vec<Vec<u8>>);

/// A value as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found<'t> {
    /// What stands between the quotes of a string, escapes as they are.
    Text(&'t [u8]),
    /// Anything else.
    Other(&'t [u8]),
}

impl Pointer {
    /// Of `""`, the whole, or `/a/0/b`; else `None`.
    pub(crate) fn parse(text: &str) -> Option<Pointer> {
        if text.is_empty() {
            return Some(Pointer(Vec::new()));
        }
        let token = |token: &str| token.replace("~1", "/").replace("~0", "~").into_bytes();
        let tokens = text.strip_prefix('/')?.split('/');
        Some(Pointer(tokens.map(token).collect()))
    }

    /// What it points at.
    pub(crate) fn find<'t>(&self, text: &'t [u8]) -> Option<Found<'t>> {
        let mut scan = Scan { text, at: 0 };
        for token in &self.0 {
            match scan.peek()? {
                b'{' => scan.go_to_member(token)?,
                b'[' => scan.go_to_element(token)?,
                _ => return None,
            }
        }
        let found = scan.value()?;
        // A number or a word that nothing ends may go on where the text was cut off.
        let may_go_on =
            matches!(found, Found::Other(raw) if !raw.ends_with(b"}") && !raw.ends_with(b"]"));
        let is_whole = self.0.is_empty() || !may_go_on || scan.at < text.len();
        is_whole.then_some(found)
    }
}

struct Scan<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Scan<'t> {
    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Goes to the value of a member of the object that begins here.
    fn go_to_member(&mut self, name: &[u8]) -> Option<()> {
        self.expect(b'{')?;
        while self.peek()? == b'"' {
            let key = self.string()?;
            self.expect(b':')?;
            if is_key(key, name) {
                return Some(());
            }
            self.value()?;
            if self.peek()? != b',' {
                return None;
            }
            self.at += 1;
        }
        None
    }

    /// Goes to an element of the list that begins here.
    fn go_to_element(&mut self, token: &[u8]) -> Option<()> {
        let nth: usize = std::str::from_utf8(token).ok()?.parse().ok()?;
        self.expect(b'[')?;
        for _ in 0..nth {
            if self.peek()? == b']' {
                return None;
            }
            self.value()?;
            self.expect(b',')?;
        }
        (self.peek()? != b']').then_some(())
    }

    /// Passes a string; what stands in it.
    fn string(&mut self) -> Option<&'t [u8]> {
        self.expect(b'"')?;
        let from = self.at;
        loop {
            match self.text.get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(&self.text[from..self.at - 1])
    }

    /// Passes a value, and gives it.
    fn value(&mut self) -> Option<Found<'t>> {
        match self.peek()? {
            b'"' => self.string().map(Found::Text),
            b'{' | b'[' => self.nested().map(Found::Other),
            _ => {
                let rest = &self.text[self.at..];
                let is_end = |byte: &u8| b",]} \t\r\n".contains(byte);
                let len = rest.iter().position(is_end).unwrap_or(rest.len());
                self.at += len;
                (len > 0).then(|| Found::Other(&rest[..len]))
            }
        }
    }

    /// Passes an object or a list, however deep, without a call of its own for each.
    fn nested(&mut self) -> Option<&'t [u8]> {
        let (from, mut depth) = (self.at, 0_usize);
        loop {
            match self.text.get(self.at)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(&self.text[from..self.at]);
            }
        }
    }
}

/// Whether a key, escapes as they are, is this name.
fn is_key(key: &[u8], name: &[u8]) -> bool {
    if !key.contains(&b'\\') {
        return key == name;
    }
    let (mut rest, mut is_same) = (name, true);
    let ended = unescape(key, |part| match rest.strip_prefix(part) {
        Some(left) => rest = left,
        None => is_same = false,
    });
    ended && is_same && rest.is_empty()
}

/// Gives what stands in a string, in pieces; `false` where an escape is none.
pub(crate) fn unescape(text: &[u8], mut to: impl FnMut(&[u8])) -> bool {
    let mut rest = text;
    loop {
        let plain = rest.iter().take_while(|byte| **byte != b'\\').count();
        to(&rest[..plain]);
        let Some(escape) = rest[plain..].get(1) else {
            return plain == rest.len();
        };
        let mut len = 2;
        match escape {
            b'"' | b'\\' | b'/' => to(&[*escape]),
            b'b' => to(b"\x08"),
            b'f' => to(b"\x0c"),
            b'n' => to(b"\n"),
            b'r' => to(b"\r"),
            b't' => to(b"\t"),
            b'u' => {
                let Some((letter, escape_len)) = letter(&rest[plain..]) else {
                    return false;
                };
                to(letter.encode_utf8(&mut [0; 4]).as_bytes());
                len = escape_len;
            }
            _ => return false,
        }
        rest = &rest[plain + len..];
    }
}

/// The letter of `\uXXXX`, or of two of them that make one, and how long they are.
fn letter(text: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let digits = std::str::from_utf8(digits).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    match unit(0)? {
        high @ 0xd800..0xdc00 => {
            let low = unit(6)?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
            Some((
                char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + low)?,
                12,
            ))
        }
        unit => Some((char::from_u32(unit)?, 6)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn found(text: &str, pointer: &str) -> Option<String> {
        let pointer = Pointer::parse(pointer)?;
        match pointer.find(text.as_bytes())? {
            Found::Text(raw) => {
                let mut all = Vec::new();
                unescape(raw, |part| all.extend_from_slice(part)).then_some(())?;
                String::from_utf8(all).ok()
            }
            Found::Other(raw) => Some(String::from_utf8_lossy(raw).into_owned()),
        }
    }

    #[test]
    fn a_pointer_finds_its_value() {
        let text = r#" {"a": {"b": [1, {"c/d": "x\"y\u00e9\ud83d\ude00"}, true], "": null}, "a\u0062": -1.5e3} "#;
        for (pointer, value) in [
            ("/a/b/0", Some("1")),
            ("/a/b/1/c~1d", Some("x\"y\u{e9}\u{1f600}")),
            ("/a/b/2", Some("true")),
            ("/a/", Some("null")),
            ("/ab", Some("-1.5e3")),
            ("/a/b/3", None),
            ("/a/b/x", None),
            ("/z", None),
            ("/a/b/0/c", None),
            ("a", None),
        ] {
            assert_eq!(found(text, pointer).as_deref(), value, "{pointer}");
        }
        assert_eq!(found("[[],{}]", "").as_deref(), Some("[[],{}]"));
    }

    #[test]
    fn a_text_that_breaks_off_gives_nothing_and_ends() {
        let text = r#"{"a": [1, {"b": "c\"#;
        for end in 0..text.len() {
            assert_eq!(found(&text[..end], "/a/1/b"), None, "{end}");
        }
        let number = r#"{"id": 12345"#;
        for end in 0..=number.len() {
            assert_eq!(found(&number[..end], "/id"), None, "{end}");
        }
        assert!(found(r#"{"id": 12345 "#, "/id").is_some());
        assert!(found("12345", "").is_some());
        let deep = "[".repeat(100_000);
        assert_eq!(found(&deep, "/0/0/0"), None);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i32>().prop_map(|n| Value::Number(n.into())),
            "\\PC{0,8}|[\\x00-\\x7f\"\\\\]{0,6}".prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
                prop::collection::btree_map("[a-c~/\"\\\\\u{e9}]{0,3}", inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// Every pointer into a value, with what it points at.
    fn all(value: &Value, at: String, into: &mut Vec<(String, Value)>) {
        into.push((at.clone(), value.clone()));
        match value {
            Value::Array(list) => {
                for (nth, inner) in list.iter().enumerate() {
                    all(inner, format!("{at}/{nth}"), into);
                }
            }
            Value::Object(members) => {
                for (key, inner) in members {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    all(inner, format!("{at}/{key}"), into);
                }
            }
            _ => {}
        }
    }

    proptest! {
        /// As a whole parser finds it, however the text is laid out.
        #[test]
        fn what_is_found_is_what_is_there(value in any_json(), is_pretty in any::<bool>()) {
            let text = match is_pretty {
                true => serde_json::to_string_pretty(&value).unwrap(),
                false => value.to_string(),
            };
            let mut pointers = Vec::new();
            all(&value, String::new(), &mut pointers);
            for (pointer, expected) in pointers {
                let found = found(&text, &pointer).expect("it is there");
                match expected {
                    Value::String(expected) => prop_assert_eq!(found, expected),
                    expected => prop_assert_eq!(serde_json::from_str::<Value>(&found).unwrap(), expected),
                }
            }
        }

        /// Whatever the bytes, a search ends, and inside them.
        #[test]
        fn any_bytes_end_a_search(text in prop::collection::vec(any::<u8>(), 0..60), pointer in "(/[a0-2]?){0,3}") {
            if let Some(pointer) = Pointer::parse(&pointer)
                && let Some(Found::Text(raw)) = pointer.find(&text)
            {
                unescape(raw, |_| ());
            }
        }
    }
}
