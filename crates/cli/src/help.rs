//! The definitions of the command line with the help that was asked for: `--help` shows the common flags,
//! `--help-all` every one. What is uncommon is hidden in [`crate::flags`].

use std::ffi::OsStr;

use clap::{Command, CommandFactory};

use crate::flags::Flags;

const SHOWS_ALL: &str = "--help-all";

/// The definitions, for a command line of these words.
pub(crate) fn command<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Command {
    let command = Flags::command();
    let mut words = words.into_iter();
    match words.any(|word| word.as_ref() == SHOWS_ALL) {
        true => with_all(command),
        false => naming_rest(command),
    }
}

/// With every flag of every command shown.
pub(crate) fn with_all(command: Command) -> Command {
    let command = command.mut_args(|flag| flag.hide(false));
    command.mut_subcommands(with_all)
}

/// With a line at the end of each help that leaves flags out.
fn naming_rest(command: Command) -> Command {
    let hidden = command.get_arguments().filter(|flag| flag.is_hide_set());
    let command = match hidden.count() {
        0 => command,
        hidden => {
            let rest = format!("{hidden} more flags, for rarer needs: {SHOWS_ALL}.");
            let before = command.get_after_help().map(ToString::to_string);
            let text = before.map_or_else(|| rest.clone(), |before| format!("{before}\n\n{rest}"));
            command.after_help(text)
        }
    };
    command.mut_subcommands(naming_rest)
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    const SCREENS: usize = 3 * 50;

    fn rendered(words: &[&str]) -> String {
        let words = [&["wallfinder"], words].concat();
        let command = command(&words).term_width(100);
        let error = command.try_get_matches_from(&words).unwrap_err();
        error.render().to_string()
    }

    /// Every command with the words that lead to it.
    fn commands() -> Vec<(Vec<String>, Command)> {
        let mut command = Flags::command();
        command.build();
        let mut found = Vec::new();
        let mut left = vec![(Vec::new(), command)];
        while let Some((words, command)) = left.pop() {
            for below in command.get_subcommands() {
                let name = below.get_name().to_owned();
                left.push(([words.clone(), vec![name]].concat(), below.clone()));
            }
            found.push((words, command));
        }
        found
    }

    /// Those that make load.
    fn loading() -> Vec<(Vec<String>, Command)> {
        let mut commands = commands();
        commands.retain(|(words, _)| {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            matches!(
                *words,
                ["run" | "ramp" | "find" | "ab" | "bytes" | "profile" | "calibrate"]
                    | ["study", "run"]
            )
        });
        assert_eq!(commands.len(), 8);
        commands
    }

    fn help_of(words: &[String], flag: &str) -> String {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        rendered(&[&words[..], &[flag]].concat())
    }

    /// Whether a help shows a flag at the start of an entry.
    fn shows(help: &str, flag: &Arg) -> bool {
        let long = flag.get_long().map(|long| format!("--{long}"));
        let name = long.unwrap_or_else(|| {
            let names = flag.get_value_names().unwrap_or_default();
            format!("[{}", names[0]).replace('[', "")
        });
        help.lines().any(|line| {
            let entry = line.trim_start();
            let entry = match entry.split_once(", ") {
                Some((short, rest)) if short.len() == 2 && short.starts_with('-') => rest,
                _ => entry,
            };
            let end = |rest: &str| rest.is_empty() || rest.starts_with([' ', '[', ']', '>', '.']);
            let entry = entry.trim_start_matches(['[', '<']);
            entry.strip_prefix(name.as_str()).is_some_and(end)
        })
    }

    #[test]
    fn the_help_of_a_command_that_loads_fits_three_screens() {
        for (words, _) in loading() {
            for flag in ["-h", "--help"] {
                let help = help_of(&words, flag);
                let lines = help.lines().count();
                assert!(lines <= SCREENS, "{words:?} {flag}: {lines} lines\n{help}");
                assert!(
                    help.lines().all(|line| line.chars().count() <= 100),
                    "{help}"
                );
            }
        }
    }

    #[test]
    fn what_help_leaves_out_is_named_at_its_end_and_shown_by_help_all() {
        for (words, command) in commands() {
            let (common, all) = (help_of(&words, "--help"), help_of(&words, SHOWS_ALL));
            let (mut hidden, mut missing) = (0, Vec::new());
            for flag in command.get_arguments() {
                hidden += usize::from(flag.is_hide_set());
                assert_eq!(
                    shows(&common, flag),
                    !flag.is_hide_set(),
                    "{words:?} {flag:?}"
                );
                if !shows(&all, flag) {
                    missing.push(flag.get_id().to_string());
                }
            }
            assert!(missing.is_empty(), "{words:?}: {missing:?}\n{all}");
            let end = common.trim_end().lines().next_back().unwrap();
            assert_eq!(end.ends_with("--help-all."), hidden > 0, "{words:?}: {end}");
            assert!(!all.contains("more flags, for"), "{all}");
        }
    }

    #[test]
    fn help_all_may_stand_anywhere_among_the_arguments() {
        let all = rendered(&["find", SHOWS_ALL]);
        for words in [
            &["find", "http://h/", "-c", "2", SHOWS_ALL][..],
            &["find", SHOWS_ALL, "http://h/"],
            &["find", "http://h/", SHOWS_ALL, "--help"],
        ] {
            assert_eq!(rendered(words), all, "{words:?}");
        }
    }

    #[test]
    fn flags_of_a_command_that_loads_have_a_heading() {
        for (words, command) in loading() {
            for flag in command.get_arguments().filter(|flag| !flag.is_positional()) {
                let has_heading = flag.get_help_heading().is_some();
                assert!(has_heading, "{words:?}: {}", flag.get_id());
            }
        }
    }

    #[test]
    fn what_is_common_stands_first() {
        let help = rendered(&["find", "--help"]);
        let place = |text: &str| {
            help.find(text)
                .unwrap_or_else(|| panic!("{text} in {help}"))
        };
        let headings = [
            "Target:",
            "Load:",
            "Client:",
            "Server:",
            "Link:",
            "Protocol",
            "Watching:",
            "Proof:",
            "Checks:",
            "Output:",
            "Help and log:",
        ];
        let places = headings.map(|heading| place(&format!("\n{heading}")));
        assert!(places.is_sorted(), "{help}");
        let load = [
            "-c, --connections",
            "-R, --rate",
            "-d, --duration",
            "--pipeline",
        ];
        assert!(load.map(place).is_sorted(), "{help}");
    }
}
