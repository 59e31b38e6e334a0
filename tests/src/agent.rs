//! An agent of a user, and a proxy that adds a token for clients without one.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::{Person, Response, Service};

/// An agent with an access token.
#[derive(Clone, Debug)]
pub struct Agent<'a> {
    service: &'a Service,
    token: String,
}

impl<'a> Agent<'a> {
    /// Registers a client and returns an agent for this person's mailbox.
    pub async fn for_person(person: &Person<'a>) -> Self {
        Self {
            service: person.service,
            token: person.oauth_token().await,
        }
    }

    /// Returns an agent with this access token.
    pub fn with_token(service: &'a Service, token: &str) -> Self {
        Self {
            service,
            token: token.to_owned(),
        }
    }

    /// Returns the response to a request in revision 2026-07-28.
    pub async fn send(&self, method: &str, mut params: Value) -> Response {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let mut request = self
            .request("POST /mcp")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method);
        if let Some(name) = params["name"].as_str() {
            request = request.header("mcp-name", name);
        }
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        Response::of(request.json(&message)).await
    }

    /// Returns a request with the agent's token.
    pub fn request(&self, line: &str) -> reqwest::RequestBuilder {
        self.service.request(line).bearer_auth(&self.token)
    }

    /// Calls a tool, which must succeed, and returns the result.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let response = self.send("tools/call", params).await.succeeds(200);
        let result = &response["result"];
        assert_eq!(result["isError"], false, "{response}");
        result["structuredContent"].clone()
    }
}

/// A local proxy that adds a token to every request and forwards the request otherwise unchanged.
/// Each connection has one request.
#[derive(Debug)]
pub struct TokenProxy {
    /// The address on which it listens.
    pub address: SocketAddr,
    serving: JoinHandle<()>,
}

impl TokenProxy {
    /// Starts a proxy in front of the service at `base`, `http://address`.
    pub async fn start(base: &str, token: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let target: SocketAddr = base.strip_prefix("http://").unwrap().parse().unwrap();
        let added = format!("Authorization: Bearer {token}\r\nConnection: close\r\n");
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let added = added.clone();
                connections.spawn(async move {
                    // A client that disconnects ends only its own connection.
                    let _ = forward_with_header(client, target, &added).await;
                });
            }
        });
        Self { address, serving }
    }
}

impl Drop for TokenProxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn forward_with_header(
    mut client: TcpStream,
    target: SocketAddr,
    added: &str,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    let ends = loop {
        if let Some(at) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 2;
        }
        if client.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    };
    let mut service = TcpStream::connect(target).await?;
    let lines = head[..ends].split_inclusive(|byte| *byte == b'\n');
    for line in lines.filter(|line| !line.to_ascii_lowercase().starts_with(b"connection:")) {
        service.write_all(line).await?;
    }
    service.write_all(added.as_bytes()).await?;
    service.write_all(&head[ends..]).await?;
    tokio::io::copy_bidirectional(&mut client, &mut service).await?;
    Ok(())
}
