//! A submission service that records commands. It accepts all commands except one kind.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::TIMEOUT;

/// The submission service.
pub(super) struct SmtpServer {
    pub(super) port: u16,
    recorded: Arc<Mutex<Vec<String>>>,
    close: watch::Sender<()>,
}

impl SmtpServer {
    /// Returns what was recorded since the last call: commands, and messages without doubled dots.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.recorded.lock().unwrap())
    }

    /// Closes all connections.
    pub(super) fn close_connections(&self) {
        self.close.send_replace(());
    }
}

/// A reply that is sent, with success, only after the next command has arrived.
pub(super) const WAIT_FOR_NEXT: &str = "wait for next";

/// A reply that rejects the command. The server then closes the connection.
pub(super) const REJECT_AND_CLOSE: &str = "554 5.7.1 barred\r\n";

/// A reply that is sent, with success, after the client's timeout.
pub(super) const LATE: &str = "late";

/// Starts the service. It sends `reply` to commands that begin with `at`. If `reply` is empty, it
/// closes the connection instead. The command `.` is the end of a message.
pub(super) async fn smtp_server(at: &'static str, reply: &'static str) -> SmtpServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (close, closing) = watch::channel(());
    let server = SmtpServer {
        port: listener.local_addr().unwrap().port(),
        recorded: Arc::default(),
        close,
    };
    let recorded = Arc::clone(&server.recorded);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (recorded, mut closing) = (Arc::clone(&recorded), closing.clone());
            closing.mark_unchanged();
            tokio::spawn(async move {
                tokio::select! {
                    _ = serve(stream, &recorded, at, reply) => {}
                    _ = closing.changed() => {}
                }
            });
        }
    });
    server
}

async fn serve(
    stream: TcpStream,
    recorded: &Mutex<Vec<String>>,
    at: &str,
    reply: &str,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    stream.write_all(b"220 hello\r\n").await.ok()?;
    loop {
        let line = line(&mut stream).await?;
        recorded.lock().unwrap().push(line.clone());
        if !send_reply(&mut stream, &line, at, reply).await? {
            continue;
        }
        if line == "DATA" {
            let message = message(&mut stream).await?;
            recorded.lock().unwrap().push(message);
            send_reply(&mut stream, ".", at, reply).await?;
        }
    }
}

/// Replies to a command. Returns `true` if the reply was positive.
async fn send_reply(
    stream: &mut BufReader<TcpStream>,
    line: &str,
    at: &str,
    reply: &str,
) -> Option<bool> {
    let matches = !at.is_empty() && line.starts_with(at);
    let text = match line.split(' ').next()? {
        _ if matches && reply.is_empty() => return None,
        _ if matches && reply == WAIT_FOR_NEXT => {
            stream.fill_buf().await.ok()?;
            "250 yes\r\n"
        }
        _ if matches && reply == LATE => {
            tokio::time::sleep(TIMEOUT * 2).await;
            "250 yes\r\n"
        }
        _ if matches => reply,
        "EHLO" => {
            "250-here\r\n250-pipelining\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 AUTH PLAIN\r\n"
        }
        "AUTH" => "235 in\r\n",
        "DATA" => "354 go on\r\n",
        _ => "250 yes\r\n",
    };
    stream.write_all(text.as_bytes()).await.ok()?;
    if text == REJECT_AND_CLOSE {
        return None;
    }
    Some(!matches || reply == WAIT_FOR_NEXT)
}

async fn line(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let length = stream.read_line(&mut line).await.ok()?;
    (length > 0).then(|| line.trim_end_matches("\r\n").to_owned())
}

async fn message(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut message = String::new();
    loop {
        let line = line(stream).await?;
        if line == "." {
            return Some(message);
        }
        message.push_str(line.strip_prefix('.').unwrap_or(&line));
        message.push_str("\r\n");
    }
}
