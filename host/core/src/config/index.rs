//! `[index]`: the search index of messages on the disk of this host.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::StartError;

/// The name of the index's folder in `cache_dir`.
const FOLDER: &str = "index";

/// The section `[index]` of the configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Index {
    /// Whether the service builds an index of each mailbox. Without an index, the service passes
    /// searches to the mail server.
    pub enabled: bool,
    /// The path of the folder with the indexes. The default is `index` in `cache_dir`.
    pub path: PathBuf,
    /// The maximum size of all indexes on the disk, in bytes. Above this size, the indexes of the
    /// least recently used accounts are deleted. The maximum size of one index is a quarter of this
    /// value.
    pub max_bytes: u64,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            enabled: true,
            path: PathBuf::new(),
            max_bytes: 10 * 1024 * 1024 * 1024,
        }
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
