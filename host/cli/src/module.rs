//! `latchmail module …`: commands that manage the modules of a running service, and that create projects for module authors.
//!
//! Most of these commands send a request to the service over its Unix socket and do not open the database, because only the service that
//! compiles and runs the modules can decide whether a change is allowed. `compile` fills the cache that the service reads at its start.
//! `compile` and `new` need no running service.

mod log;
mod new;
mod shown;
mod socket;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Subcommand;
use http::{Method, StatusCode};
use latchmail_core::config::{self, Config};
use latchmail_http::admin::LARGEST_COMPONENTS_MIB;
use latchmail_runtime::modules::precompile;
use serde_json::{Value, json};

use super::shown::plain;
use super::{Service, list, say, settings};
use crate::project::{Language, Name};
use socket::{Refused, ask};

/// Subcommands of `latchmail module`.
#[derive(Debug, Clone, Subcommand)]
pub enum Verb {
    /// List the modules with their state, the serving version and request counts.
    List {
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show a module: its imports and whether each is granted, its limits, its routes and its versions.
    Show {
        /// Name of the module.
        name: String,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show recent log entries of a module: the lines that it wrote, and traps. The running service keeps the last 1,000 entries.
    Log {
        /// Name of the module.
        name: String,
        /// Only entries of the request with this id, as in the response's `X-Request-Id`.
        #[arg(long, value_name = "ID")]
        request: Option<String>,
        /// Print a JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Check component files without installing them: what each contains, and what its installation requires.
    Inspect {
        /// Component files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Install component files, all or none. Each is a new module, or a new version of an installed one, and serves at once.
    Install {
        /// Component files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Consent to everything that a new version may do and the previous version could not.
        #[arg(long)]
        yes: bool,
    },
    /// Enable a module. If the module is already enabled, reload its serving version with the current configuration.
    Enable {
        /// Name of the module.
        name: String,
    },
    /// Disable a module. Its versions are kept.
    Disable {
        /// Name of the module.
        name: String,
    },
    /// Go back to the version that served before the current one.
    Rollback {
        /// Name of the module.
        name: String,
        /// Digest of the version to go back to, or a unique prefix of it.
        #[arg(long, value_name = "DIGEST")]
        to: Option<String>,
    },
    /// Remove a module and all its versions.
    Remove {
        /// Name of the module.
        name: String,
        /// Also delete the data that the module stored for accounts. Works for a module that is already removed.
        #[arg(long)]
        purge: bool,
    },
    /// Compile component files into `cache_dir`, so that starting or installing them needs no compilation.
    Compile {
        /// Component files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Create a project for a new module, in a folder with the module's name. The project can be built and installed unchanged.
    New {
        /// Name of the module: 1 to 32 lowercase letters, digits and hyphens.
        name: Name,
        /// Programming language of the project.
        #[arg(long, value_enum, default_value = "rust")]
        language: Language,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error with one sentence for the operator. Nothing was changed.
pub async fn run(service: &Service, verb: Verb) -> anyhow::Result<()> {
    if let Verb::New { name, language } = &verb {
        return new::new(name, *language);
    }
    let file = settings::locate(service.config.as_deref(), &config::environment())?;
    let config = Config::load(Some(&file))?;
    let socket = config.admin.socket;
    let show = |answer: &Value, json: bool, lines: fn(&Value) -> Vec<String>| {
        if json {
            say(&answer.to_string())
        } else {
            list(lines(answer).into_iter())
        }
    };
    match verb {
        Verb::New { .. } => Ok(()),
        Verb::Compile { files } => compile(&config.cache_dir, &files).await,
        Verb::List { json } => {
            let answer = ask(&socket, Method::GET, "", None).await?;
            show(&answer, json, shown::modules)
        }
        Verb::Show { name, json } => {
            let answer = ask(&socket, Method::GET, &of(&name)?, None).await?;
            show(&answer, json, shown::module)
        }
        Verb::Log {
            name,
            request,
            json,
        } => log::show(&socket, &of(&name)?, request.as_deref(), json).await,
        Verb::Inspect { files, json } => {
            let answer = ask(&socket, Method::POST, "/inspect", Some(components(&files)?)).await?;
            show(&answer, json, inspections)
        }
        Verb::Install { files, yes } => install(&socket, &files, yes).await,
        Verb::Enable { name } => changed(&socket, &name, "/enable", None).await,
        Verb::Disable { name } => changed(&socket, &name, "/disable", None).await,
        Verb::Rollback { name, to } => {
            let body = to.map(|to| json!({ "digest": to }));
            changed(&socket, &name, "/rollback", body).await
        }
        Verb::Remove { name, purge } => {
            let query = if purge { "?purge=true" } else { "" };
            let path = format!("{}{query}", of(&name)?);
            ask(&socket, Method::DELETE, &path, None).await?;
            say(&format!("removed {name}"))
        }
    }
}

fn inspections(answer: &Value) -> Vec<String> {
    let inspected = answer["modules"].as_array().into_iter().flatten();
    inspected.flat_map(shown::inspection).collect()
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

/// Installs components. If a version needs consent and standard input is a terminal, asks the operator for it.
async fn install(socket: &Path, files: &[PathBuf], yes: bool) -> anyhow::Result<()> {
    let mut body = components(files)?;
    body["accept"] = yes.into();
    let installed = match ask(socket, Method::POST, "", Some(body.clone())).await {
        Err(error) if !yes && needs_yes(socket, &error, &body).await? => {
            body["accept"] = true.into();
            ask(socket, Method::POST, "", Some(body)).await
        }
        done => done,
    }?;
    for module in installed["modules"].as_array().into_iter().flatten() {
        say(&serves(module))?;
    }
    Ok(())
}

/// Returns whether the request was refused only for lack of consent and the operator gave it.
///
/// # Errors
/// Returns an error if consent is needed and the operator declined or cannot be asked.
async fn needs_yes(socket: &Path, error: &anyhow::Error, body: &Value) -> anyhow::Result<bool> {
    let conflict = error
        .downcast_ref::<Refused>()
        .is_some_and(|refused| refused.status == StatusCode::CONFLICT);
    if !conflict {
        return Ok(false);
    }
    let inspected = ask(socket, Method::POST, "/inspect", Some(body.clone())).await?;
    let inspected = inspected["modules"].as_array().into_iter().flatten();
    let all = |key: &str| -> Vec<String> {
        let values = inspected
            .clone()
            .filter_map(|one| one[key].as_array())
            .flatten();
        values.filter_map(Value::as_str).map(plain).collect()
    };
    let needs = all("needs");
    if needs.is_empty() || !all("problems").is_empty() {
        return Ok(false);
    }
    if !std::io::stdin().is_terminal() {
        bail!("{error}. Consent with --yes");
    }
    let mut out = std::io::stderr();
    for need in &needs {
        writeln!(out, "{need}")?;
    }
    write!(
        out,
        "The previous version could not do this. Install it? [y/N] "
    )?;
    out.flush()?;
    let mut said = String::new();
    std::io::stdin().read_line(&mut said)?;
    match said.trim() {
        "y" | "Y" | "yes" => Ok(true),
        _ => bail!("nothing was installed"),
    }
}

async fn changed(socket: &Path, name: &str, how: &str, body: Option<Value>) -> anyhow::Result<()> {
    let path = format!("{}{how}", of(name)?);
    let report = ask(socket, Method::POST, &path, body).await?;
    say(&serves(&report))
}

fn serves(report: &Value) -> String {
    let of = |key: &str| report[key].as_str().map(plain).unwrap_or_default();
    match report["state"].as_str() {
        Some("serving") => format!(
            "{} {} is serving ({})",
            of("name"),
            of("version"),
            of("digest").get(..12).unwrap_or_default()
        ),
        _ => format!("{} is {}", of("name"), of("state")),
    }
}

/// Returns the URL path of a module. Rejects an invalid name, which could select a different path.
fn of(name: &str) -> anyhow::Result<String> {
    let plain_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.is_empty() || !name.bytes().all(plain_name) {
        bail!("`{}` is not a valid module name", plain(name));
    }
    Ok(format!("/{name}"))
}

fn components(files: &[PathBuf]) -> anyhow::Result<Value> {
    // The service responds to a body above its limit before it has read the body, and that response may be lost. Files whose size cannot be
    // read are reported below.
    let sizes = files.iter().filter_map(|file| file.metadata().ok());
    let size: u64 = sizes.map(|file| file.len()).sum();
    if size > LARGEST_COMPONENTS_MIB * 1024 * 1024 {
        bail!(
            "the components are larger than {LARGEST_COMPONENTS_MIB} MiB in total, the limit for one request"
        );
    }
    let component = |file: &PathBuf| -> anyhow::Result<Value> {
        let bytes =
            std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        Ok(json!({ "component": STANDARD.encode(bytes) }))
    };
    let modules: Vec<Value> = files.iter().map(component).collect::<Result<_, _>>()?;
    Ok(json!({ "modules": modules }))
}
