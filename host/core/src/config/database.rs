//! `[database]`: the directory's database, and the SQLite files that mail servers read.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

/// The section `[database]` of the configuration.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Database {
    /// The URL of the database: `sqlite:FILE` or `postgres://…`. The URL may contain a password, so
    /// `Debug` does not show it.
    pub url: String,
    /// Whether an unencrypted connection to another machine is allowed.
    pub insecure: bool,
    /// The path of the file that mail servers read. Used only with SQLite. If empty, the file is
    /// `mailserver/mailserver.db` in the folder of the database.
    pub mailserver: PathBuf,
    /// The path of the file that a milter reads. Used only with SQLite and `dkim.milter`. If empty,
    /// the file is `milter/dkim-keys.db` in the folder of the database.
    pub milter: PathBuf,
    /// The maximum number of connections.
    pub max_connections: u32,
    /// Whether a milter reads the database. This field is not a configuration key.
    /// [`Config::database`](super::Config::database) sets this field to `dkim.milter`.
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
