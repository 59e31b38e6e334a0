//! `mailbox`: reads and changes the caller's mail.

use std::io;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _};
use latchmail_bindings::latchmail::host::mailbox::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_bindings::{Blob, Pieces, Source};

use super::Call;
use crate::caller::Scope;
use crate::mail::{self, Flag};

/// The maximum number of messages of one page.
const LONGEST_PAGE: u32 = 100;

/// The maximum length of a search term, in bytes.
const LONGEST_TERM: usize = 1000;

/// The maximum number of messages and of flags of one change.
const MOST_UIDS: usize = 1000;
const MOST_FLAGS: usize = 100;

impl Host for Call {
    async fn list_folders(&mut self) -> wasmtime::Result<Result<Vec<wit::Folder>, Error>> {
        let folders = self.folders().await;
        Ok(folders.map(|all| all.into_iter().map(|one| one.folder).collect()))
    }

    async fn list_identified_folders(
        &mut self,
    ) -> wasmtime::Result<Result<Vec<wit::IdentifiedFolder>, Error>> {
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
        Ok(self.message(uid, folder.as_deref()).await.map(Into::into))
    }

    async fn get_authenticated_message(
        &mut self,
        uid: u64,
        folder: Option<String>,
    ) -> wasmtime::Result<Result<wit::AuthenticatedMessage, Error>> {
        let message = self.message(uid, folder.as_deref()).await;
        Ok(message.map(|message| wit::AuthenticatedMessage {
            authentication: message.authentication.clone().into(),
            detail: message.into(),
        }))
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
            attachment: attachment(found.attachment),
            content: self.table.push(content)?,
        })))
    }

    async fn search_messages(
        &mut self,
        folder: String,
        term: String,
        page: wit::Page,
    ) -> wasmtime::Result<Result<wit::Listing, Error>> {
        Ok(self.found(&folder, &term, page).await)
    }

    async fn set_flags(
        &mut self,
        uids: Vec<u64>,
        flags: Vec<String>,
        action: wit::FlagAction,
    ) -> wasmtime::Result<Result<Vec<u64>, Error>> {
        Ok(self.flagged(&uids, &flags, action).await)
    }

    async fn move_messages(
        &mut self,
        uids: Vec<u64>,
        destination: String,
    ) -> wasmtime::Result<Result<Vec<u64>, Error>> {
        Ok(self.moved(&uids, &destination).await)
    }

    async fn delete_messages(
        &mut self,
        uids: Vec<u64>,
    ) -> wasmtime::Result<Result<Vec<u64>, Error>> {
        Ok(self.deleted(&uids).await)
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
    async fn folders(&mut self) -> Result<Vec<wit::IdentifiedFolder>, Error> {
        let access = self.mailbox(Scope::MailRead)?;
        let folders = self.services.mail.folders(&access).await?;
        let identified = |(folder, id): (mail::Folder, Arc<str>)| wit::IdentifiedFolder {
            id: id.to_string(),
            folder: folder.into(),
        };
        Ok(folders.into_iter().map(identified).collect())
    }

    async fn messages(&mut self, folder: &str, page: wit::Page) -> Result<wit::Listing, Error> {
        let access = self.mailbox(Scope::MailRead)?;
        check(page)?;
        let mail = &self.services.mail;
        let listing = mail
            .messages(&access, folder, page.offset, page.limit)
            .await?;
        listing.map(Into::into).ok_or(Error::NotFound)
    }

    async fn found(
        &mut self,
        folder: &str,
        term: &str,
        page: wit::Page,
    ) -> Result<wit::Listing, Error> {
        let access = self.mailbox(Scope::MailRead)?;
        check(page)?;
        if term.is_empty() || term.len() > LONGEST_TERM || term.chars().any(char::is_control) {
            return Err(Error::Invalid(format!(
                "The search term must be 1 to {LONGEST_TERM} bytes without control characters"
            )));
        }
        let mail = &self.services.mail;
        let listing = mail
            .search(&access, folder, term, page.offset, page.limit)
            .await?;
        listing.map(Into::into).ok_or(Error::NotFound)
    }

    async fn flagged(
        &mut self,
        uids: &[u64],
        flags: &[String],
        action: wit::FlagAction,
    ) -> Result<Vec<u64>, Error> {
        let access = self.changing(uids)?;
        if flags.len() > MOST_FLAGS {
            return Err(Error::Invalid(format!(
                "At most {MOST_FLAGS} flags at once"
            )));
        }
        let flags: Option<Vec<Flag>> = flags.iter().map(|flag| Flag::named(flag)).collect();
        let flags = flags.filter(|flags| !flags.is_empty()).ok_or_else(|| {
            Error::Invalid("The flags are empty or contain a flag that clients cannot set".into())
        })?;
        let add = matches!(action, wit::FlagAction::Add);
        Ok(self.services.mail.flag(&access, uids, flags, add).await?)
    }

    async fn moved(&mut self, uids: &[u64], destination: &str) -> Result<Vec<u64>, Error> {
        let access = self.changing(uids)?;
        let moved = self
            .services
            .mail
            .move_to(&access, uids, destination)
            .await?;
        moved.ok_or(Error::NotFound)
    }

    async fn deleted(&mut self, uids: &[u64]) -> Result<Vec<u64>, Error> {
        let access = self.changing(uids)?;
        Ok(self.services.mail.delete(&access, uids).await?)
    }

    /// Returns the mailbox of the caller if it may change this number of messages at once.
    fn changing(&self, uids: &[u64]) -> Result<mail::Access, Error> {
        let access = self.mailbox(Scope::MailWrite)?;
        if uids.len() > MOST_UIDS {
            return Err(Error::TooLarge(format!(
                "At most {MOST_UIDS} messages at once"
            )));
        }
        Ok(access)
    }

    async fn message(&mut self, uid: u64, folder: Option<&str>) -> Result<mail::Detail, Error> {
        let access = self.mailbox(Scope::MailRead)?;
        let detail = self.services.mail.message(&access, uid, folder).await?;
        detail.ok_or(Error::NotFound)
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

fn check(page: wit::Page) -> Result<(), Error> {
    if (1..=LONGEST_PAGE).contains(&page.limit) {
        Ok(())
    } else {
        Err(Error::Invalid(format!(
            "limit must be between 1 and {LONGEST_PAGE}"
        )))
    }
}

impl From<mail::Listing> for wit::Listing {
    fn from(listing: mail::Listing) -> Self {
        Self {
            messages: listing.messages.into_iter().map(Into::into).collect(),
            total: listing.total,
        }
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
            attachments: detail.attachments.into_iter().map(attachment).collect(),
            truncated: detail.truncated,
        }
    }
}

impl From<mail::Authentication> for wit::Authentication {
    fn from(authentication: mail::Authentication) -> Self {
        Self {
            verdict: match authentication.verdict {
                mail::Verdict::Pass => wit::Verdict::Pass,
                mail::Verdict::Fail => wit::Verdict::Fail,
                mail::Verdict::None => wit::Verdict::None,
            },
            domain: authentication.domain,
        }
    }
}

fn addresses(addresses: Vec<mail::Address>) -> Vec<wit::Address> {
    let address = |one: mail::Address| wit::Address {
        name: one.name,
        address: one.address,
    };
    addresses.into_iter().map(address).collect()
}

fn attachment(attachment: mail::Attachment) -> wit::Attachment {
    wit::Attachment {
        index: attachment.index,
        filename: attachment.filename,
        content_type: attachment.content_type,
        size: attachment.size,
    }
}
