//! An IMAP server that records commands and accepts all of them.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The recorded commands, without tags. A literal is shown as `{bytes}`.
#[derive(Clone, Default)]
pub(crate) struct Recorded {
    lines: Arc<Mutex<Vec<String>>>,
    close: Arc<watch::Sender<()>>,
}

impl Recorded {
    /// Returns what was recorded since the last call, without log-ins and commands that open
    /// folders for reading, list them or close them.
    pub(crate) fn take(&self) -> Vec<String> {
        let all = std::mem::take(&mut *self.lines.lock().unwrap());
        let ignored = [
            "AUTHENTICATE",
            "LIST",
            "STATUS",
            "EXAMINE",
            "CAPABILITY",
            "CLOSE",
        ];
        let is_recorded = |line: &String| !ignored.iter().any(|command| line.starts_with(command));
        all.into_iter().filter(is_recorded).collect()
    }

    /// Closes all connections.
    pub(crate) async fn close_connections(&self) {
        self.close.send_replace(());
        self.close.closed().await;
    }
}

/// Starts a server with one message (UID 1 of INBOX, UIDVALIDITY 7) and a Sent folder. It closes
/// the connection at a command that begins with `close_at`. If `literal_plus` is set, the server
/// offers LITERAL+. Returns its port and the recorded commands.
pub(crate) async fn recording_server(
    close_at: &'static str,
    literal_plus: bool,
) -> (u16, Recorded) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let recorded = Recorded::default();
    let recording = recorded.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (recording, mut closing) = (recording.clone(), recording.close.subscribe());
            tokio::spawn(async move {
                tokio::select! {
                    _ = serve(stream, recording, close_at, literal_plus) => {}
                    _ = closing.changed() => {}
                }
            });
        }
    });
    (port, recorded)
}

async fn serve(
    stream: TcpStream,
    recorded: Recorded,
    close_at: &'static str,
    literal_plus: bool,
) -> Option<()> {
    let capabilities = if literal_plus {
        "[CAPABILITY IMAP4rev1 MOVE UIDPLUS LITERAL+] "
    } else {
        "[CAPABILITY IMAP4rev1 MOVE UIDPLUS] "
    };
    let mut stream = BufReader::new(stream);
    let greeting = b"* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=PLAIN] hello\r\n";
    stream.write_all(greeting).await.ok()?;
    loop {
        let line = command(&mut stream).await?;
        let (tag, command) = line.split_once(' ')?;
        recorded.lines.lock().unwrap().push(command.to_owned());
        if !close_at.is_empty() && command.starts_with(close_at) {
            return None;
        }
        let words: Vec<&str> = command.split(' ').collect();
        let (data, code) = match words[..] {
            ["AUTHENTICATE", ..] => ("", capabilities),
            ["LIST", ..] => (
                "* LIST () \"/\" INBOX\r\n* LIST (\\Sent) \"/\" Sent\r\n",
                "",
            ),
            ["STATUS", ..] => (
                "* STATUS INBOX (MESSAGES 1 UNSEEN 0 UIDNEXT 2 UIDVALIDITY 7)\r\n* STATUS Sent (MESSAGES 0 UNSEEN 0 UIDNEXT 1 UIDVALIDITY 8)\r\n",
                "",
            ),
            ["SELECT" | "EXAMINE", ..] => (
                "* 1 EXISTS\r\n* OK [UIDVALIDITY 7] ok\r\n* OK [UIDNEXT 2] ok\r\n* OK [PERMANENTFLAGS (\\Seen \\*)] ok\r\n",
                "",
            ),
            ["UID", "SEARCH", ..] => ("* SEARCH 1\r\n", ""),
            ["UID", "MOVE", ..] => ("* OK [COPYUID 9 1 5] moved\r\n", ""),
            ["APPEND", ..] => ("", "[APPENDUID 8 1] "),
            _ => ("", ""),
        };
        let reply = format!("{data}{tag} OK {code}done\r\n");
        stream.write_all(reply.as_bytes()).await.ok()?;
    }
}

/// Reads a command. Shows its literals in braces.
async fn command(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut command = String::new();
    loop {
        let mut line = Vec::new();
        stream.read_until(b'\n', &mut line).await.ok()?;
        let line = String::from_utf8(line).ok()?;
        let line = line.strip_suffix("\r\n")?;
        let Some((text, length)) = line
            .strip_suffix('}')
            .and_then(|line| line.rsplit_once('{'))
            .filter(|(_, length)| length.starts_with(|c: char| c.is_ascii_digit()))
        else {
            command.push_str(line);
            return Some(command);
        };
        let non_synchronizing = length.strip_suffix('+');
        if non_synchronizing.is_none() {
            stream.write_all(b"+ go on\r\n").await.ok()?;
        }
        let length = non_synchronizing.unwrap_or(length);
        let mut literal = vec![0; length.parse().ok()?];
        stream.read_exact(&mut literal).await.ok()?;
        command.push_str(text);
        command.push('{');
        command.push_str(&String::from_utf8_lossy(&literal));
        command.push('}');
    }
}
