//! `latchmail domain …`: commands that show and change domains, and reserve addresses.
//!
//! The subcommands `show` and `verify` query the DNS server that the configuration of the service
//! contains.

mod import;
mod output;
mod routes;

use std::sync::Arc;

use anyhow::{anyhow, bail};
use clap::Subcommand;
use latchmail_accounts::domains::{Challenge, Domains};
use latchmail_core::keyring::Keyring;
use latchmail_directory::aliases::reserved_addresses::AddressRelease;
use latchmail_directory::aliases::reserved_addresses::Reservation;
use latchmail_directory::domains::platform_domains::{Added, Removed};
use latchmail_directory::domains::{Claim, Domain, DomainCaller, Released, Remaining, Verified};
use latchmail_net::dns::{self, Dns};
use latchmail_terminal::input::parse_address;
use latchmail_terminal::output::{escape, print_line, print_lines, table};

use crate::context::{CliContext, ServiceArgs};

/// Subcommands of `latchmail domain`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the platform domains, and the domains that accounts own or claim.
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Show a domain: its owner, its claims, and whether its DNS records are published.
    Show {
        /// Name of the domain.
        domain: String,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Verify a claimed domain. The claimant becomes the owner if the DNS contains the challenge.
    Verify {
        /// Name of the domain.
        domain: String,
        /// Address of the claimant. Required if several accounts claim the domain.
        #[arg(long, value_name = "ADDRESS")]
        account: Option<String>,
        /// Verify the domain without looking up the challenge in the DNS.
        #[arg(long)]
        unchecked: bool,
    },
    /// Remove a domain, or a claim to a domain, from its account. The service then rejects mail for
    /// the domain, and the domain's DKIM key is destroyed.
    Release {
        /// Name of the domain.
        domain: String,
        /// Address of the owner or claimant. Required if several accounts claim the domain.
        #[arg(long, value_name = "ADDRESS")]
        account: Option<String>,
        /// Also delete the account's aliases on the domain. Without this option, the command fails
        /// if the account has aliases on the domain.
        #[arg(long)]
        aliases: bool,
    },
    /// Add a platform domain, in addition to the domains in the configuration. Every account can
    /// create aliases on the domain, and the operator can create accounts on it.
    Add {
        /// Name of the domain.
        domain: String,
    },
    /// Add the platform domains in a file, as `add` does.
    ///
    /// The exit status is 1 if a domain was not added. The command can be repeated.
    Import(import::Import),
    /// Remove a platform domain that `latchmail domain add` added.
    Remove {
        /// Name of the domain.
        domain: String,
    },
    /// Show or change where mail goes for addresses that are no account and no alias.
    Routes {
        /// Name of the domain.
        domain: String,
        /// Address of the account that receives mail for unknown addresses, or `none`.
        #[arg(long, value_name = "ADDRESS")]
        catch_all: Option<String>,
        /// Character before the extension of an address (`+`), or `none`.
        #[arg(long, value_name = "CHARACTER")]
        separator: Option<String>,
    },
    /// Reserve an address, so that no account can use it.
    Hold {
        /// Address to reserve.
        address: String,
    },
    /// Release an address that `hold` reserved or that belonged to a former owner, so that any
    /// account can use it.
    Free {
        /// Address to release.
        address: String,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if the command fails. The error text is one sentence for the operator. A failed
/// command has changed nothing.
pub async fn run(service: &ServiceArgs, command: Command) -> anyhow::Result<()> {
    let context = CliContext::open(service).await?;
    let result = match command {
        Command::List { json } => context.list_domains(json).await,
        Command::Show { domain, json } => context.show_domain(&domain, json).await,
        Command::Verify {
            domain,
            account,
            unchecked,
        } => {
            context
                .verify_domain(&domain, account.as_deref(), unchecked)
                .await
        }
        Command::Release {
            domain,
            account,
            aliases,
        } => {
            let aliases = if aliases {
                Remaining::Delete
            } else {
                Remaining::Keep
            };
            context
                .release_domain(&domain, account.as_deref(), aliases)
                .await
        }
        Command::Add { domain } => context.add_domain(&domain).await,
        Command::Import(arguments) => import::run(&context, &arguments).await,
        Command::Remove { domain } => context.remove_domain(&domain).await,
        Command::Routes {
            domain,
            catch_all,
            separator,
        } => routes::run(&context, &domain, catch_all, separator).await,
        Command::Hold { address } => context.hold_address(&address).await,
        Command::Free { address } => context.release_address(&address).await,
    };
    context.close().await;
    result
}

impl CliContext {
    async fn list_domains(&self, json: bool) -> anyhow::Result<()> {
        let platform = self.directory.domains.platform_domains().await?;
        let claims = self.directory.domains.claims("").await?;
        if json {
            let platform = platform.iter().map(output::platform_json);
            let claims = claims.iter().map(output::claim_json);
            return print_lines(platform.chain(claims).map(|line| line.to_string()));
        }
        if platform.is_empty() && claims.is_empty() {
            return print_line("There are no domains.");
        }
        let heading = ["domain", "state", "account", "since"];
        let platform = platform.iter().map(output::platform_row);
        let claims = claims.iter().map(output::claim_row);
        print_lines(table(heading, platform.chain(claims)))
    }

    async fn show_domain(&self, domain: &str, json: bool) -> anyhow::Result<()> {
        let name = parse_domain(domain)?;
        let platform = self.directory.domains.platform_domain(&name).await?;
        let claims = self.directory.domains.claims(&name).await?;
        if platform.is_none() && claims.is_empty() {
            bail!("{name} is not a platform domain, and no account claims it");
        }
        let domains = self.domains(self.keyring().await?)?;
        let mut published = Vec::with_capacity(claims.len());
        for claim in &claims {
            published.push(match Challenge::of(&claim.domain) {
                Some(challenge) => domains.is_published(&challenge).await,
                None => None,
            });
        }
        // The directory lists the claim of the owner before other claims. A platform domain has no
        // owner, and its DKIM key is in the configuration.
        let owned = claims.first().map(|claim| claim.domain.clone());
        let inspected = owned.unwrap_or_else(|| Domain {
            name: name.clone(),
            challenge: String::new(),
            created_at: self.clock.now(),
            verified_at: None,
            dkim: None,
        });
        let detail = output::DomainDetail {
            name: &name,
            platform: platform.as_ref(),
            claims: &claims,
            published: &published,
            in_use: self.directory.domains.in_use(&name).await?,
            reserved: &self.directory.domains.reserved_on(&name).await?,
            records: &domains.inspected(inspected).await.records,
        };
        if json {
            print_line(&detail.json().to_string())
        } else {
            print_line(&detail.text())
        }
    }

    async fn verify_domain(
        &self,
        domain: &str,
        account: Option<&str>,
        unchecked: bool,
    ) -> anyhow::Result<()> {
        let claim = self.claim(&parse_domain(domain)?, account).await?;
        let (name, owner) = (&claim.domain.name, &claim.owner);
        let Some(challenge) = Challenge::of(&claim.domain) else {
            return print_line(&format!("{name} is already active for {owner}."));
        };
        let domains = self.domains(self.keyring().await?)?;
        if !unchecked {
            match domains.is_published(&challenge).await {
                Some(true) => {}
                Some(false) => bail!(
                    "there is no TXT record at {} with the value {}; --unchecked skips this check",
                    challenge.host,
                    challenge.value
                ),
                None => bail!("the DNS lookup failed; nothing was changed"),
            }
        }
        let verified = domains
            .activate(self.caller(&claim), &claim.domain, &self.origin)
            .await?;
        match verified {
            Verified::Active(_) => print_line(&format!(
                "{name} is active for {owner}: mail for it is accepted from now on."
            )),
            Verified::Taken => bail!("another account verified {name} concurrently"),
            Verified::Platform => {
                bail!("{name} is a platform domain, or another account has an address on it")
            }
            Verified::Gone | Verified::SessionOver => bail!("{owner} released {name} concurrently"),
        }
    }

    async fn release_domain(
        &self,
        domain: &str,
        account: Option<&str>,
        aliases: Remaining,
    ) -> anyhow::Result<()> {
        let claim = self.claim(&parse_domain(domain)?, account).await?;
        let (name, owner) = (&claim.domain.name, &claim.owner);
        let released =
            self.directory
                .domains
                .release(self.caller(&claim), name, aliases, &self.origin);
        let consequence = match aliases {
            Remaining::Keep => "",
            Remaining::Delete => "the aliases on it are deleted, ",
        };
        match released.await? {
            Released::Released if claim.domain.verified_at.is_some() => print_line(&format!(
                "{name} no longer belongs to {owner}: {consequence}mail for it is refused, and its key is destroyed."
            )),
            Released::Released => print_line(&format!("{owner} no longer claims {name}.")),
            Released::HasAliases => {
                bail!(
                    "{owner} has aliases on {name}, which must be deleted first; --aliases deletes them"
                )
            }
            Released::Unknown | Released::SessionOver => {
                bail!("{owner} released {name} concurrently")
            }
        }
    }

    async fn add_domain(&self, domain: &str) -> anyhow::Result<()> {
        let name = parse_domain(domain)?;
        let now = self.clock.now();
        let added = self
            .directory
            .domains
            .add_platform_domain(&name, now, &self.origin)
            .await?;
        match added {
            Added::Added { voided: 0 } => print_line(&format!("{name} is a platform domain.")),
            Added::Added { voided } => print_line(&format!(
                "{name} is a platform domain. Claims of accounts that were voided: {voided}."
            )),
            Added::Already => print_line(&format!("{name} is already a platform domain.")),
            Added::Taken(owner) => bail!("{name} belongs to {owner}, who verified it"),
        }
    }

    async fn remove_domain(&self, domain: &str) -> anyhow::Result<()> {
        let name = parse_domain(domain)?;
        let now = self.clock.now();
        let removed = self
            .directory
            .domains
            .remove_platform_domain(&name, now, &self.origin)
            .await?;
        match removed {
            Removed::Removed => print_line(&format!(
                "{name} is no longer a platform domain: mail for it is refused."
            )),
            Removed::Unknown => bail!("{name} is not a platform domain"),
            Removed::Configured => {
                bail!("{name} is set in `registration.domains`: remove it there")
            }
            Removed::InUse(in_use) => bail!(
                "there are addresses on {name}: accounts {}, aliases {}; nothing was changed",
                in_use.accounts,
                in_use.aliases
            ),
        }
    }

    async fn hold_address(&self, address: &str) -> anyhow::Result<()> {
        let address = parse_address(address)?;
        let now = self.clock.now();
        match self
            .directory
            .aliases
            .reserve_address(&address, now, &self.origin)
            .await?
        {
            Reservation::Reserved => {
                print_line(&format!("{address} is held: no account can use it."))
            }
            Reservation::Already => print_line(&format!("{address} is already held.")),
            Reservation::Taken => bail!("{address} is in use, as an account or an alias"),
        }
    }

    async fn release_address(&self, address: &str) -> anyhow::Result<()> {
        let address = parse_address(address)?;
        let now = self.clock.now();
        let released = self
            .directory
            .aliases
            .release_reserved_address(&address, now, &self.origin)
            .await?;
        if released {
            return print_line(&format!("{address} is released: any account can use it."));
        }
        let release = self
            .directory
            .aliases
            .free_address(&address, now, &self.origin)
            .await?;
        match release {
            AddressRelease::Released => {
                print_line(&format!("{address} is released: any account can use it."))
            }
            AddressRelease::NotReserved => {
                print_line(&format!("{address} is neither held nor reserved."))
            }
            AddressRelease::InUse => bail!("{address} is in use, as an account or an alias"),
        }
    }

    /// Returns the claim of `account` for a domain. Without `account`, returns the only claim, or
    /// an error if several accounts claim the domain.
    async fn claim(&self, name: &str, account: Option<&str>) -> anyhow::Result<Claim> {
        let claims = self.directory.domains.claims(name).await?;
        if let Some(account) = account {
            let account = parse_address(account)?;
            let claim = claims.into_iter().find(|claim| claim.owner == account);
            return claim.ok_or_else(|| anyhow!("{account} does not claim {name}"));
        }
        match claims.as_slice() {
            [] => bail!("no account claims {name}"),
            [claim] => Ok(claim.clone()),
            several => {
                let owners: Vec<&str> = several.iter().map(|c| c.owner.as_str()).collect();
                bail!(
                    "several accounts claim {name}; select one with --account: {}",
                    owners.join(", ")
                )
            }
        }
    }

    fn domains(&self, keys: Keyring) -> anyhow::Result<Domains> {
        let keys = Arc::new(keys);
        let signing = latchmail_dkim::Keys::new(
            &self.config.dkim,
            self.directory.clone(),
            Arc::clone(&keys),
        )?;
        Ok(Domains::new(
            &self.config,
            self.directory.clone(),
            Arc::new(Dns::new(&self.config.dns, &self.config.mail_host())?),
            keys,
            Arc::new(signing),
            self.clock.clone(),
        ))
    }

    fn caller<'a>(&self, claim: &'a Claim) -> DomainCaller<'a> {
        DomainCaller {
            account_id: &claim.account_id,
            sid: None,
            at: self.clock.now(),
        }
    }
}

/// Parses a domain name, and converts the name to lower-case ASCII.
fn parse_domain(domain: &str) -> anyhow::Result<String> {
    let name = dns::DomainName::parse(domain);
    let name = name.map_err(|_| anyhow!("`{}` is not a domain", escape(domain)))?;
    Ok(name.into())
}
