//! Dovecot's configuration, from the templates of `host/mailserver/dovecot`.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Source;
use super::demo::write_private;
use super::folder::{LOOKUP_GROUP, Layout, MAIL_USER};
use super::ports::Ports;
use super::process::Grace;
use super::template::fill;

const MAIN: &str = include_str!("../../mailserver/dovecot/dovecot.conf");
const LOOKUP: &str = include_str!("../../mailserver/dovecot/lookup.conf.ext");
const LAST_LOGINS: &str = include_str!("../../mailserver/dovecot/last-logins.conf.ext");
const LOCAL: &str = include_str!("../../mailserver/dovecot/development.conf");

/// The program, where Debian and Ubuntu put it.
pub(super) const PROGRAM: &str = "/usr/sbin/dovecot";

/// A mailbox that is being written is finished.
pub(super) const GRACE: Grace = Grace(250);

/// Writes the configuration and answers the command that starts Dovecot with it.
pub(super) fn configure(
    layout: &Layout,
    source: &Source,
    ports: &Ports,
    instance: &str,
) -> anyhow::Result<Vec<String>> {
    let (imap, lmtp) = (ports.imap.to_string(), ports.lmtp.to_string());
    let doveadm = ports.doveadm.to_string();
    make_key(&layout.doveadm_key)?;
    let shown = |path: &Path| path.display().to_string();
    let (config, mail) = (shown(&layout.dovecot), shown(&layout.mail));
    let (run, log) = (shown(&layout.run), shown(&layout.log));
    let key = shown(&layout.doveadm_key);
    let values = [
        ("config", config.as_str()),
        ("connect", source.dovecot.as_str()),
        ("doveadm_key", &key),
        ("doveadm_port", &doveadm),
        ("driver", source.driver),
        ("imap_port", &imap),
        ("instance", instance),
        ("last_logins", &source.last_logins),
        ("listen", "127.0.0.1"),
        ("lmtp_port", &lmtp),
        ("log", &log),
        ("lookup_group", LOOKUP_GROUP),
        ("mail", &mail),
        ("mail_user", MAIL_USER),
        ("run", &run),
    ];
    for (name, template) in [
        ("dovecot.conf", MAIN),
        ("lookup.conf.ext", LOOKUP),
        ("last-logins.conf.ext", LAST_LOGINS),
        ("local.conf", LOCAL),
    ] {
        layout.write(&layout.dovecot.join(name), &fill(template, &values)?)?;
    }
    let file = shown(&layout.dovecot.join("dovecot.conf"));
    Ok([PROGRAM, "-F", "-c", &file].map(Into::into).to_vec())
}

/// A new key, which the service and Dovecot read, both of them as root.
fn make_key(file: &Path) -> anyhow::Result<()> {
    let mut random = [0_u8; 32];
    getrandom::fill(&mut random).map_err(|error| anyhow!("no randomness: {error}"))?;
    write_private(file, &STANDARD.encode(random))
        .with_context(|| format!("cannot write {}", file.display()))
}
