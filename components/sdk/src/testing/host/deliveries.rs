//! The deliveries of the fake host. A sent message stays in the state `queued` until the test sets
//! another state.

use super::{Account, FakeHost, Need};
use crate::capability::{
    Deliveries, Delivery, DeliveryRecipient, Draft, Error, Scope, Sent, Timestamp,
};

/// The time for which the host knows a sent message, in milliseconds.
const RETENTION: Timestamp = 30 * 24 * 3_600_000;

/// Sets the state of the delivery to one recipient of a message that the signed-in account sent, as
/// a delivery report does. Does nothing if the message or the recipient does not exist.
#[track_caller]
pub fn set_delivery(
    host: &FakeHost,
    message_id: &str,
    address: &str,
    status: &str,
    detail: Option<&str>,
) {
    let now = host.now();
    host.with_account(|account| {
        let messages = account.deliveries.iter_mut();
        let recipients = messages
            .filter(|one| one.message_id == message_id)
            .flat_map(|one| &mut one.recipients);
        for recipient in recipients.filter(|one| one.address == address) {
            recipient.status = status.into();
            recipient.detail = detail.map(Into::into);
            recipient.at = now;
        }
    });
}

impl Account {
    /// Adds a sent message, whose deliveries are queued.
    pub(super) fn add_delivery(&mut self, draft: &Draft, sent: &Sent, now: Timestamp) {
        let mut recipients: Vec<DeliveryRecipient> = Vec::new();
        for to in draft.to.iter().chain(&draft.cc).chain(&draft.bcc) {
            if recipients.iter().all(|one| one.address != to.address) {
                recipients.push(DeliveryRecipient {
                    address: to.address.clone(),
                    status: "queued".into(),
                    detail: None,
                    at: now,
                });
            }
        }
        self.deliveries.push(Delivery {
            message_id: sent.message_id.clone(),
            sent_at: now,
            recipients,
        });
    }
}

impl Deliveries for FakeHost {
    fn get_delivery(&self, message_id: &str) -> Result<Delivery, Error> {
        let oldest = self.now() - RETENTION;
        self.allow(Need::Scope(Scope::MailRead), |account| {
            let mut deliveries = account.deliveries.iter();
            deliveries
                .find(|one| one.message_id == message_id && one.sent_at > oldest)
                .cloned()
                .ok_or(Error::NotFound)
        })
    }
}
