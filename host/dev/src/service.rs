//! `latchmail dev`: the mail servers and the service on one machine, with a demo account, everything under one folder.

use std::collections::HashMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use latchmail_core::clock::Clock;
use latchmail_core::config::{Config, LocalFrom, STATE_FILE};
use latchmail_core::logging;
use latchmail_directory::Directory;
use latchmail_mailserver::{LocalServers, Lookup, MilterOptions};
use latchmail_service::Running;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::demo;
use super::demo::Demo;
use super::settings::{self, Servers};
use super::state::{self, RunFile};
use super::watch::Watch;

/// The options from the command line and the environment.
#[derive(Clone, Debug)]
pub struct Options {
    /// `postgres://…`, if the directory is not an SQLite file in the state folder.
    pub database: Option<String>,
    /// The folder of the built modules. The default is `$LATCHMAIL_MODULES`, otherwise the build's own folder.
    pub modules: Option<PathBuf>,
    /// Folders of modules that are rebuilt and swapped when their sources change. Each is a crate or contains crates.
    pub watch: Vec<PathBuf>,
    /// The process's environment.
    pub environment: HashMap<String, String>,
}

/// The running parts.
struct Service {
    stack: LocalServers,
    running: Running,
    run_file: RunFile,
    demo: Demo,
}

/// Runs until SIGINT or SIGTERM, then ends everything that it started.
///
/// # Errors
/// One sentence that says what failed and, if known, how to correct it.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let state = state::folder(&options.environment)?;
    let _lock = state::lock(&state)?;
    state::forget_run(&state);
    let started = async {
        let mut watch = Watch::new(&options.watch).await?;
        let service = Service::start(&options, &state).await?;
        watch.begin(&service.running.app).await?;
        Ok::<_, anyhow::Error>((service, watch))
    };
    let (service, watch) = tokio::select! {
        started = started => started?,
        // Dropping the started parts ends them.
        () = either(&mut interrupt, &mut terminate) => return Ok(()),
    };
    let told = service.tell(&mut std::io::stdout());
    if told.is_ok() {
        tokio::select! {
            () = either(&mut interrupt, &mut terminate) => {}
            () = watch.run(Arc::clone(&service.running.app)) => {}
        }
    }
    service.stop().await?;
    told.context("cannot write to the standard output")
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

impl Service {
    async fn start(options: &Options, state: &Path) -> anyhow::Result<Self> {
        let modules = modules(options)?;
        let mail = state::mail_folder(state)?;
        let text = |database: Option<&str>, servers: Option<&Servers>| {
            settings::text(state, &mail, &modules, database, servers)
        };
        let read = |servers: Option<&Servers>| {
            Config::parse(
                &text(options.database.as_deref(), servers),
                "the development settings",
                options.environment.clone(),
            )
        };
        let config = read(None)?;
        logging::start(&config.log)?;
        let listen = free(&config)?;
        let database = config.database();
        let lookup = if database.url.starts_with("sqlite:") {
            Lookup::Sqlite(database.mailserver.clone())
        } else {
            // This must happen before the daemons connect: a log-in with a role that does not exist yet makes them wait for seconds.
            let directory = Directory::open(&database, &config.registration.domains).await?;
            directory.close().await;
            Lookup::Postgres(database.url.clone())
        };
        let stack = LocalServers::start_with_milter(&mail, &lookup, &milter(&config)?).await?;
        let servers = Servers {
            imap: stack.imap,
            submission: stack.submission,
            doveadm: stack.doveadm,
            doveadm_key: stack.doveadm_key.clone(),
        };
        let mut config = read(Some(&servers))?;
        config.listen.set_port(listen);
        let kept = settings::kept(config.listen, &text(Some(&database.url), Some(&servers)));
        state::keep_settings(state, &kept)?;
        config.file = Some(state.join(STATE_FILE));
        let (base_url, auth_url) = (config.base_url(), config.auth_url());
        let running = latchmail_service::start(config, Clock::system()).await?;
        let demo = demo::account(&running.app.auth, state).await?;
        let run_file = RunFile::write(state, &base_url, &auth_url, &stack, &demo, &modules)?;
        Ok(Self {
            stack,
            running,
            run_file,
            demo,
        })
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.run_file.remove();
        self.running.stop().await;
        self.stack.stop().await
    }

    /// Returns example commands that can be pasted.
    fn tell(&self, out: &mut impl std::io::Write) -> std::io::Result<()> {
        let (base, stack) = (&self.run_file.base_url, &self.stack);
        let Demo { email, password } = &self.demo;
        writeln!(
            out,
            "
Latchmail is at {base} (IMAP {imap}, submission {submission}, SMTP {smtp}).
The demo account is {email}, its password {password}

Send it a mail, sign in, and read:

  printf 'From: Ann <ann@example.org>\\nTo: {email}\\nSubject: Hello\\n\\nA first mail.\\n' |
    curl -sS smtp://{smtp} --mail-from ann@example.org --mail-rcpt {email} --crlf -T -
  TOKEN=$(curl -sS {base}/api/v1/auth/login -H 'Content-Type: application/json' \\
    -d '{{\"email\":\"{email}\",\"password\":\"{password}\"}}' | sed 's/.*\"accessToken\":\"\\([^\"]*\\)\".*/\\1/')
  curl -sS {base}/api/v1/mail/folders -H \"Authorization: Bearer $TOKEN\"
  curl -sS {base}/api/v1/mail/folders/INBOX/messages -H \"Authorization: Bearer $TOKEN\"

What it sends to the world stays in {sink}; the mail servers' logs are in {log}.
Ctrl-C ends everything.",
            imap = stack.imap,
            submission = stack.submission,
            smtp = stack.smtp,
            sink = stack.sink.display(),
            log = stack.log.display(),
        )?;
        out.flush()
    }
}

/// Returns the options for the milter. The milter uses the DNS only if a DNS server is configured, because a developer's machine can be offline.
fn milter(config: &Config) -> anyhow::Result<MilterOptions> {
    let inbound = &config.inbound;
    let mut settings = format!(
        "inbound.authserv_id = {}\ninbound.local_from = \"{}\"\ninbound.list_servers = {}\n",
        settings::quoted(&inbound.authserv_id),
        match inbound.local_from {
            LocalFrom::Reject => "reject",
            LocalFrom::Mark => "mark",
        },
        serde_json::json!(inbound.list_servers),
    );
    let dns = !config.dns.server.is_empty();
    if dns {
        settings += "dns.server = ";
        settings += &settings::quoted(&config.dns.server);
        settings += "\n";
    }
    Ok(MilterOptions {
        program: std::env::current_exe()?,
        settings,
        dns,
        ready_text: latchmail_milter::READY,
    })
}

/// Returns the folder of the built modules.
fn modules(options: &Options) -> anyhow::Result<PathBuf> {
    let named = options.modules.clone().or_else(|| {
        let value = options.environment.get("LATCHMAIL_MODULES")?;
        (!value.is_empty()).then(|| PathBuf::from(value))
    });
    // The program is <target>/debug/latchmail, next to <target>/modules.
    let folder = match named {
        Some(folder) => folder,
        None => std::env::current_exe()?
            .ancestors()
            .nth(2)
            .context("this program is in no folder")?
            .join("modules"),
    };
    for module in settings::MODULES {
        let module = folder.join(module);
        if !module.is_file() {
            bail!(
                "there is no module {}; ./just modules builds it",
                module.display()
            );
        }
    }
    Ok(std::path::absolute(folder)?)
}

/// Returns the port to listen on: the configured one if it is free, or any free port if it is 0.
fn free(config: &Config) -> anyhow::Result<u16> {
    let listener = TcpListener::bind(config.listen).map_err(|error| {
        anyhow!(
            "cannot listen on {}: {error}; LATCHMAIL_LISTEN=127.0.0.1:0 takes any free port",
            config.listen
        )
    })?;
    Ok(listener.local_addr()?.port())
}
