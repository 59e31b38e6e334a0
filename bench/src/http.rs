//! A minimal HTTP/1.1 client: one connection, one request at a time. It reads responses completely
//! and parses only their heads.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;

/// Maximum time without a byte of a response. The service has a deadline of 30 seconds for each
/// request.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(1);

/// A connection to the service.
pub(crate) struct Client<Stream = TcpStream> {
    stream: Stream,
    buffer: Vec<u8>,
    /// The headers that every request has.
    headers: String,
    /// The head of the last response. `None` if the client does not keep it.
    head: Option<String>,
}

/// A response.
pub(crate) struct Response {
    /// HTTP status.
    pub(crate) status: u16,
    /// Response body.
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// Connects. Requests are authenticated with `token`.
    pub(crate) fn connect(address: SocketAddr, token: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
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
    fn over(stream: Stream, headers: String) -> Self {
        Self {
            stream,
            buffer: vec![0; 256 * 1024],
            headers,
            head: None,
        }
    }

    /// Requests a resource and returns a header of the response.
    pub(crate) fn header(&mut self, path: &str, name: &str) -> anyhow::Result<String> {
        self.head = Some(String::new());
        let (status, _) = self.send("GET", path, NO_BODY, |_| {})?;
        check_status("GET", path, status, b"")?;
        let prefix = format!("{name}: ");
        let head = self.head.take().unwrap_or_default();
        let value = head.lines().find_map(|line| line.strip_prefix(&prefix));
        let missing = || format!("{path} returned no header {name}");
        Ok(value.with_context(missing)?.to_owned())
    }

    /// Adds a header to every further request.
    pub(crate) fn add_header(&mut self, name: &str, value: &str) {
        for part in [name, ": ", value, "\r\n"] {
            self.headers.push_str(part);
        }
    }

    /// Requests a resource that the client has already. Returns an error unless the status is 304.
    pub(crate) fn get_unchanged(&mut self, path: &str) -> anyhow::Result<()> {
        let (status, _) = self.send("GET", path, NO_BODY, |_| {})?;
        anyhow::ensure!(status == 304, "GET {path}: {status} instead of 304");
        Ok(())
    }

    /// Requests a resource, discards the body and returns its length in bytes.
    pub(crate) fn get(&mut self, path: &str) -> anyhow::Result<usize> {
        let (status, length) = self.send("GET", path, NO_BODY, |_| {})?;
        check_status("GET", path, status, b"")?;
        Ok(length)
    }

    /// Requests a resource and parses it as JSON.
    pub(crate) fn json(&mut self, path: &str) -> anyhow::Result<Value> {
        let response = self.response(path)?;
        check_status("GET", path, response.status, &response.body)?;
        Ok(serde_json::from_slice(&response.body)?)
    }

    /// Requests a resource. Any status is a success.
    pub(crate) fn response(&mut self, path: &str) -> anyhow::Result<Response> {
        let mut body = Vec::new();
        let (status, _) = self.send("GET", path, NO_BODY, |piece| body.extend_from_slice(piece))?;
        Ok(Response { status, body })
    }

    /// Sends a POST request with a JSON body. Any status is a success.
    pub(crate) fn post(&mut self, path: &str, json: &str) -> anyhow::Result<Response> {
        let mut body = Vec::new();
        let sent = ("application/json", json.as_bytes());
        let (status, _) = self.send("POST", path, sent, |piece| body.extend_from_slice(piece))?;
        Ok(Response { status, body })
    }

    /// Sends a POST request with a message (RFC 5322). Any status is a success.
    pub(crate) fn post_message(&mut self, path: &str, message: &[u8]) -> anyhow::Result<Response> {
        let mut body = Vec::new();
        let sent = ("message/rfc822", message);
        let (status, _) = self.send("POST", path, sent, |piece| body.extend_from_slice(piece))?;
        Ok(Response { status, body })
    }

    /// Sends a POST request with a JSON body, checks that the status is 200, and returns the body.
    pub(crate) fn post_ok(&mut self, path: &str, json: &str) -> anyhow::Result<Vec<u8>> {
        let response = self.post(path, json)?;
        check_status("POST", path, response.status, &response.body)?;
        Ok(response.body)
    }

    /// Sends a PUT request with a JSON body, and checks that the status is 200.
    pub(crate) fn put_ok(&mut self, path: &str, json: &str) -> anyhow::Result<()> {
        let mut body = Vec::new();
        let sent = ("application/json", json.as_bytes());
        let (status, _) = self.send("PUT", path, sent, |piece| body.extend_from_slice(piece))?;
        check_status("PUT", path, status, &body)
    }

    fn send(
        &mut self,
        method: &str,
        path: &str,
        (content_type, sent): (&str, &[u8]),
        mut on_body: impl FnMut(&[u8]),
    ) -> anyhow::Result<(u16, usize)> {
        let length = match sent.len() {
            0 => String::new(),
            length => format!("Content-Type: {content_type}\r\nContent-Length: {length}\r\n"),
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: bench\r\n{}{length}\r\n",
            self.headers
        );
        self.stream
            .write_all(&[request.as_bytes(), sent].concat())?;
        let mut filled = 0;
        let (head, status, length) = loop {
            let read = self.stream.read(&mut self.buffer[filled..])?;
            if read == 0 {
                bail!("the service closed the connection");
            }
            filled += read;
            if let Some(found) = head(&self.buffer[..filled])? {
                if let Some(kept) = &mut self.head {
                    *kept = String::from_utf8_lossy(&self.buffer[..found.0]).into_owned();
                }
                break found;
            }
        };
        on_body(&self.buffer[head..filled]);
        let mut remaining = length - (filled - head);
        while remaining > 0 {
            let limit = remaining.min(self.buffer.len());
            let read = self.stream.read(&mut self.buffer[..limit])?;
            if read == 0 {
                bail!("the service closed the connection before the end of a response");
            }
            on_body(&self.buffer[..read]);
            remaining -= read;
        }
        Ok((status, length))
    }
}

/// The media type and the bytes of a request without a body.
const NO_BODY: (&str, &[u8]) = ("", b"");

/// Returns an error that describes the response unless its status is 200.
fn check_status(method: &str, path: &str, status: u16, body: &[u8]) -> anyhow::Result<()> {
    let message = String::from_utf8_lossy(body);
    match status {
        200 => Ok(()),
        404 | 405 => bail!(
            "{method} {path}: {status} {message}; the measured service does not have the route or the requested object"
        ),
        _ => bail!("{method} {path}: {status} {message}"),
    }
}

/// Returns the start of the body, the status, and the length of the body, once the head is
/// complete.
fn head(bytes: &[u8]) -> anyhow::Result<Option<(usize, u16, usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end])?;
    let status = head
        .get(9..12)
        .and_then(|status| status.parse().ok())
        .context("the response has no status")?;
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length = match (status, length) {
        // A response with the status 304 has no body (RFC 9110, section 15.4.5).
        (304, _) => 0,
        (_, length) => length
            .context("the response has no Content-Length")?
            .parse()?,
    };
    Ok(Some((end + 4, status, length)))
}
