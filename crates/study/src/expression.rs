//! A CEL expression of a study: compiled, its names checked, its whole numbers made
//! doubles where they meet data.

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use cel::common::types::CelDouble;
use cel::{Context, ExecutionError, Program, Value};

use crate::vocabulary::{FIELDS, FUNCTIONS, VARIABLES};

/// Longest expression.
const CHARS_MAX: usize = 4_000;
/// CEL's own functions that conditions may use; operators are not words.
const BUILTIN: [&str; 9] = [
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
/// Arithmetic that CEL defines on two numbers of the same type only.
const ARITHMETIC: [&str; 5] = ["_+_", "_-_", "_*_", "_/_", "-_"];

/// A compiled expression.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    tree: IdedExpr,
    variables: Vec<String>,
    /// Groups and drivers named in literals: function, literals of its leading arguments.
    pub(crate) named: Vec<(String, Vec<String>)>,
}

/// Why an expression is none, and where in its text (line and column from 1), if known.
#[derive(Debug)]
pub(crate) struct BadExpression {
    pub(crate) message: String,
    pub(crate) at: Option<(usize, usize)>,
    pub(crate) help: Option<String>,
}

impl BadExpression {
    fn new(message: String) -> BadExpression {
        BadExpression {
            message,
            at: None,
            help: None,
        }
    }
}

impl Expression {
    /// Compiles a text. `names` are the variables beside [`VARIABLES`].
    pub(crate) fn compile(text: &str, names: &[&str]) -> Result<Expression, BadExpression> {
        if text.trim().is_empty() {
            return Err(BadExpression::new("an empty expression".to_owned()));
        }
        if text.len() > CHARS_MAX {
            return Err(BadExpression::new(format!(
                "an expression of more than {CHARS_MAX} bytes"
            )));
        }
        let program = Program::compile(text).map_err(|errors| {
            let first = errors.errors.first();
            let place = |n: isize| usize::try_from(n).unwrap_or(1).max(1);
            BadExpression {
                message: first.map_or_else(
                    || "not an expression".to_owned(),
                    |error| format!("not an expression: {}", error.msg),
                ),
                at: first.map(|error| (place(error.pos.0), place(error.pos.1))),
                help: None,
            }
        })?;
        let mut tree = program.expression().clone();
        let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        names.extend(VARIABLES.iter().map(|(name, _)| (*name).to_owned()));
        let mut reader = Reader {
            scope: names,
            used: Vec::new(),
            named: Vec::new(),
        };
        reader.read(&tree)?;
        promote(&mut tree);
        Ok(Expression {
            tree,
            variables: reader.used,
            named: reader.named,
        })
    }

    /// Names of variables that it uses.
    pub(crate) fn variables(&self) -> &[String] {
        &self.variables
    }

    /// Its value.
    pub(crate) fn value(&self, context: &Context) -> Result<Value, ExecutionError> {
        Value::resolve(&self.tree, context)
    }

    /// Its value, which must be true or false.
    pub(crate) fn truth(&self, context: &Context) -> Result<bool, ExecutionError> {
        match self.value(context)? {
            Value::Bool(truth) => Ok(truth),
            other => Err(ExecutionError::UnexpectedType {
                got: other.type_of().to_string(),
                want: "a condition".to_owned(),
            }),
        }
    }
}

/// Reads an expression for the names in it.
struct Reader {
    scope: Vec<String>,
    used: Vec<String>,
    named: Vec<(String, Vec<String>)>,
}

impl Reader {
    fn read(&mut self, expr: &IdedExpr) -> Result<(), BadExpression> {
        match &expr.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => {
                self.read(&select.operand)?;
                field(&select.operand, &select.field)
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => list.elements.iter().try_for_each(|e| self.read(e)),
            Expr::Map(map) => self.entries(map.entries.iter().map(|entry| &entry.expr)),
            Expr::Struct(structure) => {
                self.entries(structure.entries.iter().map(|entry| &entry.expr))
            }
            Expr::Comprehension(comprehension) => {
                self.read(&comprehension.iter_range)?;
                self.read(&comprehension.accu_init)?;
                let depth = self.scope.len();
                self.scope.push(comprehension.iter_var.clone());
                self.scope.extend(comprehension.iter_var2.clone());
                self.scope.push(comprehension.accu_var.clone());
                self.read(&comprehension.loop_cond)?;
                self.read(&comprehension.loop_step)?;
                self.read(&comprehension.result)?;
                self.scope.truncate(depth);
                Ok(())
            }
        }
    }

    fn entries<'e>(
        &mut self,
        entries: impl Iterator<Item = &'e EntryExpr>,
    ) -> Result<(), BadExpression> {
        for entry in entries {
            match entry {
                EntryExpr::StructField(field) => self.read(&field.value)?,
                EntryExpr::MapEntry(entry) => {
                    self.read(&entry.key)?;
                    self.read(&entry.value)?;
                }
            }
        }
        Ok(())
    }

    fn variable(&mut self, name: &str) -> Result<(), BadExpression> {
        if !self.scope.iter().any(|known| known == name) && !name.starts_with('@') {
            let known: Vec<&str> = self.scope.iter().map(String::as_str).collect();
            return Err(BadExpression {
                message: format!("there is no variable `{name}`"),
                at: None,
                help: Some(format!("known: {}", known.join(", "))),
            });
        }
        if !self.used.iter().any(|used| used == name) {
            self.used.push(name.to_owned());
        }
        Ok(())
    }

    fn call(&mut self, call: &CallExpr) -> Result<(), BadExpression> {
        let name = call.func_name.as_str();
        let word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && name.starts_with(|c: char| c.is_ascii_alphabetic());
        let ours = |(signature, _): &(&str, &str)| signature.split('(').next() == Some(name);
        let known = FUNCTIONS.iter().find(|function| ours(function));
        if word && known.is_none() && !BUILTIN.contains(&name) {
            let list: Vec<&str> = FUNCTIONS.iter().map(|(signature, _)| *signature).collect();
            return Err(BadExpression {
                message: format!("there is no function `{name}`"),
                at: None,
                help: Some(format!(
                    "known: {}, {}",
                    list.join(", "),
                    BUILTIN.join(", ")
                )),
            });
        }
        if let Some((signature, _)) = known {
            let arguments = signature.matches(',').count() + 1;
            if call.args.len() != arguments || call.target.is_some() {
                return Err(BadExpression::new(format!(
                    "`{signature}` is called otherwise"
                )));
            }
            let literals: Vec<String> = call.args.iter().map_while(literal).collect();
            if signature.contains("group") {
                self.named.push((name.to_owned(), literals));
            }
        }
        if let Some(target) = &call.target {
            self.read(target)?;
        }
        call.args
            .iter()
            .try_for_each(|argument| self.read(argument))
    }
}

/// A literal as text; empty for what is not known before evaluation.
fn literal(expr: &IdedExpr) -> Option<String> {
    Some(match &expr.expr {
        Expr::Literal(LiteralValue::String(text)) => text.inner().to_owned(),
        Expr::Literal(LiteralValue::Int(number)) => number.inner().to_string(),
        _ => String::new(),
    })
}

/// Whether a selected name is a field of a step, or of one of its parts.
fn field(operand: &IdedExpr, name: &str) -> Result<(), BadExpression> {
    let is_part = |name: &str| {
        let mut outer = FIELDS
            .iter()
            .filter_map(|(path, _, _)| path.split_once('.'));
        outer.any(|(outer, _)| outer == name)
    };
    let part = match &operand.expr {
        Expr::Select(select) if is_part(&select.field) => Some(&select.field),
        _ => None,
    };
    let known = FIELDS
        .iter()
        .any(|(path, _, _)| match (path.split_once('.'), part) {
            (Some((outer, inner)), Some(part)) => outer == part && inner == name,
            (Some((outer, _)), None) => outer == name,
            (None, None) => *path == name,
            (None, Some(_)) => false,
        });
    if known {
        return Ok(());
    }
    let list: Vec<&str> = FIELDS
        .iter()
        .map(|(path, _, _)| *path)
        .filter(|path| part.is_none_or(|part| path.starts_with(&format!("{part}."))))
        .collect();
    let whose = part.map_or(String::new(), |part| format!("{part}."));
    Err(BadExpression {
        message: format!("a step has no field `{whose}{name}`"),
        at: None,
        help: Some(format!("known: {}", list.join(", "))),
    })
}

/// Whole numbers in arithmetic become doubles: all data are, and CEL does not mix them.
fn promote(expr: &mut IdedExpr) {
    match &mut expr.expr {
        Expr::Call(call) => {
            let arithmetic = ARITHMETIC.contains(&call.func_name.as_str());
            // What macros count with stays whole.
            let counts = call.args.iter().any(
                |argument| matches!(&argument.expr, Expr::Ident(name) if name.starts_with('@')),
            );
            if arithmetic && !counts {
                call.args.iter_mut().for_each(to_double);
            }
            if let Some(target) = &mut call.target {
                promote(target);
            }
            call.args.iter_mut().for_each(promote);
        }
        Expr::Select(select) => promote(&mut select.operand),
        Expr::List(list) => {
            list.elements.iter_mut().for_each(to_double);
            list.elements.iter_mut().for_each(promote);
        }
        Expr::Comprehension(comprehension) => {
            promote(&mut comprehension.iter_range);
            promote(&mut comprehension.loop_cond);
            promote(&mut comprehension.loop_step);
        }
        _ => {}
    }
}

fn to_double(expr: &mut IdedExpr) {
    match &expr.expr {
        Expr::Literal(LiteralValue::Int(whole)) => {
            let double = CelDouble::from(*whole.inner() as f64);
            expr.expr = Expr::Literal(LiteralValue::Double(double));
        }
        Expr::Call(call) if call.func_name == "size" => {
            let size = std::mem::take(expr);
            expr.id = size.id;
            expr.expr = Expr::Call(CallExpr {
                func_name: "double".to_owned(),
                target: None,
                args: vec![size],
            });
        }
        _ => {}
    }
}
