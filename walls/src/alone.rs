//! What requests cost a server in a mix, as `find` tells it, beside what each costs with nothing else to do.
//!
//! The catalogue's four ordinary routes: they share the server, and no more. So what a route costs in the mix should be what
//! it costs alone; where it is not, by more than both intervals allow, the mix changed it, or the method is wrong.

use std::fmt::Write as _;

use wallfinder_model::Record;

use crate::find::Apparatus;
use crate::found;
use crate::scenario::{Scenario, Server::Subject};
use crate::suite::PLAIN;

/// The mix, whose weights give each route about as much of the server.
const MIX: Scenario = Scenario {
    name: "catalogue-mix",
    server: Subject("catalogue"),
    flags: "-c 16 --traffic {mixes}/catalogue.toml",
    ..PLAIN
};
/// Each route alone: its name in the mix, and its path.
const ROUTES: [(&str, &str); 4] = [
    ("simple", "/simple"),
    ("read", "/read"),
    ("list", "/list"),
    ("compute", "/compute"),
];
/// How often all routes are held in turn, before the mix and behind it; each for so long.
const TURNS: usize = 3;
const TURN_LASTS: &str = "2s";
/// Student's t for twice as many turns.
const T_95: f64 = 2.571;

/// Nanoseconds of the server's CPU, and half of their 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Centre.
    pub each: f64,
    /// Half of the interval.
    pub half: f64,
}

/// One route.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside {
    /// Its name.
    pub name: &'static str,
    /// What it costs in the mix; `None` where `find` did not tell.
    pub mixed: Option<Cost>,
    /// What it costs alone.
    pub alone: Cost,
}

impl Beside {
    /// What it costs more in the mix; the interval is of both.
    fn more(&self) -> Option<Cost> {
        let mixed = self.mixed?;
        Some(Cost {
            each: mixed.each - self.alone.each,
            half: mixed.half.hypot(self.alone.half),
        })
    }
}

/// Measures the mix between turns of each route alone.
///
/// # Errors
///
/// What could not be run or read, in words.
pub fn measured(apparatus: &Apparatus, seed: u64) -> Result<Vec<Beside>, String> {
    let mut costs = vec![Vec::new(); ROUTES.len()];
    hold(apparatus, seed, &mut costs)?;
    let mix = found::read(apparatus.found(&MIX, seed)?.as_bytes())?;
    hold(apparatus, seed, &mut costs)?;
    let row = |((name, _), alone): ((&'static str, &str), Vec<f64>)| {
        let mixed = mix
            .kind(name)
            .and_then(|kind| kind.costs)
            .map(|costs| Cost {
                each: costs.server.each,
                half: (costs.server.high - costs.server.low) / 2.0,
            });
        Beside {
            name,
            mixed,
            alone: mean(&alone),
        }
    };
    Ok(ROUTES.into_iter().zip(costs).map(row).collect())
}

/// Holds each route alone, and adds what it costs.
fn hold(apparatus: &Apparatus, seed: u64, costs: &mut [Vec<f64>]) -> Result<(), String> {
    for _ in 0..TURNS {
        for ((_, path), costs) in ROUTES.into_iter().zip(&mut *costs) {
            let alone = Scenario {
                name: "catalogue-alone",
                path,
                flags: "-c 16",
                ..MIX
            };
            costs.push(cost(&apparatus.load(&alone, seed, TURN_LASTS)?)?);
        }
    }
    Ok(())
}

/// CPU time of the server for an answer, in nanoseconds.
fn cost(json: &str) -> Result<f64, String> {
    let record: Record = serde_json::from_str(json)
        .map_err(|error| format!("what run printed is no record: {error}"))?;
    let step = record.steps.last().ok_or("the record has no step")?;
    let each = wallfinder_judge::cost::per_answer(step).server_cpu_ns;
    each.ok_or_else(|| "the server was not seen, or nothing was answered".to_owned())
}

fn mean(values: &[f64]) -> Cost {
    let n = values.len() as f64;
    let each = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - each).powi(2)).sum();
    Cost {
        each,
        half: T_95 * (squares / (n - 1.0) / n).sqrt(),
    }
}

/// The table: microseconds of the server's CPU for one.
pub fn table(rows: &[Beside]) -> String {
    let shown = |cost: Cost| format!("{:.1} ± {:.1}", cost.each / 1e3, cost.half / 1e3);
    let mut text = format!(
        "{:<12}{:>18}{:>18}{:>18}\n",
        "request", "in the mix, µs", "alone, µs", "more in the mix"
    );
    for row in rows {
        let said = match row.more() {
            None => "not told",
            Some(more) if more.each.abs() <= more.half => "within the intervals",
            Some(_) => "beyond the intervals",
        };
        let maybe = |cost: Option<Cost>| cost.map_or("–".to_owned(), shown);
        let _ = writeln!(
            text,
            "{:<12}{:>18}{:>18}{:>18}  {said}",
            row.name,
            maybe(row.mixed),
            shown(row.alone),
            maybe(row.more()),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_beside_the_intervals_of_both() {
        let row = |name, mixed, alone| Beside { name, mixed, alone };
        let cost = |each, half| Cost { each, half };
        let rows = [
            row(
                "read",
                Some(cost(23_000.0, 3_000.0)),
                cost(20_000.0, 4_000.0),
            ),
            row(
                "list",
                Some(cost(33_000.0, 3_000.0)),
                cost(20_000.0, 4_000.0),
            ),
            row("simple", None, cost(10_000.0, 500.0)),
        ];
        let expected = "\
request         in the mix, µs         alone, µs   more in the mix
read                23.0 ± 3.0        20.0 ± 4.0         3.0 ± 5.0  within the intervals
list                33.0 ± 3.0        20.0 ± 4.0        13.0 ± 5.0  beyond the intervals
simple                       –        10.0 ± 0.5                 –  not told
";
        assert_eq!(table(&rows), expected);
    }

    #[test]
    fn a_mean_of_six_has_its_interval() {
        let found = mean(&[9.0, 10.0, 11.0, 10.0, 10.0, 10.0]);
        assert_eq!(found.each, 10.0);
        assert!((found.half - T_95 * (2.0_f64 / 5.0 / 6.0).sqrt()).abs() < 1e-12);
    }
}
