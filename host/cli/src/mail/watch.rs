//! `latchmail mail watch`: prints the events of the mailbox. After an interruption, the stream
//! continues with the event after the last one.

use std::io::Write as _;
use std::time::Duration;

use anyhow::anyhow;
use latchmail_net::event_stream::EventParser;
use latchmail_net::fetch::OpenResponse;
use latchmail_terminal::output::{escape, print_line};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::api::{Api, Call, NOT_SIGNED_IN, SILENCE, UNAVAILABLE};
use crate::exit::Status;

/// The longest wait before another connection is `2^MAX_DOUBLINGS` seconds.
const MAX_DOUBLINGS: u32 = 5;

/// Arguments of `latchmail mail watch`.
#[derive(Debug, clap::Args)]
pub struct Watch {
    /// Path of the only folder whose events are printed [default: all folders].
    #[arg(long, value_name = "PATH")]
    folder: Option<String>,
    /// Types of the events, separated by commas [default: all types].
    #[arg(long, value_name = "TYPES")]
    types: Option<String>,
}

/// The end of a connection.
enum End {
    /// Another connection can succeed.
    Interrupted,
    /// The service ended the stream for this reason.
    Ended(String),
}

pub(super) async fn watch(api: &mut Api, watch: Watch, json: bool) -> anyhow::Result<()> {
    tokio::select! {
        result = print_events(api, &watch, json) => result,
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
    }
}

/// Prints events. Never returns `Ok`.
async fn print_events(api: &mut Api, watch: &Watch, json: bool) -> anyhow::Result<()> {
    let (mut cursor, mut failures) = (None::<String>, 0_u32);
    loop {
        let mut query = Vec::new();
        query.extend(watch.folder.clone().map(|folder| ("folder", folder)));
        query.extend(watch.types.clone().map(|types| ("types", types)));
        let headers: Vec<_> = cursor
            .iter()
            .map(|id| ("last-event-id", id.clone()))
            .collect();
        let response = api
            .open(Call::get("/api/v1/mail/events", query), &headers)
            .await;
        let before = cursor.clone();
        match response {
            Ok(response) => match print_stream(response, json, &mut cursor).await? {
                End::Ended(reason) if reason == "revoked" => {
                    let text = "the credential is not valid any longer";
                    return Err(Status::new(NOT_SIGNED_IN, text).into());
                }
                End::Ended(reason) if reason != "shutdown" => {
                    return Err(anyhow!(
                        "the service has ended the stream: {}",
                        escape(&reason)
                    ));
                }
                End::Ended(_) | End::Interrupted => {}
            },
            // The first connection must succeed.
            Err(error) if cursor.is_none() => return Err(error),
            Err(error) => match error.downcast_ref::<Status>() {
                Some(status) if status.status == UNAVAILABLE => {}
                _ => return Err(error),
            },
        }
        failures = if cursor == before { failures + 1 } else { 0 };
        let _ = writeln!(
            std::io::stderr(),
            "latchmail: the connection was interrupted"
        );
        sleep(Duration::from_secs(1 << failures.min(MAX_DOUBLINGS))).await;
    }
}

async fn print_stream(
    mut response: OpenResponse,
    json: bool,
    cursor: &mut Option<String>,
) -> anyhow::Result<End> {
    let mut parser = EventParser::default();
    loop {
        while let Some(block) = parser.pop() {
            if block.kind == "end" {
                let data: Value = serde_json::from_str(&block.data).unwrap_or_default();
                let reason = data["reason"].as_str().unwrap_or("unknown");
                return Ok(End::Ended(reason.to_owned()));
            }
            if !block.kind.is_empty() {
                print_event(&block.kind, &block.data, json)?;
            }
            if let Some(id) = block.id.filter(|id| !id.is_empty()) {
                *cursor = Some(id);
            }
        }
        let Ok(Ok(Some(chunk))) = timeout(SILENCE, response.chunk()).await else {
            return Ok(End::Interrupted);
        };
        parser.push(&chunk)?;
    }
}

fn print_event(kind: &str, data: &str, json: bool) -> anyhow::Result<()> {
    let event: Value = serde_json::from_str(data)?;
    if json {
        return print_line(&event.to_string());
    }
    let data = &event["data"];
    let uid = data["uid"]
        .as_u64()
        .map(|uid| uid.to_string())
        .unwrap_or_default();
    let folder = data["folder"].as_str().map(escape).unwrap_or_default();
    let time = event["time"].as_str().map(escape).unwrap_or_default();
    print_line(format!("{time} {} {uid} {folder}", escape(kind)).trim_end())
}
