//! Enables and disables modules for owners of mailboxes, and resumes paused modules for the
//! operator.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use latchmail_core::caller::Origin;
use latchmail_core::error::Failure;
use latchmail_directory::module_handlers::EnabledModule;
use latchmail_directory::session_caller::SessionCaller;
use latchmail_events::EventFilter;
use latchmail_runtime::modules::Module;
use latchmail_runtime::owner_modules::{ModuleOwner, OwnerModule, OwnerModules, SwitchError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::Error;
use crate::handlers::{Handlers, scopes, subscriptions};

/// The numbers of mailboxes for which a module acts.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = ModuleMailboxCounts)]
pub struct MailboxCounts {
    /// The number of mailboxes whose owners have enabled the module.
    pub enabled: i64,
    /// The number of these mailboxes for which the module is paused.
    pub paused: i64,
}

/// The mailboxes for which a module acts.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModuleMailboxes {
    /// The numbers of mailboxes.
    #[serde(flatten)]
    pub counts: MailboxCounts,
    /// The mailboxes for which the module is paused, latest first, at most 100.
    pub paused_mailboxes: Vec<PausedMailbox>,
}

/// A mailbox for which a module is paused.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PausedMailbox {
    /// The address of the account.
    pub account: String,
    /// The reason.
    pub reason: String,
    /// The time of the pause.
    pub since: String,
}

impl Handlers {
    /// Returns the numbers of mailboxes of all modules that an owner has enabled, by the name of
    /// the module.
    ///
    /// # Errors
    /// Returns [`Error::Failed`] if the database fails.
    pub async fn mailbox_counts(&self) -> Result<BTreeMap<String, MailboxCounts>, Error> {
        let counts = self.stored.counts().await?.into_iter();
        let counts = counts.map(|row| {
            let (enabled, paused) = (row.enabled, row.paused);
            (row.module, MailboxCounts { enabled, paused })
        });
        Ok(counts.collect())
    }

    /// Returns the mailboxes of a module. Returns `None` if no owner has enabled the module.
    ///
    /// # Errors
    /// Returns [`Error::Failed`] if the database fails.
    pub async fn mailboxes(&self, module: &str) -> Result<Option<ModuleMailboxes>, Error> {
        let Some(counts) = self.mailbox_counts().await?.remove(module) else {
            return Ok(None);
        };
        let paused = self.stored.paused(module).await?.into_iter();
        let paused = paused.map(|row| PausedMailbox {
            since: row.paused_at().to_string(),
            account: row.address,
            reason: row.reason,
        });
        Ok(Some(ModuleMailboxes {
            counts,
            paused_mailboxes: paused.collect(),
        }))
    }

    /// Resumes a paused module for the mailbox with this address. With `skip`, the module does not
    /// get the event, or the due time of the timer, that caused the pause.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if there is no such account, or if the module is not paused for
    /// the mailbox.
    pub async fn resume(
        &self,
        module: &str,
        address: &str,
        skip: bool,
        origin: &Origin,
    ) -> Result<(), Error> {
        let account = self.account(address).await?;
        let now = self.jobs.now().await?;
        let resumed = self.stored.resume(&account, module, skip, now, origin);
        if !resumed.await? {
            let text = format!("module `{module}` is not paused for {address}");
            return Err(Error::NotFound(text));
        }
        tracing::info!(module, account, skip, "resumed a module for a mailbox");
        self.start(&account, module).await?;
        self.changed.notify_one();
        Ok(())
    }

    /// Returns the id of the account with this address.
    pub(crate) async fn account(&self, address: &str) -> Result<String, Error> {
        let account = self.accounts.by_address(address).await?;
        let missing = || Error::NotFound(format!("there is no account {address}"));
        Ok(account.ok_or_else(missing)?.id)
    }

    async fn enable(&self, owner: &ModuleOwner, module: &Module) -> Result<bool, SwitchError> {
        let account = &owner.access.account;
        let name = &module.manifest().name;
        let stored = self.stored.find(account, name).await;
        let cursor = if let Some(row) = stored.map_err(Failure::from)? {
            row.cursor
        } else {
            let filter = EventFilter::default();
            let page = self.feed.read(&owner.access, None, &filter, 1).await?;
            page.ok_or(SwitchError::NotFound)?.cursor
        };
        let scopes = module.handler_scopes();
        let now = self.jobs.now().await?;
        let caller = SessionCaller {
            account_id: account,
            sid: &owner.sid,
            at: now,
        };
        let enabled = self
            .stored
            .enable(caller, name, &scopes, &cursor, &owner.origin);
        Ok(enabled.await.map_err(Failure::from)?)
    }

    async fn set_enabled(
        &self,
        owner: &ModuleOwner,
        name: &str,
        enabled: bool,
    ) -> Result<OwnerModule, SwitchError> {
        let account = &owner.access.account;
        let known = self.owner_modules(account).await?;
        let known = known.into_iter().find(|module| module.name == name);
        let known = known.ok_or(SwitchError::NotFound)?;
        let is_done = match (enabled, self.active_module(name)) {
            (true, Some(module)) => self.enable(owner, &module).await?,
            // The operator has disabled the module, and the owner has enabled it before.
            (true, None) => return Ok(known),
            (false, _) => {
                let caller = SessionCaller {
                    account_id: account,
                    sid: &owner.sid,
                    at: self.jobs.now().await?,
                };
                let disabled = self.stored.disable(caller, name, &owner.origin);
                disabled.await.map_err(Failure::from)?
            }
        };
        if !is_done {
            return Err(SwitchError::SessionEnded);
        }
        self.switched.send_replace(());
        self.changed.notify_one();
        let current = self.owner_modules(account).await?;
        let current = current.into_iter().find(|module| module.name == name);
        Ok(current.unwrap_or(OwnerModule {
            enabled: false,
            paused: None,
            ..known
        }))
    }

    async fn owner_modules(&self, account: &str) -> Result<Vec<OwnerModule>, Failure> {
        let rows = self.stored.of_account(account).await?;
        let mut rows: BTreeMap<String, EnabledModule> = rows
            .into_iter()
            .map(|row| (row.module.clone(), row))
            .collect();
        let mut modules: Vec<OwnerModule> = Vec::new();
        for module in self.active_modules() {
            let name = &module.manifest().name;
            let row = rows.remove(name);
            modules.push(OwnerModule {
                name: name.clone(),
                description: description(&module),
                subscriptions: subscriptions(&module).cloned(),
                scopes: scopes(&module, row.as_ref()),
                enabled: row.is_some(),
                paused: row.and_then(|row| row.paused),
            });
        }
        // The owner can disable a module that the operator has disabled.
        modules.extend(rows.into_values().map(|row| OwnerModule {
            description: String::new(),
            subscriptions: None,
            scopes: row.scopes(),
            enabled: true,
            name: row.module,
            paused: row.paused,
        }));
        modules.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(modules)
    }
}

/// Describes what a module does without a request.
fn description(module: &Module) -> String {
    let Some(subscriptions) = subscriptions(module) else {
        return String::new();
    };
    let events = subscriptions.events.iter();
    let events = events.map(|set| format!("handles {set}"));
    let timers = subscriptions.timers.iter();
    let timers = timers.map(|timer| format!("runs {timer}"));
    events.chain(timers).collect::<Vec<_>>().join("; ")
}

impl OwnerModules for Handlers {
    fn list<'a>(&'a self, account: &'a str) -> BoxFuture<'a, Result<Vec<OwnerModule>, Failure>> {
        self.owner_modules(account).boxed()
    }

    fn switch<'a>(
        &'a self,
        owner: &'a ModuleOwner,
        name: &'a str,
        enabled: bool,
    ) -> BoxFuture<'a, Result<OwnerModule, SwitchError>> {
        self.set_enabled(owner, name, enabled).boxed()
    }
}
