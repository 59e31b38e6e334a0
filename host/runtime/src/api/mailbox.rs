//! The interface `mailbox`, for reading and changing the caller's mail.

mod found;

use std::io;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _};
use latchmail_bindings::latchmail::host::mailbox::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_bindings::{Blob, BlobSource, ByteStream};
use latchmail_core::caller::Scope;
use latchmail_mailbox::Flag;

use super::call::Call;
use super::convert::mailbox_error;
use super::host_call::host_call;

/// The maximum number of messages on one page.
const MAX_PAGE_SIZE: u32 = 100;

/// The maximum number of messages in one change, and the maximum number of flags in one change.
const MAX_UIDS: usize = 1000;
const MAX_FLAGS: usize = 100;

/// The maximum total size of the texts that a module receives as blobs in one call, in MiB. These
/// texts use memory of the host.
const MAX_TEXTS: usize = 64;

impl Host for Call {
    async fn list_folders(&mut self) -> wasmtime::Result<Result<Vec<wit::Folder>, Error>> {
        let _span = host_call("mailbox.list-folders");
        Ok(self.folders().await)
    }

    async fn list_messages(
        &mut self,
        folder: String,
        page: wit::Page,
    ) -> wasmtime::Result<Result<wit::Listing, Error>> {
        let _span = host_call("mailbox.list-messages");
        Ok(self.messages(&folder, page).await)
    }

    async fn get_message(&mut self, uid: u64) -> wasmtime::Result<Result<wit::Detail, Error>> {
        let _span = host_call("mailbox.get-message");
        Ok(self.message(uid).await.map(detail))
    }

    async fn get_message_with_blobs(
        &mut self,
        uid: u64,
    ) -> wasmtime::Result<Result<wit::DetailWithBlobs, Error>> {
        let _span = host_call("mailbox.get-message-with-blobs");
        let mut message = match self.message(uid).await {
            Ok(message) => message,
            Err(error) => return Ok(Err(error)),
        };
        let texts = [
            message.text.take(),
            message.html.take(),
            message.new_text.take(),
        ];
        self.text_bytes += texts.iter().flatten().map(String::len).sum::<usize>();
        if self.text_bytes > MAX_TEXTS * 1024 * 1024 {
            return Ok(Err(Error::TooLarge(format!(
                "The texts of messages must not exceed {MAX_TEXTS} MiB in one request"
            ))));
        }
        let mut blob = |text: Option<String>| {
            text.map(|text| self.table.push(Blob::new(text.into())))
                .transpose()
        };
        let [text, html, new_text] = texts;
        Ok(Ok(wit::DetailWithBlobs {
            text: blob(text)?,
            html: blob(html)?,
            new_text: blob(new_text)?,
            detail: detail(message),
        }))
    }

    async fn get_attachment(
        &mut self,
        uid: u64,
        index: u32,
    ) -> wasmtime::Result<Result<Option<wit::AttachmentContent>, Error>> {
        let _span = host_call("mailbox.get-attachment");
        let found = match self.attachment(uid, index).await {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let Some(found) = found else {
            return Ok(Ok(None));
        };
        let content = match found.content.whole() {
            Some(bytes) => Blob::new(bytes),
            None => Blob::from_source(
                found.attachment.size,
                Arc::new(AttachmentSource(found.content)),
            ),
        };
        Ok(Ok(Some(wit::AttachmentContent {
            attachment: attachment(found.attachment),
            content: self.table.push(content)?,
        })))
    }

    async fn search_messages(
        &mut self,
        search: wit::Search,
    ) -> wasmtime::Result<Result<wit::SearchResult, wit::SearchError>> {
        let _span = host_call("mailbox.search-messages");
        Ok(self.search(search).await)
    }

    async fn list_threads(
        &mut self,
        folder: Option<String>,
        page: wit::Page,
    ) -> wasmtime::Result<Result<wit::ThreadList, wit::ThreadsError>> {
        let _span = host_call("mailbox.list-threads");
        Ok(self.threads(folder.as_deref(), page).await)
    }

    async fn get_thread(
        &mut self,
        id: String,
        page: wit::Page,
    ) -> wasmtime::Result<Result<wit::ThreadMessages, wit::ThreadsError>> {
        let _span = host_call("mailbox.get-thread");
        Ok(self.thread(&id, page).await)
    }

    async fn list_changes(
        &mut self,
        since: Option<String>,
        folder: Option<String>,
        limit: u32,
    ) -> wasmtime::Result<Result<wit::ChangeList, wit::ChangesError>> {
        let _span = host_call("mailbox.list-changes");
        Ok(self
            .changes(since.as_deref(), folder.as_deref(), limit)
            .await)
    }

    async fn set_flags(
        &mut self,
        uids: Vec<u64>,
        flags: Vec<String>,
        action: wit::FlagAction,
    ) -> wasmtime::Result<Result<Vec<u64>, Error>> {
        let _span = host_call("mailbox.set-flags");
        Ok(self.change_flags(&uids, &flags, action).await)
    }

    async fn move_messages(
        &mut self,
        uids: Vec<u64>,
        destination: String,
    ) -> wasmtime::Result<Result<Vec<u64>, Error>> {
        let _span = host_call("mailbox.move-messages");
        Ok(self.move_all(&uids, &destination).await)
    }

    async fn delete_messages(
        &mut self,
        uids: Vec<u64>,
    ) -> wasmtime::Result<Result<Vec<u64>, Error>> {
        let _span = host_call("mailbox.delete-messages");
        Ok(self.delete_all(&uids).await)
    }
}

/// A blob source that reads an attachment from the mail server.
struct AttachmentSource(latchmail_mailbox::Download);

impl BlobSource for AttachmentSource {
    fn open(&self) -> ByteStream {
        self.0.open().map_err(io::Error::other).boxed()
    }
}

impl Call {
    async fn folders(&mut self) -> Result<Vec<wit::Folder>, Error> {
        let access = self.mailbox_access(Scope::MailRead)?;
        let folders = self
            .services
            .mail
            .listing
            .folders(&access)
            .await
            .map_err(mailbox_error)?;
        Ok(folders.into_iter().map(self::folder).collect())
    }

    async fn messages(&mut self, folder: &str, page: wit::Page) -> Result<wit::Listing, Error> {
        let access = self.mailbox_access(Scope::MailRead)?;
        check_page(page)?;
        let listing = &self.services.mail.listing;
        let listing = listing
            .messages(&access, folder, page.offset, page.limit)
            .await
            .map_err(mailbox_error)?;
        listing.map(self::listing).ok_or(Error::NotFound)
    }

    async fn change_flags(
        &mut self,
        uids: &[u64],
        flags: &[String],
        action: wit::FlagAction,
    ) -> Result<Vec<u64>, Error> {
        let access = self.change_access(uids)?;
        if flags.len() > MAX_FLAGS {
            return Err(Error::Invalid(format!("At most {MAX_FLAGS} flags at once")));
        }
        let flags: Option<Vec<Flag>> = flags.iter().map(|flag| Flag::named(flag)).collect();
        let flags = flags.filter(|flags| !flags.is_empty()).ok_or_else(|| {
            Error::Invalid("The flags are empty or contain a flag that clients cannot set".into())
        })?;
        let add = matches!(action, wit::FlagAction::Add);
        self.services
            .mail
            .changing
            .flag(&access, uids, flags, add)
            .await
            .map_err(mailbox_error)
    }

    async fn move_all(&mut self, uids: &[u64], destination: &str) -> Result<Vec<u64>, Error> {
        let access = self.change_access(uids)?;
        let moved = self
            .services
            .mail
            .changing
            .move_to(&access, uids, destination)
            .await
            .map_err(mailbox_error)?;
        moved.ok_or(Error::NotFound)
    }

    async fn delete_all(&mut self, uids: &[u64]) -> Result<Vec<u64>, Error> {
        let access = self.change_access(uids)?;
        self.services
            .mail
            .changing
            .delete(&access, uids)
            .await
            .map_err(mailbox_error)
    }

    /// Returns access to the mailbox if the caller is authorized to change messages. Returns an
    /// error if `uids` is too long.
    fn change_access(&self, uids: &[u64]) -> Result<latchmail_mailbox::Access, Error> {
        let access = self.mailbox_access(Scope::MailWrite)?;
        if uids.len() > MAX_UIDS {
            return Err(Error::TooLarge(format!(
                "At most {MAX_UIDS} messages at once"
            )));
        }
        Ok(access)
    }

    async fn message(&mut self, uid: u64) -> Result<latchmail_mailbox::Detail, Error> {
        let access = self.mailbox_access(Scope::MailRead)?;
        let detail = self
            .services
            .mail
            .reading
            .message(&access, uid)
            .await
            .map_err(mailbox_error)?;
        detail.ok_or(Error::NotFound)
    }

    async fn attachment(
        &mut self,
        uid: u64,
        index: u32,
    ) -> Result<Option<latchmail_mailbox::AttachmentContent>, Error> {
        let access = self.mailbox_access(Scope::MailRead)?;
        self.services
            .mail
            .reading
            .attachment(&access, uid, index)
            .await
            .map_err(mailbox_error)?
            .ok_or(Error::NotFound)
    }
}

fn check_page(page: wit::Page) -> Result<(), Error> {
    if (1..=MAX_PAGE_SIZE).contains(&page.limit) {
        Ok(())
    } else {
        Err(Error::Invalid(format!(
            "limit must be between 1 and {MAX_PAGE_SIZE}"
        )))
    }
}

fn listing(listing: latchmail_mailbox::Listing) -> wit::Listing {
    wit::Listing {
        messages: listing.messages.into_iter().map(summary).collect(),
        total: listing.total,
    }
}

fn role(role: latchmail_mailbox::Role) -> wit::Role {
    match role {
        latchmail_mailbox::Role::Inbox => wit::Role::Inbox,
        latchmail_mailbox::Role::Flagged => wit::Role::Flagged,
        latchmail_mailbox::Role::Sent => wit::Role::Sent,
        latchmail_mailbox::Role::Drafts => wit::Role::Drafts,
        latchmail_mailbox::Role::All => wit::Role::All,
        latchmail_mailbox::Role::Archive => wit::Role::Archive,
        latchmail_mailbox::Role::Junk => wit::Role::Junk,
        latchmail_mailbox::Role::Trash => wit::Role::Trash,
    }
}

fn folder((folder, id): (latchmail_mailbox::Folder, Arc<str>)) -> wit::Folder {
    wit::Folder {
        id: id.to_string(),
        path: folder.path,
        name: folder.name,
        delimiter: folder.delimiter,
        messages: folder.messages,
        unseen: folder.unseen,
        role: folder.role.map(role),
    }
}

fn summary(summary: latchmail_mailbox::Summary) -> wit::Summary {
    wit::Summary {
        uid: summary.uid,
        seq: summary.seq,
        from: addresses(summary.from),
        to: addresses(summary.to),
        subject: summary.subject,
        date: summary.date.millis(),
        flags: summary.flags,
        size: summary.size,
        preview: summary.preview,
        thread_id: summary.thread_id,
    }
}

fn detail(detail: latchmail_mailbox::Detail) -> wit::Detail {
    wit::Detail {
        summary: summary(detail.summary),
        cc: addresses(detail.cc),
        reply_to: addresses(detail.reply_to),
        message_id: detail.message_id,
        in_reply_to: detail.in_reply_to,
        references: detail.references,
        text: detail.text,
        html: detail.html,
        new_text: detail.new_text,
        attachments: detail.attachments.into_iter().map(attachment).collect(),
        truncated: detail.truncated,
        authentication: authentication(detail.authentication),
    }
}

fn authentication(authentication: latchmail_mailbox::Authentication) -> wit::Authentication {
    wit::Authentication {
        verdict: match authentication.verdict {
            latchmail_mailbox::Verdict::Pass => wit::Verdict::Pass,
            latchmail_mailbox::Verdict::Fail => wit::Verdict::Fail,
            latchmail_mailbox::Verdict::None => wit::Verdict::None,
        },
        domain: authentication.domain,
    }
}

fn addresses(addresses: Vec<latchmail_mailbox::Address>) -> Vec<wit::Address> {
    let address = |one: latchmail_mailbox::Address| wit::Address {
        name: one.name,
        address: one.address,
    };
    addresses.into_iter().map(address).collect()
}

fn attachment(attachment: latchmail_mailbox::Attachment) -> wit::Attachment {
    wit::Attachment {
        index: attachment.index,
        filename: attachment.filename,
        content_type: attachment.content_type,
        size: attachment.size,
    }
}
