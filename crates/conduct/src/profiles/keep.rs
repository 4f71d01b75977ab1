//! Files beside the record: profiles as they came, and stacks as folded lines.

use std::path::Path;

use wallfinder_judge::profile;
use wallfinder_model::profile::{Profile, ProfileKind};

use super::Side;
use crate::ConductError;

/// Where what was captured in a step is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keep<'k> {
    pub(super) folder: &'k Path,
    pub(super) step: u32,
    pub(super) side: Side,
}

impl Keep<'_> {
    /// Keeps a profile as it came, and gives the file's name. `process` is its number where there are
    /// several.
    pub(super) fn profile(
        &self,
        kind: ProfileKind,
        process: Option<usize>,
        bytes: &[u8],
    ) -> Result<String, ConductError> {
        let process = process.map_or(String::new(), |process| format!("-{process}"));
        let of = format!("{}{}{process}", self.side.prefix(), kind.label());
        self.write(&format!("profiles/{}-{of}.pb.gz", self.step), bytes)
    }

    /// Keeps a runtime's trace.
    pub(super) fn trace(&self, process: usize, bytes: &[u8]) -> Result<String, ConductError> {
        let of = format!("{}trace-{process}", self.side.prefix());
        self.write(&format!("profiles/{}-{of}.out", self.step), bytes)
    }

    /// Keeps stacks as folded lines.
    pub(super) fn folded(
        &self,
        kind: ProfileKind,
        profile: &Profile,
    ) -> Result<String, ConductError> {
        let of = format!("{}{}", self.side.prefix(), kind.label());
        let name = format!("stacks/{}-{of}.folded", self.step);
        self.write(&name, profile::folded(kind, profile).as_bytes())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<String, ConductError> {
        let path = self.folder.join(name);
        let folder = path.parent().unwrap_or(self.folder);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, bytes))
            .map_err(|error| ConductError::Profiles(format!("{}: {error}", path.display())))?;
        Ok(name.to_owned())
    }
}
