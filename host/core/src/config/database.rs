//! `[database]`: the directory's database, and the files that mail servers read.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

/// `[database]`
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Database {
    /// `sqlite:FILE` or `postgres://…`. May contain a password, so `Debug` does not show it.
    pub url: String,
    /// Whether an unencrypted connection to another machine is allowed.
    pub insecure: bool,
    /// With SQLite: the file that mail servers read. Empty: `mailserver/mailserver.db` beside the database.
    pub mailserver: PathBuf,
    /// With SQLite: the file that a milter reads if `dkim.milter` is set. Empty: `milter/dkim-keys.db` beside the database.
    pub milter: PathBuf,
    /// The maximum number of connections.
    pub max_connections: u32,
    /// Whether a milter reads the database. It is not a key of this section: [`Config::database`](super::Config::database) sets it to `dkim.milter`.
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

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("mailserver", &self.mailserver)
            .field("milter", &self.milter)
            .finish_non_exhaustive()
    }
}
