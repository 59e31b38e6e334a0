//! Starts and stops the service and its mail servers on one machine, and creates a demo account.
//! All files are in the state folder.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use latchmail_core::clock::Clock;
use latchmail_core::config::{BUILT_IN, Config, EmbeddedModule, LocalFrom, STATE_FILE};
use latchmail_core::logging;
use latchmail_directory::Directory;
use latchmail_mailserver::{LocalServers, Lookup, MilterOptions};
use latchmail_service::Running;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::demo::{self, DemoAccount, DevAdministrator};
use crate::run_file::RunFile;
use crate::settings::{self, MailServers};
use crate::state;
use crate::watch::{self, Watcher};

/// The options from the command line and the environment.
#[derive(Clone, Debug)]
pub struct Options {
    /// The URL of a PostgreSQL database (`postgres://…`). The default is an SQLite file in the
    /// state folder.
    pub database: Option<String>,
    /// The folder of the built modules. The default is `$LATCHMAIL_MODULES`. If the variable is not
    /// set, the default is the modules in the program, or the folder `modules` next to the
    /// program's folder if the program contains no modules.
    pub modules: Option<PathBuf>,
    /// The modules in the program.
    pub embedded: &'static [EmbeddedModule],
    /// Folders with the sources of modules ([`Project::find`](crate::Project::find)). When a source
    /// changes, the modules are rebuilt and installed.
    pub watch: Vec<PathBuf>,
    /// The environment variables of the process.
    pub environment: HashMap<String, String>,
}

/// The running service and its mail servers.
pub(crate) struct Service {
    stack: LocalServers,
    pub(crate) running: Running,
    pub(crate) run_file: RunFile,
    demo: DemoAccount,
    administrator: DevAdministrator,
}

/// Runs the service and its mail servers until the process receives SIGINT or SIGTERM. Then stops
/// the service and its mail servers.
///
/// # Errors
/// Returns an error if the service or a mail server cannot be started or stopped. The error text is
/// one sentence with the cause and, if known, a solution.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let state = state::create_folder(&options.environment)?;
    let _lock = state::lock(&state)?;
    RunFile::remove_stale(&state);
    let started = async {
        let mut watcher = Watcher::new(&options.watch, true).await?;
        let service = Box::pin(Service::start(&options, &state)).await?;
        service.build_outdated(&mut watcher).await?;
        Ok::<_, anyhow::Error>((service, watcher))
    };
    let (service, watcher) = tokio::select! {
        started = started => started?,
        // When the future `started` is dropped, the servers that were already started end.
        () = wait_for_signal(&mut interrupt, &mut terminate) => return Ok(()),
    };
    let code = service.administrator.code(&service.running.app)?;
    let printed = service.print_examples(&code, &mut std::io::stdout());
    if printed.is_ok() {
        let app = Arc::clone(&service.running.app);
        let install = async |bytes, name| watch::install(&app, bytes, name).await;
        tokio::select! {
            () = wait_for_signal(&mut interrupt, &mut terminate) => {}
            () = watcher.run(install) => {}
        }
    }
    service.stop().await?;
    printed.context("cannot write to standard output")
}

pub(crate) async fn wait_for_signal(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

impl Service {
    pub(crate) async fn start(options: &Options, state: &Path) -> anyhow::Result<Self> {
        let modules = modules_folder(options)?;
        let mail = state::mail_folder(state)?;
        let toml = |database: Option<&str>, servers: Option<&MailServers>| {
            settings::to_toml(state, &mail, modules.as_deref(), database, servers)
        };
        let parse = |servers: Option<&MailServers>| {
            Config::parse(
                &toml(options.database.as_deref(), servers),
                "the development settings",
                options.environment.clone(),
            )
        };
        let config = parse(None)?;
        logging::start(&config.log)?;
        let listen = free_address(&config)?;
        let database = config.database();
        let lookup = if database.url.starts_with("sqlite:") {
            Lookup::Sqlite(database.mailserver.clone())
        } else {
            // Opening the database creates the role of the mail servers. The role must exist before
            // the mail servers start, because a mail server repeats a failed login only after
            // several seconds.
            let directory = Directory::open(&database, &config.registration.domains).await?;
            directory.close().await;
            Lookup::Postgres(database.url.clone())
        };
        let stack = LocalServers::start_with_milter(&mail, &lookup, &milter(&config)?).await?;
        let servers = MailServers {
            imap: stack.imap,
            submission: stack.submission,
            doveadm: stack.doveadm,
            sieve: stack.sieve,
            doveadm_key: stack.doveadm_key.clone(),
            notices: stack.notices,
            notices_url: stack.notices_url.clone(),
        };
        let mut config = parse(Some(&servers))?;
        config.listen = listen.into();
        let file = state.join(STATE_FILE);
        // The operator's commands read this file, even if no service is running. The file therefore
        // stays after the service has stopped.
        let stored = toml(Some(&database.url), Some(&servers));
        state::write_atomically(&file, &settings::with_listen(listen, &stored))?;
        config.file = Some(file);
        if modules.is_none() {
            config = config.with_embedded(options.embedded);
        }
        let (base_url, auth_url) = (config.base_url(), config.auth_url());
        let running = latchmail_service::start(config, Clock::system()).await?;
        let demo = demo::ensure_account(&running.app.auth, state).await?;
        let administrator = demo::ensure_administrator(&running.app, state).await?;
        let page = operator_page(&running);
        let run_file = RunFile::write(
            state,
            &base_url,
            &auth_url,
            &page,
            &stack,
            &demo,
            modules.as_deref(),
        )?;
        Ok(Self {
            stack,
            running,
            run_file,
            demo,
            administrator,
        })
    }

    /// Builds and installs the watched modules that the service does not use yet.
    pub(crate) async fn build_outdated(&self, watcher: &mut Watcher) -> anyhow::Result<()> {
        let app = &self.running.app;
        let serves = |digest: &str| {
            let serving = app.module_manager.serving();
            serving.iter().any(|module| module.digest() == digest)
        };
        let install = async |bytes, name| watch::install(app, bytes, name).await;
        watcher.build_outdated(serves, install).await
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.run_file.remove();
        self.running.stop().await;
        self.stack.stop().await
    }

    /// Prints the URLs, the accounts and example commands. `code` is the current two-factor code of
    /// the administrator.
    fn print_examples(&self, code: &str, out: &mut impl std::io::Write) -> std::io::Result<()> {
        let (base, stack) = (&self.run_file.base_url, &self.stack);
        let DemoAccount { email, password } = &self.demo;
        let administrator = &self.administrator;
        writeln!(
            out,
            "
Latchmail is running at {base} (IMAP {imap}, submission {submission}, SMTP {smtp}).
Demo account: {email}, password: {password}
Documentation of the API: {base}/docs
Operator's page: {page}
Administrator: {admin}, password: {admin_password}, two-factor code now: {code}, secret for further codes: {secret}

Example: send a message to the demo account, sign in and read the message.

  printf 'From: Ann <ann@example.org>\\nTo: {email}\\nSubject: Hello\\n\\nA first mail.\\n' |
    curl -sS smtp://{smtp} --mail-from ann@example.org --mail-rcpt {email} --crlf -T -
  TOKEN=$(curl -sS {base}/api/v1/auth/login -H 'Content-Type: application/json' \\
    -d '{{\"email\":\"{email}\",\"password\":\"{password}\"}}' | sed 's/.*\"accessToken\":\"\\([^\"]*\\)\".*/\\1/')
  curl -sS {base}/api/v1/mail/folders -H \"Authorization: Bearer $TOKEN\"
  curl -sS {base}/api/v1/mail/folders/INBOX/messages -H \"Authorization: Bearer $TOKEN\"

Mail to other domains is not delivered; it is stored in {sink}.
The logs of the mail servers are in {log}.
Press Ctrl-C to stop.",
            page = self.run_file.operator_page,
            admin = administrator.email,
            admin_password = administrator.password,
            secret = administrator.secret,
            imap = stack.imap,
            submission = stack.submission,
            smtp = stack.smtp,
            sink = stack.sink.display(),
            log = stack.log.display(),
        )?;
        out.flush()
    }
}

/// Returns the URL of the operator's page.
fn operator_page(running: &Running) -> String {
    let scheme = if running.app.config.serves_tls() {
        "https"
    } else {
        "http"
    };
    match running.operator_page() {
        Some(address) => format!("{scheme}://{address}/admin"),
        None => String::new(),
    }
}

/// Returns the options of the milter. The milter uses the DNS only if a DNS server is configured,
/// because a developer's machine can be offline.
fn milter(config: &Config) -> anyhow::Result<MilterOptions> {
    let inbound = &config.inbound;
    let mut settings = format!(
        "inbound.authserv_id = {}\ninbound.local_from = \"{}\"\ninbound.list_servers = {}\n",
        settings::toml_string(&inbound.authserv_id),
        match inbound.local_from {
            LocalFrom::Reject => "reject",
            LocalFrom::Mark => "mark",
        },
        serde_json::json!(inbound.list_servers),
    );
    let dns = !config.dns.server.is_empty();
    if dns {
        settings += "dns.server = ";
        settings += &settings::toml_string(&config.dns.server);
        settings += "\n";
    }
    Ok(MilterOptions {
        program: std::env::current_exe()?,
        settings,
        dns,
        ready_text: latchmail_milter::READY,
    })
}

/// Returns the folder of the built modules, or `None` for the modules in the program.
fn modules_folder(options: &Options) -> anyhow::Result<Option<PathBuf>> {
    let configured = options.modules.clone().or_else(|| {
        let value = options.environment.get("LATCHMAIL_MODULES")?;
        (!value.is_empty()).then(|| PathBuf::from(value))
    });
    // The path of the program is <target>/debug/latchmail. The modules are in <target>/modules.
    let folder = match configured {
        Some(folder) => folder,
        None if !options.embedded.is_empty() => return Ok(None),
        None => std::env::current_exe()?
            .ancestors()
            .nth(2)
            .context("the default folder of the modules is unknown; use --modules DIR")?
            .join("modules"),
    };
    for module in BUILT_IN {
        let module = folder.join(module.file_name());
        if !module.is_file() {
            bail!(
                "module {} not found; build it with `./just modules`",
                module.display()
            );
        }
    }
    Ok(Some(std::path::absolute(folder)?))
}

/// Returns the address and the port on which the service will listen. If the configured port is 0,
/// returns any free port. Returns an error if the configured port is in use.
fn free_address(config: &Config) -> anyhow::Result<SocketAddr> {
    let listen = &config.listen;
    let Some(address) = listen.tcp() else {
        bail!(
            "`latchmail dev` cannot listen on {listen}; set LATCHMAIL_LISTEN=127.0.0.1:0 to use any free port"
        );
    };
    let listener = TcpListener::bind(address).map_err(|error| {
        anyhow!("cannot listen on {listen}: {error}; set LATCHMAIL_LISTEN=127.0.0.1:0 to use any free port")
    })?;
    Ok(listener.local_addr()?)
}
