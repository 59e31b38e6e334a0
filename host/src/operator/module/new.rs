//! `latchmail module new`: creates a project for the author of a module. The command needs no service.

use std::path::Path;

use crate::operator::list;
use crate::project::{self, Name};

/// Creates the project in a folder with the module's name, and prints the next steps.
pub(super) fn new(name: &Name) -> anyhow::Result<()> {
    project::create(name, Path::new(name.as_str()))?;
    let next = [
        format!("Created the module {name} in {name}/. Next steps:"),
        String::new(),
        format!("  cd {name}"),
        "  cargo test".to_owned(),
        "  cargo build --release --target wasm32-wasip2".to_owned(),
        format!(
            "  latchmail module install target/wasm32-wasip2/release/{}",
            name.file()
        ),
    ];
    list(next.into_iter())
}
