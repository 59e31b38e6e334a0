//! `latchmail client …`: commands that add, list and remove clients of the authorization server.
//!
//! The operator adds clients that have a secret. Clients without a secret register themselves.

use anyhow::{anyhow, bail};
use clap::Subcommand;
use latchmail_directory::oauth::ClientRow;
use latchmail_mailbox::SessionSelector;
use latchmail_oauth::clients::confidential;
use secrecy::ExposeSecret as _;
use serde_json::json;

use super::{Desk, Service, ended, list, say, shown};

/// Subcommands of `latchmail client`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Add a client that has a secret. Prints its id and the secret once.
    Add {
        /// Name of the client, as people see it when they sign in.
        name: String,
        /// URI to which people may be redirected after sign-in. Can be repeated.
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
    /// Remove a client and revoke everything that was granted to it.
    Remove {
        /// Id of the client. For a client with a metadata document, the URL of the document.
        id: String,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error with one sentence for the operator. Nothing was changed, unless the sentence says otherwise.
pub async fn run(service: &Service, verb: Verb) -> anyhow::Result<()> {
    let desk = Desk::open(service).await?;
    let done = match verb {
        Verb::Add {
            name,
            redirect_uris,
            json,
        } => add(&desk, &name, &redirect_uris, json).await,
        Verb::List { json } => list_all(&desk, json).await,
        Verb::Remove { id } => remove(&desk, &id).await,
    };
    desk.close().await;
    done
}

async fn add(desk: &Desk, name: &str, redirect_uris: &[String], json: bool) -> anyhow::Result<()> {
    let (client, secret) = confidential(name, redirect_uris).map_err(|why| anyhow!(why))?;
    if client.name.is_empty() {
        bail!("the client name is empty");
    }
    let now = desk.clock.now();
    desk.directory
        .add_client(&client, now, &desk.origin)
        .await?;
    let secret = secret.secret().expose_secret();
    if json {
        return say(&json!({ "client_id": client.id, "client_secret": secret }).to_string());
    }
    say(&format!(
        "{} is added. Its secret is not shown again.\n  client_id      {}\n  client_secret  {secret}",
        shown::plain(&client.name),
        client.id
    ))
}

async fn list_all(desk: &Desk, json: bool) -> anyhow::Result<()> {
    let clients = desk.directory.clients().await?;
    if json {
        return list(clients.iter().map(|row| as_json(row).to_string()));
    }
    if clients.is_empty() {
        return say("There are no clients.");
    }
    let heading = ["name", "secret", "since", "last used", "id"].map(Into::into);
    let rows = clients.iter().map(|row| {
        let client = &row.client;
        [
            shown::plain(&client.name),
            if client.secret_hash.is_some() {
                "yes"
            } else {
                "no"
            }
            .into(),
            row.created_at.to_string(),
            row.used_at.map_or_else(|| "-".into(), |at| at.to_string()),
            client.id.clone(),
        ]
    });
    let rows: Vec<[String; 5]> = std::iter::once(heading).chain(rows).collect();
    list(shown::table(&rows).into_iter())
}

async fn remove(desk: &Desk, id: &str) -> anyhow::Result<()> {
    let now = desk.clock.now();
    let removed = desk.directory.remove_client(id, now, &desk.origin).await?;
    let Some(grants) = removed else {
        bail!(
            "there is no client {}, and there are no grants to it",
            shown::plain(id)
        );
    };
    let said = say(&format!(
        "{} is removed. Revoked grants: {}.",
        shown::plain(id),
        grants.len()
    ));
    ended(&desk.config, SessionSelector::AppPasswords(&grants)).await;
    said
}

fn as_json(row: &ClientRow) -> serde_json::Value {
    json!({
        "id": row.client.id,
        "name": row.client.name,
        "redirectUris": row.client.redirect_uris,
        "secret": row.client.secret_hash.is_some(),
        "createdAt": row.created_at.to_string(),
        "lastUsedAt": row.used_at.map(|at| at.to_string()),
    })
}
