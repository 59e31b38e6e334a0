//! `latchmail account …`: the operator's verbs on accounts. Each changes everything that follows, or nothing, and says in a sentence what it
//! did.

use std::io::{BufRead as _, Read as _, Write as _};

use anyhow::{Context as _, bail};
use clap::{Subcommand, ValueEnum};

use super::password::New;
use super::{Desk, Service, ended, folded, list, no_account, say, sentence, shown, two_factor};
use crate::auth::{passwords::Passwords, person, secrets, to_the_minute};
use crate::config::Config;
use crate::directory::accounts::{Creation, DEFAULT_PLAN, NewAccount, NewProfile};
use crate::directory::administration::Freeing;
use crate::mail::Ending;

/// What is to be done to accounts.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Make an account. Its password is one line of the standard input.
    Create(Create),
    /// List the accounts.
    List {
        /// One JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Show an account, its aliases and its credentials.
    Show {
        /// The account's address.
        address: String,
        /// As a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Give an account another password, one line of the standard input. Its web sessions, agents' grants and API tokens end; the app
    /// passwords of mail clients stay.
    Password {
        /// The account's address.
        address: String,
        /// Make the password and print it.
        #[arg(long)]
        generate: bool,
    },
    /// Disable an account: every credential of it ends, and no mail is taken for it.
    Disable {
        /// The account's address.
        address: String,
    },
    /// Enable an account again, with nothing but its password.
    Enable {
        /// The account's address.
        address: String,
    },
    /// Delete an account. Its addresses stay kept from other people, its mail stays where it is.
    Delete {
        /// The account's address.
        address: String,
        /// Do not ask for the address to be typed.
        #[arg(long)]
        yes: bool,
    },
    /// End what a client of the authorization server was granted in an account.
    Withdraw {
        /// The account's address.
        address: String,
        /// The grant's id, as `show` has it.
        id: String,
    },
    /// Let anybody have an address that somebody had.
    Free {
        /// The address.
        address: String,
    },
    /// Put an account on a plan.
    Plan {
        /// The account's address.
        address: String,
        /// A plan of the configuration, or `default`.
        name: String,
    },
    /// Make an account an administrator's, or no longer.
    Admin {
        /// The account's address.
        address: String,
        /// Whether it is to be one's.
        switch: Switch,
    },
    /// Switch two-factor sign-in on or off, or make new recovery codes.
    TwoFactor {
        /// The account's address.
        address: String,
        /// What is to be done.
        change: TwoFactor,
    },
}

/// An account to be made.
#[derive(Debug, clap::Args)]
pub struct Create {
    /// Its address, on one of the platform's domains. Reserved names may be had here.
    address: String,
    /// The profile's first name. The profile's three go together; without them there is none.
    #[arg(long, requires_all = ["last_name", "dob"])]
    first_name: Option<String>,
    /// The profile's last name.
    #[arg(long, requires_all = ["first_name", "dob"])]
    last_name: Option<String>,
    /// The profile's date of birth.
    #[arg(long, value_name = "YYYY-MM-DD", requires_all = ["first_name", "last_name"])]
    dob: Option<String>,
    /// Make it an administrator's.
    #[arg(long)]
    admin: bool,
    /// The plan it is on.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PLAN)]
    plan: String,
    /// Make the password and print it.
    #[arg(long)]
    generate: bool,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// It is to be so.
    On,
    /// It is not.
    Off,
}

/// What may be done about a second factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TwoFactor {
    /// Ask for codes from now on. Prints the secret and the recovery codes, once.
    On,
    /// Ask for the password only.
    Off,
    /// Make new recovery codes and void the old ones.
    RecoveryCodes,
}

/// Does it.
///
/// # Errors
/// One sentence. Nothing was changed then, unless it says so.
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
        // Before a password is asked for; the address is claimed by the database in the end.
        if self.directory.account_by_address(&address).await?.is_some() {
            bail!("there is an account {address} already");
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
                "{address} is or was somebody's, an account's or an alias; `latchmail account free` frees what is nobody's any more"
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
            "{} has a new password; its web sessions, agents' grants and API tokens are ended.",
            account.address
        ));
        let said = said.and_then(|()| new.show());
        ended(&self.config, Ending::AppPasswords(&died)).await;
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
                "{address} is disabled, and every credential of it is ended."
            ))
        } else {
            say(&format!("{address} is disabled already."))
        };
        ended(&self.config, Ending::Account(&address)).await;
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
                "{address} is enabled: its owner signs in with the password, and makes every other credential anew."
            ))
        } else {
            say(&format!("{address} is enabled already."))
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
            bail!("{address} was deleted meanwhile by somebody else");
        }
        let said = say(&format!(
            "{address} is deleted. Its addresses are kept from other people until `latchmail account free` frees them. Its mail is left \
             where it is: on the mail server, in the folder of the mailbox {id}."
        ));
        ended(&self.config, Ending::Account(address)).await;
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
            bail!(
                "{address} granted nothing under {shown}; `latchmail account show` lists what it did"
            );
        }
        let said = say(&format!(
            "What {address} granted under {shown} is withdrawn."
        ));
        ended(&self.config, Ending::AppPasswords(&[id.to_owned()])).await;
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
            Freeing::Freed => say(&format!("{address} is free: anybody may have it.")),
            Freeing::Free => say(&format!("{address} is free already.")),
            Freeing::Live => bail!("{address} is in use; only what is nobody's any more is freed"),
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
        let rank = if admin { "an" } else { "no" };
        let already = if set { "" } else { " already" };
        say(&format!(
            "{} is {rank} administrator's account{already}.",
            account.address
        ))
    }

    /// Whether the service has accounts on the address's domain.
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
            "{domain} is none of the service's domains (`registration.domains`, and what `latchmail domain add` added): {}",
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
        "there is no plan `{}`; the configuration has {}",
        shown::plain(plan),
        known.join(", ")
    )
}

async fn hash(new: &New) -> anyhow::Result<String> {
    let hashed = async { Passwords::new()?.hash(new.password.clone()).await };
    hashed.await.map_err(|failure| sentence(&failure))
}

/// Has the address typed, from a terminal or not.
fn confirm(address: &str) -> anyhow::Result<()> {
    let mut terminal = std::io::stderr();
    write!(
        terminal,
        "This deletes the account and all that belongs to it. Type its address, {address}, to go on: "
    )
    .and_then(|()| terminal.flush())?;
    let mut typed = String::new();
    std::io::stdin()
        .lock()
        .take(1024)
        .read_line(&mut typed)
        .context("cannot read the standard input")?;
    if typed.trim().eq_ignore_ascii_case(address) {
        return Ok(());
    }
    bail!("that was not the address; nothing was deleted (--yes asks nothing)")
}
