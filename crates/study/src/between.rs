//! A link whose rate lies between two walls of this machine: what is bound by it in one group and not
//! in another depends on what the server can do here, so it is measured before the link is laid.
//!
//! ```text
//!  groups measured before ─► answers x bytes on the link = bits a second of each ─► their middle
//! ```

use std::collections::BTreeMap;

use wallfinder_judge::cost;
use wallfinder_model::record::Step;

use crate::expand::label_of;
use crate::study::SubjectSpec;

/// How such a rate is spelt, in the place of one.
pub(crate) const BETWEEN: &str = "between";

/// Rates that were found, by the groups that they lie between: the same in all rounds.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    found: BTreeMap<Vec<String>, u64>,
}

impl Rates {
    /// The subject with a link that can be laid; else why there is none.
    pub(crate) fn settle(
        &mut self,
        subject: &SubjectSpec,
        ran: &[Step],
    ) -> Result<SubjectSpec, String> {
        let mut settled = subject.clone();
        if subject.link_between.is_empty() {
            return Ok(settled);
        }
        let groups = &subject.link_between;
        let bits = match self.found.get(groups) {
            Some(bits) => *bits,
            None => middle(groups, ran)?,
        };
        self.found.insert(groups.clone(), bits);
        let rate = format!("{}mbit", bits / 1_000_000);
        settled.link = subject
            .link
            .as_ref()
            .map(|link| link.replacen(BETWEEN, &rate, 1));
        Ok(settled)
    }
}

/// The geometric mean of what groups fill of a link in their first round, in bits per second: as far from each, in
/// ratio, where there are two. A run that goes on where it was cut finds the same.
fn middle(groups: &[String], ran: &[Step]) -> Result<u64, String> {
    let filled = |group: &String| {
        let begins = format!("{group}/");
        let is_calm = |step: &&Step| label_of(step) == step.name;
        let of_group = ran.iter().filter(|step| step.name.starts_with(&begins));
        let of_group: Vec<&Step> = of_group.filter(is_calm).collect();
        let round = |step: &Step| step.cell.as_ref().map_or(1, |cell| cell.round);
        let first = of_group.iter().map(|step| round(step)).min();
        let bits: Vec<f64> = of_group
            .into_iter()
            .filter(|step| Some(round(step)) == first)
            .filter_map(|step| Some(8.0 * step.throughput * cost::per_answer(step).downlink_bytes?))
            .filter(|bits| *bits > 0.0)
            .collect();
        match bits.is_empty() {
            true => Err(format!(
                "its link's rate is what `{group}` decides, and nothing of that was measured before"
            )),
            false => Ok((bits.iter().sum::<f64>() / bits.len() as f64).ln()),
        }
    };
    let logs = groups.iter().map(filled).collect::<Result<Vec<_>, _>>()?;
    Ok((logs.iter().sum::<f64>() / logs.len() as f64).exp() as u64)
}
