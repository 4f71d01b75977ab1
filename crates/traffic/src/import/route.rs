//! Which route a path is of, as far as the path itself tells; and requests by their routes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use wallfinder_model::traffic::{Request, Traffic};

use super::{drawn, unused};

/// Routes that are told apart; the rest are one for each method.
pub(super) const ROUTES_MAX: usize = 100;
/// Room among them for the rest, by method: GET and HEAD.
const REST_METHODS: usize = 2;
/// Paths of a route that its rows hold.
pub(super) const ROWS_MAX: usize = 1_000;

/// The path without its query, a `*` in the place of each segment that looks like a value: a number, a UUID, a hash,
/// something long.
pub(crate) fn route(target: &str) -> String {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let segments = path.split('/').map(|segment| match is_value(segment) {
        true => "*",
        false => segment,
    });
    segments.collect::<Vec<&str>>().join("/")
}

fn is_value(segment: &str) -> bool {
    let (stem, _) = segment.rsplit_once('.').unwrap_or((segment, ""));
    let digits = stem.bytes().filter(u8::is_ascii_digit).count();
    let is_number = !stem.is_empty() && digits == stem.len();
    let hex = stem
        .bytes()
        .filter(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
        .count();
    let is_hash = stem.len() >= 8 && hex == stem.len() && digits > 0;
    let is_mixed = stem.len() >= 16 && digits >= 4;
    is_number || is_hash || is_mixed || segment.len() > 40 || segment.contains('%')
}

/// Paths that were asked, by their method and route.
pub(super) type Routes<'m> = BTreeMap<(&'m str, String), Vec<String>>;

/// What a route is called.
pub(super) fn shown(method: &str, target: &str) -> String {
    match method {
        "GET" => route(target),
        method => format!("{method} {}", route(target)),
    }
}

/// A request for each route, by how often it was asked, with the paths that were asked as rows; `finish` adds what else
/// is known of it.
pub(super) fn pooled<'m>(
    routes: Routes<'m>,
    seed: u64,
    names: &mut BTreeSet<String>,
    traffic: &mut Traffic,
    mut finish: impl FnMut(&(&'m str, String), &mut Request),
) {
    let mut by_count: Vec<((&str, String), Vec<String>)> = routes.into_iter().collect();
    by_count.sort_by_key(|(_, targets)| Reverse(targets.len()));
    if by_count.len() > ROUTES_MAX {
        let mut others: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for ((method, _), targets) in by_count.split_off(ROUTES_MAX - REST_METHODS) {
            others.entry(method).or_default().extend(targets);
        }
        let others = others.into_iter();
        by_count.extend(others.map(|(method, targets)| ((method, "others".to_owned()), targets)));
    }
    let mut random = Rng::with_seed(seed);
    for (of, targets) in by_count {
        let weight = u32::try_from(targets.len()).unwrap_or(u32::MAX);
        let mut kind = drawn(traffic, of.0, "", sampled(targets, &mut random));
        kind.name = Some(unused(&shown(of.0, &of.1), names));
        kind.weight = Some(weight);
        finish(&of, &mut kind);
        traffic.request.push(kind);
    }
}

/// So many of them, each as likely as any other, so that what is asked often stays so.
fn sampled(mut targets: Vec<String>, random: &mut Rng) -> Vec<String> {
    if targets.len() > ROWS_MAX {
        random.shuffle(&mut targets);
        targets.truncate(ROWS_MAX);
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_from_names() {
        for (target, want) in [
            ("/", "/"),
            ("/search?q=shoes", "/search"),
            ("/items/1234/reviews", "/items/*/reviews"),
            ("/u/7f3c1f9e-3b1d-4e64-9d0a-000000000000", "/u/*"),
            ("/static/app.4f9a3b2c1d.js", "/static/app.4f9a3b2c1d.js"),
            ("/static/4f9a3b2c1d.js", "/static/*"),
            ("/v2/facade", "/v2/facade"),
            ("/tag/a%20b", "/tag/*"),
        ] {
            assert_eq!(route(target), want, "{target}");
        }
    }
}
