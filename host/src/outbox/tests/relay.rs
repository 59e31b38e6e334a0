//! A submission service that writes down what it is told, and agrees but for one thing.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::PATIENCE;

/// The service.
pub(super) struct Relay {
    pub(super) port: u16,
    told: Arc<Mutex<Vec<String>>>,
    hang_up: watch::Sender<()>,
}

impl Relay {
    /// What it was told since this was asked last: commands, and a message as it was before its dots were doubled.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().unwrap())
    }

    /// Ends every connection there is.
    pub(super) fn hang_up(&self) {
        self.hang_up.send_replace(());
    }
}

/// The answer of one who says nothing before the next command.
pub(super) const HELD: &str = "held";

/// The answer of one who refuses and hangs up.
pub(super) const BARRED: &str = "554 5.7.1 barred\r\n";

/// The answer of one who says yes when nobody waits for it any more.
pub(super) const LATE: &str = "late";

/// Starts one. Where a command begins with `at` it says `answer` instead of yes, or nothing and hangs up where that is empty. `.` is the end of a
/// message.
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

/// Answers a command. Tells whether that was a yes.
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
