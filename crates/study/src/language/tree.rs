//! An expression as a tree, and where its nodes stand in the text.

use super::Value;

/// A node, and the byte of the text at which it begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: usize,
    pub(crate) tree: Tree,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree {
    Literal(Value),
    Name(String),
    /// `of.name`.
    Field {
        of: Box<Node>,
        name: String,
    },
    /// `has(of.name)`.
    Has {
        of: Box<Node>,
        name: String,
    },
    /// `of[at]`.
    Item {
        of: Box<Node>,
        at: Box<Node>,
    },
    List(Vec<Node>),
    /// `name(arguments)`, or `of.name(arguments)` with what it is of as the first of them.
    Call {
        name: String,
        is_method: bool,
        arguments: Vec<Node>,
    },
    Not(Box<Node>),
    Negative(Box<Node>),
    Binary {
        how: Binary,
        left: Box<Node>,
        right: Box<Node>,
    },
    /// `asked ? yes : no`.
    Choice {
        asked: Box<Node>,
        yes: Box<Node>,
        no: Box<Node>,
    },
    /// `over.how(variable, asked, value)`.
    Each {
        how: Each,
        over: Box<Node>,
        variable: String,
        /// A condition of each; of `map` only where there are two.
        asked: Option<Box<Node>>,
        /// What `map` makes of each.
        value: Option<Box<Node>>,
        /// Whether the steps of a ramp are looked at only where they pass.
        notes: bool,
    },
}

impl Tree {
    /// Nodes below.
    pub(crate) fn children(&self) -> Vec<&Node> {
        match self {
            Tree::Literal(_) | Tree::Name(_) => Vec::new(),
            Tree::Field { of, .. } | Tree::Has { of, .. } => vec![of],
            Tree::Not(of) | Tree::Negative(of) => vec![of],
            Tree::Item { of, at } => vec![of, at],
            Tree::List(items) => items.iter().collect(),
            Tree::Call { arguments, .. } => arguments.iter().collect(),
            Tree::Binary { left, right, .. } => vec![left, right],
            Tree::Choice { asked, yes, no } => vec![asked, yes, no],
            Tree::Each {
                over, asked, value, ..
            } => {
                let inner = asked.iter().chain(value).map(|node| &**node);
                std::iter::once(&**over).chain(inner).collect()
            }
        }
    }

    /// The same, to be changed.
    pub(crate) fn children_mut(&mut self) -> Vec<&mut Node> {
        match self {
            Tree::Literal(_) | Tree::Name(_) => Vec::new(),
            Tree::Field { of, .. } | Tree::Has { of, .. } => vec![of],
            Tree::Not(of) | Tree::Negative(of) => vec![of],
            Tree::Item { of, at } => vec![of, at],
            Tree::List(items) => items.iter_mut().collect(),
            Tree::Call { arguments, .. } => arguments.iter_mut().collect(),
            Tree::Binary { left, right, .. } => vec![left, right],
            Tree::Choice { asked, yes, no } => vec![asked, yes, no],
            Tree::Each {
                over, asked, value, ..
            } => {
                let inner = asked.iter_mut().chain(value).map(|node| &mut **node);
                std::iter::once(&mut **over).chain(inner).collect()
            }
        }
    }
}

/// An operator between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
    In,
    Plus,
    Minus,
    Times,
    Over,
    Modulo,
}

impl Binary {
    /// Every operator as it is written, and how tightly it binds.
    pub(crate) const ALL: [(&'static str, Binary, u8); 14] = [
        ("||", Binary::Or, 1),
        ("&&", Binary::And, 2),
        ("==", Binary::Equal, 3),
        ("!=", Binary::Unequal, 3),
        ("<=", Binary::AtMost, 3),
        (">=", Binary::AtLeast, 3),
        ("<", Binary::Less, 3),
        (">", Binary::More, 3),
        ("in", Binary::In, 3),
        ("+", Binary::Plus, 4),
        ("-", Binary::Minus, 4),
        ("*", Binary::Times, 5),
        ("/", Binary::Over, 5),
        ("%", Binary::Modulo, 5),
    ];
}

/// What is done with each value of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Each {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

impl Each {
    pub(crate) const ALL: [(&'static str, Each); 5] = [
        ("all", Each::All),
        ("exists", Each::Exists),
        ("exists_one", Each::ExistsOne),
        ("filter", Each::Filter),
        ("map", Each::Map),
    ];
}
