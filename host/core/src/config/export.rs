//! `[export]`: the archives with the data of accounts.

use std::path::{Path, PathBuf};

use super::values::section;
use crate::error::StartError;

/// The name of the folder of exports in `cache_dir`.
const FOLDER: &str = "exports";

section! {
    /// The section `[export]` of the configuration.
    pub struct Export {
        /// The path of the folder with the archives. The default is `exports` in `cache_dir`. If
        /// several hosts share the database, they must share this folder too.
        pub path: PathBuf,
        /// The maximum size of all files in the folder, in bytes. While an archive is written, it
        /// needs twice its size. An export that does not fit fails.
        pub max_bytes: u64 = 20 * 1024 * 1024 * 1024,
    }
}

impl Export {
    /// Sets the default path.
    pub(super) fn check(&mut self, cache_dir: &Path) -> Result<(), StartError> {
        if self.path.as_os_str().is_empty() {
            self.path = cache_dir.join(FOLDER);
        }
        if self.max_bytes == 0 {
            return Err(StartError::new("`export.max_bytes` must be at least 1"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::Config;
    use super::*;

    #[test]
    fn the_archives_are_in_the_cache_folder_unless_a_path_is_set() {
        let parse = |text: &str| Config::parse(text, "test", HashMap::new());
        let export = parse("cache_dir = '/c'").unwrap().export;
        assert_eq!(export.path, Path::new("/c/exports"));
        let export = parse("export.path = '/e'").unwrap().export;
        assert_eq!(export.path, Path::new("/e"));
        let error = parse("export.max_bytes = 0").unwrap_err().to_string();
        assert!(error.contains("`export.max_bytes`"), "{error}");
    }
}
