//! The database that the mail servers read. This module creates the database settings for Dovecot
//! and Postfix.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use percent_encoding::percent_decode_str;
use url::Url;

use crate::layout::share_lookup_file;

/// The URL parameter that sets the database role of mail servers. The role can read only the data
/// that mail servers need. Mail servers in production use the same role.
const ROLE: &str = "options=-crole%3Dlatchmail_mailserver";

/// The connection parameters that Dovecot 2.4 supports, with their names in libpq.
const PARAMETERS: [&str; 6] = ["host", "port", "user", "password", "dbname", "sslmode"];

/// The value of each parameter in [`PARAMETERS`]. An empty value means libpq's default.
type Parameters = [(&'static str, String); PARAMETERS.len()];

/// The database that the mail servers read. `docs/mailserver.md` describes its views
/// `mailserver_*`.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// The path of an SQLite file. The file is created if it does not exist. The mail servers get
    /// write access to the folder of the file.
    Sqlite(PathBuf),
    /// The `postgres://` URL of a database with the views. The login must be a member of the role
    /// `latchmail_mailserver`.
    Postgres(String),
}

/// The database settings, in the syntax of Dovecot and of Postfix.
#[derive(Clone, Debug)]
pub struct LookupSettings {
    /// The value of Dovecot's setting `driver`.
    pub driver: &'static str,
    /// Dovecot 2.3: the value of the setting `connect`. Dovecot 2.4 with SQLite: the path of the
    /// file.
    pub dovecot: String,
    /// Dovecot 2.4 with `PostgreSQL`: the URL of the database without the parameter for the role.
    /// [`parameters`] splits this URL.
    pub url: Option<String>,
    /// Like `dovecot`, but for the database in which Dovecot stores the last log-ins.
    pub last_logins: String,
    /// The type of Postfix's lookup tables.
    pub maps: &'static str,
    /// The line of Postfix's configuration with the location of the database.
    pub postfix: String,
}

impl LookupSettings {
    /// Returns the settings. Does not access the database.
    #[must_use]
    pub fn of(lookup: &Lookup) -> Self {
        match lookup {
            Lookup::Sqlite(file) => Self::sqlite(file, &file.with_file_name("last-logins.db")),
            Lookup::Postgres(url) => Self::postgres(url),
        }
    }

    /// Creates the settings. Creates the SQLite file if it does not exist, and lets the mail
    /// servers read the file.
    pub(crate) fn new(lookup: &Lookup) -> anyhow::Result<Self> {
        match lookup {
            Lookup::Sqlite(file) => {
                let last_logins = share_lookup_file(&file.with_file_name("last-logins.db"))?;
                Ok(Self::sqlite(&share_lookup_file(file)?, &last_logins))
            }
            Lookup::Postgres(url) => Ok(Self::postgres(url)),
        }
    }

    fn sqlite(file: &Path, last_logins: &Path) -> Self {
        let file = file.display();
        Self {
            driver: "sqlite",
            dovecot: file.to_string(),
            url: None,
            last_logins: last_logins.display().to_string(),
            maps: "sqlite",
            postfix: format!("dbpath = {file}"),
        }
    }

    fn postgres(given: &str) -> Self {
        // libpq accepts the schemes `postgres` and `postgresql`. Postfix recognizes only
        // `postgresql`.
        let rest = given.split_once("://").map_or(given, |(_, rest)| rest);
        let separator = if rest.contains('?') { '&' } else { '?' };
        let url = format!("postgresql://{rest}{separator}{ROLE}");
        Self {
            driver: "pgsql",
            dovecot: url.clone(),
            url: Some(given.to_owned()),
            last_logins: url.clone(),
            maps: "proxy:pgsql",
            // After a connection was closed, Postfix up to 3.8 does not use the server entry for a
            // minute. The second entry is the same server, which Postfix tries immediately.
            postfix: format!("hosts = {url} {url}"),
        }
    }
}

/// Splits a database URL into parameters by libpq's rules (`PostgreSQL` documentation, section
/// "Connection URIs"). Dovecot 2.4 accepts these parameters, but no URL.
///
/// # Errors
/// Returns an error if the URL is invalid, or if it has a parameter that Dovecot does not support.
pub fn parameters(url: &str) -> anyhow::Result<Parameters> {
    let url = Url::parse(url).context("the database URL is not valid")?;
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let mut parameters = PARAMETERS.map(|name| {
        let value = match name {
            "host" => url
                .host_str()
                .map(|host| decoded(host.trim_matches(['[', ']']))),
            "port" => url.port().map(|port| port.to_string()),
            "user" => Some(decoded(url.username())),
            "password" => url.password().map(decoded),
            "dbname" => Some(decoded(url.path().trim_start_matches('/'))),
            _ => None,
        };
        (name, value.unwrap_or_default())
    });
    for (name, value) in url.query_pairs() {
        match parameters.iter_mut().find(|(known, _)| *known == name) {
            Some(parameter) => parameter.1 = value.into_owned(),
            None => bail!(
                "the database URL has the parameter {name:?}, which Dovecot's configuration does not support; remove it or use one of {}",
                PARAMETERS.join(", ")
            ),
        }
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_postgres_url_sets_the_role_of_mail_servers() {
        let settings = LookupSettings::postgres("postgres://a@127.0.0.1:5/b");
        assert_eq!(
            settings.dovecot,
            "postgresql://a@127.0.0.1:5/b?options=-crole%3Dlatchmail_mailserver"
        );
        let settings = LookupSettings::postgres("postgresql:///b?host=/tmp");
        assert!(
            settings
                .postfix
                .ends_with("?host=/tmp&options=-crole%3Dlatchmail_mailserver")
        );
    }

    #[test]
    fn a_postgres_url_is_split_into_parameters() {
        let parts = |url| parameters(url).unwrap().map(|(_, value)| value);
        assert_eq!(
            parts("postgres://a%40b:p%2Fq@[::1]:5/b?sslmode=disable"),
            ["::1", "5", "a@b", "p/q", "b", "disable"]
        );
        assert_eq!(
            parts("postgresql:///b?host=/tmp"),
            ["/tmp", "", "", "", "b", ""]
        );
        let refused = parameters("postgres://a/b?options=-cx").unwrap_err();
        assert!(refused.to_string().contains("\"options\""), "{refused}");
        assert!(parameters("no URL").is_err());
    }
}
