//! Creates and changes accounts for the operator: on the operator's page, through the admin API and
//! through SCIM. Nothing here reads mail.

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::address;
use latchmail_core::caller::Origin;
use latchmail_core::clock::Clock;
use latchmail_core::codes;
use latchmail_core::detached_tasks::DetachedTasks;
use latchmail_core::error::Failure;
use latchmail_core::secrets;
use latchmail_directory::Directory;
use latchmail_directory::accounts::administration::{
    Names, NamesUpdate, NewForward, NewRecord, Provision, Record, RecordUpdate, Refusal, Updated,
};
use latchmail_directory::accounts::removal::Scheduling;
use latchmail_directory::accounts::{DEFAULT_PLAN, NewAccount};
use latchmail_directory::operator_tokens::RequestKey;
use secrecy::SecretString;

use super::passwords::{self, imported_hash};
use super::verifier::Verifier;
use crate::account_rules::AccountRules;
use crate::mail_server::MailServer;

/// The password of an account that the operator creates or changes.
#[derive(Debug)]
pub enum NewPassword {
    /// The account has no password, so its user cannot sign in with a password.
    None,
    /// A password.
    Plain(SecretString),
    /// A hash that another system computed ([`imported_hash`]).
    Hash(String),
}

/// An account to create.
#[derive(Debug)]
pub struct AccountToCreate {
    /// The address.
    pub address: String,
    /// Whether the account is active.
    pub active: bool,
    /// The plan, or `None` for the default plan.
    pub plan: Option<String>,
    /// Whether the account has administrator rights.
    pub admin: bool,
    /// The password.
    pub password: NewPassword,
    /// The address to which mail is forwarded, or `None` if mail is not forwarded.
    pub forward_to: Option<String>,
    /// The names.
    pub names: Names,
}

/// The changes of an account. A value that is `None` stays as it is.
#[derive(Debug, Default)]
pub struct AccountChanges {
    /// The new address. The old address becomes an alias.
    pub address: Option<String>,
    /// Whether the account is active.
    pub active: Option<bool>,
    /// The plan.
    pub plan: Option<String>,
    /// Whether the account has administrator rights.
    pub admin: Option<bool>,
    /// The password.
    pub password: Option<NewPassword>,
    /// The address to which mail is forwarded, or `Some(None)` for none.
    pub forward_to: Option<Option<String>>,
    /// The names.
    pub names: NamesUpdate,
}

/// The operations of the operator on accounts.
#[derive(Debug)]
pub struct Provisioning {
    pub(super) directory: Directory,
    pub(super) mail_server: Arc<dyn MailServer>,
    pub(super) clock: Clock,
    pub(super) tasks: DetachedTasks,
    pub(super) verifier: Arc<Verifier>,
    /// The time between a request to delete an account and its deletion.
    pub(super) grace: Duration,
    /// The rules for accounts.
    pub rules: AccountRules,
}

impl Provisioning {
    /// Creates an account. With `key`, a repeated request returns the account that the first
    /// request created.
    ///
    /// # Errors
    /// Returns 400 if a value is invalid, 403 if the service does not manage the sign-in on the
    /// domain, or 409 if the address or the external id is taken, or if the key was used for
    /// another request. Returns 404 if a repeated request finds that its account no longer exists,
    /// or 500 for an internal error. On error, no account is created.
    pub async fn create(
        &self,
        new: AccountToCreate,
        key: Option<&RequestKey>,
        origin: &Origin,
    ) -> Result<Record, Failure> {
        let address = mail_address("address", &new.address)?;
        self.rules.check_domain(&address).await?;
        let has_password = !matches!(new.password, NewPassword::None);
        self.rules.check_sign_in(&address, has_password)?;
        let plan = new.plan.unwrap_or_else(|| DEFAULT_PLAN.to_owned());
        self.rules.check_plan(&plan)?;
        self.rules.check_names(&new.names)?;
        let forward = match &new.forward_to {
            Some(to) => Some(self.forward(Some(to))?),
            None => None,
        };
        let record = NewRecord {
            account: NewAccount {
                id: secrets::id()?,
                address,
                password_hash: self.hash(new.password).await?,
                profile: None,
                plan,
                admin: new.admin,
                created_at: self.clock.now(),
            },
            active: new.active,
            forward,
            names: new.names,
        };
        let created = self.directory.accounts.create_record(&record, key, origin);
        match created.await? {
            Provision::Created(record) | Provision::Repeated(Some(record)) => Ok(record),
            Provision::Repeated(None) => Err(no_account()),
            Provision::KeyReused => Err(key_reused()),
            Provision::Refused(refusal) => Err(refused(refusal)),
        }
    }

    /// Changes an account, and ends the sessions whose credentials ended. With `versions`, the
    /// account must have one of these versions; otherwise returns `None`.
    ///
    /// # Errors
    /// Returns 404 if there is no such account, 400 if a value is invalid, 403 if the service does
    /// not manage the sign-in on the domain, 409 if an address or the external id is taken, or if
    /// the account is being deleted, or 500 for an internal error. On error, nothing is changed.
    pub async fn update(
        &self,
        id: &str,
        changes: AccountChanges,
        versions: Option<&[String]>,
        origin: &Origin,
    ) -> Result<Option<Updated>, Failure> {
        let update = self.checked(id, changes).await?;
        let (directory, mail_server) = (self.directory.clone(), Arc::clone(&self.mail_server));
        let (id, origin, now) = (id.to_owned(), origin.clone(), self.clock.now());
        let versions = versions.map(<[String]>::to_vec);
        let change = async move {
            let accounts = &directory.accounts;
            let updated = accounts.update_record(&id, &update, versions.as_deref(), now, &origin);
            let updated = match updated.await? {
                Ok(updated) => updated,
                Err(Refusal::VersionMismatch) => return Ok(None),
                Err(refusal) => return Err(refused(refusal)),
            };
            if !updated.ended.is_empty() {
                mail_server.end_sessions(&updated.ended).await;
            }
            // An account can be disabled already and still have sessions at the mail server.
            let is_renamed = updated.before.address != updated.after.address;
            if is_renamed || update.active == Some(false) {
                mail_server.end_user_sessions(&updated.before.address).await;
            }
            Ok(Some(updated))
        };
        self.tasks.complete(change).await
    }

    /// Enables or disables an account, like [`Self::update`].
    ///
    /// # Errors
    /// Returns the errors of [`Self::update`].
    pub async fn set_active(&self, id: &str, active: bool, origin: &Origin) -> Result<(), Failure> {
        let changes = AccountChanges {
            active: Some(active),
            ..AccountChanges::default()
        };
        self.update(id, changes, None, origin).await?;
        Ok(())
    }

    /// Disables an account, and deletes it with its mail after the grace period, or at once. The
    /// caller must start the job ([`latchmail_directory::accounts::removal`]).
    ///
    /// # Errors
    /// Returns 404 if there is no such account, 403 if the mail server has the user, or 500 for an
    /// internal error. On error, nothing is changed.
    pub async fn close(&self, id: &str, at_once: bool, origin: &Origin) -> Result<(), Failure> {
        let now = self.clock.now();
        let record = self.directory.accounts.record(id).await?;
        let record = record.filter(|record| record.is_visible(now));
        let address = record.ok_or_else(no_account)?.address;
        self.rules.check_managed_here(&address)?;
        let at = if at_once { now } else { now.plus(self.grace) };
        let (directory, mail_server) = (self.directory.clone(), Arc::clone(&self.mail_server));
        let (id, origin) = (id.to_owned(), origin.clone());
        let change = async move {
            let accounts = &directory.accounts;
            let planned = accounts.schedule_deletion(&id, None, at, now, &origin);
            let Scheduling::Planned { ended, .. } = planned.await? else {
                return Err(no_account());
            };
            mail_server.end_sessions(&ended).await;
            mail_server.end_user_sessions(&address).await;
            Ok(())
        };
        self.tasks.complete(change).await
    }

    /// Checks the changes of an account, and hashes the password.
    async fn checked(&self, id: &str, changes: AccountChanges) -> Result<RecordUpdate, Failure> {
        let record = self.directory.accounts.record(id).await?;
        let record = record.ok_or_else(no_account)?;
        // A client can send back what it has read, so values that stay as they are were checked
        // before.
        let address = match &changes.address {
            Some(text) => {
                let address = mail_address("address", text)?;
                if address != record.address {
                    self.rules.check_domain(&address).await?;
                    self.rules.check_managed_here(&record.address)?;
                    self.rules.check_managed_here(&address)?;
                }
                Some(address)
            }
            None => None,
        };
        let new_plan = changes.plan.as_ref().filter(|plan| **plan != record.plan);
        if let Some(plan) = new_plan {
            self.rules.check_plan(plan)?;
        }
        self.rules
            .check_names(&changes.names.apply(&Names::default()))?;
        let password_hash = match changes.password {
            None => None,
            Some(password) => {
                let has_password = !matches!(password, NewPassword::None);
                let address = address.as_deref().unwrap_or(&record.address);
                self.rules.check_sign_in(address, has_password)?;
                Some(self.hash(password).await?)
            }
        };
        let forward = match &changes.forward_to {
            Some(to) => Some(self.forward(to.as_deref())?),
            None => None,
        };
        Ok(RecordUpdate {
            address,
            active: changes.active,
            plan: changes.plan,
            admin: changes.admin,
            password_hash,
            forward,
            names: changes.names,
        })
    }

    fn forward(&self, to: Option<&str>) -> Result<NewForward, Failure> {
        let to = to.map(|to| mail_address("forwardTo", to)).transpose()?;
        let may_be_unknown = to
            .as_ref()
            .is_some_and(|to| self.rules.may_be_mail_server_user(to));
        Ok(NewForward { to, may_be_unknown })
    }

    /// Returns the hash of a password, as the directory stores it.
    async fn hash(&self, password: NewPassword) -> Result<String, Failure> {
        match password {
            NewPassword::None => Ok(String::new()),
            NewPassword::Hash(text) => imported_hash(&text).map_err(|reason| {
                Failure::invalid(codes::INVALID_FIELD, format!("passwordHash {reason}"))
            }),
            NewPassword::Plain(password) if passwords::has_valid_length(&password) => {
                self.verifier.passwords.hash(password, None).await
            }
            NewPassword::Plain(_) => Err(Failure::invalid(
                codes::INVALID_PASSWORD,
                "password must be 1 to 1024 bytes",
            )),
        }
    }
}

/// Returns an address in lower case. `field` is the name of the field in the request.
fn mail_address(field: &str, text: &str) -> Result<String, Failure> {
    address::fold(text).ok_or_else(|| {
        let text = format!("{field} must be a mail address");
        Failure::invalid(codes::INVALID_FIELD, text)
    })
}

/// Returns the failure of a request whose idempotency key was used for another request.
#[must_use]
pub fn key_reused() -> Failure {
    Failure::conflict(
        codes::IDEMPOTENCY_KEY_REUSED,
        "This Idempotency-Key was used for another request",
    )
}

/// Returns the failure of a request for an account that does not exist.
#[must_use]
pub fn no_account() -> Failure {
    Failure::not_found(codes::ACCOUNT_NOT_FOUND, "There is no such account")
}

fn refused(refusal: Refusal) -> Failure {
    match refusal {
        Refusal::Unknown => no_account(),
        Refusal::AddressTaken => {
            Failure::conflict(codes::EMAIL_TAKEN, "This email address is already taken")
        }
        Refusal::ExternalIdTaken => Failure::conflict(
            codes::ACCOUNT_CONFLICT,
            "Another account has this externalId",
        ),
        Refusal::ForwardLoop => Failure::invalid(
            codes::FORWARDING_LOOP,
            "Mail would be forwarded back to an account that has received it",
        ),
        Refusal::NoSuchTarget => Failure::invalid(
            codes::INVALID_FIELD,
            "forwardTo must be an address that receives mail",
        ),
        Refusal::Removing | Refusal::VersionMismatch => {
            Failure::conflict(codes::ACCOUNT_CONFLICT, "The account is being deleted")
        }
    }
}
