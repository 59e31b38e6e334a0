//! Stores the copy of a sent message, and records the outcome of the send with it.

use std::pin::pin;
use std::time::Duration;

use latchmail_directory::sendings::{Key, Sendings};
use tokio::time::timeout;

use crate::changing::sent_copy::UploadedCopy;
use crate::error::{Error as MailboxError, log_failure};

/// Maximum time for which the record of a sent message waits for its copy, so that one write
/// records both. If the host is killed within this time, the outcome is unknown.
const MAX_UNRECORDED: Duration = Duration::from_millis(100);

/// The result of uploading a copy. `None` if no Sent folder exists.
pub(crate) type UploadResult = Result<Option<UploadedCopy>, MailboxError>;

/// Stores the copy of a sent message. Returns the path of the folder. If the copy cannot be stored,
/// logs the failure and returns `None`, because the message was sent.
pub(crate) async fn store_copy(copy: UploadResult) -> Option<String> {
    let stored = async { copy?.ok_or_else(no_sent_folder)?.store().await };
    stored.await.unwrap_or_else(|error| {
        tracing::warn!(%error, "failed to store a copy of a sent message");
        None
    })
}

/// Stores the copy of a sent message, and records for each key that the message was sent and where
/// the copy is. Returns the path of the copy's folder.
pub(crate) async fn file_copy(
    sendings: &Sendings,
    copy: UploadResult,
    keys: &[&Key],
) -> Option<String> {
    let mut stored = pin!(store_copy(copy));
    if let Ok(saved_to) = timeout(MAX_UNRECORDED, &mut stored).await {
        log_failure(sendings.sent(keys, saved_to.as_deref()).await);
        return saved_to;
    }
    log_failure(sendings.sent(keys, None).await);
    let saved_to = stored.await;
    if saved_to.is_some() {
        log_failure(sendings.sent(keys, saved_to.as_deref()).await);
    }
    saved_to
}

fn no_sent_folder() -> MailboxError {
    MailboxError::Internal("there is no Sent folder".into())
}
