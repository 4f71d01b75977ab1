//! Which route a path is of, as far as the path itself tells.

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
