//! This command line as it was given: which word is the value of which flag, by the same definitions that
//! parse it. From that come the line as it may be kept, and the secrets in it.

use clap::{Arg, Command, CommandFactory};
use wallfinder_model::scenario::Telling;
use wallfinder_testbed::driver::DriverSpec;
use wallfinder_testbed::redact::{HIDDEN, Secrets, is_telling};

use crate::flags::Flags;
use crate::target::redact;

/// A value's place: the word, and where in it the value begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    word: usize,
    from: usize,
    /// What it may be telling of; `None`: of nothing.
    kind: Option<Telling>,
}

/// The line as it may be kept: without secrets, without bodies, and without the folder that the program
/// stands in.
pub(crate) fn without_secrets(words: &[String]) -> Vec<String> {
    let mut kept = words.to_vec();
    if let Some(program) = kept.first_mut() {
        let name = program.rsplit('/').next().unwrap_or_default();
        *program = name.to_owned();
    }
    for place in places(words) {
        let (flag, value) = words[place.word].split_at(place.from);
        let shown = match place.kind {
            Some(kind) => shown(kind, value),
            None if value.contains("://") => redact(value),
            None => value.to_owned(),
        };
        kept[place.word] = format!("{flag}{shown}");
    }
    kept
}

/// The secrets of the line.
pub(crate) fn secrets(words: &[String]) -> Secrets {
    let mut secrets = Secrets::default();
    for place in places(words) {
        let value = &words[place.word][place.from..];
        match place.kind {
            Some(kind) => add(&mut secrets, kind, value),
            None if value.contains("://") => secrets.add_url(value),
            None => {}
        }
    }
    secrets
}

/// The secrets of a text. What is only referred to is none.
pub(crate) fn add(secrets: &mut Secrets, kind: Telling, text: &str) {
    if kind.reference(text).is_some() {
        return;
    }
    match kind {
        Telling::Body => secrets.add_body(text),
        Telling::Header | Telling::Cell => secrets.add_header(text),
        Telling::Command => secrets.add_command(text),
        Telling::Variable => match text.split_once('=') {
            Some((name, value)) if is_telling(name) => secrets.add(value),
            _ => {}
        },
        Telling::Url => secrets.add_url(text),
    }
}

/// A text as it may be kept.
pub(crate) fn shown(kind: Telling, text: &str) -> String {
    if kind.reference(text).is_some() {
        return text.to_owned();
    }
    match kind {
        // The name of a file.
        Telling::Body if text.starts_with('@') => text.to_owned(),
        Telling::Body => HIDDEN.to_owned(),
        Telling::Command => command(text),
        Telling::Header | Telling::Cell => match text.split_once(':') {
            Some((name, _)) if is_telling(name) => format!("{name}: {HIDDEN}"),
            Some(_) => text.to_owned(),
            None => HIDDEN.to_owned(),
        },
        // Whatever it is called.
        Telling::Variable => match text.split_once('=') {
            Some((name, _)) => format!("{name}={HIDDEN}"),
            None => text.to_owned(),
        },
        Telling::Url => redact(text),
    }
}

/// Another program's command line, by what is known of such programs.
pub(crate) fn command(command: &str) -> String {
    match DriverSpec::parse(command) {
        Ok(spec) => spec.command(),
        Err(_) => HIDDEN.to_owned(),
    }
}

fn kind_of(flag: &Arg) -> Option<Telling> {
    match flag.get_id().as_str() {
        "body" => Some(Telling::Body),
        "headers" | "header_b" => Some(Telling::Header),
        "driver" | "driver_b" | "subject" | "subject_b" => Some(Telling::Command),
        "env" => Some(Telling::Variable),
        "url" | "url_b" | "path" => Some(Telling::Url),
        _ => None,
    }
}

/// Where the values stand, word by word.
fn places(words: &[String]) -> Vec<Place> {
    let mut definitions = Flags::command();
    definitions.build();
    let mut known = &definitions;
    let mut places = Vec::new();
    let mut are_flags = true;
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let (here, mut next) = (at, at + 1);
        if are_flags && word == "--" {
            are_flags = false;
        } else if are_flags && word.len() > 1 && word.starts_with('-') {
            // What is no flag here is refused before anything is kept.
            if let Some((flag, from)) = value_in(known, word) {
                let kind = kind_of(flag);
                let place = match from {
                    Some(from) => Place {
                        word: here,
                        from,
                        kind,
                    },
                    None => {
                        next += 1;
                        Place {
                            word: here + 1,
                            from: 0,
                            kind,
                        }
                    }
                };
                places.push(place);
            }
        } else if let Some(command) = known.find_subcommand(word).filter(|_| are_flags) {
            known = command;
        } else {
            places.push(Place {
                word: here,
                from: 0,
                kind: Some(Telling::Url),
            });
        }
        at = next;
    }
    places.retain(|place| place.word < words.len());
    places
}

/// The flag in a word that takes a value, and where that begins; `None`: in the next word.
fn value_in<'c>(known: &'c Command, word: &str) -> Option<(&'c Arg, Option<usize>)> {
    let takes = |flag: &&Arg| flag.get_action().takes_values();
    if let Some(long) = word.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or_default();
        let mut flags = known.get_arguments();
        let flag = flags.find(|flag| {
            let aliases = flag.get_all_aliases().unwrap_or_default();
            flag.get_long() == Some(name) || aliases.contains(&name)
        });
        let from = (name.len() < long.len()).then_some(2 + name.len() + 1);
        return flag.filter(takes).map(|flag| (flag, from));
    }
    // Switches may stand in front of it in one word: `-qb pin=1`.
    for (place, letter) in word.char_indices().skip(1) {
        let mut flags = known.get_arguments();
        let flag = flags.find(|flag| flag.get_short() == Some(letter));
        if let Some(flag) = flag.filter(takes) {
            let rest = &word[place + letter.len_utf8()..];
            let value = rest.strip_prefix('=').unwrap_or(rest);
            let from = (!value.is_empty()).then(|| word.len() - value.len());
            return Some((flag, from));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn kept(words: &[&str]) -> Vec<String> {
        without_secrets(&line(words))
    }

    #[test]
    fn the_command_line_is_kept_without_secrets() {
        assert_eq!(
            kept(&[
                "/a/b/wallfinder",
                "run",
                "http://me:x@h/?token=1",
                "-b",
                "pin=1"
            ]),
            ["wallfinder", "run", "http://***@h/?token=***", "-b", "***"]
        );
        assert_eq!(
            kept(&[
                "w",
                "run",
                "-H",
                "Authorization: x",
                "--body=y",
                "-bz",
                "-b",
                "@file"
            ]),
            [
                "w",
                "run",
                "-H",
                "Authorization: ***",
                "--body=***",
                "-b***",
                "-b",
                "@file"
            ]
        );
    }

    #[test]
    fn switches_in_front_of_a_flag_hide_no_value() {
        for (given, shown) in [
            (&["-qb", "pin=1"][..], &["-qb", "***"][..]),
            (&["-qbpin=1"], &["-qb***"]),
            (&["-qkb", "pin=1"], &["-qkb", "***"]),
            (&["-kqb=pin=1"], &["-kqb=***"]),
            (&["-qHX-Api-Key: 1"], &["-qHX-Api-Key: ***"]),
            (&["-kH", "Cookie: a"], &["-kH", "Cookie: ***"]),
            (&["-qb", "@file"], &["-qb", "@file"]),
            // A value that begins as a flag does.
            (&["--body", "-b"], &["--body", "***"]),
            (&["-c", "100", "-qd", "1s"], &["-c", "100", "-qd", "1s"]),
        ] {
            let given = [&["w", "run", "http://h/"], given].concat();
            let shown = [&["w", "run", "http://h/"], shown].concat();
            assert_eq!(kept(&given), shown);
        }
        for b in ["--driver-b=", "--subject-b="] {
            let kept = kept(&["w", "ab", &format!("{b}wrk -H 'Authorization: x' {{url}}")]);
            assert!(!kept.join(" ").contains(": x"), "{kept:?}");
        }
        let driver = "wrk -H 'Authorization: hush' {url}";
        let line = kept(&["w", "run", "--driver", driver, "--", "me:hush@h/"]);
        assert!(!line.join(" ").contains("hush"), "{line:?}");
    }

    #[test]
    fn variables_for_other_programs_are_kept_without_their_values() {
        let words = [
            "w",
            "run",
            "h:1",
            "--env",
            "API_TOKEN=hush-token",
            "--env=MODE=a",
            "--env",
            "NAME",
        ];
        assert_eq!(
            kept(&words)[3..],
            ["--env", "API_TOKEN=***", "--env=MODE=***", "--env", "NAME"]
        );
        assert_eq!(secrets(&line(&words)).scrub("hush-token NAME"), "*** NAME");
    }

    #[test]
    fn what_is_only_referred_to_is_no_secret() {
        let words = [
            "w",
            "run",
            "h:1",
            "-H",
            "Authorization: env:API_TOKEN",
            "--env=PASSWORD=file:/run/password",
        ];
        assert_eq!(kept(&words), words);
        assert!(secrets(&line(&words)).is_empty());
    }

    #[test]
    fn what_only_looks_like_a_url_stays() {
        let words = [
            "w",
            "run",
            "tcp://127.0.0.1:9000",
            "--frame",
            "u32be,id=u64be@0",
            "--name=me@work/again",
            "--threshold",
            "p99<5ms",
        ];
        assert_eq!(kept(&words), words);
        assert!(secrets(&line(&words)).is_empty());
    }

    #[test]
    fn what_is_hidden_is_found_again_by_its_value() {
        let words = line(&[
            "w",
            "run",
            "me:hush-user@h/?api_key=hush-query",
            "-qbhush=body-of-it",
            "--header=X-Auth-Token: hush-token",
            "--subject",
            "nginx -u a:b --password hush-subject",
        ]);
        let secrets = secrets(&words);
        for secret in [
            "hush-user",
            "hush-query",
            "hush=body-of-it",
            "hush-token",
            "hush-subject",
            "bWU6aHVzaC11c2Vy",
        ] {
            assert_eq!(secrets.scrub(secret), "***", "{secret}");
        }
        assert_eq!(secrets.scrub("run h nginx"), "run h nginx");
    }
}
