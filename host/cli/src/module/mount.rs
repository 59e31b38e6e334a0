//! The options that mount standard components ([`Mount`]).

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use latchmail_runtime::modules::Mount;

/// The options of commands with component files.
#[derive(Debug, Clone, Args)]
pub struct MountArgs {
    /// Path of a standard component, for example `/api/v1/hello`. A standard component exports
    /// `wasi:http/incoming-handler` and serves all requests to this path and below it. The
    /// arguments are the name of the module, and one component file. The default name is that of
    /// the file.
    #[arg(long, value_name = "PATH")]
    http: Option<String>,
    /// Callers of the standard component: `session` for web sessions, a scope such as `mail:read`
    /// also for API tokens with this scope, or `public` for all clients. Default: `session`.
    #[arg(long, value_name = "CALLERS", requires = "http")]
    access: Option<String>,
}

impl MountArgs {
    /// Splits the arguments of the command into the component files and the mount. The mount is
    /// `None` without the option `--http`.
    ///
    /// # Errors
    /// Returns an error if the option `--http` is used without exactly one component file, or
    /// without a name.
    pub(super) fn split<'a>(
        &self,
        arguments: &'a [PathBuf],
    ) -> anyhow::Result<(&'a [PathBuf], Option<Mount>)> {
        let Some(path) = &self.http else {
            return Ok((arguments, None));
        };
        let (name, file) = match arguments {
            [file] => (file_name(file)?, file),
            [name, file] => (name.to_string_lossy().into_owned(), file),
            _ => bail!("--http mounts one component: give the name of the module and one file"),
        };
        let mount = Mount {
            name,
            path: path.clone(),
            access: self.access.clone().unwrap_or_else(|| "session".into()),
        };
        Ok((std::slice::from_ref(file), Some(mount)))
    }
}

/// Returns the name of a module from the name of its file: `my-notes` for `my_notes.wasm`.
fn file_name(file: &Path) -> anyhow::Result<String> {
    let name = file.file_stem().and_then(|name| name.to_str());
    let name = name.with_context(|| {
        format!(
            "{} has no file name: give the name of the module first",
            file.display()
        )
    })?;
    Ok(name.to_ascii_lowercase().replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(
        arguments: &[&str],
        http: Option<&str>,
    ) -> anyhow::Result<(Vec<PathBuf>, Option<Mount>)> {
        let arguments: Vec<PathBuf> = arguments.iter().map(PathBuf::from).collect();
        let options = MountArgs {
            http: http.map(Into::into),
            access: None,
        };
        let (files, mount) = options.split(&arguments)?;
        Ok((files.to_vec(), mount))
    }

    #[test]
    fn the_name_of_a_mounted_module_is_optional() {
        let (files, mount) = split(&["notes", "a/b.wasm"], Some("/n")).unwrap();
        assert_eq!(files, [PathBuf::from("a/b.wasm")]);
        let mount = mount.unwrap();
        assert_eq!(
            (mount.name.as_str(), mount.access.as_str()),
            ("notes", "session")
        );
        let (_, mount) = split(&["a/My_notes.wasm"], Some("/n")).unwrap();
        assert_eq!(mount.unwrap().name, "my-notes");
        assert!(split(&["a", "b.wasm", "c.wasm"], Some("/n")).is_err());
    }

    #[test]
    fn without_a_path_all_arguments_are_files() {
        let (files, mount) = split(&["a.wasm", "b.wasm"], None).unwrap();
        assert_eq!((files.len(), mount), (2, None));
    }
}
