//! Checks whether the machine meets the requirements of a stack. Each missing requirement is reported in one sentence.

use std::path::Path;

use anyhow::bail;

use super::{Lookup, dovecot, postfix};

const ALWAYS: [(&str, &str); 5] = [
    (dovecot::PROGRAM, "dovecot-core"),
    ("/usr/lib/dovecot/imap", "dovecot-imapd"),
    ("/usr/lib/dovecot/lmtp", "dovecot-lmtpd"),
    (postfix::PROGRAM, "postfix"),
    (postfix::SINK, "postfix"),
];
const SQLITE: [(&str, &str); 2] = [
    (
        "/usr/lib/dovecot/modules/libdriver_sqlite.so",
        "dovecot-sqlite",
    ),
    ("/usr/lib/postfix/postfix-sqlite.so", "postfix-sqlite"),
];
const POSTGRES: [(&str, &str); 2] = [
    (
        "/usr/lib/dovecot/modules/libdriver_pgsql.so",
        "dovecot-pgsql",
    ),
    ("/usr/lib/postfix/postfix-pgsql.so", "postfix-pgsql"),
];

/// Checks whether a stack can be started on this machine.
///
/// # Errors
/// One sentence that says what is missing and how to install it.
pub(crate) fn check(lookup: &Lookup) -> anyhow::Result<()> {
    let maps = match lookup {
        Lookup::Sqlite(_) => SQLITE,
        Lookup::Postgres(_) => POSTGRES,
    };
    let mut missing: Vec<&str> = ALWAYS
        .into_iter()
        .chain(maps)
        .filter(|(file, _)| !Path::new(file).exists())
        .map(|(_, package)| package)
        .collect();
    missing.dedup();
    if !missing.is_empty() {
        bail!(
            "the mail servers are not installed; on Debian or Ubuntu: apt-get install {}",
            missing.join(" ")
        );
    }
    if !rustix::process::geteuid().is_root() {
        bail!(
            "the mail servers must be started by root: Postfix's master and Dovecot's start each of their processes as a user \
             of its own (postfix, dovecot, dovenull), which only root can do; the service itself needs no root"
        );
    }
    Ok(())
}
