//! The configuration: one TOML file. The environment can set every key as `LATCHMAIL_SECTION__KEY`.
//!
//! Only this module reads the environment. `docs/configuration.md` describes the configuration for operators: change both together.

mod dns;
mod inbound;
mod oauth;
mod plaintext;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::{Environment, File, FileFormat};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use url::Url;

pub use self::dns::Dns;
pub use self::inbound::{Inbound, LocalFrom};
pub use self::oauth::{Introspection, OAuth};
use crate::address;
use crate::error::StartError;

/// Variables with the same prefix that are not configuration: the command line uses them.
const NOT_CONFIGURATION: [&str; 3] = ["LATCHMAIL_CONFIG", "LATCHMAIL_STATE", "LATCHMAIL_MODULES"];

/// The default state folder of `latchmail dev`.
pub const STATE: &str = ".latchmail";

/// The configuration file in the state folder, for the operator's commands.
pub const STATE_FILE: &str = "latchmail.toml";

/// The prefix of variables that tests use.
const OF_THE_TESTS: &str = "LATCHMAIL_TEST_";

/// The module that serves the agent endpoint.
const AGENTS_MODULE: &str = "mcp";

/// All settings of the service.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The address that the service listens on.
    #[serde(default = "default_listen")]
    pub listen: SocketAddr,
    /// The URL of the service for clients: scheme, host and port, without a trailing slash. It is also the issuer of the service's tokens. If
    /// empty: `http://` and the listening address.
    #[serde(default)]
    pub base_url: String,
    /// The URL of the agent endpoint's authorization server. If empty: the origin of `base_url`. Another URL needs `oauth.listen` or
    /// `oauth.introspection`.
    #[serde(default)]
    pub auth_url: String,
    /// The name of the service for users and agents.
    #[serde(default = "default_service_name")]
    pub service_name: String,
    /// The file of the service's keys. If the file does not exist, the service creates it, readable by its owner only.
    #[serde(default = "default_key_file")]
    pub key_file: PathBuf,
    /// The cache folder of compiled modules. It can be deleted without loss of data.
    #[serde(default = "default_cache_dir")]
    pub cache_dir: PathBuf,
    /// The web origins whose pages may call the service from a browser (CORS).
    #[serde(default, deserialize_with = "list")]
    pub cors_origins: Vec<String>,
    /// The log.
    #[serde(default)]
    pub log: Log,
    /// The HTTP server.
    #[serde(default)]
    pub http: Http,
    /// The directory's database.
    #[serde(default)]
    pub database: Database,
    /// The mail server's IMAP side.
    #[serde(default)]
    pub imap: Imap,
    /// The mail server's submission side.
    #[serde(default)]
    pub smtp: Smtp,
    /// Incoming mail.
    #[serde(default)]
    pub inbound: Inbound,
    /// Registration of accounts.
    #[serde(default)]
    pub registration: Registration,
    /// The audit log.
    #[serde(default)]
    pub audit: Audit,
    /// The DNS resolver.
    #[serde(default)]
    pub dns: Dns,
    /// The DKIM keys.
    #[serde(default)]
    pub dkim: Dkim,
    /// The rate limits, in requests per minute.
    #[serde(default)]
    pub limits: Limits,
    /// The authorization server for agents.
    #[serde(default)]
    pub oauth: OAuth,
    /// The agent endpoint.
    #[serde(default)]
    pub mcp: Mcp,
    /// The policies of modules by name, and the modules that are installed at the first start.
    #[serde(default)]
    pub modules: BTreeMap<String, Module>,
    /// The policy of modules without a section. If `None`, such modules are not allowed.
    #[serde(default)]
    pub new_modules: Option<Module>,
    /// Changes to modules while the service runs.
    #[serde(default)]
    pub admin: Admin,
    /// The file that the configuration was read from, if it was read from a file.
    #[serde(skip)]
    pub file: Option<PathBuf>,
    /// The limits of accounts, by the name of their plan. The plan `default` exists even if it is not configured.
    #[serde(default)]
    pub plans: BTreeMap<String, Plan>,
}

/// `[log]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// The format of the log.
    pub format: LogFormat,
    /// The filter: a level such as `info`, or directives such as `latchmail=debug,info`.
    pub filter: String,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::Human,
            filter: "info".into(),
        }
    }
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Readable lines.
    Human,
    /// One JSON object per line.
    Json,
}

/// `[http]`: timeouts and limits of the server. Times are in seconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// The maximum number of connections. Further connections wait to be accepted.
    pub max_connections: usize,
    /// The maximum number of connections of one client (an IPv4 address, or the /64 of an IPv6 address). Further connections are closed at once.
    /// Trusted proxies have no such limit.
    pub connections_per_client: usize,
    /// The memory for request bodies, in MiB: at least as much as the largest body of any route. A request whose body does not fit is rejected
    /// with a request to retry.
    pub body_memory: usize,
    /// The timeout from the first byte of a request to the end of its headers.
    #[serde(deserialize_with = "seconds")]
    pub header_timeout: Duration,
    /// The timeout between two parts of a request body. The whole body has ten times as long.
    #[serde(deserialize_with = "seconds")]
    pub body_timeout: Duration,
    /// The timeout of an idle connection after its first request. Before the first request, `header_timeout` applies.
    #[serde(deserialize_with = "seconds")]
    pub idle_timeout: Duration,
    /// The maximum time that a shutdown waits for running requests.
    #[serde(deserialize_with = "seconds")]
    pub shutdown_grace: Duration,
    /// The proxies whose `X-Forwarded-For` is trusted, as addresses or networks (`10.0.0.0/8`).
    #[serde(deserialize_with = "list")]
    pub trusted_proxies: Vec<String>,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            connections_per_client: 256,
            body_memory: 256,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(1),
            shutdown_grace: Duration::from_secs(30),
            trusted_proxies: Vec::new(),
        }
    }
}

/// `[database]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Database {
    /// `sqlite:FILE` or `postgres://…`.
    pub url: String,
    /// Whether an unencrypted connection to another machine is allowed.
    pub insecure: bool,
    /// With SQLite: the file that mail servers read. Empty: `mailserver/mailserver.db` beside the database.
    pub mailserver: PathBuf,
    /// With SQLite: the file that a milter reads if `dkim.milter` is set. Empty: `milter/dkim-keys.db` beside the database.
    pub milter: PathBuf,
    /// The maximum number of connections.
    pub max_connections: u32,
    /// The value of `dkim.milter`: whether a milter reads the database.
    #[serde(skip)]
    pub with_milter: bool,
}

impl Default for Database {
    fn default() -> Self {
        Self {
            url: "sqlite:latchmail.db".into(),
            insecure: false,
            mailserver: PathBuf::new(),
            milter: PathBuf::new(),
            max_connections: 8,
            with_milter: false,
        }
    }
}

/// `[imap]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Imap {
    /// `host:port`.
    pub address: String,
    /// TLS from the first byte (RFC 8314).
    pub tls: bool,
    /// Whether an unencrypted connection to another machine is allowed.
    pub insecure: bool,
    /// The timeout of connecting and of one command, in seconds.
    #[serde(deserialize_with = "seconds")]
    pub timeout: Duration,
    /// The maximum number of connections of one account. It must be below the mail server's own limit.
    pub connections_per_account: usize,
    /// The time for which an idle connection is kept, in seconds.
    #[serde(deserialize_with = "seconds")]
    pub idle_timeout: Duration,
    /// `host:port` of Dovecot's doveadm API (HTTP, without TLS), which ends the open sessions of revoked credentials. If empty, the service does
    /// not end these sessions.
    pub doveadm: String,
    /// The file with the key of the doveadm API. Its bytes are used unchanged, as Dovecot reads them.
    pub doveadm_key_file: PathBuf,
}

impl Default for Imap {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:143".into(),
            tls: false,
            insecure: false,
            timeout: Duration::from_secs(15),
            connections_per_account: 8,
            idle_timeout: Duration::from_mins(4),
            doveadm: String::new(),
            doveadm_key_file: PathBuf::new(),
        }
    }
}

/// `[smtp]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Smtp {
    /// `host:port` of the submission service.
    pub address: String,
    /// TLS from the first byte (RFC 8314).
    pub tls: bool,
    /// Whether an unencrypted connection to another machine is allowed.
    pub insecure: bool,
    /// The timeout of connecting and of one command, in seconds.
    #[serde(deserialize_with = "seconds")]
    pub timeout: Duration,
    /// The maximum number of connections of one account.
    pub connections_per_account: usize,
    /// The time for which an idle connection is kept, in seconds. It must be less than the submission service's timeout for a command.
    #[serde(deserialize_with = "seconds")]
    pub idle_timeout: Duration,
}

impl Default for Smtp {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:587".into(),
            tls: false,
            insecure: false,
            timeout: Duration::from_secs(15),
            connections_per_account: 4,
            idle_timeout: Duration::from_mins(1),
        }
    }
}

/// `[registration]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Registration {
    /// Whether clients can register accounts.
    pub enabled: bool,
    /// The platform's own domains. The first one completes a user name without a domain.
    #[serde(deserialize_with = "list")]
    pub domains: Vec<String>,
}

impl Default for Registration {
    fn default() -> Self {
        Self {
            enabled: true,
            domains: Vec::new(),
        }
    }
}

/// `[audit]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Audit {
    /// The number of days after which a security event is deleted.
    pub days: u32,
}

impl Default for Audit {
    fn default() -> Self {
        Self { days: 400 }
    }
}

/// `[dkim]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dkim {
    /// Whether a milter of the mail server receives the keys, for mail that mail clients submit.
    pub milter: bool,
    /// The keys of the platform's own domains. The names of the sections have no meaning.
    pub keys: BTreeMap<String, DkimKey>,
}

/// `[dkim.keys.<name>]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DkimKey {
    /// The domain that signs with the key. A domain has one key.
    pub domain: String,
    /// The selector. The key is published as `<selector>._domainkey.<domain>`.
    pub selector: String,
    /// The file of the private RSA key in PEM (PKCS #8 or PKCS #1). Other users must not be able to read it.
    pub key_file: PathBuf,
}

/// `[mcp]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mcp {
    /// Whether agents may send mail.
    pub send_tool: bool,
}

/// `[limits]`: requests per minute, by bucket (specification, section 8).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each is the bucket of the same name")]
pub struct Limits {
    pub mail: u32,
    pub search: u32,
    pub aliases: u32,
    pub profile: u32,
    pub tokens: u32,
    pub app_passwords: u32,
    pub sign_in: u32,
    pub sign_in_address: u32,
    pub unproven: u32,
    pub registration: u32,
    pub password_change: u32,
    pub domains_read: u32,
    pub domains_write: u32,
    pub mcp: u32,
    pub teams: u32,
    pub modules: u32,
    pub public: u32,
    pub readiness: u32,
    pub session: u32,
    pub oauth: u32,
    pub admin: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            mail: 60,
            search: 20,
            aliases: 30,
            profile: 30,
            tokens: 30,
            app_passwords: 30,
            sign_in: 5,
            sign_in_address: 5,
            unproven: 300,
            registration: 3,
            password_change: 5,
            domains_read: 30,
            domains_write: 10,
            mcp: 120,
            teams: 30,
            modules: 60,
            public: 30,
            readiness: 60,
            session: 30,
            oauth: 30,
            admin: 60,
        }
    }
}

/// `[admin]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// The Unix socket for `latchmail module …`. Only its owner can use it. If empty, there is no socket.
    pub socket: PathBuf,
    /// The number of versions that are kept of each module in addition to the serving one.
    pub versions: u32,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            socket: "latchmail.sock".into(),
            versions: 10,
        }
    }
}

/// The action for a module whose requests mostly fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Breaker {
    /// Log the problem. The module continues to serve.
    #[default]
    Report,
    /// Roll back to the previous version.
    RollBack,
}

/// `[modules.<name>]`: the file and the policy of a module.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// The file of the component. It is installed at the first start, and again at each start after the file changed. If `None`, the module is
    /// installed while the service runs.
    pub source: Option<PathBuf>,
    /// The names of the interfaces of `latchmail:host` that the module may import: `["caller", "mailbox"]`. `blobs`, `log` and `config` need no
    /// grant.
    #[serde(default, deserialize_with = "list")]
    pub grants: Vec<String>,
    /// The allowed path prefixes of its routes.
    #[serde(default = "default_paths", deserialize_with = "list")]
    pub paths: Vec<String>,
    /// The memory of one sandbox, in MiB.
    #[serde(default = "default_memory")]
    pub memory: u32,
    /// The CPU time of one call, in seconds.
    #[serde(default = "default_cpu", deserialize_with = "seconds")]
    pub cpu: Duration,
    /// The maximum number of host calls of one call. Growing the memory counts as a host call.
    #[serde(default = "default_host_calls")]
    pub host_calls: u32,
    /// The maximum size of a response body that is not a blob, in MiB.
    #[serde(default = "default_response")]
    pub response: u32,
    /// Whether responses may have content that a browser runs: HTML, JavaScript, SVG and other XML.
    #[serde(default)]
    pub active_content: bool,
    /// The maximum wall-clock time of a call, in seconds. A route can set a shorter one.
    #[serde(default = "default_deadline", deserialize_with = "seconds")]
    pub deadline: Duration,
    /// The maximum number of sandboxes of this module.
    #[serde(default = "default_concurrency")]
    pub concurrency: u32,
    /// Whether an instance serves several requests, one after the other.
    #[serde(default)]
    pub reuse: bool,
    /// The action if most of its requests fail.
    #[serde(default)]
    pub breaker: Breaker,
    /// A public GET route of the module, without named segments. A new version serves only if this route returns a status below 500. If empty, no
    /// route is called.
    #[serde(default)]
    pub probe: String,
    /// The maximum size of the data in `store` for one account, in KiB.
    #[serde(default = "default_store")]
    pub store: u32,
    /// The hosts that the module may connect to through `http-client`: `api.example.com`, `*.example.com:8443`, `http://127.0.0.1:8080`. Also the
    /// networks outside the public internet that these hosts may be in: `10.0.0.0/8`.
    #[serde(default, deserialize_with = "list")]
    pub hosts: Vec<String>,
    /// The module's own settings, which it reads through `config`.
    #[serde(default)]
    pub config: BTreeMap<String, String>,
}

/// `[plans.<name>]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// The maximum number of custom domains of an account.
    pub custom_domains: u32,
    /// The maximum number of members of an account's mailbox.
    pub guests: u32,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            custom_domains: 5,
            guests: 5,
        }
    }
}

impl Config {
    /// Reads `file`, if given, and the environment of the process. The environment takes precedence.
    ///
    /// # Errors
    /// A sentence that names the file or the key, and the problem.
    pub fn load(file: Option<&Path>) -> Result<Self, StartError> {
        let text = match file {
            Some(path) => std::fs::read_to_string(path).map_err(|e| {
                StartError::new(format!(
                    "cannot read the configuration {}: {e}",
                    path.display()
                ))
            })?,
            None => String::new(),
        };
        let named = file.map_or_else(|| "environment".into(), |p| p.display().to_string());
        let mut config = Self::parse(&text, &named, environment())?;
        config.file = file.map(Path::to_path_buf);
        Ok(config)
    }

    /// Reads a configuration from a text and an environment. `name` identifies the text in errors.
    ///
    /// # Errors
    /// A sentence that names the key and the problem.
    pub fn parse(
        text: &str,
        name: &str,
        environment: std::collections::HashMap<String, String>,
    ) -> Result<Self, StartError> {
        let environment = environment
            .into_iter()
            .filter(|(key, _)| {
                !NOT_CONFIGURATION.contains(&key.as_str()) && !key.starts_with(OF_THE_TESTS)
            })
            .collect::<std::collections::HashMap<_, _>>();
        let variables = Environment::with_prefix("LATCHMAIL")
            .prefix_separator("_")
            .separator("__")
            .ignore_empty(true)
            .source(Some(environment));
        let config: Self = config::Config::builder()
            .add_source(File::from_str(text, FileFormat::Toml))
            .add_source(variables)
            .build()
            .and_then(config::Config::try_deserialize)
            .map_err(|e| StartError::new(format!("the configuration ({name}) is invalid: {e}")))?;
        config.checked()
    }

    /// Returns the URL of the service for clients, without a trailing slash.
    #[must_use]
    pub fn base_url(&self) -> String {
        if self.base_url.is_empty() {
            format!("http://{}", self.listen)
        } else {
            self.base_url.clone()
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

    /// Adds settings of the service to those of the agents' module, unless the operator set them there: the name of the service, the web origins
    /// whose pages may call, and whether agents can send mail.
    pub fn tell_agents_module(&mut self) {
        let own = std::iter::once(self.base_url());
        let origins: Vec<String> = own.chain(self.cors_origins.iter().cloned()).collect();
        let settings = [
            ("service_name", self.service_name.clone()),
            ("origins", origins.join(" ")),
            ("send_tool", self.mcp.send_tool.to_string()),
        ];
        if let Some(module) = self.modules.get_mut(AGENTS_MODULE) {
            for (key, value) in settings {
                module.config.entry(key.into()).or_insert(value);
            }
        }
    }

    fn checked(mut self) -> Result<Self, StartError> {
        for url in [&mut self.base_url, &mut self.auth_url] {
            if !url.is_empty() {
                *url = origin(url)?;
            }
        }
        for domain in &mut self.registration.domains {
            *domain = folded(domain)?;
        }
        let longest = Duration::from_secs(6);
        if self.dns.timeout > longest {
            return Err(StartError::new(
                "`dns.timeout` must be at most 6 seconds: several look-ups may follow one another in a request",
            ));
        }
        if self.dns.mail_host.is_empty() {
            let first = self.registration.domains.first();
            self.dns.mail_host =
                first.map_or_else(|| "mail.invalid".into(), |domain| format!("mail.{domain}"));
        }
        self.database.with_milter = self.dkim.milter;
        self.inbound.check()?;
        plaintext::check(&self)?;
        Ok(self)
    }
}

/// Returns the origin of a URL as browsers write it: without a path and without the default port, in lower case and in ASCII.
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

/// Returns the canonical form of a domain: lower case, ASCII (RFC 5890), without the last dot.
fn folded(domain: &str) -> Result<String, StartError> {
    let bare = domain.trim();
    address::fold_domain(bare.strip_suffix('.').unwrap_or(bare)).ok_or_else(|| {
        StartError::new(format!(
            "`registration.domains` contains `{domain}`, which is not a domain"
        ))
    })
}

/// Returns the environment of the process. Variables that are not Unicode cannot be configuration and are omitted.
#[must_use]
pub fn environment() -> std::collections::HashMap<String, String> {
    std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    Duration::try_from_secs_f64(seconds).map_err(D::Error::custom)
}

/// Reads a list of strings. In the environment, a list is one string with elements separated by commas.
fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct List;

    impl<'de> Visitor<'de> for List {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of strings")
        }

        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            let elements = text.split(',').map(str::trim);
            Ok(elements
                .filter(|element| !element.is_empty())
                .map(ToOwned::to_owned)
                .collect())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(elements))
        }
    }

    deserializer.deserialize_any(List)
}

fn default_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 8080))
}

fn default_service_name() -> String {
    "Latchmail".into()
}

fn default_key_file() -> PathBuf {
    "latchmail.key".into()
}

fn default_cache_dir() -> PathBuf {
    "latchmail-cache".into()
}

fn default_paths() -> Vec<String> {
    vec!["/api/v1/".into()]
}

fn default_memory() -> u32 {
    64
}

fn default_cpu() -> Duration {
    Duration::from_secs(2)
}

fn default_host_calls() -> u32 {
    10_000
}

fn default_response() -> u32 {
    8
}

fn default_deadline() -> Duration {
    Duration::from_secs(30)
}

fn default_store() -> u32 {
    1024
}

fn default_concurrency() -> u32 {
    64
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn parse(text: &str, environment: &[(&str, &str)]) -> Result<Config, StartError> {
        let environment: HashMap<String, String> = environment
            .iter()
            .map(|(k, v)| ((*k).into(), (*v).into()))
            .collect();
        Config::parse(text, "test", environment)
    }

    #[test]
    fn domains_are_compared_as_the_dns_compares_them() {
        let read = |text: &str| parse(text, &[]);
        let config = read("registration.domains = ['Bücher.example.', ' b.example']").unwrap();
        let folded = ["xn--bcher-kva.example", "b.example"];
        assert_eq!(config.registration.domains, folded);
        assert_eq!(config.dns.mail_host, "mail.xn--bcher-kva.example");
        for text in [
            "registration.domains = ['a..example']",
            "registration.domains = ['ada@b.example']",
            "registration.domains = ['']",
            "dns.timeout = 6.1",
        ] {
            read(text).unwrap_err();
        }
    }

    #[test]
    fn the_services_addresses_are_origins_as_browsers_write_them() {
        for (written, origin) in [
            ("https://Mail.Example.com:443/", "https://mail.example.com"),
            (
                "https://mail.example.com:8443",
                "https://mail.example.com:8443",
            ),
            ("http://127.0.0.1:80", "http://127.0.0.1"),
            ("https://bücher.example", "https://xn--bcher-kva.example"),
        ] {
            let config = parse(&format!("base_url = '{written}'"), &[]).unwrap();
            assert_eq!(config.base_url(), origin);
        }
        for other in [
            "mail.example.com",
            "ftp://mail.example.com",
            "https://mail.example.com/realm",
            "https://user@mail.example.com",
            "https://mail.example.com?x",
            "https://",
        ] {
            for key in ["base_url", "auth_url"] {
                let refused = parse(&format!("{key} = '{other}'"), &[]).unwrap_err();
                assert!(refused.to_string().contains(other), "{refused}");
            }
        }
    }

    #[test]
    fn an_empty_configuration_has_the_limits_of_the_specification() {
        let config = parse("", &[]).unwrap();
        assert_eq!(config.limits.mail, 60);
        assert_eq!(config.base_url(), "http://127.0.0.1:8080");
        assert_eq!(config.auth_url(), config.base_url());
    }

    #[test]
    fn the_environment_goes_over_the_file() {
        let config = parse(
            "base_url = 'https://a.example/'\n[limits]\nmail = 7\n[modules.mail]\nsource = 'm.wasm'",
            &[
                ("LATCHMAIL_LIMITS__MAIL", "9"),
                ("LATCHMAIL_LISTEN", "127.0.0.1:1"),
                ("LATCHMAIL_REGISTRATION__DOMAINS", "A.example,b.example"),
                ("LATCHMAIL_STATE", "elsewhere"),
                ("LATCHMAIL_CONFIG", "elsewhere/latchmail.toml"),
                ("LATCHMAIL_MODULES__MAIL__DEADLINE", "1.5"),
                ("LATCHMAIL_MODULES__MAIL__GRANTS", "caller,mailbox"),
                ("LATCHMAIL_MODULES__MAIL__HOSTS", "a.example,10.0.0.0/8"),
                ("LATCHMAIL_DKIM__MILTER", "true"),
                ("LATCHMAIL_DKIM__KEYS__MAIN__DOMAIN", "a.example"),
                ("LATCHMAIL_DKIM__KEYS__MAIN__SELECTOR", "2026"),
                ("LATCHMAIL_DKIM__KEYS__MAIN__KEY_FILE", "/k.pem"),
                ("LATCHMAIL_OAUTH__INTROSPECTION__URL", "https://id.example/i"),
                ("LATCHMAIL_OAUTH__INTROSPECTION__AUDIENCE", "a,b"),
                ("LATCHMAIL_OAUTH__INTROSPECTION__TIMEOUT", "1.5"),
            ],
        )
        .unwrap();
        assert_eq!(config.limits.mail, 9);
        assert_eq!(config.listen.port(), 1);
        assert_eq!(config.base_url(), "https://a.example");
        assert_eq!(config.registration.domains, ["a.example", "b.example"]);
        assert_eq!(config.modules["mail"].deadline, Duration::from_millis(1500));
        assert_eq!(config.modules["mail"].grants, ["caller", "mailbox"]);
        assert_eq!(config.modules["mail"].hosts, ["a.example", "10.0.0.0/8"]);
        assert!(config.dkim.milter && config.database.with_milter);
        assert_eq!(config.dkim.keys["main"].domain, "a.example");
        assert_eq!(config.dkim.keys["main"].selector, "2026");
        let introspection = config.oauth.introspection.unwrap();
        assert_eq!(introspection.url, "https://id.example/i");
        assert_eq!(introspection.audience, ["a", "b"]);
        assert_eq!(introspection.timeout, Duration::from_millis(1500));
        assert_eq!(introspection.username_claim, "username");
    }

    #[test]
    fn every_list_can_be_set_in_the_environment() {
        let lists = [
            "CORS_ORIGINS",
            "HTTP__TRUSTED_PROXIES",
            "INBOUND__LIST_SERVERS",
            "OAUTH__CLIENT_HOSTS",
            "OAUTH__INTROSPECTION__AUDIENCE",
            "REGISTRATION__DOMAINS",
            "MODULES__MAIL__GRANTS",
            "MODULES__MAIL__HOSTS",
            "MODULES__MAIL__PATHS",
            "NEW_MODULES__GRANTS",
            "NEW_MODULES__HOSTS",
            "NEW_MODULES__PATHS",
        ];
        let written = lists.map(|list| (format!("LATCHMAIL_{list}"), "a.example, 10"));
        let environment: Vec<_> = written.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        let config = parse("", &environment).unwrap();
        let module = &config.modules["mail"];
        let new = config.new_modules.as_ref().unwrap();
        let introspection = config.oauth.introspection.as_ref().unwrap();
        for list in [
            &config.cors_origins,
            &config.http.trusted_proxies,
            &config.inbound.list_servers,
            &config.oauth.client_hosts,
            &introspection.audience,
            &config.registration.domains,
            &module.grants,
            &module.hosts,
            &module.paths,
            &new.grants,
            &new.hosts,
            &new.paths,
        ] {
            assert_eq!(list, &["a.example", "10"]);
        }
    }

    #[test]
    fn text_in_the_environment_is_kept_as_it_is_written() {
        let config = parse("", &[("LATCHMAIL_MODULES__MAIL__CONFIG__PIN", "007")]).unwrap();
        assert_eq!(config.modules["mail"].config["pin"], "007");
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        let error = parse("[limits]\nmial = 7", &[]).unwrap_err().to_string();
        assert!(error.contains("mial"), "{error}");
        let error = parse("", &[("LATCHMAIL_LISTN", "x")])
            .unwrap_err()
            .to_string();
        assert!(error.contains("listn"), "{error}");
    }
}
