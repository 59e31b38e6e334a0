//! `latchmail listen`: forwards the events of an account to a program on this machine, as the
//! service sends events to webhooks. The command is a client of the API: it reads the stream of
//! events with a token, and needs neither the configuration nor the database.

mod interruption;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use http::{StatusCode, Uri, header};
use latchmail_callbacks::Relay;
use latchmail_core::config;
use latchmail_net::dns::Dns;
use latchmail_net::event_stream::{Block, EventParser};
use latchmail_net::fetch::{Fetch, Hosts, OpenResponse, Request, Target};
use latchmail_terminal::input::read_secret;
use latchmail_terminal::output::{escape, print_line};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use tokio::time::{sleep, timeout};
use url::form_urlencoded;

use interruption::Interruption;

/// The variable with the credential.
const TOKEN: &str = "LATCHMAIL_TOKEN";
/// The variable with the secret of the signatures.
const SECRET: &str = "LATCHMAIL_WEBHOOK_SECRET";
/// The time without data after which a connection is broken. Without events, the service sends its
/// cursor every 20 seconds.
const SILENCE: Duration = Duration::from_mins(1);
/// Maximum size of an error response, in bytes.
const MAX_ERROR: usize = 16 * 1024;
/// The longest wait before another connection is `2^MAX_DOUBLINGS` seconds.
const MAX_DOUBLINGS: u32 = 5;

/// Arguments of `latchmail listen`.
#[derive(Debug, clap::Args)]
pub struct ListenArgs {
    /// URL of the program that receives the events, for example `http://localhost:3000/hook`.
    #[arg(long, value_name = "URL")]
    forward: String,
    /// URL of the service.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// Path of the only folder whose events are forwarded [default: all folders].
    #[arg(long, value_name = "PATH")]
    folder: Option<String>,
    /// Types of the events that are forwarded, separated by commas [default: all types].
    #[arg(long, value_name = "TYPES")]
    types: Option<String>,
    /// Cursor after which the events begin [default: the next event].
    #[arg(long, value_name = "CURSOR")]
    since: Option<String>,
}

/// Forwards events until SIGINT.
///
/// # Errors
/// Returns an error if the service refuses or ends the stream, or if the first connection fails.
/// The error says what to do.
pub async fn run(args: ListenArgs) -> anyhow::Result<()> {
    let environment = config::environment();
    let variable = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    let token = match variable(TOKEN) {
        Some(token) => SecretString::from(token.as_str()),
        None => read_secret("Token: ")
            .with_context(|| format!("a token is needed, in {TOKEN} or in standard input"))?,
    };
    let secret = variable(SECRET).map(String::as_str);
    let mut listener = Listener::new(args, token, secret)?;
    tokio::select! {
        result = listener.run() => result,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            if let Some(cursor) = &listener.cursor {
                report(&format!("to continue with the next event: --since {}", escape(cursor)));
            }
            Ok(())
        }
    }
}

/// Prints a sentence to standard error. Ignores write errors.
fn report(sentence: &str) {
    let _ = writeln!(std::io::stderr(), "latchmail: {sentence}");
}

struct Listener {
    fetch: Fetch,
    /// The service.
    hosts: Hosts,
    /// The URL of the stream with its parameters.
    stream: String,
    token: SecretString,
    relay: Relay,
    /// The lines that are printed after the first connection.
    greeting: Option<String>,
    /// The cursor after the last forwarded event.
    cursor: Option<String>,
    /// The number of connections since the last one that received data.
    failures: u32,
}

impl Listener {
    fn new(args: ListenArgs, token: SecretString, secret: Option<&str>) -> anyhow::Result<Self> {
        // The name of a mail server is not used.
        let dns = Dns::new(&config::Dns::default(), "localhost")?;
        let fetch = Fetch::new(Arc::new(dns))?;
        let relay = Relay::new(fetch.clone(), &args.forward, secret)
            .context("--forward or LATCHMAIL_WEBHOOK_SECRET is not valid")?;
        let stream = stream_url(&args);
        let target = stream.parse::<Uri>().ok();
        let target = target.and_then(|uri| Target::of(&uri));
        let target = target.ok_or_else(|| anyhow!("--url is not an http or https URL"))?;
        let mut greeting = format!(
            "Forwarding events of {target} to {}.",
            escape(&args.forward)
        );
        if secret.is_none() {
            greeting.push_str("\nSecret of the signatures: ");
            greeting.push_str(relay.secret());
        }
        Ok(Self {
            fetch,
            hosts: Hosts::only(target),
            stream,
            token,
            relay,
            greeting: Some(greeting),
            cursor: args.since,
            failures: 0,
        })
    }

    /// Forwards events. Connects again after an interruption. Never returns `Ok`.
    async fn run(&mut self) -> anyhow::Result<()> {
        loop {
            let interruption = match self.connect().await {
                Ok(response) => self.forward_all(response).await,
                Err(interruption) => interruption,
            };
            let reason = match interruption {
                Interruption::Temporary(reason) if self.greeting.is_none() => reason,
                Interruption::Temporary(reason) => return Err(anyhow!(reason)),
                Interruption::Final(error) => return Err(error),
            };
            let wait = Duration::from_secs(1 << self.failures.min(MAX_DOUBLINGS));
            self.failures += 1;
            let seconds = wait.as_secs();
            report(&format!("{reason}; connecting again in {seconds} s"));
            sleep(wait).await;
        }
    }

    async fn connect(&mut self) -> Result<OpenResponse, Interruption> {
        let bearer = format!("Bearer {}", self.token.expose_secret());
        let mut headers = vec![
            ("accept".into(), "text/event-stream".into()),
            ("authorization".into(), bearer),
        ];
        if let Some(cursor) = &self.cursor {
            headers.push(("last-event-id".into(), cursor.clone()));
        }
        let request = Request {
            method: "GET".into(),
            url: self.stream.clone(),
            headers,
            ..Request::default()
        };
        let response = self.fetch.open(&self.hosts, request).await;
        let mut response =
            response.map_err(|error| Interruption::Temporary(escape(&error.to_string())))?;
        if response.status != StatusCode::OK {
            let text = error_text(&mut response).await;
            return Err(interruption::of_status(response.status, &text));
        }
        let media = response.headers.get(header::CONTENT_TYPE);
        if media.is_none_or(|media| !media.as_bytes().starts_with(b"text/event-stream")) {
            return Err(Interruption::Final(anyhow!(
                "--url is not the URL of a Latchmail service: the response is not a stream of events"
            )));
        }
        Ok(response)
    }

    /// Forwards the events of a stream, one after another. Returns the reason of its end.
    async fn forward_all(&mut self, mut response: OpenResponse) -> Interruption {
        let mut parser = EventParser::default();
        loop {
            while let Some(block) = parser.pop() {
                if block.kind == "end" {
                    return interruption::of_end(&block.data);
                }
                if let Err(error) = self.handle(block).await {
                    return Interruption::Final(error);
                }
            }
            let chunk = match timeout(SILENCE, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None) | Err(_)) => {
                    return Interruption::Temporary("the connection was interrupted".into());
                }
                Err(_) => {
                    let seconds = SILENCE.as_secs();
                    return Interruption::Temporary(format!("no data for {seconds} s"));
                }
            };
            if let Err(error) = parser.push(&chunk) {
                return Interruption::Final(error.into());
            }
        }
    }

    async fn handle(&mut self, block: Block) -> anyhow::Result<()> {
        if let Some(greeting) = self.greeting.take() {
            print_line(&greeting)?;
        }
        self.failures = 0;
        let id = block.id.unwrap_or_default();
        if !block.kind.is_empty() {
            // The body of a webhook is written by the same serializer.
            let event: Value =
                serde_json::from_str(&block.data).context("an event of the service is not JSON")?;
            let outcome = match self.relay.send(&id, &event.to_string()).await {
                Ok(status) => status.as_u16().to_string(),
                Err(reason) => format!("failed: {reason}"),
            };
            print_line(&format!(
                "{} {} {outcome}",
                escape(&block.kind),
                escape(&id)
            ))?;
        }
        if !id.is_empty() {
            self.cursor = Some(id);
        }
        Ok(())
    }
}

/// Returns the URL of the stream.
fn stream_url(args: &ListenArgs) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in [("folder", &args.folder), ("types", &args.types)] {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    let base = args.url.trim_end_matches('/');
    format!("{base}/api/v1/mail/events?{}", query.finish())
}

/// Returns the text of an error response. Returns an empty text if there is none.
async fn error_text(response: &mut OpenResponse) -> String {
    let mut body = Vec::new();
    while let Ok(Ok(Some(chunk))) = timeout(SILENCE, response.chunk()).await {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_ERROR {
            return String::new();
        }
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    body["error"].as_str().map(escape).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_the_stream_has_the_given_parameters() {
        let args = |url: &str, folder: Option<&str>, types: Option<&str>| ListenArgs {
            forward: "http://localhost:3000/".into(),
            url: url.into(),
            folder: folder.map(Into::into),
            types: types.map(Into::into),
            since: None,
        };
        assert_eq!(
            stream_url(&args("https://mail.example/", None, None)),
            "https://mail.example/api/v1/mail/events?"
        );
        let both = args(
            "http://127.0.0.1:1",
            Some("Work/Ä"),
            Some("message.created"),
        );
        assert_eq!(
            stream_url(&both),
            "http://127.0.0.1:1/api/v1/mail/events?folder=Work%2F%C3%84&types=message.created"
        );
    }
}
