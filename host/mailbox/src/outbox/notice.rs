//! Messages that the service writes in the name of an account.

use std::sync::Arc;

use bytes::Bytes;
use latchmail_core::clock::Timestamp;

use super::draft::Draft;
use super::envelope::EnvelopeAddress;
use super::result::Error;
use super::send::{Outbox, sign};
use crate::blocking;

impl Outbox {
    /// Sends a message without a copy in the Sent folder and without delivery states. The envelope
    /// has the null sender (RFC 5321, section 4.5.5), so neither a bounce nor an automatic response
    /// returns the text to the account.
    pub(crate) async fn send_notice(&self, draft: Draft) -> Result<(), Error> {
        let mut envelope = draft.envelope()?;
        let draft = Arc::new(draft);
        let domain = envelope.from.domain();
        let message_id = self.new_message_id(domain)?;
        let (message, _memory) = self.write(&draft, &message_id).await?;
        let message = self.signed(domain, message, self.clock.now()).await?;
        envelope.from = EnvelopeAddress::null();
        let access = &draft.from.access;
        self.submit_message(access, &envelope, &message).await?;
        tracing::info!(account = access.account, message_id, "sent a notice");
        Ok(())
    }

    /// Signs a message, if the domain of its sender has a key.
    pub(super) async fn signed(
        &self,
        domain: &str,
        message: Bytes,
        now: Timestamp,
    ) -> Result<Bytes, Error> {
        let Some(signer) = self.signing.signer(domain).await? else {
            return Ok(message);
        };
        let result = blocking::run_sized(message.len(), move || sign(&signer, &message, now));
        Ok(result.await.map_err(Error::Internal)??)
    }
}
