//! Checks whether the machine can run the local servers. The local servers need installed packages
//! and root privileges.

use std::path::Path;

use anyhow::bail;

use crate::lookup::Lookup;
use crate::{dovecot, postfix};

/// Required files, and the Debian packages that contain these files.
const ALWAYS: [(&str, &str); 7] = [
    (dovecot::PROGRAM, "dovecot-core"),
    ("/usr/lib/dovecot/imap", "dovecot-imapd"),
    ("/usr/lib/dovecot/lmtp", "dovecot-lmtpd"),
    ("/usr/lib/dovecot/managesieve", "dovecot-managesieved"),
    (
        "/usr/lib/dovecot/modules/lib90_sieve_plugin.so",
        "dovecot-sieve",
    ),
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

/// Checks whether the local servers can be started on this machine.
///
/// # Errors
/// Returns an error if a requirement is missing. The error contains the missing requirement and the
/// way to install it.
pub fn check(lookup: &Lookup) -> anyhow::Result<()> {
    let database_files = match lookup {
        Lookup::Sqlite(_) => SQLITE,
        Lookup::Postgres(_) => POSTGRES,
    };
    let mut missing: Vec<&str> = ALWAYS
        .into_iter()
        .chain(database_files)
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
            "the mail servers must be started by root, because Postfix and Dovecot run their processes as other users (postfix, \
             dovecot, dovenull); the service itself does not need root"
        );
    }
    Ok(())
}
