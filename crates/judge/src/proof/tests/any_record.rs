//! No record makes the proof panic, whatever its numbers.

use proptest::prelude::*;
use wallfinder_model::experiment::{Condition, Squeeze, Window};

use super::judge;
use crate::double::a_step;
use crate::proof::synthetic::experiment_of;
use crate::proof::{Next, next, what_if};

fn a_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0..2_000.0f64,
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(-1.0),
        1 => Just(0.0),
    ]
}

prop_compose! {
    fn a_window()(
        condition in 0u32..14, round in 0u32..9, restart in 0u32..3, at in 0u64..100,
        throughput in a_number(), in_flight in a_number(), retained in a_number(),
        steal in a_number(), failed in 0u64..3, in_force: Option<bool>,
    ) -> Window {
        Window {
            throughput, failed, round, condition, restart,
            in_flight_mean: Some(in_flight),
            latency_mean_ns: Some(throughput),
            retained: (round % 2 == 0).then_some(retained / 2_000.0),
            steal_share: steal / 1e5,
            server_reference_ns: (round % 3 > 0).then_some(1e4 + throughput),
            client_reference_ns: (round % 3 > 1).then_some(retained),
            in_force,
            from_ns: at * 1_000_000_000,
            to_ns: (at + 1) * 1_000_000_000,
            ..experiment_of(&[], &[(0, 1.0)]).windows[0].clone()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn is_judged_without_panic(
        windows in proptest::collection::vec(a_window(), 0..60),
        retained in proptest::collection::vec(a_number(), 12),
        open: bool,
    ) {
        let mut experiment = experiment_of(&[], &[]);
        experiment.setting.open_loop = open;
        experiment.windows = windows;
        for (i, retained) in retained.into_iter().enumerate() {
            experiment.conditions.push(Condition {
                squeeze: (i % 4 != 3).then_some(Squeeze::ALL[i % Squeeze::ALL.len()]),
                together: if i % 4 == 3 {
                    Squeeze::ALL[i / 4..].to_vec()
                } else {
                    Vec::new()
                },
                retained: if retained > 1.0 { 0.8 } else { retained },
                how: String::new(),
            });
        }
        if let Next::Rounds { rounds, conditions } = next(&experiment) {
            prop_assert!(rounds > 0 && !conditions.is_empty());
        }
        let mut step = a_step().build();
        step.experiment = Some(experiment);
        let verdict = judge(&step);
        step.verdict = Some(verdict);
        let _ = what_if(&step, &[(Squeeze::Downlink, 2.0)]);
    }
}
