//! The interface `webhooks`, for the webhooks of the caller's mailbox.

use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_bindings::latchmail::host::webhooks::{self as wit, Host};
use latchmail_callbacks::{self as webhooks, Owner, WebhookChange, WebhookSettings};
use latchmail_core::caller::{Credential, Scope};
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::policy::Action;

use super::call::Call;
use super::convert::{account_error, mailbox_error};
use super::host_call::host_call;
use super::policy::require_policy;
use super::problem;

impl Host for Call {
    async fn create(&mut self, settings: wit::Settings) -> Result<wit::Created, HostError<Error>> {
        let _span = host_call("webhooks.create");
        let owner = sender(self)?;
        let created = self.services.webhooks.create(&owner, from_wit(settings));
        let created = created.await.map_err(webhook_error)?;
        Ok(wit::Created {
            webhook: webhook(created.webhook),
            secret: created.secret,
        })
    }

    async fn list(&mut self) -> Result<Vec<wit::Webhook>, HostError<Error>> {
        let _span = host_call("webhooks.list");
        let owner = owner(self)?;
        let listed = self.services.webhooks.list(&owner).await;
        Ok(listed
            .map_err(webhook_error)?
            .into_iter()
            .map(webhook)
            .collect())
    }

    async fn get(&mut self, id: String) -> Result<wit::Webhook, HostError<Error>> {
        let _span = host_call("webhooks.get");
        let owner = owner(self)?;
        let found = self.services.webhooks.get(&owner, &id).await;
        Ok(webhook(found.map_err(webhook_error)?))
    }

    async fn change(
        &mut self,
        id: String,
        change: wit::WebhookChange,
    ) -> Result<wit::Webhook, HostError<Error>> {
        let _span = host_call("webhooks.change");
        let owner = sender(self)?;
        let change = WebhookChange {
            url: change.url,
            types: change.types.map(|filter| match filter {
                wit::TypeFilter::All => None,
                wit::TypeFilter::Only(types) => Some(types),
            }),
            folder: change.folder.map(|filter| match filter {
                wit::FolderFilter::All => None,
                wit::FolderFilter::Only(path) => Some(path),
            }),
            payload: change.payload,
            active: change.enabled,
        };
        let changed = self.services.webhooks.change(&owner, &id, &change);
        Ok(webhook(changed.await.map_err(webhook_error)?))
    }

    async fn delete(&mut self, id: String) -> Result<(), HostError<Error>> {
        let _span = host_call("webhooks.delete");
        let owner = owner(self)?;
        let deleted = self.services.webhooks.delete(&owner, &id).await;
        Ok(deleted.map_err(webhook_error)?)
    }

    async fn rotate(&mut self, id: String) -> Result<String, HostError<Error>> {
        let _span = host_call("webhooks.rotate");
        let owner = owner(self)?;
        let secret = self.services.webhooks.rotate(&owner, &id).await;
        Ok(secret.map_err(webhook_error)?)
    }

    async fn test(&mut self, id: String) -> Result<wit::Delivery, HostError<Error>> {
        let _span = host_call("webhooks.test");
        let owner = sender(self)?;
        let sent = self.services.webhooks.test(&owner, &id).await;
        Ok(delivery(sent.map_err(webhook_error)?))
    }

    async fn deliveries(
        &mut self,
        id: String,
        limit: u32,
    ) -> Result<Vec<wit::Delivery>, HostError<Error>> {
        let _span = host_call("webhooks.deliveries");
        let owner = owner(self)?;
        let listed = self.services.webhooks.deliveries(&owner, &id, limit).await;
        let listed = listed.map_err(webhook_error)?;
        Ok(listed.into_iter().map(delivery).collect())
    }

    async fn replay(
        &mut self,
        id: String,
        replayed: String,
    ) -> Result<wit::Delivery, HostError<Error>> {
        let _span = host_call("webhooks.replay");
        let owner = sender(self)?;
        let pending = self.services.webhooks.replay(&owner, &id, &replayed).await;
        Ok(delivery(pending.map_err(webhook_error)?))
    }
}

/// Returns the caller as the owner of webhooks.
pub(super) fn owner(call: &Call) -> Result<Owner, Error> {
    let access = call.mailbox_access(Scope::MailRead)?;
    let caller = call.require_caller()?;
    if matches!(caller.credential, Credential::Handler { .. }) {
        // A webhook would continue to exist after the owner has switched the module off.
        let sentence = "A handler of a module cannot use webhooks and subscriptions";
        return Err(problem::denied(codes::PERMISSION_DENIED, sentence));
    }
    Ok(Owner {
        access,
        app_password: caller.mail.app_password_id().map(ToOwned::to_owned),
        is_session: matches!(caller.credential, Credential::Session { .. }),
        origin: call.origin.clone(),
    })
}

/// Returns the caller as the owner of webhooks that send events. A grant that may not send mail to
/// everyone must not reach other hosts in this way.
pub(super) fn sender(call: &Call) -> Result<Owner, Error> {
    require_policy(call, Action::Subscribe, "sending events to other hosts")?;
    owner(call)
}

fn from_wit(settings: wit::Settings) -> WebhookSettings {
    WebhookSettings {
        url: settings.url,
        types: settings.types,
        folder: settings.folder,
        payload: settings.payload,
    }
}

fn webhook(webhook: webhooks::Webhook) -> wit::Webhook {
    let settings = webhook.settings;
    wit::Webhook {
        id: webhook.id,
        settings: wit::Settings {
            url: settings.url,
            types: settings.types,
            folder: settings.folder,
            payload: settings.payload,
        },
        enabled: webhook.active,
        reason: webhook.reason,
        failing_since: webhook.failing_since.map(Timestamp::millis),
        created_at: webhook.created_at.millis(),
    }
}

fn delivery(delivery: webhooks::Delivery) -> wit::Delivery {
    wit::Delivery {
        id: delivery.id,
        event_id: delivery.event_id,
        event_type: delivery.event_type,
        state: delivery.state,
        attempts: delivery.attempts,
        status: delivery.status,
        error: delivery.error,
        created_at: delivery.created_at.millis(),
        attempted_at: delivery.attempted_at.map(Timestamp::millis),
        next_at: delivery.next_at.map(Timestamp::millis),
    }
}

pub(super) fn webhook_error(error: webhooks::Error) -> Error {
    match error {
        webhooks::Error::NotFound => Error::NotFound,
        webhooks::Error::Invalid(why) => Error::Invalid(problem::of(why)),
        webhooks::Error::Conflict(why) => Error::Conflict(problem::of(why)),
        webhooks::Error::Denied(why) => Error::Denied(problem::of(why)),
        webhooks::Error::Mailbox(error) => mailbox_error(error),
        webhooks::Error::Failed(failure) => account_error(failure),
    }
}
