//! The listener of the operator's page, at the address `admin.listen`.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use http::Uri;
use latchmail_core::config::{Config, Listen};
use latchmail_core::error::StartError;
use latchmail_http::ApiInfo;
use latchmail_http::App;
use latchmail_http::HttpState;
use latchmail_http::RouteTable;
use latchmail_http::route_group::RouteGroup;
use latchmail_http::{provisioning, scim, serve};
use latchmail_transport::tls::Tls;
use latchmail_transport::{Listener, Running};

use super::routes::route_group;
use super::state::PageState;

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

/// Returns the routes for programs of the operator.
fn api_route_groups(has_scim: bool) -> Result<Vec<RouteGroup<PageState>>, StartError> {
    let mut groups = vec![provisioning::route_group()?];
    if has_scim {
        groups.push(scim::route_group());
    }
    Ok(groups)
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
    let info = ApiInfo::from_config(&app.config);
    let has_scim = app.config.scim.listen.is_none();
    let api = || api_route_groups(has_scim);
    let description = RouteTable::build(&info, api()?)?.description();
    let groups = std::iter::once(route_group()).chain(api()?);
    let table = RouteTable::build(&info, groups.collect())?;
    let base_url: Option<Uri> = app.config.base_url().parse().ok();
    let base_host = base_url.as_ref().and_then(Uri::host).unwrap_or_default();
    let base_host = base_host.to_owned();
    let mut config = app.config.clone();
    // The configured CORS origins are for the API. Scripts of other origins must not read the
    // operator's pages.
    config.cors_origins.clear();
    // A proxy that sends the PROXY protocol can be in front of the API, but not in front of this
    // listener.
    config.http.proxy_protocol = false;
    let state = Arc::new(PageState {
        http: HttpState::new(&config, app.clock.clone(), table)?
            .with_shared_limits(app.http.limits.shared(), "operator_page")
            .with_tracer(app.http.tracer.clone()),
        app: Arc::clone(app),
        base_host,
        tls: tls.cloned(),
        description,
    });
    Ok(OperatorPage {
        running: serve(&state, vec![listener.with_tls(tls)]),
        state,
    })
}
