//! `latchmail module …`: modules of a service that runs, over its socket; and projects for authors of modules.
//!
//! The one room of the operator's that does not open the database: what a change of modules is, and whether it may be, only the service knows that
//! compiled and serves them. `compile` fills the cache that a service reads at its start, and needs none that runs.

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
use serde_json::{Value, json};

use super::shown::plain;
use super::{Service, list, say, settings};
use crate::config::{self, Config};
use crate::http::admin::LARGEST_COMPONENTS_MIB;
use crate::modules::precompile;
use crate::project::Name;
use socket::{Refused, ask};

/// What is done to modules.
#[derive(Debug, Clone, Subcommand)]
pub enum Verb {
    /// List the modules: which version serves, and how it does.
    List {
        /// As a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show a module: what it imports beside what it was granted, its routes, its versions.
    Show {
        /// The module's name.
        name: String,
        /// As a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Look into components: what each is, and what installing it would come to. Nothing is changed.
    Inspect {
        /// The components' files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// As a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Install components, all of them or none: new modules, and new versions of those there are. They serve at once.
    Install {
        /// The components' files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Say yes to whatever a new version may do that the one before could not.
        #[arg(long)]
        yes: bool,
    },
    /// Switch a module on, or load the one that serves anew with the configuration as it is now.
    Enable {
        /// The module's name.
        name: String,
    },
    /// Switch a module off. Its versions are kept.
    Disable {
        /// The module's name.
        name: String,
    },
    /// Let the version that served before serve again.
    Rollback {
        /// The module's name.
        name: String,
        /// Not that one, but the one of this digest, or of the only one that begins so.
        #[arg(long, value_name = "DIGEST")]
        to: Option<String>,
    },
    /// Remove a module and all its versions.
    Remove {
        /// The module's name.
        name: String,
        /// What it stored for accounts, too; also where it was removed before.
        #[arg(long)]
        purge: bool,
    },
    /// Compile components into `cache_dir`, so that a start or an install of them has nothing left to compile.
    Compile {
        /// The components' files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Make a project for a new module, in Rust, in a folder of its name. It builds and installs as it stands.
    New {
        /// The module's name: 1 to 32 lower-case letters, digits and hyphens.
        name: Name,
    },
}

/// Does it.
///
/// # Errors
/// One sentence. Nothing was changed then.
pub async fn run(service: &Service, verb: Verb) -> anyhow::Result<()> {
    if let Verb::New { name } = &verb {
        return new::new(name);
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

/// Where there is somebody to be asked, whoever installs is asked for the yes that a version needs.
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

/// Whether what was refused needs only a yes, and got it.
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
        bail!("{error}. Say yes with --yes");
    }
    let mut out = std::io::stderr();
    for need in &needs {
        writeln!(out, "{need}")?;
    }
    write!(out, "The version before could not. Install it? [y/N] ")?;
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
            "{} {} serves ({})",
            of("name"),
            of("version"),
            of("digest").get(..12).unwrap_or_default()
        ),
        _ => format!("{} is {}", of("name"), of("state")),
    }
}

/// The path of a module. A name that is none would be another path.
fn of(name: &str) -> anyhow::Result<String> {
    let plain_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.is_empty() || !name.bytes().all(plain_name) {
        bail!("`{}` is not a module's name", plain(name));
    }
    Ok(format!("/{name}"))
}

fn components(files: &[PathBuf]) -> anyhow::Result<Value> {
    // Where there is more the service answers in the middle of it, and that answer may be lost. What cannot be read is said below.
    let sizes = files.iter().filter_map(|file| file.metadata().ok());
    let size: u64 = sizes.map(|file| file.len()).sum();
    if size > LARGEST_COMPONENTS_MIB * 1024 * 1024 {
        bail!(
            "the components are larger than {LARGEST_COMPONENTS_MIB} MiB together, which is the most that can be sent at once"
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
