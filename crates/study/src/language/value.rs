//! What expressions are about, and why one has no value.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A value. Clones share what is large.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Truth(bool),
    /// A number.
    Number(f64),
    /// Text.
    Text(Arc<str>),
    /// Values in order.
    List(Arc<Vec<Value>>),
    /// Fields by name: a step, or a part of one.
    Fields(Arc<BTreeMap<String, Value>>),
}

impl Value {
    /// A list.
    pub(crate) fn list(values: impl IntoIterator<Item = Value>) -> Value {
        Value::List(Arc::new(values.into_iter().collect()))
    }

    /// What kind it is of: `a number`.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Value::Null => "nothing",
            Value::Truth(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Fields(_) => "a step",
        }
    }

    pub(crate) fn number(&self) -> Result<f64, Fault> {
        match self {
            Value::Number(number) => Ok(*number),
            other => Err(Fault::kind("a number", other)),
        }
    }

    pub(crate) fn truth(&self) -> Result<bool, Fault> {
        match self {
            Value::Truth(truth) => Ok(*truth),
            other => Err(Fault::kind("a condition", other)),
        }
    }

    pub(crate) fn text(&self) -> Result<&str, Fault> {
        match self {
            Value::Text(text) => Ok(text),
            other => Err(Fault::kind("text", other)),
        }
    }

    pub(crate) fn items(&self) -> Result<&[Value], Fault> {
        match self {
            Value::List(list) => Ok(list),
            other => Err(Fault::kind("a list", other)),
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Value {
        Value::Truth(truth)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.into())
    }
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault {
    /// A step has no such field: it was not measured.
    NoField(String),
    /// There is nothing of that name.
    NoName(String),
    /// A list is shorter.
    NoItem,
    /// A number that is none (or nothing) was compared.
    NotComparable,
    /// A function found nothing, for this reason.
    Function(String),
    /// The expression makes no sense, for this reason.
    Wrong(String),
}

impl Fault {
    pub(crate) fn kind(want: &str, got: &Value) -> Fault {
        match got {
            Value::Null => Fault::NotComparable,
            got => Fault::Wrong(format!("{} where {want} is needed", got.kind())),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoField(name) => write!(f, "`{name}` was not measured"),
            Fault::NoName(name) => write!(f, "there is no `{name}`"),
            Fault::NoItem => f.write_str("there are fewer steps than it needs"),
            Fault::NotComparable => f.write_str("a number that it needs came out as none"),
            Fault::Function(why) | Fault::Wrong(why) => f.write_str(why),
        }
    }
}
