//! The mailbox of the measured sandbox. Only the listing is implemented.

use latchmail_bindings::latchmail::host;
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_bindings::{Blob, EventStream, HostError};
use wasmtime::component::Resource;

use super::{Memory, SUMMARIES, text};

impl host::mailbox::Host for Memory {
    fn convert_search_error(
        &mut self,
        error: HostError<host::mailbox::SearchError>,
    ) -> wasmtime::Result<host::mailbox::SearchError> {
        error.into_guest()
    }

    fn convert_threads_error(
        &mut self,
        error: HostError<host::mailbox::ThreadsError>,
    ) -> wasmtime::Result<host::mailbox::ThreadsError> {
        error.into_guest()
    }

    fn convert_conditional_error(
        &mut self,
        error: HostError<host::mailbox::ConditionalError>,
    ) -> wasmtime::Result<host::mailbox::ConditionalError> {
        error.into_guest()
    }

    fn convert_changes_error(
        &mut self,
        error: HostError<host::mailbox::ChangesError>,
    ) -> wasmtime::Result<host::mailbox::ChangesError> {
        error.into_guest()
    }

    fn convert_stream_error(
        &mut self,
        error: HostError<host::mailbox::StreamError>,
    ) -> wasmtime::Result<host::mailbox::StreamError> {
        error.into_guest()
    }

    async fn list_folders(&mut self) -> Result<Vec<host::mailbox::Folder>, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn list_messages(
        &mut self,
        query: host::mailbox::MessageQuery,
    ) -> Result<host::mailbox::Listing, HostError<Error>> {
        use host::mailbox as types;
        Ok(listing!(types, query.limit))
    }

    async fn get_message(&mut self, _: u64) -> Result<host::mailbox::Detail, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn get_message_with_blobs(
        &mut self,
        _: u64,
    ) -> Result<host::mailbox::DetailWithBlobs, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn get_attachment(
        &mut self,
        _: u64,
        _: u32,
    ) -> Result<Option<host::mailbox::AttachmentContent>, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn create_attachment_link(
        &mut self,
        _: u64,
        _: u32,
    ) -> Result<Option<host::mailbox::AttachmentLink>, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn search_messages(
        &mut self,
        _: host::mailbox::Search,
    ) -> Result<host::mailbox::SearchResult, HostError<host::mailbox::SearchError>> {
        Err(host::mailbox::SearchError::Failed(Error::Internal).into())
    }

    async fn list_threads(
        &mut self,
        _: Option<String>,
        _: host::mailbox::Page,
    ) -> Result<host::mailbox::ThreadList, HostError<host::mailbox::ThreadsError>> {
        Err(host::mailbox::ThreadsError::IndexNotReady.into())
    }

    async fn get_thread(
        &mut self,
        _: String,
        _: host::mailbox::Page,
    ) -> Result<host::mailbox::ThreadMessages, HostError<host::mailbox::ThreadsError>> {
        Err(host::mailbox::ThreadsError::IndexNotReady.into())
    }

    async fn list_changes(
        &mut self,
        _: Option<String>,
        _: Option<String>,
        _: u32,
    ) -> Result<host::mailbox::ChangeList, HostError<host::mailbox::ChangesError>> {
        Err(host::mailbox::ChangesError::CursorExpired.into())
    }

    async fn stream_events(
        &mut self,
        _: Option<String>,
        _: host::mailbox::EventFilter,
    ) -> Result<Resource<EventStream>, HostError<host::mailbox::StreamError>> {
        Err(host::mailbox::StreamError::TooManyStreams.into())
    }

    async fn wait_for_changes(
        &mut self,
        _: String,
        _: Option<String>,
        _: u32,
        _: u32,
    ) -> Result<Resource<EventStream>, HostError<host::mailbox::StreamError>> {
        Err(host::mailbox::StreamError::TooManyStreams.into())
    }

    async fn set_flags(
        &mut self,
        _: Vec<u64>,
        _: Vec<String>,
        _: host::mailbox::FlagAction,
        _: Option<String>,
    ) -> Result<Vec<u64>, HostError<host::mailbox::ConditionalError>> {
        Err(Error::Internal.into())
    }

    async fn move_messages(
        &mut self,
        _: Vec<u64>,
        _: String,
        _: Option<String>,
    ) -> Result<Vec<u64>, HostError<host::mailbox::ConditionalError>> {
        Err(Error::Internal.into())
    }

    async fn delete_messages(
        &mut self,
        _: Vec<u64>,
        _: Option<String>,
    ) -> Result<Vec<u64>, HostError<host::mailbox::ConditionalError>> {
        Err(Error::Internal.into())
    }

    async fn get_version(
        &mut self,
        _: u64,
    ) -> Result<host::mailbox::MessageVersion, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn trash_messages(
        &mut self,
        _: Vec<u64>,
        _: Option<String>,
    ) -> Result<Vec<u64>, HostError<host::mailbox::ConditionalError>> {
        Err(Error::Internal.into())
    }

    async fn restore_messages(&mut self, _: Vec<u64>) -> Result<Vec<u64>, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn copy_messages(
        &mut self,
        _: Vec<u64>,
        _: String,
    ) -> Result<Vec<host::mailbox::CopiedMessage>, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn create_folder(
        &mut self,
        _: String,
    ) -> Result<host::mailbox::Folder, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn rename_folder(
        &mut self,
        _: String,
        _: String,
    ) -> Result<host::mailbox::Folder, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn delete_folder(
        &mut self,
        _: String,
        _: host::mailbox::MessageDisposal,
    ) -> Result<(), HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn get_quota(&mut self) -> Result<host::mailbox::Quota, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn get_raw_message(
        &mut self,
        _: u64,
    ) -> Result<host::mailbox::RawMessage, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn get_header(
        &mut self,
        _: u64,
        _: Option<Vec<String>>,
    ) -> Result<host::mailbox::MessageHeader, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn get_summaries(
        &mut self,
        _: Vec<u64>,
    ) -> Result<Vec<host::mailbox::Hit>, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn get_messages_with_blobs(
        &mut self,
        _: Vec<u64>,
    ) -> Result<Vec<host::mailbox::DetailWithBlobs>, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn import_message(
        &mut self,
        _: String,
        _: Resource<Blob>,
        _: Vec<String>,
        _: Option<i64>,
        _: Option<String>,
    ) -> Result<host::mailbox::ImportedMessage, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn snooze_message(&mut self, _: u64, _: i64) -> Result<(), HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn unsnooze_message(&mut self, _: u64) -> Result<(), HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn get_snooze(&mut self, _: u64) -> Result<Option<i64>, HostError<Error>> {
        Err(Error::Internal.into())
    }
}
