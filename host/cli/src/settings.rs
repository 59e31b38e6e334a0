//! Finds the configuration file that a command works with.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context as _, bail};
use latchmail_core::config::{STATE, STATE_FILE};
use rustix::process::geteuid;

const ROOT: u32 = 0;
/// Mode bits that let group and others write.
const SHARED: u32 = 0o022;

/// Returns the given file, otherwise the file named by `LATCHMAIL_CONFIG`, otherwise the file that `latchmail dev` created in its state
/// folder. The last is used only if no other user can have created or changed it.
pub(crate) fn locate(
    given: Option<&Path>,
    environment: &HashMap<String, String>,
) -> anyhow::Result<PathBuf> {
    let named = |variable: &str| environment.get(variable).filter(|value| !value.is_empty());
    if let Some(file) = given {
        return Ok(file.to_owned());
    }
    if let Some(file) = named("LATCHMAIL_CONFIG") {
        return Ok(file.into());
    }
    let state = named("LATCHMAIL_STATE").map_or(STATE, String::as_str);
    let left = Path::new(state).join(STATE_FILE);
    if left.is_file() {
        for path in [Path::new(state), &left] {
            if !kept_to_caller(path).with_context(|| format!("cannot use {}", path.display()))? {
                bail!(
                    "{} belongs to another user, or other users can write to it, so it may describe a different service. Give the \
                     configuration with --config FILE or LATCHMAIL_CONFIG",
                    path.display()
                );
            }
        }
        return Ok(left);
    }
    bail!(
        "no configuration: give it with --config FILE or LATCHMAIL_CONFIG. {}, which `latchmail dev` creates, does not exist",
        left.display()
    )
}

/// Returns whether a file or folder is owned by the caller or root, and only its owner can write to it. A symbolic link must have such an
/// owner, too.
fn kept_to_caller(path: &Path) -> io::Result<bool> {
    let caller = geteuid().as_raw();
    let (named, found) = (fs::symlink_metadata(path)?, fs::metadata(path)?);
    let trusted = [&named, &found]
        .iter()
        .all(|found| [caller, ROOT].contains(&found.uid()));
    Ok(trusted && found.mode() & SHARED == 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};

    use super::*;

    fn environment(variables: &[(&str, &str)]) -> HashMap<String, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).into(), (*value).into());
        variables.iter().map(owned).collect()
    }

    #[test]
    fn what_is_given_goes_over_what_is_named_and_that_over_what_was_left() {
        let state = std::env::temp_dir().join(format!("lm-operator-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&state).unwrap();
        let folder = state.to_str().unwrap();
        let named = ("LATCHMAIL_CONFIG", "/etc/latchmail.toml");
        let both = environment(&[named, ("LATCHMAIL_STATE", folder)]);
        let left = environment(&[("LATCHMAIL_CONFIG", ""), ("LATCHMAIL_STATE", folder)]);

        let given = Path::new("given.toml");
        assert_eq!(locate(Some(given), &both).unwrap(), given);
        assert_eq!(
            locate(None, &both).unwrap(),
            Path::new("/etc/latchmail.toml")
        );
        let nothing = locate(None, &left).unwrap_err().to_string();
        assert!(nothing.contains("--config FILE"), "{nothing}");
        let kept = state.join("latchmail.toml");
        fs::write(&kept, "").unwrap();
        let mode = |path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        mode(&kept, 0o600).unwrap();
        assert_eq!(locate(None, &left).unwrap(), kept);

        // A file or folder that others can write to is rejected.
        let refused = |path: &Path| {
            let refused = locate(None, &left).unwrap_err().to_string();
            let named = format!("{} belongs to another user", path.display());
            assert!(refused.starts_with(&named), "{refused}");
        };
        for (path, own, shared) in [
            (&state, 0o700, [0o720, 0o702]),
            (&kept, 0o600, [0o620, 0o602]),
        ] {
            for shared in shared {
                mode(path, shared).unwrap();
                refused(path);
            }
            mode(path, own).unwrap();
            // Only root can change the owner.
            if chown(path, Some(1), None).is_ok() {
                refused(path);
                chown(path, Some(ROOT), None).unwrap();
            }
        }
        assert_eq!(locate(None, &left).unwrap(), kept);
        fs::remove_dir_all(&state).unwrap();
    }
}
