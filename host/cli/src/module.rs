//! `latchmail module …`: commands that manage the modules of a running service, and commands for
//! the project of a module.
//!
//! Most commands send a request over the Unix socket of the running service, because only the
//! service can check whether a change is allowed. `compile`, `new`, `build` and `test` do not need
//! a running service. `compile` fills the cache that the service reads when it starts.

mod client;
mod components;
mod dev;
mod log;
mod mount;
mod new;
mod output;
mod path;
mod push;
mod upgrade;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Subcommand;
use http::{Method, StatusCode};
use latchmail_core::config::{self, EmbeddedModule};
use latchmail_dev::Project;
use latchmail_runtime::manager::compare::{MAX_REQUESTS, MAX_TIME};
use latchmail_runtime::modules::precompile;
use latchmail_terminal::output::{escape, print_line, print_lines};
use serde_json::{Value, json};

use crate::context::ServiceArgs;
use crate::project::{Language, Name};
use client::{ErrorResponse, send};
use components::Components;
use path::module_path;
use upgrade::Upgrade;

/// Subcommands of `latchmail module`.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// List the modules with their state, their serving version and the number of their requests.
    List {
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show a module: its imports and whether each import is granted, its limits, its routes and
    /// its versions.
    Show {
        /// Name of the module.
        name: String,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show recent log entries of a module: the lines that the module wrote, and the errors of its
    /// requests. The running service keeps the last 1,000 entries.
    Log {
        /// Name of the module.
        name: String,
        /// Show only entries of the request with this id. The header `X-Request-Id` of a response
        /// contains the id.
        // An id can start with a hyphen.
        #[arg(long, value_name = "ID", allow_hyphen_values = true)]
        request: Option<String>,
        /// Print a JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Check component files without installing them. Shows the content of each file, and what its
    /// installation requires.
    Inspect {
        /// The components.
        #[command(flatten)]
        components: Components,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Install either all component files or none. Each file contains a new module or a new version
    /// of an installed module. The modules serve immediately. A component that has only handlers
    /// gets the name of its file or repository. A standard component also needs `--http`.
    Install {
        /// The components.
        #[command(flatten)]
        components: Components,
        /// Consent to the replacement of versions, and to the new imports and routes of the
        /// components. Without this option, the command asks for consent.
        #[arg(long)]
        yes: bool,
    },
    /// Install the newest version of a module from the registry that the module comes from. The
    /// newest version is the highest tag of three numbers. If the module was installed with another
    /// tag, it is the artifact to which that tag points now.
    Upgrade(Upgrade),
    /// Upload a component file to a registry. Does not sign it.
    Push {
        /// Component file.
        file: PathBuf,
        /// Reference with a tag: `oci://HOST/REPOSITORY:TAG`.
        reference: String,
    },
    /// Enable a module. If the module is already enabled, reload its serving version with the
    /// current configuration.
    Enable {
        /// Name of the module.
        name: String,
    },
    /// Disable a module. The service keeps the versions of the module.
    Disable {
        /// Name of the module.
        name: String,
    },
    /// Go back to the version that served before the current one.
    Rollback {
        /// Name of the module.
        name: String,
        /// Digest of the version to go back to, or a unique prefix of the digest.
        #[arg(long, value_name = "DIGEST")]
        to: Option<String>,
    },
    /// Resume a module for a mailbox for which it is paused. The service pauses a module if its
    /// calls for the events or the timers of a mailbox fail.
    Resume {
        /// Name of the module.
        name: String,
        /// Address of the account.
        #[arg(long, value_name = "ADDRESS")]
        account: String,
        /// Continue after the event, or after the due time of the timer, that caused the pause.
        #[arg(long)]
        skip: bool,
    },
    /// Call a module for past mail of an account whose owner has enabled the module, and show the
    /// changes that the module would make. Nothing is changed or sent.
    Preview {
        /// Name of the module.
        name: String,
        /// Address of the account.
        #[arg(long, value_name = "ADDRESS")]
        account: String,
        /// Number of messages, from the newest.
        #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=500))]
        last: u32,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Compare a new version of a module with the serving version, before you install it. Records
    /// read requests of clients in memory, and replays them into both versions. Ends with status 1
    /// if responses differ. Prints no values of responses.
    Compare {
        /// Name of the module.
        name: String,
        /// Component file of the new version, or a reference to an artifact of a registry.
        file: PathBuf,
        /// Accept an artifact without a signature. Requires `registry.allow_unsigned`.
        #[arg(long)]
        unsigned: bool,
        /// Number of requests to compare.
        #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_REQUESTS)))]
        requests: u32,
        /// Maximum time, in seconds.
        #[arg(long, value_name = "S", default_value = "300", value_parser = clap::value_parser!(u64).range(1..=MAX_TIME.as_secs()))]
        seconds: u64,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Remove a module and all its versions.
    Remove {
        /// Name of the module.
        name: String,
        /// Also delete the data that the module stored for accounts. This option also works for a
        /// module that was already removed.
        #[arg(long)]
        purge: bool,
    },
    /// Compile component files into `cache_dir`, so that the service does not compile them when it
    /// starts or installs them.
    Compile {
        /// Component files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Create a project for a new module, in a folder with the module's name. The project can be
    /// built and installed unchanged.
    New {
        /// Name of the module: 1 to 32 lowercase letters, digits and hyphens.
        name: Name,
        /// Programming language of the project.
        #[arg(long, value_enum, default_value = "rust")]
        language: Language,
    },
    /// Build the module of a project, and print the path of the component.
    Build {
        /// Folder of the project.
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
    /// Run the tests of a project. The command starts a private service with its own mail servers,
    /// and installs the module in it. If this machine cannot run the mail servers, only the tests
    /// without a service run.
    Test {
        /// Folder of the project.
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
    /// Build the module of a project and install it in the running service, now and after each
    /// change of a file. The command consents to new permissions of the module.
    Dev {
        /// Folder of the project.
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
}

/// Runs a subcommand. `embedded` are the modules in the program, which the private service of
/// `test` needs.
///
/// # Errors
/// Returns an error if the command fails. The error text is one sentence for the operator. A failed
/// command has changed nothing.
pub async fn run(
    service: &ServiceArgs,
    command: Command,
    embedded: &'static [EmbeddedModule],
) -> anyhow::Result<()> {
    match &command {
        Command::New { name, language } => return new::new(name, *language),
        Command::Build { folder } => return build(folder).await,
        Command::Test { folder } => return test(folder, embedded).await,
        _ => {}
    }
    let config = service.load_config()?;
    let socket = config.admin.socket.clone();
    let show = |response: &Value, json: bool, lines: fn(&Value) -> Vec<String>| {
        if json {
            print_line(&response.to_string())
        } else {
            print_lines(lines(response))
        }
    };
    match command {
        Command::New { .. } | Command::Build { .. } | Command::Test { .. } => Ok(()),
        Command::Dev { folder } => dev::run(&socket, &folder).await,
        Command::Compile { files } => compile(&config.cache_dir, &files).await,
        Command::List { json } => {
            let response = send(&socket, Method::GET, "", None).await?;
            show(&response, json, output::modules)
        }
        Command::Show { name, json } => {
            let response = send(&socket, Method::GET, &module_path(&name)?, None).await?;
            show(&response, json, output::module)
        }
        Command::Log {
            name,
            request,
            json,
        } => log::show(&socket, &module_path(&name)?, request.as_deref(), json).await,
        Command::Inspect { components, json } => {
            let body = components.read(&config).await?;
            let response = send(&socket, Method::POST, "/inspect", Some(body)).await?;
            show(&response, json, inspections)
        }
        Command::Install { components, yes } => {
            install(&socket, components.read(&config).await?, yes).await
        }
        Command::Upgrade(options) => upgrade::upgrade(&config, &options).await,
        Command::Push { file, reference } => push::push(&config, &file, &reference).await,
        Command::Enable { name } => post_change(&socket, &name, "/enable", None).await,
        Command::Disable { name } => post_change(&socket, &name, "/disable", None).await,
        Command::Rollback { name, to } => {
            let body = to.map(|to| json!({ "digest": to }));
            post_change(&socket, &name, "/rollback", body).await
        }
        Command::Resume {
            name,
            account,
            skip,
        } => {
            let path = format!("{}/resume", module_path(&name)?);
            let body = json!({ "account": account, "skip": skip });
            send(&socket, Method::POST, &path, Some(body)).await?;
            print_line(&format!("resumed {name} for {}", escape(&account)))
        }
        Command::Preview {
            name,
            account,
            last,
            json,
        } => {
            let path = format!("{}/preview", module_path(&name)?);
            let body = json!({ "account": account, "last": last });
            let response = send(&socket, Method::POST, &path, Some(body)).await?;
            show(&response, json, output::preview)
        }
        Command::Compare {
            name,
            file,
            unsigned,
            requests,
            seconds,
            json,
        } => {
            let path = format!("{}/compare", module_path(&name)?);
            let mut body = Components::of(file, unsigned).read(&config).await?;
            body["requests"] = requests.into();
            body["seconds"] = seconds.into();
            let response = send(&socket, Method::POST, &path, Some(body)).await?;
            show(&response, json, output::comparison)?;
            check_comparison(&response)
        }
        Command::Remove { name, purge } => {
            let query = if purge { "?purge=true" } else { "" };
            let path = format!("{}{query}", module_path(&name)?);
            send(&socket, Method::DELETE, &path, None).await?;
            print_line(&format!("removed {name}"))
        }
    }
}

fn inspections(response: &Value) -> Vec<String> {
    let inspected = response["modules"].as_array().into_iter().flatten();
    inspected.flat_map(output::inspection).collect()
}

/// Returns an error if a comparison has found differences, or has compared nothing.
fn check_comparison(response: &Value) -> anyhow::Result<()> {
    let count = |key: &str| response[key].as_u64().unwrap_or(0);
    match (count("compared"), count("different")) {
        (0, _) => bail!("no request was compared: no client sent a read request in this time"),
        (_, 0) => Ok(()),
        (compared, different) => bail!("{different} of {compared} responses differ"),
    }
}

async fn build(folder: &Path) -> anyhow::Result<()> {
    let project = Project::find(folder, false).await?;
    if !project.build().await? {
        bail!("cannot build {}", project.folder().display());
    }
    let components = project.components();
    print_lines(components.iter().map(|file| file.display().to_string()))
}

async fn test(folder: &Path, embedded: &'static [EmbeddedModule]) -> anyhow::Result<()> {
    let options = latchmail_dev::Options {
        database: None,
        modules: None,
        embedded,
        watch: Vec::new(),
        environment: config::environment(),
    };
    if !Box::pin(latchmail_dev::test(folder, options)).await? {
        bail!("the tests failed");
    }
    Ok(())
}

async fn compile(cache_dir: &Path, files: &[PathBuf]) -> anyhow::Result<()> {
    for file in files {
        let component =
            std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        precompile(cache_dir, component.into())
            .await
            .with_context(|| format!("cannot compile {}", file.display()))?;
    }
    Ok(())
}

/// Installs the components in the body of a request. Asks the operator for consent if the service
/// requires consent and standard input is a terminal.
async fn install(socket: &Path, mut body: Value, yes: bool) -> anyhow::Result<()> {
    body["accept"] = yes.into();
    let installed = match send(socket, Method::POST, "", Some(body.clone())).await {
        Err(error) if !yes && ask_for_consent(socket, &error, &body).await? => {
            body["accept"] = true.into();
            send(socket, Method::POST, "", Some(body)).await
        }
        done => done,
    }?;
    for module in installed["modules"].as_array().into_iter().flatten() {
        print_line(&state_line(module))?;
    }
    Ok(())
}

/// Asks the operator for consent. Returns `true` if the operator consented. Returns `false` without
/// asking if consent would not be enough to resolve `error`.
///
/// # Errors
/// Returns an error if the operator declined, or if standard input is not a terminal.
async fn ask_for_consent(
    socket: &Path,
    error: &anyhow::Error,
    body: &Value,
) -> anyhow::Result<bool> {
    let conflict = error
        .downcast_ref::<ErrorResponse>()
        .is_some_and(|response| response.status == StatusCode::CONFLICT);
    if !conflict {
        return Ok(false);
    }
    let response = send(socket, Method::POST, "/inspect", Some(body.clone())).await?;
    let modules = response["modules"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let mut needs = Vec::new();
    for module in modules {
        let texts = |key: &str| {
            let values = module[key].as_array().into_iter().flatten();
            values.filter_map(Value::as_str).map(escape).collect()
        };
        let problems: Vec<String> = texts("problems");
        if !problems.is_empty() {
            return Ok(false);
        }
        let module_needs: Vec<String> = texts("needs");
        needs.extend(module_needs.iter().map(|need| format!("  {need}")));
    }
    if needs.is_empty() {
        return Ok(false);
    }
    if !std::io::stdin().is_terminal() {
        bail!("{error}; to consent without a terminal, add --yes");
    }
    let mut out = std::io::stderr();
    writeln!(out, "The installation requires your consent:")?;
    for need in &needs {
        writeln!(out, "{need}")?;
    }
    write!(out, "Consent and install? [y/N] ")?;
    out.flush()?;
    let mut input = String::new();
    std::io::stdin().read_line(&mut input)?;
    match input.trim() {
        "y" | "Y" | "yes" => Ok(true),
        _ => bail!("installation cancelled: no module was changed"),
    }
}

async fn post_change(
    socket: &Path,
    name: &str,
    action: &str,
    body: Option<Value>,
) -> anyhow::Result<()> {
    let path = format!("{}{action}", module_path(name)?);
    let report = send(socket, Method::POST, &path, body).await?;
    print_line(&state_line(&report))
}

/// Formats the state of a module after a change.
fn state_line(report: &Value) -> String {
    let text = |key: &str| report[key].as_str().map(escape).unwrap_or_default();
    match report["state"].as_str() {
        Some("serving") => {
            let line = format!(
                "{} {} is serving (digest {})",
                text("name"),
                text("version"),
                text("digest").get(..12).unwrap_or_default()
            );
            match output::serving_source(report) {
                Some(source) => format!("{line} from {source}"),
                None => line,
            }
        }
        _ => format!("{} is {}", text("name"), text("state")),
    }
}
