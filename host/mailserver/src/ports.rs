//! Finds free loopback ports, and reads the greeting of a daemon on a port.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The timeout of one attempt to read a greeting.
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);

/// The lowest port that can be chosen. Well-known services use lower ports.
const MIN_PORT: u16 = 10_000;

/// The ports of the local servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) imap: u16,
    pub(crate) lmtp: u16,
    pub(crate) doveadm: u16,
    /// The address to which Dovecot sends notices about changes. The service listens there. Nothing
    /// else uses the IP address, so the port stays free while no service runs.
    pub(crate) notices: SocketAddr,
    pub(crate) sieve: u16,
    pub(crate) smtp: u16,
    pub(crate) submission: u16,
    /// The port at which Dovecot submits the messages of Sieve scripts.
    pub(crate) scripts: u16,
    pub(crate) sink: u16,
    pub(crate) milter: u16,
}

impl Ports {
    /// Returns ports that are currently free. Another process can take a port before the daemon
    /// opens it.
    pub(crate) fn choose() -> anyhow::Result<Self> {
        let listeners = [
            free_port()?,
            free_port()?,
            free_port()?,
            free_port()?,
            free_port()?,
            free_port()?,
            free_port()?,
            free_port()?,
            free_port()?,
        ];
        let [
            imap,
            lmtp,
            doveadm,
            sieve,
            smtp,
            submission,
            scripts,
            sink,
            milter,
        ] = listeners
            .each_ref()
            .map(|listener| listener.local_addr().map(|address| address.port()));
        Ok(Self {
            imap: imap?,
            lmtp: lmtp?,
            doveadm: doveadm?,
            notices: TcpListener::bind((own_loopback(), 0))?.local_addr()?,
            sieve: sieve?,
            smtp: smtp?,
            submission: submission?,
            scripts: scripts?,
            sink: sink?,
            milter: milter?,
        })
    }
}

/// Returns a listener on a free loopback port. The port is outside the port range for outgoing
/// connections. Therefore no outgoing connection can take the port of a daemon while the daemon
/// restarts.
///
/// # Errors
/// Returns an error if the system cannot supply a random number or cannot open the port.
pub fn free_port() -> io::Result<TcpListener> {
    let end = first_outgoing_port();
    loop {
        let random = getrandom::u32().map_err(io::Error::other)?;
        let port = MIN_PORT + u16::try_from(random % u32::from(end - MIN_PORT)).unwrap_or(0);
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return bound,
        }
    }
}

/// Returns a loopback address without a port that no other program uses. So its ports stay free
/// while a server there is stopped.
#[must_use]
pub fn own_loopback() -> Ipv4Addr {
    let [a, b, c, ..] = RandomState::new().hash_one(()).to_ne_bytes();
    // The first numbers are in use on some systems.
    Ipv4Addr::new(127, a.max(16), b, c.clamp(1, 254))
}

/// Returns the lowest port for outgoing connections (ip(7), `ip_local_port_range`). Returns Linux's
/// default if the value is unknown or too low.
fn first_outgoing_port() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let first = range.ok().and_then(|range| {
        let first = range.split_whitespace().next()?;
        first.parse::<u16>().ok()
    });
    first
        .filter(|first| *first >= 2 * MIN_PORT)
        .unwrap_or(32_768)
}

pub(crate) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Returns whether a daemon sends a greeting on `port` that contains `instance`. A greeting without
/// `instance` comes from a daemon of other local servers.
pub(crate) async fn is_greeting(port: u16, instance: &str) -> bool {
    let line = read_greeting(port).await;
    line.is_some_and(|line| line.contains(instance))
}

async fn read_greeting(port: u16) -> Option<String> {
    let read = async {
        let mut stream = TcpStream::connect(loopback(port)).await?;
        let mut line = Vec::new();
        while !line.contains(&b'\n') && line.len() < 1024 {
            if stream.read_buf(&mut line).await? == 0 {
                break;
            }
        }
        anyhow::Ok(String::from_utf8_lossy(&line).into_owned())
    };
    timeout(GREETING_TIMEOUT, read).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_free_and_outside_the_range_for_outgoing_connections() {
        let listener = free_port().unwrap();
        let address = listener.local_addr().unwrap();
        assert!((MIN_PORT..first_outgoing_port()).contains(&address.port()));
        drop(listener);
        TcpListener::bind(address).unwrap();
    }
}
