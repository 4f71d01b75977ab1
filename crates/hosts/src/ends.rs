//! Whether a load ends by itself, before the time that it is given is over.

use wallfinder_model::{Arrival, Load};
use wallfinder_wire::Exchange;
use wallfinder_wire::mix::{Mix, Order};

/// Whether such a load may end early as planned: its requests are counted, its log does not begin anew, or its rows are
/// used once. Hosts that make it together end apart.
pub fn ends_by_itself(load: &Load, request: &Exchange) -> bool {
    load.stop.requests.is_some()
        || matches!(load.arrival, Arrival::Replay { again: false, .. })
        || request.mix().is_some_and(uses_rows_once)
}

fn uses_rows_once(mix: &Mix) -> bool {
    let walked = mix.flows.iter().filter_map(|flow| flow.walks);
    let mut tables = walked.filter_map(|table| mix.tables.get(usize::from(table)));
    tables.any(|table| table.order == Order::Once)
}

#[cfg(test)]
mod tests {
    use wallfinder_model::Nanos;
    use wallfinder_wire::http1::Request;
    use wallfinder_wire::mix::{Row, Table};

    use super::*;

    fn request() -> Exchange {
        Request::get("test", "/").into()
    }

    fn walking(order: Order) -> Exchange {
        let mut mix = Mix::of_requests([("a", 1, Request::get("test", "/"))]);
        mix.tables.push(Table {
            name: "rows".to_owned(),
            order,
            columns: vec!["n".to_owned()],
            cells: vec![Row(vec![b"1".to_vec()])].into(),
        });
        mix.flows[0].walks = Some(0);
        Exchange::Mix(Box::new(mix))
    }

    #[test]
    fn a_load_ends_by_itself_with_its_count_its_log_or_its_rows() {
        let timed = Load::closed(4);
        let mut counted = timed.clone();
        counted.stop.requests = Some(7);
        let replay = |again: bool| Load {
            arrival: Arrival::Replay {
                requests: 10,
                over: Nanos::from_secs(1),
                speed: 1.0,
                again,
            },
            ..timed.clone()
        };
        assert!(!ends_by_itself(&timed, &request()));
        assert!(ends_by_itself(&counted, &request()));
        assert!(ends_by_itself(&replay(false), &request()));
        assert!(!ends_by_itself(&replay(true), &request()));
        for (order, ends) in [
            (Order::Once, true),
            (Order::InOrder, false),
            (Order::Random, false),
        ] {
            let request = walking(order);
            assert_eq!(ends_by_itself(&timed, &request), ends, "{order:?}");
        }
    }
}
