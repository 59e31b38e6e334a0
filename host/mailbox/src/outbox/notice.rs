//! Messages that the service writes in the name of an account.

use std::sync::Arc;

use super::draft::Draft;
use super::envelope::Reports;
use super::result::Error;
use super::send::{Outbox, sign};

/// Sends a message without a copy in the Sent folder and without delivery states. The account gets
/// no bounce, unless a mail server does not support requests for delivery reports.
pub(crate) async fn send(outbox: &Outbox, draft: Draft) -> Result<(), Error> {
    let mut envelope = draft.envelope()?;
    let draft = Arc::new(draft);
    let domain = envelope.from.domain();
    let message_id = outbox.new_message_id(domain)?;
    let (message, _memory) = outbox.write(&draft, &message_id).await?;
    let signer = outbox.signing.signer(domain).await?;
    let message = sign(signer, message, outbox.clock.now()).await?;
    envelope.reports = Reports::Never;
    let access = &draft.from.access;
    outbox.submit_message(access, &envelope, &message).await?;
    tracing::info!(account = access.account, message_id, "sent a notice");
    Ok(())
}
