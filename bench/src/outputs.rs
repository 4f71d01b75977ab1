//! What load generators print, read from bytes: never from a process, never from a path.
//!
//! Each parser takes the generator's whole standard output and gives what it counted.
//! Fixtures of real outputs stand in `testdata/`.

use serde::Deserialize;
use serde_json::Value;

/// What a generator says it did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tally {
    /// Good answers.
    pub answered: u64,
    /// Everything else: errors, time-outs, statuses that are not 2xx or 3xx.
    pub failed: u64,
    /// How long it measured, as it says itself.
    pub seconds: f64,
}

/// Why an output could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable(pub String);

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "its output cannot be read: {}", self.0)
    }
}

impl std::error::Error for Unreadable {}

fn missing(what: &str) -> Unreadable {
    Unreadable(format!("{what} is missing"))
}

/// `wrk`: `53834 requests in 1.01s, 6.37MB read`, and lines about what failed.
pub fn wrk(text: &str) -> Result<Tally, Unreadable> {
    let line = text
        .lines()
        .find(|line| line.contains(" requests in "))
        .ok_or_else(|| missing("`requests in`"))?;
    let (count, rest) = line
        .trim()
        .split_once(" requests in ")
        .ok_or_else(|| missing("`requests in`"))?;
    let duration = rest.split(',').next().unwrap_or_default();
    let (mut bad, mut lost) = (0, 0);
    for line in text.lines().map(str::trim) {
        if let Some(count) = line.strip_prefix("Non-2xx or 3xx responses: ") {
            bad = number(count)?;
        } else if let Some(counts) = line.strip_prefix("Socket errors: ") {
            // connect 0, read 0, write 0, timeout 3
            for part in counts.split(", ") {
                let count = part.rsplit(' ').next().unwrap_or_default();
                lost += number(count)?;
            }
        }
    }
    Ok(Tally {
        answered: number(count)?.saturating_sub(bad),
        failed: bad + lost,
        seconds: seconds(duration)?,
    })
}

/// `h2load`: `finished in 1.00s, …` and `requests: 30436 total, … succeeded, 0 failed, …`.
pub fn h2load(text: &str) -> Result<Tally, Unreadable> {
    let finished = text
        .lines()
        .find_map(|line| line.strip_prefix("finished in "))
        .ok_or_else(|| missing("`finished in`"))?;
    let requests = text
        .lines()
        .find_map(|line| line.strip_prefix("requests: "))
        .ok_or_else(|| missing("`requests:`"))?;
    let count_of = |name: &str| {
        requests
            .split(", ")
            .find_map(|part| part.strip_suffix(name))
            .ok_or_else(|| missing(name))
            .and_then(number)
    };
    let statuses = text
        .lines()
        .find_map(|line| line.strip_prefix("status codes: "))
        .ok_or_else(|| missing("`status codes:`"))?;
    let mut good = 0;
    for part in statuses.split(", ") {
        if let Some(count) = part.strip_suffix(" 2xx").or(part.strip_suffix(" 3xx")) {
            good += number(count)?;
        }
    }
    let done = count_of(" done")?;
    Ok(Tally {
        answered: good,
        failed: count_of(" failed")?.max(done.saturating_sub(good)),
        seconds: seconds(finished.split(',').next().unwrap_or_default())?,
    })
}

/// `ghz -O json`.
pub fn ghz(text: &str) -> Result<Tally, Unreadable> {
    let json = json(text)?;
    let count = json["count"].as_u64().ok_or_else(|| missing("count"))?;
    let good = json["statusCodeDistribution"]["OK"].as_u64().unwrap_or(0);
    let total_ns = json["total"].as_u64().ok_or_else(|| missing("total"))?;
    Ok(Tally {
        answered: good,
        failed: count.saturating_sub(good),
        seconds: total_ns as f64 / 1e9,
    })
}

/// `shb --json`.
pub fn shb(text: &str) -> Result<Tally, Unreadable> {
    let json = json(text)?;
    let statuses = json["statusCodes"]
        .as_object()
        .ok_or_else(|| missing("statusCodes"))?;
    let (good, bad) = by_status(statuses.iter())?;
    Ok(Tally {
        answered: good,
        failed: bad
            + count(&json["requests"]["errors"])?
            + count(&json["requests"]["connectErrors"])?,
        seconds: real(&json["durationSeconds"])?,
    })
}

/// `oha --output-format json`. Requests that its deadline cut off are no failures.
pub fn oha(text: &str) -> Result<Tally, Unreadable> {
    let json = json(text)?;
    let statuses = json["statusCodeDistribution"]
        .as_object()
        .ok_or_else(|| missing("statusCodeDistribution"))?;
    let (good, bad) = by_status(statuses.iter())?;
    let mut failed = bad;
    if let Some(errors) = json["errorDistribution"].as_object() {
        for (error, times) in errors {
            if error != "aborted due to deadline" {
                failed += count(times)?;
            }
        }
    }
    Ok(Tally {
        answered: good,
        failed,
        seconds: real(&json["summary"]["total"])?,
    })
}

/// The summary of our script for `k6`, behind whatever else it says.
pub fn k6(text: &str) -> Result<Tally, Unreadable> {
    let line = text.lines().rfind(|line| line.starts_with('{'));
    let json = json(line.ok_or_else(|| missing("the summary"))?)?;
    Ok(Tally {
        answered: count(&json["answered"])?,
        failed: count(&json["failed"])?,
        seconds: real(&json["seconds"])?,
    })
}

/// `vegeta report -type json`.
pub fn vegeta(text: &str) -> Result<Tally, Unreadable> {
    let json = json(text)?;
    let codes = json["status_codes"].as_object();
    let codes = codes.ok_or_else(|| missing("status_codes"))?;
    let (good, bad) = by_status(codes.iter())?;
    Ok(Tally {
        answered: good,
        failed: bad,
        seconds: real(&json["duration"])? / 1e9,
    })
}

/// `autocannon --json`.
pub fn autocannon(text: &str) -> Result<Tally, Unreadable> {
    // Everything stands in one line; warnings may stand in others.
    let line = text
        .lines()
        .find(|line| line.starts_with('{'))
        .ok_or_else(|| missing("the JSON"))?;
    let json = json(line)?;
    Ok(Tally {
        answered: count(&json["2xx"])? + count(&json["3xx"])?,
        failed: count(&json["non2xx"])? + count(&json["errors"])? + count(&json["timeouts"])?,
        seconds: real(&json["duration"])?,
    })
}

/// `wallfinder run --format json`: the record, with one step.
pub fn wallfinder(text: &str) -> Result<Tally, Unreadable> {
    let json = json(text)?;
    let step = &json["steps"][0];
    let mut failed = 0;
    for classes in ["failed", "connect_failures"] {
        let classes = step["counts"][classes].as_object();
        for times in classes.ok_or_else(|| missing("counts"))?.values() {
            failed += count(times)?;
        }
    }
    Ok(Tally {
        answered: count(&step["counts"]["answered"])?,
        failed,
        seconds: real(&step["window_ns"])? / 1e9,
    })
}

/// Our own helpers (`null-client`, `engine`): one JSON object.
pub fn own(text: &str) -> Result<Tally, Unreadable> {
    #[derive(Deserialize)]
    struct Own {
        answered: u64,
        failed: u64,
        seconds: f64,
    }
    let own: Own = serde_json::from_str(text).map_err(|error| Unreadable(error.to_string()))?;
    Ok(Tally {
        answered: own.answered,
        failed: own.failed,
        seconds: own.seconds,
    })
}

fn by_status<'a>(
    statuses: impl Iterator<Item = (&'a String, &'a Value)>,
) -> Result<(u64, u64), Unreadable> {
    let (mut good, mut bad) = (0, 0);
    for (code, times) in statuses {
        let is_good = code.starts_with('2') || code.starts_with('3');
        *(if is_good { &mut good } else { &mut bad }) += count(times)?;
    }
    Ok((good, bad))
}

fn json(text: &str) -> Result<Value, Unreadable> {
    serde_json::from_str(text).map_err(|error| Unreadable(error.to_string()))
}

fn count(value: &Value) -> Result<u64, Unreadable> {
    value
        .as_u64()
        .ok_or_else(|| Unreadable(format!("{value} is not a count")))
}

fn real(value: &Value) -> Result<f64, Unreadable> {
    value
        .as_f64()
        .ok_or_else(|| Unreadable(format!("{value} is not a number")))
}

fn number(text: &str) -> Result<u64, Unreadable> {
    text.trim()
        .parse()
        .map_err(|_| Unreadable(format!("`{text}` is not a count")))
}

/// `1.01s`, `980.00ms`, `2.00m`, as wrk and h2load write durations.
fn seconds(text: &str) -> Result<f64, Unreadable> {
    let text = text.trim();
    let units = [
        ("us", 1e-6),
        ("ms", 1e-3),
        ("m", 60.0),
        ("h", 3600.0),
        ("s", 1.0),
    ];
    units
        .iter()
        .find_map(|(unit, factor)| {
            let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
            Some(number * factor)
        })
        .ok_or_else(|| Unreadable(format!("`{text}` is not a duration")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(answered: u64, failed: u64, seconds: f64) -> Tally {
        Tally {
            answered,
            failed,
            seconds,
        }
    }

    #[test]
    fn wrk_is_read() {
        let good = include_str!("../testdata/wrk");
        assert_eq!(wrk(good), Ok(tally(53834, 0, 1.01)));
        let bad = include_str!("../testdata/wrk_errors");
        assert_eq!(wrk(bad), Ok(tally(0, 67_800, 1.1)));
    }

    #[test]
    fn wrk_socket_errors_are_failures() {
        let text = "  900 requests in 500.00ms, 1MB read\n  \
                    Socket errors: connect 1, read 2, write 3, timeout 4\n";
        assert_eq!(wrk(text), Ok(tally(900, 10, 0.5)));
    }

    #[test]
    fn h2load_is_read() {
        let good = include_str!("../testdata/h2load");
        assert_eq!(h2load(good), Ok(tally(30436, 0, 1.0)));
        let bad = include_str!("../testdata/h2load_errors");
        let read = h2load(bad).unwrap();
        assert_eq!(read.answered, 0);
        assert!(read.failed > 0);
    }

    #[test]
    fn shb_is_read() {
        let good = shb(include_str!("../testdata/shb.json")).unwrap();
        assert!(good.answered > 1000 && good.failed == 0, "{good:?}");
        assert!((good.seconds - 1.0).abs() < 0.1);
        let bad = shb(include_str!("../testdata/shb_errors.json")).unwrap();
        assert!(bad.answered == 0 && bad.failed > 1000, "{bad:?}");
    }

    #[test]
    fn oha_is_read() {
        let good = oha(include_str!("../testdata/oha.json")).unwrap();
        assert!(good.answered > 1000 && good.failed == 0, "{good:?}");
        assert!((good.seconds - 1.0).abs() < 0.1);
        let bad = oha(include_str!("../testdata/oha_errors.json")).unwrap();
        assert!(bad.answered == 0 && bad.failed > 1000, "{bad:?}");
    }

    #[test]
    fn autocannon_is_read() {
        let good = include_str!("../testdata/autocannon.json");
        assert_eq!(autocannon(good), Ok(tally(42743, 0, 1.01)));
        let bad = autocannon(include_str!("../testdata/autocannon_errors.json")).unwrap();
        assert!(bad.answered == 0 && bad.failed > 1000, "{bad:?}");
    }

    #[test]
    fn a_record_is_read() {
        let text = r#"{"steps":[{"window_ns":2000000000,"counts":{"answered":7,
            "failed":{"net.reset":2},"connect_failures":{}}}]}"#;
        assert_eq!(wallfinder(text), Ok(tally(7, 2, 2.0)));
    }

    #[test]
    fn our_own_is_read() {
        let text = r#"{"answered":12,"failed":1,"seconds":0.5,"cpu_seconds":0.1}"#;
        assert_eq!(own(text), Ok(tally(12, 1, 0.5)));
    }

    #[test]
    fn other_text_is_refused_by_all() {
        for parse in [wrk, h2load, shb, oha, autocannon, wallfinder, own] {
            for text in ["", "unable to connect to 127.0.0.1:1", "{}", "[]"] {
                assert!(parse(text).is_err(), "{text}");
            }
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(seconds("2.00m"), Ok(120.0));
        assert_eq!(seconds("1.5s"), Ok(1.5));
        assert_eq!(seconds("250us"), Ok(0.00025));
        assert!(seconds("12").is_err());
        assert!(seconds("s").is_err());
    }
}
