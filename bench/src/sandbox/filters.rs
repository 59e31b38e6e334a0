//! The filters of the host in memory, which has none.

use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::filters as wit;
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_sdk::capability as sdk;

use super::Memory;

impl sdk::Filters for Memory {
    fn get_filters(&self) -> Result<sdk::FilterState, sdk::FilterError> {
        Err(sdk::Error::Internal.into())
    }

    fn set_vacation(
        &self,
        _: &sdk::Vacation,
        _: Option<&str>,
    ) -> Result<sdk::FilterState, sdk::FilterError> {
        Err(sdk::Error::Internal.into())
    }

    fn set_rules(
        &self,
        _: &[sdk::Rule],
        _: Option<&str>,
    ) -> Result<sdk::FilterState, sdk::FilterError> {
        Err(sdk::Error::Internal.into())
    }

    fn list_forward_addresses(&self) -> Result<Vec<sdk::ForwardAddress>, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn request_forward_address(&self, _: &str) -> Result<sdk::ForwardAddress, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn confirm_forward_address(&self, _: &str, _: &str) -> Result<sdk::ForwardAddress, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn delete_forward_address(&self, _: &str) -> Result<(), sdk::Error> {
        Err(sdk::Error::Internal)
    }
}

impl wit::Host for Memory {
    async fn get(&mut self) -> Result<wit::FilterState, HostError<wit::FilterError>> {
        Err(Error::Internal.into())
    }

    async fn set_vacation(
        &mut self,
        _: wit::Vacation,
        _: Option<String>,
    ) -> Result<wit::FilterState, HostError<wit::FilterError>> {
        Err(Error::Internal.into())
    }

    async fn set_rules(
        &mut self,
        _: Vec<wit::Rule>,
        _: Option<String>,
    ) -> Result<wit::FilterState, HostError<wit::FilterError>> {
        Err(Error::Internal.into())
    }

    async fn list_forward_addresses(
        &mut self,
    ) -> Result<Vec<wit::ForwardAddress>, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn request_forward_address(
        &mut self,
        _: String,
    ) -> Result<wit::ForwardAddress, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn confirm_forward_address(
        &mut self,
        _: String,
        _: String,
    ) -> Result<wit::ForwardAddress, HostError<Error>> {
        Err(Error::Internal.into())
    }

    async fn delete_forward_address(&mut self, _: String) -> Result<(), HostError<Error>> {
        Err(Error::Internal.into())
    }

    fn convert_filter_error(
        &mut self,
        error: HostError<wit::FilterError>,
    ) -> wasmtime::Result<wit::FilterError> {
        error.into_guest()
    }
}
