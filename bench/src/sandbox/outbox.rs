//! The outbox of the host in memory, which sends nothing.

use latchmail_bindings::latchmail::host::outbox as wit;
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_bindings::{Blob, HostError};
use latchmail_sdk::capability as sdk;
use wasmtime::component::Resource;

use super::Memory;

impl sdk::Outbox for Memory {
    fn send(&self, _: sdk::Draft, _: &sdk::SendOptions) -> Result<sdk::Sent, sdk::SendError> {
        Err(sdk::Error::Internal.into())
    }

    fn get_upload(&self, _: &str) -> Result<sdk::UploadedContent, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn create_upload_link(&self, _: &str) -> Result<sdk::UploadLink, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn list_entries(&self, _: u32) -> Result<Vec<sdk::OutboxEntry>, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn get_entry(&self, _: &str) -> Result<sdk::OutboxEntry, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn reschedule_entry(&self, _: &str, _: sdk::Timestamp) -> Result<sdk::OutboxEntry, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn cancel_entry(&self, _: &str) -> Result<(), sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn upload(&self, _: &str, _: &str, _: sdk::Blob) -> Result<sdk::UploadedFile, sdk::Error> {
        Err(sdk::Error::Internal)
    }
}

impl wit::Host for Memory {
    async fn send(
        &mut self,
        _: wit::Draft,
        _: wit::SendOptions,
    ) -> Result<wit::Sent, HostError<wit::SendError>> {
        Err(Error::Internal.into())
    }

    async fn get_upload(&mut self, _: String) -> Result<wit::UploadedContent, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn list_entries(&mut self, _: u32) -> Result<Vec<wit::Entry>, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn get_entry(&mut self, _: String) -> Result<wit::Entry, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn reschedule_entry(
        &mut self,
        _: String,
        _: i64,
    ) -> Result<wit::Entry, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn cancel_entry(&mut self, _: String) -> Result<(), HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn upload(
        &mut self,
        _: String,
        _: String,
        _: Resource<Blob>,
    ) -> Result<wit::UploadedFile, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn create_upload_link(&mut self, _: String) -> Result<wit::UploadLink, HostError<Error>> {
        Err(Error::Internal.into())
    }

    fn convert_send_error(
        &mut self,
        error: HostError<wit::SendError>,
    ) -> wasmtime::Result<wit::SendError> {
        error.into_guest()
    }
}
