//! Starts the service. The program `latchmail` and the tests call [`start`] with a configuration.
//!
//! This crate creates all parts of the service and the periodic tasks. The crate `latchmail-http`
//! handles requests.

mod events;
mod exports;
mod hosts;
mod jobs;
mod keys;
mod mail_server;
mod mailboxes;
mod milter_key;
mod periodic;
mod traces;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use latchmail_accounts::aliases::Aliases;
use latchmail_accounts::auth::Auth;
use latchmail_accounts::domains::Domains;
use latchmail_accounts::mail_server::MailServer;
use latchmail_accounts::plans::Plans;
use latchmail_accounts::routing::Routing;
use latchmail_accounts::teams::Teams;
use latchmail_callbacks::Webhooks;
use latchmail_core::clock::Clock;
use latchmail_core::config::{BUILT_IN, Config, Listen};
use latchmail_core::error::StartError;
use latchmail_core::limits::SharedBudgets;
use latchmail_core::mail_server_start;
use latchmail_core::traces::Tracer;
use latchmail_directory::Directory;
use latchmail_directory::credentials::index_keys::ServiceUse;
use latchmail_events::{Streams, Watcher};
use latchmail_handlers::Handlers;
use latchmail_http::scim::{self, ScimServer};
use latchmail_http::{ApiInfo, App, HttpState, RouteTable, route_groups};
use latchmail_jobs::Runner;
use latchmail_mailbox::Snoozer;
use latchmail_mailbox::filters::Filters;
use latchmail_mailbox::holds::Holds;
use latchmail_mailbox::journal::Journal;
use latchmail_mailbox::outbox::Outbox;
use latchmail_net::dns::Dns;
use latchmail_net::fetch::Fetch;
use latchmail_oauth::OAuth;
use latchmail_pages::operator::OperatorPage;
use latchmail_pages::sign_in::AuthorizationServer;
use latchmail_pages::{PAGES, operator, sign_in};
use latchmail_redis::RedisBudgets;
use latchmail_runtime::api::Services;
use latchmail_runtime::manager::ModuleManager;
use latchmail_runtime::modules::Failing;
use latchmail_transport::private_socket::PrivateSocket;
use latchmail_transport::tls::Tls;
use latchmail_transport::{self as transport, Listener};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use mailboxes::{drafts, importer, mail};

/// A running service.
#[derive(Debug)]
#[must_use = "a running service must be stopped with `stop`"]
pub struct Running {
    /// The address at which the service listens.
    pub address: Listen,
    /// The service's state, for operations that are not HTTP requests.
    pub app: Arc<App>,
    tls: Option<Arc<Tls>>,
    server: transport::Running,
    authorization_server: Option<AuthorizationServer>,
    metrics_server: Option<transport::Running>,
    notices_server: Option<transport::Running>,
    socket: Option<PrivateSocket>,
    operator_page: Option<OperatorPage>,
    scim_server: Option<ScimServer>,
    jobs: [Runner; 5],
    tasks: Vec<JoinHandle<()>>,
    trace_exporter: Option<traces::Exporter>,
}

/// Starts a service. The returned service accepts requests.
///
/// # Errors
/// Returns a sentence for the operator if the service cannot start.
pub async fn start(mut config: Config, clock: Clock) -> Result<Running, StartError> {
    // The listeners must exist before all other parts of the service. If the configured port is 0,
    // the operating system chooses the port, and the base URL, which other parts use, contains this
    // port.
    let tls = Tls::load(&config)?;
    let mut listeners = listen(&config).await?;
    if let Some(first) = listeners.first() {
        config.listen = first.address().clone();
    }
    config.check_base_url()?;
    let address = config.listen.clone();

    listeners = listeners
        .into_iter()
        .map(|listener| listener.with_tls(tls.as_ref()))
        .collect();
    if let Some(address) = config.http.redirect_listen {
        let listener = Listener::bind(&address.into(), "http.redirect_listen").await?;
        listeners.push(listener.redirecting());
    }

    let redis = RedisBudgets::start(&config.redis).await?;
    let shared_limits = redis.clone().map(|redis| redis as Arc<dyn SharedBudgets>);
    let dns = Arc::new(Dns::new(&config.dns, &config.mail_host())?);
    let fetch = Fetch::new(Arc::clone(&dns))?;
    let host_id = hosts::new_id()?;
    let (tracer, trace_exporter) = traces::start(&config.telemetry, fetch.clone(), &host_id)?;
    let network = Network { dns, fetch, tracer };
    let (app, failing) = Box::pin(build(config, clock, host_id, shared_limits, network)).await?;
    let events = hosts::join(&app).await?;
    let (current_key, changes_of_current_key) =
        watch::channel(app.auth.keys().current().kid.clone());
    Box::pin(app.module_manager.start(&*app)).await?;
    warn_about_missing_modules(&app);
    let socket = latchmail_http::admin::socket::listen(&app).await?;
    let authorization_server = match app.config.oauth.listen {
        Some(address) => Some(sign_in::listen(&app, address, tls.as_ref()).await?),
        None => None,
    };
    let operator_page = match app.config.admin.listen {
        Some(address) => Some(operator::listen(&app, address, tls.as_ref()).await?),
        None => None,
    };
    let scim_server = match app.config.scim.listen {
        Some(address) => Some(scim::listen(&app, address, tls.as_ref()).await?),
        None => None,
    };
    let metrics_server = match app.config.metrics.listen {
        Some(address) => Some(latchmail_http::metrics::listen(&app, address).await?),
        None => None,
    };
    let (notices_server, notices_task) = events::listen(&app).await?.unzip();
    mail_server_start::set_service_started();
    let server = latchmail_http::serve(&app, listeners);
    let mut tasks = vec![
        tokio::spawn(periodic::run_circuit_breaker(Arc::clone(&app), failing)),
        tokio::spawn(periodic::clean_up(Arc::clone(&app))),
        tokio::spawn(periodic::write_uses(Arc::clone(&app))),
        tokio::spawn(periodic::end_sessions(Arc::clone(&app))),
        tokio::spawn(periodic::delete_accounts(Arc::clone(&app))),
        tokio::spawn(periodic::recheck_users(Arc::clone(&app))),
        tokio::spawn(periodic::recheck_provider_sessions(Arc::clone(&app))),
        tokio::spawn(Arc::clone(&app.mail.index).run()),
        tokio::spawn(Arc::clone(&app.watcher).run()),
        tokio::spawn(events::log_bounces(Arc::clone(&app))),
        tokio::spawn(Arc::clone(&app.webhooks).watch(app.directory.hosts.clone())),
        tokio::spawn(Arc::clone(&app.handlers).watch(app.directory.hosts.clone())),
        tokio::spawn(hosts::announce(Arc::clone(&app))),
        tokio::spawn(hosts::handle_events(Arc::clone(&app), events)),
        tokio::spawn(keys::follow(Arc::clone(&app), current_key)),
        tokio::spawn(keys::reseal(Arc::clone(&app), changes_of_current_key)),
    ];
    tasks.extend(notices_task);
    let jobs = jobs::start(&app);
    if let Some(redis) = redis {
        tasks.push(tokio::spawn(redis.run()));
    }
    if let Some(tls) = tls.clone() {
        tasks.push(tokio::spawn(async move { tls.watch().await }));
    }
    tracing::info!(%address, "ready");
    Ok(Running {
        address,
        app,
        tls,
        server,
        authorization_server,
        metrics_server,
        notices_server,
        socket,
        operator_page,
        scim_server,
        jobs,
        tasks,
        trace_exporter,
    })
}

/// The clients of other servers, and the tracer.
struct Network {
    dns: Arc<Dns>,
    fetch: Fetch,
    tracer: Tracer,
}

/// Builds the service's state. Also returns a channel, on which the module manager reports failing
/// modules. `shared_limits` is `None` if each host has its own rate limits.
#[expect(clippy::too_many_lines, reason = "all wiring is here")]
async fn build(
    config: Config,
    clock: Clock,
    host_id: String,
    shared_limits: Option<Arc<dyn SharedBudgets>>,
    Network { dns, fetch, tracer }: Network,
) -> Result<(Arc<App>, mpsc::UnboundedReceiver<Failing>), StartError> {
    let directory = open_directory(&config).await?;
    let service_keys = keys::open(&config, &directory, &host_id).await?;
    let mail = Arc::new(mail(&config, &directory, service_keys.keyring()).await?);
    let mail_server: Arc<dyn MailServer> = Arc::new(mail_server::Adapter(Arc::clone(&mail)));
    let auth = Arc::new(
        Auth::new(
            &config,
            directory.clone(),
            Arc::clone(&mail_server),
            clock.clone(),
            service_keys.keyring(),
            shared_limits.as_ref(),
        )?
        .with_external(&config, fetch.clone())?
        .with_provider(&config, fetch.clone())?,
    );
    let index_credentials = jobs::credentials(ServiceUse::Index, &directory, &auth, &clock);
    mail.index
        .set_credentials(Arc::new(mail_server::IndexAdapter(index_credentials)));
    let jobs = Arc::new(jobs::store(&directory, auth.keys(), &clock));
    let dkim = latchmail_dkim::Keys::new(&config.dkim, directory.clone(), auth.keys())?;
    let dkim = Arc::new(dkim);
    dkim.sync_milter().await.map_err(start_error)?;
    let outbox = Outbox::new(
        &config.smtp,
        directory.clone(),
        Arc::clone(&mail),
        Arc::clone(&dkim),
        clock.clone(),
        &host_id,
        auth.keys(),
        milter_key::reports_key(&config, &directory).await?,
    )?
    .with_jobs(Arc::clone(&jobs));
    let outbox = Arc::new(outbox);
    let imports = importer(&directory, &mail, &clock, &host_id);
    let drafts = drafts(&directory, &mail, &outbox, &clock);
    let holds = Arc::new(Holds::new(
        Arc::clone(&outbox),
        jobs::access(ServiceUse::Outbox, &directory, &auth, &clock),
        format!("{}/account/holds", config.base_url()),
    ));
    let journal = Arc::new(Journal::new(Arc::clone(&mail), Arc::clone(&drafts)));
    let filters = Arc::new(Filters::new(
        &config.sieve,
        &config.imap,
        directory.clone(),
        Arc::clone(&mail),
        Arc::clone(&outbox),
        clock.clone(),
    )?);
    let watcher = Arc::new(Watcher::new(
        &config.events,
        directory.hosts.clone(),
        Arc::clone(&mail),
        tracer.clone(),
    ));
    let rights = events::Rights {
        directory: directory.clone(),
        auth: Arc::clone(&auth),
        clock: clock.clone(),
    };
    let streams = Streams::new(
        &events::config(&config),
        &mail,
        Arc::clone(&watcher),
        Arc::new(rights),
        clock.clone(),
    );
    let domains = Arc::new(Domains::new(
        &config,
        directory.clone(),
        dns,
        auth.keys(),
        Arc::clone(&dkim),
        clock.clone(),
    ));
    let teams = Teams::new(
        &config,
        directory.clone(),
        Arc::clone(&auth),
        mail_server,
        clock.clone(),
    );
    let oauth = OAuth::new(
        &config,
        directory.clone(),
        Arc::clone(&auth),
        fetch.clone(),
        clock.clone(),
    )?;
    let snoozer = Arc::new(Snoozer::new(&mail, &jobs));
    let routing = Routing::new(directory.clone(), config.sign_in.clone());
    let webhooks = Webhooks::new(
        &config.webhooks,
        latchmail_callbacks::Parts {
            stored: directory.webhooks.clone(),
            keys: auth.keys(),
            jobs: Arc::clone(&jobs),
            mail: Arc::clone(&mail),
            watcher: Arc::clone(&watcher),
            rights: jobs::access(ServiceUse::Index, &directory, &auth, &clock),
            fetch: fetch.clone(),
            clock: clock.clone(),
            tracer: tracer.clone(),
        },
    )?;
    let webhooks = Arc::new(webhooks);
    let handlers = Arc::new(Handlers::new(latchmail_handlers::Parts {
        stored: directory.module_handlers.clone(),
        accounts: directory.accounts.clone(),
        audit: directory.events.clone(),
        keys: auth.keys(),
        jobs: Arc::clone(&jobs),
        mail: Arc::clone(&mail),
        watcher: Arc::clone(&watcher),
        rights: jobs::access(ServiceUse::Outbox, &directory, &auth, &clock),
        tracer: tracer.clone(),
    }));
    let aliases = Aliases::new(
        directory.aliases.clone(),
        auth.mail_server_users(),
        clock.clone(),
    );
    let (exports, removals) = exports::create(
        &config,
        latchmail_export::Parts {
            directory: directory.clone(),
            jobs: Arc::clone(&jobs),
            mail: Arc::clone(&mail),
            filters: Arc::clone(&filters),
            journal: Arc::clone(&journal),
            rights: jobs::access(ServiceUse::Outbox, &directory, &auth, &clock),
            last_rights: jobs::access(ServiceUse::Removal, &directory, &auth, &clock),
            tracer: tracer.clone(),
        },
    )?;
    let services = Services {
        mail: Arc::clone(&mail),
        outbox: Arc::clone(&outbox),
        imports: Arc::clone(&imports),
        snoozer: Arc::clone(&snoozer),
        drafts: Arc::clone(&drafts),
        streams: streams.clone(),
        filters,
        webhooks: Arc::clone(&webhooks),
        auth: Arc::clone(&auth),
        aliases: aliases.clone(),
        domains,
        teams: Arc::new(teams),
        owner_modules: handlers.clone(),
        modules: directory.modules.clone(),
        fetch,
        clock: clock.clone(),
    };
    let (module_manager, failing) =
        ModuleManager::new(&config, services, directory.clone(), clock.clone())?;
    let module_manager = Arc::new(module_manager);
    handlers.set_manager(&module_manager);
    let table = RouteTable::build(
        &ApiInfo::from_config(&config),
        route_groups(&config, PAGES, &[])?,
    )?;
    let app = Arc::new(App {
        host_id,
        stopping: AtomicBool::new(false),
        host_name: hosts::machine_name(),
        service_keys,
        http: HttpState::new(&config, clock.clone(), table)?
            .with_shared_limits(shared_limits.as_ref(), "api")
            .with_tracer(tracer),
        module_manager,
        config,
        clock,
        directory,
        mail,
        outbox,
        imports,
        watcher,
        streams,
        drafts,
        holds,
        journal,
        snoozer,
        webhooks,
        exports,
        handlers,
        jobs,
        removals,
        routing: Arc::new(routing),
        auth,
        oauth,
        aliases,
        dkim,
        pages: PAGES,
    });
    Ok((app, failing))
}

/// Opens the database, and stores the quotas of the plans for the mail servers.
async fn open_directory(config: &Config) -> Result<Directory, StartError> {
    let directory = Directory::open(&config.database(), &config.registration.domains)
        .await
        .map_err(start_error)?;
    let quotas = Plans::of(config).quotas();
    let written = directory.accounts.set_plan_quotas(&quotas).await;
    written.map_err(start_error)?;
    Ok(directory)
}

/// Returns the error as a sentence for the operator.
fn start_error(error: impl Into<Box<dyn Error>>) -> StartError {
    StartError::new(error.into().to_string())
}

/// Opens the listeners of the API. If a service manager passed sockets to this process, uses these
/// sockets instead of the configured address.
async fn listen(config: &Config) -> Result<Vec<Listener>, StartError> {
    let inherited = Listener::inherited()?;
    if inherited.is_empty() {
        return Ok(vec![Listener::bind(&config.listen, "listen").await?]);
    }
    Ok(inherited)
}

/// Logs a warning if built-in modules are not loaded because neither the configuration nor the
/// program contains modules.
fn warn_about_missing_modules(app: &App) {
    if !app.config.modules.is_empty() {
        return;
    }
    let serving = app.module_manager.serving();
    let is_missing = |name: &&str| serving.iter().all(|one| one.manifest().name != *name);
    let names = BUILT_IN.iter().map(|module| module.name);
    let missing: Vec<_> = names.filter(is_missing).collect();
    if !missing.is_empty() {
        tracing::warn!(
            modules = missing.join(", "),
            "the routes of these modules are missing: this program contains no modules, and the configuration has no sections [modules.NAME] with `source`"
        );
    }
}

impl Running {
    /// Stops each module to which the changed configuration no longer grants a right.
    pub async fn apply_revoked_rights(&self) {
        hosts::converge(&self.app).await;
    }

    /// Applies the settings of a changed configuration that can change while the service runs:
    /// `limits` and `http.trusted_proxies`.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid. In this case, no setting changes.
    pub fn reload(&self, config: &Config) -> Result<(), StartError> {
        // All servers check the same settings. If a setting is invalid, the first call returns the
        // error, so no server has changed.
        self.app.http.reload(config)?;
        if let Some(server) = &self.authorization_server {
            server.reload(config)?;
        }
        if let Some(page) = &self.operator_page {
            page.reload(config)?;
        }
        if let Some(server) = &self.scim_server {
            server.reload(config)?;
        }
        self.app.auth.set_limits(&config.limits);
        Ok(())
    }

    /// Reads the key file again if it has changed.
    pub fn reload_keys(&self) {
        self.app.service_keys.wake();
    }

    /// Reads the files of the TLS certificate again. If a file is invalid, the previous certificate
    /// stays in use, and the reason is logged.
    pub async fn reload_certificate(&self) {
        if let Some(tls) = &self.tls {
            tls.reload().await;
        }
    }

    /// Returns the addresses of the listeners of the API, and the address that redirects to the
    /// API.
    #[must_use]
    pub fn addresses(&self) -> &[Listen] {
        self.server.addresses()
    }

    /// Returns the address of the operator's page, or `None` if there is no such page.
    #[must_use]
    pub fn operator_page(&self) -> Option<&Listen> {
        self.operator_page.as_ref()?.address()
    }

    /// Returns the address of the listener of SCIM, or `None` if no such listener is configured.
    #[must_use]
    pub fn scim_address(&self) -> Option<&Listen> {
        self.scim_server.as_ref()?.address()
    }

    /// Returns the address of the listener for metrics. Returns `None` if no listener is
    /// configured.
    #[must_use]
    pub fn metrics_address(&self) -> Option<&Listen> {
        self.metrics_server.as_ref()?.addresses().first()
    }

    /// Reports that the service is not ready, and still accepts requests for `http.drain_delay`.
    /// Then stops accepting requests. Waits for running requests until the end of the configured
    /// grace period. Then releases all resources.
    pub async fn stop(self) {
        self.app.stopping.store(true, Ordering::Relaxed);
        tokio::time::sleep(self.app.config.http.drain_delay).await;
        self.app.streams.stop();
        // All servers stop concurrently, so that no server accepts requests while another server
        // waits for running requests.
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
        let operator_page = async {
            if let Some(page) = self.operator_page {
                page.stop().await;
            }
        };
        let scim_server = async {
            if let Some(server) = self.scim_server {
                server.stop().await;
            }
        };
        let metrics_server = async {
            if let Some(server) = self.metrics_server {
                server.stop().await;
            }
        };
        let notices_server = async {
            if let Some(server) = self.notices_server {
                server.stop().await;
            }
        };
        tokio::join!(
            notices_server,
            socket,
            authorization_server,
            operator_page,
            scim_server,
            metrics_server,
            self.server.stop()
        );
        for task in &self.tasks {
            task.abort();
        }
        self.app.webhooks.stop();
        self.app.exports.stop();
        self.app.handlers.stop();
        futures_util::future::join_all(self.jobs.map(Runner::stop)).await;
        self.app.auth.finished().await;
        self.app.drafts.finished().await;
        self.app.outbox.finished().await;
        self.app.imports.finished().await;
        self.app.mail.changing.finished().await;
        if let Err(error) = self.app.auth.write_uses().await {
            tracing::error!(%error, "failed to store the times of last use of credentials");
        }
        if let Err(error) = self.app.directory.hosts.remove(&self.app.host_id).await {
            tracing::warn!(%error, "cannot tell the other hosts that this host has stopped");
        }
        self.app.directory.close().await;
        if let Some(exporter) = self.trace_exporter {
            exporter.stop().await;
        }
        tracing::info!("stopped");
    }
}
