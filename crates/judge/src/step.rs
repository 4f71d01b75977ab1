//! A step judged: the one place that gives it its verdict, whether it was squeezed, stands in a ramp, or alone.
//!
//! ```text
//!  Step alone ──────────────► observed          neighbours ─► ramp
//!  Step with an Experiment ─► proof                            │ corrects what was observed
//!                               └──────────► Verdict ◄─────────┘
//! ```

use wallfinder_model::{Environment, Step, Verdict};

use crate::{observed, proof, ramp};

/// The verdict of a step by itself: of its squeezes, where it has some, else of its telemetry.
pub fn judge_step(step: &Step, environment: &Environment) -> Verdict {
    match step.experiment {
        Some(_) => proof::prove(step, environment),
        None => observed::verdict(step, environment),
    }
}

/// The verdicts of steps among each other, in their order: of those that were not squeezed the neighbours in
/// their ramp have a say.
pub fn judge_among(steps: &[Step], environment: &Environment) -> Vec<Verdict> {
    let among = ramp::verdicts(steps, environment).into_iter();
    // Squeezes tell more than telemetry.
    let judged = among
        .zip(steps)
        .map(|(verdict, step)| match step.experiment {
            Some(_) => judge_step(step, environment),
            None => verdict,
        });
    judged.collect()
}
