//! The programs in `docs/examples` keep a copy of a mailbox.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchmail_core::config::Listen;
use latchmail_tests::process::{free_address, signal_tree};
use latchmail_tests::{
    Content, Model, PASSWORD, Person, TEST_TIMEOUT, append_message, imap, message_with_subject,
    tools_folder,
};
use rustix::process::{Pid, Signal};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::service;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples");

/// A running follower. It ends when it is dropped.
struct Follower {
    process: Child,
    /// The last line that it has printed.
    last: Arc<Mutex<String>>,
}

impl Follower {
    /// Starts a follower of a mailbox. `script` is `follow.py` or `follow.ts`.
    async fn start(script: &str, person: &Person<'_>) -> Self {
        let body = json!({ "label": "follower", "scopes": ["mail:read"], "expiresInDays": 365 });
        let token = person.post("/api/v1/tokens", &body).await.succeeds(201);
        let interpreter = match script {
            "follow.py" => "clients/python/bin/python",
            _ => "guests/bin/node",
        };
        let mut process = Command::new(tools_folder().join(interpreter))
            .arg(format!("{EXAMPLES}/{script}"))
            .arg(&person.service.base)
            .env("LATCHMAIL_TOKEN", token["token"].as_str().unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let last = Arc::<Mutex<String>>::default();
        let printed = Arc::clone(&last);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                *printed.lock().unwrap() = line;
            }
        });
        Self { process, last }
    }

    fn content(&self) -> Option<Content> {
        serde_json::from_str(&self.last.lock().unwrap()).ok()
    }

    /// Waits until the copy has this content.
    async fn wait_for(&self, expected: &Content) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while self.content().as_ref() != Some(expected) && Instant::now() < deadline {
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(self.content().as_ref(), Some(expected));
    }

    /// The interpreter can be a child of a script.
    fn signal(&self, signal: Signal) {
        let id = self.process.id().and_then(|id| id.try_into().ok());
        if let Some(pid) = id.and_then(Pid::from_raw) {
            signal_tree(pid, signal);
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

async fn assert_follows(script: &str) {
    let service = service().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let mut model = Model::of(&mut client, 41).await;
    for _ in 0..40 {
        model.change(&mut client).await;
    }
    // The first changes can happen during the listing.
    let follower = Follower::start(script, &ada).await;
    for _ in 0..3 {
        for _ in 0..30 {
            model.change(&mut client).await;
        }
        let expected = ada.content_equal_to_imap(&mut client).await;
        follower.wait_for(&expected).await;
    }
    ada.receive(&message_with_subject("Delivered")).await;
    follower.wait_for(&ada.content().await).await;
}

/// While the follower sleeps, the service restarts, and the changes after the follower's cursor are
/// deleted.
async fn assert_lists_again(script: &str) {
    let mut service = service().await;
    let address = Listen::Tcp(free_address());
    service.restart_with(|config| config.listen = address).await;
    let (address, mut client, follower) = {
        let ada = service.person("ada").await;
        let mut client = imap(&ada).await;
        append_message(&mut client, "INBOX", "One").await;
        let follower = Follower::start(script, &ada).await;
        follower.wait_for(&ada.content().await).await;
        (ada.address, client, follower)
    };
    follower.signal(Signal::STOP);
    service.restart().await;
    append_message(&mut client, "INBOX", "Two").await;
    let ada = Person::sign_in(&service, &address, PASSWORD).await;
    assert_eq!(ada.uids("INBOX").await.len(), 2);
    service.clock.advance(Duration::from_hours(24 * 60));
    let directory = &service.app().directory;
    directory.sweep(service.clock.now()).await.unwrap();
    let ada = ada.sign_in_again().await;
    follower.signal(Signal::CONT);
    follower.wait_for(&ada.content().await).await;
    // The new copy is followed.
    append_message(&mut client, "Archive", "Three").await;
    follower.wait_for(&ada.content().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_follower_in_python_has_the_mailbox() {
    assert_follows("follow.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_follower_in_typescript_has_the_mailbox() {
    assert_follows("follow.ts").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_follower_in_python_lists_again_after_its_cursor_has_expired() {
    assert_lists_again("follow.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_follower_in_typescript_lists_again_after_its_cursor_has_expired() {
    assert_lists_again("follow.ts").await;
}
