//! `bytes`: answers of several sizes and codings in turn, behind a link and without it.

use wallfinder_conduct::StepOrder;
use wallfinder_judge::proof::sizes::{IDENTITY, order_of_rounds};
use wallfinder_model::scenario::Answers;
use wallfinder_model::sizes::{Answer, Sizes, Turn};
use wallfinder_model::{LinkSpec, Scenario};
use wallfinder_scenario::change::with_path;
use wallfinder_scenario::loads::{CONNECTIONS_OF_BYTES, WINDOW_MIN};
use wallfinder_testbed::lab::{Direction, Shaper};

use crate::commands::record::{check_conditions, conclude, judge_steps, set_beside};
use crate::exit::Failed;
use crate::interrupt::Interrupts;
use crate::job::{Around, Job};
use crate::order;
use crate::session::{Beside, Session};
use crate::target::redact;
use crate::testbed::Testbed;

/// Answers at the most: each is measured in every round.
const ANSWERS_MAX: usize = 64;

/// The link's rate where it is not to be in the way: so many times the one asked for, and at least
/// what no two processors fill.
const OPEN_TIMES: u64 = 10;
const OPEN_BITS_MIN: u64 = 100_000_000_000;
const OPEN_BITS_MAX: u64 = 400_000_000_000;

/// A link whose rate is in force or not.
struct Narrow {
    shaper: Shaper,
    asked: LinkSpec,
}

impl Narrow {
    fn set(&mut self, in_force: bool) -> Result<(), Failed> {
        let link = if in_force {
            self.asked
        } else {
            open(self.asked)
        };
        self.shaper
            .set_full(link, link.down_bits)
            .map_err(Failed::run)
    }
}

/// `wallfinder bytes`. The URL may hold sizes in braces.
pub(crate) fn bytes(scenario: &Scenario, around: &Around) -> Result<(), Failed> {
    let expect = &scenario.expect;
    check_conditions(&expect.require, &expect.threshold, None)?;
    let asked = scenario.bytes.clone().unwrap_or_default();
    let paths = paths(&scenario.target.url)?;
    let answers = answers(&paths, &codings(&asked, scenario)?)?;
    let jobs = answers.iter().map(|answer| {
        let mut scenario = scenario.clone();
        scenario.target.url = with_path(&scenario.target.url, &answer.path);
        let coding = format!("Accept-Encoding: {}", answer.coding);
        scenario.target.headers.push(coding);
        let connections = &mut scenario.load.connections;
        *connections = connections.or(Some(CONNECTIONS_OF_BYTES));
        around.job(scenario)
    });
    let jobs = jobs.collect::<Result<Vec<Job>, Failed>>()?;
    let lay = &scenario.link.lay;
    let link = lay.as_ref().and_then(|link| link.parse::<LinkSpec>().ok());
    let mut laid = scenario.clone();
    laid.link.lay = link.map(|link| open(link).to_string());
    laid.target.url = with_path(&scenario.target.url, &paths[0]);
    let laid = around.job(laid)?;
    let mut testbed = Testbed::raise(&laid, None)?;
    let mut narrow = link.and_then(|asked| {
        let shaper = testbed.lab.as_mut()?.take_shaper(Direction::Down)?;
        Some(Narrow { shaper, asked })
    });
    let interrupts = Interrupts::catch();
    let (seed, count) = (scenario.load.seed, answers.len() as u32);
    let turns = order_of_rounds(seed, asked.rounds, count, link.is_some());
    let orders = jobs
        .iter()
        .map(|job| order::in_turn(job, asked.rounds, WINDOW_MIN, &testbed));
    let orders = orders.collect::<Result<Vec<StepOrder>, Failed>>()?;
    for order in &orders {
        order.client.fits(&order.load).map_err(Failed::run)?;
    }
    let steps: Vec<StepOrder> = turns
        .iter()
        .enumerate()
        .map(|(index, turn)| {
            let mut step = orders[turn.answer as usize].clone();
            step.index = index as u32;
            step.name = name(&answers[turn.answer as usize], turn, lay);
            step
        })
        .collect();
    let mut plan = order::plan("bytes", &laid, &steps, &testbed.placement);
    // As it was asked for.
    plan.link.clone_from(lay);
    plan.target.url = redact(&scenario.target.url);
    let beside = Beside {
        sizes: Some(Sizes {
            answers,
            order: turns.clone(),
            link: lay.clone(),
            link_bits: link.map(|link| link.down_bits),
            ..Sizes::default()
        }),
        ..Beside::of(scenario)
    };
    let output = &around.output;
    let mut session = Session::begin_on(&testbed, plan, beside, output, interrupts)?;
    let mut result = Ok(());
    for (step, turn) in steps.iter().zip(&turns) {
        if session.interrupted() {
            break;
        }
        let mut take = || {
            if let Some(narrow) = &mut narrow {
                narrow.set(turn.behind_link)?;
            }
            session.step(step).map(|_| ())
        };
        if let Err(failed) = take() {
            result = Err(failed);
            break;
        }
    }
    result = session.served(&testbed, result);
    drop(testbed);
    judge_steps(&mut session.record);
    set_beside(&mut session.record);
    let record = session.finish(result, output)?;
    conclude(&record, &expect.require, &expect.threshold)
}

/// The same link with a rate that is not in the way.
fn open(link: LinkSpec) -> LinkSpec {
    let times = link.down_bits.saturating_mul(OPEN_TIMES);
    LinkSpec {
        down_bits: times
            .clamp(OPEN_BITS_MIN, OPEN_BITS_MAX)
            .max(link.down_bits),
        buffer_bytes: None,
        ..link
    }
}

fn name(answer: &Answer, turn: &Turn, link: &Option<String>) -> String {
    let place = match (link, turn.behind_link) {
        (Some(link), true) => format!(" behind {link}"),
        _ => String::new(),
    };
    format!("{} {}{place}", answer.path, answer.coding)
}

/// The paths of a URL, one for each thing in its braces.
fn paths(url: &str) -> Result<Vec<String>, Failed> {
    let bad = |why: &str| Failed::usage(format!("the URL's braces: {why}"));
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = rest.find(['/', '?', '#']);
    let path = place.map_or("/", |at| &rest[at..]);
    if rest[..place.unwrap_or(rest.len())].contains(['{', '}']) {
        return Err(bad("they belong to the path, not to the host"));
    }
    let Some((before, after)) = path.split_once('{') else {
        return match path.contains('}') {
            true => Err(bad("`}` has no `{`")),
            false => Ok(vec![path.to_owned()]),
        };
    };
    let (inside, after) = after.split_once('}').ok_or_else(|| bad("`{` has no `}`"))?;
    if after.contains(['{', '}']) || inside.contains('{') {
        return Err(bad("one pair, such as /files/{1k,8k,64k}.txt"));
    }
    let mut paths: Vec<String> = Vec::new();
    for part in inside.split(',') {
        let path = format!("{before}{}{after}", part.trim());
        if paths.contains(&path) {
            return Err(bad(&format!("`{}` stands twice", part.trim())));
        }
        paths.push(path);
    }
    Ok(paths)
}

/// Codings as they are asked for, answers as they are among them.
fn codings(asked: &Answers, scenario: &Scenario) -> Result<Vec<String>, Failed> {
    let mut codings = vec![IDENTITY.to_owned()];
    for coding in &asked.codings {
        let coding = coding.trim().to_ascii_lowercase();
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if coding.is_empty() || coding == "*" || !coding.chars().all(is_token) {
            return Err(Failed::usage(format!(
                "--codings: `{coding}` is no coding; write names such as identity,gzip,br,zstd"
            )));
        }
        if !codings.contains(&coding) {
            codings.push(coding);
        }
    }
    let negotiates = |header: &String| {
        let name = header.split(':').next().unwrap_or_default();
        name.trim().eq_ignore_ascii_case("accept-encoding")
    };
    if scenario.target.headers.iter().any(negotiates) {
        return Err(Failed::usage(
            "Accept-Encoding is what --codings asks for one at a time; leave -H out",
        ));
    }
    Ok(codings)
}

fn answers(paths: &[String], codings: &[String]) -> Result<Vec<Answer>, Failed> {
    let count = paths.len() * codings.len();
    if count > ANSWERS_MAX {
        return Err(Failed::usage(format!(
            "{} paths in {} codings are {count} answers; at most {ANSWERS_MAX} are measured in turn",
            paths.len(),
            codings.len()
        )));
    }
    let of_path = |path: &String| {
        let path = path.clone();
        codings.iter().map(move |coding| Answer {
            path: path.clone(),
            coding: coding.clone(),
        })
    };
    Ok(paths.iter().flat_map(of_path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_one_path_for_each_size() {
        let of = |url| paths(url).map_err(|failed| failed.message);
        assert_eq!(of("h:1").unwrap(), ["/"]);
        assert_eq!(of("http://h:1/a?b=c").unwrap(), ["/a?b=c"]);
        assert_eq!(
            of("http://h:1/a/{1k, 2k}.txt").unwrap(),
            ["/a/1k.txt", "/a/2k.txt"]
        );
        for bad in [
            "http://h/{a",
            "http://h/a}",
            "http://h/{a}{b}",
            "http://h/{a,a}",
            "http://{h}/",
        ] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_open_link_keeps_all_but_its_rate() {
        let link: LinkSpec = "1gbit,mtu=9001,up=10mbit".parse().unwrap();
        let open = open(link);
        assert_eq!((open.mtu, open.up_bits), (9001, 10_000_000));
        assert_eq!(open.down_bits, OPEN_BITS_MIN);
        let fast: LinkSpec = "300gbit".parse().unwrap();
        assert_eq!(super::open(fast).down_bits, OPEN_BITS_MAX);
    }
}
