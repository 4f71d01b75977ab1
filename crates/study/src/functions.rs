//! Functions that find steps and compare numbers, in the context of a condition.
//!
//! A function that finds nothing fails with the reason, which becomes the reason why the
//! claim stays open.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use wallfinder_judge::compare::RatioInterval;
use wallfinder_judge::rounds::{self, ByRound};

use crate::data::Data;
use crate::entry::Entry;
use crate::expression::{SEEN, UNSEEN_RAMP};
use crate::language::{Context, Fault, Value};

impl Data {
    /// A context in which conditions are evaluated.
    pub(crate) fn context(self: &Arc<Data>) -> Context {
        let mut context = Context::default();
        context.set("steps", self.all.clone());
        context.set("size", self.size.label());
        let pairs = Pairs::default();
        self.ramps(&mut context);
        self.finders(&mut context, &pairs);
        self.places(&mut context);
        numbers(&mut context, &pairs);
        context
    }

    fn ramps(self: &Arc<Data>, context: &mut Context) {
        let mut pick = |name: &'static str, choose: fn(Vec<&Entry>) -> Option<&Entry>| {
            let data = Arc::clone(self);
            context.declare(name, move |asked| {
                let [group, driver] = texts(asked)?;
                let found = data.ramp(group, driver).map_err(Fault::Function)?;
                // A ramp that was found has a step.
                Ok(choose(found).map_or(Value::Null, Entry::value))
            });
        };
        pick("best", most);
        pick("first", |found| found.first().copied());
        pick("last", |found| found.last().copied());
        let data = Arc::clone(self);
        context.declare("ramp", move |asked| {
            let [group, driver] = texts(asked)?;
            steps(data.ramp(group, driver))
        });
        let data = Arc::clone(self);
        context.declare(UNSEEN_RAMP, move |asked| {
            let [group, driver] = texts(asked)?;
            steps(data.unseen_ramp(group, driver))
        });
        let data = Arc::clone(self);
        context.declare(SEEN, move |asked| {
            let [label] = texts(asked)?;
            data.look_at_label(label);
            Ok(Value::Truth(true))
        });
    }

    fn finders(self: &Arc<Data>, context: &mut Context, pairs: &Pairs) {
        let (data, pairs) = (Arc::clone(self), pairs.clone());
        context.declare("rounds", move |asked| {
            let [group, driver, payload, clients] = taken(asked)?;
            let (payload, clients) = (payload.number()?, clients.number()?);
            let found = data.cell(group.text()?, driver.text()?, payload, clients);
            let found = found.map_err(Fault::Function)?;
            pairs.note(&found);
            Ok(Value::list(found.into_iter().map(Entry::value)))
        });
        let data = Arc::clone(self);
        context.declare("ran", move |asked| {
            let [group, driver] = texts(asked)?;
            Ok(Value::Truth(data.has(group, driver)))
        });
        let data = Arc::clone(self);
        context.declare("drivers_of", move |asked| {
            let [group] = texts(asked)?;
            let mut names: Vec<&str> = Vec::new();
            for entry in data.entries.iter().filter(|entry| entry.group == group) {
                if !names.contains(&entry.driver.as_str()) {
                    names.push(&entry.driver);
                }
            }
            Ok(Value::list(names.into_iter().map(Value::from)))
        });
        let data = Arc::clone(self);
        context.declare("at", move |asked| {
            let [group, driver, connections] = taken(asked)?;
            let (group, driver, wanted) = (group.text()?, driver.text()?, connections.number()?);
            let found = data.unseen_ramp(group, driver).map_err(Fault::Function)?;
            let mut found = found.into_iter();
            let found = found
                .find(|entry| f64::from(entry.connections) == wanted)
                .ok_or_else(|| {
                    Fault::Function(format!(
                        "`{group}` with {driver} at {wanted} connections is not part of size {}",
                        data.size
                    ))
                })?;
            data.look_at([found]);
            Ok(found.value())
        });
    }

    /// What was run, which is no look at any step.
    fn places(self: &Arc<Data>, context: &mut Context) {
        let data = Arc::clone(self);
        context.declare("sizes_of", move |asked| {
            let [group, driver, clients] = taken(asked)?;
            list(data.sizes_of(group.text()?, driver.text()?, clients.number()?))
        });
        let data = Arc::clone(self);
        context.declare("clients_of", move |asked| {
            let [group, driver, payload] = taken(asked)?;
            list(data.clients_of(group.text()?, driver.text()?, payload.number()?))
        });
    }
}

/// The arguments, as many as a function takes: an expression that was checked has as many.
fn taken<const N: usize>(asked: &[Value]) -> Result<&[Value; N], Fault> {
    asked.try_into().map_err(|_| {
        Fault::Wrong(format!(
            "a function of {N} arguments is given {}",
            asked.len()
        ))
    })
}

/// The same, all of them text.
fn texts<const N: usize>(asked: &[Value]) -> Result<[&str; N], Fault> {
    let mut texts = [""; N];
    for (text, asked) in texts.iter_mut().zip(taken::<N>(asked)?) {
        *text = asked.text()?;
    }
    Ok(texts)
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

/// Steps that a function found.
fn steps(found: Result<Vec<&Entry>, String>) -> Result<Value, Fault> {
    let found = found.map_err(Fault::Function)?;
    Ok(Value::list(found.into_iter().map(Entry::value)))
}

fn list(found: Result<Vec<f64>, String>) -> Result<Value, Fault> {
    let found = found.map_err(Fault::Function)?;
    Ok(Value::list(found.into_iter().map(Value::Number)))
}

fn most(found: Vec<&Entry>) -> Option<&Entry> {
    found
        .into_iter()
        .max_by(|a, b| a.throughput.total_cmp(&b.throughput))
}

/// Functions of numbers.
fn numbers(context: &mut Context, pairs: &Pairs) {
    context.declare("near", |asked| {
        let [a, b, tolerance] = taken(asked)?;
        let (a, b, tolerance) = (a.number()?, b.number()?, tolerance.number()?);
        Ok(Value::Truth((a - b).abs() <= tolerance * b.abs()))
    });
    let mut over = |name: &'static str, fold: fn(&[f64]) -> f64| {
        context.declare(name, move |asked| {
            let [list] = taken(asked)?;
            let values = numbers_of(list)?;
            match values.is_empty() {
                true => Err(Fault::Function(format!("{name} of no steps at all"))),
                false => Ok(Value::Number(fold(&values))),
            }
        });
    };
    over("max", |values| {
        values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    });
    over("min", |values| {
        values.iter().copied().fold(f64::INFINITY, f64::min)
    });
    over("mean", |values| {
        values.iter().sum::<f64>() / values.len() as f64
    });
    // An empty list was refused.
    over("median", |values| {
        rounds::median(values).unwrap_or(f64::NAN)
    });
    let mut ratio_of = |name: &'static str, part: fn(RatioInterval) -> Option<f64>| {
        let pairs = pairs.clone();
        context.declare(name, move |asked| {
            let missing = |why: &str| Fault::Function(why.to_owned());
            let [over, under] = taken(asked)?;
            let (over, under) = (numbers_of(over)?, numbers_of(under)?);
            let [over, under] = pairs.by_round(&over, &under).map_err(missing)?;
            let ratio = rounds::ratio(&over, &under)
                .ok_or_else(|| missing("there is nothing above zero to divide"))?;
            let found = part(ratio).ok_or_else(|| missing("one round has no interval"))?;
            Ok(Value::Number(found))
        });
    };
    ratio_of("ratio", |ratio| Some(ratio.value));
    ratio_of("ratio_low", |ratio| ratio.low);
    ratio_of("ratio_high", |ratio| ratio.high);
}

fn numbers_of(list: &Value) -> Result<Vec<f64>, Fault> {
    list.items()?.iter().map(Value::number).collect()
}
