//! `latchmail mail list`, `search` and `read`.

use std::io::Write as _;

use anyhow::Context as _;
use latchmail_terminal::output::{escape, print_line, print_lines, table};
use serde_json::Value;

use super::api::{Api, Call, segment};
use super::{print_objects, text};

/// Maximum number of messages of one request.
const MAX_PAGE: u32 = 100;

/// Arguments of `latchmail mail list`.
#[derive(Debug, clap::Args)]
pub struct List {
    /// Path of the folder.
    #[arg(default_value = "INBOX")]
    folder: String,
    /// List the folders instead of messages.
    #[arg(long, conflicts_with_all = ["unread", "flagged"])]
    folders: bool,
    /// List only unread messages.
    #[arg(long)]
    unread: bool,
    /// List only flagged messages.
    #[arg(long)]
    flagged: bool,
    /// Maximum number of messages.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: u32,
}

/// Arguments of `latchmail mail search`.
#[derive(Debug, clap::Args)]
pub struct Search {
    /// Words and operators, for example `from:ada invoice`.
    query: String,
    /// Path of the folder. `*` searches all folders.
    #[arg(long, value_name = "PATH", default_value = "*")]
    folder: String,
    /// Maximum number of messages, at most 100.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
}

/// Arguments of `latchmail mail read`.
#[derive(Debug, clap::Args)]
pub struct Read {
    /// Number of the message.
    uid: u64,
    /// Print the message in its stored form (RFC 5322).
    #[arg(long)]
    raw: bool,
    /// Write the attachment with this index, from 0, to standard output.
    #[arg(long, value_name = "INDEX", conflicts_with = "raw")]
    attachment: Option<u32>,
}

pub(super) async fn list(api: &mut Api, list: List, json: bool) -> anyhow::Result<()> {
    if list.folders {
        return list_folders(api, json).await;
    }
    let path = format!("/api/v1/mail/folders/{}/messages", segment(&list.folder));
    let (mut remaining, mut cursor) = (list.limit, None);
    let mut messages = Vec::new();
    while remaining > 0 {
        let mut query = vec![("limit", remaining.min(MAX_PAGE).to_string())];
        query.extend(list.unread.then(|| ("unread", "true".to_owned())));
        query.extend(list.flagged.then(|| ("flagged", "true".to_owned())));
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let mut page = api.json(Call::get(path.clone(), query)).await?;
        let Some(Value::Array(found)) = page.get_mut("messages").map(Value::take) else {
            break;
        };
        remaining = remaining.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
        messages.extend(found);
        match page["nextCursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    print_messages(&Value::Array(messages), json)
}

async fn list_folders(api: &mut Api, json: bool) -> anyhow::Result<()> {
    let response = api
        .json(Call::get("/api/v1/mail/folders", Vec::new()))
        .await?;
    let folders = &response["folders"];
    if json {
        return print_objects(folders);
    }
    let rows = folders.as_array().into_iter().flatten().map(|folder| {
        let number = |name: &str| folder[name].as_u64().unwrap_or(0).to_string();
        [text(&folder["path"]), number("messages"), number("unseen")]
    });
    print_lines(table(["folder", "messages", "unread"], rows))
}

pub(super) async fn search(api: &mut Api, search: Search, json: bool) -> anyhow::Result<()> {
    let query = vec![
        ("q", search.query),
        ("folder", search.folder),
        ("limit", search.limit.to_string()),
    ];
    let page = api.json(Call::get("/api/v1/mail/search", query)).await?;
    print_messages(&page["messages"], json)
}

pub(super) async fn read(api: &mut Api, read: Read, json: bool) -> anyhow::Result<()> {
    let message = format!("/api/v1/mail/messages/{}", read.uid);
    let download = match read.attachment {
        Some(index) => Some(format!("{message}/attachments/{index}")),
        None => read.raw.then(|| format!("{message}/raw")),
    };
    if let Some(path) = download {
        let bytes = api.bytes(Call::get(path, Vec::new())).await?;
        let mut output = std::io::stdout();
        let written = output.write_all(&bytes).and_then(|()| output.flush());
        return written.context("cannot write to standard output");
    }
    let message = api.json(Call::get(message, Vec::new())).await?;
    if json {
        return print_line(&message.to_string());
    }
    print_lines(lines(&message))
}

/// Returns a message for a terminal. The text comes from the sender, so control characters are
/// escaped.
fn lines(message: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, value) in [
        ("From", addresses(&message["from"])),
        ("To", addresses(&message["to"])),
        ("Cc", addresses(&message["cc"])),
        ("Date", text(&message["date"])),
        ("Subject", text(&message["subject"])),
    ] {
        if !value.is_empty() {
            lines.push(format!("{name}: {value}"));
        }
    }
    for (index, attachment) in message["attachments"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let size = attachment["size"].as_u64().unwrap_or(0);
        let name = text(&attachment["filename"]);
        lines.push(format!("Attachment {index}: {name} ({size} bytes)"));
    }
    lines.push(String::new());
    match message["text"]
        .as_str()
        .or_else(|| message["newText"].as_str())
    {
        Some(body) => lines.extend(body.lines().map(escape_line)),
        None => lines.push("(The message has no plain text; see --raw.)".to_owned()),
    }
    lines
}

fn escape_line(line: &str) -> String {
    escape(&line.replace('\t', "    "))
}

fn print_messages(messages: &Value, json: bool) -> anyhow::Result<()> {
    if json {
        return print_objects(messages);
    }
    let rows = messages.as_array().into_iter().flatten().map(|message| {
        let flags = message["flags"].as_array().into_iter().flatten();
        let has = |flag: &str| flags.clone().any(|one| one == flag);
        let unread = if has("\\Seen") { "" } else { "new" };
        [
            message["uid"].as_u64().unwrap_or(0).to_string(),
            unread.to_owned(),
            text(&message["date"]).chars().take(16).collect(),
            addresses(&message["from"]),
            text(&message["subject"]),
        ]
    });
    print_lines(table(["uid", "", "date", "from", "subject"], rows))
}

/// Returns a list of addresses, with the display names if there are any.
fn addresses(list: &Value) -> String {
    let list = list.as_array().into_iter().flatten();
    let names: Vec<String> = list
        .map(|one| match (text(&one["name"]), text(&one["address"])) {
            (name, address) if name.is_empty() => address,
            (name, address) => format!("{name} <{address}>"),
        })
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_cannot_change_the_terminal() {
        let message = json!({
            "from": [{ "name": "A\u{1b}[2J", "address": "a@example.org" }],
            "to": [], "cc": [], "date": "2026-11-30T08:00:00.000Z", "subject": "b\nc",
            "text": "one\r\ntwo\u{7}\tthree",
            "attachments": [{ "filename": "f", "size": 3 }],
        });
        let expected = [
            "From: A\\u{1b}[2J <a@example.org>",
            "Date: 2026-11-30T08:00:00.000Z",
            "Subject: b\\u{a}c",
            "Attachment 0: f (3 bytes)",
            "",
            "one",
            "two\\u{7}    three",
        ];
        assert_eq!(lines(&message), expected);
    }
}
