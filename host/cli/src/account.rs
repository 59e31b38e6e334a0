//! `latchmail account …`: commands that create, show, change and delete accounts.
//!
//! Each command makes all its changes in one transaction. On success, the command prints a
//! sentence.

mod adopt;
mod output;
pub(crate) mod password;
pub(crate) mod routing;
mod two_factor;

use std::io::{BufRead as _, Read as _, Write as _};

use anyhow::{Context as _, bail};
use clap::{Subcommand, ValueEnum};
use latchmail_accounts::auth::passwords::Passwords;
use latchmail_accounts::auth::{person, to_the_minute};
use latchmail_core::secrets;
use latchmail_directory::accounts::{Creation, DEFAULT_PLAN, NewAccount, NewProfile};
use latchmail_directory::aliases::reserved_addresses::AddressRelease;
use latchmail_mailbox::SessionSelector;
use latchmail_terminal::input::parse_address;
use latchmail_terminal::output::{escape, print_line, print_lines, table};

use crate::context::{CliContext, ServiceArgs, account_not_found};
use password::NewPassword;

/// Subcommands of `latchmail account`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create an account. The password is read from standard input, as one line.
    ///
    /// An account whose user signs in at the identity provider (`sign_in.source`) has no password,
    /// so none is read.
    Create(Create),
    /// Create accounts for users of the mail server before their first sign-in.
    ///
    /// Only for addresses on domains whose users the mail server or the identity provider verifies
    /// (`sign_in.source`). The exit status is 1 if a user was not adopted. The command can be
    /// repeated.
    Adopt(adopt::Adopt),
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
    /// This revokes the account's web sessions, OAuth grants and API tokens. App passwords of mail
    /// clients stay valid.
    Password {
        /// Address of the account.
        address: String,
        /// Generate the password and print it.
        #[arg(long)]
        generate: bool,
    },
    /// End all web sessions, OAuth grants and API tokens of an account. App passwords of mail
    /// clients stay valid.
    EndSessions {
        /// Address of the account.
        address: String,
    },
    /// Disable an account. This revokes all credentials of the account. The account can no longer
    /// sign in or receive mail.
    Disable {
        /// Address of the account.
        address: String,
    },
    /// Enable a disabled account. Only the account's password works again. All other credentials
    /// must be created again.
    Enable {
        /// Address of the account.
        address: String,
    },
    /// Disable an account, and let the service delete it with its mailbox after the grace period
    /// (`accounts.grace`). `enable` cancels the deletion.
    Close {
        /// Address of the account.
        address: String,
        /// Delete the account as soon as possible.
        #[arg(long)]
        now: bool,
    },
    /// Change the address of an account. The previous address becomes an alias of the account.
    Rename {
        /// Address of the account.
        address: String,
        /// New address, on one of the platform's domains.
        new: String,
    },
    /// Forward copies of an account's mail to another address.
    Forward {
        /// Address of the account.
        address: String,
        /// Address that receives the copies, or `off`.
        to: String,
    },
    /// Delete an account at once. Its addresses stay reserved, and its mail stays on the mail
    /// server.
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
    /// Release the reserved address of a former owner, so that any account can use it.
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
        /// What to do.
        change: TwoFactorChange,
    },
}

/// Arguments of `latchmail account create`.
#[derive(Debug, clap::Args)]
pub struct Create {
    /// Address of the account, on one of the platform's domains. Reserved local parts are allowed.
    address: String,
    /// First name in the profile. A profile needs `--first-name`, `--last-name` and `--dob`.
    /// Without these options, the account has no profile.
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
    /// Grant administrator rights.
    On,
    /// Revoke administrator rights.
    Off,
}

/// A change to two-factor sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TwoFactorChange {
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
/// Returns an error if the command fails. The error text is one sentence for the operator. A failed
/// command has changed nothing, unless the error text reports a change.
pub async fn run(service: &ServiceArgs, command: Command) -> anyhow::Result<()> {
    let context = CliContext::open(service).await?;
    let result = match command {
        Command::Create(create) => context.create(create).await,
        Command::Adopt(arguments) => Box::pin(adopt::run(&context, &arguments)).await,
        Command::List { json } => context.list(json).await,
        Command::Show { address, json } => context.show(&address, json).await,
        Command::Password { address, generate } => context.password(&address, generate).await,
        Command::EndSessions { address } => context.end_access(&address).await,
        Command::Disable { address } => context.disable(&address).await,
        Command::Enable { address } => context.enable(&address).await,
        Command::Close { address, now } => routing::close(&context, &address, now).await,
        Command::Rename { address, new } => routing::rename(&context, &address, &new).await,
        Command::Forward { address, to } => routing::forward(&context, &address, &to).await,
        Command::Delete { address, yes } => context.delete(&address, yes).await,
        Command::Withdraw { address, id } => context.withdraw(&address, &id).await,
        Command::Free { address } => context.free(&address).await,
        Command::Plan { address, name } => context.plan(&address, &name).await,
        Command::Admin { address, switch } => context.admin(&address, switch == Switch::On).await,
        Command::TwoFactor { address, change } => match change {
            TwoFactorChange::On => two_factor::enable(&context, &address).await,
            TwoFactorChange::Off => two_factor::disable(&context, &address).await,
            TwoFactorChange::RecoveryCodes => {
                two_factor::replace_recovery_codes(&context, &address).await
            }
        },
    };
    context.close().await;
    result
}

impl CliContext {
    async fn create(&self, create: Create) -> anyhow::Result<()> {
        let address = parse_address(&create.address)?;
        let is_at_provider = self.config.sign_in.is_at_provider(&address);
        if is_at_provider && create.generate {
            bail!(
                "{address} signs in at the identity provider, so the account has no password: omit --generate"
            );
        }
        if !is_at_provider {
            self.require_own_password(
                &address,
                "no account can be created here: the user's first sign-in creates the account",
            )?;
        }
        let rules = self.account_rules();
        rules.check_domain(&address).await?;
        rules.check_plan(&create.plan)?;
        let profile = self.profile(&create)?;
        // If the account exists, return the error before the operator types a password.
        // `Accounts::create` repeats the check in its transaction.
        if self
            .directory
            .accounts
            .by_address(&address)
            .await?
            .is_some()
        {
            bail!("account {address} already exists");
        }
        let new = if is_at_provider {
            None
        } else {
            Some(NewPassword::generate_or_read(create.generate)?)
        };
        let password_hash = match &new {
            Some(new) => hash(new).await?,
            None => String::new(),
        };
        let account = NewAccount {
            id: secrets::id()?,
            address,
            password_hash,
            profile,
            plan: create.plan,
            admin: create.admin,
            created_at: self.clock.now(),
        };
        let creation = self
            .directory
            .accounts
            .create(&account, None, &self.origin)
            .await?;
        let address = &account.address;
        match creation {
            Creation::Created => {}
            Creation::AddressTaken => bail!(
                "{address} is in use as an account or an alias, or reserved; `latchmail account free` releases a reserved address"
            ),
        }
        print_line(&format!("{address} was created."))?;
        new.map_or(Ok(()), |new| new.print_if_generated())
    }

    async fn list(&self, json: bool) -> anyhow::Result<()> {
        let accounts = self.directory.accounts.overview("").await?;
        if json {
            let line = |account| output::account_json(account).to_string();
            return print_lines(accounts.iter().map(line));
        }
        if accounts.is_empty() {
            return print_line("There are no accounts.");
        }
        let heading = ["address", "state", "admin", "plan", "two-factor", "since"];
        print_lines(table(heading, accounts.iter().map(output::account_row)))
    }

    async fn show(&self, address: &str, json: bool) -> anyhow::Result<()> {
        let address = parse_address(address)?;
        let accounts = self.directory.accounts.overview(&address).await?;
        let account = accounts
            .first()
            .ok_or_else(|| account_not_found(&address))?;
        let aliases = self.directory.aliases.list(&account.id).await?;
        let mut credentials = self
            .directory
            .credentials
            .list_with_grants(&account.id, self.clock.now())
            .await?;
        let last_logins = self.directory.credentials.last_logins(&account.id).await?;
        for credential in &mut credentials {
            let login = last_logins.get(&credential.id).copied();
            credential.last_used_at = credential.last_used_at.max(login).map(to_the_minute);
        }
        if json {
            print_line(&output::detail_json(account, &aliases, &credentials).to_string())
        } else {
            print_line(&output::detail_text(account, &aliases, &credentials))
        }
    }

    async fn password(&self, address: &str, generate: bool) -> anyhow::Result<()> {
        self.require_own_password(
            &parse_address(address)?,
            "it must be changed there; `latchmail account end-sessions` ends the sessions",
        )?;
        let account = self.account(address).await?;
        let new = NewPassword::generate_or_read(generate)?;
        let hash = hash(&new).await?;
        let now = self.clock.now();
        let revoked = self
            .directory
            .credentials
            .set_password(&account.id, &hash, now, &self.origin)
            .await?
            .ok_or_else(|| account_not_found(&account.address))?;
        let printed = print_line(&format!(
            "{} has a new password. Its web sessions, OAuth grants and API tokens are revoked.",
            account.address
        ));
        let printed = printed.and_then(|()| new.print_if_generated());
        self.end_sessions(SessionSelector::AppPasswords(&revoked))
            .await;
        printed
    }

    async fn end_access(&self, address: &str) -> anyhow::Result<()> {
        let account = self.account(address).await?;
        let now = self.clock.now();
        let ended = self
            .directory
            .credentials
            .end_access(&account.id, now, &self.origin)
            .await?;
        let printed = print_line(&format!(
            "{}: web sessions ended: {}, OAuth grants ended: {}, API tokens revoked: {}. App passwords of mail clients stay valid.",
            account.address, ended.web_sessions, ended.oauth_grants, ended.api_tokens
        ));
        self.end_sessions(SessionSelector::AppPasswords(&ended.app_passwords))
            .await;
        printed
    }

    async fn disable(&self, address: &str) -> anyhow::Result<()> {
        let account = self.account(address).await?;
        let now = self.clock.now();
        let disabled = self
            .directory
            .accounts
            .disable(&account.id, now, &self.origin)
            .await?;
        let address = account.address;
        let printed = if disabled {
            print_line(&format!(
                "{address} is disabled, and every credential of the account is revoked."
            ))
        } else {
            print_line(&format!("{address} is already disabled."))
        };
        self.end_sessions(SessionSelector::Account(&address)).await;
        printed
    }

    async fn enable(&self, address: &str) -> anyhow::Result<()> {
        let account = self.account(address).await?;
        let now = self.clock.now();
        let enabled = self
            .directory
            .accounts
            .enable(&account.id, now, &self.origin)
            .await?;
        let address = account.address;
        if enabled {
            print_line(&format!(
                "{address} is enabled. Only its password works; all other credentials must be created again."
            ))
        } else if self
            .directory
            .accounts
            .deletion(&account.id)
            .await?
            .is_some()
        {
            bail!("the deletion of {address} has begun, so the account cannot be enabled")
        } else {
            print_line(&format!("{address} is already enabled."))
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
            .accounts
            .delete(&account.id, now, &self.origin)
            .await?;
        let (id, address) = (&account.id, &account.address);
        if !deleted {
            bail!("{address} was deleted concurrently");
        }
        let printed = print_line(&format!(
            "{address} is deleted. Its addresses stay reserved until `latchmail account free` releases them. Its mail stays \
             on the mail server, in the folder of the mailbox {id}."
        ));
        self.end_sessions(SessionSelector::Account(address)).await;
        printed
    }

    async fn withdraw(&self, address: &str, id: &str) -> anyhow::Result<()> {
        let account = self.account(address).await?;
        let now = self.clock.now();
        let withdrawn = self
            .directory
            .oauth
            .end_grant(&account.id, id, now, &self.origin)
            .await?;
        let (address, grant) = (&account.address, escape(id));
        if !withdrawn {
            bail!("{address} has no grant {grant}; `latchmail account show` lists its grants");
        }
        let printed = print_line(&format!("Grant {grant} of {address} is revoked."));
        self.end_sessions(SessionSelector::AppPasswords(&[id.to_owned()]))
            .await;
        printed
    }

    async fn free(&self, address: &str) -> anyhow::Result<()> {
        let address = parse_address(address)?;
        let now = self.clock.now();
        let release = self
            .directory
            .aliases
            .free_address(&address, now, &self.origin)
            .await?;
        match release {
            AddressRelease::Released => {
                print_line(&format!("{address} is released: any account can use it."))
            }
            AddressRelease::NotReserved => print_line(&format!("{address} is not reserved.")),
            AddressRelease::InUse => {
                bail!("{address} is in use; only a reserved address can be released")
            }
        }
    }

    async fn plan(&self, address: &str, plan: &str) -> anyhow::Result<()> {
        self.account_rules().check_plan(plan)?;
        let account = self.account(address).await?;
        let now = self.clock.now();
        let set = self
            .directory
            .accounts
            .set_plan(&account.id, plan, now, &self.origin)
            .await?;
        let already = if set { "" } else { " already" };
        print_line(&format!(
            "{} is on the plan {plan}{already}.",
            account.address
        ))
    }

    async fn admin(&self, address: &str, admin: bool) -> anyhow::Result<()> {
        let account = self.account(address).await?;
        let now = self.clock.now();
        let set = self
            .directory
            .accounts
            .set_admin(&account.id, admin, now, &self.origin)
            .await?;
        let role = if admin { "an" } else { "not an" };
        let already = if set { "" } else { "already " };
        print_line(&format!(
            "{} is {already}{role} administrator.",
            account.address
        ))
    }

    fn profile(&self, create: &Create) -> anyhow::Result<Option<NewProfile>> {
        let (Some(first_name), Some(last_name), Some(dob)) =
            (&create.first_name, &create.last_name, &create.dob)
        else {
            return Ok(None);
        };
        let today = self.clock.now().date();
        person::date_of_birth(dob, today)?;
        Ok(Some(NewProfile {
            first_name: person::name("first_name", first_name)?,
            last_name: person::name("last_name", last_name)?,
            dob: dob.clone(),
        }))
    }
}

async fn hash(new: &NewPassword) -> anyhow::Result<String> {
    Ok(Passwords::new()?.hash(new.password.clone(), None).await?)
}

/// Asks the operator to type the address. Returns an error if the input is different. Reads
/// standard input even if standard input is not a terminal.
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
