//! `latchmail alias import`: imports the aliases of an existing Postfix.
//!
//! An address that is not imported, but receives mail at the mail server, is reserved. Otherwise a
//! user could create an alias with this address, and send mail from this address. Addresses of the
//! mail server's own users are never reserved, because the reservation would prevent the user's
//! first sign-in.

mod resolve;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Subcommand;
use latchmail_core::address;
use latchmail_directory::aliases::imports::AliasImport;
use latchmail_directory::aliases::reserved_addresses::Reservation;
use latchmail_terminal::output::escape;

use self::resolve::{Aliases, Names, Resolved};
use crate::adoption::PlatformDomains;
use crate::context::{CliContext, ServiceArgs};
use crate::import::{self, Report, Status};
use crate::mail_server_users::{Lookup, MailServerUsers};
use crate::postfix_table::Table;

/// Subcommands of `latchmail alias`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Import the aliases of a Postfix table, the source file of virtual(5) or aliases(5).
    ///
    /// Imports addresses on platform domains with exactly one target, which must be an account or a
    /// user of the mail server.
    ///
    /// Prints every other entry with the reason, and reserves its address so that no user can
    /// create an alias of this name. The exit status is 1 if an entry was not imported. The command
    /// can be repeated.
    Import(Import),
}

/// Arguments of `latchmail alias import`.
#[derive(Debug, clap::Args)]
pub struct Import {
    /// Source file of the table, for example /etc/postfix/virtual or /etc/aliases. `-` is standard
    /// input.
    file: PathBuf,
    /// Domain of names without a domain [default: the first of `registration.domains`].
    #[arg(long)]
    domain: Option<String>,
    /// Print one JSON object for each entry.
    #[arg(long)]
    json: bool,
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if an entry was not imported, or if the command fails. A failed command can be
/// repeated.
pub async fn run(service: &ServiceArgs, command: Command) -> anyhow::Result<()> {
    let context = CliContext::open(service).await?;
    let Command::Import(arguments) = command;
    let result = Box::pin(import(&context, &arguments)).await;
    context.close().await;
    result
}

async fn import(context: &CliContext, arguments: &Import) -> anyhow::Result<()> {
    let domain = arguments.domain.as_deref().map(parse_domain).transpose()?;
    let report = import_table(context, &arguments.file, domain).await?;
    report.print(arguments.json)
}

/// Imports the aliases of a table. Names without a domain belong to `domain`, by default the first
/// registration domain.
///
/// # Errors
/// Returns an error if the file or the database cannot be used. The import can be repeated.
pub(crate) async fn import_table(
    context: &CliContext,
    file: &Path,
    domain: Option<String>,
) -> anyhow::Result<Report> {
    let names = Names::new(&context.config, domain);
    let platform = context.platform_domains().await?;
    let table = Table::parse(&import::read(file)?);
    let (aliases, rows) = Aliases::new(table, names, &platform);
    let mut importer = Importer {
        context,
        users: MailServerUsers::new(&context.config.sign_in),
        platform,
        accounts: HashMap::new(),
    };
    let mut report = Report::default();
    for row in rows {
        let status = match row.address {
            Err(reason) => Some(Status::failed(reason)),
            Ok(address) => {
                let status = importer.import(&address, aliases.resolve(&address)).await;
                status.with_context(|| {
                    format!(
                        "the import stopped at {}, and can be repeated",
                        escape(&row.name)
                    )
                })?
            }
        };
        if let Some(status) = status {
            report.add(row.name, status);
        }
    }
    Ok(report)
}

/// Returns the canonical form of a domain. The domain can be a single label or a public suffix, as
/// in `registration.domains`.
fn parse_domain(domain: &str) -> anyhow::Result<String> {
    address::fold_domain(domain).ok_or_else(|| anyhow!("`{}` is not a domain", escape(domain)))
}

struct Importer<'a> {
    context: &'a CliContext,
    users: MailServerUsers<'a>,
    platform: PlatformDomains,
    /// The results of [`Importer::account`], by target.
    accounts: HashMap<String, Result<String, String>>,
}

impl Importer<'_> {
    /// Imports an entry. Returns `None` for an entry that delivers to its own address.
    async fn import(
        &mut self,
        address: &str,
        resolved: Result<Resolved, String>,
    ) -> anyhow::Result<Option<Status>> {
        let target = match resolved {
            Ok(Resolved::Itself) => return Ok(None),
            Ok(Resolved::Address(target)) => Ok(target),
            Err(reason) => Err(reason),
        };
        if let Err(reason) = self.platform.check(address) {
            return Ok(Some(Status::failed(reason)));
        }
        let directory = &self.context.directory;
        let holder = directory.aliases.address_holder(address).await?;
        if holder.as_ref().is_some_and(|holder| !holder.is_alias) {
            return Ok(Some(Status::failed("is an account")));
        }
        let user = self.user(address).await;
        match &user {
            Lookup::User(_) => return Ok(Some(Status::failed("is a user of the mail server"))),
            Lookup::Failed(reason) => {
                return Ok(Some(Status::failed(format!(
                    "the mail server cannot look up the address: {reason}"
                ))));
            }
            Lookup::NotFound | Lookup::Unknown => {}
        }
        let account = match target {
            Ok(target) => self.account(&target).await?,
            Err(reason) => Err(reason),
        };
        Ok(Some(match account {
            Ok(account) if holder.as_ref().is_some_and(|holder| holder.id == account) => {
                Status::Unchanged
            }
            Ok(account) => self.create(address, &account).await?,
            Err(reason) => match holder {
                Some(holder) => {
                    Status::failed(format!("{reason}, and is an alias of {}", holder.address))
                }
                None => self.refuse(address, reason, &user).await?,
            },
        }))
    }

    /// Looks up the user whose own address is `address`. Ignores a user with another address,
    /// because a mail server that rewrites names can find a user by several addresses.
    async fn user(&mut self, address: &str) -> Lookup {
        let sign_in = &self.context.config.sign_in;
        match self.users.find(address).await {
            Lookup::User(name) if sign_in.address(&name).as_deref() != Some(address) => {
                Lookup::NotFound
            }
            found => found,
        }
    }

    /// Returns the id of the account that receives the mail of `target`. Creates the account if the
    /// mail server has the user. Otherwise returns the reason why there is no account.
    async fn account(&mut self, target: &str) -> anyhow::Result<Result<String, String>> {
        if let Some(known) = self.accounts.get(target) {
            return Ok(known.clone());
        }
        let account = match self
            .context
            .directory
            .aliases
            .address_holder(target)
            .await?
        {
            Some(holder) => Ok(holder.id),
            None => self.new_account(target).await?,
        };
        self.accounts.insert(target.to_owned(), account.clone());
        Ok(account)
    }

    async fn new_account(&mut self, target: &str) -> anyhow::Result<Result<String, String>> {
        if self.platform.check(target).is_err() {
            return Ok(Err(format!(
                "delivers to {target}, which is not on a platform domain"
            )));
        }
        let missing = format!("no account {target}");
        let login_name = match self.users.find(target).await {
            Lookup::User(login_name) => login_name,
            Lookup::NotFound | Lookup::Unknown => return Ok(Err(missing)),
            Lookup::Failed(reason) => {
                return Ok(Err(format!(
                    "the mail server cannot look up {target}: {reason}"
                )));
            }
        };
        let (context, directory) = (self.context, &self.context.directory);
        let user = match context.adopted_user(&login_name, &self.platform)? {
            Ok(user) => user,
            Err(reason) => {
                return Ok(Err(format!("{missing}: the user {login_name} {reason}")));
            }
        };
        let address = user.account.address.clone();
        directory
            .accounts
            .adopt_users(&[user], &context.origin)
            .await?;
        let account = directory.accounts.by_address(&address).await?;
        Ok(account.map_or_else(
            || Err(format!("{missing}: {address} is an alias or reserved")),
            |account| Ok(account.id),
        ))
    }

    async fn create(&self, address: &str, account: &str) -> anyhow::Result<Status> {
        let (now, origin) = (self.context.clock.now(), &self.context.origin);
        let imported = self
            .context
            .directory
            .aliases
            .import(address, account, now, origin)
            .await?;
        Ok(match imported {
            AliasImport::Imported => Status::Imported,
            AliasImport::Unchanged => Status::Unchanged,
            AliasImport::Account => Status::failed("is an account"),
            AliasImport::AliasOf(owner) => Status::failed(format!("is an alias of {owner}")),
            AliasImport::Reserved => Status::Failed {
                reason: "was deleted, or belonged to a deleted account; `latchmail domain free` releases it".into(),
                reserved: true,
            },
            AliasImport::CustomDomain => {
                Status::failed("is on a domain that an account has verified")
            }
            AliasImport::NoAccount => Status::failed("its account was deleted concurrently"),
        })
    }

    /// Reserves an address that is not imported. Does not reserve an address that may be a user of
    /// the mail server. Users cannot create an alias with such an address.
    async fn refuse(&self, address: &str, reason: String, user: &Lookup) -> anyhow::Result<Status> {
        let mut reserved = false;
        if *user == Lookup::NotFound {
            let (now, origin) = (self.context.clock.now(), &self.context.origin);
            let reservation = self
                .context
                .directory
                .aliases
                .reserve_address(address, now, origin)
                .await?;
            reserved = matches!(reservation, Reservation::Reserved | Reservation::Already);
        }
        Ok(Status::Failed { reason, reserved })
    }
}
