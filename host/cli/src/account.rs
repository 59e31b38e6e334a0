//! `latchmail account …`: commands that create, show, change and delete accounts.
//!
//! Each command applies its change together with all consequences in one transaction, or changes nothing. On success it prints one
//! sentence.

use std::io::{BufRead as _, Read as _, Write as _};

use anyhow::{Context as _, bail};
use clap::{Subcommand, ValueEnum};
use latchmail_accounts::auth::passwords::Passwords;
use latchmail_accounts::auth::{person, to_the_minute};
use latchmail_core::config::Config;
use latchmail_core::secrets;
use latchmail_directory::accounts::{Creation, DEFAULT_PLAN, NewAccount, NewProfile};
use latchmail_directory::administration::AddressRelease;
use latchmail_mailbox::SessionSelector;

use super::password::New;
use super::{Desk, Service, ended, folded, list, no_account, say, sentence, shown, two_factor};

/// Subcommands of `latchmail account`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Create an account. The password is read from standard input, as one line.
    Create(Create),
    /// List all accounts.
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Show an account, its aliases and its credentials.
    Show {
        /// Address of the account.
        address: String,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Set a new password, read from standard input as one line.
    ///
    /// This revokes the account's web sessions, OAuth grants and API tokens. App passwords of mail clients stay valid.
    Password {
        /// Address of the account.
        address: String,
        /// Generate the password and print it.
        #[arg(long)]
        generate: bool,
    },
    /// Disable an account. This revokes all its credentials; the account can no longer sign in or receive mail.
    Disable {
        /// Address of the account.
        address: String,
    },
    /// Enable a disabled account. Only its password works again; all other credentials must be created again.
    Enable {
        /// Address of the account.
        address: String,
    },
    /// Delete an account. Its addresses stay reserved, and its mail stays on the mail server.
    Delete {
        /// Address of the account.
        address: String,
        /// Skip the confirmation.
        #[arg(long)]
        yes: bool,
    },
    /// Revoke an OAuth grant of an account.
    Withdraw {
        /// Address of the account.
        address: String,
        /// Id of the grant, as printed by `latchmail account show`.
        id: String,
    },
    /// Release a reserved address, so that any account can use it.
    Free {
        /// Address to release.
        address: String,
    },
    /// Set the plan of an account.
    Plan {
        /// Address of the account.
        address: String,
        /// Name of a plan from the configuration, or `default`.
        name: String,
    },
    /// Grant or revoke administrator rights.
    Admin {
        /// Address of the account.
        address: String,
        /// `on` grants administrator rights, `off` revokes them.
        switch: Switch,
    },
    /// Enable or disable two-factor sign-in, or replace the recovery codes.
    TwoFactor {
        /// Address of the account.
        address: String,
        /// Change to make.
        change: TwoFactor,
    },
}

/// Arguments of `latchmail account create`.
#[derive(Debug, clap::Args)]
pub struct Create {
    /// Address of the account, on one of the platform's domains. Reserved local parts are allowed.
    address: String,
    /// First name in the profile. A profile needs `--first-name`, `--last-name` and `--dob`; without them the account has no profile.
    #[arg(long, requires_all = ["last_name", "dob"])]
    first_name: Option<String>,
    /// Last name in the profile.
    #[arg(long, requires_all = ["first_name", "dob"])]
    last_name: Option<String>,
    /// Date of birth in the profile.
    #[arg(long, value_name = "YYYY-MM-DD", requires_all = ["first_name", "last_name"])]
    dob: Option<String>,
    /// Grant administrator rights.
    #[arg(long)]
    admin: bool,
    /// Plan of the account.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PLAN)]
    plan: String,
    /// Generate the password and print it.
    #[arg(long)]
    generate: bool,
}

/// A switch: on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Grant the right.
    On,
    /// Revoke the right.
    Off,
}

/// Changes to two-factor sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TwoFactor {
    /// Require a code at every sign-in. Prints the secret and the recovery codes once.
    On,
    /// Require only the password.
    Off,
    /// Generate new recovery codes. The old codes become invalid.
    RecoveryCodes,
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error with one sentence for the operator. Nothing was changed, unless the sentence says otherwise.
pub async fn run(service: &Service, verb: Verb) -> anyhow::Result<()> {
    let desk = Desk::open(service).await?;
    let done = match verb {
        Verb::Create(create) => desk.create(create).await,
        Verb::List { json } => desk.list(json).await,
        Verb::Show { address, json } => desk.show(&address, json).await,
        Verb::Password { address, generate } => desk.password(&address, generate).await,
        Verb::Disable { address } => desk.disable(&address).await,
        Verb::Enable { address } => desk.enable(&address).await,
        Verb::Delete { address, yes } => desk.delete(&address, yes).await,
        Verb::Withdraw { address, id } => desk.withdraw(&address, &id).await,
        Verb::Free { address } => desk.free(&address).await,
        Verb::Plan { address, name } => desk.plan(&address, &name).await,
        Verb::Admin { address, switch } => desk.admin(&address, switch == Switch::On).await,
        Verb::TwoFactor { address, change } => match change {
            TwoFactor::On => two_factor::on(&desk, &address).await,
            TwoFactor::Off => two_factor::off(&desk, &address).await,
            TwoFactor::RecoveryCodes => two_factor::recovery_codes(&desk, &address).await,
        },
    };
    desk.close().await;
    done
}

impl Desk {
    async fn create(&self, create: Create) -> anyhow::Result<()> {
        let address = folded(&create.address)?;
        self.on_platform(&address).await?;
        known_plan(&self.config, &create.plan)?;
        let profile = self.profile(&create)?;
        // Fail before the operator types a password. `create_account` checks the address again in its transaction.
        if self.directory.account_by_address(&address).await?.is_some() {
            bail!("account {address} already exists");
        }
        let new = New::get(create.generate)?;
        let account = NewAccount {
            id: secrets::id().map_err(|failure| sentence(&failure))?,
            address,
            password_hash: hash(&new).await?,
            profile,
            plan: create.plan,
            admin: create.admin,
            created_at: self.clock.now(),
        };
        let made = self
            .directory
            .create_account(&account, None, &self.origin)
            .await?;
        let address = &account.address;
        match made {
            Creation::Created => {}
            Creation::AddressTaken => bail!(
                "{address} is in use as an account or an alias, or reserved; `latchmail account free` releases a reserved address"
            ),
        }
        say(&format!("{address} was created."))?;
        new.show()
    }

    async fn list(&self, json: bool) -> anyhow::Result<()> {
        let accounts = self.directory.overview("").await?;
        if json {
            let line = |account| shown::account_json(account).to_string();
            return list(accounts.iter().map(line));
        }
        if accounts.is_empty() {
            return say("There are no accounts.");
        }
        let heading = ["address", "state", "admin", "plan", "two-factor", "since"];
        let rows: Vec<[String; 6]> = std::iter::once(heading.map(Into::into))
            .chain(accounts.iter().map(shown::account_row))
            .collect();
        list(shown::table(&rows).into_iter())
    }

    async fn show(&self, address: &str, json: bool) -> anyhow::Result<()> {
        let address = folded(address)?;
        let found = self.directory.overview(&address).await?;
        let account = found.first().ok_or_else(|| no_account(&address))?;
        let aliases = self.directory.aliases(&account.id).await?;
        let mut credentials = self
            .directory
            .credentials_and_grants(&account.id, self.clock.now())
            .await?;
        let logged_in = self.directory.last_logins(&account.id).await?;
        for credential in &mut credentials {
            let at = logged_in.get(&credential.id).copied();
            credential.last_used_at = credential.last_used_at.max(at).map(to_the_minute);
        }
        if json {
            say(&shown::whole_json(account, &aliases, &credentials).to_string())
        } else {
            say(&shown::account(account, &aliases, &credentials))
        }
    }

    async fn password(&self, address: &str, generate: bool) -> anyhow::Result<()> {
        let account = self.account(address).await?;
        let new = New::get(generate)?;
        let hash = hash(&new).await?;
        let now = self.clock.now();
        let died = self
            .directory
            .set_password(&account.id, &hash, now, &self.origin)
            .await?
            .ok_or_else(|| no_account(&account.address))?;
        let said = say(&format!(
            "{} has a new password. Its web sessions, OAuth grants and API tokens are revoked.",
            account.address
        ));
        let said = said.and_then(|()| new.show());
        ended(&self.config, SessionSelector::AppPasswords(&died)).await;
        said
    }

    async fn disable(&self, address: &str) -> anyhow::Result<()> {
        let account = self.account(address).await?;
        let now = self.clock.now();
        let disabled = self
            .directory
            .disable(&account.id, now, &self.origin)
            .await?;
        let address = account.address;
        let said = if disabled {
            say(&format!(
                "{address} is disabled, and every credential of the account is revoked."
            ))
        } else {
            say(&format!("{address} is already disabled."))
        };
        ended(&self.config, SessionSelector::Account(&address)).await;
        said
    }

    async fn enable(&self, address: &str) -> anyhow::Result<()> {
        let account = self.account(address).await?;
        let now = self.clock.now();
        let enabled = self
            .directory
            .enable(&account.id, now, &self.origin)
            .await?;
        let address = account.address;
        if enabled {
            say(&format!(
                "{address} is enabled. Only its password works; all other credentials must be created again."
            ))
        } else {
            say(&format!("{address} is already enabled."))
        }
    }

    async fn delete(&self, address: &str, yes: bool) -> anyhow::Result<()> {
        let account = self.account(address).await?;
        if !yes {
            confirm(&account.address)?;
        }
        let now = self.clock.now();
        let deleted = self
            .directory
            .delete_account(&account.id, now, &self.origin)
            .await?;
        let (id, address) = (&account.id, &account.address);
        if !deleted {
            bail!("{address} was deleted concurrently");
        }
        let said = say(&format!(
            "{address} is deleted. Its addresses stay reserved until `latchmail account free` releases them. Its mail stays \
             on the mail server, in the folder of the mailbox {id}."
        ));
        ended(&self.config, SessionSelector::Account(address)).await;
        said
    }

    async fn withdraw(&self, address: &str, id: &str) -> anyhow::Result<()> {
        let account = self.account(address).await?;
        let now = self.clock.now();
        let withdrawn = self
            .directory
            .end_grant(&account.id, id, now, &self.origin)
            .await?;
        let (address, shown) = (&account.address, shown::plain(id));
        if !withdrawn {
            bail!("{address} has no grant {shown}; `latchmail account show` lists its grants");
        }
        let said = say(&format!("Grant {shown} of {address} is revoked."));
        ended(
            &self.config,
            SessionSelector::AppPasswords(&[id.to_owned()]),
        )
        .await;
        said
    }

    async fn free(&self, address: &str) -> anyhow::Result<()> {
        let address = folded(address)?;
        let now = self.clock.now();
        let freeing = self
            .directory
            .free_address(&address, now, &self.origin)
            .await?;
        match freeing {
            AddressRelease::Released => {
                say(&format!("{address} is released: any account can use it."))
            }
            AddressRelease::NotReserved => say(&format!("{address} is not reserved.")),
            AddressRelease::InUse => {
                bail!("{address} is in use; only a reserved address can be released")
            }
        }
    }

    async fn plan(&self, address: &str, plan: &str) -> anyhow::Result<()> {
        known_plan(&self.config, plan)?;
        let account = self.account(address).await?;
        let now = self.clock.now();
        let set = self
            .directory
            .set_plan(&account.id, plan, now, &self.origin)
            .await?;
        let already = if set { "" } else { " already" };
        say(&format!(
            "{} is on the plan {plan}{already}.",
            account.address
        ))
    }

    async fn admin(&self, address: &str, admin: bool) -> anyhow::Result<()> {
        let account = self.account(address).await?;
        let now = self.clock.now();
        let set = self
            .directory
            .set_admin(&account.id, admin, now, &self.origin)
            .await?;
        let rank = if admin { "an" } else { "not an" };
        let already = if set { "" } else { "already " };
        say(&format!(
            "{} is {already}{rank} administrator.",
            account.address
        ))
    }

    /// Returns an error unless accounts can be created on the domain of `address`.
    async fn on_platform(&self, address: &str) -> anyhow::Result<()> {
        let (_, domain) = address.rsplit_once('@').unwrap_or_default();
        let mut domains = self.config.registration.domains.clone();
        let platform = self.directory.platform_domains().await?;
        let added = platform.into_iter().filter(|own| own.added_at.is_some());
        domains.extend(added.map(|own| own.domain));
        if domains.iter().any(|own| own == domain) {
            return Ok(());
        }
        bail!(
            "{domain} is not a platform domain (`registration.domains`, or added with `latchmail domain add`): {}",
            domains.join(", ")
        )
    }

    fn profile(&self, create: &Create) -> anyhow::Result<Option<NewProfile>> {
        let (Some(first_name), Some(last_name), Some(dob)) =
            (&create.first_name, &create.last_name, &create.dob)
        else {
            return Ok(None);
        };
        let today = self.clock.now().date();
        let checked = || {
            person::date_of_birth(dob, today)?;
            Ok(NewProfile {
                first_name: person::name("first_name", first_name)?,
                last_name: person::name("last_name", last_name)?,
                dob: dob.clone(),
            })
        };
        checked().map(Some).map_err(|failure| sentence(&failure))
    }
}

fn known_plan(config: &Config, plan: &str) -> anyhow::Result<()> {
    if plan == DEFAULT_PLAN || config.plans.contains_key(plan) {
        return Ok(());
    }
    let known = config.plans.keys().map(String::as_str);
    let mut known: Vec<&str> = known.chain([DEFAULT_PLAN]).collect();
    known.sort_unstable();
    known.dedup();
    bail!(
        "unknown plan `{}`; the configuration has {}",
        shown::plain(plan),
        known.join(", ")
    )
}

async fn hash(new: &New) -> anyhow::Result<String> {
    let hashed = async { Passwords::new()?.hash(new.password.clone()).await };
    hashed.await.map_err(|failure| sentence(&failure))
}

/// Asks the operator to type the address, and returns an error if the input differs. Also reads the answer if standard input is not a
/// terminal.
fn confirm(address: &str) -> anyhow::Result<()> {
    let mut terminal = std::io::stderr();
    write!(
        terminal,
        "This deletes the account and everything that belongs to it. Type its address, {address}, to continue: "
    )
    .and_then(|()| terminal.flush())?;
    let mut typed = String::new();
    std::io::stdin()
        .lock()
        .take(1024)
        .read_line(&mut typed)
        .context("cannot read standard input")?;
    if typed.trim().eq_ignore_ascii_case(address) {
        return Ok(());
    }
    bail!("the input is not the address; nothing was deleted (--yes skips this question)")
}
