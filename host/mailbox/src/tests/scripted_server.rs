//! A scripted IMAP server.

use std::time::Duration;

use latchmail_directory::message_index::MessageIndex;
use latchmail_directory::testing::on_sqlite;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

use super::config;
use crate::Mail;

/// A reply to lines that contain `on`.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) on: &'static str,
    /// The reply. `{tag}` is replaced by the tag of the line.
    pub(super) reply: &'static str,
    /// `true` if the server closes the connection after the reply.
    pub(super) close: bool,
    /// `true` if the step is used only once per connection.
    once: bool,
}

pub(super) const fn reply_to(on: &'static str, reply: &'static str) -> Step {
    Step {
        on,
        reply,
        close: false,
        once: false,
    }
}

pub(super) const fn reply_once_to(on: &'static str, reply: &'static str) -> Step {
    Step {
        once: true,
        ..reply_to(on, reply)
    }
}

pub(super) const fn reply_and_close(on: &'static str, reply: &'static str) -> Step {
    Step {
        close: true,
        ..reply_to(on, reply)
    }
}

/// Starts a server. On every connection it sends the greeting, and for each line the reply of the
/// first matching step. Returns the port.
pub(super) async fn scripted_server(greeting: &'static str, steps: Vec<Step>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut steps = steps.clone();
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                stream
                    .get_mut()
                    .write_all(greeting.as_bytes())
                    .await
                    .unwrap();
                let mut line = String::new();
                while stream.read_line(&mut line).await.is_ok_and(|n| n > 0) {
                    let tag = line.split(' ').next().unwrap_or_default();
                    // The server does not support Dovecot's X-GUID.
                    if line.contains("STATUS INBOX (X-GUID)") {
                        let bad = format!("{tag} BAD what?\r\n");
                        stream.get_mut().write_all(bad.as_bytes()).await.unwrap();
                        line.clear();
                        continue;
                    }
                    if let Some(index) = steps.iter().position(|step| line.contains(step.on)) {
                        let step = steps[index];
                        if step.once {
                            steps.remove(index);
                        }
                        let reply = step.reply.replace("{tag}", tag);
                        if stream.get_mut().write_all(reply.as_bytes()).await.is_err() || step.close
                        {
                            return;
                        }
                    }
                    line.clear();
                }
            });
        }
    });
    port
}

/// Runs `test` for the account `ada` with a scripted server. The timeout is half a second.
pub(super) async fn with_scripted_server<T: Send + 'static, F>(
    greeting: &'static str,
    steps: Vec<Step>,
    test: impl FnOnce(Mail, MessageIndex) -> F + Send + 'static,
) -> T
where
    F: Future<Output = T> + Send + 'static,
{
    let port = scripted_server(greeting, steps).await;
    let (sender, mut results) = tokio::sync::mpsc::channel(1);
    on_sqlite(async move |fresh| {
        fresh.directory.with("ada", "ada@example.org", &[]).await;
        let config = latchmail_core::config::Imap {
            timeout: Duration::from_millis(500),
            ..config(port)
        };
        let message_index = &fresh.directory.message_index;
        let mail = Mail::new(&config, fresh.directory.clone()).unwrap();
        let result = test(mail, message_index.clone()).await;
        assert!(sender.send(result).await.is_ok());
    })
    .await
    .unwrap();
    results.recv().await.unwrap()
}
