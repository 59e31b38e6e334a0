//! A complete service for one test.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use latchmail_accounts::auth::Provision;
use latchmail_core::caller::Origin;
use latchmail_core::clock::Clock;
use latchmail_core::config::{Config, Database, EmbeddedModule, Listen, Module};
use latchmail_directory::testing::{PostgresDatabase, copy_sqlite};
use latchmail_http::App;
use latchmail_http::router::RouteEntry;
use latchmail_mailserver::{LocalServers, Lookup};
use latchmail_runtime::modules::Access;
use latchmail_service::Running;
use lettre::address::Envelope;
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::built::modules;
use crate::mail_servers::{Borrowed, Kind, Logs, milter};
use crate::settings::{high_limits, parsed, settings};
use crate::test_run::{foreign_aliases, on_postgres, users_of_mail_server};
use crate::{MailServers, MailUsers, PASSWORD, Person, Response, embedded};

/// The first of the service's registration domains; the second is `second.test`.
pub const DOMAIN: &str = "first.test";

/// The settings of a service before its start.
#[derive(Debug, Default)]
pub struct Setup {
    settings: String,
    default_limits: bool,
    sqlite: bool,
    mail: Mail,
    milter: String,
    without_notices: bool,
    pub(crate) embedded: Option<Vec<EmbeddedModule>>,
}

/// The mail servers that a test needs.
#[derive(Clone, Copy, Debug, Default)]
enum Mail {
    /// No mail servers. Nothing listens at the configured addresses.
    #[default]
    None,
    /// A Dovecot and a Postfix that other tests use before and after this one.
    Shared,
    /// A Dovecot and a Postfix of its own, which the test can stop, break and configure.
    Own,
    /// The same with users of the mail server's own.
    OwnUsers {
        /// Whether the mail server removes the domain from every name.
        bare: bool,
    },
}

/// A service that runs until it is dropped.
#[derive(Debug)]
pub struct Service {
    /// `http://address`, without a slash.
    pub base: String,
    /// The service's clock.
    pub clock: Clock,
    /// The folder with all files of this service.
    pub state: PathBuf,
    pub(crate) mail: Option<MailServers>,
    pub(crate) stack: Option<LocalServers>,
    pub(crate) users: Option<Box<MailUsers>>,
    pub(crate) logs: Option<Logs>,
    pub(crate) running: Option<Running>,
    pub(crate) config: Box<Config>,
    /// Its configuration as text.
    pub(crate) settings: String,
    pub(crate) client: reqwest::Client,
    pub(crate) database: Option<PostgresDatabase>,
    pub(crate) _borrowed: Option<Borrowed>,
    pub(crate) _folder: TempDir,
}

impl Setup {
    /// Adds lines to the default configuration.
    #[must_use]
    pub fn with(mut self, settings: &str) -> Self {
        self.settings.push_str(settings);
        self.settings.push('\n');
        self
    }

    /// Uses the default rate limits instead of limits that no test reaches.
    #[must_use]
    pub fn with_default_limits(mut self) -> Self {
        self.default_limits = true;
        self
    }

    /// Uses SQLite for the directory, also in runs with PostgreSQL.
    #[must_use]
    pub fn on_sqlite(mut self) -> Self {
        self.sqlite = true;
        self
    }

    /// Uses mail servers that other tests use before and after this one. The mail server sends
    /// notices about changes to the service.
    #[must_use]
    pub fn with_mail(mut self) -> Self {
        self.mail = Mail::Shared;
        self
    }

    /// Does not use the notices of the mail server. The service opens connections that report
    /// changes instead.
    #[must_use]
    pub fn without_notices(mut self) -> Self {
        self.without_notices = true;
        self
    }

    /// Uses mail servers of its own, below `mail` in the state folder, for a test that stops,
    /// breaks or configures them.
    #[must_use]
    pub fn with_own_mail(mut self) -> Self {
        self.mail = Mail::Own;
        self
    }

    /// Uses mail servers of its own, which have users and verify their passwords ([`MailUsers`]).
    /// With `bare`, their names have no domain.
    #[must_use]
    pub fn with_mail_users(mut self, bare: bool) -> Self {
        self.mail = Mail::OwnUsers { bare };
        self
    }

    /// Uses mail servers of its own. Their milter has these lines of configuration and looks names
    /// up in the DNS.
    #[must_use]
    pub fn with_milter(mut self, settings: &str) -> Self {
        self.milter = settings.into();
        self.with_own_mail()
    }

    /// Starts the service.
    pub async fn start(self) -> Service {
        // The futures of tests contain this one, and have a limit.
        Box::pin(self.start_now()).await
    }

    async fn start_now(mut self) -> Service {
        if matches!(self.mail, Mail::Shared | Mail::Own) && users_of_mail_server() {
            self.mail = Mail::OwnUsers { bare: false };
        }
        let folder = tempfile::Builder::new().prefix("lm").tempdir().unwrap();
        let state = folder.path().to_owned();
        let kind = if on_postgres() && !self.sqlite {
            Kind::Postgres
        } else {
            Kind::Sqlite
        };
        let borrowed = match self.mail {
            Mail::Shared => Borrowed::pair(kind).await,
            Mail::None | Mail::Own | Mail::OwnUsers { .. } => None,
        };
        let mut database = None;
        let lookup = match &borrowed {
            Some(pair) => pair.lookup.clone(),
            None if kind == Kind::Postgres => {
                let created = PostgresDatabase::create().await.unwrap();
                Lookup::Postgres(database.insert(created).url.clone())
            }
            None => {
                let file = state.join("mailserver/mailserver.db");
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                Lookup::Sqlite(file)
            }
        };
        let (url, mailserver) = match &lookup {
            Lookup::Postgres(url) => (url.clone(), state.join("mailserver/mailserver.db")),
            Lookup::Sqlite(file) => {
                let main = state.join("latchmail.db");
                copy_sqlite(&main).await.unwrap();
                (format!("sqlite:{}", main.display()), file.clone())
            }
        };
        let mut stack = match (self.mail, &borrowed) {
            (Mail::None, _) | (Mail::Shared, Some(_)) => None,
            (Mail::Own | Mail::OwnUsers { .. } | Mail::Shared, _) => {
                let (folder, milter) = (state.join("mail"), milter(&self.milter));
                let started = LocalServers::start_with_milter(&folder, &lookup, &milter);
                Some(started.await.unwrap())
            }
        };
        let users = match (self.mail, &mut stack) {
            (Mail::OwnUsers { bare }, Some(stack)) => {
                let folder = state.join("mail");
                let users = MailUsers::configure(stack, &folder, bare);
                Some(Box::new(Box::pin(users).await))
            }
            _ => None,
        };
        let borrowed_servers = borrowed.as_ref().map(|pair| pair.servers.clone());
        let mail = borrowed_servers.or_else(|| stack.as_ref().map(MailServers::from));
        // The clock begins at the real time, because the database expires app passwords by its own
        // clock. It moves only when a test advances it.
        let clock = Clock::manual(Clock::system().now());
        let mut defaults = users
            .as_ref()
            .map_or_else(String::new, |users| users.settings());
        if !self.default_limits {
            defaults.push_str(&high_limits());
        }
        // Dovecot doubles its wait after each failed connection to the receiver of notices, up to a
        // minute. So all services with shared mail servers receive them, not only where a test
        // needs them.
        if let Some(pair) = &borrowed
            && !self.without_notices
            && becomes_free(pair.servers.notices).await
        {
            defaults.push_str(&pair.servers.notices_settings());
        }
        let own = format!("database.url = '{url}'\n{}", self.settings);
        let settings = settings(&state, &mailserver, mail.as_ref(), &defaults, &own);
        let (settings, embedded) = embedded::applied(self.embedded, settings, &own);
        let config = Box::new(parsed(&settings).with_embedded(&embedded));
        let running = Box::pin(start_host(&config, &clock)).await;
        Service {
            base: format!("http://{}", running.address),
            clock,
            state,
            logs: mail.as_ref().map(Logs::of),
            mail,
            stack,
            users,
            running: Some(running),
            config,
            settings,
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            database,
            _borrowed: borrowed,
            _folder: folder,
        }
    }
}

/// Waits until nothing listens at an address. Returns `false` after a second: a service that the
/// same test has dropped listens until the end of the test.
async fn becomes_free(address: SocketAddr) -> bool {
    let is_free = async {
        while TcpStream::connect(address).await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(1), is_free).await.is_ok()
}

/// Starts the host. If this run uses an aliases module in another language, that module replaces
/// the Rust one.
async fn start_host(config: &Config, clock: &Clock) -> Running {
    let usual = |module: &Module| module.source.as_deref() == Some(&*rust_aliases());
    let other = foreign_aliases().filter(|_| config.modules.get("aliases").is_some_and(usual));
    let running = latchmail_service::start(config.clone(), clock.clone())
        .await
        .unwrap();
    if let Some(component) = other {
        let component = std::fs::read(component).unwrap().into();
        let app = &running.app;
        let (modules, origin) = (&app.module_manager, Origin::operator());
        let installed = modules
            .install(&**app, vec![component], true, &origin)
            .await;
        installed.unwrap();
    }
    running
}

fn rust_aliases() -> PathBuf {
    modules().join("latchmail_aliases.wasm")
}

impl Service {
    /// Starts a service with the default configuration, without mail servers.
    pub async fn start() -> Self {
        Setup::default().start().await
    }

    /// Starts a service without mail servers and with additional lines of configuration, in dotted
    /// form (`limits.sign_in = 5`).
    pub async fn with(settings: &str) -> Self {
        Setup::default().with(settings).start().await
    }

    /// Starts a service with the default configuration and mail servers.
    pub async fn with_mail() -> Self {
        Setup::default().with_mail().start().await
    }

    /// Starts a service with mail servers and additional lines of configuration.
    pub async fn with_mail_and(settings: &str) -> Self {
        Setup::default().with_mail().with(settings).start().await
    }

    /// Starts a service with the default configuration and mail servers of its own (see
    /// [`Setup::with_own_mail`]).
    pub async fn with_own_mail() -> Self {
        Setup::default().with_own_mail().start().await
    }

    /// Returns the mail servers that the test requested.
    #[track_caller]
    pub fn mail(&self) -> &MailServers {
        self.mail
            .as_ref()
            .expect("the test starts its service with mail servers")
    }

    /// Returns the users of the mail server that the test requested.
    #[track_caller]
    pub fn mail_users(&mut self) -> &mut MailUsers {
        self.users
            .as_mut()
            .expect("the test starts its mail servers with users")
    }

    /// Returns whether the service stores the passwords of its accounts. Otherwise the mail server
    /// has users, and no route changes a password.
    pub fn stores_passwords(&self) -> bool {
        self.users.is_none()
    }

    /// Adds a user with [`PASSWORD`] to the mail server. Returns `false` if the service has its own
    /// users.
    pub(crate) async fn add_mail_user(&self, address: &str) -> bool {
        let Some(users) = &self.users else {
            return false;
        };
        users.set(address, PASSWORD);
        users.applied().await;
        true
    }

    /// Returns the private mail servers that the test requested.
    #[track_caller]
    pub fn stack(&mut self) -> &mut LocalServers {
        self.stack
            .as_mut()
            .expect("the test starts its service with its own mail servers")
    }

    pub(crate) fn has_mail(&self) -> Option<&MailServers> {
        self.mail.as_ref()
    }

    /// Stops the host after its active requests, and starts it again with the same state. Its
    /// address changes.
    pub async fn restart(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().await;
        }
        let running = Box::pin(start_host(&self.config, &self.clock)).await;
        self.base = format!("http://{}", running.address);
        self.running = Some(running);
    }

    /// Restarts the host with a changed configuration.
    pub async fn restart_with(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.config);
        self.restart().await;
    }

    /// Restarts the host with a configuration file, and returns the path of the file.
    pub async fn restart_with_file(&mut self) -> PathBuf {
        let file = self.state.join("host.toml");
        std::fs::write(&file, &self.settings).unwrap();
        let path = file.clone();
        self.restart_with(|config| config.file = Some(path)).await;
        file
    }

    /// Stops modules with revoked rights, as the service does at SIGHUP.
    pub async fn apply_revoked_rights(&self) {
        self.running.as_ref().unwrap().apply_revoked_rights().await;
    }

    /// Returns the configuration of the service's database.
    pub fn database(&self) -> Database {
        self.config.database()
    }

    /// Returns the configured DNS server; empty for the system's.
    pub fn dns_server(&self) -> &str {
        &self.config.dns.server
    }

    /// Stops the host after its active requests.
    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().await;
        }
    }

    /// Returns the addresses of the listeners.
    pub fn addresses(&self) -> &[Listen] {
        self.running.as_ref().unwrap().addresses()
    }

    /// Returns the URL of the operator's page, without a path. The page has no TLS.
    pub fn operator_page(&self) -> String {
        let running = self.running.as_ref().unwrap();
        format!("http://{}", running.operator_page().unwrap())
    }

    /// Reloads the certificate, as the service does periodically.
    pub async fn reload_certificate(&self) {
        self.running.as_ref().unwrap().reload_certificate().await;
    }

    /// Returns a request to this service: `service.request("GET /api/health")`.
    pub fn request(&self, line: &str) -> reqwest::RequestBuilder {
        let (method, path) = line.split_once(' ').unwrap();
        self.client
            .request(method.parse().unwrap(), format!("{}{path}", self.base))
    }

    /// Returns the response to a request without credential or body.
    pub async fn send(&self, line: &str) -> Response {
        Response::of(self.request(line)).await
    }

    /// Returns the response to a request with a JSON body.
    pub async fn post(&self, path: &str, body: &serde_json::Value) -> Response {
        Response::of_json(self.request(&format!("POST {path}")), body).await
    }

    /// Returns the response to a request without a body, with this credential.
    pub async fn with_bearer(&self, line: &str, credential: &str) -> Response {
        Response::of(self.request(line).bearer_auth(credential)).await
    }

    /// Returns all routes of the router: method, path and access.
    pub fn routes(&self) -> Vec<(String, String, Access)> {
        let table = self.running.as_ref().unwrap().app.http.table();
        let route = |entry: &Arc<RouteEntry<App>>| {
            let route = &entry.route;
            (route.method.to_string(), route.path.clone(), route.access)
        };
        table.entries().iter().map(route).collect()
    }

    /// Returns the state of the host, for checks that no client can make.
    pub fn app(&self) -> &App {
        &self.running.as_ref().unwrap().app
    }

    /// Creates an account as the operator does, or as the first sign-in of a mail server's user
    /// does: without a profile, with [`PASSWORD`].
    pub async fn create_account(&self, address: &str) {
        if self.add_mail_user(address).await {
            Person::sign_in(self, address, PASSWORD).await;
            return;
        }
        let registration = &self.running.as_ref().unwrap().app.auth.registration;
        let made = registration.create_account(address, PASSWORD.into()).await;
        assert_eq!(made.unwrap(), Provision::Created);
    }

    /// Updates the milter's keys, as the service does every hour.
    pub async fn sync_milter(&self) {
        let dkim = &self.running.as_ref().unwrap().app.dkim;
        dkim.sync_milter().await.unwrap();
    }

    /// Installs components as the operator does, with consent to everything.
    pub async fn install(&self, components: &[Vec<u8>]) {
        let app = &self.running.as_ref().unwrap().app;
        let components = components.iter().map(|one| one.clone().into()).collect();
        let origin = Origin::operator();
        let installed = app
            .module_manager
            .install(&**app, components, true, &origin);
        installed.await.unwrap();
    }

    /// Registers a person.
    pub async fn person(&self, name: &str) -> Person<'_> {
        Person::register(self, name).await
    }

    /// Delivers a message to the mail server like an external sender, and returns when the server
    /// has accepted it.
    pub async fn deliver(&self, to: &str, message: &str) {
        self.deliver_raw(to, &message.replace('\n', "\r\n").into_bytes())
            .await;
    }

    /// The same with exact bytes.
    pub async fn deliver_raw(&self, to: &str, message: &[u8]) {
        self.deliver_from(Some("sender@outside.test"), to, message)
            .await;
    }

    /// The same from another sender. `None` is the null sender (RFC 5321, section 4.5.5).
    pub async fn deliver_from(&self, sender: Option<&str>, to: &str, message: &[u8]) {
        let envelope = Envelope::new(
            sender.map(|sender| sender.parse().unwrap()),
            vec![to.parse().unwrap()],
        )
        .unwrap();
        let transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(
            self.mail().smtp.ip().to_string(),
        )
        .port(self.mail().smtp.port())
        .build();
        transport.send_raw(&envelope, message).await.unwrap();
    }
}

/// Prints the logs of the mail servers if the test failed, and drops the test's PostgreSQL
/// database.
impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(logs) = &self.logs
        {
            logs.print();
        }
        let Some(database) = self.database.take() else {
            return;
        };
        // This may run on the test's own runtime.
        let drop = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(database.drop())
        };
        if let Err(error) = std::thread::spawn(drop).join().unwrap() {
            eprintln!("the test's database stays until its server ends: {error:#}");
        }
    }
}
