//! `latchmail client …`: commands that add, list and remove clients of the OAuth authorization
//! server.
//!
//! The operator adds only clients that have a secret. Clients without a secret register themselves.

use anyhow::{anyhow, bail};
use clap::Subcommand;
use latchmail_directory::oauth::ClientRow;
use latchmail_mailbox::SessionSelector;
use latchmail_oauth::clients::confidential;
use latchmail_terminal::output::{escape, print_line, print_lines, table, yes_or_no};
use secrecy::ExposeSecret as _;
use serde_json::json;

use crate::context::{CliContext, ServiceArgs};

/// Subcommands of `latchmail client`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Add a client that has a secret. Prints the client's id and its secret once.
    Add {
        /// Name of the client, as users see it when they sign in.
        name: String,
        /// URI to which the service may redirect users after sign-in. Can be repeated.
        #[arg(long = "redirect-uri", value_name = "ADDRESS", required = true)]
        redirect_uris: Vec<String>,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// List all clients, including those that registered themselves.
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Remove a client, and revoke all grants of users to this client.
    Remove {
        /// Id of the client. For a client with a metadata document, the URL of the document.
        id: String,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if the command fails. The error text is one sentence for the operator. A failed
/// command has changed nothing, unless the error text reports a change.
pub async fn run(service: &ServiceArgs, command: Command) -> anyhow::Result<()> {
    let context = CliContext::open(service).await?;
    let result = match command {
        Command::Add {
            name,
            redirect_uris,
            json,
        } => add(&context, &name, &redirect_uris, json).await,
        Command::List { json } => list_all(&context, json).await,
        Command::Remove { id } => remove(&context, &id).await,
    };
    context.close().await;
    result
}

async fn add(
    context: &CliContext,
    name: &str,
    redirect_uris: &[String],
    json: bool,
) -> anyhow::Result<()> {
    let (client, secret) = confidential(name, redirect_uris).map_err(|reason| anyhow!(reason))?;
    if client.name.is_empty() {
        bail!("the client name is empty");
    }
    let now = context.clock.now();
    context
        .directory
        .oauth
        .add_client(&client, now, &context.origin)
        .await?;
    let secret = secret.secret().expose_secret();
    if json {
        return print_line(&json!({ "client_id": client.id, "client_secret": secret }).to_string());
    }
    print_line(&format!(
        "{} is added. The secret is not shown again.\n  client_id      {}\n  client_secret  {secret}",
        escape(&client.name),
        client.id
    ))
}

async fn list_all(context: &CliContext, json: bool) -> anyhow::Result<()> {
    let clients = context.directory.oauth.clients().await?;
    if json {
        return print_lines(clients.iter().map(|row| to_json(row).to_string()));
    }
    if clients.is_empty() {
        return print_line("There are no clients.");
    }
    let heading = ["name", "secret", "since", "last used", "id"];
    let rows = clients.iter().map(|row| {
        let client = &row.client;
        [
            escape(&client.name),
            yes_or_no(client.secret_hash.is_some()).into(),
            row.created_at.to_string(),
            row.used_at.map_or_else(|| "-".into(), |at| at.to_string()),
            client.id.clone(),
        ]
    });
    print_lines(table(heading, rows))
}

async fn remove(context: &CliContext, id: &str) -> anyhow::Result<()> {
    let now = context.clock.now();
    let removed = context
        .directory
        .oauth
        .remove_client(id, now, &context.origin)
        .await?;
    let Some(grants) = removed else {
        bail!(
            "there is no client {}, and no grant to such a client",
            escape(id)
        );
    };
    let printed = print_line(&format!(
        "{} is removed. Revoked grants: {}.",
        escape(id),
        grants.len()
    ));
    context
        .end_sessions(SessionSelector::AppPasswords(&grants))
        .await;
    printed
}

fn to_json(row: &ClientRow) -> serde_json::Value {
    json!({
        "id": row.client.id,
        "name": row.client.name,
        "redirectUris": row.client.redirect_uris,
        "secret": row.client.secret_hash.is_some(),
        "createdAt": row.created_at.to_string(),
        "lastUsedAt": row.used_at.map(|at| at.to_string()),
    })
}
