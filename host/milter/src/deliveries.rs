//! Records what delivery status notifications report about the mail of the service.
//!
//! A notification counts if it has the null sender and a valid secret envelope id. Only the mail
//! servers that transferred the message know the id. Notifications of Postfix itself pass through
//! this milter because of `non_smtpd_milters` and `internal_mail_filter_classes`; notifications of
//! other servers arrive as other mail does. The milter discards notifications that report only
//! success, because the service requested them and no person did.

use latchmail_core::clock::Clock;
use latchmail_directory::deliveries::{DeliveryReport, DeliveryState};
use latchmail_mailbox::EnvelopeId;
use latchmail_mailbox::outbox::delivery_report;
use latchmail_mime::{Action, DeliveryStatus, RecipientStatus};

use super::message::Message;
use super::policy::{OUT_OF_MEMORY, Policy, unavailable};
use super::senders;

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
    if notification.is_out_of_memory() {
        return Err(OUT_OF_MEMORY.into());
    }
    let Some(status) = DeliveryStatus::parse(notification.text()) else {
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
