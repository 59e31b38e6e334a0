//! The interface `compose`, for replies to messages and forwards of messages.

use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::compose::Host;
use latchmail_bindings::latchmail::host::mailbox::Address;
use latchmail_bindings::latchmail::host::outbox as wit;
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::Scope;
use latchmail_core::codes;
use latchmail_core::message_number::MessageNumber;
use latchmail_mailbox::{ComposedFile, ComposedSource, Mode};

use super::call::Call;
use super::host_call::host_call;
use super::outbox::outbox_error;
use crate::api::problem;

impl Host for Call {
    async fn compose(
        &mut self,
        mode: String,
        uid: u64,
        locale: Option<String>,
    ) -> Result<wit::Draft, HostError<Error>> {
        let _span = host_call("compose.compose");
        let access = self.mailbox_access(Scope::MailRead)?;
        let (mode, relation) = match mode.as_str() {
            "reply" => (Mode::Reply, "reply"),
            "reply-all" => (Mode::ReplyAll, "reply"),
            "forward" => (Mode::Forward, "forward"),
            "forward-as-attachment" => (Mode::ForwardAsAttachment, "forward"),
            _ => return Err(problem::invalid(codes::INVALID_DRAFT, "Invalid mode").into()),
        };
        let (outbox, number) = (&self.services.outbox, MessageNumber(uid));
        let composed = outbox
            .compose(&access, number, mode, locale.as_deref())
            .await;
        let composed = composed.map_err(outbox_error)?.ok_or(Error::NotFound)?;
        let addresses = |all: Vec<latchmail_mailbox::Address>| -> Vec<Address> {
            let all = all.into_iter().map(|one| Address {
                name: one.name,
                address: one.address,
            });
            all.collect()
        };
        Ok(wit::Draft {
            from: Some(Address {
                name: String::new(),
                address: composed.from,
            }),
            to: addresses(composed.to),
            cc: addresses(composed.cc),
            bcc: Vec::new(),
            reply_to: Vec::new(),
            subject: composed.subject,
            text: composed.text,
            html: composed.html,
            in_reply_to: composed.in_reply_to,
            references: composed.references,
            headers: Vec::new(),
            files: composed
                .files
                .into_iter()
                .map(|one| file(uid, one))
                .collect(),
            original: Some(wit::Original {
                uid,
                relation: relation.into(),
            }),
        })
    }
}

fn file(uid: u64, file: ComposedFile) -> wit::File {
    wit::File {
        source: match file.source {
            ComposedSource::Attachment(index) => {
                wit::FileSource::Part(wit::MessagePart { uid, index })
            }
            ComposedSource::Message => wit::FileSource::Message(uid),
        },
        filename: None,
        content_type: None,
        content_id: file.content_id,
        inline: file.inline,
    }
}
