//! Inspects an existing Postfix, and determines the changed parameters of `main.cf` and the lookup
//! tables of Latchmail.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use latchmail_mailserver::{Lookup, LookupSettings};

use super::dovecot::group_id;
use super::journal::{FileChange, ParameterChange};
use super::programs::{output, run};

/// The name and the query of each lookup table. Addresses with extensions and catch-alls are
/// possible only on custom domains, because the service does not know all users on other domains.
/// The query is otherwise the one of `host/mailserver/postfix/aliases.cf`.
const ALIASES: (&str, &str) = (
    "latchmail-aliases.cf",
    "SELECT destination FROM mailserver_aliases WHERE address = '%s' UNION ALL SELECT \
        destination FROM mailserver_forwards WHERE address = '%s' UNION ALL SELECT address FROM \
        mailserver_forwards WHERE address = '%s' UNION ALL SELECT destination FROM (SELECT CASE \
        WHEN EXISTS (SELECT 1 FROM mailserver_separators s JOIN mailserver_custom_domains c ON \
        c.domain = s.domain JOIN mailserver_addresses a ON a.address = substr('%u', 1, \
        length('%u') - length(ltrim('%u', replace('%u', s.separator, '')))) || '@%d' WHERE \
        s.domain = '%d') THEN (SELECT r.destination FROM mailserver_separators s JOIN \
        mailserver_custom_domains c ON c.domain = s.domain JOIN ( SELECT address, destination \
        FROM mailserver_aliases UNION ALL SELECT address, address FROM mailserver_users) r ON \
        r.address = substr('%u', 1, length('%u') - length(ltrim('%u', replace('%u', s.separator, \
        '')))) || '@%d' WHERE s.domain = '%d') ELSE (SELECT destination FROM \
        mailserver_catch_alls JOIN mailserver_custom_domains USING (domain) WHERE domain = '%d') \
        END AS destination WHERE NOT EXISTS (SELECT 1 FROM mailserver_addresses WHERE address = \
        '%s')) other WHERE destination IS NOT NULL",
);
const DOMAINS: (&str, &str) = (
    "latchmail-domains.cf",
    "SELECT domain FROM mailserver_custom_domains WHERE domain = '%s'",
);
const SENDERS: (&str, &str) = (
    "latchmail-senders.cf",
    "SELECT COALESCE(n.login, s.login) FROM mailserver_senders s LEFT JOIN mailserver_login_names n ON n.address = s.login WHERE s.address = '%s'",
);

/// The types of tables that have a source file with the same name.
const FILE_TABLES: [&str; 6] = ["texthash", "hash", "btree", "lmdb", "cdb", "dbm"];

/// The source file of an alias table, and the domain that the service appends to names without a
/// domain.
pub type AliasFile = (PathBuf, Option<String>);

/// The largest message that the service sends, in bytes.
const LARGEST_MESSAGE: u64 = 26_214_400;

/// The time until Postfix must be able to read new tables.
const TABLES_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The number of consecutive lookups that must succeed. One success is not enough, because several
/// `proxymap` processes can run, and old processes end some time after a reload.
const REQUIRED_LOOKUPS: u32 = 3;

/// An existing Postfix.
#[derive(Default)]
pub(super) struct Postfix {
    config: String,
    pub(super) version: String,
    /// The domains in `mydestination`, `virtual_mailbox_domains` and `virtual_alias_domains` that
    /// are not in lookup tables.
    pub(super) domains: BTreeSet<String>,
    /// The domains in `mydestination`.
    pub(super) local_domains: BTreeSet<String>,
    /// The domains in `virtual_mailbox_domains` that are not in lookup tables.
    mailbox_domains: BTreeSet<String>,
    /// The lookup tables in `virtual_mailbox_domains`. `mailbox_tables` has the lookup tables in
    /// `virtual_mailbox_maps`.
    mailbox_domain_tables: Vec<String>,
    mailbox_tables: Vec<String>,
    pub(super) milters: String,
    /// Facts that do not prevent the attachment, but that the operator must know.
    pub(super) warnings: Vec<String>,
}

/// A parameter of `main.cf`, the table that is added to the parameter, and the new value. The new
/// value contains references to other parameters (`$name`) unchanged.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) added: String,
    value: String,
}

impl Postfix {
    /// Returns the Postfix with the configuration folder `config`, without reading the
    /// configuration.
    pub(super) fn at(config: &Path) -> anyhow::Result<Self> {
        let config = config
            .to_str()
            .context("the path of Postfix's configuration is not valid UTF-8")?
            .to_owned();
        Ok(Self {
            config,
            ..Self::default()
        })
    }

    /// Reads the configuration.
    ///
    /// # Errors
    /// Returns an error if Postfix is missing or its configuration is not valid.
    pub(super) fn inspect(config: &Path) -> anyhow::Result<Self> {
        let mut postfix = Self::at(config)?;
        postfix.check()?;
        postfix.version = postfix.value("mail_version")?;
        postfix.milters = postfix.expanded("smtpd_milters")?;
        postfix.local_domains = postfix.listed_domains("mydestination")?;
        postfix.domains.clone_from(&postfix.local_domains);
        postfix.mailbox_domains = postfix.listed_domains("virtual_mailbox_domains")?;
        postfix
            .domains
            .extend(postfix.mailbox_domains.iter().cloned());
        postfix
            .domains
            .extend(postfix.listed_domains("virtual_alias_domains")?);
        postfix.mailbox_domain_tables = postfix.tables_in("virtual_mailbox_domains")?;
        postfix.mailbox_tables = postfix.tables_in("virtual_mailbox_maps")?;
        let limit = postfix.value("message_size_limit")?;
        if limit
            .parse()
            .is_ok_and(|limit: u64| limit != 0 && limit <= LARGEST_MESSAGE)
        {
            postfix.warnings.push(format!(
                "`message_size_limit` is {limit}: Postfix rejects larger messages, although the API allows 25 MB"
            ));
        }
        let services = run("postconf", &["-c", &postfix.config, "-P"])?;
        for line in services.lines().filter(|line| overrides_tables(line)) {
            postfix.warnings.push(format!(
                "master.cf overrides a parameter that Latchmail extends, so Latchmail's aliases have no effect there: {line}"
            ));
        }
        Ok(postfix)
    }

    /// Returns the name of the group of Postfix's processes.
    pub(super) fn group_name(&self) -> anyhow::Result<String> {
        let name = run("id", &["-gn", "--", &self.value("mail_owner")?])?;
        Ok(name.trim().to_owned())
    }

    /// Returns the id of the group of Postfix's processes.
    pub(super) fn group(&self) -> anyhow::Result<u32> {
        group_id(&self.value("mail_owner")?)
    }

    /// Returns the value of a parameter without expanding other parameters in it.
    fn value(&self, name: &str) -> anyhow::Result<String> {
        let value = run("postconf", &["-c", &self.config, "-h", name])?;
        Ok(value.trim().to_owned())
    }

    fn expanded(&self, name: &str) -> anyhow::Result<String> {
        let value = run("postconf", &["-c", &self.config, "-x", "-h", name])?;
        Ok(value.trim().to_owned())
    }

    /// Returns the domains in a parameter, without the domains in lookup tables.
    fn listed_domains(&self, name: &str) -> anyhow::Result<BTreeSet<String>> {
        let value = self.expanded(name)?;
        let mut domains = BTreeSet::new();
        for name in split_tables(&value) {
            // A path is replaced by the content of the file, for example `/etc/mailname`.
            let names = if name.starts_with('/') {
                fs::read_to_string(name).unwrap_or_default()
            } else {
                name.to_owned()
            };
            let names = split_tables(&names)
                .into_iter()
                .filter(|name| is_domain(name));
            domains.extend(names.map(str::to_ascii_lowercase));
        }
        Ok(domains)
    }

    /// Returns the lookup tables in a parameter.
    fn tables_in(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let value = self.expanded(name)?;
        let tables = split_tables(&value)
            .into_iter()
            .filter(|part| part.contains(':'));
        Ok(tables.map(str::to_owned).collect())
    }

    /// Returns `true` if a domain has virtual mailboxes.
    pub(super) fn is_mailbox_domain(&self, domain: &str) -> bool {
        let is_found = |table: &String| self.find(domain, table).unwrap_or(false);
        self.mailbox_domains.contains(domain) || self.mailbox_domain_tables.iter().any(is_found)
    }

    /// Returns `false` if Postfix rejects an address on a domain of virtual mailboxes. Without
    /// `virtual_mailbox_maps`, Postfix accepts every address.
    pub(super) fn has_mailbox(&self, address: &str) -> bool {
        let catch_all = address.find('@').map_or("", |at| &address[at..]);
        let is_found = |table: &String| {
            let mut keys = [address, catch_all].into_iter();
            keys.any(|key| self.find(key, table).unwrap_or(true))
        };
        self.mailbox_tables.is_empty() || self.mailbox_tables.iter().any(is_found)
    }

    /// Returns the addresses in the source files of `virtual_mailbox_maps`.
    pub(super) fn mailboxes(&self) -> Vec<String> {
        let mut addresses = Vec::new();
        for file in self
            .mailbox_tables
            .iter()
            .filter_map(|table| source_file(table))
        {
            let text = fs::read_to_string(file).unwrap_or_default();
            let keys = text
                .lines()
                .filter_map(|line| line.split_whitespace().next());
            let keys = keys.filter(|key| key.find('@').is_some_and(|at| at > 0));
            addresses.extend(keys.filter(|key| !key.starts_with('#')).map(str::to_owned));
        }
        addresses
    }

    /// Returns whether a table contains a key.
    fn find(&self, key: &str, table: &str) -> anyhow::Result<bool> {
        let output = output("postmap", &["-c", &self.config, "-q", key, table])?;
        // If the table does not contain the key, `postmap` also exits with status 1.
        if !output.status.success() && !output.stderr.trim().is_empty() {
            bail!("Postfix cannot read {table}: {}", output.stderr.trim());
        }
        Ok(output.status.success())
    }

    /// Returns the source files of the existing alias tables, each with the domain that the service
    /// appends to names without a domain. Tables in databases have no file.
    pub(super) fn alias_files(&self, domains: &[String]) -> anyhow::Result<Vec<AliasFile>> {
        let mut files = Vec::new();
        let local = domains.iter().find(|d| self.local_domains.contains(*d));
        for (parameter, domain) in [("virtual_alias_maps", None), ("alias_maps", local)] {
            // If Postfix has no local domain of the service, the names in `alias_maps` are not
            // addresses of the service.
            if parameter == "alias_maps" && domain.is_none() {
                continue;
            }
            let value = self.expanded(parameter)?;
            for table in split_tables(&value) {
                if let Some(path) = source_file(table) {
                    files.push((path.into(), domain.cloned()));
                }
            }
        }
        Ok(files)
    }

    /// Returns all settings of `main.cf`.
    pub(super) fn dump(&self) -> anyhow::Result<String> {
        run("postconf", &["-c", &self.config, "-n"])
    }

    /// Returns all entries of `master.cf`.
    pub(super) fn services(&self) -> anyhow::Result<String> {
        run("postconf", &["-c", &self.config, "-M"])
    }

    /// Checks the configuration with `postfix check`.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        run("postfix", &["-c", &self.config, "check"]).map(drop)
    }

    /// Makes the running Postfix read its configuration again.
    pub(super) fn reload(&self) -> anyhow::Result<()> {
        run("postfix", &["-c", &self.config, "reload"]).map(drop)
    }

    /// Returns `true` if Postfix is running.
    pub(super) fn is_running(&self) -> bool {
        run("postfix", &["-c", &self.config, "status"]).is_ok()
    }

    pub(super) fn main_cf(&self) -> PathBuf {
        Path::new(&self.config).join("main.cf")
    }

    /// Returns the lookup tables to create.
    pub(super) fn tables(&self, lookup: &Lookup) -> anyhow::Result<Vec<FileChange>> {
        let settings = LookupSettings::of(lookup);
        let supported = run("postconf", &["-c", &self.config, "-m"])?;
        if !supported
            .split_whitespace()
            .any(|kind| kind == settings.driver)
        {
            bail!(
                "Postfix does not support {0} tables; on Debian or Ubuntu: apt-get install postfix-{0}",
                settings.driver
            );
        }
        let group = Some(self.group()?);
        // Postfix requires `dbname` although the URL contains the name.
        let database = match lookup {
            Lookup::Sqlite(_) => "",
            Lookup::Postgres(_) => "dbname = latchmail\nretry_interval = 1\n",
        };
        let table = |(name, query): (&str, &str)| {
            let text = format!(
                "# Written by `latchmail attach`. `latchmail detach` removes this file.\n{}\n{database}query = {query}\n",
                settings.postfix
            );
            FileChange::create(Path::new(&self.config).join(name), text, 0o640, group)
        };
        Ok([ALIASES, DOMAINS, SENDERS].map(table).into())
    }

    /// Returns the parameters to change. Existing tables keep precedence.
    pub(super) fn parameters(&self, lookup: &Lookup) -> anyhow::Result<Vec<Parameter>> {
        let maps = LookupSettings::of(lookup).maps;
        let maps = maps.trim_start_matches("proxy:");
        let table = |name: &str| format!("proxy:{maps}:{}/{name}", self.config);
        let mut parameters = vec![
            self.extended("virtual_alias_maps", table(ALIASES.0))?,
            self.extended("virtual_alias_domains", table(DOMAINS.0))?,
        ];
        // Without such tables, Postfix does not compare the sender with the log-in. In this case, a
        // table would have no effect.
        if !self.value("smtpd_sender_login_maps")?.is_empty() {
            parameters.push(self.extended("smtpd_sender_login_maps", table(SENDERS.0))?);
        }
        Ok(parameters)
    }

    fn extended(&self, name: &'static str, added: String) -> anyhow::Result<Parameter> {
        let before = self.value(name)?;
        let value = if before.is_empty() {
            added.clone()
        } else {
            format!("{before}, {added}")
        };
        Ok(Parameter { name, added, value })
    }

    /// Returns two new versions of `main.cf`. `content` is the current version. `postconf -e` edits
    /// a copy in the folder `scratch`. So the file itself can be replaced in one step.
    ///
    /// The first version only allows `proxymap` to read the new tables. Without this step, a
    /// process that starts between the change and the reload would ask a running `proxymap` for a
    /// table that this `proxymap` does not know. Then the process exits, and Postfix does not start
    /// it again for a minute.
    pub(super) fn edited_main_cf(
        &self,
        content: &[u8],
        parameters: &[Parameter],
        scratch: &Path,
    ) -> anyhow::Result<[Vec<u8>; 2]> {
        let tables: Vec<&str> = parameters.iter().map(|p| p.added.as_str()).collect();
        let readable = format!(
            "proxy_read_maps = {}, {}",
            self.value("proxy_read_maps")?,
            tables.join(", ")
        );
        let edits: Vec<String> = parameters
            .iter()
            .map(|parameter| format!("{} = {}", parameter.name, parameter.value))
            .collect();
        Ok([
            edit_copy("-e", &[readable], content, scratch)?,
            edit_copy("-e", &edits, content, scratch)?,
        ])
    }

    /// Waits until Postfix's processes can read the tables.
    ///
    /// # Errors
    /// Returns the reason if a table is still not readable after ten seconds, for example because
    /// of missing permissions.
    pub(super) fn wait_for_tables(&self, parameters: &[Parameter]) -> anyhow::Result<()> {
        for parameter in parameters {
            let start = Instant::now();
            let mut successes = 0;
            while successes < REQUIRED_LOOKUPS {
                match self.look_up(&parameter.added) {
                    Ok(()) => successes += 1,
                    Err(error) if start.elapsed() > TABLES_TIMEOUT => {
                        return Err(
                            error.context(format!("Postfix cannot read {}", parameter.added))
                        );
                    }
                    Err(_) => {
                        successes = 0;
                        sleep(POLL_INTERVAL);
                    }
                }
            }
        }
        Ok(())
    }

    /// Looks up a name that no table contains.
    fn look_up(&self, table: &str) -> anyhow::Result<()> {
        let output = Command::new("postmap")
            .args(["-c", &self.config, "-q", "latchmail.invalid", table])
            .stdin(Stdio::null())
            .output()
            .context("cannot run `postmap`")?;
        // If the table does not contain the name, `postmap` also exits with status 1.
        let text = String::from_utf8_lossy(&output.stderr);
        let is_problem = |line: &&str| line.contains(table) || line.contains("fatal");
        match text.lines().find(is_problem) {
            Some(problem) => bail!("{}", problem.trim()),
            None => Ok(()),
        }
    }

    /// Removes Latchmail's tables from the parameters of `main.cf`, and returns the new content.
    /// `content` is the current content of the file, which was changed after the attachment.
    pub(super) fn cleaned_main_cf(
        &self,
        content: &[u8],
        parameters: &[ParameterChange],
        scratch: &Path,
    ) -> anyhow::Result<Vec<u8>> {
        let mut content = content.to_vec();
        for ParameterChange {
            name,
            was_set,
            added,
        } in parameters
        {
            let value = self.value(name)?;
            let others: Vec<&str> = split_tables(&value)
                .into_iter()
                .filter(|table| table != added)
                .collect();
            let value = others.join(", ");
            let (option, edit) = if !was_set && (value.is_empty() || is_default(name, &value)) {
                ("-X", name.clone())
            } else {
                ("-e", format!("{name} = {value}"))
            };
            content = edit_copy(option, &[edit], &content, scratch)?;
        }
        Ok(content)
    }
}

/// Edits a copy of `main.cf` with `postconf`, and returns the result.
fn edit_copy(
    option: &str,
    edits: &[String],
    content: &[u8],
    scratch: &Path,
) -> anyhow::Result<Vec<u8>> {
    let copy = scratch.join("main.cf");
    fs::write(&copy, content).with_context(|| format!("cannot write {}", copy.display()))?;
    let folder = scratch.display().to_string();
    let mut arguments = vec!["-c", &folder, option];
    arguments.extend(edits.iter().map(String::as_str));
    run("postconf", &arguments)?;
    let edited = fs::read(&copy)?;
    fs::remove_file(&copy)?;
    Ok(edited)
}

/// Returns the source file of a table, if the table has one.
fn source_file(table: &str) -> Option<&Path> {
    let table = table.strip_prefix("proxy:").unwrap_or(table);
    let (kind, path) = table.split_once(':')?;
    let path = Path::new(path);
    (FILE_TABLES.contains(&kind) && path.is_file()).then_some(path)
}

/// Splits a list of tables or domains at commas and white space, but not inside of braces
/// (`inline:{ … }`).
fn split_tables(value: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let parts = value.split(|character: char| {
        match character {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (character == ',' || character.is_whitespace())
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// Returns `true` if a list is the default value of a parameter that Latchmail extends.
fn is_default(name: &str, value: &str) -> bool {
    matches!(
        (name, value),
        ("virtual_alias_maps", "$virtual_maps") | ("virtual_alias_domains", "$virtual_alias_maps")
    )
}

/// Returns `true` if an element of a list of domains is a domain. Excludes lookup tables,
/// parameters and file names.
fn is_domain(name: &str) -> bool {
    name.contains('.') && !name.contains([':', '/', '$', '{', '}'])
}

/// Returns `true` if a line of `postconf -P` overrides a parameter that Latchmail extends.
fn overrides_tables(line: &str) -> bool {
    [
        "virtual_alias_maps",
        "virtual_alias_domains",
        "smtpd_sender_login_maps",
    ]
    .iter()
    .any(|name| line.contains(&format!("/{name} =")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_tables_is_split_outside_of_braces() {
        assert_eq!(
            split_tables("hash:/a, inline:{ { x@y = z } }, $b\tproxy:sqlite:/c"),
            ["hash:/a", "inline:{ { x@y = z } }", "$b", "proxy:sqlite:/c"]
        );
        assert_eq!(split_tables(""), [""; 0]);
    }

    #[test]
    fn tables_and_files_are_not_domains() {
        let names = [
            "example.org",
            "$mydomain",
            "hash:/etc/x.y",
            "/etc/domains.txt",
            "localhost",
        ];
        let domains: Vec<_> = names.into_iter().filter(|name| is_domain(name)).collect();
        assert_eq!(domains, ["example.org"]);
    }
}
