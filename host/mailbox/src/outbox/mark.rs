//! Marks the message that a sent message answers or forwards.

use super::draft::Draft;
use super::send::Outbox;

impl Outbox {
    /// Sets the flag of the message that a sent message answers or forwards. Logs a failure,
    /// because the message was sent.
    pub(super) async fn mark_original(&self, draft: &Draft) {
        let Some(original) = draft.original else {
            return;
        };
        let Some(flag) = original.relation.flag() else {
            return;
        };
        let (access, number) = (&draft.from.access, original.number);
        if let Err(error) = self.mail.changing.mark_original(access, number, flag).await {
            let account = &access.account;
            tracing::info!(account, uid = number.0, %error, "original of a sent message not marked");
        }
    }
}
