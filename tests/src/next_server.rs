//! The mail server to which Postfix passes outgoing mail, with chosen replies.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A mail server that accepts all mail, except for recipients with another reply.
#[derive(Clone, Debug)]
pub struct NextServer {
    /// The address on which it listens.
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the server offers delivery reports (RFC 3461).
    dsn: bool,
    /// The replies to RCPT, by local part.
    replies: BTreeMap<String, String>,
    commands: Vec<String>,
}

impl NextServer {
    /// Starts the server.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::default(),
        };
        let state = Arc::clone(&server.state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&state)));
            }
        });
        server
    }

    /// Sets whether the server offers delivery reports.
    pub fn offer_reports(&self, offered: bool) {
        self.state.lock().unwrap().dsn = offered;
    }

    /// Sets the reply to RCPT for a local part, for example `450 4.2.0 later`.
    pub fn reply(&self, local_part: &str, reply: &str) {
        let mut state = self.state.lock().unwrap();
        state.replies.insert(local_part.into(), reply.into());
    }

    /// Returns the commands that the server received.
    pub fn commands(&self) -> Vec<String> {
        self.state.lock().unwrap().commands.clone()
    }
}

async fn serve(stream: TcpStream, state: Arc<Mutex<State>>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    stream.write_all(b"220 next.test ESMTP\r\n").await.ok()?;
    loop {
        let command = line(&mut stream).await?;
        state.lock().unwrap().commands.push(command.clone());
        let upper = command.to_ascii_uppercase();
        let reply = match upper.split([' ', ':']).next().unwrap_or_default() {
            "EHLO" if state.lock().unwrap().dsn => "250-next.test\r\n250 DSN".into(),
            "EHLO" => "250 next.test".into(),
            "RCPT" => {
                let address = command.split(['<', '@']).nth(1).unwrap_or_default();
                let state = state.lock().unwrap();
                let reply = state.replies.get(address).cloned();
                reply.unwrap_or_else(|| "250 2.1.5 accepted".into())
            }
            "DATA" => "354 go on".into(),
            "QUIT" => "221 2.0.0 bye".into(),
            _ => "250 2.0.0 accepted".into(),
        };
        stream
            .write_all(format!("{reply}\r\n").as_bytes())
            .await
            .ok()?;
        if upper == "DATA" {
            while line(&mut stream).await? != "." {}
            stream.write_all(b"250 2.0.0 accepted\r\n").await.ok()?;
        }
    }
}

async fn line(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let length = stream.read_line(&mut line).await.ok()?;
    (length > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
}
