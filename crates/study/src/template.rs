//! Sentences with numbers in them: `the client took {top.client.cpu_per_request_us | us}`.
//!
//! `{{` and `}}` are braces. A format stands after a single `|`.

use crate::expression::{BadExpression, Expression};
use crate::language::{Context, Value};

/// How a number is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Three significant digits; text as it is.
    Plain,
    /// `28,140`.
    Rate,
    /// `2.68 µs`.
    Micros,
    /// `5.51 ms`.
    Millis,
    /// `38 %` of a share.
    Percent,
    /// `2.05 ×`.
    Times,
}

const FORMATS: [(&str, Format); 5] = [
    ("rate", Format::Rate),
    ("us", Format::Micros),
    ("ms", Format::Millis),
    ("percent", Format::Percent),
    ("times", Format::Times),
];

/// A sentence with expressions in it.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    Value(Expression, Format),
}

impl Template {
    /// Reads a template. Errors carry a byte offset into its text.
    pub(crate) fn compile(text: &str, names: &[&str]) -> Result<Template, (usize, BadExpression)> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        let error = |rest: &str, message: &str| {
            let bad = BadExpression {
                message: message.to_owned(),
                at: None,
                help: None,
            };
            (text.len() - rest.len(), bad)
        };
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            rest = &rest[at..];
            if rest.starts_with("{{") || rest.starts_with("}}") {
                plain.push_str(&rest[..1]);
                rest = &rest[2..];
                continue;
            }
            if rest.starts_with('}') {
                return Err(error(rest, "a `}` without its `{`; write `}}` for a brace"));
            }
            let end = rest
                .find('}')
                .ok_or_else(|| error(rest, "a `{` without its `}`"))?;
            let (source, format) = split_format(&rest[1..end]).map_err(|why| error(rest, &why))?;
            let offset = text.len() - rest.len() + 1;
            let expression = Expression::compile(source, names).map_err(|bad| (offset, bad))?;
            parts.push(Part::Text(std::mem::take(&mut plain)));
            parts.push(Part::Value(expression, format));
            rest = &rest[end + 1..];
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        Ok(Template { parts })
    }

    /// The expressions in it.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.parts.iter().filter_map(|part| match part {
            Part::Value(expression, _) => Some(expression),
            Part::Text(_) => None,
        })
    }

    /// The sentence. What cannot be evaluated is shown as not measured.
    pub(crate) fn fill(&self, context: &Context) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Value(expression, format) => match expression.value(context) {
                    Ok(value) => text.push_str(&show(&value, *format)),
                    Err(_) => text.push_str("(not measured)"),
                },
            }
        }
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// Takes the format off: the part after a `|` that is not one of two.
fn split_format(inner: &str) -> Result<(&str, Format), String> {
    let Some(at) = inner.rfind('|') else {
        return Ok((inner, Format::Plain));
    };
    if inner[..at].ends_with('|') {
        return Ok((inner, Format::Plain));
    }
    let name = inner[at + 1..].trim();
    FORMATS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, format)| (&inner[..at], *format))
        .ok_or_else(|| {
            let known: Vec<&str> = FORMATS.iter().map(|(known, _)| *known).collect();
            format!("there is no format `{name}`; known: {}", known.join(", "))
        })
}

fn show(value: &Value, format: Format) -> String {
    let number = match value {
        Value::Number(number) => *number,
        Value::Text(text) => return text.to_string(),
        Value::Truth(truth) => return if *truth { "yes" } else { "no" }.to_owned(),
        Value::List(list) => {
            let items: Vec<String> = list.iter().map(|item| show(item, format)).collect();
            return if items.is_empty() {
                "none".to_owned()
            } else {
                items.join(", ")
            };
        }
        _ => return "(not a number)".to_owned(),
    };
    if !number.is_finite() {
        return "(not a number)".to_owned();
    }
    match format {
        Format::Plain => significant(number),
        Format::Rate => rate(number),
        Format::Micros => format!("{} µs", significant(number)),
        Format::Millis => format!("{} ms", significant(number)),
        Format::Percent => format!("{} %", significant(number * 100.0)),
        Format::Times => format!("{number:.2} ×"),
    }
}

/// Three significant digits, whole numbers whole.
fn significant(number: f64) -> String {
    let size = number.abs();
    if size >= 10_000.0 {
        return rate(number);
    }
    if size >= 100.0 || size == 0.0 {
        return format!("{number:.0}");
    }
    let digits = (2 - size.log10().floor() as i32).clamp(0, 6) as usize;
    trimmed(number, digits)
}

/// `28,140`, `790`, `3.5`.
fn rate(value: f64) -> String {
    if !value.is_finite() {
        return "unknown".to_owned();
    }
    if value < 10.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with so many decimals at the most, and no trailing zeros: `0.5`, `12`.
fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_they_are_said() {
        assert_eq!(rate(28_140.2), "28,140");
        assert_eq!(rate(999.6), "1,000");
        assert_eq!(rate(3.46), "3.5");
        assert_eq!(rate(f64::NAN), "unknown");
        assert_eq!(
            (trimmed(0.5, 2), trimmed(100.0, 0)),
            ("0.5".into(), "100".into())
        );
    }

    fn fill(text: &str) -> String {
        let mut context = Context::default();
        context.set("x", 0.3456f64);
        context.set("big", 18_164_736.0f64);
        context.set("name", "wrk");
        Template::compile(text, &["x", "big", "name"])
            .unwrap()
            .fill(&context)
    }

    #[test]
    fn numbers_are_shown_in_their_format() {
        assert_eq!(
            fill("{x | percent} of {big | rate}/s"),
            "34.6 % of 18,164,736/s"
        );
        assert_eq!(
            fill("{x|us} {x * 10|ms} {x|times} {x}"),
            "0.346 µs 3.46 ms 0.35 × 0.346"
        );
        assert_eq!(fill("{name} {{x}} {x > 1.0 || true}"), "wrk {x} yes");
        assert_eq!(fill("{[1, 2].map(i, i * 2)}"), "2, 4");
    }

    #[test]
    fn what_cannot_be_evaluated_is_not_measured() {
        assert_eq!(
            fill("it was {steps[0].throughput | rate}"),
            "it was (not measured)"
        );
        assert_eq!(fill("{1 / 0}"), "(not a number)");
    }

    #[test]
    fn a_broken_template_says_where() {
        for (text, at) in [
            ("ab { x", 3),
            ("ab } x", 3),
            ("{x | furlong}", 0),
            ("a {y}", 3),
        ] {
            let (offset, _) = Template::compile(text, &["x"]).unwrap_err();
            assert_eq!(offset, at, "{text}");
        }
    }
}
