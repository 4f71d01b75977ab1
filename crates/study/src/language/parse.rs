//! From text to tree: a scanner, and a parser by how tightly operators bind (Pratt, "Top down operator precedence", 1973).

use super::tree::{Binary, Each, Node, Tree};
use super::value::Value;

/// Brackets and operators inside of each other, at the most.
pub(super) const DEPTH_MAX: usize = 64;
/// Nodes on the way from the root to a leaf, at the most.
const TREE_DEPTH_MAX: usize = 256;

/// Why a text is no expression, and the byte at which that shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BadText {
    pub(crate) at: usize,
    pub(crate) message: String,
}

impl BadText {
    fn new(at: usize, message: impl Into<String>) -> BadText {
        BadText {
            at,
            message: message.into(),
        }
    }
}

/// Reads a text as one expression.
pub(crate) fn parse(text: &str) -> Result<Node, BadText> {
    let tokens = scan(text)?;
    let mut parser = Parser {
        tokens,
        next: 0,
        depth: 0,
        end: text.len(),
    };
    let node = parser.expression()?;
    if let Some(more) = parser.peek() {
        let message = format!("{} where the expression should have ended", more.shown());
        return Err(BadText::new(parser.at(), message));
    }
    match is_deeper(&node, TREE_DEPTH_MAX) {
        true => Err(BadText::new(node.at, "it is too long a chain of operators")),
        false => Ok(node),
    }
}

/// Whether there is a leaf below so many nodes. It is looked for without recursion: a chain such as `a + b + c` is as deep as it
/// is long.
fn is_deeper(root: &Node, most: usize) -> bool {
    let mut below = vec![(root, 1)];
    while let Some((node, depth)) = below.pop() {
        if depth > most {
            return true;
        }
        below.extend(
            node.tree
                .children()
                .into_iter()
                .map(|child| (child, depth + 1)),
        );
    }
    false
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Number(f64),
    Text(String),
    Word(String),
    /// An operator or a bracket.
    Mark(&'static str),
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Token::Number(number) => format!("`{number}`"),
            Token::Text(_) => "a text".to_owned(),
            Token::Word(word) => format!("`{word}`"),
            Token::Mark(mark) => format!("`{mark}`"),
        }
    }
}

/// Longer ones before those that they begin with.
const MARKS: [&str; 23] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "+", "-", "*", "/", "%", "?", ":", "(", ")",
    "[", "]", ",", ".", "@",
];

fn scan(text: &str) -> Result<Vec<(usize, Token)>, BadText> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let first = rest.chars().next().unwrap_or(' ');
        if first.is_whitespace() {
            at += first.len_utf8();
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if first.is_ascii_digit() {
            let (number, bytes) = number(rest).map_err(|why| BadText::new(at, why))?;
            tokens.push((at, Token::Number(number)));
            at += bytes;
        } else if first == '"' || first == '\'' {
            let (read, bytes) = quoted(rest, first).map_err(|why| BadText::new(at, why))?;
            tokens.push((at, Token::Text(read)));
            at += bytes;
        } else if first.is_ascii_alphabetic() || first == '_' {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let bytes = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push((at, Token::Word(rest[..bytes].to_owned())));
            at += bytes;
        } else {
            let mark = MARKS.into_iter().find(|mark| rest.starts_with(mark));
            let mark = mark.filter(|mark| *mark != "@").ok_or_else(|| {
                let help = match first {
                    '=' => "; equality is `==`",
                    '&' | '|' => "; write `&&` or `||`",
                    _ => "",
                };
                BadText::new(at, format!("`{first}` has no meaning here{help}"))
            })?;
            tokens.push((at, Token::Mark(mark)));
            at += mark.len();
        }
    }
    Ok(tokens)
}

/// The number that a text begins with, and its bytes.
fn number(text: &str) -> Result<(f64, usize), String> {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        let more = bytes[from..].iter().take_while(|b| b.is_ascii_digit());
        from + more.count()
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    if bytes
        .get(end)
        .is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
    {
        return Err("a number runs into a word".to_owned());
    }
    let number = text[..end].parse::<f64>().map_err(|e| e.to_string())?;
    match number.is_finite() {
        true => Ok((number, end)),
        false => Err("a number that is too large".to_owned()),
    }
}

/// The quoted text that a text begins with, and its bytes.
fn quoted(text: &str, quote: char) -> Result<(String, usize), String> {
    let mut read = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\n' => break,
            '\\' => {
                let escaped = chars.next().map(|(_, c)| c);
                read.push(match escaped {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some(c @ ('\\' | '"' | '\'')) => c,
                    _ => return Err("a `\\` that escapes nothing; write `\\\\`".to_owned()),
                });
            }
            c if c == quote => return Ok((read, at + 1)),
            c => read.push(c),
        }
    }
    Err(format!("a text without its closing `{quote}`"))
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    depth: usize,
    end: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |(at, _)| *at)
    }

    /// Takes a mark, if it is next.
    fn takes(&mut self, mark: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Mark(next)) if *next == mark);
        self.next += usize::from(is_next);
        is_next
    }

    fn needs(&mut self, mark: &str) -> Result<(), BadText> {
        match self.takes(mark) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("`{mark}`"))),
        }
    }

    fn unexpected(&self, wanted: &str) -> BadText {
        let found = self.peek().map_or("the end".to_owned(), Token::shown);
        BadText::new(self.at(), format!("{found} where {wanted} should be"))
    }

    /// One deeper, if that is not too deep.
    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Parser) -> Result<T, BadText>,
    ) -> Result<T, BadText> {
        if self.depth == DEPTH_MAX {
            let message = format!("it is more than {DEPTH_MAX} brackets and operators deep");
            return Err(BadText::new(self.at(), message));
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    /// `a ? b : c`, or what binds more tightly.
    fn expression(&mut self) -> Result<Node, BadText> {
        self.deeper(|parser| {
            let asked = parser.binary(1)?;
            if !parser.takes("?") {
                return Ok(asked);
            }
            let yes = parser.expression()?;
            parser.needs(":")?;
            let no = parser.expression()?;
            Ok(Node {
                at: asked.at,
                tree: Tree::Choice {
                    asked: Box::new(asked),
                    yes: Box::new(yes),
                    no: Box::new(no),
                },
            })
        })
    }

    /// Operands with operators between them that bind at least so tightly.
    fn binary(&mut self, least: u8) -> Result<Node, BadText> {
        let mut left = self.unary()?;
        while let Some((how, binds)) = self.operator().filter(|(_, binds)| *binds >= least) {
            self.next += 1;
            let right = self.deeper(|parser| parser.binary(binds + 1))?;
            left = Node {
                at: left.at,
                tree: Tree::Binary {
                    how,
                    left: Box::new(left),
                    right: Box::new(right),
                },
            };
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(Binary, u8)> {
        let written = match self.peek()? {
            Token::Mark(mark) => mark,
            Token::Word(word) if word == "in" => "in",
            _ => return None,
        };
        let mut all = Binary::ALL.into_iter();
        all.find_map(|(name, how, binds)| (name == written).then_some((how, binds)))
    }

    fn unary(&mut self) -> Result<Node, BadText> {
        let at = self.at();
        let make: fn(Box<Node>) -> Tree = if self.takes("!") {
            Tree::Not
        } else if self.takes("-") {
            Tree::Negative
        } else {
            return self.postfix();
        };
        let of = self.deeper(Parser::unary)?;
        Ok(Node {
            at,
            tree: make(Box::new(of)),
        })
    }

    /// An operand with the fields, places and calls behind it.
    fn postfix(&mut self) -> Result<Node, BadText> {
        let mut node = self.operand()?;
        loop {
            let at = node.at;
            let tree = if self.takes(".") {
                self.member(node)?
            } else if self.takes("[") {
                let place = self.expression()?;
                self.needs("]")?;
                Tree::Item {
                    of: Box::new(node),
                    at: Box::new(place),
                }
            } else {
                return Ok(node);
            };
            node = Node { at, tree };
        }
    }

    /// What stands behind a full stop.
    fn member(&mut self, of: Node) -> Result<Tree, BadText> {
        let name = self.word("the name of a field")?;
        if !self.takes("(") {
            let of = Box::new(of);
            return Ok(Tree::Field { of, name });
        }
        let each = Each::ALL.into_iter().find(|(each, _)| *each == name);
        if let Some((_, how)) = each {
            return self.each(how, of);
        }
        let mut arguments = vec![of];
        arguments.extend(self.list(")")?);
        Ok(Tree::Call {
            name,
            is_method: true,
            arguments,
        })
    }

    /// `variable, asked)` of a macro; `map` has what it makes, too.
    fn each(&mut self, how: Each, over: Node) -> Result<Tree, BadText> {
        let variable = self.word("the name of a variable")?;
        self.needs(",")?;
        let first = Box::new(self.expression()?);
        let second = match how == Each::Map && self.takes(",") {
            true => Some(Box::new(self.expression()?)),
            false => None,
        };
        self.needs(")")?;
        let (asked, value) = match (how, second) {
            (Each::Map, None) => (None, Some(first)),
            (_, second) => (Some(first), second),
        };
        Ok(Tree::Each {
            how,
            over: Box::new(over),
            variable,
            asked,
            value,
            notes: false,
        })
    }

    fn word(&mut self, wanted: &str) -> Result<String, BadText> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.next += 1;
                Ok(word)
            }
            _ => Err(self.unexpected(wanted)),
        }
    }

    fn operand(&mut self) -> Result<Node, BadText> {
        let at = self.at();
        let Some(token) = self.peek().cloned() else {
            return Err(self.unexpected("a value"));
        };
        let tree = match token {
            Token::Number(number) => self.literal(Value::Number(number)),
            Token::Text(text) => self.literal(Value::from(text.as_str())),
            Token::Word(word) => self.named(word)?,
            Token::Mark("(") => {
                self.next += 1;
                let inner = self.expression()?;
                self.needs(")")?;
                return Ok(inner);
            }
            Token::Mark("[") => {
                self.next += 1;
                Tree::List(self.list("]")?)
            }
            Token::Mark(_) => return Err(self.unexpected("a value")),
        };
        Ok(Node { at, tree })
    }

    fn literal(&mut self, value: Value) -> Tree {
        self.next += 1;
        Tree::Literal(value)
    }

    /// A literal word, a name or a call.
    fn named(&mut self, word: String) -> Result<Tree, BadText> {
        match word.as_str() {
            "true" => return Ok(self.literal(Value::Truth(true))),
            "false" => return Ok(self.literal(Value::Truth(false))),
            "null" => return Ok(self.literal(Value::Null)),
            "in" => return Err(self.unexpected("a value")),
            _ => self.next += 1,
        }
        if !self.takes("(") {
            return Ok(Tree::Name(word));
        }
        let at = self.at();
        let mut arguments = self.list(")")?;
        if word != "has" {
            return Ok(Tree::Call {
                name: word,
                is_method: false,
                arguments,
            });
        }
        match (arguments.pop().map(|node| node.tree), arguments.pop()) {
            (Some(Tree::Field { of, name }), None) => Ok(Tree::Has { of, name }),
            _ => Err(BadText::new(
                at,
                "`has` asks for a field, as in `has(s.payload)`",
            )),
        }
    }

    /// Expressions with commas between them, up to a bracket. A comma may stand before it.
    fn list(&mut self, end: &str) -> Result<Vec<Node>, BadText> {
        let mut items = Vec::new();
        while !self.takes(end) {
            if !items.is_empty() {
                self.needs(",")?;
                if self.takes(end) {
                    break;
                }
            }
            items.push(self.expression()?);
        }
        Ok(items)
    }
}
