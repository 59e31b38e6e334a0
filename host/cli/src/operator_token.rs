//! `latchmail operator-token …`: commands that create, list and delete the tokens with which
//! programs of the operator use the admin API and SCIM.

use std::time::Duration;

use anyhow::bail;
use clap::Subcommand;
use latchmail_accounts::auth::OperatorTokens;
use latchmail_core::caller::OperatorScope;
use latchmail_directory::operator_tokens::OperatorToken;
use latchmail_terminal::output::{escape, print_line, print_lines, table};
use secrecy::ExposeSecret as _;
use serde_json::json;

use crate::context::{CliContext, ServiceArgs};

/// Subcommands of `latchmail operator-token`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a token. Prints the token once.
    ///
    /// Scopes: `accounts:read`, `accounts:write`, `domains:read`, `domains:write`, `aliases:read`,
    /// `aliases:write`, `modules:read`, `modules:write`, `grants:read`, `grants:write`, and `scim`
    /// for identity providers. No token can read mail.
    Create {
        /// Name of the token. The audit log contains the name.
        name: String,
        /// Scopes, separated by commas.
        #[arg(long, value_name = "SCOPE,…", required = true, value_delimiter = ',', value_parser = parse_scope)]
        scopes: Vec<OperatorScope>,
        /// Time until the token expires: a number with `m`, `h` or `d` [default: never].
        #[arg(long, value_name = "TIME", value_parser = parse_lifetime)]
        expires_in: Option<Duration>,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// List all tokens.
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Delete a token. Programs with this token lose their access at once.
    Delete {
        /// Name of the token.
        name: String,
    },
}

fn parse_scope(text: &str) -> Result<OperatorScope, String> {
    OperatorScope::named(text.trim()).ok_or_else(|| {
        let names = OperatorScope::ALL.map(OperatorScope::name);
        format!("the scopes are {}", names.join(", "))
    })
}

/// Parses a duration such as `30d`.
fn parse_lifetime(text: &str) -> Result<Duration, String> {
    const MINUTE: u64 = 60;
    const MAX: u64 = 100 * 365 * 24 * 60 * MINUTE;
    let invalid = || "the time must be a number with m, h or d, for example 30d".to_owned();
    let unit = match text.chars().last() {
        Some('m') => MINUTE,
        Some('h') => 60 * MINUTE,
        Some('d') => 24 * 60 * MINUTE,
        _ => return Err(invalid()),
    };
    let number = text.get(..text.len() - 1).unwrap_or_default();
    let number: u64 = number.parse().map_err(|_| invalid())?;
    let seconds = number
        .checked_mul(unit)
        .filter(|all| (1..=MAX).contains(all));
    seconds.map(Duration::from_secs).ok_or_else(invalid)
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error if the command fails. The error text is one sentence for the operator. A failed
/// command has changed nothing.
pub async fn run(service: &ServiceArgs, command: Command) -> anyhow::Result<()> {
    let context = CliContext::open(service).await?;
    let result = match command {
        Command::Create {
            name,
            scopes,
            expires_in,
            json,
        } => create(&context, &name, &scopes, expires_in, json).await,
        Command::List { json } => list(&context, json).await,
        Command::Delete { name } => delete(&context, &name).await,
    };
    context.close().await;
    result
}

async fn create(
    context: &CliContext,
    name: &str,
    scopes: &[OperatorScope],
    lifetime: Option<Duration>,
    json: bool,
) -> anyhow::Result<()> {
    let repository = context.directory.operator_tokens.clone();
    let tokens = OperatorTokens::new(repository, context.clock.clone());
    let created = tokens.create(name, scopes, lifetime, &context.origin);
    let Some(created) = created.await? else {
        bail!("a token {} exists already", escape(name));
    };
    let secret = created.secret.expose_secret();
    if json {
        let mut object = to_json(&created.token);
        object["token"] = secret.into();
        return print_line(&object.to_string());
    }
    print_line(&format!(
        "{} is created. The token is not shown again.\n  {secret}",
        escape(name)
    ))
}

async fn list(context: &CliContext, json: bool) -> anyhow::Result<()> {
    let tokens = context.directory.operator_tokens.list().await?;
    if json {
        return print_lines(tokens.iter().map(|token| to_json(token).to_string()));
    }
    if tokens.is_empty() {
        return print_line("There are no operator tokens.");
    }
    let heading = ["name", "token", "scopes", "since", "last used", "expires"];
    let rows = tokens.iter().map(|token| {
        let time = |at: Option<latchmail_core::clock::Timestamp>| {
            at.map_or_else(|| "-".into(), |at| at.to_string())
        };
        [
            escape(&token.name),
            format!("lmo_…{}", token.hint),
            OperatorScope::list(&token.scopes),
            token.created_at.to_string(),
            time(token.last_used_at),
            time(token.expires_at),
        ]
    });
    print_lines(table(heading, rows))
}

async fn delete(context: &CliContext, name: &str) -> anyhow::Result<()> {
    let now = context.clock.now();
    let tokens = &context.directory.operator_tokens;
    if !tokens.delete(name, now, &context.origin).await? {
        bail!("there is no token {}", escape(name));
    }
    print_line(&format!("{} is deleted.", escape(name)))
}

fn to_json(token: &OperatorToken) -> serde_json::Value {
    let names = token.scopes.iter().map(|scope| scope.name());
    json!({
        "id": token.id,
        "name": token.name,
        "hint": token.hint,
        "scopes": names.collect::<Vec<_>>(),
        "createdAt": token.created_at.to_string(),
        "lastUsedAt": token.last_used_at.map(|at| at.to_string()),
        "expiresAt": token.expires_at.map(|at| at.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_has_a_unit() {
        let seconds = |text| parse_lifetime(text).map(|time| time.as_secs());
        assert_eq!(seconds("30d"), Ok(30 * 24 * 3600));
        assert_eq!(seconds("90m"), Ok(5400));
        for text in [
            "",
            "d",
            "30",
            "0d",
            "-1d",
            "1.5h",
            "30 d",
            "1y",
            "99999999999999d",
            "1é",
        ] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
