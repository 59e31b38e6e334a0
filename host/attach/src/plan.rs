//! The plan of an attachment: the mail servers that `latchmail attach` found, and the planned
//! changes. Building the plan changes nothing.

use std::path::Path;

use anyhow::bail;
use latchmail_core::config::{ATTACHED_FILE, Config, Imap, Sieve, Smtp};
use latchmail_mailserver::{Lookup, fill};
use latchmail_terminal::output::escape;

use super::AttachArgs;
use super::dovecot::Dovecot;
use super::journal::{FileChange, Location};
use super::notices::Notices;
use super::postfix::{Parameter, Postfix};
use super::test_users::{self, TestUser};
use super::{lookup, ports};

const SETTINGS: &str = include_str!("templates/attached.toml");

/// The number of IMAP connections of each user that remain for mail clients on the machine itself,
/// such as a web mail program.
const OTHER_CONNECTIONS: usize = 2;

const PASSWORD_NOTE: &str = "after a password change at the mail server, existing sessions end only if the passdb returns the field `latchmail_password_version` \
    (docs/accounts.md)";

/// The mail servers that `latchmail attach` found, and the planned changes.
pub(super) struct Plan {
    pub(super) dovecot: Dovecot,
    pub(super) postfix: Postfix,
    pub(super) lookup: Lookup,
    /// The configuration of the service after the attachment.
    pub(super) config: Config,
    /// The users with whose mailboxes the attachment is tested, one after the other until a test
    /// succeeds.
    pub(super) users: Vec<TestUser>,
    /// The files to create. `main.cf` is not included.
    pub(super) files: Vec<FileChange>,
    pub(super) parameters: Vec<Parameter>,
    /// The settings for notices, or `None` if `attach` does not configure them.
    pub(super) notices: Option<Notices>,
    /// The text of the file with the settings of the service, without notices.
    pub(super) settings: String,
    warnings: Vec<String>,
}

impl Plan {
    /// Inspects the mail servers and determines the changes.
    ///
    /// # Errors
    /// Returns an error with a remedy if Latchmail cannot be attached.
    pub(super) async fn build(
        config: &Config,
        file: &Path,
        location: &Location,
        args: &AttachArgs,
    ) -> anyhow::Result<Self> {
        let lookup = lookup::find(config, args.mail_database()?.as_deref())?;
        let dovecot = Dovecot::inspect(&args.servers.dovecot_config)?;
        let postfix = Postfix::inspect(&args.servers.postfix_config)?;
        for (name, running) in [
            ("Dovecot", dovecot.is_running()),
            ("Postfix", postfix.is_running()),
        ] {
            if !running {
                bail!("{name} is not running; start it first");
            }
        }
        let imap = ports::imap(&config.imap).await?;
        let smtp = ports::smtp(&config.smtp).await?;
        let sieve = ports::sieve(&config.sieve, &imap).await?;
        let tested = test_users::choose(config, &dovecot, &postfix, args.test_user.as_deref())?;
        let default_domain = tested.default_domain;
        let user_name = lookup::service_user(config)?;
        let mut warnings = dovecot.warnings.clone();
        let mut notices = None;
        // The operator can have configured the notices.
        if !config.events.has_notices() {
            match Notices::plan(&dovecot, location, &user_name) {
                Ok(planned) => notices = Some(planned),
                Err(error) => warnings.push(format!(
                    "Dovecot does not send notices about changes, so the service opens an IMAP connection for each mailbox for which a client waits: {error:#}"
                )),
            }
        }
        let settings = settings(&dovecot, (&imap, &smtp, &sieve), config, &default_domain)?;
        let of_notices = notices
            .as_ref()
            .map_or("", |notices| notices.settings.as_str());
        let all_settings = format!("{settings}{of_notices}");
        let merged = Config::load_with(Some(file), &all_settings)?;

        let group = postfix.group_name()?;
        let mut files = dovecot.changes(&lookup, &user_name, &group)?;
        files.extend(notices.iter().flat_map(|notices| notices.files.clone()));
        files.extend(postfix.tables(&lookup)?);
        files.push(FileChange::create(
            location.file(ATTACHED_FILE),
            all_settings,
            0o644,
            None,
        ));
        warnings.extend(postfix.warnings.iter().cloned());
        warnings.extend(unlisted(config, &postfix));
        warnings.extend(lookup::access_warning(&lookup));
        let parameters = postfix.parameters(&lookup)?;
        Ok(Self {
            dovecot,
            postfix,
            lookup,
            config: merged,
            users: tested.users,
            files,
            parameters,
            notices,
            settings,
            warnings,
        })
    }

    /// Returns the plan as lines for the operator.
    pub(super) fn lines(&self) -> Vec<String> {
        let (dovecot, postfix) = (&self.dovecot, &self.postfix);
        let milters = match postfix.milters.as_str() {
            "" => "none",
            milters => milters,
        };
        let domains: Vec<&str> = postfix.domains.iter().map(String::as_str).collect();
        let mut lines = vec![
            format!("Dovecot {}", dovecot.version_text),
            format!("  user sources  {}", dovecot.passdbs.join(", ")),
            format!("  mailboxes     {}", dovecot.mail_format),
            format!(
                "  IMAP          {}",
                describe(&self.config.imap.address, self.config.imap.tls, false)
            ),
            format!("  ManageSieve   {}", sieve_line(&self.config)),
            format!("  notices       {}", notices_line(&self.config)),
            format!("Postfix {}", postfix.version),
            format!(
                "  submission    {}",
                describe(
                    &self.config.smtp.address,
                    self.config.smtp.tls,
                    self.config.smtp.starttls
                )
            ),
            format!("  domains       {}", domains.join(", ")),
            format!("  milters       {milters}"),
            format!(
                "Test user {}",
                self.users
                    .iter()
                    .map(TestUser::describe)
                    .collect::<Vec<_>>()
                    .join(", or if the test fails "),
            ),
            String::new(),
            "Changes".into(),
        ];
        for file in &self.files {
            lines.push(format!("  create {}", file.path.display()));
        }
        for parameter in &self.parameters {
            lines.push(format!(
                "  append to {} in {}: {}",
                parameter.name,
                postfix.main_cf().display(),
                parameter.added
            ));
        }
        lines.push("  reload Dovecot and Postfix".into());
        lines.push(format!("note: {PASSWORD_NOTE}"));
        for warning in &self.warnings {
            lines.push(format!("warning: {}", escape(warning)));
        }
        lines
    }
}

/// Describes the access to Sieve scripts.
fn sieve_line(config: &Config) -> String {
    if config.sieve.address.is_empty() {
        return "none, so there are neither vacation responses nor rules".into();
    }
    describe(&config.sieve.address, false, config.imap.tls)
}

/// Describes the notices about changes.
fn notices_line(config: &Config) -> String {
    let address = config.events.listen.map(|address| address.to_string());
    address.unwrap_or_else(|| "none".into())
}

fn describe(address: &str, tls: bool, starttls: bool) -> String {
    let how = match (tls, starttls) {
        (true, _) => "with TLS",
        (_, true) => "with STARTTLS",
        _ => "without TLS",
    };
    format!("{address} {how}")
}

/// Returns the text of the file with the settings of the service.
fn settings(
    dovecot: &Dovecot,
    (imap, smtp, sieve): (&Imap, &Smtp, &Sieve),
    config: &Config,
    default_domain: &str,
) -> anyhow::Result<String> {
    let most = dovecot.connections.saturating_sub(OTHER_CONNECTIONS).max(1);
    let connections = match dovecot.connections {
        0 => config.imap.connections_per_account,
        _ => config.imap.connections_per_account.min(most),
    };
    // The service uses at most a quarter of the IMAP processes, so most processes remain for mail
    // clients. A limit of 0 means that there is no limit.
    let idle = match dovecot.imap_processes / 4 {
        0 => config.imap.idle_connections,
        quarter => config.imap.idle_connections.min(quarter),
    };
    let path = |path: &Path| path.display().to_string();
    let (doveadm, key_file) = dovecot.doveadm().unwrap_or_default();
    fill(
        SETTINGS,
        &[
            ("imap", &imap.address),
            ("imap_tls", &imap.tls.to_string()),
            ("connections", &connections.to_string()),
            ("idle_connections", &idle.to_string()),
            ("sieve", &sieve.address),
            ("smtp", &smtp.address),
            ("smtp_tls", &smtp.tls.to_string()),
            ("smtp_starttls", &smtp.starttls.to_string()),
            ("auth_socket", &path(&dovecot.auth_socket())),
            ("lookup_socket", &path(&dovecot.lookup_socket())),
            ("default_domain", default_domain),
            ("separator", &dovecot.master_separator),
            ("doveadm", &doveadm),
            ("doveadm_key_file", &path(&key_file)),
        ],
    )
}

/// Returns a warning if the mail server has domains that the service does not list.
fn unlisted(config: &Config, postfix: &Postfix) -> Option<String> {
    let listed = &config.registration.domains;
    let missing: Vec<&str> = postfix
        .domains
        .iter()
        .filter(|domain| !listed.contains(domain))
        .map(String::as_str)
        .collect();
    (!missing.is_empty()).then(|| {
        format!(
            "users of these domains cannot sign in, because `registration.domains` does not list them: {}",
            missing.join(", ")
        )
    })
}
