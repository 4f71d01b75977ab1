//! Both sides watched, whichever hosts they are on.

use wallfinder_model::Caveat;
use wallfinder_model::telemetry::{Sample, Telemetry};
use wallfinder_probe::sample::{Sampler, Series};

/// Sampling under way. Instants count from the schedule's zero by the clock of this host.
pub trait Sampling: Send {
    /// Counts from a later zero; see [`Sampler::count_from`].
    fn count_from(&mut self, zero_ns: u64) -> i64;

    /// Takes an exact reading at once; see [`Sampler::mark`].
    fn mark(&mut self, name: &str) -> i64;

    /// The server may have been started anew.
    fn find_server_again(&self);

    /// The last tick, for the live view.
    fn latest(&self) -> Option<Sample>;

    /// What the load generator took in the last tick on each of several client hosts, by the host's name, in processors;
    /// none where one host makes the load. Hosts that tell nothing are left out.
    fn latest_of_clients(&self) -> Vec<(String, f64)> {
        Vec::new()
    }

    /// What happened between two instants, while sampling goes on.
    fn summarise(&self, from_ns: i64, to_ns: i64) -> Telemetry;

    /// Ends it.
    fn stop(self: Box<Self>) -> Joint;
}

/// What was sampled of both sides.
pub struct Joint {
    /// One for each tick, oldest first.
    pub samples: Vec<Sample>,
    /// Ticks that came late, suspends, steps of the wall clock; and what was lost of another host.
    pub gaps: Vec<Caveat>,
    summarise: Box<dyn Fn(i64, i64) -> Telemetry + Send>,
}

impl Joint {
    pub(crate) fn new(
        samples: Vec<Sample>,
        gaps: Vec<Caveat>,
        summarise: impl Fn(i64, i64) -> Telemetry + Send + 'static,
    ) -> Joint {
        Joint {
            samples,
            gaps,
            summarise: Box::new(summarise),
        }
    }

    /// What happened between two instants. Those of marks make it exact.
    pub fn summarise(&self, from_ns: i64, to_ns: i64) -> Telemetry {
        (self.summarise)(from_ns, to_ns)
    }
}

impl Sampling for Sampler {
    fn count_from(&mut self, zero_ns: u64) -> i64 {
        Sampler::count_from(self, zero_ns)
    }

    fn mark(&mut self, name: &str) -> i64 {
        Sampler::mark(self, name)
    }

    fn find_server_again(&self) {
        Sampler::find_server_again(self);
    }

    fn latest(&self) -> Option<Sample> {
        Sampler::latest(self)
    }

    fn summarise(&self, from_ns: i64, to_ns: i64) -> Telemetry {
        Sampler::summarise(self, from_ns, to_ns)
    }

    fn stop(self: Box<Self>) -> Joint {
        let mut series: Series = Sampler::stop(*self);
        let samples = std::mem::take(&mut series.samples);
        let gaps = series.gaps();
        Joint::new(samples, gaps, move |from_ns, to_ns| {
            series.summarise(from_ns, to_ns)
        })
    }
}
