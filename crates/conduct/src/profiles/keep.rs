//! Files beside the record: profiles as they came, and stacks as folded lines.

use wallfinder_judge::profile;
use wallfinder_model::profile::{Profile, ProfileKind};
use wallfinder_store::{Folder, StoreError};

use super::Side;
use crate::ConductError;

/// Where what was captured in a step is kept; nowhere where there is no folder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keep<'k> {
    pub(super) folder: Option<&'k Folder>,
    pub(super) step: u32,
    pub(super) side: Side,
}

impl Keep<'_> {
    /// Keeps a profile as it came, and gives the file's name, where there is a folder. `process` is its number where there are
    /// several.
    pub(super) fn profile(
        &self,
        kind: ProfileKind,
        process: Option<usize>,
        bytes: &[u8],
    ) -> Result<Option<String>, ConductError> {
        let process = process.map_or(String::new(), |process| format!("-{process}"));
        let of = format!("{}{}{process}", self.side.prefix(), kind.label());
        self.write("profiles", &format!("{}-{of}.pb.gz", self.step), bytes)
    }

    /// Keeps a runtime's trace.
    pub(super) fn trace(
        &self,
        process: usize,
        bytes: &[u8],
    ) -> Result<Option<String>, ConductError> {
        let of = format!("{}trace-{process}", self.side.prefix());
        self.write("profiles", &format!("{}-{of}.out", self.step), bytes)
    }

    /// Keeps stacks as folded lines.
    pub(super) fn folded(
        &self,
        kind: ProfileKind,
        profile: &Profile,
    ) -> Result<Option<String>, ConductError> {
        let of = format!("{}{}", self.side.prefix(), kind.label());
        let name = format!("{}-{of}.folded", self.step);
        self.write("stacks", &name, profile::folded(kind, profile).as_bytes())
    }

    fn write(
        &self,
        within: &str,
        name: &str,
        bytes: &[u8],
    ) -> Result<Option<String>, ConductError> {
        let Some(folder) = self.folder else {
            return Ok(None);
        };
        let inner = folder.inner(within);
        inner
            .and_then(|inner| inner.write(name, bytes))
            .map_err(|error: StoreError| ConductError::Profiles(error.to_string()))?;
        Ok(Some(format!("{within}/{name}")))
    }
}
