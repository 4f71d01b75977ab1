//! A study's cells side by side: which rival is clearly best, what others disturbed, where curves
//! cross and how tails grow.

mod sample;

use wallfinder_model::record::Cell;
use wallfinder_model::{Caveat, Record, Step};
use wallfinder_report::text::{self, Paths};
use wallfinder_report::{Look, html};

/// Three rivals with one client, at four sizes and in four rounds, each request of a step as long as
/// it is told to be: by group, size and round, in microseconds.
fn rivals(cost_us: impl Fn(&str, u32, u32) -> f64) -> Record {
    let mut record = sample::cells();
    let model = record.steps[0].clone();
    record.steps.clear();
    for round in 1..=4 {
        for group in ["tcp", "rest", "grpc"] {
            for payload in [1024, 24_576, 32_768, 65_536] {
                let ns = cost_us(group, payload, round) * 1e3;
                let mut step = model.clone();
                step.index = record.steps.len() as u32;
                step.name = format!("{group}/engine/{payload}B/c1/round{round}");
                step.throughput = 1e9 / ns;
                let latency = step.latency.as_mut().unwrap();
                for value in latency.quantiles_ns.values_mut() {
                    *value = ns as u64;
                }
                step.cell = Some(Cell {
                    group: group.into(),
                    driver: "engine".into(),
                    payload,
                    clients: 1,
                    round,
                    rival: true,
                });
                record.steps.push(step);
            }
        }
    }
    record
}

fn text_of(record: &Record) -> String {
    text::record(record, &Paths::default(), &Look::default())
}

/// The first is best, the second is half as slow again, and the third as it is told, by round.
fn with_third(third_us: [f64; 4]) -> Record {
    rivals(|group, _, round| match group {
        "tcp" => 10.0,
        "rest" => 15.0,
        _ => third_us[round as usize - 1],
    })
}

#[test]
fn the_best_is_clear_only_where_it_surely_beats_every_rival() {
    let steady = with_third([20.0; 4]);
    assert!(text_of(&steady).contains("tcp 1.5 ×"));
    assert!(!text_of(&steady).contains("tcp 1.5 × ~"));
    // On average the third is the worst, and in two rounds it is as good as the best.
    let noisy = with_third([40.0, 9.0, 45.0, 10.0]);
    let shown = text_of(&noisy);
    assert!(shown.contains("tcp 1.5 × ~"), "{shown}");
    assert!(shown.contains("better than every other one"), "{shown}");
    let page = html::render(&noisy);
    assert!(page.contains("rest is worse by 1.50 [1.50, 1.50], grpc by 2.01 ["));
    assert!(page.contains("<abbr title=\"open\">~</abbr>"));
    assert!(!html::render(&steady).contains("<abbr title=\"open\">~</abbr>"));
}

#[test]
fn a_choice_of_which_others_disturbed_a_round_is_marked() {
    let mut record = with_third([20.0; 4]);
    let mark = "<abbr title=\"others disturbed a round\">*</abbr>";
    let legend = "others disturbed a round of one that is compared";
    assert!(!html::render(&record).contains(mark) && !text_of(&record).contains(legend));
    let name = "grpc/engine/1024B/c1/round2";
    let step = record.steps.iter_mut().find(|step| step.name == name);
    let caveats = &mut step.unwrap().caveats;
    caveats.push(Caveat::StealAbove { share: 0.2 });
    // One place of four, by each of three measures.
    let page = html::render(&record);
    assert_eq!(page.matches(mark).count(), 3);
    assert!(page.contains(legend));
    let shown = text_of(&record);
    assert_eq!(shown.matches("tcp 1.5 × *").count(), 3, "{shown}");
    assert!(shown.contains(legend), "{shown}");
}

#[test]
fn cells_that_lack_different_rounds_are_compared_in_those_they_share() {
    // The machine slows tenfold from round to round.
    let mut record = rivals(|group, _, round| {
        let own = match group {
            "tcp" => 1.0,
            "rest" => 2.0,
            _ => 4.0,
        };
        own * 10f64.powi(round as i32)
    });
    record.steps.retain(|step| {
        let cell = step.cell.as_ref().unwrap();
        !matches!((cell.group.as_str(), cell.round), ("tcp", 2) | ("rest", 3))
    });
    let shown = text_of(&record);
    assert!(shown.contains("tcp 2 ×"), "{shown}");
    assert!(!shown.contains("tcp 2 × ~"), "{shown}");
}

/// The second costs so much of the first at each of four sizes.
fn with_second(factors: [f64; 4]) -> Record {
    rivals(|group, payload, _| match (group, payload) {
        ("tcp", _) => 10.0,
        ("rest", 1024) => 10.0 * factors[0],
        ("rest", 24_576) => 10.0 * factors[1],
        ("rest", 32_768) => 10.0 * factors[2],
        ("rest", _) => 10.0 * factors[3],
        _ => 1_000.0,
    })
}

#[test]
fn a_step_is_told_by_the_sizes_between_which_it_is() {
    const LINE: &str = "stroke-dasharray=\"2 3\"";
    let mut record = with_second([2.0, 2.0, 0.5, 0.5]);
    let near = "1 client: tcp up to 24.6 KB, rest from 32.8 KB on: a step of 4.00 × [4.00, 4.00]";
    assert!(text_of(&record).contains(near), "{}", text_of(&record));
    let page = html::render(&record);
    assert!(page.contains(near));
    assert!(!page.contains(LINE), "its place is not known better");
    // Without the size before it the neighbours are too far apart.
    let is_left = |step: &Step| step.cell.as_ref().unwrap().payload != 24_576;
    record.steps.retain(is_left);
    let far = "tcp up to 1.02 KB, rest from 32.8 KB on: too far apart to tell a step from a slope";
    assert!(text_of(&record).contains(far), "{}", text_of(&record));
    assert!(!text_of(&record).contains("a step of"));
    // And a change that is small all over is no step.
    let gradual = with_second([1.1, 1.03, 0.97, 0.9]);
    let shown = text_of(&gradual);
    assert!(shown.contains("rest from there: gradual"), "{shown}");
    assert!(html::render(&gradual).contains(LINE));
}

/// Cells of two groups, of which one's tail is so long with 50 clients.
fn with_tails(times: u64) -> Record {
    let mut record = sample::cells();
    for step in &mut record.steps {
        let cell = step.cell.as_ref().unwrap();
        let grown = cell.group == "tcp" && cell.clients == 50;
        let times = if grown { times } else { 2 };
        let quantiles = &mut step.latency.as_mut().unwrap().quantiles_ns;
        quantiles.insert("p50".to_owned(), 1_000_000);
        quantiles.insert("p99".to_owned(), 1_000_000 * times);
    }
    record
}

#[test]
fn how_tails_grow_is_a_table_of_sizes_groups_and_clients() {
    let mut record = with_tails(40);
    let page = html::render(&record);
    let (_, table) = page.split_once("<table class=\"tails\">").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    assert_eq!(table.matches("<tr><th scope=\"row\">").count(), 3 * 2);
    assert_eq!(table.matches("<td>40 ×</td>").count(), 3);
    assert_eq!(table.matches("<td>2 ×</td>").count(), 3 * 3);
    let shown = text_of(&record);
    let (_, below) = shown.split_once("p99/p50, with engine").unwrap();
    assert_eq!(below.matches("40 ×").count(), 3, "{shown}");
    // One group alone stands in the table of cells.
    let is_tcp = |step: &Step| step.cell.as_ref().unwrap().group == "tcp";
    record.steps.retain(is_tcp);
    assert!(!html::render(&record).contains("class=\"tails\""));
    assert!(!text_of(&record).contains("p99/p50, with"));
}
