//! The state of the operator's listener, and the host names under which browsers can use this
//! listener.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use latchmail_accounts::auth::ParsedOperatorToken;
use latchmail_core::caller::Caller;
use latchmail_core::error::Failure;
use latchmail_core::limits::Key;
use latchmail_core::network::is_local;
use latchmail_http::message::{Request, Response};
use latchmail_http::provisioning::{OperatorState, origin_url};
use latchmail_http::rejection::Rejection;
use latchmail_http::{App, HttpState, State, scim};
use latchmail_transport::tls::Tls;

use super::layout::error_page;

/// The state of the operator's listener.
pub(super) struct PageState {
    pub(super) app: Arc<App>,
    pub(super) http: HttpState<Self>,
    /// The TLS settings of the listener. `None` if browsers do not use TLS with the listener.
    pub(super) tls: Option<Arc<Tls>>,
    /// The host of `base_url`.
    pub(super) base_host: String,
    /// The API description of the routes for programs.
    pub(super) description: Bytes,
}

impl PageState {
    /// Returns whether browsers use TLS with the listener.
    pub(super) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }
}

impl State for PageState {
    type Credential = ParsedOperatorToken;

    fn http(&self) -> &HttpState<Self> {
        &self.http
    }

    /// Accepts only the names of this machine, IP addresses, the host of `base_url`, and the names
    /// in the TLS certificate. Another website cannot direct any of these names to this listener,
    /// so this check prevents DNS rebinding.
    fn serves_host(&self, host: &str) -> bool {
        let address = host.trim_start_matches('[').trim_end_matches(']');
        is_local(host)
            || address.parse::<IpAddr>().is_ok()
            || self.base_host.eq_ignore_ascii_case(host)
            || self.tls.as_ref().is_some_and(|tls| tls.is_valid_for(host))
    }

    /// Parses the operator token of a program. The pages have no bearer token: their routes are
    /// public, and check the cookie themselves.
    async fn parse_credential(
        &self,
        headers: &HeaderMap,
        _client: IpAddr,
    ) -> Result<(ParsedOperatorToken, Option<Key>), Failure> {
        let token = self.app.auth.operator_tokens.parse(headers)?;
        let key = token.key();
        Ok((token, key))
    }

    async fn authenticate(&self, token: ParsedOperatorToken) -> Result<Caller, Failure> {
        self.app.auth.operator_tokens.authenticate(&token).await
    }

    fn error_page(&self, rejection: Rejection) -> Result<Response, Rejection> {
        Ok(error_page(&self.app, &rejection))
    }

    fn render_error(&self, path: &str, rejection: Rejection) -> Result<Response, Rejection> {
        scim::render_error(path, rejection)
    }
}

impl OperatorState for PageState {
    fn app(&self) -> &App {
        &self.app
    }

    fn description(&self) -> Bytes {
        self.description.clone()
    }

    fn origin_url(&self, request: &Request) -> String {
        origin_url(request, self.has_tls())
    }
}
