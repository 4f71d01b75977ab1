//! An expression of a study: read, its names checked, its filters of ramps made to say what passes them.
//!
//! A claim rests on all steps that it looks at. Where a filter asks of a step only what its plan
//! has, those that do not pass are none of them, whatever was measured; where it asks what was
//! measured, a step that does not pass had its part in the outcome. So such a filter goes through a ramp whose steps are not
//! noted as looked at, and notes those that pass.

use crate::language::{BUILT_IN, Context, Each, Fault, Node, Notes, Tree, Value, parse};
use crate::vocabulary::{FIELDS, FUNCTIONS, PLANNED, VARIABLES};

/// Longest expression.
const CHARS_MAX: usize = 4_000;
/// What `ramp` is where its steps say themselves which of them are looked at; and how they do. No
/// text can name them.
pub(crate) const UNSEEN_RAMP: &str = "@ramp";
pub(crate) const SEEN: &str = "@seen";
const NOTES: Notes = Notes {
    unseen: UNSEEN_RAMP,
    seen: SEEN,
};

/// An expression that was read and checked.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    text: String,
    tree: Node,
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
    /// Reads a text. `names` are the variables beside [`VARIABLES`].
    pub(crate) fn compile(text: &str, names: &[&str]) -> Result<Expression, BadExpression> {
        if text.trim().is_empty() {
            return Err(BadExpression::new("an empty expression".to_owned()));
        }
        if text.len() > CHARS_MAX {
            return Err(BadExpression::new(format!(
                "an expression of more than {CHARS_MAX} bytes"
            )));
        }
        let mut tree = parse(text).map_err(|bad| BadExpression {
            message: format!("not an expression: {}", bad.message),
            at: Some(place(text, bad.at)),
            help: None,
        })?;
        let mut scope: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        scope.extend(VARIABLES.iter().map(|(name, _)| (*name).to_owned()));
        let mut reader = Reader {
            text,
            scope,
            used: Vec::new(),
            names_rounds: false,
            named: Vec::new(),
        };
        reader.read(&tree)?;
        narrow(&mut tree);
        Ok(Expression {
            text: text.to_owned(),
            tree,
            variables: reader.used,
            names_rounds: reader.names_rounds,
            named: reader.named,
        })
    }

    /// As it is written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The expression itself.
    pub(crate) fn tree(&self) -> &Node {
        &self.tree
    }

    /// Names of variables that it uses.
    pub(crate) fn variables(&self) -> &[String] {
        &self.variables
    }

    /// Its value.
    pub(crate) fn value(&self, context: &Context) -> Result<Value, Fault> {
        context.value(&self.tree, &NOTES)
    }

    /// Its value, which must be true or false.
    pub(crate) fn truth(&self, context: &Context) -> Result<bool, Fault> {
        self.value(context)?.truth()
    }
}

/// Line and column of a byte of a text, from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or(before);
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// Reads an expression for the names in it.
struct Reader<'t> {
    text: &'t str,
    scope: Vec<String>,
    used: Vec<String>,
    names_rounds: bool,
    named: Vec<(String, Vec<String>)>,
}

impl Reader<'_> {
    fn bad(&self, node: &Node, message: String, help: Option<String>) -> BadExpression {
        BadExpression {
            message,
            at: Some(place(self.text, node.at)),
            help,
        }
    }

    fn read(&mut self, node: &Node) -> Result<(), BadExpression> {
        match &node.tree {
            Tree::Name(name) => return self.variable(node, name),
            Tree::Field { of, name } | Tree::Has { of, name } => {
                self.names_rounds |= name == "round";
                self.field(node, of, name)?;
            }
            Tree::Call {
                name, arguments, ..
            } => self.call(node, name, arguments)?,
            Tree::Each {
                over,
                variable,
                asked,
                value,
                ..
            } => {
                self.read(over)?;
                self.scope.push(variable.clone());
                let inner = asked.iter().chain(value);
                inner.into_iter().try_for_each(|node| self.read(node))?;
                self.scope.pop();
                return Ok(());
            }
            _ => {}
        }
        let children = node.tree.children();
        children.into_iter().try_for_each(|child| self.read(child))
    }

    fn variable(&mut self, node: &Node, name: &str) -> Result<(), BadExpression> {
        if !self.scope.iter().any(|known| known == name) {
            let help = format!("known: {}", self.scope.join(", "));
            return Err(self.bad(node, format!("there is no variable `{name}`"), Some(help)));
        }
        if !self.used.iter().any(|used| used == name) {
            self.used.push(name.to_owned());
        }
        Ok(())
    }

    fn call(&mut self, node: &Node, name: &str, arguments: &[Node]) -> Result<(), BadExpression> {
        let ours = |(signature, _): &(&str, &str)| signature.split('(').next() == Some(name);
        let Some((signature, _)) = FUNCTIONS.iter().find(|function| ours(function)) else {
            if BUILT_IN.contains(&name) {
                return Ok(());
            }
            let known: Vec<&str> = FUNCTIONS.iter().map(|(signature, _)| *signature).collect();
            let help = format!("known: {}, {}", known.join(", "), BUILT_IN.join(", "));
            return Err(self.bad(node, format!("there is no function `{name}`"), Some(help)));
        };
        let is_method = matches!(
            node.tree,
            Tree::Call {
                is_method: true,
                ..
            }
        );
        if arguments.len() != signature.matches(',').count() + 1 || is_method {
            return Err(self.bad(node, format!("`{signature}` is called otherwise"), None));
        }
        if signature.contains("group") {
            let mut literals: Vec<String> = arguments.iter().map(literal).collect();
            // These ask which sizes and clients there are: made-up data answer it.
            if name.ends_with("_of") {
                literals.truncate(2);
            }
            self.named.push((name.to_owned(), literals));
        }
        Ok(())
    }

    /// Whether a selected name is a field of a step, or of one of its parts.
    fn field(&self, node: &Node, of: &Node, name: &str) -> Result<(), BadExpression> {
        let is_part = |name: &str| {
            let mut outer = FIELDS
                .iter()
                .filter_map(|(path, _, _)| path.split_once('.'));
            outer.any(|(outer, _)| outer == name)
        };
        let part = match &of.tree {
            Tree::Field { name, .. } if is_part(name) => Some(name),
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
        let help = format!("known: {}", list.join(", "));
        Err(self.bad(
            node,
            format!("a step has no field `{whose}{name}`"),
            Some(help),
        ))
    }
}

/// A literal as text; empty for what is not known before evaluation.
fn literal(node: &Node) -> String {
    match &node.tree {
        Tree::Literal(Value::Text(text)) => text.to_string(),
        Tree::Literal(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// Filters of ramps by what is planned note the steps that pass, and ramps under them none.
fn narrow(node: &mut Node) {
    if let Tree::Each {
        how: Each::Filter | Each::Map,
        over,
        variable,
        asked: Some(asked),
        notes,
        ..
    } = &mut node.tree
    {
        let is_ramp = matches!(&over.tree, Tree::Call { name, .. } if name == "ramp");
        *notes = is_ramp && is_of_plan(asked, variable);
    }
    node.tree.children_mut().into_iter().for_each(narrow);
}

/// Whether an expression asks of the step in a variable only what its plan has.
fn is_of_plan(node: &Node, variable: &str) -> bool {
    match &node.tree {
        Tree::Name(name) => name != variable,
        Tree::Field { of, name } | Tree::Has { of, name } => match &of.tree {
            Tree::Name(of) if of == variable => PLANNED.contains(&name.as_str()),
            _ => is_of_plan(of, variable),
        },
        // Rare, and taken for what was measured.
        Tree::Each { .. } => false,
        tree => {
            let mut children = tree.children().into_iter();
            children.all(|child| is_of_plan(child, variable))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_narrowed(text: &str) -> bool {
        let compiled = Expression::compile(text, &["driver", "top", "sizes"]).unwrap();
        format!("{:?}", compiled.tree).contains("notes: true")
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
