//! The interface `deliveries`, for the states of the deliveries of sent messages.

use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::deliveries::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::Scope;

use super::call::Call;
use super::host_call::host_call;
use super::outbox::outbox_error;

impl Host for Call {
    async fn get(&mut self, message_id: String) -> Result<wit::Delivery, HostError<Error>> {
        let _span = host_call("deliveries.get");
        let access = self.mailbox_access(Scope::MailRead)?;
        let found = self.services.outbox.delivery(&access, &message_id).await;
        let found = found.map_err(outbox_error)?.ok_or(Error::NotFound)?;
        let recipients = found.recipients.into_iter();
        Ok(wit::Delivery {
            message_id,
            sent_at: found.sent_at.millis(),
            recipients: recipients
                .map(|one| wit::Recipient {
                    address: one.address,
                    status: one.status.into(),
                    detail: one.detail,
                    at: one.at.millis(),
                })
                .collect(),
        })
    }
}
