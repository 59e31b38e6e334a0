//! The file `run.json` in the state folder. The file describes the running service to other
//! programs, and exists only while the service runs.

use std::fs;
use std::path::{Path, PathBuf};

use latchmail_mailserver::LocalServers;
use serde::Serialize;

use crate::demo::DemoAccount;
use crate::state::write_atomically;

const NAME: &str = "run.json";

/// The content of `run.json`, and the path of the file.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunFile {
    #[serde(skip)]
    path: PathBuf,
    /// The URL at which clients can reach the service.
    pub(crate) base_url: String,
    auth_url: String,
    imap: String,
    submission: String,
    smtp: String,
    lmtp: String,
    /// The URL of the operator's page.
    pub(crate) operator_page: String,
    demo: DemoAccount,
    /// The folder of the built modules. `None` for the modules in the program.
    modules: Option<PathBuf>,
}

impl RunFile {
    /// Writes the file atomically. A program that reads the file sees either the complete file or
    /// no file.
    pub(crate) fn write(
        state: &Path,
        base_url: &str,
        auth_url: &str,
        operator_page: &str,
        stack: &LocalServers,
        demo: &DemoAccount,
        modules: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let file = Self {
            path: state.join(NAME),
            base_url: base_url.into(),
            auth_url: auth_url.into(),
            imap: stack.imap.to_string(),
            submission: stack.submission.to_string(),
            smtp: stack.smtp.to_string(),
            lmtp: stack.lmtp.to_string(),
            operator_page: operator_page.into(),
            demo: demo.clone(),
            modules: modules.map(Into::into),
        };
        write_atomically(&file.path, &serde_json::to_string_pretty(&file)?)?;
        Ok(file)
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }

    /// Removes the file of an earlier process that was killed before it could remove the file.
    pub(crate) fn remove_stale(state: &Path) {
        let _ = fs::remove_file(state.join(NAME));
    }
}
