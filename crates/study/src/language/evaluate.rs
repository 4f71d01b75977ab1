//! From tree to value.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use super::tree::{Binary, Each, Node, Tree};
use super::value::{Fault, Value};

/// Nodes that one evaluation looks at, at the most: some seconds of work.
const WORK_MAX: u64 = 5_000_000;

/// A function of arguments.
type Function = Box<dyn Fn(&[Value]) -> Result<Value, Fault>>;

/// What names and functions mean.
#[derive(Default)]
pub(crate) struct Context {
    names: BTreeMap<String, Value>,
    functions: BTreeMap<&'static str, Function>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// Gives a name a value, in the place of one that it had.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.names.insert(name.to_owned(), value.into());
    }

    /// Declares a function. It is given as many arguments as a checked expression has.
    pub(crate) fn declare(
        &mut self,
        name: &'static str,
        function: impl Fn(&[Value]) -> Result<Value, Fault> + 'static,
    ) {
        let before = self.functions.insert(name, Box::new(function));
        assert!(before.is_none(), "two functions are called {name}");
    }

    /// Calls a declared function.
    pub(crate) fn call(&self, name: &str, arguments: &[Value]) -> Result<Value, Fault> {
        match self.functions.get(name) {
            Some(function) => function(arguments),
            None => built_in(name, arguments),
        }
    }

    /// The value of an expression. `passes` is called with each step that a filter of a ramp lets through, where its steps are
    /// noted so.
    pub(crate) fn value(&self, node: &Node, notes: &Notes) -> Result<Value, Fault> {
        let run = Run {
            context: self,
            notes,
            left: Cell::new(WORK_MAX),
        };
        run.value(node, None)
    }
}

/// What stands in for a function whose result is looked at step by step, and what is told of each step that passes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notes {
    /// The function in whose place another is called.
    pub(crate) unseen: &'static str,
    /// The function that is told the label of a step that passes.
    pub(crate) seen: &'static str,
}

struct Run<'r> {
    context: &'r Context,
    notes: &'r Notes,
    left: Cell<u64>,
}

/// Variables of the lists that are gone through, the innermost first.
struct Scope<'s> {
    name: &'s str,
    value: &'s Value,
    outer: Option<&'s Scope<'s>>,
}

impl Run<'_> {
    fn value(&self, node: &Node, scope: Option<&Scope>) -> Result<Value, Fault> {
        let Some(left) = self.left.get().checked_sub(1) else {
            return Err(Fault::Wrong("it takes too long to evaluate".to_owned()));
        };
        self.left.set(left);
        let value = |node: &Node| self.value(node, scope);
        match &node.tree {
            Tree::Literal(literal) => Ok(literal.clone()),
            Tree::Name(name) => self.name(name, scope),
            Tree::Field { of, name } => field(&value(of)?, name),
            Tree::Has { of, name } => match field(&value(of)?, name) {
                Ok(_) => Ok(Value::Truth(true)),
                Err(Fault::NoField(_)) => Ok(Value::Truth(false)),
                Err(other) => Err(other),
            },
            Tree::Item { of, at } => item(&value(of)?, &value(at)?),
            Tree::List(items) => Ok(Value::list(
                items.iter().map(value).collect::<Result<Vec<_>, _>>()?,
            )),
            Tree::Call {
                name, arguments, ..
            } => {
                let arguments = arguments.iter().map(value).collect::<Result<Vec<_>, _>>()?;
                self.context.call(name, &arguments)
            }
            Tree::Not(of) => Ok(Value::Truth(!value(of)?.truth()?)),
            Tree::Negative(of) => Ok(Value::Number(-value(of)?.number()?)),
            Tree::Binary { how, left, right } => match how {
                Binary::Or => Ok(Value::Truth(
                    value(left)?.truth()? || value(right)?.truth()?,
                )),
                Binary::And => Ok(Value::Truth(
                    value(left)?.truth()? && value(right)?.truth()?,
                )),
                how => binary(*how, &value(left)?, &value(right)?),
            },
            Tree::Choice { asked, yes, no } => match value(asked)?.truth()? {
                true => value(yes),
                false => value(no),
            },
            Tree::Each { .. } => self.each(node, scope),
        }
    }

    fn name(&self, name: &str, mut scope: Option<&Scope>) -> Result<Value, Fault> {
        while let Some(inner) = scope {
            if inner.name == name {
                return Ok(inner.value.clone());
            }
            scope = inner.outer;
        }
        let found = self.context.names.get(name).cloned();
        found.ok_or_else(|| Fault::NoName(name.to_owned()))
    }

    /// What is gone through; a ramp's steps are not noted here where those that pass are.
    fn range(&self, over: &Node, notes: bool, scope: Option<&Scope>) -> Result<Value, Fault> {
        match &over.tree {
            Tree::Call { arguments, .. } if notes => {
                let arguments = arguments.iter().map(|node| self.value(node, scope));
                let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
                self.context.call(self.notes.unseen, &arguments)
            }
            _ => self.value(over, scope),
        }
    }

    fn each(&self, node: &Node, outer: Option<&Scope>) -> Result<Value, Fault> {
        let Tree::Each {
            how,
            over,
            variable,
            asked,
            value,
            notes,
        } = &node.tree
        else {
            return self.value(node, outer);
        };
        let range = self.range(over, *notes, outer)?;
        let mut made = Vec::new();
        let mut passed = 0usize;
        for item in range.items()? {
            let scope = Scope {
                name: variable,
                value: item,
                outer,
            };
            let passes = match asked {
                Some(asked) => self.value(asked, Some(&scope))?.truth()?,
                None => true,
            };
            match (how, passes) {
                (Each::All, false) => return Ok(Value::Truth(false)),
                (Each::Exists, true) => return Ok(Value::Truth(true)),
                (_, false) => continue,
                _ => passed += 1,
            }
            if *notes {
                self.context
                    .call(self.notes.seen, &[field(item, "label")?])?;
            }
            match (how, value) {
                (Each::Filter, _) => made.push(item.clone()),
                (Each::Map, Some(value)) => made.push(self.value(value, Some(&scope))?),
                _ => {}
            }
        }
        Ok(match how {
            Each::All => Value::Truth(true),
            Each::Exists => Value::Truth(false),
            Each::ExistsOne => Value::Truth(passed == 1),
            Each::Filter | Each::Map => Value::list(made),
        })
    }
}

fn field(of: &Value, name: &str) -> Result<Value, Fault> {
    match of {
        Value::Fields(fields) => {
            let found = fields.get(name).cloned();
            found.ok_or_else(|| Fault::NoField(name.to_owned()))
        }
        other => Err(Fault::kind("a step", other)),
    }
}

fn item(of: &Value, at: &Value) -> Result<Value, Fault> {
    let (items, place) = (of.items()?, at.number()?);
    if place.fract() != 0.0 {
        return Err(Fault::Wrong(format!("{place} is no place in a list")));
    }
    if place < 0.0 || place >= items.len() as f64 {
        return Err(Fault::NoItem);
    }
    Ok(items[place as usize].clone())
}

fn binary(how: Binary, left: &Value, right: &Value) -> Result<Value, Fault> {
    let numbers = || Ok::<_, Fault>((left.number()?, right.number()?));
    let number = |of: fn(f64, f64) -> f64| {
        let (left, right) = numbers()?;
        Ok(Value::Number(of(left, right)))
    };
    match how {
        // They do not look at what they need not look at.
        Binary::Or => Ok(Value::Truth(left.truth()? || right.truth()?)),
        Binary::And => Ok(Value::Truth(left.truth()? && right.truth()?)),
        Binary::Equal => Ok(Value::Truth(left == right)),
        Binary::Unequal => Ok(Value::Truth(left != right)),
        Binary::Less => Ok(Value::Truth(order(left, right)?.is_lt())),
        Binary::AtMost => Ok(Value::Truth(order(left, right)?.is_le())),
        Binary::More => Ok(Value::Truth(order(left, right)?.is_gt())),
        Binary::AtLeast => Ok(Value::Truth(order(left, right)?.is_ge())),
        Binary::In => match right {
            Value::Fields(fields) => Ok(Value::Truth(fields.contains_key(left.text()?))),
            list => Ok(Value::Truth(list.items()?.contains(left))),
        },
        Binary::Plus => match (left, right) {
            (Value::List(left), Value::List(right)) => {
                Ok(Value::list(left.iter().chain(right.iter()).cloned()))
            }
            (Value::Text(left), Value::Text(right)) => {
                Ok(Value::from(format!("{left}{right}").as_str()))
            }
            _ => number(|a, b| a + b),
        },
        Binary::Minus => number(|a, b| a - b),
        Binary::Times => number(|a, b| a * b),
        Binary::Over => number(|a, b| a / b),
        Binary::Modulo => number(|a, b| a % b),
    }
}

fn order(left: &Value, right: &Value) -> Result<std::cmp::Ordering, Fault> {
    let none = match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.partial_cmp(right),
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        (Value::Null, _) | (_, Value::Null) => None,
        _ => {
            let (left, right) = (left.kind(), right.kind());
            let why = format!("{left} cannot be more or less than {right}");
            return Err(Fault::Wrong(why));
        }
    };
    none.ok_or(Fault::NotComparable)
}

/// The language's own functions.
pub(crate) const BUILT_IN: [&str; 9] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "double",
    "int",
    "string",
    "has",
    "bool",
];

fn built_in(name: &str, arguments: &[Value]) -> Result<Value, Fault> {
    let no_value = |of: &Value| Fault::Wrong(format!("`{name}` of {} has no value", of.kind()));
    match (name, arguments) {
        ("size", [Value::Text(text)]) => Ok(Value::Number(text.chars().count() as f64)),
        ("size", [list]) => Ok(Value::Number(list.items()?.len() as f64)),
        ("contains", [text, part]) => Ok(Value::Truth(text.text()?.contains(part.text()?))),
        ("startsWith", [text, part]) => Ok(Value::Truth(text.text()?.starts_with(part.text()?))),
        ("endsWith", [text, part]) => Ok(Value::Truth(text.text()?.ends_with(part.text()?))),
        ("double", [Value::Text(text)]) => {
            let number = text.trim().parse::<f64>().ok();
            number
                .map(Value::Number)
                .ok_or_else(|| no_value(&arguments[0]))
        }
        ("double", [number]) => Ok(Value::Number(number.number()?)),
        ("int", [number]) => Ok(Value::Number(number.number()?.trunc())),
        ("bool", [truth]) => Ok(Value::Truth(truth.truth()?)),
        ("string", [Value::Text(text)]) => Ok(Value::Text(text.clone())),
        ("string", [Value::Number(number)]) => Ok(Value::from(number.to_string().as_str())),
        ("string", [Value::Truth(truth)]) => Ok(Value::from(truth.to_string().as_str())),
        ("string", [other]) => Err(no_value(other)),
        (name, arguments) if BUILT_IN.contains(&name) => Err(Fault::Wrong(format!(
            "`{name}` does not take {} arguments",
            arguments.len()
        ))),
        (name, _) => Err(Fault::NoName(name.to_owned())),
    }
}
