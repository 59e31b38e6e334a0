//! Free loopback ports, and waiting until the right program answers on one.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::process::Daemon;

/// Between two attempts.
pub(super) const PAUSE: Duration = Duration::from_millis(5);

/// A greeting that takes longer than this is asked for again.
const GREETING: Duration = Duration::from_secs(2);

/// The lowest port that is chosen. Well-known services are below.
const LOWEST: u16 = 10_000;

/// A stack's ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) imap: u16,
    pub(super) lmtp: u16,
    pub(super) doveadm: u16,
    pub(super) smtp: u16,
    pub(super) submission: u16,
    pub(super) sink: u16,
    pub(super) milter: u16,
}

/// What came of waiting for a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The daemon that was meant greets.
    Ready,
    /// The daemon ended.
    Ended,
    /// Nothing, or somebody else, answered until the deadline.
    Nobody,
}

impl Ports {
    /// Ports that are free now. They are let go for the daemons to take, so another process may come first.
    pub(super) fn choose() -> anyhow::Result<Self> {
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

/// A listener on a free loopback port. It is none of those that outgoing connections get: such a connection could take a daemon's port while the daemon
/// is restarted.
pub(crate) fn free() -> io::Result<TcpListener> {
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

/// The lowest port of outgoing connections (ip(7), `ip_local_port_range`); Linux's default where it is not known or leaves too few ports below it.
fn first_outgoing() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let first = range.ok().and_then(|range| {
        let first = range.split_whitespace().next()?;
        first.parse::<u16>().ok()
    });
    first.filter(|first| *first >= 2 * LOWEST).unwrap_or(32_768)
}

/// A port of this machine's loopback.
pub(super) fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Waits until `daemon` greets at `port` with a line that holds `instance`: another stack's daemon that came first does not count.
pub(super) async fn greeted(
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
