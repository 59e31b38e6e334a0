//! The folders of built components.

use std::path::{Path, PathBuf};

/// Returns the folder into which `./just modules` builds: `LATCHMAIL_MODULES`, otherwise beside the
/// test binary.
pub fn modules() -> PathBuf {
    std::env::var_os("LATCHMAIL_MODULES").map_or_else(|| target().join("modules"), PathBuf::from)
}

/// Returns the folder into which `./just fixtures` builds the components that only tests use.
pub fn fixtures() -> PathBuf {
    modules().with_file_name("fixtures")
}

/// Returns the folder of the examples' components.
pub fn examples() -> PathBuf {
    modules().with_file_name("examples")
}

/// Returns the cache of compiled components, which all tests share. Its entries are named by
/// digest.
pub fn cache() -> PathBuf {
    target().join("compiled-modules")
}

fn target() -> PathBuf {
    let binary = std::env::current_exe().unwrap();
    let profile = binary.ancestors().find(|p| p.join("deps").is_dir());
    profile.and_then(Path::parent).unwrap().to_owned()
}
