//! The look-up source of the mail servers, in the configuration syntax of Dovecot and of Postfix.

use std::path::Path;

use anyhow::{Context as _, bail};
use percent_encoding::percent_decode_str;
use url::Url;

use super::folder::open_lookup_to_mail;
use super::stack::Lookup;

/// The role that can read only what mail servers need. The stack sets this role regardless of its login, so that a developer's mail servers have the same
/// rights as in production.
const ROLE: &str = "options=-crole%3Dlatchmail_mailserver";

/// The connection parameters that Dovecot 2.4's configuration supports, with libpq's names.
const PARAMETERS: [&str; 6] = ["host", "port", "user", "password", "dbname", "sslmode"];

/// The value of each of [`PARAMETERS`]. An empty value means libpq's default.
pub(crate) type Parameters = [(&'static str, String); PARAMETERS.len()];

/// A look-up source in the syntax of both servers.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Dovecot's `driver`.
    pub(crate) driver: &'static str,
    /// Dovecot 2.3's `connect`, and the file of an SQLite database for 2.4.
    pub(crate) dovecot: String,
    /// The URL of a `PostgreSQL` database as given; see [`parameters`].
    pub(crate) url: Option<String>,
    /// The same for the last log-ins, which Dovecot writes.
    pub(crate) last_logins: String,
    /// Postfix's map type.
    pub(crate) maps: &'static str,
    /// Postfix's configuration line with the location.
    pub(crate) postfix: String,
}

impl Source {
    /// Converts `lookup`. Creates an SQLite file if it does not exist, and lets the mail servers read it.
    pub(crate) fn of(lookup: &Lookup) -> anyhow::Result<Self> {
        match lookup {
            Lookup::Sqlite(file) => {
                let last_logins = open_lookup_to_mail(&file.with_file_name("last-logins.db"))?;
                Ok(Self::sqlite(&open_lookup_to_mail(file)?, &last_logins))
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
        // libpq accepts both scheme names. Postfix recognizes only the longer one as a URL.
        let rest = given.split_once("://").map_or(given, |(_, rest)| rest);
        let mark = if rest.contains('?') { '&' } else { '?' };
        let url = format!("postgresql://{rest}{mark}{ROLE}");
        Self {
            driver: "pgsql",
            dovecot: url.clone(),
            url: Some(given.to_owned()),
            last_logins: url.clone(),
            maps: "proxy:pgsql",
            postfix: format!("hosts = {url}"),
        }
    }
}

/// Splits a database URL into the parameters of Dovecot 2.4, which accepts no URL, by libpq's rules (`PostgreSQL` documentation, section "Connection URIs").
pub(crate) fn parameters(url: &str) -> anyhow::Result<Parameters> {
    let url = Url::parse(url).context("the database's URL is not valid")?;
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
                "the database's URL has the parameter {name:?}; in Dovecot's configuration there are {} only",
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
    fn a_postgres_url_takes_the_role_of_mail_servers() {
        let source = Source::postgres("postgres://a@127.0.0.1:5/b");
        assert_eq!(
            source.dovecot,
            "postgresql://a@127.0.0.1:5/b?options=-crole%3Dlatchmail_mailserver"
        );
        let source = Source::postgres("postgresql:///b?host=/tmp");
        assert!(
            source
                .postfix
                .ends_with("?host=/tmp&options=-crole%3Dlatchmail_mailserver")
        );
    }

    #[test]
    fn a_postgres_url_is_taken_apart() {
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
