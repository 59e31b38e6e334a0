//! The interface `drafts`, for the drafts of the caller's mailbox.

use std::mem;

use latchmail_bindings::latchmail::host::drafts::{self as wit, Host};
use latchmail_bindings::latchmail::host::mailbox::{Address, HeaderField, Page};
use latchmail_bindings::latchmail::host::outbox::{Draft, SendOptions, Sent};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_bindings::{Blob, HostError};
use latchmail_core::caller::Scope;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::message_number::MessageNumber;
use latchmail_mailbox::drafts::{self, DraftContent, StoredDraft, Submission};
use latchmail_mailbox::outbox;

use super::call::Call;
use super::convert::mailbox_error;
use super::host_call::host_call;
use super::mailbox::{addresses, attachment, check_limit};
use super::outbox::{File, header_fields, outbox_error, send_options, wit_sent};
use super::problem;

/// The maximum total size of the texts that a module receives as blobs in one call, in MiB.
const MAX_TEXTS: usize = 64;

impl Host for Call {
    fn convert_draft_error(
        &mut self,
        error: HostError<wit::DraftError>,
    ) -> wasmtime::Result<wit::DraftError> {
        error.into_guest()
    }

    async fn create(
        &mut self,
        mut draft: Draft,
    ) -> Result<wit::StoredDraft, HostError<wit::DraftError>> {
        let _span = host_call("drafts.create");
        let files = self.take_files(mem::take(&mut draft.files));
        let content = self.content(draft, files.map_err(HostError::Trap)?).await?;
        let access = self.mailbox_access(Scope::MailWrite).map_err(failed)?;
        self.preview.refuse().map_err(failed)?;
        let stored = self.services.drafts.create(&access, content).await;
        let stored = stored.map_err(draft_error)?;
        self.stored_draft(stored).map_err(widened)
    }

    async fn get(&mut self, id: String) -> Result<wit::StoredDraft, HostError<Error>> {
        let _span = host_call("drafts.get");
        let access = self.mailbox_access(Scope::MailRead)?;
        let draft = self.services.drafts.get(&access, &id).await;
        let draft = draft.map_err(read_error)?.ok_or(Error::NotFound)?;
        self.stored_draft(draft)
    }

    async fn list(&mut self, page: Page) -> Result<wit::DraftPage, HostError<Error>> {
        let _span = host_call("drafts.list");
        let access = self.mailbox_access(Scope::MailRead)?;
        check_limit(page.limit)?;
        let size = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        let page = (size(page.offset), size(page.limit));
        let listed = self.services.drafts.list(&access, page).await;
        let (listed, total) = listed.map_err(read_error)?;
        let mut drafts = Vec::with_capacity(listed.len());
        for draft in listed {
            drafts.push(self.stored_draft(draft)?);
        }
        Ok(wit::DraftPage {
            drafts,
            total: u32::try_from(total).unwrap_or(u32::MAX),
        })
    }

    async fn replace(
        &mut self,
        id: String,
        mut draft: Draft,
        if_version: Option<String>,
    ) -> Result<wit::StoredDraft, HostError<wit::DraftError>> {
        let _span = host_call("drafts.replace");
        let files = self.take_files(mem::take(&mut draft.files));
        let content = self.content(draft, files.map_err(HostError::Trap)?).await?;
        let access = self.mailbox_access(Scope::MailWrite).map_err(failed)?;
        self.preview.refuse().map_err(failed)?;
        let drafts = &self.services.drafts;
        let replaced = drafts.replace(&access, &id, content, if_version).await;
        let replaced = replaced.map_err(draft_error)?;
        let replaced = replaced.ok_or_else(|| failed(Error::NotFound))?;
        self.stored_draft(replaced).map_err(widened)
    }

    async fn delete(
        &mut self,
        id: String,
        if_version: Option<String>,
    ) -> Result<(), HostError<wit::DraftError>> {
        let _span = host_call("drafts.delete");
        let access = self.mailbox_access(Scope::MailWrite).map_err(failed)?;
        if self.preview.records(|| format!("delete the draft {id}")) {
            return Ok(());
        }
        let deleted = self.services.drafts.delete(&access, &id, if_version).await;
        let deleted = deleted.map_err(draft_error)?;
        Ok(deleted.ok_or_else(|| failed(Error::NotFound))?)
    }

    async fn send(
        &mut self,
        id: String,
        if_version: Option<String>,
        options: SendOptions,
    ) -> Result<Sent, HostError<wit::DraftError>> {
        let _span = host_call("drafts.send");
        self.require_scope(Scope::MailRead).map_err(failed)?;
        let access = self.mailbox_access(Scope::MailSend).map_err(failed)?;
        self.preview.refuse().map_err(failed)?;
        let drafts = &self.services.drafts;
        let sent = drafts.send(&access, &id, if_version, send_options(options));
        let sent = Box::pin(sent).await;
        let sent = sent.map_err(draft_error)?;
        let sent = sent.ok_or_else(|| failed(Error::NotFound))?;
        Ok(wit_sent(sent))
    }

    async fn submit(
        &mut self,
        submission: wit::Submission,
    ) -> Result<Sent, HostError<wit::DraftError>> {
        let _span = host_call("drafts.submit");
        self.require_scope(Scope::MailRead).map_err(failed)?;
        let access = self.mailbox_access(Scope::MailSend).map_err(failed)?;
        self.preview.refuse().map_err(failed)?;
        let submission = Submission {
            number: MessageNumber(submission.uid),
            from: submission.from,
            recipients: submission.recipients,
            send_at: submission.send_at.map(Timestamp::from_millis),
        };
        let sent = self.services.drafts.submit(&access, submission).await;
        let sent = sent.map_err(draft_error)?;
        let sent = sent.ok_or_else(|| failed(Error::NotFound))?;
        Ok(wit_sent(sent))
    }
}

impl Call {
    /// Converts the content of a draft, and reads the blobs of its files.
    async fn content(
        &mut self,
        draft: Draft,
        files: Vec<File>,
    ) -> Result<DraftContent, wit::DraftError> {
        self.require_scope(Scope::MailWrite).map_err(failed)?;
        let files = self.read_sources(files).await.map_err(failed)?;
        let original = self.original(draft.original).map_err(failed)?;
        Ok(DraftContent {
            from: draft.from.map(address),
            to: draft.to.into_iter().map(address).collect(),
            cc: draft.cc.into_iter().map(address).collect(),
            bcc: draft.bcc.into_iter().map(address).collect(),
            reply_to: draft.reply_to.into_iter().map(address).collect(),
            subject: draft.subject,
            text: draft.text,
            html: draft.html,
            in_reply_to: draft.in_reply_to,
            references: draft.references,
            headers: header_fields(draft.headers),
            files,
            original,
        })
    }

    fn stored_draft(&mut self, draft: StoredDraft) -> Result<wit::StoredDraft, HostError<Error>> {
        let texts = [draft.text, draft.html];
        self.text_bytes += texts.iter().flatten().map(String::len).sum::<usize>();
        if self.text_bytes > MAX_TEXTS * 1024 * 1024 {
            let text =
                format!("The texts of drafts must not exceed {MAX_TEXTS} MiB in one request");
            return Err(problem::too_large(codes::MESSAGE_TOO_LARGE, text).into());
        }
        let mut blob = |text: Option<String>| {
            let blob = text.map(|text| self.table.push(Blob::new(text.into())));
            blob.transpose().map_err(HostError::trap)
        };
        let [text, html] = texts;
        Ok(wit::StoredDraft {
            text: blob(text)?,
            html: blob(html)?,
            id: draft.id,
            version: draft.version,
            uid: draft.number.0,
            from: addresses(draft.from),
            to: addresses(draft.to),
            cc: addresses(draft.cc),
            bcc: addresses(draft.bcc),
            reply_to: addresses(draft.reply_to),
            subject: draft.subject,
            in_reply_to: draft.in_reply_to,
            references: draft.references,
            headers: draft
                .headers
                .into_iter()
                .map(|field| HeaderField {
                    name: field.name,
                    value: field.value,
                })
                .collect(),
            attachments: draft.attachments.into_iter().map(attachment).collect(),
            truncated: draft.truncated,
        })
    }
}

fn address(address: Address) -> latchmail_mailbox::Address {
    latchmail_mailbox::Address {
        name: address.name,
        address: address.address,
    }
}

fn failed(error: Error) -> wit::DraftError {
    wit::DraftError::Failed(error)
}

fn widened(error: HostError<Error>) -> HostError<wit::DraftError> {
    match error {
        HostError::Guest(error) => HostError::Guest(failed(error)),
        HostError::Trap(trap) => HostError::Trap(trap),
    }
}

fn draft_error(error: drafts::Error) -> wit::DraftError {
    match error {
        drafts::Error::VersionMismatch => wit::DraftError::VersionMismatch,
        drafts::Error::Unfinished(field) => wit::DraftError::Unfinished(field.into()),
        drafts::Error::Outbox(outbox::Error::FileNotFound(index)) => {
            wit::DraftError::FileNotFound(u32::try_from(index).unwrap_or(u32::MAX))
        }
        drafts::Error::Outbox(error) => failed(outbox_error(error)),
        drafts::Error::Mailbox(error) => failed(mailbox_error(error)),
    }
}

/// Converts an error of reading drafts.
fn read_error(error: drafts::Error) -> Error {
    match error {
        drafts::Error::Mailbox(error) => mailbox_error(error),
        drafts::Error::Outbox(error) => outbox_error(error),
        drafts::Error::VersionMismatch | drafts::Error::Unfinished(_) => Error::Internal,
    }
}
