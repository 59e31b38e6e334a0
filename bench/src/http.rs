//! The least of an HTTP/1.1 client: one warm connection, one request at a time, the answer read to its end and not looked into.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

/// A connection to the service.
pub(crate) struct Client<Stream = TcpStream> {
    stream: Stream,
    buffer: Vec<u8>,
    authorization: String,
}

/// An answer.
pub(crate) struct Answer {
    /// The status.
    pub(crate) status: u16,
    /// The body, where it was asked for.
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// Connects; requests carry `token`.
    pub(crate) fn connect(address: SocketAddr, token: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let authorization = format!("Authorization: Bearer {token}\r\n");
        Ok(Self::over(stream, authorization))
    }
}

impl Client<UnixStream> {
    /// Connects to the operator's socket, where no credential is asked for.
    pub(crate) fn operator(socket: &Path) -> anyhow::Result<Self> {
        Ok(Self::over(UnixStream::connect(socket)?, String::new()))
    }
}

impl<Stream: Read + Write> Client<Stream> {
    fn over(stream: Stream, authorization: String) -> Self {
        Self {
            stream,
            buffer: vec![0; 256 * 1024],
            authorization,
        }
    }

    /// Reads a resource and drops it. Answers how long its body was.
    pub(crate) fn get(&mut self, path: &str) -> anyhow::Result<usize> {
        let (status, length) = self.exchange("GET", path, "", |_| {})?;
        succeeded("GET", path, status, b"")?;
        Ok(length)
    }

    /// Reads a resource that is JSON.
    pub(crate) fn json(&mut self, path: &str) -> anyhow::Result<Value> {
        let answer = self.read(path)?;
        succeeded("GET", path, answer.status, &answer.body)?;
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// Reads a resource.
    pub(crate) fn read(&mut self, path: &str) -> anyhow::Result<Answer> {
        let mut body = Vec::new();
        let (status, _) = self.exchange("GET", path, "", |piece| body.extend_from_slice(piece))?;
        Ok(Answer { status, body })
    }

    /// Posts JSON.
    pub(crate) fn post(&mut self, path: &str, json: &str) -> anyhow::Result<Answer> {
        let mut body = Vec::new();
        let (status, _) =
            self.exchange("POST", path, json, |piece| body.extend_from_slice(piece))?;
        Ok(Answer { status, body })
    }

    /// Posts JSON that has to be answered 200. Answers the body.
    pub(crate) fn change(&mut self, path: &str, json: &str) -> anyhow::Result<Vec<u8>> {
        let answer = self.post(path, json)?;
        succeeded("POST", path, answer.status, &answer.body)?;
        Ok(answer.body)
    }

    fn exchange(
        &mut self,
        method: &str,
        path: &str,
        json: &str,
        mut on: impl FnMut(&[u8]),
    ) -> anyhow::Result<(u16, usize)> {
        let length = match json.len() {
            0 => String::new(),
            length => format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"),
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: bench\r\n{}{length}\r\n{json}",
            self.authorization
        );
        self.stream.write_all(request.as_bytes())?;
        let mut filled = 0;
        let (head, status, length) = loop {
            let read = self.stream.read(&mut self.buffer[filled..])?;
            if read == 0 {
                bail!("the service closed the connection");
            }
            filled += read;
            if let Some(head) = head(&self.buffer[..filled])? {
                break head;
            }
        };
        on(&self.buffer[head..filled]);
        let mut left = length - (filled - head);
        while left > 0 {
            let most = left.min(self.buffer.len());
            let read = self.stream.read(&mut self.buffer[..most])?;
            if read == 0 {
                bail!("the service ended an answer early");
            }
            on(&self.buffer[..read]);
            left -= read;
        }
        Ok((status, length))
    }
}

/// Says what is wrong with an answer that is not 200.
fn succeeded(method: &str, path: &str, status: u16, body: &[u8]) -> anyhow::Result<()> {
    let said = String::from_utf8_lossy(body);
    match status {
        200 => Ok(()),
        404 | 405 => bail!(
            "{method} {path} was answered {status} {said}: the service that is measured has no such route, or not what the bench asks of it"
        ),
        _ => bail!("{method} {path} was answered {status} {said}"),
    }
}

/// Where the body begins, the status, and how long the body is, once the head is there.
fn head(bytes: &[u8]) -> anyhow::Result<Option<(usize, u16, usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end])?;
    let status = head
        .get(9..12)
        .and_then(|status| status.parse().ok())
        .context("no status")?;
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .context("no length")?;
    Ok(Some((end + 4, status, length.parse()?)))
}
