//! A CEL expression of a study: compiled, its names checked, its whole numbers made
//! doubles where they meet data, its filters of ramps made to say what passes them.
//!
//! ```text
//!  ramp(g, d).filter(s, s.payload == 64)
//!  @ramp(g, d).filter(s, s.payload == 64 ? @seen(s.label) : false)
//! ```
//!
//! A claim rests on all steps that it looks at. Where a filter asks of a step only what its plan
//! has, those that do not pass are none of them, whatever was measured; where it asks what was
//! measured, a step that does not pass had its part in the outcome.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr,
};
use cel::common::types::{CelBool, CelDouble};
use cel::{Context, ExecutionError, Program, Value};

use crate::vocabulary::{FIELDS, FUNCTIONS, PLANNED, VARIABLES};

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
/// CEL's choice between two by a condition.
const CONDITIONAL: &str = "_?_:_";
/// What `ramp` is where its steps say themselves which of them are looked at; and how they do. No
/// text can name them.
pub(crate) const UNSEEN_RAMP: &str = "@ramp";
pub(crate) const SEEN: &str = "@seen";

/// A compiled expression.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    tree: IdedExpr,
    variables: Vec<String>,
    /// Whether it asks which round a step is of.
    pub(crate) names_rounds: bool,
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
            names_rounds: false,
            named: Vec::new(),
        };
        reader.read(&tree)?;
        promote(&mut tree);
        narrow(&mut tree);
        Ok(Expression {
            tree,
            variables: reader.used,
            names_rounds: reader.names_rounds,
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
    names_rounds: bool,
    named: Vec<(String, Vec<String>)>,
}

impl Reader {
    fn read(&mut self, expr: &IdedExpr) -> Result<(), BadExpression> {
        match &expr.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => {
                self.read(&select.operand)?;
                self.names_rounds |= select.field == "round";
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
            let mut literals: Vec<String> = call.args.iter().map_while(literal).collect();
            if signature.contains("group") {
                // These ask which sizes and clients there are: made-up data answer it.
                if name.ends_with("_of") {
                    literals.truncate(2);
                }
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

/// Filters of ramps by what is planned note the steps that pass, and ramps under them none.
fn narrow(expr: &mut IdedExpr) {
    match &mut expr.expr {
        Expr::Comprehension(comprehension) => {
            narrow(&mut comprehension.iter_range);
            narrow(&mut comprehension.loop_cond);
            narrow(&mut comprehension.loop_step);
            note_what_passes(comprehension);
        }
        Expr::Call(call) => {
            if let Some(target) = &mut call.target {
                narrow(target);
            }
            call.args.iter_mut().for_each(narrow);
        }
        Expr::Select(select) => narrow(&mut select.operand),
        Expr::List(list) => list.elements.iter_mut().for_each(narrow),
        _ => {}
    }
}

/// The steps of `filter` and `map` with a condition are `condition ? result + [...] : result`.
fn note_what_passes(comprehension: &mut ComprehensionExpr) {
    let Expr::Call(ramp) = &mut comprehension.iter_range.expr else {
        return;
    };
    let Expr::Call(step) = &mut comprehension.loop_step.expr else {
        return;
    };
    let var = &comprehension.iter_var;
    if ramp.func_name != "ramp" || step.func_name != CONDITIONAL {
        return;
    }
    let Some(condition) = step.args.first_mut().filter(|asked| is_of_plan(asked, var)) else {
        return;
    };
    let id = condition.id;
    let made = |expr: Expr| IdedExpr { id, expr };
    let call = |name: &str, args: Vec<IdedExpr>| {
        made(Expr::Call(CallExpr {
            func_name: name.to_owned(),
            target: None,
            args,
        }))
    };
    let label = made(Expr::Select(SelectExpr {
        operand: Box::new(made(Expr::Ident(var.clone()))),
        field: "label".to_owned(),
        test: false,
    }));
    let passes = std::mem::take(condition);
    let no = made(Expr::Literal(LiteralValue::Boolean(CelBool::from(false))));
    *condition = call(CONDITIONAL, vec![passes, call(SEEN, vec![label]), no]);
    ramp.func_name = UNSEEN_RAMP.to_owned();
}

/// Whether an expression asks of the step in a variable only what its plan has.
fn is_of_plan(expr: &IdedExpr, var: &str) -> bool {
    match &expr.expr {
        Expr::Unspecified | Expr::Literal(_) => true,
        Expr::Ident(name) => name != var,
        Expr::Select(select) => match &select.operand.expr {
            Expr::Ident(name) if name == var => PLANNED.contains(&select.field.as_str()),
            _ => is_of_plan(&select.operand, var),
        },
        Expr::Call(call) => {
            let target = call.target.as_ref();
            target.is_none_or(|target| is_of_plan(target, var))
                && call.args.iter().all(|argument| is_of_plan(argument, var))
        }
        Expr::List(list) => list.elements.iter().all(|element| is_of_plan(element, var)),
        // Rare, and taken for what was measured.
        Expr::Comprehension(_) | Expr::Map(_) | Expr::Struct(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_narrowed(text: &str) -> bool {
        let compiled = Expression::compile(text, &["driver", "top", "sizes"]).unwrap();
        let tree = format!("{:?}", compiled.tree);
        assert_eq!(tree.contains(UNSEEN_RAMP), tree.contains(SEEN), "{tree}");
        tree.contains(SEEN)
    }

    #[test]
    fn a_filter_by_the_plan_notes_what_passes() {
        for text in [
            r#"ramp("tcp", driver).filter(s, s.payload == 64.0)"#,
            r#"max(ramp("tcp", driver).filter(s, s.payload in [64, 256]).map(s, s.mean_ms))"#,
            r#"size(ramp("tcp", driver).filter(s, s.in_flight_max > top.in_flight)) > 2"#,
            r#"ramp("tcp", driver).map(s, has(s.payload) && s.round == 1.0, s.mean_ms)"#,
            r#"[ramp("tcp", driver).filter(s, true)[0].throughput]"#,
        ] {
            assert!(is_narrowed(text), "{text}");
        }
    }

    #[test]
    fn a_filter_by_what_was_measured_looks_at_all_steps() {
        for text in [
            r#"ramp("tcp", driver)"#,
            r#"ramp("tcp", driver).map(s, s.payload)"#,
            r#"ramp("tcp", driver).filter(s, s.throughput > 1.0)"#,
            r#"ramp("tcp", driver).filter(s, s.payload == 64.0 && s.client.utilisation > 0.5)"#,
            r#"ramp("tcp", driver).filter(s, s.payload == 64.0 && s == top)"#,
            r#"ramp("tcp", driver).filter(s, sizes.exists(p, p < s.mean_ms))"#,
            r#"ramp("tcp", driver).all(s, s.payload == 64.0)"#,
            r#"(ramp("tcp", driver) + ramp("rest", driver)).filter(s, s.payload == 64.0)"#,
        ] {
            assert!(!is_narrowed(text), "{text}");
        }
    }

    #[test]
    fn what_a_plan_has_are_fields_of_a_step() {
        let is_field = |name: &&str| FIELDS.iter().any(|(path, _, _)| path == name);
        assert!(PLANNED.iter().all(is_field));
    }

    #[test]
    fn it_is_known_who_names_rounds() {
        let names = |text: &str| Expression::compile(text, &[]).unwrap().names_rounds;
        assert!(names(
            r#"ramp("a", "b").filter(s, s.round == 1.0)[0].payload > 1.0"#
        ));
        assert!(!names(r#"rounds("a", "b", 64, 1)[0].payload > 1.0"#));
    }

    #[test]
    fn nobody_can_name_what_notes() {
        assert!(Expression::compile("@seen('a')", &[]).is_err());
        assert!(Expression::compile("@ramp('a', 'b')", &[]).is_err());
    }
}
