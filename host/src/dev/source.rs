//! Where the mail servers look things up, as each of the two spells it.

use std::path::Path;

use super::folder::open_lookup_to_mail;
use super::stack::Lookup;

/// The role that sees what mail servers read and nothing else. The stack takes it on whatever it logs in as, so that a developer's
/// mail servers have no wider view than real ones.
const ROLE: &str = "options=-crole%3Dlatchmail_mailserver";

/// A look-up's spelling in the two configurations.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Dovecot's `driver`.
    pub(super) driver: &'static str,
    /// Dovecot's `connect`.
    pub(super) dovecot: String,
    /// The same for the last log-ins that it writes.
    pub(super) last_logins: String,
    /// Postfix's map type.
    pub(super) maps: &'static str,
    /// Postfix's line that says where.
    pub(super) postfix: String,
}

impl Source {
    /// Spells `lookup`; an SQLite file is made where it is missing, and opened to the mail servers.
    pub(super) fn of(lookup: &Lookup) -> anyhow::Result<Self> {
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
            last_logins: last_logins.display().to_string(),
            maps: "sqlite",
            postfix: format!("dbpath = {file}"),
        }
    }

    fn postgres(url: &str) -> Self {
        // libpq takes both names of the scheme, Postfix tells a URL by the longer one.
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let mark = if rest.contains('?') { '&' } else { '?' };
        let url = format!("postgresql://{rest}{mark}{ROLE}");
        Self {
            driver: "pgsql",
            dovecot: url.clone(),
            last_logins: url.clone(),
            maps: "proxy:pgsql",
            postfix: format!("hosts = {url}"),
        }
    }
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
}
