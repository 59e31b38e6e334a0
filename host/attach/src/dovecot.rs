//! Inspects an existing Dovecot, and writes the configuration files that accept Latchmail's app
//! passwords.
//!
//! The settings are read with `doveconf`, so this module does not parse configuration files, with
//! one exception: the list of passdb blocks in the plan.

use std::fs;
use std::net::TcpListener;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use latchmail_core::secrets;
use latchmail_mailserver::{DovecotVersion, Lookup, LookupSettings, fill, libpq_parameters};

use super::journal::FileChange;
use super::programs::{output, run};

const PASSDB_2_3: &str = include_str!("templates/passdb-2.3.conf");
const PASSDB_2_4: &str = include_str!("templates/passdb-2.4.conf");
const LOOKUP_2_3: &str = include_str!("templates/lookup-2.3.conf");
const SERVICES: &str = include_str!("templates/services.conf");
const DOVEADM: &str = include_str!("templates/doveadm.conf");
const INCLUDE: &str = include_str!("templates/include.conf");

/// The files in `conf.d`. Dovecot reads the files in the order of their names. Latchmail's passdb
/// must be the first passdb, because an earlier passdb can delay each log-in by seconds if it
/// rejects the password. The file with the settings of services must be the last file, because a
/// later file can override the settings.
const PASSDB_FILE: &str = "05-latchmail.conf";
const SERVICES_FILE: &str = "99-latchmail.conf";
/// The file with the password query. With Dovecot 2.4, it is the passdb.
const LOOKUP_FILE: &str = "latchmail-passwords.conf.ext";

/// The file with the key of the doveadm API.
const KEY_FILE: &str = "latchmail.key";
/// The ports that are tried for the doveadm API.
const DOVEADM_PORTS: RangeInclusive<u16> = 8081..=8099;

/// The folders in which distributions install Dovecot's modules.
const MODULE_FOLDERS: [&str; 2] = ["/usr/lib/dovecot/modules", "/usr/lib64/dovecot/modules"];

/// An existing Dovecot.
#[derive(Default)]
pub(super) struct Dovecot {
    config: String,
    pub(super) version: DovecotVersion,
    /// The output of `dovecot --version`.
    pub(super) version_text: String,
    pub(super) base_dir: PathBuf,
    /// The drivers of the passdb blocks, in the order of the configuration.
    pub(super) passdbs: Vec<String>,
    pub(super) mail_format: String,
    /// The separator between a user name and the name of a master user. Empty if there are no
    /// master users.
    pub(super) master_separator: String,
    /// Whether `auth_username_format` removes the domain from log-in names.
    pub(super) removes_domains: bool,
    /// Whether `auth_username_format` removes the domain from the recipients of LMTP. In Debian 13,
    /// this is the default.
    pub(super) lmtp_removes_domains: bool,
    /// The domain that Dovecot appends to log-in names without a domain. Empty if there is no such
    /// domain.
    pub(super) default_realm: String,
    /// The files of the passdbs and userdbs with the driver `passwd-file`.
    passwd_files: Vec<PathBuf>,
    /// The maximum number of connections of a user from one address.
    pub(super) connections: usize,
    /// The maximum number of processes for IMAP sessions.
    pub(super) imap_processes: usize,
    /// Facts that do not prevent the attachment, but that the operator must know.
    pub(super) warnings: Vec<String>,
    auth_worker_groups: String,
    /// The port for the doveadm API, or `None` if the API cannot be used.
    doveadm_port: Option<u16>,
}

impl Dovecot {
    /// Returns the Dovecot with this configuration file. Reads only the location of its sockets.
    ///
    /// # Errors
    /// Returns an error if Dovecot is missing or too old, or if its configuration is invalid.
    pub(super) fn at(config: &Path) -> anyhow::Result<Self> {
        let config = config
            .to_str()
            .context("the path of Dovecot's configuration is not valid UTF-8")?
            .to_owned();
        let mut dovecot = Self {
            version: DovecotVersion::installed()?,
            config,
            ..Self::default()
        };
        dovecot.base_dir = dovecot.setting("base_dir")?.into();
        Ok(dovecot)
    }

    /// Reads the configuration.
    ///
    /// # Errors
    /// Returns an error if Dovecot is missing or too old, or if its configuration does not allow
    /// the attachment.
    pub(super) fn inspect(config: &Path) -> anyhow::Result<Self> {
        let mut dovecot = Self::at(config)?;
        let text = run("dovecot", &["--version"])?;
        text.trim().clone_into(&mut dovecot.version_text);
        let settings = dovecot.dump()?;
        dovecot.passdbs = passdbs(&settings);
        dovecot.passwd_files = passwd_files(&settings);
        dovecot.mail_format = match dovecot.version {
            DovecotVersion::V2_3 => dovecot.setting("mail_location")?,
            DovecotVersion::V2_4 => dovecot.setting("mail_driver")?,
        };
        dovecot.master_separator = dovecot.setting("auth_master_user_separator")?;
        dovecot.auth_worker_groups = dovecot.setting("service/auth-worker/extra_groups")?;
        let format = "auth_username_format";
        dovecot.removes_domains = is_without_domain(&dovecot.setting(format)?);
        let lmtp = ["-f", "protocol=lmtp", "-c", &dovecot.config, "-h", format];
        dovecot.lmtp_removes_domains = is_without_domain(run("doveconf", &lmtp)?.trim());
        dovecot.default_realm = dovecot.setting(match dovecot.version {
            DovecotVersion::V2_3 => "auth_default_realm",
            DovecotVersion::V2_4 => "auth_default_domain",
        })?;
        let connections = dovecot.setting("mail_max_userip_connections")?;
        dovecot.connections = connections.parse().unwrap_or(10);
        // With the option -h, doveconf 2.4.1 reports an error for this setting.
        let processes = run(
            "doveconf",
            &["-c", &dovecot.config, "service/imap/process_limit"],
        )?;
        let processes = processes.split_once("process_limit = ");
        let number = processes.and_then(|(_, rest)| rest.split_whitespace().next());
        dovecot.imap_processes = number.and_then(|n| n.parse().ok()).unwrap_or(1024);
        dovecot.doveadm_port = dovecot.free_doveadm_port()?;
        dovecot.check()?;
        Ok(dovecot)
    }

    /// Checks that the attachment is possible, and adds warnings.
    fn check(&mut self) -> anyhow::Result<()> {
        self.check_include()?;
        let mechanisms = self.setting("auth_mechanisms")?.to_ascii_lowercase();
        if !mechanisms.split_whitespace().any(|name| name == "plain") {
            bail!(
                "Dovecot's `auth_mechanisms` ({mechanisms}) does not contain `plain`, which Latchmail uses to log in"
            );
        }
        if self.doveadm_port.is_none() {
            self.warnings.push(
                "Dovecot's doveadm API is already in use, so Latchmail does not end open IMAP sessions of revoked app passwords; they end when their \
                 clients disconnect"
                    .into(),
            );
        }
        let cache = self.setting("auth_cache_size")?;
        if !["", "0"].contains(&cache.as_str()) {
            self.warnings.push(format!(
                "`auth_cache_size` is {cache}: a revoked app password continues to work until its cache entry expires (`auth_cache_ttl`)"
            ));
        }
        Ok(())
    }

    /// Returns a port for the doveadm API. Returns `None` if the server already uses remote
    /// doveadm, for example for replication. In that case, the restriction to one command would
    /// break the existing use.
    fn free_doveadm_port(&self) -> anyhow::Result<Option<u16>> {
        for name in [
            "doveadm_api_key",
            "doveadm_password",
            "doveadm_allowed_commands",
            "service/doveadm/inet_listener",
        ] {
            if !self.setting(name)?.is_empty() {
                return Ok(None);
            }
        }
        Ok(DOVEADM_PORTS.into_iter().find(|port| is_free(*port)))
    }

    /// Returns the address and the key file of the doveadm API, if the API can be used.
    pub(super) fn doveadm(&self) -> Option<(String, PathBuf)> {
        let port = self.doveadm_port?;
        Some((format!("127.0.0.1:{port}"), self.folder().join(KEY_FILE)))
    }

    /// Checks that `dovecot.conf` includes the files in `conf.d`.
    fn check_include(&self) -> anyhow::Result<()> {
        let text = fs::read_to_string(&self.config)
            .with_context(|| format!("cannot read {}", self.config))?;
        let folder = self.drop_in_folder();
        let absolute = format!("{}/*.conf", folder.display());
        let included = text.lines().any(|line| {
            let mut words = line.split_whitespace();
            matches!(words.next(), Some("!include" | "!include_try"))
                && words
                    .next()
                    .is_some_and(|files| files == "conf.d/*.conf" || files == absolute)
        });
        if !included || !folder.is_dir() {
            bail!(
                "{} does not include conf.d/*.conf. Create the folder {} and add the line `!include conf.d/*.conf` above the first passdb",
                self.config,
                folder.display()
            );
        }
        Ok(())
    }

    /// Returns the folder of the files that `dovecot.conf` includes.
    pub(super) fn drop_in_folder(&self) -> PathBuf {
        self.folder().join("conf.d")
    }

    /// Returns the folder of `dovecot.conf`.
    pub(super) fn folder(&self) -> &Path {
        Path::new(&self.config).parent().unwrap_or(Path::new("/"))
    }

    /// Returns the value of a setting. Returns an empty text if the setting is empty.
    fn setting(&self, name: &str) -> anyhow::Result<String> {
        let value = run("doveconf", &["-c", &self.config, "-h", name])?;
        Ok(value.trim().to_owned())
    }

    /// Returns all settings that differ from the defaults. Fails if the configuration is invalid.
    pub(super) fn dump(&self) -> anyhow::Result<String> {
        run("doveconf", &["-c", &self.config, "-n"])
    }

    /// Returns the path of the socket at which the service checks passwords.
    pub(super) fn auth_socket(&self) -> PathBuf {
        self.base_dir.join("latchmail-auth")
    }

    /// Returns the path of the socket at which the service looks up users. Dovecot 2.3 determines
    /// the protocol from the last part of the name.
    pub(super) fn lookup_socket(&self) -> PathBuf {
        self.base_dir.join("latchmail-master")
    }

    /// Returns the files to create. `user` is the system user of the service. `group` is the group
    /// that can read the database.
    pub(super) fn changes(
        &self,
        lookup: &Lookup,
        user: &str,
        group: &str,
    ) -> anyhow::Result<Vec<FileChange>> {
        check_driver(lookup)?;
        let folder = self.drop_in_folder();
        let mut groups: Vec<&str> = self.auth_worker_groups.split_whitespace().collect();
        if !groups.contains(&group) {
            groups.push(group);
        }
        let groups = groups.join(" ");
        let mut services = fill(SERVICES, &[("user", user), ("groups", &groups)])?;
        let mut files = Vec::new();
        if let (Some(port), Some((_, key))) = (self.doveadm_port, self.doveadm()) {
            let listen = match self.version {
                DovecotVersion::V2_3 => "address",
                DovecotVersion::V2_4 => "listen",
            };
            let values = [
                ("listen", listen),
                ("port", &port.to_string()),
                ("key", &key.display().to_string()),
            ];
            services += &fill(DOVEADM, &values)?;
            let secret = secrets::symbols::<32>()?.to_string();
            let file = FileChange::create(key, secret, 0o600, None).owned_by(user_id(user)?);
            files.push(file);
        }
        files.push(FileChange::create(
            folder.join(SERVICES_FILE),
            services,
            0o644,
            None,
        ));
        match self.version {
            DovecotVersion::V2_3 => {
                let query = self.folder().join(LOOKUP_FILE);
                let settings = LookupSettings::of(lookup);
                let values = [("driver", settings.driver), ("connect", &settings.dovecot)];
                let text = fill(LOOKUP_2_3, &values)?;
                // Dovecot's processes that read the file do not run as root, so their group must be
                // able to read the file.
                let dovecot = group_id(&self.setting("default_internal_user")?)?;
                files.push(FileChange::create(
                    query.clone(),
                    text,
                    0o640,
                    Some(dovecot),
                ));
                let path = query.display().to_string();
                let text = fill(PASSDB_2_3, &[("lookup", &path)])?;
                files.push(FileChange::create(
                    folder.join(PASSDB_FILE),
                    text,
                    0o644,
                    None,
                ));
            }
            DovecotVersion::V2_4 => {
                // The file can contain the password of the database, so only root can read it.
                let passdb = self.folder().join(LOOKUP_FILE);
                let text = PASSDB_2_4.replace("{{database}}", &database_2_4(lookup)?);
                files.push(FileChange::create(passdb.clone(), text, 0o600, None));
                files.push(FileChange::create(
                    folder.join(PASSDB_FILE),
                    include(&passdb)?,
                    0o644,
                    None,
                ));
            }
        }
        Ok(files)
    }

    /// Returns `true` if Latchmail's passdb is the first passdb in the current configuration.
    pub(super) fn is_passdb_first(&self) -> anyhow::Result<bool> {
        let settings = self.dump()?;
        let first = settings.lines().position(|line| line.starts_with("passdb"));
        let block: String = settings
            .lines()
            .skip(first.unwrap_or_default())
            .take_while(|line| !line.starts_with('}'))
            .collect();
        Ok(block.contains("latchmail"))
    }

    /// Returns `true` if the system's users can log in. Their names have no domain.
    pub(super) fn has_system_users(&self) -> bool {
        let mut drivers = self.passdbs.iter().map(String::as_str);
        drivers.any(|driver| ["pam", "passwd", "shadow", "bsdauth"].contains(&driver))
    }

    /// Makes the running Dovecot read its configuration again. Open sessions continue.
    pub(super) fn reload(&self) -> anyhow::Result<()> {
        run("doveadm", &["-c", &self.config, "reload"]).map(drop)
    }

    /// Returns `true` if Dovecot is running.
    pub(super) fn is_running(&self) -> bool {
        let pid = fs::read_to_string(self.base_dir.join("master.pid"));
        pid.is_ok_and(|pid| Path::new("/proc").join(pid.trim()).is_dir())
    }

    /// Looks up a user.
    ///
    /// # Errors
    /// Returns an error if Dovecot does not know the user, or if the uid of the user is not valid
    /// for mailboxes.
    pub(super) fn look_up(&self, user: &str) -> anyhow::Result<MailUser> {
        let output = output("doveadm", &["-c", &self.config, "user", user])?;
        if output.status.success() {
            return Ok(MailUser::parse(&output.stdout));
        }
        // Depending on the version and the problem, the reason is in standard error, in standard
        // output, or missing.
        let lines = output.stderr.lines().chain(output.stdout.lines());
        let reason = lines.rev().find(|line| {
            let line = line.trim();
            !line.is_empty() && line != "field\tvalue"
        });
        bail!(
            "{}",
            reason.unwrap_or(
                "Dovecot allows no mailbox for this user, for example because its uid is not between `first_valid_uid` and `last_valid_uid`"
            )
            .trim()
        )
    }

    /// Returns the users that Dovecot can list, and the users in its passwd-files. Many user
    /// sources cannot list users.
    pub(super) fn users(&self) -> Vec<String> {
        // If one source cannot list its users, Dovecot lists the users of the other sources and
        // then reports a failure.
        let listed = output("doveadm", &["-c", &self.config, "user", "*"]);
        let listed = listed.map(|output| output.stdout).unwrap_or_default();
        let mut users: Vec<String> = listed.lines().map(Into::into).collect();
        for file in &self.passwd_files {
            let text = fs::read_to_string(file).unwrap_or_default();
            let names = text.lines().filter_map(|line| line.split(':').next());
            let names = names.filter(|name| !name.is_empty() && !name.starts_with('#'));
            users.extend(names.map(Into::into));
        }
        users
    }
}

/// The result of a user lookup. A field that Dovecot does not report is empty.
#[derive(Debug, Default)]
pub(super) struct MailUser {
    pub(super) home: String,
    /// The uid as a number, or the name of the system user.
    pub(super) uid: String,
    /// The value of `mail` in 2.3 or of `mail_path` in 2.4.
    pub(super) mail: String,
}

impl MailUser {
    /// Parses the output of `doveadm user`.
    fn parse(text: &str) -> Self {
        let mut user = Self::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once('\t')) {
            let field = match name {
                "home" => &mut user.home,
                "uid" => &mut user.uid,
                "mail" | "mail_path" => &mut user.mail,
                _ => continue,
            };
            value.trim().clone_into(field);
        }
        user
    }
}

/// Checks that Dovecot's module for the database is installed.
fn check_driver(lookup: &Lookup) -> anyhow::Result<()> {
    let driver = LookupSettings::of(lookup).driver;
    let file = format!("libdriver_{driver}.so");
    let mut folders = MODULE_FOLDERS.iter().map(Path::new).filter(|f| f.is_dir());
    if folders.clone().next().is_some() && !folders.any(|f| f.join(&file).exists()) {
        bail!(
            "Dovecot's module for {driver} is not installed; on Debian or Ubuntu: apt-get install dovecot-{driver}"
        );
    }
    Ok(())
}

/// Returns the database settings in the syntax of Dovecot 2.4.
fn database_2_4(lookup: &Lookup) -> anyhow::Result<String> {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', r"\\").replace('"', r#"\""#));
    Ok(match lookup {
        Lookup::Sqlite(file) => {
            let file = quoted(&file.display().to_string());
            format!("  sql_driver = sqlite\n  sqlite_path = {file}")
        }
        Lookup::Postgres(url) => {
            let parameters = libpq_parameters(url)?;
            let (host, others): (Vec<_>, Vec<_>) =
                parameters.iter().partition(|(name, _)| *name == "host");
            let host = host.first().map_or("", |(_, value)| value.as_str());
            let mut text = format!(
                "  sql_driver = pgsql\n  pgsql latchmail {{\n    host = {}\n    parameters {{\n",
                quoted(host)
            );
            for (name, value) in others {
                text.push_str("      ");
                text.push_str(name);
                text.push_str(" = ");
                text.push_str(&quoted(value));
                text.push('\n');
            }
            text + "      options = -crole=latchmail_mailserver\n    }\n  }"
        }
    })
}

/// Returns `true` if a value of `auth_username_format` contains the user name without its domain:
/// `%n` and `%Ln` in 2.3, `%{user | username}` in 2.4.
fn is_without_domain(format: &str) -> bool {
    let percent_n = format.split('%').skip(1).any(|rest| {
        rest.trim_start_matches(|c: char| "LUTXRN0123456789.-".contains(c))
            .starts_with('n')
    });
    (percent_n && !format.contains("%d") && !format.contains("%Ld"))
        || (format.contains("username") && !format.contains("domain"))
}

/// Returns the drivers of the passdb blocks in the output of `doveconf -n`.
fn passdbs(settings: &str) -> Vec<String> {
    let passdbs = sources(settings).into_iter().filter(|s| s.is_passdb);
    passdbs.map(|source| source.driver.to_owned()).collect()
}

/// Returns the files of the passdb and userdb blocks with the driver `passwd-file`. Omits paths
/// with variables.
fn passwd_files(settings: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for source in sources(settings) {
        let setting = |name: &str| {
            let mut values = source.lines.iter().map(|line| line.trim());
            values.find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix("= "))
        };
        // In 2.3, options precede the path.
        let path =
            setting("passwd_file_path").or_else(|| setting("args")?.split_whitespace().last());
        if let Some(path) = path
            && source.driver == "passwd-file"
            && path.starts_with('/')
            && !path.contains('%')
        {
            files.push(path.into());
        }
    }
    files.dedup();
    files
}

/// A passdb or userdb block.
struct Source<'a> {
    is_passdb: bool,
    driver: &'a str,
    lines: Vec<&'a str>,
}

/// Returns the passdb and userdb blocks in the output of `doveconf -n`, in the order of the
/// configuration.
fn sources(settings: &str) -> Vec<Source<'_>> {
    let mut sources = Vec::new();
    let mut lines = settings.lines();
    while let Some(line) = lines.next() {
        let is_passdb = line.starts_with("passdb");
        let Some(name) = line.strip_prefix("passdb").or(line.strip_prefix("userdb")) else {
            continue;
        };
        let name = name.trim().trim_end_matches('{').trim();
        let lines: Vec<&str> = lines.by_ref().take_while(|l| !l.starts_with('}')).collect();
        let driver = lines
            .iter()
            .rev()
            .find_map(|line| line.trim().strip_prefix("driver = "));
        sources.push(Source {
            is_passdb,
            driver: driver.unwrap_or(name),
            lines,
        });
    }
    sources
}

/// Returns the text of a file in `conf.d` that includes a file that only root can read.
pub(super) fn include(file: &Path) -> anyhow::Result<String> {
    fill(INCLUDE, &[("file", &file.display().to_string())])
}

/// Returns `true` if no program listens on this port of the loopback address.
pub(super) fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Returns the primary group of a user.
pub(super) fn group_id(user: &str) -> anyhow::Result<u32> {
    id("-g", user)
}

/// Returns the id of a user.
pub(super) fn user_id(user: &str) -> anyhow::Result<u32> {
    id("-u", user)
}

fn id(option: &str, user: &str) -> anyhow::Result<u32> {
    let id = run("id", &[option, "--", user])?;
    let number = id.trim().parse();
    number.with_context(|| format!("`id {option} {user}` returned no number"))
}

#[cfg(test)]
mod tests;
