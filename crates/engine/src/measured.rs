//! What a step measured.

use wallfinder_model::record::{
    self, Counts, Drained, Interval, OpenConnections, Outage, WorkerSummary,
};
use wallfinder_model::telemetry::SocketsSummary;

/// The window of a step, and what came after it. Instants count from the schedule's zero.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Monotonic instant of the schedule's zero.
    pub zero_ns: u64,
    /// The window, from zero: the mean over the workers of when each saw its edges.
    pub window_from_ns: u64,
    /// End of the window, from zero.
    pub window_to_ns: u64,
    /// Counts of the window.
    pub counts: Counts,
    /// Good answers per second.
    pub throughput: f64,
    /// Mean requests in flight.
    pub in_flight_mean: f64,
    /// Jain's index of the window's answers over connections, where there are several.
    pub fairness: Option<f64>,
    /// From the intended start to the last byte.
    pub latency: Option<record::Histogram>,
    /// From sending to the last byte.
    pub service: Option<record::Histogram>,
    /// From sending to the first byte.
    pub first_byte: Option<record::Histogram>,
    /// From the intended start to sending.
    pub lateness: Option<record::Histogram>,
    /// What became of the requests in flight when the window closed; those answered since are in the
    /// histograms.
    pub drained: Drained,
    /// How many connections were open in the window.
    pub open_connections: OpenConnections,
    /// When none was, within the window.
    pub outages: Vec<Outage>,
    /// Intervals of the whole run.
    pub intervals: Vec<Interval>,
    /// The workers.
    pub workers: Vec<WorkerSummary>,
    /// The client's sockets at the end of the window.
    pub sockets: Option<SocketsSummary>,
    /// `io_uring` or `epoll`.
    pub io: &'static str,
}
