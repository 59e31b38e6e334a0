//! `[index]`: the search index of messages on the disk of this host.

use std::path::{Path, PathBuf};

use super::values::section;
use crate::error::StartError;

/// The name of the index's folder in `cache_dir`.
const FOLDER: &str = "index";

section! {
    /// The section `[index]` of the configuration.
    pub struct Index {
        /// Whether the service builds an index of each mailbox. Without an index, the mail server
        /// searches.
        pub enabled: bool = true,
        /// The path of the folder with the indexes. The default is `index` in `cache_dir`.
        pub path: PathBuf,
        /// The maximum size of all indexes on the disk, in bytes. Above this size, the least
        /// recently used indexes are deleted. One index can use at most a quarter of this size.
        pub max_bytes: u64 = 10 * 1024 * 1024 * 1024,
    }
}

impl Index {
    /// Sets the default path, and checks the settings.
    pub(super) fn check(&mut self, cache_dir: &Path) -> Result<(), StartError> {
        if self.path.as_os_str().is_empty() {
            self.path = cache_dir.join(FOLDER);
        }
        if self.max_bytes == 0 {
            return Err(StartError::new(
                "`index.max_bytes` must be at least 1; to turn the index off, set `index.enabled` to false",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::Config;
    use super::*;

    fn parse(text: &str) -> Result<Index, StartError> {
        Config::parse(text, "test", HashMap::new()).map(|config| config.index)
    }

    #[test]
    fn the_index_is_in_the_cache_folder_unless_a_path_is_set() {
        let index = parse("cache_dir = '/c'").unwrap();
        assert!(index.enabled);
        assert_eq!(index.path, Path::new("/c/index"));
        assert_eq!(index.max_bytes, 10 << 30);
        let index = parse("cache_dir = '/c'\nindex.path = '/i'").unwrap();
        assert_eq!(index.path, Path::new("/i"));
    }

    #[test]
    fn a_size_of_zero_is_refused() {
        let error = parse("index.max_bytes = 0").unwrap_err();
        assert!(error.to_string().contains("`index.max_bytes`"), "{error}");
    }
}
