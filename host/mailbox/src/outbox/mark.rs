//! Marks the message that a sent message answers or forwards.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::original::{Original, OriginalMessage, Relation};
use super::send::Outbox;
use crate::access::Access;
use crate::changing::completing;
use crate::error::Error;
use crate::mail::Mail;

/// Maximum time for which the response to a send waits.
const MAX_WAIT: Duration = Duration::from_secs(2);

impl Outbox {
    /// Sets the flag of the message that a sent message answers or forwards. Logs a failure,
    /// because the message was sent. After [`MAX_WAIT`], the operation continues on its own task,
    /// because the search for a Message-ID can take long in a large mailbox.
    pub(crate) async fn mark_original(&self, access: &Access, original: Option<Original>) {
        let Some(original) = original else {
            return;
        };
        let (mail, access) = (Arc::clone(&self.mail), access.clone());
        let marked = self.sends.spawn(async move {
            if let Err(error) = mark(&mail, &access, original).await {
                tracing::info!(account = access.account, %error, "original of a sent message not marked");
            }
        });
        if let Ok(Err(error)) = timeout(MAX_WAIT, marked).await {
            tracing::error!(%error, "the task that marks an original ended early");
        }
    }
}

async fn mark(mail: &Mail, access: &Access, original: Original) -> Result<(), Error> {
    // The message was sent, so a suspension of the grant no longer matters.
    let access = &completing(&mail.changing, access).await?;
    let (numbers, relation) = match original {
        Original::Known(OriginalMessage { number, relation }) => (vec![number], relation),
        Original::ReplyTo(message_id) => {
            let found = mail.search.with_message_id(access, &message_id).await?;
            (found, Relation::Reply)
        }
    };
    let Some(flag) = relation.flag().filter(|_| !numbers.is_empty()) else {
        return Ok(());
    };
    mail.changing.mark_original(access, &numbers, flag).await
}
