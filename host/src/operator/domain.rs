//! `latchmail domain …`: the operator's verbs on domains and on addresses that nobody is to have. What they look up in the DNS is looked up now, with
//! the service's own settings.

use std::sync::Arc;

use anyhow::{anyhow, bail};
use clap::Subcommand;

use super::{Desk, Service, folded, keys, list, say, sentence, shown, shown_domains};
use crate::auth::keyring::Keyring;
use crate::directory::administration::Freeing;
use crate::directory::domains::{By, Claim, Domain, Released, Remaining, Verified};
use crate::directory::held::Holding;
use crate::directory::platform_domains::{Added, Removed};
use crate::dkim;
use crate::dns::{self, Dns};
use crate::domains::{Challenge, Domains};

/// What is to be done to domains.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List the platform's domains, and those that accounts have or claim.
    List {
        /// One JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Show a domain: whose it is, who claims it, and whether its records are in the DNS now.
    Show {
        /// The domain.
        domain: String,
        /// As a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Make a claimed domain its claimant's, where the DNS proves it.
    Verify {
        /// The domain.
        domain: String,
        /// The claimant's address; needed where several claim it.
        #[arg(long, value_name = "ADDRESS")]
        account: Option<String>,
        /// Take the claimant's word: do not look for the challenge.
        #[arg(long)]
        unchecked: bool,
    },
    /// Take a domain, or the claim of one, from its account. Mail for it is refused from then on, and its key is destroyed.
    Release {
        /// The domain.
        domain: String,
        /// The account's address; needed where several claim it.
        #[arg(long, value_name = "ADDRESS")]
        account: Option<String>,
        /// Delete the account's aliases on it, too: without it, a domain with aliases stays.
        #[arg(long)]
        aliases: bool,
    },
    /// Make a domain the platform's, beside those of the configuration: for everybody's aliases, and for accounts that the operator makes.
    Add {
        /// The domain.
        domain: String,
    },
    /// Make a domain that was added the platform's no longer.
    Remove {
        /// The domain.
        domain: String,
    },
    /// Hold an address, so that nobody can have it.
    Hold {
        /// The address.
        address: String,
    },
    /// Let anybody have an address that was held, or that somebody had.
    Free {
        /// The address.
        address: String,
    },
}

/// Does it.
///
/// # Errors
/// One sentence. Nothing was changed then.
pub async fn run(service: &Service, verb: Verb) -> anyhow::Result<()> {
    let desk = Desk::open(service).await?;
    let done = match verb {
        Verb::List { json } => desk.list_domains(json).await,
        Verb::Show { domain, json } => desk.show_domain(&domain, json).await,
        Verb::Verify {
            domain,
            account,
            unchecked,
        } => {
            desk.verify_domain(&domain, account.as_deref(), unchecked)
                .await
        }
        Verb::Release {
            domain,
            account,
            aliases,
        } => {
            let aliases = if aliases {
                Remaining::Delete
            } else {
                Remaining::Keep
            };
            desk.release_domain(&domain, account.as_deref(), aliases)
                .await
        }
        Verb::Add { domain } => desk.add_domain(&domain).await,
        Verb::Remove { domain } => desk.remove_domain(&domain).await,
        Verb::Hold { address } => desk.hold(&address).await,
        Verb::Free { address } => desk.let_go(&address).await,
    };
    desk.close().await;
    done
}

impl Desk {
    async fn list_domains(&self, json: bool) -> anyhow::Result<()> {
        let platform = self.directory.platform_domains().await?;
        let claims = self.directory.domain_claims("").await?;
        if json {
            let platform = platform.iter().map(shown_domains::platform_json);
            let claims = claims.iter().map(shown_domains::claim_json);
            return list(platform.chain(claims).map(|line| line.to_string()));
        }
        if platform.is_empty() && claims.is_empty() {
            return say("There are no domains.");
        }
        let heading = ["domain", "state", "account", "since"].map(Into::into);
        let rows: Vec<[String; 4]> = std::iter::once(heading)
            .chain(platform.iter().map(shown_domains::platform_row))
            .chain(claims.iter().map(shown_domains::claim_row))
            .collect();
        list(shown::table(&rows).into_iter())
    }

    async fn show_domain(&self, domain: &str, json: bool) -> anyhow::Result<()> {
        let name = named(domain)?;
        let platform = self.directory.platform_domain(&name).await?;
        let claims = self.directory.domain_claims(&name).await?;
        if platform.is_none() && claims.is_empty() {
            bail!("{name} is none of the platform's domains, and nobody claims it");
        }
        let domains = self.domains(keys(self)?)?;
        let mut proved = Vec::with_capacity(claims.len());
        for claim in &claims {
            proved.push(match Challenge::of(&claim.domain) {
                Some(challenge) => domains.proved(&challenge).await,
                None => None,
            });
        }
        // Whoever has it before those that claim it; a platform's has its key in the configuration.
        let holder = claims.first().map(|claim| claim.domain.clone());
        let holder = holder.unwrap_or_else(|| Domain {
            name: name.clone(),
            challenge: String::new(),
            created_at: self.clock.now(),
            verified_at: None,
            dkim: None,
        });
        let shown = shown_domains::Shown {
            name: &name,
            platform: platform.as_ref(),
            claims: &claims,
            proved: &proved,
            in_use: self.directory.in_use(&name).await?,
            held: &self.directory.held_on(&name).await?,
            records: &domains.inspected(holder).await.records,
        };
        if json {
            say(&shown.json().to_string())
        } else {
            say(&shown.lines())
        }
    }

    async fn verify_domain(
        &self,
        domain: &str,
        account: Option<&str>,
        unchecked: bool,
    ) -> anyhow::Result<()> {
        let claim = self.claim(&named(domain)?, account).await?;
        let (name, owner) = (&claim.domain.name, &claim.owner);
        let Some(challenge) = Challenge::of(&claim.domain) else {
            return say(&format!("{name} is active for {owner} already."));
        };
        let domains = self.domains(keys(self)?)?;
        if !unchecked {
            match domains.proved(&challenge).await {
                Some(true) => {}
                Some(false) => bail!(
                    "there is no TXT record at {} that says {}; --unchecked takes the claimant's word",
                    challenge.host,
                    challenge.value
                ),
                None => bail!("the DNS cannot be read now; nothing was changed"),
            }
        }
        let verified = domains
            .activate(self.by(&claim), &claim.domain, &self.origin)
            .await
            .map_err(|failure| sentence(&failure))?;
        match verified {
            Verified::Active(_) => say(&format!(
                "{name} is active for {owner}: mail for it is taken from now on."
            )),
            Verified::Taken => bail!("somebody else verified {name} meanwhile"),
            Verified::Platform => {
                bail!("{name} is the platform's, or somebody has an address on it")
            }
            Verified::Gone | Verified::SessionOver => bail!("{owner} gave {name} up meanwhile"),
        }
    }

    async fn release_domain(
        &self,
        domain: &str,
        account: Option<&str>,
        aliases: Remaining,
    ) -> anyhow::Result<()> {
        let claim = self.claim(&named(domain)?, account).await?;
        let (name, owner) = (&claim.domain.name, &claim.owner);
        let released = self
            .directory
            .release_domain(self.by(&claim), name, aliases, &self.origin);
        let with_them = match aliases {
            Remaining::Keep => "",
            Remaining::Delete => "the aliases on it are deleted, ",
        };
        match released.await? {
            Released::Released if claim.domain.verified_at.is_some() => say(&format!(
                "{name} is {owner}'s no longer: {with_them}mail for it is refused, and its key is destroyed."
            )),
            Released::Released => say(&format!("{owner} claims {name} no longer.")),
            Released::HasAliases => {
                bail!(
                    "{owner} has aliases on {name}, which have to be deleted first; --aliases deletes them"
                )
            }
            Released::Unknown | Released::SessionOver => bail!("{owner} gave {name} up meanwhile"),
        }
    }

    async fn add_domain(&self, domain: &str) -> anyhow::Result<()> {
        let name = named(domain)?;
        let now = self.clock.now();
        let added = self
            .directory
            .add_platform_domain(&name, now, &self.origin)
            .await?;
        match added {
            Added::Added { voided: 0 } => say(&format!("{name} is the platform's.")),
            Added::Added { voided } => say(&format!(
                "{name} is the platform's. Claims of it that are void now: {voided}."
            )),
            Added::Already => say(&format!("{name} is the platform's already.")),
            Added::Taken(owner) => bail!("{name} is {owner}'s, who verified it"),
        }
    }

    async fn remove_domain(&self, domain: &str) -> anyhow::Result<()> {
        let name = named(domain)?;
        let now = self.clock.now();
        let removed = self
            .directory
            .remove_platform_domain(&name, now, &self.origin)
            .await?;
        match removed {
            Removed::Removed => say(&format!(
                "{name} is the platform's no longer: mail for it is refused."
            )),
            Removed::Unknown => bail!("{name} is none of the platform's domains"),
            Removed::Configured => {
                bail!("{name} is one of `registration.domains`: it is removed there")
            }
            Removed::InUse(in_use) => bail!(
                "there are addresses on {name}: accounts {}, aliases {}; nothing was changed",
                in_use.accounts,
                in_use.aliases
            ),
        }
    }

    async fn hold(&self, address: &str) -> anyhow::Result<()> {
        let address = folded(address)?;
        let now = self.clock.now();
        match self
            .directory
            .hold_address(&address, now, &self.origin)
            .await?
        {
            Holding::Held => say(&format!("{address} is held: nobody can have it.")),
            Holding::Already => say(&format!("{address} is held already.")),
            Holding::Taken => bail!("{address} is in use, as an account or an alias"),
        }
    }

    async fn let_go(&self, address: &str) -> anyhow::Result<()> {
        let address = folded(address)?;
        let now = self.clock.now();
        let freed = self
            .directory
            .let_address_go(&address, now, &self.origin)
            .await?;
        if freed {
            return say(&format!("{address} is free: anybody may have it."));
        }
        let freeing = self
            .directory
            .free_address(&address, now, &self.origin)
            .await?;
        match freeing {
            Freeing::Freed => say(&format!("{address} is free: anybody may have it.")),
            Freeing::Free => say(&format!("{address} is free already.")),
            Freeing::Live => bail!("{address} is in use, as an account or an alias"),
        }
    }

    /// The domain as its account has or claims it: whose it is, or the one claim, or that of the account with this address.
    async fn claim(&self, name: &str, account: Option<&str>) -> anyhow::Result<Claim> {
        let claims = self.directory.domain_claims(name).await?;
        if let Some(account) = account {
            let account = folded(account)?;
            let found = claims.into_iter().find(|claim| claim.owner == account);
            return found.ok_or_else(|| anyhow!("{account} does not claim {name}"));
        }
        match claims.as_slice() {
            [] => bail!("nobody claims {name}"),
            [claim] => Ok(claim.clone()),
            several => {
                let owners: Vec<&str> = several.iter().map(|c| c.owner.as_str()).collect();
                bail!(
                    "several claim {name}: say whose claim with --account: {}",
                    owners.join(", ")
                )
            }
        }
    }

    fn domains(&self, keys: Keyring) -> anyhow::Result<Domains> {
        let keys = Arc::new(keys);
        let signing =
            dkim::Keys::new(&self.config.dkim, self.directory.clone(), Arc::clone(&keys))?;
        Ok(Domains::new(
            &self.config,
            self.directory.clone(),
            Arc::new(Dns::new(&self.config.dns)?),
            keys,
            Arc::new(signing),
            self.clock.clone(),
        ))
    }

    fn by<'a>(&self, claim: &'a Claim) -> By<'a> {
        By {
            account_id: &claim.account_id,
            sid: None,
            at: self.clock.now(),
        }
    }
}

fn named(domain: &str) -> anyhow::Result<String> {
    let name = dns::fold(domain);
    let name = name.map_err(|_| anyhow!("`{}` is not a domain", shown::plain(domain)))?;
    Ok(name.into())
}
