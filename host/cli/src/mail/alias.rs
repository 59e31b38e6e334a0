//! `latchmail mail alias`. OAuth tokens can create aliases only at the agent endpoint, so a user
//! who has signed in creates an alias with the tool `create_alias`.

use anyhow::{Context as _, anyhow};
use clap::Subcommand;
use latchmail_terminal::output::{escape, print_line, print_lines, table, yes_or_no};
use serde_json::{Map, Value, json};

use super::api::{Api, Call};
use super::{print_objects, text};

/// Subcommands of `latchmail mail alias`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the aliases.
    List,
    /// Create an alias. Without a name, the address is random.
    Create {
        /// Domain of the alias.
        domain: String,
        /// Part of the address before the `@`.
        name: Option<String>,
    },
}

pub(super) async fn run(api: &mut Api, command: Command, json: bool) -> anyhow::Result<()> {
    match command {
        Command::List => list(api, json).await,
        Command::Create { domain, name } => create(api, domain, name, json).await,
    }
}

async fn list(api: &mut Api, json: bool) -> anyhow::Result<()> {
    let response = api.json(Call::get("/api/v1/aliases", Vec::new())).await?;
    let aliases = &response["aliases"];
    if json {
        return print_objects(aliases);
    }
    let rows = aliases.as_array().into_iter().flatten().map(|alias| {
        let active = alias["active"].as_bool().unwrap_or(true);
        [
            text(&alias["address"]),
            yes_or_no(active).to_owned(),
            text(&alias["note"]),
        ]
    });
    print_lines(table(["alias", "active", "note"], rows))
}

async fn create(
    api: &mut Api,
    domain: String,
    name: Option<String>,
    json: bool,
) -> anyhow::Result<()> {
    let mut arguments = Map::new();
    arguments.insert("domain".into(), domain.into());
    if let Some(name) = name {
        arguments.insert("name".into(), name.into());
    }
    let created = if api.uses_grant() {
        call_tool(api, "create_alias", arguments).await?
    } else {
        let call = Call::post("/api/v1/aliases", Value::Object(arguments));
        api.json(call).await?
    };
    if json {
        return print_line(&created.to_string());
    }
    print_line(&text(&created["alias"]))
}

/// Returns the address of the account. The credential must be an OAuth token.
pub(super) async fn address(api: &mut Api) -> anyhow::Result<String> {
    let listed = call_tool(api, "list_aliases", Map::new()).await?;
    let address = listed["mailbox"].as_str().map(str::to_owned);
    address.context("the service did not return the address of the account")
}

/// Calls a tool of the agent endpoint.
async fn call_tool(
    api: &mut Api,
    name: &str,
    arguments: Map<String, Value>,
) -> anyhow::Result<Value> {
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": name, "arguments": arguments },
    });
    let response = api.json(Call::post("/mcp", call)).await?;
    tool_result(&response)
}

/// Returns the structured result of a tool.
fn tool_result(response: &Value) -> anyhow::Result<Value> {
    let result = &response["result"];
    if let Some(error) = response["error"]["message"].as_str() {
        return Err(anyhow!("the service refused the alias: {}", escape(error)));
    }
    let first = result["content"][0]["text"].as_str();
    if result["isError"] == true {
        let reason = first.map(escape).unwrap_or_default();
        return Err(anyhow!("the service refused the alias: {reason}"));
    }
    if result["structuredContent"].is_object() {
        return Ok(result["structuredContent"].clone());
    }
    let text = first.context("the response of the service has no result")?;
    serde_json::from_str(text).context("the result of the tool is not JSON")
}
