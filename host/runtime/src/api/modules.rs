//! The interface `modules`, for the modules that can act for the caller without a request.

use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::modules::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_mailbox::Access;

use super::call::Call;
use super::convert::{self, account_error, mailbox_error};
use super::host_call::host_call;
use crate::modules::{EventSubscription, Schedule, Timer};
use crate::owner_modules::{ModuleOwner, OwnerModule, SwitchError};

impl Host for Call {
    async fn list(&mut self) -> Result<Vec<wit::OwnerModule>, HostError<Error>> {
        let _span = host_call("modules.list");
        let account = self.require_session()?;
        let modules = self.services.owner_modules.list(&account.id).await;
        let modules = modules.map_err(account_error)?;
        Ok(modules.into_iter().map(owner_module).collect())
    }

    async fn set_enabled(
        &mut self,
        name: String,
        enabled: bool,
    ) -> Result<wit::OwnerModule, HostError<Error>> {
        let _span = host_call("modules.set-enabled");
        let account = self.require_session()?;
        let owner = ModuleOwner {
            access: Access {
                is_person: true,
                ..Access::of_owner(account.id, account.mail)
            },
            sid: account.sid,
            origin: account.origin,
        };
        let modules = &self.services.owner_modules;
        let switched = modules.switch(&owner, &name, enabled).await;
        Ok(owner_module(switched.map_err(switch_error)?))
    }
}

fn switch_error(error: SwitchError) -> Error {
    match error {
        SwitchError::NotFound => Error::NotFound,
        SwitchError::SessionEnded => Error::CredentialRefused,
        SwitchError::Mailbox(error) => mailbox_error(error),
        SwitchError::Failed(failure) => account_error(failure),
    }
}

fn owner_module(module: OwnerModule) -> wit::OwnerModule {
    let (events, timers) = module
        .subscriptions
        .map(|found| (found.events, found.timers))
        .unwrap_or_default();
    wit::OwnerModule {
        name: module.name,
        description: module.description,
        events: events.into_iter().map(handled_events).collect(),
        timers: timers.into_iter().map(module_timer).collect(),
        scopes: convert::scopes_to_wit(module.scopes),
        enabled: module.enabled,
        paused: module.paused,
    }
}

fn handled_events(set: EventSubscription) -> wit::HandledEvents {
    wit::HandledEvents {
        types: set.types.iter().map(|kind| kind.name().into()).collect(),
        folder_role: set.folder_role,
    }
}

fn module_timer(timer: Timer) -> wit::ModuleTimer {
    let (every, cron) = match timer.schedule {
        Schedule::Every(every) => (u32::try_from(every.as_secs()).ok(), None),
        Schedule::Cron(cron) => (None, Some(cron.text().to_owned())),
    };
    wit::ModuleTimer {
        name: timer.name,
        every,
        cron,
    }
}
