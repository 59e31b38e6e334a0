//! Finds free loopback ports, and waits until the expected program responds on a port.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::process::Daemon;

/// The time between two attempts.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);

/// The timeout of one attempt to read a greeting.
const GREETING: Duration = Duration::from_secs(2);

/// The lowest port that is chosen. Well-known services use lower ports.
const LOWEST: u16 = 10_000;

/// The ports of a stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) imap: u16,
    pub(crate) lmtp: u16,
    pub(crate) doveadm: u16,
    pub(crate) smtp: u16,
    pub(crate) submission: u16,
    pub(crate) sink: u16,
    pub(crate) milter: u16,
}

/// The result of waiting for a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The expected daemon sent its greeting.
    Ready,
    /// The daemon exited.
    Ended,
    /// There was no response, or a response of another program, until the deadline.
    Nobody,
}

impl Ports {
    /// Returns ports that are currently free. They are released for the daemons, so another process may take them first.
    pub(crate) fn choose() -> anyhow::Result<Self> {
        let held = [
            free()?,
            free()?,
            free()?,
            free()?,
            free()?,
            free()?,
            free()?,
        ];
        let [imap, lmtp, doveadm, smtp, submission, sink, milter] = held
            .each_ref()
            .map(|listener| listener.local_addr().map(|address| address.port()));
        Ok(Self {
            imap: imap?,
            lmtp: lmtp?,
            doveadm: doveadm?,
            smtp: smtp?,
            submission: submission?,
            sink: sink?,
            milter: milter?,
        })
    }
}

/// Returns a listener on a free loopback port outside the range for outgoing connections. An outgoing connection could take a daemon's port during a restart of
/// the daemon.
///
/// # Errors
/// Returns the error of the operating system.
pub fn free() -> io::Result<TcpListener> {
    let end = first_outgoing();
    loop {
        let random = getrandom::u32().map_err(io::Error::other)?;
        let port = LOWEST + u16::try_from(random % u32::from(end - LOWEST)).unwrap_or(0);
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return bound,
        }
    }
}

/// Returns the lowest port of outgoing connections (ip(7), `ip_local_port_range`). Returns Linux's default if the value is unknown or leaves too few ports
/// below it.
fn first_outgoing() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let first = range.ok().and_then(|range| {
        let first = range.split_whitespace().next()?;
        first.parse::<u16>().ok()
    });
    first.filter(|first| *first >= 2 * LOWEST).unwrap_or(32_768)
}

/// Returns a loopback address with this port.
pub(crate) fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Waits until `daemon` sends a greeting at `port` that contains `instance`. A daemon of another stack on the same port does not count.
pub(crate) async fn greeted(
    port: u16,
    instance: &str,
    daemon: &mut Daemon,
    deadline: Instant,
) -> anyhow::Result<Answer> {
    loop {
        if daemon.ended()? {
            return Ok(Answer::Ended);
        }
        if greeting(port)
            .await
            .is_some_and(|line| line.contains(instance))
        {
            return Ok(Answer::Ready);
        }
        if Instant::now() >= deadline {
            return Ok(Answer::Nobody);
        }
        sleep(PAUSE).await;
    }
}

async fn greeting(port: u16) -> Option<String> {
    let read = async {
        let mut stream = TcpStream::connect(local(port))
            .await
            .context("nobody listens")?;
        let mut line = Vec::new();
        while !line.contains(&b'\n') && line.len() < 1024 {
            if stream.read_buf(&mut line).await? == 0 {
                break;
            }
        }
        anyhow::Ok(String::from_utf8_lossy(&line).into_owned())
    };
    timeout(GREETING, read).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_free_and_no_outgoing_connection_gets_it() {
        let listener = free().unwrap();
        let address = listener.local_addr().unwrap();
        assert!((LOWEST..first_outgoing()).contains(&address.port()));
        drop(listener);
        TcpListener::bind(address).unwrap();
    }
}
