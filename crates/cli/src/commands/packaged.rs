//! What a package of the tool has beside it, made from the flags themselves: completions for shells, and manual pages.

use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::exit::Failed;
use crate::flags::Flags;
use crate::{help, output};

/// `wallfinder completions SHELL`.
pub(crate) fn completions(shell: Shell) -> Result<(), Failed> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Flags::command(), "wallfinder", &mut text);
    output::put(&String::from_utf8_lossy(&text), None)
}

/// `wallfinder man FOLDER`: a page of the tool, and one of each command, with all that `--help-all` shows.
pub(crate) fn man(folder: &Path) -> Result<(), Failed> {
    let mut tool = help::with_all(Flags::command());
    tool.build();
    page(&tool, "wallfinder", folder)?;
    for command in tool.get_subcommands().filter(|one| !one.is_hide_set()) {
        page(
            command,
            &format!("wallfinder-{}", command.get_name()),
            folder,
        )?;
    }
    Ok(())
}

fn page(command: &Command, name: &str, folder: &Path) -> Result<(), Failed> {
    let mut text = Vec::new();
    Man::new(command.clone())
        .title(name)
        .render(&mut text)
        .map_err(|error| Failed::run(format!("the manual of {name}: {error}")))?;
    let path = folder.join(format!("{name}.1"));
    output::put(&String::from_utf8_lossy(&text), Some(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_every_flag() {
        let folder = std::env::temp_dir().join(format!("wf-man-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        man(&folder).unwrap();
        let find = std::fs::read_to_string(folder.join("wallfinder-find.1")).unwrap();
        let pages = std::fs::read_dir(&folder).unwrap().count();
        std::fs::remove_dir_all(&folder).unwrap();
        let mut tool = Flags::command();
        tool.build();
        let shown = tool.get_subcommands().filter(|one| !one.is_hide_set());
        assert_eq!(pages, 1 + shown.count());
        let flags = tool.find_subcommand("find").unwrap().get_arguments();
        for long in flags.filter_map(clap::Arg::get_long) {
            let roff = long.replace('-', "\\-");
            assert!(find.contains(&format!("\\-\\-{roff}")), "--{long}");
        }
    }
}
