//! Functions that find steps and compare numbers, in the context of a condition.
//!
//! A function that finds nothing fails with the reason, which becomes the reason why the
//! claim stays open.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use cel::extractors::Arguments;
use cel::{Context, ExecutionError, Value};
use wallfinder_judge::compare::RatioInterval;
use wallfinder_judge::rounds::{self, ByRound};

use crate::data::Data;
use crate::entry::Entry;
use crate::expression::{SEEN, UNSEEN_RAMP};

impl Data {
    /// A context in which conditions are evaluated; with `steps` where they use it, for CEL
    /// copies what it is given.
    pub(crate) fn context(self: &Arc<Data>, with_steps: bool) -> Context<'static, 'static> {
        let mut context = Context::default();
        if with_steps {
            context.add_variable_from_value("steps", self.all.clone());
        }
        context.add_variable_from_value("size", self.size.label());
        let pick = |name: &'static str, choose: fn(Vec<&Entry>) -> Option<&Entry>| {
            let data = Arc::clone(self);
            move |group: Arc<String>, driver: Arc<String>| -> Result<Value, ExecutionError> {
                let found = data
                    .ramp(&group, &driver)
                    .map_err(|why| ExecutionError::function_error(name, why))?;
                // A ramp that was found has a step.
                Ok(choose(found).map_or(Value::Null, Entry::value))
            }
        };
        declare(context.add_function("best", pick("best", most)));
        declare(context.add_function("first", pick("first", |found| found.first().copied())));
        declare(context.add_function("last", pick("last", |found| found.last().copied())));
        let pairs = Pairs::default();
        self.ramps(&mut context);
        self.finders(&mut context, &pairs);
        self.places(&mut context);
        numbers(&mut context, &pairs);
        context
    }

    fn ramps(self: &Arc<Data>, context: &mut Context<'static, 'static>) {
        let data = Arc::clone(self);
        declare(
            context.add_function("ramp", move |group: Arc<String>, driver: Arc<String>| {
                steps("ramp", data.ramp(&group, &driver))
            }),
        );
        let data = Arc::clone(self);
        declare(context.add_function(
            UNSEEN_RAMP,
            move |group: Arc<String>, driver: Arc<String>| {
                steps("ramp", data.unseen_ramp(&group, &driver))
            },
        ));
        let data = Arc::clone(self);
        declare(context.add_function(SEEN, move |label: Arc<String>| {
            data.look_at_label(&label);
            true
        }));
    }

    fn finders(self: &Arc<Data>, context: &mut Context<'static, 'static>, pairs: &Pairs) {
        let data = Arc::clone(self);
        let pairs = pairs.clone();
        declare(context.add_function(
            "rounds",
            move |group: Arc<String>, driver: Arc<String>, payload: Value, clients: Value| {
                let (payload, clients) = (number(&payload)?, number(&clients)?);
                let found = data
                    .cell(&group, &driver, payload, clients)
                    .map_err(|why| ExecutionError::function_error("rounds", why))?;
                pairs.note(&found);
                let all: Vec<Value> = found.into_iter().map(Entry::value).collect();
                Ok::<Value, ExecutionError>(Value::List(Arc::new(all)))
            },
        ));
        let data = Arc::clone(self);
        declare(
            context.add_function("ran", move |group: Arc<String>, driver: Arc<String>| {
                data.has(&group, &driver)
            }),
        );
        let data = Arc::clone(self);
        declare(
            context.add_function("drivers_of", move |group: Arc<String>| -> Value {
                let mut names: Vec<&str> = Vec::new();
                for entry in data.entries.iter().filter(|entry| entry.group == *group) {
                    if !names.contains(&entry.driver.as_str()) {
                        names.push(&entry.driver);
                    }
                }
                Value::List(Arc::new(names.into_iter().map(Value::from).collect()))
            }),
        );
        let data = Arc::clone(self);
        declare(context.add_function(
            "at",
            move |group: Arc<String>, driver: Arc<String>, connections: Value| {
                let wanted = number(&connections)?;
                let found = data
                    .unseen_ramp(&group, &driver)
                    .map_err(|why| ExecutionError::function_error("at", why))?;
                let found = found
                    .into_iter()
                    .find(|entry| f64::from(entry.connections) == wanted)
                    .ok_or_else(|| {
                        let why = format!(
                            "`{group}` with {driver} at {wanted} connections is not part of size {}",
                            data.size
                        );
                        ExecutionError::function_error("at", why)
                    })?;
                data.look_at([found]);
                Ok::<Value, ExecutionError>(found.value())
            },
        ));
    }

    /// What was run, which is no look at any step.
    fn places(self: &Arc<Data>, context: &mut Context<'static, 'static>) {
        let data = Arc::clone(self);
        declare(context.add_function(
            "sizes_of",
            move |group: Arc<String>, driver: Arc<String>, clients: Value| {
                data.sizes_of(&group, &driver, number(&clients)?)
                    .map(list)
                    .map_err(|why| ExecutionError::function_error("sizes_of", why))
            },
        ));
        let data = Arc::clone(self);
        declare(context.add_function(
            "clients_of",
            move |group: Arc<String>, driver: Arc<String>, payload: Value| {
                data.clients_of(&group, &driver, number(&payload)?)
                    .map(list)
                    .map_err(|why| ExecutionError::function_error("clients_of", why))
            },
        ));
    }
}

/// Which rounds the cells have that a context looked at. Lists of numbers are paired by their
/// places, which is right only where cells with as many rounds have the same ones.
#[derive(Clone, Default)]
struct Pairs(Arc<Mutex<BTreeSet<Vec<u32>>>>);

impl Pairs {
    fn note(&self, cell: &[&Entry]) {
        let rounds = cell.iter().map(|entry| entry.round).collect();
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.insert(rounds);
    }

    /// Two lists, round by round; or why they are not.
    fn by_round(&self, over: &[f64], under: &[f64]) -> Result<[ByRound; 2], &'static str> {
        if over.len() != under.len() {
            return Err("the two were not measured in the same rounds");
        }
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let as_many = noted.iter().filter(|rounds| rounds.len() == over.len());
        if as_many.count() > 1 {
            return Err("cells lack different rounds, and their numbers cannot be paired");
        }
        let numbered = |values: &[f64]| -> ByRound { (1..).zip(values.iter().copied()).collect() };
        Ok([numbered(over), numbered(under)])
    }
}

/// Steps that a function found, as CEL sees them.
fn steps(function: &str, found: Result<Vec<&Entry>, String>) -> Result<Value, ExecutionError> {
    let found = found.map_err(|why| ExecutionError::function_error(function, why))?;
    let all: Vec<Value> = found.into_iter().map(Entry::value).collect();
    Ok(Value::List(Arc::new(all)))
}

fn list(values: Vec<f64>) -> Value {
    Value::List(Arc::new(values.into_iter().map(Value::Float).collect()))
}

fn most(found: Vec<&Entry>) -> Option<&Entry> {
    found
        .into_iter()
        .max_by(|a, b| a.throughput.total_cmp(&b.throughput))
}

/// Our functions have names that CEL does not.
fn declare(declared: Result<(), cel::DeclarationError>) {
    assert!(declared.is_ok(), "{declared:?}");
}

fn number(value: &Value) -> Result<f64, ExecutionError> {
    match value {
        Value::Float(number) => Ok(*number),
        Value::Int(number) => Ok(*number as f64),
        Value::UInt(number) => Ok(*number as f64),
        other => Err(ExecutionError::UnexpectedType {
            got: other.type_of().to_string(),
            want: "a number".to_owned(),
        }),
    }
}

/// Functions of numbers.
fn numbers(context: &mut Context<'static, 'static>, pairs: &Pairs) {
    declare(
        context.add_function("near", |a: Value, b: Value, tolerance: Value| {
            let (a, b, tolerance) = (number(&a)?, number(&b)?, number(&tolerance)?);
            Ok::<bool, ExecutionError>((a - b).abs() <= tolerance * b.abs())
        }),
    );
    let over = |name: &'static str, fold: fn(&[f64]) -> f64| {
        move |Arguments(arguments): Arguments| -> Result<Value, ExecutionError> {
            let [Value::List(list)] = arguments.as_slice() else {
                let why = "takes one list of numbers";
                return Err(ExecutionError::function_error(name, why));
            };
            let values = numbers_of(list)?;
            if values.is_empty() {
                let why = format!("{name} of no steps at all");
                return Err(ExecutionError::function_error(name, why));
            }
            Ok(Value::Float(fold(&values)))
        }
    };
    let largest = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    declare(context.add_function("max", over("max", largest)));
    declare(context.add_function("min", over("min", smallest)));
    declare(context.add_function("mean", over("mean", mean)));
    // `over` refuses an empty list.
    let median = |values: &[f64]| rounds::median(values).unwrap_or(f64::NAN);
    declare(context.add_function("median", over("median", median)));
    let ratio_of = |name: &'static str, part: fn(RatioInterval) -> Option<f64>| {
        let pairs = pairs.clone();
        move |over: Value, under: Value| -> Result<Value, ExecutionError> {
            let wrong = |why: &str| ExecutionError::function_error(name, why);
            let (Value::List(over), Value::List(under)) = (over, under) else {
                return Err(wrong("takes two lists of numbers"));
            };
            let (over, under) = (numbers_of(&over)?, numbers_of(&under)?);
            let [over, under] = pairs.by_round(&over, &under).map_err(wrong)?;
            let ratio = rounds::ratio(&over, &under)
                .ok_or_else(|| wrong("there is nothing above zero to divide"))?;
            let found = part(ratio).ok_or_else(|| wrong("one round has no interval"))?;
            Ok(Value::Float(found))
        }
    };
    declare(context.add_function("ratio", ratio_of("ratio", |ratio| Some(ratio.value))));
    declare(context.add_function("ratio_low", ratio_of("ratio_low", |ratio| ratio.low)));
    declare(context.add_function("ratio_high", ratio_of("ratio_high", |ratio| ratio.high)));
}

fn numbers_of(list: &[Value]) -> Result<Vec<f64>, ExecutionError> {
    list.iter().map(number).collect()
}
