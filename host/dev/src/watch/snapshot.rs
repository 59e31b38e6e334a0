//! Records the modification times of the files in some folders. If two snapshots are equal, no file
//! changed between them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The names of folders that contain build output or downloaded packages instead of sources.
const EXCLUDED_FOLDERS: [&str; 3] = ["target", "node_modules", "__pycache__"];

/// The modification time and the length of each file, by path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot(BTreeMap<PathBuf, (SystemTime, u64)>);

impl Snapshot {
    /// Records these files, and all files in these folders. Hidden files, excluded folders and
    /// unreadable files are skipped.
    pub(super) fn of(paths: &[PathBuf]) -> Self {
        let mut files = BTreeMap::new();
        for path in paths {
            record(path.clone(), &mut files);
        }
        Self(files)
    }
}

/// Records a file, or all files in a folder.
fn record(path: PathBuf, files: &mut BTreeMap<PathBuf, (SystemTime, u64)>) {
    // Symbolic links are followed, because the folder `wit` of a project can be a link.
    let Ok(metadata) = fs::metadata(&path) else {
        return;
    };
    if metadata.is_dir() {
        walk(&path, files);
    } else if let Ok(modified) = metadata.modified() {
        files.insert(path, (modified, metadata.len()));
    }
}

fn walk(folder: &Path, files: &mut BTreeMap<PathBuf, (SystemTime, u64)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') || EXCLUDED_FOLDERS.contains(&&*name) {
            continue;
        }
        record(entry.path(), files);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(folder: &Path) -> Snapshot {
        Snapshot::of(&[folder.to_owned()])
    }

    #[test]
    fn a_snapshot_changes_with_every_source_file_and_not_with_build_output() {
        let folder = std::env::temp_dir().join(format!("lm-snapshot-{}", std::process::id()));
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file("src/lib.rs", "one");
        let before = snapshot(&folder);
        assert_eq!(before, snapshot(&folder));
        file("src/lib.rs", "longer");
        let changed = snapshot(&folder);
        assert_ne!(before, changed);
        file("target/x", "built");
        file(".swp", "swap file");
        assert_eq!(changed, snapshot(&folder));
        file("src/more.rs", "");
        let added = snapshot(&folder);
        assert_ne!(changed, added);
        fs::remove_file(folder.join("src/more.rs")).unwrap();
        assert_eq!(changed, snapshot(&folder));
        fs::remove_dir_all(folder).unwrap();
    }
}
