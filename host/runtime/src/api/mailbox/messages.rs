//! Stored messages, headers, and several messages at once.

use std::sync::Arc;

use latchmail_bindings::latchmail::host::mailbox as wit;
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_bindings::{Blob, HostError};
use latchmail_core::caller::Scope;
use latchmail_core::codes;
use latchmail_core::message_number::MessageNumber;
use latchmail_mailbox::{Detail, SpamVerdict, content_version};

use super::AttachmentSource;
use super::changes::numbers;
use super::found::hit;
use crate::api::call::Call;
use crate::api::convert::mailbox_error;
use crate::api::problem;

/// The maximum number of names of header fields in one call.
const MAX_NAMES: usize = 100;

/// The maximum number of messages in one call, as summaries and in full.
const MAX_SUMMARIES: usize = 100;
const MAX_DETAILS: usize = 20;

impl Call {
    pub(super) async fn raw_message(
        &mut self,
        number: MessageNumber,
    ) -> Result<wit::RawMessage, HostError<Error>> {
        let access = self.mailbox_access(Scope::MailRead)?;
        let reading = &self.services.mail.reading;
        let message = reading.raw(&access, number, !self.has_range).await;
        let message = message.map_err(mailbox_error)?.ok_or(Error::NotFound)?;
        let content = match message.content.whole() {
            Some(bytes) => Blob::new(bytes),
            None => Blob::from_source(message.size, Arc::new(AttachmentSource(message.content))),
        };
        Ok(wit::RawMessage {
            subject: message.subject,
            content: self.table.push(content).map_err(HostError::trap)?,
            version: content_version(&access.account, number),
        })
    }

    pub(super) async fn header(
        &mut self,
        number: MessageNumber,
        names: Option<Vec<String>>,
    ) -> Result<wit::MessageHeader, Error> {
        let access = self.mailbox_access(Scope::MailRead)?;
        if let Some(names) = &names {
            if names.len() > MAX_NAMES {
                let text = format!("At most {MAX_NAMES} names of header fields at once");
                return Err(problem::invalid(codes::INVALID_HEADERS_PARAMETER, text));
            }
            if let Some(name) = names.iter().find(|name| !latchmail_mailbox::is_name(name)) {
                let text = format!("{name:?} is not the name of a header field");
                return Err(problem::invalid(codes::INVALID_HEADERS_PARAMETER, text));
            }
        }
        let header = self.services.mail.reading.header(&access, number, names);
        let header = header.await.map_err(mailbox_error)?;
        let header = header.ok_or(Error::NotFound)?;
        let field = |field: latchmail_mailbox::Field| wit::HeaderField {
            name: field.name,
            value: field.value,
        };
        Ok(wit::MessageHeader {
            fields: header.fields.into_iter().map(field).collect(),
            truncated: header.truncated,
        })
    }

    pub(super) async fn summaries(&mut self, uids: Vec<u64>) -> Result<Vec<wit::Hit>, Error> {
        let access = self.mailbox_access(Scope::MailRead)?;
        check_count(&uids, MAX_SUMMARIES)?;
        let listing = &self.services.mail.listing;
        let hits = listing.by_numbers(&access, &numbers(uids)).await;
        Ok(hits.map_err(mailbox_error)?.into_iter().map(hit).collect())
    }

    pub(super) async fn messages(&mut self, uids: Vec<u64>) -> Result<Vec<Detail>, Error> {
        let access = self.mailbox_access(Scope::MailRead)?;
        check_count(&uids, MAX_DETAILS)?;
        let reading = &self.services.mail.reading;
        let messages = reading.messages(&access, &numbers(uids)).await;
        messages.map_err(mailbox_error)
    }
}

fn check_count(uids: &[u64], max: usize) -> Result<(), Error> {
    if uids.len() > max {
        let text = format!("At most {max} messages at once");
        return Err(problem::too_large(codes::TOO_MANY_MESSAGES, text));
    }
    Ok(())
}

pub(super) fn mailing_list(list: latchmail_mailbox::MailingList) -> wit::MailingList {
    wit::MailingList {
        id: list.id,
        unsubscribe: list.unsubscribe,
        one_click: list.one_click,
    }
}

pub(super) fn spam(spam: latchmail_mailbox::Spam) -> wit::Spam {
    wit::Spam {
        verdict: match spam.verdict {
            SpamVerdict::Spam => "spam",
            SpamVerdict::Ham => "ham",
            SpamVerdict::None => "none",
        }
        .into(),
        score: spam.score,
    }
}
