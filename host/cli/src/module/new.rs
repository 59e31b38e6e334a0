//! `latchmail module new`: creates the project of a new module. The command does not need a running
//! service.

use latchmail_terminal::output::print_lines;

use std::path::Path;

use crate::project::{self, Language, Name};

/// Creates the project in a folder with the module's name, and prints the next steps.
pub(super) fn new(name: &Name, language: Language) -> anyhow::Result<()> {
    project::create(name, language, Path::new(name.as_str()))?;
    let (commands, component) = language.commands(name);
    let mut lines = vec![
        format!("Created the module {name} in {name}/. Next steps:"),
        String::new(),
        format!("  cd {name}"),
    ];
    lines.extend(commands.iter().map(|command| format!("  {command}")));
    lines.push(format!("  latchmail module install {component}"));
    print_lines(lines)
}
