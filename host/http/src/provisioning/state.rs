//! The state of a listener for operator tokens.

use bytes::Bytes;
use latchmail_accounts::auth::ParsedOperatorToken;

use crate::app::App;
use crate::message::Request;
use crate::state::State;

/// The state of a listener for operator tokens. The operator's page and the listener of SCIM have
/// such a state.
pub trait OperatorState: State<Credential = ParsedOperatorToken> {
    /// Returns the service.
    fn app(&self) -> &App;

    /// Returns the API description of the listener's API routes.
    fn description(&self) -> Bytes;

    /// Returns the URL of the listener as the client wrote it, without a trailing slash.
    fn origin_url(&self, request: &Request) -> String;
}
