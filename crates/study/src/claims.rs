//! Claims: what the data say of a sentence.
//!
//! ```text
//!  confirmed?  contradicted?   outcome
//!  true        false           confirmed
//!  false       true            contradicted
//!  false       false           open: the data lie between
//!  needs what was not measured open: and says what
//!  its `needs` is false        open: and says what is lacking
//!  looked at a disturbed step  open: and says what disturbed it, or what its own record doubts
//!                              (unless `calm = false`, or enough rounds are left without those
//!                              that were disturbed)
//!  true        true            the study is wrong: open, and a fault
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use wallfinder_model::chart::Chart;
use wallfinder_model::record::{ClaimOutcome, Outcome, Step};

use crate::Size;
use crate::StudyError;
use crate::charts;
use crate::check::Place;
use crate::data::{Absent, DID_NOT_RUN, Data};
use crate::entry::{Entry, MISFIT, RELAY, UNSTEADY};
use crate::expression::{BadExpression, Expression};
use crate::file::{ClaimFile, Figure};
use crate::language::{Context, Fault, Value};
use crate::results::Cause;
use crate::run::Skipped;
use crate::study::Study;
use crate::template::Template;
use crate::vocabulary::VARIABLES;

/// A sentence that the data may confirm or contradict.
#[derive(Debug)]
pub struct Claim {
    /// Short name.
    pub id: String,
    /// The claim in words, `{driver}` not filled in.
    pub text: String,
    /// Where it was made.
    pub source: String,
    /// The part of the study that it belongs to.
    pub part: Option<String>,
    /// Drivers it is judged for, one by one; empty: judged once.
    pub for_each: Vec<String>,
    /// Whether steps that were disturbed leave it open.
    pub calm: bool,
    /// Figures of the source, which then decide it alone.
    pub figures: BTreeMap<String, Figure>,
    sentence: Template,
    /// In an order in which each needs only those before it.
    pub(crate) lets: Vec<Let>,
    /// What has to be there for it to be decided.
    pub(crate) needs: Option<Condition>,
    pub(crate) confirmed: Condition,
    pub(crate) contradicted: Condition,
    pub(crate) because: Template,
    pub(crate) because_span: Range<usize>,
}

/// A named expression of a claim.
#[derive(Debug)]
pub(crate) struct Let {
    pub(crate) name: String,
    pub(crate) condition: Condition,
}

/// An expression and where it stands.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) expression: Expression,
    pub(crate) span: Range<usize>,
}

/// What became of a study's claims.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// One for each claim, or for each claim and driver.
    pub outcomes: Vec<ClaimOutcome>,
    /// Claims whose conditions are wrong: true together, or no condition at all. They are
    /// open in `outcomes`.
    pub faults: Vec<String>,
    /// What there is to draw.
    pub charts: Vec<Chart>,
}

/// Judges a study's claims by steps whose names are labels of the study at this size: those
/// of a run, or of its record. Verdicts must be in the steps.
pub fn judge(study: &Study, size: Size, steps: &[Step], skipped: &[Skipped]) -> Judged {
    let planned = study.expand(size);
    let named: BTreeMap<&str, &Step> = steps
        .iter()
        .map(|step| (step.name.as_str(), step))
        .collect();
    let reasons: BTreeMap<&str, &str> = skipped
        .iter()
        .map(|skipped| (skipped.label.as_str(), skipped.why.as_str()))
        .collect();
    let mut entries = Vec::new();
    let mut absent = Vec::new();
    for plan in &planned {
        match named.get(plan.label.as_str()) {
            Some(step) => entries.push(Entry::of(plan, step)),
            None => absent.push(Absent {
                group: plan.group.clone(),
                driver: plan.driver.name.clone(),
                why: (*reasons
                    .get(plan.label.as_str())
                    .unwrap_or(&"it was not run"))
                .to_owned(),
            }),
        }
    }
    evaluate(study, Data::new(size, entries, absent))
}

/// Judges every claim by data.
pub(crate) fn evaluate(study: &Study, data: Data) -> Judged {
    let data = Arc::new(data);
    let mut judged = Judged {
        outcomes: Vec::new(),
        faults: Vec::new(),
        charts: charts::draw(study, &data),
    };
    for claim in &study.claims {
        for driver in claim.drivers() {
            // What a size does not run it does not judge: another size does.
            if driver.is_some_and(|driver| !data.plans(driver)) {
                continue;
            }
            data.look_away();
            let mut scope = Scope::new(claim, driver, &data);
            let id = scope.id(claim);
            let mut decided = scope.decide(claim);
            // Whatever they came to: who looks at the outcome first would choose it.
            let disturbed = data.disturbed_rounds();
            if claim.calm && !disturbed.is_empty() {
                data.leave_out(disturbed.clone(), !claim.names_rounds());
                data.look_away();
                scope = Scope::new(claim, driver, &data);
                let without = scope.decide(claim);
                decided = match data.disturbed() {
                    // Too few would be left.
                    Some(_) => without,
                    None => without.map(|(outcome, because)| {
                        (outcome, format!("{because} ({})", left_out(&disturbed)))
                    }),
                };
                data.leave_out(BTreeSet::new(), false);
            }
            let (outcome, because) = match decided {
                Ok(decided) => undisturbed(claim, &data, decided),
                Err(fault) => {
                    judged.faults.push(format!("claim `{id}`: {fault}"));
                    (Outcome::Open, format!("{WRONG}{fault}"))
                }
            };
            judged.outcomes.push(ClaimOutcome {
                id,
                claim: claim.sentence.fill(&scope.context),
                source: claim.source.clone(),
                by_figures: claim.is_by_figures(),
                outcome,
                because,
            });
        }
    }
    judged
}

/// How the reason of a claim that lies between its conditions begins, how that of one that lacks what it needs, how
/// that of one whose conditions are wrong, and what that of a disturbed one has.
const BETWEEN: &str = "neither way: ";
const LACKING: &str = "something is lacking: ";
const WRONG: &str = "the study is wrong here: ";
const DISTURBED: &str = "` was disturbed: ";

/// Why a claim stayed open, by the reason given.
pub(crate) fn cause(because: &str) -> Cause {
    match because.split_once(DISTURBED) {
        _ if because.starts_with(WRONG) => Cause::Wrong,
        Some((_, by)) if by.starts_with(UNSTEADY) => Cause::Unsteady,
        Some((_, by)) if by.starts_with(MISFIT) => Cause::Misfit,
        Some((_, by)) if by.starts_with(RELAY) => Cause::Relay,
        Some(_) => Cause::Disturbed,
        None if because.starts_with(BETWEEN) => Cause::Between,
        None if because.contains(DID_NOT_RUN) => Cause::NotRun,
        None => Cause::Lacking,
    }
}

/// Rounds in words.
fn left_out(rounds: &BTreeSet<u32>) -> String {
    let numbers: Vec<String> = rounds.iter().map(u32::to_string).collect();
    let (noun, was) = match rounds.len() {
        1 => ("round", "was"),
        _ => ("rounds", "were"),
    };
    format!(
        "without {noun} {}, which {was} disturbed",
        numbers.join(", ")
    )
}

/// What was decided, unless a step was disturbed that a claim about calm ones looked at.
fn undisturbed(claim: &Claim, data: &Data, decided: (Outcome, String)) -> (Outcome, String) {
    if claim.lists_all_steps() {
        data.look_at_all();
    }
    match data.disturbed().filter(|_| claim.calm) {
        Some(why) if decided.0 != Outcome::Open => {
            (Outcome::Open, format!("{why}; else: {}", decided.1))
        }
        _ => decided,
    }
}

impl Claim {
    /// Whether the source's own figures decide it, and nothing that was measured.
    pub fn is_by_figures(&self) -> bool {
        !self.figures.is_empty()
    }

    /// Every expression that decides it: named ones, what it needs, and its two conditions.
    pub(crate) fn deciding(&self) -> impl Iterator<Item = &Condition> {
        let lets = self.lets.iter().map(|named| &named.condition);
        lets.chain(&self.needs)
            .chain([&self.confirmed, &self.contradicted])
    }

    /// Whether an expression goes through `steps` itself.
    fn lists_all_steps(&self) -> bool {
        let uses = |expression: &Expression| expression.variables().iter().any(|v| v == "steps");
        self.deciding().any(|condition| uses(&condition.expression))
    }

    /// Whether any expression that decides it asks for steps.
    fn looks_at_steps(&self) -> bool {
        let mut expressions = self.deciding().map(|condition| &condition.expression);
        expressions.any(|expression| !expression.named.is_empty()) || self.lists_all_steps()
    }

    /// Whether any expression asks which round a step is of: who picks a round by its number would
    /// find none where that one is left out.
    fn names_rounds(&self) -> bool {
        self.deciding()
            .map(|condition| &condition.expression)
            .chain(self.shown())
            .any(|expression| expression.names_rounds)
    }

    /// Whether it names each cell that it looks at, and goes through no others.
    pub(crate) fn names_cells(&self) -> bool {
        let mut called = self
            .deciding()
            .flat_map(|condition| &condition.expression.named);
        called.all(|(function, _)| ["rounds", "at", "ran"].contains(&function.as_str()))
            && !self.lists_all_steps()
    }

    /// Its conditions as they are written, and the figures that they are about.
    pub(crate) fn conditions(&self) -> String {
        let mut text = format!("{:?} {}", self.figures, self.calm);
        let lets = self.lets.iter();
        let named = lets.map(|named| (named.name.as_str(), &named.condition));
        let needed = self.needs.iter().map(|needs| ("needs", needs));
        for (name, condition) in named.chain(needed).chain([
            ("confirmed", &self.confirmed),
            ("contradicted", &self.contradicted),
        ]) {
            text.push_str(&format!("\n{name} {}", condition.expression.text()));
        }
        text
    }

    /// Expressions in its sentences.
    fn shown(&self) -> impl Iterator<Item = &Expression> {
        let because = self.because.expressions();
        because.chain(self.sentence.expressions())
    }

    /// The drivers it is judged for; one `None` where it is judged once.
    pub(crate) fn drivers(&self) -> Vec<Option<&str>> {
        match self.for_each.len() {
            0 => vec![None],
            _ => self
                .for_each
                .iter()
                .map(|name| Some(name.as_str()))
                .collect(),
        }
    }
}

/// Variables and functions of one claim for one driver.
pub(crate) struct Scope<'c> {
    driver: Option<&'c str>,
    pub(crate) context: Context,
    /// Names whose expression needs what is not there, and why.
    missing: BTreeMap<String, String>,
    /// A name whose expression is wrong.
    fault: Option<String>,
}

/// Why an expression has no value.
pub(crate) enum NoValue {
    /// Something was not measured.
    Missing(String),
    /// The expression is wrong.
    Wrong(String),
}

impl<'c> Scope<'c> {
    pub(crate) fn new(claim: &Claim, driver: Option<&'c str>, data: &Arc<Data>) -> Scope<'c> {
        Scope::with_figures(claim, driver, data, &claim.figures)
    }

    /// The same, where the source's figures are others.
    pub(crate) fn with_figures(
        claim: &Claim,
        driver: Option<&'c str>,
        data: &Arc<Data>,
        figures: &BTreeMap<String, Figure>,
    ) -> Scope<'c> {
        let mut scope = Scope {
            driver,
            context: data.context(),
            missing: BTreeMap::new(),
            fault: None,
        };
        if let Some(driver) = driver {
            scope.context.set("driver", driver);
        }
        for (name, figure) in figures {
            scope.context.set(name, figure.value());
        }
        for named in &claim.lets {
            let value = named.condition.expression.value(&scope.context);
            match value.map_err(|error| scope.no_value(error)) {
                Ok(value) => scope.context.set(&named.name, value),
                Err(NoValue::Missing(why)) => {
                    scope.missing.insert(named.name.clone(), why);
                }
                Err(NoValue::Wrong(why)) => {
                    scope.fault = Some(format!("`{}`: {why}", named.name));
                }
            }
        }
        scope
    }

    fn id(&self, claim: &Claim) -> String {
        match self.driver {
            Some(driver) => format!("{}/{driver}", claim.id),
            None => claim.id.clone(),
        }
    }

    pub(crate) fn decide(&self, claim: &Claim) -> Result<(Outcome, String), String> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let truth = |condition: &Condition| {
            let truth = condition.expression.truth(&self.context);
            truth.map_err(|error| self.no_value(error))
        };
        match claim.needs.as_ref().map_or(Ok(true), &truth) {
            Ok(true) => {}
            Ok(false) => {
                let because = claim.because.fill(&self.context);
                return Ok((Outcome::Open, format!("{LACKING}{because}")));
            }
            Err(NoValue::Missing(why)) => return Ok((Outcome::Open, why)),
            Err(NoValue::Wrong(why)) => return Err(why),
        }
        match (truth(&claim.confirmed), truth(&claim.contradicted)) {
            (Err(NoValue::Wrong(why)), _) | (_, Err(NoValue::Wrong(why))) => Err(why),
            (Err(NoValue::Missing(why)), _) | (_, Err(NoValue::Missing(why))) => {
                Ok((Outcome::Open, why))
            }
            (Ok(true), Ok(true)) => Err("the data both confirm and contradict it".to_owned()),
            (Ok(true), Ok(false)) => Ok((Outcome::Confirmed, claim.because.fill(&self.context))),
            (Ok(false), Ok(true)) => Ok((Outcome::Contradicted, claim.because.fill(&self.context))),
            (Ok(false), Ok(false)) => {
                let because = claim.because.fill(&self.context);
                Ok((Outcome::Open, format!("{BETWEEN}{because}")))
            }
        }
    }

    /// Whether a fault is a lack of data or of sense.
    pub(crate) fn no_value(&self, fault: Fault) -> NoValue {
        let missing = match &fault {
            Fault::NoName(name) => self.missing.get(name),
            _ => None,
        };
        missing.map_or_else(|| no_value(fault), |why| NoValue::Missing(why.clone()))
    }
}

/// Whether a fault is a lack of data or of sense.
pub(crate) fn no_value(fault: Fault) -> NoValue {
    let why = fault.to_string();
    match fault {
        Fault::NoField(_) | Fault::NoItem | Fault::NotComparable | Fault::Function(_) => {
            NoValue::Missing(why)
        }
        Fault::NoName(_) | Fault::Wrong(_) => NoValue::Wrong(why),
    }
}

/// Whether a value is a condition's.
pub(crate) fn is_truth(value: &Value) -> bool {
    matches!(value, Value::Truth(_))
}

/// Compiles a claim: every expression, in an order in which names are known.
pub(crate) fn compile(raw: &ClaimFile, place: &Place) -> Result<Claim, StudyError> {
    let given = raw.lets.keys().chain(raw.figures.keys());
    let mut names: Vec<&str> = given.clone().map(|name| name.get_ref().as_str()).collect();
    for name in given {
        place.identifier(name)?;
        let taken = VARIABLES.iter().any(|(known, _)| known == name.get_ref());
        if taken || name.get_ref() == "driver" || name.get_ref().contains('-') {
            let message = format!("`{}` cannot be a name in expressions", name.get_ref());
            return Err(place.error(name.span(), message));
        }
    }
    if !raw.for_each.is_empty() {
        names.push("driver");
    }
    let lets = raw
        .lets
        .iter()
        .map(|(name, text)| {
            Ok(Let {
                name: name.get_ref().clone(),
                condition: place.condition(text, &names)?,
            })
        })
        .collect::<Result<Vec<_>, StudyError>>()?;
    let outer: &[&str] = if raw.for_each.is_empty() {
        &[]
    } else {
        &["driver"]
    };
    let twice = |name: &&Spanned<String>| {
        raw.lets
            .keys()
            .any(|other| other.get_ref() == name.get_ref())
    };
    if let Some(name) = raw.figures.keys().find(twice) {
        let message = format!("`{}` is a figure and a `let`", name.get_ref());
        return Err(place.error(name.span(), message));
    }
    let claim = Claim {
        id: raw.id.get_ref().clone(),
        text: raw.claim.get_ref().clone(),
        source: raw.source.clone(),
        part: raw.part.clone(),
        calm: raw.calm,
        figures: raw
            .figures
            .iter()
            .map(|(name, figure)| (name.get_ref().clone(), figure.clone()))
            .collect(),
        for_each: raw
            .for_each
            .iter()
            .map(|name| name.get_ref().clone())
            .collect(),
        sentence: place.template(&raw.claim, outer)?,
        lets: in_order(lets, place)?,
        needs: raw
            .needs
            .as_ref()
            .map(|needs| place.condition(needs, &names))
            .transpose()?,
        confirmed: place.condition(&raw.confirmed, &names)?,
        contradicted: place.condition(&raw.contradicted, &names)?,
        because: place.template(&raw.because, &names)?,
        because_span: raw.because.span(),
    };
    let message = match (claim.is_by_figures(), claim.looks_at_steps()) {
        (true, true) => {
            "figures of the source decide it, and it looks at steps: make two claims of it"
        }
        (false, false) => {
            "it looks at no step: nothing that is measured decides it. Where the source's own figures do, \
             they are its `figures`"
        }
        _ => return Ok(claim),
    };
    Err(place.error(raw.confirmed.span(), message.to_owned()))
}

impl Figure {
    /// As expressions see it.
    fn value(&self) -> Value {
        match self {
            Figure::One(number) => Value::Number(*number),
            Figure::Several(numbers) => Value::list(numbers.iter().copied().map(Value::Number)),
        }
    }
}

/// Sorts names so that each needs only those before it.
fn in_order(mut lets: Vec<Let>, place: &Place) -> Result<Vec<Let>, StudyError> {
    let mut sorted: Vec<Let> = Vec::new();
    while !lets.is_empty() {
        let waiting: Vec<&str> = lets.iter().map(|named| named.name.as_str()).collect();
        let ready = lets.iter().position(|named| {
            let used = named.condition.expression.variables();
            !used.iter().any(|name| waiting.contains(&name.as_str()))
        });
        let Some(ready) = ready else {
            let message = format!("these names need each other: {}", waiting.join(", "));
            return Err(place.error(lets[0].condition.span.clone(), message));
        };
        sorted.push(lets.remove(ready));
    }
    Ok(sorted)
}

impl Place<'_> {
    pub(crate) fn condition(
        &self,
        text: &Spanned<String>,
        names: &[&str],
    ) -> Result<Condition, StudyError> {
        let expression = Expression::compile(text.get_ref(), names).map_err(|bad| {
            let at = bad
                .at
                .map(|(line, column)| offset(text.get_ref(), line, column));
            self.bad(text, at, bad)
        })?;
        Ok(Condition {
            expression,
            span: text.span(),
        })
    }

    fn template(&self, text: &Spanned<String>, names: &[&str]) -> Result<Template, StudyError> {
        Template::compile(text.get_ref(), names)
            .map_err(|(offset, bad)| self.bad(text, Some(offset), bad))
    }

    /// An error in a text value: at the character where that can be told, else at the value.
    fn bad(&self, text: &Spanned<String>, at: Option<usize>, bad: BadExpression) -> StudyError {
        let span = at.map_or(text.span(), |at| self.inside(text.span(), at));
        let error = self.error(span, bad.message);
        match bad.help {
            Some(help) => error.with_help(help),
            None => error,
        }
    }

    /// The place of a value's byte in the file. Escapes shift it, so with any in front the
    /// whole value is meant.
    fn inside(&self, span: Range<usize>, at: usize) -> Range<usize> {
        let Some(literal) = self.text.get(span.clone()) else {
            return span;
        };
        let quote = ["'''", "\"\"\"", "'", "\""]
            .into_iter()
            .find(|quote| literal.starts_with(quote));
        let Some(quote) = quote else { return span };
        let mut start = quote.len();
        if quote.len() == 3 && literal[start..].starts_with('\n') {
            start += 1;
        }
        let place = span.start + start + at;
        let escaped = quote.starts_with('"')
            && literal
                .get(..start + at)
                .is_none_or(|before| before.contains('\\'));
        if escaped || place >= span.end {
            return span;
        }
        place..place + 1
    }
}

/// The byte offset of a line and column, both from 1.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text
        .split_inclusive('\n')
        .take(line - 1)
        .map(str::len)
        .sum();
    let within: usize = text[before..]
        .chars()
        .take(column - 1)
        .map(char::len_utf8)
        .sum();
    before + within
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_tells_why_a_claim_stayed_open() {
        for (because, told) in [
            ("neither way: 750/s", Cause::Between),
            (
                "something is lacking: the load came from one host",
                Cause::Lacking,
            ),
            ("`server` was not measured", Cause::Lacking),
            (
                "`simple` did not run with wrk: not installed",
                Cause::NotRun,
            ),
            (
                "`simple/engine/c1` was disturbed: others used 0.60 cores; else: 2,000/s",
                Cause::Disturbed,
            ),
            (
                "`simple/engine/c1` was disturbed: throughput changed to 0.70 × in its window; else: 2,000/s",
                Cause::Unsteady,
            ),
            (
                "`simple/engine/c1` was disturbed: N/X is 1.30 × its latency; else: 2,000/s",
                Cause::Misfit,
            ),
            (
                "`far/engine/c1` was disturbed: its relay was behind, 61 % busy; else: 2,000/s",
                Cause::Relay,
            ),
            ("the study is wrong here: `top` is no number", Cause::Wrong),
        ] {
            assert_eq!(cause(because), told, "{because}");
        }
    }

    #[test]
    fn a_round_that_is_left_out_is_told_of_in_the_singular() {
        let said = |rounds: &[u32]| left_out(&rounds.iter().copied().collect());
        assert_eq!(said(&[2]), "without round 2, which was disturbed");
        assert_eq!(said(&[2, 4]), "without rounds 2, 4, which were disturbed");
    }
}
