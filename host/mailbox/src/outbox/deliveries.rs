//! The states of deliveries. Each message gets a secret envelope id, with which mail servers report
//! deliveries (RFC 3461). The milter of the mail server records these reports.
//!
//! Without the milter, the service requests no reports, because the reports of successful
//! deliveries would arrive in the mailbox. The state is `unknown` then.

use latchmail_core::clock::Timestamp;
use latchmail_core::permissions::Right;
use latchmail_directory::deliveries::{self, DeliveryReport, DeliveryState, Submission};

use super::envelope::EnvelopeAddress;
use super::result::Error;
use super::send::Outbox;
use crate::access::Access;
use crate::connections::server_text;

const UNREPORTED: &str = "The mail server does not report deliveries";
const UNKNOWN: &str = "It is unknown whether the mail server has accepted the message";

/// A sent message with the states of its deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The time of the submission.
    pub sent_at: Timestamp,
    /// All recipients in the order of the envelope.
    pub recipients: Vec<DeliveryRecipient>,
}

/// The state of the delivery to one recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRecipient {
    /// The address.
    pub address: String,
    /// The name of the state: `queued`, `sent`, `delivered`, `delayed`, `bounced` or `unknown`.
    pub status: &'static str,
    /// The reason of the state, on one line.
    pub detail: Option<String>,
    /// The time at which the state was reported.
    pub at: Timestamp,
}

impl Outbox {
    /// Returns the states of the deliveries of a message. Returns `None` if the mailbox sent no
    /// such message in the last 30 days, or if a member must not learn that the message exists.
    ///
    /// # Errors
    /// Returns an [`Error`] if the database fails.
    pub async fn delivery(
        &self,
        access: &Access,
        message_id: &str,
    ) -> Result<Option<Delivery>, Error> {
        let (tracker, account) = (&self.tracker, &access.account);
        let now = tracker.clock.now();
        let found = tracker.directory.find(account, message_id, now).await?;
        let Some(mut message) = found else {
            return Ok(None);
        };
        if let Some(member) = &access.member
            && member.account != message.sender
            && !member.grants.over_every_folder().hold(Right::MailRead)
        {
            return Ok(None);
        }
        let recipients = std::mem::take(&mut message.recipients);
        let state = |address| recipient(address, &message);
        Ok(Some(Delivery {
            sent_at: message.sent_at,
            recipients: recipients.into_iter().map(state).collect(),
        }))
    }
}

fn recipient(address: String, message: &deliveries::SentMessage) -> DeliveryRecipient {
    let key = address.to_lowercase();
    let mut reports = message.reports.iter();
    if let Some(report) = reports.find(|report| report.recipient == key) {
        return DeliveryRecipient {
            address,
            status: match report.state {
                DeliveryState::Delayed => "delayed",
                DeliveryState::Sent => "sent",
                DeliveryState::Delivered => "delivered",
                DeliveryState::Bounced => "bounced",
            },
            detail: report.detail.clone(),
            at: report.at.max(message.sent_at),
        };
    }
    let (status, detail) = match message.submission {
        Submission::Queued => ("queued", None),
        Submission::Unreported => ("unknown", Some(UNREPORTED)),
        Submission::Unknown => ("unknown", Some(UNKNOWN)),
    };
    DeliveryRecipient {
        address,
        status,
        detail: detail.map(Into::into),
        at: message.sent_at,
    }
}

/// Returns the state of one recipient for a delivery report. The address and the text come from
/// another mail server.
#[must_use]
pub fn delivery_report(
    recipient: &str,
    state: DeliveryState,
    detail: &str,
    at: Timestamp,
) -> DeliveryReport {
    let address = EnvelopeAddress::parse(recipient).map(|address| address.to_string());
    let address = address.unwrap_or_else(|| recipient.to_owned());
    let has_detail = matches!(state, DeliveryState::Delayed | DeliveryState::Bounced);
    let detail = server_text::sanitize(detail);
    DeliveryReport {
        recipient: address.to_lowercase(),
        state,
        detail: Some(detail).filter(|text| has_detail && !text.is_empty()),
        at,
    }
}
