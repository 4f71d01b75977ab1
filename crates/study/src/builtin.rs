//! Studies that come with the tool.

use crate::StudyError;
use crate::check::Place;
use crate::study::Study;

/// A study file that comes with the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// Its id.
    pub name: &'static str,
    /// The file's text: what `new` copies.
    pub text: &'static str,
}

/// Every built-in study.
pub static ALL: &[Builtin] = &[
    Builtin {
        name: "client-ceiling",
        text: include_str!("../../../studies/client-ceiling.toml"),
    },
    Builtin {
        name: "client-machines",
        text: include_str!("../../../studies/client-machines.toml"),
    },
    Builtin {
        name: "gzip-wall",
        text: include_str!("../../../studies/gzip-wall.toml"),
    },
    Builtin {
        name: "small-files",
        text: include_str!("../../../studies/small-files.toml"),
    },
    Builtin {
        name: "lock",
        text: include_str!("../../../studies/lock.toml"),
    },
    Builtin {
        name: "prefork",
        text: include_str!("../../../studies/prefork.toml"),
    },
    Builtin {
        name: "anatomy",
        text: include_str!("../../../studies/anatomy.toml"),
    },
    Builtin {
        name: "protocols",
        text: include_str!("../../../studies/protocols.toml"),
    },
    Builtin {
        name: "size-sweep",
        text: include_str!("../../../studies/size-sweep.toml"),
    },
    Builtin {
        name: "backpressure",
        text: include_str!("../../../studies/backpressure.toml"),
    },
    Builtin {
        name: "chooser",
        text: include_str!("../../../studies/chooser.toml"),
    },
];

/// The built-in study of this name.
pub fn find(name: &str) -> Option<&'static Builtin> {
    ALL.iter().find(|builtin| builtin.name == name)
}

impl Builtin {
    /// Reads it. Its conditions are not tried on made-up data, which takes half a second for the
    /// larger ones: tests of this crate did so.
    pub fn study(&self) -> Result<Study, StudyError> {
        let file = format!("studies/{}.toml", self.name);
        Study::read(&Place {
            file: &file,
            text: self.text,
        })
    }

    /// A copy under another id, for a user to edit.
    pub fn copy(&self, id: &str) -> String {
        let line = format!("id = \"{}\"", self.name);
        self.text.replacen(&line, &format!("id = \"{id}\""), 1)
    }
}
