//! The state of this crate, and the calls of handlers.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use latchmail_core::account_permits::AccountPermits;
use latchmail_core::caller::{Caller, Credential, Scope};
use latchmail_core::clock::Timestamp;
use latchmail_core::keyring::Keyring;
use latchmail_core::metrics;
use latchmail_core::traces::Tracer;
use latchmail_directory::accounts::Accounts;
use latchmail_directory::events::Events;
use latchmail_directory::module_handlers::{EnabledModule, ModuleHandlers};
use latchmail_events::{Feed, Watcher};
use latchmail_jobs::{Jobs, NewJob};
use latchmail_mailbox::outbox::SenderAccess;
use latchmail_mailbox::{Access, Mail};
use latchmail_runtime::api::Recorder;
use latchmail_runtime::manager::ModuleManager;
use latchmail_runtime::modules::{
    CallError, EventSubscription, HandlerOutcome, Module, Subscriptions, Timer, Trigger,
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::error::Error;

/// The kind of the jobs. The key is the name of the module.
pub(crate) const KIND: &str = "handlers";

/// Maximum number of concurrent jobs of a module on this host. Without this limit, the jobs that
/// wait for a sandbox of one module could use all permits of the runner.
const MAX_JOBS_OF_MODULE: usize = 8;

/// The modules that act without a request.
#[derive(Debug)]
pub struct Handlers {
    pub(crate) stored: ModuleHandlers,
    pub(crate) accounts: Accounts,
    pub(crate) audit: Events,
    pub(crate) keys: Arc<Keyring>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) mail: Arc<Mail>,
    pub(crate) feed: Feed,
    pub(crate) watcher: Arc<Watcher>,
    pub(crate) rights: Arc<dyn SenderAccess>,
    pub(crate) tracer: Tracer,
    /// The permits of the jobs of each module, by the name of the module.
    pub(crate) permits: AccountPermits,
    /// Set at the start. The module manager refers to this value, so this reference is weak.
    manager: OnceLock<Weak<ModuleManager>>,
    /// Wakes the task that watches the mailboxes.
    pub(crate) changed: Notify,
    /// Checks the rights of the running calls again when an owner has switched a module.
    pub(crate) switched: watch::Sender<()>,
    /// Ends the running calls when the service stops.
    pub(crate) stopping: CancellationToken,
}

/// The parts of the service that this crate uses.
#[derive(Debug)]
pub struct Parts {
    /// The database of enabled modules.
    pub stored: ModuleHandlers,
    /// The database of accounts.
    pub accounts: Accounts,
    /// The audit log.
    pub audit: Events,
    /// The service's keys.
    pub keys: Arc<Keyring>,
    /// The jobs.
    pub jobs: Arc<Jobs>,
    /// The mailboxes.
    pub mail: Arc<Mail>,
    /// The watched mailboxes of this host.
    pub watcher: Arc<Watcher>,
    /// Finds the current access of accounts to their mailboxes. The mail server must accept its
    /// credentials for sending too.
    pub rights: Arc<dyn SenderAccess>,
    /// Records the spans of jobs.
    pub tracer: Tracer,
}

/// A module that may act for a mailbox now.
pub(crate) struct Active {
    pub(crate) module: Arc<Module>,
    pub(crate) row: EnabledModule,
    pub(crate) access: Access,
    /// The scopes that the operator grants and to which the owner agreed.
    pub(crate) scopes: Vec<Scope>,
}

impl Handlers {
    /// Creates the state. No module is called before [`Handlers::set_manager`].
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self {
            stored: parts.stored,
            accounts: parts.accounts,
            audit: parts.audit,
            keys: parts.keys,
            jobs: parts.jobs,
            feed: Feed::new(Arc::clone(&parts.mail)),
            mail: parts.mail,
            watcher: parts.watcher,
            rights: parts.rights,
            tracer: parts.tracer,
            permits: AccountPermits::new(MAX_JOBS_OF_MODULE),
            manager: OnceLock::new(),
            changed: Notify::new(),
            switched: watch::Sender::new(()),
            stopping: CancellationToken::new(),
        }
    }

    /// Sets the module manager. Later calls have no effect.
    pub fn set_manager(&self, manager: &Arc<ModuleManager>) {
        let _ = self.manager.set(Arc::downgrade(manager));
    }

    /// Ends the running calls, so that the runner of the jobs stops at once. The calls are repeated
    /// later.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// Returns the module manager. Returns `None` before the start and after the end of the
    /// service.
    pub(crate) fn manager(&self) -> Option<Arc<ModuleManager>> {
        self.manager.get().and_then(Weak::upgrade)
    }

    /// Returns the modules with handlers that are active on this host.
    pub(crate) fn active_modules(&self) -> Vec<Arc<Module>> {
        let manager = self.manager();
        manager.map_or_else(Vec::new, |manager| manager.handlers())
    }

    /// Returns `true` if a module serves on this host, with or without handlers.
    pub(crate) fn serves(&self, name: &str) -> bool {
        let serving = self
            .manager()
            .map_or_else(Vec::new, |manager| manager.serving());
        serving.iter().any(|module| module.manifest().name == name)
    }

    /// Returns the module with this name if it has handlers and is active on this host.
    pub(crate) fn active_module(&self, name: &str) -> Option<Arc<Module>> {
        let mut modules = self.active_modules().into_iter();
        modules.find(|module| module.manifest().name == name)
    }

    /// Returns the module with its current rights over a mailbox. Returns `None` if the owner has
    /// not enabled the module, if it is paused, if this host does not have it, or if the account is
    /// disabled.
    pub(crate) async fn active(&self, account: &str, name: &str) -> Result<Option<Active>, Error> {
        let row = self.stored.find(account, name).await?;
        let Some(row) = row.filter(EnabledModule::is_running) else {
            return Ok(None);
        };
        let Some(module) = self.active_module(name) else {
            return Ok(None);
        };
        let Some(access) = self.rights.access(account, None).await? else {
            return Ok(None);
        };
        Ok(Some(Active {
            scopes: scopes(&module, Some(&row)),
            module,
            row,
            access,
        }))
    }

    /// Calls a handler of a module.
    pub(crate) async fn call(
        &self,
        active: &Active,
        trigger: Trigger<'_>,
        recorder: Option<Arc<Recorder>>,
    ) -> Result<HandlerOutcome, CallError> {
        let (module, access) = (&active.module, &active.access);
        let name = &module.manifest().name;
        let caller = Caller {
            account: access.account.clone(),
            address: access.credential.username.clone(),
            admin: false,
            credential: Credential::Handler {
                module: name.clone(),
                scopes: active.scopes.clone(),
            },
            mail: access.credential.clone(),
            grant: None,
            shared: None,
        };
        let is_preview = recorder.is_some();
        let began = Instant::now();
        let result = module.call_handler(trigger, caller, recorder).await;
        if !is_preview {
            let outcome = match &result {
                Ok(HandlerOutcome::Done) => "done",
                Ok(HandlerOutcome::Retry(_)) => "retry",
                Ok(HandlerOutcome::Failed(_)) => "failed",
                Err(CallError::Busy { .. }) => "busy",
                Err(CallError::Deadline { .. }) => "deadline",
                Err(CallError::EndedByHost { .. }) => "ended_by_host",
                Err(CallError::Trapped { .. } | CallError::InvalidResponse { .. }) => "trapped",
            };
            metrics::HANDLER_CALLS.increment([name, outcome]);
            metrics::HANDLER_DURATION.observe([name], began.elapsed());
        }
        result
    }
}

impl Active {
    /// Returns the sets of events that the module handles.
    pub(crate) fn event_sets(&self) -> &[EventSubscription] {
        let subscriptions = subscriptions(&self.module);
        subscriptions
            .map(|found| found.events.as_slice())
            .unwrap_or_default()
    }

    /// Returns the timers of the module.
    pub(crate) fn timers(&self) -> &[Timer] {
        let subscriptions = subscriptions(&self.module);
        subscriptions
            .map(|found| found.timers.as_slice())
            .unwrap_or_default()
    }
}

/// Returns the scopes that the operator grants to a module, without those to which the owner of a
/// mailbox did not agree. `row` is `None` if the owner has not enabled the module.
pub(crate) fn scopes(module: &Module, row: Option<&EnabledModule>) -> Vec<Scope> {
    let mut scopes = module.handler_scopes();
    if let Some(row) = row {
        let agreed = row.scopes();
        scopes.retain(|scope| agreed.contains(scope));
    }
    scopes
}

/// Returns the events and the timers of a module with handlers.
pub(crate) fn subscriptions(module: &Module) -> Option<&Subscriptions> {
    module.manifest().handlers.as_ref()
}

/// Returns the job of a module for a mailbox.
pub(crate) fn job<'j>(account: &'j str, module: &'j str, now: Timestamp) -> NewJob<'j> {
    NewJob {
        kind: KIND,
        key: module,
        account,
        due_at: now,
        payload: &[],
        limit: u32::MAX,
    }
}
