//! The shell completions and the man pages, which are generated from the definition of the command
//! line.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::Cli;

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "latchmail", &mut text);
    std::io::stdout()
        .write_all(&text)
        .context("cannot write to standard output")
}

/// Writes a man page for the program and for each command to a folder.
pub(crate) fn man_pages(folder: &Path) -> anyhow::Result<()> {
    clap_mangen::generate_to(Cli::command(), folder)
        .with_context(|| format!("cannot write to {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_man_page() {
        let folder = std::env::temp_dir().join(format!("lm-man-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        man_pages(&folder).unwrap();
        for name in [
            "latchmail",
            "latchmail-serve",
            "latchmail-account-create",
            "latchmail-health",
        ] {
            let page = std::fs::read_to_string(folder.join(format!("{name}.1"))).unwrap();
            assert!(page.contains(".SH SYNOPSIS"), "{page}");
        }
        assert!(!folder.join("latchmail-man.1").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_completions_name_each_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "latchmail", &mut text);
            let text = String::from_utf8(text).unwrap();
            for command in Cli::command().get_subcommands() {
                let name = command.get_name();
                assert!(
                    text.contains(name) || command.is_hide_set(),
                    "{shell} {name}"
                );
            }
        }
    }
}
