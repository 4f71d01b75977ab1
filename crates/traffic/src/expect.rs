//! What an answer must be, what is taken from it, and how long a user pauses: from how they are written.

use std::collections::BTreeMap;

use wallfinder_model::Nanos;
use wallfinder_model::traffic::{Check, Scalar, Statuses};
use wallfinder_wire::mix::{self, Expect, JsonIs, Source, Take, Think};

/// Checks of one answer, or values taken from it, at the most.
const SEEKS_MAX: usize = 32;

/// What is looked for, with the key that is wrong where one is: `.take.token`. Taken values have the numbers of
/// `variables`.
pub(crate) fn expect(
    check: Option<&Check>,
    takes: &BTreeMap<String, String>,
    variables: &BTreeMap<String, u16>,
) -> Result<Expect, (String, String)> {
    let mut expect = Expect::default();
    for (name, given) in takes {
        let at = |why: String| (format!(".take.{name}"), why);
        let take = Take {
            variable: variables[name],
            from: source(given).map_err(at)?,
            fits: Vec::new(),
        };
        let alone = Expect {
            takes: vec![take.clone()],
            ..Expect::default()
        };
        alone.check().map_err(at)?;
        expect.takes.push(take);
    }
    if let Some(check) = check {
        checks(check, &mut expect).map_err(|(key, why)| (format!(".check{key}"), why))?;
    }
    if expect.takes.len() > SEEKS_MAX || expect.checks.len() > SEEKS_MAX {
        let why = format!(
            "at most {SEEKS_MAX} values are taken from an answer, and as many checks held against it"
        );
        return Err((String::new(), why));
    }
    Ok(expect)
}

fn source(given: &str) -> Result<Source, String> {
    let known = given.split_once(':').and_then(|(kind, of)| {
        Some(match kind {
            "json" => Source::Json(of.to_owned()),
            "header" => Source::Header(of.trim().to_ascii_lowercase()),
            "cookie" => Source::Cookie(of.trim().to_owned()),
            "regex" => Source::Regex(of.to_owned()),
            _ => return None,
        })
    });
    known.ok_or_else(|| {
        format!("`{given}` says not where it stands: write json:/pointer, header:NAME, cookie:NAME or regex:PATTERN")
    })
}

fn checks(check: &Check, expect: &mut Expect) -> Result<(), (String, String)> {
    let Check {
        status,
        header,
        body_contains,
        json,
        json_has,
        length,
        every,
    } = check;
    let single;
    let given = match status {
        None => &[][..],
        Some(Statuses::One(one)) => {
            single = [one.clone()];
            &single
        }
        Some(Statuses::Several(several)) => several,
    };
    for one in given {
        let range = statuses(&one.to_string()).ok_or_else(|| {
            let why = format!(
                "`{one}` is no status: write 200, \"2xx\" or \"200..204\", or a list of these"
            );
            (".status".to_owned(), why)
        })?;
        expect.statuses.push(range);
    }
    for (name, value) in header {
        let name = name.to_ascii_lowercase();
        expect.checks.push(mix::Check::Header(name, value.clone()));
    }
    if let Some(body) = body_contains {
        expect
            .checks
            .push(mix::Check::BodyHas(body.clone().into_bytes()));
    }
    for (pointer, value) in json {
        let is = match value {
            Scalar::Text(text) => JsonIs::Text(text.clone()),
            plain => JsonIs::Plain(plain.to_string()),
        };
        expect.checks.push(mix::Check::Json(pointer.clone(), is));
    }
    for pointer in json_has {
        expect
            .checks
            .push(mix::Check::Json(pointer.clone(), JsonIs::There));
    }
    if let Some(length) = length {
        let (from, to) = range(&length.to_string()).ok_or_else(|| {
            let why = format!("`{length}` is no length in bytes: write 512, or \"100..2000\"");
            (".length".to_owned(), why)
        })?;
        expect.checks.push(mix::Check::Length(from, to));
    }
    expect.check().map_err(|why| (".json".to_owned(), why))?;
    if *every == Some(0) {
        return Err((
            ".every".to_owned(),
            "one of 0 answers is none: leave it out for all".to_owned(),
        ));
    }
    expect.every = every.unwrap_or(1);
    Ok(())
}

fn statuses(given: &str) -> Option<(u16, u16)> {
    if let Some(class) = given.strip_suffix("xx") {
        let class: u16 = class.parse().ok().filter(|class| (2..=5).contains(class))?;
        return Some((100 * class, 100 * class + 99));
    }
    let (from, to) = range(given)?;
    let is_status = |status: u64| (200..=999).contains(&status);
    (is_status(from) && is_status(to)).then_some((from as u16, to as u16))
}

/// `7`, `7..9`, `7..`, `..9`; both ends are in.
fn range(given: &str) -> Option<(u64, u64)> {
    let Some((from, to)) = given.split_once("..") else {
        let one = given.parse().ok()?;
        return Some((one, one));
    };
    let end = |text: &str, otherwise| match text {
        "" => Some(otherwise),
        text => text.trim_start_matches('=').parse().ok(),
    };
    let (from, to) = (end(from, 0)?, end(to, u64::MAX)?);
    (from <= to).then_some((from, to))
}

/// A pause: `300ms`, `100ms..500ms`, `exp(300ms)`.
pub(crate) fn think(given: &str) -> Result<Think, String> {
    let length = |text: &str| text.trim().parse::<Nanos>().map(|length| length.0).ok();
    let found = if let Some(mean) = given
        .strip_prefix("exp(")
        .and_then(|rest| rest.strip_suffix(')'))
    {
        length(mean).map(Think::Exponential)
    } else if let Some((from, to)) = given.split_once("..") {
        let ends = length(from).zip(length(to)).filter(|(from, to)| from <= to);
        ends.map(|(from, to)| Think::Between(from, to))
    } else {
        length(given).map(Think::For)
    };
    let wrong = || format!("`{given}` is no pause: write 300ms, 100ms..500ms or exp(300ms)");
    found.ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_looked_for() {
        assert_eq!(statuses("200"), Some((200, 200)));
        assert_eq!(statuses("2xx"), Some((200, 299)));
        assert_eq!(statuses("200..204"), Some((200, 204)));
        assert_eq!(statuses("0"), None);
        assert_eq!(statuses("9xx"), None);
        assert_eq!(range("..9"), Some((0, 9)));
        assert_eq!(range("9..3"), None);
        assert_eq!(think("300ms"), Ok(Think::For(300_000_000)));
        assert_eq!(
            think("100ms..0.5s"),
            Ok(Think::Between(100_000_000, 500_000_000))
        );
        assert_eq!(think("exp(2s)"), Ok(Think::Exponential(2_000_000_000)));
        for wrong in ["soon", "exp(x)", "5s..1s", ""] {
            assert!(think(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_has_its_key() {
        let of = |check: Option<&Check>, takes: &[(&str, &str)]| {
            let takes: BTreeMap<String, String> = takes
                .iter()
                .map(|(name, given)| (name.to_string(), given.to_string()))
                .collect();
            let numbers = takes.keys().cloned().zip(0..).collect();
            expect(check, &takes, &numbers)
        };
        for (given, part) in [
            ("jsn:/a", "write json:/pointer"),
            ("json:a", "no JSON pointer"),
            ("regex:(", "the pattern ( is none"),
            ("regex:(a{1000}){1000}{1000}", "takes more than 4 MiB"),
        ] {
            let (key, why) = of(None, &[("t", given)]).expect_err(given);
            assert_eq!(key, ".take.t");
            assert!(why.contains(part), "{why}");
        }
        let check = Check {
            json: [("a".to_owned(), Scalar::Whole(1))].into(),
            ..Check::default()
        };
        assert_eq!(
            of(Some(&check), &[]).expect_err("no pointer").0,
            ".check.json"
        );
        let check = Check {
            status: Some(Statuses::One(Scalar::Whole(20))),
            ..Check::default()
        };
        assert_eq!(
            of(Some(&check), &[]).expect_err("no status").0,
            ".check.status"
        );
    }
}
