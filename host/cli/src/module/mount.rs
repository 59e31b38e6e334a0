//! The options that mount standard components ([`Mount`]).

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use latchmail_runtime::modules::Mount;

/// The options of commands that install or inspect components.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct MountArgs {
    /// Path of a standard component, for example `/api/v1/hello`. A standard component exports
    /// `wasi:http/incoming-handler` and serves all requests to this path and below it.
    #[arg(long, value_name = "PATH")]
    http: Option<String>,
    /// Callers of the standard component: `session` for web sessions, a scope such as `mail:read`
    /// also for API tokens with this scope, or `public` for all clients. Default: `session`.
    #[arg(long, value_name = "CALLERS", requires = "http")]
    access: Option<String>,
}

impl MountArgs {
    /// Returns the mount. Returns `None` without the option `--http`.
    pub(super) fn mount(&self) -> Option<Mount> {
        Some(Mount {
            path: self.http.clone()?,
            access: self.access.clone().unwrap_or_else(|| "session".into()),
        })
    }

    /// Splits the arguments of the command into the name of the module and the components. The name
    /// is `None` if the arguments contain no name.
    ///
    /// # Errors
    /// Returns an error if the option `--http` is used without exactly one component.
    pub(super) fn split<'a>(
        &self,
        arguments: &'a [PathBuf],
    ) -> anyhow::Result<(Option<String>, &'a [PathBuf])> {
        match (&self.http, arguments) {
            (None, _) | (Some(_), [_]) => Ok((None, arguments)),
            (Some(_), [name, _]) => {
                let name = name.to_string_lossy().into_owned();
                Ok((Some(name), &arguments[1..]))
            }
            _ => bail!("--http mounts one component: give the name of the module and one file"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(
        arguments: &[&str],
        http: Option<&str>,
    ) -> anyhow::Result<(Option<String>, Vec<PathBuf>)> {
        let arguments: Vec<PathBuf> = arguments.iter().map(PathBuf::from).collect();
        let options = MountArgs {
            http: http.map(Into::into),
            access: None,
        };
        let (name, files) = options.split(&arguments)?;
        Ok((name, files.to_vec()))
    }

    #[test]
    fn the_name_of_a_mounted_module_is_optional() {
        let file = || vec![PathBuf::from("a/b.wasm")];
        let named = split(&["notes", "a/b.wasm"], Some("/n")).unwrap();
        assert_eq!(named, (Some("notes".into()), file()));
        let unnamed = split(&["a/b.wasm"], Some("/n")).unwrap();
        assert_eq!(unnamed, (None, file()));
        assert!(split(&["a", "b.wasm", "c.wasm"], Some("/n")).is_err());
    }

    #[test]
    fn without_a_path_all_arguments_are_files() {
        let (name, files) = split(&["a.wasm", "b.wasm"], None).unwrap();
        assert_eq!((name, files.len()), (None, 2));
    }
}
