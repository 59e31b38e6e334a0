//! `mailbox`: the caller's mail, reading.

use std::io;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _};
use latchmail_bindings::latchmail::host::mailbox::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_bindings::{Blob, Pieces, Source};

use super::Call;
use crate::caller::Scope;
use crate::mail;

/// The longest page.
const LONGEST_PAGE: u32 = 100;

impl Host for Call {
    async fn list_folders(&mut self) -> wasmtime::Result<Result<Vec<wit::Folder>, Error>> {
        Ok(self.folders().await)
    }

    async fn list_messages(
        &mut self,
        folder: String,
        page: wit::Page,
    ) -> wasmtime::Result<Result<wit::Listing, Error>> {
        Ok(self.messages(&folder, page).await)
    }

    async fn get_message(
        &mut self,
        uid: u64,
        folder: Option<String>,
    ) -> wasmtime::Result<Result<wit::Detail, Error>> {
        Ok(self.message(uid, folder.as_deref()).await)
    }

    async fn get_attachment(
        &mut self,
        uid: u64,
        index: u32,
        folder: Option<String>,
    ) -> wasmtime::Result<Result<Option<wit::AttachmentContent>, Error>> {
        let found = match self.attachment(uid, index, folder.as_deref()).await {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let Some(found) = found else {
            return Ok(Ok(None));
        };
        let content = match found.content.whole() {
            Some(bytes) => Blob::new(bytes),
            None => Blob::from_source(found.attachment.size, Arc::new(Attached(found.content))),
        };
        Ok(Ok(Some(wit::AttachmentContent {
            attachment: found.attachment.into(),
            content: self.table.push(content)?,
        })))
    }
}

/// An attachment as a blob.
struct Attached(mail::Download);

impl Source for Attached {
    fn open(&self) -> Pieces {
        self.0.open().map_err(io::Error::other).boxed()
    }
}

impl Call {
    async fn folders(&mut self) -> Result<Vec<wit::Folder>, Error> {
        let access = self.mailbox(Scope::MailRead)?;
        let folders = self.services.mail.folders(&access).await?;
        Ok(folders.into_iter().map(Into::into).collect())
    }

    async fn messages(&mut self, folder: &str, page: wit::Page) -> Result<wit::Listing, Error> {
        let access = self.mailbox(Scope::MailRead)?;
        if !(1..=LONGEST_PAGE).contains(&page.limit) {
            return Err(Error::Invalid(format!(
                "limit must be between 1 and {LONGEST_PAGE}"
            )));
        }
        let listing = self
            .services
            .mail
            .messages(&access, folder, page.offset, page.limit)
            .await?
            .ok_or(Error::NotFound)?;
        Ok(wit::Listing {
            messages: listing.messages.into_iter().map(Into::into).collect(),
            total: listing.total,
        })
    }

    async fn message(&mut self, uid: u64, folder: Option<&str>) -> Result<wit::Detail, Error> {
        let access = self.mailbox(Scope::MailRead)?;
        let detail = self.services.mail.message(&access, uid, folder).await?;
        detail.map(Into::into).ok_or(Error::NotFound)
    }

    async fn attachment(
        &mut self,
        uid: u64,
        index: u32,
        folder: Option<&str>,
    ) -> Result<Option<mail::AttachmentContent>, Error> {
        let access = self.mailbox(Scope::MailRead)?;
        self.services
            .mail
            .attachment(&access, uid, index, folder)
            .await?
            .ok_or(Error::NotFound)
    }
}

impl From<mail::Role> for wit::Role {
    fn from(role: mail::Role) -> Self {
        match role {
            mail::Role::Inbox => Self::Inbox,
            mail::Role::Flagged => Self::Flagged,
            mail::Role::Sent => Self::Sent,
            mail::Role::Drafts => Self::Drafts,
            mail::Role::All => Self::All,
            mail::Role::Archive => Self::Archive,
            mail::Role::Junk => Self::Junk,
            mail::Role::Trash => Self::Trash,
        }
    }
}

impl From<mail::Folder> for wit::Folder {
    fn from(folder: mail::Folder) -> Self {
        Self {
            path: folder.path,
            name: folder.name,
            delimiter: folder.delimiter,
            messages: folder.messages,
            unseen: folder.unseen,
            role: folder.role.map(Into::into),
        }
    }
}

impl From<mail::Address> for wit::Address {
    fn from(address: mail::Address) -> Self {
        Self {
            name: address.name,
            address: address.address,
        }
    }
}

impl From<mail::Summary> for wit::Summary {
    fn from(summary: mail::Summary) -> Self {
        Self {
            uid: summary.uid,
            seq: summary.seq,
            from: addresses(summary.from),
            to: addresses(summary.to),
            subject: summary.subject,
            date: summary.date.millis(),
            flags: summary.flags,
            size: summary.size,
            preview: summary.preview,
        }
    }
}

impl From<mail::Attachment> for wit::Attachment {
    fn from(attachment: mail::Attachment) -> Self {
        Self {
            index: attachment.index,
            filename: attachment.filename,
            content_type: attachment.content_type,
            size: attachment.size,
        }
    }
}

impl From<mail::Detail> for wit::Detail {
    fn from(detail: mail::Detail) -> Self {
        Self {
            summary: detail.summary.into(),
            cc: addresses(detail.cc),
            reply_to: addresses(detail.reply_to),
            message_id: detail.message_id,
            in_reply_to: detail.in_reply_to,
            references: detail.references,
            text: detail.text,
            html: detail.html,
            attachments: detail.attachments.into_iter().map(Into::into).collect(),
            truncated: detail.truncated,
        }
    }
}

fn addresses(addresses: Vec<mail::Address>) -> Vec<wit::Address> {
    addresses.into_iter().map(Into::into).collect()
}
