//! Runs the measured service: private mail servers, and the host as a separate process.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use latchmail_core::clock::Clock;
use latchmail_core::config::{BUILT_IN, Database};
use latchmail_mailserver::{LocalServers, Lookup};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{http, imap, smtp};

/// Address of the measured account.
pub(crate) const ADDRESS: &str = "ada@bench.test";
const DOMAIN: &str = "bench.test";
/// The name of the measured account.
const MEASURED: &str = "ada";
pub(crate) const PASSWORD: &str = "Correct-Horse-7";

/// A running service.
pub(crate) struct Service {
    http: SocketAddr,
    stack: LocalServers,
    host: Host,
    measured: Account,
    folder: TempDir,
}

/// An account with its credentials for the service and for the mail servers.
#[derive(Default)]
pub(crate) struct Account {
    pub(crate) address: String,
    pub(crate) token: String,
    app_password: String,
}

/// The host's process, which is killed on drop.
pub(crate) struct Host(pub(crate) Child);

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the configuration of a built-in module, as TOML.
pub(crate) fn built_in(modules: &Path, name: &str) -> String {
    let module = BUILT_IN.iter().find(|module| module.name == name);
    let module = module.expect("the name of a built-in module");
    format!(
        "[modules.{name}]\nsource = '{}'\ngrants = {:?}\npaths = {:?}\n",
        modules.join(module.file_name()).display(),
        module.grants,
        module.paths
    )
}

impl Service {
    /// Starts the service without accounts.
    pub(crate) async fn start(
        host: &Path,
        modules: &Path,
        fixtures: &Path,
    ) -> anyhow::Result<Self> {
        let more_modules = format!(
            "[modules.hostile]\nsource = '{}/fixture_hostile.wasm'\ngrants = ['caller']\npaths = ['/hostile/']\ncpu = 0.1\n\
             {}",
            fixtures.display(),
            built_in(modules, "mcp")
        );
        Self::start_with(&mut Command::new(host), modules, &more_modules).await
    }

    /// Starts the service for [`crate::api`], and creates the measured account. Creates its app
    /// password with the API, because the database of another commit can have another schema.
    /// `host` runs the program without arguments.
    pub(crate) async fn start_for_api(host: &mut Command, modules: &Path) -> anyhow::Result<Self> {
        let credentials = built_in(modules, "credentials");
        let mut service = Self::start_with(host, modules, &credentials).await?;
        let token = service.register(MEASURED)?;
        let response = service
            .http_of(&token)?
            .post("/api/v1/app-passwords", r#"{"label":"bench"}"#)?;
        anyhow::ensure!(
            response.status == 201,
            "createAppPassword failed with status {}",
            response.status
        );
        let created: Value = serde_json::from_slice(&response.body)?;
        let app_password = created["password"]
            .as_str()
            .context("the response has no password")?;
        service.measured = Account {
            address: ADDRESS.into(),
            token,
            app_password: app_password.into(),
        };
        Ok(service)
    }

    /// Starts `program` with these variables, the mail module and the modules in `more_modules`.
    /// The host finds the compiled modules in `cache`: an earlier start compiles them, because the
    /// compiler needs much more memory than the measured objects, and the allocator would keep a
    /// part of it.
    pub(crate) async fn start_compiled(
        program: &Path,
        variables: &[(&str, String)],
        modules: &Path,
        more_modules: &str,
        cache: &Path,
    ) -> anyhow::Result<Self> {
        let start = async || {
            let mut host = Command::new(program);
            host.envs(variables.iter().cloned())
                .env("LATCHMAIL_CACHE_DIR", cache);
            Self::start_with(&mut host, modules, more_modules).await
        };
        start().await?.stop().await;
        start().await
    }

    /// Starts the service with the mail module. `more` are further sections of the configuration.
    pub(crate) async fn start_with(
        host: &mut Command,
        modules: &Path,
        more: &str,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("lm-bench")
            .tempdir_in("/tmp")?;
        let state = folder.path();
        let mailserver = state.join("mailserver/mailserver.db");
        fs::create_dir_all(state.join("mailserver"))?;
        let stack = LocalServers::start(&state.join("mail"), &Lookup::Sqlite(mailserver)).await?;
        // The port is free. No other program allocates loopback ports of this machine during a run.
        let http = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let limits: String = [
            "mail",
            "search",
            "profile",
            "sign_in",
            "registration",
            "public",
            "session",
            "oauth",
            "mcp",
        ]
        .map(|bucket| format!("{bucket} = 1000000\n"))
        .concat();
        let config = state.join("latchmail.toml");
        fs::write(
            &config,
            format!(
                "listen = '{http}'\nbase_url = 'http://bench.test'\nkey_file = '{state}/key'\ncache_dir = '{state}/cache'\n\
                 [database]\nurl = 'sqlite:{state}/latchmail.db'\nmailserver = '{state}/mailserver/mailserver.db'\n\
                 [imap]\naddress = '{imap}'\n[smtp]\naddress = '{smtp}'\n[registration]\ndomains = ['bench.test']\n\
                 [http]\nconnections_per_client = 1000\n[admin]\nsocket = '{state}/operator.sock'\n[log]\nfilter = 'warn,module=off,latchmail_http::response=off'\n\
                 {mail}{more}\
                 [limits]\n{limits}",
                state = state.display(),
                imap = stack.imap,
                smtp = stack.submission,
                mail = built_in(modules, "mail"),
            ),
        )?;
        let host = host
            .arg("serve")
            .arg("--config")
            .arg(&config)
            // The script that starts the servers lets the C library keep freed memory, which an
            // installed service does not do.
            .env_remove("GLIBC_TUNABLES")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start the host")?;
        let mut service = Self {
            http,
            stack,
            host: Host(host),
            measured: Account::default(),
            folder,
        };
        wait_until_ready(&mut service.host, service.http)?;
        Ok(service)
    }

    /// Creates the measured account.
    pub(crate) async fn create_measured_account(&mut self) -> anyhow::Result<()> {
        self.measured = self.create_account(MEASURED).await?;
        Ok(())
    }

    /// Signs the measured account in again. An access token is valid for 15 minutes, which is
    /// shorter than a complete run.
    pub(crate) fn renew_session(&mut self) -> anyhow::Result<()> {
        let mut client = http::Client::connect(self.http, "")?;
        self.measured.token = Tokens::sign_in(&mut client, MEASURED)?.access;
        Ok(())
    }

    /// Returns the measured account.
    pub(crate) fn measured(&self) -> &Account {
        &self.measured
    }

    /// Creates an account, and its credentials for the service and for the mail servers.
    pub(crate) async fn create_account(&self, name: &str) -> anyhow::Result<Account> {
        let token = self.register(name)?;
        let address = address_of(name);
        let folder = self.folder.path();
        let database = Database {
            url: format!("sqlite:{}/latchmail.db", folder.display()),
            mailserver: folder.join("mailserver/mailserver.db"),
            ..Database::default()
        };
        let now = Clock::system().now();
        let app_password = latchmail_tests::app_password(&database, &address, now).await;
        Ok(Account {
            address,
            token,
            app_password,
        })
    }

    /// Registers an account and returns its access token.
    pub(crate) fn register(&self, name: &str) -> anyhow::Result<String> {
        register(self.http, name)
    }

    /// Returns a connection to the host for the measured account.
    pub(crate) fn http(&self) -> anyhow::Result<http::Client> {
        self.http_of(&self.measured.token)
    }

    /// Returns a connection to the host for the account of `token`.
    pub(crate) fn http_of(&self, token: &str) -> anyhow::Result<http::Client> {
        http::Client::connect(self.http, token)
    }

    /// Returns a connection to the operator's socket.
    pub(crate) fn operator(&self) -> anyhow::Result<http::Client<UnixStream>> {
        http::Client::operator(&self.folder.path().join("operator.sock"))
    }

    /// Returns the address of the host.
    pub(crate) fn address(&self) -> SocketAddr {
        self.http
    }

    /// Returns a connection to the mail server for the measured account.
    pub(crate) fn imap(&self) -> anyhow::Result<imap::Client> {
        self.imap_of(&self.measured)
    }

    /// Returns a connection to the mail server for an account.
    pub(crate) fn imap_of(&self, account: &Account) -> anyhow::Result<imap::Client> {
        imap::Client::connect(self.stack.imap, &account.address, &account.app_password)
    }

    /// Returns a connection to the submission port for an account.
    pub(crate) fn smtp_of(&self, account: &Account) -> anyhow::Result<smtp::Client> {
        smtp::Client::connect(
            self.stack.submission,
            &account.address,
            &account.app_password,
        )
    }

    /// Returns the folder of the search indexes.
    pub(crate) fn index_folder(&self) -> PathBuf {
        self.folder.path().join("cache/index")
    }

    /// Returns the id of the host's process.
    pub(crate) fn pid(&self) -> u32 {
        self.host.0.id()
    }

    /// Stops the service.
    pub(crate) async fn stop(self) {
        drop(self.host);
        if let Err(error) = self.stack.stop().await {
            eprintln!("{error:#}");
        }
    }
}

/// Registers an account at a host and returns its access token.
pub(crate) fn register(host: SocketAddr, name: &str) -> anyhow::Result<String> {
    let person = json!({
        "local_part": name, "domain": DOMAIN, "password": PASSWORD,
        "first_name": "Ada", "last_name": "Lovelace", "dob": "1990-12-10",
    });
    let mut client = http::Client::connect(host, "")?;
    let response = client.post("/api/v1/auth/register", &person.to_string())?;
    anyhow::ensure!(
        response.status == 201,
        "the registration failed with status {}",
        response.status
    );
    Ok(Tokens::parse(&response.body)?.access)
}

/// Returns the address of a registered account.
pub(crate) fn address_of(name: &str) -> String {
    format!("{name}@{DOMAIN}")
}

/// The tokens of a session.
pub(crate) struct Tokens {
    pub(crate) access: String,
    pub(crate) refresh: String,
}

impl Tokens {
    /// Signs in to a registered account.
    pub(crate) fn sign_in(client: &mut http::Client, name: &str) -> anyhow::Result<Self> {
        let credentials = json!({ "email": address_of(name), "password": PASSWORD });
        Self::parse(&client.post_ok("/api/v1/auth/login", &credentials.to_string())?)
    }

    /// Exchanges the refresh token for new tokens.
    pub(crate) fn refresh(&self, client: &mut http::Client) -> anyhow::Result<Self> {
        let body = json!({ "refreshToken": self.refresh });
        Self::parse(&client.post_ok("/api/v1/auth/refresh", &body.to_string())?)
    }

    /// Reads the tokens in a response.
    fn parse(body: &[u8]) -> anyhow::Result<Self> {
        let tokens: Value = serde_json::from_slice(body)?;
        let [access, refresh] = ["accessToken", "refreshToken"].map(|key| {
            let token = tokens[key].as_str().map(str::to_owned);
            token.with_context(|| format!("the response has no {key}"))
        });
        Ok(Self {
            access: access?,
            refresh: refresh?,
        })
    }
}

/// Waits until the service accepts connections. Fails after one minute, or if the host exits.
pub(crate) fn wait_until_ready(host: &mut Host, address: SocketAddr) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        match http::Client::connect(address, "") {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => {}
        }
        if let Some(status) = host.0.try_wait()? {
            anyhow::bail!("the host exited: {status}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
