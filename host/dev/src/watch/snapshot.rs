//! The files in some folders with their modification times. If two snapshots are equal, no file was saved between them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Folders without sources: build output and downloaded packages.
const NOT_SOURCES: [&str; 2] = ["target", "node_modules"];

/// Files with the time and the length of their last write.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot(BTreeMap<PathBuf, (SystemTime, u64)>);

impl Snapshot {
    /// Reads all files in these folders, except hidden files and folders without sources. Unreadable files are skipped.
    pub(super) fn of<'a>(folders: impl Iterator<Item = &'a Path>) -> Self {
        let mut files = BTreeMap::new();
        for folder in folders {
            walk(folder, &mut files);
        }
        Self(files)
    }
}

fn walk(folder: &Path, files: &mut BTreeMap<PathBuf, (SystemTime, u64)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') || NOT_SOURCES.contains(&&*name) {
            continue;
        }
        let path = entry.path();
        // Links are followed, because a project's contract may be a link.
        let Ok(found) = fs::metadata(&path) else {
            continue;
        };
        if found.is_dir() {
            walk(&path, files);
        } else if let Ok(written) = found.modified() {
            files.insert(path, (written, found.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(folder: &Path) -> Snapshot {
        Snapshot::of([folder].into_iter())
    }

    #[test]
    fn whatever_is_saved_made_or_deleted_is_seen_and_what_is_built_is_not() {
        let folder = std::env::temp_dir().join(format!("lm-snapshot-{}", std::process::id()));
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file("src/lib.rs", "one");
        let before = of(&folder);
        assert_eq!(before, of(&folder));
        file("src/lib.rs", "longer");
        let saved = of(&folder);
        assert_ne!(before, saved);
        file("target/x", "built");
        file(".swp", "an editor's");
        assert_eq!(saved, of(&folder));
        file("src/more.rs", "");
        let made = of(&folder);
        assert_ne!(saved, made);
        fs::remove_file(folder.join("src/more.rs")).unwrap();
        assert_eq!(saved, of(&folder));
        fs::remove_dir_all(folder).unwrap();
    }
}
