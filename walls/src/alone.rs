//! What requests cost a server in a mix, as `find` tells it, beside what each costs with nothing else to do.
//!
//! The catalogue's four ordinary routes: they share the server, and no more. So what a route costs in the mix should be what
//! it costs alone; where it is not, by more than both intervals allow, the mix changed it, or the method is wrong.

use std::fmt::Write as _;

use crate::find::Apparatus;
use crate::found;
use crate::held::{Mean, Turn, Turns};
use crate::scenario::{Scenario, Server::Subject};
use crate::suite::PLAIN;

/// The mix, whose weights give each route about as much of the server.
const MIX: Scenario = Scenario {
    name: "catalogue-mix",
    server: Subject("catalogue"),
    flags: "-c 16 --traffic {mixes}/catalogue.toml",
    alone: &[
        ("simple", "/simple"),
        ("read", "/read"),
        ("list", "/list"),
        ("compute", "/compute"),
    ],
    ..PLAIN
};

/// One route, in nanoseconds of the server's CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside {
    /// Its name.
    pub name: &'static str,
    /// What it costs in the mix; `None` where `find` did not tell.
    pub mixed: Option<Mean>,
    /// What it costs alone.
    pub alone: Mean,
}

impl Beside {
    /// What it costs more in the mix; the interval is of both.
    fn more(&self) -> Option<Mean> {
        let mixed = self.mixed?;
        Some(Mean {
            value: mixed.value - self.alone.value,
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
    let mut turns = Turns::default();
    turns.hold(apparatus, &MIX, seed)?;
    let mix = found::read(apparatus.found(&MIX, seed)?.as_bytes())?;
    turns.hold(apparatus, &MIX, seed)?;
    let row = |((name, _), alone): (&(&'static str, _), &[Turn])| {
        let costs = mix.kind(name).and_then(|kind| kind.costs);
        let mixed = costs.map(|costs| Mean {
            value: costs.server.each,
            half: (costs.server.high - costs.server.low) / 2.0,
        });
        let unseen = || format!("the server of {name} was not seen, or nothing was answered");
        let alone: Option<Vec<f64>> = alone.iter().map(|turn| turn.server_ns).collect();
        Ok(Beside {
            name,
            mixed,
            alone: Mean::of(alone.ok_or_else(unseen)?),
        })
    };
    MIX.alone.iter().zip(turns.alone()).map(row).collect()
}

/// The table: microseconds of the server's CPU for one.
pub fn table(rows: &[Beside]) -> String {
    let shown = |cost: Mean| format!("{:.1} ± {:.1}", cost.value / 1e3, cost.half / 1e3);
    let mut text = format!(
        "{:<12}{:>18}{:>18}{:>18}\n",
        "request", "in the mix, µs", "alone, µs", "more in the mix"
    );
    for row in rows {
        let said = match row.more() {
            None => "not told",
            Some(more) if more.value.abs() <= more.half => "within the intervals",
            Some(_) => "beyond the intervals",
        };
        let maybe = |cost: Option<Mean>| cost.map_or("–".to_owned(), shown);
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
        let cost = |value, half| Mean { value, half };
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
}
