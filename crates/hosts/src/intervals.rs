//! Intervals of a load that are told as one.

use wallfinder_engine::histogram::Latencies;
use wallfinder_model::record::Interval;

/// An interval that ends so soon after the warm-up is the last of it: workers end one when the window opens.
pub(crate) const EDGE_NS: u64 = 20_000_000;

/// Adds one that follows, or another host's. Of quantiles the greatest stands, until they are told anew.
pub(crate) fn add(sum: &mut Interval, of: &Interval) {
    sum.at_ns = of.at_ns;
    sum.span_ns += of.span_ns;
    sum.answered += of.answered;
    sum.failed += of.failed;
    sum.scheduled += of.scheduled;
    sum.bytes_in += of.bytes_in;
    sum.in_flight = of.in_flight;
    sum.p50_ns = sum.p50_ns.max(of.p50_ns);
    sum.p99_ns = sum.p99_ns.max(of.p99_ns);
    sum.max_ns = sum.max_ns.max(of.max_ns);
}

/// Quantiles of all of its latencies, where there are any.
pub(crate) fn tell_anew(interval: &mut Interval, latencies: &Latencies) {
    if latencies.count() > 0 {
        interval.p50_ns = latencies.quantile_ns(0.5);
        interval.p99_ns = latencies.quantile_ns(0.99);
        interval.max_ns = latencies.max_ns();
    }
}
