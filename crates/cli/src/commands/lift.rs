//! A predicted change, made and measured beside what was predicted.

use wallfinder_model::experiment::Squeeze;
use wallfinder_model::record::Ratio;
use wallfinder_model::{Nanos, Step};
use wallfinder_report::words::Lifted;
use wallfinder_stage::lab::LinkSpec;

use crate::commands::ab;
use crate::commands::find::{Answered, Question};
use crate::exit::Failed;
use crate::flags::{AbFlags, FindFlags};
use crate::interrupt::Interrupts;
use crate::stand::Home;

/// Rounds of a comparison, and how long each setting is measured in one of them.
const ROUNDS: u32 = 8;
const MEASURED: Nanos = Nanos::from_secs(2);

/// Makes each change that is ours to make: `step` is what was squeezed, at so many connections.
/// `home` is where this thread was before there was any stand.
pub(crate) fn lift<'q>(
    flags: &FindFlags,
    predicted: impl Iterator<Item = (&'q Question, Answered<'q>)>,
    step: &Step,
    home: &Home,
    interrupts: &Interrupts,
) -> Result<Vec<Lifted>, Failed> {
    let mut lifted = Vec::new();
    for ((_, changes), (text, predicted)) in predicted {
        if interrupts.came().is_some() {
            break;
        }
        let measured = match with_change(flags, step, changes) {
            Err(why) => Err(why),
            Ok(ab) => {
                home.back()?;
                let (session, result) = ab::compare(&ab, Some(interrupts.clone()))?;
                let (record, folder) = session.seal(result)?;
                let ratio = record.ab.as_ref().and_then(throughput);
                ratio
                    .map(|ratio| (ratio, folder.display().to_string()))
                    .ok_or_else(|| "it was interrupted".to_owned())
            }
        };
        lifted.push(Lifted {
            question: text.to_owned(),
            present: step.throughput,
            predicted,
            measured,
        });
    }
    Ok(lifted)
}

fn throughput(ab: &wallfinder_model::record::Ab) -> Option<Ratio> {
    let mut ratios = ab.ratios.iter();
    ratios.find(|r| r.measure == "throughput").cloned()
}

/// The settings with and without the change; or why it is not ours to make.
fn with_change(
    flags: &FindFlags,
    step: &Step,
    changes: &[(Squeeze, f64)],
) -> Result<AbFlags, String> {
    let mut target = flags.target.clone();
    target.duration = Nanos(u64::from(ROUNDS) * flags.window.unwrap_or(MEASURED).0);
    target.require = None;
    target.threshold.clear();
    target.output.output = None;
    let mut ab = AbFlags {
        target,
        connections: step.load.connections,
        rate: flags.rate,
        rounds: ROUNDS,
        path: Vec::new(),
        url_b: None,
        header_b: Vec::new(),
        subject_b: None,
        link_b: None,
        server_quota_b: None,
        driver_b: None,
        connections_b: None,
        pipeline_b: None,
        semaphore_b: None,
        server_cpus_b: None,
        tune_b: Vec::new(),
        observe_b: Vec::new(),
    };
    let link: Option<LinkSpec> = flags.target.link.as_ref().and_then(|l| l.parse().ok());
    let mut lifted_link = link;
    for (squeeze, factor) in changes {
        let times = |bits: u64| (bits as f64 * factor).round() as u64;
        match (squeeze, &mut lifted_link) {
            (Squeeze::Downlink, Some(link)) => link.down_bits = times(link.down_bits),
            (Squeeze::Uplink, Some(link)) => link.up_bits = times(link.up_bits),
            (Squeeze::Downlink | Squeeze::Uplink, None) => {
                return Err("the link is not ours: there is no --link".to_owned());
            }
            (Squeeze::ServerCapacity, _) => match flags.target.server_quota {
                Some(cores) => ab.server_quota_b = Some(cores * factor),
                None => return Err("there is no --server-quota to raise".to_owned()),
            },
            (Squeeze::InFlight, _) if step.load.permits.is_some() => {
                let permits = step.load.in_flight_max() as f64 * factor;
                ab.semaphore_b = Some((permits.round() as u32).max(1));
            }
            (Squeeze::InFlight, _) => {
                let connections = f64::from(step.load.connections) * factor;
                ab.connections_b = Some((connections.round() as u32).max(1));
            }
            (other, _) => {
                return Err(format!(
                    "nothing here gives more of {}; `wallfinder ab` compares what you change",
                    other.label()
                ));
            }
        }
    }
    if lifted_link != link {
        ab.link_b = lifted_link.map(|link| link.to_string());
    }
    Ok(ab)
}
