//! Stored messages that the fake host sends with an envelope. No copy is stored.

use std::rc::Rc;

use super::outbox::Later;
use super::{Account, SentMessage};
use crate::capability::{
    Address, Draft, DraftError, Error, OutboxEntry, SendOptions, Sent, Submission, Timestamp,
};

/// Maximum number of recipients of an envelope.
const MAX_RECIPIENTS: usize = 50;

impl Account {
    /// Sends a stored message. The list of sent messages has the sender and the recipients of the
    /// envelope, in the fields `from` and `to`.
    pub(super) fn submit(
        &mut self,
        submission: &Submission,
        now: Timestamp,
    ) -> Result<Sent, DraftError> {
        let detail = self.mail.detail(submission.uid).ok_or(Error::NotFound)?;
        let detail = detail.clone();
        let unfinished = |field: &str| Err(DraftError::Unfinished(field.into()));
        let Some(author) = detail.summary.from.first() else {
            return unfinished("from");
        };
        let sender = submission.from.as_ref().unwrap_or(&author.address);
        self.check_sender(&author.address)?;
        self.check_sender(sender)?;
        let recipients = submission.recipients.iter();
        let to: Vec<Address> = recipients
            .map(|address| Address {
                name: String::new(),
                address: address.clone(),
            })
            .collect();
        if to.is_empty() || to.len() > MAX_RECIPIENTS {
            return unfinished("recipients");
        }
        if let Some(error) = &self.sending_fault {
            return Err(error.clone().into());
        }
        let draft = Draft {
            from: Some(Address {
                name: author.name.clone(),
                address: sender.clone(),
            }),
            to,
            cc: Vec::new(),
            bcc: Vec::new(),
            reply_to: detail.reply_to.clone(),
            subject: detail.summary.subject.clone(),
            text: detail.text.clone(),
            html: detail.html.clone(),
            in_reply_to: detail.in_reply_to.clone(),
            references: detail.references.clone(),
            headers: Vec::new(),
            files: Vec::new(),
            original: None,
        };
        let later = submission.send_at.map(|send_at| OutboxEntry {
            id: format!("later{}", self.later.len() + 1),
            state: "scheduled".into(),
            send_at: send_at.max(now),
            message_id: detail.message_id.clone(),
            subject: draft.subject.clone(),
            to: draft.to.clone(),
            error: None,
            draft: None,
        });
        let state = if later.is_some() { "scheduled" } else { "sent" };
        let sent = Sent {
            state: state.into(),
            entry: later.as_ref().map(|entry| entry.id.clone()),
            send_at: later.as_ref().map(|entry| entry.send_at),
            message_id: detail.message_id,
            saved_to: None,
            replayed: false,
        };
        self.later.extend(later.map(|entry| Later {
            entry,
            letter: None,
            ended_at: None,
        }));
        let options = SendOptions {
            key: None,
            send_at: submission.send_at,
            undo_seconds: None,
        };
        let message = SentMessage {
            draft,
            files: Vec::new(),
            key: None,
            options,
        };
        self.sent.push((Rc::new(message), sent.clone()));
        Ok(sent)
    }
}
