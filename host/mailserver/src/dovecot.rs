//! Generates Dovecot's configuration from the templates of `host/mailserver/dovecot` for the installed version.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::folder::{LOOKUP_GROUP, Layout, MAIL_USER};
use super::ports::Ports;
use super::process::Grace;
use super::template::fill;
use super::{Source, source};
use crate::write_private;

/// A configuration file: its name and its template.
type Template = (&'static str, &'static str);

/// The files that do not depend on Dovecot's version.
const ALWAYS: [Template; 2] = [
    ("common.conf", include_str!("../dovecot/common.conf")),
    ("local.conf", include_str!("../dovecot/development.conf")),
];
const V2_3: [Template; 3] = [
    ("dovecot.conf", include_str!("../dovecot/2.3/dovecot.conf")),
    (
        "lookup.conf.ext",
        include_str!("../dovecot/2.3/lookup.conf.ext"),
    ),
    (
        "last-logins.conf.ext",
        include_str!("../dovecot/2.3/last-logins.conf.ext"),
    ),
];
const V2_4: Template = ("dovecot.conf", include_str!("../dovecot/2.4/dovecot.conf"));
const V2_4_SQLITE: Template = ("database.conf", include_str!("../dovecot/2.4/sqlite.conf"));
const V2_4_POSTGRES: Template = ("database.conf", include_str!("../dovecot/2.4/pgsql.conf"));

/// The path of the program on Debian and Ubuntu.
pub(crate) const PROGRAM: &str = "/usr/sbin/dovecot";

/// The time that Dovecot gets to complete writes to mailboxes.
pub(crate) const GRACE: Grace = Grace(250);

/// Writes the configuration and returns the command that starts Dovecot with it.
pub(crate) fn configure(
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
    let mut values = vec![
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
    let mut templates = ALWAYS.to_vec();
    let mut parameters = Vec::new();
    match (Version::installed()?, &source.url) {
        (Version::V2_3, _) => templates.extend(V2_3),
        (Version::V2_4, None) => templates.extend([V2_4, V2_4_SQLITE]),
        (Version::V2_4, Some(url)) => {
            templates.extend([V2_4, V2_4_POSTGRES]);
            let apart = source::parameters(url)?.into_iter();
            parameters.extend(apart.map(|(name, value)| (name, quoted(&value))));
        }
    }
    values.extend(
        parameters
            .iter()
            .map(|(name, value)| (*name, value.as_str())),
    );
    for (name, template) in templates {
        layout.write(&layout.dovecot.join(name), &fill(template, &values)?)?;
    }
    let file = shown(&layout.dovecot.join("dovecot.conf"));
    Ok([PROGRAM, "-F", "-c", &file].map(Into::into).to_vec())
}

/// The supported versions. The configuration files of each version are not valid in the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Dovecot 2.3.
    V2_3,
    /// Dovecot 2.4.
    V2_4,
}

impl Version {
    /// Returns the version of the installed Dovecot.
    ///
    /// # Errors
    /// Returns an error if Dovecot is not installed or its version is not supported.
    pub fn installed() -> anyhow::Result<Self> {
        let output = Command::new(PROGRAM)
            .arg("--version")
            .output()
            .with_context(|| format!("cannot run {PROGRAM}"))?;
        Self::read(&String::from_utf8_lossy(&output.stdout))
    }

    /// Parses the output of `dovecot --version`, such as `2.4.1-4 (7d8c0e5759)`.
    fn read(printed: &str) -> anyhow::Result<Self> {
        let number = printed.split_whitespace().next().unwrap_or_default();
        let mut parts = number.split(['.', '-']).map(str::parse::<u32>);
        match (parts.next(), parts.next()) {
            (Some(Ok(2)), Some(Ok(3))) => Ok(Self::V2_3),
            (Some(Ok(2)), Some(Ok(4))) => Ok(Self::V2_4),
            _ => {
                bail!("Dovecot {number} is not supported: Latchmail works with Dovecot 2.3 and 2.4")
            }
        }
    }
}

/// Returns a value as a quoted string of Dovecot 2.4.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', r"\\").replace('"', r#"\""#))
}

/// Writes a new key. The service and Dovecot read it as root.
fn make_key(file: &Path) -> anyhow::Result<()> {
    let mut random = [0_u8; 32];
    getrandom::fill(&mut random).map_err(|error| anyhow!("no randomness: {error}"))?;
    write_private(file, &STANDARD.encode(random))
        .with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_told_by_its_first_two_numbers() {
        assert_eq!(
            Version::read("2.3.19.1 (9b53102964)\n").unwrap(),
            Version::V2_3
        );
        assert_eq!(
            Version::read("2.4.1-4 (7d8c0e5759)\n").unwrap(),
            Version::V2_4
        );
        assert_eq!(Version::read("2.4.5\n").unwrap(), Version::V2_4);
        for unknown in ["", "2.2.36", "3.0.1", "2.40.1", "two.three"] {
            let refused = Version::read(unknown).unwrap_err().to_string();
            assert!(refused.contains("works with Dovecot 2.3 and 2.4"));
        }
    }
}
