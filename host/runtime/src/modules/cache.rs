//! The cache folder for compiled components. Because of the cache, the service does not compile the
//! same components again after a restart.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use latchmail_core::error::StartError;
use wasmtime::{Cache, CacheConfig};

/// The part of a file name that marks an unfinished file. While an unfinished file of Wasmtime
/// exists, no other process writes the same cache entry.
pub(super) const UNFINISHED: &str = ".wip-atomic-write-";

/// The minimum age of an unfinished file that is removed. Writing a file takes much less time, so
/// the writer of an older file was killed or the disk was full. Another service with the same
/// folder could be writing a younger file.
const MAX_UNFINISHED_AGE: Duration = Duration::from_mins(1);

/// The folder in `cache_dir` that belongs to Wasmtime. Wasmtime deletes other files in this folder,
/// so no other data can be there.
pub(super) const FOLDER: &str = "compiled";

/// The maximum depth of folders below [`FOLDER`] in which unfinished files are searched.
const MAX_DEPTH: u32 = 3;

/// Opens the cache folder. Creates the folder if it does not exist, and removes old unfinished
/// files.
///
/// # Errors
/// Returns an error if the folder cannot be used, or if another user can write to it.
pub(super) fn cache(dir: &Path) -> Result<Cache, StartError> {
    let unusable = |e: &dyn std::fmt::Display| {
        StartError::new(format!("`cache_dir` {} cannot be used: {e}", dir.display()))
    };
    // The engine runs the compiled code without checking it, so no other user must have write
    // access to the folder.
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| unusable(&e))?;
    let dir = dir.canonicalize().map_err(|e| unusable(&e))?;
    let metadata = dir.metadata().map_err(|e| unusable(&e))?;
    let owners = [0, rustix::process::geteuid().as_raw()];
    if !owners.contains(&metadata.uid()) || metadata.mode() & 0o022 != 0 {
        return Err(unusable(&"another user can write to it"));
    }
    let dir = dir.join(FOLDER);
    remove_unfinished(&dir, 0, SystemTime::now());
    let mut config = CacheConfig::new();
    config.with_directory(dir);
    Cache::new(config).map_err(|e| unusable(&e))
}

/// Removes old unfinished files. Errors are only logged, because a remaining file only makes the
/// start slower.
fn remove_unfinished(dir: &Path, depth: u32, now: SystemTime) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_dir() && depth < MAX_DEPTH {
            remove_unfinished(&entry.path(), depth + 1, now);
        }
        let unfinished = entry.file_name().to_string_lossy().contains(UNFINISHED);
        let age = metadata
            .modified()
            .ok()
            .and_then(|at| now.duration_since(at).ok());
        if metadata.is_file() && unfinished && age.is_some_and(|age| age > MAX_UNFINISHED_AGE) {
            let file = entry.path();
            match std::fs::remove_file(&file) {
                Ok(()) => tracing::debug!(file = %file.display(), "removed an unfinished file"),
                Err(error) => {
                    tracing::warn!(file = %file.display(), %error, "failed to remove an unfinished file");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn old_unfinished_files_are_removed_and_recent_ones_stay() {
        let folder = std::env::temp_dir().join(format!("lm-cache-{}", std::process::id()));
        let inner = folder.join("compiled/modules/compiler-1");
        fs::create_dir_all(&inner).unwrap();
        let old = SystemTime::now() - 2 * MAX_UNFINISHED_AGE;
        let create = |name: &str, at: SystemTime| {
            let path = inner.join(name);
            File::create(&path).unwrap().set_modified(at).unwrap();
            path
        };
        let abandoned = create("abc.wip-atomic-write-mod", old);
        let recent = create("def.wip-atomic-write-mod", SystemTime::now());
        let finished = create("ghi", old);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        cache(&folder).unwrap();
        assert!(!abandoned.exists());
        assert!(recent.exists() && finished.exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
