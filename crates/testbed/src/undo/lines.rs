//! The lines of a journal: written one by one, read as a whole or not at all.
//!
//! ```text
//!  {"head":{"format":2,"owner":{"pid":4711,"start":1715004},"world":{"boot":"…","namespaces":{…}}}}
//!  {"change":{"id":0,"by":{"undo":"delete-netns","name":"wf-4711-1a2b3c-effffffc-0s"}}}
//!  {"undone":{"id":0}}
//! ```
//!
//! Invariants: whatever the bytes, reading does nothing but read; a line that is not of this form,
//! or holds a value out of its range, refuses the journal. Only the last line may be torn: it
//! announced a change that was never made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::owner::{Process, Tag, World};
use super::step::Undo;

/// The form of these lines.
const FORMAT: u32 = 2;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Line {
    Head(Head),
    Change(ChangeLine),
    Undone(UndoneLine),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    format: u32,
    owner: Process,
    world: World,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeLine {
    pub(super) id: u64,
    pub(super) by: Undo,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoneLine {
    pub(super) id: u64,
}

impl Line {
    pub(super) fn head(owner: Process, world: World) -> Line {
        Line::Head(Head {
            format: FORMAT,
            owner,
            world,
        })
    }

    pub(super) fn change(id: u64, by: Undo) -> Line {
        Line::Change(ChangeLine { id, by })
    }

    pub(super) fn undone(id: u64) -> Line {
        Line::Undone(UndoneLine { id })
    }

    /// As it is written, with its end.
    pub(super) fn bytes(&self) -> std::io::Result<Vec<u8>> {
        let mut text = serde_json::to_vec(self).map_err(std::io::Error::other)?;
        text.push(b'\n');
        Ok(text)
    }
}

/// What a journal says.
#[derive(Debug)]
pub(super) struct Content {
    /// Where it was written; `None`: its owner came no further than to make it.
    pub(super) world: Option<World>,
    /// What is not undone yet, in the order in which it was done.
    pub(super) standing: Vec<Undo>,
}

/// Reads the journal of the process that its name tells of, or says why it is refused.
pub(super) fn read(bytes: &[u8], tag: Tag) -> Result<Content, String> {
    // What follows the last end of a line is torn, or nothing.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n');
    let lines = whole.map_or(&[][..], |end| &bytes[..end]);
    let mut lines = lines.split(|byte| *byte == b'\n').enumerate();
    let mut standing = BTreeMap::new();
    let Some(head) = whole.and_then(|_| lines.next()) else {
        let standing = Vec::new();
        return Ok(Content {
            world: None,
            standing,
        });
    };
    let world = match serde_json::from_slice(head.1) {
        Ok(Line::Head(head)) if head.format == FORMAT && head.owner == tag.process => head.world,
        Ok(Line::Head(head)) if head.format == FORMAT => {
            return Err("its head names another owner than its name".into());
        }
        _ => return Err("it was not written by this version of Wallfinder".into()),
    };
    for (nth, line) in lines {
        let not_ours = |why: &dyn std::fmt::Display| {
            // It may quote the line, which may hold what a terminal obeys.
            let why = why.to_string().replace(char::is_control, "?");
            format!("line {}: {why}", nth + 1)
        };
        match serde_json::from_slice(line).map_err(|e| not_ours(&e))? {
            Line::Change(ChangeLine { id, by }) => {
                by.check(tag).map_err(|why| not_ours(&why))?;
                if standing.insert(id, by).is_some() {
                    return Err(not_ours(&"a change is announced twice"));
                }
            }
            Line::Undone(UndoneLine { id }) => drop(standing.remove(&id)),
            Line::Head(_) => return Err(not_ours(&"a second head")),
        }
    }
    Ok(Content {
        world: Some(world),
        standing: standing.into_values().collect(),
    })
}
