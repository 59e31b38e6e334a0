//! A client that sends arbitrary bytes.

use std::net::SocketAddr;

use latchmail_core::codes;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::{Service, TEST_TIMEOUT};

/// A connection to a service.
#[derive(Debug)]
pub struct RawClient<S = TcpStream> {
    /// The connection itself.
    pub stream: S,
    received: Vec<u8>,
}

/// A response, byte for byte.
#[derive(Clone, Debug)]
pub struct RawResponse {
    /// The status.
    pub status: u16,
    /// The head, including its empty line.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl RawClient {
    /// Connects to `service`.
    pub async fn connect(service: &Service) -> Self {
        Self::of(TcpStream::connect(service.address()).await.unwrap())
    }

    /// Connects from a local address to another address.
    pub async fn connect_from(from: [u8; 4], to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        Self::of(socket.connect(to).await.unwrap())
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> RawClient<S> {
    /// Uses a connection.
    pub fn over(stream: S) -> Self {
        Self {
            stream,
            received: Vec::new(),
        }
    }

    /// Sends all bytes.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        timeout(TEST_TIMEOUT, self.stream.write_all(bytes.as_ref()))
            .await
            .expect("timeout: the service does not read all bytes")
            .unwrap();
    }

    /// Sends the bytes, and returns whether the service accepted all of them.
    pub async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok()
    }

    /// Shuts down the sending side.
    pub async fn shut_down_sending(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Returns the next response; `None` if the service closed the connection without one.
    pub async fn response(&mut self) -> Option<RawResponse> {
        let head = loop {
            if let Some(at) = self
                .received
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
            {
                break self.received.drain(..at + 4).collect::<Vec<_>>();
            }
            if !self.read_more().await {
                let rest = String::from_utf8_lossy(&self.received);
                assert_eq!(rest, "", "the head is incomplete");
                return None;
            }
        };
        let head = String::from_utf8(head).unwrap();
        let status = head
            .strip_prefix("HTTP/1.1 ")
            .or_else(|| head.strip_prefix("HTTP/1.0 "))
            .and_then(|rest| rest.get(..3)?.parse().ok());
        let mut answer = RawResponse {
            status: status.unwrap_or_else(|| panic!("no answer: {head}")),
            head,
            body: Vec::new(),
        };
        let length = answer
            .header("content-length")
            .map_or(0, |l| l.parse().unwrap());
        while self.received.len() < length {
            assert!(self.read_more().await, "the body is incomplete");
        }
        answer.body = self.received.drain(..length).collect();
        Some(answer)
    }

    /// Returns all responses until the service closes the connection.
    pub async fn responses(&mut self) -> Vec<RawResponse> {
        let mut answers = Vec::new();
        while let Some(answer) = self.response().await {
            answers.push(answer);
        }
        answers
    }

    async fn read_more(&mut self) -> bool {
        let read = timeout(TEST_TIMEOUT, self.stream.read_buf(&mut self.received))
            .await
            .expect("timeout: the service neither responds nor closes the connection")
            .expect("the service reset the connection");
        read > 0
    }
}

impl RawResponse {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (given, value) = line.split_once(": ")?;
            given.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Returns the body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}: no JSON", self.head))
    }

    /// Asserts a failure with exactly this status in the form `{"error": text, "code": code}`, and
    /// returns its text.
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
        assert_eq!(json.as_object().map(serde_json::Map::len), Some(2));
        let text = json["error"].as_str().unwrap();
        let known = codes::known(json["code"].as_str().unwrap());
        assert!(
            known.is_some_and(|known| known.allows(status, text)),
            "{json}"
        );
        text.to_owned()
    }

    /// Returns whether the response announces that the connection is closed.
    pub fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }
}

impl Service {
    /// Returns the address on which the service listens.
    pub fn address(&self) -> SocketAddr {
        self.base.trim_start_matches("http://").parse().unwrap()
    }
}
