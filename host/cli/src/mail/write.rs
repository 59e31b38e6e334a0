//! `latchmail mail send`, `reply` and `move`.

use std::fs;
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_terminal::output::print_line;
use serde_json::{Map, Value, json};

use super::api::{Api, Call, MISUSE};
use super::{alias, text};
use crate::exit::Status;

/// Maximum size of a text on standard input, in bytes.
const MAX_TEXT: u64 = 10 * 1024 * 1024;

/// Arguments of `latchmail mail send`.
#[derive(Debug, clap::Args)]
pub struct Send {
    /// Recipient. Can be repeated.
    #[arg(long, value_name = "ADDRESS", required = true)]
    to: Vec<String>,
    /// Recipient of a copy. Can be repeated.
    #[arg(long, value_name = "ADDRESS")]
    cc: Vec<String>,
    /// Recipient of a copy whom the others do not see. Can be repeated.
    #[arg(long, value_name = "ADDRESS")]
    bcc: Vec<String>,
    /// Subject.
    #[arg(long, default_value = "")]
    subject: String,
    /// Sender: the address of the account or an alias [default: the address of `login`, or of the
    /// account].
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    #[command(flatten)]
    options: Options,
}

/// Arguments of `latchmail mail reply`.
#[derive(Debug, clap::Args)]
pub struct Reply {
    /// Number of the message.
    uid: u64,
    /// Reply to all recipients.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    options: Options,
}

/// Arguments of the commands that send.
#[derive(Debug, clap::Args)]
struct Options {
    /// File to attach. Can be repeated. All files together can have about 3 MB.
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    /// Time at which the message leaves (RFC 3339), at most a year ahead.
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
}

/// Arguments of `latchmail mail move`.
#[derive(Debug, clap::Args)]
pub struct Move {
    /// Numbers of the messages.
    #[arg(required = true)]
    uids: Vec<u64>,
    /// Path of the folder.
    #[arg(long, value_name = "PATH")]
    to: String,
}

pub(super) async fn send(api: &mut Api, send: Send, json: bool) -> anyhow::Result<()> {
    let from = match send.from {
        Some(from) => from,
        None => default_sender(api).await?,
    };
    let mut message = Map::new();
    message.insert("from".into(), from.into());
    for (name, addresses) in [("to", send.to), ("cc", send.cc), ("bcc", send.bcc)] {
        if !addresses.is_empty() {
            message.insert(name.into(), addresses.into());
        }
    }
    message.insert("subject".into(), send.subject.into());
    submit(
        api,
        "/api/v1/mail/send".into(),
        message,
        &send.options,
        json,
    )
    .await
}

pub(super) async fn reply(api: &mut Api, reply: Reply, json: bool) -> anyhow::Result<()> {
    let action = if reply.all { "reply-all" } else { "reply" };
    let path = format!("/api/v1/mail/messages/{}/{action}", reply.uid);
    submit(api, path, Map::new(), &reply.options, json).await
}

/// Adds the text and the files to a message, and sends the message.
async fn submit(
    api: &mut Api,
    path: String,
    mut message: Map<String, Value>,
    options: &Options,
    json: bool,
) -> anyhow::Result<()> {
    message.insert("text".into(), read_text()?.into());
    let files = options.attach.iter().map(|path| attachment(path));
    let files: Vec<Value> = files.collect::<anyhow::Result<_>>()?;
    if !files.is_empty() {
        message.insert("attachments".into(), files.into());
    }
    if let Some(at) = &options.at {
        message.insert("sendAt".into(), at.as_str().into());
    }
    let call = Call {
        once: true,
        ..Call::post(path, Value::Object(message))
    };
    let sent = api.json(call).await?;
    if json {
        return print_line(&sent.to_string());
    }
    print_line(&if sent["outboxId"].is_string() {
        format!("The message leaves at {}.", text(&sent["sendAt"]))
    } else if sent["holdId"].is_string() {
        "The message waits until the owner of the account approves it.".to_owned()
    } else {
        format!("The message is sent: {}", text(&sent["messageId"]))
    })
}

pub(super) async fn move_messages(api: &mut Api, args: Move, json: bool) -> anyhow::Result<()> {
    // The request for several messages skips those that do not exist.
    let call = match &args.uids[..] {
        [uid] => {
            let path = format!("/api/v1/mail/messages/{uid}/move");
            Call::post(path, json!({ "destination": args.to }))
        }
        uids => {
            let body = json!({ "uids": uids, "destination": args.to });
            Call::post("/api/v1/mail/messages/bulk/move", body)
        }
    };
    let moved = api.json(call).await?;
    if json {
        return print_line(&moved.to_string());
    }
    print_line(&format!("Moved: {}", moved["count"].as_u64().unwrap_or(1)))
}

/// Returns the address from which the user sends by default.
async fn default_sender(api: &mut Api) -> anyhow::Result<String> {
    if api.uses_grant()
        && let Some(grant) = api.store.load(api.base()).await?
        && let Some(address) = grant.address
    {
        return Ok(address);
    }
    if api.uses_grant() {
        return alias::address(api).await;
    }
    // Only some API tokens can read the profile.
    if let Ok(profile) = api.json(Call::get("/api/v1/profile", Vec::new())).await
        && let Some(address) = profile["email"].as_str()
    {
        return Ok(address.to_owned());
    }
    let text = "--from is missing: the token cannot read the address of the account";
    Err(Status::new(MISUSE, text).into())
}

fn read_text() -> anyhow::Result<String> {
    let input = std::io::stdin();
    if input.is_terminal() {
        let _ = writeln!(std::io::stderr(), "Type the text, and end it with Ctrl-D:");
    }
    let mut text = String::new();
    let read = input.lock().take(MAX_TEXT).read_to_string(&mut text);
    read.context("cannot read the text from standard input")?;
    Ok(text)
}

fn attachment(path: &Path) -> anyhow::Result<Value> {
    let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| anyhow!("{} has no file name", path.display()))?;
    Ok(json!({ "filename": name, "content": STANDARD.encode(content) }))
}
