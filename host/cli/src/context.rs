//! The context of the commands that open the database of the service.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{anyhow, bail};
use latchmail_accounts::account_rules::AccountRules;
use latchmail_accounts::service_keys;
use latchmail_core::caller::Origin;
use latchmail_core::clock::Clock;
use latchmail_core::config::{self, Config};
use latchmail_core::keyring::Keyring;
use latchmail_directory::Directory;
use latchmail_directory::accounts::Account;
use latchmail_mailbox::SessionSelector;
use latchmail_terminal::input::parse_address;
use latchmail_terminal::output::escape;

use crate::config_file;

/// The argument that selects the service.
#[derive(Debug, Clone, clap::Args)]
pub struct ServiceArgs {
    /// Configuration file [default: `$LATCHMAIL_CONFIG`, `/etc/latchmail/latchmail.toml`, or the
    /// file of `latchmail dev`]. Environment variables override it.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ServiceArgs {
    /// Reads the configuration.
    ///
    /// # Errors
    /// Returns an error if there is no configuration file, or if the configuration is invalid.
    pub fn load_config(&self) -> anyhow::Result<Config> {
        Ok(Config::load(Some(&self.locate()?))?)
    }

    /// Returns the path of the configuration file.
    pub(crate) fn locate(&self) -> anyhow::Result<PathBuf> {
        config_file::locate(self.config.as_deref(), &config::environment())
    }
}

/// The data that every command needs. The audit events of a command contain `origin`.
pub(crate) struct CliContext {
    pub(crate) config: Config,
    pub(crate) directory: Directory,
    pub(crate) clock: Clock,
    pub(crate) origin: Origin,
}

impl CliContext {
    pub(crate) async fn open(service: &ServiceArgs) -> anyhow::Result<Self> {
        let config = service.load_config()?;
        let database = config::Database {
            max_connections: 1,
            ..config.database()
        };
        Ok(Self {
            directory: Directory::open_beside_service(&database).await?,
            config,
            clock: Clock::system(),
            origin: Origin::operator(),
        })
    }

    /// Returns the rules for accounts that the operator creates or changes.
    pub(crate) fn account_rules(&self) -> AccountRules {
        AccountRules::new(&self.config, self.directory.clone(), self.clock.clone())
    }

    pub(crate) async fn close(self) {
        self.directory.close().await;
    }

    pub(crate) async fn account(&self, address: &str) -> anyhow::Result<Account> {
        let address = parse_address(address)?;
        let account = self.directory.accounts.by_address(&address).await?;
        account.ok_or_else(|| account_not_found(&address))
    }

    /// Returns an error if the mail server stores the password of this address, or if the user
    /// signs in at the identity provider. `action` is the end of the error text.
    pub(crate) fn require_own_password(&self, address: &str, action: &str) -> anyhow::Result<()> {
        if self.config.sign_in.is_at_provider(address) {
            bail!(
                "{address} signs in at the identity provider (`sign_in.source` or `sign_in.domains`), so {action}"
            );
        }
        if !self.config.sign_in.is_at_mail_server(address) {
            return Ok(());
        }
        bail!(
            "the mail server stores the password of {address} (`sign_in.source` or `sign_in.domains`), so {action}"
        )
    }

    /// Loads the encryption keys of the service. Returns an error if the key file is missing. A
    /// command must not create the file: a new key cannot decrypt the data that the service's key
    /// encrypted.
    pub(crate) async fn keyring(&self) -> anyhow::Result<Keyring> {
        let file = &self.config.key_file;
        if !file.exists() {
            bail!(
                "key file {} not found: the service creates it at its first start, and a relative `key_file` is resolved against the current directory",
                file.display()
            );
        }
        Ok(service_keys::keyring(&self.directory, file).await?)
    }

    /// Ends the mail server sessions of revoked credentials. The function takes some seconds.
    ///
    /// Call this function after the command has printed its result, even if printing failed. On
    /// failure, the function only prints a warning, because the directory already rejects the
    /// revoked credentials.
    pub(crate) async fn end_sessions(&self, sessions: SessionSelector<'_>) {
        let reason = match latchmail_mailbox::end_server_sessions(&self.config, sessions).await {
            Ok(true) => return,
            Ok(false) => "`imap.doveadm` is not configured".to_owned(),
            Err(error) => error.to_string(),
        };
        // If the warning cannot be written, ignore the error. The exit status of the command
        // reports success, because the change was made.
        let _ = writeln!(
            std::io::stderr(),
            "latchmail: warning: cannot end the open sessions of mail clients: {}",
            escape(&reason)
        );
    }
}

pub(crate) fn account_not_found(address: &str) -> anyhow::Error {
    anyhow!("there is no account {address}")
}
