//! `latchmail module new`: a project for the author of a module. It needs no service.

use std::path::Path;

use crate::operator::list;
use crate::project::{self, Name};

/// Makes it in a folder of its name, and says what comes next.
pub(super) fn new(name: &Name) -> anyhow::Result<()> {
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
