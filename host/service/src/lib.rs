//! Builds the service: [`start`] makes a running service from a configuration. The program and the tests use it.
//!
//! This crate contains all wiring and the tasks that run at intervals. It serves no requests itself.

mod mail_server;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use latchmail_accounts::aliases::Aliases;
use latchmail_accounts::auth::Auth;
use latchmail_accounts::domains::Domains;
use latchmail_accounts::mail_server::MailServer;
use latchmail_accounts::teams::Teams;
use latchmail_core::clock::Clock;
use latchmail_core::config::Config;
use latchmail_core::error::StartError;
use latchmail_directory::Directory;
use latchmail_http::admin::socket::OperatorSocket;
use latchmail_http::{ApiInfo, App, HttpState, RouteTable, route_groups};
use latchmail_mailbox::Mail;
use latchmail_mailbox::outbox::Outbox;
use latchmail_net::dns::Dns;
use latchmail_net::fetch::Fetch;
use latchmail_oauth::OAuth;
use latchmail_runtime::api::Services;
use latchmail_runtime::life::Life;
use latchmail_runtime::modules::Failing;
use latchmail_runtime::store::Store;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The interval at which expired data is deleted.
const SWEEP_EVERY: Duration = Duration::from_hours(1);

/// The interval at which the times of last use of credentials are stored.
const WRITE_EVERY: Duration = Duration::from_mins(1);

/// The interval at which the ending of remaining mail server sessions is retried.
const END_EVERY: Duration = Duration::from_mins(1);

const DAY: Duration = Duration::from_hours(24);

/// A running service.
#[derive(Debug)]
#[must_use = "a service is ended by stopping it"]
pub struct Running {
    /// The address that the service listens on.
    pub address: SocketAddr,
    /// The state, for operations of the operator that are not requests.
    pub app: Arc<App>,
    server: latchmail_http::Running,
    authorization_server: Option<latchmail_http::Running>,
    socket: Option<OperatorSocket>,
    breaking: JoinHandle<()>,
    sweeping: JoinHandle<()>,
    writing: JoinHandle<()>,
    ending: JoinHandle<()>,
}

/// Starts a service. Returns when the service accepts requests.
///
/// # Errors
/// A sentence for the operator. The service does not run then.
pub async fn start(mut config: Config, clock: Clock) -> Result<Running, StartError> {
    // This is the first step, because the base URL may contain the port.
    let (listener, address) = listen(config.listen).await?;
    config.listen = address;

    let (app, failing) = Box::pin(build(config, clock)).await?;
    Box::pin(app.module_manager.begin(&*app)).await?;
    let socket = latchmail_http::admin::socket::listen(&app).await?;
    let authorization_server = match app.config.oauth.listen {
        Some(address) => Some(latchmail_http::oauth::listen(&app, address).await?),
        None => None,
    };
    let server = latchmail_http::serve(&app, listener)?;
    let breaking = tokio::spawn(look_after(Arc::clone(&app), failing));
    let sweeping = tokio::spawn(sweep(Arc::clone(&app)));
    let writing = tokio::spawn(write_uses(Arc::clone(&app)));
    let ending = tokio::spawn(end_again(Arc::clone(&app)));
    tracing::info!(%address, "ready");
    Ok(Running {
        address,
        app,
        server,
        authorization_server,
        socket,
        breaking,
        sweeping,
        writing,
        ending,
    })
}

/// Builds the state. Also returns the channel that reports failing modules.
async fn build(
    config: Config,
    clock: Clock,
) -> Result<(Arc<App>, mpsc::UnboundedReceiver<Failing>), StartError> {
    let directory = Directory::open(&config.database(), &config.registration.domains)
        .await
        .map_err(|e| StartError::new(e.to_string()))?;
    let mail = Mail::new(&config.imap, directory.db().clone())?;
    let mail = Arc::new(mail.trusting(&config.inbound.authserv_id));
    let mail_server: Arc<dyn MailServer> = Arc::new(mail_server::Adapter(Arc::clone(&mail)));
    let dns = Arc::new(Dns::new(&config.dns, &config.mail_host())?);
    let fetch = Fetch::new(Arc::clone(&dns))?;
    let auth = Auth::new(
        &config,
        directory.clone(),
        Arc::clone(&mail_server),
        clock.clone(),
    )?
    .with_external(&config, fetch.clone())?;
    auth.reseal_second_factors()
        .await
        .map_err(|e| StartError::new(e.to_string()))?;
    let auth = Arc::new(auth);
    let dkim = latchmail_dkim::Keys::new(&config.dkim, directory.clone(), auth.keys())?;
    dkim.reseal()
        .await
        .map_err(|e| StartError::new(e.to_string()))?;
    dkim.tell_milter()
        .await
        .map_err(|e| StartError::new(e.to_string()))?;
    let dkim = Arc::new(dkim);
    let outbox = Outbox::new(
        &config.smtp,
        directory.clone(),
        Arc::clone(&mail),
        Arc::clone(&dkim),
        clock.clone(),
    )?;
    let outbox = Arc::new(outbox);
    let domains = Domains::new(
        &config,
        directory.clone(),
        dns,
        auth.keys(),
        Arc::clone(&dkim),
        clock.clone(),
    );
    let teams = Teams::new(
        &config,
        directory.clone(),
        Arc::clone(&auth),
        mail_server,
        clock.clone(),
    );
    teams
        .reseal()
        .await
        .map_err(|e| StartError::new(e.to_string()))?;
    let oauth = OAuth::new(
        &config,
        directory.clone(),
        Arc::clone(&auth),
        fetch.clone(),
        clock.clone(),
    )?;
    let services = Services {
        mail: Arc::clone(&mail),
        outbox: Arc::clone(&outbox),
        auth: Arc::clone(&auth),
        aliases: Aliases::new(directory.clone(), clock.clone()),
        domains: Arc::new(domains),
        teams: Arc::new(teams),
        store: Store::new(directory.clone(), clock.clone()),
        fetch,
    };
    let (module_manager, failing) = Life::new(&config, services, directory.clone(), clock.clone())?;
    let table = RouteTable::build(&ApiInfo::from_config(&config), route_groups(&config, &[])?)?;
    let app = Arc::new(App {
        http: HttpState::new(&config, clock.clone(), table)?,
        module_manager,
        config,
        clock,
        directory,
        mail,
        outbox,
        auth,
        oauth,
        dkim,
    });
    Ok((app, failing))
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let cannot = |e| StartError::new(format!("cannot listen on {address}: {e}"));
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    Ok((listener, address))
}

/// Deletes expired data, immediately and then at intervals, while the service runs.
async fn sweep(app: Arc<App>) {
    loop {
        match app.directory.sweep(app.clock.now()).await {
            Ok(ended) => app.mail.end(&ended).await,
            Err(error) => tracing::error!(%error, "failed to delete expired data"),
        }
        app.dkim.forget();
        if let Err(error) = app.dkim.tell_milter().await {
            tracing::error!(%error, "failed to sync milter keys");
        }
        let kept = DAY.saturating_mul(app.config.audit.days.max(1));
        if let Err(error) = app
            .directory
            .delete_events_before(app.clock.now().minus(kept))
            .await
        {
            tracing::error!(%error, "failed to delete old security events");
        }
        tokio::time::sleep(SWEEP_EVERY).await;
    }
}

/// Stores the times of last use of credentials at intervals, while the service runs.
async fn write_uses(app: Arc<App>) {
    loop {
        tokio::time::sleep(WRITE_EVERY).await;
        if let Err(error) = app.auth.write_uses().await {
            tracing::error!(%error, "failed to store the times of last use of credentials");
        }
    }
}

/// Handles failing modules while the service runs.
async fn look_after(app: Arc<App>, failing: mpsc::UnboundedReceiver<Failing>) {
    app.module_manager.look_after(&*app, failing).await;
}

/// Ends remaining mail server sessions of revoked credentials, immediately and then every minute, while the service runs.
async fn end_again(app: Arc<App>) {
    loop {
        if let Err(error) = app.mail.end_again().await {
            tracing::warn!(%error, "sessions of revoked credentials may still be open at the mail server");
        }
        tokio::time::sleep(END_EVERY).await;
    }
}

impl Running {
    /// Stops accepting requests, finishes running requests within the configured grace period, and releases all resources.
    pub async fn stop(self) {
        // All servers stop concurrently, so that none accepts requests while another finishes.
        let socket = async {
            if let Some(socket) = self.socket {
                socket.stop().await;
            }
        };
        let authorization_server = async {
            if let Some(server) = self.authorization_server {
                server.stop().await;
            }
        };
        tokio::join!(socket, authorization_server, self.server.stop());
        self.breaking.abort();
        self.sweeping.abort();
        self.writing.abort();
        self.ending.abort();
        self.app.auth.finished().await;
        self.app.outbox.finished().await;
        self.app.mail.finished().await;
        if let Err(error) = self.app.auth.write_uses().await {
            tracing::error!(%error, "failed to store the times of last use of credentials");
        }
        self.app.directory.close().await;
        tracing::info!("stopped");
    }
}
