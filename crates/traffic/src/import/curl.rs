//! A line of curl, word by word.

use wallfinder_model::traffic::{Part, Request, Traffic};

use super::url::Url;
use super::{
    FORM, Imported, IsSecret, Secrets, as_body, body_without_secrets, encoded, fields, literal,
    request, set_type, strange_bodies, without_secrets,
};

/// Flags without a value that say nothing of the request.
const SILENT: [&str; 19] = [
    "-s",
    "--silent",
    "-S",
    "--show-error",
    "-v",
    "--verbose",
    "-i",
    "--include",
    "-f",
    "--fail",
    "--compressed-ssh",
    "-k",
    "--insecure",
    "-#",
    "--progress-bar",
    "-N",
    "--no-buffer",
    "--http1.1",
    "--http2",
];
/// Those with a value.
const SILENT_WITH_VALUE: [&str; 16] = [
    "-o",
    "--output",
    "-w",
    "--write-out",
    "-m",
    "--max-time",
    "--connect-timeout",
    "--cacert",
    "--cert",
    "--key",
    "-E",
    "--resolve",
    "--retry",
    "-x",
    "--proxy",
    "--max-redirs",
];

/// One request, from the words of a command.
///
/// # Errors
///
/// A flag that is not known, by name; a command without a URL.
pub fn from_curl(words: &[String], is_secret: IsSecret<'_>) -> Result<Imported, String> {
    let words = apart(words);
    let mut words = words.iter().map(String::as_str).peekable();
    words.next_if(|first| *first == "curl" || first.ends_with("/curl"));
    let mut secrets = Secrets::default();
    let (mut method, mut url) = (None, None);
    let mut given: Vec<(String, String)> = Vec::new();
    let mut data: Vec<Data> = Vec::new();
    let mut parts = Vec::new();
    // Fields that curl is told to leave out.
    let mut unset: Vec<String> = Vec::new();
    let (mut is_query, mut is_head, mut follows) = (false, false, false);
    let mut is_literal = false;
    while let Some(word) = words.next() {
        let (flag, attached) = split(word);
        let mut value = || {
            let found = attached
                .map(str::to_owned)
                .or_else(|| words.next().map(str::to_owned));
            found.ok_or_else(|| format!("{flag} has no value"))
        };
        match flag {
            "-X" | "--request" => method = Some(value()?),
            "-H" | "--header" => {
                let header = value()?;
                let (name, value) = header
                    .split_once(':')
                    .ok_or_else(|| format!("{flag} is no header field: it has no colon"))?;
                match (name.trim(), value.trim()) {
                    (name, "") => unset.push(name.to_ascii_lowercase()),
                    (name, value) => given.push((name.to_owned(), value.to_owned())),
                }
            }
            "-d" | "--data" | "--data-ascii" | "--data-binary" => data.push(Data::Given(value()?)),
            "--data-raw" => data.push(Data::Plain(value()?)),
            "--data-urlencode" => data.push(Data::Plain(form_content(&value()?)?)),
            "--json" => {
                data.push(Data::Given(value()?));
                for name in ["content-type", "accept"] {
                    given.push((name.to_owned(), "application/json".to_owned()));
                }
            }
            "-F" | "--form" => parts.push(part(&value()?, true, is_secret, &mut secrets)?),
            "--form-string" => parts.push(part(&value()?, false, is_secret, &mut secrets)?),
            "-A" | "--user-agent" | "-e" | "--referer" => drop(value()?),
            "-u" | "--user" => {
                value()?;
                secrets.note("the user of -u");
            }
            "-b" | "--cookie" => {
                value()?;
                secrets.note("`Cookie`");
            }
            "--compressed" => {
                given.push(("accept-encoding".to_owned(), "deflate, gzip, br".to_owned()))
            }
            "-G" | "--get" => is_query = true,
            "-I" | "--head" => is_head = true,
            "-L" | "--location" => follows = true,
            "-g" | "--globoff" => is_literal = true,
            "--url" => set_once(&mut url, value()?)?,
            flag if SILENT.contains(&flag) => {}
            flag if SILENT_WITH_VALUE.contains(&flag) => drop(value()?),
            flag if flag.starts_with('-') && flag.len() > 1 => {
                return Err(format!(
                    "the flag {flag} of curl is not known: leave it out, or write it into the traffic file"
                ));
            }
            _ => set_once(&mut url, word.to_owned())?,
        }
    }
    let url = url.ok_or("the command has no URL")?;
    let url = match Url::of(&url) {
        Some(_) => url,
        None => format!("http://{url}"),
    };
    let url = Url::of(&url).ok_or("the command has no URL")?;
    if url.has_user {
        secrets.note("the user of the URL");
    }
    let origin = format!("{}://{}", url.scheme, url.host);
    let mut target = match is_literal {
        true => url.target(),
        false => without_patterns(&url.target())?,
    };
    let of_files = data.iter().filter(|data| data.is_file()).count();
    if of_files > 0 && (is_query || data.len() > 1) {
        return Err(
            "`-d @FILE` stands beside other data, or in a query: write what is in the file into the command"
                .to_owned(),
        );
    }
    if is_query && !data.is_empty() {
        let mark = if target.contains('?') { '&' } else { '?' };
        target = format!("{target}{mark}{}", joined(&data));
        data.clear();
    }
    let usual = match (is_head, data.is_empty() && parts.is_empty()) {
        (true, _) => "HEAD",
        (false, true) => "GET",
        (false, false) => "POST",
    };
    let method = method.unwrap_or_else(|| usual.to_owned());
    let target = without_secrets(&target, is_secret, &mut secrets);
    let mut kind: Request = request(&method, &target)
        .ok_or_else(|| format!("there is no key for the method {method}"))?;
    let fields_given = given
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    kind.header = fields(fields_given, is_secret, &mut secrets);
    kind.multipart = parts;
    kind.follow = follows.then_some(5);
    let mut left_out = Vec::new();
    if !data.is_empty() {
        if !unset.iter().any(|name| name == "content-type") {
            set_type(&mut kind.header, FORM);
        }
        kind.body = match data.as_slice() {
            [file] if file.is_file() => Some(file.text().to_owned()),
            all => body_without_secrets(&joined(all), is_secret, &mut secrets)
                .map(|body| as_body(&body)),
        };
        left_out.extend(strange_bodies(usize::from(kind.body.is_none())));
    }
    left_out.extend(secrets.said());
    Ok(Imported {
        traffic: Traffic {
            request: vec![kind],
            ..Traffic::default()
        },
        origin: Some(origin),
        left_out,
    })
}

fn set_once(url: &mut Option<String>, given: String) -> Result<(), String> {
    match url.replace(given) {
        None => Ok(()),
        Some(first) => Err(format!(
            "the command has a second URL behind {first}: a request has one"
        )),
    }
}

/// What a flag gives for the body.
enum Data {
    /// It, or `@FILE`.
    Given(String),
    /// It.
    Plain(String),
}

impl Data {
    fn text(&self) -> &str {
        match self {
            Data::Given(text) | Data::Plain(text) => text,
        }
    }

    /// Whether it is the name of a file.
    fn is_file(&self) -> bool {
        matches!(self, Data::Given(text) if text.starts_with('@'))
    }
}

fn joined(data: &[Data]) -> String {
    let texts: Vec<&str> = data.iter().map(Data::text).collect();
    texts.join("&")
}

/// `name=content`, `=content` or `content`, its content as a form has it.
fn form_content(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some(("", content)) => Ok(encoded(content)),
        Some((name, content)) => Ok(format!("{name}={}", encoded(content))),
        None if text.contains('@') => Err(format!(
            "--data-urlencode {text} names a file: write what is in it into the command"
        )),
        None => Ok(encoded(text)),
    }
}

/// Letters of flags that take a value.
const WITH_VALUE: &str = "XHdFAeubowmxE";

/// Flags of one letter that stand together, each by itself: `-sSXPOST`. What follows a flag that takes a value is left
/// as it is.
fn apart(words: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    let mut is_value = false;
    for word in words {
        let letters = word
            .strip_prefix('-')
            .filter(|letters| !letters.starts_with('-'));
        let Some(letters) = letters.filter(|letters| !is_value && !letters.is_empty()) else {
            // Values of long flags are no flags, whatever they begin with.
            let takes_value = !is_value && word.starts_with("--") && !word.contains('=');
            let has_none = SILENT.contains(&word.as_str())
                || ["--compressed", "--get", "--head", "--location"].contains(&word.as_str())
                || word == "--globoff";
            is_value = takes_value && !has_none;
            all.push(word.clone());
            continue;
        };
        for (at, letter) in letters.char_indices() {
            if WITH_VALUE.contains(letter) {
                is_value = letters.len() == at + letter.len_utf8();
                all.push(format!("-{}", &letters[at..]));
                break;
            }
            all.push(format!("-{letter}"));
        }
    }
    all
}

/// A word that is a flag, and the value that is attached to it: `-XPOST`, `--request=POST`.
fn split(word: &str) -> (&str, Option<&str>) {
    if word.starts_with("--") {
        return match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (word, None),
        };
    }
    let letters = word.strip_prefix('-').unwrap_or_default();
    match letters.chars().next() {
        Some(letter) if WITH_VALUE.contains(letter) && letters.len() > letter.len_utf8() => {
            let (flag, value) = word.split_at(1 + letter.len_utf8());
            (flag, Some(value))
        }
        _ => (word, None),
    }
}

/// A path as curl reads it: a bracket or a brace begins a pattern, which asks for several, unless a backslash precedes.
fn without_patterns(path: &str) -> Result<String, String> {
    let mut all = String::with_capacity(path.len());
    let mut letters = path.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                let kept = letters.next_if(|next| "[]{}".contains(*next));
                all.push(kept.unwrap_or('\\'));
            }
            '[' | '{' => {
                return Err(format!(
                    "the URL has a pattern of curl at `{letter}`: name one path, or add -g where it stands for itself"
                ));
            }
            plain => all.push(plain),
        }
    }
    Ok(all)
}

/// `name=value;type=text/plain`, `name=@file;type=image/png`.
fn part(
    text: &str,
    may_be_file: bool,
    is_secret: IsSecret<'_>,
    secrets: &mut Secrets,
) -> Result<Part, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("-F {text} is no NAME=VALUE"))?;
    let mut part = Part {
        name: name.to_owned(),
        ..Part::default()
    };
    if !may_be_file {
        set_value(&mut part, value, is_secret, secrets);
        return Ok(part);
    }
    if value.starts_with('<') {
        return Err(format!(
            "-F {name}=<FILE sends what is in the file as a value: write it into the command"
        ));
    }
    let mut words = value.split(';');
    let first = words.next().unwrap_or_default();
    if first.trim_start_matches('@').starts_with('"') {
        return Err(format!(
            "-F {name} has a value in quotes: write it without, or into the traffic file"
        ));
    }
    match first.strip_prefix('@') {
        Some(file) => part.file = Some(file.into()),
        None => set_value(&mut part, first, is_secret, secrets),
    }
    for word in words {
        match word.split_once('=') {
            Some(("type", media_type)) => part.media_type = Some(media_type.to_owned()),
            Some(("filename", filename)) => {
                part.filename = Some(filename.trim_matches('"').to_owned())
            }
            _ => {}
        }
    }
    Ok(part)
}

fn set_value(part: &mut Part, value: &str, is_secret: IsSecret<'_>, secrets: &mut Secrets) {
    part.value = Some(match is_secret(&part.name) {
        true => {
            secrets.note(&format!("`{}` of a body", part.name));
            "left-out".to_owned()
        }
        false => literal(value),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::tests::telling;

    fn of(line: &str) -> Result<Imported, String> {
        let words: Vec<String> = line.split('|').map(str::to_owned).collect();
        from_curl(&words, &telling)
    }

    #[test]
    fn a_line_of_curl_becomes_a_request() {
        let made = of("curl|-sS|https://shop.example/cart?x=1|-XPUT|-H|Content-Type: application/json|-H|Authorization: Bearer s3|--data-raw|{\"n\": 1}|--compressed").unwrap();
        assert_eq!(made.origin.as_deref(), Some("https://shop.example"));
        let kind = &made.traffic.request[0];
        assert_eq!(kind.put.as_deref(), Some("/cart?x=1"));
        assert_eq!(kind.body.as_deref(), Some("{\"n\": 1}"));
        let names: Vec<&String> = kind.header.keys().collect();
        assert_eq!(names, ["accept-encoding", "content-type"]);
        assert!(
            made.left_out[0].contains("`Authorization`"),
            "{:?}",
            made.left_out
        );
        let form = of("curl|h:80/a|-d|a=1|-d|password=s3").unwrap();
        assert_eq!(form.traffic.request[0].post.as_deref(), Some("/a"));
        assert_eq!(
            form.traffic.request[0].body.as_deref(),
            Some("a=1&password=left-out")
        );
        let query = of("curl|-G|-L|h?b=2|-d|a=1").unwrap();
        assert_eq!(query.traffic.request[0].get.as_deref(), Some("/?b=2&a=1"));
        assert_eq!(query.traffic.request[0].follow, Some(5));
        let raw = of("curl|h/a|--data-raw|@x=1|-F|password=s3").unwrap();
        assert_eq!(raw.traffic.request[0].body.as_deref(), Some("@@x=1"));
        let file = of("curl|h/a|-d|@x.json").unwrap();
        assert_eq!(file.traffic.request[0].body.as_deref(), Some("@x.json"));
        // JSON without its type, and what is neither JSON nor a form.
        let json = of("curl|-d|{\"user\":\"ann\",\"password\":\"s3\"}|h/login").unwrap();
        assert_eq!(
            json.traffic.request[0].body.as_deref(),
            Some("{\"password\":\"left-out\",\"user\":\"ann\"}")
        );
        let strange = of("curl|-d|<a password=\"s3\"/>|h/login").unwrap();
        assert_eq!(strange.traffic.request[0].body, None);
        for made in [&json, &strange] {
            assert!(!made.written().contains("s3"), "{}", made.written());
        }
        assert!(
            strange.left_out[0].contains("1 body"),
            "{:?}",
            strange.left_out
        );
        assert_eq!(
            raw.traffic.request[0].multipart[0].value.as_deref(),
            Some("left-out")
        );
        let spelled = of("curl|-G|h/a|--data-urlencode|q=a b").unwrap();
        assert_eq!(
            spelled.traffic.request[0].get.as_deref(),
            Some("/a?q=a%20b")
        );
        let parts = of("curl|h/up|-F|a=1;type=text/css|-F|f=@x.png;type=image/png")
            .unwrap()
            .traffic
            .request[0]
            .multipart
            .clone();
        assert_eq!(
            (parts[1].file.as_deref(), parts[1].media_type.as_deref()),
            (Some("x.png".as_ref()), Some("image/png"))
        );
        assert_eq!(
            (parts[0].value.as_deref(), parts[0].media_type.as_deref()),
            (Some("1"), Some("text/css"))
        );
    }

    #[test]
    fn the_path_is_the_one_that_curl_would_ask_for() {
        for (line, origin, path) in [
            (
                "h/login?next=https://x/cart",
                "http://h",
                "/login?next=https://x/cart",
            ),
            ("https://h?u=http://a/b#c", "https://h", "/?u=http://a/b"),
            // So a browser copies `?x[]={a}`.
            (r"h/a?x\[\]=\{a\}\b", "http://h", r"/a?x[]={{a}}\b"),
            ("-g|h/a[1]", "http://h", "/a[1]"),
            ("--globoff|h/{a}", "http://h", "/{{a}}"),
            ("http://[::1]:80/a", "http://[::1]:80", "/a"),
            ("h/caf\u{e9}?q=%20", "http://h", "/caf%C3%A9?q=%20"),
        ] {
            let made = of(&format!("curl|{line}")).expect(line);
            assert_eq!(made.origin.as_deref(), Some(origin));
            let kind = &made.traffic.request[0];
            assert_eq!(kind.get.as_deref(), Some(path), "{line}");
        }
        for line in ["curl|h/a[1-3]", "curl|h/{a,b}"] {
            let why = of(line).expect_err(line);
            assert!(why.contains("-g"), "{why}");
        }
    }

    #[test]
    fn fields_that_curl_leaves_out_are_not_sent_empty() {
        let made = of("curl|h/a|-d|a=1|-H|Accept:|-H|content-type: |-H|X-A: b").unwrap();
        let header = &made.traffic.request[0].header;
        assert_eq!(*header, [("x-a".to_owned(), "b".to_owned())].into());
    }

    #[test]
    fn what_is_not_known_is_named() {
        assert!(of("curl|-s").expect_err("no URL").contains("no URL"));
        for (line, part) in [
            ("curl|--ntlm|h", "--ntlm"),
            ("curl|h/a|h/b", "second URL"),
            ("curl|h|-d|a=1|-d|@f", "-d @FILE"),
            ("curl|h|-G|-d|@f", "-d @FILE"),
            ("curl|h|--data-urlencode|a@f", "names a file"),
            ("curl|h|-F|a=<f", "-F a=<FILE"),
            ("curl|h|-F|a=\"b;c\"", "-F a has a value in quotes"),
        ] {
            assert!(of(line).expect_err(line).contains(part), "{line}");
        }
        let user = of("curl|http://me:s3@h/").unwrap().written();
        assert!(user.contains("the user of the URL") && !user.contains("s3"));
        assert!(
            of("curl|h|-H")
                .expect_err("no value")
                .contains("-H has no value")
        );
    }
}
