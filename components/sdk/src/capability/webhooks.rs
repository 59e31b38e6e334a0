//! `latchmail:host/webhooks`: URLs to which the host sends the events of the caller's mailbox.

use super::{Error, Host};
use crate::bindings::latchmail::host::webhooks;
pub use crate::bindings::latchmail::host::webhooks::{
    Created as CreatedWebhook, Delivery as WebhookDelivery, FolderFilter,
    Settings as WebhookSettings, TypeFilter, Webhook, WebhookChange,
};

/// The webhooks that the caller manages: all webhooks of the mailbox for a session of its owner,
/// the member's webhooks for a session of a member, and the webhooks of the credential for another
/// credential. Needs the scope `mail:read`.
///
/// A function with an `id` returns [`Error::NotFound`] if the caller manages no such webhook.
pub trait Webhooks {
    /// Creates a webhook, which belongs to the caller's credential.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if a setting is invalid, [`Error::NotFound`] if the folder does
    /// not exist, [`Error::Conflict`] if the account has 20 webhooks, and [`Error::Denied`] if the
    /// credential cannot have webhooks.
    fn create_webhook(&self, settings: &WebhookSettings) -> Result<CreatedWebhook, Error>;

    /// Returns the webhooks, oldest first.
    ///
    /// # Errors
    /// Returns an error if the webhooks cannot be read.
    fn list_webhooks(&self) -> Result<Vec<Webhook>, Error>;

    /// Returns a webhook.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if there is no such webhook.
    fn get_webhook(&self, id: &str) -> Result<Webhook, Error>;

    /// Changes a webhook. A value that is `None` stays as it is, also if another request changes it
    /// at the same time.
    ///
    /// # Errors
    /// Returns an error under the same conditions as [`Webhooks::create_webhook`].
    fn change_webhook(&self, id: &str, change: &WebhookChange) -> Result<Webhook, Error>;

    /// Deletes a webhook.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if there is no such webhook.
    fn delete_webhook(&self, id: &str) -> Result<(), Error>;

    /// Replaces the secret of a webhook, and returns the new secret.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if there is no such webhook.
    fn rotate_webhook(&self, id: &str) -> Result<String, Error>;

    /// Sends a test event once, and returns the outcome.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if there is no such webhook.
    fn test_webhook(&self, id: &str) -> Result<WebhookDelivery, Error>;

    /// Returns the newest deliveries, newest first, at most 100.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if there is no such webhook.
    fn webhook_deliveries(&self, id: &str, limit: u32) -> Result<Vec<WebhookDelivery>, Error>;

    /// Sends an event again.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if there is no such delivery, and [`Error::Conflict`] if the
    /// delivery is pending or the webhook is disabled.
    fn replay_delivery(&self, id: &str, delivery: &str) -> Result<WebhookDelivery, Error>;
}

impl Webhooks for Host {
    fn create_webhook(&self, settings: &WebhookSettings) -> Result<CreatedWebhook, Error> {
        webhooks::create(settings)
    }

    fn list_webhooks(&self) -> Result<Vec<Webhook>, Error> {
        webhooks::list()
    }

    fn get_webhook(&self, id: &str) -> Result<Webhook, Error> {
        webhooks::get(id)
    }

    fn change_webhook(&self, id: &str, change: &WebhookChange) -> Result<Webhook, Error> {
        webhooks::change(id, change)
    }

    fn delete_webhook(&self, id: &str) -> Result<(), Error> {
        webhooks::delete(id)
    }

    fn rotate_webhook(&self, id: &str) -> Result<String, Error> {
        webhooks::rotate(id)
    }

    fn test_webhook(&self, id: &str) -> Result<WebhookDelivery, Error> {
        webhooks::test(id)
    }

    fn webhook_deliveries(&self, id: &str, limit: u32) -> Result<Vec<WebhookDelivery>, Error> {
        webhooks::deliveries(id, limit)
    }

    fn replay_delivery(&self, id: &str, delivery: &str) -> Result<WebhookDelivery, Error> {
        webhooks::replay(id, delivery)
    }
}
