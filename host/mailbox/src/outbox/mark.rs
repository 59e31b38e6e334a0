//! Marks the message that a sent message answers or forwards.

use super::original::OriginalMessage;
use super::send::Outbox;
use crate::access::Access;

impl Outbox {
    /// Sets the flag of the message that a sent message answers or forwards. Logs a failure,
    /// because the message was sent.
    pub(crate) async fn mark_original(&self, access: &Access, original: Option<OriginalMessage>) {
        let Some(original) = original else {
            return;
        };
        let Some(flag) = original.relation.flag() else {
            return;
        };
        let number = original.number;
        if let Err(error) = self.mail.changing.mark_original(access, number, flag).await {
            let account = &access.account;
            tracing::info!(account, uid = number.0, %error, "original of a sent message not marked");
        }
    }
}
