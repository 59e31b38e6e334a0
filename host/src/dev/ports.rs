//! Free loopback ports, and waiting until the right program answers on one.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::process::Daemon;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// A greeting that takes longer than this is asked for again.
const GREETING: Duration = Duration::from_secs(2);

/// A stack's ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) imap: u16,
    pub(super) lmtp: u16,
    pub(super) doveadm: u16,
    pub(super) smtp: u16,
    pub(super) submission: u16,
    pub(super) sink: u16,
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
    /// Six ports that are free now. They are let go for the daemons to take, so another process may come first.
    pub(super) fn choose() -> anyhow::Result<Self> {
        let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let held = [
            listen()?,
            listen()?,
            listen()?,
            listen()?,
            listen()?,
            listen()?,
        ];
        let [imap, lmtp, doveadm, smtp, submission, sink] = held
            .each_ref()
            .map(|listener| listener.local_addr().map(|address| address.port()));
        Ok(Self {
            imap: imap?,
            lmtp: lmtp?,
            doveadm: doveadm?,
            smtp: smtp?,
            submission: submission?,
            sink: sink?,
        })
    }
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
