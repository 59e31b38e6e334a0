//! Chooses the users with whose mailboxes the attachment can be tested. Changes nothing.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::bail;
use latchmail_core::config::Config;
use latchmail_terminal::input::{self, parse_address};
use latchmail_terminal::output::escape;
use secrecy::SecretString;

use super::dovecot::{Dovecot, MailUser};
use super::postfix::Postfix;
use super::programs::output;

/// The number of users that are tested before the attachment is given up.
const MAX_TESTED: usize = 4;
/// The number of users that are looked up. A lookup takes some milliseconds.
const MAX_LOOKUPS: usize = 200;
/// The number of lookups that search for both kinds of users (system users and virtual users).
/// After these lookups, users of one kind are enough.
const LOOKUPS_OF_BOTH_KINDS: usize = 50;
/// The number of rejected users that an error names.
const MAX_REASONS: usize = 10;

/// The lowest uid of a person, if `/etc/login.defs` does not set `UID_MIN`.
const UID_MIN: u32 = 1000;
/// The uids of systemd's temporary users, of `nobody`, and the uid that means "no user".
const SPECIAL_UIDS: std::ops::RangeInclusive<u32> = 61_184..=65_535;

/// A user with whose mailbox the attachment is tested.
#[derive(Debug)]
pub(super) struct TestUser {
    /// The address of the user.
    pub(super) address: String,
    /// The log-in name at the mail server.
    pub(super) login: String,
    /// The existing password, if the operator gave it.
    pub(super) password: Option<SecretString>,
}

impl TestUser {
    /// Returns the address and the log-in name, for the operator.
    pub(super) fn describe(&self) -> String {
        format!(
            "{} (log-in name {})",
            escape(&self.address),
            escape(&self.login)
        )
    }
}

/// The users to test, and the domain that the service appends to log-in names without a domain.
pub(super) struct TestUsers {
    /// The users, the most suitable one first. Contains at least one user.
    pub(super) users: Vec<TestUser>,
    /// Empty if all log-in names have a domain.
    pub(super) default_domain: String,
}

/// A user that Dovecot knows.
#[derive(Debug)]
struct Candidate {
    user: TestUser,
    /// Whether the user is an account of the system.
    is_system: bool,
    /// Whether the user has a mailbox, or can log in to the system.
    is_in_use: bool,
}

/// An entry of the system's user database.
#[derive(Debug)]
struct SystemUser {
    uid: u32,
    shell: String,
}

/// The domain that the service appends to log-in names without a domain.
struct DefaultDomain {
    name: String,
    /// Whether the domain is in the configuration of the service.
    is_configured: bool,
    /// Whether Postfix delivers mail for the domain to the users of the system.
    is_local: bool,
}

/// Chooses the user that the operator named, or several users that Dovecot lists.
///
/// # Errors
/// Returns an error if no user is suitable. The error names the users and the reasons.
pub(super) fn choose(
    config: &Config,
    dovecot: &Dovecot,
    postfix: &Postfix,
    named: Option<&str>,
) -> anyhow::Result<TestUsers> {
    let domain = DefaultDomain::find(config, dovecot, postfix);
    let chooser = Chooser {
        config,
        dovecot,
        postfix,
        domain,
        uid_min: uid_min(),
    };
    let users = match named {
        Some(name) => vec![chooser.named(name)?],
        None => chooser.listed()?,
    };
    let default_domain = chooser.default_domain(&users);
    Ok(TestUsers {
        users,
        default_domain,
    })
}

impl DefaultDomain {
    /// Returns the configured domain. If no domain is configured, returns the domain of the service
    /// that Postfix or Dovecot most likely uses for names without a domain.
    fn find(config: &Config, dovecot: &Dovecot, postfix: &Postfix) -> Self {
        let configured = &config.sign_in.mailserver.default_domain;
        let domains = &config.registration.domains;
        let first = |is_it: &dyn Fn(&str) -> bool| domains.iter().find(|domain| is_it(domain));
        let name = (!configured.is_empty())
            .then_some(configured)
            .or_else(|| first(&|domain| postfix.local_domains.contains(domain)))
            .or_else(|| first(&|domain| domain.eq_ignore_ascii_case(&dovecot.default_realm)))
            .or_else(|| first(&|domain| postfix.domains.contains(domain)))
            .or_else(|| domains.first());
        let name = name.cloned().unwrap_or_default();
        Self {
            is_configured: !configured.is_empty(),
            is_local: postfix.local_domains.contains(&name),
            name,
        }
    }
}

struct Chooser<'a> {
    config: &'a Config,
    dovecot: &'a Dovecot,
    postfix: &'a Postfix,
    domain: DefaultDomain,
    uid_min: u32,
}

impl Chooser<'_> {
    /// Returns the user that the operator named, with the password from standard input.
    fn named(&self, name: &str) -> anyhow::Result<TestUser> {
        let address = self.address(name)?;
        let login = self.login(name);
        let login = match (self.dovecot.look_up(&login), login.split_once('@')) {
            // The name can be the address of a user whose log-in name has no domain.
            (Err(_), Some((local, domain)))
                if domain.eq_ignore_ascii_case(&self.domain.name)
                    && self.dovecot.look_up(local).is_ok() =>
            {
                local.to_owned()
            }
            _ => login,
        };
        Ok(TestUser {
            password: Some(input::read_password(&address)?),
            address,
            login,
        })
    }

    /// Returns suitable users that the mail server lists.
    fn listed(&self) -> anyhow::Result<Vec<TestUser>> {
        let mut rejected = Vec::new();
        let mut found: Vec<Candidate> = Vec::new();
        let mut lookups = 0;
        for name in self.names() {
            if lookups == MAX_LOOKUPS || is_enough(&found, lookups) {
                break;
            }
            let candidate = self.address(&name).and_then(|address| {
                lookups += 1;
                self.candidate(&name, address)
            });
            let new = match candidate {
                Ok(candidate) => candidate,
                Err(reason) => {
                    rejected.push(format!("{}: {reason:#}", escape(&name)));
                    continue;
                }
            };
            let address = &new.user.address;
            match found
                .iter_mut()
                .find(|other| other.user.address == *address)
            {
                // If two log-in names have the same address, the log-in name that equals the
                // address is certainly right.
                Some(other) if new.user.login == *address => *other = new,
                Some(_) => {}
                None => found.push(new),
            }
        }
        let users = order(found);
        if users.is_empty() {
            bail!("{}", no_user(&rejected));
        }
        Ok(users)
    }

    /// Returns the names of users from all sources that can be read. Dovecot lists no users of some
    /// sources, for example of `static`.
    fn names(&self) -> Vec<String> {
        let mut known = BTreeSet::new();
        let mut names = self.dovecot.users();
        names.extend(self.postfix.mailboxes());
        if self.dovecot.has_system_users() {
            let listed = output("getent", &["passwd"]).map(|output| output.stdout);
            let listed = listed.unwrap_or_default();
            names.extend(listed.lines().filter_map(first_field));
        }
        // `doveadm` would interpret a name that begins with `-` as an option.
        names.retain(|name| !name.starts_with('-') && known.insert(name.clone()));
        names
    }

    /// Returns the address of a log-in name. Returns an error if no user of the service can have
    /// the address.
    fn address(&self, name: &str) -> anyhow::Result<String> {
        let address = match (name.contains('@'), self.domain.name.as_str()) {
            (true, _) => parse_address(name)?,
            (false, "") => bail!(
                "the name has no domain; set `sign_in.mailserver.default_domain` or `registration.domains`"
            ),
            (false, domain) => parse_address(&format!("{name}@{domain}"))?,
        };
        let (_, domain) = address.rsplit_once('@').unwrap_or_default();
        let mut domains = self.config.registration.domains.iter();
        if !domains.any(|listed| listed.eq_ignore_ascii_case(domain)) {
            bail!(
                "the domain {domain} is not in `registration.domains`, so its users cannot sign in"
            );
        }
        Ok(address)
    }

    /// Returns the name that `auth_username_format` gives the user, because the user lookup returns
    /// this name.
    fn login(&self, name: &str) -> String {
        match name.split_once('@') {
            Some((local, domain))
                if self.dovecot.removes_domains
                    && domain.eq_ignore_ascii_case(&self.domain.name) =>
            {
                local.to_ascii_lowercase()
            }
            _ => name.to_owned(),
        }
    }

    /// Returns an error if the user is unknown or cannot have a mailbox.
    fn candidate(&self, name: &str, address: String) -> anyhow::Result<Candidate> {
        let login = self.login(name);
        let found = self.dovecot.look_up(&login)?;
        let system = system_user(&login).filter(|system| found.has_uid(&login, system.uid));
        let has_mailbox = found.mailboxes(&login).iter().any(|path| has_content(path));
        let mut is_in_use = has_mailbox || Path::new(&found.home).is_dir();
        if let Some(system) = &system {
            if system.uid < self.uid_min || SPECIAL_UIDS.contains(&system.uid) {
                bail!("it is an account of the system (uid {})", system.uid);
            }
            if !has_mailbox && !is_home(&found.home, system.uid) {
                bail!(
                    "it has no mailbox, and its home folder {:?} does not exist",
                    found.home
                );
            }
            is_in_use = has_mailbox || is_login_shell(&system.shell);
        }
        let (_, domain) = address.rsplit_once('@').unwrap_or_default();
        if self.postfix.is_mailbox_domain(domain) {
            self.check_mailbox_domain(&login, &address, domain, system.is_some())?;
        }
        Ok(Candidate {
            user: TestUser {
                address,
                login,
                password: None,
            },
            is_system: system.is_some(),
            is_in_use,
        })
    }

    /// Checks that mail to an address on a domain of virtual mailboxes arrives in the mailbox of
    /// this log-in name.
    fn check_mailbox_domain(
        &self,
        login: &str,
        address: &str,
        domain: &str,
        is_system: bool,
    ) -> anyhow::Result<()> {
        let keeps_domains = !self.dovecot.removes_domains && !self.dovecot.lmtp_removes_domains;
        if is_system && !login.contains('@') && keeps_domains && !self.domain.is_configured {
            bail!("it is a user of the system, but {domain} has virtual mailboxes");
        }
        if !self.postfix.has_mailbox(address) {
            bail!("`virtual_mailbox_maps` of Postfix does not contain {address}");
        }
        Ok(())
    }

    /// Returns the domain that the service appends to log-in names without a domain. Returns an
    /// empty text if such names are not in use. Otherwise, the password of a user of the system
    /// would give access to the mailbox of another person with the same name.
    fn default_domain(&self, users: &[TestUser]) -> String {
        let domain = &self.domain;
        let is_used = domain.is_configured
            || self.dovecot.removes_domains
            || (domain.is_local && self.dovecot.has_system_users())
            || users.iter().any(|user| !user.login.contains('@'));
        if is_used {
            domain.name.clone()
        } else {
            String::new()
        }
    }
}

/// Returns `true` if no further user needs to be looked up.
fn is_enough(found: &[Candidate], lookups: usize) -> bool {
    let mut in_use = found.iter().filter(|candidate| candidate.is_in_use);
    let Some(first) = in_use.next() else {
        return false;
    };
    let others: Vec<bool> = in_use.map(|candidate| candidate.is_system).collect();
    others.len() + 1 >= MAX_TESTED
        && (lookups >= LOOKUPS_OF_BOTH_KINDS || others.contains(&!first.is_system))
}

/// Returns the users to test. Users who have a mailbox precede the others. System users and virtual
/// users alternate, because a fault can concern only one of the two kinds.
fn order(mut found: Vec<Candidate>) -> Vec<TestUser> {
    found.sort_by_key(|candidate| !candidate.is_in_use);
    let is_system_first = found.first().is_some_and(|candidate| candidate.is_system);
    let (first, second): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|candidate| candidate.is_system == is_system_first);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut users = Vec::new();
    while users.len() < MAX_TESTED {
        let pair = [first.next(), second.next()];
        if pair.iter().all(Option::is_none) {
            break;
        }
        users.extend(pair.into_iter().flatten().map(|candidate| candidate.user));
    }
    users.truncate(MAX_TESTED);
    users
}

fn no_user(rejected: &[String]) -> String {
    let mut text = "the mail server lists no user who is suitable for the test".to_owned();
    for reason in rejected.iter().take(MAX_REASONS) {
        text.push_str("\n  ");
        text.push_str(reason);
    }
    if rejected.len() > MAX_REASONS {
        let others = rejected.len() - MAX_REASONS;
        text.push_str("\n  and ");
        text.push_str(&others.to_string());
        text.push_str(" others");
    }
    text + "\nName an existing user with --test-user ADDRESS"
}

impl MailUser {
    /// Returns whether Dovecot uses this uid for the mailbox. Dovecot reports the name of the uid
    /// if `mail_uid` contains a name.
    fn has_uid(&self, login: &str, uid: u32) -> bool {
        self.uid == uid.to_string() || self.uid == login
    }

    /// Returns the paths at which the mailbox can be.
    fn mailboxes(&self, login: &str) -> Vec<PathBuf> {
        let local = login.split('@').next().unwrap_or(login);
        let mut paths = Vec::new();
        // The value is, for example, `maildir:~/Maildir`, `mbox:~/mail:INBOX=/var/mail/ada` or a
        // path.
        for part in self.mail.split(':') {
            let path = part.strip_prefix("INBOX=").unwrap_or(part);
            match path.strip_prefix("~/") {
                Some(rest) => paths.push(Path::new(&self.home).join(rest)),
                None if path.starts_with('/') => paths.push(path.into()),
                None => {}
            }
        }
        // Dovecot 2.4 does not report the INBOX of mbox.
        paths.push(Path::new("/var/mail").join(local));
        paths
    }
}

/// Returns whether a path is a folder or a file that is not empty.
fn has_content(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_dir() || found.len() > 0)
}

fn is_home(home: &str, uid: u32) -> bool {
    fs::metadata(home).is_ok_and(|found| found.is_dir() && found.uid() == uid)
}

/// Returns whether a user with this shell can log in to the system. An empty shell means `/bin/sh`.
fn is_login_shell(shell: &str) -> bool {
    !matches!(
        Path::new(shell).file_name().and_then(|name| name.to_str()),
        Some("nologin" | "false")
    )
}

fn first_field(line: &str) -> Option<String> {
    let (name, _) = line.split_once(':')?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns the entry of the system's user database for a log-in name.
fn system_user(login: &str) -> Option<SystemUser> {
    if login.contains('@') {
        return None;
    }
    let found = output("getent", &["passwd", "--", login]).ok()?;
    parse_system_user(found.stdout.lines().next()?)
}

fn parse_system_user(line: &str) -> Option<SystemUser> {
    let fields: Vec<&str> = line.split(':').collect();
    Some(SystemUser {
        uid: fields.get(2)?.parse().ok()?,
        shell: (*fields.get(6)?).to_owned(),
    })
}

/// Returns the lowest uid of a person.
fn uid_min() -> u32 {
    let text = fs::read_to_string("/etc/login.defs").unwrap_or_default();
    let value = text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("UID_MIN")).then(|| words.next())?
    });
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or(UID_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(login: &str, is_in_use: bool) -> Candidate {
        Candidate {
            user: TestUser {
                address: format!("{login}.example"),
                login: login.into(),
                password: None,
            },
            is_system: !login.contains('@'),
            is_in_use,
        }
    }

    fn ordered(found: &[(&str, bool)]) -> Vec<String> {
        let found = found
            .iter()
            .map(|(login, in_use)| candidate(login, *in_use));
        order(found.collect())
            .into_iter()
            .map(|user| user.login)
            .collect()
    }

    #[test]
    fn users_with_a_mailbox_precede_and_both_kinds_alternate() {
        let mixed = [
            ("vmail", false),
            ("ada", true),
            ("bob", true),
            ("ann@x", true),
            ("cid@x", true),
        ];
        assert_eq!(ordered(&mixed), ["ada", "ann@x", "bob", "cid@x"]);
        let reversed: Vec<_> = mixed.into_iter().rev().collect();
        assert_eq!(ordered(&reversed), ["cid@x", "bob", "ann@x", "ada"]);
        assert_eq!(
            ordered(&[("vmail", false), ("ada", true)]),
            ["ada", "vmail"]
        );
    }

    #[test]
    fn the_error_names_the_rejected_users_and_their_number() {
        let rejected: Vec<String> = (0..12).map(|n| format!("user{n}: no home")).collect();
        let text = no_user(&rejected);
        assert!(text.contains("user9: no home\n  and 2 others"), "{text}");
        assert!(text.contains("--test-user"), "{text}");
    }

    #[test]
    fn the_mailbox_of_a_user_is_found_in_the_settings_of_both_versions() {
        let paths = |mail: &str| {
            let user = MailUser {
                home: "/home/ada".into(),
                uid: "1000".into(),
                mail: mail.into(),
            };
            let paths = user.mailboxes("ada@example.org");
            paths
                .iter()
                .map(|p| p.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            paths("mbox:~/mail:INBOX=/var/mail/a"),
            ["/home/ada/mail", "/var/mail/a", "/var/mail/ada"]
        );
        assert_eq!(
            paths("maildir:~/Maildir"),
            ["/home/ada/Maildir", "/var/mail/ada"]
        );
        assert_eq!(paths("/home/ada/mail"), ["/home/ada/mail", "/var/mail/ada"]);
        assert_eq!(paths(""), ["/var/mail/ada"]);
    }

    #[test]
    fn a_user_of_the_system_is_read_with_its_uid_and_shell() {
        let nobody = "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin";
        let nobody = parse_system_user(nobody).unwrap();
        assert!(SPECIAL_UIDS.contains(&nobody.uid));
        assert!(!is_login_shell(&nobody.shell));
        let ada = parse_system_user("ada:x:1000:1000::/home/ada:").unwrap();
        assert!(!SPECIAL_UIDS.contains(&ada.uid) && is_login_shell(&ada.shell));
        assert!(parse_system_user("broken:x").is_none());
    }
}
