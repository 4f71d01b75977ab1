//! `RESOURCE=FACTOR` as the judge takes it; `bytes=0.5` is a link twice as fast, and `link=10gbit` is as many
//! times the link that is laid.

use wallfinder_model::link::BadLink;
use wallfinder_model::{LinkSpec, Squeeze};

use crate::Fault;

/// A question as it was asked, and the resources that it changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// As it was asked.
    pub text: String,
    /// So many times each of these.
    pub changes: Vec<(Squeeze, f64)>,
    /// A request or session of the mix that takes so many times as much, in their place.
    pub kind: Option<(String, f64)>,
}

impl Question {
    /// Whether it is of the bytes of answers.
    pub fn is_of_bytes(&self) -> bool {
        self.text.starts_with("bytes=")
    }
}

/// The questions of a scenario. `link` is the one that is laid, `names` are those of what is sent.
///
/// # Errors
///
/// The first that is none.
pub fn questions(
    texts: &[String],
    link: Option<&str>,
    names: &[String],
) -> Result<Vec<Question>, Fault> {
    let each = texts.iter().enumerate();
    let question = each.map(|(nth, text)| {
        if let Some(kind) = of_kind(text, names) {
            return Ok(Question {
                text: text.clone(),
                changes: Vec::new(),
                kind: Some(kind),
            });
        }
        let changes = changes(text, link).map_err(|why| {
            let why = match names.is_empty() {
                true => why,
                false => format!("{why}, or a request's name: {}", names.join(", ")),
            };
            let key = format!("squeeze.what_if.{nth}");
            Fault::at(key, format!("--what-if {text}: {why}"))
        })?;
        Ok(Question {
            text: text.clone(),
            changes,
            kind: None,
        })
    });
    question.collect()
}

/// A request's name, and how many times as dear it is to be.
fn of_kind(text: &str, names: &[String]) -> Option<(String, f64)> {
    let (name, value) = text.rsplit_once('=')?;
    let factor: f64 = value.trim_end_matches(['x', '×']).parse().ok()?;
    let is_sound = factor.is_finite() && factor > 0.0 && names.iter().any(|known| known == name);
    is_sound.then(|| (name.to_owned(), factor))
}

fn changes(text: &str, link: Option<&str>) -> Result<Vec<(Squeeze, f64)>, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("write it as RESOURCE=FACTOR, such as downlink=2")?;
    if name == "link" {
        let laid = link.ok_or("there is no --link; write downlink=FACTOR for one that stands")?;
        let read = |text: &str| text.parse::<LinkSpec>();
        let words = |why: BadLink| why.to_string();
        let (laid, asked) = (read(laid).map_err(words)?, read(value).map_err(words)?);
        let times = |asked: u64, laid: u64| asked as f64 / laid as f64;
        return Ok(vec![
            (Squeeze::Downlink, times(asked.down_bits, laid.down_bits)),
            (Squeeze::Uplink, times(asked.up_bits, laid.up_bits)),
        ]);
    }
    let factor = value.trim_end_matches(['x', '×']).parse().ok();
    let factor = factor
        .filter(|factor: &f64| factor.is_finite() && *factor > 0.0)
        .ok_or("the factor must be a number above 0")?;
    let resources = || {
        let all = Squeeze::ALL.into_iter();
        all.filter(|squeeze| !matches!(squeeze, Squeeze::MoreInFlight | Squeeze::MoreClients))
    };
    match name {
        "bytes" => {
            let faster = 1.0 / factor;
            Ok(vec![(Squeeze::Downlink, faster), (Squeeze::Uplink, faster)])
        }
        "cpu" | "server" => Ok(vec![(Squeeze::ServerSpeed, factor)]),
        "client" => Ok(vec![(Squeeze::ClientSpeed, factor)]),
        _ => match resources().find(|squeeze| squeeze.label() == name) {
            Some(squeeze) => Ok(vec![(squeeze, factor)]),
            None => {
                let names: Vec<&str> = resources().map(Squeeze::label).collect();
                let names = names.join(", ");
                Err(format!("it is one of bytes, link, cpu, client, {names}"))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_asked_for_by_its_name() {
        let names = ["search".to_owned(), "/a?b=c".to_owned()];
        let of = |text: &str| questions(&[text.to_owned()], None, &names);
        for (text, name, factor) in [("search=0.5", "search", 0.5), ("/a?b=c=2x", "/a?b=c", 2.0)] {
            let question = of(text).unwrap().remove(0);
            assert_eq!(question.kind, Some((name.to_owned(), factor)));
            assert!(question.changes.is_empty());
        }
        assert!(
            of("serch=0.5")
                .expect_err("no such")
                .message
                .contains("search, /a?b=c")
        );
        assert_eq!(of("cpu=2").unwrap()[0].kind, None);
    }

    fn asked(text: &str, link: Option<&str>) -> Result<Vec<(Squeeze, f64)>, Fault> {
        let mut all = questions(
            &[text.to_owned()],
            link,
            &["search".to_owned(), "a=b".to_owned()],
        )?;
        Ok(all.remove(0).changes)
    }

    #[test]
    fn fewer_bytes_are_a_faster_link() {
        assert_eq!(
            asked("bytes=0.5", None).unwrap()[0],
            (Squeeze::Downlink, 2.0)
        );
        for bad in ["bytes", "memory=2", "downlink=0", "cpu=fast", "link=10gbit"] {
            let fault = asked(bad, None).expect_err(bad);
            assert_eq!(fault.key, "squeeze.what_if.0");
            assert!(fault.message.contains(bad), "{}", fault.message);
        }
    }

    #[test]
    fn a_link_is_asked_for_by_its_rate_and_processors_by_times() {
        let asked = |text: &str| asked(text, Some("1gbit,up=100mbit"));
        let both = vec![(Squeeze::Downlink, 10.0), (Squeeze::Uplink, 100.0)];
        assert_eq!(asked("link=10gbit").unwrap(), both);
        assert_eq!(asked("cpu=2x").unwrap(), [(Squeeze::ServerSpeed, 2.0)]);
        assert_eq!(asked("client=1.5").unwrap(), [(Squeeze::ClientSpeed, 1.5)]);
        assert!(asked("link=fast").is_err());
    }
}
