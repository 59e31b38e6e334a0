//! `latchmail module new`: creates a project for the author of a module. The command needs no service.

use std::path::Path;

use crate::list;
use crate::project::{self, Language, Name};

/// Creates the project in a folder with the module's name, and prints the next steps.
pub(super) fn new(name: &Name, language: Language) -> anyhow::Result<()> {
    project::create(name, language, Path::new(name.as_str()))?;
    let (commands, component) = language.commands(name);
    let mut next = vec![
        format!("Created the module {name} in {name}/. Next steps:"),
        String::new(),
        format!("  cd {name}"),
    ];
    next.extend(commands.iter().map(|command| format!("  {command}")));
    next.push(format!("  latchmail module install {component}"));
    list(next.into_iter())
}
