//! Records what delivery status notifications report about the mail of the service.
//!
//! A notification counts if it has the null sender and a valid secret envelope id. Only the mail
//! servers that transferred the message know the id. Notifications of Postfix itself pass through
//! this milter because of `non_smtpd_milters` and `internal_mail_filter_classes`; notifications of
//! other servers arrive as other mail does. The milter discards notifications that report only
//! success, because the service requested them and no person did.

use std::sync::Arc;

use latchmail_core::clock::Clock;
use latchmail_directory::deliveries::{DeliveryReport, DeliveryState};
use latchmail_mailbox::EnvelopeId;
use latchmail_mailbox::outbox::delivery_report;
use latchmail_mime::{Action, DeliveryStatus, RecipientStatus};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::message::Message;
use super::policy::{OUT_OF_MEMORY, Policy, unavailable};
use super::senders;

/// Maximum number of bytes of a notification that are read. The returned message is at the end of a
/// notification and is not needed.
const MAX_SIZE: usize = 512 * 1024;

/// The beginning of a message that can be a notification.
#[derive(Debug)]
pub(crate) struct Notification {
    text: Vec<u8>,
    permits: Option<OwnedSemaphorePermit>,
    out_of_memory: bool,
}

impl Notification {
    /// Returns `None` if the value of Content-Type is not the one of a notification.
    pub(crate) fn begin(content_type: &[u8]) -> Option<Self> {
        let kind = content_type
            .trim_ascii_start()
            .get(.."multipart/report".len())?;
        kind.eq_ignore_ascii_case(b"multipart/report")
            .then(|| Self {
                text: [b"Content-Type:", content_type, b"\n\n"].concat(),
                permits: None,
                out_of_memory: false,
            })
    }

    /// Adds a piece of the body. `memory` has one permit for each KiB of memory.
    pub(crate) fn add_body(&mut self, piece: &[u8], memory: &Arc<Semaphore>) {
        let piece = piece
            .get(..MAX_SIZE.saturating_sub(self.text.len()))
            .unwrap_or(piece);
        if piece.is_empty() || self.out_of_memory {
            return;
        }
        let needed = u32::try_from(piece.len().div_ceil(1024)).unwrap_or(u32::MAX);
        match Arc::clone(memory).try_acquire_many_owned(needed) {
            Ok(permit) => {
                match &mut self.permits {
                    Some(permits) => permits.merge(permit),
                    None => self.permits = Some(permit),
                }
                self.text.extend_from_slice(piece);
            }
            Err(_) => self.out_of_memory = true,
        }
    }
}

/// What happens to a message after its report was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handled {
    /// The message is delivered.
    Accept,
    /// The message is discarded.
    Discard,
}

/// Records the states in a notification about the mail of the service. Does nothing for another
/// message.
///
/// # Errors
/// Returns the SMTP reply for a temporary error if the states cannot be recorded. The mail server
/// then sends the notification again.
pub(crate) async fn record(
    policy: &Policy,
    is_internal: bool,
    message: &Message,
) -> Result<Handled, String> {
    let Some(notification) = &message.notification else {
        return Ok(Handled::Accept);
    };
    if notification.out_of_memory {
        return Err(OUT_OF_MEMORY.into());
    }
    let Some(status) = DeliveryStatus::parse(&notification.text) else {
        return Ok(Handled::Accept);
    };
    let Some(text) = &status.envelope_id else {
        return Ok(Handled::Accept);
    };
    let key = policy.directory.results_key().await;
    let key = key.map_err(|error| unavailable(&error))?;
    let Some(id) = key.and_then(|key| EnvelopeId::parse(key.as_bytes(), text)) else {
        return Ok(Handled::Accept);
    };
    let mut reports = Vec::with_capacity(status.recipients.len());
    for recipient in &status.recipients {
        reports.push(report(policy, is_internal, recipient).await?);
    }
    let stored = policy
        .directory
        .add_delivery_reports(&id.hash(), &reports)
        .await;
    stored.map_err(|error| unavailable(&error))?;
    let is_success = |report: &DeliveryReport| {
        matches!(report.state, DeliveryState::Sent | DeliveryState::Delivered)
    };
    if !reports.is_empty() && reports.iter().all(is_success) {
        return Ok(Handled::Discard);
    }
    Ok(Handled::Accept)
}

async fn report(
    policy: &Policy,
    is_internal: bool,
    recipient: &RecipientStatus,
) -> Result<DeliveryReport, String> {
    let state = match recipient.action {
        Action::Failed => DeliveryState::Bounced,
        Action::Delayed => DeliveryState::Delayed,
        Action::Delivered => DeliveryState::Delivered,
        // Postfix reports `relayed` when Dovecot has stored a message, because LMTP has no delivery
        // reports, and `expanded` when Postfix has replaced an alias.
        Action::Relayed | Action::Expanded if is_internal => {
            let domain = recipient.address.rsplit_once('@');
            let domain = domain.map(|(_, domain)| senders::fold_domain(domain));
            let is_local = policy.directory.is_local(&domain.unwrap_or_default()).await;
            if is_local.map_err(|error| unavailable(&error))? && recipient.action == Action::Relayed
            {
                DeliveryState::Delivered
            } else {
                DeliveryState::Sent
            }
        }
        Action::Relayed | Action::Expanded => DeliveryState::Sent,
    };
    let now = Clock::system().now();
    Ok(delivery_report(
        &recipient.address,
        state,
        &recipient.diagnostic,
        now,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_of_a_notification_is_limited() {
        let memory = Arc::new(Semaphore::new(1000));
        assert!(Notification::begin(b" text/plain").is_none());
        assert!(Notification::begin(b" multi").is_none());
        let mut notification = Notification::begin(b" Multipart/Report; boundary=b").unwrap();
        for _ in 0..20 {
            notification.add_body(&vec![b'x'; 60 * 1024], &memory);
        }
        assert_eq!(notification.text.len(), MAX_SIZE);
        let mut other = Notification::begin(b" multipart/report; boundary=b").unwrap();
        for _ in 0..20 {
            other.add_body(&vec![b'x'; 60 * 1024], &memory);
        }
        assert!(other.out_of_memory && memory.available_permits() > 0);
        drop((notification, other));
        assert_eq!(memory.available_permits(), 1000);
    }
}
