//! `latchmail grant …`: commands that show the grants of an account, and that show and set their
//! policies.
//!
//! `latchmail account withdraw` ends OAuth grants.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use latchmail_core::policy::{Policy, Preset};
use latchmail_directory::grants::{Grant, Suspension};
use latchmail_terminal::output::{escape, print_line, print_lines, table, yes_or_no};
use serde_json::{Value, json};

use crate::context::{CliContext, ServiceArgs};

/// Subcommands of `latchmail grant`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the API tokens and the OAuth grants of an account.
    List {
        /// Address of the account.
        address: String,
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Show the policy of a grant as JSON, or set it.
    Policy {
        /// Address of the account.
        address: String,
        /// Id of the grant, as printed by `latchmail grant list`.
        id: String,
        /// Set the policy with this name.
        #[arg(long, value_name = "NAME", conflicts_with = "file",
            value_parser = PossibleValuesParser::new(Preset::ALL.map(Preset::name)))]
        preset: Option<String>,
        /// Set the policy in this JSON file. `-` reads standard input.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if the command fails. The error text is one sentence for the operator. A failed
/// command has changed nothing.
pub async fn run(service: &ServiceArgs, command: Command) -> anyhow::Result<()> {
    let context = CliContext::open(service).await?;
    let result = match command {
        Command::List { address, json } => list(&context, &address, json).await,
        Command::Policy {
            address,
            id,
            preset,
            file,
        } => match new_policy(preset.as_deref(), file.as_deref()) {
            Ok(Some(new)) => set(&context, &address, &id, &new).await,
            Ok(None) => show(&context, &address, &id).await,
            Err(error) => Err(error),
        },
    };
    context.close().await;
    result
}

/// Returns the policy that the arguments select. Returns `None` without these arguments.
fn new_policy(preset: Option<&str>, file: Option<&Path>) -> anyhow::Result<Option<Policy>> {
    if let Some(name) = preset {
        let preset = Preset::named(name);
        return Ok(preset.map(Preset::policy));
    }
    let Some(file) = file else {
        return Ok(None);
    };
    let mut json = String::new();
    if file == Path::new("-") {
        std::io::stdin()
            .read_to_string(&mut json)
            .context("cannot read standard input")?;
    } else {
        json = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
    }
    let policy = Policy::parse(&json).map_err(|problem| anyhow!("{problem}"))?;
    Ok(Some(policy))
}

async fn grants(context: &CliContext, address: &str) -> anyhow::Result<(String, Vec<Grant>)> {
    let account = context.account(address).await?;
    let now = context.clock.now();
    let grants = context.directory.grants.list(&account.id, now).await?;
    Ok((account.id, grants))
}

async fn list(context: &CliContext, address: &str, json: bool) -> anyhow::Result<()> {
    let (_, grants) = grants(context, address).await?;
    if json {
        return print_lines(grants.iter().map(|grant| to_json(grant).to_string()));
    }
    if grants.is_empty() {
        return print_line("The account has no grants.");
    }
    let heading = [
        "label",
        "kind",
        "send",
        "delete",
        "suspended",
        "since",
        "id",
    ];
    let rows = grants.iter().map(|grant| {
        let policy = grant.policy.as_ref();
        let limit = |name: Option<&str>| name.unwrap_or("-").to_owned();
        [
            escape(&grant.label),
            kind(grant).into(),
            limit(policy.map(|policy| policy.send.name())),
            limit(policy.map(|policy| policy.delete.name())),
            yes_or_no(grant.suspended_at.is_some()).into(),
            grant.created_at.to_string(),
            grant.id.clone(),
        ]
    });
    print_lines(table(heading, rows))
}

async fn show(context: &CliContext, address: &str, id: &str) -> anyhow::Result<()> {
    let (_, grants) = grants(context, address).await?;
    let Some(grant) = grants.into_iter().find(|grant| grant.id == id) else {
        return Err(missing(address, id));
    };
    match grant.policy {
        None => print_line("The grant has no policy."),
        Some(policy) => print_line(&format!("{:#}", parsed(&policy))),
    }
}

async fn set(context: &CliContext, address: &str, id: &str, policy: &Policy) -> anyhow::Result<()> {
    let account = context.account(address).await?;
    let now = context.clock.now();
    let grants = &context.directory.grants;
    let set = grants.set_policy_as_operator(&account.id, id, policy, now);
    match set.await? {
        Suspension::Done { .. } => {}
        Suspension::Unknown => return Err(missing(address, id)),
        Suspension::SessionOver => bail!("the policy was not set"),
    }
    print_line(&format!(
        "Grant {} of {} has this policy:\n{:#}",
        escape(id),
        account.address,
        parsed(policy)
    ))
}

fn missing(address: &str, id: &str) -> anyhow::Error {
    anyhow!(
        "{} has no grant {}; `latchmail grant list` lists its grants",
        escape(address),
        escape(id)
    )
}

fn kind(grant: &Grant) -> &'static str {
    if grant.client_id.is_some() {
        "oauth"
    } else {
        "token"
    }
}

fn parsed(policy: &Policy) -> Value {
    serde_json::from_str(&policy.to_json()).unwrap_or_default()
}

fn to_json(grant: &Grant) -> Value {
    json!({
        "id": grant.id,
        "kind": kind(grant),
        "label": grant.label,
        "policy": grant.policy.as_ref().map(parsed),
        "createdAt": grant.created_at.to_string(),
        "suspended": grant.suspended_at.is_some(),
    })
}
