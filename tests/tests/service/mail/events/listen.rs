//! `latchmail listen`: forwards events to a program on this machine.

use std::process::Stdio;

use latchmail_tests::{
    Behaviour, ProgramOutput, Receiver, Service, Setup, TEST_TIMEOUT, append_message, imap, program,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use super::service;

/// A running command. It ends when it is dropped.
struct Listening {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// The secret that the command has printed.
    secret: String,
}

fn command(service: &Service, token: &str, receiver: &str) -> Command {
    let mut command = Command::new(program());
    command.env_clear().env("LATCHMAIL_TOKEN", token).args([
        "listen",
        "--url",
        &service.base,
        "--forward",
        receiver,
    ]);
    command
}

impl Listening {
    /// Starts the command, and waits until it is connected.
    async fn start(service: &Service, token: &str, receiver: &str) -> Self {
        let mut process = command(service, token, receiver)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut listening = Self {
            process,
            lines,
            secret: String::new(),
        };
        let greeting = listening.line().await;
        assert_eq!(
            greeting,
            format!("Forwarding events of {} to {receiver}.", service.base)
        );
        let secret = listening.line().await;
        let secret = secret.strip_prefix("Secret of the signatures: ").unwrap();
        secret.clone_into(&mut listening.secret);
        listening
    }

    async fn line(&mut self) -> String {
        let line = timeout(TEST_TIMEOUT, self.lines.next_line()).await;
        let line = line.expect("the command printed no line").unwrap();
        line.expect("the command has ended")
    }

    /// Waits until the command ends. Returns its exit status and its standard error.
    async fn end(self) -> (Option<i32>, String) {
        let output = timeout(TEST_TIMEOUT, self.process.wait_with_output()).await;
        let output = output.expect("the command did not end").unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), errors)
    }
}

fn text(token: &Value) -> String {
    token["token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_the_events_that_a_webhook_gets() {
    let receiver = Receiver::start().await;
    let setup = Setup::default().with(&receiver.setting()).with_mail();
    let service = setup.start().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let token = ada.token(&["mail:read"]).await;
    let body = json!({ "url": receiver.url("/webhook") });
    ada.post("/api/v1/webhooks", &body).await.succeeds(201);
    let url = receiver.url("/listen");
    let mut listening = Listening::start(&service, &text(&token), &url).await;

    append_message(&mut client, "INBOX", "One").await;
    let forwarded = receiver.wait_for("/listen", 1).await.remove(0);
    let sent = receiver.wait_for("/webhook", 1).await.remove(0);
    assert!(forwarded.is_signed_with(&listening.secret));
    assert_eq!(forwarded.body["id"], *forwarded.id);
    // The ids are cursors, which differ.
    let without_id = |body: &Value| {
        let mut body = body.clone();
        body["id"] = Value::Null;
        body
    };
    assert_eq!(without_id(&forwarded.body), without_id(&sent.body));
    let expected = format!("message.created {} 204", forwarded.id);
    assert_eq!(listening.line().await, expected);

    // A receiver that fails is reported, and the next event follows.
    receiver.behave(Behaviour::Status(500));
    append_message(&mut client, "INBOX", "Two").await;
    let line = listening.line().await;
    assert!(line.ends_with(" 500"), "{line}");
    receiver.behave(Behaviour::Status(204));
    append_message(&mut client, "INBOX", "Three").await;
    let line = listening.line().await;
    assert!(line.ends_with(" 204"), "{line}");
    assert_eq!(receiver.received_at("/listen").len(), 3);

    let id = token["id"].as_str().unwrap();
    ada.send(&format!("DELETE /api/v1/tokens/{id}"))
        .await
        .succeeds(200);
    let (status, errors) = listening.end().await;
    assert_eq!(status, Some(1));
    let expected = "latchmail: the service has ended the stream (revoked): ";
    assert!(errors.starts_with(expected), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_stream_ends_the_command_with_advice() {
    let service = service().await;
    let ada = service.person("ada").await;
    let reads = text(&ada.token(&["mail:read"]).await);
    let sends = text(&ada.token(&["mail:send"]).await);
    for (token, arguments, mention) in [
        ("unknown", &[][..], "401"),
        (sends.as_str(), &[][..], "403"),
        (
            reads.as_str(),
            &["--since", "unknown"][..],
            "without --since",
        ),
        (
            reads.as_str(),
            &["--types", "mail"][..],
            "unknown event type: mail",
        ),
        (
            reads.as_str(),
            &["--folder", "Nowhere"][..],
            "Folder not found",
        ),
    ] {
        let mut command = command(&service, token, "http://127.0.0.1:1/");
        let output = ProgramOutput::of(command.args(arguments), "").await;
        output.fails_mentioning(mention);
    }
    let mut without_token = Command::new(program());
    without_token
        .env_clear()
        .args(["listen", "--forward", "http://127.0.0.1:1/"]);
    let output = ProgramOutput::of(&mut without_token, "").await;
    output.fails_mentioning("LATCHMAIL_TOKEN");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_interruption_the_command_continues_with_the_next_event() {
    let receiver = Receiver::start().await;
    let mut service = Service::with_mail().await;
    let (token, mut client) = {
        let ada = service.person("ada").await;
        (text(&ada.token(&["mail:read"]).await), imap(&ada).await)
    };
    let mut host = service.restart_in_process().await;
    let url = receiver.url("/");
    let mut listening = Listening::start(&service, &token, &url).await;
    append_message(&mut client, "INBOX", "One").await;
    listening.line().await;
    kill_process(host.pid(), Signal::KILL).unwrap();
    append_message(&mut client, "INBOX", "Two").await;
    host.start().await;
    listening.line().await;
    append_message(&mut client, "INBOX", "Three").await;
    listening.line().await;
    let requests = receiver.received();
    let messages = requests.iter().map(|one| &one.body["data"]["uid"]);
    assert_eq!(messages.collect::<Vec<_>>(), [1, 2, 3]);

    let pid = listening.process.id().unwrap().try_into().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::INT).unwrap();
    let (status, errors) = listening.end().await;
    assert_eq!(status, Some(0));
    let last = &requests[2].id;
    assert!(errors.ends_with(&format!("--since {last}\n")), "{errors}");
}
