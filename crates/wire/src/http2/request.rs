//! The header list of a request in HTTP/2 (RFC 9113, 8.2 and 8.3.1).

use super::hpack::Field;
use crate::request::{BadRequest, Request, USER_AGENT};

/// Fields that name what only HTTP/1 has.
const OF_CONNECTIONS: [&str; 4] = ["Connection", "Keep-Alive", "Proxy-Connection", "Upgrade"];

/// Checks a request and lists its fields: pseudo-fields, defaults, those of the user.
pub(super) fn fields(request: &Request, is_https: bool) -> Result<Vec<Field>, BadRequest> {
    let mut list = pseudo_fields(request, is_https)?;
    let is_default = |name| request.values_of(name).next().is_none();
    if is_default("User-Agent") {
        list.push(Field::new("user-agent", USER_AGENT));
    }
    if is_default("Accept") {
        list.push(Field::new("accept", "*/*"));
    }
    if is_default("Content-Length") && request.announces_length() {
        let length = request.body.len().to_string();
        list.push(Field::new("content-length", &length));
    }
    list.extend(user_fields(request));
    Ok(list)
}

/// Checks a request, and lists the fields that come first.
pub(crate) fn pseudo_fields(request: &Request, is_https: bool) -> Result<Vec<Field>, BadRequest> {
    request.check()?;
    if let Some((name, _)) = request.headers.iter().find(|(name, _)| is_refused(name)) {
        let reason = "is a field of HTTP/1 connections, which HTTP/2 has not (RFC 9113, 8.2.2)";
        return Err(BadRequest::header(name, reason));
    }
    if request.values_of("TE").any(|value| value != "trailers") {
        return Err(BadRequest::header(
            "TE",
            "may say `trailers` alone in HTTP/2",
        ));
    }
    if !request.target.starts_with(['/', '*']) {
        return Err(BadRequest::new(
            "target",
            "is absolute, which HTTP/2 has not",
        ));
    }
    let authority = request.values_of("Host").next();
    Ok(vec![
        Field::new(":method", &request.method),
        Field::new(":scheme", if is_https { "https" } else { "http" }),
        Field::new(":path", &request.target),
        Field::new(":authority", authority.unwrap_or(&request.authority)),
    ])
}

/// The fields of the user, as they are sent.
pub(crate) fn user_fields(request: &Request) -> impl Iterator<Item = Field> {
    let of_user = request.headers.iter();
    let others = of_user.filter(|(name, _)| !name.eq_ignore_ascii_case("Host"));
    others.map(|(name, value)| {
        let value = value.trim_matches([' ', '\t']);
        Field::new(&name.to_ascii_lowercase(), value)
    })
}

fn is_refused(name: &str) -> bool {
    OF_CONNECTIONS
        .iter()
        .any(|refused| name.eq_ignore_ascii_case(refused))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(request: &Request) -> Vec<String> {
        let fields = fields(request, false).expect("the request is sound");
        let line = |f: &Field| format!("{} {}", f.name, String::from_utf8_lossy(&f.value));
        fields.iter().map(line).collect()
    }

    #[test]
    fn pseudo_fields_come_first_and_defaults_stand_where_the_user_says_nothing() {
        let agent = format!("user-agent {USER_AGENT}");
        assert_eq!(
            text_of(&Request::get("h:80", "/a?b=c")),
            [
                ":method GET",
                ":scheme http",
                ":path /a?b=c",
                ":authority h:80",
                &agent,
                "accept */*"
            ]
        );
        let request = Request::new("POST", "h", "/")
            .header("HOST", "other")
            .header("User-Agent", "me")
            .header("Accept", "")
            .header("X-Two", " spaced\t")
            .body("hi");
        assert_eq!(
            text_of(&request)[3..],
            [
                ":authority other",
                "content-length 2",
                "user-agent me",
                "accept ",
                "x-two spaced"
            ]
        );
    }

    #[test]
    fn what_only_http1_has_is_refused() {
        for (name, value) in [
            ("connection", "close"),
            ("Keep-Alive", "1"),
            ("Proxy-Connection", "x"),
            ("upgrade", "h2c"),
            ("Transfer-Encoding", "chunked"),
            ("TE", "gzip"),
            ("X-Bad", "a\r\nb"),
        ] {
            let request = Request::get("h", "/").header(name, value);
            let refused = fields(&request, false).unwrap_err();
            assert_eq!(refused.place(), format!("header `{name}`"));
        }
        let absolute = Request::get("h", "http://h/");
        assert_eq!(fields(&absolute, true).unwrap_err().place(), "target");
        let te = Request::get("h", "/").header("te", "trailers");
        assert!(text_of(&te).contains(&"te trailers".to_owned()));
    }
}
