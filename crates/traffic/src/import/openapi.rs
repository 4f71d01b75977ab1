//! An OpenAPI description (3.0, 3.1, and what Swagger 2.0 says likewise): each operation once, with its examples.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use wallfinder_model::traffic::{Request, Traffic};

use super::{
    FORM, Imported, IsSecret, Secrets, as_body, body_without_secrets, counted, encoded, fields,
    pair, request, set_type, strange_bodies, unused, without_secrets,
};

/// How deep a schema is followed for an example.
const DEPTH_MAX: usize = 6;
/// Values that an example has at the most.
const VALUES_MAX: usize = 2_000;
/// Operations that are taken.
const OPERATIONS_MAX: usize = 400;

/// Requests, each with the same weight, from the description's own examples, or else from its types.
///
/// # Errors
///
/// What has no paths.
pub fn from_openapi(description: &Value, is_secret: IsSecret<'_>) -> Result<Imported, String> {
    let paths = description.get("paths").and_then(Value::as_object);
    let paths = paths.ok_or("it is no OpenAPI description: it has no paths")?;
    let base = base(description);
    let mut traffic = Traffic::default();
    let (mut unknown, mut behind) = (0, 0);
    let mut missing = Missing::default();
    let mut names = BTreeSet::new();
    for (path, item) in paths {
        let item = resolved(description, item);
        let Some(methods) = item.as_object() else {
            continue;
        };
        for (method, operation) in methods {
            let method = method.to_ascii_uppercase();
            if ![
                "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE",
            ]
            .contains(&method.as_str())
            {
                continue;
            }
            if method == "TRACE" {
                unknown += 1;
                continue;
            }
            if traffic.request.len() == OPERATIONS_MAX {
                behind += 1;
                continue;
            }
            let shared = methods.get("parameters");
            let mut kind = of_operation(
                description,
                (&method, &base, path),
                shared,
                operation,
                is_secret,
                &mut missing,
            );
            let own = operation.get("operationId").and_then(Value::as_str);
            let name = own.map_or_else(|| format!("{method} {path}"), str::to_owned);
            kind.name = Some(unused(&name, &mut names));
            traffic.request.push(kind);
        }
    }
    if traffic.request.is_empty() {
        return Err("there is no operation in it that could be sent".to_owned());
    }
    let mut left_out = Vec::new();
    for (count, why) in [(unknown, "of TRACE"), (behind, "behind the first 400")] {
        if count > 0 {
            left_out.push(format!("{} {why}", counted(count, "operation")));
        }
    }
    left_out.extend(missing.said());
    let schemes = description
        .pointer("/components/securitySchemes")
        .or_else(|| description.get("securityDefinitions"));
    let schemes: Vec<String> = schemes
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    if !schemes.is_empty() {
        left_out.push(format!(
            "secrets: what {} wants. Give it with -H 'Authorization: env:VARIABLE', or in header = {{ … }}",
            schemes.join(", ")
        ));
    }
    let server = description
        .pointer("/servers/0/url")
        .and_then(Value::as_str);
    Ok(Imported {
        traffic,
        origin: server.and_then(without_user),
        left_out,
    })
}

/// A whole URL without a user and a password.
fn without_user(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    let host = authority.rsplit('@').next().unwrap_or_default();
    Some(format!("{scheme}://{host}{behind}"))
}

/// The path before all paths.
fn base(description: &Value) -> String {
    let url = description
        .pointer("/servers/0/url")
        .or_else(|| description.get("basePath"));
    let url = url.and_then(Value::as_str).unwrap_or_default();
    let path = match url.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("", |at| &rest[at..]),
        None => url,
    };
    path.trim_end_matches('/').to_owned()
}

/// What of the description comes into no request.
#[derive(Default)]
struct Missing {
    secrets: Secrets,
    strange_bodies: usize,
    parts: usize,
    places: usize,
}

impl Missing {
    fn said(self) -> Vec<String> {
        let parts = (self.parts > 0).then(|| {
            let requests = counted(self.parts, "request");
            format!("the bodies of {requests} of parts: write them in as multipart")
        });
        let places = (self.places > 0).then(|| {
            let places = counted(self.places, "place");
            format!(
                "the values of {places} in paths, which no parameter tells of: `x` stands there"
            )
        });
        let all = [
            parts,
            places,
            strange_bodies(self.strange_bodies),
            self.secrets.said(),
        ];
        all.into_iter().flatten().collect()
    }
}

/// An operation's own parameters, and those of its path that it does not give itself.
fn parameters<'a>(
    all: &'a Value,
    shared: Option<&'a Value>,
    operation: &'a Value,
) -> Vec<&'a Value> {
    let listed = |of: Option<&'a Value>| {
        let list = of.and_then(Value::as_array).into_iter().flatten();
        list.map(|parameter| resolved(all, parameter))
            .collect::<Vec<&Value>>()
    };
    let like = |a: &Value, b: &Value| a["name"] == b["name"] && a["in"] == b["in"];
    let own = listed(operation.get("parameters"));
    let mut found = listed(shared);
    found.retain(|shared| !own.iter().any(|own| like(own, shared)));
    found.extend(own);
    found
}

fn of_operation(
    all: &Value,
    (method, base, path): (&str, &str, &str),
    shared: Option<&Value>,
    operation: &Value,
    is_secret: IsSecret<'_>,
    missing: &mut Missing,
) -> Request {
    let (mut target, mut query) = (format!("{base}{path}"), Vec::new());
    let (mut header, mut form) = (Vec::new(), Vec::new());
    let mut whole = None;
    let mut has_file = false;
    for parameter in parameters(all, shared, operation) {
        let text = |key: &str| {
            let text = parameter.get(key).and_then(Value::as_str);
            text.unwrap_or_default()
        };
        let is_required = parameter.get("required").and_then(Value::as_bool);
        let is_required = is_required.unwrap_or(false);
        let (name, schema) = (text("name"), parameter.get("schema").unwrap_or(parameter));
        let value = || given_example(parameter).unwrap_or_else(|| example(all, schema, 0));
        let own = || pair(name, &plain(&value()));
        match text("in") {
            "path" => target = target.replace(&format!("{{{name}}}"), &encoded(&plain(&value()))),
            "query" if is_required => query.push(own()),
            "header" if is_required => header.push((name, plain(&value()))),
            "cookie" if is_required => missing.secrets.note("`Cookie`"),
            // Swagger 2.0 has bodies among the parameters.
            "body" => whole = Some(value()),
            "formData" if text("type") == "file" => has_file = true,
            "formData" => form.push(own()),
            _ => {}
        }
    }
    missing.places += places_left(&mut target);
    if !query.is_empty() {
        target = format!("{target}?{}", query.join("&"));
    }
    let secrets = &mut missing.secrets;
    let target = without_secrets(&target, is_secret, secrets);
    let mut kind = request(method, &target).expect("there is a key for it");
    let given = header.iter().map(|(name, value)| (*name, value.as_str()));
    kind.header = fields(given, is_secret, secrets);
    let body = match (whole, form.is_empty()) {
        _ if has_file => Some(("multipart/form-data".to_owned(), String::new())),
        (Some(value), _) => Some(("application/json".to_owned(), value.to_string())),
        (None, false) => Some((FORM.to_owned(), form.join("&"))),
        (None, true) => body(all, operation),
    };
    if let Some((media_type, body)) = body {
        if media_type.starts_with("multipart/") {
            missing.parts += 1;
        } else if let Some(body) = body_without_secrets(&body, is_secret, secrets) {
            set_type(&mut kind.header, &media_type);
            kind.body = Some(as_body(&body));
        } else {
            missing.strange_bodies += 1;
        }
    }
    kind
}

/// A place of the path that no parameter gives is `x`; how many there are.
fn places_left(target: &mut String) -> usize {
    let mut count = 0;
    while let Some(from) = target.find('{') {
        let Some(length) = target[from..].find('}') else {
            break;
        };
        target.replace_range(from..=from + length, "x");
        count += 1;
    }
    count
}

/// The body of an operation: the example of its JSON, or of its form.
fn body(all: &Value, operation: &Value) -> Option<(String, String)> {
    let content = resolved(all, operation.get("requestBody")?)
        .get("content")?
        .as_object()?;
    let json = content
        .iter()
        .find(|(media_type, _)| media_type.contains("json"));
    let form = || {
        content
            .iter()
            .find(|(media_type, _)| media_type.as_str() == FORM)
    };
    let (media_type, of) = json.or_else(form).or_else(|| content.iter().next())?;
    let value = given_example(of).unwrap_or_else(|| {
        of.get("schema")
            .map_or(Value::Null, |schema| example(all, schema, 0))
    });
    let text = match (&value, media_type == FORM) {
        (Value::Object(members), true) => {
            let pairs = members
                .iter()
                .map(|(name, value)| pair(name, &plain(value)));
            pairs.collect::<Vec<String>>().join("&")
        }
        (Value::String(text), _) if !media_type.contains("json") => text.clone(),
        _ => value.to_string(),
    };
    Some((media_type.clone(), text))
}

fn given_example(of: &Value) -> Option<Value> {
    let named = || {
        of.get("examples")?
            .as_object()?
            .values()
            .next()?
            .get("value")
    };
    of.get("example").or_else(named).cloned()
}

/// What a `$ref` within the description stands for; what leads nowhere, or outside, stands for itself.
fn resolved<'a>(all: &'a Value, of: &'a Value) -> &'a Value {
    let mut found = of;
    // Whoever refers to himself ends here.
    for _ in 0..DEPTH_MAX {
        let reference = found.get("$ref").and_then(Value::as_str);
        let pointer = reference.and_then(|reference| reference.strip_prefix('#'));
        match pointer.and_then(|pointer| all.pointer(pointer)) {
            Some(next) => found = next,
            None => break,
        }
    }
    found
}

/// A value of a schema: what it gives as one, or else one of its type.
fn example(all: &Value, schema: &Value, depth: usize) -> Value {
    valued(all, schema, depth, &mut 0)
}

fn valued(all: &Value, schema: &Value, depth: usize, values: &mut usize) -> Value {
    *values += 1;
    let schema = resolved(all, schema);
    let listed = |key: &str| {
        schema
            .get(key)
            .and_then(Value::as_array)
            .and_then(|list| list.first())
    };
    let said = schema
        .get("example")
        .or_else(|| schema.get("default"))
        .or_else(|| schema.get("const"));
    if let Some(value) = said
        .or_else(|| listed("examples"))
        .or_else(|| listed("enum"))
    {
        return value.clone();
    }
    if depth >= DEPTH_MAX || *values > VALUES_MAX {
        return Value::Null;
    }
    if let Some(all_of) = schema.get("allOf").and_then(Value::as_array) {
        let mut members = Map::new();
        for part in all_of {
            if let Value::Object(own) = valued(all, part, depth + 1, values) {
                members.extend(own);
            }
        }
        return Value::Object(members);
    }
    if let Some(first) = listed("oneOf").or_else(|| listed("anyOf")) {
        return valued(all, first, depth + 1, values);
    }
    let kind = schema
        .get("type")
        .and_then(|kind| kind.as_str().or_else(|| kind.get(0)?.as_str()));
    let properties = schema.get("properties").and_then(Value::as_object);
    match (kind, properties) {
        (Some("object") | None, Some(properties)) => {
            let members = properties
                .iter()
                .map(|(name, of)| (name.clone(), valued(all, of, depth + 1, values)));
            Value::Object(members.collect())
        }
        (Some("array"), _) => {
            let items = schema
                .get("items")
                .map(|items| valued(all, items, depth + 1, values));
            Value::Array(items.into_iter().collect())
        }
        (Some("integer"), _) => schema.get("minimum").cloned().unwrap_or(json!(1)),
        (Some("number"), _) => schema.get("minimum").cloned().unwrap_or(json!(1.5)),
        (Some("boolean"), _) => json!(true),
        (Some("object"), None) => json!({}),
        _ => json!(match schema.get("format").and_then(Value::as_str) {
            Some("date-time") => "2026-01-01T00:00:00Z",
            Some("date") => "2026-01-01",
            Some("uuid") => "00000000-0000-4000-8000-000000000001",
            Some("email") => "a@example.com",
            _ => "x",
        }),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::tests::telling;

    #[test]
    fn each_operation_is_a_request_with_its_examples() {
        let description = json!({
            "openapi": "3.0.3",
            "servers": [{"url": "https://api.example/v1"}],
            "paths": {
                "/pets/{id}": {
                    "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer", "example": 17}}],
                    "get": {"operationId": "getPet", "parameters": [
                        {"name": "q", "in": "query", "required": true, "schema": {"type": "string"}, "example": "a b"},
                        {"name": "page", "in": "query", "schema": {"type": "integer"}}
                    ]},
                    "head": {},
                    "trace": {}
                },
                "/pets": {"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}}}
            },
            "components": {
                "schemas": {"Pet": {"type": "object", "properties": {
                    "name": {"type": "string", "example": "Rex"},
                    "born": {"type": "string", "format": "date"},
                    "parent": {"$ref": "#/components/schemas/Pet"},
                    "tags": {"type": "array", "items": {"type": "string"}}
                }}},
                "securitySchemes": {"key": {"type": "apiKey"}}
            }
        });
        let made = from_openapi(&description, &telling).expect("it is one");
        assert_eq!(made.origin.as_deref(), Some("https://api.example/v1"));
        let kind = |name: &str| {
            let found = made
                .traffic
                .request
                .iter()
                .find(|kind| kind.name.as_deref() == Some(name));
            found.unwrap_or_else(|| panic!("{name}: {:?}", made.traffic.request))
        };
        assert_eq!(kind("getPet").get.as_deref(), Some("/v1/pets/17?q=a%20b"));
        let head = kind("HEAD /pets/{id}");
        assert_eq!(head.head.as_deref(), Some("/v1/pets/17"));
        let post = kind("POST /pets");
        let body: Value = serde_json::from_str(post.body.as_deref().unwrap()).unwrap();
        assert_eq!(
            (&body["name"], &body["born"]),
            (&json!("Rex"), &json!("2026-01-01"))
        );
        // A schema that holds itself ends.
        assert!(body.to_string().len() < 2_000, "{body}");
        let text = made.written();
        assert!(
            text.contains("1 operation of TRACE") && text.contains("`key`"),
            "{text}"
        );
        assert_eq!(
            crate::TrafficFile::parse("t", &text).expect(&text).traffic,
            made.traffic
        );
        assert!(
            from_openapi(&json!({}), &telling)
                .expect_err("none")
                .contains("no paths")
        );
    }

    #[test]
    fn secrets_of_a_description_and_what_it_would_have_read_here_are_left_out() {
        let body = |media_type: &str, example: Value| json!({"content": {media_type: {"example": example}}});
        let description = json!({"servers": [{"url": "https://me:s3@h/v1"}], "paths": {
            "/a": {"post": {
                "parameters": [
                    {"name": "X-A", "in": "header", "required": true, "example": "env:HOME"},
                    {"name": "api_key", "in": "query", "required": true, "example": "s3"},
                    {"name": "sid", "in": "cookie", "required": true, "example": "s3"}
                ],
                "requestBody": body("application/json", json!({"password": "s3", "n": 1}))
            }},
            "/b": {"post": {"requestBody": body("file:/etc/passwd", json!({"n": 1}))}},
            "/c": {"post": {"requestBody": body("text/xml", json!("<a password='s3'/>"))}},
        }});
        let made = from_openapi(&description, &telling).expect("it is one");
        let kinds = &made.traffic.request;
        assert_eq!(kinds[0].post.as_deref(), Some("/v1/a"));
        assert_eq!(made.origin.as_deref(), Some("https://h/v1"));
        assert_eq!(
            kinds[0].body.as_deref(),
            Some(r#"{"n":1,"password":"left-out"}"#)
        );
        assert!(
            kinds[1].header.is_empty() && kinds[2].body.is_none(),
            "{kinds:?}"
        );
        let text = made.written();
        for none in ["s3", "env:HOME", "file:"] {
            assert!(!text.contains(none), "{none}: {text}");
        }
        for named in [
            "`X-A`",
            "`Cookie`",
            "`api_key`",
            "`password` of a body",
            "1 body",
        ] {
            assert!(text.contains(named), "{named}: {text}");
        }
    }

    #[test]
    fn bodies_and_parameters_are_found_where_each_version_has_them() {
        let of_path = json!([{"name": "id", "in": "path", "example": 1}, {"name": "q", "in": "query", "required": true, "example": 1}]);
        let of_operation = json!([{"name": "id", "in": "path", "example": 2}, {"name": "q", "in": "query", "required": true, "example": 2}]);
        let description = json!({"basePath": "/v2", "paths": {
            "/own/{id}": {"parameters": of_path, "get": {"parameters": of_operation}},
            "/unknown/{id}": {"get": {}},
            "/whole": {"post": {"parameters": [{"name": "pet", "in": "body", "schema": {"properties": {"n": {"type": "integer"}}}}]}},
            "/form": {"post": {"parameters": [{"name": "a b", "in": "formData", "type": "string", "example": "1&2"}]}},
            "/file": {"post": {"parameters": [{"name": "f", "in": "formData", "type": "file"}]}},
            "/parts": {"post": {"requestBody": {"content": {"multipart/form-data": {"example": {"a": "b"}}}}}},
        }});
        let made = from_openapi(&description, &telling).expect("it is one");
        let kind = |path: &str| {
            let mut all = made.traffic.request.iter();
            all.find(|kind| {
                kind.name
                    .as_deref()
                    .is_some_and(|name| name.ends_with(path))
            })
            .expect(path)
        };
        assert_eq!(kind("/own/{id}").get.as_deref(), Some("/v2/own/2?q=2"));
        assert_eq!(kind("/unknown/{id}").get.as_deref(), Some("/v2/unknown/x"));
        assert_eq!(kind("/whole").body.as_deref(), Some(r#"{"n":1}"#));
        assert_eq!(kind("/whole").header["content-type"], "application/json");
        assert_eq!(kind("/form").body.as_deref(), Some("a%20b=1%262"));
        assert_eq!(kind("/form").header["content-type"], FORM);
        assert_eq!((&kind("/file").body, &kind("/parts").body), (&None, &None));
        let said = made.left_out.join(" ");
        assert!(
            said.contains("2 requests of parts") && said.contains("1 place"),
            "{said}"
        );
    }

    #[test]
    fn references_in_circles_end() {
        let circle = json!({"a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}});
        assert_eq!(example(&circle, &json!({"$ref": "#/a"}), 0), json!("x"));
    }
}
