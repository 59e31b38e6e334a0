//! Writes Dovecot's configuration for the installed version from the templates in
//! `host/mailserver/dovecot`.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::daemon::GracePeriod;
use crate::layout::{LOOKUP_GROUP, Layout, MAIL_USER};
use crate::lookup::{self, LookupSettings};
use crate::ports::Ports;
use crate::private_file::write_private;
use crate::template::fill;

/// The name of a configuration file and its template.
type Template = (&'static str, &'static str);

/// The files that do not depend on Dovecot's version.
const COMMON: [Template; 2] = [
    ("common.conf", include_str!("../dovecot/common.conf")),
    ("local.conf", include_str!("../dovecot/development.conf")),
];
const V2_3: [Template; 4] = [
    ("dovecot.conf", include_str!("../dovecot/2.3/dovecot.conf")),
    ("notices.conf", DovecotVersion::V2_3.notices()),
    (
        "lookup.conf.ext",
        include_str!("../dovecot/2.3/lookup.conf.ext"),
    ),
    (
        "last-logins.conf.ext",
        include_str!("../dovecot/2.3/last-logins.conf.ext"),
    ),
];
const V2_4: [Template; 2] = [
    ("dovecot.conf", include_str!("../dovecot/2.4/dovecot.conf")),
    ("notices.conf", DovecotVersion::V2_4.notices()),
];
const V2_4_SQLITE: Template = ("database.conf", include_str!("../dovecot/2.4/sqlite.conf"));
const V2_4_POSTGRES: Template = ("database.conf", include_str!("../dovecot/2.4/pgsql.conf"));

/// The path of the program on Debian and Ubuntu.
pub(crate) const PROGRAM: &str = "/usr/sbin/dovecot";

/// The time between the request to end Dovecot and the SIGKILL: five seconds. During this time,
/// Dovecot completes its writes to mailboxes.
pub(crate) const GRACE: GracePeriod = GracePeriod(250);

/// Writes the configuration and returns the command that starts Dovecot.
pub(crate) fn configure(
    layout: &Layout,
    settings: &LookupSettings,
    ports: &Ports,
    instance: &str,
) -> anyhow::Result<Vec<String>> {
    let (imap, lmtp) = (ports.imap.to_string(), ports.lmtp.to_string());
    let doveadm = ports.doveadm.to_string();
    let (sieve, scripts) = (ports.sieve.to_string(), ports.scripts.to_string());
    write_new_key(&layout.doveadm_key)?;
    write_notices_url(&layout.notices_url, ports.notices)?;
    let text = |path: &Path| path.display().to_string();
    let (config, mail) = (text(&layout.dovecot), text(&layout.mail));
    let (run, log) = (text(&layout.run), text(&layout.log));
    let key = text(&layout.doveadm_key);
    let notices_url = text(&layout.notices_url);
    let mut values = vec![
        ("config", config.as_str()),
        ("connect", settings.dovecot.as_str()),
        ("doveadm_key", &key),
        ("doveadm_port", &doveadm),
        ("driver", settings.driver),
        ("imap_port", &imap),
        ("instance", instance),
        ("last_logins", &settings.last_logins),
        ("listen", "127.0.0.1"),
        ("lmtp_port", &lmtp),
        ("log", &log),
        ("lookup_group", LOOKUP_GROUP),
        ("mail", &mail),
        ("mail_user", MAIL_USER),
        ("notices_url", &notices_url),
        ("run", &run),
        ("scripts_port", &scripts),
        ("sieve_port", &sieve),
    ];
    let mut templates = COMMON.to_vec();
    let mut parameters = Vec::new();
    match (DovecotVersion::installed()?, &settings.url) {
        (DovecotVersion::V2_3, _) => templates.extend(V2_3),
        (DovecotVersion::V2_4, None) => {
            templates.extend(V2_4);
            templates.push(V2_4_SQLITE);
        }
        (DovecotVersion::V2_4, Some(url)) => {
            templates.extend(V2_4);
            templates.push(V2_4_POSTGRES);
            let split = lookup::parameters(url)?.into_iter();
            parameters.extend(split.map(|(name, value)| (name, quoted(&value))));
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
    let file = text(&layout.dovecot.join("dovecot.conf"));
    Ok([PROGRAM, "-F", "-c", &file].map(Into::into).to_vec())
}

/// A supported version of Dovecot. Each version needs its own configuration syntax.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DovecotVersion {
    /// Dovecot 2.3.
    #[default]
    V2_3,
    /// Dovecot 2.4.
    V2_4,
}

impl DovecotVersion {
    /// Returns the version of the installed Dovecot.
    ///
    /// # Errors
    /// Returns an error if Dovecot is not installed or its version is not supported.
    pub fn installed() -> anyhow::Result<Self> {
        let output = Command::new(PROGRAM)
            .arg("--version")
            .output()
            .with_context(|| format!("cannot run {PROGRAM}"))?;
        Self::parse(&String::from_utf8_lossy(&output.stdout))
    }

    /// Returns the template of the settings for notices about changes. It has the placeholder
    /// `notices_url`.
    #[must_use]
    pub const fn notices(self) -> &'static str {
        match self {
            Self::V2_3 => include_str!("../dovecot/2.3/notices.conf"),
            Self::V2_4 => include_str!("../dovecot/2.4/notices.conf"),
        }
    }

    /// Parses the output of `dovecot --version`, such as `2.4.1-4 (7d8c0e5759)`.
    fn parse(output: &str) -> anyhow::Result<Self> {
        let number = output.split_whitespace().next().unwrap_or_default();
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

/// Returns a value as a quoted string in the syntax of Dovecot 2.4.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', r"\\").replace('"', r#"\""#))
}

/// Writes a new API key for doveadm to a file that only root can read. The service and Dovecot read
/// the file as root.
fn write_new_key(file: &Path) -> anyhow::Result<()> {
    write_private(file, &format!("{}\n", STANDARD.encode(random()?)))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Writes the URL of notices with a new key to a file that only root can read. Dovecot reads the
/// complete file, and its process `stats` aborts if a line break follows the URL.
fn write_notices_url(file: &Path, address: SocketAddr) -> anyhow::Result<()> {
    let key = URL_SAFE_NO_PAD.encode(random()?);
    write_private(file, &format!("http://{address}/notices/{key}"))
        .with_context(|| format!("cannot write {}", file.display()))
}

fn random() -> anyhow::Result<[u8; 32]> {
    let mut random = [0_u8; 32];
    getrandom::fill(&mut random)
        .map_err(|error| anyhow!("the system's random number generator failed: {error}"))?;
    Ok(random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_numbers_determine_the_version() {
        assert_eq!(
            DovecotVersion::parse("2.3.19.1 (9b53102964)\n").unwrap(),
            DovecotVersion::V2_3
        );
        assert_eq!(
            DovecotVersion::parse("2.4.1-4 (7d8c0e5759)\n").unwrap(),
            DovecotVersion::V2_4
        );
        assert_eq!(
            DovecotVersion::parse("2.4.5\n").unwrap(),
            DovecotVersion::V2_4
        );
        for unknown in ["", "2.2.36", "3.0.1", "2.40.1", "two.three"] {
            let error = DovecotVersion::parse(unknown).unwrap_err().to_string();
            assert!(error.contains("works with Dovecot 2.3 and 2.4"));
        }
    }
}
