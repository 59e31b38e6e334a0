//! `latchmail health`: checks that the service on this machine responds. Container images use this
//! command as their health check.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use latchmail_core::config::{Config, Listen};
use latchmail_net::endpoint::{Io, encrypt_local};
use latchmail_terminal::output::print_line;
use latchmail_transport::client::TrustedProxies;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::context::ServiceArgs;

/// The time limit for the response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The header of the PROXY protocol, version 1, for a connection that does not belong to a client
/// of the proxy.
const PROXY_HEADER: &[u8] = b"PROXY UNKNOWN\r\n";

/// Requests `GET /api/health` at the address in `listen`. Does not verify the certificate of the
/// service.
///
/// # Errors
/// Returns an error if the service does not respond with status 200 in time.
pub async fn run(service: &ServiceArgs) -> anyhow::Result<()> {
    let config = service.load_config()?;
    let listen = match &config.listen {
        Listen::Tcp(address) if address.port() == 0 => {
            bail!("`listen` has port 0, so the port of the service is unknown")
        }
        Listen::Tcp(address) => Listen::Tcp(reachable(*address)),
        Listen::Unix(path) => Listen::Unix(path.clone()),
    };
    let status = timeout(TIMEOUT, status(&config, &listen))
        .await
        .unwrap_or_else(|_| bail!("no response in {} s", TIMEOUT.as_secs()))
        .with_context(|| format!("the service at {listen} is not healthy"))?;
    if status != StatusCode::OK {
        bail!("the service at {listen} is not healthy: status {status}");
    }
    print_line(&format!("The service at {listen} is healthy."))
}

async fn status(config: &Config, listen: &Listen) -> anyhow::Result<StatusCode> {
    let (mut stream, is_proxy): (Box<dyn Io>, bool) = match listen {
        Listen::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            let proxies = TrustedProxies::parse(&config.http.trusted_proxies)?;
            let is_proxy = proxies.contains(stream.local_addr()?.ip().to_canonical());
            (Box::new(stream), is_proxy)
        }
        Listen::Unix(path) => (Box::new(UnixStream::connect(path).await?), true),
    };
    if config.http.proxy_protocol && is_proxy {
        stream.write_all(PROXY_HEADER).await?;
    }
    if config.serves_tls() {
        stream = Box::new(encrypt_local(stream).await?);
    }
    let request = Request::get("/api/health")
        .header(header::HOST, "localhost")
        .body(Full::default())?;
    send(stream, request).await
}

/// Sends a request on a new connection, and returns the status of the response.
pub(crate) async fn send(
    stream: Box<dyn Io>,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<StatusCode> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let exchange = sender.send_request(request);
    tokio::pin!(exchange);
    let response = tokio::select! {
        // The response and the end of the connection can arrive together. Poll the response first,
        // so that the response is not lost.
        biased;
        response = &mut exchange => response,
        _ = connection => exchange.await,
    };
    Ok(response?.status())
}

/// Returns the address for clients on this machine. A service that listens on all addresses also
/// listens on the loopback address.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use super::reachable;

    #[test]
    fn a_service_on_all_addresses_is_checked_on_the_loopback_address() {
        for (listen, expected) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            ("192.0.2.1:80", "192.0.2.1:80"),
        ] {
            assert_eq!(reachable(listen.parse().unwrap()).to_string(), expected);
        }
    }
}
