//! What a claim comes to on numbers of choice: steps that nobody measured, field by field.
//!
//! A condition that can come out one way only says nothing of what is measured. Tests look for made-up data
//! on which a claim is confirmed and for others on which it is contradicted; the search is theirs, here are
//! the words to search in and the judgement.
//!
//! It is not the dry run, which asks whether conditions can be evaluated at all ([`crate::dry_run`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wallfinder_model::record::Outcome;

use crate::claims::{Claim, Scope};
use crate::data::Data;
use crate::entry::Entry;
pub use crate::entry::Field;
use crate::expand::StudyStep;
use crate::expression::Expression;
use crate::language::{Node, Tree, Value};
use crate::vocabulary::{FIELDS, PLANNED};
use crate::{Figure, Size};

/// What the conditions of a claim refer to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Words {
    /// Paths of fields that are measured: `client.cores`.
    pub fields: BTreeSet<&'static str>,
    /// Texts: names of groups and drivers or beginnings of them, labels of walls.
    pub texts: BTreeSet<String>,
    /// Numbers, each once.
    pub numbers: Vec<f64>,
    /// Whether it goes through all steps.
    pub all_steps: bool,
}

/// A step of a plan with what was measured of it, by paths of fields. Any may be left out.
#[derive(Debug, Clone)]
pub struct MadeUp<'s> {
    /// Its plan.
    pub planned: &'s StudyStep,
    /// What was measured.
    pub measured: BTreeMap<&'static str, Field>,
}

impl Claim {
    /// What its conditions refer to; its sentences do not count.
    pub fn words(&self) -> Words {
        let mut words = Words::default();
        for condition in self.deciding() {
            let expression: &Expression = &condition.expression;
            words.all_steps |= expression.variables().iter().any(|name| name == "steps");
            collect(expression.tree(), &mut words);
        }
        words.numbers.sort_by(f64::total_cmp);
        words.numbers.dedup();
        words
    }

    /// What it comes to for a driver, where it is judged for each, on made-up steps of a size and with other
    /// figures than its own, where it has some; and why.
    ///
    /// # Errors
    ///
    /// Its conditions are wrong: both are true, or one is no condition.
    pub fn on_made_up(
        &self,
        driver: Option<&str>,
        size: Size,
        steps: &[MadeUp],
        figures: &BTreeMap<String, Figure>,
    ) -> Result<(Outcome, String), String> {
        let entries = steps.iter().map(entry).collect();
        let data = Arc::new(Data::new(size, entries, Vec::new()));
        Scope::with_figures(self, driver, &data, figures).decide(self)
    }
}

fn collect(node: &Node, words: &mut Words) {
    match &node.tree {
        Tree::Literal(Value::Text(text)) => {
            words.texts.insert(text.to_string());
        }
        Tree::Literal(Value::Number(number)) => words.numbers.push(*number),
        Tree::Field { of, name } | Tree::Has { of, name } => {
            let inner = match &of.tree {
                Tree::Field { name: part, .. } => format!("{part}.{name}"),
                _ => name.clone(),
            };
            let known = FIELDS.iter().find(|(path, _, _)| *path == inner);
            if let Some((path, _, _)) = known
                && !PLANNED.contains(path)
            {
                words.fields.insert(path);
            }
        }
        _ => {}
    }
    for child in node.tree.children() {
        collect(child, words);
    }
}

fn entry(step: &MadeUp) -> Entry {
    let planned = step.planned;
    let in_flight = planned.load.in_flight_bound() as f64;
    let number = |path: &str| match step.measured.get(path) {
        Some(Field::Number(number)) => Some(*number),
        _ => None,
    };
    let mut fields: BTreeMap<String, Field> = step
        .measured
        .iter()
        .map(|(path, field)| ((*path).to_owned(), field.clone()))
        .collect();
    let text = |text: &str| Field::Text(text.to_owned());
    let of_plan = [
        ("label", text(&planned.label)),
        ("group", text(&planned.group)),
        ("driver", text(&planned.driver.name)),
        ("path", text(&planned.path)),
        (
            "payload",
            Field::Number(f64::from(planned.payload.unwrap_or(0))),
        ),
        ("round", Field::Number(f64::from(planned.round))),
        (
            "connections",
            Field::Number(f64::from(planned.load.connections)),
        ),
        (
            "depth",
            Field::Number(f64::from(planned.load.in_flight_per_connection)),
        ),
        ("in_flight_max", Field::Number(in_flight)),
    ];
    fields.extend(of_plan.map(|(path, field)| (path.to_owned(), field)));
    Entry {
        in_flight: number("in_flight").unwrap_or(in_flight),
        throughput: number("throughput").unwrap_or(1.0),
        ..Entry::planned(planned, fields)
    }
}
