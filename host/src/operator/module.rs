//! `latchmail module …`: what authors of modules do at the command line.

use std::path::Path;

use super::list;
use crate::project::{self, Name};

/// What is done to a module.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Verb {
    /// Make a project for a new module, in Rust, in a folder of its name. It builds and installs as it stands.
    New {
        /// The module's name: 1 to 32 lower-case letters, digits and hyphens.
        name: Name,
    },
}

/// Does it.
///
/// # Errors
/// A sentence that says what could not be done, and why.
pub fn run(verb: Verb) -> anyhow::Result<()> {
    match verb {
        Verb::New { name } => new(&name),
    }
}

/// `latchmail module new`.
fn new(name: &Name) -> anyhow::Result<()> {
    project::create(name, Path::new(name.as_str()))?;
    let next = [
        format!("Made the module {name} in {name}/. What comes next:"),
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
