//! The drafts of the host in memory, which has none.

use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::drafts as wit;
use latchmail_bindings::latchmail::host::mailbox::Page;
use latchmail_bindings::latchmail::host::outbox::{Draft, SendOptions, Sent};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_sdk::capability as sdk;

use super::Memory;

impl sdk::Drafts for Memory {
    fn submit_message(&self, _: &sdk::Submission) -> Result<sdk::Sent, sdk::DraftError> {
        Err(sdk::Error::Internal.into())
    }

    fn create_draft(&self, _: sdk::Draft) -> Result<sdk::StoredDraft, sdk::DraftError> {
        Err(sdk::Error::Internal.into())
    }

    fn get_draft(&self, _: &str) -> Result<sdk::StoredDraft, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn list_drafts(&self, _: sdk::Page) -> Result<sdk::DraftPage, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn replace_draft(
        &self,
        _: &str,
        _: sdk::Draft,
        _: Option<&str>,
    ) -> Result<sdk::StoredDraft, sdk::DraftError> {
        Err(sdk::Error::Internal.into())
    }

    fn delete_draft(&self, _: &str, _: Option<&str>) -> Result<(), sdk::DraftError> {
        Err(sdk::Error::Internal.into())
    }

    fn send_draft(
        &self,
        _: &str,
        _: Option<&str>,
        _: &sdk::SendOptions,
    ) -> Result<sdk::Sent, sdk::DraftError> {
        Err(sdk::Error::Internal.into())
    }
}

impl wit::Host for Memory {
    async fn submit(&mut self, _: wit::Submission) -> Result<Sent, HostError<wit::DraftError>> {
        Err(Error::Internal.into())
    }

    async fn create(&mut self, _: Draft) -> Result<wit::StoredDraft, HostError<wit::DraftError>> {
        Err(Error::Internal.into())
    }

    async fn get(&mut self, _: String) -> Result<wit::StoredDraft, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn list(&mut self, _: Page) -> Result<wit::DraftPage, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn replace(
        &mut self,
        _: String,
        _: Draft,
        _: Option<String>,
    ) -> Result<wit::StoredDraft, HostError<wit::DraftError>> {
        Err(Error::Internal.into())
    }

    async fn delete(
        &mut self,
        _: String,
        _: Option<String>,
    ) -> Result<(), HostError<wit::DraftError>> {
        Err(Error::Internal.into())
    }

    async fn send(
        &mut self,
        _: String,
        _: Option<String>,
        _: SendOptions,
    ) -> Result<Sent, HostError<wit::DraftError>> {
        Err(Error::Internal.into())
    }

    fn convert_draft_error(
        &mut self,
        error: HostError<wit::DraftError>,
    ) -> wasmtime::Result<wit::DraftError> {
        error.into_guest()
    }
}
