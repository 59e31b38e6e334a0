//! The folder of compiled components. With it, a start does not compile them again.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use latchmail_core::error::StartError;
use wasmtime::{Cache, CacheConfig};

/// The part of a file name that Wasmtime gives to an unfinished file. While such a file exists, no other process writes the same file.
const UNFINISHED: &str = ".wip-atomic-write-";

/// An unfinished file of this age was left by a service that was killed or by a full disk. Younger files stay, because another service may share the
/// folder; writing one takes much less time.
const OVER: Duration = Duration::from_mins(1);

/// The maximum depth of folders below the cache folder.
const DEPTH: u32 = 3;

/// Opens the folder. Creates it if it does not exist, and removes old unfinished files.
///
/// # Errors
/// The folder cannot be used, or another user can write to it.
pub(super) fn cache(dir: &Path) -> Result<Cache, StartError> {
    let unusable = |e: &dyn std::fmt::Display| {
        StartError::new(format!("`cache_dir` {} cannot be used: {e}", dir.display()))
    };
    // The service runs compiled code without a check, so no other user may write it.
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
    sweep(&dir, 0, SystemTime::now());
    let mut config = CacheConfig::new();
    config.with_directory(dir);
    Cache::new(config).map_err(|e| unusable(&e))
}

/// Removes old unfinished files. An error is only logged: a remaining file costs time at every start and has no other effect.
fn sweep(dir: &Path, depth: u32, now: SystemTime) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_dir() && depth < DEPTH {
            sweep(&entry.path(), depth + 1, now);
        }
        let unfinished = entry.file_name().to_string_lossy().contains(UNFINISHED);
        let age = metadata
            .modified()
            .ok()
            .and_then(|at| now.duration_since(at).ok());
        if metadata.is_file() && unfinished && age.is_some_and(|age| age > OVER) {
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
    fn what_a_write_left_behind_is_gone_at_the_next_start_and_what_may_be_under_way_is_not() {
        let folder = std::env::temp_dir().join(format!("lm-cache-{}", std::process::id()));
        let inner = folder.join("modules/compiler-1");
        fs::create_dir_all(&inner).unwrap();
        let long_ago = SystemTime::now() - 2 * OVER;
        let made = |name: &str, at: SystemTime| {
            let path = inner.join(name);
            File::create(&path).unwrap().set_modified(at).unwrap();
            path
        };
        let left = made("abc.wip-atomic-write-mod", long_ago);
        let under_way = made("def.wip-atomic-write-mod", SystemTime::now());
        let whole = made("ghi", long_ago);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        cache(&folder).unwrap();
        assert!(!left.exists());
        assert!(under_way.exists() && whole.exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
