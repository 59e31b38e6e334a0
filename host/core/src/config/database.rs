//! `[database]`: the directory's database, and the files that mail servers read.

use std::path::PathBuf;

use serde::Deserialize;

/// `[database]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Database {
    /// `sqlite:FILE` or `postgres://…`.
    pub url: String,
    /// Whether an unencrypted connection to another machine is allowed.
    pub insecure: bool,
    /// With SQLite: the file that mail servers read. Empty: `mailserver/mailserver.db` beside the database.
    pub mailserver: PathBuf,
    /// With SQLite: the file that a milter reads if `dkim.milter` is set. Empty: `milter/dkim-keys.db` beside the database.
    pub milter: PathBuf,
    /// The maximum number of connections.
    pub max_connections: u32,
    /// The value of `dkim.milter`: whether a milter reads the database.
    #[serde(skip)]
    pub with_milter: bool,
}

impl Default for Database {
    fn default() -> Self {
        Self {
            url: "sqlite:latchmail.db".into(),
            insecure: false,
            mailserver: PathBuf::new(),
            milter: PathBuf::new(),
            max_connections: 8,
            with_milter: false,
        }
    }
}
