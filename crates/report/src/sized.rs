//! Answers of several sizes in words: what was measured of each, what bytes cost whom, and from
//! which size on a coding pays.

use wallfinder_model::Record;
use wallfinder_model::sizes::{Cost, Known, Pays, Point, Sizes};

use crate::{number, words};

/// What "pays" means, where it is said.
pub(crate) const PAYS: &str = "A coding pays where it brings at least 5 % more answers.";

/// One answer, in words.
pub(crate) struct Row {
    pub(crate) raw: String,
    pub(crate) coding: String,
    pub(crate) body: String,
    pub(crate) downlink: String,
    pub(crate) segments: String,
    pub(crate) server: String,
    pub(crate) client: String,
    pub(crate) open: String,
    pub(crate) open_wall: &'static str,
    pub(crate) behind: String,
    pub(crate) predicted: String,
    pub(crate) behind_wall: &'static str,
    /// Whether the prediction holds what was measured; `None` without both.
    pub(crate) holds: Option<bool>,
}

/// Points by size, then in the order of the codings.
pub(crate) fn points(sizes: &Sizes) -> Vec<&Point> {
    let mut points: Vec<&Point> = sizes.points.iter().collect();
    points.sort_by(|a, b| {
        a.raw_bytes
            .total_cmp(&b.raw_bytes)
            .then(a.answer.cmp(&b.answer))
    });
    points
}

/// The coding of a point.
pub(crate) fn coding<'s>(sizes: &'s Sizes, point: &Point) -> &'s str {
    let answer = sizes.answers.get(point.answer as usize);
    answer.map_or(number::UNKNOWN, |answer| &answer.coding)
}

pub(crate) fn row(sizes: &Sizes, point: &Point) -> Row {
    let maybe = |value: Option<f64>, show: fn(f64) -> String| {
        value.map_or(number::UNKNOWN.to_owned(), show)
    };
    let wall = |wall: Option<wallfinder_model::Wall>| wall.map_or(number::UNKNOWN, words::short);
    let both = point.predicted.zip(point.behind);
    Row {
        raw: number::bytes(point.raw_bytes),
        coding: coding(sizes, point).to_owned(),
        body: number::bytes(point.body_bytes),
        downlink: maybe(point.downlink_bytes, number::bytes),
        segments: maybe(point.segments, number::amount),
        server: maybe(point.server_cpu_ns, number::span),
        client: maybe(point.client_cpu_ns, number::span),
        open: maybe(point.open.map(|known| known.value), number::amount),
        open_wall: wall(point.open_wall),
        behind: maybe(point.behind.map(|known| known.value), number::amount),
        predicted: point.predicted.map_or(number::UNKNOWN.to_owned(), |known| {
            format!(
                "{}..{}",
                number::amount(known.low),
                number::amount(known.high)
            )
        }),
        behind_wall: wall(point.behind_wall),
        holds: both.map(|(predicted, measured)| {
            (predicted.low..=predicted.high).contains(&measured.value)
        }),
    }
}

/// What is said of a coding and a place: the answer, and with its numbers.
pub(crate) struct Sentence {
    pub(crate) short: String,
    pub(crate) full: String,
}

/// What holds where it was measured, a sentence for each coding and place.
pub(crate) fn measured(sizes: &Sizes) -> Vec<Sentence> {
    said(sizes, false)
}

/// What is predicted for links that were not there.
pub(crate) fn predicted(sizes: &Sizes) -> Vec<String> {
    let said = said(sizes, true).into_iter();
    said.map(|sentence| sentence.full).collect()
}

fn said(sizes: &Sizes, predicted: bool) -> Vec<Sentence> {
    let Some(ends) = ends(sizes) else {
        return Vec::new();
    };
    let mut sentences: Vec<Sentence> = sizes
        .pays
        .iter()
        .filter(|pays| pays.predicted == predicted)
        .filter(|pays| predicted || is_coded(sizes, &pays.coding))
        .map(|pays| sentence(sizes, pays, ends))
        .collect();
    // What is behind a link is what was asked about: it comes first.
    if !predicted {
        sentences.sort_by_key(|sentence| !sentence.short.starts_with("Behind"));
        let codings = sizes.pays.iter().filter(|pays| pays.link.is_none());
        let refused = codings.filter(|pays| !is_coded(sizes, &pays.coding));
        sentences.extend(refused.map(|pays| {
            let short = format!("The server does not answer in {}", pays.coding);
            Sentence {
                full: format!("{short}: its bytes are the same."),
                short,
            }
        }));
    }
    sentences
}

/// The smallest and the largest size.
fn ends(sizes: &Sizes) -> Option<(f64, f64)> {
    let raw = || sizes.points.iter().map(|point| point.raw_bytes);
    let least = raw().min_by(f64::total_cmp)?;
    Some((least, raw().max_by(f64::total_cmp)?))
}

/// Whether any answer has fewer bytes by it.
fn is_coded(sizes: &Sizes, coding: &str) -> bool {
    let mut points = sizes.points.iter();
    points.any(|point| {
        self::coding(sizes, point) == coding && point.body_bytes < 0.98 * point.raw_bytes
    })
}

fn sentence(sizes: &Sizes, pays: &Pays, (least, most): (f64, f64)) -> Sentence {
    let place = match (&pays.link, &sizes.link) {
        (Some(link), _) => format!("behind {link} "),
        (None, Some(_)) => "without the link's rate ".to_owned(),
        (None, None) => String::new(),
    };
    let coding = &pays.coding;
    let (small, large) = (number::bytes(least), number::bytes(most));
    let of = |known: &Known| {
        format!(
            "{} × [{}, {}]",
            number::factor(known.value),
            number::factor(known.low),
            number::factor(known.high)
        )
    };
    let (short, beside) = match pays.from_bytes {
        None => (
            format!("{place}{coding} pays nowhere up to {large}"),
            String::new(),
        ),
        Some(from) => {
            let size = match from.value <= least * 1.001 {
                true => "the smallest size".to_owned(),
                false => number::bytes(from.value),
            };
            (
                format!("{place}{coding} pays from {size} on"),
                interval(&from),
            )
        }
    };
    let full = format!(
        "{short}{beside}: it brings {} at {large}, and {} at {small}.",
        of(&pays.largest),
        of(&pays.smallest)
    );
    Sentence {
        short: words::capital_sentence(&short),
        full: words::capital_sentence(&full),
    }
}

/// ` [1 KB, 1 MB]`, or ` [1 KB, beyond 1 MB]` where it may only pay beyond the largest size; nothing where
/// both ends are the same.
fn interval(from: &Known) -> String {
    let beyond = match from.high_is_open {
        true => "beyond ",
        false if from.high <= from.low => return String::new(),
        false => "",
    };
    format!(
        " [{}, {beyond}{}]",
        number::bytes(from.low),
        number::bytes(from.high)
    )
}

/// What the table of costs is.
pub(crate) const COSTS: &str = "A straight line over the sizes: so much for each request and so much for \
                                each KB of its answer on the wire; and how far the sizes lie off it.";

/// Who pays for requests and bytes, in words.
pub(crate) struct CostRow {
    pub(crate) whose: String,
    pub(crate) coding: String,
    pub(crate) per_request: String,
    pub(crate) per_request_ends: String,
    pub(crate) per_kb: String,
    pub(crate) per_kb_ends: String,
    pub(crate) misfit: String,
}

pub(crate) fn cost(cost: &Cost) -> CostRow {
    let show: fn(f64) -> String = match cost.whose.as_str() {
        "downlink" => number::bytes,
        _ => number::span,
    };
    // A line may pass below nothing.
    let signed = |value: f64| match value < 0.0 {
        true => format!("−{}", show(-value)),
        false => show(value),
    };
    let ends = |known: Known, times: f64| {
        format!(
            "{} to {}",
            signed(known.low * times),
            signed(known.high * times)
        )
    };
    const KB: f64 = 1000.0;
    CostRow {
        whose: match cost.whose.as_str() {
            "downlink" => "downlink".to_owned(),
            side => format!("CPU of {side}"),
        },
        coding: cost.coding.clone(),
        per_request: signed(cost.per_request.value),
        per_request_ends: ends(cost.per_request, 1.0),
        per_kb: signed(cost.per_byte.value * KB),
        per_kb_ends: ends(cost.per_byte, KB),
        misfit: number::share(cost.misfit),
    }
}

/// How the predictions did.
pub(crate) fn score(sizes: &Sizes) -> Option<String> {
    let score = sizes.score?;
    Some(format!(
        "What the link lets through was predicted from bytes and from what came without it: {} of {} \
         intervals hold what was measured, {} RMSE.",
        score.within,
        score.predictions,
        number::share(score.rmse)
    ))
}

/// `4 rounds of 16 windows, 0.5 s each`.
pub(crate) fn rounds(record: &Record, sizes: &Sizes) -> String {
    let rounds = sizes
        .order
        .iter()
        .map(|turn| turn.round.saturating_add(1))
        .max()
        .unwrap_or(0);
    let windows = sizes.order.len() as u64 / u64::from(rounds.max(1));
    let each = record.steps.first().map_or(0, |step| step.window_ns);
    format!(
        "{} of {}, {} each",
        words::counted(u64::from(rounds), "round"),
        words::counted(windows, "window"),
        number::length(each)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(value: f64, low: f64, high: f64) -> Known {
        Known {
            value,
            low,
            high,
            high_is_open: false,
        }
    }

    /// What is said of a coding that pays from there on, of sizes from 1 KB to 1 MB.
    fn said_of(from_bytes: Known) -> String {
        let pays = Pays {
            coding: "gzip".to_owned(),
            link: None,
            predicted: false,
            from_bytes: Some(from_bytes),
            smallest: known(1.0, 0.9, 1.1),
            largest: known(2.0, 1.0, 4.0),
        };
        let said = sentence(&Sizes::default(), &pays, (1e3, 1e6)).full;
        let (from, _) = said.split_once(": it brings").expect("what it brings");
        from.to_owned()
    }

    #[test]
    fn an_interval_without_an_upper_end_is_told_as_such() {
        let closed = known(8e3, 1e3, 1e6);
        assert_eq!(
            said_of(closed),
            "Gzip pays from 8.00 KB on [1.00 KB, 1.00 MB]"
        );
        let open = Known {
            high_is_open: true,
            ..closed
        };
        assert_eq!(
            said_of(open),
            "Gzip pays from 8.00 KB on [1.00 KB, beyond 1.00 MB]"
        );
    }

    #[test]
    fn where_the_smallest_size_is_enough_the_interval_is_told_too() {
        let from = "Gzip pays from the smallest size on";
        assert_eq!(said_of(known(1e3, 1e3, 1e3)), from);
        let wide = known(1e3, 1e3, 64e3);
        assert_eq!(said_of(wide), format!("{from} [1.00 KB, 64.0 KB]"));
        let open = Known {
            high_is_open: true,
            ..known(1e3, 1e3, 1e3)
        };
        assert_eq!(said_of(open), format!("{from} [1.00 KB, beyond 1.00 KB]"));
    }
}
