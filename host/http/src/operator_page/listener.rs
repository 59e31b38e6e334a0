//! The listener of the operator's page, at the address `admin.listen`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::Uri;
use latchmail_core::config::{Config, Listen};
use latchmail_core::error::StartError;
use latchmail_core::network::is_local;
use latchmail_transport::tls::Tls;
use latchmail_transport::{Listener, Running};

use super::routes::route_group;
use super::visit::error_page;
use crate::app::App;
use crate::message::Response;
use crate::openapi::info::ApiInfo;
use crate::rejection::Rejection;
use crate::router::RouteTable;
use crate::server;
use crate::state::{HttpState, State};

/// The running server of the operator's page. Dropping this value does not end the server.
/// [`OperatorPage::stop`] ends the server.
#[must_use = "the server runs until it is stopped"]
pub struct OperatorPage {
    running: Running,
    state: Arc<PageState>,
}

impl OperatorPage {
    /// Returns the address of the listener.
    #[must_use]
    pub fn address(&self) -> Option<&Listen> {
        self.running.addresses().first()
    }

    /// Applies the settings that can change while the server runs.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid. In this case, no setting changes.
    pub fn reload(&self, config: &Config) -> Result<(), StartError> {
        self.state.http.reload(config)
    }

    /// Stops the server like [`Running::stop`].
    pub async fn stop(self) {
        self.running.stop().await;
    }
}

impl fmt::Debug for OperatorPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorPage")
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

/// The state of the listener.
pub(super) struct PageState {
    pub(super) app: Arc<App>,
    pub(super) http: HttpState<Self>,
    /// The TLS settings of the listener. `None` if browsers do not use TLS with the listener.
    tls: Option<Arc<Tls>>,
    /// The host of `base_url`.
    base_host: String,
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

    /// Accepts only names that another website cannot point to this listener (DNS rebinding): the
    /// names of this machine, IP addresses, the host of `base_url`, and the names of the
    /// certificate.
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

/// Starts the server of the operator's page. `tls` are the TLS settings of the service.
///
/// # Errors
/// Returns an error if the address cannot be used, or if the state of the server cannot be created.
pub async fn listen(
    app: &Arc<App>,
    address: SocketAddr,
    tls: Option<&Arc<Tls>>,
) -> Result<OperatorPage, StartError> {
    let listener = Listener::bind(&address.into(), "admin.listen").await?;
    let table = RouteTable::build(&ApiInfo::from_config(&app.config), vec![route_group()])?;
    let base_url: Option<Uri> = app.config.base_url().parse().ok();
    let base_host = base_url.as_ref().and_then(Uri::host).unwrap_or_default();
    let base_host = base_host.to_owned();
    let mut config = app.config.clone();
    // Scripts of other origins must not read the pages.
    config.cors_origins.clear();
    // Administrators connect to this listener without the proxy of the API.
    config.http.proxy_protocol = false;
    let state = Arc::new(PageState {
        http: HttpState::new(&config, app.clock.clone(), table)?
            .with_shared_limits(app.http.limits.shared(), "operator_page")
            .with_tracer(app.http.tracer.clone()),
        app: Arc::clone(app),
        base_host,
        tls: tls.cloned(),
    });
    Ok(OperatorPage {
        running: server::serve(&state, vec![listener.with_tls(tls)]),
        state,
    })
}
