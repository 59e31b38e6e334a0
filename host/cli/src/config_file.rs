//! Finds the configuration file that a command uses.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context as _, bail};
use latchmail_core::config::{STATE, STATE_FILE};
use rustix::process::geteuid;

const ROOT: u32 = 0;
/// The mode bits that allow the group and other users to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The configuration file of an installed service (`docs/production.md`).
const INSTALLED: &str = "/etc/latchmail/latchmail.toml";

/// Returns the path of the configuration file. `given` overrides the variable `LATCHMAIL_CONFIG`.
/// Without `given` and the variable, returns `/etc/latchmail/latchmail.toml` if this file exists.
/// Otherwise returns the path of the file that `latchmail dev` created. In the last case, no other
/// user must be able to write to the file or to its folder.
pub(crate) fn locate(
    given: Option<&Path>,
    environment: &HashMap<String, String>,
) -> anyhow::Result<PathBuf> {
    locate_with(given, environment, Path::new(INSTALLED))
}

/// Works like [`locate`]. `installed` is the configuration file of an installed service.
fn locate_with(
    given: Option<&Path>,
    environment: &HashMap<String, String>,
    installed: &Path,
) -> anyhow::Result<PathBuf> {
    let variable = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    if let Some(file) = given {
        return Ok(file.to_owned());
    }
    if let Some(file) = variable("LATCHMAIL_CONFIG") {
        return Ok(file.into());
    }
    if installed.is_file() {
        return Ok(installed.to_owned());
    }
    let state = variable("LATCHMAIL_STATE").map_or(STATE, String::as_str);
    let default = Path::new(state).join(STATE_FILE);
    if default.is_file() {
        for path in [Path::new(state), &default] {
            if !only_caller_can_write(path)
                .with_context(|| format!("cannot use {}", path.display()))?
            {
                bail!(
                    "{} belongs to another user, or other users can write to it, so it may describe a different service. Give the \
                     configuration with --config FILE or LATCHMAIL_CONFIG",
                    path.display()
                );
            }
        }
        return Ok(default);
    }
    bail!(
        "no configuration: give it with --config FILE or LATCHMAIL_CONFIG. Neither {} nor {}, which `latchmail dev` creates, exists",
        installed.display(),
        default.display()
    )
}

/// Returns whether only the caller and root can change a file or folder. The owner of the file or
/// folder must be the caller or root. If the path is a symbolic link, the owner of the link must
/// also be the caller or root.
fn only_caller_can_write(path: &Path) -> io::Result<bool> {
    let caller = geteuid().as_raw();
    let (link, target) = (fs::symlink_metadata(path)?, fs::metadata(path)?);
    let trusted = [&link, &target]
        .iter()
        .all(|metadata| [caller, ROOT].contains(&metadata.uid()));
    Ok(trusted && target.mode() & WRITABLE_BY_OTHERS == 0)
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
    fn the_option_overrides_the_variable_which_overrides_the_installed_file_and_the_state_folder() {
        let state = std::env::temp_dir().join(format!("lm-operator-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&state).unwrap();
        let folder = state.to_str().unwrap();
        let installed = state.join("installed.toml");
        let variable = ("LATCHMAIL_CONFIG", "/etc/latchmail.toml");
        let both = environment(&[variable, ("LATCHMAIL_STATE", folder)]);
        let state_only = environment(&[("LATCHMAIL_CONFIG", ""), ("LATCHMAIL_STATE", folder)]);

        let given = Path::new("given.toml");
        assert_eq!(locate_with(Some(given), &both, &installed).unwrap(), given);
        assert_eq!(
            locate_with(None, &both, &installed).unwrap(),
            Path::new("/etc/latchmail.toml")
        );
        let error = locate_with(None, &state_only, &installed)
            .unwrap_err()
            .to_string();
        assert!(error.contains("--config FILE"), "{error}");
        let default = state.join("latchmail.toml");
        fs::write(&default, "").unwrap();
        let mode = |path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        mode(&default, 0o600).unwrap();
        assert_eq!(locate_with(None, &state_only, &installed).unwrap(), default);

        // A file or folder that others can write to is rejected.
        let assert_rejected = |path: &Path| {
            let error = locate_with(None, &state_only, &installed)
                .unwrap_err()
                .to_string();
            let expected = format!("{} belongs to another user", path.display());
            assert!(error.starts_with(&expected), "{error}");
        };
        for (path, own, shared) in [
            (&state, 0o700, [0o720, 0o702]),
            (&default, 0o600, [0o620, 0o602]),
        ] {
            for shared in shared {
                mode(path, shared).unwrap();
                assert_rejected(path);
            }
            mode(path, own).unwrap();
            // Only root can change the owner.
            if chown(path, Some(1), None).is_ok() {
                assert_rejected(path);
                chown(path, Some(ROOT), None).unwrap();
            }
        }
        assert_eq!(locate_with(None, &state_only, &installed).unwrap(), default);
        fs::write(&installed, "").unwrap();
        assert_eq!(
            locate_with(None, &state_only, &installed).unwrap(),
            installed
        );
        fs::remove_dir_all(&state).unwrap();
    }
}
