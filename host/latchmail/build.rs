//! With the feature `embed-modules`, checks the folder `$LATCHMAIL_EMBED_MODULES`, whose components the program contains.

use std::path::{Path, PathBuf};
use std::process::exit;

/// The environment variable with the folder of the built modules.
const FOLDER: &str = "LATCHMAIL_EMBED_MODULES";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={FOLDER}");
    if std::env::var_os("CARGO_FEATURE_EMBED_MODULES").is_none() {
        return;
    }
    match folder() {
        // `include_bytes!` needs an absolute path.
        Ok(folder) => println!("cargo::rustc-env={FOLDER}={}", folder.display()),
        Err(reason) => {
            println!("cargo::error=the feature `embed-modules` needs the built modules: {reason}");
            exit(1);
        }
    }
}

fn folder() -> Result<PathBuf, String> {
    let folder = std::env::var_os(FOLDER).ok_or_else(|| {
        format!(
            "set {FOLDER} to the folder into which `./scripts/build-components components FOLDER component` built them"
        )
    })?;
    let folder = Path::new(&folder)
        .canonicalize()
        .map_err(|error| format!("{FOLDER} is `{}`: {error}", folder.display()))?;
    if folder.join("latchmail_mail.wasm").is_file() {
        Ok(folder)
    } else {
        Err(format!(
            "{FOLDER} is `{0}`, which has no latchmail_mail.wasm; build the modules with `./scripts/build-components components {0} component`",
            folder.display()
        ))
    }
}
