//! The interface `mailbox`, for reading and changing the caller's mail.

mod changes;
pub(super) mod events;
mod folders;
pub(super) mod found;
mod import;
mod messages;
mod snooze;

use std::io;
use std::sync::Arc;

use crate::api::problem;
use futures_util::{StreamExt as _, TryStreamExt as _};
use latchmail_bindings::latchmail::host::mailbox::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::{Error, Timestamp};
use latchmail_bindings::{Blob, BlobSource, ByteStream, EventStream, HostError, range_of};
use latchmail_core::caller::Scope;
use latchmail_core::codes;
use latchmail_core::message_number::MessageNumber;
use latchmail_mailbox::{MessageQuery, PageStart, content_version};
use wasmtime::component::Resource;

use self::found::{
    change, changes_error, hit, search_error, search_request, search_result, thread, threads_error,
};
use super::call::Call;
use super::convert::{mailbox_error, unknown};
use super::host_call::host_call;

/// The maximum number of messages on one page.
const MAX_PAGE_SIZE: u32 = 100;

/// The maximum number of changes that one call of `list-changes` returns.
const MAX_CHANGES: u32 = 500;

/// The maximum total size of the texts that a module receives as blobs in one call, in MiB. These
/// texts use memory of the host.
const MAX_TEXTS: usize = 64;

impl Host for Call {
    fn convert_search_error(
        &mut self,
        error: HostError<wit::SearchError>,
    ) -> wasmtime::Result<wit::SearchError> {
        error.into_guest()
    }

    fn convert_threads_error(
        &mut self,
        error: HostError<wit::ThreadsError>,
    ) -> wasmtime::Result<wit::ThreadsError> {
        error.into_guest()
    }

    fn convert_changes_error(
        &mut self,
        error: HostError<wit::ChangesError>,
    ) -> wasmtime::Result<wit::ChangesError> {
        error.into_guest()
    }

    fn convert_stream_error(
        &mut self,
        error: HostError<wit::StreamError>,
    ) -> wasmtime::Result<wit::StreamError> {
        error.into_guest()
    }

    fn convert_conditional_error(
        &mut self,
        error: HostError<wit::ConditionalError>,
    ) -> wasmtime::Result<wit::ConditionalError> {
        error.into_guest()
    }

    async fn list_folders(&mut self) -> Result<Vec<wit::Folder>, HostError<Error>> {
        let _span = host_call("mailbox.list-folders");
        let access = self.mailbox_access(Scope::MailRead)?;
        let folders = self.services.mail.listing.folders(&access).await;
        let folders = folders.map_err(mailbox_error)?;
        Ok(folders.into_iter().map(folder).collect())
    }

    async fn list_messages(
        &mut self,
        query: wit::MessageQuery,
    ) -> Result<wit::Listing, HostError<Error>> {
        let _span = host_call("mailbox.list-messages");
        let access = self.mailbox_access(Scope::MailRead)?;
        check_limit(query.limit)?;
        let listing = &self.services.mail.listing;
        let listing = listing.messages(&access, message_query(&query)?);
        let listing = listing.await.map_err(mailbox_error)?;
        let listing = listing.ok_or(Error::NotFound)?;
        Ok(wit::Listing {
            messages: listing.messages.into_iter().map(summary).collect(),
            total: listing.total,
            next: listing.next,
        })
    }

    async fn get_message(&mut self, uid: u64) -> Result<wit::Detail, HostError<Error>> {
        let _span = host_call("mailbox.get-message");
        Ok(detail(self.message(MessageNumber(uid)).await?))
    }

    async fn get_message_with_blobs(
        &mut self,
        uid: u64,
    ) -> Result<wit::DetailWithBlobs, HostError<Error>> {
        let _span = host_call("mailbox.get-message-with-blobs");
        let message = self.message(MessageNumber(uid)).await?;
        self.with_blobs(message)
    }

    async fn get_attachment(
        &mut self,
        uid: u64,
        index: u32,
    ) -> Result<Option<wit::AttachmentContent>, HostError<Error>> {
        let _span = host_call("mailbox.get-attachment");
        let access = self.mailbox_access(Scope::MailRead)?;
        let reading = &self.services.mail.reading;
        let found = reading.attachment(&access, MessageNumber(uid), index).await;
        let message = found.map_err(mailbox_error)?;
        let Some(found) = message.ok_or(Error::NotFound)? else {
            return Ok(None);
        };
        let content = match found.content.whole() {
            Some(bytes) => Blob::new(bytes),
            None => Blob::from_source(
                found.attachment.size,
                Arc::new(AttachmentSource(found.content)),
            ),
        };
        Ok(Some(wit::AttachmentContent {
            attachment: attachment(found.attachment),
            version: content_version(&access.account, MessageNumber(uid)),
            content: self.table.push(content).map_err(HostError::trap)?,
        }))
    }

    async fn search_messages(
        &mut self,
        search: wit::Search,
    ) -> Result<wit::SearchResult, HostError<wit::SearchError>> {
        let _span = host_call("mailbox.search-messages");
        let access = self.mailbox_access(Scope::MailRead)?;
        check_limit(search.page.limit)?;
        let request = search_request(&search)?;
        let search = &self.services.mail.search;
        let result = search.find(&access, request).await.map_err(search_error)?;
        Ok(search_result(result.ok_or(Error::NotFound)?))
    }

    async fn list_threads(
        &mut self,
        folder: Option<String>,
        page: wit::Page,
    ) -> Result<wit::ThreadList, HostError<wit::ThreadsError>> {
        let _span = host_call("mailbox.list-threads");
        let access = self.mailbox_access(Scope::MailRead)?;
        check_limit(page.limit)?;
        let search = &self.services.mail.search;
        let found = search.threads(&access, folder.as_deref(), page.offset, page.limit);
        let found = found.await.map_err(threads_error)?;
        let found = found.ok_or(Error::NotFound)?;
        Ok(wit::ThreadList {
            threads: found.threads.into_iter().map(thread).collect(),
            total: found.total,
        })
    }

    async fn get_thread(
        &mut self,
        id: String,
        page: wit::Page,
    ) -> Result<wit::ThreadMessages, HostError<wit::ThreadsError>> {
        let _span = host_call("mailbox.get-thread");
        let access = self.mailbox_access(Scope::MailRead)?;
        check_limit(page.limit)?;
        let search = &self.services.mail.search;
        let found = search.thread(&access, &id, page.offset, page.limit);
        let found = found.await.map_err(threads_error)?;
        let found = found.ok_or(Error::NotFound)?;
        Ok(wit::ThreadMessages {
            id: found.id,
            messages: found.messages.into_iter().map(hit).collect(),
            total: found.total,
        })
    }

    async fn list_changes(
        &mut self,
        since: Option<String>,
        folder: Option<String>,
        limit: u32,
    ) -> Result<wit::ChangeList, HostError<wit::ChangesError>> {
        let _span = host_call("mailbox.list-changes");
        let access = self.mailbox_access(Scope::MailRead)?;
        check_changes_limit(limit)?;
        let changelog = &self.services.mail.changelog;
        let page = changelog.page(&access, since.as_deref(), folder.as_deref(), limit);
        let page = page.await.map_err(changes_error)?;
        let page = page.ok_or(Error::NotFound)?;
        Ok(wit::ChangeList {
            cursor: page.cursor,
            more: page.more,
            changes: page.changes.into_iter().map(change).collect(),
        })
    }

    async fn stream_events(
        &mut self,
        since: Option<String>,
        filter: wit::EventFilter,
    ) -> Result<Resource<EventStream>, HostError<wit::StreamError>> {
        let _span = host_call("mailbox.stream-events");
        events::open_events(self, since, filter).await
    }

    async fn wait_for_changes(
        &mut self,
        since: String,
        folder: Option<String>,
        limit: u32,
        seconds: u32,
    ) -> Result<Resource<EventStream>, HostError<wit::StreamError>> {
        let _span = host_call("mailbox.wait-for-changes");
        events::wait_for_change(self, since, folder, limit, seconds)
    }

    async fn set_flags(
        &mut self,
        uids: Vec<u64>,
        flags: Vec<String>,
        action: wit::FlagAction,
        if_version: Option<String>,
    ) -> Result<Vec<u64>, HostError<wit::ConditionalError>> {
        let _span = host_call("mailbox.set-flags");
        self.change_flags(uids, &flags, action, if_version).await
    }

    async fn move_messages(
        &mut self,
        uids: Vec<u64>,
        destination: String,
        if_version: Option<String>,
    ) -> Result<Vec<u64>, HostError<wit::ConditionalError>> {
        let _span = host_call("mailbox.move-messages");
        self.move_to(uids, &destination, if_version).await
    }

    async fn delete_messages(
        &mut self,
        uids: Vec<u64>,
        if_version: Option<String>,
    ) -> Result<Vec<u64>, HostError<wit::ConditionalError>> {
        let _span = host_call("mailbox.delete-messages");
        self.delete(uids, if_version).await
    }

    async fn get_version(&mut self, uid: u64) -> Result<wit::MessageVersion, HostError<Error>> {
        let _span = host_call("mailbox.get-version");
        Ok(self.version(MessageNumber(uid)).await?)
    }

    async fn trash_messages(
        &mut self,
        uids: Vec<u64>,
        if_version: Option<String>,
    ) -> Result<Vec<u64>, HostError<wit::ConditionalError>> {
        let _span = host_call("mailbox.trash-messages");
        self.trash(uids, if_version).await
    }

    async fn restore_messages(&mut self, uids: Vec<u64>) -> Result<Vec<u64>, HostError<Error>> {
        let _span = host_call("mailbox.restore-messages");
        Ok(self.restore(uids).await?)
    }

    async fn copy_messages(
        &mut self,
        uids: Vec<u64>,
        destination: String,
    ) -> Result<Vec<wit::CopiedMessage>, HostError<Error>> {
        let _span = host_call("mailbox.copy-messages");
        Ok(self.copy_to(uids, &destination).await?)
    }

    async fn create_folder(&mut self, path: String) -> Result<wit::Folder, HostError<Error>> {
        let _span = host_call("mailbox.create-folder");
        let access = self.mailbox_access(Scope::MailWrite)?;
        self.preview.refuse()?;
        let changing = &self.services.mail.changing;
        let created = changing.create_folder(&access, &path).await;
        Ok(folder(created.map_err(mailbox_error)?))
    }

    async fn rename_folder(
        &mut self,
        old: String,
        path: String,
    ) -> Result<wit::Folder, HostError<Error>> {
        let _span = host_call("mailbox.rename-folder");
        let access = self.mailbox_access(Scope::MailWrite)?;
        self.preview.refuse()?;
        let changing = &self.services.mail.changing;
        let renamed = changing.rename_folder(&access, &old, &path).await;
        let renamed = renamed.map_err(mailbox_error)?.ok_or(Error::NotFound)?;
        self.services.filters.follow_renames(&access).await;
        Ok(folder(renamed))
    }

    async fn delete_folder(
        &mut self,
        folder: String,
        messages: wit::MessageDisposal,
    ) -> Result<(), HostError<Error>> {
        let _span = host_call("mailbox.delete-folder");
        let access = self.mailbox_access(Scope::MailWrite)?;
        if self
            .preview
            .records(|| format!("delete the folder {folder:?}"))
        {
            return Ok(());
        }
        let messages = folders::disposal(messages);
        let changing = &self.services.mail.changing;
        let deleted = changing.delete_folder(&access, &folder, messages).await;
        let deleted = deleted.map_err(mailbox_error)?;
        Ok(deleted.ok_or(Error::NotFound)?)
    }

    async fn get_quota(&mut self) -> Result<wit::Quota, HostError<Error>> {
        let _span = host_call("mailbox.get-quota");
        let access = self.mailbox_access(Scope::MailRead)?;
        let quota = self.services.mail.listing.quota(&access).await;
        Ok(folders::quota(quota.map_err(mailbox_error)?))
    }

    async fn get_raw_message(&mut self, uid: u64) -> Result<wit::RawMessage, HostError<Error>> {
        let _span = host_call("mailbox.get-raw-message");
        self.raw_message(MessageNumber(uid)).await
    }

    async fn get_header(
        &mut self,
        uid: u64,
        names: Option<Vec<String>>,
    ) -> Result<wit::MessageHeader, HostError<Error>> {
        let _span = host_call("mailbox.get-header");
        Ok(self.header(MessageNumber(uid), names).await?)
    }

    async fn get_summaries(&mut self, uids: Vec<u64>) -> Result<Vec<wit::Hit>, HostError<Error>> {
        let _span = host_call("mailbox.get-summaries");
        Ok(self.summaries(uids).await?)
    }

    async fn get_messages_with_blobs(
        &mut self,
        uids: Vec<u64>,
    ) -> Result<Vec<wit::DetailWithBlobs>, HostError<Error>> {
        let _span = host_call("mailbox.get-messages-with-blobs");
        let messages = self.messages(uids).await?;
        let messages = messages.into_iter();
        messages.map(|message| self.with_blobs(message)).collect()
    }

    async fn import_message(
        &mut self,
        folder: String,
        message: Resource<Blob>,
        flags: Vec<String>,
        received_at: Option<i64>,
        key: Option<String>,
    ) -> Result<wit::ImportedMessage, HostError<Error>> {
        let _span = host_call("mailbox.import-message");
        let message = self.table.delete(message).map_err(HostError::trap)?;
        let imported = self.import(folder, message, &flags, received_at, key.as_deref());
        Ok(imported.await?)
    }

    async fn snooze_message(&mut self, uid: u64, until: Timestamp) -> Result<(), HostError<Error>> {
        let _span = host_call("mailbox.snooze-message");
        Ok(self.snooze(MessageNumber(uid), until).await?)
    }

    async fn unsnooze_message(&mut self, uid: u64) -> Result<(), HostError<Error>> {
        let _span = host_call("mailbox.unsnooze-message");
        Ok(self.unsnooze(MessageNumber(uid)).await?)
    }

    async fn get_snooze(&mut self, uid: u64) -> Result<Option<Timestamp>, HostError<Error>> {
        let _span = host_call("mailbox.get-snooze");
        Ok(self.snoozed_until(MessageNumber(uid)).await?)
    }
}

/// A blob source that reads an attachment or a stored message from the mail server.
pub(super) struct AttachmentSource(latchmail_mailbox::Download);

impl BlobSource for AttachmentSource {
    fn open(&self) -> ByteStream {
        self.0.open().map_err(io::Error::other).boxed()
    }

    fn open_range(&self, start: u64, length: u64) -> ByteStream {
        let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        match self.0.open_range(at(start)..at(start + length)) {
            Some(stream) => stream.map_err(io::Error::other).boxed(),
            None => range_of(self.open(), start, length),
        }
    }
}

impl Call {
    /// Converts a message, and moves its texts to blobs.
    fn with_blobs(
        &mut self,
        mut message: latchmail_mailbox::Detail,
    ) -> Result<wit::DetailWithBlobs, HostError<Error>> {
        let texts = [
            message.text.take(),
            message.html.take(),
            message.new_text.take(),
        ];
        self.text_bytes += texts.iter().flatten().map(String::len).sum::<usize>();
        if self.text_bytes > MAX_TEXTS * 1024 * 1024 {
            let text =
                format!("The texts of messages must not exceed {MAX_TEXTS} MiB in one request");
            return Err(problem::too_large(codes::MESSAGE_TOO_LARGE, text).into());
        }
        let mut blob = |text: Option<String>| {
            let blob = text.map(|text| self.table.push(Blob::new(text.into())));
            blob.transpose().map_err(HostError::trap)
        };
        let [text, html, new_text] = texts;
        Ok(wit::DetailWithBlobs {
            text: blob(text)?,
            html: blob(html)?,
            new_text: blob(new_text)?,
            detail: detail(message),
        })
    }

    async fn message(&mut self, number: MessageNumber) -> Result<latchmail_mailbox::Detail, Error> {
        let access = self.mailbox_access(Scope::MailRead)?;
        let detail = self.services.mail.reading.message(&access, number).await;
        detail.map_err(mailbox_error)?.ok_or(Error::NotFound)
    }
}

fn message_query(query: &wit::MessageQuery) -> Result<MessageQuery<'_>, Error> {
    let start = match &query.start {
        wit::PageStart::Offset(offset) => PageStart::Offset(*offset),
        wit::PageStart::Cursor(cursor) => PageStart::Cursor(cursor),
    };
    let mut converted = MessageQuery {
        start,
        ..MessageQuery::page(&query.folder, 0, query.limit)
    };
    for filter in &query.filters {
        match filter.as_str() {
            "unread" => converted.unread = true,
            "flagged" => converted.flagged = true,
            other => return Err(unknown("filter", other)),
        }
    }
    Ok(converted)
}

/// Checks the maximum number of changes on one page.
pub(super) fn check_changes_limit(limit: u32) -> Result<(), Error> {
    if (1..=MAX_CHANGES).contains(&limit) {
        return Ok(());
    }
    let text = format!("limit must be between 1 and {MAX_CHANGES}");
    Err(problem::invalid(codes::INVALID_PAGING_PARAMETERS, text))
}

pub(super) fn check_limit(limit: u32) -> Result<(), Error> {
    if (1..=MAX_PAGE_SIZE).contains(&limit) {
        Ok(())
    } else {
        Err(problem::invalid(
            codes::INVALID_PAGING_PARAMETERS,
            format!("limit must be between 1 and {MAX_PAGE_SIZE}"),
        ))
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
        role: folder.role.map(|role| role.name().into()),
    }
}

fn summary(summary: latchmail_mailbox::Summary) -> wit::Summary {
    wit::Summary {
        uid: summary.number.0,
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
        folder: detail.folder,
        mailing_list: detail.mailing_list.map(messages::mailing_list),
        auto_submitted: detail.auto_submitted,
        spam: messages::spam(detail.spam),
        version: detail.version,
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

pub(super) fn addresses(addresses: Vec<latchmail_mailbox::Address>) -> Vec<wit::Address> {
    let address = |one: latchmail_mailbox::Address| wit::Address {
        name: one.name,
        address: one.address,
    };
    addresses.into_iter().map(address).collect()
}

pub(super) fn attachment(attachment: latchmail_mailbox::Attachment) -> wit::Attachment {
    wit::Attachment {
        index: attachment.index,
        filename: attachment.filename,
        content_type: attachment.content_type,
        size: attachment.size,
        content_id: attachment.content_id,
        disposition: if attachment.is_inline {
            "inline"
        } else {
            "attachment"
        }
        .into(),
    }
}
