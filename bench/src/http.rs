//! A minimal HTTP/1.1 client: one connection, one request at a time. Responses are read completely and not parsed.

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

/// A response.
pub(crate) struct Answer {
    /// HTTP status.
    pub(crate) status: u16,
    /// The body, if it was requested.
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// Connects. Requests are authenticated with `token`.
    pub(crate) fn connect(address: SocketAddr, token: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let authorization = format!("Authorization: Bearer {token}\r\n");
        Ok(Self::over(stream, authorization))
    }
}

impl Client<UnixStream> {
    /// Connects to the operator's socket, which needs no credential.
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

    /// Requests a resource, discards the body and returns its length in bytes.
    pub(crate) fn get(&mut self, path: &str) -> anyhow::Result<usize> {
        let (status, length) = self.exchange("GET", path, "", |_| {})?;
        succeeded("GET", path, status, b"")?;
        Ok(length)
    }

    /// Requests a resource and parses it as JSON.
    pub(crate) fn json(&mut self, path: &str) -> anyhow::Result<Value> {
        let answer = self.read(path)?;
        succeeded("GET", path, answer.status, &answer.body)?;
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// Requests a resource.
    pub(crate) fn read(&mut self, path: &str) -> anyhow::Result<Answer> {
        let mut body = Vec::new();
        let (status, _) = self.exchange("GET", path, "", |piece| body.extend_from_slice(piece))?;
        Ok(Answer { status, body })
    }

    /// Sends a POST request with a JSON body.
    pub(crate) fn post(&mut self, path: &str, json: &str) -> anyhow::Result<Answer> {
        let mut body = Vec::new();
        let (status, _) =
            self.exchange("POST", path, json, |piece| body.extend_from_slice(piece))?;
        Ok(Answer { status, body })
    }

    /// Sends a POST request with a JSON body, checks that the status is 200, and returns the body.
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
                bail!("the service closed the connection before the end of a response");
            }
            on(&self.buffer[..read]);
            left -= read;
        }
        Ok((status, length))
    }
}

/// Returns an error that describes the response unless its status is 200.
fn succeeded(method: &str, path: &str, status: u16, body: &[u8]) -> anyhow::Result<()> {
    let said = String::from_utf8_lossy(body);
    match status {
        200 => Ok(()),
        404 | 405 => bail!(
            "{method} {path}: {status} {said}; the measured service lacks the route or the requested object"
        ),
        _ => bail!("{method} {path}: {status} {said}"),
    }
}

/// Returns the start of the body, the status, and the length of the body, once the head is complete.
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
