//! A body of `multipart/form-data` (RFC 7578).

use std::path::Path;

use wallfinder_model::traffic::Part;
use wallfinder_wire::mix::{Piece, Spelling, Text};

use crate::World;
use crate::slots::{Scope, text};

/// Between two parts. Values that are filled in could hold it no sooner than any other 160 bits.
const BOUNDARY: &str = "wallfinder-2f6c1b7ae90d4435b8d1c07e5a93";

/// What names the boundary.
pub(crate) fn content_type() -> String {
    format!("multipart/form-data; boundary={BOUNDARY}")
}

/// The body; an error has the number of the part that it is about.
pub(crate) fn body(
    parts: &[Part],
    scope: &Scope,
    world: &dyn World,
) -> Result<Text, (usize, String)> {
    let mut pieces = Vec::new();
    for (nth, part) in parts.iter().enumerate() {
        let wrong = |why: String| (nth, why);
        pieces.push(Piece::Fixed(head(part).map_err(wrong)?.into_bytes()));
        match (&part.value, &part.file) {
            (Some(value), None) => {
                let value = text(value, Spelling::Raw, scope).map_err(wrong)?;
                pieces.extend(value.0);
            }
            (None, Some(file)) => pieces.push(Piece::Fixed(world.read(file).map_err(wrong)?)),
            _ => return Err(wrong("a part has a `value` or a `file`".to_owned())),
        }
        pieces.push(Piece::Fixed(b"\r\n".to_vec()));
    }
    pieces.push(Piece::Fixed(format!("--{BOUNDARY}--\r\n").into_bytes()));
    Ok(merged(pieces))
}

fn head(part: &Part) -> Result<String, String> {
    let quoted = |text: &str| {
        let is_sound = !text.contains(['"', '\r', '\n']);
        is_sound
            .then(|| format!("\"{text}\""))
            .ok_or_else(|| "a name in a part has no quotes and no line breaks".to_owned())
    };
    let of_file = |file: &Path| {
        file.file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    let filename = part
        .filename
        .clone()
        .or_else(|| of_file(part.file.as_deref()?));
    let mut head = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name={}",
        quoted(&part.name)?
    );
    if let Some(filename) = filename {
        head.push_str(&format!("; filename={}", quoted(&filename)?));
    }
    let is_file = part.file.is_some();
    let usual = is_file.then_some("application/octet-stream");
    if let Some(media_type) = part.media_type.as_deref().or(usual) {
        if media_type.contains(['\r', '\n']) {
            return Err("a media type has no line breaks".to_owned());
        }
        head.push_str(&format!("\r\nContent-Type: {media_type}"));
    }
    head.push_str("\r\n\r\n");
    Ok(head)
}

/// Neighbours that never change are one.
fn merged(pieces: Vec<Piece>) -> Text {
    let mut all: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (all.last_mut(), piece) {
            (Some(Piece::Fixed(last)), Piece::Fixed(bytes)) => last.extend(bytes),
            (_, piece) => all.push(piece),
        }
    }
    Text(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::tests::Files;

    #[test]
    fn parts_stand_between_boundaries() {
        let part = |name: &str, value: Option<&str>, file: Option<&str>| Part {
            name: name.to_owned(),
            value: value.map(str::to_owned),
            file: file.map(Into::into),
            ..Part::default()
        };
        let files = Files([("a/b.png".into(), b"\x89P".to_vec())].into());
        let parts = [
            part("title", Some("x {{y}}"), None),
            part("image", None, Some("a/b.png")),
        ];
        let made = body(&parts, &Scope::default(), &files).expect("it is one");
        let want = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nx {{y}}\r\n\
             --{BOUNDARY}\r\nContent-Disposition: form-data; name=\"image\"; filename=\"b.png\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n"
        );
        let whole = [
            want.as_bytes(),
            b"\x89P\r\n--",
            BOUNDARY.as_bytes(),
            b"--\r\n",
        ]
        .concat();
        assert_eq!(made, Text::fixed(whole));
        let both = body(
            &[part("a", Some("x"), Some("a/b.png"))],
            &Scope::default(),
            &files,
        );
        assert_eq!(both.expect_err("both").0, 0);
    }
}
