//! Reads the configuration from one TOML file and the environment. The environment variable
//! `LATCHMAIL_SECTION__KEY` overrides a key of a section.
//!
//! Each section of the configuration has a source file with types, defaults and checks. The file
//! `plaintext` contains the checks that concern several sections.
//!
//! Only this module reads the environment. `docs/configuration.md` describes the configuration for
//! operators. Document each new or changed key in `docs/configuration.md`.

mod acme;
mod admin;
mod audit;
mod built_in;
mod database;
mod dkim;
mod dns;
mod events;
mod handlers;
mod http;
mod imap;
mod inbound;
mod index;
mod keys;
mod limits;
mod listen;
mod log;
mod mcp;
mod metrics;
mod modules;
mod oauth;
mod plaintext;
mod plans;
mod redis;
#[cfg(test)]
mod reference;
mod registration;
mod registry;
mod sieve;
mod sign_in;
mod smtp;
mod telemetry;
#[cfg(test)]
mod tests;
mod tls;
mod values;
mod webhooks;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use config::{Environment, File, FileFormat};
use url::Url;

pub use self::acme::Acme;
pub use self::admin::Admin;
pub use self::audit::Audit;
pub use self::built_in::{BUILT_IN, BuiltInModule, EmbeddedModule, OPTIONAL};
pub use self::database::Database;
pub use self::dkim::{Dkim, DkimKey};
pub use self::dns::Dns;
pub use self::events::Events;
pub use self::handlers::Handlers;
pub use self::http::Http;
pub use self::imap::{Imap, SessionNames};
pub use self::inbound::{Filter, Inbound, LocalFrom};
pub use self::index::Index;
use self::keys::Keys;
pub use self::limits::Limits;
pub use self::listen::Listen;
pub use self::log::{Log, LogFormat};
pub use self::mcp::Mcp;
pub use self::metrics::Metrics;
pub use self::modules::{Breaker, Module, ModuleSettings};
pub use self::oauth::{Introspection, OAuth};
pub use self::plans::Plan;
pub use self::redis::Redis;
pub use self::registration::Registration;
pub use self::registry::Registry;
pub use self::sieve::Sieve;
pub use self::sign_in::{DomainSignIn, MailserverSignIn, OidcSignIn, PasswordSource, SignIn};
pub use self::smtp::Smtp;
pub use self::telemetry::Telemetry;
pub use self::tls::Tls;
use self::values::{list, section};
pub use self::webhooks::Webhooks;
use crate::error::StartError;

/// Environment variables that have the prefix of configuration keys but set no key. The command
/// line reads these variables.
const NOT_CONFIGURATION: [&str; 6] = [
    "LATCHMAIL_CONFIG",
    "LATCHMAIL_STATE",
    "LATCHMAIL_MODULES",
    "LATCHMAIL_EMBED_MODULES",
    "LATCHMAIL_TOKEN",
    "LATCHMAIL_WEBHOOK_SECRET",
];

/// The default path of the state folder of `latchmail dev`.
pub const STATE: &str = ".latchmail";

/// The name of the configuration file in the state folder. The operator's commands read this file.
pub const STATE_FILE: &str = "latchmail.toml";

/// The name of the file with the settings that `latchmail attach` determines. The file is in the
/// folder of the configuration file. Settings in the configuration file take precedence.
pub const ATTACHED_FILE: &str = "attached.toml";

/// The environment variable with the id of the process to which a service manager passes sockets
/// (`sd_listen_fds`).
const LISTEN_PID: &str = "LISTEN_PID";

/// The prefix of environment variables that tests use.
const TEST_PREFIX: &str = "LATCHMAIL_TEST_";

/// The name of the module with the agent endpoint.
const AGENTS_MODULE: &str = "mcp";

section! {
    /// All settings of the service.
    pub struct Config {
        /// The address at which the service listens: an IP address and a port, or a Unix socket.
        pub listen: Listen,
        /// The URL of the service for clients: scheme, host and port, without a trailing slash.
        /// This URL is also the issuer of the service's tokens. If empty, the URL is `http://`
        /// followed by `listen`, or with TLS `https://` followed by `listen` or the first name in
        /// `acme.domains`.
        pub base_url: String,
        /// The URL of the agent endpoint's authorization server. If empty, the URL is the origin of
        /// `base_url`. Another URL requires `oauth.listen` or `oauth.introspection`.
        pub auth_url: String,
        /// The name of the service for users and agents.
        pub service_name: String = "Latchmail".into(),
        /// The path of the file with the service's keys. The service creates the file if the file
        /// does not exist. Only the owner of the file can read the file.
        pub key_file: PathBuf = "latchmail.key".into(),
        /// The path of the folder that caches compiled modules. By default, this folder also
        /// contains the search index. The folder can be deleted without loss of data.
        pub cache_dir: PathBuf = "latchmail-cache".into(),
        /// The web origins that are allowed to call the service from a browser (CORS).
        #[serde(deserialize_with = "list")]
        pub cors_origins: Vec<String>,
        /// The settings of the log.
        pub log: Log,
        /// The settings of the HTTP server.
        pub http: Http,
        /// The certificate of the service.
        pub tls: Tls,
        /// The settings for certificates from a certificate authority.
        pub acme: Acme,
        /// The settings of the directory's database. [`Config::database`] returns these settings.
        database: Database,
        /// The settings for IMAP connections to the mail server.
        pub imap: Imap,
        /// The settings for connections to the mail server's submission service.
        pub smtp: Smtp,
        /// The settings for connections to the mail server's ManageSieve service.
        pub sieve: Sieve,
        /// The settings for incoming mail.
        pub inbound: Inbound,
        /// The settings of the search index.
        pub index: Index,
        /// The settings of events.
        pub events: Events,
        /// The settings for the registration of accounts.
        pub registration: Registration,
        /// The settings for the sign-in of users.
        pub sign_in: SignIn,
        /// The settings of the audit log.
        pub audit: Audit,
        /// The settings of the DNS resolver.
        pub dns: Dns,
        /// The DKIM keys.
        pub dkim: Dkim,
        /// The rate limits, in requests per minute.
        pub limits: Limits,
        /// The settings of the Redis server with the rate limits that several hosts share.
        pub redis: Redis,
        /// The settings of registries with modules.
        pub registry: Registry,
        /// The settings of webhooks.
        pub webhooks: Webhooks,
        /// The limits of handlers of modules.
        pub handlers: Handlers,
        /// The settings of the authorization server for agents.
        pub oauth: OAuth,
        /// The settings of the metrics.
        pub metrics: Metrics,
        /// The settings of the traces.
        pub telemetry: Telemetry,
        /// The settings of the agent endpoint.
        pub mcp: Mcp,
        /// The policy of each module, by the module's name. A section can also contain the path of
        /// a module file. The service installs this file at the first start.
        pub modules: BTreeMap<String, Module>,
        /// The policy of modules that have no section in `modules`. If `None`, such modules are not
        /// allowed.
        pub new_modules: Option<Module>,
        /// The settings of the operator's page, and for changes to modules while the service runs.
        pub admin: Admin,
        /// The path of the configuration file, or `None` without a configuration file.
        #[serde(skip)]
        pub file: Option<PathBuf>,
        /// The modules that the program contains.
        #[serde(skip)]
        pub embedded: Vec<EmbeddedModule>,
        /// The configuration keys that a file or the environment sets.
        #[serde(skip)]
        keys: Keys,
        /// The limits of accounts, by the name of the plan. The plan `default` exists even if it is
        /// not configured.
        pub plans: BTreeMap<String, Plan>,
    }
}

impl Config {
    /// Reads the configuration from the environment of the process, from `file`, and from the file
    /// [`ATTACHED_FILE`] in the same folder. If a key occurs several times, the environment takes
    /// precedence over `file`, and `file` takes precedence over [`ATTACHED_FILE`]. If `file` is
    /// `None`, reads only the environment.
    ///
    /// # Errors
    /// Returns an error if a file is unreadable or a setting is invalid. The error names the file
    /// or the key.
    pub fn load(file: Option<&Path>) -> Result<Self, StartError> {
        let attached = match file {
            Some(path) => read_optional(&path.with_file_name(ATTACHED_FILE))?,
            None => String::new(),
        };
        Self::load_with(file, &attached)
    }

    /// Works like [`load`](Self::load). `attached` is the text of the file [`ATTACHED_FILE`].
    ///
    /// # Errors
    /// Returns an error if `file` is unreadable or a setting is invalid. The error names the file
    /// or the key.
    pub fn load_with(file: Option<&Path>, attached: &str) -> Result<Self, StartError> {
        let text = match file {
            Some(path) => std::fs::read_to_string(path).map_err(|e| unreadable(path, &e))?,
            None => String::new(),
        };
        let named = file.map_or_else(|| "environment".into(), |p| p.display().to_string());
        let mut config = Self::parse_all(attached, &text, &named, environment())?;
        config.file = file.map(Path::to_path_buf);
        Ok(config)
    }

    /// Reads a configuration from TOML text and environment variables. `name` identifies the text
    /// in error messages.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid. The error names the key.
    pub fn parse(
        text: &str,
        name: &str,
        environment: std::collections::HashMap<String, String>,
    ) -> Result<Self, StartError> {
        Self::parse_all("", text, name, environment)
    }

    fn parse_all(
        attached: &str,
        text: &str,
        name: &str,
        environment: std::collections::HashMap<String, String>,
    ) -> Result<Self, StartError> {
        let environment = environment
            .into_iter()
            .filter(|(key, _)| {
                !NOT_CONFIGURATION.contains(&key.as_str()) && !key.starts_with(TEST_PREFIX)
            })
            .collect::<std::collections::HashMap<_, _>>();
        let variables = Environment::with_prefix("LATCHMAIL")
            .prefix_separator("_")
            .separator("__")
            .ignore_empty(true)
            .source(Some(environment));
        let invalid = |e| StartError::new(format!("the configuration ({name}) is invalid: {e}"));
        let sources = config::Config::builder()
            .add_source(File::from_str(attached, FileFormat::Toml))
            .add_source(File::from_str(text, FileFormat::Toml))
            .add_source(variables)
            .build()
            .map_err(invalid)?;
        let keys = Keys::of(&sources);
        let mut config: Self = sources.try_deserialize().map_err(invalid)?;
        if !keys.contains("admin.socket") {
            config.admin.socket = admin::default_socket(&config.data_folder());
        }
        Self { keys, ..config }.checked()
    }

    /// Returns the folder of the SQLite database. With another database, returns the folder of the
    /// key file.
    fn data_folder(&self) -> PathBuf {
        let database = self.database.url.strip_prefix("sqlite:");
        let database = database.map(|file| Path::new(file.trim_start_matches("//")));
        let file = database.unwrap_or(&self.key_file);
        file.parent().unwrap_or(Path::new("")).to_owned()
    }

    /// Returns `true` if the service itself uses TLS for the connections of clients.
    #[must_use]
    pub fn serves_tls(&self) -> bool {
        self.tls.is_configured() || self.acme.is_configured()
    }

    /// Returns the path of the folder `acme`, with the keys and certificates for the section
    /// `acme`. This folder is in the same folder as the key file.
    #[must_use]
    pub fn acme_folder(&self) -> PathBuf {
        self.key_file.with_file_name("acme")
    }

    /// Returns the URL of the service for clients, without a trailing slash.
    #[must_use]
    pub fn base_url(&self) -> String {
        if self.base_url.is_empty() {
            self.default_url()
        } else {
            self.base_url.clone()
        }
    }

    /// Returns the URL of the service for an empty `base_url`. The host of the URL is the first
    /// name in `acme.domains`, or without such a name the address `listen`.
    fn default_url(&self) -> String {
        const HTTPS: u16 = 443;
        match (self.acme.domains.first(), self.listen.tcp()) {
            (Some(domain), Some(address)) if address.port() != HTTPS => {
                format!("https://{domain}:{}", address.port())
            }
            (Some(domain), _) => format!("https://{domain}"),
            (None, _) if self.serves_tls() => format!("https://{}", self.listen),
            (None, _) => format!("http://{}", self.listen),
        }
    }

    /// Returns the URL of the authorization server, without a trailing slash.
    #[must_use]
    pub fn auth_url(&self) -> String {
        if self.auth_url.is_empty() {
            self.base_url()
        } else {
            self.auth_url.clone()
        }
    }

    /// Returns the settings of the directory's database. Sets the field `with_milter` of the
    /// settings to the value of `dkim.milter`.
    #[must_use]
    pub fn database(&self) -> Database {
        Database {
            with_milter: self.dkim.milter,
            ..self.database.clone()
        }
    }

    /// Returns the public name of the mail server. The default is `mail.` followed by the first
    /// registration domain.
    #[must_use]
    pub fn mail_host(&self) -> String {
        if !self.dns.mail_host.is_empty() {
            return self.dns.mail_host.clone();
        }
        match self.registration.domains.first() {
            Some(domain) => format!("mail.{domain}"),
            None => "mail.invalid".into(),
        }
    }

    /// Returns the sections of all modules. The section of the module `mcp` also contains three
    /// settings of the service: the name, the allowed web origins, and whether agents are allowed
    /// to send mail. A value that the operator set in the section of `mcp` takes precedence. The
    /// sections of optional modules are completed ([`Self::optional_modules`]).
    #[must_use]
    pub fn modules_with_service_settings(&self) -> BTreeMap<String, Module> {
        let mut modules = self.modules.clone();
        let own = std::iter::once(self.base_url());
        let origins: Vec<String> = own.chain(self.cors_origins.iter().cloned()).collect();
        let settings = [
            ("service_name", self.service_name.clone()),
            ("origins", origins.join(" ")),
            ("send_tool", self.mcp.send_tool.to_string()),
        ];
        if let Some(module) = modules.get_mut(AGENTS_MODULE) {
            for (key, value) in settings {
                module.config.0.entry(key.into()).or_insert(value);
            }
        }
        for (name, policy) in self.optional_modules() {
            if let Some(module) = modules.get_mut(&name) {
                *module = policy;
            }
        }
        modules
    }

    /// Returns the keys that are set in only one of the two configurations, or whose values differ.
    #[must_use]
    pub fn changed_keys(&self, other: &Self) -> Vec<String> {
        self.keys.changed(&other.keys)
    }

    /// Checks that the service has a URL.
    ///
    /// # Errors
    /// Returns an error if `listen` is a Unix socket and `base_url` is empty.
    pub fn check_base_url(&self) -> Result<(), StartError> {
        if self.base_url.is_empty() && self.listen.tcp().is_none() {
            return Err(StartError::new(format!(
                "`listen` is {}, a Unix socket, so `base_url` must be set",
                self.listen
            )));
        }
        Ok(())
    }

    /// Returns the filter that writes the `Authentication-Results` headers.
    #[must_use]
    pub fn results_filter(&self) -> Filter {
        let default = if self.sign_in.uses_mail_server() {
            Filter::Other
        } else {
            Filter::Latchmail
        };
        self.inbound.filter.unwrap_or(default)
    }

    /// Returns whether the service requests delivery reports about the messages that it sends.
    #[must_use]
    pub fn requests_delivery_reports(&self) -> bool {
        self.inbound.delivery_reports.unwrap_or_else(|| {
            self.results_filter() == Filter::Latchmail && !self.inbound.authserv_id.is_empty()
        })
    }

    fn checked(mut self) -> Result<Self, StartError> {
        for url in [&mut self.base_url, &mut self.auth_url] {
            if !url.is_empty() {
                *url = origin(url)?;
            }
        }
        self.check_base_url()?;
        self.tls.check()?;
        self.acme.check()?;
        if self.tls.is_configured() && self.acme.is_configured() {
            return Err(StartError::new(
                "`tls.certificate` and `acme.domains` exclude each other: the certificate comes from files or from a certificate authority",
            ));
        }
        self.http.check(&self)?;
        self.admin.check(&self)?;
        self.registration.check()?;
        self.sign_in.check()?;
        self.smtp.check()?;
        self.dns.check()?;
        self.inbound.check()?;
        self.index.check(&self.cache_dir)?;
        self.events.check()?;
        self.redis.check()?;
        self.telemetry.check()?;
        plaintext::check(&self)?;
        Ok(self)
    }
}

/// Returns the text of a file, or an empty text if the file does not exist.
fn read_optional(path: &Path) -> Result<String, StartError> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        result => result.map_err(|e| unreadable(path, &e)),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> StartError {
    let path = path.display();
    StartError::new(format!("cannot read the configuration {path}: {error}"))
}

/// Returns the origin of a URL in the form that browsers send: in lower case and ASCII, without a
/// path and without the default port.
fn origin(address: &str) -> Result<String, StartError> {
    let origin = Url::parse(address.trim_end_matches('/'))
        .ok()
        .filter(|url| {
            let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
            let unnamed = url.username().is_empty() && url.password().is_none();
            bare && unnamed && matches!(url.scheme(), "http" | "https")
        });
    origin
        .map(|url| url.origin().ascii_serialization())
        .ok_or_else(|| {
            StartError::new(format!(
                "the configuration's `{address}` is not an http or https URL without a path"
            ))
        })
}

/// Returns the environment variables of the process. Omits variables that are not valid Unicode.
#[must_use]
pub fn environment() -> std::collections::HashMap<String, String> {
    std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Returns `true` if a service manager passed sockets to this process. Compares `LISTEN_PID` with
/// the id of this process, because a child process can inherit the variable without the sockets.
#[must_use]
pub fn has_inherited_sockets() -> bool {
    std::env::var(LISTEN_PID).is_ok_and(|id| id.parse() == Ok(std::process::id()))
}
