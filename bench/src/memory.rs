//! Measures the memory of the host: idle, per connection, and during downloads.

use std::fs;
use std::io::Read as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::mailbox::{Known, Mailbox};
use crate::report::Report;
use crate::service::Service;

/// Number of idle HTTP connections in the measurement.
const IDLE_CONNECTIONS: usize = 500;
/// Number of accounts with one connection to the mail server each.
const ACCOUNTS: usize = 100;
/// Number of concurrent downloads.
const CONCURRENT: usize = 8;
/// Target: maximum increase by one download of 20 MB, in KiB.
const DOWNLOAD_TARGET: f64 = 8.0 * 1024.0;

/// The memory is settled if it has not decreased for this time. The service frees the memory for
/// hashing passwords up to 20 seconds after the last password. With a shorter time, only some of
/// the compared measurements would include this memory.
const SETTLED: Duration = Duration::from_secs(25);
/// Maximum time until the memory is settled.
const SETTLE_TIMEOUT: Duration = Duration::from_mins(2);
/// A smaller decrease than this is ignored, in KiB.
const DECREASE: f64 = 64.0;

/// Measures the host after its start, before the first request.
pub(crate) fn idle(service: &Service, report: &mut Report) -> anyhow::Result<()> {
    report.memory("idle host", least(service.pid(), "VmRSS:")?, None);
    Ok(())
}

/// Measures the increase per client connection and per connection to the mail server.
///
/// A first request of each kind precedes the measurement, so that the memory of the first sandbox
/// and of the caches does not count.
pub(crate) fn connections(service: &Service, report: &mut Report) -> anyhow::Result<()> {
    let tokens = (0..=ACCOUNTS)
        .map(|number| service.register(&format!("person{number}")))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let list = |token: &str| service.http_of(token)?.get("/api/v1/mail/folders");
    list(&tokens[ACCOUNTS])?;
    let before = settled(service.pid())?;
    let idle = (0..IDLE_CONNECTIONS)
        .map(|_| TcpStream::connect(service.address()))
        .collect::<Result<Vec<_>, _>>()?;
    // The host accepts connections in order, so it has accepted all idle connections when it
    // responds to this one.
    service.http()?.get("/api/health")?;
    // The service closes connections without a request before the memory is settled.
    let after = least(service.pid(), "RssAnon:")?;
    drop(idle);
    #[expect(clippy::cast_precision_loss, reason = "a count of connections")]
    let each = |added: f64, count: usize| added / count as f64;
    report.memory(
        "idle HTTP connection",
        each(after - before, IDLE_CONNECTIONS),
        None,
    );

    let before = settled(service.pid())?;
    for token in &tokens[..ACCOUNTS] {
        list(token)?;
    }
    let after = settled(service.pid())?;
    report.memory(
        "pooled IMAP connection",
        each(after - before, ACCOUNTS),
        None,
    );
    Ok(())
}

/// Measures the peak increase by downloads of 20 MB, one at a time and several concurrently.
pub(crate) fn downloads(
    service: &Service,
    mailbox: &Mailbox,
    report: &mut Report,
) -> anyhow::Result<()> {
    let path = format!(
        "/api/v1/mail/messages/{}/attachments/0",
        mailbox.known(Known::LargeAttachment).uid
    );
    settled(service.pid())?;
    let before = least(service.pid(), "VmRSS:")?;
    for concurrent in [1, CONCURRENT] {
        reset_peak(service.pid())?;
        let clients: Vec<_> = (0..concurrent)
            .map(|_| service.http())
            .collect::<anyhow::Result<_>>()?;
        std::thread::scope(|scope| {
            let downloads: Vec<_> = clients
                .into_iter()
                .map(|mut client| {
                    let path = &path;
                    scope.spawn(move || client.get(path))
                })
                .collect();
            downloads.into_iter().try_for_each(|download| {
                let length = download.join().expect("a download panicked")?;
                anyhow::ensure!(
                    length == 20 * 1024 * 1024,
                    "the download has {length} bytes"
                );
                Ok(())
            })
        })?;
        let added = peak(service.pid())? - before;
        #[expect(clippy::cast_precision_loss, reason = "a count of downloads")]
        let each = added / concurrent as f64;
        let name = format!("download of 20 MB, {concurrent} concurrent, each");
        report.memory(&name, each, Some(DOWNLOAD_TARGET));
    }
    Ok(())
}

/// Returns the least value of a line of `/proc/PID/status` within half a second, in KiB.
fn least(pid: u32, key: &str) -> anyhow::Result<f64> {
    // The allocator and the kernel release memory some time after the last request.
    let deadline = Instant::now() + Duration::from_millis(500);
    let mut least = status_kib(pid, key)?;
    while Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
        least = least.min(status_kib(pid, key)?);
    }
    Ok(least)
}

/// Returns the resident anonymous memory in KiB: the heap and the stacks, but no mapped files.
///
/// The pages of mapped files belong to the page cache. The kernel reclaims them when it needs
/// memory, so the process does not need them.
pub(crate) fn anonymous(pid: u32) -> anyhow::Result<f64> {
    status_kib(pid, "RssAnon:")
}

/// Waits until the anonymous memory does not decrease, and returns it in KiB. The allocator returns
/// memory to the kernel some time after its last use.
pub(crate) fn settled(pid: u32) -> anyhow::Result<f64> {
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    let (mut least, mut since) = (anonymous(pid)?, Instant::now());
    while since.elapsed() < SETTLED && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(200));
        let now = anonymous(pid)?;
        if now < least - DECREASE {
            (least, since) = (now, Instant::now());
        }
    }
    Ok(least)
}

/// Returns the peak resident memory since [`reset_peak`] in KiB.
fn peak(pid: u32) -> anyhow::Result<f64> {
    status_kib(pid, "VmHWM:")
}

/// Resets the peak that [`peak`] returns.
fn reset_peak(pid: u32) -> anyhow::Result<()> {
    // Writing 5 resets the peak (proc(5)).
    Ok(fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}

fn status_kib(pid: u32, key: &str) -> anyhow::Result<f64> {
    let mut status = String::new();
    fs::File::open(format!("/proc/{pid}/status"))?.read_to_string(&mut status)?;
    status
        .lines()
        .find_map(|line| line.strip_prefix(key)?.trim().strip_suffix(" kB"))
        .and_then(|kib| kib.parse().ok())
        .with_context(|| format!("/proc/{pid}/status has no {key}"))
}
