//! The state of the operator's listener, and the host names under which browsers can use this
//! listener.

use std::net::IpAddr;
use std::sync::Arc;

use latchmail_core::network::is_local;
use latchmail_http::message::Response;
use latchmail_http::rejection::Rejection;
use latchmail_http::{App, HttpState, State};
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
}

impl PageState {
    /// Returns whether browsers use TLS with the listener.
    pub(super) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }
}

impl State for PageState {
    type Credential = ();

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

    fn error_page(&self, rejection: Rejection) -> Result<Response, Rejection> {
        Ok(error_page(&self.app, &rejection))
    }
}
