//! A client that sends arbitrary bytes.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::Service;

/// The longest time that a test waits for a condition, also on a loaded machine.
pub const EVENTUALLY: Duration = Duration::from_secs(30);

/// A connection to a service.
#[derive(Debug)]
pub struct Raw {
    /// The connection itself.
    pub stream: TcpStream,
    came: Vec<u8>,
}

/// A response, byte for byte.
#[derive(Clone, Debug)]
pub struct RawAnswer {
    /// The status.
    pub status: u16,
    /// The head, including its empty line.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Raw {
    /// A new connection to `service`.
    pub async fn to(service: &Service) -> Self {
        Self::of(TcpStream::connect(service.address()).await.unwrap())
    }

    /// A new connection from a local address to another.
    pub async fn between(from: [u8; 4], to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        Self::of(socket.connect(to).await.unwrap())
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            came: Vec::new(),
        }
    }

    /// Sends all bytes.
    pub async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        timeout(EVENTUALLY, self.stream.write_all(bytes.as_ref()))
            .await
            .expect("the service reads all bytes")
            .unwrap();
    }

    /// Sends the bytes, and returns whether the service accepted all of them.
    pub async fn try_to_say(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok()
    }

    /// Shuts down the sending side.
    pub async fn say_no_more(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// The next response; `None` if the service closed the connection without one.
    pub async fn answer(&mut self) -> Option<RawAnswer> {
        let head = loop {
            if let Some(at) = self.came.windows(4).position(|four| four == b"\r\n\r\n") {
                break self.came.drain(..at + 4).collect::<Vec<_>>();
            }
            if !self.more().await {
                let rest = String::from_utf8_lossy(&self.came);
                assert_eq!(rest, "", "the head is incomplete");
                return None;
            }
        };
        let head = String::from_utf8(head).unwrap();
        let status = head
            .strip_prefix("HTTP/1.1 ")
            .or_else(|| head.strip_prefix("HTTP/1.0 "))
            .and_then(|rest| rest.get(..3)?.parse().ok());
        let mut answer = RawAnswer {
            status: status.unwrap_or_else(|| panic!("no answer: {head}")),
            head,
            body: Vec::new(),
        };
        let length = answer
            .header("content-length")
            .map_or(0, |l| l.parse().unwrap());
        while self.came.len() < length {
            assert!(self.more().await, "the body is incomplete");
        }
        answer.body = self.came.drain(..length).collect();
        Some(answer)
    }

    /// All responses until the service closes the connection.
    pub async fn answers(&mut self) -> Vec<RawAnswer> {
        let mut answers = Vec::new();
        while let Some(answer) = self.answer().await {
            answers.push(answer);
        }
        answers
    }

    async fn more(&mut self) -> bool {
        let read = timeout(EVENTUALLY, self.stream.read_buf(&mut self.came))
            .await
            .expect("the service responds or closes")
            .expect("the service does not reset");
        read > 0
    }
}

impl RawAnswer {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (given, value) = line.split_once(": ")?;
            given.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}: no JSON", self.head))
    }

    /// Asserts a failure with exactly this status in the form of the specification, and returns its text.
    #[track_caller]
    pub fn error(&self, status: u16) -> String {
        assert_eq!(
            self.status,
            status,
            "{}{:?}",
            self.head,
            String::from_utf8_lossy(&self.body)
        );
        assert_eq!(self.header("content-type"), Some("application/json"));
        let json = self.json();
        assert_eq!(json.as_object().map(serde_json::Map::len), Some(1));
        json["error"].as_str().unwrap().to_owned()
    }

    /// Whether the response announces the end of the connection.
    pub fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }
}

impl Service {
    /// The address on which the service listens.
    pub fn address(&self) -> SocketAddr {
        self.base.trim_start_matches("http://").parse().unwrap()
    }
}
