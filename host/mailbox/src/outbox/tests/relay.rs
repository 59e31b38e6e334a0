//! A submission service that records commands and accepts all but one kind.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::PATIENCE;

/// The submission service.
pub(super) struct Relay {
    pub(super) port: u16,
    told: Arc<Mutex<Vec<String>>>,
    hang_up: watch::Sender<()>,
}

impl Relay {
    /// Returns what was recorded since the last call: commands, and messages without doubled dots.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().unwrap())
    }

    /// Closes all connections.
    pub(super) fn hang_up(&self) {
        self.hang_up.send_replace(());
    }
}

/// Replies with success only after the next command has arrived.
pub(super) const HELD: &str = "held";

/// Rejects the command and closes the connection.
pub(super) const BARRED: &str = "554 5.7.1 barred\r\n";

/// Replies with success after the client's timeout.
pub(super) const LATE: &str = "late";

/// Starts the service. It replies with `answer` to commands that begin with `at`, or closes the connection without a reply if `answer` is empty. `.` is the end
/// of a message.
pub(super) async fn relay(at: &'static str, answer: &'static str) -> Relay {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (hang_up, over) = watch::channel(());
    let relay = Relay {
        port: listener.local_addr().unwrap().port(),
        told: Arc::default(),
        hang_up,
    };
    let told = Arc::clone(&relay.told);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (told, mut over) = (Arc::clone(&told), over.clone());
            over.mark_unchanged();
            tokio::spawn(async move {
                tokio::select! {
                    _ = serve(stream, &told, at, answer) => {}
                    _ = over.changed() => {}
                }
            });
        }
    });
    relay
}

async fn serve(stream: TcpStream, told: &Mutex<Vec<String>>, at: &str, answer: &str) -> Option<()> {
    let mut stream = BufReader::new(stream);
    stream.write_all(b"220 hello\r\n").await.ok()?;
    loop {
        let line = line(&mut stream).await?;
        told.lock().unwrap().push(line.clone());
        if !say(&mut stream, &line, at, answer).await? {
            continue;
        }
        if line == "DATA" {
            let message = message(&mut stream).await?;
            told.lock().unwrap().push(message);
            say(&mut stream, ".", at, answer).await?;
        }
    }
}

/// Replies to a command. Returns `true` if the reply was positive.
async fn say(
    stream: &mut BufReader<TcpStream>,
    line: &str,
    at: &str,
    answer: &str,
) -> Option<bool> {
    let odd = !at.is_empty() && line.starts_with(at);
    let text = match line.split(' ').next()? {
        _ if odd && answer.is_empty() => return None,
        _ if odd && answer == HELD => {
            stream.fill_buf().await.ok()?;
            "250 yes\r\n"
        }
        _ if odd && answer == LATE => {
            tokio::time::sleep(PATIENCE * 2).await;
            "250 yes\r\n"
        }
        _ if odd => answer,
        "EHLO" => {
            "250-here\r\n250-pipelining\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 AUTH PLAIN\r\n"
        }
        "AUTH" => "235 in\r\n",
        "DATA" => "354 go on\r\n",
        _ => "250 yes\r\n",
    };
    stream.write_all(text.as_bytes()).await.ok()?;
    if text == BARRED {
        return None;
    }
    Some(!odd || answer == HELD)
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
