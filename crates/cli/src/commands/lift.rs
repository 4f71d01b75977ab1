//! A predicted change, made and measured beside what was predicted.

use wallfinder_judge::proof::Prediction;
use wallfinder_model::Step;
use wallfinder_model::record::Ratio;
use wallfinder_report::words::{self, Lifted};
use wallfinder_scenario::lift::{Facts, Made, made};
use wallfinder_scenario::what_if::Question;
use wallfinder_sys::process;

use crate::commands::ab;
use crate::exit::Failed;
use crate::interrupt::Interrupts;
use crate::job::Job;
use crate::testbed::{Home, is_told_where};

/// A question as it was asked, and what is predicted.
pub(super) type Answered<'q> = (&'q str, Option<Prediction>);

/// Makes each change that is ours to make: `step` is what was squeezed, at so many connections.
/// `home` is where this thread was before there was any testbed.
pub(crate) fn lift<'q>(
    job: &Job,
    predicted: impl Iterator<Item = (&'q Question, Answered<'q>)>,
    step: &Step,
    home: &Home,
    interrupts: &Interrupts,
) -> Result<Vec<Lifted>, Failed> {
    let mut lifted = Vec::new();
    for (Question { changes, .. }, (text, predicted)) in predicted {
        if interrupts.came().is_some() {
            break;
        }
        // Which processors are free is seen from there.
        home.back()?;
        let subject = job.scenario.server.subject.as_deref();
        let is_told_where = subject.is_some_and(is_told_where);
        let facts = Facts::of(step, process::allowed_cpus(), is_told_where);
        let (by, measured) = match made(&job.scenario, changes, &facts) {
            Err(why) => (None, Err(why)),
            Ok(Made { scenario, by }) => {
                let mut job = job.with(scenario)?;
                job.around.output.output = None;
                let (session, result) = ab::compare(&job, Some(interrupts.clone()))?;
                let sealed = session.seal(result);
                sealed.result?;
                let ratio = sealed.record.ab.as_ref().and_then(throughput);
                let measured = ratio
                    .map(|ratio| (ratio, sealed.folder.display().to_string()))
                    .ok_or_else(|| "it was interrupted".to_owned());
                (by.or_else(|| words::link_for_bytes(text)), measured)
            }
        };
        lifted.push(Lifted {
            question: text.to_owned(),
            present: step.throughput,
            predicted,
            by,
            measured,
        });
    }
    Ok(lifted)
}

fn throughput(ab: &wallfinder_model::record::Ab) -> Option<Ratio> {
    let mut ratios = ab.ratios.iter();
    ratios.find(|r| r.measure == "throughput").cloned()
}
