//! The program `latchmail`. Parses the command line, reads the configuration and runs the command.

#[cfg(feature = "embed-modules")]
mod embedded;
mod generated;
mod hardening;
mod reload;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
use clap_complete::Shell;
use latchmail_cli::{
    account, alias, attach, audit, backup, client, doctor, domain, health, key, listen, module,
    restore,
};
use latchmail_core::clock::Clock;
use latchmail_core::config::{self, Config, EmbeddedModule};
use latchmail_core::logging;
use latchmail_milter::Milter;
use latchmail_terminal::database_url;
use rustix::thread::disable_transparent_huge_pages;
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The memory allocator. jemalloc returns freed memory to the operating system. Under load,
/// mimalloc keeps several times the memory of the objects in use, and the allocator of glibc keeps
/// freed memory in a separate arena for each thread.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The modules that the program contains.
#[cfg(feature = "embed-modules")]
const EMBEDDED: &[EmbeddedModule] = &embedded::MODULES;
#[cfg(not(feature = "embed-modules"))]
const EMBEDDED: &[EmbeddedModule] = &[];

/// An HTTP API over real mailboxes.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve until SIGINT or SIGTERM. SIGHUP reloads the configuration.
    Serve {
        #[command(flatten)]
        service: latchmail_cli::ServiceArgs,
    },
    /// Check the senders of mail for Postfix, until SIGINT or SIGTERM. SIGHUP reloads `log.filter`.
    Milter {
        #[command(flatten)]
        service: latchmail_cli::ServiceArgs,
        /// Use no DNS: senders of other servers are not verified.
        #[arg(long)]
        without_dns: bool,
    },
    /// Run the service with its own mail servers on this machine, for development.
    Dev {
        /// The `PostgreSQL` database of the directory, as a URL without a password. Default:
        /// `SQLite` in the state folder.
        #[arg(long, value_name = "postgres://…", conflicts_with = "database_file")]
        database: Option<String>,
        /// File with the URL for `--database`, which can contain a password. `-` reads the URL from
        /// standard input.
        #[arg(long, value_name = "FILE")]
        database_file: Option<PathBuf>,
        /// The folder of the built modules. Default: `$LATCHMAIL_MODULES`, or the modules in the
        /// program, or the folder of the build.
        #[arg(long, value_name = "DIR")]
        modules: Option<PathBuf>,
        /// A folder with the source of modules: a project of `latchmail module new`, a crate, or a
        /// folder of crates. Modules are built and replaced when a file is saved. Can be repeated.
        #[arg(long, value_name = "DIR")]
        watch: Vec<PathBuf>,
    },
    /// Create, show and change accounts.
    Account {
        #[command(flatten)]
        service: latchmail_cli::ServiceArgs,
        #[command(subcommand)]
        command: account::Command,
    },
    /// Import the aliases of an existing mail server.
    Alias {
        #[command(flatten)]
        service: latchmail_cli::ServiceArgs,
        #[command(subcommand)]
        command: alias::Command,
    },
    /// Show and change domains, and reserve addresses.
    Domain {
        #[command(flatten)]
        service: latchmail_cli::ServiceArgs,
        #[command(subcommand)]
        command: domain::Command,
    },
    /// Create, show and remove clients of the authorization server.
    Client {
        #[command(flatten)]
        service: latchmail_cli::ServiceArgs,
        #[command(subcommand)]
        command: client::Command,
    },
    /// Show, rotate and remove the keys of the service.
    Key {
        #[command(flatten)]
        service: latchmail_cli::ServiceArgs,
        #[command(subcommand)]
        command: key::Command,
    },
    /// Install, show and change modules while the service runs, and create new ones.
    Module {
        #[command(flatten)]
        service: latchmail_cli::ServiceArgs,
        #[command(subcommand)]
        command: module::Command,
    },
    /// Check the configuration, the files, the mail servers, the DNS records and the system.
    /// Changes nothing.
    ///
    /// Prints one line for each check: `ok`, `warning` or `failed`, with a remedy. The exit status
    /// is 1 if a check failed.
    Doctor {
        #[command(flatten)]
        service: latchmail_cli::ServiceArgs,
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Back up the database and the configuration to a folder, while the service runs. The key is
    /// not in the folder.
    Backup {
        #[command(flatten)]
        service: latchmail_cli::ServiceArgs,
        #[command(flatten)]
        args: backup::BackupArgs,
    },
    /// Restore a backup to an empty database, while the service is stopped.
    Restore {
        #[command(flatten)]
        service: latchmail_cli::ServiceArgs,
        #[command(flatten)]
        args: restore::RestoreArgs,
    },
    /// Add the service to a running Dovecot and Postfix: accept app passwords there, and let the
    /// mail server's users sign in.
    Attach {
        #[command(flatten)]
        service: latchmail_cli::ServiceArgs,
        #[command(flatten)]
        args: attach::AttachArgs,
    },
    /// Undo `attach`: restore the configuration of Dovecot and Postfix.
    Detach {
        #[command(flatten)]
        service: latchmail_cli::ServiceArgs,
        #[command(flatten)]
        args: attach::DetachArgs,
    },
    /// Check that the service on this machine responds. The exit status is 1 if it does not respond
    /// within five seconds.
    Health {
        #[command(flatten)]
        service: latchmail_cli::ServiceArgs,
    },
    /// Forward the events of an account to a program on this machine, as webhooks do, until SIGINT.
    ///
    /// Reads an API token with the scope `mail:read` from `LATCHMAIL_TOKEN` or standard input, and
    /// the secret of the signatures from `LATCHMAIL_WEBHOOK_SECRET`. Without that variable, creates
    /// a secret and prints it.
    Listen {
        #[command(flatten)]
        args: listen::ListenArgs,
    },
    /// Show the audit log, the newest events last.
    Audit {
        #[command(flatten)]
        service: latchmail_cli::ServiceArgs,
        #[command(flatten)]
        selection: audit::Selection,
    },
    /// Print the completions of a shell.
    Completions { shell: Shell },
    /// Write the man pages to a folder.
    #[command(hide = true)]
    Man { folder: PathBuf },
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return report_usage_error(&error),
    };
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a sentence to standard error. Ignores write errors, because the exit status also reports
/// the failure.
fn print_error(sentence: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "latchmail: {sentence}");
}

/// Prints an error of the argument parser and returns the exit status. Does not print the value of
/// an unexpected argument, because the value could be a password.
fn report_usage_error(error: &clap::Error) -> ExitCode {
    const MISUSE: u8 = 2;
    if error.kind() == ErrorKind::UnknownArgument {
        let unexpected = error.get(ContextKind::InvalidArg);
        if matches!(unexpected, Some(ContextValue::String(name)) if name == "--config") {
            print_error(
                "--config FILE must follow the command: `latchmail serve --config FILE`, `latchmail account list --config FILE`",
            );
            return ExitCode::from(MISUSE);
        }
        print_error(
            "unexpected argument; --help lists the arguments. A password is not an argument: it is read from standard \
             input",
        );
        return ExitCode::from(MISUSE);
    }
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(MISUSE))
}

/// Disables transparent huge pages for this process and its child processes. With huge pages, one
/// object in use can keep 2 MiB of the allocator's memory instead of 4 KiB. A kernel that does not
/// support this setting reports an error, which is ignored.
fn disable_huge_pages() {
    let _ = disable_transparent_huge_pages(true);
}

fn run(command: Command) -> anyhow::Result<()> {
    disable_huge_pages();
    hardening::disable_core_dumps().context("cannot disable core dumps")?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        match command {
            Command::Serve { service } => {
                Box::pin(serve(service.load_config()?.with_embedded(EMBEDDED))).await
            }
            Command::Milter {
                service,
                without_dns,
            } => milter(service.load_config()?, !without_dns).await,
            Command::Account { service, command } => account::run(&service, command).await,
            Command::Alias { service, command } => alias::run(&service, command).await,
            Command::Domain { service, command } => domain::run(&service, command).await,
            Command::Client { service, command } => client::run(&service, command).await,
            Command::Key { service, command } => key::run(&service, command).await,
            Command::Module { service, command } => module::run(&service, command, EMBEDDED).await,
            Command::Doctor { service, json } => doctor::run(&service, json).await,
            Command::Backup { service, args } => backup::run(&service, &args).await,
            Command::Restore { service, args } => restore::run(&service, &args).await,
            Command::Attach { service, args } => Box::pin(attach::attach(&service, &args)).await,
            Command::Detach { service, args } => attach::detach(&service, &args),
            Command::Health { service } => health::run(&service).await,
            Command::Listen { args } => Box::pin(listen::run(args)).await,
            Command::Completions { shell } => generated::completions(shell),
            Command::Man { folder } => generated::man_pages(&folder),
            Command::Audit { service, selection } => audit::run(&service, &selection).await,
            Command::Dev {
                database,
                database_file,
                modules,
                watch,
            } => {
                let environment = config::environment();
                let (url, file) = (database.as_deref(), database_file.as_deref());
                let database = database_url::read("--database", url, file)?;
                Box::pin(latchmail_dev::run(latchmail_dev::Options {
                    database,
                    modules,
                    embedded: EMBEDDED,
                    watch,
                    environment,
                }))
                .await
            }
        }
    })
}

async fn milter(config: Config, dns: bool) -> anyhow::Result<()> {
    let log = logging::start(&config.log)?;
    let mut signals = Signals::new()?;
    let milter = Milter::bind(&config, dns).await?;
    hardening::deny_memory_access().context("cannot protect the memory of the process")?;
    tracing::info!(address = %milter.address()?, "{}", latchmail_milter::READY);
    reload::notify(&[NotifyState::Ready]);
    tokio::select! {
        () = signals.stop(async || reload::milter(&config, &log)) => {}
        () = milter.serve() => {}
    }
    reload::notify(&[NotifyState::Stopping]);
    tracing::info!("stopping");
    Ok(())
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let log = logging::start(&config.log)?;
    let mut signals = Signals::new()?;
    let running = latchmail_service::start(config, Clock::system()).await?;
    hardening::deny_memory_access().context("cannot protect the memory of the process")?;
    tracing::info!(address = %running.address, "serving");
    reload::notify(&[NotifyState::Ready]);
    signals
        .stop(async || reload::service(&running, &log).await)
        .await;
    reload::notify(&[NotifyState::Stopping]);
    tracing::info!("stopping");
    running.stop().await;
    Ok(())
}

/// The signals that `serve` and `milter` handle.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for SIGINT or SIGTERM. Calls `reload` at each SIGHUP.
    async fn stop(&mut self, reload: impl AsyncFn()) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                _ = self.hangup.recv() => reload().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_of_the_command_line_is_valid() {
        super::Cli::command().debug_assert();
    }
}
